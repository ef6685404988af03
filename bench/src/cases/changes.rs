//! B2, B2s and B4: one resource changes, and everybody who asked for it is told.

use std::time::{Duration, Instant};

use super::{Bench, Figure, LIMIT, Names, Scale, Setup, Synced};
use crate::control::Command;
use crate::report::{Row, Unit};
use crate::stats::{median, ms, percentile};
use crate::wire::Variant;

/// The description of B2.
pub const ABOUT_ALL: &str = "N clients have asked for all R load assignments by name; one of these changes, and the \
    next one when the last client has got it. From the command to the server to the arrival at each client; CPU time \
    of the server per change, ACKs included; bytes per change. Median of the rounds.";
/// The description of B2s.
pub const ABOUT_OWN: &str = "Like B2, but each client subscribes to R/N names of its own, so each change is sent to \
    one client.";
/// The description of B4.
pub const ABOUT_CLUSTER: &str = "N clients have asked for all R clusters by wildcard; one cluster changes. State of \
    the world sends all of them for it, Delta one.";

/// B2.
pub(super) async fn all(bench: &Bench) -> Vec<Row> {
    let delta: &[(usize, usize)] = match bench.scale {
        Scale::Smoke => &[(10, 2)],
        Scale::Quick => &[(1_000, 100), (10_000, 100), (1_000, 1_000)],
        Scale::Normal | Scale::Full => &[(1_000, 1), (10_000, 1), (1_000, 100), (10_000, 100), (1_000, 1_000)],
    };
    let sotw: &[(usize, usize)] = match bench.scale {
        Scale::Smoke => &[(10, 2)],
        Scale::Quick => &[],
        Scale::Normal => &[(1_000, 100)],
        Scale::Full => &[(1_000, 100), (1_000, 1_000)],
    };
    let delta = delta.iter().map(|&(resources, streams)| Setup::eds(Variant::Delta, resources, streams));
    let sotw = sotw.iter().map(|&(resources, streams)| Setup::eds(Variant::Sotw, resources, streams));
    settings(bench, delta.chain(sotw)).await
}

/// B2s.
pub(super) async fn own(bench: &Bench) -> Vec<Row> {
    let sizes: &[(usize, usize)] = match bench.scale {
        Scale::Smoke => &[(10, 2)],
        Scale::Quick => &[(10_000, 100)],
        Scale::Normal | Scale::Full => &[(10_000, 100), (100_000, 1_000)],
    };
    let setup = |&(resources, streams)| Setup { names: Names::Own, ..Setup::eds(Variant::Delta, resources, streams) };
    settings(bench, sizes.iter().map(setup)).await
}

/// B4.
pub(super) async fn cluster(bench: &Bench) -> Vec<Row> {
    let (resources, streams) = if bench.scale == Scale::Smoke { (10, 2) } else { (1_000, 100) };
    let setup = |variant| Setup::cds(variant, resources, streams);
    settings(bench, [Variant::Sotw, Variant::Delta].into_iter().map(setup)).await
}

async fn settings(bench: &Bench, setups: impl Iterator<Item = Setup>) -> Vec<Row> {
    let mut rows = Vec::new();
    for setup in setups {
        rows.extend(bench.setting(setup.title(), measure(bench, setup)).await);
    }
    rows
}

async fn measure(bench: &Bench, setup: Setup) -> anyhow::Result<Vec<Figure>> {
    // A round ends after so many changes or so long, whichever is first.
    let (rounds, changes, long) = match bench.scale {
        Scale::Smoke => (1, 2, 1.0),
        Scale::Quick => (3, 20, 2.0),
        Scale::Normal | Scale::Full => (5, 40, 2.0),
    };
    let mut synced = bench.synced(setup).await?;
    let mut number = 0;
    for _ in 0..2 {
        change(&mut synced, &mut number).await?;
    }
    let mut figures: [Vec<f64>; 5] = Default::default();
    for _ in 0..rounds {
        synced.fleet.silence(Duration::from_millis(100), LIMIT).await;
        synced.fleet.take_latencies();
        let before = synced.peer.usage().await?;
        let bytes = synced.fleet.shared.bytes.get();
        let started = Instant::now();
        let mut done = 0_u32;
        while done < changes && (done < 2 || started.elapsed().as_secs_f64() < long) {
            change(&mut synced, &mut number).await?;
            done += 1;
        }
        // The last ACKs belong to it.
        synced.fleet.silence(Duration::from_millis(100), LIMIT).await;
        let after = synced.peer.usage().await?;
        let mut latencies = synced.fleet.take_latencies();
        let per_change = |total: f64| total / f64::from(done);
        let sent = (synced.fleet.shared.bytes.get() - bytes) as f64;
        let round = [
            ms(percentile(&mut latencies, 0.5)),
            ms(percentile(&mut latencies, 0.99)),
            ms(percentile(&mut latencies, 1.0)),
            per_change(ms(after.cpu_ns - before.cpu_ns)),
            per_change(sent / 1024.0),
        ];
        figures.iter_mut().zip(round).for_each(|(figure, value)| figure.push(value));
    }
    let rss = synced.peer.usage().await?.rss_kib as f64 / 1024.0;
    let [p50, p99, max, cpu, bytes] = figures.map(median);
    Ok(vec![
        ("p50", Unit::Ms, p50),
        ("p99", Unit::Ms, p99),
        ("max", Unit::Ms, max),
        ("CPU per change", Unit::Ms, cpu),
        ("bytes per change", Unit::KiB, bytes),
        ("RSS", Unit::MiB, rss),
    ])
}

/// Changes one resource and waits until everybody who asked for it has it.
async fn change(synced: &mut Synced, number: &mut usize) -> anyhow::Result<()> {
    let Synced { peer, fleet, setup } = synced;
    *number += 1;
    // Spread over all of them, and over the streams where each has its own.
    let index = *number * 7_919 % setup.resources;
    let marker = fleet.shared.now();
    fleet.expect(marker);
    peer.post(Command::Set(setup.kind, index, 1, marker)).await?;
    let receivers = if setup.names == Names::Own { 1 } else { setup.streams };
    fleet.arrival(receivers, LIMIT).await?;
    peer.settled().await?;
    // Changes do not come as fast as they can: the machine is to be as idle before each one as it ever is.
    tokio::time::sleep(Duration::from_millis(12)).await;
    Ok(())
}
