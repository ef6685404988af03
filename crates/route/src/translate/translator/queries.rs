//! The answers of the translator to its readers: the model, the problems, the reports, and the dependencies of sources.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::claims::UnsettledHosts;
use super::state::{Ground, Translator};
use crate::model::{Model, SecretId, SecretPart};
use crate::objects::{FOREIGN_POLICIES, Grouping, Kind, ObjectId, Revision};
use crate::translate::gateway::{PolicyReports, Reports};
use crate::translate::graph::Input;
use crate::translate::problem::Problems;
use crate::translate::verdict::Verdicts;

impl Translator {
    /// Returns the model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Returns the problems.
    pub fn problems(&self) -> &Problems {
        self.ledger.found()
    }

    /// Returns the verdicts on the sources that are served by class.
    pub fn verdicts(&self) -> &Verdicts {
        &self.verdicts
    }

    /// Returns the reports on the Gateways that are served by class.
    pub fn gateways(&self) -> &Reports {
        &self.gateways.reports
    }

    /// Returns the reports on the BackendTLSPolicies of the backends of Gateways that are served by class.
    pub fn policies(&self) -> &PolicyReports {
        &self.gateways.policy_reports
    }

    /// Returns the hosts whose stored claim does not match their rules.
    pub fn unsettled_hosts(&self) -> &UnsettledHosts {
        self.claims.unsettled()
    }

    /// Returns the translated revision of a source that is served by class.
    pub fn revision(&self, source: &ObjectId) -> Option<Revision> {
        if source.kind == Kind::HOST_GRANT {
            return self.host_grants.get(&source.key).map(|grant| grant.revision);
        }
        if let Some(policy) = self.backend_policies.get(source) {
            return Some(policy.revision);
        }
        self.sources.get(source).map(|source| source.revision).or_else(|| self.gateways.revision(source))
    }

    /// Returns whether a source is served by class.
    pub fn serves(&self, source: &ObjectId) -> bool {
        self.revision(source).is_some()
    }

    /// Returns whether a served source or its cluster reads an input, or would read it if it existed.
    pub fn is_dependency(&self, input: &Input) -> bool {
        let (kind, key) = (input.kind(), input.key());
        let is_of_settings = || {
            let secret = SecretId::new(key.clone(), SecretPart::KeyPair);
            let Ground { default_secret, fallback_secret, client_certificate: _ } = &self.general.ground;
            let named = [default_secret, fallback_secret].into_iter().flatten().any(|named| *named == secret);
            named || self.uses_of_secrets.contains_key(&secret)
        };
        if kind.info().grouping == Grouping::ByService {
            return self.graph.is_used(&Input::new(Kind::SERVICE, key.clone()));
        }
        // Every source reads the classes and the HostGrants, and an external name reads all Namespaces.
        kind == Kind::INGRESS_CLASS
            || kind == Kind::HOST_GRANT
            || kind == Kind::NAMESPACE && self.host_grants.read_labels()
            || kind == Kind::NAMESPACE && self.clusters.readers_of_namespaces().next().is_some()
            || kind == Kind::SECRET && is_of_settings()
            || kind == Kind::SERVICE && self.backend_policies.name(key)
            || FOREIGN_POLICIES.contains(&kind) && self.may_have_target(&kind.id(key.clone()))
            || self.graph.is_used(input)
            || self.serves(&kind.id(key.clone()))
    }

    /// Returns the inputs that a source reads in addition to its own object, whether they exist or not, and those that its includers
    /// read. A route without a served Gateway also reads Gateways.
    pub fn inputs<'a>(&'a self, source: &ObjectId) -> impl Iterator<Item = &'a Input> + use<'a> {
        let of_includers = self.includers(source).flat_map(|includer| self.sources.inputs(includer));
        let of_policy = self.backend_policies.get(source).into_iter().flat_map(|policy| policy.inputs.iter());
        self.sources.inputs(source).iter().chain(self.gateways.inputs(source)).chain(of_policy).chain(of_includers)
    }

    /// Returns whether a source has lost all its routes: every route belongs to other sources, or is invalid. A source
    /// that never requested a route has lost nothing. The routes of the objects that a source includes are also its routes.
    pub fn has_lost(&self, source: &ObjectId) -> bool {
        let Some(asking) = self.sources.get(source).filter(|source| source.asks) else { return false };
        !self.served.contains(source) && !self.included(asking).iter().any(|included| self.served.contains(included))
    }

    /// Returns the sources that are served by class.
    pub fn sources(&self) -> impl Iterator<Item = ObjectId> {
        let grants = self.host_grants.all().map(|grant| Kind::HOST_GRANT.id(grant.key.clone()));
        let policies = self.backend_policies.ids().cloned();
        policies.chain(grants).chain(self.sources.iter().map(|(id, _)| id.clone())).chain(self.gateways.ids())
    }

    /// Returns the model, the problems, and the sources that are served by class.
    pub fn into_parts(self) -> (Model, Problems, BTreeSet<ObjectId>) {
        let sources = self.sources().collect();
        (self.model, self.ledger.found().clone(), sources)
    }

    /// Returns the namespaces whose objects cause the largest configurations, at most `most`, with the size that is nearest to the
    /// limit, in bytes. Smaller ones than `at_least` are left out.
    pub fn largest_configurations(&self, at_least: u64, most: usize) -> Vec<(Arc<str>, u64)> {
        let gateways = self.gateways.budget.charges.totals().chain(self.gateways.authorities.totals());
        let mut sizes = BTreeMap::<&Arc<str>, u64>::new();
        let shared = self.copies.totals().chain(self.shared_policies.sizes.totals());
        for (namespace, size) in gateways.chain(shared).filter(|(_, size)| *size >= at_least) {
            let largest = sizes.entry(namespace).or_default();
            *largest = size.max(*largest);
        }
        let mut sizes: Vec<(Arc<str>, u64)> = sizes.into_iter().map(|(name, size)| (name.clone(), size)).collect();
        sizes.sort_by_key(|(_, size)| std::cmp::Reverse(*size));
        sizes.truncate(most);
        sizes
    }
}
