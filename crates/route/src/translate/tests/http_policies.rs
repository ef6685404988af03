//! HTTPPolicies: their effects, and the parts that they must not affect.

use super::gateway::{conditions, translated, world_of};
use crate::model::{Action, Host, Route, Touched};
use crate::objects::gateway::{
    AuthorizationBody, ExternalAuthorizationSpec, JwksSpec, JwtProviderSpec, JwtSpec, PolicyBackend, SessionPersistence,
};
use crate::objects::{Kind, Object, ObjectKey, Objects};
use crate::settings::{Module, Settings};
use crate::testing::gateway::*;
use crate::testing::objects::service;
use crate::translate::{ChangedInputs, Input, Translator};

/// The Gateway `public`, and the routes `one` and `two` of the host `x.test`, for `/one` and `/two`.
fn shop(more: impl IntoIterator<Item = Object>) -> Objects {
    let public: Object = gateway("public").listener("http", 80, "HTTP").into();
    let route = |name: &str| -> Object {
        let route = http_route(name).parent("public").host("x.test");
        route.rule(&format!("/{name}"), "a:80").rule_name("all").into()
    };
    let base = [public, gateway_service("public", &[(80, 10_000)]), route("one"), route("two")];
    world_of(base.into_iter().chain(more))
}

/// Returns the route of the host for a name.
fn route<'a>(translator: &'a Translator, name: &str) -> &'a Route {
    let plain = translator.model().plain("gateway/shop/public/80").expect("a listener");
    let host = &plain.hosts[&Host::Exact("x.test".into())];
    host.routes.iter().find(|route| &*route.origin.name == name).expect("a route")
}

fn rate(translator: &Translator, name: &str) -> Option<u32> {
    Some(route(translator, name).policy()?.local_rate_limit.as_ref()?.requests)
}

fn is_closed(translator: &Translator, name: &str) -> bool {
    is_answered(translator, name, 403)
}

fn is_answered(translator: &Translator, name: &str, expected: u16) -> bool {
    matches!(route(translator, name).action, Action::Respond { status, .. } if status == expected)
}

#[test]
fn a_policy_of_another_namespace_has_no_effect() {
    let stranger = http_policy("other/limits").target("HTTPRoute", "one").target("Gateway", "public").allow(&["?"]);
    let translator = translated(&shop([stranger.into()]));
    for name in ["one", "two"] {
        assert!(route(&translator, name).policy().is_none() && !is_closed(&translator, name));
    }
}

#[test]
fn a_policy_that_cannot_be_enforced_closes_only_its_routes() {
    let policy = http_policy("limits").target("HTTPRoute", "one").allow(&["192.0.2.1/24"]);
    let translator = translated(&shop([policy.into()]));
    assert!(is_closed(&translator, "one") && !is_closed(&translator, "two"));
    assert_eq!(conditions(&translator, Kind::HTTP_POLICY, "limits"), ["0: Accepted=False Invalid"]);
    let problem = translator.problems().iter().next().expect("a problem").to_string();
    assert!(problem.contains("spec.clientAddresses.allow[0]: \"192.0.2.1/24\" is not an IP address"), "{problem}");
    assert!(problem.ends_with("requests to its targets are answered 403"), "{problem}");
}

#[test]
fn the_older_of_two_policies_is_in_effect() {
    let older = http_policy("older").created(1).target("HTTPRoute", "one").rate(1);
    let younger = http_policy("younger").created(2).target("HTTPRoute", "one").rate(2).body("1MiB");
    let translator = translated(&shop([older.into(), younger.into()]));
    assert_eq!(rate(&translator, "one"), Some(1));
    assert_eq!(route(&translator, "one").policy().and_then(|policy| policy.max_request_body_bytes), None);
    assert_eq!(conditions(&translator, Kind::HTTP_POLICY, "younger"), ["0: Accepted=False Conflicted"]);
}

#[test]
fn the_more_specific_policy_wins_for_each_feature() {
    let policies: [Object; 4] = [
        http_policy("gateway").target("Gateway", "public").rate(1).body("1MiB").allow(&["192.0.2.1"]).into(),
        http_policy("listener").target("Gateway", "public").section("http").rate(2).body("2MiB").into(),
        http_policy("route").target("HTTPRoute", "one").rate(3).uncompressed().into(),
        http_policy("rule").target("HTTPRoute", "one").section("all").rate(4).into(),
    ];
    let translator = translated(&shop(policies));
    assert_eq!((rate(&translator, "one"), rate(&translator, "two")), (Some(4), Some(2)));
    let policy = route(&translator, "one").policy().expect("a policy");
    assert_eq!(policy.max_request_body_bytes, Some(2 << 20));
    assert!(policy.client_addresses.is_some() && policy.compression.is_some());
    let origins: Vec<&str> = policy.origins.iter().map(|origin| &*origin.name).collect();
    assert_eq!(origins, ["rule", "route", "listener", "gateway"], "a rejection names all of them");
}

/// Returns the limits of requests, of request bodies, and of client addresses of a route.
fn effect(translator: &Translator, name: &str) -> (Option<u32>, Option<u32>, bool) {
    let policy = route(translator, name).policy().expect("a policy");
    let rate = policy.local_rate_limit.as_ref().map(|limit| limit.requests);
    (rate, policy.max_request_body_bytes, policy.client_addresses.is_some())
}

#[test]
fn the_overrides_of_the_more_general_policy_win_for_each_feature() {
    let policies: [Object; 6] = [
        http_policy("gateway").target("Gateway", "public").rate(1).overriding().into(),
        http_policy("listener").target("Gateway", "public").section("http").rate(2).body("1MiB").overriding().into(),
        http_policy("space").target("Namespace", "shop").rate(3).body("2MiB").allow(&["192.0.2.1"]).overriding().into(),
        http_policy("route").target("HTTPRoute", "one").rate(4).body("3MiB").uncompressed().into(),
        http_policy("rule").target("HTTPRoute", "one").section("all").rate(5).into(),
        http_policy("two").target("HTTPRoute", "two").rate(6).overriding().into(),
    ];
    let mut objects = shop(policies);
    let translator = translated(&objects);
    assert_eq!(effect(&translator, "one"), (Some(1), Some(1 << 20), true));
    assert_eq!(effect(&translator, "two"), (Some(1), Some(1 << 20), true));
    assert!(route(&translator, "one").policy().is_some_and(|policy| policy.compression.is_some()));
    let said = |translator: &Translator, name: &str| {
        let verdicts = translator.verdicts().get(&Kind::HTTP_POLICY.id(ObjectKey::new("shop", name)));
        let verdicts = verdicts.expect("verdicts").iter().filter(|verdict| verdict.condition == "Overridden");
        verdicts.map(|verdict| verdict.message.to_string()).collect::<Vec<_>>()
    };
    let by = |feature: &str, policy: &str| format!("{feature} by HTTPPolicy \"shop/{policy}\"");
    let rate = || by("localRateLimit", "gateway");
    assert_eq!(said(&translator, "route"), [format!("overridden: {}, {}", rate(), by("maxRequestBody", "listener"))]);
    for name in ["rule", "listener", "two"] {
        assert_eq!(said(&translator, name), [format!("overridden: {}", rate())], "{name}");
    }
    // The routes of a namespace can be attached to listeners of different Gateways.
    for name in ["gateway", "space"] {
        assert_eq!(said(&translator, name), Vec::<String>::new(), "{name}");
    }
    objects.delete(Kind::HTTP_POLICY, &ObjectKey::new("shop", "gateway"));
    let translator = translated(&objects);
    assert_eq!(effect(&translator, "one"), (Some(2), Some(1 << 20), true));
    assert_eq!(said(&translator, "rule"), [format!("overridden: {}", by("localRateLimit", "listener"))]);
}

#[test]
fn overrides_that_cannot_be_enforced_close_their_routes_whatever_a_route_sets() {
    let policies: [Object; 2] = [
        http_policy("gateway").target("Gateway", "public").allow(&["?"]).overriding().into(),
        http_policy("route").target("HTTPRoute", "one").allow(&["192.0.2.1"]).into(),
    ];
    let translator = translated(&shop(policies));
    assert!(is_closed(&translator, "one") && is_closed(&translator, "two"));
    let problem = translator.problems().iter().next().expect("a problem").to_string();
    assert!(problem.contains("spec.overrides.clientAddresses.allow[0]"), "{problem}");
}

#[test]
fn defaults_are_features_that_a_route_can_replace() {
    let defaults = http_policy("gateway").target("Gateway", "public").rate(1).body("1MiB").as_defaults().rate(2);
    let policies = [defaults.into(), http_policy("route").target("HTTPRoute", "one").body("3MiB").into()];
    let translator = translated(&shop(policies));
    assert_eq!(effect(&translator, "one"), (Some(2), Some(3 << 20), false));
    assert_eq!(effect(&translator, "two"), (Some(2), Some(1 << 20), false));
}

#[test]
fn a_server_of_another_namespace_needs_a_grant() {
    let backend_ref = PolicyBackend { name: "auth".into(), namespace: Some("other".into()), port: 80 };
    let authorization = ExternalAuthorizationSpec { backend_ref, ..ExternalAuthorizationSpec::default() };
    let policy = http_policy("limits").target("HTTPRoute", "one");
    let policy: Object = policy.spec(|spec| spec.external_authorization = Some(authorization.into())).into();
    let server: Object = service("other/auth").port("http", 80).into();
    let mut objects = shop([policy, server]);
    let translator = translated(&objects);
    assert!(is_closed(&translator, "one") && !is_closed(&translator, "two"));
    objects.apply(reference_grant("other/grant").from("HTTPPolicy", "shop").to("Service", "").into());
    assert!(is_closed(&translated(&objects), "one"), "the group of the grant is that of Gateway API");
    let grant = reference_grant("other/grant").from("HTTPPolicy", "shop").from_group("lockgate.dev");
    objects.apply(grant.to("Service", "").into());
    let translator = translated(&objects);
    assert!(!is_closed(&translator, "one"));
    let clusters: Vec<String> = translator.model().clusters.keys().map(ToString::to_string).collect();
    assert!(clusters.iter().any(|name| name.starts_with("other/auth/")), "{clusters:?}");
}

#[test]
fn a_changed_policy_rebuilds_only_the_hosts_of_its_targets() {
    let other: Object = http_route("third").parent("public").host("y.test").rule("/", "a:80").into();
    let mut objects = shop([other, http_policy("limits").target("HTTPRoute", "one").rate(1).into()]);
    let (mut translator, settings) = (Translator::default(), Settings::default());
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let mut changed = ChangedInputs::default();
    objects.apply(http_policy("limits").target("HTTPRoute", "one").rate(2).into());
    changed.insert(Input::new(Kind::HTTP_POLICY, ObjectKey::new("shop", "limits")));
    let update = translator.update(&objects, &settings, &changed);
    assert_eq!(rate(&translator, "one"), Some(2));
    assert_eq!(update.touched.hosts_of("gateway/shop/public/80").len(), 1);
    assert!(update.touched.listeners.is_empty());
    assert_eq!(update.sources.len(), 1, "no route is parsed again: {:?}", update.sources);
}

/// Applies an object, and updates the translation incrementally.
fn apply(translator: &mut Translator, objects: &mut Objects, settings: &Settings, object: Object) -> Touched {
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(object.kind(), object.meta().key.clone()));
    objects.apply(object);
    translator.update(objects, settings, &changed).touched
}

#[test]
fn the_bodies_of_answers_count_for_each_route() {
    let mut settings = Settings::default();
    settings.http.error_responses = true;
    settings.tenants.max_configuration_per_namespace = 11 << 10;
    let mut objects = shop([gateway("public").listener("http", 80, "HTTP").into()]);
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let closed = |translator: &Translator| ["one", "two"].map(|name| is_answered(translator, name, 503));
    let errors = |body: &str| -> Object {
        http_policy("errors").target("Gateway", "public").error_responses("500-599", body).into()
    };
    apply(&mut translator, &mut objects, &settings, errors("busy"));
    assert_eq!(closed(&translator), [false; 2]);
    apply(&mut translator, &mut objects, &settings, errors(&"x".repeat(3000)));
    assert_eq!(closed(&translator), [false; 2]);
    // Each of the two routes has a copy.
    settings.tenants.max_configuration_per_namespace = 6 << 10;
    translator.update(&objects, &settings, &ChangedInputs::everything());
    assert_eq!(closed(&translator), [false, true]);
}

#[test]
fn policies_beyond_the_limit_of_a_namespace_close_its_younger_routes() {
    let mut settings = Settings::default();
    settings.tenants.max_configuration_per_namespace = 400 << 10;
    let public: Object = gateway("public").listener("http", 80, "HTTP").routes_from("All").into();
    let foreign: Object =
        http_route("other/foreign").parent("shop/public").host("x.test").rule("/foreign", "a:80").into();
    let mut objects = shop([public, foreign, service("other/a").port("http", 80).into()]);
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let closed = |translator: &Translator| ["one", "two", "foreign"].map(|name| is_answered(translator, name, 503));
    let limits = |more: bool| -> Object {
        let policy = http_policy("limits").target("Gateway", "public");
        if more { policy.rate_per_client(1) } else { policy.rate(1) }.into()
    };
    apply(&mut translator, &mut objects, &settings, limits(false));
    assert_eq!(closed(&translator), [false; 3]);

    // A limit for each client counts 256 KiB, so one match fits.
    apply(&mut translator, &mut objects, &settings, limits(true));
    assert_eq!(closed(&translator), [false, true, false]);
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(
        problem.starts_with("HTTPRoute shop/two: spec: the configuration of this route takes 257 KiB on 1 hosts"),
        "{problem}"
    );
    assert!(problem.ends_with("its requests are answered 503"), "{problem}");
    let partial = "0: Accepted=False RouteTooExpensive".to_owned();
    assert!(conditions(&translator, Kind::HTTP_ROUTE, "two").contains(&partial));
    assert!(!conditions(&translator, Kind::HTTP_ROUTE, "one").contains(&partial));

    // A policy of the route replaces the policy of the Gateway.
    let own: Object = http_policy("own").target("HTTPRoute", "one").rate(1).into();
    apply(&mut translator, &mut objects, &settings, own);
    assert_eq!(closed(&translator), [false; 3]);
    assert!(translator.problems().is_empty());

    // Each match of each host has a copy.
    let wide = http_route("one").parent("public").host("x.test").host("y.test").rule("/one", "a:80");
    let own: Object = http_policy("own").target("HTTPRoute", "one").rate_per_client(1).into();
    apply(&mut translator, &mut objects, &settings, own);
    assert_eq!(closed(&translator), [false, true, false]);
    let touched = apply(&mut translator, &mut objects, &settings, wide.into());
    assert_eq!(closed(&translator), [true, false, false], "what does not fit leaves its bytes to younger routes");
    assert_eq!(touched.hosts_of("gateway/shop/public/80").len(), 2);
    let mut anew = Translator::default();
    anew.update(&objects, &settings, &ChangedInputs::everything());
    assert_eq!(translator.model(), anew.model());
}

/// Envoy reads the file of a module for each match.
#[test]
fn a_match_with_a_module_counts_32_kib() {
    let mut settings = Settings::default();
    settings.tenants.max_configuration_per_namespace = 100 << 10;
    let module = Module { file: "/wasm/waf.wasm".to_owned(), ..Module::default() };
    settings.wasm.modules.insert("waf".to_owned(), module);
    let modules: Object = http_policy("modules").target("Gateway", "public").module("waf").into();
    let route = |matches: usize| -> Object {
        let route = http_route("far").parent("public").host("far.test");
        (0..matches).fold(route, |route, at| route.rule(&format!("/{at}"), "a:80")).into()
    };
    for (matches, is_closed) in [(1, false), (3, false), (4, true)] {
        let mut translator = Translator::default();
        translator.update(&shop([modules.clone(), route(matches)]), &settings, &ChangedInputs::everything());
        let plain = translator.model().plain("gateway/shop/public/80").expect("a listener");
        let route = &plain.hosts[&Host::Exact("far.test".into())].routes[0];
        assert_eq!(matches!(route.action, Action::Respond { status: 503, .. }), is_closed, "{matches} matches");
    }
}

#[test]
fn a_route_that_grows_closes_younger_routes_of_other_hosts() {
    let mut settings = Settings::default();
    // Three matches fit, but not four.
    settings.tenants.max_configuration_per_namespace = 800 << 10;
    let far: Object = http_route("far").created(5).parent("public").host("far.test").rule("/", "a:80").into();
    let limits: Object = http_policy("limits").target("Gateway", "public").rate_per_client(1).into();
    let mut objects = shop([far, limits]);
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let status = |translator: &Translator| {
        let plain = translator.model().plain("gateway/shop/public/80").expect("a listener");
        match &plain.hosts[&Host::Exact("far.test".into())].routes[0].action {
            Action::Respond { status, .. } => Some(*status),
            _ => None,
        }
    };
    assert_eq!(status(&translator), None);
    let one = || http_route("one").parent("public").host("x.test").rule("/one", "a:80");
    let touched = apply(&mut translator, &mut objects, &settings, one().rule("/more", "a:80").into());
    assert_eq!(status(&translator), Some(503));
    assert!(touched.hosts_of("gateway/shop/public/80").contains(&Host::Exact("far.test".into())));
    let partial = "0: Accepted=False RouteTooExpensive".to_owned();
    assert!(conditions(&translator, Kind::HTTP_ROUTE, "far").contains(&partial));
    apply(&mut translator, &mut objects, &settings, one().into());
    assert_eq!(status(&translator), None);
    assert!(!conditions(&translator, Kind::HTTP_ROUTE, "far").contains(&partial));
}

#[test]
fn a_token_is_compared_with_the_keys_of_one_provider() {
    let key = r#"{"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
    let closed = |issuers: &[&str]| {
        let jwks = JwksSpec { inline: Some(key.to_owned()), remote: None };
        let provider =
            |issuer: &&str| JwtProviderSpec { issuer: (*issuer).to_owned(), audiences: Vec::new(), jwks: jwks.clone() };
        let jwt = JwtSpec { providers: issuers.iter().map(provider).collect() };
        let policy = http_policy("limits").target("HTTPRoute", "one").spec(|spec| spec.jwt = Some(jwt.into()));
        let translator = translated(&shop([policy.into()]));
        let problem = translator.problems().iter().next().map(ToString::to_string);
        assert_eq!(is_closed(&translator, "one"), problem.is_some());
        problem
    };
    assert_eq!(closed(&["a", "b"]), None);
    let problem = closed(&["a", "b", "a"]).expect("a problem");
    assert!(problem.contains("spec.jwt.providers[2].issuer: \"a\" is the issuer of another provider"), "{problem}");
}

#[test]
fn a_policy_holds_no_more_of_a_request_than_the_operator_allows() {
    let policy = |size: &str| -> Object {
        let backend_ref = PolicyBackend { name: "a".into(), namespace: None, port: 80 };
        let body = AuthorizationBody { max_bytes: size.to_owned(), ..AuthorizationBody::default() };
        let authorization =
            ExternalAuthorizationSpec { backend_ref, request_body: Some(body), ..ExternalAuthorizationSpec::default() };
        let policy = http_policy("limits").target("HTTPRoute", "one");
        policy.spec(|spec| spec.external_authorization = Some(authorization.into())).into()
    };
    let mut settings = Settings::default();
    for (size, most, expected) in [("1MiB", 1 << 20, false), ("2MiB", 1 << 20, true), ("2MiB", 2 << 20, false)] {
        settings.tenants.max_buffered_bytes = most;
        let mut translator = Translator::default();
        translator.update(&shop([policy(size)]), &settings, &ChangedInputs::everything());
        assert_eq!(is_closed(&translator, "one"), expected, "{size} of {most}");
        let problem = translator.problems().iter().next().map(ToString::to_string).unwrap_or_default();
        let named = "spec.externalAuthorization.requestBody.maxBytes: \"2MiB\" is larger than 1048576 bytes, the setting \
                     tenants.maxBufferedBytes; requests to its targets are answered 403";
        assert_eq!(problem.contains(named), expected, "{problem}");
    }
}

/// Sessions at several backends have a route for each backend in Envoy, each with a count of its own.
#[test]
fn a_rate_limit_counts_all_sessions_of_a_rule_together() {
    let sticky = http_route("one").parent("public").host("x.test").rule("/one", "a:80").backend("b:80");
    let sticky: Object = sticky.change(|rule| rule.session_persistence = Some(SessionPersistence::default())).into();
    let backend: Object = service("b").port("http", 80).into();
    let mut objects = shop([sticky, backend]);
    let (mut translator, settings) = (Translator::default(), Settings::default());
    translator.update(&objects, &settings, &ChangedInputs::everything());
    assert_eq!(route(&translator, "one").copies(), 3);
    apply(&mut translator, &mut objects, &settings, http_policy("limits").target("HTTPRoute", "one").rate(1).into());
    assert_eq!((route(&translator, "one").copies(), rate(&translator, "one")), (1, Some(1)));
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    assert!(
        problem.starts_with("HTTPRoute shop/one: spec.rules[0].sessionPersistence: a localRateLimit applies"),
        "{problem}"
    );
    assert!(problem.ends_with("sessions stay at an endpoint, but not at a backend"), "{problem}");
    apply(
        &mut translator,
        &mut objects,
        &settings,
        http_policy("limits").target("HTTPRoute", "one").body("1MiB").into(),
    );
    assert_eq!(route(&translator, "one").copies(), 3);
    assert!(translator.problems().is_empty());
}
