//! Certificates in Secrets of a real API server, which the controller issues and maintains.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::load::Plan;
use e2e::{ApiServer, Authority, Load, Mount, PATIENCE, Source};
use hyper::Request;
use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};

use super::*;

/// The server name resolves to this machine.
const FLAGS: [&str; 6] = ["--xds-tls", "auto", "--xds-service", "localhost", "--watch-namespaces", "shop"];

/// The permissions of the chart: the three Secrets by name, and the objects in the watched namespaces.
const ROLES: &str = r#"
apiVersion: v1
kind: Namespace
metadata: { name: shop }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: certificates, namespace: default }
rules:
- { apiGroups: [""], resources: [secrets], resourceNames: [lockgate-xds-ca, lockgate-xds-server, lockgate-xds-envoy], verbs: [get, list, watch, update] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: certificates, namespace: default }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: certificates }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: controller }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: objects, namespace: shop }
rules:
- { apiGroups: ["", networking.k8s.io, discovery.k8s.io], resources: [ingresses, services, endpointslices, secrets, configmaps], verbs: [list, watch] }
- { apiGroups: [gateway.networking.k8s.io], resources: [gateways, listenersets, httproutes, grpcroutes, tcproutes, udproutes, tlsroutes, referencegrants, backendtlspolicies], verbs: [list, watch] }
- { apiGroups: [lockgate.dev], resources: [httppolicies, envoyfleets], verbs: [list, watch] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: objects, namespace: shop }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: objects }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: controller }]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: controller }
rules:
- { apiGroups: ["", networking.k8s.io, gateway.networking.k8s.io], resources: [ingressclasses, namespaces, gatewayclasses], verbs: [list, watch] }
- { apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: controller }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: controller }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: controller }]
"#;

/// The empty Secrets that the chart creates.
const EMPTY: &str = r#"
{ apiVersion: v1, kind: Secret, metadata: { name: lockgate-xds-ca, namespace: default, labels: { from: chart } }, type: Opaque }
---
{ apiVersion: v1, kind: Secret, metadata: { name: lockgate-xds-server, namespace: default, labels: { from: chart } }, type: Opaque }
---
{ apiVersion: v1, kind: Secret, metadata: { name: lockgate-xds-envoy, namespace: default, labels: { from: chart } }, type: Opaque }
"#;

/// Returns the data of a Secret of the controller.
async fn secret(server: &ApiServer, name: &str) -> BTreeMap<String, String> {
    let name = format!("lockgate-xds-{name}");
    let text = server.kubectl(&["get", "secret", &name, "--ignore-not-found", "--output", "json"], "").await;
    let secret: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    let data = secret["data"].as_object().into_iter().flatten();
    let decode = |value: &serde_json::Value| {
        let bytes = BASE64_STANDARD.decode(value.as_str().unwrap_or_default()).expect("base64");
        String::from_utf8(bytes).expect("PEM")
    };
    data.map(|(key, value)| (key.clone(), decode(value))).collect()
}

/// Waits for the certificate of the Envoys, which a controller writes last: it is ready before. Returns the data of its Secret.
async fn envoys_secret(server: &ApiServer) -> BTreeMap<String, String> {
    wait_until("the certificate of the Envoys", async || secret(server, "envoy").await.contains_key("tls.key")).await;
    secret(server, "envoy").await
}

async fn annotate(server: &ApiServer, name: &str, value: &str) {
    let name = format!("lockgate-xds-{name}");
    server.kubectl(&["annotate", "secret", &name, &format!("lockgate.dev/rotate={value}")], "").await;
}

fn authorities(secret: &BTreeMap<String, String>) -> usize {
    secret.get("ca.crt").map_or(0, |bundle| bundle.matches("BEGIN CERTIFICATE").count())
}

fn certificates(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).map(|der| der.expect("a certificate")).collect()
}

/// Returns the status of a request by a client that trusts `trusted`, with or without a client certificate.
async fn status_of(port: u16, trusted: &str, own: Option<(&str, &str)>) -> Result<u16, e2e::client::Error> {
    let mut roots = RootCertStore::empty();
    certificates(trusted).into_iter().for_each(|root| roots.add(root).expect("a root"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots);
    let config = match own {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            config.with_client_auth_cert(certificates(certificate), PrivateKeyDer::from_pem_slice(key.as_bytes())?)?
        }
    };
    let socket = tokio::net::TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from("localhost")?;
    let stream = tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, socket).await?;
    let io = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await?;
    tokio::spawn(connection);
    let body = r#"{"node": {"id": "test"}, "resource_names": []}"#.to_owned();
    let request = Request::post("/v3/discovery:clusters").header("host", "localhost").body(body)?;
    Ok(sender.send_request(request).await?.status().as_u16())
}

/// Returns the status of a request with the certificate in Envoy's Secret.
async fn status_with_envoys_certificate(
    port: u16,
    envoy: &BTreeMap<String, String>,
) -> Result<u16, e2e::client::Error> {
    status_of(port, &envoy["ca.crt"], Some((&envoy["tls.crt"], &envoy["tls.key"]))).await
}

#[tokio::test(flavor = "multi_thread")]
async fn two_controllers_that_start_at_once_have_one_authority() {
    let server = ApiServer::start().await;
    server.apply(ROLES).await;
    server.apply(EMPTY).await;
    server.apply(&ingress_class()).await;
    let source = Source::Kubeconfig(server.kubeconfig("controller"));
    let mut replicas = [Lockgate::launch(&source, &FLAGS), Lockgate::launch(&source, &FLAGS)];
    for replica in &mut replicas {
        replica.wait_ready().await;
    }
    // A controller is ready with its own certificate, and writes the certificate of the Envoys last.
    let logs = || replicas.iter().map(Lockgate::log).collect::<String>();
    wait_until("the key pairs", async || logs().matches("a new key pair").count() >= 2).await;
    let logs = logs();
    for (written, count) in [("a new authority", 1), ("a new key pair", 2)] {
        assert_eq!(logs.matches(written).count(), count, "{written}\n{logs}");
    }
    assert!(!logs.contains("BEGIN"), "{logs}");
    let (ca, envoy) = (secret(&server, "ca").await, secret(&server, "envoy").await);
    assert_eq!(ca["ca.crt"], envoy["ca.crt"]);
    assert!(!envoy.contains_key("ca.key"));

    // Both controllers serve only clients with the certificate in Envoy's Secret.
    let stranger = Authority::new().issue(&["envoy"]);
    for replica in &replicas {
        assert_eq!(status_with_envoys_certificate(replica.xds, &envoy).await.expect("a connection"), 200);
        status_of(replica.xds, &ca["ca.crt"], None).await.expect_err("nobody");
        status_of(replica.xds, &ca["ca.crt"], Some((&stranger.certificate, &stranger.key)))
            .await
            .expect_err("a stranger");
    }
    let mount = mount(&envoy);
    let (mut real, _files) = super::envoy(&replicas[1], "localhost", mount.text());
    real.wait_ready().await;

    // A restarted replica uses the existing certificates.
    replicas[0].restart();
    replicas[0].wait_ready().await;
    assert_eq!(secret(&server, "ca").await, ca);
    assert_eq!(status_with_envoys_certificate(replicas[0].xds, &envoy).await.expect("a connection"), 200);

    // The metadata of the chart's Secrets is unchanged.
    let labels = server.kubectl(&["get", "secrets", "--selector", "from=chart", "--output", "name"], "").await;
    assert_eq!(labels.lines().count(), 3, "{labels}");

    // A Secret without data is filled. A deleted Secret is reported, because the controller may not create it.
    server
        .kubectl(
            &[
                "patch",
                "secret",
                "lockgate-xds-server",
                "--type=json",
                "--patch",
                r#"[{"op":"remove","path":"/data"}]"#,
            ],
            "",
        )
        .await;
    wait_until("a new key pair", async || secret(&server, "server").await.contains_key("tls.key")).await;
    server.kubectl(&["delete", "secret", "lockgate-xds-envoy"], "").await;
    let line =
        replicas[0].logged(&["ERROR", "cannot create the Secret", "lockgate-xds-envoy", "create it, empty"]).await;
    println!("{line}");
    server.apply(EMPTY).await;
    let new = envoys_secret(&server).await;
    for replica in &replicas {
        assert_eq!(
            status_with_envoys_certificate(replica.xds, &envoy).await.expect("a connection"),
            200,
            "the old one is good"
        );
        assert_eq!(status_with_envoys_certificate(replica.xds, &new).await.expect("a connection"), 200);
    }
}

/// The Lease of the leader, and its permissions in the chart.
const LEASE: &str = r#"
{ apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: { name: lockgate, namespace: default } }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: { name: lease, namespace: default }
rules:
- { apiGroups: [coordination.k8s.io], resources: [leases], resourceNames: [lockgate], verbs: [get, update] }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: { name: lease, namespace: default }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: Role, name: lease }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: controller }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn another_leader_goes_on_where_one_was_killed() {
    let server = ApiServer::start().await;
    for yaml in [ROLES, LEASE, EMPTY] {
        server.apply(yaml).await;
    }
    let source = Source::Kubeconfig(server.kubeconfig("controller"));
    let flags = [&FLAGS[..], &["--xds-rotation-pause", "3s", "--leader-election", "on"]].concat();
    let mut first = Lockgate::start(&source, &flags).await;
    let second = Lockgate::start(&source, &flags).await;
    assert_eq!(second.log().matches("written: ").count(), 0, "who does not lead writes nothing\n{}", second.log());
    let before = envoys_secret(&server).await;
    annotate(&server, "ca", "now").await;
    wait_until("two authorities", async || authorities(&secret(&server, "envoy").await) == 2).await;
    first.kill();
    // An incomplete rotation is consistent: the remaining replica still serves.
    assert_eq!(status_with_envoys_certificate(second.xds, &before).await.expect("a connection"), 200);
    // The Lease of the killed leader must expire first.
    let alone = async || (authorities(&secret(&server, "envoy").await) == 1).then_some(());
    e2e::wait::wait_at_most(PATIENCE * 2, PATIENCE / 100, "the new authority alone", alone).await;
    let after = secret(&server, "envoy").await;
    assert_ne!(after["ca.crt"], before["ca.crt"]);
    assert!(!after["ca.crt"].is_empty() && second.log().contains("the old authority is no longer trusted"));
    wait_until("the new pair to be let in", async || status_with_envoys_certificate(second.xds, &after).await.is_ok())
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn where_it_may_create_secrets_it_does_and_makes_lost_ones_anew() {
    let server = ApiServer::start().await;
    server.apply("{ apiVersion: v1, kind: Namespace, metadata: { name: shop } }").await;
    let source = Source::Kubeconfig(server.kubeconfig("admin"));
    let lockgate = Lockgate::start(&source, &[&FLAGS[..], &["--xds-rotation-pause", "2s"]].concat()).await;
    let envoy = envoys_secret(&server).await;
    let ca = secret(&server, "ca").await;
    server.kubectl(&["delete", "secret", "lockgate-xds-server"], "").await;
    wait_until("another one", async || secret(&server, "server").await.contains_key("tls.key")).await;
    assert_eq!(secret(&server, "ca").await, ca);
    assert_eq!(status_with_envoys_certificate(lockgate.xds, &envoy).await.expect("a connection"), 200);

    // The authority is lost. The old one stays trusted until no certificate of it is in use.
    server.kubectl(&["delete", "secret", "lockgate-xds-ca"], "").await;
    wait_until("two authorities", async || authorities(&secret(&server, "envoy").await) == 2).await;
    assert_eq!(secret(&server, "envoy").await["tls.crt"], envoy["tls.crt"]);
    assert_eq!(status_with_envoys_certificate(lockgate.xds, &envoy).await.expect("a connection"), 200);
    wait_until("the new one alone", async || authorities(&secret(&server, "envoy").await) == 1).await;
    let new = secret(&server, "envoy").await;
    assert_ne!(new["ca.crt"], envoy["ca.crt"]);
    assert_eq!(status_with_envoys_certificate(lockgate.xds, &new).await.expect("a connection"), 200);
    let refused = async || status_with_envoys_certificate(lockgate.xds, &envoy).await.is_err();
    wait_until("the old one to be refused", refused).await;

    // A private key has leaked.
    annotate(&server, "ca", "at-once").await;
    wait_until("a new authority", async || secret(&server, "envoy").await["ca.crt"] != new["ca.crt"]).await;
    let newest = secret(&server, "envoy").await;
    assert_eq!(authorities(&newest), 1);
    wait_until("the newest to be let in", async || status_with_envoys_certificate(lockgate.xds, &newest).await.is_ok())
        .await;
    status_with_envoys_certificate(lockgate.xds, &new).await.expect_err("what has leaked");
    for line in lockgate.log().lines().filter(|line| line.contains("written: ") || line.contains("certificate")) {
        println!("{line}");
    }
}

fn mount(secret: &BTreeMap<String, String>) -> Mount {
    Mount::new(&files(secret))
}

fn files(secret: &BTreeMap<String, String>) -> Vec<(&str, &str)> {
    secret.iter().map(|(name, content)| (&**name, &**content)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn rotations_of_all_kinds_under_load_refuse_nobody() {
    let server = ApiServer::start().await;
    server.apply(ROLES).await;
    server.apply(EMPTY).await;
    let source = Source::Kubeconfig(server.kubeconfig("controller"));
    // A key pair is renewed after 32 s, and the simulated kubelet is at most 4 s late.
    let lives = ["--xds-certificate-lifetime", "48s", "--xds-ca-lifetime", "192s", "--xds-rotation-pause", "4s"];
    let flags = [&FLAGS[..], &lives, &["--xds-max-connection-age", "500ms"]].concat();
    let lockgate = Lockgate::start(&source, &flags).await;
    let mut mount = mount(&envoys_secret(&server).await);
    let (mut envoy, _files) = super::envoy(&lockgate, "localhost", mount.text());
    envoy.wait_ready().await;
    // The API server accepts no loopback addresses in EndpointSlices. Envoy itself answers the requests.
    let load = Load::start(Plan { rate: 200, ..Plan::new(Target::http(lockgate.stats, "localhost"), "/ready") }).await;

    let (mut seen, mut rotations, mut renewals) = (secret(&server, "envoy").await, 0, 0);
    annotate(&server, "ca", "now").await;
    let late = Duration::from_millis(700);
    let end = tokio::time::Instant::now() + PATIENCE * 4;
    while rotations < 2 || renewals < 3 {
        assert!(tokio::time::Instant::now() < end, "{rotations} rotations, {renewals} renewals\n{}", lockgate.log());
        // The simulated delay of the kubelet. The loop waits for the condition above.
        tokio::time::sleep(late).await;
        let now = secret(&server, "envoy").await;
        if now == seen {
            continue;
        }
        mount.swap(&files(&now));
        renewals += u32::from(now["tls.crt"] != seen["tls.crt"]);
        if authorities(&now) == 1 && authorities(&seen) == 2 {
            rotations += 1;
            annotate(&server, "ca", "now").await;
        }
        seen = now;
    }
    let report = load.stop().await;
    let connections = envoy.stat("cluster.lockgate-xds.upstream_cx_total").await;
    println!("{rotations} rotations, {renewals} new key pairs, {connections} connections: {report}");
    assert_eq!(report.failed(), 0, "{report}");
    assert_no_handshake_failed(&envoy, &lockgate).await;
    // Only leaders have written, and only necessary changes.
    let written = lockgate.log().matches("written: ").count();
    assert!(written < 60, "{written} writes");
}
