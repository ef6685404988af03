#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;

use super::*;
use crate::objects::foreign::CONTROLLERS;
use crate::testing::objects::*;

/// Returns whether an annotation restricts access with a value.
fn restricts(name: &str, value: &str) -> bool {
    matches!(classify(name, value), Classification::Restricts(_))
}

/// Returns the problems and the routes of an Ingress with these annotations.
fn classified(annotations: &[(&str, &str)], settings: &Settings) -> (Vec<String>, Vec<String>) {
    let mut one = ingress("i").host("x.com").path("Prefix", "/", "a:80");
    for (name, value) in annotations {
        one = one.annotation(name, value);
    }
    let mut world = world().with(one);
    world.settings = settings.clone();
    (world.problems(), world.http("x.com"))
}

#[test]
fn every_annotation_that_restricts_access_belongs_to_a_controller() {
    for (start, rows) in RESTRICTING {
        for (rest, _) in *rows {
            let name = format!("{start}{}", rest.replace('*', "x"));
            assert!(controller_of(&name).is_some(), "{name} is not kept by decoding");
            assert!(restricts(&name, "x") || restricts(&name, "internal") || restricts(&name, "deny all;"), "{name}");
        }
    }
}

#[test]
fn values_that_switch_a_restriction_off_do_not_restrict() {
    const NGINX: &str = "nginx.ingress.kubernetes.io";
    const TRAEFIK: &str = "traefik.ingress.kubernetes.io";
    const ALB: &str = "alb.ingress.kubernetes.io";
    for (prefix, name, value, expected) in [
        (NGINX, "auth-url", "", true),
        (NGINX, "auth-tls-verify-client", "off", false),
        (NGINX, "auth-tls-verify-client", "optional", true),
        (NGINX, "enable-modsecurity", "False", false),
        (NGINX, "enable-modsecurity", "true", true),
        // The value that cert-manager writes on the Ingresses of its solvers.
        (NGINX, "whitelist-source-range", "0.0.0.0/0,::/0", false),
        (NGINX, "whitelist-source-range", "10.0.0.0/8, 0.0.0.0/0", false),
        (NGINX, "whitelist-source-range", "10.0.0.0/8", true),
        (NGINX, "whitelist-source-range", "::/0", true),
        (NGINX, "whitelist-source-range", "", false),
        (NGINX, "configuration-snippet", "more_set_headers \"a: b\";", false),
        (NGINX, "configuration-snippet", "deny all;", true),
        (NGINX, "proxy-body-size", "1m", false),
        (TRAEFIK, "router.entrypoints", "web, websecure", false),
        (TRAEFIK, "router.entrypoints", "websecure,internal", true),
        (TRAEFIK, "router.middlewares", "default-auth@kubernetescrd", true),
        (ALB, "scheme", "internet-facing", false),
        (ALB, "scheme", "internal", true),
        (ALB, "conditions.web", "[]", true),
        (ALB, "auth-type", "none", false),
        ("konghq.com", "headers.x-key", "a", true),
        ("ingress.kubernetes.io", "auth-type", "basic", true),
        ("ingress.kubernetes.io", "force-ssl-redirect", "true", false),
    ] {
        assert_eq!(restricts(&format!("{prefix}/{name}"), value), expected, "{prefix}/{name}: {value}");
    }
}

#[test]
fn an_ingress_is_reported_once_for_each_meaning_with_all_names() {
    let annotations = [
        ("nginx.ingress.kubernetes.io/auth-url", "http://auth"),
        ("nginx.ingress.kubernetes.io/proxy-body-size", "1m"),
        ("nginx.ingress.kubernetes.io/auth-signin", "http://auth"),
        ("konghq.com/plugins", "key-auth"),
    ];
    let (problems, routes) = classified(&annotations, &Settings::default());
    assert_eq!(routes, ["/* 403"]);
    assert_eq!(problems.len(), 2, "{problems:?}");
    let [restricting, others] = [&problems[0], &problems[1]];
    assert!(restricting.contains("not enforced: \"konghq.com/plugins\", \"nginx.ingress.kubernetes.io/auth-url\""));
    assert!(restricting.contains("answered 403"), "{restricting}");
    assert!(others.contains("io/auth-signin\", \"nginx.ingress.kubernetes.io/proxy-body-size\"; left out"), "{others}");

    let mut settings = Settings::default();
    settings.ingress.restricting_annotations = RestrictingAnnotations::Ignore;
    let (problems, routes) = classified(&annotations, &settings);
    assert_eq!(routes, ["/* shop/a/http"]);
    assert!(problems.iter().any(|text| text.contains("served without the restriction")), "{problems:?}");

    settings = Settings::default();
    settings.ingress.ignored_annotations = annotations.iter().map(|(name, _)| (*name).to_owned()).collect();
    let (problems, routes) = classified(&annotations, &settings);
    assert_eq!((problems.len(), &*routes[0]), (0, "/* shop/a/http"));
}

#[test]
fn reports_and_bodies_have_a_bounded_length() {
    let many: Vec<String> = (0..500).map(|i| format!("alb.ingress.kubernetes.io/conditions.{i:060}")).collect();
    let annotations: Vec<_> = many.iter().map(|name| (name.as_str(), "[]")).collect();
    let (problems, routes) = classified(&annotations, &Settings::default());
    assert_eq!((problems.len(), &*routes[0]), (1, "/* 403"));
    assert!(problems[0].contains("answered 403"), "{}", problems[0]);
    // The value is not examined, regardless of its end.
    let long = format!("{},0.0.0.0/0", "10.0.0.0/8,".repeat(10_000));
    assert!(restricts("nginx.ingress.kubernetes.io/whitelist-source-range", &long));
    let every = RESTRICTING.iter().flat_map(|(start, rows)| rows.iter().map(move |(rest, _)| format!("{start}{rest}")));
    let body = body(&every.collect());
    assert!(body.len() < 1024 && body.ends_with(" more\n"), "{body}");
}

/// `BLESS=1` rewrites the table in the documentation.
#[test]
fn the_documentation_has_the_table() {
    let mut table = "| controller | annotation | values that restrict access |\n| --- | --- | --- |\n".to_owned();
    for (start, rows) in RESTRICTING {
        let owner = |(_, starts): &&(&str, &[&str])| {
            starts.iter().any(|known| start.starts_with(known) || known.starts_with(start))
        };
        let (controller, _) = CONTROLLERS.iter().find(owner).unwrap();
        for (rest, when) in *rows {
            writeln!(table, "| {controller} | `{start}{rest}` | {} |", when.describe()).unwrap();
        }
    }
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/annotations.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once("<!-- table -->\n").unwrap();
    let (_, after) = rest.split_once("<!-- end of table -->\n").unwrap();
    let expected = format!("{before}<!-- table -->\n{table}<!-- end of table -->\n{after}");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &expected).unwrap();
    } else {
        assert!(page == expected, "docs/annotations.md has another table; run `make docs`");
    }
}
