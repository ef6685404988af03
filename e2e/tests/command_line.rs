//! The exit codes of the program: each command with fine input, with findings, with a missing file, and with wrong usage, compared
//! with the table of docs/reference/command-line.md.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use e2e::certificates::Authority;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::process::{Process, repository};
use e2e::{Manifests, lockgate, ports, wait_for};

/// The calls of one command, by the expected exit code. `DIR` stands for the directory of the files.
struct Calls {
    command: &'static str,
    fine: &'static [&'static str],
    findings: &'static [&'static str],
    failed: &'static [&'static str],
}

const CALLS: &[Calls] = &[
    Calls {
        command: "serve",
        // It runs until a signal: `serve_ends_well_by_a_signal`.
        fine: &[],
        findings: &[],
        failed: &[
            "--manifests DIR/missing",
            "--manifests DIR/good --config DIR/missing.yaml",
            "--manifests DIR/good --config DIR/faults.yaml",
            "--manifests DIR/good --http-port 70000",
            "--manifests DIR/good --admin-address 192.0.2.1:80 --xds-address 127.0.0.1:0",
            "--kubeconfig DIR/missing",
            "--kubeconfig DIR/kubeconfig --context other --admin-address 127.0.0.1:0 --xds-address 127.0.0.1:1",
        ],
    },
    Calls {
        command: "export",
        fine: &[
            "--manifests DIR/good --dir DIR/out --once",
            "--manifests DIR/good/shop.yaml --output-directory DIR/out2 -o pb --once",
            "--manifests - --dir DIR/out3 --once",
        ],
        findings: &[],
        failed: &[
            "--manifests DIR/missing --dir DIR/out --once",
            "--manifests DIR/good --dir DIR/file/out --once",
            "--manifests DIR/good --dir DIR/out --config DIR/faults.yaml --once",
            "--manifests DIR/good",
        ],
    },
    Calls {
        command: "bootstrap",
        fine: &["", "-o json", "--output-file DIR/envoy.yaml"],
        findings: &[],
        failed: &["--config DIR/missing.yaml", "--output-file DIR/missing/envoy.yaml", "--xds-address here", "-o xml"],
    },
    Calls {
        command: "envoy-drain",
        // They need an Envoy: the tests of `drain`.
        fine: &[],
        findings: &[],
        failed: &["now --envoy-admin-address unix:DIR/missing.sock", "now --deadline 1s", "soon"],
    },
    Calls {
        command: "check",
        fine: &["DIR/good", "DIR/good/shop.yaml", "--manifests DIR/good", "-", "--level error DIR/warning"],
        findings: &["DIR/bad", "DIR/warning", "--complete DIR/bad"],
        failed: &[
            "",
            "DIR/missing.yaml",
            "DIR/empty",
            "DIR/binary.yaml",
            "--output xml DIR/good",
            "--config DIR/missing.yaml DIR/good",
            "--config DIR/faults.yaml DIR/good",
            "--kubeconfig DIR/missing DIR/good",
            "--kubeconfig DIR/kubeconfig --context other DIR/good",
            "--kubeconfig DIR/kubeconfig DIR/good",
        ],
    },
    Calls {
        command: "explain",
        fine: &[
            "http://shop.test --manifests DIR/good",
            "http://shop.test --manifests DIR/good/shop.yaml",
            "http://shop.test --manifests -",
            // A redirect.
            "http://secure.test --manifests DIR/answers",
        ],
        findings: &[
            // 404: no such host.
            "http://none.test --manifests DIR/good",
            // 503: the Service has no endpoints.
            "http://shop.test --manifests DIR/answers",
            // 503: no such Service.
            "http://lost.test --manifests DIR/answers",
            // 403: an annotation restricts access.
            "http://closed.test --manifests DIR/answers",
            // 421: a connection for another host.
            "https://other.test --server-name secure.test --manifests DIR/answers",
            // The connection is closed: no certificate, and no listener.
            "https://shop.test --manifests DIR/good",
            "tcp://shop.test:9999 --manifests DIR/good",
        ],
        failed: &[
            "",
            "ftp://shop.test --manifests DIR/good",
            "http://shop.test --manifests DIR/missing",
            "http://shop.test --manifests DIR/binary.yaml",
            "http://shop.test --manifests DIR/good --config DIR/missing.yaml",
            "http://shop.test --kubeconfig DIR/missing",
            "http://shop.test --admin-address 127.0.0.1:1",
        ],
    },
    Calls {
        command: "status",
        // They need a controller: the tests of `explain`.
        fine: &[],
        findings: &[],
        failed: &[
            "--kubeconfig DIR/missing",
            "--kubeconfig DIR/kubeconfig --context other",
            "--admin-address 127.0.0.1:1",
            "--claims --admin-address 127.0.0.1:1",
            "--admin-address a --context b",
        ],
    },
    Calls {
        command: "migrate ingress",
        fine: &["DIR/good", "-", "--manifests DIR/good --output json", "DIR/good --output-directory DIR/migrated"],
        findings: &["DIR/bad", "DIR/warning"],
        failed: &[
            "",
            "DIR/missing.yaml",
            "DIR/empty",
            "DIR/binary.yaml",
            "DIR/good --report DIR/missing/report",
            "DIR/good --output-directory DIR/file",
            "DIR/good --config DIR/faults.yaml",
            "--kubeconfig DIR/missing",
            "--context other --kubeconfig DIR/kubeconfig",
            "--context current DIR/good",
        ],
    },
    Calls {
        command: "migrate httpproxy",
        fine: &["DIR/good", "-", "DIR/good --whole-elements --output json", "DIR/good --output-directory DIR/migrated"],
        findings: &["DIR/bad"],
        failed: &[
            "",
            "DIR/missing.yaml",
            "DIR/empty",
            "DIR/binary.yaml",
            "DIR/good --report DIR/missing/report",
            "DIR/good --output-directory DIR/file",
            "DIR/good --config DIR/faults.yaml",
            "--kubeconfig DIR/missing",
            "--context other --kubeconfig DIR/kubeconfig",
            "--context current DIR/good",
        ],
    },
    Calls {
        command: "migrate contour",
        fine: &[
            "DIR/good",
            "-",
            "--manifests DIR/good --output json",
            "--contour-config DIR/contour.yaml --settings-file DIR/written.yaml --values-file DIR/values.yaml",
            "DIR/good --rows attention --contour-config DIR/contour.yaml",
        ],
        findings: &["--contour-config DIR/unknown.yaml", "DIR/bad --rows better"],
        failed: &[
            "",
            "DIR/missing.yaml",
            "DIR/empty",
            "DIR/binary.yaml",
            "DIR/good --contour-config DIR/missing.yaml",
            "DIR/good --contour-config DIR/binary.yaml",
            "DIR/good --settings-file DIR/missing/settings.yaml",
            "DIR/good --values-file DIR/missing/values.yaml",
            "--kubeconfig DIR/missing",
            "--context other --kubeconfig DIR/kubeconfig",
            "--context current DIR/good",
        ],
    },
    Calls {
        command: "config check",
        fine: &["DIR/settings.yaml", "--config DIR/settings.yaml"],
        findings: &["DIR/faults.yaml", "-o json DIR/faults.yaml"],
        failed: &["", "DIR/missing.yaml", "DIR/good", "DIR/binary.yaml"],
    },
    Calls {
        command: "config print",
        fine: &["", "DIR/settings.yaml", "--config DIR/settings.yaml -o json"],
        findings: &[],
        failed: &["DIR/missing.yaml", "DIR/faults.yaml", "--http-port 0"],
    },
    Calls { command: "config schema", fine: &[""], findings: &[], failed: &["file.yaml"] },
    Calls { command: "version", fine: &["", "-o json"], findings: &[], failed: &["-o yaml"] },
    Calls { command: "completions", fine: &["bash"], findings: &[], failed: &["", "csh"] },
];

/// Creates the files of the calls.
fn files() -> Manifests {
    let files = Manifests::new();
    let write = |name: &str, content: &[u8]| {
        let path = files.file(name);
        fs::create_dir_all(path.parent().expect("a directory")).expect("a directory");
        fs::write(path, content).expect("a file");
    };
    write("good/shop.yaml", good().as_bytes());
    write("bad/shop.yaml", good().replace("shop.test", "shop_test").as_bytes());
    let doubtful = good().replace("path: /\n", "path: /(a|b)\n").replace("Prefix", "ImplementationSpecific");
    write("warning/shop.yaml", doubtful.as_bytes());
    let secure = ingress("secure", "secure.test", "shop", None)
        .replace("metadata: { ", "metadata: { annotations: { ingress.kubernetes.io/force-ssl-redirect: \"true\" }, ");
    let closed = ingress("closed", "closed.test", "shop", None)
        .replace("metadata: { ", "metadata: { annotations: { nginx.ingress.kubernetes.io/auth-url: http://a.test }, ");
    let tls = Authority::new().issue(&["secure.test"]).secret("default", "secure");
    let secure = secure.replace("spec:\n", "spec:\n  tls: [{ hosts: [secure.test], secretName: secure }]\n");
    let lost = ingress("lost", "lost.test", "none", None);
    let shop = ingress("shop", "shop.test", "shop", None);
    let answers = [ingress_class(), service("shop", "", &[]), shop, secure, closed, lost, tls];
    write("answers/all.yaml", documents(&answers).as_bytes());
    write("settings.yaml", b"timeouts: { connect: 3s }\n");
    write("contour.yaml", b"timeouts: { connect-timeout: 3s }\n");
    write("unknown.yaml", b"timeouts: { conect-timeout: 3s }\n");
    write("faults.yaml", b"timeouts: { connect: soon }\n");
    write("binary.yaml", &[0x7f, b'\n', 0xff]);
    write("file", b"");
    write("empty/notes.txt", b"no manifest");
    let kubeconfig = "apiVersion: v1\nkind: Config\nclusters: [{ name: a, cluster: { server: \"http://127.0.0.1:1\" } }]\n\
        users: []\ncontexts: [{ name: a, context: { cluster: a, user: \"\" } }]\ncurrent-context: a\n";
    write("kubeconfig", kubeconfig.as_bytes());
    files
}

/// Manifests without problems, whose Service has an endpoint.
fn good() -> String {
    documents(&[
        ingress_class(),
        service("shop", "", &["10.0.0.1:8080".parse().expect("an address")]),
        ingress("shop", "shop.test", "shop", None),
    ])
}

/// Runs one call, with the good manifests as standard input.
fn run(command: &str, call: &str, directory: &Path) -> Output {
    let call = call.replace("DIR", &directory.display().to_string());
    let mut program = Command::new(lockgate::binary());
    program.args(command.split(' ')).args(call.split_whitespace()).current_dir(directory);
    program.env_remove("KUBECONFIG").env("HOME", directory);
    let piped = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program");
    // Most commands do not read it.
    let _ = child.stdin.take().expect("standard input").write_all(good().as_bytes());
    child.wait_with_output().expect("the end of the program")
}

/// Returns the rows of the table: for each command, whether it ever exits with 0, 1, and 2.
fn table() -> BTreeMap<String, [bool; 3]> {
    let page = fs::read_to_string(repository().join("docs/reference/command-line.md")).expect("the page");
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    rows.map(|row| {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        (cells[0].trim_matches(['`', ' ']).to_owned(), [1, 2, 3].map(|cell| cells[cell] != "–"))
    })
    .collect()
}

#[test]
fn the_exit_codes_are_those_of_the_table() {
    let files = files();
    let (mut table, mut wrong) = (table(), Vec::new());
    for Calls { command, fine, findings, failed } in CALLS {
        let documented = table.remove(*command).unwrap_or_else(|| panic!("{command} is not in the table"));
        for (code, calls) in [(0, fine), (1, findings), (2, failed)] {
            assert!(documented[code] || calls.is_empty(), "{command} exits with {code}, unlike the table");
            for call in *calls {
                let output = run(command, call, files.path());
                let (out, errors) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
                if output.status.code() != Some(code as i32) {
                    wrong.push(format!("lockgate {command} {call}: {}, not {code}\n{errors}", output.status));
                }
                // A failure has a reason, and no output that a program could take for an answer.
                if code == 2 && (errors.trim().is_empty() || errors.contains("panicked")) {
                    wrong.push(format!("lockgate {command} {call}: {errors:?}, {}", String::from_utf8_lossy(out)));
                }
            }
        }
    }
    assert!(table.is_empty(), "{table:?} are not tested");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn serve_ends_well_by_a_signal() {
    let files = files();
    let [xds, admin] = [ports::free(), ports::free()].map(|port| format!("127.0.0.1:{port}"));
    let manifests = files.file("good/shop.yaml").display().to_string();
    let args = ["serve", "--manifests", &manifests, "--xds-address", &xds, "--admin-address", &admin];
    let mut serve = Process::start("lockgate", &lockgate::binary(), &args, &files.file("log"));
    let status = |args: &[&str]| {
        let output =
            Command::new(lockgate::binary()).arg("status").args(args).args(["--admin-address", &admin]).output();
        output.expect("the program").status.code()
    };
    // The controller of a single file serves its objects.
    wait_for("the controller", async || (status(&[]) == Some(0)).then_some(())).await;
    assert_eq!(status(&["--claims"]), Some(0));
    serve.signal("TERM");
    assert_eq!(serve.ended().await.code(), Some(0));
}
