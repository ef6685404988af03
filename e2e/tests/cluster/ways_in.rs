//! Other ways to install a release: the commands in helm's notes, plain manifests, and certificates of cert-manager.

use std::process::Command;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::lab::echo;
use e2e::load::Plan;
use e2e::process::{output, repository};
use e2e::{Authority, Lab, Load, Target};
use serde_json::Value;

use super::first::ingress;

/// Returns the commands in helm's notes: the lines with an indentation of five.
fn commands(notes: &str) -> String {
    notes.lines().filter_map(|line| line.strip_prefix("     ")).collect::<Vec<_>>().join("\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_that_helm_prints_lead_to_the_first_200() {
    let lab = Lab::shared().await;
    let space = lab.namespace("notes").await;
    space.apply(&echo("web").port(80).yaml()).await;
    space.endpoints("web", 1).await;
    let flags = ["--set=ingressClass.name=notes", "--set=settings.ingress.controllerName=notes.test/lockgate"];
    let notes =
        lab.helm(&[&["install", "notes", "charts/lockgate", "--namespace", &space.name][..], &flags].concat()).await;
    let script = commands(&notes);
    assert_eq!(script.matches("kubectl").count(), 4, "{notes}");
    // Runs the commands with this namespace as the default of kubectl. The curl command of the notes repeats until
    // Envoy serves the Ingress.
    let kubectl = e2e::lab::program("kubectl");
    let shell = format!(
        "set -euo pipefail\nkubectl() {{ {} --namespace {} \"$@\"; }}\n\
         curl() {{ command curl --silent --show-error --fail --retry 100 --retry-delay 1 --retry-all-errors --max-time 5 \"$@\"; }}\n\
         {script}\n",
        kubectl.display(),
        space.name
    );
    let mut command = Command::new("bash");
    command.args(["-c", &shell]);
    let said = output(command, "").await.unwrap_or_else(|error| panic!("{error}\n{shell}"));
    println!("{script}");
    assert!(said.contains("\"service\": \"web\"") && said.contains("ingress.networking.k8s.io/web created"), "{said}");
    assert!(said.contains("may write status and Events"), "the controller's log: {said}");
    lab.helm(&["uninstall", "notes", "--namespace", &space.name, "--wait"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_plain_manifests_made_is_taken_over_by_helm_without_a_failed_request() {
    let lab = Lab::shared().await;
    let space = lab.namespace("taken").await;
    let flags = [
        "--set=ingressClass.name=taken",
        "--set=settings.ingress.controllerName=taken.test/lockgate",
        "--namespace",
        &space.name,
    ];
    // The same commands as in scripts/manifests.sh, with different names than in other specs.
    let rendered = lab.helm(&[&["template", "taken", "charts/lockgate"][..], &flags].concat()).await;
    let of_helm = ["app.kubernetes.io/managed-by: Helm", "helm.sh/chart: "];
    let plain = rendered.lines().filter(|line| !of_helm.iter().any(|label| line.trim().starts_with(label)));
    lab.apply(&plain.collect::<Vec<_>>().join("\n")).await;
    space.rolled_out("deployment/taken-lockgate-envoy").await;
    space.apply(&echo("echo").yaml()).await;
    space.endpoints("echo", 1).await;
    space.apply(&ingress("echo", "taken.test", "echo").replace("ClassName: lockgate", "ClassName: taken")).await;
    let target = Target::http(80, "taken.test").at(lab.address(&space.name, "taken-lockgate-envoy").await);
    let ok = async || target.get("/").await.ok().filter(|answer| answer.status == 200);
    lab.until("the first 200", ok).await;
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/taken-lockgate", space.name);
    assert_eq!(lab.get(&path).await["metadata"]["labels"]["app.kubernetes.io/managed-by"], Value::Null);

    let load = Load::start(Plan::new(target.clone(), "/")).await;
    load.answers(200).await;
    // The flags in docs/upgrade.md.
    let page = std::fs::read_to_string(repository().join("docs/upgrade.md")).expect("docs/upgrade.md");
    let line =
        page.lines().find_map(|line| line.strip_prefix("helm install lockgate charts/lockgate --namespace lockgate "));
    let documented: Vec<&str> = line.expect("the command in docs/upgrade.md").split_whitespace().collect();
    assert!(documented.contains(&"--take-ownership"), "{documented:?}");
    let install = ["install", "taken", "charts/lockgate", "--wait", "--timeout=120s"];
    lab.helm(&[&install[..], &documented, &flags].concat()).await;
    let report = load.stop().await;
    println!("taken over: {report}");
    assert_eq!(report.failed(), 0, "{report}");
    assert_eq!(lab.get(&path).await["metadata"]["labels"]["app.kubernetes.io/managed-by"], "Helm");
    lab.helm(&["uninstall", "taken", "--namespace", &space.name, "--wait", "--timeout=120s"]).await;
    lab.until("an end that leaves nothing", async || lab.find(&path).await.is_none().then_some(())).await;
}

/// Returns the definitions of the cert-manager kinds that the chart uses.
fn kinds_of_cert_manager() -> String {
    let kind = |kind: &str, plural: &str| {
        format!(
            "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{ name: {plural}.cert-manager.io }}\n\
             spec:\n  group: cert-manager.io\n  scope: Namespaced\n  names: {{ kind: {kind}, plural: {plural} }}\n  versions:\n  \
             - name: v1\n    served: true\n    storage: true\n    schema: {{ openAPIV3Schema: {{ type: object, \
             x-kubernetes-preserve-unknown-fields: true }} }}\n---\n"
        )
    };
    kind("Certificate", "certificates") + &kind("Issuer", "issuers")
}

/// The lab has no cert-manager. The test creates its Secrets from the Certificates of the chart.
#[tokio::test(flavor = "multi_thread")]
async fn the_certificates_may_be_those_of_cert_manager() {
    let lab = Lab::alone().await;
    lab.apply(&kinds_of_cert_manager()).await;
    let path = "/apis/cert-manager.io/v1/namespaces";
    for kind in ["certificates", "issuers"] {
        let path = format!("/apis/cert-manager.io/v1/{kind}");
        let served = async || lab.ask(&path).await.ok().filter(|answer| answer.status == 200);
        lab.until("the kinds of cert-manager", served).await;
    }
    let space = lab.namespace("cert-manager").await;
    space.apply(&echo("echo").yaml()).await;
    space.endpoints("echo", 1).await;
    let flags = [
        "--set=xdsTls.mode=cert-manager",
        "--set=ingressClass.name=cm",
        "--set=settings.ingress.controllerName=cm.test/lockgate",
    ];
    lab.helm(&[&["install", "cm", "charts/lockgate", "--namespace", &space.name][..], &flags].concat()).await;

    let certificates = lab.list(&format!("{path}/{}/certificates", space.name)).await;
    let issuers = lab.list(&format!("{path}/{}/issuers", space.name)).await;
    let issuer_of =
        |name: &Value| issuers.iter().find(|issuer| issuer["metadata"]["name"] == *name).expect("an Issuer");
    let authority = Authority::new();
    let mut leaves = 0;
    for certificate in &certificates {
        let (spec, issuer) = (&certificate["spec"], issuer_of(&certificate["spec"]["issuerRef"]["name"]));
        let secret = spec["secretName"].as_str().expect("secretName");
        if spec["isCA"] == true {
            assert!(issuer["spec"]["selfSigned"].is_object(), "{issuer}");
            continue;
        }
        let ca = certificates.iter().find(|other| other["spec"]["isCA"] == true).expect("a Certificate of a CA");
        assert_eq!(issuer["spec"]["ca"]["secretName"], ca["spec"]["secretName"], "{issuer}");
        let names: Vec<&str> = spec["dnsNames"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let ca = BASE64_STANDARD.encode(authority.pem());
        space.apply(&format!("{}  ca.crt: {ca}\n", authority.issue(&names).secret(&space.name, secret))).await;
        leaves += 1;
    }
    assert_eq!((leaves, certificates.len()), (2, 3));
    for what in ["deployment/cm-lockgate", "deployment/cm-lockgate-envoy"] {
        space.rolled_out(what).await;
    }
    space.apply(&ingress("echo", "cm.test", "echo").replace("ClassName: lockgate", "ClassName: cm")).await;
    let target = Target::http(80, "cm.test").at(lab.address(&space.name, "cm-lockgate-envoy").await);
    let ok = async || target.get("/").await.ok().filter(|answer| answer.status == 200);
    lab.until("the first 200", ok).await;
    assert_eq!(space.ingress_address("echo").await, lab.address(&space.name, "cm-lockgate-envoy").await);
    lab.helm(&["uninstall", "cm", "--namespace", &space.name, "--wait"]).await;
    lab.kubectl(&["delete", "-f", "-"], &kinds_of_cert_manager()).await;
}
