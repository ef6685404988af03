//! What is measured: one module a benchmark, and what they share.

mod changes;
mod churn;
mod initial;
mod noop;
mod reconnect;
mod rejection;

use std::time::Duration;

use bytes::Bytes;

use crate::control::{Command, Usage};
use crate::fleet::Fleet;
use crate::peer::{Peer, Programs, Server};
use crate::report::{Row, Unit, Value};
use crate::resources::{self, Kind};
use crate::stream::Plan;
use crate::wire::{self, Variant};

/// The window of an ordinary client.
const WINDOW: u32 = 16 << 20;
/// What is waited for at most.
const LIMIT: Duration = Duration::from_secs(120);

/// How much is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scale {
    /// Only whether it works.
    Smoke,
    /// In 2 to 3 minutes.
    Quick,
    /// In about 15 minutes.
    Normal,
    /// All that is at all measured.
    Full,
}

/// What is measured, and of what.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much.
    pub scale: Scale,
    /// Only the settings whose title has this in it.
    pub setting: String,
    /// The servers.
    pub programs: Programs,
}

/// A benchmark's id, title, and what its figures mean.
pub const CASES: &[(&str, &str, &str)] = &[
    ("B1", "Initial sync", initial::ABOUT),
    ("B2", "One endpoint change, everybody subscribed to everything", changes::ABOUT_ALL),
    ("B2s", "One endpoint change, each stream subscribed to names of its own", changes::ABOUT_OWN),
    ("B3", "Churn", churn::ABOUT),
    ("B4", "One cluster of many changes", changes::ABOUT_CLUSTER),
    ("B5", "Identical updates", noop::ABOUT),
    ("B6", "Reconnect storm", reconnect::ABOUT),
    ("B7", "A stalled reader", churn::ABOUT_STALLED),
    ("B8", "NACK storm", rejection::ABOUT),
    ("B9", "Memory of an idle stream", initial::ABOUT_IDLE),
];

/// Runs the benchmark `id` on `server`; what fails is a row that says so.
pub async fn run(id: &str, server: Server, options: &Options) -> Vec<Row> {
    let bench = Bench { scale: options.scale, server, options: options.clone() };
    match id {
        "B1" => initial::sync(&bench).await,
        "B2" => changes::all(&bench).await,
        "B2s" => changes::own(&bench).await,
        "B3" => churn::churn(&bench).await,
        "B4" => changes::cluster(&bench).await,
        "B5" => noop::identical(&bench).await,
        "B6" => reconnect::storm(&bench).await,
        "B7" => churn::stalled(&bench).await,
        "B8" => rejection::storm(&bench).await,
        "B9" => initial::idle(&bench).await,
        _ => Vec::new(),
    }
}

/// A server to be measured, and how much of it.
struct Bench {
    scale: Scale,
    server: Server,
    options: Options,
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Everything, by wildcard.
    Wildcard,
    /// Everything, by name.
    All,
    /// An equal share for each stream, by name.
    Own,
}

/// The resources and streams of a measurement.
#[derive(Debug, Clone, Copy)]
struct Setup {
    variant: Variant,
    kind: Kind,
    resources: usize,
    streams: usize,
    names: Names,
}

impl Setup {
    fn eds(variant: Variant, resources: usize, streams: usize) -> Self {
        Self { variant, kind: Kind::Eds, resources, streams, names: Names::All }
    }

    fn cds(variant: Variant, resources: usize, streams: usize) -> Self {
        Self { variant, kind: Kind::Cds, resources, streams, names: Names::Wildcard }
    }

    /// For the first column of a table.
    fn title(&self) -> String {
        format!("{}, R={}, N={}", self.variant.as_str(), short(self.resources), short(self.streams))
    }

    /// How many resources each stream gets.
    fn goal(&self) -> u64 {
        let share = if self.names == Names::Own { self.resources / self.streams } else { self.resources };
        share as u64
    }

    fn plans(self, address: std::net::SocketAddr) -> impl Iterator<Item = Plan> {
        let encoded = |from: usize, to: usize| {
            let names: Vec<String> = (from..to).map(resources::name).collect();
            wire::names(names.iter().map(String::as_str))
        };
        let all = if self.names == Names::All { encoded(0, self.resources) } else { Bytes::new() };
        (0..self.streams).map(move |stream| {
            let share = self.resources / self.streams;
            let names = match self.names {
                Names::Own => encoded(stream * share, (stream + 1) * share),
                Names::All | Names::Wildcard => all.clone(),
            };
            Plan {
                address,
                variant: self.variant,
                kind: self.kind,
                names,
                window: WINDOW,
                initial_versions: Bytes::new(),
                version: String::new(),
                track: 0,
                keep_versions: false,
            }
        })
    }

    /// Whether the initial sync would move more than 8 GB.
    fn too_large(&self) -> bool {
        self.goal() * self.streams as u64 * 500 > 8_000_000_000
    }
}

/// 1000 as 1k.
fn short(number: usize) -> String {
    if number >= 1000 && number.is_multiple_of(1000) { format!("{}k", number / 1000) } else { number.to_string() }
}

/// A server with its resources, before anybody has connected.
struct Loaded {
    peer: Peer,
    setup: Setup,
    before: Usage,
}

impl Bench {
    async fn load(&self, setup: Setup) -> anyhow::Result<Loaded> {
        let mut peer = Peer::start(self.server, &self.options.programs).await?;
        peer.command(Command::Set(setup.kind, 0, setup.resources, 0)).await?;
        peer.command(Command::Settle).await?;
        let before = peer.usage().await?;
        Ok(Loaded { peer, setup, before })
    }

    /// A server whose clients have everything.
    async fn synced(&self, setup: Setup) -> anyhow::Result<Synced> {
        self.synced_with(setup, |_, plan| plan).await
    }

    /// The same; `adjust` is given each client's number and plan.
    async fn synced_with(&self, setup: Setup, adjust: impl Fn(usize, Plan) -> Plan) -> anyhow::Result<Synced> {
        let Loaded { peer, setup, .. } = self.load(setup).await?;
        let plans = setup.plans(peer.address).enumerate().map(|(number, plan)| adjust(number, plan));
        let fleet = Fleet::open(plans, setup.goal());
        fleet.complete(LIMIT).await?;
        fleet.silence(Duration::from_millis(200), LIMIT).await;
        fleet.shared.sighting.set(true);
        Ok(Synced { peer, fleet, setup })
    }

    /// The rows of one setting; a failure is one of them. Progress is told.
    async fn setting(&self, title: String, measure: impl Future<Output = anyhow::Result<Vec<Figure>>>) -> Vec<Row> {
        if !title.contains(&self.options.setting) {
            return Vec::new();
        }
        let started = std::time::Instant::now();
        let figures = measure.await;
        let rows: Vec<Row> = match figures {
            Ok(figures) => figures
                .into_iter()
                .map(|(metric, unit, value)| Row { setting: title.clone(), metric, value: Value::Number(value, unit) })
                .collect(),
            Err(error) => {
                vec![Row { setting: title.clone(), metric: "result", value: Value::Note(format!("{error:#}")) }]
            }
        };
        let told: Vec<String> = rows.iter().map(|row| format!("{} {}", row.metric, row.value)).collect();
        let took = started.elapsed().as_secs_f64();
        eprintln!("  {:<14} {title} ({took:.0} s): {}", self.server.as_str(), told.join(", "));
        rows
    }
}

/// What was measured: a metric, its unit, its value.
type Figure = (&'static str, Unit, f64);

/// A server whose clients have everything.
struct Synced {
    peer: Peer,
    fleet: Fleet,
    setup: Setup,
}
