//! Session persistence.

use std::sync::Arc;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::stateful_session::v3 as session_v3;
use envoy_types::pb::envoy::extensions::http::stateful_session::cookie::v3 as cookie_v3;
use envoy_types::pb::envoy::extensions::http::stateful_session::header::v3 as header_v3;
use envoy_types::pb::envoy::r#type::http::v3 as http_v3;
use envoy_types::pb::envoy::r#type::matcher::v3::string_matcher::MatchPattern;

use super::delegate;
use super::wire::{self, string_matcher};
use crate::model::{
    Action, ClusterFilter, Forward, ForwardFilter, HeaderChange, HeaderName, HeaderValue, Route, Session,
    SessionCookie, WeightedCluster,
};

/// Builds the filter of a route with `filters`.
pub fn of_route(filters: &[ForwardFilter]) -> Option<core_v3::TypedExtensionConfig> {
    let (name, config) = match Session::of(filters)? {
        Session::Cookie(SessionCookie { name, path, lifetime, keeps_cluster: _ }) => {
            let (name, path) = (name.to_string(), path.to_string());
            let cookie = http_v3::Cookie { name, path, ttl: lifetime.map(wire::duration), ..Default::default() };
            let state = cookie_v3::CookieBasedSessionState { cookie: Some(cookie) };
            ("envoy.http.stateful_session.cookie", wire::any(&state))
        }
        Session::Header(name) => {
            let state = header_v3::HeaderBasedSessionState { name: name.to_string() };
            ("envoy.http.stateful_session.header", wire::any(&state))
        }
    };
    let state = core_v3::TypedExtensionConfig { name: name.to_owned(), typed_config: Some(config) };
    let session = session_v3::StatefulSession { session_state: Some(state), ..Default::default() };
    Some(delegate::part("envoy.filters.http.stateful_session", &session))
}

/// Divides a route whose sessions stay at one of several clusters. Returns `None` for any other route.
///
/// Envoy chooses the cluster of a request by weight and then looks for the session's endpoint in this cluster only. A second cookie
/// therefore names the cluster. The first result is a route for the sessions of each cluster, with the condition on the cookie.
/// Envoy parses the cookies of a request once for all such conditions. A condition on the header `cookie` would read it again for
/// each route: 0.3 s for a header of 50 KB and 1,000 routes. The second result is the route for new sessions, whose responses set
/// the cookie. Sessions stay at a cluster until its weight is 0 or it is removed, regardless of the other weights.
pub fn by_cluster(route: &Route) -> Option<(Vec<(Route, route_v3::CookieMatcher)>, Route)> {
    let (cookie, forward) = route.divided()?;
    let undivided = route.undivided();
    let Action::Forward(same) = &undivided.action else { return None };
    let forward_to = |clusters: Vec<WeightedCluster>| {
        let forward = Forward { clusters, ..Forward::clone(same) };
        Route { action: Action::Forward(Arc::new(forward)), ..route.clone() }
    };
    let kept = forward.clusters.iter().map(|one| {
        let condition = route_v3::CookieMatcher {
            name: cookie.cluster_name(),
            string_match: Some(string_matcher(MatchPattern::Exact(SessionCookie::value_of(&one.cluster)))),
            ..Default::default()
        };
        (forward_to(vec![WeightedCluster { weight: 1, ..one.clone() }]), condition)
    });
    let header = HeaderName::parse("set-cookie")?;
    let setting = forward.clusters.iter().map(|one| {
        let value = HeaderValue::parse(&with_attributes(cookie.for_cluster(&one.cluster), cookie))?;
        let change = ClusterFilter::ResponseHeaders(vec![HeaderChange::Add(header.clone(), value)]);
        let filters = one.filters.iter().cloned().chain([change]).collect::<Vec<_>>().into();
        Some(WeightedCluster { filters, ..one.clone() })
    });
    Some((kept.collect(), forward_to(setting.collect::<Option<_>>()?)))
}

/// Returns the value of a `set-cookie` header with the attributes of Envoy's session cookie.
fn with_attributes(mut text: String, cookie: &SessionCookie) -> String {
    if let Some(lifetime) = cookie.lifetime {
        text.push_str(&format!("; Max-Age={}", lifetime.as_secs()));
    }
    format!("{text}; Path={}; HttpOnly", cookie.path)
}
