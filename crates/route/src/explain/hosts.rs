//! The choice of a filter chain by server name, and of a virtual host by host name.

use super::FilterChain;
use crate::model::{Host, PlainHosts, TlsHost, TlsHosts, VirtualHostRoutes};

/// The part of a route configuration that serves the requests for a host name.
pub enum Domain<'a> {
    /// A virtual host.
    Served(&'a Host, &'a VirtualHostRoutes),
    /// A virtual host that answers all requests with a status, and the reason; without a domain if there is no virtual host.
    Answered(Option<Host>, u16, &'static str),
}

/// Returns a host name without its port. Source: Envoy, `HeaderUtility::getPortStart`.
pub fn without_port(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            // An IPv6 address without brackets has no port.
            if host.contains(':') && !host.ends_with(']') { authority } else { host }
        }
        _ => authority,
    }
}

/// Returns the patterns that match a name in lower case, the most specific one first, without [`Host::Any`].
pub fn patterns(name: &str) -> impl Iterator<Item = Host> {
    let above = name.match_indices('.').filter(|(dot, _)| *dot > 0).map(|(dot, _)| &name[dot + 1..]);
    let above = above.filter(|suffix| !suffix.is_empty()).map(|suffix| Host::Wildcard(suffix.into()));
    [Host::Exact(name.into())].into_iter().chain(above)
}

/// Returns the first of the patterns for a name that `get` finds.
pub fn best<T>(name: &str, get: impl Fn(&Host) -> Option<T>) -> Option<T> {
    patterns(name).find_map(|pattern| get(&pattern))
}

/// Returns the filter chain that the server name of a connection selects. `None`: the connection is closed.
pub fn chain<'a>(tls: &'a TlsHosts, server_name: Option<&str>) -> Option<FilterChain<'a>> {
    let at = |pattern: &Host| {
        let served = tls.hosts.get_key_value(pattern).map(|(host, content)| FilterChain::Http(host, content));
        let forwarded = || tls.connections.get_key_value(pattern).map(|(host, to)| FilterChain::Forwarded(host, to));
        served.or_else(forwarded)
    };
    let any = || at(&Host::Any);
    let Some(name) = server_name.map(str::to_ascii_lowercase) else { return any() };
    let found = best(&name, |pattern| match tls.refused.contains(pattern) {
        true => Some(None),
        false => at(pattern).map(Some),
    });
    found.unwrap_or_else(any)
}

/// Returns the virtual host for a host name on a connection for `server_name`.
///
/// The server name may cover hosts that other chains serve, and Envoy answers requests for them with 421 or 404.
pub fn domain<'a>(
    tls: &'a TlsHosts,
    plain: Option<&PlainHosts>,
    (server_name, content): (&Host, &'a TlsHost),
    name: &str,
) -> Domain<'a> {
    let serves_unnamed = *server_name == Host::Any && serves_unnamed(content);
    let elsewhere = |host: &Host| -> Option<(u16, &'static str)> {
        let has_chain = || tls.names(host);
        let is_other = host != server_name && *host != Host::Any;
        if is_other && content.misdirected.contains(host) {
            return Some((421, "the host belongs on a connection for another server name"));
        }
        match server_name {
            Host::Wildcard(suffix) if is_below(host, suffix) && has_chain() => {
                let nearest = wildcards_above(host).find(|above| tls.hosts.contains_key(above));
                (nearest.as_ref() == Some(server_name))
                    .then_some((421, "the host has its own server name, and the connection uses another server name"))
            }
            Host::Any if serves_unnamed && is_other => match has_chain() {
                true => Some((421, "the host has its own certificate, and the connection uses another server name")),
                false => plain
                    .is_some_and(|plain| plain.hosts.contains_key(host))
                    .then_some((404, "the host is served without TLS only")),
            },
            _ => None,
        }
    };
    let without_server_name = |host: &Host| {
        let (host, named) = tls.hosts.get_key_value(host).filter(|(_, named)| named.is_without_server_name)?;
        (*server_name == Host::Any).then(|| Some((host, named.virtual_hosts.get(host)?)))?
    };
    for host in patterns(name).chain([Host::Any]) {
        if let Some((domain, served)) = without_server_name(&host).filter(|(_, served)| !served.routes.is_empty()) {
            return Domain::Served(domain, served);
        }
        if let Some((status, why)) = elsewhere(&host) {
            return Domain::Answered(Some(host), status, why);
        }
        if let Some((domain, served)) = content.virtual_hosts.iter().find(|(domain, _)| **domain == host) {
            return match served.routes.is_empty() {
                true => Domain::Answered(Some(host), 404, "the host has no routes"),
                false => Domain::Served(domain, served),
            };
        }
        if host == *server_name {
            return Domain::Answered(Some(host), 404, "the host has no routes");
        }
    }
    let why = match content.others.status() {
        421 => "the host belongs on a connection for another server name",
        _ => "no virtual host matches the host",
    };
    Domain::Answered(Some(Host::Any), content.others.status(), why)
}

/// Returns whether clients without a known server name are served any response other than 404.
fn serves_unnamed(any: &TlsHost) -> bool {
    let nothing = crate::model::Action::respond(404);
    any.virtual_hosts.values().any(|host| host.routes.iter().any(|route| route.action != nothing))
}

fn is_below(host: &Host, suffix: &str) -> bool {
    let (Host::Exact(name) | Host::Wildcard(name)) = host else { return false };
    name.strip_suffix(suffix).is_some_and(|labels| labels.ends_with('.'))
}

/// Returns the wildcards above a host, the longest first.
fn wildcards_above(host: &Host) -> impl Iterator<Item = Host> {
    let name = match host {
        Host::Exact(name) | Host::Wildcard(name) => &**name,
        Host::Any => "",
    };
    name.match_indices('.').map(|(dot, _)| Host::Wildcard(name[dot + 1..].into()))
}
