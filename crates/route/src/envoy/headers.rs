//! Headers that the settings set or remove on every request and every answer.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;

use crate::settings::{HeaderPolicies, HeaderPolicy, Hsts};

/// `routes` with the headers of `policies` on all that they forward or answer.
///
/// They stand on the route configuration and not in the listener, so that a change of them drains no connection.
pub fn with_policies(
    mut routes: route_v3::RouteConfiguration,
    policies: &HeaderPolicies,
) -> route_v3::RouteConfiguration {
    let HeaderPolicies { request, response } = policies;
    routes.request_headers_to_add.extend(to_set(request));
    routes.request_headers_to_remove.extend(request.remove.iter().cloned());
    routes.response_headers_to_add.extend(to_set(response));
    routes.response_headers_to_remove.extend(response.remove.iter().cloned());
    routes
}

/// `routes` with an answer's header that says where HTTP/3 is to be had. Source: RFC 7838; RFC 9114 section 3.1.1.
pub fn with_alternative_service(
    mut routes: route_v3::RouteConfiguration,
    advertised_port: u16,
) -> route_v3::RouteConfiguration {
    const MAX_AGE_SECONDS: u32 = 24 * 3600;
    let value = format!(r#"h3=":{advertised_port}"; ma={MAX_AGE_SECONDS}"#);
    routes.response_headers_to_add.push(set("alt-svc", &value));
    routes
}

/// `routes` with an answer's header that makes browsers use HTTPS for the host, unless the backend has sent one. Source:
/// RFC 6797 section 6.1.
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

/// A header that replaces those of its name. `value` is in Envoy's format, where `%%` is a per cent sign.
pub(super) fn set(name: &str, value: &str) -> core_v3::HeaderValueOption {
    core_v3::HeaderValueOption {
        header: Some(core_v3::HeaderValue { key: name.to_owned(), value: value.to_owned(), ..Default::default() }),
        append_action: core_v3::header_value_option::HeaderAppendAction::OverwriteIfExistsOrAdd as i32,
        // Envoy leaves out what is empty unless told otherwise.
        keep_empty_value: value.is_empty(),
        ..Default::default()
    }
}
