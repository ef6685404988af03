//! B5: updates that change nothing.

use std::time::{Duration, Instant};

use super::{Bench, Figure, LIMIT, Scale, Setup};
use crate::control::Command;
use crate::report::{Row, Unit};
use crate::stats::ms;
use crate::wire::Variant;

/// What B5 says.
pub const ABOUT: &str = "One resource is published 1000 times with the content that it has (fewer, where that takes \
    longer than 15 s); messages are counted for all clients together, per 1000 updates.";

/// B5.
pub(super) async fn identical(bench: &Bench) -> Vec<Row> {
    let (resources, streams, batches) = match bench.scale {
        Scale::Smoke => (10, 2, 1),
        Scale::Quick => (1_000, 100, 2),
        Scale::Normal | Scale::Full => (1_000, 100, 20),
    };
    let mut rows = Vec::new();
    let setups = [Variant::Delta, Variant::Sotw].map(|variant| Setup::eds(variant, resources, streams));
    for setup in setups {
        rows.extend(bench.setting(setup.title(), measure(bench, setup, batches)).await);
    }
    rows
}

async fn measure(bench: &Bench, setup: Setup, batches: usize) -> anyhow::Result<Vec<Figure>> {
    const BATCH: usize = 50;
    let mut synced = bench.synced(setup).await?;
    let before = synced.peer.usage().await?;
    let messages = synced.fleet.shared.messages.get();
    let started = Instant::now();
    let mut updates = 0;
    for _ in 0..batches {
        synced.peer.command(Command::Noop(setup.kind, BATCH)).await?;
        updates += BATCH;
        if started.elapsed() > Duration::from_secs(15) {
            break;
        }
    }
    tokio::time::sleep(Duration::from_millis(500)).await;
    synced.fleet.silence(Duration::from_millis(300), LIMIT).await;
    let after = synced.peer.usage().await?;
    let sent = synced.fleet.shared.messages.get() - messages;
    Ok(vec![
        ("messages per 1000 updates", Unit::Count, sent as f64 * 1000.0 / updates as f64),
        ("CPU per update", Unit::Ms, ms(after.cpu_ns - before.cpu_ns) / updates as f64),
    ])
}
