//! Restrictions of HTTPProxies.

use crate::model::HeaderName;

/// Restrictions of HTTPProxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProxies {
    /// The namespaces whose HTTPProxies may be roots. All namespaces if empty.
    pub root_namespaces: Vec<String>,
    /// Whether a route can be served in plain text although its host has TLS.
    pub permit_insecure: bool,
    /// Headers with the prefix `x-envoy-` that HTTPProxies may change. Envoy itself uses none of them.
    pub envoy_headers: Vec<HeaderName>,
}

impl HttpProxies {
    /// Returns whether an HTTPProxy of this namespace may define a host.
    pub fn may_be_root(&self, namespace: &str) -> bool {
        self.root_namespaces.is_empty() || self.root_namespaces.iter().any(|one| one == namespace)
    }

    /// Parses the name of a header that an HTTPProxy may change.
    ///
    /// # Errors
    /// The reasons of [`HeaderName::parse_changeable`].
    pub fn changeable(&self, text: &str) -> Result<HeaderName, String> {
        HeaderName::parse_changeable(text).or_else(|reason| {
            let name = HeaderName::parse(text).filter(|name| self.envoy_headers.contains(name));
            name.ok_or(reason)
        })
    }
}

impl Default for HttpProxies {
    fn default() -> Self {
        Self { root_namespaces: Vec::new(), permit_insecure: true, envoy_headers: Vec::new() }
    }
}
