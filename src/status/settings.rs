//! The settings of the writers.

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_route::objects::ObjectKey;

use crate::settings::{Listeners, Settings, Status};

/// The settings of the writers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WriterSettings {
    /// The addresses of the Envoys.
    pub(super) status: Status,
    /// The Service in front of the Envoys, with their addresses if `status` has none.
    pub(super) envoy_service: Option<(String, String)>,
    /// The name of the controller in Events.
    pub(super) controller: String,
    /// The name of the controller in GatewayClasses.
    pub(super) gateway_controller: Arc<str>,
    /// The ports that Envoy does not use for Gateways.
    pub(super) reserved: BTreeSet<u16>,
    /// The watched namespaces; empty for all.
    pub(super) namespaces: BTreeSet<String>,
}

/// Ports of the controller, which may share the network of a node with Envoy.
const CONTROLLER_PORTS: [u16; 3] = [18_000, 18_001, 18_002];

impl WriterSettings {
    /// Extracts the settings of the writers.
    pub fn new(settings: &Settings) -> Self {
        let Listeners { http, https, stats, stats_tls, readiness, overload_probe, admin, .. } =
            &settings.route.listeners;
        let listeners = [http, https, stats, &stats_tls.at, readiness, overload_probe, admin].map(|bind| bind.port);
        Self {
            status: settings.status.clone(),
            envoy_service: settings.route.envoy_service.clone(),
            controller: settings.route.ingress.controller.clone(),
            gateway_controller: settings.route.gateway.controller.as_str().into(),
            reserved: listeners.into_iter().chain(CONTROLLER_PORTS).collect(),
            namespaces: settings.process.watch.namespaces.iter().cloned().collect(),
        }
    }

    /// Returns whether the objects of a namespace are watched.
    pub(super) fn watches(&self, namespace: &str) -> bool {
        self.namespaces.is_empty() || self.namespaces.contains(namespace)
    }

    /// Returns the Service in front of the Envoys, if it is known.
    pub(super) fn envoy_service(&self) -> Option<ObjectKey> {
        self.envoy_service.as_ref().map(|(namespace, name)| ObjectKey::new(namespace, name))
    }
}
