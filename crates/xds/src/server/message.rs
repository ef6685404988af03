//! What a stream says and hears, free of transport: decoded requests, responses still as shared resources.

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

/// Which variant of the protocol a stream speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Variant {
    /// State of the world: a response holds all that was asked for, or all of it that changed.
    Sotw,
    /// Incremental: a response holds differences.
    Delta,
}

impl Variant {
    /// `sotw` or `delta`, for logs and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Variant::Sotw => "sotw",
            Variant::Delta => "delta",
        }
    }
}

/// Who is at the other end of a stream, as it says in its first request.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Node {
    /// `node.id`. Several streams may bear the same one; no state is keyed by it.
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
    /// Whether the client is an Envoy.
    pub fn is_envoy(&self) -> bool {
        self.user_agent == "envoy"
    }

    /// Whether the client is a gRPC library: `gRPC C-core linux Python`, `gRPC Go`, `gRPC Java`, ...
    pub fn is_grpc(&self) -> bool {
        self.user_agent.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("grpc"))
    }

    /// Whether times to live of resources of `kind` may be told to the client.
    pub fn takes_leases(&self, variant: Variant, kind: ResourceType) -> bool {
        let has = |feature: &str| self.features.iter().any(|own| own == feature);
        match variant {
            Variant::Delta => true,
            // Envoy 1.40 crashes when one runs out (envoy#24271).
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
    /// The node; only the first one of a stream counts.
    pub node: Option<Node>,
    /// The type asked for; empty means the one that the service implies.
    pub type_url: String,
    /// The response that it answers, or empty.
    pub nonce: String,
    /// Present in a NACK: why the response was rejected.
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
    /// Delta: what the client has from an earlier stream.
    pub initial_versions: BTreeMap<String, String>,
    /// State of the world: what `version` stands for, if that is known.
    pub held: Option<Arc<[Arc<Resource>]>>,
}

impl Request {
    /// Gives every name in it its canonical form.
    pub(super) fn canonicalise(&mut self) {
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
            // Variants are for delta clients only: others get what is there for everybody.
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

/// A response of either variant, not yet encoded.
#[derive(Debug, Clone)]
pub struct Response {
    /// `type_url`, as the client spelled it.
    pub type_url: Arc<str>,
    /// Never empty, never used twice on a stream.
    pub nonce: String,
    /// State of the world: `version_info`. Delta: `system_version_info`.
    pub version: String,
    /// What is set.
    pub resources: Resources,
    /// Resources whose time to live is renewed without sending them again.
    pub heartbeats: Vec<Arc<Resource>>,
    /// State of the world: whether times to live are told, for which each resource with one needs a wrapper.
    pub leases: bool,
    /// Delta: what is gone, or does not exist.
    pub removed: Vec<Arc<str>>,
    /// State of the world: what was asked for and does not exist (`resource_errors`).
    pub missing: Vec<Arc<str>>,
}

/// The resources of a response: its own, or a body that it shares with other responses.
#[derive(Debug, Clone)]
pub enum Resources {
    /// Of this response alone.
    Own(Vec<Arc<Resource>>),
    /// What others get too.
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

/// What comes out of a stream's state: a message to send, or something that happened.
#[derive(Debug)]
pub enum Output {
    /// To be sent, in this order.
    Send(Response),
    /// To be logged and counted.
    Notice(Notice),
}

/// Something that happened on a stream.
#[derive(Debug, Clone, PartialEq)]
pub enum Notice {
    /// The client accepted a response.
    Acked {
        /// Type of the response.
        kind: ResourceType,
        /// Its nonce.
        nonce: String,
        /// From sending to the ACK.
        latency: Duration,
    },
    /// The client accepted a response, by its version, in a reply that has an error: that of an earlier response.
    OldError {
        /// Type of the response.
        kind: ResourceType,
        /// Its nonce.
        nonce: String,
        /// The client's reason, as it gave it.
        message: String,
    },
    /// The client rejected a response, or a resource by itself.
    Rejected(Rejection),
    /// A resource that was rejected is accepted in another version, or no longer there, or no longer asked for.
    Recovered {
        /// Its type.
        kind: ResourceType,
        /// Its name.
        name: Arc<str>,
    },
    /// The client did not answer a response in time; what waited for it goes on.
    Unanswered {
        /// Type of the response.
        kind: ResourceType,
        /// Its nonce.
        nonce: String,
    },
}
