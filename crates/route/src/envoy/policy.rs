//! The HTTP filters that only routes configure: policies, sessions, and changes of cookies.
//!
//! [Delegates](delegate) run the filters of a route. One is enough unless a request can wait for two servers, or for the keys of its token. The limits of request rates have a filter of their own, because the filter chain counts them.

use std::collections::HashMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::grpc_web::v3 as grpc_web_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::google::protobuf as google;

use super::{
    api_keys, authorization, basic_auth, body_limit, client_addresses, compression, cookies, csrf, delegate,
    error_responses, fault, grpc_json, host_check, jwt, local_rate_limit, oidc, processing, rate_limit, request_buffer,
    response_limit, session, wasm,
};
use crate::model::{Faults, ForwardFilter, LocalRateLimit, RoutePolicy};
use crate::settings::Compression;

/// The names of the delegates, to which routes refer, in order. Of the filters of a delegate, only the last may wait.
const DELEGATES: [&str; 4] = ["lockgate.first", "lockgate.route", LAST, PROCESSING];
/// The name of the delegate behind all limits.
const LAST: &str = "lockgate.last";
/// The name of the delegate behind all filters that check or hold requests.
const PROCESSING: &str = "lockgate.processing";

/// Builds the HTTP filters in order, except for the [last ones](last). They have no effect on routes without a configuration.
///
/// If they are `disabled`, Envoy creates them only for routes that configure them. `error_responses`: whether error responses may be replaced.
pub fn filters(disabled: bool, error_responses: bool) -> impl Iterator<Item = hcm_v3::HttpFilter> {
    let delegates = DELEGATES.into_iter().filter(|name| ![LAST, PROCESSING].contains(name));
    let delegates = delegates.map(move |name| delegate::filter(name, disabled));
    // Error responses of all others are replaced. Filters behind a delegate that waits do not see the request, so context precedes it.
    let with_context = authorization::filters_with_context();
    let errors = error_responses.then(|| error_responses::filter(disabled));
    errors.into_iter().chain(with_context).chain(delegates).chain([local_rate_limit::filter(disabled)])
}

/// Builds the last HTTP filters before the router. Requests beyond a limit do not reach them.
pub fn last(disabled: bool) -> [hcm_v3::HttpFilter; 2] {
    [LAST, PROCESSING].map(|name| delegate::filter(name, disabled))
}

/// Builds the configuration of a route with this policy and these filters, by filter of the listener. `has_streams`: see
/// [`body_limit::has_streams`]. `compression`: the settings.
pub fn per_route(
    policy: Option<&RoutePolicy>,
    filters: &[ForwardFilter],
    has_streams: bool,
    compression: &Compression,
) -> HashMap<String, google::Any> {
    let is_limited = policy.is_some_and(|policy| {
        let held = policy.processing.as_ref().is_some_and(|server| server.holds_bodies());
        let converts = policy.grpc_json.is_some();
        held || converts || policy.max_request_body_bytes.is_some() || policy.buffered_request_bytes.is_some()
    });
    let limited = delegated(policy, true, filters, compression);
    let unlimited = is_limited.then(|| delegated(policy, false, filters, compression));
    // Streams of gRPC have no end, so their bodies are not held for the conversion.
    let grpc = policy.filter(|policy| policy.grpc_json.is_some()).map(|policy| {
        let policy = RoutePolicy { grpc_json: None, ..policy.clone() };
        delegated(Some(&policy), true, filters, compression)
    });
    let parts = DELEGATES.into_iter().zip(limited).enumerate().filter(|(_, (_, parts))| !parts.is_empty());
    let delegated = parts.map(|(i, (name, parts))| {
        let unlimited = unlimited.as_ref().map(|lists| (body_limit::is_unlimited(has_streams), lists));
        let grpc = grpc.as_ref().map(|lists| (grpc_json::is_grpc(), lists));
        let others = unlimited.into_iter().chain(grpc);
        let others = others.filter_map(|(predicate, lists)| Some((predicate, lists.get(i)?.clone())));
        let others = others.filter(|(_, others)| *others != parts);
        let refused = policy.and_then(|policy| policy.grpc_json.as_ref()).filter(|_| name == PROCESSING);
        let refused = refused.map(|_| grpc_json::refused());
        let others = others.chain(refused).collect();
        (name.to_owned(), delegate::per_route(parts, others))
    });
    let rate = policy.and_then(|policy| policy.local_rate_limit.as_deref()).map(|limit: &LocalRateLimit| {
        let limit = match local_rate_limit::is_in_table(limit) {
            true => local_rate_limit::of_table(),
            false => local_rate_limit::with_bucket(limit),
        };
        (local_rate_limit::FILTER.to_owned(), limit)
    });
    let global = policy.and_then(|policy| policy.global_rate_limit.as_deref()).map(rate_limit::per_route);
    let wanted = policy.and_then(|policy| policy.compression.as_deref());
    let off = wanted.map(|wanted| compression::off(wanted, compression)).unwrap_or_default();
    let server = policy.and_then(|policy| policy.authorization.as_deref());
    let with_context = server.and_then(authorization::of_route_with_context);
    let errors = policy.and_then(|policy| policy.error_responses.as_deref()).and_then(error_responses::per_route);
    let errors = errors.map(|errors| (error_responses::FILTER.to_owned(), errors));
    delegated.chain(with_context).chain(rate).chain(global).chain(off).chain(errors).collect()
}

/// Builds the filters of each delegate in order, for requests whose bodies have limits or for others. A client that is not authenticated or
/// authorized costs nothing but the check. Servers of external authorization follow, because they wait. Bodies are held behind all limits.
fn delegated(
    policy: Option<&RoutePolicy>,
    has_limits: bool,
    filters: &[ForwardFilter],
    compression: &Compression,
) -> [Vec<core_v3::TypedExtensionConfig>; 4] {
    let none = RoutePolicy::default();
    // Without `..`, so that a new feature does not compile until it is enforced.
    let RoutePolicy {
        client_addresses: addresses,
        basic_authentication: users,
        api_keys: keys,
        jwt: tokens,
        oidc: login,
        csrf: pages,
        cors: _,
        authorization: server,
        local_rate_limit: _,
        global_rate_limit: _,
        max_request_body_bytes: body,
        buffered_request_bytes: _,
        processing,
        wasm: module,
        grpc_json: json,
        max_response_body: response,
        faults,
        retries: _,
        timeouts: _,
        rewrite: _,
        mirrors: _,
        request_headers: _,
        response_headers: _,
        error_responses: _,
        compression: wanted,
        counted_for: _,
        origins: _,
        decided: _,
    } = policy.unwrap_or(&none);
    let of_filters = filters.iter().filter_map(|filter| match filter {
        ForwardFilter::Authorization(server) => Some(server),
        _ => None,
    });
    let compressed = wanted.iter().flat_map(|wanted| compression::of_route(wanted, compression));
    let runs = |filter: Option<core_v3::TypedExtensionConfig>| filter.map(|filter| (filter, false));
    let checks = [
        runs(server.as_deref().and_then(authorization::only_lower_case)),
        runs(addresses.as_deref().map(client_addresses::of_route)),
        runs(users.as_deref().map(basic_auth::of_route)),
        runs(keys.as_deref().map(api_keys::of_route)),
        login.as_deref().map(|login| (oidc::of_route(login), true)),
        tokens.as_deref().map(|tokens| (jwt::of_route(tokens), tokens.waits())),
        runs(pages.as_deref().map(csrf::of_route)),
        runs(body.filter(|_| has_limits).map(body_limit::of_route)),
        runs(session::of_route(filters)),
    ];
    let without_context = server.as_ref().filter(|server| server.context.is_empty());
    let servers = of_filters.chain(without_context).flat_map(|server| {
        let removing = authorization::without_answers(&server.check).map(|filter| (filter, false));
        removing.into_iter().chain([(authorization::of_route(server), true)])
    });
    let is_web = filters.contains(&ForwardFilter::GrpcWeb);
    let web = is_web.then(|| delegate::part("envoy.filters.http.grpc_web", &grpc_web_v3::GrpcWeb {}));
    let all = cookies::of_route(filters).into_iter().chain(compressed).chain(web).map(|filter| (filter, false));
    // Envoy holds a body behind the delay, so one delegate cannot run both.
    let injected = faults
        .filter(|faults| *faults != Faults::default())
        .map(|faults| (fault::of_route(&faults), faults.delay.is_some()));
    let buffered = policy.and_then(RoutePolicy::held_bytes);
    let (held, has_bodies) = (buffered.filter(|_| has_limits), buffered.is_some());
    let (before, behind) = if has_bodies { (injected, None) } else { (None, injected) };
    let all = all.chain(checks.into_iter().flatten()).chain(servers).chain(before);
    let [first, route] = divided(all.collect());
    let held = held.into_iter().flat_map(request_buffer::of_route);
    let processed = processing.as_deref().and_then(|server| processing::of_route(server, has_limits));
    // An authorization server can set the header with the host, and limits count requests that are refused.
    let checked = host_check::of_route(policy, filters);
    let last = checked.into_iter().chain(behind.map(|(filter, _)| filter)).chain(held).collect();
    // A module, a server, and the conversion may wait. The translation closes a route with two of them.
    let limited = response.map(response_limit::of_route);
    let module = module.as_deref().map(wasm::of_route);
    let converted = json.as_deref().filter(|_| has_limits).map(grpc_json::of_route);
    [first, route, last, limited.into_iter().chain(module).chain(converted).chain(processed).collect()]
}

/// Divides filters, each with whether it waits, among the first two delegates. A filter that waits is the last one of its delegate, so at most two
/// may wait: the translation closes other routes. If one delegate is enough, it is the last one.
fn divided(filters: Vec<(core_v3::TypedExtensionConfig, bool)>) -> [Vec<core_v3::TypedExtensionConfig>; 2] {
    let first_wait = filters.iter().position(|(_, waits)| *waits);
    let end = first_wait.map(|at| at + 1).filter(|end| *end < filters.len()).unwrap_or(0);
    let mut first: Vec<_> = filters.into_iter().map(|(filter, _)| filter).collect();
    let rest = first.split_off(end);
    [first, rest]
}
