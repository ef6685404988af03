//! The filters of HTTPRoutes: changes of headers and URLs, redirects, and mirrors. What no filter expresses is reported.

use lockgate_route::model::{
    Action, ClusterFilter, Forward, ForwardFilter, HeaderChange, HeaderValue, Mirror, PathRewrite, Redirect, Rewrite,
    Route, RouteFilter, RoutePolicy, Scheme, SettingsAuthorization, Share,
};
use serde_json::{Value, json};

use super::Migrated;
use super::losses::{FindingText, Losses};
use super::paths::{Kind as PathKind, PathCondition};
use super::rules::{RuleFault, RulePlace, Writer, writable_host};

/// The maximum number of changes of each kind in a filter. Source: Gateway API v1, `HTTPHeaderFilter`.
const CHANGES: usize = 16;
/// The longest value of a header in a filter. Source: Gateway API v1, `HTTPHeader.value`.
const LONGEST_VALUE: usize = 4096;
/// The part of a route with changes of request headers.
const REQUESTS: &str = "requestHeadersPolicy";

/// Returns the filters of a rule. The error is `None` if it is reported.
pub fn of_route(
    writer: &mut Writer,
    route: &Route,
    condition: &PathCondition,
    place: RulePlace,
    losses: &mut Losses,
) -> Result<Vec<Value>, Option<RuleFault>> {
    let mut responses = Vec::new();
    for filter in route.filters.iter() {
        if let RouteFilter::ResponseHeaders(changes) = filter {
            responses.extend(changes.iter().cloned());
        }
    }
    let filters = match &route.action {
        Action::Redirect(redirect) => {
            let mut filters = headers([&[], &responses], place, REQUESTS, losses)?;
            filters.push(redirected(redirect, condition)?);
            filters
        }
        Action::Forward(forward) => {
            // The written policy would not replace the filter, as overrides of a policy replace that of the route.
            let none = RoutePolicy::default();
            let policy = route.policy().map_or(&none, |policy| &**policy);
            forwarded(writer, forward, &responses, (condition, place, policy), losses)?
        }
        Action::Respond { .. } => Vec::new(),
    };
    Ok(filters)
}

fn forwarded(
    writer: &mut Writer,
    forward: &Forward,
    responses: &[HeaderChange],
    (condition, place, policy): (&PathCondition, RulePlace, &RoutePolicy),
    losses: &mut Losses,
) -> Result<Vec<Value>, Option<RuleFault>> {
    let (mut requests, mut rewrite, mut filters) = (Vec::new(), Rewrite::default(), Vec::new());
    let of_policy = policy.rewrite.clone().unwrap_or_default();
    // The HTTPPolicy of the rule has it.
    let mut is_from_header = false;
    for filter in forward.filters.iter() {
        match filter {
            ForwardFilter::RequestHeaders(changes) => requests.extend(changes.iter().cloned()),
            ForwardFilter::Rewrite(one) => rewrite = one.clone(),
            ForwardFilter::HostFromHeader(_) if of_policy.host.is_some() => {}
            ForwardFilter::HostFromHeader(name) if writable_host(name).is_some() => is_from_header = true,
            ForwardFilter::Mirror(mirror) => filters.extend(mirrored(writer, mirror, place, losses)),
            ForwardFilter::SettingsAuthorization(SettingsAuthorization::Context(_)) => {
                return Err(Some(RuleFault {
                    part: "authPolicy.context",
                    message: "HTTPRoutes and HTTPPolicies send no context to the authorization server".to_owned(),
                    remedy: "Authorize these requests without a context, or keep the HTTPProxy.".to_owned(),
                }));
            }
            ForwardFilter::Authorization(_) => {
                return Err(Some(RuleFault {
                    part: "authPolicy",
                    message: "the authorization server of this route is not expressed".to_owned(),
                    remedy: "Write an HTTPPolicy by hand, and migrate again.".to_owned(),
                }));
            }
            other => report(other, place, losses),
        }
    }
    // The host of a Service replaces that of the route.
    let of_clusters: Vec<Option<&HeaderValue>> = forward.clusters.iter().map(|one| host_of(&one.filters)).collect();
    match of_clusters.first().filter(|first| of_clusters.iter().all(|other| other == *first)) {
        _ if of_policy.host.is_some() || is_from_header => {}
        Some(Some(host)) => rewrite.host = Some((*host).clone()),
        Some(None) => {}
        None => place.report_change(
            losses,
            "services",
            [
                "HTTPRoutes do not set the host for one of several backends",
                "the Services receive the host of the route, or of the client",
                "Set the host for the whole route, or keep the HTTPProxy.",
            ],
        ),
    }
    rewrite.host = rewrite.host.filter(|_| of_policy.host.is_none());
    rewrite.path = rewrite.path.filter(|_| of_policy.path.is_none());
    let mut written = headers([&requests, responses], place, REQUESTS, losses)?;
    if rewrite != Rewrite::default() {
        let mut url = json!({});
        if let Some(host) = &rewrite.host {
            url["hostname"] = json!(host.as_str());
        }
        if let Some(path) = &rewrite.path {
            url["path"] = path_modifier(path, condition, "pathRewritePolicy")?;
        }
        written.push(json!({ "type": "URLRewrite", "urlRewrite": url }));
    }
    written.extend(filters);
    Ok(written)
}

fn host_of(filters: &[ClusterFilter]) -> Option<&HeaderValue> {
    filters.iter().rev().find_map(|filter| match filter {
        ClusterFilter::Host(host) => Some(host),
        _ => None,
    })
}

/// Reports a filter that HTTPRoutes do not have, and that restricts no access.
fn report(filter: &ForwardFilter, place: RulePlace, losses: &mut Losses) {
    if losses.migrated() != Migrated::HttpProxies {
        return;
    }
    let (part, texts) = match filter {
        ForwardFilter::HostFromHeader(_) => (
            REQUESTS,
            [
                "HTTPPolicies do not set the host from this header",
                "the Services receive the host of the client",
                "Let clients send the host in another header, or keep the HTTPProxy.",
            ],
        ),
        ForwardFilter::Cookies(_) => (
            "cookieRewritePolicies",
            [
                "HTTPRoutes do not change cookies",
                "clients receive the cookies of the Services",
                "Change the cookies in the application, or keep the HTTPProxy.",
            ],
        ),
        ForwardFilter::GrpcWeb => (
            "services",
            [
                "HTTPRoutes do not translate gRPC-Web",
                "requests of gRPC-Web clients reach the Services as they are",
                "Write a GRPCRoute, or let the Services accept gRPC-Web.",
            ],
        ),
        ForwardFilter::InternalRedirects(_) => (
            "internalRedirectPolicy",
            [
                "HTTPRoutes do not follow redirects of the backends",
                "clients receive these redirects",
                "Let clients follow them, or keep the HTTPProxy.",
            ],
        ),
        ForwardFilter::SettingsAuthorization(_) => (
            "authPolicy.disabled",
            [
                "HTTPRoutes do not skip the authorization server of the settings",
                "the server authorizes these requests too",
                "Let the server permit these requests, or keep the HTTPProxy.",
            ],
        ),
        // Of the XBackendTrafficPolicy of the Service, which applies to HTTPRoutes too.
        ForwardFilter::Session(_)
        | ForwardFilter::RequestHeaders(_)
        | ForwardFilter::Rewrite(_)
        | ForwardFilter::Mirror(_)
        // Features of the HTTPPolicy.
        | ForwardFilter::Cors(_)
        | ForwardFilter::IdleTimeout(_)
        | ForwardFilter::Authorization(_) => return,
    };
    place.report_change(losses, part, texts);
}

/// Returns the filters for changes of the headers of requests and responses. The error is `None` if it is reported.
pub fn headers(
    [requests, responses]: [&[HeaderChange]; 2],
    place: RulePlace,
    part: &'static str,
    losses: &mut Losses,
) -> Result<Vec<Value>, Option<RuleFault>> {
    let mut filters = Vec::new();
    let sides = [
        (requests, true, "RequestHeaderModifier", "requestHeaderModifier"),
        (responses, false, "ResponseHeaderModifier", "responseHeaderModifier"),
    ];
    for (changes, is_request, kind, field) in sides {
        let (mut set, mut add, mut remove) = (Vec::new(), Vec::new(), Vec::new());
        for change in changes {
            let header = |value: &HeaderValue| json!({ "name": change.name().as_str(), "value": value.as_str() });
            match change {
                HeaderChange::Set(_, value) if is_valid(value) => set.push(header(value)),
                HeaderChange::Add(_, value) if is_valid(value) => add.push(header(value)),
                HeaderChange::Remove(name) => remove.push(json!(name.as_str())),
                HeaderChange::Set(name, _) | HeaderChange::SetFormat(name, _) | HeaderChange::Add(name, _) => {
                    let (part, consequence) = match is_request {
                        // A client could otherwise set what the backend trusts.
                        true => (part, "the header is removed from requests"),
                        false if part == REQUESTS => ("responseHeadersPolicy", "the header is left out"),
                        false => (part, "the header is left out"),
                    };
                    if is_request {
                        remove.push(json!(name.as_str()));
                    }
                    let message = format!("HTTPRoutes do not set header \"{name}\" to this value");
                    let remedy = "Set a fixed text of 1 to 4096 characters, or keep the HTTPProxy.";
                    place.report_change(losses, part, [&message, consequence, remedy]);
                }
            }
        }
        remove.dedup();
        if [&set, &add, &remove].into_iter().any(|list| list.len() > CHANGES) {
            return Err(Some(RuleFault {
                part,
                message: format!("HTTPRoutes change at most {CHANGES} headers in each way"),
                remedy: "Change fewer headers, and migrate again.".to_owned(),
            }));
        }
        let lists = [("set", set), ("add", add), ("remove", remove)].into_iter().filter(|(_, list)| !list.is_empty());
        let changes: serde_json::Map<String, Value> =
            lists.map(|(name, list)| (name.to_owned(), Value::Array(list))).collect();
        if !changes.is_empty() {
            filters.push(json!({ "type": kind, field: changes }));
        }
    }
    Ok(filters)
}

fn is_valid(value: &HeaderValue) -> bool {
    (1..=LONGEST_VALUE).contains(&value.as_str().len())
}

/// Returns the filter of a mirror, unless its Service cannot be reached in the same way.
fn mirrored(writer: &mut Writer, mirror: &Mirror, place: RulePlace, losses: &mut Losses) -> Option<Value> {
    let Mirror { cluster, share } = mirror;
    let found = writer.source.translator.model().clusters.get(cluster)?;
    if let Err(fault) = writer.backends.add(writer.source, found, cluster, place, losses) {
        let RuleFault { part, message, remedy } = fault?;
        let text = FindingText { message, consequence: "requests are not copied", remedy: &remedy };
        losses.add_lost(place.owner, place.below(losses, part), text);
        return None;
    }
    let mut filter = json!({ "backendRef": { "name": &*cluster.port.service().name, "port": found.port } });
    match share.millionths() {
        whole if whole == Share::ALL.millionths() => {}
        millionths if millionths % 10_000 == 0 => filter["percent"] = json!(millionths / 10_000),
        millionths => filter["fraction"] = json!({ "numerator": millionths, "denominator": Share::ALL.millionths() }),
    }
    Some(json!({ "type": "RequestMirror", "requestMirror": filter }))
}

fn redirected(redirect: &Redirect, condition: &PathCondition) -> Result<Value, Option<RuleFault>> {
    let Redirect { status, scheme, port, rewrite } = redirect;
    let mut filter = json!({});
    if let Some(scheme) = scheme {
        filter["scheme"] = json!(if *scheme == Scheme::Https { "https" } else { "http" });
    }
    if let Some(host) = rewrite.as_ref().and_then(|rewrite| rewrite.host.as_ref()) {
        filter["hostname"] = json!(host.as_str());
    }
    if let Some(port) = port {
        filter["port"] = json!(port);
    }
    if let Some(path) = rewrite.as_ref().and_then(|rewrite| rewrite.path.as_ref()) {
        filter["path"] = path_modifier(path, condition, "requestRedirectPolicy")?;
    }
    filter["statusCode"] = json!(status.code());
    Ok(json!({ "type": "RequestRedirect", "requestRedirect": filter }))
}

/// Returns the change of a path. Source: Gateway API v1, `HTTPPathModifier`.
fn path_modifier(
    path: &PathRewrite,
    condition: &PathCondition,
    part: &'static str,
) -> Result<Value, Option<RuleFault>> {
    match path {
        PathRewrite::Full(text) => Ok(json!({ "type": "ReplaceFullPath", "replaceFullPath": text.as_str() })),
        PathRewrite::Prefix(text) if condition.kind == PathKind::PathPrefix => {
            let elements = text.as_str().trim_end_matches('/');
            let text = if elements.is_empty() { "/" } else { elements };
            Ok(json!({ "type": "ReplacePrefixMatch", "replacePrefixMatch": text }))
        }
        PathRewrite::Regex(_) => Err(Some(RuleFault {
            part,
            message: "HTTPRoutes replace no regular expressions in paths".to_owned(),
            remedy: "Write an HTTPPolicy with `urlRewrite` for the HTTPRoute.".to_owned(),
        })),
        PathRewrite::Prefix(_) => Err(Some(RuleFault {
            part,
            message: "HTTPRoutes replace a prefix of plain characters alone".to_owned(),
            remedy: "Write a prefix of letters, digits, and -._~, and migrate again.".to_owned(),
        })),
    }
}
