//! Small constructors of common message fields.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use envoy_types::pb::google::protobuf as google;
use matcher_v3::string_matcher::MatchPattern;

use crate::model::{SecretId, Share};

/// Wraps `message` with its type URL.
pub fn any<M: prost::Message + prost::Name>(message: &M) -> google::Any {
    google::Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// Builds a transport socket with its configuration.
pub fn transport_socket<M: prost::Message + prost::Name>(name: &str, message: &M) -> core_v3::TransportSocket {
    core_v3::TransportSocket {
        name: name.to_owned(),
        config_type: Some(core_v3::transport_socket::ConfigType::TypedConfig(any(message))),
    }
}

/// Builds a listener filter with its configuration.
pub fn listener_filter<M: prost::Message + prost::Name>(name: &str, message: &M) -> listener_v3::ListenerFilter {
    listener_v3::ListenerFilter {
        name: name.to_owned(),
        config_type: Some(listener_v3::listener_filter::ConfigType::TypedConfig(any(message))),
        ..Default::default()
    }
}

/// Converts a duration to protobuf. A duration beyond the supported range becomes the longest one.
pub fn duration(duration: Duration) -> google::Duration {
    // Protobuf allows 10,000 years. Envoy's limit, an i64 of milliseconds, is higher.
    const LONGEST: u64 = 315_576_000_000;
    google::Duration { seconds: duration.as_secs().min(LONGEST) as i64, nanos: duration.subsec_nanos() as i32 }
}

/// Converts a time limit. `None` becomes 0, which disables the limit: without a value, Envoy's default applies.
pub fn limit(limit: Option<Duration>) -> google::Duration {
    duration(limit.unwrap_or(Duration::ZERO))
}

/// Builds a wrapped bool.
pub fn boolean(value: bool) -> google::BoolValue {
    google::BoolValue { value }
}

/// Builds a wrapped u32.
pub fn uint32(value: u32) -> google::UInt32Value {
    google::UInt32Value { value }
}

/// Builds a share of requests.
pub fn fraction(share: Share) -> core_v3::RuntimeFractionalPercent {
    core_v3::RuntimeFractionalPercent {
        default_value: Some(type_v3::FractionalPercent {
            numerator: share.millionths(),
            denominator: type_v3::fractional_percent::DenominatorType::Million as i32,
        }),
        ..Default::default()
    }
}

/// Builds a `google.protobuf.Struct` of text fields.
pub fn text_struct<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> google::Struct {
    let text = |value: &str| google::Value { kind: Some(google::value::Kind::StringValue(value.to_owned())) };
    google::Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect() }
}

/// Builds a TCP address and port.
pub fn socket_address(address: &str, port: u16) -> core_v3::Address {
    address_of(core_v3::SocketAddress {
        address: address.to_owned(),
        port_specifier: Some(core_v3::socket_address::PortSpecifier::PortValue(port.into())),
        ..Default::default()
    })
}

/// Wraps the address of `socket`.
pub fn address_of(socket: core_v3::SocketAddress) -> core_v3::Address {
    core_v3::Address { address: Some(core_v3::address::Address::SocketAddress(socket)) }
}

/// Builds the only configuration source that the resources use: the ADS stream.
///
/// Envoy waits for it without a limit. With its default timeout of 15 s, Envoy would proceed without the resource while
/// the controller is slow or unavailable. It would become ready without routes, or have a cluster without endpoints.
/// All referenced resources are in the same snapshot.
pub fn ads() -> core_v3::ConfigSource {
    core_v3::ConfigSource {
        resource_api_version: core_v3::ApiVersion::V3 as i32,
        initial_fetch_timeout: Some(duration(Duration::ZERO)),
        config_source_specifier: Some(core_v3::config_source::ConfigSourceSpecifier::Ads(Default::default())),
        ..Default::default()
    }
}

/// Builds the reference to a key pair by SDS.
pub fn secret(id: &SecretId) -> tls_v3::SdsSecretConfig {
    tls_v3::SdsSecretConfig { name: id.to_string(), sds_config: Some(ads()) }
}

/// Wraps content that is part of the message.
pub fn inline_bytes(content: &[u8]) -> core_v3::DataSource {
    core_v3::DataSource {
        specifier: Some(core_v3::data_source::Specifier::InlineBytes(content.to_vec())),
        ..Default::default()
    }
}

/// Wraps text that is part of the message.
pub fn inline_string(content: &str) -> core_v3::DataSource {
    core_v3::DataSource {
        specifier: Some(core_v3::data_source::Specifier::InlineString(content.to_owned())),
        ..Default::default()
    }
}

/// Builds TCP keepalive settings. Probes start after 30 s of silence, so that a vanished peer is noticed within a
/// minute.
pub fn tcp_keepalive() -> core_v3::TcpKeepalive {
    core_v3::TcpKeepalive {
        keepalive_probes: Some(uint32(6)),
        keepalive_time: Some(uint32(30)),
        keepalive_interval: Some(uint32(5)),
    }
}

/// Builds a matcher of texts.
pub fn string_matcher(pattern: MatchPattern) -> matcher_v3::StringMatcher {
    matcher_v3::StringMatcher { match_pattern: Some(pattern), ..Default::default() }
}

/// Builds a full match of an RE2 pattern.
pub fn regex(pattern: String) -> matcher_v3::RegexMatcher {
    matcher_v3::RegexMatcher { regex: pattern, engine_type: None }
}
