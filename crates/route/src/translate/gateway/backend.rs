//! The cluster of a backend that a rule or a policy names.

use super::client_certificates::ClientCertificate;
use super::parser::Parser;
use crate::model::{ClusterId, TrafficPolicy, UpstreamProtocol};
use crate::objects::gateway::BackendRef;
use crate::objects::{Kind, ObjectKey, Service, Transport};
use crate::translate::backend::{policy_over_tls, port_name};
use crate::translate::dialect::Resolver;
use crate::translate::grants::Reference;
use crate::translate::graph::Input;
use crate::translate::problem::{Message, Reason};
use crate::translate::source::WantedPort;
use crate::translate::verdict::ConditionFault;

/// The reason why a backend cannot be used.
#[derive(Debug)]
pub struct BackendRefFault {
    /// The field below the backend, such as `.name`.
    below: &'static str,
    /// The reason of the condition `ResolvedRefs`. `None`: the reference of the route is valid.
    condition: Option<&'static str>,
    reason: Reason,
    message: Message,
}

impl BackendRefFault {
    /// Returns the status of requests to the backend.
    pub fn status(&self) -> u16 {
        if self.reason == Reason::PolicyTooExpensive { 503 } else { 500 }
    }

    /// Reports the fault of the backend at `field`, and the consequence.
    pub fn report(self, field: &str, parser: &mut Parser, consequence: &str) {
        let Self { below, condition, reason, message } = self;
        let field = format!("{field}{below}");
        match condition {
            Some(condition) => parser.unresolved(field, condition, reason, message, consequence),
            None => parser.problem(field, reason, message, consequence),
        }
    }
}

/// The largest weight. Source: Gateway API v1, `BackendRef.weight`. Manifests are not validated against the schema, and
/// Envoy rejects weights whose sum exceeds 32 bits.
const HEAVIEST: u32 = 1_000_000;

/// Returns the weight of a backend.
pub fn weight(reference: &BackendRef) -> u32 {
    reference.weight.unwrap_or(1).min(HEAVIEST)
}

/// The bytes that a backend receives over connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bytes {
    /// The bytes of clients. Envoy does not know whether they are encrypted, so it never adds TLS.
    OfClients,
    /// The decrypted bytes of clients. A BackendTLSPolicy can encrypt them again.
    Decrypted,
}

/// Returns the cluster of a backend for HTTP.
pub fn cluster(reference: &BackendRef, parser: &mut Parser) -> Result<ClusterId, BackendRefFault> {
    cluster_of_bytes(reference, Bytes::Decrypted, parser)
}

/// Returns the cluster of a server that Envoy asks about requests. `protocol` applies if the Service names no protocol.
pub fn asked(
    reference: &BackendRef,
    protocol: Option<UpstreamProtocol>,
    parser: &mut Parser,
) -> Result<ClusterId, BackendRefFault> {
    located(reference, Bytes::Decrypted, protocol, parser)
}

/// Returns the cluster of a backend for HTTP, or for such bytes.
pub fn cluster_of_bytes(
    reference: &BackendRef,
    bytes: Bytes,
    parser: &mut Parser,
) -> Result<ClusterId, BackendRefFault> {
    // gRPC requires HTTP/2, so a Service does not have to name the protocol.
    let protocol = (parser.kind() == Kind::GRPC_ROUTE).then_some(UpstreamProtocol::H2c);
    located(reference, bytes, protocol, parser)
}

fn located(
    reference: &BackendRef,
    bytes: Bytes,
    protocol: Option<UpstreamProtocol>,
    parser: &mut Parser,
) -> Result<ClusterId, BackendRefFault> {
    let BackendRef { group, kind, namespace, name, port, weight: _ } = reference;
    let own = parser.namespace();
    let (group, kind) = (group.as_deref().unwrap_or_default(), kind.as_deref().unwrap_or("Service"));
    if (group, kind) != ("", "Service") {
        let message = format!("backends of kind {kind:?} of group {group:?} are not supported");
        return Err(fault(".kind", "InvalidKind", Reason::UnsupportedBackend, message));
    }
    let key = ObjectKey::new(namespace.as_deref().unwrap_or(own), name);
    let grant = Reference { from: parser.kind(), namespace: own, group: "", kind: Kind::SERVICE.as_str(), to: &key };
    if !parser.resolver.permits(&grant) {
        let message = Message::not_permitted(Kind::SERVICE, &key);
        return Err(fault(".namespace", "RefNotPermitted", Reason::ReferenceNotPermitted, message));
    }
    let wanted = port.map_or(WantedPort::Missing, WantedPort::Number);
    let kind = parser.kind();
    let policy = match bytes {
        Bytes::OfClients => None,
        Bytes::Decrypted => policy(&key, wanted, protocol, parser)?,
    };
    let cluster = if policy.is_some() {
        parser.resolver.cluster(key, wanted, policy)
    } else if let Some(protocol) = protocol {
        parser.resolver.cluster_over(key, wanted, protocol)
    } else if kind == Kind::HTTP_ROUTE {
        parser.resolver.cluster(key, wanted, None)
    } else {
        let transport = if kind == Kind::UDP_ROUTE { Transport::Udp } else { Transport::Tcp };
        parser.resolver.cluster_of_bytes(key, wanted, transport)
    };
    match cluster {
        Ok((_, Some(denied))) => Err(fault("", "UnsupportedValue", Reason::AccessNotRestricted, denied.to_string())),
        Ok((cluster, None)) => Ok(cluster),
        Err(of_cluster) => {
            let below = match of_cluster.field {
                ".service.name" => ".name",
                ".service.port" => ".port",
                _ => "",
            };
            let condition = match of_cluster.reason {
                Reason::ServiceUnresolvedReference => "BackendNotFound",
                Reason::UnsupportedBackend if of_cluster.field == ".service.name" => "RefNotPermitted",
                Reason::UnsupportedBackend => "UnsupportedProtocol",
                _ => "UnsupportedValue",
            };
            Err(fault(below, condition, of_cluster.reason, of_cluster.message))
        }
    }
}

/// The cluster of a Service that a policy names.
pub struct Called {
    /// The cluster.
    pub cluster: ClusterId,
    /// Whether a BackendTLSPolicy verifies its endpoints.
    pub is_verified: bool,
}

/// Returns the cluster of a Service that Envoy itself calls. `protocol` applies if the Service names no protocol.
pub fn called(
    service: ObjectKey,
    port: u16,
    protocol: Option<UpstreamProtocol>,
    resolver: &mut Resolver,
) -> Result<Called, Message> {
    let wanted = WantedPort::Number(port.into());
    let policy = tls(&service, wanted, protocol, &None, resolver).map_err(|fault| fault.message)?;
    let is_verified = policy.as_ref().is_some_and(|policy| policy.verification.is_some());
    let cluster = match (policy, protocol) {
        (None, Some(protocol)) => resolver.cluster_over(service, wanted, protocol),
        (policy, _) => resolver.cluster(service, wanted, policy),
    };
    match cluster {
        Ok((cluster, None)) => Ok(Called { cluster, is_verified }),
        Ok((_, Some(denied))) => Err((&*denied).into()),
        Err(fault) => Err(fault.message),
    }
}

/// Returns the traffic policy of a backend of a route if a BackendTLSPolicy applies to it.
fn policy(
    service: &ObjectKey,
    port: WantedPort,
    protocol: Option<UpstreamProtocol>,
    parser: &mut Parser,
) -> Result<Option<TrafficPolicy>, BackendRefFault> {
    // Fails closed: an unknown policy may restrict the route.
    if !parser.resolver.context.objects.is_readable(Kind::HTTP_POLICY, parser.namespace()) {
        let message =
            "the controller is not permitted to list HTTPPolicies, so it is unknown whether one restricts this route";
        return Err(BackendRefFault {
            below: "",
            condition: None,
            reason: Reason::PolicyNotValid,
            message: message.into(),
        });
    }
    tls(service, port, protocol, &parser.certificate, &mut parser.resolver)
}

/// Returns the traffic policy of a backend if a BackendTLSPolicy applies to it. On an error, no request may be
/// sent to the backend, although the reference to it is valid.
fn tls(
    service: &ObjectKey,
    port: WantedPort,
    protocol: Option<UpstreamProtocol>,
    certificate: &ClientCertificate,
    resolver: &mut Resolver,
) -> Result<Option<TrafficPolicy>, BackendRefFault> {
    let context = resolver.context;
    // Long-lived data uses the text of the stored object, so that it is shared.
    let key = context.objects.get::<Service>(service).map_or(service, |object| &object.meta.key);
    resolver.record(Input::new(Kind::SERVICE, key.clone()));
    resolver.record(Input::new(Kind::BACKEND_TLS_POLICY, key.clone()));
    let unusable = |reason, message: Message| BackendRefFault { below: "", condition: None, reason, message };
    // Fails closed: an unknown policy may require TLS.
    if !context.objects.is_readable(Kind::BACKEND_TLS_POLICY, &service.namespace) {
        let message = format!(
            "the controller is not permitted to list BackendTLSPolicies, so it is unknown whether Service \"{service}\" requires TLS"
        );
        return Err(unusable(Reason::PolicyNotValid, message.into()));
    }
    let Some(name) = port_name(context.objects, service, port) else { return Ok(None) };
    let Some(policy) = resolver.policies().in_effect(service, name) else { return Ok(None) };
    let verification = policy.verification.clone().map_err(|ConditionFault { message, .. }| {
        let text = format!("BackendTLSPolicy \"{}\" cannot be enforced: {message}", policy.key());
        unusable(policy.fault_reason(), message.with_text(text))
    })?;
    let client_certificate = match certificate {
        None => None,
        Some(Some(pair)) => Some(pair.clone()),
        // Fails closed: a backend that requires no certificate may be the wrong one.
        Some(None) => {
            let message = "a Gateway of the route has no valid client certificate for backends".to_owned();
            return Err(unusable(Reason::SecretNotValid, message.into()));
        }
    };
    let policy = policy_over_tls(context, service, port, protocol, verification);
    Ok(policy.map(|policy| TrafficPolicy { client_certificate, ..policy }))
}

fn fault(below: &'static str, condition: &'static str, reason: Reason, message: impl Into<Message>) -> BackendRefFault {
    BackendRefFault { below, condition: Some(condition), reason, message: message.into() }
}
