//! A Kubernetes cluster as a source: one watch per kind, all in parallel. The failure of one does not delay another.
//!
//! Objects are reduced on arrival, so only a few complete objects are in memory at any time. [`super::kinds`] defines
//! the requests for each kind.

pub(super) mod custom;
mod failure;
pub(super) mod form;
mod freshness;
mod installed;
mod merge;
mod proto;
mod read;
pub(crate) mod retry;
pub(super) mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::SelectAll;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use lockgate_route::objects::Kind;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use tower::buffer::BufferLayer;
use tower::retry::RetryLayer;
use tower::timeout::TimeoutLayer;

use super::claims::ClaimsPlace;
use super::kinds::{KindRow, ROWS};
use super::{Event, SourceError};
use crate::metrics::Metrics;

pub use failure::{describe, reason};

use failure::chain;
use freshness::Freshness;
use installed::Installed;
use merge::Merge;
use retry::{Recovery, with_backoff};
use watch::{Arrival, Target, WatchStream};

/// The time limit for the head of a response, including the retries of the client. The API server limits a request to 60 s. Without
/// this limit, a lost request waits forever: hyper can lose a request if its connection ends while the request enters the queue.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(90);
/// The number of requests that wait for a connection.
const WAITING_REQUESTS: usize = 1024;

/// The watched part of a cluster.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// The watched namespaces. `None` watches all of them. Kinds without a namespace, such as IngressClasses, are
    /// always watched.
    pub namespaces: Option<Vec<String>>,
    /// Whether the kinds of Gateway API are watched.
    pub gateway_api: bool,
    /// The place of the claims of hosts. `None`: there are none.
    pub claims: Option<ClaimsPlace>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { namespaces: None, gateway_api: true, claims: None }
    }
}

/// The name for the current context of a kubeconfig, unless it has a context of this name.
const CURRENT: &str = "current";

/// Creates a client for the API server of `kubeconfig` and its context `context`. Without both, it uses the pod of this
/// process, or otherwise the kubeconfig of kubectl. The context `current` is the current one.
///
/// Errors: [`SourceError::Config`], [`SourceError::Client`]. It does not connect yet.
pub async fn client(kubeconfig: Option<PathBuf>, context: Option<String>) -> Result<kube::Client, SourceError> {
    let in_pod = match (&kubeconfig, context.as_deref()) {
        (None, None | Some(CURRENT)) => kube::Config::incluster().ok(),
        _ => None,
    };
    let mut config = match in_pod {
        Some(config) => config,
        None => {
            let name =
                kubeconfig.as_ref().map_or_else(|| "kubeconfig".to_owned(), |path| format!("kubeconfig {path:?}"));
            let fault = |error: KubeconfigError| SourceError::Config(format!("{name}: {}", causes(&error)));
            let file = match &kubeconfig {
                Some(path) => Kubeconfig::read_from(path).map_err(fault)?,
                None => Kubeconfig::read().map_err(|error| {
                    let reason = causes(&error);
                    let what = "this is not a pod, and there is no usable kubeconfig";
                    SourceError::Config(format!("{what} ({reason}); --kubeconfig FILE names one"))
                })?,
            };
            let context = selected(&file, context).map_err(|why| SourceError::Config(format!("{name}: {why}")))?;
            let options = KubeConfigOptions { context, cluster: None, user: None };
            kube::Config::from_custom_kubeconfig(file, &options).await.map_err(fault)?
        }
    };
    let agent = http::HeaderValue::from_static(concat!("lockgate/", env!("CARGO_PKG_VERSION")));
    config.headers.push((http::header::USER_AGENT, agent));
    limited(config, RESPONSE_TIMEOUT)
}

/// Returns the context to use, `None` for the current one. Errors: there is none of this name.
fn selected(file: &Kubeconfig, context: Option<String>) -> Result<Option<String>, String> {
    let names: Vec<&str> = file.contexts.iter().map(|context| context.name.as_str()).collect();
    if names.is_empty() {
        return Err("it has no contexts, so it is no usable kubeconfig".to_owned());
    }
    let listed = names.join(", ");
    let has = |name: &str| names.contains(&name);
    match context {
        Some(name) if has(&name) => Ok(Some(name)),
        Some(name) if name != CURRENT => Err(format!("it has no context {name:?}; its contexts: {listed}")),
        _ => match file.current_context.as_deref().filter(|name| !name.is_empty()) {
            Some(name) if has(name) => Ok(None),
            Some(name) => Err(format!("its current context {name:?} does not exist; its contexts: {listed}")),
            None => Err(format!("it has no current context; its contexts: {listed}")),
        },
    }
}

/// Describes a fault of a kubeconfig.
fn causes(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::ReadConfig(error, path) => format!("cannot read {path:?}: {error}"),
        other => chain(other),
    }
}

/// Returns the namespace of this process: that of its pod, or otherwise of the kubeconfig.
pub fn own_namespace(client: &kube::Client) -> String {
    let namespace = std::env::var("POD_NAMESPACE").ok().filter(|namespace| !namespace.is_empty());
    namespace.unwrap_or_else(|| client.default_namespace().to_owned())
}

/// Creates a client whose requests fail if the head of the response takes longer than `limit`. The body has no limit.
fn limited(mut config: kube::Config, limit: Duration) -> Result<kube::Client, SourceError> {
    config.default_retry = false;
    let builder = ClientBuilder::try_from(config).map_err(|error| SourceError::Client(error.to_string()))?;
    // The layer of retries needs a service that can be cloned.
    let builder =
        builder.with_layer(&BufferLayer::new(WAITING_REQUESTS)).with_layer(&RetryLayer::new(retry::of_requests()));
    Ok(builder.with_layer(&TimeoutLayer::new(limit)).build())
}

/// Watches every kind. Ends only when there is no receiver of events, because a failed watch is always repeated.
///
/// Each kind has its own task, so that all cores decode objects. `metrics` receives the time of the last news of each
/// kind.
pub async fn watch(
    client: kube::Client,
    options: WatchOptions,
    metrics: Metrics,
    events: Sender<Event>,
) -> Result<(), SourceError> {
    let scope = Scope { client, options };
    let (mut tasks, installed, recovery) = (JoinSet::new(), Installed::default(), Recovery::default());
    for row in ROWS {
        let (watches, events, metrics) = (scope.watches(row), events.clone(), metrics.clone());
        let (installed, recovery) = (installed.clone(), recovery.clone());
        tasks.spawn(async move { follow(row.kind, watches, installed, recovery, metrics, &events).await });
    }
    tokio::select! {
        // A task ends only by a panic, unless there is no receiver of events.
        ended = tasks.join_next() => match ended {
            Some(Err(_)) => Err(SourceError::Ended("cluster")),
            _ => Ok(()),
        },
        () = events.closed() => Ok(()),
    }
}

struct Scope {
    client: kube::Client,
    options: WatchOptions,
}

impl Scope {
    /// Creates the watches of a kind: one for each namespace, one for all, or none.
    ///
    /// Each has its namespace; empty for all.
    fn watches(&self, KindRow { kind, watch, fields, .. }: KindRow) -> Vec<(Arc<str>, WatchStream)> {
        let namespaces: BTreeSet<&str> = match &self.options.namespaces {
            _ if kind == Kind::HOST_CLAIMS => {
                self.options.claims.iter().map(|place| place.namespace.as_str()).collect()
            }
            _ if kind.info().of_gateway_api && !self.options.gateway_api => BTreeSet::new(),
            Some(namespaces) if kind.info().namespaced => namespaces.iter().map(String::as_str).collect(),
            _ => [""].into(),
        };
        let of_claims = self.options.claims.as_ref().filter(|_| kind == Kind::HOST_CLAIMS);
        let labels = of_claims.map(ClaimsPlace::selector);
        let start = |namespace: &str| {
            let namespace: Arc<str> = namespace.into();
            let one = Some(namespace.clone()).filter(|namespace| !namespace.is_empty());
            let target = Target { client: self.client.clone(), kind, namespace: one, fields, labels: labels.clone() };
            (namespace, watch(target))
        };
        namespaces.into_iter().map(start).collect()
    }
}

/// Forwards the events of all watches of one kind, until there is no receiver.
async fn follow(
    kind: Kind,
    watches: Vec<(Arc<str>, WatchStream)>,
    mut installed: Installed,
    recovery: Recovery,
    metrics: Metrics,
    events: &Sender<Event>,
) {
    let mut merge = Merge::new(kind, watches.iter().map(|(namespace, _)| namespace.clone()), installed.clone());
    let mut freshness = Freshness::new(kind, watches.len(), metrics, Instant::now());
    let mut ticks = tokio::time::interval(freshness::PERIOD);
    let nothing = watches.is_empty();
    let watches = watches
        .into_iter()
        .enumerate()
        .map(|(i, (_, watch))| (i, with_backoff(kind, watch, installed.clone(), recovery.clone())))
        .map(|(i, results)| results.map(move |result| (i, result)).boxed());
    let mut watches: SelectAll<_> = watches.collect();
    loop {
        let result = tokio::select! {
            result = watches.next() => result,
            _ = ticks.tick() => {
                freshness.check(Instant::now());
                continue;
            }
        };
        let Some((i, result)) = result else { break };
        if kind == Kind::CUSTOM_RESOURCE_DEFINITION
            && let Ok(arrival) = &result
        {
            installed.record(arrival);
        }
        // Neither the start nor a part of a list is a success.
        if let Ok(Arrival::ListEnded | Arrival::Applied(..) | Arrival::Deleted(_) | Arrival::Alive) = &result {
            freshness.succeeded(i, Instant::now());
        }
        let events_of_watch = merge.take(i, result);
        if merge.is_absent(i) {
            freshness.succeeded(i, Instant::now());
        }
        for event in events_of_watch {
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
    // Without watches, an empty list is sent once.
    if nothing && events.send(Event::Listed(kind, Vec::new())).await.is_err() {
        return;
    }
    events.closed().await;
}

#[cfg(test)]
mod tests;
