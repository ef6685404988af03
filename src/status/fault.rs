//! The faults of Gateways whose objects cannot be written, for their status.

use imbl::OrdMap;
use lockgate_route::objects::ObjectKey;

/// The reason why a Gateway cannot be programmed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The reason of the condition `Programmed`, CamelCase.
    pub reason: &'static str,
    /// Details for people: lower case, no full stop.
    pub message: String,
}

impl Fault {
    /// Creates a fault.
    pub fn new(reason: &'static str, message: String) -> Self {
        Self { reason, message }
    }
}

/// The Gateways that cannot have a Service or Envoys, with the reason. A clone shares all entries.
pub(super) type Faults = OrdMap<ObjectKey, Fault>;
