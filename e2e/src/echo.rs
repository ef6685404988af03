//! An HTTP server that echoes requests.

use std::convert::Infallible;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::{Request, Response};

use crate::server::Server;

/// A server on a local port. It answers 200, and its body is the request: a line such as `GET /path HTTP/1.1`, then the
/// headers as `name: value` in lower case. A query changes the response: `bytes=5000` sets the length of the body,
/// `wait=300` delays it by milliseconds, `status=500` sets the status, and `pieces=9&every=200` adds nine bytes to the
/// body, one after each 200 milliseconds.
pub struct Echo {
    /// The address.
    pub address: SocketAddr,
    _server: Server,
}

impl Echo {
    /// Starts a server on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start() -> Self {
        let server = Server::http(answer).await;
        Self { address: server.address, _server: server }
    }
}

/// A body that may be streamed byte by byte.
struct Streamed {
    text: Option<Bytes>,
    pieces: u64,
    pace: tokio::time::Interval,
}

impl Body for Streamed {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if let Some(text) = self.text.take() {
            self.pace.reset();
            return Poll::Ready(Some(Ok(Frame::data(text))));
        }
        if self.pieces == 0 {
            return Poll::Ready(None);
        }
        ready!(self.pace.poll_tick(cx));
        self.pieces -= 1;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b".")))))
    }

    fn size_hint(&self) -> SizeHint {
        match self.pieces {
            0 => SizeHint::with_exact(self.text.as_ref().map_or(0, Bytes::len) as u64),
            _ => SizeHint::default(),
        }
    }
}

async fn answer(request: Request<Incoming>) -> Response<Streamed> {
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
        .body(Streamed {
            text: Some(Bytes::from(text)),
            pieces: asked("pieces").unwrap_or_default(),
            pace: tokio::time::interval(Duration::from_millis(asked("every").unwrap_or(100))),
        });
    answer.expect("an answer")
}
