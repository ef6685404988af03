//! TCP proxies, and the certificates of clients.

use e2e::{Authority, Lab};

use super::{answers, echoed, has_status, lockgate, proxy, start};

#[tokio::test(flavor = "multi_thread")]
async fn connections_are_forwarded_and_clients_show_certificates() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let shop = lab.namespace("connections").await;
    start(&shop, &["web"]).await;
    let (authority, [clients, strangers]) = (Authority::new(), [Authority::new(), Authority::new()]);
    shop.apply(&authority.issue(&["tcp.test", "mtls.test"]).secret(&shop.name, "cert")).await;
    shop.apply(&clients.secret(&shop.name, "clients")).await;
    let tcp = "virtualhost: { fqdn: tcp.test, tls: { secretName: cert } }\ntcpproxy: { services: [{ name: web, port: 80 }] }\n";
    let mtls = "virtualhost:\n  fqdn: mtls.test\n  tls:\n    secretName: cert\n    clientValidation:\n      caSecret: clients\n      \
                forwardClientCertificate: { dns: true }\nroutes: [{ services: [{ name: web, port: 80 }] }]\n";
    shop.apply(&(proxy("tcp", tcp) + &proxy("mtls", mtls))).await;
    for name in ["tcp", "mtls"] {
        has_status(&shop, name, "valid, Programmed").await;
    }

    // The bytes of the connection reach the Service as they are, without headers of a proxy.
    let forwarded = lockgate.https("tcp.test", authority.der());
    answers(&forwarded, "/", 200).await;
    let echo = echoed(&forwarded, "/").await;
    assert!(echo.headers["X-Forwarded-Proto"].is_null(), "{}", echo.headers);

    let bare = lockgate.https("mtls.test", authority.der());
    let known = bare.clone().showing(&clients.issue(&["alice.test"]));
    answers(&known, "/", 200).await;
    let certificate = &echoed(&known, "/").await.headers["X-Forwarded-Client-Cert"][0];
    assert!(certificate.as_str().is_some_and(|text| text.contains("DNS=alice.test")), "{certificate}");
    let unknown = bare.clone().showing(&strangers.issue(&["alice.test"]));
    for refused in [bare, unknown] {
        assert!(refused.get("/").await.is_err());
    }
}
