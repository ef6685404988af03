//! The policies of units, and the limit of their size. This is the only place that applies policies to routes, for all dialects.
//!
//! A unit has the policies of its rule, its object, and its namespace, and those of its listener if it is a listener of a Gateway. A
//! unit never has a policy of another object, although several objects can define a host. A unit of an included object also has the
//! policies of its includer, behind its own.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::Host;
use crate::objects::{Kind, ObjectId, ObjectKey, Precedence};

use super::charges::{Charges, State};
use super::gateway::attach::{ListenerName, ListenerOwner};
use super::gateway::budget::Budget;
use super::gateway::http_policies::HttpPolicies;
use super::gateway::http_policy::{Features, Layers, over};
use super::plain_text::{VirtualHostPort, is_challenge, push_on_side};
use super::problem::{Problem, Reason};
use super::unit::Unit;
use crate::model::Route;

/// The sizes of the policies of each object on the listeners that all objects share.
pub type PolicySizes = Charges<ObjectId, ()>;

/// The policies of the units on one listener, or on all listeners that objects share.
#[derive(Debug)]
pub struct Scope<'a> {
    policies: &'a HttpPolicies,
    limits: Limits<'a>,
    /// The features of the listener. Features that the listener does not set come from its Gateway.
    of_listener: Option<Layers>,
}

/// The objects beyond the limit of their namespace.
#[derive(Debug)]
enum Limits<'a> {
    /// On the listeners that all objects share.
    Shared(&'a PolicySizes),
    /// On the listeners of an owner.
    Attached(&'a Budget, ListenerOwner),
}

impl<'a> Scope<'a> {
    /// Returns the policies on the listeners that all objects share.
    pub fn shared(policies: &'a HttpPolicies, sizes: &'a PolicySizes) -> Self {
        Self { policies, limits: Limits::Shared(sizes), of_listener: None }
    }

    /// Returns the policies on a listener of a Gateway. A listener of a ListenerSet inherits the policies of its Gateway.
    pub fn attached(policies: &'a HttpPolicies, budget: &'a Budget, listener: &ListenerName) -> Self {
        let section = listener.set.is_none().then_some(&listener.name);
        let of_listener = match policies.is_empty() {
            true => None,
            false => policies.of(&Kind::GATEWAY.id(listener.gateway.clone()), section),
        };
        Self { policies, limits: Limits::Attached(budget, listener.owner()), of_listener }
    }

    /// Returns whether an object is closed on a host, because of the limit of its namespace.
    pub fn is_closed(&self, object: &Precedence, host: &Host) -> bool {
        match &self.limits {
            Limits::Shared(sizes) => sizes.state(&object.id(), &()) != State::Open,
            Limits::Attached(budget, owner) => budget.is_closed(object, owner, host),
        }
    }

    /// Returns whether an object is closed on a host, because another object of its namespace is left out there.
    pub fn is_closed_beside(&self, object: &Precedence, host: &Host) -> bool {
        match &self.limits {
            Limits::Shared(_) => false,
            Limits::Attached(budget, owner) => budget.is_closed_beside(object, owner, host),
        }
    }

    /// Returns the features of a rule of an object.
    pub fn features(&self, object: &Precedence, rule: Option<&Arc<str>>) -> Option<Features> {
        self.effective(self.of_source(object, rule))
    }

    /// Returns the layers of a rule of an object that `declaring` declares: the object itself, or an object that it includes.
    fn declared_by(&self, declaring: &ObjectRef, object: &Precedence, rule: Option<&Arc<str>>) -> Option<Layers> {
        let is_own = declaring.namespace == object.key.namespace && declaring.name == object.key.name;
        if is_own || self.policies.is_empty() {
            return self.of_source(object, rule);
        }
        let key = ObjectKey { namespace: declaring.namespace.clone(), name: declaring.name.clone() };
        let own = self.policies.of_source(&object.kind.id(key), rule);
        over(own.as_ref(), self.of_source(object, rule).as_ref())
    }

    fn of_source(&self, object: &Precedence, rule: Option<&Arc<str>>) -> Option<Layers> {
        if self.policies.is_empty() { None } else { self.policies.of_source(&object.id(), rule) }
    }

    fn effective(&self, of_object: Option<Layers>) -> Option<Features> {
        over(of_object.as_ref(), self.of_listener.as_ref()).as_ref().map(Layers::effective)
    }

    /// Returns the features of a unit of an object.
    ///
    /// An ACME authority requests a challenge without a token, from any address. On the listeners that all objects share, the path of
    /// a challenge therefore has no policy, as it has no redirect to HTTPS. Only a path below `/.well-known/acme-challenge` is one.
    pub fn features_of(&self, object: &Precedence, unit: &Unit) -> Option<Features> {
        match self.limits {
            Limits::Shared(_) if is_challenge(unit.path()) => unit.own.as_deref().cloned(),
            Limits::Shared(_) | Limits::Attached(..) => self.features_without_challenges(object, unit),
        }
    }

    /// Returns the features of a unit of an object as if its path were no challenge. Those that its object itself sets precede those of
    /// policies, except for overrides.
    pub fn features_without_challenges(&self, object: &Precedence, unit: &Unit) -> Option<Features> {
        let of_policies = self.declared_by(&unit.route.origin, object, unit.rule.as_ref());
        self.effective(match &unit.own {
            None => of_policies,
            Some(own) => {
                let own = Layers { features: Features::clone(own), overrides: Features::default() };
                over(Some(&own), of_policies.as_ref())
            }
        })
    }

    /// Returns the problem of a unit whose policies cannot be enforced together. The status of a policy does not tell it.
    pub fn problem(&self, object: &Precedence, unit: &Unit, host: &Host) -> Option<Problem> {
        if self.policies.is_empty() && unit.own.is_none() || self.is_closed(object, host) {
            return None;
        }
        let (message, consequence) = self.features_of(object, unit)?.excess(&unit.route)?;
        Some(Problem {
            object: unit.route.origin.clone(),
            field: unit.field.to_string(),
            reason: Reason::PolicyNotValid,
            message: format!("all policies together: {message}").into(),
            consequence: consequence.to_owned(),
        })
    }

    /// Appends the routes of a unit of an object for a host. The redirect to HTTPS has no policy. If a feature of the policies cannot be
    /// enforced, all requests are answered 403, also in plain text.
    pub fn push(
        &self,
        object: &Precedence,
        unit: &Unit,
        host: &Host,
        side: VirtualHostPort,
        routes: &mut Vec<Arc<Route>>,
    ) {
        if self.is_closed(object, host) {
            return routes.push(Arc::new(unit.closed()));
        }
        let Some(features) = self.features_of(object, unit) else {
            return unit.routes().for_each(|route| push_on_side(route, unit.plain_text, side, routes));
        };
        let features = match self.limits {
            // The hosts of an object can have limits of their own for equal paths.
            Limits::Shared(_) => features.counted_for(unit.rule.as_ref()),
            Limits::Attached(..) => features,
        };
        for route in unit.routes() {
            match features.apply(route) {
                Ok(limited) => push_on_side(&Arc::new(limited), unit.plain_text, side, routes),
                Err(closed) => push_on_side(&Arc::new(closed), unit.plain_text.without_redirect(), side, routes),
            }
        }
    }
}
