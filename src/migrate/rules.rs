//! The rules of HTTPRoutes without their matches: backends, filters, time limits, retries, and the features of their policies.

mod limits;

use std::collections::BTreeSet;

use lockgate_route::model::{Action, ClusterFilter, Forward, Host, PortRef, Route, WeightedCluster};
use lockgate_route::objects::ObjectKey;
use serde_json::{Value, json};

use super::backends::Backends;
use super::filters;
use super::losses::{FindingText, Losses};
use super::paths::PathCondition;
use super::{Migrated, MigrationOptions, policies};
use crate::check::Translated;

pub use limits::{duration, writable_host};

/// Writes the rules.
pub struct Writer<'a> {
    /// The migrated objects and their translation.
    pub source: &'a Translated,
    /// The Services of the input. Others are assumed to exist.
    pub given: &'a BTreeSet<ObjectKey>,
    /// The options.
    pub options: &'a MigrationOptions,
    /// The policies for Services.
    pub backends: Backends,
}

/// The content of a rule.
#[derive(Debug)]
pub struct RuleContent {
    /// The fields of the rule without its matches. A rule without backends is answered 500: it keeps requests from a shorter path.
    pub fields: Value,
    /// The features of the HTTPPolicy.
    pub policy: Option<Value>,
}

impl RuleContent {
    /// Returns a rule that is answered 500.
    fn closed() -> Self {
        Self { fields: json!({}), policy: None }
    }
}

/// The reason why a rule gets no backend.
#[derive(Debug)]
pub struct RuleFault {
    /// The part of the route, such as `jwtVerificationPolicy`.
    pub part: &'static str,
    /// The fault.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

/// The route of a rule, for reports.
#[derive(Debug, Clone, Copy)]
pub struct RulePlace<'a> {
    /// The migrated object.
    pub owner: &'a ObjectKey,
    /// The field of the route.
    pub field: &'a str,
}

impl RulePlace<'_> {
    /// Returns the field of a part of the route, if routes of the kind have it.
    pub fn below(&self, losses: &Losses, part: &str) -> String {
        match losses.migrated() {
            Migrated::HttpProxies => format!("{}.{part}", self.field),
            _ => self.field.to_owned(),
        }
    }

    /// Reports a part of the route that changes.
    pub fn report_change(&self, losses: &mut Losses, part: &str, [message, consequence, remedy]: [&str; 3]) {
        let message = message.to_owned();
        losses.add_changed(self.owner, self.below(losses, part), FindingText { message, consequence, remedy });
    }
}

impl Writer<'_> {
    /// Returns the content of a rule for the action of a route of `owner`.
    pub fn rule(
        &mut self,
        owner: &ObjectKey,
        host: &Host,
        route: &Route,
        condition: &PathCondition,
        losses: &mut Losses,
    ) -> RuleContent {
        let field = losses.field(owner, host, route);
        let place = RulePlace { owner, field: &field };
        match self.content(place, route, condition, losses) {
            Ok(content) => content,
            Err(None) => RuleContent::closed(),
            Err(Some(RuleFault { part, message, remedy })) => {
                let consequence = "the rule has no backend, and its requests are answered 500";
                losses.add_lost(
                    owner,
                    place.below(losses, part),
                    FindingText { message, consequence, remedy: &remedy },
                );
                RuleContent::closed()
            }
        }
    }

    /// Returns the content of a rule. The error is `None` if it is reported.
    fn content(
        &mut self,
        place: RulePlace,
        route: &Route,
        condition: &PathCondition,
        losses: &mut Losses,
    ) -> Result<RuleContent, Option<RuleFault>> {
        let mut fields = match &route.action {
            Action::Forward(forward) => self.forward(place, (route, forward), losses)?,
            Action::Redirect(_) => json!({}),
            Action::Respond { status, .. } => {
                responds(place, *status, losses);
                return Err(None);
            }
        };
        let filters = filters::of_route(self, route, condition, place, losses)?;
        if !filters.is_empty() {
            fields["filters"] = Value::Array(filters);
        }
        let mut policy = policies::features(self.source, route, place, losses)?;
        if losses.migrated() == Migrated::HttpProxies {
            limits::add_to_policy(route, self.options, &mut policy);
        }
        if losses.migrated() == Migrated::HttpProxies
            && matches!(&route.action, Action::Forward(forward) if !forward.websocket)
            && losses.is_first(place.owner, "websockets")
        {
            let text = FindingText {
                message: "HTTPRoutes pass on WebSockets, also without \"enableWebsockets\"".to_owned(),
                consequence: "clients can open WebSockets if the Service accepts them",
                remedy: "No action is needed unless the Service offers WebSockets that clients must not use.",
            };
            losses.add_note(place.owner, place.field.to_owned(), text);
        }
        Ok(RuleContent { fields, policy })
    }

    fn forward(
        &mut self,
        place: RulePlace,
        (route, forward): (&Route, &Forward),
        losses: &mut Losses,
    ) -> Result<Value, Option<RuleFault>> {
        let mut backends = Vec::new();
        for weighted in &forward.clusters {
            backends.push(self.backend(place, weighted, forward.clusters.len() > 1, losses)?);
        }
        let mut rule = json!({ "backendRefs": backends });
        self.limits(place, (route, forward), &mut rule, losses);
        Ok(rule)
    }

    fn backend(
        &mut self,
        place: RulePlace,
        weighted: &WeightedCluster,
        is_weighted: bool,
        losses: &mut Losses,
    ) -> Result<Value, Option<RuleFault>> {
        let WeightedCluster { cluster, weight, filters } = weighted;
        let service = cluster.port.service();
        let found = self.source.translator.model().clusters.get(cluster);
        // A port of an HTTPProxy is a number.
        let is_unknown = losses.migrated() == Migrated::Ingresses
            && !self.given.contains(service)
            && matches!(cluster.port.port(), PortRef::Name(_));
        let Some(found) = found.filter(|_| !is_unknown) else {
            let (below, remedy) = match losses.migrated() {
                Migrated::HttpProxies => ("services", "Add the Service to the input."),
                _ => (
                    "backend.service.port.name",
                    "Add the Service to the input, or write the number of the port into the Ingress.",
                ),
            };
            let text = FindingText {
                message: format!("Service \"{service}\" is not in the input, so the number of its port is unknown"),
                consequence: "the rule has no backend, and its requests are answered 500",
                remedy,
            };
            losses.add_lost(place.owner, format!("{}.{below}", place.field), text);
            return Err(None);
        };
        if losses.migrated() == Migrated::HttpProxies {
            self.backends.add(self.source, found, cluster, place, losses)?;
        }
        let mut backend = json!({ "name": &*service.name, "port": found.port });
        if is_weighted {
            backend["weight"] = json!(weight);
        }
        let (mut requests, mut responses) = (Vec::new(), Vec::new());
        for filter in filters.iter() {
            match filter {
                ClusterFilter::RequestHeaders(changes) => requests.extend(changes.iter().cloned()),
                ClusterFilter::ResponseHeaders(changes) => responses.extend(changes.iter().cloned()),
                // The filters of the route contain it.
                ClusterFilter::Host(_) => {}
            }
        }
        let filters = filters::headers([&requests, &responses], place, "services", losses)?;
        if !filters.is_empty() {
            backend["filters"] = Value::Array(filters);
        }
        Ok(backend)
    }
}

/// Reports an answer of Envoy itself.
fn responds(place: RulePlace, status: u16, losses: &mut Losses) {
    // An include that is missing answers 502.
    let is_include = (losses.migrated(), status) == (Migrated::HttpProxies, 502);
    let field = if is_include { "spec.includes".to_owned() } else { place.field.to_owned() };
    match (losses.migrated(), status) {
        (Migrated::HttpProxies, _) => {
            let text = FindingText {
                message: format!("Envoy answers the requests with {status} itself, which HTTPRoutes do not express"),
                consequence: "the rule has no backend, and its requests are answered 500",
                remedy: match status {
                    502..=504 => "Correct the HTTPProxy, and migrate again.",
                    _ => "Send these requests to a Service that answers so.",
                },
            };
            losses.add_lost(place.owner, field, text);
        }
        (_, 404) => losses.add_changed(place.owner, field, CLOSED.text()),
        (_, 403) => losses.add_lost(place.owner, field, DENIED.text()),
        _ => losses.add_lost(place.owner, field, UNUSABLE.text()),
    }
}

/// The texts of a rule without a backend.
pub struct Without {
    /// The fault.
    pub message: &'static str,
    /// The consequence.
    pub consequence: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

impl Without {
    /// Returns the texts of the finding.
    pub fn text(&self) -> FindingText<'static> {
        FindingText { message: self.message.to_owned(), consequence: self.consequence, remedy: self.remedy }
    }
}

const CLOSED: Without = Without {
    message: "the path is not served over plain HTTP, and a shorter path of the host is",
    consequence: "plain HTTP is answered 500 instead of 404",
    remedy: "No action is needed: the requests are still refused.",
};
const DENIED: Without = Without {
    message: "annotations restrict access to this path and are not enforced",
    consequence: "the rule has no backend, and its requests are answered 500 instead of 403",
    remedy: "Restrict access in another way, remove the annotation, and migrate again.",
};
const UNUSABLE: Without = Without {
    message: "the backend of this path is not usable",
    consequence: "the rule has no backend, and its requests are answered 500 instead of 503",
    remedy: "Correct the backend in the Ingress, and migrate again.",
};
