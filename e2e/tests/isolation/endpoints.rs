//! A Service of a tenant resolves to Envoy's own machine, or to the metadata service of its cloud.

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{ApiServer, Lockgate, Source, Target};

use super::site::Site;

/// Formats an EndpointSlice of the Service `shop`.
fn slice(name: &str, family: &str, addresses: &[&str]) -> String {
    let endpoints: String = addresses.iter().map(|address| format!("  - {{ addresses: ['{address}'] }}\n")).collect();
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}\n  namespace: default\n  labels: {{ \
         kubernetes.io/service-name: shop }}\naddressType: {family}\nports: [{{ name: http, port: 80 }}]\nendpoints:\n{endpoints}"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn endpoints_of_a_tenant_lead_to_other_hosts_alone() {
    let server = ApiServer::start().await;
    // The API server itself rejects loopback and link-local addresses, and accepts these.
    let shop = [
        ingress_class(),
        ingress("shop", "shop.test", "shop", None),
        service("shop", "", &["10.0.0.1:80".parse().expect("an address")]),
        slice("v6", "IPv6", &["fd00:ec2::254", "64:ff9b::a9fe:a9fe", "fd00::7"]),
        slice("v4", "IPv4", &["100.100.100.200", "10.0.0.2"]),
    ];
    server.apply(&documents(&shop)).await;
    let source = Source::Kubeconfig(server.kubeconfig("admin"));
    let lockgate = Lockgate::start(&source, &["--leader-election", "off"]).await;
    for (slice, field, address) in [
        ("v6", "endpoints[0].addresses[0]", "fd00:ec2::254"),
        ("v6", "endpoints[1].addresses[0]", "64:ff9b::a9fe:a9fe"),
        ("v4", "endpoints[0].addresses[0]", "100.100.100.200"),
    ] {
        let line = lockgate.logged(&["EndpointNotValid", &format!("name={slice}"), field, address]).await;
        assert!(line.contains("endpoint left out"), "{line}");
    }
    let page = lockgate.get("/debug/resources?type=ClusterLoadAssignment&name=default/shop/http").await.text();
    for (address, served) in [
        ("10.0.0.1", true),
        ("10.0.0.2", true),
        ("fd00::7", true),
        ("fd00:ec2", false),
        ("100.100", false),
        ("64:ff9b", false),
    ] {
        assert_eq!(page.contains(address), served, "{address}: {page}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_external_name_does_not_lead_to_the_machine_of_envoy() {
    let names = [
        "localhost",
        "LOCALHOST.",
        "a.localhost",
        "ip6-localhost",
        "localhost.localdomain",
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "169.254.169.254",
        "2852039166",
        "metadata.google.internal",
        "::1",
        "::ffff:169.254.169.254",
    ];
    let mut objects = Vec::new();
    for (i, name) in names.iter().enumerate() {
        objects.push(format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{ name: external-{i}, namespace: default }}\nspec: {{ type: ExternalName, \
             externalName: '{name}', ports: [{{ name: http, port: 80 }}] }}\n"
        ));
        objects.push(ingress(&format!("external-{i}"), &format!("external-{i}.test"), &format!("external-{i}"), None));
    }
    let site = Site::with_objects("externalNames: { allow: true, clusterLocal: true }\n", &objects).await;
    for (i, name) in names.iter().enumerate() {
        let field = "spec.rules[0].http.paths[0].backend.service.name";
        let line = site.lockgate.logged(&["ExternalNameNotAllowed", &format!("name=external-{i} "), field]).await;
        assert!(line.contains(name) && line.contains("answered 503"), "{line}");
        let answer = Target::http(site.lockgate.http, &format!("external-{i}.test")).get("/").await.expect("an answer");
        assert_eq!(answer.status, 503, "{name}");
    }
}
