//! What others may learn of streams: hooks for logs and metrics, and the state of every stream for a debug page.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::SystemTime;

use serde_json::{Value, json};
use tokio::sync::watch;

use super::message::{Node, Notice, Request, Response, Variant};
use super::refusals::Refused;
use super::stream::Stream;
use crate::snapshot::{Snapshot, Store};

/// What identifies a stream in a log: constant while it is open.
#[derive(Debug, Clone)]
pub struct StreamInfo {
    /// Unique in this process.
    pub id: u64,
    /// The client's address.
    pub peer: SocketAddr,
    /// The variant spoken.
    pub variant: Variant,
}

/// Hooks into the life of streams: `opened`, `introduced`, then `received`, `sent` and `noticed` as messages come and
/// go, `closed`. All are called on the stream's own task: they must not block. Those who need not all of them leave the
/// others out.
///
/// A request without a stream (unary methods, REST) is `received` and `sent` under a number of its own.
pub trait Observer: Send + Sync + 'static {
    /// A stream is open; its client has not said who it is.
    fn opened(&self, _stream: &StreamInfo) {}
    /// The client has said who it is.
    fn introduced(&self, _stream: &StreamInfo, _node: &Node) {}
    /// A request has come, an ACK or NACK too, and is about to be looked at. Those that cannot be read close the stream.
    fn received(&self, _stream: &StreamInfo, _node: &Node, _request: &Request) {}
    /// A response is about to be written; `bytes` is its encoded size.
    fn sent(&self, _stream: &StreamInfo, _node: &Node, _response: &Response, _bytes: usize) {}
    /// The client accepted or rejected a response, or kept silent.
    fn noticed(&self, _stream: &StreamInfo, _node: &Node, _notice: &Notice) {}
    /// The stream is closed; `reason` in lower case.
    fn closed(&self, _stream: &StreamInfo, _node: Option<&Node>, _reason: &str) {}
    /// A stream was refused: it was closed with an error, on opening it or for what it asked.
    fn stream_refused(&self, _peer: SocketAddr) {}
    /// A connection was refused. The server has logged it, or leaves it out because it has logged the like a moment ago.
    fn refused(&self, _peer: SocketAddr, _reason: Refused) {}
    /// What to append to the log line about a client whose names give it no role: where names are set.
    fn help_with_names(&self) -> String {
        String::new()
    }
}

/// All open streams, for a debug page and for those who want to know how far they are. Holds no stream alive.
#[derive(Debug, Default)]
pub struct Registry {
    streams: Mutex<BTreeMap<u64, Entry>>,
    /// How many these are: asked with each message.
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
    /// The newest snapshot of the store that it is served from, while there is one.
    pub newest: Option<Arc<Snapshot>>,
}

impl Registry {
    /// A stream is served from `store`.
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

    /// A stream has come, gone, or answered.
    pub(super) fn progressed(&self) {
        if self.progress.receiver_count() > 0 {
            self.progress.send_replace(());
        }
    }

    /// Tells when [`Registry::acceptance`] may have another answer. To be dropped when nobody waits for that, for it costs
    /// something with each answer of a client.
    pub fn progress(&self) -> watch::Receiver<()> {
        self.progress.subscribe()
    }

    /// How many streams are open.
    pub fn len(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether no stream is open.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The open streams, in the order in which they were opened.
    pub(super) fn streams(&self) -> Vec<Open> {
        let entries = self.lock();
        let open = |entry: &Entry| {
            let newest = entry.store.upgrade().and_then(|store| store.newest());
            Some(Open { stream: entry.stream.upgrade()?, newest })
        };
        entries.values().filter_map(open).collect()
    }

    /// Every open stream: node, peer, and per type what was asked for, sent, accepted and rejected.
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
