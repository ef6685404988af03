//! The listeners that all objects share, and the form of the routes of all listeners.

use std::collections::BTreeMap;

use crate::model::{Listener, ListenerId, RouteDiscovery};
use crate::settings::{RouteDiscoveryMode, Settings};

/// Returns the form of the routes of listeners for plain HTTP.
pub fn discovery(settings: &Settings) -> RouteDiscovery {
    match settings.routes.discovery {
        RouteDiscoveryMode::Rds | RouteDiscoveryMode::Vhds => RouteDiscovery::ByHost,
        RouteDiscoveryMode::Auto | RouteDiscoveryMode::Scopes => RouteDiscovery::Scopes,
    }
}

/// The listeners that all objects share which are not attached to a Gateway.
#[derive(Debug)]
pub struct SharedListeners {
    /// The listener for plain HTTP.
    pub plain: ListenerId,
    /// The listener for HTTP over TLS.
    pub tls: ListenerId,
    /// The listener for HTTP/3.
    quic: ListenerId,
}

impl Default for SharedListeners {
    fn default() -> Self {
        let [plain, tls, quic] = [ListenerId::HTTP, ListenerId::HTTPS, ListenerId::HTTP3].map(ListenerId::new);
        Self { plain, tls, quic }
    }
}

impl SharedListeners {
    /// Returns the listeners of the settings, without hosts.
    pub fn of_settings(&self, settings: &Settings) -> BTreeMap<ListenerId, Listener> {
        let Self { plain, tls, quic } = self;
        let quic = settings.http.http3.enabled.then(|| quic.clone());
        BTreeMap::from([
            (plain.clone(), Listener::http(settings.listeners.http, discovery(settings))),
            (tls.clone(), Listener::https(settings.listeners.https, Some(plain.clone()), quic)),
        ])
    }
}
