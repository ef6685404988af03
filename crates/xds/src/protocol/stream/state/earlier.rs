//! The clusters of a returning state-of-the-world Envoy.
//!
//! Its request for clusters contains the version of its clusters, but no names. A replica that has sent this version knows
//! the clusters ([`crate::protocol::past`]). After a restart, no replica does. A cluster that was renamed while the controller
//! was down would then be missing from the response: Envoy would remove it at once, and its routes would fail until they
//! have moved. However, Envoy's requests for endpoints contain the names of its clusters, and a version is a hash of the
//! content. The stream therefore guesses the missing clusters from the settings of served clusters. A guess is correct if
//! and only if it produces the version. The missing clusters then stay until the routes have moved, as without a reconnect.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use prost::Message;

use super::State;
use crate::protocol::message::{Node, Request, Variant};
use crate::snapshot::{Resource, ResourceType, Version};

/// The maximum number of missing clusters, and of served clusters whose settings are tried.
const GUESSES: usize = 64;
/// The maximum number of guesses in which the missing clusters have different settings.
const ASSIGNMENTS: usize = 64;

impl State {
    /// Returns whether a first request for clusters has to wait for the names in the request for endpoints.
    pub(super) fn awaits_endpoint_names(&self, request: &Request) -> bool {
        let is_old = || request.version != self.newest.version(ResourceType::CLUSTER).to_string();
        self.aggregated
            && self.variant == Variant::Sotw
            && self.node.as_ref().is_some_and(Node::is_envoy)
            && !request.version.is_empty()
            && request.held.is_none()
            && self.gates.awaits_first_requests()
            && !self.types.contains_key(&ResourceType::ENDPOINTS)
            && is_old()
    }

    /// Returns the clusters of the version in `request`, if they can be guessed.
    pub(super) fn clusters_by_version(&self, request: &Request) -> Option<Arc<[Arc<Resource>]>> {
        let kind = ResourceType::CLUSTER;
        let says_version = !request.version.is_empty() && request.held.is_none();
        if !self.aggregated || self.variant != Variant::Sotw || !says_version {
            return None;
        }
        let version = Version::parse(&request.version)?;
        let asked = self.types.get(&ResourceType::ENDPOINTS)?;
        let missing: Vec<Arc<str>> = asked
            .each_name()
            .filter(|name| self.newest.clusters_of(name).next().is_none())
            .take(GUESSES + 1)
            .cloned()
            .collect();
        if missing.is_empty() || missing.len() > GUESSES {
            return None;
        }
        let endpoints = |cluster: &Arc<Resource>| cluster.references().endpoints.first().cloned();
        let is_new = |cluster: &&Arc<Resource>| endpoints(cluster).is_some_and(|name| !asked.named(&name));
        let (new, known): (Vec<_>, Vec<_>) = self.newest.all(kind).partition(is_new);
        // A renamed cluster most likely has the settings of its new name, so new clusters are tried first.
        let models = new.iter().chain(&known).filter(|cluster| endpoints(cluster).is_some()).take(GUESSES);
        let guesses = guesses(models.map(|model| &***model), &missing);
        let known: Vec<Arc<Resource>> = known.into_iter().cloned().collect();
        assignments(guesses.len(), missing.len()).find_map(|models| {
            let guessed = missing.iter().enumerate().filter_map(|(at, _)| guesses.get(*models.get(at)?)?.get(at));
            let all: Vec<Arc<Resource>> = known.iter().chain(guessed).cloned().collect();
            let mut all = without_two_at_most(all, version)?;
            all.sort_by(|one, other| one.name().cmp(other.name()));
            Some(all.into())
        })
    }
}

/// Returns the `missing` clusters with the settings of each model. Models with equal settings count once.
fn guesses<'a>(models: impl Iterator<Item = &'a Resource>, missing: &[Arc<str>]) -> Vec<Vec<Arc<Resource>>> {
    let mut settings = BTreeSet::new();
    let mut all = Vec::new();
    for model in models {
        let Some(first) = missing.first().and_then(|name| renamed(model, name)) else { continue };
        if settings.insert(first.version()) {
            all.push(missing.iter().filter_map(|name| renamed(model, name).map(Arc::new)).collect());
        }
    }
    all
}

/// Returns assignments of `models` to each of `missing` names. Assignments with one model for all names come first,
/// then some other assignments.
fn assignments(models: usize, missing: usize) -> impl Iterator<Item = Vec<usize>> {
    let uniform = (0..models).map(move |model| vec![model; missing]);
    let digits = move |mut number: usize| -> Vec<usize> {
        let mut digit = || {
            let digit = number % models;
            number /= models;
            digit
        };
        (0..missing).map(|_| digit()).collect()
    };
    let mixed = (0..if models > 1 { ASSIGNMENTS } else { 0 }).map(digits);
    uniform.chain(mixed)
}

/// Returns the clusters of `all` that give `version`, if they are all but two at most. The client may lack served clusters
/// without endpoints. It may also have clusters of a response that it has rejected for another cluster. A version is the XOR of
/// digests, so the clusters without one or two cost a look-up each.
fn without_two_at_most(all: Vec<Arc<Resource>>, version: Version) -> Option<Vec<Arc<Resource>>> {
    let whole = all.iter().fold(Version::default(), |version, cluster| version.with(cluster));
    if whole == version {
        return Some(all);
    }
    let without_one: HashMap<Version, usize> =
        all.iter().enumerate().map(|(at, cluster)| (whole.with(cluster), at)).collect();
    let mut absent = [without_one.get(&version).copied(), None];
    if absent[0].is_none() {
        let (at, other) = all.iter().enumerate().find_map(|(at, cluster)| {
            let other = without_one.get(&version.with(cluster)).copied();
            other.filter(|other| *other != at).map(|other| (at, other))
        })?;
        absent = [Some(at), Some(other)];
    }
    Some(
        all.into_iter()
            .enumerate()
            .filter(|(at, _)| !absent.contains(&Some(*at)))
            .map(|(_, cluster)| cluster)
            .collect(),
    )
}

/// Returns a cluster with the settings of `model` and another name, or `None` if the endpoints of `model` have another name
/// than the cluster.
fn renamed(model: &Resource, name: &str) -> Option<Resource> {
    let mut cluster = Cluster::decode(model.message()).ok()?;
    let source = cluster.eds_cluster_config.as_mut()?;
    if source.service_name == cluster.name {
        name.clone_into(&mut source.service_name);
    } else if !source.service_name.is_empty() {
        return None;
    }
    if !cluster.alt_stat_name.is_empty() {
        cluster.alt_stat_name = stat_name(&cluster.name, &cluster.alt_stat_name, name);
    }
    name.clone_into(&mut cluster.name);
    Some(Resource::new(name, &cluster, Vec::new()))
}

/// Returns the statistics name for `name`, with the character replacements that turn `model` into `of_model`.
fn stat_name(model: &str, of_model: &str, name: &str) -> String {
    let replaced: BTreeMap<char, char> = model.chars().zip(of_model.chars()).collect();
    name.chars().map(|char| replaced.get(&char).copied().unwrap_or(char)).collect()
}
