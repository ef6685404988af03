//! Limits of policies that a service counts for all Envoys.

use e2e::manifests::{documents, ingress, service};
use e2e::{Echo, Limiter, Mode, wait_until};

use super::{Site, answers, host, policy};

/// The policies by the name of their Ingress.
const POLICIES: [(&str, &str); 3] = [
    (
        "users",
        "globalRateLimit: { descriptors: [{ entries: [{ type: Header, key: user, header: x-user }, { type: ClientAddress }] }] }",
    ),
    ("plan", "globalRateLimit: { descriptors: [{ entries: [{ type: Value, key: plan, value: small }] }] }"),
    ("faulty", "globalRateLimit: { descriptors: [] }"),
];

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_by_the_service_of_the_settings() {
    let limiter = Limiter::start(4).await;
    let settings = format!(
        "rateLimit: {{ endpoint: '{}', domain: edge, descriptors: [{{ entries: [{{ requestHeader: {{ \
         headerName: x-settings, descriptorKey: settings }} }}] }}] }}\n\
         tenants: {{ globalRateLimits: true }}\n",
        limiter.address
    );
    let names = ["users", "plan", "faulty", "free"];
    let hosts = names.map(host);
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let ingresses = names.map(|name| ingress(name, &host(name), "echo", Some("cert")));
    let site = Site::open(Mode::Delta, &settings, &hosts, &ingresses).await;
    let echo = Echo::start().await;
    site.manifests.write("services.yaml", &service("echo", "", &[echo.address]));
    answers(&site.target(&host("free"), false), 200).await;
    site.manifests.write("policies.yaml", &documents(&POLICIES.map(|(name, spec)| policy(name, spec))));
    answers(&site.target(&host("faulty"), false), 403).await;
    let count = |descriptor: &str| limiter.counts().get(descriptor).copied().unwrap_or_default();
    let (users, plan) = ("edge namespace=default user=a remote_address=127.0.0.1", "edge namespace=default plan=small");
    for (name, descriptor) in [("users", users), ("plan", plan)] {
        for is_tls in [false, true] {
            let target = site.target(&host(name), is_tls).field("x-user", "a");
            wait_until("a request that is counted", async || {
                let before = count(descriptor);
                target.get("/").await.is_ok() && count(descriptor) > before
            })
            .await;
        }
        // Plain HTTP and TLS have one count.
        answers(&site.target(&host(name), false).field("x-user", "a"), 429).await;
        answers(&site.target(&host(name), true).field("x-user", "a"), 429).await;
    }
    // The descriptors of the settings are sent too, also for routes without a policy.
    for (name, status) in [("free", 200), ("plan", 429)] {
        let target = site.target(&host(name), false).field("x-settings", name);
        assert_eq!(target.get("/").await.expect("an answer").status, status);
        assert_eq!(count(&format!("edge settings={name}")), 1);
    }
}
