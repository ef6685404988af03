//! Redirects.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;

use super::Marks;
use super::matches::authority;
use super::rewrite::EnvoyPathRewrite;
use crate::envoy::names;
use crate::model::{Action, PathMatch, Redirect, RedirectStatus, Rewrite, Route, Scheme};

/// Builds one or two routes for a redirect. `route` has all other fields.
///
/// A port in the request's `Host` is the port of the listener, which is wrong for another scheme. Envoy keeps it unless
/// the redirect sets a port, and then always writes that port. Requests with a port therefore have a separate route,
/// which sets the default port of the new scheme.
pub(super) fn redirects(route: route_v3::Route, path: &PathMatch, redirect: &Redirect) -> Vec<route_v3::Route> {
    let default = redirect.scheme.map(Scheme::default_port);
    let with = |matched: Option<route_v3::RouteMatch>, port: u16| route_v3::Route {
        r#match: matched,
        action: Some(route_v3::route::Action::Redirect(action(redirect, path, port))),
        ..route.clone()
    };
    if let Some(port) = redirect.port.filter(|port| Some(*port) != default) {
        return vec![with(route.r#match.clone(), port)];
    }
    let host_changes = redirect.rewrite.as_ref().is_some_and(|rewrite| rewrite.host.is_some());
    let (Some(default), Some(matched), false) = (default, &route.r#match, host_changes) else {
        return vec![with(route.r#match.clone(), 0)];
    };
    let has_port = authority(matcher_v3::string_matcher::MatchPattern::Contains(":".to_owned()));
    let (mut with_port, mut without) = (matched.clone(), matched.clone());
    // Envoy evaluates headers first. The condition prevents a second evaluation of the same regular expression.
    if let Some(route_v3::route_match::PathSpecifier::SafeRegex(_)) = matched.path_specifier {
        without.headers.push(route_v3::HeaderMatcher { invert_match: true, ..has_port.clone() });
    }
    with_port.headers.push(has_port);
    vec![with(Some(with_port), default), with(Some(without), 0)]
}

/// Marks the redirect to the same URL on https, which names no object.
///
/// The route contains neither the host nor its object. All hosts with only such redirects therefore share one virtual
/// host, which is most of the plain-text side of a site with TLS. External authorization is off for these redirects.
pub(super) fn marked(route: route_v3::Route, marks: &Marks) -> route_v3::Route {
    let mut typed_per_filter_config = route.typed_per_filter_config;
    typed_per_filter_config.extend(marks.unasked.clone());
    route_v3::Route { name: names::REDIRECT.to_owned(), metadata: None, typed_per_filter_config, ..route }
}

/// Returns whether `redirect` leads to the same URL on https.
pub(super) fn is_to_https(redirect: &Redirect) -> bool {
    redirect.scheme == Some(Scheme::Https) && redirect.rewrite.is_none()
}

/// Returns `routes` without redirects to https that make no difference: those directly before an equal redirect of all requests.
///
/// The plain-text side of a host with TLS is then a single route, whatever the number of its paths.
pub(super) fn without_repetitions(routes: &[Arc<Route>]) -> impl Iterator<Item = &Arc<Route>> {
    let last = routes.iter().position(|route| route.matches.is_everything()).unwrap_or(routes.len());
    let (before, rest) = routes.split_at(last);
    let is_same = |one: &&Arc<Route>| {
        let is_plain = |route: &Route| {
            route.filters.is_empty() && matches!(&route.action, Action::Redirect(to) if is_to_https(to))
        };
        rest.first().is_some_and(|last| is_plain(one) && is_plain(last) && one.action == last.action)
    };
    let repeated = before.iter().rev().take_while(is_same).count();
    before[..last - repeated].iter().chain(rest)
}

/// Builds the redirect. A port of 0 keeps the port of the request.
fn action(redirect: &Redirect, path: &PathMatch, port: u16) -> route_v3::RedirectAction {
    use route_v3::redirect_action::{PathRewriteSpecifier, RedirectResponseCode, SchemeRewriteSpecifier};
    let Redirect { status, scheme, port: _, rewrite } = redirect;
    let response_code = match status {
        RedirectStatus::MovedPermanently => RedirectResponseCode::MovedPermanently,
        RedirectStatus::Found => RedirectResponseCode::Found,
        RedirectStatus::SeeOther => RedirectResponseCode::SeeOther,
        RedirectStatus::TemporaryRedirect => RedirectResponseCode::TemporaryRedirect,
        RedirectStatus::PermanentRedirect => RedirectResponseCode::PermanentRedirect,
    };
    let scheme = scheme.map(|scheme| match scheme {
        Scheme::Https => SchemeRewriteSpecifier::HttpsRedirect(true),
        Scheme::Http => SchemeRewriteSpecifier::SchemeRedirect("http".to_owned()),
    });
    let (host, path_change) = match rewrite.as_deref() {
        Some(Rewrite { host, path: change }) => (host.as_ref(), change.as_ref()),
        None => (None, None),
    };
    let path = path_change.map(|change| match EnvoyPathRewrite::new(path, change) {
        EnvoyPathRewrite::Prefix(prefix) => PathRewriteSpecifier::PrefixRewrite(prefix),
        EnvoyPathRewrite::Regex(change) => PathRewriteSpecifier::RegexRewrite(change),
        EnvoyPathRewrite::Full(path) => PathRewriteSpecifier::PathRedirect(path),
    });
    route_v3::RedirectAction {
        host_redirect: host.map(|host| host.as_str().to_owned()).unwrap_or_default(),
        port_redirect: port.into(),
        response_code: response_code as i32,
        scheme_rewrite_specifier: scheme,
        path_rewrite_specifier: path,
        ..Default::default()
    }
}
