//! Settings that reference an object, with a real API server: the object and its changes take effect.

use std::collections::BTreeSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::certificates::Pair;
use e2e::manifests::{documents, ingress, service};
use e2e::process::repository;
use e2e::{ApiServer, Authority, Envoy, Lockgate, Mode, Target, ports, wait_until};
use serde_json::{Value, json};

use super::HOST;

/// The settings that reference an object, and the test with a real API server that shows their effect.
const TESTED: [(&str, &str); 14] = [
    ("ingress.controllerName", "here"),
    ("ingress.classNames", "here"),
    ("gateway.controller", "status"),
    ("httpProxy.rootNamespaces", "status"),
    ("status.envoyService", "here"),
    ("listeners.stats.tls.secret", "here"),
    ("listeners.stats.tls.clientCa", "here"),
    ("tls.defaultSecret", "here"),
    ("tls.fallbackSecret", "here"),
    ("upstream.clientCertificate", "here"),
    ("watch.namespaces", "process_settings"),
    ("xds.secrets", "process_settings"),
    ("xds.service", "process_settings"),
    ("leaderElection.lease", "process_settings"),
];

/// The values in `docs/settings.md` that reference an object.
const TYPES: [&str; 5] = [
    "`namespace/name`",
    "name of an object",
    "name of a controller",
    "list of name of a namespace",
    "list of name of an IngressClass",
];

#[test]
fn every_setting_that_names_an_object_is_tested() {
    let text = std::fs::read_to_string(repository().join("docs/settings.md")).expect("the settings");
    let rows = text.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let named: BTreeSet<&str> =
        rows.filter(|(_, rest)| TYPES.iter().any(|kind| rest.starts_with(kind))).map(|(key, _)| key).collect();
    assert_eq!(named, TESTED.iter().map(|(key, _)| *key).collect());
}

const NAMESPACE: &str = "{ apiVersion: v1, kind: Namespace, metadata: { name: edge } }\n";
const CLASS: &str = "{ apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: { name: edge }, \
                     spec: { controller: example.com/edge } }\n";
const ENVOY_SERVICE: &str = "{ apiVersion: v1, kind: Service, metadata: { name: envoy, namespace: edge }, \
                             spec: { type: LoadBalancer, ports: [{ port: 80 }] } }\n";

fn settings(stats_tls: u16) -> String {
    format!(
        "xds: {{ address: '127.0.0.1:XDS' }}\nadmin: {{ address: '127.0.0.1:ADMIN' }}\n\
         leaderElection: {{ enabled: true }}\n\
         ingress: {{ controllerName: example.com/edge, classNames: [named] }}\n\
         status: {{ envoyService: edge/envoy }}\n\
         tls: {{ defaultSecret: edge/default-tls }}\n\
         upstream: {{ clientCertificate: edge/client-tls }}\n\
         listeners:\n  http: {{ port: HTTP_PORT }}\n  https: {{ port: HTTPS_PORT }}\n  \
         stats: {{ port: STATS, tls: {{ port: {stats_tls}, secret: edge/stats-tls, clientCa: edge/scrapers }} }}\n"
    )
}

/// Formats an Ingress of a class for a host behind TLS without its own Secret.
fn of_class(name: &str, class: &str, host: &str) -> String {
    let spec = format!("spec:\n  ingressClassName: {class}\n  tls: [{{ hosts: [{host}] }}]\n");
    ingress(name, host, "shop", None).replace("spec:\n", &spec)
}

/// Formats all objects that the settings reference, of one edition.
struct Edition {
    default: Pair,
    stats: Pair,
    client: Pair,
    scrapers: Authority,
    address: &'static str,
}

impl Edition {
    async fn apply(server: &ApiServer, authority: &Authority, address: &'static str) -> Self {
        let issue = || authority.issue(&[HOST, "named.test", "stats.test"]);
        let this = Self { default: issue(), stats: issue(), client: issue(), scrapers: Authority::new(), address };
        let secrets = [
            this.default.secret("edge", "default-tls"),
            this.stats.secret("edge", "stats-tls"),
            this.client.secret("edge", "client-tls"),
            this.scrapers.secret("edge", "scrapers"),
            ENVOY_SERVICE.to_owned(),
        ];
        server.apply(&documents(&secrets)).await;
        let status = json!({ "status": { "loadBalancer": { "ingress": [{ "ip": address }] } } }).to_string();
        let patch = ["patch", "service", "envoy", "--namespace=edge", "--subresource=status", "--type=merge", "-p"];
        server.kubectl(&[&patch[..], &[&status]].concat(), "").await;
        this
    }

    /// Asserts whether Envoy presents the certificate of `upstream.clientCertificate` to the backend.
    async fn is_presented(&self, envoy: &Envoy) -> bool {
        let uses = |cluster: &Value| cluster.to_string().contains("edge/client-tls");
        let chain = BASE64_STANDARD.encode(&self.client.certificate);
        envoy.config_dump("dynamic_active_clusters").await.iter().any(uses)
            && envoy
                .config_dump("dynamic_active_secrets")
                .await
                .iter()
                .any(|secret| secret.to_string().contains("edge/client-tls") && secret.to_string().contains(&chain))
    }

    /// Asserts for `listeners.stats.tls` that only clients with a certificate of `clientCa` receive the statistics, and
    /// that the server presents the certificate of `secret`.
    async fn assert_protected(&self, anonymous: &Target, authority: &Authority) -> bool {
        let scraper = anonymous.clone().showing(&self.scrapers.issue(&["prometheus"]));
        let shown = scraper.connect().await.is_ok_and(|shown| shown.certificate == Some(self.stats.der.clone()));
        let stranger = anonymous.clone().showing(&authority.issue(&["prometheus"]));
        shown
            && scraper.get("/stats").await.is_ok_and(|answer| answer.status == 200)
            && anonymous.get("/stats").await.is_err()
            && stranger.get("/stats").await.is_err()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_setting_names_takes_effect_and_so_does_its_change() {
    let server = ApiServer::start().await;
    let (authority, stats_tls) = (Authority::new(), ports::free());
    let backend = service(
        "shop",
        "projectcontour.io/upstream-protocol.tls: http",
        &["192.0.2.1:8443".parse().expect("an address")],
    );
    let ingresses = [of_class("shop", "edge", HOST), of_class("named", "named", "named.test")];
    server.apply(&documents(&[NAMESPACE.to_owned(), CLASS.to_owned(), backend, documents(&ingresses)])).await;
    let kubeconfig = server.kubeconfig("admin");
    let source = ["--kubeconfig", kubeconfig.to_str().expect("a path in UTF-8")];
    let mut lockgate = Lockgate::launch_by_file(&source, &settings(stats_tls));
    lockgate.wait_ready().await;
    let envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let anonymous = Target::https(stats_tls, "stats.test", authority.der());
    for address in ["192.0.2.20", "192.0.2.21"] {
        let edition = Edition::apply(&server, &authority, address).await;
        for host in [HOST, "named.test"] {
            let tls = Target::https(lockgate.https, host, authority.der());
            let default = Some(edition.default.der.clone());
            let shown = async || tls.connect().await.is_ok_and(|shown| shown.certificate == default);
            wait_until(&format!("the default certificate for {host}"), shown).await;
        }
        wait_until("the statistics", async || edition.assert_protected(&anonymous, &authority).await).await;
        wait_until("the client certificate", async || edition.is_presented(&envoy).await).await;
        wait_until("the address of the Service", async || {
            let ingress = server.kubectl(&["get", "ingress", "shop", "--output=json"], "").await;
            let ingress: Value = serde_json::from_str(&ingress).expect("JSON of kubectl");
            ingress["status"]["loadBalancer"]["ingress"] == json!([{ "ip": edition.address }])
        })
        .await;
    }
}

/// An HTTPS health check by IP address, and clients with an unknown server name: they can connect, but no host is
/// served.
#[tokio::test(flavor = "multi_thread")]
async fn the_fallback_certificate_is_for_those_whom_nobody_serves_and_leads_nowhere() {
    let server = ApiServer::start().await;
    let authority = Authority::new();
    let [own, fallback] = [HOST, "127.0.0.1"].map(|name| authority.issue(&[name, "nobody.test", "broken.test"]));
    let for_all_hosts = ingress("all", "nobody.test", "shop", None).replace("host: nobody.test", "host: ''");
    let objects = [
        NAMESPACE.to_owned(),
        CLASS.to_owned(),
        // The Service has no endpoints, because the API server accepts no local addresses. Matching requests are
        // answered 503.
        service("shop", "", &[]),
        own.secret("default", "own"),
        ingress("shop", HOST, "shop", Some("own")).replace("spec:\n", "spec:\n  ingressClassName: edge\n"),
        ingress("broken", "broken.test", "shop", Some("none")).replace("spec:\n", "spec:\n  ingressClassName: edge\n"),
        for_all_hosts.replace("spec:\n", "spec:\n  ingressClassName: edge\n"),
    ];
    server.apply(&documents(&objects)).await;
    let kubeconfig = server.kubeconfig("admin");
    let source = ["--kubeconfig", kubeconfig.to_str().expect("a path in UTF-8")];
    let named = settings(0).replace("defaultSecret: edge/default-tls", "fallbackSecret: edge/fallback-tls");
    let mut lockgate = Lockgate::launch_by_file(&source, &named);
    lockgate.wait_ready().await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let over =
        |server_name: &str, host: &str| Target::https(lockgate.https, host, authority.der()).opened_for(server_name);
    let answered = async |server_name: &str, host: &str| -> Option<u16> {
        over(server_name, host).get("/").await.ok().map(|answer| answer.status)
    };
    wait_until("the shop", async || answered(HOST, HOST).await == Some(503)).await;
    let plain = Target::http(lockgate.http, "nobody.test");
    wait_until("the rule for all hosts", async || plain.get("/").await.is_ok_and(|answer| answer.status == 503)).await;
    assert_eq!(answered("127.0.0.1", "127.0.0.1").await, None, "there is no fallback yet");
    server.apply(&fallback.secret("edge", "fallback-tls")).await;
    // A client that connects to an IP address sends no server name.
    wait_until("the fallback", async || answered("127.0.0.1", "127.0.0.1").await == Some(404)).await;
    for server_name in ["127.0.0.1", "nobody.test", "broken.test"] {
        let shown = over(server_name, HOST).connect().await.expect("a connection").certificate;
        assert_eq!(shown, Some(fallback.der.clone()), "{server_name}");
        for host in ["127.0.0.1", "nobody.test", "broken.test", HOST] {
            assert_eq!(answered(server_name, host).await, Some(404), "{host} over a connection for {server_name}");
        }
    }
    let shown = over(HOST, HOST).connect().await.expect("a connection").certificate;
    assert_eq!(shown, Some(own.der.clone()));
    assert_eq!([answered(HOST, HOST).await, answered(HOST, "nobody.test").await], [Some(503), Some(421)]);
}
