//! The parts of a resource: the bytes that each object has contributed.
//!
//! The parts are not stored, but derived from a resource after a client has rejected it. This is possible because the
//! name of a route identifies its object, and the bytes of a resource are canonical. Resources that nobody rejects cost
//! nothing.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use bytes::Bytes;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType};
use prost::Message;

use super::names;

/// The routes of one object in one virtual host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectRoutes<'a> {
    /// The object, in the generation that the routes were built from.
    pub object: &'a ObjectRef,
    /// The name of the virtual host.
    pub virtual_host: String,
    /// The encoded routes, in their order. They are slices of the resource, and identify the revision of the part.
    pub routes: Vec<Bytes>,
}

impl ObjectRoutes<'_> {
    /// Returns each route with the name of its virtual host.
    fn places(&self) -> impl Iterator<Item = (&str, &Bytes)> {
        self.routes.iter().map(|route| (&*self.virtual_host, route))
    }
}

/// The parts of a resource.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parts<'a> {
    /// The parts with a single object, each once for each virtual host: sorted by virtual host and object.
    pub of_objects: Vec<ObjectRoutes<'a>>,
    /// The bytes that name no object: domains, redirects to https, and responses to all other requests. A resource
    /// without virtual hosts is a single part.
    pub shared: Vec<Bytes>,
}

/// Returns the parts of a resource.
pub fn parts(resource: &Resource) -> Parts<'_> {
    let Some(virtual_hosts) = virtual_hosts(resource) else {
        return Parts { of_objects: Vec::new(), shared: vec![resource.message()] };
    };
    let objects: BTreeMap<String, &ObjectRef> =
        resource.origins().iter().map(|origin| (names::route(origin), origin)).collect();
    let mut parts = Parts::default();
    for VirtualHost { name: virtual_host, domains, routes } in virtual_hosts {
        let mut of_objects = BTreeMap::<&ObjectRef, Vec<Bytes>>::new();
        for route in routes {
            let name = Route::decode(route.clone()).unwrap_or_default().name;
            match objects.get(&name) {
                Some(object) => of_objects.entry(object).or_default().push(route),
                None => parts.shared.push(route),
            }
        }
        let part = |(object, routes)| ObjectRoutes { object, virtual_host: virtual_host.clone(), routes };
        parts.of_objects.extend(of_objects.into_iter().map(part));
        parts.shared.extend(domains);
    }
    parts
}

/// Returns the objects of `now` that may have caused its difference from `before`, in the order of the origins.
///
/// These are the objects with a route that `before` does not contain. A difference outside of named routes, such as a
/// domain or a redirect to https, has no single object. Any object that `before` does not have in this generation may
/// have caused it. If no object explains the difference, or without an earlier version, the result is all objects.
pub fn changed_objects<'a>(now: &'a Resource, before: Option<&Resource>) -> Vec<&'a ObjectRef> {
    let found = before.map(|before| {
        let (new, old) = (parts(now), parts(before));
        let known: HashSet<_> = old.of_objects.iter().flat_map(ObjectRoutes::places).collect();
        let is_new = |part: &&ObjectRoutes| part.places().any(|route| !known.contains(&route));
        let mut changed: BTreeSet<&ObjectRef> = new.of_objects.iter().filter(is_new).map(|part| part.object).collect();
        let shared: HashSet<&Bytes> = old.shared.iter().collect();
        if new.shared.iter().any(|bytes| !shared.contains(bytes)) {
            let had: HashSet<&ObjectRef> = before.origins().iter().collect();
            changed.extend(now.origins().iter().filter(|origin| !had.contains(origin)));
        }
        changed.into_iter().collect::<Vec<_>>()
    });
    found.filter(|objects| !objects.is_empty()).unwrap_or_else(|| now.origins().iter().collect())
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

/// A `VirtualHost` with encoded fields, whose bytes are canonical in a resource.
#[derive(Clone, PartialEq, Message)]
struct VirtualHost {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(bytes = "bytes", repeated, tag = "2")]
    domains: Vec<Bytes>,
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
    use crate::envoy::{Statistics, chains, route, tls_listener::TlsListener};
    use crate::model::{self, Action, Host, ListenerId, PathMatch, Redirect, RedirectStatus};
    use crate::settings::Settings;
    use crate::testing::model::{empty, tls_host};

    fn host(name: &str) -> Host {
        Host::Exact(name.into())
    }

    fn ingress(name: &str, generation: i64) -> ObjectRef {
        ObjectRef::new("Ingress", "shop", name).at(generation)
    }

    fn cluster(name: &str, origins: Vec<ObjectRef>) -> Resource {
        use envoy_types::pb::envoy::config::cluster::v3::Cluster;
        Resource::new("cart", &Cluster { name: name.into(), ..Cluster::default() }, origins)
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
        let content = model::VirtualHostRoutes::new(routes);
        let id = ListenerId::new("http");
        let plain = route::http_routes(&id, &BTreeMap::from([(host.clone(), content.clone())]), &settings);
        let listener = TlsListener::of(&model, ListenerId::HTTPS).expect("the listener");
        let tls = model::TlsHost { origins: vec![], ..tls_host(&["cert"], [(host.clone(), content)]) };
        vec![plain, chains::routes(&host, &tls, &BTreeSet::new(), &listener, &settings, &Statistics::default())]
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
    fn the_parts_of_a_virtual_host_name_each_object_once_with_its_bytes() {
        let two_of_a = vec![
            answer("a", 3, 404),
            answer("b", 1, 503),
            model::Route::new(PathMatch::Exact("/other".into()), Action::respond(404), ingress("a", 3)),
        ];
        for resource in resources(two_of_a) {
            let message = resource.message();
            let parts = parts(&resource);
            let of_objects = parts.of_objects.iter().map(|part| (part.object.clone(), part.routes.len()));
            assert_eq!(of_objects.collect::<Vec<_>>(), [(ingress("a", 3), 2), (ingress("b", 1), 1)]);
            assert!(parts.of_objects.iter().all(|part| part.virtual_host.ends_with("a_test")), "{parts:?}");
            let paths = [["/a", "/other"].as_slice(), &["/b"]];
            for (part, paths) in parts.of_objects.iter().zip(paths) {
                for (route, path) in part.routes.iter().zip(paths) {
                    let built = envoy_types::pb::envoy::config::route::v3::Route::decode(route.clone());
                    assert!(format!("{:?}", built.expect("a route").r#match).contains(&format!("{path:?}")));
                    // A slice of the resource, not a copy.
                    assert!(message.as_ptr_range().contains(&route.as_ptr()));
                }
            }
        }
    }

    #[test]
    fn a_resource_without_virtual_hosts_is_one_part() {
        let resource = cluster("cart", vec![ingress("a", 1)]);
        assert_eq!(parts(&resource), Parts { of_objects: vec![], shared: vec![resource.message()] });
    }

    #[test]
    fn only_objects_with_changed_routes_are_returned() {
        let before = || Some(vec![answer("a", 1, 404), answer("b", 1, 404), answer("c", 1, 404)]);
        // Object `b` has a new generation with the same route.
        assert_eq!(changed(before(), vec![answer("a", 2, 503), answer("b", 2, 404), answer("c", 1, 404)]), ["a@2"]);
        let added = vec![answer("a", 1, 404), answer("b", 1, 404), answer("c", 1, 404), answer("d", 1, 404)];
        assert_eq!(changed(before(), added), ["d@1"]);
        // An annotation changes routes without a new generation.
        assert_eq!(changed(before(), vec![answer("b", 1, 503), answer("c", 1, 503)]), ["b@1", "c@1"]);
    }

    #[test]
    fn all_objects_are_returned_if_none_explains_the_difference() {
        let now = || vec![answer("a", 1, 404), answer("b", 1, 404)];
        assert_eq!(changed(None, now()), ["a@1", "b@1"]);
        assert_eq!(changed(Some(vec![answer("b", 1, 404), answer("a", 1, 404)]), now()), ["a@1", "b@1"]);
        let removed = Some(vec![answer("a", 1, 404), answer("b", 1, 404), answer("c", 1, 404)]);
        assert_eq!(changed(removed, now()), ["a@1", "b@1"]);
    }

    #[test]
    fn routes_without_an_object_belong_to_the_objects_with_a_new_generation() {
        let redirect = |name: &str, generation, status| {
            let action = Action::Redirect(Redirect::to_https(status));
            model::Route { action, ..answer(name, generation, 404) }
        };
        let before = vec![redirect("a", 1, RedirectStatus::Found), answer("b", 1, 404), answer("c", 1, 404)];
        let now = vec![redirect("a", 2, RedirectStatus::SeeOther), answer("b", 1, 503), answer("c", 1, 404)];
        assert_eq!(changed(Some(before), now), ["a@2", "b@1"]);
    }

    #[test]
    fn a_new_domain_of_a_virtual_host_belongs_to_its_object() {
        let redirect = |name: &str| {
            let action = Action::Redirect(Redirect::to_https(RedirectStatus::Found));
            let route = model::Route::new(PathMatch::root(), action, ingress(name, 1));
            (host(&format!("{name}.test")), model::VirtualHostRoutes::new([route]))
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
        let now = cluster("a", vec![ingress("a", 1), ingress("b", 2)]);
        let before = cluster("b", vec![ingress("a", 1), ingress("b", 1)]);
        assert_eq!(changed_objects(&now, Some(&before)), [&ingress("b", 2)]);
    }
}
