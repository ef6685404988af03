//! The routes that are attached to Gateways.

use std::collections::BTreeSet;

use crate::model::{Host, ListenerId};
use crate::translate::charges::State;
use crate::translate::gateway::attach::{Attachment, ListenerOwner};
use crate::translate::source::Source;
use crate::translate::translator::state::Translator;
use crate::translate::translator::state::sources::Affected;

impl Translator {
    /// Changes the state of a route on the listeners of `owner`. Open and closed routes are on their hosts, and open ones are
    /// attached. If a route is left out, the other routes of its namespace for its hosts are closed. `None`: the route is removed.
    pub(in super::super) fn set_state(
        &mut self,
        route: &Source,
        owner: &ListenerOwner,
        now: Option<State>,
        affected: &mut Affected,
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
        for attachment in route.attached.on(owner).filter(|_| was_open != is_open) {
            let name = &attachment.listener;
            affected.reported.insert(name.gateway.clone());
            let count = self.gateways.attached.entry(name.clone()).or_default();
            *count = if is_open { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                self.gateways.attached.remove(name);
            }
        }
        for place in places(route.attached.on(owner)) {
            let routes = self.gateways.hosts.entry(place.clone()).or_default();
            match now {
                None | Some(State::LeftOut) => routes.remove(&route.precedence),
                Some(State::Open | State::Closed) => routes.insert(route.precedence.clone()),
            };
            if routes.is_empty() {
                self.gateways.hosts.remove(&place);
            }
            affected.hosts.insert(place);
        }
        let [was_left_out, is_left_out] = [before, now].map(|state| state == Some(State::LeftOut));
        if was_left_out != is_left_out {
            self.close_beside(route, owner, is_left_out, &mut affected.hosts);
        }
    }

    /// Closes the other routes of the namespace for the hosts of a route that is left out on the listeners of `owner`, or opens them.
    /// Adds their places to `hosts`.
    fn close_beside(
        &mut self,
        route: &Source,
        owner: &ListenerOwner,
        is_left_out: bool,
        hosts: &mut BTreeSet<(ListenerId, Host)>,
    ) {
        let of_route: BTreeSet<&Host> = route.attached.on(owner).flat_map(|attachment| &attachment.hosts).collect();
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
    pub(super) fn served_places(&self, route: &Source) -> BTreeSet<(ListenerId, Host)> {
        let is_served = |attachment: &&Attachment| {
            self.gateways.budget.charges.state(&route.precedence.id(), &attachment.listener.owner()) != State::LeftOut
        };
        places(route.attached.attachments.iter().filter(is_served))
    }
}

/// Returns the places of attachments: hosts on Envoy listeners.
fn places<'a>(attachments: impl Iterator<Item = &'a Attachment>) -> BTreeSet<(ListenerId, Host)> {
    let bound = attachments.filter_map(|attachment| Some((attachment.bound.as_ref()?, &attachment.hosts)));
    bound.flat_map(|(id, hosts)| hosts.iter().map(move |host| (id.clone(), host.clone()))).collect()
}
