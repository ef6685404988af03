//! One client: a stream on a connection of its own, that accepts or rejects what comes and counts it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use bytes::Bytes;
use tokio::sync::mpsc;

use crate::fleet::Shared;
use crate::http2::{Connection, Received};
use crate::resources::Kind;
use crate::wire::{self, Part, Request, Responses, Variant};

/// What a client asks for.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The server.
    pub address: SocketAddr,
    /// The variant.
    pub variant: Variant,
    /// The type.
    pub kind: Kind,
    /// The encoded names ([`wire::names`]); empty for everything.
    pub names: Bytes,
    /// What the server may send ahead.
    pub window: u32,
    /// Delta: what the client has, encoded ([`wire::initial_versions`]).
    pub initial_versions: Bytes,
    /// State of the world: the version that the client has.
    pub version: String,
    /// How many resources have their newest marker remembered, 0 for none.
    pub track: usize,
    /// Whether versions are remembered.
    pub keep_versions: bool,
}

/// What a client has got.
#[derive(Debug, Default)]
pub struct Tally {
    /// Resources.
    pub resources: u64,
    /// Responses.
    pub messages: u64,
    /// Bytes of responses.
    pub bytes: u64,
    /// The newest marker.
    pub newest: u64,
    /// The newest marker of each resource.
    pub seen: Vec<u64>,
    /// The version of each resource.
    pub versions: BTreeMap<String, String>,
    /// The version of the last accepted response.
    pub version: String,
}

/// What a client is told to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Read no more.
    Pause,
    /// Read again.
    Resume,
}

/// Runs until the stream ends or nobody gives orders any more.
///
/// # Errors
/// The stream ended by itself.
pub async fn run(
    plan: Plan,
    shared: Rc<Shared>,
    tally: Rc<RefCell<Tally>>,
    mut orders: mpsc::UnboundedReceiver<Order>,
) -> anyhow::Result<()> {
    let mut connection = Connection::open(plan.address, None, plan.variant.method(), plan.window).await?;
    let type_url = plan.kind.type_url();
    let first = Request { node: Some("bench"), type_url, version: &plan.version, ..Request::default() };
    connection.send(&[first.encode(plan.variant), plan.names.clone(), plan.initial_versions.clone()]).await?;
    shared.opened.set(shared.opened.get() + 1);
    shared.stirred();
    let mut responses = Responses::new(plan.variant);
    let mut answers: Vec<(String, String)> = Vec::new();
    loop {
        let received = tokio::select! {
            biased;
            order = orders.recv() => match order {
                Some(Order::Pause) => {
                    while let Some(Order::Pause) = orders.recv().await {}
                    continue;
                }
                Some(Order::Resume) => continue,
                None => return Ok(()),
            },
            received = connection.receive() => received?,
        };
        let Received::Data(piece) = received else { continue };
        {
            let mut tally = tally.borrow_mut();
            shared.bytes.set(shared.bytes.get() + piece.len() as u64);
            responses.feed(piece, |part| match part {
                Part::Resource(resource) => tally.resource(resource, &plan, &shared),
                Part::Removed(_) => shared.removed.set(shared.removed.get() + 1),
                Part::End { nonce, version, size, .. } => {
                    tally.messages += 1;
                    tally.bytes += size as u64;
                    shared.messages.set(shared.messages.get() + 1);
                    answers.push((nonce.to_owned(), version.to_owned()));
                }
            })?;
        }
        shared.stirred();
        for (nonce, version) in answers.drain(..) {
            let nack = shared.rejecting.get();
            if !nack {
                tally.borrow_mut().version = version;
            }
            let version = tally.borrow().version.clone();
            let answer = Request { type_url, nonce: &nonce, version: &version, nack, ..Request::default() };
            let names = if plan.variant == Variant::Sotw { plan.names.clone() } else { Bytes::new() };
            connection.send(&[answer.encode(plan.variant), names]).await?;
        }
    }
}

impl Tally {
    fn resource(&mut self, resource: &[u8], plan: &Plan, shared: &Shared) {
        self.resources += 1;
        shared.resource_bytes.set(shared.resource_bytes.get() + resource.len() as u64);
        if self.resources == shared.goal.get() {
            shared.complete.set(shared.complete.get() + 1);
            shared.completed_at.set(Instant::now());
        }
        if plan.keep_versions
            && let Some((name, version)) = wire::name_and_version(resource)
        {
            self.versions.insert(name, version);
        }
        if !shared.sighting.get() {
            return;
        }
        let Some(sighting) = wire::sight(resource) else { return };
        if sighting.index < plan.track {
            self.seen.resize(plan.track, 0);
            self.seen[sighting.index] = sighting.marker;
        }
        if sighting.marker > self.newest {
            self.newest = sighting.marker;
            shared.arrived(sighting.marker);
        }
    }
}
