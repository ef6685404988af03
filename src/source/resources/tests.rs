#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

fn names(resources: &[Resource]) -> Vec<String> {
    resources.iter().map(|resource| format!("{} {}", resource.kind().short_name(), resource.name())).collect()
}

fn good(text: &str) -> Vec<Resource> {
    let (resources, faults) = parse("a.yaml", text);
    assert!(faults.is_empty(), "{faults:?}");
    resources
}

fn faults(text: &str) -> Vec<String> {
    parse("a.yaml", text).1.iter().map(ToString::to_string).collect()
}

const TWO: &str = r#"
"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
name: cart
type: EDS
eds_cluster_config: {eds_config: {ads: {}, resource_api_version: V3}}
---
"@type": type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment
clusterName: cart
"#;

#[test]
fn a_file_holds_documents_of_any_type() {
    let resources = good(TWO);
    assert_eq!(names(&resources), ["Cluster cart", "ClusterLoadAssignment cart"]);
    assert_eq!(*resources[0].references().endpoints, [Arc::from("cart")]);
    let origin = ObjectRef::new("File", "", "a.yaml");
    assert!(resources.iter().all(|resource| *resource.origins() == [origin.clone()]));
    assert!(good("# nothing\n").is_empty());
}

#[test]
fn json_and_yaml_give_the_same_resources() {
    let json = r#"[
        {"@type": "type.googleapis.com/envoy.config.cluster.v3.Cluster", "name": "cart", "type": "EDS",
         "edsClusterConfig": {"edsConfig": {"ads": {}, "resourceApiVersion": "V3"}}},
        {"@type": "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", "clusterName": "cart"}
    ]"#;
    let versions = |resources: Vec<Resource>| resources.iter().map(Resource::version).collect::<Vec<_>>();
    assert_eq!(versions(good(json)), versions(good(TWO)));
}

#[test]
fn a_discovery_response_is_taken_apart() {
    let text = r#"
version_info: "7"
type_url: type.googleapis.com/envoy.config.cluster.v3.Cluster
resources:
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: a
- name: b
  version: "3"
  ttl: 5s
  aliases: [c]
  resource:
    "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
    name: inner
"#;
    assert_eq!(names(&good(text)), ["Cluster a", "Cluster b"]);
    let typed = format!("\"@type\": type.googleapis.com/envoy.service.discovery.v3.DiscoveryResponse{text}");
    assert_eq!(names(&good(&typed)), ["Cluster a", "Cluster b"]);
}

#[test]
fn d27_a_virtual_host_has_the_name_of_its_resource() {
    let wrapped = |name: &str| {
        format!(
            r#"{{"name": "{name}", "resource": {{"@type": "type.googleapis.com/envoy.config.route.v3.VirtualHost",
            "name": "r/shop", "domains": ["shop.test"]}}}}"#
        )
    };
    assert_eq!(names(&good(&wrapped("r/shop"))), ["VirtualHost r/shop"]);
    let result = faults(&wrapped("r/e"));
    assert_eq!(result, ["document 1, line 1: name: a virtual host has the name of its resource, here \"r/shop\""]);
}

#[test]
fn a_wrapper_gives_a_name_or_keeps_the_inner_one() {
    let text = r#"
"@type": type.googleapis.com/envoy.service.discovery.v3.Resource
name: outer
resource: {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: inner}
---
"@type": type.googleapis.com/envoy.service.discovery.v3.Resource
resource: {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: inner}
---
"@type": type.googleapis.com/envoy.service.discovery.v3.Resource
name: nameless
resource: {"@type": type.googleapis.com/google.protobuf.Duration, value: 5s}
"#;
    assert_eq!(names(&good(text)), ["Cluster outer", "Cluster inner", "Duration nameless"]);
}

#[test]
fn d30_variants_of_a_resource_differ_by_their_constraints() {
    let text = r#"
- resource_name: {name: a, dynamic_parameter_constraints: {constraint: {key: env, value: prod}}}
  resource: {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a}
- resource_name: {name: a, dynamic_parameter_constraints: {constraint: {key: env, value: test}}}
  resource: {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a}
- {"@type": type.googleapis.com/envoy.config.cluster.v3.Cluster, name: a}
"#;
    let resources = good(text);
    let names: Vec<&str> = resources.iter().map(|one| one.name().split('\0').next().unwrap()).collect();
    let kinds: Vec<&str> = resources.iter().map(|one| one.kind().short_name()).collect();
    assert_eq!(names, ["a", "a", "a"]);
    assert_eq!(kinds, ["Cluster#variants", "Cluster#variants", "Cluster"]);
    assert_ne!(resources[0].name(), resources[1].name());
}

#[test]
fn v2_resources_of_version_2_are_those_of_version_3() {
    let text = r#"
"@type": type.googleapis.com/envoy.api.v2.Cluster
name: a
transport_socket:
  name: tls
  typed_config: {"@type": type.googleapis.com/envoy.api.v2.auth.UpstreamTlsContext, sni: a.test}
"#;
    let new = text
        .replace("envoy.api.v2.Cluster", "envoy.config.cluster.v3.Cluster")
        .replace("envoy.api.v2.auth", "envoy.extensions.transport_sockets.tls.v3");
    assert_eq!(good(text), good(&new));
}

#[test]
fn a_fault_names_document_line_and_field() {
    let text = r#"
"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: a
---
"@type": type.googleapis.com/envoy.config.route.v3.RouteConfiguration
name: b
virtual_hosts:
- name: shop
  domains: ["*"]
  routes:
  - match: {prefix: /}
    route: {cluster: x}
  - match:
      prefix: 5
    route: {cluster: x}
---
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  name: fine
- "@type": type.googleapis.com/envoy.config.cluster.v3.Cluster
  nam: wrong
---
a: [b
"#;
    let (resources, _) = parse("routes.yaml", text);
    assert_eq!(names(&resources), ["RouteConfiguration a", "Cluster fine"]);
    let faults = faults(text);
    assert_eq!(
        faults[..2],
        [
            "document 2, line 14: virtual_hosts[0].routes[1].match.prefix: expected text, found 5: quote it",
            "document 3, line 20: [1].nam: envoy.config.cluster.v3.Cluster has no such field; perhaps \"name\" is meant",
        ]
    );
    assert!(faults[2].starts_with("document 4, line 2"), "{}", faults[2]);
    assert_eq!(faults.len(), 3);
}

#[test]
fn documents_without_a_resource_are_faults() {
    let fault = |text: &str| faults(text).remove(0);
    assert_eq!(fault("a: 1"), "document 1, line 1: \"@type\" is missing");
    assert_eq!(fault("just text"), "document 1, line 1: expected an object with \"@type\", found \"just text\"");
    assert_eq!(
        fault("apiVersion: v1\nkind: Service\n"),
        "document 1, line 1: this is a Kubernetes object: a directory of resources holds Envoy's, with \"@type\""
    );
    assert_eq!(
        fault("\n\"@type\": type.googleapis.com/envoy.config.cluster.v3.Cluster\n"),
        "document 1, line 2: name: Cluster needs a name"
    );
    assert_eq!(
        fault("\"@type\": type.googleapis.com/google.protobuf.Duration\nvalue: 1s\n"),
        "document 1, line 1: google.protobuf.Duration has no name of its own: wrap it in envoy.service.discovery.v3.Resource"
    );
    assert_eq!(
        fault("\"@type\": type.googleapis.com/envoy.service.discovery.v3.Resource\nname: x\n"),
        "document 1, line 1: resource: a wrapper needs a resource"
    );
    assert_eq!(
        fault(&TWO.replace("config.endpoint.v3.ClusterLoadAssignment", "no.Such")),
        "document 2, line 7: @type: unknown type \"type.googleapis.com/envoy.no.Such\""
    );
}

#[test]
fn a_resource_given_twice_is_a_fault_of_the_second() {
    let (resources, faults) = parse("a.yaml", &format!("{TWO}---{TWO}"));
    assert_eq!(names(&resources), ["Cluster cart", "ClusterLoadAssignment cart"]);
    let faults: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        faults,
        [
            "document 3, line 10: Cluster \"cart\" is already given in document 1, line 2",
            "document 4, line 15: ClusterLoadAssignment \"cart\" is already given in document 2, line 7",
        ]
    );
}

proptest! {
    #[test]
    fn no_damage_to_a_file_makes_it_panic(at in 0..TWO.len(), len in 0usize..20, put in "[-:{}\\[\\]&*\"# \n0-9a-z]{0,8}") {
        let end = (at + len).min(TWO.len());
        let text = format!("{}{put}{}", &TWO[..at], &TWO[end..]);
        let (resources, faults) = parse("a.yaml", &text);
        prop_assert!(resources.len() + faults.len() > 0 || documents(&text).next().is_none());
    }
}
