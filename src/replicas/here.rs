//! What the Envoys of this replica have accepted.

use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::watch;

use super::{Reached, Wanted};
use crate::inspection::{Inspection, Published};
use crate::snapshot::{Snapshot, Store};
use crate::source::objects::{Kind, ObjectKey};
use crate::xds::{Acceptance, Node, Registry};

/// What the Envoys of this replica have accepted.
#[derive(Debug, Clone)]
pub struct Here {
    registry: Arc<Registry>,
    store: Arc<Store>,
    inspected: watch::Receiver<Arc<Inspection>>,
}

impl Here {
    /// The streams of `registry` that are served from `store`, with what `inspected` tells of the objects in it.
    pub fn new(registry: Arc<Registry>, store: Arc<Store>, inspected: watch::Receiver<Arc<Inspection>>) -> Self {
        Self { registry, store, inspected }
    }

    /// How far the Envoys are with each of `wanted`. One that this replica does not know yet nobody has.
    pub fn reached(&self, wanted: &[Wanted]) -> Reached {
        let inspection = self.inspected.borrow().clone();
        let Some(newest) = self.store.newest() else { return Reached::nobody(wanted.len()) };
        let mut by_publication = BTreeMap::<u64, Acceptance>::new();
        let mut at = |since: u64| {
            let ask = || self.registry.acceptance(&newest, since, Node::is_envoy);
            by_publication.entry(since).or_insert_with(ask).clone()
        };
        let envoys = at(0).clients;
        let accepted = |wanted: &Wanted| {
            let key = ObjectKey::new(&wanted.namespace, &wanted.name);
            let known = inspection.ingresses.get(&key).filter(|known| is(known, wanted));
            known.map_or(0, |known| accepted(&at(known.since), &newest, &key))
        };
        Reached { envoys, accepted: wanted.iter().map(accepted).collect() }
    }

    /// Tells when [`Here::reached`] may have another answer; to be made before the first look, and dropped after the last.
    pub fn news(&self) -> News {
        News { progress: self.registry.progress(), inspected: self.inspected.clone() }
    }
}

/// Whether what is known is what is wanted, or later.
fn is(known: &Published, wanted: &Wanted) -> bool {
    *known.uid == *wanted.uid && known.generation >= wanted.generation
}

/// How many have accepted the publication, less those that rejected a resource in which the Ingress is.
fn accepted(acceptance: &Acceptance, newest: &Snapshot, ingress: &ObjectKey) -> usize {
    let is_in = |(kind, name): &(_, Arc<str>)| {
        newest.get(*kind, name).is_some_and(|resource| {
            let mut origins = resource.origins().iter().filter(|origin| origin.kind == Kind::Ingress.as_str());
            origins.any(|origin| origin.namespace == ingress.namespace && origin.name == ingress.name)
        })
    };
    let rejected = acceptance.rejected.iter().filter(|(key, _)| is_in(key)).map(|(_, clients)| *clients).max();
    acceptance.accepted.saturating_sub(rejected.unwrap_or(0))
}

/// News of this replica.
#[derive(Debug)]
pub struct News {
    progress: watch::Receiver<()>,
    inspected: watch::Receiver<Arc<Inspection>>,
}

impl News {
    /// Waits for the next news; for ever, if there can be none.
    pub async fn next(&mut self) {
        let changed = tokio::select! {
            changed = self.progress.changed() => changed,
            changed = self.inspected.changed() => changed,
        };
        if changed.is_err() {
            std::future::pending().await
        }
    }
}
