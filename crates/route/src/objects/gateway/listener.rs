//! The listeners of Gateways and ListenerSets, and the objects that may attach.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::reference::SecretRef;
use super::selector::LabelSelector;
use super::status::RouteKind;

/// A listener of a Gateway or a ListenerSet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GatewayListener {
    /// The name, unique in its object.
    pub name: Arc<str>,
    /// The host names that it accepts, exact or with a leading `*.`; `None` and the empty text accept all.
    pub hostname: Option<String>,
    /// The port that clients connect to.
    pub port: u16,
    /// `HTTP`, `HTTPS`, `TLS`, `TCP`, or `UDP`.
    pub protocol: String,
    /// The TLS configuration.
    pub tls: Option<ListenerTls>,
    /// The routes that may attach.
    pub allowed_routes: Option<AllowedRoutes>,
}

/// The TLS configuration of a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    /// `Terminate`, which is the default, or `Passthrough`.
    pub mode: Option<String>,
    /// The key pairs.
    pub certificate_refs: Vec<SecretRef>,
    /// Options of implementations.
    pub options: BTreeMap<String, String>,
}

/// The routes that may attach to a listener.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedRoutes {
    /// The namespaces of the routes; `None` is the namespace of the Gateway.
    pub namespaces: Option<AllowedNamespaces>,
    /// The kinds of the routes. Empty: all kinds that the protocol of the listener supports.
    pub kinds: Vec<RouteKind>,
}

/// A set of namespaces.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AllowedNamespaces {
    /// `All`, `Same`, `Selector`, or `None`.
    pub from: Option<String>,
    /// The labels of the namespaces, if `from` is `Selector`.
    pub selector: Option<LabelSelector>,
}
