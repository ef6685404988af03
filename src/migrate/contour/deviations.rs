//! Deviations from Contour that no fault reveals: valid objects that Lockgate serves differently.

use lockgate_route::objects::http_proxy::{ExtensionService, HttpProxy, ProxyRoute};

use super::row::Verdict;

/// A deviation of an object.
#[derive(Debug, PartialEq, Eq)]
pub struct Deviation {
    /// The verdict.
    pub verdict: Verdict,
    /// The field.
    pub field: String,
    /// The fact, lower case, no full stop.
    pub message: String,
    /// The remedy. Empty if no action is needed.
    pub remedy: &'static str,
}

fn better(field: impl Into<String>, message: impl Into<String>) -> Deviation {
    Deviation { verdict: Verdict::Better, field: field.into(), message: message.into(), remedy: "" }
}

fn attention(field: impl Into<String>, message: impl Into<String>, remedy: &'static str) -> Deviation {
    Deviation { verdict: Verdict::Attention, field: field.into(), message: message.into(), remedy }
}

/// Returns the deviations of an HTTPProxy.
pub fn of_proxy(proxy: &HttpProxy) -> Vec<Deviation> {
    let mut found = Vec::new();
    let spec = &proxy.spec;
    if let Some(host) = &spec.virtualhost {
        if host.tls.is_none() {
            let message = "Lockgate enforces it on plain HTTP; Contour rejects the object, because the host has no TLS";
            if host.authorization.is_some() {
                found.push(better("spec.virtualhost.authorization", message));
            }
            if !host.jwt_providers.is_empty() {
                found.push(better("spec.virtualhost.jwtProviders", message));
            }
        } else if !host.jwt_providers.is_empty() {
            let message = "each route has its own key set; in Contour, one host can replace the key set of another \
                           (GHSA-9x3c-68m7-f3x4)";
            found.push(better("spec.virtualhost.jwtProviders", message));
        }
    }
    spec.routes.iter().enumerate().for_each(|(index, route)| of_route(index, route, &mut found));
    found
}

fn of_route(index: usize, route: &ProxyRoute, found: &mut Vec<Deviation>) {
    let field = |name: &str| format!("spec.routes[{index}].{name}");
    let policies = route.load_balancer_policy.iter().flat_map(|policy| policy.request_hash_policies.iter().enumerate());
    for (at, policy) in policies {
        let name = policy.query_parameter_hash_options.as_ref().map_or("", |options| &options.parameter_name);
        if name.chars().any(char::is_uppercase) {
            let field = field(&format!("loadBalancerPolicy.requestHashPolicies[{at}].queryParameterHashOptions"));
            let message =
                format!("{name:?} is hashed as written; Contour looks for it in lower case, and finds no value");
            found.push(better(field, message));
        }
    }
    let of_services = route.services.iter().any(|service| !service.cookie_rewrite_policies.is_empty());
    if !route.cookie_rewrite_policies.is_empty() || of_services {
        let message = "values are data; before 1.33.4, Contour ran a value as a part of a program (CVE-2026-41246)";
        found.push(better(field("cookieRewritePolicies"), message));
    }
}

/// Returns the deviations of an ExtensionService.
pub fn of_extension_service(service: &ExtensionService) -> Vec<Deviation> {
    let mut found = Vec::new();
    if service.spec.services.len() > 1 {
        let message = "the Service with the largest weight is called; Contour calls all of them by weight";
        found.push(attention("spec.services", message, "Use one Service that selects the pods of all of them."));
    }
    for name in service.spec.rest.names() {
        let remedy = "Remove the field. A BackendPolicy for the Service has similar features (docs/backends.md).";
        found.push(attention(format!("spec.{name}"), "the field is not served, and left out", remedy));
    }
    for (index, target) in service.spec.services.iter().enumerate() {
        for name in target.rest.names() {
            let field = format!("spec.services[{index}].{name}");
            found.push(attention(field, "the field is not served, and left out", "Remove the field."));
        }
    }
    found
}
