//! Headers that the settings set or remove on all requests and responses.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;

use crate::settings::{HeaderPolicies, HeaderPolicy, Hsts};

/// The kind of objects whose routes can be without the headers.
pub const INGRESS: &str = "Ingress";

/// Adds the headers of `policies` to all requests that `routes` forward and to all responses, if they apply to the routes of all objects.
///
/// The headers belong to the route configuration and not to the listener, so that a change drains no connection.
pub fn with_policies(
    mut routes: route_v3::RouteConfiguration,
    policies: &HeaderPolicies,
) -> route_v3::RouteConfiguration {
    let HeaderPolicies { request, response, ingresses } = policies;
    if !ingresses {
        return routes;
    }
    routes.request_headers_to_add.extend(to_set(request));
    routes.request_headers_to_remove.extend(request.remove.iter().cloned());
    routes.response_headers_to_add.extend(to_set(response));
    routes.response_headers_to_remove.extend(response.remove.iter().cloned());
    routes
}

/// Adds the headers of `policies` to a route. They precede those of the route: Envoy removes the headers of a route before it adds others.
pub fn add_policies(route: &mut route_v3::Route, policies: &HeaderPolicies) {
    let HeaderPolicies { request, response, ingresses: _ } = policies;
    let add = |policy: &HeaderPolicy, set: &mut Vec<core_v3::HeaderValueOption>, removed: &mut Vec<String>| {
        let is_removed = |name: &str| policy.remove.iter().any(|removed| removed == name);
        set.retain(|option| !option.header.as_ref().is_some_and(|header| is_removed(&header.key)));
        set.extend(to_set(policy));
        removed.extend(policy.remove.iter().cloned());
    };
    add(request, &mut route.request_headers_to_add, &mut route.request_headers_to_remove);
    add(response, &mut route.response_headers_to_add, &mut route.response_headers_to_remove);
}

/// Adds a response header to `routes` that announces HTTP/3. Source: RFC 7838; RFC 9114 section 3.1.1.
pub fn with_alternative_service(
    mut routes: route_v3::RouteConfiguration,
    advertised_port: u16,
) -> route_v3::RouteConfiguration {
    const MAX_AGE_SECONDS: u32 = 24 * 3600;
    let value = format!(r#"h3=":{advertised_port}"; ma={MAX_AGE_SECONDS}"#);
    routes.response_headers_to_add.push(set("alt-svc", &value));
    routes
}

/// Adds a response header to `routes` that makes browsers use HTTPS for the host, unless the backend has sent one.
/// Source: RFC 6797 section 6.1.
pub fn with_hsts(mut routes: route_v3::RouteConfiguration, hsts: &Hsts) -> route_v3::RouteConfiguration {
    let Some(max_age) = hsts.max_age else { return routes };
    let mut value = format!("max-age={}", max_age.as_secs());
    for (part, sent) in [("; includeSubDomains", hsts.include_subdomains), ("; preload", hsts.preload)] {
        value.push_str(if sent { part } else { "" });
    }
    routes.response_headers_to_add.push(core_v3::HeaderValueOption {
        append_action: core_v3::header_value_option::HeaderAppendAction::AddIfAbsent as i32,
        ..set("strict-transport-security", &value)
    });
    routes
}

fn to_set(policy: &HeaderPolicy) -> impl Iterator<Item = core_v3::HeaderValueOption> {
    policy.set.iter().map(|(name, value)| set(name, value))
}

/// Builds a header that replaces existing values. `value` is in Envoy's format, where `%%` is a percent sign.
pub(super) fn set(name: &str, value: &str) -> core_v3::HeaderValueOption {
    core_v3::HeaderValueOption {
        header: Some(core_v3::HeaderValue { key: name.to_owned(), value: value.to_owned(), ..Default::default() }),
        append_action: core_v3::header_value_option::HeaderAppendAction::OverwriteIfExistsOrAdd as i32,
        // By default, Envoy omits empty headers.
        keep_empty_value: value.is_empty(),
        ..Default::default()
    }
}
