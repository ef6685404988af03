//! The request to explain: a URL, a method, headers, and a server name.

use lockgate_route::explain::{Request, without_port};
use lockgate_route::translate::explained::{Protocol, Target};
use serde::{Deserialize, Serialize};

/// A request to explain.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Question {
    /// The URL: `https://shop.example.com/cart`.
    pub url: String,
    /// The method. Empty: GET, or POST for gRPC.
    pub method: String,
    /// The headers, one on each line: `x-canary: always`.
    pub headers: String,
    /// The server name of the connection, if it differs from the host of the URL.
    pub server_name: String,
}

impl Question {
    /// Returns the destination and the request.
    ///
    /// Errors: the fault of the URL or of a header, lower case, no full stop.
    pub fn parse(&self) -> Result<(Target, Request), String> {
        let Self { url, method, headers, server_name } = self;
        let url_text = if url.contains("://") { url.clone() } else { format!("https://{url}") };
        // Clients do not send the fragment.
        let url_text = url_text.split('#').next().unwrap_or_default();
        let (scheme, rest) = url_text.split_once("://").unwrap_or(("", ""));
        let scheme = scheme.to_ascii_lowercase();
        let (protocol, is_grpc) = match scheme.as_str() {
            "http" | "ws" => (Protocol::Http, false),
            "https" | "wss" | "tls" => (Protocol::Https, false),
            "grpc" => (Protocol::Http, true),
            "grpcs" => (Protocol::Https, true),
            "tcp" => (Protocol::Tcp, false),
            "udp" => (Protocol::Udp, false),
            other => {
                let schemes = "http, https, grpc, grpcs, tls, tcp, and udp";
                return Err(format!("the URL {url:?} has the scheme {other:?}; there are {schemes}"));
            }
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = authority.rsplit('@').next().unwrap_or_default();
        if authority.is_empty() || authority.parse::<http::uri::Authority>().is_err() {
            return Err(format!("the URL {url:?} has no valid host"));
        }
        let path = match path {
            "" => "/".to_owned(),
            path if path.starts_with('?') => format!("/{path}"),
            path => path.to_owned(),
        };
        if !path.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!("the URL {url:?} has a character in its path that must be escaped"));
        }
        let host = without_port(authority);
        let port = authority[host.len()..].strip_prefix(':').map(|port| port.parse::<u16>());
        let port = port.transpose().map_err(|_| format!("the URL {url:?} has a port that is no number up to 65535"))?;
        let mut parsed = Vec::new();
        let mut authority = authority.to_owned();
        for line in headers.lines().filter(|line| !line.trim().is_empty()) {
            let header = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
            let Some((name, value)) = header.filter(|(name, _)| !name.is_empty() && !name.contains(' ')) else {
                return Err(format!("the header {line:?} has not the form \"name: value\""));
            };
            match name.eq_ignore_ascii_case("host") {
                true => authority = value.to_owned(),
                false => parsed.push((name.to_owned(), value.to_owned())),
            }
        }
        let has_type = parsed.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if is_grpc && !has_type {
            parsed.push(("content-type".to_owned(), "application/grpc".to_owned()));
        }
        let tls = protocol == Protocol::Https;
        // An address is not a server name. Source: RFC 6066, section 3.
        let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
        let of_host = (!is_address).then(|| host.trim_end_matches('.').to_owned());
        let server_name = if server_name.is_empty() { of_host } else { Some(server_name.clone()) };
        let method = match method.as_str() {
            "" if is_grpc => "POST".to_owned(),
            "" => "GET".to_owned(),
            method => method.to_owned(),
        };
        let request =
            Request { tls, server_name: server_name.filter(|_| tls), authority, method, path, headers: parsed };
        Ok((Target { protocol, port }, request))
    }

    /// Returns the request in one line: `GET https://shop.example.com/cart`.
    pub fn line(&self) -> String {
        match self.parse() {
            Ok((target, request)) => match target.protocol {
                Protocol::Tcp | Protocol::Udp => self.url.clone(),
                _ => format!("{} {}", request.method, self.url),
            },
            Err(_) => self.url.clone(),
        }
    }
}
