//! Accepts only requests that come from this machine on purpose.
//!
//! The address alone proves little. The sidecar of a service mesh forwards requests of other pods from 127.0.0.6, so
//! only 127.0.0.1 and ::1 are accepted. A page in a local browser can connect to 127.0.0.1 with a name of its own (DNS
//! rebinding). The `Host` is therefore checked too, and an `Origin` must be this server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use lockgate_xds::listening::http::Ends;

/// Answers 403 to all other requests.
pub(super) async fn only(request: Request, next: Next) -> Response {
    let ends = request.extensions().get::<Ends>().copied();
    match check(ends, request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(why) => {
            let text = format!(
                "/debug/ answers this machine only, at 127.0.0.1 or [::1]; in a cluster use kubectl port-forward: {why}\n"
            );
            (StatusCode::FORBIDDEN, text).into_response()
        }
    }
}

/// Checks both addresses of the connection, the `Host`, and the `Origin`.
///
/// The error names the part that is not of this machine.
fn check(ends: Option<Ends>, uri: &Uri, headers: &HeaderMap) -> Result<(), &'static str> {
    let ends = ends.ok_or("the connection has no addresses")?;
    if !is_this_machine(ends.peer.ip()) {
        return Err("the client has another address");
    }
    // This also holds if the listener is open to the network: a connection to 127.0.0.1 uses the loopback interface.
    if !is_this_machine(ends.local.ip()) {
        return Err("the connection is to another address");
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    let (host, other) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next());
    // With an absolute-form target, the target is authoritative, and the `Host` field must be equal. Source: RFC 9112,
    // 3.2.2.
    let target = uri.authority().map(|authority| authority.as_str());
    if other.is_some() || target.is_some_and(|target| host != Some(target)) {
        return Err("the request names several hosts");
    }
    let host = host.ok_or("the request names no host")?;
    if !is_loopback_host(host) {
        return Err("the header \"host\" is not localhost");
    }
    let own = |origin: &HeaderValue| origin.to_str().is_ok_and(|origin| origin.strip_prefix("http://") == Some(host));
    if !headers.get_all(header::ORIGIN).iter().all(own) {
        return Err("the request comes from another site");
    }
    Ok(())
}

/// Returns whether `address` is 127.0.0.1 or ::1. Proxies use other loopback addresses.
fn is_this_machine(address: IpAddr) -> bool {
    let address = address.to_canonical();
    address == Ipv4Addr::LOCALHOST || address == Ipv6Addr::LOCALHOST
}

/// Returns whether `host` is this machine, with or without a port.
fn is_loopback_host(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((name, port)) if is_port(port) => return name == "::1",
            _ => return false,
        },
        None => host,
    };
    let (name, port) = name.find(':').map_or((name, ""), |at| name.split_at(at));
    is_port(port) && (name.eq_ignore_ascii_case("localhost") || name == "127.0.0.1")
}

/// Returns whether `text` is empty, or `:` and digits.
fn is_port(text: &str) -> bool {
    text.is_empty() || text.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn checked(peer: &str, local: &str, uri: &str, fields: &[(&'static str, &str)]) -> Result<(), &'static str> {
        let ends = Ends { peer: peer.parse().unwrap(), local: local.parse().unwrap() };
        let fields = fields.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        check(Some(ends), &uri.parse().unwrap(), &HeaderMap::from_iter(fields.collect::<Vec<_>>()))
    }

    #[test]
    fn both_ends_are_loopback() {
        let addresses = [
            ("127.0.0.1", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("127.0.0.6", false),
            ("[::ffff:127.0.0.6]", false),
            ("10.0.0.9", false),
            ("[fe80::1]", false),
        ];
        for (peer, from_here) in addresses {
            for (local, to_here) in addresses {
                let result =
                    checked(&format!("{peer}:5"), &format!("{local}:18001"), "/debug/", &[("host", "localhost")]);
                assert_eq!(result.is_ok(), from_here && to_here, "{peer} to {local}: {result:?}");
            }
        }
        assert!(check(None, &Uri::default(), &HeaderMap::new()).is_err());
    }

    #[test]
    fn the_host_is_loopback() {
        let asked = |host: &str| checked("127.0.0.1:5", "127.0.0.1:18001", "/debug/", &[("host", host)]).is_ok();
        for host in ["localhost", "LocalHost:18001", "127.0.0.1", "127.0.0.1:8080", "[::1]", "[::1]:18001"] {
            assert!(asked(host), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:18001",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "127.0.0.6",
            "localhost:x",
            "[::1",
            "[::1]x",
            "[::2]",
            "::1",
            "user@localhost",
            "localhost ",
        ] {
            assert!(!asked(host), "{host}");
        }
        assert!(checked("127.0.0.1:5", "127.0.0.1:18001", "/debug/", &[]).is_err(), "no host");
    }

    #[test]
    fn the_target_and_the_host_agree() {
        let asked = |uri: &str, host: &str| checked("127.0.0.1:5", "127.0.0.1:1", uri, &[("host", host)]).is_ok();
        assert!(asked("http://localhost:1/debug/", "localhost:1"));
        assert!(!asked("http://evil.example/debug/", "localhost:1"));
        assert!(!asked("http://localhost:1/debug/", "evil.example"));
    }

    #[test]
    fn an_origin_is_this_server() {
        let fields = |origin| [("host", "localhost:18001"), ("origin", origin)];
        let asked = |origin| checked("127.0.0.1:5", "127.0.0.1:1", "/debug/log", &fields(origin)).is_ok();
        assert!(asked("http://localhost:18001"));
        for origin in ["http://localhost:3000", "https://localhost:18001", "http://evil.example", "null", ""] {
            assert!(!asked(origin), "{origin}");
        }
    }
}
