//! Encoded routes. They are retained for a host with many routes, so that a change encodes only the changed routes.

use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use lockgate_xds::protobuf;
use lockgate_xds::snapshot::ResourceType;
use prost::Message;

use super::{Conditions, Marks, OnHost, host_limit};
use crate::envoy::statistics::{Counted, is_counted};
use crate::model::{CommonEnds, Host, LocalRateLimit, Route, VirtualHostRoutes};

/// The smallest number of routes of a host whose encoding is retained. Fewer routes are encoded again, which needs no
/// memory.
const LARGE: usize = 32;

/// The routes of a large host, and the end of each route in the encoded table.
#[derive(Debug)]
pub struct LargeHost {
    routes: Vec<Arc<Route>>,
    ends: Vec<u32>,
    /// Whether each route has statistics. Empty if none has.
    counted: Vec<bool>,
    /// The limit of the virtual host.
    limit: Option<Arc<LocalRateLimit>>,
}

impl LargeHost {
    /// Returns whether the encoded routes of `host` are retained. The routes of a wildcard host depend on each other,
    /// so they are not retained.
    pub fn is_large(host: &Host, content: &VirtualHostRoutes) -> bool {
        content.routes.len() >= LARGE && !matches!(host, Host::Wildcard(_))
    }

    /// Encodes the routes of `content`. Routes that `before` shares at its start or end are copied. `before` was encoded with the same
    /// marks; other bytes may follow it.
    pub fn encode(
        content: &VirtualHostRoutes,
        before: Option<(&Self, &[u8])>,
        marks: &Marks,
        counted: Option<&Counted>,
    ) -> (Self, Vec<u8>) {
        let (routes, limit) = (&*content.routes, host_limit::of(content));
        let none = Self { routes: vec![], ends: vec![], counted: vec![], limit: None };
        let counted: Vec<bool> = match counted {
            Some(_) => routes.iter().map(|route| is_counted(route, counted)).collect(),
            None => vec![],
        };
        let before = before.filter(|(old, _)| old.limit.as_ref() == limit);
        let (old, bytes) = before.unwrap_or((&none, &[]));
        let bytes = &bytes[..old.start(old.routes.len())];
        let common = same_statistics(CommonEnds::of(&old.routes, routes), old, routes.len(), &counted);
        let kept_end = old.start(old.routes.len() - common.end);
        let mut ends = old.ends[..common.start].to_vec();
        let mut table = bytes[..old.start(common.start)].to_vec();
        for (at, route) in routes.iter().enumerate().take(routes.len() - common.end).skip(common.start) {
            let on = OnHost { counted: is_set(&counted, at), limit };
            table.extend(encode(super::route(route, Conditions::default(), marks, on)));
            ends.push(table.len() as u32);
        }
        let (from, to) = (kept_end as u32, table.len() as u32);
        ends.extend(old.ends[old.ends.len() - common.end..].iter().map(|end| end - from + to));
        table.extend_from_slice(&bytes[kept_end..]);
        (Self { routes: routes.to_vec(), ends, counted, limit: limit.cloned() }, table)
    }

    /// Returns the offset of the route at `index` in the table.
    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before] as usize)
    }
}

/// Returns the part of `common` whose routes have statistics both in `old` and now, or neither in `old` nor now.
fn same_statistics(common: CommonEnds, old: &LargeHost, routes: usize, counted: &[bool]) -> CommonEnds {
    if old.counted.is_empty() && counted.is_empty() {
        return common;
    }
    let same = |before: usize, now: usize| is_set(&old.counted, before) == is_set(counted, now);
    CommonEnds {
        start: (0..common.start).take_while(|at| same(*at, *at)).count(),
        end: (1..=common.end).take_while(|at| same(old.routes.len() - at, routes - at)).count(),
    }
}

fn is_set(counted: &[bool], at: usize) -> bool {
    counted.get(at).copied().unwrap_or_default()
}

/// Encodes the filter configuration of a virtual host, which follows its routes.
pub fn encode_config(content: &VirtualHostRoutes) -> Vec<u8> {
    let typed_per_filter_config = host_limit::config(host_limit::of(content));
    route_v3::VirtualHost { typed_per_filter_config, ..Default::default() }.encode_to_vec()
}

/// Encodes `routes` as the fields `routes` of a virtual host. The result is the concatenation of the encodings of
/// single routes.
pub fn encode(routes: Vec<route_v3::Route>) -> Vec<u8> {
    let alone = route_v3::VirtualHost { routes, ..Default::default() };
    protobuf::canonical(ResourceType::VIRTUAL_HOST.full_name(), &alone.encode_to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Action, PathMatch, RoutePolicy};
    use crate::testing::model::{forward, route};

    fn routes(paths: &[usize]) -> VirtualHostRoutes {
        let redirect = || Action::Redirect(crate::model::Redirect::to_https(crate::model::RedirectStatus::Found));
        let action = |path: usize| if path.is_multiple_of(3) { redirect() } else { forward("shop/cart/http") };
        let one = |path: &usize| Arc::new(route(PathMatch::Exact(format!("/{path}").into()), action(*path)));
        VirtualHostRoutes { routes: paths.iter().map(one).collect(), one_label: 0 }
    }

    fn anew(content: &VirtualHostRoutes) -> Vec<u8> {
        LargeHost::encode(content, None, &Marks::default(), None).1
    }

    #[test]
    fn retained_routes_do_not_change_the_result() {
        let marks = Marks::default();
        let lists: [&[usize]; 9] =
            [&[], &[1, 2, 3, 4], &[0, 1, 2, 3, 4], &[0, 1, 4], &[0, 1, 3, 4], &[1, 1, 1], &[1], &[3, 6, 9], &[9, 3, 6]];
        for before in lists.map(routes) {
            for now in lists.map(routes) {
                let (large, bytes) = LargeHost::encode(&before, None, &marks, None);
                let (large, bytes) = LargeHost::encode(&now, Some((&large, &bytes)), &marks, None);
                assert_eq!(bytes, anew(&now));
                assert_eq!(large.ends, LargeHost::encode(&now, None, &marks, None).0.ends);
            }
        }
        let all = routes(&[1, 2, 3]);
        let built = |one: &Arc<Route>| super::super::route(one, Conditions::default(), &marks, OnHost::default());
        let built = all.routes.iter().flat_map(built).collect();
        assert_eq!(anew(&all), encode(built));
    }

    #[test]
    fn a_limit_of_the_host_is_encoded_behind_its_routes() {
        let marks = Marks::default();
        let content = |paths: &[usize], burst: u32| {
            let mut content = routes(paths);
            let (requests, period) = (1, std::time::Duration::from_secs(1));
            let shared = Some("host".into());
            let limit = LocalRateLimit { requests, period, burst, per_client_address: false, shared, answer: None };
            let policy = RoutePolicy { local_rate_limit: Some(Arc::new(limit)), ..RoutePolicy::default() };
            let limited = Route::clone(&content.routes[0]).with_policy(Arc::new(policy));
            content.routes.push(Arc::new(limited));
            content
        };
        let all = [content(&[1, 2], 0), content(&[1, 2], 1), content(&[1, 2], 2), content(&[1, 3, 2], 2)];
        assert_eq!(all.each_ref().map(|one| encode_config(one).is_empty()), [true, false, false, false]);
        for before in &all {
            for now in &all {
                let (large, mut bytes) = LargeHost::encode(before, None, &marks, None);
                bytes.extend(encode_config(before));
                assert_eq!(LargeHost::encode(now, Some((&large, &bytes)), &marks, None).1, anew(now));
            }
        }
    }

    #[test]
    fn a_change_encodes_only_the_changed_routes() {
        let (before, now) = (routes(&[1, 2, 4, 5]), routes(&[1, 2, 3, 4, 5]));
        let (large, bytes) = LargeHost::encode(&before, None, &Marks::default(), None);
        // Routes that are encoded again do not have these bytes.
        let (_, copied) = LargeHost::encode(&now, Some((&large, &vec![0; bytes.len()])), &Marks::default(), None);
        let changed = copied.iter().filter(|byte| **byte != 0).count();
        assert!(changed > 0 && changed <= anew(&routes(&[3])).len(), "{changed} bytes");
        assert_eq!(copied.len(), anew(&now).len());
    }
}
