//! Envoy's runtime flags, as a layer to which every Envoy subscribes by RTDS. `lockgate bootstrap` writes the
//! subscription.
//!
//! Some limits of Envoy exist only as flags. The layer changes them at runtime without a change of a listener.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::service::runtime::v3 as runtime_v3;
use envoy_types::pb::google::protobuf as google;
use lockgate_xds::snapshot::Resource;
use serde_json::Value;

use super::{names, services, stats};
use crate::model::{ListenerId, Model, Traffic};
use crate::settings::Settings;

/// The flag of the largest answer to a request of Envoy itself, in bytes.
const ANSWERS: &str = "http.async_response_buffer_limit";

/// Builds the layer. It exists even without flags, because Envoy waits for it.
pub fn resource(model: &Model, settings: &Settings) -> Resource {
    Resource::new(names::RUNTIME, &runtime(&listeners(model), &streams(model), settings), vec![])
}

/// Returns the sorted names of the listeners for clients. The HTTP/3 listener of Ingresses is always included.
fn listeners(model: &Model) -> BTreeSet<&str> {
    let http3 = model.listeners.values().filter_map(|listener| match &listener.traffic {
        Traffic::Https(tls) => tls.http3.as_ref(),
        _ => None,
    });
    model.listeners.keys().chain(http3).map(ListenerId::as_str).chain([ListenerId::HTTP3]).collect()
}

/// Returns the listeners that forward connections. A loop of connections has no mark, so it must not use up those of Envoy.
fn streams(model: &Model) -> BTreeSet<&str> {
    let is_stream = |traffic: &Traffic| matches!(traffic, Traffic::Tls(_) | Traffic::Tcp(_));
    model.listeners.iter().filter(|(_, listener)| is_stream(&listener.traffic)).map(|(id, _)| id.as_str()).collect()
}

/// Builds the layer's message. A flag that represents another setting takes precedence over the `runtime` setting.
pub fn runtime(listeners: &BTreeSet<&str>, streams: &BTreeSet<&str>, settings: &Settings) -> runtime_v3::Runtime {
    let mut flags: BTreeMap<String, Value> = settings.runtime.clone();
    flags.entry(ANSWERS.to_owned()).or_insert(services::MAX_ANSWER_BYTES.into());
    if let Some(limit) = settings.http.max_requests_per_io_cycle {
        flags.insert("http.max_requests_per_io_cycle".to_owned(), limit.into());
    }
    let readiness = (settings.listeners.readiness.port != 0).then_some(names::READINESS);
    for listener in [names::STATS, names::STATS_TLS, names::OVERLOAD_PROBE, names::ADMIN].into_iter().chain(readiness) {
        flags.insert(connection_limit(listener), stats::CONNECTIONS.into());
    }
    for listener in streams {
        flags.insert(connection_limit(listener), settings.tenants.max_connections_per_listener.into());
    }
    if let Some(limit) = settings.listeners.max_connections {
        for listener in listeners {
            flags.insert(connection_limit(listener), limit.into());
        }
    }
    let fields = flags.into_iter().map(|(key, value)| (key, protobuf_value(value))).collect();
    runtime_v3::Runtime { name: names::RUNTIME.to_owned(), layer: Some(google::Struct { fields }) }
}

fn connection_limit(listener: &str) -> String {
    format!("envoy.resource_limits.listener.{listener}.connection_limit")
}

fn protobuf_value(value: Value) -> google::Value {
    use google::value::Kind;
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(flag) => Kind::BoolValue(flag),
        Value::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or_default()),
        Value::String(text) => Kind::StringValue(text),
        Value::Array(items) => {
            Kind::ListValue(google::ListValue { values: items.into_iter().map(protobuf_value).collect() })
        }
        Value::Object(fields) => Kind::StructValue(google::Struct {
            fields: fields.into_iter().map(|(name, value)| (name, protobuf_value(value))).collect(),
        }),
    };
    google::Value { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::settings::{Http, Listeners};

    #[test]
    fn the_layer_limits_listeners_of_operators_and_tenants() {
        let layer = runtime(&BTreeSet::new(), &BTreeSet::from(["tcp"]), &Settings::default()).layer.unwrap();
        let limits = ["admin", "overload-probe", "stats", "stats-tls", "tcp"];
        let flags: BTreeSet<String> = layer.fields.into_keys().collect();
        let expected: BTreeSet<String> = limits.into_iter().map(connection_limit).chain([ANSWERS.to_owned()]).collect();
        assert_eq!(flags, expected);
    }

    #[test]
    fn a_setting_takes_precedence_over_a_runtime_flag_of_the_same_name() {
        let written =
            [("http.max_requests_per_io_cycle", 9), (ANSWERS, 7), ("overload.global_downstream_max_connections", 5)];
        let settings = Settings {
            http: Http { max_requests_per_io_cycle: Some(1), ..Http::default() },
            listeners: Listeners { max_connections: Some(70), ..Listeners::default() },
            runtime: written.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect(),
            ..Settings::default()
        };
        let fields = runtime(&BTreeSet::from(["http", "https", "http3"]), &BTreeSet::from(["https"]), &settings)
            .layer
            .unwrap()
            .fields;
        let number = |key: &str| match fields[key].kind {
            Some(google::value::Kind::NumberValue(number)) => number,
            _ => f64::NAN,
        };
        assert_eq!(number("http.max_requests_per_io_cycle"), 1.0);
        assert_eq!(number("overload.global_downstream_max_connections"), 5.0);
        assert_eq!(number("envoy.resource_limits.listener.https.connection_limit"), 70.0);
        assert_eq!(number(ANSWERS), 7.0);
        assert_eq!(fields.len(), 10);
    }
}
