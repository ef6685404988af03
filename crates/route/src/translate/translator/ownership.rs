//! The namespaces that may define routes for a host: owners, delegation, and hosts that no rule names.
//!
//! A single order of precedence ([`Precedence`]) decides who owns a host that nobody claims, and which of two equal paths is
//! served. The owner of a host depends on the stored claims ([`Claims`](super::claims::Claims)), the Ingresses with a rule for
//! it, and the owner of the wildcard above it. A change of an owner therefore affects the host and the names below it.

use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::Translator;
use super::sites::Site;
use crate::few::set_of;
use crate::model::Host;
use crate::objects::Precedence;
use crate::settings::{NamespaceOwnership, Settings};
use crate::translate::conflicts::ConflictPlace;
use crate::translate::dialect::{self, Dialect, Sharing};
use crate::translate::host::parent;
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::{HostClientValidation, Source, Stream};
use crate::translate::tls::Routing;
use crate::translate::virtual_host::DefaultBackend;

/// A namespace's ownership of a host, and the namespaces that it delegates the host to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The namespace that owns the host.
    owner: Arc<str>,
    /// The Ingress through which the namespace owns the host, and its rank. `None`: the host is kept for the namespace by a
    /// stored claim alone.
    through: Option<(Precedence, ObjectRef)>,
    /// The host of that Ingress: the host itself, or the wildcard above it.
    host: Host,
    /// The namespaces that the owner delegates the host to: a sorted list of each Ingress, and one of the wildcard above. Thousands
    /// of hosts can share a list of a thousand namespaces, so the lists of an exact host are not combined.
    delegates: Box<[Arc<[Arc<str>]>]>,
}

impl Claim {
    /// Returns the namespace that owns the host.
    fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Returns the Ingress through which the namespace owns the host.
    fn ingress(&self) -> Option<&ObjectRef> {
        self.through.as_ref().map(|(_, ingress)| ingress)
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
        let Some(ingress) = self.ingress() else {
            return format!(
                "host \"{host}\" is kept for namespace \"{}\"{through} for 60 s after its last rule, and \"namespaceOwnership\" \
                 is \"Strict\"",
                self.owner
            );
        };
        let host = match host {
            Host::Any => "the hosts that no rule names are".to_owned(),
            host => format!("host \"{host}\" is"),
        };
        let owner = &self.owner;
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
    /// The objects whose rules are rejected because an older object defines all of the host.
    duplicates: Vec<&'a Source>,
    /// The oldest object that defines all of the host.
    alone: Option<&'a Source>,
    /// The claim of the host's owner, with [`NamespaceOwnership::Strict`].
    pub claim: Option<Claim>,
}

impl<'a> Standing<'a> {
    /// Returns the Ingress through which the host is owned.
    pub fn owner(&self) -> Option<&ObjectRef> {
        self.claim.as_ref().and_then(Claim::ingress)
    }

    /// Returns the owner if it has a rule for the host. An Ingress that is being deleted has none.
    pub fn owner_with_rule(&self) -> Option<&Arc<str>> {
        let owner = self.claim.as_ref()?.owner();
        let with_rules = self.served.iter().chain(&self.duplicates);
        let mut lasting = with_rules.filter(|source| !source.precedence.terminating);
        lasting.any(|source| source.origin.namespace == *owner).then_some(owner)
    }

    /// Returns the routing of a host that no rule serves. If the host is kept for a namespace, other namespaces wait.
    pub fn waiting(&self, host: &Host) -> Routing {
        let kept = self.claim.as_ref().filter(|claim| claim.through.is_none());
        kept.map_or_else(Routing::default, |claim| Routing::kept(claim.owner.clone(), claim.states(host)))
    }

    /// Adds a problem for every rejected rule for `host`.
    pub fn report(&self, host: &Host, problems: &mut Vec<Problem>) {
        let mut report = |source: &Source, reason: Reason, message: &str| {
            problems.extend(source.shared.rules_for(host).map(|rule| Problem {
                object: source.origin.clone(),
                field: rule.field.to_string(),
                reason,
                message: message.into(),
                consequence: "rule left out".to_owned(),
            }));
        };
        if let Some(claim) = &self.claim {
            self.rejected.iter().for_each(|source| report(source, Reason::Conflicted, &claim.states(host)));
        }
        if let Some(alone) = self.alone {
            let message = format!("host \"{host}\" is defined by {}, which takes precedence", alone.origin);
            self.duplicates.iter().for_each(|source| report(source, Reason::DuplicateVhost, &message));
        }
    }

    /// Rejects all objects that define all of the host, except for the oldest one.
    fn reject_duplicates(&mut self, dialects: &[Dialect]) {
        let is_alone = |source: &&Source| is_alone(source, dialects);
        self.alone = self.served.iter().copied().filter(is_alone).min_by_key(|source| &source.precedence);
        let Some(alone) = self.alone else { return };
        let is_duplicate = |source: &mut &Source| is_alone(source) && source.precedence != alone.precedence;
        self.duplicates = self.served.extract_if(.., is_duplicate).collect();
        let of_same_host = |source: &mut &Source| is_alone(source);
        self.duplicates.extend(self.rejected.extract_if(.., of_same_host));
    }

    /// Returns the object whose TLS connections for the host are forwarded, and where their bytes go.
    pub fn stream(&self) -> Option<(&'a Source, &'a Stream)> {
        let alone = self.alone?;
        Some((alone, alone.shared.stream.as_deref()?))
    }

    /// Returns the object that verifies the clients of the host, and how.
    pub fn clients(&self) -> Option<(&'a Source, &'a Arc<HostClientValidation>)> {
        let alone = self.alone?;
        Some((alone, alone.shared.clients.as_ref()?))
    }

    /// Returns whether clients that send no server name reach the host.
    pub fn is_without_server_name(&self) -> bool {
        self.alone.is_some_and(|alone| alone.shared.is_without_server_name)
    }

    /// Returns the sources whose TLS entries may apply, of `naming`: those of an object that defines all of the host come first.
    pub fn with_entries(&self, naming: &[&'a Source]) -> Vec<&'a Source> {
        let is_alone = |source: &Source| self.alone.is_some_and(|alone| alone.precedence == source.precedence);
        let is_duplicate =
            |source: &Source| self.duplicates.iter().any(|duplicate| duplicate.precedence == source.precedence);
        let mut sources: Vec<_> = naming.iter().copied().filter(|source| !is_duplicate(source)).collect();
        sources.sort_by_key(|source| !is_alone(source));
        sources
    }
}

/// The hosts that no rule names.
#[derive(Debug, Default)]
pub struct Nameless {
    /// The claim of their owner, with [`NamespaceOwnership::Strict`].
    claim: Option<Claim>,
    /// Their default backend.
    pub catch_all: Option<DefaultBackend>,
    /// The problems of other default backends.
    problems: Vec<Arc<Problem>>,
}

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

/// Returns whether a source defines all of its hosts.
fn is_alone(source: &Source, dialects: &[Dialect]) -> bool {
    dialect::of(dialects, source.precedence.kind).is_some_and(|dialect| dialect.sharing == Sharing::Alone)
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
