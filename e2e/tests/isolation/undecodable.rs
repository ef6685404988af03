//! Objects with text that is not UTF-8, which the API server accepts and stores in its protobuf form.

use std::time::{SystemTime, UNIX_EPOCH};

use e2e::attacks::undecodable::{self, annotated, broken_secret};
use e2e::manifests::{documents, ingress, ingress_class};
use e2e::{ApiServer, Authority, Envoy, Lockgate, Mode, Source, Target, wait_until};
use hyper::Method;
use serde_json::Value;

const INGRESSES: &str = "/apis/networking.k8s.io/v1/namespaces/attacker/ingresses";
const SECRETS: &str = "/api/v1/namespaces/attacker/secrets";
const ATTACKER: &str = "{ apiVersion: v1, kind: Namespace, metadata: { name: attacker } }\n";

/// Formats an Ingress of the attacker, with the default class.
fn broken_ingress(name: &str, edition: &str) -> Vec<u8> {
    undecodable::broken_ingress(name, "lockgate", "attacker.test", edition)
}

/// Writes an object in protobuf.
async fn write(server: &ApiServer, method: Method, path: &str, object: Vec<u8>) {
    let target = server.target().field("content-type", undecodable::CONTENT_TYPE);
    let answer = target.send(method, path, object).await.expect("an answer of the API server");
    assert!(answer.status < 300, "{path}: {} {}", answer.status, answer.text());
}

/// Formats an Ingress of the victim that answers 308 for its host, and presents a certificate for it.
fn shop(name: &str) -> String {
    let annotation = "annotations: { ingress.kubernetes.io/force-ssl-redirect: \"true\" }";
    let ingress = ingress(name, &format!("{name}.test"), "none", Some(&format!("{name}-tls")));
    ingress.replace("namespace: default }", &format!("namespace: default, {annotation} }}"))
}

/// The victim: hosts in `default`, each with a certificate.
struct Victim<'a> {
    server: &'a ApiServer,
    authority: Authority,
}

impl Victim<'_> {
    /// Adds a host and renews its certificate. Waits until Envoy serves both.
    async fn assert_served(&self, lockgate: &Lockgate, name: &str) {
        let host = format!("{name}.test");
        let plain = Target::http(lockgate.http, &host);
        let tls = Target::https(lockgate.https, &host, self.authority.der());
        for what in ["a new host", "a new certificate"] {
            let pair = self.authority.issue(&[&host]);
            let secret = pair.secret("default", &format!("{name}-tls"));
            self.server.apply(&documents(&[secret, shop(name)])).await;
            wait_until(&format!("{what} for {host}"), async || {
                let redirected = plain.get("/").await.is_ok_and(|answer| answer.status == 308);
                redirected && tls.connect().await.is_ok_and(|shown| shown.certificate == Some(pair.der.clone()))
            })
            .await;
        }
    }
}

/// Returns the problems with this reason: object and field.
async fn problems(lockgate: &Lockgate) -> Vec<(String, String)> {
    let all: Vec<Value> = serde_json::from_str(&lockgate.get("/debug/problems").await.text()).expect("JSON");
    let of_text = all.iter().filter(|problem| problem["reason"] == "InvalidEncoding");
    let object = |problem: &Value| {
        let text = |field: &str| problem["object"][field].as_str().unwrap_or_default().to_owned();
        format!("{} {}/{}", text("kind"), text("namespace"), text("name"))
    };
    of_text.map(|problem| (object(problem), problem["field"].as_str().unwrap_or_default().to_owned())).collect()
}

/// The expected problems of the attacker's two objects.
fn expected() -> [(String, String); 2] {
    [("Ingress attacker/broken", "spec.rules[0].http.paths[0].path"), ("Secret attacker/broken", "type")]
        .map(|(object, field)| (object.to_owned(), field.to_owned()))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_is_not_utf_8_harms_no_other() {
    let server = ApiServer::start().await;
    server.apply(&documents(&[ATTACKER.into(), ingress_class()])).await;
    let flags = ["--leader-election", "on"];
    let mut lockgate = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &flags).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let victim = Victim { server: &server, authority: Authority::new() };
    victim.assert_served(&lockgate, "before").await;

    write(&server, Method::POST, INGRESSES, broken_ingress("broken", "1")).await;
    write(&server, Method::POST, SECRETS, broken_secret("broken", "1")).await;
    victim.assert_served(&lockgate, "created").await;
    wait_until("the problems", async || problems(&lockgate).await == expected()).await;
    let line = ["WARN", "attacker", "broken", "spec.rules[0].http.paths[0].path: not valid UTF-8"];
    lockgate.logged(&line).await;
    for kind in ["Ingress", "Secret"] {
        wait_until("an Event", async || {
            let args = ["get", "events.v1.events.k8s.io", "--namespace=attacker", "--output=json"];
            let list: Value = serde_json::from_str(&server.kubectl(&args, "").await).expect("JSON");
            let events = list["items"].as_array().cloned().unwrap_or_default();
            events.iter().any(|event| {
                event["regarding"]["kind"] == kind && event["reason"] == "InvalidEncoding" && event["type"] == "Warning"
            })
        })
        .await;
    }
    // The rest of the attacker's object is served.
    let good = Target::http(lockgate.http, "attacker.test");
    wait_until("the path beside", async || good.get("/good").await.is_ok_and(|answer| answer.status == 503)).await;
    assert_eq!(good.get("/").await.expect("an answer").status, 404);

    // Another invalid version, repeatedly.
    for edition in ["2", "3", "4"] {
        write(&server, Method::PUT, &format!("{INGRESSES}/broken"), broken_ingress("broken", edition)).await;
        write(&server, Method::PUT, &format!("{SECRETS}/broken"), broken_secret("broken", edition)).await;
    }
    victim.assert_served(&lockgate, "updated").await;

    // A new process finds both objects in its initial lists.
    lockgate.kill();
    lockgate.restart();
    lockgate.wait_ready().await;
    victim.assert_served(&lockgate, "restarted").await;
    assert_eq!(problems(&lockgate).await, expected());

    // One object is deleted, and one is corrected.
    write(&server, Method::POST, INGRESSES, broken_ingress("mended", "1")).await;
    wait_until("the third problem", async || problems(&lockgate).await.len() == 3).await;
    let mended = broken_ingress("mended", "1").into_iter().map(|byte| if byte >= 0xfe { b'a' } else { byte }).collect();
    write(&server, Method::PUT, &format!("{INGRESSES}/mended"), mended).await;
    for kind in ["ingress", "secret"] {
        server.kubectl(&["delete", kind, "broken", "--namespace=attacker"], "").await;
    }
    victim.assert_served(&lockgate, "deleted").await;
    wait_until("no problems", async || problems(&lockgate).await.is_empty()).await;
    let objects = lockgate.get("/debug/objects").await.text();
    assert!(!objects.contains("attacker/broken") && objects.contains("attacker/mended"), "{objects}");
    assert_eq!(lockgate.metric("lockgate_source_faults_total", &[]).await, 0.0);
}

/// The kind, `apiVersion`, and path of the collection.
const KINDS: [(&str, &str, &str); 6] = [
    ("Ingress", "networking.k8s.io/v1", INGRESSES),
    ("IngressClass", "networking.k8s.io/v1", "/apis/networking.k8s.io/v1/ingressclasses"),
    ("Service", "v1", "/api/v1/namespaces/attacker/services"),
    ("EndpointSlice", "discovery.k8s.io/v1", "/apis/discovery.k8s.io/v1/namespaces/attacker/endpointslices"),
    ("Secret", "v1", SECRETS),
    ("Namespace", "v1", "/api/v1/namespaces"),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_goes_on_and_shows_when_it_last_did() {
    let server = ApiServer::start().await;
    server.apply(ATTACKER).await;
    let mut lockgate = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &[]).await;
    for (kind, api_version, path) in KINDS {
        write(&server, Method::POST, path, annotated(kind, api_version, "broken")).await;
    }
    let mut expected: Vec<_> = KINDS
        .iter()
        .map(|(kind, ..)| {
            let namespace = if matches!(*kind, "IngressClass" | "Namespace") { "" } else { "attacker" };
            (format!("{kind} {namespace}/broken"), "metadata.annotations[\"lockgate.dev/text\"]".to_owned())
        })
        .collect();
    expected.sort();
    let told = async |lockgate: &Lockgate| {
        let mut told = problems(lockgate).await;
        told.sort();
        told
    };
    wait_until("the problems", async || told(&lockgate).await == expected).await;
    lockgate.kill();
    lockgate.restart();
    lockgate.wait_ready().await;
    assert_eq!(told(&lockgate).await, expected);

    let now = || SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs_f64();
    let last = async |lockgate: &Lockgate, kind: &str| {
        let label = format!("kind=\"{kind}\"");
        lockgate.metric("lockgate_source_last_success_timestamp_seconds", &[&label]).await
    };
    for (kind, api_version, path) in KINDS {
        let before = last(&lockgate, kind).await;
        assert!((0.0..60.0).contains(&(now() - before)), "{kind}: {before}");
        // The next second begins.
        wait_until("the next second", async || now() - before > 1.5).await;
        write(&server, Method::POST, path, annotated(kind, api_version, "again")).await;
        wait_until(&format!("news of {kind}"), async || last(&lockgate, kind).await > before).await;
    }
    wait_until("all problems", async || problems(&lockgate).await.len() == 2 * KINDS.len()).await;
    for (_, _, path) in KINDS.iter().filter(|(kind, ..)| *kind != "Namespace") {
        write(&server, Method::DELETE, &format!("{path}/broken"), Vec::new()).await;
    }
    wait_until("the deletions", async || problems(&lockgate).await.len() == KINDS.len() + 1).await;
}
