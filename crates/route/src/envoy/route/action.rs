//! Forwarding to clusters, and direct responses of Envoy.

use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::retry::host::previous_hosts::v3 as previous_hosts_v3;
use route_v3::weighted_cluster::ClusterWeight;

use super::header_changes::EnvoyHeaderChanges;
use super::internal_redirects;
use super::rewrite::{self, EnvoyPathRewrite};
use crate::envoy::wire;
use crate::model::{
    ClusterFilter, Forward, ForwardFilter, HeaderChange, HeaderName, HostRewrite, Mirror, PathMatch, PathRewrite,
    Retry, RouteFilter, RoutePolicy, Share, WeightedCluster,
};

/// Builds the action of the route `name`, which forwards requests whose path is matched by `path`. No timeout is written as 0, because
/// Envoy's default is 15 s.
pub fn route_action(forward: &Forward, name: &str, path: &PathMatch) -> route_v3::RouteAction {
    use route_v3::route_action::{ClusterSpecifier, UpgradeConfig};
    let Forward { clusters, timeout, retry, websocket, filters, own: _ } = forward;
    let cluster = match clusters.as_slice() {
        [only] if only.filters.is_empty() => ClusterSpecifier::Cluster(only.cluster.to_string()),
        several => ClusterSpecifier::WeightedClusters(route_v3::WeightedCluster {
            clusters: several.iter().map(cluster_weight).collect(),
            ..Default::default()
        }),
    };
    // The connection manager enables websockets, so a route only has to forbid them.
    let refused = UpgradeConfig {
        upgrade_type: "websocket".to_owned(),
        enabled: Some(wire::boolean(false)),
        ..Default::default()
    };
    let mut action = route_v3::RouteAction {
        cluster_specifier: Some(cluster),
        timeout: Some(wire::duration(timeout.unwrap_or(Duration::ZERO))),
        retry_policy: retry.as_deref().map(retry_policy),
        upgrade_configs: if *websocket { vec![] } else { vec![refused] },
        ..Default::default()
    };
    filters.iter().for_each(|filter| apply(filter, (name, path), &mut action));
    rewrite_hosts_by_cluster(&mut action, clusters);
    action
}

/// Replaces the parts of `action` that the policy of its route sets, and adds its mirrors.
pub(super) fn add_policy(action: &mut route_v3::RouteAction, path: &PathMatch, policy: &RoutePolicy) {
    let limits = policy.timeouts.unwrap_or_default();
    if let Some(limit) = limits.request {
        action.timeout = Some(wire::duration(limit.unwrap_or(Duration::ZERO)));
    }
    if let Some(limit) = limits.idle {
        action.idle_timeout = Some(wire::limit(limit));
    }
    if let Some(retry) = policy.retries.as_deref() {
        action.retry_policy = Some(retry_policy(retry));
    }
    // Hosts of weighted clusters have no effect beside that of the route.
    let mirrors = policy.mirrors.iter().flat_map(|mirrors| mirrors.iter());
    action.request_mirror_policies.extend(mirrors.map(mirror_policy));
    if let Some(change) = &policy.rewrite {
        change.host.iter().for_each(|host| rewrite_host(host, action));
        change.path.iter().for_each(|change| rewrite_path(change, path, action));
    }
}

/// Moves the rewrite of the host to the weighted clusters if one of them has its own: the rewrite of a route would replace theirs.
fn rewrite_hosts_by_cluster(action: &mut route_v3::RouteAction, clusters: &[WeightedCluster]) {
    use route_v3::route_action::{ClusterSpecifier, HostRewriteSpecifier};
    use route_v3::weighted_cluster::cluster_weight::HostRewriteSpecifier as OfCluster;
    let own = |cluster: &WeightedCluster| {
        cluster.filters.iter().find_map(|filter| match filter {
            ClusterFilter::Host(host) => Some(host.as_str().to_owned()),
            _ => None,
        })
    };
    let Some(ClusterSpecifier::WeightedClusters(weighted)) = &mut action.cluster_specifier else { return };
    if clusters.iter().all(|cluster| own(cluster).is_none()) {
        return;
    }
    let of_route = match &action.host_rewrite_specifier {
        Some(HostRewriteSpecifier::HostRewriteLiteral(host)) => Some(host.clone()),
        // A header of the request takes precedence.
        Some(_) => return,
        None => None,
    };
    action.host_rewrite_specifier = None;
    for (weight, cluster) in weighted.clusters.iter_mut().zip(clusters) {
        weight.host_rewrite_specifier = own(cluster).or(of_route.clone()).map(OfCluster::HostRewriteLiteral);
    }
}

/// Applies `filter` to `action`. Header changes ([`add_header_changes`]), CORS, sessions, and authorization belong to the route.
fn apply(filter: &ForwardFilter, (name, path): (&str, &PathMatch), action: &mut route_v3::RouteAction) {
    match filter {
        ForwardFilter::RequestHeaders(_) | ForwardFilter::Cors(_) => {}
        ForwardFilter::Session(_) | ForwardFilter::Authorization(_) | ForwardFilter::Cookies(_) => {}
        ForwardFilter::SettingsAuthorization(_) | ForwardFilter::GrpcWeb => {}
        ForwardFilter::InternalRedirects(redirects) => {
            action.internal_redirect_policy = Some(internal_redirects::policy(redirects, name));
        }
        ForwardFilter::Rewrite(change) => {
            let host = change.host.clone().map(HostRewrite::Name);
            host.iter().for_each(|host| rewrite_host(host, action));
            change.path.iter().for_each(|change| rewrite_path(change, path, action));
        }
        ForwardFilter::HostFromHeader(name) => rewrite_host(&HostRewrite::Header(name.clone()), action),
        ForwardFilter::Mirror(mirror) => action.request_mirror_policies.push(mirror_policy(mirror)),
        ForwardFilter::IdleTimeout(limit) => action.idle_timeout = Some(wire::limit(*limit)),
    }
}

/// Changes the host of requests.
fn rewrite_host(host: &HostRewrite, action: &mut route_v3::RouteAction) {
    use route_v3::route_action::HostRewriteSpecifier;
    action.host_rewrite_specifier = Some(match host {
        HostRewrite::Name(name) => HostRewriteSpecifier::HostRewriteLiteral(name.as_str().to_owned()),
        HostRewrite::Header(name) => HostRewriteSpecifier::HostRewriteHeader(name.to_string()),
        HostRewrite::Path(change) => HostRewriteSpecifier::HostRewritePathRegex(rewrite::host_by_path(change)),
    });
}

/// Changes the path of requests whose path is matched by `path`.
fn rewrite_path(change: &PathRewrite, path: &PathMatch, action: &mut route_v3::RouteAction) {
    (action.prefix_rewrite, action.regex_rewrite) = match EnvoyPathRewrite::new(path, change) {
        EnvoyPathRewrite::Prefix(prefix) => (prefix, None),
        EnvoyPathRewrite::Regex(change) => (String::new(), Some(change)),
        EnvoyPathRewrite::Full(path) => (String::new(), Some(EnvoyPathRewrite::full_by_regex(&path))),
    };
}

/// Keeps the host of requests if the header with another one is changed behind its check, so that it can contain anything.
pub(super) fn remove_unchecked_host(
    action: &mut route_v3::RouteAction,
    forward: &Forward,
    policy: Option<&RoutePolicy>,
) {
    use route_v3::route_action::HostRewriteSpecifier;
    let Some(HostRewriteSpecifier::HostRewriteHeader(name)) = &action.host_rewrite_specifier else { return };
    let of_route = forward.filters.iter().filter_map(|filter| match filter {
        ForwardFilter::RequestHeaders(changes) => Some(changes),
        _ => None,
    });
    let of_clusters = forward.clusters.iter().flat_map(|cluster| changes(cluster, request_headers));
    let of_policy = policy.and_then(|policy| policy.request_headers.as_deref()).unwrap_or_default();
    let name = HeaderName::parse(name);
    let mut all = of_route.flatten().chain(of_clusters).chain(of_policy);
    if all.any(|change| name.as_ref().is_none_or(|name| change.may_replace_host_in(name))) {
        action.host_rewrite_specifier = None;
    }
}

/// Adds the header changes to `route`.
///
/// Envoy applies the changes of a weighted cluster before the changes of its route. If any cluster has changes, each
/// cluster therefore has all changes, and the route has only those of the policy, which apply last.
pub(super) fn add_header_changes(route: &mut route_v3::Route, filters: &[RouteFilter], forward: Option<&Forward>) {
    let clusters = forward.map(|forward| forward.clusters.as_slice()).unwrap_or_default();
    let by_cluster = clusters.iter().any(|cluster| !cluster.filters.is_empty());
    if filters.is_empty() && !by_cluster && forward.is_none_or(|forward| forward.filters.is_empty()) {
        return;
    }
    let of_requests =
        forward.into_iter().flat_map(|forward| forward.filters.iter()).filter_map(|filter| match filter {
            ForwardFilter::RequestHeaders(changes) => Some(changes),
            _ => None,
        });
    let of_responses = filters.iter().filter_map(|filter| match filter {
        RouteFilter::ResponseHeaders(changes) => Some(changes),
        RouteFilter::Policy(_) => None,
    });
    let (of_requests, of_responses) = (of_requests.flatten(), of_responses.flatten());
    let policy = filters.iter().rev().find_map(|filter| match filter {
        RouteFilter::Policy(policy) => Some(&**policy),
        RouteFilter::ResponseHeaders(_) => None,
    });
    if by_cluster {
        for (weight, cluster) in weights(route).iter_mut().zip(clusters) {
            let requests = of_requests.clone().chain(changes(cluster, request_headers));
            let responses = of_responses.clone().chain(changes(cluster, response_headers));
            let (requests, responses) = (EnvoyHeaderChanges::new(requests), EnvoyHeaderChanges::new(responses));
            (weight.request_headers_to_add, weight.request_headers_to_remove) = (requests.add, requests.remove);
            (weight.response_headers_to_add, weight.response_headers_to_remove) = (responses.add, responses.remove);
        }
        return add_changes_of_policy(route, policy, [].into_iter(), [].into_iter());
    }
    add_changes_of_policy(route, policy, of_requests, of_responses);
}

/// Adds header changes to `route`, and then those of its policy.
pub(super) fn add_changes_of_policy<'a>(
    route: &mut route_v3::Route,
    policy: Option<&'a RoutePolicy>,
    of_requests: impl Iterator<Item = &'a HeaderChange>,
    of_responses: impl Iterator<Item = &'a HeaderChange>,
) {
    let last = |changes: Option<&'a Arc<[HeaderChange]>>| changes.into_iter().flat_map(|changes| changes.iter());
    let requests = of_requests.chain(last(policy.and_then(|policy| policy.request_headers.as_ref())));
    let responses = of_responses.chain(last(policy.and_then(|policy| policy.response_headers.as_ref())));
    let (requests, responses) = (EnvoyHeaderChanges::new(requests), EnvoyHeaderChanges::new(responses));
    (route.request_headers_to_add, route.request_headers_to_remove) = (requests.add, requests.remove);
    (route.response_headers_to_add, route.response_headers_to_remove) = (responses.add, responses.remove);
}

/// Returns the weighted clusters of `route`. Without weights, the slice is empty.
fn weights(route: &mut route_v3::Route) -> &mut [ClusterWeight] {
    use route_v3::route_action::ClusterSpecifier;
    match &mut route.action {
        Some(route_v3::route::Action::Route(route_v3::RouteAction {
            cluster_specifier: Some(ClusterSpecifier::WeightedClusters(weighted)),
            ..
        })) => &mut weighted.clusters,
        _ => &mut [],
    }
}

/// Returns the header changes in the filters of `cluster` that `select` finds.
fn changes(
    cluster: &WeightedCluster,
    select: fn(&ClusterFilter) -> Option<&Vec<HeaderChange>>,
) -> impl Iterator<Item = &HeaderChange> {
    cluster.filters.iter().filter_map(select).flatten()
}

fn request_headers(filter: &ClusterFilter) -> Option<&Vec<HeaderChange>> {
    match filter {
        ClusterFilter::RequestHeaders(changes) => Some(changes),
        ClusterFilter::ResponseHeaders(_) | ClusterFilter::Host(_) => None,
    }
}

fn response_headers(filter: &ClusterFilter) -> Option<&Vec<HeaderChange>> {
    match filter {
        ClusterFilter::ResponseHeaders(changes) => Some(changes),
        ClusterFilter::RequestHeaders(_) | ClusterFilter::Host(_) => None,
    }
}

fn cluster_weight(cluster: &WeightedCluster) -> ClusterWeight {
    ClusterWeight {
        name: cluster.cluster.to_string(),
        weight: Some(wire::uint32(cluster.weight)),
        ..Default::default()
    }
}

fn mirror_policy(mirror: &Mirror) -> route_v3::route_action::RequestMirrorPolicy {
    route_v3::route_action::RequestMirrorPolicy {
        cluster: mirror.cluster.to_string(),
        runtime_fraction: (mirror.share != Share::ALL).then(|| wire::fraction(mirror.share)),
        ..Default::default()
    }
}

/// Builds a retry policy. A retry goes to a different endpoint if possible.
pub(super) fn retry_policy(retry: &Retry) -> route_v3::RetryPolicy {
    use route_v3::retry_policy::{RetryBackOff, RetryHostPredicate, retry_host_predicate::ConfigType};
    let Retry { on, retries, per_try_timeout, status_codes, backoff } = retry;
    let back_off = |base| RetryBackOff { base_interval: Some(wire::duration(base)), max_interval: None };
    route_v3::RetryPolicy {
        retry_on: on.clone(),
        num_retries: Some(wire::uint32(*retries)),
        per_try_timeout: per_try_timeout.map(wire::duration),
        retry_host_predicate: vec![RetryHostPredicate {
            name: "envoy.retry_host_predicates.previous_hosts".to_owned(),
            config_type: Some(ConfigType::TypedConfig(wire::any(&previous_hosts_v3::PreviousHostsPredicate {}))),
        }],
        host_selection_retry_max_attempts: 3,
        retriable_status_codes: status_codes.iter().map(|code| u32::from(*code)).collect(),
        retry_back_off: backoff.map(back_off),
        ..Default::default()
    }
}

/// Builds a direct response with the default text of `status`. The text distinguishes it from a response of a backend
/// with the same status.
pub fn direct_response(status: u16) -> route_v3::DirectResponseAction {
    let text = match status {
        404 => "no route for this host and path\n",
        500 => "the backend of this route is not valid\n",
        421 => "this connection was opened for another host\n",
        503 => "the backend of this route is not available\n",
        _ => "",
    };
    response(status, text)
}

/// Builds a direct response with this text.
pub(super) fn response(status: u16, text: &str) -> route_v3::DirectResponseAction {
    route_v3::DirectResponseAction {
        status: status.into(),
        body: (!text.is_empty()).then(|| wire::inline_string(text)),
        ..Default::default()
    }
}
