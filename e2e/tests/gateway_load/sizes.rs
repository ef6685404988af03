//! The worst objects of each kind within the limit of a namespace: what they cost an Envoy and the controller, and that the other
//! tenants of a Gateway are not affected.

use std::fmt::Write;
use std::time::Duration;

use e2e::manifests::{documents, service};
use e2e::wait::wait_at_most;
use e2e::{Mode, Target, ports, wait_everywhere, wait_until};
use serde_json::Value;

use super::site::{Listener, gateway};
use super::tenants::{SHARED, Tenants, tenant_route};

/// The most memory that the objects of a namespace may add to an Envoy, and to the controller.
const MOST: [u64; 2] = [512 << 20, 256 << 20];
/// The number of listeners, the limit of the API for a Gateway. Hosts of different listeners have no common configuration.
const LISTENERS: usize = 64;

/// The number of routes of a tenant. Some of them are served, more are closed, and the last ones are left out.
const ROUTES: usize = 250;

/// A kind of routes of a tenant.
struct Kind {
    name: &'static str,
    /// The number of matches of a route.
    matches: usize,
    /// The number of hosts of a route.
    hosts: usize,
    /// Whether the matches are prefixes alone.
    has_prefixes: bool,
    /// Returns a match of a route.
    of_match: fn(usize) -> String,
    /// The fields of a rule, except for its matches.
    rule: String,
    /// The fields of an HTTPPolicy for each route.
    policy: String,
}

impl Kind {
    fn new(name: &'static str, matches: usize, rule: &str) -> Self {
        let (rule, policy) = (format!("{rule}backendRefs: [{{ name: a, port: 80 }}]"), String::new());
        Self { name, matches, hosts: 1, has_prefixes: true, of_match: prefix, rule, policy }
    }

    fn with_policy(name: &'static str, matches: usize, policy: &str) -> Self {
        Self { policy: policy.to_owned(), ..Self::new(name, matches, "") }
    }

    /// Returns the routes, each with a host, in the order of precedence.
    fn objects(&self) -> String {
        let mut text = String::new();
        for at in 0..ROUTES {
            let matches: Vec<String> = (0..self.matches).map(self.of_match).collect();
            let _ = write!(
                text,
                "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: r{at:03}, namespace: bert }}\nspec:\n  \
                 parentRefs: [{{ name: one, namespace: default }}]\n  hostnames: [r{at:03}.test{}]\n  rules:\n    - matches: [{}]\n      {}\n",
                (1..self.hosts).map(|host| format!(", r{at:03}-{host}.test")).collect::<String>(),
                matches.join(", "),
                self.rule,
            );
            if !self.policy.is_empty() {
                let _ = write!(
                    text,
                    "---\napiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: r{at:03}, namespace: bert }}\nspec:\n  \
                     targetRefs: [{{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: r{at:03} }}]\n  {}\n",
                    self.policy,
                );
            }
        }
        text
    }
}

fn prefix(at: usize) -> String {
    format!("{{ path: {{ type: PathPrefix, value: /{at} }} }}")
}

/// Returns the start of a list with this number of elements.
fn list(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<_>>().join(", ")
}

/// The worst routes by feature. A route has so many matches that about ten routes fit into the limit.
fn kinds() -> Vec<Kind> {
    let headers = list(16, |at| format!("{{ name: x-{at}, value: v }}"));
    let changes =
        format!("filters: [{{ type: RequestHeaderModifier, requestHeaderModifier: {{ set: [{headers}] }} }}]\n      ");
    let origins = list(64, |at| format!("'https://*.{at}.example.com'"));
    let cors = format!("filters: [{{ type: CORS, cors: {{ allowOrigins: [{origins}] }} }}]\n      ");
    let mirrors =
        list(16, |_| "{ type: RequestMirror, requestMirror: { backendRef: { name: a, port: 80 } } }".to_owned());
    let key = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let backends = list(16, |at| format!("{{ name: a{at}, port: 80 }}"));
    let sessions = format!("sessionPersistence: {{ sessionName: s }}\n      backendRefs: [{backends}]");
    let answers = list(16, |at| format!("{{ statuses: [{}, 599], body: x }}", 400 + at));
    vec![
        Kind::new("matches", 64, ""),
        Kind { hosts: 16, ..Kind::new("hosts", 1, "") },
        Kind {
            has_prefixes: false,
            of_match: |at| {
                let headers = list(16, |header| format!("{{ name: x{header}, value: v }}"));
                format!("{{ path: {{ type: PathPrefix, value: /{at} }}, headers: [{headers}] }}")
            },
            ..Kind::new("conditions on headers", 32, "")
        },
        Kind {
            has_prefixes: false,
            of_match: |at| format!("{{ path: {{ type: RegularExpression, value: '/{at}/a{{450}}' }} }}"),
            ..Kind::new("regular expressions", 5, "")
        },
        Kind::new("changes of headers", 16, &changes),
        Kind::new("CORS", 1, &cors),
        Kind::new("mirrors", 12, &format!("filters: [{mirrors}]\n      ")),
        Kind { rule: format!("backendRefs: [{backends}]"), ..Kind::new("backends", 12, "") },
        Kind { rule: sessions, ..Kind::new("sessions", 2, "") },
        Kind::with_policy("request bodies", 16, "maxRequestBody: 1KiB"),
        Kind::with_policy("held bodies", 16, "requestBuffering: { maxSize: 1KiB }"),
        Kind::with_policy("error responses", 16, &format!("errorResponses: [{answers}]")),
        Kind::with_policy("compression", 16, "compression: { algorithms: [gzip, brotli, zstd] }"),
        Kind::with_policy("client addresses", 16, "clientAddresses: { allow: [192.0.2.0/24] }"),
        Kind::with_policy("rates", 16, "localRateLimit: { requests: 1, unit: hour, burst: 1 }"),
        Kind::with_policy(
            "tokens",
            16,
            &format!("jwt: {{ providers: [{{ issuer: i, jwks: {{ inline: '{key}' }} }}] }}"),
        ),
        Kind::with_policy(
            "authorization",
            16,
            "externalAuthorization: { backendRef: { name: a, port: 80 }, protocol: http }",
        ),
        Kind::with_policy(
            "processing",
            16,
            "externalProcessing: { backendRef: { name: a, port: 80 }, request: { body: Buffered, maxBytes: 1KiB } }",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_with_many_matches_beyond_the_limit_of_a_namespace_are_closed_alone() {
    close_alone(kinds().into_iter().take(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_with_large_rules_beyond_the_limit_of_a_namespace_are_closed_alone() {
    close_alone(kinds().into_iter().skip(5).take(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_with_large_policies_beyond_the_limit_of_a_namespace_are_closed_alone() {
    close_alone(kinds().into_iter().skip(10).take(5)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn routes_with_limits_and_authentication_beyond_the_limit_of_a_namespace_are_closed_alone() {
    close_alone(kinds().into_iter().skip(15)).await;
}

/// Writes more routes of each kind than the limit permits. Asserts that only these routes are closed, and limits their cost.
async fn close_alone(kinds: impl Iterator<Item = Kind>) {
    let mut tenants = Tenants::open(Mode::Delta, "").await;
    let more: Vec<u16> = (1..LISTENERS).map(|_| ports::free()).collect();
    let listener = |port: &u16| format!("    - {{ name: l{port}, port: {port}, protocol: HTTP }}\n");
    let listeners: String = more.iter().map(listener).collect();
    let all = gateway("one", &[Listener::http("http", tenants.site.ports[0])]) + &listeners;
    let from_all = "protocol: HTTP, allowedRoutes: { namespaces: { from: All } }";
    tenants.site.manifests.write("one.yaml", &all.replace("protocol: HTTP", from_all));
    let backends: Vec<String> =
        (0..16).map(|at| service(&format!("a{at}"), "", &[tenants.site.backends[0].address])).collect();
    tenants
        .site
        .manifests
        .write("backends.yaml", &documents(&backends).replace("namespace: default", "namespace: bert"));
    let last_port = more[LISTENERS - 2];
    let narrow = tenant_route("bert", "bert");
    let at_start = tenants.site.lockgate.process().memory();
    let mut beyond = Vec::new();
    println!("| kind | size of all routes | Envoy | controller |\n| --- | --- | --- | --- |");
    for kind in kinds {
        answers(last_port, SHARED, "/bert", 200).await;
        let [before, _] = settled(&mut tenants).await;
        tenants.site.manifests.write("bert.yaml", &format!("{narrow}{}", kind.objects()));
        // The translation of a hundred megabytes takes a busy machine longer than a minute.
        let (limit, interval) = (Duration::from_secs(150), Duration::from_millis(100));
        let (closed, _) = wait_at_most(limit, interval, kind.name, async || closed(&tenants).await).await;
        if kind.has_prefixes {
            answers(last_port, &format!("{closed}.test"), "/0", 503).await;
        }
        let metric = async |name: &str| tenants.site.lockgate.metric(name, &["namespace=\"bert\""]).await;
        let ratio = metric("lockgate_namespace_configuration_ratio").await;
        assert!(ratio > 1.0, "{}: {ratio}", kind.name);
        let bytes = metric("lockgate_namespace_configuration_bytes").await;
        let [envoy, controller] = settled(&mut tenants).await;
        let costs = [envoy.saturating_sub(before), controller.saturating_sub(at_start)];
        println!(
            "| {} | {:.0} MiB | {} MiB | {} MiB |",
            kind.name,
            bytes / f64::from(1 << 20),
            costs[0] >> 20,
            costs[1] >> 20
        );
        if costs.iter().zip(MOST).any(|(cost, most)| *cost >= most) {
            beyond.push((kind.name, costs));
        }
        tenants.answers("/anna", 200).await;
        tenants.site.manifests.write("bert.yaml", &narrow);
        wait_until("the end of the routes", async || {
            !tenants.site.lockgate.get("/debug/problems").await.text().contains("RouteTooExpensive")
        })
        .await;
    }
    tenants.assert_no_failure("a tenant beyond its limit").await;
    assert!(beyond.is_empty(), "{beyond:?}");
}

/// Returns the name of a closed route, which is its host too.
async fn closed(tenants: &Tenants) -> Option<String> {
    let problems: Value = serde_json::from_str(&tenants.site.lockgate.get("/debug/problems").await.text()).ok()?;
    let is_closed = |one: &&Value| one["consequence"] == "its requests are answered 503";
    let closed = problems.as_array()?.iter().find(is_closed)?;
    Some(closed["object"]["name"].as_str()?.to_owned())
}

async fn answers(port: u16, host: &str, path: &str, status: u16) {
    let target = Target::http(port, host);
    let what = format!("status {status} of {path} of {host}");
    wait_everywhere(&what, async || target.get(path).await.is_ok_and(|answer| answer.status == status)).await;
}

/// Waits until the memory of Envoy no longer changes. Returns it, and the memory of the controller.
async fn settled(tenants: &mut Tenants) -> [u64; 2] {
    let (mut last, mut same) = (0, 0);
    let unchanged = async || {
        let now = tenants.site.envoy.memory().await;
        same = if now.abs_diff(last) < 1 << 20 { same + 1 } else { 0 };
        last = now;
        (same == 3).then_some(now)
    };
    let (memory, _) =
        wait_at_most(Duration::from_secs(120), Duration::from_secs(2), "the memory of Envoy to settle", unchanged)
            .await;
    [memory, tenants.site.lockgate.process().memory()]
}
