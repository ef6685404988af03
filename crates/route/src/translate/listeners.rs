//! The listeners that all Ingresses share.

use std::collections::BTreeMap;

use crate::model::{Listener, ListenerId, RouteDiscovery};
use crate::settings::{Discovery, Settings};

/// Returns the listeners for plain HTTP and for HTTP over TLS, without hosts.
pub fn of_settings(settings: &Settings) -> BTreeMap<ListenerId, Listener> {
    let discovery = match settings.routes.discovery {
        Discovery::Rds | Discovery::Vhds => RouteDiscovery::ByHost,
        Discovery::Auto | Discovery::Scopes => RouteDiscovery::Scopes,
    };
    let [http, https, http3] = [ListenerId::HTTP, ListenerId::HTTPS, ListenerId::HTTP3].map(ListenerId::new);
    let http3 = settings.http.http3.enabled.then_some(http3);
    BTreeMap::from([
        (http.clone(), Listener::http(settings.listeners.http, discovery)),
        (https, Listener::https(settings.listeners.https, Some(http), http3)),
    ])
}
