//! The routes that are attached to Gateways.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Translator;
use crate::model::{Host, ListenerId};
use crate::objects::{ObjectId, ObjectKey};
use crate::translate::gateway::attach::{Attachment, ListenerOwner};
use crate::translate::gateway::parser::Attached;
use crate::translate::source::Dependencies;
use crate::translate::verdict;

impl Translator {
    /// Replaces a route, and removes it from its hosts and from the number of attached routes; the budget adds it again. Adds the
    /// hosts to `hosts`, and the Gateways whose number of routes changes to `reported`. Adds the Services for which the set of
    /// Gateways changes to `services`.
    pub(super) fn replace_route(
        &mut self,
        id: &ObjectId,
        now: Result<Attached, Dependencies>,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        reported: &mut BTreeSet<ObjectKey>,
        services: &mut BTreeSet<ObjectKey>,
    ) {
        let reads = now.as_ref().map_or_else(|reads| reads, |route| &route.dependencies);
        self.replace_inputs(id, &reads.inputs);
        let now = now.ok().map(Arc::new);
        let before = self.gateways.routes.get(id).cloned();
        if before == now {
            return;
        }
        self.recount_routes(before.as_deref(), now.as_deref(), services);
        let clusters = |route: &Option<Arc<Attached>>| {
            route.as_ref().map(|route| route.dependencies.clusters.clone()).unwrap_or_default()
        };
        self.clusters.read(&clusters(&before), &clusters(&now));
        let problems =
            |route: &Option<Arc<Attached>>| route.as_ref().map(|route| route.problems.clone()).unwrap_or_default();
        self.ledger.replace(&problems(&before), &problems(&now));
        match &now {
            Some(route) => drop(self.verdicts.insert(id.clone(), verdict::bounded(&route.verdicts))),
            None => drop(self.verdicts.remove(id)),
        }
        self.conflicts.verdicts_changed(id);
        if let Some(route) = &before {
            route.owners().iter().for_each(|owner| self.withdraw_route(route, owner, hosts, reported));
        }
        match now {
            Some(route) => drop(self.gateways.routes.insert(id.clone(), route)),
            None => drop(self.gateways.routes.remove(id)),
        }
    }

    /// Adds a route to its hosts on the listeners of `owner`, and to the number of attached routes of these listeners, if it is
    /// not there.
    pub(super) fn serve_route(
        &mut self,
        route: &Attached,
        owner: &ListenerOwner,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        reported: &mut BTreeSet<ObjectKey>,
    ) {
        if !self.gateways.served.insert((route.precedence.id(), owner.clone())) {
            return;
        }
        for attachment in attachments(route, owner) {
            reported.insert(attachment.listener.gateway.clone());
            *self.gateways.attached.entry(attachment.listener.clone()).or_default() += 1;
        }
        for place in places(attachments(route, owner)) {
            self.gateways.hosts.entry(place.clone()).or_default().insert(route.precedence.clone());
            hosts.insert(place);
        }
    }

    /// Removes a route from its hosts on the listeners of `owner`, and from the number of attached routes of these listeners, if it
    /// is there.
    pub(super) fn withdraw_route(
        &mut self,
        route: &Attached,
        owner: &ListenerOwner,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        reported: &mut BTreeSet<ObjectKey>,
    ) {
        if !self.gateways.served.remove(&(route.precedence.id(), owner.clone())) {
            return;
        }
        for attachment in attachments(route, owner) {
            let name = &attachment.listener;
            reported.insert(name.gateway.clone());
            if let Some(count) = self.gateways.attached.get_mut(name) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    self.gateways.attached.remove(name);
                }
            }
        }
        for place in places(attachments(route, owner)) {
            if let Some(routes) = self.gateways.hosts.get_mut(&place) {
                routes.remove(&route.precedence);
                if routes.is_empty() {
                    self.gateways.hosts.remove(&place);
                }
            }
            hosts.insert(place);
        }
    }

    /// Returns the places of a route where it is not left out.
    pub(super) fn served_places(&self, route: &Attached) -> BTreeSet<(ListenerId, Host)> {
        let is_served = |attachment: &&Attachment| {
            self.gateways.budget.left_out(&route.precedence, &attachment.listener.owner()).is_none()
        };
        places(route.attachments.iter().filter(is_served))
    }
}

/// Returns the attachments of a route to the listeners of `owner`.
fn attachments<'a>(route: &'a Attached, owner: &'a ListenerOwner) -> impl Iterator<Item = &'a Attachment> {
    route.attachments.iter().filter(|attachment| attachment.listener.is_of(owner))
}

/// Returns the places of attachments: hosts on Envoy listeners.
fn places<'a>(attachments: impl Iterator<Item = &'a Attachment>) -> BTreeSet<(ListenerId, Host)> {
    let bound = attachments.filter_map(|attachment| Some((attachment.bound.as_ref()?, &attachment.hosts)));
    bound.flat_map(|(id, hosts)| hosts.iter().map(move |host| (id.clone(), host.clone()))).collect()
}
