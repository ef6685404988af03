//! The HTTPRoutes of docs/tasks/canary.md, as the page shows them.

use e2e::manifests::{documents, service};
use e2e::pages::{self, Block};
use e2e::{Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, ports, wait_everywhere, wait_until};

const PAGE: &str = "docs/tasks/canary.md";
/// The mark of the blocks.
const MARK: &str = "tested by documentation::canary::requests_are_divided_and_copied_as_on_the_page";
const HOST: &str = "shop.example.com";

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_divided_and_copied_as_on_the_page() {
    let [first, second] = [Backend::start("v1").await, Backend::start("v2").await];
    let port = ports::free();
    let gateway = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{ name: lockgate }}\n\
         spec: {{ controllerName: lockgate.dev/gateway-controller }}\n---\n\
         apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: public, namespace: infra }}\n\
         spec:\n  gatewayClassName: lockgate\n  listeners:\n    - {{ name: http, port: {port}, protocol: HTTP, \
         allowedRoutes: {{ namespaces: {{ from: All }} }} }}\n"
    );
    let manifests = Manifests::new();
    let services = [service("shop-v1", "", &[first.address]), service("shop-v2", "", &[second.address])];
    manifests.write("base.yaml", &documents(&[&[gateway][..], &services].concat()));
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let text = std::fs::read_to_string(pages::file(PAGE)).expect("the page");
    let blocks: Vec<Block> =
        pages::blocks(PAGE, &text).into_iter().filter(|block| block.marks.iter().any(|mark| mark == MARK)).collect();
    let [weights, copies] = &blocks[..] else { panic!("{} blocks", blocks.len()) };
    let target = Target::http(port, HOST);

    manifests.write("route.yaml", &weights.text);
    let tester = target.clone().field("x-canary", "true");
    wait_everywhere("the new version", async || tester.backend("/").await.as_deref() == Some("v2")).await;
    let (mut of_first, mut of_second) = (0, 0);
    for _ in 0..1000 {
        match target.backend("/").await.as_deref() {
            Some("v1") => of_first += 1,
            Some("v2") => of_second += 1,
            other => panic!("{other:?}"),
        }
    }
    println!("{of_first} requests to the old version, and {of_second} to the new one");
    // Six standard deviations from 50.
    assert!((9..=91).contains(&of_second), "{of_second}");

    manifests.write("route.yaml", &copies.text);
    wait_everywhere("the old version", async || tester.backend("/").await.as_deref() == Some("v1")).await;
    let before = second.requests();
    wait_until("a copy", async || {
        assert_eq!(target.backend("/").await.as_deref(), Some("v1"), "the client receives the answer of a copy");
        second.requests() > before
    })
    .await;
}
