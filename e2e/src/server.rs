//! The common part of all test servers: a port, and shutdown on drop.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};

use bytes::Bytes;
use hyper::body::{Body, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tonic::service::Routes;
use tonic::transport::server::TcpIncoming;

/// Any free local port.
pub const ANY_PORT: (Ipv4Addr, u16) = (Ipv4Addr::LOCALHOST, 0);

/// A server in clear text. It stops accepting connections when it is dropped.
pub struct Server {
    /// The address.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Server {
    /// Starts a server for gRPC services.
    ///
    /// # Panics
    /// If the address is taken.
    pub async fn grpc(address: impl Into<SocketAddr>, services: Routes) -> Self {
        Self::start(address.into(), async |listener| {
            let server = tonic::transport::Server::builder().add_routes(services);
            server.serve_with_incoming(TcpIncoming::from(listener)).await.expect("a server");
        })
        .await
    }

    /// Starts a server for HTTP/1.1 and HTTP/2 with a handler of requests.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn http<A, F, B>(answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        Self::http_at(ANY_PORT, answer).await
    }

    /// The same at another address: EndpointSlices of an API server cannot have those of the loopback interface.
    ///
    /// # Panics
    /// If the address is taken.
    pub async fn http_at<A, F, B>(address: impl Into<SocketAddr>, answer: A) -> Self
    where
        A: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
        F: Future<Output = Response<B>> + Send + 'static,
        B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
    {
        Self::start(address.into(), async move |listener: TcpListener| {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let answer = answer.clone();
                tokio::spawn(async move {
                    let answer = service_fn(move |request| {
                        let answer = answer(request);
                        async move { Ok::<_, Infallible>(answer.await) }
                    });
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _ = server.serve_connection(TokioIo::new(stream), answer).await;
                });
            }
        })
        .await
    }

    async fn start<S, F>(address: SocketAddr, serve: S) -> Self
    where
        S: FnOnce(TcpListener) -> F,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind(address).await.expect("a free port");
        let address = listener.local_addr().expect("the address of a listener");
        Self { address, task: tokio::spawn(serve(listener)) }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
