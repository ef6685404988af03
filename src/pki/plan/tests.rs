//! The plan, step by step and in random histories.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use lockgate_route::objects::ObjectKey;

use super::*;
use crate::fleet::MAX_FLEETS;
use crate::pki::Fleets;
use crate::pki::certificate::certificates;

pub(super) const START: Duration = Duration::from_secs(1_790_000_000);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn wanted() -> Wanted {
    Wanted {
        fleets: Fleets::Off,
        namespace: "ingress".into(),
        prefix: "lockgate-xds".into(),
        names: vec!["lockgate".into(), "lockgate.ingress.svc".into()],
        certificate_lifetime: 10 * MINUTE,
        authority_lifetime: 60 * MINUTE,
        pause: MINUTE,
    }
}

/// The Secrets, and a clock.
struct Desk {
    now: SystemTime,
    stored: Stored,
    wanted: Wanted,
}

impl Desk {
    fn new() -> Self {
        Self { now: UNIX_EPOCH + START, stored: Stored::default(), wanted: wanted() }
    }

    /// Returns a desk with all Secrets.
    fn furnished() -> Self {
        let mut desk = Self::new();
        desk.work();
        desk
    }

    /// Performs all due writes. Returns the Secrets with the reasons.
    fn work(&mut self) -> Vec<(Role, String)> {
        let mut done = Vec::new();
        while let Step::Write { role, content, reason } = plan(self.now, &self.stored, &self.wanted).unwrap() {
            self.stored.set(role, Some(content));
            done.push((role, reason));
            assert!(done.len() < 10, "no end: {done:?}");
        }
        done
    }

    /// Returns the time until the next action.
    fn rest(&self) -> Duration {
        match plan(self.now, &self.stored, &self.wanted).unwrap() {
            Step::Wait(until) => until.duration_since(self.now).unwrap(),
            step => panic!("{step:?}"),
        }
    }

    fn content(&mut self, role: Role) -> Content {
        self.stored.get(role).unwrap().clone()
    }

    fn edit(&mut self, role: Role, edit: impl FnOnce(&mut Content)) {
        let mut content = self.content(role);
        edit(&mut content);
        self.stored.set(role, Some(content));
    }

    fn trusted(&self, role: Role) -> usize {
        certificates(self.stored.get(role).unwrap().get(AUTHORITIES)).unwrap().len()
    }
}

fn roles(done: &[(Role, String)]) -> Vec<Role> {
    done.iter().map(|(role, _)| *role).collect()
}

const BOTH: [Role; 2] = [Role::Server, Role::Envoy];

#[test]
fn nothing_becomes_everything_and_then_it_rests() {
    let mut desk = Desk::new();
    assert_eq!(roles(&desk.work()), Role::ALL);
    // At that time, a third of the key pairs' ten minutes is left.
    assert_eq!(desk.rest(), 10 * MINUTE - 10 * MINUTE / 3);
    let server = desk.content(Role::Server);
    assert_eq!(server.data.keys().collect::<Vec<_>>(), [AUTHORITIES, CERTIFICATE, KEY]);
    assert_eq!(server.annotations[WRITTEN], "2026-09-21T14:13:20.000Z");
    assert!(!format!("{server:?}").contains("BEGIN"), "{server:?}");
}

#[test]
fn secrets_that_were_made_empty_are_filled_and_keep_their_annotations() {
    let mut desk = Desk::new();
    let annotations = BTreeMap::from([("meta.helm.sh/release-name".to_owned(), "lockgate".to_owned())]);
    for role in Role::ALL {
        desk.stored.set(role, Some(Content { annotations: annotations.clone(), ..Content::default() }));
    }
    assert_eq!(roles(&desk.work()), Role::ALL);
    assert_eq!(desk.content(Role::Envoy).annotations["meta.helm.sh/release-name"], "lockgate");
}

#[test]
fn key_pairs_are_renewed_when_a_third_of_their_life_is_left() {
    let mut desk = Desk::furnished();
    let authority = desk.content(Role::Authority);
    desk.now += desk.rest() - Duration::from_secs(2);
    assert_eq!(desk.work(), []);
    desk.now += Duration::from_secs(3);
    let done = desk.work();
    assert_eq!(roles(&done), BOTH);
    assert!(done.iter().all(|(_, reason)| reason.contains("it expires at 2026-09-21T14:23:20")), "{done:?}");
    assert_eq!(desk.content(Role::Authority), authority);
}

#[test]
fn a_new_authority_comes_in_steps() {
    let mut desk = Desk::furnished();
    desk.edit(Role::Authority, |content| {
        content.annotations.insert(ROTATE.into(), "now".into());
    });
    // Announced.
    assert_eq!(roles(&desk.work()), [Role::Authority, Role::Server, Role::Envoy]);
    assert!(!desk.content(Role::Authority).annotations.contains_key(ROTATE));
    assert!(desk.content(Role::Authority).data.contains_key(NEXT_KEY));
    assert_eq!(Role::ALL.map(|role| desk.trusted(role)), [2; 3]);
    let pairs = |desk: &mut Desk| BOTH.map(|role| desk.content(role).data[CERTIFICATE].clone());
    let before = pairs(&mut desk);
    assert_eq!(desk.rest(), MINUTE);
    // Handed over.
    desk.now += MINUTE;
    assert_eq!(roles(&desk.work()), [Role::Authority, Role::Server, Role::Envoy]);
    assert!(!desk.content(Role::Authority).data.contains_key(NEXT_KEY));
    assert_eq!(Role::ALL.map(|role| desk.trusted(role)), [2; 3]);
    let after = pairs(&mut desk);
    assert!(before[0] != after[0] && before[1] != after[1]);
    assert_eq!(desk.rest(), MINUTE);
    // Alone.
    desk.now += MINUTE;
    assert_eq!(roles(&desk.work()), [Role::Authority, Role::Server, Role::Envoy]);
    assert_eq!(Role::ALL.map(|role| desk.trusted(role)), [1; 3]);
    assert_eq!(pairs(&mut desk), after);
}

#[test]
fn an_authority_is_replaced_when_a_third_of_its_life_is_left() {
    let mut desk = Desk::furnished();
    let (end, mut announced) = (desk.now + 10 * 60 * MINUTE, Vec::new());
    while desk.now < end {
        let done = desk.work();
        if done.iter().any(|(_, reason)| reason.contains("becomes known")) {
            announced.push(desk.now);
        }
        desk.now += desk.rest();
    }
    assert!((13..=15).contains(&announced.len()), "one every 40 minutes: {}", announced.len());
}

#[test]
fn a_key_pair_never_outlives_its_authority_and_is_not_made_in_vain() {
    let mut desk = Desk::new();
    // Contradictory settings, which the command line rejects.
    desk.wanted.authority_lifetime = 5 * MINUTE;
    desk.wanted.pause = 4 * MINUTE;
    desk.work();
    let end = desk.now + 10 * MINUTE;
    while desk.now < end {
        desk.work();
        assert!(desk.rest() >= Duration::from_secs(1), "{:?}", desk.rest());
        desk.now += desk.rest();
    }
}

#[test]
fn what_is_of_no_use_is_made_anew_with_its_reason() {
    type Edit = fn(&mut Content);
    let cases: [(Role, Edit, &str, &[Role]); 11] = [
        (Role::Server, |content| content.data.clear(), "the Secret is empty", &[Role::Server]),
        (Role::Server, |content| drop(content.data.remove(KEY)), "tls.key: there is none", &[Role::Server]),
        (
            Role::Envoy,
            |content| drop(content.data.insert(KEY.into(), b"?".into())),
            "tls.key: it is no",
            &[Role::Envoy],
        ),
        (
            Role::Envoy,
            |content| drop(content.data.insert(CERTIFICATE.into(), b"?".into())),
            "tls.crt: no",
            &[Role::Envoy],
        ),
        (Role::Envoy, |content| drop(content.data.remove(AUTHORITIES)), "whom to trust", &[Role::Envoy]),
        (Role::Envoy, |content| content.annotations.clear(), "when it was written", &[Role::Envoy]),
        (
            Role::Envoy,
            |content| drop(content.annotations.insert(WRITTEN.into(), "2100-01-01T00:00:00Z".into())),
            "when it was written",
            &[Role::Envoy],
        ),
        (
            Role::Server,
            |content| {
                let other = Desk::furnished().content(Role::Server);
                content.data = other.data;
            },
            "tls.crt: invalid peer certificate",
            &[Role::Server],
        ),
        (
            Role::Server,
            |content| drop(content.data.insert(KEY.into(), Desk::furnished().content(Role::Server).data[KEY].clone())),
            "tls.key: it is not the key of tls.crt",
            &[Role::Server],
        ),
        (
            Role::Authority,
            |content| drop(content.data.insert(AUTHORITY_KEY.into(), b"?".into())),
            "a new authority: ca.key: it is no private key",
            &Role::ALL,
        ),
        (
            Role::Authority,
            |content| drop(content.data.insert(AUTHORITIES.into(), b"?".into())),
            "a new authority: ca.crt: no certificate in it",
            &Role::ALL,
        ),
    ];
    for (role, edit, reason, expected) in cases {
        let mut desk = Desk::furnished();
        desk.edit(role, edit);
        let done = desk.work();
        assert!(done.first().is_some_and(|(first, why)| *first == role && why.contains(reason)), "{reason}: {done:?}");
        assert_eq!(roles(&done), expected, "{reason}: {done:?}");
    }
}

#[test]
fn key_pairs_for_each_others_purpose_or_place_are_of_no_use() {
    let mut desk = Desk::furnished();
    let envoy = desk.content(Role::Envoy).data;
    desk.edit(Role::Server, |content| content.data = envoy);
    assert!(
        desk.work()[0].1.contains("it is not made for \"spiffe://lockgate.dev/ns/ingress/lockgate-xds/controller\"")
    );

    desk.wanted.names.push("lockgate.ingress".into());
    let done = desk.work();
    assert_eq!(roles(&done), [Role::Server], "another name of the Service: {done:?}");
    desk.wanted.names.pop();
    assert_eq!(desk.work(), [], "one name more than wanted does no harm");
}

#[test]
fn after_a_long_absence_all_is_made_anew() {
    let mut desk = Desk::furnished();
    desk.now += 61 * MINUTE;
    let done = desk.work();
    assert_eq!(roles(&done), Role::ALL, "{done:?}");
    assert_eq!(Role::ALL.map(|role| desk.trusted(role)), [1; 3]);

    let mut desk = Desk::furnished();
    desk.now += 30 * MINUTE;
    let done = desk.work();
    assert_eq!(roles(&done), BOTH);
    assert!(done[0].1.contains("expired"), "{done:?}");
}

#[test]
fn a_lost_authority_is_trusted_until_its_key_pairs_are_replaced() {
    let mut desk = Desk::furnished();
    let before = desk.content(Role::Envoy).data[CERTIFICATE].clone();
    desk.stored.set(Role::Authority, None);
    assert_eq!(roles(&desk.work()), Role::ALL);
    assert_eq!(Role::ALL.map(|role| desk.trusted(role)), [2; 3]);
    assert_eq!(desk.content(Role::Envoy).data[CERTIFICATE], before);
    desk.now += MINUTE;
    assert_eq!(roles(&desk.work()), Role::ALL);
    assert_ne!(desk.content(Role::Envoy).data[CERTIFICATE], before);
    desk.now += MINUTE;
    assert_eq!(roles(&desk.work()), Role::ALL);
    assert_eq!(Role::ALL.map(|role| desk.trusted(role)), [1; 3]);
}

#[test]
fn after_a_leak_nothing_of_before_is_trusted() {
    let mut desk = Desk::furnished();
    let before = Role::ALL.map(|role| desk.content(role).data);
    desk.edit(Role::Authority, |content| {
        content.annotations.insert(ROTATE.into(), AT_ONCE.into());
    });
    assert_eq!(roles(&desk.work()), Role::ALL);
    assert_eq!(Role::ALL.map(|role| desk.trusted(role)), [1; 3]);
    let after = Role::ALL.map(|role| desk.content(role).data);
    for (before, after) in before.iter().zip(&after) {
        assert!(before.iter().all(|(key, value)| after.get(key) != Some(value)));
    }
}

#[test]
fn a_person_can_have_a_key_pair_made_anew() {
    let mut desk = Desk::furnished();
    desk.edit(Role::Envoy, |content| {
        content.annotations.insert(ROTATE.into(), String::new());
    });
    assert_eq!(roles(&desk.work()), [Role::Envoy]);
    assert!(!desk.content(Role::Envoy).annotations.contains_key(ROTATE));
}

#[test]
fn names_that_fit_into_no_certificate_are_a_fault_and_no_panic() {
    let mut desk = Desk::new();
    desk.wanted.names = vec!["ingréss".into()];
    desk.wanted.namespace = "n".repeat(63);
    let authority = match plan(desk.now, &desk.stored, &desk.wanted).unwrap() {
        Step::Write { content, .. } => content,
        step => panic!("{step:?}"),
    };
    desk.stored.set(Role::Authority, Some(authority));
    assert!(plan(desk.now, &desk.stored, &desk.wanted).unwrap_err().to_string().contains("certificate"));
}

/// Returns the Gateways with dedicated fleets.
fn fleets(names: &[&str]) -> Fleets {
    Fleets::Known(Arc::new(names.iter().map(|name| ObjectKey::new("shop", name)).collect()))
}

#[test]
fn each_fleet_has_a_key_pair_of_its_own_in_one_secret() {
    let mut desk = Desk::furnished();
    desk.wanted.fleets = fleets(&[]);
    assert_eq!(roles(&desk.work()), [], "no Secret without fleets");
    desk.wanted.fleets = fleets(&["a", "b.c"]);
    assert_eq!(roles(&desk.work()), [Role::Fleets]);
    let content = desk.content(Role::Fleets);
    let keys = ["ca.crt", "shop.a.crt", "shop.a.key", "shop.b.c.crt", "shop.b.c.key"];
    assert!(content.data.keys().eq(&keys), "{:?}", content.data.keys());
    assert_eq!(content.get(AUTHORITIES), desk.content(Role::Envoy).get(AUTHORITIES));
    let names = |key: &str| crate::pki::names(content.get(key)).uris;
    assert_eq!(names("shop.a.crt"), ["spiffe://lockgate.dev/ns/ingress/lockgate-xds/fleet/shop/a"]);
    assert_eq!(names("shop.b.c.crt"), ["spiffe://lockgate.dev/ns/ingress/lockgate-xds/fleet/shop/b.c"]);

    // One goes, another comes: the key pair of the third stays. A restart that does not know the Gateways yet changes nothing.
    desk.wanted.fleets = fleets(&["b.c", "d"]);
    assert_eq!(roles(&desk.work()), [Role::Fleets]);
    let now = desk.content(Role::Fleets);
    assert_eq!(now.get("shop.b.c.crt"), content.get("shop.b.c.crt"));
    assert!(now.data.contains_key("shop.d.key") && !now.data.contains_key("shop.a.key"));
    desk.wanted.fleets = Fleets::Unknown;
    assert_eq!(roles(&desk.work()), []);

    // Key pairs are renewed in time, and when somebody asks for it or breaks one.
    desk.now += desk.wanted.certificate_lifetime * 2 / 3;
    assert_eq!(roles(&desk.work()), [Role::Server, Role::Envoy, Role::Fleets]);
    desk.edit(Role::Fleets, |content| drop(content.annotations.insert(ROTATE.into(), "now".into())));
    let before = desk.content(Role::Fleets);
    assert_eq!(roles(&desk.work()), [Role::Fleets]);
    assert_ne!(desk.content(Role::Fleets).get("shop.d.crt"), before.get("shop.d.crt"));
    let other = desk.content(Role::Fleets).get("shop.b.c.crt").to_vec();
    desk.edit(Role::Fleets, |content| drop(content.data.insert("shop.d.crt".into(), other)));
    assert_eq!(roles(&desk.work()), [Role::Fleets], "the certificate of another fleet");
}

#[test]
fn the_key_pairs_of_all_fleets_fit_in_a_secret() {
    let mut desk = Desk::furnished();
    let longest = ObjectKey::new(&"s".repeat(63), &"g".repeat(63));
    desk.wanted.fleets = Fleets::Known(Arc::new([longest].into()));
    desk.work();
    let data = desk.content(Role::Fleets).data;
    let size: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
    // Source: Kubernetes, `MaxSecretSize`. A Secret that is refused would also stop the rotation of the authority.
    assert!(size * MAX_FLEETS as usize <= 1 << 20, "{size}");
    assert!(data.keys().all(|key| key.len() <= 253), "{:?}", data.keys());
}

#[test]
fn fleets_follow_a_change_of_the_authority_step_by_step() {
    let mut desk = Desk::furnished();
    desk.wanted.fleets = fleets(&["a"]);
    desk.work();
    desk.edit(Role::Authority, |content| drop(content.annotations.insert(ROTATE.into(), "now".into())));
    for trusted in [2, 2, 1] {
        let done = roles(&desk.work());
        assert_eq!(done, [Role::Authority, Role::Server, Role::Envoy, Role::Fleets]);
        assert_eq!(desk.trusted(Role::Fleets), trusted);
        // The next step waits for the slowest mount.
        desk.now += desk.wanted.pause / 2;
        assert_eq!(roles(&desk.work()), []);
        desk.now += desk.wanted.pause / 2;
    }
}
