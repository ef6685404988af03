//! The certificates of xDS: rotated under load without a refused connection, and issued and stored at a real API
//! server.

mod directory;
mod replicas;
mod secrets;

use std::time::Duration;

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Backend, Envoy, Lockgate, Manifests, Target, lockgate, ports, wait_until};

const HOST: &str = "shop.test";

/// Formats a Service with its endpoints, and an Ingress with this Service as the backend.
fn shop(name: &str, backend: &Backend) -> String {
    documents(&[service(name, "", &[backend.address]), ingress("shop", HOST, name, None)])
}

fn manifests(backend: &Backend) -> Manifests {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    manifests.write("shop.yaml", &shop("shop", backend));
    manifests
}

/// Starts an Envoy that watches the certificates at `mount` and connects to its controller as `host`. Keep the returned
/// directory.
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

/// Returns how often Envoy's certificate for xDS and its trusted authorities were rotated.
async fn exchanges(envoy: &Envoy) -> u64 {
    envoy.stat("cluster.lockgate-xds.client_ssl_socket_factory.ssl_context_update_by_sds").await
}

/// Asserts that no TLS handshake between Envoy and the controller has failed.
async fn assert_no_handshake_failed(envoy: &Envoy, lockgate: &Lockgate) {
    let failed = envoy.stats("cluster.lockgate-xds.*(fail_verify|connection_error|no_certificate|connect_fail)").await;
    assert!(!failed.is_empty(), "these counters are called otherwise");
    assert!(failed.values().all(|count| *count == 0), "{failed:?}\n{}", lockgate.log());
    let log = lockgate.log();
    let refused: Vec<_> = log.lines().filter(|line| line.contains("connection refused")).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
