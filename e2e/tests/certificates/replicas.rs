//! Last good key pairs that no object contains any more: a starting replica receives them from the others.

use std::collections::BTreeMap;

use e2e::certificates::Pair;
use e2e::{Authority, Mount, Source};

use super::*;

const FLAGS: [&str; 6] = ["--http-port", "8080", "--https-port", "8443", "--stats-port", "8002"];

/// Starts a controller that asks its replica at port `peer`.
async fn start(manifests: &Manifests, tls: &Mount, peer: u16) -> Lockgate {
    let peers = format!("localhost:{peer}");
    let flags = [&FLAGS[..], &["--xds-tls", tls.text(), "--peers", &peers]].concat();
    Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await
}

fn site(backend: &Backend, secret: &str) -> String {
    documents(&[
        service("shop", "", &[backend.address]),
        ingress("shop", HOST, "shop", Some("cert")),
        secret.to_owned(),
    ])
}

/// Returns the names of resources that differ.
fn different(one: &BTreeMap<String, String>, two: &BTreeMap<String, String>) -> Vec<String> {
    let names = one.keys().chain(two.keys()).filter(|name| one.get(*name) != two.get(*name));
    names.cloned().collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replica_that_starts_serves_the_last_good_key_pair_of_the_others() {
    let (backend, authority) = (Backend::start("a").await, Authority::new());
    let own = authority.issue(&["127.0.0.1", "localhost"]);
    let trusted = authority.pem();
    let tls = Mount::new(&[("tls.crt", &own.certificate), ("tls.key", &own.key), ("ca.crt", &trusted)]);
    let good = authority.issue(&[HOST]);
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    manifests.write("shop.yaml", &site(&backend, &good.secret("default", "cert")));
    let old = start(&manifests, &tls, ports::free()).await;
    let before = old.resources().await;
    assert!(before.contains_key("Secret default/cert"), "{before:?}");

    // The Secret no longer contains a key pair, and the host still uses the last one.
    let other = authority.issue(&[HOST]);
    let broken = Pair { key: other.key.clone(), ..good.clone() };
    manifests.write("shop.yaml", &site(&backend, &broken.secret("default", "cert")));
    old.logged(&["WARN", "last good key pair kept"]).await;
    assert_eq!(old.resources().await, before);

    // A replica without peers has only the content of the objects. This shows the effect of the peers.
    let alone = start(&manifests, &tls, ports::free()).await;
    let without = different(&before, &alone.resources().await);
    println!("a replica that has nobody to ask differs in {without:?}");
    assert!(without.contains(&"Secret default/cert".to_owned()), "{without:?}");

    let new = start(&manifests, &tls, old.xds).await;
    assert_eq!(different(&before, &new.resources().await), [""; 0], "{}", new.log());
    assert!(new.log().contains("the last good content of another replica is served"), "{}", new.log());
    for log in [old.log(), new.log()] {
        assert!(!log.contains("PRIVATE KEY"), "{log}");
    }

    // A removed file is a deleted Secret. The last replica still has the key pair after the first one has stopped.
    manifests.write("shop.yaml", &site(&backend, ""));
    new.logged(&["WARN", "the Secret was deleted; last good key pair kept"]).await;
    drop(old);
    let next = start(&manifests, &tls, new.xds).await;
    assert_eq!(different(&before, &next.resources().await), [""; 0], "{}", next.log());

    // A new key pair replaces the last good one.
    manifests.write("shop.yaml", &site(&backend, &other.secret("default", "cert")));
    for replica in [&new, &next] {
        wait_until("the new pair", async || different(&before, &replica.resources().await) == ["Secret default/cert"])
            .await;
    }
    assert_eq!(new.resources().await, next.resources().await);
}
