//! The watch of a kind that the API server provides in JSON: custom resources, metadata, and the claims of hosts. It is built on
//! `kube::runtime::watcher`.
//!
//! The watcher never fails because of an object: [`Reduced`] accepts any JSON value, and a fault is part of the object. This module
//! decides where a watch continues after an error: at its version, or with a new list. An API server without streaming lists receives
//! requests for lists. [`observed`] reports news of an unchanged kind, ends silent responses, and requests the latest state.

mod observed;
pub mod reduced;

use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use kube::runtime::watcher::{self, Config, InitialListStrategy};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use tokio::sync::watch::Receiver;

use super::read::Malformed;
use super::watch::{Arrival, Target, WATCH_SECONDS, WatchStream, is_refused, malformed};
use crate::source::decode::Decode;

use reduced::Reduced;

type Events<K> = BoxStream<'static, watcher::Result<watcher::Event<Reduced<K>>>>;

/// Lists and then watches forever. After a failure, it continues when it is polled again.
pub fn watch<K: Decode + DeserializeOwned + 'static>(target: Target) -> WatchStream {
    unfold(Custom::<K>::new(target), |mut watch| async move { Some((watch.next().await, watch)) }).boxed()
}

struct Custom<K> {
    target: Target,
    client: Client,
    /// Changes when bytes of a response arrive, unless they are an error.
    news: Receiver<()>,
    strategy: InitialListStrategy,
    events: Events<K>,
    /// Whether the list is complete.
    listed: bool,
    /// Whether an error was the last event.
    failed: bool,
}

impl<K: Decode + DeserializeOwned + 'static> Custom<K> {
    fn new(target: Target) -> Self {
        let (client, news) = observed::client(target.client.clone());
        let mut this = Self {
            target,
            client,
            news,
            strategy: InitialListStrategy::StreamingList,
            events: futures::stream::pending().boxed(),
            listed: false,
            failed: false,
        };
        this.restart();
        this
    }

    /// Starts with a new list.
    fn restart(&mut self) {
        let Target { kind, namespace, fields, labels, .. } = &self.target;
        let api = match namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, kind),
            None => Api::all_with(self.client.clone(), kind),
        };
        let config = Config {
            field_selector: fields.map(str::to_owned),
            label_selector: labels.clone(),
            timeout: Some(WATCH_SECONDS),
            initial_list_strategy: self.strategy.clone(),
            ..Config::default()
        };
        self.events = watcher::watcher(api, config).boxed();
        (self.listed, self.failed) = (false, false);
    }

    async fn next(&mut self) -> watcher::Result<Arrival> {
        loop {
            let event = tokio::select! {
                biased;
                event = self.events.next() => event,
                Ok(()) = self.news.changed(), if self.listed => return Ok(Arrival::Alive),
            };
            // An event is news.
            self.news.mark_unchanged();
            match event {
                Some(Ok(event)) => {
                    if let Some(arrival) = self.arrival(event) {
                        return arrival;
                    }
                }
                Some(Err(error)) => {
                    if let Some(error) = self.failure(error).await {
                        return Err(error);
                    }
                }
                // The watcher never ends.
                None => self.restart(),
            }
        }
    }

    /// Returns the report of an event, if there is one.
    fn arrival(&mut self, event: watcher::Event<Reduced<K>>) -> Option<watcher::Result<Arrival>> {
        use watcher::Event::{Apply, Delete, Init, InitApply, InitDone};
        self.failed = false;
        Some(Ok(match event {
            Init => Arrival::ListStarted,
            InitApply(object) if object.item.key.name.is_empty() => {
                tracing::error!(url = self.target.url(), "omitted an object of a list without a readable name");
                return None;
            }
            InitApply(object) => Arrival::ListItem(object.item.key, object.item.object),
            InitDone => {
                self.listed = true;
                Arrival::ListEnded
            }
            Apply(object) | Delete(object) if object.item.key.name.is_empty() => {
                self.restart();
                return Some(Err(watcher::Error::WatchFailed(malformed(Malformed::Unnamed))));
            }
            Apply(object) => Arrival::Applied(object.item.key, object.item.object),
            Delete(object) => Arrival::Deleted(object.item.key),
        }))
    }

    /// Decides where the watch continues after an error. Returns the error to report, if any.
    async fn failure(&mut self, error: watcher::Error) -> Option<watcher::Error> {
        use watcher::Error::{InitialListFailed, WatchError, WatchFailed, WatchStartFailed};
        if !self.listed {
            if is_unsupported(&error) && self.strategy == InitialListStrategy::StreamingList {
                tracing::debug!(url = self.target.url(), %error, "the API server has no streaming lists");
                self.strategy = InitialListStrategy::ListWatch;
                self.restart();
                return None;
            }
            self.restart();
            return Some(match error {
                InitialListFailed(error) | WatchStartFailed(error) => {
                    InitialListFailed(self.target.absence(error).await)
                }
                error => error,
            });
        }
        match &error {
            // The connection is lost, and the watcher continues at the same version. Its request reports the reason.
            WatchFailed(kube::Error::ReadEvents(fault)) => {
                tracing::debug!(error = %fault, "a watch was cut off");
                return None;
            }
            WatchStartFailed(error) if !is_refused(error) => {}
            // Code 0 is an error that cannot be decoded: perhaps an expired version.
            WatchError(status) if !matches!(status.code, 0 | 410) && !self.failed => self.failed = true,
            _ => self.restart(),
        }
        Some(error)
    }
}

/// Returns whether the API server lacks lists by a watch: versions before 1.32 in their default configuration.
fn is_unsupported(error: &watcher::Error) -> bool {
    const BAD_REQUEST: u16 = 400;
    const METHOD_NOT_ALLOWED: u16 = 405;
    const INVALID: u16 = 422;
    let watcher::Error::WatchStartFailed(kube::Error::Api(status)) = error else { return false };
    [BAD_REQUEST, METHOD_NOT_ALLOWED, INVALID].contains(&status.code)
}

#[cfg(test)]
mod tests;
