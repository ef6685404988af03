//! The messages of the Kubernetes API in its protobuf form, with the fields that we read and no others: what is not
//! here is stepped over without being looked at.
//!
//! Field numbers are those of `generated.proto` of `k8s.io/api` and `k8s.io/apimachinery`. Each message becomes the type
//! that JSON gives too, so that both forms of an object are cut down by the same code. Go writes fields that are no
//! pointers even if they are empty, which JSON leaves out.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use k8s_openapi::jiff::Timestamp;
use prost::Message;
use prost::bytes::Bytes;

use crate::source::decode::{SERVICE_NAME, is_read};

/// What JSON leaves out: empty text.
fn some(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}

/// An entry of a map from text to text.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// The entries whose key passes `filter`. An entry begins with its key, so the others are not decoded.
fn entries(entries: Vec<Bytes>, filter: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    let wanted = |entry: &Bytes| match &**entry {
        [0x0a, length, rest @ ..] if *length < 0x80 => {
            let key = rest.get(..usize::from(*length)).and_then(|key| std::str::from_utf8(key).ok());
            key.is_none_or(&filter)
        }
        _ => true,
    };
    let entries = entries.into_iter().filter(wanted).filter_map(|entry| Entry::decode(entry).ok());
    entries.filter(|entry| filter(&entry.key)).map(|entry| (entry.key, entry.value)).collect()
}

#[derive(Clone, PartialEq, Message)]
pub struct Time {
    #[prost(int64, tag = "1")]
    seconds: i64,
}

#[derive(Clone, PartialEq, Message)]
struct FieldsV1 {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct ManagedFields {
    #[prost(string, tag = "1")]
    manager: String,
    #[prost(message, optional, tag = "7")]
    fields: Option<FieldsV1>,
}

/// `ObjectMeta`. Maps and managed fields are kept as they come, for most of them are never decoded.
#[derive(Clone, PartialEq, Message)]
pub struct ObjectMeta {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "3")]
    pub namespace: String,
    #[prost(string, tag = "5")]
    uid: String,
    #[prost(string, tag = "6")]
    pub version: String,
    #[prost(int64, tag = "7")]
    generation: i64,
    #[prost(message, optional, tag = "8")]
    created: Option<Time>,
    #[prost(message, optional, tag = "9")]
    deleted: Option<Time>,
    #[prost(bytes = "bytes", repeated, tag = "11")]
    labels: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "12")]
    annotations: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "17")]
    managed_fields: Vec<Bytes>,
}

impl From<ObjectMeta> for meta::ObjectMeta {
    fn from(from: ObjectMeta) -> Self {
        let created = from.created.filter(|time| time.seconds != 0);
        meta::ObjectMeta {
            name: some(from.name),
            namespace: some(from.namespace),
            uid: some(from.uid),
            resource_version: some(from.version),
            generation: Some(from.generation).filter(|generation| *generation != 0),
            // Whether it is set is read, and not when: one out of range counts too.
            deletion_timestamp: from
                .deleted
                .map(|time| meta::Time(Timestamp::from_second(time.seconds).unwrap_or(Timestamp::UNIX_EPOCH))),
            creation_timestamp: created.and_then(|time| Timestamp::from_second(time.seconds).ok()).map(meta::Time),
            annotations: Some(entries(from.annotations, is_read)),
            ..Default::default()
        }
    }
}

/// The entries of managed fields that name addresses in an Ingress' status.
fn writers(managed_fields: &[Bytes]) -> Vec<meta::ManagedFieldsEntry> {
    let mark = b"\"f:loadBalancer\"";
    let may = managed_fields.iter().filter(|entry| entry.windows(mark.len()).any(|window| window == mark));
    let entry = |entry: &Bytes| {
        let entry = ManagedFields::decode(entry.clone()).ok()?;
        let fields = serde_json::from_slice(&entry.fields?.raw).ok()?;
        Some(meta::ManagedFieldsEntry {
            manager: some(entry.manager),
            fields_v1: Some(meta::FieldsV1(fields)),
            ..Default::default()
        })
    };
    may.filter_map(entry).collect()
}

#[derive(Clone, PartialEq, Message)]
pub struct Partial {
    #[prost(message, optional, tag = "1")]
    pub metadata: Option<ObjectMeta>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Ingress {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<IngressSpec>,
    #[prost(message, optional, tag = "3")]
    status: Option<IngressStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct IngressSpec {
    #[prost(message, optional, tag = "1")]
    default_backend: Option<IngressBackend>,
    #[prost(message, repeated, tag = "2")]
    tls: Vec<IngressTls>,
    #[prost(message, repeated, tag = "3")]
    rules: Vec<IngressRule>,
    #[prost(string, optional, tag = "4")]
    ingress_class_name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct IngressBackend {
    #[prost(message, optional, tag = "3")]
    resource: Option<Resource>,
    #[prost(message, optional, tag = "4")]
    service: Option<IngressService>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(string, optional, tag = "1")]
    api_group: Option<String>,
    #[prost(string, tag = "2")]
    kind: String,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct IngressService {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, optional, tag = "2")]
    port: Option<BackendPort>,
}

#[derive(Clone, PartialEq, Message)]
struct BackendPort {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(int32, tag = "2")]
    number: i32,
}

#[derive(Clone, PartialEq, Message)]
struct IngressTls {
    #[prost(string, repeated, tag = "1")]
    hosts: Vec<String>,
    #[prost(string, tag = "2")]
    secret_name: String,
}

#[derive(Clone, PartialEq, Message)]
struct IngressRule {
    #[prost(string, tag = "1")]
    host: String,
    #[prost(message, optional, tag = "2")]
    value: Option<RuleValue>,
}

#[derive(Clone, PartialEq, Message)]
struct RuleValue {
    #[prost(message, optional, tag = "1")]
    http: Option<HttpRule>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpRule {
    #[prost(message, repeated, tag = "1")]
    paths: Vec<HttpPath>,
}

#[derive(Clone, PartialEq, Message)]
struct HttpPath {
    #[prost(string, tag = "1")]
    path: String,
    #[prost(message, optional, tag = "2")]
    backend: Option<IngressBackend>,
    #[prost(string, tag = "3")]
    path_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct IngressStatus {
    #[prost(message, optional, tag = "1")]
    balancer: Option<Balancer>,
}

#[derive(Clone, PartialEq, Message)]
struct Balancer {
    #[prost(message, repeated, tag = "1")]
    ingress: Vec<BalancerIngress>,
}

#[derive(Clone, PartialEq, Message)]
struct BalancerIngress {
    #[prost(string, tag = "1")]
    ip: String,
    #[prost(string, tag = "2")]
    hostname: String,
    #[prost(message, repeated, tag = "4")]
    ports: Vec<PortStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct PortStatus {
    #[prost(int32, tag = "1")]
    port: i32,
    #[prost(string, tag = "2")]
    protocol: String,
    #[prost(string, optional, tag = "3")]
    error: Option<String>,
}

fn backend(from: IngressBackend) -> networking::IngressBackend {
    networking::IngressBackend {
        resource: from.resource.map(|resource| core::TypedLocalObjectReference {
            api_group: resource.api_group,
            kind: resource.kind,
            name: resource.name,
        }),
        service: from.service.map(|service| networking::IngressServiceBackend {
            name: service.name,
            port: service.port.map(|port| networking::ServiceBackendPort {
                name: some(port.name),
                number: Some(port.number).filter(|number| *number != 0),
            }),
        }),
    }
}

fn rule(from: IngressRule) -> networking::IngressRule {
    let path = |path: HttpPath| networking::HTTPIngressPath {
        path: some(path.path),
        path_type: path.path_type,
        backend: path.backend.map(backend).unwrap_or_default(),
    };
    let http = from.value.and_then(|value| value.http);
    networking::IngressRule {
        host: some(from.host),
        http: http.map(|http| networking::HTTPIngressRuleValue { paths: http.paths.into_iter().map(path).collect() }),
    }
}

/// `None` for a list that is empty, as in JSON.
fn list<A, B>(from: Vec<A>, f: impl FnMut(A) -> B) -> Option<Vec<B>> {
    Some(from).filter(|list| !list.is_empty()).map(|list| list.into_iter().map(f).collect())
}

impl From<Ingress> for networking::Ingress {
    fn from(from: Ingress) -> Self {
        let metadata = from.metadata.unwrap_or_default();
        let managed_fields = writers(&metadata.managed_fields);
        let tls = |tls: IngressTls| networking::IngressTLS {
            hosts: list(tls.hosts, |host| host),
            secret_name: some(tls.secret_name),
        };
        let port = |port: PortStatus| networking::IngressPortStatus {
            port: port.port,
            protocol: port.protocol,
            error: port.error,
        };
        let address = |address: BalancerIngress| networking::IngressLoadBalancerIngress {
            ip: some(address.ip),
            hostname: some(address.hostname),
            ports: list(address.ports, port),
        };
        let balancer = from.status.and_then(|status| status.balancer);
        networking::Ingress {
            metadata: meta::ObjectMeta { managed_fields: Some(managed_fields), ..metadata.into() },
            spec: from.spec.map(|spec| networking::IngressSpec {
                default_backend: spec.default_backend.map(backend),
                ingress_class_name: spec.ingress_class_name,
                rules: list(spec.rules, rule),
                tls: list(spec.tls, tls),
            }),
            status: balancer.map(|balancer| networking::IngressStatus {
                load_balancer: Some(networking::IngressLoadBalancerStatus { ingress: list(balancer.ingress, address) }),
            }),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct IngressClass {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<IngressClassSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct IngressClassSpec {
    #[prost(string, tag = "1")]
    controller: String,
}

impl From<IngressClass> for networking::IngressClass {
    fn from(from: IngressClass) -> Self {
        networking::IngressClass {
            metadata: from.metadata.unwrap_or_default().into(),
            spec: from
                .spec
                .map(|spec| networking::IngressClassSpec { controller: some(spec.controller), ..Default::default() }),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct Service {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<ServiceSpec>,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceSpec {
    #[prost(message, repeated, tag = "1")]
    ports: Vec<ServicePort>,
    #[prost(string, tag = "4")]
    kind: String,
    #[prost(string, tag = "10")]
    external_name: String,
    #[prost(string, repeated, tag = "19")]
    ip_families: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
struct ServicePort {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    protocol: String,
    #[prost(int32, tag = "3")]
    port: i32,
    #[prost(string, optional, tag = "6")]
    app_protocol: Option<String>,
}

impl From<Service> for core::Service {
    fn from(from: Service) -> Self {
        let port = |port: ServicePort| core::ServicePort {
            name: some(port.name),
            protocol: some(port.protocol),
            port: port.port,
            app_protocol: port.app_protocol,
            ..Default::default()
        };
        core::Service {
            metadata: from.metadata.unwrap_or_default().into(),
            spec: from.spec.map(|spec| core::ServiceSpec {
                ports: list(spec.ports, port),
                type_: some(spec.kind),
                external_name: some(spec.external_name),
                ip_families: list(spec.ip_families, |family| family),
                ..Default::default()
            }),
            status: None,
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct EndpointSlice {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, repeated, tag = "2")]
    endpoints: Vec<Endpoint>,
    #[prost(message, repeated, tag = "3")]
    ports: Vec<EndpointPort>,
    #[prost(string, tag = "4")]
    address_type: String,
}

#[derive(Clone, PartialEq, Message)]
struct Endpoint {
    #[prost(string, repeated, tag = "1")]
    addresses: Vec<String>,
    #[prost(message, optional, tag = "2")]
    conditions: Option<Conditions>,
    #[prost(message, optional, tag = "4")]
    target: Option<Target>,
    #[prost(string, optional, tag = "7")]
    zone: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
struct Conditions {
    #[prost(bool, optional, tag = "1")]
    ready: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    serving: Option<bool>,
    #[prost(bool, optional, tag = "3")]
    terminating: Option<bool>,
}

#[derive(Clone, PartialEq, Message)]
struct Target {
    #[prost(string, tag = "1")]
    kind: String,
    #[prost(string, tag = "2")]
    namespace: String,
    #[prost(string, tag = "3")]
    name: String,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointPort {
    #[prost(string, optional, tag = "1")]
    name: Option<String>,
    #[prost(string, optional, tag = "2")]
    protocol: Option<String>,
    #[prost(int32, optional, tag = "3")]
    port: Option<i32>,
}

impl From<EndpointSlice> for discovery::EndpointSlice {
    fn from(from: EndpointSlice) -> Self {
        let endpoint = |endpoint: Endpoint| discovery::Endpoint {
            addresses: endpoint.addresses,
            conditions: endpoint.conditions.map(|conditions| discovery::EndpointConditions {
                ready: conditions.ready,
                serving: conditions.serving,
                terminating: conditions.terminating,
            }),
            target_ref: endpoint.target.map(|target| core::ObjectReference {
                kind: some(target.kind),
                namespace: some(target.namespace),
                name: some(target.name),
                ..Default::default()
            }),
            zone: endpoint.zone,
            ..Default::default()
        };
        let port = |port: EndpointPort| discovery::EndpointPort {
            name: port.name,
            protocol: port.protocol,
            port: port.port,
            ..Default::default()
        };
        let mut metadata = from.metadata.unwrap_or_default();
        let labels = entries(std::mem::take(&mut metadata.labels), |label| label == SERVICE_NAME);
        discovery::EndpointSlice {
            metadata: meta::ObjectMeta { labels: Some(labels), ..metadata.into() },
            address_type: from.address_type,
            endpoints: from.endpoints.into_iter().map(endpoint).collect(),
            ports: list(from.ports, port),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub struct Secret {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, repeated, tag = "2")]
    data: Vec<SecretEntry>,
    #[prost(string, tag = "3")]
    kind: String,
}

#[derive(Clone, PartialEq, Message)]
struct SecretEntry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(bytes = "bytes", tag = "2")]
    value: Bytes,
}

impl From<Secret> for core::Secret {
    fn from(from: Secret) -> Self {
        let read = from.data.into_iter().filter(|entry| matches!(entry.key.as_str(), "tls.crt" | "tls.key"));
        core::Secret {
            metadata: from.metadata.unwrap_or_default().into(),
            data: Some(read.map(|entry| (entry.key, ByteString(entry.value.to_vec()))).collect()),
            type_: some(from.kind),
            ..Default::default()
        }
    }
}
