//! HTTP/3 to endpoints: a second Envoy is the endpoint, and returns the version of HTTP in which a request arrived.

use e2e::certificates::Pair;
use e2e::client::Answer;
use e2e::load::Plan;
use e2e::manifests::{documents, gateway, ingress_class};
use e2e::{
    Authority, Envoy, Load, Lockgate, Manifests, Mode, PATIENCE, Source, Target, ports, wait_everywhere, wait_until,
};
use tokio::time::timeout;

use super::site::policy;

/// The host of the route.
const HOST: &str = "shop.test";
/// The host whose decrypted bytes an HTTPProxy sends to the Service.
const BYTES: &str = "bytes.test";
/// The name in the certificate of the endpoint.
const NAME: &str = "shop.internal.test";

/// All running programs. The HTTPRoute `shop` leads to the port 443 of the Service `shop`, and its endpoint listens on TCP and on UDP.
struct Site {
    manifests: Manifests,
    _config: Manifests,
    lockgate: Lockgate,
    envoy: Envoy,
    endpoint: Envoy,
    authority: Authority,
    port: u16,
}

impl Site {
    /// Starts all programs with these settings, and waits until requests reach the endpoint over TCP.
    async fn open(mode: Mode, settings: &str) -> Self {
        let authority = Authority::new();
        let (port, udp, admin) = (ports::free(), ports::free(), ports::free());
        let endpoint = bootstrap(admin, udp, &authority.issue(&[NAME]), &authority.pem());
        let mut endpoint = Envoy::launch_with(&endpoint, admin);
        endpoint.wait_ready().await;
        let manifests = Manifests::new();
        let client = authority.issue(&["envoy.test", BYTES]).secret("default", "client");
        manifests.write("base.yaml", &documents(&[ingress_class(), routes(port), service(udp), client]));
        manifests.write("tls.yaml", &tls_policy(&authority, NAME));
        let config = Manifests::new();
        config.write("lockgate.yaml", &format!("upstream: {{ clientCertificate: default/client, {settings} }}\ntenants: {{ activeHealthChecks: true }}\n"));
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let envoy = Envoy::start(&lockgate, mode).await;
        let site = Self { manifests, _config: config, lockgate, envoy, endpoint, authority, port };
        site.served_over("HTTP/1.1").await;
        site
    }

    fn target(&self) -> Target {
        Target::http(self.port, HOST)
    }

    async fn answer(&self) -> Option<Answer> {
        self.target().get("/").await.ok()
    }

    /// Waits until every request reaches the endpoint in this version of HTTP.
    async fn served_over(&self, version: &str) {
        wait_everywhere(&format!("requests over {version}"), async || {
            self.answer().await.is_some_and(|answer| answer.status == 200 && answer.header("x-version") == version)
        })
        .await;
    }

    async fn status(&self, status: u16) {
        wait_everywhere(&format!("the status {status}"), async || {
            self.answer().await.is_some_and(|answer| answer.status == status)
        })
        .await;
    }

    /// Sends twenty requests at once, each of which must be answered.
    async fn burst(&self) {
        let target = self.target();
        let requests = (0..20).map(|_| {
            let target = target.clone();
            tokio::spawn(async move { timeout(PATIENCE, target.get("/")).await })
        });
        for request in requests.collect::<Vec<_>>() {
            let answer = request.await.expect("a task").expect("an answer in time").expect("an answer");
            assert_eq!(answer.status, 200);
        }
    }

    /// Returns the number of requests that the endpoint has received over HTTP/3.
    async fn requests(&self) -> u64 {
        self.endpoint.stat("http.HTTP3.downstream_rq_total").await
    }

    async fn stat(&self, name: &str) -> u64 {
        self.envoy.stats(&format!("^cluster.default_shop_https.*{name}$")).await.values().sum()
    }
}

/// Formats the bootstrap of the endpoint, which listens on TCP and on UDP, and requires a certificate of its clients.
fn bootstrap(admin: u16, port: u16, pair: &Pair, authority: &str) -> String {
    let tls = format!(
        "{{ require_client_certificate: true, common_tls_context: {{ \
         tls_certificates: [{{ certificate_chain: {{ inline_string: {} }}, private_key: {{ inline_string: {} }} }}], \
         validation_context: {{ trusted_ca: {{ inline_string: {} }} }} }} }}",
        text(&pair.certificate),
        text(&pair.key),
        text(authority)
    );
    let extensions = "type.googleapis.com/envoy.extensions";
    let header = |name: &str, value: &str| format!("{{ header: {{ key: {name}, value: \"{value}\" }} }}");
    let manager = |codec: &str| {
        format!(
            "{{ name: http, typed_config: {{ \"@type\": {extensions}.filters.network.http_connection_manager.v3.HttpConnectionManager, \
             stat_prefix: {codec}, codec_type: {codec}, http_filters: [{{ name: router, typed_config: {{ \
             \"@type\": {extensions}.filters.http.router.v3.Router }} }}], route_config: {{ virtual_hosts: [{{ name: all, \
             domains: [\"*\"], routes: [{{ match: {{ prefix: / }}, direct_response: {{ status: 200 }}, \
             response_headers_to_add: [{}, {}, {}] }}] }}] }} }} }}",
            header("x-version", "%PROTOCOL%"),
            header("x-server-name", "%REQUESTED_SERVER_NAME%"),
            header("x-client", "%DOWNSTREAM_PEER_DNS_SAN%"),
        )
    };
    let listener = |name: &str, protocol: &str, more: &str, socket: &str, codec: &str| {
        format!(
            "  - {{ name: {name}, address: {{ socket_address: {{ address: 127.0.0.1, port_value: {port}, protocol: {protocol} }} }}, {more} \
             filter_chains: [{{ transport_socket: {socket}, filters: [{}] }}] }}\n",
            manager(codec)
        )
    };
    let over_tcp = format!(
        "{{ name: tls, typed_config: {{ \"@type\": {extensions}.transport_sockets.tls.v3.DownstreamTlsContext, {} }}",
        tls.trim_start_matches('{')
    );
    let over_udp = format!(
        "{{ name: quic, typed_config: {{ \"@type\": {extensions}.transport_sockets.quic.v3.QuicDownstreamTransport, \
         downstream_tls_context: {tls} }} }}"
    );
    format!(
        "admin: {{ address: {{ socket_address: {{ address: 127.0.0.1, port_value: {admin} }} }} }}\n\
         layered_runtime: {{ layers: [{{ name: static, static_layer: {{ \
         envoy.reloadable_features.quic_mtls_server_enabled: true }} }}] }}\n\
         static_resources:\n  listeners:\n{}{}",
        listener("tcp", "TCP", "", &over_tcp, "AUTO"),
        listener("udp", "UDP", "udp_listener_config: { quic_options: {} },", &over_udp, "HTTP3"),
    )
}

/// Quotes a text.
fn text(text: &str) -> String {
    serde_json::to_string(text).expect("a JSON string")
}

/// Formats the Gateway with this port, and the routes.
fn routes(port: u16) -> String {
    format!(
        "{}---
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {{ name: shop, namespace: default }}
spec:
  parentRefs: [{{ name: public }}]
  hostnames: [{HOST}]
  rules: [{{ backendRefs: [{{ name: shop, port: 443 }}] }}]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: {{ name: bytes, namespace: default }}
spec:
  virtualhost: {{ fqdn: {BYTES}, tls: {{ secretName: client }} }}
  tcpproxy: {{ services: [{{ name: shop, port: 443, protocol: tls }}] }}
",
        gateway(port, "HTTP")
    )
}

/// Formats the Service with its endpoint.
fn service(port: u16) -> String {
    format!(
        "apiVersion: v1
kind: Service
metadata: {{ name: shop, namespace: default }}
spec: {{ ports: [{{ name: https, port: 443 }}] }}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{ name: shop, namespace: default, labels: {{ kubernetes.io/service-name: shop }} }}
addressType: IPv4
ports: [{{ name: https, port: {port} }}]
endpoints: [{{ addresses: [127.0.0.1] }}]
"
    )
}

/// Formats the BackendTLSPolicy of the Service: the endpoint must have a certificate of the authority for this name.
fn tls_policy(authority: &Authority, name: &str) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: BackendTLSPolicy
metadata: {{ name: shop, namespace: default }}
spec:
  targetRefs: [{{ group: \"\", kind: Service, name: shop }}]
  validation: {{ caCertificateRefs: [{{ group: \"\", kind: ConfigMap, name: authority }}], hostname: {name} }}
---
apiVersion: v1
kind: ConfigMap
metadata: {{ name: authority, namespace: default }}
data: {{ ca.crt: {} }}
",
        text(&authority.pem())
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn http3_to_endpoints_comes_and_goes_without_a_failed_request() {
    let site = Site::open(Mode::Delta, "").await;
    let load = Load::start(Plan { rate: 200, connections: 10, ..Plan::new(site.target(), "/") }).await;
    load.answers(200).await;
    for _ in 0..2 {
        site.manifests.write("policy.yaml", &policy("http3: {}"));
        site.served_over("HTTP/3").await;
        let answer = site.answer().await.expect("an answer");
        assert_eq!((answer.header("x-server-name"), answer.header("x-client")), (NAME, "envoy.test,bytes.test"));
        load.answers(200).await;
        site.manifests.remove("policy.yaml");
        site.served_over("HTTP/1.1").await;
        load.answers(200).await;
    }
    let report = load.stop().await;
    assert_eq!(report.failed(), 0, "{:?}", report.failures);
    assert!(site.requests().await > 400);
}

/// Envoy reads each type of resources by state of the world.
#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_with_a_wrong_certificate_receives_no_request_over_http3() {
    let site = Site::open(Mode::Sotw, "").await;
    site.manifests.write("policy.yaml", &policy("http3: { enabled: true }"));
    site.served_over("HTTP/3").await;
    site.manifests.write("tls.yaml", &tls_policy(&site.authority, "other.internal.test"));
    site.status(503).await;
    // Another ConfigMap, because new content of the same one does not change open connections.
    let stranger = tls_policy(&Authority::new(), NAME).replace("name: authority", "name: stranger");
    site.manifests.write("tls.yaml", &stranger);
    site.status(503).await;
    let before = site.requests().await;
    site.status(503).await;
    assert_eq!(site.requests().await, before);
    site.manifests.write("tls.yaml", &tls_policy(&site.authority, NAME));
    site.served_over("HTTP/3").await;
}

/// The setting for the requests of a connection would block a cluster with HTTP/3.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_that_nobody_verifies_have_http3_by_name_and_health_checks_over_tcp() {
    let site = Site::open(Mode::Delta, "maxRequestsPerConnection: 2").await;
    let named = "name: shop, namespace: default";
    let annotated = format!("{named}, annotations: {{ projectcontour.io/upstream-protocol.h2: https }}");
    let service = |metadata: &str| format!("kind: Service\nmetadata: {{ {metadata} }}");
    site.manifests.replace("base.yaml", &service(named), &service(&annotated));
    site.manifests.remove("tls.yaml");
    site.served_over("HTTP/2").await;
    let check = "healthCheck: { http: { path: /ready }, interval: 1s }";
    let http3 = |name: &str, more: &str| policy(&format!("http3: {{ serverName: {name} }}\n  {more}"));
    site.manifests.write("policy.yaml", &http3(NAME, check));
    site.served_over("HTTP/3").await;
    assert_eq!(site.answer().await.expect("an answer").header("x-server-name"), NAME);
    wait_until("a health check", async || site.stat("health_check.success").await > 1).await;
    assert_eq!(site.stat("health_check.failure").await, 0);
    for _ in 0..20 {
        site.burst().await;
    }
    // Connections without HTTP are sent over TCP.
    let bytes = Target::https(site.lockgate.https, BYTES, site.authority.der());
    wait_everywhere("an answer over decrypted bytes", async || {
        bytes.get("/").await.is_ok_and(|answer| answer.header("x-version") == "HTTP/1.1")
    })
    .await;
    // PROXY headers are not possible over QUIC: requests are sent over TCP, and this endpoint does not expect the headers.
    for more in [http3(NAME, "proxyProtocol: V2"), http3("other.internal.test", "")] {
        site.manifests.write("policy.yaml", &more);
        site.status(503).await;
        let before = site.requests().await;
        site.status(503).await;
        assert_eq!(site.requests().await, before);
        site.manifests.write("policy.yaml", &http3(NAME, ""));
        site.served_over("HTTP/3").await;
    }
}
