//! The namespaces that may define routes for a host: owners, delegation, and hosts that no rule names.
//!
//! A single order of precedence ([`Precedence`]) decides who owns a host that nobody claims, and which of two equal paths is
//! served. The owner of a host depends on the stored claims ([`Claims`](super::claims::Claims)), the Ingresses with a rule for
//! it, and the owner of the wildcard above it. A change of an owner therefore affects the host and the names below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::sites::Site;
use super::state::Translator;
use super::state::owners::{Claim, Nameless, Standing, is_alone};
use crate::few::set_of;
use crate::model::Host;
use crate::settings::{NamespaceOwnership, Settings};
use crate::translate::conflicts::ConflictPlace;
use crate::translate::host::parent;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::Source;
use crate::translate::virtual_host::DefaultBackend;

impl Translator {
    /// Returns the Ingresses with a rule for `host`, in the order of precedence.
    fn with_rule(&self, host: &Host) -> Vec<&Source> {
        let mut naming = self.naming(host);
        naming.retain(|source| source.shared.rules_on(host));
        naming
    }

    /// Decides which Ingresses may define rules for `host`.
    pub(super) fn standing(&self, host: &Host, settings: &Settings) -> Standing<'_> {
        let above = parent(host).and_then(|parent| self.sites.get(&parent));
        self.standing_among(&self.naming(host), host, above, settings)
    }

    /// Decides which Ingresses may define rules for `host`. `naming` are the Ingresses that name the host, in the order
    /// of precedence. `above` is the wildcard above it.
    pub(super) fn standing_among<'a>(
        &'a self,
        naming: &[&'a Source],
        host: &Host,
        above: Option<&Site>,
        settings: &Settings,
    ) -> Standing<'a> {
        let named: Vec<&Source> = naming.iter().copied().filter(|source| source.shared.rules_on(host)).collect();
        let claim = match settings.namespace_ownership {
            NamespaceOwnership::Strict => self.claim(host, &named, above),
            NamespaceOwnership::InterNamespaceAllowed => None,
        };
        let (mut served, rejected): (Vec<_>, Vec<_>) = match &claim {
            Some(claim) => {
                // Thousands of Ingresses can be of few namespaces.
                let mut permitted = BTreeMap::<&Arc<str>, bool>::new();
                named.into_iter().partition(|source| {
                    let namespace = &source.origin.namespace;
                    *permitted.entry(namespace).or_insert_with(|| claim.permits(namespace))
                })
            }
            None => (named, Vec::new()),
        };
        let of = |namespace: &Arc<str>| served.iter().any(|source| source.origin.namespace == *namespace);
        let owner = claim.as_ref().map(Claim::owner).filter(|owner| of(owner));
        let is_alone = |source: &Source| is_alone(source, self.dialects);
        let defining = served.iter().find(|source| is_alone(source)).or(served.first());
        if let Some(first) = owner.or(defining.map(|source| &source.origin.namespace)).cloned() {
            // The sort is stable, so each namespace keeps the order of precedence. An object that is being deleted
            // loses to all others.
            served.sort_by_key(|source| {
                (source.precedence.terminating, source.origin.namespace != first, !is_alone(source))
            });
        }
        let (duplicates, alone) = (Vec::new(), None);
        let mut standing = Standing { served, rejected, duplicates, alone, claim };
        standing.reject_duplicates(self.dialects);
        standing
    }

    /// Returns the claim of the owner of `host`. `named` have a rule for the host, and `above` is the wildcard above
    /// it.
    fn claim(&self, host: &Host, named: &[&Source], above: Option<&Site>) -> Option<Claim> {
        if *host == Host::Any {
            return self.nameless.claim.clone();
        }
        // The namespaces of a HostGrant for the name itself can differ from those for the wildcard above it.
        let has_grant = self.host_grants.is_named(host);
        let above = above.and_then(|site| site.claim.as_deref()).filter(|_| !has_grant);
        let of_source = |source: &Source| (source.precedence.clone(), source.origin.clone());
        // A stored claim for the host precedes the claim for the wildcard above it, and both precede the age of objects.
        let above_host = parent(host).filter(|_| !has_grant);
        let holder_above = || above_host.as_ref().and_then(|above| self.claims.holder(above));
        let (owner, through, at) = match self.claims.holder(host) {
            Some(holder) => {
                let own = named.iter().find(|source| source.origin.namespace == *holder);
                (holder.clone(), own.map(|source| of_source(source)), host)
            }
            None => match holder_above() {
                Some(holder) => {
                    let through = above.filter(|above| above.owner() == holder).and_then(|above| above.through.clone());
                    (holder.clone(), through, above_host.as_ref()?)
                }
                None => {
                    let direct = named.first().map(|source| (of_source(source), host));
                    let through = above.and_then(|above| Some((above.through.clone()?, &above.host)));
                    let ((since, ingress), at) = direct.into_iter().chain(through).min()?;
                    (ingress.namespace.clone(), Some((since, ingress)), at)
                }
            },
        };
        let delegates = match host {
            Host::Exact(_) => {
                let above = above.filter(|above| *above.owner() == owner);
                let above = above.into_iter().flat_map(|above| above.delegates.iter());
                lists_of(named.iter().copied(), &owner).chain(above).cloned().collect()
            }
            Host::Wildcard(_) | Host::Any => combined(lists_of(named.iter().copied(), &owner)),
        };
        let host = at.clone();
        Some(Claim { owner, through, host, delegates })
    }

    /// Finds the owner and the default backend of the hosts that no rule names. Returns whether either has changed.
    pub(super) fn find_nameless(&mut self, settings: &Settings) -> bool {
        let with_default = || {
            let source = self.with_default.iter().filter_map(|rank| self.sources.at(rank));
            source.filter_map(|source| Some((source, source.shared.default_backend.as_deref()?)))
        };
        let with_rule = self.with_rule(&Host::Any);
        let claim = match settings.namespace_ownership {
            NamespaceOwnership::InterNamespaceAllowed => None,
            NamespaceOwnership::Strict => {
                let rule_less: Vec<_> =
                    with_default().map(|(source, _)| source).filter(|one| one.shared.rule_less).collect();
                let asking = with_rule.iter().chain(&rule_less).copied().map(|source| (false, source));
                // The default backend of an Ingress with rules applies if no Ingress requests all hosts.
                let others = with_default().map(|(source, _)| (true, source));
                let rank = |source: &Source, other| (source.precedence.terminating, other, source.precedence.clone());
                let owner = asking.chain(others).min_by_key(|(other, source)| rank(source, *other));
                let owner = owner.map(|(_, source)| source);
                owner.map(|owner| Claim {
                    owner: owner.origin.namespace.clone(),
                    through: Some((owner.precedence.clone(), owner.origin.clone())),
                    host: Host::Any,
                    delegates: combined(lists_of(with_rule.iter().chain(&rule_less).copied(), &owner.origin.namespace)),
                })
            }
        };
        let permitted = |source: &Source| claim.as_ref().is_none_or(|claim| claim.permits(&source.origin.namespace));
        let foreign = |source: &Source| claim.as_ref().is_some_and(|claim| *claim.owner() != source.origin.namespace);
        let candidates = with_default().filter(|(source, _)| permitted(source));
        let winner = candidates.min_by_key(|(source, _)| {
            let rank = source.precedence.clone();
            (rank.terminating, foreign(source), !source.shared.rule_less, rank)
        });
        let winner = winner.map(|(source, target)| DefaultBackend::new(&source.precedence, target));
        let losers =
            with_default().filter(|(_, target)| winner.as_ref().is_none_or(|one| *one.origin() != target.origin));
        let problems = losers.filter(|(source, _)| !source.shared.default_backend_in_rules).map(|(source, _)| {
            let message = match (&claim, &winner) {
                (Some(claim), _) if !permitted(source) => claim.states(&Host::Any),
                (_, Some(winner)) => {
                    format!("the default backend for hosts that no rule names is defined by {}", winner.origin())
                }
                (_, None) => String::new(),
            };
            Arc::new(Problem {
                object: source.origin.clone(),
                field: "spec.defaultBackend".to_owned(),
                reason: Reason::Conflicted,
                message: message.into(),
                consequence: "default backend not used".to_owned(),
            })
        });
        let problems: Vec<_> = problems.collect();
        let changed = winner != self.nameless.catch_all || claim != self.nameless.claim;
        let before = std::mem::replace(&mut self.nameless, Nameless { claim, catch_all: winner, problems });
        self.replace_conflicts(ConflictPlace::Shared, &before.problems, &self.nameless.problems.clone());
        changed
    }
}

/// Returns the lists of namespaces that the Ingresses of `owner` delegate their hosts to.
fn lists_of<'a>(
    ingresses: impl Iterator<Item = &'a Source>,
    owner: &Arc<str>,
) -> impl Iterator<Item = &'a Arc<[Arc<str>]>> {
    let own = ingresses.filter(|source| source.origin.namespace == *owner);
    own.map(|source| &source.shared.delegates).filter(|delegates| !delegates.is_empty())
}

/// Combines lists into one, if there is any.
fn combined<'a>(lists: impl Iterator<Item = &'a Arc<[Arc<str>]>>) -> Box<[Arc<[Arc<str>]>]> {
    let all = set_of(lists.flat_map(|list| list.iter().cloned()).collect());
    if all.is_empty() { Box::default() } else { [Arc::from(all)].into() }
}
