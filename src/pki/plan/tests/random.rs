//! Random histories: two replicas that believe that they lead, crashes between any two requests, deleted Secrets, and
//! outdated readers. At no time may a client and a server reject each other, even if either has outdated files.

use std::collections::BTreeMap;
use std::time::UNIX_EPOCH;

use proptest::prelude::*;

use super::*;
use crate::pki::certificate::{Authority, certificates};

const SECOND: Duration = Duration::from_secs(1);
/// The timeout of a pass.
const PASS: Duration = Duration::from_secs(5);
/// The maximum delay of a reader: the pause, minus the duration of a write and the clock difference.
const BEHIND: Duration = Duration::from_secs(50);
/// The interval in which at least one pass is completed.
const ATTENDED: Duration = Duration::from_secs(45);

/// The shortest lifetime of a certificate that the settings accept: 12 pauses. A third of it remains when a certificate is due.
/// If the authority is lost at this time, its successor needs two passes and two pauses.
const LIFETIME: Duration = Duration::from_secs(12 * 60);

#[derive(Debug, Clone)]
enum Act {
    /// Time passes.
    Pass(u64),
    /// One of the two makes its next request.
    Go(usize),
    /// One of the two restarts.
    Crash(usize),
    /// A user requests a rotation.
    Rotate(Role),
    /// A user deletes a Secret.
    Delete(Role),
}

fn act() -> impl Strategy<Value = Act> {
    let role = || prop_oneof![Just(Role::Authority), Just(Role::Server), Just(Role::Envoy)];
    prop_oneof![
        8 => (0..20_u64).prop_map(Act::Pass),
        24 => (0..2_usize).prop_map(Act::Go),
        1 => (0..2_usize).prop_map(Act::Crash),
        1 => role().prop_map(Act::Rotate),
        1 => role().prop_map(Act::Delete),
    ]
}

/// A replica that believes that it leads: the requests of a pass in their order.
#[derive(Default)]
struct Leader {
    /// The time by which its clock is ahead.
    ahead: Duration,
    begun: Option<SystemTime>,
    read: Vec<(u64, Option<SecretContent>)>,
    step: Option<Step>,
}

struct World {
    now: SystemTime,
    wanted: WantedCertificates,
    /// The current version and content of each Secret.
    secrets: BTreeMap<Role, (u64, SecretContent)>,
    versions: u64,
    /// The previous contents of each Secret, with their start times.
    past: BTreeMap<Role, Vec<(SystemTime, SecretContent)>>,
    leaders: [Leader; 2],
    quiet: SystemTime,
    /// The maximum duration of a pass.
    pass: Duration,
    /// The accepted combinations of pair and bundle, with the time until which they are accepted.
    taken: BTreeMap<(Vec<u8>, Vec<u8>), SystemTime>,
    writes: usize,
}

/// Returns the holder of the key pair in a Secret.
fn holder(role: Role) -> Holder<'static> {
    if role == Role::Server { Holder::Server } else { Holder::Envoy }
}

const ORDER: [Role; 3] = [Role::Server, Role::Envoy, Role::Authority];

impl World {
    fn new() -> Self {
        let now = UNIX_EPOCH + START;
        let ahead = Leader { ahead: 3 * SECOND, ..Leader::default() };
        let mut world = Self {
            now,
            wanted: WantedCertificates { certificate_lifetime: LIFETIME, ..wanted() },
            secrets: BTreeMap::new(),
            versions: 0,
            past: BTreeMap::new(),
            leaders: [Leader::default(), ahead],
            quiet: now,
            pass: PASS,
            taken: BTreeMap::new(),
            writes: 0,
        };
        world.attend();
        world
    }

    fn act(&mut self, act: &Act) {
        match act {
            Act::Pass(seconds) => self.now += SECOND * u32::try_from(*seconds).unwrap(),
            Act::Go(who) => self.go(*who),
            Act::Crash(who) => self.crash(*who),
            Act::Rotate(role) => {
                if let Some((version, content)) = self.secrets.get_mut(role) {
                    self.versions += 1;
                    *version = self.versions;
                    content.annotations.insert(ROTATE.into(), String::new());
                }
            }
            Act::Delete(role) => self.delete(*role),
        }
        if self.now > self.quiet + ATTENDED {
            self.attend();
        }
    }

    /// Omits deletions that no step can repair: a lost authority together with a lost key pair.
    fn delete(&mut self, role: Role) {
        let issues =
            self.secrets.get(&Role::Authority).is_some_and(|(_, content)| content.data.contains_key(AUTHORITY_KEY));
        if self.secrets.len() == 3 && issues {
            self.secrets.remove(&role);
        }
    }

    fn crash(&mut self, who: usize) {
        let ahead = self.leaders[who].ahead;
        self.leaders[who] = Leader { ahead, ..Leader::default() };
    }

    /// Performs the next request of one of the two.
    fn go(&mut self, who: usize) {
        let now = self.now;
        if self.leaders[who].begun.is_some_and(|begun| now > begun + self.pass) {
            self.crash(who);
        }
        let leader = &mut self.leaders[who];
        leader.begun.get_or_insert(now);
        if let Some(role) = ORDER.get(leader.read.len()) {
            let secret = self.secrets.get(role);
            leader.read.push((secret.map_or(0, |(version, _)| *version), secret.map(|(_, content)| content.clone())));
            return;
        }
        let Some(step) = leader.step.take() else {
            let mut stored = Stored::default();
            for (role, (_, content)) in ORDER.iter().zip(&leader.read) {
                stored.set(*role, content.clone());
            }
            leader.step = Some(plan(now + leader.ahead, &stored, &self.wanted).unwrap());
            return;
        };
        let read = std::mem::take(&mut leader.read);
        self.crash(who);
        let Step::Write { role, content, .. } = step else {
            self.quiet = now;
            return;
        };
        let at = ORDER.iter().position(|of| *of == role).unwrap();
        if self.secrets.get(&role).map_or(0, |(version, _)| *version) == read[at].0 {
            self.versions += 1;
            self.writes += 1;
            self.secrets.insert(role, (self.versions, content.clone()));
            self.past.entry(role).or_default().push((now, content));
        }
    }

    /// Works until nothing is due.
    fn attend(&mut self) {
        self.crash(0);
        self.quiet = UNIX_EPOCH;
        let writes = self.writes;
        while self.quiet != self.now {
            self.go(0);
            assert!(self.writes < writes + 20, "no end");
        }
    }

    /// Returns the contents that readers of a Secret may have now.
    fn views(&self, role: Role) -> Vec<SecretContent> {
        let versions = &self.past[&role];
        let oldest = versions.iter().rposition(|(from, _)| *from + BEHIND <= self.now).unwrap_or(0);
        versions[oldest..].iter().map(|(_, content)| content.clone()).collect()
    }

    fn assert_trust(&mut self) {
        let (servers, envoys) = (self.views(Role::Server), self.views(Role::Envoy));
        for server in &servers {
            for envoy in &envoys {
                self.assert_takes(Role::Server, server, envoy);
                self.assert_takes(Role::Envoy, envoy, server);
            }
        }
    }

    /// Asserts that a peer with the authorities of `other` accepts the key pair `own`.
    fn assert_takes(&mut self, role: Role, own: &SecretContent, other: &SecretContent) {
        let (certificate, bundle) = (own.get(CERTIFICATE).to_vec(), other.get(AUTHORITIES).to_vec());
        let (now, wanted) = (self.now, &self.wanted);
        let until = self.taken.entry((certificate.clone(), bundle.clone())).or_insert_with(|| {
            let trusted = certificates(&bundle).unwrap().into_iter();
            let trusted: Vec<_> = trusted.filter_map(|der| Authority::read(der, now).unwrap()).collect();
            let leaf = validate(holder(role), &certificate, own.get(KEY), &trusted, wanted, now)
                .unwrap_or_else(|why| panic!("{role:?} is refused: {why}"));
            leaf.not_after.min(leaf.authority.not_after)
        });
        assert!(now <= *until, "{role:?} has expired");
    }
}

fn play(acts: &[Act]) -> World {
    let mut world = World::new();
    for act in acts {
        world.act(act);
        world.assert_trust();
    }
    world
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nobody_ever_refuses_who_is_behind(acts in prop::collection::vec(act(), 0..900)) {
        play(&acts);
    }
}

/// The authority is deleted at any time between the time at which key pairs are due and the next pass.
#[test]
fn an_authority_that_is_lost_when_key_pairs_are_due_lets_none_expire() {
    let due = usize::try_from(LIFETIME.as_secs() * 2 / 3).unwrap();
    for (first, late) in (1..45).step_by(4).flat_map(|first| (0..45).step_by(4).map(move |late| (first, late))) {
        // All later passes depend on the time of the first one.
        let mut acts = vec![Act::Pass(1); first];
        acts.extend(vec![Act::Go(0); 5]);
        acts.extend(vec![Act::Pass(1); due + late - first]);
        acts.push(Act::Delete(Role::Authority));
        acts.extend(vec![Act::Pass(1); 300]);
        play(&acts);
    }
}

/// The histories are useful only if authorities change in them.
#[test]
fn three_hours_include_several_rotations() {
    let acts: Vec<_> = (0..1080).flat_map(|i| [Act::Pass(10), Act::Go(i % 2), Act::Go(0)]).collect();
    let world = play(&acts);
    let mut bundles: Vec<_> =
        world.past[&Role::Authority].iter().map(|(_, content)| content.get(AUTHORITIES)).collect();
    bundles.dedup();
    assert!(bundles.len() >= 12, "{} changes of trust", bundles.len());
}

/// A pass reads the authority last, because an outdated read must not overwrite later writes.
#[test]
fn a_suspended_leader_reverts_no_write() {
    for requests in 1..=4 {
        let mut world = World::new();
        world.pass = Duration::from_secs(3600);
        for _ in 0..requests {
            world.go(1);
        }
        // Meanwhile, a new authority is announced, and the other replica finds that it may issue now.
        world.act(&Act::Rotate(Role::Authority));
        world.attend();
        world.now += 2 * MINUTE;
        for _ in 0..4 {
            world.go(0);
        }
        for _ in requests..5 {
            world.go(1);
        }
        world.go(0);
        world.attend();
        world.assert_trust();
    }
}
