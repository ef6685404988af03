//! The output of the program.

use std::process::Command;

use e2e::manifests::{documents, ingress};
use e2e::process::output;
use e2e::{Lockgate, Manifests, Source, ports};
use serde_json::Value;

use super::site::Site;

#[tokio::test(flavor = "multi_thread")]
async fn the_program_prints_the_status_and_explanations_of_a_controller() {
    let site = Site::start_with_host().await;
    let address = format!("127.0.0.1:{}", site.lockgate.admin);
    let run = async |args: &[&str]| {
        let mut command = Command::new(e2e::lockgate::binary());
        command.args(args).args(["--admin-address", &address]);
        output(command, "").await.unwrap_or_else(|error| panic!("{args:?}: {error}"))
    };
    let text = run(&["explain", "http://a.test/cart"]).await;
    for part in [
        "Envoy forwards to Service one/first port http, by Ingress one/i",
        "Ingress one/i spec.rules[0].http.paths[0]",
        "accepted by 1 of 1",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(!text.contains('\x1b'), "colors without a terminal");
    let json: Value = serde_json::from_str(&run(&["explain", "http://a.test", "-o", "json"]).await).expect("JSON");
    assert_eq!(json["request"], "GET http://a.test");
    let exit_code = |args: &[&str]| {
        let answer = Command::new(e2e::lockgate::binary()).arg("explain").args(args).output().expect("an answer");
        answer.status.code()
    };
    let at = ["--admin-address", &address];
    assert_eq!(exit_code(&[["http://a.test/cart"].as_slice(), &at].concat()), Some(0));
    assert_eq!(exit_code(&[["https://a.test"].as_slice(), &at].concat()), Some(1), "Envoy closes the connection");
    assert_eq!(exit_code(&[["http://unknown.test"].as_slice(), &at].concat()), Some(1), "Envoy answers 404");
    // The admin interface of Envoy is another one.
    let envoy = format!("127.0.0.1:{}", site.envoy.admin);
    let answer = Command::new(e2e::lockgate::binary()).args(["status", "--admin-address", &envoy]).output();
    let answer = answer.expect("an answer");
    let errors = String::from_utf8_lossy(&answer.stderr);
    assert_eq!(answer.status.code(), Some(2), "{errors}");
    assert!(errors.contains("an Envoy answers there, not a Lockgate controller"), "{errors}");
    // The default Secret of the settings does not exist, which needs attention.
    let answer = Command::new(e2e::lockgate::binary()).args(["status", "--admin-address", &address]).output();
    let answer = answer.expect("an answer");
    assert_eq!(answer.status.code(), Some(1), "{answer:?}");
    let text = String::from_utf8_lossy(&answer.stdout);
    assert!(text.contains("default TLS Secret \"infra/default\" does not exist"), "{text}");
    assert!(text.starts_with("1 of 1 Envoys are up to date; 1 of 1 replicas answer; 1 Ingress served."), "{text}");
    // A replica that does not respond is reported. It is not an error while another one responds.
    let gone = format!("127.0.0.1:{}", ports::free());
    let mut command = Command::new(e2e::lockgate::binary());
    let answer = command.args(["status", "--admin-address", &address, "--admin-address", &gone, "-o", "json"]).output();
    let answer = answer.expect("an answer");
    assert_eq!(answer.status.code(), Some(1), "a replica does not respond");
    let json: Value = serde_json::from_slice(&answer.stdout).expect("JSON");
    assert_eq!(json["replicas"].as_array().map(Vec::len), Some(2));
    assert!(json["replicas"][1]["error"].as_str().is_some_and(|error| error.contains("refused")), "{json:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn ingresses_without_a_class_are_one_log_line_and_a_list() {
    let manifests = Manifests::new();
    let many: Vec<String> =
        (0..300).map(|number| ingress(&format!("i{number}"), &format!("h{number}.test"), "shop", None)).collect();
    manifests.write("many.yaml", &documents(&many));
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    lockgate.logged(&["names no class", "others=299"]).await;
    assert_eq!(lockgate.log().matches("names no class").count(), 1, "{}", lockgate.log());
    let mut command = Command::new(e2e::lockgate::binary());
    command.args(["status", "--admin-address", &format!("127.0.0.1:{}", lockgate.admin)]);
    let text = output(command, "").await.expect("the status");
    assert!(text.contains("no IngressClass is the default (300)") && text.contains("Ingress default/i0\n"), "{text}");
}
