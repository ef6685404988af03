//! The values of the settings file, checked by a real Envoy: it must accept every valid file.

use lockgate_route::envoy::build;
use lockgate_route::settings::Settings;
use lockgate_route::testing::envoy::{standalone, validate};
use lockgate_route::testing::model::model;

use super::format_string::{OPERATORS_WITH_PARAMETER, PLAIN_OPERATORS, check};
use super::*;

#[track_caller]
fn assert_taken(settings: &Settings) {
    validate(&standalone(&build(&model(), settings), settings)).unwrap();
}

fn with_line(text: &str) -> Settings {
    let mut settings = Settings::default();
    settings.access_log.text = format!("{text}\n");
    settings
}

#[test]
fn a_real_envoy_accepts_every_key_without_a_warning() {
    assert_taken(&read(EVERY_KEY).settings.route);
    for (_, text) in ELSEWHERE {
        assert_taken(&read(text).settings.route);
    }
}

#[test]
fn a_real_envoy_knows_every_operator() {
    let examples = [
        "%CLUSTER_METADATA(a:b)%",
        "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:ms)%",
        "%DOWNSTREAM_PEER_CERT_V_END(%Y)%",
        "%DOWNSTREAM_PEER_CERT_V_START%",
        "%DYNAMIC_METADATA(a:b):9%",
        "%EMIT_TIME(%s)%",
        "%EMIT_TIME_LOCAL%",
        "%ENVIRONMENT(HOME):9%",
        "%FILTER_STATE(a:PLAIN):9%",
        "%GRPC_STATUS(SNAKE_STRING)%",
        "%METADATA(VIRTUAL_HOST:a:b):9%",
        "%QUERY_PARAM(a):9%",
        "%REQ(:METHOD):9%",
        "%REQUEST_HEADER(A?B):9%",
        "%RESP(A):9%",
        "%RESPONSE_HEADER(A)%",
        "%RESPONSE_TRAILER(A)%",
        "%START_TIME(%Y%m%dT%H:%M:%E3S)%",
        "%START_TIME_LOCAL%",
        "%TRAILER(A):9%",
        "%UPSTREAM_FILTER_STATE(a:TYPED):9%",
        "%UPSTREAM_METADATA(a:b)%",
        "%UPSTREAM_PEER_CERT_V_END%",
        "%UPSTREAM_PEER_CERT_V_START(%Y)%",
        "100%%",
    ];
    let plain = PLAIN_OPERATORS.iter().map(|name| format!("%{name}%"));
    let line = examples.map(str::to_owned).into_iter().chain(plain).collect::<Vec<_>>().join(" ");
    for (name, _) in OPERATORS_WITH_PARAMETER {
        assert!(line.contains(&format!("%{name}")), "%{name}% has no example");
    }
    assert_eq!(check(&line), Ok(()));
    assert_taken(&with_line(&line));
}

#[test]
fn a_real_envoy_rejects_formats_that_are_rejected_here() {
    for line in ["100%", "%PROTOKOL%", "%REQ%", "%REQ(a b)%", "%REQ(a?b?c)%", "%PROTOCOL:5%", "%START_TIME(%n)%"] {
        assert!(check(line).is_err(), "{line}");
        let settings = with_line(line);
        assert!(validate(&standalone(&build(&model(), &settings), &settings)).is_err(), "{line}");
    }
}

#[test]
fn a_real_envoy_knows_every_cipher_suite_and_curve() {
    let mut settings = Settings::default();
    settings.tls.parameters.cipher_suites = values::tls::CIPHERS.map(str::to_owned).to_vec();
    settings.tls.parameters.curves = values::tls::CURVES.map(str::to_owned).to_vec();
    settings.upstream.tls = settings.tls.parameters.clone();
    assert_taken(&settings);
}
