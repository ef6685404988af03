//! The tree of a root and the objects that it includes.
//!
//! Includes precede the routes of an object, and of equal matches the last one wins, as in Contour. A missing include answers 502 on its
//! conditions, so that its requests do not reach another route.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::access::HostAccess;
use super::conditions::{MatchConditionFault, MatchConditions};
use super::report::{ProxyFault, ProxyReport};
use super::situation;
use super::upstream::RootPolicies;
use super::{DIALECT, proxy_of};
use crate::model::{Action, Cors, Match, Route};
use crate::objects::http_proxy::{HttpProxy, Include};
use crate::objects::{Kind, ObjectKey};
use crate::re2::Cost;
use crate::translate::dialect::Resolver;
use crate::translate::foreign;
use crate::translate::gateway::http_policy::Features;
use crate::translate::plain_text::{PlainText, ToHttps};
use crate::translate::problem::Message;
use crate::translate::unit::{Field, Unit};

pub use super::conditions::InheritedConditions;

/// The maximum number of included objects of a root, each counted for each include.
const MOST_OBJECTS: usize = 1000;

/// The policies of the host that apply to all routes.
#[derive(Debug)]
pub struct HostPolicies {
    /// Whether a field that is not served may restrict access to the host.
    pub is_closed: bool,
    /// Whether the host is a wildcard.
    pub is_wildcard: bool,
    /// The access policies.
    pub access: HostAccess,
    /// The permissions of scripts of other origins.
    pub cors: Option<Arc<Cors>>,
    /// The redirect of plain HTTP, with TLS.
    pub redirect: Option<ToHttps>,
    /// The name of the host, which policies can target.
    pub section: Option<Arc<str>>,
}

/// The state of parsing a root.
pub struct Tree<'r> {
    /// The inputs.
    pub resolver: Resolver<'r>,
    /// The problems and the verdicts.
    pub report: ProxyReport,
    /// The policies of the host.
    pub host: HostPolicies,
    units: Vec<Unit>,
    by_match: HashMap<Match, Declared>,
    /// The units that apply unless another unit has their match. `None`: the route of the unit is replaced.
    pairs: Vec<Option<Unit>>,
    /// The objects from the root to the current one.
    above: Vec<ObjectKey>,
    objects: usize,
    /// The size of the included objects, in bytes.
    size: u64,
    /// The features of the last route that has any. Most routes of a host have the same.
    pub(super) last_features: Option<Arc<Features>>,
    /// The policies for Service ports.
    pub policies: RootPolicies,
}

/// The unit of a match.
#[derive(Debug, Clone, Copy)]
struct Declared {
    /// The index of the unit.
    at: usize,
    /// Whether a route declares it.
    is_route: bool,
    /// The index of its pair: the same route for the paths with a slash at the end of its prefix.
    pair: Option<usize>,
}

/// The object whose routes are parsed.
#[derive(Debug)]
pub struct Declaring<'p> {
    /// The object.
    pub proxy: &'p HttpProxy,
    /// A reference to it.
    pub origin: ObjectRef,
    /// Whether a field that is not served may restrict access to its routes.
    is_closed: bool,
    /// The body of a 403 for its routes, if an annotation of another controller restricts access.
    denied: Option<Arc<str>>,
}

impl<'p> Declaring<'p> {
    /// Returns the object with the Services of a TCP proxy. The caller considers what closes its connections.
    pub fn of_connections(proxy: &'p HttpProxy) -> Self {
        Self { proxy, origin: proxy.meta.object_ref(Kind::HTTP_PROXY), is_closed: false, denied: None }
    }
}

impl<'r> Tree<'r> {
    /// Creates an empty tree.
    pub fn new(resolver: Resolver<'r>, report: ProxyReport, mut host: HostPolicies) -> Self {
        let policies = std::mem::take(&mut host.access.servers);
        Self {
            resolver,
            report,
            host,
            units: Vec::new(),
            by_match: HashMap::new(),
            pairs: Vec::new(),
            above: Vec::new(),
            objects: 0,
            size: 0,
            last_features: None,
            policies,
        }
    }

    /// Returns the units, the report, and the inputs.
    pub fn into_parts(self) -> (Vec<Unit>, ProxyReport, Resolver<'r>) {
        let Self { mut units, mut by_match, pairs, report, resolver, .. } = self;
        for pair in pairs.into_iter().flatten() {
            if let Entry::Vacant(entry) = by_match.entry(pair.matches().clone()) {
                entry.insert(Declared { at: units.len(), is_route: true, pair: None });
                units.push(pair);
            }
        }
        (units, report, resolver)
    }

    /// Adds the includes and the routes of an object below a chain of includes.
    pub fn add(&mut self, proxy: &HttpProxy, reached: &InheritedConditions) {
        let origin = proxy.meta.object_ref(Kind::HTTP_PROXY);
        self.report.declare_valid(&origin);
        let foreign = foreign::of(&proxy.meta, Kind::HTTP_PROXY, self.resolver.context.settings);
        for problem in foreign.problems {
            let situation = situation::of_reason(problem.reason);
            self.report.add_problem(problem, &situation);
        }
        let closed = "answered 503 for all routes of the object";
        let rest = (&proxy.spec.rest, &[][..]);
        let is_closed = self.report.add_rest(&origin, "spec", rest, situation::Block::Spec, closed);
        let object = Declaring { proxy, origin, is_closed, denied: foreign.denied };
        self.above.push(proxy.meta.key.clone());
        let mut blocks = Vec::new();
        for (index, include) in proxy.spec.includes.iter().enumerate() {
            self.include(&object, index, include, reached, &mut blocks);
        }
        self.above.pop();
        for (index, route) in proxy.spec.routes.iter().enumerate() {
            self.route(&object, index, route, reached);
        }
    }

    /// Returns the action of a route, or the answer if a field that is not served may restrict access to it.
    pub fn answer(&self, object: &Declaring, is_closed: bool, action: Action) -> Action {
        match &object.denied {
            Some(body) => Action::Respond { status: 403, body: Some(body.clone()) },
            None if is_closed || object.is_closed || self.host.is_closed => Action::respond(503),
            None => action,
        }
    }

    /// Reports a condition that is not valid.
    pub fn report_condition(
        &mut self,
        object: &Declaring,
        field: &str,
        block: situation::Block,
        fault: MatchConditionFault,
        consequence: &str,
    ) {
        let MatchConditionFault { field: below, reason, message } = fault;
        self.report.add(&object.origin, format!("{field}{below}"), &block.condition(reason), message, consequence);
    }

    /// Adds a unit. It replaces an earlier one with the same match, with its pair. `is_route`: a route declares it.
    pub fn push(&mut self, unit: Unit, is_route: bool, pair: Option<Unit>) {
        let of_pair = pair.is_some().then_some(self.pairs.len());
        self.pairs.extend(pair.map(Some));
        match self.by_match.entry(unit.matches().clone()) {
            Entry::Vacant(entry) => {
                entry.insert(Declared { at: self.units.len(), is_route, pair: of_pair });
                self.units.push(unit);
            }
            Entry::Occupied(mut entry) => {
                let Declared { at, is_route: was_route, pair } = *entry.get();
                entry.insert(Declared { at, is_route, pair: of_pair });
                if let Some(pair) = pair {
                    self.pairs[pair] = None;
                }
                let replaced = std::mem::replace(&mut self.units[at], unit);
                if was_route && is_route {
                    let by = &self.units[at];
                    let message = format!("its requests are taken by {} of {}", by.field, by.route.origin);
                    let (object, field) = (&replaced.route.origin, replaced.field.to_string());
                    self.report.add(object, field, &situation::SHADOWED_ROUTE, message, "route left out");
                }
            }
        }
    }

    /// Returns the unit of a route with these features, in plain text and behind TLS.
    pub fn unit(
        &self,
        field: Field,
        cost: Cost,
        route: Route,
        permits_insecure: bool,
        own: Option<Arc<Features>>,
    ) -> Unit {
        let plain_text = match self.host.redirect {
            Some(redirect) if !permits_insecure => PlainText::Redirect(redirect),
            _ => PlainText::Serve,
        };
        Unit { field, rule: self.host.section.clone(), cost, route: Arc::new(route), rest: None, plain_text, own }
    }

    fn include(
        &mut self,
        object: &Declaring,
        index: usize,
        include: &Include,
        reached: &InheritedConditions,
        blocks: &mut Vec<MatchConditions>,
    ) {
        let field = format!("spec.includes[{index}]");
        let parsed = MatchConditions::parse(&include.conditions, true, &mut self.resolver.patterns);
        let below = match parsed.and_then(|block| Ok((reached.below(&block)?, block))) {
            Ok((below, block)) => {
                if !block.is_plain() && blocks.contains(&block) {
                    let message = "an earlier include has the same conditions";
                    return self.report.add(&object.origin, field, &situation::DUPLICATE_MATCH, message, "left out");
                }
                blocks.push(block);
                below
            }
            Err(fault) => return self.report_condition(object, &field, situation::Block::Include, fault, "left out"),
        };
        let rest = (&include.rest, &[][..]);
        let closed = "answered 503 on its conditions";
        if self.report.add_rest(&object.origin, &field, rest, situation::Block::Include, closed) {
            return self.push_answer(object, index, &below, 503);
        }
        match self.included(include, object, &below) {
            Ok(included) => self.add(included, &below),
            Err((fault, status)) => {
                let consequence = format!("answered {status} on its conditions");
                self.report.add_fault(&object.origin, &field, fault, &consequence);
                self.push_answer(object, index, &below, status);
            }
        }
    }

    /// Returns the included object, or why it is not included, and the status of its requests.
    fn included(
        &mut self,
        include: &Include,
        object: &Declaring,
        below: &InheritedConditions,
    ) -> Result<&'r HttpProxy, (ProxyFault, u16)> {
        let namespace = match &*include.namespace {
            "" => object.proxy.meta.key.namespace.clone(),
            namespace => namespace.into(),
        };
        let key = ObjectKey { namespace, name: include.name.as_str().into() };
        let found = self.resolver.included(&Kind::HTTP_PROXY.id(key.clone()));
        let Some(included) = found.and_then(proxy_of) else {
            let message = Message::missing(Kind::HTTP_PROXY, &key, "does not exist");
            return Err((ProxyFault::new(situation::INCLUDE_NOT_FOUND, "", message), 502));
        };
        if found.is_some_and(|found| !self.resolver.serves(&DIALECT, found)) {
            let message = format!("HTTPProxy \"{key}\" has a class that is not served");
            return Err((ProxyFault::new(situation::INCLUDE_NOT_FOUND, "", message), 502));
        }
        if included.spec.virtualhost.is_some() {
            let message = format!("HTTPProxy \"{key}\" is a root: it has \"spec.virtualhost\"");
            return Err((ProxyFault::new(situation::ROOT_INCLUDES_ROOT, "", message), 502));
        }
        if self.above.contains(&key) {
            let message = format!("HTTPProxy \"{key}\" includes this object");
            return Err((ProxyFault::new(situation::INCLUDE_CYCLE, "", message), 502));
        }
        // An object that is included many times takes the memory of all Envoys each time.
        let own = serde_json::to_vec(&included.spec).map_or(0, |json| json.len());
        let size = own.saturating_add(included.spec.routes.len().saturating_mul(below.size()));
        let (size, limit) = (size as u64, self.resolver.context.settings.tenants.max_configuration_per_namespace);
        if self.objects == MOST_OBJECTS || self.size.saturating_add(size) > limit {
            let message = format!(
                "the root includes more than {MOST_OBJECTS} objects, or more than the {} KiB of tenants.maxConfigurationPerNamespace",
                limit >> 10
            );
            return Err((ProxyFault::new(situation::INCLUDE_TOO_LARGE, "", message), 503));
        }
        self.objects += 1;
        self.size += size;
        Ok(included)
    }

    /// Adds the answer to all requests of an include.
    fn push_answer(&mut self, object: &Declaring, index: usize, below: &InheritedConditions, status: u16) {
        let route = Route::new(below.everything(), Action::respond(status), object.origin.clone());
        let unit = self.unit(Field::new("spec.includes[#]", &[index]), below.cost(), route, false, None);
        self.push(unit, false, None);
    }
}
