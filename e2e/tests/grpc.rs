//! gRPC clients and servers without a proxy: real grpcio with the bootstrap of the program.

use std::net::SocketAddr;
use std::time::Instant;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Authority, Envoy, GrpcBackend, GrpcClient, Lockgate, Manifests, Mode, Source, wait_until};

const HOST: &str = "shop.test";
const TARGET: &str = "xds:///shop.test";

/// The flags with which the log contains every response and ACK, and every published resource.
const MESSAGES: [&str; 2] = ["--log-level", "info,lockgate=debug,lockgate_xds=debug"];

/// A controller with a directory of Kubernetes YAML.
struct Shop {
    manifests: Manifests,
    lockgate: Lockgate,
}

impl Shop {
    /// Serves a host with a Service.
    async fn open(service: &str, backends: &[SocketAddr], flags: &[&str]) -> Self {
        let manifests = Manifests::new();
        manifests.write("class.yaml", &ingress_class());
        manifests.write("shop.yaml", &shop(service, backends));
        let flags = [&MESSAGES[..], flags].concat();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
        Self { manifests, lockgate }
    }
}

/// Formats a Service with its endpoints, and an Ingress, in one file that is replaced atomically.
fn shop(name: &str, backends: &[SocketAddr]) -> String {
    documents(&[service(name, "", backends), ingress("shop", HOST, name, None)])
}

/// A controller with a directory of Envoy resources.
struct Resources {
    files: Manifests,
    lockgate: Lockgate,
}

impl Resources {
    async fn open(files: &[(&str, &str)]) -> Self {
        let directory = Manifests::new();
        for (name, content) in files {
            directory.write(name, content);
        }
        let lockgate = Lockgate::start(&Source::Resources(directory.path().into()), &MESSAGES).await;
        Self { files: directory, lockgate }
    }
}

/// Formats the API listener of a target with inline routes. `routes` is a YAML list.
fn api_listener(name: &str, routes: &str) -> String {
    format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: {name}
api_listener:
  api_listener:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: grpc
    route_config:
      name: inside
      virtual_hosts: [{{ name: all, domains: ["*"], routes: {routes} }}]
    http_filters:
      - name: router
        typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
"#
    )
}

/// Formats a cluster with additional fields, and its endpoints.
fn cluster(name: &str, more: &str, backends: &[SocketAddr]) -> String {
    let endpoints: Vec<String> = backends
        .iter()
        .map(|at| {
            format!(
                "{{ endpoint: {{ address: {{ socket_address: {{ address: {}, port_value: {} }} }} }} }}",
                at.ip(),
                at.port()
            )
        })
        .collect();
    format!(
        r#""@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: {name}
type: EDS
eds_cluster_config: {{ eds_config: {{ ads: {{}}, resource_api_version: V3 }} }}
{more}
---
"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
cluster_name: {name}
endpoints: [{{ locality: {{ zone: a }}, load_balancing_weight: 1, lb_endpoints: [{}] }}]
"#,
        endpoints.join(", ")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_two_backends_share_the_calls_of_a_target() {
    let (a, b) = (GrpcBackend::start("a").await, GrpcBackend::start("b").await);
    let files = [
        ("a.yaml", api_listener(HOST, "[{ match: { prefix: / }, route: { cluster: shop } }]")),
        ("shop.yaml", cluster("shop", "", &[a.address, b.address])),
    ];
    let resources = Resources::open(&files.each_ref().map(|(name, content)| (*name, content.as_str()))).await;
    let client = GrpcClient::start(&resources.lockgate, true).await;
    let first = client.calls(TARGET, 1).await;
    assert_eq!(first.answered(), 1, "{first:?}\n{}", client.log());
    println!("the first answer of a new target: after {:.0} ms", first.milliseconds);
    // A backend responds as soon as it is connected. The other one may connect later.
    wait_until("both backends", async || client.calls(TARGET, 10).await.answers.len() == 2).await;
    let calls = client.calls(TARGET, 1000).await;
    assert_eq!((calls.failed(), calls.answered()), (0, 1000), "{calls:?}");
    assert!((0.45..0.55).contains(&calls.share("a")), "{calls:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn p1_types_are_asked_one_after_another_and_acked() {
    let backend = GrpcBackend::start("a").await;
    let shop = Shop::open("shop", &[backend.address], &[]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    assert_eq!(client.backend(TARGET).await.as_deref(), Some("a"), "{}", client.log());
    shop.lockgate.logged(&["ACK", NODE, "type_url=ClusterLoadAssignment"]).await;
    let log = shop.lockgate.log();
    let mut steps: Vec<(&str, &str)> = vec![];
    for line in log.lines().filter(|line| line.contains(NODE)) {
        let Some(kind) = field(line, "type_url") else { continue };
        steps.push((if line.contains("ACK") { "ACK" } else { "sent" }, kind));
    }
    let chain = ["Listener", "RouteConfiguration", "Cluster", "ClusterLoadAssignment"];
    for action in ["sent", "ACK"] {
        let kinds: Vec<_> = steps.iter().filter(|(one, _)| *one == action).map(|(_, kind)| *kind).collect();
        assert_eq!(kinds, chain, "{action}\n{log}");
    }
    assert_eq!(sent(&log, "Listener"), [HOST]);
    assert_eq!(sent(&log, "Cluster"), ["default/shop/http"]);
}

/// The node ID of `GrpcClient::start` in the log.
const NODE: &str = "node_id=grpc-client";

/// Returns the value of a field in a log line.
fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = line.split_once(&format!(" {name}="))?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split('"').next(),
        None => rest.split(' ').next(),
    }
}

/// Returns the resource names in each response of a type to the client, from the log.
fn sent<'a>(log: &'a str, kind: &str) -> Vec<&'a str> {
    let of_kind = |line: &&str| line.contains(" sent ") && line.contains(NODE) && field(line, "type_url") == Some(kind);
    log.lines().filter(of_kind).filter_map(|line| field(line, "names")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn p10_a_host_and_a_service_have_their_names_with_and_without_port() {
    let backend = GrpcBackend::start("a").await;
    let shop = Shop::open("shop", &[backend.address], &[]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    let names =
        ["shop.test", "shop.test:80", "shop.default:80", "shop.default.svc:80", "shop.default.svc.cluster.local:80"];
    for name in names {
        assert_eq!(client.backend(&format!("xds:///{name}")).await.as_deref(), Some("a"), "{name}: {}", client.log());
    }
    // A channel with another authority still receives the routes of its target.
    let calls = client.calls_with(TARGET, "authority=other.test").await;
    assert_eq!(calls.answered(), 1, "{calls:?}");
    // The host has no TLS.
    for name in ["shop.test:443", "shop.default", "shop.default:8080"] {
        let calls = client.calls(&format!("xds:///{name}"), 1).await;
        assert!(calls.failure().contains("does not exist"), "{name}: {calls:?}");
    }
}

/// All forms of paths, weights, and localities that objects can express. grpcio accepts all resources.
#[tokio::test(flavor = "multi_thread")]
async fn p6_p7_p8_p9_a_client_takes_all_that_is_made_for_it() {
    let (a, b) = (GrpcBackend::start("a").await, GrpcBackend::start("b").await);
    let shop = Shop::open("shop", &[a.address], &["--enable-external-name-services"]).await;
    let paths = [
        ("/shop.Cart/Get", "Exact", "shop"),
        ("/shop.Order", "Prefix", "other"),
        ("/a/b/c", "Exact", "other"),
        ("/a/b/c/d", "Prefix", "other"),
        ("/items/[0-9]+", "ImplementationSpecific", "other"),
        ("/gone", "Prefix", "gone"),
        ("/tls", "Prefix", "tls"),
        ("/address", "Prefix", "address"),
        ("/empty", "Prefix", "empty"),
    ];
    let paths: String = paths
        .iter()
        .map(|(path, kind, name)| {
            format!("{{ path: '{path}', pathType: {kind}, backend: {{ service: {{ name: {name}, port: {{ name: http }} }} }} }}, ")
        })
        .collect();
    let ingress = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: all\n  namespace: default\n  annotations:\n    \
         projectcontour.io/retry-on: \"5xx,unavailable\"\n    projectcontour.io/num-retries: \"2\"\n\
         spec: {{ rules: [{{ host: all.test, http: {{ paths: [{paths}] }} }}] }}\n"
    );
    let external = "apiVersion: v1\nkind: Service\nmetadata: { name: address, namespace: default }\n\
                    spec: { type: ExternalName, externalName: 192.0.2.1, ports: [{ name: http, port: 80 }] }\n";
    let services = [
        service("other", "projectcontour.io/max-requests: \"100\"", &[b.address]),
        service("tls", "projectcontour.io/upstream-protocol.tls: http", &[b.address]),
        service("empty", "", &[]),
        external.to_owned(),
        ingress,
    ];
    shop.manifests.write("all.yaml", &documents(&services));
    shop.lockgate.logged(&["published", "default/empty/http"]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    let call = async |method: &str| client.calls_with("xds:///all.test", &format!("timeout=2&method={method}")).await;
    assert_eq!(call("/shop.Cart/Get").await.share("a"), 1.0, "{}", client.log());
    assert_eq!(call("/shop.Order/Get").await.share("b"), 1.0, "{}", client.log());
    for method in ["/shop.Orders/Get", "/shop.Cart/Put", "/gone/x", "/tls/x"] {
        let calls = call(method).await;
        assert!(
            calls.failure().starts_with("UNAVAILABLE: Matching route has inappropriate action"),
            "{method}: {calls:?}"
        );
    }
    assert!(call("/empty/x").await.failure().contains("default/empty/http"));
    // The Service has no endpoints, but gRPC accepts its cluster.
    let unreachable = call("/address/x").await;
    assert!(
        unreachable.failure().contains("192.0.2.1") || unreachable.failure().contains("DEADLINE"),
        "{unreachable:?}"
    );
    let log = shop.lockgate.log();
    assert!(!log.contains("NACK"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn weights_divide_the_calls() {
    let (a, b) = (GrpcBackend::start("a").await, GrpcBackend::start("b").await);
    let routes = |canary: u32| {
        let weights =
            format!("clusters: [{{ name: stable, weight: {} }}, {{ name: canary, weight: {canary} }}]", 100 - canary);
        api_listener(HOST, &format!("[{{ match: {{ prefix: / }}, route: {{ weighted_clusters: {{ {weights} }} }} }}]"))
    };
    let (stable, canary) = (cluster("stable", "", &[a.address]), cluster("canary", "", &[b.address]));
    let files = [("shop.yaml", &*routes(20)), ("stable.yaml", &*stable), ("canary.yaml", &*canary)];
    let resources = Resources::open(&files).await;
    let client = GrpcClient::start(&resources.lockgate, true).await;
    wait_until("both clusters", async || client.calls(TARGET, 50).await.answers.len() == 2).await;
    // A few calls at a time: the default circuit breaker of gRPC drops calls above 1,024.
    let (mut canary, mut all) = (0, 0);
    for _ in 0..6 {
        let calls = client.calls(TARGET, 500).await;
        assert_eq!(calls.failed(), 0, "{calls:?}");
        canary += calls.answers.get("b").copied().unwrap_or_default();
        all += calls.answered();
    }
    println!("20 % for the canary: {canary} of {all}");
    // Six standard deviations.
    assert!((0.156..0.244).contains(&(canary as f64 / all as f64)), "{canary} of {all}");
    resources.files.write("shop.yaml", &routes(100));
    client.served_by(TARGET, "b").await;
}

/// A route moves between two Services in one change, while calls are made.
#[tokio::test(flavor = "multi_thread")]
async fn p2_a_route_moves_to_a_new_cluster_without_a_failed_call() {
    const MOVES: usize = 20;
    let (a, b) = (GrpcBackend::start("a").await, GrpcBackend::start("b").await);
    let shop = Shop::open("shop-0", &[a.address], &[]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    client.served_by(TARGET, "a").await;
    client.start_load(TARGET, RATE).await;
    for i in 1..=MOVES {
        let (name, backend) = if i % 2 == 1 { ("b", &b) } else { ("a", &a) };
        shop.manifests.write("shop.yaml", &self::shop(&format!("shop-{i}"), &[backend.address]));
        client.served_by(TARGET, name).await;
        client.load_answers(20).await;
    }
    let calls = client.stop_load().await;
    println!("{MOVES} moves of a route to another Service: {calls:?}");
    assert_eq!(calls.failed(), 0, "{calls:?}\n{}", client.log());
    assert!(calls.answers.len() == 2, "{calls:?}");
    // Responses contain all requested resources: [c], [c, d]. A request for [d] alone needs no response.
    let log = shop.lockgate.log();
    let clusters = sent(&log, "Cluster");
    assert_eq!(clusters[..2], ["default/shop-0/http", "default/shop-0/http, default/shop-1/http"], "{log}");
}

/// Calls per second under load.
const RATE: u32 = 300;

#[tokio::test(flavor = "multi_thread")]
async fn p4_backends_are_swapped_without_a_failed_call() {
    const SWAPS: usize = 10;
    let mut backend = GrpcBackend::start("b0").await;
    let shop = Shop::open("shop", &[backend.address], &[]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    client.served_by(TARGET, "b0").await;
    let before = shop.lockgate.log();
    client.start_load(TARGET, RATE).await;
    for i in 1..=SWAPS {
        let name = format!("b{i}");
        let next = GrpcBackend::start(&name).await;
        shop.manifests.write("shop.yaml", &self::shop("shop", &[next.address]));
        client.served_by(TARGET, &name).await;
        std::mem::replace(&mut backend, next).stop().await;
        client.load_answers(20).await;
    }
    let calls = client.stop_load().await;
    println!("{SWAPS} swaps of a backend: {calls:?}");
    assert_eq!(calls.failed(), 0, "{calls:?}\n{}", client.log());
    assert_eq!(calls.answers.len(), SWAPS + 1, "{calls:?}");
    let log = shop.lockgate.log();
    assert_eq!(sent(&log, "ClusterLoadAssignment").len(), 1 + SWAPS, "{log}");
    for kind in ["Listener", "RouteConfiguration", "Cluster"] {
        assert_eq!(sent(&log, kind), sent(&before, kind), "{log}");
    }
}

/// New endpoints for every cluster of a target, which exceed the maximum message size of a gRPC library. All but one
/// address of each are unhealthy, so that they receive no calls.
#[tokio::test(flavor = "multi_thread")]
async fn s35_new_addresses_of_5_mib_reach_a_client_in_messages_that_it_takes() {
    const CLUSTERS: usize = 5;
    const ADDRESSES: usize = 4_000;
    let names: Vec<String> = (0..CLUSTERS).map(|i| format!("c{i}")).collect();
    let weights: Vec<String> = names.iter().map(|name| format!("{{ name: {name}, weight: 1 }}")).collect();
    let routes = format!(
        "[{{ match: {{ prefix: '' }}, route: {{ weighted_clusters: {{ clusters: [{}] }} }} }}]",
        weights.join(", ")
    );
    let (old, new) = (GrpcBackend::start("old").await, GrpcBackend::start("new").await);
    let few: Vec<String> = names.iter().map(|name| cluster(name, "", &[old.address])).collect();
    let shop = Resources::open(&[("listener.yaml", &api_listener("t", &routes)), ("c.yaml", &few.join("---\n"))]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    client.served_by("xds:///t", "old").await;
    client.start_load("xds:///t", RATE).await;
    client.load_answers(20).await;
    let before = sent(&shop.lockgate.log(), "ClusterLoadAssignment").len();

    let unhealthy: String = (0..ADDRESSES)
        .map(|i| {
            let address = format!("127.100.{}.{}", i / 250, 1 + i % 250);
            let socket = format!("{{ socket_address: {{ address: {address}, port_value: 9 }} }}");
            let hostname = format!("{}-{i}", "x".repeat(220));
            format!("{{ health_status: UNHEALTHY, endpoint: {{ hostname: {hostname}, address: {socket} }} }}, ")
        })
        .collect();
    let many = few.join("---\n").replace(&old.address.port().to_string(), &new.address.port().to_string());
    shop.files.write("c.yaml", &many.replace("lb_endpoints: [", &format!("lb_endpoints: [{unhealthy}")));
    client.served_by("xds:///t", "new").await;
    let calls = client.stop_load().await;
    println!("{} new addresses: {calls:?}", CLUSTERS * ADDRESSES);
    assert_eq!(calls.failed(), 0, "{calls:?}\n{}", client.log());
    let messages = sent(&shop.lockgate.log(), "ClusterLoadAssignment").len() - before;
    assert!(messages > 2, "{messages} messages");
}

#[tokio::test(flavor = "multi_thread")]
async fn p4_a_change_of_a_cluster_alone_costs_no_call() {
    let backend = GrpcBackend::start("a").await;
    let shop = Shop::open("shop", &[backend.address], &[]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    client.served_by(TARGET, "a").await;
    client.start_load(TARGET, RATE).await;
    for seconds in 3..8 {
        let limit = format!("lockgate.dev/connect-timeout: {seconds}s");
        let changed = [service("shop", &limit, &[backend.address]), ingress("shop", HOST, "shop", None)];
        shop.manifests.write("shop.yaml", &documents(&changed));
        let acked = seconds as usize - 1;
        wait_until("the change acknowledged", async || {
            let log = shop.lockgate.log();
            let acks = log.lines().filter(|line| line.contains(NODE) && line.contains(" ACK "));
            acks.filter(|line| field(line, "type_url") == Some("Cluster")).count() >= acked
        })
        .await;
        client.load_answers(20).await;
    }
    let calls = client.stop_load().await;
    assert_eq!(calls.failed(), 0, "{calls:?}\n{}", client.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn p5_a_rejected_cluster_is_named_and_its_neighbor_is_used() {
    let backend = GrpcBackend::start("a").await;
    let routes = "[{ match: { prefix: /bad.Cart/ }, route: { cluster: bad } }, { match: { prefix: / }, route: { cluster: good } }]";
    let files = [
        ("shop.yaml", api_listener(HOST, routes)),
        ("good.yaml", cluster("good", "", &[backend.address])),
        ("bad.yaml", cluster("bad", "lb_policy: MAGLEV", &[backend.address])),
    ];
    let resources = Resources::open(&files.each_ref().map(|(name, content)| (*name, content.as_str()))).await;
    let client = GrpcClient::start(&resources.lockgate, true).await;
    let calls = client.calls(TARGET, 1).await;
    assert_eq!(calls.share("a"), 1.0, "{calls:?}\n{}", client.log());
    let line = resources.lockgate.logged(&["NACK", NODE, "type_url=Cluster", "[resource index ", ": bad: "]).await;
    println!("{line}");
    assert!(line.contains("lb_policy"), "{line}");
    let calls = client.calls_with(TARGET, "method=/bad.Cart/Get").await;
    assert!(calls.failure().contains("bad"), "{calls:?}");
    // The corrected cluster is used.
    resources.files.write("bad.yaml", &cluster("bad", "lb_policy: RING_HASH", &[backend.address]));
    wait_until("the mended cluster", async || client.calls_with(TARGET, "method=/bad.Cart/Get").await.answered() == 1)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p11_a_resource_in_a_wrapper_is_used() {
    let backend = GrpcBackend::start("a").await;
    let shop = cluster("shop", "", &[backend.address]);
    let (cluster, endpoints) = shop.split_once("---\n").expect("two documents");
    let indented: String = endpoints.lines().map(|line| format!("  {line}\n")).collect();
    let wrapped = format!("name: shop\nttl: 3600s\nresource:\n{indented}");
    let listener = api_listener(HOST, "[{ match: { prefix: / }, route: { cluster: shop } }]");
    let resources =
        Resources::open(&[("shop.yaml", &*listener), ("cluster.yaml", cluster), ("endpoints.yaml", &*wrapped)]).await;
    let client = GrpcClient::start(&resources.lockgate, true).await;
    assert_eq!(client.backend(TARGET).await.as_deref(), Some("a"), "{}", client.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn p12_an_unknown_target_fails_at_once_and_works_once_it_is_there() {
    let backend = GrpcBackend::start("a").await;
    let shop = Shop::open("shop", &[backend.address], &[]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    let calls = client.calls("xds:///new.test", 1).await;
    println!("an unknown target: {calls:?}");
    assert!(calls.failure().starts_with("UNAVAILABLE") && calls.failure().contains("does not exist"), "{calls:?}");
    assert!(calls.milliseconds < 5000.0, "{calls:?}");
    shop.manifests.write("new.yaml", &ingress("new", "new.test", "shop", None));
    client.served_by("xds:///new.test", "a").await;
    // After the removal, the client keeps the last version (gRFC A88).
    shop.manifests.remove("new.yaml");
    wait_until("the removal to be told", async || sent(&shop.lockgate.log(), "Listener").len() > 2).await;
    assert_eq!(client.backend("xds:///new.test").await.as_deref(), Some("a"));
}

/// A client without support for resource errors waits 15 s for an unknown target. The errors have no other effect on
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn p12_an_older_client_is_not_harmed_by_resource_errors() {
    let backend = GrpcBackend::start("a").await;
    let shop = Shop::open("shop", &[backend.address], &[]).await;
    let client = GrpcClient::start(&shop.lockgate, false).await;
    let calls = client.calls_with("xds:///new.test", "timeout=0.5").await;
    assert!(calls.failure().starts_with("DEADLINE_EXCEEDED"), "{calls:?}");
    let start = Instant::now();
    shop.manifests.write("new.yaml", &ingress("new", "new.test", "shop", None));
    client.served_by("xds:///new.test", "a").await;
    assert!(start.elapsed().as_secs() < 10, "it waited for the 15 s to be over");
    shop.manifests.remove("new.yaml");
    wait_until("calls that fail", async || client.calls("xds:///new.test", 1).await.failed() == 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn p14_a_server_is_configured_by_its_address() {
    let resources = Resources::open(&[]).await;
    let bootstrap: serde_json::Value =
        serde_json::from_str(&resources.lockgate.grpc_bootstrap("grpc-client")).expect("JSON");
    let template = "grpc/server?xds.resource.listening_address=%s";
    let mut with_template = bootstrap.clone();
    with_template["server_listener_resource_name_template"] = template.into();
    let mut server = GrpcBackend::launch_configured("s", &with_template.to_string());
    let client = GrpcClient::start(&resources.lockgate, true).await;
    let target = format!("ipv4:{}", server.address);
    resources.lockgate.logged(&["ACK", NODE, "type_url=Listener"]).await;
    server.wait_listening("s").await;
    assert_eq!(client.backend(&target).await, None, "it has no listener yet");
    let listener = format!(
        r#""@type": type.googleapis.com/envoy.config.listener.v3.Listener
name: "grpc/server?xds.resource.listening_address={address}"
address: {{ socket_address: {{ address: {ip}, port_value: {port} }} }}
filter_chains:
  - filters:
      - name: http
        typed_config:
          "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: server
          route_config:
            name: inside
            virtual_hosts: [{{ name: all, domains: ["*"], routes: [{{ match: {{ prefix: / }}, non_forwarding_action: {{}} }}] }}]
          http_filters:
            - name: router
              typed_config: {{ "@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router }}
"#,
        address = server.address,
        ip = server.address.ip(),
        port = server.address.port()
    );
    resources.files.write("server.yaml", &listener);
    let line = resources.lockgate.logged(&["sent", NODE, "names=grpc/server?"]).await;
    println!("{line}");
    wait_until("an answer of the server", async || client.backend(&target).await.as_deref() == Some("s")).await;
    assert!(!resources.lockgate.log().contains("NACK"), "{}", resources.lockgate.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn kills_of_the_controller_cost_no_call() {
    const KILLS: usize = 3;
    let (a, b) = (GrpcBackend::start("a").await, GrpcBackend::start("b").await);
    let mut shop = Shop::open("shop-0", &[a.address], &[]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    client.served_by(TARGET, "a").await;
    client.start_load(TARGET, RATE).await;
    for i in 1..=KILLS {
        shop.lockgate.kill();
        client.load_answers(200).await;
        shop.lockgate.restart();
        shop.lockgate.wait_ready().await;
        wait_until("the client's stream", async || {
            shop.lockgate.metric("lockgate_xds_acks_total", &["ClusterLoadAssignment"]).await > 0.0
        })
        .await;
        let (name, backend) = if i % 2 == 1 { ("b", &b) } else { ("a", &a) };
        shop.manifests.write("shop.yaml", &self::shop(&format!("shop-{i}"), &[backend.address]));
        client.served_by(TARGET, name).await;
    }
    let calls = client.stop_load().await;
    println!("{KILLS} x kill -9 of the controller: {calls:?}");
    assert_eq!(calls.failed(), 0, "{calls:?}\n{}", client.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_and_the_controller_prove_who_they_are() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new();
    let pair = authority.issue(&["127.0.0.1", "envoy"]);
    for (name, content) in [("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &authority.pem())] {
        std::fs::write(directory.path().join(name), content).expect("a file written");
    }
    let backend = GrpcBackend::start("a").await;
    let path = directory.path().to_str().expect("a path in UTF-8");
    let shop = Shop::open("shop", &[backend.address], &["--xds-tls", path]).await;
    let client = GrpcClient::start(&shop.lockgate, true).await;
    assert_eq!(client.backend(TARGET).await.as_deref(), Some("a"), "{}", client.log());
}

/// Envoy and a gRPC client at one controller. Each receives its own listeners, and a change for one sends nothing to
/// the other.
#[tokio::test(flavor = "multi_thread")]
async fn envoy_knows_nothing_of_api_listeners() {
    let backend = GrpcBackend::start("a").await;
    let shop = Shop::open("shop", &[backend.address], &[]).await;
    for mode in [Mode::Delta, Mode::Sotw] {
        let envoy = Envoy::start(&shop.lockgate, mode).await;
        let dump = envoy.get("/config_dump").await.text();
        assert!(!dump.contains("api_listener") && !dump.contains("api/service"), "{mode:?}: {dump}");
        assert_eq!(envoy.warnings(), Vec::<String>::new(), "{mode:?}");
    }
    let client = GrpcClient::start(&shop.lockgate, true).await;
    assert_eq!(client.backend(TARGET).await.as_deref(), Some("a"), "{}", client.log());
    for (view, is_there) in [("envoy", false), ("whole", false), ("grpc", true)] {
        let page = shop.lockgate.get(&format!("/debug/resources?type=Listener&view={view}")).await.text();
        assert_eq!(page.contains("shop.default:80"), is_there, "{page}");
    }
    let log = shop.lockgate.log();
    let listeners = log.lines().filter(|line| line.contains(" sent ") && field(line, "type_url") == Some("Listener"));
    let to_envoys = listeners.filter(|line| line.contains("node_id=envoy-"));
    for line in to_envoys {
        assert_eq!(field(line, "names"), Some("http, stats"), "{line}");
    }
}
