//! TLS to the endpoints of clusters: the client certificate, and the verification of endpoints.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::quic::v3 as quic_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use matcher_v3::string_matcher::MatchPattern;
use tls_v3::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};
use tls_v3::subject_alt_name_matcher::SanType;

use super::downstream_tls::tls_parameters;
use super::wire;
use crate::model::{Authorities, Cluster, Discovery, PeerName, UpstreamProtocol, Verification};
use crate::settings::Settings;

/// The file with the certificate authorities of the system in the images of Envoy, which Debian and Ubuntu maintain.
pub const SYSTEM_AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// Builds the transport socket of a cluster whose endpoints speak TLS. They are verified if its policy has a
/// verification: an Ingress cannot name an authority.
///
/// Connections without HTTP and health checks of a cluster with HTTP/3 use the same TLS over TCP.
pub fn transport_socket(cluster: &Cluster, settings: &Settings) -> Option<core_v3::TransportSocket> {
    let http3 = cluster.policy.http3_server_name();
    let alpn = match cluster.policy.protocol {
        UpstreamProtocol::Http1 | UpstreamProtocol::H2c => return None,
        // Over QUIC, Envoy sends the ALPN of HTTP/3 only if none is configured.
        UpstreamProtocol::H2 if http3.is_none() => vec!["h2".to_owned()],
        UpstreamProtocol::Tls | UpstreamProtocol::H2 => vec![],
    };
    let verification = cluster.policy.verification.as_deref();
    let sni = match (http3, verification, &cluster.policy.server_name, &cluster.discovery) {
        (Some(name), ..) => name.to_string(),
        (None, Some(verification), ..) => verification.server_name.to_string(),
        (None, None, Some(name), _) => name.to_string(),
        (None, None, None, Discovery::Dns { hostname, .. }) => hostname.trim_end_matches('.').to_owned(),
        (None, None, None, Discovery::Eds | Discovery::Static { .. }) => String::new(),
    };
    let tls = &settings.upstream.tls;
    let context = tls_v3::UpstreamTlsContext {
        sni,
        common_tls_context: Some(tls_v3::CommonTlsContext {
            // Envoy's default maximum for TLS to a server is 1.2.
            tls_params: Some(tls_parameters(tls.minimum, tls.maximum, tls)),
            tls_certificate_sds_secret_configs: cluster.policy.client_certificate.iter().map(wire::secret).collect(),
            validation_context_type: verification.map(validation),
            alpn_protocols: alpn,
            ..Default::default()
        }),
        ..Default::default()
    };
    Some(match http3 {
        None => wire::transport_socket("envoy.transport_sockets.tls", &context),
        Some(_) => {
            let quic = quic_v3::QuicUpstreamTransport { upstream_tls_context: Some(context) };
            wire::transport_socket("envoy.transport_sockets.quic", &quic)
        }
    })
}

/// Builds the verification of endpoints. The authorities are a separate secret, so that new authorities for the same
/// names change neither the cluster nor its connections.
fn validation(verification: &Verification) -> ValidationContextType {
    let Verification { server_name: _, authorities, names } = verification;
    let names = tls_v3::CertificateValidationContext {
        match_typed_subject_alt_names: names.iter().map(name).collect(),
        ..Default::default()
    };
    match authorities {
        Authorities::System => ValidationContextType::ValidationContext(tls_v3::CertificateValidationContext {
            trusted_ca: Some(core_v3::DataSource {
                specifier: Some(core_v3::data_source::Specifier::Filename(SYSTEM_AUTHORITIES.to_owned())),
                ..Default::default()
            }),
            ..names
        }),
        Authorities::Secret(secret) => {
            ValidationContextType::CombinedValidationContext(CombinedCertificateValidationContext {
                default_validation_context: Some(names),
                validation_context_sds_secret_config: Some(wire::secret(secret)),
                ..Default::default()
            })
        }
    }
}

/// Builds the matcher of a name. With an exact DNS name, Envoy also accepts a wildcard in the certificate that covers it.
fn name(name: &PeerName) -> tls_v3::SubjectAltNameMatcher {
    let (kind, pattern) = match name {
        PeerName::Dns(name) => (SanType::Dns, MatchPattern::Exact(name.to_string())),
        PeerName::DnsBelow(suffix) => (SanType::Dns, MatchPattern::Suffix(format!(".{suffix}"))),
        PeerName::Uri(uri) => (SanType::Uri, MatchPattern::Exact(uri.to_string())),
    };
    tls_v3::SubjectAltNameMatcher {
        san_type: kind as i32,
        matcher: Some(wire::string_matcher(pattern)),
        ..Default::default()
    }
}
