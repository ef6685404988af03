//! The size of the configuration that a route causes, in encoded bytes. The translation limits it for each namespace.

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use prost::Message;

use super::{Conditions, Marks, OnHost, action};
use crate::envoy::{cors, local_rate_limit, names, policy};
use crate::model::{Host, PathMatch, Route, RoutePolicy};
use crate::settings::Settings;

/// The sizes of routes with these settings.
#[derive(Debug)]
pub struct Sizes(Marks);

impl Sizes {
    /// Returns the sizes with `settings`.
    pub fn new(settings: &Settings) -> Self {
        Self(Marks::of(settings))
    }

    /// Returns the size of a route, in bytes: the sum over its routes in Envoy.
    pub fn of_route(&self, route: &Route) -> u64 {
        // Without a host, so that a route with a limit of its host also counts the limit.
        super::route(route, Conditions::default(), &self.0, OnHost::default()).iter().map(of_field).sum()
    }

    /// Returns the size of a policy on one route of Envoy, in bytes.
    pub fn of_policy(&self, policy: &RoutePolicy) -> u64 {
        let mut typed_per_filter_config = policy::per_route(Some(policy), &[], false, &self.0.compression);
        // The metadata of a counted route is not larger than a bucket of the route.
        let limit = policy.local_rate_limit.as_deref().map(local_rate_limit::with_bucket);
        typed_per_filter_config.extend(cors::per_route(&[], Some(policy)));
        typed_per_filter_config.extend(limit.map(|limit| (local_rate_limit::FILTER.to_owned(), limit)));
        let mut forwarded = route_v3::RouteAction::default();
        action::add_policy(&mut forwarded, &PathMatch::root(), policy);
        let forwarded = (forwarded != Default::default()).then_some(route_v3::route::Action::Route(forwarded));
        let mut route = route_v3::Route { typed_per_filter_config, action: forwarded, ..Default::default() };
        action::add_changes_of_policy(&mut route, Some(policy), [].into_iter(), [].into_iter());
        of_field(&route)
    }

    /// Returns the size of the virtual host of `host` without its routes, in bytes.
    pub fn of_host(host: &Host) -> u64 {
        let (name, domains) = (names::of_statistics(host.to_string()), vec![host.to_string()]);
        of_field(&route_v3::VirtualHost { name, domains, ..Default::default() })
    }
}

/// Returns the size of a message as a field of another one.
fn of_field(message: &impl Message) -> u64 {
    let length = message.encoded_len();
    (1 + prost::length_delimiter_len(length) + length) as u64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::envoy::Statistics;
    use crate::model::{LocalRateLimit, VirtualHostRoutes};
    use crate::testing::model::{forward, route};

    /// The sum of the sizes is the size of the virtual host in the store.
    #[test]
    fn the_size_is_that_of_the_encoded_virtual_host() {
        let settings = Settings::default();
        let sizes = Sizes::new(&settings);
        let host = Host::Exact("shop.test".into());
        let plain = |path: &str| route(PathMatch::Exact(path.into()), forward("shop/cart/http"));
        let period = std::time::Duration::from_secs(7);
        let limit =
            LocalRateLimit { requests: 1, period, burst: 1, per_client_address: true, shared: None, answer: None };
        let policy = RoutePolicy { local_rate_limit: Some(Arc::new(limit)), ..RoutePolicy::default() };
        let limited = plain("/limited").with_policy(Arc::new(policy.clone()));
        let routes = [plain("/a"), plain("/longer"), limited];
        let counted = Sizes::of_host(&host) + routes.iter().map(|one| sizes.of_route(one)).sum::<u64>();
        let built =
            super::super::virtual_host(&host, &VirtualHostRoutes::new(routes), &settings, &Statistics::default());
        let encoded = of_field(&built);
        assert!(counted.abs_diff(encoded) <= 2, "{counted} {encoded}");
        let with_policy = sizes.of_route(&plain("/limited")) + sizes.of_policy(&policy);
        let limited = sizes.of_route(&plain("/limited").with_policy(Arc::new(policy)));
        assert!(with_policy.abs_diff(limited) <= 4, "{with_policy} {limited}");
    }
}
