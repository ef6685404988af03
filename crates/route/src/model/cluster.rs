//! Clusters: a Service port, and its traffic policy.

use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;
use ring::digest::{SHA256, digest};

use super::{BackendFeatures, Http3, PolicyId, SecretId, ServicePortId, Verification};

/// A backend: one port of one Service with one traffic policy.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// The discovery of its endpoints.
    pub discovery: Discovery,
    /// The number of the Service's port.
    pub port: u16,
    /// The traffic policy.
    pub policy: TrafficPolicy,
    /// Whether the policy is that of the Service and its BackendPolicies alone, without that of a route.
    pub of_service: bool,
    /// The Service.
    pub origin: ObjectRef,
}

/// The traffic policy of a Service port: protocol, limits, TLS, and the features of BackendPolicies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrafficPolicy {
    /// The protocol that the endpoints speak.
    pub protocol: UpstreamProtocol,
    /// Time limit of a connection attempt.
    pub connect_timeout: Duration,
    /// Limits; `None` is Envoy's default.
    pub limits: CircuitBreakers,
    /// The key pair presented to endpoints that speak TLS, by identity in [`Model::secrets`](super::Model::secrets).
    pub client_certificate: Option<SecretId>,
    /// The verification of endpoints with TLS. `None`: endpoints are not verified.
    pub verification: Option<Arc<Verification>>,
    /// The server name (SNI) of connections with TLS that are not verified. `None`: the external name of the Service, if it has one.
    pub server_name: Option<Arc<str>>,
    /// The features that BackendPolicies set. `None`: there are none.
    pub features: Option<Arc<BackendFeatures>>,
}

impl TrafficPolicy {
    /// Returns the secrets of connections to the endpoints.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretId> {
        let authorities = self.verification.iter().filter_map(|verification| verification.secret());
        self.client_certificate.iter().chain(authorities)
    }

    /// Returns the server name of connections over HTTP/3. `None`: requests are sent over TCP.
    pub fn http3_server_name(&self) -> Option<&Arc<str>> {
        match self.features.as_ref()?.http3.as_ref()? {
            Http3::Disabled => None,
            Http3::Enabled { server_name } => server_name.as_ref(),
        }
    }

    /// Returns whether requests are sent over HTTP/3.
    pub fn is_over_http3(&self) -> bool {
        self.http3_server_name().is_some()
    }

    /// Returns the Service ports among which the requests are divided, with their weights.
    pub fn shares(&self) -> &[(ServicePortId, u32)] {
        self.features.as_ref().map(|features| &*features.shares).unwrap_or_default()
    }

    /// Returns the identity of a cluster's policy: half a SHA-256 hash of the content.
    ///
    /// A changed policy has another identity, so routes move to a new cluster when Envoy has confirmed it, and equal
    /// policies share a cluster. The hash is cryptographic because tenants write policies: nobody can write a policy
    /// that replaces another one.
    pub fn id(&self) -> PolicyId {
        // Without `..`, so that a new field does not compile until it is hashed.
        let Self { protocol, connect_timeout, limits, client_certificate, verification, server_name, features } = self;
        let CircuitBreakers {
            max_connections,
            max_pending_requests,
            max_requests,
            max_retries,
            per_host_max_connections,
        } = *limits;
        let protocol = match protocol {
            UpstreamProtocol::Http1 => "http1",
            UpstreamProtocol::H2c => "h2c",
            UpstreamProtocol::Tls => "tls",
            UpstreamProtocol::H2 => "h2",
        };
        let mut text = format!("protocol={protocol};connect={}", connect_timeout.as_nanos());
        let limits = [
            ("connections", max_connections),
            ("pending", max_pending_requests),
            ("requests", max_requests),
            ("retries", max_retries),
            ("per-host", per_host_max_connections),
        ];
        // Writing to a string cannot fail.
        for (name, limit) in limits.into_iter().filter_map(|(name, limit)| Some((name, limit?))) {
            let _ = write!(text, ";{name}={limit}");
        }
        if let Some(secret) = client_certificate {
            let _ = write!(text, ";certificate={secret}");
        }
        if let Some(verification) = verification {
            verification.write(&mut text);
        }
        if let Some(name) = server_name {
            let _ = write!(text, ";server-name={}:{name}", name.len());
        }
        if let Some(features) = features {
            features.write(&mut text);
        }
        let mut id = [0; 16];
        id.iter_mut().zip(digest(&SHA256, text.as_bytes()).as_ref()).for_each(|(to, from)| *to = *from);
        PolicyId(Arc::new(id))
    }
}

/// The discovery of a cluster's endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Discovery {
    /// By EDS; the endpoints are in [`Model::endpoints`](super::Model::endpoints).
    Eds,
    /// By DNS in Envoy (a Service of type ExternalName).
    Dns {
        /// The name to resolve.
        hostname: String,
        /// The port to connect to.
        port: u16,
    },
    /// One fixed address (an ExternalName that is a literal IP).
    Static {
        /// The address.
        address: IpAddr,
        /// The port to connect to.
        port: u16,
    },
}

/// The protocol that a backend speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpstreamProtocol {
    /// HTTP/1.1 in clear text.
    Http1,
    /// HTTP/2 in clear text, with prior knowledge.
    H2c,
    /// HTTP/1.1 over TLS.
    Tls,
    /// HTTP/2 over TLS.
    H2,
}

impl UpstreamProtocol {
    /// Returns the protocol with the same version of HTTP over TLS.
    pub fn over_tls(self) -> Self {
        match self {
            Self::Http1 | Self::Tls => Self::Tls,
            Self::H2c | Self::H2 => Self::H2,
        }
    }

    /// Returns whether connections use HTTP/2.
    pub fn is_http2(self) -> bool {
        match self {
            Self::Http1 | Self::Tls => false,
            Self::H2c | Self::H2 => true,
        }
    }

    /// Returns whether connections use TLS.
    pub fn is_tls(self) -> bool {
        match self {
            Self::Http1 | Self::H2c => false,
            Self::Tls | Self::H2 => true,
        }
    }
}

/// Limits of a cluster; `None` is Envoy's default. Source: Envoy `CircuitBreakers.Thresholds`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CircuitBreakers {
    /// Connections.
    pub max_connections: Option<u32>,
    /// Requests that wait for a connection.
    pub max_pending_requests: Option<u32>,
    /// Requests under way.
    pub max_requests: Option<u32>,
    /// Retries under way.
    pub max_retries: Option<u32>,
    /// Connections to one endpoint.
    pub per_host_max_connections: Option<u32>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Authorities, ObjectKey, PeerName, SecretPart};

    #[test]
    fn every_field_of_a_policy_is_in_its_id() {
        let limits = CircuitBreakers::default();
        let policy = TrafficPolicy {
            protocol: UpstreamProtocol::Http1,
            connect_timeout: Duration::from_secs(2),
            limits,
            client_certificate: None,
            verification: None,
            server_name: None,
            features: None,
        };
        let limited = |limits| TrafficPolicy { limits, ..policy.clone() };
        let presenting = |name| {
            let secret = SecretId::new(ObjectKey::new("shop", name), SecretPart::KeyPair);
            TrafficPolicy { client_certificate: Some(secret), ..policy.clone() }
        };
        let verifying = |server_name: &str, ca: Option<&str>, names: &[PeerName]| {
            let secret = |ca| SecretId::of_config_maps([ObjectKey::new("shop", ca)].into());
            let authorities = ca.and_then(secret).map_or(Authorities::System, Authorities::Secret);
            let verification = Verification { server_name: server_name.into(), authorities, names: names.to_vec() };
            TrafficPolicy { verification: Some(Arc::new(verification)), ..policy.clone() }
        };
        let dns = |name: &str| PeerName::Dns(name.into());
        let policies = [
            verifying("a", None, &[dns("a")]),
            verifying("b", None, &[dns("a")]),
            verifying("a", Some("a"), &[dns("a")]),
            verifying("a", Some("b"), &[dns("a")]),
            verifying("a", None, &[dns("b")]),
            verifying("a", None, &[PeerName::DnsBelow("a".into())]),
            verifying("a", None, &[PeerName::Uri("a".into())]),
            verifying("a", None, &[dns("a"), dns("b")]),
            verifying("a", None, &[dns("a;name=5:dns:b")]),
            policy.clone(),
            TrafficPolicy { protocol: UpstreamProtocol::H2c, ..policy.clone() },
            TrafficPolicy { protocol: UpstreamProtocol::Tls, ..policy.clone() },
            TrafficPolicy { protocol: UpstreamProtocol::H2, ..policy.clone() },
            TrafficPolicy { connect_timeout: Duration::from_millis(2), ..policy.clone() },
            limited(CircuitBreakers { max_connections: Some(1), ..limits }),
            limited(CircuitBreakers { max_pending_requests: Some(1), ..limits }),
            limited(CircuitBreakers { max_requests: Some(1), ..limits }),
            limited(CircuitBreakers { max_retries: Some(1), ..limits }),
            limited(CircuitBreakers { per_host_max_connections: Some(1), ..limits }),
            presenting("a"),
            presenting("b"),
            TrafficPolicy { server_name: Some("a".into()), ..policy.clone() },
            TrafficPolicy { server_name: Some("b".into()), ..policy.clone() },
        ];
        let ids: std::collections::BTreeSet<PolicyId> = policies.iter().map(TrafficPolicy::id).collect();
        assert_eq!(ids.len(), policies.len());
        assert_eq!(policy.id(), policy.clone().id());
        // The identity is the same in every version of the program. Otherwise an upgrade would replace all such
        // clusters.
        assert_eq!(policy.id().to_string(), "f5b96f765afa224d82fd297ed8db43a4");
    }
}
