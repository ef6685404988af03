//! An HTTP/3 client.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use bytes::Buf;
use quinn::crypto::rustls::QuicClientConfig;
use rustls::pki_types::CertificateDer;

use crate::client::{Answer, Error};

/// A `GET` over a connection of its own: of `path` at `host`, on a UDP port of this machine. Only what `root` has signed is
/// accepted.
///
/// # Errors
/// If there is no complete answer.
pub async fn get(port: u16, host: &str, path: &str, root: CertificateDer<'static>) -> Result<Answer, Error> {
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
    let connection = endpoint.connect(address, host)?.await?;
    let (mut driver, mut sender) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let driver = tokio::spawn(async move { std::future::poll_fn(|context| driver.poll_close(context)).await });
    let request = http::Request::get(format!("https://{host}{path}")).body(())?;
    let mut stream = sender.send_request(request).await?;
    stream.finish().await?;
    let (head, ()) = stream.recv_response().await?.into_parts();
    let mut body = bytes::BytesMut::new();
    while let Some(mut part) = stream.recv_data().await? {
        while part.has_remaining() {
            let chunk = part.chunk().to_vec();
            part.advance(chunk.len());
            body.extend_from_slice(&chunk);
        }
    }
    drop(sender);
    endpoint.close(0_u32.into(), b"done");
    driver.abort();
    Ok(Answer { version: head.version, status: head.status.as_u16(), headers: head.headers, body: body.freeze() })
}
