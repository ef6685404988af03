//! TLS versions, cipher suites, and curves, with the names of BoringSSL, which Envoy uses.

use lockgate_route::model::TlsVersion;
use serde_json::{Value as Json, json};

use super::Scalar;

/// A version.
pub struct Version;

impl Scalar for Version {
    type Value = TlsVersion;
    const NAME: &'static str = "TLS version (`1.2`, `1.3`)";

    fn parse(text: &str) -> Result<TlsVersion, String> {
        match text {
            "1.2" => Ok(TlsVersion::V1_2),
            "1.3" => Ok(TlsVersion::V1_3),
            _ => Err("expected 1.2 or 1.3".to_owned()),
        }
    }

    fn show(value: &TlsVersion) -> Json {
        match value {
            TlsVersion::V1_2 => "1.2".into(),
            TlsVersion::V1_3 => "1.3".into(),
        }
    }

    fn schema() -> Json {
        json!({"enum": ["1.2", "1.3", 1.2, 1.3]})
    }
}

/// The status of a redirect that keeps the path.
pub struct RedirectStatus;

impl Scalar for RedirectStatus {
    type Value = u16;
    const NAME: &'static str = "status (`301`, `302`, `307`, `308`)";

    fn parse(text: &str) -> Result<u16, String> {
        let known = text.parse().ok().filter(|status| [301, 302, 307, 308].contains(status));
        known.ok_or_else(|| "expected 301, 302, 307 or 308".to_owned())
    }

    fn show(value: &u16) -> Json {
        (*value).into()
    }

    fn schema() -> Json {
        json!({"enum": [301, 302, 307, 308]})
    }
}

/// Cipher suites of TLS 1.2.
pub const CIPHERS: [&str; 14] = [
    "ECDHE-ECDSA-AES128-GCM-SHA256",
    "ECDHE-RSA-AES128-GCM-SHA256",
    "ECDHE-ECDSA-AES256-GCM-SHA384",
    "ECDHE-RSA-AES256-GCM-SHA384",
    "ECDHE-ECDSA-CHACHA20-POLY1305",
    "ECDHE-RSA-CHACHA20-POLY1305",
    "ECDHE-ECDSA-AES128-SHA",
    "ECDHE-RSA-AES128-SHA",
    "ECDHE-ECDSA-AES256-SHA",
    "ECDHE-RSA-AES256-SHA",
    "AES128-GCM-SHA256",
    "AES256-GCM-SHA384",
    "AES128-SHA",
    "AES256-SHA",
];

/// A cipher suite of TLS 1.2, or a group `[A|B]` with equal preference.
pub struct CipherSuite;

impl Scalar for CipherSuite {
    type Value = String;
    const NAME: &'static str = "cipher suite of TLS 1.2";

    fn parse(text: &str) -> Result<String, String> {
        let group = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let unknown = group.unwrap_or(text).split('|').find(|name| !CIPHERS.contains(name));
        match unknown {
            _ if group.is_none() && text.contains('|') => Err("expected brackets around a group: [A|B]".to_owned()),
            None => Ok(text.to_owned()),
            Some(name) if name.starts_with("TLS_") => Err(format!(
                "the cipher suites of TLS 1.3 are not configurable; expected one of {}",
                CIPHERS.join(", ")
            )),
            Some(_) => Err(format!("expected one of {}, or a group [A|B] of them", CIPHERS.join(", "))),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"type": "string"})
    }
}

/// Curves and groups of a key exchange.
pub const CURVES: [&str; 5] = ["X25519", "P-256", "P-384", "P-521", "X25519MLKEM768"];

/// A curve.
pub struct Curve;

impl Scalar for Curve {
    type Value = String;
    const NAME: &'static str = "curve";

    fn parse(text: &str) -> Result<String, String> {
        match CURVES.contains(&text) {
            true => Ok(text.to_owned()),
            false => Err(format!("expected one of {}", CURVES.join(", "))),
        }
    }

    fn show(value: &String) -> Json {
        value.as_str().into()
    }

    fn schema() -> Json {
        json!({"enum": CURVES})
    }
}
