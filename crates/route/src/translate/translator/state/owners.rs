//! The owners of hosts.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::Host;
use crate::objects::Precedence;
use crate::translate::dialect::{self, Dialect, Sharing};
use crate::translate::problem::{Problem, Reason};
use crate::translate::source::{HostClientValidation, Source, Stream};
use crate::translate::tls::Routing;
use crate::translate::virtual_host::DefaultBackend;

/// A namespace's ownership of a host, and the namespaces that it delegates the host to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The namespace that owns the host.
    pub owner: Arc<str>,
    /// The Ingress through which the namespace owns the host, and its rank. `None`: the host is kept for the namespace by a
    /// stored claim alone.
    pub through: Option<(Precedence, ObjectRef)>,
    /// The host of that Ingress: the host itself, or the wildcard above it.
    pub host: Host,
    /// The namespaces that the owner delegates the host to: a sorted list of each Ingress, and one of the wildcard above. Thousands
    /// of hosts can share a list of a thousand namespaces, so the lists of an exact host are not combined.
    pub delegates: Box<[Arc<[Arc<str>]>]>,
}

impl Claim {
    /// Returns the namespace that owns the host.
    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    /// Returns the Ingress through which the namespace owns the host.
    fn ingress(&self) -> Option<&ObjectRef> {
        self.through.as_ref().map(|(_, ingress)| ingress)
    }

    /// Returns whether Ingresses of `namespace` may define routes for the host.
    pub fn permits(&self, namespace: &Arc<str>) -> bool {
        self.owner() == namespace || self.delegates.iter().any(|list| list.binary_search(namespace).is_ok())
    }

    /// Describes the owner of `host` for a message.
    pub fn states(&self, host: &Host) -> String {
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
    pub rejected: Vec<&'a Source>,
    /// The objects whose rules are rejected because an older object defines all of the host.
    pub duplicates: Vec<&'a Source>,
    /// The oldest object that defines all of the host.
    pub alone: Option<&'a Source>,
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
    pub fn reject_duplicates(&mut self, dialects: &[Dialect]) {
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
    pub claim: Option<Claim>,
    /// Their default backend.
    pub catch_all: Option<DefaultBackend>,
    /// The problems of other default backends.
    pub problems: Vec<Arc<Problem>>,
}

/// Returns whether a source defines all of its hosts.
pub fn is_alone(source: &Source, dialects: &[Dialect]) -> bool {
    dialect::of(dialects, source.precedence.kind).is_some_and(|dialect| dialect.sharing == Sharing::Alone)
}
