#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod envoy;
mod faults;
mod reference;

use std::time::Duration;

use lockgate_route::model::Bind;
use lockgate_route::settings as route;

use super::keys::{GROUPS, KEYS};
use super::*;
use crate::yaml::{Location, Node};

const EVERY_KEY: &str = include_str!("tests/every_key.yaml");

/// The keys that contradict others in the file of every key.
const ELSEWHERE: [(&str, &str); 8] = [
    ("listeners.socketOptions.trafficClass", "listeners: {socketOptions: {trafficClass: 32}}"),
    ("http.http3.enabled", "http: {http3: {enabled: true}}"),
    (
        "externalAuthorization.protocol",
        "externalAuthorization: {endpoint: 'a:1', protocol: http, http: {pathPrefix: /check}}",
    ),
    (
        "externalAuthorization.http.pathPrefix",
        "externalAuthorization: {endpoint: '[::1]:1', protocol: http, requestBody: {maxBytes: 1}, http: {pathPrefix: /check}}",
    ),
    (
        "externalAuthorization.http.allowedRequestHeaders",
        "externalAuthorization: {endpoint: 'a:1', protocol: http, http: {allowedRequestHeaders: [Cookie, x-a]}}",
    ),
    (
        "externalAuthorization.http.allowedUpstreamHeaders",
        "externalAuthorization: {endpoint: 'a:1', protocol: http, http: {allowedUpstreamHeaders: [x-user]}}",
    ),
    ("tls.minimumVersion", "tls: {minimumVersion: 1.3, cipherSuites: []}"),
    ("upstream.tls.minimumVersion", "upstream: {tls: {minimumVersion: 1.3}}"),
];

fn read(text: &str) -> Resolved {
    resolve("f", text, &[]).unwrap_or_else(|faults| panic!("{faults}"))
}

fn flag(key: &'static str, value: &str) -> Override {
    Override { key, flag: "--flag", value: Node::text(value) }
}

#[test]
fn every_key_has_an_effect() {
    let all = read(EVERY_KEY);
    let defaults = Settings::default();
    for key in KEYS {
        let file = match ELSEWHERE.iter().find(|(path, _)| *path == key.path) {
            Some((_, text)) => read(text),
            None => all.clone(),
        };
        assert!(matches!(file.origins.get(key.path), Some(Origin::File(_))), "{} is not in the file", key.path);
        assert_ne!((key.show)(&file.settings), (key.show)(&defaults), "{} is as by default", key.path);
    }
}

/// Every value of the settings can be written as a file.
#[test]
fn every_field_has_a_key() {
    let written = print(&read(EVERY_KEY), "");
    assert_eq!(read(&written).settings, read(EVERY_KEY).settings);
    // Takes the structs apart, so that a new field does not compile until it has a key.
    let route::Settings {
        ingress:
            IngressSettings {
                controller: _,
                class_names: _,
                classless: _,
                restricting_annotations: _,
                ignored_annotations: _,
            },
        gateway:
            GatewaySettings {
                controller: _,
                restricting_policies: _,
                ignored_policies: _,
                fleets: route::Fleets { max: _, max_per_namespace: _, max_replicas: _, max_cpus: _, max_memory: _ },
            },
        namespace_ownership: _,
        hosts: Hosts { require_grant: _ },
        http_proxies: route::HttpProxies { root_namespaces: _, permit_insecure: _, envoy_headers: _ },
        envoy_service: _,
        external_names: ExternalNames { allow: _, cluster_local: _ },
        listeners:
            Listeners {
                http: Bind { address: _, port: _ },
                https: _,
                stats: _,
                stats_tls: StatsTlsSettings { at: _, secret: _, client_ca: _ },
                readiness: _,
                overload_probe: _,
                admin: _,
                ipv6: _,
                proxy_protocol: _,
                connection_balancer: _,
                buffer_limit_bytes: _,
                max_connections: _,
                max_connections_per_socket_event: _,
                socket_options: SocketOptions { tos: _, traffic_class: _ },
            },
        http:
            Http {
                versions: _,
                http3: Http3Settings { enabled: _, advertised_port: _ },
                trusted_hops: _,
                strip_trailing_host_dot: _,
                merge_slashes: _,
                error_responses: _,
                escaped_slashes: _,
                untrusted_headers: _,
                server_header: _,
                headers_with_underscores: _,
                allow_chunked_length: _,
                returns: _,
                max_request_body_bytes: _,
                max_request_headers_kib: _,
                max_concurrent_streams: _,
                max_requests_per_connection: _,
                max_requests_per_io_cycle: _,
            },
        compression: Compression { algorithms: _, minimum_bytes: _, content_types: _ },
        headers: HeaderPolicies { request: HeaderPolicy { set: _, remove: _ }, response: _, ingresses: _ },
        statistics: StatisticsSettings { max_objects: _ },
        regexes: Regexes { max_size: _, max_size_per_host: _, max_steps: _, max_steps_per_host: _, max_per_host: _ },
        timeouts:
            Timeouts {
                request: _,
                request_headers: _,
                response: _,
                connect: _,
                connection_idle: _,
                stream_idle: _,
                max_connection_duration: _,
                delayed_close: _,
                drain: _,
                upstream_idle: _,
            },
        retries: Retries { conditions: _, count: _, per_try_timeout: _ },
        tls:
            TlsSettings {
                default_secret: _,
                fallback_secret: _,
                redirect: _,
                redirect_status: _,
                strict_server_names: _,
                hsts: Hsts { max_age: _, include_subdomains: _, preload: _ },
                expiry_warning: _,
                parameters: TlsParameters { minimum: _, maximum: _, cipher_suites: _, curves: _ },
                ja3: _,
                ja4: _,
            },
        access_log: AccessLog { format: _, level: _, text: _, json_fields: _, http_file: _, https_file: _ },
        tracing:
            Tracing {
                endpoint: _,
                service_name: _,
                sampling: Sampling { overall: _, client: _, random: _ },
                max_path_tag_length: _,
                custom_tags: _,
                pod_detail: _,
            },
        external_authorization:
            ExternalAuthorization {
                endpoint: _,
                check:
                    AuthorizationCheck {
                        protocol: _,
                        timeout: _,
                        fail_open: _,
                        request_body: RequestBody { max_bytes: _, allow_partial: _, pack_as_bytes: _ },
                        http:
                            AuthorizationHttp {
                                path_prefix: _,
                                allowed_request_headers: _,
                                allowed_upstream_headers: _,
                                ..
                            },
                    },
                context: _,
            },
        // A value, so one key.
        wasm: route::Wasm { modules: _ },
        rate_limit:
            RateLimit {
                endpoint: _,
                domain: _,
                timeout: _,
                fail_open: _,
                headers: _,
                resource_exhausted: _,
                descriptors: _,
            },
        upstream:
            Upstream {
                dns_lookup_family: _,
                max_requests_per_connection: _,
                buffer_limit_bytes: _,
                circuit_breakers: _,
                tls: _,
                client_certificate: _,
            },
        routes: RouteSettings { discovery: _ },
        tenants:
            Tenants {
                max_circuit_breaker: _,
                max_connections_per_listener: _,
                max_retries: _,
                max_buffered_bytes: _,
                max_grpc_json_bytes: _,
                active_health_checks: _,
                global_rate_limits: _,
                disable_authorization: _,
                max_configuration_per_namespace: _,
            },
        runtime: _,
    } = route::Settings::default();
    let Settings {
        route: _,
        status: Status { addresses: _ },
        overload: Overload { max_heap_bytes: _, max_connections: _ },
        all_service_statistics: _,
        process:
            Process {
                xds:
                    Xds {
                        address: _,
                        tls: _,
                        envoy_names: _,
                        grpc_names: _,
                        replica_names: _,
                        secrets: _,
                        service: _,
                        certificate_lifetime: _,
                        authority_lifetime: _,
                        rotation_pause: _,
                        gate_timeout: _,
                        removal_grace: _,
                        connection_age: _,
                        connections: _,
                        peers: _,
                    },
                admin: Admin { address: _ },
                metrics: MetricsServer { address: _, tls: _ },
                log: Log { format: _, level: _ },
                leader_election:
                    LeaderElection { enabled: _, lease: _, lease_duration: _, renew_deadline: _, retry_period: _ },
                watch: Watch { namespaces: _, gateway_api: _ },
                fleet_template: _,
            },
    } = Settings::default();
    let fields = 3
        + 2
        + 2
        + (7 * 2 + 2 + 6 + 2)
        + (2 + 16)
        + 3
        + (2 * 2 + 1)
        // statistics
        + 2
        // wasm
        + 1
        + 5
        + 10
        + (3 + 2 + 3 + 4 + 2)
        // retries
        + 3
        + 7
        + (5 + 3)
        + (5 + 3 + 3)
        + 7
        + (3 + 5 + 4 + 1)
        + 2
        // routes
        + 1
        + 1
        + (15 + 1 + 2 + 2 + 5 + 2)
        // namespaceOwnership, hosts
        + 2
        // tenants
        + 9
        // httpProxy
        + 3
        // ingress.restrictingAnnotations, ingress.ignoredAnnotations
        + 2
        // gateway.controller, gateway.restrictingPolicies, gateway.ignoredPolicies, gateway.dedicatedFleets
        + (1 + 2 + 6);
    assert_eq!(KEYS.len(), fields, "as many keys as the structs above have fields");
}

#[test]
fn empty_files_and_values_mean_the_defaults() {
    for text in ["", "# nothing\n", "---\n", "timeouts:\n", "timeouts:\n  connect:\n  response: null\n", "{}"] {
        assert_eq!(read(text), Resolved::default(), "{text:?}");
    }
}

#[test]
fn earlier_names_of_keys_are_accepted() {
    let earlier = read("tls: {redirect: false, redirectStatus: 301}");
    assert_eq!(earlier.settings, read("ingress: {httpsRedirect: false, httpsRedirectStatus: 301}").settings);
    assert_ne!(earlier.settings, Settings::default());
}

#[test]
fn printed_settings_parse_to_the_same_settings() {
    let others = ELSEWHERE.iter().map(|(_, text)| *text);
    for text in ["", EVERY_KEY].into_iter().chain(others) {
        let resolved = read(text);
        let printed = print(&resolved, "lockgate.yaml");
        assert_eq!(read(&printed).settings, resolved.settings, "{printed}");
        let again = read(&printed);
        let without_comments = |text: &str| {
            text.lines().map(|line| line.split(" # ").next().unwrap().trim_end().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(without_comments(&print(&again, "")), without_comments(&printed));
    }
}

#[test]
fn flags_override_the_file_and_each_value_has_its_origin() {
    let text = "timeouts:\n  connect: 5s\n  drain: 6s\n";
    let resolved = resolve("lockgate.yaml", text, &[flag("timeouts.connect", "7s")]).unwrap();
    assert_eq!(resolved.settings.route.timeouts.connect, Duration::from_secs(7));
    assert_eq!(resolved.settings.route.timeouts.drain, Duration::from_secs(6));
    let printed = print(&resolved, "lockgate.yaml");
    let line = |part: &str| printed.lines().find(|line| line.trim().starts_with(part)).unwrap().to_owned();
    assert!(line("connect: 7s").ends_with(" # --flag; lockgate.yaml:2 has 5s"), "{printed}");
    assert!(line("drain: 6s").ends_with(" # lockgate.yaml:3"), "{printed}");
    assert!(line("streamIdle: 5m").ends_with(" # default"), "{printed}");
}

#[test]
fn a_value_behind_a_flag_is_reported() {
    let text = "timeouts:\n  connect: 5s\nxds: {address: '127.0.0.1:1'}\n";
    let flags = [flag("timeouts.connect", "7s"), flag("xds.address", "127.0.0.1:1"), flag("http.trustedHops", "1")];
    let resolved = resolve("lockgate.yaml", text, &flags).unwrap();
    // The address is unchanged, and the other settings are not in the file.
    let hidden: Vec<_> = resolved.hidden.iter().map(|(key, hidden)| (*key, hidden.written())).collect();
    assert_eq!(hidden, [("timeouts.connect", "5s".to_owned())]);
}

#[test]
fn only_settings_of_the_process_wait_for_a_restart() {
    let running = resolve("f", "xds: {gateTimeout: 5s}", &[]).unwrap();
    let text = "timeouts: {connect: 3s}\nadmin: {address: '127.0.0.1:1'}\noverload: {maxHeap: 1GiB}\n";
    let held = resolve("f", text, &[]).unwrap().in_place_of(&running);
    assert_eq!(held.settings.route.timeouts.connect, Duration::from_secs(3));
    assert_eq!(held.settings.overload.max_heap_bytes, Some(1 << 30), "it is for the next Envoy that starts");
    assert_eq!(held.settings.process, running.settings.process);
    let waiting: Vec<_> = held.waiting.iter().map(|(key, waiting)| (*key, waiting.written())).collect();
    assert_eq!(waiting, [("admin.address", "\"127.0.0.1:1\"".to_owned()), ("xds.gateTimeout", "20s".to_owned())]);
    let printed = print(&held, "f");
    let line = |part: &str| printed.lines().find(|line| line.trim().starts_with(part)).unwrap().to_owned();
    assert!(
        line("address: \"127.0.0.1:18001\"")
            .ends_with("until a restart of the controller, then \"127.0.0.1:1\" by f:2"),
        "{printed}"
    );
    assert!(line("gateTimeout: 5s").ends_with("then 20s by default"), "{printed}");
    // The effective value is restored, so nothing waits any more.
    let back = resolve("f", "\nxds: {gateTimeout: 5s}", &[]).unwrap().in_place_of(&held);
    assert!(back.waiting.is_empty());
    assert_eq!(back.origins["xds.gateTimeout"], Origin::File(Location { line: 2, column: 7 }));
    assert!(back.settings.route == Settings::default().route && held.settings.route != back.settings.route);
}

/// A setting that the process reads only at its start must not count as applied after a change.
#[test]
fn settings_of_the_process_state_that_they_need_a_restart() {
    let live: Vec<&str> = KEYS
        .iter()
        .filter(|key| {
            let mut changed = Settings::default();
            (key.copy)(&mut changed, &read(EVERY_KEY).settings);
            changed.process != Process::default() && key.restart != Some(Restart::Controller)
        })
        .map(|key| key.path)
        .collect();
    assert_eq!(live, ["log.level"]);
}

#[test]
fn off_overrides_the_settings_file() {
    // A chart that reads YAML 1.1 turns `off` into `false`, and 1.2 into a number.
    let text = "timeouts: {response: false}\nlisteners: {proxyProtocol: false}\naccessLog: {format: false}\n";
    let route::Settings { timeouts, listeners, access_log, .. } = read(text).settings.route;
    assert_eq!((timeouts.response, listeners.proxy_protocol), (None, ProxyProtocolMode::Off));
    assert_eq!(access_log.format, AccessLogFormat::Off);
    assert_eq!(read("tls: {maximumVersion: '1.2'}").settings, read("tls: {maximumVersion: 1.2}").settings);
}

#[test]
fn the_line_of_the_access_log_ends_in_a_line_feed() {
    for text in [
        "accessLog: {text: '%PROTOCOL%'}",
        "accessLog: {text: \"%PROTOCOL%\\n\"}",
        "accessLog:\n  text: |\n    %PROTOCOL%\n",
    ] {
        assert_eq!(read(text).settings.route.access_log.text, "%PROTOCOL%\n", "{text}");
    }
}

#[test]
fn changes_are_reported_by_key() {
    let new = read("timeouts: {connect: 3s}\noverload: {maxHeap: 1GiB}\n").settings;
    let told: Vec<_> = changes(&Settings::default(), &new).collect();
    assert_eq!(told, [("timeouts.connect", None), ("overload.maxHeap", Some(Restart::Envoys))]);
}

#[test]
fn the_table_is_sorted() {
    let groups: Vec<&str> = KEYS.iter().map(|key| key.path.split('.').next().unwrap()).collect();
    let mut of_keys = groups.clone();
    of_keys.dedup();
    assert_eq!(of_keys, GROUPS.iter().map(|(group, _)| *group).collect::<Vec<_>>());
    for key in KEYS {
        assert_eq!(KEYS.iter().filter(|other| other.path == key.path).count(), 1, "{}", key.path);
        let inside = |other: &keys::SettingsKey| other.path.starts_with(&format!("{}.", key.path));
        assert!(!KEYS.iter().any(inside), "{} is a key and a group", key.path);
        assert!(key.doc.ends_with('.') && !(key.describe)().is_empty(), "{}", key.path);
    }
}
