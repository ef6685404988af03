//! The table of all keys, and functions for the key of a path.

use super::clients::CLIENTS;
use super::process::PROCESS;
use super::selection::SELECTION;
use super::services::SERVICES;
use super::upstream::UPSTREAM;
use super::{Restart, SettingsKey};
use crate::settings::Settings;
use crate::yaml::{self, Node};

/// The groups of keys and their documentation, in the order of the reference.
pub static GROUPS: &[(&str, &str)] = &[
    ("ingress", "Selection of the served Ingresses."),
    (
        "gateway",
        "Gateways of Gateway API. Each Gateway gets a Service of type LoadBalancer with its own address, which \
         leads to the Envoys behind `status.envoyService`.",
    ),
    (
        "namespaceOwnership",
        "Namespaces that may define routes for a host. [security.md](security.md#host-ownership) describes the rules.",
    ),
    (
        "hosts",
        "HostGrants: the namespaces that may define a host. [security.md](security.md#host-grants) describes them.",
    ),
    ("httpProxy", "Restrictions of [HTTPProxies](httpproxy.md)."),
    ("externalNames", "Services of type ExternalName. Their authors can reach every destination that Envoy can reach."),
    ("status", "The status of objects."),
    ("listeners", "Envoy's listeners and their connections."),
    ("http", "HTTP between clients and Envoy."),
    ("compression", "Compression of responses."),
    (
        "headers",
        "Headers that are set and removed on all routes. Values can contain Envoy's operators, such as \
         `%DOWNSTREAM_REMOTE_ADDRESS%`. Write any other `%` twice.",
    ),
    ("routes", "Delivery of the routes for plain HTTP to Envoys."),
    (
        "statistics",
        "Envoy's statistics of single Ingresses, HTTPRoutes, and GRPCRoutes: requests, errors, and latency for each of \
         their hosts. Beyond the limit, all namespaces get equal shares. \
         [tasks/metrics-by-object.md](tasks/metrics-by-object.md) describes them.",
    ),
    (
        "regexes",
        "Limits for regular expressions in paths of Ingresses, and in matches of HTTPRoutes and GRPCRoutes. While a \
         worker of Envoy matches a request with them, it serves no other request, so a tenant must not be able to \
         make this slow. A path or match beyond a limit is left out, and its object gets an Event. Within a host, \
         the namespace of the oldest object comes first, then older objects.",
    ),
    ("timeouts", "Time limits: durations such as `500ms`, `20s`, `1m30s`; `off` means no limit."),
    (
        "retries",
        "Retries by Envoy, at another endpoint if there is one. The annotations of an Ingress override these keys: \
         `projectcontour.io/retry-on` with `num-retries` and `per-try-timeout`; an empty `retry-on` disables \
         retries.",
    ),
    ("tls", "TLS between clients and Envoy."),
    ("accessLog", "Envoy's access log."),
    ("tracing", "Spans for an OpenTelemetry collector, by OTLP over gRPC."),
    (
        "externalAuthorization",
        "A server that authorizes each request before any other processing, for all hosts over HTTP, HTTPS, and \
         HTTP/3. Redirects from HTTP to HTTPS, and answers for hosts that nobody serves, need no authorization.",
    ),
    (
        "rateLimit",
        "Rate limiting: a service that counts requests to backends, for all hosts over HTTP, HTTPS, and HTTP/3, \
         with Envoy's rate limit protocol over gRPC. Requests beyond its limits are answered 429. It is asked \
         after `externalAuthorization`, so only authorized requests count.",
    ),
    (
        "wasm",
        "WebAssembly modules, which the feature [`wasm`](policies.md#webassembly-modules) of HTTPPolicies runs in Envoy. `lockgate bootstrap \
         --config` checks that the files exist.",
    ),
    ("upstream", "Connections to backends."),
    (
        "tenants",
        "Maxima for what the objects of a tenant may ask of Envoy. A larger value counts as the maximum, with an Event. [limits.md](limits.md#limits-of-tenants) explains all limits of tenants.",
    ),
    ("overload", "Protection of Envoy against overload. `lockgate bootstrap --config` reads these keys."),
    ("runtime", "Envoy's runtime flags."),
    ("watch", "The watched objects of a Kubernetes cluster."),
    ("xds", "The controller's xDS server for Envoys."),
    ("admin", "The controller's server for probes, metrics, and debug pages."),
    ("metrics", "A separate address for the controller's metrics. `listeners.stats` configures the metrics of Envoy."),
    ("log", "The controller's log, on its standard error. Envoy's access log is `accessLog`."),
    (
        "leaderElection",
        "Election of the replica of the controller that writes status and Events: the holder of a Lease. All \
         replicas serve Envoys.",
    ),
];

/// Every key, in the order of the reference.
pub static KEYS: &[SettingsKey] = &joined::<
    { SELECTION.len() + CLIENTS.len() + SERVICES.len() + UPSTREAM.len() + PROCESS.len() },
>([SELECTION, CLIENTS, SERVICES, UPSTREAM, PROCESS]);

/// Concatenates the lists, which have `N` keys in total.
const fn joined<const N: usize>(lists: [&[SettingsKey]; 5]) -> [SettingsKey; N] {
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

/// Returns the key with this path.
pub fn key(path: &str) -> Option<&'static SettingsKey> {
    KEYS.iter().find(|key| key.path == path)
}

/// Checks whether `value` is valid for the key `path`. The error is the first fault.
pub fn check_value(path: &str, value: &Node) -> Result<(), String> {
    let mut wrong = Vec::new();
    if let Some(key) = key(path) {
        (key.read)(&mut Settings::default(), value, &mut wrong);
    }
    wrong.into_iter().next().map_or(Ok(()), |wrong| Err(wrong.message))
}

/// Checks whether `value` is valid for the key `path`, as in a file. The error is the first fault.
pub fn check_json(path: &str, value: &serde_json::Value) -> Result<(), String> {
    check_value(path, &Node::with_text_scalars(value))
}

/// Returns the value of the key `path` in the format of the file.
pub fn written(settings: &Settings, path: &str) -> String {
    key(path).map(|key| yaml::written(&(key.show)(settings))).unwrap_or_default()
}

/// Returns the keys in which two settings differ, and the restart that each change needs.
pub fn changes(old: &Settings, new: &Settings) -> impl Iterator<Item = (&'static str, Option<Restart>)> {
    KEYS.iter().filter(|key| (key.show)(old) != (key.show)(new)).map(|key| (key.path, key.restart))
}
