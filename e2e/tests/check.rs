//! `lockgate check`: exit codes, inputs, and outputs of the program, and the check against a real API server.

use std::fs::Permissions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use e2e::apiserver::lab;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::process::repository;
use e2e::{ApiServer, Manifests, lockgate};
use serde_json::Value;

/// The time limit of a check of 2,000 manifests, in a debug build on a busy machine. Alone, it takes 5 s.
const LIMIT: Duration = Duration::from_secs(150);

/// The result of the program.
struct Answer {
    code: Option<i32>,
    output: String,
    errors: String,
}

impl Answer {
    fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self { code: output.status.code(), output: text(&output.stdout), errors: text(&output.stderr) }
    }

    /// Asserts the exit code, and that one line of the output or of the errors contains all `parts`.
    #[track_caller]
    fn assert(&self, code: i32, parts: &[&str]) {
        let Self { output, errors, .. } = self;
        assert_eq!(self.code, Some(code), "{output}\n{errors}");
        let mut lines = output.lines().chain(errors.lines());
        assert!(lines.any(|line| parts.iter().all(|part| line.contains(part))), "{parts:?}:\n{output}\n{errors}");
    }
}

/// Runs `lockgate check` with these arguments in `directory`.
fn check_in(directory: &Path, args: &[&str], stdin: &[u8]) -> Answer {
    let mut command = Command::new(lockgate::binary());
    command.arg("check").args(args).current_dir(directory);
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program");
    // The program may exit before it has read all input.
    let _ = child.stdin.take().expect("standard input").write_all(stdin);
    Answer::of(&child.wait_with_output().expect("the end of the program"))
}

fn check(args: &[&str], stdin: &[u8]) -> Answer {
    check_in(Path::new("."), args, stdin)
}

fn shop() -> String {
    documents(&[ingress_class(), service("shop", "", &[]), ingress("shop", "shop.test", "shop", None)])
}

fn broken() -> String {
    shop().replace("shop.test", "shop_test")
}

#[test]
fn the_exit_code_tells_problems_from_wrong_usage() {
    check(&["-"], shop().as_bytes()).assert(0, &["no findings in 1 file"]);
    check(&["-"], broken().as_bytes())
        .assert(1, &["-:", ": error: Ingress default/shop spec.rules[0].host:", "Remedy: "]);
    // A note is not a problem.
    let of_default_class = documents(&[ingress_class(), ingress("shop", "shop.test", "shop", None)]);
    check(&["-"], of_default_class.as_bytes()).assert(0, &[": note: ", "is not in the manifests"]);
    let classless = ingress("shop", "shop.test", "shop", None);
    check(&["-"], classless.as_bytes()).assert(1, &[": warning: Ingress default/shop", "names no class"]);
    check(&["--watch-ingress-without-class", "-"], classless.as_bytes()).assert(0, &[": note: "]);
    let unknown_field = shop().replace("rules:", "rule:");
    check(&["-"], unknown_field.as_bytes())
        .assert(1, &["spec.rule: the field \"rule\" does not exist", "Write \"rules\"."]);
    check(&["--complete", "-"], ingress("shop", "shop.test", "shop", None).as_bytes())
        .assert(1, &["NotServed", ""].map(|_| "warning"));
    check(&[], b"").assert(2, &["FILE"]);
    check(&["--output", "xml", "-"], b"").assert(2, &["xml"]);
    check(&["missing.yaml"], b"").assert(2, &["missing.yaml: there is no such file or directory"]);
}

#[test]
fn objects_without_a_namespace_are_in_the_namespace_of_the_flag() {
    let service = service("shop", "", &[]).replace("namespace: default", "namespace: shop");
    let route = ingress("shop", "shop.test", "shop", None).replace(", namespace: default", "");
    let apart = documents(&[ingress_class(), service, route]);
    check(&["-"], apart.as_bytes()).assert(0, &["note: ", "is not in the manifests", "--namespace"]);
    check(&["--namespace", "shop", "-"], apart.as_bytes()).assert(0, &["no findings in 1 file"]);
    check(&["-n", "Shop", "-"], b"").assert(2, &["Shop", "lower-case letters"]);
}

#[test]
fn an_unknown_subcommand_is_answered_with_the_known_ones() {
    let run = |args: &[&str]| Answer::of(&Command::new(lockgate::binary()).args(args).output().expect("the program"));
    run(&["migrate", "good"]).assert(2, &["the subcommands are ingress, httpproxy, contour"]);
    run(&["xyz"]).assert(2, &["the subcommands are ", "serve", "check", "migrate"]);
    run(&["migrate", "ingres"]).assert(2, &["a similar subcommand exists: 'ingress'"]);
}

#[test]
fn the_lowest_level_decides_what_is_printed_and_the_exit_code() {
    let doubtful = shop().replace("path: /\n", "path: /(a|b)\n").replace("Prefix", "ImplementationSpecific");
    check(&["-"], doubtful.as_bytes()).assert(1, &["warning: ", "(a|b)"]);
    let answer = check(&["--level", "error", "-"], doubtful.as_bytes());
    assert_eq!((answer.code, &*answer.output), (Some(0), ""), "{}", answer.errors);
}

#[test]
fn directories_are_read_and_files_that_cannot_be_read_are_reported() {
    let manifests = Manifests::new();
    let run = |args: &[&str]| check_in(manifests.path(), args, b"");
    run(&["."]).assert(2, &["has no *.yaml, *.yml, or *.json files"]);
    manifests.write("shop.yaml", &broken());
    manifests.write("notes.txt", "no manifest");
    // Files of Kustomize and Helm are no objects.
    manifests.write("kustomization.yaml", "resources: [shop.yaml]\n");
    manifests.write("values.yaml", "replicas: 2\n");
    manifests.write("Chart.yaml", "apiVersion: v2\nname: shop\n");
    run(&["."]).assert(1, &["./shop.yaml:", "error: "]);
    run(&["shop.yaml"]).assert(1, &["shop.yaml:", "error: "]);
    manifests.write("yaml.yaml", "a: [\n");
    run(&["yaml.yaml"]).assert(1, &["yaml.yaml:1: error: ", "the document is not read"]);
    // The other files are still checked.
    std::fs::write(manifests.file("binary.yaml"), [0x7f, b'\n', 0xff]).expect("a file");
    let answer = run(&["."]);
    answer.assert(2, &["./binary.yaml: error: line 2: not UTF-8"]);
    answer.assert(2, &["./shop.yaml:", "error: "]);
}

/// Without this capability, the permissions of files apply to root too.
const WITHOUT_CAPABILITY: [&str; 3] = ["--inh-caps=-all", "--bounding-set=-dac_override,-dac_read_search", "--"];

#[test]
fn a_directory_that_cannot_be_read_does_not_end_the_check() {
    let manifests = Manifests::new();
    manifests.write("shop.yaml", &broken());
    let secret = manifests.path().join("secret");
    std::fs::create_dir(&secret).expect("a directory");
    let permit = |mode| std::fs::set_permissions(&secret, Permissions::from_mode(mode)).expect("permissions");
    permit(0o000);
    let run = Command::new("setpriv")
        .args(WITHOUT_CAPABILITY)
        .arg(lockgate::binary())
        .args(["check", "."])
        .current_dir(manifests.path())
        .output();
    permit(0o755);
    let answer = Answer::of(&run.expect("setpriv of util-linux"));
    answer.assert(2, &["./secret: error: the directory cannot be read: Permission denied"]);
    answer.assert(2, &["./shop.yaml:", "error: Ingress default/shop spec.rules[0].host"]);
}

/// Returns the manifests in a directory and below.
fn manifests_in(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display())) {
        let path = entry.expect("an entry").path();
        match path.is_dir() {
            true => found.extend(manifests_in(&path)),
            false => found.extend((path.extension().is_some_and(|extension| extension == "yaml")).then_some(path)),
        }
    }
    found.sort();
    found
}

#[test]
fn every_invalid_example_of_gateway_api_is_reported() {
    let files = manifests_in(&lab("gateway-examples").join("invalid"));
    let accepted: Vec<_> =
        files.iter().filter(|file| check(&[&file.display().to_string()], b"").code != Some(1)).collect();
    assert!(accepted.is_empty() && files.len() > 30, "{} of {} accepted: {accepted:#?}", accepted.len(), files.len());
}

#[test]
fn no_valid_example_of_gateway_api_has_an_error() {
    let files = manifests_in(&lab("gateway-examples").join("valid"));
    for file in &files {
        let answer = check(&["--level", "error", "--output", "json", &file.display().to_string()], b"");
        let findings: Vec<Value> = serde_json::from_str(&answer.output).expect("JSON");
        // Lockgate does not serve backends in other clusters, kinds of other groups, and some features of the experimental channel.
        let is_of_lockgate = |finding: &Value| {
            let rule = finding["rule"].as_str().unwrap_or_default();
            ["UnsupportedBackend"].contains(&rule)
        };
        let others: Vec<_> = findings.iter().filter(|finding| !is_of_lockgate(finding)).collect();
        assert!(others.is_empty(), "{}: {others:#?}", file.display());
    }
    assert!(files.len() > 40, "{}", files.len());
}

#[test]
fn the_examples_of_the_repository_pass() {
    check_in(&repository(), &["examples"], b"").assert(0, &["checked "]);
}

#[test]
fn thousands_of_manifests_take_seconds_and_show_their_progress() {
    let manifests = Manifests::new();
    let route = "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: { name: NAME }\nspec:\n  \
        parentRefs: [{ name: public }]\n  hostnames: [NAME.test]\n  rules:\n  - matches: [{ path: { value: /cart } }]\n    \
        backendRefs: [{ name: shop, port: 80 }]\n";
    for number in 0..1_000 {
        let name = format!("shop-{number}");
        manifests.write(&format!("{name}.yaml"), &ingress(&name, &format!("{name}.test"), "shop", None));
        manifests.write(&format!("route-{number}.yaml"), &route.replace("NAME", &format!("route-{number}")));
    }
    manifests.write("class.yaml", &ingress_class());
    let start = Instant::now();
    let answer = check_in(manifests.path(), &["--level", "warning", "."], b"");
    let took = start.elapsed();
    println!("2,000 manifests in {:.1} s", took.as_secs_f64());
    answer.assert(0, &["checked 2001 objects"]);
    assert!(took < LIMIT, "{took:?}");
    assert!(took < Duration::from_secs(1) || answer.errors.contains("reading file "), "{took:?}: {}", answer.errors);
}

#[test]
fn a_large_file_is_checked() {
    let manifests = Manifests::new();
    let comment = format!("# {}\n", "a long line of a comment, ".repeat(800));
    let one = ingress("shop-NUMBER", "host-NUMBER.test", "shop", None) + &comment;
    let many: Vec<String> = (0..1_000).map(|number| one.replace("NUMBER", &number.to_string())).collect();
    manifests.write("many.yaml", &documents(&[service("shop", "", &[]), documents(&many), broken()]));
    let size = std::fs::metadata(manifests.file("many.yaml")).expect("the file").len();
    assert!(size > 16 << 20, "{size}");
    let answer = check_in(manifests.path(), &["many.yaml"], b"");
    answer.assert(1, &["spec.rules[0].host"]);
    answer.assert(1, &["checked 1006 objects"]);
}

#[test]
fn a_command_that_waits_shows_its_progress_in_lines() {
    let mut command = Command::new(lockgate::binary());
    command.args(["check", "-"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program");
    let (sender, lines) = channel();
    let errors = BufReader::new(child.stderr.take().expect("standard error"));
    std::thread::spawn(move || errors.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
    // The input is incomplete until the program says that it waits for it.
    let line = lines.recv_timeout(Duration::from_secs(60)).expect("a line");
    assert!(line.starts_with("reading standard input (") && line.ends_with(" s)"), "{line:?}");
    child.stdin.take().expect("standard input").write_all(shop().as_bytes()).expect("the input");
    let output = child.wait_with_output().expect("the end of the program");
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let rest = lines.iter().last();
    assert!(rest.is_some_and(|line| line.starts_with("no findings")), "the summary is last");
}

#[test]
fn programs_read_json_and_sarif() {
    let answer = check(&["--output", "json", "-"], broken().as_bytes());
    let findings: Value = serde_json::from_str(&answer.output).expect("JSON");
    let finding = &findings[0];
    assert_eq!((&finding["rule"], &finding["file"]), (&"HostNotValid".into(), &"-".into()));
    assert!(finding["line"].is_u64() && finding["remedy"].is_string(), "{finding}");
    let nothing = check(&["--output", "json", "-"], shop().as_bytes());
    assert_eq!((nothing.code, nothing.output.trim()), (Some(0), "[]"));
    let answer = check(&["--output", "sarif", "-"], broken().as_bytes());
    let log: Value = serde_json::from_str(&answer.output).expect("JSON");
    let result = &log["runs"][0]["results"][0];
    assert_eq!((&log["version"], &result["ruleId"]), (&"2.1.0".into(), &"HostNotValid".into()));
}

/// A role that may list all kinds except Secrets.
const ROLE: &str = r#"
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: { name: reader }
rules:
- apiGroups: ["", networking.k8s.io, discovery.k8s.io]
  resources: [ingresses, ingressclasses, namespaces, services, endpointslices]
  verbs: [list, watch]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: reader }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader }
subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: controller }]
"#;

#[tokio::test(flavor = "multi_thread")]
async fn manifests_are_checked_against_a_cluster() {
    let server = ApiServer::start().await;
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata: { name: other }\n".to_owned();
    let first = ingress("first", "taken.test", "shop", None);
    // An existing problem of the cluster is not a problem of the manifests.
    let second = ingress("second", "lonely.test", "missing", None);
    server
        .apply(&documents(&[namespace, ROLE.to_owned(), ingress_class(), service("shop", "", &[]), first, second]))
        .await;
    let run = |user: &str, args: &[&str], manifests: &str| {
        let kubeconfig = server.kubeconfig(user).display().to_string();
        let args = [args, &["--kubeconfig", &kubeconfig, "-"]].concat();
        check(&args, manifests.as_bytes())
    };
    let current = ["--against", "current"];
    // The Service and the class exist in the cluster.
    let fine = ingress("fine", "fine.test", "shop", None);
    run("admin", &current, &fine).assert(0, &["no findings"]);
    for flag in ["--against", "--context", "--cluster"] {
        run("admin", &[flag, "e2e"], &fine).assert(0, &["no findings"]);
    }
    run("admin", &[], &fine).assert(0, &["no findings"]);
    run("admin", &["--against", "nobody"], &fine).assert(2, &["it has no context \"nobody\"; its contexts: e2e"]);
    let missing = fine.replace("name: shop", "name: basket");
    run("admin", &current, &missing).assert(1, &["error: ", "Service \"default/basket\" does not exist"]);
    let theirs = ingress("late", "taken.test", "shop", None).replace("namespace: default", "namespace: other");
    run("admin", &current, &theirs).assert(1, &["error: Ingress other/late", "taken.test"]);
    // The first Ingress would take the host of the second one, because it is older or its name sorts first.
    let moved = ingress("first", "lonely.test", "shop", None);
    let answer = run("admin", &current, &moved);
    answer.assert(1, &["(cluster): error: Ingress default/second", "Remedy: "]);
    assert!(!answer.output.contains("missing"), "{}", answer.output);

    // Secrets may not be listed, so their content is unknown.
    let tls = fine.replace("spec:\n", "spec:\n  tls: [{ hosts: [fine.test], secretName: cert }]\n");
    run("admin", &current, &tls).assert(1, &["error: ", "Secret \"default/cert\" does not exist"]);
    let answer = run("controller", &current, &tls);
    answer.assert(0, &["note: ", "Secret \"default/cert\" is not in the manifests"]);
    answer.assert(0, &["cannot list secrets", "references to these objects are notes"]);
}

#[test]
fn a_cluster_that_cannot_be_reached_is_no_problem_of_the_manifests() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let config = directory.path().join("config");
    let text = "apiVersion: v1\nkind: Config\nclusters: [{ name: a, cluster: { server: \"http://127.0.0.1:1\" } }]\n\
        users: []\ncontexts: [{ name: a, context: { cluster: a, user: \"\" } }]\ncurrent-context: a\n";
    std::fs::write(&config, text).expect("a file");
    let config = config.display().to_string();
    check(&["--against", "current", "--kubeconfig", &config, "-"], shop().as_bytes())
        .assert(2, &["error: cannot read the cluster: cannot list ", "the API server cannot be reached"]);
}
