//! Settings of routes.

/// The routes of Envoys.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RouteSettings {
    /// The method of route discovery for plain HTTP.
    pub discovery: RouteDiscoveryMode,
}

/// The method by which Envoys receive the routes of plain HTTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RouteDiscoveryMode {
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
