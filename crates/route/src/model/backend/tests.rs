//! The identity of features.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use super::*;
use crate::model::{Algorithm, CookieName, HeaderName, ObjectKey};

fn text(features: &BackendFeatures) -> String {
    let mut text = String::new();
    features.write(&mut text);
    text
}

fn detection() -> OutlierDetection {
    OutlierDetection {
        consecutive_5xx: None,
        consecutive_gateway_errors: None,
        consecutive_local_origin_failures: None,
        success_rate: None,
        interval: Duration::from_secs(10),
        base_ejection_time: Duration::from_secs(30),
        max_ejection_time: Duration::from_secs(300),
        max_ejection_percent: 50,
    }
}

fn check(probe: Probe) -> HealthCheck {
    HealthCheck {
        probe,
        port: None,
        service_port: None,
        interval: Duration::from_secs(10),
        timeout: Duration::from_secs(1),
        jitter_percent: 10,
        healthy_threshold: 2,
        unhealthy_threshold: 3,
    }
}

fn http(host: &str, path: &str) -> Probe {
    Probe::Http { host: host.into(), path: path.into(), method: ProbeMethod::Get, statuses: vec![(200, 299)] }
}

#[test]
fn every_field_of_the_features_is_in_the_identity() {
    let ejecting = |detection| BackendFeatures { outlier_detection: Some(detection), ..Default::default() };
    let checking = |check| BackendFeatures { health_check: Some(check), ..Default::default() };
    let balancing = |algorithm, slow_start, hash_on| {
        let load_balancing = Some(LoadBalancing { algorithm, slow_start, hash_on });
        BackendFeatures { load_balancing, ..Default::default() }
    };
    let hashing = |on: HashOn| balancing(Algorithm::Maglev, None, vec![on.into()]);
    let keepalive = |probes, idle_seconds, interval_seconds| {
        let tcp_keepalive = Some(TcpKeepalive { probes, idle_seconds, interval_seconds });
        BackendFeatures { tcp_keepalive, ..Default::default() }
    };
    let budget = |percent, min_concurrency| {
        let retry_budget = Some(RetryBudget { percent, min_concurrency });
        BackendFeatures { retry_budget, ..Default::default() }
    };
    let rate = |minimum_hosts, request_volume, stdev_factor| {
        let success_rate = Some(SuccessRate { minimum_hosts, request_volume, stdev_factor });
        ejecting(OutlierDetection { success_rate, ..detection() })
    };
    let cookie = |name, path: &str, lifetime| {
        hashing(HashOn::Cookie { name: CookieName::parse(name).unwrap(), path: path.into(), lifetime })
    };
    let slow = |seconds, min_weight_percent, aggression_thousandths| {
        let window = Duration::from_secs(seconds);
        balancing(
            Algorithm::LeastRequest,
            Some(SlowStart { window, min_weight_percent, aggression_thousandths }),
            vec![],
        )
    };
    let shares = |services: &[(&str, u32)]| {
        let port = |service: &str| ServicePortId::new(ObjectKey::new("shop", service), PortRef::Number(80));
        let shares = services.iter().map(|(service, weight)| (port(service), *weight)).collect();
        BackendFeatures { shares, ..Default::default() }
    };
    let http3 = |name: Option<&str>| {
        let http3 = Some(Http3::Enabled { server_name: name.map(Into::into) });
        BackendFeatures { http3, ..Default::default() }
    };
    let second = Duration::from_secs(1);
    let header = |name| hashing(HashOn::Header(HeaderName::parse(name).unwrap()));
    let all = [
        BackendFeatures::default(),
        ejecting(detection()),
        ejecting(OutlierDetection { consecutive_5xx: Some(1), ..detection() }),
        ejecting(OutlierDetection { consecutive_gateway_errors: Some(1), ..detection() }),
        ejecting(OutlierDetection { consecutive_local_origin_failures: Some(1), ..detection() }),
        ejecting(OutlierDetection { interval: second, ..detection() }),
        ejecting(OutlierDetection { base_ejection_time: second, ..detection() }),
        ejecting(OutlierDetection { max_ejection_time: second, ..detection() }),
        ejecting(OutlierDetection { max_ejection_percent: 1, ..detection() }),
        rate(1, 1, 1),
        rate(2, 1, 1),
        rate(1, 2, 1),
        rate(1, 1, 2),
        checking(check(Probe::Tcp)),
        checking(check(Probe::Grpc { service: "".into() })),
        checking(check(Probe::Grpc { service: "a".into() })),
        checking(check(http("", "/"))),
        checking(check(http("a", "/"))),
        checking(check(http("", "/a"))),
        checking(check(http("", "/;probe-path=1:/"))),
        checking(HealthCheck { port: Some(1), ..check(Probe::Tcp) }),
        checking(HealthCheck { service_port: Some(PortRef::Number(1)), ..check(Probe::Tcp) }),
        checking(HealthCheck { interval: second, ..check(Probe::Tcp) }),
        checking(HealthCheck { timeout: second * 2, ..check(Probe::Tcp) }),
        checking(HealthCheck { jitter_percent: 0, ..check(Probe::Tcp) }),
        checking(HealthCheck { healthy_threshold: 1, ..check(Probe::Tcp) }),
        checking(HealthCheck { unhealthy_threshold: 1, ..check(Probe::Tcp) }),
        BackendFeatures { panic_threshold_percent: Some(0), ..Default::default() },
        BackendFeatures { panic_threshold_percent: Some(1), ..Default::default() },
        balancing(Algorithm::RoundRobin, None, vec![]),
        balancing(Algorithm::LeastRequest, None, vec![]),
        balancing(Algorithm::Random, None, vec![]),
        balancing(Algorithm::RingHash, None, vec![HashOn::Path.into()]),
        slow(1, 1, SlowStart::LINEAR),
        slow(2, 1, SlowStart::LINEAR),
        slow(1, 2, SlowStart::LINEAR),
        slow(1, 1, 2000),
        hashing(HashOn::Path),
        balancing(Algorithm::Maglev, None, vec![HashPart { on: HashOn::Path, is_terminal: false }]),
        hashing(HashOn::SourceAddress),
        hashing(HashOn::QueryParameter("a".into())),
        hashing(HashOn::QueryParameter("b".into())),
        header("a"),
        header("b"),
        cookie("a", "/", None),
        cookie("b", "/", None),
        cookie("a", "/a", None),
        cookie("a", "/", Some(second)),
        keepalive(1, 1, 1),
        keepalive(2, 1, 1),
        keepalive(1, 2, 1),
        keepalive(1, 1, 2),
        BackendFeatures { proxy_protocol: Some(ProxyProtocol::V1), ..Default::default() },
        BackendFeatures { proxy_protocol: Some(ProxyProtocol::V2), ..Default::default() },
        BackendFeatures { http3: Some(Http3::Disabled), ..Default::default() },
        http3(None),
        http3(Some("a")),
        http3(Some("b")),
        BackendFeatures { idle_timeout: Some(second), ..Default::default() },
        BackendFeatures { max_connection_age: Some(second), ..Default::default() },
        budget(1, 1),
        budget(2, 1),
        budget(1, 2),
        shares(&[("a", 1)]),
        shares(&[("b", 1)]),
        shares(&[("a", 2)]),
        shares(&[("a", 1), ("b", 1)]),
        shares(&[("b", 1), ("a", 1)]),
    ];
    let texts: BTreeSet<String> = all.iter().map(text).collect();
    assert_eq!(texts.len(), all.len(), "{texts:#?}");
    assert_eq!(text(&all[0]), "", "the identity of a policy without features is that of earlier versions");
}

#[test]
fn the_policies_themselves_are_no_part_of_the_identity() {
    let origins = vec![ObjectRef::new("BackendPolicy", "shop", "a")];
    assert_eq!(text(&BackendFeatures { origins: origins.clone(), ..Default::default() }), "");
    assert!(BackendFeatures { origins, ..Default::default() }.is_empty());
}
