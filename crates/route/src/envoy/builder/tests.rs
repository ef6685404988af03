//! Tests that every sequence of changes to a model produces the resources of the final model.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::Version;
use prost::Message;

use super::*;
use crate::envoy::build;
use crate::envoy::names;
use crate::model::{
    Action, BackendFeatures, Cluster, Destination, Endpoints, Others, PathMatch, Redirect, RedirectStatus, Route,
    TlsConnections, TlsHost, VirtualHostRoutes, WeightedCluster,
};
use crate::settings::{AuthorizationProtocol, RouteDiscoveryMode, ServiceAddress};
use crate::testing::model::{Shared as _, cluster_id, empty, follow_settings, forward};

/// Returns a change of the model without a change of the settings.
fn model_change<'a>(model: &'a Model, touched: &'a Touched, settings: &'a Settings) -> Change<'a> {
    Change { model, touched, settings, settings_changed: false }
}

/// The resources of a client, by type and name.
type World = BTreeMap<Key, Arc<Resource>>;

/// Pseudorandom numbers that are equal in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

fn apply(world: &mut World, update: &Update<Arc<Resource>>) {
    for key in &update.remove {
        world.remove(key);
    }
    for resource in &update.set {
        world.insert((resource.kind(), resource.name().clone()), resource.clone());
    }
}

fn fingerprint(world: &World) -> Vec<(Key, Version, Vec<ObjectRef>)> {
    world.iter().map(|(key, one)| (key.clone(), one.version(), one.origins().to_vec())).collect()
}

fn domains(world: &World) -> Vec<String> {
    let hosts = world.values().filter(|one| one.kind() == ResourceType::VIRTUAL_HOST);
    hosts.flat_map(|one| route_v3::VirtualHost::decode(one.message()).unwrap().domains).collect()
}

/// Returns one of a few hosts with subdomains and wildcards, or one of many hosts that often have equal routes.
fn host(dice: &mut Dice) -> Host {
    match dice.below(10) {
        0 => Host::Any,
        1 => Host::Wildcard(["example.com", "a.example.com", "com"][dice.below(3)].into()),
        2 => Host::Exact(["example.com", "a.example.com", "b.a.example.com"][dice.below(3)].into()),
        _ => Host::Exact(format!("{}.example.com", dice.below(200)).into()),
    }
}

fn routes(dice: &mut Dice) -> VirtualHostRoutes {
    let action = match dice.below(4) {
        0 => Action::Redirect(Redirect::to_https(RedirectStatus::Found)),
        1 => Action::respond(503),
        kind => forward(["shop/cart/http", "shop/tls/443"][kind - 2]),
    };
    let origin = ObjectRef::new("Ingress", "shop", ["cart", "cart", "pay"][dice.below(3)]).at(dice.below(2) as i64);
    let one = Route::new(PathMatch::root(), action, origin);
    let routes = [0, 0, 0, 1, 2][dice.below(5)];
    VirtualHostRoutes { one_label: routes * dice.below(2), ..VirtualHostRoutes::new(vec![one; routes]) }
}

/// Returns a server name behind TLS with one virtual host, or with several.
fn behind_tls(name: &Host, dice: &mut Dice, tls: TlsHost) -> TlsHost {
    let more = (0..dice.below(4)).map(|_| (host(dice), routes(dice))).collect::<Vec<_>>();
    let misdirected = (0..dice.below(3)).map(|_| host(dice)).collect();
    let others = [Others::Misdirected, Others::NotFound][dice.below(2)];
    let own = Some((name.clone(), routes(dice))).filter(|_| dice.below(4) > 0);
    let is_without_server_name = dice.below(3) == 0;
    TlsHost { virtual_hosts: more.into_iter().chain(own).collect(), misdirected, others, is_without_server_name, ..tls }
}

/// Returns the forwarding of TLS connections as clients send them.
fn forwarded(dice: &mut Dice) -> TlsConnections {
    let cluster = WeightedCluster::new(cluster_id("shop/cart/http"), 1);
    let clusters = vec![cluster; dice.below(2)];
    let origin = ObjectRef::new("TLSRoute", "shop", "cart").at(dice.below(2) as i64);
    TlsConnections { terminated: None, to: Destination { clusters, refused: 0, origin } }
}

/// Changes a part of `model`, and returns the touched part.
fn change(model: &mut Model, dice: &mut Dice) -> Touched {
    let mut touched = Touched::default();
    let full = crate::testing::model::model();
    for _ in 0..[1, 1, 2, 30][dice.below(4)] {
        match dice.below(13) {
            0 => {
                let (name, cluster) = full.clusters.iter().nth(dice.below(full.clusters.len())).unwrap();
                let (mut name, mut cluster) = (name.clone(), Cluster::clone(cluster));
                if dice.below(2) == 0 {
                    let shares = vec![(cluster_id("shop/cart/http").port, 1)];
                    cluster.policy.features = Some(Arc::new(BackendFeatures { shares, ..BackendFeatures::default() }));
                    name.policy = Some(cluster.policy.id());
                }
                touched.clusters.insert(name.clone());
                if model.clusters.remove(&name).is_none() {
                    model.clusters.insert(name, Arc::new(cluster));
                }
            }
            1 => {
                let port = cluster_id("shop/cart/http").port;
                touched.endpoints.insert(port.clone());
                if model.endpoints.remove(&port).is_none() {
                    model.endpoints.insert(port, Endpoints::default());
                }
            }
            2 => {
                let (name, secret) = full.secrets.first_key_value().unwrap();
                touched.secrets.insert(name.clone());
                if model.secrets.remove(name).is_none() {
                    model.secrets.insert(name.clone(), secret.clone());
                }
            }
            12 => {
                touched.stats_tls = true;
                model.stats_tls = [None, full.stats_tls.clone()][dice.below(2)].clone();
            }
            3 => {
                let host = host(dice);
                let any = full.https()[&Host::Any].clone();
                let tls = model.tls_mut(ListenerId::HTTPS).unwrap();
                let was_served = tls.hosts.remove(&host).is_some() || tls.connections.remove(&host).is_some();
                match dice.below(4) {
                    _ if was_served => {}
                    0 => drop(tls.connections.insert(host.clone(), forwarded(dice))),
                    _ => drop(tls.hosts.insert(host.clone(), behind_tls(&host, dice, any))),
                }
                touched.insert_host(ListenerId::HTTPS, host);
            }
            4 | 5 => {
                let host = host(dice);
                model.http_mut().remove(&host);
                touched.insert_host(ListenerId::HTTP, host);
            }
            _ => {
                let host = host(dice);
                model.http_mut().insert(host.clone(), routes(dice));
                touched.insert_host(ListenerId::HTTP, host);
            }
        }
    }
    touched
}

#[test]
fn every_sequence_of_changes_builds_the_resources_of_the_final_model() {
    let (mut largest, mut scoped) = (0, 0);
    let mut before = false;
    for seed in 0..4 {
        let mut dice = Dice(seed);
        let (mut model, mut builder, mut settings) = (empty(), Builder::default(), by_host());
        follow_settings(&mut model, &settings);
        let (mut shared, mut vhds, mut rds) = (World::new(), World::new(), World::new());
        let mut wanted = Forms::default();
        for step in 0..50 {
            let touched = change(&mut model, &mut dice);
            let settings_changed = dice.below(8) == 0;
            if settings_changed {
                settings.listeners.stats.port = [0, 8081][dice.below(2)];
                settings.listeners.stats_tls.at.port = [0, 8083, 8083][dice.below(3)];
                settings.http.http3.enabled = dice.below(2) == 0;
                settings.routes.discovery =
                    [RouteDiscoveryMode::Auto, RouteDiscoveryMode::Vhds, RouteDiscoveryMode::Vhds][dice.below(3)];
                // With or without objects in the routes' metadata.
                settings.access_log.text =
                    ["%ROUTE_NAME%\n", "%METADATA(ROUTE:dev.lockgate:name)%\n"][dice.below(2)].to_owned();
                settings.headers.response.remove = vec!["x-powered-by".to_owned(); dice.below(2)];
                let somebody = |port| ServiceAddress { host: "somebody".to_owned(), port };
                let asked = &mut settings.external_authorization;
                asked.endpoint = [None, Some(somebody(1)), Some(somebody(2))][dice.below(3)].clone();
                asked.check.protocol = [AuthorizationProtocol::Grpc, AuthorizationProtocol::Http][dice.below(2)];
                asked.context = (0..dice.below(2)).map(|_| ("site".to_owned(), "eu-1".to_owned())).collect();
                settings.rate_limit.endpoint = [None, Some(somebody(3))][dice.below(2)].clone();
                follow_settings(&mut model, &settings);
            }
            if dice.below(4) == 0 {
                wanted = Forms { vhds: dice.below(3) > 0, rds: dice.below(3) > 0, ..Forms::default() };
            }
            if !wanted.vhds {
                vhds.clear();
            }
            let built = builder
                .update(Change { model: &model, touched: &touched, settings: &settings, settings_changed }, wanted);
            before |= !built.vhds.remove.is_empty() && !built.vhds.set.is_empty();
            apply(&mut shared, &built.shared);
            apply(&mut vhds, &built.vhds);
            apply(&mut rds, &built.rds);

            let at = format!("seed {seed}, step {step}");
            let all = Forms { vhds: true, rds: true, ..Forms::default() };
            let anew = Builder::default().update(model_change(&model, &Touched::default(), &settings), all);
            let [mut new_shared, mut new_vhds, mut new_rds] = [World::new(), World::new(), World::new()];
            apply(&mut new_shared, &anew.shared);
            apply(&mut new_vhds, &anew.vhds);
            apply(&mut new_rds, &anew.rds);
            assert_eq!(fingerprint(&shared), fingerprint(&new_shared), "{at}");
            let mut whole = shared.clone();
            if wanted.rds {
                assert_eq!(fingerprint(&rds), fingerprint(&new_rds), "{at}");
                whole.extend(rds.clone());
                let mut built = World::new();
                apply(&mut built, &Update::setting(build(&model, &settings).into_iter().map(Arc::new).collect()));
                assert_eq!(fingerprint(&whole), fingerprint(&built), "{at}");
            }
            if settings.routes.discovery == RouteDiscoveryMode::Auto {
                assert!(vhds.is_empty() && rds.is_empty(), "{at}");
                scoped += 1;
            } else if wanted.vhds {
                assert_eq!(fingerprint(&vhds), fingerprint(&new_vhds), "{at}");
                let domains = domains(&vhds);
                let once: BTreeSet<String> = domains.iter().cloned().collect();
                assert_eq!(once.len(), domains.len(), "{at}: a domain is in two virtual hosts");
                let hosts = model.http().keys().chain([&Host::Any]).map(Host::to_string).collect();
                assert_eq!(once, hosts, "{at}");
                largest = largest.max(model.http().len());
            }
        }
    }
    assert!(before, "no domain ever moved");
    assert!(largest > 80 && scoped > 20, "only {largest} hosts, and {scoped} steps with scopes");
}

#[test]
fn both_forms_have_the_same_virtual_hosts() {
    let model = crate::testing::model::model();
    let forms = Forms { vhds: true, rds: true, ..Forms::default() };
    let mut model = model;
    follow_settings(&mut model, &by_host());
    let built = Builder::default().update(model_change(&model, &Touched::all(&model), &by_host()), forms);
    let inline = route_v3::RouteConfiguration::decode(built.rds.set[0].message()).unwrap();
    assert!(inline.vhds.is_none() && inline.ignore_port_in_host_matching);
    let (routes, hosts): (Vec<_>, Vec<_>) = built.vhds.set.iter().partition(|one| one.kind() == ResourceType::ROUTES);
    let routes = route_v3::RouteConfiguration::decode(routes[0].message()).unwrap();
    assert!(routes.vhds.is_some() && routes.virtual_hosts.is_empty() && routes.ignore_port_in_host_matching);
    let decoded = hosts.iter().map(|one| route_v3::VirtualHost::decode(one.message()).unwrap());
    assert!(decoded.eq(inline.virtual_hosts));
    // Envoy removes a virtual host by the name in the message.
    assert!(hosts.iter().all(|one| route_v3::VirtualHost::decode(one.message()).unwrap().name == **one.name()));
}

#[test]
fn an_update_contains_only_changed_resources() {
    let mut model = empty();
    let settings = by_host();
    follow_settings(&mut model, &settings);
    let forms = Forms { vhds: true, ..Forms::default() };
    let redirect = Action::Redirect(Redirect::to_https(RedirectStatus::Found));
    for number in 0..3000 {
        let origin = ObjectRef::new("Ingress", "shop", &format!("ingress-{number}"));
        let action = if number % 2 == 0 { redirect.clone() } else { forward("shop/cart/http") };
        let one = Route::new(PathMatch::root(), action, origin);
        model.http_mut().insert(Host::Exact(format!("{number}.test").into()), VirtualHostRoutes::new([one]));
    }
    let mut builder = Builder::default();
    builder.update(model_change(&model, &Touched::default(), &settings), forms);
    for host in ["4.test", "5.test", "new.test"] {
        let host = Host::Exact(host.into());
        let content = crate::testing::model::model().http()[&Host::Exact("shop.example.com".into())].clone();
        model.http_mut().insert(host.clone(), content);
        let mut touched = Touched::default();
        touched.insert_host(ListenerId::HTTP, host);
        let built = builder.update(model_change(&model, &touched, &settings), forms);
        assert!(built.shared.set.is_empty() && built.rds.set.is_empty());
        let size: usize = built.vhds.set.iter().map(|one| one.size()).sum();
        assert!(built.vhds.set.len() <= 3 && size < 4000, "{} resources, {size} bytes", built.vhds.set.len());
    }
}

/// Returns settings with a resource for each virtual host.
fn by_host() -> Settings {
    let mut settings = Settings::default();
    settings.routes.discovery = RouteDiscoveryMode::Vhds;
    settings
}

/// Returns the scope of each host of the listener for plain HTTP.
fn scopes(world: &World) -> BTreeMap<String, route_v3::RouteConfiguration> {
    let of_plain_text =
        |(kind, name): &&Key| *kind == ResourceType::SCOPED_ROUTES && name.starts_with(ListenerId::HTTP);
    let scopes = world.iter().filter(|(key, _)| of_plain_text(key)).filter(|((_, name), _)| !name.starts_with("https"));
    scopes
        .map(|((_, name), one)| {
            let scope = route_v3::ScopedRouteConfiguration::decode(one.message()).unwrap();
            let key = route_v3::scoped_route_configuration::key::fragment::Type::StringKey(name.to_string());
            assert_eq!(scope.key.unwrap().fragments[0].r#type, Some(key), "the name is the key");
            (name.to_string(), scope.route_configuration.unwrap())
        })
        .collect()
}

#[test]
fn each_exact_host_has_a_scope_and_all_others_share_one() {
    let model = crate::testing::model::model();
    let mut world = World::new();
    let built = Builder::default().update(
        model_change(&model, &Touched::all(&model), &Settings::default()),
        Forms { vhds: true, rds: true, ..Forms::default() },
    );
    assert!(built.vhds.set.is_empty() && built.rds.set.is_empty());
    apply(&mut world, &built.shared);
    let scopes = scopes(&world);
    let of = |host: &Host| match host {
        Host::Exact(_) => names::scope(&ListenerId::new(ListenerId::HTTP), host),
        Host::Wildcard(_) | Host::Any => "http/*".to_owned(),
    };
    for host in model.http().keys().chain([&Host::Any]) {
        let domains = scopes[&of(host)].virtual_hosts.iter().flat_map(|one| &one.domains);
        assert_eq!(domains.filter(|domain| **domain == host.to_string()).count(), 1, "{host}");
    }
    let exact = model.http().keys().filter(|host| matches!(host, Host::Exact(_))).count();
    assert_eq!(scopes.len(), exact + 1);
    for (name, scope) in scopes.iter().filter(|(name, _)| *name != "http/*") {
        // A request without a route is given to the scope of others, whose hosts can belong to another namespace.
        let last = scope.virtual_hosts[0].routes.last().unwrap().r#match.clone().unwrap();
        assert_eq!(last.path_specifier, Some(route_v3::route_match::PathSpecifier::Prefix("/".to_owned())), "{name}");
        assert!(last.headers.is_empty() && last.query_parameters.is_empty(), "{name}");
        assert!(scope.virtual_hosts[0].routes.iter().all(|route| !route.name.is_empty()), "{name}");
    }
}

#[test]
fn a_change_of_a_host_costs_the_same_among_ten_and_among_thousands() {
    let sent = |number: usize| {
        let mut model = empty();
        let host = |number: usize| Host::Exact(format!("{number:05}.test").into());
        let content = crate::testing::model::model().http()[&Host::Exact("shop.example.com".into())].clone();
        for number in 0..number {
            model.http_mut().insert(host(number), content.clone());
        }
        let mut builder = Builder::default();
        builder.update(model_change(&model, &Touched::default(), &Settings::default()), Forms::default());
        [host(1), host(number), Host::Wildcard("wild.test".into())].map(|host| {
            model
                .http_mut()
                .insert(host.clone(), VirtualHostRoutes::new(content.routes.iter().skip(1).map(|one| (**one).clone())));
            let mut touched = Touched::default();
            touched.insert_host(ListenerId::HTTP, host);
            let built = builder.update(
                model_change(&model, &touched, &Settings::default()),
                Forms { vhds: true, rds: true, ..Forms::default() },
            );
            assert!(built.vhds.set.is_empty() && built.rds.set.is_empty() && built.shared.remove.is_empty());
            let sent = built.shared.set.iter().map(|one| one.size());
            (built.shared.set.len(), sent.sum::<usize>())
        })
    };
    let (few, many) = (sent(10), sent(5_000));
    assert_eq!(few, many);
    assert!(few.iter().all(|(resources, _)| *resources == 1), "{few:?}");
}
