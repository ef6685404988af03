//! A host that many Ingresses share, measured without a cluster by the benchmark of `lockgate-route`.

use std::process::Command;
use std::time::Instant;

use anyhow::{Context, ensure};

use super::{Bench, Case, Figure, LOCKGATE};
use crate::report::Unit;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    One path is added to one of 1,000 Ingresses that share a host. The figure is the time of translation and encoding, \
    relative to the time to encode the virtual host once. Minimum of 200 rounds, in one process without a cluster (`cargo \
    bench -p lockgate-route --features testing`).";

impl Bench {
    /// Measures an added path of a shared host.
    pub(super) async fn shared_host(&mut self, page: &mut Page) {
        let started = Instant::now();
        let program = self.options.programs.shared_host.clone();
        let figures = self
            .guard
            .clone()
            .over(async {
                let program = program.context("its benchmark was not built")?;
                let output = Command::new(program).arg("--bench").output()?;
                let text = String::from_utf8_lossy(&output.stdout);
                ensure!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
                figures(&text)
            })
            .await;
        self.note(page, Case::Shared, (0, "1k Ingresses".into()), LOCKGATE.name, started, figures);
    }
}

/// Parses `an added path: 1.2ms; encoding the virtual host: 1.4ms; ratio 0.86`.
fn figures(text: &str) -> anyhow::Result<Vec<Figure>> {
    let after = |label: &str| {
        let rest = text.split(label).nth(1).with_context(|| format!("no {label:?} in {text:?}"))?;
        anyhow::Ok(rest.split([';', '\n']).next().unwrap_or_default().trim())
    };
    Ok(vec![
        ("an added path", Unit::Us, microseconds(after("an added path:")?)?),
        ("encoding the virtual host", Unit::Us, microseconds(after("encoding the virtual host:")?)?),
        ("ratio", Unit::Count, after("ratio ")?.parse()?),
    ])
}

/// Parses a duration in the format of `Debug`.
fn microseconds(text: &str) -> anyhow::Result<f64> {
    let units = [("ns", 1e-3), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
    let (digits, factor) =
        units.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor))).context("no unit")?;
    Ok(digits.parse::<f64>()? * factor)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::figures;

    #[test]
    fn figures_are_read_from_the_text() {
        let text = "an added path: 812.5µs; encoding the virtual host: 1.25ms; ratio 0.65\nthe changed object\n";
        let values: Vec<f64> = figures(text).unwrap().into_iter().map(|(.., value)| value).collect();
        assert_eq!(values, [812.5, 1250.0, 0.65]);
        assert!(figures("").is_err());
    }
}
