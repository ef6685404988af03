//! Rules, hosts, conflicts, default backends, classes.

use crate::testing::model::Shared as _;
use crate::testing::objects::*;

#[test]
fn paths_of_a_host_are_tried_in_the_order_of_the_specification() {
    let world = world().with(
        ingress("i")
            .host("x.com")
            .path("Prefix", "/", "a:http")
            .path("Prefix", "/foo/", "a:80")
            .path("Exact", "/foo", "b:80")
            .path("ImplementationSpecific", "/v[0-9]+", "c:80")
            .path("Prefix", "/foo/bar", "c:http"),
    );
    assert_eq!(
        world.http("x.com"),
        [
            "= /foo shop/b/http",
            "~ /v[0-9]+ shop/c/http",
            "/foo/bar/ shop/c/http",
            "/foo/ shop/a/http",
            "/* shop/a/http"
        ]
    );
    assert_eq!(world.problems(), [""; 0]);
    assert_eq!(world.model().clusters.len(), 3);
}

#[test]
fn the_oldest_of_equal_paths_is_served() {
    let world = world()
        .with(ingress("young").created(2).host("x.com").path("Prefix", "/a", "a:80").path("Prefix", "/c", "c:80"))
        .with(ingress("old").created(1).host("X.com").path("Prefix", "/a/", "b:80"));
    assert_eq!(world.http("x.com"), ["/c/ shop/c/http", "/a/ shop/b/http"]);
    assert_eq!(
        world.problems(),
        ["Ingress shop/young: spec.rules[0].http.paths[0]: prefix \"/a\" of host \"x.com\" is taken by \
          spec.rules[0].http.paths[0] of Ingress shop/old; path left out"]
    );
    // A cluster without routes is not built.
    assert_eq!(world.model().clusters.len(), 2);
}

#[test]
fn objects_of_equal_age_are_ordered_by_name() {
    let world = world()
        .with(ingress("shop/b").host("x.com").path("Exact", "/", "b:80"))
        .with(ingress("shop/a").host("x.com").path("Exact", "/", "a:80"));
    assert_eq!(world.http("x.com"), ["= / shop/a/http"]);
}

#[test]
fn the_same_path_twice_in_one_ingress() {
    let to = |second: &str| {
        world()
            .with(ingress("i").host("x.com").path("Prefix", "/a", "a:80").path("Prefix", "/a/", second))
            .problems()
            .len()
    };
    assert_eq!((to("a:http"), to("b:80")), (0, 1));
}

#[test]
fn a_bad_path_or_host_costs_only_itself() {
    let world = world().with(
        ingress("i")
            .host("x.com")
            .path("Prefix", "a", "a:80")
            .path("ImplementationSpecific", "/[", "a:80")
            .path("Prefix", "/b", "b:80")
            .host("bad_host")
            .path("Prefix", "/", "a:80"),
    );
    assert_eq!(world.http("x.com"), ["/b/ shop/b/http"]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/i: spec.rules[0].http.paths[0].path: path \"a\" does not start with \"/\"; path left out",
            "Ingress shop/i: spec.rules[0].http.paths[1].path: path \"/[\" is not a regular expression that Envoy \
             accepts: unclosed character class; path left out",
            "Ingress shop/i: spec.rules[1].host: host \"bad_host\" is not a DNS name; rule left out",
        ]
    );
}

#[test]
fn a_default_backend_serves_only_hosts_that_no_rule_names() {
    let world = world()
        .with(ingress("own").created(1).host("x.com").path("Prefix", "/x", "a:80").default_backend("b:80"))
        .with(ingress("all").created(2).default_backend("c:80"))
        .with(ingress("other").created(3).host("y.com").path("Prefix", "/y", "a:80"));
    assert_eq!(world.http("x.com"), ["/x/ shop/a/http"]);
    assert_eq!(world.http("y.com"), ["/y/ shop/a/http"]);
    // An Ingress without rules takes precedence over an older Ingress with rules.
    assert_eq!(world.http(""), ["/* shop/c/http"]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/own: spec.defaultBackend: the default backend for hosts that no rule names is defined by Ingress \
          shop/all; default backend not used"
        ]
    );
}

#[test]
fn the_older_of_two_ingresses_without_rules_is_served() {
    let world = world()
        .with(ingress("young").created(2).default_backend("b:80"))
        .with(ingress("old").created(1).default_backend("a:80"));
    assert_eq!(world.http(""), ["/* shop/a/http"]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/young: spec.defaultBackend: the default backend for hosts that no rule names is defined by Ingress \
          shop/old; default backend not used"
        ]
    );
}

#[test]
fn a_rule_without_paths_goes_to_the_default_backend_of_its_ingress_else_404() {
    let world = world().with(ingress("d").default_backend("a:80"));
    assert_eq!(world.with(ingress("i").host("x.com")).http("x.com"), ["/* 404"]);
    let world = crate::testing::objects::world().with(ingress("i").host("x.com").default_backend("b:80"));
    assert_eq!(world.http("x.com"), ["/* shop/b/http"]);
    let world = world.with(ingress("d").default_backend("a:80"));
    assert_eq!(world.http("x.com"), ["/* shop/b/http"]);
    assert_eq!(world.http(""), ["/* shop/a/http"]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn a_wildcard_matches_one_label_and_its_default_backend_all_labels() {
    let world = world().with(ingress("i").host("*.x.com").path("Prefix", "/", "a:80"));
    assert_eq!(world.http("*.x.com"), ["1: /* shop/a/http"]);
    let world = world.with(ingress("d").default_backend("b:80"));
    assert_eq!(world.http("*.x.com"), ["1: /* shop/a/http", "/* shop/b/http"]);
}

#[test]
fn a_name_of_one_label_below_a_wildcard_answers_404_and_longer_names_use_rules_without_a_host() {
    let world = world()
        .with(ingress("i").host("*.x.com").path("Prefix", "/p", "a:80"))
        .with(ingress("any").host("").path("Prefix", "/any", "c:80"))
        .with(ingress("d").default_backend("b:80"));
    assert_eq!(world.http("*.x.com"), ["1: /p/ shop/a/http", "1: /* 404", "/any/ shop/c/http", "/* shop/b/http"]);
}

#[test]
fn a_root_prefix_leaves_no_requests_for_the_default_backend() {
    let world = world().with(ingress("i").host("x.com").path("Prefix", "/", "a:80").default_backend("b:80"));
    assert_eq!(world.http("x.com"), ["/* shop/a/http"]);
    assert_eq!(world.http(""), ["/* shop/b/http"]);
}

#[test]
fn nothing_gives_nothing() {
    assert_eq!(world().model(), crate::testing::model::empty());
}

#[test]
fn plain_text_may_be_redirected_or_closed() {
    let rule = |name: &str, host: &str| ingress(name).host(host).path("Prefix", "/", "a:80").tls(&[host], "cert");
    let world = world()
        .with(secret("cert", &["*.com"]))
        .with(rule("redirect", "r.com").annotation("ingress.kubernetes.io/force-ssl-redirect", "true"))
        .with(rule("closed", "c.com").annotation("kubernetes.io/ingress.allow-http", "false"))
        .with(
            rule("both", "b.com")
                .annotation("ingress.kubernetes.io/force-ssl-redirect", "true")
                .annotation("kubernetes.io/ingress.allow-http", "false"),
        )
        .with(ingress("all").default_backend("b:80"));
    for (host, answer) in [("r.com", "/* 308"), ("c.com", "/* 404"), ("b.com", "/* 308")] {
        assert_eq!(world.http(host), [answer]);
        assert_eq!(world.https(host), ["/* shop/a/http"]);
    }
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn requests_to_a_closed_path_do_not_reach_a_shorter_path_in_plain_text() {
    let world = world().with(ingress("open").host("x.com").path("Prefix", "/", "a:80")).with(
        ingress("closed")
            .annotation("kubernetes.io/ingress.allow-http", "false")
            .host("x.com")
            .path("Prefix", "/admin", "b:80"),
    );
    assert_eq!(world.http("x.com"), ["/admin/ 404", "/* shop/a/http"]);
}

#[test]
fn classes() {
    let served = |ingress: IngressBuilder, more: Option<ClassBuilder>, classless: bool, names: &[&str]| {
        let mut world = world().with(class("foreign").controller("example.com/other"));
        world.settings.ingress.classless = classless;
        world.settings.ingress.class_names = names.iter().map(|name| (*name).to_owned()).collect();
        if let Some(class) = more {
            world = world.with(class);
        }
        let world = world.with(ingress.host("x.com").path("Prefix", "/", "a:80"));
        assert_eq!(world.problems(), [""; 0]);
        !world.model().http().is_empty()
    };
    let i = || ingress("i");
    assert!(served(i(), None, false, &[]));
    assert!(!served(i().class(Some("foreign")), None, true, &[]));
    assert!(!served(i().class(Some("missing")), None, true, &[]));
    assert!(served(i().class(Some("missing")), None, false, &["missing"]));
    assert!(!served(i().class(None), None, false, &["ours"]));
    assert!(served(i().class(None), None, true, &[]));
    assert!(served(i().class(Some("")), None, true, &[]));
    assert!(served(i().class(None), Some(class("ours").default_class()), false, &[]));
    assert!(!served(i().class(None), Some(class("foreign").controller("x").default_class()), false, &[]));
    assert!(!served(i().annotation("kubernetes.io/ingress.class", "foreign"), None, false, &[]));
    assert!(served(i().class(Some("foreign")).annotation("kubernetes.io/ingress.class", "ours"), None, false, &[]));
    assert!(served(i().annotation("kubernetes.io/ingress.class", ""), None, false, &[]));
    let both =
        i().annotation("kubernetes.io/ingress.class", "foreign").annotation("projectcontour.io/ingress.class", "ours");
    assert!(served(both, None, false, &[]));
}

#[test]
fn a_second_default_class_is_reported() {
    let world = world()
        .with(class("new").created(2).default_class())
        .with(class("old").controller("x").created(1).default_class());
    let problems = world.problems();
    assert_eq!(problems.len(), 1);
    assert!(problems[0].starts_with("IngressClass new: "), "{problems:?}");
    assert!(problems[0].contains("\"old\""), "{problems:?}");
}

#[test]
fn annotations_set_timeouts_and_retries() {
    use crate::model::{Action, Forward, Retry};
    use std::time::Duration;
    let forward = |annotations: &[(&str, &str)]| -> Forward {
        let builder = annotations
            .iter()
            .fold(ingress("i"), |builder, (key, value)| builder.annotation(&format!("projectcontour.io/{key}"), value));
        let mut world = world().with(builder.host("x.com").path("Prefix", "/", "a:80"));
        world.settings.timeouts.response = Some(Duration::from_secs(15));
        let model = world.model();
        match &model.http().values().next().unwrap().routes[0].action {
            Action::Forward(forward) => Forward::clone(forward),
            other => panic!("{other:?}"),
        }
    };
    let retry = |on: &str, retries, per_try_timeout| {
        Some(Box::new(Retry { on: on.to_owned(), retries, per_try_timeout, ..Retry::default() }))
    };
    let second = Duration::from_secs(1);
    let plain = forward(&[]);
    assert_eq!((plain.timeout, plain.retry.clone(), plain.websocket), (Some(15 * second), None, true));
    assert_eq!(forward(&[("response-timeout", "infinity")]).timeout, None);
    assert_eq!(forward(&[("response-timeout", "0")]).timeout, Some(15 * second));
    assert_eq!(forward(&[("request-timeout", "2s"), ("response-timeout", "1s")]).timeout, Some(second));
    assert_eq!(forward(&[("request-timeout", "2s"), ("response-timeout", "soon")]).timeout, Some(2 * second));
    assert_eq!(forward(&[("num-retries", "3")]), plain);
    assert_eq!(forward(&[("retry-on", "5xx, reset")]).retry, retry("5xx,reset", 1, None));
    assert_eq!(forward(&[("retry-on", "5xx,sometimes")]).retry, retry("5xx", 1, None));
    assert_eq!(forward(&[("retry-on", "sometimes")]).retry, None);
    for (count, expected) in [("3", Some(3)), ("0", Some(1)), ("-1", None), ("-2", Some(1)), ("many", Some(1))] {
        let retries = forward(&[("retry-on", "5xx"), ("num-retries", count)]).retry.map(|retry| retry.retries);
        assert_eq!(retries, expected, "{count}");
    }
    let limited = forward(&[("retry-on", "5xx"), ("per-try-timeout", "1s")]).retry;
    assert_eq!(limited, retry("5xx", 1, Some(second)));
}

#[test]
fn invalid_unknown_and_misplaced_annotations_are_reported_and_ignored() {
    let keys = [
        ("projectcontour.io/retry-on", "sometimes"),
        ("projectcontour.io/num-retries", "many"),
        ("projectcontour.io/per-try-timeout", "later"),
        ("projectcontour.io/response-timeout", "5"),
        ("projectcontour.io/tls-minimum-protocol-version", "1.1"),
        ("projectcontour.io/max-connections", "5"),
        ("projectcontour.io/nonsense", ""),
        ("lockgate.dev/nonsense", ""),
        ("ingress.kubernetes.io/force-ssl-redirect", "yes"),
        ("kubernetes.io/ingress.allow-http", "no"),
    ];
    let builder = keys.iter().fold(ingress("i"), |builder, (key, value)| builder.annotation(key, value));
    let world = world().with(
        builder
            .annotation("projectcontour.io/websocket-routes", "/")
            .annotation("nginx.ingress.kubernetes.io/nonsense", "")
            .host("x.com")
            .path("Prefix", "/", "a:80"),
    );
    assert_eq!(world.http("x.com"), ["/* shop/a/http"]);
    let problems = world.problems();
    // The additional problem is about the annotation of another controller.
    assert_eq!(problems.len(), keys.len() + 1, "{problems:#?}");
    for (key, _) in keys {
        let field = format!("Ingress shop/i: metadata.annotations[{key:?}]: ");
        assert!(problems.iter().any(|problem| problem.starts_with(&field)), "{key}");
    }
}
