//! Requests over plain HTTP to hosts with TLS.

use crate::testing::model::Shared as _;
use crate::testing::objects::*;

const FORCED: &str = "ingress.kubernetes.io/force-ssl-redirect";
const FORCED_BY_NGINX: &str = "nginx.ingress.kubernetes.io/force-ssl-redirect";
const NGINX: &str = "nginx.ingress.kubernetes.io/ssl-redirect";
const ALLOW_HTTP: &str = "kubernetes.io/ingress.allow-http";

/// Returns an Ingress for `x.com` with TLS.
fn shop() -> IngressBuilder {
    ingress("shop").host("x.com").path("Prefix", "/", "a:80").tls(&["x.com"], "x")
}

#[test]
fn a_host_is_redirected_while_it_has_a_usable_certificate() {
    let with = world().with(secret("x", &["x.com"])).with(shop());
    assert_eq!(with.http("x.com"), ["/* 308"]);
    assert_eq!(with.https("x.com"), ["/* shop/a/http"]);
    let without = world().with(shop());
    assert_eq!(without.http("x.com"), ["/* shop/a/http"]);
    let plain = world().with(ingress("plain").host("x.com").path("Prefix", "/", "a:80"));
    assert_eq!(plain.http("x.com"), ["/* shop/a/http"]);
}

#[test]
fn annotations_of_an_ingress_override_the_setting() {
    const SERVED: &str = "/* shop/a/http";
    const REDIRECTED: &str = "/* 308";
    for (annotations, expected_if_on, expected_if_off) in [
        (&[][..], REDIRECTED, SERVED),
        (&[(NGINX, "false")], SERVED, SERVED),
        (&[(NGINX, "False")], SERVED, SERVED),
        (&[(NGINX, "true")], REDIRECTED, REDIRECTED),
        (&[(FORCED, "false")], SERVED, SERVED),
        (&[(FORCED, "true")], REDIRECTED, REDIRECTED),
        (&[(FORCED_BY_NGINX, "true"), (NGINX, "false")], REDIRECTED, REDIRECTED),
        (&[(FORCED_BY_NGINX, "false")], REDIRECTED, SERVED),
        (&[(FORCED, "false"), (FORCED_BY_NGINX, "true")], SERVED, SERVED),
        (&[(ALLOW_HTTP, "false")], "/* 404", "/* 404"),
        (&[(ALLOW_HTTP, "false"), (NGINX, "true")], "/* 404", "/* 404"),
        (&[(ALLOW_HTTP, "false"), (FORCED, "true")], REDIRECTED, REDIRECTED),
    ] {
        let annotated = annotations.iter().fold(shop(), |shop, (key, value)| shop.annotation(key, value));
        let mut world = world().with(secret("x", &["x.com"])).with(annotated);
        assert_eq!(world.http("x.com"), [expected_if_on], "{annotations:?}");
        assert_eq!(world.problems(), [""; 0], "{annotations:?}");
        world.settings.tls.redirect = false;
        assert_eq!(world.http("x.com"), [expected_if_off], "{annotations:?}, off");
    }
}

#[test]
fn an_ignored_annotation_and_one_that_is_no_boolean_have_no_effect() {
    let mut world = world().with(secret("x", &["x.com"])).with(shop().annotation(NGINX, "no"));
    assert_eq!(world.http("x.com"), ["/* 308"]);
    assert_eq!(world.problems().len(), 1);
    world.settings.ingress.ignored_annotations = vec![NGINX.to_owned()];
    assert_eq!(world.http("x.com"), ["/* 308"]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn only_an_ingress_without_tls_that_is_forced_is_redirected() {
    for (annotation, answer) in [(FORCED, "/* 308"), (FORCED_BY_NGINX, "/* 308"), (NGINX, "/* shop/a/http")] {
        let plain = ingress("plain").host("x.com").path("Prefix", "/", "a:80").annotation(annotation, "true");
        assert_eq!(world().with(plain).http("x.com"), [answer], "{annotation}");
    }
}

#[test]
fn challenges_of_acme_are_served_in_plain_text() {
    for annotated in [shop(), shop().annotation(FORCED, "true")] {
        let solver = ingress("solver").host("x.com").path("Exact", "/.well-known/acme-challenge/token", "b:80");
        let world = world().with(secret("x", &["x.com"])).with(annotated).with(solver);
        assert_eq!(world.http("x.com"), ["= /.well-known/acme-challenge/token shop/b/http", "/* 308"]);
    }
}

#[test]
fn requests_that_a_trusted_proxy_has_received_over_https_are_served() {
    for annotated in [shop(), shop().annotation(FORCED, "true")] {
        let mut world = world().with(secret("x", &["x.com"])).with(annotated);
        world.settings.http.trusted_hops = 1;
        let routes = world.http("x.com");
        assert_eq!(routes.len(), 2, "{routes:?}");
        assert!(routes[0].contains("shop/a/http"), "{routes:?}");
        assert_eq!(routes[1], "/* 308");
        let model = world.model();
        let (host, content) = model.http().iter().next().unwrap();
        let conditions = format!("{:?}", content.routes[0].matches.conditions());
        assert!(conditions.contains("x-forwarded-proto") && conditions.contains("https"), "{host}: {conditions}");
        assert_eq!(world.https("x.com"), ["/* shop/a/http"]);
    }
}
