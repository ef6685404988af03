//! HTTPPolicies of Ingresses: each feature through a real Envoy, and changes of policies under load. No kind of Gateway API is needed.

use bytes::Bytes;
use e2e::load::Plan;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{
    Authority, Authorizer, Backend, Envoy, HttpAuthorizer, Issuer, Load, Lockgate, Manifests, Mode, Source, Target,
    ports, wait_everywhere,
};
use hyper::Method;

mod authentication;
mod error_responses;
mod examples;
mod external_processing;
mod faults;
mod forwarding;
mod global_rate_limit;
mod grpc_json;
mod kinds;
mod login;
mod request_buffering;
mod responses;
mod wasm;

/// The features with the name of the Ingress that has a policy of that name, and its host below `.test`.
const NAMES: [&str; 9] = ["rated", "denied", "allowed", "closed", "tokens", "asked", "called", "small", "zipped"];

/// Returns an HTTPPolicy in `default` for the Ingress of this name.
fn policy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
         targetRefs: [{{ group: networking.k8s.io, kind: Ingress, name: {name} }}]\n  {spec}\n"
    )
}

fn host(name: &str) -> String {
    format!("{name}.test")
}

/// A controller, an Envoy, and the backends `a` and `long`, behind Services of these names.
struct Site {
    manifests: Manifests,
    lockgate: Lockgate,
    envoy: Envoy,
    authority: Authority,
    _backends: [Backend; 2],
    _config: Manifests,
}

impl Site {
    /// Starts all programs with these Ingresses. Plain HTTP is not redirected. The Secret `cert` has a certificate for the hosts.
    async fn open(mode: Mode, settings: &str, hosts: &[&str], ingresses: &[String]) -> Self {
        let (manifests, authority) = (Manifests::new(), Authority::new());
        let backends = [Backend::start("a").await, Backend::start(&"a".repeat(3000)).await];
        let base = [
            ingress_class(),
            service("a", "", &[backends[0].address]),
            service("long", "", &[backends[1].address]),
            authority.issue(hosts).secret("default", "cert"),
        ];
        manifests.write("base.yaml", &documents(&base));
        manifests.write("ingresses.yaml", &documents(ingresses));
        let config = Manifests::new();
        config.write(
            "lockgate.yaml",
            &format!("ingress: {{ httpsRedirect: false }}\nhttp: {{ errorResponses: true }}\n{settings}"),
        );
        let file = config.file("lockgate.yaml").display().to_string();
        let source = Source::Manifests(manifests.path().into());
        let lockgate = Lockgate::start(&source, &["--config", &file]).await;
        let admin = ports::free();
        let bootstrap = lockgate.bootstrap(mode, admin, "envoy");
        // A connection that a change drains is closed within the test.
        let mut envoy = Envoy::launch_with_flags(&bootstrap, admin, &["--drain-time-s", "2"]);
        envoy.wait_ready().await;
        Self { manifests, lockgate, envoy, authority, _backends: backends, _config: config }
    }

    /// Returns a host by plain HTTP, or by TLS.
    fn target(&self, host: &str, is_tls: bool) -> Target {
        match is_tls {
            true => Target::https(self.lockgate.https, host, self.authority.der()),
            false => Target::http(self.lockgate.http, host),
        }
    }

    async fn listener_changes(&self) -> u64 {
        let stats = self.envoy.stats("^listener_manager.listener_(added|modified|removed|in_place_updated)$").await;
        stats.values().sum()
    }
}

/// Waits until every worker of Envoy answers with this status.
async fn answers(target: &Target, status: u16) {
    let what = format!("status {status} from every worker");
    wait_everywhere(&what, async || target.get("/").await.is_ok_and(|answer| answer.status == status)).await;
}

async fn status(target: &Target, path: &str) -> u16 {
    target.get(path).await.expect("an answer").status
}

/// `named` returns the host of an Ingress, and `asked` the host of requests to it.
async fn features(settings: &str, named: fn(&str) -> String, asked: fn(&str) -> String) {
    let hosts: Vec<String> = NAMES.iter().flat_map(|name| [host(name), format!("*.{}", host(name))]).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let ingresses = NAMES.map(|name| {
        let backend = if name == "zipped" { "long" } else { "a" };
        let text = ingress(name, &named(name), backend, Some("cert"));
        text.replace(&named(name), &format!("'{}'", named(name)))
    });
    let site = Site::open(Mode::Delta, settings, &hosts, &ingresses).await;
    let (over_http, over_grpc) = (HttpAuthorizer::start().await, Authorizer::start().await);
    let services =
        [service("http-authorizer", "", &[over_http.address]), service("grpc-authorizer", "", &[over_grpc.address])];
    site.manifests.write("services.yaml", &documents(&services));
    let issuer = Issuer::new();
    let policies = [
        policy("rated", "localRateLimit: { requests: 3, unit: hour, perClientAddress: true }"),
        policy("denied", "clientAddresses: { deny: ['::ffff:127.0.0.0/104'] }"),
        policy("allowed", "clientAddresses: { allow: [127.0.0.1] }"),
        policy("closed", "clientAddresses: { allow: [127.0.0.1/8] }"),
        policy("tokens", &issuer.policy()),
        policy("asked", "externalAuthorization: { backendRef: { name: http-authorizer, port: 80 }, protocol: http }"),
        policy("called", "externalAuthorization: { backendRef: { name: grpc-authorizer, port: 80 } }"),
        policy("small", "maxRequestBody: 1KiB"),
        policy("zipped", "compression: { algorithms: [gzip] }"),
    ];
    let all = [false, true].map(|tls| NAMES.map(|name| (name, site.target(&asked(name), tls))));
    for (_, target) in all.iter().flatten() {
        answers(target, 200).await;
    }
    site.manifests.write("policies.yaml", &documents(&policies));
    for targets in &all {
        let target = |name: &str| &targets.iter().find(|(other, _)| *other == name).expect("a name").1;
        answers(target("denied"), 403).await;
        answers(target("closed"), 403).await;
        let closed = target("closed").get("/").await.expect("an answer");
        assert!(closed.text().contains("cannot be enforced"), "{}", closed.text());
        answers(target("allowed"), 200).await;
        answers(target("rated"), 429).await;
        answers(target("tokens"), 401).await;
        for (audience, seconds, expected) in [("shop", 600, 200), ("shop", -600, 401), ("blog", 600, 403)] {
            let with_token = target("tokens").clone().field("authorization", &issuer.bearer(audience, seconds));
            assert_eq!(status(&with_token, "/").await, expected, "{audience} {seconds}");
        }
        let stranger = target("tokens").clone().field("authorization", &Issuer::new().bearer("shop", 600));
        assert_eq!(status(&stranger, "/").await, 401);
        for name in ["asked", "called"] {
            let denied = async || target(name).get("/?deny").await.is_ok_and(|one| one.status == 401);
            wait_everywhere(name, denied).await;
            assert_eq!(status(target(name), "/").await, 200, "{name}");
        }
        assert_eq!(status(target("asked"), "/?fail").await, 403, "a server that fails denies the request");
        let post = async |size: usize| {
            target("small").send(Method::POST, "/", vec![b'a'; size]).await.expect("an answer").status
        };
        assert_eq!((post(1024).await, post(1025).await), (200, 413));
        let encoding = async |name: &str| {
            let target = target(name).clone().field("accept-encoding", "gzip");
            target.get("/").await.expect("an answer").header("content-encoding").to_owned()
        };
        assert_eq!((&*encoding("zipped").await, &*encoding("allowed").await), ("gzip", ""));
    }
    site.manifests.remove("policies.yaml");
    for (_, target) in all.iter().flatten() {
        answers(target, 200).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_feature_is_enforced_on_an_ingress() {
    features("", host, host).await;
}

/// Envoy selects the filters of such requests before it finds their routes.
#[tokio::test(flavor = "multi_thread")]
async fn every_feature_is_enforced_on_a_wildcard_host() {
    features("", |name| format!("*.{}", host(name)), |name| format!("a.{}", host(name))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_feature_is_enforced_without_scopes() {
    features("routes: { discovery: rds }\n", host, host).await;
}

/// Returns the Ingresses `shop` and `more` of the host `shop.test`, for `/` and `/more`, and `other` of `other.test`.
fn shops() -> [String; 3] {
    let more = ingress("more", "shop.test", "a", Some("cert")).replace("path: /\n", "path: /more\n");
    [ingress("shop", "shop.test", "a", Some("cert")), more, ingress("other", "other.test", "a", Some("cert"))]
}

/// A tenant repeatedly creates and deletes the first policy of the listeners that all Ingresses share.
async fn first_and_last(mode: Mode) {
    const CONNECTIONS: u32 = 5;
    let site = Site::open(mode, "", &["shop.test", "other.test"], &shops()).await;
    let sides = [false, true].map(|tls| [site.target("shop.test", tls), site.target("other.test", tls)]);
    let mut open = Vec::new();
    // The connections are opened when Envoy has all listeners.
    for target in sides.iter().flatten() {
        answers(target, 200).await;
    }
    for [shop, other] in &sides {
        let load = Load::start(Plan { rate: 100, connections: CONNECTIONS, ..Plan::new(other.clone(), "/") }).await;
        // Its requests are sent over a connection from before the first policy.
        let mut connections = [shop.connect().await, other.connect().await].map(|one| one.expect("a connection"));
        for connection in &mut connections {
            let answer = connection.send(Method::GET, "/", Bytes::new()).await.expect("an answer");
            assert_eq!(answer.status, 200);
        }
        let [of_shop, of_other] = connections;
        open.push((load, of_shop, of_other));
    }
    let before = site.listener_changes().await;
    for _ in 0..5 {
        site.manifests.write("policy.yaml", &policy("shop", "clientAddresses: { deny: [127.0.0.0/8] }"));
        for [shop, _] in &sides {
            answers(shop, 403).await;
        }
        for (_, shop, _) in &mut open {
            assert!(shop.usable().await, "the connection is open");
            let denied = shop.send(Method::GET, "/", Bytes::new()).await.expect("the connection is open");
            assert_eq!(denied.status, 403, "the policy is enforced on open connections");
            assert!(shop.usable().await, "the connection is open");
            let more = shop.send(Method::GET, "/more", Bytes::new()).await.expect("the connection is open");
            assert_eq!(more.status, 200, "another Ingress of the host has no policy");
        }
        site.manifests.remove("policy.yaml");
        for [shop, _] in &sides {
            answers(shop, 200).await;
        }
    }
    assert_eq!(site.listener_changes().await, before, "no policy of a tenant changes a listener");
    for (load, _, mut other) in open {
        assert!(other.usable().await, "a connection of another host was drained");
        let report = load.stop().await;
        println!("    {mode:?}: {report}");
        assert_eq!((report.failed(), report.connections), (0, u64::from(CONNECTIONS)), "{report}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_and_the_last_policy_of_ingresses_drain_no_connection_delta() {
    first_and_last(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_and_the_last_policy_of_ingresses_drain_no_connection_sotw() {
    first_and_last(Mode::Sotw).await;
}

/// A limit without a burst is counted in the filter chain, which no change of another object rebuilds.
#[tokio::test(flavor = "multi_thread")]
async fn changes_of_other_ingresses_do_not_restart_a_count() {
    let mut hosts = shops().to_vec();
    hosts.push(ingress("wild", "WILD", "a", Some("cert")).replace("WILD", "'*.wild.test'"));
    let names = ["shop.test", "other.test", "*.wild.test", "new.test"];
    let site = Site::open(Mode::Delta, "", &names, &hosts).await;
    let limited = ["shop", "wild"].map(|name| policy(name, "localRateLimit: { requests: 2, unit: hour }"));
    let targets = [false, true].map(|tls| ["shop.test", "a.wild.test"].map(|host| site.target(host, tls)));
    for target in targets.iter().flatten() {
        answers(target, 200).await;
    }
    site.manifests.write("policies.yaml", &documents(&limited));
    for target in targets.iter().flatten() {
        answers(target, 429).await;
    }
    // Another path of the host, another host of the certificate, and another policy. Each is seen to be in effect.
    hosts[1] = hosts[1].replace("/more", "/most");
    hosts.push(ingress("new", "new.test", "a", Some("cert")));
    site.manifests.write("ingresses.yaml", &documents(&hosts));
    site.manifests.write("more.yaml", &policy("other", "clientAddresses: { deny: [127.0.0.0/8] }"));
    for tls in [false, true] {
        answers(&site.target("new.test", tls), 200).await;
        answers(&site.target("other.test", tls), 403).await;
        let shop = site.target("shop.test", tls);
        wait_everywhere("the changed path", async || shop.get("/most").await.is_ok_and(|one| one.status == 200)).await;
    }
    for target in targets.iter().flatten() {
        assert_eq!(status(target, "/").await, 429);
    }
}
