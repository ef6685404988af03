//! The namespaces that may define hosts.

/// The namespaces that may define hosts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hosts {
    /// Whether a host that no HostGrant covers may be defined by nobody.
    pub require_grant: bool,
}
