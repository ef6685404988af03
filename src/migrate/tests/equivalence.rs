//! Requests are routed alike before and after a migration: the Ingresses and the written objects are translated, and the routing
//! decisions of the two models are compared for generated requests. Reported differences are excluded.

pub mod decision;

use std::collections::{BTreeMap, BTreeSet};

use lockgate_route::model::{Action, ListenerId, Model};
use lockgate_route::objects::{Ingress, Kind, Object, Objects};
use lockgate_route::settings::{NamespaceOwnership, Settings};
use lockgate_route::testing::objects::{class, ingress, objects, secret, service};
use lockgate_route::translate::translate;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::super::{Migration, MigrationOptions, migrate, proof};
use super::{NOW, options};
use crate::check::{Finding, Manifests, Scope};
use decision::{Decision, Request, decide};

const HOSTS: [&str; 6] = ["", "x.com", "a.x.com", "*.x.com", "b.org", "c.x.com"];
/// The names of requests. Names of several labels below a wildcard are a reported difference.
const NAMES: [&str; 6] = ["x.com", "a.x.com", "b.x.com", "c.x.com", "b.org", "unknown.org"];
const PATHS: [(&str, &str); 16] = [
    ("Prefix", "/"),
    ("Prefix", "/a"),
    ("Prefix", "/a/b"),
    ("Prefix", "/ab/"),
    ("Exact", "/"),
    ("Exact", "/a"),
    ("Exact", "/a/b/c"),
    ("ImplementationSpecific", ""),
    ("ImplementationSpecific", "/a"),
    ("ImplementationSpecific", "/a/b/"),
    ("ImplementationSpecific", "/a.b"),
    ("ImplementationSpecific", "/a/[a-z]+"),
    ("ImplementationSpecific", "/ab.*"),
    ("Prefix", "/.well-known/acme-challenge"),
    ("Prefix", "/a|b"),
    ("Exact", "/a b"),
];
const REQUESTS: [&str; 16] = [
    "/",
    "/a",
    "/a/",
    "/ab",
    "/ab/c",
    "/a/b",
    "/a/b/",
    "/a/b/c",
    "/a/bc",
    "/a/x",
    "/a.b",
    "/a.bc",
    "/a|b/c",
    "/a b",
    "/other",
    "/.well-known/acme-challenge/token",
];
const BACKENDS: [&str; 6] = ["a:80", "b:80", "c:http", "a:http", "gone:80", "Bucket/b"];
const SECRETS: [&str; 5] = ["x", "wild", "all", "missing", ""];
const ANNOTATIONS: [(&str, &str); 10] = [
    ("ingress.kubernetes.io/force-ssl-redirect", "true"),
    ("ingress.kubernetes.io/force-ssl-redirect", "false"),
    ("nginx.ingress.kubernetes.io/ssl-redirect", "false"),
    ("nginx.ingress.kubernetes.io/ssl-redirect", "true"),
    ("kubernetes.io/ingress.allow-http", "false"),
    ("kubernetes.io/ingress.allow-http", "false"),
    ("projectcontour.io/response-timeout", "5s"),
    ("projectcontour.io/response-timeout", "infinity"),
    ("lockgate.dev/delegate-to", "shop,other"),
    ("nginx.ingress.kubernetes.io/auth-url", "http://auth.test"),
];

prop_compose! {
    fn any_ingress()(
        name in select(vec!["one", "two", "three", "other/one", "other/two"]),
        created in 1i64..4,
        rules in prop::collection::vec(
            (select(&HOSTS[..]), prop::collection::vec((select(&PATHS[..]), select(&BACKENDS[..])), 1..5)),
            0..4,
        ),
        default in prop::option::weighted(0.2, select(&BACKENDS[..])),
        tls in prop::collection::vec((prop::collection::vec(select(&HOSTS[1..]), 0..3), select(&SECRETS[..])), 0..3),
        annotation in prop::option::weighted(0.4, select(&ANNOTATIONS[..])),
    ) -> Object {
        let mut builder = ingress(name).created(created);
        for (host, paths) in rules {
            builder = builder.host(host);
            for ((path_type, path), to) in paths {
                builder = builder.path(path_type, path, to);
            }
        }
        builder = default.into_iter().fold(builder, |builder, to| builder.default_backend(to));
        builder = tls.into_iter().fold(builder, |builder, (hosts, secret)| builder.tls(&hosts, secret));
        annotation.into_iter().fold(builder, |builder, (key, value)| builder.annotation(key, value)).into()
    }
}

prop_compose! {
    fn any_settings()(
        redirect in any::<bool>(),
        default in prop::option::weighted(0.2, select(vec!["all", "missing"])),
        fallback in prop::option::weighted(0.2, Just("all")),
        shared in any::<bool>(),
    ) -> Settings {
        let mut settings = Settings::default();
        settings.tls.redirect = redirect;
        settings.tls.default_secret = default.map(|name| ("shop".to_owned(), name.to_owned()));
        settings.tls.fallback_secret = fallback.map(|name| ("shop".to_owned(), name.to_owned()));
        if shared {
            settings.namespace_ownership = NamespaceOwnership::InterNamespaceAllowed;
        }
        settings
    }
}

/// Returns the objects of a cluster with these Ingresses.
fn world(ingresses: &[Object]) -> Objects {
    let mut all = vec![class("ours").into()];
    for namespace in ["shop", "other"] {
        let named = |name: &str| format!("{namespace}/{name}");
        all.extend(["a", "b", "c"].map(|name| service(&named(name)).port("http", 80).into()));
        all.push(secret(&named("x"), &["x.com"]).into());
        all.push(secret(&named("wild"), &["*.x.com"]).into());
        all.push(secret(&named("all"), &["x.com", "*.x.com", "b.org"]).into());
    }
    objects(&all.into_iter().chain(ingresses.iter().cloned()).collect::<Vec<_>>())
}

fn migrated(objects: &Objects, settings: &Settings, options: &MigrationOptions) -> Migration {
    let mut manifests = Manifests::default();
    manifests.add_objects(objects);
    let scope = Scope::Against { cluster: Box::default(), unlisted: BTreeSet::new() };
    migrate(&manifests, settings, &scope, options, NOW)
}

/// Returns the model of the written objects, without the Ingresses.
fn model_after(written: &Migration, objects: &Objects, settings: &Settings) -> Model {
    let (mut after, rejected) = proof::with(&written.objects, objects, settings);
    assert!(rejected.is_empty(), "{rejected:?}");
    let ingresses: Vec<_> = objects.all::<Ingress>().map(|ingress| ingress.meta.key.clone()).collect();
    for key in ingresses {
        after.delete(Kind::INGRESS, &key);
    }
    translate(&after, settings).model
}

/// Returns the hosts whose routes are tried in another order, as reported.
fn reordered(findings: &[Finding]) -> BTreeSet<&str> {
    findings
        .iter()
        .filter(|finding| finding.message.contains(" tries "))
        .filter_map(|finding| finding.message.strip_prefix("host \"")?.split('"').next())
        .collect()
}

fn has(findings: &[Finding], message: &str) -> bool {
    findings.iter().any(|finding| finding.message.contains(message))
}

/// Compares the decisions for all requests. Returns how often each kind of decision occurred.
fn compare(ingresses: &[Object], settings: &Settings) -> BTreeMap<&'static str, usize> {
    compare_with(ingresses, settings, |_| {})
}

/// Compares like [`compare`], after a change of the written objects.
fn compare_with(
    ingresses: &[Object],
    settings: &Settings,
    change: impl Fn(&mut Value),
) -> BTreeMap<&'static str, usize> {
    let objects = world(ingresses);
    let mut written = migrated(&objects, settings, &options());
    written.objects.last_mut().into_iter().for_each(change);
    let findings = &written.findings;
    let before = translate(&objects, settings).model;
    let after = model_after(&written, &objects, settings);
    let excluded = reordered(findings);
    let mut counts = BTreeMap::new();
    for name in NAMES {
        for path in REQUESTS {
            for is_tls in [false, true] {
                let request = Request { name, path, is_tls, headers: &[] };
                let (ids, gateway) = match is_tls {
                    false => (ListenerId::HTTP, "gateway/infra/ingress/80"),
                    true => (ListenerId::HTTPS, "gateway/infra/ingress/443"),
                };
                let (first, pattern) = decide(&before, ids, request, Some(ListenerId::HTTP));
                let (second, _) = decide(&after, gateway, request, None);
                // These differences are in the report.
                let by_default = has(findings, "behind the default certificate") && pattern.as_deref() == Some("*");
                let is_refused = first == Decision::Closed
                    && has(findings, &format!("TLS connections for host \"{name}\" are refused"));
                // A host without any route is not served either way: a wildcard listener answers 404 instead of closing.
                let plain = decide(&before, ListenerId::HTTP, Request { is_tls: false, ..request }, None).0;
                let is_unserved =
                    (&first, &second) == (&Decision::Closed, &Decision::Nothing) && plain.status() == Some(404);
                let is_excluded = pattern.is_some_and(|pattern| excluded.contains(&*pattern));
                if is_excluded || is_tls && (by_default || is_refused || is_unserved) {
                    continue;
                }
                let is_closed = has(findings, "is not served over plain HTTP");
                let are_same = match (&first, &second) {
                    (Decision::Route(Action::Forward(one)), Decision::Route(Action::Forward(other))) => one == other,
                    (Decision::Route(Action::Respond { status: 403 | 503, .. }), second) => {
                        second.status() == Some(500)
                    }
                    (first, second) if first.status() == Some(404) && second.status() == Some(500) => is_closed,
                    (first, second) => first == second || first.status().is_some() && first.status() == second.status(),
                };
                assert!(
                    are_same,
                    "{request:?}: {first:?} before, {second:?} after\n{:#?}\n{}",
                    findings
                        .iter()
                        .map(|one| format!("{} {}: {}", one.name, one.field, one.message))
                        .collect::<Vec<_>>(),
                    super::documents(&written.objects)
                );
                *counts.entry(first.kind()).or_default() += 1;
            }
        }
    }
    counts
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn requests_are_routed_alike(ingresses in prop::collection::vec(any_ingress(), 1..5), settings in any_settings()) {
        compare(&ingresses, &settings);
    }
}

#[test]
fn the_comparison_sees_every_kind_of_decision() {
    let shop = ingress("shop").host("x.com").path("Prefix", "/", "a:80").tls(&["x.com"], "x");
    let forced = ingress("forced").host("a.x.com").path("Prefix", "/a", "b:80").tls(&["a.x.com"], "wild");
    let forced = forced.annotation("ingress.kubernetes.io/force-ssl-redirect", "true");
    let list = [shop.into(), forced.into(), ingress("gone").host("b.org").path("Exact", "/a", "gone:80").into()];
    let counts = compare(&list, &Settings::default());
    let kinds: Vec<_> = counts.keys().copied().collect();
    assert_eq!(kinds, ["closed", "forward", "redirect", "respond"], "{counts:?}");
}

#[test]
fn a_host_without_a_certificate_that_is_closed_in_plain_text_is_reported() {
    let wildcard = ingress("one").created(2).host("*.x.com").path("Prefix", "/", "a:80").tls(&[], "wild");
    let closed = ingress("other/one").created(1).annotation("kubernetes.io/ingress.allow-http", "false");
    let closed = closed.host("*.x.com").path("Prefix", "/", "a:80").host("a.x.com").path("Prefix", "/", "a:80");
    let settings = Settings { namespace_ownership: NamespaceOwnership::InterNamespaceAllowed, ..Settings::default() };
    let counts = compare(&[wildcard.into(), closed.into()], &settings);
    assert!(counts.contains_key("forward"), "{counts:?}");
}

#[test]
fn a_host_that_only_a_tls_entry_without_a_certificate_names_is_reported() {
    let first = ingress("other/one").created(1).annotation("lockgate.dev/delegate-to", "shop");
    let first = first.host("*.x.com").path("Prefix", "/a", "a:80").tls(&["a.x.com"], "");
    let second = ingress("one").created(2).host("*.x.com").path("Prefix", "/", "a:80").tls(&["*.x.com"], "wild");
    let counts = compare(&[first.into(), second.into()], &Settings::default());
    assert!(counts.contains_key("forward"), "{counts:?}");
}

#[test]
#[should_panic(expected = " before, ")]
fn a_missing_redirect_is_noticed() {
    let shop = ingress("shop").host("x.com").path("Prefix", "/", "a:80").tls(&["x.com"], "x");
    let shop = shop.annotation("ingress.kubernetes.io/force-ssl-redirect", "true");
    compare_with(&[shop.into()], &Settings::default(), |route| {
        assert!(route["spec"]["rules"][0].as_object_mut().unwrap().remove("filters").is_some());
    });
}

#[test]
#[should_panic(expected = " before, ")]
fn a_prefix_of_elements_instead_of_characters_is_noticed() {
    let shop = ingress("shop").host("x.com").path("ImplementationSpecific", "/a", "a:80");
    compare_with(&[shop.into()], &Settings::default(), |route| {
        route["spec"]["rules"][0]["matches"][0]["path"] = json!({ "type": "PathPrefix", "value": "/a" });
    });
}
