//! The servers that HTTPProxies call: ExtensionServices with their status, and servers of keys.

use serde_json::{Value, json};

use super::http_proxies::{World, to, verifications};
use super::incremental::Step;
use crate::model::Algorithm;
use crate::objects::{Kind, ObjectId};
use crate::testing::http_proxies::{delegation, extension_service, http_proxy};
use crate::testing::objects::*;

/// Returns a root with authorization by an ExtensionService.
fn asked(namespace: &str, name: &str) -> Value {
    let authorization = json!({ "extensionRef": { "namespace": namespace, "name": name } });
    json!({ "virtualhost": { "fqdn": "x.test", "authorization": authorization }, "routes": [{ "services": to("a") }] })
}

fn verified(secret: &str) -> Value {
    json!({ "services": to("a"), "validation": { "caSecret": secret, "subjectName": "auth" } })
}

fn id(name: &str) -> ObjectId {
    Kind::EXTENSION_SERVICE.id(meta(name).key)
}

const OPEN: &str = "/ forward root";
const CLOSED: &str = "/ 503 root";

#[test]
fn an_extension_service_is_verified_with_delegated_authorities_until_they_are_withdrawn() {
    let mut world = World::new(&[
        http_proxy("root", &asked("other", "auth")),
        extension_service("other/auth", &verified("third/ca")),
    ]);
    let state = |world: &World| (world.routes("x.test"), world.reasons_of(Kind::EXTENSION_SERVICE, "other/auth"));
    let closed = |reason: &str| (vec![CLOSED.to_owned()], vec![reason.to_owned()]);
    assert_eq!(state(&world), closed("CACertificateNotDelegated"));
    assert_eq!(world.reasons("root"), ["ExtensionServiceNotFound"]);
    world.apply(delegation("third/d", "ca", &["shop"]));
    assert_eq!(state(&world), closed("CACertificateNotDelegated"), "the namespace of the ExtensionService counts");
    world.apply(delegation("third/d", "ca", &["other"]));
    assert_eq!(state(&world), closed("TLSUpstreamValidation"));
    world.apply(secret("third/ca", &[]).without_pair().authorities("one"));
    assert_eq!(state(&world), (vec![OPEN.to_owned()], vec![]));
    assert_eq!(verifications(&world), ["auth third/ca/ca.crt"]);
    world.delete(Kind::TLS_CERTIFICATE_DELEGATION, "third/d");
    assert_eq!((state(&world), verifications(&world).len()), (closed("CACertificateNotDelegated"), 0));
    let mut clear = verified("ca");
    clear["protocol"] = json!("h2c");
    world.apply(secret("other/ca", &[]).without_pair().authorities("one"));
    world.apply(extension_service("other/auth", &clear));
    assert_eq!(state(&world), closed("InconsistentProtocol"));
}

/// A class of another controller leaves an ExtensionService alone, because Contour writes the same status.
#[test]
fn an_extension_service_is_served_if_a_root_refers_to_it_or_without_classes() {
    let mut world = World::new(&[extension_service("auth", &json!({ "protocol": "h2c", "services": to("gone") }))]);
    assert_eq!(world.reasons_of(Kind::EXTENSION_SERVICE, "auth"), ["ServiceUnresolvedReference"]);
    assert!(world.translator.model().clusters.is_empty(), "no root needs its cluster");
    let mut settings = world.settings.clone();
    settings.ingress.classless = false;
    world.take(Step::Settings(Box::new(settings)));
    assert!(!world.translator.serves(&id("auth")));
    let mut root = asked("", "auth");
    root["ingressClassName"] = json!("foreign");
    world.apply(http_proxy("root", &root));
    assert!(!world.translator.serves(&id("auth")));
    root["ingressClassName"] = json!("ours");
    world.apply(http_proxy("root", &root));
    assert_eq!(world.reasons_of(Kind::EXTENSION_SERVICE, "auth"), ["ServiceUnresolvedReference"]);
    world.apply(service("gone").port("http", 80));
    assert_eq!((world.reasons_of(Kind::EXTENSION_SERVICE, "auth").len(), world.reasons("root").len()), (0, 0));
    world.delete(Kind::HTTP_PROXY, "root");
    assert!(!world.translator.serves(&id("auth")) && world.translator.model().clusters.is_empty());
}

#[test]
fn a_server_has_the_policies_of_its_extension_service() {
    let spec = json!({
        "services": [{ "name": "a", "port": 80, "weight": 1 }, { "name": "b", "port": 80, "weight": 2 }],
        "protocol": "h2c",
        "loadBalancerPolicy": { "strategy": "Random" },
        "circuitBreakerPolicy": { "maxRequests": 7 },
        "timeoutPolicy": { "response": "3s", "idle": "1s", "idleConnection": "5s" },
    });
    let mut world = World::new(&[
        service("b").port("http", 80).into(),
        http_proxy("root", &asked("", "auth")),
        extension_service("auth", &spec),
    ]);
    let policy = |world: &World| {
        let mut clusters = world.translator.model().clusters.values();
        let found = clusters.find(|cluster| !cluster.of_service && &*cluster.origin.name == "b").cloned();
        found.expect("a cluster of its own").policy.clone()
    };
    let features = policy(&world).features.expect("features");
    assert_eq!(features.load_balancing.as_ref().map(|one| one.algorithm), Some(Algorithm::Random));
    assert_eq!(features.idle_timeout, Some(std::time::Duration::from_secs(5)));
    let limits = policy(&world).limits;
    assert_eq!((limits.max_requests, limits.max_connections), (Some(7), None));
    assert_eq!(world.reasons_of(Kind::EXTENSION_SERVICE, "auth"), ["warning IgnoredField"], "the idle time");
    let shares: Vec<_> = features.shares.iter().map(|(port, weight)| (port.to_string(), *weight)).collect();
    assert_eq!(shares, [("shop/a/http".to_owned(), 1), ("shop/b/http".to_owned(), 2)]);
    let names = |world: &World| -> Vec<_> {
        world.translator.model().clusters.values().map(|cluster| cluster.origin.name.to_string()).collect()
    };
    assert_eq!(names(&world), ["a", "a", "b"], "the endpoints of both Services are known");
    let mut changed = spec;
    changed["circuitBreakerPolicy"] =
        json!({ "maxRequests": 8, "maxRetries": -1, "maxConnections": 4_000_000_000_u64 });
    world.apply(extension_service("auth", &changed));
    let most = world.settings.tenants.max_circuit_breaker;
    let limits = policy(&world).limits;
    assert_eq!((limits.max_requests, limits.max_retries, limits.max_connections), (Some(8), None, Some(most)));
    // A missing Service leaves the calls to the others.
    world.delete(Kind::SERVICE, "b");
    assert_eq!(world.routes("x.test"), [OPEN]);
    assert_eq!(names(&world), ["a", "a"]);
    assert!(world.reasons_of(Kind::EXTENSION_SERVICE, "auth").contains(&"ServiceUnresolvedReference".to_owned()));
}

#[test]
fn a_server_of_keys_is_verified_or_its_routes_are_closed() {
    let root = |uri: &str, secret: &str| {
        let keys = json!({ "uri": uri, "validation": { "caSecret": secret, "subjectName": "keys" } });
        let provider = json!({ "name": "first", "default": true, "remoteJWKS": keys });
        let host = json!({ "fqdn": "x.test", "jwtProviders": [provider] });
        http_proxy("root", &json!({ "virtualhost": host, "routes": [{ "services": to("a") }] }))
    };
    let mut world = World::new(&[root("http://a.shop.svc/keys", "ca")]);
    let state = |world: &World| (world.routes("x.test"), world.reasons("root"));
    let closed = |reason: &str| (vec![CLOSED.to_owned()], vec![reason.to_owned()]);
    assert_eq!(state(&world), closed("RemoteJWKSUpstreamValidationInvalid"));
    world.apply(root("https://a.shop.svc:80/keys", "other/ca"));
    assert_eq!(state(&world), closed("RemoteJWKSCACertificateNotDelegated"));
    world.apply(delegation("other/d", "ca", &["*"]));
    assert_eq!(state(&world), closed("RemoteJWKSUpstreamValidationInvalid"));
    world.apply(secret("other/ca", &[]).without_pair().authorities("one"));
    assert_eq!(state(&world), (vec![OPEN.to_owned()], vec![]));
    assert_eq!(verifications(&world), ["a.shop.svc other/ca/ca.crt"]);
    world.delete(Kind::TLS_CERTIFICATE_DELEGATION, "other/d");
    assert_eq!((state(&world), verifications(&world).len()), (closed("RemoteJWKSCACertificateNotDelegated"), 0));
}

/// Each cluster has a copy of the authorities.
#[test]
fn the_authorities_of_servers_count_toward_the_limit_of_the_namespace() {
    let large = secret("ca", &[]).without_pair().authorities(&"x".repeat(300 << 10));
    let mut world =
        World::new(&[http_proxy("root", &asked("", "auth")), extension_service("auth", &verified("ca")), large.into()]);
    assert_eq!(world.routes("x.test"), [OPEN]);
    let mut settings = world.settings.clone();
    settings.tenants.max_configuration_per_namespace = 200 << 10;
    world.take(Step::Settings(Box::new(settings)));
    assert_eq!(
        (world.routes("x.test"), world.reasons("root")),
        (vec![CLOSED.to_owned()], vec!["TooManyPolicies".to_owned()])
    );
}
