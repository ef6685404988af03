//! The scenarios of the conformance suite for Ingress v1 (Kubernetes SIG Network, 2021), restated. Each has a namespace of its
//! own; the Ingress is made once its backends have endpoints, and from the moment when its status has an address, every request
//! is sent once, and must be answered right.
//!
//! They run alone: a default backend answers for every host that no Ingress names, those of other specs included.

use std::collections::BTreeSet;
use std::net::IpAddr;

use bytes::Bytes;
use e2e::lab::echo::Echoed;
use e2e::lab::{Namespace, echo};
use e2e::{Authority, Lab, Target};
use hyper::{Method, Version};

/// What the requests call themselves, to see whether it arrives.
const AGENT: &str = "ingress-conformance/1";

/// An Ingress that is served, as its status says.
struct Site<'a> {
    space: Namespace<'a>,
    address: IpAddr,
    requests: u32,
    faults: Vec<String>,
}

impl<'a> Site<'a> {
    /// Backends, then the Ingress with this spec (two spaces are put before each line).
    async fn open(lab: &'a Lab, space: Namespace<'a>, services: &[(&str, u32)], spec: &str) -> Self {
        lab.lockgate().await;
        let backends: String = services.iter().map(|(name, count)| echo(name).replicas(*count).yaml()).collect();
        space.apply(&backends).await;
        for (name, count) in services {
            space.endpoints(name, *count as usize).await;
        }
        space.apply(&ingress("conformance", "lockgate", spec)).await;
        let address = space.ingress_address("conformance").await;
        Self { space, address, requests: 0, faults: vec![] }
    }

    fn http(&self, host: &str) -> Target {
        Target::http(80, host).at(self.address).field("user-agent", AGENT)
    }

    /// One request, answered with this status, and if that is 200, by this Service.
    async fn expect(&mut self, target: &Target, what: &str, path: &str, expected: Option<&str>) {
        self.requests += 1;
        let found = match target.get(path).await {
            Ok(answer) if answer.status == 200 => Ok(Echoed::of(&answer).map(|echoed| echoed.service)),
            Ok(answer) if answer.status == 404 => Ok(None),
            Ok(answer) => Err(format!("status {}", answer.status)),
            Err(error) => Err(error.to_string()),
        };
        if found != Ok(expected.map(ToOwned::to_owned)) {
            self.faults.push(format!("{what}{path}: {found:?}, not {expected:?}"));
        }
    }

    /// The verdict; and the Ingress is taken away, for others shall find nothing of it.
    async fn close(self, group: &str) {
        println!("{group}: {} requests, {} not as they should be", self.requests, self.faults.len());
        assert!(self.faults.is_empty(), "{}", self.faults.join("\n"));
        self.space.kubectl(&["delete", "ingress", "conformance"], "").await;
        let nobody = self.http("nobody.test");
        let gone = async || nobody.get("/").await.is_ok_and(|answer| answer.status == 404).then_some(());
        self.space.lab().until("404 for a host that no Ingress names", gone).await;
    }
}

fn ingress(name: &str, class: &str, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name} }}\nspec:\n  ingressClassName: {class}\n{spec}"
    )
}

/// `paths` of a rule: path, type and Service.
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
    let spec = "defaultBackend: { service: { name: echo-service, port: { number: 8080 } } }";
    let mut site = Site::open(&lab, lab.namespace("default-backend").await, &[("echo-service", 1)], spec).await;
    for (method, host, path) in [
        (Method::GET, "my-host", "/"),
        (Method::GET, "my-host", "/sub-path"),
        (Method::POST, "some-host", "/"),
        (Method::PUT, "", "/resource"),
        (Method::DELETE, "some-host", "/resource"),
        (Method::PATCH, "my-host", "/resource"),
    ] {
        site.requests += 1;
        let what = format!("{method} {host}{path}");
        let answer = match site.http(host).send(method.clone(), path, Bytes::new()).await {
            Ok(answer) => answer,
            Err(error) => {
                site.faults.push(format!("{what}: {error}"));
                continue;
            }
        };
        let mut hold = |holds: bool, fact: &str| {
            if !holds {
                site.faults.push(format!("{what}: {fact}: {answer:?}"));
            }
        };
        hold(answer.status == 200 && answer.version == Version::HTTP_11, "200 over HTTP/1.1");
        for field in ["content-length", "content-type", "date", "server"] {
            hold(!answer.header(field).is_empty(), field);
        }
        let Some(echoed) = Echoed::of(&answer) else {
            hold(false, "an answer of the backend");
            continue;
        };
        hold(echoed.service == "echo-service", "the Service");
        hold(echoed.method == method.as_str(), "the method");
        hold(echoed.path == path, "the path");
        hold(echoed.proto == "HTTP/1.1", "the protocol");
        hold(echoed.headers["User-Agent"][0] == AGENT, "User-Agent");
    }
    site.close("default backend").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn host_rules() {
    let lab = Lab::alone().await;
    let authority = Authority::new();
    let space = lab.namespace("host-rules").await;
    space.apply(&authority.issue(&["foo.bar.com"]).secret(&space.name, "conformance-tls")).await;
    let spec = format!(
        "tls: [{{ hosts: [foo.bar.com], secretName: conformance-tls }}]\nrules:\n{}\
         - host: foo.bar.com\n  http:\n    paths:\n    - {{ path: /, pathType: Prefix, backend: {{ service: {{ name: foo-bar-com, \
         port: {{ name: http }} }} }} }}\n",
        rule("\"*.foo.com\"", &[("/", "Prefix", "wildcard-foo-com")])
    );
    let mut site = Site::open(&lab, space, &[("wildcard-foo-com", 1), ("foo-bar-com", 1)], &spec).await;
    let https = Target::https(443, "foo.bar.com", authority.der()).at(site.address);
    site.expect(&https, "https://foo.bar.com", "/", Some("foo-bar-com")).await;
    for (host, service) in [
        ("foo.bar.com", Some("foo-bar-com")),
        ("subdomain.bar.com", None),
        ("bar.foo.com", Some("wildcard-foo-com")),
        ("baz.bar.foo.com", None),
        ("foo.com", None),
    ] {
        site.expect(&site.http(host), &format!("http://{host}"), "/", service).await;
    }
    site.close("host rules").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn path_rules() {
    let lab = Lab::alone().await;
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
    let space = lab.namespace("path-rules").await;
    let mut site =
        Site::open(&lab, space, &services.map(|name| (name, 1)), &format!("rules:\n{}", rules.concat())).await;
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
    site.close("path rules").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn ingress_class() {
    let lab = Lab::alone().await;
    let space = lab.namespace("ingress-class").await;
    let backend = "defaultBackend: { service: { name: echo-service, port: { number: 8080 } } }";
    space.apply(&ingress("nobodys", "some-invalid-class-name", backend)).await;
    // Once one of ours that was made later has its address, the other would have had its own.
    let site = Site::open(&lab, space, &[("echo-service", 1)], backend).await;
    let status = site.space.ingress("nobodys").await["status"]["loadBalancer"].clone();
    assert_eq!(status, serde_json::json!({}), "an Ingress of a class that nobody serves");
    site.close("ingress class").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn load_balancing() {
    let lab = Lab::alone().await;
    let spec = "defaultBackend: { service: { name: echo-service, port: { number: 8080 } } }";
    let mut site = Site::open(&lab, lab.namespace("load-balancing").await, &[("echo-service", 10)], spec).await;
    let mut pods = BTreeSet::new();
    for _ in 0..100 {
        site.requests += 1;
        match site.http("my-host").get("/").await {
            Ok(answer) if answer.status == 200 => pods.extend(Echoed::of(&answer).map(|echoed| echoed.pod)),
            other => site.faults.push(format!("{other:?}")),
        }
    }
    assert_eq!(pods.len(), 10, "pods that 100 requests have reached: {pods:?}");
    site.close("load balancing").await;
}
