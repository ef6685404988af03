//! Settings of Gateway API.

/// The selection of Gateways.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gateway {
    /// The value of `spec.controllerName` in the GatewayClasses that Lockgate serves.
    pub controller: String,
}

impl Default for Gateway {
    fn default() -> Self {
        Self { controller: "lockgate.dev/gateway-controller".to_owned() }
    }
}
