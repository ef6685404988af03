//! Responses to bytes, and requests from them.
//!
//! Resources were encoded when they were made; a response is a few small fields around shared bytes, with what differs
//! from stream to stream, the nonce, at the end.

use std::marker::PhantomData;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{encode_varint, encoded_len_varint};
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::message::{Response, Variant};
use crate::snapshot::ApiVersion;

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
            response.removed.iter().for_each(|name| put(&mut buffer, 6, name.as_bytes()));
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

/// A gRPC codec that sends bytes as they are and decodes requests of type `R`.
pub(super) struct RequestCodec<R>(PhantomData<R>);

impl<R> Default for RequestCodec<R> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<R: Message + Default + Send + 'static> Codec for RequestCodec<R> {
    type Encode = Bytes;
    type Decode = R;
    type Encoder = Raw;
    type Decoder = RequestDecoder<R>;

    fn encoder(&mut self) -> Raw {
        Raw
    }

    fn decoder(&mut self) -> RequestDecoder<R> {
        RequestDecoder(PhantomData)
    }
}

/// Sends bytes as they are.
pub(super) struct Raw;

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

/// Decodes requests; fields that it does not know are ignored.
pub(super) struct RequestDecoder<R>(PhantomData<R>);

impl<R: Message + Default> Decoder for RequestDecoder<R> {
    type Item = R;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<R>, Status> {
        let request = R::decode(buffer);
        request.map(Some).map_err(|error| Status::invalid_argument(format!("the request does not decode: {error}")))
    }
}
