//! The same YAML, from a directory and from a real API server, becomes the same resources, byte for byte.

use e2e::manifests::{documents, ingress_class};
use e2e::{ApiServer, Authority, Lockgate, Manifests, Source};

/// Every kind of object that is read, with the fields that an API server fills in left out where YAML may leave them out.
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

    // The listeners hold their ports; nothing listens there in this test.
    let flags = ["--http-port", "8080", "--https-port", "8443", "--stats-port", "8002"];
    let offline = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let online = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &flags).await;
    let (offline, online) = (offline.resources().await, online.resources().await);
    for (name, version) in &offline {
        println!("{version} {name}");
    }
    for kind in ["Listener", "RouteConfiguration", "Cluster", "ClusterLoadAssignment", "Secret"] {
        assert!(offline.keys().any(|name| name.starts_with(&format!("{kind} "))), "no {kind} to compare");
    }
    let different: Vec<_> = offline.iter().filter(|(name, version)| online.get(*name) != Some(*version)).collect();
    assert!(different.is_empty(), "another version from the API server: {different:?}");
    assert_eq!(offline.len(), online.len(), "{online:?}");
}
