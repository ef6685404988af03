//! TLS between Envoy and the controller.

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use lockgate_route::envoy::wire;

use super::Address;

/// The name and the file of the SDS resource with Envoy's own key pair.
const CERTIFICATE: (&str, &str) = ("lockgate-xds-certificate", "xds-certificate.yaml");
/// The name and the file of the SDS resource with the authorities that Envoy trusts.
const TRUST: (&str, &str) = ("lockgate-xds-trust", "xds-trust.yaml");

/// Returns the transport socket for the controller at `server`.
///
/// Envoy watches certificate files only if an SDS resource references them. The SDS resource can come from a file.
/// `beside` is the directory of the SDS files. Without it, Envoy reads the certificates once and ignores rotations.
pub fn transport_socket(certificates: &Path, beside: Option<&Path>, server: &Address) -> core_v3::TransportSocket {
    use tls_v3::common_tls_context::{CombinedCertificateValidationContext, ValidationContextType};
    let sni = match server {
        Address::Name(name, _) => name.trim_end_matches('.').to_owned(),
        Address::Ip(..) | Address::Unix(_) => String::new(),
    };
    let names = tls_v3::CertificateValidationContext {
        match_typed_subject_alt_names: server_name(server).into_iter().collect(),
        ..Default::default()
    };
    let context = tls_v3::CommonTlsContext {
        tls_params: Some(tls_v3::TlsParameters {
            tls_minimum_protocol_version: tls_v3::tls_parameters::TlsProtocol::TlSv12 as i32,
            tls_maximum_protocol_version: tls_v3::tls_parameters::TlsProtocol::TlSv13 as i32,
            ..Default::default()
        }),
        alpn_protocols: vec!["h2".to_owned()],
        ..Default::default()
    };
    let context = match beside {
        Some(beside) => tls_v3::CommonTlsContext {
            tls_certificate_sds_secret_configs: vec![by_file(CERTIFICATE, beside)],
            validation_context_type: Some(ValidationContextType::CombinedValidationContext(
                CombinedCertificateValidationContext {
                    default_validation_context: Some(names),
                    validation_context_sds_secret_config: Some(by_file(TRUST, beside)),
                    ..Default::default()
                },
            )),
            ..context
        },
        None => tls_v3::CommonTlsContext {
            tls_certificates: vec![key_pair(certificates, None)],
            validation_context_type: Some(ValidationContextType::ValidationContext(
                tls_v3::CertificateValidationContext { trusted_ca: Some(file(certificates, "ca.crt")), ..names },
            )),
            ..context
        },
    };
    let context = tls_v3::UpstreamTlsContext { sni, common_tls_context: Some(context), ..Default::default() };
    wire::transport_socket("envoy.transport_sockets.tls", &context)
}

/// Returns the SDS files in `beside`. They contain the paths of the certificate files that Envoy reads and watches.
pub fn watched_files(certificates: &Path, beside: &Path) -> [(PathBuf, discovery_v3::DiscoveryResponse); 2] {
    let watched = core_v3::WatchedDirectory { path: text(certificates), ..Default::default() };
    let trust = tls_v3::CertificateValidationContext {
        trusted_ca: Some(file(certificates, "ca.crt")),
        watched_directory: Some(watched.clone()),
        ..Default::default()
    };
    let certificate = tls_v3::secret::Type::TlsCertificate(key_pair(certificates, Some(watched)));
    [
        sds_file(CERTIFICATE, beside, certificate),
        sds_file(TRUST, beside, tls_v3::secret::Type::ValidationContext(trust)),
    ]
}

fn sds_file(
    (name, file): (&str, &str),
    beside: &Path,
    content: tls_v3::secret::Type,
) -> (PathBuf, discovery_v3::DiscoveryResponse) {
    let secret = tls_v3::Secret { name: name.to_owned(), r#type: Some(content) };
    let response = discovery_v3::DiscoveryResponse { resources: vec![wire::any(&secret)], ..Default::default() };
    (beside.join(file), response)
}

fn by_file((name, file): (&str, &str), beside: &Path) -> tls_v3::SdsSecretConfig {
    use core_v3::config_source::ConfigSourceSpecifier;
    let path = core_v3::PathConfigSource { path: text(&beside.join(file)), ..Default::default() };
    tls_v3::SdsSecretConfig {
        name: name.to_owned(),
        sds_config: Some(core_v3::ConfigSource {
            resource_api_version: core_v3::ApiVersion::V3 as i32,
            config_source_specifier: Some(ConfigSourceSpecifier::PathConfigSource(path)),
            ..Default::default()
        }),
    }
}

fn key_pair(certificates: &Path, watched: Option<core_v3::WatchedDirectory>) -> tls_v3::TlsCertificate {
    tls_v3::TlsCertificate {
        certificate_chain: Some(file(certificates, "tls.crt")),
        private_key: Some(file(certificates, "tls.key")),
        watched_directory: watched,
        ..Default::default()
    }
}

fn file(directory: &Path, name: &str) -> core_v3::DataSource {
    core_v3::DataSource {
        specifier: Some(core_v3::data_source::Specifier::Filename(text(&directory.join(name)))),
        ..Default::default()
    }
}

/// Returns the name that the certificate of the controller must have.
fn server_name(server: &Address) -> Option<tls_v3::SubjectAltNameMatcher> {
    use tls_v3::subject_alt_name_matcher::SanType;
    let (kind, name) = match server {
        Address::Name(name, _) => (SanType::Dns, name.trim_end_matches('.').to_owned()),
        Address::Ip(address @ (IpAddr::V4(_) | IpAddr::V6(_)), _) => (SanType::IpAddress, address.to_string()),
        Address::Unix(_) => return None,
    };
    Some(tls_v3::SubjectAltNameMatcher {
        san_type: kind as i32,
        matcher: Some(matcher_v3::StringMatcher {
            match_pattern: Some(matcher_v3::string_matcher::MatchPattern::Exact(name)),
            ..Default::default()
        }),
        ..Default::default()
    })
}

/// Converts a path to text, as protobuf requires.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
