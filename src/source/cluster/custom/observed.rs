//! A client that reports the arrival of responses, for one watch.
//!
//! `kube::runtime::watcher` hides bookmarks, which show that an unchanged kind is up to date. It repeats a watch without a pause if
//! the API server ends it at once. It also accepts a streaming list of any age, which can be older than the state before a restart.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::stream::{BoxStream, unfold};
use futures::{StreamExt, TryStreamExt};
use http::{Request, Response, Uri};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use kube::Client;
use kube::client::Body;
use prost::bytes::Bytes;
use tokio::sync::watch::{self, Receiver, Sender};
use tokio::time::{Instant, sleep_until, timeout};
use tower::service_fn;

use crate::source::cluster::watch::IDLE;

/// The minimum interval between equal requests.
const INTERVAL: Duration = Duration::from_secs(1);
/// The start of an event that reports an error.
const ERROR: &[u8] = b"{\"type\":\"ERROR\"";

type Last = Arc<Mutex<Option<(Uri, Instant)>>>;

/// Creates a client of the same API server, and a receiver that changes when bytes of a response arrive.
pub fn client(client: Client) -> (Client, Receiver<()>) {
    let (news, receiver) = watch::channel(());
    let (last, namespace) = (Last::default(), client.default_namespace().to_owned());
    let service = service_fn(move |request| send(client.clone(), request, news.clone(), last.clone()));
    (Client::new(service, namespace), receiver)
}

type Chunks = BoxStream<'static, kube::Result<Frame<Bytes>>>;

async fn send(
    client: Client,
    mut request: Request<Body>,
    news: Sender<()>,
    last: Last,
) -> kube::Result<Response<StreamBody<Chunks>>> {
    let uri = latest(request.uri());
    *request.uri_mut() = uri.clone();
    let earlier = last.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some((_, time)) = earlier.filter(|(earlier, _)| *earlier == uri) {
        sleep_until(time + INTERVAL).await;
    }
    let response = client.send(request).await?;
    *last.lock().unwrap_or_else(PoisonError::into_inner) = Some((uri, Instant::now()));
    let is_success = response.status().is_success();
    let report = move |chunk: &[u8]| {
        if is_success && !chunk.starts_with(ERROR) {
            news.send_replace(());
        }
    };
    Ok(response.map(|body| {
        let chunks = limited(body.into_data_stream().boxed(), IDLE);
        StreamBody::new(chunks.inspect_ok(move |chunk| report(chunk)).map_ok(Frame::data).boxed())
    }))
}

/// Returns the URI of a request, with a streaming list of the latest state instead of any state.
/// Source: Kubernetes API concepts, "Streaming lists".
fn latest(uri: &Uri) -> Uri {
    let text = uri.to_string();
    let any_state = text.strip_suffix("&resourceVersion=0").filter(|text| text.contains("sendInitialEvents=true"));
    any_state.and_then(|text| text.parse().ok()).unwrap_or_else(|| uri.clone())
}

/// Returns the chunks, and a failure after `limit` without one: the connection can be lost.
fn limited(
    chunks: BoxStream<'static, kube::Result<Bytes>>,
    limit: Duration,
) -> impl futures::Stream<Item = kube::Result<Bytes>> + Send {
    unfold(chunks, move |mut chunks| async move {
        let silent =
            || kube::Error::ReadEvents(io::Error::new(io::ErrorKind::TimedOut, "no more bytes of the response"));
        let chunk = timeout(limit, chunks.next()).await.unwrap_or_else(|_| Some(Err(silent())));
        Some((chunk?, chunks))
    })
}

#[cfg(test)]
mod tests {
    use futures::stream::{iter, pending};

    use super::*;

    #[tokio::test]
    async fn a_response_without_bytes_fails_after_its_limit() {
        let chunks = iter([Ok(Bytes::from_static(b"a"))]).chain(pending()).boxed();
        let mut chunks = limited(chunks, Duration::from_millis(50)).boxed();
        assert!(matches!(chunks.next().await, Some(Ok(_))));
        let silent = chunks.next().await;
        let is_timeout = |error: &io::Error| error.kind() == io::ErrorKind::TimedOut;
        assert!(matches!(&silent, Some(Err(kube::Error::ReadEvents(error))) if is_timeout(error)), "{silent:?}");
    }
}
