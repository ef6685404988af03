//! The dialect of Ingresses: the parser of the rules and TLS entries of a single Ingress.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::{HTTPIngressPath, IngressBackend};
use lockgate_xds::provenance::ObjectRef;

use crate::model::{Action, ClusterId, Forward, Host, PathMatch, WeightedCluster};
use crate::objects::{Ingress, Kind, ObjectKey, Revision};
use crate::re2::Cost;

use super::annotations::{self, Annotations};
use super::backend::{BackendFault, WantedPort};
use super::class;
use super::dialect::{Competition, Dialect, Resolver, Selection, Sharing};
use super::gateway::session;
use super::problem::{Cause, Message, Problem, Reason, bounded};
use super::rules::Contender;
use super::source::{self, Dependencies, EntryKeyPair, MAX_BESIDE, Rule, Shared, Source, TlsEntry};
use super::unit::{Field, RequestTarget, Unit};
use super::{delegations, host, path};

/// The dialect of Ingresses.
pub const DIALECT: Dialect = Dialect {
    kind: Kind::INGRESS,
    selection: Selection::Class { named: |object| class::class_of_ingress(object.get()?) },
    parse: |object, resolver| object.get().map(|ingress| parse(ingress, resolver)).ok_or_else(Dependencies::default),
    sharing: Sharing::Merged,
    competition: Competition {
        rank: |order, one| path::rank(one.unit.path(), order.is_behind(one)),
        conflict,
        guards_prefixes: true,
        name: "path",
        field_of_path: ".path",
    },
    // The status of an Ingress has no conditions.
    conflicts: None,
    hosts: |object| {
        let rules = object.get::<Ingress>().into_iter().flat_map(|ingress| ingress.spec.rules.iter().flatten());
        rules.filter_map(|rule| rule.host.as_deref()).collect()
    },
    key_pairs: |object| object.get().map(key_pairs).unwrap_or_default(),
};

/// Returns the Secrets of the TLS entries.
fn key_pairs(ingress: &Ingress) -> Vec<ObjectKey> {
    let names = ingress.spec.tls.iter().flatten().filter_map(|tls| tls.secret_name.as_deref());
    let named = names.filter(|name| !name.is_empty());
    let namespace = annotations::secret_namespace(&ingress.meta).unwrap_or_else(|| ingress.meta.key.namespace.clone());
    named.map(|name| ObjectKey { namespace: namespace.clone(), name: name.into() }).collect()
}

/// Returns the field of a rule.
fn rule_field(rule: usize) -> Field {
    Field::new("spec.rules[#]", &[rule])
}

/// Returns the field of a path.
fn path_field(rule: usize, path: usize) -> Field {
    Field::new("spec.rules[#].http.paths[#]", &[rule, path])
}

/// Parses `ingress`. A fault affects only the part that contains it.
pub fn parse(ingress: &Ingress, resolver: Resolver) -> Source {
    let (annotations, problems) = annotations::of_ingress(ingress, resolver.context.settings);
    let origin = ingress.meta.object_ref(Kind::INGRESS);
    let has_refused_hosts = false;
    let mut parser =
        Parser { ingress, origin: &origin, annotations: &annotations, resolver, problems, has_refused_hosts };
    let default_backend = ingress.spec.default_backend.as_ref();
    let mut default_backend = default_backend.map(|backend| Box::new(parser.target("spec.defaultBackend", backend)));
    let mut default_backend_in_rules = false;
    let mut rules = Vec::new();
    for (i, rule) in ingress.spec.rules.iter().flatten().enumerate() {
        let text = rule.host.as_deref().unwrap_or_default();
        match host::parse(text) {
            Ok(host) => {
                if !parser.permits(&host, format!("spec.rules[{i}]"), "rule left out") {
                    continue;
                }
                let section = source::section_of(&host);
                let units = match (&rule.http, default_backend.as_deref()) {
                    // A rule without `http` is a catch-all. Source: Ingress v1 `IngressRuleValue`.
                    (None, Some(target)) => {
                        default_backend_in_rules = true;
                        let target = RequestTarget::clone(target);
                        let unit = Unit::new(rule_field(i), PathMatch::root(), Cost::default(), target);
                        [unit.in_rule(section.as_ref())].into()
                    }
                    (http, _) => {
                        let paths = http.iter().flat_map(|http| &http.paths).enumerate();
                        let units = paths.filter_map(|(j, path)| parser.path(path_field(i, j), path));
                        units.map(|unit| unit.in_rule(section.as_ref())).collect()
                    }
                };
                rules.push(Rule { field: rule_field(i), host, units });
            }
            Err(fault) => {
                let message = format!("host {text:?} {fault}");
                parser.problem(format!("spec.rules[{i}].host"), Reason::HostNotValid, message, "rule left out");
            }
        }
    }
    let entries = parser.entries();
    let asks_by_default = default_backend.is_some();
    // A default backend serves the hosts that no rule names, like a rule without a host.
    if asks_by_default && let Err(message) = parser.resolver.check_host(&Host::Any, &ingress.meta.key.namespace) {
        (default_backend, parser.has_refused_hosts) = (None, true);
        // As the backend of a rule, it has an effect.
        if !default_backend_in_rules {
            let field = "spec.defaultBackend".to_owned();
            parser.problem(field, Reason::HostNotGranted, message, "default backend not used");
        }
    }
    let Parser { resolver, mut problems, has_refused_hosts, .. } = parser;
    let context = resolver.context;
    let mut is_repeated = false;
    for entry in &entries {
        problems.extend(entry.problem_of_its_own(&origin, &rules, resolver.default_secret, is_repeated));
        is_repeated |= entry.is_blind();
    }
    let mut paths = ingress.spec.rules.iter().flatten().flat_map(|rule| &rule.http).map(|http| http.paths.len());
    let precedence = context.objects.precedence(Kind::INGRESS, &ingress.meta);
    let revision = Revision::new(&ingress.meta, &ingress.spec);
    let shared = Shared {
        rule_less: ingress.spec.rules.as_ref().is_none_or(Vec::is_empty),
        tls_versions: (annotations.tls_minimum, annotations.tls_maximum),
        delegates: annotations.delegates.clone(),
        default_backend,
        default_backend_in_rules,
        ..Shared::new(rules, entries)
    };
    Source {
        shared,
        asks: asks_by_default || paths.any(|paths| paths > 0),
        has_refused_hosts,
        dependencies: resolver.into_dependencies(),
        problems: bounded(problems),
        ..Source::new(precedence, origin.clone(), revision)
    }
}

/// Returns the problem of a path that lost its match to another one.
fn conflict(loser: &Contender, host: &Host, winner: &Contender) -> Option<Problem> {
    let (loser, winner) = (loser.unit, winner.unit);
    // `/foo` and `/foo/` of one Ingress with the same backend are not a conflict.
    if loser.is_same(winner) {
        return None;
    }
    let (kind, text) = match loser.path() {
        PathMatch::Exact(text) => ("exact path", text),
        PathMatch::Regex(text) => ("regular expression", text),
        PathMatch::SeparatedPrefix(text) => ("prefix", text),
        PathMatch::Prefix(text) if **text == *"/" => ("prefix", text),
        PathMatch::Prefix(text) => ("string prefix", text),
    };
    let whose = match winner.route.origin == loser.route.origin {
        true => format!("this {}", winner.route.origin.kind),
        false => winner.route.origin.to_string(),
    };
    Some(Problem {
        object: loser.route.origin.clone(),
        field: loser.field.to_string(),
        reason: Reason::Conflicted,
        message: format!("{kind} {text:?} of host \"{host}\" is taken by {} of {whose}", winner.field).into(),
        consequence: "path left out".to_owned(),
    })
}

/// Returns a 403 for requests with a restriction of access that is not enforced.
fn deny(reason: Arc<str>) -> Action {
    Action::Respond { status: 403, body: Some(reason) }
}

struct Parser<'p, 'r> {
    ingress: &'p Ingress,
    origin: &'p ObjectRef,
    annotations: &'p Annotations,
    resolver: Resolver<'r>,
    problems: Vec<Problem>,
    has_refused_hosts: bool,
}

impl Parser<'_, '_> {
    fn path(&mut self, field: Field, path: &HTTPIngressPath) -> Option<Unit> {
        let text = path.path.as_deref().unwrap_or_default();
        let target = self.target(&format!("{field}.backend"), &path.backend);
        match path::parse(&path.path_type, text, &mut self.resolver.patterns) {
            Ok(parsed) => {
                if let Some(doubt) = parsed.doubt {
                    let message = format!("path {text:?} {}", doubt.message);
                    self.problem(format!("{field}.path"), Reason::Ambiguous, message, doubt.consequence);
                }
                Some(Unit::new(field, parsed.path, parsed.cost, target))
            }
            Err(fault) => {
                let message = format!("path {text:?} {}", fault.message);
                self.problem(format!("{field}.path"), fault.reason, message, "path left out");
                None
            }
        }
    }

    /// Returns the target of a backend. A backend that cannot be built answers 503, so that its requests do not reach a
    /// shorter path.
    fn target(&mut self, field: &str, backend: &IngressBackend) -> RequestTarget {
        let action = match self.cluster(backend) {
            Ok((_, Some(reason))) => deny(reason),
            Ok((cluster, None)) => {
                let clusters = vec![WeightedCluster::new(cluster, 1)];
                let session = session::of_policies(self.resolver.context, &clusters);
                Action::Forward(Arc::new(Forward {
                    filters: session.into_iter().collect::<Vec<_>>().into(),
                    clusters,
                    timeout: self.annotations.timeout,
                    retry: self.annotations.retry.clone(),
                    own: self.annotations.own,
                    websocket: true,
                }))
            }
            Err(fault) => {
                let consequence = if self.annotations.denied.is_some() { "answered 403" } else { "answered 503" };
                self.problem(format!("{field}{}", fault.field), fault.reason, fault.message, consequence);
                Action::respond(503)
            }
        };
        let action = match &self.annotations.denied {
            Some(reason) => deny(reason.clone()),
            None => action,
        };
        RequestTarget { action, plain_text: self.annotations.plain_text, origin: self.origin.clone() }
    }

    /// Returns the cluster of a backend, and the body of a 403 if access to its Service is denied.
    fn cluster(&mut self, backend: &IngressBackend) -> Result<(ClusterId, Option<Arc<str>>), BackendFault> {
        // Fails closed: an unknown policy may restrict the Ingress.
        if !self.resolver.context.objects.is_readable(Kind::HTTP_POLICY, &self.ingress.meta.key.namespace) {
            let message = "the controller is not permitted to list HTTPPolicies, so it is unknown whether one restricts this Ingress";
            return Err(BackendFault { reason: Reason::PolicyNotValid, field: "", message: message.to_owned().into() });
        }
        let unsupported = |field, message| Err(BackendFault { reason: Reason::UnsupportedBackend, field, message });
        let service = match (&backend.service, &backend.resource) {
            (Some(service), None) => service,
            (None, Some(resource)) => {
                let what = format!("backend of kind {:?}, {:?}, is not served", resource.kind, resource.name);
                return unsupported(".resource", what.into());
            }
            (Some(_), Some(_)) => {
                return unsupported("", "backend has both a Service and a resource".into());
            }
            (None, None) => return unsupported("", "backend has neither a Service nor a resource".into()),
        };
        let port = service.port.as_ref();
        let name = port.and_then(|port| port.name.as_deref()).filter(|name| !name.is_empty());
        let number = port.and_then(|port| port.number).filter(|&number| number != 0);
        let port = match (name, number) {
            (Some(name), None) => WantedPort::Name(name),
            (None, Some(number)) => WantedPort::Number(number),
            (None, None) => WantedPort::Missing,
            (Some(_), Some(_)) => WantedPort::Both,
        };
        self.resolver.cluster(ObjectKey::new(&self.ingress.meta.key.namespace, &service.name), port, None)
    }

    /// Returns the elements of `spec.tls`.
    fn entries(&mut self) -> Vec<TlsEntry> {
        let mut entries = Vec::new();
        // Entries without hosts apply to all hosts, so many of them would cost time for each host.
        let (mut hostless, mut left_out) = (BTreeSet::new(), 0);
        for (at, tls) in self.ingress.spec.tls.iter().flatten().enumerate() {
            let mut hosts = BTreeSet::new();
            let texts = tls.hosts.as_deref().unwrap_or_default();
            for (j, text) in texts.iter().enumerate() {
                let fault = match host::parse(text) {
                    Ok(Host::Any) => "is empty",
                    Ok(host) => {
                        if self.permits(&host, format!("spec.tls[{at}].hosts[{j}]"), "host left out") {
                            hosts.insert(host);
                        }
                        continue;
                    }
                    Err(fault) => fault,
                };
                let (field, message) = (format!("spec.tls[{at}].hosts[{j}]"), format!("host {text:?} {fault}"));
                self.problem(field, Reason::HostNotValid, message, "host left out");
            }
            if texts.is_empty() {
                if hostless.contains(&tls.secret_name) {
                    continue;
                }
                if hostless.len() == MAX_BESIDE {
                    left_out += 1;
                    continue;
                }
                hostless.insert(&tls.secret_name);
            }
            let field = Field::new("spec.tls[#]", &[at]);
            let material = match tls.secret_name.as_deref().filter(|name| !name.is_empty()) {
                None => EntryKeyPair::Default,
                Some(name) => self.material(&field, name),
            };
            let hosts = hosts.into_iter().collect();
            entries.push(TlsEntry { field, hosts, hostless: texts.is_empty(), ignores_names: false, material });
        }
        if left_out > 0 {
            let message = format!("more than {MAX_BESIDE} entries list no hosts");
            let consequence = format!("{left_out} of them left out");
            self.problem("spec.tls".to_owned(), Reason::TLSConfigNotValid, message, &consequence);
        }
        let beyond = source::count_beyond(&entries);
        if beyond > 0 {
            let message = format!("more than {MAX_BESIDE} Secrets");
            let consequence = format!("the last {beyond} of them do not apply to hosts that their entries do not list");
            self.problem("spec.tls".to_owned(), Reason::TLSConfigNotValid, message, &consequence);
        }
        entries
    }

    /// Returns the content of a Secret. A Secret of another namespace needs a TLSCertificateDelegation there.
    fn material(&mut self, field: &Field, name: &str) -> EntryKeyPair {
        let own = &self.ingress.meta.key.namespace;
        let namespace = self.annotations.secret_namespace.as_ref().unwrap_or(own).clone();
        let key = ObjectKey { namespace, name: name.into() };
        if !delegations::permit(&key, own, &mut self.resolver) {
            let field = format!("metadata.annotations[\"{}\"]", annotations::TLS_CERT_NAMESPACE);
            let message = format!("no TLSCertificateDelegation permits \"{own}\" to use Secret \"{key}\"");
            let message = Message::from(message).because(Cause::NotDelegated(key.namespace));
            self.problem(field, Reason::ReferenceNotPermitted, message, "the Secret is not used");
            return EntryKeyPair::Foreign;
        }
        let (material, problem) = EntryKeyPair::read(self.origin, field, key, &mut self.resolver);
        self.problems.extend(problem);
        material
    }

    /// Returns whether the namespace may define `host`. Reports a host that it must not define.
    fn permits(&mut self, host: &Host, field: String, consequence: &str) -> bool {
        let refused = self.resolver.check_host(host, &self.ingress.meta.key.namespace).err();
        let is_permitted = refused.is_none();
        if let Some(message) = refused {
            self.has_refused_hosts = true;
            self.problem(field, Reason::HostNotGranted, message, consequence);
        }
        is_permitted
    }

    fn problem(&mut self, field: String, reason: Reason, message: impl Into<Message>, consequence: &str) {
        let (object, consequence) = (self.origin.clone(), consequence.to_owned());
        self.problems.push(Problem { object, field, reason, message: message.into(), consequence });
    }
}
