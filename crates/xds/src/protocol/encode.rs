//! The encoding of responses.
//!
//! Resources are already encoded. A response consists of a few small fields around shared bytes, and the nonce, which differs
//! between streams, is at the end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes, BytesMut};
use futures::Stream;
use http::{HeaderMap, HeaderValue, header};
use http_body::Frame;
use prost::encoding::{encode_varint, encoded_len_varint};
use tonic::{Code, Status};

use super::message::{Resources, Response, Variant};
use crate::snapshot::{ApiVersion, resource_name};

/// `google.rpc.Code.NOT_FOUND`.
const NOT_FOUND: u64 = 5;

/// The minimum size of a shared body that is passed to the transport without a copy. Copying a smaller body costs less than
/// a separate chunk.
const WORTH_SHARING: usize = 16 << 10;

/// The length of the prefix of each gRPC message: the compression flag and the message length.
pub(crate) const PREFIX: usize = 5;

/// An encoded response: its own bytes around a body that may be shared.
pub(crate) struct EncodedResponse {
    own: Vec<u8>,
    /// The number of own bytes before the body.
    head: usize,
    body: Bytes,
}

impl EncodedResponse {
    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        self.own.len() + self.body.len()
    }

    /// Returns the response in one chunk.
    pub fn into_bytes(self) -> Bytes {
        let mut buffer = Vec::with_capacity(self.len());
        self.put(&mut buffer);
        buffer.into()
    }

    /// Returns the response as the chunks of a gRPC message.
    fn pieces(mut self) -> [Bytes; 3] {
        let mut first = Vec::with_capacity(PREFIX + if self.is_large() { self.head } else { self.len() });
        first.put_u8(0); // Not compressed.
        first.put_u32(u32::try_from(self.len()).unwrap_or(u32::MAX));
        if !self.is_large() {
            self.put(&mut first);
            return [first.into(), Bytes::new(), Bytes::new()];
        }
        let tail = self.own.split_off(self.head);
        first.put_slice(&self.own);
        [first.into(), self.body, tail.into()]
    }

    fn put(&self, buffer: &mut Vec<u8>) {
        let (head, tail) = self.own.split_at(self.head);
        [head, &self.body, tail].into_iter().for_each(|part| buffer.put_slice(part));
    }

    fn is_large(&self) -> bool {
        self.body.len() >= WORTH_SHARING
    }
}

/// Encodes a `DiscoveryResponse` or `DeltaDiscoveryResponse`. `identifier` is the name of this control plane.
pub(crate) fn response(response: &Response, variant: Variant, identifier: &str) -> EncodedResponse {
    let size = response.version.len() + response.type_url.len() + identifier.len() + response.nonce.len();
    let mut own = Vec::with_capacity(size + 32);
    put(&mut own, 1, response.version.as_bytes());
    let head = own.len();
    put(&mut own, 4, response.type_url.as_bytes());
    match variant {
        Variant::Sotw => {
            put_message(&mut own, 6, |inner| put(inner, 1, identifier.as_bytes()));
            response.missing.iter().for_each(|name| put_missing(&mut own, name));
        }
        Variant::Delta => {
            response.missing.iter().for_each(|name| put_unknown_host(&mut own, name));
            response.removed.iter().for_each(|name| match resource_name(name) {
                None => put(&mut own, 6, name.as_bytes()),
                Some(variant) => put(&mut own, 8, &variant),
            });
            put_message(&mut own, 7, |inner| put(inner, 1, identifier.as_bytes()));
        }
    }
    put(&mut own, 5, response.nonce.as_bytes());
    EncodedResponse { own, head, body: body(response, variant) }
}

/// Encodes the repeated field `resources`.
fn body(response: &Response, variant: Variant) -> Bytes {
    let (api, delta) = (ApiVersion::of_url(&response.type_url), variant == Variant::Delta);
    match &response.resources {
        Resources::Shared(body) if api == ApiVersion::V3 && !body.is_leased() => return body.fields(delta),
        _ => {}
    }
    let resources = response.resources.iter().map(|resource| match variant {
        Variant::Sotw if response.leases && resource.lease().ttl.is_some() => resource.wrapped_sotw_field(api),
        Variant::Sotw => resource.sotw_field(api),
        Variant::Delta => resource.delta_field(api),
    });
    let mut fields = resources.chain(response.heartbeats.iter().map(|resource| resource.heartbeat_field(delta, api)));
    match (fields.next(), fields.next()) {
        (None, _) => Bytes::new(),
        (Some(only), None) => only,
        (Some(first), Some(second)) => {
            let mut buffer = BytesMut::with_capacity(response.resources.iter().map(|resource| resource.size()).sum());
            [first, second].into_iter().chain(fields).for_each(|field| buffer.put(field));
            buffer.freeze()
        }
    }
}

/// Encodes a requested virtual host that does not exist: an entry of `resources` with this alias and without content. Envoy's
/// `on_demand` filter delays the request until this entry arrives, and does not accept a removal instead.
/// Source: Envoy's documentation of VHDS, "On-demand".
fn put_unknown_host(buffer: &mut Vec<u8>, name: &str) {
    put_message(buffer, 2, |resource| {
        put(resource, 3, name.as_bytes());
        put(resource, 4, name.as_bytes());
    });
}

/// Encodes an entry of `resource_errors`: `{resource_name {name}, error_detail {code, message}}`. Source: xRFC TP3.
fn put_missing(buffer: &mut Vec<u8>, name: &Arc<str>) {
    put_message(buffer, 7, |error| {
        put_message(error, 1, |resource_name| put(resource_name, 1, name.as_bytes()));
        put_message(error, 2, |status| {
            status.put_u8(1 << 3);
            encode_varint(NOT_FOUND, status);
            put(status, 2, format!("{name:?} does not exist").as_bytes());
        });
    });
}

fn put(buffer: &mut Vec<u8>, field: u8, content: &[u8]) {
    if content.is_empty() {
        return;
    }
    buffer.reserve(content.len() + 1 + encoded_len_varint(content.len() as u64));
    buffer.put_u8(field << 3 | 2);
    encode_varint(content.len() as u64, buffer);
    buffer.put_slice(content);
}

fn put_message(buffer: &mut Vec<u8>, field: u8, fill: impl FnOnce(&mut Vec<u8>)) {
    let mut inner = Vec::new();
    fill(&mut inner);
    put(buffer, field, &inner);
}

/// Returns the response to a gRPC call: encoded messages, and the status as trailers.
pub(crate) fn grpc(
    messages: impl Stream<Item = Result<EncodedResponse, Status>> + Send + 'static,
) -> http::Response<axum::body::Body> {
    let answer = Answer { messages: Box::pin(messages), rest: Default::default(), ended: false };
    let mut response = http::Response::new(axum::body::Body::new(answer));
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// The body of a gRPC response.
struct Answer<S> {
    messages: Pin<Box<S>>,
    /// The remaining chunks of the current message.
    rest: [Bytes; 2],
    ended: bool,
}

impl<S: Stream<Item = Result<EncodedResponse, Status>>> http_body::Body for Answer<S> {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(piece) = self.rest.iter_mut().find(|piece| !piece.is_empty()) {
            return Poll::Ready(Some(Ok(Frame::data(std::mem::take(piece)))));
        }
        if self.ended {
            return Poll::Ready(None);
        }
        let end = match ready!(self.messages.as_mut().poll_next(cx)) {
            Some(Ok(message)) => {
                let [first, second, third] = message.pieces();
                self.rest = [second, third];
                return Poll::Ready(Some(Ok(Frame::data(first))));
            }
            Some(Err(status)) => status,
            None => Status::new(Code::Ok, ""),
        };
        self.ended = true;
        Poll::Ready(Some(Ok(Frame::trailers(trailers(&end)))))
    }
}

/// Returns the gRPC trailers for a status.
fn trailers(status: &Status) -> HeaderMap {
    let mut trailers = HeaderMap::new();
    // This fails for a status that is too large for a header. The code is then sufficient.
    if status.add_header(&mut trailers).is_err() {
        trailers.insert("grpc-status", HeaderValue::from(status.code() as i32));
    }
    trailers
}
