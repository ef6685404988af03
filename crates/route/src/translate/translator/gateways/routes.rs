//! The routes that are attached to Gateways.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Translator;
use crate::model::{Host, ListenerId};
use crate::objects::{ObjectId, ObjectKey};
use crate::translate::gateway::attach::{Attachment, ListenerOwner};
use crate::translate::gateway::budget::State;
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
            let owners = route.owners();
            owners.iter().for_each(|owner| self.set_state(route, owner, State::LeftOut, hosts, reported));
        }
        match now {
            Some(route) => drop(self.gateways.routes.insert(id.clone(), route)),
            None => drop(self.gateways.routes.remove(id)),
        }
    }

    /// Changes the state of a route on the listeners of `owner`. Open and closed routes are on their hosts, and open ones are
    /// attached.
    pub(super) fn set_state(
        &mut self,
        route: &Attached,
        owner: &ListenerOwner,
        now: State,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        reported: &mut BTreeSet<ObjectKey>,
    ) {
        let key = (route.precedence.id(), owner.clone());
        let before = match now {
            State::LeftOut => self.gateways.states.remove(&key),
            now => self.gateways.states.insert(key, now),
        };
        let before = before.unwrap_or(State::LeftOut);
        if before == now {
            return;
        }
        let is_open = |state: State| state == State::Open;
        for attachment in attachments(route, owner).filter(|_| is_open(before) != is_open(now)) {
            let name = &attachment.listener;
            reported.insert(name.gateway.clone());
            let count = self.gateways.attached.entry(name.clone()).or_default();
            *count = if is_open(now) { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.gateways.attached.remove(name);
            }
        }
        for place in places(attachments(route, owner)) {
            let routes = self.gateways.hosts.entry(place.clone()).or_default();
            match now {
                State::LeftOut => routes.remove(&route.precedence),
                State::Open | State::Closed => routes.insert(route.precedence.clone()),
            };
            if routes.is_empty() {
                self.gateways.hosts.remove(&place);
            }
            hosts.insert(place);
        }
    }

    /// Returns the places of a route where it is not left out.
    pub(super) fn served_places(&self, route: &Attached) -> BTreeSet<(ListenerId, Host)> {
        let is_served = |attachment: &&Attachment| {
            self.gateways.budget.state(&route.precedence, &attachment.listener.owner()) != State::LeftOut
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
