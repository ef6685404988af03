//! The versioned store. One writer publishes, and any number of streams follow.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::watch;

use super::content::{Changes, Snapshot, Update};
use super::watchers::Watchers;
use super::{Key, Resource};

/// The store: holds the newest snapshot and notifies the streams. Nothing is served before the first publication.
#[derive(Debug)]
pub struct Store {
    newest: watch::Sender<Option<Arc<Snapshot>>>,
    pub(super) watchers: Arc<Watchers>,
}

impl Default for Store {
    fn default() -> Self {
        Self { newest: watch::Sender::new(None), watchers: Arc::default() }
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.watchers.close();
    }
}

impl Store {
    /// Subscribes to the newest snapshot. It is `None` until the first publication.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Snapshot>>> {
        self.newest.subscribe()
    }

    /// Returns the number of subscribers: streams, held polls, and others.
    pub fn followers(&self) -> usize {
        self.newest.receiver_count()
    }

    /// Returns the newest snapshot.
    pub fn newest(&self) -> Option<Arc<Snapshot>> {
        self.newest.borrow().clone()
    }

    /// Publishes `resources` as the complete content. Streams are notified only of real differences.
    pub fn replace<R: Into<Arc<Resource>>>(&self, resources: Vec<R>) -> Arc<Changes> {
        self.replace_announced(resources, |_| ())
    }

    /// Replaces the content, and calls `announce` with the changes before any stream is notified.
    pub fn replace_announced<R: Into<Arc<Resource>>>(
        &self,
        resources: Vec<R>,
        announce: impl FnOnce(&Changes),
    ) -> Arc<Changes> {
        self.update_announced(self.difference_to(resources), announce)
    }

    /// Returns the update that makes `resources` the complete content. It may set resources that did not change.
    pub fn difference_to<R: Into<Arc<Resource>>>(&self, resources: Vec<R>) -> Update<Arc<Resource>> {
        let current = self.newest().unwrap_or_default();
        let mut update = Update::setting(resources.into_iter().map(Into::into).collect::<Vec<Arc<Resource>>>());
        let kept: HashSet<Key> = update.set.iter().map(|resource| resource.key()).collect();
        for kind in current.kinds() {
            let gone = current.all(kind).map(|resource| (kind, resource.name().clone()));
            update.remove.extend(gone.filter(|key| !kept.contains(key)));
        }
        update
    }

    /// Publishes a difference. The cost depends on the size of the difference.
    pub fn update<R: Into<Arc<Resource>>>(&self, update: Update<R>) -> Arc<Changes> {
        self.update_announced(update, |_| ())
    }

    /// Publishes a difference, and calls `announce` with the changes before any stream is notified.
    pub fn update_announced<R: Into<Arc<Resource>>>(
        &self,
        update: Update<R>,
        announce: impl FnOnce(&Changes),
    ) -> Arc<Changes> {
        self.apply(update, None, announce)
    }

    /// Publishes a difference in one of several stores that are published together. `generation` is the number of the
    /// publication. The snapshot gets the number even if this store does not change. In that case no stream is notified.
    pub fn publish(
        &self,
        update: Update<Arc<Resource>>,
        generation: u64,
        announce: impl FnOnce(&Changes),
    ) -> Arc<Changes> {
        self.apply(update, Some(generation), announce)
    }

    fn apply<R: Into<Arc<Resource>>>(
        &self,
        update: Update<R>,
        generation: Option<u64>,
        announce: impl FnOnce(&Changes),
    ) -> Arc<Changes> {
        let previous = self.newest();
        let mut next = previous.as_deref().cloned().unwrap_or_default();
        let mut changes = Changes { generation: generation.unwrap_or(next.serial + 1), ..Changes::default() };
        next.remove(&update.remove, &mut changes);
        next.suspects.forget(&changes.removed);
        update.set.into_iter().for_each(|resource| next.set(resource.into(), &mut changes));
        next.generation = generation.unwrap_or(next.generation);
        if changes.is_empty() && previous.is_some() {
            // Origins, parts, or the generation may be newer. They are stored without notifying streams.
            self.newest.send_if_modified(|newest| {
                *newest = Some(Arc::new(next));
                false
            });
            return Arc::new(changes);
        }
        let changes = Arc::new(changes);
        (next.serial, next.generation) = (next.serial + 1, changes.generation);
        // Before the first publication, a stream has no resources, so it needs no list of changes.
        if previous.is_some() {
            next.record(&changes);
        }
        announce(&changes);
        let serial = next.serial;
        self.newest.send_replace(Some(Arc::new(next)));
        self.watchers.wake(&changes, serial);
        changes
    }
}
