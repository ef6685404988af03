//! Finds the objects behind the difference of two versions of a resource.
//!
//! A client that rejects a resource had accepted an earlier version. Objects whose contribution is the same in both
//! versions are not at fault, so a host that a thousand Ingresses share has few suspects. The name of a route
//! identifies its object, so resources need no further record of their parts.

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType};
use prost::Message;

use super::names;

/// Returns the objects of `now` that may have caused its difference from `before`, in the order of the origins.
///
/// These are the objects with a route that `before` does not contain. A difference outside of named routes, such as a
/// domain or a redirect to https, may be of any object that `before` does not have in this generation. If no object
/// explains the difference, or without an earlier version, the result is all objects.
pub fn changed_objects<'a>(now: &'a Resource, before: Option<&Resource>) -> Vec<&'a ObjectRef> {
    let found = before.map(|before| {
        let (routes, mut unnamed) = new_routes(now, before);
        let named: BTreeSet<String> = now.origins().iter().map(names::route).collect();
        unnamed |= routes.iter().any(|name| !named.contains(name));
        let is_changed = |origin: &&ObjectRef| {
            routes.contains(&names::route(origin)) || (unnamed && !before.origins().contains(*origin))
        };
        now.origins().iter().filter(is_changed).collect::<Vec<_>>()
    });
    found.filter(|objects| !objects.is_empty()).unwrap_or_else(|| now.origins().iter().collect())
}

/// Returns the names of the routes that `before` does not contain, and whether the resources also differ in another
/// way.
fn new_routes(now: &Resource, before: &Resource) -> (BTreeSet<String>, bool) {
    let (Some(new), Some(old)) = (virtual_hosts(now), virtual_hosts(before)) else { return (BTreeSet::new(), true) };
    let domains = |hosts: &[VirtualHost]| -> BTreeSet<String> {
        hosts.iter().flat_map(|host| host.domains.iter().cloned()).collect()
    };
    let known: HashSet<&Bytes> = old.iter().flat_map(|host| &host.routes).collect();
    let routes = new.iter().flat_map(|host| &host.routes).filter(|route| !known.contains(route));
    let name = |route: &Bytes| Route::decode(route.clone()).unwrap_or_default().name;
    (routes.map(name).collect(), domains(&new) != domains(&old))
}

/// Decodes the virtual hosts of a resource. Returns `None` for a type without virtual hosts.
fn virtual_hosts(resource: &Resource) -> Option<Vec<VirtualHost>> {
    let message = resource.message();
    match resource.kind() {
        ResourceType::VIRTUAL_HOST => Some(vec![VirtualHost::decode(message).ok()?]),
        ResourceType::ROUTES => Some(RouteConfiguration::decode(message).ok()?.virtual_hosts),
        ResourceType::SCOPED_ROUTES => Some(Scope::decode(message).ok()?.route_configuration?.virtual_hosts),
        _ => None,
    }
}

/// The fields of `ScopedRouteConfiguration` that contain routes.
#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(message, optional, tag = "5")]
    route_configuration: Option<RouteConfiguration>,
}

/// The fields of `RouteConfiguration` that contain routes.
#[derive(Clone, PartialEq, Message)]
struct RouteConfiguration {
    #[prost(message, repeated, tag = "2")]
    virtual_hosts: Vec<VirtualHost>,
}

/// A `VirtualHost` with encoded routes, whose bytes are canonical in a resource.
#[derive(Clone, PartialEq, Message)]
struct VirtualHost {
    #[prost(string, repeated, tag = "2")]
    domains: Vec<String>,
    #[prost(bytes = "bytes", repeated, tag = "3")]
    routes: Vec<Bytes>,
}

/// The name of a `Route`.
#[derive(Clone, PartialEq, Message)]
struct Route {
    #[prost(string, tag = "14")]
    name: String,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use std::collections::BTreeMap;

    use super::*;
    use crate::envoy::{chains, route, tls_listener::TlsListener};
    use crate::model::{self, Action, Host, ListenerId, PathMatch, Redirect, RedirectStatus};
    use crate::settings::Settings;
    use crate::testing::model::{empty, tls_host};

    fn host(name: &str) -> Host {
        Host::Exact(name.into())
    }

    fn ingress(name: &str, generation: i64) -> ObjectRef {
        ObjectRef::new("Ingress", "shop", name).at(generation)
    }

    /// A route of the Ingress `name` in this generation.
    fn answer(name: &str, generation: i64, status: u16) -> model::Route {
        let path = PathMatch::Exact(format!("/{name}").into());
        model::Route::new(path, Action::respond(status), ingress(name, generation))
    }

    /// The resources with these routes of `a.test`: a route configuration and a scope.
    fn resources(routes: Vec<model::Route>) -> Vec<Resource> {
        let (settings, model) = (Settings::default(), empty());
        let host = host("a.test");
        let content = model::VirtualHost::new(routes);
        let id = ListenerId::new("http");
        let plain = route::http_routes(&id, &BTreeMap::from([(host.clone(), content.clone())]), &settings);
        let listener = TlsListener::of(&model, ListenerId::HTTPS).expect("the listener");
        let tls = model::TlsHost { origins: vec![], ..tls_host(&["cert"], [(host.clone(), content)]) };
        vec![plain, chains::routes(&host, &tls, &listener, &settings)]
    }

    /// Returns the changed objects of each resource, which are equal.
    fn changed(before: Option<Vec<model::Route>>, now: Vec<model::Route>) -> Vec<String> {
        let before = before.map(resources);
        let found = resources(now)
            .iter()
            .enumerate()
            .map(|(at, now)| {
                let before = before.as_ref().map(|before| &before[at]);
                changed_objects(now, before).into_iter().map(|one| format!("{}@{}", one.name, one.generation)).collect()
            })
            .collect::<Vec<Vec<String>>>();
        assert_eq!(found[0], found[1]);
        found.into_iter().next().unwrap_or_default()
    }

    #[test]
    fn objects_with_other_routes_are_found_and_no_others() {
        let before = || Some(vec![answer("a", 1, 404), answer("b", 1, 404), answer("c", 1, 404)]);
        // Object `b` has a new generation with the same route.
        assert_eq!(changed(before(), vec![answer("a", 2, 503), answer("b", 2, 404), answer("c", 1, 404)]), ["a@2"]);
        let added = vec![answer("a", 1, 404), answer("b", 1, 404), answer("c", 1, 404), answer("d", 1, 404)];
        assert_eq!(changed(before(), added), ["d@1"]);
        // An annotation changes routes without a new generation.
        assert_eq!(changed(before(), vec![answer("b", 1, 503), answer("c", 1, 503)]), ["b@1", "c@1"]);
    }

    #[test]
    fn all_objects_are_found_if_none_explains_the_difference() {
        let now = || vec![answer("a", 1, 404), answer("b", 1, 404)];
        assert_eq!(changed(None, now()), ["a@1", "b@1"]);
        assert_eq!(changed(Some(vec![answer("b", 1, 404), answer("a", 1, 404)]), now()), ["a@1", "b@1"]);
        let removed = Some(vec![answer("a", 1, 404), answer("b", 1, 404), answer("c", 1, 404)]);
        assert_eq!(changed(removed, now()), ["a@1", "b@1"]);
    }

    #[test]
    fn routes_without_an_object_are_of_the_objects_with_a_new_generation() {
        let redirect = |name: &str, generation, status| {
            let action = Action::Redirect(Redirect::to_https(status));
            model::Route { action, ..answer(name, generation, 404) }
        };
        let before = vec![redirect("a", 1, RedirectStatus::Found), answer("b", 1, 404), answer("c", 1, 404)];
        let now = vec![redirect("a", 2, RedirectStatus::SeeOther), answer("b", 1, 503), answer("c", 1, 404)];
        assert_eq!(changed(Some(before), now), ["a@2", "b@1"]);
    }

    #[test]
    fn a_domain_that_joins_a_virtual_host_is_of_its_object() {
        let redirect = |name: &str| {
            let action = Action::Redirect(Redirect::to_https(RedirectStatus::Found));
            let route = model::Route::new(PathMatch::root(), action, ingress(name, 1));
            (host(&format!("{name}.test")), model::VirtualHost::new([route]))
        };
        let id = ListenerId::new("http");
        let of = |names: &[&str]| {
            route::http_routes(&id, &names.iter().map(|name| redirect(name)).collect(), &Settings::default())
        };
        let now = of(&["a", "b", "c"]);
        let found = changed_objects(&now, Some(&of(&["a", "c"])));
        assert_eq!(found, [&ingress("b", 1)]);
    }

    #[test]
    fn resources_without_routes_are_compared_by_origins() {
        use envoy_types::pb::envoy::config::cluster::v3::Cluster;
        let of =
            |name: &str, origins| Resource::new("cart", &Cluster { name: name.into(), ..Cluster::default() }, origins);
        let now = of("a", vec![ingress("a", 1), ingress("b", 2)]);
        assert_eq!(changed_objects(&now, Some(&of("b", vec![ingress("a", 1), ingress("b", 1)]))), [&ingress("b", 2)]);
    }
}
