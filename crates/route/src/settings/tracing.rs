//! Settings of tracing: OpenTelemetry, by OTLP over gRPC.

use super::Endpoint;

/// Spans for a collector, if there is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Tracing {
    /// The collector, which takes OTLP over gRPC; without one nothing is traced.
    pub endpoint: Option<Endpoint>,
    /// The service that spans are of.
    pub service_name: String,
    /// Which requests are traced.
    pub sampling: Sampling,
    /// How many bytes of the path a span has at most.
    pub max_path_tag_length: u32,
    /// Further tags, by their names.
    pub custom_tags: Vec<(String, TagValue)>,
    /// Whether spans have tags with the name and the namespace of Envoy's pod, from its environment (`POD_NAME`,
    /// `POD_NAMESPACE`).
    pub pod_detail: bool,
}

/// Which requests are traced, in percent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sampling {
    /// Of all, after everything else.
    pub overall: f64,
    /// Of those with the header `x-client-trace-id`.
    pub client: f64,
    /// Of those that ask for nothing.
    pub random: f64,
}

/// What a custom tag holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TagValue {
    /// Always this.
    Literal(String),
    /// The value of this header of the request.
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
