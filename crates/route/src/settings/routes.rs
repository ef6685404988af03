//! Settings of routes.

/// The routes of Envoys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Routes {
    /// The method of route discovery for plain HTTP.
    pub discovery: Discovery,
    /// The maximum memory of copies of the rules of Ingresses in an Envoy, in bytes, for each pair of a namespace that names hosts
    /// and a namespace with the rules.
    pub max_copy_memory_per_namespace: u64,
}

impl Default for Routes {
    fn default() -> Self {
        Self { discovery: Discovery::default(), max_copy_memory_per_namespace: 128 << 20 }
    }
}

/// The method by which Envoys receive the routes of plain HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Discovery {
    /// The best method for each Envoy.
    #[default]
    Auto,
    /// One route configuration with all routes.
    Rds,
    /// A resource for each virtual host, for Envoys with an aggregated delta stream. Other Envoys do not support this
    /// method.
    Vhds,
    /// A scope for each host.
    Scopes,
}
