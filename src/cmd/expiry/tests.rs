#![allow(clippy::unwrap_used, clippy::panic)]

use lockgate_route::model::KeyPair;
use lockgate_route::objects::{Object, Secret};
use lockgate_route::testing::gateway::{gateway, listener_set, reference_grant};
use lockgate_route::testing::objects::{ingress, objects, secret};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::inspection::Published;

const END: i64 = 2_000_000_000;

/// Returns the Secret `shop/name` with a certificate that expires at `not_after`.
fn ending_at(name: &str, not_after: i64) -> Object {
    Object::from(secret(name, &[])).with(|secret: &mut Secret| {
        let pair = KeyPair { not_after, ..KeyPair::clone(secret.pair.as_ref().unwrap()) };
        secret.pair = Some(Arc::new(pair));
    })
}

fn published() -> Published {
    Published::example(1, 1)
}

#[test]
fn used_certificates_that_expire_soon_are_reported() {
    let shop: Object = ingress("shop").tls(&["shop.test"], "good").into();
    let key = shop.meta().key.clone();
    let mut inspection = Inspection {
        objects: objects(&[shop, ending_at("good", END), ending_at("wild", END)]),
        ..Inspection::default()
    };
    let mut settings = Settings::default();
    let window = i64::try_from(settings.tls.expiry_warning.as_secs()).unwrap();
    let mut certificates = Certificates::default();
    let mut names = |inspection: &Inspection, settings: &Settings, now: i64| -> Vec<String> {
        certificates.update(&Arc::new(inspection.clone()), settings);
        certificates.expiring(settings, now).map(|(_, secret)| secret.name.to_string()).collect()
    };
    assert!(names(&inspection, &settings, END).is_empty(), "no Ingress of ours names one");
    inspection.sources.insert(Kind::INGRESS.id(key), published());
    assert_eq!(names(&inspection, &settings, END - window), ["good"]);
    assert_eq!(names(&inspection, &settings, END + 1), ["good"]);
    assert!(names(&inspection, &settings, END - window - 1).is_empty());
    settings.tls.expiry_warning = Duration::from_secs(1);
    assert!(names(&inspection, &settings, END - window).is_empty());
    settings.tls.default_secret = Some(("shop".to_owned(), "wild".to_owned()));
    assert_eq!(names(&inspection, &settings, END + 1), ["good", "wild"]);
    settings.tls.fallback_secret = settings.tls.default_secret.take();
    assert_eq!(names(&inspection, &settings, END + 1), ["good", "wild"]);
    settings.listeners.stats_tls.secret = settings.tls.fallback_secret.take();
    assert_eq!(names(&inspection, &settings, END + 1), ["good"], "no statistics are served by TLS");
    settings.listeners.stats_tls.at.port = 8003;
    assert_eq!(names(&inspection, &settings, END + 1), ["good", "wild"]);
}

#[test]
fn each_expiry_is_reported_once() {
    let certificates = Certificates::default();
    let problems = |now| certificates.problem(&(END, ObjectKey::new("shop", "good")), now).to_string();
    let text = "the certificate expires at 2033-05-18T03:33:20Z; served until another takes its place";
    assert_eq!(problems(END - 500_000), format!("Secret shop/good: data[tls.crt]: {text}"));
    assert_eq!(problems(END), problems(END - 500_000));
    assert!(problems(END + 1).ends_with("expired at 2033-05-18T03:33:20Z; still served, but clients reject it"));
}

/// Returns a Gateway or a ListenerSet in `shop` with a listener for each of these Secrets.
fn with_certificates(name: &str, is_set: bool, secrets: &[String]) -> Object {
    if is_set {
        let set = secrets
            .iter()
            .fold(listener_set(name, "edge"), |set, secret| set.listener(secret, 443, "HTTPS").certificate(secret));
        return set.into();
    }
    let gateway = secrets
        .iter()
        .fold(gateway(name), |gateway, secret| gateway.listener(secret, 443, "HTTPS").certificate(secret));
    gateway.into()
}

/// Permits Gateways and ListenerSets of `shop` to reference Secrets of `other`.
fn grant() -> Object {
    reference_grant("other/grant").from("Gateway", "shop").from("ListenerSet", "shop").to("Secret", "").into()
}

#[test]
fn certificates_of_gateways_and_listener_sets_are_reported_if_they_are_permitted() {
    for is_set in [false, true] {
        let edge = with_certificates("edge", is_set, &["own".to_owned(), "other/shared".to_owned()]);
        let id = edge.kind().id(edge.meta().key.clone());
        let mut inspection = Inspection {
            objects: objects(&[edge, ending_at("own", END), ending_at("other/shared", END + 1)]),
            ..Inspection::default()
        };
        let mut certificates = Certificates::default();
        let mut names = |inspection: &Inspection| -> Vec<String> {
            certificates.update(&Arc::new(inspection.clone()), &Settings::default());
            certificates
                .first()
                .map(|(namespace, name, expiry)| format!("{namespace}/{name} {}", expiry - END))
                .collect()
        };
        assert!(names(&inspection).is_empty(), "not served");
        inspection.sources.insert(id, published());
        assert_eq!(names(&inspection), ["shop/own 0"], "no grant");
        inspection.objects.apply(grant());
        assert_eq!(names(&inspection), ["shop/own 0", "other/shared 1"]);
        inspection.objects.delete(Kind::REFERENCE_GRANT, &ObjectKey::new("other", "grant"));
        assert_eq!(names(&inspection), ["shop/own 0"]);
    }
}

#[test]
fn the_number_of_series_is_limited() {
    let mut certificates = Certificates::default();
    for at in 0..3 * MAX_SERIES {
        // One namespace has a third of the certificates, and they expire first.
        let namespace = if at < MAX_SERIES { "many".to_owned() } else { format!("n{at}") };
        certificates.by_expiry.insert((at as i64, ObjectKey::new(&namespace, &format!("s{at}"))));
    }
    let first: Vec<_> = certificates.first().collect();
    assert_eq!(first.len(), MAX_SERIES);
    assert_eq!(first.iter().filter(|(namespace, ..)| &**namespace == "many").count(), MAX_SERIES_PER_NAMESPACE);
    assert_eq!(first[MAX_SERIES_PER_NAMESPACE].2, MAX_SERIES as i64, "the next one expires first among the others");
}

/// A change of an Ingress, a Gateway, a grant, or a Secret with this index.
#[derive(Debug, Clone)]
enum Step {
    Ingress { at: u8, secrets: Vec<u8>, ours: bool },
    NoIngress(u8),
    Gateway { at: u8, secrets: Vec<u8>, is_set: bool, ours: bool },
    Grant(bool),
    Secret(u8, i64),
    NoSecret(u8),
    Default(Option<u8>),
    Update,
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..4_u8;
    prop_oneof![
        3 => (at.clone(), vec(at.clone(), 0..4), any::<bool>())
            .prop_map(|(at, secrets, ours)| Step::Ingress { at, secrets, ours }),
        1 => at.clone().prop_map(Step::NoIngress),
        3 => (at.clone(), vec(at.clone(), 0..4), any::<bool>(), any::<bool>())
            .prop_map(|(at, secrets, is_set, ours)| Step::Gateway { at, secrets, is_set, ours }),
        1 => any::<bool>().prop_map(Step::Grant),
        3 => (at.clone(), 0..3_i64).prop_map(|(at, expiry)| Step::Secret(at, END + expiry)),
        1 => at.clone().prop_map(Step::NoSecret),
        1 => proptest::option::of(at).prop_map(Step::Default),
        3 => Just(Step::Update),
    ]
}

proptest! {
    #[test]
    fn incremental_updates_equal_a_new_start(steps in vec(step(), 1..60)) {
        let (mut inspection, mut settings) = (Inspection::default(), Settings::default());
        let mut certificates = Certificates::default();
        for step in steps {
            match step {
                Step::Ingress { at, secrets, ours } => {
                    let mut fixture = ingress(&format!("i{at}"));
                    for secret in secrets {
                        fixture = fixture.tls(&["shop.test"], &secret.to_string());
                    }
                    let object: Object = fixture.into();
                    let key = object.meta().key.clone();
                    inspection.objects.apply(object);
                    match ours {
                        true => drop(inspection.sources.insert(Kind::INGRESS.id(key), published())),
                        false => drop(inspection.sources.remove(&Kind::INGRESS.id(key))),
                    }
                }
                Step::NoIngress(at) => {
                    let key = ObjectKey::new("shop", &format!("i{at}"));
                    inspection.objects.delete(Kind::INGRESS, &key);
                    inspection.sources.remove(&Kind::INGRESS.id(key));
                }
                Step::Gateway { at, secrets, is_set, ours } => {
                    // Secrets with an odd number are in another namespace.
                    let names = secrets.iter().map(|at| if at % 2 == 0 { at.to_string() } else { format!("other/{at}") });
                    let object = with_certificates(&format!("g{at}"), is_set, &names.collect::<Vec<_>>());
                    let id = object.kind().id(object.meta().key.clone());
                    inspection.objects.apply(object);
                    match ours {
                        true => drop(inspection.sources.insert(id, published())),
                        false => drop(inspection.sources.remove(&id)),
                    }
                }
                Step::Grant(true) => drop(inspection.objects.apply(grant())),
                Step::Grant(false) => {
                    inspection.objects.delete(Kind::REFERENCE_GRANT, &ObjectKey::new("other", "grant"));
                }
                Step::Secret(at, expiry) => {
                    inspection.objects.apply(ending_at(&at.to_string(), expiry));
                    inspection.objects.apply(ending_at(&format!("other/{at}"), expiry));
                }
                Step::NoSecret(at) => drop(inspection.objects.delete(Kind::SECRET, &ObjectKey::new("shop", &at.to_string()))),
                Step::Default(at) => {
                    settings.tls.default_secret = at.map(|at| ("shop".to_owned(), at.to_string()));
                }
                Step::Update => {
                    let now = Arc::new(inspection.clone());
                    certificates.update(&now, &settings);
                    let mut anew = Certificates::default();
                    anew.update(&now, &settings);
                    prop_assert_eq!(&certificates.by_expiry, &anew.by_expiry);
                    prop_assert_eq!(&certificates.references, &anew.references);
                }
            }
        }
    }
}
