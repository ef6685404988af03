//! A stream and its transport: requests become input of the stream's state, and its outputs are written.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use futures::future::BoxFuture;
use prost::Message;
use tonic::Status;

use super::inbound::{MOST_KEPT, Requests};
use super::observer::StreamInfo;
use super::serve::Peer;
use super::service::{Client, Service};
use super::v2;
use super::waits::{Alarm, Rarely};
use crate::protocol::encode::{self, EncodedResponse};
use crate::protocol::{Node, Output, Request, Variant};
use crate::protocol::{Refusal, Stream};
use crate::snapshot::{ApiVersion, ResourceType, Watch};

/// A streaming method.
#[derive(Clone)]
pub(super) struct Method {
    service: Arc<Service>,
    variant: Variant,
    implied: Option<ResourceType>,
    /// The API version of the implied type URL.
    api: ApiVersion,
}

impl Method {
    /// Returns a method. `implied` is the only type of a stream that is not aggregated.
    pub fn new(service: Arc<Service>, variant: Variant, implied: Option<ResourceType>, api: ApiVersion) -> Self {
        Self { service, variant, implied, api }
    }

    /// Answers a request for a stream.
    pub fn handle(self, request: http::Request<axum::body::Body>) -> http::Response<axum::body::Body> {
        match self.variant {
            Variant::Sotw => self.open::<discovery_v3::DiscoveryRequest>(request),
            Variant::Delta => self.open::<discovery_v3::DeltaDiscoveryRequest>(request),
        }
    }

    /// Waits for the end of the server or of the connection of `peer`. Returns the reason.
    fn ending(&self, peer: &Peer) -> BoxFuture<'static, &'static str> {
        let (mut stopping, mut peer) = (self.service.stopping.clone(), peer.clone());
        Rarely::wait(async move {
            tokio::select! {
                _ = stopping.wait_for(|stopping| *stopping) => "the server is shutting down",
                () = peer.going_away() => "its connection is to be closed",
            }
        })
    }

    /// Opens a stream whose requests have the wire type `R`.
    fn open<R>(self, request: http::Request<axum::body::Body>) -> http::Response<axum::body::Body>
    where
        R: Message + Default + Into<Request> + 'static,
    {
        let (head, body) = request.into_parts();
        let peer = head.extensions.get::<Peer>();
        let address = peer.map(|peer| peer.address);
        let peer = match Peer::discovering(peer.cloned(), self.implied) {
            Ok(peer) => peer,
            Err(status) => {
                address.into_iter().for_each(|address| self.service.observer.stream_refused(address));
                return status.into_http();
            }
        };
        let info = StreamInfo { id: self.service.next_stream(), peer: peer.address, variant: self.variant };
        self.service.observer.opened(&info);
        let session = Session {
            ending: self.ending(&peer),
            peer,
            alarm: Alarm::new(),
            watch: None,
            node: Arc::default(),
            requests: Requests::<R>::new(body),
            method: self,
            info,
            stream: None,
            outputs: VecDeque::new(),
            reason: "the client went away",
        };
        encode::grpc(Box::new(session).run())
    }
}

/// A stream and its transport. It runs only when the transport accepts the next message, so a slow reader costs nothing:
/// changes remain a set of dirty names.
struct Session<R> {
    method: Method,
    info: StreamInfo,
    peer: Peer,
    /// Resolves to the reason when the session must end. One future for the whole session, because a new one for each step
    /// would cost more than the step.
    ending: BoxFuture<'static, &'static str>,
    /// The timer for the stream's deadline.
    alarm: Alarm,
    requests: Requests<R>,
    /// The watch of the store, which the node of the first request selects.
    watch: Option<Watch>,
    node: Arc<Node>,
    stream: Option<Arc<Mutex<Stream>>>,
    outputs: VecDeque<Output>,
    reason: &'static str,
}

/// An event of a session.
#[allow(clippy::large_enum_variant, reason = "there is one at a time, and most are requests")]
enum Event {
    Request(Result<Option<Request>, Status>),
    Snapshot,
    Due,
    Ending(&'static str),
}

/// The next step of a session.
enum Step {
    Outputs(Vec<Output>),
    End(Result<(), Status>),
}

impl<R: Message + Default + Into<Request> + 'static> Session<R> {
    /// Runs the session as a stream of responses. It is boxed because it moves with each message.
    fn run(self: Box<Self>) -> impl futures::Stream<Item = Result<EncodedResponse, Status>> + Send {
        futures::stream::unfold(Some(self), |session| async move {
            let mut session = session?;
            loop {
                while let Some(output) = session.outputs.pop_front() {
                    if let Some(encoded) = session.emit(&output) {
                        return Some((Ok(encoded), Some(session)));
                    }
                }
                match session.step().await {
                    Step::Outputs(outputs) => session.outputs.extend(outputs),
                    Step::End(Ok(())) => return None,
                    Step::End(Err(status)) => return Some((Err(status), None)),
                }
            }
        })
    }

    /// Notifies the observer of an output. Returns the encoded response, if it is one.
    fn emit(&self, output: &Output) -> Option<EncodedResponse> {
        let (service, node) = (&self.method.service, &self.node);
        match output {
            Output::Send(response) => {
                if self.names_no_resources() && ResourceType::of_url(&response.type_url) == Some(ResourceType::CLUSTER)
                {
                    service.past.remember(response);
                }
                let encoded = encode::response(response, self.method.variant, &service.identifier);
                service.observer.sent(&self.info, node, response, encoded.len());
                Some(encoded)
            }
            Output::Notice(notice) => {
                service.observer.noticed(&self.info, node, notice);
                service.registry.progressed();
                None
            }
        }
    }

    /// Waits for the next event and handles it.
    async fn step(&mut self) -> Step {
        let (Some(stream), Some(watch)) = (self.stream.clone(), &mut self.watch) else {
            return self.begin().await;
        };
        let deadline = lock(&stream).deadline();
        let event = tokio::select! {
            // The most frequent event is first, because polling another one reads memory that is no longer in a CPU cache.
            biased;
            request = self.requests.message() => Event::Request(request),
            there = watch.changed() => if there { Event::Snapshot } else { Event::Ending("nothing is served to it any more") },
            () = self.alarm.until(deadline) => Event::Due,
            reason = &mut self.ending => Event::Ending(reason),
        };
        match event {
            Event::Request(request) => match self.decoded(request) {
                Ok(request) => {
                    self.method.service.observer.received(&self.info, &self.node, &request);
                    self.request(&stream, request)
                }
                Err(end) => end,
            },
            Event::Snapshot => Step::Outputs(catch_up(&mut lock(&stream), watch)),
            Event::Due => {
                let mut stream = lock(&stream);
                let mut outputs = stream.on_time(Instant::now());
                // The end of a wait can begin a subscription.
                outputs.extend(follow(&mut stream, watch));
                Step::Outputs(outputs)
            }
            Event::Ending(reason) => self.ended(reason),
        }
    }

    /// Waits for the first request, which identifies the client, and for the first snapshot. No request is answered before,
    /// because an empty response would delete everything.
    async fn begin(&mut self) -> Step {
        let request = tokio::select! {
            reason = &mut self.ending => Err(reason),
            request = self.requests.message() => Ok(request),
        };
        let request = match request.map(|request| self.decoded(request)) {
            Ok(Ok(request)) => request,
            Ok(Err(end)) => return end,
            Err(reason) => return self.ended(reason),
        };
        let Method { variant, implied, service, .. } = &self.method;
        let Some(node) = &request.node else {
            return self.refused(Status::invalid_argument(Refusal::NoNode.to_string()));
        };
        service.observer.introduced(&self.info, node);
        service.observer.received(&self.info, node, &request);
        let (aggregated, api, roles) = (implied.is_none(), self.method.api, self.peer.roles);
        let names = self.peer.names.as_deref();
        let client = Client { node, variant: *variant, aggregated, api, roles, names };
        let store = match service.stores.select(client) {
            Ok(store) => store,
            Err(why) => return self.refused(Status::not_found(why)),
        };
        let Some(snapshot) = service.newest(&store).await else { return self.stopped() };
        self.node = Arc::new(node.clone());
        self.watch = Some(Watch::new(&store));
        let stream = Stream::new(*variant, implied.is_none(), service.timing, snapshot);
        let stream = Arc::new(Mutex::new(stream));
        service.registry.add(self.info.clone(), &stream, &store);
        self.stream = Some(stream.clone());
        self.request(&stream, request)
    }

    fn stopped(&mut self) -> Step {
        self.ended("the server is shutting down")
    }

    fn ended(&mut self, reason: &'static str) -> Step {
        self.reason = reason;
        Step::End(Ok(()))
    }

    fn refused(&mut self, status: Status) -> Step {
        self.reason = "a request was refused";
        self.method.service.observer.stream_refused(self.info.peer);
        Step::End(Err(status))
    }

    /// Returns the request, or the step that ends the stream.
    fn decoded(&mut self, request: Result<Option<Request>, Status>) -> Result<Request, Step> {
        match request {
            Ok(Some(request)) => {
                let request = v2::complete(request, self.method.implied, self.method.api);
                let kind = self.method.implied.or_else(|| ResourceType::of_url(&request.type_url));
                self.peer.may_have(kind).map_err(|status| self.refused(status))?;
                Ok(request)
            }
            Ok(None) => {
                self.reason = "the client closed it";
                Err(Step::End(Ok(())))
            }
            Err(status) => {
                self.reason = "a request could not be read";
                Err(Step::End(Err(status)))
            }
        }
    }

    /// Returns whether the client will report only a version when it returns.
    fn names_no_resources(&self) -> bool {
        self.method.variant == Variant::Sotw && self.method.implied.is_none()
    }

    fn request(&mut self, stream: &Arc<Mutex<Stream>>, mut request: Request) -> Step {
        if self.names_no_resources() && request.nonce.is_empty() && !request.version.is_empty() {
            request.held = self.method.service.past.resources(&request.version);
        }
        let Some(watch) = &mut self.watch else { return self.stopped() };
        let names = !request.subscribe.is_empty() || !request.locators.is_empty();
        let mut stream = lock(stream);
        let mut outputs = catch_up(&mut stream, watch);
        let result = stream.on_request(request, self.method.implied, Instant::now());
        let result = result.map(|answers| {
            outputs.extend(answers);
            outputs.extend(follow(&mut stream, watch));
            outputs
        });
        // Only requests can increase this number.
        let kept = if names { stream.stored_names() } else { 0 };
        match result {
            Ok(_) if kept > MOST_KEPT => {
                let what = format!(
                    "{kept} names are requested or not acknowledged, more than the limit of {MOST_KEPT} for a stream"
                );
                self.refused(Status::resource_exhausted(what))
            }
            Ok(outputs) => Step::Outputs(outputs),
            Err(refusal) => self.refused(Status::invalid_argument(refusal.to_string())),
        }
    }
}

impl<R> Drop for Session<R> {
    fn drop(&mut self) {
        let service = &self.method.service;
        service.registry.remove(self.info.id);
        let node = self.stream.as_ref().and_then(|stream| lock(stream).node().cloned());
        service.observer.closed(&self.info, node.as_ref(), self.reason);
    }
}

/// Watches for what `stream` has begun to subscribe to. Returns the outputs of publications from before the start of the watch.
fn follow(stream: &mut Stream, watch: &mut Watch) -> Vec<Output> {
    let interests = stream.interests();
    if interests.is_empty() {
        return Vec::new();
    }
    interests.into_iter().for_each(|(kind, interest)| watch.set_interest(kind, interest));
    catch_up(stream, watch)
}

/// Advances `stream` to the newest snapshot, if there is a newer one.
fn catch_up(stream: &mut Stream, watch: &mut Watch) -> Vec<Output> {
    let newest = watch.news().filter(|newest| newest.serial() != stream.newest().serial());
    newest.map(|newest| stream.on_snapshot(newest, Instant::now())).unwrap_or_default()
}

fn lock(stream: &Mutex<Stream>) -> std::sync::MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}
