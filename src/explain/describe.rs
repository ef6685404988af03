//! Describes the parts of a report in words.

use lockgate_route::model::{
    Action, ClientValidation, Cluster, ClusterFilter, Discovery, Endpoints, ForwardFilter, HeaderChange, HeaderMatch,
    HeaderValue, Health, HostRewrite, Match, Mirror, PathMatch, PathRewrite, Redirect, Rewrite, Route, RouteFilter,
    Scheme, Session, SettingsAuthorization, Share, TlsVersion, UpstreamProtocol, ValueMatch, ValuePart,
};
use lockgate_route::translate::explained::{Answer, Backend, Done, Step};
use lockgate_xds::provenance::ObjectRef;

/// The maximum number of listed endpoints.
const MAX_ENDPOINTS: usize = 100;

/// Describes the result in one sentence.
pub fn result(answer: &Answer) -> String {
    match &answer.action {
        Done::Closed(why) => format!("Envoy closes the connection: {why}."),
        Done::Answered(status, why) => format!("Envoy answers {status}: {why}."),
        Done::RedirectedTo(path) => {
            format!("Envoy redirects to the path \"{path}\" with 307: the path has an escaped slash.")
        }
        Done::Forwarded(origin, backends, refused) => connection(origin, backends, *refused),
        Done::Routed => match answer.steps.as_slice() {
            [] => "Envoy answers 404.".to_owned(),
            [(_, step)] => format!("{}.", outcome(step)),
            several => {
                let shares = several.iter().map(|(share, step)| {
                    let part = share.map_or_else(|| "the rest".to_owned(), self::share);
                    format!("{part}: {}", outcome(step))
                });
                format!("Several routes share the requests. {}.", shares.collect::<Vec<_>>().join("; "))
            }
        },
    }
}

/// Returns the kind of the result, and the status of a response by Envoy itself.
pub fn action(answer: &Answer) -> (&'static str, Option<u16>) {
    match &answer.action {
        Done::Closed(_) => ("refuse", None),
        Done::Answered(status, _) => ("respond", Some(*status)),
        Done::RedirectedTo(_) => ("redirect", Some(307)),
        Done::Forwarded(_, backends, _) if lack_endpoints(backends) => ("refuse", None),
        Done::Forwarded(..) => ("forward", None),
        Done::Routed => match answer.steps.first().map(|(_, step)| (step, &step.route.action)) {
            Some((_, Action::Redirect(redirect))) => ("redirect", Some(redirect.status.code())),
            Some((_, Action::Respond { status, .. })) => ("respond", Some(*status)),
            Some((step, Action::Forward(_))) if lack_endpoints(&step.backends) => ("forward", Some(503)),
            Some((_, Action::Forward(_))) => ("forward", None),
            None => ("respond", Some(404)),
        },
    }
}

/// Describes the result of a connection with these backends and this weight of closed connections.
fn connection(origin: &ObjectRef, backends: &[(Backend, u32)], refused: u32) -> String {
    match backends {
        [] => format!("Envoy closes the connection: {origin} has no backend that can be used."),
        _ if lack_endpoints(backends) => {
            format!("Envoy closes the connection: {}.", without_endpoints(origin, backends, refused))
        }
        _ if refused == 0 => format!("Envoy forwards the connection to {}, by {origin}.", services(backends, 0)),
        _ => {
            let closed = percent(refused, total(backends, refused));
            let services = services(backends, refused);
            format!("Envoy forwards the connection to {services}, by {origin}. It closes {closed} of the connections.")
        }
    }
}

/// Returns the sum of the weights.
pub fn total(backends: &[(Backend, u32)], refused: u32) -> u32 {
    backends.iter().fold(refused, |sum, (_, weight)| sum.saturating_add(*weight))
}

fn without_endpoints(origin: &ObjectRef, backends: &[(Backend, u32)], refused: u32) -> String {
    let have = if backends.len() == 1 { "has" } else { "have" };
    format!("{} of {origin} {have} no ready endpoints", services(backends, refused))
}

fn outcome(step: &Step) -> String {
    let origin = &step.route.origin;
    match &step.route.action {
        Action::Forward(_) if lack_endpoints(&step.backends) => {
            format!("Envoy answers 503: {}", without_endpoints(origin, &step.backends, 0))
        }
        Action::Forward(_) => format!("Envoy forwards to {}, by {origin}", services(&step.backends, 0)),
        Action::Redirect(redirect) => {
            format!("Envoy redirects to {} with {}, by {origin}", target(redirect), redirect.status.code())
        }
        Action::Respond { status, body: None } => format!("Envoy answers {status}, by {origin}"),
        Action::Respond { status, body: Some(body) } => {
            format!("Envoy answers {status} {:?}, by {origin}", body.trim())
        }
    }
}

/// Returns whether no backend has an endpoint.
fn lack_endpoints(backends: &[(Backend, u32)]) -> bool {
    backends.iter().filter(|(_, weight)| *weight > 0).all(|(backend, _)| lacks_endpoints(backend))
}

fn lacks_endpoints(backend: &Backend) -> bool {
    backend.endpoints.as_ref().is_some_and(|endpoints| endpoints.zones.iter().all(|(_, zone)| zone.is_empty()))
}

/// Lists Services with their shares, and states which of them has no endpoint although another one has.
fn services(backends: &[(Backend, u32)], refused: u32) -> String {
    let name = |backend: &Backend| format!("Service {} port {}", backend.id.port.service(), backend.id.port.port());
    let (total, is_one) = (total(backends, refused), !lack_endpoints(backends));
    let share = |(backend, weight): &(Backend, u32)| {
        let fault = if is_one && lacks_endpoints(backend) { ", no ready endpoints" } else { "" };
        format!("{} ({}{fault})", name(backend), percent(*weight, total))
    };
    match backends {
        [(only, _)] if refused == 0 => name(only),
        several => several.iter().map(share).collect::<Vec<_>>().join(", "),
    }
}

/// Returns the gRPC status that a gRPC client receives instead of a status of HTTP, with its name. Source: Envoy,
/// `Grpc::Utility::httpToGrpcStatus`.
pub fn grpc_status(status: u16) -> (u8, &'static str) {
    match status {
        400 => (13, "INTERNAL"),
        401 => (16, "UNAUTHENTICATED"),
        403 => (7, "PERMISSION_DENIED"),
        404 => (12, "UNIMPLEMENTED"),
        429 | 502..=504 => (14, "UNAVAILABLE"),
        _ => (2, "UNKNOWN"),
    }
}

/// Describes the action of a route.
pub fn route_action(step: &Step) -> String {
    match &step.route.action {
        Action::Forward(_) => "forward".to_owned(),
        Action::Redirect(redirect) => format!("redirect to {} with {}", target(redirect), redirect.status.code()),
        Action::Respond { status, body: None } => format!("answer {status}"),
        Action::Respond { status, body: Some(body) } => format!("answer {status} {:?}", body.trim()),
    }
}

fn target(redirect: &Redirect) -> String {
    let scheme = redirect.scheme.map(|scheme| match scheme {
        Scheme::Http => "http",
        Scheme::Https => "https",
    });
    let rewrite = redirect.rewrite.as_deref();
    let parts = [
        scheme.map(str::to_owned),
        rewrite.and_then(|one| one.host.as_ref()).map(|host| format!("host {}", host.as_str())),
        redirect.port.map(|port| format!("port {port}")),
        rewrite.and_then(|one| one.path.as_ref()).map(path_rewrite),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "the same URL".to_owned() } else { parts.join(", ") }
}

fn path_rewrite(rewrite: &PathRewrite) -> String {
    match rewrite {
        PathRewrite::Prefix(prefix) => format!("prefix {:?} instead of the matched one", prefix.as_str()),
        PathRewrite::Full(path) => format!("path {:?}", path.as_str()),
        PathRewrite::Regex(rewrite) => {
            format!("{:?} instead of {:?} in the path", &*rewrite.substitution, &*rewrite.pattern)
        }
    }
}

/// Describes the condition of a route.
pub fn matches(matches: &Match) -> String {
    let path = match &matches.path {
        PathMatch::Exact(path) => format!("exact path {path}"),
        PathMatch::Prefix(path) if **path == *"/" => "every path".to_owned(),
        PathMatch::Prefix(path) => format!("path that begins with {path}"),
        PathMatch::SeparatedPrefix(path) => format!("prefix {path}"),
        PathMatch::Regex(pattern) => format!("regular expression {pattern}"),
    };
    let mut parts = vec![path];
    if let Some(conditions) = matches.conditions() {
        parts.extend(conditions.method.iter().map(|method| format!("method {method}")));
        parts.extend(conditions.headers.iter().map(|HeaderMatch { name, value, inverted, missing_is_empty }| {
            let not = if *inverted { "not " } else { "" };
            let or_missing = if *missing_is_empty { ", or no such header" } else { "" };
            format!("{not}header {name}{}{or_missing}", value_match(value))
        }));
        parts.extend(conditions.query.iter().map(|query| match &query.value {
            None => format!("no query parameter {}", query.name),
            Some(value) => format!("query parameter {}{}", query.name, value_match(value)),
        }));
        parts.extend(conditions.share.map(|share| format!("{} of the requests", self::share(share))));
    }
    parts.join(", ")
}

fn value_match(value: &ValueMatch) -> String {
    match value {
        ValueMatch::Present => String::new(),
        ValueMatch::Text { part, text, ignores_case } => {
            let case = if *ignores_case { " in any case" } else { "" };
            match part {
                ValuePart::Whole => format!(" {text:?}{case}"),
                ValuePart::Start => format!(" that begins with {text:?}{case}"),
                ValuePart::End => format!(" that ends with {text:?}{case}"),
            }
        }
        ValueMatch::Regex(pattern) => format!(" by the regular expression {pattern}"),
    }
}

/// Describes each filter and limit of a route.
pub fn filters(route: &Route) -> Vec<String> {
    let mut all = Vec::new();
    for filter in route.filters.iter() {
        match filter {
            RouteFilter::ResponseHeaders(changes) => all.extend(headers("response", changes)),
            RouteFilter::Policy(policy) => {
                all.extend(policy.decided.iter().map(|(feature, origin)| format!("{feature} of {origin}")));
            }
        }
    }
    let Action::Forward(forward) = &route.action else { return all };
    let of_policy = route.policy().and_then(|policy| policy.rewrite.clone()).unwrap_or_default();
    all.extend(of_policy.host.as_ref().map(host_rewrite));
    all.extend(rewrites(None, of_policy.path.as_ref()));
    let copies = route.policy().and_then(|policy| policy.mirrors.as_deref()).unwrap_or_default();
    all.extend(copies.iter().map(copied));
    for filter in forward.filters.iter() {
        match filter {
            ForwardFilter::RequestHeaders(changes) => all.extend(headers("request", changes)),
            ForwardFilter::Rewrite(Rewrite { host, path }) => {
                // The policy may replace them.
                let (host, path) = (
                    host.as_ref().filter(|_| of_policy.host.is_none()),
                    path.as_ref().filter(|_| of_policy.path.is_none()),
                );
                all.extend(rewrites(host, path));
            }
            ForwardFilter::Mirror(mirror) => all.push(copied(mirror)),
            ForwardFilter::HostFromHeader(_) if of_policy.host.is_some() => {}
            ForwardFilter::HostFromHeader(name) => all.push(host_rewrite(&HostRewrite::Header(name.clone()))),
            ForwardFilter::Cookies(rewrites) => {
                let mut names: Vec<String> =
                    rewrites.lists.iter().flatten().map(|rewrite| rewrite.name.to_string()).collect();
                names.sort();
                names.dedup();
                all.push(format!("change the cookies {}", names.join(", ")));
            }
            ForwardFilter::Cors(_) => all.push("CORS: answer preflight requests".to_owned()),
            ForwardFilter::Session(session) => all.push(match &**session {
                Session::Cookie(cookie) if cookie.keeps_cluster => format!(
                    "session persistence by the cookies {} (endpoint) and {} (backend)",
                    cookie.name,
                    cookie.cluster_name()
                ),
                Session::Cookie(cookie) => format!("session persistence by cookie {}", cookie.name),
                Session::Header(name) => format!("session persistence by header {name}"),
            }),
            ForwardFilter::Authorization(server) => {
                all.push(format!("external authorization by cluster {}", server.cluster))
            }
            ForwardFilter::InternalRedirects(redirects) => {
                let statuses: Vec<String> = redirects.statuses.iter().map(|one| one.code().to_string()).collect();
                all.push(format!("follow up to {} redirects with {}", redirects.most, statuses.join(", ")));
            }
            ForwardFilter::GrpcWeb => all.push("gRPC-Web is translated into gRPC".to_owned()),
            ForwardFilter::SettingsAuthorization(SettingsAuthorization::Off) => {
                all.push("no external authorization by the server of the settings".to_owned());
            }
            ForwardFilter::SettingsAuthorization(SettingsAuthorization::Context(context)) => {
                let keys: Vec<&str> = context.keys().map(String::as_str).collect();
                all.push(format!("context for the authorization server of the settings: {}", keys.join(", ")));
            }
            // That of the policy may replace it.
            ForwardFilter::IdleTimeout(_) => {}
            #[allow(unreachable_patterns)]
            _ => {}
        }
    }
    for weighted in forward.clusters.iter().filter(|weighted| !weighted.filters.is_empty()) {
        let changes = weighted.filters.iter().flat_map(|filter| match filter {
            ClusterFilter::RequestHeaders(changes) => headers("request", changes).collect::<Vec<_>>(),
            ClusterFilter::ResponseHeaders(changes) => headers("response", changes).collect(),
            ClusterFilter::Host(host) => vec![format!("rewrite the host to {}", host.as_str())],
            #[allow(unreachable_patterns)]
            _ => Vec::new(),
        });
        all.extend(changes.map(|change| format!("for cluster {}: {change}", weighted.cluster)));
    }
    all.extend(route.idle_timeout(forward).map(|limit| match limit {
        Some(limit) => format!("idle timeout {limit:?}"),
        None => "no idle timeout".to_owned(),
    }));
    all.extend(route.timeout(forward).map(|limit| format!("timeout {limit:?}")));
    all.extend(route.retry(forward).map(|retry| format!("{} retries on {}", retry.retries, retry.on)));
    all
}

fn copied(mirror: &Mirror) -> String {
    format!("mirror {} of the requests to cluster {}", share(mirror.share), mirror.cluster)
}

fn host_rewrite(host: &HostRewrite) -> String {
    match host {
        HostRewrite::Name(name) => format!("rewrite to host {}", name.as_str()),
        HostRewrite::Header(name) => format!("rewrite to the host in header {name}"),
        HostRewrite::Path(rewrite) => {
            format!("rewrite to host {:?}, from the path by {:?}", &*rewrite.substitution, &*rewrite.pattern)
        }
    }
}

fn rewrites<'a>(host: Option<&'a HeaderValue>, path: Option<&'a PathRewrite>) -> impl Iterator<Item = String> + 'a {
    let host = host.map(|host| format!("rewrite to host {}", host.as_str()));
    host.into_iter().chain(path.map(|path| format!("rewrite to {}", path_rewrite(path))))
}

fn headers<'a>(side: &'a str, changes: &'a [HeaderChange]) -> impl Iterator<Item = String> + 'a {
    changes.iter().map(move |change| match change {
        HeaderChange::Set(name, _) | HeaderChange::SetFormat(name, _) => format!("set {side} header {name}"),
        HeaderChange::Add(name, _) => format!("add {side} header {name}"),
        HeaderChange::Remove(name) => format!("remove {side} header {name}"),
    })
}

/// Returns the protocol of a cluster.
pub fn protocol(cluster: &Cluster) -> String {
    let protocol = match cluster.policy.protocol {
        _ if cluster.policy.is_over_http3() => "HTTP/3",
        UpstreamProtocol::Http1 => "HTTP/1.1",
        UpstreamProtocol::H2c => "HTTP/2",
        UpstreamProtocol::Tls => "HTTP/1.1 over TLS",
        UpstreamProtocol::H2 => "HTTP/2 over TLS",
    };
    match &cluster.policy.verification {
        Some(verification) => format!("{protocol}, verified as {}", verification.server_name),
        None => protocol.to_owned(),
    }
}

/// Returns how Envoy finds the endpoints of a cluster by itself; empty if the controller sends them.
pub fn discovery(cluster: &Cluster) -> String {
    match &cluster.discovery {
        Discovery::Eds => String::new(),
        Discovery::Dns { hostname, port } => format!("DNS name {hostname}, port {port}"),
        Discovery::Static { address, port } => format!("address {address}, port {port}"),
    }
}

/// Returns the endpoints of a cluster.
pub fn endpoints(endpoints: &Endpoints) -> Vec<String> {
    let all = endpoints.zones.iter().flat_map(|(zone, some)| some.iter().map(move |one| (zone, one)));
    let mut texts: Vec<String> = all
        .map(|(zone, one)| {
            let address = std::net::SocketAddr::new(one.address, one.port);
            let draining = (one.health == Health::Draining).then_some("draining".to_owned());
            let zone = (!zone.is_empty()).then(|| format!("zone {zone}"));
            let details: Vec<String> = draining.into_iter().chain(zone).collect();
            if details.is_empty() { address.to_string() } else { format!("{address} ({})", details.join(", ")) }
        })
        .collect();
    if texts.len() > MAX_ENDPOINTS {
        let more = texts.len() - MAX_ENDPOINTS;
        texts.truncate(MAX_ENDPOINTS);
        texts.push(format!("{more} more"));
    }
    texts
}

/// Returns the range of TLS versions.
pub fn versions((minimum, maximum): (TlsVersion, TlsVersion)) -> String {
    let text = |version| match version {
        TlsVersion::V1_2 => "1.2",
        TlsVersion::V1_3 => "1.3",
    };
    if minimum == maximum { text(minimum).to_owned() } else { format!("{} to {}", text(minimum), text(maximum)) }
}

/// Returns the validation of client certificates.
pub fn clients(clients: &ClientValidation) -> String {
    let need = if clients.required { "required" } else { "optional" };
    match &clients.authorities {
        Some(authorities) if clients.is_verified || !clients.required => format!("{need}, issued by {authorities}"),
        Some(authorities) => format!("{need}, not verified, {authorities} is announced"),
        None => format!("{need}, not verified"),
    }
}

/// Returns a share in percent.
pub fn share(share: Share) -> String {
    percent(share.millionths(), Share::ALL.millionths())
}

/// Returns a part of a total in percent, with at most two decimals.
pub fn percent(part: u32, total: u32) -> String {
    let hundredths = (u64::from(part) * 10_000).checked_div(total.into()).unwrap_or_default();
    match (hundredths / 100, hundredths % 100) {
        (whole, 0) => format!("{whole}%"),
        (whole, rest) => format!("{whole}.{rest:02}%"),
    }
}
