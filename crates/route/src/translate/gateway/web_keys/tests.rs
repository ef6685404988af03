//! Tests that a real Envoy accepts every JSON Web Key Set that passes the check.

#![allow(clippy::expect_used, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, ECDSA_P384_SHA384_FIXED_SIGNING, ECDSA_P521_SHA512_FIXED_SIGNING, EcdsaKeyPair,
    Ed25519KeyPair, KeyPair,
};
use lockgate_xds::provenance::ObjectRef;
use serde_json::{Value, json};

use super::{decode, parse};
use crate::model::{Action, Host, Jwks, Jwt, JwtIssuer, ListenerId, PathMatch, Route, RoutePolicy, VirtualHostRoutes};
use crate::settings::Settings;
use crate::testing::envoy::{standalone, validate};

/// The number of mutated sets.
const MUTATIONS: usize = 6000;

/// The fields of keys.
const FIELDS: [&str; 9] = ["kty", "use", "kid", "alg", "crv", "n", "e", "x", "y"];

/// Texts for any field: numbers, names, and texts with a meaning for parsers.
const TEXTS: &[&str] = &[
    "",
    "A",
    "AA",
    "AQ",
    "Aw",
    "BQ",
    "EQ",
    "AQAB",
    "AAEAAQ",
    "AQABAA",
    "AQAAAAE",
    "_____w",
    "AgAAAAE",
    "AQAAAAAAAAAB",
    "AQ==",
    "AQAB\n",
    " AQAB",
    "+/+/",
    "AR",
    "é",
    "\0",
    "\u{ffff}",
    "😀",
    "\u{2028}",
    "\"",
    "RSA",
    "EC",
    "OKP",
    "oct",
    "ec",
    "sig",
    "enc",
    "P-256",
    "P-384",
    "P-521",
    "secp256k1",
    "Ed25519",
    "X25519",
    "Ed448",
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "RSA-OAEP",
    "ES256",
    "ES384",
    "ES512",
    "ES256K",
    "EdDSA",
    "HS256",
    "none",
];

/// Random numbers, equal in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn one<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// Returns an odd number of this many bits.
    fn modulus(&mut self, bits: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..bits.div_ceil(8)).map(|_| self.below(256) as u8).collect();
        let high = (bits - 1) % 8;
        bytes[0] = bytes[0] & ((1 << high) - 1) | 1 << high;
        *bytes.last_mut().unwrap() |= 1;
        bytes
    }

    /// Changes a key in one place.
    fn mutate(&mut self, key: &mut Value) {
        let name = *self.one(&FIELDS);
        let bytes = key[name].as_str().and_then(decode);
        let change = self.below(16);
        match (change, bytes) {
            (0, _) => key[name] = Value::Null,
            (1, _) => key[name] = json!([1, {"a": 1.5}]),
            (2, _) => drop(key.as_object_mut().unwrap().remove(name)),
            (3..=4, _) => key[name] = json!(self.one(TEXTS)),
            (5, _) => {
                let other = *self.one(&FIELDS);
                let [one, two] = [key[name].clone(), key[other].clone()];
                (key[name], key[other]) = (two, one);
            }
            (6, _) => key["n"] = json!(encode(&self.modulus(self.0 as usize % 9 + 2044))),
            (7, _) => {
                let bits = *self.one(&[512, 1024, 2047, 2048, 3072, 4096, 8191, 8192, 8193, 16_384]);
                key["n"] = json!(encode(&self.modulus(bits)));
            }
            (8, _) => key["x5c"] = json!(["MIIB", {"deep": [[[[[[1e300]]]]]]}]),
            (9, Some(mut bytes)) if !bytes.is_empty() => {
                let place = self.below(bytes.len());
                bytes[place] ^= 1 << self.below(8);
                key[name] = json!(encode(&bytes));
            }
            (10, Some(mut bytes)) => {
                bytes.truncate(self.below(bytes.len() + 1));
                key[name] = json!(encode(&bytes));
            }
            (11, Some(bytes)) => key[name] = json!(encode(&[vec![0; self.below(3)], bytes].concat())),
            (12, Some(bytes)) => key[name] = json!(encode(&vec![*self.one(&[0, 255]); bytes.len()])),
            (13, Some(bytes)) => {
                key[name] = json!(encode(&bytes).replace('-', "+") + *self.one(&["", "=", "==", "\n"]))
            }
            (14, Some(mut bytes)) => {
                bytes.push(self.below(256) as u8);
                key[name] = json!(encode(&bytes));
            }
            _ => key["kid"] = json!(self.one(TEXTS)),
        }
    }
}

fn encode(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let group = |group: &[u8]| {
        let bits = group.iter().fold(0, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        (0..=group.len()).map(move |i| char::from(DIGITS[(bits >> (18 - 6 * i)) as usize % 64])).collect::<String>()
    };
    bytes.chunks(3).map(group).collect()
}

/// Returns a key of each type.
fn good() -> Vec<Value> {
    let mut random = Random(1);
    let mut keys = Vec::new();
    for (bits, e) in [(2048, "AQAB"), (3072, "Aw"), (8192, "AQAB")] {
        keys.push(json!({"kty": "RSA", "alg": "RS256", "n": encode(&random.modulus(bits)), "e": e}));
    }
    let curves = [
        (&ECDSA_P256_SHA256_FIXED_SIGNING, "P-256", "ES256", 32),
        (&ECDSA_P384_SHA384_FIXED_SIGNING, "P-384", "ES384", 48),
        (&ECDSA_P521_SHA512_FIXED_SIGNING, "P-521", "ES512", 66),
    ];
    for (curve, crv, alg, bytes) in curves {
        let pair = EcdsaKeyPair::generate(curve).unwrap();
        let (x, y) = pair.public_key().as_ref()[1..].split_at(bytes);
        keys.push(
            json!({"kty": "EC", "use": "sig", "crv": crv, "alg": alg, "kid": "a", "x": encode(x), "y": encode(y)}),
        );
    }
    let pair = Ed25519KeyPair::from_pkcs8(Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref());
    keys.push(
        json!({"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "x": encode(pair.unwrap().public_key().as_ref())}),
    );
    keys
}

fn set(keys: &[Value]) -> String {
    json!({"keys": keys}).to_string()
}

/// Validates sets with a real Envoy, each of a route.
fn authorize(sets: impl IntoIterator<Item = Arc<str>>) -> Result<(), String> {
    let route = |(i, jwks): (usize, Arc<str>)| {
        let path = PathMatch::Exact(format!("/{i}").into());
        let providers = vec![JwtIssuer {
            issuer: "https://issuer.test".into(),
            audiences: Vec::new(),
            jwks: Jwks::Inline(jwks),
            forwards: true,
            reads_query: false,
        }];
        let policy = RoutePolicy { jwt: Some(Arc::new(Jwt { providers })), ..RoutePolicy::default() };
        let route = Route::new(path, Action::respond(404), ObjectRef::new("HTTPRoute", "shop", "r"));
        route.with_policy(Arc::new(policy))
    };
    let host = VirtualHostRoutes::new(sets.into_iter().enumerate().map(route));
    let hosts = BTreeMap::from([(Host::Any, host)]);
    let routes = crate::envoy::route::http_routes(&ListenerId::new(ListenerId::HTTP), &hosts, &Settings::default());
    validate(&standalone(&[routes], &Settings::default()))
}

/// Returns one of the sets that a real Envoy rejects. Its message names neither the route nor the key.
fn rejected(mut sets: Vec<Arc<str>>) -> Option<(Arc<str>, String)> {
    let mut fault = authorize(sets.clone()).err()?;
    while sets.len() > 1 {
        let half = sets.split_off(sets.len() / 2);
        if let Err(message) = authorize(half.clone()) {
            (sets, fault) = (half, message);
        }
    }
    sets.pop().map(|set| (set, fault))
}

#[test]
fn a_real_envoy_accepts_every_set_that_passes_the_check() {
    let (good, mut random) = (good(), Random(7));
    let mut accepted: Vec<Arc<str>> = good.iter().map(|key| parse(&set(std::slice::from_ref(key))).unwrap()).collect();
    let mut refused = BTreeMap::<String, usize>::new();
    for _ in 0..MUTATIONS {
        let mut keys = vec![random.one(&good).clone()];
        for _ in 0..=random.below(2) {
            random.mutate(&mut keys[0]);
        }
        match parse(&set(&keys)) {
            Ok(set) => accepted.push(set),
            Err(fault) => *refused.entry(fault).or_default() += 1,
        }
    }
    println!("{} accepted, {} refused, {} faults", accepted.len(), refused.values().sum::<usize>(), refused.len());
    assert!(accepted.len() > 1000 && refused.len() > 50, "{} {refused:#?}", accepted.len());
    assert_eq!(rejected(accepted), None);
}

#[test]
fn sets_that_a_real_envoy_rejects_are_refused() {
    let good = good();
    let with = |i: usize, name: &str, value: Value| {
        let mut key = good[i].clone();
        key[name] = value;
        set(&[key])
    };
    let deep = format!(r#"{{"keys": [{}], "more": {}1{}}}"#, good[3], "[".repeat(120), "]".repeat(120));
    let twice = set(&good).replacen("{", r#"{"more": 1, "more": 2, "#, 1);
    let mut even = Random(1).modulus(2048);
    *even.last_mut().unwrap() -= 1;
    let cases = [
        ("short", with(0, "n", json!("A".repeat(340))), "key 0 has a modulus \"n\" of 0 bits, not of 2048 to 8192"),
        ("long", with(0, "n", json!(encode(&Random(1).modulus(8193)))), "key 0 has a modulus \"n\" of 8193 bits"),
        ("even", with(0, "n", json!(encode(&even))), "key 0 has an even modulus"),
        ("e", with(0, "e", json!("BQ")), "key 0 has an exponent \"e\" other than 3 and 65537"),
        ("padding", with(0, "e", json!("AQA=B")), "key 0 has a field \"e\" that is not base64url without padding"),
        ("point", with(3, "y", good[3]["x"].clone()), "key 0 is not a point on its curve"),
        ("curve", with(3, "crv", json!("secp256k1")), "key 0 has the unknown curve \"secp256k1\""),
        (
            "algorithm",
            with(3, "alg", json!("ES384")),
            "key 0 has the algorithm \"ES384\", which does not fit its type: ES256",
        ),
        ("length", with(6, "x", json!("AQAB")), "key 0 has a point \"x\" of 3 bytes, not of 32"),
        ("kty", with(3, "kty", json!("ec")), "key 0 has the unknown type \"ec\""),
        ("missing", with(3, "x", Value::Null), "key 0 has a field \"x\" that is not a string"),
        ("PEM", "-----BEGIN PUBLIC KEY-----\nAQAB\n-----END PUBLIC KEY-----\n".to_owned(), "not JSON"),
        (
            "X.509",
            json!({"a": "-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n"}).to_string(),
            "has no list",
        ),
        ("empty", set(&[]), "has no list \"keys\" with a key"),
        ("strings", set(&[json!("a")]), "key 0 is not an object"),
    ];
    let mut stricter = Vec::new();
    for (name, set, expected) in cases {
        let fault = parse(&set).expect_err(name);
        assert!(fault.starts_with(expected), "{name}: {fault}");
        match authorize([set.into()]) {
            Ok(()) => stricter.push(name),
            Err(verdict) => assert!(verdict.contains("jwks"), "{name}: {verdict}"),
        }
    }
    assert_eq!(stricter, ["long"], "Envoy accepts these");
    // Envoy rejects these, but accepts the form that Lockgate sends.
    for set in [deep, twice] {
        let sent = parse(&set).expect("a set");
        assert!(authorize([set.as_str().into()]).is_err() && authorize([sent]).is_ok(), "{set}");
    }
}

#[test]
fn a_set_with_one_faulty_key_is_refused_as_a_whole() {
    let mut keys = good();
    keys[4]["x"] = json!("AQAB");
    assert_eq!(parse(&set(&keys)).unwrap_err(), "key 4 is not a point on its curve");
    assert_eq!(parse(&set(&vec![good().remove(6); 17])).unwrap_err(), "has more than 16 keys");
    let slow =
        |count: usize| [vec![good().remove(5); count], vec![good().remove(4); 1], vec![good().remove(3); 11]].concat();
    assert!(parse(&set(&slow(3))).is_ok());
    assert_eq!(parse(&set(&slow(4))).unwrap_err(), "has more than 4 keys on P-384 and P-521");
    assert_eq!(parse(&" ".repeat(20_000)).unwrap_err(), "longer than 16384 bytes");
}

#[test]
fn keys_for_encryption_and_unknown_fields_are_left_out() {
    let good = good().remove(6);
    let encryption = json!({"kty": "RSA", "use": "enc", "alg": "RSA-OAEP", "n": "AQAB", "e": "AQAB"});
    let mut more = good.clone();
    (more["x5c"], more["use"]) = (json!(["MIIB"]), json!("sig"));
    let parsed: Value = serde_json::from_str(&parse(&set(&[encryption.clone(), more])).unwrap()).unwrap();
    assert_eq!(parsed, json!({"keys": [good]}));
    assert_eq!(parse(&set(&[encryption])).unwrap_err(), "has no key for signatures: all are for encryption");
}

#[test]
fn base64url_is_decoded() {
    for bytes in [&b""[..], b"a", b"ab", b"abc", &[0, 255, 254, 62, 63]] {
        assert_eq!(decode(&encode(bytes)).as_deref(), Some(bytes));
    }
    for text in ["A", "AB", "AAB", "AAAAA", "AA==", "A+", "A/", "A\n", "AA ", "é"] {
        assert_eq!(decode(text), None, "{text}");
    }
}
