//! Virtual host discovery (VHDS): the requirements of Envoy beyond the general delta rules.

use envoy_types::pb::envoy::config::route::v3 as route_v3;

use envoy_types::pb::envoy::service::discovery::v3::{DeltaDiscoveryRequest, DeltaDiscoveryResponse};
use prost::Message;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::grpc::lab::{Server, differ, exchange, soon};
use crate::protocol::tests::harness::*;
use crate::protocol::{Variant, encode};
use crate::snapshot::{Resource, ResourceType, Update};

const HOSTS: ResourceType = VIRTUAL_HOST;
const ROUTES: ResourceType = ResourceType::ROUTES;

#[test]
fn d27_the_wildcard_receives_every_host_and_then_changes() {
    let mut bench = Bench::delta([routes("r", []), virtual_host("r/a", "a"), virtual_host("r/b", "b")]);
    bench.settled(ROUTES, ["r"]);
    assert_eq!(bench.settled(HOSTS, []), "VirtualHost{r/a,r/b}");
    let changed = bench.set([virtual_host("r/a", "a.example")]);
    assert_eq!(changed, "VirtualHost{r/a}");
    bench.ack(changed.one());
    assert_eq!(bench.remove([(HOSTS, "r/b")]), "VirtualHost-{r/b}");
}

#[test]
fn d27_no_hosts_are_reported_as_one_absent_host() {
    let mut bench = Bench::delta([routes("r", [])]);
    bench.settled(ROUTES, ["r"]);
    assert_eq!(bench.start(HOSTS, []), "VirtualHost-{r/none}");
}

#[test]
fn d27_a_stream_of_hosts_learns_of_every_route_configuration_without_hosts() {
    // Envoy does not request the virtual hosts, and without a response, its listener warms for 15 s.
    let mut bench =
        Bench::new(Variant::Delta, Some(HOSTS), [routes("r", []), routes("r2", []), virtual_host("r2/b", "b")]);
    assert_eq!(bench.start(HOSTS, []), "VirtualHost{r2/b}-{r/none}");
}

#[tokio::test]
async fn d27_the_service_of_virtual_hosts_has_only_delta() {
    use envoy_types::pb::envoy::service::route::v3::virtual_host_discovery_service_client::VirtualHostDiscoveryServiceClient;
    let server = Server::start([routes("r", []), virtual_host("r/a", "a")]).await;
    let (requests, outgoing) = mpsc::channel(8);
    let mut client = VirtualHostDiscoveryServiceClient::new(server.channel());
    let mut responses = soon(client.delta_virtual_hosts(ReceiverStream::new(outgoing))).await.unwrap().into_inner();
    requests.send(DeltaDiscoveryRequest { type_url: String::new(), ..differ(HOSTS, &[]) }).await.unwrap();
    let response = soon(responses.message()).await.unwrap().unwrap();
    assert_eq!((&*response.type_url, &*response.resources[0].name), (HOSTS.url(), "r/a"));
    for method in
        ["/envoy.service.route.v3.VirtualHostDiscoveryService/StreamVirtualHosts", "/v3/discovery:virtual-hosts"]
    {
        let request = http::Request::post(method).body(String::new()).unwrap();
        let connection = tokio::net::TcpStream::connect(server.address).await.unwrap();
        assert_eq!(exchange(connection, request).await.status(), 404, "{method}");
    }
}

#[test]
fn d27_hosts_follow_a_second_route_configuration_without_a_request() {
    let mut bench = Bench::delta([
        routes("r", []),
        routes("r2", []),
        routes("r3", []),
        virtual_host("r/a", "a"),
        virtual_host("r2/b", "b"),
    ]);
    bench.settled(ROUTES, ["r"]);
    bench.settled(HOSTS, []);
    assert_eq!(bench.subscribe(ROUTES, ["r2"]), "RDS{r2} VirtualHost{r2/b}");
    assert_eq!(bench.subscribe(ROUTES, ["r3"]), "RDS{r3} VirtualHost-{r3/none}");
}

#[test]
fn d27_a_route_configuration_that_is_requested_again_receives_its_hosts_again() {
    let mut bench = Bench::delta([routes("r", []), virtual_host("r/a", "a")]);
    bench.settled(ROUTES, ["r"]);
    bench.settled(HOSTS, []);
    assert_eq!(bench.unsubscribe(ROUTES, ["r"]), "");
    assert_eq!(bench.subscribe(ROUTES, ["r"]), "RDS{r} VirtualHost{r/a}");
}

#[test]
fn d27_hosts_of_a_recreated_listener_precede_it_if_its_routes_are_in_use() {
    let hosts = || [virtual_host("r/a", "a"), virtual_host("r2/b", "b")];
    let [a, b] = hosts();
    let mut bench = Bench::delta([listener("l", "r"), listener("l2", "r2"), routes("r", []), routes("r2", []), a, b]);
    bench.settled(LISTENER, []);
    bench.settled(ROUTES, ["r", "r2"]);
    bench.settled(HOSTS, []);
    let gone = bench.remove([(LISTENER, "l"), (ROUTES, "r"), (HOSTS, "r/a")]);
    assert_eq!(gone, "LDS-{l} VirtualHost-{r/a}", "the routes go after the ACK");
    let rest = bench.ack_all(&gone);
    assert_eq!(rest, "RDS-{r}");
    bench.ack_all(&rest);
    // Connections of the old listener are drained, so Envoy stays subscribed to its routes.
    let [a, _] = hosts();
    let again = bench.set([listener("l", "r"), routes("r", []), a, virtual_host("r2/b", "other")]);
    assert_eq!(again, "VirtualHost{r/a} LDS{l} RDS{r}");
    let rest = bench.ack_all(&again);
    assert_eq!(rest, "VirtualHost{r2/b}", "other hosts follow");
    bench.ack_all(&rest);
    // Without a subscription, the virtual hosts follow the routes.
    let gone = bench.remove([(LISTENER, "l"), (ROUTES, "r"), (HOSTS, "r/a")]);
    let rest = bench.ack_all(&gone);
    bench.ack_all(&rest);
    bench.unsubscribe(ROUTES, ["r"]);
    let [a, _] = hosts();
    let new = bench.set([listener("l", "r"), routes("r", []), a]);
    assert_eq!(new, "LDS{l} VirtualHost{r/a}");
}

#[test]
fn d27_hosts_of_a_recreated_listener_do_not_wait_for_the_ack_of_their_removal() {
    let mut bench = Bench::delta([listener("l", "r"), routes("r", []), virtual_host("r/a", "a")]);
    bench.settled(LISTENER, []);
    bench.settled(ROUTES, ["r"]);
    bench.settled(HOSTS, []);
    let gone = bench.remove([(LISTENER, "l"), (ROUTES, "r"), (HOSTS, "r/a")]);
    assert_eq!(gone, "LDS-{l} VirtualHost-{r/a}");
    let rest = bench.ack(&gone[LISTENER]);
    assert_eq!(rest, "RDS-{r}");
    let again = bench.set([listener("l", "r"), routes("r", []), virtual_host("r/a", "a")]);
    assert_eq!(again, "VirtualHost{r/a} LDS{l}", "the routes wait for their ACK, and Envoy still has them");
    assert_eq!(bench.ack(&gone[HOSTS]), "");
    assert_eq!(bench.ack_all(&rest), "RDS{r}");
    assert_eq!(bench.ack_all(&again), "", "once");
}

#[test]
fn d27_a_host_on_demand_is_sent_or_reported_as_unknown() {
    let mut bench = Bench::delta([routes("r", []), virtual_host("r/a", "a")]);
    bench.settled(ROUTES, ["r"]);
    bench.settled(HOSTS, []);
    let unknown = bench.subscribe(HOSTS, ["r/b", "r/a"]);
    assert_eq!(unknown, "VirtualHost{r/a}?{r/b}");
    let encoded = encode::response(unknown.one(), Variant::Delta, "test").into_bytes();
    let decoded = DeltaDiscoveryResponse::decode(encoded).unwrap();
    let told = decoded.resources.iter().find(|resource| resource.name == "r/b").unwrap();
    assert_eq!((told.resource.is_none(), &*told.aliases), (true, &["r/b".to_owned()][..]));
    bench.ack(unknown.one());
    let created = bench.set([virtual_host("r/b", "b")]);
    assert_eq!(created, "VirtualHost{r/b}");
    bench.ack(created.one());
    assert_eq!(bench.remove([(HOSTS, "r/b")]), "VirtualHost-{r/b}", "one that was there is removed");
}

#[test]
fn d27_an_update_of_the_route_configuration_keeps_its_hosts() {
    let mut bench = Bench::delta([routes("r", []), virtual_host("r/a", "a")]);
    bench.settled(ROUTES, ["r"]);
    bench.settled(HOSTS, []);
    assert_eq!(bench.set([routes_for("r", "other", &[])]), "RDS{r}");
}

#[test]
fn d27_a_returning_client_learns_of_removed_hosts() {
    let mut bench = Bench::delta([routes("r", []), virtual_host("r/a", "a"), virtual_host("r/b", "b")]);
    bench.settled(ROUTES, ["r"]);
    bench.settled(HOSTS, []);
    let (r, a, b) = (bench.version(ROUTES, "r"), bench.version(HOSTS, "r/a"), bench.version(HOSTS, "r/b"));
    bench.reconnect();
    bench.store.update(crate::snapshot::Update::removing(vec![(HOSTS, "r/b".into())]));
    bench.catch_up();
    bench.settled(ResourceType::CLUSTER, []);
    assert_eq!(bench.resume(ROUTES, &["r"], [("r", r)]), "");
    assert_eq!(bench.resume(HOSTS, &[], [("r/a", a), ("r/b", b)]), "VirtualHost-{r/b}");
}

/// Returns a virtual host with these domains, which uses `cluster`.
fn leading(name: &str, domains: &[&str], cluster: &str) -> Resource {
    let action = route_v3::RouteAction {
        cluster_specifier: Some(route_v3::route_action::ClusterSpecifier::Cluster(cluster.to_owned())),
        ..Default::default()
    };
    let route = route_v3::Route { action: Some(route_v3::route::Action::Route(action)), ..Default::default() };
    let domains = domains.iter().map(|domain| (*domain).to_owned()).collect();
    let message = route_v3::VirtualHost { name: name.to_owned(), domains, routes: vec![route], ..Default::default() };
    Resource::new(name, &message, Vec::new())
}

/// Returns an Envoy with the virtual hosts `r/a` and `r/b`, which use the cluster `x`.
fn leading_to_x() -> Bench {
    let hosts = [leading("r/a", &["a", "c"], "x"), leading("r/b", &["b"], "x")];
    let [a, b] = hosts;
    let mut bench = Bench::delta([cluster("x"), endpoints("x"), routes("r", []), listener("l", "r"), a, b]);
    bench.settled(CLUSTER, []);
    bench.settled(ENDPOINTS, ["x"]);
    bench.settled(LISTENER, []);
    bench.settled(ROUTES, ["r"]);
    bench.settled(HOSTS, []);
    bench
}

#[test]
fn d27_a_domain_moves_in_one_response_when_the_cluster_behind_it_is_acked() {
    let mut bench = leading_to_x();
    let moved = [cluster("y"), endpoints("y"), leading("r/a", &["a"], "x"), leading("r/b", &["b", "c"], "y")];
    let clusters = bench.set(moved);
    assert_eq!(clusters, "CDS{y} EDS{y}");
    let moved = bench.ack_all(&clusters);
    assert_eq!(moved, "VirtualHost{r/a,r/b}");
    bench.ack_all(&moved);
    // One virtual host is removed, and another has its domain.
    let update = Update { set: vec![leading("r/b", &["b", "c", "a"], "y")], remove: vec![(HOSTS, "r/a".into())] };
    bench.store.update(update);
    assert_eq!(bench.catch_up(), "VirtualHost{r/b}-{r/a}");
}

#[test]
fn d27_a_domain_moves_in_one_response_even_if_hosts_are_requested_meanwhile() {
    let mut bench = leading_to_x();
    let under_way = bench.set([leading("r/b", &["b", "d"], "x")]);
    assert_eq!(under_way, "VirtualHost{r/b}");
    let update = Update { set: vec![leading("r/b", &["b", "c", "a"], "x")], remove: vec![(HOSTS, "r/a".into())] };
    bench.store.update(update);
    assert_eq!(bench.catch_up(), "", "one at a time");
    bench.unsubscribe(ROUTES, ["r"]);
    assert_eq!(bench.subscribe(ROUTES, ["r"]), "RDS{r} VirtualHost{r/b}-{r/a}");
}

#[test]
fn d27_a_domain_does_not_move_to_a_host_that_waits_for_a_rejected_cluster() {
    let mut bench = leading_to_x();
    let moved =
        [cluster("y"), leading("r/a", &["a"], "x"), leading("r/b", &["b", "c"], "y"), leading("r/d", &["d"], "x")];
    let clusters = bench.set(moved);
    assert_eq!(clusters, "CDS{y}");
    let others = bench.nack(clusters.one(), "no");
    assert_eq!(others, "VirtualHost{r/d}", "r/b would lead nowhere, and c be served by nobody");
    bench.ack_all(&others);
    let clusters = bench.set([cluster_at("y", 9)]);
    assert_eq!(bench.ack_all(&clusters), "VirtualHost{r/a,r/b}");
}

#[test]
fn d27_a_cluster_stays_while_a_host_references_it() {
    let mut bench = leading_to_x();
    let update = Update {
        set: vec![cluster("y"), leading("r/a", &["a", "c"], "y"), leading("r/b", &["b"], "y")],
        remove: vec![(CLUSTER, "x".into()), (ENDPOINTS, "x".into())],
    };
    bench.store.update(update);
    let clusters = bench.catch_up();
    assert_eq!(clusters, "CDS{y}");
    let hosts = bench.ack_all(&clusters);
    assert_eq!(hosts, "VirtualHost{r/a,r/b}");
    assert_eq!(bench.wait(GRACE * 3), "", "it may still lead there");
    bench.ack_all(&hosts);
    let gone = bench.wait(GRACE).to_string();
    assert!(gone.starts_with("CDS-{x}"), "{gone}");
}

#[test]
fn o15_virtual_hosts_go_after_their_route_configuration() {
    let mut bench = Bench::delta([routes("r", [])]);
    bench.settled(ROUTES, ["r", "r2"]);
    bench.settled(HOSTS, []);
    assert_eq!(bench.set([virtual_host("r2/a", "a"), routes("r2", [])]), "RDS{r2} VirtualHost{r2/a}");
}
