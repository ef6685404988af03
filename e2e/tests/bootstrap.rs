//! Envoy accepts the output of `lockgate bootstrap` without warnings.

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Authority, Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, envoy, lockgate, ports, wait_until};

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

async fn envoy_starts_without_warnings(mode: Mode, flags: &[&str]) {
    let backend = Backend::start("a").await;
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let shop = [service("shop", "", &[backend.address]), ingress("shop", "shop.test", "shop", None)];
    manifests.write("shop.yaml", &documents(&shop));
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), flags).await;
    let envoy = Envoy::start(&lockgate, mode).await;
    let target = Target::http(lockgate.http, "shop.test");
    wait_until("the shop to be served", async || target.backend("/").await.is_some()).await;
    assert_eq!(envoy.warnings(), Vec::<String>::new(), "{mode:?}");
    // Shows that warnings are detected.
    assert!(envoy.log().contains("[info]"), "{}", envoy.log());
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_starts_without_warnings_delta() {
    envoy_starts_without_warnings(Mode::Delta, &[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_starts_without_warnings_sotw() {
    envoy_starts_without_warnings(Mode::Sotw, &[]).await;
}

/// Creates a directory with a key pair for both ends of xDS, and their authority.
fn xds_certificates(authority: &Authority) -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let pair = authority.issue(&["127.0.0.1", "envoy"]);
    for (name, content) in [("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &authority.pem())] {
        std::fs::write(directory.path().join(name), content).expect("a file written");
    }
    directory
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_and_the_controller_prove_who_they_are() {
    let directory = xds_certificates(&Authority::new());
    let path = directory.path().to_str().expect("a path in UTF-8");
    envoy_starts_without_warnings(Mode::Delta, &["--xds-tls", path]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_with_a_foreign_certificate_gets_nothing() {
    let (ours, theirs) = (xds_certificates(&Authority::new()), xds_certificates(&Authority::new()));
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    let flags = ["--xds-tls", ours.path().to_str().expect("a path in UTF-8")];
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
    // It trusts the controller's authority, but its certificate has another issuer.
    let ca = std::fs::read(ours.path().join("ca.crt")).expect("ca.crt");
    std::fs::write(theirs.path().join("ca.crt"), ca).expect("a file written");
    let path = |directory: &tempfile::TempDir| directory.path().display().to_string();
    let admin = ports::free();
    let bootstrap = lockgate.bootstrap(Mode::Delta, admin, "foreign").replace(&path(&ours), &path(&theirs));
    assert!(bootstrap.contains(&path(&theirs)), "{bootstrap}");
    let mut envoy = Envoy::launch_with(&bootstrap, admin);
    envoy.wait_answering().await;
    wait_until("several attempts", async || envoy.stat("cluster.lockgate-xds.upstream_cx_total").await >= 3).await;
    // `control_plane.connected_state` is not suitable: it is briefly 1 during each attempt.
    for received in ["cluster_manager.cds.update_success", "listener_manager.lds.update_success"] {
        assert_eq!(envoy.stat(received).await, 0, "{received}: {}", lockgate.log());
    }
    assert_eq!(lockgate.metric("lockgate_xds_streams", &[]).await, 0.0);
}
