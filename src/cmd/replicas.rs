//! Requests to running controllers: at an address, or in a Kubernetes cluster through port-forwards of the API server.
//!
//! The debug pages respond only to local clients. A port-forward ends in the pod, so its clients are local.

use std::fmt::Write as _;
use std::io::{self, IsTerminal};
use std::time::Duration;

use anyhow::{anyhow, bail};
use bytes::Bytes;
use futures::future::join_all;
use http::{Request, header};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::cluster_args::ClusterArgs;
use super::progress::Progress;
use super::replica_args::ReplicaArgs;
use crate::explain::text::Style;
use crate::source::cluster::{self, reason};

/// The timeout of a request to one replica.
const TIMEOUT: Duration = Duration::from_secs(20);
/// The maximum size of a response.
const MAX_RESPONSE: usize = 256 << 20;
/// The default admin address of a controller.
const DEFAULT_ADDRESS: &str = "127.0.0.1:18001";
/// The default admin port of pods.
const ADMIN_PORT: u16 = 18001;

/// The responses of replicas by name, or the reason why a replica did not respond.
pub type Answers = Vec<(String, Result<Vec<u8>, String>)>;

/// Requests the same page from every replica.
///
/// Errors: the API server is unreachable, or there are no replicas.
pub async fn ask(args: &ReplicaArgs, path: &str, progress: &Progress) -> anyhow::Result<Answers> {
    if !args.admin_address.is_empty() {
        progress.step(format!("waiting for {}", args.admin_address.join(", ")));
        let ask_one = |address: &String| {
            let address = address.clone();
            async move {
                let socket = async { TcpStream::connect(&address).await.map_err(|error| error.to_string()) };
                let answer = with_timeout(async { request(socket.await?, path).await }).await;
                let answer = answer.map_err(|error| format!("{address}: {error}"));
                (address, answer)
            }
        };
        return Ok(join_all(args.admin_address.iter().map(ask_one)).await);
    }
    let ReplicaArgs { cluster: ClusterArgs { kubeconfig, context }, namespace, selector, .. } = args;
    let client = cluster::client(kubeconfig.clone(), context.clone()).await?;
    progress.step("listing the pods of the controller");
    let pods: Api<Pod> = Api::namespaced(client, namespace);
    let running = ListParams::default().labels(selector);
    let refused = |error: kube::Error| anyhow!("cannot list the pods of namespace {namespace:?}: {}", reason(&error));
    let found = pods.list(&running).await.map_err(refused)?;
    if found.items.is_empty() {
        bail!(
            "namespace {namespace:?} has no pods with the labels {selector:?}; --namespace and --selector select the pods of the \
             controller"
        );
    }
    progress.step(match found.items.len() {
        1 => "waiting for 1 replica".to_owned(),
        count => format!("waiting for {count} replicas"),
    });
    let ask_one = |pod: &Pod| {
        let (name, port) = (pod.metadata.name.clone().unwrap_or_default(), admin_port(pod));
        let (pods, phase) = (pods.clone(), pod.status.as_ref().and_then(|status| status.phase.clone()));
        async move {
            let answer = match phase.as_deref() {
                Some("Running") | None => with_timeout(forwarded(&pods, &name, port, path)).await,
                Some(phase) => Err(format!("the pod is {phase}")),
            };
            (name, answer)
        }
    };
    let mut answers = join_all(found.items.iter().map(ask_one)).await;
    answers.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(answers)
}

/// Returns the admin port of a pod: the port named `admin` of one of its containers.
fn admin_port(pod: &Pod) -> u16 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
    let admin = ports.find(|port| port.name.as_deref() == Some("admin"));
    admin.and_then(|port| u16::try_from(port.container_port).ok()).unwrap_or(ADMIN_PORT)
}

/// Requests a page from a pod through the API server.
async fn forwarded(pods: &Api<Pod>, name: &str, port: u16, path: &str) -> Result<Vec<u8>, String> {
    let refused = |error: kube::Error| format!("cannot forward a port: {}", reason(&error));
    let mut forwarder = pods.portforward(name, &[port]).await.map_err(refused)?;
    let stream = forwarder.take_stream(port).ok_or("cannot forward a port: the API server opened no stream")?;
    let failure = forwarder.take_error(port);
    let answer = request(stream, path).await;
    // If the pod refuses the connection, the reason arrives on a separate channel.
    let reason = match (&answer, failure) {
        (Err(_), Some(failure)) => tokio::time::timeout(Duration::from_secs(1), failure).await.ok().flatten(),
        _ => None,
    };
    forwarder.abort();
    answer.map_err(|error| reason.unwrap_or(error))
}

async fn with_timeout(answer: impl Future<Output = Result<Vec<u8>, String>>) -> Result<Vec<u8>, String> {
    let answer = tokio::time::timeout(TIMEOUT, answer).await;
    answer.unwrap_or_else(|_| Err(format!("no response within {} s", TIMEOUT.as_secs())))
}

/// Requests a page over a connection.
async fn request(io: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, path: &str) -> Result<Vec<u8>, String> {
    let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(|error| error.to_string())?;
    let request = Request::get(path).header(header::HOST, "localhost").body(Empty::<Bytes>::new());
    let request = request.map_err(|error| error.to_string())?;
    let answer = async {
        let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = answer.status();
        let is_envoy = answer.headers().get(header::SERVER).is_some_and(|server| server == "envoy");
        let body = Limited::new(answer.into_body(), MAX_RESPONSE).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        match (status.is_success(), status.as_u16()) {
            (true, _) => Ok(body.to_vec()),
            (false, _) if is_envoy => Err(format!(
                "an Envoy answers there, not a Lockgate controller; the admin address of a controller is {DEFAULT_ADDRESS} by default"
            )),
            (false, 404) => Err(format!(
                "it answers 404, so it is not the admin address of a Lockgate controller with the page {}",
                path.split('?').next().unwrap_or_default()
            )),
            (false, _) => Err(format!("{status}: {}", String::from_utf8_lossy(&body).trim())),
        }
    };
    // The connection must be polled until the response arrives.
    tokio::pin!(answer);
    tokio::select! {
        answer = &mut answer => answer,
        ended = connection => match ended {
            Ok(()) => answer.await,
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Returns the error if no replica has responded.
pub fn no_answer<'a>(errors: impl Iterator<Item = &'a str>) -> anyhow::Error {
    anyhow!("no replica responds: {}", errors.collect::<Vec<_>>().join("; "))
}

/// Parses a response.
pub fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    serde_json::from_slice(body).map_err(|error| format!("the response is not that of a Lockgate controller: {error}"))
}

/// Escapes a value of a query. Source: RFC 3986, section 2.3.
pub fn escape(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for byte in value.bytes() {
        match byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            true => escaped.push(char::from(byte)),
            // Writing to a string cannot fail.
            false => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

/// Returns the style of standard output: colors on terminals, unless `NO_COLOR` is set (no-color.org).
pub fn style() -> Style {
    let is_disabled = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if io::stdout().is_terminal() && !is_disabled { Style::Colors } else { Style::Plain }
}
