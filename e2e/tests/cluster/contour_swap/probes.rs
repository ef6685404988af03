//! A request, and the part of its answer that must not change.

use std::net::IpAddr;

use bytes::Bytes;
use e2e::client::{Answer, Connection, Error};
use e2e::lab::echo::Echoed;
use e2e::{Authority, Target};
use hyper::Method;

/// The response headers that are compared.
const HEADERS: [&str; 6] = [
    "location",
    "access-control-allow-origin",
    "access-control-allow-methods",
    "access-control-allow-headers",
    "access-control-max-age",
    "x-served-by",
];
/// The request headers that are compared at the backend.
const REQUEST_HEADERS: [&str; 7] =
    ["X-Team", "X-Agent", "X-Secret", "X-Client", "X-Variant", "X-Forwarded-Proto", "X-Envoy-Original-Path"];

/// A request and its expected status.
#[derive(Debug, Clone)]
pub struct Probe {
    /// The host.
    pub host: String,
    is_tls: bool,
    method: &'static str,
    path: String,
    fields: Vec<(&'static str, &'static str)>,
    /// The status.
    pub status: u16,
    has_any_service: bool,
}

impl Probe {
    /// A GET over plain HTTP that is answered 200.
    pub fn http(host: &str, path: &str) -> Self {
        Self {
            host: host.into(),
            is_tls: false,
            method: "GET",
            path: path.into(),
            fields: Vec::new(),
            status: 200,
            has_any_service: false,
        }
    }

    /// A GET over TLS that is answered 200.
    pub fn https(host: &str, path: &str) -> Self {
        Self { is_tls: true, ..Self::http(host, path) }
    }

    /// Expects another status.
    #[must_use]
    pub fn status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// Uses another method.
    #[must_use]
    pub fn method(self, method: &'static str) -> Self {
        Self { method, ..self }
    }

    /// Adds a header.
    #[must_use]
    pub fn field(mut self, name: &'static str, value: &'static str) -> Self {
        self.fields.push((name, value));
        self
    }

    /// Several Services answer by weight.
    #[must_use]
    pub fn any_service(self) -> Self {
        Self { has_any_service: true, ..self }
    }

    /// Returns the target at an address.
    pub fn target(&self, address: IpAddr, authority: &Authority) -> Target {
        let target = match self.is_tls {
            false => Target::http(80, &self.host),
            true => Target::https(443, &self.host, authority.der()),
        };
        self.fields.iter().fold(target.at(address), |target, (name, value)| target.field(name, value))
    }

    /// Sends the request.
    ///
    /// # Errors
    /// If there is no complete answer.
    pub async fn send(&self, connection: &mut Connection) -> Result<Answer, Error> {
        let method = Method::from_bytes(self.method.as_bytes())?;
        connection.send(method, &self.path, Bytes::new()).await
    }

    /// Returns the part of an answer that must not change: the status, headers, the Service, and the request that the Service has received.
    pub fn fingerprint(&self, answer: &Answer) -> String {
        let headers = HEADERS.iter().filter(|name| answer.headers.contains_key(**name));
        let headers: Vec<String> = headers.map(|name| format!("{name}: {}", answer.header(name))).collect();
        let body = match Echoed::of(answer) {
            Some(echoed) => {
                let service = if self.has_any_service { "any" } else { &echoed.service };
                let received = REQUEST_HEADERS.iter().filter(|name| !echoed.headers[**name].is_null());
                let received: Vec<String> = received.map(|name| format!("{name}={}", echoed.headers[*name])).collect();
                let Echoed { namespace, method, path, host, .. } = &echoed;
                format!("{service}.{namespace} has received {method} {host}{path} {}", received.join(" "))
            }
            // Without a backend, the text of an error differs.
            None if answer.status >= 300 => String::new(),
            None => answer.text(),
        };
        format!("{} {} {body}", answer.status, headers.join(" "))
    }
}

/// Formats `GET https://shop.example.com/cart`.
impl std::fmt::Display for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_tls { "https" } else { "http" };
        write!(f, "{} {scheme}://{}{}", self.method, self.host, self.path)
    }
}
