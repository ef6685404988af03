//! Claims of a whole installation: the translation, the leader's plan, and the stored ConfigMaps.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use lockgate_route::objects::{CLAIM_SHARDS, Ingress, Kind, Object, ObjectId, ObjectKey, Objects};
use lockgate_route::settings::Settings;
use lockgate_route::testing::model::Shared as _;
use lockgate_route::testing::objects::{class, ingress, meta, namespace, service};
use lockgate_route::translate::host::parse;
use lockgate_route::translate::{ChangedInputs, Input, Translator, translate};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::status::claims::item;
use crate::status::queue::{Queue, WATCH_TIMEOUT, WriteOutcome};

const SECOND: Duration = Duration::from_secs(1);
const TENANTS: [&str; 3] = ["a", "b", "c"];
const HOSTS: [&str; 5] = ["x.com", "y.com", "*.x.com", "p.x.com", "q.x.com"];

/// An installation with one leader.
struct Lab {
    objects: Objects,
    settings: Settings,
    translator: Translator,
    memory: Memory,
    queue: Queue<ClaimsWrite>,
    now: Instant,
    /// The ConfigMaps at the API server. `objects` has those that the watch has delivered.
    stored: BTreeMap<usize, HostClaims>,
    /// The number of the last version.
    version: u64,
    /// The creation time of the next object.
    created: i64,
    /// The number of changed keys in each write.
    writes: Vec<usize>,
}

impl Lab {
    fn new() -> Self {
        let mut lab = Self {
            objects: Objects::default(),
            settings: Settings::default(),
            translator: Translator::default(),
            memory: Memory::default(),
            queue: Queue::new(None),
            now: Instant::now(),
            stored: BTreeMap::new(),
            version: 0,
            created: 0,
            writes: Vec::new(),
        };
        lab.objects.apply(class("ours").into());
        for name in TENANTS {
            lab.objects.apply(namespace(name, false));
            lab.objects.apply(service(&format!("{name}/a")).port("http", 80).into());
        }
        lab.restart();
        lab
    }

    /// Starts the translation again.
    fn restart(&mut self) {
        self.translator = Translator::default();
        self.translator.update(&self.objects, &self.settings, &ChangedInputs::everything());
    }

    fn apply(&mut self, object: Object) {
        let input = Input::new(object.kind(), object.meta().key.clone());
        self.objects.apply(object);
        self.update(input);
    }

    fn delete(&mut self, kind: Kind, key: ObjectKey) {
        self.objects.delete(kind, &key);
        self.update(Input::new(kind, key));
    }

    fn update(&mut self, input: Input) {
        let mut changed = ChangedInputs::default();
        changed.insert(input);
        self.translator.update(&self.objects, &self.settings, &changed);
    }

    /// Creates an Ingress, or changes its hosts.
    fn edit(&mut self, key: &ObjectKey, hosts: &[&str]) {
        self.created += 1;
        let created = self.objects.get::<Ingress>(key).map_or(self.created, |ingress| ingress.meta.created);
        let one = ingress(&key.to_string()).created(created);
        self.apply(hosts.iter().fold(one, |one, host| one.host(host).path("Prefix", "/", "a:80")).into());
    }

    /// Performs the next write of the leader, and lets time pass. The watch delivers the result, unless it is late.
    fn tick(&mut self, is_late: bool, time: Duration) {
        let can_claim = |namespace: &Arc<str>| self.objects.can_claim(namespace);
        let shards = self.objects.all::<HostClaims>().map(|shard| (shard.shard, shard)).collect();
        let unsettled = self.translator.unsettled_hosts();
        let known = Known { unsettled, shards, can_claim: &can_claim, since: "2026-01-02T03:04:05Z" };
        let (writes, _) = self.memory.writes(&known, self.now);
        let id =
            |write: &ClaimsWrite| ObjectId::new(Kind::HOST_CLAIMS, "edge", &format!("lockgate-claims-{}", write.shard));
        self.queue.replace(writes.into_iter().map(|write| (id(&write), item(write))).collect(), self.now);
        if let Some(write) = self.queue.start(self.now) {
            let outcome = if self.store(&write.item.goal) { WriteOutcome::Done } else { WriteOutcome::Conflict };
            self.queue.finish(&write, outcome, self.now);
        }
        if !is_late {
            let seen = |shard: &HostClaims| self.objects.get::<HostClaims>(&shard.meta.key) == Some(shard);
            let unseen: Vec<HostClaims> = self.stored.values().filter(|shard| !seen(shard)).cloned().collect();
            unseen.into_iter().for_each(|shard| self.apply(Object::new(shard)));
        }
        self.now += time;
    }

    /// Stores a write like the API server, which refuses a write of another version. Returns whether it did.
    fn store(&mut self, write: &ClaimsWrite) -> bool {
        let before = self.stored.get(&write.shard);
        if before.map(|shard| &shard.version) != write.version.as_ref() {
            return false;
        }
        let mut data: BTreeMap<String, String> = before
            .into_iter()
            .flat_map(|shard| &shard.claims)
            .map(|(host, claim)| (claim_key(host), claim.value()))
            .collect();
        for (key, value) in &write.data {
            match value {
                Some(value) => drop(data.insert(key.clone(), value.clone())),
                None => drop(data.remove(key)),
            }
        }
        self.version += 1;
        self.writes.push(write.data.len());
        let meta = meta(&format!("edge/lockgate-claims-{}", write.shard));
        let shard = HostClaims::new(meta, self.version.to_string().into(), &data).expect("a ConfigMap with claims");
        self.stored.insert(write.shard, shard);
        true
    }

    /// Lets the leader write until nothing is due for a minute.
    fn settle(&mut self) {
        for _ in 0..2 * CLAIM_SHARDS {
            self.tick(false, SECOND);
        }
    }

    /// Returns the namespace whose rules serve a host.
    fn served_by(&self, host: &str) -> Option<Arc<str>> {
        let host = self.translator.model().http().get(&parse(host).unwrap())?;
        Some(host.routes.first()?.origin.namespace.clone())
    }

    /// Returns the namespace whose claim holds.
    fn holder(&self, host: &str) -> Option<Arc<str>> {
        let host = parse(host).unwrap();
        let claim = self.objects.all::<HostClaims>().find_map(|shard| shard.claims.get(&host))?;
        Some(claim.namespace.clone()).filter(|namespace| self.objects.can_claim(namespace))
    }

    /// Returns whether a namespace has the claim of a host, in the translation and at the API server.
    fn claims(&self, namespace: &Arc<str>, host: &str) -> bool {
        let parsed = parse(host).unwrap();
        let stored = self.stored.values().find_map(|shard| shard.claims.get(&parsed));
        self.holder(host).as_ref() == Some(namespace) && stored.is_some_and(|claim| claim.namespace == *namespace)
    }

    fn has_rule(&self, namespace: &str, host: &str) -> bool {
        let names = |one: &Ingress| one.spec.rules.iter().flatten().any(|rule| rule.host.as_deref() == Some(host));
        let mut all = self.objects.all::<Ingress>();
        all.any(|one| *one.meta.key.namespace == *namespace && !one.meta.terminating && names(one))
    }
}

#[derive(Debug, Clone)]
enum Step {
    Edit(ObjectKey, Vec<&'static str>),
    Delete(ObjectKey),
    /// Whether the namespace is being deleted.
    Namespace(&'static str, bool),
    Restart,
    NewLeader,
    /// The ticks, each with the time after it, and whether the watch is late.
    Ticks(Vec<(bool, u64)>),
}

fn any_step() -> impl Strategy<Value = Step> {
    let key =
        || (select(&TENANTS[..]), select(vec!["i", "j"])).prop_map(|(namespace, name)| ObjectKey::new(namespace, name));
    prop_oneof![
        8 => (key(), vec(select(&HOSTS[..]), 0..4)).prop_map(|(key, hosts)| Step::Edit(key, hosts)),
        4 => key().prop_map(Step::Delete),
        1 => (select(&TENANTS[..]), any::<bool>()).prop_map(|(name, ends)| Step::Namespace(name, ends)),
        1 => Just(Step::Restart),
        1 => Just(Step::NewLeader),
        8 => vec((prop::bool::weighted(0.2), select(vec![1u64, 1, 1, 1, 1, 20, 61])), 1..12).prop_map(Step::Ticks),
    ]
}

/// Performs a step, and calls `check` after each change.
fn perform(lab: &mut Lab, step: Step, mut check: impl FnMut(&Lab)) {
    match step {
        Step::Edit(key, hosts) => lab.edit(&key, &hosts),
        Step::Delete(key) => lab.delete(Kind::INGRESS, key),
        Step::Namespace(name, ends) => lab.apply(namespace(name, ends)),
        Step::Restart => lab.restart(),
        Step::NewLeader => (lab.memory, lab.queue) = (Memory::default(), Queue::new(None)),
        Step::Ticks(ticks) => {
            for (is_late, seconds) in ticks {
                lab.tick(is_late, Duration::from_secs(seconds));
                check(lab);
            }
            return;
        }
    }
    check(lab);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_host_keeps_its_owner_while_the_owner_has_a_rule(steps in vec(any_step(), 1..30)) {
        let mut lab = Lab::new();
        // The namespace that serves each host and has the claim. A claim whose grace period is over ends with its removal at the API
        // server, also while the watch is late.
        let owners = |lab: &Lab| HOSTS.map(|host| lab.served_by(host).filter(|owner| lab.claims(owner, host)));
        let mut before = owners(&lab);
        for step in steps {
            perform(&mut lab, step.clone(), |lab| {
                for (host, owner) in HOSTS.into_iter().zip(&before) {
                    let (served_by, holder) = (lab.served_by(host), lab.holder(host));
                    if let Some(owner) = owner.as_ref().filter(|owner| lab.objects.can_claim(owner) && lab.has_rule(owner, host)) {
                        assert_eq!(served_by.as_ref(), Some(owner), "{host} after {step:?}");
                    }
                    let above = holder.is_none() && host.ends_with(".x.com") && host != "*.x.com";
                    let kept = holder.or_else(|| lab.holder("*.x.com").filter(|_| above));
                    if let Some((kept, served_by)) = kept.zip(served_by) {
                        assert_eq!(kept, served_by, "{host} after {step:?}");
                    }
                }
                before = owners(lab);
            });
            // A restarted replica serves the same.
            prop_assert_eq!(&translate(&lab.objects, &lab.settings).model, lab.translator.model(), "after {:?}", step);
        }
        lab.settle();
        lab.now += GRACE;
        lab.settle();
        // Every served host is claimed.
        let unclaimed = lab.translator.unsettled_hosts().iter().filter(|(_, one)| one.claimant.is_none());
        let unclaimed: Vec<_> = unclaimed.filter(|(_, one)| one.owner.as_ref().is_some_and(|owner| lab.objects.can_claim(owner))).collect();
        prop_assert!(unclaimed.is_empty(), "{unclaimed:?}");
    }
}

fn key(name: &str) -> ObjectKey {
    let (namespace, name) = name.split_once('/').unwrap();
    ObjectKey::new(namespace, name)
}

#[test]
fn an_older_ingress_gets_a_host_a_minute_after_the_last_rule() {
    let mut lab = Lab::new();
    lab.edit(&key("a/old"), &["other.com"]);
    lab.edit(&key("b/live"), &["x.com"]);
    lab.settle();
    lab.edit(&key("a/old"), &["x.com"]);
    assert_eq!(lab.served_by("x.com").as_deref(), Some("b"));
    lab.delete(Kind::INGRESS, key("b/live"));
    lab.tick(false, SECOND);
    // The Ingress is created again, which restores the host and ends the grace period.
    lab.tick(false, GRACE - 2 * SECOND);
    assert_eq!(lab.served_by("x.com"), None);
    lab.edit(&key("b/live"), &["x.com"]);
    lab.tick(false, 10 * GRACE);
    assert_eq!(lab.served_by("x.com").as_deref(), Some("b"));
    lab.delete(Kind::INGRESS, key("b/live"));
    lab.tick(false, GRACE - SECOND);
    // A new leader starts the period again.
    (lab.memory, lab.queue) = (Memory::default(), Queue::new(None));
    lab.tick(false, GRACE - SECOND);
    lab.tick(false, SECOND);
    assert_eq!(lab.served_by("x.com"), None);
    lab.tick(false, SECOND);
    assert_eq!(lab.served_by("x.com").as_deref(), Some("a"));
    lab.settle();
    assert_eq!(lab.holder("x.com").as_deref(), Some("a"));
}

#[test]
fn a_namespace_that_is_being_deleted_loses_its_claims_in_one_write() {
    let mut lab = Lab::new();
    lab.edit(&key("b/live"), &["x.com"]);
    lab.settle();
    lab.edit(&key("a/next"), &["x.com"]);
    lab.apply(namespace("b", true));
    assert_eq!(lab.served_by("x.com").as_deref(), Some("a"), "at once");
    let before = lab.writes.len();
    lab.settle();
    assert_eq!(lab.holder("x.com").as_deref(), Some("a"));
    assert_eq!(lab.writes.len() - before, 1);
}

#[test]
fn existing_names_are_claimed_before_the_wildcard_above_them() {
    let mut lab = Lab::new();
    // The Ingress with the wildcard is younger. Each host is in another ConfigMap.
    let names: Vec<String> = (0..40).map(|at| format!("n{at}.x.com")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    lab.edit(&key("a/names"), &names);
    lab.edit(&key("b/wild"), &["*.x.com"]);
    for _ in 0..2 * CLAIM_SHARDS {
        lab.tick(false, SECOND);
        assert!(names.iter().all(|name| lab.served_by(name).as_deref() == Some("a")));
    }
    assert_eq!(lab.holder("*.x.com").as_deref(), Some("b"));
    // Names that appear later do not delay the claim of a wildcard.
    lab.edit(&key("b/other"), &["*.y.com"]);
    for at in 0..CLAIM_SHARDS {
        lab.edit(&key("a/names"), &[&format!("m{at}.y.com"), &format!("o{at}.y.com")]);
        lab.tick(false, SECOND);
    }
    assert_eq!(lab.holder("*.y.com").as_deref(), Some("b"));
}

#[test]
fn a_write_is_repeated_only_if_its_result_does_not_arrive() {
    let mut lab = Lab::new();
    lab.edit(&key("a/i"), &["x.com"]);
    let failures = |lab: &Lab| {
        let ids =
            (0..CLAIM_SHARDS).map(|at| ObjectId::new(Kind::HOST_CLAIMS, "edge", &format!("lockgate-claims-{at}")));
        ids.map(|id| lab.queue.failures(&id)).sum::<u32>()
    };
    lab.tick(true, WATCH_TIMEOUT - SECOND);
    lab.tick(true, SECOND);
    assert_eq!((&*lab.writes, failures(&lab)), (&[1][..], 0));
    lab.tick(true, SECOND);
    assert_eq!((&*lab.writes, failures(&lab)), (&[1][..], 1), "the second one conflicts");
    lab.tick(false, SECOND);
    lab.settle();
    assert_eq!((lab.writes.len(), lab.holder("x.com").as_deref()), (1, Some("a")));
}

#[test]
fn a_namespace_leaves_room_for_others() {
    let host = |name: String| parse(&name).unwrap();
    let of = |namespace: &str| Some(Arc::from(namespace));
    let mut unsettled = UnsettledHosts::default();
    for at in 0..30_000 {
        unsettled.insert(host(format!("h{at}.com")), Unsettled { claimant: None, owner: of("many") });
    }
    let writes = |unsettled: &UnsettledHosts| {
        let mut memory = Memory::default();
        let known = Known { unsettled, shards: BTreeMap::new(), can_claim: &|_| true, since: "2026-01-02T03:04:05Z" };
        let (writes, _) = memory.writes(&known, Instant::now());
        (writes, memory.beyond)
    };
    let (all, beyond) = writes(&unsettled);
    let mut claimed = BTreeSet::new();
    for write in all {
        let size: usize = write.data.iter().map(|(key, value)| key.len() + value.as_ref().unwrap().len() + 6).sum();
        assert!((MAX_OF_NAMESPACE - 100..=MAX_OF_NAMESPACE).contains(&size), "{size}");
        claimed.extend(write.data.into_keys());
    }
    assert_eq!(claimed.len() + beyond, 30_000);
    unsettled.insert(host("late.com".into()), Unsettled { claimant: None, owner: of("few") });
    let (all, _) = writes(&unsettled);
    assert!(all.iter().any(|write| write.data.contains_key("late.com")));
}

/// The figures in docs/concepts/host-ownership.md.
#[test]
fn ten_thousand_hosts_are_claimed_in_sixteen_writes() {
    let mut lab = Lab::new();
    let hosts: Vec<String> = (0..10_000).map(|at| format!("shop-{at}.customers.example.com")).collect();
    for (at, hosts) in hosts.chunks(100).enumerate() {
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        lab.edit(&key(&format!("a/i{at}")), &hosts);
    }
    lab.settle();
    assert_eq!((lab.writes.len(), lab.writes.iter().sum::<usize>()), (CLAIM_SHARDS, 10_000));
    assert!(lab.translator.unsettled_hosts().is_empty());
    let bytes = |shard: &HostClaims| shard.claims.iter().map(|(host, claim)| claim.size(host)).sum::<usize>();
    let sizes: Vec<usize> = lab.stored.values().map(bytes).collect();
    let start = std::time::Instant::now();
    lab.restart();
    let cold = start.elapsed();
    lab.edit(&key("a/new"), &["new.example.com"]);
    let start = std::time::Instant::now();
    lab.tick(false, SECOND);
    let claimed = start.elapsed();
    assert_eq!(lab.writes[CLAIM_SHARDS..], [1], "a new host changes one key of one ConfigMap");
    let (total, largest) = (sizes.iter().sum::<usize>(), sizes.iter().max().unwrap());
    assert!(total < 600_000 && *largest < 40_000, "{sizes:?}");
    println!("{total} bytes in all, at most {largest} in a ConfigMap; cold start {cold:?}; a new claim {claimed:?}");
}
