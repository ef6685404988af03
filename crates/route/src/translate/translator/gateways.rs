//! The incremental translation of Gateways and the routes that are attached to them.
//!
//! A changed GatewayClass affects its Gateways, a changed Gateway affects the routes that name it, and a changed route
//! affects its hosts.

mod budget;
mod fleets;
mod foreign_policies;
mod hosts;
mod http_policies;
mod listeners;
mod policies;
mod ports;
mod routes;
mod sets;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub use fleets::Dedicated;
pub use http_policies::ChangedPolicies;
use lockgate_xds::provenance::ObjectRef;
use ports::PortClaims;
use sets::{Regrouped, SetsByGateway, SurplusListenerSet};

use super::sources::Affected;
use super::{NewClusters, Translator, Update};
use crate::few::Few;
use crate::model::{Host, ListenerId};
use crate::objects::gateway::{self as objects_of, Installed, ListenerSet, SUPPORTED};
use crate::objects::{Kind, ObjectId, ObjectKey, Objects, Precedence, Revision};
use crate::settings::Settings;
use crate::translate::ChangedInputs;
use crate::translate::charges::{Charges, State};
use crate::translate::dialect::Parents;
use crate::translate::gateway::attach::{ListenerName, ListenerOwner, Parent};
use crate::translate::gateway::budget::Budget;
use crate::translate::gateway::fleet::{self, Referent};
use crate::translate::gateway::foreign_policies::ForeignPolicies;
use crate::translate::gateway::http_policies::HttpPolicies;
use crate::translate::gateway::listener::{self, ParsedGateway};
use crate::translate::gateway::policies::{BackendTlsPolicies, PolicyReports};
use crate::translate::gateway::{FleetReport, GatewayReport, ListenerReport, Reports, SetReport};
use crate::translate::graph::Input;
use crate::translate::problem::Problem;
use crate::translate::source::Dependencies;
use crate::translate::verdict::{self, Status, Verdict};

/// The kinds of Gateway API whose objects are parsed before routes.
const KINDS: [Kind; 4] = [Kind::BACKEND_TLS_POLICY, Kind::HTTP_POLICY, Kind::GATEWAY_CLASS, Kind::GATEWAY];

/// Returns whether objects of this kind are parsed before routes.
pub fn is_unit(kind: Kind) -> bool {
    KINDS.contains(&kind)
}

/// The Gateways, their listeners, and the policies of Gateway API.
#[derive(Debug, Default)]
pub struct Gateways {
    classes: BTreeMap<ObjectKey, Revision>,
    pub(super) gateways: BTreeMap<ObjectKey, Arc<ParsedGateway>>,
    /// The ListenerSets that name each Gateway, served or not.
    named: SetsByGateway,
    /// The ListenerSets that served Gateways were parsed with: the Gateway, and the revision.
    sets: BTreeMap<ObjectKey, (ObjectKey, Revision)>,
    /// The surplus ListenerSets that name a served Gateway.
    surplus: BTreeMap<ObjectKey, SurplusListenerSet>,
    /// The Gateways that claim each port of the Envoys.
    ports: PortClaims,
    /// The Gateway of each Envoy listener.
    pub(super) owners: BTreeMap<ListenerId, ObjectKey>,
    /// The Gateways with dedicated fleets.
    dedicated: Arc<Dedicated>,
    /// The inputs of every Gateway, class, and policy, served or not.
    dependencies: BTreeMap<ObjectId, Box<[Input]>>,
    /// The routes of each host.
    pub(super) hosts: BTreeMap<(ListenerId, Host), Few<Precedence>>,
    /// The problems of each host.
    problems: BTreeMap<(ListenerId, Host), Vec<Arc<Problem>>>,
    /// The number of routes that are attached to each listener.
    attached: BTreeMap<ListenerName, u32>,
    /// The reports on Gateways.
    pub reports: Reports,
    /// The BackendTLSPolicies.
    pub policies: BackendTlsPolicies,
    /// The problems of each policy.
    policy_problems: BTreeMap<ObjectKey, Vec<Arc<Problem>>>,
    /// The sizes of the certificate authorities of BackendTLSPolicies, by namespace.
    pub(super) authorities: Charges<ObjectKey, ()>,
    /// The reports on policies.
    pub policy_reports: PolicyReports,
    /// The HTTPPolicies.
    pub http_policies: HttpPolicies,
    /// The policies of Envoy Gateway.
    foreign_policies: ForeignPolicies,
    /// The sizes of all routes, and the routes beyond the limit.
    pub(super) budget: Budget,
    /// The states of the routes on the listeners of an owner.
    states: BTreeMap<(ObjectId, ListenerOwner), State>,
    /// The problems of the routes that are closed or left out on the listeners of an owner.
    pub(super) refused: BTreeMap<(ObjectId, ListenerOwner), Arc<Problem>>,
    /// The HTTPPolicies with a target that this controller serves, or that does not exist.
    http_policies_of_ours: BTreeMap<ObjectKey, Revision>,
    /// The problems of each HTTPPolicy.
    http_policy_problems: BTreeMap<ObjectKey, Vec<Arc<Problem>>>,
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
    fn hosts_on<'a>(
        &'a self,
        id: &'a ListenerId,
    ) -> impl Iterator<Item = (&'a (ListenerId, Host), &'a Few<Precedence>)> {
        let first = (id.clone(), Host::Exact("".into()));
        self.hosts.range(first..).take_while(move |((other, _), _)| other == id)
    }

    /// Returns the objects whose precedence has changed with one of these namespaces.
    fn outranked(&self, namespaces: &BTreeSet<&ObjectKey>, objects: &Objects) -> Vec<ObjectId> {
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
    policies: BTreeSet<ObjectKey>,
    http_policies: ChangedPolicies,
}

/// Returns the objects of one kind.
fn of_kind(ids: &BTreeSet<ObjectId>, kind: Kind) -> Vec<ObjectId> {
    ids.iter().filter(|id| id.kind == kind).cloned().collect()
}

/// The result of parsing a unit, and the clusters that were built during the parsing.
type Parsed<T> = (Result<T, Dependencies>, NewClusters);

impl Translator {
    /// Updates the objects that are parsed before routes: policies, classes, Gateways, and their ListenerSets. `due` are those that read a
    /// changed input. Extends `sources` with the routes that read a changed one.
    #[allow(clippy::too_many_arguments, reason = "the inputs and the outputs of a stage")]
    pub(super) fn update_parents(
        &mut self,
        objects: &Objects,
        settings: &Settings,
        changed: &ChangedInputs,
        mut due: BTreeSet<ObjectId>,
        sources: &mut BTreeSet<ObjectId>,
        affected: &mut Affected,
        update: &mut Update,
    ) -> ChangedParents {
        due.extend(self.update_foreign_policies(objects, changed));
        let regrouped = self.regroup_sets(objects, changed, update);
        self.add_due(objects, changed, &regrouped, &mut due);
        if due.is_empty() && regrouped.sets.is_empty() {
            return ChangedParents::default();
        }
        let due_policies = of_kind(&due, Kind::BACKEND_TLS_POLICY);
        let (policies, services) = self.update_policies(due_policies, objects, settings, update);
        for service in &services {
            due.extend(self.graph.readers(&policies::input(service)).cloned());
        }
        affected.services.extend(services);
        let http_policies = self.update_http_policies(of_kind(&due, Kind::HTTP_POLICY), objects, settings);
        for id in of_kind(&due, Kind::GATEWAY_CLASS) {
            self.update_class(&id, objects, settings);
            update.sources.insert(id);
        }
        let reclassified = self.reparse_gateways(&mut due, objects, settings, affected, update);
        for set in self.update_surplus(regrouped.sets, &reclassified, objects, update) {
            due.extend(self.graph.readers(&Input::new(set.kind, set.key)).cloned());
        }
        sources.extend(due.into_iter().filter(|id| !is_unit(id.kind)));
        ChangedParents { policies, http_policies }
    }

    /// Builds the hosts of listeners of Gateways again, and updates the reports on Gateways and policies. Adds the hosts of the shared
    /// listeners with changed policies to the affected hosts.
    pub(super) fn rebuild_attached(
        &mut self,
        changed: ChangedParents,
        affected: &mut Affected,
        settings: &Settings,
        update: &mut Update,
    ) {
        let ChangedParents { policies, http_policies } = changed;
        affected.reported.extend(self.update_fleets(&affected.replaced, settings));
        self.update_budget(&http_policies, settings, affected);
        self.update_shared_policies(&http_policies, settings, affected);
        self.add_hosts_of_policies(&http_policies, &mut affected.hosts);
        self.rebuild_gateway_hosts(std::mem::take(&mut affected.hosts), settings, update);
        for key in &affected.reported {
            self.report(key);
        }
        self.update_policy_verdicts(policies, &affected.services, update);
        self.update_http_policy_verdicts(http_policies, affected.replaced.iter().cloned(), update);
    }

    /// Extends `due` with the changed objects of Gateway API, and with the objects whose precedence has changed with
    /// their namespace.
    fn add_due(&self, objects: &Objects, changed: &ChangedInputs, regrouped: &Regrouped, due: &mut BTreeSet<ObjectId>) {
        for kind in KINDS {
            match changed.is_everything() {
                true => due.extend(objects.of_kind(kind).keys().map(|key| kind.id(key.clone()))),
                false => due.extend(changed.of_kind(kind).map(|key| kind.id(key.clone()))),
            }
        }
        due.extend(regrouped.gateways.iter().map(|gateway| Kind::GATEWAY.id(gateway.clone())));
        due.extend(self.gateways.outranked(&changed.of_kind(Kind::NAMESPACE).collect(), objects));
    }

    /// Parses the Gateways in `due` again, and the Gateways that compete with them for a port. Extends `due` with the
    /// routes that read a changed Gateway. Returns the Gateways that this controller started or stopped serving.
    fn reparse_gateways(
        &mut self,
        due: &mut BTreeSet<ObjectId>,
        objects: &Objects,
        settings: &Settings,
        affected: &mut Affected,
        update: &mut Update,
    ) -> BTreeSet<ObjectKey> {
        let mut gateways: BTreeSet<ObjectId> = of_kind(due, Kind::GATEWAY).into_iter().collect();
        let mut reclassified = BTreeSet::new();
        while let Some(id) = gateways.pop_first() {
            let was_ours = self.gateways.gateways.contains_key(&id.key);
            let (mut now, made) = self.parse_gateway(&id.key, objects, settings);
            self.clusters.add(made, &mut self.ledger);
            gateways.extend(self.gateways.ports.claim(&id.key, now.as_mut().ok()));
            if let Some(parents) = self.replace_gateway(&id, now, settings, &mut affected.hosts, update) {
                affected.replaced.insert(id.clone());
                affected.reported.insert(id.key.clone());
                for parent in parents {
                    due.extend(self.graph.readers(&Input::new(parent.kind, parent.key)).cloned());
                }
            }
            if was_ours != self.gateways.gateways.contains_key(&id.key) {
                reclassified.insert(id.key.clone());
            }
            update.sources.insert(id);
        }
        reclassified
    }

    /// Builds hosts again, listener by listener.
    fn rebuild_gateway_hosts(&mut self, hosts: BTreeSet<(ListenerId, Host)>, settings: &Settings, update: &mut Update) {
        let mut by_listener = BTreeMap::<ListenerId, BTreeSet<(ListenerId, Host)>>::new();
        for place in hosts {
            by_listener.entry(place.0.clone()).or_default().insert(place);
        }
        for (id, places) in by_listener {
            self.update_hosts(&id, places, settings, update);
        }
    }

    /// Updates a GatewayClass.
    fn update_class(&mut self, id: &ObjectId, objects: &Objects, settings: &Settings) {
        let class = objects.get::<objects_of::GatewayClass>(&id.key);
        let class = class.filter(|class| class.spec.controller_name == settings.gateway.controller);
        let Some(class) = class else {
            self.gateways.classes.remove(&id.key);
            self.verdicts.remove(id);
            self.replace_inputs(id, &[]);
            return;
        };
        self.gateways.classes.insert(id.key.clone(), Revision::new(&class.meta, &class.spec));
        let origin = class.meta.object_ref(Kind::GATEWAY_CLASS);
        let Referent { input, found } = fleet::of_class(class, objects, settings);
        let accepted = match found {
            Ok(_) => Verdict::new(origin.clone(), "Accepted", Status::True, "Accepted"),
            Err(message) => Verdict {
                message: message.into(),
                ..Verdict::new(origin.clone(), "Accepted", Status::False, "InvalidParameters")
            },
        };
        // All definitions are one input, because none of them has a namespace.
        let definitions = Input::new(Kind::CUSTOM_RESOURCE_DEFINITION, ObjectKey::new("", ""));
        self.replace_inputs(id, &[definitions].into_iter().chain(input).collect::<Vec<_>>());
        let version = supported_version(origin, objects);
        self.verdicts.insert(id.clone(), verdict::bounded(&[accepted, version]));
    }

    fn parse_gateway(&self, key: &ObjectKey, objects: &Objects, settings: &Settings) -> Parsed<ParsedGateway> {
        let Some(gateway) = objects.get::<objects_of::Gateway>(key) else {
            return (Err(Dependencies::default()), NewClusters::new());
        };
        let sets: Vec<&ListenerSet> = self.gateways.named.of(key).filter_map(|set| objects.get(set)).collect();
        self.read(objects, settings, |resolver| listener::parse(gateway, &sets, resolver))
    }

    /// Replaces the recorded inputs of a unit.
    fn replace_inputs(&mut self, id: &ObjectId, now: &[Input]) {
        let before = self.gateways.dependencies.remove(id).unwrap_or_default();
        self.graph.replace(id, &before, now);
        if !now.is_empty() {
            self.gateways.dependencies.insert(id.clone(), now.into());
        }
    }

    /// Updates the report on a Gateway.
    fn report(&mut self, key: &ObjectKey) {
        let Some(gateway) = self.gateways.gateways.get(key) else {
            self.gateways.reports.remove(key);
            return;
        };
        let listener = |one: &listener::ParsedListener| {
            let name = ListenerName { gateway: key.clone(), set: one.set.clone(), name: one.name.clone() };
            ListenerReport {
                name: one.name.clone(),
                supported_kinds: one.kinds.clone(),
                attached_routes: self.gateways.attached.get(&name).copied().unwrap_or_default(),
                port: one.place().filter(|place| one.is_valid() && gateway.ports.contains(place)),
                serves: one.bound.is_some(),
            }
        };
        let fleet = gateway
            .fleet
            .clone()
            .map(|spec| FleetReport { spec, refused: self.gateways.dedicated.refused.get(key).cloned() });
        let mut report = GatewayReport { ports: gateway.ports.clone(), fleet, ..GatewayReport::default() };
        for set in &gateway.sets {
            report.sets.insert(set.key().clone(), SetReport { accepted: set.accepted, listeners: Vec::new() });
        }
        for one in &gateway.listeners {
            match one.set.as_ref().map(|set| report.sets.get_mut(set)) {
                None => report.listeners.push(listener(one)),
                Some(Some(set)) => set.listeners.push(listener(one)),
                Some(None) => {}
            }
        }
        if self.gateways.reports.get(key).is_none_or(|before| **before != report) {
            self.gateways.reports.insert(key.clone(), Arc::new(report));
        }
    }
}

/// Returns whether the CustomResourceDefinitions have a supported version. Objects of other versions are served too, as far
/// as their fields are known. Source: Gateway API v1, `GatewayClassConditionStatusSupportedVersion`.
fn supported_version(class: ObjectRef, objects: &Objects) -> Verdict {
    let (status, reason, message) = match Installed::of(objects) {
        None => (Status::Unknown, "Pending", "the CustomResourceDefinitions cannot be read".to_owned()),
        Some(found) if found.is_supported() => (Status::True, "SupportedVersion", found.to_string()),
        Some(found) => {
            let message = format!("found {found}; supported is {SUPPORTED}, so some fields may have no effect");
            (Status::False, "UnsupportedVersion", message)
        }
    };
    Verdict { message: message.into(), ..Verdict::new(class, "SupportedVersion", status, reason) }
}
