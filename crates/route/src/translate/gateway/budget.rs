//! The routes beyond the limit of their namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::attach::ListenerOwner;
use crate::model::Host;
use crate::objects::{ObjectId, Precedence};
use crate::translate::charges::{Charges, State};

/// The sizes of all routes, and the hosts whose routes are closed with a route that is left out.
#[derive(Debug, Default)]
pub struct Budget {
    /// The sizes of routes on the listeners of each owner, which multiply them.
    pub charges: Charges<ObjectId, ListenerOwner>,
    /// The number of routes that are left out, by the owner of the listeners, the namespace of the routes, and their host.
    left_out: BTreeMap<(ListenerOwner, Arc<str>, Host), u32>,
}

impl Budget {
    /// Returns whether a route is closed on a host of the listeners of `owner`: it is beyond the limit, or another route of its
    /// namespace is left out, whose requests it would receive.
    pub fn is_closed(&self, route: &Precedence, owner: &ListenerOwner, host: &Host) -> bool {
        self.charges.state(&route.id(), owner) != State::Open || self.is_closed_beside(route, owner, host)
    }

    /// Returns whether another route of the namespace is left out on a host of the listeners of `owner`.
    pub fn is_closed_beside(&self, route: &Precedence, owner: &ListenerOwner, host: &Host) -> bool {
        let key = || (owner.clone(), route.key.namespace.clone(), host.clone());
        !self.left_out.is_empty() && self.left_out.contains_key(&key())
    }

    /// Records that a route is, or is no longer, left out on a host of the listeners of `owner`. Returns whether other routes of its
    /// namespace are now closed or opened there.
    pub fn leave_out(&mut self, is_left_out: bool, namespace: &Arc<str>, owner: &ListenerOwner, host: &Host) -> bool {
        let key = (owner.clone(), namespace.clone(), host.clone());
        let count = self.left_out.entry(key.clone()).or_default();
        *count = if is_left_out { *count + 1 } else { count.saturating_sub(1) };
        let is_first = *count == u32::from(is_left_out);
        if *count == 0 {
            self.left_out.remove(&key);
        }
        is_first
    }
}
