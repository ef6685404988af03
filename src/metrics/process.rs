//! Linux metrics of this process, read from `/proc` at each scrape, with the names of all Prometheus client libraries.
//! Unreadable values are omitted.

use std::fmt;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Clock ticks per second in `/proc`: `USER_HZ`, which is 100 on all supported architectures. Source: proc(5), time(7).
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Debug)]
pub(super) struct Process {
    started: f64,
}

impl Process {
    pub(super) fn starting_now() -> Self {
        Self { started: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64() }
    }
}

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        if let Some(seconds) = cpu_seconds() {
            let help = "User and system time spent";
            let metric = encoder.encode_descriptor("process_cpu", help, Some(&Unit::Seconds), MetricType::Counter)?;
            ConstCounter::new(seconds).encode(metric)?;
        }
        let seconds = Some(Unit::Seconds);
        let gauges = [
            ("process_start_time", "Start time since the Unix epoch", seconds, Some(self.started)),
            ("process_resident_memory", "Resident memory", Some(Unit::Bytes), status_bytes("VmRSS:")),
            ("process_virtual_memory", "Virtual memory", Some(Unit::Bytes), status_bytes("VmSize:")),
            ("process_open_fds", "Open file descriptors", None, open_fds()),
            ("process_max_fds", "Limit of open file descriptors", None, max_fds()),
        ];
        for (name, help, unit, value) in gauges {
            let Some(value) = value else { continue };
            let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
            ConstGauge::new(value).encode(metric)?;
        }
        Ok(())
    }
}

/// Returns fields 14 and 15 of `/proc/self/stat`. They are counted after the name in parentheses, which may contain any
/// text.
fn cpu_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system) = (fields.next()?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

/// Returns a value of `/proc/self/status` that is in kB.
fn status_bytes(name: &str) -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kilobytes = status.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()?;
    Some(kilobytes.parse::<u64>().ok()? as f64 * 1024.0)
}

fn open_fds() -> Option<f64> {
    // One entry is the directory that is being read.
    Some(fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1) as f64)
}

fn max_fds() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|limit| limit as f64)
}
