//! TLS: which names are served behind it, with which Secret.

mod chosen;

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{self, Host, KeyPair, Secret, SecretId, SecretPart, TlsVersion};
use crate::objects::{self, Kind, ObjectKey, Objects};
use crate::settings::Settings;

use super::dialect::Reading;
use super::few::set_of;
use super::host;
use super::problem::{Problem, Reason};
use super::source::{Field, Rule, Source};

pub use chosen::{client_certificate, default_secret, fallback_secret, stats};

/// What a name is served with behind TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// The Secret.
    pub secret: SecretId,
    /// Lowest TLS version.
    pub minimum: TlsVersion,
    /// Highest TLS version.
    pub maximum: TlsVersion,
    /// Whether the object whose Secret or setting this is is being deleted.
    pub terminating: bool,
    /// The objects that ask for it.
    pub origins: Vec<ObjectRef>,
}

/// TLS for some hosts of a source: an element of `spec.tls` of an Ingress.
#[derive(Debug, PartialEq)]
pub struct Entry {
    /// The field of the entry.
    pub field: Field,
    /// The valid hosts that it lists.
    pub hosts: Vec<Host>,
    /// Whether it lists none at all, so that its certificate says what it is for.
    pub hostless: bool,
    /// What its Secret has.
    pub material: Material,
}

/// What the Secret of an entry has.
#[derive(Debug, PartialEq)]
pub enum Material {
    /// A usable key pair.
    Pair(SecretId, Arc<KeyPair>),
    /// No Secret is named: the default certificate is meant.
    Default,
    /// No usable key pair, and why.
    Unusable(String),
    /// A Secret of another namespace, which its annotation's problem has told.
    Foreign,
}

impl Material {
    /// Returns what the Secret `key` of the entry `field` has, and a problem if that is its last good pair, or has expired.
    pub fn read(object: &ObjectRef, field: Field, key: ObjectKey, reading: &mut Reading) -> (Self, Option<Problem>) {
        let name = key.to_string();
        let Some(secret) = reading.secret(key) else {
            return (Self::Unusable(format!("Secret \"{name}\" {MISSING}")), None);
        };
        let fault = secret.fault.as_deref().map(|fault| format!("Secret \"{name}\": {fault}"));
        let Some(pair) = secret.pair.clone() else {
            let unknown = || format!("Secret \"{name}\" has no usable key pair");
            return (Self::Unusable(fault.unwrap_or_else(unknown)), None);
        };
        if !is_servable(&pair, reading.context.settings) {
            return (Self::Unusable(format!("Secret \"{name}\": {NOT_OVER_QUIC}")), None);
        }
        let problem = fault.map(|message| Problem {
            object: object.clone(),
            field: format!("{field}.secretName"),
            reason: Reason::SecretNotValid,
            message,
            consequence: instead(secret).to_owned(),
        });
        (Self::Pair(SecretId::new(secret.meta.key.clone(), SecretPart::KeyPair), pair), problem)
    }

    fn pair(&self) -> Option<(&SecretId, &KeyPair)> {
        match self {
            Material::Pair(name, pair) => Some((name, pair)),
            _ => None,
        }
    }
}

/// What became of a host whose entry has no usable key pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instead {
    /// The default certificate is presented.
    Default,
    /// Another Secret is presented.
    Other(SecretId),
    /// The name is not served behind TLS.
    Nothing,
}

/// What the end of a message says of a Secret that is not among the objects.
const MISSING: &str = "does not exist, or is neither of type \"kubernetes.io/tls\" nor \"Opaque\"";

/// Returns a secret of the model.
pub fn secret(objects: &Objects, id: &SecretId) -> Option<Secret> {
    let secret = objects.get::<objects::Secret>(id.object())?;
    let material = match id.part() {
        SecretPart::Authorities => model::Material::Authorities(secret.authorities.clone()?),
        SecretPart::KeyPair => model::Material::Pair(secret.pair.clone()?),
    };
    Some(Secret { material, origin: secret.meta.object_ref(Kind::SECRET) })
}

/// The fault of a key pair that is not servable.
const NOT_OVER_QUIC: &str = "the key is Ed25519, which Envoy does not serve while \"http.http3.enabled\" is on";

/// Whether Envoy takes a key pair in all listeners of hosts. The one for HTTP/3 takes no Ed25519, and rejects all other key
/// pairs of the same response with it. Source: Envoy `deduceSignatureAlgorithmFromPublicKey`, tried with Envoy 1.40.
fn is_servable(pair: &KeyPair, settings: &Settings) -> bool {
    !(pair.is_ed25519 && settings.http.http3.enabled)
}

/// Returns what is served instead of a usable key pair of `secret`.
fn instead(secret: &objects::Secret) -> &'static str {
    if secret.serves_expired() { "still served, and clients refuse it" } else { "last good key pair kept" }
}

/// An entry and its Ingress.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// The Ingress.
    pub source: &'a Source,
    /// The entry.
    pub entry: &'a Entry,
}

/// What came of looking for what a host is served with.
#[derive(Debug, Default)]
pub struct Found {
    /// What it is served with.
    pub chain: Option<Chain>,
    /// What is wrong with entries for it alone.
    pub problems: Vec<Problem>,
    /// The entries for it without a usable key pair.
    pub missed: Vec<Missed>,
    /// Whether an entry that names it counts.
    pub counts: bool,
}

/// An entry without a usable key pair, and what a host of it is served with instead.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missed {
    /// The Ingress.
    pub object: ObjectRef,
    /// The field of the entry.
    pub field: String,
    /// What is wrong.
    pub fault: String,
    /// What became of the host.
    pub instead: Instead,
}

/// The namespaces whose rules serve a host.
#[derive(Debug, Default)]
pub struct Routing {
    /// Sorted; empty if no rule applies to the host.
    namespaces: Box<[Arc<str>]>,
    /// An Ingress of the first namespace: the host's owner, if it has one.
    first: Option<ObjectRef>,
}

impl Routing {
    /// The routing of a host that the rules of these Ingresses serve, those of the first namespace first. An owner without
    /// a rule for the host has delegated it, and may present its certificate.
    pub fn new(served: &[&Source], owner: Option<&ObjectRef>) -> Self {
        let first = owner.or(served.first().map(|source| &source.origin));
        let namespaces = served.iter().map(|source| &source.origin).chain(first).map(|origin| origin.namespace.clone());
        Self { namespaces: set_of(namespaces.collect()), first: first.cloned() }
    }

    /// Whether TLS entries of `namespace` count: it has a rule for the host, or no namespace has one.
    fn counts(&self, namespace: &Arc<str>) -> bool {
        self.namespaces.is_empty() || self.namespaces.binary_search(namespace).is_ok()
    }

    /// Whether the certificate in `secret` may be presented: it is of a namespace whose entries count.
    fn presents(&self, secret: &SecretId) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(&secret.object().namespace)
    }

    /// Whether `namespace` is the first.
    fn is_first(&self, namespace: &Arc<str>) -> bool {
        self.first.as_ref().is_some_and(|first| first.namespace == *namespace)
    }
}

/// What `host` is served with behind TLS.
///
/// In this order: an entry that names it, the oldest usable one whose certificate covers it; what the wildcard above it is
/// served with; an entry of an Ingress that has the name in a rule, and whose certificate covers it; the default certificate.
///
/// Only entries of namespaces in `routing` count, and of these only the first namespace's if it asks for TLS. The wildcard's
/// certificate is presented only if its namespace is in `routing`, too, and is the first if that asks for TLS.
///
/// Entries and wildcards of objects that are being deleted count only if no other object has an entry for the host.
///
/// `naming`: the entries that name the host. `beside`: all entries of those Ingresses that name it in a rule. Both are in
/// the order of precedence. `above`: what the wildcard above is served with.
pub fn chain(
    host: &Host,
    naming: &[Asking],
    beside: &[Asking],
    above: Option<&Chain>,
    default: Option<&SecretId>,
    routing: &Routing,
) -> Found {
    let is_default = |chain: &Chain| Some(&chain.secret) == default;
    let above = above.filter(|above| is_default(above) || routing.presents(&above.secret));
    let of_first = |asking: &&Asking| routing.is_first(asking.namespace());
    let first: [Vec<Asking>; 2] = [naming, beside].map(|some| some.iter().filter(of_first).copied().collect());
    let counting = |asking: &&Asking| routing.counts(asking.namespace());
    let all: [Vec<Asking>; 2] = [naming, beside].map(|some| some.iter().filter(counting).copied().collect());
    let is_of_first = |secret: &SecretId| routing.is_first(&secret.object().namespace);
    let first_is_above = above.is_some_and(|above| !is_default(above) && is_of_first(&above.secret));
    let first_asks = first_is_above || asks(host, &first[0], &first[1]);
    let above = above.filter(|above| !first_asks || is_default(above) || is_of_first(&above.secret));
    let [counted, beside] = if first_asks { first } else { all };
    let mut found = choose(host, &counted, &beside, above, default);
    found.counts = !counted.is_empty();
    for ignored in naming.iter().filter(|asking| !counted.iter().any(|one| one.is(asking))) {
        if let Some(first) = &routing.first {
            found.problems.push(ignored.ignored(host, first));
        }
    }
    found
}

/// Whether one of these entries asks for TLS on `host`.
fn asks(host: &Host, naming: &[Asking], beside: &[Asking]) -> bool {
    let covers = |asking: &Asking| asking.covering(host).is_some();
    !naming.is_empty() || beside.iter().any(|asking| asking.is_blind() || covers(asking))
}

/// The same, of entries that all count.
fn choose(
    host: &Host,
    naming: &[Asking],
    beside: &[Asking],
    above: Option<&Chain>,
    default: Option<&SecretId>,
) -> Found {
    let mut found = Found::default();
    let blind = beside.iter().filter(|asking| asking.is_blind());
    let asking: Vec<Asking> = naming.iter().chain(blind).copied().collect();
    let mut chain = lasting(naming, beside, above)
        .and_then(|(naming, beside, above)| first_of(host, &naming, &beside, above, default))
        .or_else(|| first_of(host, naming, beside, above, default));
    if let Some(chain) = &mut chain {
        chain.origins.extend(asking.iter().map(|asking| asking.source.origin.clone()));
        chain.origins.sort();
        chain.origins.dedup();
    }
    for asking in asking {
        asking.note(host, chain.as_ref(), default, &mut found);
    }
    found.chain = chain;
    found
}

/// Entries that name a host, those beside it, and what the wildcard above it is served with.
type Candidates<'a, 'c> = (Vec<Asking<'a>>, Vec<Asking<'a>>, Option<&'c Chain>);

/// Returns the candidates of objects that are not being deleted, if these have an entry, and others compete with it.
fn lasting<'a, 'c>(
    naming: &[Asking<'a>],
    beside: &[Asking<'a>],
    above: Option<&'c Chain>,
) -> Option<Candidates<'a, 'c>> {
    let is_lasting = |asking: &&Asking| !asking.source.precedence.terminating;
    let lasting = |entries: &[Asking<'a>]| -> Vec<_> { entries.iter().filter(is_lasting).copied().collect() };
    let lasting_above = above.filter(|above| !above.terminating);
    if naming.iter().chain(beside).all(|asking| is_lasting(&asking)) && lasting_above.is_some() == above.is_some() {
        return None;
    }
    let (naming, beside) = (lasting(naming), lasting(beside));
    (!naming.is_empty() || !beside.is_empty()).then_some((naming, beside, lasting_above))
}

/// Chooses what `host` is served with, by the order that [`chain`] describes.
fn first_of(
    host: &Host,
    naming: &[Asking],
    beside: &[Asking],
    above: Option<&Chain>,
    default: Option<&SecretId>,
) -> Option<Chain> {
    let covering = |asking: &[Asking]| asking.iter().find_map(|asking| Some(asking.chain(asking.covering(host)?)));
    let asking = naming.first().or_else(|| beside.iter().find(|asking| asking.is_blind()));
    covering(naming)
        .or_else(|| above.filter(|above| Some(&above.secret) != default).cloned())
        .or_else(|| covering(beside))
        .or_else(|| Some(asking?.chain(default?)))
        .or_else(|| above.cloned())
}

impl Asking<'_> {
    fn namespace(&self) -> &Arc<str> {
        &self.source.origin.namespace
    }

    /// Whether both are the same entry.
    fn is(&self, other: &Asking) -> bool {
        std::ptr::eq(self.entry, other.entry)
    }

    /// The Secret, if its certificate covers `host`.
    fn covering(&self, host: &Host) -> Option<&SecretId> {
        let (secret, pair) = self.entry.material.pair()?;
        host::covered(host, &pair.names).then_some(secret)
    }

    /// Whether it lists no hosts and has no certificate that could state them: it is for all hosts of its Ingress.
    fn is_blind(&self) -> bool {
        self.entry.hostless && self.entry.material.pair().is_none()
    }

    /// The chain that the entry gives with `secret`.
    fn chain(&self, secret: &SecretId) -> Chain {
        Chain {
            secret: secret.clone(),
            minimum: self.source.tls_versions.0,
            maximum: self.source.tls_versions.1,
            terminating: self.source.precedence.terminating,
            origins: vec![self.source.origin.clone()],
        }
    }

    /// Notes what became of the entry, which asks for `host`.
    fn note(&self, host: &Host, chain: Option<&Chain>, default: Option<&SecretId>, found: &mut Found) {
        let secret = chain.map(|chain| &chain.secret);
        let uncovered;
        let fault = match &self.entry.material {
            Material::Foreign => return,
            Material::Pair(wanted, pair) if host::covered(host, &pair.names) => {
                if let Some(other) = secret.filter(|other| *other != wanted) {
                    found.problems.push(Problem {
                        object: self.source.origin.clone(),
                        field: format!("{}.secretName", self.entry.field),
                        reason: Reason::Conflicted,
                        message: format!(
                            "host \"{host}\" is served with Secret \"{other}\" of a TLS entry that takes precedence"
                        ),
                        consequence: format!("Secret \"{wanted}\" not used for \"{host}\""),
                    });
                }
                return;
            }
            // Another entry, perhaps of the wildcard above, names the same Secret: what is presented is not for this host.
            Material::Pair(wanted, _) => {
                uncovered = format!("the certificate of Secret \"{wanted}\" does not cover all hosts of this entry");
                &uncovered
            }
            Material::Default if secret.is_some() => return,
            Material::Default => NO_DEFAULT,
            Material::Unusable(fault) => fault,
        };
        let instead = match secret {
            None => Instead::Nothing,
            Some(name) if Some(name) == default => Instead::Default,
            Some(name) => Instead::Other(name.clone()),
        };
        let (object, field) = (self.source.origin.clone(), self.entry.field.to_string());
        found.missed.push(Missed { object, field, fault: fault.to_owned(), instead });
    }

    /// States that the entry does not count for `host`, whose routes are those of other namespaces.
    fn ignored(&self, host: &Host, first: &ObjectRef) -> Problem {
        let namespace = &first.namespace;
        Problem {
            object: self.source.origin.clone(),
            field: self.entry.field.to_string(),
            reason: Reason::Conflicted,
            message: format!(
                "the routes and the certificate of host \"{host}\" are those of namespace \"{namespace}\" ({first})"
            ),
            consequence: format!("TLS entry not used for \"{host}\""),
        }
    }
}

impl Entry {
    /// That an entry without hosts is good for nothing, whatever other Ingresses say.
    pub fn problem_of_its_own(
        &self,
        object: &ObjectRef,
        rules: &[Rule],
        default: Option<&SecretId>,
    ) -> Option<Problem> {
        let mut hosts = rules.iter().map(|rule| &rule.host).filter(|host| **host != Host::Any);
        let fault = match &self.material {
            _ if !self.hostless => return None,
            Material::Pair(secret, pair) => {
                return (!hosts.any(|host| host::covered(host, &pair.names))).then(|| Problem {
                    object: object.clone(),
                    field: self.field.to_string(),
                    reason: Reason::TLSConfigNotValid,
                    message: format!(
                        "lists no hosts, and the certificate of Secret \"{secret}\" covers no host of the rules"
                    ),
                    consequence: "left out".to_owned(),
                });
            }
            Material::Unusable(fault) => fault,
            Material::Default if default.is_none() => NO_DEFAULT,
            Material::Default | Material::Foreign => return None,
        };
        hosts.next().is_none().then(|| Problem {
            object: object.clone(),
            field: format!("{}.secretName", self.field),
            reason: Reason::SecretNotValid,
            message: fault.to_owned(),
            consequence: "left out".to_owned(),
        })
    }
}

/// What is wrong with an entry that means a default certificate which there is not.
const NO_DEFAULT: &str = "no Secret is named, and there is no default certificate";
