//! Envoy accepts each form of a bootstrap with TLS to the controller.

use std::path::Path;

use e2e::{Authority, envoy, lockgate};

fn certificates(directory: &Path) {
    let authority = Authority::new();
    let pair = authority.issue(&["lockgate.test"]);
    for (name, content) in [("tls.crt", pair.certificate), ("tls.key", pair.key), ("ca.crt", authority.pem())] {
        std::fs::write(directory.join(name), content).expect("a file written");
    }
}

#[test]
fn certificates_are_read_once_without_an_output_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    certificates(directory.path());
    let tls = directory.path().display().to_string();
    for address in ["127.0.0.1:18000", "[::1]:18000", "localhost:18000"] {
        let bootstrap = lockgate::run(&["bootstrap", "--xds-address", address, "--xds-tls", &tls]);
        envoy::validate(&bootstrap).unwrap_or_else(|output| panic!("{address}: {output}\n{bootstrap}"));
    }
}

#[test]
fn certificates_are_watched_with_an_output_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    certificates(directory.path());
    let file = directory.path().join("envoy.json");
    let (tls, output) = (directory.path().display().to_string(), file.display().to_string());
    lockgate::run(&["bootstrap", "--xds-tls", &tls, "--output", &output, "--format", "json", "--mode", "sotw"]);
    let bootstrap = std::fs::read_to_string(file).expect("the bootstrap");
    assert!(bootstrap.contains("xds-certificate.yaml"), "{bootstrap}");
    envoy::validate(&bootstrap).unwrap_or_else(|output| panic!("{output}\n{bootstrap}"));
}

#[test]
fn the_admin_interface_may_be_a_unix_socket() {
    let bootstrap = lockgate::run(&["bootstrap", "--admin-address", "unix:/run/envoy.sock", "--max-heap", "0"]);
    envoy::validate(&bootstrap).unwrap_or_else(|output| panic!("{output}\n{bootstrap}"));
}
