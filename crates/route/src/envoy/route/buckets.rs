//! The routes of a listener for plain HTTP in a fixed number of route configurations (buckets), for very large sites. A
//! change makes Envoy process one bucket instead of all virtual hosts.
//!
//! Envoy selects the bucket of a request with a key (SRDS), which a CEL expression computes from the host. Envoy
//! answers 404 for an unknown key, so every host has a valid key: the number of its bucket. A bucket contains its own
//! exact hosts, and all wildcard hosts and the default host, for unknown host names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use lockgate_xds::snapshot::{Key, Resource, ResourceType, Update};
use route_v3::scoped_route_configuration::{Key as ScopeKey, key};

use super::VirtualHosts;
use crate::envoy::names;
use crate::envoy::statistics::Statistics;
use crate::model::{Host, ListenerId, VirtualHost};
use crate::settings::Settings;

/// For each bit of a bucket number: the letters and digits whose count in a host determines the bit. The bit is 0 for
/// an even count.
///
/// RE2 cannot count beyond parity. The sets were selected by search for two properties. Hosts of any kind are
/// distributed evenly, even if they differ in a number only; the largest bucket is at most 1.7 times the mean. Each set
/// has few ranges, because Envoy rejects expressions whose programs have more than 100 instructions. Other characters
/// do not count, so a port may follow.
const SETS: [&str; 6] =
    ["245789ijlmtuvz", "3567efghinoqrw", "034568ahijmnotuv", "168hlmrwxyz", "2378bcknprstuwx", "0234589bgijklmoqrvwxy"];

/// The number of buckets. Another number would change the keys, and therefore the listener.
pub const COUNT: usize = 1 << SETS.len();

/// Returns the bucket of a host without a port.
fn bucket(host: &str) -> usize {
    let odd = |set: &&str| host.bytes().filter(|byte| set.as_bytes().contains(&byte.to_ascii_lowercase())).count() % 2;
    SETS.iter().enumerate().map(|(bit, set)| odd(set) << bit).sum()
}

/// Returns the scope key of a request, in Envoy's format.
pub fn key(listener: &ListenerId) -> String {
    let bits = SETS.iter().enumerate().map(|(bit, set)| {
        let (odd, even) = (class(|byte| set.as_bytes().contains(&byte)), class(|byte| !set.as_bytes().contains(&byte)));
        format!("(request.host.matches('^({even}|{odd}{even}*{odd})*(:|$)')?0:{})", 1 << bit)
    });
    names::bucket(listener, format_args!("%CEL({})%", bits.collect::<Vec<_>>().join("+")))
}

/// Returns a character class with few ranges for the characters of a host. `has` decides about the lower-case
/// characters.
fn class(has: impl Fn(u8) -> bool) -> String {
    let characters = (b'.'..=b'z').filter(|byte| byte.is_ascii_alphanumeric() || b"._".contains(byte));
    let mut ranges: Vec<(u8, u8)> = Vec::new();
    for byte in characters.filter(|byte| has(byte.to_ascii_lowercase())) {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == byte => *last = byte,
            _ => ranges.push((byte, byte)),
        }
    }
    let ranges = ranges.into_iter().map(|(first, last)| format!("{}-{}", char::from(first), char::from(last)));
    // A hyphen at the end is literal.
    format!("[{}{}]", ranges.collect::<String>(), if has(b'-') { "-" } else { "" })
}

/// The buckets and their contents. A change of an exact host rebuilds one bucket; a change of a wildcard host rebuilds
/// all.
#[derive(Debug)]
pub struct Buckets {
    listener: ListenerId,
    exact: Vec<VirtualHosts>,
    /// Wildcard hosts and the default host.
    everywhere: VirtualHosts,
    given: bool,
}

impl Buckets {
    /// Creates the empty buckets of a listener.
    pub fn new(listener: &ListenerId) -> Self {
        let hosts = || VirtualHosts::new(listener);
        let exact = (0..COUNT).map(|_| hosts()).collect();
        Self { listener: listener.clone(), exact, everywhere: hosts(), given: false }
    }

    /// Updates the `touched` hosts from `hosts`. Returns the changed scopes and route configurations.
    pub fn update<'a>(
        &mut self,
        hosts: &BTreeMap<Host, VirtualHost>,
        touched: impl IntoIterator<Item = &'a Host>,
        settings: &Settings,
        statistics: &Statistics,
        everything: bool,
    ) -> Update<Arc<Resource>> {
        let mut by_bucket: BTreeMap<usize, Vec<&Host>> = BTreeMap::new();
        let mut elsewhere = Vec::new();
        for host in touched {
            match host {
                Host::Exact(name) => by_bucket.entry(bucket(name)).or_default().push(host),
                Host::Wildcard(_) | Host::Any => elsewhere.push(host),
            }
        }
        let first = !std::mem::replace(&mut self.given, true);
        if first || everything {
            elsewhere.push(&Host::Any);
        }
        let changed = |update: Update<Arc<Resource>>| !update.set.is_empty() || !update.remove.is_empty();
        let mut stale: BTreeSet<usize> = BTreeSet::new();
        for (number, touched) in by_bucket {
            if changed(self.exact[number].update(hosts, touched, settings, statistics)) {
                stale.insert(number);
            }
        }
        if changed(self.everywhere.update(hosts, elsewhere, settings, statistics)) || everything {
            stale.extend(0..COUNT);
        }
        let mut update = Update::default();
        if first {
            update.set.extend((0..COUNT).map(|number| Arc::new(scope(&self.listener, number))));
        }
        update.set.extend(stale.into_iter().map(|number| Arc::new(self.routes(number, settings))));
        update
    }

    /// Returns the resources to remove with the listener.
    pub fn removal(&self) -> impl Iterator<Item = Key> {
        let kinds = [ResourceType::SCOPED_ROUTES, ResourceType::ROUTES];
        (0..COUNT).flat_map(move |number| kinds.map(|kind| (kind, names::bucket(&self.listener, number).into())))
    }

    fn routes(&self, number: usize, settings: &Settings) -> Resource {
        let routes = super::route_configuration(&names::bucket(&self.listener, number), vec![]);
        let mut routes = super::with_settings(routes, settings);
        // The header with the key is not for backends.
        routes.request_headers_to_remove.insert(0, names::BUCKET.to_owned());
        super::with_virtual_hosts(routes, self.exact[number].all().chain(self.everywhere.all()))
    }
}

fn scope(listener: &ListenerId, number: usize) -> Resource {
    let name = names::bucket(listener, number);
    let fragment = key::Fragment { r#type: Some(key::fragment::Type::StringKey(name.clone())) };
    let scope = route_v3::ScopedRouteConfiguration {
        name: name.clone(),
        route_configuration_name: name.clone(),
        key: Some(ScopeKey { fragments: vec![fragment] }),
        ..Default::default()
    };
    Resource::new(&name, &scope, vec![])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_spread_over_all_buckets() {
        for form in ["N.test", "host-N.example.com", "N-shop.customers.example.org"] {
            let mut sizes = vec![0; COUNT];
            for number in 0..6_400 {
                sizes[bucket(&form.replace('N', &number.to_string()))] += 1;
            }
            let (most, least) = (sizes.iter().max(), sizes.iter().min());
            assert!(most < Some(&200) && least > Some(&20), "{form}: {least:?} to {most:?} of 100");
        }
    }

    #[test]
    fn case_is_ignored() {
        assert_eq!(bucket("Shop.EXAMPLE.com"), bucket("shop.example.com"));
    }
}
