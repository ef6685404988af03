//! The original program `probe`, instead of ours.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;

use super::objects::{GATEWAY, GATEWAY_NAMESPACE};
use super::suite::Sample;
use crate::system::lab::Lab;

/// Runs the program for a number of routes.
///
/// # Errors
/// It fails.
pub(super) async fn probe(lab: &Lab, program: &Path, routes: usize) -> anyhow::Result<Vec<Sample>> {
    let program = std::path::absolute(program)?.display().to_string();
    let (gateway, routes) = (format!("--gateways={GATEWAY_NAMESPACE}/{GATEWAY}"), format!("--routes={routes}"));
    // The log is on either of the two outputs.
    let script = r#"exec "$0" "$@" 2>&1"#;
    samples(&lab.run("sh", &["-c", script, &program, &gateway, &routes], "").await?)
}

/// Reads the samples from its log.
///
/// # Errors
/// The log has another format.
fn samples(log: &str) -> anyhow::Result<Vec<Sample>> {
    let (mut samples, mut errors) = (Vec::new(), 0);
    for line in log.lines() {
        errors += usize::from(line.contains("unexpected status code"));
        if line.contains("probe completed: 200") {
            let latency = line.split("latency=").nth(1).and_then(|rest| rest.split_whitespace().next());
            let latency = latency.with_context(|| format!("no latency in {line:?}"))?;
            samples.push(Sample { latency: go_duration(latency.trim_matches('"'))?, errors });
            errors = 0;
        }
    }
    Ok(samples)
}

/// Parses a duration as Go prints it: `1m2.5s`, `35.1ms`, `870µs`.
fn go_duration(text: &str) -> anyhow::Result<Duration> {
    const UNITS: [(&str, f64); 5] = [("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9), ("m", 60.0), ("s", 1.0)];
    let (mut rest, mut seconds) = (text, 0.0);
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').context("no unit")?;
        let number: f64 = rest[..end].parse().with_context(|| format!("no duration: {text:?}"))?;
        let unit = UNITS.iter().find(|(unit, _)| rest[end..].starts_with(unit));
        let (unit, factor) = unit.with_context(|| format!("no duration: {text:?}"))?;
        seconds += number * factor;
        rest = &rest[end + unit.len()..];
    }
    Ok(Duration::from_secs_f64(seconds))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::samples;

    #[test]
    fn samples_are_read_from_the_log_of_the_original() {
        let log = "\
            2026-01-01T00:00:00Z\tinfo\tprobe completed: 200\tgateway=gateway/gateway iter=0 latency=35.5ms\n\
            2026-01-01T00:00:00Z\terror\tunexpected status code: 503\tgateway=gateway/gateway iter=1\n\
            2026-01-01T00:00:00Z\tinfo\tprobe completed: 200\tgateway=gateway/gateway iter=1 latency=1m2.5s\n\
            2026-01-01T00:00:00Z\tinfo\tprobe completed: 200\tgateway=gateway/gateway iter=2 latency=870µs\n";
        let all = samples(log).unwrap();
        let read: Vec<_> = all.iter().map(|sample| (sample.latency.as_micros(), sample.errors)).collect();
        assert_eq!(read, [(35_500, 0), (62_500_000, 1), (870, 0)]);
        assert!(samples("probe completed: 200 latency=fast").is_err());
        assert!(samples("probe completed: 200").is_err());
    }
}
