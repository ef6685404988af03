//! One gRPC stream over one HTTP/2 connection, with as little work as the protocol allows: the client must not be what
//! is measured. No header of an answer is decoded; what a server says besides data is only taken to be its end.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADER_BYTES: usize = 9;
const STREAM: u32 = 1;
/// Both windows before anybody says otherwise. Source: RFC 9113, 6.9.2.
const DEFAULT_WINDOW: u32 = 65_535;
/// The largest frame that every peer takes. Source: RFC 9113, 4.2.
const MAX_FRAME: usize = 16_384;
const READ_AT_ONCE: usize = 64 << 10;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;

const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;

/// The TLS of a connection.
#[derive(Debug, Clone)]
pub struct Tls {
    /// Certificates, and the protocols that are offered.
    pub config: Arc<ClientConfig>,
    /// The name of the server.
    pub server: &'static str,
}

enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// The client's side of a stream.
pub struct Connection {
    socket: Socket,
    inbox: BytesMut,
    /// What is left of the data frame that is being read.
    data_left: usize,
    /// What the server may still send before it must be given more.
    window: u32,
    consumed: u32,
    outbox: BytesMut,
    /// Messages that the server's windows did not take yet.
    waiting: VecDeque<Bytes>,
    connection_credit: i64,
    stream_credit: i64,
    initial_credit: i64,
}

/// What was read.
pub enum Received {
    /// A piece of the stream's data.
    Data(Bytes),
    /// Nothing that concerns the caller.
    Nothing,
}

impl Connection {
    /// Connects and opens a stream by calling `method`, e.g. `/package.Service/Method`; the server may send
    /// `window` bytes ahead of the reader.
    ///
    /// # Errors
    /// The connection is refused or breaks.
    pub async fn open(address: SocketAddr, tls: Option<&Tls>, method: &str, window: u32) -> anyhow::Result<Self> {
        let socket = TcpStream::connect(address).await.with_context(|| format!("cannot connect to {address}"))?;
        socket.set_nodelay(true)?;
        let socket = match tls {
            None => Socket::Plain(socket),
            Some(tls) => {
                let connector = TlsConnector::from(tls.config.clone());
                Socket::Tls(Box::new(connector.connect(ServerName::try_from(tls.server)?, socket).await?))
            }
        };
        let mut outbox = BytesMut::new();
        outbox.put_slice(PREFACE);
        put_frame(&mut outbox, SETTINGS, 0, 0, &initial_window(window));
        if window > DEFAULT_WINDOW {
            put_frame(&mut outbox, WINDOW_UPDATE, 0, 0, &(window - DEFAULT_WINDOW).to_be_bytes());
        }
        let mut block = BytesMut::new();
        let path = [(":method", "POST"), (":scheme", "http"), (":path", method), (":authority", "localhost")];
        let grpc = [("content-type", "application/grpc"), ("te", "trailers")];
        path.iter().chain(&grpc).for_each(|(name, value)| put_header(&mut block, name, value));
        put_frame(&mut outbox, HEADERS, END_HEADERS, STREAM, &block);
        let mut connection = Self {
            socket,
            inbox: BytesMut::new(),
            data_left: 0,
            window,
            consumed: 0,
            outbox,
            waiting: VecDeque::new(),
            connection_credit: DEFAULT_WINDOW.into(),
            stream_credit: DEFAULT_WINDOW.into(),
            initial_credit: DEFAULT_WINDOW.into(),
        };
        connection.flush().await?;
        Ok(connection)
    }

    /// Sends a gRPC message made of `parts`; what the server does not take yet waits.
    pub async fn send(&mut self, parts: &[Bytes]) -> anyhow::Result<()> {
        let length: usize = parts.iter().map(Bytes::len).sum();
        let mut prefix = BytesMut::with_capacity(5);
        prefix.put_u8(0);
        prefix.put_u32(u32::try_from(length).context("a message of 4 GiB")?);
        self.waiting.push_back(prefix.freeze());
        self.waiting.extend(parts.iter().filter(|part| !part.is_empty()).cloned());
        self.flush().await
    }

    /// Reads once from the socket, if nothing is left of the last time. May be dropped while it waits.
    ///
    /// # Errors
    /// The stream or the connection has ended.
    pub async fn receive(&mut self) -> anyhow::Result<Received> {
        loop {
            if self.data_left > 0 && !self.inbox.is_empty() {
                let piece = self.inbox.split_to(self.data_left.min(self.inbox.len())).freeze();
                self.data_left -= piece.len();
                self.consumed += piece.len() as u32;
                if self.consumed >= self.window / 2 {
                    let credit = std::mem::take(&mut self.consumed).to_be_bytes();
                    put_frame(&mut self.outbox, WINDOW_UPDATE, 0, 0, &credit);
                    put_frame(&mut self.outbox, WINDOW_UPDATE, 0, STREAM, &credit);
                }
                return Ok(Received::Data(piece));
            }
            if self.data_left == 0
                && let Some(frame) = self.next_frame()?
            {
                self.control(&frame)?;
                continue;
            }
            if !self.outbox.is_empty() || self.can_send() {
                self.flush().await?;
                return Ok(Received::Nothing);
            }
            self.inbox.reserve(READ_AT_ONCE);
            let read = match &mut self.socket {
                Socket::Plain(socket) => socket.read_buf(&mut self.inbox).await?,
                Socket::Tls(socket) => socket.read_buf(&mut self.inbox).await?,
            };
            ensure!(read > 0, "the server closed the connection");
        }
    }

    /// The next frame that is no data, whole; of a data frame only the header is taken.
    fn next_frame(&mut self) -> anyhow::Result<Option<Frame>> {
        if self.inbox.len() < HEADER_BYTES {
            return Ok(None);
        }
        let length =
            (usize::from(self.inbox[0]) << 16) | (usize::from(self.inbox[1]) << 8) | usize::from(self.inbox[2]);
        let (kind, flags) = (self.inbox[3], self.inbox[4]);
        if kind == DATA {
            ensure!(flags & PADDED == 0, "the server pads its data");
            ensure!(flags & END_STREAM == 0, "the server ended the stream");
            self.inbox.advance(HEADER_BYTES);
            self.data_left = length;
            return Ok(Some(Frame { kind, flags, payload: Bytes::new(), on_connection: false }));
        }
        if self.inbox.len() < HEADER_BYTES + length {
            return Ok(None);
        }
        let on_connection = self.inbox[5..HEADER_BYTES].iter().all(|byte| *byte == 0);
        self.inbox.advance(HEADER_BYTES);
        Ok(Some(Frame { kind, flags, payload: self.inbox.split_to(length).freeze(), on_connection }))
    }

    fn control(&mut self, frame: &Frame) -> anyhow::Result<()> {
        match frame.kind {
            HEADERS if frame.flags & END_STREAM != 0 => {
                bail!("the server ended the stream: {}", frame.payload.escape_ascii())
            }
            RESET => bail!("the server reset the stream"),
            GO_AWAY => bail!("the server ends the connection: {}", frame.payload.escape_ascii()),
            SETTINGS if frame.flags & ACK == 0 => {
                for setting in frame.payload.chunks_exact(6) {
                    if setting[..2] == [0, 4] {
                        let credit = i64::from(u32::from_be_bytes([setting[2], setting[3], setting[4], setting[5]]));
                        self.stream_credit += credit - self.initial_credit;
                        self.initial_credit = credit;
                    }
                }
                put_frame(&mut self.outbox, SETTINGS, ACK, 0, &[]);
            }
            PING if frame.flags & ACK == 0 => put_frame(&mut self.outbox, PING, ACK, 0, &frame.payload),
            WINDOW_UPDATE if frame.payload.len() == 4 => {
                let credit = i64::from(frame.payload.clone().get_u32());
                match frame.on_connection {
                    true => self.connection_credit += credit,
                    false => self.stream_credit += credit,
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn can_send(&self) -> bool {
        !self.waiting.is_empty() && self.connection_credit.min(self.stream_credit) > 0
    }

    /// Writes what may be written.
    async fn flush(&mut self) -> anyhow::Result<()> {
        while self.can_send() {
            let credit = usize::try_from(self.connection_credit.min(self.stream_credit)).unwrap_or_default();
            let mut room = credit.min(MAX_FRAME);
            let mut pieces = Vec::new();
            while room > 0
                && let Some(first) = self.waiting.front_mut()
            {
                let piece = first.split_to(room.min(first.len()));
                if first.is_empty() {
                    self.waiting.pop_front();
                }
                room -= piece.len();
                pieces.push(piece);
            }
            let length: usize = pieces.iter().map(Bytes::len).sum();
            self.connection_credit -= length as i64;
            self.stream_credit -= length as i64;
            put_frame_header(&mut self.outbox, length, DATA, 0, STREAM);
            pieces.iter().for_each(|piece| self.outbox.put_slice(piece));
        }
        // What was written is gone from the outbox even if the caller drops us midway.
        while !self.outbox.is_empty() {
            match &mut self.socket {
                Socket::Plain(socket) => socket.write_buf(&mut self.outbox).await?,
                Socket::Tls(socket) => socket.write_buf(&mut self.outbox).await?,
            };
        }
        if let Socket::Tls(socket) = &mut self.socket {
            socket.flush().await?;
        }
        Ok(())
    }
}

struct Frame {
    kind: u8,
    flags: u8,
    payload: Bytes,
    on_connection: bool,
}

fn initial_window(window: u32) -> [u8; 6] {
    let [a, b, c, d] = window.to_be_bytes();
    [0, 4, a, b, c, d]
}

fn put_frame_header(buffer: &mut BytesMut, length: usize, kind: u8, flags: u8, stream: u32) {
    buffer.put_uint(length as u64, 3);
    buffer.put_u8(kind);
    buffer.put_u8(flags);
    buffer.put_u32(stream);
}

fn put_frame(buffer: &mut BytesMut, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    put_frame_header(buffer, payload.len(), kind, flags, stream);
    buffer.put_slice(payload);
}

/// A literal header, neither indexed nor compressed; names and values here are shorter than 127 bytes.
fn put_header(buffer: &mut BytesMut, name: &str, value: &str) {
    debug_assert!(name.len() < 127 && value.len() < 127);
    buffer.put_u8(0);
    for text in [name, value] {
        buffer.put_u8(text.len() as u8);
        buffer.put_slice(text.as_bytes());
    }
}
