//! `lockgate export`, and a real Envoy with its files and without a network connection to the controller.
//!
//! These tests can fail: if `src/export/plan.rs` writes routes before their clusters, renames of a Service lose
//! requests.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use e2e::load::Plan;
use e2e::manifests::{DEFAULT, SERVED, documents, ingress, ingress_class, service};
use e2e::{
    Authority, Backend, Envoy, Export, Load, Manifests, Source, Target, lockgate, ports, wait_everywhere, wait_until,
};

const HOST: &str = "shop.test";
const RENAMES: u64 = 10;

/// Creates manifests with one Service and an Ingress for it.
fn manifests(service: &str, backend: &Backend) -> Manifests {
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    manifests.write("shop.yaml", &shop(service, backend));
    manifests
}

fn shop(name: &str, backend: &Backend) -> String {
    documents(&[service(name, "", &[backend.address]), ingress("shop", HOST, name, None).replace(DEFAULT, SERVED)])
}

/// Starts an Envoy with the files at `directory`, and waits until it is ready.
async fn envoy_at(export: &Export, directory: &Path) -> Envoy {
    let admin = ports::free();
    let mut envoy = Envoy::launch_with(&export.bootstrap(directory, admin), admin);
    envoy.wait_ready().await;
    envoy
}

async fn served_by(target: &Target, name: &str) {
    wait_everywhere(&format!("an answer from {name}"), async || target.backend("/").await.as_deref() == Some(name))
        .await;
}

/// Asserts that no file was unreadable or rejected, and that there are no warnings.
async fn assert_content(envoy: &Envoy) {
    let failures = envoy.stats("update_failure|update_rejected").await;
    assert!(failures.values().all(|count| *count == 0), "{failures:?}\n{:?}", envoy.warnings());
    assert_eq!(envoy.warnings(), Vec::<String>::new());
}

/// The hash of the password of the host `keys.test`, and the header with the password.
const KEY: &str = "W6ph5Mm5Pz8GgiULbPgzG37mj9g=";
const PASSWORD: &str = "Basic YW5uOnBhc3N3b3Jk";

/// The Secret with the password, and the policy that requires it.
const KEYS: &str = "apiVersion: v1
kind: Secret
metadata: { name: users, namespace: default }
stringData: { .htpasswd: 'ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=' }
---
apiVersion: lockgate.dev/v1alpha1
kind: HTTPPolicy
metadata: { name: keys, namespace: default }
spec:
  targetRefs: [{ group: networking.k8s.io, kind: Ingress, name: keys }]
  basicAuthentication: { secretRef: { name: users } }
";

async fn format(format: &str) {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let authority = Authority::new();
    let manifests = manifests("shop", &first);
    let pair = authority.issue(&[HOST]);
    manifests.write("secret.yaml", &pair.secret("default", "cert"));
    manifests.write("tls.yaml", &ingress("tls", HOST, "shop", Some("cert")).replace(DEFAULT, SERVED));
    manifests.write("keys.yaml", &format!("{}---\n{KEYS}", ingress("keys", "keys.test", "shop", None)));
    let export = Export::start(&Source::Manifests(manifests.path().into()), &["--format", format]).await;
    let envoy = envoy_at(&export, export.path()).await;
    let (plain, tls) = (Target::http(export.http, HOST), Target::https(export.https, HOST, authority.der()));
    served_by(&plain, "first").await;
    served_by(&tls, "first").await;

    // A change of endpoints writes one file, immediately.
    let before = export.files();
    manifests.write("shop.yaml", &shop("shop", &second));
    served_by(&plain, "second").await;
    let after = export.files();
    let written: Vec<_> = after.iter().filter(|(name, file)| before.get(*name) != Some(file)).collect();
    assert_eq!(written.len(), 1, "{written:?}");
    assert_eq!(written[0].0, &format!("endpoints.default__shop__http.{format}"));

    // The files of a rotated key pair, and of passwords, are readable only by their owner.
    let next = authority.issue(&[HOST]);
    manifests.write("secret.yaml", &next.secret("default", "cert"));
    wait_until("the new certificate", async || {
        tls.connect().await.is_ok_and(|connection| connection.certificate.as_ref() == Some(&next.der))
    })
    .await;
    let mut with_keys = 0;
    for name in export.files().keys() {
        let file = export.file(name);
        let mode = std::fs::metadata(&file).expect("a file").permissions().mode() & 0o777;
        let content = std::fs::read(&file).expect("a file");
        let has_keys = content.windows(KEY.len()).any(|part| part == KEY.as_bytes());
        with_keys += usize::from(has_keys);
        let is_secret = name.starts_with("secrets.") || has_keys;
        assert_eq!(mode, if is_secret { 0o600 } else { 0o644 }, "{name}");
    }
    assert!(with_keys > 0, "a route has the hash");
    let keys = Target::http(export.http, "keys.test");
    assert_eq!(keys.get("/").await.expect("an answer").status, 401);
    served_by(&keys.field("authorization", PASSWORD), "second").await;
    assert!(!export.log().contains("PRIVATE"), "{}", export.log());
    assert_content(&envoy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_envoy_follows_files_json() {
    format("json").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_envoy_follows_files_yaml() {
    format("yaml").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_envoy_follows_files_pb() {
    format("pb").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_envoy_follows_files_pb_text() {
    format("pb_text").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_renames_of_a_service_lose_no_request() {
    let backend = Backend::start("a").await;
    let manifests = manifests("shop-0", &backend);
    let flags = ["--removal-grace", "1s"];
    let mut export = Export::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let envoy = envoy_at(&export, export.path()).await;
    let target = Target::http(export.http, HOST);
    served_by(&target, "a").await;
    let load = Load::start(Plan::new(target.clone(), "/")).await;
    for i in 1..=RENAMES {
        // Every third rename happens while the program is stopped.
        if i % 3 == 0 {
            export.kill();
        }
        manifests.write("shop.yaml", &shop(&format!("shop-{i}"), &backend));
        if i % 3 == 0 {
            export.restart();
        }
        let cluster = format!("default/shop-{i}/http");
        wait_until(&format!("a route to {cluster}"), async || {
            envoy.get("/config_dump?resource=dynamic_route_configs").await.text().contains(&cluster)
        })
        .await;
        load.answers(100).await;
    }
    wait_until("the removal of the old clusters", async || {
        envoy.stat("cluster_manager.cluster_removed").await >= RENAMES
    })
    .await;
    wait_until("the removal of their files", async || {
        export.files().keys().filter(|name| name.starts_with("endpoints.")).count() == 1
    })
    .await;
    let report = load.stop().await;
    println!("{RENAMES} renames of a Service, by files: {report}");
    assert_eq!(report.failed(), 0, "{report}");
    assert_content(&envoy).await;

    // The route is removed first, then the cluster.
    manifests.remove("shop.yaml");
    wait_until("a host that is not there", async || target.get("/").await.is_ok_and(|answer| answer.status == 404))
        .await;
    wait_until("no cluster of a Service", async || !envoy.get("/clusters").await.text().contains("default/shop")).await;
    assert_content(&envoy).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_a_restart_touches_nothing_that_is_equal() {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let manifests = manifests("shop", &first);
    let mut export = Export::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let before = export.files();
    export.kill();
    manifests.write("shop.yaml", &shop("shop", &second));
    export.restart();
    wait_until("the new endpoints", async || export.files() != before).await;
    let after = export.files();
    let written: Vec<_> =
        after.iter().filter(|(name, file)| before.get(*name) != Some(file)).map(|(name, _)| name).collect();
    assert_eq!(written, ["endpoints.default__shop__http.json"]);
    assert_eq!(before.len(), after.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn f1_once_writes_what_there_is_and_says_by_its_exit_code_whether_it_could() {
    let manifests = Manifests::copy_of("examples");
    let directory = tempfile::tempdir().expect("a temporary directory");
    let (source, to) = (manifests.path().display().to_string(), directory.path().join("new"));
    let export = |to: &Path| {
        let mut command = std::process::Command::new(lockgate::binary());
        command.args(["export", "--once", "--format", "yaml", "--manifests", &source, "--dir"]).arg(to);
        let output = command.output().expect("the program");
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (success, log) = export(&to);
    assert!(success && to.join("listeners.yaml").exists(), "{log}");
    // The second run has nothing to write.
    let (success, log) = export(&to);
    assert!(success && log.contains("wrote all files") && !log.contains(" written type_url"), "{log}");
    let (success, log) = export(&to.join("listeners.yaml/below"));
    assert!(!success && log.contains("--dir: cannot make"), "{log}");
    let (success, log) = export(&manifests.path().join("below"));
    assert!(!success && log.contains("the directory is in the source"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn f2_envoy_needs_the_files_before_it_starts() {
    let backend = Backend::start("a").await;
    let manifests = Manifests::new();
    // With only a class, the files exist, but contain no resource of a Service.
    manifests.write("class.yaml", &ingress_class());
    let export = Export::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let nowhere = export.file("nowhere");
    let admin = ports::free();
    let mut early = Envoy::launch_with(&export.bootstrap(&nowhere, admin), admin);
    assert!(!early.process().ended().await.success());
    assert!(early.log().contains("does not exist"), "{}", early.log());

    let envoy = envoy_at(&export, export.path()).await;
    manifests.write("shop.yaml", &shop("shop", &backend));
    served_by(&Target::http(export.http, HOST), "a").await;
    assert_content(&envoy).await;
    // The order of the first files. Waiting for the last one is sufficient.
    let log = export.log();
    let written: Vec<_> = log.lines().filter(|line| line.contains(" written ")).collect();
    let place = |kind: &str| written.iter().position(|line| line.contains(&format!("type_url={kind} ")));
    assert!(place("Cluster") < place("Listener"), "{log}");
}
