//! The namespaces whose HTTPProxies may define hosts, at a real API server.

use e2e::manifests::{documents, service};
use e2e::{ApiServer, Envoy, Lockgate, Mode, wait_until};

use super::get;
use super::http_proxy::DEFINITIONS;

const PROXIES: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: root, namespace: default }
spec: { virtualhost: { fqdn: a.test }, routes: [{ services: [{ name: a, port: 80 }] }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: included, namespace: default }
spec: { virtualhost: { fqdn: b.test }, includes: [{ name: none }] }
";

fn settings(namespaces: &str) -> String {
    format!(
        "xds: {{ address: '127.0.0.1:XDS' }}\nadmin: {{ address: '127.0.0.1:ADMIN' }}\nleaderElection: {{ enabled: true }}\n\
         listeners: {{ http: {{ port: HTTP_PORT }}, https: {{ port: HTTPS_PORT }}, stats: {{ port: STATS }} }}\n\
         ingress: {{ withoutClass: true }}\nhttpProxy: {{ rootNamespaces: {namespaces} }}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_listed_namespaces_define_hosts() {
    let server = ApiServer::start().await;
    server.apply(DEFINITIONS).await;
    server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
    let a = service("a", "", &["192.0.2.1:8080".parse().expect("an address")]);
    server.apply(&documents(&[a, PROXIES.to_owned()])).await;
    let kubeconfig = server.kubeconfig("admin");
    let source = ["--kubeconfig", kubeconfig.to_str().expect("a path in UTF-8")];
    let mut lockgate = Lockgate::launch_by_file(&source, &settings("[edge]"));
    lockgate.wait_ready().await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let reason = async |name: &str| {
        let proxy = get(&server, &["httpproxy", name]).await;
        proxy["status"]["conditions"][0]["errors"][0]["reason"].as_str().unwrap_or("none").to_owned()
    };
    let current = async |name: &str| get(&server, &["httpproxy", name]).await["status"]["currentStatus"].clone();
    for name in ["root", "included"] {
        wait_until(name, async || reason(name).await == "RootProxyNotAllowedInNamespace").await;
    }
    lockgate.write(&settings("[edge, default]"));
    wait_until("a valid root", async || current("root").await == "valid").await;
    assert_eq!(reason("included").await, "IncludeNotFound");
}
