//! Objects that are being deleted lose every conflict, and are served while they have no conflict.

use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Translator};

/// Returns two worlds with both Ingresses. In the first, the older Ingress is being deleted; in the second, its
/// namespace `going` is.
fn going(old: IngressBuilder, young: IngressBuilder) -> [World; 2] {
    let names = ["x.com", "*.x.com"];
    let world =
        || world().shared().with(young.clone().created(2)).with(secret("one", &["x.com"])).with(secret("two", &names));
    let old = old.created(1);
    let by_namespace = world().with(old.clone().namespace("going"));
    let by_namespace = by_namespace.with(service("going/b").port("http", 80)).with(secret("going/two", &names));
    [world().with(old.terminating()), by_namespace.with(namespace("going", true)).with(namespace("shop", false))]
}

#[test]
fn it_loses_a_path_although_it_is_older() {
    let young = ingress("young").host("x.com").path("Prefix", "/a", "a:80");
    let old = ingress("old").host("x.com").path("Prefix", "/a", "b:80").path("Prefix", "/c", "b:80");
    for (world, name) in going(old, young).into_iter().zip(["shop", "going"]) {
        assert_eq!(world.http("x.com"), [&*format!("/c/ {name}/b/http"), "/a/ shop/a/http"]);
        assert_eq!(
            world.problems(),
            [format!(
                "Ingress {name}/old: spec.rules[0].http.paths[0]: prefix \"/a\" of host \"x.com\" is taken by \
                 spec.rules[0].http.paths[0] of Ingress shop/young; path left out"
            )]
        );
    }
}

#[test]
fn it_loses_the_default_backend_of_a_host_and_of_all_hosts() {
    let young = ingress("young").host("x.com").default_backend("a:80");
    for world in going(ingress("old").host("x.com").default_backend("b:80"), young) {
        assert_eq!(world.http("x.com"), ["/* shop/a/http"]);
        assert_eq!(world.http(""), ["/* shop/a/http"]);
    }
    // It loses even if it is the only Ingress without rules.
    let young = ingress("young").host("x.com").default_backend("a:80");
    for world in going(ingress("old").default_backend("b:80"), young) {
        assert_eq!(world.http(""), ["/* shop/a/http"]);
    }
}

#[test]
fn it_loses_its_certificate() {
    let chains = |old: IngressBuilder, young: IngressBuilder| going(old, young).map(|world| world.chains());
    let rule = |name: &str| ingress(name).host("x.com").path("Prefix", "/", "a:80");
    // Both entries name the host.
    let found = chains(rule("old").tls(&["x.com"], "two"), rule("young").tls(&["x.com"], "one"));
    assert_eq!(found, [["x.com shop/one"], ["x.com shop/one"]]);
    // An entry without hosts loses to an entry that names the host, unless the other object is being deleted.
    let found = chains(rule("old").tls(&["x.com"], "two"), rule("young").tls(&[], "one"));
    assert_eq!(found, [["x.com shop/one"], ["x.com shop/one"]]);
    // The same applies to the chain of the wildcard above.
    let wildcard = ingress("old").host("*.x.com").path("Prefix", "/", "b:80").tls(&["*.x.com"], "two");
    let young = ingress("young").host("a.x.com").path("Prefix", "/", "a:80").tls(&[], "one-a");
    for world in going(wildcard, young) {
        let chains = world.with(secret("one-a", &["a.x.com"])).chains();
        assert!(chains.contains(&"a.x.com shop/one-a".to_owned()), "{chains:?}");
    }
}

#[test]
fn a_terminating_object_does_not_open_a_closed_host_in_plain_text() {
    let closed = "kubernetes.io/ingress.allow-http";
    let young = ingress("young").host("x.com").path("Prefix", "/a", "a:80").annotation(closed, "false");
    for world in going(ingress("old").host("x.com").path("Prefix", "/b", "b:80"), young) {
        let world = world.with(ingress("any").default_backend("c:80"));
        assert!(world.http("x.com").iter().all(|route| !route.starts_with("/*")), "{:?}", world.http("x.com"));
    }
}

#[test]
fn the_older_of_two_terminating_objects_wins() {
    let world = world()
        .with(ingress("young").terminating().created(2).host("x.com").path("Prefix", "/a", "a:80"))
        .with(ingress("old").terminating().created(1).host("x.com").path("Prefix", "/a", "b:80"));
    assert_eq!(world.http("x.com"), ["/a/ shop/b/http"]);
}

#[test]
fn it_is_served_without_a_conflict() {
    let old = ingress("old").host("x.com").path("Prefix", "/", "b:80").default_backend("b:80").tls(&["x.com"], "two");
    let young = ingress("young").host("y.com").path("Prefix", "/", "a:80");
    for (world, cluster) in going(old, young).into_iter().zip(["/* shop/b/http", "/* going/b/http"]) {
        assert_eq!((world.http("x.com"), world.https("x.com")), (vec!["/* 308".to_owned()], vec![cluster.to_owned()]));
        assert_eq!(world.problems(), [""; 0]);
    }
}

#[test]
fn a_deleted_class_is_not_an_older_default() {
    let world = world()
        .with(class("one").default_class().created(1).terminating())
        .with(class("two").default_class().created(2));
    assert!(world.problems().iter().all(|problem| problem.starts_with("IngressClass one")), "{:?}", world.problems());
    assert_eq!(world.problems().len(), 1);
}

/// Returns the Ingresses of `world` in the namespace `shop` that have lost all their routes.
fn lost(world: World) -> Vec<String> {
    let mut translator = Translator::default();
    translator.update(&objects(&world.objects), &world.settings, &ChangedInputs::everything());
    let lost = translator.sources().filter(|id| translator.has_lost(id));
    lost.map(|id| id.key.name.to_string()).collect()
}

#[test]
fn an_ingress_without_served_routes_has_lost() {
    let old = || world().with(ingress("old").host("x.com").path("Prefix", "/", "a:80").default_backend("a:80"));
    let young = |name: &str| ingress(name).created(1).host("x.com").path("Prefix", "/", "b:80");
    let world = old()
        .with(young("all"))
        .with(young("path").path("Prefix", "/b", "b:80"))
        .with(young("unreached").default_backend("b:80"))
        .with(ingress("all-hosts").created(1).host("y.com").default_backend("b:80"))
        .with(ingress("second").created(2).default_backend("b:80"))
        .with(ingress("first").created(1).default_backend("b:80"))
        .with(ingress("invalid").host("bad_host").path("Prefix", "/", "b:80"))
        .with(ingress("nothing").host("z.com"));
    assert_eq!(lost(world), ["all", "invalid", "second", "unreached"]);
    assert_eq!(lost(old().with(young("young"))), ["young"]);
}
