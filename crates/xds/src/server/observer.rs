//! Observation of streams: hooks for logs and metrics, and the state of every stream for a debug page.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::refusals::Refused;
use crate::protocol::Stream;
use crate::protocol::{Node, Notice, Request, Response, Variant};
use crate::snapshot::Store;

/// The identity of a stream in logs, which is constant while the stream is open.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    /// Unique in this process.
    pub id: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// The protocol variant.
    pub variant: Variant,
}

/// Hooks into the lifecycle of streams: `opened`, `introduced`, then `received`, `sent`, and `noticed` for messages, and
/// `closed`. The stream's own task calls all hooks, so they must not block. Every hook has an empty default.
///
/// A request without a stream (unary methods, REST) is `received` and `sent` with a separate stream ID.
pub trait Observer: Send + Sync + 'static {
    /// A stream is open. Its client is not yet identified.
    fn opened(&self, _stream: &StreamInfo) {}
    /// The client has identified itself.
    fn introduced(&self, _stream: &StreamInfo, _node: &Node) {}
    /// A request has arrived, including ACKs and NACKs, and is about to be handled. A malformed request closes the stream
    /// instead.
    fn received(&self, _stream: &StreamInfo, _node: &Node, _request: &Request) {}
    /// A response is about to be written; `bytes` is its encoded size.
    fn sent(&self, _stream: &StreamInfo, _node: &Node, _response: &Response, _bytes: usize) {}
    /// The client has accepted or rejected a response, or has not answered in time.
    fn noticed(&self, _stream: &StreamInfo, _node: &Node, _notice: &Notice) {}
    /// The stream is closed. `reason` is in lower case.
    fn closed(&self, _stream: &StreamInfo, _node: Option<&Node>, _reason: &str) {}
    /// A stream was refused: it was closed with an error, on opening or because of a request.
    fn stream_refused(&self, _peer: SocketAddr) {}
    /// A connection was refused. The server logs refusals itself, at a limited rate.
    fn refused(&self, _peer: SocketAddr, _reason: Refused) {}
    /// Returns a hint for the log line about a client whose names grant no role: where to configure names.
    fn help_with_names(&self) -> String {
        String::new()
    }
}

/// All open streams, for debug pages and acceptance. It holds weak references only.
#[derive(Debug, Default)]
pub struct Registry {
    streams: Mutex<BTreeMap<u64, Entry>>,
    /// The number of streams, which is read with each message.
    open: AtomicUsize,
    progress: watch::Sender<()>,
}

#[derive(Debug)]
struct Entry {
    info: StreamInfo,
    opened: SystemTime,
    stream: Weak<Mutex<Stream>>,
    store: Weak<Store>,
}

/// An open stream.
pub(super) struct Open {
    pub stream: Arc<Mutex<Stream>>,
    /// The stream's store, if it still exists.
    pub store: Option<Arc<Store>>,
}

impl Registry {
    /// Adds a stream that `store` serves.
    pub(super) fn add(&self, info: StreamInfo, stream: &Arc<Mutex<Stream>>, store: &Arc<Store>) {
        let (stream, store) = (Arc::downgrade(stream), Arc::downgrade(store));
        let entry = Entry { info, opened: SystemTime::now(), stream, store };
        let mut streams = self.lock();
        streams.insert(entry.info.id, entry);
        self.open.store(streams.len(), Ordering::Relaxed);
        drop(streams);
        self.progressed();
    }

    pub(super) fn remove(&self, id: u64) {
        let mut streams = self.lock();
        streams.remove(&id);
        self.open.store(streams.len(), Ordering::Relaxed);
        drop(streams);
        self.progressed();
    }

    /// Notifies the receivers of [`Registry::progress`].
    pub(super) fn progressed(&self) {
        if self.progress.receiver_count() > 0 {
            self.progress.send_replace(());
        }
    }

    /// Returns a receiver that changes when [`Registry::acceptance`] may have changed. Drop it when nobody waits: while it
    /// exists, each answer of a client costs a notification.
    pub fn progress(&self) -> watch::Receiver<()> {
        self.progress.subscribe()
    }

    /// Returns the number of open streams.
    pub fn len(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Returns whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the open streams in the order of their opening.
    pub(super) fn streams(&self) -> Vec<Open> {
        let entries = self.lock();
        let open = |entry: &Entry| Some(Open { stream: entry.stream.upgrade()?, store: entry.store.upgrade() });
        entries.values().filter_map(open).collect()
    }

    /// Describes every open stream: node, peer, and for each type the requested, sent, accepted, and rejected resources.
    pub fn describe(&self) -> Value {
        let entries: Vec<(StreamInfo, SystemTime, Weak<Mutex<Stream>>)> =
            self.lock().values().map(|e| (e.info.clone(), e.opened, e.stream.clone())).collect();
        let streams = entries.into_iter().filter_map(|(info, opened, stream)| {
            let stream = stream.upgrade()?;
            let stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
            let node = stream.node().cloned().unwrap_or_default();
            Some(json!({
                "stream": info.id,
                "peer": info.peer.to_string(),
                "variant": info.variant.as_str(),
                "open_seconds": opened.elapsed().unwrap_or_default().as_secs(),
                "node_id": node.id,
                "node_cluster": node.cluster,
                "user_agent": node.user_agent,
                "types": stream.describe(),
            }))
        });
        Value::Array(streams.collect())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Entry>> {
        self.streams.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
