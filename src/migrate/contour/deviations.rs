//! Deviations from Contour that no fault reveals: valid objects that Lockgate serves differently.

use lockgate_route::objects::http_proxy::{ExtensionService, HttpProxy, ProxyRoute};

use super::row::Verdict;

/// What Contour's configuration says about objects.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The classes that Contour serves. Empty: `contour`, and objects without a class.
    pub classes: Vec<String>,
    /// The namespaces whose roots Contour serves. Empty: all.
    pub root_namespaces: Vec<String>,
    /// Whether Contour ignores `permitInsecure`.
    pub ignores_permit_insecure: bool,
    /// Whether a server authorizes the requests of all hosts.
    pub authorizes_all: bool,
}

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
pub fn of_proxy(proxy: &HttpProxy, facts: &Facts) -> Vec<Deviation> {
    let mut found = Vec::new();
    let spec = &proxy.spec;
    if let Some(host) = &spec.virtualhost {
        let namespace = &*proxy.meta.key.namespace;
        if !facts.root_namespaces.is_empty() && !facts.root_namespaces.iter().any(|root| root == namespace) {
            let message =
                "the namespace is not one of rootNamespaces: Contour does not serve this host, and Lockgate does";
            let remedy =
                "Delete the object, or set hosts.requireGrant and write HostGrants for the permitted namespaces.";
            found.push(attention("spec.virtualhost.fqdn", message, remedy));
        }
        if host.tls.is_none() {
            let message = "Lockgate enforces it on plain HTTP; Contour rejects the object, because the host has no TLS";
            if host.authorization.is_some() {
                found.push(better("spec.virtualhost.authorization", message));
            }
            if !host.jwt_providers.is_empty() {
                found.push(better("spec.virtualhost.jwtProviders", message));
            }
        } else if !host.jwt_providers.is_empty() {
            let message = "each route has keys of its own; with Contour, the keys of two hosts can replace each other \
                           (GHSA-9x3c-68m7-f3x4)";
            found.push(better("spec.virtualhost.jwtProviders", message));
        }
        let is_disabled = |authorization: &lockgate_route::objects::http_proxy::AuthorizationServer| {
            authorization.auth_policy.as_ref().is_some_and(|policy| policy.disabled)
        };
        if facts.authorizes_all && host.authorization.as_ref().is_some_and(is_disabled) {
            found.push(still_authorized("spec.virtualhost.authorization.authPolicy.disabled".to_owned()));
        }
    }
    spec.routes.iter().enumerate().for_each(|(index, route)| of_route(index, route, facts, &mut found));
    found
}

fn still_authorized(field: String) -> Deviation {
    let message = "externalAuthorization authorizes all requests, also those that Contour exempts here";
    let remedy = "Let the authorization server permit these requests, or replace the setting by HTTPPolicies (docs/policies.md).";
    attention(field, message, remedy)
}

fn of_route(index: usize, route: &ProxyRoute, facts: &Facts, found: &mut Vec<Deviation>) {
    let field = |name: &str| format!("spec.routes[{index}].{name}");
    if facts.ignores_permit_insecure && route.permit_insecure {
        let message = "Lockgate serves the route in plain HTTP; with disablePermitInsecure, Contour redirects to HTTPS";
        found.push(attention(field("permitInsecure"), message, "Remove the field."));
    }
    if facts.authorizes_all && route.auth_policy.as_ref().is_some_and(|policy| policy.disabled) {
        found.push(still_authorized(field("authPolicy.disabled")));
    }
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
        let message = "values are data; with Contour, a value is a part of a program (CVE-2026-41246)";
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
