//! The same YAML from a directory and from a real API server produces the same resources, byte for byte.

use std::collections::BTreeMap;

use e2e::manifests::{documents, ingress, ingress_class};
use e2e::{ApiServer, Authority, Lockgate, Manifests, Source, wait_until};

/// Returns an object of every kind. Fields with defaults of the API server are omitted where YAML permits it.
fn everything() -> String {
    let pair = Authority::new().issue(&["shop.test", "*.wild.test"]);
    documents(&[
        "apiVersion: v1\nkind: Namespace\nmetadata: { name: shop }\n".into(),
        ingress_class(),
        "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: { name: other }\nspec: { controller: example.org/other }\n"
            .into(),
        pair.secret("shop", "cert"),
        pair.secret("default", "cert"),
        include_str!("same_bytes.yaml").into(),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_and_an_api_server_give_the_same_resources() {
    let yaml = everything();
    let manifests = Manifests::new();
    manifests.write("everything.yaml", &yaml);
    let server = ApiServer::start().await;
    server.apply(&yaml).await;
    // Its uid identifies the installation.
    let cluster = server.kubectl(&["get", "namespace", "kube-system", "--output", "yaml"], "").await;
    manifests.write("cluster.yaml", &cluster);

    // The listeners keep their ports. Nothing listens on them in this test.
    let flags = ["--http-port", "8080", "--https-port", "8443", "--stats-port", "8002"];
    let offline = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let online = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &flags).await;
    let first = same(&offline, &online).await;
    for (name, version) in &first {
        println!("{version} {name}");
    }
    for kind in
        ["Listener", "RouteConfiguration", "ScopedRouteConfiguration", "Cluster", "ClusterLoadAssignment", "Secret"]
    {
        assert!(first.keys().any(|name| name.starts_with(&format!("{kind} "))), "no {kind} to compare");
    }

    // Changed, new, and deleted objects, by a watch and by inotify.
    let edited = yaml.replace("connect-timeout: 3s", "connect-timeout: 4s").replace("zone: b", "zone: c");
    let late = ingress("late", "late.test", "headless", None).replace("name: http", "name: grpc");
    let (kept, fallback) = edited.split_at(edited.rfind("---\n").expect("several documents"));
    assert!(fallback.contains("name: fallback"), "{fallback}");
    let edited = documents(&[kept.to_owned(), late]);
    manifests.write("everything.yaml", &edited);
    server.apply(&edited).await;
    server.kubectl(&["delete", "ingress", "fallback", "--namespace", "shop"], "").await;
    let time = wait_until("the change, and the same, from both", async || {
        let (offline, online) = (offline.resources().await, online.resources().await);
        let of = |all: &BTreeMap<String, String>, start: &str| {
            all.iter()
                .filter(|(name, _)| name.starts_with(start))
                .map(|(_, version)| version.clone())
                .collect::<Vec<_>>()
        };
        let changed =
            ["Cluster shop/cart/http", "ClusterLoadAssignment shop/cart/http", "ScopedRouteConfiguration http/"]
                .iter()
                .all(|name| of(&offline, name) != of(&first, name));
        changed && offline == online
    })
    .await;
    println!("the same again {} ms after a change of both", time.as_millis());
}

/// Waits until both have the same resources, and returns them.
async fn same(offline: &Lockgate, online: &Lockgate) -> BTreeMap<String, String> {
    let (offline, online) = (offline.resources().await, online.resources().await);
    let different: Vec<_> = offline.iter().filter(|(name, version)| online.get(*name) != Some(*version)).collect();
    assert!(different.is_empty(), "another version from the API server: {different:?}\n{online:?}");
    assert_eq!(offline.len(), online.len(), "{online:?}");
    offline
}
