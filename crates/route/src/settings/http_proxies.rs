//! Restrictions of HTTPProxies.

/// Restrictions of HTTPProxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpProxies {
    /// The namespaces whose HTTPProxies may be roots. All namespaces if empty.
    pub root_namespaces: Vec<String>,
    /// Whether a route can be served in plain text although its host has TLS.
    pub permit_insecure: bool,
}

impl HttpProxies {
    /// Returns whether an HTTPProxy of this namespace may define a host.
    pub fn may_be_root(&self, namespace: &str) -> bool {
        self.root_namespaces.is_empty() || self.root_namespaces.iter().any(|one| one == namespace)
    }
}

impl Default for HttpProxies {
    fn default() -> Self {
        Self { root_namespaces: Vec::new(), permit_insecure: true }
    }
}
