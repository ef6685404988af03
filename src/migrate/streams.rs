//! TLSRoutes for the TCP proxies of HTTPProxies, whose connections are forwarded by server name, decrypted or not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::model::{Host, TlsConnections, WeightedCluster};
use lockgate_route::objects::gateway::TlsRoute;
use lockgate_route::objects::http_proxy::HttpProxy;
use lockgate_route::objects::{Kind, ObjectKey, Objects};
use lockgate_route::translate::host;
use serde_json::{Value, json};

use super::listeners::HostListeners;
use super::losses::{FindingText, Losses};
use super::names::Names;
use super::routes::MIGRATED_FROM;
use super::rules::{RuleFault, RulePlace, Writer};
use super::served::Served;
use super::{Migrated, object};
use crate::check::Translated;

/// The field of a TCP proxy.
const FIELD: &str = "spec.tcpproxy";

/// The forwarded connections for a server name.
pub struct Stream<'m> {
    /// The server name.
    pub host: &'m Host,
    /// The HTTPProxy.
    pub owner: ObjectKey,
    /// The backends of the TLSRoute. Without any, the connections are closed.
    backends: Vec<Value>,
}

/// Returns the forwarded connections. The listener of a TCP proxy that cannot be expressed has no route: another one with a wildcard would
/// accept its connections.
pub fn streams<'m>(served: &Served<'m>, writer: &mut Writer, losses: &mut Losses) -> Vec<Stream<'m>> {
    let mut streams = Vec::new();
    for (host, connections) in &served.connections {
        let Some(owner) = losses.owner(&connections.to.origin) else { continue };
        let place = RulePlace { owner: &owner, field: FIELD };
        let backends =
            backends(connections, writer, place, losses).unwrap_or_else(|RuleFault { part, message, remedy }| {
                let consequence = "the TCP proxy has no TLSRoute, and these connections are closed";
                losses.add_lost(
                    &owner,
                    place.below(losses, part),
                    FindingText { message, consequence, remedy: &remedy },
                );
                Vec::new()
            });
        streams.push(Stream { host, owner, backends });
    }
    report_closed(served, writer.source, losses);
    streams
}

/// Reports TCP proxies that forward no connections: no listener is written for them.
fn report_closed(served: &Served, source: &Translated, losses: &mut Losses) {
    let is_served = |proxy: &&HttpProxy| source.translator.serves(&Kind::HTTP_PROXY.id(proxy.meta.key.clone()));
    let forwarded: BTreeSet<&Host> = served.connections.iter().map(|(host, _)| *host).collect();
    let proxies = source.objects.all::<HttpProxy>().filter(|proxy| proxy.spec.tcpproxy.is_some());
    for proxy in proxies.filter(is_served) {
        let Some(host) = proxy.spec.virtualhost.as_ref().and_then(|host| host::parse(&host.fqdn).ok()) else {
            continue;
        };
        // Another HTTPProxy can own the host.
        if losses.migrated() == Migrated::HttpProxies && !forwarded.contains(&host) {
            let text = FindingText {
                message: format!("TLS connections for host \"{host}\" are closed now"),
                consequence: "neither a listener nor a TLSRoute is written",
                remedy: "Add the included objects to the input, or correct the HTTPProxy, and migrate again.",
            };
            losses.add_lost(&proxy.meta.key, FIELD.to_owned(), text);
        }
    }
}

fn backends(
    connections: &TlsConnections,
    writer: &mut Writer,
    place: RulePlace,
    losses: &mut Losses,
) -> Result<Vec<Value>, RuleFault> {
    let clusters = &connections.to.clusters;
    // Reported with the host.
    if connections.terminated.as_ref().is_some_and(|tls| tls.clients.is_some()) {
        return Ok(Vec::new());
    }
    let mut backends = Vec::new();
    for WeightedCluster { cluster, weight, .. } in clusters {
        let service = cluster.port.service();
        let unknown = || RuleFault {
            part: "services",
            message: format!("Service \"{service}\" is not in the input"),
            remedy: "Add the Service to the input.".to_owned(),
        };
        let found = writer.source.translator.model().clusters.get(cluster).ok_or_else(unknown)?;
        // TCP proxies have no faults that are reported elsewhere.
        writer
            .backends
            .add(writer.source, found, cluster, place, losses)
            .map_err(|fault| fault.unwrap_or_else(unknown))?;
        let mut backend = json!({ "name": &*service.name, "port": found.port });
        if clusters.len() > 1 {
            backend["weight"] = json!(weight);
        }
        backends.push(backend);
    }
    Ok(backends)
}

/// Returns the TLSRoutes.
pub fn objects(streams: &[Stream], listeners: &HostListeners, objects: &Objects) -> Vec<Value> {
    let mut names = BTreeMap::<Arc<str>, Names>::new();
    let others = objects.all::<TlsRoute>().filter(|route| !route.meta.annotations.contains_key(MIGRATED_FROM));
    for route in others {
        names.entry(route.meta.key.namespace.clone()).or_default().reserve(&route.meta.key.name);
    }
    let mut routes = Vec::new();
    for Stream { host, owner, backends } in streams {
        let Some(parent) = listeners.parent_of(host, &owner.namespace).filter(|_| !backends.is_empty()) else {
            continue;
        };
        let name = names.entry(owner.namespace.clone()).or_default().take(&owner.name);
        let spec = json!({
            "hostnames": [host.to_string()],
            "parentRefs": [parent],
            "rules": [{ "backendRefs": backends }],
        });
        let annotations = [(MIGRATED_FROM, &*owner.name)];
        routes.push(object(Kind::TLS_ROUTE, &super::key(&owner.namespace, &name), &annotations, spec));
    }
    routes
}
