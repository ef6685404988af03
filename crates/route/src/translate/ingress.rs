//! One Ingress by itself: its rules as routes and its TLS entries, before they meet those of other Ingresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::networking::v1::{HTTPIngressPath, IngressBackend};
use lockgate_xds::provenance::ObjectRef;

use crate::model::{Action, ClusterId, Forward, Host, Match, PathMatch, Route, SecretId, WeightedCluster};
use crate::objects::{Ingress, Kind, ObjectKey, Precedence, Revision};
use crate::re2::Cost;

use super::annotations::{self, Annotations, PlainText};
use super::backend::{self, Context, Fault, Located};
use super::dialect::Dialect;
use super::few::set_of;
use super::graph::Input;
use super::problem::{Problem, Reason};
use super::verdict::Verdict;
use super::{host, path, tls};

/// An Ingress, read.
#[derive(Debug, PartialEq)]
pub struct Parsed {
    /// Its rank in every conflict.
    pub precedence: Precedence,
    /// A reference to it.
    pub origin: ObjectRef,
    /// The hash of its content.
    pub revision: Revision,
    /// Whether its spec has no rules, so that its default backend is meant for every host.
    pub rule_less: bool,
    /// What its annotations say.
    pub annotations: Annotations,
    /// Its rules with a valid host, in their order; a host may come twice.
    pub rules: Box<[Rule]>,
    /// Its TLS entries.
    pub entries: Box<[tls::Entry]>,
    /// Whether its spec has a path or a default backend, valid or not.
    pub asks: bool,
    /// Where requests go that no rule takes.
    pub default_backend: Option<Box<Target>>,
    /// Where each of its hosts occurs, sorted.
    hosts: Box<[(Host, Places)]>,
    /// What it was read from beside the Ingress.
    pub reads: Reads,
    /// What is wrong with it by itself.
    pub problems: Box<[Arc<Problem>]>,
    /// The conditions of its status. The status of an Ingress has none.
    pub verdicts: Box<[Verdict]>,
}

impl Parsed {
    /// Its hosts, sorted.
    pub fn hosts(&self) -> impl Iterator<Item = &Host> {
        self.hosts.iter().map(|(host, _)| host)
    }

    /// The rules for `host`.
    pub fn rules_for(&self, host: &Host) -> impl Iterator<Item = &Rule> {
        let places = self.places(host).into_iter().flat_map(|places| &places.rules);
        places.filter_map(|at| self.rules.get(*at as usize))
    }

    /// Whether a rule names `host`.
    pub fn rules_on(&self, host: &Host) -> bool {
        self.places(host).is_some_and(|places| !places.rules.is_empty())
    }

    /// Whether its default backend is also the backend of a rule without `http`.
    pub fn default_backend_in_rules(&self) -> bool {
        self.rules.iter().flat_map(|rule| &rule.paths).any(|path| path.at.1.is_none())
    }

    /// Where `host` occurs, if it does.
    pub fn places(&self, host: &Host) -> Option<&Places> {
        let at = self.hosts.binary_search_by(|(other, _)| other.cmp(host)).ok()?;
        self.hosts.get(at).map(|(_, places)| places)
    }
}

/// Where a host occurs in an Ingress.
#[derive(Debug, Default, PartialEq)]
pub struct Places {
    /// In [`Parsed::rules`].
    pub rules: Box<[u32]>,
    /// In [`Parsed::entries`].
    pub entries: Box<[u32]>,
}

/// The inputs and clusters that a source reads, each sorted.
#[derive(Debug, Default, PartialEq)]
pub struct Reads {
    /// Inputs beside the source itself, whether they exist or not.
    pub inputs: Box<[Input]>,
    /// Clusters, whether they can be built or not.
    pub clusters: Box<[ClusterId]>,
}

/// A rule with a valid host.
#[derive(Debug, PartialEq)]
pub struct Rule {
    /// The index in `spec.rules`.
    pub at: usize,
    /// The host.
    pub host: Host,
    /// The paths that can be served.
    pub paths: Box<[PathRule]>,
}

impl Rule {
    /// `spec.rules[0]`
    pub fn field(&self) -> String {
        field((self.at, None))
    }
}

/// A path of a rule.
#[derive(Debug, PartialEq)]
pub struct PathRule {
    /// The rule's index, and the path's; a rule without `http` has one path without an index.
    pub at: (usize, Option<usize>),
    /// What comparing a request with it costs, if it is a regular expression.
    pub cost: Cost,
    /// Its route behind TLS, which all hosts and revisions of the model share.
    pub route: Arc<Route>,
    /// What happens to its requests in plain text.
    pub plain_text: PlainText,
}

impl PathRule {
    fn new(at: (usize, Option<usize>), path: PathMatch, cost: Cost, target: Target) -> Self {
        let Target { action, plain_text, origin } = target;
        Self { at, cost, route: Arc::new(Route::new(path, action, origin)), plain_text }
    }

    /// Returns the requests that it matches.
    pub fn matches(&self) -> &Match {
        &self.route.matches
    }

    /// Returns the path that it matches.
    pub fn path(&self) -> &PathMatch {
        &self.route.matches.path
    }

    /// Whether both do the same to the same requests.
    pub fn is_same(&self, other: &Self) -> bool {
        self.route == other.route && self.plain_text == other.plain_text
    }

    /// `spec.rules[0].http.paths[2]`
    pub fn field(&self) -> String {
        field(self.at)
    }
}

fn field((rule, path): (usize, Option<usize>)) -> String {
    match path {
        Some(path) => format!("spec.rules[{rule}].http.paths[{path}]"),
        None => format!("spec.rules[{rule}]"),
    }
}

/// Where requests go, on both ports.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// What happens to a request behind TLS.
    pub action: Action,
    /// What happens to it in plain text.
    pub plain_text: PlainText,
    /// The object that asked for it.
    pub origin: ObjectRef,
}

/// The body of a 403 if access to a cluster is denied, or why the cluster cannot be built.
pub type Judgment = Result<Option<Arc<str>>, Fault>;

/// What parsing a source needs beside it.
pub struct Reading<'a> {
    /// The objects and settings.
    pub context: Context<'a>,
    /// The default certificate, if there is one.
    pub default_secret: Option<&'a SecretId>,
    /// What becomes of requests to a cluster.
    pub judge: &'a mut dyn FnMut(&Located) -> Judgment,
}

/// The dialect of Ingresses.
pub const DIALECT: Dialect = Dialect {
    kind: Kind::INGRESS,
    serves: |object, classes| object.get().is_some_and(|ingress| classes.serve(ingress)),
    parse: |object, reading| object.get().map(|ingress| parse(ingress, reading)),
};

/// Reads `ingress`. What is wrong with it costs only itself.
pub fn parse(ingress: &Ingress, reading: Reading) -> Parsed {
    let (annotations, problems) = annotations::of_ingress(ingress, reading.context.settings);
    let origin = ingress.meta.object_ref(Kind::INGRESS);
    let Reading { context, default_secret, judge } = reading;
    let mut reader = Reader {
        ingress,
        origin: &origin,
        annotations: &annotations,
        context,
        judge,
        services: Vec::new(),
        clusters: Vec::new(),
        problems,
    };
    let default_backend = ingress.spec.default_backend.as_ref();
    let default_backend = default_backend.map(|backend| Box::new(reader.target("spec.defaultBackend", backend)));
    let mut rules = Vec::new();
    for (i, rule) in ingress.spec.rules.iter().flatten().enumerate() {
        let text = rule.host.as_deref().unwrap_or_default();
        match host::parse(text) {
            Ok(host) => {
                let paths = match (&rule.http, default_backend.as_deref()) {
                    // A rule without `http` is a catch-all. Source: Ingress v1 `IngressRuleValue`.
                    (None, Some(target)) => {
                        [PathRule::new((i, None), PathMatch::root(), Cost::default(), Target::clone(target))].into()
                    }
                    (http, _) => {
                        let paths = http.iter().flat_map(|http| &http.paths).enumerate();
                        paths.filter_map(|(j, path)| reader.path((i, Some(j)), path)).collect()
                    }
                };
                rules.push(Rule { at: i, host, paths });
            }
            Err(fault) => {
                let message = format!("host {text:?} {fault}");
                reader.problem(format!("spec.rules[{i}].host"), Reason::HostNotValid, message, "rule left out");
            }
        }
    }
    let Reader { services, clusters, mut problems, .. } = reader;
    let mut secrets = Vec::new();
    let entries = tls::entries(ingress, &annotations, (context.objects, context.settings), &mut secrets, &mut problems);
    let services = services.into_iter().map(|key| Input::new(Kind::SERVICE, key));
    let inputs = services.chain(secrets.into_iter().map(|key| Input::new(Kind::SECRET, key)));
    let reads = Reads { inputs: set_of(inputs.collect()), clusters: set_of(clusters) };
    let hosts = hosts(&rules, &entries);
    let own = entries.iter().filter_map(|entry| entry.problem_of_its_own(&origin, &rules, default_secret));
    problems.extend(own);
    let problems = problems.into_iter().map(Arc::new).collect();
    let rule_less = ingress.spec.rules.as_ref().is_none_or(Vec::is_empty);
    let mut paths = ingress.spec.rules.iter().flatten().flat_map(|rule| &rule.http).map(|http| http.paths.len());
    let asks = default_backend.is_some() || paths.any(|paths| paths > 0);
    Parsed {
        precedence: context.objects.precedence(Kind::INGRESS, &ingress.meta),
        origin,
        revision: Revision::new(&ingress.meta, &ingress.spec),
        rule_less,
        annotations,
        rules: rules.into(),
        entries: entries.into(),
        asks,
        default_backend,
        hosts,
        reads,
        problems,
        verdicts: Box::default(),
    }
}

/// Where each host occurs.
fn hosts(rules: &[Rule], entries: &[tls::Entry]) -> Box<[(Host, Places)]> {
    let mut hosts = BTreeMap::<&Host, (Vec<u32>, Vec<u32>)>::new();
    for (at, rule) in (0..).zip(rules) {
        hosts.entry(&rule.host).or_default().0.push(at);
    }
    for (at, entry) in (0..).zip(entries) {
        for host in &entry.hosts {
            hosts.entry(host).or_default().1.push(at);
        }
    }
    let places = |(rules, entries): (Vec<_>, Vec<_>)| Places { rules: rules.into(), entries: entries.into() };
    hosts.into_iter().map(|(host, at)| (host.clone(), places(at))).collect()
}

/// The answer to requests whose access is restricted in a way that is not enforced.
fn deny(reason: Arc<str>) -> Action {
    Action::Respond { status: 403, body: Some(reason) }
}

struct Reader<'r> {
    ingress: &'r Ingress,
    origin: &'r ObjectRef,
    annotations: &'r Annotations,
    context: Context<'r>,
    judge: &'r mut dyn FnMut(&Located) -> Judgment,
    services: Vec<ObjectKey>,
    clusters: Vec<ClusterId>,
    problems: Vec<Problem>,
}

impl Reader<'_> {
    fn path(&mut self, at: (usize, Option<usize>), path: &HTTPIngressPath) -> Option<PathRule> {
        let text = path.path.as_deref().unwrap_or_default();
        let target = self.target(&format!("{}.backend", field(at)), &path.backend);
        match path::parse(&path.path_type, text, &self.context.settings.regexes) {
            Ok(parsed) => {
                if let Some(doubt) = parsed.doubt {
                    let message = format!("path {text:?} {doubt}");
                    self.problem(format!("{}.path", field(at)), Reason::Ambiguous, message, "taken as a string prefix");
                }
                Some(PathRule::new(at, parsed.path, parsed.cost, target))
            }
            Err(fault) => {
                let message = format!("path {text:?} {}", fault.message);
                self.problem(format!("{}.path", field(at)), fault.reason, message, "path left out");
                None
            }
        }
    }

    /// Where a backend leads. One that cannot be built answers 503: its requests must not fall to a shorter path.
    fn target(&mut self, field: &str, backend: &IngressBackend) -> Target {
        let action = match self.cluster(backend) {
            Ok((_, Some(reason))) => deny(reason),
            Ok((cluster, None)) => Action::Forward(Arc::new(Forward {
                clusters: vec![WeightedCluster::new(cluster, 1)],
                timeout: self.annotations.timeout,
                retry: self.annotations.retry.clone(),
                websocket: true,
                ..Forward::default()
            })),
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
        Target { action, plain_text: self.annotations.plain_text, origin: self.origin.clone() }
    }

    /// The cluster of a backend, and the body of a 403 if access to its Service is denied.
    fn cluster(&mut self, backend: &IngressBackend) -> Result<(ClusterId, Option<Arc<str>>), Fault> {
        let Self { ingress, context, services, .. } = self;
        let read = |service| services.push(service);
        let located = backend::locate(context.objects, &ingress.meta.key.namespace, backend, None, read)?;
        self.clusters.push(located.cluster.clone());
        let denied = (self.judge)(&located)?;
        Ok((located.cluster, denied))
    }

    fn problem(&mut self, field: String, reason: Reason, message: String, consequence: &str) {
        let (object, consequence) = (self.origin.clone(), consequence.to_owned());
        self.problems.push(Problem { object, field, reason, message, consequence });
    }
}
