#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::HashMap;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::google::protobuf::{Any, Struct, Value, value};
use proptest::prelude::*;
use prost::{Message, Name};

use super::*;
use crate::snapshot::ResourceType;

const TYPES: [ResourceType; 7] = [
    ResourceType::CLUSTER,
    ResourceType::ENDPOINTS,
    ResourceType::LISTENER,
    ResourceType::ROUTES,
    ResourceType::SECRET,
    ResourceType::SCOPED_ROUTES,
    ResourceType::VIRTUAL_HOST,
];

fn any<M: Message + Name>(message: &M) -> Any {
    Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

fn structure(entries: &[(String, f64)]) -> Struct {
    let number = |n: f64| Value { kind: Some(value::Kind::NumberValue(n)) };
    let inner = |n: f64| Value {
        kind: Some(value::Kind::StructValue(Struct {
            fields: [("b".into(), number(n)), ("a".into(), number(n))].into(),
        })),
    };
    Struct { fields: entries.iter().map(|(key, n)| (key.clone(), inner(*n))).collect() }
}

/// A cluster with maps, and an `Any` with maps.
fn cluster(entries: &[(String, f64)]) -> cluster_v3::Cluster {
    let metadata = core_v3::Metadata {
        filter_metadata: entries.iter().map(|(key, _)| (key.clone(), structure(entries))).collect(),
        ..Default::default()
    };
    let options: HashMap<String, Any> =
        entries.iter().map(|(key, _)| (key.clone(), any(&core_v3::Metadata { ..metadata.clone() }))).collect();
    cluster_v3::Cluster {
        name: "cart".into(),
        metadata: Some(metadata),
        typed_extension_protocol_options: options,
        ..Default::default()
    }
}

/// Wraps `cluster` in a listener, in three layers of `Any`.
fn listener(cluster: &cluster_v3::Cluster) -> listener_v3::Listener {
    let routes = route_v3::RouteConfiguration {
        name: "r".into(),
        virtual_hosts: vec![route_v3::VirtualHost {
            name: "v".into(),
            typed_per_filter_config: [("z".to_owned(), any(cluster)), ("a".to_owned(), any(cluster))].into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let hcm = hcm_v3::HttpConnectionManager {
        route_specifier: Some(hcm_v3::http_connection_manager::RouteSpecifier::RouteConfig(routes)),
        ..Default::default()
    };
    let filter = listener_v3::Filter {
        name: "hcm".into(),
        config_type: Some(listener_v3::filter::ConfigType::TypedConfig(any(&hcm))),
    };
    let chain = listener_v3::FilterChain { filters: vec![filter], ..Default::default() };
    listener_v3::Listener { name: "l".into(), filter_chains: vec![chain], ..Default::default() }
}

fn canon<M: Message + Name>(message: &M) -> Vec<u8> {
    canonical(&M::full_name(), &message.encode_to_vec())
}

#[test]
fn every_resource_type_is_known_under_any_prefix() {
    for kind in TYPES {
        let same = known_type_url(kind.url()).unwrap();
        assert_eq!(same, kind.url());
        assert_eq!(known_type_url(&format!("a.test/b/{}", kind.full_name())), Some(same));
        assert!(std::ptr::eq(known_type_url(kind.url()).unwrap(), same), "not interned");
        assert_eq!(known_type_url(kind.full_name()), None);
    }
    assert_eq!(known_type_url("type.googleapis.com/envoy.Nothing"), None);
    assert_eq!(known_type_url(""), None);
    assert_eq!(known_type_url("/"), None);
}

#[test]
fn the_pool_contains_all_envoy_messages_with_their_options() {
    assert!(pool().all_messages().len() > 1500);
    for name in [
        "envoy.extensions.clusters.dynamic_forward_proxy.v3.ClusterConfig",
        "envoy.service.discovery.v3.DiscoveryRequest",
        "envoy.service.status.v3.ClientStatusResponse",
        "envoy.admin.v3.ConfigDump",
        "envoy.config.bootstrap.v3.Bootstrap",
        "google.rpc.Status",
    ] {
        assert!(pool().get_message_by_name(name).is_some(), "{name}");
    }
    let rules = pool().get_extension_by_name("validate.rules").unwrap();
    let cluster = pool().get_message_by_name("envoy.config.cluster.v3.Cluster").unwrap();
    let timeout = cluster.get_field_by_name("connect_timeout").unwrap();
    assert!(timeout.options().has_extension(&rules));
}

#[test]
fn map_entries_are_sorted_at_the_position_of_the_first() {
    // Like FilterState: field 1 is a map<string, Struct>, and field 9 is unknown.
    let entry = |key: &str| [&[0x0a, 3, 0x0a, 1], key.as_bytes()].concat();
    let unknown = [0x4a, 1, b'x'];
    let given = [&entry("b")[..], &unknown, &entry("c"), &entry("a"), &unknown].concat();
    let wanted = [&entry("a")[..], &entry("b"), &entry("c"), &unknown, &unknown].concat();
    assert_eq!(canonical("envoy.config.core.v3.Metadata", &given), wanted);
    assert_eq!(canonical("envoy.config.core.v3.Metadata", &wanted), wanted);
    // Types without maps and unknown types are unchanged.
    assert_eq!(canonical("envoy.config.core.v3.Address", &given), given);
    assert_eq!(canonical("no.Such", &given), given);
}

#[test]
fn the_last_of_two_entries_with_one_key_counts() {
    let with = |n: f64| Struct { fields: [("k".to_owned(), Value { kind: Some(value::Kind::NumberValue(n)) })].into() };
    let two = [with(2.0).encode_to_vec(), with(1.0).encode_to_vec()].concat();
    assert_eq!(Struct::decode(&*canonical("google.protobuf.Struct", &two)).unwrap(), with(1.0));
}

#[test]
fn malformed_bytes_are_unchanged() {
    let good = listener(&cluster(&[("b".into(), 1.0), ("a".into(), 2.0)])).encode_to_vec();
    for cut in 1..good.len() {
        let bytes = &good[..cut];
        let same = canonical("envoy.config.listener.v3.Listener", bytes);
        assert_eq!(same.len(), bytes.len());
        if listener_v3::Listener::decode(bytes).is_err() {
            assert_eq!(same, bytes);
        }
    }
    assert_eq!(canonical("google.protobuf.Struct", &[0xff; 12]), [0xff; 12]);
}

#[test]
fn endless_nesting_is_rejected() {
    let mut deep = Any::default();
    for _ in 0..2000 {
        deep = any(&deep);
    }
    let bytes = deep.encode_to_vec();
    assert_eq!(canonical("google.protobuf.Any", &bytes), bytes);
}

#[test]
fn only_the_type_of_a_cluster_determines_eds() {
    use cluster_v3::cluster::{ClusterDiscoveryType, CustomClusterType, DiscoveryType};
    let with = |kind| cluster_v3::Cluster { cluster_discovery_type: kind, ..cluster(&[]) }.encode_to_vec();
    assert!(is_eds_cluster(&with(Some(ClusterDiscoveryType::Type(DiscoveryType::Eds as i32)))));
    assert!(!is_eds_cluster(&with(Some(ClusterDiscoveryType::Type(DiscoveryType::StrictDns as i32)))));
    assert!(!is_eds_cluster(&with(Some(ClusterDiscoveryType::ClusterType(CustomClusterType::default())))));
    assert!(!is_eds_cluster(&with(None)));
    assert!(!is_eds_cluster(&[0xff]));
}

proptest! {
    #[test]
    fn equal_messages_have_equal_bytes(mut entries in prop::collection::vec(("[a-z]{0,3}", -9.0..9.0f64), 0..8)) {
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        entries.dedup_by(|a, b| a.0 == b.0);
        let one = listener(&cluster(&entries));
        entries.reverse();
        // New maps have another iteration order.
        let other = listener(&cluster(&entries));
        let bytes = canon(&one);
        prop_assert_eq!(&bytes, &canon(&other));
        prop_assert_eq!(&bytes, &canonical("envoy.config.listener.v3.Listener", &bytes));
        // Only the order has changed. Maps inside of `Any` must be decoded to be compared.
        let decoded = listener_v3::Listener::decode(&*bytes).unwrap();
        prop_assert_eq!(decoded_cluster(&decoded), decoded_cluster(&one));
        prop_assert_eq!(bytes.len(), one.encoded_len());
        prop_assert_eq!(cluster_v3::Cluster::decode(&*canon(&cluster(&entries))).unwrap().metadata, cluster(&entries).metadata);
    }

    #[test]
    fn no_bytes_cause_a_panic(bytes in prop::collection::vec(any_byte(), 0..60)) {
        for name in ["google.protobuf.Any", "google.protobuf.Struct", "envoy.config.cluster.v3.Cluster"] {
            prop_assert_eq!(canonical(name, &bytes).len(), bytes.len());
        }
        is_eds_cluster(&bytes);
    }
}

/// Mostly small numbers, so that some tags and lengths are valid.
fn any_byte() -> impl Strategy<Value = u8> {
    prop_oneof![3 => 0u8..32, 1 => proptest::prelude::any::<u8>()]
}

/// A key, the metadata of its cluster, and the metadata in the options of that cluster.
type Hidden = (String, core_v3::Metadata, Vec<(String, core_v3::Metadata)>);

/// Returns the clusters inside of a [`listener`], with all their maps decoded.
fn decoded_cluster(listener: &listener_v3::Listener) -> Vec<Hidden> {
    let Some(listener_v3::filter::ConfigType::TypedConfig(hcm)) = &listener.filter_chains[0].filters[0].config_type
    else {
        panic!("no HCM");
    };
    let hcm = hcm_v3::HttpConnectionManager::decode(&*hcm.value).unwrap();
    let Some(hcm_v3::http_connection_manager::RouteSpecifier::RouteConfig(routes)) = hcm.route_specifier else {
        panic!("no routes");
    };
    let mut clusters: Vec<_> = routes.virtual_hosts[0]
        .typed_per_filter_config
        .iter()
        .map(|(key, any)| {
            let cluster = cluster_v3::Cluster::decode(&*any.value).unwrap();
            let options = cluster.typed_extension_protocol_options.iter();
            let mut options: Vec<_> =
                options.map(|(key, any)| (key.clone(), core_v3::Metadata::decode(&*any.value).unwrap())).collect();
            options.sort_by(|a, b| a.0.cmp(&b.0));
            (key.clone(), cluster.metadata.unwrap(), options)
        })
        .collect();
    clusters.sort_by(|a, b| a.0.cmp(&b.0));
    clusters
}
