//! The parser of a single BackendTLSPolicy.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::authorities::{self, Referrer};
use crate::model::{Authorities, Host, PeerName, SecretId, Verification};
use crate::objects::gateway::{BackendTlsPolicy, BackendValidation, PolicyTarget, SubjectAltName};
use crate::objects::{Kind, ObjectKey, Objects, Precedence, Revision, Service};
use crate::translate::dialect::Resolver;
use crate::translate::graph::Input;
use crate::translate::host;
use crate::translate::problem::{Message, Reason};
use crate::translate::source::Dependencies;
use crate::translate::verdict::ConditionFault;

/// A BackendTLSPolicy, parsed.
#[derive(Debug, PartialEq)]
pub struct ParsedBackendTlsPolicy {
    /// A reference to it.
    pub origin: ObjectRef,
    /// The hash of its content.
    pub revision: Revision,
    /// Its rank among policies with the same target.
    pub precedence: Precedence,
    /// The Services that it targets, sorted and without repetition.
    pub targets: Box<[PortNameTarget]>,
    /// The verification of endpoints, or the reason of the condition `Accepted` and a message. A policy with an error
    /// is still in effect. No request is sent to its targets, because they may not be the endpoints that the owner
    /// expects.
    pub verification: Result<Arc<Verification>, ConditionFault>,
    /// The size of its certificate authorities, in bytes, with a copy for each port of its targets. Gateways with different client
    /// certificates for backends need further copies, which are not included.
    pub size: u64,
    /// The fault of a reference to certificate authorities.
    pub unresolved: Option<ConditionFault>,
    /// The description of the first target that does not exist.
    pub missing: Option<Message>,
    /// The inputs that it depends on.
    pub dependencies: Dependencies,
}

/// A target of a policy: a Service, or one of its ports.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PortNameTarget {
    /// The Service.
    pub service: ObjectKey,
    /// The name of the port; `None` is every port.
    pub port: Option<Arc<str>>,
}

impl ParsedBackendTlsPolicy {
    /// Returns the key.
    pub fn key(&self) -> &ObjectKey {
        &self.precedence.key
    }

    /// Returns the secret with its certificate authorities, if it has one.
    pub fn secret(&self) -> Option<&SecretId> {
        self.verification.as_ref().ok()?.secret()
    }

    /// Returns the reason of the problem of a policy without verification.
    pub fn fault_reason(&self) -> Reason {
        match &self.verification {
            Err(fault) if fault.reason == Reason::PolicyTooExpensive.as_str() => Reason::PolicyTooExpensive,
            _ => Reason::PolicyNotValid,
        }
    }

    /// Returns the policy without verification, because it is beyond the limit of its namespace.
    pub fn beyond_limit(mut self) -> Self {
        let message = format!(
            "the certificate authorities for all ports of its targets take {} KiB of configuration, more than older policies of the \
             namespace leave of the limit tenants.maxConfigurationPerNamespace",
            self.size.div_ceil(1 << 10),
        );
        self.verification = Err(ConditionFault::new(Reason::PolicyTooExpensive.as_str(), message));
        self
    }
}

/// Parses a policy. Source: Gateway API v1, `BackendTLSPolicySpec`.
pub fn parse(policy: &BackendTlsPolicy, mut resolver: Resolver) -> ParsedBackendTlsPolicy {
    let BackendTlsPolicy { meta, spec, status: _, version: _ } = policy;
    let mut targets: Vec<PortNameTarget> =
        spec.target_refs.iter().filter_map(|target| service_target(target, &meta.key)).collect();
    targets.sort();
    targets.dedup();
    let missing: Vec<Message> = targets.iter().filter_map(|target| missing(target, &mut resolver)).collect();
    let (verification, unresolved) = verification(&spec.validation, meta.key.namespace.clone(), &mut resolver);
    let of_authorities =
        verification.as_ref().map_or(0, |one| authorities::size(&one.authorities, resolver.context.objects));
    let copies = count_ports(&targets, resolver.context.objects);
    ParsedBackendTlsPolicy {
        origin: meta.object_ref(Kind::BACKEND_TLS_POLICY),
        revision: Revision::new(meta, spec),
        precedence: resolver.context.objects.precedence(Kind::BACKEND_TLS_POLICY, meta),
        targets: targets.into(),
        size: of_authorities.saturating_mul(copies),
        verification: verification.map(Arc::new),
        unresolved,
        missing: missing.into_iter().next(),
        dependencies: resolver.into_dependencies(),
    }
}

/// Returns the target of a reference, if it is a Service. Other targets have no effect on Gateways.
fn service_target(target: &PolicyTarget, policy: &ObjectKey) -> Option<PortNameTarget> {
    let PolicyTarget { group, kind, name, section_name } = target;
    let service = ObjectKey { namespace: policy.namespace.clone(), name: name.as_str().into() };
    let port = section_name.clone().filter(|name| !name.is_empty());
    (group.is_empty() && *kind == Kind::SERVICE.as_str()).then_some(PortNameTarget { service, port })
}

/// Returns the number of ports of all targets. A port of a Service that is a target as a whole does not count again.
fn count_ports(targets: &[PortNameTarget], objects: &Objects) -> u64 {
    let whole: BTreeSet<&ObjectKey> =
        targets.iter().filter(|target| target.port.is_none()).map(|target| &target.service).collect();
    let single = targets.iter().filter(|target| !whole.contains(&target.service)).count();
    let ports = |service: &&ObjectKey| objects.get::<Service>(service).map_or(1, |service| service.ports.len());
    (single + whole.iter().map(ports).sum::<usize>()) as u64
}

/// Describes a target that does not exist.
fn missing(target: &PortNameTarget, resolver: &mut Resolver) -> Option<Message> {
    let PortNameTarget { service, port } = target;
    resolver.record(Input::new(Kind::SERVICE, service.clone()));
    let Some(object) = resolver.context.objects.get::<Service>(service) else {
        return Some(Message::missing(Kind::SERVICE, service, "does not exist"));
    };
    let port = port.as_ref()?;
    let exists = object.ports.iter().any(|one| one.name == *port);
    (!exists).then(|| format!("Service \"{service}\" has no port {port:?}").into())
}

/// Returns the verification of endpoints, and the fault of a reference.
fn verification(
    validation: &BackendValidation,
    namespace: Arc<str>,
    resolver: &mut Resolver,
) -> (Result<Verification, ConditionFault>, Option<ConditionFault>) {
    let BackendValidation { ca_certificate_refs, well_known_ca_certificates, hostname, subject_alt_names } = validation;
    let referrer = Referrer {
        kind: Kind::BACKEND_TLS_POLICY,
        namespace: &namespace,
        field: "spec.validation.caCertificateRefs",
        grants: false,
        invalid_kind: "InvalidKind",
    };
    let resolved = authorities::resolve(ca_certificate_refs, referrer, resolver);
    let well_known = well_known_ca_certificates.as_deref().filter(|name| !name.is_empty());
    let invalid =
        |message: String| -> Result<Authorities, ConditionFault> { Err(ConditionFault::new("Invalid", message)) };
    let authorities = match (well_known, resolved.authorities, &resolved.fault) {
        (Some(_), ..) if !ca_certificate_refs.is_empty() => {
            invalid("both caCertificateRefs and wellKnownCACertificates are set".to_owned())
        }
        (Some("System"), ..) => Ok(Authorities::System),
        (Some(other), ..) => invalid(format!("wellKnownCACertificates {other:?} is not supported")),
        (None, Some(secret), _) => Ok(Authorities::Secret(secret)),
        (None, None, Some(fault)) => Err(ConditionFault { reason: "NoValidCACertificate", ..fault.clone() }),
        (None, None, None) => invalid("neither caCertificateRefs nor wellKnownCACertificates is set".to_owned()),
    };
    let verification = authorities.and_then(|authorities| {
        let server_name = match host::parse(hostname) {
            Ok(Host::Exact(name)) => name,
            _ => return Err(ConditionFault::new("Invalid", format!("hostname {hostname:?} is not a DNS name"))),
        };
        let mut names = subject_alt_names.iter().map(name).collect::<Result<Vec<_>, _>>()?;
        if names.is_empty() {
            names.push(PeerName::Dns(server_name.clone()));
        }
        names.sort();
        names.dedup();
        Ok(Verification { server_name, authorities, names })
    });
    (verification, resolved.fault)
}

/// Returns a name that the certificate of an endpoint may have.
fn name(name: &SubjectAltName) -> Result<PeerName, ConditionFault> {
    let SubjectAltName { r#type, hostname, uri } = name;
    let invalid = |message: String| Err(ConditionFault::new("Invalid", message));
    match r#type.as_str() {
        "Hostname" => match host::parse(hostname) {
            Ok(Host::Exact(name)) => Ok(PeerName::Dns(name)),
            Ok(Host::Wildcard(suffix)) => Ok(PeerName::DnsBelow(suffix)),
            _ => invalid(format!("subjectAltNames: hostname {hostname:?} is not a DNS name")),
        },
        "URI" if !uri.is_empty() => Ok(PeerName::Uri(uri.as_str().into())),
        "URI" => invalid("subjectAltNames: uri is empty".to_owned()),
        other => invalid(format!("subjectAltNames: type {other:?} is not supported")),
    }
}
