//! A listener of a Gateway is added and removed. Connections of its other listeners are neither drained nor reset.

use std::net::Ipv4Addr;

use e2e::manifests::{documents, service};
use e2e::{Authority, Mode, Target, ports, wait_everywhere};

use crate::explain::backend::AnyProtocol;

use super::site::{HOST, Listener, Site, assert_undisturbed, gateway, load, refuses, route, serves};

const CHANGES: usize = 10;

/// The listener has its own port.
async fn on_another_port(mode: Mode) {
    let site = Site::open(mode).await;
    let first = Listener::http("http", site.ports[0]);
    let second = Listener::http("second", ports::free());
    let target = Target::http(second.port, HOST);
    let others = [load(site.target(0, HOST)).await, load(site.target(1, HOST)).await, load(site.ingress()).await];
    for _ in 0..CHANGES {
        site.manifests.write("one.yaml", &gateway("one", &[first, second]));
        serves(&target).await;
        site.manifests.write("one.yaml", &gateway("one", &[first]));
        refuses(&target).await;
    }
    // Drained connections are closed after two seconds.
    others[0].answers(1000).await;
    for (which, others) in ["its other listener", "another Gateway", "the Ingress"].into_iter().zip(others) {
        assert_undisturbed(&format!("{CHANGES} x a listener on another port, {mode:?}: {which}"), others).await;
    }
}

/// The listener shares the port with others, for plain HTTP and for HTTPS.
async fn on_the_same_port(mode: Mode) {
    let site = Site::open(mode).await;
    let tls = ports::free();
    let base = [
        Listener::http("http", site.ports[0]),
        Listener::https("https", tls, HOST),
        Listener::https("wild", tls, "*.shop.test"),
    ];
    let added = [
        Listener { host: Some("new.test"), ..Listener::http("new", site.ports[0]) },
        Listener::https("deep", tls, "new.shop.test"),
    ];
    let routes = ["new.test", "new.shop.test", "a.shop.test"]
        .map(|host| route(&host.replace('.', "-"), &["one"], host, &[("b", 1)]));
    site.manifests.write("routes.yaml", &documents(&routes));
    site.manifests.write("one.yaml", &gateway("one", &base));
    let target = |host: &str| Target::https(tls, host, site.authority.der());
    let kept = [target(HOST), target("a.shop.test"), site.target(0, HOST), site.target(1, HOST), site.ingress()];
    let mut others = Vec::new();
    for target in &kept {
        serves(target).await;
        others.push(load(target.clone()).await);
    }
    let changes = site.listener_changes().await;
    for _ in 0..CHANGES {
        let all: Vec<Listener> = base.into_iter().chain(added).collect();
        site.manifests.write("one.yaml", &gateway("one", &all));
        changed(&site, "new.shop.test", true).await;
        for target in [target("new.shop.test"), site.target(0, "new.test")] {
            serves(&target).await;
        }
        site.manifests.write("one.yaml", &gateway("one", &base));
        changed(&site, "new.shop.test", false).await;
        // Afterwards, the listener `wild` serves the host.
        for target in [target("new.shop.test"), site.target(0, "new.test")] {
            serves(&target).await;
        }
    }
    assert!(site.listener_changes().await > changes, "the listener for HTTPS was changed");
    others[0].answers(1000).await;
    let names = ["HTTPS", "HTTPS, the wildcard", "HTTP", "another Gateway", "the Ingress"];
    for (which, others) in names.into_iter().zip(others) {
        assert_undisturbed(&format!("{CHANGES} x a listener on the same port, {mode:?}: {which}"), others).await;
    }
}

/// Waits until Envoy's listener has, or no longer has, a filter chain for a server name.
async fn changed(site: &Site, name: &str, present: bool) {
    e2e::wait_until(&format!("a filter chain for {name}: {present}"), async || {
        let listeners = site.envoy.get("/config_dump?resource=dynamic_listeners&name_regex=gateway.*").await.text();
        listeners.contains(&format!("\"{name}\"")) == present
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_on_another_port_comes_and_goes_delta() {
    on_another_port(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_on_another_port_comes_and_goes_sotw() {
    on_another_port(Mode::Sotw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_on_the_same_port_comes_and_goes_delta() {
    on_the_same_port(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_on_the_same_port_comes_and_goes_sotw() {
    on_the_same_port(Mode::Sotw).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_for_tls_on_the_port_of_https() {
    let site = Site::open(Mode::Delta).await;
    let (port, authority) = (ports::free(), Authority::new());
    let own = AnyProtocol::start("own", &authority.issue(&["pass.shop.test"])).await;
    let to_own = "apiVersion: gateway.networking.k8s.io/v1\nkind: TLSRoute\nmetadata: { name: own, namespace: default }\nspec:\n  \
                  parentRefs: [{ name: one }]\n  hostnames: [pass.shop.test]\n  rules: [{ backendRefs: [{ name: own, port: 80 }] }]\n";
    let endpoint = service("own", "", &[(Ipv4Addr::LOCALHOST, own.port).into()]);
    let wild = route("wild", &["one"], "*.shop.test", &[("b", 1)]);
    site.manifests.write("own.yaml", &documents(&[endpoint, to_own.to_owned(), wild]));
    let https = [Listener::https("https", port, HOST), Listener::https("wild", port, "*.shop.test")];
    let base = gateway("one", &[&[Listener::http("http", site.ports[0])], &https[..]].concat());
    let tls = format!(
        "    - {{ name: tls, port: {port}, protocol: TLS, hostname: pass.shop.test, tls: {{ mode: Passthrough }} }}\n"
    );
    site.manifests.write("one.yaml", &base);
    let mut others = Vec::new();
    for host in [HOST, "a.shop.test"] {
        let target = Target::https(port, host, site.authority.der());
        serves(&target).await;
        others.push(load(target).await);
    }
    let passed = Target::https(port, "pass.shop.test", authority.der());
    let decrypted = Target::https(port, "pass.shop.test", site.authority.der());
    for _ in 0..CHANGES {
        site.manifests.write("one.yaml", &format!("{base}{tls}"));
        wait_everywhere("the backend's certificate", async || passed.backend("/").await.as_deref() == Some("own"))
            .await;
        site.manifests.write("one.yaml", &base);
        wait_everywhere("the wildcard", async || decrypted.backend("/").await.as_deref() == Some("b")).await;
    }
    others[0].answers(1000).await;
    for others in others {
        assert_undisturbed(&format!("{CHANGES} x a listener for TLS on the port"), others).await;
    }
}
