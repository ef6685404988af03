//! The Kubernetes cluster: a real etcd and API server with N times Ingress, Service, and EndpointSlice.
//!
//! Initial objects are written into etcd as copies of objects that the API server has stored, which takes seconds
//! instead of minutes. Measured changes are written through the API server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::client::Connection;
use e2e::{ApiServer, Authority, Target};
use http::Method;
use serde_json::{Value, json};

use super::controller::envoy_gateway;
use super::names::{CLASS, NAMESPACE, TEAM, address, gateway, host, name};
use super::objects::{self, Kind};

/// The number of objects in one write to etcd.
const BATCH: usize = 500;
/// The time limit until the API server has them.
const PATIENCE: Duration = Duration::from_secs(120);
/// The number of the template, which no object of a cluster has.
const TEMPLATE: usize = 999_999;
/// The number of the Service of Lockgate's Envoys.
pub const ENVOYS: usize = 999_998;
const TEMPLATE_UID: &str = "00000000-0000-4000-8000-00000000uuid";

/// The times of a request and its answer.
#[derive(Debug, Clone, Copy)]
pub struct Written {
    /// Before the first byte of the request.
    pub sent: Instant,
    /// After the last byte of the answer.
    pub answered: Instant,
}

/// A running API server.
pub struct Cluster {
    server: ApiServer,
    templates: BTreeMap<Kind, String>,
    secure_template: String,
    /// The number of Gateways, to which HTTPRoutes belong in turn.
    gateways: usize,
    etcd: Connection,
    api: Connection,
    /// The authority of the certificates of hosts with TLS.
    pub authority: Authority,
}

impl Cluster {
    /// Starts an API server with the resource types in Contour's manifest, in directories, and in the directory of Lockgate's own.
    ///
    /// # Errors
    /// The API server refuses objects.
    pub async fn start(
        contour_types: Option<&Path>,
        gateway_types: &[PathBuf],
        own_types: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let etcd_flags = [
            "--quota-backend-bytes=8589934592",
            "--max-request-bytes=33554432",
            "--max-txn-ops=4096",
            "--log-level=error",
        ];
        // Nobody is to be held up by the fair queues of the API server: there is one user.
        let flags = ["--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000"];
        let server = ApiServer::start_with(&etcd_flags, &flags).await;
        if let Some(path) = contour_types {
            server.kubectl(&["apply", "--server-side", "-f", &path.display().to_string()], "").await;
            for namespace in ["projectcontour", TEAM] {
                server.kubectl(&["create", "namespace", namespace], "").await;
            }
            server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=120s"], "").await;
        }
        for directory in gateway_types {
            // A policy in the directory of Gateway API forbids changes of the definitions.
            let files = std::fs::read_dir(directory).with_context(|| directory.display().to_string())?;
            for file in files.filter_map(|file| Some(file.ok()?.path().display().to_string())) {
                if file.ends_with(".yaml") && !file.ends_with("kustomization.yaml") && !file.contains("_vap_") {
                    server.kubectl(&["apply", "--server-side", "-f", &file], "").await;
                }
            }
        }
        if let Some(directory) = own_types {
            server.kubectl(&["apply", "--server-side", "-f", &directory.display().to_string()], "").await;
            server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=120s"], "").await;
        }
        if !gateway_types.is_empty() || contour_types.is_some() || own_types.is_some() {
            // The Service of Lockgate's Envoys.
            server.apply(&Kind::Service.object(ENVOYS).to_string()).await;
        }
        if !gateway_types.is_empty() {
            server.kubectl(&["create", "namespace", envoy_gateway::NAMESPACE], "").await;
            server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=120s"], "").await;
        }
        let class = format!(
            "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {{ name: {CLASS} }}\n\
             spec: {{ controller: lockgate.dev/ingress-controller }}\n"
        );
        server.apply(&class).await;
        let authority = Authority::new();
        for number in 0..objects::SECRETS {
            let pair = authority.issue(&["*.bench.example"]);
            server.apply(&pair.secret(NAMESPACE, &objects::secret(number))).await;
        }
        let etcd = connect(&server.etcd()).await?;
        let api = connect(&server.target()).await?;
        let (templates, secure_template) = (BTreeMap::new(), String::new());
        let mut cluster = Self { server, templates, secure_template, gateways: 1, etcd, api, authority };
        let routes = (!gateway_types.is_empty()).then_some(Kind::HttpRoute);
        let proxies = contour_types.map(|_| Kind::PROXIES).into_iter().flatten();
        let policies = own_types.map(|_| [Kind::Policy, Kind::RoutePolicy]).into_iter().flatten();
        for kind in Kind::ALL.into_iter().chain(routes).chain(proxies).chain(policies) {
            let template = cluster.template(kind, kind.object(TEMPLATE)).await?;
            cluster.templates.insert(kind, template);
        }
        let secure = objects::ingress(TEMPLATE, TEMPLATE, Some(&objects::secret(TEMPLATE)));
        cluster.secure_template = cluster.template(Kind::Ingress, secure).await?;
        Ok(cluster)
    }

    /// Returns the kubeconfig for a controller.
    pub fn kubeconfig(&self) -> std::path::PathBuf {
        self.server.kubeconfig("admin")
    }

    /// Opens another connection to the API server, for parallel writes.
    ///
    /// # Errors
    /// The connection fails.
    pub async fn api(&self) -> anyhow::Result<Api> {
        let target = self.server.target();
        let patches = target.clone().field("content-type", "application/merge-patch+json").connect().await;
        Ok(Api { connection: connect(&target).await?, patches: patches.map_err(|error| anyhow!("{error}"))? })
    }

    /// Returns an object as the API server stores it.
    async fn template(&mut self, kind: Kind, object: Value) -> anyhow::Result<String> {
        let created = write(&mut self.api, Method::POST, &kind.path(), &object).await?.1;
        let mut stored: Value = serde_json::from_str(&created)?;
        stored["metadata"]["uid"] = TEMPLATE_UID.into();
        if let Some(metadata) = stored["metadata"].as_object_mut() {
            metadata.remove("resourceVersion");
        }
        let path = format!("{}/{}", kind.path(), name(TEMPLATE));
        write(&mut self.api, Method::DELETE, &path, &json!({})).await?;
        Ok(stored.to_string())
    }

    fn stored(&self, kind: Kind, index: usize, secure: bool) -> String {
        let template = match (kind, secure) {
            (Kind::Ingress, true) => &self.secure_template,
            _ => &self.templates[&kind],
        };
        let mut text = template.replace(&name(TEMPLATE), &name(index));
        for endpoint in 0..2 {
            let quoted = |index| format!("\"{}\"", address(index, endpoint));
            text = text.replace(&quoted(TEMPLATE), &quoted(index));
        }
        let secret = |index| format!("\"{}\"", objects::secret(index));
        if secure {
            text = text.replace(&secret(TEMPLATE), &secret(index));
        }
        if kind == Kind::HttpRoute {
            text = text.replace(&gateway(TEMPLATE), &gateway(index % self.gateways));
        }
        text.replace(TEMPLATE_UID, &format!("00000000-0000-4000-800{}-{index:012x}", kind as u8))
    }

    /// Runs kubectl and returns its output.
    pub async fn kubectl(&self, args: &[&str]) -> String {
        self.server.kubectl(args, "").await
    }

    /// Replaces all Gateways by `count` Gateways of a class, and removes the objects of their earlier controllers.
    pub async fn replace_gateways(&mut self, class: &str, controller: &str, count: usize) {
        self.kubectl(&["delete", "gateways", "--all"]).await;
        self.kubectl(&["delete", "services,endpointslices", "-l", "gateway.networking.k8s.io/gateway-name"]).await;
        let written = "deployments,services,configmaps,serviceaccounts";
        self.kubectl(&["delete", written, "--all", "-n", envoy_gateway::NAMESPACE]).await;
        for namespace in ["default", "projectcontour", envoy_gateway::NAMESPACE] {
            self.kubectl(&["delete", "leases", "--all", "-n", namespace]).await;
        }
        self.gateways = count;
        self.server.apply(&objects::gateways(class, controller, count)).await;
    }

    /// Returns the number of requests that wrote a status that the cases wait for, from the API server's metrics.
    ///
    /// # Errors
    /// The metrics are unavailable.
    pub async fn status_writes(&self) -> anyhow::Result<f64> {
        let mut api = connect(&self.server.target()).await?;
        let page = api.send(Method::GET, "/metrics", Default::default()).await.map_err(|error| anyhow!("{error}"))?;
        let page = page.text();
        let groups = ["gateway.networking.k8s.io", "lockgate.dev", "networking.k8s.io", "projectcontour.io"];
        Ok(groups.iter().map(|group| status_writes(&page, &format!("group=\"{group}\""))).sum())
    }

    /// Waits until no status is written for two seconds. Returns the number of writes and the time of the last one.
    ///
    /// # Errors
    /// The metrics are unavailable.
    pub async fn settled(&self, limit: Duration) -> anyhow::Result<(f64, Instant)> {
        const QUIET: Duration = Duration::from_secs(2);
        let deadline = Instant::now() + limit;
        let (mut last, mut since) = (self.status_writes().await?, Instant::now());
        while since.elapsed() < QUIET && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let now = self.status_writes().await?;
            if now > last {
                (last, since) = (now, Instant::now());
            }
        }
        Ok((last, since))
    }

    /// Like [`Self::settled`], after more writes than `before`: a controller writes nothing before it leads.
    ///
    /// # Errors
    /// The metrics are unavailable.
    pub async fn settled_after(&self, before: f64, limit: Duration) -> anyhow::Result<(f64, Instant)> {
        let deadline = Instant::now() + limit;
        while self.status_writes().await? <= before && Instant::now() < deadline {
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        self.settled(deadline.saturating_duration_since(Instant::now())).await
    }

    /// Writes objects of these numbers into etcd, and waits until the API server has them.
    ///
    /// # Errors
    /// etcd refuses, or the API server is too slow.
    pub async fn fill(&mut self, kinds: &[Kind], numbers: Range<usize>, secure: bool) -> anyhow::Result<()> {
        let encode = |text: &str| BASE64_STANDARD.encode(text);
        self.etcd = connect(&self.server.etcd()).await?;
        for &kind in kinds {
            for start in numbers.clone().step_by(BATCH) {
                let batch = start..(start + BATCH).min(numbers.end);
                let put = |index| {
                    let (key, value) = (kind.key() + &name(index), self.stored(kind, index, secure));
                    json!({ "requestPut": { "key": encode(&key), "value": encode(&value) } })
                };
                let puts: Vec<Value> = batch.map(put).collect();
                write(&mut self.etcd, Method::POST, "/v3/kv/txn", &json!({ "success": puts })).await?;
            }
        }
        let Some(last) = numbers.clone().last() else { return Ok(()) };
        for &kind in kinds {
            self.seen(kind, last, |text| {
                text.is_some_and(|text| text.contains("\"tls\":[") == (secure && kind == Kind::Ingress))
            })
            .await?;
        }
        Ok(())
    }

    /// Removes objects of these numbers.
    ///
    /// # Errors
    /// etcd refuses, or the API server is too slow.
    pub async fn clear(&mut self, kinds: &[Kind], numbers: Range<usize>) -> anyhow::Result<()> {
        for &kind in kinds {
            let key = |index| BASE64_STANDARD.encode(kind.key() + &name(index));
            self.etcd = connect(&self.server.etcd()).await?;
            let range = json!({ "key": key(numbers.start), "range_end": key(numbers.end) });
            write(&mut self.etcd, Method::POST, "/v3/kv/deleterange", &range).await?;
        }
        let Some(last) = numbers.clone().last() else { return Ok(()) };
        for &kind in kinds {
            self.seen(kind, last, |text| text.is_none()).await?;
        }
        Ok(())
    }

    /// Writes the EndpointSlice of one Service with the address of the server `backend`.
    ///
    /// # Errors
    /// etcd refuses.
    pub async fn point_to(&mut self, index: usize, backend: SocketAddr) -> anyhow::Result<()> {
        let mut stored: Value = serde_json::from_str(&self.stored(Kind::EndpointSlice, index, false))?;
        let mut endpoints = stored["endpoints"].as_array().cloned().unwrap_or_default();
        endpoints.truncate(1);
        for endpoint in &mut endpoints {
            endpoint["addresses"] = json!([backend.ip()]);
        }
        stored["endpoints"] = endpoints.into();
        stored["ports"][0]["port"] = backend.port().into();
        let key = BASE64_STANDARD.encode(Kind::EndpointSlice.key() + &name(index));
        let put = json!({ "key": key, "value": BASE64_STANDARD.encode(stored.to_string()) });
        self.etcd = connect(&self.server.etcd()).await?;
        write(&mut self.etcd, Method::POST, "/v3/kv/put", &put).await?;
        self.seen(Kind::EndpointSlice, index, |text| text.is_some_and(|text| text.contains(&backend.ip().to_string())))
            .await
    }

    /// Waits until the API server's cache has an object in a given state.
    async fn seen(&mut self, kind: Kind, index: usize, holds: impl Fn(Option<&str>) -> bool) -> anyhow::Result<()> {
        // A connection of its own: the last one may have been silent for too long.
        self.api = connect(&self.server.target()).await?;
        let path = format!("{}/{}?resourceVersion=0", kind.path(), name(index));
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer =
                self.api.send(Method::GET, &path, Default::default()).await.map_err(|error| anyhow!("{error}"))?;
            let text = answer.text();
            if holds((answer.status == 200).then_some(&text)) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "the API server does not see {kind:?} {index}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Writes through the API server.
pub struct Api {
    connection: Connection,
    /// The same API server, for merge patches.
    patches: Connection,
}

impl Api {
    /// Creates Ingress number `index` for a Service.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn ingress(&mut self, index: usize, backend: usize, secret: Option<&str>) -> anyhow::Result<Written> {
        let object = objects::ingress(index, backend, secret);
        Ok(write(&mut self.connection, Method::POST, &Kind::Ingress.path(), &object).await?.0)
    }

    /// Creates HTTPRoute number `index` of the first Gateway.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn route(&mut self, index: usize) -> anyhow::Result<Written> {
        let object = objects::route(index, index, &gateway(0));
        Ok(write(&mut self.connection, Method::POST, &Kind::HttpRoute.path(), &object).await?.0)
    }

    /// Creates HTTPProxy number `index`, and the one that it includes.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn proxy(&mut self, index: usize) -> anyhow::Result<Written> {
        let included = objects::included_proxy(index, "/");
        let (first, _) = write(&mut self.connection, Method::POST, &Kind::IncludedProxy.path(), &included).await?;
        let (second, _) =
            write(&mut self.connection, Method::POST, &Kind::HttpProxy.path(), &objects::proxy(index)).await?;
        Ok(Written { sent: first.sent, ..second })
    }

    /// Changes the path to which the included HTTPProxy number `index` redirects.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn edit_included(&mut self, index: usize, change: usize) -> anyhow::Result<Written> {
        let path = format!("{}/{}", Kind::IncludedProxy.path(), name(index));
        let spec = objects::included_proxy(index, &super::names::marked_path(change));
        Ok(write(&mut self.patches, Method::PATCH, &path, &json!({ "spec": spec["spec"] })).await?.0)
    }

    /// Changes the response header of the HTTPPolicy number `index` to the path of a change.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn edit_policy(&mut self, index: usize, change: usize) -> anyhow::Result<Written> {
        let path = format!("{}/{}", Kind::Policy.path(), name(index));
        let policy = objects::policy(index, &super::names::marked_path(change));
        Ok(write(&mut self.patches, Method::PATCH, &path, &json!({ "spec": policy["spec"] })).await?.0)
    }

    /// Changes the endpoints of Service number `index`.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn endpoints(&mut self, index: usize, change: usize) -> anyhow::Result<Written> {
        let object = objects::changed_slice(index, change);
        let path = format!("{}/{}", Kind::EndpointSlice.path(), name(index));
        Ok(write(&mut self.connection, Method::PUT, &path, &object).await?.0)
    }

    /// Edits the path of Ingress number `index`, which has TLS.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn edit(&mut self, index: usize, change: usize) -> anyhow::Result<Written> {
        let object = objects::edited_ingress(index, change);
        let path = format!("{}/{}", Kind::Ingress.path(), name(index));
        Ok(write(&mut self.connection, Method::PUT, &path, &object).await?.0)
    }

    /// Deletes Ingress number `index`.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn delete_ingress(&mut self, index: usize) -> anyhow::Result<Written> {
        let path = format!("{}/{}", Kind::Ingress.path(), name(index));
        Ok(write(&mut self.connection, Method::DELETE, &path, &json!({})).await?.0)
    }
}

async fn connect(target: &Target) -> anyhow::Result<Connection> {
    let target = target.clone().field("content-type", "application/json");
    target.connect().await.map_err(|error| anyhow!("{error}"))
}

async fn write(
    connection: &mut Connection,
    method: Method,
    path: &str,
    object: &Value,
) -> anyhow::Result<(Written, String)> {
    let body = object.to_string();
    let sent = Instant::now();
    let answer = connection.send(method.clone(), path, body.into()).await.map_err(|error| anyhow!("{error}"));
    let answer = answer.with_context(|| format!("{method} {path}"))?;
    let answered = Instant::now();
    ensure!((200..300).contains(&answer.status), "{method} {path}: {} {}", answer.status, answer.text());
    Ok((Written { sent, answered }, answer.text()))
}

/// Returns the host of an Ingress, for requests through a real Envoy.
pub fn host_of(index: usize) -> String {
    host(index)
}

/// Returns the number of requests that wrote the status of the objects with this label, from the metrics of an API server.
pub fn status_writes(metrics: &str, label: &str) -> f64 {
    let writes = metrics.lines().filter(|line| {
        line.starts_with("apiserver_request_total{")
            && line.contains(label)
            && line.contains("subresource=\"status\"")
            && !line.contains("verb=\"GET\"")
    });
    writes.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}
