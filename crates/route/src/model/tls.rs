//! Server names behind TLS: the key pairs that clients are presented, and the hosts that their connections serve.

use std::collections::{BTreeMap, BTreeSet};

use lockgate_xds::provenance::ObjectRef;

use super::{ClientValidation, Host, SecretId, TlsHosts, VirtualHostRoutes};

/// A server name behind TLS, with its key pairs, TLS settings, and hosts.
///
/// The server name (SNI) determines the key pairs. The host of each request determines the routes.
#[derive(Debug, Clone, PartialEq)]
pub struct TlsHost {
    /// The key pairs, by their identities in [`Model::secrets`](super::Model::secrets): at least one, each once. A
    /// client is presented the certificate that covers its server name and has a key type that it supports, otherwise
    /// the first.
    pub secrets: Vec<SecretId>,
    /// Lowest TLS version accepted.
    pub minimum: TlsVersion,
    /// Highest TLS version accepted.
    pub maximum: TlsVersion,
    /// The validation of client certificates. `None`: no certificate is requested.
    pub clients: Option<ClientValidation>,
    /// The hosts that these connections serve. Requests for all other names that the server name covers are answered
    /// 404.
    pub virtual_hosts: ServedHosts,
    /// The response to requests for hosts that the server name does not cover.
    pub others: Others,
    /// Hosts that belong on connections for other server names. Requests for them are answered 421, even if
    /// `virtual_hosts` contains them.
    ///
    /// Server names of the listener that are more specific than this one need no entry. They are always answered 421.
    pub misdirected: BTreeSet<Host>,
    /// Whether connections without a known server name serve the host too, with the certificate of [`Host::Any`].
    pub is_without_server_name: bool,
    /// The objects that request TLS for this host.
    pub origins: Vec<ObjectRef>,
}

/// The response to requests for hosts that the server name of their connection does not cover.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Others {
    /// 421: the client opens another connection, which may serve the host. Source: RFC 9110 section 15.5.20.
    #[default]
    Misdirected,
    /// 404: no connection serves the host.
    NotFound,
}

impl Others {
    /// Returns the HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::Misdirected => 421,
            Self::NotFound => 404,
        }
    }
}

/// A TLS protocol version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// TLS 1.2, the lowest offered.
    V1_2,
    /// TLS 1.3.
    V1_3,
}

/// The virtual hosts behind a server name, by the host of the request.
///
/// Nearly every server name has one virtual host. A `BTreeMap` with one entry allocates memory for eleven.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ServedHosts(Vec<(Host, VirtualHostRoutes)>);

impl ServedHosts {
    /// Returns a single virtual host.
    pub fn one(host: Host, content: VirtualHostRoutes) -> Self {
        Self(vec![(host, content)])
    }

    /// Returns the virtual host with this domain.
    pub fn get(&self, host: &Host) -> Option<&VirtualHostRoutes> {
        let at = self.place(host).ok()?;
        self.0.get(at).map(|(_, content)| content)
    }

    /// Returns the mutable virtual host with this domain.
    pub fn get_mut(&mut self, host: &Host) -> Option<&mut VirtualHostRoutes> {
        let at = self.place(host).ok()?;
        self.0.get_mut(at).map(|(_, content)| content)
    }

    /// Returns all virtual hosts in the order of their domains.
    pub fn iter(&self) -> impl Iterator<Item = (&Host, &VirtualHostRoutes)> {
        self.0.iter().map(|(host, content)| (host, content))
    }

    /// Returns the domains in order.
    pub fn keys(&self) -> impl Iterator<Item = &Host> {
        self.0.iter().map(|(host, _)| host)
    }

    /// Returns the virtual hosts without their domains.
    pub fn values(&self) -> impl Iterator<Item = &VirtualHostRoutes> {
        self.0.iter().map(|(_, content)| content)
    }

    fn place(&self, host: &Host) -> Result<usize, usize> {
        self.0.binary_search_by(|(other, _)| other.cmp(host))
    }
}

/// Sorts the virtual hosts. The last of several entries for a host wins.
impl FromIterator<(Host, VirtualHostRoutes)> for ServedHosts {
    fn from_iter<I: IntoIterator<Item = (Host, VirtualHostRoutes)>>(hosts: I) -> Self {
        let sorted: BTreeMap<Host, VirtualHostRoutes> = hosts.into_iter().collect();
        let mut sorted: Vec<_> = sorted.into_iter().collect();
        sorted.shrink_to_fit();
        Self(sorted)
    }
}

impl TlsHost {
    /// Returns the secrets: its key pairs, and the authorities that validate clients.
    pub fn all_secrets(&self) -> impl Iterator<Item = &SecretId> {
        self.secrets.iter().chain(self.clients.as_ref().and_then(|clients| clients.authorities.as_ref()))
    }
}

impl TlsHosts {
    /// Returns whether a server name has a filter chain of its own, or is refused.
    pub fn names(&self, host: &Host) -> bool {
        self.hosts.contains_key(host) || self.connections.contains_key(host) || self.refused.contains(host)
    }

    /// Returns the server names with a filter chain of their own, and those that are refused.
    pub fn server_names(&self) -> impl Iterator<Item = &Host> {
        self.hosts.keys().chain(self.connections.keys()).chain(&self.refused)
    }

    /// Returns the virtual host for a client that sends the exact name `host` as SNI and as host. Returns `None` if
    /// only a wildcard or [`Host::Any`] matches the host, or if the connection is refused or forwarded.
    pub fn virtual_host(&self, host: &Host) -> Option<&VirtualHostRoutes> {
        let connection = self.connection(host)?;
        Some(connection).filter(|tls| !tls.misdirected.contains(host))?.virtual_hosts.get(host)
    }

    /// Returns the server name that Envoy selects for the SNI `host`.
    fn connection(&self, host: &Host) -> Option<&TlsHost> {
        let name = match host {
            Host::Exact(name) => &**name,
            Host::Wildcard(_) | Host::Any => return self.hosts.get(host),
        };
        let above = name.match_indices('.').map(|(dot, _)| Host::Wildcard(name[dot + 1..].into()));
        let mut patterns = [host.clone()].into_iter().chain(above);
        let selected = patterns.find(|pattern| self.names(pattern)).unwrap_or(Host::Any);
        self.hosts.get(&selected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model::pair_id;

    fn host(text: &str) -> Host {
        match text.strip_prefix("*.") {
            _ if text == "*" => Host::Any,
            Some(suffix) => Host::Wildcard(suffix.into()),
            None => Host::Exact(text.into()),
        }
    }

    /// Returns a virtual host that the number identifies.
    fn content(number: usize) -> VirtualHostRoutes {
        VirtualHostRoutes { one_label: number, ..VirtualHostRoutes::default() }
    }

    #[test]
    fn virtual_hosts_are_sorted_and_unique() {
        let names = ["*", "b.test", "*.test", "a.test", "b.test"];
        let hosts: ServedHosts = names.iter().enumerate().map(|(at, name)| (host(name), content(at))).collect();
        let texts: Vec<String> = hosts.keys().map(Host::to_string).collect();
        assert_eq!(texts, ["a.test", "b.test", "*.test", "*"]);
        assert_eq!(hosts.get(&host("b.test")), Some(&content(4)));
        assert_eq!(hosts.get(&host("c.test")), None);
        assert!(hosts.values().eq(hosts.iter().map(|(_, content)| content)));
    }

    #[test]
    fn the_server_name_and_the_host_select_a_virtual_host() {
        let tls = |names: &[&str], misdirected: &[&str], number| TlsHost {
            secrets: vec![pair_id("cert")],
            minimum: TlsVersion::V1_2,
            maximum: TlsVersion::V1_3,
            clients: None,
            virtual_hosts: names.iter().map(|name| (host(name), content(number))).collect(),
            others: Others::default(),
            misdirected: misdirected.iter().map(|name| host(name)).collect(),
            is_without_server_name: false,
            origins: vec![],
        };
        let hosts = [
            ("a.test", tls(&["a.test"], &[], 1)),
            ("*.test", tls(&["a.test", "b.test", "*.test", "moved.test"], &["moved.test"], 2)),
            ("*", tls(&["b.test", "refused.test", "other"], &[], 3)),
        ];
        let hosts = hosts.map(|(name, tls)| (host(name), tls)).into();
        let listener = TlsHosts { hosts, refused: [host("refused.test")].into(), ..TlsHosts::default() };
        let found = |name: &str| listener.virtual_host(&host(name)).map(|content| content.one_label);
        assert_eq!(["a.test", "b.test", "other"].map(found), [1, 2, 3].map(Some));
        assert_eq!(["c.test", "a.deep.test", "moved.test", "refused.test", "else"].map(found), [None; 5]);
    }
}
