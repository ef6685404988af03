//! A Kubernetes cluster as a source: one watch per kind, all in parallel, each with its own backoff.
//!
//! Objects are reduced on arrival, so only a few complete objects are in memory at any time. [`super::kinds`] defines
//! the requests for each kind.

pub(super) mod form;
mod freshness;
mod installed;
mod json;
mod merge;
mod proto;
mod read;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::SelectAll;
use kube::client::ClientBuilder;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff};
use lockgate_route::objects::Kind;
use lockgate_xds::provenance::ObjectRef;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;
use tower::timeout::TimeoutLayer;

use super::kinds::{ROWS, Row};
use super::{Event, SourceError};
use crate::metrics::Metrics;

use freshness::Freshness;
use installed::Installed;
use merge::Merge;
use watch::{Arrival, Target, Watch};

/// The maximum retry delay while the API server is unavailable or starting.
const MAX_UNAVAILABLE_DELAY: Duration = Duration::from_secs(4);
/// The maximum retry delay while the API server denies access.
const MAX_DENIED_DELAY: Duration = Duration::from_secs(30);
/// The retry delay for a kind whose CustomResourceDefinition is absent. The creation of the definition ends the delay.
const ABSENT_DELAY: Duration = Duration::from_secs(30);
/// The time limit for the head of a response. Without it, a lost request waits forever: hyper can lose a request if its connection
/// ends while the request enters the queue. The client repeats a request that an overloaded API server refuses for 164 s, which the
/// limit includes.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(240);

/// The watched part of a cluster.
#[derive(Debug, Clone)]
pub struct WatchOptions {
    /// The watched namespaces. `None` watches all of them. Kinds without a namespace, such as IngressClasses, are
    /// always watched.
    pub namespaces: Option<Vec<String>>,
    /// Whether the kinds of Gateway API are watched.
    pub gateway_api: bool,
}

impl Default for WatchOptions {
    fn default() -> Self {
        Self { namespaces: None, gateway_api: true }
    }
}

/// Creates a client for the API server of `kubeconfig` and its context `context`. Without both, it uses the pod of this
/// process, or otherwise the kubeconfig of kubectl.
///
/// Errors: [`SourceError::Config`], [`SourceError::Client`]. It does not connect yet.
pub async fn client(kubeconfig: Option<PathBuf>, context: Option<String>) -> Result<kube::Client, SourceError> {
    let options = KubeConfigOptions { context: context.clone(), cluster: None, user: None };
    let mut config = match (&kubeconfig, context) {
        (Some(path), _) => {
            let fault = |error| SourceError::Config(format!("kubeconfig \"{}\": {error}", path.display()));
            let file = Kubeconfig::read_from(path).map_err(fault)?;
            kube::Config::from_custom_kubeconfig(file, &options).await.map_err(fault)?
        }
        (None, Some(_)) => {
            kube::Config::from_kubeconfig(&options).await.map_err(|error| SourceError::Config(error.to_string()))?
        }
        (None, None) => match kube::Config::incluster() {
            Ok(config) => config,
            Err(in_cluster) => kube::Config::from_kubeconfig(&options).await.map_err(|error| {
                SourceError::Config(format!("not in a pod ({in_cluster}), and no kubeconfig ({error})"))
            })?,
        },
    };
    let agent = http::HeaderValue::from_static(concat!("lockgate/", env!("CARGO_PKG_VERSION")));
    config.headers.push((http::header::USER_AGENT, agent));
    limited(config, RESPONSE_TIMEOUT)
}

/// Creates a client whose requests fail if the head of the response takes longer than `limit`. The body has no limit.
fn limited(config: kube::Config, limit: Duration) -> Result<kube::Client, SourceError> {
    let builder = ClientBuilder::try_from(config).map_err(|error| SourceError::Client(error.to_string()))?;
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
    let (mut tasks, installed) = (JoinSet::new(), Installed::default());
    for row in ROWS {
        let (watches, events, metrics) = (scope.watches(row), events.clone(), metrics.clone());
        let installed = installed.clone();
        tasks.spawn(async move { follow(row.kind, watches, installed, metrics, &events).await });
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
    fn watches(&self, Row { kind, form, fields, .. }: Row) -> Vec<(Arc<str>, Watch)> {
        let namespaces: BTreeSet<&str> = match &self.options.namespaces {
            _ if kind.info().of_gateway_api && !self.options.gateway_api => BTreeSet::new(),
            Some(namespaces) if kind.info().namespaced => namespaces.iter().map(String::as_str).collect(),
            _ => [""].into(),
        };
        let target = |url| Target { client: self.client.clone(), url, fields, form: form() };
        let path = |namespace: &str| kind.path(Some(namespace).filter(|namespace| !namespace.is_empty()));
        namespaces.into_iter().map(|one| (one.into(), watch::watch(target(path(one))))).collect()
    }
}

/// Forwards the events of all watches of one kind, until there is no receiver.
async fn follow(
    kind: Kind,
    watches: Vec<(Arc<str>, Watch)>,
    mut installed: Installed,
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
        .map(|(i, (_, watch))| with_backoff(kind, watch, installed.clone()).map(move |result| (i, result)).boxed());
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

/// A result of a watch, or a failure with the time until the next attempt. The watch is not polled before.
type WatchResult = Result<Arrival, (watcher::Error, Duration)>;

fn with_backoff(kind: Kind, watch: Watch, installed: Installed) -> impl futures::Stream<Item = WatchResult> + Send {
    let start = (watch, DefaultBackoff::default(), installed, Pause::None);
    futures::stream::unfold(start, move |(mut watch, mut backoff, installed, pause)| async move {
        match pause {
            Pause::None => {}
            Pause::For(wait) => tokio::time::sleep(wait).await,
            Pause::UntilInstalled => drop(tokio::time::timeout(ABSENT_DELAY, installed.has(kind)).await),
        }
        match watch.next().await? {
            Ok(arrival) => {
                if !matches!(arrival, Arrival::ListStarted) {
                    backoff.reset();
                }
                Some((Ok(arrival), (watch, backoff, installed, Pause::None)))
            }
            // An API server that is starting may not serve a kind yet, although its definition is installed.
            Err(error) if status_code(&error) == Some(404) && installed.lacks(kind) => {
                Some((Err((error, ABSENT_DELAY)), (watch, backoff, installed, Pause::UntilInstalled)))
            }
            Err(error) => {
                let wait = bounded(&error, backoff.next().unwrap_or(MAX_DENIED_DELAY));
                Some((Err((error, wait)), (watch, backoff, installed, Pause::For(wait))))
            }
        }
    })
}

/// The pause before the next attempt of a watch.
enum Pause {
    None,
    For(Duration),
    /// Until the kind has a CustomResourceDefinition, at most [`ABSENT_DELAY`].
    UntilInstalled,
}

/// Returns the time until the next attempt. While an API server is unavailable, removals of backends are unknown, so
/// the maximum delay is short. It is longer if access is denied. A delay above the maximum keeps its random part, so
/// that the watches of all replicas do not reconnect at once.
fn bounded(error: &watcher::Error, wait: Duration) -> Duration {
    let refused = status_code(error).is_some_and(|code| (400..500).contains(&code) && code != 410);
    let longest = if refused { MAX_DENIED_DELAY } else { MAX_UNAVAILABLE_DELAY };
    if wait <= longest {
        return wait;
    }
    let half = longest / 2;
    half + Duration::from_nanos((wait.as_nanos() % half.as_nanos()) as u64)
}

/// Returns the HTTP status of the API server's response.
fn status_code(error: &watcher::Error) -> Option<u16> {
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status)) => Some(status.code),
        _ => None,
    }
}

fn origin(kind: Kind) -> ObjectRef {
    ObjectRef::new(kind.as_str(), "", "*")
}

/// Returns whether the API server no longer has the version of a watch.
fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchError(status) => status.code == 410,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

/// Describes a failure: `cannot list secrets: forbidden: User "x" cannot list …; retrying in 0.8 s`.
pub fn describe(kind: Kind, error: &watcher::Error, wait: Duration) -> String {
    let plural = kind.resource();
    let (verb, why) = match error {
        watcher::Error::InitialListFailed(error) => ("list", reason(error)),
        watcher::Error::WatchStartFailed(error) | watcher::Error::WatchFailed(error) => ("watch", reason(error)),
        watcher::Error::WatchError(status) => ("watch", status.message.clone()),
        watcher::Error::NoResourceVersion => ("watch", "the API server gave no resource version".into()),
    };
    let hint = match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) if status.code == 403 => {
            match kind.info().of_gateway_api {
                _ if kind == Kind::CUSTOM_RESOURCE_DEFINITION => {
                    "; the version of Gateway API is unknown, and experimental features are not reported; grant list and \
                     watch in a ClusterRole"
                }
                _ if kind == Kind::BACKEND_TLS_POLICY => {
                    "; it is unknown which backends are verified, so backends of HTTPRoutes and GRPCRoutes are answered 500; grant \
                     list and watch in a ClusterRole, or set watch.gatewayApi to false"
                }
                true => "; grant list and watch in a ClusterRole, or set watch.gatewayApi to false",
                false => "; grant list and watch in a ClusterRole",
            }
        }
        _ => "",
    };
    format!("cannot {verb} {plural}: {why}{hint}; retrying in {:.1} s", wait.as_secs_f64())
}

/// Describes an error with all its causes, because the last cause is the most specific.
pub fn reason(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return status.message.clone();
    }
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        let next = error.to_string();
        if !text.contains(&next) {
            text = format!("{text}: {next}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests;
