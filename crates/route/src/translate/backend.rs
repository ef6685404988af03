//! Translates backends to clusters. Each Service port and policy has one cluster, whether a path refers to the port by
//! name or number.

mod features;
mod policies;
mod ports;

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{Cluster, ClusterId, Discovery, PortRef, SecretId, ServicePortId, TrafficPolicy};
use crate::objects::{Kind, ObjectKey, Objects, SERVICE_PORTS, Service, ServicePort, Transport};
use crate::settings::Settings;

use super::backend_policies::BackendPolicies;
use super::envoys;
use super::external_name::{self, ExternalNameTarget};
use super::foreign;
use super::problem::{Cause, Message, Problem, Reason, bounded};
use features::Unmet;
use policies::service_policy;
use ports::{Found, find_port, port_ref};

pub use policies::{policy_of_bytes, policy_of_port, policy_over, policy_over_tls};
pub use ports::{WantedPort, port_name, port_of_number, referenced_port};

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
