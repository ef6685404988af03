//! Listeners that forward connections and datagrams: TLS passthrough, TCP, UDP.

use std::collections::BTreeMap;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::filters::network::tcp_proxy::v3 as tcp_proxy_v3;
use envoy_types::pb::envoy::extensions::filters::udp::udp_proxy::v3 as udp_proxy_v3;
use envoy_types::pb::xds::core::v3 as xds_core_v3;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::Resource;

use super::listener::{listener as of_clients, over_tcp, proxy_protocol};
use super::server_names::Choice;
use super::{downstream_tls, names, wire};
use crate::model::{Bind, Connections, Datagrams, Host, ListenerId, Traffic};
use crate::settings::Settings;

/// The Envoy listener; `None` for HTTP, which other modules build.
pub fn listener(id: &ListenerId, bind: &Bind, traffic: &Traffic, settings: &Settings) -> Option<Resource> {
    let (message, origins) = match traffic {
        Traffic::Http(_) | Traffic::Https(_) => return None,
        Traffic::TlsPassthrough(hosts) => {
            let origins: Vec<ObjectRef> = hosts.values().map(|to| to.origin.clone()).collect();
            (passthrough(id, bind, hosts, settings), origins)
        }
        Traffic::Tcp(to) => (tcp(id, bind, to, settings), vec![to.origin.clone()]),
        Traffic::Udp(to) => (udp(id, bind, to, settings), vec![to.origin.clone()]),
    };
    // Of no generation: an edit that leaves the listener as it is must not ask for another one.
    let origins = origins.into_iter().map(|origin| origin.at(0)).collect();
    Some(Resource::new(id.as_str(), &message, origins))
}

/// Forwards TLS connections by server name (SNI). A connection for an unknown name is closed, unless [`Host::Any`] takes it.
fn passthrough(
    id: &ListenerId,
    bind: &Bind,
    hosts: &BTreeMap<Host, Connections>,
    settings: &Settings,
) -> listener_v3::Listener {
    let mut choice = Choice::default();
    let filters = proxy_protocol(settings).into_iter().chain([downstream_tls::inspector(settings)]);
    let mut listener = listener_v3::Listener { listener_filters: filters.collect(), ..over_tcp(id, bind, settings) };
    for (host, to) in hosts {
        let chain = listener_v3::FilterChain {
            name: names::passthrough_chain(id, host),
            filters: vec![tcp_proxy(id, to)],
            ..Default::default()
        };
        match host {
            Host::Exact(server_name) => choice.exact(server_name, &chain.name),
            Host::Wildcard(suffix) => choice.below(suffix, &chain.name),
            Host::Any => {
                listener.default_filter_chain = Some(chain);
                continue;
            }
        }
        listener.filter_chains.push(chain);
    }
    listener.filter_chain_matcher = choice.matcher();
    listener
}

/// Forwards TCP connections.
fn tcp(id: &ListenerId, bind: &Bind, to: &Connections, settings: &Settings) -> listener_v3::Listener {
    listener_v3::Listener {
        listener_filters: proxy_protocol(settings).into_iter().collect(),
        filter_chains: vec![listener_v3::FilterChain { filters: vec![tcp_proxy(id, to)], ..Default::default() }],
        ..over_tcp(id, bind, settings)
    }
}

/// The network filter that forwards a connection.
fn tcp_proxy(id: &ListenerId, to: &Connections) -> listener_v3::Filter {
    use tcp_proxy_v3::tcp_proxy::weighted_cluster::ClusterWeight;
    use tcp_proxy_v3::tcp_proxy::{ClusterSpecifier, WeightedCluster};
    let cluster = match to.clusters.as_slice() {
        [only] => ClusterSpecifier::Cluster(only.cluster.to_string()),
        several => ClusterSpecifier::WeightedClusters(WeightedCluster {
            // Envoy rejects a weight of 0: no connection goes there, as asked.
            clusters: several
                .iter()
                .filter(|one| one.weight > 0)
                .map(|one| ClusterWeight { name: one.cluster.to_string(), weight: one.weight, ..Default::default() })
                .collect(),
        }),
    };
    let proxy = tcp_proxy_v3::TcpProxy {
        stat_prefix: names::stat_prefix(id),
        cluster_specifier: Some(cluster),
        ..Default::default()
    };
    listener_v3::Filter {
        name: "envoy.filters.network.tcp_proxy".to_owned(),
        config_type: Some(listener_v3::filter::ConfigType::TypedConfig(wire::any(&proxy))),
    }
}

/// Forwards UDP datagrams. Those of one client go to one endpoint.
fn udp(id: &ListenerId, bind: &Bind, to: &Datagrams, settings: &Settings) -> listener_v3::Listener {
    use matcher_v3::matcher::{OnMatch, on_match};
    use udp_proxy_v3::udp_proxy_config::RouteSpecifier;
    let route = udp_proxy_v3::Route { cluster: to.cluster.to_string() };
    let action = xds_core_v3::TypedExtensionConfig { name: "route".to_owned(), typed_config: Some(wire::any(&route)) };
    let matcher = matcher_v3::Matcher {
        on_no_match: Some(Box::new(OnMatch {
            on_match: Some(on_match::OnMatch::Action(action)),
            ..Default::default()
        })),
        matcher_type: None,
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::envoy::build;
    use crate::model::{Listener, WeightedCluster};
    use crate::testing::envoy::{standalone, validate};
    use crate::testing::model;

    fn to(weights: &[u32]) -> Connections {
        let clusters = ["shop/cart/http", "shop/tls/443", "shop/ip/h2c"].iter().zip(weights);
        let weighted = |(name, weight): (&&str, &u32)| WeightedCluster::new(model::cluster_id(name), *weight);
        Connections { clusters: clusters.map(weighted).collect(), origin: ObjectRef::new("TCPRoute", "shop", "cart") }
    }

    #[test]
    fn an_envoy_takes_listeners_of_every_kind() {
        let mut model = model::model();
        let hosts = BTreeMap::from([
            (Host::Exact("a.test".into()), to(&[1])),
            (Host::Wildcard("test".into()), to(&[1, 0, 2])),
            (Host::Any, to(&[1])),
        ]);
        let cluster = model::cluster_id("shop/cart/http");
        let udp = Datagrams { cluster, origin: ObjectRef::new("UDPRoute", "shop", "cart") };
        let traffic = [Traffic::TlsPassthrough(hosts), Traffic::Tcp(to(&[1, 1])), Traffic::Udp(udp)];
        for (port, traffic) in (10_000..).zip(traffic) {
            let bind = Bind { address: None, port };
            model.listeners.insert(ListenerId::new(&format!("other-{port}")), Listener { bind, traffic });
        }
        let settings = Settings::default();
        let resources = build(&model, &settings);
        let of_name = |name: &str| resources.iter().find(|one| &**one.name() == name).unwrap();
        let references = of_name("other-10000").references().clusters.clone();
        assert_eq!(references.iter().map(|name| &**name).collect::<Vec<_>>(), ["shop/cart/http", "shop/ip/h2c"]);
        assert_eq!(of_name("other-10002").references().clusters.len(), 1);
        let (udp, others): (Vec<_>, Vec<_>) = resources.into_iter().partition(|one| &**one.name() == "other-10002");
        validate(&standalone(&others, &settings)).unwrap();
        // The field that Envoy does not call deprecated is one that it calls work in progress.
        let warning = validate(&standalone(&udp, &settings)).unwrap_err();
        assert!(warning.contains("UdpProxyConfig.matcher") && warning.lines().count() == 1, "{warning}");
    }
}
