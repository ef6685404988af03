//! One tenant floods the log, the debug pages, and the Events that all tenants share.

use std::fmt::Write as _;
use std::time::Duration;

use e2e::attacks::floods::{self, PATHS, TEXT};
use e2e::manifests::{ingress, ingress_class};
use e2e::{ApiServer, Lockgate, Source, wait_until};
use serde_json::{Value, json};

/// The number of Ingresses of the flood. Each causes three Events.
const INGRESSES: usize = 1000;
/// The time limit for the victim's Event, on a busy machine. A problem is held for one second.
const PROMPT: Duration = Duration::from_secs(8);

async fn start(server: &ApiServer) -> Lockgate {
    Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &["--leader-election", "on"]).await
}

/// Returns the Events of this controller on an object.
async fn events(server: &ApiServer, namespace: &str, name: &str) -> Vec<Value> {
    let args = ["get", "events.v1.events.k8s.io", "--namespace", namespace, "--output", "json"];
    let list: Value = serde_json::from_str(&server.kubectl(&args, "").await).expect("JSON");
    let all = list["items"].as_array().cloned().unwrap_or_default().into_iter();
    all.filter(|event| event["regarding"]["name"] == name).collect()
}

/// Returns the log lines about objects of a namespace, except for those about changed objects.
fn lines(lockgate: &Lockgate, namespace: &str) -> Vec<String> {
    let field = format!("namespace={namespace}");
    let log = lockgate.log();
    let lines = log.lines().filter(|line| line.split_whitespace().any(|word| word == field));
    lines.filter(|line| !line.contains("object changed")).map(str::to_owned).collect()
}

/// Formats an Ingress in `attacker` with annotations, and paths without a Service.
fn wrong(name: &str, annotations: Value, paths: usize) -> Value {
    floods::wrong("attacker", name, "lockgate", annotations, paths)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_as_large_as_it_may_be_writes_little() {
    let server = ApiServer::start().await;
    server.apply(&ingress_class()).await;
    server.kubectl(&["create", "namespace", "attacker"], "").await;
    let lockgate = start(&server).await;
    let large = wrong("large", json!({}), PATHS).to_string();
    println!("an Ingress of {} kB with {PATHS} faults", large.len() / 1000);
    server.kubectl(&["create", "-f", "-"], &large).await;
    let long = wrong("long", floods::long_annotation(), 1).to_string();
    server.kubectl(&["create", "-f", "-"], &long).await;
    lockgate.logged(&["name=large", "does not exist"]).await;
    lockgate.logged(&["name=long", "is not a duration"]).await;

    let lines = lines(&lockgate, "attacker");
    let longest = lines.iter().map(String::len).max().unwrap_or_default();
    let page = lockgate.get("/debug/problems").await.text();
    println!("{} lines, the longest of {longest} bytes; /debug/problems: {} bytes", lines.len(), page.len());
    assert!(lines.len() <= 40, "{} lines", lines.len());
    assert!(longest <= 2000, "a line of {longest} bytes");
    assert!(page.len() <= 30_000, "/debug/problems: {} bytes", page.len());
    // The pages state the number of omitted entries, and the counts are correct.
    lockgate.logged(&["name=long", &format!("({TEXT} characters) is not a duration")]).await;
    lockgate.logged(&["name=large", &format!("{} more problems", PATHS - 20)]).await;
    let count = lockgate.metric("lockgate_problems", &["reason=\"ServiceUnresolvedReference\""]).await;
    assert_eq!(count, PATHS as f64 + 1.0);
    wait_until("the Event", async || !events(&server, "attacker", "large").await.is_empty()).await;
    let note = events(&server, "attacker", "large").await[0]["note"].as_str().unwrap_or_default().to_owned();
    let left_out: usize = note.rsplit(' ').nth(1).and_then(|count| count.parse().ok()).unwrap_or_default();
    assert_eq!(left_out + note.matches("does not exist").count(), PATHS, "{note}");
    wait_until("the other Event", async || events(&server, "attacker", "long").await.len() == 2).await;
    let notes: Vec<String> =
        events(&server, "attacker", "long").await.iter().map(|one| one["note"].to_string()).collect();
    assert!(notes.iter().any(|note| note.contains(&format!("({TEXT} characters) is not a duration"))), "{notes:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_events_does_not_delay_those_of_another_tenant() {
    let server = ApiServer::start().await;
    server.apply(&ingress_class()).await;
    server.kubectl(&["create", "namespace", "attacker"], "").await;
    let lockgate = start(&server).await;
    let mut flood = String::new();
    for at in 0..INGRESSES {
        write!(flood, "---\n{}\n", wrong(&format!("i{at}"), floods::annotations(), 1)).expect("memory");
    }
    server.kubectl(&["create", "-f", "-"], &flood).await;
    let found = async || lockgate.metric("lockgate_problems", &[]).await;
    wait_until("all faults of the flood", async || found().await >= 3.0 * INGRESSES as f64).await;
    let pending = async || lockgate.metric("lockgate_status_pending", &["kind=\"Event\""]).await;
    assert!(pending().await > 500.0, "the flood waits: {}", pending().await);

    server.apply(&ingress("cart", "cart.test", "none", None)).await;
    let told = wait_until("the victim's Event", async || !events(&server, "default", "cart").await.is_empty()).await;
    let waiting = pending().await;
    println!("the victim's Event after {} ms; {waiting} of the flood still wait", told.as_millis());
    assert!(waiting > 100.0, "the flood was over: {waiting}");
    let dropped = lockgate.metric("lockgate_events_dropped_total", &[]).await;
    assert!(dropped > 0.0, "a namespace has room for fewer Events than the flood has");
    assert!(told < PROMPT, "the victim's Event came after {told:?}");

    // The log contains the line of the victim, and at most the quota of the attacker per minute.
    lockgate.logged(&["namespace=default", "name=cart", "does not exist"]).await;
    let (attacker, started) = (lines(&lockgate, "attacker").len(), lockgate.log());
    println!("{attacker} of {} lines of the attacker are in the log", 3 * INGRESSES);
    assert!(attacker <= 1000, "{attacker} lines\n{}", started.len());
}
