//! B3 and B7: many changes a second, and one client that does not read.

use std::time::Duration;

use tokio::time::Instant;

use super::{Bench, Figure, LIMIT, Scale, Setup, Synced};
use crate::control::Command;
use crate::report::{Row, Unit};
use crate::stats::{ms, percentile};
use crate::stream::{Order, Plan};
use crate::wire::Variant;

/// The description of B3.
pub const ABOUT: &str = "100 changes a second, of one load assignment each, N clients with all R of them. Staleness: \
    the age of the newest value at a client, sampled every 7 ms; it counts from the moment at which the change was due. \
    A client that has everything at once is between 0 and 10 ms behind. A server that is too slow may take waiting \
    changes together. Afterwards every client's values are compared with what was set.";
/// The description of B7.
pub const ABOUT_STALLED: &str = "As B3, first with N clients that read, then with one that does not (and has HTTP/2's \
    default window of 64 KiB): staleness at the others, and growth of memory meanwhile. Then it reads again.";

/// Changes a second.
const RATE: u64 = 100;
/// The window before anybody says otherwise.
const SMALL_WINDOW: u32 = 65_535;

/// B3.
pub(super) async fn churn(bench: &Bench) -> Vec<Row> {
    let (setup, seconds) = size(bench, 5, 30);
    let title = format!("{}, {RATE}/s for {seconds} s", setup.title());
    bench.setting(title, measure(bench, setup, seconds)).await
}

fn size(bench: &Bench, quick: u64, normal: u64) -> (Setup, u64) {
    match bench.scale {
        Scale::Smoke => (Setup::eds(Variant::Delta, 10, 2), 1),
        Scale::Quick => (Setup::eds(Variant::Delta, 10_000, 100), quick),
        Scale::Normal | Scale::Full => (Setup::eds(Variant::Delta, 10_000, 100), normal),
    }
}

async fn measure(bench: &Bench, setup: Setup, seconds: u64) -> anyhow::Result<Vec<Figure>> {
    let mut synced = bench.synced_with(setup, |_, plan| Plan { track: setup.resources, ..plan }).await?;
    let before = synced.peer.usage().await?;
    let (messages, bytes) = (synced.fleet.shared.messages.get(), synced.fleet.shared.bytes.get());
    let mut expected = vec![0; setup.resources];
    let mut run = changes(&mut synced, &mut expected, seconds, 0).await?;
    let caught_up = catch_up(&mut synced).await?;
    let after = synced.peer.usage().await?;
    let each = |count: u64| count as f64 / setup.streams as f64;
    Ok(vec![
        ("staleness p50", Unit::Ms, ms(percentile(&mut run.staleness, 0.5))),
        ("staleness p99", Unit::Ms, ms(percentile(&mut run.staleness, 0.99))),
        ("quiet after the end", Unit::Ms, caught_up.as_secs_f64() * 1e3),
        ("CPU per change", Unit::Ms, ms(after.cpu_ns - before.cpu_ns) / (seconds * RATE) as f64),
        ("messages per client", Unit::Count, each(synced.fleet.shared.messages.get() - messages)),
        ("bytes per client", Unit::KiB, each(synced.fleet.shared.bytes.get() - bytes) / 1024.0),
        ("RSS", Unit::MiB, after.rss_kib as f64 / 1024.0),
        ("values lost", Unit::Count, lost(&synced, &expected) as f64),
    ])
}

/// Values that some client does not have as they were set last.
fn lost(synced: &Synced, expected: &[u64]) -> usize {
    let missing = |seen: &[u64]| {
        let have = |index: usize| seen.get(index).copied().unwrap_or_default();
        expected.iter().enumerate().filter(|(index, marker)| have(*index) != **marker).count()
    };
    synced.fleet.tallies().map(|tally| missing(&tally.seen)).sum()
}

struct Run {
    /// Ages of the newest value, in nanoseconds.
    staleness: Vec<u64>,
    /// The most memory that was seen.
    most_rss_kib: u64,
}

/// Makes changes for so long; samples the clients from number `from` on.
async fn changes(synced: &mut Synced, expected: &mut [u64], seconds: u64, from: usize) -> anyhow::Result<Run> {
    let Synced { peer, fleet, setup } = synced;
    let start = Instant::now();
    let epoch = Instant::from_std(fleet.shared.epoch);
    let mut run = Run { staleness: Vec::new(), most_rss_kib: 0 };
    let mut sample_at = start + Duration::from_millis(50);
    for number in 0..RATE * seconds {
        let due = start + Duration::from_secs(1) * number as u32 / RATE as u32;
        while sample_at < due {
            tokio::time::sleep_until(sample_at).await;
            let now = fleet.shared.now();
            run.staleness.extend(fleet.tallies().skip(from).map(|tally| now.saturating_sub(tally.newest)));
            sample_at += Duration::from_millis(7);
        }
        tokio::time::sleep_until(due).await;
        let marker = u64::try_from((due - epoch).as_nanos())?;
        let index = usize::try_from(number)? * 7_919 % setup.resources;
        expected[index] = marker;
        peer.post(Command::Set(setup.kind, index, 1, marker)).await?;
        if number % (RATE / 4) == 0 {
            run.most_rss_kib = run.most_rss_kib.max(peer.resident_kib());
        }
    }
    Ok(run)
}

/// Waits until nothing comes any more; gives how long it took.
async fn catch_up(synced: &mut Synced) -> anyhow::Result<Duration> {
    let pause = Duration::from_millis(500);
    let ended = Instant::now();
    synced.peer.settled().await?;
    synced.fleet.silence(pause, LIMIT).await;
    Ok(ended.elapsed().saturating_sub(pause))
}

/// B7.
pub(super) async fn stalled(bench: &Bench) -> Vec<Row> {
    let (setup, seconds) = size(bench, 4, 10);
    let title = format!("{}, {RATE}/s for {seconds} s", setup.title());
    bench.setting(title, measure_stalled(bench, setup, seconds)).await
}

async fn measure_stalled(bench: &Bench, setup: Setup, seconds: u64) -> anyhow::Result<Vec<Figure>> {
    let adjust = |number, plan| match number {
        0 => Plan { window: SMALL_WINDOW, track: setup.resources, ..plan },
        _ => Plan { track: setup.resources, ..plan },
    };
    let mut synced = bench.synced_with(setup, adjust).await?;
    let mut expected = vec![0; setup.resources];
    let mut reading = changes(&mut synced, &mut expected, seconds, 1).await?;
    catch_up(&mut synced).await?;
    let before = synced.peer.usage().await?;
    synced.fleet.order(0, Order::Pause);
    let mut stalled = changes(&mut synced, &mut expected, seconds, 1).await?;
    synced.peer.settled().await?;
    let after = synced.peer.usage().await?;
    let most = stalled.most_rss_kib.max(after.rss_kib);
    synced.fleet.order(0, Order::Resume);
    // The one that reads again stirs only when it has read.
    tokio::time::sleep(Duration::from_millis(100)).await;
    catch_up(&mut synced).await?;
    Ok(vec![
        ("staleness p99, all read", Unit::Ms, ms(percentile(&mut reading.staleness, 0.99))),
        ("staleness p99, one stalled", Unit::Ms, ms(percentile(&mut stalled.staleness, 0.99))),
        ("growth of RSS", Unit::MiB, most.saturating_sub(before.rss_kib) as f64 / 1024.0),
        ("values lost", Unit::Count, lost(&synced, &expected) as f64),
    ])
}
