//! The kinds whose CustomResourceDefinitions are installed, according to the watch of these definitions.
//!
//! Many clusters lack optional kinds. A watch of an absent kind waits for its definition, instead of requesting the kind
//! again and again.

use std::collections::BTreeSet;

use lockgate_route::objects::{Kind, ObjectKey};
use tokio::sync::watch;

use super::watch::Arrival;

/// The kinds with a definition. All clones share them.
#[derive(Clone, Default)]
pub struct Installed {
    /// The kinds of a list that is not complete yet.
    list: BTreeSet<Kind>,
    /// `None` before the first complete list.
    kinds: watch::Sender<Option<BTreeSet<Kind>>>,
}

impl Installed {
    /// Records a report of the watch of definitions.
    pub fn record(&mut self, arrival: &Arrival) {
        let kind = |key: &ObjectKey| Kind::of_resource(&key.name);
        match arrival {
            Arrival::ListStarted => self.list.clear(),
            Arrival::ListItem(key, _) => self.list.extend(kind(key)),
            Arrival::ListEnded => drop(self.kinds.send_replace(Some(std::mem::take(&mut self.list)))),
            Arrival::Applied(key, _) => self.edit(|kinds| kinds.extend(kind(key))),
            Arrival::Deleted(key) => self.edit(|kinds| kinds.retain(|other| Some(*other) != kind(key))),
            Arrival::Alive => {}
        }
    }

    fn edit(&self, edit: impl FnOnce(&mut BTreeSet<Kind>)) {
        self.kinds.send_modify(|kinds| edit(kinds.get_or_insert_default()));
    }

    /// Returns whether the definition of a kind is known to be absent.
    pub fn lacks(&self, kind: Kind) -> bool {
        self.kinds.borrow().as_ref().is_some_and(|kinds| !kinds.contains(&kind))
    }

    /// Waits until a kind has a definition.
    pub async fn has(&self, kind: Kind) {
        let has = |kinds: &Option<BTreeSet<Kind>>| kinds.as_ref().is_some_and(|kinds| kinds.contains(&kind));
        // The channel stays open, because `self` has a sender.
        let _ = self.kinds.subscribe().wait_for(has).await;
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn a_kind_is_installed_while_it_has_a_definition() {
        let mut definitions = Installed::default();
        let installed = definitions.clone();
        let [routes, gateways] = [Kind::HTTP_ROUTE, Kind::GATEWAY].map(|kind| ObjectKey::new("", &kind.resource()));
        assert!(!installed.lacks(Kind::HTTP_ROUTE), "nothing is known before the first list");
        for arrival in [Arrival::ListStarted, Arrival::ListItem(routes, None)] {
            definitions.record(&arrival);
            assert!(!installed.lacks(Kind::GATEWAY), "the list is not complete");
        }
        definitions.record(&Arrival::ListEnded);
        assert!(!installed.lacks(Kind::HTTP_ROUTE) && installed.lacks(Kind::GATEWAY));
        assert!(installed.has(Kind::HTTP_ROUTE).now_or_never().is_some());
        assert!(installed.has(Kind::GATEWAY).now_or_never().is_none());
        definitions.record(&Arrival::Applied(gateways.clone(), None));
        assert!(installed.has(Kind::GATEWAY).now_or_never().is_some());
        definitions.record(&Arrival::Deleted(gateways));
        assert!(installed.lacks(Kind::GATEWAY) && !installed.lacks(Kind::HTTP_ROUTE));
        definitions.record(&Arrival::ListStarted);
        definitions.record(&Arrival::ListEnded);
        assert!(installed.lacks(Kind::HTTP_ROUTE), "a new list replaces the kinds");
    }
}
