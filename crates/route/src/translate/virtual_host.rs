//! The virtual hosts of the shared listeners, from the rules of all objects for a host, the wildcard above it, and all hosts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use lockgate_xds::provenance::ObjectRef;

use crate::envoy::route::Sizes;
use crate::model::{Action, Host, PathMatch, Route, VirtualHostRoutes};
use crate::objects::Precedence;
use crate::re2::Cost;
use crate::settings::Regexes;

use super::dialect::Dialect;
use super::gateway::size;
use super::plain_text::VirtualHostPort;
use super::problem::Problem;
use super::rules::{Contender, Rules};
use super::scope::Scope;
use super::source::Source;
use super::unit::{Field, RequestTarget, Unit};

/// The rules of all objects for one host on the shared listeners, with conflicts resolved.
#[derive(Debug, Default)]
pub struct HostRules<'a> {
    rules: Rules<'a>,
    /// The objects with a rule for the host. Those of the first namespace come first.
    objects: Vec<&'a ObjectRef>,
    /// The served units by namespace, each with its place in the order. Determined when a host first copies only a part of them.
    by_namespace: OnceLock<BTreeMap<&'a str, Vec<(usize, Contender<'a>)>>>,
}

/// The default backend of hosts that no rule names.
#[derive(Debug, PartialEq)]
pub struct DefaultBackend {
    /// The rank of its object.
    pub object: Precedence,
    /// The unit of all requests.
    pub unit: Unit,
}

impl DefaultBackend {
    /// Returns the default backend of an object.
    pub fn new(object: &Precedence, target: &RequestTarget) -> Self {
        let field = Field::new("spec.defaultBackend", &[]);
        let unit = Unit::new(field, PathMatch::root(), Cost::default(), target.clone());
        Self { object: object.clone(), unit }
    }

    /// Returns the object that declares it.
    pub fn origin(&self) -> &ObjectRef {
        &self.unit.route.origin
    }
}

/// The rules of a host, and the rules that apply if it has none.
#[derive(Debug)]
pub struct Around<'r, 'a> {
    /// The policies of all rules.
    pub scope: &'r Scope<'r>,
    /// The rules of the host.
    pub own: HostRules<'a>,
    /// The rules of the wildcard above it. Required only if no rule names the host.
    pub parent: Option<&'r HostRules<'a>>,
    /// The rules without a host. Required for wildcards with rules, and if no rule names the host or the wildcard above it.
    pub nameless: Option<&'r HostRules<'a>>,
    /// The namespaces whose rules are left out of `parent` and `nameless`. Requests that no other rule matches are answered 503.
    pub left_out: BTreeSet<Arc<str>>,
    /// The default backend of hosts that no rule names.
    pub catch_all: Option<&'r DefaultBackend>,
    /// Whether the default backend is left out, because its policies do not fit. Its requests are answered 503.
    pub is_catch_all_left_out: bool,
}

impl<'a> HostRules<'a> {
    /// Merges the rules of `sources` for `host`. All have a rule for it. Those of its first namespace come first, and each namespace is in
    /// the order of precedence.
    pub fn merge(
        host: &Host,
        sources: &[&'a Source],
        dialects: &'static [Dialect],
        limits: &Regexes,
        problems: &mut Vec<Problem>,
    ) -> Self {
        let units_of = |source: &'a Source| source.shared.rules_for(host).flat_map(|rule| &rule.units);
        let rules = Rules::merge(host, sources, units_of, dialects, limits, problems);
        Self { rules, objects: sources.iter().map(|source| &source.origin).collect(), by_namespace: OnceLock::new() }
    }

    /// Returns whether a rule names the host.
    pub fn named(&self) -> bool {
        !self.objects.is_empty()
    }

    /// Returns the problems of rules whose policies cannot be enforced together.
    pub fn problems(&self, scope: &Scope, host: &Host) -> impl Iterator<Item = Problem> {
        self.rules.winners().filter_map(|one| scope.problem(one.precedence, one.unit, host))
    }

    /// Returns the size of a copy of the rules of each namespace with their policies, in bytes.
    pub fn sizes(&self, scope: &Scope, measure: &Sizes) -> BTreeMap<Arc<str>, u64> {
        let mut sizes = BTreeMap::<Arc<str>, u64>::new();
        for one in self.rules.winners() {
            let of_namespace = sizes.entry(one.namespace().clone()).or_default();
            let of_policies = scope.features_of(one.precedence, one.unit);
            let of_policies = of_policies.map_or(0, |features| size::of_features(&features, measure));
            let of_route = size::of_route(&one.unit.route, one.unit.cost, measure);
            *of_namespace = of_namespace.saturating_add(of_route).saturating_add(of_policies);
        }
        sizes
    }

    /// Returns the routes of `host` in their final order, without those of the namespaces `left_out`. The cost does not depend on these,
    /// because thousands of hosts can leave out the same thousands of rules.
    fn routes(
        &self,
        scope: &Scope,
        host: &Host,
        side: VirtualHostPort,
        left_out: &BTreeSet<Arc<str>>,
    ) -> Vec<Arc<Route>> {
        let on_side = |units: &mut dyn Iterator<Item = &Contender<'a>>| {
            let mut routes = Vec::with_capacity(units.size_hint().0);
            units.for_each(|one| scope.push(one.precedence, one.unit, host, side, &mut routes));
            routes
        };
        if left_out.is_empty() {
            return on_side(&mut self.rules.in_order().into_iter());
        }
        let by_namespace = self.by_namespace.get_or_init(|| {
            let mut by_namespace = BTreeMap::<_, Vec<_>>::new();
            for (place, one) in self.rules.in_order().into_iter().enumerate() {
                by_namespace.entry(&**one.namespace()).or_default().push((place, *one));
            }
            by_namespace
        });
        let copied = by_namespace.iter().filter(|(namespace, _)| !left_out.contains(**namespace));
        let mut copied: Vec<_> = copied.flat_map(|(_, units)| units).collect();
        copied.sort_by_key(|(place, _)| *place);
        on_side(&mut copied.into_iter().map(|(_, one)| one))
    }
}

impl<'r, 'a> Around<'r, 'a> {
    /// Returns the rules of a host, and the default backend.
    pub fn new(scope: &'r Scope<'r>, own: HostRules<'a>, catch_all: Option<&'r DefaultBackend>) -> Self {
        let left_out = BTreeSet::new();
        Self { scope, own, parent: None, nameless: None, left_out, catch_all, is_catch_all_left_out: false }
    }

    /// Builds the virtual host of `host`. If no rule names it, the rules of the wildcard above it apply. If there are
    /// none, the rules without a host and the default backend apply. `origin` is the origin of a virtual host without
    /// routes.
    pub fn virtual_host(&self, host: &Host, side: VirtualHostPort, origin: &ObjectRef) -> VirtualHostRoutes {
        let Self { scope, own, parent, nameless, left_out, catch_all, is_catch_all_left_out } = self;
        let (nothing, wildcard) = (BTreeSet::new(), matches!(host, Host::Wildcard(_)));
        let named = if own.named() { Some((own, &nothing)) } else { parent.map(|parent| (parent, left_out)) };
        let named = named.filter(|(rules, _)| rules.named());
        let mut routes = named.map(|(rules, left_out)| rules.routes(scope, host, side, left_out)).unwrap_or_default();
        let reached = |routes: &[Arc<Route>]| routes.last().is_none_or(|last| !last.matches.is_everything());
        let everything = |action| {
            Arc::new(Route::new(PathMatch::root(), action, own.objects.first().copied().unwrap_or(origin).clone()))
        };
        if named.is_some() && !own.named() && !left_out.is_empty() && reached(&routes) {
            routes.push(everything(CLOSED));
        }
        let mut one_label = if wildcard { routes.len() } else { 0 };
        // Envoy's domain `*.example.com` also matches names with several labels. No rule names these.
        let (unnamed, all_one_label) = match (named.is_some(), *host == Host::Any, side) {
            (false, ..) => (true, wildcard && side == VirtualHostPort::Tls),
            (true, true, _) => (true, false),
            (true, false, side) => (wildcard && matches!(side, VirtualHostPort::PlainText { .. }), false),
        };
        if unnamed {
            // These routes are for names without a certificate.
            let side =
                if side == VirtualHostPort::Tls { side } else { VirtualHostPort::PlainText { behind_tls: false } };
            let rules = nameless.as_ref().filter(|_| *host != Host::Any || named.is_none());
            let mut rest = rules.map(|rules| rules.routes(scope, host, side, left_out)).unwrap_or_default();
            let before = if named.is_some() && *host == Host::Any { &routes } else { &rest };
            if !left_out.is_empty() && reached(&rest) {
                rest.push(everything(CLOSED));
            } else if let Some(DefaultBackend { object, unit }) = catch_all.filter(|_| reached(before)) {
                match is_catch_all_left_out {
                    true => rest.push(Arc::new(unit.closed())),
                    false => scope.push(object, unit, host, side, &mut rest),
                }
            }
            // A rule names all names that the wildcard matches, so a request without a matching path is answered 404.
            if named.is_some() && wildcard && !rest.is_empty() && reached(&routes) {
                routes.push(everything(NOTHING));
                one_label += 1;
            }
            one_label += if all_one_label { rest.len() } else { 0 };
            routes.extend(rest);
        }
        if routes.iter().all(|route| route.action == NOTHING) {
            let rules = named.map(|(rules, _)| rules).or(*nameless);
            let origin = rules.and_then(|rules| rules.objects.first().copied()).unwrap_or(origin).clone();
            return VirtualHostRoutes::new([Route::new(PathMatch::root(), NOTHING, origin)]);
        }
        routes.shrink_to_fit();
        VirtualHostRoutes { routes, one_label }
    }
}

/// The response if nothing is configured.
const NOTHING: Action = Action::respond(404);

/// The response of configuration that does not fit into the limit of its namespace.
const CLOSED: Action = Action::respond(503);

/// Returns the virtual host of a host that does not fit into the limit of its namespace.
pub fn closed(origin: &ObjectRef) -> VirtualHostRoutes {
    VirtualHostRoutes::new([Route::new(PathMatch::root(), CLOSED, origin.clone())])
}
