//! A certificate of the same authority is not sufficient: private keys are sent only to clients with the names of
//! Envoys.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::attacks::roles::{self, Answers, answers, no_answers};
use e2e::certificates::{Pair, issue};
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{ApiServer, Authority, Lockgate, Manifests, Mount, Source, Target, wait_until};
use rustls::pki_types::CertificateDer;

const HOST: &str = "shop.test";

/// Requests the certificate of the host, and all other resources, on a local port.
async fn ask(port: u16, root: &CertificateDer<'static>, own: &Pair) -> Answers {
    roles::request_all(&Target::https(port, "localhost", root.clone()).showing(own), "default/cert").await
}

/// The expected answers to an Envoy: everything except requests of replicas.
fn envoy() -> Answers {
    answers(true, ["gRPC, answered", "200"], &[("replica", "403")])
}

/// The expected answers to an Envoy if no host has TLS.
fn envoy_without_hosts() -> Answers {
    let but = [("ADS", "gRPC, nothing"), ("SDS", "gRPC, nothing"), ("replica", "403")];
    answers(false, ["gRPC, answered", "200"], &but)
}

/// The expected answers to a gRPC client: no secrets, and nothing about other clients.
fn grpc() -> Answers {
    // The stream is already open when the request for secrets arrives, so its status is in the trailers.
    let but = [("ADS", "gRPC, nothing"), ("CDS unary", "gRPC, answered"), ("REST clusters", "200")];
    answers(false, ["gRPC 7", "403"], &but)
}

/// The expected answers to a replica.
fn replica() -> Answers {
    answers(false, ["gRPC 7", "403"], &[("replica", "200")])
}

/// A controller with a TLS host and certificates from a directory.
async fn served(authority: &Authority, own: &Pair, flags: &[&str]) -> (Lockgate, Manifests, Mount) {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let backend = "127.0.0.1:9".parse().expect("an address");
    let objects = documents(&[service("shop", "", &[backend]), ingress("shop", HOST, "shop", Some("cert"))]);
    manifests.write("shop.yaml", &objects);
    manifests.write("cert.yaml", &Authority::new().issue(&[HOST]).secret("default", "cert"));
    let trusted = authority.pem();
    let mount = Mount::new(&[("tls.crt", &own.certificate), ("tls.key", &own.key), ("ca.crt", &trusted)]);
    let flags = [&["--xds-tls", mount.text()], flags].concat();
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
    (lockgate, manifests, mount)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_the_authority_alone_gets_nothing() {
    let authority = Authority::new();
    let own = authority.issue(&["localhost", "lockgate"]);
    let (lockgate, _manifests, _mount) = served(&authority, &own, &[]).await;
    let asked = async |names: &[&str]| ask(lockgate.xds, &authority.der(), &authority.issue(names)).await;
    assert_eq!(asked(&["envoy"]).await, envoy(), "{}", lockgate.log());
    assert_eq!(asked(&["web.shop.svc", "spiffe://cluster.local/ns/shop/sa/web"]).await, no_answers());
    let line = lockgate.logged(&["WARN", "xDS connection refused", "DNS:web.shop.svc", "xds.envoyNames"]).await;
    println!("{line}");
    assert!(line.contains("URI:spiffe://cluster.local/ns/shop/sa/web"), "{line}");
    for names in [&["127.0.0.1"][..], &["envoy.shop.svc"], &["my-envoy"], &["spiffe://envoy"]] {
        assert_eq!(asked(names).await, no_answers(), "{names:?}");
    }
    let refused = lockgate.metric("lockgate_xds_connections_refused_total", &["reason=\"name\""]).await;
    assert_eq!(refused, 50.0, "5 clients, 10 connections each");
    // Replicas have the controller's own certificate, or one with its names.
    assert_eq!(ask(lockgate.xds, &authority.der(), &own).await, replica());
    assert_eq!(asked(&["lockgate"]).await, replica());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_settings_say_which_names_have_which_role() {
    let authority = Authority::new();
    let own = authority.issue(&["localhost"]);
    let flags = [
        "--xds-envoy-names",
        "*.envoys.test,spiffe://test/ns/*/sa/envoy",
        "--xds-grpc-names",
        "spiffe://test/ns/*/sa/client-*",
        "--xds-replica-names",
        "replica",
    ];
    let (lockgate, _manifests, _mount) = served(&authority, &own, &flags).await;
    for (name, expected) in [
        ("a.envoys.test", envoy()),
        ("spiffe://test/ns/edge/sa/envoy", envoy()),
        ("spiffe://test/ns/shop/sa/client-1", grpc()),
        ("replica", replica()),
        ("envoy", no_answers()),
        ("localhost", no_answers()),
        ("a.b.envoys.test", no_answers()),
        ("spiffe://test/ns/edge/sa/envoy/x", no_answers()),
        ("spiffe://other/ns/edge/sa/envoy", no_answers()),
    ] {
        let answers = ask(lockgate.xds, &authority.der(), &authority.issue(&[name])).await;
        assert_eq!(answers, expected, "{name}\n{}", lockgate.log());
    }
}

/// The authority of `auto` issues certificates for two names. Another certificate of it has no role.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_the_controllers_own_authority_needs_its_name_too() {
    let server = ApiServer::start().await;
    server.apply(&ingress_class()).await;
    let source = Source::Kubeconfig(server.kubeconfig("admin"));
    let lockgate = Lockgate::start(&source, &["--xds-tls", "auto", "--xds-service", "localhost"]).await;
    let secret = async |name: &str| {
        let text = server.kubectl(&["get", "secret", &format!("lockgate-xds-{name}"), "--output", "json"], "").await;
        let secret: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        move |key: &str| {
            let bytes = BASE64_STANDARD.decode(secret["data"][key].as_str().unwrap_or_default()).expect("base64");
            String::from_utf8(bytes).expect("PEM")
        }
    };
    let (ca, envoys, servers) = (secret("ca").await, secret("envoy").await, secret("server").await);
    let der = |pem: &str| rustls::pki_types::pem::PemObject::from_pem_slice(pem.as_bytes()).expect("a certificate");
    let root: CertificateDer<'static> = der(&ca("ca.crt"));
    let pair = |secret: &dyn Fn(&str) -> String| Pair {
        certificate: secret("tls.crt"),
        der: der(&secret("tls.crt")),
        key: secret("tls.key"),
    };
    let asked = async |own: &Pair| ask(lockgate.xds, &root, own).await;
    assert_eq!(asked(&pair(&envoys)).await, envoy_without_hosts(), "{}", lockgate.log());
    assert_eq!(asked(&pair(&servers)).await, replica());
    let issuer = Authority::stolen(&ca("ca.crt"), &ca("ca.key"));
    let own = "spiffe://lockgate.dev/ns/default/lockgate-xds";
    for name in
        ["envoy", "localhost", "spiffe://lockgate.dev/ns/other/lockgate-xds/envoy", &format!("{own}/envoy/x"), own]
    {
        assert_eq!(asked(&issue(&issuer, &[name])).await, no_answers(), "{name}");
    }
    // All versions have issued this name.
    assert_eq!(asked(&issue(&issuer, &[&format!("{own}/envoy")])).await, envoy_without_hosts());
    wait_until("a line in the log", async || lockgate.log().contains("xds.envoyNames")).await;
}
