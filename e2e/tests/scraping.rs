//! The controller's metrics at a separate address, over TLS.

use e2e::{Authority, Lockgate, Manifests, Mount, Source, Target, ports, wait_until};

/// The name in the certificates.
const NAME: &str = "metrics.test";

/// Starts a controller that serves its metrics with the certificates in `mount`.
async fn served(manifests: &Manifests, mount: &Mount) -> (Lockgate, u16) {
    let port = ports::free();
    let address = format!("127.0.0.1:{port}");
    let flags = ["--metrics-address", &address, "--metrics-tls", mount.text()];
    (Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await, port)
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_those_who_show_a_certificate() {
    let (manifests, servers, scrapers) = (Manifests::new(), Authority::new(), Authority::new());
    let (pair, trusted) = (servers.issue(&[NAME]), scrapers.pem());
    let mut mount = Mount::new(&[("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &trusted)]);
    let (lockgate, port) = served(&manifests, &mount).await;
    // Silent connections do not block others.
    let silent = (0..3).map(|_| std::net::TcpStream::connect(("127.0.0.1", port)).expect("a connection"));
    let _silent: Vec<_> = silent.collect();
    let anonymous = Target::https(port, NAME, servers.der());
    let scraper = anonymous.clone().showing(&scrapers.issue(&["prometheus"]));
    let answer = scraper.get("/metrics").await.expect("an answer");
    assert!(answer.status == 200 && answer.text().contains("\nlockgate_build_info"), "{}", answer.text());
    assert!(answer.header("content-type").starts_with("application/openmetrics-text"));
    for path in ["/debug/", "/debug/log", "/healthz", "/"] {
        assert_eq!(scraper.get(path).await.expect("an answer").status, 404, "{path}");
    }
    assert!(anonymous.get("/metrics").await.is_err(), "without a certificate");
    assert!(anonymous.clone().showing(&servers.issue(&["prometheus"])).get("/metrics").await.is_err(), "of others");
    assert!(Target::http(port, NAME).get("/metrics").await.is_err(), "in clear text");
    // The admin address no longer serves metrics, but still serves the other pages.
    assert_eq!(lockgate.get("/metrics").await.status, 404);
    for path in ["/healthz", "/readyz", "/debug/"] {
        assert_eq!(lockgate.get(path).await.status, 200, "{path}");
    }

    // New files are loaded, and open connections stay open.
    let mut held = scraper.connect().await.expect("a connection");
    let (other, others) = (servers.issue(&[NAME]), Authority::new());
    let scraper = anonymous.clone().showing(&others.issue(&["prometheus"]));
    assert!(scraper.get("/metrics").await.is_err());
    let trusted = others.pem();
    mount.swap(&[("tls.crt", &other.certificate), ("tls.key", &other.key), ("ca.crt", &trusted)]);
    wait_until("the new authority", async || scraper.get("/metrics").await.is_ok()).await;
    assert_eq!(scraper.connect().await.expect("a connection").certificate, Some(other.der.clone()));
    let answer = held.send(hyper::Method::GET, "/metrics", bytes::Bytes::new()).await.expect("an answer");
    assert_eq!(answer.status, 200);

    // Unusable files change nothing. Missing files of authorities do not disable client authentication.
    mount.swap(&[("tls.crt", &pair.certificate), ("tls.key", &other.key), ("ca.crt", &trusted)]);
    lockgate.logged(&["new certificates of /metrics are unusable: ", "stay in use"]).await;
    mount.swap(&[("tls.crt", &pair.certificate), ("tls.key", &pair.key)]);
    lockgate.logged(&["ca.crt: the file is missing", "stay in use"]).await;
    assert!(anonymous.get("/metrics").await.is_err());
    assert_eq!(scraper.connect().await.expect("a connection").certificate, Some(other.der));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_authorities_nobody_has_to_show_anything_until_there_are_some() {
    let (manifests, servers, scrapers) = (Manifests::new(), Authority::new(), Authority::new());
    let (pair, trusted) = (servers.issue(&[NAME]), scrapers.pem());
    let mut mount = Mount::new(&[("tls.crt", &pair.certificate), ("tls.key", &pair.key)]);
    let (_lockgate, port) = served(&manifests, &mount).await;
    let anonymous = Target::https(port, NAME, servers.der());
    assert_eq!(anonymous.get("/metrics").await.expect("an answer").status, 200);
    assert!(Target::http(port, NAME).get("/metrics").await.is_err(), "in clear text");
    mount.swap(&[("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &trusted)]);
    wait_until("the authority", async || anonymous.get("/metrics").await.is_err()).await;
    let scraper = anonymous.showing(&scrapers.issue(&["prometheus"]));
    assert_eq!(scraper.get("/metrics").await.expect("an answer").status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_alone_moves_metrics_there_in_clear_text() {
    let (manifests, port) = (Manifests::new(), ports::free());
    let address = format!("127.0.0.1:{port}");
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--metrics-address", &address]).await;
    assert_eq!(Target::http(port, "localhost").get("/metrics").await.expect("an answer").status, 200);
    assert_eq!(Target::http(port, "localhost").get("/debug/").await.expect("an answer").status, 404);
    assert_eq!(lockgate.get("/metrics").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_no_use_are_an_error_of_the_start() {
    let (manifests, servers) = (Manifests::new(), Authority::new());
    let (pair, other) = (servers.issue(&[NAME]), servers.issue(&[NAME]));
    let mount = Mount::new(&[("tls.crt", &pair.certificate), ("tls.key", &other.key)]);
    let address = format!("127.0.0.1:{}", ports::free());
    let flags = ["--metrics-address", &address, "--metrics-tls", mount.text()];
    let mut lockgate = Lockgate::launch(&Source::Manifests(manifests.path().into()), &flags);
    assert!(!lockgate.process().ended().await.success());
    assert!(lockgate.log().contains(&format!("--metrics-tls: {}/tls.crt: ", mount.text())), "{}", lockgate.log());
}
