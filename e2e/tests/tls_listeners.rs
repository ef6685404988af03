//! TLS listeners on several ports, with several hosts and key pairs behind a server name. The resources are built from
//! a model and served from a directory, so the test does not depend on a kind of object.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use e2e::certificates::Pair;
use e2e::{Authority, Envoy, Lockgate, Manifests, Mode, Source, Target, http3, ports, wait_until};
use lockgate_route::envoy;
use lockgate_route::model::{
    Action, Bind, Host, KeyPair, Listener, ListenerId, Material, Model, ObjectKey, Others, PathMatch, Route, SdsSecret,
    SecretId, SecretPart, ServedHosts, TlsHost, TlsHosts, TlsVersion, Traffic, VirtualHostRoutes,
};
use lockgate_route::settings::Settings;
use lockgate_xds::protobuf;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::Resource;

/// Parses a host: `*.shop.test`, `shop.test`, or `*`.
fn host(text: &str) -> Host {
    match text.strip_prefix("*.") {
        _ if text == "*" => Host::Any,
        Some(suffix) => Host::Wildcard(suffix.into()),
        None => Host::Exact(text.into()),
    }
}

fn secret_id(name: &str) -> SecretId {
    SecretId::new(ObjectKey::new("shop", name), SecretPart::KeyPair)
}

/// Returns a Secret with this name and key pair.
fn secret(name: &str, pair: &Pair) -> (SecretId, SdsSecret) {
    let pair = KeyPair {
        certificate_chain: pair.certificate.clone().into_bytes(),
        private_key: pair.key.clone().into_bytes(),
        names: vec![].into(),
        not_after: i64::MAX,
        is_ed25519: false,
    };
    (
        secret_id(name),
        SdsSecret { material: Material::Pair(pair.into()), origin: ObjectRef::new("Secret", "shop", name) },
    )
}

/// Returns virtual hosts with these response texts.
fn served(hosts: &[(&str, &str)]) -> ServedHosts {
    let one = |(name, text): &(&str, &str)| {
        let action = Action::Respond { status: 200, body: Some((*text).into()) };
        let route = Route::new(PathMatch::root(), action, ObjectRef::new("HTTPRoute", "shop", text));
        (host(name), VirtualHostRoutes::new([route]))
    };
    hosts.iter().map(one).collect()
}

/// Returns a server name with these key pairs and hosts.
fn server_name(secrets: &[&str], hosts: &[(&str, &str)]) -> TlsHost {
    TlsHost {
        secrets: secrets.iter().map(|name| secret_id(name)).collect(),
        minimum: TlsVersion::V1_2,
        maximum: TlsVersion::V1_3,
        clients: None,
        virtual_hosts: served(hosts),
        others: Others::Misdirected,
        is_without_server_name: false,
        misdirected: Default::default(),
        origins: vec![ObjectRef::new("Gateway", "shop", "web")],
    }
}

/// Returns a listener for these server names on `port`, with or without HTTP/3.
fn listener(port: u16, http3: Option<&str>, hosts: BTreeMap<Host, TlsHost>) -> Listener {
    let http3 = http3.map(ListenerId::new);
    let traffic = Traffic::Https(TlsHosts { hosts, http3, ..TlsHosts::default() });
    Listener { bind: Bind { address: Some(Ipv4Addr::LOCALHOST.into()), port }, traffic }
}

/// Writes all resources of `model` into `files`, in one step.
fn publish(files: &Manifests, model: &Model, settings: &Settings) {
    let json = |resource: Resource| {
        let kind = resource.kind();
        let mut fields = protobuf::to_json(kind.full_name(), &resource.message());
        fields["@type"] = kind.url().into();
        fields.to_string()
    };
    let all: Vec<String> = envoy::build(model, settings).into_iter().map(json).collect();
    files.write("all.yaml", &all.join("\n---\n"));
}

/// The first listener, and a second one with the same server name, another key pair, and other routes.
const FIRST: &str = "gateway/shop/web/443";
const SECOND: &str = "gateway/shop/web/8443";

#[tokio::test(flavor = "multi_thread")]
async fn each_listener_has_its_certificates_and_routes() {
    let authority = Authority::new();
    let pairs = [
        ("one", authority.issue(&["a.shop.test"])),
        ("other", authority.issue(&["a.shop.test"])),
        ("wild", authority.issue(&["*.shop.test"])),
        ("deep", authority.issue(&["*.deep.shop.test"])),
    ];
    let files = Manifests::new();
    let [first, second] = [(); 2].map(|()| ports::free());
    let mut settings = Settings::default();
    settings.http.http3.enabled = true;
    settings.listeners.stats.port = ports::free();
    let names = |secrets: &[&str], prefix: &str| {
        let text = |name: &str| format!("{prefix} {name}");
        let [a, b, wild] = ["a", "b", "wild"].map(text);
        BTreeMap::from([
            (host("a.shop.test"), server_name(&secrets[..1], &[("a.shop.test", &a)])),
            (host("*.shop.test"), server_name(&["wild", "deep"], &[("b.shop.test", &b), ("*.shop.test", &wild)])),
            (host("empty.shop.test"), server_name(&["wild"], &[])),
        ])
    };
    let mut model = Model {
        listeners: BTreeMap::from([
            (ListenerId::new(FIRST), listener(first, None, names(&["one"], "first"))),
            (ListenerId::new(SECOND), listener(second, Some("gateway/shop/web/8443/udp"), names(&["other"], "second"))),
        ]),
        secrets: pairs.iter().map(|(name, pair)| secret(name, pair)).collect(),
        ..Model::default()
    };
    publish(&files, &model, &settings);
    let lockgate = Lockgate::start(&Source::Resources(files.path().into()), &[]).await;
    let envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let target = |port, host: &str| Target::https(port, host, authority.der());
    let secret_of = |der: &[u8]| pairs.iter().find(|(_, pair)| *pair.der == *der).map_or("nobody's", |(name, _)| name);
    let answer = async |port, server_name: &str, host: &str| {
        let answer = target(port, host).opened_for(server_name).get("/").await.expect("an answer");
        (answer.status, answer.text())
    };
    for port in [first, second] {
        wait_until("both listeners", async || target(port, "a.shop.test").connect().await.is_ok()).await;
    }
    for (port, own, prefix) in [(first, "one", "first"), (second, "other", "second")] {
        for (name, secret) in [("a.shop.test", own), ("b.shop.test", "wild"), ("x.deep.shop.test", "deep")] {
            let connection = target(port, name).connect().await.expect("a connection");
            assert_eq!(secret_of(&connection.certificate.expect("a certificate")), secret, "{name} at {port}");
        }
        for (name, requested, expected) in [
            ("a.shop.test", "a.shop.test", "a"),
            ("b.shop.test", "b.shop.test", "b"),
            ("b.shop.test", "x.shop.test", "wild"),
            ("x.deep.shop.test", "x.deep.shop.test", "wild"),
        ] {
            let expected = (200, format!("{prefix} {expected}"));
            assert_eq!(answer(port, name, requested).await, expected, "{requested} at {name}");
        }
        // The handshake is complete.
        assert_eq!(answer(port, "empty.shop.test", "empty.shop.test").await.0, 404);
        // A host of another server name, and an unknown host.
        for (name, requested) in [("b.shop.test", "a.shop.test"), ("a.shop.test", "b.shop.test"), ("b.shop.test", "x")]
        {
            assert_eq!(answer(port, name, requested).await.0, 421, "{requested} at {name}");
        }
    }
    for (name, secret, text) in [
        ("a.shop.test", "other", "second a"),
        ("b.shop.test", "wild", "second b"),
        ("x.deep.shop.test", "deep", "second wild"),
    ] {
        let mut quic = http3::Connection::open(second, name, authority.der()).await.expect("a connection");
        assert_eq!(secret_of(&quic.certificate().expect("a certificate")), secret, "{name}");
        let answer = quic.get(name, "/").await.expect("an answer");
        assert_eq!((answer.status, answer.text()), (200, text.to_owned()), "{name}");
    }

    // Another host behind a server name changes no listener, so the connection stays open.
    let mut kept = target(first, "b.shop.test").connect().await.expect("a connection");
    if let Some(Traffic::Https(tls)) = model.listeners.get_mut(FIRST).map(|listener| &mut listener.traffic)
        && let Some(tls) = tls.hosts.get_mut(&host("*.shop.test"))
    {
        tls.virtual_hosts = served(&[("b.shop.test", "first b"), ("x.shop.test", "first x")]);
    }
    publish(&files, &model, &settings);
    wait_until("the new host", async || answer(first, "b.shop.test", "x.shop.test").await.1 == "first x").await;
    assert_eq!(answer(first, "b.shop.test", "y.shop.test").await.0, 404, "no virtual host matches");
    assert_eq!(answer(second, "b.shop.test", "x.shop.test").await, (200, "second wild".to_owned()));
    assert!(kept.usable().await);
    for counter in ["listener_modified", "listener_in_place_updated"] {
        assert_eq!(envoy.stat(&format!("listener_manager.{counter}")).await, 0, "{counter}");
    }
    assert!(envoy.warnings().iter().all(|line| line.contains("configured limit")), "{:?}", envoy.warnings());
}
