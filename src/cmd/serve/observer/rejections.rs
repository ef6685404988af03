//! The resources that clients reject, as problems of their objects.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use lockgate_route::translate::problem::{Problem, Problems, Reason};
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Key, Resource, ResourceType};
use tokio::sync::watch;

use crate::metrics::Metrics;

/// The maximum number of reported characters of a client's message.
const MAX_CHARACTERS: usize = 300;
/// The number of reported objects of one resource, if it has at most as many namespaces.
const MAX_OBJECTS: usize = 100;
/// The maximum number of namespaces with a reported object of one resource.
const MAX_NAMESPACES: usize = 1000;

/// The resources that clients currently reject. The cost of a change depends on the change and not on the other rejections.
pub(super) struct Rejections {
    current: Mutex<Current>,
    problems: watch::Sender<Problems>,
    metrics: Metrics,
}

#[derive(Default)]
struct Current {
    /// The rejections of each resource by stream. Many clients reject the same resource: only the first message is reported.
    by_resource: BTreeMap<Key, BTreeMap<u64, Rejection>>,
    /// The resources that the client of each stream rejects.
    by_stream: BTreeMap<u64, BTreeSet<Key>>,
    /// The number of resources of each type.
    counts: BTreeMap<ResourceType, usize>,
}

struct Rejection {
    kind: &'static str,
    name: Arc<str>,
    /// The reported objects of those that may have caused the rejection.
    objects: Box<[ObjectRef]>,
    /// The number of all objects that may have caused it.
    suspects: usize,
    message: Arc<str>,
    /// Whether the client still has an earlier version.
    has_earlier: bool,
}

impl Rejections {
    pub fn new(metrics: Metrics) -> (Self, watch::Receiver<Problems>) {
        let (problems, reported) = watch::channel(Problems::default());
        (Self { current: Mutex::default(), problems, metrics }, reported)
    }

    /// Records that the client of `stream` rejects `resource`. One of `objects` is the cause.
    pub fn rejected(
        &self,
        stream: u64,
        resource: &Resource,
        objects: &[&ObjectRef],
        message: &Arc<str>,
        has_earlier: bool,
    ) {
        let rejection = Rejection {
            kind: resource.kind().short_name(),
            name: resource.name().clone(),
            objects: reported(objects),
            suspects: objects.len(),
            message: message.clone(),
            has_earlier,
        };
        let key = (resource.kind(), resource.name().clone());
        self.change(|current| current.replace(stream, &key, Some(rejection)));
    }

    /// Records that the client of `stream` no longer rejects a resource.
    pub fn recovered(&self, stream: u64, kind: ResourceType, name: &Arc<str>) {
        self.change(|current| current.replace(stream, &(kind, name.clone()), None));
    }

    /// Records that a stream is closed. The rejections of its client are no longer known.
    pub fn closed(&self, stream: u64) {
        self.change(|current| {
            let keys = current.by_stream.get(&stream).cloned().unwrap_or_default();
            keys.iter().flat_map(|key| current.replace(stream, key, None)).collect()
        });
    }

    fn change(&self, change: impl FnOnce(&mut Current) -> Vec<Change>) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = change(&mut current);
        for kind in changes.iter().map(|change| change.kind).collect::<BTreeSet<_>>() {
            let count = current.counts.get(&kind).copied().unwrap_or_default();
            self.metrics.set_rejected(kind.short_name(), count);
        }
        // The lock ensures that the last change is sent last.
        self.problems.send_if_modified(|problems| {
            for Change { before, now, .. } in &changes {
                before.iter().for_each(|problem| drop(problems.remove(problem)));
                problems.extend(now.iter().cloned().map(Arc::new));
            }
            changes.iter().any(|change| change.before != change.now)
        });
    }
}

/// A change of the problems of one resource.
struct Change {
    kind: ResourceType,
    before: Vec<Problem>,
    now: Vec<Problem>,
}

impl Current {
    /// Replaces the rejection of a resource by the client of a stream. Returns the change of its problems, if any.
    fn replace(&mut self, stream: u64, key: &Key, now: Option<Rejection>) -> Vec<Change> {
        let of_resource = self.by_resource.entry(key.clone()).or_default();
        let problems = |of_resource: &BTreeMap<u64, Rejection>| -> Vec<Problem> {
            of_resource.values().next().into_iter().flat_map(Rejection::problems).collect()
        };
        let before = problems(of_resource);
        let had_any = !of_resource.is_empty();
        match now {
            Some(rejection) => {
                of_resource.insert(stream, rejection);
                self.by_stream.entry(stream).or_default().insert(key.clone());
            }
            None => {
                of_resource.remove(&stream);
                if let Entry::Occupied(mut keys) = self.by_stream.entry(stream) {
                    keys.get_mut().remove(key);
                    if keys.get().is_empty() {
                        keys.remove();
                    }
                }
            }
        }
        let (now, has_any) = (problems(of_resource), !of_resource.is_empty());
        if !has_any {
            self.by_resource.remove(key);
        }
        let count = self.counts.entry(key.0).or_default();
        *count = (*count + usize::from(has_any)).saturating_sub(usize::from(had_any));
        let is_changed = before != now || had_any != has_any;
        is_changed.then_some(Change { kind: key.0, before, now }).into_iter().collect()
    }
}

/// Returns the objects to report: the first of each namespace, then the second of each, and so on. The owner of a resource with
/// many suspects therefore learns of the rejection, however many objects the namespaces of others have.
fn reported(objects: &[&ObjectRef]) -> Box<[ObjectRef]> {
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut turns = Vec::with_capacity(objects.len());
    for object in objects {
        let turn = counts.entry(&object.namespace).or_default();
        turns.push((*turn, *object));
        *turn += 1;
    }
    // Objects of the same turn keep their order.
    turns.sort_by_key(|(turn, _)| *turn);
    turns.truncate(counts.len().clamp(MAX_OBJECTS, MAX_NAMESPACES));
    turns.into_iter().map(|(_, object)| object.clone()).collect()
}

impl Rejection {
    fn problems(&self) -> impl Iterator<Item = Problem> {
        let Self { kind, name, objects, suspects, message, has_earlier } = self;
        let line = message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let line: String = line.chars().filter(|c| !c.is_control()).take(MAX_CHARACTERS).collect();
        let others = match suspects.saturating_sub(1) {
            0 => String::new(),
            1 => " and from another object".to_owned(),
            others => format!(" and from {others} other objects"),
        };
        let consequence = match has_earlier {
            true => "the last version that it accepted stays in use",
            false => "it is left out",
        };
        objects.iter().map(move |object| Problem {
            object: object.clone(),
            field: String::new(),
            reason: Reason::XdsRejected,
            message: format!("an Envoy rejects the {kind} \"{name}\" that is built from it{others}: {line}").into(),
            consequence: consequence.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use envoy_types::pb::envoy::config::cluster::v3::Cluster;

    use super::*;

    fn cluster(name: &str) -> Arc<Resource> {
        let message = Cluster { name: name.to_owned(), ..Cluster::default() };
        Arc::new(Resource::new(name, &message, vec![ObjectRef::new("Service", "shop", name)]))
    }

    #[test]
    fn every_namespace_of_a_resource_with_many_suspects_is_told() {
        let (rejections, problems) = Rejections::new(Metrics::default());
        let all: Vec<ObjectRef> = (0..250)
            .map(|i| ObjectRef::new("HTTPRoute", "crowd", &format!("{i:03}")))
            .chain(["anna", "bert"].map(|namespace| ObjectRef::new("HTTPRoute", namespace, "shop")))
            .collect();
        rejections.rejected(1, &cluster("cart"), &all.iter().collect::<Vec<_>>(), &"bad".into(), true);
        let told = |problems: &Problems| -> Vec<String> {
            problems.iter().map(|problem| problem.object.to_string()).collect()
        };
        let of_crowd = told(&problems.borrow()).into_iter().filter(|object| object.contains("crowd/")).count();
        let others = ["HTTPRoute anna/shop", "HTTPRoute bert/shop"];
        assert!(others.iter().all(|one| told(&problems.borrow()).iter().any(|object| object == one)));
        assert_eq!(of_crowd, MAX_OBJECTS - others.len());
        // More namespaces than objects that are reported otherwise.
        let all: Vec<ObjectRef> = (0..300).map(|i| ObjectRef::new("HTTPRoute", &format!("team-{i}"), "shop")).collect();
        rejections.rejected(1, &cluster("cart"), &all.iter().collect::<Vec<_>>(), &"bad".into(), true);
        assert_eq!(problems.borrow().iter().count(), 300);
    }

    #[test]
    fn a_rejection_is_a_problem_of_the_objects_until_the_last_client_has_recovered() {
        let (rejections, problems) = Rejections::new(Metrics::default());
        let texts = || problems.borrow().iter().map(|problem| problem.to_string()).collect::<Vec<_>>();
        let object = ObjectRef::new("Service", "shop", "cart");
        rejections.rejected(1, &cluster("cart"), &[&object], &"\u{1b}bad\nand more".into(), false);
        rejections.rejected(2, &cluster("cart"), &[&object], &"bad".into(), true);
        let line =
            "Service shop/cart: an Envoy rejects the Cluster \"cart\" that is built from it: bad; it is left out";
        assert_eq!(texts(), [line]);
        rejections.recovered(1, ResourceType::CLUSTER, &"cart".into());
        assert_eq!(texts().len(), 1);
        rejections.closed(2);
        assert!(texts().is_empty());
        let other = ObjectRef::new("Service", "shop", "other");
        rejections.rejected(1, &cluster("cart"), &[&object, &other], &"bad".into(), true);
        let line = "Service shop/other: an Envoy rejects the Cluster \"cart\" that is built from it and from another object: \
                    bad; the last version that it accepted stays in use";
        assert_eq!((texts().len(), &*texts()[1]), (2, line));
    }

    #[test]
    fn twenty_thousand_rejections_come_and_go() {
        // With a walk over all rejections for each change, this takes minutes.
        let (rejections, problems) = Rejections::new(Metrics::default());
        let object = ObjectRef::new("Service", "shop", "cart");
        let names: Vec<String> = (0..20_000).map(|at| format!("cart-{at:05}")).collect();
        for name in &names {
            rejections.rejected(1, &cluster(name), &[&object], &"bad".into(), true);
        }
        assert_eq!(problems.borrow().len(), names.len());
        for name in &names[1..] {
            rejections.recovered(1, ResourceType::CLUSTER, &name.as_str().into());
        }
        assert_eq!(problems.borrow().len(), 1);
        rejections.closed(1);
        assert!(problems.borrow().is_empty());
        let current = rejections.current.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(current.by_resource.is_empty() && current.by_stream.is_empty());
    }
}
