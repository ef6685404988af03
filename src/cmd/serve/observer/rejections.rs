//! Which resources clients reject, as problems of the objects that these are made of.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use lockgate_route::translate::problem::{Problem, Problems, Reason};
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Key, Resource, ResourceType};
use tokio::sync::watch;

use crate::metrics::Metrics;

/// Characters of a client's message that are told.
const MOST_CHARACTERS: usize = 300;
/// Objects of one resource that are told.
const MOST_OBJECTS: usize = 100;

/// The resources that clients reject at the moment.
pub(super) struct Rejections {
    /// By stream.
    open: Mutex<BTreeMap<u64, BTreeMap<Key, Rejection>>>,
    problems: watch::Sender<Problems>,
    metrics: Metrics,
}

struct Rejection {
    kind: &'static str,
    name: Arc<str>,
    /// The objects that may be at fault: the first of them.
    objects: Box<[ObjectRef]>,
    /// The number of all of them.
    suspects: usize,
    message: Arc<str>,
    /// Whether the client has an earlier version.
    has_another: bool,
}

impl Rejections {
    pub fn new(metrics: Metrics) -> (Self, watch::Receiver<Problems>) {
        let (problems, told) = watch::channel(Problems::default());
        (Self { open: Mutex::default(), problems, metrics }, told)
    }

    /// The client of `stream` rejects `resource`. One of `objects` is at fault.
    pub fn rejected(
        &self,
        stream: u64,
        resource: &Resource,
        objects: &[&ObjectRef],
        message: &Arc<str>,
        has_another: bool,
    ) {
        let rejection = Rejection {
            kind: resource.kind().short_name(),
            name: resource.name().clone(),
            objects: objects.iter().take(MOST_OBJECTS).map(|object| ObjectRef::clone(object)).collect(),
            suspects: objects.len(),
            message: message.clone(),
            has_another,
        };
        let key = (resource.kind(), resource.name().clone());
        self.change(|open| drop(open.entry(stream).or_default().insert(key, rejection)));
    }

    /// The client of `stream` rejects this resource no longer.
    pub fn recovered(&self, stream: u64, kind: ResourceType, name: &Arc<str>) {
        self.change(|open| {
            if let Some(of_stream) = open.get_mut(&stream) {
                of_stream.remove(&(kind, name.clone()));
            }
        });
    }

    /// The stream is closed: what its client rejects is not known any more.
    pub fn closed(&self, stream: u64) {
        if self.open.lock().unwrap_or_else(PoisonError::into_inner).contains_key(&stream) {
            self.change(|open| drop(open.remove(&stream)));
        }
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<u64, BTreeMap<Key, Rejection>>)) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let kinds = |open: &BTreeMap<u64, BTreeMap<Key, Rejection>>| -> BTreeSet<Key> {
            open.values().flat_map(|of_stream| of_stream.keys().cloned()).collect()
        };
        let before = kinds(&open);
        change(&mut open);
        open.retain(|_, of_stream| !of_stream.is_empty());
        let now = kinds(&open);
        for kind in before.union(&now).map(|(kind, _)| *kind).collect::<BTreeSet<_>>() {
            self.metrics.set_rejected(kind.short_name(), now.iter().filter(|(of, _)| *of == kind).count());
        }
        // Many clients reject the same: of each resource, the first message is told.
        let mut told = BTreeSet::new();
        let all = open.values().flatten().filter(|(key, _)| told.insert((*key).clone()));
        let problems: Problems = all.flat_map(|(_, rejection)| rejection.problems()).map(Arc::new).collect();
        // Under the lock, so that the last change is told last.
        self.problems.send_replace(problems);
    }
}

impl Rejection {
    fn problems(&self) -> impl Iterator<Item = Problem> {
        let Self { kind, name, objects, suspects, message, has_another } = self;
        let line = message.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
        let line: String = line.chars().filter(|c| !c.is_control()).take(MOST_CHARACTERS).collect();
        let others = match suspects.saturating_sub(1) {
            0 => String::new(),
            1 => " and of another object".to_owned(),
            others => format!(" and of {others} other objects"),
        };
        let consequence = match has_another {
            true => "the last version that it accepted stays in use",
            false => "it is left out",
        };
        objects.iter().map(move |object| Problem {
            object: object.clone(),
            field: String::new(),
            reason: Reason::XdsRejected,
            message: format!("an Envoy rejects the {kind} \"{name}\" that is made of it{others}: {line}"),
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
    fn a_rejection_is_a_problem_of_the_objects_until_the_last_client_has_recovered() {
        let (rejections, problems) = Rejections::new(Metrics::default());
        let said = || problems.borrow().iter().map(|problem| problem.to_string()).collect::<Vec<_>>();
        let object = ObjectRef::new("Service", "shop", "cart");
        rejections.rejected(1, &cluster("cart"), &[&object], &"\u{1b}bad\nand more".into(), false);
        rejections.rejected(2, &cluster("cart"), &[&object], &"bad".into(), true);
        let line = "Service shop/cart: an Envoy rejects the Cluster \"cart\" that is made of it: bad; it is left out";
        assert_eq!(said(), [line]);
        rejections.recovered(1, ResourceType::CLUSTER, &"cart".into());
        assert_eq!(said().len(), 1);
        rejections.closed(2);
        assert!(said().is_empty());
        let other = ObjectRef::new("Service", "shop", "other");
        rejections.rejected(1, &cluster("cart"), &[&object, &other], &"bad".into(), true);
        let line = "Service shop/other: an Envoy rejects the Cluster \"cart\" that is made of it and of another object: \
                    bad; the last version that it accepted stays in use";
        assert_eq!((said().len(), &*said()[1]), (2, line));
    }
}
