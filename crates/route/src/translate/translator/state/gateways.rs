//! The Gateways, their listeners, and the policies of Gateway API.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::few::Few;
use crate::model::{Host, ListenerId};
use crate::objects::{Kind, ObjectId, ObjectKey, Objects, Precedence, Revision};
use crate::translate::charges::{Charges, State};
use crate::translate::dialect::Parents;
use crate::translate::gateway::Reports;
use crate::translate::gateway::attach::{ListenerName, ListenerOwner, Parent};
use crate::translate::gateway::budget::Budget;
use crate::translate::gateway::foreign_policies::ForeignPolicies;
use crate::translate::gateway::http_policies::HttpPolicies;
use crate::translate::gateway::listener::ParsedGateway;
use crate::translate::gateway::policies::{BackendTlsPolicies, PolicyReports};
use crate::translate::graph::Input;
use crate::translate::problem::Problem;
use crate::translate::translator::state::changed_policies::ChangedPolicies;
use crate::translate::translator::state::dedicated::Dedicated;
use crate::translate::translator::state::listener_sets::{SetsByGateway, SurplusListenerSet};
use crate::translate::translator::state::ports::PortClaims;

/// The Gateways, their listeners, and the policies of Gateway API.
#[derive(Debug, Default)]
pub struct Gateways {
    pub classes: BTreeMap<ObjectKey, Revision>,
    pub gateways: BTreeMap<ObjectKey, Arc<ParsedGateway>>,
    /// The ListenerSets that name each Gateway, served or not.
    pub named: SetsByGateway,
    /// The ListenerSets that served Gateways were parsed with: the Gateway, and the revision.
    pub sets: BTreeMap<ObjectKey, (ObjectKey, Revision)>,
    /// The surplus ListenerSets that name a served Gateway.
    pub surplus: BTreeMap<ObjectKey, SurplusListenerSet>,
    /// The Gateways that claim each port of the Envoys.
    pub ports: PortClaims,
    /// The Gateway of each Envoy listener.
    pub owners: BTreeMap<ListenerId, ObjectKey>,
    /// The Gateways with dedicated fleets.
    pub dedicated: Arc<Dedicated>,
    /// The inputs of every Gateway, class, and policy, served or not.
    pub dependencies: BTreeMap<ObjectId, Box<[Input]>>,
    /// The routes of each host.
    pub hosts: BTreeMap<(ListenerId, Host), Few<Precedence>>,
    /// The problems of each host.
    pub problems: BTreeMap<(ListenerId, Host), Vec<Arc<Problem>>>,
    /// The number of routes that are attached to each listener.
    pub attached: BTreeMap<ListenerName, u32>,
    /// The reports on Gateways.
    pub reports: Reports,
    /// The BackendTLSPolicies.
    pub policies: BackendTlsPolicies,
    /// The problems of each policy.
    pub policy_problems: BTreeMap<ObjectKey, Vec<Arc<Problem>>>,
    /// The sizes of the certificate authorities of BackendTLSPolicies, by namespace.
    pub authorities: Charges<ObjectKey, ()>,
    /// The reports on policies.
    pub policy_reports: PolicyReports,
    /// The HTTPPolicies.
    pub http_policies: HttpPolicies,
    /// The policies of Envoy Gateway.
    pub foreign_policies: ForeignPolicies,
    /// The sizes of all routes, and the routes beyond the limit.
    pub budget: Budget,
    /// The states of the routes on the listeners of an owner.
    pub states: BTreeMap<(ObjectId, ListenerOwner), State>,
    /// The problems of the routes that are closed or left out on the listeners of an owner.
    pub refused: BTreeMap<(ObjectId, ListenerOwner), Arc<Problem>>,
    /// The HTTPPolicies with a target that this controller serves, or that does not exist.
    pub http_policies_of_ours: BTreeMap<ObjectKey, Revision>,
    /// The problems of each HTTPPolicy.
    pub http_policy_problems: BTreeMap<ObjectKey, Vec<Arc<Problem>>>,
}

impl Gateways {
    /// Returns the revision of an object that this controller serves.
    pub fn revision(&self, id: &ObjectId) -> Option<Revision> {
        if id.kind == Kind::GATEWAY_CLASS {
            return self.classes.get(&id.key).copied();
        }
        if id.kind == Kind::GATEWAY {
            return self.gateways.get(&id.key).map(|gateway| gateway.revision);
        }
        if id.kind == Kind::LISTENER_SET {
            return self.revision_of_set(&id.key);
        }
        if id.kind == Kind::BACKEND_TLS_POLICY {
            let is_ours = self.policy_reports.contains_key(&id.key);
            return self.policies.get(&id.key).filter(|_| is_ours).map(|policy| policy.revision);
        }
        self.http_policies_of_ours.get(&id.key).filter(|_| id.kind == Kind::HTTP_POLICY).copied()
    }

    /// Returns the inputs of a Gateway, a class, or a policy, served or not.
    pub fn inputs(&self, id: &ObjectId) -> &[Input] {
        self.dependencies.get(id).map_or(&[], |inputs| inputs)
    }

    /// Returns the objects that this controller serves.
    pub fn ids(&self) -> impl Iterator<Item = ObjectId> {
        let classes = self.classes.keys().map(|key| Kind::GATEWAY_CLASS.id(key.clone()));
        let gateways = self.gateways.keys().map(|key| Kind::GATEWAY.id(key.clone()));
        let sets = self.set_keys().map(|key| Kind::LISTENER_SET.id(key.clone()));
        let policies = self.policy_reports.keys().map(|key| Kind::BACKEND_TLS_POLICY.id(key.clone()));
        let http_policies = self.http_policies_of_ours.keys().map(|key| Kind::HTTP_POLICY.id(key.clone()));
        classes.chain(gateways).chain(sets).chain(policies).chain(http_policies)
    }

    /// Returns the hosts of an Envoy listener with the ranks of their routes.
    pub fn hosts_on<'a>(
        &'a self,
        id: &'a ListenerId,
    ) -> impl Iterator<Item = (&'a (ListenerId, Host), &'a Few<Precedence>)> {
        let first = (id.clone(), Host::Exact("".into()));
        self.hosts.range(first..).take_while(move |((other, _), _)| other == id)
    }

    /// Returns the objects whose precedence has changed with one of these namespaces.
    pub fn outranked(&self, namespaces: &BTreeSet<&ObjectKey>, objects: &Objects) -> Vec<ObjectId> {
        if namespaces.is_empty() {
            return Vec::new();
        }
        let policies = self.policies.iter().filter(|policy| {
            let key = policy.key();
            let meta = objects.meta(Kind::BACKEND_TLS_POLICY, key);
            namespaces.contains(&ObjectKey { namespace: "".into(), name: key.namespace.clone() })
                && meta.is_some_and(|meta| objects.precedence(Kind::BACKEND_TLS_POLICY, meta) != policy.precedence)
        });
        let policies = policies.map(|policy| policy.precedence.id());
        let http_policies = self.http_policies.iter().filter(|policy| {
            let key = &policy.precedence.key;
            let meta = objects.meta(Kind::HTTP_POLICY, key);
            namespaces.contains(&ObjectKey { namespace: "".into(), name: key.namespace.clone() })
                && meta.is_some_and(|meta| objects.precedence(Kind::HTTP_POLICY, meta) != policy.precedence)
        });
        let policies = policies.chain(http_policies.map(|policy| policy.precedence.id()));
        // The precedence decides which of two Gateways gets a port of the Envoys.
        let gateways = self.gateways.values().filter(|gateway| {
            let key = gateway.key();
            let meta = objects.meta(Kind::GATEWAY, key);
            namespaces.contains(&ObjectKey { namespace: "".into(), name: key.namespace.clone() })
                && meta.is_some_and(|meta| objects.precedence(Kind::GATEWAY, meta) != gateway.precedence)
        });
        let gateways = gateways.map(|gateway| gateway.precedence.id());
        policies.chain(gateways).collect()
    }
}

impl Parents for Gateways {
    fn parent(&self, id: &ObjectId) -> Option<Parent<'_>> {
        if id.kind == Kind::GATEWAY {
            return self.gateways.get(&id.key).map(|gateway| Parent { gateway, set: None });
        }
        if id.kind == Kind::LISTENER_SET { self.set_parent(&id.key) } else { None }
    }

    fn policies(&self) -> &BackendTlsPolicies {
        &self.policies
    }

    fn foreign_policies(&self) -> &ForeignPolicies {
        &self.foreign_policies
    }
}

/// The policies that an update affects.
#[derive(Debug, Default)]
pub struct ChangedParents {
    /// The changed BackendTLSPolicies.
    pub policies: BTreeSet<ObjectKey>,
    pub http_policies: ChangedPolicies,
}

impl Gateways {
    /// Returns the revision of a ListenerSet that this controller serves.
    pub fn revision_of_set(&self, key: &ObjectKey) -> Option<Revision> {
        let of_surplus = || self.surplus.get(key).map(|surplus| surplus.revision);
        self.sets.get(key).map(|(_, revision)| *revision).or_else(of_surplus)
    }

    /// Returns the ListenerSets that this controller serves.
    pub fn set_keys(&self) -> impl Iterator<Item = &ObjectKey> {
        self.sets.keys().chain(self.surplus.keys())
    }

    /// Returns a ListenerSet as a parent of routes, if this controller serves it.
    pub fn set_parent(&self, key: &ObjectKey) -> Option<Parent<'_>> {
        let of_surplus = || self.surplus.get_key_value(key).map(|(set, surplus)| (set, &surplus.gateway));
        let (set, gateway) =
            self.sets.get_key_value(key).map(|(set, (gateway, _))| (set, gateway)).or_else(of_surplus)?;
        self.gateways.get(gateway).map(|gateway| Parent { gateway, set: Some(set) })
    }
}
