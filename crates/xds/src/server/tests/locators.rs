//! D30: variants of a resource, selected by parameters that the client sends with the name.

use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use envoy_types::pb::envoy::service::discovery::v3::dynamic_parameter_constraints as constraints_v3;
use prost::Message;

use super::grpc::lab::*;
use crate::protocol::tests::harness::*;
use crate::snapshot::{Lease, Resource, ResourceType, Update};

type Constraints = discovery_v3::DynamicParameterConstraints;

fn single(key: &str, value: Option<&str>) -> Constraints {
    use constraints_v3::single_constraint::{ConstraintType, Exists};
    let constraint_type = match value {
        Some(value) => ConstraintType::Value(value.into()),
        None => ConstraintType::Exists(Exists {}),
    };
    let single = constraints_v3::SingleConstraint { key: key.into(), constraint_type: Some(constraint_type) };
    Constraints { r#type: Some(constraints_v3::Type::Constraint(single)) }
}

fn is(key: &str, value: &str) -> Constraints {
    single(key, Some(value))
}

fn not(constraints: Constraints) -> Constraints {
    Constraints { r#type: Some(constraints_v3::Type::NotConstraints(Box::new(constraints))) }
}

fn all<const N: usize>(constraints: [Constraints; N]) -> Constraints {
    let list = constraints_v3::ConstraintList { constraints: constraints.into() };
    Constraints { r#type: Some(constraints_v3::Type::AndConstraints(list)) }
}

fn any<const N: usize>(constraints: [Constraints; N]) -> Constraints {
    let list = constraints_v3::ConstraintList { constraints: constraints.into() };
    Constraints { r#type: Some(constraints_v3::Type::OrConstraints(list)) }
}

/// Returns a variant of the cluster `name` with these `constraints`. `seconds` distinguishes its content.
fn variant(name: &str, constraints: &Constraints, seconds: i64) -> Resource {
    let lease = Lease { constraints: Some(constraints.encode_to_vec().into()), ..Lease::default() };
    Resource::with_lease(CLUSTER, name, &cluster_at(name, seconds).message(), lease, Vec::new())
}

fn locator(name: &str, parameters: &[(&str, &str)]) -> discovery_v3::ResourceLocator {
    let parameters = parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    discovery_v3::ResourceLocator { name: name.into(), dynamic_parameters: parameters.collect() }
}

fn locate(locators: &[discovery_v3::ResourceLocator]) -> discovery_v3::DeltaDiscoveryRequest {
    discovery_v3::DeltaDiscoveryRequest { resource_locators_subscribe: locators.to_vec(), ..differ(CLUSTER, &[]) }
}

/// Returns the name, constraints, and content of each resource in a response.
fn set(response: &discovery_v3::DeltaDiscoveryResponse) -> Vec<(String, Option<Constraints>, i64)> {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;
    let one = |resource: &discovery_v3::Resource| {
        let any = resource.resource.clone().unwrap();
        assert_eq!(any.type_url, CLUSTER.url());
        let seconds = Cluster::decode(&*any.value).unwrap().connect_timeout.unwrap().seconds;
        let (name, constraints) = match resource.resource_name.clone() {
            Some(name) => (name.name, name.dynamic_parameter_constraints),
            None => (resource.name.clone(), None),
        };
        assert!(resource.name.is_empty() != resource.resource_name.is_none(), "only one of both names");
        (name, constraints, seconds)
    };
    response.resources.iter().map(one).collect()
}

#[tokio::test]
async fn d30_a_client_receives_the_best_matching_variant() {
    let (prod, test) = (is("env", "prod"), is("env", "test"));
    let prod_v1 = all([is("env", "prod"), is("version", "v1")]);
    let server = Server::start([
        variant("a", &prod, 1),
        variant("a", &test, 2),
        variant("a", &prod_v1, 3),
        cluster_at("a", 4),
        variant("ab", &prod, 5),
    ])
    .await;
    for (parameters, constraints, seconds) in [
        (&[("env", "prod")][..], Some(&prod), 1),
        (&[("env", "test"), ("color", "red")], Some(&test), 2),
        (&[("env", "prod"), ("version", "v1")], Some(&prod_v1), 3),
        (&[("env", "prod"), ("version", "v2")], Some(&prod), 1),
        (&[("env", "qa")], None, 4),
        (&[], None, 4),
    ] {
        let mut client = server.delta().await;
        client.send(locate(&[locator("a", parameters)])).await;
        let response = client.next().await;
        assert_eq!(response.type_url, CLUSTER.url());
        assert_eq!(set(&response), [("a".to_owned(), constraints.cloned(), seconds)], "{parameters:?}");
        client.ack(&response).await;
        assert!(client.is_silent().await, "an ACK is no wildcard");
    }
}

#[tokio::test]
async fn d30_constraints_of_every_form() {
    let forms = [
        (any([is("env", "prod"), is("env", "qa")]), &[("env", "qa")][..]),
        (all([is("env", "test"), not(single("version", None))]), &[("env", "test")]),
        (all([is("env", "test"), single("version", None)]), &[("env", "test"), ("version", "")]),
        (not(single("env", None)), &[]),
    ];
    let [one, two, three, four] = [0, 1, 2, 3].map(|at| variant("a", &forms[at].0, at as i64));
    let server = Server::start([one, two, three, four]).await;
    for (at, (constraints, parameters)) in forms.iter().enumerate() {
        let mut client = server.delta().await;
        client.send(locate(&[locator("a", parameters)])).await;
        assert_eq!(set(&client.next().await), [("a".to_owned(), Some(constraints.clone()), at as i64)]);
    }
}

#[tokio::test]
async fn d30_removal_names_the_variant_in_the_same_response_as_its_successor() {
    let (prod, v1) = (is("env", "prod"), all([is("env", "prod"), is("version", "v1")]));
    let server = Server::start([variant("a", &prod, 1)]).await;
    let old = server.resource(CLUSTER.variants(), variant("a", &prod, 1).name());
    let mut client = server.delta().await;
    client.send(locate(&[locator("a", &[("env", "prod"), ("version", "v1")]), locator("nx", &[])])).await;
    let first = client.next().await;
    assert_eq!(set(&first), [("a".to_owned(), Some(prod.clone()), 1)]);
    assert_eq!((first.removed_resources.as_slice(), first.removed_resource_names.len()), (&["nx".to_owned()][..], 0));
    client.ack(&first).await;

    let remove = vec![(CLUSTER.variants(), old.name().clone())];
    server.store.update(Update { set: vec![variant("a", &v1, 2)], remove: remove.clone() });
    let second = client.next().await;
    assert_eq!(set(&second), [("a".to_owned(), Some(v1.clone()), 2)]);
    let removed = discovery_v3::ResourceName { name: "a".into(), dynamic_parameter_constraints: Some(prod.clone()) };
    assert_eq!((second.removed_resource_names.as_slice(), second.removed_resources.len()), (&[removed][..], 0));
    assert_ne!(first.nonce, second.nonce);
    client.nack(&second, "no").await;
    assert!(client.is_silent().await, "a NACK is not answered");

    server.store.update(Update { set: vec![variant("a", &v1, 3), variant("nx", &prod, 1)], remove });
    assert_eq!(set(&client.next().await), [("a".to_owned(), Some(v1), 3)], "what changed, and fits");
    server.store.update(Update { set: vec![cluster_at("nx", 9)], remove: Vec::new() });
    assert_eq!(set(&client.next().await), [("nx".to_owned(), None, 9)]);
}

#[tokio::test]
async fn d30_locators_end_and_coexist_with_names() {
    let prod = is("env", "prod");
    let server = Server::start([variant("a", &prod, 1), cluster_at("b", 2), cluster_at("c", 3)]).await;
    let mut client = server.delta().await;
    let locators = [locator("a", &[("env", "prod")])];
    client
        .send(discovery_v3::DeltaDiscoveryRequest { resource_names_subscribe: vec!["b".into()], ..locate(&locators) })
        .await;
    let (one, other) = (client.next().await, client.next().await);
    let mut both = [set(&one), set(&other)].concat();
    both.sort_by_key(|(name, ..)| name.clone());
    assert_eq!(both, [("a".to_owned(), Some(prod.clone()), 1), ("b".to_owned(), None, 2)]);
    client.ack(&one).await;
    client.ack(&other).await;
    let end = discovery_v3::DeltaDiscoveryRequest {
        resource_locators_unsubscribe: locators.to_vec(),
        ..differ(CLUSTER, &["c"])
    };
    client.send(end).await;
    let third = client.next().await;
    assert_eq!(set(&third), [("c".to_owned(), None, 3)]);
    client.ack(&third).await;
    server.store.update(Update { set: vec![variant("a", &prod, 7), cluster_at("b", 8)], remove: Vec::new() });
    assert_eq!(set(&client.next().await), [("b".to_owned(), None, 8)], "only what is still asked for");
}

#[tokio::test]
async fn d30_a_returning_client_does_not_receive_its_variant_again() {
    let prod = is("env", "prod");
    let resource = variant("a", &prod, 1);
    let version = resource.version().to_string();
    let server = Server::start([resource, variant("b", &prod, 2)]).await;
    let mut client = server.delta().await;
    let parameters = [("env", "prod")];
    let mut request = locate(&[locator("a", &parameters), locator("b", &parameters)]);
    request.initial_resource_versions = [("a".to_owned(), version), ("b".to_owned(), "other".to_owned())].into();
    client.send(request).await;
    assert_eq!(set(&client.next().await), [("b".to_owned(), Some(prod), 2)]);
}

#[tokio::test]
async fn d30_a_client_without_parameters_receives_the_unconstrained_variant() {
    let server = Server::start([variant("a", &is("env", "prod"), 1), cluster_at("b", 2)]).await;
    let mut delta = server.delta().await;
    delta.send(differ(CLUSTER, &["*"])).await;
    assert_eq!(set(&delta.next().await), [("b".to_owned(), None, 2)]);
    let mut sotw = server.sotw().await;
    let request = discovery_v3::DiscoveryRequest {
        resource_locators: vec![locator("b", &[("env", "prod")])],
        ..ask(CLUSTER, &[])
    };
    sotw.send(request).await;
    assert_eq!(sotw.next().await.resources.len(), 1);
    assert_eq!((CLUSTER.variants().url(), CLUSTER.variants()), (CLUSTER.url(), CLUSTER.variants().variants()));
    assert_ne!(ResourceType::CLUSTER, CLUSTER.variants());
}

/// The time does not depend on the product of known and unknown names.
#[tokio::test]
async fn d30_many_names_can_be_unknown() {
    let known: Vec<String> = (0..5_000).map(|at| format!("known-{at}")).collect();
    let server = Server::start([]).await;
    server.store.replace(known.iter().map(|name| cluster_at(name, 1)).collect());
    let mut client = server.delta().await;
    client.send(locate(&known.iter().map(|name| locator(name, &[])).collect::<Vec<_>>())).await;
    let response = client.next().await;
    assert_eq!(response.resources.len(), 5_000);
    client.ack(&response).await;
    let unknown: Vec<_> = (0..200_000).map(|at| locator(&format!("other-{at}"), &[])).collect();
    client.send(locate(&unknown)).await;
    let response = client.next().await;
    assert_eq!((response.resources.len(), response.removed_resources.len()), (0, 200_000));
}
