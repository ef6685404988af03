//! A listener of a Gateway or of a ListenerSet, parsed: its protocol, host name, and port, and the routes that may attach.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{ClientValidation, Host, ListenerId, SecretId};
use crate::objects::gateway::{AllowedNamespaces, LabelSelector, RouteKind};
use crate::objects::{Kind, Namespace, ObjectKey, Transport};
use crate::translate::dialect::Resolver;
use crate::translate::gateway::foreign_policies::Closed;
use crate::translate::graph::Input;

/// A listener of a Gateway or of a ListenerSet, parsed.
#[derive(Debug, PartialEq)]
pub struct ParsedListener {
    /// The name, unique in its object.
    pub name: Arc<str>,
    /// A reference to the object that declares it.
    pub origin: ObjectRef,
    /// The ListenerSet that declares it. `None`: the Gateway itself.
    pub set: Option<ObjectKey>,
    /// The host names that it accepts. Listeners without TLS and HTTP accept all.
    pub host: Host,
    /// The port that clients connect to.
    pub port: u16,
    /// The protocol; `None` if it is not supported.
    pub protocol: Option<ListenerProtocol>,
    /// The size of the key pairs, in bytes. 0: the listener does not decrypt the connections of routes for TLS and TCP.
    pub pair_size: u64,
    /// The validation of client certificates, if it is an HTTPS listener that requests certificates.
    pub clients: Option<ClientValidation>,
    /// Whether no certificate authority for its clients is valid. The listener is not served then, but keeps its port
    /// and host name.
    pub lacks_authorities: bool,
    /// The kinds of routes that may attach.
    pub kinds: Vec<RouteKind>,
    /// The namespaces of the routes that may attach.
    pub namespaces: Namespaces,
    /// Whether it has a supported protocol, a host name, and no conflict.
    pub accepted: bool,
    /// The Envoy listener and the port on which it listens. `None`: the listener is not valid, or has no port yet.
    pub bound: Option<(ListenerId, u16)>,
    /// The policy of another product that closes its routes.
    pub closed: Option<Closed>,
}

impl ParsedListener {
    /// Returns the transport protocol and the port that clients use, if the protocol is supported.
    pub fn place(&self) -> Option<(Transport, u16)> {
        Some((self.protocol.as_ref()?.transport(), self.port))
    }

    /// Returns whether it is accepted, and the certificates of its clients can be validated.
    pub fn is_accepted(&self) -> bool {
        self.accepted && !self.lacks_authorities
    }

    /// Returns whether it can be served.
    pub fn is_valid(&self) -> bool {
        self.is_accepted() && self.protocol.as_ref().is_some_and(|protocol| !protocol.lacks_pairs())
    }
}

/// The protocol of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListenerProtocol {
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

impl ListenerProtocol {
    /// Returns the API name of the protocol, which decides whether listeners may share a port.
    pub(super) fn name(&self) -> &'static str {
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
    pub(super) fn kinds(&self) -> &'static [&'static str] {
        match self {
            Self::Http | Self::Https(_) => &["HTTPRoute", "GRPCRoute"],
            Self::Tls(_) => &["TLSRoute", "TCPRoute"],
            Self::Passthrough => &["TLSRoute"],
            Self::Tcp => &["TCPRoute"],
            Self::Udp => &["UDPRoute"],
        }
    }

    /// Returns whether it lacks a usable key pair.
    pub(super) fn lacks_pairs(&self) -> bool {
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
    /// The namespace of the object that declares the listener.
    Same,
    /// Namespaces with certain labels.
    Selected(LabelSelector),
    /// No namespace.
    None,
}

impl Namespaces {
    /// Returns a set of namespaces of the API. `default` applies without a type.
    pub(super) fn new(allowed: &AllowedNamespaces, default: Self) -> Self {
        match (allowed.from.as_deref(), &allowed.selector) {
            (None, _) => default,
            (Some("Same"), _) => Self::Same,
            (Some("All"), _) => Self::All,
            (Some("Selector"), Some(selector)) => Self::Selected(selector.clone()),
            _ => Self::None,
        }
    }

    /// Returns whether the set contains `namespace`. `own` is the namespace of the object that declares the set.
    pub fn allow(&self, namespace: &Arc<str>, own: &Arc<str>, resolver: &mut Resolver) -> bool {
        match self {
            Self::All => true,
            Self::Same => namespace == own,
            Self::None => false,
            Self::Selected(selector) => {
                let key = ObjectKey { namespace: "".into(), name: namespace.clone() };
                let object = resolver.context.objects.get::<Namespace>(&key);
                resolver.record(Input::new(Kind::NAMESPACE, key));
                object.is_some_and(|namespace| selector.selects(&namespace.labels))
            }
        }
    }
}
