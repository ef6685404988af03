//! The features of BackendPolicies in the policy of a cluster. A feature that the endpoints cannot have is left out.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::service_policy;
use crate::model::{
    BackendFeatures, Http3, PeerName, Probe, TrafficPolicy, UpstreamProtocol, Verification, ZonePreference,
};
use crate::objects::Service;
use crate::settings::Settings;
use crate::translate::problem::{Problem, Reason};

/// A feature that a cluster does not have, although a BackendPolicy sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmet {
    /// The gRPC health check of endpoints that speak HTTP/1.1. Envoy rejects such a cluster.
    GrpcCheck,
    /// HTTP/3 without TLS.
    Http3WithoutTls,
    /// HTTP/3 without a server name. Over QUIC, Envoy connects only to endpoints whose certificate has a DNS name that covers the server
    /// name, whatever it verifies otherwise.
    Http3WithoutName,
    /// HTTP/3 with PROXY headers. Envoy rejects such a cluster.
    Http3WithProxyHeaders,
    /// HTTP/3 with the gRPC health check. Envoy rejects such a cluster.
    Http3WithGrpcCheck,
}

impl Unmet {
    /// Returns whether `features` set the feature.
    pub fn is_set(self, features: &BackendFeatures) -> bool {
        match self {
            Self::GrpcCheck => features.health_check.is_some(),
            Self::Http3WithoutTls | Self::Http3WithoutName | Self::Http3WithProxyHeaders | Self::Http3WithGrpcCheck => {
                features.http3.is_some()
            }
        }
    }

    /// Returns the problem of the policy that sets the feature.
    pub fn problem(self, policy: &ObjectRef, service: &str, port: u16) -> Problem {
        let (field, fault, consequence) = match self {
            Self::GrpcCheck => {
                ("spec.healthCheck.grpc", "speaks HTTP/1.1, and gRPC needs HTTP/2", "its endpoints are not checked")
            }
            Self::Http3WithoutTls => {
                ("spec.http3", "has a route without TLS, which HTTP/3 requires", "such routes do not use HTTP/3")
            }
            Self::Http3WithoutName => (
                "spec.http3.serverName",
                "has a route that does not verify one DNS name, and no name is set",
                "such routes do not use HTTP/3",
            ),
            Self::Http3WithProxyHeaders => (
                "spec.http3",
                "receives PROXY headers, which HTTP/3 does not support",
                "its requests are sent over TCP, with PROXY headers",
            ),
            Self::Http3WithGrpcCheck => (
                "spec.http3",
                "has a gRPC health check, which needs HTTP/2",
                "its requests are sent over HTTP/2, and its endpoints are checked",
            ),
        };
        Problem {
            object: policy.clone(),
            field: field.to_owned(),
            reason: Reason::PolicyNotValid,
            message: format!("port {port} of Service {service:?} {fault}").into(),
            consequence: consequence.to_owned(),
        }
    }
}

/// Adds the preference of zones of the Service, if no policy sets one. The preference of no zone is Envoy's default.
pub fn with_zones(features: Option<BackendFeatures>, service: &Service) -> Option<BackendFeatures> {
    let of_service = service.prefers_close.then_some(ZonePreference::Local { min_endpoints: 1 });
    match features {
        Some(features) => {
            let zones = features.zones.or(of_service).filter(|zones| *zones != ZonePreference::Any);
            Some(BackendFeatures { zones, ..features })
        }
        None => of_service.map(|_| BackendFeatures { zones: of_service, ..BackendFeatures::default() }),
    }
}

/// Returns the policy of a route with the features of BackendPolicies, and the features that are left out because the endpoints cannot
/// have them. The features of the route take precedence. Without a valid feature, the cluster keeps its identity.
pub fn with_features(
    policy: Option<TrafficPolicy>,
    of_policies: Option<&BackendFeatures>,
    (service, number): (&Service, u16),
    settings: &Settings,
) -> (Option<TrafficPolicy>, Vec<Unmet>) {
    let Some(of_policies) = of_policies else { return (policy, Vec::new()) };
    let own = || service_policy(service, number, settings).0;
    let base = policy.clone().unwrap_or_else(own);
    let features = match &base.features {
        Some(of_route) => of_route.or(of_policies),
        None => of_policies.clone(),
    };
    let mut features = checkable(features, service);
    let mut unmet = Vec::new();
    if needs_http2(&features) && !base.protocol.is_http2() {
        features.health_check = None;
        unmet.push(Unmet::GrpcCheck);
    }
    if let Some(Http3::Enabled { server_name }) = features.http3.take() {
        // The bytes of clients have no TLS of Envoy, although the Service speaks TLS. They are sent over TCP as before.
        let are_bytes = || policy.is_some() && base.protocol == UpstreamProtocol::Http1 && own().protocol.is_tls();
        match http3_name(&base, &features, server_name) {
            Ok(name) => features.http3 = Some(Http3::Enabled { server_name: Some(name) }),
            Err(Unmet::Http3WithoutTls) if are_bytes() => {}
            Err(obstacle) => unmet.push(obstacle),
        }
    }
    match features.is_empty() {
        true => (policy, unmet),
        false => (Some(TrafficPolicy { features: Some(features.into()), ..base }), unmet),
    }
}

/// Returns the server name of connections over HTTP/3, or why requests cannot be sent over it. `server_name` is that of the policy.
fn http3_name(
    base: &TrafficPolicy,
    features: &BackendFeatures,
    server_name: Option<Arc<str>>,
) -> Result<Arc<str>, Unmet> {
    if !base.protocol.is_tls() {
        return Err(Unmet::Http3WithoutTls);
    }
    if features.proxy_protocol.is_some() {
        return Err(Unmet::Http3WithProxyHeaders);
    }
    if needs_http2(features) {
        return Err(Unmet::Http3WithGrpcCheck);
    }
    let verified = base.verification.as_ref().and_then(|verification| verified_name(verification));
    verified.cloned().or(server_name).ok_or(Unmet::Http3WithoutName)
}

/// Returns the DNS name that every verified certificate covers, if it can be the server name.
fn verified_name(verification: &Verification) -> Option<&Arc<str>> {
    let Verification { server_name, authorities: _, names } = verification;
    match &names[..] {
        [PeerName::Dns(name)] if server_name.is_empty() || server_name == name => Some(name),
        _ => None,
    }
}

/// Returns the features without a health check if the Service has an external name: its owner could make Envoy probe hosts
/// outside of the Kubernetes cluster.
fn checkable(features: BackendFeatures, service: &Service) -> BackendFeatures {
    match service.external_name {
        None => features,
        Some(_) => BackendFeatures { health_check: None, ..features },
    }
}

fn needs_http2(features: &BackendFeatures) -> bool {
    features.health_check.as_ref().is_some_and(|check| matches!(check.probe, Probe::Grpc { .. }))
}
