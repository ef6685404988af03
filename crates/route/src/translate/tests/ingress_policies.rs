//! HTTPPolicies of Ingresses and of namespaces: the routes that they apply to, and those that they must not affect.

use std::sync::Arc;

use crate::model::{Action, Host, Model, Route, RoutePolicy, VirtualHostRoutes};
use crate::objects::{Kind, Object, ObjectId, ObjectKey, Objects};
use crate::settings::Settings;
use crate::testing::gateway::{HttpPolicyBuilder, gateway, gateway_class, gateway_service, http_policy, http_route};
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Input, Translator, host};

fn of(name: &str) -> HttpPolicyBuilder {
    http_policy("limits").target("Ingress", name)
}

/// Returns the routes of a host in plain text and behind TLS, sorted. A route has its path, its effect, and its limit of requests.
fn sides(model: &Model, name: &str) -> [Vec<String>; 2] {
    let host = host::parse(name).expect("a host");
    let of = |content: Option<&VirtualHostRoutes>| {
        let routes = content.into_iter().flat_map(|content| &content.routes);
        routes.map(described).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
    };
    let tls = model.https().get(&host).and_then(|tls| tls.virtual_hosts.get(&host));
    [of(model.http().get(&host)), of(tls)]
}

fn plain(world: &World, name: &str) -> Vec<String> {
    let [plain, _] = sides(&world.model(), name);
    plain
}

fn described(route: &Arc<Route>) -> String {
    let rate = route.policy().and_then(|policy| Some(policy.local_rate_limit.as_ref()?.requests));
    let path = match &route.matches.path {
        crate::model::PathMatch::Exact(text)
        | crate::model::PathMatch::SeparatedPrefix(text)
        | crate::model::PathMatch::Prefix(text)
        | crate::model::PathMatch::Regex(text) => text.clone(),
    };
    let effect = match &route.action {
        Action::Forward(forward) => forward.clusters[0].cluster.port.service().to_string(),
        Action::Redirect(redirect) => redirect.status.code().to_string(),
        Action::Respond { status, .. } => status.to_string(),
    };
    format!("{path} {effect}{}", rate.map(|rate| format!(" {rate}/s")).unwrap_or_default())
}

/// Two Ingresses, `shop/one` and `other/two`, with paths of one host behind TLS.
fn merged() -> World {
    let one = ingress("one").created(1).host("x.test").path("Prefix", "/one", "a:80").tls(&["x.test"], "good");
    let two = ingress("other/two").created(2).host("x.test").path("Prefix", "/two", "a:80");
    served_in_plain_text().shared().with(secret("good", &["x.test"])).with(one).with(two)
}

/// Without redirects to HTTPS.
fn served_in_plain_text() -> World {
    let mut world = world().with(service("other/a").port("http", 80));
    world.settings.tls.redirect = false;
    world
}

#[test]
fn a_policy_applies_to_the_paths_of_its_ingress_alone_on_both_listeners() {
    let world = merged().with(of("one").rate(5));
    let expected = ["/one shop/a 5/s", "/two other/a"].map(str::to_owned);
    assert_eq!(sides(&world.model(), "x.test"), [expected.to_vec(), expected.to_vec()]);
}

#[test]
fn a_policy_of_another_namespace_has_no_effect() {
    let stranger = http_policy("other/limits").target("Ingress", "one").target("Namespace", "shop").rate(5);
    let world = merged().with(stranger);
    assert_eq!(plain(&world, "x.test"), ["/one shop/a", "/two other/a"]);
    let problems = world.problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    assert!(problems[0].contains("Ingress \"other/one\" does not exist"), "{problems:?}");
    let other = "namespace \"shop\" is not the namespace of the policy, \"other\"";
    assert!(problems[1].contains(other), "{problems:?}");
}

#[test]
fn a_policy_that_cannot_be_enforced_closes_its_ingress_on_both_listeners() {
    for redirect in [false, true] {
        let mut world = merged().with(of("one").allow(&["192.0.2.1/24"]).rate(5));
        world.settings.tls.redirect = redirect;
        let two = if redirect { "/two 308" } else { "/two other/a" };
        let [plain, tls] = sides(&world.model(), "x.test");
        assert_eq!(plain, ["/one 403", two], "no redirect to a host that is closed");
        assert_eq!(tls, ["/one 403", "/two other/a"]);
    }
}

#[test]
fn a_host_of_an_ingress_has_its_own_policy() {
    let hosts = ["x.test", "*.y.test", ""];
    let shop = hosts.iter().fold(ingress("one"), |ingress, host| ingress.host(host).path("Prefix", "/", "a:80"));
    let policies = [
        http_policy("all").target("Ingress", "one").rate(1).body("1MiB"),
        http_policy("exact").target("Ingress", "one").section("X.test").rate(2),
        http_policy("wild").target("Ingress", "one").section("*.y.test").rate(3),
        http_policy("gone").target("Ingress", "one").section("z.y.test").rate(4),
    ];
    let world = policies.into_iter().fold(world().with(shop), |world, policy| world.with(policy));
    for (host, rate) in [("x.test", 2), ("*.y.test", 3), ("", 1)] {
        assert!(plain(&world, host).contains(&format!("/ shop/a {rate}/s")), "{host:?}");
        let model = world.model();
        let policy = model.http()[&host::parse(host).unwrap()].routes[0].policy().expect("a policy").clone();
        assert_eq!(policy.max_request_body_bytes, Some(1 << 20), "{host:?} inherits");
        assert_eq!(policy.counted_for.as_deref(), Some(host).filter(|host| !host.is_empty()));
    }
    let problems = world.problems();
    assert!(
        problems.len() == 1 && problems[0].contains("Ingress \"shop/one\" has no host \"z.y.test\""),
        "{problems:?}"
    );
}

#[test]
fn the_policy_of_a_namespace_is_the_default_of_its_routes_and_ingresses() {
    let public: Object = gateway("public").listener("http", 80, "HTTP").into();
    let route: Object = http_route("route").parent("public").host("r.test").rule("/", "a:80").into();
    let world = merged().with(gateway_class("lockgate")).with(public).with(gateway_service("public", &[(80, 10_000)]));
    let world = world.with(route).with(http_policy("listener").target("Gateway", "public").rate(1).body("1MiB"));
    let policy = |model: &Model| -> Arc<RoutePolicy> {
        let hosts = &model.plain("gateway/shop/public/80").expect("a listener").hosts;
        hosts[&Host::Exact("r.test".into())].routes[0].policy().expect("a policy").clone()
    };
    let rate = |model: &Model| policy(model).local_rate_limit.as_ref().map(|limit| limit.requests);
    assert_eq!(rate(&world.model()), Some(1));
    let world = world.with(http_policy("team").target("Namespace", "shop").rate(2));
    assert_eq!((rate(&world.model()), policy(&world.model()).max_request_body_bytes), (Some(2), Some(1 << 20)));
    assert_eq!(plain(&world, "x.test"), ["/one shop/a 2/s", "/two other/a"]);
    let own = [http_policy("route").target("HTTPRoute", "route").rate(3), of("one").rate(4)];
    let world = own.into_iter().fold(world, |world, policy| world.with(policy));
    assert_eq!(rate(&world.model()), Some(3));
    assert_eq!(plain(&world, "x.test"), ["/one shop/a 4/s", "/two other/a"]);
}

/// An authority must reach the path of a challenge without a redirect, from any address, and without a token.
#[test]
fn redirects_and_challenges_have_no_policy() {
    let challenge = "/.well-known/acme-challenge/token";
    let one = ingress("one").host("x.test").path("Prefix", "/", "a:80").path("Exact", challenge, "b:80");
    let one = one.path("Exact", "/.well-known/other", "b:80").tls(&["x.test"], "good");
    for (policy, served) in [(of("one").rate(5), " 5/s"), (of("one").allow(&["?"]), "")] {
        let mut world = world().with(secret("good", &["x.test"])).with(one.clone()).with(policy);
        world.settings.tls.redirect = true;
        let [plain, tls] = sides(&world.model(), "x.test");
        let solved = format!("{challenge} shop/b");
        let (redirected, a, b) = match served {
            "" => ("403", "403".to_owned(), "403".to_owned()),
            served => ("308", format!("shop/a{served}"), format!("shop/b{served}")),
        };
        let expected = |a: &str, b: &str| [format!("/ {a}"), solved.clone(), format!("/.well-known/other {b}")];
        assert_eq!(plain, expected(redirected, redirected));
        assert_eq!(tls, expected(&a, &b));
    }
}

/// A proxy that ends TLS in front of Envoy forwards requests in plain text. The policy applies to them, and not to the redirect.
#[test]
fn requests_that_a_trusted_proxy_received_over_tls_have_the_policy() {
    let mut world = merged().with(of("one").rate(5));
    (world.settings.tls.redirect, world.settings.http.trusted_hops) = (true, 1);
    assert_eq!(plain(&world, "x.test"), ["/one 308", "/one shop/a 5/s", "/two 308", "/two other/a"]);
}

#[test]
fn a_path_that_is_not_served_in_plain_text_asks_for_no_token_there() {
    let one = ingress("one").host("x.test").path("Prefix", "/one", "a:80").tls(&["x.test"], "good");
    let one = one.annotation("kubernetes.io/ingress.allow-http", "false");
    let two = ingress("two").host("x.test").path("Prefix", "/", "b:80");
    for (policy, tls) in [(of("one").rate(5), "/one shop/a 5/s"), (of("one").allow(&["?"]), "/one 403")] {
        let world =
            served_in_plain_text().with(secret("good", &["x.test"])).with(one.clone()).with(two.clone()).with(policy);
        let served = sides(&world.model(), "x.test");
        assert_eq!(served[0], ["/ shop/b", "/one 404"]);
        assert_eq!(served[1], ["/ shop/b", tls]);
    }
}

#[test]
fn copies_of_a_wildcard_and_of_a_default_backend_have_the_policies_of_their_ingress() {
    let wild = ingress("one").host("*.x.test").path("Prefix", "/one", "a:80");
    let default = ingress("default").default_backend("b:80");
    let names = ingress("two").tls(&["a.x.test"], "good").tls(&["b.test"], "good");
    let certificate = secret("good", &["a.x.test", "b.test"]);
    let world = served_in_plain_text().with(wild).with(default).with(names).with(certificate);
    let world =
        world.with(of("one").section("*.x.test").rate(5)).with(http_policy("d").target("Ingress", "default").rate(7));
    let model = world.model();
    let [wildcard, _] = sides(&model, "*.x.test");
    assert_eq!(wildcard, ["/ 404", "/ shop/b 7/s", "/one shop/a 5/s"]);
    let [_, copy] = sides(&model, "a.x.test");
    assert_eq!(copy, ["/one shop/a 5/s"]);
    let [_, named] = sides(&model, "b.test");
    assert_eq!(named, ["/ shop/b 7/s"]);
    assert_eq!(sides(&model, "")[0], ["/ shop/b 7/s"]);
    // A rule without `http` leads to the default backend, for the host of the rule.
    let rule = ingress("default").default_backend("b:80").host("c.test");
    let world = world.with(rule).with(http_policy("c").target("Ingress", "default").section("c.test").rate(8));
    assert_eq!(
        (plain(&world, "c.test"), plain(&world, "")),
        (vec!["/ shop/b 8/s".to_owned()], vec!["/ shop/b 7/s".to_owned()])
    );
}

#[test]
fn of_two_policies_of_an_ingress_the_older_one_applies() {
    let older = http_policy("older").created(1).target("Ingress", "one").rate(1);
    let younger = http_policy("younger").created(2).target("Ingress", "one").rate(2);
    let world = merged().with(older).with(younger);
    assert_eq!(plain(&world, "x.test")[0], "/one shop/a 1/s");
    let problems = world.problems();
    let expected = "policy \"shop/older\" takes precedence for Ingress \"shop/one\"; not in effect for this target";
    assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
}

/// Fails closed: an unknown policy may restrict an Ingress.
#[test]
fn no_ingress_is_served_while_policies_cannot_be_read() {
    let mut objects = objects(&merged().objects);
    let mut settings = Settings::default();
    settings.namespace_ownership = crate::settings::NamespaceOwnership::InterNamespaceAllowed;
    settings.tls.redirect = false;
    let mut served = |namespace: &str, readable| {
        assert!(objects.set_readable(Kind::HTTP_POLICY, &namespace.into(), readable));
        let model = crate::translate::translate(&objects, &settings).model;
        sides(&model, "x.test")[1].clone()
    };
    assert_eq!(served("shop", false), ["/one 503", "/two other/a"]);
    assert_eq!(served("", false), ["/one 503", "/two 503"]);
    served("", true);
    assert_eq!(served("shop", true), ["/one shop/a", "/two other/a"]);
}

/// Applies an object, and updates the translation incrementally. Returns the hosts of the plain listener that were built again.
fn apply(translator: &mut Translator, objects: &mut Objects, settings: &Settings, object: Object) -> Vec<String> {
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(object.kind(), object.meta().key.clone()));
    objects.apply(object);
    let touched = translator.update(objects, settings, &changed).touched;
    assert!(touched.listeners.is_empty());
    touched.hosts_of("http").iter().map(ToString::to_string).collect()
}

#[test]
fn a_changed_policy_rebuilds_only_the_hosts_of_its_ingress() {
    let other = ingress("three").host("y.test").path("Prefix", "/", "a:80");
    let world = merged().with(other);
    let (mut objects, settings) = (objects(&world.objects), world.settings.clone());
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    assert_eq!(apply(&mut translator, &mut objects, &settings, of("one").rate(5).into()), ["x.test"]);
    let accepted = translator.verdicts().get(&ObjectId::new(Kind::HTTP_POLICY, "shop", "limits")).expect("verdicts");
    assert_eq!((accepted[0].parent, accepted[0].reason), (Some(0), "Accepted"));
    let team = http_policy("team").target("Namespace", "shop").body("1MiB");
    assert_eq!(apply(&mut translator, &mut objects, &settings, team.into()), ["x.test", "y.test"]);
    let mut changed = ChangedInputs::default();
    for name in ["limits", "team"] {
        objects.delete(Kind::HTTP_POLICY, &ObjectKey::new("shop", name));
        changed.insert(Input::new(Kind::HTTP_POLICY, ObjectKey::new("shop", name)));
    }
    translator.update(&objects, &settings, &changed);
    assert_eq!(sides(translator.model(), "x.test")[0], ["/one shop/a", "/two other/a"]);
    assert!(translator.verdicts().is_empty());
}

/// A limit for each client counts 256 KiB for each path and listener.
#[test]
fn policies_beyond_the_limit_of_a_namespace_close_its_younger_ingresses() {
    let shop = |name: &str, created| {
        ingress(name)
            .created(created)
            .host(&format!("{}.test", name.trim_start_matches("other/")))
            .path("Prefix", "/", "a:80")
    };
    let mut world = served_in_plain_text().with(shop("one", 1)).with(shop("two", 2)).with(shop("other/three", 3));
    world.settings.tenants.max_configuration_per_namespace = 800 << 10;
    let (mut objects, settings) = (objects(&world.objects), world.settings.clone());
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let served = |translator: &Translator| {
        ["one", "two", "three"].map(|name| sides(translator.model(), &format!("{name}.test"))[0].join(" "))
    };
    let both = |policy: HttpPolicyBuilder| policy.target("Ingress", "one").target("Ingress", "two").into();
    let rebuilt = apply(&mut translator, &mut objects, &settings, both(http_policy("limits").rate_per_client(1)));
    assert_eq!(rebuilt, ["one.test", "two.test"]);
    assert_eq!(served(&translator), ["/ shop/a 1/s", "/ 503", "/ other/a"]);
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    let [problem] = &problems[..] else { panic!("{problems:?}") };
    let start =
        "Ingress shop/two: spec: the policies of this Ingress take 513 KiB for its paths, and those of older objects";
    assert!(problem.starts_with(start) && problem.ends_with("its requests are answered 503"), "{problem}");
    apply(&mut translator, &mut objects, &settings, both(http_policy("limits").rate(1)));
    assert_eq!(served(&translator), ["/ shop/a 1/s", "/ shop/a 1/s", "/ other/a"]);
    assert!(translator.problems().is_empty());
}

/// Another namespace can copy a default backend for thousands of hosts. It pays for the policies that it copies.
#[test]
fn copies_of_the_policies_of_a_default_backend_count_for_the_hosts_that_copy_it() {
    let default = ingress("other/default").default_backend("a:80");
    let names: Vec<String> = (0..4).map(|at| format!("h{at}.test")).collect();
    let texts: Vec<&str> = names.iter().map(String::as_str).collect();
    let copying = names.iter().fold(ingress("one"), |ingress, host| ingress.tls(&[host], "good"));
    let world = served_in_plain_text().with(default).with(copying);
    let mut world = world.with(secret("good", &texts)).default_secret("good");
    let limits = http_policy("other/limits").target("Ingress", "default").rate_per_client(1);
    world = world.with(limits);
    world.settings.tenants.max_configuration_per_namespace = 600 << 10;
    let served = |world: &World| names.iter().map(|name| sides(&world.model(), name)[1].join(" ")).collect::<Vec<_>>();
    let all = "/ other/a 1/s";
    assert_eq!(served(&world), [all, all, "/ 503", "/ 503"]);
    assert_eq!(sides(&world.model(), "")[0], [all], "the owner of the backend is not affected");
    let problems = world.problems();
    assert_eq!(problems.len(), 2, "{problems:?}");
    let start =
        "Ingress shop/one: spec.tls[2]: a copy of the policies of the default backend for \"h2.test\" takes 257 KiB";
    assert!(problems[0].starts_with(start), "{problems:?}");
}
