//! The Gateway with its listeners, ListenerSets for more listeners than a Gateway may have, and ReferenceGrants for Secrets of
//! other namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_route::model::{Host, SecretId};
use lockgate_route::objects::gateway::GROUP;
use lockgate_route::objects::{Kind, ObjectKey};
use serde_json::{Value, json};

use super::losses::{Losses, Text};
use super::names::{Names, of_listener};
use super::routes::HostRules;
use super::served::Served;
use super::{Migrated, Options, object};
use crate::check::Rule;

/// The maximum number of listeners of a Gateway, and of a ListenerSet. Source: Gateway API v1, `GatewaySpec.listeners`.
const LISTENERS: usize = 64;
/// The maximum number of listeners of a Gateway with its ListenerSets, for Lockgate.
const ALL_LISTENERS: usize = 1024;
/// The maximum number of objects that a ReferenceGrant names. Source: Gateway API v1, `ReferenceGrantSpec.to`.
const GRANTED: usize = 16;

/// The listeners for HTTPS, by host.
pub struct Listeners<'m> {
    options: &'m Options,
    https: Vec<Https<'m>>,
    at: BTreeMap<&'m Host, usize>,
}

struct Https<'m> {
    name: String,
    host: &'m Host,
    secret: &'m SecretId,
    /// The ListenerSet. `None`: the Gateway itself.
    set: Option<String>,
}

impl<'m> Listeners<'m> {
    /// The name of the listener for HTTP.
    pub const HTTP: &'static str = "http";

    /// Creates a listener for each host behind TLS.
    pub fn new(served: &Served<'m>, hosts: &[HostRules], options: &'m Options, losses: &mut Losses) -> Self {
        let mut names = Names::default();
        names.reserve(Self::HTTP);
        let (mut https, mut at) = (Vec::new(), BTreeMap::new());
        for (host, tls) in &served.tls {
            let index = https.len() + 1;
            if index >= ALL_LISTENERS {
                let of_host = hosts.iter().find(|one| one.host == *host);
                let owners: BTreeSet<&ObjectKey> =
                    of_host.iter().flat_map(|one| &one.tls).map(|rule| &rule.owner).collect();
                let field =
                    if losses.migrated() == Migrated::HttpProxies { "spec.virtualhost.tls" } else { "spec.tls" };
                for owner in owners {
                    losses.add_lost(owner, field.to_owned(), too_many(host));
                }
                continue;
            }
            let set = (index >= LISTENERS).then(|| format!("{}-{}", options.gateway.name, index / LISTENERS + 1));
            at.insert(*host, https.len());
            https.push(Https { name: names.take(&of_listener(host)), host, secret: tls.secret, set });
        }
        if !https.is_empty() && losses.migrated() == Migrated::Ingresses {
            let text = Text {
                message: "the Secrets of the listeners may be issued for the Ingresses, such as by cert-manager"
                    .to_owned(),
                consequence: "certificates are not renewed after the Ingresses are deleted",
                remedy: "Create a Certificate for each such Secret before you delete the Ingresses.",
            };
            let rule = Rule::MigrationNote;
            losses.add(Kind::GATEWAY, &options.gateway, String::new(), (rule, rule.level()), text);
        }
        Self { options, https, at }
    }

    /// Returns the ListenerSet and the name of the listener for HTTPS of a host.
    pub fn section(&self, host: &Host) -> Option<(Option<&str>, &str)> {
        let https = self.https.get(*self.at.get(host)?)?;
        Some((https.set.as_deref(), &https.name))
    }

    /// Returns the Gateway, the ListenerSets, and the ReferenceGrants. `hosts` have the namespaces whose routes attach.
    pub fn objects(&self, hosts: &[HostRules]) -> Vec<Value> {
        let Options { gateway, class, http_port, https_port, .. } = self.options;
        let plain = namespaces(hosts.iter().flat_map(|host| &host.plain).map(|rule| &rule.owner));
        let http = json!({
            "name": Self::HTTP,
            "port": http_port,
            "protocol": "HTTP",
            "allowedRoutes": self.allowed(&plain),
        });
        let mut of_sets = BTreeMap::<Option<&str>, Vec<Value>>::from([(None, vec![http])]);
        let by_host: BTreeMap<&Host, &HostRules> = hosts.iter().map(|host| (host.host, host)).collect();
        for Https { name, host, secret, set } in &self.https {
            let rules = by_host.get(host).map(|host| host.tls.as_slice()).unwrap_or_default();
            let mut certificate = json!({ "name": &*secret.object().name });
            if secret.object().namespace != gateway.namespace {
                certificate["namespace"] = json!(&*secret.object().namespace);
            }
            let mut listener = json!({
                "name": name,
                "port": https_port,
                "protocol": "HTTPS",
                "tls": { "mode": "Terminate", "certificateRefs": [certificate] },
                "allowedRoutes": self.allowed(&namespaces(rules.iter().map(|rule| &rule.owner))),
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
        for Https { secret, set, .. } in &self.https {
            let ObjectKey { namespace, name } = secret.object();
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

fn too_many(host: &Host) -> Text<'static> {
    Text {
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
