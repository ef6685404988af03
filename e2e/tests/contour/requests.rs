//! Random requests to the hosts of a set, and the comparable form of their answers.

use bytes::Bytes;
use e2e::Target;
use e2e::client::Answer;
use fuzzing::Random;
use hyper::Method;

use super::generator::{HEADERS, ORIGINS, PARAMETERS, PATHS, Set, VALUES};
use super::site::{Party, Side, Site};

/// A request, with placeholders in its names.
#[derive(Debug, Clone)]
pub struct Sent {
    method: Method,
    is_https: bool,
    /// The host, with `@s`.
    pub host: String,
    /// The server name of its connection, if it is another one.
    pub server_name: Option<String>,
    /// The path with the query.
    pub path: String,
    fields: Vec<(String, String)>,
}

impl std::fmt::Display for Sent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.is_https { "https" } else { "http" };
        write!(f, "{} {scheme}://{}{}", self.method, self.host, self.path)?;
        for (name, value) in &self.fields {
            write!(f, " {name}: {value}")?;
        }
        match &self.server_name {
            Some(name) => write!(f, " (SNI {name})"),
            None => Ok(()),
        }
    }
}

/// What follows a path of the conditions: nothing, a slash, another segment, another letter.
const SUFFIXES: &[&str] =
    &["", "", "", "/", "x", "/x", "b", "/b", "/v1", "/v2", "//", "/x/", "/../a", "/./b", "%20", "%2Fb"];

impl Sent {
    /// Makes a request to a set.
    pub fn random(set: &Set, random: &mut Random) -> Self {
        let host = host(set, random);
        let server_name = random.one_in(25).then(|| host_of(&set.hosts[0], random));
        let is_https = server_name.is_some() || random.one_in(2);
        let mut path = (*random.choose(PATHS)).to_owned();
        if random.one_in(2) {
            let next = *random.choose(PATHS);
            path = format!("{}{next}", path.trim_end_matches('/'));
        }
        let suffix = *random.choose(SUFFIXES);
        path += if path == "/" && suffix.starts_with('/') { &suffix[1..] } else { suffix };
        if path == "/" && random.one_in(3) {
            path = "/c/ab".into();
        }
        let mut query: Vec<String> = Vec::new();
        let parameters = PARAMETERS.iter().map(ToString::to_string).chain((1..=3).map(|level| format!("q{level}")));
        for name in parameters {
            if random.one_in(4) {
                query.push(match random.below(8) {
                    0 => name,
                    1 => format!("{name}="),
                    _ => format!("{name}={}", random.choose(VALUES)),
                });
            }
        }
        if !query.is_empty() {
            path = format!("{path}?{}", query.join("&"));
        }
        let mut fields = Vec::new();
        let names = HEADERS.iter().map(ToString::to_string).chain((1..=3).map(|level| format!("x-{level}")));
        for name in names {
            if random.one_in(3) {
                let value = if random.one_in(10) { "" } else { *random.choose(VALUES) };
                fields.push((name, value.to_owned()));
            }
        }
        let mut method = random.choose(&[Method::GET, Method::GET, Method::GET, Method::POST, Method::DELETE]).clone();
        if random.one_in(4) {
            fields.push(("origin".into(), (*random.choose(ORIGINS)).to_owned()));
            if random.one_in(2) {
                method = Method::OPTIONS;
                fields.push(("access-control-request-method".into(), "PUT".into()));
            }
        }
        Self { method, is_https, host, server_name, path, fields }
    }

    /// Returns whether a header has this value.
    pub fn has_value(&self, value: &str) -> bool {
        self.fields.iter().any(|(_, other)| other == value)
    }

    /// Returns whether it is sent over TLS.
    pub fn is_secure(&self) -> bool {
        self.is_https
    }

    /// Returns whether a browser asks for the permission of a script.
    pub fn is_preflight(&self) -> bool {
        self.method == Method::OPTIONS
    }

    /// Sends the request to the Envoy of a party, and returns the comparable form of the answer.
    pub async fn send(&self, site: &Site, set: &Set, side: Side) -> String {
        let party: &Party = site.party(side);
        let named = |host: &str| side.fill(set.number, host);
        let host = named(&self.host);
        let mut target = match self.is_https {
            true => Target::https(party.https, &host, site.authority.der()),
            false => Target::http(party.http, &host),
        };
        if let Some(name) = &self.server_name {
            target = target.opened_for(&named(name));
        }
        for (name, value) in &self.fields {
            target = target.field(name, value);
        }
        let mut connection = match target.connect().await {
            Ok(connection) => connection,
            Err(_) => return "no connection".into(),
        };
        match connection.send(self.method.clone(), &self.path, Bytes::new()).await {
            Ok(answer) => side.restore(set.number, &comparable(&answer)),
            Err(_) => "no answer".into(),
        }
    }
}

/// Returns a host of the set, or one that it does not have.
fn host(set: &Set, random: &mut Random) -> String {
    if random.one_in(25) {
        return "unknown.@s".into();
    }
    let host = random.choose(&set.hosts);
    host_of(host, random)
}

/// Returns a host that an exact or a wildcard one matches, or one with a label more.
fn host_of(host: &str, random: &mut Random) -> String {
    let label = if random.one_in(8) { "x.y." } else { "x." };
    host.strip_prefix("*.").map_or_else(|| host.to_owned(), |rest| format!("{label}{rest}"))
}

/// The headers that differ for each request.
const VARIABLE: &[&str] = &["date", "x-envoy-upstream-service-time", "x-request-id", "x-request-start"];

/// Returns the status, the headers, and the body of an answer as text. The body of a backend has a request, with headers as lines.
fn comparable(answer: &Answer) -> String {
    let is_variable = |line: &str| VARIABLE.iter().any(|name| line.split(':').next() == Some(name));
    let mut headers: Vec<String> = answer
        .headers
        .iter()
        .map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())))
        // Names of headers have no case.
        .map(|(name, value)| match name {
            "access-control-expose-headers" => format!("{name}: {}", value.to_ascii_lowercase()),
            "set-cookie" => format!("{name}: {}", with_sorted_attributes(&value)),
            _ => format!("{name}: {value}"),
        })
        .filter(|line| !is_variable(line) && !line.starts_with("content-length"))
        .collect();
    headers.sort();
    let text = answer.text();
    let body: Vec<&str> = text.lines().filter(|line| !is_variable(line)).collect();
    format!("{}\n{}\n\n{}", answer.status, headers.join("\n"), body.join("\n"))
}

/// Returns a cookie with its attributes in one order, which has no meaning.
fn with_sorted_attributes(cookie: &str) -> String {
    let mut parts: Vec<&str> = cookie.split("; ").collect();
    parts[1..].sort_unstable();
    parts.join("; ")
}

/// The parts of the comparable form of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The status, or why there is none.
    pub status: String,
    /// The headers.
    pub headers: Vec<String>,
    /// The lines of the body.
    pub body: Vec<String>,
}

impl Parts {
    /// Parses the text of [`Sent::send`].
    pub fn parse(text: &str) -> Self {
        let (head, body) = text.split_once("\n\n").unwrap_or((text, ""));
        let (status, headers) = head.split_once('\n').unwrap_or((head, ""));
        let lines = |text: &str| text.lines().map(ToOwned::to_owned).collect();
        Self { status: status.into(), headers: lines(headers), body: lines(body) }
    }

    /// Returns the header with the name of the backend.
    pub fn backend(&self) -> Option<&String> {
        self.headers.iter().find(|line| line.starts_with("x-backend: "))
    }

    /// Returns the header with the location.
    pub fn location(&self) -> Option<String> {
        self.headers.iter().find(|line| line.starts_with("location: ")).cloned()
    }

    /// Removes a header.
    pub fn without_header(&mut self, name: &str) {
        self.headers.retain(|line| line.split(':').next() != Some(name));
    }
}
