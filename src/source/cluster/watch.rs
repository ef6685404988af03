//! The list of a kind in protobuf and the watch that follows it, as an endless stream.
//!
//! It resembles `kube::runtime::watcher`, which supports JSON only ([`super::custom`]), and has the same errors. Protobuf costs the
//! API server and Lockgate less. A complete list is requested in one response, and is decoded while it arrives. The decision
//! 0006 records the figures.
//!
//! No single object or event can stop it. An object that cannot be decoded is forwarded as such, and its version is
//! adopted. An event without a readable name or version leads to a new list, and so does an error that repeats at the
//! same version. A watch never resumes where it has just failed because of its content.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{BoxStream, unfold};
use futures::{StreamExt, TryStreamExt};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderValue, Request, Response};
use http_body_util::BodyExt;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusSummary;
use kube::runtime::watcher;
use lockgate_route::objects::{Kind, KindInfo, Object, ObjectKey};
use prost::Message;
use prost::bytes::{Bytes, BytesMut};

use super::form::{ReceivedObject, WireFormat};
use super::proto::{self, lossy};
use super::read::{self, ListReader, Malformed, Next};

/// A report of a watch. Objects are reduced to the fields that are read, and are `None` if there are none.
#[derive(Debug)]
pub enum Arrival {
    /// A list is requested.
    ListStarted,
    /// An object of the list.
    ListItem(ObjectKey, Option<Object>),
    /// The list is complete.
    ListEnded,
    /// An object was added or changed.
    Applied(ObjectKey, Option<Object>),
    /// An object was deleted.
    Deleted(ObjectKey),
    /// Nothing has changed, and the API server is responsive.
    Alive,
}

/// All events of a kind, or of a kind in one namespace.
pub type WatchStream = BoxStream<'static, watcher::Result<Arrival>>;

/// The requested duration of a watch, in seconds.
pub const WATCH_SECONDS: u32 = 290;
/// A watch without any bytes for this time has lost its peer.
pub const IDLE: Duration = Duration::from_secs(WATCH_SECONDS as u64 + 5);
/// A watch that ends sooner, without an event, has failed.
const TOO_SHORT: Duration = Duration::from_secs(1);

/// The target of a watch.
pub struct Target {
    /// The client.
    pub client: kube::Client,
    /// The kind.
    pub kind: Kind,
    /// The namespace. `None` for all.
    pub namespace: Option<Arc<str>>,
    /// A field selector.
    pub fields: Option<&'static str>,
    /// A label selector.
    pub labels: Option<String>,
}

/// Lists and then watches forever. After a failure, it continues when it is polled again.
pub fn watch(target: Target, form: WireFormat) -> WatchStream {
    let start = (Requests { url: target.url(), target, form }, State::Start);
    unfold(start, |(requests, state)| async move {
        let (result, state) = requests.step(state).await;
        Some((result, (requests, state)))
    })
    .boxed()
}

/// The requests of a watch.
struct Requests {
    url: String,
    target: Target,
    form: WireFormat,
}

enum State {
    Start,
    List(Option<String>),
    Listing(Box<Listing>),
    At(Place),
    Watching(Place, Box<Watching>),
}

/// The position of a list or a watch.
#[derive(Default)]
struct Place {
    version: String,
    /// Whether the watch from this position has ended with an error event.
    failed: bool,
}

impl Place {
    fn new(version: String) -> Self {
        Self { version, failed: false }
    }

    /// Returns the position after a failure. It is a new list immediately if `lost`, or after the second failure in a
    /// row.
    fn after_failure(self, lost: bool) -> State {
        if lost || self.failed { State::Start } else { State::At(Self { failed: true, ..self }) }
    }
}

impl Target {
    /// Returns the path of the collection.
    pub fn url(&self) -> String {
        self.kind.path(self.namespace.as_deref())
    }

    /// Replaces a refusal by the absence of the kind, if the API server does not have it. The API server checks the permission
    /// first, so a refusal does not show whether the kind exists. Every authenticated client may list the kinds.
    pub async fn absence(&self, error: kube::Error) -> kube::Error {
        const FORBIDDEN: u16 = 403;
        const ABSENT: u16 = 404;
        let KindInfo { group, version, plural, .. } = self.kind.info();
        let is_refused = matches!(&error, kube::Error::Api(status) if status.code == FORBIDDEN);
        if !is_refused || group.is_empty() {
            return error;
        }
        let known = self.client.list_api_group_resources(&format!("{group}/{version}")).await;
        let is_absent = match known {
            Ok(known) => !known.resources.iter().any(|resource| resource.name == *plural),
            Err(kube::Error::Api(status)) => status.code == ABSENT,
            Err(_) => false,
        };
        if !is_absent {
            return error;
        }
        kube::Error::Api(Status::failure("the kind is not installed", "NotFound").with_code(ABSENT).boxed())
    }
}

impl Requests {
    async fn step(&self, mut state: State) -> (watcher::Result<Arrival>, State) {
        use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
        loop {
            state = match state {
                State::Start => return (Ok(Arrival::ListStarted), State::List(None)),
                State::List(rest) => match self.list(rest).await {
                    Ok(listing) => State::Listing(Box::new(listing)),
                    Err(error) => return (Err(InitialListFailed(self.target.absence(error).await)), State::Start),
                },
                State::Listing(mut listing) => match listing.next(&self.form).await {
                    Ok(Listed::Item(ReceivedObject { key, .. })) if key.name.is_empty() => {
                        tracing::error!(url = self.url, "omitted an object of a list without a readable name");
                        State::Listing(listing)
                    }
                    Ok(Listed::Item(ReceivedObject { key, object, .. })) => {
                        return (Ok(Arrival::ListItem(key, object)), State::Listing(listing));
                    }
                    Ok(Listed::End(meta)) if !meta.rest.is_empty() => State::List(Some(meta.rest)),
                    Ok(Listed::End(meta)) if meta.version.is_empty() => return (Err(NoResourceVersion), State::Start),
                    Ok(Listed::End(meta)) => return (Ok(Arrival::ListEnded), State::At(Place::new(meta.version))),
                    Err(error) => return (Err(InitialListFailed(self.target.absence(error).await)), State::Start),
                },
                State::At(place) => match self.follow(&place.version).await {
                    Ok(watching) => State::Watching(place, Box::new(watching)),
                    Err(error) => {
                        let next = if is_refused(&error) { State::Start } else { State::At(place) };
                        return (Err(WatchStartFailed(error)), next);
                    }
                },
                State::Watching(place, mut watching) => match watching.next(&self.form).await {
                    Ok(Watched::Item(item, _)) if item.version.is_empty() => {
                        return (Err(NoResourceVersion), State::Start);
                    }
                    Ok(Watched::Item(item, _)) if item.key.name.is_empty() => {
                        return (Err(WatchFailed(malformed(Malformed::Unnamed))), State::Start);
                    }
                    Ok(Watched::Item(ReceivedObject { key, version, object }, deleted)) => {
                        let arrival = if deleted { Arrival::Deleted(key) } else { Arrival::Applied(key, object) };
                        return (Ok(arrival), State::Watching(Place::new(version), watching));
                    }
                    Ok(Watched::Version(version)) => {
                        let place = if version.is_empty() { place } else { Place::new(version) };
                        return (Ok(Arrival::Alive), State::Watching(place, watching));
                    }
                    // Code 0 is an error that cannot be decoded: perhaps an expired version.
                    Ok(Watched::Error(status)) => {
                        let lost = matches!(status.code, 0 | 410);
                        return (Err(WatchError(status)), place.after_failure(lost));
                    }
                    Ok(Watched::End { complete }) if watching.brought || watching.since.elapsed() > TOO_SHORT => {
                        match complete {
                            true => return (Ok(Arrival::Alive), State::At(place)),
                            false => State::At(place),
                        }
                    }
                    Ok(Watched::End { .. }) => {
                        let error = io::Error::new(io::ErrorKind::UnexpectedEof, "the watch ended at once");
                        return (Err(WatchFailed(kube::Error::ReadEvents(error))), State::At(place));
                    }
                    // The same bytes would arrive again.
                    Err(error) => return (Err(WatchFailed(error)), State::Start),
                },
            }
        }
    }

    fn selectors(&self) -> (Option<String>, Option<String>) {
        (self.target.fields.map(str::to_owned), self.target.labels.clone())
    }

    async fn list(&self, rest: Option<String>) -> kube::Result<Listing> {
        let (field_selector, label_selector) = self.selectors();
        let mut params = ListParams { field_selector, label_selector, ..ListParams::default() };
        params.continue_token = rest;
        let request = kube::core::Request::new(self.url.as_str()).list(&params).map_err(kube::Error::BuildRequest)?;
        Ok(Listing { reader: ListReader::default(), body: self.send(request, self.form.accept[0]).await? })
    }

    async fn follow(&self, version: &str) -> kube::Result<Watching> {
        let (field_selector, label_selector) = self.selectors();
        let params = WatchParams { field_selector, label_selector, ..WatchParams::default() };
        let params = params.timeout(WATCH_SECONDS);
        let request =
            kube::core::Request::new(self.url.as_str()).watch(&params, version).map_err(kube::Error::BuildRequest)?;
        let body = self.send(request, self.form.accept[1]).await?;
        Ok(Watching { body, since: Instant::now(), brought: false })
    }

    /// Sends a request. Returns the body of a response in protobuf.
    async fn send(&self, request: Request<Vec<u8>>, accept: &'static str) -> kube::Result<ResponseBody> {
        let mut request = request.map(Body::from);
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        let response = self.target.client.send(request).await?;
        let status = response.status();
        let (proto, body) = body(response);
        if !status.is_client_error() && !status.is_server_error() {
            return if proto { Ok(body) } else { Err(malformed(Malformed::NotProtobuf)) };
        }
        let bytes = body.rest().await?;
        let result = if proto {
            read::unwrapped(&bytes).map(|status| proto_status(&status))
        } else {
            serde_json::from_slice::<Status>(&bytes).ok()
        };
        let mut result = result
            .unwrap_or_else(|| Status::failure(String::from_utf8_lossy(&bytes).trim(), "Failed to parse error data"));
        if result.code == 0 {
            result.code = status.as_u16();
        }
        Err(kube::Error::Api(result.boxed()))
    }
}

fn body(response: Response<Body>) -> (bool, ResponseBody) {
    let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let proto = content_type.is_some_and(|value| value.starts_with("application/vnd.kubernetes.protobuf"));
    let chunks = response.into_body().into_data_stream().map_err(kube::Error::from).boxed();
    (proto, ResponseBody { chunks, buffer: BytesMut::new(), ended: false })
}

pub fn malformed(fault: Malformed) -> kube::Error {
    kube::Error::ReadEvents(io::Error::new(io::ErrorKind::InvalidData, fault))
}

/// Returns whether the API server permanently refuses to watch from this version.
pub fn is_refused(error: &kube::Error) -> bool {
    const UNAUTHORIZED: u16 = 401;
    const FORBIDDEN: u16 = 403;
    const TOO_MANY_REQUESTS: u16 = 429;
    let kube::Error::Api(status) = error else { return false };
    (400..500).contains(&status.code) && ![UNAUTHORIZED, FORBIDDEN, TOO_MANY_REQUESTS].contains(&status.code)
}

/// Parses a `Status` in protobuf. Of a malformed status, it returns the part before the fault.
fn proto_status(mut bytes: &[u8]) -> Status {
    #[derive(Clone, PartialEq, Message)]
    struct ProtoStatus {
        #[prost(bytes = "bytes", tag = "3")]
        message: Bytes,
        #[prost(bytes = "bytes", tag = "4")]
        reason: Bytes,
        #[prost(int32, tag = "6")]
        code: i32,
    }
    let mut result = ProtoStatus::default();
    let _ = result.merge(&mut bytes);
    let code = u16::try_from(result.code).unwrap_or_default();
    let status = Status::failure(&lossy(&result.message), &lossy(&result.reason)).with_code(code);
    Status { status: Some(StatusSummary::Failure), ..status }
}

/// A body that arrives in chunks.
struct ResponseBody {
    chunks: BoxStream<'static, kube::Result<Bytes>>,
    buffer: BytesMut,
    ended: bool,
}

impl ResponseBody {
    /// Waits for more bytes, or the end. Fails after [`IDLE`] without bytes: the connection can be lost.
    async fn more(&mut self) -> kube::Result<()> {
        let silent =
            |_| kube::Error::ReadEvents(io::Error::new(io::ErrorKind::TimedOut, "no more bytes of the response"));
        match tokio::time::timeout(IDLE, self.chunks.next()).await.map_err(silent)? {
            Some(chunk) => self.buffer.extend_from_slice(&chunk?),
            None => self.ended = true,
        }
        Ok(())
    }

    /// Returns the rest of the body.
    async fn rest(mut self) -> kube::Result<Bytes> {
        while !self.ended {
            self.more().await?;
        }
        Ok(self.buffer.freeze())
    }
}

/// The response to a list request.
struct Listing {
    reader: ListReader,
    body: ResponseBody,
}

enum Listed {
    Item(ReceivedObject),
    End(read::ListMeta),
}

impl Listing {
    async fn next(&mut self, form: &WireFormat) -> kube::Result<Listed> {
        loop {
            match self.reader.next(&mut self.body.buffer, self.body.ended).map_err(malformed)? {
                Next::Item(bytes) => return Ok(Listed::Item((form.decode)(bytes))),
                Next::TooLarge(bytes) => return Ok(Listed::Item((form.too_large)(bytes))),
                Next::More => self.body.more().await?,
                Next::End(meta) => return Ok(Listed::End(meta)),
            }
        }
    }
}

/// The response to a watch request.
struct Watching {
    body: ResponseBody,
    since: Instant,
    brought: bool,
}

enum Watched {
    /// An item that was applied, or deleted.
    Item(ReceivedObject, bool),
    /// All events up to this version have been sent. The version is empty if it cannot be read.
    Version(String),
    Error(Box<Status>),
    /// The API server has ended the watch, or the connection is lost. The next watch reports the reason.
    End {
        complete: bool,
    },
}

impl Watching {
    /// Returns the next event, or the end. The error states that the watch cannot be followed because of its content.
    async fn next(&mut self, form: &WireFormat) -> kube::Result<Watched> {
        loop {
            if let Some(event) = self.event(form)? {
                self.brought = true;
                return Ok(event);
            }
            if self.body.ended {
                return Ok(Watched::End { complete: true });
            }
            if let Err(error) = self.body.more().await {
                tracing::debug!(%error, "a watch was cut off");
                return Ok(Watched::End { complete: false });
            }
        }
    }

    fn event(&mut self, form: &WireFormat) -> kube::Result<Option<Watched>> {
        let Some(event) = read::event(&mut self.body.buffer).map_err(malformed)? else { return Ok(None) };
        let object = event.object();
        Ok(Some(match &*event.kind {
            b"ADDED" | b"MODIFIED" => Watched::Item((form.decode)(object), false),
            b"DELETED" => Watched::Item((form.decode)(object), true),
            b"ERROR" => Watched::Error(proto_status(&object).boxed()),
            b"" => return Err(malformed(Malformed::Unnamed)),
            kind => version_alone(&lossy(kind), proto::identity(&object).resource_version),
        }))
    }
}

/// Handles a bookmark, or an event of an unknown type: only its version is used.
fn version_alone(kind: &str, version: Option<String>) -> Watched {
    if kind != "BOOKMARK" {
        let kind: String = kind.chars().take(50).collect();
        tracing::warn!("skipped a watch event of the unknown type {kind:?}");
    }
    Watched::Version(version.unwrap_or_default())
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
