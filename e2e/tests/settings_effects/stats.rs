//! Envoy's statistics over TLS.

use e2e::{Authority, Target, wait_until};

use super::Site;

/// The path of scrapers.
const PATHS: [&str; 2] = ["/stats", "/stats/prometheus"];

/// A site with statistics over TLS, and its scrapers.
struct Scraped {
    site: Site,
    port: u16,
    /// The authority of permitted scrapers.
    scrapers: Authority,
}

impl Scraped {
    /// Starts a site with these additional Secrets, signed by the authorities of servers and of scrapers.
    async fn with(secrets: impl FnOnce(&Authority, &Authority) -> String) -> Self {
        let (port, scrapers) = (e2e::ports::free(), Authority::new());
        let tls = format!("port: {port}, secret: default/stats-tls, clientCa: default/scrapers");
        let site = Site::with(&format!("listeners: {{ stats: {{ tls: {{ {tls} }} }} }}\n")).await;
        site.manifests.write("stats.yaml", &secrets(&site.authority, &scrapers));
        Self { site, port, scrapers }
    }

    /// Requests the statistics over TLS without a certificate.
    fn anonymous(&self) -> Target {
        Target::https(self.port, "stats.test", self.site.authority.der())
    }

    /// Requests the statistics over TLS with a certificate of the scrapers.
    fn scraper(&self) -> Target {
        self.anonymous().showing(&self.scrapers.issue(&["prometheus"]))
    }

    /// Asserts that clear text requests are answered only with the readiness.
    async fn assert_nothing_in_clear(&self) {
        let plain = Target::http(self.site.lockgate.stats, "localhost");
        for path in PATHS {
            assert_eq!(plain.get(path).await.expect("an answer").status, 404, "{path}");
        }
        assert_eq!(plain.get("/ready").await.expect("an answer").status, 200);
        assert!(Target::http(self.port, "localhost").get("/stats").await.is_err());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_are_for_those_who_show_a_certificate() {
    let scraped = Scraped::with(|servers, scrapers| {
        let pair = servers.issue(&["stats.test"]).secret("default", "stats-tls");
        e2e::manifests::documents(&[pair, scrapers.secret("default", "scrapers")])
    })
    .await;
    let scraper = scraped.scraper();
    wait_until("statistics by TLS", async || scraper.get("/stats").await.is_ok_and(|answer| answer.status == 200))
        .await;
    let answer = scraper.get("/stats/prometheus").await.expect("an answer");
    assert!(answer.status == 200 && answer.text().contains("\nenvoy_server_live"), "{}", answer.text());
    let over_http2 =
        Target::https_by(scraped.port, "stats.test", scraped.site.authority.der(), rustls::ALL_VERSIONS, &["h2"]);
    let over_http2 = over_http2.over_http2().showing(&scraped.scrapers.issue(&["prometheus"]));
    let answer = over_http2.get("/stats/prometheus").await.expect("an answer");
    assert_eq!((answer.status, answer.version), (200, hyper::Version::HTTP_2));
    for path in ["/ready", "/config_dump", "/quitquitquit", "/"] {
        assert_eq!(scraper.get(path).await.expect("an answer").status, 404, "{path}");
    }
    let stranger = Authority::new().issue(&["prometheus"]);
    for path in PATHS {
        assert!(scraped.anonymous().get(path).await.is_err(), "{path} without a certificate");
        assert!(
            scraped.anonymous().showing(&stranger).get(path).await.is_err(),
            "{path} with the certificate of a stranger"
        );
    }
    scraped.assert_nothing_in_clear().await;

    // Another certificate is presented, and open connections stay open.
    let mut held = scraper.connect().await.expect("a connection");
    let before = held.certificate.clone().expect("a certificate");
    let other = scraped.site.authority.issue(&["stats.test"]);
    let authorities = Authority::new();
    let secrets = [other.secret("default", "stats-tls"), scraped.scrapers.secret("default", "scrapers")];
    scraped.site.manifests.write("stats.yaml", &e2e::manifests::documents(&secrets));
    wait_until("the new certificate", async || {
        let shown = scraper.connect().await.expect("a connection").certificate.expect("a certificate");
        assert!([&before, &other.der].contains(&&shown));
        shown == other.der
    })
    .await;
    // Other authorities apply too.
    let secrets = [other.secret("default", "stats-tls"), authorities.secret("default", "scrapers")];
    scraped.site.manifests.write("stats.yaml", &e2e::manifests::documents(&secrets));
    wait_until("the end of the old authority", async || scraper.get("/stats").await.is_err()).await;
    let scraper = scraped.anonymous().showing(&authorities.issue(&["prometheus"]));
    assert_eq!(scraper.get("/stats").await.expect("an answer").status, 200);
    let answer = held.send(hyper::Method::GET, "/stats", bytes::Bytes::new()).await.expect("an answer");
    assert_eq!(answer.status, 200);
    let listeners = scraped.site.envoy.get("/stats?filter=listener_manager.listener_modified").await.text();
    assert_eq!(listeners, "listener_manager.listener_modified: 0\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn statistics_that_cannot_be_protected_are_not_served() {
    for (what, told) in [
        ("key", r#"Secret of the statistics' certificate "default/stats-tls": data["tls.key"]: "#),
        ("authority", r#"Secret of the authorities of scrapers "default/scrapers": data["ca.crt"]: "#),
    ] {
        let secrets = |servers: &Authority, scrapers: &Authority, broken: &str| {
            let mut pair = servers.issue(&["stats.test"]).secret("default", "stats-tls");
            let mut authorities = scrapers.secret("default", "scrapers");
            match broken {
                "key" => pair = pair.replace("tls.key: ", "tls.key: AAAA"),
                "authority" => authorities = authorities.replace("ca.crt: ", "ca.crt: AAAA"),
                _ => {}
            }
            e2e::manifests::documents(&[pair, authorities])
        };
        let scraped = Scraped::with(|servers, scrapers| secrets(servers, scrapers, what)).await;
        wait_until(told, async || scraped.site.lockgate.log().contains(told)).await;
        assert!(scraped.site.lockgate.log().contains("no statistics are served"));
        assert!(scraped.scraper().get("/stats").await.is_err());
        scraped.assert_nothing_in_clear().await;
        // Corrected authorities do not permit clear text either, but the statistics are available again.
        scraped.site.manifests.write("stats.yaml", &secrets(&scraped.site.authority, &scraped.scrapers, ""));
        let scraper = scraped.scraper();
        wait_until("statistics", async || scraper.get("/stats").await.is_ok_and(|answer| answer.status == 200)).await;
        scraped.assert_nothing_in_clear().await;
    }
}
