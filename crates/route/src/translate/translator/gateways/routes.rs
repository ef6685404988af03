//! The routes that are attached to Gateways.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Translator;
use crate::model::{Host, ListenerId};
use crate::objects::{ObjectId, ObjectKey};
use crate::translate::charges::State;
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
            let owners = route.owners();
            owners.iter().for_each(|owner| self.set_state(route, owner, None, hosts, reported));
        }
        match now {
            Some(route) => drop(self.gateways.routes.insert(id.clone(), route)),
            None => drop(self.gateways.routes.remove(id)),
        }
    }

    /// Changes the state of a route on the listeners of `owner`. Open and closed routes are on their hosts, and open ones are
    /// attached. If a route is left out, the other routes of its namespace for its hosts are closed. `None`: the route is removed.
    pub(super) fn set_state(
        &mut self,
        route: &Attached,
        owner: &ListenerOwner,
        now: Option<State>,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
        reported: &mut BTreeSet<ObjectKey>,
    ) {
        let key = (route.precedence.id(), owner.clone());
        let before = match now {
            None => self.gateways.states.remove(&key),
            Some(now) => self.gateways.states.insert(key, now),
        };
        if before == now {
            return;
        }
        let [was_open, is_open] = [before, now].map(|state| state == Some(State::Open));
        for attachment in attachments(route, owner).filter(|_| was_open != is_open) {
            let name = &attachment.listener;
            reported.insert(name.gateway.clone());
            let count = self.gateways.attached.entry(name.clone()).or_default();
            *count = if is_open { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.gateways.attached.remove(name);
            }
        }
        for place in places(attachments(route, owner)) {
            let routes = self.gateways.hosts.entry(place.clone()).or_default();
            match now {
                None | Some(State::LeftOut) => routes.remove(&route.precedence),
                Some(State::Open | State::Closed) => routes.insert(route.precedence.clone()),
            };
            if routes.is_empty() {
                self.gateways.hosts.remove(&place);
            }
            hosts.insert(place);
        }
        let [was_left_out, is_left_out] = [before, now].map(|state| state == Some(State::LeftOut));
        if was_left_out != is_left_out {
            self.close_beside(route, owner, is_left_out, hosts);
        }
    }

    /// Closes the other routes of the namespace for the hosts of a route that is left out on the listeners of `owner`, or opens them.
    /// Adds their places to `hosts`.
    fn close_beside(
        &mut self,
        route: &Attached,
        owner: &ListenerOwner,
        is_left_out: bool,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
    ) {
        let of_route: BTreeSet<&Host> = attachments(route, owner).flat_map(|attachment| &attachment.hosts).collect();
        let namespace = &route.precedence.key.namespace;
        for host in of_route {
            if self.gateways.budget.leave_out(is_left_out, namespace, owner, host) {
                let listeners = self.gateways.owners.iter().filter(|(_, gateway)| gateway.namespace == owner.gateway);
                let places = listeners.map(|(id, _)| (id.clone(), host.clone()));
                hosts.extend(places.filter(|place| self.gateways.hosts.contains_key(place)));
            }
        }
    }

    /// Returns the places of a route where it is not left out.
    pub(super) fn served_places(&self, route: &Attached) -> BTreeSet<(ListenerId, Host)> {
        let is_served = |attachment: &&Attachment| {
            self.gateways.budget.charges.state(&route.precedence.id(), &attachment.listener.owner()) != State::LeftOut
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
