//! The features that authenticate clients: passwords, API keys, web pages, and tokens with the keys of a server.

use std::sync::Arc;

use bytes::Bytes;
use e2e::authorizer::{DENIED, HttpAuthorizer};
use e2e::client::Answer;
use e2e::manifests::{documents, ingress, service};
use e2e::server::Server;
use e2e::{Echo, Issuer, Mode, Target, wait_everywhere, wait_until};
use http_body_util::Full;
use hyper::{Method, Response};
use tokio::sync::watch;

use super::{Site, answers, host, policy, status};

/// The user `ann` with the password `password`: the line of the Secret, and the header of a request.
const ANN: (&str, &str) = ("ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=", "Basic YW5uOnBhc3N3b3Jk");
/// The user `bob` with the password `test`.
const BOB: (&str, &str) = ("bob:{SHA}qUqP5cyxm6YcTAhz05Hph5gvu9M=", "Basic Ym9iOnRlc3Q=");

/// Headers of a request.
type Fields = &'static [(&'static str, &'static str)];

fn secret(name: &str, kind: &str, data: &[(&str, &str)]) -> String {
    let entries: Vec<String> = data.iter().map(|(key, value)| format!("  {key}: \"{value}\"\n")).collect();
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{ name: {name}, namespace: default }}\ntype: {kind}\nstringData:\n{}",
        entries.concat()
    )
}

fn users(lines: &[&str]) -> String {
    secret("users", "Opaque", &[(".htpasswd", &lines.join("\\n"))])
}

fn clients(data: &[(&str, &str)]) -> String {
    secret("clients", "lockgate.dev/api-keys", data)
}

/// Returns the header that the echoing backend received.
fn received(answer: &Answer, name: &str) -> Option<String> {
    let text = answer.text();
    let fields = text.lines().filter_map(|line| line.split_once(": "));
    fields.filter(|(field, _)| *field == name).map(|(_, value)| value.to_owned()).next()
}

async fn get(target: &Target, path: &str, fields: &[(&str, &str)]) -> Answer {
    let target = fields.iter().fold(target.clone(), |target, (name, value)| target.field(name, value));
    target.get(path).await.expect("an answer")
}

/// Returns the Ingresses of these names, each for an exact host and for a wildcard, and a request host of each.
fn hosts(names: &[&str]) -> (Vec<String>, Vec<String>) {
    let of = |name: &&str| {
        let wild = ingress(&format!("wild-{name}"), "WILD", "echo", Some("cert"))
            .replace("WILD", &format!("'*.{}'", host(name)));
        [ingress(name, &host(name), "echo", Some("cert")), wild]
    };
    let asked = names.iter().flat_map(|name| [host(name), format!("a.{}", host(name))]).collect();
    (names.iter().flat_map(of).collect(), asked)
}

/// Returns the policies of the exact and of the wildcard host.
fn policies(name: &str, spec: &str) -> String {
    documents(&[policy(name, spec), policy(&format!("wild-{name}"), spec)])
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_are_authenticated() {
    let names = ["users", "keys", "pages"];
    let (mut objects, asked) = hosts(&names);
    let echo = Echo::start().await;
    objects.push(service("echo", "", &[echo.address]));
    let certified: Vec<String> = names.iter().flat_map(|name| [host(name), format!("*.{}", host(name))]).collect();
    let certified: Vec<&str> = certified.iter().map(String::as_str).collect();
    let site = Site::open(Mode::Delta, "", &certified, &objects).await;
    let sources = "[{ header: x-api-key }, { header: authorization }, { query: key }, { cookie: key }]";
    let all = [
        users(&[ANN.0, "carl:$2y$05$fX3eqTEOKHGGJcCZ1uZqEu"]),
        clients(&[("app", "key-1"), ("batch", "key-2")]),
        policies("users", "basicAuthentication: { secretRef: { name: users }, userHeader: x-user }"),
        policies(
            "keys",
            &format!("apiKeys: {{ secretRefs: [{{ name: clients }}], sources: {sources}, clientHeader: x-client }}"),
        ),
        policies("pages", "csrf: { additionalOrigins: [app.test, 'app.test:8443', '*.sites.test'] }"),
    ];
    let targets: Vec<Target> =
        [false, true].iter().flat_map(|tls| asked.iter().map(|host| site.target(host, *tls))).collect();
    for target in &targets {
        answers(target, 200).await;
    }
    site.manifests.write("all.yaml", &documents(&all));
    // The last resources of a change arrive last.
    for (target, host) in targets.iter().zip(asked.iter().cycle()) {
        let expected = if host.contains("pages") { 200 } else { 401 };
        answers(target, expected).await;
    }
    for (target, host) in targets.iter().zip(asked.iter().cycle()) {
        if host.contains("users") {
            let ann = get(target, "/", &[("authorization", ANN.1), ("x-user", "root")]).await;
            assert_eq!((ann.status, received(&ann, "x-user").as_deref()), (200, Some("ann")), "{host}");
            for wrong in [BOB.1, "Basic YW5uOndyb25n", "Basic YW5u", "Bearer YW5uOnBhc3N3b3Jk", "Basic Y2FybDp0ZXN0"] {
                assert_eq!(get(target, "/", &[("authorization", wrong)]).await.status, 401, "{host}: {wrong}");
            }
            assert!(!get(target, "/", &[]).await.header("www-authenticate").is_empty(), "{host}: the browser asks");
        } else if host.contains("keys") {
            let cases: [(&str, Fields, &str); 5] = [
                ("/", &[("x-api-key", "key-1"), ("x-client", "root")], "app"),
                ("/", &[("authorization", "Bearer key-2")], "batch"),
                ("/?a=1&key=key-2", &[], "batch"),
                ("/", &[("cookie", "a=1; key=key-1")], "app"),
                ("/?key=wrong", &[("x-api-key", "key-2")], "batch"),
            ];
            for (path, fields, client) in cases {
                let answer = get(target, path, fields).await;
                assert_eq!(
                    (answer.status, received(&answer, "x-client").as_deref()),
                    (200, Some(client)),
                    "{host}: {path} {fields:?}"
                );
                assert!(!answer.text().contains("key-"), "{host}: the backend receives the key: {}", answer.text());
            }
            for fields in [[("x-api-key", "key-3")], [("x-api-key", "")], [("cookie", "key=key-3")]] {
                assert_eq!(get(target, "/", &fields).await.status, 401, "{host}: {fields:?}");
            }
        } else {
            let post = async |field: &str, value: &str| {
                let target = target.clone().field(field, value);
                target.send(Method::POST, "/", Bytes::new()).await.expect("an answer").status
            };
            for page in ["https://app.test", "https://app.test:8443", "http://x.sites.test", &format!("https://{host}")]
            {
                assert_eq!(post("origin", page).await, 200, "{host}: {page}");
                assert_eq!(post("referer", &format!("{page}/path?query")).await, 200, "{host}: {page}");
            }
            for page in
                ["https://evil.test", "https://app.test:9", "https://app.test.evil.test", "https://sites.test", "null"]
            {
                assert_eq!(post("origin", page).await, 403, "{host}: {page}");
            }
            assert_eq!(post("x-other", "1").await, 403, "{host}: no page");
        }
    }

    // A change of a Secret alone is effective, and its deletion admits nobody.
    let before = site.listener_changes().await;
    site.manifests
        .write("all.yaml", &documents(&[&[users(&[BOB.0]), clients(&[("app", "key-3")])], &all[2..]].concat()));
    for (target, host) in targets.iter().zip(asked.iter().cycle()).filter(|(_, host)| !host.contains("pages")) {
        let (old, new) = match host.contains("users") {
            true => (("authorization", ANN.1), ("authorization", BOB.1)),
            false => (("x-api-key", "key-1"), ("x-api-key", "key-3")),
        };
        answers(&target.clone().field(new.0, new.1), 200).await;
        assert_eq!(get(target, "/", &[old]).await.status, 401, "{host}");
    }
    site.manifests.write("all.yaml", &documents(&all[2..]));
    for (target, host) in targets.iter().zip(asked.iter().cycle()).filter(|(_, host)| !host.contains("pages")) {
        answers(&target.clone().field("x-host", host), 403).await;
    }
    assert_eq!(site.listener_changes().await, before, "Secrets of policies change no listener");
    site.lockgate.logged(&["name=users", "line 2", "carl", "SHA-1"]).await;
    let log = site.lockgate.log();
    assert!(!log.contains("key-") && !log.contains("{SHA}") && !log.contains("$2y$"), "{log}");
    let dump = site.envoy.get("/config_dump").await.text();
    assert!(!dump.contains("key-3") && !dump.contains("{SHA}"), "Envoy redacts credentials");
}

/// A server of keys that answers only while it is told to.
async fn key_server(keys: String, answering: watch::Receiver<bool>) -> Server {
    let keys = Arc::new(keys);
    Server::http(move |_| {
        let (keys, mut answering) = (keys.clone(), answering.clone());
        async move {
            let _ = answering.wait_for(|answers| *answers).await;
            Response::new(Full::new(Bytes::from(keys.as_bytes().to_vec())))
        }
    })
    .await
}

/// Requests that wait for the keys of their tokens pass all other features of their route.
#[tokio::test(flavor = "multi_thread")]
async fn tokens_have_the_keys_of_a_server() {
    let names = ["tokens", "kept"];
    let (mut objects, asked) = hosts(&names);
    let (issuer, other, stranger) = (Issuer::new(), Issuer::new(), Issuer::new());
    let (answering, answers_now) = watch::channel(true);
    let (echo, authorizer) = (Echo::start().await, HttpAuthorizer::start().await);
    let keys = key_server(issuer.keys(), answers_now.clone()).await;
    objects.extend([
        service("echo", "", &[echo.address]),
        service("login", "", &[keys.address]),
        service("authorizer", "", &[authorizer.address]),
    ]);
    let certified = ["tokens.test", "*.tokens.test", "kept.test", "*.kept.test"];
    let mut site = Site::open(Mode::Delta, "", &certified, &objects).await;
    let remote = "remote: { uri: 'http://login.test/keys', backendRef: { name: login, port: 80 } }";
    let jwt =
        |more: &str| format!("jwt: {{ providers: [{{ issuer: 'https://issuer.test', jwks: {{ {remote}{more} }} }}] }}");
    let rest =
        "externalAuthorization: { backendRef: { name: authorizer, port: 80 }, protocol: http }\n  maxRequestBody: 1KiB";
    let inline = format!(", inline: '{}'", other.keys());
    site.manifests.write(
        "policies.yaml",
        &documents(&[policies("tokens", &format!("{}\n  {rest}", jwt(""))), policies("kept", &jwt(&inline))]),
    );
    let targets: Vec<Target> =
        [false, true].iter().flat_map(|tls| asked.iter().map(|host| site.target(host, *tls))).collect();
    let bearer = |target: &Target, issuer: &Issuer| target.clone().field("authorization", &issuer.bearer("shop", 600));
    let is_denied = |answer: &Answer| answer.status == DENIED.0 && answer.header(DENIED.1.0) == DENIED.1.1;
    let denies = async |target: &Target| {
        let what = "the answer of the authorization server";
        wait_everywhere(what, async || target.get("/?deny").await.is_ok_and(|answer| is_denied(&answer))).await;
    };
    for (target, host) in targets.iter().zip(asked.iter().cycle()) {
        answers(target, 401).await;
        answers(&bearer(target, &issuer), 200).await;
        assert_eq!(status(&bearer(target, &stranger), "/").await, 401, "{host}");
        let expected = if host.contains("kept") { 200 } else { 401 };
        assert_eq!(status(&bearer(target, &other), "/").await, expected, "{host}: the inline keys");
        if host.contains("tokens") {
            denies(&bearer(target, &issuer)).await;
        }
    }

    // A new Envoy has no keys yet.
    answering.send_replace(false);
    site.envoy.restart();
    site.envoy.wait_ready().await;
    let mut waiting = Vec::new();
    for target in
        targets.iter().zip(asked.iter().cycle()).filter(|(_, host)| host.contains("tokens")).map(|(target, _)| target)
    {
        wait_until("the policy in the new Envoy", async || {
            target.get("/").await.is_ok_and(|answer| answer.status == 401)
        })
        .await;
        let with_token = bearer(target, &issuer);
        let denied = with_token.clone();
        waiting.push(tokio::spawn(async move {
            let denied = denied.get("/?deny").await.expect("an answer");
            assert_eq!(
                (denied.status, denied.header(DENIED.1.0)),
                (DENIED.0, DENIED.1.1),
                "the authorization server is asked"
            );
        }));
        waiting.push(tokio::spawn(async move {
            let large = with_token.send(Method::POST, "/", vec![b'a'; 2000]).await.expect("an answer");
            assert_eq!(large.status, 413, "the body is limited");
        }));
    }
    let active = async || site.envoy.stat("cluster.default_login_http.upstream_rq_active").await;
    wait_until("requests that wait for keys", async || active().await as usize > waiting.len()).await;
    answering.send_replace(true);
    for request in waiting {
        request.await.expect("the request");
    }

    // Without its server, Envoy keeps the keys.
    for target in &targets {
        answers(&bearer(target, &issuer), 200).await;
    }
    drop(keys);
    answering.send_replace(false);
    for target in &targets {
        answers(&bearer(target, &issuer), 200).await;
        answers(target, 401).await;
    }
    // A new Envoy accepts the inline keys alone, and no token without a key.
    site.envoy.restart();
    site.envoy.wait_ready().await;
    for (target, host) in targets.iter().zip(asked.iter().cycle()) {
        match host.contains("kept") {
            true => answers(&bearer(target, &other), 200).await,
            false => answers(&bearer(target, &issuer), 401).await,
        }
    }
}

/// The headers that a policy changes, for forwarded requests and for answers of Envoy.
#[tokio::test(flavor = "multi_thread")]
async fn headers_are_changed() {
    let (mut objects, asked) = hosts(&["headers"]);
    let echo = Echo::start().await;
    objects.push(service("echo", "", &[echo.address]));
    let site = Site::open(Mode::Delta, "", &["headers.test", "*.headers.test"], &objects).await;
    let changes = "requestHeaders: { set: [{ name: x-team, value: '100% front' }], add: [{ name: x-hop, value: two }], remove: [x-debug] }\n  \
                   responseHeaders: { set: [{ name: x-frame-options, value: DENY }], remove: [content-type] }";
    site.manifests.write("policies.yaml", &policies("headers", changes));
    for (tls, host) in [false, true].iter().flat_map(|tls| asked.iter().map(move |host| (*tls, host))) {
        let target = site.target(host, tls);
        let changed = async || target.get("/").await.is_ok_and(|answer| answer.header("x-frame-options") == "DENY");
        wait_everywhere(host, changed).await;
        let answer = get(&target, "/", &[("x-team", "back"), ("x-hop", "one"), ("x-debug", "1")]).await;
        let text = answer.text();
        assert_eq!(received(&answer, "x-team").as_deref(), Some("100% front"), "{host}: {text}");
        assert!(text.contains("x-hop: one") && text.contains("two") && !text.contains("x-debug"), "{host}: {text}");
        assert!(!text.contains("back"), "{host}: {text}");
    }
}
