//! The status of a GatewayClass: whether it is accepted, and the features that Lockgate supports.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Objects;
use lockgate_route::objects::gateway::{GatewayClass, Installed};
use serde_json::{Value, json};

use super::conditions::{self, DesiredCondition, are_current, goal, merge};
use crate::status::kind::{Facts, Goal, HasStatus};

/// The features that Lockgate supports with any CustomResourceDefinitions, sorted by name. The official conformance
/// suite tests them. Source: Gateway API v1.6, `pkg/features`.
pub const FEATURES: &[&str] = &[
    "BackendTLSPolicy",
    "BackendTLSPolicySANValidation",
    "GRPCRoute",
    "GRPCRouteNamedRouteRule",
    "Gateway",
    "GatewayAddressEmpty",
    "GatewayBackendClientCertificate",
    "GatewayFrontendClientCertificateValidation",
    "GatewayFrontendClientCertificateValidationInsecureFallback",
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
    "ListenerSet",
    "ReferenceGrant",
    "TCPRoute",
    "TLSRoute",
    "TLSRouteModeMixed",
    "TLSRouteModeTerminate",
    "UDPRoute",
];

/// The features that need fields of the experimental channel.
const EXPERIMENTAL: &[&str] = &["HTTPRouteRetry"];

/// The status that a GatewayClass should have.
#[derive(Debug, Clone, PartialEq)]
pub struct DesiredGatewayClassStatus {
    conditions: Vec<DesiredCondition>,
    features: Vec<&'static str>,
}

/// Returns the features that Lockgate supports with the installed CustomResourceDefinitions, sorted by name.
fn features(objects: &Objects) -> Vec<&'static str> {
    let experimental = Installed::of(objects).is_some_and(|installed| installed.experimental);
    let more = if experimental { EXPERIMENTAL } else { &[] };
    let mut features: Vec<&str> = FEATURES.iter().chain(more).copied().collect();
    features.sort_unstable();
    features
}

impl HasStatus for GatewayClass {
    type Status = DesiredGatewayClassStatus;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Self::Status>> {
        facts.published?;
        let generation = self.meta.generation;
        let status: Vec<_> =
            facts.verdicts.iter().map(|verdict| DesiredCondition::from_verdict(verdict, generation)).collect();
        let desired = DesiredGatewayClassStatus { conditions: status, features: features(&facts.inspection.objects) };
        // Before version 1.2 of Gateway API, the field does not exist, and the API server drops it.
        let features: Vec<&str> = self.status.supported_features.iter().map(|feature| &*feature.name).collect();
        let has_features = features.is_empty() || features == desired.features;
        let is_current = are_current(&self.status.conditions, &desired.conditions) && has_features;
        (!is_current).then(|| goal(desired))
    }

    fn patch(&self, status: &Self::Status, envoys: usize, now: Timestamp) -> Value {
        let features: Vec<Value> = status.features.iter().map(|name| json!({ "name": name })).collect();
        let conditions = merge(&self.status.conditions, &status.conditions, envoys, now);
        json!({ "conditions": conditions, "supportedFeatures": features })
    }

    fn summary(status: &Self::Status) -> String {
        conditions::summary(&status.conditions)
    }
}
