//! B1 and B9: from nothing to everything, and what it costs to stay.

use std::time::Duration;

use super::{Bench, Figure, LIMIT, Loaded, Scale, Setup};
use crate::control::Command;
use crate::fleet::Fleet;
use crate::report::{Row, Unit, Value};
use crate::stats::{median, ms};
use crate::wire::Variant;

/// The description of B1.
pub const ABOUT: &str = "N clients connect at once and ask for R load assignments by name: the time until the last \
    one has all, what came over the wire, CPU time of the server, and the most memory that it took. Not measured where \
    more than 8 GB would be sent (100k × 1k).";
/// The description of B9.
pub const ABOUT_IDLE: &str = "The increase of resident memory with N idle clients that have received all R load \
    assignments. Go runs a garbage collection and returns memory to the system first.";

/// B1.
pub(super) async fn sync(bench: &Bench) -> Vec<Row> {
    let sizes: &[(usize, usize)] = match bench.scale {
        Scale::Smoke => &[(10, 2)],
        Scale::Quick => &[(1_000, 1), (1_000, 100), (10_000, 10)],
        Scale::Normal => {
            &[(1_000, 1), (1_000, 100), (1_000, 1_000), (10_000, 1), (10_000, 100), (100_000, 1), (100_000, 10)]
        }
        Scale::Full => &[
            (1_000, 1),
            (1_000, 100),
            (1_000, 1_000),
            (10_000, 1),
            (10_000, 100),
            (10_000, 1_000),
            (100_000, 1),
            (100_000, 10),
            (100_000, 100),
            (100_000, 1_000),
        ],
    };
    let mut rows = Vec::new();
    for variant in [Variant::Delta, Variant::Sotw] {
        for &(resources, streams) in sizes {
            let setup = Setup::eds(variant, resources, streams);
            if setup.too_large() {
                let value = Value::Note("skipped: more than 8 GB".into());
                rows.push(Row { setting: setup.title(), metric: "result", value });
                continue;
            }
            let rounds = if bench.scale < Scale::Normal || resources * streams >= 1_000_000 { 1 } else { 3 };
            rows.extend(bench.setting(setup.title(), measure(bench, setup, rounds)).await);
        }
    }
    rows
}

async fn measure(bench: &Bench, setup: Setup, rounds: usize) -> anyhow::Result<Vec<Figure>> {
    let (mut times, mut cpu, mut bytes, mut peak) = (vec![], vec![], vec![], vec![]);
    for _ in 0..rounds {
        let Loaded { mut peer, setup, before } = bench.load(setup).await?;
        let fleet = Fleet::open(setup.plans(peer.address), setup.goal());
        times.push(fleet.complete(LIMIT).await?.as_secs_f64() * 1e3);
        // The last ACKs belong to it.
        fleet.silence(Duration::from_millis(100), LIMIT).await;
        let after = peer.usage().await?;
        cpu.push(ms(after.cpu_ns - before.cpu_ns));
        bytes.push(fleet.shared.bytes.get() as f64 / (1 << 20) as f64);
        peak.push(after.peak_kib as f64 / 1024.0);
    }
    Ok(vec![
        ("all have all", Unit::Ms, median(times)),
        ("CPU", Unit::Ms, median(cpu)),
        ("bytes", Unit::MiB, median(bytes)),
        ("peak RSS", Unit::MiB, median(peak)),
    ])
}

/// B9.
pub(super) async fn idle(bench: &Bench) -> Vec<Row> {
    let sizes: &[(usize, usize)] = match bench.scale {
        Scale::Smoke => &[(10, 2)],
        Scale::Quick => &[(1_000, 100)],
        Scale::Normal | Scale::Full => &[(1, 1_000), (1_000, 1_000), (10_000, 100)],
    };
    let mut rows = Vec::new();
    for &(resources, streams) in sizes {
        let setup = Setup::eds(Variant::Delta, resources, streams);
        rows.extend(bench.setting(setup.title(), memory(bench, setup)).await);
    }
    rows
}

async fn memory(bench: &Bench, setup: Setup) -> anyhow::Result<Vec<Figure>> {
    let Loaded { mut peer, setup, before } = bench.load(setup).await?;
    let fleet = Fleet::open(setup.plans(peer.address), setup.goal());
    fleet.complete(LIMIT).await?;
    fleet.silence(Duration::from_millis(500), LIMIT).await;
    peer.command(Command::Settle).await?;
    let after = peer.usage().await?;
    let grown = after.rss_kib.saturating_sub(before.rss_kib) as f64;
    let streams = setup.streams as f64;
    Ok(vec![
        ("RSS per stream", Unit::KiB, grown / streams),
        ("RSS per stream and name", Unit::Bytes, grown * 1024.0 / streams / setup.goal() as f64),
        ("RSS in all", Unit::MiB, after.rss_kib as f64 / 1024.0),
    ])
}
