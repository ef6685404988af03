//! TLS to clients, over TCP and over QUIC, and to scrapers.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::extensions::filters::listener::tls_inspector::v3 as tls_inspector_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::quic::v3 as quic_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;

use super::tls_listener::Presented;
use super::wire;
use crate::model::{ClientValidation, StatsTls, TlsHost, TlsVersion};
use crate::settings::{HttpVersion, Settings, TlsParameters, TlsSettings};

/// Builds the listener filter that reads the server name, and fingerprints if configured, before Envoy selects a filter
/// chain.
pub fn inspector(settings: &Settings) -> listener_v3::ListenerFilter {
    let TlsSettings { ja3, ja4, .. } = settings.tls;
    let config = tls_inspector_v3::TlsInspector {
        enable_ja3_fingerprinting: ja3.then(|| wire::boolean(true)),
        enable_ja4_fingerprinting: ja4.then(|| wire::boolean(true)),
        ..Default::default()
    };
    wire::listener_filter("envoy.filters.listener.tls_inspector", &config)
}

/// Builds the transport socket of the listener for statistics. The handshake fails for a client that does not present a
/// required certificate.
pub fn for_scrapers(tls: &StatsTls, settings: &Settings) -> core_v3::TransportSocket {
    let parameters = &settings.tls.parameters;
    let secrets = std::slice::from_ref(&tls.secret);
    let clients = tls.clients.clone().map(|authorities| ClientValidation::new(authorities, true));
    let (minimum, maximum) = (parameters.minimum, parameters.maximum);
    let presented = Presented { secrets, minimum, maximum, clients: clients.as_ref() };
    // Downstream HTTP settings do not apply to scrapers.
    let alpn = alpn(&Settings::default());
    let context = context(&presented, minimum, maximum, alpn, parameters);
    wire::transport_socket("envoy.transport_sockets.tls", &validating(context, presented.clients))
}

/// Builds the transport socket of a chain over TCP: the key pairs by SDS, the HTTP versions by ALPN.
pub fn over_tcp(tls: &Presented, settings: &Settings) -> core_v3::TransportSocket {
    let context = context(tls, tls.minimum, tls.maximum, alpn(settings), &settings.tls.parameters);
    wire::transport_socket("envoy.transport_sockets.tls", &validating(context, tls.clients))
}

/// Adds the validation of client certificates to a context.
fn validating(
    mut context: tls_v3::DownstreamTlsContext,
    clients: Option<&ClientValidation>,
) -> tls_v3::DownstreamTlsContext {
    use tls_v3::certificate_validation_context::TrustChainVerification;
    use tls_v3::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};
    let Some(ClientValidation { authorities, required, is_verified, forwarded: _ }) = clients else { return context };
    let unverified = || tls_v3::CertificateValidationContext {
        trust_chain_verification: TrustChainVerification::AcceptUntrusted as i32,
        ..Default::default()
    };
    let validation = match (authorities.as_ref().map(wire::secret), is_verified) {
        (Some(authorities), true) => ValidationContextType::ValidationContextSdsSecretConfig(authorities),
        (Some(authorities), false) => {
            ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
                default_validation_context: Some(unverified()),
                validation_context_sds_secret_config: Some(authorities),
                ..Default::default()
            })
        }
        (None, _) => ValidationContextType::ValidationContext(unverified()),
    };
    if let Some(common) = &mut context.common_tls_context {
        common.validation_context_type = Some(validation);
    }
    context.require_client_certificate = Some(wire::boolean(*required));
    context
}

/// Builds the transport socket of a chain that forwards decrypted connections. ALPN is off: only the backend knows the
/// protocol.
pub fn for_connections(tls: &Presented, settings: &Settings) -> core_v3::TransportSocket {
    let context = context(tls, tls.minimum, tls.maximum, vec![], &settings.tls.parameters);
    wire::transport_socket("envoy.transport_sockets.tls", &validating(context, tls.clients))
}

fn alpn(settings: &Settings) -> Vec<String> {
    let name = |version: &HttpVersion| match version {
        HttpVersion::Http1 => "http/1.1".to_owned(),
        HttpVersion::Http2 => "h2".to_owned(),
    };
    settings.http.versions.iter().map(name).collect()
}

/// Returns whether a host is served over QUIC, which supports only TLS 1.3. Envoy rejects the validation of clients there.
pub fn is_over_quic(tls: &TlsHost) -> bool {
    tls.maximum >= TlsVersion::V1_3 && tls.clients.is_none()
}

/// Builds the transport socket of a chain over QUIC. Early data is off: it can be replayed, and backends do not expect
/// that.
pub fn over_quic(tls: &Presented, settings: &Settings) -> core_v3::TransportSocket {
    let context = context(tls, TlsVersion::V1_3, TlsVersion::V1_3, vec![], &settings.tls.parameters);
    let quic = quic_v3::QuicDownstreamTransport {
        downstream_tls_context: Some(validating(context, tls.clients)),
        enable_early_data: Some(wire::boolean(false)),
        ..Default::default()
    };
    wire::transport_socket("envoy.transport_sockets.quic", &quic)
}

fn context(
    tls: &Presented,
    minimum: TlsVersion,
    maximum: TlsVersion,
    alpn_protocols: Vec<String>,
    parameters: &TlsParameters,
) -> tls_v3::DownstreamTlsContext {
    tls_v3::DownstreamTlsContext {
        common_tls_context: Some(tls_v3::CommonTlsContext {
            tls_params: Some(tls_parameters(minimum, maximum, parameters)),
            tls_certificate_sds_secret_configs: tls.secrets.iter().map(wire::secret).collect(),
            alpn_protocols,
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Builds the TLS versions, cipher suites, and curves. Cipher suites are configurable for TLS 1.2 only, so they are
/// omitted without it.
pub fn tls_parameters(minimum: TlsVersion, maximum: TlsVersion, parameters: &TlsParameters) -> tls_v3::TlsParameters {
    let TlsParameters { minimum: _, maximum: _, cipher_suites, curves } = parameters;
    tls_v3::TlsParameters {
        tls_minimum_protocol_version: protocol(minimum) as i32,
        tls_maximum_protocol_version: protocol(maximum) as i32,
        cipher_suites: if minimum == TlsVersion::V1_2 { cipher_suites.clone() } else { vec![] },
        ecdh_curves: curves.clone(),
        ..Default::default()
    }
}

fn protocol(version: TlsVersion) -> tls_v3::tls_parameters::TlsProtocol {
    match version {
        TlsVersion::V1_2 => tls_v3::tls_parameters::TlsProtocol::TlSv12,
        TlsVersion::V1_3 => tls_v3::tls_parameters::TlsProtocol::TlSv13,
    }
}
