//! Responses to bytes.
//!
//! Resources were encoded when they were made; a response is a few small fields around shared bytes, with what differs
//! from stream to stream, the nonce, at the end.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use prost::encoding::{encode_varint, encoded_len_varint};
use tonic::Status;
use tonic::codec::{EncodeBody, EncodeBuf, Encoder, SingleMessageCompressionOverride};

use super::message::{Response, Variant};
use crate::snapshot::{ApiVersion, resource_name};

/// `google.rpc.Code.NOT_FOUND`.
const NOT_FOUND: u64 = 5;

/// The encoded `DiscoveryResponse` or `DeltaDiscoveryResponse`; `identifier` names this control plane.
pub(super) fn response(response: &Response, variant: Variant, identifier: &str) -> Bytes {
    let (api, delta) = (ApiVersion::of_url(&response.type_url), variant == Variant::Delta);
    let resources = response.resources.iter().map(|resource| match variant {
        Variant::Sotw if response.leases && resource.lease().ttl.is_some() => resource.wrapped_sotw_field(api),
        Variant::Sotw => resource.sotw_field(api),
        Variant::Delta => resource.delta_field(api),
    });
    let heartbeats = response.heartbeats.iter().map(|resource| resource.heartbeat_field(delta, api));
    let resources: Vec<Bytes> = resources.chain(heartbeats).collect();
    let size: usize = resources.iter().map(Bytes::len).sum();
    let names: usize = response.removed.iter().chain(&response.missing).map(|name| name.len() + 64).sum();
    let mut buffer = BytesMut::with_capacity(size + names + 256);
    put(&mut buffer, 1, response.version.as_bytes());
    resources.iter().for_each(|resource| buffer.put_slice(resource));
    put(&mut buffer, 4, response.type_url.as_bytes());
    match variant {
        Variant::Sotw => {
            put_message(&mut buffer, 6, |inner| put(inner, 1, identifier.as_bytes()));
            response.missing.iter().for_each(|name| put_missing(&mut buffer, name));
        }
        Variant::Delta => {
            response.removed.iter().for_each(|name| match resource_name(name) {
                None => put(&mut buffer, 6, name.as_bytes()),
                Some(variant) => put(&mut buffer, 8, &variant),
            });
            put_message(&mut buffer, 7, |inner| put(inner, 1, identifier.as_bytes()));
        }
    }
    put(&mut buffer, 5, response.nonce.as_bytes());
    buffer.freeze()
}

/// Field `resource_errors`: `{resource_name {name}, error_detail {code, message}}`. Source: xRFC TP3.
fn put_missing(buffer: &mut BytesMut, name: &Arc<str>) {
    put_message(buffer, 7, |error| {
        put_message(error, 1, |resource_name| put(resource_name, 1, name.as_bytes()));
        put_message(error, 2, |status| {
            status.put_u8(1 << 3);
            encode_varint(NOT_FOUND, status);
            put(status, 2, format!("{name:?} does not exist").as_bytes());
        });
    });
}

fn put(buffer: &mut BytesMut, field: u8, content: &[u8]) {
    if content.is_empty() {
        return;
    }
    buffer.reserve(content.len() + 1 + encoded_len_varint(content.len() as u64));
    buffer.put_u8(field << 3 | 2);
    encode_varint(content.len() as u64, buffer);
    buffer.put_slice(content);
}

fn put_message(buffer: &mut BytesMut, field: u8, fill: impl FnOnce(&mut BytesMut)) {
    let mut inner = BytesMut::new();
    fill(&mut inner);
    put(buffer, field, &inner);
}

/// The answer to a gRPC call: encoded messages, then how they end.
pub(super) fn grpc(
    messages: impl Stream<Item = Result<Bytes, Status>> + Send + 'static,
) -> http::Response<axum::body::Body> {
    let body = EncodeBody::new_server(Raw, messages, None, SingleMessageCompressionOverride::default(), None);
    let mut response = http::Response::new(axum::body::Body::new(body));
    response.headers_mut().insert(http::header::CONTENT_TYPE, http::HeaderValue::from_static("application/grpc"));
    response
}

/// Sends bytes as they are.
struct Raw;

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}
