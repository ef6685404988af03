//! Logins at Dex, by the policy `oidc` and by oauth2-proxy as the authorization server.

use e2e::browser::{Cookies, follow, path_of, relative, submit};
use e2e::client::Answer;
use e2e::lab::{Installation, Namespace, echo, echo::Echoed};
use e2e::{Authority, Lab, Target, wait_everywhere};
use hyper::Method;
use serde_json::Value;

use super::{Page, lockgate};

/// The user of `e2e/lab/dex.yaml`.
const USER: [(&str, &str); 2] = [("login", "ann@example.com"), ("password", "password")];

/// Dex, a backend, and the hosts of a spec. A namespace owns a host for a minute after its end, so each spec has hosts of its own.
struct Site<'a> {
    space: Namespace<'a>,
    hosts: [String; 2],
    authority: Authority,
    provider: Target,
}

impl<'a> Site<'a> {
    async fn open(lab: &'a Lab, lockgate: &Installation<'_>, name: &str) -> Self {
        let space = lab.namespace("shop").await;
        let hosts = ["shop", "login"].map(|part| format!("{part}-{name}.example.com"));
        let authority = Authority::new();
        let secrets = ["shop-tls", "login-tls"]
            .iter()
            .zip(&hosts)
            .map(|(secret, host)| format!("{}---\n", authority.issue(&[host]).secret(&space.name, secret)));
        space.apply(&format!("{}{}", secrets.collect::<String>(), echo("web").port(80).yaml())).await;
        let provider = lockgate.https(&hosts[1], authority.der());
        let site = Self { space, hosts, authority, provider };
        let dex = std::fs::read_to_string(e2e::pages::file("e2e/lab/dex.yaml")).expect("the manifest of Dex");
        site.space.apply(&site.adapt(&dex)).await;
        site.space.rolled_out("deployment/dex").await;
        site.space.rolled_out("deployment/web").await;
        site
    }

    /// Replaces the namespace and the hosts of a manifest.
    fn adapt(&self, manifest: &str) -> String {
        let Self { space: Namespace { name, .. }, hosts: [shop, login], .. } = self;
        let spaced = manifest.replace("namespace: shop\n", &format!("namespace: {name}\n"));
        let spaced = spaced.replace("dex.shop.svc", &format!("dex.{name}.svc"));
        spaced.replace("shop.example.com", shop).replace("login.example.com", login)
    }

    /// Logs the user in at the login page of Dex. Returns the path of the redirect to the application.
    async fn log_in(&self, authorize: &str) -> String {
        let [shop, login] = &self.hosts;
        let prefix = format!("https://{login}/");
        let authorize = authorize.strip_prefix(&prefix).unwrap_or_else(|| panic!("{authorize}: not the provider"));
        let is_within = |location: &str| location.starts_with('/') || location.starts_with(&prefix);
        let (form, page) = follow(&self.provider, &format!("/{authorize}"), is_within).await;
        assert!(page.status == 200 && page.text().contains("name=\"password\""), "{} {}", page.status, page.text());
        let wrong = submit(&self.provider, &form, &[USER[0], ("password", "wrong")]).await;
        assert!(wrong.header("location").is_empty() && wrong.text().contains("Invalid"), "{}", wrong.text());
        let sent = submit(&self.provider, &form, &USER).await;
        let (_, back) = follow(&self.provider, &relative(sent.header("location")), is_within).await;
        let location = back.header("location");
        assert!(location.starts_with(&format!("https://{shop}/oauth2/callback?")), "{} {location}", back.status);
        path_of(location)
    }
}

/// Returns a header field that the backend received.
fn received(answer: &Answer, name: &str) -> Value {
    let echoed = Echoed::of(answer).unwrap_or_else(|| panic!("{} {}", answer.status, answer.text()));
    echoed.headers[name][0].clone()
}

/// Waits until requests without a session have this status.
async fn answers(target: &Target, path: &str, status: u16) {
    let same = async || target.get(path).await.is_ok_and(|answer| answer.status == status);
    wait_everywhere(&format!("{path} with {status}"), same).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_log_in_at_dex() {
    let lab = Lab::alone().await;
    let lockgate = lockgate(&lab).await;
    let site = Site::open(&lab, &lockgate, "dex").await;
    let ingress = Page::read("docs/tasks/authentication.md").block("kind: Ingress\n");
    let ingress =
        ingress.split("---\n").find(|object| object.contains("name: shop\n  namespace: shop\nspec:\n  ingress"));
    site.space.apply(&site.adapt(ingress.expect("the Ingress"))).await;
    let target = lockgate.https(&site.hosts[0], site.authority.der());
    answers(&target, "/", 200).await;

    let page = Page::read("docs/tasks/oidc.md");
    let command = page.block("kubectl --namespace shop");
    let words = command.split_whitespace().skip(1).map(|word| if word == "shop" { &site.space.name } else { word });
    lab.kubectl(&words.collect::<Vec<_>>(), "").await;
    let endpoints = site.provider.get("/.well-known/openid-configuration").await.expect("an answer").text();
    let policy = page.block("\n  oidc:\n");
    assert!(policy.contains("https://login.example.com/auth\n") && policy.contains("http://dex.shop.svc/token\n"));
    for (field, path) in [("authorization_endpoint", "auth"), ("token_endpoint", "token")] {
        assert!(endpoints.contains(&format!("\"{field}\": \"https://{}/{path}\"", site.hosts[1])), "{endpoints}");
    }
    site.space.apply(&site.adapt(&policy)).await;
    answers(&target, "/", 302).await;
    let mut cookies = Cookies::default();
    let first = cookies.get(&target, "/cart?item=1").await;
    let callback = site.log_in(first.header("location")).await;
    let done = cookies.get(&target, &callback).await;
    assert_eq!((done.status, path_of(done.header("location"))), (302, "/cart?item=1".to_owned()), "{}", done.text());
    assert!(received(&cookies.get(&target, "/cart?item=1").await, "Authorization").is_null());

    let policy = Page::read("docs/policies.md").block("\n  oidc:\n");
    // Dex of the lab has its own Service, with the labels of the documented one.
    site.space.apply(&site.adapt(&policy)).await;
    let has_changed = async || {
        let asked = target.get("/").await;
        asked.is_ok_and(|asked| asked.header("location").contains("groups"))
    };
    wait_everywhere("the policy of the reference", has_changed).await;
    let mut cookies = Cookies::default();
    let first = cookies.get(&target, "/cart?item=1").await;
    let callback = site.log_in(first.header("location")).await;
    let done = cookies.get(&target, &callback).await;
    assert_eq!((done.status, path_of(done.header("location"))), (302, "/cart?item=1".to_owned()), "{}", done.text());
    let answer = cookies.get(&target, "/cart?item=1").await;
    let token = received(&answer, "Authorization");
    assert!(token.as_str().is_some_and(|token| token.starts_with("Bearer ey")), "{token}");
    println!("a session of Dex: {}, cookies {:?}", answer.status, cookies.names().collect::<Vec<_>>());
    assert_eq!(target.get("/cart").await.expect("an answer").status, 302);
    let left = cookies.get(&target, "/oauth2/logout").await;
    let end = format!("https://{}/logout", site.hosts[1]);
    assert!(left.status == 302 && left.header("location").starts_with(&end), "{}", left.header("location"));
    assert_eq!(cookies.get(&target, "/").await.status, 302);
}

/// Tests the logins of oauth2-proxy on a host whose routes ask it.
async fn oauth2_proxy_protects(site: &Site<'_>, target: &Target) {
    let target = &target.clone().field("accept", "text/html");
    answers(target, "/", 302).await;
    let mut cookies = Cookies::default();
    let first = cookies.get(target, "/cart?item=1").await;
    println!("without a session: {} {}", first.status, first.header("location"));
    assert_eq!(first.status, 302, "{}", first.text());
    let script = target.clone().field("accept", "application/json");
    let refused = script.get("/").await.expect("an answer");
    assert_eq!(refused.status, 401);
    let sent = target.send(Method::POST, "/cart", "item=1").await.expect("an answer");
    assert_eq!(sent.status, 302, "{}", sent.text());

    let callback = site.log_in(first.header("location")).await;
    let done = cookies.get(target, &callback).await;
    assert_eq!((done.status, done.header("location")), (302, "/cart?item=1"), "{}", done.text());
    let answer = cookies.get(target, "/cart?item=1").await;
    println!("with a session: {}", answer.status);
    assert_eq!(received(&answer, "X-Auth-Request-Email"), USER[0].1);
    assert!(received(&answer, "X-Auth-Request-User").is_string());
    // The names of another user do not reach the backend.
    let posing = ["x-auth-request-user", "x-auth-request-email"];
    let posing = posing.iter().fold(target.clone(), |target, name| target.field(name, "root@example.com"));
    let answer = cookies.get(&posing, "/").await;
    assert_eq!(received(&answer, "X-Auth-Request-Email"), USER[0].1);
    assert_ne!(received(&answer, "X-Auth-Request-User"), "root@example.com");
    // A listed header of the client is removed, also if the answer of oauth2-proxy lacks it. Dex sends no groups.
    let headers = r#"["x-auth-request-user", "x-auth-request-groups"]"#;
    let path = "/spec/externalAuthorization/http/allowedUpstreamHeaders";
    let patch = format!(r#"[{{"op": "replace", "path": "{path}", "value": {headers}}}]"#);
    site.space.kubectl(&["patch", "httppolicy", "login", "--type=json", "--patch", &patch], "").await;
    let posing = target.clone().field("x-auth-request-groups", "admins");
    let changed = async || {
        Echoed::of(&cookies.clone().get(&posing, "/").await)
            .is_some_and(|echoed| echoed.headers["X-Auth-Request-Email"].is_null())
    };
    wait_everywhere("the changed policy", changed).await;
    let answer = Echoed::of(&cookies.get(&posing, "/").await).expect("an answer of the backend");
    assert!(answer.headers["X-Auth-Request-Groups"].is_null(), "{:?}", answer.headers);
    // Paths that oauth2-proxy answers without a session reach no backend.
    for path in OPEN {
        let answer = target.get(path).await.expect("an answer");
        let is_served = Echoed::of(&answer).is_some();
        assert_eq!(is_served, path == "/robots.txt", "{path}: {}", answer.text());
    }

    let mut forged = cookies.clone();
    for name in cookies.names() {
        forged.insert(name, "forged");
    }
    assert_eq!(forged.get(target, "/").await.status, 302);
    let left = cookies.get(target, "/oauth2/sign_out").await;
    assert_eq!(left.status, 302, "{}", left.text());
    assert_eq!(cookies.get(target, "/").await.status, 302);
}

/// Paths that mean those of oauth2-proxy itself, or look like them. `/robots.txt` alone reaches the backend.
const OPEN: [&str; 14] = [
    "/ping",
    "/ready",
    "/robots.txt",
    "/oauth2/ping",
    "/oauth2/sign_in",
    "/oauth2/auth",
    "/oauth2/static/css/all.min.css",
    "/OAuth2/sign_in",
    "/%6fauth2/sign_in",
    "/oauth2%2fsign_in",
    "//oauth2/sign_in",
    "/cart/../oauth2/sign_in",
    "/oauth2;a/sign_in",
    "/cart/%2e%2e/oauth2/ping",
];

#[tokio::test(flavor = "multi_thread")]
async fn users_of_an_ingress_log_in_at_oauth2_proxy() {
    let lab = Lab::alone().await;
    let lockgate = lockgate(&lab).await;
    let site = Site::open(&lab, &lockgate, "ingress").await;
    let manifests = Page::read("docs/tasks/authentication.md").block("image: quay.io/oauth2-proxy");
    site.space.apply(&site.adapt(&manifests)).await;
    site.space.rolled_out("deployment/oauth2-proxy").await;
    oauth2_proxy_protects(&site, &lockgate.https(&site.hosts[0], site.authority.der())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn users_of_an_http_route_log_in_at_oauth2_proxy() {
    let lab = Lab::alone().await;
    let lockgate = lockgate(&lab).await;
    let site = Site::open(&lab, &lockgate, "route").await;
    let manifests = Page::read("docs/tasks/authentication.md").block("image: quay.io/oauth2-proxy");
    let others: Vec<&str> =
        manifests.split("---\n").filter(|object| !object.contains("kind: Ingress\nmetadata")).collect();
    let target = "group: networking.k8s.io, kind: Ingress, name: shop";
    let others = others.join("---\n").replace(target, "group: gateway.networking.k8s.io, kind: HTTPRoute, name: shop");
    let route = |name: &str, path: &str, service: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name} }}\nspec:\n  parentRefs: [{{ name: \
             public }}]\n  hostnames: [shop.example.com]\n  rules:\n  - matches: [{{ path: {{ value: {path} }} }}]\n    backendRefs: \
             [{{ name: {service}, port: 80 }}]\n"
        )
    };
    let gateway = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: { name: public }\nspec:\n  gatewayClassName: \
                   lockgate\n  listeners:\n  - { name: https, port: 443, protocol: HTTPS, tls: { certificateRefs: [{ name: shop-tls }] } }\n";
    let routes = [route("shop", "/", "web"), route("login", "/oauth2", "oauth2-proxy")].concat();
    site.space.apply(&site.adapt(&format!("{others}{gateway}{routes}"))).await;
    site.space.rolled_out("deployment/oauth2-proxy").await;
    let address = lab.address(&site.space.name, "public-lockgate").await;
    let target = Target::https(443, &site.hosts[0], site.authority.der()).at(address);
    oauth2_proxy_protects(&site, &target).await;
}
