//! Small wrappers that every message needs.

use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::google::protobuf as google;

use crate::model::SecretId;

/// `message` with its type URL.
pub fn any<M: prost::Message + prost::Name>(message: &M) -> google::Any {
    google::Any { type_url: M::type_url(), value: message.encode_to_vec() }
}

/// A transport socket with its configuration.
pub fn transport_socket<M: prost::Message + prost::Name>(name: &str, message: &M) -> core_v3::TransportSocket {
    core_v3::TransportSocket {
        name: name.to_owned(),
        config_type: Some(core_v3::transport_socket::ConfigType::TypedConfig(any(message))),
    }
}

/// A listener filter with its configuration.
pub fn listener_filter<M: prost::Message + prost::Name>(name: &str, message: &M) -> listener_v3::ListenerFilter {
    listener_v3::ListenerFilter {
        name: name.to_owned(),
        config_type: Some(listener_v3::listener_filter::ConfigType::TypedConfig(any(message))),
        ..Default::default()
    }
}

/// A protobuf duration; what exceeds its range is as good as for ever.
pub fn duration(duration: Duration) -> google::Duration {
    // Protobuf allows 10,000 years; Envoy refuses more than the milliseconds of an i64 hold, which is more than that.
    const LONGEST: u64 = 315_576_000_000;
    google::Duration { seconds: duration.as_secs().min(LONGEST) as i64, nanos: duration.subsec_nanos() as i32 }
}

/// A time limit; no limit is 0, where Envoy has a limit of its own if nothing is said.
pub fn limit(limit: Option<Duration>) -> google::Duration {
    duration(limit.unwrap_or(Duration::ZERO))
}

/// A wrapped bool.
pub fn boolean(value: bool) -> google::BoolValue {
    google::BoolValue { value }
}

/// A wrapped u32.
pub fn uint32(value: u32) -> google::UInt32Value {
    google::UInt32Value { value }
}

/// A `google.protobuf.Struct` of text fields.
pub fn text_struct<'a>(fields: impl IntoIterator<Item = (&'a str, &'a str)>) -> google::Struct {
    let text = |value: &str| google::Value { kind: Some(google::value::Kind::StringValue(value.to_owned())) };
    google::Struct { fields: fields.into_iter().map(|(name, value)| (name.to_owned(), text(value))).collect() }
}

/// A TCP address and port.
pub fn socket_address(address: &str, port: u16) -> core_v3::Address {
    address_of(core_v3::SocketAddress {
        address: address.to_owned(),
        port_specifier: Some(core_v3::socket_address::PortSpecifier::PortValue(port.into())),
        ..Default::default()
    })
}

/// The address that `socket` is.
pub fn address_of(socket: core_v3::SocketAddress) -> core_v3::Address {
    core_v3::Address { address: Some(core_v3::address::Address::SocketAddress(socket)) }
}

/// "Ask on the ADS stream": the only source of configuration that our resources name.
///
/// Envoy waits for it as long as it takes. After its own 15 s it would go on without: be ready without routes, or have a
/// cluster without endpoints, while the controller is slow or away. What we name, we also serve, in the same snapshot.
pub fn ads() -> core_v3::ConfigSource {
    core_v3::ConfigSource {
        resource_api_version: core_v3::ApiVersion::V3 as i32,
        initial_fetch_timeout: Some(duration(Duration::ZERO)),
        config_source_specifier: Some(core_v3::config_source::ConfigSourceSpecifier::Ads(Default::default())),
        ..Default::default()
    }
}

/// A key pair, by SDS.
pub fn secret(id: &SecretId) -> tls_v3::SdsSecretConfig {
    tls_v3::SdsSecretConfig { name: id.to_string(), sds_config: Some(ads()) }
}

/// Content in the message itself.
pub fn inline_bytes(content: &[u8]) -> core_v3::DataSource {
    core_v3::DataSource {
        specifier: Some(core_v3::data_source::Specifier::InlineBytes(content.to_vec())),
        ..Default::default()
    }
}

/// Text in the message itself.
pub fn inline_string(content: &str) -> core_v3::DataSource {
    core_v3::DataSource {
        specifier: Some(core_v3::data_source::Specifier::InlineString(content.to_owned())),
        ..Default::default()
    }
}

/// Probes after 30 s of silence, so that a peer that vanished is noticed within a minute.
pub fn tcp_keepalive() -> core_v3::TcpKeepalive {
    core_v3::TcpKeepalive {
        keepalive_probes: Some(uint32(6)),
        keepalive_time: Some(uint32(30)),
        keepalive_interval: Some(uint32(5)),
    }
}
