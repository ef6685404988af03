//! The status of a GatewayClass: whether it is accepted, and the features that Lockgate supports.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::gateway::GatewayClass;
use serde_json::{Value, json};

use super::cause;
use super::conditions::{Wanted, are, merge};
use crate::status::kind::{Facts, Goal, HasStatus};

/// The supported features, sorted by name. The official conformance suite tests them. Source: Gateway API v1.6,
/// `pkg/features`.
pub const FEATURES: &[&str] = &[
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayHTTPListenerIsolation",
    "GatewayHTTPSListenerDetectMisdirectedRequests",
    "GatewayInfrastructure",
    "GatewayPort8080",
    "GatewayStaticAddresses",
    "HTTPRoute",
    "HTTPRoute303RedirectStatusCode",
    "HTTPRoute307RedirectStatusCode",
    "HTTPRoute308RedirectStatusCode",
    "HTTPRouteBackendProtocolH2C",
    "HTTPRouteBackendProtocolWebSocket",
    "HTTPRouteBackendRequestHeaderModification",
    "HTTPRouteBackendTimeout",
    "HTTPRouteCORS",
    "HTTPRouteDestinationPortMatching",
    "HTTPRouteHostRewrite",
    "HTTPRouteMethodMatching",
    "HTTPRouteNamedRouteRule",
    "HTTPRouteParentRefPort",
    "HTTPRoutePathRedirect",
    "HTTPRoutePathRewrite",
    "HTTPRoutePortRedirect",
    "HTTPRouteQueryParamMatching",
    "HTTPRouteRequestMirror",
    "HTTPRouteRequestMultipleMirrors",
    "HTTPRouteRequestPercentageMirror",
    "HTTPRouteRequestTimeout",
    "HTTPRouteResponseHeaderModification",
    "HTTPRouteSchemeRedirect",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

impl HasStatus for GatewayClass {
    type Status = Vec<Wanted>;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Self::Status>> {
        facts.published?;
        let generation = self.meta.generation;
        let status: Vec<_> = facts.verdicts.iter().map(|verdict| Wanted::of_verdict(verdict, generation)).collect();
        // Before version 1.2 of Gateway API, the field is unknown, and the API server drops it.
        let features: Vec<&str> = self.status.supported_features.iter().map(|feature| &*feature.name).collect();
        let is_right = are(&self.status.conditions, &status) && (features.is_empty() || features == FEATURES);
        (!is_right).then(|| Goal { cause: cause(&status), status, needs: None })
    }

    fn patch(&self, status: &Self::Status, envoys: usize, now: Timestamp) -> Value {
        let features: Vec<Value> = FEATURES.iter().map(|name| json!({ "name": name })).collect();
        let conditions = merge(&self.status.conditions, status, envoys, now);
        json!({ "conditions": conditions, "supportedFeatures": features })
    }

    fn summary(status: &Self::Status) -> String {
        super::summary(status)
    }
}
