//! The dialect of HTTPProxies. A root defines a host and includes other objects, whose routes and verdicts it declares.
//!
//! Each fault costs the smallest part that contains it, and a field that is not served is reported. A field that may restrict access
//! closes what it protects. Source: HTTPProxy v1 of Contour.

mod access;
mod authorization;
mod balancing;
mod client_validation;
mod conditions;
mod cookies;
mod extension;
mod fallback;
mod global_limits;
mod headers;
mod health;
mod internal_redirects;
mod policies;
mod report;
mod root;
mod route;
mod server;
mod services;
mod settings_server;
mod situation;
mod tcp;
mod tls;
mod tokens;
mod tree;
mod upstream;
mod validation;

pub use extension::DIALECT as EXTENSION_DIALECT;
pub use root::ORPHANED;

use super::class;
use super::conflicts::Conflict;
use super::dialect::{Competition, Dialect, INGRESS, Selection, Sharing};
use super::problem::{Problem, Reason};
use super::rules::Contender;
use super::source::{Dependencies, Source};
use super::verdict::Verdict;
use crate::model::Host;
use crate::objects::http_proxy::HttpProxy;
use crate::objects::{Kind, Object, ObjectKey};

/// The dialect of HTTPProxies.
pub const DIALECT: Dialect = Dialect {
    kind: Kind::HTTP_PROXY,
    selection: Selection::Class { named: |object| class::class_of_http_proxy(object.get()?) },
    parse: |object, resolver| object.get().map(|proxy| root::parse(proxy, resolver)).ok_or_else(Dependencies::default),
    sharing: Sharing::Alone,
    competition: Competition {
        conflict,
        guards_prefixes: false,
        name: "route",
        field_of_path: ".conditions",
        ..INGRESS.competition
    },
    conflicts: Some(conflicts),
    hosts: |object| object.get().into_iter().filter_map(fqdn).collect(),
    key_pairs: |object| object.get().and_then(key_pair).into_iter().collect(),
};

fn fqdn(proxy: &HttpProxy) -> Option<&str> {
    proxy.spec.virtualhost.as_ref().map(|host| &*host.fqdn)
}

/// Returns the Secret of a root.
fn key_pair(proxy: &HttpProxy) -> Option<ObjectKey> {
    let tls = proxy.spec.virtualhost.as_ref()?.tls.as_ref()?;
    (!tls.secret_name.is_empty()).then(|| tls::secret_key(&tls.secret_name, &proxy.meta.key.namespace))
}

/// Returns the problem of a route that lost its match to another object.
fn conflict(loser: &Contender, host: &Host, winner: &Contender) -> Option<Problem> {
    let (loser, winner) = (loser.unit, winner.unit);
    Some(Problem {
        object: loser.route.origin.clone(),
        field: loser.field.to_string(),
        reason: Reason::Conflicted,
        message: format!("its requests of host \"{host}\" are taken by {} of {}", winner.field, winner.route.origin)
            .into(),
        consequence: "route left out".to_owned(),
    })
}

/// Returns the verdicts for the conflicts of an object.
fn conflicts(_: &Source, found: &[&Conflict]) -> Vec<Verdict> {
    let verdicts = found.iter().flat_map(|conflict| {
        let problem = &conflict.problem;
        report::verdicts(problem, &situation::of_reason(problem.reason))
    });
    verdicts.collect()
}

/// Returns the HTTPProxy of an object.
fn proxy_of(object: &Object) -> Option<&HttpProxy> {
    object.get()
}
