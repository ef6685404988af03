//! The part of a model that some of its listeners need.

use std::collections::{BTreeMap, BTreeSet};

use super::{ClusterId, Discovery, ListenerId, Model, Route, SecretId, Touched, Traffic};

impl Model {
    /// Returns the model of some listeners: only they, and the clusters, endpoints, and secrets that they need.
    ///
    /// A listener for HTTP over TLS belongs together with its listener for plain HTTP.
    pub fn subset(&self, listeners: &BTreeSet<ListenerId>) -> Self {
        let listeners: BTreeMap<_, _> = listeners.iter().filter_map(|id| self.listeners.get_key_value(id)).collect();
        let clusters: BTreeSet<&ClusterId> =
            listeners.values().flat_map(|listener| listener.traffic.clusters()).collect();
        let clusters: BTreeMap<_, _> = clusters.into_iter().filter_map(|id| self.clusters.get_key_value(id)).collect();
        let ports = clusters.iter().filter(|(_, cluster)| cluster.discovery == Discovery::Eds).map(|(id, _)| &id.port);
        let of_listeners = listeners.values().flat_map(|listener| listener.traffic.secrets());
        let of_clusters = clusters.values().flat_map(|cluster| cluster.policy.secrets());
        let of_stats = self.stats_tls.iter().flat_map(|stats| stats.clients.iter().chain([&stats.secret]));
        let secrets = of_listeners.chain(of_clusters).chain(of_stats);
        Self {
            endpoints: cloned(ports.filter_map(|port| self.endpoints.get_key_value(port))),
            secrets: cloned(secrets.filter_map(|id| self.secrets.get_key_value(id))),
            listeners: cloned(listeners),
            clusters: cloned(clusters),
            stats_tls: self.stats_tls.clone(),
        }
    }
}

impl Traffic {
    /// Returns the clusters that requests and connections are sent to, with repetitions.
    pub fn clusters(&self) -> impl Iterator<Item = &ClusterId> {
        let (mut routes, mut direct): (Vec<&Route>, Vec<&ClusterId>) = (vec![], vec![]);
        match self {
            Self::Http(plain) => {
                routes.extend(plain.hosts.values().flat_map(|host| &host.routes).map(|route| &**route))
            }
            Self::Https(tls) => {
                let hosts = tls.hosts.values().flat_map(|tls| tls.virtual_hosts.values());
                routes.extend(hosts.flat_map(|host| &host.routes).map(|route| &**route));
            }
            Self::Tls(hosts) => {
                direct.extend(hosts.values().flat_map(|host| &host.to.clusters).map(|one| &one.cluster));
            }
            Self::Tcp(to) | Self::Udp(to) => direct.extend(to.clusters.iter().map(|one| &one.cluster)),
        }
        direct.into_iter().chain(routes.into_iter().flat_map(|route| route.action.clusters()))
    }

    /// Returns the key pairs that are presented to clients, and the authorities that validate these, with repetitions.
    fn secrets(&self) -> impl Iterator<Item = &SecretId> {
        let mut secrets: Vec<&SecretId> = Vec::new();
        match self {
            Self::Https(tls) => {
                secrets.extend(tls.hosts.values().flat_map(|host| &host.secrets));
                secrets.extend(tls.clients.as_ref().map(|clients| &clients.authorities));
            }
            Self::Tls(hosts) => {
                let terminated = hosts.values().filter_map(|host| host.terminated.as_ref());
                secrets.extend(terminated.flat_map(|terminated| &terminated.secrets));
            }
            Self::Http(_) | Self::Tcp(_) | Self::Udp(_) => {}
        }
        secrets.into_iter()
    }
}

impl Touched {
    /// Returns the touched entries of a [subset](Model::subset) that was `before` and is `now`. An entry that only joined or
    /// left the subset is touched too.
    pub fn in_subset(&self, before: &Model, now: &Model) -> Self {
        let listeners = within(&self.listeners, &before.listeners, &now.listeners);
        let is_in = |id: &ListenerId| before.listeners.contains_key(id) || now.listeners.contains_key(id);
        Self {
            listeners,
            hosts: cloned(self.hosts.iter().filter(|(id, _)| is_in(id))),
            clusters: within(&self.clusters, &before.clusters, &now.clusters),
            endpoints: within(&self.endpoints, &before.endpoints, &now.endpoints),
            secrets: within(&self.secrets, &before.secrets, &now.secrets),
            stats_tls: self.stats_tls,
        }
    }
}

/// Returns the keys that are `touched` and in one of two maps, and the keys that are in only one of them.
fn within<K: Ord + Clone, V>(touched: &BTreeSet<K>, before: &BTreeMap<K, V>, now: &BTreeMap<K, V>) -> BTreeSet<K> {
    let added = now.keys().filter(|key| touched.contains(key) || !before.contains_key(key));
    let removed = before.keys().filter(|key| touched.contains(key) || !now.contains_key(key));
    added.chain(removed).cloned().collect()
}

fn cloned<'a, K: Ord + Clone + 'a, V: Clone + 'a>(entries: impl IntoIterator<Item = (&'a K, &'a V)>) -> BTreeMap<K, V> {
    entries.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use lockgate_xds::provenance::ObjectRef;

    use super::*;
    use crate::model::{Bind, Destination, Host, Listener, Termination, TlsConnections, TlsVersion, WeightedCluster};
    use crate::testing::model::{cluster_id, model, pair_id};

    fn listeners(ids: &[&str]) -> BTreeSet<ListenerId> {
        ids.iter().map(|id| ListenerId::new(id)).collect()
    }

    /// The model with a listener for TCP connections to one cluster, and without client certificates.
    fn with_tcp(cluster: &str) -> Model {
        let clusters = vec![WeightedCluster::new(cluster_id(cluster), 1)];
        let origin = ObjectRef::new("TCPRoute", "shop", "cart");
        let traffic = Traffic::Tcp(Destination { clusters, refused: 0, origin });
        let mut model = Model { stats_tls: None, ..model() };
        model.clusters.values_mut().for_each(|cluster| Arc::make_mut(cluster).policy.client_certificate = None);
        model.listeners.insert(ListenerId::new("tcp"), Listener { bind: Bind::default(), traffic });
        model
    }

    #[test]
    fn a_subset_has_the_resources_of_its_listeners_alone() {
        let all = with_tcp("shop/ip/h2c");
        let tcp = all.subset(&listeners(&["tcp", "unknown"]));
        assert!(tcp.listeners.keys().eq(&listeners(&["tcp"])));
        assert!(tcp.clusters.keys().eq([&cluster_id("shop/ip/h2c")]));
        assert!(tcp.endpoints.is_empty() && tcp.secrets.is_empty());
        assert!(all.subset(&listeners(&[ListenerId::HTTP])).secrets.is_empty(), "no key pair without TLS");
        assert!(all.subset(&listeners(&[ListenerId::HTTPS])).secrets.keys().eq([&pair_id("cert")]));
        let model = model();
        assert_eq!(model.subset(&model.listeners.keys().cloned().collect()), model, "with the secrets of statistics");
    }

    #[test]
    fn a_subset_has_the_key_pairs_of_terminated_connections() {
        let mut all = with_tcp("shop/ip/h2c");
        let Traffic::Tcp(to) = all.listeners["tcp"].traffic.clone() else { unreachable!() };
        let (secrets, minimum, maximum) = (vec![pair_id("cert")], TlsVersion::V1_2, TlsVersion::V1_3);
        let terminated = Some(Termination { secrets, minimum, maximum });
        let traffic = Traffic::Tls([(Host::Any, TlsConnections { terminated, to })].into());
        all.listeners.insert(ListenerId::new("tls"), Listener { bind: Bind::default(), traffic });
        let tls = all.subset(&listeners(&["tls"]));
        assert!(tls.clusters.keys().eq([&cluster_id("shop/ip/h2c")]));
        assert!(tls.secrets.keys().eq([&pair_id("cert")]));
    }

    #[test]
    fn entries_that_join_or_leave_a_subset_are_touched() {
        let tcp = listeners(&["tcp"]);
        let [before, now] = ["shop/ip/h2c", "shop/cart/http"].map(|cluster| with_tcp(cluster).subset(&tcp));
        let mut touched = Touched { listeners: listeners(&["tcp", "http"]), ..Touched::default() };
        touched.insert_host("http", Host::Any);
        touched.clusters.insert(cluster_id("shop/tls/443"));
        let clusters = ["shop/ip/h2c", "shop/cart/http"].map(cluster_id);
        let expected = Touched {
            listeners: tcp,
            endpoints: [clusters[1].port.clone()].into(),
            clusters: clusters.into(),
            ..Touched::default()
        };
        assert_eq!(touched.in_subset(&before, &now), expected);
        assert!(Touched::default().in_subset(&now, &now).is_empty());
    }
}
