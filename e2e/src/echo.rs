//! An HTTP server that answers with what it was asked.

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::{Request, Response};

use crate::server::Server;

/// A server on a port of this machine. It answers 200, and its body is the request: a line as `GET /path HTTP/1.1`, then
/// the headers, each as `name: value` in small letters. A query may ask for more: `bytes=5000` for as long a body,
/// `wait=300` for an answer after so many milliseconds, `status=500` for another status.
pub struct Echo {
    /// Where it listens.
    pub address: SocketAddr,
    _server: Server,
}

impl Echo {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// If there is no port.
    pub async fn start() -> Self {
        let server = Server::http(answer).await;
        Self { address: server.address, _server: server }
    }
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
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
    answer.expect("an answer")
}
