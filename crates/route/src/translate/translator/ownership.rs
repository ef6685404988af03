//! The namespaces that may define routes for a host: owners, delegation, and hosts that no rule names.
//!
//! A single order of precedence ([`Precedence`]) decides who owns a host and which of two equal paths is served. The
//! owner of a host depends on the Ingresses with a rule for it and on the owner of the wildcard above it. A change of
//! an owner therefore affects the host and the names below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::Translator;
use super::conflicts::Place;
use super::sites::Site;
use crate::model::Host;
use crate::objects::Precedence;
use crate::settings::{NamespaceOwnership, Settings};
use crate::translate::few::set_of;
use crate::translate::host::parent;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::{Source, Target};

/// A namespace's ownership of a host, and the namespaces that it delegates the host to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    since: Precedence,
    /// The Ingress through which the namespace owns the host.
    pub ingress: ObjectRef,
    /// The host of that Ingress: the host itself, or the wildcard above it.
    host: Host,
    /// The namespaces that the owner delegates the host to: a sorted list of each Ingress, and one of the wildcard above. Thousands
    /// of hosts can share a list of a thousand namespaces, so the lists of an exact host are not combined.
    delegates: Box<[Arc<[Arc<str>]>]>,
}

impl Claim {
    /// Returns the namespace that owns the host.
    fn owner(&self) -> &Arc<str> {
        &self.ingress.namespace
    }

    /// Returns whether Ingresses of `namespace` may define routes for the host.
    fn permits(&self, namespace: &Arc<str>) -> bool {
        self.owner() == namespace || self.delegates.iter().any(|list| list.binary_search(namespace).is_ok())
    }

    /// Describes the owner of `host` for a message.
    fn states(&self, host: &Host) -> String {
        let through = match self.host == *host {
            true => String::new(),
            false => format!(" through \"{}\"", self.host),
        };
        let host = match host {
            Host::Any => "the hosts that no rule names are".to_owned(),
            host => format!("host \"{host}\" is"),
        };
        let (owner, ingress) = (self.owner(), &self.ingress);
        format!("{host} owned by namespace \"{owner}\" ({ingress}{through}), and \"namespaceOwnership\" is \"Strict\"")
    }
}

/// The Ingresses with a rule for a host, divided into served and rejected Ingresses.
#[derive(Debug, Default)]
pub struct Standing<'a> {
    /// The Ingresses whose rules are served. The Ingresses of the first namespace precede the others, and each group is
    /// in the order of precedence. The first namespace is the owner if it has a rule for the host, otherwise the
    /// namespace with the oldest rule.
    pub served: Vec<&'a Source>,
    /// The Ingresses whose rules are rejected.
    rejected: Vec<&'a Source>,
    /// The claim of the host's owner, with [`NamespaceOwnership::Strict`].
    pub claim: Option<Claim>,
}

impl Standing<'_> {
    /// Returns the Ingress through which the host is owned.
    pub fn owner(&self) -> Option<&ObjectRef> {
        self.claim.as_ref().map(|claim| &claim.ingress)
    }

    /// Adds a problem for every rejected rule for `host`.
    pub fn report(&self, host: &Host, problems: &mut Vec<Problem>) {
        let Some(claim) = &self.claim else { return };
        for source in &self.rejected {
            problems.extend(source.rules_for(host).map(|rule| Problem {
                object: source.origin.clone(),
                field: rule.field.to_string(),
                reason: Reason::Conflicted,
                message: claim.states(host),
                consequence: "rule left out".to_owned(),
            }));
        }
    }
}

/// The hosts that no rule names.
#[derive(Debug, Default)]
pub struct Nameless {
    /// The claim of their owner, with [`NamespaceOwnership::Strict`].
    claim: Option<Claim>,
    /// Their default backend.
    pub catch_all: Option<Target>,
    /// The problems of other default backends.
    problems: Vec<Arc<Problem>>,
}

impl Translator {
    /// Returns the Ingresses with a rule for `host`, in the order of precedence.
    fn with_rule(&self, host: &Host) -> Vec<&Source> {
        let mut naming = self.naming(host);
        naming.retain(|source| source.rules_on(host));
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
        let named: Vec<&Source> = naming.iter().copied().filter(|source| source.rules_on(host)).collect();
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
        if let Some(first) = owner.or(served.first().map(|source| &source.origin.namespace)).cloned() {
            // The sort is stable, so each namespace keeps the order of precedence. An object that is being deleted
            // loses to all others.
            served.sort_by_key(|source| (source.precedence.terminating, source.origin.namespace != first));
        }
        Standing { served, rejected, claim }
    }

    /// Returns the claim of the owner of `host`. `named` have a rule for the host, and `above` is the wildcard above
    /// it.
    fn claim(&self, host: &Host, named: &[&Source], above: Option<&Site>) -> Option<Claim> {
        if *host == Host::Any {
            return self.nameless.claim.clone();
        }
        let above = above.and_then(|site| site.claim.as_ref());
        let direct = named.first().map(|source| (source.precedence.clone(), &source.origin, host));
        let through = above.map(|claim| (claim.since.clone(), &claim.ingress, &claim.host));
        let (since, ingress, through) = direct.into_iter().chain(through).min()?;
        let (ingress, through) = (ingress.clone(), through.clone());
        let delegates = match host {
            Host::Exact(_) => {
                let above = above.filter(|above| *above.owner() == ingress.namespace);
                let above = above.into_iter().flat_map(|above| above.delegates.iter());
                lists_of(named.iter().copied(), &ingress.namespace).chain(above).cloned().collect()
            }
            Host::Wildcard(_) | Host::Any => combined(lists_of(named.iter().copied(), &ingress.namespace)),
        };
        Some(Claim { since, ingress, host: through, delegates })
    }

    /// Finds the owner and the default backend of the hosts that no rule names. Returns whether either has changed.
    pub(super) fn find_nameless(&mut self, settings: &Settings) -> bool {
        let with_default = || {
            let source = self.with_default.iter().filter_map(|rank| self.source(rank));
            source.filter_map(|source| Some((source, source.default_backend.as_deref()?)))
        };
        let with_rule = self.with_rule(&Host::Any);
        let claim = match settings.namespace_ownership {
            NamespaceOwnership::InterNamespaceAllowed => None,
            NamespaceOwnership::Strict => {
                let rule_less: Vec<_> = with_default().map(|(source, _)| source).filter(|one| one.rule_less).collect();
                let asking = with_rule.iter().chain(&rule_less).copied().map(|source| (false, source));
                // The default backend of an Ingress with rules applies if no Ingress requests all hosts.
                let others = with_default().map(|(source, _)| (true, source));
                let rank = |source: &Source, other| (source.precedence.terminating, other, source.precedence.clone());
                let owner = asking.chain(others).min_by_key(|(other, source)| rank(source, *other));
                let owner = owner.map(|(_, source)| source);
                owner.map(|owner| Claim {
                    since: owner.precedence.clone(),
                    ingress: owner.origin.clone(),
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
            (rank.terminating, foreign(source), !source.rule_less, rank)
        });
        let winner = winner.map(|(_, target)| target.clone());
        let losers = with_default().filter(|(_, target)| winner.as_ref().is_none_or(|one| one.origin != target.origin));
        let problems = losers.filter(|(source, _)| !source.default_backend_in_rules).map(|(source, _)| {
            let message = match (&claim, &winner) {
                (Some(claim), _) if !permitted(source) => claim.states(&Host::Any),
                (_, Some(winner)) => {
                    format!("the default backend for hosts that no rule names is defined by {}", winner.origin)
                }
                (_, None) => String::new(),
            };
            Arc::new(Problem {
                object: source.origin.clone(),
                field: "spec.defaultBackend".to_owned(),
                reason: Reason::Conflicted,
                message,
                consequence: "default backend not used".to_owned(),
            })
        });
        let problems: Vec<_> = problems.collect();
        let changed = winner != self.nameless.catch_all || claim != self.nameless.claim;
        let before = std::mem::replace(&mut self.nameless, Nameless { claim, catch_all: winner, problems });
        self.replace_conflicts(Place::Shared, &before.problems, &self.nameless.problems.clone());
        changed
    }
}

/// Returns the lists of namespaces that the Ingresses of `owner` delegate their hosts to.
fn lists_of<'a>(
    ingresses: impl Iterator<Item = &'a Source>,
    owner: &Arc<str>,
) -> impl Iterator<Item = &'a Arc<[Arc<str>]>> {
    let own = ingresses.filter(|source| source.origin.namespace == *owner);
    own.map(|source| &source.delegates).filter(|delegates| !delegates.is_empty())
}

/// Combines lists into one, if there is any.
fn combined<'a>(lists: impl Iterator<Item = &'a Arc<[Arc<str>]>>) -> Box<[Arc<[Arc<str>]>]> {
    let all = set_of(lists.flat_map(|list| list.iter().cloned()).collect());
    if all.is_empty() { Box::default() } else { [Arc::from(all)].into() }
}
