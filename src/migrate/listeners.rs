//! The Gateway with its listeners, ListenerSets for more listeners than a Gateway may have, and ReferenceGrants for Secrets of
//! other namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::model::{Host, SecretId};
use lockgate_route::objects::gateway::GROUP;
use lockgate_route::objects::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::losses::{FindingText, Losses};
use super::names::{Names, of_listener};
use super::routes::HostRules;
use super::served::Served;
use super::streams::Stream;
use super::{Migrated, MigrationOptions, object};
use crate::check::Rule;

/// The maximum number of listeners of a Gateway, and of a ListenerSet. Source: Gateway API v1, `GatewaySpec.listeners`.
const LISTENERS: usize = 64;
/// The maximum number of listeners of a Gateway with its ListenerSets, for Lockgate.
const ALL_LISTENERS: usize = 1024;
/// The maximum number of objects that a ReferenceGrant names. Source: Gateway API v1, `ReferenceGrantSpec.to`.
const GRANTED: usize = 16;

/// The listeners for HTTPS and TLS, by host.
pub struct HostListeners<'m> {
    options: &'m MigrationOptions,
    named: Vec<Named<'m>>,
    at: BTreeMap<&'m Host, usize>,
}

/// A listener with a server name.
struct Named<'m> {
    name: String,
    host: &'m Host,
    /// `HTTPS` or `TLS`.
    protocol: &'static str,
    /// The certificate. `None`: connections are forwarded encrypted.
    secret: Option<&'m SecretId>,
    /// The ListenerSet. `None`: the Gateway itself.
    set: Option<String>,
}

impl<'m> HostListeners<'m> {
    /// The name of the listener for HTTP.
    pub const HTTP: &'static str = "http";

    /// Creates a listener for each host behind TLS, and for each server name whose connections are forwarded.
    pub fn new(
        served: &Served<'m>,
        (hosts, streams): (&[HostRules], &[Stream]),
        options: &'m MigrationOptions,
        losses: &mut Losses,
    ) -> Self {
        let mut names = Names::default();
        names.reserve(Self::HTTP);
        let of_hosts = served.tls.iter().map(|(host, tls)| (*host, "HTTPS", Some(tls.secret)));
        let of_connections = served.connections.iter().map(|(host, connections)| {
            (*host, "TLS", connections.terminated.as_ref().and_then(|tls| tls.secrets.first()))
        });
        let (mut named, mut at) = (Vec::new(), BTreeMap::new());
        for (host, protocol, secret) in of_hosts.chain(of_connections) {
            let index = named.len() + 1;
            if index >= ALL_LISTENERS {
                let of_host = hosts.iter().find(|one| one.host == host);
                let of_streams = streams.iter().filter(|stream| stream.host == host).map(|stream| &stream.owner);
                let of_host = of_host.iter().flat_map(|one| &one.tls).map(|rule| &rule.owner);
                let owners: BTreeSet<&ObjectKey> = of_host.chain(of_streams).collect();
                let field =
                    if losses.migrated() == Migrated::HttpProxies { "spec.virtualhost.tls" } else { "spec.tls" };
                for owner in owners {
                    losses.add_lost(owner, field.to_owned(), too_many(host));
                }
                continue;
            }
            let set = (index >= LISTENERS).then(|| format!("{}-{}", options.gateway.name, index / LISTENERS + 1));
            at.insert(host, named.len());
            named.push(Named { name: names.take(&of_listener(host, protocol)), host, protocol, secret, set });
        }
        if !named.is_empty() && losses.migrated() == Migrated::Ingresses {
            let text = FindingText {
                message: "the Secrets of the listeners may be issued for the Ingresses, such as by cert-manager"
                    .to_owned(),
                consequence: "certificates are not renewed after the Ingresses are deleted",
                remedy: "Create a Certificate for each such Secret before you delete the Ingresses.",
            };
            let rule = Rule::MigrationNote;
            losses.add(Kind::GATEWAY, &options.gateway, String::new(), (rule, rule.level()), text);
        }
        Self { options, named, at }
    }

    /// Returns the reference to the listener for HTTPS or TLS of a host, from a route of this namespace.
    pub fn parent_of(&self, host: &Host, namespace: &str) -> Option<Value> {
        let Named { name, set, .. } = self.named.get(*self.at.get(host)?)?;
        Some(self.parent(set.as_deref(), name, namespace))
    }

    /// Returns the reference to the listener for HTTP, from a route of this namespace.
    pub fn parent_of_http(&self, namespace: &str) -> Value {
        self.parent(None, Self::HTTP, namespace)
    }

    fn parent(&self, set: Option<&str>, section: &str, namespace: &str) -> Value {
        let gateway = &self.options.gateway;
        let mut parent = json!({ "name": set.unwrap_or(&gateway.name), "sectionName": section });
        if set.is_some() {
            parent["kind"] = json!(Kind::LISTENER_SET.as_str());
        }
        if *gateway.namespace != *namespace {
            parent["namespace"] = json!(&*gateway.namespace);
        }
        parent
    }

    /// Returns the Gateway, the ListenerSets, and the ReferenceGrants. `hosts` and `streams` have the namespaces whose routes attach.
    pub fn objects(&self, hosts: &[HostRules], streams: &[Stream]) -> Vec<Value> {
        let MigrationOptions { gateway, class, http_port, https_port, .. } = self.options;
        let plain = namespaces(hosts.iter().flat_map(|host| &host.plain).map(|rule| &rule.owner));
        let http = json!({
            "name": Self::HTTP,
            "port": http_port,
            "protocol": "HTTP",
            "allowedRoutes": self.allowed(&plain),
        });
        let mut of_sets = BTreeMap::<Option<&str>, Vec<Value>>::from([(None, vec![http])]);
        let by_host: BTreeMap<&Host, &HostRules> = hosts.iter().map(|host| (host.host, host)).collect();
        for Named { name, host, protocol, secret, set } in &self.named {
            let rules = by_host.get(host).map(|host| host.tls.as_slice()).unwrap_or_default();
            let of_streams = streams.iter().filter(|stream| stream.host == *host).map(|stream| &stream.owner);
            let owners = rules.iter().map(|rule| &rule.owner).chain(of_streams);
            let tls = secret.map_or_else(
                || json!({ "mode": "Passthrough" }),
                |secret| {
                    let mut certificate = json!({ "name": &*secret.object().name });
                    if secret.object().namespace != gateway.namespace {
                        certificate["namespace"] = json!(&*secret.object().namespace);
                    }
                    json!({ "mode": "Terminate", "certificateRefs": [certificate] })
                },
            );
            let mut listener = json!({
                "name": name,
                "port": https_port,
                "protocol": protocol,
                "tls": tls,
                "allowedRoutes": self.allowed(&namespaces(owners)),
            });
            if **host != Host::Any {
                listener["hostname"] = json!(host.to_string());
            }
            of_sets.entry(set.as_deref()).or_default().push(listener);
        }
        let mut objects = Vec::new();
        let has_sets = of_sets.len() > 1;
        for (set, listeners) in of_sets {
            objects.push(match set {
                None => {
                    let mut spec = json!({ "gatewayClassName": class, "listeners": listeners });
                    if has_sets {
                        spec["allowedListeners"] = json!({ "namespaces": { "from": "Same" } });
                    }
                    object(Kind::GATEWAY, gateway, &[], spec)
                }
                Some(set) => {
                    let spec = json!({ "parentRef": { "name": &*gateway.name }, "listeners": listeners });
                    object(Kind::LISTENER_SET, &super::key(&gateway.namespace, set), &[], spec)
                }
            });
        }
        // By name, `NAME-10` would precede `NAME-2`.
        objects
            .sort_by_cached_key(|object| object["metadata"]["name"].as_str().map(|name| (name.len(), name.to_owned())));
        objects.extend(self.grants());
        objects
    }

    /// Returns the ReferenceGrants for Secrets of other namespaces.
    fn grants(&self) -> Vec<Value> {
        let gateway = &self.options.gateway;
        let mut secrets = BTreeMap::<&Arc<str>, BTreeMap<&Arc<str>, BTreeSet<Kind>>>::new();
        for Named { secret, set, .. } in &self.named {
            let Some(ObjectKey { namespace, name }) = secret.map(SecretId::object) else { continue };
            if *namespace != gateway.namespace {
                let kind = if set.is_some() { Kind::LISTENER_SET } else { Kind::GATEWAY };
                secrets.entry(namespace).or_default().entry(name).or_default().insert(kind);
            }
        }
        let mut grants = Vec::new();
        for (namespace, secrets) in secrets {
            let secrets: Vec<_> = secrets.into_iter().collect();
            let mut names = Names::default();
            for some in secrets.chunks(GRANTED) {
                let kinds: BTreeSet<Kind> = some.iter().flat_map(|(_, kinds)| kinds).copied().collect();
                let from = kinds
                    .iter()
                    .map(|kind| json!({ "group": GROUP, "kind": kind.as_str(), "namespace": &*gateway.namespace }));
                let to = some.iter().map(|(name, _)| json!({ "group": "", "kind": "Secret", "name": &**name }));
                let spec = json!({ "from": from.collect::<Vec<_>>(), "to": to.collect::<Vec<_>>() });
                let name = names.take(&format!("{}-certificates", gateway.name));
                grants.push(object(Kind::REFERENCE_GRANT, &super::key(namespace, &name), &[], spec));
            }
        }
        grants
    }

    /// Returns the permission for routes of these namespaces.
    fn allowed(&self, namespaces: &BTreeSet<Arc<str>>) -> Value {
        let own = &self.options.gateway.namespace;
        if namespaces.iter().all(|namespace| namespace == own) {
            return json!({ "namespaces": { "from": "Same" } });
        }
        let values: Vec<&str> = namespaces.iter().map(|namespace| &**namespace).collect();
        let condition = json!({ "key": "kubernetes.io/metadata.name", "operator": "In", "values": values });
        json!({ "namespaces": { "from": "Selector", "selector": { "matchExpressions": [condition] } } })
    }
}

fn namespaces<'a>(owners: impl Iterator<Item = &'a ObjectKey>) -> BTreeSet<Arc<str>> {
    owners.map(|owner| owner.namespace.clone()).collect()
}

fn too_many(host: &Host) -> FindingText<'static> {
    FindingText {
        message: format!(
            "no listener is left for host \"{host}\": a Gateway has at most {ALL_LISTENERS} with its ListenerSets"
        ),
        consequence: match host {
            Host::Any => "the default certificate is left out",
            _ => "the host is not served behind TLS",
        },
        remedy: "Migrate the namespaces in several runs with different Gateways.",
    }
}
