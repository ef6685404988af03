//! B8: everybody rejects a change.

use std::time::Duration;

use super::{Bench, Figure, LIMIT, Scale, Setup, Synced};
use crate::control::Command;
use crate::report::{Row, Unit};
use crate::stats::ms;
use crate::wire::Variant;

/// What B8 says.
pub const ABOUT: &str = "One resource changes, and all N clients reject it: how many messages come in the 2 s after \
    it has reached everybody, and what that costs. Then it changes again, and must reach everybody.";

/// B8.
pub(super) async fn storm(bench: &Bench) -> Vec<Row> {
    let (resources, streams) = if bench.scale == Scale::Smoke { (10, 2) } else { (100, 100) };
    let eds = |variant| (Setup::eds(variant, resources, streams), "EDS");
    let cds = |variant| (Setup::cds(variant, resources, streams), "CDS");
    let mut rows = Vec::new();
    for (setup, what) in [eds(Variant::Delta), eds(Variant::Sotw), cds(Variant::Delta), cds(Variant::Sotw)] {
        rows.extend(bench.setting(format!("{what} {}", setup.title()), measure(bench, setup)).await);
    }
    rows
}

async fn measure(bench: &Bench, setup: Setup) -> anyhow::Result<Vec<Figure>> {
    let Synced { mut peer, fleet, setup } = bench.synced(setup).await?;
    fleet.shared.rejecting.set(true);
    let marker = fleet.shared.now();
    fleet.expect(marker);
    peer.command(Command::Set(setup.kind, 1, 1, marker)).await?;
    fleet.arrival(setup.streams, LIMIT).await?;
    let before = peer.usage().await?;
    let messages = fleet.shared.messages.get();
    let watched = Duration::from_millis(if bench.scale == Scale::Smoke { 500 } else { 2_000 });
    tokio::time::sleep(watched).await;
    let sent = fleet.shared.messages.get() - messages;
    let after = peer.usage().await?;
    fleet.shared.rejecting.set(false);
    let marker = fleet.shared.now();
    fleet.expect(marker);
    peer.command(Command::Set(setup.kind, 1, 1, marker)).await?;
    fleet.arrival(setup.streams, LIMIT).await?;
    let seconds = watched.as_secs_f64();
    Ok(vec![
        ("messages after the NACKs, per second", Unit::Count, sent as f64 / seconds),
        ("CPU per second", Unit::Ms, ms(after.cpu_ns - before.cpu_ns) / seconds),
    ])
}
