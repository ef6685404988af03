//! TLS negotiation with clients, and HTTP/3.

use std::time::Duration;

use e2e::manifests::{documents, ingress};
use e2e::{Target, http3, wait_everywhere, wait_until};
use rustls::version::{TLS12, TLS13};
use rustls::{CipherSuite, NamedGroup, ProtocolVersion};

use super::{HOST, Site};

impl Site {
    fn tls_by(&self, versions: &[&'static rustls::SupportedProtocolVersion]) -> Target {
        Target::https_by(self.lockgate.https, HOST, self.authority.der(), versions, &[])
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_are_within_their_bounds() {
    let site = Site::with("tls: { minimumVersion: '1.3' }\n").await;
    assert!(site.tls_by(&[&TLS12]).connect().await.is_err());
    assert_eq!(site.tls_by(&[&TLS13]).get("/").await.expect("an answer").status, 200);
    let site = Site::with("tls: { maximumVersion: '1.2' }\n").await;
    assert!(site.tls_by(&[&TLS13]).connect().await.is_err());
    let agreed = site.tls().connect().await.expect("a connection").agreed.expect("TLS");
    assert_eq!(agreed.version, ProtocolVersion::TLSv1_2);
}

#[tokio::test(flavor = "multi_thread")]
async fn cipher_suites_and_curves_are_those_chosen() {
    let site = Site::with("tls: { cipherSuites: [ECDHE-ECDSA-AES256-GCM-SHA384], curves: [P-384] }\n").await;
    let agreed = site.tls_by(&[&TLS12]).connect().await.expect("a connection").agreed.expect("TLS");
    assert_eq!(agreed.cipher_suite, CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384);
    assert_eq!(agreed.group, NamedGroup::secp384r1);
    let agreed = site.tls_by(&[&TLS13]).connect().await.expect("a connection").agreed.expect("TLS");
    assert_eq!(agreed.group, NamedGroup::secp384r1);
}

#[tokio::test(flavor = "multi_thread")]
async fn below_wildcards_hosts_are_the_server_names_of_connections() {
    let http3 = "http: { http3: { enabled: true, advertisedPort: 443 } }\n";
    let site = Site::with(&format!("{http3}tls: {{ strictServerNames: true }}\n")).await;
    let pair = site.authority.issue(&["*.wild.test", "*.b.wild.test"]).secret("default", "wild-tls");
    let wild = ingress("wild", "WILD", "shop", Some("wild-tls")).replace("WILD", "'*.wild.test'");
    site.manifests.write("wild.yaml", &documents(&[pair, wild]));
    let status = async |server_name: &str, host: &str, http2: bool| {
        let target = Target::https(site.lockgate.https, host, site.authority.der()).opened_for(server_name);
        let target = if http2 { target.over_http2() } else { target };
        target.get("/").await.map(|answer| answer.status).ok()
    };
    wait_everywhere("the wildcard", async || status("a.wild.test", "a.wild.test", false).await == Some(200)).await;
    for http2 in [false, true] {
        for (server_name, host, expected) in [
            ("a.wild.test", "a.wild.test:8443", 200),
            ("a.wild.test", "A.Wild.Test", 200),
            ("A.WILD.TEST", "a.wild.test", 200),
            ("a.b.wild.test", "a.b.wild.test", 404),
            ("a.wild.test", "b.wild.test", 421),
            ("a.b.wild.test", "b.wild.test", 421),
            ("a.wild.test", HOST, 421),
            (HOST, HOST, 200),
            (HOST, "a.wild.test", 421),
        ] {
            let found = status(server_name, host, http2).await;
            assert_eq!(found, Some(expected), "{host} over a connection for {server_name}, HTTP/2: {http2}");
        }
    }
    let over_http3 = http3::get(site.lockgate.https, "a.wild.test", "/", site.authority.der()).await;
    assert_eq!(over_http3.expect("an answer over HTTP/3").status, 200);
    site.config.write("lockgate.yaml", "");
    wait_everywhere("other hosts", async || status("a.wild.test", "b.wild.test", true).await == Some(200)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn http3_is_served_where_clients_are_told() {
    let site = Site::with("http: { http3: { enabled: true, advertisedPort: 443 } }\n").await;
    let told = site.tls().get("/").await.expect("an answer");
    assert_eq!(told.header("alt-svc"), r#"h3=":443"; ma=86400"#);
    let plain = site.plain().get("/").await.expect("an answer");
    assert_eq!(plain.header("alt-svc"), "");
    let answer = http3::get(site.lockgate.https, HOST, "/a?bytes=100000", site.authority.der()).await;
    let answer = answer.expect("an answer over HTTP/3");
    assert_eq!((answer.status, answer.body.len()), (200, 100_000));
    assert!(answer.text().starts_with("GET /a?bytes=100000 HTTP/1.1\n"), "{}", answer.text());
    assert!(answer.text().contains("x-forwarded-proto: https\n"));
    site.logged(&["GET /a?bytes=100000 HTTP/3", "Ingress/default/shop"]).await;
    // Another name is not served.
    assert!(http3::get(site.lockgate.https, "other.test", "/", site.authority.der()).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn http3_comes_and_goes_without_a_restart() {
    let site = Site::with("").await;
    let reached = async || {
        // A handshake without a listener is retried for half a minute, even after the listener exists.
        let answer = http3::get(site.lockgate.https, HOST, "/", site.authority.der());
        tokio::time::timeout(Duration::from_secs(2), answer).await.is_ok_and(|answer| answer.is_ok())
    };
    site.config.write("lockgate.yaml", "http: { http3: { enabled: true } }\n");
    wait_until("HTTP/3", reached).await;
    site.config.write("lockgate.yaml", "http: { http3: { enabled: false } }\n");
    wait_until("no word of HTTP/3", async || {
        site.tls().get("/").await.expect("an answer").header("alt-svc").is_empty()
    })
    .await;
    wait_until("no listener for HTTP/3", async || {
        let listeners = site.envoy.config_dump("dynamic_listeners").await;
        // A draining listener is listed until the end of its drain.
        listeners.iter().all(|listener| listener["name"] != "http3" || listener["active_state"].is_null())
    })
    .await;
}
