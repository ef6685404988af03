#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::IngressLoadBalancerIngress;

use super::deleted::DELETED_SECRETS;
use super::*;
use crate::model::KeyPair;

fn meta(name: &str) -> Meta {
    Meta {
        key: ObjectKey::new("shop", name),
        uid: "".into(),
        generation: 1,
        created: 0,
        terminating: false,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
    }
}

fn service(name: &str, port: u16) -> Object {
    let port = ServicePort { name: "".into(), port, protocol: "TCP".into(), app_protocol: None };
    let service = Service {
        meta: meta(name),
        external_name: None,
        ports: vec![port],
        ipv6_families: Vec::new(),
        prefers_close: false,
        is_of_fleet: false,
        gateway: None,
    };
    Object::new(service)
}

fn slice(name: &str, service: &str) -> Object {
    Object::new(EndpointSlice {
        meta: meta(name),
        service: service.into(),
        address_type: AddressType::Ipv4,
        ports: Vec::new(),
        endpoints: Vec::new(),
    })
}

fn pair(not_after: i64) -> Arc<KeyPair> {
    let (certificate_chain, private_key) = (b"chain".to_vec(), b"key".to_vec());
    Arc::new(KeyPair { certificate_chain, private_key, names: Vec::new().into(), not_after, is_ed25519: false })
}

fn secret(name: &str, pair: Option<Arc<KeyPair>>, fault: Option<&str>) -> Object {
    let fault = fault.map(str::to_string);
    Object::new(Secret {
        meta: meta(name),
        pair,
        early: None,
        expired: None,
        fault,
        authorities: None,
        authorities_fault: None,
        revocations: None,
        credentials: None,
        key_sets: Box::default(),
        client_secret: None,
    })
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

#[test]
fn an_equal_object_is_not_a_change() {
    let mut objects = Objects::default();
    assert!(objects.apply(service("cart", 80)));
    assert!(!objects.apply(service("cart", 80)));
    assert!(objects.apply(service("cart", 81)));
    assert!(objects.delete(Kind::SERVICE, &key("cart")));
    assert!(!objects.delete(Kind::SERVICE, &key("cart")));
}

#[test]
fn the_translation_sees_the_ports_of_a_gateways_service_and_not_its_status() {
    let mut objects = Objects::default();
    let mut apply = |target: u16, address: &str, version: &str| {
        let addresses = vec![IngressLoadBalancerIngress { ip: Some(address.to_owned()), ..Default::default() }];
        let ports = vec![(Transport::Tcp, 80, target)];
        let gateway = GatewayService {
            name: "public".into(),
            ports,
            addresses,
            version: version.into(),
            ..GatewayService::default()
        };
        let changed = objects.apply(service("cart", 80).with(|own: &mut Service| own.gateway = Some(gateway.into())));
        let kept = objects.get::<Service>(&key("cart")).unwrap().gateway.clone().unwrap();
        assert_eq!((&*kept.version, kept.addresses[0].ip.as_deref()), (version, Some(address)), "kept for the status");
        changed
    };
    assert!(apply(10080, "192.0.2.1", "1"));
    assert!(!apply(10080, "192.0.2.2", "2"));
    assert!(apply(10081, "192.0.2.2", "3"));
    assert!(objects.apply(service("cart", 80)), "no longer a Gateway's");
}

#[test]
fn a_kind_has_several_versions_in_manifests() {
    let of = |version: &str, kind: &str| Kind::ALL.into_iter().filter(|one| one.is(version, kind)).collect::<Vec<_>>();
    for version in ["gateway.networking.k8s.io/v1", "gateway.networking.k8s.io/v1beta1"] {
        assert_eq!(of(version, "HTTPRoute"), [Kind::HTTP_ROUTE]);
        assert_eq!(of(version, "ReferenceGrant"), [Kind::REFERENCE_GRANT]);
    }
    assert_eq!(
        (of("v1", "Service"), of("networking.k8s.io/v1", "Ingress")),
        (vec![Kind::SERVICE], vec![Kind::INGRESS])
    );
    for (version, kind) in
        [("networking.k8s.io/v1beta1", "Ingress"), ("v1", "HTTPRoute"), ("example.com/v1", "Service")]
    {
        assert_eq!(of(version, kind), [], "{version} {kind}");
    }
}

#[test]
fn a_change_of_a_slice_that_does_not_move_shares_the_index_of_services() {
    let mut objects = Objects::default();
    objects.apply(slice("one", "cart"));
    let before = objects.clone();
    let changed = slice("one", "cart").get::<EndpointSlice>().unwrap().clone();
    assert!(objects.apply(Object::new(EndpointSlice { address_type: AddressType::Ipv6, ..changed })));
    assert!(objects.slices_of_services.ptr_eq(&before.slices_of_services));
    objects.apply(slice("one", "other"));
    assert!(!objects.slices_of_services.ptr_eq(&before.slices_of_services));
}

#[test]
fn a_slice_that_moves_to_another_service_leaves_the_first() {
    let mut objects = Objects::default();
    assert!(objects.apply(slice("a", "cart")));
    assert!(objects.apply(slice("b", "cart")));
    assert!(!objects.apply(slice("b", "cart")));
    assert!(objects.apply(slice("a", "pay")));
    let names = |objects: &Objects, service: &str| -> Vec<String> {
        objects.slices_of(&key(service)).map(|slice| slice.meta.key.name.to_string()).collect()
    };
    assert_eq!((names(&objects, "cart"), names(&objects, "pay")), (vec!["b".to_string()], vec!["a".to_string()]));
    assert_eq!(objects.count(Kind::ENDPOINT_SLICE), 2);
    assert!(objects.delete(Kind::ENDPOINT_SLICE, &key("b")));
    assert!(!objects.delete(Kind::ENDPOINT_SLICE, &key("b")));
    assert!(names(&objects, "cart").is_empty());
}

#[test]
fn a_list_reports_new_changed_and_removed_objects() {
    let mut objects = Objects::default();
    let first = objects.replace(Kind::SERVICE, vec![service("c", 1), service("b", 1), service("a", 1)]);
    assert_eq!(first.len(), 3);
    let second = objects.replace(Kind::SERVICE, vec![service("d", 1), service("b", 2), service("a", 1)]);
    let text: Vec<_> = second.iter().map(ToString::to_string).collect();
    assert_eq!(text, ["Service shop/b", "Service shop/c", "Service shop/d"]);
    assert_eq!(objects.count(Kind::SERVICE), 3);
    assert!(objects.replace(Kind::SERVICE, vec![service("d", 1), service("b", 2), service("a", 1)]).is_empty());

    objects.replace(Kind::ENDPOINT_SLICE, vec![slice("x", "a"), slice("y", "b")]);
    let changed = objects.replace(Kind::ENDPOINT_SLICE, vec![slice("x", "b")]);
    assert_eq!(changed.len(), 2);
    assert_eq!(["a", "b"].map(|service| objects.slices_of(&key(service)).count()), [0, 1]);
}

#[test]
fn a_faulty_secret_keeps_the_last_good_pair() {
    let mut objects = Objects::default();
    objects.apply(secret("cert", Some(pair(1)), None));
    assert!(objects.apply(secret("cert", None, Some("data[\"tls.key\"] is missing"))));
    let kept = objects.get::<Secret>(&key("cert")).unwrap();
    assert_eq!(kept.pair, Some(pair(1)));
    assert_eq!(kept.fault.as_deref(), Some("data[\"tls.key\"] is missing"));
    assert!(objects.apply(secret("cert", Some(pair(2)), None)));
    let healed = objects.get::<Secret>(&key("cert")).unwrap();
    assert_eq!((healed.pair.clone(), healed.fault.clone()), (Some(pair(2)), None));
}

#[test]
fn a_deleted_secret_keeps_its_pair_until_it_is_created_again() {
    let mut objects = Objects::default();
    objects.apply(secret("cert", Some(pair(1)), None));
    objects.apply(secret("never-good", None, Some("bad")));
    assert!(objects.delete(Kind::SECRET, &key("cert")));
    assert!(!objects.delete(Kind::SECRET, &key("cert")));
    assert!(objects.delete(Kind::SECRET, &key("never-good")));
    assert_eq!(objects.count(Kind::SECRET), 0);
    assert_eq!(objects.of_kind(Kind::SECRET).len(), 1);
    assert_eq!(objects.get::<Secret>(&key("cert")).unwrap().fault.as_deref(), Some(SECRET_DELETED));

    // A list without the Secret changes nothing either. If it is created again with partial content, it still has the
    // old pair.
    assert!(objects.replace(Kind::SECRET, Vec::new()).is_empty());
    objects.apply(secret("cert", None, Some("bad")));
    assert_eq!(objects.get::<Secret>(&key("cert")).unwrap().pair, Some(pair(1)));
    assert_eq!(objects.count(Kind::SECRET), 1);
    objects.apply(secret("cert", Some(pair(2)), None));
    assert_eq!(objects.get::<Secret>(&key("cert")).unwrap().fault, None);
}

#[test]
fn the_last_good_authorities_are_retained_like_key_pairs() {
    let mut objects = Objects::default();
    let with = |authorities: Option<&str>, fault: Option<&str>| {
        let (authorities, authorities_fault) = (authorities.map(Into::into), fault.map(Into::into));
        let fault = Some("data[\"tls.crt\"] is missing".to_owned());
        Object::new(Secret {
            meta: meta("ca"),
            pair: None,
            early: None,
            expired: None,
            fault,
            authorities,
            authorities_fault,
            revocations: None,
            credentials: None,
            key_sets: Box::default(),
            client_secret: None,
        })
    };
    let kept = |objects: &Objects| {
        let secret = objects.get::<Secret>(&key("ca")).unwrap().clone();
        (secret.authorities.as_deref().map(str::to_owned), secret.authorities_fault.as_deref().map(str::to_owned))
    };
    let good = Some("authorities".to_owned());
    objects.apply(with(Some("authorities"), None));
    assert!(objects.apply(with(None, Some("bad"))));
    assert_eq!(kept(&objects), (good.clone(), Some("bad".to_owned())));
    assert!(objects.delete(Kind::SECRET, &key("ca")));
    assert_eq!(kept(&objects), (good, Some(SECRET_DELETED.to_owned())));
    objects.apply(with(Some("others"), None));
    assert_eq!(kept(&objects), (Some("others".to_owned()), None));
}

/// Creates and deletes a Secret with a key pair.
fn create_and_delete(objects: &mut Objects, namespace: &str, name: &str) {
    let namespaced = |secret: &mut Secret| secret.meta.key.namespace = namespace.into();
    objects.apply(secret(name, Some(pair(1)), None).with(namespaced));
    objects.delete(Kind::SECRET, &ObjectKey::new(namespace, name));
}

/// Returns the number of Secrets of a namespace that are stored, and thus served.
fn stored_in(objects: &Objects, namespace: &str) -> usize {
    objects.of_kind(Kind::SECRET).keys().filter(|key| &*key.namespace == namespace).count()
}

#[test]
fn deleted_secrets_are_kept_up_to_a_limit() {
    let mut objects = Objects::default();
    for i in 0..=DELETED_SECRETS {
        create_and_delete(&mut objects, "shop", &format!("s{i}"));
    }
    assert_eq!(objects.of_kind(Kind::SECRET).len(), DELETED_SECRETS);
    assert_eq!(objects.take_evicted_secrets(), [key("s0")], "the oldest deletion");
    assert!(objects.get::<Secret>(&key("s0")).is_none());
    assert_eq!((objects.count(Kind::SECRET), objects.kept().count()), (0, DELETED_SECRETS));
    // A Secret that exists again takes no room.
    objects.apply(secret("s1", Some(pair(1)), None));
    create_and_delete(&mut objects, "shop", "one-more");
    assert_eq!(objects.take_evicted_secrets(), []);
}

#[test]
fn a_namespace_with_many_deleted_secrets_displaces_only_its_own() {
    let mut objects = Objects::default();
    create_and_delete(&mut objects, "victim", "cert");
    let cert = ObjectKey::new("victim", "cert");
    for (from, to) in [(0, 1024), (1024, 5000)] {
        for i in from..to {
            create_and_delete(&mut objects, "attacker", &i.to_string());
        }
        let served = objects.get::<Secret>(&cert).unwrap();
        assert_eq!((&served.pair, served.fault.as_deref()), (&Some(pair(1)), Some(SECRET_DELETED)));
        assert!(objects.kept().any(|kept| kept.key == cert), "other replicas receive it");
        assert_eq!(stored_in(&objects, "attacker"), DELETED_SECRETS - 1);
        assert!(objects.get::<Secret>(&ObjectKey::new("attacker", &(to - 1).to_string())).is_some());
    }
    assert!(objects.take_evicted_secrets().iter().all(|key| &*key.namespace == "attacker"));
}

/// The limit for tenants with many namespaces: a namespace keeps at least its last 1024 / n deletions.
#[test]
fn each_of_many_namespaces_retains_an_equal_share_of_deleted_secrets() {
    let mut objects = Objects::default();
    let names: Vec<String> = (0..8).map(|i| format!("cert-{i}")).collect();
    names.iter().for_each(|name| create_and_delete(&mut objects, "victim", name));
    let flood = |objects: &mut Objects, namespaces: usize| {
        for i in 0..20 {
            for namespace in 0..namespaces {
                create_and_delete(objects, &format!("attacker-{namespace}"), &i.to_string());
            }
        }
    };
    flood(&mut objects, 127);
    assert_eq!(stored_in(&objects, "victim"), DELETED_SECRETS / 128);
    flood(&mut objects, 128);
    assert_eq!(stored_in(&objects, "victim"), DELETED_SECRETS / 129);
    assert!(objects.get::<Secret>(&ObjectKey::new("victim", "cert-0")).is_none(), "the oldest deletion");
    // With as many namespaces as the limit, each namespace retains one. With more, the newest deletions stay.
    let mut objects = Objects::default();
    for i in 0..1050 {
        create_and_delete(&mut objects, &format!("n{i}"), "cert");
    }
    assert_eq!([25, 26, 1049].map(|i| stored_in(&objects, &format!("n{i}"))), [0, 1, 1]);
}

#[test]
fn deleted_secrets_of_namespaces_that_are_gone_are_evicted_first() {
    let namespace = |name: &str| {
        let meta = Meta { key: ObjectKey::new("", name), ..meta(name) };
        Object::new(Namespace { meta, labels: BTreeMap::new() })
    };
    for is_known in [true, false] {
        let mut objects = Objects::default();
        (0..DELETED_SECRETS).for_each(|i| create_and_delete(&mut objects, &format!("gone-{i}"), "cert"));
        if is_known {
            objects.apply(namespace("shop"));
        }
        ["a", "b", "c"].iter().for_each(|name| create_and_delete(&mut objects, "shop", name));
        assert_eq!(stored_in(&objects, "shop"), if is_known { 3 } else { 1 });
    }
}

fn misencoded(name: &str, readable: Option<Object>) -> Object {
    let message = "not valid UTF-8".to_owned();
    let (kind, meta, field) = (Kind::SERVICE, meta(name), "spec".to_owned());
    Object::new(Misencoded { kind, meta, field, message, readable })
}

#[test]
fn an_object_that_cannot_be_decoded_keeps_its_previous_version() {
    let mut objects = Objects::default();
    assert!(objects.apply(service("cart", 80)));
    assert!(!objects.apply(misencoded("cart", None)), "nothing is served differently");
    assert_eq!(objects.get::<Service>(&key("cart")).unwrap().ports[0].port, 80);
    assert!(objects.misencoded(Kind::SERVICE, &key("cart")).is_some());
    assert!(objects.misencoded(Kind::INGRESS, &key("cart")).is_none());
    // The readable part is used.
    assert!(objects.apply(misencoded("cart", Some(service("cart", 81)))));
    assert_eq!(objects.get::<Service>(&key("cart")).unwrap().ports[0].port, 81);
    assert!(objects.apply(service("cart", 82)));
    assert!(objects.misencoded(Kind::SERVICE, &key("cart")).is_none());
}

#[test]
fn lists_and_deletions_include_objects_that_cannot_be_decoded() {
    let mut objects = Objects::default();
    objects.replace(Kind::SERVICE, vec![service("cart", 80), misencoded("till", None), misencoded("new", None)]);
    assert_eq!(objects.count(Kind::SERVICE), 1);
    assert_eq!(objects.meta(Kind::SERVICE, &key("new")).unwrap().key, key("new"));
    let before = objects.clone();
    // An object of the list that cannot be decoded is not removed.
    let changed = objects.replace(Kind::SERVICE, vec![misencoded("cart", None), misencoded("new", None)]);
    assert_eq!(changed, []);
    assert_eq!(objects.of_kind(Kind::SERVICE).len(), 1);
    let changes = objects.encoding_changes(&before);
    assert_eq!(changes, [(Kind::SERVICE, key("cart")), (Kind::SERVICE, key("till"))]);
    assert!(!objects.delete(Kind::SERVICE, &key("new")));
    assert!(objects.delete(Kind::SERVICE, &key("cart")));
    assert_eq!(objects.all_misencoded().count(), 0);
}

#[test]
fn a_certificate_is_served_from_the_start_of_its_validity() {
    let early = |name: &str, not_before, not_after| {
        let early = Some(EarlyPair { not_before, pair: pair(not_after) });
        secret(name, None, Some("not valid before")).with(|secret: &mut Secret| secret.early = early)
    };
    let mut objects = Objects::default();
    objects.apply(secret("a", Some(pair(1)), None));
    objects.apply(early("a", 100, 200));
    objects.apply(early("b", 150, 200));
    objects.apply(early("replaced", 50, 200));
    objects.apply(secret("replaced", Some(pair(1)), None));
    objects.apply(early("deleted", 60, 200));
    objects.delete(Kind::SECRET, &key("deleted"));
    assert_eq!(objects.next_validity(), Some(100));
    assert!(objects.use_valid_secrets(99).is_empty());
    assert_eq!(objects.get::<Secret>(&key("a")).unwrap().pair, Some(pair(1)), "the last good pair until then");
    assert_eq!(objects.use_valid_secrets(100), [key("a")]);
    let now = objects.of_kind(Kind::SECRET)[&key("a")].clone();
    assert_eq!(now, secret("a", Some(pair(200)), None), "as if it had arrived later");
    // The clock may jump beyond the expiry of the certificate.
    assert!(objects.use_valid_secrets(201).is_empty());
    assert_eq!((objects.get::<Secret>(&key("b")).unwrap().pair.clone(), objects.next_validity()), (None, None));
}

#[test]
fn an_expired_certificate_is_served_regardless_of_its_arrival() {
    let expired = |name: &str, not_after| {
        secret(name, None, Some("expired")).with(|secret: &mut Secret| secret.expired = Some(pair(not_after)))
    };
    let served = |objects: &Objects| objects.get::<Secret>(&key("a")).unwrap().pair.as_ref().map(|pair| pair.not_after);
    // The pair was valid on arrival and is listed again later. A new process sees it expired.
    let (mut old, mut new) = (Objects::default(), Objects::default());
    old.apply(secret("a", Some(pair(50)), None));
    old.apply(expired("a", 50));
    new.apply(expired("a", 50));
    assert_eq!((served(&old), served(&new)), (Some(50), Some(50)));
    assert!(new.get::<Secret>(&key("a")).unwrap().serves_expired());
    assert_eq!(new.kept().count(), 0, "the Secret has it");
    // The pair does not replace a pair that expires later, but replaces other pairs.
    for (before, after) in [(60, 60), (40, 50)] {
        let mut objects = Objects::default();
        objects.apply(secret("a", Some(pair(before)), None));
        objects.apply(expired("a", 50));
        assert_eq!(served(&objects), Some(after));
        assert_eq!(objects.kept().count(), usize::from(before > 50));
    }
    // Unusable content does not replace the pair. A valid pair replaces it, even with a short validity.
    new.apply(secret("a", None, Some("not PEM")));
    assert_eq!((served(&new), new.kept().count()), (Some(50), 1));
    new.apply(secret("a", Some(pair(20)), None));
    assert_eq!((served(&new), new.kept().count()), (Some(20), 0));
}

#[test]
fn a_full_list_of_deleted_secrets_accepts_only_the_shares_of_namespaces_from_other_replicas() {
    let kept = |namespace: &str, name: &str| {
        let key = ObjectKey::new(namespace, name);
        Kept { key, pair: Some(pair(1)), authorities: None }
    };
    let mut objects = Objects::default();
    let deleted = kept("shop", "deleted");
    assert!(objects.adopt(&deleted) && !objects.adopt(&deleted));
    assert_eq!(objects.get::<Secret>(&deleted.key).unwrap().fault.as_deref(), Some(SECRET_DELETED));
    assert_eq!(objects.count(Kind::SECRET), 0);
    for i in 1..DELETED_SECRETS {
        assert!(objects.adopt(&kept("shop", &i.to_string())));
    }
    assert!(!objects.adopt(&kept("shop", "one-more")));
    assert_eq!(objects.of_kind(Kind::SECRET).len(), DELETED_SECRETS);
    // The Secret is created again.
    objects.apply(secret("deleted", Some(pair(2)), None));
    assert!(!objects.adopt(&deleted));
    assert!(objects.adopt(&kept("shop", "one-more")));
    // Another namespace has room for its share, and evicts nothing.
    let taken = (0..DELETED_SECRETS).filter(|i| objects.adopt(&kept("victim", &i.to_string()))).count();
    assert_eq!((taken, stored_in(&objects, "shop")), (DELETED_SECRETS / 2, DELETED_SECRETS + 1));
    assert_eq!(objects.take_evicted_secrets(), []);
    assert_eq!(objects.count(Kind::SECRET), 1);
    // The next deletion evicts the surplus, and only of the namespace above its share. It is not adopted again.
    create_and_delete(&mut objects, "shop", "later");
    let evicted = objects.take_evicted_secrets();
    assert_eq!((evicted.len(), stored_in(&objects, "victim")), (DELETED_SECRETS / 2 + 1, DELETED_SECRETS / 2));
    assert_eq!(objects.kept().count(), DELETED_SECRETS);
    assert!(evicted.iter().all(|key| &*key.namespace == "shop" && !objects.adopt(&kept("shop", &key.name))));
}
