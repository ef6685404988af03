//! The views with complete route configurations.
//!
//! Building these costs as much as all hosts, however small the change is, so it is paced. In the meantime, all other resources
//! are published. Only resources that outdated routes may still reference stay.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_xds::snapshot::{Changes, Key, ResourceType, Update};

use super::class::View;
use super::pace::Pace;
use super::publication::{Publication, SharedUpdate};

/// The types of resources that routes reference.
const REFERENCED: [ResourceType; 2] = [ResourceType::CLUSTER, ResourceType::ENDPOINTS];

/// The state that the views of a fleet with complete route configurations share.
#[derive(Debug, Default)]
pub struct WholeViews {
    /// When the route configurations are built again.
    pub pace: Pace,
    /// Removed resources that these views keep until the route configurations are built.
    pub retained: BTreeSet<Key>,
}

impl WholeViews {
    /// Publishes the `shared` changes of all Envoys, and the `routes` if they were built. Returns the changes of the `primary`
    /// view, or `logged` if it is not among `views`.
    pub fn publish(
        &mut self,
        (views, primary): (&[View], View),
        shared: &SharedUpdate,
        routes: &SharedUpdate,
        to: &Publication<'_>,
        mut logged: Arc<Changes>,
    ) -> Arc<Changes> {
        let is_complete = !self.pace.stale;
        self.retained.extend(routes.remove.iter().cloned());
        for resource in shared.set.iter().chain(&routes.set) {
            self.retained.remove(&resource.key());
        }
        if !is_complete {
            self.retained.extend(shared.remove.iter().filter(|(kind, _)| REFERENCED.contains(kind)).cloned());
        }
        for view in views {
            let newest = to.newest(*view);
            let set = match to.newest(primary).filter(|_| newest.is_none()) {
                // A new view begins with the resources of the primary view.
                Some(primary) => {
                    let kinds = primary.kinds().filter(|kind| *kind != ResourceType::VIRTUAL_HOST);
                    kinds.flat_map(|kind| primary.all(kind)).chain(&routes.set).cloned().collect()
                }
                None => shared.set.iter().chain(&routes.set).cloned().collect(),
            };
            let mut remove = shared.remove.clone();
            if is_complete {
                remove.extend(self.retained.iter().cloned());
                // Left over from the time when the settings asked for a resource for each virtual host.
                let hosts = newest.iter().flat_map(|newest| newest.all(ResourceType::VIRTUAL_HOST));
                remove.extend(hosts.map(|host| host.key()));
            } else {
                remove.retain(|key| !self.retained.contains(key));
            }
            let changes = to.publish(*view, Update { set, remove }, is_complete, &logged);
            if *view == primary {
                logged = changes;
            }
        }
        if is_complete {
            self.retained.clear();
        }
        logged
    }
}
