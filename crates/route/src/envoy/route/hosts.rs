//! The virtual hosts of a listener for plain HTTP. Hosts with equal routes share one virtual host with several domains.
//!
//! The cost of a change in Envoy depends on the virtual hosts and routes, and hardly on the domains.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use lockgate_xds::snapshot::{Key, Resource, ResourceType, Update};
use prost::Message;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::Marks;
use super::encoded::{self, LargeHost};
use super::groups::{Group, Renamed};
use crate::envoy::names;
use crate::envoy::statistics::{Counted, Statistics};
use crate::model::{Host, ListenerId, VirtualHostRoutes};
use crate::parallel;
use crate::settings::Settings;

/// The encoded routes and filter configuration of a virtual host. Equal routes have equal bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Table {
    hash: u64,
    bytes: Bytes,
    /// The host, if it has separate statistics or a limit, which a shared virtual host would add up.
    alone: Option<Host>,
}

impl Table {
    fn new(bytes: Vec<u8>, alone: Option<&Host>) -> Self {
        // The hosts of an object have equal bytes, so the hash of a host that is alone includes its name.
        let seed = alone.map_or(0, |host| xxh3_64(host.to_string().as_bytes()));
        Self { hash: xxh3_64_with_seed(&bytes, seed), bytes: bytes.into(), alone: alone.cloned() }
    }

    /// Returns the routes of `host`. Without routes, [`Host::Any`] has one route that answers 404.
    fn of(host: &Host, content: Option<&VirtualHostRoutes>, marks: &Marks, statistics: &Statistics) -> Option<Self> {
        let counted = statistics.on(host);
        match (host, content) {
            (_, Some(content)) => {
                let routes = encoded::encode(super::routes(host, content, marks, counted));
                Some(Self::of_content(routes, host, content, counted))
            }
            (Host::Any, None) => {
                Some(Self::new(encoded::encode(vec![super::answering(404, marks)]), counted.map(|_| host)))
            }
            (_, None) => None,
        }
    }

    /// Returns the table of `content` with these encoded routes.
    fn of_content(mut bytes: Vec<u8>, host: &Host, content: &VirtualHostRoutes, counted: Option<&Counted>) -> Self {
        let config = encoded::encode_config(content);
        let alone = Some(host).filter(|_| counted.is_some() || !config.is_empty());
        bytes.extend(config);
        Self::new(bytes, alone)
    }
}

/// Hashes only the precomputed hash: a table of a thousand routes is large, and is looked up several times.
impl Hash for Table {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// The virtual hosts of a listener, retained so that an update costs only the change. They depend only on the current
/// hosts, not on their history.
#[derive(Debug)]
pub struct VirtualHosts {
    listener: ListenerId,
    tables: BTreeMap<Host, Table>,
    groups: HashMap<Table, Group>,
    /// The virtual hosts by their first domain, which determines the name.
    made: BTreeMap<Host, Arc<Resource>>,
    /// The hosts whose tables reuse encoded routes.
    large: BTreeMap<Host, LargeHost>,
    /// The marks of the encoded tables.
    marks: Marks,
}

impl VirtualHosts {
    /// Creates an empty set of virtual hosts for a listener.
    pub fn new(listener: &ListenerId) -> Self {
        Self {
            listener: listener.clone(),
            tables: BTreeMap::new(),
            groups: HashMap::new(),
            made: BTreeMap::new(),
            large: Default::default(),
            marks: Default::default(),
        }
    }

    /// Updates the `touched` hosts from `hosts`. Returns the changed and the removed virtual hosts. Once [`Host::Any`]
    /// has been touched, it always has a virtual host.
    ///
    /// A domain that moves is in both lists, so apply both together.
    pub fn update<'a>(
        &mut self,
        hosts: &BTreeMap<Host, VirtualHostRoutes>,
        touched: impl IntoIterator<Item = &'a Host>,
        settings: &Settings,
        statistics: &Statistics,
    ) -> Update<Arc<Resource>> {
        let mut renamed = Renamed::default();
        let touched: Vec<&Host> = touched.into_iter().collect();
        let marks = Marks::of(settings);
        if self.marks != marks {
            self.large.clear();
        }
        let tables = parallel::map(&touched, |host| self.table(host, hosts.get(*host), &marks, statistics));
        for (host, (table, large)) in touched.into_iter().zip(tables) {
            match large {
                Some(large) => drop(self.large.insert(host.clone(), large)),
                None => drop(self.large.remove(host)),
            }
            self.touch(host, table, &mut renamed);
        }
        self.marks = marks;
        let mut parts = BTreeMap::new();
        for (table, members) in renamed.after.iter().filter_map(|host| self.members(host)) {
            if let Some(first) = members.first() {
                parts.insert(first, (table, members));
            }
        }
        let parts: Vec<_> = parts.into_iter().collect();
        let made = parallel::map(&parts, |(first, (table, members))| {
            Arc::new(virtual_host(&self.listener, first, members, table, hosts))
        });
        let named: BTreeSet<Host> = parts.into_iter().map(|(first, _)| first.clone()).collect();
        let mut update = Update::setting(made);
        self.made.extend(named.iter().cloned().zip(update.set.iter().cloned()));
        for gone in renamed.before.into_iter().filter(|before| !named.contains(before)) {
            if let Some(gone) = self.made.remove(&gone) {
                update.remove.push((gone.kind(), gone.name().clone()));
            }
        }
        update
    }

    /// Returns all virtual hosts in the order of their first domains.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> + Clone {
        self.made.values()
    }

    /// Returns the resources to remove with the listener.
    pub fn removal(&self) -> impl Iterator<Item = Key> {
        self.made.values().map(|one| (one.kind(), one.name().clone()))
    }

    /// Encodes the routes of a host. If there are many, unchanged routes are not encoded again.
    fn table(
        &self,
        host: &Host,
        content: Option<&VirtualHostRoutes>,
        marks: &Marks,
        statistics: &Statistics,
    ) -> (Option<Table>, Option<LargeHost>) {
        match content.filter(|content| LargeHost::is_large(host, content)) {
            None => (Table::of(host, content, marks, statistics), None),
            Some(content) => {
                let before = self.large.get(host).zip(self.tables.get(host));
                let before = before.map(|(large, table)| (large, &*table.bytes));
                let counted = statistics.on(host);
                let (large, bytes) = LargeHost::encode(content, before, marks, counted);
                (Some(Table::of_content(bytes, host, content, counted)), Some(large))
            }
        }
    }

    fn touch(&mut self, host: &Host, table: Option<Table>, renamed: &mut Renamed) {
        if let Some(old) = self.tables.get(host) {
            if Some(old) == table.as_ref() {
                // The routes are unchanged, but the objects behind them may differ.
                renamed.after.insert(host.clone());
                return;
            }
            let old = old.clone();
            self.tables.remove(host);
            if let Some(group) = self.groups.get_mut(&old) {
                group.remove(host, renamed);
                if group.is_empty() {
                    self.groups.remove(&old);
                }
            }
        }
        if let Some(table) = table {
            let known = self.groups.get_key_value(&table).map(|(known, _)| known.clone());
            let table = known.unwrap_or(table);
            self.tables.insert(host.clone(), table.clone());
            self.groups.entry(table).or_default().insert(host, renamed);
        }
    }

    /// Returns the routes of `host`, and the hosts that share its virtual host.
    fn members(&self, host: &Host) -> Option<(&Table, &[Host])> {
        let table = self.tables.get(host)?;
        Some((table, self.groups.get(table)?.with(host)))
    }
}

/// Builds the resource of the virtual host with the domains `members`. Envoy removes a virtual host by the name in the
/// message, so it must be the name of the resource.
fn virtual_host(
    listener: &ListenerId,
    first: &Host,
    members: &[Host],
    table: &Table,
    hosts: &BTreeMap<Host, VirtualHostRoutes>,
) -> Resource {
    let name = names::virtual_host(listener, first);
    let domains = members.iter().map(Host::to_string).collect();
    let head = route_v3::VirtualHost { name: name.clone(), domains, ..Default::default() };
    let mut message = head.encode_to_vec();
    message.extend_from_slice(&table.bytes);
    let origins = members.iter().filter_map(|host| hosts.get(host)).flat_map(super::origins).collect();
    Resource::from_encoded(ResourceType::VIRTUAL_HOST, &name, &message, origins)
}
