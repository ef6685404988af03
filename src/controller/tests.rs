//! Any order of events: incremental publications give the same result as one translation of all objects.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lockgate_route::objects::{AddressType, EndpointSlice, Meta, Namespace, Object, SECRET_DELETED, Secret, Service};
use lockgate_route::settings::ExternalNames;
use lockgate_route::testing::gateway::{gateway, gateway_class, gateway_service};
use lockgate_route::testing::model::Shared as _;
use lockgate_route::testing::objects::{class, ingress, objects, secret, service, slice};
use lockgate_route::translate::problem::Reason;
use lockgate_route::translate::{Translation, translate};
use lockgate_xds::snapshot::{ApiVersion, Snapshot};
use proptest::prelude::*;
use proptest::sample::select;

use super::*;

fn controller(settings: &Settings) -> Controller {
    let kinds = Kind::ALL.map(Kind::as_str);
    let (inspection, _) = watch::channel(Arc::default());
    Controller::new(settings.clone(), requested(), Readiness::awaiting(kinds), Metrics::default(), inspection)
}

/// Longer than any delay.
const LATER: Duration = Duration::from_secs(3600);

/// One fleet, all views of which are requested.
fn requested() -> Fleets {
    let fleets = Fleets::default();
    fleets.request_all();
    fleets
}

fn newest(fleets: &Fleets, view: View) -> Arc<Snapshot> {
    fleets.stores().newest(&Class::shared(view)).unwrap_or_else(|| panic!("{view:?} is not built"))
}

/// The expected objects, stored in the simplest way.
#[derive(Default)]
struct Expected(BTreeMap<(Kind, ObjectKey), Object>);

impl Expected {
    fn apply(&mut self, object: Object) {
        self.0.insert((object.kind(), object.meta().key.clone()), object);
    }

    fn delete(&mut self, kind: Kind, key: ObjectKey) {
        let object = self.0.remove(&(kind, key.clone()));
        if let Some(secret) = object.filter(|object| object.kind() == Kind::SECRET) {
            // The pair is still served.
            let deleted = secret.with(|secret: &mut Secret| secret.fault = Some(SECRET_DELETED.to_owned()));
            self.0.insert((kind, key), deleted);
        }
    }

    /// Removes the deleted Secrets. Unreferenced Secrets are not expected in the first place.
    fn forget_deleted_secrets(&mut self) {
        let is_deleted = |object: &Object| {
            object.get().is_some_and(|secret: &Secret| secret.fault.as_deref() == Some(SECRET_DELETED))
        };
        self.0.retain(|_, object| !is_deleted(object));
    }

    fn list(&mut self, kind: Kind, objects: &[Object]) {
        let keys: Vec<_> = self.0.keys().filter(|(known, _)| *known == kind).cloned().collect();
        keys.into_iter().for_each(|(kind, key)| self.delete(kind, key));
        objects.iter().cloned().for_each(|object| self.apply(object));
    }
}

#[derive(Debug, Clone)]
enum Step {
    Apply(Object),
    Delete(Object),
    List(Kind, Vec<Object>),
    DeleteOtherSecrets,
}

fn any_ingress() -> impl Strategy<Value = Object> {
    let to = select(vec!["a:80", "a:http", "a:web", "b:80", "e:443", "gone:80"]);
    let tls = prop::option::of(select(vec!["one", "two"]));
    (select(vec!["i1", "i2"]), select(vec!["x.com", "y.com"]), to, tls).prop_map(|(name, host, to, tls)| {
        let builder = ingress(name).host(host).path("Prefix", "/", to);
        tls.into_iter().fold(builder, |builder, secret| builder.tls(&[host], secret)).into()
    })
}

fn any_service() -> impl Strategy<Value = Object> {
    let port = select(vec![("http", 80), ("web", 80), ("", 80), ("http", 81)]);
    let external = select(vec![None, None, Some("example.com"), Some("cart.shop")]);
    (select(vec!["a", "b", "e"]), port, external).prop_map(|(name, (port, number), external)| {
        let builder = service(name).port(port, number);
        external.into_iter().fold(builder, |builder, external| builder.external(external)).into()
    })
}

fn any_slice() -> impl Strategy<Value = Object> {
    let family = select(vec![AddressType::Ipv4, AddressType::Ipv4, AddressType::Ipv4, AddressType::Fqdn]);
    let endpoint = (select(vec!["10.0.0.1", "10.0.0.2", "10.0.0.3", "nonsense"]), any::<[bool; 3]>());
    let endpoints = prop::collection::vec(endpoint, 0..3);
    let (names, services) = (select(vec!["s1", "s2", "s3"]), select(vec!["a", "b", "e", ""]));
    (names, services, select(vec!["http", "web", ""]), family, endpoints).prop_map(
        |(name, service, port, family, endpoints)| {
            let builder = slice(name, service).address_type(family).port(port, 8080);
            endpoints.into_iter().fold(builder, |slice, (address, fitness)| slice.endpoint(address, fitness)).into()
        },
    )
}

fn any_object() -> impl Strategy<Value = Object> {
    let secret = (select(vec!["one", "two"]), select(vec![["x.com"], ["y.com"]]));
    let namespace = select(vec!["shop", "other"]).prop_map(|name| {
        let (key, annotations) = (ObjectKey::new("", name), BTreeMap::new());
        let meta = Meta {
            key,
            uid: "".into(),
            generation: 0,
            created: 0,
            terminating: false,
            annotations,
            labels: BTreeMap::new(),
        };
        Object::new(Namespace { meta, labels: Default::default() })
    });
    let object = prop_oneof![
        3 => any_ingress(),
        3 => any_service(),
        5 => any_slice(),
        1 => secret.prop_map(|(name, names)| self::secret(name, &names).into()),
        1 => namespace,
        1 => Just(class("ours").into()),
    ];
    (object, 1i64..3).prop_map(|(object, generation)| {
        let object = object.with_meta(|meta| meta.generation = generation);
        let object = object.with(|service: &mut Service| service.meta.generation = generation);
        object.with(|slice: &mut EndpointSlice| slice.meta.generation = generation)
    })
}

fn any_step() -> impl Strategy<Value = Step> {
    let list = (select(&Kind::ALL[..]), prop::collection::vec(any_object(), 0..12)).prop_map(|(kind, objects)| {
        // A list contains each object once.
        let objects = objects.into_iter().filter(|object| object.kind() == kind);
        let objects: BTreeMap<_, _> = objects.map(|object| (object.meta().key.clone(), object)).collect();
        Step::List(kind, objects.into_values().collect())
    });
    prop_oneof![
        48 => any_object().prop_map(Step::Apply),
        12 => any_object().prop_map(Step::Delete),
        4 => list,
        1 => Just(Step::DeleteOtherSecrets),
    ]
}

/// Returns the complete content of a snapshot.
fn content(snapshot: &Snapshot) -> BTreeMap<String, String> {
    let resources = snapshot.kinds().flat_map(|kind| snapshot.all(kind));
    let resource =
        resources.map(|one| (format!("{one:?}"), format!("{:?} {:?}", one.delta_field(ApiVersion::V3), one.origins())));
    let digests = snapshot.kinds().filter(|kind| snapshot.len(*kind) > 0);
    let digests = digests.map(|kind| (kind.short_name().to_owned(), snapshot.version(kind).to_string()));
    resource.chain(digests).collect()
}

#[test]
fn a_list_with_one_change_touches_what_changed() {
    let mut controller = controller(&Settings::default());
    let slices = |address| {
        ["a", "b", "c"].map(|name| {
            let address = if name == "b" { address } else { "10.0.0.1" };
            slice(name, name).port("http", 8080).endpoint(address, [true, true, false]).into()
        })
    };
    controller.apply(Event::Listed(Kind::ENDPOINT_SLICE, slices("10.0.0.1").into()), &mut Pass::default());
    controller.changed = ChangedInputs::default();
    controller.apply(Event::Listed(Kind::ENDPOINT_SLICE, slices("10.0.0.2").into()), &mut Pass::default());
    let mut one = ChangedInputs::default();
    one.insert(Input::new(Kind::ENDPOINT_SLICE, ObjectKey::new("shop", "b")));
    assert_eq!(controller.changed, one);
}

/// Returns whether a served object reads the object of `event`, before or after it.
fn is_used(controller: &mut Controller, event: Event) -> bool {
    let mut pass = Pass::default();
    controller.apply(event, &mut pass);
    let mut changed = std::mem::take(&mut pass.changed);
    controller.mark_used(&mut changed);
    controller.pass(pass);
    controller.mark_used(&mut changed);
    changed.iter().any(|object| object.is_used)
}

/// Objects that a served object depends on are logged at INFO, and all others at DEBUG.
#[test]
fn an_object_is_read_if_something_ours_depends_on_it_or_did() {
    let mut controller = controller(&Settings::default());
    let mut pass = Pass::default();
    Kind::ALL.into_iter().for_each(|kind| controller.apply(Event::Listed(kind, Vec::new()), &mut pass));
    controller.pass(pass);
    let apply = |object: Object| Event::Applied(object);
    let delete = |kind, name| Event::Deleted(kind, ObjectKey::new("shop", name));
    let shop = ingress("shop").host("x.com").path("Prefix", "/", "a:80").tls(&["x.com"], "one");
    let foreign = ingress("foreign").class(Some("theirs")).host("y.com").path("Prefix", "/", "b:80");
    let slice = |service| slice("slice", service).port("", 80).endpoint("10.0.0.1", [true, true, false]);
    for (event, read) in [
        (apply(class("ours").into()), true),
        (apply(shop.into()), true),
        (apply(foreign.into()), false),
        (apply(service("a").port("", 80).into()), true),
        (apply(service("b").port("", 80).into()), false),
        (apply(secret("one", &["x.com"]).into()), true),
        (apply(secret("two", &["x.com"]).into()), false),
        (apply(slice("b").into()), false),
        (apply(slice("a").into()), true),
        // It was read until then.
        (apply(slice("b").into()), true),
        (delete(Kind::INGRESS, "shop"), true),
        (delete(Kind::SERVICE, "a"), false),
    ] {
        let what = format!("{event:?}");
        assert_eq!(is_used(&mut controller, event), read, "{what}");
    }
}

/// Deletes enough other Secrets to evict all Secrets that were deleted before.
fn delete_other_secrets(controller: &mut Controller, pass: &mut Pass) {
    let others: Vec<Object> = (0..1024).map(|i| secret(&format!("other-{i}"), &["other.test"]).into()).collect();
    let keys: Vec<ObjectKey> = others.iter().map(|object| object.meta().key.clone()).collect();
    others.into_iter().for_each(|object| controller.apply(Event::Applied(object), pass));
    keys.into_iter().for_each(|key| controller.apply(Event::Deleted(Kind::SECRET, key), pass));
}

#[test]
fn a_deleted_secret_that_is_evicted_is_translated_again() {
    let settings = Settings::default();
    let mut controller = controller(&settings);
    let mut pass = Pass::default();
    Kind::ALL.into_iter().for_each(|kind| controller.apply(Event::Listed(kind, Vec::new()), &mut pass));
    let ingress = ingress("shop").host("x.com").path("Prefix", "/", "a:80").tls(&["x.com"], "one");
    let secret = secret("one", &["x.com"]);
    for object in [class("ours").into(), service("a").port("http", 80).into(), secret.into(), ingress.into()] {
        controller.apply(Event::Applied(object), &mut pass);
    }
    controller.pass(pass);
    let mut pass = Pass::default();
    controller.apply(Event::Deleted(Kind::SECRET, ObjectKey::new("shop", "one")), &mut pass);
    controller.pass(pass);
    assert_eq!(controller.translator.model().https().len(), 1, "the last good pair is still served");
    let mut pass = Pass::default();
    delete_other_secrets(&mut controller, &mut pass);
    controller.pass(pass);
    let whole = translate(&controller.objects, &settings);
    assert!(whole.model.https().is_empty());
    assert_eq!(controller.translator.model(), &whole.model);
}

/// Returns a controller that serves the host `x.com` by the Ingress `shop`.
fn serving() -> Controller {
    let mut controller = controller(&Settings::default());
    let mut pass = Pass::default();
    let (now, shop) = (Instant::now(), ingress("shop").host("x.com").path("Prefix", "/", "a:80"));
    Kind::ALL.into_iter().for_each(|kind| controller.receive(Event::Listed(kind, Vec::new()), now, &mut pass));
    for object in [class("ours").into(), service("a").port("http", 80).into(), shop.into()] {
        controller.receive(Event::Applied(object), now, &mut pass);
    }
    controller.pass(pass);
    controller
}

/// Returns the Ingresses after `event` and a pass at the time `now`.
fn ingresses_after(controller: &mut Controller, event: Option<Event>, now: Instant) -> Vec<String> {
    let mut pass = Pass::default();
    if let Some(event) = event {
        controller.receive(event, now, &mut pass);
    }
    controller.end_deletions(now, &mut pass);
    controller.pass(pass);
    controller.objects.of_kind(Kind::INGRESS).keys().map(|key| key.name.to_string()).collect()
}

/// Until the Envoys have accepted the publication with the edit, they must not count as having accepted the Ingress.
#[test]
fn an_edit_of_an_annotation_is_a_new_publication_of_its_ingress() {
    let mut controller = serving();
    let key = ObjectKey::new("shop", "shop");
    let published =
        |controller: &Controller| controller.inspection.borrow().sources[&Kind::INGRESS.id(key.clone())].clone();
    let before = published(&controller);
    let shop = || ingress("shop").host("x.com").path("Prefix", "/", "a:80");
    let apply = |controller: &mut Controller, object: Object| {
        let mut pass = Pass::default();
        controller.receive(Event::Applied(object), Instant::now(), &mut pass);
        controller.pass(pass);
    };
    let edited: Object = shop().annotation("projectcontour.io/response-timeout", "7s").into();
    assert_eq!(edited.meta().generation, controller.objects.meta(Kind::INGRESS, &key).unwrap().generation);
    apply(&mut controller, edited);
    let after = published(&controller);
    assert_eq!(after.since, controller.fleets.generation());
    assert!(before.since < after.since && before.revision != after.revision, "{before:?} {after:?}");
    // A change of another object, or of the status alone, does not affect the Ingress.
    apply(&mut controller, service("a").port("http", 81).into());
    assert_eq!(published(&controller), after);
    apply(&mut controller, shop().into());
    assert_eq!(published(&controller).revision, before.revision);
}

/// The status writer copies the addresses into the status of the Gateway.
#[test]
fn gateways_are_inspected_and_so_are_the_addresses_of_their_services() {
    let mut controller = serving();
    let mut apply = |object: Object| {
        let mut pass = Pass::default();
        controller.receive(Event::Applied(object), Instant::now(), &mut pass);
        controller.pass(pass);
        controller.inspection.borrow().clone()
    };
    let service = gateway_service("public", &[(80, 10_000)]);
    let with_address = service.clone().with::<Service>(|service| {
        service.gateway.as_mut().unwrap().addresses.push(Default::default());
    });
    apply(gateway_class("lockgate").into());
    apply(service);
    let inspection = apply(gateway("public").listener("http", 80, "HTTP").into());
    let key = ObjectKey::new("shop", "public");
    assert!(inspection.gateways[&key].listeners[0].serves);
    assert!(inspection.published(Kind::GATEWAY, &key).is_some());
    let inspection = apply(with_address);
    let service: &Service = inspection.objects.get(&ObjectKey::new("shop", "public-lockgate")).unwrap();
    assert_eq!(service.gateway.as_ref().unwrap().addresses.len(), 1, "the translation does not read it");
}

#[test]
fn an_object_that_is_back_at_once_was_never_gone() {
    let (mut controller, now) = (serving(), Instant::now());
    let (shop, key) = (ingress("shop").host("x.com").path("Prefix", "/new", "a:80"), ObjectKey::new("shop", "shop"));
    assert_eq!(ingresses_after(&mut controller, Some(Event::Deleted(Kind::INGRESS, key.clone())), now), ["shop"]);
    assert_eq!(controller.deletions.due(), Some(now + deletions::GRACE), "the loop wakes up for it");
    assert_eq!(ingresses_after(&mut controller, Some(Event::Applied(shop.into())), now), ["shop"]);
    assert_eq!(controller.deletions.due(), None);
    assert_eq!(ingresses_after(&mut controller, None, now + deletions::GRACE), ["shop"]);
    assert_eq!(ingresses_after(&mut controller, Some(Event::Deleted(Kind::INGRESS, key)), now), ["shop"]);
    assert!(ingresses_after(&mut controller, None, now + deletions::GRACE).is_empty());
}

#[test]
fn an_object_of_another_name_ends_the_wait_of_a_deleted_one() {
    let (mut controller, now) = (serving(), Instant::now());
    let deleted = Event::Deleted(Kind::INGRESS, ObjectKey::new("shop", "shop"));
    assert_eq!(ingresses_after(&mut controller, Some(deleted), now), ["shop"]);
    let renamed = ingress("store").host("x.com").path("Prefix", "/", "a:80");
    assert_eq!(ingresses_after(&mut controller, Some(Event::Applied(renamed.into())), now), ["store"]);
    assert!(controller.problems.is_empty(), "never two for one host: {:?}", controller.problems);
    let deleted = Event::Deleted(Kind::INGRESS, ObjectKey::new("shop", "store"));
    assert_eq!(ingresses_after(&mut controller, Some(deleted), now), ["store"]);
    let listed = Event::Listed(Kind::INGRESS, Vec::new());
    assert!(ingresses_after(&mut controller, Some(listed), now).is_empty(), "a list says what there is");
    assert_eq!(controller.deletions.due(), None);
}

#[test]
fn a_host_of_a_deleted_ingress_is_anybodys_at_once() {
    let (mut controller, now) = (serving(), Instant::now());
    let deleted = Event::Deleted(Kind::INGRESS, ObjectKey::new("shop", "shop"));
    assert_eq!(ingresses_after(&mut controller, Some(deleted), now), ["shop"]);
    assert!(
        controller.translator.model().http().values().any(|host| !host.routes.is_empty()),
        "it is served meanwhile"
    );
    let other = ingress("other").namespace("other").created(9).host("x.com").path("Prefix", "/", "b:80");
    assert_eq!(ingresses_after(&mut controller, Some(Event::Applied(other.into())), now), ["other", "shop"]);
    let conflicted = controller.problems.iter().filter(|problem| problem.reason == Reason::Conflicted);
    let conflicted: Vec<&str> = conflicted.map(|problem| &*problem.object.name).collect();
    assert_eq!(conflicted, ["shop"]);
}

#[test]
fn a_view_whose_wake_up_was_lost_is_made_in_the_next_pass() {
    // Nobody hears the wake-up, as when the queue of events is full.
    let fleets = Fleets::default();
    let (stores, kinds) = (fleets.stores(), Kind::ALL.map(Kind::as_str));
    let (inspection, _) = watch::channel(Arc::default());
    let mut controller =
        Controller::new(Settings::default(), fleets, Readiness::awaiting(kinds), Metrics::default(), inspection);
    let mut pass = Pass::default();
    Kind::ALL.into_iter().for_each(|kind| controller.apply(Event::Listed(kind, Vec::new()), &mut pass));
    controller.pass(pass);
    for view in [View::Whole, View::Grpc] {
        let store = stores.get_or_create(Class::shared(view));
        controller.pass(Pass { status: true, ..Pass::default() });
        assert!(store.newest().is_some(), "{view:?} is requested and was not built");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn incremental_publications_equal_one_translation(
        first in prop::collection::vec(any_object(), 0..20),
        passes in prop::collection::vec(prop::collection::vec(any_step(), 1..3), 1..20),
    ) {
        let settings = Settings { external_names: ExternalNames { allow: true, cluster_local: false }, ..Settings::default() };
        let mut controller = controller(&settings);
        let mut expected = Expected::default();
        let all = ["a", "b"].map(|name| service(name).port("http", 80).into()).into_iter().chain([class("ours").into()]);
        let start = all.chain(first).map(Step::Apply).collect();
        let listed = Kind::ALL.into_iter().map(|kind| Step::List(kind, Vec::new())).collect();
        for steps in [listed, start].into_iter().chain(passes) {
            let mut pass = Pass::default();
            for step in &steps {
                let event = match step.clone() {
                    Step::Apply(object) => {
                        expected.apply(object.clone());
                        Event::Applied(object)
                    }
                    Step::Delete(object) => {
                        let (kind, key) = (object.kind(), object.meta().key.clone());
                        expected.delete(kind, key.clone());
                        Event::Deleted(kind, key)
                    }
                    Step::List(kind, objects) => {
                        expected.list(kind, &objects);
                        Event::Listed(kind, objects)
                    }
                    Step::DeleteOtherSecrets => {
                        expected.forget_deleted_secrets();
                        delete_other_secrets(&mut controller, &mut pass);
                        continue;
                    }
                };
                controller.apply(event, &mut pass);
            }
            controller.pass(pass);
            let whole = objects(&expected.0.values().cloned().collect::<Vec<_>>());
            let Translation { model, problems, sources } = translate(&whole, &settings);
            let (all, mut whole) = (Touched::all(&model), requested());
            let change = Change { model: &model, touched: &all, settings: &settings, settings_changed: false };
            whole.update(change, &Arc::default(), Instant::now());
            while controller.fleets.due().is_some() {
                // As if all pauses were over.
                let change = Change { touched: &Touched::default(), ..change };
                let dedicated = controller.translator.dedicated().clone();
                controller.fleets.update(change, &dedicated, Instant::now() + LATER);
            }
            for view in View::ALL {
                let [published, whole] = [&controller.fleets, &whole].map(|fleets| newest(fleets, view));
                prop_assert_eq!(content(&published), content(&whole), "{:?} after {:?}", view, steps);
            }
            let inspected: Vec<_> = controller.problems.iter().map(|problem| (**problem).clone()).collect();
            prop_assert_eq!(inspected, problems, "after {:?}", steps);
            prop_assert!(controller.sources.keys().eq(&sources), "after {:?}", steps);
        }
    }
}
