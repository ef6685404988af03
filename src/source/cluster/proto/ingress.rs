//! Ingresses and IngressClasses in protobuf.

use std::fmt;

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::networking::v1 as networking;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use prost::Message;
use prost::bytes::Bytes;

use super::{ObjectMeta, Proto, TextReader, list, lossy};

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
    #[prost(bytes = "bytes", optional, tag = "4")]
    ingress_class_name: Option<Bytes>,
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
    #[prost(bytes = "bytes", optional, tag = "1")]
    api_group: Option<Bytes>,
    #[prost(bytes = "bytes", tag = "2")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    name: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct IngressService {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(message, optional, tag = "2")]
    port: Option<BackendPort>,
}

#[derive(Clone, PartialEq, Message)]
struct BackendPort {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(int32, tag = "2")]
    number: i32,
}

#[derive(Clone, PartialEq, Message)]
struct IngressTls {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    hosts: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "2")]
    secret_name: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct IngressRule {
    #[prost(bytes = "bytes", tag = "1")]
    host: Bytes,
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
    #[prost(bytes = "bytes", tag = "1")]
    path: Bytes,
    #[prost(message, optional, tag = "2")]
    backend: Option<IngressBackend>,
    #[prost(bytes = "bytes", tag = "3")]
    path_type: Bytes,
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
    #[prost(bytes = "bytes", tag = "1")]
    ip: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    hostname: Bytes,
    #[prost(message, repeated, tag = "4")]
    ports: Vec<PortStatus>,
}

#[derive(Clone, PartialEq, Message)]
struct PortStatus {
    #[prost(int32, tag = "1")]
    port: i32,
    #[prost(bytes = "bytes", tag = "2")]
    protocol: Bytes,
    #[prost(bytes = "bytes", optional, tag = "3")]
    error: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct FieldsV1 {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct ManagedFields {
    #[prost(bytes = "bytes", tag = "1")]
    manager: Bytes,
    #[prost(message, optional, tag = "7")]
    fields: Option<FieldsV1>,
}

/// Returns the managed fields that include addresses in an Ingress' status.
fn writers(managed_fields: &[Bytes]) -> Vec<meta::ManagedFieldsEntry> {
    let mark = b"\"f:loadBalancer\"";
    let may = managed_fields.iter().filter(|entry| entry.windows(mark.len()).any(|window| window == mark));
    let entry = |entry: &Bytes| {
        let entry = ManagedFields::decode(entry.clone()).ok()?;
        let fields = serde_json::from_slice(&entry.fields?.raw).ok()?;
        Some(meta::ManagedFieldsEntry {
            manager: Some(lossy(&entry.manager)).filter(|manager| !manager.is_empty()),
            fields_v1: Some(meta::FieldsV1(fields)),
            ..Default::default()
        })
    };
    may.filter_map(entry).collect()
}

fn backend(from: IngressBackend, texts: &mut TextReader, field: fmt::Arguments<'_>) -> networking::IngressBackend {
    networking::IngressBackend {
        resource: from.resource.map(|resource| core::TypedLocalObjectReference {
            api_group: resource.api_group.map(|group| texts.text(&group, format_args!("{field}.resource.apiGroup"))),
            kind: texts.text(&resource.kind, format_args!("{field}.resource.kind")),
            name: texts.text(&resource.name, format_args!("{field}.resource.name")),
        }),
        service: from.service.map(|service| networking::IngressServiceBackend {
            name: texts.text(&service.name, format_args!("{field}.service.name")),
            port: service.port.map(|port| networking::ServiceBackendPort {
                name: texts.some(&port.name, format_args!("{field}.service.port.name")),
                number: Some(port.number).filter(|number| *number != 0),
            }),
        }),
    }
}

fn rule(i: usize, from: IngressRule, texts: &mut TextReader) -> networking::IngressRule {
    let http = from.value.and_then(|value| value.http);
    networking::IngressRule {
        host: texts.some(&from.host, format_args!("spec.rules[{i}].host")),
        http: http.map(|http| networking::HTTPIngressRuleValue {
            paths: http.paths.into_iter().enumerate().map(|(j, path)| http_path(i, j, path, texts)).collect(),
        }),
    }
}

fn http_path(i: usize, j: usize, from: HttpPath, texts: &mut TextReader) -> networking::HTTPIngressPath {
    let field = format_args!("spec.rules[{i}].http.paths[{j}]");
    networking::HTTPIngressPath {
        path: texts.some(&from.path, format_args!("{field}.path")),
        path_type: texts.text(&from.path_type, format_args!("{field}.pathType")),
        backend: from.backend.map(|from| backend(from, texts, format_args!("{field}.backend"))).unwrap_or_default(),
    }
}

fn tls(i: usize, from: IngressTls, texts: &mut TextReader) -> networking::IngressTLS {
    networking::IngressTLS {
        hosts: list(from.hosts, |j, host| texts.text(&host, format_args!("spec.tls[{i}].hosts[{j}]"))),
        secret_name: texts.some(&from.secret_name, format_args!("spec.tls[{i}].secretName")),
    }
}

fn address(i: usize, from: BalancerIngress, texts: &mut TextReader) -> networking::IngressLoadBalancerIngress {
    let field = format_args!("status.loadBalancer.ingress[{i}]");
    networking::IngressLoadBalancerIngress {
        ip: texts.some(&from.ip, format_args!("{field}.ip")),
        hostname: texts.some(&from.hostname, format_args!("{field}.hostname")),
        ports: list(from.ports, |j, port| networking::IngressPortStatus {
            port: port.port,
            protocol: texts.text(&port.protocol, format_args!("{field}.ports[{j}].protocol")),
            error: port.error.map(|error| texts.text(&error, format_args!("{field}.ports[{j}].error"))),
        }),
    }
}

impl Proto<networking::Ingress> for Ingress {
    fn read(self, texts: &mut TextReader) -> networking::Ingress {
        let metadata = self.metadata.unwrap_or_default();
        let managed_fields = writers(&metadata.managed_fields);
        let balancer = self.status.and_then(|status| status.balancer);
        networking::Ingress {
            metadata: meta::ObjectMeta { managed_fields: Some(managed_fields), ..metadata.read(texts) },
            spec: self.spec.map(|spec| networking::IngressSpec {
                default_backend: spec
                    .default_backend
                    .map(|from| backend(from, texts, format_args!("spec.defaultBackend"))),
                ingress_class_name: (spec.ingress_class_name)
                    .map(|name| texts.text(&name, format_args!("spec.ingressClassName"))),
                rules: list(spec.rules, |i, from| rule(i, from, texts)),
                tls: list(spec.tls, |i, from| tls(i, from, texts)),
            }),
            status: balancer.map(|balancer| networking::IngressStatus {
                load_balancer: Some(networking::IngressLoadBalancerStatus {
                    ingress: list(balancer.ingress, |i, from| address(i, from, texts)),
                }),
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
    #[prost(bytes = "bytes", tag = "1")]
    controller: Bytes,
}

impl Proto<networking::IngressClass> for IngressClass {
    fn read(self, texts: &mut TextReader) -> networking::IngressClass {
        networking::IngressClass {
            metadata: self.metadata.unwrap_or_default().read(texts),
            spec: self.spec.map(|spec| networking::IngressClassSpec {
                controller: texts.some(&spec.controller, format_args!("spec.controller")),
                ..Default::default()
            }),
        }
    }
}
