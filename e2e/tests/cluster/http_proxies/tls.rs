//! TLS with Secrets of other namespaces.

use bytes::Bytes;
use e2e::{Authority, Lab, Target};
use hyper::Method;

use super::{LIMIT, answers, echoed, has_status, lockgate, proxy, start};

/// Formats a delegation of the Secret `cert` to a namespace.
fn delegation(namespace: &str) -> String {
    format!(
        "apiVersion: projectcontour.io/v1\nkind: TLSCertificateDelegation\nmetadata: {{ name: cert }}\nspec:\n  \
         delegations: [{{ secretName: cert, targetNamespaces: [{namespace}] }}]\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_of_another_namespace_needs_a_delegation() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let (certificates, shop) = (lab.namespace("certs").await, lab.namespace("shop").await);
    start(&shop, &["web"]).await;
    let authority = Authority::new();
    let hosts = ["delegated.test", "own.delegated.test"];
    certificates.apply(&authority.issue(&hosts).secret(&certificates.name, "cert")).await;
    shop.apply(&authority.issue(&hosts).secret(&shop.name, "own")).await;
    let root = |name: &str, host: &str, secret: &str| {
        proxy(
            name,
            &format!(
                "virtualhost: {{ fqdn: {host}, tls: {{ secretName: {secret} }} }}\nroutes: [{{ services: [{{ name: web, port: 80 }}] }}]"
            ),
        )
    };
    let secret = format!("{}/cert", certificates.name);
    shop.apply(&(root("own", "own.delegated.test", "own") + &root("delegated", "delegated.test", &secret))).await;
    has_status(&shop, "own", "valid, Programmed").await;
    let undelegated = "invalid TLSError/DelegationNotPermitted, Programmed";
    has_status(&shop, "delegated", undelegated).await;
    let https = |host: &str| lockgate.https(host, authority.der());
    answers(&https("own.delegated.test"), "/", 200).await;
    is_closed(&https("delegated.test"), &https("own.delegated.test")).await;
    // Without TLS, plain HTTP is not served instead.
    answers(&lockgate.http("delegated.test"), "/x", 301).await;

    certificates.apply(&delegation(&shop.name)).await;
    has_status(&shop, "delegated", "valid, Programmed").await;
    answers(&https("delegated.test"), "/x", 200).await;
    assert_eq!(echoed(&https("delegated.test"), "/x").await.headers["X-Forwarded-Proto"][0], "https");
    let moved = lockgate.http("delegated.test").get("/x").await.expect("an answer");
    assert_eq!((moved.status, moved.header("location")), (301, "https://delegated.test/x"));

    // A delegation to another namespace permits nothing.
    certificates.apply(&delegation("other")).await;
    has_status(&shop, "delegated", undelegated).await;
    let gone = async || https("delegated.test").connect().await.is_err().then_some(());
    tokio::time::timeout(LIMIT, lab.until("the end of TLS", gone)).await.expect("the end of TLS");
    is_closed(&https("delegated.test"), &https("own.delegated.test")).await;
    answers(&https("own.delegated.test"), "/", 200).await;
}

/// Asserts that a host has no TLS: no connection, and no answer on a connection for another host.
async fn is_closed(target: &Target, other: &Target) {
    assert!(target.connect().await.is_err());
    let mut connection = other.connect().await.expect("a connection");
    connection.request_host("delegated.test");
    let answer = connection.send(Method::GET, "/", Bytes::new()).await.expect("an answer");
    assert_eq!(answer.status, 421);
}
