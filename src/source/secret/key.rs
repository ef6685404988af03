//! Private keys, parsed and tested by AWS-LC, a fork of the BoringSSL in Envoy.
//!
//! Envoy never receives the bytes of the Secret: a parsed key is encoded again, as PKCS#8 version 1.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    self, EcdsaKeyPair, EcdsaSigningAlgorithm, Ed25519KeyPair, KeyPair, RsaKeyPair, UnparsedPublicKey,
    VerificationAlgorithm,
};
use rustls_pki_types::PrivateKeyDer;

use super::der::Element;

/// The maximum length of a parsed encoding, in bytes. The encoding of an RSA key with 8192 bits has fewer than 5,000.
const MAX_BYTES: usize = 16 * 1024;

/// The curves that Envoy accepts. Source: tested with Envoy 1.40.
static CURVES: [(&EcdsaSigningAlgorithm, &dyn VerificationAlgorithm); 3] = [
    (&signature::ECDSA_P256_SHA256_ASN1_SIGNING, &signature::ECDSA_P256_SHA256_ASN1),
    (&signature::ECDSA_P384_SHA384_ASN1_SIGNING, &signature::ECDSA_P384_SHA384_ASN1),
    (&signature::ECDSA_P521_SHA512_ASN1_SIGNING, &signature::ECDSA_P521_SHA512_ASN1),
];

/// A private key that can sign: RSA of 2048 to 8192 bits, ECDSA with P-256, P-384, or P-521, or Ed25519.
pub enum PrivateKey {
    Rsa(RsaKeyPair),
    Ecdsa(EcdsaKeyPair, &'static dyn VerificationAlgorithm),
    Ed25519(Ed25519KeyPair),
}

impl PrivateKey {
    /// Parses a key in one of its three forms. Returns `None` if it is malformed, inconsistent, or of another kind.
    pub fn parse(der: &PrivateKeyDer<'_>) -> Option<Self> {
        let bytes = der.secret_der();
        if bytes.len() > MAX_BYTES {
            return None;
        }
        let rsa = match der {
            PrivateKeyDer::Pkcs1(_) => RsaKeyPair::from_der(bytes).ok(),
            PrivateKeyDer::Pkcs8(_) => RsaKeyPair::from_pkcs8(bytes).ok(),
            _ => None,
        };
        let ecdsa = || {
            CURVES.iter().find_map(|(signing, verification)| {
                let key = match der {
                    PrivateKeyDer::Sec1(_) => EcdsaKeyPair::from_private_key_der(signing, bytes),
                    PrivateKeyDer::Pkcs8(_) => EcdsaKeyPair::from_pkcs8(signing, bytes),
                    _ => return None,
                };
                Some(Self::Ecdsa(key.ok()?, *verification))
            })
        };
        let ed25519 = || match der {
            PrivateKeyDer::Pkcs8(_) => Ed25519KeyPair::from_pkcs8(bytes).ok().map(Self::Ed25519),
            _ => None,
        };
        rsa.map(Self::Rsa).or_else(ecdsa).or_else(ed25519)
    }

    /// Returns the public key as SubjectPublicKeyInfo in DER: the canonical form, and for a curve the compressed form
    /// too.
    pub fn public_keys(&self) -> Vec<Vec<u8>> {
        let der: Result<PublicKeyX509Der<'_>, _> = match self {
            Self::Rsa(key) => key.public_key().as_der(),
            Self::Ecdsa(key, _) => key.public_key().as_der(),
            Self::Ed25519(key) => key.public_key().as_der(),
        };
        let canonical = der.ok().map(|der| der.as_ref().to_vec());
        let compressed = canonical.as_deref().and_then(compressed);
        canonical.into_iter().chain(compressed).collect()
    }

    /// Returns the key as PKCS#8 version 1, DER.
    pub fn pkcs8(&self) -> Option<Vec<u8>> {
        Some(match self {
            Self::Rsa(key) => AsDer::<Pkcs8V1Der<'_>>::as_der(key).ok()?.as_ref().to_vec(),
            Self::Ecdsa(key, _) => key.to_pkcs8v1().ok()?.as_ref().to_vec(),
            Self::Ed25519(key) => key.to_pkcs8v1().ok()?.as_ref().to_vec(),
        })
    }

    /// Returns whether `public_key` (SubjectPublicKeyInfo, DER) verifies a signature of this key. An RSA key whose two
    /// factors are not prime passes all other checks and fails here.
    pub fn signs_for(&self, public_key: &[u8]) -> bool {
        const MESSAGE: &[u8] = b"a key pair that is about to be served";
        let random = SystemRandom::new();
        let verifies = |algorithm: &'static dyn VerificationAlgorithm, signature: &[u8]| {
            UnparsedPublicKey::new(algorithm, public_key).verify(MESSAGE, signature).is_ok()
        };
        match self {
            Self::Rsa(key) => {
                let mut bytes = vec![0; key.public_modulus_len()];
                key.sign(&signature::RSA_PKCS1_SHA256, &random, MESSAGE, &mut bytes).is_ok()
                    && verifies(&signature::RSA_PKCS1_2048_8192_SHA256, &bytes)
            }
            Self::Ecdsa(key, algorithm) => {
                key.sign(&random, MESSAGE).is_ok_and(|bytes| verifies(*algorithm, bytes.as_ref()))
            }
            Self::Ed25519(key) => verifies(&signature::ED25519, key.sign(MESSAGE).as_ref()),
        }
    }
}

/// Returns the SubjectPublicKeyInfo of an uncompressed point with the point compressed, or `None` for other keys.
/// Source: SEC 1, 2.3.3.
fn compressed(public_key: &[u8]) -> Option<Vec<u8>> {
    let fields = Element::only(public_key)?.sequence()?;
    let [algorithm, key] = fields.as_slice() else { return None };
    let [0, 4, point @ ..] = key.content else { return None };
    let sign = 2 + (point.last()? & 1);
    let bits = [&[0, sign], &point[..point.len() / 2]].concat();
    let content = [algorithm.encoding, &[0x03, short(&bits)?], &bits].concat();
    Some([&[0x30, short(&content)?], &content[..]].concat())
}

/// Returns the length of `content` if DER encodes it in one byte.
fn short(content: &[u8]) -> Option<u8> {
    u8::try_from(content.len()).ok().filter(|length| *length < 0x80)
}
