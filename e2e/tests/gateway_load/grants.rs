//! A ReferenceGrant is revoked and granted again.

use e2e::Mode;
use e2e::manifests::{documents, service};

use super::site::{HOST, Site, answers, assert_no_failure, assert_undisturbed, load, route, serves};

const REVOCATIONS: usize = 10;
const GRANTED: &str = "granted.test";
/// Permits HTTPRoutes of `default` to reference all Services of `pay`.
const GRANT: &str = "apiVersion: gateway.networking.k8s.io/v1
kind: ReferenceGrant
metadata: { name: shop, namespace: pay }
spec:
  from: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, namespace: default }]
  to: [{ group: '', kind: Service }]
";

async fn revocations(mode: Mode) {
    let site = Site::open(mode).await;
    let pay = service("pay", "", &[site.backends[1].address]).replace("namespace: default", "namespace: pay");
    site.manifests.write("pay.yaml", &documents(&[pay, route("granted", &["one"], GRANTED, &[("pay/pay", 1)])]));
    let target = site.target(0, GRANTED);
    answers(&target, 500).await;
    let others = [load(site.target(0, HOST)).await, load(site.target(1, HOST)).await, load(site.ingress()).await];
    for _ in 0..REVOCATIONS {
        site.manifests.write("grant.yaml", GRANT);
        serves(&target).await;
        let clients = load(target.clone()).await;
        clients.answers(100).await;
        assert_no_failure("the clients of the granted route", clients).await;
        let clients = load(target.clone()).await;
        site.manifests.remove("grant.yaml");
        answers(&target, 500).await;
        let before = site.backends[1].requests();
        clients.failures(100).await;
        let report = clients.stop().await;
        assert!(report.failures.keys().all(|what| what.starts_with("status 500")), "{report}");
        assert_eq!(site.backends[1].requests(), before, "no request passes a revoked grant");
    }
    for (which, others) in ["Gateway one", "Gateway two", "the Ingress"].into_iter().zip(others) {
        assert_undisturbed(&format!("{REVOCATIONS} revocations of a grant, {mode:?}: {which}"), others).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_revoked_delta() {
    revocations(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_revoked_sotw() {
    revocations(Mode::Sotw).await;
}
