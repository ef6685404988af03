//! The start of a controller. A restarted controller sends nothing to an Envoy that has everything. One large file
//! takes no more memory than many small ones.

use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_until};

const HOSTS: usize = 1000;

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_hosts_are_not_sent_again() {
    let (backend, manifests) = (Backend::start("a").await, Manifests::new());
    let host = |name: &str| {
        documents(&[service(name, "", &[backend.address]), ingress(name, &format!("{name}.test"), name, None)])
    };
    let hosts: Vec<String> = (0..HOSTS).map(|i| host(&format!("app-{i}"))).collect();
    manifests.write("class.yaml", &ingress_class());
    manifests.write("hosts.yaml", &documents(&hosts));
    let mut lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let served = async |lockgate: &Lockgate, name: &str| {
        let target = Target::http(lockgate.http, &format!("{name}.test"));
        wait_until(name, async || target.backend("/").await.as_deref() == Some("a")).await;
    };
    served(&lockgate, &format!("app-{}", HOSTS - 1)).await;
    let pushed = async |lockgate: &Lockgate, what: &str| -> f64 {
        let prefix = format!("lockgate_xds_pushed_{what}_total");
        lockgate.metrics().await.iter().filter(|(name, _)| name.starts_with(&prefix)).map(|(_, value)| value).sum()
    };
    let all = pushed(&lockgate, "resources").await;
    assert!(all >= 2.0 * HOSTS as f64, "{all} resources sent at first");

    lockgate.restart();
    lockgate.wait_ready().await;
    wait_until("Envoy's stream", async || lockgate.metric("lockgate_xds_streams", &[]).await > 0.0).await;
    // A new host. When it is served, all earlier responses have arrived too.
    manifests.write("last.yaml", &host("last"));
    served(&lockgate, "last").await;
    let (resources, bytes) = (pushed(&lockgate, "resources").await, pushed(&lockgate, "bytes").await);
    println!("sent at first: {all} resources; after a restart, and one more host: {resources} in {bytes} bytes");
    // Its endpoints are sent before, and again if Envoy requested them before they arrived.
    let of =
        async |kind: &str| lockgate.metric("lockgate_xds_pushed_resources_total", &[&format!("type=\"{kind}\"")]).await;
    let (cluster, endpoints, host) =
        (of("Cluster").await, of("ClusterLoadAssignment").await, of("ScopedRouteConfiguration").await);
    assert_eq!((cluster, host), (1.0, 1.0));
    assert!([1.0, 2.0].contains(&endpoints), "{endpoints} times its endpoints");
    assert_eq!(resources, cluster + endpoints + host, "nothing else");
    assert!(bytes < 2048.0, "{bytes} bytes");
    assert_eq!(envoy.stat("listener_manager.listener_modified").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_large_file_takes_no_more_memory_than_many_small_ones() {
    const INGRESSES: usize = 2000;
    let peak = async |files: usize| {
        let manifests = Manifests::new();
        manifests.write("class.yaml", &ingress_class());
        let objects: Vec<String> = (0..INGRESSES)
            .map(|i| {
                let name = format!("app-{i}");
                let addresses = [std::net::SocketAddr::from(([10, 1, 2, 3], 80)), ([10, 1, 2, 4], 80).into()];
                documents(&[service(&name, "", &addresses), ingress(&name, &format!("{name}.test"), &name, None)])
            })
            .collect();
        for (number, part) in objects.chunks(INGRESSES / files).enumerate() {
            manifests.write(&format!("part-{number}.yaml"), &documents(part));
        }
        let mut lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
        assert_eq!(lockgate.metric("lockgate_objects", &["kind=\"Ingress\""]).await, INGRESSES as f64);
        lockgate.process().peak_memory()
    };
    let (many, one) = (peak(100).await, peak(1).await);
    println!(
        "peak of memory with {INGRESSES} Ingresses: {} KiB from 100 files, {} KiB from one",
        many / 1024,
        one / 1024
    );
    assert!(one < many + many / 4, "{one} bytes from one file, {many} from many");
}
