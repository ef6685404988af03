//! The parts of Ingresses and HTTPProxies that Gateway API does not express, as findings about these objects. `fields` finds the
//! field of a route.

mod fields;

use std::collections::BTreeSet;

use lockgate_route::model::Host;
use lockgate_route::objects::http_proxy::HttpProxy;
use lockgate_route::objects::{Ingress, Kind, ObjectId, ObjectKey, Objects};
use lockgate_route::translate::{Translator, host};
use lockgate_xds::provenance::ObjectRef;

use super::Migrated;
use crate::check::{Finding, Level, Manifests, Rule, locate};

/// The annotations of TLS versions.
const TLS_VERSIONS: [&str; 2] =
    ["projectcontour.io/tls-minimum-protocol-version", "projectcontour.io/tls-maximum-protocol-version"];

/// The annotation that lets other namespaces add paths to hosts.
const DELEGATE_TO: &str = "lockgate.dev/delegate-to";

/// The file of findings about the written objects.
const WRITTEN: &str = "(output)";

/// The findings so far.
pub struct Losses<'a> {
    objects: &'a Objects,
    /// The kind of the migrated objects.
    migrated: Migrated,
    findings: Vec<(ObjectId, Finding)>,
    /// The objects with a text that is reported once.
    seen: BTreeSet<(ObjectKey, String)>,
}

/// The texts of a finding.
pub struct FindingText<'a> {
    /// The fault or the fact.
    pub message: String,
    /// The lost feature.
    pub consequence: &'a str,
    /// The remedy.
    pub remedy: &'a str,
}

impl<'a> Losses<'a> {
    /// Starts without findings.
    pub fn new(objects: &'a Objects, migrated: Migrated) -> Self {
        Self { objects, migrated, findings: Vec::new(), seen: BTreeSet::new() }
    }

    /// Returns the migrated objects.
    pub fn migrated(&self) -> Migrated {
        self.migrated
    }

    /// Returns the migrated object that a reference names.
    pub fn owner(&self, origin: &ObjectRef) -> Option<ObjectKey> {
        is_of(self.migrated.kind(), origin)
            .then(|| ObjectKey { namespace: origin.namespace.clone(), name: origin.name.clone() })
    }

    /// Returns whether `text` is new for an object.
    pub fn is_first(&mut self, owner: &ObjectKey, text: impl Into<String>) -> bool {
        self.seen.insert((owner.clone(), text.into()))
    }

    /// Adds a finding about a field of an object.
    pub fn add(&mut self, kind: Kind, key: &ObjectKey, field: String, (rule, level): (Rule, Level), text: FindingText) {
        let FindingText { message, consequence, remedy } = text;
        let finding = Finding {
            file: if kind == self.migrated.kind() { "".into() } else { WRITTEN.into() },
            line: 0,
            level,
            rule,
            kind: kind.as_str().to_owned(),
            namespace: key.namespace.to_string(),
            name: key.name.to_string(),
            field,
            message,
            consequence: consequence.to_owned(),
            remedy: remedy.to_owned(),
        };
        self.findings.push((kind.id(key.clone()), finding));
    }

    /// Adds a finding about an object that is served differently after the migration.
    pub fn add_changed(&mut self, owner: &ObjectKey, field: String, text: FindingText) {
        let rule = Rule::ChangedByMigration;
        self.add(self.migrated.kind(), owner, field, (rule, rule.level()), text);
    }

    /// Adds a finding about a part of an object that is not migrated.
    pub fn add_lost(&mut self, owner: &ObjectKey, field: String, text: FindingText) {
        let rule = Rule::NotMigrated;
        self.add(self.migrated.kind(), owner, field, (rule, rule.level()), text);
    }

    /// Adds a note about an object.
    pub fn add_note(&mut self, owner: &ObjectKey, field: String, text: FindingText) {
        let rule = Rule::MigrationNote;
        self.add(self.migrated.kind(), owner, field, (rule, rule.level()), text);
    }

    /// Reports TLS versions that differ from the settings.
    pub fn report_tls_versions(&mut self, owner: &ObjectKey, host: &Host) {
        let fields: Vec<String> = match self.migrated {
            Migrated::HttpProxies => vec!["spec.virtualhost.tls".to_owned()],
            _ => {
                let Some(object) = self.objects.get::<Ingress>(owner) else { return };
                let keys = TLS_VERSIONS.into_iter().filter(|key| object.meta.annotations.contains_key(*key));
                keys.map(annotation).collect()
            }
        };
        for field in fields {
            if !self.is_first(owner, field.as_str()) {
                continue;
            }
            let text = FindingText {
                message: format!("listeners of Gateway API have no TLS versions (host \"{host}\")"),
                consequence: "the versions of the settings apply",
                remedy: match self.migrated {
                    Migrated::HttpProxies => {
                        "Set tls.minimumVersion and tls.maximumVersion as an operator, or keep the HTTPProxy."
                    }
                    _ => "Set tls.minimumVersion and tls.maximumVersion as an operator, or keep the Ingress.",
                },
            };
            self.add_changed(owner, field, text);
        }
    }

    /// Reports a wildcard, which matches one label in Ingresses and HTTPProxies.
    pub fn report_several_labels(&mut self, owner: &ObjectKey, host: &Host) {
        let has_host = self.objects.get::<HttpProxy>(owner).is_none_or(|proxy| proxy.spec.virtualhost.is_some())
            || self.migrated != Migrated::HttpProxies;
        if has_host && self.is_first(owner, host.to_string()) {
            let text = FindingText {
                message: format!("host \"{host}\" matches one or several labels in Gateway API"),
                consequence: "names of several labels are served too",
                remedy: "No action is needed unless such names resolve to the load balancer.",
            };
            self.add_note(owner, self.host_field(owner, host), text);
        }
    }

    /// Reports that clients of the default certificate reach the default backend for hosts without TLS.
    pub fn report_default_certificate(&mut self, ingress: &ObjectKey, host: &Host) {
        let text = FindingText {
            message: format!("hosts without TLS, such as \"{host}\", are answered 404 behind the default certificate"),
            consequence: "the listener of the default certificate sends their requests to this default backend",
            remedy: "Give these hosts a TLS entry, or leave tls.defaultSecret out of the Gateway.",
        };
        self.add_changed(ingress, self.default_field(ingress), text);
    }

    /// Reports that Gateways do not offer HTTP/3.
    pub fn report_http3(&mut self, gateway: &ObjectKey) {
        let text = FindingText {
            message: "listeners of Gateways do not offer HTTP/3".to_owned(),
            consequence: "clients use HTTP/2",
            remedy: "No action is needed: clients of HTTP/3 fall back to HTTP/2.",
        };
        let rule = Rule::ChangedByMigration;
        self.add(Kind::GATEWAY, gateway, String::new(), (rule, rule.level()), text);
    }

    /// Reports a host without a certificate below a wildcard with one, in `field` of an Ingress.
    fn add_refused(&mut self, ingress: &ObjectKey, field: String, host: &Host) {
        let text = FindingText {
            message: format!("TLS connections for host \"{host}\" are refused, because it has no certificate"),
            consequence: "the listener of the wildcard above it accepts them",
            remedy: "Give the host a certificate before you migrate.",
        };
        self.add_changed(ingress, field, text);
    }

    /// Reports a host with a rule, without a certificate, and below a wildcard with one.
    pub fn report_refused(&mut self, ingress: &ObjectKey, host: &Host) {
        self.add_refused(ingress, self.host_field(ingress, host), host);
    }

    /// Reports such hosts that only TLS entries name.
    pub fn report_refused_entries(&mut self, hosts: &BTreeSet<&Host>, translator: &Translator) {
        if hosts.is_empty() {
            return;
        }
        let objects = self.objects;
        for ingress in objects.all::<Ingress>().filter(|one| translator.serves(&Kind::INGRESS.id(one.meta.key.clone())))
        {
            for (at, entry) in ingress.spec.tls.iter().flatten().enumerate() {
                let named = entry.hosts.iter().flatten().filter_map(|name| host::parse(name).ok());
                for host in named.filter(|host| hosts.contains(host)) {
                    self.add_refused(&ingress.meta.key, format!("spec.tls[{at}]"), &host);
                }
            }
        }
    }

    /// Reports annotations that delegate hosts to other namespaces.
    pub fn report_delegations(&mut self, translator: &Translator) {
        for ingress in self.objects.all::<Ingress>() {
            let key = &ingress.meta.key;
            if ingress.meta.annotations.contains_key(DELEGATE_TO) && translator.serves(&Kind::INGRESS.id(key.clone())) {
                let text = FindingText {
                    message: "Gateway API has no owners of hosts".to_owned(),
                    consequence: "the listeners accept HTTPRoutes of the namespaces that have routes today",
                    remedy: "Review allowedRoutes of the listeners.",
                };
                self.add_note(key, annotation(DELEGATE_TO), text);
            }
        }
    }

    /// Returns the findings with their places.
    pub fn located(self, manifests: &Manifests) -> Vec<Finding> {
        locate(manifests, self.findings)
    }
}

/// Returns whether a reference names an object of this kind.
pub fn is_of(kind: Kind, origin: &ObjectRef) -> bool {
    origin.kind == kind.as_str()
}

/// Returns the field of an annotation.
pub fn annotation(name: &str) -> String {
    format!("metadata.annotations[{name:?}]")
}
