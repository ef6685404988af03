//! Tracing: spans in OpenTelemetry format.

use std::time::Duration;

use envoy_types::pb::envoy::config::trace::v3 as trace_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::r#type::tracing::v3 as tracing_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;

use super::{names, services, wire};
use crate::settings::{Sampling, TagValue, Tracing};

/// The timeout of the collector for a batch of spans.
const EXPORT_TIMEOUT: Duration = Duration::from_secs(5);

/// Builds the tracing configuration of a connection manager. Returns `None` without a collector.
///
/// Each incoming and each outgoing request has a span, because Envoy is a hop of its own.
pub fn tracing(settings: &Tracing) -> Option<hcm_v3::http_connection_manager::Tracing> {
    let Tracing { endpoint, service_name, sampling, max_path_tag_length, custom_tags, pod_detail } = settings;
    endpoint.as_ref()?;
    let Sampling { overall, client, random } = *sampling;
    let percent = |value| Some(type_v3::Percent { value });
    let provider = trace_v3::OpenTelemetryConfig {
        grpc_service: Some(services::grpc(names::TRACING_CLUSTER, EXPORT_TIMEOUT)),
        service_name: service_name.clone(),
        ..Default::default()
    };
    let pod = [("pod.name", "POD_NAME"), ("pod.namespace", "POD_NAMESPACE")];
    let pod = pod.into_iter().filter(|_| *pod_detail).map(|(tag, variable)| environment(tag, variable));
    Some(hcm_v3::http_connection_manager::Tracing {
        client_sampling: percent(client),
        random_sampling: percent(random),
        overall_sampling: percent(overall),
        max_path_tag_length: Some(wire::uint32(*max_path_tag_length)),
        custom_tags: custom_tags.iter().map(|(tag, value)| custom_tag(tag, value)).chain(pod).collect(),
        provider: Some(trace_v3::tracing::Http {
            name: "envoy.tracers.opentelemetry".to_owned(),
            config_type: Some(trace_v3::tracing::http::ConfigType::TypedConfig(wire::any(&provider))),
        }),
        spawn_upstream_span: Some(wire::boolean(true)),
        ..Default::default()
    })
}

fn custom_tag(tag: &str, value: &TagValue) -> tracing_v3::CustomTag {
    use tracing_v3::custom_tag::{Header, Literal, Type};
    let value = match value {
        TagValue::Literal(value) => Type::Literal(Literal { value: value.clone() }),
        TagValue::RequestHeader(name) => {
            Type::RequestHeader(Header { name: name.clone(), default_value: String::new() })
        }
    };
    tracing_v3::CustomTag { tag: tag.to_owned(), r#type: Some(value) }
}

/// Builds a tag with the value of a variable in Envoy's environment. Envoy omits a tag without a value.
fn environment(tag: &str, variable: &str) -> tracing_v3::CustomTag {
    use tracing_v3::custom_tag::{Environment, Type};
    let value = Environment { name: variable.to_owned(), default_value: String::new() };
    tracing_v3::CustomTag { tag: tag.to_owned(), r#type: Some(Type::Environment(value)) }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::settings::ServiceAddress;

    fn to(host: &str) -> Tracing {
        Tracing { endpoint: Some(ServiceAddress { host: host.to_owned(), port: 4317 }), ..Tracing::default() }
    }

    #[test]
    fn without_a_collector_nothing_is_traced() {
        assert!(tracing(&Tracing::default()).is_none());
    }

    #[test]
    fn a_sampling_of_0_stays_0() {
        let sampling = Sampling { overall: 0.0, client: 0.0, random: 0.0 };
        let tracing = tracing(&Tracing { sampling, ..to("collector") }).unwrap();
        assert_eq!(tracing.overall_sampling.unwrap().value, 0.0);
        assert_eq!(tracing.random_sampling.unwrap().value, 0.0);
    }

    #[test]
    fn spans_name_the_pod_only_if_configured() {
        let tags = |pod_detail| tracing(&Tracing { pod_detail, ..to("collector") }).unwrap().custom_tags.len();
        assert_eq!((tags(true), tags(false)), (2, 0));
    }
}
