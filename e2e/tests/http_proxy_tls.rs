//! TLS of HTTPProxies with a real Envoy: connections that are forwarded by server name, and verified clients.

use std::net::Ipv4Addr;

use bytes::Bytes;
use e2e::certificates::Pair;
use e2e::manifests::{documents, service};
use e2e::{Authority, Backend, Echo, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_until};
use hyper::Method;

use crate::explain::backend::AnyProtocol;

/// A host whose connections are passed through, one whose connections are decrypted, and a host for HTTP.
const STREAMS: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: passed, namespace: default }
spec:
  virtualhost: { fqdn: passed.test, tls: { passthrough: true } }
  routes:
  - conditions: [{ prefix: /plain }]
    permitInsecure: true
    services: [{ name: a, port: 80 }]
  - services: [{ name: a, port: 80 }]
  tcpproxy: { include: { name: team } }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: team, namespace: default }
spec:
  tcpproxy: { services: [{ name: own, port: 80 }, { name: gone, port: 80 }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: decrypted, namespace: default }
spec:
  virtualhost: { fqdn: decrypted.test, tls: { secretName: cert } }
  tcpproxy: { services: [{ name: a, port: 80 }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: encrypted, namespace: default }
spec:
  virtualhost: { fqdn: encrypted.test, tls: { secretName: cert } }
  tcpproxy: { services: [{ name: own, port: 80, protocol: tls }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: closed, namespace: default }
spec:
  virtualhost: { fqdn: closed.test, tls: { passthrough: true } }
  tcpproxy: { services: [{ name: gone, port: 80 }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: web, namespace: default }
spec:
  virtualhost: { fqdn: web.test, tls: { secretName: cert } }
  routes: [{ services: [{ name: b, port: 80 }] }]
";

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_forwarded_by_server_name_beside_hosts() {
    let (manifests, authority, other) = (Manifests::new(), Authority::new(), Authority::new());
    let own = AnyProtocol::start("own", &other.issue(&["passed.test"])).await;
    let backends = [Backend::start("a").await, Backend::start("b").await];
    let services = ["a", "b"].into_iter().zip(&backends).map(|(name, at)| service(name, "", &[at.address]));
    let hosts = ["decrypted.test", "encrypted.test", "web.test"];
    let own_service = service("own", "", &[(Ipv4Addr::LOCALHOST, own.port).into()]);
    let base = services.chain([own_service, authority.issue(&hosts).secret("default", "cert")]);
    manifests.write("base.yaml", &documents(&base.collect::<Vec<_>>()));
    manifests.write("proxies.yaml", STREAMS);
    let lockgate =
        Lockgate::start(&Source::Manifests(manifests.path().into()), &["--watch-ingress-without-class"]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let https = |host: &str, root: &Authority| {
        Target::https_by(lockgate.https, host, root.der(), rustls::ALL_VERSIONS, &["h2", "http/1.1"])
    };
    let passed = https("passed.test", &other);
    wait_until("the backend's certificate", async || passed.backend("/").await.as_deref() == Some("own")).await;
    assert_eq!(passed.get("/").await.expect("an answer").header("x-tls"), "true");
    let decrypted = https("decrypted.test", &authority);
    assert_eq!(decrypted.backend("/").await.as_deref(), Some("a"));
    assert_eq!(decrypted.connect().await.expect("a connection").agreed.expect("TLS").alpn, "", "no ALPN");
    let encrypted = https("encrypted.test", &authority).get("/").await.expect("an answer");
    assert_eq!((encrypted.header("x-backend"), encrypted.header("x-tls")), ("own", "true"));
    assert!(https("closed.test", &authority).connect().await.is_err());
    assert!(https("unknown.test", &authority).connect().await.is_err());

    // The routes of a host with a TCP proxy are for plain HTTP.
    let plain = Target::http(lockgate.http, "passed.test");
    assert_eq!(plain.backend("/plain").await.as_deref(), Some("a"));
    assert_eq!(plain.get("/").await.expect("an answer").status, 301);

    // A changed destination leaves the connections of other hosts open, and a host can be served as HTTP afterwards.
    let web = Target::https(lockgate.https, "web.test", authority.der());
    let mut open = web.connect().await.expect("a connection");
    manifests.replace("proxies.yaml", "{ name: own, port: 80 }, { name: gone", "{ name: b, port: 80 }, { name: gone");
    wait_until("the other destination", async || {
        // The backend in plain text does not answer a handshake.
        passed.connect().await.is_err()
    })
    .await;
    let to_http =
        "{ fqdn: decrypted.test, tls: { secretName: cert } }\n  routes: [{ services: [{ name: b, port: 80 }] }]";
    manifests.replace(
        "proxies.yaml",
        "{ fqdn: decrypted.test, tls: { secretName: cert } }\n  tcpproxy: { services: [{ name: a, port: 80 }] }",
        to_http,
    );
    wait_until("HTTP", async || decrypted_backend(&lockgate, &authority).await.as_deref() == Some("b")).await;
    assert_eq!(open.send(Method::GET, "/", Bytes::new()).await.expect("an answer").header("x-backend"), "b");
}

/// A Service with a dead endpoint, and a Service whose certificate is verified, or has another name.
const CHECKED: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: checked, namespace: default }
spec:
  virtualhost: { fqdn: checked.test, tls: { passthrough: true } }
  tcpproxy:
    loadBalancerPolicy: { strategy: Random }
    healthCheckPolicy: { intervalSeconds: 1, timeoutSeconds: 1, unhealthyThresholdCount: 1 }
    services: [{ name: half, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: verified, namespace: default }
spec:
  virtualhost: { fqdn: verified.test, tls: { secretName: cert } }
  tcpproxy: { services: [{ name: own, port: 80, protocol: tls, validation: { caSecret: ca, subjectName: checked.test } }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: misnamed, namespace: default }
spec:
  virtualhost: { fqdn: misnamed.test, tls: { secretName: cert } }
  tcpproxy: { services: [{ name: own, port: 80, protocol: tls, validation: { caSecret: ca, subjectName: other.test } }] }
";

#[tokio::test(flavor = "multi_thread")]
async fn services_of_connections_are_checked_and_verified() {
    let (manifests, authority, of_services) = (Manifests::new(), Authority::new(), Authority::new());
    let own = AnyProtocol::start("own", &of_services.issue(&["checked.test"])).await;
    let (alive, dead) = ((Ipv4Addr::LOCALHOST, own.port).into(), (Ipv4Addr::new(127, 0, 0, 2), own.port).into());
    let base = [
        service("own", "", &[alive]),
        service("half", "", &[alive, dead]),
        authority.issue(&["verified.test", "misnamed.test"]).secret("default", "cert"),
        of_services.secret("default", "ca"),
    ];
    manifests.write("base.yaml", &documents(&base));
    manifests.write("proxies.yaml", CHECKED);
    let config = Manifests::new();
    config.write("lockgate.yaml", "tenants: { activeHealthChecks: true }");
    let file = config.file("lockgate.yaml").display().to_string();
    let flags = ["--watch-ingress-without-class", "--config", &file];
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let checked =
        Target::https_by(lockgate.https, "checked.test", of_services.der(), rustls::ALL_VERSIONS, &["http/1.1"]);
    wait_until("the endpoint that is alive", async || checked.backend("/").await.as_deref() == Some("own")).await;
    // Half of the connections would reach the dead endpoint.
    for _ in 0..40 {
        assert_eq!(checked.backend("/").await.as_deref(), Some("own"));
    }
    let verified = Target::https(lockgate.https, "verified.test", authority.der());
    assert_eq!(verified.backend("/").await.as_deref(), Some("own"));
    assert_eq!(Target::https(lockgate.https, "misnamed.test", authority.der()).backend("/").await, None);
}

async fn decrypted_backend(lockgate: &Lockgate, authority: &Authority) -> Option<String> {
    Target::https(lockgate.https, "decrypted.test", authority.der()).backend("/").await
}

/// Hosts with the same certificate that verify their clients in different ways.
const CLIENTS: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: verified, namespace: default }
spec:
  virtualhost:
    fqdn: verified.test
    tls:
      secretName: cert
      clientValidation:
        caSecret: ca
        crlSecret: crl
        forwardClientCertificate: { subject: true, dns: true }
  routes: [{ services: [{ name: echo, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: optional, namespace: default }
spec:
  virtualhost:
    fqdn: optional.test
    tls: { secretName: cert, clientValidation: { caSecret: ca, optionalClientCertificate: true } }
  routes: [{ services: [{ name: echo, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: requested, namespace: default }
spec:
  virtualhost:
    fqdn: requested.test
    tls:
      secretName: cert
      clientValidation: { skipClientCertValidation: true, forwardClientCertificate: { cert: true } }
  routes: [{ services: [{ name: echo, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: unverified, namespace: default }
spec:
  virtualhost:
    fqdn: unverified.test
    tls: { secretName: cert, clientValidation: { caSecret: ca, skipClientCertValidation: true } }
  routes: [{ services: [{ name: echo, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: decrypted, namespace: default }
spec:
  virtualhost:
    fqdn: decrypted.test
    tls: { secretName: cert, clientValidation: { caSecret: ca } }
  tcpproxy: { services: [{ name: echo, port: 80 }] }
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: open, namespace: default }
spec:
  virtualhost: { fqdn: open.test, tls: { secretName: cert } }
  routes: [{ services: [{ name: echo, port: 80 }] }]
";

/// Returns the status of a request with a certificate, or without one. `None`: there is no answer.
async fn status(target: &Target, shown: Option<&Pair>) -> Option<u16> {
    let target = target.clone();
    let target = shown.map_or(target.clone(), |pair| target.showing(pair));
    target.get("/").await.ok().map(|answer| answer.status)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_verified_by_server_name() {
    let (manifests, authority, of_clients) = (Manifests::new(), Authority::new(), Authority::new());
    let echo = Echo::start().await;
    let hosts = ["verified.test", "optional.test", "requested.test", "unverified.test", "decrypted.test", "open.test"];
    let crl = |revoked: &[u64]| of_clients.revocations("default", "crl", revoked);
    let base = [
        service("echo", "", &[echo.address]),
        authority.issue(&hosts).secret("default", "cert"),
        of_clients.secret("default", "ca"),
    ];
    manifests.write("base.yaml", &documents(&base));
    manifests.write("crl.yaml", &crl(&[7]));
    manifests.write("proxies.yaml", CLIENTS);
    let lockgate =
        Lockgate::start(&Source::Manifests(manifests.path().into()), &["--watch-ingress-without-class"]).await;
    let envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let https = |host: &str| Target::https(lockgate.https, host, authority.der());
    wait_until("Envoy", async || status(&https("open.test"), None).await == Some(200)).await;
    let (good, revoked) =
        (of_clients.issue_with_number(&["good.test"], 6), of_clients.issue_with_number(&["bad.test"], 7));
    let foreign = Authority::new().issue(&["foreign.test"]);
    for (host, expected) in [
        ("verified.test", [None, None, None, Some(200)]),
        ("optional.test", [Some(200), None, Some(200), Some(200)]),
        ("requested.test", [Some(200); 4]),
        ("unverified.test", [None, Some(200), Some(200), Some(200)]),
        ("decrypted.test", [None, None, Some(200), Some(200)]),
        ("open.test", [Some(200); 4]),
    ] {
        let target = https(host);
        for (shown, expected) in [None, Some(&foreign), Some(&revoked), Some(&good)].into_iter().zip(expected) {
            let what = shown.map_or("none", |pair| if pair.key == good.key { "good" } else { "foreign or revoked" });
            assert_eq!(status(&target, shown).await, expected, "{host} {what}");
        }
    }

    // Backends receive the parts that are configured, and never the header of a client.
    let forged = "Subject=\"CN=admin\"";
    let received = async |host: &str, pair: Option<&Pair>| {
        let target = https(host).field("x-forwarded-client-cert", forged);
        let target = pair.map_or(target.clone(), |pair| target.showing(pair));
        let text = target.get("/").await.expect("an answer").text();
        text.lines().find_map(|line| line.strip_prefix("x-forwarded-client-cert: ").map(str::to_owned))
    };
    let header = received("verified.test", Some(&good)).await.expect("a header");
    assert!(header.contains("DNS=good.test") && header.contains("Subject=") && !header.contains("admin"), "{header}");
    assert!(!header.contains("Cert="), "{header}");
    assert!(received("requested.test", Some(&foreign)).await.expect("a header").contains("Cert="));
    assert_eq!(received("requested.test", None).await, None);
    for host in ["optional.test", "open.test"] {
        assert_eq!(received(host, Some(&good)).await, None, "{host}");
    }

    // A connection for another server name is no way around the verification.
    let mut open = https("open.test").connect().await.expect("a connection");
    open.request_host("verified.test");
    assert_eq!(open.send(Method::GET, "/", Bytes::new()).await.expect("an answer").status, 421);

    // A new list applies to new connections. Without a valid one, no client is accepted.
    manifests.write("crl.yaml", &crl(&[6]));
    wait_until("the new list", async || {
        status(&https("verified.test"), Some(&good)).await.is_none()
            && status(&https("verified.test"), Some(&revoked)).await == Some(200)
    })
    .await;
    manifests.remove("crl.yaml");
    wait_until("no list", async || status(&https("verified.test"), Some(&revoked)).await.is_none()).await;
    assert_eq!(status(&https("open.test"), None).await, Some(200));
    assert_eq!(Target::http(lockgate.http, "verified.test").get("/").await.expect("an answer").status, 301);
    drop(envoy);
}

/// The addresses in a settings file.
const PORTS: &str = "
xds: { address: '127.0.0.1:XDS' }
admin: { address: '127.0.0.1:ADMIN' }
listeners: { http: { port: HTTP_PORT }, https: { port: HTTPS_PORT }, stats: { port: STATS } }
";

/// A host that clients without a server name reach, and one that they do not.
const FALLBACK: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: shop, namespace: default }
spec:
  virtualhost:
    fqdn: shop.test
    tls: { secretName: cert, enableFallbackCertificate: true }
    ipDenyPolicy: [{ source: Peer, cidr: 10.0.0.0/8 }]
    jwtProviders: [{ name: keys, localJWKS: { secretName: missing, key: jwks } }]
  routes:
  - services: [{ name: a, port: 80 }]
  - conditions: [{ prefix: /token }]
    jwtVerificationPolicy: { require: keys }
    services: [{ name: a, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: other, namespace: default }
spec:
  virtualhost: { fqdn: other.test, tls: { secretName: cert } }
  routes: [{ services: [{ name: a, port: 80 }] }]
";

#[tokio::test(flavor = "multi_thread")]
async fn clients_without_a_server_name_reach_the_hosts_that_ask_for_them() {
    let (manifests, authority) = (Manifests::new(), Authority::new());
    let backends = [Backend::start("a").await, Backend::start("b").await];
    let services = ["a", "b"].into_iter().zip(&backends).map(|(name, at)| service(name, "", &[at.address]));
    let fallback = authority.issue(&["127.0.0.1", "unknown.test"]).secret("default", "fallback");
    let pairs = [authority.issue(&["shop.test", "other.test"]).secret("default", "cert"), fallback];
    manifests.write("base.yaml", &documents(&services.chain(pairs).collect::<Vec<_>>()));
    manifests.write("proxies.yaml", FALLBACK);
    let settings = "ingress: { withoutClass: true }\ntls: { fallbackSecret: default/fallback }\n";
    let path = manifests.path().display().to_string();
    let mut lockgate = Lockgate::launch_by_file(&["--manifests", &path], &format!("{PORTS}{settings}"));
    lockgate.wait_ready().await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let without = |host: &str, name: &str| Target::https(lockgate.https, host, authority.der()).opened_for(name);
    let status = async |target: Target| target.get("/").await.ok().map(|answer| answer.status);
    for name in ["127.0.0.1", "unknown.test"] {
        wait_until("the fallback", async || without("shop.test", name).backend("/").await.as_deref() == Some("a"))
            .await;
        assert_eq!(status(without("other.test", name)).await, Some(404), "{name}");
        let token = without("shop.test", name).get("/token").await.expect("an answer");
        assert_eq!(token.status, 503, "the policies of the host apply");
    }
    // A change of the host changes both of its ways.
    manifests.replace("proxies.yaml", "routes:\n  - services: [{ name: a", "routes:\n  - services: [{ name: b");
    wait_until("b", async || without("shop.test", "127.0.0.1").backend("/").await.as_deref() == Some("b")).await;
    let named = Target::https(lockgate.https, "shop.test", authority.der());
    wait_until("b", async || named.backend("/").await.as_deref() == Some("b")).await;
    manifests.replace("proxies.yaml", "enableFallbackCertificate: true", "enableFallbackCertificate: false");
    wait_until("404", async || status(without("shop.test", "127.0.0.1")).await == Some(404)).await;
    assert_eq!(named.backend("/").await.as_deref(), Some("b"));
}
