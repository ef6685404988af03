//! The HTTP connection manager with the defaults of an edge proxy.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::router::v3 as router_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;

use super::{access_log, wire};
use crate::settings::{AccessLog, Settings};

/// Where a connection manager's routes come from.
pub enum Routes {
    /// By RDS, under this name.
    Rds(String),
    /// In the message itself.
    Inline(Box<route_v3::RouteConfiguration>),
}

/// The network filter that speaks HTTP.
///
/// What differs from Envoy's defaults, and why (source: Envoy, "Configuring Envoy as an edge proxy", where no other
/// reason is given):
/// - `use_remote_address`, and no address counts as internal: what a client sends as `x-envoy-*` is never trusted.
/// - `normalize_path` and `merge_slashes`, since path rules are compared with what backends see; `%2F` is left alone,
///   since it is data for many of them.
/// - Headers with underscores are dropped, as ingress-nginx does: a backend that turns `-` into `_` could take
///   `x_forwarded_for` for Envoy's own header. Refusing the request would break clients that send harmless ones.
/// - HTTP/1.0 is answered; a request without `Host` is for the host `_`, which no Ingress can name.
/// - `x-request-id` is kept if a client sends one, as users of other ingress controllers expect.
/// - 100 streams and 64 KiB / 1 MiB windows bound what one HTTP/2 connection can take.
/// - Request headers must be complete within 10 s.
pub fn http_connection_manager(
    stat_prefix: &str,
    routes: Routes,
    log: Option<&AccessLog>,
    settings: &Settings,
) -> listener_v3::Filter {
    use hcm_v3::http_connection_manager::{
        InternalAddressConfig, PathWithEscapedSlashesAction, RouteSpecifier, UpgradeConfig,
    };
    let route_specifier = match routes {
        Routes::Rds(name) => {
            RouteSpecifier::Rds(hcm_v3::Rds { config_source: Some(wire::ads()), route_config_name: name })
        }
        Routes::Inline(routes) => RouteSpecifier::RouteConfig(*routes),
    };
    let manager = hcm_v3::HttpConnectionManager {
        stat_prefix: stat_prefix.to_owned(),
        route_specifier: Some(route_specifier),
        http_filters: vec![router()],
        common_http_protocol_options: Some(core_v3::HttpProtocolOptions {
            idle_timeout: Some(wire::limit(settings.timeouts.connection_idle)),
            headers_with_underscores_action: core_v3::http_protocol_options::HeadersWithUnderscoresAction::DropHeader
                as i32,
            ..Default::default()
        }),
        http_protocol_options: Some(core_v3::Http1ProtocolOptions {
            accept_http_10: true,
            default_host_for_http_10: "_".to_owned(),
            ..Default::default()
        }),
        http2_protocol_options: Some(core_v3::Http2ProtocolOptions {
            max_concurrent_streams: Some(wire::uint32(100)),
            initial_stream_window_size: Some(wire::uint32(64 * 1024)),
            initial_connection_window_size: Some(wire::uint32(1024 * 1024)),
            ..Default::default()
        }),
        stream_idle_timeout: Some(wire::limit(settings.timeouts.stream_idle)),
        request_timeout: settings.timeouts.request.map(wire::duration),
        request_headers_timeout: settings.timeouts.request_headers.map(wire::duration),
        drain_timeout: Some(wire::duration(settings.timeouts.drain)),
        access_log: log.map(access_log::access_log).unwrap_or_default(),
        use_remote_address: Some(wire::boolean(true)),
        xff_num_trusted_hops: settings.http.trusted_hops,
        internal_address_config: Some(InternalAddressConfig::default()),
        preserve_external_request_id: true,
        normalize_path: Some(wire::boolean(true)),
        merge_slashes: true,
        path_with_escaped_slashes_action: PathWithEscapedSlashesAction::KeepUnchanged as i32,
        upgrade_configs: vec![UpgradeConfig { upgrade_type: "websocket".to_owned(), ..Default::default() }],
        ..Default::default()
    };
    listener_v3::Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(listener_v3::filter::ConfigType::TypedConfig(wire::any(&manager))),
    }
}

/// The last HTTP filter, always there: gRPC clients and Envoy refuse a connection manager without it.
pub(super) fn router() -> hcm_v3::HttpFilter {
    hcm_v3::HttpFilter {
        name: "envoy.filters.http.router".to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&router_v3::Router::default()))),
        ..Default::default()
    }
}
