//! The request to explain: a URL, a method, headers, and a server name.

use lockgate_route::explain::{Request, without_port};
use lockgate_route::translate::explained::{ClientProtocol, RequestDestination};
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
    pub fn parse(&self) -> Result<(RequestDestination, Request), String> {
        let Url { protocol, is_grpc, authority, host, port, path } = Url::parse(&self.url)?;
        let (host_header, mut headers) = parse_headers(&self.headers)?;
        let has_type = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("content-type"));
        if is_grpc && !has_type {
            headers.push(("content-type".to_owned(), "application/grpc".to_owned()));
        }
        let tls = protocol == ClientProtocol::Https;
        let server_name = match self.server_name.as_str() {
            _ if !tls => None,
            "" => host_server_name(&host),
            name => Some(name.to_owned()),
        };
        let method = match self.method.as_str() {
            "" if is_grpc => "POST".to_owned(),
            "" => "GET".to_owned(),
            method if http::Method::from_bytes(method.as_bytes()).is_ok() => method.to_owned(),
            method => return Err(format!("the method {method:?} is not a valid HTTP method, such as GET")),
        };
        let authority = host_header.unwrap_or(authority);
        Ok((RequestDestination { protocol, port }, Request { tls, server_name, authority, method, path, headers }))
    }

    /// Returns the request in one line: `GET https://shop.example.com/cart`.
    pub fn line(&self) -> String {
        match self.parse() {
            Ok((target, request)) => match target.protocol {
                ClientProtocol::Tcp | ClientProtocol::Udp => self.url.clone(),
                _ => format!("{} {}", request.method, self.url),
            },
            Err(_) => self.url.clone(),
        }
    }
}

/// The parts of a URL.
struct Url {
    protocol: ClientProtocol,
    is_grpc: bool,
    /// The host and the port, without user and password.
    authority: String,
    host: String,
    port: Option<u16>,
    /// The path with the query; `/` if the URL has none.
    path: String,
}

impl Url {
    /// Parses a URL. The default scheme is `https`.
    fn parse(url: &str) -> Result<Self, String> {
        // Clients do not send the fragment.
        let sent = url.split('#').next().unwrap_or_default();
        let (scheme, rest) = match url.contains("://") {
            true => sent.split_once("://").unwrap_or_default(),
            false => ("https", sent),
        };
        let (protocol, is_grpc) =
            protocol(&scheme.to_ascii_lowercase()).map_err(|fault| format!("the URL {url:?} {fault}"))?;
        let (authority, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
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
        let port =
            port.transpose().map_err(|_| format!("the URL {url:?} has a port that is not a number up to 65535"))?;
        Ok(Self { protocol, is_grpc, authority: authority.to_owned(), host: host.to_owned(), port, path })
    }
}

/// Returns the protocol of a scheme in lower case, and whether it is gRPC.
fn protocol(scheme: &str) -> Result<(ClientProtocol, bool), String> {
    match scheme {
        "http" | "ws" => Ok((ClientProtocol::Http, false)),
        "https" | "wss" | "tls" => Ok((ClientProtocol::Https, false)),
        "grpc" => Ok((ClientProtocol::Http, true)),
        "grpcs" => Ok((ClientProtocol::Https, true)),
        "tcp" => Ok((ClientProtocol::Tcp, false)),
        "udp" => Ok((ClientProtocol::Udp, false)),
        other => Err(format!(
            "has the scheme {other:?}; the supported schemes are http, https, grpc, grpcs, tls, tcp, and udp"
        )),
    }
}

/// Headers by name.
type Headers = Vec<(String, String)>;

/// Parses headers, one on each line. Returns the value of the header `Host` separately.
fn parse_headers(text: &str) -> Result<(Option<String>, Headers), String> {
    let (mut host, mut headers) = (None, Headers::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let header = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = header.filter(|(name, _)| !name.is_empty() && !name.contains(' ')) else {
            return Err(format!("the header {line:?} does not have the form \"name: value\""));
        };
        match name.eq_ignore_ascii_case("host") {
            true => host = Some(value.to_owned()),
            false => headers.push((name.to_owned(), value.to_owned())),
        }
    }
    Ok((host, headers))
}

/// Returns the server name that a client sends for a host. An address is not a server name. Source: RFC 6066, section 3.
fn host_server_name(host: &str) -> Option<String> {
    let is_address = host.starts_with('[') || host.parse::<std::net::IpAddr>().is_ok();
    (!is_address).then(|| host.trim_end_matches('.').to_owned())
}
