//! An HTTP/3 client.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::{Buf, Bytes};
use h3::error::{Code, StreamError};
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::CertificateDer;

use crate::client::{Answer, Error};

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// One connection.
pub struct Connection {
    endpoint: quinn::Endpoint,
    quic: quinn::Connection,
    sender: Sender,
    driver: tokio::task::JoinHandle<()>,
}

impl Connection {
    /// Connects to a local UDP port with `server_name`. The certificate must be signed by `root`.
    ///
    /// # Errors
    /// If the connection fails.
    pub async fn open(port: u16, server_name: &str, root: CertificateDer<'static>) -> Result<Self, Error> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(root)?;
        let mut tls = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = vec![b"h3".to_vec()];
        let mut endpoint = quinn::Endpoint::client((Ipv4Addr::LOCALHOST, 0).into())?;
        endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?)));
        let address: SocketAddr = (Ipv4Addr::LOCALHOST, port).into();
        let quic = endpoint.connect(address, server_name)?.await?;
        let (mut driver, sender) = h3::client::new(h3_quinn::Connection::new(quic.clone())).await?;
        let driver = tokio::spawn(async move {
            std::future::poll_fn(|context| driver.poll_close(context)).await;
        });
        Ok(Self { endpoint, quic, sender, driver })
    }

    /// Returns the certificate of the server.
    pub fn certificate(&self) -> Option<CertificateDer<'static>> {
        let chain = self.quic.peer_identity()?.downcast::<Vec<CertificateDer<'static>>>().ok()?;
        chain.first().cloned()
    }

    /// Sends `GET path` to `host`.
    ///
    /// # Errors
    /// If there is no complete answer.
    pub async fn get(&mut self, host: &str, path: &str) -> Result<Answer, Error> {
        self.get_with(host, path, &[]).await
    }

    /// Sends `GET path` to `host` with header fields.
    ///
    /// # Errors
    /// If there is no complete answer.
    pub async fn get_with(&mut self, host: &str, path: &str, fields: &[(&str, &str)]) -> Result<Answer, Error> {
        let request = http::Request::get(format!("https://{host}{path}"));
        let request = fields.iter().fold(request, |request, (name, value)| request.header(*name, *value)).body(())?;
        let mut stream = self.sender.send_request(request).await?;
        // A server that answers before the request ends may ask to stop it: the answer is whole (RFC 9114, 4.1).
        match stream.finish().await {
            Err(StreamError::RemoteTerminate { code, .. }) if code == Code::H3_NO_ERROR => {}
            finished => finished?,
        }
        let (head, ()) = stream.recv_response().await?.into_parts();
        let mut body = bytes::BytesMut::new();
        while let Some(mut part) = stream.recv_data().await? {
            while part.has_remaining() {
                let chunk = part.chunk().to_vec();
                part.advance(chunk.len());
                body.extend_from_slice(&chunk);
            }
        }
        Ok(Answer { version: head.version, status: head.status.as_u16(), headers: head.headers, body: body.freeze() })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.endpoint.close(0_u32.into(), b"done");
        self.driver.abort();
    }
}

/// Sends `GET path` to `host` over a new connection to a local UDP port. The certificate must be signed by `root`.
///
/// # Errors
/// If there is no complete answer.
pub async fn get(port: u16, host: &str, path: &str, root: CertificateDer<'static>) -> Result<Answer, Error> {
    Connection::open(port, host, root).await?.get(host, path).await
}
