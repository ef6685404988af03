//! The clusters of a returning state-of-the-world Envoy.
//!
//! Its request for clusters contains the version of its clusters, but no names. A replica that has sent this version knows
//! the clusters ([`crate::server::past`]). After a restart, no replica does. A cluster that was renamed while the controller
//! was down would then be missing from the response: Envoy would remove it at once, and its routes would fail until they
//! have moved. However, Envoy's requests for endpoints contain the names of its clusters, and a version is a hash of the
//! content. The stream therefore guesses the missing clusters from the settings of served clusters. A guess is correct if
//! and only if it produces the version. The missing clusters then stay until the routes have moved, as without a reconnect.

use std::collections::BTreeMap;
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use prost::Message;

use super::State;
use crate::server::message::{Node, Request, Variant};
use crate::snapshot::{Resource, ResourceType, Version};

/// The maximum number of missing clusters, and of served clusters whose settings are tried.
const GUESSES: usize = 64;

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
        let of_known = self.newest.version_with(kind, new.iter().map(|cluster| (cluster.name(), None)));
        // A renamed cluster most likely has the settings of its new name, so new clusters are tried first.
        let models = new.iter().chain(&known).filter(|cluster| endpoints(cluster).is_some());
        models.take(GUESSES).find_map(|model| {
            let guesses = missing.iter().map(|name| renamed(model, name)).collect::<Option<Vec<_>>>()?;
            let version = guesses.iter().fold(of_known, Version::with);
            (version.to_string() == request.version).then(|| {
                let guesses = guesses.into_iter().map(Arc::new);
                let mut all: Vec<Arc<Resource>> = known.iter().copied().cloned().chain(guesses).collect();
                all.sort_by(|one, other| one.name().cmp(other.name()));
                all.into()
            })
        })
    }
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
