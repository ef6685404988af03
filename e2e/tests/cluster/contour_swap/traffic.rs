//! Clients that request all hosts the whole time, and that move from one address to the other.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use e2e::Authority;
use e2e::client::{Connection, Unsent};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::probes::Probe;

/// The number of clients. Every second one uses a new connection for each request; the others keep a connection for each request of the site.
pub const CLIENTS: usize = 8;
/// The time between two requests of a client.
const INTERVAL: Duration = Duration::from_millis(30);

/// The running clients.
pub struct Traffic {
    shared: Arc<Shared>,
    clients: Vec<JoinHandle<()>>,
}

struct Shared {
    authority: Authority,
    /// The requests with the expected answers.
    requests: Vec<(Probe, String)>,
    /// The address of Contour, and that of Lockgate.
    addresses: Mutex<[IpAddr; 2]>,
    /// The number of clients that use the address of Lockgate.
    moved: AtomicUsize,
    is_over: AtomicBool,
    /// The requests with the expected answer, by address.
    answered: [AtomicU64; 2],
    connections: AtomicU64,
    failures: Mutex<BTreeMap<String, u64>>,
    start: Instant,
}

impl Traffic {
    /// Starts all clients at the address of Contour.
    pub fn start(contour: IpAddr, authority: Authority, requests: Vec<(Probe, String)>) -> Self {
        let shared = Arc::new(Shared {
            authority,
            requests,
            addresses: Mutex::new([contour; 2]),
            moved: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
            answered: [AtomicU64::new(0), AtomicU64::new(0)],
            connections: AtomicU64::new(0),
            failures: Mutex::default(),
            start: Instant::now(),
        });
        let clients = (0..CLIENTS).map(|number| tokio::spawn(client(shared.clone(), number))).collect();
        Self { shared, clients }
    }

    /// Moves clients one by one, until `count` of them use the address of Lockgate.
    pub async fn move_clients(&self, lockgate: IpAddr, count: usize) {
        self.shared.addresses.lock().await[1] = lockgate;
        loop {
            let moved = self.shared.moved.load(Ordering::Relaxed);
            let next = match moved.cmp(&count) {
                std::cmp::Ordering::Less => moved + 1,
                std::cmp::Ordering::Equal => break,
                std::cmp::Ordering::Greater => moved - 1,
            };
            self.shared.moved.store(next, Ordering::Relaxed);
            self.answers(200).await;
        }
        // All clients have closed their connections to the other address.
        self.answers((2 * CLIENTS * self.shared.requests.len()) as u64).await;
    }

    /// Waits until this many more requests have the expected answer.
    pub async fn answers(&self, count: u64) {
        let answered = || self.shared.answered.iter().map(|count| count.load(Ordering::Relaxed)).sum::<u64>();
        let goal = answered() + count;
        let enough = async || {
            assert!(self.shared.failures.lock().await.is_empty(), "{}", self.summary().await);
            answered() >= goal
        };
        e2e::wait_until("answers to the clients", enough).await;
    }

    /// Ends all clients. Returns the summary and the number of failed requests.
    pub async fn stop(mut self) -> (String, u64) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        for client in self.clients.drain(..) {
            client.await.expect("a client");
        }
        let failed = self.shared.failures.lock().await.values().sum();
        (self.summary().await, failed)
    }

    async fn summary(&self) -> String {
        let Shared { answered, connections, failures, start, .. } = &*self.shared;
        let count = |number: &AtomicU64| number.load(Ordering::Relaxed);
        let [contour, lockgate] = answered.each_ref().map(count);
        let failures = failures.lock().await;
        let lines: String = failures.iter().map(|(what, count)| format!("\n    {count} x {what}")).collect();
        format!(
            "{contour} requests answered by Contour and {lockgate} by Lockgate in {:.0} s over {} connections, {} failed{lines}",
            start.elapsed().as_secs_f64(),
            count(connections),
            failures.values().sum::<u64>()
        )
    }
}

/// Sends one request after the other until the end.
async fn client(shared: Arc<Shared>, number: usize) {
    let mut ticks = tokio::time::interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let keeps = number.is_multiple_of(2);
    let mut kept: HashMap<usize, Connection> = HashMap::new();
    let mut side = 0;
    // Clients begin at different requests.
    let first = number * shared.requests.len() / CLIENTS;
    for index in (0..shared.requests.len()).cycle().skip(first) {
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        ticks.tick().await;
        let now = usize::from(number < shared.moved.load(Ordering::Relaxed));
        if now != side {
            // The DNS record has changed.
            kept.clear();
            side = now;
        }
        let (probe, expected) = &shared.requests[index];
        let address = shared.addresses.lock().await[side];
        match request(&shared, probe, address, kept.remove(&index)).await {
            Ok((connection, answer)) if answer == *expected => {
                shared.answered[side].fetch_add(1, Ordering::Relaxed);
                if let Some(connection) = connection.filter(|_| keeps) {
                    kept.insert(index, connection);
                }
            }
            other => {
                let other = other.map_or_else(|error| error.to_string(), |(_, answer)| answer);
                let by = ["Contour", "Lockgate"][side];
                let what = format!("{probe}: {by} answers {other:?} instead of {expected:?}");
                *shared.failures.lock().await.entry(what).or_default() += 1;
            }
        }
    }
}

/// Sends a request over a kept connection, or over a new one. A connection that the server has closed before is replaced, as by every client.
async fn request(
    shared: &Shared,
    probe: &Probe,
    address: IpAddr,
    kept: Option<Connection>,
) -> Result<(Option<Connection>, String), e2e::client::Error> {
    let connect = async || {
        shared.connections.fetch_add(1, Ordering::Relaxed);
        probe.target(address, &shared.authority).connect().await
    };
    let mut connection = match kept {
        Some(connection) => connection,
        None => connect().await?,
    };
    let mut sent = probe.send(&mut connection).await;
    if sent.as_ref().is_err_and(|error| error.is::<Unsent>()) {
        connection = connect().await?;
        sent = probe.send(&mut connection).await;
    }
    let answer = sent?;
    let is_kept = !answer.header("connection").eq_ignore_ascii_case("close");
    Ok((is_kept.then_some(connection), probe.fingerprint(&answer)))
}
