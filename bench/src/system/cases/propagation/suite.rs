//! The tests of the public benchmark: `probe`, `routechange`, and `attachedroutes`.

use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::ensure;
use http::Method;
use serde_json::{Value, json};

use super::objects::{self, CHANGING_HOST, GATEWAY, GATEWAY_NAMESPACE, Kind, NAMESPACE, host};
use super::requests::{Client, Clients};
use crate::system::cluster;

/// The pause between two attempts of `probe`.
const PAUSE: Duration = Duration::from_millis(5);
/// The time limit of one route.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of changes of `routechange`.
pub(super) const CHANGES: usize = 20;
/// The pause between two changes.
const BETWEEN_CHANGES: Duration = Duration::from_millis(200);

/// The measurement of one route.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// From the API server's answer to the first 200.
    pub latency: Duration,
    /// The number of answers other than 404 and 200.
    pub errors: usize,
}

/// Creates routes of these numbers, one after another, and requests each one until it is served.
///
/// # Errors
/// The API server refuses, or a route is not served.
pub(super) async fn probe(
    kind: Kind,
    class: &str,
    numbers: Range<usize>,
    Clients { api, proxy, .. }: &mut Clients,
) -> anyhow::Result<Vec<Sample>> {
    let mut samples = Vec::new();
    for index in numbers {
        api.object(Method::POST, &kind.path(NAMESPACE), &kind.probed(index, class)).await?;
        let created = Instant::now();
        let (host, path) = (host(index), format!("/{index}"));
        let mut errors = 0;
        loop {
            match proxy.status(&host, &path).await {
                Ok(200) => break,
                Ok(404) => {}
                _ => errors += 1,
            }
            ensure!(created.elapsed() < PATIENCE, "{host} is not served after {} s", PATIENCE.as_secs());
            tokio::time::sleep(PAUSE).await;
        }
        samples.push(Sample { latency: created.elapsed(), errors });
    }
    Ok(samples)
}

/// The result of `routechange`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Changed {
    /// The number of requests.
    pub requests: usize,
    /// The number of requests without the answer 200.
    pub errors: usize,
}

/// Changes the backend of a route again and again, while requests follow each other on one connection. The route stays.
///
/// # Errors
/// The API server refuses, or the route is not served before the changes.
pub(super) async fn route_change(kind: Kind, class: &str, clients: &mut Clients) -> anyhow::Result<Changed> {
    let Clients { api, patches, proxy } = clients;
    let path = kind.path(NAMESPACE);
    api.object(Method::POST, &path, &kind.changed(false, class)).await?;
    let deadline = Instant::now() + PATIENCE;
    while !matches!(proxy.status(CHANGING_HOST, "/").await, Ok(200)) {
        ensure!(Instant::now() < deadline, "{CHANGING_HOST} is not served");
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let path = format!("{path}/route");
    let mut result = Changed { requests: 0, errors: 0 };
    let changes = async {
        for change in 0..CHANGES {
            let spec = kind.changed(change % 2 == 0, class)["spec"].take();
            patches.object(Method::PATCH, &path, &json!({ "spec": spec })).await?;
            tokio::time::sleep(BETWEEN_CHANGES).await;
        }
        anyhow::Ok(())
    };
    let requests = async {
        loop {
            let answer = proxy.status(CHANGING_HOST, &format!("/{}", result.requests)).await;
            result.requests += 1;
            result.errors += usize::from(!matches!(answer, Ok(200)));
            // The pause of a microsecond, which lets the changes run.
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        changed = changes => changed?,
        () = requests => {}
    }
    Ok(result)
}

/// The result of `attachedroutes`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attached {
    /// From the answer to the last creation until the Gateway has the right number.
    pub added: Duration,
    /// From the first deletion until the number is 0.
    pub removed: Duration,
    /// The number of times that the status of a Gateway was written.
    pub writes: f64,
}

/// Creates `count` applications, each with an HTTPRoute and a Service, and deletes them.
///
/// # Errors
/// The API server refuses, or the number is never right.
pub(super) async fn attached_routes(count: usize, api: &mut Client) -> anyhow::Result<Attached> {
    const MESH: &str = "mesh";
    let routes = Kind::HttpRoute.path(MESH);
    let services = format!("/api/v1/namespaces/{MESH}/services");
    let namespace = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": MESH } });
    api.object(Method::POST, "/api/v1/namespaces", &namespace).await?;
    until_attached(0, api).await?;
    let before = status_writes(api).await?;
    for index in 0..count {
        let [route, service] = objects::attached(MESH, index);
        api.object(Method::POST, &routes, &route).await?;
        api.object(Method::POST, &services, &service).await?;
    }
    let created = Instant::now();
    until_attached(count, api).await?;
    let added = created.elapsed();
    let deleted = Instant::now();
    for index in 0..count {
        let name = objects::application(index);
        api.object(Method::DELETE, &format!("{routes}/{name}"), &Value::Null).await?;
        api.object(Method::DELETE, &format!("{services}/{name}"), &Value::Null).await?;
    }
    until_attached(0, api).await?;
    let removed = deleted.elapsed();
    Ok(Attached { added, removed, writes: status_writes(api).await? - before })
}

/// Waits until the Gateway has this number of attached routes.
async fn until_attached(count: usize, api: &mut Client) -> anyhow::Result<()> {
    let path = format!("/apis/gateway.networking.k8s.io/v1/namespaces/{GATEWAY_NAMESPACE}/gateways/{GATEWAY}");
    let deadline = Instant::now() + PATIENCE + Duration::from_millis(100) * u32::try_from(count)?;
    loop {
        let gateway = api.object(Method::GET, &path, &Value::Null).await?;
        let attached = gateway["status"]["listeners"][0]["attachedRoutes"].as_u64();
        if attached == Some(count as u64) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the Gateway has {attached:?} attached routes instead of {count}");
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns the number of requests that wrote the status of a Gateway, from the API server's metrics.
async fn status_writes(api: &mut Client) -> anyhow::Result<f64> {
    let page = api.send(Method::GET, None, "/metrics", "").await?;
    Ok(cluster::status_writes(&page.text(), "resource=\"gateways\""))
}
