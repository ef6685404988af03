//! A view of a listener for HTTP over TLS, from which its filter chains and routes are built.

use std::collections::BTreeMap;

use crate::model::{
    Bind, ClientValidation, Host, Listener, ListenerId, Model, SecretId, Termination, TlsHost, TlsHosts, TlsVersion,
    Traffic, VirtualHostRoutes,
};

/// The TLS properties that clients are presented. Hosts with equal values share a filter chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Presented<'a> {
    /// The key pairs.
    pub secrets: &'a [SecretId],
    /// Lowest TLS version.
    pub minimum: TlsVersion,
    /// Highest TLS version.
    pub maximum: TlsVersion,
    /// The validation of client certificates.
    pub clients: Option<&'a ClientValidation>,
}

impl<'a> From<&'a TlsHost> for Presented<'a> {
    fn from(host: &'a TlsHost) -> Self {
        let TlsHost {
            secrets,
            minimum,
            maximum,
            clients,
            virtual_hosts: _,
            others: _,
            misdirected: _,
            is_without_server_name: _,
            origins: _,
        } = host;
        Self { secrets, minimum: *minimum, maximum: *maximum, clients: clients.as_ref() }
    }
}

impl<'a> From<&'a Termination> for Presented<'a> {
    fn from(terminated: &'a Termination) -> Self {
        let Termination { secrets, minimum, maximum, clients } = terminated;
        Self { secrets, minimum: *minimum, maximum: *maximum, clients: clients.as_ref() }
    }
}

/// A listener for HTTP over TLS, with the hosts of the associated listener for plain HTTP.
#[derive(Debug, Clone, Copy)]
pub struct TlsListener<'a> {
    /// The name.
    pub id: &'a ListenerId,
    /// The bind address.
    pub bind: &'a Bind,
    /// The hosts.
    pub tls: &'a TlsHosts,
    /// The hosts of the associated listener for plain HTTP.
    pub plain: &'a BTreeMap<Host, VirtualHostRoutes>,
}

impl<'a> TlsListener<'a> {
    /// Returns the listener of `model` with this name if it is for HTTP over TLS.
    pub fn of(model: &'a Model, id: &'a str) -> Option<Self> {
        static NONE: BTreeMap<Host, VirtualHostRoutes> = BTreeMap::new();
        let (id, listener) = model.listeners.get_key_value(id)?;
        let Listener { bind, traffic: Traffic::Https(tls) } = listener else { return None };
        let plain = tls.plain.as_ref().and_then(|plain| model.plain(plain.as_str()));
        Some(Self { id, bind, tls, plain: plain.map_or(&NONE, |plain| &plain.hosts) })
    }

    /// Returns the listener of `model` that serves the hosts of the listener `plain` over TLS.
    pub fn beside(model: &'a Model, plain: &ListenerId) -> Option<Self> {
        let is_beside = |listener: &Listener| match &listener.traffic {
            Traffic::Https(tls) => tls.plain.as_ref() == Some(plain),
            _ => false,
        };
        let (id, _) = model.listeners.iter().find(|(_, listener)| is_beside(listener))?;
        Self::of(model, id.as_str())
    }
}
