//! The guard against requests that return to the installation: through a load balancer, a node, or another proxy.
//!
//! The filter adds a mark to the header `cdn-loop` of each request, and answers a request that has the mark already with 502, or more
//! often than [`Http::returns`](crate::settings::Http). No object of a tenant can change the header. Source: RFC 8586.

use envoy_types::pb::envoy::extensions::filters::http::cdn_loop::v3 as cdn_loop_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;

use super::wire;

/// Builds the HTTP filter. The mark of an installation is `lockgate-0123456789abcdef`. A request has it at most `returns` times.
pub fn filter(installation: u64, returns: u32) -> hcm_v3::HttpFilter {
    let filter = cdn_loop_v3::CdnLoopConfig {
        cdn_id: format!("lockgate-{installation:016x}"),
        max_allowed_occurrences: returns,
    };
    hcm_v3::HttpFilter {
        name: "envoy.filters.http.cdn_loop".to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&filter))),
        ..Default::default()
    }
}
