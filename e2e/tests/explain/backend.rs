//! A backend that accepts plain text and TLS on one port. Its answers contain its name and whether the connection used TLS.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;

use bytes::Bytes;
use e2e::certificates::Pair;
use http_body_util::Full;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// A server on a local port. It answers every request 200, with its name as `x-backend`, and `x-tls: true` if the
/// connection uses TLS. It speaks HTTP/1.1 and HTTP/2. It ends when it is dropped.
pub struct AnyProtocol {
    /// The port.
    pub port: u16,
    task: JoinHandle<()>,
}

impl AnyProtocol {
    /// Starts a server with a key pair.
    pub async fn start(name: &str, pair: &Pair) -> Self {
        let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).expect("a private key");
        let config = rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("protocol versions")
            .with_no_client_auth()
            .with_single_cert(vec![pair.der.clone()], key)
            .expect("a key pair");
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port for a backend");
        let port = listener.local_addr().expect("the address of a backend").port();
        let (acceptor, name) = (TlsAcceptor::from(Arc::new(config)), Bytes::from(name.to_owned()));
        Self { port, task: tokio::spawn(accept(listener, acceptor, name)) }
    }
}

impl Drop for AnyProtocol {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, name: Bytes) {
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        let (acceptor, name) = (acceptor.clone(), name.clone());
        tokio::spawn(async move {
            // The first byte of a TLS handshake. Source: RFC 8446, section 5.1.
            let mut first = [0];
            match stream.peek(&mut first).await {
                Ok(1) if first == [22] => {
                    if let Ok(stream) = acceptor.accept(stream).await {
                        serve(stream, name, "true").await;
                    }
                }
                _ => serve(stream, name, "false").await,
            }
        });
    }
}

async fn serve(stream: impl AsyncRead + AsyncWrite + Unpin + 'static, name: Bytes, tls: &'static str) {
    let answer = service_fn(move |_: Request<hyper::body::Incoming>| {
        let answer = Response::builder().header("x-backend", &name[..]).header("x-tls", tls);
        let answer = answer.body(Full::new(name.clone())).expect("a name that a header can hold");
        async move { Ok::<_, Infallible>(answer) }
    });
    let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
}
