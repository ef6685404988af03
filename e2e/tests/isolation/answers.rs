//! A server of a tenant that Envoy itself asks answers without an end: an authorization server, or a server of keys. Envoy holds complete
//! answers in memory.

use e2e::endless::{Endless, large};
use e2e::manifests::{documents, ingress, service};
use e2e::{Target, wait_until};

use super::site::{By, Site};

/// The number of hosts with keys of the endless server.
const HOSTS: usize = 20;
/// The number of requests that ask the endless server at the same time.
const REQUESTS: usize = 20;
/// The memory that the attack may take of Envoy in bytes. Envoy's own limits permit 32 MB for each answer over HTTP, and any size over gRPC.
const ALLOWED: u64 = 96 << 20;

fn policy(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
         targetRefs: [{{ group: networking.k8s.io, kind: Ingress, name: {name} }}]\n  {spec}\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_answer_takes_little_memory() {
    let (endless, large) = (Endless::start().await, large().await);
    // No limit of the tenant's Services holds the requests back.
    let limits = "projectcontour.io/max-connections: '100000', projectcontour.io/max-requests: '100000', \
                  projectcontour.io/max-pending-requests: '100000'";
    let mut objects = vec![service("endless", limits, &[endless.address]), service("large", limits, &[large.address])];
    let asked = [
        (
            "over-http",
            "externalAuthorization: { backendRef: { name: endless, port: 80 }, protocol: http, timeout: 10s }",
        ),
        ("over-grpc", "externalAuthorization: { backendRef: { name: large, port: 80 }, timeout: 10s }"),
    ];
    for (name, spec) in asked {
        objects.extend([ingress(name, &format!("{name}.test"), "shop", None), policy(name, spec)]);
    }
    let mut site = Site::with_objects("", &objects).await;
    let before = site.envoy.process().memory();
    let keys = "jwt: { providers: [{ issuer: a, jwks: { remote: { uri: 'http://keys.test/', backendRef: { name: endless, port: 80 } } } }] }";
    let hosts = (0..HOSTS).flat_map(|i| {
        let name = format!("keys-{i}");
        [ingress(&name, &format!("{name}.test"), "shop", None), policy(&name, keys)]
    });
    site.manifests.write("keys.yaml", &documents(&hosts.collect::<Vec<_>>()));
    wait_until("an answer of the server of keys", async || endless.sent() > 0).await;
    let mut requests = Vec::new();
    for i in 0..REQUESTS {
        let host = format!("{}.test", asked[i % asked.len()].0);
        let target = Target::http(site.lockgate.http, &host);
        requests.push(tokio::spawn(async move { target.get("/").await.expect("an answer").status }));
    }
    for request in requests {
        assert_eq!(request.await.expect("a request"), 403, "the request is denied");
    }
    let failed = || site.envoy.log().lines().filter(|line| line.contains("Jwks async fetching")).count();
    wait_until("the end of all answers", async || failed() >= HOSTS).await;
    assert_eq!(site.get(By::Http, "/", &[]).await.status, 200, "another host is served");
    let most = site.envoy.process().peak_memory();
    println!("{} MB sent; memory of Envoy {} MB, at most {} MB", endless.sent() >> 20, before >> 20, most >> 20);
    assert!(most < before + ALLOWED, "{} MB", most >> 20);
}
