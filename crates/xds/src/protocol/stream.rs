//! One stream, without I/O: requests and snapshots are its input, responses and notices its output.
//!
//! [`State`] is the state machine. It has one subscription for each type, regardless of the API version of the type URL,
//! because types of both versions depend on each other. A type that a client requests by a second URL gets a second state,
//! with its own gates. No known client does this.

mod state;

use std::sync::Arc;
use std::time::Instant;

use self::state::State;
use super::message::{Node, Output, Request, Variant};
use super::order::Timing;
use super::subscription::{Held, Subscription};
use crate::snapshot::{Interest, Key, ResourceType, Snapshot};

/// The maximum number of further states of a stream. A client may write any prefix before the type of a URL, so it could
/// create any number of states otherwise. A type by one more URL is handled like an unknown type.
const MOST_OTHERS: usize = 8;

/// The state of one stream.
#[derive(Debug)]
pub struct Stream {
    pub(super) state: State,
    /// The states of types that the client requests by a URL other than the URL in `state`. Empty for all known
    /// clients.
    others: Vec<State>,
}

/// A request that ends the stream.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The first request of a stream has no node.
    #[error("the first request of a stream has no node")]
    NoNode,
    /// A request of an aggregated stream has no type.
    #[error("type_url is missing")]
    NoType,
    /// A request has another type than its stream.
    #[error("type_url: this service has {served}, not {asked}")]
    OtherType {
        /// The type of the service.
        served: &'static str,
        /// The requested type.
        asked: String,
    },
}

/// Returns the type URL of a request with the URL `asked` to a service that serves only the type `implied`.
pub(super) fn type_url(asked: String, implied: Option<ResourceType>) -> Result<String, Refusal> {
    match (&*asked, implied) {
        ("", Some(kind)) => Ok(kind.url().to_owned()),
        ("", None) => Err(Refusal::NoType),
        (url, Some(kind)) if ResourceType::of_url(url) != Some(kind) => {
            Err(Refusal::OtherType { served: kind.url(), asked })
        }
        _ => Ok(asked),
    }
}

impl Stream {
    /// Returns a stream of `variant` that starts with `snapshot`.
    pub fn new(variant: Variant, aggregated: bool, timing: Timing, snapshot: Arc<Snapshot>) -> Self {
        Self { state: State::new(variant, aggregated, timing, snapshot), others: Vec::new() }
    }

    /// Returns the client's node, once the client has identified itself.
    pub fn node(&self) -> Option<&Node> {
        self.state.node.as_ref()
    }

    /// Handles a request. `implied` is the only type of a stream that is not aggregated.
    ///
    /// # Errors
    /// A [`Refusal`] ends the stream as `InvalidArgument`.
    pub fn on_request(
        &mut self,
        mut request: Request,
        implied: Option<ResourceType>,
        now: Instant,
    ) -> Result<Vec<Output>, Refusal> {
        request.canonicalize();
        if self.state.node.is_none() {
            self.state.node = Some(request.node.clone().ok_or(Refusal::NoNode)?);
        }
        request.type_url = type_url(request.type_url, implied)?;
        let Some(kind) = ResourceType::of_url(&request.type_url) else {
            return Ok(self.state.on_unknown_type(&request, now));
        };
        let fits = |state: &State| state.type_url(kind).is_none_or(|url| *url == request.type_url);
        if fits(&self.state) {
            return Ok(self.state.on_request(kind, request, now));
        }
        let at = self.others.iter().position(fits).unwrap_or(self.others.len());
        if at == MOST_OTHERS {
            return Ok(self.state.on_unknown_type(&request, now));
        }
        if at == self.others.len() {
            self.others.push(self.state.for_same_client());
        }
        let other = self.others.iter_mut().skip(at).take(1);
        Ok(act(&mut self.state.nonces, other, |state| state.on_request(kind, request.clone(), now)))
    }

    /// Handles a newer snapshot.
    pub fn on_snapshot(&mut self, newest: Arc<Snapshot>, now: Instant) -> Vec<Output> {
        let mut outputs = self.state.on_snapshot(newest.clone(), now);
        let others = self.others.iter_mut();
        outputs.extend(act(&mut self.state.nonces, others, |state| state.on_snapshot(newest.clone(), now)));
        outputs
    }

    /// Handles the passing of time: timeouts of gates, and removals that are due.
    pub fn on_time(&mut self, now: Instant) -> Vec<Output> {
        let mut outputs = self.state.on_time(now);
        outputs.extend(act(&mut self.state.nonces, self.others.iter_mut(), |state| state.on_time(now)));
        outputs
    }

    /// Returns the time of the next call of [`Stream::on_time`]. Every event can change it.
    pub fn deadline(&self) -> Option<Instant> {
        self.states().filter_map(State::deadline).min()
    }

    fn states(&self) -> impl Iterator<Item = &State> {
        std::iter::once(&self.state).chain(&self.others)
    }

    /// Returns the subscriptions of all states.
    fn subscriptions(&self) -> impl Iterator<Item = &Subscription> {
        self.states().flat_map(|state| state.types.values())
    }

    /// Returns the newest snapshot that the stream has seen.
    pub(crate) fn newest(&self) -> &Snapshot {
        self.state.newest()
    }

    /// Visits every name whose last sent version the client has not accepted, some names twice.
    pub(crate) fn each_rejected(&self, mut visit: impl FnMut(ResourceType, &Arc<str>)) {
        for subscription in self.subscriptions() {
            subscription.rejected_names().for_each(|name| visit(subscription.kind, name));
        }
    }

    /// Returns the generation up to which the client has answered all changes of its subscribed resources. `newest` is the
    /// newest snapshot of the store.
    pub(crate) fn level(&self, newest: &Snapshot) -> Option<u64> {
        let reached = self.subscriptions().map(|subscription| subscription.reached(self.newest()));
        // A client without subscriptions has no resources.
        let reached = reached.min()?;
        if !self.state.has_routes_of_its_listeners() || !self.state.has_asked_for_listeners(newest) {
            return None;
        }
        let is_level = reached >= self.newest().generation() && self.is_unaffected_by(newest);
        Some(if is_level { reached.max(newest.generation()) } else { reached })
    }

    /// Returns whether no publication since the stream's last wakeup affects this client.
    fn is_unaffected_by(&self, newest: &Snapshot) -> bool {
        let covers = |key: &Key| self.subscriptions().any(|types| types.kind == key.0 && types.covers(&key.1));
        newest.changes_since(self.newest().serial()).is_some_and(|mut changes| !changes.any(covers))
    }

    /// Returns the interests of the stream in the store, for the types whose interest has changed. Types with several URLs
    /// watch all names.
    pub(crate) fn interests(&mut self) -> Vec<(ResourceType, Interest)> {
        let mut interests = self.state.interests();
        let others = self.others.iter().flat_map(|state| state.types.keys());
        interests.extend(others.map(|kind| (*kind, Interest::All)));
        interests
    }

    /// Returns the number of names that the stream stores because the client requested or has not answered them.
    pub(crate) fn stored_names(&self) -> usize {
        self.states().map(State::stored_names).sum()
    }

    /// Visits every requested or sent resource, in order.
    pub(crate) fn each_resource(&self, visit: &mut dyn FnMut(Held<'_>)) {
        self.subscriptions().for_each(|subscription| subscription.each(self.newest(), visit));
    }

    /// Describes the requested, sent, accepted, and rejected resources of each type, for a debug page.
    pub fn describe(&self) -> serde_json::Value {
        let types = self.state.types.iter();
        let types = types.map(|(kind, subscription)| (kind.short_name().to_owned(), subscription.describe()));
        let others = self.others.iter().flat_map(|state| state.types.values());
        let others = others.map(|subscription| (subscription.type_url.to_string(), subscription.describe()));
        serde_json::Value::Object(types.chain(others).collect())
    }
}

/// Calls `event` with each of `states`, which share the sequence `nonces`. Returns their outputs.
fn act<'a>(
    nonces: &mut u64,
    states: impl Iterator<Item = &'a mut State>,
    event: impl Fn(&mut State) -> Vec<Output>,
) -> Vec<Output> {
    let mut outputs = Vec::new();
    for state in states {
        state.nonces = *nonces;
        outputs.extend(event(state));
        *nonces = state.nonces;
    }
    outputs
}
