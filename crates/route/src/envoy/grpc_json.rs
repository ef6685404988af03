//! Requests with JSON that call methods of gRPC.
//!
//! The delegate behind all limits converts them, because everything before it sees the request of the client. Their bodies are held before, so that
//! the filter cannot hold more of them.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::grpc_json_transcoder::v3 as transcoder_v3;
use envoy_types::pb::xds::r#type::matcher::v3 as matcher_v3;
use matcher_v3::matcher::matcher_list::Predicate;
use matcher_v3::string_matcher::MatchPattern;
use transcoder_v3::grpc_json_transcoder::DescriptorSet;

use super::{delegate, fault, wire};
use crate::model::{Faults, GrpcJson, Share};

/// The maximum number of parameters of a request. The filter looks up the field of each.
const PARAMETERS: usize = 24;
/// The answer to requests with more.
const STATUS: u16 = 414;

/// Builds the filter of a route.
pub fn of_route(json: &GrpcJson) -> core_v3::TypedExtensionConfig {
    let GrpcJson { descriptors, services, max_bytes } = json;
    let filter = transcoder_v3::GrpcJsonTranscoder {
        descriptor_set: Some(DescriptorSet::ProtoDescriptorBin(descriptors.to_vec())),
        services: services.iter().map(|service| service.to_string()).collect(),
        match_incoming_request_route: true,
        max_request_body_size: Some(wire::uint32(*max_bytes)),
        max_response_body_size: Some(wire::uint32(*max_bytes)),
        ..Default::default()
    };
    delegate::part("envoy.filters.http.grpc_json_transcoder", &filter)
}

/// Builds the condition on requests of gRPC, which are not converted.
pub fn is_grpc() -> Predicate {
    delegate::header("content-type", MatchPattern::Prefix("application/grpc".to_owned()))
}

/// Builds the condition on requests with too many parameters, and the filters that answer them.
pub fn refused() -> (Predicate, Vec<core_v3::TypedExtensionConfig>) {
    // `\C` is one byte. With a class of characters, the expression would have more than the 100 instructions that an Envoy without runtime flags
    // accepts.
    let pattern = format!("\\C*?\\?(?:\\C*?&){{{PARAMETERS}}}\\C*");
    let has_many = delegate::header(":path", MatchPattern::SafeRegex(delegate::regex(pattern)));
    let refusal = Faults { abort: Some((STATUS, Share::ALL)), ..Faults::default() };
    (has_many, vec![fault::of_route(&refusal)])
}
