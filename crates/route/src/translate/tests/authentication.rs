//! The features of HTTPPolicies that authenticate clients: their faults, and their Secrets and servers.

use super::gateway::translated;
use crate::model::{Action, Host, Jwks, KeySource, OriginHost, Route};
use crate::objects::gateway::{ApiKeySourceSpec, ApiKeysSpec, Lenient};
use crate::objects::{Kind, Object, ObjectKey, Objects};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::objects::{class, ingress, secret, service, world};
use crate::translate::{ChangedInputs, Input, Translator};

/// The Ingress `shop` of `x.test`, `other` of `y.test`, the Service `a`, and these objects.
fn shop(more: impl IntoIterator<Item = Object>) -> Objects {
    let ingresses = [("shop", "x.test"), ("other", "y.test")].map(|(name, host)| {
        let ingress: Object = ingress(name).host(host).path("Prefix", "/", "a:80").into();
        ingress
    });
    let base: [Object; 2] = [class("ours").into(), service("a").port("http", 80).into()];
    let mut objects = Objects::default();
    for object in base.into_iter().chain(ingresses).chain(more) {
        objects.apply(object);
    }
    objects
}

fn policy() -> HttpPolicyBuilder {
    http_policy("limits").target("Ingress", "shop")
}

fn route<'a>(translator: &'a Translator, host: &str) -> &'a Route {
    let host = &translator.model().plain("http").expect("a listener").hosts[&Host::Exact(host.into())];
    host.routes.first().expect("a route")
}

fn is_closed(translator: &Translator) -> bool {
    matches!(route(translator, "x.test").action, Action::Respond { status: 403, .. })
}

/// Returns the problems of these objects, and whether the target is closed.
fn outcome(objects: impl IntoIterator<Item = Object>) -> (Vec<String>, bool) {
    let translator = translated(&shop(objects));
    assert!(!matches!(route(&translator, "y.test").action, Action::Respond { .. }), "the other host is served");
    let problems =
        translator.problems().iter().map(|one| format!("{}: {}; {}", one.field, one.message, one.consequence));
    (problems.collect(), is_closed(&translator))
}

fn users() -> Object {
    secret("users", &[]).without_pair().password("ann").into()
}

fn clients() -> Object {
    secret("clients", &[]).without_pair().api_key("app", "one").api_key("batch", "two").into()
}

fn grant(kind: &str) -> Object {
    reference_grant("other/grant").from("HTTPPolicy", "shop").from_group("lockgate.dev").to(kind, "").into()
}

const CLOSED: &str = "requests to its targets are answered 403";
const LEFT_OUT: &str = "this client is not authenticated";

#[test]
fn a_feature_without_usable_credentials_closes_its_targets() {
    let elsewhere: Object = secret("other/users", &[]).without_pair().password("ann").into();
    let pair: Object = secret("users", &["x.test"]).into();
    let faulty: Object = secret("users", &[]).without_pair().password("ann").credential_fault("bad").into();
    let empty = secret("clients", &[]).without_pair().api_key("app", "one");
    let empty: Object = empty.credential_fault("worse").with_credentials(|one| one.clients.clear()).into();
    let missing = "Secret \"shop/users\" does not exist, or has neither \".htpasswd\" nor \"auth\"";
    let none = "Secret \"shop/clients\" of type \"lockgate.dev/api-keys\" does not exist";
    let https = "the URI is https, but no BackendTLSPolicy targets this port of the Service";
    let cases: Vec<(&str, Vec<Object>, HttpPolicyBuilder, Option<String>)> = vec![
        ("users", vec![users()], policy().users_of("users"), None),
        (
            "no Secret",
            vec![],
            policy().users_of("users"),
            Some(format!("basicAuthentication.secretRef: {missing}; {CLOSED}")),
        ),
        (
            "a key pair",
            vec![pair],
            policy().users_of("users"),
            Some(format!("basicAuthentication.secretRef: {missing}; {CLOSED}")),
        ),
        (
            "one faulty entry",
            vec![faulty],
            policy().users_of("users"),
            Some(format!("basicAuthentication.secretRef: Secret \"shop/users\": bad; {LEFT_OUT}")),
        ),
        (
            "another namespace",
            vec![elsewhere.clone()],
            policy().users_of("other/users"),
            Some(format!(
                "basicAuthentication.secretRef.namespace: no ReferenceGrant permits the reference to Secret \"other/users\"; {CLOSED}"
            )),
        ),
        ("a grant", vec![elsewhere, grant("Secret")], policy().users_of("other/users"), None),
        ("clients", vec![clients()], policy().api_keys_of(&["clients"]), None),
        (
            "passwords for keys",
            vec![users()],
            policy().api_keys_of(&["users"]),
            Some(format!("apiKeys.secretRefs[0]: {}; {CLOSED}", none.replace("clients", "users"))),
        ),
        (
            "no entry",
            vec![empty],
            policy().api_keys_of(&["clients"]),
            Some(format!("apiKeys.secretRefs[0]: Secret \"shop/clients\" has no usable entry: worse; {CLOSED}")),
        ),
        (
            "the same Secret twice",
            vec![clients()],
            policy().api_keys_of(&["clients", "clients"]),
            Some(format!(
                "apiKeys.secretRefs[1]: Secret \"shop/clients\": the client \"app\" has the key of another client; {LEFT_OUT}"
            )),
        ),
        ("a server", vec![], policy().keys_of("http://login.test/keys", "a"), None),
        (
            "a server without TLS",
            vec![],
            policy().keys_of("https://login.test/keys", "a"),
            Some(format!("jwt.providers[0].jwks.remote.backendRef: {https}; {CLOSED}")),
        ),
        (
            "no server",
            vec![],
            policy().keys_of("http://login.test/keys", "gone"),
            Some(format!("jwt.providers[0].jwks.remote.backendRef: Service \"shop/gone\" does not exist; {CLOSED}")),
        ),
        (
            "a server of another namespace",
            vec![],
            policy().keys_of("http://login.test/keys", "other/a"),
            Some(format!(
                "jwt.providers[0].jwks.remote.backendRef.namespace: no ReferenceGrant permits the reference to Service \"other/a\"; {CLOSED}"
            )),
        ),
        (
            "no URI",
            vec![],
            policy().keys_of("login.test", "a"),
            Some(format!(
                "jwt.providers[0].jwks.remote.uri: \"login.test\" is not a URI such as https://login.example.com/keys; {CLOSED}"
            )),
        ),
        ("headers", vec![], policy().headers("x-team", "front"), None),
        (
            "a header of Envoy",
            vec![],
            policy().headers("x-envoy-retry-on", "5xx"),
            Some(format!(
                "requestHeaders.set[0].name: header \"x-envoy-retry-on\" cannot be changed: it controls Envoy; {CLOSED}"
            )),
        ),
        ("pages", vec![], policy().pages(&["app.test", "*.test", "app.test:8443"]), None),
        ("scripts", vec![], policy().scripts_of(&["https://app.test", "http://*.app.test:8080", "*"]), None),
        (
            "no origin",
            vec![],
            policy().scripts_of(&["https://app.test", "https://app.test/"]),
            Some(format!(
                "cors.allowOrigins[1]: \"https://app.test/\" is not an origin such as https://app.example.com, https://*.example.com, or *; {CLOSED}"
            )),
        ),
        (
            "no page",
            vec![],
            policy().pages(&["app.test", "https://app.test"]),
            Some(format!(
                "csrf.additionalOrigins[1]: \"https://app.test\" is not a host such as app.example.com, app.example.com:8443, or *.example.com; {CLOSED}"
            )),
        ),
    ];
    for (what, objects, policy, expected) in cases {
        let (problems, closed) = outcome(objects.into_iter().chain([policy.into()]));
        let expected: Vec<String> = expected.into_iter().map(|text| format!("spec.{text}")).collect();
        // The same key of two entries is reported for each.
        let shown: Vec<&String> = problems.iter().take(expected.len().max(1)).collect();
        assert_eq!(shown, expected.iter().collect::<Vec<_>>(), "{what}: {problems:?}");
        assert_eq!(closed, expected.iter().any(|text| text.contains(CLOSED)), "{what}: {problems:?}");
    }
}

/// Returns the problem of a policy with API keys after a change.
fn fault_of_keys(change: impl FnOnce(&mut ApiKeysSpec)) -> String {
    let policy = policy().api_keys_of(&["clients"]).spec(|spec| match &mut spec.api_keys {
        Some(Lenient::Valid(keys)) => change(keys),
        other => panic!("{other:?}"),
    });
    let (problems, closed) = outcome([clients(), policy.into()]);
    assert!(closed && problems.len() == 1, "{problems:?}");
    problems.into_iter().next().unwrap_or_default()
}

#[test]
fn the_values_of_manifests_are_checked() {
    let source = |header: Option<&str>, query: Option<&str>, cookie: Option<&str>| {
        let [header, query, cookie] = [header, query, cookie].map(|text| text.map(str::to_owned));
        ApiKeySourceSpec { header, query, cookie }
    };
    let problem = fault_of_keys(|keys| keys.sources.clear());
    assert!(problem.starts_with("spec.apiKeys.sources: not between 1 and 4 sources"), "{problem}");
    let problem = fault_of_keys(|keys| keys.secret_refs.clear());
    assert!(problem.starts_with("spec.apiKeys.secretRefs: not between 1 and 16"), "{problem}");
    let problem = fault_of_keys(|keys| keys.client_header = Some("content-length".into()));
    assert!(problem.starts_with("spec.apiKeys.clientHeader: "), "{problem}");
    for (odd, expected) in [
        (source(None, None, None), "spec.apiKeys.sources[0]: not exactly one of header, query, and cookie"),
        (source(Some("a"), Some("b"), None), "spec.apiKeys.sources[0]: not exactly one of header, query, and cookie"),
        (source(Some("a b"), None, None), "spec.apiKeys.sources[0].header: \"a b\" is not a header"),
        (source(None, Some("a&b"), None), "spec.apiKeys.sources[0].query: \"a&b\" is not a parameter of letters"),
        (source(None, None, Some("a=b")), "spec.apiKeys.sources[0].cookie: \"a=b\" is not the name of a cookie"),
    ] {
        let problem = fault_of_keys(|keys| keys.sources = vec![odd]);
        assert!(problem.starts_with(expected), "{problem}");
    }
}

#[test]
fn the_parts_of_a_feature_reach_the_route() {
    let all = policy().users_of("users").api_keys_of(&["clients"]).pages(&["*.app.test", "app.test:1"]);
    let all = all.keys_of("http://login.test/keys", "a");
    let translator = translated(&shop([users(), clients(), all.into()]));
    let policy = route(&translator, "x.test").policy().expect("a policy");
    let users = policy.basic_authentication.as_ref().expect("users");
    assert_eq!((&*users.users[0].0, &*users.users[0].1), ("ann", "{SHA}ann"));
    let keys = policy.api_keys.as_ref().expect("keys");
    assert_eq!(
        keys.clients.iter().map(|(name, key)| (&**name, &**key)).collect::<Vec<_>>(),
        [("app", "one"), ("batch", "two")]
    );
    assert!(matches!(&keys.sources[..], [KeySource::Header(name)] if name.to_string() == "x-api-key"));
    let origins = &policy.csrf.as_ref().expect("pages").additional_origins;
    assert_eq!(origins[..], [OriginHost::Suffix(".app.test".into()), OriginHost::Exact("app.test:1".into())]);
    let jwt = policy.jwt.as_ref().expect("tokens");
    assert!(jwt.waits() && matches!(&jwt.providers[0].jwks, Jwks::Remote(remote) if remote.fallback.is_none()));
    assert_eq!(policy.clusters().map(ToString::to_string).collect::<Vec<_>>(), ["shop/a/http"]);
    assert!(translator.model().clusters.keys().any(|id| id.to_string() == "shop/a/http"));
    let shown = format!("{:?}", route(&translator, "x.test"));
    assert!(!shown.contains("{SHA}") && !shown.contains("two"), "{shown}");
}

#[test]
fn a_changed_secret_rebuilds_only_the_hosts_of_its_policies() {
    let mut objects = shop([users(), policy().users_of("users").into()]);
    let (mut translator, settings) = (Translator::default(), Settings::default());
    translator.update(&objects, &settings, &ChangedInputs::everything());
    assert!(!is_closed(&translator));
    let mut update = |object: Option<Object>| {
        match object {
            Some(object) => objects.apply(object),
            None => objects.delete(Kind::SECRET, &ObjectKey::new("shop", "users")),
        };
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::SECRET, ObjectKey::new("shop", "users")));
        let update = translator.update(&objects, &settings, &changed);
        let hosts: Vec<String> = update.touched.hosts_of("http").iter().map(ToString::to_string).collect();
        (hosts, is_closed(&translator))
    };
    let touched = vec!["x.test".to_owned()];
    assert_eq!(update(Some(secret("users", &[]).without_pair().password("bob").into())), (touched.clone(), false));
    assert_eq!(update(None), (touched.clone(), true), "passwords of a deleted Secret are not valid");
    assert_eq!(update(Some(users())), (touched, false));
}

/// Unlike a key pair, credentials of a deleted Secret are forgotten.
#[test]
fn a_secret_that_also_has_a_key_pair_loses_its_credentials() {
    let mut objects = world().objects.into_iter().fold(Objects::default(), |mut all, object| {
        all.apply(object);
        all
    });
    objects.apply(secret("users", &["x.test"]).password("ann").into());
    let key = ObjectKey::new("shop", "users");
    let of = |objects: &Objects| {
        let secret = objects.get::<crate::objects::Secret>(&key).expect("a Secret");
        (secret.pair.is_some(), secret.credentials.is_some())
    };
    assert_eq!(of(&objects), (true, true));
    objects.delete(Kind::SECRET, &key);
    assert_eq!(of(&objects), (true, false));
}
