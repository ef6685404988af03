//! The policies of sources on the listeners that all objects share. A changed policy affects the hosts of its targets. No source is
//! parsed again.
//!
//! A policy is copied for each path of an object, so a small policy can take much of the memory of all Envoys. The sizes of these copies
//! count toward the limit of the namespace.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::state::Translator;
use super::state::changed_policies::ChangedPolicies;
use super::state::sources::Affected;
use crate::envoy::route::Sizes;
use crate::model::Host;
use crate::objects::ObjectId;
use crate::parallel;
use crate::settings::Settings;
use crate::translate::charges::{Beyond, Charge, Size};
use crate::translate::conflicts::ConflictPlace;
use crate::translate::gateway::http_policy::Features;
use crate::translate::gateway::size;
use crate::translate::problem::{Problem, Reason};
use crate::translate::scope::Scope;
use crate::translate::source::Source;
use crate::translate::unit::Unit;

/// The number of listeners on which a host is served: for plain HTTP, and for HTTP over TLS.
const LISTENERS: u64 = 2;

/// The size of the interpreter of a route. It takes about 100 KB of each worker of Envoy, and a byte of configuration up to 40.
const PROGRAM: u64 = 8 << 10;

impl Translator {
    /// Returns the policies of the units on the listeners that all objects share.
    pub(super) fn scope(&self) -> Scope<'_> {
        Scope::shared(&self.gateways.http_policies, &self.shared_policies.sizes)
    }

    /// Updates the sizes of the replaced sources, and of the sources with changed policies. Adds the hosts of sources with changed
    /// policies, and of those that come within or beyond the limit of their namespace, to the affected hosts.
    pub(super) fn update_shared_policies(
        &mut self,
        changed: &ChangedPolicies,
        settings: &Settings,
        affected: &mut Affected,
    ) {
        let targets = changed.targets.iter().flat_map(|target| self.targeted(target));
        let targeted: BTreeSet<ObjectId> = targets.filter(|id| self.is_shared(id)).collect();
        let is_known = |id: &&ObjectId| self.shared_policies.sizes.knows(id) || self.is_shared(id);
        let replaced = affected.replaced.iter().filter(is_known);
        let due: Vec<ObjectId> =
            targeted.iter().chain(replaced).cloned().collect::<BTreeSet<_>>().into_iter().collect();
        let has_features = |id: &ObjectId| self.sources.get(id).is_some_and(|source| source.shared.has_features());
        // Without policies and features, no source has a size.
        if due.is_empty()
            || self.gateways.http_policies.is_empty()
                && self.shared_policies.sizes.totals().next().is_none()
                && !due.iter().any(has_features)
        {
            return self.affect_hosts(targeted.iter(), affected);
        }
        let measure = Sizes::new(settings);
        let charges =
            parallel::map(&due, |id| self.sources.get(id).and_then(|source| self.size_of_policies(source, &measure)));
        for (id, charge) in due.iter().zip(charges) {
            self.shared_policies.sizes.replace(id, charge.map(|charge| ((), charge)).into_iter().collect());
        }
        let moved = self.shared_policies.sizes.apply(settings.tenants.max_configuration_per_namespace);
        self.affect_hosts(targeted.union(&moved), affected);
        due.iter().chain(&moved).for_each(|id| self.report_size(id));
    }

    /// Returns whether an object declares routes on the listeners that all objects share.
    fn is_shared(&self, id: &ObjectId) -> bool {
        let declares =
            |source: &Arc<Source>| !source.shared.rules.is_empty() || source.shared.default_backend.is_some();
        self.sources.get(id).is_some_and(declares)
    }

    /// Adds the hosts of sources to the affected hosts.
    fn affect_hosts<'a>(&self, sources: impl Iterator<Item = &'a ObjectId>, affected: &mut Affected) {
        for source in sources.filter_map(|id| self.sources.get(id)) {
            affected.shared.extend(source.shared.rules.iter().map(|rule| rule.host.clone()));
            affected.shared.extend(source.shared.default_backend.is_some().then_some(Host::Any));
        }
    }

    /// Returns the charge for the policies of a source, if it has any: the sum over its paths and its default backend on all listeners.
    fn size_of_policies(&self, source: &Source, measure: &Sizes) -> Option<Charge> {
        let scope = self.scope();
        let mut last = None;
        let mut size = |features: Option<Features>| {
            features.map_or(0, |features| size::of_same_features(features, &mut last, measure))
        };
        let shared = &source.shared;
        let of_default = shared.default_backend.as_ref().map_or(0, |_| size(scope.features(&source.precedence, None)));
        let of_rules = shared.rules.iter().map(|rule| {
            // The units of an included object are next to each other.
            let is_same = |a: &Unit, b: &Unit| a.route.origin == b.route.origin && a.own == b.own;
            let of_objects = rule.units.chunk_by(is_same).map(|units| {
                let paths = units.iter().map(|unit| u64::from(unit.route.copies())).sum::<u64>();
                let context = |unit: &Unit| unit.route.context_size().saturating_mul(unit.route.copies().into());
                let contexts = units.iter().map(context).fold(0, u64::saturating_add);
                let programs = units.iter().filter(|unit| unit.route.runs_program()).count() as u64;
                size(scope.features_without_challenges(&source.precedence, &units[0]))
                    .saturating_mul(paths)
                    .saturating_add(programs.saturating_mul(PROGRAM))
                    .saturating_add(contexts)
            });
            of_objects.fold(0, u64::saturating_add)
        });
        let open = of_rules.fold(of_default, u64::saturating_add).saturating_mul(LISTENERS);
        let open = open.saturating_add(shared.size_of_clusters);
        (open > 0).then(|| Charge { rank: source.precedence.clone(), size: Size { open, closed: 0 } })
    }

    /// Replaces the problem of a source whose policies do not fit.
    fn report_size(&mut self, id: &ObjectId) {
        let source = self.sources.get(id);
        let beyond = source.and_then(|source| Some((source, self.shared_policies.sizes.beyond(id, &())?)));
        let now = beyond.map(|(source, why)| Arc::new(problem(source, why)));
        let before = match &now {
            Some(problem) => self.shared_policies.problems.insert(id.clone(), problem.clone()),
            None => self.shared_policies.problems.remove(id),
        };
        self.replace_conflicts(ConflictPlace::Shared, before.as_slice(), now.as_slice());
    }
}

/// Returns the problem of a source whose policies do not fit.
fn problem(source: &Source, why: &Beyond) -> Problem {
    let Beyond { state: _, size, older, limit } = *why;
    let kib = |bytes: u64| bytes.div_ceil(1 << 10);
    Problem {
        object: source.origin.clone(),
        field: "spec".to_owned(),
        reason: Reason::RouteTooExpensive,
        message: format!(
            "the policies of this {} take {} KiB for its paths, and those of older objects of the namespace take {} KiB of the {} KiB of \
             tenants.maxConfigurationPerNamespace",
            source.origin.kind,
            kib(size),
            kib(older),
            kib(limit),
        ).into(),
        consequence: "its requests are answered 503".to_owned(),
    }
}
