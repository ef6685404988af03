//! The parts of Ingresses that Gateway API does not express, as findings about the Ingresses.

use std::collections::BTreeSet;

use lockgate_route::model::{Host, PathMatch};
use lockgate_route::objects::{Ingress, Kind, ObjectId, ObjectKey, Objects};
use lockgate_route::translate::{Translator, host};
use lockgate_xds::provenance::ObjectRef;

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
    findings: Vec<(ObjectId, Finding)>,
    /// The Ingresses whose wildcard is reported.
    seen: BTreeSet<(ObjectKey, String)>,
}

/// The texts of a finding.
pub struct Text<'a> {
    /// The fault or the fact.
    pub message: String,
    /// The lost feature.
    pub consequence: &'a str,
    /// The remedy.
    pub remedy: &'a str,
}

/// Returns the Ingress that a reference names.
pub fn ingress_of(origin: &ObjectRef) -> Option<ObjectKey> {
    let is_ingress = origin.kind == Kind::INGRESS.as_str();
    is_ingress.then(|| ObjectKey { namespace: origin.namespace.clone(), name: origin.name.clone() })
}

impl<'a> Losses<'a> {
    /// Starts without findings.
    pub fn new(objects: &'a Objects) -> Self {
        Self { objects, findings: Vec::new(), seen: BTreeSet::new() }
    }

    /// Adds a finding about a field of an object.
    pub fn add(&mut self, kind: Kind, key: &ObjectKey, field: String, (rule, level): (Rule, Level), text: Text) {
        let Text { message, consequence, remedy } = text;
        let finding = Finding {
            file: if kind == Kind::INGRESS { "".into() } else { WRITTEN.into() },
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

    /// Adds a finding about an Ingress that is served differently after the migration.
    pub fn add_changed(&mut self, ingress: &ObjectKey, field: String, text: Text) {
        let rule = Rule::ChangedByMigration;
        self.add(Kind::INGRESS, ingress, field, (rule, rule.level()), text);
    }

    /// Adds a finding about a part of an Ingress that is not migrated.
    pub fn add_lost(&mut self, ingress: &ObjectKey, field: String, text: Text) {
        let rule = Rule::NotMigrated;
        self.add(Kind::INGRESS, ingress, field, (rule, rule.level()), text);
    }

    /// Adds a note about an Ingress.
    pub fn add_note(&mut self, ingress: &ObjectKey, field: String, text: Text) {
        let rule = Rule::MigrationNote;
        self.add(Kind::INGRESS, ingress, field, (rule, rule.level()), text);
    }

    /// Reports TLS versions that differ from the settings.
    pub fn report_tls_versions(&mut self, ingress: &ObjectKey, host: &Host) {
        let Some(object) = self.objects.get::<Ingress>(ingress) else { return };
        for key in TLS_VERSIONS.into_iter().filter(|key| object.meta.annotations.contains_key(*key)) {
            if !self.seen.insert((ingress.clone(), key.to_owned())) {
                continue;
            }
            let text = Text {
                message: format!("listeners of Gateway API have no TLS versions (host \"{host}\")"),
                consequence: "the versions of the settings apply",
                remedy: "Set tls.minimumVersion and tls.maximumVersion as an operator, or keep the Ingress.",
            };
            self.add_changed(ingress, annotation(key), text);
        }
    }

    /// Reports a wildcard, which matches one label in Ingresses.
    pub fn report_several_labels(&mut self, ingress: &ObjectKey, host: &Host) {
        if self.seen.insert((ingress.clone(), host.to_string())) {
            let text = Text {
                message: format!("host \"{host}\" matches one or several labels in Gateway API"),
                consequence: "names of several labels are served too",
                remedy: "No action is needed unless such names resolve to the load balancer.",
            };
            self.add_note(ingress, self.host_field(ingress, host), text);
        }
    }

    /// Reports that clients of the default certificate reach the default backend for hosts without TLS.
    pub fn report_default_certificate(&mut self, ingress: &ObjectKey, host: &Host) {
        let text = Text {
            message: format!("hosts without TLS, such as \"{host}\", are answered 404 behind the default certificate"),
            consequence: "the listener of the default certificate sends their requests to this default backend",
            remedy: "Give these hosts a TLS entry, or leave tls.defaultSecret out of the Gateway.",
        };
        self.add_changed(ingress, self.field(ingress, &Host::Any, &PathMatch::root()), text);
    }

    /// Reports that Gateways do not offer HTTP/3.
    pub fn report_http3(&mut self, gateway: &ObjectKey) {
        let text = Text {
            message: "listeners of Gateways do not offer HTTP/3".to_owned(),
            consequence: "clients use HTTP/2",
            remedy: "No action is needed: clients of HTTP/3 fall back to HTTP/2.",
        };
        let rule = Rule::ChangedByMigration;
        self.add(Kind::GATEWAY, gateway, String::new(), (rule, rule.level()), text);
    }

    /// Reports a host without a certificate below a wildcard with one, in `field` of an Ingress.
    fn add_refused(&mut self, ingress: &ObjectKey, field: String, host: &Host) {
        let text = Text {
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
                let text = Text {
                    message: "Gateway API has no owners of hosts".to_owned(),
                    consequence: "the listeners accept HTTPRoutes of the namespaces that have routes today",
                    remedy: "Review allowedRoutes of the listeners.",
                };
                self.add_note(key, annotation(DELEGATE_TO), text);
            }
        }
    }

    /// Returns the field of a path of an Ingress.
    pub fn field(&self, ingress: &ObjectKey, host: &Host, path: &PathMatch) -> String {
        let Some(object) = self.objects.get::<Ingress>(ingress) else { return String::new() };
        let rules = || object.spec.rules.iter().flatten().enumerate();
        let of_host = |one: &Option<String>| host::parse(one.as_deref().unwrap_or_default()).as_ref() == Ok(host);
        let in_rules = |any_host: bool| {
            let rules = rules().filter(|(_, rule)| any_host || of_host(&rule.host));
            let mut paths = rules.flat_map(|(at, rule)| {
                let paths = rule.http.iter().flat_map(|http| &http.paths).enumerate();
                paths.map(move |(path, content)| (at, path, content))
            });
            let is_meant = |text: &str, path_type: &str| match path {
                PathMatch::Exact(one) => path_type == "Exact" && **one == *text,
                PathMatch::Regex(one) => **one == *text,
                PathMatch::SeparatedPrefix(one) => path_type == "Prefix" && **one == *text.trim_end_matches('/'),
                PathMatch::Prefix(one) => **one == *text || **one == *"/" && text.trim_end_matches('/').is_empty(),
            };
            let found = paths.find(|(.., one)| is_meant(one.path.as_deref().unwrap_or_default(), &one.path_type));
            found.map(|(rule, path, _)| format!("spec.rules[{rule}].http.paths[{path}]"))
        };
        in_rules(false).or_else(|| in_rules(true)).unwrap_or_else(|| "spec.defaultBackend".to_owned())
    }

    /// Returns the field of a host of an Ingress.
    fn host_field(&self, ingress: &ObjectKey, host: &Host) -> String {
        let rules =
            self.objects.get::<Ingress>(ingress).and_then(|object| object.spec.rules.as_deref()).unwrap_or_default();
        let is_meant = |one: &Option<String>| host::parse(one.as_deref().unwrap_or_default()).as_ref() == Ok(host);
        let at = rules.iter().position(|rule| is_meant(&rule.host));
        at.map_or_else(|| "spec.tls".to_owned(), |at| format!("spec.rules[{at}].host"))
    }

    /// Returns the findings with their places.
    pub fn located(self, manifests: &Manifests) -> Vec<Finding> {
        locate(manifests, self.findings)
    }
}

/// Returns the field of an annotation.
pub fn annotation(name: &str) -> String {
    format!("metadata.annotations[{name:?}]")
}
