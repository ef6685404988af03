//! Services in protobuf.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use prost::Message;
use prost::bytes::Bytes;

use super::{ObjectMeta, Proto, TextReader, list};
use crate::source::gateway::{DRAINING, FLEET, GATEWAY_NAME, MANAGED_BY};

#[derive(Clone, PartialEq, Message)]
pub struct Service {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, optional, tag = "2")]
    spec: Option<ServiceSpec>,
    /// The status, which is decoded only for Services of Gateways.
    #[prost(bytes = "bytes", tag = "3")]
    status: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceSpec {
    #[prost(message, repeated, tag = "1")]
    ports: Vec<ServicePort>,
    /// The entries of the selector, whose number counts for Services of Gateways.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    selector: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "4")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "8")]
    balancer_ip: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    source_ranges: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "10")]
    external_name: Bytes,
    #[prost(bytes = "bytes", tag = "11")]
    traffic_policy: Bytes,
    /// The cluster IPs, which are decoded only for Services of Gateways.
    #[prost(bytes = "bytes", repeated, tag = "18")]
    cluster_ips: Vec<Bytes>,
    #[prost(bytes = "bytes", repeated, tag = "19")]
    ip_families: Vec<Bytes>,
    #[prost(bytes = "bytes", tag = "23")]
    traffic_distribution: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct ServicePort {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    protocol: Bytes,
    #[prost(int32, tag = "3")]
    port: i32,
    /// The target port, which is decoded only for Services of Gateways.
    #[prost(bytes = "bytes", tag = "4")]
    target_port: Bytes,
    #[prost(bytes = "bytes", optional, tag = "6")]
    app_protocol: Option<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct TargetPort {
    /// 0 is a number, and 1 is text.
    #[prost(int64, tag = "1")]
    kind: i64,
    #[prost(int32, tag = "2")]
    number: i32,
    #[prost(bytes = "bytes", tag = "3")]
    name: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct ServiceStatus {
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
}

/// Converts a port. `with_target`: also the port of the pods.
fn port(i: usize, from: ServicePort, with_target: bool, texts: &mut TextReader) -> core::ServicePort {
    core::ServicePort {
        target_port: with_target.then(|| target_port(i, from.target_port, texts)).flatten(),
        name: texts.some(&from.name, format_args!("spec.ports[{i}].name")),
        protocol: texts.some(&from.protocol, format_args!("spec.ports[{i}].protocol")),
        port: from.port,
        app_protocol: from.app_protocol.map(|text| texts.text(&text, format_args!("spec.ports[{i}].appProtocol"))),
        ..Default::default()
    }
}

fn target_port(i: usize, from: Bytes, texts: &mut TextReader) -> Option<IntOrString> {
    let Ok(TargetPort { kind, number, name }) = TargetPort::decode(from) else {
        texts.report(format_args!("spec.ports[{i}].targetPort"));
        return None;
    };
    Some(match kind {
        0 => IntOrString::Int(number),
        _ => IntOrString::String(texts.text(&name, format_args!("spec.ports[{i}].targetPort"))),
    })
}

fn status(from: Bytes, texts: &mut TextReader) -> Option<core::ServiceStatus> {
    let Ok(ServiceStatus { balancer }) = ServiceStatus::decode(from) else {
        texts.report(format_args!("status"));
        return None;
    };
    let address = |i: usize, from: BalancerIngress| core::LoadBalancerIngress {
        ip: texts.some(&from.ip, format_args!("status.loadBalancer.ingress[{i}].ip")),
        hostname: texts.some(&from.hostname, format_args!("status.loadBalancer.ingress[{i}].hostname")),
        ..Default::default()
    };
    let load_balancer = Some(core::LoadBalancerStatus { ingress: list(balancer?.ingress, address) });
    Some(core::ServiceStatus { load_balancer, ..Default::default() })
}

impl Proto<core::Service> for Service {
    fn read(self, texts: &mut TextReader) -> core::Service {
        let metadata = self.metadata.unwrap_or_default();
        let metadata =
            metadata.read_with_labels(texts, |label| [GATEWAY_NAME, MANAGED_BY, FLEET, DRAINING].contains(&label));
        let of_gateway = metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(GATEWAY_NAME));
        core::Service {
            metadata,
            spec: self.spec.map(|spec| core::ServiceSpec {
                selector: of_gateway.then(|| spec.selector.iter().map(|_| Default::default()).collect()),
                load_balancer_ip: match of_gateway {
                    true => texts.some(&spec.balancer_ip, format_args!("spec.loadBalancerIP")),
                    false => None,
                },
                load_balancer_source_ranges: match of_gateway {
                    true => list(spec.source_ranges, |i, range| {
                        texts.text(&range, format_args!("spec.loadBalancerSourceRanges[{i}]"))
                    }),
                    false => None,
                },
                external_traffic_policy: match of_gateway {
                    true => texts.some(&spec.traffic_policy, format_args!("spec.externalTrafficPolicy")),
                    false => None,
                },
                ports: list(spec.ports, |i, from| port(i, from, of_gateway, texts)),
                type_: texts.some(&spec.kind, format_args!("spec.type")),
                cluster_ips: match of_gateway {
                    true => list(spec.cluster_ips, |i, ip| texts.text(&ip, format_args!("spec.clusterIPs[{i}]"))),
                    false => None,
                },
                external_name: texts.some(&spec.external_name, format_args!("spec.externalName")),
                ip_families: list(spec.ip_families, |i, family| {
                    texts.text(&family, format_args!("spec.ipFamilies[{i}]"))
                }),
                traffic_distribution: texts.some(&spec.traffic_distribution, format_args!("spec.trafficDistribution")),
                ..Default::default()
            }),
            status: of_gateway.then(|| status(self.status, texts)).flatten(),
        }
    }
}
