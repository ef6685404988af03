//! The definitions of Contour's kinds in `crds/contour`, at a real API server, beside Contour's own: they have the same fields, refuse what
//! Contour's refuse, and store what Contour's store.

mod compare;
mod objects;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use e2e::ApiServer;
use e2e::apiserver::lab;
use e2e::process::repository;
use serde_json::Value;

/// The kinds that Lockgate serves. Contour has two more, for its configuration.
const NAMES: [&str; 3] = [
    "extensionservices.projectcontour.io",
    "httpproxies.projectcontour.io",
    "tlscertificatedelegations.projectcontour.io",
];

/// Returns the definitions of Lockgate.
pub fn ours() -> PathBuf {
    repository().join("crds/contour")
}

/// Returns the definitions of Contour's module.
pub fn contours() -> PathBuf {
    lab("contour-crds").join("contour.yaml")
}

/// Installs definitions in place of others, waits until they are served, and returns them by name, as the API server has them.
async fn install(server: &ApiServer, path: &Path) -> BTreeMap<String, Value> {
    let path = path.to_str().expect("UTF-8");
    let exists = !server.kubectl(&["get", "crds", "--output=name"], "").await.trim().is_empty();
    server.kubectl(&[if exists { "replace" } else { "create" }, "-f", path], "").await;
    let wait = [&["wait", "--for=condition=Established", "--timeout=30s", "crd"], &NAMES[..]].concat();
    server.kubectl(&wait, "").await;
    let list = server.kubectl(&[&["get", "--output=json", "crd"], &NAMES[..]].concat(), "").await;
    let list: Value = serde_json::from_str(&list).expect("JSON");
    let definitions = list["items"].as_array().cloned().unwrap_or_default().into_iter();
    definitions.map(|one| (one["metadata"]["name"].as_str().expect("a name").to_owned(), one)).collect()
}

/// Returns the conditions of a definition that are not as they should be.
fn bad_conditions(definition: &Value) -> Vec<&Value> {
    let conditions = definition["status"]["conditions"].as_array().into_iter().flatten();
    let is_good = |one: &&Value| {
        let expected = if one["type"] == "NonStructuralSchema" { "False" } else { "True" };
        one["status"] == expected
    };
    conditions.filter(|one| !is_good(one)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn they_are_accepted_and_are_at_least_as_strict_as_those_of_contour() {
    let server = ApiServer::start().await;
    let theirs = install(&server, &contours()).await;
    let ours = install(&server, &ours()).await;
    for name in NAMES {
        assert!(bad_conditions(&ours[name]).is_empty(), "{name}: {:?}", bad_conditions(&ours[name]));
        println!("{name}: {} fields; Contour's has {}", compare::count(&ours[name]), compare::count(&theirs[name]));
    }
    compare::assert_as_strict(&ours, &theirs);
}

#[tokio::test(flavor = "multi_thread")]
async fn they_store_and_refuse_the_same_objects() {
    for (owner, path) in [("Contour", contours()), ("Lockgate", ours())] {
        let server = ApiServer::start().await;
        install(&server, &path).await;
        objects::assert_stored(&server, owner, &objects::valid()).await;
        let refused = objects::assert_refused(&server, owner).await;
        println!("the definitions of {owner} refuse {refused} objects");
        if owner == "Lockgate" {
            objects::assert_stored(&server, owner, &objects::later()).await;
        }
    }
}
