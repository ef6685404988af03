//! A listener of a Gateway is added and removed. Connections of its other listeners are neither drained nor reset.

use e2e::manifests::documents;
use e2e::{Mode, Target, ports};

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
