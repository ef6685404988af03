//! B6: everybody comes back at once, and has everything already.

use std::time::{Duration, Instant};

use anyhow::ensure;

use super::{Bench, Figure, LIMIT, Scale, Setup, Synced};
use crate::control::Command;
use crate::fleet::Fleet;
use crate::report::{Row, Unit};
use crate::stats::ms;
use crate::stream::Plan;
use crate::wire::{self, Variant};

/// What B6 says.
pub const ABOUT: &str = "All N connections break and are opened again by clients that say what they have: Delta with \
    `initial_resource_versions` of R load assignments, state of the world with the version of R clusters. Until the \
    server has nothing more to do; then one change must reach everybody.";

/// B6.
pub(super) async fn storm(bench: &Bench) -> Vec<Row> {
    let (resources, streams) = match bench.scale {
        Scale::Smoke => (10, 2),
        Scale::Quick => (1_000, 100),
        Scale::Normal | Scale::Full => (1_000, 1_000),
    };
    let mut rows = Vec::new();
    for setup in [Setup::eds(Variant::Delta, resources, streams), Setup::cds(Variant::Sotw, resources, streams)] {
        rows.extend(bench.setting(setup.title(), measure(bench, setup)).await);
    }
    rows
}

async fn measure(bench: &Bench, setup: Setup) -> anyhow::Result<Vec<Figure>> {
    let keep = |number, plan| Plan { keep_versions: number == 0 && setup.variant == Variant::Delta, ..plan };
    let Synced { mut peer, fleet, setup } = bench.synced_with(setup, keep).await?;
    let (initial_versions, version) = {
        let tallies: Vec<_> = fleet.tallies().take(1).collect();
        let versions = tallies.iter().flat_map(|tally| tally.versions.iter());
        let encoded = wire::initial_versions(versions.map(|(name, version)| (name.as_str(), version.as_str())));
        let version = tallies.first().map(|tally| tally.version.clone()).unwrap_or_default();
        (encoded, if setup.variant == Variant::Sotw { version } else { String::new() })
    };
    drop(fleet);
    idle(&mut peer).await?;

    let before = peer.usage().await?;
    let started = Instant::now();
    let plans = setup.plans(peer.address).map(|plan| Plan {
        initial_versions: initial_versions.clone(),
        version: version.clone(),
        ..plan
    });
    let fleet = Fleet::open(plans, setup.goal());
    fleet.until(LIMIT, "connection of all", |shared| shared.opened.get() >= setup.streams).await?;
    let quiet_at = idle(&mut peer).await?;
    let after = peer.usage().await?;
    let (messages, bytes) = (fleet.shared.messages.get(), fleet.shared.resource_bytes.get());

    let marker = fleet.shared.now();
    fleet.expect(marker);
    peer.post(Command::Set(setup.kind, 0, 1, marker)).await?;
    fleet.arrival(setup.streams, LIMIT).await?;
    ensure!(fleet.len() == setup.streams, "some streams are gone");
    Ok(vec![
        ("quiet after", Unit::Ms, (quiet_at - started).as_secs_f64() * 1e3),
        ("CPU", Unit::Ms, ms(after.cpu_ns - before.cpu_ns)),
        ("resource bytes in all", Unit::KiB, bytes as f64 / 1024.0),
        ("messages in all", Unit::Count, messages as f64),
        ("peak RSS", Unit::MiB, after.peak_kib as f64 / 1024.0),
    ])
}

/// Waits until the server uses no CPU time any more, and gives when that began.
async fn idle(peer: &mut crate::peer::Peer) -> anyhow::Result<Instant> {
    const PAUSE: Duration = Duration::from_millis(20);
    let deadline = Instant::now() + LIMIT;
    let mut used = peer.usage().await?.cpu_ns;
    // A server that is busy answers late.
    let mut since = Instant::now();
    while since.elapsed() < PAUSE * 10 {
        ensure!(Instant::now() < deadline, "the server never has nothing to do");
        tokio::time::sleep(PAUSE).await;
        let now = peer.usage().await?.cpu_ns;
        // Asking alone uses some.
        if now - used > 1_500_000 {
            since = Instant::now();
        }
        used = now;
    }
    Ok(since)
}
