//! A model that contains every form of entries.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use crate::model::*;
use crate::settings::Settings;
use crate::translate::listeners::SharedListeners;

/// Returns the cluster of a port with the policy of its Service: `shop/cart/http`.
pub fn cluster_id(text: &str) -> ClusterId {
    let [namespace, service, port] = text.split('/').collect::<Vec<_>>().try_into().unwrap();
    let port = port.parse().map_or(PortRef::Name(port.into()), PortRef::Number);
    ServicePortId::new(ObjectKey::new(namespace, service), port).into()
}

/// Returns the key pair of a Secret in the namespace `shop`.
pub fn pair_id(name: &str) -> SecretId {
    SecretId::new(ObjectKey::new("shop", name), SecretPart::KeyPair)
}

fn origin() -> ObjectRef {
    ObjectRef::new("Ingress", "shop", "cart")
}

pub fn route(path: PathMatch, action: Action) -> Route {
    Route::new(path, action, origin())
}

/// Returns an action that forwards to one cluster without filters.
pub fn forward(cluster: &str) -> Action {
    let clusters = vec![WeightedCluster::new(cluster_id(cluster), 1)];
    let timeout = Some(Duration::from_secs(15));
    Action::Forward(Arc::new(Forward { clusters, timeout, websocket: true, ..Forward::default() }))
}

fn special() -> Action {
    let weighted = |name, weight| WeightedCluster::new(cluster_id(name), weight);
    Action::Forward(Arc::new(Forward {
        clusters: vec![weighted("shop/cart/http", 90), weighted("shop/api/https", 10), weighted("shop/ip/h2c", 0)],
        timeout: None,
        retry: Some(Box::new(Retry {
            on: "5xx".into(),
            retries: 2,
            per_try_timeout: Some(Duration::from_millis(250)),
            ..Retry::default()
        })),
        ..Forward::default()
    }))
}

fn hosts() -> BTreeMap<Host, VirtualHostRoutes> {
    let shop = vec![
        route(PathMatch::Exact("/cart".into()), special()),
        route(PathMatch::Regex("/items/[0-9]+".into()), forward("shop/tls/443")),
        route(PathMatch::SeparatedPrefix("/api".into()), Action::respond(503)),
        route(PathMatch::Prefix("/".into()), forward("shop/cart/http")),
    ];
    let wildcard = vec![
        route(PathMatch::Prefix("/".into()), forward("shop/cart/http")),
        route(PathMatch::Prefix("/".into()), Action::respond(404)),
    ];
    let redirects = RedirectStatus::ALL.map(|status| {
        let redirect = Redirect { port: Some(8443), ..Redirect::to_https(status) };
        route(PathMatch::Exact(format!("/{}", status.code()).into()), Action::Redirect(redirect))
    });
    BTreeMap::from([
        (Host::Exact("shop.example.com".into()), VirtualHostRoutes::new(shop)),
        (Host::Wildcard("example.com".into()), VirtualHostRoutes { one_label: 1, ..VirtualHostRoutes::new(wildcard) }),
        (Host::Exact("old.example.com".into()), VirtualHostRoutes::new(redirects)),
        (Host::Exact("empty.example.com".into()), VirtualHostRoutes::default()),
    ])
}

fn cluster(discovery: Discovery, protocol: UpstreamProtocol) -> Cluster {
    let limits = CircuitBreakers { max_requests: Some(9), per_host_max_connections: Some(3), ..Default::default() };
    let connect_timeout = Duration::from_secs(2);
    let origin = ObjectRef::new("Service", "shop", "cart");
    let pair = matches!(protocol, UpstreamProtocol::Tls).then(|| pair_id("cert"));
    let policy = TrafficPolicy {
        protocol,
        connect_timeout,
        limits,
        client_certificate: pair,
        verification: None,
        server_name: None,
        features: None,
    };
    Cluster { discovery, port: 80, policy, of_service: true, origin }
}

/// Returns a self-signed pair for `*.example.com`.
fn pair() -> KeyPair {
    let made = rcgen::generate_simple_self_signed(["*.example.com".to_owned()]).unwrap();
    KeyPair {
        certificate_chain: made.cert.pem().into_bytes(),
        private_key: made.signing_key.serialize_pem().into_bytes(),
        names: vec!["*.example.com".into()].into(),
        not_after: i64::MAX,
        is_ed25519: false,
    }
}

/// Returns the listeners that all Ingresses share, with the default settings and without hosts.
pub fn empty() -> Model {
    Model { listeners: SharedListeners::default().of_settings(&Settings::default()), ..Model::default() }
}

/// Returns the listeners that all Ingresses share, with these hosts.
pub fn with_hosts(http: BTreeMap<Host, VirtualHostRoutes>, https: BTreeMap<Host, TlsHost>) -> Model {
    let mut model = empty();
    *model.http_mut() = http;
    *model.https_mut() = https;
    model
}

/// Returns a server name behind TLS with these key pairs of the namespace `shop`, and with these hosts.
pub fn tls_host(secrets: &[&str], hosts: impl IntoIterator<Item = (Host, VirtualHostRoutes)>) -> TlsHost {
    TlsHost {
        secrets: secrets.iter().map(|name| pair_id(name)).collect(),
        minimum: TlsVersion::V1_2,
        maximum: TlsVersion::V1_3,
        clients: None,
        virtual_hosts: hosts.into_iter().collect(),
        others: Others::default(),
        misdirected: BTreeSet::new(),
        is_without_server_name: false,
        origins: vec![origin()],
    }
}

/// Access to the listeners that all Ingresses share.
pub trait Shared {
    /// Returns the hosts of the listener for plain HTTP.
    fn http(&self) -> &BTreeMap<Host, VirtualHostRoutes>;
    /// Returns the hosts of the listener for HTTP over TLS.
    fn https(&self) -> &BTreeMap<Host, TlsHost>;
    /// Returns the hosts of the listener for plain HTTP.
    fn http_mut(&mut self) -> &mut BTreeMap<Host, VirtualHostRoutes>;
    /// Returns the hosts of the listener for HTTP over TLS.
    fn https_mut(&mut self) -> &mut BTreeMap<Host, TlsHost>;
    /// Returns the server names whose connections are closed.
    fn refused(&self) -> &BTreeSet<Host>;
}

impl Shared for Model {
    fn http(&self) -> &BTreeMap<Host, VirtualHostRoutes> {
        &self.plain(ListenerId::HTTP).unwrap().hosts
    }

    fn https(&self) -> &BTreeMap<Host, TlsHost> {
        &self.tls(ListenerId::HTTPS).unwrap().hosts
    }

    fn http_mut(&mut self) -> &mut BTreeMap<Host, VirtualHostRoutes> {
        &mut self.plain_mut(ListenerId::HTTP).unwrap().hosts
    }

    fn https_mut(&mut self) -> &mut BTreeMap<Host, TlsHost> {
        &mut self.tls_mut(ListenerId::HTTPS).unwrap().hosts
    }

    fn refused(&self) -> &BTreeSet<Host> {
        &self.tls(ListenerId::HTTPS).unwrap().refused
    }
}

/// Applies `settings` to the listeners of `model`, as a translation does.
pub fn follow_settings(model: &mut Model, settings: &Settings) {
    for (id, listener) in SharedListeners::default().of_settings(settings) {
        let hosts = model.listeners.remove(id.as_str()).map(|old| old.traffic);
        let traffic = match (listener.traffic, hosts) {
            (Traffic::Http(new), Some(Traffic::Http(old))) => Traffic::Http(PlainHosts { hosts: old.hosts, ..new }),
            (Traffic::Https(new), Some(Traffic::Https(old))) => Traffic::Https(TlsHosts { hosts: old.hosts, ..new }),
            (new, _) => new,
        };
        model.listeners.insert(id, Listener { traffic, ..listener });
    }
}

/// Returns [`model`] with the listeners of these settings.
pub fn model_with(settings: &Settings) -> Model {
    let mut model = model();
    follow_settings(&mut model, settings);
    model
}

pub fn model() -> Model {
    static PAIR: std::sync::LazyLock<Arc<KeyPair>> = std::sync::LazyLock::new(|| Arc::new(pair()));
    let local: IpAddr = [127, 0, 0, 1].into();
    let name = |port| Discovery::Dns { hostname: "api.example.net".into(), port };
    let clusters = BTreeMap::from([
        (cluster_id("shop/cart/http"), cluster(Discovery::Eds, UpstreamProtocol::Http1)),
        (cluster_id("shop/api/https"), cluster(name(443), UpstreamProtocol::H2)),
        (cluster_id("shop/tls/443"), cluster(name(443), UpstreamProtocol::Tls)),
        (cluster_id("shop/ip/h2c"), cluster(Discovery::Static { address: local, port: 80 }, UpstreamProtocol::H2c)),
    ]);
    let endpoint = |address, health| Endpoint { address, port: 8080, health };
    let zones = Vec::from([
        ("".into(), vec![endpoint(local, Health::Healthy)]),
        ("a".into(), vec![endpoint("::1".parse().unwrap(), Health::Draining)]),
    ]);
    let endpoints =
        Endpoints { zones, health_check_port: None, origins: vec![ObjectRef::new("EndpointSlice", "shop", "cart-1")] };
    let (secret, scrapers) =
        (pair_id("cert"), SecretId::new(ObjectKey::new("shop", "scrapers"), SecretPart::Authorities));
    let authorities: Arc<str> = String::from_utf8_lossy(&PAIR.certificate_chain).into();
    let tls = |minimum, host: &Host, content| {
        (host.clone(), TlsHost { minimum, ..tls_host(&["cert"], [(host.clone(), content)]) })
    };
    let shop = hosts()[&Host::Exact("shop.example.com".into())].clone();
    let wildcard = hosts()[&Host::Wildcard("example.com".into())].clone();
    let rest = VirtualHostRoutes::new([route(PathMatch::root(), forward("shop/cart/http"))]);
    let https = BTreeMap::from([
        tls(TlsVersion::V1_2, &Host::Exact("shop.example.com".into()), shop),
        tls(TlsVersion::V1_3, &Host::Wildcard("example.com".into()), wildcard),
        tls(TlsVersion::V1_2, &Host::Any, rest),
    ]);
    Model {
        listeners: with_hosts(hosts(), https).listeners,
        clusters: clusters.into_iter().map(|(name, cluster)| (name, cluster.into())).collect(),
        endpoints: BTreeMap::from([(cluster_id("shop/cart/http").port, endpoints)]),
        installation: Some(1),
        stats_tls: Some(StatsTls { secret: secret.clone(), clients: Some(scrapers.clone()) }),
        secrets: BTreeMap::from([
            (
                secret,
                SdsSecret { material: Material::Pair(PAIR.clone()), origin: ObjectRef::new("Secret", "shop", "cert") },
            ),
            (
                scrapers,
                SdsSecret {
                    material: Material::Authorities(authorities),
                    origin: ObjectRef::new("Secret", "shop", "scrapers"),
                },
            ),
        ]),
    }
}
