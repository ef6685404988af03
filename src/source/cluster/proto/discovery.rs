//! EndpointSlices in protobuf.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use prost::Message;
use prost::bytes::Bytes;

use super::{ObjectMeta, Proto, TextReader, list};
use crate::source::native::SERVICE_NAME;

#[derive(Clone, PartialEq, Message)]
pub struct EndpointSlice {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ObjectMeta>,
    #[prost(message, repeated, tag = "2")]
    endpoints: Vec<Endpoint>,
    #[prost(message, repeated, tag = "3")]
    ports: Vec<EndpointPort>,
    #[prost(bytes = "bytes", tag = "4")]
    address_type: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct Endpoint {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    addresses: Vec<Bytes>,
    #[prost(message, optional, tag = "2")]
    conditions: Option<Conditions>,
    #[prost(message, optional, tag = "4")]
    target: Option<Target>,
    #[prost(bytes = "bytes", optional, tag = "6")]
    node: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "7")]
    zone: Option<Bytes>,
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
    #[prost(bytes = "bytes", tag = "1")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    namespace: Bytes,
    #[prost(bytes = "bytes", tag = "3")]
    name: Bytes,
}

#[derive(Clone, PartialEq, Message)]
struct EndpointPort {
    #[prost(bytes = "bytes", optional, tag = "1")]
    name: Option<Bytes>,
    #[prost(bytes = "bytes", optional, tag = "2")]
    protocol: Option<Bytes>,
    #[prost(int32, optional, tag = "3")]
    port: Option<i32>,
}

fn endpoint(i: usize, from: Endpoint, texts: &mut TextReader) -> discovery::Endpoint {
    let addresses = from.addresses.iter().enumerate();
    discovery::Endpoint {
        addresses: addresses
            .map(|(j, address)| texts.text(address, format_args!("endpoints[{i}].addresses[{j}]")))
            .collect(),
        conditions: from.conditions.map(|conditions| discovery::EndpointConditions {
            ready: conditions.ready,
            serving: conditions.serving,
            terminating: conditions.terminating,
        }),
        target_ref: from.target.map(|target| core::ObjectReference {
            kind: texts.some(&target.kind, format_args!("endpoints[{i}].targetRef.kind")),
            namespace: texts.some(&target.namespace, format_args!("endpoints[{i}].targetRef.namespace")),
            name: texts.some(&target.name, format_args!("endpoints[{i}].targetRef.name")),
            ..Default::default()
        }),
        node_name: from.node.map(|node| texts.text(&node, format_args!("endpoints[{i}].nodeName"))),
        zone: from.zone.map(|zone| texts.text(&zone, format_args!("endpoints[{i}].zone"))),
        ..Default::default()
    }
}

fn port(i: usize, from: EndpointPort, texts: &mut TextReader) -> discovery::EndpointPort {
    discovery::EndpointPort {
        name: from.name.map(|name| texts.text(&name, format_args!("ports[{i}].name"))),
        protocol: from.protocol.map(|protocol| texts.text(&protocol, format_args!("ports[{i}].protocol"))),
        port: from.port,
        ..Default::default()
    }
}

impl Proto<discovery::EndpointSlice> for EndpointSlice {
    fn read(self, texts: &mut TextReader) -> discovery::EndpointSlice {
        let metadata = self.metadata.unwrap_or_default();
        discovery::EndpointSlice {
            metadata: metadata.read_with_labels(texts, |label| label == SERVICE_NAME),
            address_type: texts.text(&self.address_type, format_args!("addressType")),
            endpoints: self.endpoints.into_iter().enumerate().map(|(i, from)| endpoint(i, from, texts)).collect(),
            ports: list(self.ports, |i, from| port(i, from, texts)),
        }
    }
}
