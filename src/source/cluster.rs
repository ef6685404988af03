//! A Kubernetes cluster as a source: one watch a kind, all in parallel, each with its own backoff.
//!
//! An object is cut down as it arrives, so only a page of whole ones is ever in memory. Of ConfigMaps and Namespaces,
//! only the metadata is asked for. Secrets are asked for without the types that hold no key pairs and may be large
//! (Helm's releases): by exclusion in one watch, since two watches, one a type, would lose the order in which a Secret
//! is deleted and made again with another type. Field selectors do not change what RBAC must grant.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use futures::future::select_all;
use futures::stream::{BoxStream, SelectAll};
use futures::{FutureExt, StreamExt, TryStreamExt};
use k8s_openapi::api::{core::v1 as core, discovery::v1 as discovery, networking::v1 as networking};
use k8s_openapi::{ClusterResourceScope, NamespaceResourceScope};
use kube::api::{Api, PartialObjectMeta};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::Resource;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Config, DefaultBackoff, watcher};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;

use super::decode::{Decode, meta};
use super::objects::{Kind, Object, ObjectKey};
use super::{Event, SourceError};
use crate::provenance::ObjectRef;

/// Objects in a page of a list.
const PAGE: u32 = 500;
/// Secrets in a page: each may have 1 MiB.
const SECRETS_PAGE: u32 = 50;
/// The longest time between two tries while the API server is away or starts.
const AWAY: Duration = Duration::from_secs(4);
/// The same while it answers that we may not.
const REFUSED: Duration = Duration::from_secs(30);
/// Types of Secrets that never hold a key pair for a server.
const OTHER_SECRETS: &str = "type!=helm.sh/release.v1,type!=kubernetes.io/service-account-token,\
    type!=kubernetes.io/dockercfg,type!=kubernetes.io/dockerconfigjson,type!=kubernetes.io/basic-auth,\
    type!=kubernetes.io/ssh-auth,type!=bootstrap.kubernetes.io/token";

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
pub async fn watch(client: kube::Client, options: WatchOptions, events: Sender<Event>) -> Result<(), SourceError> {
    let at = Scope { client, namespaces: options.namespaces };
    let kinds = [
        follow(Kind::Ingress, at.whole::<networking::Ingress>(page(PAGE)), &events).boxed(),
        follow(Kind::IngressClass, at.everywhere::<networking::IngressClass>(page(PAGE)), &events).boxed(),
        follow(Kind::Service, at.whole::<core::Service>(page(PAGE)), &events).boxed(),
        follow(Kind::EndpointSlice, at.whole::<discovery::EndpointSlice>(page(PAGE)), &events).boxed(),
        follow(Kind::Secret, at.whole::<core::Secret>(page(SECRETS_PAGE).fields(OTHER_SECRETS)), &events).boxed(),
        follow(Kind::ConfigMap, at.config_maps(), &events).boxed(),
        follow(Kind::Namespace, at.namespaces(), &events).boxed(),
    ];
    tokio::select! {
        _ = select_all(kinds) => {}
        () = events.closed() => {}
    }
    Ok(())
}

fn page(size: u32) -> Config {
    Config::default().page_size(size)
}

/// An event of a watch, the object cut down: key, and the object if anything of it is read.
type Arrival = watcher::Event<(ObjectKey, Option<Object>)>;
type Watch = BoxStream<'static, watcher::Result<Arrival>>;

struct Scope {
    client: kube::Client,
    namespaces: Option<Vec<String>>,
}

impl Scope {
    fn apis<K>(&self) -> Vec<Api<K>>
    where
        K: Resource<Scope = NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        match &self.namespaces {
            None => vec![Api::all(self.client.clone())],
            Some(namespaces) => {
                let namespaces: BTreeSet<_> = namespaces.iter().collect();
                namespaces.into_iter().map(|namespace| Api::namespaced(self.client.clone(), namespace)).collect()
            }
        }
    }

    /// Watches of whole objects, one a namespace.
    fn whole<K>(&self, config: Config) -> Vec<Watch>
    where
        K: Resource<Scope = NamespaceResourceScope> + Decode + Clone + Debug + DeserializeOwned + Send + 'static,
        K::DynamicType: Default,
    {
        self.apis::<K>().into_iter().map(|api| decoded(api, config.clone())).collect()
    }

    /// The watch of objects without a namespace.
    fn everywhere<K>(&self, config: Config) -> Vec<Watch>
    where
        K: Resource<Scope = ClusterResourceScope> + Decode + Clone + Debug + DeserializeOwned + Send + 'static,
        K::DynamicType: Default,
    {
        vec![decoded(Api::<K>::all(self.client.clone()), config)]
    }

    fn config_maps(&self) -> Vec<Watch> {
        self.apis::<PartialObjectMeta<core::ConfigMap>>().into_iter().map(|api| partial(api, Kind::ConfigMap)).collect()
    }

    fn namespaces(&self) -> Vec<Watch> {
        vec![partial(Api::<PartialObjectMeta<core::Namespace>>::all(self.client.clone()), Kind::Namespace)]
    }
}

fn decoded<K>(api: Api<K>, config: Config) -> Watch
where
    K: Resource + Decode + Clone + Debug + DeserializeOwned + Send + 'static,
    K::DynamicType: Default,
{
    watcher(api, config)
        .map_ok(|event| {
            map(event, |object| {
                let key = key(object.meta());
                (key, object.decode())
            })
        })
        .boxed()
}

/// The watch of the metadata of a kind's objects.
fn partial<K>(api: Api<PartialObjectMeta<K>>, kind: Kind) -> Watch
where
    K: Clone + Debug + Send + 'static,
    PartialObjectMeta<K>: Resource + DeserializeOwned,
    <PartialObjectMeta<K> as Resource>::DynamicType: Default,
{
    let object = move |partial: PartialObjectMeta<K>| {
        let key = key(&partial.metadata);
        let meta = std::sync::Arc::new(meta(partial.metadata, kind));
        let object = if kind == Kind::Namespace { Object::Namespace(meta) } else { Object::ConfigMap(meta) };
        (key, Some(object))
    };
    watcher(api, page(PAGE)).map_ok(move |event| map(event, object)).boxed()
}

fn key(meta: &kube::core::ObjectMeta) -> ObjectKey {
    ObjectKey::new(meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

fn map<A, B>(event: watcher::Event<A>, f: impl FnOnce(A) -> B) -> watcher::Event<B> {
    match event {
        watcher::Event::Apply(object) => watcher::Event::Apply(f(object)),
        watcher::Event::Delete(object) => watcher::Event::Delete(f(object)),
        watcher::Event::InitApply(object) => watcher::Event::InitApply(f(object)),
        watcher::Event::Init => watcher::Event::Init,
        watcher::Event::InitDone => watcher::Event::InitDone,
    }
}

/// Sends on what the watches of one kind tell, until nobody takes it.
async fn follow(kind: Kind, watches: Vec<Watch>, events: &Sender<Event>) {
    let mut merge = Merge::new(kind, watches.len());
    let watches =
        watches.into_iter().enumerate().map(|(i, watch)| with_backoff(watch).map(move |told| (i, told)).boxed());
    let mut watches: SelectAll<_> = watches.collect();
    while let Some((i, told)) = watches.next().await {
        for event in merge.take(i, told) {
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
    // No namespace to watch: an empty list, once.
    if merge.watches.is_empty() && events.send(Event::Listed(kind, Vec::new())).await.is_err() {
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
                if !matches!(arrival, watcher::Event::Init) {
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
    use watcher::Error::{InitialListFailed, WatchFailed, WatchStartFailed};
    let refused = match error {
        InitialListFailed(kube::Error::Api(status))
        | WatchStartFailed(kube::Error::Api(status))
        | WatchFailed(kube::Error::Api(status)) => (400..500).contains(&status.code) && status.code != 410,
        _ => false,
    };
    let longest = if refused { REFUSED } else { AWAY };
    if wait <= longest {
        return wait;
    }
    let half = longest / 2;
    half + Duration::from_nanos((wait.as_nanos() % half.as_nanos()) as u64)
}

/// Makes one list of the lists of several watches of a kind.
struct Merge {
    kind: Kind,
    watches: Vec<State>,
    listed: bool,
    faulty: BTreeSet<usize>,
}

/// One watch: what a list under way has brought, and the keys of what it holds.
#[derive(Default)]
struct State {
    list: Option<BTreeMap<ObjectKey, Object>>,
    /// Until all watches are listed: the objects. Empty from then on, if it is the only watch.
    held: BTreeMap<ObjectKey, Option<Object>>,
    listed: bool,
}

impl Merge {
    fn new(kind: Kind, watches: usize) -> Self {
        let watches = (0..watches).map(|_| State::default()).collect();
        Self { kind, watches, listed: false, faulty: BTreeSet::new() }
    }

    /// The events of what watch `i` told.
    fn take(&mut self, i: usize, told: Told) -> Vec<Event> {
        let kind = self.kind;
        let arrival = match told {
            Ok(arrival) => arrival,
            Err((error, wait)) => {
                // An expired watch starts over with a list, which is nobody's fault.
                if is_expired(&error) {
                    return Vec::new();
                }
                self.faulty.insert(i);
                return vec![Event::Fault { origin: origin(kind), message: describe(kind, &error, wait) }];
            }
        };
        let mut events = Vec::new();
        // A list begins before the first request is made, so it proves nothing.
        if !matches!(arrival, watcher::Event::Init) && self.faulty.remove(&i) && self.faulty.is_empty() {
            events.push(Event::Healed(origin(kind)));
        }
        let single = self.watches.len() == 1;
        let Some(watch) = self.watches.get_mut(i) else { return events };
        match arrival {
            watcher::Event::Init => watch.list = Some(BTreeMap::new()),
            watcher::Event::InitApply((key, object)) => {
                if let Some(object) = object {
                    watch.list.get_or_insert_default().insert(key, object);
                }
            }
            watcher::Event::InitDone => {
                let list = watch.list.take().unwrap_or_default();
                watch.listed = true;
                if single {
                    self.listed = true;
                    events.push(Event::Listed(kind, list.into_values().collect()));
                } else if self.listed {
                    // One namespace of several: told as the difference.
                    let gone = watch.held.keys().filter(|key| !list.contains_key(key));
                    events.extend(gone.map(|key| Event::Deleted(kind, key.clone())));
                    watch.held = list.keys().map(|key| (key.clone(), None)).collect();
                    events.extend(list.into_values().map(Event::Applied));
                } else {
                    watch.held = list.into_iter().map(|(key, object)| (key, Some(object))).collect();
                    events.extend(self.first_list());
                }
            }
            watcher::Event::Apply((key, Some(object))) => {
                let keep = (!self.listed).then(|| object.clone());
                if !single {
                    watch.held.insert(key, keep);
                }
                if self.listed {
                    events.push(Event::Applied(object));
                }
            }
            watcher::Event::Delete((key, _)) | watcher::Event::Apply((key, None)) => {
                watch.held.remove(&key);
                if self.listed {
                    events.push(Event::Deleted(kind, key));
                }
            }
        }
        events
    }

    /// The list of all watches, once each has its own.
    fn first_list(&mut self) -> Option<Event> {
        if !self.watches.iter().all(|watch| watch.listed) {
            return None;
        }
        self.listed = true;
        let held = self.watches.iter_mut().flat_map(|watch| watch.held.values_mut());
        Some(Event::Listed(self.kind, held.filter_map(Option::take).collect()))
    }
}

fn origin(kind: Kind) -> ObjectRef {
    ObjectRef::new(kind.as_str(), "", "*")
}

/// The plural and group, as RBAC writes them.
fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::Ingress => "ingresses.networking.k8s.io",
        Kind::IngressClass => "ingressclasses.networking.k8s.io",
        Kind::Service => "services",
        Kind::EndpointSlice => "endpointslices.discovery.k8s.io",
        Kind::Secret => "secrets",
        Kind::ConfigMap => "configmaps",
        Kind::Namespace => "namespaces",
    }
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
    let plural = plural(kind);
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
