//! WebAssembly modules of policies, which Envoy runs.

use std::fs;
use std::path::Path;

use e2e::load::Plan;
use e2e::manifests::{documents, ingress, service};
use e2e::wasm::{MARK, module};
use e2e::{Authorizer, Echo, Load, Mode, Target, wait_everywhere};
use hyper::Method;
use tempfile::TempDir;

use super::{Site, answers, host, policy};

/// The modules of the policies, by the name of the Ingress.
const POLICIES: [(&str, &str); 6] = [
    ("seen", "one"),
    ("again", "other"),
    ("plain", "plain"),
    ("denied", "deny"),
    ("held", "body"),
    ("unknown", "none"),
];
/// The modules with the file of the test, whose configuration is the name.
const MODULES: [&str; 5] = ["one", "other", "deny", "body", "failing"];

/// The settings with the files of this directory. The file of the module `gone` does not exist.
fn settings(directory: &Path, more: &str) -> String {
    let module = |name: &str, file: &str, configuration: &str| {
        format!("  {name}: {{ file: {}, configuration: '{configuration}' }}\n", directory.join(file).display())
    };
    let mut text: String = MODULES.iter().map(|name| module(name, "test.wasm", name)).collect();
    text += &(module("plain", "test.wasm", "") + &module("odd", "odd.wasm", "") + &module("gone", "gone.wasm", "late"));
    format!("wasm:\n modules:\n{text}{more}")
}

/// Returns the feature of a policy.
fn runs_module(name: &str) -> String {
    format!("wasm: {{ module: {name} }}")
}

fn policies() -> Vec<String> {
    POLICIES.iter().map(|(name, module)| policy(name, &runs_module(module))).collect()
}

/// Starts all programs with an Ingress for each name.
async fn open(more: &str, names: &[&str], is_wildcard: bool) -> (Site, Echo, TempDir) {
    let directory = tempfile::tempdir().expect("a directory");
    fs::write(directory.path().join("test.wasm"), module()).expect("a file");
    fs::write(directory.path().join("odd.wasm"), "no module").expect("a file");
    let hosts: Vec<String> =
        names.iter().map(|name| if is_wildcard { format!("*.{}", host(name)) } else { host(name) }).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let of = |(name, host): (&&str, &&str)| ingress(name, &format!("'{host}'"), "echo", Some("cert"));
    let ingresses: Vec<String> = names.iter().zip(&hosts).map(of).collect();
    let site = Site::open(Mode::Delta, &settings(directory.path(), more), &hosts, &ingresses).await;
    let echo = Echo::start().await;
    site.manifests.write("services.yaml", &service("echo", "", &[echo.address]));
    (site, echo, directory)
}

/// Waits until all workers run the module with this configuration.
async fn runs(target: &Target, configuration: &str) {
    let is_marked = async || target.get("/").await.is_ok_and(|answer| answer.header(MARK) == configuration);
    wait_everywhere(&format!("responses of the module with {configuration:?}"), is_marked).await;
}

async fn modules(more: &str, is_wildcard: bool) {
    let host = |name: &str| if is_wildcard { format!("a.{}", host(name)) } else { host(name) };
    let names: Vec<&str> = POLICIES.iter().map(|(name, _)| *name).chain(["open"]).collect();
    let (site, _echo, _directory) = open(more, &names, is_wildcard).await;
    for name in &names {
        answers(&site.target(&host(name), false), 200).await;
    }
    site.manifests.write("policies.yaml", &documents(&policies()));
    for is_tls in [false, true] {
        let target = |name: &str| site.target(&host(name), is_tls);
        for (name, configuration) in [("seen", "one"), ("again", "other"), ("held", "body")] {
            runs(&target(name), configuration).await;
            let answer = target(name).send(Method::POST, "/", vec![b'a'; 10]).await.expect("an answer");
            let text = answer.text();
            assert!(text.contains(&format!("{MARK}: {configuration}\n")) && answer.status == 200, "{name}: {text}");
        }
        answers(&target("denied"), 403).await;
        assert_eq!(target("denied").get("/").await.expect("an answer").text(), "denied\n");
        let unknown = target("unknown");
        answers(&unknown, 403).await;
        assert!(unknown.get("/").await.expect("an answer").text().contains("cannot be enforced"));
        for _ in 0..10 {
            let open = target("open").get("/").await.expect("an answer");
            assert!(open.status == 200 && open.header(MARK).is_empty() && !open.text().contains(MARK));
            assert_eq!(target("seen").get("/").await.expect("an answer").header(MARK), "one");
        }
        // Envoy holds a body for the module up to the limit of connections.
        for (size, status) in [(20 << 10, 200), (4 << 20, 413)] {
            let answer = target("held").send(Method::POST, "/", vec![b'a'; size]).await.expect("an answer");
            assert_eq!(answer.status, status, "{size}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_runs_the_modules_of_policies() {
    modules("", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_runs_the_modules_of_policies_without_scopes() {
    modules("routes: { discovery: rds }\n", false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn envoy_runs_the_modules_of_policies_of_wildcard_hosts() {
    modules("", true).await;
}

/// A request at which a module fails is answered 503, and its instance is loaded again. Another namespace has an instance of the same module.
#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_fails_in_a_namespace_serves_others() {
    let (site, echo, _directory) = open("", &["seen"], false).await;
    let elsewhere = [
        ingress("attacked", "attacked.test", "echo", None),
        service("echo", "", &[echo.address]),
        policy("attacked", &runs_module("failing")),
    ];
    let elsewhere = documents(&elsewhere).replace("namespace: default", "namespace: other");
    site.manifests.write("other.yaml", &elsewhere);
    site.manifests.write("policies.yaml", &policy("seen", &runs_module("failing")));
    let [seen, attacked] = ["seen", "attacked"].map(|name| site.target(&host(name), false));
    runs(&seen, "failing").await;
    runs(&attacked, "failing").await;
    for _ in 0..20 {
        let answer = attacked.send(Method::POST, "/", "a body").await.expect("an answer");
        assert_eq!(answer.status, 503);
        assert_eq!(seen.get("/").await.expect("an answer").header(MARK), "failing");
    }
    runs(&attacked, "failing").await;
}

/// A module sees only what all checks and limits have permitted, and cannot be combined with a server that may wait, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_module_is_behind_all_checks_and_limits() {
    const CHECKS: [(&str, &str, u16); 6] = [
        ("addresses", "clientAddresses: { deny: [127.0.0.0/8] }", 403),
        ("pages", "csrf: {}", 403),
        ("rated", "localRateLimit: { requests: 1, unit: hour }", 429),
        ("small", "maxRequestBody: 1B", 413),
        ("asked", "externalAuthorization: { backendRef: { name: authorizer, port: 80 } }", 401),
        ("both", "externalProcessing: { backendRef: { name: authorizer, port: 80 } }", 403),
    ];
    let (site, _echo, _directory) = open("", &CHECKS.map(|(name, ..)| name), false).await;
    let authorizer = Authorizer::start().await;
    site.manifests.write("authorizer.yaml", &service("authorizer", "", &[authorizer.address]));
    let policies = CHECKS.map(|(name, check, _)| policy(name, &format!("{check}\n  {}", runs_module("one"))));
    site.manifests.write("policies.yaml", &documents(&policies));
    for (name, _, status) in CHECKS {
        for is_tls in [false, true] {
            let target = site.target(&host(name), is_tls);
            let refused = async || {
                let answer = target.send(Method::POST, "/?deny", "hello").await;
                answer.is_ok_and(|answer| answer.status == status && answer.header(MARK).is_empty())
            };
            wait_everywhere(name, refused).await;
        }
    }
}

/// The file of a module is missing at an Envoy, or is no module: it keeps the former routes of the host, and all others change.
#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_without_a_module_rejects_only_the_routes_that_name_it() {
    let (site, _echo, directory) = open("", &["gone", "odd", "other"], false).await;
    let [gone, odd, other] = ["gone", "odd", "other"].map(|name| site.target(&host(name), false));
    for target in [&gone, &odd, &other] {
        answers(target, 200).await;
    }
    let of = |name: &str| policy(name, &runs_module(name));
    site.manifests.write("gone.yaml", &documents(&[of("gone"), of("odd")]));
    site.lockgate.logged(&["rejected", "gone.wasm", "Ingress default/gone"]).await;
    site.lockgate.logged(&["rejected", "Unable to create Wasm plugin odd", "Ingress default/odd"]).await;
    site.manifests.write("other.yaml", &of("other"));
    runs(&other, "other").await;
    for target in [&gone, &odd] {
        let answer = target.get("/").await.expect("an answer");
        assert!(answer.status == 200 && answer.header(MARK).is_empty(), "the former routes");
    }
    // The file arrives, and the next change of the policy takes it.
    fs::write(directory.path().join("gone.wasm"), module()).expect("a file");
    site.manifests.write(
        "gone.yaml",
        &policy("gone", "wasm: { module: gone }\n  responseHeaders: { set: [{ name: x-new, value: '1' }] }"),
    );
    runs(&gone, "late").await;
}

/// Modules that come, change, and go under load fail no request, and change no listener.
#[tokio::test(flavor = "multi_thread")]
async fn modules_change_under_load() {
    let (site, _echo, _directory) = open("", &["seen"], false).await;
    let targets = [false, true].map(|is_tls| site.target(&host("seen"), is_tls));
    let mut loads = Vec::new();
    for target in &targets {
        answers(target, 200).await;
        loads.push(Load::start(Plan { rate: 100, connections: 5, ..Plan::new(target.clone(), "/") }).await);
    }
    let before = site.listener_changes().await;
    for _ in 0..3 {
        for name in ["one", "other"] {
            site.manifests.write("policies.yaml", &policy("seen", &runs_module(name)));
            for target in &targets {
                runs(target, name).await;
            }
        }
        site.manifests.remove("policies.yaml");
        for target in &targets {
            runs(target, "").await;
        }
    }
    assert_eq!(site.listener_changes().await, before);
    for load in loads {
        let report = load.stop().await;
        assert_eq!(report.failed(), 0, "{report}");
    }
}
