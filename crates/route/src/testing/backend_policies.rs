//! Builders of BackendPolicies and XBackendTrafficPolicies.

use super::objects::{meta, with_meta};
use crate::objects::gateway::{
    BudgetDetails, RequestRate, RetryConstraint, SessionPersistence, XBackendTrafficPolicy, XBackendTrafficPolicySpec,
};
use crate::objects::{
    BackendPolicy, BackendPolicySpec, BackendPolicyTarget, EndpointHttp3Spec, GrpcProbeSpec, HashOnSpec, HashOnType,
    HealthCheckSpec, HttpProbeSpec, LoadBalancingAlgorithm, LoadBalancingSpec, Object, OutlierDetectionSpec,
    PreferredZones, ZonesSpec,
};

/// A BackendPolicy.
#[derive(Clone)]
pub struct BackendPolicyBuilder(BackendPolicy);
with_meta!(BackendPolicyBuilder);

/// Starts the BackendPolicy `shop/name`, or `name` if it has a namespace. It has neither targets nor features.
pub fn backend_policy(name: &str) -> BackendPolicyBuilder {
    let spec = BackendPolicySpec::default();
    BackendPolicyBuilder(BackendPolicy { meta: meta(name), spec, status: Default::default(), version: "".into() })
}

impl BackendPolicyBuilder {
    /// Adds a Service as a target, or its port of this name or number.
    pub fn target(mut self, service: &str, port: Option<&str>) -> Self {
        let (kind, name, section_name) = ("Service".to_owned(), service.to_owned(), port.map(Into::into));
        self.0.spec.target_refs.push(BackendPolicyTarget { group: String::new(), kind, name, section_name });
        self
    }

    /// Ejects endpoints after this number of responses with a status of 500 or higher.
    pub fn consecutive_5xx(self, count: u32) -> Self {
        let detection = OutlierDetectionSpec { consecutive_5xx: Some(count), ..OutlierDetectionSpec::default() };
        self.spec(|spec| spec.outlier_detection = Some(detection.into()))
    }

    /// Checks the endpoints over HTTP at this path, and at a port of their own.
    pub fn http_check(self, path: &str, port: Option<u16>) -> Self {
        let http = HttpProbeSpec { path: path.to_owned(), ..HttpProbeSpec::default() };
        let check = HealthCheckSpec { http: Some(http), port, ..HealthCheckSpec::default() };
        self.spec(|spec| spec.health_check = Some(check.into()))
    }

    /// Checks the endpoints by the gRPC health protocol.
    pub fn grpc_check(self, service: &str) -> Self {
        let grpc = GrpcProbeSpec { service: service.to_owned() };
        let check = HealthCheckSpec { grpc: Some(grpc), ..HealthCheckSpec::default() };
        self.spec(|spec| spec.health_check = Some(check.into()))
    }

    /// Selects the endpoint by a header.
    pub fn hash_on_header(self, algorithm: LoadBalancingAlgorithm, header: &str) -> Self {
        let part = HashOnSpec { r#type: HashOnType::Header, name: Some(header.to_owned()), ..HashOnSpec::default() };
        let balancing = LoadBalancingSpec { algorithm, slow_start: None, hash_on: vec![part] };
        self.spec(|spec| spec.load_balancing = Some(balancing.into()))
    }

    /// Closes idle connections after this time.
    pub fn idle_timeout(self, time: &str) -> Self {
        self.spec(|spec| spec.idle_timeout = Some(time.to_owned().into()))
    }

    /// Enables or disables HTTP/3 to the endpoints, without a server name.
    pub fn http3(self, enabled: bool) -> Self {
        self.spec(|spec| spec.http3 = Some(EndpointHttp3Spec { enabled: Some(enabled), server_name: None }.into()))
    }

    /// Enables HTTP/3 to endpoints with this server name.
    pub fn http3_of(self, server_name: &str) -> Self {
        let server_name = Some(server_name.to_owned());
        self.spec(|spec| spec.http3 = Some(EndpointHttp3Spec { enabled: None, server_name }.into()))
    }

    /// Prefers the endpoints in the zone of an Envoy, or those of no zone.
    pub fn zones(self, prefer: PreferredZones) -> Self {
        self.spec(|spec| spec.zones = Some(ZonesSpec { prefer, min_local_endpoints: None }.into()))
    }

    /// Applies any other change to the spec.
    pub fn spec(mut self, change: impl FnOnce(&mut BackendPolicySpec)) -> Self {
        change(&mut self.0.spec);
        self
    }
}

/// An XBackendTrafficPolicy.
#[derive(Clone)]
pub struct TrafficPolicyBuilder(XBackendTrafficPolicy);
with_meta!(TrafficPolicyBuilder);

/// Starts the XBackendTrafficPolicy `shop/name`, or `name` if it has a namespace. It has neither targets nor features.
pub fn traffic_policy(name: &str) -> TrafficPolicyBuilder {
    let spec = XBackendTrafficPolicySpec::default();
    let policy = XBackendTrafficPolicy { meta: meta(name), spec, status: Default::default(), version: "".into() };
    TrafficPolicyBuilder(policy)
}

impl TrafficPolicyBuilder {
    /// Adds a Service as a target.
    pub fn target(self, service: &str) -> Self {
        self.target_of_kind("Service", service)
    }

    /// Adds an object of any kind of the core group as a target.
    pub fn target_of_kind(mut self, kind: &str, name: &str) -> Self {
        let (group, kind, name) = (String::new(), kind.to_owned(), name.to_owned());
        self.0.spec.target_refs.push(BackendPolicyTarget { group, kind, name, section_name: None });
        self
    }

    /// Limits the retries to this percentage, and always allows this number of retries in an interval.
    pub fn retries(mut self, percent: u32, count: u32, interval: &str) -> Self {
        let budget = Some(BudgetDetails { percent: Some(percent), interval: Some("10s".to_owned()) });
        let min_retry_rate = Some(RequestRate { count: Some(count), interval: Some(interval.to_owned()) });
        self.0.spec.retry_constraint = Some(RetryConstraint { budget, min_retry_rate }.into());
        self
    }

    /// Keeps sessions by a cookie or a header of this name.
    pub fn session(mut self, kind: &str, name: Option<&str>) -> Self {
        let (r#type, session_name) = (Some(kind.to_owned()), name.map(ToOwned::to_owned));
        self.0.spec.session_persistence =
            Some(SessionPersistence { r#type, session_name, ..SessionPersistence::default() }.into());
        self
    }
}
