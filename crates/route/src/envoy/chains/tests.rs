#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;

use lockgate_xds::provenance::ObjectRef;
use prost::Message;

use super::*;
use crate::model::{Action, Model, PathMatch, TlsVersion};
use crate::testing::model::{self, Shared as _, empty, pair_id, with_hosts};

fn exact(name: &str) -> Host {
    Host::Exact(name.into())
}

fn wildcard(suffix: &str) -> Host {
    Host::Wildcard(suffix.into())
}

fn tls(secret: &str) -> TlsHost {
    model::tls_host(&[secret], [])
}

/// Adds a route that answers 503 to the virtual host `host`.
fn add_route(tls: &mut TlsHost, host: &Host) {
    let mut hosts: BTreeMap<_, _> = tls.virtual_hosts.iter().map(|(host, own)| (host.clone(), own.clone())).collect();
    let route = model::route(PathMatch::root(), Action::respond(503));
    hosts.entry(host.clone()).or_default().routes.push(route.into());
    tls.virtual_hosts = hosts.into_iter().collect();
}

fn model(hosts: &[Host]) -> Model {
    with_hosts(BTreeMap::new(), hosts.iter().map(|host| (host.clone(), tls("cert"))).collect())
}

fn touching<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> Touched {
    let mut touched = Touched::default();
    hosts.into_iter().for_each(|host| touched.insert_host(ListenerId::HTTPS, host.clone()));
    touched
}

/// Returns the listener for HTTP over TLS that all Ingresses share.
fn https(model: &Model) -> TlsListener<'_> {
    TlsListener::of(model, ListenerId::HTTPS).unwrap()
}

/// Updates the listener when no route needs an HTTP filter.
fn apply_change(
    chains: &mut Chains,
    listener: TlsListener,
    touched: &Touched,
    settings: &Settings,
    everything: bool,
) -> Update<Arc<Resource>> {
    chains.update(listener, touched, RouteFilters::default(), settings, &Statistics::default(), everything)
}

fn scope_of(resource: &Resource) -> route_v3::ScopedRouteConfiguration {
    assert_eq!(resource.kind(), ResourceType::SCOPED_ROUTES);
    route_v3::ScopedRouteConfiguration::decode(resource.message()).unwrap()
}

fn configuration(resource: &Resource) -> route_v3::RouteConfiguration {
    match resource.kind() {
        ResourceType::ROUTES => route_v3::RouteConfiguration::decode(resource.message()).unwrap(),
        _ => scope_of(resource).route_configuration.unwrap(),
    }
}

fn domains(resource: &Resource) -> Vec<String> {
    configuration(resource).virtual_hosts.into_iter().flat_map(|host| host.domains).collect()
}

fn named<'a>(resources: &'a [Arc<Resource>], name: &str) -> &'a Resource {
    resources.iter().find(|resource| &**resource.name() == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the names of the resources that an update sets and removes.
/// Returns the names of the set and of the removed resources. The name of a connection manager contains a hash.
fn said(update: &Update<Arc<Resource>>) -> (Vec<&str>, Vec<&str>) {
    fn named(kind: ResourceType, name: &str) -> &str {
        if kind == ResourceType::EXTENSION { "manager" } else { name }
    }
    let set = update.set.iter().map(|resource| named(resource.kind(), resource.name())).collect();
    (set, update.remove.iter().map(|(kind, name)| named(*kind, name)).collect())
}

#[test]
fn an_exact_host_is_the_scope_of_its_server_name() {
    let resource = routes(
        &exact("shop.example.com"),
        &tls("cert"),
        &BTreeSet::new(),
        &https(&empty()),
        &Settings::default(),
        &Statistics::default(),
    );
    let scope = scope_of(&resource);
    assert_eq!((&*scope.name, &**resource.name()), ("https/shop.example.com", "https/shop.example.com"));
    let fragments = scope.key.unwrap().fragments;
    let key = route_v3::scoped_route_configuration::key::fragment::Type::StringKey("shop.example.com".into());
    assert_eq!(fragments.into_iter().map(|fragment| fragment.r#type.unwrap()).collect::<Vec<_>>(), [key]);
    assert_eq!(configuration(&resource).request_headers_to_remove, ["x-lockgate-server-name"]);
    assert_eq!(resource.origins().len(), 1);
}

#[test]
fn another_host_on_a_tls_connection_is_misdirected() {
    let of = |host: &Host| {
        routes(host, &tls("cert"), &BTreeSet::new(), &https(&empty()), &Settings::default(), &Statistics::default())
    };
    let resource = of(&exact("shop.example.com"));
    assert_eq!(domains(&resource), ["shop.example.com", "*"]);
    let rest = configuration(&resource).virtual_hosts.remove(1).routes.remove(0);
    assert_eq!(rest.action, Some(route_v3::route::Action::DirectResponse(route::direct_response(421))));
    assert_eq!(domains(&of(&Host::Any)), ["*"]);
}

#[test]
fn a_wildcard_host_refuses_the_names_below_it_that_other_chains_serve() {
    let hosts = [
        exact("shop.example.com"),
        exact("example.com"),
        exact("notexample.com"),
        exact("a.deep.example.com"),
        wildcard("example.com"),
        wildcard("deep.example.com"),
        Host::Any,
    ];
    let made =
        apply_change(&mut Chains::default(), https(&model(&hosts)), &Touched::default(), &Settings::default(), true)
            .set;
    let of = |name: &str| domains(named(&made, name));
    assert_eq!(of("https/*.example.com"), ["*.example.com", "*", "shop.example.com", "*.deep.example.com"]);
    assert_eq!(of("https/*.deep.example.com"), ["*.deep.example.com", "*", "a.deep.example.com"]);
    assert_eq!(of("https/shop.example.com"), ["shop.example.com", "*"]);
}

#[test]
fn an_edit_of_an_ingress_builds_only_its_scope_and_no_listener() {
    let hosts = [exact("a.test"), exact("b.test")];
    let mut model = model(&hosts);
    let (mut chains, settings) = (Chains::default(), Settings::default());
    apply_change(&mut chains, https(&model), &touching(&hosts), &settings, true);
    for generation in 1..4 {
        model.https_mut().get_mut(&hosts[0]).unwrap().origins =
            vec![ObjectRef::new("Ingress", "shop", "cart").at(generation)];
        let update = apply_change(&mut chains, https(&model), &touching(&hosts[..1]), &settings, false);
        assert_eq!(said(&update), (vec!["https/a.test"], vec![]), "generation {generation}");
        assert_eq!(update.set[0].origins()[0].generation, generation);
    }
    // Another object of the host adds an origin to the listener.
    model.https_mut().get_mut(&hosts[0]).unwrap().origins = vec![ObjectRef::new("Ingress", "shop", "other")];
    assert!(
        said(&apply_change(&mut chains, https(&model), &touching(&hosts[..1]), &settings, false)).0.contains(&"https")
    );
}

#[test]
fn new_routes_of_a_host_change_only_its_scope() {
    let hosts = [exact("a.test"), exact("b.test"), wildcard("test"), Host::Any];
    let mut model = model(&hosts);
    let (mut chains, settings) = (Chains::default(), Settings::default());
    apply_change(&mut chains, https(&model), &touching(&hosts), &settings, false);
    for (host, name) in hosts.iter().zip(["https/a.test", "https/b.test", "https/*.test", "https/*"]) {
        // A new route, and a new virtual host.
        for served in [host, &exact("x.test")] {
            add_route(model.https_mut().get_mut(host).unwrap(), served);
            let update = apply_change(&mut chains, https(&model), &touching([host]), &settings, false);
            assert_eq!(said(&update), (vec![name], vec![]));
        }
    }
    assert_eq!(
        said(&apply_change(&mut chains, https(&model), &Touched::default(), &settings, false)),
        (vec![], vec![])
    );
}

#[test]
fn a_new_or_removed_host_changes_the_listener_and_the_wildcard_above() {
    let hosts = [wildcard("test"), wildcard("deep.test")];
    let mut model = model(&hosts);
    let (mut chains, settings) = (Chains::default(), Settings::default());
    apply_change(&mut chains, https(&model), &touching(&hosts), &settings, false);
    let host = exact("a.deep.test");
    model.https_mut().insert(host.clone(), tls("other"));
    let update = apply_change(&mut chains, https(&model), &touching([&host]), &settings, false);
    assert_eq!(said(&update).0, ["https/a.deep.test", "https/*.deep.test", "https", "manager"]);
    model.https_mut().get_mut(&host).unwrap().secrets = vec![pair_id("cert")];
    let update = apply_change(&mut chains, https(&model), &touching([&host]), &settings, false);
    assert_eq!(said(&update).0, ["https/a.deep.test", "https"]);
    model.https_mut().remove(&host);
    let update = apply_change(&mut chains, https(&model), &touching([&host]), &settings, false);
    assert_eq!(said(&update), (vec!["https/*.deep.test", "https"], vec!["https/a.deep.test", "manager"]));
}

#[test]
fn the_listeners_are_removed_with_the_last_host_or_by_the_setting() {
    let (mut chains, mut settings) = (Chains::default(), Settings::default());
    settings.http.http3.enabled = true;
    let host = exact("a.test");
    let mut model = model(std::slice::from_ref(&host));
    with_http3(&mut model, true);
    let update = apply_change(&mut chains, https(&model), &touching([&host]), &settings, false);
    assert_eq!(said(&update).0, ["https/a.test", "https", "http3", "manager"]);
    settings.http.http3.enabled = false;
    with_http3(&mut model, false);
    assert_eq!(said(&apply_change(&mut chains, https(&model), &Touched::default(), &settings, true)).1, ["http3"]);
    model.https_mut().clear();
    let update = apply_change(&mut chains, https(&model), &touching([&host]), &settings, false);
    assert_eq!(said(&update), (vec![], vec!["https/a.test", "https", "manager"]));
    let kinds: Vec<_> = update.remove.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [ResourceType::SCOPED_ROUTES, ResourceType::LISTENER, ResourceType::EXTENSION]);
}

/// Adds a listener for HTTP/3, or removes it.
fn with_http3(model: &mut Model, enabled: bool) {
    model.tls_mut(ListenerId::HTTPS).unwrap().http3 = enabled.then(|| ListenerId::new(ListenerId::HTTP3));
}

#[test]
fn the_same_host_on_two_listeners_has_a_scope_on_each() {
    let host = exact("shop.example.com");
    let model = model(std::slice::from_ref(&host));
    let other = ListenerId::new("other");
    let second = TlsListener { id: &other, ..https(&model) };
    let [one, two] = [https(&model), second].map(|listener| {
        let update = apply_change(&mut Chains::default(), listener, &Touched::default(), &Settings::default(), true);
        let scope = scope_of(named(&update.set, &format!("{}/shop.example.com", listener.id)));
        assert!(update.set.iter().any(|one| **one.name() == *listener.id.as_str()), "the listener");
        (scope.name, scope.key.unwrap().fragments)
    });
    assert!(one.0 != two.0 && one.1 != two.1, "{one:?} {two:?}");
}

/// Pseudorandom numbers that are equal in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// All resources: type, name, origins, bytes.
type World = BTreeMap<Key, (Vec<ObjectRef>, Vec<u8>)>;

fn apply(world: &mut World, update: Update<Arc<Resource>>) {
    update.remove.iter().for_each(|key| assert!(world.remove(key).is_some(), "{key:?} was never there"));
    for one in update.set {
        world.insert((one.kind(), one.name().clone()), (one.origins().to_vec(), one.message().to_vec()));
    }
}

#[test]
fn any_sequence_of_changes_gives_the_result_of_a_new_translation() {
    let hosts = [
        exact("test"),
        exact("a.test"),
        exact("b.test"),
        exact("a.deep.test"),
        exact("a.b.deep.test"),
        wildcard("test"),
        wildcard("deep.test"),
        wildcard("b.deep.test"),
        Host::Any,
    ];
    for seed in 0..60 {
        let mut numbers = Numbers(seed);
        let (mut model, mut chains, mut world) = (empty(), Chains::default(), World::new());
        let mut settings = Settings::default();
        for _ in 0..20 {
            let mut touched = Touched::default();
            for _ in 0..1 + numbers.below(3) {
                let host = hosts[numbers.below(hosts.len())].clone();
                let mut presented = tls(["one", "other"][numbers.below(2)]);
                match numbers.below(6) {
                    0 | 1 => {
                        model.https_mut().remove(&host);
                    }
                    2 => presented.minimum = TlsVersion::V1_3,
                    3 => presented.maximum = TlsVersion::V1_2,
                    4 => presented.origins.clear(),
                    _ => {
                        add_route(&mut presented, &host);
                        add_route(&mut presented, &hosts[numbers.below(hosts.len())]);
                        presented.secrets.push(pair_id("more"));
                        presented.misdirected.insert(hosts[numbers.below(hosts.len())].clone());
                    }
                }
                if model.https().contains_key(&host) || numbers.below(2) == 0 {
                    model.https_mut().insert(host.clone(), presented);
                }
                touched.insert_host(ListenerId::HTTPS, host);
            }
            let everything = numbers.below(8) == 0;
            if everything {
                settings.http.http3.enabled = !settings.http.http3.enabled;
                with_http3(&mut model, settings.http.http3.enabled);
            }
            apply(&mut world, apply_change(&mut chains, https(&model), &touched, &settings, everything));
            let mut anew = World::new();
            apply(&mut anew, apply_change(&mut Chains::default(), https(&model), &Touched::default(), &settings, true));
            assert_eq!(world, anew, "seed {seed}");
        }
    }
}
