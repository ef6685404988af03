#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;
use serde_json::{Value as Json, json};

use super::*;

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// An https listener as people have it: SNI, certificates by SDS, routes by RDS, a filter, an access log.
fn listener() -> Json {
    json!({
        "@type": "type.googleapis.com/envoy.config.listener.v3.Listener",
        "name": "https",
        "address": {"socket_address": {"address": "::", "port_value": 8443, "ipv4_compat": true}},
        "per_connection_buffer_limit_bytes": 32768,
        "listener_filters": [{
            "name": "tls",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.listener.tls_inspector.v3.TlsInspector",
            },
        }],
        "filter_chains": [{
            "filter_chain_match": {"server_names": ["shop.test"]},
            "transport_socket": {
                "name": "tls",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
                    "common_tls_context": {
                        "alpn_protocols": ["h2", "http/1.1"],
                        "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                        "tls_certificate_sds_secret_configs": [{
                            "name": "shop/cert", "sds_config": {"ads": {}, "resource_api_version": "V3"},
                        }],
                    },
                },
            },
            "filters": [{
                "name": "hcm",
                "typed_config": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
                    "stat_prefix": "https",
                    "rds": {
                        "route_config_name": "https",
                        "config_source": {
                            "ads": {}, "resource_api_version": "V3", "initial_fetch_timeout": "0.250s",
                        },
                    },
                    "http_filters": [{
                        "name": "router",
                        "typed_config": {
                            "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
                        },
                    }],
                    "use_remote_address": true,
                    "common_http_protocol_options": {"idle_timeout": "300s"},
                    "access_log": [{
                        "name": "stdout",
                        "typed_config": {
                            "@type": "type.googleapis.com/envoy.extensions.access_loggers.stream.v3.StdoutAccessLog",
                            "log_format": {"json_format": {"status": "%RESPONSE_CODE%", "deep": {"list": [1.0, true, null]}}},
                        },
                    }],
                },
            }],
        }],
    })
}

fn error(json: Json) -> String {
    from_json(&json).unwrap_err().to_string()
}

/// `fields` as those of a cluster.
fn cluster(fields: Json) -> Json {
    let mut cluster = json!({"@type": CLUSTER, "name": "cart"});
    cluster.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    cluster
}

/// What becomes of `json` there and back.
fn round_trip(json: &Json) -> Json {
    let read = from_json(json).unwrap();
    let mut printed = to_json(read.full_name(), &read.message);
    printed.as_object_mut().unwrap().insert("@type".into(), read.type_url.into());
    printed
}

#[test]
fn a_listener_comes_back_as_it_went() {
    let mut wanted = listener();
    wanted["filter_chains"][0]["filters"][0]["typed_config"]["rds"]["config_source"]["initial_fetch_timeout"] =
        "0.25s".into();
    assert_eq!(round_trip(&listener()), wanted);
    let read = from_json(&listener()).unwrap();
    assert_eq!(read.name.as_deref(), Some("https"));
    let typed = listener_v3::Listener::decode(&*read.message).unwrap();
    assert_eq!(typed.filter_chains[0].filters[0].name, "hcm");
    assert_eq!(typed.encode_to_vec(), read.message, "no maps outside of `Any` here: the encodings agree");
}

#[test]
fn the_order_of_fields_and_the_spelling_of_names_do_not_matter() {
    let snake = cluster(json!({"connect_timeout": "1s", "lb_policy": "LEAST_REQUEST", "type": "EDS"}));
    let camel = cluster(json!({"type": 3, "lbPolicy": 1, "connectTimeout": "1.000s"}));
    assert_eq!(from_json(&snake), from_json(&camel));
}

#[test]
fn numbers_may_be_text_and_64_bits_come_back_as_text() {
    let given = cluster(json!({"upstream_connection_options": {"tcp_keepalive": {"keepalive_time": "300"}},
        "circuit_breakers": {"thresholds": [{"max_connections": 1024.0}]},
        "common_lb_config": {"healthy_panic_threshold": {"value": 12.5}},
        "ring_hash_lb_config": {"minimum_ring_size": 18446744073709551615u64}}));
    let printed = round_trip(&given);
    assert_eq!(printed["upstream_connection_options"]["tcp_keepalive"]["keepalive_time"], 300);
    assert_eq!(printed["circuit_breakers"]["thresholds"][0]["max_connections"], 1024);
    assert_eq!(printed["common_lb_config"]["healthy_panic_threshold"]["value"], 12.5);
    assert_eq!(printed["ring_hash_lb_config"]["minimum_ring_size"], "18446744073709551615");
    assert_eq!(from_json(&printed), from_json(&given));
}

#[test]
fn an_error_names_the_field_and_what_may_be_meant() {
    let in_hcm = |key: &str, value: Json| {
        let mut listener = listener();
        listener["filter_chains"][0]["filters"][0]["typed_config"][key] = value;
        error(listener)
    };
    assert_eq!(
        in_hcm("stat_prefx", json!("x")),
        "filter_chains[0].filters[0].typed_config.stat_prefx: envoy.extensions.filters.network.\
         http_connection_manager.v3.HttpConnectionManager has no such field; perhaps \"stat_prefix\" is meant"
    );
    assert_eq!(
        in_hcm("codec_type", json!("HTTP4")),
        "filter_chains[0].filters[0].typed_config.codec_type: \"HTTP4\" is no value of envoy.extensions.filters.\
         network.http_connection_manager.v3.HttpConnectionManager.CodecType; known are AUTO, HTTP1, HTTP2, HTTP3"
    );
    assert_eq!(
        in_hcm("route_config", json!({"name": "x"})),
        "filter_chains[0].filters[0].typed_config.route_config: only one of \"rds\" and \"route_config\" may be given",
    );
    let mut wrong_type = listener();
    wrong_type["filter_chains"][0]["filters"][0]["typed_config"]["@type"] = "type.googleapis.com/envoy.No".into();
    assert_eq!(
        error(wrong_type),
        "filter_chains[0].filters[0].typed_config.@type: unknown type \"type.googleapis.com/envoy.No\""
    );
    let timeout = "expected a duration such as \"1.5s\", found";
    assert_eq!(error(cluster(json!({"connect_timeout": "5m"}))), format!("connect_timeout: {timeout} \"5m\""));
    assert_eq!(error(cluster(json!({"connect_timeout": 5}))), format!("connect_timeout: {timeout} 5"));
    assert_eq!(
        error(cluster(json!({"connectTimeout": "5s", "connect_timeout": "5s"}))),
        "connect_timeout: the same field is already given as \"connectTimeout\""
    );
    assert_eq!(error(cluster(json!({"name": 5}))), "name: expected text, found 5: quote it");
    assert_eq!(error(cluster(json!({"health_checks": {}}))), "health_checks: expected a list, found an object");
    assert_eq!(
        error(cluster(json!({"circuit_breakers": {"thresholds": [{"max_retries": 1}, {"max_retries": -1}]}}))),
        "circuit_breakers.thresholds[1].max_retries: expected a whole number from 0 to 4294967295, found -1"
    );
    assert_eq!(
        error(cluster(json!({"typed_extension_protocol_options": {"a.b": {"x": 1}}}))),
        "typed_extension_protocol_options[\"a.b\"]: \"@type\" is missing"
    );
    assert_eq!(
        error(cluster(json!({"load_assignment": {"@type": CLUSTER}}))),
        "load_assignment.@type: here is always a envoy.config.endpoint.v3.ClusterLoadAssignment, without \"@type\""
    );
    assert_eq!(error(json!(["x"])), "expected an object with \"@type\", found a list");
    assert_eq!(
        error(json!({"@type": "envoy.config.cluster.v3.Cluster"})),
        "@type: \"envoy.config.cluster.v3.Cluster\" is no type URL: \"type.googleapis.com/\" is missing"
    );
}

#[test]
fn null_is_as_good_as_absent() {
    assert_eq!(
        from_json(&cluster(json!({"connect_timeout": null, "health_checks": null}))),
        from_json(&cluster(json!({})))
    );
}

#[test]
fn messages_with_a_form_of_their_own_stand_in_value() {
    let any = |inner: Json| cluster(json!({"typed_extension_protocol_options": {"x": inner}}));
    for inner in [
        json!({"@type": "type.googleapis.com/google.protobuf.Duration", "value": "-1.5s"}),
        json!({"@type": "type.googleapis.com/google.protobuf.StringValue", "value": "text"}),
        json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": {"b": [1.5, "x", null], "a": {}}}),
        json!({"@type": "type.googleapis.com/google.protobuf.FieldMask", "value": "a,bC.d"}),
        json!({"@type": "type.googleapis.com/google.protobuf.Timestamp", "value": "2026-01-02T03:04:05Z"}),
        json!({"@type": "type.googleapis.com/google.protobuf.Any",
            "value": {"@type": "type.googleapis.com/google.protobuf.BytesValue", "value": "AAE="}}),
    ] {
        assert_eq!(round_trip(&any(inner.clone())), any(inner));
    }
    let beside = json!({"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s", "x": 1});
    assert_eq!(error(beside), "x: only \"value\" may stand beside this \"@type\"");
}

#[test]
fn what_is_of_unknown_type_keeps_its_bytes() {
    let any = Any { type_url: "a.test/no.Such".into(), value: vec![1, 2, 3] };
    let cluster =
        cluster_v3::Cluster { typed_extension_protocol_options: [("x".to_owned(), any)].into(), ..Default::default() };
    let bytes = cluster.encode_to_vec();
    let name = "envoy.config.cluster.v3.Cluster";
    let with =
        |value: &str| json!({"typed_extension_protocol_options": {"x": {"@type": "a.test/no.Such", "value": value}}});
    assert_eq!(to_json(name, &bytes), with("AQID"));
    assert_eq!(to_json_redacted(name, &bytes), with("[redacted]"));
    assert_eq!(to_json(name, &[0xff]), json!({"value": "/w=="}));
    assert_eq!(to_json_redacted(name, &[0xff]), json!({"value": "[redacted]"}));
}

#[test]
fn secrets_are_redacted_at_any_depth() {
    let secret = json!({
        "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret",
        "name": "shop/cert",
        "tls_certificate": {
            "certificate_chain": {"inline_string": "public"},
            "private_key": {"inline_bytes": "cHJpdmF0ZQ=="},
            "password": {"filename": "/private"},
        },
    });
    let read = from_json(&secret).unwrap();
    let redacted = to_json_redacted(read.full_name(), &read.message);
    assert_eq!(
        redacted["tls_certificate"],
        json!({
            "certificate_chain": {"inline_string": "public"},
            "private_key": {"inline_bytes": "[redacted]"},
            "password": {"filename": "[redacted]"},
        })
    );
    for kind in [
        json!({"session_ticket_keys": {"keys": [{"inline_string": "private"}]}}),
        json!({"generic_secret": {"secret": {"inline_string": "private"}}}),
    ] {
        let mut secret = json!({"@type": secret["@type"], "name": "x"});
        secret.as_object_mut().unwrap().extend(kind.as_object().unwrap().clone());
        let inner = json!({"@type": "type.googleapis.com/google.protobuf.Any", "value": secret});
        let outer = from_json(&cluster(json!({"typed_extension_protocol_options": {"x": inner}}))).unwrap();
        let plain = to_json(outer.full_name(), &outer.message).to_string();
        let redacted = to_json_redacted(outer.full_name(), &outer.message).to_string();
        assert!(plain.contains("private"), "{plain}");
        assert!(!redacted.contains("private") && redacted.contains("[redacted]"), "{redacted}");
    }
}
