//! A kind with conditions: those of the verdicts, and `Programmed`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::{KindInfo, Typed};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::verdict::Status;
use lockgate_xds::provenance::ObjectRef;
use serde_json::{Value, json};

use super::*;

static WIDGET: KindInfo =
    KindInfo { name: "Widget", group: "example.com", plural: "widgets", has_status: true, ..*Kind::INGRESS.info() };

#[derive(Debug, Clone, PartialEq)]
struct Widget {
    meta: Meta,
    conditions: Vec<Condition>,
    version: Arc<str>,
}

impl Typed for Widget {
    const KIND: Kind = Kind::new(&WIDGET);

    fn metadata(&self) -> &Meta {
        &self.meta
    }
}

impl HasStatus for Widget {
    /// All transition times are the epoch. [`Widget::patch`] sets the real times.
    type Status = Vec<Condition>;

    fn version(&self) -> &Arc<str> {
        &self.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Self::Status>> {
        let epoch = |condition: &Condition| Condition { last_transition_time: at(0), ..condition.clone() };
        let current: Vec<Condition> = self.conditions.iter().map(epoch).collect();
        let Some(published) = facts.published else {
            return (facts.withdrawing && !current.is_empty()).then(|| Goal {
                status: Vec::new(),
                needs: None,
                cause: 0,
            });
        };
        let condition = |type_: &str, status: Status, reason: &str, message: String| Condition {
            type_: type_.to_owned(),
            status: status.as_str().to_owned(),
            reason: reason.to_owned(),
            message,
            observed_generation: Some(self.meta.generation),
            last_transition_time: at(0),
        };
        let mut pending: Vec<Condition> = Vec::new();
        pending.extend(facts.verdicts.iter().map(|v| condition(v.condition, v.status, v.reason, v.message.clone())));
        let mut done = pending.clone();
        // The next leader reads the accepted revision from the message.
        let message = || format!("revision {}", published.revision);
        pending.push(condition("Programmed", Status::Unknown, "Pending", message()));
        done.push(condition("Programmed", Status::True, "Programmed", message()));
        match () {
            () if current == done => None,
            () if current == pending => Some(Goal { status: done, needs: Some(published.clone()), cause: 0 }),
            () => Some(Goal { status: pending, needs: None, cause: 0 }),
        }
    }

    fn patch(&self, conditions: &Self::Status, _: usize, now: Timestamp) -> Value {
        let timed = conditions.iter().map(|new| {
            let same = |old: &&Condition| (&old.type_, &old.status) == (&new.type_, &new.status);
            let time = self.conditions.iter().find(same).map_or(Time(now), |old| old.last_transition_time.clone());
            Condition { last_transition_time: time, ..new.clone() }
        });
        json!({ "conditions": timed.collect::<Vec<_>>() })
    }

    fn summary(conditions: &Self::Status) -> String {
        conditions.iter().map(|condition| format!("{}={} ", condition.type_, condition.status)).collect()
    }
}

fn at(second: i64) -> Time {
    Time(Timestamp::from_second(second).unwrap())
}

/// A Widget with a queue, and a watch that brings back each write at once.
struct World {
    queue: StatusQueue<Widget>,
    widget: Widget,
    published: Published,
    accepted: Status,
    now: Instant,
    start: Instant,
}

impl World {
    fn new() -> Self {
        let meta = Meta {
            key: ObjectKey::new("shop", "cart"),
            uid: "u".into(),
            generation: 1,
            created: 0,
            terminating: false,
            annotations: BTreeMap::new(),
        };
        let now = Instant::now();
        Self {
            queue: StatusQueue::new(US.into()),
            widget: Widget { meta, conditions: Vec::new(), version: "1".into() },
            published: Published {
                uid: "u".into(),
                revision: Revision(1),
                since: 1,
                served: true,
                fleets: Arc::default(),
            },
            accepted: Status::True,
            now,
            start: now,
        }
    }

    fn update(&mut self) {
        let mut inspection = Inspection { complete: true, ..Inspection::default() };
        let id = Widget::KIND.id(self.widget.meta.key.clone());
        let verdict = Verdict {
            object: ObjectRef::new("Widget", "shop", "cart"),
            parent: None,
            listener: None,
            condition: "Accepted",
            status: self.accepted,
            reason: "Because",
            message: String::new(),
        };
        inspection.objects.apply(Object::new(self.widget.clone()));
        inspection.sources.insert(id.clone(), self.published.clone());
        inspection.verdicts.insert(id, [verdict].into());
        self.queue.update(Arc::new(inspection), ExternalFacts::default(), self.now);
    }

    /// Performs the write that is due, if there is one. Returns its summary.
    fn write(&mut self) -> Option<String> {
        self.update();
        let write = self.queue.start(self.now)?;
        let second = i64::try_from((self.now - self.start).as_secs()).unwrap();
        let patch = self.widget.patch(&write.status, 0, at(second).0);
        self.queue.finished(&write, Outcome::Done, self.now);
        self.widget.conditions = serde_json::from_value(patch["conditions"].clone()).unwrap();
        self.widget.version = format!("{}1", self.widget.version).into();
        self.update();
        Some(Widget::summary(&write.status).trim().to_owned())
    }

    /// Waits for the next write. Returns its summary.
    fn next_write(&mut self) -> String {
        self.update();
        loop {
            self.now = self.queue.next().expect("a write to come").max(self.now);
            if let Some(written) = self.write() {
                return written;
            }
        }
    }

    fn waiting(&self) -> Vec<Published> {
        self.queue.waiting().batch(None, usize::MAX).into_iter().map(|(_, published)| published).collect()
    }

    fn accept(&mut self, published: &Published) {
        self.queue.accepted(&self.widget.meta.key, published, 2, self.now);
    }

    /// Returns the status, the observedGeneration, and the second of the last transition of each condition.
    fn conditions(&self) -> Vec<(&str, &str, i64, i64)> {
        let condition = |one: &Condition| one.last_transition_time.0.as_second();
        let all = self.widget.conditions.iter();
        all.map(|one| (&*one.type_, &*one.status, one.observed_generation.unwrap(), condition(one))).collect()
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn conditions_follow_the_verdicts_at_once_and_the_envoys_later() {
    let mut world = World::new();
    assert_eq!(world.write().as_deref(), Some("Accepted=True Programmed=Unknown"), "without an ACK");
    assert_eq!((world.write(), world.waiting()), (None, vec![world.published.clone()]));
    world.now += 10 * SECOND;
    world.accept(&world.published.clone());
    assert_eq!(world.next_write(), "Accepted=True Programmed=True");
    assert_eq!(world.conditions(), [("Accepted", "True", 1, 0), ("Programmed", "True", 1, 10)]);
    assert_eq!((world.write(), world.queue.len()), (None, 0));
    // A new generation with a negative verdict.
    world.now += 10 * SECOND;
    (world.widget.meta.generation, world.published.revision, world.accepted) = (2, Revision(2), Status::False);
    assert_eq!(world.write().as_deref(), Some("Accepted=False Programmed=Unknown"));
    assert_eq!(world.conditions(), [("Accepted", "False", 2, 20), ("Programmed", "Unknown", 2, 20)]);
}

#[test]
fn a_verdict_that_changes_alone_is_written() {
    let mut world = World::new();
    world.write();
    world.accept(&world.published.clone());
    world.next_write();
    world.accepted = Status::False;
    assert_eq!(world.next_write(), "Accepted=False Programmed=Unknown");
}

#[test]
fn an_edit_of_an_annotation_waits_for_the_envoys() {
    let mut world = World::new();
    world.write();
    world.accept(&world.published.clone());
    world.next_write();
    let before = world.published.clone();
    // The generation stays.
    (world.published.revision, world.published.since) = (Revision(2), 2);
    assert_eq!(world.write().as_deref(), Some("Accepted=True Programmed=Unknown"));
    world.accept(&before);
    assert_eq!((world.write(), world.waiting()), (None, vec![world.published.clone()]));
    world.accept(&world.published.clone());
    assert_eq!(world.next_write(), "Accepted=True Programmed=True");
}

#[test]
fn frequent_edits_do_not_delay_the_status() {
    let mut world = World::new();
    for edit in 1..20 {
        world.published.revision = Revision(edit);
        let start = world.now;
        world.next_write();
        world.accept(&world.published.clone());
        world.next_write();
        assert!(world.now - start <= SECOND, "{:?} for edit {edit}", world.now - start);
    }
}

#[test]
fn a_fight_over_conditions_slows_down() {
    let mut world = World::new();
    let mut writes = 0;
    while world.now < world.start + 60 * SECOND {
        world.next_write();
        world.widget.conditions.clear();
        world.widget.version = format!("{}2", world.widget.version).into();
        writes += 1;
    }
    assert!(writes < 10, "{writes}");
}
