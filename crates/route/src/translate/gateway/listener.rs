//! The listeners of one Gateway: which of them are valid, where Envoy binds them, and which routes may attach.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::grants::{Reference, permits};
use super::hostname::covers;
use crate::model::{Host, ListenerId, SecretId, SecretPart};
use crate::objects::gateway::{self, GROUP, GatewayClass, GatewayListener, LabelSelector, RouteKind, SecretRef};
use crate::objects::{GatewayService, Kind, Namespace, ObjectKey, Precedence, Revision, Service, Transport};
use crate::settings::Listeners;
use crate::translate::dialect::Reading;
use crate::translate::graph::Input;
use crate::translate::host;
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

/// Parses a Gateway. Returns its inputs alone if its class is not one of ours.
pub fn parse(gateway: &gateway::Gateway, mut reading: Reading) -> Result<Gateway, Reads> {
    let class = ObjectKey::new("", &gateway.spec.gateway_class_name);
    let objects = reading.context.objects;
    let controller = &reading.context.settings.gateway.controller;
    let is_ours = objects.get::<GatewayClass>(&class).is_some_and(|class| class.spec.controller_name == *controller);
    reading.record(Input::new(Kind::GATEWAY_CLASS, class));
    if !is_ours {
        return Err(reading.into_reads());
    }
    let origin = gateway.meta.object_ref(Kind::GATEWAY);
    let mut parser = Parser { gateway, origin: &origin, reading, verdicts: Vec::new() };
    let service = parser.service();
    let mut listeners: Vec<Listener> =
        gateway.spec.listeners.iter().map(|listener| parser.listener(listener)).collect();
    parser.conflicts(&mut listeners);
    parser.whole(&listeners);
    let reserved = &parser.reading.context.settings.listeners;
    let mut ports = Vec::new();
    let valid: Vec<bool> = listeners.iter().map(|listener| parser.is_served() && parser.is_valid(listener)).collect();
    for (listener, _) in listeners.iter_mut().zip(valid).filter(|(_, valid)| *valid) {
        let Some(place) = listener.place() else { continue };
        ports.push(place);
        let of_service = service.map(|service| {
            service.ports.iter().find(|(transport, port, _)| (*transport, *port) == place).map(|(_, _, target)| *target)
        });
        // A tenant may write the Service. Any other port could be one of another listener of the Envoys.
        let of_service = of_service.map(|target| target.filter(|target| super::TARGET_PORTS.contains(target)));
        let bind = of_service.unwrap_or_else(|| objects.from_operator.then_some(listener.port));
        let bind = match bind {
            Some(port) if is_reserved(port, reserved) => {
                let message = format!("a listener of the settings has port {port}");
                parser.verdict(Some(&listener.name), "Accepted", Status::False, "PortUnavailable", message);
                None
            }
            bind => bind,
        };
        listener.bound = bind.map(|bind| (listener_id(&gateway.meta.key, place), bind));
    }
    ports.sort_unstable();
    ports.dedup();
    let Parser { reading, verdicts, .. } = parser;
    // The Service and the Secrets decide on which ports Envoy listens, and the spec stays the same. The Envoys have to
    // accept each change before the Gateway is programmed.
    let bound: Vec<Option<u16>> = listeners.iter().map(|one| one.bound.as_ref().map(|(_, port)| *port)).collect();
    Ok(Gateway {
        revision: Revision::new(&gateway.meta, &(&gateway.spec, bound)),
        precedence: objects.precedence(Kind::GATEWAY, &gateway.meta),
        listeners: listeners.into(),
        ports,
        reads: reading.into_reads(),
        verdicts: verdicts.into(),
        origin,
    })
}

/// Returns the Envoy listener of a Gateway for a port: `gateway/shop/public/443`, or `gateway/shop/public/53/udp`.
fn listener_id(gateway: &ObjectKey, (transport, port): (Transport, u16)) -> ListenerId {
    let suffix = match transport {
        Transport::Tcp => "",
        Transport::Udp => "/udp",
    };
    ListenerId::new(&format!("gateway/{gateway}/{port}{suffix}"))
}

/// Returns whether a listener of the settings has this port.
fn is_reserved(port: u16, listeners: &Listeners) -> bool {
    let Listeners { http, https, stats, stats_tls, overload_probe, admin, .. } = listeners;
    [http, https, stats, &stats_tls.at, overload_probe, admin].iter().any(|bind| bind.port == port)
}

struct Parser<'p, 'r> {
    gateway: &'p gateway::Gateway,
    origin: &'p ObjectRef,
    reading: Reading<'r>,
    verdicts: Vec<Verdict>,
}

impl<'r> Parser<'_, 'r> {
    /// Returns the Service of the Gateway, if it has been created.
    fn service(&mut self) -> Option<&'r GatewayService> {
        let key = super::service_key(&self.gateway.meta.key, &self.gateway.spec.gateway_class_name);
        let service = self.reading.context.objects.get::<Service>(&key);
        self.reading.record(Input::new(Kind::SERVICE, key));
        service?.gateway.as_deref().filter(|service| service.name == self.gateway.meta.key.name)
    }

    fn verdict(
        &mut self,
        listener: Option<&Arc<str>>,
        condition: &'static str,
        status: Status,
        reason: &'static str,
        message: String,
    ) {
        let listener = listener.cloned();
        let verdict = Verdict::new(self.origin.clone(), condition, status, reason);
        self.verdicts.push(Verdict { listener, message, ..verdict });
    }

    fn listener(&mut self, listener: &GatewayListener) -> Listener {
        let name = &listener.name;
        let protocol = self.protocol(listener);
        let host = match &protocol {
            Some(Protocol::Tcp | Protocol::Udp) => Ok(Host::Any),
            _ => host::parse(listener.hostname.as_deref().unwrap_or_default()),
        };
        if let Err(fault) = &host {
            let message = format!("hostname {:?} {fault}", listener.hostname.as_deref().unwrap_or_default());
            self.verdict(Some(name), "Accepted", Status::False, "UnsupportedValue", message);
        }
        let kinds = self.kinds(listener, protocol.as_ref().map(Protocol::kinds).unwrap_or_default());
        let namespaces = listener.allowed_routes.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
        let namespaces = match namespaces {
            None => Namespaces::Same,
            Some(allowed) => match (allowed.from.as_deref(), &allowed.selector) {
                (None | Some("Same"), _) => Namespaces::Same,
                (Some("All"), _) => Namespaces::All,
                (Some("Selector"), Some(selector)) => Namespaces::Selected(selector.clone()),
                _ => Namespaces::None,
            },
        };
        self.verdict(Some(name), "Accepted", Status::True, "Accepted", String::new());
        self.verdict(Some(name), "Conflicted", Status::False, "NoConflicts", String::new());
        self.verdict(Some(name), "ResolvedRefs", Status::True, "ResolvedRefs", String::new());
        let host = host.unwrap_or(Host::Any);
        Listener { name: name.clone(), host, port: listener.port, protocol, kinds, namespaces, bound: None }
    }

    /// Returns the protocol of a listener, if it is supported.
    fn protocol(&mut self, listener: &GatewayListener) -> Option<Protocol> {
        let mode = listener.tls.as_ref().and_then(|tls| tls.mode.as_deref()).unwrap_or("Terminate");
        let (reason, message) = match (listener.protocol.as_str(), mode) {
            ("HTTP", _) => return Some(Protocol::Http),
            ("HTTPS", _) => return Some(Protocol::Https(self.key_pairs(listener))),
            ("TLS", "Terminate") => return Some(Protocol::Tls(self.key_pairs(listener))),
            ("TLS", "Passthrough") => return Some(Protocol::Passthrough),
            ("TCP", _) => return Some(Protocol::Tcp),
            ("UDP", _) => return Some(Protocol::Udp),
            ("TLS", mode) => ("UnsupportedValue", format!("TLS mode {mode:?} is not supported")),
            (other, _) => ("UnsupportedProtocol", format!("protocol {other:?} is not supported")),
        };
        self.verdict(Some(&listener.name), "Accepted", Status::False, reason, message);
        None
    }

    /// Returns the kinds of routes that may attach: the intersection of the allowed and the supported kinds.
    fn kinds(&mut self, listener: &GatewayListener, supported: &[&str]) -> Vec<RouteKind> {
        let kind = |kind: &str| RouteKind { group: Some(GROUP.to_owned()), kind: kind.to_owned() };
        let allowed = listener.allowed_routes.as_ref().map(|allowed| allowed.kinds.as_slice()).unwrap_or_default();
        if allowed.is_empty() {
            return supported.iter().map(|name| kind(name)).collect();
        }
        let is_supported = |allowed: &&RouteKind| {
            allowed.group.as_deref().unwrap_or(GROUP) == GROUP && supported.contains(&allowed.kind.as_str())
        };
        if let Some(other) = allowed.iter().find(|kind| !is_supported(kind)) {
            let message = format!("kind {:?} is not supported by protocol {:?}", other.kind, listener.protocol);
            self.verdict(Some(&listener.name), "ResolvedRefs", Status::False, "InvalidRouteKinds", message);
        }
        allowed.iter().filter(is_supported).map(|allowed| kind(&allowed.kind)).collect()
    }

    /// Returns the usable key pairs of a listener that terminates TLS.
    fn key_pairs(&mut self, listener: &GatewayListener) -> Vec<SecretId> {
        let name = &listener.name;
        let references = listener.tls.as_ref().map(|tls| tls.certificate_refs.as_slice()).unwrap_or_default();
        if references.is_empty() {
            let message = "tls.certificateRefs is empty".to_owned();
            self.verdict(Some(name), "ResolvedRefs", Status::False, "InvalidCertificateRef", message);
        }
        let mut pairs = Vec::new();
        for reference in references {
            match self.key_pair(reference) {
                Ok(pair) => pairs.push(pair),
                Err((reason, message)) => self.verdict(Some(name), "ResolvedRefs", Status::False, reason, message),
            }
        }
        pairs
    }

    fn key_pair(&mut self, reference: &SecretRef) -> Result<SecretId, (&'static str, String)> {
        let SecretRef { group, kind, namespace, name } = reference;
        let own = &self.gateway.meta.key.namespace;
        let key = ObjectKey::new(namespace.as_deref().unwrap_or(own), name);
        let invalid = |message: String| Err(("InvalidCertificateRef", message));
        let (group, kind) = (group.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or("Secret"));
        if (group, kind) != ("", "Secret") {
            return invalid(format!("certificates of kind {kind:?} of group {group:?} are not supported"));
        }
        let grant = Reference { from: Kind::GATEWAY, namespace: own, group: "", kind: "Secret", to: &key };
        if !permits(&grant, &mut self.reading) {
            return Err(("RefNotPermitted", format!("no ReferenceGrant permits the reference to Secret \"{key}\"")));
        }
        let id = SecretId::new(key.clone(), SecretPart::KeyPair);
        let Some(secret) = self.reading.secret(key.clone()) else {
            return invalid(format!("Secret \"{key}\" does not exist"));
        };
        match (&secret.pair, &secret.fault) {
            (Some(_), _) => Ok(id),
            (None, Some(fault)) => invalid(format!("Secret \"{key}\": {fault}")),
            (None, None) => invalid(format!("Secret \"{key}\" has no usable key pair")),
        }
    }

    /// Finds listeners that contradict earlier ones of the Gateway. The earlier one is served.
    fn conflicts(&mut self, listeners: &mut [Listener]) {
        let mut ports = BTreeMap::<(Transport, u16), (&'static str, Vec<Host>)>::new();
        for listener in listeners {
            let (Some(protocol), Some(place)) = (&listener.protocol, listener.place()) else { continue };
            let (first, hosts) = ports.entry(place).or_insert((protocol.name(), Vec::new()));
            let (reason, message) = if *first != protocol.name() {
                ("ProtocolConflict", format!("an earlier listener has another protocol on port {}", listener.port))
            } else if hosts.contains(&listener.host) {
                let message = format!("an earlier listener has the same hostname on port {}", listener.port);
                ("HostnameConflict", message)
            } else {
                hosts.push(listener.host.clone());
                continue;
            };
            let name = listener.name.clone();
            self.verdicts.retain(|one| one.listener.as_ref() != Some(&name) || one.condition != "Conflicted");
            self.verdict(Some(&name), "Conflicted", Status::True, reason, message.clone());
            self.verdict(Some(&name), "Accepted", Status::False, reason, message);
        }
    }

    /// Returns whether a listener has a supported protocol, a host name, and no conflict.
    fn is_accepted(&self, listener: &Listener) -> bool {
        let is_of = |verdict: &&Verdict| verdict.listener.as_ref() == Some(&listener.name);
        let refuses = |one: &Verdict| one.condition == "Accepted" && one.status == Status::False;
        !self.verdicts.iter().filter(is_of).any(refuses)
    }

    /// Returns whether a listener can be served.
    fn is_valid(&self, listener: &Listener) -> bool {
        let is_usable = listener.protocol.as_ref().is_some_and(|protocol| !protocol.lacks_pairs());
        is_usable && self.is_accepted(listener)
    }

    /// Returns whether the Gateway as a whole is accepted.
    fn is_served(&self) -> bool {
        let refuses =
            |one: &Verdict| one.listener.is_none() && one.condition == "Accepted" && one.status == Status::False;
        !self.verdicts.iter().any(refuses)
    }

    /// Decides the conditions of the whole Gateway.
    fn whole(&mut self, listeners: &[Listener]) {
        let spec = &self.gateway.spec;
        let is_known = |kind: Option<&str>| matches!(kind, None | Some("IPAddress" | "Hostname"));
        if let Some(address) = spec.addresses.iter().find(|address| !is_known(address.r#type.as_deref())) {
            let message = format!("address type {:?} is not supported", address.r#type.as_deref().unwrap_or_default());
            self.verdict(None, "Accepted", Status::False, "UnsupportedAddress", message);
        }
        let parameters = spec.infrastructure.as_ref().and_then(|infrastructure| infrastructure.parameters_ref.as_ref());
        if let Some(parameters) = parameters {
            let message = format!("parameters of kind {:?} are not supported", parameters.kind);
            self.verdict(None, "Accepted", Status::False, "InvalidParameters", message);
        }
        let invalid: Vec<&str> =
            listeners.iter().filter(|listener| !self.is_accepted(listener)).map(|listener| &*listener.name).collect();
        match invalid.is_empty() {
            true => self.verdict(None, "Accepted", Status::True, "Accepted", String::new()),
            false => {
                let status = if invalid.len() == listeners.len() { Status::False } else { Status::True };
                let message = format!("listeners that are not valid: {}", invalid.join(", "));
                self.verdict(None, "Accepted", status, "ListenersNotValid", message);
            }
        }
    }
}
