//! TLS: the served names, and the Secret of each name.

mod chosen;
mod routing;
mod sds;

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{Host, KeyPair, SecretId, SecretPart, TlsVersion};
use crate::objects::{self, Kind, ObjectKey, Precedence};
use crate::settings::Settings;

use super::dialect::Resolver;
use super::host;
use super::problem::{Cause, Message, Problem, Reason};
use super::source::{EntryKeyPair, Rule, Source, TlsEntry};
use super::unit::Field;

pub use chosen::{client_certificate, default_secret, fallback_secret, stats};
pub use routing::Routing;
pub use sds::secret;

/// The size of the default certificate, which belongs to the operator. A change of it affects no host.
const DEFAULT_PAIR: u64 = 8 << 10;

/// The TLS properties of a host.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsProperties {
    /// The Secret.
    pub secret: SecretId,
    /// Lowest TLS version.
    pub minimum: TlsVersion,
    /// Highest TLS version.
    pub maximum: TlsVersion,
    /// The object that provides the Secret and the versions.
    pub provider: Precedence,
    /// The size of the key pair, in bytes.
    pub pair_size: u64,
    /// The objects that request TLS for the host.
    pub origins: Vec<ObjectRef>,
}

impl EntryKeyPair {
    /// Reads the Secret `key` of the entry `field`. Returns a problem if its key pair is the last good one or has
    /// expired.
    pub fn read(object: &ObjectRef, field: &Field, key: ObjectKey, resolver: &mut Resolver) -> (Self, Option<Problem>) {
        let name = key.to_string();
        let Some(secret) = resolver.secret(key.clone()) else {
            return (Self::Unusable(Message::missing(Kind::SECRET, &key, MISSING)), None);
        };
        let fault = secret.fault.as_deref().map(|fault| format!("Secret \"{name}\": {fault}"));
        let Some(pair) = secret.pair.clone() else {
            let unknown = || format!("Secret \"{name}\" has no usable key pair");
            return (Self::Unusable(fault.unwrap_or_else(unknown).into()), None);
        };
        if !is_servable(&pair, resolver.context.settings) {
            return (Self::Unusable(format!("Secret \"{name}\": {NOT_OVER_QUIC}").into()), None);
        }
        let problem = fault.map(|message| Problem {
            object: object.clone(),
            field: format!("{field}.secretName"),
            reason: Reason::SecretNotValid,
            message: message.into(),
            consequence: instead(secret).to_owned(),
        });
        (Self::Pair(SecretId::new(secret.meta.key.clone(), SecretPart::KeyPair), pair), problem)
    }

    /// Returns the Secret and its key pair, if there is one.
    pub fn pair(&self) -> Option<(&SecretId, &KeyPair)> {
        match self {
            EntryKeyPair::Pair(name, pair) => Some((name, pair)),
            _ => None,
        }
    }
}

/// The fallback for a host whose entry has no usable key pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Instead {
    /// The default certificate is presented.
    Default,
    /// Another Secret is presented.
    Other(SecretId),
    /// The name is not served behind TLS.
    Nothing,
}

/// The end of a message about a Secret that does not exist.
pub(super) const MISSING: &str = "does not exist, has neither \"tls.crt\" nor \"tls.key\", or is neither of type \"kubernetes.io/tls\" nor \"Opaque\"";

/// The fault of a key pair that cannot be served.
const NOT_OVER_QUIC: &str = "the key is Ed25519, which Envoy does not serve while \"http.http3.enabled\" is on";

/// Returns whether Envoy accepts a key pair in all listeners with hosts. The listener for HTTP/3 does not accept
/// Ed25519 keys, and rejects all other key pairs of the same response with them. Source: Envoy
/// `deduceSignatureAlgorithmFromPublicKey`, tested with Envoy 1.40.
fn is_servable(pair: &KeyPair, settings: &Settings) -> bool {
    !(pair.is_ed25519 && settings.http.http3.enabled)
}

/// Describes the key pair that is served if `secret` has no usable key pair.
fn instead(secret: &objects::Secret) -> &'static str {
    if secret.serves_expired() { "still served, but clients reject it" } else { "last good key pair kept" }
}

/// An entry with its Ingress.
#[derive(Debug, Clone, Copy)]
pub struct Asking<'a> {
    /// The Ingress.
    pub source: &'a Source,
    /// The entry.
    pub entry: &'a TlsEntry,
}

/// The result of the selection of TLS properties for a host.
#[derive(Debug, Default)]
pub struct Found {
    /// The selected TLS properties, if any.
    pub chain: Option<TlsProperties>,
    /// The problems of entries that concern only this host.
    pub problems: Vec<Problem>,
    /// The entries for the host without a usable key pair.
    pub missed: Vec<Missed>,
    /// The indexes of the permitted entries that name the host.
    pub permitted: Vec<usize>,
}

/// An entry without a usable key pair, and the fallback for one of its hosts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Missed {
    /// The Ingress.
    pub object: ObjectRef,
    /// The field of the entry.
    pub field: String,
    /// The fault.
    pub fault: Message,
    /// The fallback of the host.
    pub instead: Instead,
}

/// Selects the TLS properties of `host`.
///
/// The candidates are, in this order:
/// 1. the oldest usable entry that names the host, and whose certificate covers it;
/// 2. the chain of the wildcard above the host;
/// 3. an entry of an Ingress with a rule for the host, and whose certificate covers it;
/// 4. the default certificate.
///
/// Only entries of namespaces in `routing` are permitted. If the first namespace requests TLS, only its entries are
/// permitted. The certificate of the wildcard is presented only if its namespace is permitted in the same way.
///
/// Entries and wildcards of objects that are being deleted are ignored if another object has an entry for the host.
///
/// `naming` contains the entries that name the host. `beside` contains all entries of the Ingresses that name it in a
/// rule. Both are in the order of precedence. `above` is the chain of the wildcard above.
pub fn chain(
    host: &Host,
    naming: &[Asking],
    beside: &[Asking],
    above: Option<&TlsProperties>,
    default: Option<&SecretId>,
    routing: &Routing,
) -> Found {
    let is_default = |chain: &TlsProperties| Some(&chain.secret) == default;
    let above = above.filter(|above| is_default(above) || routing.presents(&above.secret));
    let of_first = |asking: &&Asking| routing.is_first(asking.namespace());
    let first: [Vec<Asking>; 2] = [naming, beside].map(|some| some.iter().filter(of_first).copied().collect());
    let is_of_first = |secret: &SecretId| routing.is_first(&secret.object().namespace);
    let first_is_above = above.is_some_and(|above| !is_default(above) && is_of_first(&above.secret));
    let first_asks = first_is_above || asks(host, &first[0], &first[1]);
    let above = above.filter(|above| !first_asks || is_default(above) || is_of_first(&above.secret));
    let is_permitted =
        |asking: &&Asking| if first_asks { of_first(asking) } else { routing.counts(asking.namespace()) };
    let [counted, beside] =
        [naming, beside].map(|some| some.iter().filter(is_permitted).copied().collect::<Vec<Asking>>());
    let mut found = choose(host, &counted, &beside, above, default);
    found.permitted = (0..).zip(naming).filter(|(_, asking)| is_permitted(asking)).map(|(at, _)| at).collect();
    for ignored in naming.iter().filter(|asking| !is_permitted(asking)) {
        if let Some(reason) = routing.ignores(host) {
            found.problems.push(ignored.ignored(host, reason));
        }
    }
    found
}

/// Returns whether any of these entries requests TLS for `host`.
fn asks(host: &Host, naming: &[Asking], beside: &[Asking]) -> bool {
    let covers = |asking: &Asking| asking.covering(host).is_some();
    !naming.is_empty() || beside.iter().any(|asking| asking.entry.is_blind() || covers(asking))
}

/// Selects the TLS properties from entries that are all permitted.
fn choose(
    host: &Host,
    naming: &[Asking],
    beside: &[Asking],
    above: Option<&TlsProperties>,
    default: Option<&SecretId>,
) -> Found {
    let mut found = Found::default();
    let blind = beside.iter().filter(|asking| asking.entry.is_blind());
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

/// The entries that name a host, the other entries of its Ingresses, and the chain of the wildcard above it.
type Candidates<'a, 'c> = (Vec<Asking<'a>>, Vec<Asking<'a>>, Option<&'c TlsProperties>);

/// Returns the candidates of objects that are not being deleted, if these have an entry and compete with others.
fn lasting<'a, 'c>(
    naming: &[Asking<'a>],
    beside: &[Asking<'a>],
    above: Option<&'c TlsProperties>,
) -> Option<Candidates<'a, 'c>> {
    let is_lasting = |asking: &&Asking| !asking.source.precedence.terminating;
    let lasting = |entries: &[Asking<'a>]| -> Vec<_> { entries.iter().filter(is_lasting).copied().collect() };
    let lasting_above = above.filter(|above| !above.provider.terminating);
    if naming.iter().chain(beside).all(|asking| is_lasting(&asking)) && lasting_above.is_some() == above.is_some() {
        return None;
    }
    let (naming, beside) = (lasting(naming), lasting(beside));
    (!naming.is_empty() || !beside.is_empty()).then_some((naming, beside, lasting_above))
}

/// Selects the TLS properties of `host` in the order that [`chain`] describes.
fn first_of(
    host: &Host,
    naming: &[Asking],
    beside: &[Asking],
    above: Option<&TlsProperties>,
    default: Option<&SecretId>,
) -> Option<TlsProperties> {
    let covering = |asking: &[Asking]| asking.iter().find_map(|asking| Some(asking.chain(asking.covering(host)?)));
    let asking = naming.first().or_else(|| beside.iter().find(|asking| asking.entry.is_blind()));
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

    /// Returns the Secret if its certificate covers `host`, or is presented whatever names it has.
    fn covering(&self, host: &Host) -> Option<&SecretId> {
        let (secret, pair) = self.entry.material.pair()?;
        self.entry.presents(host, pair).then_some(secret)
    }

    /// Returns the chain of the entry with `secret`.
    fn chain(&self, secret: &SecretId) -> TlsProperties {
        TlsProperties {
            secret: secret.clone(),
            minimum: self.source.shared.tls_versions.0,
            maximum: self.source.shared.tls_versions.1,
            provider: self.source.precedence.clone(),
            pair_size: match self.entry.material.pair() {
                Some((own, pair)) if own == secret => pair.size(),
                _ => DEFAULT_PAIR,
            },
            origins: vec![self.source.origin.clone()],
        }
    }

    /// Records the result for the entry, which requests TLS for `host`.
    fn note(&self, host: &Host, chain: Option<&TlsProperties>, default: Option<&SecretId>, found: &mut Found) {
        let secret = chain.map(|chain| &chain.secret);
        let fault = match &self.entry.material {
            EntryKeyPair::Foreign => return,
            EntryKeyPair::Pair(wanted, pair) if self.entry.presents(host, pair) => {
                if let Some(other) = secret.filter(|other| *other != wanted) {
                    found.problems.push(Problem {
                        object: self.source.origin.clone(),
                        field: format!("{}.secretName", self.entry.field),
                        reason: Reason::Conflicted,
                        message: format!(
                            "host \"{host}\" is served with Secret \"{other}\" of a TLS entry that takes precedence"
                        )
                        .into(),
                        consequence: format!("Secret \"{wanted}\" not used for \"{host}\""),
                    });
                }
                return;
            }
            // Another entry, perhaps of the wildcard above, references the same Secret, so the presented certificate is
            // not for this host.
            EntryKeyPair::Pair(wanted, _) => {
                format!("the certificate of Secret \"{wanted}\" does not cover all hosts of this entry").into()
            }
            EntryKeyPair::Default if secret.is_some() => return,
            EntryKeyPair::Default => no_default(),
            EntryKeyPair::Unusable(fault) => fault.clone(),
        };
        let instead = match secret {
            None => Instead::Nothing,
            Some(name) if Some(name) == default => Instead::Default,
            Some(name) => Instead::Other(name.clone()),
        };
        let (object, field) = (self.source.origin.clone(), self.entry.field.to_string());
        found.missed.push(Missed { object, field, fault, instead });
    }

    /// Reports that the entry is ignored for `host`, with the reason.
    pub fn ignored(&self, host: &Host, message: String) -> Problem {
        Problem {
            object: self.source.origin.clone(),
            field: self.entry.field.to_string(),
            reason: Reason::Conflicted,
            message: message.into(),
            consequence: format!("TLS entry not used for \"{host}\""),
        }
    }
}

impl TlsEntry {
    /// Returns whether the certificate of this key pair may be presented for a host.
    fn presents(&self, host: &Host, pair: &KeyPair) -> bool {
        self.ignores_names && self.hosts.contains(host) || host::covered(host, &pair.names)
    }

    /// Returns whether the entry applies to all hosts of its Ingress: it lists no hosts, and no certificate provides
    /// their names.
    pub fn is_blind(&self) -> bool {
        self.hostless && self.material.pair().is_none()
    }

    /// Reports an entry without hosts that has no effect, whatever other Ingresses contain. `is_repeated`: an earlier entry of the
    /// Ingress has neither hosts nor a key pair.
    pub fn problem_of_its_own(
        &self,
        object: &ObjectRef,
        rules: &[Rule],
        default: Option<&SecretId>,
        is_repeated: bool,
    ) -> Option<Problem> {
        let mut hosts = rules.iter().map(|rule| &rule.host).filter(|host| **host != Host::Any);
        let fault = match &self.material {
            _ if !self.hostless => return None,
            EntryKeyPair::Pair(secret, pair) => {
                return (!hosts.any(|host| host::covered(host, &pair.names))).then(|| Problem {
                    object: object.clone(),
                    field: self.field.to_string(),
                    reason: Reason::TLSConfigNotValid,
                    message: format!(
                        "lists no hosts, and the certificate of Secret \"{secret}\" covers no host of the rules"
                    )
                    .into(),
                    consequence: "left out".to_owned(),
                });
            }
            EntryKeyPair::Unusable(fault) => fault.clone(),
            EntryKeyPair::Default if default.is_none() => no_default(),
            EntryKeyPair::Default | EntryKeyPair::Foreign => return None,
        };
        (is_repeated || hosts.next().is_none()).then(|| Problem {
            object: object.clone(),
            field: format!("{}.secretName", self.field),
            reason: Reason::SecretNotValid,
            message: fault,
            consequence: "left out".to_owned(),
        })
    }
}

/// Returns the fault of a TLS entry without `secretName` when no default certificate is configured.
fn no_default() -> Message {
    Message::from("no Secret is named, and there is no default certificate").because(Cause::NoDefaultCertificate)
}
