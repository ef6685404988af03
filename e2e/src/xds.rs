//! A minimal delta xDS client for tests, which can behave unlike Envoy.

use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio_rustls::client::TlsStream;

use crate::certificates::Pair;
use crate::wait::PATIENCE;

/// The type of load assignments.
pub const ENDPOINTS: &str = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment";
/// The type of clusters.
pub const CLUSTER: &str = "type.googleapis.com/envoy.config.cluster.v3.Cluster";

const PATH: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources";

/// A connection.
pub struct Connection {
    sender: SendRequest<Feed>,
}

/// An aggregated delta stream.
pub struct Stream {
    requests: mpsc::UnboundedSender<Bytes>,
    responses: Incoming,
    arrived: Vec<u8>,
}

/// A summary of a response.
#[derive(Debug)]
pub struct Response {
    /// The type.
    pub type_url: String,
    /// The nonce.
    pub nonce: String,
    /// The number of resources.
    pub resources: usize,
    /// The number of removed names.
    pub removed: usize,
}

impl Connection {
    /// Connects to a local port from one of the machine's addresses.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn open(port: u16, from: IpAddr) -> Result<Self, crate::client::Error> {
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::new(from, 0))?;
        let socket = socket.connect(SocketAddr::from(([127, 0, 0, 1], port))).await?;
        socket.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(socket)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Connects with TLS; see [`tls`].
    ///
    /// # Errors
    /// If it is refused.
    pub async fn secured(
        port: u16,
        root: &CertificateDer<'static>,
        own: Option<&Pair>,
    ) -> Result<Self, crate::client::Error> {
        Self::over(tls(port, root, own, "h2").await?).await
    }

    /// Uses a connection from [`tls_to`].
    ///
    /// # Errors
    /// If it is refused.
    pub async fn over(stream: TlsStream<TcpStream>) -> Result<Self, crate::client::Error> {
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self { sender })
    }

    /// Sends a gRPC request whose body starts with `sent` and never ends. Returns the status if there is an answer.
    ///
    /// # Errors
    /// If the connection ends.
    pub async fn unfinished(
        &mut self,
        path: &str,
        sent: Bytes,
    ) -> Result<(Option<String>, impl Sized + use<>), crate::client::Error> {
        let (body, feed) = mpsc::unbounded_channel();
        body.send(sent)?;
        let request = hyper::Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Feed(feed))?;
        self.sender.ready().await?;
        let mut answer = Box::pin(self.sender.send_request(request));
        let early = tokio::time::timeout(std::time::Duration::from_millis(300), &mut answer).await;
        let status = match early {
            Ok(answer) => answer?.headers().get("grpc-status").map(|status| format!("{status:?}")),
            Err(_) => None,
        };
        Ok((status, (body, answer)))
    }

    /// Opens a stream.
    ///
    /// # Errors
    /// If it is refused.
    pub async fn stream(&mut self) -> Result<Stream, crate::client::Error> {
        let (requests, feed) = mpsc::unbounded_channel();
        let request = hyper::Request::post(format!("http://localhost{PATH}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(Feed(feed))?;
        self.sender.ready().await?;
        let answer = self.sender.send_request(request).await?;
        if let Some(status) = answer.headers().get("grpc-status") {
            return Err(format!("gRPC status {status:?}").into());
        }
        Ok(Stream { requests, responses: answer.into_body(), arrived: Vec::new() })
    }
}

/// Connects to a local port with TLS and the server name `localhost`. Presents the certificate `own`, if any.
///
/// # Errors
/// If the connection is refused. A client without a certificate may see this only when it reads.
///
/// # Panics
/// If a certificate is invalid.
pub async fn tls(
    port: u16,
    root: &CertificateDer<'static>,
    own: Option<&Pair>,
    protocol: &str,
) -> Result<TlsStream<TcpStream>, crate::client::Error> {
    tls_to(SocketAddr::from(([127, 0, 0, 1], port)), "localhost", root, own, protocol).await
}

/// Connects to any address with TLS and any server name.
///
/// # Errors
/// As [`tls`].
///
/// # Panics
/// If a certificate is invalid.
pub async fn tls_to(
    address: SocketAddr,
    server_name: &str,
    root: &CertificateDer<'static>,
    own: Option<&Pair>,
    protocol: &str,
) -> Result<TlsStream<TcpStream>, crate::client::Error> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(root.clone())?;
    let provider = std::sync::Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = config.with_root_certificates(roots);
    let mut config = match own {
        None => config.with_no_client_auth(),
        Some(pair) => {
            let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a private key");
            config.with_client_auth_cert(vec![pair.der.clone()], key)?
        }
    };
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    let socket = TcpStream::connect(address).await?;
    socket.set_nodelay(true)?;
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    Ok(connector.connect(ServerName::try_from(server_name.to_owned())?, socket).await?)
}

impl Stream {
    /// Subscribes to names of a type, or unsubscribes.
    pub fn ask(
        &self,
        type_url: &str,
        subscribe: impl Iterator<Item = String>,
        unsubscribe: impl Iterator<Item = String>,
    ) {
        let mut message = Vec::new();
        put(&mut message, 1, &[&[1 << 3 | 2, 4][..], b"test"].concat());
        put(&mut message, 2, type_url.as_bytes());
        subscribe.for_each(|name| put(&mut message, 3, name.as_bytes()));
        unsubscribe.for_each(|name| put(&mut message, 4, name.as_bytes()));
        self.send(&message);
    }

    /// Acknowledges or rejects a response.
    pub fn answer(&self, type_url: &str, response: &Response, rejected: bool) {
        let mut message = Vec::new();
        put(&mut message, 2, type_url.as_bytes());
        put(&mut message, 6, response.nonce.as_bytes());
        if rejected {
            put(&mut message, 7, &[&[2 << 3 | 2, 2][..], b"no"].concat());
        }
        self.send(&message);
    }

    fn send(&self, message: &[u8]) {
        let length = u32::try_from(message.len()).expect("less than 4 GiB").to_be_bytes();
        let _ = self.requests.send([&[0][..], &length, message].concat().into());
    }

    /// Waits for the next response.
    ///
    /// # Panics
    /// If no response arrives, or the stream ends.
    pub async fn next(&mut self) -> Response {
        self.next_in(PATIENCE).await
    }

    /// Waits for the next response for a given time.
    ///
    /// # Panics
    /// As [`Stream::next`].
    pub async fn next_in(&mut self, limit: std::time::Duration) -> Response {
        loop {
            if self.arrived.len() >= 5 {
                let length = (&self.arrived[1..]).get_u32() as usize;
                if self.arrived.len() >= 5 + length {
                    let message: Vec<u8> = self.arrived.drain(..5 + length).skip(5).collect();
                    return response(&message);
                }
            }
            let frame = tokio::time::timeout(limit, self.responses.frame()).await.expect("a response in time");
            let frame = frame.expect("an open stream").expect("a whole connection");
            self.arrived.extend(frame.into_data().unwrap_or_default());
        }
    }
}

fn response(mut message: &[u8]) -> Response {
    let mut response = Response { type_url: String::new(), nonce: String::new(), resources: 0, removed: 0 };
    while !message.is_empty() {
        let key = varint(&mut message);
        assert_eq!(key & 7, 2, "all fields of a delta response have a length");
        let length = usize::try_from(varint(&mut message)).expect("a length");
        let (field, rest) = message.split_at(length);
        message = rest;
        match key >> 3 {
            2 => response.resources += 1,
            4 => response.type_url = String::from_utf8_lossy(field).into_owned(),
            5 => response.nonce = String::from_utf8_lossy(field).into_owned(),
            6 => response.removed += 1,
            _ => {}
        }
    }
    response
}

fn varint(message: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = message.get_u8();
        value |= u64::from(byte & 127) << shift;
        if byte < 128 {
            break;
        }
    }
    value
}

fn put(message: &mut Vec<u8>, field: u8, bytes: &[u8]) {
    message.push(field << 3 | 2);
    let mut length = bytes.len();
    while length >= 128 {
        message.push((length % 128) as u8 | 128);
        length /= 128;
    }
    message.push(length as u8);
    message.extend(bytes);
}

/// A streamed request body.
struct Feed(mpsc::UnboundedReceiver<Bytes>);

impl Body for Feed {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        self.0.poll_recv(cx).map(|bytes| bytes.map(|bytes| Ok(Frame::data(bytes))))
    }
}
