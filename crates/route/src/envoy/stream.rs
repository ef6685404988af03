//! Listeners that forward connections and datagrams: TLS, TCP, UDP.

use std::collections::BTreeMap;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::filters::network::connection_limit::v3 as connection_limit_v3;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3 as tcp_proxy_v3;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3 as udp_proxy_v3;
use envoy_types::pb::envoy::extensions::matching::common_inputs::network::v3 as network_v3;
use envoy_types::pb::envoy::extensions::matching::input_matchers::consistent_hashing::v3 as hashing_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use envoy_types::pb::google::protobuf as google;
use envoy_types::pb::xds::core::v3 as xds_core_v3;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::Resource;
use matcher_v3::matcher::matcher_list::{FieldMatcher, Predicate, predicate};
use matcher_v3::matcher::{MatcherList, MatcherType, OnMatch, on_match};
use prost::Message;

use super::server_names::Choice;
use super::socket::{listener as of_clients, over_tcp, proxy_protocol};
use super::tls_listener::Presented;
use super::{downstream_tls, names, wire};
use crate::model::{Bind, Destination, Host, ListenerId, TlsConnections, Traffic};
use crate::settings::Settings;

/// Builds the Envoy listener. Returns `None` for HTTP, which other modules build.
pub fn listener(id: &ListenerId, bind: &Bind, traffic: &Traffic, settings: &Settings) -> Option<Resource> {
    let (message, origins) = match traffic {
        Traffic::Http(_) | Traffic::Https(_) => return None,
        Traffic::Tls(hosts) => {
            let origins: Vec<ObjectRef> = hosts.values().map(|host| host.to.origin.clone()).collect();
            (tls(id, bind, hosts, settings), origins)
        }
        Traffic::Tcp(to) => (tcp(id, bind, to, settings), vec![to.origin.clone()]),
        Traffic::Udp(to) => (udp(id, bind, to, settings), vec![to.origin.clone()]),
    };
    // Generations are left out: an edit that does not change the listener must not create a new version.
    let origins = origins.into_iter().map(|origin| origin.at(0)).collect();
    Some(Resource::new(id.as_str(), &message, origins))
}

/// Forwards TLS connections by server name (SNI). A connection for an unknown name is closed, unless there is a
/// destination for [`Host::Any`].
fn tls(
    id: &ListenerId,
    bind: &Bind,
    hosts: &BTreeMap<Host, TlsConnections>,
    settings: &Settings,
) -> listener_v3::Listener {
    let mut choice = Choice::default();
    let filters = proxy_protocol(settings).into_iter().chain([downstream_tls::inspector(settings)]);
    let mut listener = listener_v3::Listener { listener_filters: filters.collect(), ..over_tcp(id, bind, settings) };
    forward(id, hosts, ConnectionLimitScope::ByListener, &mut choice, &mut listener, settings);
    listener.filter_chain_matcher = choice.matcher();
    if listener.filter_chains.is_empty() && listener.default_filter_chain.is_none() {
        // Envoy rejects a listener without filter chains.
        listener.default_filter_chain = Some(chain_of(refusing(id)));
    }
    listener
}

/// How the connections of a listener that a loop could use up are limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionLimitScope {
    /// All connections of the listener, by a runtime flag.
    ByListener,
    /// The connections of each filter chain. The listener also serves hosts, whose connections are not limited.
    ByChain,
}

/// The time without any bytes after which Envoy closes a connection of an HTTPProxy, as Contour does.
const IDLE: Duration = Duration::from_secs(9001);

/// Adds the filter chains that forward the connections for these server names.
pub fn forward(
    id: &ListenerId,
    hosts: &BTreeMap<Host, TlsConnections>,
    limit: ConnectionLimitScope,
    choice: &mut Choice,
    listener: &mut listener_v3::Listener,
    settings: &Settings,
) {
    for (host, TlsConnections { terminated, to }) in hosts {
        let tls = terminated.as_ref().map(|tls| downstream_tls::for_connections(&Presented::from(tls), settings));
        // The destination of Envoys that close all connections for a name needs no chain.
        let chain = (!to.clusters.is_empty()).then(|| listener_v3::FilterChain {
            name: names::connection_chain(id, host),
            filters: match limit {
                ConnectionLimitScope::ByListener => vec![tcp_proxy(id, to, None)],
                ConnectionLimitScope::ByChain => vec![connection_limit(id, settings), tcp_proxy(id, to, Some(IDLE))],
            },
            transport_socket: tls,
            ..Default::default()
        });
        let name = chain.as_ref().map_or(names::REFUSED, |chain| &chain.name);
        match host {
            Host::Exact(server_name) => choice.exact([&**server_name], name),
            Host::Wildcard(suffix) => choice.below(suffix, name),
            Host::Any => {
                listener.default_filter_chain = chain;
                continue;
            }
        }
        listener.filter_chains.extend(chain);
    }
}

/// Forwards TCP connections.
fn tcp(id: &ListenerId, bind: &Bind, to: &Destination, settings: &Settings) -> listener_v3::Listener {
    listener_v3::Listener {
        listener_filters: proxy_protocol(settings).into_iter().collect(),
        filter_chains: vec![chain_of(tcp_proxy(id, to, None))],
        ..over_tcp(id, bind, settings)
    }
}

fn chain_of(filter: listener_v3::Filter) -> listener_v3::FilterChain {
    listener_v3::FilterChain { filters: vec![filter], ..Default::default() }
}

/// Builds the network filter that forwards a connection. Envoy closes a connection whose cluster does not exist.
fn tcp_proxy(id: &ListenerId, to: &Destination, idle: Option<Duration>) -> listener_v3::Filter {
    use tcp_proxy_v3::tcp_proxy::weighted_cluster::ClusterWeight;
    use tcp_proxy_v3::tcp_proxy::{ClusterSpecifier, WeightedCluster};
    match shares(to).as_slice() {
        [] => refusing(id),
        [(only, _)] => proxy(id, ClusterSpecifier::Cluster(only.clone()), idle),
        several => {
            let share = |(name, weight): &(String, u32)| ClusterWeight {
                name: name.clone(),
                weight: *weight,
                ..Default::default()
            };
            let clusters = several.iter().map(share).collect();
            proxy(id, ClusterSpecifier::WeightedClusters(WeightedCluster { clusters }), idle)
        }
    }
}

/// Returns the size of the filter chain for the connections to a destination, in encoded bytes without TLS.
pub fn size_of_chain(id: &ListenerId, to: &Destination) -> u64 {
    chain_of(tcp_proxy(id, to, None)).encoded_len() as u64
}

/// Builds the network filter that closes connections.
fn refusing(id: &ListenerId) -> listener_v3::Filter {
    proxy(id, tcp_proxy_v3::tcp_proxy::ClusterSpecifier::Cluster(names::REFUSED.to_owned()), None)
}

/// Builds the network filter that limits the connections of a filter chain.
fn connection_limit(id: &ListenerId, settings: &Settings) -> listener_v3::Filter {
    let limit = connection_limit_v3::ConnectionLimit {
        stat_prefix: names::stat_prefix(id),
        max_connections: Some(google::UInt64Value { value: settings.tenants.max_connections_per_listener.into() }),
        ..Default::default()
    };
    listener_v3::Filter {
        name: "envoy.filters.network.connection_limit".to_owned(),
        config_type: Some(listener_v3::filter::ConfigType::TypedConfig(wire::any(&limit))),
    }
}

fn proxy(
    id: &ListenerId,
    cluster: tcp_proxy_v3::tcp_proxy::ClusterSpecifier,
    idle: Option<Duration>,
) -> listener_v3::Filter {
    let proxy = tcp_proxy_v3::TcpProxy {
        stat_prefix: names::stat_prefix(id),
        cluster_specifier: Some(cluster),
        idle_timeout: idle.map(wire::duration),
        hash_policy: vec![type_v3::HashPolicy { policy_specifier: Some(by_source()) }],
        ..Default::default()
    };
    listener_v3::Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        config_type: Some(listener_v3::filter::ConfigType::TypedConfig(wire::any(&proxy))),
    }
}

/// Selects an endpoint by the address of the client, if the cluster selects endpoints by a hash.
fn by_source() -> type_v3::hash_policy::PolicySpecifier {
    type_v3::hash_policy::PolicySpecifier::SourceIp(type_v3::hash_policy::SourceIp {})
}

/// Returns the clusters of a destination by name with their weights, and a cluster that does not exist for the refused
/// share. Envoy rejects a weight of 0, which means no connections.
fn shares(to: &Destination) -> Vec<(String, u32)> {
    let clusters = to.clusters.iter().map(|one| (one.cluster.to_string(), one.weight));
    let refused = (names::REFUSED.to_owned(), to.refused);
    clusters.chain([refused]).filter(|(_, weight)| *weight > 0).collect()
}

/// Forwards UDP datagrams. All datagrams of one client go to one endpoint.
///
/// Envoy has no weighted clusters for UDP, so the hash of the client's port selects the cluster. The hash is taken
/// modulo the sum of the weights. Each cluster has a range of these numbers that is as long as its weight. Envoy drops
/// datagrams for a cluster that does not exist.
fn udp(id: &ListenerId, bind: &Bind, to: &Destination, settings: &Settings) -> listener_v3::Listener {
    use udp_proxy_v3::udp_proxy_config::RouteSpecifier;
    let mut shares = shares(to);
    let modulo = shares.iter().fold(0, |sum: u32, (_, weight)| sum.saturating_add(*weight));
    let last = shares.pop().map_or_else(|| names::REFUSED.to_owned(), |(name, _)| name);
    let mut below = modulo;
    let matchers = shares.iter().map(|(cluster, weight)| {
        below = below.saturating_sub(*weight);
        by_hash(below, modulo, cluster)
    });
    let list = MatcherList { matchers: matchers.collect() };
    let matcher = matcher_v3::Matcher {
        on_no_match: Some(Box::new(route(&last))),
        matcher_type: (!list.matchers.is_empty()).then_some(MatcherType::MatcherList(list)),
    };
    let proxy = udp_proxy_v3::UdpProxyConfig {
        stat_prefix: names::stat_prefix(id),
        route_specifier: Some(RouteSpecifier::Matcher(matcher)),
        ..Default::default()
    };
    listener_v3::Listener {
        listener_filters: vec![wire::listener_filter("envoy.filters.udp_listener.udp_proxy", &proxy)],
        ..of_clients(id, bind, core_v3::socket_address::Protocol::Udp, settings)
    }
}

/// Selects `cluster` for datagrams if the hash of the client's port modulo `modulo` is at least `threshold`.
fn by_hash(threshold: u32, modulo: u32, cluster: &str) -> FieldMatcher {
    let config =
        |name: &str, message| xds_core_v3::TypedExtensionConfig { name: name.to_owned(), typed_config: Some(message) };
    let input = config("envoy.matching.inputs.source_port", wire::any(&network_v3::SourcePortInput {}));
    let hashing = hashing_v3::ConsistentHashing { threshold, modulo, seed: 0 };
    let matcher = config("envoy.matching.matchers.consistent_hashing", wire::any(&hashing));
    let single = predicate::SinglePredicate {
        input: Some(input),
        matcher: Some(predicate::single_predicate::Matcher::CustomMatch(matcher)),
    };
    let predicate = Predicate { match_type: Some(predicate::MatchType::SinglePredicate(single)) };
    FieldMatcher { predicate: Some(predicate), on_match: Some(route(cluster)) }
}

fn route(cluster: &str) -> OnMatch {
    let route = udp_proxy_v3::Route { cluster: cluster.to_owned() };
    let action = xds_core_v3::TypedExtensionConfig { name: "route".to_owned(), typed_config: Some(wire::any(&route)) };
    OnMatch { on_match: Some(on_match::OnMatch::Action(action)), ..Default::default() }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::envoy::build;
    use crate::model::{Listener, Model, Termination, TlsVersion, WeightedCluster};
    use crate::testing::envoy::{standalone, validate};
    use crate::testing::model;
    use std::collections::BTreeSet;

    fn to(weights: &[u32], refused: u32) -> Destination {
        let clusters = ["shop/cart/http", "shop/tls/443", "shop/ip/h2c"].iter().zip(weights);
        let weighted = |(name, weight): (&&str, &u32)| WeightedCluster::new(model::cluster_id(name), *weight);
        let origin = ObjectRef::new("TCPRoute", "shop", "cart");
        Destination { clusters: clusters.map(weighted).collect(), refused, origin }
    }

    fn passthrough(to: Destination) -> TlsConnections {
        TlsConnections { terminated: None, to }
    }

    fn terminated(to: Destination) -> TlsConnections {
        let (minimum, maximum) = (TlsVersion::V1_2, TlsVersion::V1_3);
        TlsConnections {
            terminated: Some(Termination { secrets: vec![model::pair_id("cert")], minimum, maximum, clients: None }),
            to,
        }
    }

    /// Returns the model with these listeners: `other-10000`, `other-10001`, and so on.
    fn with(traffic: impl IntoIterator<Item = Traffic>) -> Model {
        let mut model = model::model();
        for (port, traffic) in (10_000..).zip(traffic) {
            let bind = Bind { address: None, port };
            model.listeners.insert(ListenerId::new(&format!("other-{port}")), Listener { bind, traffic });
        }
        model
    }

    #[test]
    fn an_envoy_accepts_listeners_of_every_kind_for_connections() {
        let hosts = BTreeMap::from([
            (Host::Exact("a.test".into()), passthrough(to(&[1], 0))),
            (Host::Exact("b.test".into()), terminated(to(&[1], 2))),
            (Host::Exact("c.test".into()), terminated(to(&[], 2))),
            (Host::Wildcard("test".into()), passthrough(to(&[1, 0, 2], 0))),
            (Host::Any, terminated(to(&[1], 0))),
        ]);
        let refusing = BTreeMap::from([(Host::Exact("a.test".into()), passthrough(to(&[], 0)))]);
        let traffic = [
            Traffic::Tls(hosts),
            Traffic::Tls(refusing),
            Traffic::Tls(BTreeMap::new()),
            Traffic::Tcp(to(&[1, 1], 0)),
            Traffic::Tcp(to(&[1], 1)),
            Traffic::Tcp(to(&[], 1)),
        ];
        let settings = Settings::default();
        let resources = build(&with(traffic), &settings);
        let clusters = |name: &str| {
            let resource = resources.iter().find(|one| &**one.name() == name).unwrap();
            resource.references().clusters.iter().map(|name| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(clusters("other-10000"), ["refused", "shop/cart/http", "shop/ip/h2c"]);
        assert_eq!(clusters("other-10003"), ["shop/cart/http", "shop/tls/443"]);
        assert_eq!(clusters("other-10005"), ["refused"]);
        validate(&standalone(&resources, &settings)).unwrap();
    }

    #[test]
    fn one_listener_serves_hosts_and_forwards_connections_for_other_server_names() {
        let settings = Settings::default();
        let mut model = model::model();
        let tls = model.tls_mut(ListenerId::HTTPS).unwrap();
        tls.connections = BTreeMap::from([
            (Host::Exact("pass.test".into()), passthrough(to(&[0, 0, 1], 0))),
            (Host::Wildcard("pass.test".into()), passthrough(to(&[1], 0))),
            (Host::Exact("decrypted.test".into()), terminated(to(&[1], 0))),
            (Host::Exact("closed.test".into()), passthrough(to(&[], 0))),
        ]);
        let resources = build(&model, &settings);
        let listener = resources.iter().find(|one| &**one.name() == "https").unwrap();
        let decoded = listener_v3::Listener::decode(listener.message()).unwrap();
        let chains: BTreeSet<&str> = decoded.filter_chains.iter().map(|chain| &*chain.name).collect();
        for (name, is_there) in [
            ("https/pass.test", true),
            ("https/*.pass.test", true),
            ("https/decrypted.test", true),
            ("https/closed.test", false),
            ("https/shop/cert", true),
        ] {
            assert_eq!(chains.contains(name), is_there, "{name} {chains:?}");
        }
        let sockets = |name: &str| {
            let chain = decoded.filter_chains.iter().find(|chain| chain.name == name).unwrap();
            chain.transport_socket.is_some()
        };
        assert!(!sockets("https/pass.test") && sockets("https/decrypted.test"));
        validate(&standalone(&resources, &settings)).unwrap();
    }

    #[test]
    fn an_envoy_accepts_weighted_clusters_for_datagrams() {
        let traffic = [&[1, 0, 0][..], &[7, 3, 0], &[2, 1, 1], &[]].map(|weights| Traffic::Udp(to(weights, 1)));
        let settings = Settings::default();
        let resources = build(&with(traffic.into_iter().chain([Traffic::Udp(to(&[1], 0))])), &settings);
        let is_udp = |resource: &Resource| resource.name().starts_with("other-");
        let listeners: Vec<Resource> = resources.into_iter().filter(is_udp).collect();
        let clusters = listeners.iter().map(|listener| listener.references().clusters.len()).collect::<Vec<_>>();
        assert_eq!(clusters, [2, 3, 4, 1, 1], "with the cluster that does not exist");
        // Envoy marks the other field as deprecated, and this one as work in progress.
        let warning = validate(&standalone(&listeners, &settings)).unwrap_err();
        assert!(warning.lines().all(|line| line.contains("UdpProxyConfig.matcher")), "{warning}");
    }
}
