//! The log lines and metrics of xDS streams.

mod rejections;

use std::net::SocketAddr;

use lockgate_route::envoy::changed_objects;
use lockgate_route::translate::problem::Problems;
use lockgate_xds::protocol::{Node, Notice, Rejection, RejectionScope, Response};
use lockgate_xds::server::{Observer, Refused, StreamInfo};
use tokio::sync::watch;

use crate::cmd::bootstrap::{OPEN_FILES, files};
use crate::metrics::Metrics;
use crate::settings::Overload;

use rejections::Rejections;

/// The maximum number of names in a log line.
const MAX_NAMES: usize = 5;

/// Logs and counts the events of streams.
pub(super) struct LogAndCount {
    metrics: Metrics,
    rejections: Rejections,
}

impl LogAndCount {
    /// Creates the observer, and the receiver of the problems of objects whose resources a client rejects.
    pub fn new(metrics: Metrics) -> (Self, watch::Receiver<Problems>) {
        let (rejections, problems) = Rejections::new(metrics.clone());
        (Self { metrics, rejections }, problems)
    }
}

/// Logs a single message of a stream. Every Envoy receives and acknowledges every change, so these lines are at DEBUG. The target is
/// that of the server, which `info,lockgate_xds=debug` selects.
macro_rules! message {
    ($($field:tt)*) => { tracing::debug!(target: "lockgate_xds", $($field)*) };
}

impl LogAndCount {
    fn rejected(&self, stream: u64, node: &Node, rejection: &Rejection) {
        let (node_id, type_url, message) = (&node.id, rejection.kind.short_name(), &rejection.message);
        match &rejection.scope {
            RejectionScope::Response { nonce, .. } => {
                self.metrics.nacked(type_url);
                let names = rejection.suspects.iter().take(MAX_NAMES).map(|resource| &**resource.name());
                let suspects = names.collect::<Vec<_>>().join(", ");
                tracing::warn!(node_id, stream, type_url, nonce, suspects, "NACK: {message}");
            }
            RejectionScope::Resource { last_good, accepted } => {
                for resource in &rejection.suspects {
                    let (name, version) = (resource.name(), resource.version());
                    let objects = changed_objects(resource, accepted.as_deref());
                    let of = objects.iter().take(MAX_NAMES).map(ToString::to_string).collect::<Vec<_>>().join(", ");
                    let instead = last_good.map_or("nothing".to_owned(), |version| version.to_string());
                    tracing::error!(
                        node_id, stream, type_url, %name, %version, of, instead,
                        "rejected, and omitted until the resource changes: {message}"
                    );
                    self.rejections.rejected(stream, resource, &objects, message, last_good.is_some());
                }
            }
        }
    }
}

impl Observer for LogAndCount {
    fn opened(&self, stream: &StreamInfo) {
        self.metrics.stream_opened(stream.variant.as_str());
    }

    fn introduced(&self, stream: &StreamInfo, node: &Node) {
        let (variant, client) = (stream.variant.as_str(), &node.user_agent);
        tracing::info!(node_id = node.id, peer = %stream.peer, stream = stream.id, variant, client, "stream opened");
        let limit = node.metadata.get(OPEN_FILES).and_then(serde_json::Value::as_f64);
        let needed = files(Overload::default().max_connections.into());
        if let Some(limit) = limit.filter(|limit| *limit < needed as f64) {
            tracing::warn!(
                node_id = node.id,
                "this Envoy can open {limit} files, which limits its client connections; raise the limit of open files of its \
                 containers to at least {needed} (LimitNOFILE of the container runtime)"
            );
        }
    }

    fn sent(&self, stream: &StreamInfo, node: &Node, response: &Response, bytes: usize) {
        let type_url = short(&response.type_url);
        let (set, removed) = (response.resources.len(), response.removed.len());
        if let Some(kind) = lockgate_xds::snapshot::ResourceType::of_url(&response.type_url) {
            self.metrics.pushed(kind.short_name(), set, bytes);
        }
        let (nonce, version) = (&response.nonce, &response.version);
        message!(
            node_id = node.id,
            stream = stream.id,
            type_url,
            nonce,
            version,
            set,
            removed,
            bytes,
            names = names(response),
            "sent"
        );
    }

    fn noticed(&self, stream: &StreamInfo, node: &Node, notice: &Notice) {
        let (node_id, stream) = (&node.id, stream.id);
        match notice {
            Notice::Acked { kind, nonce, latency } => {
                self.metrics.acked(kind.short_name(), *latency);
                let (type_url, ms) = (kind.short_name(), (latency.as_secs_f64() * 1e4).round() / 10.0);
                message!(node_id, stream, type_url, nonce, ms, "ACK");
            }
            Notice::Rejected(rejection) => self.rejected(stream, node, rejection),
            Notice::Recovered { kind, name } => {
                let type_url = kind.short_name();
                tracing::info!(node_id, stream, type_url, %name, "no longer rejected");
                self.rejections.recovered(stream, *kind, name);
            }
            Notice::OldError { kind, nonce, message } => {
                let type_url = kind.short_name();
                tracing::warn!(
                    node_id,
                    stream,
                    type_url,
                    nonce,
                    "accepted, according to the version in the reply; its error is about an earlier response: {message}"
                );
            }
            Notice::Unanswered { kind, nonce } => {
                self.metrics.gate_timed_out(kind.short_name());
                let type_url = kind.short_name();
                tracing::warn!(node_id, stream, type_url, nonce, "no answer in time; continuing without it");
            }
        }
    }

    fn closed(&self, stream: &StreamInfo, node: Option<&Node>, reason: &str) {
        self.metrics.stream_closed(stream.variant.as_str());
        self.rejections.closed(stream.id);
        let node_id = node.map_or("", |node| &node.id);
        tracing::info!(node_id, peer = %stream.peer, stream = stream.id, reason, "stream closed");
    }

    fn stream_refused(&self, _: SocketAddr) {
        self.metrics.stream_refused();
    }

    fn refused(&self, _: SocketAddr, reason: Refused) {
        self.metrics.connection_refused(reason.as_str());
    }

    fn help_with_names(&self) -> String {
        "; to accept it, add one of its names to xds.envoyNames (every secret), xds.grpcNames, or xds.replicaNames"
            .to_owned()
    }
}

/// Returns the first names in a response: first the set resources, then the removed ones.
fn names(response: &Response) -> String {
    let set = response.resources.iter().map(|resource| resource.name());
    let names: Vec<&str> = set.chain(&response.removed).take(MAX_NAMES + 1).map(|name| &**name).collect();
    match names.get(..MAX_NAMES).filter(|_| names.len() > MAX_NAMES) {
        Some(first) => format!("{}, ...", first.join(", ")),
        None => names.join(", "),
    }
}

/// Returns the short name of a type: `Cluster` for `type.googleapis.com/envoy.config.cluster.v3.Cluster`.
fn short(type_url: &str) -> &str {
    type_url.rsplit('.').next().unwrap_or(type_url)
}
