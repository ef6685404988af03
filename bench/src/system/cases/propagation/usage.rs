//! What routes cost: CPU time of the Envoys and the controllers, and Lockgate's own account of the time.

use std::collections::BTreeMap;
use std::time::Duration;

use super::install::Installed;
use crate::report::Unit;
use crate::system::cases::Figure;

/// Lockgate's histograms, and the name of their mean in tables.
const HISTOGRAMS: [(&str, &str); 4] = [
    ("lockgate_translation_seconds{}", "to the publication"),
    ("lockgate_xds_push_to_ack_seconds{type=\"Cluster\"}", "to the ACK of a Cluster"),
    ("lockgate_xds_push_to_ack_seconds{type=\"RouteConfiguration\"}", "to the ACK of a RouteConfiguration"),
    ("lockgate_xds_push_to_ack_seconds{type=\"ScopedRouteConfiguration\"}", "to the ACK of a scope"),
];

/// The consumption so far.
pub(super) struct Usage {
    envoys: Duration,
    controllers: Duration,
    /// The sum and the count of each histogram.
    histograms: BTreeMap<&'static str, (f64, f64)>,
}

impl Usage {
    /// Returns the consumption since the start of the cluster.
    ///
    /// # Errors
    /// The metrics are unavailable.
    pub async fn now(installed: &Installed) -> anyhow::Result<Self> {
        let mut histograms = BTreeMap::new();
        for address in &installed.controllers {
            let url = format!("http://{address}:18001/metrics");
            let page = installed.lab.run("curl", &["--silent", "--fail", &url], "").await?;
            for (series, name) in HISTOGRAMS {
                let (metric, labels) = series.split_once('{').unwrap_or_default();
                let labels = if labels == "}" { String::new() } else { format!("{{{labels}") };
                let value = |suffix: &str| {
                    let prefix = format!("{metric}_{suffix}{labels} ");
                    let line = page.lines().find_map(|line| line.strip_prefix(&prefix));
                    line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_default()
                };
                let total: &mut (f64, f64) = histograms.entry(name).or_default();
                *total = (total.0 + value("sum"), total.1 + value("count"));
            }
        }
        let lab = &installed.lab;
        Ok(Self { envoys: lab.cpu("envoy"), controllers: lab.cpu(installed.container), histograms })
    }

    /// Returns the cost of each of `routes` routes since `before`.
    pub fn since(&self, before: &Self, routes: usize) -> Vec<Figure> {
        let each = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() * 1e3 / routes as f64;
        let mut figures = vec![
            ("CPU of the Envoys", Unit::Ms, each(self.envoys, before.envoys)),
            ("CPU of the controllers", Unit::Ms, each(self.controllers, before.controllers)),
        ];
        for (_, name) in HISTOGRAMS {
            let of = |usage: &Self| usage.histograms.get(name).copied().unwrap_or_default();
            let ((sum, count), (old_sum, old_count)) = (of(self), of(before));
            if count > old_count {
                figures.push((name, Unit::Ms, (sum - old_sum) * 1e3 / (count - old_count)));
            }
        }
        figures
    }
}
