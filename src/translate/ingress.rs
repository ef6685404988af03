//! One Ingress by itself: its rules as routes, before they meet those of other Ingresses.

use k8s_openapi::api::networking::v1::{HTTPIngressPath, IngressBackend};

use crate::model::{Action, Forward, Host, PathMatch, WeightedCluster};
use crate::provenance::ObjectRef;
use crate::settings::Settings;
use crate::source::objects::{Ingress, Kind};

use super::annotations::{self, Annotations, PlainText};
use super::backend::Backends;
use super::problem::{Problem, Reason};
use super::{host, path};

/// An Ingress, read.
#[derive(Debug)]
pub struct Parsed<'a> {
    /// The object.
    pub ingress: &'a Ingress,
    /// A reference to it.
    pub origin: ObjectRef,
    /// What its annotations say.
    pub annotations: Annotations,
    /// Its hosts in the order of its rules, each with the paths that can be served; a host may come twice.
    pub rules: Vec<(Host, Vec<PathRule>)>,
    /// Where requests go that no rule takes.
    pub default_backend: Option<Target>,
}

/// A path of a rule.
#[derive(Debug)]
pub struct PathRule {
    /// The field: `spec.rules[0].http.paths[2]`.
    pub field: String,
    /// What it matches.
    pub path: PathMatch,
    /// Where its requests go.
    pub target: Target,
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

/// Reads `ingress`. What is wrong goes to `problems` and costs only itself.
pub fn parse<'a>(
    ingress: &'a Ingress,
    settings: &Settings,
    backends: &mut Backends,
    problems: &mut Vec<Problem>,
) -> Parsed<'a> {
    let (annotations, faults) = annotations::of_ingress(ingress, settings);
    problems.extend(faults);
    let origin = ingress.meta.object_ref(Kind::Ingress);
    let mut reader = Reader { ingress, origin: &origin, annotations: &annotations, backends, problems };
    let mut rules = Vec::new();
    for (i, rule) in ingress.spec.rules.iter().flatten().enumerate() {
        let text = rule.host.as_deref().unwrap_or_default();
        match host::parse(text) {
            Ok(host) => {
                let paths = rule.http.iter().flat_map(|http| &http.paths).enumerate();
                let paths = paths.filter_map(|(j, path)| reader.path(i, j, path)).collect();
                rules.push((host, paths));
            }
            Err(fault) => {
                let message = format!("host {text:?} {fault}");
                reader.problem(format!("spec.rules[{i}].host"), Reason::HostNotValid, message, "rule left out");
            }
        }
    }
    let default_backend =
        ingress.spec.default_backend.as_ref().map(|backend| reader.target("spec.defaultBackend", backend));
    Parsed { ingress, origin, annotations, rules, default_backend }
}

struct Reader<'r, 'o> {
    ingress: &'r Ingress,
    origin: &'r ObjectRef,
    annotations: &'r Annotations,
    backends: &'r mut Backends<'o>,
    problems: &'r mut Vec<Problem>,
}

impl Reader<'_, '_> {
    fn path(&mut self, i: usize, j: usize, path: &HTTPIngressPath) -> Option<PathRule> {
        let field = format!("spec.rules[{i}].http.paths[{j}]");
        let text = path.path.as_deref().unwrap_or_default();
        let target = self.target(&format!("{field}.backend"), &path.backend);
        match path::parse(&path.path_type, text) {
            Ok(parsed) => {
                if let Some(doubt) = parsed.doubt {
                    let message = format!("path {text:?} {doubt}");
                    self.problem(format!("{field}.path"), Reason::Ambiguous, message, "taken as a string prefix");
                }
                Some(PathRule { field, path: parsed.path, target })
            }
            Err(fault) => {
                let message = format!("path {text:?} {fault}");
                let reason = Reason::PathMatchConditionsNotValid;
                self.problem(format!("{field}.path"), reason, message, "path left out");
                None
            }
        }
    }

    /// Where a backend leads. One that cannot be built answers 503: its requests must not fall to a shorter path.
    fn target(&mut self, field: &str, backend: &IngressBackend) -> Target {
        let action = match self.backends.resolve(&self.ingress.meta.key.namespace, backend) {
            Ok(cluster) => Action::Forward(Forward {
                clusters: vec![WeightedCluster { cluster, weight: 1 }],
                timeout: self.annotations.timeout,
                retry: self.annotations.retry.clone(),
                websocket: true,
            }),
            Err(fault) => {
                self.problem(format!("{field}{}", fault.field), fault.reason, fault.message, "answered 503");
                Action::Respond { status: 503 }
            }
        };
        Target { action, plain_text: self.annotations.plain_text, origin: self.origin.clone() }
    }

    fn problem(&mut self, field: String, reason: Reason, message: String, consequence: &str) {
        let (object, consequence) = (self.origin.clone(), consequence.to_owned());
        self.problems.push(Problem { object, field, reason, message, consequence });
    }
}
