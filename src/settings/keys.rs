//! The table of all keys of the settings file: where each value goes, how it is written, what it does. The reference,
//! the schema, `config print` and the reading of files are made from it.

use serde_json::Value as Json;

use super::values::Format;
use super::values::lists::List;
use super::values::names::{
    Address, Annotation, ClassName, ControllerName, HostPort, MediaType, Name, Namespace, ObjectName, Reachable,
    Socket, Text,
};
use super::values::numbers::{
    Body, Buffer, Byte, Compressible, Connections, Count, HeadersSize, Heap, Percent, Port, PortOrNone, Positive,
    Streams,
};
use super::values::policy::{HeaderName, Headers, LogField, LogFile, LogLine, Runtime, Tags};
use super::values::process::{Certificates, Directory, Identity, LogFilter};
use super::values::retries::Condition;
use super::values::services::{Descriptors, PathPrefix, Texts};
use super::values::times::{Limit, Seconds, Time, Wait};
use super::values::tls::{CipherSuite, Curve, RedirectStatus, Version};
use super::values::words::Word;
use super::values::{Bool, Maybe};
use super::yaml::{Node, Wrong};
use super::{
    AccessLogFormat, AccessLogLevel, AuthorizationProtocol, CompressionAlgorithm, ConnectionBalancer, Discovery,
    DnsLookupFamily, EscapedSlashes, HttpVersion, NamespaceOwnership, ProxyProtocol, RestrictingAnnotations,
    ServerHeader, Settings, Underscores,
};
use crate::telemetry;

/// A key of the settings file.
#[derive(Clone, Copy)]
pub struct Key {
    /// Its path, with dots: `timeouts.connect`.
    pub path: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// How its value is written, in words.
    pub describe: fn() -> String,
    /// Reads a value into the settings; whether there was one.
    pub read: fn(&mut Settings, &Node, &mut Vec<Wrong>) -> bool,
    /// The value in the settings as it may be written in a file.
    pub show: fn(&Settings) -> Json,
    /// Takes the value over from other settings.
    pub copy: fn(&mut Settings, &Settings),
    /// A JSON schema of its value.
    pub schema: fn() -> Json,
    /// What has to be started anew for a change to hold; `None`: nothing has to.
    pub restart: Option<Restart>,
}

/// What has to be started anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restart {
    /// The Envoys: their bootstrap is made with it.
    Envoys,
    /// The controller.
    Controller,
}

impl Restart {
    /// What is told of such a key.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Envoys => "needs a restart of the Envoys",
            Self::Controller => "needs a restart of the controller",
        }
    }
}

/// The key of `path`.
pub fn key(path: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.path == path)
}

macro_rules! key {
    ($path:literal, $format:ty, $($field:ident).+, $doc:expr) => {
        key!(@ $path, $format, $($field).+, $doc, None)
    };
    ($path:literal, $format:ty, $($field:ident).+, $doc:expr, $restart:expr) => {
        key!(@ $path, $format, $($field).+, $doc, Some($restart))
    };
    (@ $path:literal, $format:ty, $($field:ident).+, $doc:expr, $restart:expr) => {
        Key {
            path: $path,
            doc: $doc,
            describe: <$format as Format>::describe,
            read: |settings, node, wrong| match <$format as Format>::read(node, wrong) {
                Some(value) => {
                    settings.$($field).+ = value;
                    true
                }
                None => false,
            },
            show: |settings| <$format as Format>::show(&settings.$($field).+),
            copy: |to, from| to.$($field).+.clone_from(&from.$($field).+),
            schema: <$format as Format>::schema,
            restart: $restart,
        }
    };
}

mod clients;
mod process;
mod services;
mod upstream;

use clients::CLIENTS;
use process::PROCESS;
use services::SERVICES;
use upstream::UPSTREAM;

/// What the groups of keys are about, in the order of the reference.
pub static GROUPS: &[(&str, &str)] = &[
    ("ingress", "Which Ingresses are served."),
    (
        "namespaceOwnership",
        "Which namespaces may define routes for a host. [security.md](security.md#host-ownership) has the rules.",
    ),
    ("externalNames", "Services of type ExternalName. Whoever may write one could reach whatever Envoy can reach."),
    ("status", "What is written into the status of objects."),
    ("listeners", "Where Envoy listens, and how it takes connections."),
    ("http", "HTTP towards clients."),
    ("compression", "Compression of responses."),
    (
        "headers",
        "Headers that are set and removed on all routes. Values may hold Envoy's commands, such as \
                 `%DOWNSTREAM_REMOTE_ADDRESS%`; a `%` that is none is written twice.",
    ),
    ("routes", "How Envoys get the routes of plain HTTP."),
    (
        "regexes",
        "Limits of the regular expressions that Ingresses have as paths. While a worker of Envoy compares a request with them, \
                  it serves nobody else, so a tenant must not be able to make that long. A path beyond a limit is left out, and \
                  its Ingress gets an Event. Within a host, the namespace of the oldest Ingress comes first, then older Ingresses.",
    ),
    ("timeouts", "Time limits, durations such as `500ms`, `20s`, `1m30s`; `off` is no limit."),
    (
        "retries",
        "When Envoy tries a request again, at another endpoint if there is one. The annotations of an Ingress override it: \
         `projectcontour.io/retry-on` with `num-retries` and `per-try-timeout`; an empty `retry-on` is no retries.",
    ),
    ("tls", "TLS towards clients."),
    ("accessLog", "Envoy's access log."),
    ("tracing", "Spans for an OpenTelemetry collector, by OTLP over gRPC."),
    (
        "externalAuthorization",
        "A server that is asked about each request whether it may pass, before anything else is done with it, for all hosts \
                  over HTTP, HTTPS and HTTP/3. Redirects from HTTP to HTTPS need no permission, nor does what is answered \
                  for hosts that nobody serves.",
    ),
    (
        "rateLimit",
        "A service that counts requests to backends, for all hosts over HTTP, HTTPS and HTTP/3, by Envoy's protocol for rate \
                  limits over gRPC. What is more than the limits that it has is answered 429. It is asked after \
                  `externalAuthorization`, so that only what may pass is counted.",
    ),
    ("upstream", "Connections to backends."),
    ("overload", "What Envoy does before it is overloaded. `lockgate bootstrap --config` reads it."),
    ("runtime", "Envoy's runtime flags."),
    ("watch", "What is watched of a Kubernetes cluster."),
    ("xds", "The controller's server for Envoys."),
    ("admin", "The controller's server for probes, for metrics, and for whoever looks into it."),
    ("metrics", "The controller's metrics, at an address of their own. Those of Envoy are `listeners.stats`."),
    ("log", "The controller's log, on its standard error. Envoy's access log is `accessLog`."),
    (
        "leaderElection",
        "Which of several replicas of the controller writes status and Events: the holder of a Lease. All of them serve \
                  Envoys.",
    ),
];

/// Every key, in the order of the reference.
pub static KEYS: &[Key] = &joined::<{ CLIENTS.len() + SERVICES.len() + UPSTREAM.len() + PROCESS.len() }>([
    CLIENTS, SERVICES, UPSTREAM, PROCESS,
]);

/// All keys of these lists, of which there are `N`.
const fn joined<const N: usize>(lists: [&[Key]; 4]) -> [Key; N] {
    let mut all = [lists[0][0]; N];
    let (mut list, mut at) = (0, 0);
    while list < lists.len() {
        let mut i = 0;
        while i < lists[list].len() {
            all[at] = lists[list][i];
            (i, at) = (i + 1, at + 1);
        }
        list += 1;
    }
    all
}
