//! The dialects of the routes of Gateway API.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use super::attached::Attached;
use super::grpc_route::is_method_of_any_service;
use super::{http_route, stream_route};
use crate::model::PathMatch;
use crate::objects::gateway::{GrpcRoute, HttpRoute, TcpRoute, TlsRoute, UdpRoute};
use crate::objects::{Content, Kind, Object};
use crate::re2;
use crate::translate::conflicts::{Conflict, ConflictPlace};
use crate::translate::dialect::{Competition, Dialect, Resolver, Selection, Sharing};
use crate::translate::order::{Order, PathClass, PathRank, PrefixOrder};
use crate::translate::rules::Contender;
use crate::translate::source::{Dependencies, Source};
use crate::translate::verdict::Verdict;

/// The dialect of HTTPRoutes.
pub const HTTP_ROUTE: Dialect = Dialect {
    kind: Kind::HTTP_ROUTE,
    selection: Selection::Parents {
        of: |object| read(object, |route: &HttpRoute| &*route.spec.parent_refs),
        protocol: "HTTP",
    },
    parse: |object, resolver| parsed(object, resolver, http_route::parse),
    sharing: Sharing::Merged,
    competition: Competition {
        rank,
        // Equal matches are no fault: the older route takes precedence.
        conflict: |_, _, _| None,
        guards_prefixes: false,
        name: "match",
        field_of_path: "",
    },
    conflicts: Some(conflicts),
    hosts: |object| texts(read(object, |route: &HttpRoute| &*route.spec.hostnames)),
    key_pairs: |_| Vec::new(),
};

/// The dialect of GRPCRoutes.
pub const GRPC_ROUTE: Dialect = Dialect {
    kind: Kind::GRPC_ROUTE,
    selection: Selection::Parents {
        of: |object| read(object, |route: &GrpcRoute| &*route.spec.parent_refs),
        protocol: "HTTP",
    },
    parse: |object, resolver| parsed(object, resolver, http_route::parse_grpc),
    competition: Competition { rank: rank_of_method, ..HTTP_ROUTE.competition },
    hosts: |object| texts(read(object, |route: &GrpcRoute| &*route.spec.hostnames)),
    ..HTTP_ROUTE
};

/// The dialect of TLSRoutes.
pub const TLS_ROUTE: Dialect = Dialect {
    kind: Kind::TLS_ROUTE,
    selection: Selection::Parents {
        of: |object| read(object, |route: &TlsRoute| &*route.spec.parent_refs),
        protocol: "TLS",
    },
    parse: |object, resolver| parsed(object, resolver, stream_route::parse_tls),
    hosts: |object| texts(read(object, |route: &TlsRoute| &*route.spec.hostnames)),
    ..HTTP_ROUTE
};

/// The dialect of TCPRoutes.
pub const TCP_ROUTE: Dialect = Dialect {
    kind: Kind::TCP_ROUTE,
    selection: Selection::Parents {
        of: |object| read(object, |route: &TcpRoute| &*route.spec.parent_refs),
        protocol: "TCP",
    },
    parse: |object, resolver| parsed(object, resolver, stream_route::parse_tcp),
    hosts: |_| Vec::new(),
    ..HTTP_ROUTE
};

/// The dialect of UDPRoutes.
pub const UDP_ROUTE: Dialect = Dialect {
    kind: Kind::UDP_ROUTE,
    selection: Selection::Parents {
        of: |object| read(object, |route: &UdpRoute| &*route.spec.parent_refs),
        protocol: "UDP",
    },
    parse: |object, resolver| parsed(object, resolver, stream_route::parse_udp),
    hosts: |_| Vec::new(),
    ..HTTP_ROUTE
};

/// Returns a list of a route.
fn read<T: Content, R>(object: &Object, list: fn(&T) -> &[R]) -> &[R] {
    object.get().map(list).unwrap_or_default()
}

fn texts(list: &[String]) -> Vec<&str> {
    list.iter().map(String::as_str).collect()
}

fn parsed<'o, T>(
    object: &'o Object,
    resolver: Resolver,
    parse: impl FnOnce(&'o T, Resolver) -> Result<Source, Dependencies>,
) -> Result<Source, Dependencies>
where
    T: Content,
{
    object.get().map_or_else(|| Err(Dependencies::default()), |route| parse(route, resolver))
}

/// Ranks the path of a match.
///
/// Exact paths come first, then regular expressions, then prefixes, longer before shorter. Source: Gateway API v1,
/// `HTTPRouteRule.matches`; the rank of regular expressions is specific to Lockgate.
///
/// Any namespace may attach a route to a shared host. A regular expression of a namespace other than the first is
/// therefore ranked like the prefix of its literal elements. It follows the prefixes of other namespaces with this
/// text. It receives no request that this prefix could not receive.
fn rank<'a>(order: &Order<'_, 'a>, one: &Contender<'a>) -> PathRank<'a> {
    match one.unit.path() {
        PathMatch::Exact(text) => PathRank::new(PathClass::Exact, text.len()),
        PathMatch::SeparatedPrefix(text) | PathMatch::Prefix(text) => {
            PathRank::new(PathClass::Prefix, text.trim_end_matches('/').len())
        }
        PathMatch::Regex(text) if !one.is_foreign => PathRank::new(PathClass::Regex, text.len()),
        PathMatch::Regex(text) => {
            let elements = re2::elements(text);
            let side = if order.owns_prefix(one, &elements) { PrefixOrder::Before } else { PrefixOrder::After };
            PathRank { side, text_length: Reverse(text.len()), ..PathRank::new(PathClass::Prefix, elements.len()) }
        }
    }
}

/// Ranks the path of a method of gRPC. A method without a service precedes only routes without a method and a service. Source: Gateway
/// API v1, `GRPCRouteRule.matches`.
fn rank_of_method<'a>(order: &Order<'_, 'a>, one: &Contender<'a>) -> PathRank<'a> {
    match one.unit.path() {
        PathMatch::Regex(text) if is_method_of_any_service(text) => PathRank {
            side: PrefixOrder::Before,
            text_length: Reverse(text.len()),
            ..PathRank::new(PathClass::Prefix, 0)
        },
        _ => rank(order, one),
    }
}

/// Returns the verdicts for the conflicts of a route. Many hosts have the same conflict.
fn conflicts(route: &Source, found: &[&Conflict]) -> Vec<Verdict> {
    let places = route.attached.parents_by_place();
    let (mut at_parents, mut left_out) = (BTreeSet::new(), Vec::new());
    for Conflict { place, problem } in found {
        match place {
            ConflictPlace::Host(id, host) => {
                let parents = places.get(&(id, host)).into_iter().flatten();
                at_parents.extend(parents.map(|parent| (*parent, problem)));
            }
            ConflictPlace::Listeners(owner) => left_out.extend(route.attached.refusals(owner, problem)),
            ConflictPlace::Shared => {}
        }
    }
    let at_parents = at_parents.into_iter().map(|(parent, problem)| Attached::conflict(parent, problem));
    at_parents.chain(left_out).collect()
}
