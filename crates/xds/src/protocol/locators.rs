//! Variants of a resource, and clients that choose one by dynamic parameters.
//!
//! A resource can have several variants, each with constraints on the parameters that a delta client sends with the
//! name. A client gets the matching variant with the most constraints. A resource without constraints matches every
//! client. Source: xRFC TP2.
//!
//! Locators are separate from subscriptions by name. A client with locators requests each resource individually, so there is
//! no wildcard, and no order between types.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use envoy_types::pb::envoy::service::discovery::v3::dynamic_parameter_constraints::Type as Constraint;
use envoy_types::pb::envoy::service::discovery::v3::dynamic_parameter_constraints::single_constraint::ConstraintType;
use prost::Message;

use super::message::{Notice, Output, Request, Response};
use super::rejection::{Rejection, RejectionScope};
use crate::snapshot::{Resource, ResourceType, Snapshot, Version, canonical, split_variant, variant_name};

/// The maximum number of stored responses that a client has not answered.
const MOST_IN_FLIGHT: usize = 100;

/// A requested resource: a name, and the client's parameters.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Locator {
    /// The name of the resource.
    pub name: String,
    /// The parameters.
    pub parameters: BTreeMap<String, String>,
}

impl From<discovery_v3::ResourceLocator> for Locator {
    fn from(locator: discovery_v3::ResourceLocator) -> Self {
        Self {
            name: canonical(&locator.name).into_owned(),
            parameters: locator.dynamic_parameters.into_iter().collect(),
        }
    }
}

impl Locator {
    /// Returns all texts of the locator.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.name).chain(self.parameters.iter().flat_map(|(key, value)| [key, value]))
    }

    /// Returns the matching variant with the most constraints.
    fn find<'a>(&self, kind: ResourceType, snapshot: &'a Snapshot) -> Option<&'a Arc<Resource>> {
        let variants = snapshot.with_prefix(kind.variants(), variant_name(&self.name, &[]));
        let fitting = variants.filter_map(|variant| Some((self.fits(variant)?, variant)));
        let best = fitting.reduce(|best, other| if other.0 > best.0 { other } else { best });
        best.map(|(_, variant)| variant).or_else(|| snapshot.get(kind, &self.name))
    }

    /// Returns the number of constraints of `variant` that the parameters meet, or `None` if they do not match.
    fn fits(&self, variant: &Resource) -> Option<u32> {
        let constraints =
            discovery_v3::DynamicParameterConstraints::decode(variant.lease().constraints.clone()?).ok()?;
        met(&constraints, &self.parameters)
    }
}

/// Returns the number of individual constraints that are met, if all constraints together are met.
fn met(constraints: &discovery_v3::DynamicParameterConstraints, parameters: &BTreeMap<String, String>) -> Option<u32> {
    match constraints.r#type.as_ref() {
        None => Some(0),
        Some(Constraint::Constraint(single)) => {
            let value = parameters.get(&single.key)?;
            match single.constraint_type.as_ref()? {
                ConstraintType::Value(wanted) => (value == wanted).then_some(1),
                ConstraintType::Exists(_) => Some(1),
            }
        }
        Some(Constraint::OrConstraints(list)) => list.constraints.iter().filter_map(|one| met(one, parameters)).max(),
        Some(Constraint::AndConstraints(list)) => list.constraints.iter().map(|one| met(one, parameters)).sum(),
        Some(Constraint::NotConstraints(not)) => met(not, parameters).is_none().then_some(1),
    }
}

/// The locators of one client, of all types.
#[derive(Debug, Default)]
pub(super) struct Locators {
    types: BTreeMap<ResourceType, Asked>,
    in_flight: BTreeMap<u64, InFlight>,
    /// The snapshot of the last search, if the locators have not changed since. A client can have a million of them, and sends
    /// many small messages.
    searched: Option<u64>,
}

#[derive(Debug, Default)]
struct Asked {
    locators: BTreeSet<Locator>,
    /// The client's version of each resource, by its name in the store.
    told: BTreeMap<Arc<str>, Version>,
    /// The names that were reported as absent.
    absent: BTreeSet<Arc<str>>,
}

#[derive(Debug)]
struct InFlight {
    kind: ResourceType,
    sent_at: Instant,
    set: Vec<Arc<Resource>>,
}

impl Locators {
    /// Returns the types whose changes can affect the client.
    pub fn kinds(&self) -> impl Iterator<Item = ResourceType> {
        self.types.keys().flat_map(|kind| [*kind, kind.variants()])
    }

    /// Applies the locators of `request`, and its answer to a response to locators. Returns whether the request contains
    /// nothing else. With `by_name`, there is also a subscription by name that the request can answer.
    pub fn request(
        &mut self,
        kind: ResourceType,
        request: &Request,
        by_name: bool,
        snapshot: &Snapshot,
        now: Instant,
        outputs: &mut Vec<Output>,
    ) -> bool {
        let forgotten = !by_name && self.types.contains_key(&kind) && !request.nonce.is_empty();
        let answered = self.answer(request, now, outputs) || forgotten;
        if request.locators.is_empty() && request.locators_unsubscribe.is_empty() {
            return answered && request.subscribe.is_empty() && request.unsubscribe.is_empty();
        }
        self.searched = None;
        let asked = self.types.entry(kind).or_default();
        for locator in &request.locators {
            // A repeated request gets another response, except for versions of an earlier stream.
            if let Some(resource) = locator.find(kind, snapshot) {
                let had = request.initial_versions.get(&locator.name).and_then(|version| Version::parse(version));
                asked.told.remove(resource.name());
                asked.told.extend(
                    had.filter(|version| *version == resource.version())
                        .map(|version| (resource.name().clone(), version)),
                );
            }
            asked.absent.remove(&*locator.name);
            asked.locators.insert(locator.clone());
        }
        for locator in &request.locators_unsubscribe {
            asked.locators.remove(locator);
        }
        if !request.locators_unsubscribe.is_empty() {
            let wanted: BTreeSet<_> = asked.wanted(kind, snapshot).into_iter().map(|one| one.name().clone()).collect();
            asked.told.retain(|name, _| wanted.contains(name));
        }
        request.subscribe.is_empty() && request.unsubscribe.is_empty()
    }

    /// Returns the number of stored names and parameters.
    pub fn stored_names(&self) -> usize {
        let asked = self.types.values().flat_map(|asked| &asked.locators);
        asked.map(|locator| 1 + locator.parameters.len()).sum()
    }

    /// Sends the differences between `snapshot` and the client's resources.
    pub fn advance(&mut self, snapshot: &Snapshot, now: Instant, nonces: &mut u64, outputs: &mut Vec<Output>) {
        if self.searched.replace(snapshot.serial()) == Some(snapshot.serial()) {
            return;
        }
        for (&kind, asked) in &mut self.types {
            let wanted = asked.wanted(kind, snapshot);
            let names: BTreeSet<&Arc<str>> = wanted.iter().map(|resource| resource.name()).collect();
            let gone: Vec<Arc<str>> = asked.told.keys().filter(|name| !names.contains(name)).cloned().collect();
            let differs = |one: &&Arc<Resource>| asked.told.get(one.name()) != Some(&one.version());
            let set: Vec<Arc<Resource>> = wanted.iter().copied().filter(differs).cloned().collect();
            let nothing = asked.locators.iter().filter(|locator| locator.find(kind, snapshot).is_none());
            let nothing: BTreeSet<Arc<str>> = nothing.map(|locator| Arc::from(&*locator.name)).collect();
            for name in &gone {
                asked.told.remove(name);
            }
            // If the client had a variant, its removal already reports the absence.
            let names_of =
                |name: &Arc<str>| [Some(name.to_string()), split_variant(name).map(|(plain, _)| plain.into())];
            let had: BTreeSet<String> = gone.iter().flat_map(names_of).flatten().collect();
            let unknown = nothing.iter().filter(|name| !asked.absent.contains(*name) && !had.contains(&***name));
            let removed: Vec<Arc<str>> = gone.iter().chain(unknown).cloned().collect();
            asked.absent = nothing;
            asked.told.extend(set.iter().map(|resource| (resource.name().clone(), resource.version())));
            if set.is_empty() && removed.is_empty() {
                continue;
            }
            *nonces += 1;
            let nonce = *nonces;
            self.in_flight.insert(nonce, InFlight { kind, sent_at: now, set: set.clone() });
            if self.in_flight.len() > MOST_IN_FLIGHT {
                self.in_flight.pop_first();
            }
            outputs.push(Output::Send(Response {
                type_url: kind.url().into(),
                nonce: nonce.to_string(),
                version: snapshot.version(kind.variants()).to_string(),
                resources: set.into(),
                heartbeats: Vec::new(),
                leases: false,
                removed,
                missing: Vec::new(),
            }));
        }
    }

    /// Handles the answer to a response to locators, if `request` is one.
    fn answer(&mut self, request: &Request, now: Instant, outputs: &mut Vec<Output>) -> bool {
        let answered = request.nonce.parse().ok().and_then(|nonce: u64| self.in_flight.remove(&nonce));
        let Some(InFlight { kind, sent_at, set }) = answered else { return false };
        let nonce = request.nonce.clone();
        outputs.push(Output::Notice(match request.error.clone() {
            None => Notice::Acked { kind, nonce, latency: now.saturating_duration_since(sent_at) },
            Some(message) => Notice::Rejected(Rejection {
                kind,
                scope: RejectionScope::Response { nonce, repeated: Vec::new(), removed: Vec::new() },
                suspects: set,
                message: message.into(),
            }),
        }));
        true
    }
}

impl Asked {
    /// Returns the matching resources without duplicates.
    fn wanted<'a>(&self, kind: ResourceType, snapshot: &'a Snapshot) -> Vec<&'a Arc<Resource>> {
        let found = self.locators.iter().filter_map(|locator| locator.find(kind, snapshot));
        let by_name: BTreeMap<_, _> = found.map(|resource| (resource.name(), resource)).collect();
        by_name.into_values().collect()
    }
}
