//! The bounded reader of requests: gRPC messages from a body.
//!
//! The reader of tonic keeps the buffer of the largest message for the lifetime of the stream. Each of a thousand
//! streams may have sent a message of 64 MiB. This reader frees its buffer after each message, and all large requests
//! in transit share one budget.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes, BytesMut};
use futures::future::BoxFuture;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use tonic::{Code, Status};

use super::service::LARGEST_REQUEST;
use super::waits::Rarely;
use crate::protocol::Locator;
use crate::protocol::Request;
use crate::protocol::encode::PREFIX;

/// The maximum size of a request that needs no share of the budget.
const SMALL: usize = 256 << 10;
/// The maximum size of a first request that needs no share of the budget. Its client is not identified yet.
const FIRST: usize = 32 << 10;
/// The budget for all large requests in transit.
const ALLOWANCE: usize = 4 * LARGEST_REQUEST;
/// The time limit for the arrival of a large request, including the wait for the budget.
const ARRIVAL_LIMIT: Duration = Duration::from_secs(60);
/// The maximum number of entries in one request: names, and versions of an earlier stream.
const MOST_ENTRIES: usize = 1_000_000;
/// The maximum number of names that one stream can request, or have in unanswered responses.
pub(super) const MOST_KEPT: usize = 4_000_000;
/// The maximum size of a resource name in bytes.
const LONGEST_NAME: usize = 16 << 10;
/// The maximum size of one field in bytes, such as `node`.
pub(super) const LONGEST_FIELD: usize = 1 << 20;
/// The maximum size in bytes of texts that appear in the log: the identity of the client, and the type URL.
const LONGEST_LABEL: usize = 1 << 10;
/// The maximum size of a rejection reason in bytes. Longer ones are truncated.
const LONGEST_REASON: usize = 4 << 10;

/// The budget of the process, in KiB.
static LARGE_ONES: LazyLock<Arc<Semaphore>> = LazyLock::new(|| Arc::new(Semaphore::new(ALLOWANCE >> 10)));

/// The requests of one stream, with the wire type `R`.
pub(super) struct Requests<R> {
    body: Body,
    /// Polls the body only when it has woken the stream. Half of the wakeups have other causes.
    rarely: Rarely,
    arrived: Chunks,
    /// The length of the current message, if known.
    coming: Option<usize>,
    /// The start of a large request, and its share of the budget.
    since: Option<Instant>,
    permit: Option<OwnedSemaphorePermit>,
    /// The wait for the permit. It survives a canceled [`Requests::message`], so that the place in the queue is kept.
    turn: Option<BoxFuture<'static, Result<OwnedSemaphorePermit, Status>>>,
    /// Whether a request of this stream was decoded.
    understood: bool,
    request: PhantomData<fn() -> R>,
}

impl<R: Message + Default + Into<Request>> Requests<R> {
    /// Returns the requests in `body`.
    pub fn new(body: Body) -> Self {
        Self {
            body,
            rarely: Rarely::new(),
            arrived: Chunks::default(),
            coming: None,
            since: None,
            permit: None,
            turn: None,
            understood: false,
            request: PhantomData,
        }
    }

    /// Returns the next request, or `None` when the client has closed its side. Cancel-safe.
    ///
    /// # Errors
    /// The fault of the message or the connection, which ends the stream.
    pub async fn message(&mut self) -> Result<Option<Request>, Status> {
        loop {
            if self.coming.is_none() && self.arrived.remaining() >= PREFIX {
                self.coming = Some(self.prefix()?);
            }
            if let Some(length) = self.coming {
                let small = if self.understood { SMALL } else { FIRST };
                if length > small && self.permit.is_none() {
                    let since = *self.since.get_or_insert_with(Instant::now);
                    let turn = self.turn.get_or_insert_with(|| Box::pin(acquire_budget(length, since + ARRIVAL_LIMIT)));
                    let permit = turn.await;
                    self.turn = None;
                    self.permit = Some(permit?);
                }
                if self.arrived.remaining() >= length {
                    (self.coming, self.since) = (None, None);
                    let message = self.arrived.split_to(length);
                    let request = decode::<R>(message);
                    self.permit = None;
                    self.understood |= request.is_ok();
                    return request.map(Some);
                }
            }
            let Some(bytes) = self.next_data().await? else {
                return match self.arrived.remaining() {
                    0 if self.coming.is_none() => Ok(None),
                    _ => Err(Status::invalid_argument("the stream ends within a message")),
                };
            };
            self.arrived.push(bytes);
        }
    }

    /// Parses the prefix of a message. Returns the length of the message.
    fn prefix(&mut self) -> Result<usize, Status> {
        let compressed = self.arrived.get_u8();
        let length = self.arrived.get_u32() as usize;
        match compressed {
            0 if length > LARGEST_REQUEST => Err(Status::resource_exhausted(format!(
                "the request has {length} bytes, more than the limit of {LARGEST_REQUEST}"
            ))),
            0 => Ok(length),
            1 => Err(Status::unimplemented("the request is compressed; no compression was offered")),
            flag => Err(Status::internal(format!("a message begins with {flag}, not with 0 or 1: this is not gRPC"))),
        }
    }

    /// Waits for the next frame of the body.
    fn next_frame(&mut self) -> impl Future<Output = Option<Result<Frame<Bytes>, axum::Error>>> {
        let (body, rarely) = (&mut self.body, &mut self.rarely);
        std::future::poll_fn(move |cx| rarely.poll(cx, |cx| Pin::new(&mut *body).poll_frame(cx)))
    }

    /// Returns the next data of the body, or `None` at the end.
    async fn next_data(&mut self) -> Result<Option<Bytes>, Status> {
        loop {
            let frame = match self.since {
                None => self.next_frame().await,
                Some(since) => {
                    tokio::time::timeout_at(since + ARRIVAL_LIMIT, self.next_frame()).await.map_err(|_| {
                        let seconds = ARRIVAL_LIMIT.as_secs();
                        Status::deadline_exceeded(format!("the request did not arrive within {seconds} s"))
                    })?
                }
            };
            match frame {
                None => return Ok(None),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) => return Ok(Some(bytes)),
                    Err(_trailers) => continue,
                },
                Some(Err(error)) => {
                    let status = Status::from_error(error.into());
                    // The client has disconnected, which is no error.
                    return if status.code() == Code::Cancelled { Ok(None) } else { Err(status) };
                }
            }
        }
    }
}

/// Waits until a large request of `length` bytes may arrive.
async fn acquire_budget(length: usize, deadline: Instant) -> Result<OwnedSemaphorePermit, Status> {
    let size = u32::try_from(length >> 10).unwrap_or(u32::MAX);
    let turn = tokio::time::timeout_at(deadline, LARGE_ONES.clone().acquire_many_owned(size)).await;
    let turn = turn.map_err(|_| Status::resource_exhausted("too many large requests arrive at the same time"))?;
    turn.map_err(|closed| Status::internal(closed.to_string()))
}

/// A body. A large body has a share of the budget until the answer, because the parsed request takes more memory than the body.
pub(super) struct Arrived {
    pub bytes: Bytes,
    _permit: Option<OwnedSemaphorePermit>,
}

/// Reads a body of at most `most` bytes until `deadline`. A large body uses its share of the budget.
pub(super) async fn read_body(mut body: Body, most: usize, deadline: Instant) -> Result<Arrived, Status> {
    let (mut arrived, mut permit) = (Vec::new(), None);
    loop {
        let frame = tokio::time::timeout_at(deadline, body.frame()).await;
        let Some(frame) = frame.map_err(|_| Status::deadline_exceeded("the body did not arrive in time"))? else {
            return Ok(Arrived { bytes: arrived.into(), _permit: permit });
        };
        let frame = frame.map_err(|error| Status::invalid_argument(format!("the body cannot be read: {error}")))?;
        let Ok(data) = frame.into_data() else { continue };
        if arrived.len() + data.len() > most {
            return Err(Status::resource_exhausted(format!("the body has more than {most} bytes")));
        }
        if arrived.len() + data.len() > FIRST && permit.is_none() {
            permit = Some(acquire_budget(most, deadline).await?);
        }
        arrived.extend_from_slice(&data);
    }
}

/// Decodes a request and checks its limits.
fn decode<R: Message + Default + Into<Request>>(message: Chunks) -> Result<Request, Status> {
    let broken = |error| Status::invalid_argument(format!("the request does not decode: {error}"));
    if message.remaining() > SMALL {
        // A name of one byte takes 3 bytes on the wire and 50 bytes in memory, so names are counted before decoding.
        let (entries, longest) = fields(message.clone()).map_err(broken)?;
        if longest > LONGEST_FIELD {
            let what = format!("a field of the request has {longest} bytes, more than the limit of {LONGEST_FIELD}");
            return Err(Status::invalid_argument(what));
        }
        if entries > MOST_ENTRIES {
            return Err(too_many(entries));
        }
    }
    let request = R::decode(message).map_err(broken)?;
    bounded(request.into())
}

fn too_many(entries: usize) -> Status {
    Status::resource_exhausted(format!("the request has {entries} entries, more than the limit of {MOST_ENTRIES}"))
}

/// Returns the number of length-delimited fields of an encoded message, and the size of the longest.
fn fields(mut message: Chunks) -> Result<(usize, usize), prost::DecodeError> {
    let (mut entries, mut longest) = (0, 0);
    while message.has_remaining() {
        let (field, wire_type) = decode_key(&mut message)?;
        if wire_type == WireType::LengthDelimited {
            entries += 1;
            let length = usize::try_from(decode_varint(&mut message)?).unwrap_or(usize::MAX);
            // The decoder reports truncated fields.
            let length = length.min(message.remaining());
            longest = longest.max(length);
            message.advance(length);
        } else {
            skip_field(wire_type, field, &mut message, DecodeContext::default())?;
        }
    }
    Ok((entries, longest))
}

/// Refuses too many names and stored texts that are too long, and truncates the reason of a rejection.
pub(super) fn bounded(mut request: Request) -> Result<Request, Status> {
    if request.subscribe.len() > MOST_ENTRIES {
        return Err(too_many(request.subscribe.len()));
    }
    let node = request.node.iter().flat_map(|node| [&node.id, &node.cluster, &node.user_agent]);
    let labels = node.chain([&request.type_url, &request.nonce, &request.version]);
    if let Some(longest) = labels.map(String::len).max().filter(|length| *length > LONGEST_LABEL) {
        let what =
            format!("node, type URL, nonce, or version: {longest} bytes, more than the limit of {LONGEST_LABEL}");
        return Err(Status::invalid_argument(what));
    }
    let names = request.subscribe.iter().chain(&request.unsubscribe).chain(request.initial_versions.keys());
    let names = names.chain(request.locators.iter().flat_map(Locator::texts));
    if let Some(longest) = names.map(String::len).max().filter(|length| *length > LONGEST_NAME) {
        let what = format!("a resource name has {longest} bytes, more than the limit of {LONGEST_NAME}");
        return Err(Status::invalid_argument(what));
    }
    if let Some(reason) = &mut request.error {
        let end = (0..=LONGEST_REASON).rev().find(|end| reason.is_char_boundary(*end));
        reason.truncate(end.unwrap_or_default());
    }
    Ok(request)
}

/// The size below which a piece is copied to the one before it. A client can send each byte in a frame of its own, and a piece takes
/// 32 bytes in addition to its content.
const PIECE: usize = 1 << 10;

/// Received bytes in chunks.
#[derive(Debug, Clone, Default)]
struct Chunks {
    pieces: VecDeque<Bytes>,
    length: usize,
}

impl Chunks {
    fn push(&mut self, bytes: Bytes) {
        self.length += bytes.len();
        match self.pieces.back_mut() {
            _ if bytes.is_empty() => {}
            Some(last) if last.len() < PIECE && bytes.len() < PIECE => {
                let joined = std::mem::take(last).try_into_mut();
                let mut joined = joined.unwrap_or_else(|shared| BytesMut::from(&*shared));
                joined.extend_from_slice(&bytes);
                *last = joined.freeze();
            }
            _ => self.pieces.push_back(bytes),
        }
    }

    /// Splits off the first `length` bytes, or all if there are fewer.
    fn split_to(&mut self, length: usize) -> Self {
        let mut taken = Self::default();
        while taken.length < length {
            let Some(mut piece) = self.pieces.pop_front() else { break };
            let part = piece.split_to(piece.len().min(length - taken.length));
            self.length -= part.len();
            taken.push(part);
            if !piece.is_empty() {
                self.pieces.push_front(piece);
            }
        }
        taken
    }
}

impl Buf for Chunks {
    fn remaining(&self) -> usize {
        self.length
    }

    fn chunk(&self) -> &[u8] {
        self.pieces.front().map(|piece| &piece[..]).unwrap_or_default()
    }

    fn advance(&mut self, mut count: usize) {
        self.length -= count.min(self.length);
        while let Some(piece) = self.pieces.front_mut() {
            if count < piece.len() {
                piece.advance(count);
                return;
            }
            count -= piece.len();
            self.pieces.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use envoy_types::pb::envoy::service::discovery::v3::DiscoveryRequest;
    use proptest::prelude::*;

    use super::*;

    /// A body that arrives in pieces of these sizes, with the rest in one piece.
    fn body(mut bytes: Bytes, pieces: &[usize]) -> Body {
        let mut parts = Vec::new();
        for size in pieces {
            parts.push(bytes.split_to(bytes.len().min(*size)));
        }
        parts.push(bytes);
        Body::from_stream(futures::stream::iter(parts.into_iter().map(Ok::<_, std::io::Error>)))
    }

    fn framed(messages: &[DiscoveryRequest]) -> Bytes {
        let mut bytes = Vec::new();
        for message in messages {
            bytes.push(0);
            bytes.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
            bytes.extend(message.encode_to_vec());
        }
        bytes.into()
    }

    /// Returns all requests of a body, and its end.
    fn all(body: Body) -> (Vec<Request>, Result<(), Status>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (mut requests, mut all) = (Requests::<DiscoveryRequest>::new(body), Vec::new());
            loop {
                match requests.message().await {
                    Ok(Some(request)) => all.push(request),
                    Ok(None) => return (all, Ok(())),
                    Err(status) => return (all, Err(status)),
                }
            }
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn requests_are_equal_for_any_pieces(
            names in proptest::collection::vec(proptest::collection::vec("[a-z]{0,9}", 0..5), 0..4),
            pieces in proptest::collection::vec(0..20_usize, 0..10),
        ) {
            let messages: Vec<_> = names.into_iter()
                .map(|resource_names| DiscoveryRequest { resource_names, ..Default::default() })
                .collect();
            let (requests, end) = all(body(framed(&messages), &pieces));
            prop_assert!(end.is_ok());
            prop_assert_eq!(requests, messages.into_iter().map(Request::from).collect::<Vec<_>>());
        }

        #[test]
        fn random_bytes_end_with_a_status(
            noise in proptest::collection::vec(any::<u8>(), 0..60),
            pieces in proptest::collection::vec(0..20_usize, 0..10),
        ) {
            let (_, end) = all(body(noise.clone().into(), &pieces));
            prop_assert!(end.is_ok() || !end.unwrap_err().message().is_empty());
        }
    }

    #[test]
    fn small_pieces_are_joined() {
        let bytes: Bytes = (0..30_000_u32).map(|at| at as u8).collect();
        let mut chunks = Chunks::default();
        for at in 0..bytes.len() {
            chunks.push(bytes.slice(at..=at));
        }
        assert!(chunks.pieces.len() <= bytes.len() / PIECE + 1, "{}", chunks.pieces.len());
        assert_eq!(chunks.copy_to_bytes(bytes.len()), bytes);
    }

    #[test]
    fn a_large_request_returns_its_share_of_the_budget() {
        let name = "n".repeat(1000);
        let large = DiscoveryRequest { resource_names: vec![name; 1000], ..Default::default() };
        let free = || LARGE_ONES.available_permits();
        for _ in 0..ALLOWANCE / (1000 * 1000) * 2 {
            let (requests, end) = all(body(framed(std::slice::from_ref(&large)), &[1000]));
            assert_eq!((requests.len(), end.is_ok()), (1, true), "{} KiB are free", free());
        }
    }

    #[tokio::test]
    async fn a_large_request_keeps_its_place_if_the_wait_is_canceled() {
        use futures::FutureExt;
        let names = vec!["n".repeat(1000); 1000];
        let large = DiscoveryRequest { resource_names: names, ..Default::default() };
        let everything = u32::try_from(ALLOWANCE >> 10).unwrap();
        let taken = LARGE_ONES.clone().acquire_many_owned(everything).await.unwrap();
        let mut requests = Requests::<DiscoveryRequest>::new(body(framed(&[large]), &[]));
        assert!(requests.message().now_or_never().is_none(), "there is no allowance left");
        // A stream cancels this wait whenever a snapshot arrives. Its place in the queue is kept: the next waiter is
        // behind it.
        let mut next = Box::pin(LARGE_ONES.clone().acquire_many_owned(everything));
        assert!(next.as_mut().now_or_never().is_none());
        drop(taken);
        let request = requests.message().now_or_never().expect("it is first in the queue");
        assert_eq!(request.unwrap().unwrap().subscribe.len(), 1000);
        drop(next);
    }

    #[test]
    fn a_reason_is_truncated_between_characters() {
        let reason = "ü".repeat(LONGEST_REASON);
        let request = bounded(Request { error: Some(reason), ..Request::default() }).unwrap();
        assert_eq!(request.error.unwrap().len(), LONGEST_REASON);
        let odd = format!("a{}", "ü".repeat(LONGEST_REASON));
        let request = bounded(Request { error: Some(odd), ..Request::default() }).unwrap();
        assert_eq!(request.error.unwrap().len(), LONGEST_REASON - 1);
    }
}
