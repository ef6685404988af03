//! A plan: a function from the state of the controller to desired writes. The [`Writer`](super::writer::Writer) performs them.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::future::BoxFuture;
use lockgate_route::objects::Kind;
use lockgate_xds::provenance::ObjectRef;
use tokio::time::Instant;

use super::failure::Failure;
use super::queue::{DueWrite, Queue, WriteOutcome};
use super::sender::Sender;

/// The limits of the writes of a plan.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Writes per second, and the maximum burst.
    pub rate: (u32, u32),
    /// Writes per second of one namespace, and the maximum burst.
    pub rate_of_namespace: Option<(u32, u32)>,
    /// The maximum number of concurrent writes. It limits the load on a slow API server. An overloaded API server answers 429.
    pub parallel: usize,
    /// The minimum time between two updates of the plan.
    pub debounce: Duration,
    /// The same as a multiple of the time that an update takes, for plans whose updates cost more with more objects.
    pub rest: u32,
}

/// The limits of the status of one kind. After a first installation, 10,000 Ingresses have their addresses within 50 s.
pub(super) const STATUS: Limits =
    Limits { rate: (200, 100), rate_of_namespace: None, parallel: 8, debounce: Duration::from_millis(50), rest: 0 };
/// The limits of the objects of Gateways, and of the objects of fleets.
pub(super) const OBJECTS: Limits = Limits { rate: (100, 50), parallel: 4, rest: 9, ..STATUS };
/// The limits of claims. Each write changes up to thousands of claims in one object. It follows the newest state, so that a claim never
/// ends although its owner has a rule again.
pub(super) const CLAIMS: Limits = Limits { rate: (1, 1), parallel: 1, debounce: Duration::ZERO, ..STATUS };
/// The limits of Events. A namespace gets at most half of them.
pub(super) const EVENTS: Limits = Limits {
    rate: (10, 50),
    rate_of_namespace: Some((5, 25)),
    parallel: 1,
    debounce: Duration::from_millis(100),
    ..STATUS
};

/// The result of a write that the API server did not refuse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Performed {
    /// The object was written. The text is the verb of the log line.
    Written(&'static str),
    /// The object already had the desired content.
    Unchanged,
}

/// A future that performs a write.
pub(super) type Performing = BoxFuture<'static, Result<Performed, Failure>>;

/// The desired writes of one kind of object, as a function of the state of the controller.
///
/// A plan neither retries nor waits: the queue and the writer do so in the same way for all plans.
pub(super) trait Plan: Send {
    /// The content of a write.
    type Goal: Clone + Debug + PartialEq + Send + Sync + 'static;

    /// The name of the written content in log lines: `the status`.
    const NAME: &'static str;
    /// The limits of the writes.
    const LIMITS: Limits;
    /// The kinds whose pending writes are a metric.
    fn kinds(&self) -> &[Kind];

    /// Follows the state while another replica leads. Can be dropped at any time.
    fn follow(&mut self) -> impl Future<Output = Infallible> + Send {
        std::future::pending()
    }

    /// Begins a term of this replica with an empty queue.
    fn begin(&mut self, sender: &Sender) -> impl Future<Output = Result<(), Failure>> + Send;

    /// Waits for a change of an input. Can be dropped at any time.
    fn changed(&mut self) -> impl Future<Output = ()> + Send;

    /// Updates the desired writes. Returns the time of the next update without a change.
    fn update(&mut self, queue: &mut Queue<Self::Goal>, now: Instant) -> Option<Instant>;

    /// Publishes the state of the queue. Called after each step.
    fn publish(&mut self, _queue: &Queue<Self::Goal>) {}

    /// Returns a future that performs a write.
    fn perform(&mut self, sender: Sender, write: &DueWrite<Self::Goal>) -> Performing;

    /// Returns what a result means for the queue.
    fn outcome(&self, _write: &DueWrite<Self::Goal>, result: Result<Performed, &Failure>) -> WriteOutcome {
        match result {
            Ok(_) => WriteOutcome::Done,
            Err(failure) if failure.code() == Some(409) => WriteOutcome::Conflict,
            Err(_) => WriteOutcome::Failed,
        }
    }

    /// Processes the result of a write, after the queue. The plan is updated afterwards.
    fn finished(
        &mut self,
        queue: &mut Queue<Self::Goal>,
        write: &DueWrite<Self::Goal>,
        result: Result<Performed, &Failure>,
        now: Instant,
    );

    /// Returns the object that a log line about a write names.
    fn subject(write: &DueWrite<Self::Goal>) -> ObjectRef {
        let (kind, key) = (write.id.kind.as_str(), &write.id.key);
        ObjectRef { kind, namespace: key.namespace.clone(), name: key.name.clone(), generation: 0 }
    }

    /// Returns what to do about a failure, as the end of its message.
    fn advice(_failure: &Failure) -> &'static str {
        ""
    }
}
