//! A reimplementation of the scenarios of the conformance suite for Ingress v1 (Kubernetes SIG Network, 2021). `make
//! ingress-conformance` runs the suite itself.
//!
//! Each example has its own namespace. The Ingress is created when its backends have endpoints. As soon as its status
//! has an address, every request is sent once and must be answered correctly.
//!
//! As in the suite, the namespace is deleted after the example without waiting, and the next example uses the same
//! hosts. A finalizer keeps the namespace. Therefore, the older Ingress without pods still exists in every run, not
//! only in most.
//!
//! These specs run alone, because a default backend serves every unknown host, including the hosts of other specs.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::process::Command;

use bytes::Bytes;
use e2e::lab::echo::Echoed;
use e2e::lab::program;
use e2e::lab::{Namespace, echo};
use e2e::{Authority, Lab, Target};
use hyper::{Method, Version};

/// The `User-Agent` of the requests, to check that it reaches the backend.
const AGENT: &str = "ingress-conformance/1";

/// An Ingress with an address in its status.
struct Site<'a> {
    space: Namespace<'a>,
    address: IpAddr,
    requests: u32,
    faults: Vec<String>,
}

impl<'a> Site<'a> {
    /// Creates the backends, then an Ingress with this spec, which is indented by two spaces.
    async fn open(lab: &'a Lab, space: Namespace<'a>, services: &[(&str, u32)], spec: &str) -> Self {
        lab.lockgate().await;
        let backends: String = services.iter().map(|(name, count)| echo(name).replicas(*count).yaml()).collect();
        space.apply(&backends).await;
        for (name, count) in services {
            space.endpoints(name, *count as usize).await;
        }
        space.apply(HELD_POD).await;
        space.apply(&ingress("conformance", "lockgate", spec)).await;
        let address = space.ingress_address("conformance").await;
        Self { space, address, requests: 0, faults: vec![] }
    }

    fn http(&self, host: &str) -> Target {
        Target::http(80, host).at(self.address).field("user-agent", AGENT)
    }

    /// Sends a request. The expected answer has status 200 and comes from this Service in the namespace of the example.
    /// `None`: see `what`.
    async fn expect(&mut self, target: &Target, what: &str, path: &str, expected: Option<&str>) {
        self.requests += 1;
        let found = match target.get(path).await {
            Ok(answer) if answer.status == 200 => {
                Ok(Echoed::of(&answer).map(|echoed| (echoed.namespace, echoed.service)))
            }
            Ok(answer) if answer.status == 404 => Ok(None),
            Ok(answer) => Err(format!("status {}", answer.status)),
            Err(error) => Err(error.to_string()),
        };
        let expected = expected.map(|service| (self.space.name.clone(), service.to_owned()));
        if found.as_ref() != Ok(&expected) {
            self.faults.push(format!("{what}{path}: {found:?}, not {expected:?}"));
        }
    }

    /// Sends a request to the default backend. The backend must receive it unchanged.
    async fn send(&mut self, method: &Method, host: &str, path: &str) {
        self.requests += 1;
        let answer = match self.http(host).send(method.clone(), path, Bytes::new()).await {
            Ok(answer) => answer,
            Err(error) => return self.faults.push(error.to_string()),
        };
        let mut hold = |holds: bool, fact: &str| {
            if !holds {
                self.faults.push(format!("{fact}: {answer:?}"));
            }
        };
        hold(answer.status == 200 && answer.version == Version::HTTP_11, "200 over HTTP/1.1");
        for field in ["content-length", "content-type", "date", "server"] {
            hold(!answer.header(field).is_empty(), field);
        }
        let Some(echoed) = Echoed::of(&answer) else { return hold(false, "an answer of the backend") };
        hold(echoed.namespace == self.space.name, "the namespace");
        hold(echoed.service == "echo-service", "the Service");
        hold(echoed.method == method.as_str(), "the method");
        hold(echoed.path == path, "the path");
        hold(echoed.proto == "HTTP/1.1", "the protocol");
        hold(echoed.headers["User-Agent"][0] == AGENT, "User-Agent");
    }

    /// Deletes the namespace, waits only for its pods, and checks the results. `terminating` keeps the namespace.
    async fn finish(self, example: &str, terminating: &mut TerminatingNamespaces) {
        let Self { space, address, requests, faults } = self;
        println!("{example}: {requests} requests, {} not as they should be", faults.len());
        terminating.0.push((space.name.clone(), address));
        assert!(faults.is_empty(), "{}", faults.join("\n"));
        space.kubectl(&["delete", "namespace", &space.name, "--wait=false"], "").await;
        let lab = space.lab();
        // The API server removes other objects of the namespace only after its pods. One pod stays.
        let pods = async || lab.pods(&space.name, "").await.iter().all(|pod| pod.name == "held").then_some(());
        lab.until("the pods to end", pods).await;
    }
}

/// A pod that no node accepts. Its finalizer keeps its namespace and all other objects in it.
const HELD_POD: &str = "apiVersion: v1\nkind: Pod\nmetadata: { name: held, finalizers: [example.com/held] }\n\
    spec: { nodeSelector: { example.com/nowhere: here }, containers: [{ name: none, image: none }] }\n";

/// The namespaces that are being terminated. Dropping this value removes their finalizers.
#[derive(Default)]
struct TerminatingNamespaces(Vec<(String, IpAddr)>);

impl TerminatingNamespaces {
    /// Removes the finalizers, and waits until nothing of the namespaces is served. Other specs must not be affected.
    async fn end(mut self, lab: &Lab) {
        self.release();
        let Some((_, address)) = self.0.pop() else { return };
        let nobody = Target::http(80, "nobody.test").at(address);
        let gone = async || nobody.get("/").await.is_ok_and(|answer| answer.status == 404).then_some(());
        lab.until("404 for a host that no Ingress names", gone).await;
    }

    fn release(&self) {
        for (namespace, _) in &self.0 {
            let patch = "{\"metadata\":{\"finalizers\":null}}";
            let args = ["--namespace", namespace, "patch", "pod", "held", "--type=merge", "--patch", patch];
            let _ = Command::new(program("kubectl")).args(args).output();
        }
    }
}

impl Drop for TerminatingNamespaces {
    fn drop(&mut self) {
        self.release();
    }
}

fn ingress(name: &str, class: &str, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name} }}\nspec:\n  ingressClassName: {class}\n{spec}"
    )
}

/// Formats a rule with `paths`: path, type, and Service.
fn rule(host: &str, paths: &[(&str, &str, &str)]) -> String {
    let paths: String = paths
        .iter()
        .map(|(path, kind, service)| {
            format!(
                "    - {{ path: {path}, pathType: {kind}, backend: {{ service: {{ name: {service}, port: {{ number: 8080 }} }} }} }}\n"
            )
        })
        .collect();
    format!("- host: {host}\n  http:\n    paths:\n{paths}")
}

#[tokio::test(flavor = "multi_thread")]
async fn default_backend() {
    let lab = Lab::alone().await;
    let mut terminating = TerminatingNamespaces::default();
    for (method, host, path) in [
        (Method::GET, "my-host", "/"),
        (Method::GET, "my-host", "/sub-path"),
        (Method::POST, "some-host", "/"),
        (Method::PUT, "", "/resource"),
        (Method::DELETE, "some-host", "/resource"),
        (Method::PATCH, "my-host", "/resource"),
    ] {
        let space = lab.namespace("default-backend").await;
        let mut site = Site::open(&lab, space, &[("echo-service", 1)], DEFAULT_BACKEND).await;
        let what = format!("{method} {host}{path}");
        site.send(&method, host, path).await;
        site.finish(&format!("default backend: {what}"), &mut terminating).await;
    }
    terminating.end(&lab).await;
}

const DEFAULT_BACKEND: &str = "defaultBackend: { service: { name: echo-service, port: { number: 8080 } } }";

#[tokio::test(flavor = "multi_thread")]
async fn host_rules() {
    let lab = Lab::alone().await;
    let mut terminating = TerminatingNamespaces::default();
    let spec = format!(
        "tls: [{{ hosts: [foo.bar.com], secretName: conformance-tls }}]\nrules:\n{}\
         - host: foo.bar.com\n  http:\n    paths:\n    - {{ path: /, pathType: Prefix, backend: {{ service: {{ name: foo-bar-com, \
         port: {{ name: http }} }} }} }}\n",
        rule("\"*.foo.com\"", &[("/", "Prefix", "wildcard-foo-com")])
    );
    for round in 1..=2 {
        let authority = Authority::new();
        let space = lab.namespace("host-rules").await;
        space.apply(&authority.issue(&["foo.bar.com"]).secret(&space.name, "conformance-tls")).await;
        let mut site = Site::open(&lab, space, &[("wildcard-foo-com", 1), ("foo-bar-com", 1)], &spec).await;
        let https = Target::https(443, "foo.bar.com", authority.der()).at(site.address);
        site.expect(&https, "https://foo.bar.com", "/", Some("foo-bar-com")).await;
        // The official suite follows redirects, to the same address.
        let redirect = site.http("foo.bar.com").get("/").await.expect("an answer");
        assert_eq!((redirect.status, redirect.header("location")), (308, "https://foo.bar.com/"));
        for (host, service) in [
            ("subdomain.bar.com", None),
            ("bar.foo.com", Some("wildcard-foo-com")),
            ("baz.bar.foo.com", None),
            ("foo.com", None),
        ] {
            site.expect(&site.http(host), &format!("http://{host}"), "/", service).await;
        }
        site.finish(&format!("host rules, round {round}"), &mut terminating).await;
    }
    terminating.end(&lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn path_rules() {
    let lab = Lab::alone().await;
    let mut terminating = TerminatingNamespaces::default();
    let rules = [
        rule("exact-path-rules", &[("/foo", "Exact", "foo-exact")]),
        rule(
            "prefix-path-rules",
            &[
                ("/foo", "Prefix", "foo-prefix"),
                ("/aaa/bbb", "Prefix", "aaa-slash-bbb-prefix"),
                ("/aaa", "Prefix", "aaa-prefix"),
            ],
        ),
        rule("mixed-path-rules", &[("/foo", "Prefix", "foo-prefix"), ("/foo", "Exact", "foo-exact")]),
        rule(
            "trailing-slash-path-rules",
            &[("/aaa/bbb/", "Prefix", "aaa-slash-bbb-slash-prefix"), ("/foo/", "Exact", "foo-slash-exact")],
        ),
    ];
    let services = [
        "foo-exact",
        "foo-prefix",
        "aaa-slash-bbb-prefix",
        "aaa-prefix",
        "aaa-slash-bbb-slash-prefix",
        "foo-slash-exact",
    ];
    let spec = format!("rules:\n{}", rules.concat());
    for round in 1..=2 {
        let space = lab.namespace("path-rules").await;
        let mut site = Site::open(&lab, space, &services.map(|name| (name, 1)), &spec).await;
        for (host, path, service) in [
            ("exact", "/foo", Some("foo-exact")),
            ("exact", "/foo/", None),
            ("exact", "/FOO", None),
            ("exact", "/bar", None),
            ("prefix", "/foo", Some("foo-prefix")),
            ("prefix", "/foo/", Some("foo-prefix")),
            ("prefix", "/FOO", None),
            ("prefix", "/aaa/bbb", Some("aaa-slash-bbb-prefix")),
            ("prefix", "/aaa/bbb/ccc", Some("aaa-slash-bbb-prefix")),
            ("prefix", "/aaa/ccc", Some("aaa-prefix")),
            ("prefix", "/aaaccc", None),
            ("mixed", "/foo", Some("foo-exact")),
            ("trailing-slash", "/aaa/bbb", Some("aaa-slash-bbb-slash-prefix")),
            ("trailing-slash", "/aaa/bbb/", Some("aaa-slash-bbb-slash-prefix")),
            ("trailing-slash", "/foo/", Some("foo-slash-exact")),
            ("trailing-slash", "/foo", None),
        ] {
            let host = format!("{host}-path-rules");
            site.expect(&site.http(&host), &format!("http://{host}"), path, service).await;
        }
        site.finish(&format!("path rules, round {round}"), &mut terminating).await;
    }
    terminating.end(&lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ingress_class() {
    let lab = Lab::alone().await;
    let mut terminating = TerminatingNamespaces::default();
    let space = lab.namespace("ingress-class").await;
    space.apply(&ingress("nobodys", "some-invalid-class-name", DEFAULT_BACKEND)).await;
    // A later Ingress of our class already has its address, so the other one would have one too.
    let site = Site::open(&lab, space, &[("echo-service", 1)], DEFAULT_BACKEND).await;
    let status = site.space.ingress("nobodys").await["status"]["loadBalancer"].clone();
    assert_eq!(status, serde_json::json!({}), "an Ingress of a class that nobody serves");
    site.finish("ingress class", &mut terminating).await;
    terminating.end(&lab).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn load_balancing() {
    let lab = Lab::alone().await;
    let mut terminating = TerminatingNamespaces::default();
    for replicas in [1, 10] {
        let space = lab.namespace("load-balancing").await;
        let mut site = Site::open(&lab, space, &[("echo-service", replicas)], DEFAULT_BACKEND).await;
        let mut pods = BTreeSet::new();
        for _ in 0..100 {
            site.requests += 1;
            match site.http("my-host").get("/").await {
                Ok(answer) if answer.status == 200 => pods.extend(Echoed::of(&answer).map(|echoed| echoed.pod)),
                other => site.faults.push(format!("{other:?}")),
            }
        }
        let reached = pods.len() == replicas as usize;
        if !reached {
            site.faults.push(format!("{replicas} pods expected, and 100 requests have reached {pods:?}"));
        }
        site.finish(&format!("load balancing over {replicas}"), &mut terminating).await;
    }
    terminating.end(&lab).await;
}
