//! Resources that precede the listeners that use them. The client does not wait for them, because it already has their
//! parents.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::State;
use crate::protocol::push::Look;
use crate::protocol::subscription::{InFlight, Need};
use crate::snapshot::{Resource, ResourceType};

/// The listeners that wait for scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waiting {
    None,
    /// The listeners that the client does not have.
    New,
    All,
}

impl State {
    /// Sends the listeners, except for listeners that wait for scopes.
    pub(super) fn push_listeners(&mut self, now: Instant) {
        let kind = ResourceType::LISTENER;
        let waiting = self.listeners_waiting_for_scopes(now);
        self.push(kind, now, |stream, name| {
            let look = stream.before_the_gate(kind, name);
            let is_new = || stream.types.get(&kind).is_some_and(|listeners| !listeners.known(name).sent.exists());
            match look {
                Look::Send(_) | Look::ForNow(_) if waiting == Waiting::All => Look::Wait,
                Look::Send(_) | Look::ForNow(_) if waiting == Waiting::New && is_new() => Look::Wait,
                look => look,
            }
        });
    }

    /// Returns which listeners have to wait for scopes. All listeners of an Envoy share one subscription for scopes. A
    /// listener therefore does not wait for its scopes, and answers 404 until it has them.
    ///
    /// - A new scope with inline routes precedes the listeners. It waits only if the client has yet to answer an
    ///   earlier change of scopes, such as the removal of this scope, or if scopes are paced.
    /// - A scope by name takes effect when the client also has its route configuration. The client requests it before
    ///   it accepts the scope. Scopes of this form change with the listener itself, so only new listeners wait.
    ///
    /// Each wait is for responses in flight, so it ends with their timeout, or for the end of a pause.
    fn listeners_waiting_for_scopes(&self, now: Instant) -> Waiting {
        let kind = ResourceType::SCOPED_ROUTES;
        let listeners = self.types.get(&ResourceType::LISTENER).filter(|listeners| !listeners.dirty.is_empty());
        let scopes = self.types.get(&kind).filter(|scopes| self.aggregated && !scopes.fresh);
        let (Some(listeners), Some(scopes)) = (listeners, scopes) else { return Waiting::None };
        let by_name = |scope: &Resource| !scope.references().routes.is_empty();
        let due = scopes.dirty.keys().filter(|name| !scopes.known(name).sent.exists());
        let due = due.filter_map(|name| match self.before_the_gate(kind, name) {
            Look::Send(scope) | Look::ForNow(scope) => Some(scope),
            Look::Nothing | Look::Wait | Look::Keep => None,
        });
        let (mut has_inline, mut has_named, mut is_paced) = (false, false, false);
        for scope in due {
            match by_name(&scope) {
                true => has_named = true,
                false => (has_inline, is_paced) = (true, is_paced || scopes.pace.delays(scope.name(), now)),
            }
        }
        if is_paced || has_inline && !scopes.in_flight.is_empty() {
            return Waiting::All;
        }
        if listeners.dirty.keys().all(|name| listeners.known(name).sent.exists()) {
            return Waiting::None;
        }
        let routes = self.types.get(&ResourceType::ROUTES);
        let accepted = |name: &str| routes.is_some_and(|routes| routes.known(name).accepted.exists());
        let lacks_routes = |scope: &Arc<Resource>| scope.references().routes.iter().any(|name| !accepted(name));
        if has_named || scopes.in_flight.iter().flat_map(InFlight::resources).any(lacks_routes) {
            return Waiting::New;
        }
        let under_way = routes.into_iter().flat_map(|routes| &routes.in_flight).flat_map(InFlight::resources);
        let new: HashSet<&str> = under_way.map(|routes| &**routes.name()).filter(|name| !accepted(name)).collect();
        let of_scope = |scope: &Arc<Resource>| scope.references().routes.iter().any(|name| new.contains(&**name));
        match !new.is_empty() && self.newest.all(kind).any(of_scope) {
            true => Waiting::New,
            false => Waiting::None,
        }
    }

    /// Sends scopes with inline routes ahead of the listeners. Otherwise, a listener would answer the first requests for a
    /// new server name with 404. Removed scopes follow the listeners, which accept connections for their names until then.
    pub(super) fn push_scopes_ahead(&mut self, now: Instant) {
        let kind = ResourceType::SCOPED_ROUTES;
        let listeners = self.types.get(&ResourceType::LISTENER);
        let follow = self.aggregated && listeners.is_some_and(|listeners| !listeners.dirty.is_empty());
        // A first or owed response is complete, and keeps its position.
        if !follow || self.types.get(&kind).is_none_or(|scopes| scopes.fresh || scopes.answer_owed) {
            return;
        }
        self.push(kind, now, |stream, name| match stream.before_the_gate(kind, name) {
            Look::Send(scope) | Look::ForNow(scope)
                if !scope.references().routes.is_empty() || !scope.follows().is_empty() =>
            {
                Look::Wait
            }
            Look::Nothing => Look::Wait,
            look => look,
        });
    }

    /// Sends the virtual hosts of a new listener ahead of it, if the client still has their route configuration: Envoy keeps it
    /// while connections of an earlier listener are drained. The new listener does not wait for virtual hosts then, and would
    /// answer the first requests with 404.
    pub(super) fn push_hosts_ahead(&mut self, now: Instant) {
        let kind = ResourceType::VIRTUAL_HOST;
        let (Some(listeners), Some(routes)) =
            (self.types.get(&ResourceType::LISTENER), self.types.get(&ResourceType::ROUTES))
        else {
            return;
        };
        if !self.aggregated || self.types.get(&kind).is_none_or(|hosts| hosts.fresh || hosts.answer_owed) {
            return;
        }
        let new = listeners.dirty.keys().filter(|name| !listeners.known(name).sent.exists());
        let new = new.filter_map(|name| match self.before_the_gate(ResourceType::LISTENER, name) {
            Look::Send(listener) | Look::ForNow(listener) => Some(listener),
            Look::Nothing | Look::Wait | Look::Keep => None,
        });
        let of_new: Vec<Arc<str>> = new.flat_map(|listener| listener.references().routes.to_vec()).collect();
        let kept: Vec<Arc<str>> = of_new.into_iter().filter(|name| routes.named(name)).collect();
        if kept.is_empty() {
            return;
        }
        let is_kept =
            |name: &str| name.rsplit_once('/').is_some_and(|(routes, _)| kept.iter().any(|kept| **kept == *routes));
        // The removal of these virtual hosts may still be in flight. The listener does not wait for its ACK, so the
        // virtual hosts do not wait either.
        let Some(hosts) = self.types.get(&kind) else { return };
        let lacks = |name: &&Arc<str>| match self.before_the_gate(kind, name) {
            Look::Send(host) | Look::ForNow(host) => hosts.known(name).sent != host,
            Look::Nothing | Look::Wait | Look::Keep => false,
        };
        let due: Vec<Arc<str>> = hosts.dirty.keys().filter(|name| is_kept(name)).filter(lacks).cloned().collect();
        if let Some(hosts) = self.types.get_mut(&kind) {
            due.iter().for_each(|name| hosts.touch(name, Need::Asked));
        }
        self.push(kind, now, |stream, name| match stream.before_the_gate(kind, name) {
            Look::Nothing => Look::Wait,
            look if is_kept(name) => look,
            _ => Look::Wait,
        });
    }
}
