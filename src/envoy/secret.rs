//! Key pairs, for SDS.

use envoy_types::pb::envoy::extensions::transport_sockets::tls::v3 as tls_v3;

use super::wire;
use crate::model::{KeyPair, Secret, SecretName};
use crate::snapshot::Resource;

/// The SDS resource of a key pair.
pub fn resource(name: &SecretName, secret: &Secret) -> Resource {
    Resource::new(&name.0, &self::secret(name, &secret.pair), vec![secret.origin.clone()])
}

/// The message; it holds the private key, so it is never logged or written to a golden file.
pub fn secret(name: &SecretName, pair: &KeyPair) -> tls_v3::Secret {
    tls_v3::Secret {
        name: name.to_string(),
        r#type: Some(tls_v3::secret::Type::TlsCertificate(tls_v3::TlsCertificate {
            certificate_chain: Some(wire::inline_bytes(&pair.certificate_chain)),
            private_key: Some(wire::inline_bytes(&pair.private_key)),
            ..Default::default()
        })),
    }
}
