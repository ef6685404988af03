//! HTTPProxies in the shared installation: each spec changes objects through the API server, and asserts answers and the status of the
//! objects.

mod authorization;
mod connections;
mod includes;
mod limits;
mod routes;
mod tls;
mod tokens;
mod traffic;

use std::time::Duration;

use e2e::lab::echo::Echoed;
use e2e::lab::{Installation, Namespace, echo};
use e2e::{Lab, Target, wait_everywhere_at_most};
use serde_json::Value;
use tokio::sync::OnceCell;

/// Whether this run has installed the definitions.
static DEFINITIONS: OnceCell<()> = OnceCell::const_new();
/// The time limit of a change in a busy lab. It is below that of [`Lab::until`], whose message lacks the last state.
const LIMIT: Duration = Duration::from_secs(100);

/// Returns the shared installation, after the CustomResourceDefinitions of `projectcontour.io` are installed.
async fn lockgate(lab: &Lab) -> Installation<'_> {
    let install = async || {
        lab.kubectl(&["apply", "--server-side", "-f", "crds/contour"], "").await;
        let wait = ["wait", "--for=condition=Established", "--timeout=60s", "-f", "crds/contour"];
        lab.kubectl(&wait, "").await;
    };
    DEFINITIONS.get_or_init(install).await;
    lab.lockgate().await
}

/// Starts echo servers, and waits for their endpoints.
async fn start(space: &Namespace<'_>, services: &[&str]) {
    let objects: Vec<String> = services.iter().map(|name| echo(name).port(80).yaml()).collect();
    space.apply(&objects.concat()).await;
    for name in services {
        space.endpoints(name, 1).await;
    }
}

/// Formats an HTTPProxy of the class `lockgate` from the fields of its spec, in YAML.
fn proxy(name: &str, fields: &str) -> String {
    let fields: String = fields.trim().lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: projectcontour.io/v1\nkind: HTTPProxy\nmetadata: {{ name: {name} }}\nspec:\n  ingressClassName: lockgate\n{fields}---\n"
    )
}

/// Returns an HTTPProxy.
async fn read(space: &Namespace<'_>, name: &str) -> Value {
    space.lab().get(&format!("/apis/projectcontour.io/v1/namespaces/{}/httpproxies/{name}", space.name)).await
}

/// Describes the status of the current generation of an HTTPProxy: `valid, Programmed`, or `invalid IncludeError/IncludeNotFound, Programmed`.
fn described(proxy: &Value) -> String {
    let status = &proxy["status"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut described = text(&status["currentStatus"]);
    let conditions = status["conditions"].as_array().into_iter().flatten();
    for condition in conditions {
        if condition["observedGeneration"] != proxy["metadata"]["generation"] {
            described += &format!(", {} of another generation", text(&condition["type"]));
            continue;
        }
        for entry in ["errors", "warnings"].iter().flat_map(|list| condition[list].as_array().into_iter().flatten()) {
            described += &format!(" {}/{}", text(&entry["type"]), text(&entry["reason"]));
        }
        if condition["type"] == "lockgate.dev/Programmed" {
            described += match condition["status"].as_str() {
                Some("True") => ", Programmed",
                _ => ", not Programmed",
            };
        }
    }
    described
}

/// Waits until an HTTPProxy has this status, as [`described`].
async fn has_status(space: &Namespace<'_>, name: &str, expected: &str) {
    let mut last = String::new();
    let same = async || {
        last = described(&read(space, name).await);
        (last == expected).then_some(())
    };
    let what = format!("{name} to be {expected:?}");
    if tokio::time::timeout(LIMIT, space.lab().until(&what, same)).await.is_err() {
        panic!("{name}: {last:?} instead of {expected:?}");
    }
}

/// Waits until requests have this status in all Envoys and their workers.
async fn answers(target: &Target, path: &str, status: u16) {
    let mut last = String::new();
    let same = async || {
        let answer = target.get(path).await;
        last = answer.as_ref().map_or_else(ToString::to_string, |answer| answer.status.to_string());
        answer.is_ok_and(|answer| answer.status == status)
    };
    if tokio::time::timeout(LIMIT, wait_everywhere_at_most(2 * LIMIT, path, same)).await.is_err() {
        panic!("{path}: {last} instead of {status}");
    }
}

/// Waits until a Service receives all requests. An Envoy confirms a route shortly before its workers have it.
async fn served_by(target: &Target, path: &str, service: &str) {
    let served = async || {
        let answer = target.get(path).await.ok();
        answer.and_then(|answer| Echoed::of(&answer)).is_some_and(|echoed| echoed.service == service)
    };
    wait_everywhere_at_most(LIMIT, &format!("{path} to be served by {service}"), served).await;
}

/// Sends a request that an echo server answers.
async fn echoed(target: &Target, path: &str) -> Echoed {
    let answer = target.get(path).await.unwrap_or_else(|error| panic!("{path}: {error}"));
    Echoed::of(&answer).unwrap_or_else(|| panic!("{path}: {} {}", answer.status, answer.text()))
}
