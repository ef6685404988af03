//! A Kubernetes cluster as a source: one watch a kind, all in parallel, each with its own backoff.
//!
//! An object is cut down as it arrives, so no more than a few whole ones are ever in memory. [`super::kinds`] has how each
//! kind is asked for.

pub(super) mod form;
mod freshness;
mod json;
mod merge;
mod proto;
mod read;
mod watch;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures::StreamExt;
use futures::stream::SelectAll;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, DefaultBackoff};
use lockgate_route::objects::Kind;
use lockgate_xds::provenance::ObjectRef;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::kinds::{ROWS, Row};
use super::{Event, SourceError};
use crate::metrics::Metrics;

use freshness::Freshness;
use merge::Merge;
use watch::{Arrival, Target, Watch};

/// The longest time between two tries while the API server is away or starts.
const AWAY: Duration = Duration::from_secs(4);
/// The same while it answers that we may not.
const REFUSED: Duration = Duration::from_secs(30);
/// What of a cluster is watched.
#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    /// Only objects of these namespaces; `None` is all of them. IngressClasses and Namespaces are in no namespace and
    /// always watched.
    pub namespaces: Option<Vec<String>>,
}

/// A client for the API server of `kubeconfig` (and of its context `context`); without both, of the pod that this
/// process runs in, else of the kubeconfig that kubectl would use.
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
    kube::Client::try_from(config).map_err(|error| SourceError::Client(error.to_string()))
}

/// Watches every kind; ends only when nobody takes its events, for a watch that fails is tried again for ever.
///
/// Each kind has a task of its own, so that they are decoded on all cores. When each kind last had news goes to `metrics`.
pub async fn watch(
    client: kube::Client,
    options: WatchOptions,
    metrics: Metrics,
    events: Sender<Event>,
) -> Result<(), SourceError> {
    let scope = Scope { client, namespaces: options.namespaces };
    let mut tasks = JoinSet::new();
    for row in ROWS {
        let (watches, events, metrics) = (scope.watches(row), events.clone(), metrics.clone());
        tasks.spawn(async move { follow(row.kind, watches, metrics, &events).await });
    }
    tokio::select! {
        // One that ends is one that panicked, unless nobody takes its events.
        ended = tasks.join_next() => match ended {
            Some(Err(_)) => Err(SourceError::Ended("cluster")),
            _ => Ok(()),
        },
        () = events.closed() => Ok(()),
    }
}

struct Scope {
    client: kube::Client,
    namespaces: Option<Vec<String>>,
}

impl Scope {
    /// The watches of a kind: one for each namespace, or one for all.
    fn watches(&self, Row { kind, form, fields, .. }: Row) -> Vec<Watch> {
        let paths = match &self.namespaces {
            Some(namespaces) if kind.info().namespaced => {
                let namespaces: BTreeSet<_> = namespaces.iter().collect();
                namespaces.into_iter().map(|namespace| kind.path(Some(namespace))).collect()
            }
            _ => vec![kind.path(None)],
        };
        let target = |url| Target { client: self.client.clone(), url, fields, form: form() };
        paths.into_iter().map(|url| watch::watch(target(url))).collect()
    }
}

/// Sends on what the watches of one kind tell, until nobody takes it.
async fn follow(kind: Kind, watches: Vec<Watch>, metrics: Metrics, events: &Sender<Event>) {
    let mut merge = Merge::new(kind, watches.len());
    let mut freshness = Freshness::new(kind, watches.len(), metrics, Instant::now());
    let mut ticks = tokio::time::interval(freshness::PERIOD);
    let nothing = watches.is_empty();
    let watches =
        watches.into_iter().enumerate().map(|(i, watch)| with_backoff(watch).map(move |told| (i, told)).boxed());
    let mut watches: SelectAll<_> = watches.collect();
    loop {
        let told = tokio::select! {
            told = watches.next() => told,
            _ = ticks.tick() => {
                freshness.check(Instant::now());
                continue;
            }
        };
        let Some((i, told)) = told else { break };
        // Neither the beginning of a list nor a part of it is a success.
        if let Ok(Arrival::ListEnded | Arrival::Applied(..) | Arrival::Deleted(_) | Arrival::Alive) = &told {
            freshness.succeeded(i, Instant::now());
        }
        let events_of_watch = merge.take(i, told);
        if merge.is_absent(i) {
            freshness.succeeded(i, Instant::now());
        }
        for event in events_of_watch {
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
    // No namespace to watch: an empty list, once.
    if nothing && events.send(Event::Listed(kind, Vec::new())).await.is_err() {
        return;
    }
    events.closed().await;
}

/// A failure and the time until the next try; the watch is not polled before.
type Told = Result<Arrival, (watcher::Error, Duration)>;

fn with_backoff(watch: Watch) -> impl futures::Stream<Item = Told> + Send {
    let start = (watch, DefaultBackoff::default(), None::<Duration>);
    futures::stream::unfold(start, |(mut watch, mut backoff, wait)| async move {
        if let Some(wait) = wait {
            tokio::time::sleep(wait).await;
        }
        match watch.next().await? {
            Ok(arrival) => {
                if !matches!(arrival, Arrival::ListStarted) {
                    backoff.reset();
                }
                Some((Ok(arrival), (watch, backoff, None)))
            }
            Err(error) => {
                let wait = bounded(&error, backoff.next().unwrap_or(REFUSED));
                Some((Err((error, wait)), (watch, backoff, Some(wait))))
            }
        }
    })
}

/// The time until the next try. While an API server is away nobody learns of backends that go, so it is not left alone
/// for long; one that answers that this may not be done is asked less often. What goes beyond the bound keeps its share of
/// chance: not all watches of all replicas come at once.
fn bounded(error: &watcher::Error, wait: Duration) -> Duration {
    let refused = status_code(error).is_some_and(|code| (400..500).contains(&code) && code != 410);
    let longest = if refused { REFUSED } else { AWAY };
    if wait <= longest {
        return wait;
    }
    let half = longest / 2;
    half + Duration::from_nanos((wait.as_nanos() % half.as_nanos()) as u64)
}

/// The HTTP status that the API server answered a request with.
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

/// Whether the API server no longer knows the version that a watch was at.
fn is_expired(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::WatchError(status) => status.code == 410,
        watcher::Error::WatchStartFailed(kube::Error::Api(status)) => status.code == 410,
        _ => false,
    }
}

/// `cannot list secrets: forbidden: User "x" cannot list …; retrying in 0.8 s`
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
            "; grant list and watch in a ClusterRole"
        }
        _ => "",
    };
    format!("cannot {verb} {plural}: {why}{hint}; retrying in {:.1} s", wait.as_secs_f64())
}

/// An error with all its causes, the last of which tells most.
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
