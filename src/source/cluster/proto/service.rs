//! Services in protobuf.

use k8s_openapi::api::core::v1 as core;
use prost::Message;
use prost::bytes::Bytes;

use super::{ObjectMeta, Proto, Texts, list};

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
    #[prost(bytes = "bytes", tag = "4")]
    kind: Bytes,
    #[prost(bytes = "bytes", tag = "10")]
    external_name: Bytes,
    #[prost(bytes = "bytes", repeated, tag = "19")]
    ip_families: Vec<Bytes>,
}

#[derive(Clone, PartialEq, Message)]
struct ServicePort {
    #[prost(bytes = "bytes", tag = "1")]
    name: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    protocol: Bytes,
    #[prost(int32, tag = "3")]
    port: i32,
    #[prost(bytes = "bytes", optional, tag = "6")]
    app_protocol: Option<Bytes>,
}

fn port(i: usize, from: ServicePort, texts: &mut Texts) -> core::ServicePort {
    core::ServicePort {
        name: texts.some(&from.name, format_args!("spec.ports[{i}].name")),
        protocol: texts.some(&from.protocol, format_args!("spec.ports[{i}].protocol")),
        port: from.port,
        app_protocol: from.app_protocol.map(|text| texts.text(&text, format_args!("spec.ports[{i}].appProtocol"))),
        ..Default::default()
    }
}

impl Proto<core::Service> for Service {
    fn read(self, texts: &mut Texts) -> core::Service {
        core::Service {
            metadata: self.metadata.unwrap_or_default().read(texts),
            spec: self.spec.map(|spec| core::ServiceSpec {
                ports: list(spec.ports, |i, from| port(i, from, texts)),
                type_: texts.some(&spec.kind, format_args!("spec.type")),
                external_name: texts.some(&spec.external_name, format_args!("spec.externalName")),
                ip_families: list(spec.ip_families, |i, family| {
                    texts.text(&family, format_args!("spec.ipFamilies[{i}]"))
                }),
                ..Default::default()
            }),
            status: None,
        }
    }
}
