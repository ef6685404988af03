#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use lockgate_xds::provenance::ObjectRef;

use super::*;
use crate::model::{
    Bind, Destination, Listener, Material, Oidc, RoutePolicy, SdsSecret, SecretPart, Termination, TlsConnections,
    TlsVersion, VirtualHostRoutes, WeightedCluster,
};
use crate::objects::ObjectKey;
use crate::testing::model::{cluster_id, model, pair_id};

fn ids(names: &[&str]) -> BTreeSet<ListenerId> {
    names.iter().map(|name| ListenerId::new(name)).collect()
}

/// Returns the part of a model from scratch.
fn part(all: &Model, listeners: &BTreeSet<ListenerId>) -> Part {
    let mut part = Part::default();
    part.update(all, &Touched::all(all), &BTreeSet::new(), |id| listeners.contains(id));
    part
}

/// The part of a model by its definition.
fn subset(all: &Model, listeners: &BTreeSet<ListenerId>) -> Model {
    let mut part = Model { stats_tls: all.stats_tls.clone(), installation: all.installation, ..Model::default() };
    let stats = all.stats_tls.iter().flat_map(|stats| stats.clients.iter().chain([&stats.secret]));
    let mut secrets: BTreeSet<&SecretId> = stats.collect();
    for (id, listener) in all.listeners.iter().filter(|(id, _)| listeners.contains(*id)) {
        part.listeners.insert(id.clone(), listener.clone());
        secrets.extend(listener.traffic.secrets());
        for (id, cluster) in listener.traffic.clusters().filter_map(|id| all.clusters.get_key_value(id)) {
            part.clusters.insert(id.clone(), cluster.clone());
            secrets.extend(cluster.policy.secrets());
            let endpoints = all.endpoints.get(&id.port).filter(|_| cluster.discovery == Discovery::Eds);
            part.endpoints.extend(endpoints.map(|endpoints| (id.port.clone(), endpoints.clone())));
        }
    }
    let of_all = secrets.into_iter().filter_map(|id| all.secrets.get_key_value(id));
    part.secrets = of_all.map(|(id, secret)| (id.clone(), secret.clone())).collect();
    part
}

fn to(cluster: &str) -> Destination {
    let clusters = vec![WeightedCluster::new(cluster_id(cluster), 1)];
    Destination { clusters, refused: 0, origin: ObjectRef::new("TCPRoute", "shop", "cart") }
}

fn with_listener(name: &str, traffic: Traffic) -> Model {
    let mut model = Model { stats_tls: None, ..model() };
    model.clusters.values_mut().for_each(|cluster| Arc::make_mut(cluster).policy.client_certificate = None);
    model.listeners.insert(ListenerId::new(name), Listener { bind: Bind::default(), traffic });
    model
}

/// Adds logins, with their secrets, to the first hosts of the listeners for HTTP.
fn with_logins(mut model: Model) -> Model {
    let secret = |part| SecretId::new(ObjectKey::new("shop", "login"), part);
    let oidc = Oidc {
        session: "shop/login".into(),
        client_id: "shop".into(),
        client_secret: secret(SecretPart::ClientSecret),
        cookie_key: secret(SecretPart::CookieKey),
        authorization_endpoint: "https://login.test/auth".into(),
        token_endpoint: "http://login.test/token".into(),
        cluster: cluster_id("shop/ip/h2c"),
        end_session_endpoint: None,
        scopes: Box::default(),
        redirect_path: "/callback".into(),
        logout_path: "/logout".into(),
        forwards_token: false,
    };
    let origin = ObjectRef::new("Secret", "shop", "login");
    for id in [&oidc.client_secret, &oidc.cookie_key] {
        model.secrets.insert(id.clone(), SdsSecret { material: Material::Text("s".into()), origin: origin.clone() });
    }
    let policy = Arc::new(RoutePolicy { oidc: Some(Arc::new(oidc)), ..RoutePolicy::default() });
    let log_in = |host: &mut VirtualHostRoutes| {
        host.routes.iter_mut().for_each(|route| *route = Arc::new(route.with_policy(policy.clone())));
    };
    model.plain_mut(ListenerId::HTTP).unwrap().hosts.values_mut().take(1).for_each(log_in);
    for tls in model.tls_mut(ListenerId::HTTPS).unwrap().hosts.values_mut().take(1) {
        let hosts: Vec<Host> = tls.virtual_hosts.keys().cloned().collect();
        hosts.iter().for_each(|host| tls.virtual_hosts.get_mut(host).into_iter().for_each(log_in));
    }
    model
}

#[test]
fn a_part_has_only_the_resources_of_its_listeners() {
    let all = with_listener("tcp", Traffic::Tcp(to("shop/ip/h2c")));
    let tcp = part(&all, &ids(&["tcp", "unknown"])).model;
    assert!(tcp.listeners.keys().eq(&ids(&["tcp"])));
    assert!(tcp.clusters.keys().eq([&cluster_id("shop/ip/h2c")]));
    assert!(tcp.endpoints.is_empty() && tcp.secrets.is_empty());
    assert!(part(&all, &ids(&[ListenerId::HTTP])).model.secrets.is_empty(), "no key pair without TLS");
    assert!(part(&all, &ids(&[ListenerId::HTTPS])).model.secrets.keys().eq([&pair_id("cert")]));
    let model = model();
    let everything = part(&model, &model.listeners.keys().cloned().collect());
    assert_eq!(everything.model, model, "with the secrets of statistics");
    assert!(everything.rest(&model).is_empty());
}

#[test]
fn a_part_has_the_key_pairs_of_terminated_connections() {
    let (secrets, minimum, maximum) = (vec![pair_id("cert")], TlsVersion::V1_2, TlsVersion::V1_3);
    let terminated = Some(Termination { secrets, minimum, maximum, clients: None });
    let connections = TlsConnections { terminated, to: to("shop/ip/h2c") };
    let all = with_listener("tls", Traffic::Tls([(Host::Any, connections)].into()));
    let tls = part(&all, &ids(&["tls"]));
    assert!(tls.model.clusters.keys().eq([&cluster_id("shop/ip/h2c")]));
    assert!(tls.model.secrets.keys().eq([&pair_id("cert")]));
    let rest = tls.rest(&all);
    assert!(!rest.listeners.contains("tls") && rest.listeners.contains(ListenerId::HTTP));
    assert!(rest.hosts.keys().eq(&ids(&[ListenerId::HTTP, ListenerId::HTTPS])));
}

/// A step: a change of the model, or a listener that moves.
#[derive(Debug, Clone)]
enum Act {
    /// A host of a listener is added or removed.
    Host(bool, usize),
    /// A cluster, its endpoints, and all secrets are added or removed.
    Cluster(usize),
    Secrets,
    Stats,
    /// A listener without HTTP is added or removed, or has another destination.
    Tcp(Option<usize>),
    /// A listener joins or leaves the part.
    Move(usize),
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        (any::<bool>(), 0..4usize).prop_map(|(tls, at)| Act::Host(tls, at)),
        (0..5usize).prop_map(Act::Cluster),
        Just(Act::Secrets),
        Just(Act::Stats),
        prop::option::of(0..5usize).prop_map(Act::Tcp),
        (0..3usize).prop_map(Act::Move),
    ]
}

fn toggle<K: Ord + Clone, V: Clone>(map: &mut BTreeMap<K, V>, of: &BTreeMap<K, V>, at: usize) -> Option<K> {
    let (key, value) = of.iter().nth(at)?;
    if map.remove(key).is_none() {
        map.insert(key.clone(), value.clone());
    }
    Some(key.clone())
}

proptest! {
    #[test]
    fn a_part_does_not_depend_on_its_history(acts in prop::collection::vec(act(), 1..30)) {
        let full = with_logins(model());
        let (mut all, mut members) = (full.clone(), ids(&[ListenerId::HTTPS]));
        let names = [ListenerId::HTTP, ListenerId::HTTPS, "tcp"];
        let mut known = part(&all, &members);
        for act in acts {
            let (mut touched, mut moved) = (Touched::default(), BTreeSet::new());
            match act {
                Act::Host(false, at) => {
                    let of = &full.plain(ListenerId::HTTP).unwrap().hosts;
                    let host = toggle(&mut all.plain_mut(ListenerId::HTTP).unwrap().hosts, of, at);
                    host.into_iter().for_each(|host| touched.insert_host(ListenerId::HTTP, host));
                }
                Act::Host(true, at) => {
                    let of = &full.tls(ListenerId::HTTPS).unwrap().hosts;
                    let host = toggle(&mut all.tls_mut(ListenerId::HTTPS).unwrap().hosts, of, at);
                    host.into_iter().for_each(|host| touched.insert_host(ListenerId::HTTPS, host));
                }
                Act::Cluster(at) => {
                    touched.clusters.extend(toggle(&mut all.clusters, &full.clusters, at));
                    touched.endpoints.extend(toggle(&mut all.endpoints, &full.endpoints, at));
                }
                Act::Secrets => {
                    touched.secrets = full.secrets.keys().cloned().collect();
                    all.secrets = if all.secrets.is_empty() { full.secrets.clone() } else { BTreeMap::new() };
                }
                Act::Stats => {
                    touched.stats_tls = true;
                    all.stats_tls = if all.stats_tls.is_some() { None } else { full.stats_tls.clone() };
                }
                Act::Tcp(at) => {
                    let id = ListenerId::new("tcp");
                    touched.listeners.insert(id.clone());
                    all.listeners.remove("tcp");
                    if let Some(cluster) = at.and_then(|at| full.clusters.keys().nth(at)) {
                        let to = Destination { clusters: vec![WeightedCluster::new(cluster.clone(), 1)], ..to("a/b/c") };
                        all.listeners.insert(id, Listener { bind: Bind::default(), traffic: Traffic::Tcp(to) });
                    }
                }
                Act::Move(at) => {
                    let id = ListenerId::new(names[at]);
                    if !members.remove(&id) {
                        members.insert(id.clone());
                    }
                    moved.insert(id);
                }
            }
            let before = known.model.clone();
            let out = known.update(&all, &touched, &moved, |id| members.contains(id));
            prop_assert_eq!(&known.model, &subset(&all, &members));
            for (id, cluster) in before.clusters.iter().chain(&known.model.clusters) {
                let same = before.clusters.get(id) == Some(cluster) && known.model.clusters.get(id) == Some(cluster);
                prop_assert!(same || out.clusters.contains(id));
            }
            for id in before.secrets.keys().chain(known.model.secrets.keys()) {
                prop_assert!(before.secrets.get(id) == known.model.secrets.get(id) || out.secrets.contains(id));
            }
            for id in before.listeners.keys().chain(known.model.listeners.keys()) {
                let same = before.listeners.contains_key(id) == known.model.listeners.contains_key(id);
                prop_assert!(same || out.listeners.contains(id));
            }
        }
    }
}
