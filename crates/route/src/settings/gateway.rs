//! Settings of Gateway API.

/// The selection of Gateways, and the limits of their fleets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewaySettings {
    /// The value of `spec.controllerName` in the GatewayClasses that Lockgate serves.
    pub controller: String,
    /// The limits of dedicated fleets.
    pub fleets: Fleets,
    /// The handling of routes with a policy of another product that restricts access.
    pub restricting_policies: RestrictingPolicies,
    /// Policies of other products that are neither enforced nor reported: namespace and name.
    pub ignored_policies: Vec<(String, String)>,
}

/// The handling of routes with a policy of another product that restricts access.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum RestrictingPolicies {
    /// Answered 403, or closed without HTTP.
    #[default]
    Deny,
    /// Served without the restriction.
    Ignore,
}

/// The limits of dedicated fleets: Envoys that serve a single Gateway.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fleets {
    /// The maximum number of fleets. 0 disables them.
    pub max: u32,
    /// The maximum number of fleets for Gateways of one namespace.
    pub max_per_namespace: u32,
    /// The maximum number of Envoys of one fleet.
    pub max_replicas: u32,
    /// The maximum number of CPUs of one Envoy.
    pub max_cpus: u32,
    /// The maximum memory of one Envoy, in bytes.
    pub max_memory: u64,
}

impl Default for Fleets {
    fn default() -> Self {
        Self { max: 0, max_per_namespace: 3, max_replicas: 5, max_cpus: 4, max_memory: 4 << 30 }
    }
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            controller: "lockgate.dev/gateway-controller".to_owned(),
            fleets: Fleets::default(),
            restricting_policies: RestrictingPolicies::default(),
            ignored_policies: Vec::new(),
        }
    }
}
