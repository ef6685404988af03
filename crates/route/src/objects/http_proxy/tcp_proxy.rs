//! TCP proxies of HTTPProxies: where the bytes of TLS connections go.

use serde::{Deserialize, Serialize};

use super::{ProxyService, Rest};

/// The destination of the TLS connections of a host, decrypted or not.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TcpProxy {
    /// The Services that receive the connections.
    pub services: Vec<ProxyService>,
    /// The object whose TCP proxy applies instead.
    pub include: Option<TcpInclude>,
    /// The old name of `include`.
    pub includes: Option<TcpInclude>,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}

/// The object whose TCP proxy applies.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "testing", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase", default)]
pub struct TcpInclude {
    /// The name.
    pub name: String,
    /// The namespace. Empty: the namespace of the includer.
    pub namespace: String,
    /// The other fields.
    #[serde(flatten)]
    #[cfg_attr(feature = "testing", schemars(skip))]
    pub rest: Rest,
}
