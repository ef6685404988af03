//! A gRPC server for the services of `books.proto`. It answers with the bytes of the request, or with faulty ones.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{HeaderMap, Request, Response};

use crate::server::Server;

/// The descriptors of the services, in base64.
pub const DESCRIPTORS: &str = include_str!("books.base64").trim_ascii_end();
/// The service that can be called with JSON.
pub const SERVICE: &str = "shop.v1.Books";
/// The service whose methods are a stream and one with a map.
pub const SHELVES: &str = "shop.v1.Shelves";
/// The header of an answer with the path of the request.
pub const CALLED: &str = "x-called";
/// The header of a request for an answer with this status of gRPC.
pub const STATUS: &str = "x-status";
/// The header of a request for an answer that is not valid.
pub const FAULTY: &str = "x-faulty";

/// The header of a request for an answer of 20 KiB.
pub const LARGE: &str = "x-large";

/// A valid message with all kinds of fields: `{"name": "dune", "pages": 412, "author": {"fullName": "FH"}, "tags": ["a", "b"], "kind": 1}`.
const MESSAGE: &[u8] = b"\x0a\x04dune\x10\x9c\x03\x1a\x04\x0a\x02FH\x2a\x01a\x2a\x01b\x30\x01";

/// Starts the server.
pub async fn start() -> Server {
    Server::http(answer).await
}

/// Answers. Source: gRPC over HTTP/2.
async fn answer(request: Request<Incoming>) -> Response<impl hyper::body::Body<Data = Bytes, Error = Infallible>> {
    let is_grpc =
        request.headers().get("content-type").is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"));
    let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (path, status) = (request.uri().path().to_owned(), header(STATUS));
    let (faulty, large) = (header(FAULTY).is_some(), header(LARGE).is_some());
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = match (faulty, large) {
        (true, _) => faults().into(),
        // A string of 20 KiB in a message in a frame.
        (false, true) => [&b"\0\0\0\x50\x04\x0a\x80\xa0\x01"[..], &[b'a'; 20 << 10]].concat().into(),
        (false, false) => body,
    };
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", status.as_deref().unwrap_or("0").parse().expect("a header value"));
    let body = Full::new(body).with_trailers(async move { Some(Ok(trailers)) });
    let (code, kind) = if is_grpc { (200, "application/grpc") } else { (415, "text/plain") };
    let answer = Response::builder().status(code).header("content-type", kind).header(CALLED, path);
    answer.body(body).expect("an answer")
}

/// Returns the next answer of a faulty server: parts of messages, with changed bytes, in frames that may be wrong too.
fn faults() -> Vec<u8> {
    static SEED: AtomicU64 = AtomicU64::new(1);
    // Xorshift, so that each run has the same answers.
    let mut state = SEED.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut random = move |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below.max(1) as u64).unwrap_or(0)
    };
    let mut bytes = Vec::new();
    for _ in 0..=random(3) {
        // The last one is an entry of a map without its end.
        let message = [MESSAGE, b"\x0a\x02\xff\xfe", b"\x9a\x05", b"\x3a\x02\x08\x01", b"\x0a\x02\x0a\x09"][random(5)];
        let mut message = message[..message.len() - random(2) * random(message.len())].to_vec();
        for _ in 0..random(3) {
            let at = random(message.len());
            message.get_mut(at).into_iter().for_each(|byte| *byte = u8::try_from(random(256)).unwrap_or(0));
        }
        let length = if random(8) == 0 { random(1 << 32) } else { message.len() };
        bytes.push(u8::from(random(16) == 0));
        bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
        bytes.extend(message);
    }
    bytes
}
