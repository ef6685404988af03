#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::google::protobuf::Any;
use prost::Message;
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor};
use serde_json::{Value as Json, json};

use super::*;
use crate::protobuf::{canonical, pool};

const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

/// A typical https listener: SNI, certificates by SDS, routes by RDS, a filter, and an access log.
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
                            "log_format": {"json_format": {"status": "%RESPONSE_CODE%", "deep": {"list": [1, 2.5, true, null]}}},
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

/// Adds the type of clusters to `fields`.
fn cluster(fields: Json) -> Json {
    let mut cluster = json!({"@type": CLUSTER, "name": "cart"});
    cluster.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    cluster
}

/// Parses and prints `json`.
fn round_trip(json: &Json) -> Json {
    let read = from_json(json).unwrap();
    let mut printed = to_json(read.full_name(), &read.message);
    printed.as_object_mut().unwrap().insert("@type".into(), read.type_url.into());
    printed
}

#[test]
fn a_recreated_listener_serves_again() {
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
fn numbers_may_be_text_and_64_bit_numbers_are_printed_as_text() {
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
fn an_error_names_the_field_and_a_suggestion() {
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
        "filter_chains[0].filters[0].typed_config.codec_type: \"HTTP4\" is not a value of envoy.extensions.filters.\
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
        "connect_timeout: the same field is already set as \"connectTimeout\""
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
        "load_assignment.@type: the type is always envoy.config.endpoint.v3.ClusterLoadAssignment: leave it out"
    );
    assert_eq!(error(json!(["x"])), "expected an object with \"@type\", found a list");
    assert_eq!(
        error(json!({"@type": "envoy.config.cluster.v3.Cluster"})),
        "@type: \"envoy.config.cluster.v3.Cluster\" is not a type URL: \"type.googleapis.com/\" is missing"
    );
}

#[test]
fn null_counts_as_absent() {
    assert_eq!(
        from_json(&cluster(json!({"connect_timeout": null, "health_checks": null}))),
        from_json(&cluster(json!({})))
    );
}

#[test]
fn messages_with_a_special_form_are_in_value() {
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
    assert_eq!(error(beside), "x: only \"value\" is allowed beside this \"@type\"");
}

#[test]
fn unknown_types_keep_their_bytes() {
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

/// Returns a message of this type with as many fields as possible, down to `depth`.
fn sample(message: &MessageDescriptor, depth: usize) -> Json {
    match message.full_name() {
        "google.protobuf.Any" => return json!({"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1s"}),
        "google.protobuf.Duration" => return "1.5s".into(),
        "google.protobuf.Timestamp" => return "2026-01-02T03:04:05.600Z".into(),
        "google.protobuf.FieldMask" => return "a,bC".into(),
        "google.protobuf.Struct" => return json!({"b": [1.5, null], "a": {"x": true}}),
        "google.protobuf.ListValue" => return json!([1.5, "x"]),
        "google.protobuf.Value" => return "x".into(),
        name if super::read::is_wrapper(name) => return single(&message.get_field(1).unwrap().kind(), 0),
        _ => {}
    }
    let mut oneofs = std::collections::BTreeSet::new();
    let mut fields = serde_json::Map::new();
    for field in message.fields() {
        let kind = field.kind();
        let leaf = depth == 0 && matches!(kind, Kind::Message(_));
        // A scalar of 0 is not written.
        let zero = matches!(&kind, Kind::Enum(kind) if kind.values().all(|value| value.number() == 0));
        let taken = |oneof: prost_reflect::OneofDescriptor| !oneofs.insert(oneof.name().to_owned());
        if leaf || zero || field.is_group() || field.containing_oneof().is_some_and(taken) {
            continue;
        }
        let value = match kind {
            Kind::Message(entry) if field.is_map() => {
                let key = match entry.map_entry_key_field().kind() {
                    Kind::String => ["b", "a"],
                    Kind::Bool => ["true", "false"],
                    _ => ["2", "1"],
                };
                let value = single(&entry.map_entry_value_field().kind(), depth);
                json!({key[0]: value, key[1]: value})
            }
            kind if field.is_list() => json!([single(&kind, depth), single(&kind, depth)]),
            kind => single(&kind, depth),
        };
        fields.insert(field.name().to_owned(), value);
    }
    Json::Object(fields)
}

fn single(kind: &Kind, depth: usize) -> Json {
    match kind {
        Kind::Message(message) => sample(message, depth.saturating_sub(1)),
        Kind::Enum(kind) => kind.values().last().unwrap().name().into(),
        Kind::Bool => true.into(),
        Kind::String => "text".into(),
        Kind::Bytes => "AAH/".into(),
        Kind::Float | Kind::Double => json!(0.1),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => json!(-7),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => "-7".into(),
        Kind::Uint32 | Kind::Fixed32 => json!(7),
        Kind::Uint64 | Kind::Fixed64 => "7".into(),
    }
}

#[test]
fn every_type_of_the_pool_survives_a_round_trip() {
    let mut seen = 0;
    let messages = pool().all_messages().filter(|message| !message.is_map_entry());
    for message in messages.filter(|message| !message.full_name().starts_with("google.protobuf.")) {
        let mut json = sample(&message, 2);
        json["@type"] = format!("type.googleapis.com/{}", message.full_name()).into();
        let read = from_json(&json).unwrap_or_else(|error| panic!("{}: {error}", message.full_name()));
        assert_eq!(round_trip(&json), json, "{}", message.full_name());
        assert_eq!(canonical(read.full_name(), &read.message), read.message, "{}", message.full_name());
        to_json_redacted(read.full_name(), &read.message);
        // Another JSON parser produces the same bytes, after its maps are sorted.
        json.as_object_mut().unwrap().remove("@type");
        let other = DynamicMessage::deserialize(message.clone(), &json).unwrap();
        assert_eq!(canonical(message.full_name(), &other.encode_to_vec()), read.message, "{}", message.full_name());
        seen += 1;
    }
    assert!(seen > 1400, "{seen}");
}

#[test]
fn deep_messages_are_rejected() {
    let any = "type.googleapis.com/google.protobuf.Any";
    let mut json = json!({"@type": any, "value": {}});
    let mut deep = Any::default();
    for _ in 0..2000 {
        deep = Any { type_url: any.into(), value: deep.encode_to_vec() };
    }
    for _ in 0..120 {
        json = json!({"@type": any, "value": json});
    }
    // The stack size of a runtime thread.
    let thread = std::thread::Builder::new().stack_size(2 << 20).spawn(move || {
        assert!(to_json("google.protobuf.Any", &deep.encode_to_vec()).to_string().len() > 1000);
        let read = from_json(&json).unwrap();
        to_json(read.full_name(), &read.message);
        for _ in 0..120 {
            json = json!({"@type": any, "value": json});
        }
        assert!(from_json(&json).unwrap_err().message.contains("too deep"));
        let mut structure = json!({});
        for _ in 0..120 {
            structure = json!({"x": structure});
        }
        let structure = json!({"@type": "type.googleapis.com/google.protobuf.Struct", "value": structure});
        assert!(from_json(&structure).is_err());
    });
    thread.unwrap().join().unwrap();
}
