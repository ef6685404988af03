#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_route::model::KeyPair;
use lockgate_route::objects::{Object, Secret};
use lockgate_route::settings::Settings;
use lockgate_route::testing::gateway::{gateway, listener_set};
use lockgate_route::testing::objects::{class, ingress, secret, service};
use lockgate_xds::snapshot::ResourceType;
use tokio::sync::watch;

use super::*;
use crate::admin::Readiness;
use crate::controller::{Class, Fleets, View};
use crate::inspection::Inspection;
use crate::metrics::Metrics;
use crate::source::Event;

/// A replica and the content that it shares with others.
struct Replica {
    controller: Controller,
    inspected: watch::Receiver<Arc<Inspection>>,
}

impl Replica {
    /// Starts a replica that has just listed `objects`.
    fn start(objects: &[Object], asks: bool) -> Self {
        let fleets = Fleets::default();
        let (inspection, inspected) = watch::channel(Arc::default());
        let readiness = Readiness::awaiting(Kind::ALL.map(Kind::as_str));
        let controller = Controller::new(Settings::default(), fleets, readiness, Metrics::default(), inspection);
        let mut replica = Self { controller: controller.with_replicas(asks), inspected };
        let of = |kind| objects.iter().filter(|object| object.kind() == kind).cloned().collect();
        replica.pass(Kind::ALL.into_iter().map(|kind| Event::Listed(kind, of(kind))).collect());
        replica
    }

    fn pass(&mut self, events: Vec<Event>) {
        let mut pass = Pass::default();
        events.into_iter().for_each(|event| self.controller.apply(event, &mut pass));
        self.controller.pass(pass);
    }

    /// Returns the versions of the resources for each Envoy, by type and name. Returns `None` before the first
    /// publication.
    fn served(&self) -> Option<BTreeMap<String, String>> {
        let snapshot = self.controller.fleets.stores().newest(&Class::shared(View::Envoy))?;
        let named = |kind: ResourceType, name: &str| format!("{} {name}", kind.short_name());
        let all = snapshot.kinds().flat_map(|kind| snapshot.all(kind).map(move |resource| (kind, resource)));
        Some(all.map(|(kind, resource)| (named(kind, resource.name()), resource.version().to_string())).collect())
    }

    /// Asks `other` for its last good content, as at the start and periodically.
    fn ask(&mut self, other: &Self) {
        let kept = other.inspected.borrow().kept.to_vec();
        self.pass(vec![Event::Kept(kept)]);
    }
}

/// Returns the Secret `name` with a unique pair, valid until `not_after`.
fn valid(name: &str, not_after: i64) -> Secret {
    let mut secret = Object::from(secret(name, &["*.test"])).get::<Secret>().unwrap().clone();
    let pair = KeyPair { not_after, ..KeyPair::clone(secret.pair.as_ref().unwrap()) };
    secret.pair = Some(Arc::new(KeyPair { certificate_chain: format!("{name} {not_after}").into(), ..pair }));
    secret
}

/// Returns a Secret with unusable content.
fn broken(name: &str) -> Secret {
    Secret { pair: None, fault: Some("not PEM".to_owned()), ..valid(name, 0) }
}

/// Returns a Secret with content that is expired on arrival.
fn expired(name: &str, not_after: i64) -> Secret {
    let secret = valid(name, not_after);
    Secret { expired: secret.pair, pair: None, fault: Some("expired".to_owned()), ..secret }
}

fn object(secret: Secret) -> Object {
    Object::new(secret)
}

const NAMES: [&str; 5] = ["good", "broken", "deleted", "outlived", "replaced"];

/// Returns an Ingress with TLS for each of the Secrets.
fn site() -> Vec<Object> {
    let hosts = NAMES.map(|name| {
        let host = format!("{name}.test");
        ingress(name).host(&host).path("Prefix", "/", "a:80").tls(&[&host], name).into()
    });
    [class("ours").into(), service("a").port("http", 80).into()].into_iter().chain(hosts).collect()
}

/// Returns the final Secrets of the API server.
fn secrets_now() -> Vec<Object> {
    vec![
        object(valid("good", 900)),
        object(broken("broken")),
        object(expired("outlived", 100)),
        object(expired("replaced", 100)),
    ]
}

/// Returns a replica that has seen all changes.
fn old_replica() -> Replica {
    let first = [("good", 900), ("broken", 900), ("deleted", 900), ("outlived", 100), ("replaced", 900)];
    let secrets = first.map(|(name, not_after)| object(valid(name, not_after)));
    let mut old = Replica::start(&[site(), secrets.to_vec()].concat(), false);
    old.pass(vec![
        Event::Applied(object(broken("broken"))),
        Event::Deleted(Kind::SECRET, ObjectKey::new("shop", "deleted")),
        Event::Applied(object(expired("replaced", 100))),
    ]);
    old
}

#[test]
fn a_replica_that_restarts_serves_the_same_as_the_others() {
    let old = old_replica();
    let now = [site(), secrets_now()].concat();

    // Without other replicas, it serves the content of the objects: an expired pair, regardless of the order of
    // arrival.
    let alone = Replica::start(&now, false);
    let (known, alone) = (old.served().unwrap(), alone.served().unwrap());
    let secret = |all: &BTreeMap<String, String>, name: &str| all.get(&format!("Secret shop/{name}")).cloned();
    let differ: Vec<&str> = NAMES.into_iter().filter(|name| secret(&known, name) != secret(&alone, name)).collect();
    assert_eq!(differ, ["broken", "deleted", "replaced"]);
    assert_eq!(NAMES.map(|name| secret(&known, name).is_some()), [true; 5], "no host is dark");

    // With other replicas, it waits for them, and serves the same content.
    let mut new = Replica::start(&now, true);
    assert!(new.served().is_none(), "an Envoy that comes from another replica would lose key pairs");
    new.ask(&old);
    assert_eq!(new.served().unwrap(), known);
    // It shares the adopted content with the next replica.
    let mut next = Replica::start(&now, true);
    next.ask(&new);
    assert_eq!(next.served().unwrap(), known);
}

#[test]
fn nothing_waits_if_no_key_pair_is_missing_or_nobody_has_it() {
    let all = NAMES.map(|name| object(valid(name, 900))).to_vec();
    let good = Replica::start(&[site(), all].concat(), true);
    assert!(good.served().is_some());
    let mut first = Replica::start(&site(), true);
    assert!(first.served().is_none());
    first.pass(vec![Event::Kept(Vec::new())]);
    assert!(first.served().is_some(), "it does not wait for what nobody has");
}

#[test]
fn the_key_pairs_of_gateways_and_listener_sets_are_awaited() {
    let waits = |object: Object| Replica::start(&[vec![object], secrets_now()].concat(), true).served().is_none();
    let of_gateway = |secret: &str| gateway("public").listener("tls", 443, "HTTPS").certificate(secret).into();
    let of_set = |secret: &str| listener_set("own", "public").listener("tls", 443, "HTTPS").certificate(secret).into();
    for (secret, expected) in [("broken", true), ("deleted", true), ("good", false)] {
        assert_eq!([waits(of_gateway(secret)), waits(of_set(secret))], [expected; 2], "{secret}");
    }
}

#[test]
fn replicas_with_different_last_good_pairs_come_to_the_same() {
    let start = |not_after| {
        let mut replica = Replica::start(&[site(), vec![object(valid("broken", not_after))]].concat(), false);
        replica.pass(vec![Event::Applied(object(broken("broken")))]);
        replica
    };
    let (mut one, mut two) = (start(500), start(600));
    assert_ne!(one.served(), two.served());
    let before = two.served();
    two.ask(&one);
    one.ask(&two);
    assert_eq!(one.served(), two.served());
    assert_eq!(two.served(), before, "the pair that lasts longer stays");
    // Content that is valid now is no longer kept, and is not replaced.
    two.pass(vec![Event::Applied(object(valid("broken", 300)))]);
    let good = two.served();
    two.ask(&one);
    assert_eq!(two.served(), good);
    assert!(two.inspected.borrow().kept.is_empty());
}

#[test]
fn only_served_content_is_sent_to_other_replicas() {
    let mut replica = old_replica();
    let names = |replica: &Replica| {
        replica.inspected.borrow().kept.iter().map(|kept| kept.key.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(names(&replica), ["broken", "deleted", "replaced"]);
    let gone = |name: &str| Event::Deleted(Kind::INGRESS, ObjectKey::new("shop", name));
    replica.pass(vec![gone("broken"), gone("deleted")]);
    assert_eq!(names(&replica), ["replaced"]);
}
