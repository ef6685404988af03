//! Requests that the backend receives when their body is complete.
//!
//! Envoy's filter alone does not limit a body that a filter before it has held already, so the limit of bodies precedes it.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::buffer::v3 as buffer_v3;

use super::{body_limit, delegate, wire};

/// Builds the filters of a route whose bodies of at most `bytes` are held. The last one waits.
pub fn of_route(bytes: u32) -> [core_v3::TypedExtensionConfig; 2] {
    let buffer = buffer_v3::Buffer { max_request_bytes: Some(wire::uint32(bytes)) };
    [body_limit::of_route(bytes), delegate::part("envoy.filters.http.buffer", &buffer)]
}
