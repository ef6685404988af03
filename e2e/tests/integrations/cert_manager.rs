//! Certificates of cert-manager with HTTP-01 challenges through Envoy, by the manifests of the page.

use std::net::IpAddr;

use e2e::lab::{Namespace, echo};
use e2e::load::Plan;
use e2e::{Authority, Lab, Load, Target, wait_everywhere};
use rustls::pki_types::CertificateDer;
use serde_json::Value;

use super::acme::Acme;
use super::{Page, lockgate};

const PAGE: &str = "docs/tasks/cert-manager.md";
const HOST: &str = "shop.example.com";
const OTHER: &str = "other.example.com";

/// Returns the certificate that a new connection gets.
async fn served(target: &Target) -> Option<CertificateDer<'static>> {
    target.connect().await.ok()?.certificate
}

/// Waits until all new connections get a certificate other than `before`. Returns it.
async fn replaced(lab: &Lab, target: &Target, before: Option<&CertificateDer<'static>>) -> CertificateDer<'static> {
    let new = async || served(target).await.filter(|found| Some(found) != before);
    let (certificate, time) = lab.until("a new certificate", new).await;
    println!("a new certificate after {:.1} s", time.as_secs_f64());
    wait_everywhere("the new certificate", async || served(target).await.as_ref() == Some(&certificate)).await;
    certificate
}

/// Waits until requests have this status, with a new connection each.
async fn answers(target: &Target, path: &str, status: u16) {
    let same = async || target.get(path).await.is_ok_and(|answer| answer.status == status);
    wait_everywhere(&format!("{path} with {status}"), same).await;
}

/// Waits until a Certificate is ready.
async fn ready(space: &Namespace<'_>, name: &str) {
    space.kubectl(&["wait", "--for=condition=Ready", "--timeout=120s", &format!("certificate/{name}")], "").await;
}

/// Starts a load on a host. Each connection sends ten requests.
async fn load(target: &Target) -> Load {
    let plan = Plan { rate: 200, connections: 10, renew_after: Some(10), ..Plan::new(target.clone(), "/") };
    Load::start(plan).await
}

/// Waits until the path of a challenge is served in plain text. Its object has the labels of a solver, and its path is at `pointer`.
async fn solved(lab: &Lab, objects: &str, pointer: &str, target: &Target) {
    let selected = format!("{objects}?labelSelector=acme.cert-manager.io%2Fhttp01-solver%3Dtrue");
    let answered = async || {
        let solver = lab.list(&selected).await.pop()?;
        let path = solver.pointer(pointer)?.as_str()?.to_owned();
        target.get(&path).await.ok().filter(|answer| answer.status == 200).map(|answer| (path, answer))
    };
    let ((path, answer), _) = lab.until("an answer of a solver", answered).await;
    let token = path.rsplit('/').next().unwrap_or_default();
    assert!(answer.text().starts_with(token), "{path}: {}", answer.text());
}

async fn assert_no_failure(what: &str, load: Load) {
    let report = load.stop().await;
    println!("{what}: {report}");
    assert_eq!(report.failed(), 0, "{what}: {report}");
}

/// The number of challenges in a namespace. cert-manager may order a certificate twice if its Secret disappears.
struct Verified<'a> {
    namespace: &'a str,
    count: usize,
}

impl<'a> Verified<'a> {
    fn new(space: &'a Namespace<'_>) -> Self {
        Self { namespace: &space.name, count: 0 }
    }

    /// Asserts that there are more challenges than before.
    fn more(&mut self, acme: &Acme<'_>) {
        let before = std::mem::replace(&mut self.count, acme.challenges(self.namespace));
        assert!(self.count > before, "{before} challenges");
    }
}

/// A policy that denies access from all addresses of the lab.
fn denying(targets: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: closed }}\nspec:\n  targetRefs: [{targets}]\n  \
         clientAddresses: {{ allow: [192.0.2.1] }}\n"
    )
}

/// An Ingress with a certificate that does not come from cert-manager.
async fn other_host(space: &Namespace<'_>, address: IpAddr) -> Target {
    let authority = Authority::new();
    let secret = authority.issue(&[OTHER]).secret(&space.name, "other-tls");
    let ingress = format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: other }}\nspec:\n  ingressClassName: lockgate\n  \
         tls: [{{ hosts: [{OTHER}], secretName: other-tls }}]\n  rules:\n  - host: {OTHER}\n    http:\n      paths:\n      \
         - {{ path: /, pathType: Prefix, backend: {{ service: {{ name: web, port: {{ number: 80 }} }} }} }}\n"
    );
    space.apply(&format!("{secret}---\n{ingress}")).await;
    let target = Target::https(443, OTHER, authority.der()).at(address);
    answers(&target, "/", 200).await;
    target
}

#[tokio::test(flavor = "multi_thread")]
async fn the_host_of_an_ingress_gets_its_certificate() {
    let lab = Lab::alone().await;
    let lockgate = lockgate(&lab).await;
    let page = Page::read(PAGE);
    let acme = Acme::install(&lab, &page).await;
    acme.resolve(HOST, lockgate.address).await;
    acme.issuer(&page.block("name: letsencrypt\n")).await;
    let space = lab.namespace("shop").await;
    space.apply(&echo("web").port(80).yaml()).await;
    space.endpoints("web", 1).await;
    let ingresses = format!("/apis/networking.k8s.io/v1/namespaces/{}/ingresses", space.name);
    let (secure, plain) = (lockgate.https(HOST, acme.root().await), lockgate.http(HOST));
    let mut verified = Verified::new(&space);
    let other = other_host(&space, lockgate.address).await;
    let others = load(&other).await;

    space.apply(&page.block("kind: Ingress\n")).await;
    let first = replaced(&lab, &secure, None).await;
    ready(&space, "shop-tls").await;
    answers(&secure, "/", 200).await;
    answers(&plain, "/", 308).await;
    verified.more(&acme);
    let events = lab.list(&format!("/api/v1/namespaces/{}/events", space.name)).await;
    let is_missing = |event: &&Value| event["reason"] == "SecretNotValid" && event["involvedObject"]["name"] == "shop";
    assert!(events.iter().any(|event| is_missing(&event)), "{events:#?}");

    // The redirect is in effect now. Pebble would follow it.
    let shop = load(&secure).await;
    acme.renew(&space.name, "shop-tls").await;
    solved(&lab, &ingresses, "/spec/rules/0/http/paths/0/path", &plain).await;
    let second = replaced(&lab, &secure, Some(&first)).await;
    verified.more(&acme);
    assert_no_failure("a renewal", shop).await;

    ready(&space, "shop-tls").await;
    let shop = load(&secure).await;
    space.kubectl(&["delete", "secret", "shop-tls"], "").await;
    let third = replaced(&lab, &secure, Some(&second)).await;
    verified.more(&acme);
    assert_no_failure("a deleted Secret", shop).await;

    ready(&space, "shop-tls").await;
    let targets = [
        "{ group: networking.k8s.io, kind: Ingress, name: shop }".to_owned(),
        format!("{{ group: '', kind: Namespace, name: {} }}", space.name),
    ];
    space.apply(&denying(&targets[0])).await;
    answers(&secure, "/", 403).await;
    answers(&plain, "/", 308).await;
    acme.renew(&space.name, "shop-tls").await;
    let fourth = replaced(&lab, &secure, Some(&third)).await;
    assert_no_failure("another host", others).await;

    ready(&space, "shop-tls").await;
    space.apply(&denying(&targets[1])).await;
    let solver = "/.well-known/acme-challenge/unknown";
    answers(&other, "/", 403).await;
    answers(&secure, "/", 403).await;
    acme.renew(&space.name, "shop-tls").await;
    replaced(&lab, &secure, Some(&fourth)).await;
    verified.more(&acme);
    assert!(acme.created("ingresses", &space.name) >= 5);
    // Only the paths of solvers are exempt, and they are gone.
    answers(&secure, solver, 403).await;
    let gone = async || (lab.list(&ingresses).await.len() == 2).then_some(());
    lab.until("the end of all solvers", gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_listener_of_a_gateway_gets_its_certificate() {
    let lab = Lab::alone().await;
    let lockgate = lockgate(&lab).await;
    let page = Page::read(PAGE);
    let acme = Acme::install(&lab, &page).await;
    acme.issuer(&page.block("name: letsencrypt-gateway\n")).await;
    let space = lab.namespace("gateway").await;
    space.apply(&echo("web").port(80).yaml()).await;
    space.endpoints("web", 1).await;
    let mut verified = Verified::new(&space);
    let others = load(&other_host(&space, lockgate.address).await).await;

    space.apply(&page.block("kind: Gateway\n")).await;
    let address = lab.address(&space.name, "public-lockgate").await;
    acme.resolve(HOST, address).await;
    let secure = Target::https(443, HOST, acme.root().await).at(address);
    let plain = Target::http(80, HOST).at(address);
    let first = replaced(&lab, &secure, None).await;
    ready(&space, "shop-tls").await;
    answers(&secure, "/", 200).await;
    answers(&plain, "/", 301).await;
    verified.more(&acme);

    let shop = load(&secure).await;
    acme.renew(&space.name, "shop-tls").await;
    let routes = format!("/apis/gateway.networking.k8s.io/v1/namespaces/{}/httproutes", space.name);
    solved(&lab, &routes, "/spec/rules/0/matches/0/path/value", &plain).await;
    let second = replaced(&lab, &secure, Some(&first)).await;
    ready(&space, "shop-tls").await;
    space.kubectl(&["delete", "secret", "shop-tls"], "").await;
    let third = replaced(&lab, &secure, Some(&second)).await;
    ready(&space, "shop-tls").await;
    verified.more(&acme);
    assert_no_failure("a renewal and a deleted Secret", shop).await;

    let gateway = "group: gateway.networking.k8s.io, kind: Gateway, name: public";
    let targets = [
        "{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop }".to_owned(),
        format!("{{ {gateway}, sectionName: shop }}"),
    ];
    let mut last = third;
    for target in &targets {
        space.apply(&denying(target)).await;
        answers(&secure, "/", 403).await;
        acme.renew(&space.name, "shop-tls").await;
        last = replaced(&lab, &secure, Some(&last)).await;
        ready(&space, "shop-tls").await;
    }
    assert!(acme.created("httproutes", &space.name) >= 5);
    // The policy of a Gateway applies to the routes of solvers too.
    let challenge = "/.well-known/acme-challenge/token";
    space
        .apply(&format!(
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: solver }}\nspec:\n  parentRefs: \
             [{{ name: public, sectionName: http }}]\n  hostnames: [{HOST}]\n  rules:\n  - matches: [{{ path: {{ type: Exact, \
             value: {challenge} }} }}]\n    backendRefs: [{{ name: web, port: 80 }}]\n"
        ))
        .await;
    answers(&plain, challenge, 200).await;
    space.apply(&denying(&format!("{{ {gateway} }}"))).await;
    answers(&plain, challenge, 403).await;
    assert_no_failure("another host", others).await;
}
