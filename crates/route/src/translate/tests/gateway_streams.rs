//! TCPRoutes, UDPRoutes, and TLSRoutes: attachment, destinations, conditions, and a real Envoy.

use super::gateway::{conditions, report, translated, world_of};
use crate::envoy::build;
use crate::model::{Destination, Host, TlsHosts, Traffic, UpstreamProtocol};
use crate::objects::{Kind, Object, Transport};
use crate::settings::Settings;
use crate::testing::envoy::{standalone, validate};
use crate::testing::gateway::*;
use crate::testing::objects::{secret, service};
use crate::translate::Translator;

/// Returns a destination as text: `shop/a/http*3 refused*1`.
fn text(to: &Destination) -> String {
    let clusters = to.clusters.iter().map(|one| format!("{}*{}", one.cluster, one.weight));
    let refused = (to.refused > 0).then(|| format!("refused*{}", to.refused));
    clusters.chain(refused).collect::<Vec<_>>().join(" ")
}

/// Returns the destinations of a listener: `host: destination`, and the key pair if TLS is terminated.
fn of_listener(translator: &Translator, port: &str) -> Vec<String> {
    match &translator.model().listeners[format!("gateway/shop/public/{port}").as_str()].traffic {
        Traffic::Tcp(to) | Traffic::Udp(to) => vec![text(to)],
        Traffic::Tls(hosts) | Traffic::Https(TlsHosts { connections: hosts, .. }) => {
            let pairs = hosts.values().map(|one| one.terminated.as_ref().map(|tls| tls.secrets[0].to_string()));
            let both = hosts.iter().zip(pairs);
            both.map(|((host, one), pair)| {
                let pair = pair.map(|pair| format!(" by {pair}")).unwrap_or_default();
                format!("{host}: {}{pair}", text(&one.to))
            })
            .collect()
        }
        other => panic!("{other:?}"),
    }
}

/// The Gateway `public`, its Service, and two key pairs.
fn world(public: GatewayBuilder, others: impl IntoIterator<Item = Object>) -> Translator {
    let tcp = gateway_service("public", &[(443, 10_000), (53, 10_001), (80, 10_002)]);
    let of_gateway = with_udp_ports(tcp, &[(53, 10_003)]);
    let secrets = ["good", "other"].map(|name| Object::from(secret(name, &["x.test"])));
    translated(&world_of([public.into(), of_gateway].into_iter().chain(secrets).chain(others)))
}

/// Validates all resources with a real Envoy. Only the matcher of UDP may cause a warning.
fn validated(translator: &Translator) {
    let settings = Settings::default();
    match validate(&standalone(&build(translator.model(), &settings), &settings)) {
        Ok(()) => {}
        Err(log) => assert!(log.lines().all(|line| line.contains("UdpProxyConfig.matcher")), "{log}"),
    }
}

fn kinds(translator: &Translator, listener: usize) -> Vec<String> {
    report(translator).listeners[listener].supported_kinds.iter().map(|kind| kind.kind.clone()).collect()
}

#[test]
fn the_oldest_tcp_route_receives_all_connections() {
    let public = gateway("public").listener("tcp", 80, "TCP");
    let old = tcp_route("old").created(1).parent("public").backend("a:80").weight(7).backend("b:80").weight(3);
    let old = old.backend("c:80").weight(0);
    let young = tcp_route("young").created(2).parent("public").section("tcp").backend("c:80");
    let translator = world(public.clone(), [young.clone().into(), old.into()]);
    assert_eq!(of_listener(&translator, "80"), ["shop/a/http*7 shop/b/http*3"]);
    assert_eq!(report(&translator).listeners[0].attached_routes, 2);
    assert_eq!(kinds(&translator, 0), ["TCPRoute"]);
    for name in ["old", "young"] {
        let expected = ["0: Accepted=True Accepted", "0: ResolvedRefs=True ResolvedRefs"];
        assert_eq!(conditions(&translator, Kind::TCP_ROUTE, name), expected, "{name}");
    }
    let id = |name: &str| crate::objects::ObjectId::new(Kind::TCP_ROUTE, "shop", name);
    assert!(translator.has_lost(&id("young")) && !translator.has_lost(&id("old")));
    validated(&translator);
    assert_eq!(of_listener(&world(public.clone(), [young.into()]), "80"), ["shop/c/http*1"]);
    let without_routes = world(public, []);
    assert_eq!(of_listener(&without_routes, "80"), [""]);
    assert!(report(&without_routes).listeners[0].serves);
    validated(&without_routes);
}

#[test]
fn tcp_and_udp_share_a_port() {
    let public = gateway("public").listener("tcp", 53, "TCP").listener("udp", 53, "UDP");
    let dns = with_udp_port(service("dns").port("dns-tcp", 53), "dns", 53);
    let over_tcp = tcp_route("dns").parent("public").backend("dns:53");
    let over_udp = udp_route("dns").parent("public").backend("dns:53").weight(2).backend("gone:53");
    let translator = world(public, [dns, over_tcp.into(), over_udp.into()]);
    assert_eq!(of_listener(&translator, "53"), ["shop/dns/dns-tcp*1"]);
    assert_eq!(of_listener(&translator, "53/udp"), ["shop/dns/dns*2 refused*1"]);
    let port = |id: &str| translator.model().listeners[id].bind.port;
    assert_eq!((port("gateway/shop/public/53"), port("gateway/shop/public/53/udp")), (10_001, 10_003));
    assert_eq!(report(&translator).ports, [(Transport::Tcp, 53), (Transport::Udp, 53)]);
    assert_eq!(conditions(&translator, Kind::UDP_ROUTE, "dns")[1], "0: ResolvedRefs=False BackendNotFound");
    assert_eq!(kinds(&translator, 1), ["UDPRoute"]);
    assert_eq!(translator.model().endpoints.len(), 2);
    validated(&translator);
}

#[test]
fn a_port_of_another_protocol_is_not_a_backend() {
    let public = gateway("public").listener("tcp", 53, "TCP").listener("udp", 53, "UDP");
    let dns = with_udp_port(service("dns").port("http", 80), "dns", 53);
    // A Service whose ports have no names has one port in the API, but not in manifests.
    let nameless = with_udp_port(service("nameless").port("", 53), "", 53);
    let tcp = tcp_route("tcp").parent("public").backend("dns:53");
    let udp = udp_route("udp").parent("public").backend("dns:80").backend("nameless:53");
    let translator = world(public, [dns, nameless, tcp.into(), udp.into()]);
    assert_eq!(of_listener(&translator, "53"), ["refused*1"]);
    assert_eq!(of_listener(&translator, "53/udp"), ["refused*2"]);
    for (kind, name) in [(Kind::TCP_ROUTE, "tcp"), (Kind::UDP_ROUTE, "udp")] {
        assert_eq!(conditions(&translator, kind, name)[1], "0: ResolvedRefs=False UnsupportedProtocol");
    }
}

#[test]
fn server_names_select_the_mode_and_the_destination() {
    let public = gateway("public").listener("end", 443, "TLS").hostname("end.test").certificate("good");
    let public = public.listener("pass", 443, "TLS").hostname("*.test").tls_mode("Passthrough");
    let public = public.listener("empty", 443, "TLS").hostname("empty.test").tls_mode("Passthrough");
    let end = tls_route("end").parent("public").host("end.test").backend("a:80");
    let pass = tls_route("pass").parent("public").section("pass").host("*.test").host("deep.sub.test").backend("b:80");
    let elsewhere = tls_route("elsewhere").parent("public").host("x.other").backend("b:80");
    let young = tls_route("young").created(9).parent("public").host("end.test").host("y.test").backend("c:80");
    let translator = world(public, [end.into(), pass.into(), elsewhere.into(), young.into()]);
    assert_eq!(
        of_listener(&translator, "443"),
        [
            "deep.sub.test: shop/b/http*1",
            "empty.test: ",
            "end.test: shop/a/http*1 by shop/good",
            "y.test: shop/c/http*1",
            "*.test: shop/b/http*1",
        ]
    );
    let found = conditions(&translator, Kind::TLS_ROUTE, "elsewhere");
    assert_eq!(found[0], "0: Accepted=False NoMatchingListenerHostname");
    let attached = report(&translator).listeners.iter().map(|one| one.attached_routes).collect::<Vec<_>>();
    assert_eq!(attached, [2, 3, 0], "one of them has no host for the less specific listener");
    assert_eq!(
        (kinds(&translator, 0), kinds(&translator, 1)),
        (vec!["TLSRoute".into(), "TCPRoute".into()], vec!["TLSRoute".into()])
    );
    assert_eq!(translator.model().secrets.len(), 1);
    validated(&translator);
}

#[test]
fn https_and_tls_share_a_port_by_server_name() {
    let of = |pass: &str, https: &str| {
        let public = gateway("public").listener("pass", 443, "TLS").hostname(pass).tls_mode("Passthrough");
        public.listener("https", 443, "HTTPS").hostname(https).certificate("good")
    };
    let routes = || {
        let tls = tls_route("tls").parent("public").host("*.test").backend("b:80");
        let http = http_route("http").parent("public").host("*.test").host("web.test").rule("/", "a:80");
        [tls.into(), http.into()]
    };
    let hosts = |translator: &Translator| -> Vec<String> {
        let tls = translator.model().tls("gateway/shop/public/443").unwrap();
        tls.hosts.values().flat_map(|tls| tls.virtual_hosts.keys().map(ToString::to_string)).collect()
    };
    let named = world(of("pass.test", "*.test"), routes());
    assert_eq!(of_listener(&named, "443"), ["pass.test: shop/b/http*1"]);
    assert_eq!(hosts(&named), ["web.test", "*.test"]);
    let tls = named.model().tls("gateway/shop/public/443").unwrap();
    assert_eq!(tls.hosts[&Host::Wildcard("test".into())].misdirected, [].into());
    validated(&named);
    // The more specific server name is selected, whatever its protocol.
    let below = world(of("*.test", "web.test"), routes());
    assert_eq!(of_listener(&below, "443"), ["*.test: shop/b/http*1"]);
    assert_eq!(hosts(&below), ["web.test"]);
    let tls = below.model().tls("gateway/shop/public/443").unwrap();
    assert_eq!(tls.hosts[&Host::Exact("web.test".into())].misdirected, [Host::Wildcard("test".into())].into());
    for translator in [named, below] {
        let found = conditions(&translator, Kind::GATEWAY, "public");
        assert!(found.contains(&"Accepted=True Accepted".to_owned()), "{found:#?}");
        let attached = report(&translator).listeners.iter().map(|one| one.attached_routes).collect::<Vec<_>>();
        assert_eq!(attached, [1, 1]);
    }
    // Without routes, connections for the server name are closed instead of being taken by the wildcard.
    let [_, http] = routes();
    assert_eq!(of_listener(&world(of("pass.test", "*.test"), [http]), "443"), ["pass.test: "]);
}

#[test]
fn a_tcp_route_receives_all_terminated_connections_of_its_listener() {
    let public = gateway("public").listener("tls", 443, "TLS").certificate("good").certificate("other");
    let tcp = tcp_route("tcp").created(1).parent("public").backend("a:80");
    let tls = tls_route("tls").created(2).parent("public").host("x.test").backend("b:80");
    let translator = world(public, [tcp.into(), tls.into()]);
    let expected = ["x.test: shop/b/http*1 by shop/good", "*: shop/a/http*1 by shop/good"];
    assert_eq!(of_listener(&translator, "443"), expected);
    assert_eq!(translator.model().secrets.len(), 2);
    validated(&translator);
}

#[test]
fn no_connection_or_datagram_leads_to_the_service_of_a_gateway() {
    let public = gateway("public").listener("tcp", 80, "TCP").listener("udp", 53, "UDP");
    let tcp = tcp_route("tcp").parent("public").backend("public-lockgate:80");
    let udp = udp_route("udp").parent("public").backend("public-lockgate:80");
    let denied = world(public, [tcp.into(), udp.into()]);
    assert_eq!(of_listener(&denied, "80"), ["refused*1"]);
    assert_eq!(conditions(&denied, Kind::TCP_ROUTE, "tcp")[1], "0: ResolvedRefs=False RefNotPermitted");
    assert!(denied.model().clusters.is_empty());
}

#[test]
fn backends_that_cannot_be_used_refuse_their_share() {
    let public = gateway("public").listener("tls", 443, "TLS").tls_mode("Passthrough").listener("tcp", 80, "TCP");
    let there: Object = service("other/d").port("http", 80).into();
    let tls = tls_route("tls").parent("public").host("x.test").backend("gone:80");
    let tcp = tcp_route("tcp").parent("public").backend("a:80").weight(3).backend("other/d:80");
    let routes = |grant: Option<ReferenceGrantBuilder>| {
        let grant = grant.map(Object::from);
        world(public.clone(), [there.clone(), tls.clone().into(), tcp.clone().into()].into_iter().chain(grant))
    };
    let denied = routes(Some(reference_grant("other/grant").from("TLSRoute", "shop").to("Service", "")));
    assert_eq!(of_listener(&denied, "443"), ["x.test: refused*1", "*: "]);
    assert_eq!(of_listener(&denied, "80"), ["shop/a/http*3 refused*1"]);
    assert_eq!(conditions(&denied, Kind::TLS_ROUTE, "tls")[1], "0: ResolvedRefs=False BackendNotFound");
    assert_eq!(conditions(&denied, Kind::TCP_ROUTE, "tcp")[1], "0: ResolvedRefs=False RefNotPermitted");
    validated(&denied);
    let granted = routes(Some(reference_grant("other/grant").from("TCPRoute", "shop").to("Service", "d")));
    assert_eq!(of_listener(&granted, "80"), ["shop/a/http*3 other/d/http*1"]);
}

#[test]
fn routes_attach_to_listeners_of_their_protocol() {
    let public = gateway("public").listener("http", 80, "HTTP").listener("tls", 443, "TLS").tls_mode("Passthrough");
    let route = |kind, section: &str| stream_route(kind, section).parent("public").section(section).backend("a:80");
    let routes = [
        route(Kind::TCP_ROUTE, "http"),
        route(Kind::UDP_ROUTE, "tls"),
        route(Kind::TLS_ROUTE, "http").host("x.test"),
        route(Kind::TCP_ROUTE, "tls"),
    ];
    let translator = world(public, routes.map(Object::from));
    for (kind, name) in
        [(Kind::TCP_ROUTE, "http"), (Kind::UDP_ROUTE, "tls"), (Kind::TLS_ROUTE, "http"), (Kind::TCP_ROUTE, "tls")]
    {
        assert_eq!(
            conditions(&translator, kind, name)[0],
            "0: Accepted=False NotAllowedByListeners",
            "{kind:?} {name}"
        );
    }
    assert!(report(&translator).listeners.iter().all(|listener| listener.attached_routes == 0));
}

#[test]
fn envoy_starts_no_tls_inside_a_connection() {
    let public = gateway("public").listener("tls", 443, "TLS").tls_mode("Passthrough");
    let backend = service("d").port("https", 443).app_protocol("https");
    let route = tls_route("tls").parent("public").host("x.test").backend("d:443");
    let translator = world(public, [backend.into(), route.into()]);
    let clusters: Vec<_> = translator.model().clusters.values().map(|cluster| cluster.policy.protocol).collect();
    assert_eq!(clusters, [UpstreamProtocol::Http1]);
    let Traffic::Tls(hosts) = &translator.model().listeners["gateway/shop/public/443"].traffic else { unreachable!() };
    let cluster = &hosts[&Host::Exact("x.test".into())].to.clusters[0].cluster;
    assert!(cluster.policy.is_some(), "{cluster}");
}

#[test]
fn listeners_with_other_protocols_conflict() {
    let public = gateway("public").listener("tls", 443, "TLS").hostname("a.test").tls_mode("Passthrough");
    let public = public.listener("https", 443, "HTTPS").hostname("a.test").certificate("good");
    let public = public
        .listener("plain", 443, "HTTP")
        .hostname("c.test")
        .listener("tcp", 80, "TCP")
        .listener("again", 80, "TCP")
        .listener("http", 80, "HTTP");
    let public = public.listener("bare", 53, "TLS").listener("mode", 54, "TLS").tls_mode("Open");
    let translator = world(public, []);
    let found = conditions(&translator, Kind::GATEWAY, "public");
    for expected in [
        "tls: Accepted=True Accepted",
        "https: Accepted=False ProtocolConflict",
        "plain: Accepted=False ProtocolConflict",
        "tcp: Accepted=True Accepted",
        "again: Accepted=False HostnameConflict",
        "http: Conflicted=True ProtocolConflict",
        "bare: ResolvedRefs=False InvalidCertificateRef",
        "mode: Accepted=False UnsupportedValue",
    ] {
        assert!(found.iter().any(|one| one == expected), "{expected}: {found:#?}");
    }
    assert_eq!(report(&translator).ports, [(Transport::Tcp, 80), (Transport::Tcp, 443)]);
}
