//! The names that are served behind TLS, and their Secrets.

use std::collections::BTreeSet;

use crate::model::{Cluster, Host, TlsVersion};
use crate::objects::Object;
use crate::testing::http_proxies::delegation;
use crate::testing::model::Shared as _;
use crate::testing::objects::*;

/// Returns an Ingress with a rule for `host`, `/` to `a`.
fn rule(name: &str, host: &str) -> IngressBuilder {
    ingress(name).host(host).path("Prefix", "/", "a:80")
}

#[test]
fn an_entry_for_the_host_precedes_the_wildcard_above() {
    let world = world()
        .with(secret("exact", &["a.x.com"]))
        .with(secret("wild", &["*.x.com"]))
        .with(rule("wild", "b.x.com").tls(&["*.x.com"], "wild"))
        .with(rule("exact", "a.x.com").tls(&["a.x.com"], "exact"));
    assert_eq!(world.chains(), ["a.x.com shop/exact", "b.x.com shop/wild", "*.x.com shop/wild"]);
    assert_eq!(world.https("b.x.com"), ["/* shop/a/http"]);
    assert_eq!(world.https("*.x.com"), ["/* 404"]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn a_certificate_is_used_for_the_hosts_of_its_ingress_that_it_covers() {
    let world = world()
        .with(secret("cert", &["a.x.com", "*.y.com"]))
        .with(rule("i", "a.x.com").host("b.y.com").host("c.z.com").tls(&[], "cert"))
        .with(rule("other", "d.y.com"));
    assert_eq!(world.chains(), ["a.x.com shop/cert", "b.y.com shop/cert"]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn an_entry_without_hosts_that_covers_nothing_is_reported() {
    let world = world().with(secret("cert", &["q.com"])).with(rule("i", "a.x.com").tls(&[], "cert"));
    assert_eq!(world.chains(), [""; 0]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/i: spec.tls[0]: lists no hosts, and the certificate of Secret \"shop/cert\" covers no host of the \
          rules; left out"
        ]
    );
}

#[test]
fn a_missing_secret_does_not_affect_plain_text() {
    let world = world().with(rule("i", "x.com").tls(&["x.com", "y.com"], "nope"));
    assert_eq!(world.chains(), [""; 0]);
    assert_eq!(world.http("x.com"), ["/* shop/a/http"]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/i: spec.tls[0].secretName: Secret \"shop/nope\" does not exist, has neither \"tls.crt\" nor \"tls.key\", or is neither of type \
          \"kubernetes.io/tls\" nor \"Opaque\"; no TLS for \"x.com\", \"y.com\""
        ]
    );
    let world = world.with(secret("default", &["q.com"])).default_secret("default");
    assert_eq!(world.chains(), ["x.com shop/default", "y.com shop/default", "* shop/default"]);
    assert!(world.problems()[0].ends_with("; default certificate for \"x.com\", \"y.com\""));
}

#[test]
fn the_last_good_pair_is_retained() {
    let world = world()
        .with(secret("cert", &["x.com"]).fault("data \"tls.key\" is not PEM"))
        .with(rule("i", "x.com").tls(&["x.com"], "cert"));
    assert_eq!(world.chains(), ["x.com shop/cert"]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/i: spec.tls[0].secretName: Secret \"shop/cert\": data \"tls.key\" is not PEM; last good key pair kept"
        ]
    );
    let never_good = secret("cert", &[]).fault("data \"tls.key\" is not PEM").without_pair();
    let world = crate::testing::objects::world().with(never_good).with(rule("i", "x.com").tls(&["x.com"], "cert"));
    assert_eq!(world.chains(), [""; 0]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/i: spec.tls[0].secretName: Secret \"shop/cert\": data \"tls.key\" is not PEM; no TLS for \"x.com\""
        ]
    );
}

#[test]
fn an_entry_without_a_secret_uses_the_default_certificate() {
    let world = world().with(rule("i", "x.com").tls(&["x.com"], ""));
    assert_eq!(world.chains(), [""; 0]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/i: spec.tls[0].secretName: no Secret is named, and there is no default certificate; no TLS for \
          \"x.com\""
        ]
    );
    let world = world.with(secret("default", &[])).default_secret("default");
    assert_eq!(world.chains(), ["x.com shop/default", "* shop/default"]);
    assert_eq!(world.problems(), [""; 0]);
}

#[test]
fn a_default_secret_without_a_pair_is_reported() {
    let world = world().with(rule("i", "x.com")).default_secret("nope");
    assert_eq!(world.chains(), [""; 0]);
    assert_eq!(
        world.problems(),
        [
            "Secret shop/nope: default TLS Secret \"shop/nope\" does not exist, is in a namespace that is not watched, has none of the keys \"tls.crt\", \"tls.key\", and \"ca.crt\", or is \
          neither of type \"kubernetes.io/tls\" nor \"Opaque\"; no default certificate"
        ]
    );
}

#[test]
fn the_oldest_usable_of_two_secrets_is_served() {
    let world = world()
        .with(secret("one", &["x.com"]))
        .with(secret("two", &["x.com"]))
        .with(rule("gone", "x.com").created(1).tls(&["x.com"], "nope"))
        .with(ingress("old").created(2).tls(&["x.com"], "one"))
        .with(ingress("young").created(3).tls(&["x.com"], "two"));
    assert_eq!(world.chains(), ["x.com shop/one"]);
    let problems = world.problems();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(
        problems[0].starts_with("Ingress shop/gone: ") && problems[0].ends_with("; Secret \"shop/one\" for \"x.com\"")
    );
    assert_eq!(
        problems[1],
        "Ingress shop/young: spec.tls[0].secretName: host \"x.com\" is served with Secret \"shop/one\" of a TLS entry \
         that takes precedence; Secret \"shop/two\" not used for \"x.com\""
    );
    let model = world.model();
    let origins: Vec<_> = model.https().values().next().unwrap().origins.iter().map(|o| &*o.name).collect::<Vec<_>>();
    assert_eq!(origins, ["gone", "old", "young"]);
}

#[test]
fn names_without_a_rule_use_the_rules_that_apply_to_them() {
    let with = |hosts: &[&str]| {
        let base = hosts.iter().fold(ingress("i").tls(&["a.x.com"], "cert"), |builder, host| {
            builder.host(host).path("Prefix", "/p", "a:80")
        });
        world().with(secret("cert", &["a.x.com"])).with(base).https("a.x.com")
    };
    assert_eq!(with(&["*.x.com", ""]), ["/p/ shop/a/http"]);
    assert_eq!(with(&[""]), ["/p/ shop/a/http"]);
    assert_eq!(with(&["other.com"]), ["/* 404"]);
}

#[test]
fn a_name_below_a_served_wildcard_is_served() {
    // Otherwise its clients would reach the wildcard's routes.
    let world = world()
        .with(secret("wild", &["*.x.com"]))
        .with(ingress("wild").host("*.x.com").path("Prefix", "/", "b:80").tls(&["*.x.com"], "wild"))
        .with(rule("plain", "a.x.com"))
        .with(rule("broken", "b.x.com").tls(&["b.x.com"], "nope"));
    assert_eq!(world.chains(), ["a.x.com shop/wild", "b.x.com shop/wild", "*.x.com shop/wild"]);
    assert_eq!(world.https("a.x.com"), ["/* shop/a/http"]);
    assert_eq!(world.https("*.x.com"), ["1: /* shop/b/http"]);
}

#[test]
fn the_default_chain_serves_rules_without_a_host() {
    let world = world()
        .with(secret("default", &["q.com"]))
        .default_secret("default")
        .with(ingress("any").host("").path("Prefix", "/any", "a:80"))
        .with(ingress("all").default_backend("b:80"));
    assert_eq!(world.https(""), ["/any/ shop/a/http", "/* shop/b/http"]);
    assert_eq!(world.http(""), ["/any/ shop/a/http", "/* shop/b/http"]);
}

#[test]
fn the_default_chain_without_rules_answers_404() {
    let world = world().with(secret("default", &["q.com"])).default_secret("default");
    assert_eq!(world.https(""), ["/* 404"]);
    assert!(world.model().http().is_empty());
}

#[test]
fn tls_versions() {
    let versions = |annotations: &[(&str, &str)]| {
        let builder = annotations.iter().fold(rule("i", "x.com").tls(&["x.com"], "cert"), |builder, (key, value)| {
            builder.annotation(&format!("projectcontour.io/tls-{key}-protocol-version"), value)
        });
        let world = world().with(secret("cert", &["x.com"])).with(builder);
        let tls = world.model().https_mut().remove(&Host::Exact("x.com".into())).unwrap();
        (tls.minimum, tls.maximum, world.problems().len())
    };
    use TlsVersion::{V1_2, V1_3};
    assert_eq!(versions(&[]), (V1_2, V1_3, 0));
    assert_eq!(versions(&[("minimum", "1.3")]), (V1_3, V1_3, 0));
    assert_eq!(versions(&[("maximum", "1.2")]), (V1_2, V1_2, 0));
    assert_eq!(versions(&[("minimum", "1.1")]), (V1_2, V1_3, 1));
    assert_eq!(versions(&[("minimum", "1.3"), ("maximum", "1.2")]), (V1_2, V1_3, 1));
}

#[test]
fn secrets_of_another_namespace_need_a_delegation() {
    let with = |namespace: &str| {
        world().with(secret("cert", &["x.com"])).with(
            rule("i", "x.com").tls(&["x.com"], "cert").annotation("projectcontour.io/tls-cert-namespace", namespace),
        )
    };
    assert_eq!(with("shop").chains(), ["x.com shop/cert"]);
    assert_eq!(with("other").chains(), [""; 0]);
    assert_eq!(with("other").problems().len(), 1);
    let with_secret = with("other").with(secret("other/cert", &["x.com"]));
    assert_eq!((with_secret.chains(), with_secret.problems().len()), (Vec::<String>::new(), 1));
    let delegated = with_secret.with(delegation("other/d", "cert", &["shop"]));
    assert_eq!((delegated.chains(), delegated.problems().len()), (vec!["x.com other/cert".to_owned()], 0));
}

#[test]
fn a_certificate_for_other_names_is_not_presented() {
    let hosts = ["x.com", "y.com"];
    let world = world().with(secret("cert", &["y.com"])).with(rule("i", "x.com").host("y.com").tls(&hosts, "cert"));
    assert_eq!(world.chains(), ["y.com shop/cert"]);
    let fault = "Ingress shop/i: spec.tls[0].secretName: the certificate of Secret \"shop/cert\" does not cover all hosts of \
                 this entry";
    assert_eq!(world.problems(), [format!("{fault}; no TLS for \"x.com\"")]);
    let world = world.with(secret("default", &["q.com"])).default_secret("default");
    assert_eq!(world.chains(), ["x.com shop/default", "y.com shop/cert", "* shop/default"]);
    assert_eq!(world.problems(), [format!("{fault}; default certificate for \"x.com\"")]);
}

#[test]
fn bad_hosts_of_an_entry_cost_only_themselves() {
    let world =
        world().with(secret("cert", &["x.com"])).with(rule("i", "x.com").tls(&["", "bad_host", "X.com"], "cert"));
    assert_eq!(world.chains(), ["x.com shop/cert"]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/i: spec.tls[0].hosts[0]: host \"\" is empty; host left out",
            "Ingress shop/i: spec.tls[0].hosts[1]: host \"bad_host\" is not a DNS name; host left out",
        ]
    );
}

#[test]
fn backends_with_tls_are_presented_the_client_certificate() {
    let with = |client: Option<&str>| {
        let mut world = world()
            .with(service("safe").port("", 443).app_protocol("https"))
            .with(service("bare").port("", 80))
            .with(secret("client", &[]))
            .with(ingress("i").host("x.com").path("Exact", "/safe", "safe:443").path("Exact", "/bare", "bare:80"));
        world.settings.upstream.client_certificate = client.map(|name| ("shop".to_owned(), name.to_owned()));
        world
    };
    let shown = |world: &World| -> Vec<(String, Option<String>)> {
        let shown = |cluster: &Cluster| cluster.policy.client_certificate.as_ref().map(ToString::to_string);
        world.model().clusters.iter().map(|(name, cluster)| (name.to_string(), shown(cluster))).collect()
    };
    let (bare, safe) = ("shop/bare/80".to_owned(), "shop/safe/443".to_owned());
    let world = with(Some("client"));
    assert_eq!(shown(&world), [(bare.clone(), None), (safe.clone(), Some("shop/client".to_owned()))]);
    assert_eq!(world.model().secrets.len(), 1);
    let world = with(None);
    assert_eq!(shown(&world), [(bare.clone(), None), (safe, None)]);
    assert!(world.model().secrets.is_empty());
    // Without the pair, no request is sent to backends that require it.
    let world = with(Some("nope"));
    assert_eq!(shown(&world), [(bare, None)]);
    assert_eq!(world.problems().len(), 2, "{:?}", world.problems());
    assert!(world.problems()[1].ends_with("paths to backends with TLS answer 503"), "{:?}", world.problems());
}

#[test]
fn statistics_over_tls_require_their_secrets() {
    let shop = |name: &str| Some(("shop".to_owned(), name.to_owned()));
    let with = |objects: Vec<Object>, client_ca: Option<&str>| {
        let mut world = objects.into_iter().fold(world(), World::with);
        let stats = &mut world.settings.listeners.stats_tls;
        (stats.at.port, stats.secret, stats.client_ca) = (8003, shop("pair"), client_ca.and_then(shop));
        world
    };
    let served = |world: &World| {
        let model = world.model();
        let named = model.stats_tls.into_iter().flat_map(|stats| [Some(stats.secret), stats.clients]).flatten();
        let named: BTreeSet<_> = named.collect();
        assert!(model.secrets.keys().eq(&named), "{:?}", model.secrets);
        named.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let pair = || -> Object { secret("pair", &[]).into() };
    let issuer = || secret("issuer", &[]).without_pair().fault("data[\"tls.crt\"] is missing");
    assert_eq!(served(&with(vec![pair()], None)), ["shop/pair"]);
    let both = with(vec![pair(), issuer().authorities("pem").into()], Some("issuer"));
    assert_eq!(
        (served(&both), both.problems()),
        (vec!["shop/issuer/ca.crt".to_owned(), "shop/pair".to_owned()], vec![])
    );
    let one = with(vec![secret("pair", &[]).authorities("pem").into()], Some("pair"));
    assert_eq!(served(&one), ["shop/pair", "shop/pair/ca.crt"]);

    let none = with(vec![], Some("nope"));
    assert_eq!(served(&none), [""; 0]);
    let missing = "does not exist, is in a namespace that is not watched, has none of the keys \"tls.crt\", \"tls.key\", and \"ca.crt\", or is neither of type \"kubernetes.io/tls\" nor \
                   \"Opaque\"; no statistics are served";
    assert_eq!(
        none.problems(),
        [
            format!("Secret shop/nope: Secret of the authorities of scrapers \"shop/nope\" {missing}"),
            format!("Secret shop/pair: Secret of the statistics' certificate \"shop/pair\" {missing}"),
        ]
    );
    let without = with(vec![pair(), issuer().into()], Some("issuer"));
    assert_eq!(served(&without), [""; 0]);
    assert_eq!(
        without.problems(),
        ["Secret shop/issuer: Secret of the authorities of scrapers \"shop/issuer\": data[\"ca.crt\"] is missing; no \
          statistics are served"]
    );
    let last_good = with(vec![secret("pair", &[]).fault("expired").into()], None);
    assert_eq!(served(&last_good), ["shop/pair"]);
    assert!(last_good.problems()[0].ends_with("\"shop/pair\": expired; last good key pair kept"));
    let mut off = with(vec![], Some("nope"));
    off.settings.listeners.stats_tls.at.port = 0;
    assert_eq!((served(&off), off.problems()), (vec![], vec![]));
}

/// Envoy rejects an Ed25519 key pair over QUIC, and with it all other key pairs of the same response.
#[test]
fn an_ed25519_key_pair_is_not_served_while_http3_is_on() {
    let mut world = world()
        .with(secret("odd", &["a.x.com"]).ed25519())
        .with(secret("good", &["b.x.com"]))
        .with(rule("a", "a.x.com").tls(&["a.x.com"], "odd"))
        .with(rule("b", "b.x.com").tls(&["b.x.com"], "good"));
    assert_eq!(world.chains(), ["a.x.com shop/odd", "b.x.com shop/good"]);
    assert_eq!(world.problems(), [""; 0]);
    world.settings.http.http3.enabled = true;
    assert_eq!(world.chains(), ["b.x.com shop/good"]);
    assert_eq!(
        world.problems(),
        [
            "Ingress shop/a: spec.tls[0].secretName: Secret \"shop/odd\": the key is Ed25519, which Envoy does not serve while \
          \"http.http3.enabled\" is on; no TLS for \"a.x.com\""
        ]
    );
    let world = world.default_secret("odd");
    assert_eq!(world.chains(), ["b.x.com shop/good"]);
    assert!(
        world.problems()[1].contains("default TLS Secret \"shop/odd\": the key is Ed25519"),
        "{:?}",
        world.problems()
    );
}
