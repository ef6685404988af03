//! What `lockgate bootstrap` writes, Envoy takes without a word.

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, envoy, lockgate, wait_until};

#[test]
fn envoy_accepts_it() {
    for mode in ["delta", "sotw"] {
        let bootstrap = lockgate::run(&["bootstrap", "--mode", mode]);
        envoy::validate(&bootstrap).unwrap_or_else(|output| panic!("{mode}: {output}\n{bootstrap}"));
    }
}

#[test]
fn envoy_refuses_one_that_is_broken() {
    let bootstrap = lockgate::run(&["bootstrap"]).replace("connect_timeout", "connect_timeuot");
    let output = envoy::validate(&bootstrap).expect_err("an unknown field");
    assert!(output.contains("connect_timeuot"), "{output}");
}

async fn envoy_starts_without_warnings(mode: Mode) {
    let backend = Backend::start("a").await;
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let shop = [service("shop", "", &[backend.address]), ingress("shop", "shop.test", "shop", None)];
    manifests.write("shop.yaml", &documents(&shop));
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let envoy = Envoy::start(&lockgate, mode).await;
    let target = Target::http(lockgate.http, "shop.test");
    wait_until("the shop to be served", async || target.backend("/").await.is_some()).await;
    assert_eq!(envoy.warnings(), Vec::<String>::new(), "{mode:?}");
    // So that "no warnings" means something.
    assert!(envoy.log().contains("[info]"), "{}", envoy.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_starts_without_warnings_delta() {
    envoy_starts_without_warnings(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_starts_without_warnings_sotw() {
    envoy_starts_without_warnings(Mode::Sotw).await;
}
