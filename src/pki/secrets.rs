//! The Secrets of the certificates at the API server. Every replica follows its own key pair, and the leader performs
//! the writes of [`plan()`](super::plan()).
//!
//! There is no polling: watches of single Secrets wake the writer. Before a write, the writer reads all Secrets again in the
//! order that [`pki`](super) requires. A replica that does not lead reads only the Secret of its own key pair. The leader watches
//! only the metadata of the other Secrets.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PartialObjectMeta, PostParams};
use kube::runtime::watcher::{self, Config, watcher};
use kube::runtime::{WatchStreamExt, utils::Backoff, watcher::DefaultBackoff};
use tokio::sync::{Notify, watch};

use super::{
    AUTHORITIES, CERTIFICATE, CertificateError, DedicatedFleets, KEY, Material, Role, SecretContent, Step, Stored,
    WantedCertificates, not_after, plan,
};
use crate::channel::send_if_changed;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::source::cluster::reason;
use crate::source::cluster::retry::ShortBackoff;

/// The timeout of a pass of reads and writes, after which it starts again.
const PASS: Duration = Duration::from_secs(20);
/// The maximum number of writes in a pass.
const STEPS: u32 = 16;
/// The maximum sleep, because clocks are set and machines are suspended.
const LONGEST_REST: Duration = Duration::from_secs(12 * 60 * 60);

/// The Secrets of the certificates, and their required content.
pub struct Secrets {
    api: Api<Secret>,
    wanted: WantedCertificates,
    metrics: Metrics,
    /// The fleets that need a key pair.
    fleets: watch::Receiver<DedicatedFleets>,
    /// Notifies of a change of a Secret.
    changed: Notify,
}

/// The reason why a due write failed.
#[derive(Debug, thiserror::Error)]
enum Failure {
    /// The API server reported an error.
    #[error("cannot {verb} the Secret \"{name}\": {}{hint}", reason(error))]
    Api { verb: &'static str, name: String, error: Box<kube::Error>, hint: &'static str },
    /// A certificate cannot be created, for example because of an invalid name.
    #[error(transparent)]
    Fault(#[from] CertificateError),
    /// Another writer overwrites the Secrets repeatedly.
    #[error("another writer changes the Secrets repeatedly")]
    Unstable,
    /// The API server did not respond in time.
    #[error("the API server does not respond in time")]
    Slow,
}

impl Secrets {
    /// Creates the Secrets of `wanted` in its namespace.
    pub fn new(
        client: kube::Client,
        wanted: WantedCertificates,
        fleets: watch::Receiver<DedicatedFleets>,
        metrics: Metrics,
    ) -> Self {
        let api = Api::namespaced(client, &wanted.namespace);
        Self { api, wanted, metrics, fleets, changed: Notify::new() }
    }

    /// Sends the controller's key pair to `supply` whenever it changes, and maintains all Secrets while this replica
    /// leads. Ends when there is no receiver.
    pub async fn maintain(self, leader: Leader, supply: watch::Sender<Option<Result<Material, String>>>) {
        tokio::select! {
            () = self.follow(&supply) => {}
            () = self.maintain_while_leading(leader) => {}
            () = supply.closed() => {}
        }
    }

    fn name(&self, role: Role) -> String {
        format!("{}-{}", self.wanted.prefix, role.suffix())
    }

    fn only(&self, role: Role) -> Config {
        Config::default().fields(&format!("metadata.name={}", self.name(role)))
    }

    /// Follows the controller's own key pair.
    async fn follow(&self, supply: &watch::Sender<Option<Result<Material, String>>>) {
        let mut events = watcher(self.api.clone(), self.only(Role::Server)).backoff(ShortBackoff::default()).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(watcher::Event::Apply(secret) | watcher::Event::InitApply(secret)) => {
                    let content = content(&secret);
                    if [CERTIFICATE, KEY, AUTHORITIES].iter().all(|key| !content.get(key).is_empty()) {
                        let told = Some(Ok(Material::from(&content)));
                        send_if_changed(supply, told);
                    }
                }
                Ok(watcher::Event::Delete(_)) => {
                    let name = self.name(Role::Server);
                    tracing::warn!(name, "the Secret is gone; its last key pair stays in use");
                }
                Ok(watcher::Event::Init | watcher::Event::InitDone) => {}
                Err(error) => self.cannot_watch(Role::Server, &error),
            }
            self.changed.notify_one();
        }
    }

    fn cannot_watch(&self, role: Role, error: &watcher::Error) {
        let expired = matches!(error, watcher::Error::WatchError(status) if status.code == 410);
        if !expired {
            let name = self.name(role);
            tracing::warn!(name, error = %watch_reason(error), "cannot watch the Secret; retrying");
        }
    }

    /// Maintains the Secrets whenever this replica leads.
    async fn maintain_while_leading(&self, leader: Leader) {
        loop {
            leader.leading().await;
            let all = async {
                tokio::join!(self.work(), self.wake(Role::Authority), self.wake(Role::Envoy), self.wake_for_fleets())
            };
            leader.while_leading(all).await;
        }
    }

    /// Wakes the writer on changes of a Secret that only the leader needs.
    async fn wake(&self, role: Role) {
        let api: Api<PartialObjectMeta<Secret>> =
            Api::namespaced(self.api.clone().into_client(), &self.wanted.namespace);
        let mut events = watcher(api, self.only(role)).backoff(ShortBackoff::default()).map_ok(drop_object).boxed();
        while let Some(event) = events.next().await {
            match event {
                Ok(()) => self.changed.notify_one(),
                Err(error) => self.cannot_watch(role, &error),
            }
        }
    }

    /// Wakes the writer on changes of the fleets and of their Secret.
    async fn wake_for_fleets(&self) {
        if *self.fleets.borrow() == DedicatedFleets::Off {
            return;
        }
        let mut fleets = self.fleets.clone();
        let follow = async {
            while fleets.changed().await.is_ok() {
                self.changed.notify_one();
            }
        };
        tokio::join!(follow, self.wake(Role::Fleets));
    }

    /// Performs writes when they are due.
    async fn work(&self) {
        let mut backoff = DefaultBackoff::default();
        let mut said = String::new();
        loop {
            let done = tokio::time::timeout(PASS, self.pass()).await.unwrap_or(Err(Failure::Slow));
            let rest = match done {
                Ok(until) => {
                    backoff.reset();
                    said.clear();
                    let rest = until.duration_since(SystemTime::now()).unwrap_or_default();
                    tokio::select! {
                        () = self.changed.notified() => continue,
                        () = tokio::time::sleep(rest.min(LONGEST_REST)) => continue,
                    }
                }
                Err(failure) => {
                    let rest = backoff.next().unwrap_or(Duration::from_secs(30));
                    let failure = failure.to_string();
                    if failure != said {
                        tracing::error!("cannot maintain the certificates of xDS: {failure}; retrying");
                        said = failure;
                    }
                    rest
                }
            };
            tokio::time::sleep(rest).await;
        }
    }

    /// Performs all due writes. Returns the next due time.
    async fn pass(&self) -> Result<SystemTime, Failure> {
        for _ in 0..STEPS {
            // The authority is read last: the writer of another Secret has seen it in its current version, or an older
            // one.
            let mut secrets = BTreeMap::new();
            let fleets = self.fleets.borrow().clone();
            let of_fleets = Some(Role::Fleets).filter(|_| fleets != DedicatedFleets::Off);
            let wanted = WantedCertificates { fleets, ..self.wanted.clone() };
            for role in [Role::Server, Role::Envoy].into_iter().chain(of_fleets).chain([Role::Authority]) {
                let name = self.name(role);
                let secret = self.api.get_opt(&name).await.map_err(|error| failure("read", name, error))?;
                secrets.extend(secret.map(|secret| (role, secret)));
            }
            let mut stored = Stored::default();
            for (role, secret) in &secrets {
                stored.set(*role, Some(content(secret)));
            }
            match plan(SystemTime::now(), &stored, &wanted)? {
                Step::Wait(until) => {
                    self.record_expiry(&stored);
                    return Ok(until);
                }
                Step::Write { role, content, reason } => {
                    if self.write(role, secrets.remove(&role), content).await? {
                        tracing::info!(name = self.name(role), "wrote the Secret: {reason}");
                    }
                }
            }
        }
        Err(Failure::Unstable)
    }

    /// Writes a Secret. Returns `false` if another writer was faster.
    async fn write(&self, role: Role, secret: Option<Secret>, content: SecretContent) -> Result<bool, Failure> {
        let name = self.name(role);
        let params = PostParams::default();
        let data = content.data.into_iter().map(|(key, value)| (key, ByteString(value))).collect();
        let verb = if secret.is_some() { "update" } else { "create" };
        let result = match secret {
            // The resource version makes the write fail if the Secret has changed since the read.
            Some(mut secret) => {
                secret.data = Some(data);
                secret.metadata.annotations = Some(content.annotations);
                self.api.replace(&name, &params, &secret).await
            }
            None => {
                let labels = [("app.kubernetes.io/name", "lockgate"), ("app.kubernetes.io/managed-by", "lockgate")];
                let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
                let metadata = ObjectMeta {
                    name: Some(name.clone()),
                    labels: Some(labels),
                    annotations: Some(content.annotations),
                    ..ObjectMeta::default()
                };
                self.api.create(&params, &Secret { metadata, data: Some(data), ..Secret::default() }).await
            }
        };
        match result {
            Ok(_) => Ok(true),
            // Another writer has changed, created, or deleted it meanwhile. If it cannot be created, the namespace does
            // not exist.
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
            Err(kube::Error::Api(status)) if status.code == 404 && verb == "update" => Ok(false),
            Err(error) => Err(failure(verb, name, error)),
        }
    }

    /// Records the expiry of each certificate in the metrics.
    fn record_expiry(&self, stored: &Stored) {
        let part = |role, key| stored.get(role).map(|content| content.get(key)).unwrap_or_default();
        if let Ok((envoy, _)) = not_after(part(Role::Envoy, CERTIFICATE)) {
            self.metrics.set_certificate_expiry("envoy", envoy);
        }
    }
}

fn drop_object<K>(_: watcher::Event<K>) {}

fn content(secret: &Secret) -> SecretContent {
    let data = secret.data.iter().flatten().map(|(key, value)| (key.clone(), value.0.clone())).collect();
    SecretContent { data, annotations: secret.metadata.annotations.clone().unwrap_or_default() }
}

fn failure(verb: &'static str, name: String, error: kube::Error) -> Failure {
    let forbidden = matches!(&error, kube::Error::Api(status) if status.code == 403);
    let hint = match (forbidden, verb) {
        (true, "create") => "; create it, empty, or grant create on secrets",
        (true, _) => "; grant get, list, watch and update on it by name",
        _ => "",
    };
    Failure::Api { verb, name, error: Box::new(error), hint }
}

fn watch_reason(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => reason(error),
        watcher::Error::WatchError(status) => status.message.clone(),
        watcher::Error::NoResourceVersion => "the API server gave no resource version".into(),
    }
}
