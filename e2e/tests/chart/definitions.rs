//! The value that installs the definitions of Contour's kinds, with each version of helm.

use std::collections::BTreeMap;
use std::process::Command;

use base64::Engine as _;
use e2e::ApiServer;
use e2e::apiserver::lab as program;
use serde_json::Value;

use super::{lab, run, template};

const INSTALL: &str = "httpProxy.installDefinitions=true";
/// The arguments of kubectl that wait until all definitions are served.
const ESTABLISHED: [&str; 5] = ["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"];

/// Returns the definitions of Contour's kinds that a rendered chart has.
fn rendered(values: &[&str]) -> Vec<String> {
    let rendered = template(values).unwrap_or_else(|error| panic!("{values:?}: {error}"));
    let documents =
        rendered.split("\n---\n").filter(|document| document.contains("\nkind: CustomResourceDefinition\n"));
    documents.map(str::to_owned).collect()
}

#[test]
fn the_definitions_of_contours_kinds_are_installed_on_request() {
    assert!(rendered(&[]).is_empty());
    let definitions = rendered(&[INSTALL, "commonLabels.team=edge"]);
    assert_eq!(definitions.len(), 3);
    for part in ["helm.sh/resource-policy: keep", "team: edge", "group: projectcontour.io", "openAPIV3Schema:"] {
        assert!(definitions.iter().all(|definition| definition.contains(part)), "{part}");
    }
    let Err(error) = template(&["httpProxy.installDefinitions=auto"]) else { panic!("a text was taken") };
    assert!(error.contains("/httpProxy/installDefinitions"), "{error}");
}

/// An API server, and the version of helm that installs the chart there.
struct Cluster {
    server: ApiServer,
    helm: &'static str,
}

impl Cluster {
    /// Runs helm.
    fn helm(&self, args: &[&str]) -> String {
        let mut command: Command = lab(self.helm);
        command.env("KUBECONFIG", self.server.kubeconfig("admin")).args(args).args(["--namespace", "lockgate"]);
        run(&mut command, "").unwrap_or_else(|error| panic!("{} {args:?}: {error}", self.helm))
    }

    /// Installs or upgrades a release.
    fn upgrade(&self, release: &str, values: &[&str]) {
        let values: Vec<String> = values.iter().map(|value| format!("--set={value}")).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        self.helm(&[&["upgrade", "--install", release, "charts/lockgate", "--create-namespace"], &values[..]].concat());
    }

    /// Returns the definitions of Contour's kinds by name.
    async fn definitions(&self) -> BTreeMap<String, Value> {
        let list = self.server.kubectl(&["get", "crds", "--output=json"], "").await;
        let list: Value = serde_json::from_str(&list).expect("JSON");
        let all = list["items"].as_array().cloned().unwrap_or_default().into_iter();
        let all = all.filter(|one| one["spec"]["group"] == "projectcontour.io");
        all.map(|one| (one["metadata"]["name"].as_str().expect("a name").to_owned(), one)).collect()
    }

    /// Returns the number of bytes of the Secret of a release.
    async fn size(&self, release: &str) -> usize {
        let secret = format!("sh.helm.release.v1.{release}.v1");
        let args = ["get", "secret", &secret, "--namespace=lockgate", "--output=jsonpath={.data.release}"];
        let text = self.server.kubectl(&args, "").await;
        base64::engine::general_purpose::STANDARD.decode(text.trim()).expect("Base64").len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstallation_keeps_the_definitions_and_those_of_others_stay_as_they_are() {
    assert_kept("helm").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstallation_by_helm_3_keeps_them_too() {
    assert_kept("helm3").await;
}

/// Installs, upgrades, and uninstalls the chart, and compares the definitions.
async fn assert_kept(helm: &'static str) {
    let cluster = Cluster { server: ApiServer::start().await, helm };
    let server = &cluster.server;
    cluster.upgrade("lockgate", &[INSTALL]);
    let size = cluster.size("lockgate").await;
    println!("{helm}: the Secret of the release has {size} bytes of 1048576");
    assert!(size < 700_000, "{helm}: {size}");
    assert_eq!(cluster.definitions().await.len(), 3, "{helm}");
    server.kubectl(&ESTABLISHED, "").await;
    let proxy =
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: { name: shop, namespace: default }\nspec: {}\n";
    server.apply(proxy).await;

    // The definitions of this release are upgraded with it.
    let name = "httpproxies.projectcontour.io";
    cluster.upgrade("lockgate", &[INSTALL, "commonLabels.team=edge"]);
    assert_eq!(cluster.definitions().await[name]["metadata"]["labels"]["team"], "edge", "{helm}");
    cluster.upgrade("lockgate", &[]);
    assert_eq!(cluster.definitions().await.len(), 3, "{helm}: the value is off");
    cluster.upgrade("lockgate", &[INSTALL]);
    cluster.helm(&["uninstall", "lockgate"]);
    let kept = cluster.definitions().await;
    assert_eq!(kept.len(), 3, "{helm}: uninstalled");
    server.kubectl(&["get", "httpproxy", "shop"], "").await;

    // A release with the same name has them again, and another one leaves them alone.
    cluster.upgrade("edge", &[INSTALL, "commonLabels.team=other"]);
    assert_eq!(generations(&cluster.definitions().await), generations(&kept), "{helm}");
    assert_ne!(cluster.definitions().await[name]["metadata"]["labels"]["team"], "other", "{helm}");
    cluster.helm(&["uninstall", "edge"]);
    cluster.upgrade("lockgate", &[INSTALL, "commonLabels.team=again"]);
    assert_eq!(cluster.definitions().await[name]["metadata"]["labels"]["team"], "again", "{helm}");
    cluster.helm(&["uninstall", "lockgate"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definitions_of_contour_stay_as_they_are() {
    assert_left_alone("helm").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_definitions_of_contour_stay_as_they_are_with_helm_3() {
    assert_left_alone("helm3").await;
}

/// Installs, upgrades, and uninstalls the chart beside Contour.
///
/// A separate API server, because it may never finish the deletion of a definition that was changed shortly before. The condition is then
/// `InstanceDeletionFailed`, with the message "storage is (re)initializing".
async fn assert_left_alone(helm: &'static str) {
    let cluster = Cluster { server: ApiServer::start().await, helm };
    let contours = program("contour-crds").join("contour.yaml");
    cluster.server.kubectl(&["create", "-f", contours.to_str().expect("UTF-8")], "").await;
    cluster.server.kubectl(&ESTABLISHED, "").await;
    let before = cluster.definitions().await;
    assert_eq!(before.len(), 5, "{helm}");
    cluster.upgrade("lockgate", &[INSTALL]);
    cluster.upgrade("lockgate", &[INSTALL, "commonLabels.team=edge"]);
    cluster.helm(&["uninstall", "lockgate"]);
    let after = cluster.definitions().await;
    let specs = |all: &BTreeMap<String, Value>| -> Vec<Value> { all.values().map(|one| one["spec"].clone()).collect() };
    assert_eq!(specs(&after), specs(&before), "{helm}");
    assert_eq!(generations(&after), generations(&before), "{helm}");
}

/// Returns the generation of each definition.
fn generations(definitions: &BTreeMap<String, Value>) -> Vec<Value> {
    definitions.values().map(|one| one["metadata"]["generation"].clone()).collect()
}
