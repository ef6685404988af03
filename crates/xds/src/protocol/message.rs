//! The messages of a stream, independent of the transport: decoded requests, and responses with shared resources.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use envoy_types::pb::google::protobuf::value::Kind;
use envoy_types::pb::google::protobuf::{Struct, Value};

use super::locators::Locator;
use super::rejection::Rejection;
use crate::snapshot::{Body, Resource, ResourceType, canonical};

/// The protocol variant of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// State of the world: a response contains all requested resources, or all changed resources.
    Sotw,
    /// Incremental: a response contains differences.
    Delta,
}

impl Variant {
    /// Returns `sotw` or `delta`, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Variant::Sotw => "sotw",
            Variant::Delta => "delta",
        }
    }
}

/// The client of a stream, according to its first request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    /// `node.id`. Several streams can have the same ID, so no state is keyed by it.
    pub id: String,
    /// `node.cluster`.
    pub cluster: String,
    /// `node.user_agent_name`: `envoy`, `gRPC C-core ...`.
    pub user_agent: String,
    /// `node.client_features`.
    pub features: Vec<String>,
    /// `node.metadata`.
    pub metadata: serde_json::Map<String, serde_json::Value>,
}

impl Node {
    /// Returns whether the client is an Envoy.
    pub fn is_envoy(&self) -> bool {
        self.user_agent == "envoy"
    }

    /// Returns whether the client is a gRPC library: `gRPC C-core linux Python`, `gRPC Go`, `gRPC Java`, ...
    pub fn is_grpc(&self) -> bool {
        self.user_agent.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("grpc"))
    }

    /// Returns whether the client supports a TTL for resources of `kind`.
    pub fn takes_leases(&self, variant: Variant, kind: ResourceType) -> bool {
        let has = |feature: &str| self.features.iter().any(|own| own == feature);
        match variant {
            Variant::Delta => true,
            // Envoy 1.40 crashes when such a TTL expires (envoy#24271).
            Variant::Sotw if self.is_envoy() && kind == ResourceType::ENDPOINTS => false,
            Variant::Sotw => has("xds.config.supports-resource-ttl") && has("xds.config.resource-in-sotw"),
        }
    }
}

impl From<core_v3::Node> for Node {
    fn from(node: core_v3::Node) -> Self {
        Self {
            id: node.id,
            cluster: node.cluster,
            user_agent: node.user_agent_name,
            features: node.client_features,
            metadata: node.metadata.map(json_object).unwrap_or_default(),
        }
    }
}

fn json_object(object: Struct) -> serde_json::Map<String, serde_json::Value> {
    object.fields.into_iter().map(|(key, value)| (key, json(value))).collect()
}

fn json(value: Value) -> serde_json::Value {
    match value.kind {
        None | Some(Kind::NullValue(_)) => serde_json::Value::Null,
        Some(Kind::NumberValue(number)) => number.into(),
        Some(Kind::StringValue(text)) => text.into(),
        Some(Kind::BoolValue(bool)) => bool.into(),
        Some(Kind::StructValue(object)) => json_object(object).into(),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(json).collect(),
    }
}

/// A request of either variant.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Request {
    /// The node. Only the first one of a stream counts.
    pub node: Option<Node>,
    /// The requested type. Empty means the type of the service.
    pub type_url: String,
    /// The nonce of the response that the request answers, or empty.
    pub nonce: String,
    /// The reason of a NACK.
    pub error: Option<String>,
    /// State of the world: `version_info`.
    pub version: String,
    /// State of the world: `resource_names`. Delta: `resource_names_subscribe`.
    pub subscribe: Vec<String>,
    /// Delta: `resource_names_unsubscribe`.
    pub unsubscribe: Vec<String>,
    /// Delta: `resource_locators_subscribe`.
    pub locators: Vec<Locator>,
    /// Delta: `resource_locators_unsubscribe`.
    pub locators_unsubscribe: Vec<Locator>,
    /// Delta: the versions that the client has from an earlier stream.
    pub initial_versions: BTreeMap<String, String>,
    /// State of the world: the resources of `version`, if known.
    pub held: Option<Arc<[Arc<Resource>]>>,
}

impl Request {
    /// Converts every name to its canonical form.
    pub(crate) fn canonicalize(&mut self) {
        for name in self.subscribe.iter_mut().chain(&mut self.unsubscribe) {
            if let Cow::Owned(other) = canonical(name) {
                *name = other;
            }
        }
        if self.initial_versions.keys().any(|name| matches!(canonical(name), Cow::Owned(_))) {
            let versions = std::mem::take(&mut self.initial_versions);
            self.initial_versions =
                versions.into_iter().map(|(name, version)| (canonical(&name).into_owned(), version)).collect();
        }
    }
}

impl From<discovery_v3::DiscoveryRequest> for Request {
    fn from(request: discovery_v3::DiscoveryRequest) -> Self {
        Self {
            node: request.node.map(Node::from),
            type_url: request.type_url,
            nonce: request.response_nonce,
            error: request.error_detail.map(|status| status.message),
            version: request.version_info,
            // Only delta clients can select variants. Others get the resource without constraints.
            subscribe: request
                .resource_names
                .into_iter()
                .chain(request.resource_locators.into_iter().map(|locator| locator.name))
                .collect(),
            ..Self::default()
        }
    }
}

impl From<discovery_v3::DeltaDiscoveryRequest> for Request {
    fn from(request: discovery_v3::DeltaDiscoveryRequest) -> Self {
        Self {
            node: request.node.map(Node::from),
            type_url: request.type_url,
            nonce: request.response_nonce,
            error: request.error_detail.map(|status| status.message),
            version: String::new(),
            subscribe: request.resource_names_subscribe,
            unsubscribe: request.resource_names_unsubscribe,
            locators: request.resource_locators_subscribe.into_iter().map(Locator::from).collect(),
            locators_unsubscribe: request.resource_locators_unsubscribe.into_iter().map(Locator::from).collect(),
            initial_versions: request.initial_resource_versions.into_iter().collect(),
            held: None,
        }
    }
}

/// A response of either variant, before encoding.
#[derive(Debug, Clone)]
pub struct Response {
    /// The `type_url` of the client's requests.
    pub type_url: Arc<str>,
    /// The nonce, which is never empty and unique on a stream.
    pub nonce: String,
    /// State of the world: `version_info`. Delta: `system_version_info`.
    pub version: String,
    /// The resources that are set.
    pub resources: Resources,
    /// The resources whose TTL is renewed without sending them again.
    pub heartbeats: Vec<Arc<Resource>>,
    /// State of the world: whether TTLs are sent. Each resource with a TTL then has a wrapper.
    pub leases: bool,
    /// Delta: the names that were removed or do not exist.
    pub removed: Vec<Arc<str>>,
    /// State of the world: the requested names that do not exist (`resource_errors`).
    pub missing: Vec<Arc<str>>,
}

/// The resources of a response: its own, or a body that it shares with other responses.
#[derive(Debug, Clone)]
pub enum Resources {
    /// Resources of this response only.
    Own(Vec<Arc<Resource>>),
    /// Resources that other responses share.
    Shared(Arc<Body>),
}

impl Default for Resources {
    fn default() -> Self {
        Self::Own(Vec::new())
    }
}

impl From<Vec<Arc<Resource>>> for Resources {
    fn from(resources: Vec<Arc<Resource>>) -> Self {
        Self::Own(resources)
    }
}

impl From<Arc<Body>> for Resources {
    fn from(body: Arc<Body>) -> Self {
        Self::Shared(body)
    }
}

impl<'a> IntoIterator for &'a Resources {
    type Item = &'a Arc<Resource>;
    type IntoIter = std::slice::Iter<'a, Arc<Resource>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Deref for Resources {
    type Target = [Arc<Resource>];

    fn deref(&self) -> &[Arc<Resource>] {
        match self {
            Self::Own(resources) => resources,
            Self::Shared(body) => body.resources(),
        }
    }
}

/// The output of a stream: a response to send, or an event.
#[derive(Debug)]
pub enum Output {
    /// A response to send, in this order.
    Send(Response),
    /// An event to log and count.
    Notice(Notice),
}

/// An event on a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// The client accepted a response.
    Acked {
        /// The type of the response.
        kind: ResourceType,
        /// The nonce of the response.
        nonce: String,
        /// The time from sending the response to the ACK.
        latency: Duration,
    },
    /// The client accepted a response, by its version, in a reply with the error of an earlier response.
    OldError {
        /// The type of the response.
        kind: ResourceType,
        /// The nonce of the response.
        nonce: String,
        /// The client's reason, unchanged.
        message: String,
    },
    /// The client rejected a response or an individual resource.
    Rejected(Rejection),
    /// A rejected resource was accepted in another version, was removed, or is no longer requested.
    Recovered {
        /// The type of the resource.
        kind: ResourceType,
        /// The name of the resource.
        name: Arc<str>,
    },
    /// The client did not answer a response in time. Waiting responses are sent.
    Unanswered {
        /// The type of the response.
        kind: ResourceType,
        /// The nonce of the response.
        nonce: String,
    },
}
