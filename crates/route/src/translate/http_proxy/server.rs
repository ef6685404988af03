//! The servers that policies of hosts call: their clusters.

use std::sync::Arc;

use super::upstream::RootPolicies;
use crate::model::{BackendFeatures, CircuitBreakers, ClusterId, TrafficPolicy, UpstreamProtocol, Verification};
use crate::objects::{Kind, ObjectKey};
use crate::translate::backend::{self, Context};
use crate::translate::dialect::Resolver;
use crate::translate::graph::Input;
use crate::translate::source::WantedPort;

/// The parts of the traffic policy of a server. A part that is not set comes from the Service and the settings.
#[derive(Debug, Clone, Default)]
pub struct ServerTrafficPolicy {
    /// The protocol.
    pub protocol: Option<UpstreamProtocol>,
    /// The verification, and the size of its certificate authorities in bytes.
    pub verification: Option<(Verification, usize)>,
    /// The limits, which replace the default limits as a whole.
    pub limits: Option<CircuitBreakers>,
    /// The features.
    pub features: BackendFeatures,
}

/// A server: a port of a Service, and its traffic policy.
#[derive(Debug, Clone)]
pub struct Server {
    /// The Service.
    pub service: ObjectKey,
    /// The port.
    pub port: u16,
    /// The policy. `None`: that of the Service, or the port does not exist.
    pub policy: Option<TrafficPolicy>,
    /// Whether routes can have the same cluster, so that it does not count toward the limits of a root.
    is_common: bool,
    /// The size of the certificate authorities, in bytes.
    size: usize,
}

/// The reason why a server has no cluster.
#[derive(Debug)]
pub enum Refusal {
    /// The policy is beyond the limits of the root.
    TooMany,
    /// The Service is not valid, with a message.
    Fault(String),
}

impl Server {
    /// Returns a server, whether its Service exists or not.
    pub fn new(service: ObjectKey, port: u16, wanted: ServerTrafficPolicy, context: Context) -> Self {
        let ServerTrafficPolicy { protocol, verification, limits, features } = wanted;
        let is_common = verification.is_none() && limits.is_none() && features.is_empty();
        let size = verification.as_ref().map_or(0, |(_, size)| *size);
        let base = backend::policy_of_port(context, &service, WantedPort::Number(port.into()), protocol);
        let policy = base.filter(|_| !is_common || protocol.is_some()).map(|base| TrafficPolicy {
            limits: limits.unwrap_or(base.limits),
            verification: verification.map(|(verification, _)| Arc::new(verification)),
            features: (!features.is_empty()).then(|| Arc::new(features)),
            ..base
        });
        Self { service, port, policy, is_common, size }
    }

    /// Returns the reference to the port.
    pub fn wanted_port(&self) -> WantedPort<'static> {
        WantedPort::Number(self.port.into())
    }

    /// Returns the cluster, as a dependency of the root with these policies.
    pub fn cluster(self, policies: &mut RootPolicies, resolver: &mut Resolver) -> Result<ClusterId, Refusal> {
        let limit = resolver.context.settings.tenants.max_configuration_per_namespace;
        let port = self.wanted_port();
        let Self { service, port: number, policy, is_common, size } = self;
        if let Some(policy) = policy.as_ref().filter(|_| !is_common)
            && !policies.admit((&service, number, policy.id()), size, limit)
        {
            resolver.record(Input::new(Kind::SERVICE, service));
            return Err(Refusal::TooMany);
        }
        match resolver.cluster(service, port, policy) {
            Ok((cluster, None)) => Ok(cluster),
            Ok((_, Some(denied))) => Err(Refusal::Fault(denied.trim_end().to_owned())),
            Err(cause) => Err(Refusal::Fault(cause.message.to_string())),
        }
    }
}
