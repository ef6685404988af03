#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::time::Duration;

use rcgen::{CertificateParams, DnType, KeyPair as Key, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519};

use super::*;

/// 2026-11-21.
fn now() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_795_200_000)
}

fn params(names: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::new(names.iter().map(ToString::to_string).collect::<Vec<_>>()).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.not_before = rcgen::date_time_ymd(2020, 1, 1);
    params.not_after = rcgen::date_time_ymd(2040, 1, 1);
    params
}

fn signed(params: &CertificateParams, key: &Key) -> String {
    params.self_signed(key).unwrap().pem()
}

fn fault(crt: &str, key: &str) -> String {
    key_pair(crt.as_bytes(), key.as_bytes(), now()).unwrap_err().fault
}

#[test]
fn a_good_pair_is_kept_in_canonical_pem() {
    for algorithm in [&PKCS_ECDSA_P256_SHA256, &PKCS_ECDSA_P384_SHA384, &PKCS_ED25519] {
        let key = Key::generate_for(algorithm).unwrap();
        let crt = signed(&params(&["Shop.example.com", "*.example.com"]), &key);
        let odd = format!("subject: someone\r\n{}\n# note\n", crt.replace('\n', "\r\n"));
        let pair = key_pair(odd.as_bytes(), key.serialize_pem().as_bytes(), now()).unwrap();
        assert_eq!(pair.names.as_slice(), ["*.example.com", "shop.example.com"]);
        assert_eq!(pair.not_after, 2_208_988_800);
        assert_eq!(String::from_utf8(pair.certificate_chain).unwrap(), crt.replace("\r\n", "\n"));
        // Whatever its original form, the key is encoded as PKCS#8 version 1: Envoy accepts no other version.
        let key = String::from_utf8(pair.private_key).unwrap();
        let version = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap().secret_der()[..8]
            .windows(3)
            .any(|part| part == [2, 1, 0]);
        assert!(key.starts_with("-----BEGIN PRIVATE KEY-----\n") && version, "{key}");
    }
}

#[test]
fn the_common_name_counts_if_there_is_no_dns_name() {
    let key = Key::generate().unwrap();
    let mut params = params(&[]);
    params.distinguished_name.push(DnType::CommonName, "Old.example.com");
    let pair = key_pair(signed(&params, &key).as_bytes(), key.serialize_pem().as_bytes(), now()).unwrap();
    assert_eq!(pair.names.as_slice(), ["old.example.com"]);
}

#[test]
fn faults_name_the_data_key() {
    let (key, other) = (Key::generate().unwrap(), Key::generate().unwrap());
    let good = params(&["a.test"]);
    let (crt, pem) = (signed(&good, &key), key.serialize_pem());
    let mut expired = good.clone();
    expired.not_after = rcgen::date_time_ymd(2021, 1, 1);
    let mut early = good.clone();
    early.not_before = rcgen::date_time_ymd(2039, 1, 1);
    let foreign = signed(&good, &other);
    let half = &crt[..crt.len() / 2];
    let cases = [
        (fault(&crt, &other.serialize_pem()), r#"data["tls.key"]: the key does not match the certificate"#),
        (
            fault(&signed(&expired, &key), &pem),
            r#"data["tls.crt"]: the certificate expired on Jan  1 00:00:00 2021 +00:00"#,
        ),
        (
            fault(&signed(&early, &key), &pem),
            r#"data["tls.crt"]: the certificate is not valid before Jan  1 00:00:00 2039 +00:00"#,
        ),
        (
            fault(&signed(&params(&[]), &key), &pem),
            r#"data["tls.crt"]: the certificate has neither a common name nor a subject alternative name"#,
        ),
        (fault(half, &pem), r#"data["tls.crt"]: a PEM block has no end"#),
        (fault("", &pem), r#"data["tls.crt"]: empty"#),
        (fault("hello", &pem), r#"data["tls.crt"]: no PEM block "CERTIFICATE" in it"#),
        (
            fault(&format!("{crt}{pem}"), &pem),
            r#"data["tls.crt"]: a private key is in it; it belongs into data["tls.key"]"#,
        ),
        (fault(&crt, ""), r#"data["tls.key"]: empty"#),
        (
            fault(&crt, &crt),
            r#"data["tls.key"]: no PEM block "PRIVATE KEY", "RSA PRIVATE KEY" or "EC PRIVATE KEY" in it"#,
        ),
        (fault(&crt, &format!("{pem}{pem}")), r#"data["tls.key"]: more than one private key in it"#),
        (
            fault(&crt, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"),
            r#"data["tls.key"]: the private key is encrypted; it must be without a passphrase"#,
        ),
        (
            fault(&crt, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
            r#"data["tls.key"]: the key is not a usable RSA, ECDSA or Ed25519 key"#,
        ),
        (
            fault("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", &pem),
            r#"data["tls.crt"]: certificate 1 is not X.509"#,
        ),
        (
            fault(&format!("{foreign}{crt}"), &pem),
            r#"data["tls.crt"]: the certificate of the key is number 2 and must be the first: leaf first, then its issuers"#,
        ),
    ];
    for (found, expected) in cases {
        assert_eq!(found, expected);
    }
}

#[test]
fn key_pairs_are_accepted_if_envoy_accepts_them() {
    let pair = |crt: &str, key: &str| {
        let now = UNIX_EPOCH + Duration::from_secs(1_830_000_000);
        key_pair(crt.as_bytes(), key.as_bytes(), now).map_err(|unusable| unusable.fault)
    };
    for (crt, key) in [
        (include_str!("tests/rsa2048.crt"), include_str!("tests/rsa2048.key")),
        (include_str!("tests/rsa2048.crt"), include_str!("tests/rsa2048-pkcs1.key")),
        (include_str!("tests/rsa5000.crt"), include_str!("tests/rsa5000.key")),
        (include_str!("tests/p256.crt"), include_str!("tests/p256-sec1.key")),
        (include_str!("tests/p521.crt"), include_str!("tests/p521.key")),
        (include_str!("tests/p521.crt"), include_str!("tests/p521-sec1.key")),
        (include_str!("tests/version1.crt"), include_str!("tests/rsa2048.key")),
    ] {
        assert_eq!(pair(crt, key).map(|pair| pair.names.clone()), Ok(vec!["a.test".to_string()].into()), "{crt}");
    }
    let mismatch = r#"data["tls.key"]: the key does not match the certificate"#;
    let p521_other = include_str!("tests/p521-other.key");
    assert_eq!(pair(include_str!("tests/p521.crt"), p521_other).unwrap_err(), mismatch);
    assert_eq!(pair(include_str!("tests/p256.crt"), p521_other).unwrap_err(), mismatch);
    assert_eq!(pair(include_str!("tests/rsa2048.crt"), include_str!("tests/rsa5000.key")).unwrap_err(), mismatch);
    for (crt, key, fault) in [
        (
            include_str!("tests/rsa1024.crt"),
            include_str!("tests/rsa1024.key"),
            "the RSA key has 1024 bits; Envoy requires at least 2048",
        ),
        (
            include_str!("tests/p224.crt"),
            include_str!("tests/p224.key"),
            "the key's elliptic curve is none of P-256, P-384 and P-521",
        ),
    ] {
        assert_eq!(pair(crt, key).unwrap_err(), format!("data[\"tls.crt\"]: {fault}"));
    }
}

#[test]
fn authorities_are_certificates_each_once() {
    let key = Key::generate().unwrap();
    let (one, other) = (signed(&params(&["a.test"]), &key), signed(&params(&["b.test"]), &key));
    let all = format!("# ours\n{one}{}\n{one}", other.replace('\n', "\r\n"));
    let plain = |text: &str| text.replace("\r\n", "\n");
    assert_eq!(authorities(all.as_bytes()).unwrap(), plain(&one) + &plain(&other));
    let fault = |text: &str| authorities(text.as_bytes()).unwrap_err();
    assert_eq!(fault(""), r#"data["ca.crt"]: empty"#);
    assert_eq!(fault(&one[..one.len() / 2]), r#"data["ca.crt"]: a PEM block has no end"#);
    let no_certificate = format!("{one}-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
    assert_eq!(fault(&no_certificate), r#"data["ca.crt"]: certificate 2 is not X.509"#);
}

/// The cost of one Secret is bounded, whatever a tenant puts into it.
#[test]
fn a_secret_is_validated_within_a_time_limit() {
    let now = UNIX_EPOCH + Duration::from_secs(1_830_000_000);
    let (rsa5000, rsa5000_key) = (include_str!("tests/rsa5000.crt"), include_str!("tests/rsa5000.key"));
    let (p256, p256_key) = (include_str!("tests/p256.crt"), include_str!("tests/p256-sec1.key"));
    let huge = |tag: u8| {
        let mut der = vec![tag, 0x83, 0x0b, 0xff, 0xf0];
        der.resize(0x0b_fff5, 0x41);
        der
    };
    let nested = |levels: usize| {
        (0..levels).fold(Vec::new(), |inner: Vec<u8>, _| {
            let length = u32::try_from(inner.len()).unwrap().to_be_bytes();
            let length = match inner.len() {
                0..=0x7f => vec![length[3]],
                0x80..=0xff => vec![0x81, length[3]],
                0x100..=0xffff => vec![0x82, length[2], length[3]],
                _ => vec![0x83, length[1], length[2], length[3]],
            };
            [&[0x30][..], &length, &inner].concat()
        })
    };
    let certificate = |der: &[u8]| String::from_utf8(pem("CERTIFICATE", der)).unwrap();
    let chain = |times: usize| p256.repeat(times);
    let cases = [
        ("RSA of 5,000 bits", rsa5000.to_owned(), rsa5000_key.to_owned(), true),
        ("the longest chain", chain(32), p256_key.to_owned(), true),
        ("a longer chain", chain(33), p256_key.to_owned(), false),
        ("1 MiB of certificates", chain(1024 * 1024 / p256.len()), p256_key.to_owned(), false),
        ("one certificate of 768 KiB", certificate(&huge(0x30)), p256_key.to_owned(), false),
        ("200,000 levels", certificate(&nested(200_000)), p256_key.to_owned(), false),
        ("a key of 768 KiB", p256.to_owned(), String::from_utf8(pem("PRIVATE KEY", &huge(0x30))).unwrap(), false),
    ];
    for (what, crt, key, good) in cases {
        let start = std::time::Instant::now();
        let result = key_pair(crt.as_bytes(), key.as_bytes(), now);
        let took = start.elapsed();
        println!("{what}: {took:?}, {:?}", result.as_ref().map(|pair| &pair.names));
        assert_eq!(result.is_ok(), good, "{what}: {:?}", result.err());
        assert!(took < Duration::from_secs(2), "{what}: {took:?}");
    }
    let bundle = chain(1024 * 1024 / p256.len());
    let start = std::time::Instant::now();
    assert_eq!(authorities(bundle.as_bytes()).unwrap(), p256);
    println!("1 MiB of authorities: {:?}", start.elapsed());
}
