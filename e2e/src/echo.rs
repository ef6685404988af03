//! An HTTP server that answers with what it was asked.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A server on a port of this machine. It answers 200, and its body is the request: a line as `GET /path HTTP/1.1`, then
/// the headers, each as `name: value` in small letters. A query may ask for more: `bytes=5000` for as long a body,
/// `wait=300` for an answer after so many milliseconds, `status=500` for another status.
pub struct Echo {
    /// Where it listens.
    pub address: SocketAddr,
    task: JoinHandle<()>,
}

impl Echo {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// If there is no port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a port for a backend");
        let address = listener.local_addr().expect("the address of a backend");
        let task = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                tokio::spawn(async move {
                    let server = hyper::server::conn::http1::Builder::new();
                    let _ = server.serve_connection(TokioIo::new(stream), service_fn(answer)).await;
                });
            }
        });
        Self { address, task }
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let _ = body.collect().await;
    let asked = |name: &str| -> Option<u64> {
        let pairs = head.uri.query().unwrap_or_default().split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)?.1.parse().ok()
    };
    let mut text = format!("{} {} {:?}\n", head.method, head.uri, head.version);
    for (name, value) in &head.headers {
        let _ = writeln!(text, "{name}: {}", String::from_utf8_lossy(value.as_bytes()));
    }
    let length = asked("bytes").map_or(0, |bytes| usize::try_from(bytes).expect("a length"));
    text.extend(std::iter::repeat_n('.', length.saturating_sub(text.len())));
    if let Some(wait) = asked("wait") {
        tokio::time::sleep(Duration::from_millis(wait)).await;
    }
    let status = asked("status").map_or(200, |status| u16::try_from(status).expect("a status"));
    let answer = Response::builder()
        .status(status)
        .header("content-type", "text/plain; charset=utf-8")
        .header("server", "echo")
        .header("x-powered-by", "echo")
        .body(Full::new(Bytes::from(text)));
    Ok(answer.expect("an answer"))
}
