//! A12: connections with a maximum age. A real Envoy reconnects and loses no request.

use e2e::load::Plan;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Backend, Envoy, Load, Lockgate, Manifests, Mode, Source, Target, wait_until};

const HOST: &str = "shop.test";
/// The number of connections that end during a test.
const ENDS: usize = 5;

/// Formats a Service with its endpoints, and an Ingress with this Service as the backend.
fn shop(name: &str, backend: &Backend) -> String {
    documents(&[service(name, "", &[backend.address]), ingress("shop", HOST, name, None)])
}

/// Every connection receives a GOAWAY after one second. With `renaming`, the Service behind the route is renamed
/// repeatedly.
async fn connections_end_under_load(mode: Mode, renaming: bool) {
    let backend = Backend::start("a").await;
    let manifests = Manifests::new();
    manifests.write("class.yaml", &ingress_class());
    manifests.write("shop.yaml", &shop("shop-0", &backend));
    let source = Source::Manifests(manifests.path().into());
    let lockgate = Lockgate::start(&source, &["--xds-max-connection-age", "1s"]).await;
    let envoy = Envoy::start(&lockgate, mode).await;
    let target = Target::http(lockgate.http, HOST);
    wait_until("the shop to be served", async || target.backend("/").await.is_some()).await;
    let load = Load::start(Plan::new(target, "/")).await;
    let ended = || lockgate.log().matches("its connection is to be closed").count();
    let mut renames = 0;
    while ended() < ENDS {
        load.answers(100).await;
        if !renaming {
            continue;
        }
        renames += 1;
        let name = format!("shop-{renames}");
        manifests.write("shop.yaml", &shop(&name, &backend));
        envoy.wait_routed_to(&format!("default/{name}/http")).await;
    }
    let report = load.stop().await;
    println!("{} ends of a connection, {renames} renames, {mode:?}: {report}", ended());
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_connections_that_end_under_load_delta() {
    connections_end_under_load(Mode::Delta, true).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a12_connections_that_end_under_load_sotw() {
    connections_end_under_load(Mode::Sotw, true).await;
}
