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
mod routes;
mod sets;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::state::clusters::NewClusters;
use super::state::gateways::ChangedParents;
use super::state::listener_sets::Regrouped;
use super::state::sources::Affected;
use super::state::{Translator, Update};
use crate::model::{Host, ListenerId};
use crate::objects::gateway::{self as objects_of, Installed, ListenerSet, SUPPORTED};
use crate::objects::{Kind, ObjectId, ObjectKey, Objects, Revision};
use crate::settings::Settings;
use crate::translate::ChangedInputs;
use crate::translate::gateway::attach::ListenerName;
use crate::translate::gateway::fleet::{self, Referent};
use crate::translate::gateway::listener::{self, ParsedGateway};
use crate::translate::gateway::{FleetReport, GatewayReport, ListenerReport, SetReport};
use crate::translate::graph::Input;
use crate::translate::source::Dependencies;
use crate::translate::verdict::{self, Status, Verdict};

/// The kinds of Gateway API whose objects are parsed before routes.
const KINDS: [Kind; 4] = [Kind::BACKEND_TLS_POLICY, Kind::HTTP_POLICY, Kind::GATEWAY_CLASS, Kind::GATEWAY];

/// Returns whether objects of this kind are parsed before routes.
pub fn is_unit(kind: Kind) -> bool {
    KINDS.contains(&kind)
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
