//! Conflicts between the listeners of a Gateway and its ListenerSets, and limits for ListenerSets. The earlier listener
//! is served. The listeners of the Gateway come first, then the listeners of older ListenerSets.
//!
//! The owner of a Gateway allows namespaces to add listeners. The limits prevent a namespace from using all ports of
//! the Envoys, and from making the Gateway unusable for other namespaces.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::declared::Declared;
use crate::model::Host;
use crate::objects::{ObjectKey, Transport};
use crate::translate::verdict::ConditionFault;

/// The maximum number of listeners of a Gateway with its ListenerSets.
pub const LISTENERS: usize = 1024;
/// The maximum number of listeners that the ListenerSets of one other namespace add to a Gateway.
pub const LISTENERS_OF_NAMESPACE: usize = 64;
/// The maximum number of ports of a Gateway with its ListenerSets.
pub const PORTS: usize = 128;
/// The maximum number of ports that the ListenerSets of one other namespace add to a Gateway.
pub const PORTS_OF_NAMESPACE: usize = 16;

/// Returns the maximum number of listeners of the ListenerSets of `namespace` that are parsed, accepted or not. Further ListenerSets
/// are refused as a whole, so that refused listeners cost little. A ListenerSet has at least one listener, so this is also the
/// maximum number of ListenerSets.
pub fn most_parsed(namespace: &str, gateway: &ObjectKey) -> usize {
    2 * if *namespace == *gateway.namespace { LISTENERS } else { LISTENERS_OF_NAMESPACE }
}

/// A transport protocol and a port.
type Port = (Transport, u16);

/// The accepted listeners of a Gateway during parsing.
#[derive(Debug)]
pub struct AcceptedListeners<'a> {
    /// The Gateway.
    gateway: &'a ObjectKey,
    /// The number of listeners.
    count: usize,
    /// The host names of each port, with the protocols of their listeners.
    ports: BTreeMap<Port, BTreeMap<Host, &'static str>>,
    /// The number of listeners and of new ports of the ListenerSets of each other namespace.
    of_namespaces: BTreeMap<Arc<str>, (usize, usize)>,
    /// The number of parsed listeners of the ListenerSets of each namespace.
    parsed: BTreeMap<Arc<str>, usize>,
}

impl<'a> AcceptedListeners<'a> {
    /// Creates the state of a Gateway without listeners.
    pub fn new(gateway: &'a ObjectKey) -> Self {
        Self { gateway, count: 0, ports: BTreeMap::new(), of_namespaces: BTreeMap::new(), parsed: BTreeMap::new() }
    }

    /// Returns whether no listener of a further ListenerSet of `namespace` is accepted.
    pub fn is_exhausted(&self, namespace: &Arc<str>) -> bool {
        let parsed = self.parsed.get(namespace).copied().unwrap_or_default();
        let accepted = self.of_namespaces.get(namespace).map_or(0, |(listeners, _)| *listeners);
        let most = most_parsed(namespace, self.gateway);
        self.count >= LISTENERS || accepted >= LISTENERS_OF_NAMESPACE || parsed >= most
    }

    /// Adds the listeners of an object. Rejects listeners that conflict with earlier listeners, or exceed a limit.
    pub fn add(&mut self, declared: &mut Declared) {
        let namespace = declared.set.as_ref().map(|set| set.namespace.clone());
        if let Some(namespace) = &namespace {
            *self.parsed.entry(namespace.clone()).or_default() += declared.listeners.len();
        }
        for index in 0..declared.listeners.len() {
            let listener = &declared.listeners[index];
            let (Some(protocol), Some(port)) = (&listener.protocol, listener.place()) else { continue };
            if !listener.accepted {
                continue;
            }
            let (protocol, host) = (protocol.name(), listener.host.clone());
            let claimed = self.ports.get(&port);
            if let Some(fault) = claimed.and_then(|claimed| conflict(claimed, protocol, &host, port.1)) {
                declared.conflict(index, fault);
                continue;
            }
            if let Some(namespace) = &namespace
                && let Err(ConditionFault { reason, message }) = self.permit(namespace, claimed.is_none())
            {
                declared.refuse(index, reason, message);
                continue;
            }
            self.count += 1;
            self.ports.entry(port).or_default().insert(host, protocol);
        }
    }

    /// Counts a listener of a ListenerSet, with a new port or not. Errors: the limit that it exceeds.
    fn permit(&mut self, namespace: &Arc<str>, is_new_port: bool) -> Result<(), ConditionFault> {
        if self.count >= LISTENERS {
            let message = format!("the Gateway and older ListenerSets already have {LISTENERS} listeners");
            return Err(ConditionFault::new("TooManyListeners", message));
        }
        if is_new_port && self.ports.len() >= PORTS {
            let message = format!("the Gateway and older ListenerSets already have {PORTS} ports");
            return Err(ConditionFault::new("PortUnavailable", message));
        }
        if *namespace == self.gateway.namespace {
            return Ok(());
        }
        let (listeners, ports) = self.of_namespaces.entry(namespace.clone()).or_default();
        if *listeners >= LISTENERS_OF_NAMESPACE {
            let message =
                format!("ListenerSets of this namespace already add {LISTENERS_OF_NAMESPACE} listeners to the Gateway");
            return Err(ConditionFault::new("TooManyListeners", message));
        }
        if is_new_port && *ports >= PORTS_OF_NAMESPACE {
            let message =
                format!("ListenerSets of this namespace already add {PORTS_OF_NAMESPACE} ports to the Gateway");
            return Err(ConditionFault::new("PortUnavailable", message));
        }
        *listeners += 1;
        *ports += usize::from(is_new_port);
        Ok(())
    }
}

/// Returns the conflict of a listener with the host names of its port. HTTPS and TLS share a port, because the server name decides
/// between them.
fn conflict(claimed: &BTreeMap<Host, &'static str>, protocol: &str, host: &Host, port: u16) -> Option<ConditionFault> {
    let of_server_names = |name: &str| matches!(name, "HTTPS" | "TLS");
    // All protocols of a port are compatible, so that one is enough.
    let first = claimed.values().next().copied().unwrap_or(protocol);
    if first != protocol && !(of_server_names(first) && of_server_names(protocol)) {
        let message = format!("an earlier listener has another protocol on port {port}");
        return Some(ConditionFault::new("ProtocolConflict", message));
    }
    let of_host = claimed.get(host)?;
    Some(match *of_host == protocol {
        true => {
            let message = format!("an earlier listener has the same hostname on port {port}");
            ConditionFault::new("HostnameConflict", message)
        }
        false => {
            let message =
                format!("an earlier listener has the same hostname and the protocol {of_host} on port {port}");
            ConditionFault::new("ProtocolConflict", message)
        }
    })
}
