//! An older Ingress that is being deleted, or whose namespace is, does not reserve its hosts.
//!
//! As in the attack, the older Ingress has no backends any more and answers 503. The newer one answers 308.

use e2e::manifests::{documents, ingress, ingress_class};
use std::time::Duration;

use e2e::wait::{PATIENCE, wait_at_most};
use e2e::{ApiServer, Envoy, Lockgate, Mode, Source, Target, wait_until};
use serde_json::Value;

/// The time for which a claim keeps a host without a rule of its namespace.
const GRACE: Duration = Duration::from_secs(60);
const ADDRESS: &str = "192.0.2.10";
const OLD: u16 = 503;
const NEW: u16 = 308;

/// Formats an Ingress of the namespace `name` with a default backend for all hosts.
fn default_backend(namespace: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: rest, namespace: {namespace} }}\n\
         spec: {{ defaultBackend: {{ service: {{ name: none, port: {{ name: http }} }} }} }}\n"
    )
}

/// Formats an Ingress of a namespace for `shop.test`, with additional metadata in YAML's flow style.
fn shop(namespace: &str, metadata: &str) -> String {
    let ingress = ingress("shop", "shop.test", "none", None);
    ingress.replace("namespace: default }", &format!("namespace: {namespace}, {metadata} }}"))
}

/// The annotation that makes an Ingress answer 308 without a backend.
const REDIRECT: &str = "annotations: { ingress.kubernetes.io/force-ssl-redirect: \"true\" }";

/// A cluster with older objects in the namespace `first`, which are served.
struct Site {
    server: ApiServer,
    lockgate: Lockgate,
    _envoy: Envoy,
}

impl Site {
    async fn open(old: &str) -> Self {
        let server = ApiServer::start().await;
        server.kubectl(&["create", "namespace", "first"], "").await;
        server.kubectl(&["create", "namespace", "second"], "").await;
        server.apply(&documents(&[ingress_class(), old.to_owned()])).await;
        let flags = ["--leader-election", "on", "--status-address", ADDRESS];
        let lockgate = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("admin")), &flags).await;
        let envoy = Envoy::start(&lockgate, Mode::Delta).await;
        let site = Self { server, lockgate, _envoy: envoy };
        site.until_answered("shop.test", OLD).await;
        site.until_address("first", "shop", true).await;
        site
    }

    /// Waits until a host answers with this status.
    async fn until_answered(&self, host: &str, status: u16) {
        let target = Target::http(self.lockgate.http, host);
        let answered = async || target.get("/").await.is_ok_and(|answer| answer.status == status);
        wait_until(&format!("{host} to be answered {status}"), answered).await;
    }

    /// Waits until a host is answered with this status, after the claim of its namespace has ended.
    async fn until_claim_ends(&self, host: &str, status: u16) {
        let target = Target::http(self.lockgate.http, host);
        let answered = async || target.get("/").await.is_ok_and(|answer| answer.status == status).then_some(());
        let (limit, interval) = (GRACE + PATIENCE, Duration::from_millis(100));
        let ((), time) = wait_at_most(limit, interval, &format!("{host} to be answered {status}"), answered).await;
        println!("{host} changed its owner after {} s", time.as_secs());
        assert!(time > GRACE - Duration::from_secs(5), "{time:?}");
    }

    /// Returns whether our address is in the status of an Ingress.
    async fn has_address(&self, namespace: &str, name: &str) -> bool {
        let get = ["get", "ingress", name, "--namespace", namespace, "--output", "json"];
        let object: Value = serde_json::from_str(&self.server.kubectl(&get, "").await).expect("JSON of kubectl");
        object["status"]["loadBalancer"]["ingress"][0]["ip"] == ADDRESS
    }

    /// Waits until an Ingress has our address, or no longer has it.
    async fn until_address(&self, namespace: &str, name: &str, expected: bool) {
        let what = format!("an address in the status of {namespace}/{name}: {expected}");
        wait_until(&what, async || self.has_address(namespace, name).await == expected).await;
    }

    /// Applies a newer object that loses the conflict and therefore has no address.
    async fn assert_loses(&self, name: &str, newer: &str, host: &str) {
        self.server.apply(newer).await;
        let lost = ["Conflicted", "second", name];
        self.lockgate.logged(&lost).await;
        // A later object that is served already has its address.
        self.server.apply(&ingress("later", &format!("later-{name}.test"), "none", None)).await;
        self.until_address("default", "later", true).await;
        self.server.kubectl(&["delete", "ingress", "later"], "").await;
        self.until_answered(host, OLD).await;
        assert!(!self.has_address("second", name).await, "an address, and nothing of {name} is served");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_ingress_that_a_finalizer_holds_loses_to_a_newer_one() {
    let site = Site::open(&shop("first", "finalizers: [example.com/held]")).await;
    site.assert_loses("shop", &shop("second", REDIRECT), "shop.test").await;
    site.server.kubectl(&["delete", "ingress", "shop", "--namespace", "first", "--wait=false"], "").await;
    site.until_claim_ends("shop.test", NEW).await;
    site.until_address("second", "shop", true).await;
    // The object still exists, and its status no longer has the address.
    site.until_address("first", "shop", false).await;
    // Without a competitor, it is served until it is deleted.
    site.server.kubectl(&["delete", "ingress", "shop", "--namespace", "second"], "").await;
    // The host is released, instead of another minute.
    site.server.kubectl(&["delete", "configmaps", "--selector", "lockgate.dev/claims"], "").await;
    site.until_answered("shop.test", OLD).await;
    site.until_address("first", "shop", true).await;
    let free = ["patch", "ingress", "shop", "--namespace", "first", "--type=merge", "-p"];
    site.server.kubectl(&[&free[..], &["{\"metadata\":{\"finalizers\":null}}"]].concat(), "").await;
    site.until_answered("shop.test", 404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_older_ingress_in_a_terminating_namespace_loses_to_a_newer_one() {
    let site = Site::open(&documents(&[shop("first", ""), default_backend("first")])).await;
    site.until_answered("other.test", OLD).await;
    site.assert_loses("shop", &shop("second", REDIRECT), "shop.test").await;
    let redirect = format!("namespace: second, {REDIRECT} }}");
    let rest = default_backend("second").replace("namespace: second }", &redirect);
    site.assert_loses("rest", &rest, "other.test").await;
    // The test has no controller manager, so the namespace and its objects stay.
    site.server.kubectl(&["delete", "namespace", "first", "--wait=false"], "").await;
    for (name, host) in [("shop", "shop.test"), ("rest", "other.test")] {
        site.until_answered(host, NEW).await;
        site.until_address("second", name, true).await;
        site.until_address("first", name, false).await;
    }
    // Events cannot be created in that namespace, and the controller does not try.
    let log = site.lockgate.log();
    assert!(!log.contains("cannot write an Event"), "{log}");
}
