//! The memory that the filters of a route can take in an Envoy, which has a copy for each match on each host.

use crate::model::{
    Action, ClusterFilter, Cors, ForwardFilter, HeaderChange, HeaderName, HeaderValue, OriginMatch, Route, RouteFilter,
};

/// The memory that the filters of one match can take without a limit: a match without filters takes half as much. All figures are
/// in bytes, measured with Envoy 1.40 and rounded up.
const FREE: u64 = 4 << 10;
/// The memory of a change of a header without its texts.
const CHANGE: u64 = 512;
/// The memory of an origin without its text.
const ORIGIN: u64 = 512;
/// The memory of a byte of names and values. Envoy has the texts in its configuration, and in the parsed form.
const TEXT: u64 = 4;
/// The memory of a byte of an origin with `*`: Envoy compiles it, and keeps the states of its automaton.
const PATTERN: u64 = 512;

/// The memory of the filters of one match.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FilterMemory {
    /// That of the filters of the rule.
    rule: u64,
    /// That of the filters of its backends.
    backends: u64,
}

impl FilterMemory {
    /// Returns the memory of the filters of a route.
    ///
    /// If a cluster has changes of headers, each cluster has those of the rule too. If sessions stay at a cluster, there is a route
    /// for each cluster, and one for new sessions in which each cluster sets a header.
    pub fn of(route: &Route) -> Self {
        let responses = route.filters.iter().map(|filter| match filter {
            RouteFilter::ResponseHeaders(changes) => of_changes(changes),
            RouteFilter::Policy(_) => 0,
        });
        let responses: u64 = responses.sum();
        let Action::Forward(forward) = &route.action else { return Self { rule: responses, backends: 0 } };
        let requests = forward.filters.iter().map(|filter| match filter {
            ForwardFilter::RequestHeaders(changes) => of_changes(changes),
            _ => 0,
        });
        let others: u64 = forward.filters.iter().map(of_other_filter).sum();
        let filters = forward.clusters.iter().flat_map(|cluster| cluster.filters.iter());
        let backends: u64 = filters.map(of_cluster_filter).sum();
        let clusters = forward.clusters.len() as u64;
        let (times, of_clusters) = match route.divided() {
            Some(_) => (2 * clusters, 2),
            None => (if backends > 0 { clusters } else { 1 }, 1),
        };
        let changes = (responses + requests.sum::<u64>()).saturating_mul(times);
        let others = others.saturating_mul(route.copies().into());
        Self { rule: changes.saturating_add(others), backends: backends.saturating_mul(of_clusters) }
    }

    /// Returns the memory that counts toward the limit of the namespace.
    pub fn counted(self) -> u64 {
        Some(self.rule.saturating_add(self.backends)).filter(|total| *total > FREE).unwrap_or(0)
    }

    /// Returns the field of the rule with most of the memory.
    pub fn field(self) -> &'static str {
        if self.rule >= self.backends { "filters" } else { "backendRefs" }
    }
}

/// Returns the memory of a filter that is no change of headers.
fn of_other_filter(filter: &ForwardFilter) -> u64 {
    match filter {
        ForwardFilter::Cors(cors) => of_cors(cors),
        // The size of the others has a limit: few texts, the name of a cluster, and numbers.
        ForwardFilter::RequestHeaders(_)
        | ForwardFilter::Rewrite(_)
        | ForwardFilter::Mirror(_)
        | ForwardFilter::Session(_)
        | ForwardFilter::IdleTimeout(_) => 0,
    }
}

fn of_cluster_filter(filter: &ClusterFilter) -> u64 {
    let (ClusterFilter::RequestHeaders(changes) | ClusterFilter::ResponseHeaders(changes)) = filter;
    of_changes(changes)
}

fn of_changes(changes: &[HeaderChange]) -> u64 {
    let texts = |change: &HeaderChange| match change {
        HeaderChange::Set(name, value) | HeaderChange::Add(name, value) => of_name(name) + of_value(value),
        HeaderChange::Remove(name) => of_name(name),
    };
    changes.iter().map(|change| CHANGE + texts(change)).sum()
}

fn of_cors(cors: &Cors) -> u64 {
    let Cors { allow_origins, allow_methods, allow_headers, expose_headers, max_age: _, allow_credentials: _ } = cors;
    let origins = allow_origins.iter().map(|origin| match origin {
        OriginMatch::Any => ORIGIN,
        OriginMatch::Exact(text) => ORIGIN + TEXT * text.len() as u64,
        OriginMatch::Regex(text) => ORIGIN + PATTERN * text.len() as u64,
    });
    let lists = [allow_methods, allow_headers].into_iter().flatten().map(of_value);
    origins.sum::<u64>() + lists.sum::<u64>() + expose_headers.iter().map(of_name).sum::<u64>()
}

fn of_name(name: &HeaderName) -> u64 {
    TEXT * name.as_str().len() as u64
}

fn of_value(value: &HeaderValue) -> u64 {
    TEXT * value.as_str().len() as u64
}
