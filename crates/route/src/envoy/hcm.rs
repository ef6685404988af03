//! The HTTP connection manager with the defaults of an edge proxy.

use envoy_types::pb::envoy::config::accesslog::v3 as accesslog_v3;
use envoy_types::pb::envoy::config::common::mutation_rules::v3 as mutation_rules_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::filters::http::router::v3 as router_v3;
use envoy_types::pb::envoy::extensions::filters::network::http_connection_manager::v3 as hcm_v3;
use envoy_types::pb::envoy::extensions::http::early_header_mutation::header_mutation::v3 as header_mutation_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use lockgate_xds::snapshot::Resource;
use prost::{Message as _, Name as _};

use super::{
    authority, authorization, body_limit, compression, cors, fallback, headers, loops, misdirected, names, policy,
    rate_limit, stats, tracing, wire,
};
use crate::model::{ForwardedParts, ListenerId};
use crate::settings::{EscapedSlashes, Http, HttpVersion, ServerHeader, Settings, Underscores};

/// The source of the routes of a connection manager.
pub enum RouteSource {
    /// RDS, with this name.
    Rds(String),
    /// SRDS: the scope of this listener for the server name of the connection.
    ByServerName(ListenerId),
    /// SRDS: the scope of this listener for the host of the request.
    ByHost(ListenerId),
    /// The message itself.
    Inline(Box<route_v3::RouteConfiguration>),
}

/// The HTTP filters in addition to the filters of the settings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteFilters {
    /// The filters of policies, sessions, and CORS. All listeners of the model have these filters from the start: a listener that changes
    /// drains its connections, on which a new policy would not be enforced meanwhile. Eight disabled filters cost a request without a
    /// configuration 1 to 2 %; there are nine. They are enabled if the fallback selects the scope of the request.
    pub policies: bool,
    /// The filter for `/ready`.
    pub health: bool,
    /// The filter for hosts other than the server name of their connection.
    pub server_name: bool,
    /// The installation whose requests must not return.
    pub installation: Option<u64>,
}

/// The transport of HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// TCP, with or without TLS, and the HTTP versions of the settings.
    Tcp,
    /// QUIC.
    Http3,
}

/// The flow control windows of HTTP/2 and HTTP/3 in bytes, for a stream and for a connection.
const STREAM_WINDOW: u32 = 64 * 1024;
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// Builds the network filter that serves HTTP.
///
/// These values differ from Envoy's defaults with any settings. The source is Envoy, "Configuring Envoy as an edge
/// proxy", unless another reason is stated.
/// - `use_remote_address`, and no address is internal: Envoy ignores all `x-envoy-*` headers of clients.
/// - Headers that only proxies may send are removed from requests, unless proxies in front of Envoy are trusted.
/// - `normalize_path`, because path rules are compared with the paths that backends receive.
/// - HTTP/1.0 is accepted. A request without `Host` is for the host `_`, which no Ingress can name.
/// - `x-request-id` is kept if a client sends it, as users of other ingress controllers expect.
/// - Windows of 64 KiB and 1 MiB limit the memory of one HTTP/2 connection.
///
/// The defaults of the settings have these effects:
/// - Slashes are merged, and escaped slashes cause a redirect.
/// - Headers with underscores are dropped. A backend that turns `-` into `_` could mistake `x_forwarded_for` for
///   Envoy's own header. Rejecting the request would break clients that send harmless headers.
/// - A connection has at most 100 streams, and 10 s for the headers of a request.
pub fn http_connection_manager(
    stat_prefix: &str,
    routes: RouteSource,
    codec: Codec,
    access_log: Vec<accesslog_v3::AccessLog>,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Filter {
    use hcm_v3::http_connection_manager::{RouteSpecifier, UpgradeConfig};
    let scope_key = match &routes {
        RouteSource::ByServerName(listener) => {
            let key = format!("{}%REQUESTED_SERVER_NAME%", names::scope_key_prefix(listener));
            Some(header_mutation(names::SERVER_NAME, &key))
        }
        RouteSource::ByHost(listener) => Some(header_mutation(names::HOST, &names::scope_key(listener))),
        RouteSource::Rds(_) | RouteSource::Inline(_) => None,
    };
    let fallback = match &routes {
        RouteSource::ByHost(listener) => Some(fallback::filter(listener)),
        RouteSource::ByServerName(_) | RouteSource::Rds(_) | RouteSource::Inline(_) => None,
    };
    let untrusted = untrusted_headers(&settings.http);
    let route_specifier = match routes {
        RouteSource::Rds(name) => {
            RouteSpecifier::Rds(hcm_v3::Rds { config_source: Some(wire::ads()), route_config_name: name })
        }
        RouteSource::ByServerName(_) => RouteSpecifier::ScopedRoutes(scopes_by(names::SERVER_NAME)),
        RouteSource::ByHost(_) => RouteSpecifier::ScopedRoutes(scopes_by(names::HOST)),
        RouteSource::Inline(routes) => RouteSpecifier::RouteConfig(*routes),
    };
    let Settings { http, timeouts, .. } = settings;
    let manager = hcm_v3::HttpConnectionManager {
        stat_prefix: stat_prefix.to_owned(),
        codec_type: codec_type(codec, &http.versions) as i32,
        route_specifier: Some(route_specifier),
        early_header_mutation_extensions: early_headers(untrusted.chain(scope_key).collect()),
        http_filters: http_filters(filters, fallback, settings),
        common_http_protocol_options: Some(common_options(settings)),
        http_protocol_options: Some(core_v3::Http1ProtocolOptions {
            accept_http_10: true,
            default_host_for_http_10: "_".to_owned(),
            allow_chunked_length: http.allow_chunked_length,
            ..Default::default()
        }),
        http2_protocol_options: Some(core_v3::Http2ProtocolOptions {
            max_concurrent_streams: Some(wire::uint32(http.max_concurrent_streams)),
            initial_stream_window_size: Some(wire::uint32(STREAM_WINDOW)),
            initial_connection_window_size: Some(wire::uint32(CONNECTION_WINDOW)),
            ..Default::default()
        }),
        http3_protocol_options: (codec == Codec::Http3).then(|| http3_options(settings)),
        server_header_transformation: server_header(http.server_header) as i32,
        max_request_headers_kb: Some(wire::uint32(http.max_request_headers_kib)),
        stream_idle_timeout: Some(wire::limit(timeouts.stream_idle)),
        request_timeout: timeouts.request.map(wire::duration),
        request_headers_timeout: timeouts.request_headers.map(wire::duration),
        drain_timeout: Some(wire::duration(timeouts.drain)),
        delayed_close_timeout: Some(wire::limit(timeouts.delayed_close)),
        tracing: tracing::tracing(&settings.tracing),
        access_log,
        use_remote_address: Some(wire::boolean(true)),
        xff_num_trusted_hops: http.trusted_hops,
        internal_address_config: Some(no_internal_address()),
        preserve_external_request_id: true,
        strip_trailing_host_dot: http.strip_trailing_host_dot,
        normalize_path: Some(wire::boolean(true)),
        merge_slashes: http.merge_slashes,
        path_with_escaped_slashes_action: escaped_slashes(http.escaped_slashes) as i32,
        upgrade_configs: vec![UpgradeConfig { upgrade_type: "websocket".to_owned(), ..Default::default() }],
        ..Default::default()
    };
    listener_v3::Filter {
        name: "envoy.filters.network.http_connection_manager".to_owned(),
        config_type: Some(listener_v3::filter::ConfigType::TypedConfig(wire::any(&manager))),
    }
}

/// Adds to a connection manager that backends receive these parts of the certificates of clients. The header of clients is removed in any
/// case.
pub fn forwarding(filter: listener_v3::Filter, parts: ForwardedParts) -> listener_v3::Filter {
    use hcm_v3::http_connection_manager::{ForwardClientCertDetails, SetCurrentClientCertDetails};
    let Some(listener_v3::filter::ConfigType::TypedConfig(config)) = &filter.config_type else { return filter };
    let (false, Ok(mut manager)) =
        (parts == ForwardedParts::default(), hcm_v3::HttpConnectionManager::decode(&*config.value))
    else {
        return filter;
    };
    let ForwardedParts { subject, certificate, chain, dns, uri } = parts;
    manager.forward_client_cert_details = ForwardClientCertDetails::SanitizeSet as i32;
    manager.set_current_client_cert_details = Some(SetCurrentClientCertDetails {
        subject: Some(wire::boolean(subject)),
        cert: certificate,
        chain,
        dns,
        uri,
        ..Default::default()
    });
    let config_type = Some(listener_v3::filter::ConfigType::TypedConfig(wire::any(&manager)));
    listener_v3::Filter { config_type, ..filter }
}

/// Builds a resource (ECDS) for a network filter that many filter chains of `listener` share. Its name contains a hash of its
/// content, so other content is another filter, and Envoy drains the connections of the chains.
pub fn shared(listener: &ListenerId, filter: listener_v3::Filter) -> Resource {
    let typed_config = match filter.config_type {
        Some(listener_v3::filter::ConfigType::TypedConfig(config)) => Some(config),
        Some(listener_v3::filter::ConfigType::ConfigDiscovery(_)) | None => None,
    };
    let named = |name: &str| {
        let extension = core_v3::TypedExtensionConfig { name: name.to_owned(), typed_config: typed_config.clone() };
        Resource::new(name, &extension, Vec::new())
    };
    named(&names::shared_filter(listener, named(listener.as_str()).version()))
}

/// Builds the network filter whose connection manager is the resource `name`.
pub fn discovered(name: &str) -> listener_v3::Filter {
    let source = core_v3::ExtensionConfigSource {
        config_source: Some(wire::ads()),
        type_urls: vec![hcm_v3::HttpConnectionManager::type_url()],
        ..Default::default()
    };
    listener_v3::Filter {
        name: name.to_owned(),
        config_type: Some(listener_v3::filter::ConfigType::ConfigDiscovery(source)),
    }
}

/// Builds scopes by SRDS. The scope of a request has the value of `header` as its key, without the port.
pub(super) fn scopes_by(header: &str) -> hcm_v3::ScopedRoutes {
    use fragment_builder::header_value_extractor::ExtractType;
    use hcm_v3::scoped_routes::scope_key_builder::{FragmentBuilder, fragment_builder};
    use hcm_v3::scoped_routes::{ConfigSpecifier, ScopeKeyBuilder};
    let value = fragment_builder::HeaderValueExtractor {
        name: header.to_owned(),
        element_separator: ":".to_owned(),
        extract_type: Some(ExtractType::Index(0)),
    };
    let fragment = FragmentBuilder { r#type: Some(fragment_builder::Type::HeaderValueExtractor(value)) };
    hcm_v3::ScopedRoutes {
        name: names::SCOPES.to_owned(),
        scope_key_builder: Some(ScopeKeyBuilder { fragments: vec![fragment] }),
        // Envoy uses the source of the first connection manager for all of them, so all of them set it.
        rds_config_source: Some(wire::ads()),
        config_specifier: Some(ConfigSpecifier::ScopedRds(hcm_v3::ScopedRds {
            scoped_rds_config_source: Some(wire::ads()),
            ..Default::default()
        })),
    }
}

/// Builds the extension that changes the headers of a request before routes, filters, and the access log read them.
fn early_headers(mutations: Vec<mutation_rules_v3::HeaderMutation>) -> Vec<core_v3::TypedExtensionConfig> {
    if mutations.is_empty() {
        return vec![];
    }
    vec![core_v3::TypedExtensionConfig {
        name: "envoy.http.early_header_mutation.header_mutation".to_owned(),
        typed_config: Some(wire::any(&header_mutation_v3::HeaderMutation { mutations })),
    }]
}

/// Builds a mutation that sets the header `name` to `value`, which is in Envoy's format, and replaces the value that
/// the client sent.
fn header_mutation(name: &str, value: &str) -> mutation_rules_v3::HeaderMutation {
    use mutation_rules_v3::header_mutation::Action;
    mutation_rules_v3::HeaderMutation { action: Some(Action::Append(headers::set(name, value))) }
}

/// Removes headers that only trusted proxies may send. Envoy itself removes the `x-envoy-` headers that it knows, but
/// not the headers of other proxies. It adds its own headers later.
fn untrusted_headers(http: &Http) -> impl Iterator<Item = mutation_rules_v3::HeaderMutation> {
    use matcher_v3::string_matcher::MatchPattern;
    use mutation_rules_v3::header_mutation::{Action, RemoveOnMatch};
    let trusted = http.trusted_hops > 0;
    let prefix = matcher_v3::StringMatcher {
        match_pattern: Some(MatchPattern::Prefix("x-envoy-".to_owned())),
        ..Default::default()
    };
    let of_envoy = Action::RemoveOnMatch(RemoveOnMatch { key_matcher: Some(prefix) });
    let listed = http.untrusted_headers.iter().cloned().map(Action::Remove);
    let actions = [of_envoy].into_iter().chain(listed).filter(move |_| !trusted);
    actions.map(|action| mutation_rules_v3::HeaderMutation { action: Some(action) })
}

/// Builds a configuration that treats no client as internal, whatever its address.
///
/// An empty configuration would make loopback and private addresses internal. In older Envoys, so does an absent one.
/// No client has the broadcast address.
fn no_internal_address() -> hcm_v3::http_connection_manager::InternalAddressConfig {
    let broadcast =
        core_v3::CidrRange { address_prefix: "255.255.255.255".to_owned(), prefix_len: Some(wire::uint32(32)) };
    hcm_v3::http_connection_manager::InternalAddressConfig { cidr_ranges: vec![broadcast], unix_sockets: false }
}

fn escaped_slashes(chosen: EscapedSlashes) -> hcm_v3::http_connection_manager::PathWithEscapedSlashesAction {
    use hcm_v3::http_connection_manager::PathWithEscapedSlashesAction as Action;
    match chosen {
        EscapedSlashes::Keep => Action::KeepUnchanged,
        EscapedSlashes::Reject => Action::RejectRequest,
        EscapedSlashes::UnescapeAndRedirect => Action::UnescapeAndRedirect,
        EscapedSlashes::UnescapeAndForward => Action::UnescapeAndForward,
    }
}

/// Returns the codec. Over TCP, the first bytes or ALPN select one of the offered versions; a single version is used
/// for all connections.
fn codec_type(codec: Codec, versions: &[HttpVersion]) -> hcm_v3::http_connection_manager::CodecType {
    use hcm_v3::http_connection_manager::CodecType;
    match (codec, versions) {
        (Codec::Http3, _) => CodecType::Http3,
        (Codec::Tcp, [HttpVersion::Http1]) => CodecType::Http1,
        (Codec::Tcp, [HttpVersion::Http2]) => CodecType::Http2,
        (Codec::Tcp, _) => CodecType::Auto,
    }
}

/// Builds the options of all HTTP versions.
fn common_options(settings: &Settings) -> core_v3::HttpProtocolOptions {
    use core_v3::http_protocol_options::HeadersWithUnderscoresAction as Action;
    let Settings { http, timeouts, .. } = settings;
    let underscores = match http.headers_with_underscores {
        Underscores::Drop => Action::DropHeader,
        Underscores::Allow => Action::Allow,
        Underscores::Reject => Action::RejectRequest,
    };
    core_v3::HttpProtocolOptions {
        idle_timeout: Some(wire::limit(timeouts.connection_idle)),
        max_connection_duration: timeouts.max_connection_duration.map(wire::duration),
        max_requests_per_connection: http.max_requests_per_connection.map(wire::uint32),
        headers_with_underscores_action: underscores as i32,
        ..Default::default()
    }
}

/// Builds the HTTP/3 options, with the same limits as HTTP/2.
fn http3_options(settings: &Settings) -> core_v3::Http3ProtocolOptions {
    core_v3::Http3ProtocolOptions {
        quic_protocol_options: Some(core_v3::QuicProtocolOptions {
            max_concurrent_streams: Some(wire::uint32(settings.http.max_concurrent_streams)),
            initial_stream_window_size: Some(wire::uint32(STREAM_WINDOW)),
            initial_connection_window_size: Some(wire::uint32(CONNECTION_WINDOW)),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn server_header(chosen: ServerHeader) -> hcm_v3::http_connection_manager::ServerHeaderTransformation {
    use hcm_v3::http_connection_manager::ServerHeaderTransformation as Transformation;
    match chosen {
        ServerHeader::Overwrite => Transformation::Overwrite,
        ServerHeader::AppendIfAbsent => Transformation::AppendIfAbsent,
        ServerHeader::PassThrough => Transformation::PassThrough,
    }
}

/// Builds the HTTP filters in order. Requests for no valid host and requests in a loop cost nothing else. Authorization
/// precedes the rate limit and the body limit of the settings, so denied requests are not counted and their bodies are not read. A
/// preflight request has no credentials, so CORS precedes authorization. The filters of routes follow authorization, which may change the
/// route.
fn http_filters(
    filters: RouteFilters,
    fallback: Option<hcm_v3::HttpFilter>,
    settings: &Settings,
) -> Vec<hcm_v3::HttpFilter> {
    let loops = filters.installation.map(|installation| loops::filter(installation, settings.http.returns)).into_iter();
    // Envoy creates a disabled filter only for routes that configure it, and selects the filters of a request once. External
    // authorization and the fallback can change the route after that, so the filters are enabled then.
    let disabled = settings.external_authorization.endpoint.is_none() && fallback.is_none();
    let cors = filters.policies.then(|| cors::filter(disabled));
    let authorization = authorization::filters(&settings.external_authorization);
    let rate_limit = rate_limit::filter(&settings.rate_limit);
    let compression = compression::filters(&settings.compression);
    let body_limit = settings.http.max_request_body_bytes.map(body_limit::filter);
    let error_responses = settings.http.error_responses;
    let policies = filters.policies.then(|| policy::filters(disabled, error_responses)).into_iter().flatten();
    let health = filters.health.then(stats::health_filter);
    let misdirected = filters.server_name.then(misdirected::filter);
    let unlimited = [authority::filter()]
        .into_iter()
        .chain(misdirected)
        .chain(fallback)
        .chain(loops)
        .chain(health)
        .chain(cors)
        .chain(compression)
        .chain(authorization)
        .chain(policies);
    let last = filters.policies.then(|| policy::last(disabled)).into_iter().flatten();
    unlimited.chain(rate_limit).chain(body_limit).chain(last).chain([router()]).collect()
}

/// Returns the names of the filters that Envoy creates only for routes that configure them, in listeners without a fallback.
pub(super) fn filters_of_routes(filters: RouteFilters, settings: &Settings) -> impl Iterator<Item = String> {
    let filters = http_filters(filters, None, settings).into_iter().filter(|one| one.disabled).map(|one| one.name);
    // Those with a context are disabled with a fallback too.
    filters.filter(|name| !authorization::is_with_context(name))
}

/// Builds the last HTTP filter. It is required: gRPC clients and Envoy reject a connection manager without it.
pub(super) fn router() -> hcm_v3::HttpFilter {
    hcm_v3::HttpFilter {
        name: "envoy.filters.http.router".to_owned(),
        config_type: Some(hcm_v3::http_filter::ConfigType::TypedConfig(wire::any(&router_v3::Router::default()))),
        ..Default::default()
    }
}
