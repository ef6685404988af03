//! Redirects of backends that Envoy follows itself.
//!
//! Envoy looks for the new route before it follows a redirect, with the headers of the request as they were sent to the backend. The
//! headers with the keys of scopes are therefore forwarded for hosts with such a route: see [`keeps_key`]. They also confine redirects to
//! the scope of the host. Elsewhere, the names of routes do: a redirect to a route of another object is not followed.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::internal_redirect::allow_listed_routes::v3 as allow_listed_v3;
use envoy_types::pb::envoy::extensions::internal_redirect::safe_cross_scheme::v3 as safe_v3;

use crate::envoy::{delegate, wire};
use crate::model::{Action, ForwardFilter, InternalRedirects, LOOP, SchemeChange, VirtualHostRoutes};

/// Builds the policy of a route with this name. Requests that follow a redirect pass all filters again.
pub fn policy(redirects: &InternalRedirects, name: &str) -> route_v3::InternalRedirectPolicy {
    let InternalRedirects { most, statuses, schemes } = redirects;
    let own = allow_listed_v3::AllowListedRoutesConfig { allowed_route_names: vec![name.to_owned()] };
    let own = delegate::part("envoy.internal_redirect_predicates.allow_listed_routes", &own);
    let safe =
        || delegate::part("envoy.internal_redirect_predicates.safe_cross_scheme", &safe_v3::SafeCrossSchemeConfig {});
    let predicates: Vec<core_v3::TypedExtensionConfig> =
        [own].into_iter().chain((*schemes == SchemeChange::ToPlainText).then(safe)).collect();
    route_v3::InternalRedirectPolicy {
        max_internal_redirects: Some(wire::uint32(*most)),
        redirect_response_codes: statuses.iter().map(|status| u32::from(status.code())).collect(),
        predicates,
        allow_cross_scheme_redirect: *schemes != SchemeChange::Never,
        // A redirect has no such header, so the request loses its mark. It gets the mark again, and is not mistaken for a loop.
        response_headers_to_copy: vec![LOOP.to_owned()],
    }
}

/// Returns whether requests keep the header with the key of their scope: a route of the host follows redirects.
pub fn keeps_key(content: &VirtualHostRoutes) -> bool {
    let follows = |filter: &ForwardFilter| matches!(filter, ForwardFilter::InternalRedirects(_));
    content.routes.iter().any(|route| match &route.action {
        Action::Forward(forward) => forward.filters.iter().any(follows),
        Action::Redirect(_) | Action::Respond { .. } => false,
    })
}
