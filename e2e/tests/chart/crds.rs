//! The upgrade of the CustomResourceDefinitions by the documented command, with each version of helm.

use std::process::Command;

use e2e::ApiServer;
use e2e::process::repository;
use serde_json::Value;

use super::{lab, run};

/// Returns the documented command.
fn documented() -> String {
    let page = std::fs::read_to_string(repository().join("docs/upgrade.md")).expect("the page");
    let section = page.split("\n## CustomResourceDefinitions\n").nth(1).expect("the section");
    let block = section.split("```console\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a command");
    assert_eq!(block.lines().count(), 1, "one command: {block}");
    block.trim().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definitions_of_an_earlier_version_are_upgraded_by_the_documented_command() {
    let command = documented();
    for helm in ["helm", "helm3"] {
        let server = ApiServer::start().await;
        let current = run(lab(helm).args(["show", "crds", "charts/lockgate"]), "").expect("the definitions");
        // An installation without HostGrants, whose EnvoyFleets have another field instead of `concurrency`.
        let earlier: Vec<String> = current
            .split("\n---\n")
            .filter(|definition| !definition.contains("name: hostgrants.lockgate.dev"))
            .map(|definition| definition.replace(" concurrency:", " former:"))
            .collect();
        assert!(earlier.iter().any(|definition| definition.contains(" former:")), "{current}");
        let manager = ["apply", "--server-side", "--field-manager=helm", "-f", "-"];
        server.kubectl(&manager, &earlier.join("\n---\n")).await;
        let shell = format!(
            "set -euo pipefail\nhelm() {{ {} \"$@\"; }}\nkubectl() {{ {} \"$@\"; }}\n{command}\n",
            e2e::lab::program(helm).display(),
            e2e::lab::program("kubectl").display()
        );
        let mut bash = Command::new("bash");
        bash.args(["-c", &shell]).env("KUBECONFIG", server.kubeconfig("admin"));
        let said = run(&mut bash, "").unwrap_or_else(|error| panic!("{error}\n{shell}"));
        println!("{helm}: {said}");
        let all = server.kubectl(&["get", "crds", "--output=json"], "").await;
        let all: Value = serde_json::from_str(&all).expect("JSON");
        let named = |name: &str| {
            let found = all["items"].as_array().into_iter().flatten().find(|crd| crd["metadata"]["name"] == name);
            found.unwrap_or_else(|| panic!("{helm}: no {name}")).to_string()
        };
        named("hostgrants.lockgate.dev");
        let fleets = named("envoyfleets.lockgate.dev");
        assert!(fleets.contains("\"concurrency\":") && !fleets.contains("\"former\":"), "{helm}: {fleets}");
    }
}
