//! The fields of a single listener: its protocol, host name, and the routes that may attach.

use std::sync::Arc;

use super::declared::Parser;
use super::parsed::{ListenerProtocol, Namespaces, ParsedListener};
use crate::model::Host;
use crate::objects::gateway::{GROUP, GatewayListener, RouteKind};
use crate::translate::host;
use crate::translate::verdict::{Status, Verdict};

impl Parser<'_, '_> {
    /// Parses listeners of the object.
    pub fn parse_listeners(&mut self, listeners: &[GatewayListener]) {
        for listener in listeners {
            let listener = self.parse_listener(listener);
            self.declared.listeners.push(listener);
        }
    }

    /// Parses a listener, except for conflicts and ports.
    pub fn parse_listener(&mut self, listener: &GatewayListener) -> ParsedListener {
        let (name, first) = (&listener.name, self.declared.verdicts.len());
        let protocol = self.protocol(listener);
        let pair_size = match &protocol {
            Some(ListenerProtocol::Tls(pairs)) => pairs.iter().map(|pair| self.size_of(pair)).sum(),
            _ => 0,
        };
        let host = match &protocol {
            Some(ListenerProtocol::Tcp | ListenerProtocol::Udp) => Ok(Host::Any),
            _ => host::parse(listener.hostname.as_deref().unwrap_or_default()),
        };
        if let Err(fault) = &host {
            let message = format!("hostname {:?} {fault}", listener.hostname.as_deref().unwrap_or_default());
            self.declared.verdict(Some(name), "Accepted", Status::False, "UnsupportedValue", message);
        }
        let kinds = self.kinds(listener, protocol.as_ref().map(ListenerProtocol::kinds).unwrap_or_default());
        let namespaces = listener.allowed_routes.as_ref().and_then(|allowed| allowed.namespaces.as_ref());
        let namespaces = namespaces.map_or(Namespaces::Same, |allowed| Namespaces::new(allowed, Namespaces::Same));
        let refuses = |one: &Verdict| one.condition == "Accepted" && one.status == Status::False;
        let is_refused = |parser: &Self| parser.declared.verdicts[first..].iter().any(refuses);
        let accepted = !is_refused(self);
        let clients = protocol.as_ref().and_then(|protocol| self.clients(listener, protocol));
        let lacks_authorities = accepted && is_refused(self);
        self.declared.verdict(Some(name), "Accepted", Status::True, "Accepted", String::new());
        self.declared.verdict(Some(name), "Conflicted", Status::False, "NoConflicts", String::new());
        self.declared.verdict(Some(name), "ResolvedRefs", Status::True, "ResolvedRefs", String::new());
        let host = host.unwrap_or(Host::Any);
        let (origin, set) = (self.declared.origin.clone(), self.declared.set.clone());
        let (name, port) = (name.clone(), listener.port);
        ParsedListener {
            name,
            origin,
            set,
            host,
            port,
            protocol,
            pair_size,
            clients,
            lacks_authorities,
            kinds,
            namespaces,
            accepted,
            bound: None,
            closed: None,
        }
    }

    /// Refuses the listeners with a host name that `namespace`, which adds them to a Gateway of another namespace, must not define.
    /// Routes of other namespaces would lose the host to the listener and to its certificate.
    pub fn check_hosts(&mut self, namespace: &Arc<str>) {
        for index in 0..self.declared.listeners.len() {
            let Some(ParsedListener { host, protocol, accepted: true, .. }) = self.declared.listeners.get(index) else {
                continue;
            };
            if let Some(
                ListenerProtocol::Http
                | ListenerProtocol::Https(_)
                | ListenerProtocol::Tls(_)
                | ListenerProtocol::Passthrough,
            ) = protocol
                && let Err(message) = self.resolver.check_host(host, namespace)
            {
                self.declared.refuse(index, "HostNotGranted", message);
            }
        }
    }

    /// Returns the protocol of a listener, if it is supported.
    fn protocol(&mut self, listener: &GatewayListener) -> Option<ListenerProtocol> {
        let mode = listener.tls.as_ref().and_then(|tls| tls.mode.as_deref()).unwrap_or("Terminate");
        let (reason, message) = match (listener.protocol.as_str(), mode) {
            ("HTTP", _) => return Some(ListenerProtocol::Http),
            ("HTTPS", _) => return Some(ListenerProtocol::Https(self.key_pairs(listener))),
            ("TLS", "Terminate") => return Some(ListenerProtocol::Tls(self.key_pairs(listener))),
            ("TLS", "Passthrough") => return Some(ListenerProtocol::Passthrough),
            ("TCP", _) => return Some(ListenerProtocol::Tcp),
            ("UDP", _) => return Some(ListenerProtocol::Udp),
            ("TLS", mode) => ("UnsupportedValue", format!("TLS mode {mode:?} is not supported")),
            (other, _) => ("UnsupportedProtocol", format!("protocol {other:?} is not supported")),
        };
        self.declared.verdict(Some(&listener.name), "Accepted", Status::False, reason, message);
        None
    }

    /// Returns the kinds of routes that may attach: the intersection of the allowed and the supported kinds.
    fn kinds(&mut self, listener: &GatewayListener, supported: &[&str]) -> Vec<RouteKind> {
        let kind = |kind: &str| RouteKind { group: Some(GROUP.to_owned()), kind: kind.to_owned() };
        let allowed = listener.allowed_routes.as_ref().map(|allowed| allowed.kinds.as_slice()).unwrap_or_default();
        if allowed.is_empty() {
            return supported.iter().map(|name| kind(name)).collect();
        }
        let is_supported = |allowed: &&RouteKind| {
            allowed.group.as_deref().unwrap_or(GROUP) == GROUP && supported.contains(&allowed.kind.as_str())
        };
        if let Some(other) = allowed.iter().find(|kind| !is_supported(kind)) {
            let message = format!("kind {:?} is not supported by protocol {:?}", other.kind, listener.protocol);
            self.declared.verdict(Some(&listener.name), "ResolvedRefs", Status::False, "InvalidRouteKinds", message);
        }
        allowed.iter().filter(is_supported).map(|allowed| kind(&allowed.kind)).collect()
    }
}
