//! A client sends headers that proxies use among each other.

use super::site::{By, Site, received};

/// Headers that control an Envoy which trusts the client. Source: Envoy, "HTTP header manipulation" and "Router".
const STEERING: [(&str, &str); 16] = [
    ("x-envoy-retry-on", "5xx"),
    ("x-envoy-retry-grpc-on", "internal"),
    ("x-envoy-max-retries", "20"),
    ("x-envoy-retriable-status-codes", "503"),
    ("x-envoy-retriable-header-names", "server"),
    ("x-envoy-hedge-on-per-try-timeout", "true"),
    ("x-envoy-upstream-rq-timeout-ms", "1"),
    ("x-envoy-upstream-rq-per-try-timeout-ms", "1"),
    ("x-envoy-upstream-rq-timeout-alt-response", "1"),
    ("x-envoy-upstream-alt-stat-name", "mine"),
    ("x-envoy-decorator-operation", "mine"),
    ("x-envoy-force-trace", "1"),
    ("x-envoy-ip-tags", "mine"),
    ("x-envoy-internal", "true"),
    ("x-envoy-downstream-service-cluster", "mine"),
    ("x-envoy-downstream-service-node", "mine"),
];

/// Headers that describe the client or the original request to a backend.
const TELLING: [(&str, &str); 21] = [
    ("x-envoy-original-path", "/mine"),
    ("x-envoy-original-method", "MINE"),
    ("x-envoy-original-dst-host", "10.9.9.9:80"),
    ("x-envoy-attempt-count", "9"),
    ("x-envoy-peer-metadata", "mine"),
    ("x-envoy-auth-partial-body", "true"),
    ("x-envoy-fault-abort-request", "500"),
    ("x-forwarded-client-cert", "By=mine"),
    ("forwarded", "for=10.9.9.9;host=mine.test"),
    ("x-forwarded-host", "mine.test"),
    ("x-forwarded-port", "1"),
    ("x-forwarded-prefix", "/mine"),
    ("x-forwarded-scheme", "mine"),
    ("x-forwarded-server", "mine.test"),
    ("x-forwarded-ssl", "on"),
    ("x-original-forwarded-for", "10.9.9.9"),
    ("x-original-host", "mine.test"),
    ("x-original-url", "/mine"),
    ("x-real-ip", "10.9.9.9"),
    ("x-rewrite-url", "/mine"),
    ("X-Forwarded-Host", "twice.test"),
];

/// All transports to Envoy, also with a trusted proxy that is bypassed.
const SETTINGS: [&str; 2] =
    ["http: { http3: { enabled: true } }\n", "http: { trustedHops: 1, http3: { enabled: true } }\n"];
const WAYS: [By; 4] = [By::Http, By::Http2, By::Https, By::Http3];

#[tokio::test(flavor = "multi_thread")]
async fn a_client_on_a_private_address_steers_no_retries_and_no_time_limits() {
    for settings in SETTINGS {
        let site = Site::with(settings).await;
        for by in WAYS {
            site.wait_for(by).await;
            for fields in [&[][..], &[("x-forwarded-for", "10.0.0.1")]] {
                let fields = [fields, &STEERING].concat();
                let failed =
                    site.failures(async || assert_eq!(site.get(by, "/failing", &fields).await.status, 503)).await;
                assert_eq!(failed, 1, "{by:?} {settings}: no retries are configured");
                let failed =
                    site.failures(async || assert_eq!(site.get(by, "/retried", &fields).await.status, 503)).await;
                assert_eq!(failed, 3, "{by:?} {settings}: two retries are configured");
                let slow = site.get(by, "/?wait=50", &fields).await;
                assert_eq!(slow.status, 200, "{by:?} {settings}: the time limit is not the client's to choose");
                let received = received(&slow);
                for (name, _) in STEERING {
                    assert!(!received.contains_key(name), "{by:?} {settings}: {name} in {received:?}");
                }
            }
        }
        assert_eq!(site.envoy.stats("mine").await, [].into(), "no statistics by a client's name");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_proxies_may_tell_does_not_come_from_a_client() {
    let site = Site::with(SETTINGS[0]).await;
    let of_client = [("x-forwarded-proto", "mine"), ("x-forwarded-for", "10.9.9.9"), ("x-request-id", "mine")];
    let fields = [&TELLING[..], &of_client].concat();
    for by in WAYS {
        site.wait_for(by).await;
        let received = received(&site.get(by, "/", &fields).await);
        for (name, _) in TELLING {
            assert!(!received.contains_key(name), "{by:?}: {name} in {received:?}");
        }
        let proto = if matches!(by, By::Http | By::Http2) { "http" } else { "https" };
        assert_eq!(received["x-forwarded-proto"], proto, "{by:?}");
        assert_eq!(received["x-envoy-external-address"], "127.0.0.1", "{by:?}");
        assert_eq!(received["x-request-id"], "mine", "{by:?}");
        let forwarded_for = received["x-forwarded-for"].to_str().expect("text");
        assert!(forwarded_for.starts_with("10.9.9.9,"), "{by:?}: the true address is the last of {forwarded_for}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trusted_proxies_and_the_settings_may_tell_it() {
    let fields = [("x-forwarded-host", "front.test"), ("x-forwarded-proto", "https"), ("x-real-ip", "203.0.113.7")];
    let trusting = Site::with("http: { trustedHops: 1 }\n").await;
    let received_behind = received(&trusting.get(By::Http, "/", &fields).await);
    for (name, value) in fields {
        assert_eq!(received_behind[name], value);
    }
    let chosen = Site::with(
        "http: { untrustedHeaders: [x-real-ip] }\nheaders: { request: { set: { x-forwarded-port: '443' } } }\n",
    )
    .await;
    let received_chosen = received(&chosen.get(By::Http, "/", &fields).await);
    assert_eq!(received_chosen["x-forwarded-host"], "front.test");
    assert_eq!(received_chosen["x-forwarded-port"], "443", "what the settings set is there");
    assert!(!received_chosen.contains_key("x-real-ip"), "{received_chosen:?}");
}
