//! An HTTP client over TCP or TLS without automatic behavior: each connection is an object, and nothing is retried. It
//! uses HTTP/1.1, or HTTP/2 in clear text if the target requires it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use crate::certificates::Pair;

/// The reason why a request has no answer.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The destination of requests: an address, a `Host`, and the trusted authority for TLS.
#[derive(Clone)]
pub struct Target {
    address: SocketAddr,
    host: String,
    /// The server name, if it differs from the host.
    server_name: Option<String>,
    fields: Vec<(HeaderName, HeaderValue)>,
    tls: Option<Arc<rustls::ClientConfig>>,
    http2: bool,
}

/// The connection was closed before the request was sent, so it can be sent again.
#[derive(Debug)]
pub struct Unsent;

impl fmt::Display for Unsent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the connection was closed before the request was sent")
    }
}

impl std::error::Error for Unsent {}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The version of HTTP.
    pub version: Version,
    /// The header fields.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// Returns the value of a header field. Empty: it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Returns the body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A connection.
pub struct Connection {
    sender: Sender,
    /// The end of the task that serves the connection.
    ended: watch::Receiver<()>,
    host: String,
    fields: Vec<(HeaderName, HeaderValue)>,
    /// The certificate of the server.
    pub certificate: Option<CertificateDer<'static>>,
    /// The result of the TLS handshake.
    pub agreed: Option<Agreed>,
}

/// The result of a TLS handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreed {
    /// The version of TLS.
    pub version: rustls::ProtocolVersion,
    /// The cipher suite.
    pub cipher_suite: rustls::CipherSuite,
    /// The protocol chosen by ALPN. Empty: none.
    pub alpn: String,
    /// The group of the key exchange.
    pub group: rustls::NamedGroup,
}

enum Sender {
    One(http1::SendRequest<Full<Bytes>>),
    Two(http2::SendRequest<Full<Bytes>>),
}

impl Target {
    /// Returns the target of a host over plain HTTP at a local port.
    pub fn http(port: u16, host: &str) -> Self {
        let address = (Ipv4Addr::LOCALHOST, port).into();
        Self { address, host: host.into(), server_name: None, fields: vec![], tls: None, http2: false }
    }

    /// Uses HTTP/2 without negotiation.
    #[must_use]
    pub fn over_http2(self) -> Self {
        Self { http2: true, ..self }
    }

    /// Returns the target of a host over HTTPS at a local port, with `host` as the server name. The certificate must be
    /// signed by `root`.
    ///
    /// # Panics
    /// If `root` is not a certificate.
    pub fn https(port: u16, host: &str, root: CertificateDer<'static>) -> Self {
        Self::https_by(port, host, root, rustls::ALL_VERSIONS, &[])
    }

    /// Like [`Target::https`], with only these versions of TLS and these ALPN protocols.
    ///
    /// # Panics
    /// If `root` is not a certificate.
    pub fn https_by(
        port: u16,
        host: &str,
        root: CertificateDer<'static>,
        versions: &[&'static rustls::SupportedProtocolVersion],
        alpn: &[&str],
    ) -> Self {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root).expect("a root certificate");
        let mut config = rustls::ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .expect("protocol versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config.resumption = rustls::client::Resumption::disabled(); // each connection sees the certificate of now
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let tls = Some(Arc::new(config));
        Self { address, host: host.into(), server_name: None, fields: vec![], tls, http2: false }
    }

    /// Adds a client certificate, which is sent if the server requests one.
    ///
    /// # Panics
    /// If the target has no TLS, or the pair is invalid.
    #[must_use]
    pub fn showing(mut self, pair: &Pair) -> Self {
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a private key");
        let shown = CertifiedKey::from_der(vec![pair.der.clone()], key, &provider()).expect("a key pair");
        let config = self.tls.as_mut().map(Arc::make_mut).expect("TLS");
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown));
        self
    }

    /// Uses connections for another server name.
    #[must_use]
    pub fn opened_for(self, server_name: &str) -> Self {
        Self { server_name: Some(server_name.into()), ..self }
    }

    /// Uses another address than loopback.
    #[must_use]
    pub fn at(mut self, address: IpAddr) -> Self {
        self.address.set_ip(address);
        self
    }

    /// Sets a header field of every request.
    ///
    /// # Panics
    /// If it is invalid.
    #[must_use]
    pub fn field(mut self, name: &str, value: &str) -> Self {
        let parsed: HeaderName = name.parse().expect("a field's name");
        self.fields.retain(|(other, _)| *other != parsed);
        self.add_field(name, value)
    }

    /// Adds a field to each request, beside others of the same name.
    ///
    /// # Panics
    /// If it is invalid.
    #[must_use]
    pub fn add_field(mut self, name: &str, value: &str) -> Self {
        self.fields.push((name.parse().expect("a field's name"), value.parse().expect("a field's value")));
        self
    }

    /// Opens a connection.
    ///
    /// # Errors
    /// If the connection or the TLS handshake fails.
    pub async fn connect(&self) -> Result<Connection, Error> {
        let tcp = TcpStream::connect(self.address).await?;
        tcp.set_nodelay(true)?;
        // Connections end with a reset. They are not dropped before the answer, and a regular close would occupy one of
        // 28,000 ports for a minute. The load of two consecutive specs needs more.
        tcp.set_zero_linger()?;
        let (host, fields) = (self.host.clone(), self.fields.clone());
        let Some(config) = &self.tls else {
            let (sender, ended) = self.handshake(tcp).await?;
            return Ok(Connection { sender, ended, host, fields, certificate: None, agreed: None });
        };
        let name = ServerName::try_from(self.server_name.clone().unwrap_or_else(|| host.clone()))?;
        let tls = tokio_rustls::TlsConnector::from(config.clone()).connect(name, tcp).await?;
        let session = tls.get_ref().1;
        let certificate = session.peer_certificates().and_then(|chain| chain.first()).cloned();
        let agreed = Agreed {
            version: session.protocol_version().ok_or("no version")?,
            cipher_suite: session.negotiated_cipher_suite().ok_or("no cipher suite")?.suite(),
            alpn: String::from_utf8_lossy(session.alpn_protocol().unwrap_or_default()).into_owned(),
            group: session.negotiated_key_exchange_group().ok_or("no group")?.name(),
        };
        let certificate = certificate.map(CertificateDer::into_owned);
        let (sender, ended) = self.handshake(tls).await?;
        Ok(Connection { sender, ended, host, fields, certificate, agreed: Some(agreed) })
    }

    /// Sends a request over a new connection.
    ///
    /// # Errors
    /// If there is no complete answer.
    pub async fn get(&self, path: &str) -> Result<Answer, Error> {
        self.connect().await?.send(Method::GET, path, Bytes::new()).await
    }

    /// Like [`Target::get`], with a body.
    ///
    /// # Errors
    /// If there is no complete answer.
    pub async fn send(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Result<Answer, Error> {
        self.connect().await?.send(method, path, body.into()).await
    }

    async fn handshake<S>(&self, stream: S) -> Result<(Sender, watch::Receiver<()>), Error>
    where
        S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin + 'static,
    {
        let stream = TokioIo::new(stream);
        if self.http2 {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), stream).await?;
            return Ok((Sender::Two(sender), serve(connection)));
        }
        let (sender, connection) = http1::handshake(stream).await?;
        Ok((Sender::One(sender), serve(connection)))
    }

    /// Sends a request. Returns the backend if the answer is 200.
    pub async fn backend(&self, path: &str) -> Option<String> {
        let answer = self.get(path).await.ok()?;
        (answer.status == 200).then(|| answer.header("x-backend").to_owned())
    }
}

impl Connection {
    /// Sets the `Host` of the following requests.
    pub fn request_host(&mut self, host: &str) {
        host.clone_into(&mut self.host);
    }

    /// Returns whether another request can be sent: the server has not closed the connection.
    pub async fn usable(&mut self) -> bool {
        match &mut self.sender {
            Sender::One(sender) => sender.ready().await.is_ok(),
            Sender::Two(sender) => sender.ready().await.is_ok(),
        }
    }

    /// Sends a request and reads the complete answer.
    ///
    /// # Errors
    /// If there is no complete answer; [`Unsent`] if the request was not sent.
    pub async fn send(&mut self, method: Method, path: &str, body: Bytes) -> Result<Answer, Error> {
        let mut request = Request::new(Full::new(body));
        *request.method_mut() = method;
        request.headers_mut().extend(self.fields.iter().cloned());
        let sent = match &mut self.sender {
            Sender::One(sender) => {
                *request.uri_mut() = path.parse()?;
                request.headers_mut().insert("host", self.host.parse()?);
                unless_ended(sender.try_send_request(request), &mut self.ended).await?
            }
            // Other tasks deliver the answers of HTTP/2, also after the end of the connection.
            Sender::Two(sender) => {
                *request.uri_mut() = format!("http://{}{path}", self.host).parse()?;
                sender.try_send_request(request).await
            }
        };
        let answer = sent.map_err(|mut error| match error.take_message() {
            Some(_) => Error::from(Unsent),
            None => error.into_error().into(),
        })?;
        let (head, body) = answer.into_parts();
        let body = body.collect().await?.to_bytes();
        Ok(Answer { status: head.status.as_u16(), version: head.version, headers: head.headers, body })
    }
}

/// Serves a connection in a task. Returns a channel that is closed after the end of the connection.
fn serve(connection: impl Future + Send + 'static) -> watch::Receiver<()> {
    let (running, ended) = watch::channel(());
    tokio::spawn(async move {
        connection.await;
        drop(running);
    });
    ended
}

/// Waits for the result of a request over HTTP/1.1, or for the end of its connection. A request that enters tokio's channel while hyper drops
/// the receiver stays in the channel, without a result.
async fn unless_ended<T>(sent: impl Future<Output = T>, ended: &mut watch::Receiver<()>) -> Result<T, Unsent> {
    let mut sent = pin!(sent);
    tokio::select! {
        biased;
        result = &mut sent => return Ok(result),
        _ = ended.changed() => {}
    }
    // The connection delivers results before it ends.
    tokio::select! {
        biased;
        result = sent => Ok(result),
        () = std::future::ready(()) => Err(Unsent),
    }
}

/// Writes `bytes` to a local port, and reads until `enough` or until the other side closes the connection.
///
/// # Panics
/// If there is no connection, or no data arrives for [`crate::PATIENCE`].
pub async fn raw(port: u16, bytes: &[u8], enough: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await.expect("a connection");
    stream.write_all(bytes).await.expect("bytes written");
    let mut read = Vec::new();
    while !enough(&read) {
        let more = tokio::time::timeout(crate::PATIENCE, stream.read_buf(&mut read)).await;
        match more.unwrap_or_else(|_| panic!("nothing more after {:?}", String::from_utf8_lossy(&read))) {
            // A reset closes the connection too.
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
    }
    read
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
