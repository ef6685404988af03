//! Address families: a cluster with IPv4, with IPv6, or with both. `make e2e` runs this spec in a lab of each kind.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use e2e::lab::echo::Echoed;
use e2e::lab::{Installation, addresses_in, echo};
use e2e::{Lab, Target};

use super::first::ingress;

/// A replica needs 30 s to give up on other replicas that do not listen.
const SOON: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread")]
async fn all_is_served_and_found_by_each_family_of_addresses() {
    let lab = Lab::alone().await;
    let flags = [
        "--set=controller.replicas=2",
        "--set=ingressClass.name=families",
        "--set=settings.ingress.controllerName=families.test/lockgate",
    ];
    // helm waits until all pods are ready. Probes use the first address of each pod.
    let lockgate = Installation::new(&lab, "families", "families", &flags).await;
    let service = lab.get("/api/v1/namespaces/families/services/families-lockgate-envoy").await;
    let addresses = addresses_in(&service);
    let families = std::env::var("FAMILIES").unwrap_or_else(|_| "ipv4".into());
    let expected = if families == "dual" { 2 } else { 1 };
    assert_eq!(addresses.len(), expected, "{families}: {addresses:?}");
    assert_eq!(addresses.iter().any(IpAddr::is_ipv4), families != "ipv6");

    let shop = lab.namespace("families").await;
    shop.apply(&echo("echo").yaml()).await;
    shop.endpoints("echo", 1).await;
    let start = Instant::now();
    shop.apply(
        &ingress("echo", "families.test", "echo").replace("ingressClassName: lockgate", "ingressClassName: families"),
    )
    .await;
    shop.ingress_address("echo").await;
    assert!(start.elapsed() < SOON, "the address of the Ingress took {:?}", start.elapsed());
    println!("{families}: the address of the Ingress after {:.1} s", start.elapsed().as_secs_f64());
    assert_eq!(addresses_in(&shop.ingress("echo").await), addresses);

    for address in &addresses {
        let target = Target::http(80, "families.test").at(*address);
        let answer = target.get("/").await.expect("an answer");
        let echoed = Echoed::of(&answer).expect("an echo server's answer");
        // The backend sees the address of the client in its own family, not as `::ffff:10.244.0.1`.
        let client = echoed.headers["X-Forwarded-For"][0].as_str().unwrap_or_default().parse::<IpAddr>();
        let client = client.expect("the client's address");
        assert_eq!((client.is_ipv4(), client.to_canonical()), (address.is_ipv4(), client), "by {address}");
    }
    for pod in lockgate.controllers().await {
        let admin = Target::http(18001, "lockgate").at(pod.ip.expect("an address"));
        assert_eq!(admin.get("/readyz").await.expect("an answer").status, 200);
        assert_eq!(admin.get("/debug/").await.expect("an answer").status, 403, "it is for loopback alone");
    }
    drop(shop);
    lockgate.uninstall().await;
}
