//! The plan, step by step and in random histories.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod random;

use std::sync::Arc;
use std::time::UNIX_EPOCH;

use lockgate_route::objects::ObjectKey;

use super::*;
use crate::fleet::MAX_FLEETS;
use crate::pki::DedicatedFleets;
use crate::pki::certificate::certificates;

pub(super) const START: Duration = Duration::from_secs(1_790_000_000);
const MINUTE: Duration = Duration::from_secs(60);

pub(super) fn wanted() -> WantedCertificates {
    WantedCertificates {
        fleets: DedicatedFleets::Off,
        namespace: "ingress".into(),
        prefix: "lockgate-xds".into(),
        names: vec!["lockgate".into(), "lockgate.ingress.svc".into()],
        certificate_lifetime: 10 * MINUTE,
        authority_lifetime: 60 * MINUTE,
        pause: MINUTE,
    }
}

/// The Secrets, and a clock.
struct Cluster {
    now: SystemTime,
    stored: Stored,
    wanted: WantedCertificates,
}

impl Cluster {
    fn new() -> Self {
        Self { now: UNIX_EPOCH + START, stored: Stored::default(), wanted: wanted() }
    }

    /// Returns a cluster with all Secrets.
    fn with_secrets() -> Self {
        let mut cluster = Self::new();
        cluster.work();
        cluster
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

    fn content(&mut self, role: Role) -> SecretContent {
        self.stored.get(role).unwrap().clone()
    }

    fn edit(&mut self, role: Role, edit: impl FnOnce(&mut SecretContent)) {
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
fn the_plan_creates_all_secrets_and_then_waits() {
    let mut cluster = Cluster::new();
    assert_eq!(roles(&cluster.work()), Role::ALL);
    // At that time, a third of the key pairs' ten minutes is left.
    assert_eq!(cluster.rest(), 10 * MINUTE - 10 * MINUTE / 3);
    let server = cluster.content(Role::Server);
    assert_eq!(server.data.keys().collect::<Vec<_>>(), [AUTHORITIES, CERTIFICATE, KEY]);
    assert_eq!(server.annotations[WRITTEN], "2026-09-21T14:13:20.000Z");
    assert!(!format!("{server:?}").contains("BEGIN"), "{server:?}");
}

#[test]
fn empty_secrets_are_filled_and_keep_their_annotations() {
    let mut cluster = Cluster::new();
    let annotations = BTreeMap::from([("meta.helm.sh/release-name".to_owned(), "lockgate".to_owned())]);
    for role in Role::ALL {
        cluster.stored.set(role, Some(SecretContent { annotations: annotations.clone(), ..SecretContent::default() }));
    }
    assert_eq!(roles(&cluster.work()), Role::ALL);
    assert_eq!(cluster.content(Role::Envoy).annotations["meta.helm.sh/release-name"], "lockgate");
}

#[test]
fn key_pairs_are_renewed_when_a_third_of_their_lifetime_is_left() {
    let mut cluster = Cluster::with_secrets();
    let authority = cluster.content(Role::Authority);
    cluster.now += cluster.rest() - Duration::from_secs(2);
    assert_eq!(cluster.work(), []);
    cluster.now += Duration::from_secs(3);
    let done = cluster.work();
    assert_eq!(roles(&done), BOTH);
    assert!(done.iter().all(|(_, reason)| reason.contains("it expires at 2026-09-21T14:23:20")), "{done:?}");
    assert_eq!(cluster.content(Role::Authority), authority);
}

#[test]
fn a_new_authority_is_introduced_in_steps() {
    let mut cluster = Cluster::with_secrets();
    cluster.edit(Role::Authority, |content| {
        content.annotations.insert(ROTATE.into(), "now".into());
    });
    // Announced.
    assert_eq!(roles(&cluster.work()), [Role::Authority, Role::Server, Role::Envoy]);
    assert!(!cluster.content(Role::Authority).annotations.contains_key(ROTATE));
    assert!(cluster.content(Role::Authority).data.contains_key(NEXT_KEY));
    assert_eq!(Role::ALL.map(|role| cluster.trusted(role)), [2; 3]);
    let pairs = |cluster: &mut Cluster| BOTH.map(|role| cluster.content(role).data[CERTIFICATE].clone());
    let before = pairs(&mut cluster);
    assert_eq!(cluster.rest(), MINUTE);
    // Handed over.
    cluster.now += MINUTE;
    assert_eq!(roles(&cluster.work()), [Role::Authority, Role::Server, Role::Envoy]);
    assert!(!cluster.content(Role::Authority).data.contains_key(NEXT_KEY));
    assert_eq!(Role::ALL.map(|role| cluster.trusted(role)), [2; 3]);
    let after = pairs(&mut cluster);
    assert!(before[0] != after[0] && before[1] != after[1]);
    assert_eq!(cluster.rest(), MINUTE);
    // Alone.
    cluster.now += MINUTE;
    assert_eq!(roles(&cluster.work()), [Role::Authority, Role::Server, Role::Envoy]);
    assert_eq!(Role::ALL.map(|role| cluster.trusted(role)), [1; 3]);
    assert_eq!(pairs(&mut cluster), after);
}

#[test]
fn an_authority_is_replaced_when_a_third_of_its_lifetime_is_left() {
    let mut cluster = Cluster::with_secrets();
    let (end, mut announced) = (cluster.now + 10 * 60 * MINUTE, Vec::new());
    while cluster.now < end {
        let done = cluster.work();
        if done.iter().any(|(_, reason)| reason.contains("announces a new authority")) {
            announced.push(cluster.now);
        }
        cluster.now += cluster.rest();
    }
    assert!((13..=15).contains(&announced.len()), "one every 40 minutes: {}", announced.len());
}

#[test]
fn a_key_pair_never_outlives_its_authority() {
    let mut cluster = Cluster::new();
    // Contradictory settings, which the command line rejects.
    cluster.wanted.authority_lifetime = 5 * MINUTE;
    cluster.wanted.pause = 4 * MINUTE;
    cluster.work();
    let end = cluster.now + 10 * MINUTE;
    while cluster.now < end {
        cluster.work();
        assert!(cluster.rest() >= Duration::from_secs(1), "{:?}", cluster.rest());
        cluster.now += cluster.rest();
    }
}

#[test]
fn unusable_content_is_replaced_with_a_reason() {
    type Edit = fn(&mut SecretContent);
    let cases: [(Role, Edit, &str, &[Role]); 11] = [
        (Role::Server, |content| content.data.clear(), "the Secret is empty", &[Role::Server]),
        (Role::Server, |content| drop(content.data.remove(KEY)), "tls.key: there is none", &[Role::Server]),
        (
            Role::Envoy,
            |content| drop(content.data.insert(KEY.into(), b"?".into())),
            "tls.key: it is not a private key",
            &[Role::Envoy],
        ),
        (
            Role::Envoy,
            |content| drop(content.data.insert(CERTIFICATE.into(), b"?".into())),
            "tls.crt: it contains no certificate",
            &[Role::Envoy],
        ),
        (
            Role::Envoy,
            |content| drop(content.data.remove(AUTHORITIES)),
            "the trusted authorities have changed",
            &[Role::Envoy],
        ),
        (Role::Envoy, |content| content.annotations.clear(), "the time of the last write is missing", &[Role::Envoy]),
        (
            Role::Envoy,
            |content| drop(content.annotations.insert(WRITTEN.into(), "2100-01-01T00:00:00Z".into())),
            "the time of the last write is missing",
            &[Role::Envoy],
        ),
        (
            Role::Server,
            |content| {
                let other = Cluster::with_secrets().content(Role::Server);
                content.data = other.data;
            },
            "tls.crt: invalid peer certificate",
            &[Role::Server],
        ),
        (
            Role::Server,
            |content| {
                drop(content.data.insert(KEY.into(), Cluster::with_secrets().content(Role::Server).data[KEY].clone()))
            },
            "tls.key: it is not the key of tls.crt",
            &[Role::Server],
        ),
        (
            Role::Authority,
            |content| drop(content.data.insert(AUTHORITY_KEY.into(), b"?".into())),
            "a new authority: ca.key: it is not a private key",
            &Role::ALL,
        ),
        (
            Role::Authority,
            |content| drop(content.data.insert(AUTHORITIES.into(), b"?".into())),
            "a new authority: ca.crt: it contains no certificate",
            &Role::ALL,
        ),
    ];
    for (role, edit, reason, expected) in cases {
        let mut cluster = Cluster::with_secrets();
        cluster.edit(role, edit);
        let done = cluster.work();
        assert!(done.first().is_some_and(|(first, why)| *first == role && why.contains(reason)), "{reason}: {done:?}");
        assert_eq!(roles(&done), expected, "{reason}: {done:?}");
    }
}

#[test]
fn key_pairs_of_another_role_or_installation_are_replaced() {
    let mut cluster = Cluster::with_secrets();
    let envoy = cluster.content(Role::Envoy).data;
    cluster.edit(Role::Server, |content| content.data = envoy);
    assert!(
        cluster.work()[0]
            .1
            .contains("it does not have the name \"spiffe://lockgate.dev/ns/ingress/lockgate-xds/controller\"")
    );

    cluster.wanted.names.push("lockgate.ingress".into());
    let done = cluster.work();
    assert_eq!(roles(&done), [Role::Server], "another name of the Service: {done:?}");
    cluster.wanted.names.pop();
    assert_eq!(cluster.work(), [], "an additional name does not matter");
}

#[test]
fn expired_certificates_are_replaced_after_a_long_pause() {
    let mut cluster = Cluster::with_secrets();
    cluster.now += 61 * MINUTE;
    let done = cluster.work();
    assert_eq!(roles(&done), Role::ALL, "{done:?}");
    assert_eq!(Role::ALL.map(|role| cluster.trusted(role)), [1; 3]);

    let mut cluster = Cluster::with_secrets();
    cluster.now += 30 * MINUTE;
    let done = cluster.work();
    assert_eq!(roles(&done), BOTH);
    assert!(done[0].1.contains("expired"), "{done:?}");
}

#[test]
fn a_lost_authority_is_trusted_until_its_key_pairs_are_replaced() {
    let mut cluster = Cluster::with_secrets();
    let before = cluster.content(Role::Envoy).data[CERTIFICATE].clone();
    cluster.stored.set(Role::Authority, None);
    assert_eq!(roles(&cluster.work()), Role::ALL);
    assert_eq!(Role::ALL.map(|role| cluster.trusted(role)), [2; 3]);
    assert_eq!(cluster.content(Role::Envoy).data[CERTIFICATE], before);
    cluster.now += MINUTE;
    assert_eq!(roles(&cluster.work()), Role::ALL);
    assert_ne!(cluster.content(Role::Envoy).data[CERTIFICATE], before);
    cluster.now += MINUTE;
    assert_eq!(roles(&cluster.work()), Role::ALL);
    assert_eq!(Role::ALL.map(|role| cluster.trusted(role)), [1; 3]);
}

#[test]
fn after_a_leak_no_previous_certificate_is_trusted() {
    let mut cluster = Cluster::with_secrets();
    let before = Role::ALL.map(|role| cluster.content(role).data);
    cluster.edit(Role::Authority, |content| {
        content.annotations.insert(ROTATE.into(), AT_ONCE.into());
    });
    assert_eq!(roles(&cluster.work()), Role::ALL);
    assert_eq!(Role::ALL.map(|role| cluster.trusted(role)), [1; 3]);
    let after = Role::ALL.map(|role| cluster.content(role).data);
    for (before, after) in before.iter().zip(&after) {
        assert!(before.iter().all(|(key, value)| after.get(key) != Some(value)));
    }
}

#[test]
fn a_user_can_request_a_new_key_pair() {
    let mut cluster = Cluster::with_secrets();
    cluster.edit(Role::Envoy, |content| {
        content.annotations.insert(ROTATE.into(), String::new());
    });
    assert_eq!(roles(&cluster.work()), [Role::Envoy]);
    assert!(!cluster.content(Role::Envoy).annotations.contains_key(ROTATE));
}

#[test]
fn names_that_do_not_fit_into_a_certificate_are_a_fault() {
    let mut cluster = Cluster::new();
    cluster.wanted.names = vec!["ingréss".into()];
    cluster.wanted.namespace = "n".repeat(63);
    let authority = match plan(cluster.now, &cluster.stored, &cluster.wanted).unwrap() {
        Step::Write { content, .. } => content,
        step => panic!("{step:?}"),
    };
    cluster.stored.set(Role::Authority, Some(authority));
    assert!(plan(cluster.now, &cluster.stored, &cluster.wanted).unwrap_err().to_string().contains("certificate"));
}

/// Returns the Gateways with dedicated fleets.
fn fleets(names: &[&str]) -> DedicatedFleets {
    DedicatedFleets::Known(Arc::new(names.iter().map(|name| ObjectKey::new("shop", name)).collect()))
}

#[test]
fn one_secret_contains_a_key_pair_for_each_fleet() {
    let mut cluster = Cluster::with_secrets();
    cluster.wanted.fleets = fleets(&[]);
    assert_eq!(roles(&cluster.work()), [], "no Secret without fleets");
    cluster.wanted.fleets = fleets(&["a", "b.c"]);
    assert_eq!(roles(&cluster.work()), [Role::Fleets]);
    let content = cluster.content(Role::Fleets);
    let keys = ["ca.crt", "shop.a.crt", "shop.a.key", "shop.b.c.crt", "shop.b.c.key"];
    assert!(content.data.keys().eq(&keys), "{:?}", content.data.keys());
    assert_eq!(content.get(AUTHORITIES), cluster.content(Role::Envoy).get(AUTHORITIES));
    let names = |key: &str| crate::pki::names(content.get(key)).uris;
    assert_eq!(names("shop.a.crt"), ["spiffe://lockgate.dev/ns/ingress/lockgate-xds/fleet/shop/a"]);
    assert_eq!(names("shop.b.c.crt"), ["spiffe://lockgate.dev/ns/ingress/lockgate-xds/fleet/shop/b.c"]);

    // One Gateway is removed, and another is added. The key pair of the third stays. A restarted controller that does
    // not know the Gateways yet changes nothing.
    cluster.wanted.fleets = fleets(&["b.c", "d"]);
    assert_eq!(roles(&cluster.work()), [Role::Fleets]);
    let now = cluster.content(Role::Fleets);
    assert_eq!(now.get("shop.b.c.crt"), content.get("shop.b.c.crt"));
    assert!(now.data.contains_key("shop.d.key") && !now.data.contains_key("shop.a.key"));
    cluster.wanted.fleets = DedicatedFleets::Unknown;
    assert_eq!(roles(&cluster.work()), []);

    // Key pairs are renewed in time, on request, and when they are invalid.
    cluster.now += cluster.wanted.certificate_lifetime * 2 / 3;
    assert_eq!(roles(&cluster.work()), [Role::Server, Role::Envoy, Role::Fleets]);
    cluster.edit(Role::Fleets, |content| drop(content.annotations.insert(ROTATE.into(), "now".into())));
    let before = cluster.content(Role::Fleets);
    assert_eq!(roles(&cluster.work()), [Role::Fleets]);
    assert_ne!(cluster.content(Role::Fleets).get("shop.d.crt"), before.get("shop.d.crt"));
    let other = cluster.content(Role::Fleets).get("shop.b.c.crt").to_vec();
    cluster.edit(Role::Fleets, |content| drop(content.data.insert("shop.d.crt".into(), other)));
    assert_eq!(roles(&cluster.work()), [Role::Fleets], "the certificate of another fleet");
}

#[test]
fn the_key_pairs_of_all_fleets_fit_in_a_secret() {
    let mut cluster = Cluster::with_secrets();
    let longest = ObjectKey::new(&"s".repeat(63), &"g".repeat(63));
    cluster.wanted.fleets = DedicatedFleets::Known(Arc::new([longest].into()));
    cluster.work();
    let data = cluster.content(Role::Fleets).data;
    let size: usize = data.iter().map(|(key, value)| key.len() + value.len()).sum();
    // Source: Kubernetes, `MaxSecretSize`. A Secret that is refused would also stop the rotation of the authority.
    assert!(size * MAX_FLEETS as usize <= 1 << 20, "{size}");
    assert!(data.keys().all(|key| key.len() <= 253), "{:?}", data.keys());
}

#[test]
fn fleets_follow_the_rotation_of_the_authority() {
    let mut cluster = Cluster::with_secrets();
    cluster.wanted.fleets = fleets(&["a"]);
    cluster.work();
    cluster.edit(Role::Authority, |content| drop(content.annotations.insert(ROTATE.into(), "now".into())));
    for trusted in [2, 2, 1] {
        let done = roles(&cluster.work());
        assert_eq!(done, [Role::Authority, Role::Server, Role::Envoy, Role::Fleets]);
        assert_eq!(cluster.trusted(Role::Fleets), trusted);
        // The next step waits for the slowest mount.
        cluster.now += cluster.wanted.pause / 2;
        assert_eq!(roles(&cluster.work()), []);
        cluster.now += cluster.wanted.pause / 2;
    }
}
