//! A client that sends individual HTTP/2 frames, including invalid ones.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tonic::Status;

use super::lab::soon;

/// The path of aggregated state-of-the-world streams.
pub const STREAM: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources";

/// The path of aggregated delta streams.
pub const DELTA: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
pub const END_STREAM: u8 = 1;
pub const END_HEADERS: u8 = 4;

/// A frame.
pub fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// Encodes header fields as literals.
pub fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            integer(&mut block, text.len());
            block.extend(text.as_bytes());
        }
    }
    block
}

/// Encodes a number with a prefix of 7 bits. Source: RFC 7541 §5.1.
fn integer(block: &mut Vec<u8>, mut number: usize) {
    if number < 127 {
        block.push(number as u8);
        return;
    }
    block.push(127);
    number -= 127;
    while number >= 128 {
        block.push((number % 128) as u8 | 128);
        number /= 128;
    }
    block.push(number as u8);
}

/// Frames a gRPC message.
pub fn message(message: &impl Message) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(message.encoded_len()).unwrap().to_be_bytes());
    framed.extend(message.encode_to_vec());
    framed
}

/// The received frames of a stream.
#[derive(Debug, Default)]
pub struct Seen {
    pub data: Vec<u8>,
    pub ended: bool,
    /// The code of a reset.
    pub reset: Option<u32>,
}

/// A client.
pub struct Raw {
    socket: TcpStream,
    pub streams: BTreeMap<u32, Seen>,
    /// The code and the message of a GOAWAY.
    pub go_away: Option<(u32, String)>,
    pub max_concurrent_streams: Option<u32>,
}

impl Raw {
    /// Opens a connection, and sends the preface and the settings.
    pub async fn connect(address: SocketAddr) -> Self {
        let mut raw = Self::mute(address).await;
        raw.write(PREFACE).await;
        // Windows of 2 GiB disable flow control in this direction.
        let window = [&[0, 4][..], &0x7fff_ffff_u32.to_be_bytes()].concat();
        raw.write(&frame(SETTINGS, 0, 0, &window)).await;
        raw.write(&frame(WINDOW_UPDATE, 0, 0, &0x7fff_0000_u32.to_be_bytes())).await;
        raw
    }

    /// Opens a connection without sending anything.
    pub async fn mute(address: SocketAddr) -> Self {
        let socket = soon(TcpStream::connect(address)).await.unwrap();
        Self { socket, streams: BTreeMap::new(), go_away: None, max_concurrent_streams: None }
    }

    /// Writes bytes that may be invalid. The next read detects that the server has closed the connection.
    pub async fn write(&mut self, bytes: &[u8]) {
        let _ = soon(self.socket.write_all(bytes)).await;
    }

    /// Opens a gRPC stream.
    pub async fn open(&mut self, stream: u32, path: &str) {
        let block = fields(&[
            (":method", "POST"),
            (":scheme", "http"),
            (":path", path),
            (":authority", "localhost"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
        ]);
        self.write(&frame(HEADERS, END_HEADERS, stream, &block)).await;
    }

    /// Sends a gRPC message that fits into one frame.
    pub async fn send(&mut self, stream: u32, request: &impl Message) {
        self.write(&frame(DATA, 0, stream, &message(request))).await;
    }

    /// Reads and records one frame. Returns `false` when the connection is closed.
    pub async fn read(&mut self) -> bool {
        let mut head = [0; 9];
        if soon(self.socket.read_exact(&mut head)).await.is_err() {
            return false;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        if soon(self.socket.read_exact(&mut payload)).await.is_err() {
            return false;
        }
        let number = |at: usize| u32::from_be_bytes(payload[at..at + 4].try_into().unwrap());
        let stream = u32::from_be_bytes(head[5..].try_into().unwrap());
        let seen = self.streams.entry(stream).or_default();
        match head[3] {
            DATA => seen.data.extend(&payload),
            RST_STREAM => seen.reset = Some(number(0)),
            SETTINGS if head[4] == 0 => {
                let limit = payload.chunks(6).find(|setting| setting[..2] == [0, 3]);
                self.max_concurrent_streams = limit.map(|limit| u32::from_be_bytes(limit[2..].try_into().unwrap()));
                self.write(&frame(SETTINGS, 1, 0, &[])).await;
            }
            PING if head[4] == 0 => self.write(&frame(PING, 1, 0, &payload)).await,
            GOAWAY => self.go_away = Some((number(4), String::from_utf8_lossy(&payload[8..]).into_owned())),
            _ => {}
        }
        if matches!(head[3], DATA | HEADERS) && head[4] & END_STREAM != 0 {
            self.streams.entry(stream).or_default().ended = true;
        }
        true
    }

    /// Reads until `found` returns a value.
    pub async fn until(&mut self, found: impl Fn(&Self) -> bool) {
        while !found(self) {
            assert!(self.read().await, "the connection was closed: {:?}", self.go_away);
        }
    }

    /// Reads until the server closes the connection. Returns the code of its GOAWAY.
    pub async fn until_closed(&mut self) -> Option<u32> {
        while self.read().await {}
        self.go_away.as_ref().map(|(code, _)| *code)
    }
}

/// Returns the status of a gRPC call whose request has the body `bytes`, which may be invalid.
pub async fn status_of(address: SocketAddr, path: &str, bytes: Vec<u8>) -> Status {
    let socket = soon(TcpStream::connect(address)).await.unwrap();
    // As in Envoy and gRPC. Otherwise, the end of a window would wait for a delayed ACK.
    socket.set_nodelay(true).unwrap();
    let (mut sender, connection) =
        soon(hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket))).await.unwrap();
    let connection = tokio::spawn(connection);
    let request = http::Request::post(format!("http://localhost{path}")).header("content-type", "application/grpc");
    let answer = soon(sender.send_request(request.body(Full::new(Bytes::from(bytes))).unwrap())).await.unwrap();
    let headers = answer.headers().clone();
    let trailers = soon(answer.into_body().collect()).await.unwrap().trailers().cloned().unwrap_or_default();
    connection.abort();
    Status::from_header_map(&headers).or_else(|| Status::from_header_map(&trailers)).expect("a gRPC status")
}
