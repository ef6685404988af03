//! HTTPPolicies: each feature through a real Envoy, and changes of policies under load.

use bytes::Bytes;
use e2e::authorizer::{Authorizer, DENIED, HttpAuthorizer};
use e2e::manifests::{documents, service};
use e2e::{Backend, Echo, Issuer, Mode, Target};
use hyper::Method;

use super::site::{HOST, Site, answers, assert_undisturbed, load, route, serves};

/// Returns an HTTPPolicy in `default` for an HTTPRoute.
fn policy(name: &str, spec: &str) -> String {
    policy_of("HTTPRoute", name, spec)
}

fn policy_of(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
         targetRefs: [{{ group: gateway.networking.k8s.io, kind: {kind}, name: {name} }}]\n  {spec}\n"
    )
}

/// Returns the host of a route of this test.
fn host(name: &str) -> String {
    format!("{name}.test")
}

async fn status(target: &Target, path: &str) -> u16 {
    target.get(path).await.expect("an answer").status
}

/// `named` returns the host of a route, and `asked` the host of requests to it.
async fn features(named: fn(&str) -> String, asked: fn(&str) -> String) {
    let site = Site::open(Mode::Delta).await;
    let (over_http, over_grpc) = (HttpAuthorizer::start().await, Authorizer::start().await);
    let long = Backend::start(&"a".repeat(3000)).await;
    let (issuer, stranger) = (Issuer::new(), Issuer::new());
    let names = ["rated", "denied", "allowed", "closed", "tokens", "asked", "called", "small", "zipped"];
    let routes =
        names.map(|name| route(name, &["one"], &named(name), &[(if name == "zipped" { "long" } else { "a" }, 1)]));
    let services = [
        service("long", "", &[long.address]),
        service("http-authorizer", "", &[over_http.address]),
        service("grpc-authorizer", "", &[over_grpc.address]),
    ];
    site.manifests.write("routes.yaml", &documents(&[&routes[..], &services[..]].concat()));
    let target = |name: &str| site.target(0, &asked(name));
    for name in names {
        serves(&target(name)).await;
    }
    let jwt = issuer.policy();
    let policies = [
        policy("rated", "localRateLimit: { requests: 3, unit: hour, perClientAddress: true }"),
        policy("denied", "clientAddresses: { deny: ['::ffff:127.0.0.0/104'] }"),
        policy("allowed", "clientAddresses: { allow: [127.0.0.1] }"),
        policy("closed", "clientAddresses: { allow: [127.0.0.1/8] }"),
        policy("tokens", &jwt),
        policy("asked", "externalAuthorization: { backendRef: { name: http-authorizer, port: 80 }, protocol: http }"),
        policy("called", "externalAuthorization: { backendRef: { name: grpc-authorizer, port: 80 } }"),
        policy("small", "maxRequestBody: 1KiB"),
        policy("zipped", "compression: { algorithms: [gzip] }"),
    ];
    site.manifests.write("policies.yaml", &documents(&policies));

    answers(&target("denied"), 403).await;
    answers(&target("closed"), 403).await;
    let closed = target("closed").get("/").await.expect("an answer");
    assert!(closed.text().contains("cannot be enforced"), "{}", closed.text());
    serves(&target("allowed")).await;
    answers(&target("rated"), 429).await;
    for _ in 0..10 {
        assert_eq!(status(&target("rated"), "/").await, 429);
    }

    answers(&target("tokens"), 401).await;
    for (who, audience, seconds, expected) in [
        (&issuer, "shop", 600, 200),
        (&stranger, "shop", 600, 401),
        (&issuer, "shop", -600, 401),
        (&issuer, "blog", 600, 403),
    ] {
        let with_token = target("tokens").field("authorization", &who.bearer(audience, seconds));
        assert_eq!(status(&with_token, "/").await, expected, "{audience} {seconds}");
    }

    let token = issuer.bearer("shop", 600).replace("Bearer ", "/?access_token=");
    assert_eq!(status(&target("tokens"), &token).await, 401, "a URL ends up in logs");

    for (name, what) in [("asked", "HTTP"), ("called", "gRPC")] {
        let deadline = format!("authorization by {what}");
        let denied = target(name);
        e2e::wait_everywhere(&deadline, async || denied.get("/?deny").await.is_ok_and(|one| one.status == DENIED.0))
            .await;
        assert_eq!(status(&denied, "/").await, 200, "{what}");
    }
    // A server that fails denies the request.
    assert_eq!(status(&target("asked"), "/?fail").await, 403);

    let post =
        async |size: usize| target("small").send(Method::POST, "/", vec![b'a'; size]).await.expect("an answer").status;
    assert_eq!((post(1024).await, post(1025).await), (200, 413));
    let zipped = |name: &str| target(name).field("accept-encoding", "gzip");
    let encoding =
        async |name: &str| zipped(name).get("/").await.expect("an answer").header("content-encoding").to_owned();
    assert_eq!((&*encoding("zipped").await, &*encoding("allowed").await), ("gzip", ""));

    for other in [site.target(0, HOST), site.target(1, HOST), site.ingress()] {
        assert_eq!(status(&other, "/").await, 200);
    }
    site.manifests.remove("policies.yaml");
    for name in names {
        serves(&target(name)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_feature_is_enforced_on_its_route_alone() {
    features(host, host).await;
}

/// Envoy selects the filters of such requests before it finds their routes.
#[tokio::test(flavor = "multi_thread")]
async fn every_feature_is_enforced_on_a_wildcard_host() {
    features(|name| format!("*.{}", host(name)), |name| format!("a.{}:8080", host(name))).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_feature_is_enforced_for_a_host_in_upper_case() {
    features(host, |name| host(name).to_uppercase()).await;
}

/// Envoy skips the filters behind one that waited, if one delegate runs both.
#[tokio::test(flavor = "multi_thread")]
async fn every_feature_is_enforced_beside_all_others() {
    let site = Site::open(Mode::Delta).await;
    let (over_http, over_grpc) = (HttpAuthorizer::start().await, Authorizer::start().await);
    let long = Backend::start(&"a".repeat(3000)).await;
    let (issuer, stranger) = (Issuer::new(), Issuer::new());
    let hosts = [("http", "exact"), ("grpc", "exact"), ("http", "wild"), ("grpc", "wild")];
    let name = |(protocol, kind): (&str, &str)| format!("{kind}-{protocol}");
    let routes = hosts.map(|one| {
        let host = if one.1 == "wild" { format!("*.{}", host(&name(one))) } else { host(&name(one)) };
        let sticky = "    - sessionPersistence: { sessionName: shop, type: Cookie }\n      backendRefs";
        route(&name(one), &["one"], &host, &[("long", 1)]).replace("    - backendRefs", sticky)
    });
    let services = [
        service("long", "", &[long.address]),
        service("http-authorizer", "", &[over_http.address]),
        service("grpc-authorizer", "", &[over_grpc.address]),
    ];
    site.manifests.write("routes.yaml", &documents(&[&routes[..], &services[..]].concat()));
    let policies = |rest: &str| {
        let all = hosts.map(|one| {
            let server = format!("{{ backendRef: {{ name: {0}-authorizer, port: 80 }}, protocol: {0} }}", one.0);
            let tokens = issuer.policy();
            let spec = format!(
                "{tokens}\n  externalAuthorization: {server}\n  maxRequestBody: 1KiB\n  requestBuffering: {{ maxSize: 8KiB }}\n  compression: {{ algorithms: [gzip] }}\n  \
                 errorResponses: [{{ statuses: [400-599], body: replaced }}]\n  {rest}"
            );
            policy(&name(one), &spec)
        });
        site.manifests.write("policies.yaml", &documents(&all));
    };
    let allowed = "clientAddresses: { allow: [127.0.0.1] }";
    policies(allowed);
    let bearer = issuer.bearer("shop", 600);
    let targets = hosts.map(|one| {
        let host = if one.1 == "wild" { format!("a.{}", host(&name(one))) } else { host(&name(one)) };
        (site.target(0, &host), host)
    });
    for (anybody, host) in &targets {
        let client = anybody.clone().field("authorization", &bearer).field("accept-encoding", "gzip");
        e2e::wait_everywhere(host, async || client.get("/?deny").await.is_ok_and(|one| one.status == DENIED.0)).await;
        answers(anybody, 401).await;
        for (target, path) in [(anybody, "/"), (&client, "/?deny")] {
            assert_eq!(target.get(path).await.expect("an answer").text(), "replaced", "{host}{path}");
        }
        let answer = client.get("/").await.expect("an answer");
        assert_eq!((answer.status, answer.header("content-encoding")), (200, "gzip"), "{host}");
        assert!(answer.header("set-cookie").contains("shop="), "{host}: {}", answer.header("set-cookie"));
        let strange = anybody.clone().field("authorization", &stranger.bearer("shop", 600));
        assert_eq!(status(&strange, "/").await, 401, "{host}");
        let post =
            async |size: usize| client.send(Method::POST, "/", vec![b'a'; size]).await.expect("an answer").status;
        assert_eq!((post(1024).await, post(1025).await), (200, 413), "{host}");
        // A chunked body arrives while Envoy waits for the authorization server.
        let head = format!(
            "POST / HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
        );
        for (size, expected) in [(1024, "HTTP/1.1 200"), (1025, "HTTP/1.1 413")] {
            let request = format!("{head}{size:x}\r\n{}\r\n0\r\n\r\n", "a".repeat(size));
            let answer = e2e::client::raw(site.ports[0], request.as_bytes(), |seen| seen.len() > 12).await;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            assert!(answer.starts_with(expected), "{host} {size}: {answer}");
        }
    }
    policies(&format!("{allowed}\n  localRateLimit: {{ requests: 3, unit: hour }}"));
    for (anybody, host) in &targets {
        let client = anybody.clone().field("authorization", &bearer);
        answers(&client, 429).await;
        assert_eq!(client.get("/").await.expect("an answer").text(), "replaced", "{host}");
        assert_eq!(status(anybody, "/").await, 401, "{host}: the limit follows authentication");
    }
    policies("clientAddresses: { deny: [127.0.0.0/8] }");
    for (anybody, _) in &targets {
        let client = anybody.clone().field("authorization", &bearer);
        answers(&client, 403).await;
        assert_eq!(client.get("/").await.expect("an answer").text(), "replaced");
    }
}

/// Returns an HTTPRoute with a filter `ExternalAuth`, or several, divided by `and`.
fn asking(name: &str, host: &str, filter: &str) -> String {
    let filters = filter.split(" and ").map(|one| format!("{{ type: ExternalAuth, externalAuth: {{ {one} }} }}"));
    let filters: Vec<String> = filters.collect();
    let rule = format!("    - filters: [{}]\n      backendRefs", filters.join(", "));
    route(name, &["one"], host, &[("echo", 1)]).replace("    - backendRefs", &rule)
}

/// The filter `ExternalAuth`, alone and beside the server of a policy.
#[tokio::test(flavor = "multi_thread")]
async fn the_server_of_a_route_permits_its_requests() {
    let site = Site::open(Mode::Delta).await;
    let (over_http, over_grpc, of_policy) =
        (HttpAuthorizer::start().await, Authorizer::start().await, HttpAuthorizer::start().await);
    let echo = Echo::start().await;
    let http = "protocol: HTTP, backendRef: { name: http-authorizer, port: 80 }";
    let grpc = "protocol: GRPC, backendRef: { name: grpc-authorizer, port: 80 }, grpc: {}";
    let both = format!("{http}, http: {{ allowedResponseHeaders: [x-user] }}");
    let routes = [
        asking("http", "http.test", &format!("{http}, http: {{ allowedHeaders: [x-tenant] }}")),
        asking("grpc", "*.grpc.test", &format!("{grpc}, forwardBody: {{ maxSize: 4 }}")),
        asking("both", "both.test", &both),
        asking("wild", "*.both.test", &both),
        // The second server of the route would take the place of the server of the policy.
        asking("twice", "twice.test", &format!("{both} and {both}")),
        asking("closed", "closed.test", "protocol: HTTP, backendRef: { name: gone, port: 80 }, http: {}"),
    ];
    let services = [
        service("echo", "", &[echo.address]),
        service("http-authorizer", "", &[over_http.address]),
        service("grpc-authorizer", "", &[over_grpc.address]),
        service("policy-authorizer", "", &[of_policy.address]),
    ];
    let server = "externalAuthorization: { backendRef: { name: policy-authorizer, port: 80 }, protocol: http }";
    let policies = ["both", "wild", "twice"].map(|name| policy(name, &format!("{server}\n  maxRequestBody: 1KiB")));
    let all = [&routes[..], &services[..], &policies[..]].concat();
    site.manifests.write("routes.yaml", &documents(&all));
    for host in ["http.test", "a.grpc.test", "both.test", "a.both.test"] {
        let target = site.target(0, host);
        let denied = async || target.get("/?deny").await.is_ok_and(|answer| answer.status == DENIED.0);
        e2e::wait_everywhere(host, denied).await;
        let answer = target.get("/").await.expect("an answer");
        assert_eq!(answer.status, 200, "{host}");
        assert!(answer.text().contains("x-user: alice"), "{host}: {}", answer.text());
    }
    for closed in ["closed.test", "twice.test"] {
        answers(&site.target(0, closed), 500).await;
    }
    for host in ["both.test", "a.both.test"] {
        let asked = |server: &HttpAuthorizer| server.seen().len();
        let before = (asked(&over_http), asked(&of_policy));
        let target = site.target(0, host);
        assert_eq!(status(&target, "/").await, 200);
        assert_eq!(
            (asked(&over_http), asked(&of_policy)),
            (before.0 + 1, before.1 + 1),
            "{host}: both servers are asked"
        );
        let post =
            async |size: usize| target.send(Method::POST, "/", vec![b'a'; size]).await.expect("an answer").status;
        assert_eq!((post(1024).await, post(1025).await), (200, 413), "{host}");
    }
    let body = site.target(0, "a.grpc.test").send(Method::POST, "/", "abcdefgh").await.expect("an answer");
    assert_eq!(body.status, 200);
    let seen = over_grpc.seen().into_iter().rev().find_map(|one| one.request?.http.map(|http| http.body));
    assert_eq!(seen.as_deref(), Some("abcd"), "the server receives the beginning");
}

const CHANGES: usize = 10;

async fn changes(mode: Mode) {
    let site = Site::open(mode).await;
    let routes = ["probe", "other"].map(|name| route(name, &["one"], &host(name), &[("b", 1)]));
    site.manifests.write("routes.yaml", &documents(&routes));
    let probe = site.target(0, "probe.test");
    serves(&probe).await;
    let others = [load(site.target(1, HOST)).await, load(site.ingress()).await];
    let before = site.listener_changes().await;
    let clients = load(site.target(0, HOST)).await;
    // The first policy is enforced on open connections too.
    let mut open = probe.connect().await.expect("a connection");
    let mut status_on_it = async || open.send(Method::GET, "/", Bytes::new()).await.expect("an answer").status;
    assert_eq!(status_on_it().await, 200);
    let closed = policy("probe", "clientAddresses: { deny: [127.0.0.0/8] }");
    site.manifests.write("policy.yaml", &closed);
    answers(&probe, 403).await;
    assert_eq!(status_on_it().await, 403);
    let other = policy("other", "localRateLimit: { requests: 1000000, unit: second }\n  maxRequestBody: 1MiB");
    site.manifests.write("other.yaml", &other);
    for i in 0..CHANGES {
        let mut all = vec![policy_of(
            "Gateway",
            "one",
            &format!("localRateLimit: {{ requests: {}, unit: second }}", 500_000 + i),
        )];
        all.push(policy("probe", "clientAddresses: { allow: [127.0.0.0/8] }"));
        site.manifests.write("policy.yaml", &documents(&all));
        serves(&probe).await;
        site.manifests.write("policy.yaml", &closed);
        answers(&probe, 403).await;
    }
    site.manifests.remove("policy.yaml");
    site.manifests.remove("other.yaml");
    serves(&probe).await;
    assert_eq!(site.listener_changes().await, before, "policies change no listener");
    assert_undisturbed(&format!("{CHANGES} changes of policies, {mode:?}: the Gateway"), clients).await;
    for (which, others) in ["the other Gateway", "the Ingress"].into_iter().zip(others) {
        assert_undisturbed(&format!("{CHANGES} changes of policies, {mode:?}: {which}"), others).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_change_delta() {
    changes(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_change_sotw() {
    changes(Mode::Sotw).await;
}

/// A tenant repeatedly adds and removes the first policy and the first CORS filter of a listener.
async fn first_and_last(mode: Mode) {
    let site = Site::open(mode).await;
    let plain = route("probe", &["one"], &host("probe"), &[("b", 1)]);
    site.manifests.write("routes.yaml", &plain);
    let probe = site.target(0, "probe.test");
    serves(&probe).await;
    serves(&site.target(0, HOST)).await;
    let before = site.listener_changes().await;
    let clients = load(site.target(0, HOST)).await;
    let cors = plain.replace(
        "    - backendRefs",
        "    - filters: [{ type: CORS, cors: { allowOrigins: ['https://a.test'] } }]\n      backendRefs",
    );
    let crossing = probe.clone().field("origin", "https://a.test");
    for _ in 0..CHANGES {
        site.manifests.write("policy.yaml", &policy("probe", "clientAddresses: { deny: [127.0.0.0/8] }"));
        answers(&probe, 403).await;
        site.manifests.remove("policy.yaml");
        serves(&probe).await;
        for (text, expected) in [(&cors, "https://a.test"), (&plain, "")] {
            site.manifests.write("routes.yaml", text);
            let allowed =
                async || crossing.get("/").await.is_ok_and(|one| one.header("access-control-allow-origin") == expected);
            e2e::wait_everywhere("the CORS filter", allowed).await;
        }
    }
    assert_eq!(site.listener_changes().await, before, "no policy of a tenant changes a listener");
    assert_undisturbed(&format!("{CHANGES} first and last policies of a tenant, {mode:?}: the Gateway"), clients).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_and_the_last_policy_drain_no_listener_delta() {
    first_and_last(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_and_the_last_policy_drain_no_listener_sotw() {
    first_and_last(Mode::Sotw).await;
}
