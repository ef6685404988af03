//! The login at a real OpenID provider, the example server of a certified library, on hosts of plain HTTP and TLS, with the cookies of a
//! browser.

use std::path::Path;

use e2e::apiserver::lab;
use e2e::browser::{Cookies, path_of, relative, submit};
use e2e::manifests::{documents, ingress, service};
use e2e::process::Process;
use e2e::{Echo, Manifests, Mode, Target, ports, wait_everywhere, wait_until};

use super::{Site, answers, policy, status};

/// The application and the user that the provider knows.
const CLIENT: (&str, &str) = ("web", "secret");
const USER: (&str, &str) = ("test-user@localhost", "verysecure");
const HOSTS: [&str; 2] = ["shop.test", "a.wild.test"];

/// Returns the Secret with the secret of the application.
fn secret(text: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Secret\nmetadata: {{ name: login, namespace: default }}\nstringData: {{ client-secret: {text} }}\n"
    )
}

/// Logs the user in at the provider. Returns the path of the redirect to the application.
async fn at_provider(provider: &Target, authorize: &str) -> String {
    let asked = provider.get(authorize).await.expect("an answer");
    assert_eq!(asked.status, 302, "{}", asked.text());
    let form = asked.header("location").to_owned();
    let id = form.split_once("authRequestID=").expect("the identifier of the request").1.to_owned();
    let sent = submit(provider, "/login/username", &[("username", USER.0), ("password", USER.1), ("id", &id)]).await;
    assert_eq!(sent.status, 302, "{}", sent.text());
    let back = provider.get(&relative(sent.header("location"))).await.expect("an answer");
    assert_eq!(back.status, 302, "{}", back.text());
    path_of(back.header("location"))
}

/// Logs in as a browser. Returns the cookies.
async fn log_in(target: &Target, provider: &Target, path: &str) -> Cookies {
    let mut cookies = Cookies::default();
    let first = cookies.get(target, path).await;
    assert_eq!(first.status, 302, "{}", first.text());
    let callback = at_provider(provider, &path_of(first.header("location"))).await;
    assert!(callback.starts_with("/oauth2/callback?"), "{callback}");
    let done = cookies.get(target, &callback).await;
    assert_eq!(done.status, 302, "{}", done.text());
    assert!(done.header("location").ends_with(path), "{}", done.header("location"));
    cookies
}

async fn users_log_in(mode: Mode, settings: &str) {
    let echo = Echo::start().await;
    let port = ports::free();
    let ingresses = [
        ingress("shop", HOSTS[0], "echo", Some("cert")),
        ingress("wild", "WILD", "echo", Some("cert")).replace("WILD", "'*.wild.test'"),
        service("echo", "", &[echo.address]),
        service("login", "", &[([127, 0, 0, 1], port).into()]),
    ];
    let site = Site::open(mode, settings, &["shop.test", "*.wild.test"], &ingresses).await;
    let schemes = [(false, "http"), (true, "https")];
    let permitted: Vec<String> = schemes
        .iter()
        .flat_map(|(_, scheme)| HOSTS.iter().map(move |host| format!("{scheme}://{host}/oauth2/callback")))
        .collect();
    let program = lab("oidc-provider").display().to_string();
    let arguments = [format!("PORT={port}"), format!("REDIRECT_URI={}", permitted.join(",")), program];
    let files = Manifests::new();
    let _process = Process::start("the provider", Path::new("/usr/bin/env"), &arguments, &files.file("provider.log"));
    let provider = Target::http(port, &format!("localhost:{port}"));
    wait_until("the provider", async || provider.get("/healthz").await.is_ok_and(|answer| answer.status == 200)).await;

    let targets: Vec<Target> =
        schemes.iter().flat_map(|(tls, _)| HOSTS.iter().map(|host| site.target(host, *tls))).collect();
    for target in &targets {
        answers(target, 200).await;
    }
    let issuer = format!("http://localhost:{port}");
    let spec = format!(
        "oidc:\n    provider:\n      authorizationEndpoint: {issuer}/auth\n      tokenEndpoint: {issuer}/oauth/token\n      \
         endSessionEndpoint: {issuer}/end_session\n      backendRef: {{ name: login, port: 80 }}\n    clientID: {}\n    \
         clientSecretRef: {{ name: login }}\n    scopes: [email, offline_access]\n    forwardAccessToken: true",
        CLIENT.0
    );
    let policies = [policy("shop", &spec), policy("wild", &spec)];
    site.manifests.write("login.yaml", &documents(&[&[secret(CLIENT.1)], &policies[..]].concat()));
    for target in &targets {
        answers(target, 302).await;
    }
    let mut sessions = Vec::new();
    for target in &targets {
        let mut cookies = log_in(target, &provider, "/cart?item=1").await;
        let answer = cookies.get(target, "/cart?item=1").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        assert!(answer.text().contains("authorization: Bearer "), "{}", answer.text());
        // No changed part of a session is accepted. With its refresh token, Envoy would ask the provider for a new one.
        let refresh = cookies.names().find(|name| name.contains("refresh")).expect("a refresh token").clone();
        for name in cookies.names().filter(|name| !name.contains("nonce") && !name.contains("verifier")) {
            let mut changed = cookies.clone();
            changed.remove(&refresh);
            changed.insert(name, "forged");
            assert_eq!(changed.get(target, "/").await.status, 302, "{name}");
        }
        let script = target.clone().field("sec-fetch-mode", "cors");
        assert_eq!(status(&script, "/").await, 401);
        let posing = target.clone().field("authorization", "Bearer e30.e30.e30");
        assert_eq!(status(&posing, "/").await, 302, "a token of the client is no login");
        assert_eq!(status(target, "/oauth2/callback?code=1&state=2").await / 100, 4, "no login has begun");
        sessions.push(cookies);
    }
    // A session of another host is none.
    for (target, cookies) in targets.iter().zip(sessions.iter().skip(1)).step_by(2) {
        assert_eq!(cookies.clone().get(target, "/").await.status, 302);
    }
    // A change of the policy keeps the sessions, and the logout ends them.
    let changed = policies.clone().map(|policy| policy.replace("[email, ", "[email, profile, "));
    site.manifests.write("login.yaml", &documents(&[&[secret(CLIENT.1)], &changed[..]].concat()));
    for (target, cookies) in targets.iter().zip(&sessions) {
        let has_changed = async || {
            let asked = target.get("/").await.expect("an answer");
            let kept = cookies.clone().get(target, "/").await.status;
            assert_eq!((asked.status, kept), (302, 200));
            asked.header("location").contains("profile")
        };
        wait_everywhere("the changed policy", has_changed).await;
        let mut leaving = cookies.clone();
        let left = leaving.get(target, "/oauth2/logout").await;
        assert_eq!((left.status, left.header("location").starts_with(&format!("{issuer}/end_session"))), (302, true));
        assert_eq!(leaving.get(target, "/").await.status, 302);
    }
    // Another secret ends all sessions. Without one, nobody is served.
    site.manifests.write("login.yaml", &documents(&[&[secret("another")], &policies[..]].concat()));
    for (target, cookies) in targets.iter().zip(&sessions) {
        wait_everywhere("the end of sessions", async || cookies.clone().get(target, "/").await.status == 302).await;
    }
    site.manifests.write("login.yaml", &documents(&policies));
    for target in &targets {
        answers(target, 403).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_at_a_provider() {
    users_log_in(Mode::Delta, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_at_a_provider_by_the_state_of_the_world() {
    users_log_in(Mode::Sotw, "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_at_a_provider_with_one_route_configuration() {
    users_log_in(Mode::Delta, "routes: { discovery: rds }\n").await;
}
