//! Translates backends to clusters. Each Service port and policy has one cluster, whether a path refers to the port by
//! name or number.

mod features;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::duration::TimeLimit;
use crate::model::{
    CircuitBreakers, Cluster, ClusterId, Discovery, PortRef, SecretId, ServicePortId, TrafficPolicy, UpstreamProtocol,
    Verification,
};
use crate::objects::{Kind, ObjectKey, Objects, SERVICE_PORTS, Service, ServicePort, Transport};
use crate::settings::Settings;

use super::annotations::{self, Reader};
use super::backend_policies::BackendPolicies;
use super::envoys;
use super::external_name::{self, ExternalNameTarget};
use super::foreign;
use super::problem::{Cause, Message, Problem, Reason, bounded};
use features::Unmet;

/// Annotations of a Service that set the protocol of its ports. If several name the same port, the last one in this
/// list wins, as in Contour.
const PROTOCOLS: [(&str, UpstreamProtocol); 3] = [
    ("projectcontour.io/upstream-protocol.h2", UpstreamProtocol::H2),
    ("projectcontour.io/upstream-protocol.h2c", UpstreamProtocol::H2c),
    ("projectcontour.io/upstream-protocol.tls", UpstreamProtocol::Tls),
];

/// The annotation for the connect timeout of the Service's endpoints.
const CONNECT_TIMEOUT: &str = "lockgate.dev/connect-timeout";

/// The reason why a backend cannot be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendFault {
    /// The stable reason.
    pub reason: Reason,
    /// The field below the backend: `.service.port`, or empty.
    pub field: &'static str,
    /// The description of the fault.
    pub message: Message,
}

/// The inputs of a cluster other than its Service.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The objects. Services are read, and Namespaces for external names.
    pub objects: &'a Objects,
    /// The settings.
    pub settings: &'a Settings,
    /// The BackendPolicies.
    pub backend_policies: &'a BackendPolicies,
    /// The result of [`super::tls::client_certificate`].
    pub client_certificate: Option<&'a Option<SecretId>>,
}

/// The result of building a cluster for a port of a Service.
#[derive(Debug, Clone, PartialEq)]
pub struct BuiltCluster {
    /// The cluster, or the reason why backends that reference it cannot be built.
    pub cluster: Result<Arc<Cluster>, Box<BackendFault>>,
    /// The problems of the Service's annotations.
    pub problems: Vec<Arc<Problem>>,
    /// The body of a 403 for its requests, if an annotation of another controller restricts access to the Service.
    pub denied: Option<Arc<str>>,
    /// Whether the result depends on Namespaces.
    pub reads_namespaces: bool,
    /// Whether the result depends on the client certificate of the settings.
    pub reads_client_certificate: bool,
}

/// A port of an existing Service, and the policy with which a route uses it.
pub struct Located<'a> {
    /// The identity of the cluster.
    pub cluster: ClusterId,
    service: &'a Service,
    number: u16,
    policy: Option<TrafficPolicy>,
    of_service: bool,
    /// The features of BackendPolicies that the cluster does not have, with the policy that sets each.
    unmet: Vec<(Unmet, &'a ObjectRef)>,
}

/// A reference to a port of a Service.
#[derive(Debug, Clone, Copy)]
pub enum WantedPort<'a> {
    /// By name.
    Name(&'a str),
    /// By number, which may be invalid.
    Number(i32),
    /// With neither.
    Missing,
    /// With both, which the API server rejects.
    Both,
}

/// Returns a port of a Service with this transport protocol. `read` receives the Service, whether it exists or not.
///
/// With a `policy`, the port has a separate cluster for that policy. Without one, the annotations of the Service and
/// the settings determine the policy. BackendPolicies add their features to both.
pub fn locate<'a>(
    context: Context<'a>,
    service: ObjectKey,
    port: WantedPort,
    transport: Transport,
    policy: Option<TrafficPolicy>,
    read: impl FnOnce(ObjectKey),
) -> Result<Located<'a>, BackendFault> {
    let objects = context.objects;
    let fault = |reason, field, message| BackendFault { reason, field, message };
    let unresolved = |field, message| fault(Reason::ServiceUnresolvedReference, field, message);
    let found = objects.get::<Service>(&service);
    // Long-lived data uses the text of the stored object, so that it is shared.
    let key = found.map_or(service, |object| object.meta.key.clone());
    read(key.clone());
    let id = || key.to_string();
    let Some(object) = found else {
        let message = Message::from(format!("Service {:?} does not exist", id()));
        return Err(unresolved(".service.name", message.because(missing(key, port, transport))));
    };
    let (port, number) = match find_port(object, port, transport) {
        Found::Port(port) => (port_ref(port), port.port),
        Found::Number(number) => (PortRef::Number(number), number),
        Found::Unspecified(message) => return Err(unresolved(".service.port", message.into())),
        Found::Nothing(port) => {
            let only = match object.ports.len() {
                SERVICE_PORTS.. => format!("; only its first {SERVICE_PORTS} ports count"),
                _ => String::new(),
            };
            return Err(unresolved(".service.port", format!("Service {:?} has no port {port}{only}", id()).into()));
        }
        Found::Impossible(number) => {
            return Err(unresolved(".service.port", format!("port {number} is not a number from 1 to 65535").into()));
        }
        Found::OtherProtocol(port) => {
            let (name, protocol) = (port_ref(port).to_string(), &*port.protocol);
            let what = format!("port {name:?} of Service {:?} has protocol {protocol:?}", id());
            return Err(fault(Reason::UnsupportedBackend, ".service.port", what.into()));
        }
    };
    // UDP has neither responses nor connections.
    let of_policies = match transport {
        Transport::Tcp => features::with_zones(context.backend_policies.features(&key, number), object),
        Transport::Udp => None,
    };
    let with_features =
        |policy| features::with_features(policy, of_policies.as_ref(), (object, number), context.settings);
    let is_given = policy.is_some();
    let (policy, unmet) = with_features(policy);
    // A route can have the policy of the Service. Both have one cluster, whoever builds it.
    let id = |policy: &Option<TrafficPolicy>| policy.as_ref().map(TrafficPolicy::id);
    let of_service = !is_given || (of_policies.is_some() && id(&with_features(None).0) == id(&policy));
    let setting = |unmet: Unmet| context.backend_policies.setting(&key, number, |features| unmet.is_set(features));
    let unmet = unmet.into_iter().filter_map(|unmet| Some((unmet, setting(unmet)?))).collect();
    let checked_at = policy.iter().flat_map(|policy| &policy.features).flat_map(|features| &features.health_check);
    let checked_at = checked_at.filter_map(|check| check.service_port.clone()).next();
    let port = ServicePortId::new(key, port);
    let port = checked_at.map(|health| port.checked_at(health)).unwrap_or(port);
    let cluster = ClusterId { port, policy: policy.as_ref().map(TrafficPolicy::id) };
    Ok(Located { cluster, service: object, number, policy, of_service, unmet })
}

/// Returns the cause that a Service does not exist, with the port that is wanted.
fn missing(service: ObjectKey, port: WantedPort, transport: Transport) -> Cause {
    let (name, number) = match port {
        WantedPort::Name(name) => (name, None),
        WantedPort::Number(number) => ("", u16::try_from(number).ok().filter(|number| *number > 0)),
        WantedPort::Missing | WantedPort::Both => ("", None),
    };
    let (port, protocol) = (number.unwrap_or(1), transport.as_str().into());
    Cause::MissingService(service, ServicePort { name: name.into(), port, protocol, app_protocol: None })
}

impl Located<'_> {
    /// Builds the cluster.
    pub fn make(&self, context: Context) -> BuiltCluster {
        let Self { cluster: _, service, number, ref policy, of_service, ref unmet } = *self;
        let fault = |reason, message| BackendFault { reason, field: ".service.name", message };
        let id = service.meta.key.to_string();
        let refused = |fault| BuiltCluster {
            cluster: Err(Box::new(fault)),
            problems: Vec::new(),
            denied: None,
            reads_namespaces: service.external_name.is_some(),
            reads_client_certificate: false,
        };
        if let Some(why) = envoys::loop_through(service, context.settings) {
            return refused(fault(
                Reason::UnsupportedBackend,
                format!("{why}, and a request would go around in a loop").into(),
            ));
        }
        let discovery = match &service.external_name {
            None => Discovery::Eds,
            Some(external) => match external_name::target(external, context.objects, context.settings) {
                Ok(ExternalNameTarget::Name(hostname)) => Discovery::Dns { hostname, port: number },
                Ok(ExternalNameTarget::Address(address)) => Discovery::Static { address, port: number },
                Err(why) => {
                    let what = format!("external name {external:?} of Service {id:?} {why}");
                    return refused(fault(Reason::ExternalNameNotAllowed, what.into()));
                }
            },
        };
        let (default, mut problems) = service_policy(service, number, context.settings);
        problems.extend(unmet.iter().map(|(unmet, policy)| unmet.problem(policy, &id, number)));
        let mut policy = policy.clone().unwrap_or(default);
        let mut made = Ok(());
        let presented =
            context.client_certificate.filter(|_| policy.protocol.is_tls() && policy.client_certificate.is_none());
        if let Some(pair) = presented {
            // Fails closed: a backend that requires no certificate may be the wrong one.
            if pair.is_none() {
                let what = format!("Service {id:?} requires TLS, and there is no client certificate");
                made = Err(Box::new(fault(Reason::SecretNotValid, what.into())));
            }
            policy.client_certificate = pair.clone();
        }
        let origin = service.meta.object_ref(Kind::SERVICE);
        BuiltCluster {
            cluster: made.map(|()| Arc::new(Cluster { discovery, port: number, policy, of_service, origin })),
            problems: bounded(problems),
            denied: foreign::of(&service.meta, Kind::SERVICE, context.settings).denied,
            reads_namespaces: service.external_name.is_some(),
            reads_client_certificate: presented.is_some(),
        }
    }
}

/// Returns the policy of a port with `protocol`, if the Service exists and names no protocol for the port.
pub fn policy_over(
    context: Context,
    service: &ObjectKey,
    port: WantedPort,
    protocol: UpstreamProtocol,
) -> Option<TrafficPolicy> {
    let service = context.objects.get::<Service>(service)?;
    let Found::Port(port) = find_port(service, port, Transport::Tcp) else { return None };
    let mut reader = Reader::new(&service.meta, Kind::SERVICE);
    let is_named = port.app_protocol.is_some() || annotated_protocol(&mut reader, service, port.port).is_some();
    let policy = || TrafficPolicy { protocol, ..service_policy(service, port.port, context.settings).0 };
    (!is_named).then(policy)
}

/// Returns the policy of a port, if the port exists. `protocol` replaces that of the Service.
pub fn policy_of_port(
    context: Context,
    service: &ObjectKey,
    port: WantedPort,
    protocol: Option<UpstreamProtocol>,
) -> Option<TrafficPolicy> {
    let service = context.objects.get::<Service>(service)?;
    let (number, _) = number_and_name(service, port)?;
    let policy = service_policy(service, number, context.settings).0;
    Some(TrafficPolicy { protocol: protocol.unwrap_or(policy.protocol), ..policy })
}

/// Returns the reference to a port of a Service by its number, if the port exists.
pub fn port_of_number(objects: &Objects, service: &ObjectKey, number: u16) -> Option<PortRef> {
    let service = objects.get::<Service>(service)?;
    match find_port(service, WantedPort::Number(number.into()), Transport::Tcp) {
        Found::Port(port) => Some(port_ref(port)),
        _ => None,
    }
}

/// Returns the policy of a port over TLS with this verification and client certificate, if the port exists. `protocol`
/// applies if the Service names none.
pub fn policy_over_tls(
    context: Context,
    service: &ObjectKey,
    port: WantedPort,
    protocol: Option<UpstreamProtocol>,
    verification: Arc<Verification>,
) -> Option<TrafficPolicy> {
    let over = protocol.and_then(|protocol| policy_over(context, service, port, protocol));
    let service = context.objects.get::<Service>(service)?;
    let (number, _) = number_and_name(service, port)?;
    let policy = over.unwrap_or_else(|| service_policy(service, number, context.settings).0);
    Some(TrafficPolicy { protocol: policy.protocol.over_tls(), verification: Some(verification), ..policy })
}

/// Returns the name of a TCP port of a Service, if it has one. Returns `None` if the port does not exist.
pub fn port_name<'a>(objects: &'a Objects, service: &ObjectKey, port: WantedPort) -> Option<Option<&'a Arc<str>>> {
    number_and_name(objects.get::<Service>(service)?, port).map(|(_, name)| name)
}

fn number_and_name<'a>(service: &'a Service, port: WantedPort) -> Option<(u16, Option<&'a Arc<str>>)> {
    match find_port(service, port, Transport::Tcp) {
        Found::Port(port) => Some((port.port, Some(&port.name).filter(|name| !name.is_empty()))),
        Found::Number(number) => Some((number, None)),
        Found::OtherProtocol(_) | Found::Nothing(_) | Found::Impossible(_) | Found::Unspecified(_) => None,
    }
}

/// Returns the policy of a port for the bytes of clients, if it differs from the policy of the Service. Envoy must not
/// start TLS, because the client and the backend may already use TLS.
pub fn policy_of_bytes(
    context: Context,
    service: &ObjectKey,
    port: WantedPort,
    transport: Transport,
) -> Option<TrafficPolicy> {
    let service = context.objects.get::<Service>(service)?;
    let number = match find_port(service, port, transport) {
        Found::Port(port) => port.port,
        Found::Number(number) => number,
        Found::OtherProtocol(_) | Found::Nothing(_) | Found::Impossible(_) | Found::Unspecified(_) => return None,
    };
    let policy = service_policy(service, number, context.settings).0;
    policy.protocol.is_tls().then_some(TrafficPolicy { protocol: UpstreamProtocol::Http1, ..policy })
}

/// Returns the policy of the port `number` according to the annotations of `service` and the settings, and the problems
/// of the annotations.
fn service_policy(service: &Service, number: u16, settings: &Settings) -> (TrafficPolicy, Vec<Problem>) {
    let mut reader = Reader::new(&service.meta, Kind::SERVICE);
    let protocol = protocol(&mut reader, service, number);
    let connect_timeout = match reader.limit(CONNECT_TIMEOUT) {
        Some(TimeLimit::After(limit)) => limit,
        None => settings.timeouts.connect,
        Some(TimeLimit::Default | TimeLimit::Infinite) => {
            let value = reader.get(CONNECT_TIMEOUT).unwrap_or_default();
            reader.wrong(CONNECT_TIMEOUT, format!("value {value:?} is not a limit"), "left out");
            settings.timeouts.connect
        }
    };
    let (default, most) = (settings.upstream.circuit_breakers, settings.tenants.max_circuit_breaker);
    let mut limit = |key: &str, default: Option<u32>| circuit_breaker(&mut reader, key, most).or(default);
    let limits = CircuitBreakers {
        max_connections: limit("max-connections", default.max_connections),
        max_pending_requests: limit("max-pending-requests", default.max_pending_requests),
        max_requests: limit("max-requests", default.max_requests),
        max_retries: limit("max-retries", default.max_retries),
        per_host_max_connections: limit("per-host-max-connections", default.per_host_max_connections),
    };
    let mut problems = reader.problems;
    problems.extend(annotations::unknown_of_service(&service.meta, settings));
    let policy = TrafficPolicy {
        protocol,
        connect_timeout,
        limits,
        client_certificate: None,
        verification: None,
        server_name: None,
        features: None,
    };
    (policy, problems)
}

/// The result of a search for a port.
enum Found<'a> {
    /// A port of the wanted protocol.
    Port(&'a ServicePort),
    /// A port of an ExternalName Service without listed ports, with this number.
    Number(u16),
    /// A port of another protocol.
    OtherProtocol(&'a ServicePort),
    /// No port has this name or number, which is quoted for a message.
    Nothing(String),
    /// No port can have this number.
    Impossible(i32),
    /// The reference is ambiguous.
    Unspecified(&'static str),
}

/// Finds the port of `service` that a backend refers to by name or number.
fn find_port<'a>(service: &'a Service, wanted: WantedPort, transport: Transport) -> Found<'a> {
    let quoted = match wanted {
        WantedPort::Name(name) => format!("{name:?}"),
        WantedPort::Number(number) => format!("\"{number}\""),
        WantedPort::Missing => return Found::Unspecified("no port is given"),
        WantedPort::Both => return Found::Unspecified("the port has both a name and a number"),
    };
    let matches = |port: &&ServicePort| match wanted {
        WantedPort::Name(name) => *port.name == *name,
        WantedPort::Number(number) => number == i32::from(port.port),
        WantedPort::Missing | WantedPort::Both => false,
    };
    let mut found = service.ports.iter().filter(matches);
    // Clusters have the names of ports, which are unique in a valid Service.
    let is_wanted = |port: &&ServicePort| {
        is_over(port, transport) && referenced_port(service, &port_ref(port)).is_some_and(|one| one == *port)
    };
    if let Some(port) = found.clone().find(is_wanted) {
        return Found::Port(port);
    }
    if let Some(port) = found.next() {
        return Found::OtherProtocol(port);
    }
    let number = match wanted {
        WantedPort::Number(number) => u16::try_from(number).ok(),
        WantedPort::Name(_) | WantedPort::Missing | WantedPort::Both => None,
    };
    if let WantedPort::Number(number) = wanted
        && !(1..=i32::from(u16::MAX)).contains(&number)
    {
        return Found::Impossible(number);
    }
    match number.filter(|_| service.external_name.is_some() && service.ports.is_empty()) {
        Some(number) => Found::Number(number),
        None => Found::Nothing(quoted),
    }
}

/// Returns the reference to a port: its name, or its number if it has none. A name of digits is ignored.
fn port_ref(port: &ServicePort) -> PortRef {
    match is_number(&port.name) {
        true => PortRef::Number(port.port),
        false => PortRef::Name(port.name.clone()),
    }
}

/// Returns whether the name of a port is empty or a number.
fn is_number(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the port of `service` that `wanted` refers to. TCP takes precedence if ports of several protocols have no name.
pub fn referenced_port<'a>(service: &'a Service, wanted: &PortRef) -> Option<&'a ServicePort> {
    let is_wanted = |port: &&ServicePort| match wanted {
        PortRef::Name(name) => port.name == *name && !is_number(&port.name),
        PortRef::Number(number) => port.port == *number && is_number(&port.name),
    };
    let mut named = service.ports.iter().filter(is_wanted);
    let udp = named.clone().find(|port| is_over(port, Transport::Udp));
    named.find(|port| is_over(port, Transport::Tcp)).or(udp)
}

fn is_over(port: &ServicePort, transport: Transport) -> bool {
    *port.protocol == *transport.as_str()
}

/// Returns the protocol of the port `number`: its `appProtocol` if known, otherwise its annotation, otherwise HTTP/1.1.
fn protocol(reader: &mut Reader, service: &Service, number: u16) -> UpstreamProtocol {
    let by_annotation = annotated_protocol(reader, service, number);
    let port = service.ports.iter().find(|port| port.port == number && &*port.protocol == "TCP");
    match port.and_then(|port| port.app_protocol.as_deref()) {
        Some("https" | "kubernetes.io/wss") => UpstreamProtocol::Tls,
        Some("kubernetes.io/h2c") => UpstreamProtocol::H2c,
        Some("http" | "kubernetes.io/ws") => UpstreamProtocol::Http1,
        _ => by_annotation.unwrap_or(UpstreamProtocol::Http1),
    }
}

/// Returns the protocol of the port `number` according to the annotations, whose entries are names or numbers of ports.
fn annotated_protocol(reader: &mut Reader, service: &Service, number: u16) -> Option<UpstreamProtocol> {
    let mut found = None;
    let lists = PROTOCOLS.map(|(key, protocol)| (key, protocol, reader.list(key)));
    if lists.iter().all(|(.., entries)| entries.is_empty()) {
        return None;
    }
    // The first port for each name and number. A search for each entry would take time for each pair.
    let mut listed = HashMap::<Cow<'_, str>, u16>::new();
    for port in &service.ports {
        for text in [Cow::Borrowed(&*port.name), Cow::Owned(port.port.to_string())] {
            listed.entry(text).or_insert(port.port);
        }
    }
    for (key, protocol, entries) in lists {
        for entry in entries {
            // An ExternalName Service may list no ports.
            let unlisted = entry.parse().ok().filter(|_| service.ports.is_empty());
            match listed.get(entry).copied().or(unlisted) {
                None => reader.wrong(key, format!("{entry:?} is not a port of the Service"), "entry left out"),
                Some(port) if port != number => {}
                Some(_) => {
                    if let Some((other, _)) = found.replace((key, protocol)).filter(|(other, _)| *other != key) {
                        reader.wrong(other, format!("port {entry:?} is also in {key:?}"), "entry left out");
                    }
                }
            }
        }
    }
    found.map(|(_, protocol)| protocol)
}

/// Returns a limit of the Service, at most `most`. A value of 0 counts as unset.
fn circuit_breaker(reader: &mut Reader, key: &str, most: u32) -> Option<u32> {
    let key = format!("projectcontour.io/{key}");
    let value = reader.get(&key)?;
    match value.parse::<u32>() {
        Ok(limit) if limit > most => {
            let message = format!("value {value:?} is larger than {most}, the setting tenants.maxCircuitBreaker");
            reader.wrong(&key, message, &format!("{most} applied"));
            Some(most)
        }
        Ok(limit) => Some(limit).filter(|&limit| limit > 0),
        Err(_) => {
            reader.wrong(&key, format!("value {value:?} is not a number from 0 to {}", u32::MAX), "left out");
            None
        }
    }
}
