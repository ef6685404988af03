//! Key pairs, certificate authorities, and other secrets, for SDS.

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;
use lockgate_xds::snapshot::Resource;

use super::wire;
use crate::model::{Material, Revoking, SdsSecret, SecretId};

/// Builds the SDS resource of a secret.
pub fn resource(id: &SecretId, secret: &SdsSecret) -> Resource {
    let message = self::secret(id, &secret.material);
    Resource::new(&message.name, &message, vec![secret.origin.clone()])
}

/// Builds the message of a secret. It may contain a private key, so it is never logged or written to a golden file.
pub fn secret(id: &SecretId, material: &Material) -> tls_v3::Secret {
    use tls_v3::secret::Type;
    let content = match material {
        Material::Pair(pair) => Type::TlsCertificate(tls_v3::TlsCertificate {
            certificate_chain: Some(wire::inline_bytes(&pair.certificate_chain)),
            private_key: Some(wire::inline_bytes(&pair.private_key)),
            ..Default::default()
        }),
        Material::Authorities(pem) => Type::ValidationContext(tls_v3::CertificateValidationContext {
            trusted_ca: Some(wire::inline_string(pem)),
            ..Default::default()
        }),
        Material::Revoking(Revoking { authorities, revocations, is_leaf_only }) => {
            Type::ValidationContext(tls_v3::CertificateValidationContext {
                trusted_ca: Some(wire::inline_string(authorities)),
                crl: Some(wire::inline_string(revocations)),
                only_verify_leaf_cert_crl: *is_leaf_only,
                ..Default::default()
            })
        }
        Material::Text(text) => {
            Type::GenericSecret(tls_v3::GenericSecret { secret: Some(wire::inline_string(text)), ..Default::default() })
        }
    };
    tls_v3::Secret { name: id.to_string(), r#type: Some(content) }
}
