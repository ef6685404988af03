//! The listeners of one Gateway: which of them are valid, where Envoy binds them, and which routes may attach.
//!
//! [`parser`] parses a whole Gateway, [`fields`] a single listener, and [`certificates`] its key pairs. [`conflicts`] decides
//! which of two contradicting listeners is served.

mod certificates;
mod conflicts;
mod fields;
mod parser;

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

pub use parser::parse;

use super::hostname::covers;
use crate::model::{Host, ListenerId, SecretId};
use crate::objects::gateway::{LabelSelector, RouteKind};
use crate::objects::{Kind, Namespace, ObjectKey, Precedence, Revision, Transport};
use crate::translate::dialect::Reading;
use crate::translate::graph::Input;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::Reads;
use crate::translate::verdict::{Status, Verdict};

/// A Gateway, parsed.
#[derive(Debug, PartialEq)]
pub struct Gateway {
    /// A reference to it.
    pub origin: ObjectRef,
    /// The hash of its content.
    pub revision: Revision,
    /// Its rank among objects.
    pub precedence: Precedence,
    /// The first port of its home ([`super::home`]).
    pub home: u16,
    /// The listeners, in the order of the spec.
    pub listeners: Box<[Listener]>,
    /// The ports that its Service must have, sorted.
    pub ports: Vec<(Transport, u16)>,
    /// The inputs that it was made from.
    pub reads: Reads,
    /// The conditions of its status, except for the numbers of attached routes.
    pub verdicts: Box<[Verdict]>,
}

/// A listener of a Gateway, parsed.
#[derive(Debug, PartialEq)]
pub struct Listener {
    /// The name.
    pub name: Arc<str>,
    /// The host names that it accepts: all of them without TLS and HTTP.
    pub host: Host,
    /// The port that clients connect to.
    pub port: u16,
    /// The protocol; `None` if it is not supported.
    pub protocol: Option<Protocol>,
    /// The kinds of routes that may attach.
    pub kinds: Vec<RouteKind>,
    /// The namespaces of the routes that may attach.
    pub namespaces: Namespaces,
    /// The Envoy listener and the port on which it listens. `None`: the listener is not valid, or has no port yet.
    pub bound: Option<(ListenerId, u16)>,
}

impl Listener {
    /// Returns the transport protocol and the port that clients use, if the protocol is supported.
    fn place(&self) -> Option<(Transport, u16)> {
        Some((self.protocol.as_ref()?.transport(), self.port))
    }
}

/// The protocol of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP in plain text.
    Http,
    /// HTTP over TLS, with these key pairs.
    Https(Vec<SecretId>),
    /// TLS connections that are terminated, with these key pairs.
    Tls(Vec<SecretId>),
    /// TLS connections that are not terminated.
    Passthrough,
    /// TCP connections.
    Tcp,
    /// UDP datagrams.
    Udp,
}

impl Protocol {
    /// Returns the protocol of all listeners that may share a port with this one, as the API names it.
    fn name(&self) -> &'static str {
        match self {
            Self::Http => "HTTP",
            Self::Https(_) => "HTTPS",
            Self::Tls(_) | Self::Passthrough => "TLS",
            Self::Tcp => "TCP",
            Self::Udp => "UDP",
        }
    }

    /// Returns the transport protocol of its ports.
    pub fn transport(&self) -> Transport {
        match self {
            Self::Http | Self::Https(_) | Self::Tls(_) | Self::Passthrough | Self::Tcp => Transport::Tcp,
            Self::Udp => Transport::Udp,
        }
    }

    /// Returns the kinds of routes that may attach.
    fn kinds(&self) -> &'static [&'static str] {
        match self {
            Self::Http | Self::Https(_) => &["HTTPRoute", "GRPCRoute"],
            Self::Tls(_) => &["TLSRoute", "TCPRoute"],
            Self::Passthrough => &["TLSRoute"],
            Self::Tcp => &["TCPRoute"],
            Self::Udp => &["UDPRoute"],
        }
    }

    /// Returns whether it lacks a usable key pair.
    fn lacks_pairs(&self) -> bool {
        match self {
            Self::Https(pairs) | Self::Tls(pairs) => pairs.is_empty(),
            Self::Http | Self::Passthrough | Self::Tcp | Self::Udp => false,
        }
    }
}

/// A set of namespaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Namespaces {
    /// Every namespace.
    All,
    /// The namespace of the Gateway.
    Same,
    /// Namespaces with certain labels.
    Selected(LabelSelector),
    /// No namespace.
    None,
}

impl Gateway {
    /// Returns its key.
    pub fn key(&self) -> &ObjectKey {
        &self.precedence.key
    }

    /// Returns the problems of its listeners and of itself: every condition that does not hold as it should.
    pub fn problems(&self) -> Box<[Arc<Problem>]> {
        let is_fault = |verdict: &&Verdict| verdict.status == Status::False && verdict.condition != "Conflicted";
        let faults = self.verdicts.iter().filter(is_fault);
        let problem = |verdict: &Verdict| {
            let field = verdict.listener.as_ref().map(|name| format!("spec.listeners[{name:?}]")).unwrap_or_default();
            let (object, message) = (self.origin.clone(), format!("{}: {}", verdict.reason, verdict.message));
            let listener = self.listeners.iter().find(|listener| verdict.listener.as_ref() == Some(&listener.name));
            let lacks_pairs =
                listener.and_then(|listener| listener.protocol.as_ref()).is_some_and(Protocol::lacks_pairs);
            let consequence = match verdict.condition {
                "Accepted" => "not served",
                _ if lacks_pairs => "not served",
                _ => "served without this reference",
            };
            let reason = Reason::ListenerNotValid;
            Arc::new(Problem { object, field, reason, message, consequence: consequence.to_owned() })
        };
        faults.map(problem).collect()
    }

    /// Returns the ports on which Envoys listen for it.
    pub fn binds(&self) -> BTreeSet<(Transport, u16)> {
        let bind = |listener: &Listener| Some((listener.place()?.0, listener.bound.as_ref()?.1));
        self.listeners.iter().filter_map(bind).collect()
    }

    /// Removes its listeners from a port that another Gateway has.
    pub fn release(&mut self, bind: (Transport, u16)) {
        let message = || format!("another Gateway has port {} of the Envoys", bind.1);
        for listener in &mut self.listeners {
            let at = listener.place().map(|place| place.0).zip(listener.bound.as_ref().map(|(_, port)| *port));
            if at != Some(bind) {
                continue;
            }
            listener.bound = None;
            let refused = Verdict::new(self.origin.clone(), "Accepted", Status::False, "PortUnavailable");
            let refused = Verdict { listener: Some(listener.name.clone()), message: message(), ..refused };
            self.verdicts = self.verdicts.iter().cloned().chain([refused]).collect();
        }
    }

    /// Returns the listeners on the same Envoy listener.
    pub fn on<'a>(&'a self, id: &'a ListenerId) -> impl Iterator<Item = &'a Listener> {
        self.listeners.iter().filter(move |listener| listener.bound.as_ref().is_some_and(|(other, _)| other == id))
    }

    /// Returns whether `listener` owns `host`: of all listeners on its port that cover the host, it has the most specific
    /// pattern. Source: Gateway API v1, `Listener.hostname`, and the feature
    /// `GatewayHTTPListenerIsolation`.
    pub fn owns(&self, listener: &Listener, host: &Host) -> bool {
        let closer = |other: &Listener| {
            other.host != listener.host && covers(&listener.host, &other.host) && covers(&other.host, host)
        };
        match &listener.bound {
            Some((id, _)) => !self.on(id).any(closer),
            None => true,
        }
    }
}

impl Namespaces {
    /// Returns whether routes of `namespace` may attach to a listener of a Gateway in the namespace `own`.
    pub fn allow(&self, namespace: &Arc<str>, own: &Arc<str>, reading: &mut Reading) -> bool {
        match self {
            Self::All => true,
            Self::Same => namespace == own,
            Self::None => false,
            Self::Selected(selector) => {
                let key = ObjectKey { namespace: "".into(), name: namespace.clone() };
                let object = reading.context.objects.get::<Namespace>(&key);
                reading.record(Input::new(Kind::NAMESPACE, key));
                object.is_some_and(|namespace| selector.selects(&namespace.labels))
            }
        }
    }
}
