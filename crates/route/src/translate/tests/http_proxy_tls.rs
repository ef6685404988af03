//! TLS of HTTPProxies: connections that are forwarded, and verified clients.

use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, json};

use super::http_proxies::{World, to};
use crate::model::Host;
use crate::objects::{Kind, Object};
use crate::testing::http_proxies::{delegation, http_proxy};
use crate::testing::model::Shared as _;
use crate::testing::objects::*;

/// Returns how the TLS connections for a host are served.
fn tls_of(world: &World, name: &str) -> &'static str {
    let tls = world.translator.model().tls("https").cloned().unwrap_or_default();
    let host = Host::Exact(name.into());
    let forwarded = tls.connections.get(&host).map(|one| if one.terminated.is_some() { "decrypted" } else { "passed" });
    let served = tls.hosts.get(&host).map(|tls| if tls.clients.is_some() { "verified" } else { "served" });
    let refused = tls.refused.contains(&host).then_some("refused");
    forwarded.or(served).or(refused).unwrap_or("unknown")
}

#[test]
fn a_tcp_proxy_takes_the_connections_and_not_the_requests_in_plain_text() {
    let of = |tls: Value, tcp: Value| json!({ "virtualhost": { "fqdn": "x.test", "tls": tls }, "routes": [{ "services": to("a"), "permitInsecure": true }], "tcpproxy": tcp });
    let (passthrough, services) = (json!({ "passthrough": true }), json!({ "services": to("a") }));
    let mut world = World::new(&[
        secret("good", &["x.test"]).into(),
        http_proxy("root", &of(passthrough.clone(), json!({ "include": { "name": "team" } }))),
    ]);
    assert_eq!((tls_of(&world, "x.test"), world.reasons("root")), ("refused", vec!["IncludeNotFound".into()]));
    world.apply(http_proxy("team", &json!({ "tcpproxy": services })));
    assert_eq!((tls_of(&world, "x.test"), world.reasons("root").len()), ("passed", 0));
    assert_eq!((world.reasons("team").len(), world.has_lost("team"), world.has_lost("root")), (0, false, false));
    assert_eq!(world.routes("x.test"), ["/ forward root"]);
    world.apply(http_proxy("root", &of(json!({ "secretName": "good" }), services.clone())));
    assert_eq!((tls_of(&world, "x.test"), world.reasons("team")), ("decrypted", vec!["Orphaned".into()]));
    world.delete(Kind::SECRET, "good");
    world.apply(secret("good", &["y.test"]));
    assert_eq!(
        (tls_of(&world, "x.test"), world.reasons("root")),
        ("decrypted", vec!["warning CertificateNamesDiffer".into()])
    );
    world.apply(http_proxy("root", &of(passthrough, services)));
    world.delete(Kind::SERVICE, "a");
    assert_eq!(tls_of(&world, "x.test"), "refused");
    world.delete(Kind::HTTP_PROXY, "root");
    assert_eq!(tls_of(&world, "x.test"), "unknown");
}

#[test]
fn an_older_host_of_an_ingress_does_not_take_the_connections_of_a_tcp_proxy() {
    let of = json!({ "virtualhost": { "fqdn": "x.test", "tls": { "passthrough": true } }, "tcpproxy": { "services": to("a") } });
    let older = ingress("older").created(-1).host("x.test").path("Prefix", "/", "a:80").tls(&["x.test"], "good");
    let mut world = World::new(&[secret("good", &["x.test"]).into(), older.into(), http_proxy("root", &of)]);
    assert_eq!((tls_of(&world, "x.test"), world.routes("x.test")), ("passed", vec!["/ 308 older".into()]));
    world.delete(Kind::HTTP_PROXY, "root");
    assert_eq!(tls_of(&world, "x.test"), "served");
}

#[test]
fn a_name_below_a_wildcard_that_is_passed_through_is_not_passed_with_it() {
    let wild = json!({ "virtualhost": { "fqdn": "*.x.test", "tls": { "passthrough": true } }, "tcpproxy": { "services": to("a") } });
    let below = json!({ "virtualhost": { "fqdn": "b.x.test" }, "routes": [{ "services": to("a") }] });
    let mut world = World::new(&[http_proxy("wild", &wild), http_proxy("other/below", &below)]);
    assert_eq!(tls_of(&world, "b.x.test"), "refused");
    world.delete(Kind::HTTP_PROXY, "wild");
    assert_eq!(tls_of(&world, "b.x.test"), "unknown");
}

#[test]
fn clients_are_verified_or_refused() {
    let of = |clients: Value| json!({ "virtualhost": { "fqdn": "x.test", "tls": { "secretName": "good", "clientValidation": clients } }, "routes": [{ "services": to("a") }] });
    let mut world =
        World::new(&[secret("good", &["x.test"]).into(), http_proxy("root", &of(json!({ "caSecret": "ca" })))]);
    assert_eq!((tls_of(&world, "x.test"), world.reasons("root")), ("refused", vec!["ClientValidationInvalid".into()]));
    assert_eq!(world.routes("x.test"), ["/ 301 root"], "no route is served in clear text");
    world.apply(secret("ca", &["ca.test"]).authorities("one"));
    assert_eq!((tls_of(&world, "x.test"), world.reasons("root").len()), ("verified", 0));
    let material = |world: &World| {
        let tls = world.translator.model().https().get(&Host::Exact("x.test".into())).cloned();
        let id = tls.and_then(|tls| tls.clients?.authorities);
        id.and_then(|id| Some(format!("{:?}", world.translator.model().secrets.get(&id)?.material)))
    };
    world.apply(secret("ca", &["ca.test"]).authorities("two"));
    assert_eq!(material(&world).as_deref(), Some("Authorities(\"two\")"));
    world.apply(http_proxy("root", &of(json!({ "caSecret": "ca", "crlSecret": "crl" }))));
    assert_eq!((tls_of(&world, "x.test"), world.reasons("root")), ("refused", vec!["ClientValidationInvalid".into()]));
    world.apply(secret("crl", &["ca.test"]).revocations("list"));
    assert!(material(&world).is_some_and(|text| text.contains("\"two\"") && text.contains("\"list\"")));
    world.apply(secret("crl", &["ca.test"]).revocations("longer"));
    assert!(material(&world).is_some_and(|text| text.contains("\"longer\"")), "{:?}", material(&world));
    world.delete(Kind::SECRET, "crl");
    assert_eq!(tls_of(&world, "x.test"), "refused");
    world.apply(http_proxy("root", &of(json!({ "caSecret": "other/ca" }))));
    assert_eq!((tls_of(&world, "x.test"), world.reasons("root")), ("refused", vec!["DelegationNotPermitted".into()]));
    world.apply(secret("other/ca", &["ca.test"]).authorities("three"));
    world.apply(delegation("other/d", "ca", &["shop"]));
    assert_eq!((tls_of(&world, "x.test"), world.reasons("root").len()), ("verified", 0));
}

/// A TLS entry for a name below a wildcard serves the rules of the wildcard, and must not be a way around its verification.
#[test]
fn a_copy_of_the_rules_of_a_wildcard_verifies_clients_as_well() {
    let wild = json!({ "virtualhost": { "fqdn": "*.x.test", "tls": { "secretName": "wild", "clientValidation": { "caSecret": "ca" } } }, "routes": [{ "services": to("a") }] });
    let entry = ingress("entry").tls(&["b.x.test"], "one");
    let mut world = World::new(&[
        secret("wild", &["*.x.test"]).into(),
        secret("one", &["b.x.test"]).into(),
        secret("ca", &["ca.test"]).authorities("one").into(),
        entry.into(),
        http_proxy("wild", &wild),
    ]);
    assert_eq!(tls_of(&world, "b.x.test"), "verified");
    world.apply(delegation("other/d", "unrelated", &["shop"]));
    world.apply(http_proxy("wild", &json!({ "virtualhost": { "fqdn": "*.x.test", "tls": { "secretName": "wild", "clientValidation": { "caSecret": "gone" } } }, "routes": [{ "services": to("a") }] })));
    assert_eq!(tls_of(&world, "b.x.test"), "refused");
}

/// Returns a TCP proxy.
pub(super) fn any_tcp_proxy() -> impl Strategy<Value = Option<Value>> {
    let services = |service: &str| json!({ "services": to(service) });
    let include = |name: &str| json!({ "include": { "name": name } });
    let two =
        json!({ "services": [{ "name": "a", "port": 80, "weight": 2 }, { "name": "b", "port": 80, "weight": 1 }] });
    let verified = |secret: &str| {
        let validation = json!({ "caSecret": secret, "subjectName": "a" });
        let service = json!({ "name": "a", "port": 80, "protocol": "tls", "validation": validation });
        json!({ "services": [service], "loadBalancerPolicy": { "strategy": "Random" } })
    };
    let checked = json!({ "services": to("b"), "healthCheckPolicy": { "intervalSeconds": 3 } });
    let proxies = [services("a"), services("gone"), two, include("one"), include("two"), include("three")];
    let proxies = proxies.into_iter().chain([verified("ca"), verified("other/ca"), checked]);
    select([None, None, None, None].into_iter().chain(proxies.map(Some)).collect::<Vec<_>>())
}

/// Returns a verification of clients.
pub(super) fn any_clients() -> impl Strategy<Value = Option<Value>> {
    let validations = [
        json!({ "caSecret": "ca" }),
        json!({ "caSecret": "ca", "crlSecret": "ca" }),
        json!({ "caSecret": "other/ca", "optionalClientCertificate": true }),
        json!({ "skipClientCertValidation": true, "forwardClientCertificate": { "subject": true } }),
    ];
    select([None, None, None].into_iter().chain(validations.map(Some)).collect::<Vec<_>>())
}

/// Returns a Secret with authorities, or without, and with revocation lists, or without.
pub(super) fn any_authorities() -> impl Strategy<Value = Object> {
    (select(vec!["ca", "other/ca"]), prop::option::of("[ab]"), prop::option::of("[ab]")).prop_map(
        |(name, authorities, revocations)| {
            let mut secret = secret(name, &["ca.test"]);
            if let Some(authorities) = authorities {
                secret = secret.authorities(&authorities);
            }
            match revocations {
                Some(revocations) => secret.revocations(&revocations).into(),
                None => secret.into(),
            }
        },
    )
}
