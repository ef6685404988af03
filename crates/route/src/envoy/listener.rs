//! Listeners for clients: plain text, TLS, HTTP/3.

use std::collections::{BTreeMap, BTreeSet};

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use lockgate_xds::snapshot::Resource;

use super::hcm::{self, Codec, RouteFilters, RouteSource};
use super::server_names::Choice;
use super::socket::{listener, over_tcp, proxy_protocol};
use super::tls_listener::{Presented, TlsListener};
use super::{access_log, downstream_tls, names, stream};
use crate::model::{Bind, ClientValidation, ForwardedParts, Host, ListenerId, RouteDiscovery, TlsHosts};
use crate::settings::Settings;

/// The resources of a listener for HTTP over TLS, without its routes.
#[derive(Debug, Default)]
pub struct TlsListeners {
    /// The Envoy listeners: over TCP, and over QUIC. Without hosts, there are none.
    pub listeners: Vec<(ListenerId, Resource)>,
    /// The connection managers of the chains that exact hosts share over TCP: one for each set of forwarded parts of client
    /// certificates. Envoy reads all chains for every change of the listener, and a chain with this reference takes an eighth of the time.
    pub managers: Vec<Resource>,
}

/// Builds the resources of a listener for HTTP over TLS.
pub fn tls_listeners(listener: &TlsListener, filters: RouteFilters, settings: &Settings) -> TlsListeners {
    let TlsHosts { hosts, connections, .. } = listener.tls;
    if hosts.is_empty() && connections.is_empty() {
        return TlsListeners::default();
    }
    // Generations are left out: an edit that does not change the listener must not create a new version.
    let of_connections = connections.values().map(|connections| &connections.to.origin);
    let origins = hosts.values().flat_map(|host| &host.origins).chain(of_connections);
    let origins: Vec<_> = origins.map(|origin| origin.clone().at(0)).collect();
    let exact = hosts.iter().filter(|(host, _)| matches!(host, Host::Exact(_)));
    let forwarded: BTreeSet<ForwardedParts> = exact.map(|(_, tls)| forwarded(tls.clients.as_ref())).collect();
    let manager = shared_manager(listener.id, Codec::Tcp, filters, settings);
    let shared = |parts: ForwardedParts| hcm::shared(listener.id, hcm::forwarding(manager.clone(), parts));
    let managers: BTreeMap<_, _> = forwarded.into_iter().map(|parts| (parts, shared(parts))).collect();
    let discovered =
        |parts: ForwardedParts| managers.get(&parts).map_or_else(|| manager.clone(), |one| hcm::discovered(one.name()));
    let tcp = [(listener.id.clone(), https(listener, &discovered, filters, settings))];
    let all = tcp.into_iter().chain(http3(listener, filters, settings));
    let listeners = all.map(|(id, message)| (id.clone(), Resource::new(id.as_str(), &message, origins.clone())));
    let listeners = listeners.collect();
    TlsListeners { listeners, managers: managers.into_values().collect() }
}

/// Builds a listener for plain HTTP, with one filter chain. `discovery` determines the source of the routes.
pub fn http(
    id: &ListenerId,
    bind: &Bind,
    discovery: RouteDiscovery,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Listener {
    let routes = match discovery {
        RouteDiscovery::ByHost => RouteSource::Rds(id.to_string()),
        RouteDiscovery::Scopes => RouteSource::ByHost(id.clone()),
    };
    let log = access_log::access_log(&settings.access_log, &settings.access_log.http_file);
    let manager = hcm::http_connection_manager(&names::stat_prefix(id), routes, Codec::Tcp, log, filters, settings);
    listener_v3::Listener {
        listener_filters: proxy_protocol(settings).into_iter().collect(),
        filter_chains: vec![listener_v3::FilterChain { filters: vec![manager], ..Default::default() }],
        ..over_tcp(id, bind, settings)
    }
}

/// Builds a listener for HTTP over TLS, with the filter chains that [`chains`](super::chains) describes. `shared` returns
/// the filter of the chains that hosts share, by the forwarded parts of client certificates.
///
/// Clients without a known server name use the chain of [`Host::Any`]. Without it, their connection is closed.
pub fn https(
    at: &TlsListener,
    shared: &dyn Fn(ForwardedParts) -> listener_v3::Filter,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Listener {
    let listener_filters = proxy_protocol(settings).into_iter().chain([downstream_tls::inspector(settings)]);
    let listener =
        listener_v3::Listener { listener_filters: listener_filters.collect(), ..over_tcp(at.id, at.bind, settings) };
    with_chains(listener, at, shared, Codec::Tcp, filters, settings)
}

/// Builds the listener for HTTP/3 with the chains of `at` over QUIC, if HTTP/3 is enabled and a host supports it.
pub fn http3(
    at: &TlsListener,
    filters: RouteFilters,
    settings: &Settings,
) -> Option<(ListenerId, listener_v3::Listener)> {
    let id = at.tls.http3.clone()?;
    at.tls.hosts.values().find(|tls| downstream_tls::is_over_quic(tls))?;
    let mut listener = listener(&id, at.bind, core_v3::socket_address::Protocol::Udp, settings);
    listener.udp_listener_config = Some(listener_v3::UdpListenerConfig {
        quic_options: Some(listener_v3::QuicProtocolOptions::default()),
        ..Default::default()
    });
    // Clients have no certificates.
    let shared = |_| shared_manager(at.id, Codec::Http3, filters, settings);
    Some((id, with_chains(listener, at, &shared, Codec::Http3, filters, settings)))
}

/// Adds the filter chains of the hosts of `at` to `listener`, and the matcher that selects a chain.
fn with_chains(
    mut listener: listener_v3::Listener,
    at: &TlsListener,
    manager_of_shared: &dyn Fn(ForwardedParts) -> listener_v3::Filter,
    codec: Codec,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Listener {
    let mut choice = Choice::default();
    let mut shared = BTreeMap::<Presented, Vec<&str>>::new();
    let mut own = Vec::new();
    let hosts = at.tls.hosts.iter();
    for (host, tls) in hosts.filter(|(_, tls)| codec == Codec::Tcp || downstream_tls::is_over_quic(tls)) {
        let presented = Presented::from(tls);
        let own_chain = || {
            let name = names::tls_routes(at.id, host);
            let server_name = matches!(host, Host::Wildcard(_)) && settings.tls.strict_server_names;
            let filters = RouteFilters { server_name, ..filters };
            let manager = manager(at.id, RouteSource::Rds(name.clone()), codec, filters, settings);
            let manager = hcm::forwarding(manager, forwarded(presented.clients));
            chain(name, manager, &presented, codec, settings)
        };
        match host {
            Host::Exact(server_name) => shared.entry(presented).or_default().push(server_name),
            Host::Wildcard(suffix) => {
                let chain = own_chain();
                choice.below(suffix, &chain.name);
                own.push(chain);
            }
            Host::Any => listener.default_filter_chain = Some(own_chain()),
        }
    }
    // Over QUIC, there are no connections to forward, and clients cannot be validated.
    let validating = at.tls.hosts.iter().filter(|(_, tls)| tls.clients.is_some()).map(|(host, _)| host);
    let over_tcp = at.tls.connections.keys().chain(validating).filter(|_| codec == Codec::Http3);
    for host in at.tls.refused.iter().chain(over_tcp) {
        // Envoy closes a connection if the selected chain does not exist.
        match host {
            Host::Exact(server_name) => choice.exact([&**server_name], names::REFUSED),
            Host::Wildcard(suffix) => choice.below(suffix, names::REFUSED),
            Host::Any => {}
        }
    }
    let shared = shared.into_iter().map(|(presented, server_names)| {
        let name = names::shared_chain(at.id, &presented);
        choice.exact(server_names, &name);
        chain(name, manager_of_shared(forwarded(presented.clients)), &presented, codec, settings)
    });
    listener.filter_chains = shared.chain(own).collect();
    if codec == Codec::Tcp {
        stream::forward(
            at.id,
            &at.tls.connections,
            stream::ConnectionLimitScope::ByChain,
            &mut choice,
            &mut listener,
            settings,
        );
    }
    listener.filter_chain_matcher = choice.matcher();
    listener
}

/// Returns the parts of client certificates that backends receive.
fn forwarded(clients: Option<&ClientValidation>) -> ForwardedParts {
    clients.map(|clients| clients.forwarded).unwrap_or_default()
}

/// Builds the connection manager of the chains that hosts share.
fn shared_manager(id: &ListenerId, codec: Codec, filters: RouteFilters, settings: &Settings) -> listener_v3::Filter {
    manager(id, RouteSource::ByServerName(id.clone()), codec, filters, settings)
}

fn manager(
    id: &ListenerId,
    routes: RouteSource,
    codec: Codec,
    filters: RouteFilters,
    settings: &Settings,
) -> listener_v3::Filter {
    let log = access_log::access_log(&settings.access_log, &settings.access_log.https_file);
    hcm::http_connection_manager(&names::stat_prefix(id), routes, codec, log, filters, settings)
}

fn chain(
    name: String,
    manager: listener_v3::Filter,
    presented: &Presented,
    codec: Codec,
    settings: &Settings,
) -> listener_v3::FilterChain {
    let transport_socket = match codec {
        Codec::Tcp => downstream_tls::over_tcp(presented, settings),
        Codec::Http3 => downstream_tls::over_quic(presented, settings),
    };
    listener_v3::FilterChain {
        filters: vec![manager],
        transport_socket: Some(transport_socket),
        name,
        ..Default::default()
    }
}

#[cfg(test)]
mod tests;
