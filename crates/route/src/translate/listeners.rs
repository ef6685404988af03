//! The listeners that all Ingresses share, and the form of routes of all listeners.

use std::collections::BTreeMap;

use crate::model::{Listener, ListenerId, RouteDiscovery};
use crate::settings::{Discovery, Settings};

/// Returns the form of the routes of listeners for plain HTTP.
pub fn discovery(settings: &Settings) -> RouteDiscovery {
    match settings.routes.discovery {
        Discovery::Rds | Discovery::Vhds => RouteDiscovery::ByHost,
        Discovery::Auto | Discovery::Scopes => RouteDiscovery::Scopes,
    }
}

/// Returns the listeners for plain HTTP and for HTTP over TLS, without hosts.
pub fn of_settings(settings: &Settings) -> BTreeMap<ListenerId, Listener> {
    let discovery = discovery(settings);
    let [http, https, http3] = [ListenerId::HTTP, ListenerId::HTTPS, ListenerId::HTTP3].map(ListenerId::new);
    let http3 = settings.http.http3.enabled.then_some(http3);
    BTreeMap::from([
        (http.clone(), Listener::http(settings.listeners.http, discovery)),
        (https, Listener::https(settings.listeners.https, Some(http), http3)),
    ])
}
