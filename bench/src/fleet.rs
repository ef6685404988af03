//! N clients, what they have got together, and waiting for it. All on one thread, so that nothing is locked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::AbortHandle;

use crate::news::News;
use crate::stream::{self, Order, Plan, Tally};

/// What all clients of a fleet share.
#[derive(Debug)]
pub struct Shared {
    /// Time zero of markers.
    pub epoch: Instant,
    /// Streams that are connected and have sent their first request.
    pub opened: Cell<usize>,
    /// How many resources each stream is to get.
    pub goal: Cell<u64>,
    /// Streams that have got them.
    pub complete: Cell<usize>,
    /// When the last of them had.
    pub completed_at: Cell<Instant>,
    /// Responses.
    pub messages: Cell<u64>,
    /// Names told to be gone.
    pub removed: Cell<u64>,
    /// Bytes of data frames.
    pub bytes: Cell<u64>,
    /// Bytes of resources.
    pub resource_bytes: Cell<u64>,
    /// Whether markers are read.
    pub sighting: Cell<bool>,
    /// Whether every response is rejected.
    pub rejecting: Cell<bool>,
    awaited: Cell<u64>,
    arrivals: Cell<usize>,
    /// Nanoseconds from a marker to its arrival, one for each client.
    latencies: RefCell<Vec<u64>>,
    news: News,
}

impl Shared {
    fn new(goal: u64) -> Self {
        let now = Instant::now();
        Self {
            epoch: now,
            opened: Cell::new(0),
            goal: Cell::new(goal),
            complete: Cell::new(0),
            completed_at: Cell::new(now),
            messages: Cell::new(0),
            removed: Cell::new(0),
            bytes: Cell::new(0),
            resource_bytes: Cell::new(0),
            sighting: Cell::new(false),
            rejecting: Cell::new(false),
            awaited: Cell::new(0),
            arrivals: Cell::new(0),
            latencies: RefCell::new(Vec::new()),
            news: News::default(),
        }
    }

    /// A marker for now.
    pub fn now(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Something happened.
    pub fn stirred(&self) {
        self.news.stirred();
    }

    /// A client has got a newer marker.
    pub fn arrived(&self, marker: u64) {
        self.latencies.borrow_mut().push(self.now().saturating_sub(marker));
        if marker == self.awaited.get() {
            self.arrivals.set(self.arrivals.get() + 1);
        }
    }
}

/// The clients.
#[derive(Debug)]
pub struct Fleet {
    /// What they share.
    pub shared: Rc<Shared>,
    clients: Vec<Client>,
}

#[derive(Debug)]
struct Client {
    orders: mpsc::UnboundedSender<Order>,
    tally: Rc<RefCell<Tally>>,
    task: AbortHandle,
}

impl Drop for Client {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Fleet {
    /// Opens a stream for each plan; each is to get `goal` resources.
    pub fn open(plans: impl Iterator<Item = Plan>, goal: u64) -> Self {
        let shared = Rc::new(Shared::new(goal));
        let clients = plans.map(|plan| {
            let (orders, received) = mpsc::unbounded_channel();
            let tally = Rc::new(RefCell::new(Tally::default()));
            let (own, counted) = (shared.clone(), tally.clone());
            let task = tokio::task::spawn_local(async move {
                if let Err(error) = stream::run(plan, own.clone(), counted, received).await {
                    own.news.failed(&error);
                }
            });
            Client { orders, tally, task: task.abort_handle() }
        });
        Self { clients: clients.collect(), shared }
    }

    /// How many clients there are.
    pub fn len(&self) -> usize {
        self.clients.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.clients.is_empty()
    }

    /// Tells one client to do something.
    pub fn order(&self, client: usize, order: Order) {
        if let Some(client) = self.clients.get(client) {
            let _ = client.orders.send(order);
        }
    }

    /// What each client has got.
    pub fn tallies(&self) -> impl Iterator<Item = std::cell::Ref<'_, Tally>> {
        self.clients.iter().map(|client| client.tally.borrow())
    }

    /// Waits until `holds`, told of `what` it waits for.
    ///
    /// # Errors
    /// It takes longer than `limit`, or a stream breaks.
    pub async fn until(&self, limit: Duration, what: &str, holds: impl Fn(&Shared) -> bool) -> anyhow::Result<()> {
        self.shared.news.until(limit, what, || holds(&self.shared)).await
    }

    /// Waits until every client has its goal; gives the time from the start.
    ///
    /// # Errors
    /// As [`Fleet::until`].
    pub async fn complete(&self, limit: Duration) -> anyhow::Result<Duration> {
        let count = self.len();
        self.until(limit, "end of the initial sync", |shared| shared.complete.get() >= count).await?;
        Ok(self.shared.completed_at.get() - self.shared.epoch)
    }

    /// Sets the marker to wait for.
    pub fn expect(&self, marker: u64) {
        self.shared.sighting.set(true);
        self.shared.awaited.set(marker);
        self.shared.arrivals.set(0);
    }

    /// Waits until `count` clients have the awaited marker.
    ///
    /// # Errors
    /// As [`Fleet::until`].
    pub async fn arrival(&self, count: usize, limit: Duration) -> anyhow::Result<()> {
        self.until(limit, "arrival of a change", |shared| shared.arrivals.get() >= count).await
    }

    /// Takes the latencies since the last time, in nanoseconds.
    pub fn take_latencies(&self) -> Vec<u64> {
        std::mem::take(&mut self.shared.latencies.borrow_mut())
    }

    /// Waits until nothing has come for `pause`, but no longer than `limit`; whether it did become silent.
    pub async fn silence(&self, pause: Duration, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        while Instant::now() < deadline {
            let since = self.shared.news.stirred_at().elapsed();
            if since >= pause {
                return true;
            }
            tokio::time::sleep((pause - since).min(Duration::from_millis(20))).await;
        }
        false
    }
}
