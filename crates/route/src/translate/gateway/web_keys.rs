//! The parser of JSON Web Key Sets. Because of one set without a usable key, Envoy rejects a whole host with the routes
//! of other namespaces.

use std::sync::Arc;

use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ECDSA_P521_SHA512_FIXED, EcdsaVerificationAlgorithm,
    ParsedPublicKey,
};
use serde::Serialize;
use serde_json::Value;

/// The maximum size of a set in bytes. Source: CustomResourceDefinition. Manifests are not validated against it.
const MOST_BYTES: usize = 16_384;

/// The maximum number of keys of a set. Envoy tries all keys for a token without `kid`, and a key takes 0.05 ms of a worker, or 0.2 ms
/// for RSA of 8,192 bits.
const MOST_KEYS: usize = 16;

/// The curves with slow verification, 0.3 ms and 0.8 ms, and the maximum number of their keys in a set.
const SLOW_CURVES: [&str; 2] = ["P-384", "P-521"];
const MOST_SLOW_KEYS: usize = 4;

/// The minimum and the maximum number of bits of an RSA modulus. Sources: RFC 7518, section 3.3, and the limit for
/// certificates.
const RSA_BITS: (usize, usize) = (2048, 8192);

/// The RSA exponents that Envoy accepts, without leading zeros.
const RSA_EXPONENTS: [&[u8]; 2] = [&[3], &[1, 0, 1]];

/// The algorithms of RSA keys.
const RSA_ALGORITHMS: [&str; 6] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"];

/// The fields of a key that Envoy reads, and `use`. All other fields are left out.
#[derive(Serialize)]
struct Key<'k> {
    kty: Option<&'k str>,
    #[serde(skip_serializing)]
    r#use: Option<&'k str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kid: Option<&'k str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    alg: Option<&'k str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    crv: Option<&'k str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    n: Option<&'k str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    e: Option<&'k str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    x: Option<&'k str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    y: Option<&'k str>,
}

/// A set for Envoy.
#[derive(Serialize)]
struct KeySet<'k> {
    keys: Vec<Key<'k>>,
}

/// Parses a JSON Web Key Set. Returns it with only the keys for signatures, and only the fields that Envoy reads, so that the JSON
/// parsers cannot differ. Errors: a fault of the set or of any key for signatures. Sources: RFC 7517, RFC 7518, RFC 8037.
pub fn parse(text: &str) -> Result<Arc<str>, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("longer than {MOST_BYTES} bytes"));
    }
    let set: Value = serde_json::from_str(text).map_err(|fault| format!("not JSON: {fault}"))?;
    let keys = set.get("keys").and_then(Value::as_array).filter(|keys| !keys.is_empty());
    let keys = keys.ok_or_else(|| "has no list \"keys\" with a key".to_owned())?;
    if keys.len() > MOST_KEYS {
        return Err(format!("has more than {MOST_KEYS} keys"));
    }
    let key = |(i, key)| self::key(key).map_err(|fault| format!("key {i} {fault}")).transpose();
    let keys = keys.iter().enumerate().filter_map(key).collect::<Result<Vec<_>, _>>()?;
    if keys.is_empty() {
        return Err("has no key for signatures: all are for encryption".to_owned());
    }
    let slow = keys.iter().filter(|key| key.crv.is_some_and(|curve| SLOW_CURVES.contains(&curve)));
    if slow.count() > MOST_SLOW_KEYS {
        return Err(format!("has more than {MOST_SLOW_KEYS} keys on {}", SLOW_CURVES.join(" and ")));
    }
    serde_json::to_string(&KeySet { keys }).map(Into::into).map_err(|fault| fault.to_string())
}

/// Parses a key. Returns `None` for a key for encryption.
fn key(value: &Value) -> Result<Option<Key<'_>>, String> {
    let fields = value.as_object().ok_or_else(|| "is not an object".to_owned())?;
    let text = |name: &str| match fields.get(name) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.as_str())),
        Some(_) => Err(format!("has a field {name:?} that is not a string")),
    };
    let key = Key {
        kty: text("kty")?,
        r#use: text("use")?,
        kid: text("kid")?,
        alg: text("alg")?,
        crv: text("crv")?,
        n: text("n")?,
        e: text("e")?,
        x: text("x")?,
        y: text("y")?,
    };
    match key.r#use {
        None | Some("sig") => {}
        Some("enc") => return Ok(None),
        Some(other) => return Err(format!("has the \"use\" {other:?}, which is neither \"sig\" nor \"enc\"")),
    }
    match key.kty {
        Some("RSA") => rsa(&key)?,
        Some("EC") => elliptic(&key)?,
        Some("OKP") => edwards(&key)?,
        Some("oct") => return Err("is a shared secret, not a public key".to_owned()),
        other => return Err(format!("has the unknown type {:?}", other.unwrap_or_default())),
    }
    Ok(Some(key))
}

fn rsa(key: &Key<'_>) -> Result<(), String> {
    check_algorithm(key, &RSA_ALGORITHMS)?;
    let (modulus, exponent) = (number("n", key.n)?, number("e", key.e)?);
    let bits = modulus.first().map_or(0, |first| modulus.len() * 8 - first.leading_zeros() as usize);
    let (least, most) = RSA_BITS;
    if !(least..=most).contains(&bits) {
        return Err(format!("has a modulus \"n\" of {bits} bits, not of {least} to {most}"));
    }
    if modulus.last().is_none_or(|last| last % 2 == 0) {
        return Err("has an even modulus \"n\"".to_owned());
    }
    match RSA_EXPONENTS.contains(&&*exponent) {
        true => Ok(()),
        false => Err("has an exponent \"e\" other than 3 and 65537".to_owned()),
    }
}

fn elliptic(key: &Key<'_>) -> Result<(), String> {
    let (curve, algorithm, bytes): (&EcdsaVerificationAlgorithm, _, usize) = match required("crv", key.crv)? {
        "P-256" => (&ECDSA_P256_SHA256_FIXED, "ES256", 32),
        "P-384" => (&ECDSA_P384_SHA384_FIXED, "ES384", 48),
        "P-521" => (&ECDSA_P521_SHA512_FIXED, "ES512", 66),
        other => return Err(format!("has the unknown curve {other:?}")),
    };
    check_algorithm(key, &[algorithm])?;
    // An uncompressed point: a mark, and two coordinates of equal length.
    let mut point = vec![4];
    for (name, text) in [("x", key.x), ("y", key.y)] {
        let coordinate = number(name, text)?;
        let zeros = bytes.checked_sub(coordinate.len());
        let zeros = zeros.ok_or_else(|| format!("has a coordinate {name:?} of more than {bytes} bytes"))?;
        point.extend(std::iter::repeat_n(0, zeros).chain(coordinate));
    }
    let parsed = ParsedPublicKey::new(curve, point);
    parsed.map(|_| ()).map_err(|_| "is not a point on its curve".to_owned())
}

fn edwards(key: &Key<'_>) -> Result<(), String> {
    match required("crv", key.crv)? {
        "Ed25519" => {}
        other => return Err(format!("has the unknown curve {other:?}")),
    }
    check_algorithm(key, &["EdDSA"])?;
    match bytes("x", key.x)?.len() {
        32 => Ok(()),
        other => Err(format!("has a point \"x\" of {other} bytes, not of 32")),
    }
}

fn check_algorithm(key: &Key<'_>, allowed: &[&str]) -> Result<(), String> {
    match key.alg {
        Some(alg) if !allowed.contains(&alg) => {
            Err(format!("has the algorithm {alg:?}, which does not fit its type: {}", allowed.join(", ")))
        }
        _ => Ok(()),
    }
}

fn required<'k>(name: &str, text: Option<&'k str>) -> Result<&'k str, String> {
    text.filter(|text| !text.is_empty()).ok_or_else(|| format!("lacks {name:?}"))
}

/// Decodes a number. Returns its bytes, the most significant first, without leading zeros.
fn number(name: &str, text: Option<&str>) -> Result<Vec<u8>, String> {
    let mut bytes = bytes(name, text)?;
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    bytes.drain(..zeros);
    Ok(bytes)
}

fn bytes(name: &str, text: Option<&str>) -> Result<Vec<u8>, String> {
    let text = required(name, text)?;
    decode(text).ok_or_else(|| format!("has a field {name:?} that is not base64url without padding"))
}

/// Decodes base64url without padding. The unused bits of the last character are zero. Source: RFC 4648, section 5.
fn decode(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    for group in text.as_bytes().chunks(4) {
        let mut bits: u32 = 0;
        for character in group {
            let digit = match character {
                b'A'..=b'Z' => character - b'A',
                b'a'..=b'z' => character - b'a' + 26,
                b'0'..=b'9' => character - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return None,
            };
            bits = bits << 6 | u32::from(digit);
        }
        // 2, 3, and 4 characters encode 1, 2, and 3 bytes. A single character encodes none.
        let count = group.len().checked_sub(1).filter(|count| *count > 0)?;
        bits <<= 6 * (4 - group.len());
        let bytes_of_group = bits.to_be_bytes();
        let (used, unused) = bytes_of_group[1..].split_at(count);
        if unused.iter().any(|byte| *byte != 0) {
            return None;
        }
        bytes.extend(used);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests;
