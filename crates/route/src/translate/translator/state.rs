//! The state of the translation, and the changes of one update.

pub mod changed_policies;
pub mod clusters;
pub mod conflicts;
pub mod dedicated;
pub mod gateways;
pub mod listener_sets;
pub mod owners;
pub mod ports;
pub mod shared_policies;
pub mod sources;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claims::Claims;
use super::copies::Copies;
use super::ledger::Ledger;
use super::missed::Outcomes;
use super::served::Served;
use super::sites::Sites;
use super::state::clusters::Clusters;
use super::state::conflicts::Conflicts;
use super::state::gateways::Gateways;
use super::state::owners::Nameless;
use super::state::shared_policies::SharedPolicies;
use super::state::sources::Sources;
use crate::model::{Host, Model, SecretId, ServicePortId, StatsTls, Touched};
use crate::objects::{ObjectId, ObjectKey, Objects, Precedence};
use crate::settings::Settings;
use crate::translate::backend_policies::BackendPolicies;
use crate::translate::class::{self, Classes};
use crate::translate::dialect::{DIALECTS, Dialect};
use crate::translate::envoys::Envoys;
use crate::translate::graph::Graph;
use crate::translate::host_grants::HostGrants;
use crate::translate::listeners::SharedListeners;
use crate::translate::problem::Problem;
use crate::translate::tls;
use crate::translate::verdict::Verdicts;

/// The number of sources or hosts that are built before they are stored. Storing them in batches avoids a second copy
/// of all of them. Tests have few objects, so their batches are small.
pub const AT_A_TIME: usize = if cfg!(test) { 5 } else { 2048 };

/// The usable Secrets that the settings reference. A change of one of them affects its dependents ([`Due`]).
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Ground {
    /// The default certificate. Sources with TLS entries and their hosts depend on it.
    pub default_secret: Option<SecretId>,
    /// The fallback certificate. Clients without a known server name are presented it.
    pub fallback_secret: Option<SecretId>,
    /// The client certificate. Clusters with TLS depend on it.
    pub client_certificate: Option<Option<SecretId>>,
}

/// The units that are due because of a change of the classes, or of a Secret that the settings reference.
#[derive(Debug, Default)]
pub struct Due {
    pub sources: BTreeSet<ObjectId>,
    /// Hosts that are due even if the sources that name them are unchanged.
    pub hosts: BTreeSet<Host>,
    pub services: BTreeSet<ObjectKey>,
    /// Whether clients without a known server name are presented another certificate.
    pub presented_to_all: bool,
}

impl Ground {
    /// Returns the Secret that clients without a known server name are presented.
    pub fn presented_to_all(&self) -> Option<&SecretId> {
        self.default_secret.as_ref().or(self.fallback_secret.as_ref())
    }
}

/// The part of the translation that does not depend on single sources: the problems of classes, and the Secrets that the settings
/// reference.
#[derive(Debug, Default)]
pub struct General {
    pub ground: Ground,
    /// The TLS configuration of statistics. No host depends on it.
    pub stats_tls: Option<StatsTls>,
    /// The problems of classes and of these Secrets.
    pub problems: Vec<Arc<Problem>>,
}

/// The changes of one update.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Update {
    /// The changed entries of the model.
    pub touched: Touched,
    /// The sources that were parsed again, that gained their first or lost their last route, or that are no longer
    /// served by class.
    pub sources: BTreeSet<ObjectId>,
}

/// The translation and its intermediate results.
#[derive(Debug)]
pub struct Translator {
    pub(super) dialects: &'static [Dialect],
    /// The listeners that all objects share.
    pub(super) shared: SharedListeners,
    pub(super) model: Model,
    pub(super) ledger: Ledger,
    /// The verdicts on sources, with their conflicts.
    pub(super) verdicts: Verdicts,
    pub(super) conflicts: Conflicts,
    /// Gateways and the routes that are attached to them.
    pub(super) gateways: Gateways,
    pub(super) general: General,
    pub(super) classes: Classes,
    pub(super) host_grants: HostGrants,
    pub(super) backend_policies: BackendPolicies,
    /// The problems of each policy in `backend_policies`.
    pub(super) backend_policy_problems: BTreeMap<ObjectId, Vec<Arc<Problem>>>,
    pub(super) sources: Sources,
    pub(super) graph: Graph,
    /// The sources with a default backend.
    pub(super) with_default: BTreeSet<Precedence>,
    /// The owner and the default backend of the hosts that no rule names.
    pub(super) nameless: Nameless,
    pub(super) claims: Claims,
    pub(super) sites: Sites,
    pub(super) copies: Copies,
    /// The sizes of the policies of sources on the shared listeners.
    pub(super) shared_policies: SharedPolicies,
    pub(super) served: Served,
    pub(super) outcomes: Outcomes,
    pub(super) clusters: Clusters,
    pub(super) envoys: Envoys,
    pub(super) endpoint_problems: BTreeMap<ServicePortId, Vec<Arc<Problem>>>,
    /// For each Secret, the number of TLS hosts, clusters, and statistics listeners that use it.
    pub(super) uses_of_secrets: BTreeMap<SecretId, usize>,
    /// The used authorities with revocation lists.
    pub(super) revoking: BTreeSet<SecretId>,
    /// The problem of each object that cannot be decoded completely.
    pub(super) encoding_problems: BTreeMap<ObjectId, Arc<Problem>>,
}

/// Creates a translator of all dialects.
impl Default for Translator {
    fn default() -> Self {
        Self::new(&DIALECTS)
    }
}

impl General {
    pub fn new(objects: &Objects, settings: &Settings) -> Self {
        let mut problems = class::problems(objects, settings);
        let client_certificate = tls::client_certificate(objects, settings, &mut problems);
        let default_secret = tls::default_secret(objects, settings, &mut problems);
        let fallback_secret = tls::fallback_secret(objects, settings, &mut problems);
        let stats_tls = tls::stats(objects, settings, &mut problems);
        let problems = problems.into_iter().map(Arc::new).collect();
        Self { ground: Ground { default_secret, fallback_secret, client_certificate }, stats_tls, problems }
    }
}

/// Sets the entry at `key`, or removes it.
pub fn set<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}

impl Translator {
    /// Creates a translator of these dialects without a translation.
    pub fn new(dialects: &'static [Dialect]) -> Self {
        Self {
            dialects,
            shared: SharedListeners::default(),
            model: Model::default(),
            ledger: Ledger::default(),
            verdicts: Verdicts::default(),
            conflicts: Conflicts::default(),
            gateways: Gateways::default(),
            general: General::default(),
            classes: Classes::default(),
            host_grants: HostGrants::default(),
            backend_policies: BackendPolicies::default(),
            backend_policy_problems: BTreeMap::new(),
            sources: Sources::default(),
            graph: Graph::default(),
            with_default: BTreeSet::new(),
            nameless: Nameless::default(),
            claims: Claims::default(),
            sites: Sites::default(),
            copies: Copies::default(),
            shared_policies: SharedPolicies::default(),
            served: Served::new(dialects),
            outcomes: Outcomes::default(),
            clusters: Clusters::default(),
            envoys: Envoys::default(),
            endpoint_problems: BTreeMap::new(),
            uses_of_secrets: BTreeMap::new(),
            revoking: BTreeSet::new(),
            encoding_problems: BTreeMap::new(),
        }
    }
}
