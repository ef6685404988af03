#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use serde_json::{Value as Json, json};

use super::*;
use crate::protobuf::{EncodedMessage, from_json, known_type_url, pool, to_json};
use crate::snapshot::ResourceType;

fn url(name: &str) -> String {
    format!("type.googleapis.com/{name}")
}

/// Returns the message `fields`, and its version 2 form as JSON.
fn both(kind: ResourceType, mut fields: Json) -> (EncodedMessage, Json) {
    fields["@type"] = kind.url().into();
    let read = from_json(&fields).unwrap();
    let v2 = in_v2(kind.full_name(), &read.message);
    let printed = to_json(kind.full_name(), &v2);
    (read, printed)
}

#[test]
fn v2_every_served_type_that_version_2_had_has_its_name() {
    for (kind, v2) in [
        (ResourceType::CLUSTER, "envoy.api.v2.Cluster"),
        (ResourceType::ENDPOINTS, "envoy.api.v2.ClusterLoadAssignment"),
        (ResourceType::LISTENER, "envoy.api.v2.Listener"),
        (ResourceType::ROUTES, "envoy.api.v2.RouteConfiguration"),
        (ResourceType::SCOPED_ROUTES, "envoy.api.v2.ScopedRouteConfiguration"),
        (ResourceType::VIRTUAL_HOST, "envoy.api.v2.route.VirtualHost"),
        (ResourceType::SECRET, "envoy.api.v2.auth.Secret"),
        (ResourceType::RUNTIME, "envoy.service.discovery.v2.Runtime"),
    ] {
        assert_eq!(v2_url(kind.url()), Some(&*url(v2)));
        assert_eq!(ResourceType::of_url(&url(v2)), Some(kind), "{v2}");
        assert!(is_v2_url(&url(v2)) && !is_v2_url(kind.url()));
    }
    assert_eq!(v2_url(ResourceType::EXTENSION.url()), None, "it is new in version 3");
    assert!(!is_v2_url("type.googleapis.com/envoy.api.v2.Nothing"));
}

#[test]
fn v2_names_mean_one_type_each_and_never_one_of_version_3() {
    let all = (0..types().len()).map(|index| types().get(index as Index));
    let named: Vec<(&str, &str)> = all.filter_map(|known| Some((known.v2?, known.url))).collect();
    assert!(named.len() > 500, "{}", named.len());
    for (v2, of) in named {
        assert!(!v2.contains(".v3"), "{v2}");
        if pool().get_message_by_name(v2.rsplit('/').next().unwrap()).is_none() {
            assert_eq!(known_type_url(v2), Some(of));
        }
    }
    // The annotation contains the name of a message that never existed.
    assert_eq!(known_type_url(&url("envoy.config.filter.http.ext_authz.v3.ExtAuthz")), None);
    assert!(is_v2_url(&url("envoy.config.filter.http.ext_authz.v2.ExtAuthz")));
}

#[test]
fn v2_names_are_used_in_every_any_at_any_depth() {
    let router =
        json!({"@type": url("envoy.extensions.filters.http.router.v3.Router"), "suppress_envoy_headers": true});
    let fault = json!({"@type": url("envoy.extensions.filters.http.fault.v3.HTTPFault"), "upstream_cluster": "c"});
    let new_in_v3 = json!({"@type": url("envoy.extensions.filters.http.wasm.v3.Wasm"), "config": {"configuration":
        {"@type": url("envoy.extensions.filters.http.buffer.v3.Buffer"), "max_request_bytes": 7}}});
    let unknown = prost_types::Any { type_url: "a.test/no.Such".into(), value: vec![1, 2, 3] };
    let manager = json!({
        "@type": url("envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager"),
        "stat_prefix": "x".repeat(200),
        "route_config": {"virtual_hosts": [{"name": "v", "domains": ["*"],
            "typed_per_filter_config": {"a": fault, "b": new_in_v3}}]},
        "http_filters": [{"name": "f", "typed_config": fault}, {"name": "router", "typed_config": router}],
    });
    let tls = json!({"@type": url("envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext"),
        "require_client_certificate": true});
    let (read, printed) = both(
        ResourceType::LISTENER,
        json!({"name": "l", "filter_chains": [{"filters": [{"name": "http", "typed_config": manager}],
            "transport_socket": {"name": "tls", "typed_config": tls}}]}),
    );
    let chain = &printed["filter_chains"][0];
    let manager = &chain["filters"][0]["typed_config"];
    let host = &manager["route_config"]["virtual_hosts"][0]["typed_per_filter_config"];
    let hcm = "envoy.config.filter.network.http_connection_manager.v2.HttpConnectionManager";
    assert_eq!(manager["@type"], url(hcm));
    assert_eq!(manager["http_filters"][0]["typed_config"]["@type"], url("envoy.config.filter.http.fault.v2.HTTPFault"));
    assert_eq!(manager["http_filters"][1]["typed_config"]["@type"], url("envoy.config.filter.http.router.v2.Router"));
    assert_eq!(host["a"]["@type"], url("envoy.config.filter.http.fault.v2.HTTPFault"));
    assert_eq!(host["b"]["@type"], url("envoy.extensions.filters.http.wasm.v3.Wasm"), "new in version 3");
    let buffer = &host["b"]["config"]["configuration"];
    assert_eq!(buffer["@type"], url("envoy.config.filter.http.buffer.v2.Buffer"));
    assert_eq!(chain["transport_socket"]["typed_config"]["@type"], url("envoy.api.v2.auth.DownstreamTlsContext"));

    // It decodes to the same message, so nothing else has changed.
    let mut again = printed.clone();
    again["@type"] = url("envoy.api.v2.Listener").into();
    let again = from_json(&again).unwrap();
    assert_eq!((again.type_url, &again.message), (ResourceType::LISTENER.url(), &read.message));

    use prost::Message;
    let unknown = unknown.encode_to_vec();
    assert_eq!(in_v2("google.protobuf.Any", &unknown), unknown);
    assert_eq!(in_v2("no.Such", b"x"), b"x");
    let broken = &read.message[..read.message.len() - 1];
    assert_eq!(in_v2(ResourceType::LISTENER.full_name(), broken), broken, "no message: it stays as it is");
}

#[test]
fn v7_unknown_fields_of_resources_are_preserved() {
    // Field 9,999 as a number, and a group, around a TLS context in an `Any`.
    let any = prost_types::Any { type_url: url("envoy.extensions.filters.http.router.v3.Router"), value: vec![] };
    let mut bytes = vec![0xf8, 0xf0, 0x04, 0x05];
    let socket = prost::Message::encode_to_vec(&any);
    bytes.extend([0x0b, 0x10, 0x01, 0x0c, 0x1a, socket.len() as u8]);
    bytes.extend(&socket);
    let v2 = in_v2("envoy.config.core.v3.TransportSocket", &bytes);
    assert_eq!(v2[..8], bytes[..8]);
    let name = b"type.googleapis.com/envoy.config.filter.http.router.v2.Router";
    assert!(v2.ends_with(name), "{v2:?}");
    assert_eq!(v2[8..12], [0x1a, name.len() as u8 + 2, 0x0a, name.len() as u8]);
}

#[test]
fn v2_names_are_used_in_typed_structs() {
    let typed = json!({"@type": url("xds.type.v3.TypedStruct"),
        "type_url": url("envoy.extensions.filters.http.fault.v3.HTTPFault"), "value": {"upstream_cluster": "c"}});
    let filter = json!({"name": "f", "typed_config": typed});
    let (_, printed) = both(ResourceType::EXTENSION, filter);
    let expected = json!({"@type": url("udpa.type.v1.TypedStruct"),
        "type_url": url("envoy.config.filter.http.fault.v2.HTTPFault"), "value": {"upstream_cluster": "c"}});
    assert_eq!(printed["typed_config"], expected);
}

#[test]
fn messages_of_the_xds_protos_can_be_read_and_printed() {
    let action = json!({"action": {"name": "a", "typed_config":
        {"@type": url("envoy.config.route.v3.NonForwardingAction")}}});
    for message in [
        json!({"@type": url("xds.type.v3.TypedStruct"), "type_url": "a/b", "value": {"c": [1]}}),
        json!({"@type": url("udpa.type.v1.TypedStruct"), "type_url": "a/b", "value": {}}),
        json!({"@type": url("xds.type.matcher.v3.CelMatcher"), "expr_match": {"cel_expr_string": "true"}}),
        json!({"@type": url("xds.type.matcher.v3.HttpAttributesCelMatchInput")}),
        json!({"@type": url("xds.type.matcher.v3.IPMatcher"), "range_matchers": [{
            "ranges": [{"address_prefix": "192.0.2.0", "prefix_len": 24}], "on_match": action, "exclusive": true}]}),
        json!({"@type": url("xds.type.matcher.v3.ServerNameMatcher"),
            "domain_matchers": [{"domains": ["*.test"], "on_match": action}]}),
        json!({"@type": url("xds.type.matcher.v3.Int32RangeMatcher"),
            "range_matchers": [{"ranges": [{"start": 1, "end": 3}], "on_match": action}]}),
    ] {
        let read = from_json(&message).unwrap();
        let mut printed = to_json(read.full_name(), &read.message);
        printed["@type"] = message["@type"].clone();
        assert_eq!(printed, message);
    }
}
