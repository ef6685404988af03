//! An issuer of JSON Web Tokens.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

/// An issuer of tokens.
pub struct Issuer(EcdsaKeyPair);

impl Default for Issuer {
    fn default() -> Self {
        Self::new()
    }
}

impl Issuer {
    /// Creates an issuer with a new key.
    pub fn new() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).expect("a key");
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random);
        Self(key.expect("a key"))
    }

    /// Returns the public key as a JSON Web Key Set.
    pub fn keys(&self) -> String {
        // An uncompressed point: a byte, and two coordinates.
        let point = self.0.public_key().as_ref();
        let [x, y] = [&point[1..33], &point[33..]].map(|coordinate| URL_SAFE_NO_PAD.encode(coordinate));
        format!(r#"{{"keys": [{{"kty": "EC", "crv": "P-256", "alg": "ES256", "x": "{x}", "y": "{y}"}}]}}"#)
    }

    /// Returns the feature `jwt` of an HTTPPolicy, for tokens of this issuer and the audience `shop`.
    pub fn policy(&self) -> String {
        format!(
            "jwt: {{ providers: [{{ issuer: 'https://issuer.test', audiences: [shop], jwks: {{ inline: '{}' }} }}] }}",
            self.keys()
        )
    }

    /// Returns the header of a token for an audience that expires in some seconds.
    pub fn bearer(&self, audience: &str, seconds: i64) -> String {
        self.bearer_of("https://issuer.test", audience, seconds)
    }

    /// Like [`Self::bearer`], with another name of the issuer.
    pub fn bearer_of(&self, issuer: &str, audience: &str, seconds: i64) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs() as i64;
        let claims = format!(r#"{{"iss": "{issuer}", "aud": "{audience}", "exp": {}}}"#, now + seconds);
        let text = format!("{}.{}", URL_SAFE_NO_PAD.encode(r#"{"alg": "ES256"}"#), URL_SAFE_NO_PAD.encode(claims));
        let signature = self.0.sign(&SystemRandom::new(), text.as_bytes()).expect("a signature");
        format!("Bearer {text}.{}", URL_SAFE_NO_PAD.encode(signature))
    }
}
