//! Ownership of hosts, paths, and certificates: every row of the table in docs/security.md, section "Host ownership".

use crate::model::{Host, ListenerId};
use crate::objects::{Kind, Object, ObjectKey, Objects};
use crate::settings::Settings;
use crate::testing::model::Shared as _;
use crate::testing::objects::{routes as routes_of, *};
use crate::translate::{ChangedInputs, Input, Translator};

/// Returns the world with Services in the namespaces `evil` and `team` too.
fn tenants() -> World {
    ["evil/a", "team/a", "third/a"].into_iter().fold(world(), |world, name| world.with(service(name).port("http", 80)))
}

/// Returns the victim's Ingress: namespace `shop`, created at 5, `/` and `/api`.
fn victim(host: &str) -> IngressBuilder {
    ingress("shop/victim").created(5).host(host).path("Prefix", "/", "a:80").path("Prefix", "/api", "b:80")
}

/// Returns the attacker's Ingress in the namespace `evil`, created later.
fn attacker() -> IngressBuilder {
    ingress("evil/attacker").created(9)
}

const VICTIMS: [&str; 2] = ["/api/ shop/b/http", "/* shop/a/http"];

fn owned(field: &str, host: &str, consequence: &str) -> String {
    format!(
        "Ingress evil/attacker: {field}: {host} owned by namespace \"shop\" (Ingress shop/victim), and \
         \"namespaceOwnership\" is \"Strict\"; {consequence}"
    )
}

#[test]
fn the_oldest_rule_owns_a_host() {
    let world = tenants().with(victim("x.com")).with(
        attacker()
            .host("x.com")
            .path("ImplementationSpecific", "/.*", "a:80")
            .path("Exact", "/login", "a:80")
            .host("X.COM")
            .path("Prefix", "/more", "a:80")
            .host("own.com")
            .path("Prefix", "/", "a:80"),
    );
    assert_eq!(world.http("x.com"), VICTIMS);
    assert_eq!(world.http("own.com"), ["/* evil/a/http"]);
    let told = |rule| owned(&format!("spec.rules[{rule}]"), "host \"x.com\" is", "rule left out");
    assert_eq!(world.problems(), [told(0), told(1)]);
}

#[test]
fn ingresses_of_one_namespace_share_its_host() {
    let world = tenants().with(victim("x.com")).with(ingress("shop/more").created(20).host("x.com").path(
        "ImplementationSpecific",
        "/.*",
        "c:80",
    ));
    assert_eq!(world.http("x.com"), ["~ /.* shop/c/http", VICTIMS[0], VICTIMS[1]]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn a_wildcard_owns_the_names_below_it_except_for_older_names() {
    let world = tenants()
        .with(victim("*.x.com"))
        .with(attacker().host("login.x.com").path("Prefix", "/", "a:80").host("a.b.x.com").path("Prefix", "/", "a:80"))
        .with(ingress("team/old").created(1).host("old.x.com").path("Prefix", "/", "a:80"));
    let model = world.model();
    assert!(!model.http().contains_key(&Host::Exact("login.x.com".into())));
    assert_eq!(world.http("old.x.com"), ["/* team/a/http"]);
    // A wildcard matches one label.
    assert_eq!(world.http("a.b.x.com"), ["/* evil/a/http"]);
    assert_eq!(
        world.problems(),
        [owned("spec.rules[0]", "host \"login.x.com\" is", "rule left out")
            .replace("shop/victim)", "shop/victim through \"*.x.com\")")]
    );
    // The owner of the wildcard cannot claim the older name.
    let world = world.with(ingress("shop/late").created(30).host("old.x.com").path("Exact", "/", "a:80"));
    assert_eq!(world.http("old.x.com"), ["/* team/a/http"]);
    assert!(world.problems()[1].contains("owned by namespace \"team\" (Ingress team/old)"), "{:?}", world.problems());
}

#[test]
fn rejected_rules_create_no_chain_for_a_name_below_a_wildcard() {
    let worlds = || [tenants(), tenants().default_secret("default").with(secret("default", &["*.x.com"]))];
    for with_default in worlds() {
        let world = with_default
            .with(secret("wild", &["*.x.com"]))
            .with(secret("evil/cert", &["a.x.com", "b.x.com"]))
            .with(victim("*.x.com").tls(&["*.x.com"], "wild"));
        let before = world.model();
        let attacked = world
            .with(attacker().host("a.x.com").path("Prefix", "/", "a:80").tls(&["a.x.com", "b.x.com"], "cert"))
            .with(ingress("evil/hostless").created(9).host("c.x.com").path("Prefix", "/", "a:80").tls(&[], "nope"));
        // With a separate chain, Envoy would answer 421 on connections that were opened for the wildcard.
        assert_eq!(attacked.model(), before);
        assert_eq!(attacked.problems().len(), 4, "{:#?}", attacked.problems());
        // An entry of the owner is permitted.
        let entry = ingress("shop/entry").created(30).tls(&["b.x.com"], "wild");
        assert!(attacked.with(entry).chains().contains(&"b.x.com shop/wild".to_owned()));
    }
}

#[test]
fn a_wildcard_does_not_own_older_names_below_it() {
    let world = tenants().with(victim("login.x.com")).with(attacker().host("*.x.com").path("Prefix", "/", "a:80"));
    assert_eq!(world.http("login.x.com"), VICTIMS);
    assert_eq!(world.http("*.x.com"), ["1: /* evil/a/http"]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn the_owner_delegates_paths() {
    let delegated = |list: &str| {
        tenants()
            .with(victim("x.com").annotation("lockgate.dev/delegate-to", list))
            .with(
                ingress("team/older")
                    .created(7)
                    .host("x.com")
                    .path("Prefix", "/team", "a:80")
                    .path("Exact", "/", "a:80")
                    .path("Prefix", "/late", "a:80")
                    .path("ImplementationSpecific", "/.*", "a:80"),
            )
            .with(ingress("shop/late").created(30).host("x.com").path("Prefix", "/late", "c:80"))
    };
    let world = delegated("third, team,");
    assert_eq!(world.http("x.com"), ["/team/ team/a/http", "/late/ shop/c/http", VICTIMS[0], VICTIMS[1]]);
    let problems = world.problems();
    assert_eq!(problems.len(), 3, "{problems:#?}");
    for (problem, (path, owner)) in problems.iter().zip([
        ("exact path \"/\"", "spec.rules[0].http.paths[0] of Ingress shop/victim"),
        ("prefix \"/late\"", "spec.rules[0].http.paths[0] of Ingress shop/late"),
        ("regular expression \"/.*\"", "spec.rules[0].http.paths[0] of Ingress shop/victim"),
    ]) {
        assert!(problem.contains(path) && problem.contains(owner), "{problem}");
    }
    let world = delegated("third");
    assert_eq!(world.http("x.com"), ["/late/ shop/c/http", VICTIMS[0], VICTIMS[1]]);
    let world = delegated("*,Team,team/x");
    assert_eq!(world.http("x.com"), ["/late/ shop/c/http", VICTIMS[0], VICTIMS[1]]);
    let problems = world.problems();
    assert_eq!(problems.len(), 4, "{problems:#?}");
    for (problem, name) in problems.iter().zip(["*", "Team", "team/x"]) {
        assert_eq!(
            *problem,
            format!(
                "Ingress shop/victim: metadata.annotations[\"lockgate.dev/delegate-to\"]: {name:?} is not the name of a \
                 namespace; the hosts are not delegated to it"
            )
        );
    }
}

#[test]
fn only_the_owner_delegates() {
    let world = tenants()
        .with(victim("x.com"))
        .with(attacker().annotation("lockgate.dev/delegate-to", "evil").host("x.com").path("Prefix", "/e", "a:80"));
    assert_eq!(world.http("x.com"), VICTIMS);
}

#[test]
fn a_delegated_wildcard_delegates_the_names_below_it() {
    let world = tenants()
        .with(victim("*.x.com").annotation("lockgate.dev/delegate-to", "team"))
        .with(ingress("team/name").created(9).host("team.x.com").path("Prefix", "/", "a:80"))
        .with(attacker().host("team.x.com").path("Prefix", "/e", "a:80"));
    assert_eq!(world.http("team.x.com"), ["/* team/a/http"]);
    // The owner's later path for the name comes first, and the delegation stays.
    let world = world.with(ingress("shop/late").created(30).host("team.x.com").path("Prefix", "/shop", "a:80"));
    assert_eq!(world.http("team.x.com"), ["/shop/ shop/a/http", "/* team/a/http"]);
}

#[test]
fn a_delegated_name_is_served_with_the_certificate_of_the_owner() {
    let world = tenants()
        .with(secret("wild", &["*.x.com"]))
        .with(secret("team/own", &["team.x.com"]))
        .with(victim("*.x.com").annotation("lockgate.dev/delegate-to", "team").tls(&["*.x.com"], "wild"))
        .with(
            ingress("team/name").created(9).host("team.x.com").path("Prefix", "/", "a:80").tls(&["team.x.com"], "own"),
        );
    assert_eq!(world.chains(), ["team.x.com shop/wild", "*.x.com shop/wild"]);
    assert_eq!(world.https("team.x.com"), ["/* team/a/http"]);
    assert_eq!(world.problems().len(), 1, "{:?}", world.problems());
}

#[test]
fn shared_hosts_keep_the_responses_of_the_first_namespace() {
    let world = tenants().shared().with(victim("x.com").path("ImplementationSpecific", "/v[0-9]+", "c:80")).with(
        attacker()
            .host("x.com")
            .path("ImplementationSpecific", "/.*", "a:80")
            .path("Exact", "/", "a:80")
            .path("Exact", "/api/", "a:80")
            .path("ImplementationSpecific", "/api/", "a:80")
            .path("Exact", "/v1", "a:80")
            .path("Prefix", "/added", "a:80"),
    );
    let victims = ["~ /v[0-9]+ shop/c/http", "= /v1 evil/a/http", "/added/ evil/a/http", VICTIMS[0], VICTIMS[1]];
    assert_eq!(world.http("x.com"), victims);
    assert_eq!(world.problems().len(), 4, "{:#?}", world.problems());
}

#[test]
fn a_foreign_regular_expression_comes_last() {
    let world = tenants()
        .shared()
        .with(
            ingress("shop/victim").created(5).host("x.com").path("Prefix", "/api", "a:80").path("Exact", "/e", "a:80"),
        )
        .with(attacker().host("x.com").path("ImplementationSpecific", "/.*", "a:80").path("Prefix", "/z", "a:80"));
    assert_eq!(world.http("x.com"), ["= /e shop/a/http", "/api/ shop/a/http", "/z/ evil/a/http", "~ /.* evil/a/http"]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn a_foreign_regular_expression_precedes_prefixes_if_the_first_namespace_has_no_path() {
    let world = tenants()
        .shared()
        .with(ingress("shop/victim").created(5).host("x.com"))
        .with(attacker().host("x.com").path("ImplementationSpecific", "/a.*", "a:80").path("Prefix", "/", "a:80"));
    assert_eq!(world.http("x.com"), ["~ /a.* evil/a/http", "/* evil/a/http"]);
}

#[test]
fn a_foreign_default_backend_receives_no_requests_of_a_named_host() {
    for world in [tenants(), tenants().shared()] {
        let world = world
            .with(ingress("shop/victim").created(5).host("x.com").path("Prefix", "/api", "a:80"))
            .with(ingress("shop/wild").created(5).host("*.y.com").path("Prefix", "/api", "a:80"))
            .with(attacker().default_backend("a:80"));
        assert_eq!(world.http("x.com"), ["/api/ shop/a/http"]);
        assert_eq!(world.http("*.y.com"), ["1: /api/ shop/a/http", "1: /* 404", "/* evil/a/http"]);
        assert_eq!(world.http(""), ["/* evil/a/http"]);
        assert_eq!(world.problems(), [""; 0]);
    }
}

#[test]
fn hosts_that_no_rule_names_have_an_owner() {
    let world = || {
        tenants()
            .with(ingress("shop/victim").created(5).host("").path("Prefix", "/app", "a:80"))
            .with(attacker().default_backend("a:80").host("").path("Prefix", "/login", "a:80"))
            .with(ingress("evil/only").created(10).default_backend("a:80"))
    };
    let strict = world();
    assert_eq!(strict.http(""), ["/app/ shop/a/http"]);
    let field = "the hosts that no rule names are";
    let default = owned("spec.defaultBackend", field, "default backend not used");
    assert_eq!(
        strict.problems(),
        [
            default.clone(),
            owned("spec.rules[0]", field, "rule left out"),
            default.replace("evil/attacker", "evil/only"),
        ]
    );
    let shared = world().shared();
    assert_eq!(shared.http(""), ["/login/ evil/a/http", "/app/ shop/a/http", "/* evil/a/http"]);
    // An older default backend without rules owns these hosts too.
    let world = world().with(ingress("team/first").created(1).default_backend("a:80"));
    assert_eq!(world.http(""), ["/* team/a/http"]);
}

#[test]
fn a_tls_entry_applies_to_hosts_with_rules_of_its_namespace() {
    for world in [tenants(), tenants().shared()] {
        let world = world
            .default_secret("default")
            .with(secret("default", &["*.x.com"]))
            .with(secret("evil/cert", &["login.x.com", "*.x.com"]))
            .with(
                ingress("shop/victim")
                    .created(5)
                    .host("login.x.com")
                    .path("Prefix", "/", "a:80")
                    .tls(&["login.x.com"], ""),
            )
            .with(attacker().tls(&["login.x.com"], "cert").host("own.com").path("Prefix", "/", "a:80"))
            .with(ingress("evil/wild").created(1).tls(&["*.x.com"], "cert"));
        assert_eq!(world.chains(), ["login.x.com shop/default", "*.x.com evil/cert", "* shop/default"]);
        assert_eq!(world.https("login.x.com"), ["/* shop/a/http"]);
        assert_eq!(
            world.problems(),
            ["Ingress evil/attacker: spec.tls[0]: namespace \"shop\" provides the routes and the certificate of host \
              \"login.x.com\" (Ingress shop/victim); TLS entry not used for \"login.x.com\""]
        );
    }
}

#[test]
fn a_shared_path_does_not_choose_the_certificate() {
    let with = |victims: &[&str]| {
        let victim = ingress("shop/victim").created(5).host("x.com").path("Prefix", "/", "a:80");
        let victim = if victims.is_empty() { victim } else { victim.tls(victims, "") };
        tenants()
            .shared()
            .default_secret("default")
            .with(secret("default", &["x.com"]))
            .with(secret("evil/cert", &["x.com"]))
            .with(victim)
            .with(attacker().tls(&["x.com"], "cert").host("x.com").path("Prefix", "/e", "a:80"))
    };
    assert_eq!(with(&["x.com"]).chains(), ["x.com shop/default", "* shop/default"]);
    assert_eq!(with(&["x.com"]).problems().len(), 1);
    // The first namespace does not request TLS.
    assert_eq!(with(&[]).chains(), ["x.com evil/cert", "* shop/default"]);
}

#[test]
fn a_shared_path_does_not_bring_a_wildcard_certificate() {
    let victim = || ingress("shop/victim").created(5).host("a.x.com").path("Prefix", "/", "a:80").tls(&["a.x.com"], "");
    for victim in [victim(), victim().annotation("lockgate.dev/delegate-to", "evil")] {
        let world = tenants()
            .default_secret("default")
            .with(secret("default", &["a.x.com"]))
            .with(secret("evil/cert", &["*.x.com"]))
            .with(victim)
            .with(attacker().tls(&["*.x.com"], "cert").host("a.x.com").path("Prefix", "/e", "a:80"));
        assert_eq!(world.chains(), ["a.x.com shop/default", "*.x.com evil/cert", "* shop/default"]);
        assert_eq!(world.shared().chains(), ["a.x.com shop/default", "*.x.com evil/cert", "* shop/default"]);
    }
}

/// Returns the tenants' world with a victim that has a certificate for a wildcard, and one of its hosts.
fn with_wildcard_certificate(world: World) -> World {
    let victim = ingress("shop/victim").created(5).host("shop.victim.com").path("Prefix", "/", "a:80");
    world.with(secret("wild", &["*.victim.com"])).with(victim.tls(&["*.victim.com"], "wild"))
}

#[test]
fn a_wildcard_certificate_does_not_serve_the_hosts_of_other_namespaces() {
    let world = |default: bool| {
        let world = with_wildcard_certificate(tenants().shared())
            .with(attacker().host("login.victim.com").path("Prefix", "/", "a:80").tls(&["login.victim.com"], "nope"));
        if default { world.with(secret("default", &["q.com"])).default_secret("default") } else { world }
    };
    assert_eq!(world(false).chains(), ["shop.victim.com shop/wild", "*.victim.com shop/wild"]);
    assert_eq!(
        world(false).model().refused().iter().map(|host| host.to_string()).collect::<Vec<_>>(),
        ["login.victim.com"]
    );
    assert!(world(false).problems()[0].ends_with("; no TLS for \"login.victim.com\""));
    assert_eq!(
        world(true).chains(),
        ["login.victim.com shop/default", "shop.victim.com shop/wild", "*.victim.com shop/wild", "* shop/default"]
    );
    assert!(world(true).model().refused().is_empty());
}

#[test]
fn a_default_backend_is_not_served_with_the_certificate_of_another_namespace() {
    let world = with_wildcard_certificate(tenants()).with(attacker().default_backend("a:80"));
    assert_eq!(world.https("*.victim.com"), ["/* 404"]);
}

#[test]
fn a_host_moves_to_the_next_oldest_owner_at_once() {
    let mut objects: Objects = objects(&tenants().objects);
    let settings = Settings::default();
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let mut apply = |object: Result<IngressBuilder, &str>| {
        let key = match object {
            Ok(builder) => {
                let object = Object::from(builder);
                let key = object.meta().key.clone();
                objects.apply(object);
                key
            }
            Err(name) => {
                let key = ObjectKey::new(name.split('/').next().unwrap(), name.split('/').nth(1).unwrap());
                objects.delete(Kind::INGRESS, &key);
                key
            }
        };
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::INGRESS, key));
        let update = translator.update(&objects, &settings, &changed);
        let hosts = translator.model().http().iter();
        let served: Vec<String> =
            hosts.map(|(host, routes)| format!("{host} {}", routes_of(routes).join(" "))).collect();
        (served, update.touched.hosts_of(ListenerId::HTTP).len())
    };
    let rule = |name: &str, created, host: &str| ingress(name).created(created).host(host).path("Prefix", "/", "a:80");
    assert_eq!(apply(Ok(rule("evil/i", 9, "a.x.com"))), (vec!["a.x.com /* evil/a/http".to_owned()], 1));
    assert_eq!(apply(Ok(rule("shop/i", 5, "a.x.com"))), (vec!["a.x.com /* shop/a/http".to_owned()], 1));
    // The owner edits its Ingress.
    let edited = rule("shop/i", 5, "a.x.com").path("Prefix", "/b", "b:80");
    assert_eq!(apply(Ok(edited)), (vec!["a.x.com /b/ shop/b/http /* shop/a/http".to_owned()], 1));
    assert_eq!(
        apply(Ok(rule("team/i", 1, "*.x.com"))),
        (vec!["*.x.com 1: /* team/a/http".to_owned()], 2),
        "the wildcard is older"
    );
    assert_eq!(apply(Ok(rule("team/i", 1, "*.y.com"))).0[0], "a.x.com /b/ shop/b/http /* shop/a/http");
    assert_eq!(apply(Err("shop/i")).0[0], "a.x.com /* evil/a/http");
    assert_eq!(apply(Ok(rule("evil/i", 9, "b.x.com"))).0[0], "b.x.com /* evil/a/http");
}
