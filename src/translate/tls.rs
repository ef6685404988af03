//! TLS: which names are served behind it, with which Secret.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::{Host, KeyPair, Secret, SecretName, TlsVersion};
use crate::provenance::ObjectRef;
use crate::settings::Settings;
use crate::source::objects::{Kind, ObjectKey, Objects};

use super::host;
use super::ingress::Parsed;
use super::problem::{Problem, Reason};
use super::virtual_host::Rules;

/// What a name is served with behind TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct Chain {
    /// The Secret.
    pub secret: SecretName,
    /// Lowest TLS version.
    pub minimum: TlsVersion,
    /// Highest TLS version.
    pub maximum: TlsVersion,
    /// The objects that ask for it.
    pub origins: Vec<ObjectRef>,
}

/// An element of `spec.tls`.
struct Entry<'a> {
    parsed: &'a Parsed<'a>,
    /// `spec.tls[1]`
    field: String,
    /// The valid hosts that it lists.
    hosts: Vec<Host>,
    /// Whether it lists none at all, so that its certificate says what it is for.
    hostless: bool,
    material: Material,
}

/// What the Secret of an entry has.
enum Material {
    /// A usable key pair.
    Pair(SecretName, Arc<KeyPair>),
    /// No Secret is named: the default certificate is meant.
    Default,
    /// No usable key pair, and why.
    Unusable(String),
    /// A Secret of another namespace, which its annotation's problem has told.
    Foreign,
}

impl Material {
    fn pair(&self) -> Option<(&SecretName, &KeyPair)> {
        match self {
            Material::Pair(name, pair) => Some((name, pair)),
            _ => None,
        }
    }
}

/// What became of a host whose entry has no usable key pair.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Instead {
    /// The default certificate is presented.
    Default,
    /// Another Secret is presented.
    Other(SecretName),
    /// The name is not served behind TLS.
    Nothing,
}

/// The pair of the default Secret; a problem if the one that the settings name has none.
pub fn default_secret(objects: &Objects, settings: &Settings, problems: &mut Vec<Problem>) -> Option<SecretName> {
    let secret = settings.tls.default_secret.as_ref()?;
    chosen_secret(secret, objects, "default TLS Secret", "no default certificate", problems)
}

/// The pair that Envoy shows to backends: `None` if the settings name none, `Some(None)` with a problem if it has none.
pub fn client_certificate(
    objects: &Objects,
    settings: &Settings,
    problems: &mut Vec<Problem>,
) -> Option<Option<SecretName>> {
    let secret = settings.upstream.client_certificate.as_ref()?;
    let consequence = "paths to backends with TLS answer 503";
    Some(chosen_secret(secret, objects, "Secret of the client certificate", consequence, problems))
}

/// The pair of a Secret that the settings name for `what`; a problem if it has none.
fn chosen_secret(
    (namespace, name): &(String, String),
    objects: &Objects,
    what: &str,
    without: &str,
    problems: &mut Vec<Problem>,
) -> Option<SecretName> {
    let secret = objects.secrets.get(&ObjectKey::new(namespace, name));
    let object = match secret {
        Some(secret) => secret.meta.object_ref(Kind::Secret),
        None => ObjectRef::new(Kind::Secret.as_str(), namespace, name),
    };
    let usable = secret.is_some_and(|secret| secret.pair.is_some());
    let fault = match secret {
        None => Some(format!("\"{namespace}/{name}\" {MISSING}")),
        Some(secret) => secret.fault.as_ref().map(|fault| format!("\"{namespace}/{name}\": {fault}")),
    };
    if let Some(fault) = fault {
        problems.push(Problem {
            object,
            field: String::new(),
            reason: Reason::SecretNotValid,
            message: format!("{what} {fault}"),
            consequence: if usable { "last good key pair kept" } else { without }.to_owned(),
        });
    }
    usable.then(|| secret_name(namespace, name))
}

/// What the end of a message says of a Secret that is not among the objects.
const MISSING: &str = "does not exist, or is neither of type \"kubernetes.io/tls\" nor \"Opaque\"";

/// The Secret's name in the model.
fn secret_name(namespace: &str, name: &str) -> SecretName {
    SecretName(format!("{namespace}/{name}").into())
}

/// The model's secret of this name.
pub fn secret(objects: &Objects, name: &SecretName) -> Option<Secret> {
    let (namespace, name) = name.0.split_once('/')?;
    let secret = objects.secrets.get(&ObjectKey::new(namespace, name))?;
    Some(Secret { pair: secret.pair.clone()?, origin: secret.meta.object_ref(Kind::Secret) })
}

/// What each name is served with behind TLS. Names without a usable key pair are left out.
///
/// For a name, in this order: an entry that names it, the oldest usable one; what the wildcard above it is served
/// with; an entry of an Ingress that has the name in a rule, and whose certificate covers it; the default certificate.
/// A name under a served wildcard is always served: else its clients would reach the wildcard's routes.
pub fn chains(
    ingresses: &[Parsed],
    rules: &Rules,
    objects: &Objects,
    default: Option<&SecretName>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<Host, Chain> {
    let entries = entries(ingresses, objects, problems);
    let mut resolver = Resolver::new(&entries, rules, default);
    let names: BTreeSet<Host> = rules.hosts.keys().chain(resolver.naming.keys()).cloned().collect();
    let (wildcards, exact): (Vec<_>, Vec<_>) =
        names.into_iter().filter(|host| *host != Host::Any).partition(|host| matches!(host, Host::Wildcard(_)));
    let mut chains = BTreeMap::new();
    for host in wildcards.into_iter().chain(exact) {
        let above = host::parent(&host).and_then(|parent| chains.get(&parent));
        if let Some(chain) = resolver.chain(&host, above) {
            chains.insert(host, chain);
        }
    }
    problems.extend(resolver.finish(&entries));
    chains
}

/// The elements of `spec.tls` of all Ingresses, in their order.
fn entries<'a>(ingresses: &'a [Parsed<'a>], objects: &Objects, problems: &mut Vec<Problem>) -> Vec<Entry<'a>> {
    let mut entries = Vec::new();
    for parsed in ingresses {
        for (i, tls) in parsed.ingress.spec.tls.iter().flatten().enumerate() {
            let field = format!("spec.tls[{i}]");
            let mut hosts = Vec::new();
            let texts = tls.hosts.as_deref().unwrap_or_default();
            for (j, text) in texts.iter().enumerate() {
                let fault = match host::parse(text) {
                    Ok(Host::Any) => "is empty",
                    Ok(host) if hosts.contains(&host) => continue,
                    Ok(host) => {
                        hosts.push(host);
                        continue;
                    }
                    Err(fault) => fault,
                };
                problems.push(Problem {
                    object: parsed.origin.clone(),
                    field: format!("{field}.hosts[{j}]"),
                    reason: Reason::HostNotValid,
                    message: format!("host {text:?} {fault}"),
                    consequence: "host left out".to_owned(),
                });
            }
            let material = material(parsed, &field, tls.secret_name.as_deref(), objects, problems);
            entries.push(Entry { parsed, field, hosts, hostless: texts.is_empty(), material });
        }
    }
    entries
}

/// What the Secret of an entry has; a problem if that is its last good pair.
fn material(
    parsed: &Parsed,
    field: &str,
    name: Option<&str>,
    objects: &Objects,
    problems: &mut Vec<Problem>,
) -> Material {
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Material::Default };
    if parsed.annotations.foreign_secrets {
        return Material::Foreign;
    }
    let namespace = &parsed.ingress.meta.key.namespace;
    let Some(secret) = objects.secrets.get(&ObjectKey::new(namespace, name)) else {
        return Material::Unusable(format!("Secret \"{namespace}/{name}\" {MISSING}"));
    };
    let fault = secret.fault.as_deref().map(|fault| format!("Secret \"{namespace}/{name}\": {fault}"));
    let Some(pair) = &secret.pair else {
        let unknown = || format!("Secret \"{namespace}/{name}\" has no usable key pair");
        return Material::Unusable(fault.unwrap_or_else(unknown));
    };
    if let Some(message) = fault {
        problems.push(Problem {
            object: parsed.origin.clone(),
            field: format!("{field}.secretName"),
            reason: Reason::SecretNotValid,
            message,
            consequence: "last good key pair kept".to_owned(),
        });
    }
    Material::Pair(secret_name(namespace, name), pair.clone())
}

struct Resolver<'e> {
    rules: &'e Rules<'e>,
    default: Option<&'e SecretName>,
    /// The entries that name a host, in the order of precedence.
    naming: BTreeMap<Host, Vec<&'e Entry<'e>>>,
    /// The entries of an Ingress.
    of_ingress: BTreeMap<&'e ObjectRef, Vec<&'e Entry<'e>>>,
    /// By object, field and what is wrong: the hosts whose entry has no usable key pair, by what became of them.
    missed: BTreeMap<(&'e ObjectRef, &'e str, &'e str), BTreeMap<Instead, Vec<Host>>>,
    problems: Vec<Problem>,
}

impl<'e> Resolver<'e> {
    fn new(entries: &'e [Entry<'e>], rules: &'e Rules<'e>, default: Option<&'e SecretName>) -> Self {
        let mut naming: BTreeMap<Host, Vec<&Entry>> = BTreeMap::new();
        let mut of_ingress: BTreeMap<&ObjectRef, Vec<&Entry>> = BTreeMap::new();
        for entry in entries {
            of_ingress.entry(&entry.parsed.origin).or_default().push(entry);
            for host in &entry.hosts {
                naming.entry(host.clone()).or_default().push(entry);
            }
        }
        Self { rules, default, naming, of_ingress, missed: BTreeMap::new(), problems: Vec::new() }
    }

    /// What `host` is served with; `above` is what the wildcard above it is served with.
    fn chain(&mut self, host: &Host, above: Option<&Chain>) -> Option<Chain> {
        let naming = self.naming.get(host).cloned().unwrap_or_default();
        let beside = self.beside(host);
        // Entries without hosts whose certificate cannot say what they are for ask for all hosts of their Ingress.
        let blind = beside.iter().copied().filter(|entry| entry.hostless && entry.material.pair().is_none());
        let asking: Vec<&Entry> = naming.iter().copied().chain(blind).collect();
        let mut usable = naming.iter().filter_map(|entry| Some((*entry, entry.material.pair()?)));
        let mut covering = beside.iter().filter_map(|entry| {
            let (secret, pair) = entry.material.pair()?;
            host::covered(host, &pair.names).then_some((*entry, secret))
        });
        let mut chain = if let Some((entry, (secret, pair))) = usable.next() {
            if !host::covered(host, &pair.names) {
                self.uncovered(entry, secret, host);
            }
            Some(entry.chain(secret))
        } else if let Some(above) = above.filter(|above| Some(&above.secret) != self.default) {
            Some(above.clone())
        } else if let Some((entry, secret)) = covering.next() {
            Some(entry.chain(secret))
        } else if let (Some(entry), Some(secret)) = (asking.first(), self.default) {
            Some(entry.chain(secret))
        } else {
            above.cloned()
        };
        if let Some(chain) = &mut chain {
            chain.origins.extend(asking.iter().map(|entry| entry.parsed.origin.clone()));
            chain.origins.sort();
            chain.origins.dedup();
        }
        for entry in asking {
            self.note(entry, host, chain.as_ref());
        }
        chain
    }

    /// The entries of the Ingresses that name `host` in a rule, in the order of precedence.
    fn beside(&self, host: &Host) -> Vec<&'e Entry<'e>> {
        let ingresses = self.rules.hosts.get(host).into_iter().flat_map(|rules| &rules.ingresses);
        ingresses.filter_map(|ingress| self.of_ingress.get(ingress)).flatten().copied().collect()
    }

    /// Notes what became of an entry that asks for `host`.
    fn note(&mut self, entry: &'e Entry<'e>, host: &Host, chain: Option<&Chain>) {
        let secret = chain.map(|chain| &chain.secret);
        let fault = match &entry.material {
            Material::Foreign => return,
            Material::Pair(wanted, _) => {
                if let Some(other) = secret.filter(|other| *other != wanted) {
                    self.problems.push(Problem {
                        object: entry.parsed.origin.clone(),
                        field: format!("{}.secretName", entry.field),
                        reason: Reason::Conflicted,
                        message: format!("host \"{host}\" is served with Secret \"{other}\" of an older TLS entry"),
                        consequence: format!("Secret \"{wanted}\" not used for \"{host}\""),
                    });
                }
                return;
            }
            Material::Default if secret.is_some() => return,
            Material::Default => NO_DEFAULT,
            Material::Unusable(fault) => fault,
        };
        let instead = match secret {
            None => Instead::Nothing,
            Some(name) if Some(name) == self.default => Instead::Default,
            Some(name) => Instead::Other(name.clone()),
        };
        let key = (&entry.parsed.origin, entry.field.as_str(), fault);
        self.missed.entry(key).or_default().entry(instead).or_default().push(host.clone());
    }

    /// Notes that a certificate does not cover a host that its entry names.
    fn uncovered(&mut self, entry: &Entry, secret: &SecretName, host: &Host) {
        self.problems.push(Problem {
            object: entry.parsed.origin.clone(),
            field: format!("{}.secretName", entry.field),
            reason: Reason::Ambiguous,
            message: format!("the certificate of Secret \"{secret}\" does not cover host \"{host}\""),
            consequence: "presented all the same".to_owned(),
        });
    }

    /// What is wrong with the entries.
    fn finish(mut self, entries: &'e [Entry<'e>]) -> Vec<Problem> {
        for entry in entries.iter().filter(|entry| entry.hostless) {
            self.finish_hostless(entry);
        }
        for ((object, field, fault), outcomes) in self.missed {
            let outcomes = outcomes.into_iter().map(|(instead, hosts)| {
                let hosts: Vec<String> = hosts.iter().map(|host| format!("\"{host}\"")).collect();
                let hosts = hosts.join(", ");
                match instead {
                    Instead::Default => format!("default certificate for {hosts}"),
                    Instead::Other(secret) => format!("Secret \"{secret}\" for {hosts}"),
                    Instead::Nothing if hosts.is_empty() => "left out".to_owned(),
                    Instead::Nothing => format!("no TLS for {hosts}"),
                }
            });
            self.problems.push(Problem {
                object: object.clone(),
                field: format!("{field}.secretName"),
                reason: Reason::SecretNotValid,
                message: fault.to_owned(),
                consequence: outcomes.collect::<Vec<_>>().join("; "),
            });
        }
        self.problems
    }

    /// Notes an entry without hosts that is good for nothing.
    fn finish_hostless(&mut self, entry: &'e Entry<'e>) {
        let mut hosts = entry.parsed.rules.iter().map(|(host, _)| host).filter(|host| **host != Host::Any);
        let fault = match &entry.material {
            Material::Pair(secret, pair) => {
                if !hosts.any(|host| host::covered(host, &pair.names)) {
                    self.problems.push(Problem {
                        object: entry.parsed.origin.clone(),
                        field: entry.field.clone(),
                        reason: Reason::TLSConfigNotValid,
                        message: format!(
                            "lists no hosts, and the certificate of Secret \"{secret}\" covers no host of the rules"
                        ),
                        consequence: "left out".to_owned(),
                    });
                }
                return;
            }
            Material::Unusable(fault) => fault,
            Material::Default if self.default.is_none() => NO_DEFAULT,
            Material::Default | Material::Foreign => return,
        };
        if hosts.next().is_none() {
            let key = (&entry.parsed.origin, entry.field.as_str(), fault);
            self.missed.entry(key).or_default().entry(Instead::Nothing).or_default();
        }
    }
}

/// What is wrong with an entry that means a default certificate which there is not.
const NO_DEFAULT: &str = "no Secret is named, and there is no default certificate";

impl Entry<'_> {
    /// The chain that the entry gives with `secret`.
    fn chain(&self, secret: &SecretName) -> Chain {
        Chain {
            secret: secret.clone(),
            minimum: self.parsed.annotations.tls_minimum,
            maximum: self.parsed.annotations.tls_maximum,
            origins: vec![self.parsed.origin.clone()],
        }
    }
}
