//! The objects of Kubernetes itself, reduced to the fields that the translation reads.

use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use lockgate_route::objects::{
    API_KEYS_TYPE, AddressType, CLIENT_SECRET, ConfigMap, EndpointSlice, HTPASSWD, Ingress, IngressClass,
    IngressStatus, Kind, Namespace, Object, SERVICE_PORTS, Secret, Service, ServicePort, SliceEndpoint, Transport,
};
use serde_json::Value;

use super::credentials::{client_secret, credentials, key_set, key_sets};
use super::decode::{Decode, exact, list, meta};
use super::gateway::{FLEET, service};
use super::names::shared;
use super::secret::{Unusable, authorities, key_pair, revocations};

/// The values of `spec.trafficDistribution` that prefer endpoints in the zone of the client. The same node is in it. Other values can be
/// defined by other products.
const CLOSE: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// The longest value of a label, such as the zone of a node.
const LABEL: usize = 63;

/// The label of an EndpointSlice with the name of its Service.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The key of a ConfigMap's data that is read.
pub const CONFIG_MAP_DATA: &str = "ca.crt";

/// The keys of a Secret's data with a key pair, authorities, and revocation lists.
const SECRET_DATA: [&str; 4] = ["tls.crt", "tls.key", "ca.crt", "crl.pem"];

/// Returns whether this entry of a Secret's data is read.
pub fn is_secret_data(kind: &[u8], key: &[u8], value: &[u8]) -> bool {
    let mut names = SECRET_DATA.iter().chain(&HTPASSWD).chain([&CLIENT_SECRET]);
    kind == API_KEYS_TYPE.as_bytes() || names.any(|read| read.as_bytes() == key) || key_set(value).is_some()
}

impl Decode for networking::Ingress {
    const KIND: Kind = Kind::INGRESS;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn refused(value: &Value) -> Option<(String, String)> {
        list(value.get("spec"), "rules").iter().enumerate().find_map(|(i, rule)| {
            list(rule.get("http"), "paths").iter().enumerate().find_map(|(j, path)| {
                let fault = match path.get("pathType") {
                    Some(Value::String(text)) => match text.as_str() {
                        "Exact" | "Prefix" | "ImplementationSpecific" => return None,
                        other => {
                            format!("\"{other}\" is none of \"Exact\", \"Prefix\" and \"ImplementationSpecific\"")
                        }
                    },
                    None | Some(Value::Null) => "missing".into(),
                    Some(_) => return None, // not text: the types refuse it
                };
                Some((format!("spec.rules[{i}].http.paths[{j}].pathType"), fault))
            })
        })
    }

    fn decode(self) -> Option<Object> {
        let balancer = self.status.and_then(|status| status.load_balancer);
        let status = IngressStatus {
            addresses: balancer.and_then(|balancer| balancer.ingress).unwrap_or_default(),
            writers: writers_of_addresses(&self.metadata),
            version: self.metadata.resource_version.as_deref().unwrap_or_default().into(),
        };
        let (meta, mut spec) = (meta(self.metadata, Self::KIND), self.spec.unwrap_or_default());
        shrink(&mut spec);
        Some(Object::new(Ingress { meta, spec, status }))
    }
}

impl Decode for networking::IngressClass {
    const KIND: Kind = Kind::INGRESS_CLASS;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn decode(self) -> Option<Object> {
        let controller = self.spec.and_then(|spec| spec.controller).unwrap_or_default();
        Some(Object::new(IngressClass { meta: meta(self.metadata, Self::KIND), controller }))
    }
}

impl Decode for core::Service {
    const KIND: Kind = Kind::SERVICE;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn refused(value: &Value) -> Option<(String, String)> {
        list(value.get("spec"), "ports").iter().enumerate().find_map(|(i, port)| {
            let fault = match port.get("port") {
                Some(Value::Number(number)) => match number.as_i64() {
                    Some(1..=65535) => return None,
                    _ => format!("{number} is not between 1 and 65535"),
                },
                None | Some(Value::Null) => "missing".into(),
                Some(_) => return None,
            };
            Some((format!("spec.ports[{i}].port"), fault))
        })
    }

    fn decode(self) -> Option<Object> {
        let spec = self.spec.unwrap_or_default();
        let gateway = service(&self.metadata, &spec, self.status);
        let is_of_fleet = self.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(FLEET));
        let external = spec.type_.as_deref() == Some("ExternalName");
        let port = |port: core::ServicePort| {
            Some(ServicePort {
                name: shared(port.name.as_deref().unwrap_or_default()),
                port: u16::try_from(port.port).ok().filter(|port| *port > 0)?,
                protocol: shared(port.protocol.as_deref().unwrap_or("TCP")),
                app_protocol: port.app_protocol.as_deref().map(shared),
            })
        };
        Some(Object::new(Service {
            meta: meta(self.metadata, Self::KIND),
            external_name: external.then(|| spec.external_name.unwrap_or_default()),
            ports: exact(spec.ports.unwrap_or_default().into_iter().filter_map(port).take(SERVICE_PORTS)),
            ipv6_families: exact(spec.ip_families.unwrap_or_default().iter().map(|family| family == "IPv6")),
            prefers_close: spec.traffic_distribution.is_some_and(|one| CLOSE.contains(&&*one)),
            is_of_fleet,
            gateway,
        }))
    }
}

impl Decode for discovery::EndpointSlice {
    const KIND: Kind = Kind::ENDPOINT_SLICE;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn refused(value: &Value) -> Option<(String, String)> {
        match value.get("addressType").and_then(Value::as_str) {
            Some("IPv4" | "IPv6" | "FQDN") => None,
            None => Some(("addressType".into(), "missing".into())),
            Some(other) => {
                Some(("addressType".into(), format!("\"{other}\" is none of \"IPv4\", \"IPv6\" and \"FQDN\"")))
            }
        }
    }

    fn decode(self) -> Option<Object> {
        let service = self.metadata.labels.as_ref().and_then(|labels| labels.get(SERVICE_NAME));
        let service = shared(service.map(String::as_str).unwrap_or_default());
        let ports = self.ports.unwrap_or_default().into_iter();
        let is_served = |protocol: &str| [Transport::Tcp, Transport::Udp].iter().any(|one| one.as_str() == protocol);
        let ports = ports.filter(|port| port.protocol.as_deref().is_none_or(is_served));
        let namespace = self.metadata.namespace.clone().unwrap_or_default();
        let endpoint = |endpoint: discovery::Endpoint| {
            let conditions = endpoint.conditions.unwrap_or_default();
            let ready = conditions.ready.unwrap_or(true);
            let pod = endpoint.target_ref.filter(|target| target.kind.as_deref() == Some("Pod"));
            Some(SliceEndpoint {
                address: endpoint.addresses.into_iter().next()?.into(),
                ready,
                serving: conditions.serving.unwrap_or(ready),
                terminating: conditions.terminating.unwrap_or(false),
                // The API server accepts any text. Each port of the Service has a copy.
                zone: shared(endpoint.zone.as_deref().filter(|zone| zone.len() <= LABEL).unwrap_or_default()),
                node: shared(endpoint.node_name.as_deref().unwrap_or_default()),
                pod: pod.map(|target| {
                    let namespace = target.namespace.as_deref().unwrap_or(&namespace);
                    format!("{namespace}/{}", target.name.unwrap_or_default()).into()
                }),
            })
        };
        Some(Object::new(EndpointSlice {
            service,
            address_type: match self.address_type.as_str() {
                "IPv4" => AddressType::Ipv4,
                "IPv6" => AddressType::Ipv6,
                _ => AddressType::Fqdn,
            },
            ports: exact(ports.map(|port| {
                let number = port.port.and_then(|port| u16::try_from(port).ok());
                (shared(port.name.as_deref().unwrap_or_default()), number)
            })),
            endpoints: exact(self.endpoints.into_iter().filter_map(endpoint)),
            meta: meta(self.metadata, Self::KIND),
        }))
    }
}

impl Decode for core::Secret {
    const KIND: Kind = Kind::SECRET;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    /// Removes line breaks from the data, because the API server ignores them in base64.
    fn normalized(mut value: Value) -> Value {
        if let Some(Value::Object(data)) = value.get_mut("data") {
            for text in data.values_mut() {
                if let Value::String(text) = text {
                    text.retain(|c| !matches!(c, '\n' | '\r'));
                }
            }
        }
        value
    }

    fn refused(value: &Value) -> Option<(String, String)> {
        let data = value.get("data").and_then(Value::as_object).into_iter().flatten();
        let mut texts = data.filter_map(|(key, value)| Some((key, value.as_str()?)));
        if let Some((key, _)) = texts.find(|(_, text)| BASE64_STANDARD.decode(text).is_err()) {
            let message = "the value is not base64; the field stringData takes plain text";
            return Some((format!("data[\"{key}\"]"), message.to_owned()));
        }
        if value.get("type").and_then(Value::as_str) != Some("kubernetes.io/tls") {
            return None;
        }
        let has = |key: &str| {
            ["data", "stringData"].iter().any(|map| value.get(map).is_some_and(|map| map.get(key).is_some()))
        };
        ["tls.crt", "tls.key"].into_iter().find(|key| !has(key)).map(|key| {
            (format!("data[\"{key}\"]"), "missing; a Secret of type \"kubernetes.io/tls\" must have it".into())
        })
    }

    /// Returns `None` for types other than `kubernetes.io/tls`, `Opaque`, and [`API_KEYS_TYPE`], and for `Opaque` without any of the
    /// data keys that are read. A watch must treat that as a deletion.
    fn decode(self) -> Option<Object> {
        let mut data = self.data.unwrap_or_default();
        data.extend(
            self.string_data
                .unwrap_or_default()
                .into_iter()
                .map(|(key, text)| (key, k8s_openapi::ByteString(text.into_bytes()))),
        );
        let [crt, key, ca, crl] = SECRET_DATA.map(|key| data.get(key));
        let kind = self.type_.as_deref().unwrap_or_default();
        let credentials = credentials(kind, &data).map(Arc::new);
        let key_sets = key_sets(&data);
        let client_secret = client_secret(&data);
        match kind {
            "kubernetes.io/tls" | API_KEYS_TYPE => {}
            "Opaque" | "" if [crt, key, ca, crl].iter().any(Option::is_some) || credentials.is_some() => {}
            "Opaque" | "" if !key_sets.is_empty() || client_secret.is_some() => {}
            _ => return None,
        }
        let checked = match (crt, key) {
            (Some(crt), Some(key)) => key_pair(&crt.0, &key.0, SystemTime::now()),
            (None, _) => Err("data[\"tls.crt\"] is missing".to_owned().into()),
            (_, None) => Err("data[\"tls.key\"] is missing".to_owned().into()),
        };
        let (pair, early, expired, fault) = match checked {
            Ok(pair) => (Some(Arc::new(pair)), None, None, None),
            Err(Unusable { fault, early, expired }) => (None, early, expired, Some(fault)),
        };
        let (authorities, authorities_fault) = match ca.map(|ca| authorities(&ca.0)) {
            Some(Ok(authorities)) => (Some(shared(&authorities)), None),
            Some(Err(fault)) => (None, Some(shared(&fault))),
            None => (None, Some(shared("data[\"ca.crt\"] is missing"))),
        };
        let revocations = crl.map(|crl| revocations(&crl.0).as_deref().map(shared).map_err(|fault| shared(fault)));
        let meta = meta(self.metadata, Self::KIND);
        Some(Object::new(Secret {
            meta,
            pair,
            early,
            expired,
            fault,
            authorities,
            authorities_fault,
            revocations,
            credentials,
            key_sets,
            client_secret,
        }))
    }
}

impl Decode for core::ConfigMap {
    const KIND: Kind = Kind::CONFIG_MAP;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn decode(self) -> Option<Object> {
        let text = self.data?.remove(CONFIG_MAP_DATA)?;
        let authorities = match authorities(text.as_bytes()) {
            Ok(authorities) => Ok(shared(&authorities)),
            Err(fault) => Err(shared(&fault)),
        };
        Some(Object::new(ConfigMap { meta: meta(self.metadata, Self::KIND), authorities }))
    }
}

impl Decode for core::Namespace {
    const KIND: Kind = Kind::NAMESPACE;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn decode(self) -> Option<Object> {
        Some(namespace(self.metadata))
    }
}

/// Returns the Namespace with this metadata, which is all that is read of it.
pub fn namespace(mut metadata: ObjectMeta) -> Object {
    let labels = metadata.labels.take().unwrap_or_default();
    let labels = labels.iter().map(|(name, value)| (shared(name), shared(value))).collect();
    Object::new(Namespace { labels, meta: meta(metadata, Kind::NAMESPACE) })
}

/// Releases spare capacity in the lists of a spec: a list of one element arrives with room for four.
fn shrink(spec: &mut networking::IngressSpec) {
    let rules = spec.rules.iter_mut();
    rules.flatten().filter_map(|rule| rule.http.as_mut()).for_each(|http| http.paths.shrink_to_fit());
    spec.rules.iter_mut().for_each(Vec::shrink_to_fit);
    spec.tls.iter_mut().flatten().flat_map(|tls| &mut tls.hosts).for_each(Vec::shrink_to_fit);
    spec.tls.iter_mut().for_each(Vec::shrink_to_fit);
}

/// Returns the field managers that wrote the addresses in the status of an Ingress.
fn writers_of_addresses(metadata: &ObjectMeta) -> Vec<Arc<str>> {
    let wrote = |entry: &&ManagedFieldsEntry| {
        let fields = entry.fields_v1.as_ref().map(|fields| &fields.0);
        fields.and_then(|fields| fields.pointer("/f:status/f:loadBalancer/f:ingress")).is_some()
    };
    let writers = metadata.managed_fields.iter().flatten().filter(wrote);
    exact(writers.filter_map(|entry| entry.manager.as_deref().map(shared)))
}

#[cfg(test)]
mod tests;
