//! The settings of the process in the settings file: their effect, and the effect of changes.

use std::process::Command;

use e2e::lockgate::binary;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{ApiServer, Authority, Backend, Envoy, Lockgate, Manifests, Mode, Target, lockgate, ports, wait_until};
use serde_json::Value;

/// Formats a settings file with the addresses, and a response header with the edition.
fn file(edition: usize, process: &str) -> String {
    format!(
        "listeners: {{ http: {{ port: HTTP_PORT }}, https: {{ port: HTTPS_PORT }}, stats: {{ port: STATS }} }}\n\
         headers: {{ response: {{ set: {{ x-edition: '{edition}' }} }} }}\n{process}"
    )
}

const ADDRESSES: &str = "xds: { address: '127.0.0.1:XDS' }\nadmin: { address: '127.0.0.1:ADMIN' }\n";

/// One Ingress, for `shop.test`.
fn shop(backend: &Backend) -> Manifests {
    let manifests = Manifests::new();
    let objects =
        [ingress_class(), service("shop", "", &[backend.address]), ingress("shop", "shop.test", "shop", None)];
    manifests.write("all.yaml", &documents(&objects));
    manifests
}

fn path(manifests: &Manifests) -> [&str; 2] {
    ["--manifests", manifests.path().to_str().expect("a path in UTF-8")]
}

/// Returns the header `x-edition` of a response for `shop.test`, if there is a response.
async fn edition(lockgate: &Lockgate) -> Option<String> {
    let answer = Target::http(lockgate.http, "shop.test").get("/").await.ok()?;
    (answer.status == 200).then(|| answer.header("x-edition").to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_certificates_and_the_log_are_those_of_the_file() {
    let backend = Backend::start("shop").await;
    let manifests = shop(&backend);
    let certificates = tempfile::tempdir().expect("a temporary directory");
    let authority = Authority::new();
    let pair = authority.issue(&["localhost", "envoy"]);
    for (name, content) in [("tls.crt", &pair.certificate), ("tls.key", &pair.key), ("ca.crt", &authority.pem())] {
        std::fs::write(certificates.path().join(name), content).expect("a file");
    }
    let directory = certificates.path().to_str().expect("a path in UTF-8");
    let process = format!(
        "xds:\n  address: '127.0.0.1:XDS'\n  tls: {directory}\n  maxConnectionAge: 1s\n\
         admin: {{ address: '127.0.0.1:ADMIN' }}\nlog: {{ format: json, level: 'info,lockgate_xds::server=debug' }}\n"
    );
    let mut lockgate = Lockgate::launch_by_file(&path(&manifests), &file(1, &process));
    lockgate.wait_ready().await;
    assert_eq!(lockgate.get("/debug/log").await.text(), "info,lockgate_xds::server=debug\n");

    let (admin, bootstrap) = (ports::free(), certificates.path().join("envoy.yaml"));
    let (xds, at) = (format!("localhost:{}", lockgate.xds), format!("127.0.0.1:{admin}"));
    let output = bootstrap.to_str().expect("a path in UTF-8");
    let args = ["bootstrap", "--xds-address", &xds, "--admin-address", &at, "--xds-tls", directory, "--output", output];
    lockgate::run(&args);
    let envoy = Envoy::launch_with(&std::fs::read_to_string(&bootstrap).expect("the bootstrap"), admin);
    wait_until("an answer", async || edition(&lockgate).await.as_deref() == Some("1")).await;
    assert!(envoy.stat("cluster.lockgate-xds.ssl.handshake").await > 0);
    // A second request uses a new connection, because connections are at most one second old.
    wait_until("a second connection", async || envoy.stat("cluster.lockgate-xds.ssl.handshake").await > 1).await;
    let log = lockgate.log();
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(line["level"].is_string(), "{line}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_restart_waits_for_it_and_the_rest_of_the_edit_holds() {
    let backend = Backend::start("shop").await;
    let manifests = shop(&backend);
    let source = [&path(&manifests)[..], &["--gate-timeout", "9s"]].concat();
    let first = format!("{}log: {{ level: info }}\n", ADDRESSES.replace("XDS'", "XDS', gateTimeout: 9s"));
    let mut lockgate = Lockgate::launch_by_file(&source, &file(1, &first));
    lockgate.wait_ready().await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    wait_until("the first edition", async || edition(&lockgate).await.as_deref() == Some("1")).await;
    assert!(!lockgate.log().contains("overrides the value in the settings file"), "the flag says the same as the file");

    // The edit changes an address for the next start, a timeout that a flag overrides, a log level that applies at
    // once, and a header for Envoy.
    let next = ports::free();
    let second =
        first.replace("127.0.0.1:ADMIN", &format!("127.0.0.1:{next}")).replace("gateTimeout: 9s", "gateTimeout: 8s");
    let second = second.replace("level: info", "level: 'info,lockgate_xds::server=debug'");
    lockgate.write(&file(2, &second));
    wait_until("the second edition", async || edition(&lockgate).await.as_deref() == Some("2")).await;
    let told = lockgate.logged(&["WARN", "needs a restart of the controller", "admin.address"]).await;
    let ports = [lockgate.admin, next].map(|port| format!("127.0.0.1:{port}"));
    assert!(told.contains(&ports[0]) && told.contains(&ports[1]), "{told}");
    lockgate
        .logged(&["WARN", "--gate-timeout overrides the value in the settings file", "xds.gateTimeout", "8s"])
        .await;
    assert_eq!(lockgate.get("/debug/log").await.text(), "info,lockgate_xds::server=debug\n");
    assert_eq!(lockgate.metric("lockgate_settings_waiting", &[]).await, 1.0);
    assert_eq!(lockgate.metric("lockgate_settings_valid", &[]).await, 1.0);
    let text = lockgate.get("/debug/settings").await.text();
    let waits = format!("# effective until a restart of the controller, then \"{}\" by ", ports[1]);
    let line = text.lines().find(|line| line.contains(&waits)).unwrap_or_else(|| panic!("{waits:?} is not in {text}"));
    assert!(line.trim().starts_with(&format!("address: \"{}\"", ports[0])), "{line}");
    assert!(text.lines().any(|line| line.contains("# --gate-timeout; ") && line.ends_with(" has 8s")), "{text}");

    // A change of Envoy's settings alone does not repeat the line, and the settings still wait.
    lockgate.write(&file(3, &second));
    wait_until("the third edition", async || edition(&lockgate).await.as_deref() == Some("3")).await;
    assert_eq!(lockgate.log().matches("needs a restart of the controller").count(), 1, "{}", lockgate.log());
    assert_eq!(lockgate.metric("lockgate_settings_waiting", &[]).await, 1.0);

    lockgate.restart();
    lockgate.admin = next;
    lockgate.wait_ready().await;
    assert_eq!(lockgate.metric("lockgate_settings_waiting", &[]).await, 0.0);
    // A setting that is reset before the restart no longer waits.
    lockgate.write(&file(3, &second.replace("xds: {", "xds: { maxConnections: 7,")));
    wait_until("one that waits", async || lockgate.metric("lockgate_settings_waiting", &[]).await == 1.0).await;
    lockgate.write(&file(3, &second));
    wait_until("none that waits", async || lockgate.metric("lockgate_settings_waiting", &[]).await == 0.0).await;
}

/// Names and namespaces, all different from the defaults.
const CLUSTER: &str = "\
watch: { namespaces: [shop] }
xds:
  address: '127.0.0.1:XDS'
  tls: auto
  secrets: edge-xds
  service: localhost
  certificateLifetime: 12h
  caLifetime: 20d
  rotationPause: 1m
admin: { address: '127.0.0.1:ADMIN' }
leaderElection: { enabled: true, lease: edge, leaseDuration: 40s, renewDeadline: 30s, retryPeriod: 3s }
";

const OBJECTS: &str = "\
{ apiVersion: v1, kind: Namespace, metadata: { name: shop } }
---
{ apiVersion: v1, kind: Service, metadata: { name: here, namespace: shop }, spec: { ports: [{ port: 80 }] } }
---
{ apiVersion: v1, kind: Service, metadata: { name: there, namespace: default }, spec: { ports: [{ port: 80 }] } }
---
{ apiVersion: v1, kind: Secret, metadata: { name: edge-xds-ca, namespace: default }, type: Opaque }
---
{ apiVersion: v1, kind: Secret, metadata: { name: edge-xds-server, namespace: default }, type: Opaque }
---
{ apiVersion: v1, kind: Secret, metadata: { name: edge-xds-envoy, namespace: default }, type: Opaque }
";

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_certificates_and_the_election_are_those_of_the_file() {
    let server = ApiServer::start().await;
    server.apply(OBJECTS).await;
    let kubeconfig = server.kubeconfig("admin");
    let source = ["--kubeconfig", kubeconfig.to_str().expect("a path in UTF-8")];
    let mut lockgate = Lockgate::launch_by_file(&source, &file(1, CLUSTER));
    lockgate.wait_ready().await;
    let objects = async || lockgate.get("/debug/objects").await.text();
    wait_until("the objects", async || objects().await.contains("shop/here")).await;
    assert!(!objects().await.contains("default/there"));

    wait_until("the Lease", async || lockgate.metric("lockgate_leader", &[]).await == 1.0).await;
    let get = async |what: &[&str]| {
        let text = server.kubectl(&[&["get", "--output", "json"], what].concat(), "").await;
        serde_json::from_str::<Value>(&text).expect("JSON of kubectl")
    };
    let lease = get(&["lease", "edge"]).await;
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 40);
    let renewed = lease["spec"]["renewTime"].clone();
    wait_until("a renewal", async || get(&["lease", "edge"]).await["spec"]["renewTime"] != renewed).await;

    let pair = get(&["secret", "edge-xds-server"]).await;
    assert!(pair["data"]["tls.crt"].as_str().is_some_and(|text| !text.is_empty()), "{pair}");
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a time").as_secs_f64();
    let hours = async |of: &str| {
        let label = format!("certificate=\"{of}\"");
        (lockgate.metric("lockgate_xds_certificate_expiry_timestamp_seconds", &[&label]).await - now) / 3600.0
    };
    let (leaf, authority) = (hours("server").await, hours("authority").await);
    assert!((11.0..=12.1).contains(&leaf) && (479.0..=480.1).contains(&authority), "{leaf} h, {authority} h");
}

#[test]
fn what_the_machine_refuses_is_told_with_the_line() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("its address");
    for (text, parts) in [
        (
            "xds:\n  tls: /nowhere/at/all\n".to_owned(),
            ["lockgate.yaml:2:3: xds.tls: /nowhere/at/all: expected a directory with tls.crt", "No such file"],
        ),
        ("xds: { tls: auto }\n".to_owned(), ["lockgate.yaml:1:8: xds.tls: auto: ", "there is no Kubernetes cluster"]),
        (
            format!("admin: {{ address: '{taken}' }}\nxds: {{ address: '127.0.0.1:0' }}\n"),
            ["lockgate.yaml:1:10: admin.address: cannot listen on", "in use"],
        ),
        (
            format!("xds: {{ address: '{taken}' }}\nadmin: {{ address: '127.0.0.1:0' }}\n"),
            ["lockgate.yaml:1:8: xds.address: cannot listen on", "in use"],
        ),
        (
            "leaderElection: { renewDeadline: 20s }\n".to_owned(),
            ["lockgate.yaml:1:19: leaderElection.renewDeadline: ", "less than leaderElection.leaseDuration (15s)"],
        ),
    ] {
        let file = directory.path().join("lockgate.yaml");
        std::fs::write(&file, &text).expect("a file");
        let served = Command::new(binary())
            .args(["serve", "--manifests"])
            .arg(directory.path())
            .arg("--config")
            .arg(&file)
            .output()
            .expect("the program");
        let told = String::from_utf8_lossy(&served.stderr);
        assert_eq!(served.status.code(), Some(2), "{text}: {told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{text}: {parts:?} are not in {told}");
    }
}
