//! The certificates of xDS: exchanged under load without a refused connection, made and kept at a real API server.

mod directory;
mod replicas;
mod secrets;

use std::time::Duration;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Backend, Envoy, Lockgate, Manifests, Target, lockgate, ports, wait_until};

const HOST: &str = "shop.test";

/// A Service of this name, where it is served, and an Ingress that leads to it.
fn shop(name: &str, backend: &Backend) -> String {
    documents(&[service(name, "", &[backend.address]), ingress("shop", HOST, name, None)])
}

fn manifests(backend: &Backend) -> Manifests {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    manifests.write("shop.yaml", &shop("shop", backend));
    manifests
}

/// An Envoy that watches the certificates at `mount`, and calls its controller `host`. Keep the directory of its files.
fn envoy(lockgate: &Lockgate, host: &str, mount: &str) -> (Envoy, tempfile::TempDir) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("envoy.yaml");
    let admin = ports::free();
    let (xds, at) = (format!("{host}:{}", lockgate.xds), format!("127.0.0.1:{admin}"));
    let output = file.to_str().expect("a path in UTF-8");
    let node = format!("envoy-{admin}");
    lockgate::run(&[
        "bootstrap",
        "--xds-address",
        &xds,
        "--admin-address",
        &at,
        "--node-id",
        &node,
        "--xds-tls",
        mount,
        "--output",
        output,
    ]);
    let bootstrap = std::fs::read_to_string(&file).expect("the bootstrap");
    (Envoy::launch_with(&bootstrap, admin), directory)
}

/// Envoy's certificate for xDS and whom it trusts have been exchanged so many times.
async fn exchanges(envoy: &Envoy) -> u64 {
    envoy.stat("cluster.lockgate-xds.client_ssl_socket_factory.ssl_context_update_by_sds").await
}

/// Nothing that has to do with TLS has ever failed between the two.
async fn assert_no_handshake_failed(envoy: &Envoy, lockgate: &Lockgate) {
    let failed = envoy.stats("cluster.lockgate-xds.*(fail_verify|connection_error|no_certificate|connect_fail)").await;
    assert!(!failed.is_empty(), "these counters are called otherwise");
    assert!(failed.values().all(|count| *count == 0), "{failed:?}\n{}", lockgate.log());
    let log = lockgate.log();
    let refused: Vec<_> = log.lines().filter(|line| line.contains("connection refused")).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
