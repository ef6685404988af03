//! The Gateways with dedicated fleets, and the limits of their number.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::model::ListenerId;
use crate::objects::ObjectKey;
use crate::settings::Fleets;
use crate::translate::gateway::listener::ParsedGateway;

/// The Gateways that the shared Envoys do not serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Dedicated {
    /// The Gateway of each Envoy listener that the shared Envoys do not serve: a dedicated fleet serves the listener,
    /// or nobody does.
    pub listeners: BTreeMap<ListenerId, ObjectKey>,
    /// The listeners among these that the shared Envoys still serve until the fleet is ready.
    pub moving: BTreeSet<ListenerId>,
    /// The listeners among these whose open connections the shared Envoys still serve. They accept no new connections.
    pub draining: BTreeSet<ListenerId>,
    /// The Gateways with a fleet.
    pub fleets: BTreeSet<ObjectKey>,
    /// The Gateways without a fleet because of a limit, with the name of the setting.
    pub refused: BTreeMap<ObjectKey, String>,
}

impl Dedicated {
    /// Assigns fleets to Gateways. Older Gateways precede younger ones.
    pub fn new<'a>(gateways: impl Iterator<Item = &'a Arc<ParsedGateway>>, limits: &Fleets) -> Self {
        let mut asking: Vec<&Arc<ParsedGateway>> = gateways.filter(|gateway| gateway.fleet.is_some()).collect();
        asking.sort_by(|a, b| a.precedence.cmp(&b.precedence));
        let mut dedicated = Self::default();
        let mut by_namespace = BTreeMap::<&Arc<str>, u32>::new();
        for gateway in asking {
            let key = gateway.key();
            let bound = gateway.listeners.iter().filter_map(|listener| Some(&listener.bound.as_ref()?.0));
            dedicated.listeners.extend(bound.clone().map(|id| (id.clone(), key.clone())));
            let of_namespace = by_namespace.entry(&key.namespace).or_default();
            let total = u32::try_from(dedicated.fleets.len()).unwrap_or(u32::MAX);
            if total >= limits.max {
                let most = limits.max;
                let message = format!("the limit of dedicated fleets is {most} (setting gateway.dedicatedFleets.max)");
                dedicated.refused.insert(key.clone(), message);
            } else if *of_namespace >= limits.max_per_namespace {
                let most = limits.max_per_namespace;
                let message = format!(
                    "the limit of dedicated fleets in a namespace is {most} (setting gateway.dedicatedFleets.maxPerNamespace)"
                );
                dedicated.refused.insert(key.clone(), message);
            } else {
                *of_namespace += 1;
                dedicated.moving.extend(bound.clone().filter(|_| gateway.is_moving).cloned());
                dedicated.draining.extend(bound.filter(|_| gateway.is_draining).cloned());
                dedicated.fleets.insert(key.clone());
            }
        }
        dedicated
    }

    /// Returns whether a Gateway requests a fleet.
    pub fn knows(&self, gateway: &ObjectKey) -> bool {
        self.fleets.contains(gateway) || self.refused.contains_key(gateway)
    }
}
