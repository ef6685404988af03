//! Settings of tracing: OpenTelemetry, by OTLP over gRPC.

use super::ServiceAddress;

/// Tracing with a collector.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracing {
    /// The collector, which receives OTLP over gRPC. `None` disables tracing.
    pub endpoint: Option<ServiceAddress>,
    /// The service name of the spans.
    pub service_name: String,
    /// The sampling of requests.
    pub sampling: Sampling,
    /// The maximum length of the path in a span, in bytes.
    pub max_path_tag_length: u32,
    /// Additional tags by name.
    pub custom_tags: Vec<(String, TagValue)>,
    /// Whether spans have tags with the name and the namespace of Envoy's pod, from its environment (`POD_NAME`,
    /// `POD_NAMESPACE`).
    pub pod_detail: bool,
}

/// The percentages of traced requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Of all requests, after the other percentages.
    pub overall: f64,
    /// Of the requests with the header `x-client-trace-id`.
    pub client: f64,
    /// Of the requests without a sampling decision.
    pub random: f64,
}

/// The value of a custom tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagValue {
    /// A constant value.
    Literal(String),
    /// The value of this request header.
    RequestHeader(String),
}

impl Default for Tracing {
    fn default() -> Self {
        Self {
            endpoint: None,
            service_name: "lockgate".to_owned(),
            sampling: Sampling { overall: 100.0, client: 100.0, random: 100.0 },
            max_path_tag_length: 256,
            custom_tags: Vec::new(),
            pod_detail: true,
        }
    }
}
