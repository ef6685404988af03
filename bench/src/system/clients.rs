//! N clients on one thread, without locks, and their progress.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::task::AbortHandle;

use super::bits::Bits;
use super::client::{self, Plan};
use super::sight::Type;
use crate::http2::Tls;
use crate::news::News;
use crate::wire::{self, Variant};

/// The number of clients in their first sync at a time.
const SYNCING: usize = 20;

/// A change that a client can observe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sight {
    /// A host that was absent at the start.
    Host(usize),
    /// A change of endpoints, or of a path.
    Change(usize),
}

/// Names of load assignments, interned for all clients.
#[derive(Debug, Default)]
pub struct Names {
    numbers: HashMap<Vec<u8>, usize>,
    names: Vec<String>,
    /// The load assignment of each cluster.
    clusters: HashMap<Vec<u8>, usize>,
    /// The last encoded list of names, which most clients share.
    encoded: Option<(Bits, Bytes)>,
}

impl Names {
    /// Returns the number of a load assignment.
    pub fn number(&mut self, name: &[u8]) -> usize {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        self.numbers.insert(name.to_vec(), self.names.len());
        self.names.push(String::from_utf8_lossy(name).into_owned());
        self.names.len() - 1
    }

    /// Returns the number of a cluster's load assignment.
    pub fn cluster(&mut self, cluster: &[u8], endpoints: &[u8]) -> usize {
        let number = self.number(endpoints);
        if self.clusters.get(cluster) != Some(&number) {
            self.clusters.insert(cluster.to_vec(), number);
        }
        number
    }

    /// Returns the load assignment of a known cluster.
    pub fn endpoints_of(&self, cluster: &[u8]) -> Option<usize> {
        self.clusters.get(cluster).copied()
    }

    /// Returns the name of a number.
    pub fn name(&self, number: usize) -> &str {
        self.names.get(number).map_or("", String::as_str)
    }

    /// Encodes names as in a request.
    pub fn encoded(&mut self, numbers: &Bits) -> Bytes {
        if let Some((last, bytes)) = &self.encoded
            && last == numbers
        {
            return bytes.clone();
        }
        let bytes = wire::names(numbers.iter().map(|number| self.name(number)));
        self.encoded = Some((numbers.clone(), bytes.clone()));
        bytes
    }
}

/// The state that all clients share.
#[derive(Debug)]
pub struct Shared {
    /// Names of load assignments.
    pub names: RefCell<Names>,
    /// The numbers of hosts and load assignments of a complete client.
    pub hosts: Cell<usize>,
    /// The number of clients in their first sync at a time. One thread that reads hundreds of streams at once would let
    /// servers close them as dead.
    pub syncing: Arc<Semaphore>,
    /// Bytes of data frames.
    pub bytes: Cell<u64>,
    /// Responses.
    pub messages: Cell<u64>,
    resources: RefCell<BTreeMap<Type, (u64, u64)>>,
    complete: Cell<usize>,
    completed_at: Cell<Instant>,
    sightings: RefCell<BTreeMap<Sight, (usize, Instant)>>,
    news: News,
}

impl Shared {
    fn new(hosts: usize) -> Self {
        let now = Instant::now();
        Self {
            names: RefCell::default(),
            hosts: Cell::new(hosts),
            syncing: Arc::new(Semaphore::new(SYNCING)),
            bytes: Cell::new(0),
            messages: Cell::new(0),
            resources: RefCell::default(),
            complete: Cell::new(0),
            completed_at: Cell::new(now),
            sightings: RefCell::default(),
            news: News::default(),
        }
    }

    /// Wakes the waiting task.
    pub fn stirred(&self) {
        self.news.stirred();
    }

    /// Records a resource of a client.
    pub fn counted(&self, kind: Type, bytes: usize) {
        let mut resources = self.resources.borrow_mut();
        let (count, sum) = resources.entry(kind).or_default();
        *count += 1;
        *sum += bytes as u64;
    }

    /// Records a change at a client.
    pub fn saw(&self, sight: Sight) {
        let now = Instant::now();
        let mut sightings = self.sightings.borrow_mut();
        let (count, last) = sightings.entry(sight).or_insert((0, now));
        *count += 1;
        *last = now;
    }

    /// Records a complete client.
    pub fn completed(&self) {
        self.complete.set(self.complete.get() + 1);
        self.completed_at.set(Instant::now());
    }

    /// Records a failed client.
    pub fn failed(&self, error: &anyhow::Error) {
        self.news.failed(error);
    }
}

/// The xDS server of a controller.
#[derive(Debug, Clone)]
pub struct Server {
    /// The address.
    pub address: SocketAddr,
    /// The TLS configuration.
    pub tls: Option<Tls>,
    /// The `node.cluster` of the clients.
    pub cluster: String,
}

/// The clients. They stop when dropped.
#[derive(Debug)]
pub struct Clients {
    /// The shared state.
    pub shared: Rc<Shared>,
    tasks: Vec<AbortHandle>,
}

impl Drop for Clients {
    fn drop(&mut self) {
        self.tasks.iter().for_each(AbortHandle::abort);
    }
}

impl Clients {
    /// Starts `count` clients of a controller, which are complete with this number of hosts. They retry connections
    /// until `patience` is over.
    pub fn open(server: &Server, variant: Variant, count: usize, hosts: usize, patience: Duration) -> Self {
        let shared = Rc::new(Shared::new(hosts));
        let until = Instant::now() + patience;
        let tasks = (0..count).map(|number| {
            let Server { address, tls, cluster } = server.clone();
            let plan = Plan { address, variant, tls, node: format!("bench-{number}"), cluster, until };
            tokio::task::spawn_local(client::guarded(plan, shared.clone())).abort_handle()
        });
        Self { tasks: tasks.collect(), shared }
    }

    /// Returns the number of clients.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns whether there are no clients.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until `holds` returns true. `what` describes the condition.
    ///
    /// # Errors
    /// The wait exceeds `limit`, or a stream breaks.
    pub async fn until(&self, limit: Duration, what: &str, holds: impl Fn(&Shared) -> bool) -> anyhow::Result<()> {
        self.shared.news.until(limit, what, || holds(&self.shared)).await
    }

    /// Waits until every client is complete, and returns the time when the last one was.
    ///
    /// # Errors
    /// As [`Clients::until`].
    pub async fn complete(&self, limit: Duration) -> anyhow::Result<Instant> {
        let count = self.len();
        let done = |shared: &Shared| shared.complete.get() >= count;
        if let Err(error) = self.until(limit, "end of the first sync", done).await {
            let counts: Vec<String> =
                self.shared.resources.borrow().iter().map(|(kind, (count, _))| format!("{kind:?} {count}")).collect();
            bail!(
                "{error:#}: {} of {count} are complete, resources: {}",
                self.shared.complete.get(),
                counts.join(", ")
            );
        }
        Ok(self.shared.completed_at.get())
    }

    /// Waits until all clients have a change, and returns the time when the last one had it.
    ///
    /// # Errors
    /// As [`Clients::until`].
    pub async fn saw(&self, sight: Sight, limit: Duration) -> anyhow::Result<Instant> {
        let count = self.len();
        let has = |shared: &Shared| shared.sightings.borrow().get(&sight).is_some_and(|(seen, _)| *seen >= count);
        self.until(limit, "arrival of a change", has).await?;
        Ok(self.sighted(sight).unwrap_or_else(Instant::now))
    }

    /// Returns the time when the last client with the change received it.
    pub fn sighted(&self, sight: Sight) -> Option<Instant> {
        self.shared.sightings.borrow().get(&sight).map(|(_, last)| *last)
    }

    /// Waits until nothing arrives for `pause`, at most `limit`. Returns whether the clients became silent.
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
