//! A real Envoy that polls: `api_type: REST` for every type.

use std::net::SocketAddr;

use e2e::{Backend, Envoy, Fetch, Lockgate, Manifests, Source, Target, ports, resources, wait_until};

fn cluster(name: &str) -> String {
    resources::cluster(name, &Fetch::Rest.source()).to_string()
}

fn endpoints(name: &str, at: SocketAddr) -> String {
    resources::endpoints(name, &[at]).to_string()
}

fn routes(cluster: &str) -> String {
    resources::routes("web", &[resources::virtual_host("all", "*", cluster)]).to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envoy_that_polls_is_served() {
    let (first, second) = (Backend::start("first").await, Backend::start("second").await);
    let port = ports::free();
    let files = Manifests::new();
    files.write("cluster.json", &cluster("shop"));
    files.write("endpoints.json", &endpoints("shop", first.address));
    files.write("routes.json", &routes("shop"));
    let rds = resources::rds("web", &Fetch::Rest.source());
    files.write("web.json", &resources::listener("web", port, rds).to_string());
    let lockgate = Lockgate::start(&Source::Resources(files.path().into()), &[]).await;
    let admin = ports::free();
    let mut envoy = Envoy::launch_with(&Fetch::Rest.bootstrap(lockgate.xds, admin).to_string(), admin);
    envoy.wait_ready().await;
    let target = Target::http(port, "any.test");
    let served_by = async |name: &str| {
        wait_until(&format!("an answer from {name}"), async || target.backend("/").await.as_deref() == Some(name)).await
    };
    served_by("first").await;

    files.write("endpoints.json", &endpoints("shop", second.address));
    let time = served_by("second").await;
    println!("endpoints edited in a directory of resources, by REST: served after {} ms", time.as_millis());

    files.write("other.json", &format!("[{}, {}]", cluster("other"), endpoints("other", first.address)));
    wait_until("the new cluster", async || envoy.stat("cluster.other.membership_healthy").await == 1).await;
    files.write("routes.json", &routes("other"));
    served_by("first").await;

    // Polls without changes are delayed, and succeed. No failure is counted.
    wait_until("some polls", async || envoy.stat("cluster_manager.cds.update_attempt").await >= 5).await;
    let failures = envoy.stats("update_failure|update_rejected").await;
    assert!(failures.values().all(|count| *count == 0), "{failures:?}\n{:?}", envoy.warnings());
    files.remove("web.json");
    wait_until("no listener", async || target.get("/").await.is_err()).await;
}
