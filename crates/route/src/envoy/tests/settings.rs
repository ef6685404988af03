//! Tests of every setting: a real Envoy accepts its resources, and only the expected resources change.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use prost::Message as _;

use super::*;
use crate::model::Bind;
use crate::model::TlsVersion;
use crate::settings::*;
use crate::testing::model::model_with;

/// A setting with a value other than its default, and the resources that it changes: a listener by name, `routes`,
/// `clusters`, `runtime`.
struct Case {
    name: &'static str,
    set: fn(&mut Settings),
    touches: &'static [&'static str],
}

/// Listeners for clients. Envoy drains the connections of a listener that changes.
const LISTENERS: &[&str] = &["http", "https"];

const fn case(name: &'static str, touches: &'static [&'static str], set: fn(&mut Settings)) -> Case {
    Case { name, set, touches }
}

const CASES: &[Case] = &[
    case("addresses", &["http", "stats"], |s| {
        s.listeners.http = Bind { address: Some(Ipv4Addr::LOCALHOST.into()), port: 81 };
        s.listeners.stats = Bind { address: Some("::1".parse().unwrap()), port: 82 };
    }),
    case("probes apart from scrapers", &["readiness", "runtime"], |s| s.listeners.readiness.port = 86),
    case("a probe of overload", &["overload-probe"], |s| s.listeners.overload_probe.port = 83),
    case("the admin interface", &["admin"], |s| s.listeners.admin.port = 85),
    // The plain listener no longer serves statistics.
    case("statistics by TLS", &["stats", "stats-tls"], |s| s.listeners.stats_tls.at.port = 84),
    case("no IPv6", &["http", "https", "stats"], |s| s.listeners.ipv6 = false),
    case("PROXY protocol", LISTENERS, |s| s.listeners.proxy_protocol = ProxyProtocolMode::Required),
    case("PROXY protocol of some", LISTENERS, |s| s.listeners.proxy_protocol = ProxyProtocolMode::Optional),
    case("exact balance", LISTENERS, |s| s.listeners.connection_balancer = ConnectionBalancer::Exact),
    case("downstream buffers", LISTENERS, |s| s.listeners.buffer_limit_bytes = 1024 * 1024),
    case("max connections", &["runtime"], |s| s.listeners.max_connections = Some(1000)),
    case("accepts at one go", LISTENERS, |s| s.listeners.max_connections_per_socket_event = Some(1)),
    case("socket options", LISTENERS, |s| {
        s.listeners.socket_options = SocketOptions { tos: Some(64), traffic_class: Some(64) };
    }),
    case("HTTP/1.1 only", LISTENERS, |s| s.http.versions = vec![HttpVersion::Http1]),
    case("HTTP/2 only", LISTENERS, |s| s.http.versions = vec![HttpVersion::Http2]),
    case("HTTP/3", &["http3", "routes", "scopes"], |s| {
        s.http.http3 = Http3Settings { enabled: true, advertised_port: 8443 }
    }),
    case("strict server names", &["https"], |s| s.tls.strict_server_names = true),
    case("trusted hops", LISTENERS, |s| s.http.trusted_hops = 2),
    case("trailing dots", LISTENERS, |s| s.http.strip_trailing_host_dot = false),
    case("slashes as they are", LISTENERS, |s| s.http.merge_slashes = false),
    case("error responses", &["http", "https", "scopes"], |s| s.http.error_responses = true),
    case("escaped slashes as they are", LISTENERS, |s| s.http.escaped_slashes = EscapedSlashes::Keep),
    case("no escaped slashes", LISTENERS, |s| s.http.escaped_slashes = EscapedSlashes::Reject),
    case("escaped slashes unescaped", LISTENERS, |s| s.http.escaped_slashes = EscapedSlashes::UnescapeAndForward),
    case("headers of proxies", LISTENERS, |s| s.http.untrusted_headers = vec!["forwarded".to_owned()]),
    case("requests that return", LISTENERS, |s| s.http.returns = 1),
    case("server header if absent", LISTENERS, |s| s.http.server_header = ServerHeader::AppendIfAbsent),
    case("server header of backends", LISTENERS, |s| s.http.server_header = ServerHeader::PassThrough),
    case("underscores", LISTENERS, |s| s.http.headers_with_underscores = Underscores::Allow),
    case("no underscores", LISTENERS, |s| s.http.headers_with_underscores = Underscores::Reject),
    case("chunked length", LISTENERS, |s| s.http.allow_chunked_length = true),
    case("large headers", LISTENERS, |s| s.http.max_request_headers_kib = 8192),
    case("concurrent streams", LISTENERS, |s| s.http.max_concurrent_streams = 7),
    case("requests per connection", LISTENERS, |s| s.http.max_requests_per_connection = Some(1)),
    case("requests per I/O cycle", &["runtime"], |s| s.http.max_requests_per_io_cycle = Some(1)),
    case("compression", LISTENERS, |s| {
        use CompressionAlgorithm::{Brotli, Gzip, Zstd};
        s.compression.algorithms = vec![Zstd, Brotli, Gzip];
        s.compression.content_types = vec!["text/plain".to_owned()];
    }),
    case("headers", &["routes", "scopes"], |s| {
        let set = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        s.headers.request.set = vec![set("x-peer", "%DOWNSTREAM_REMOTE_ADDRESS% at 100%%"), set("x-empty", "")];
        s.headers.response.set = vec![set("strict-transport-security", "max-age=31536000")];
        s.headers.request.remove = vec!["x-internal".to_owned()];
        s.headers.response.remove = vec!["x-powered-by".to_owned()];
    }),
    case("headers without those of Ingresses", &[], |s| {
        s.headers.response.set = vec![("x-by".to_owned(), "lockgate".to_owned())];
        s.headers.ingresses = false;
    }),
    case("routes of one piece", &["http", "routes", "scopes"], |s| s.routes.discovery = RouteDiscoveryMode::Rds),
    case("time limits", LISTENERS, |s| {
        s.timeouts.request = Some(Duration::from_secs(30));
        s.timeouts.request_headers = None;
        s.timeouts.connection_idle = None;
        s.timeouts.stream_idle = Some(Duration::from_millis(1500));
        s.timeouts.max_connection_duration = Some(Duration::from_secs(3600));
        s.timeouts.delayed_close = None;
        s.timeouts.drain = Duration::from_secs(1);
    }),
    case("idle connections to backends", &["clusters"], |s| s.timeouts.upstream_idle = Some(Duration::from_secs(9))),
    case("idle connections to backends for ever", &["clusters"], |s| s.timeouts.upstream_idle = None),
    case("ciphers and curves", &["https"], |s| {
        s.tls.parameters.cipher_suites = vec!["ECDHE-RSA-AES256-GCM-SHA384".to_owned()];
        s.tls.parameters.curves = vec!["X25519MLKEM768".to_owned(), "X25519".to_owned(), "P-256".to_owned()];
    }),
    case("fingerprints", &["https"], |s| (s.tls.ja3, s.tls.ja4) = (true, true)),
    // The log names the objects of routes, so the routes contain them.
    case("JSON log", &["http", "https", "routes", "scopes"], |s| s.access_log.format = AccessLogFormat::Json),
    case("JSON log with fields", &["http", "https", "routes", "scopes"], |s| {
        s.access_log.format = AccessLogFormat::Json;
        let field = |name: &str, format: &str| JsonField { name: name.to_owned(), format: format.to_owned() };
        s.access_log.json_fields = vec![
            field("path", "%REQ_WITHOUT_QUERY(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
            field("ja3", "%TLS_JA3_FINGERPRINT%"),
            field("ja4", "%TLS_JA4_FINGERPRINT%"),
            field("kind", "%METADATA(ROUTE:dev.lockgate:kind)%"),
            field("grpc", "%GRPC_STATUS% %GRPC_STATUS_NUMBER%"),
        ];
    }),
    case("own log line", LISTENERS, |s| s.access_log.text = "%REQ_WITHOUT_QUERY(:PATH)% 100%%\n".to_owned()),
    case("log of errors", LISTENERS, |s| s.access_log.level = AccessLogLevel::Error),
    case("log of server errors", LISTENERS, |s| s.access_log.level = AccessLogLevel::Critical),
    case("a file of HTTP", &["http"], |s| s.access_log.http_file = "/dev/stderr".to_owned()),
    case("a file of HTTPS", &["https"], |s| s.access_log.https_file = "/dev/null".to_owned()),
    case("no log", LISTENERS, |s| s.access_log.format = AccessLogFormat::Off),
    case("tracing", &["clusters", "http", "https"], |s| {
        s.tracing = Tracing {
            endpoint: Some(ServiceAddress { host: "collector.monitoring.svc".to_owned(), port: 4317 }),
            sampling: Sampling { overall: 0.0, client: 12.5, random: 100.0 },
            custom_tags: vec![
                ("team".to_owned(), TagValue::Literal("shop".to_owned())),
                ("agent".to_owned(), TagValue::RequestHeader("user-agent".to_owned())),
            ],
            ..Tracing::default()
        };
    }),
    // The clusters, the filter, the routes without authorization, and the context on all routes.
    case("authorization by gRPC", &["clusters", "http", "https", "routes", "scopes"], |s| {
        s.external_authorization = ExternalAuthorization {
            endpoint: somebody(9000),
            check: AuthorizationCheck {
                fail_open: true,
                request_body: RequestBody { max_bytes: Some(1), allow_partial: true, pack_as_bytes: true },
                ..AuthorizationCheck::default()
            },
            context: [("site".to_owned(), "eu-1".to_owned())].into(),
        };
    }),
    case("authorization by HTTP", &["clusters", "http", "https", "routes", "scopes"], |s| {
        s.external_authorization = ExternalAuthorization {
            endpoint: somebody(9001),
            check: AuthorizationCheck {
                protocol: AuthorizationProtocol::Http,
                http: AuthorizationHttp {
                    path_prefix: Some("/check".to_owned()),
                    allowed_request_headers: vec!["cookie".to_owned()],
                    allowed_upstream_headers: vec!["x-user".to_owned()],
                    ..Default::default()
                },
                ..AuthorizationCheck::default()
            },
            ..ExternalAuthorization::default()
        };
    }),
    case("rate limit", &["clusters", "http", "https"], |s| {
        let header = |condition| EntryHeader {
            name: "a".to_owned(),
            condition,
            ignore_case: false,
            treat_missing_as_empty: false,
        };
        let text = || "b".to_owned();
        let conditions = vec![
            header(HeaderCondition::Present),
            header(HeaderCondition::NotPresent),
            header(HeaderCondition::Exact(text())),
            header(HeaderCondition::NotExact(text())),
            header(HeaderCondition::Contains(text())),
            header(HeaderCondition::NotContains(text())),
            header(HeaderCondition::Regex("[a-z]+".to_owned())),
        ];
        s.rate_limit = RateLimit {
            endpoint: somebody(8081),
            headers: true,
            resource_exhausted: true,
            descriptors: vec![
                vec![
                    RateLimitEntry::GenericKey { key: None, value: text() },
                    RateLimitEntry::RequestHeader { header_name: ":path".to_owned(), descriptor_key: text() },
                    RateLimitEntry::RemoteAddress,
                ],
                vec![RateLimitEntry::RequestHeaderValueMatch {
                    headers: conditions,
                    expect_match: false,
                    value: text(),
                }],
            ],
            ..RateLimit::default()
        };
    }),
    case("lookup family", &["clusters"], |s| s.upstream.dns_lookup_family = DnsLookupFamily::All),
    case("requests per upstream connection", &["clusters"], |s| s.upstream.max_requests_per_connection = Some(100)),
    case("upstream buffers", &["clusters"], |s| s.upstream.buffer_limit_bytes = 1024 * 1024),
    case("upstream TLS", &["clusters"], |s| {
        s.upstream.tls.maximum = TlsVersion::V1_2;
        s.upstream.tls.cipher_suites = vec!["ECDHE-RSA-AES256-GCM-SHA384".to_owned()];
        s.upstream.tls.curves = vec!["P-256".to_owned()];
    }),
    case("runtime flags", &["runtime"], |s| {
        s.runtime.insert("http.max_requests_per_io_cycle".to_owned(), 5.into());
        s.runtime.insert("upstream.healthy_panic_threshold".to_owned(), serde_json::json!({"numerator": 1}));
    }),
];

fn somebody(port: u16) -> Option<ServiceAddress> {
    Some(ServiceAddress { host: "somebody.security.svc".to_owned(), port })
}

fn with(set: impl IntoIterator<Item = &'static Case>) -> Settings {
    let mut settings = Settings::default();
    set.into_iter().for_each(|case| (case.set)(&mut settings));
    settings
}

/// Returns the name of a resource in [`Case::touches`].
fn place(resource: &Resource) -> String {
    match resource.kind() {
        ResourceType::LISTENER => resource.name().to_string(),
        // The connection manager of a listener.
        ResourceType::EXTENSION => resource.name().rsplit_once('/').unwrap().0.to_owned(),
        ResourceType::ROUTES => "routes".to_owned(),
        ResourceType::CLUSTER => "clusters".to_owned(),
        ResourceType::RUNTIME => "runtime".to_owned(),
        ResourceType::SCOPED_ROUTES => "scopes".to_owned(),
        _ => format!("{} {}", resource.kind().short_name(), resource.name()),
    }
}

#[test]
fn a_setting_changes_only_its_dependents() {
    let versions = |settings: &Settings| -> BTreeSet<(String, String, u64)> {
        let resources = build(&model_with(settings), settings);
        resources.iter().map(|one| (place(one), one.name().to_string(), one.version().0)).collect()
    };
    let default = versions(&Settings::default());
    for case in CASES {
        let changed = versions(&with([case]));
        let touched: BTreeSet<&str> = changed.symmetric_difference(&default).map(|(place, ..)| &**place).collect();
        assert_eq!(touched, case.touches.iter().copied().collect(), "{}", case.name);
    }
}

/// Returns the resources that depend on `settings`, with separate names and addresses.
fn apart(name: &str, settings: &Settings, port: &mut u32) -> Vec<Resource> {
    let rename = |resource: &Resource| format!("{name}/{}", resource.name());
    let services = services::clusters(settings).map(|(name, _)| name);
    build(&model_with(settings), settings)
        .iter()
        .filter_map(|resource| match resource.kind() {
            ResourceType::CLUSTER if !services.contains(&&**resource.name()) => {
                let mut cluster = cluster_v3::Cluster::decode(resource.message()).unwrap();
                cluster.name = rename(resource);
                if let Some(assignment) = &mut cluster.load_assignment {
                    assignment.cluster_name.clone_from(&cluster.name);
                }
                Some(Resource::new(&cluster.name, &cluster, vec![]))
            }
            ResourceType::LISTENER => {
                let mut listener = listener_v3::Listener::decode(resource.message()).unwrap();
                listener.name = rename(resource);
                let Some(core_v3::address::Address::SocketAddress(address)) =
                    listener.address.as_mut().and_then(|address| address.address.as_mut())
                else {
                    panic!("{} has no address", listener.name)
                };
                // Two listeners must not share an address. This one is never bound.
                *port += 1;
                address.port_specifier = Some(core_v3::socket_address::PortSpecifier::PortValue(*port));
                Some(Resource::new(&listener.name, &listener, vec![]))
            }
            // Its name is a hash of its content.
            ResourceType::EXTENSION => Some(resource.clone()),
            ResourceType::ROUTES
                if !settings.headers.request.set.is_empty() || settings.external_authorization.endpoint.is_some() =>
            {
                let mut routes = route_v3::RouteConfiguration::decode(resource.message()).unwrap();
                routes.name = rename(resource);
                Some(Resource::new(&routes.name, &routes, vec![]))
            }
            _ => None,
        })
        .collect()
}

#[test]
fn a_real_envoy_accepts_every_setting_individually() {
    let mut resources: Vec<Resource> = build(&model(), &Settings::default());
    // One service of each name, because its users do not depend on its settings.
    let mut services = BTreeMap::new();
    for case in CASES {
        let named = services::clusters(&with([case])).into_iter();
        services.extend(named.filter_map(|(name, cluster)| Some((name, cluster?))));
    }
    assert_eq!(services.len(), 4);
    resources.extend(services.into_values());
    let mut port = 10_000;
    for case in CASES {
        resources.extend(apart(case.name, &with([case]), &mut port));
    }
    validate(&standalone(&resources, &Settings::default())).unwrap();
}

#[test]
fn a_real_envoy_accepts_all_settings_together() {
    let excluded = ["no IPv6", "no log", "HTTP/1.1 only", "HTTP/2 only", "authorization by gRPC"];
    let settings = with(CASES.iter().filter(|case| !excluded.contains(&case.name)));
    assert!(
        settings.rate_limit.endpoint.is_some()
            && settings.tls.ja4
            && settings.tracing.endpoint.is_some()
            && settings.http.http3.enabled
    );
    validate(&standalone(&build(&model(), &settings), &settings)).unwrap();
}
