//! The most expensive keys and tokens that an HTTPPolicy accepts.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// A point on P-521.
const P521: &str = r#"{"kty": "EC", "crv": "P-521", "x": "AYYyVkfZsIFJRDvSHfXy-0zitDWWuWvVK83JuI_s0YB--DaM-zbm-8SrTfgwm4vyvREAl8b6aVMc4tn0VRWSxcku", "y": "ARht1Ph1o5iTkgXJ3vGE_Q36OUyA5988VFvCF_BQlYyP548gpCsC9rRLoYSy6i8z0rpMBxbzUGwQd3bDrYIVPmo7"}"#;
/// A point on P-256. Source: RFC 7515 appendix A.3.
const P256: &str = r#"{"kty": "EC", "crv": "P-256", "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#;

/// Repeats a text for numbers, with commas.
pub fn list(count: usize, text: impl Fn(usize) -> String) -> String {
    (0..count).map(text).collect::<Vec<_>>().join(", ")
}

/// Returns a token without a key identifier and with a wrong signature.
pub fn token(algorithm: &str, signature: usize) -> String {
    let [head, claims] =
        [format!(r#"{{"alg": "{algorithm}"}}"#), r#"{"iss": "https://issuer0.test", "exp": 4000000000}"#.into()]
            .map(|text| URL_SAFE_NO_PAD.encode(text));
    format!("Bearer {head}.{claims}.{}", URL_SAFE_NO_PAD.encode(vec![1; signature]))
}

/// Returns the field `jwt` of an HTTPPolicy: four providers with these keys.
pub fn jwt(keys: &str) -> String {
    let provider = |i| format!("{{ issuer: 'https://issuer{i}.test', jwks: {{ inline: '{{\"keys\": [{keys}]}}' }} }}");
    format!("jwt: {{ providers: [{}] }}", list(4, provider))
}

/// Returns 16 keys, as many of them on P-521 as a set may have.
pub fn slow_keys() -> String {
    [list(4, |_| P521.to_owned()), list(12, |_| P256.to_owned())].join(", ")
}
