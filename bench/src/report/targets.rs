//! What was to be reached.

use super::{Report, Unit, Value};
use crate::peer::Server;

/// A target: a figure of ours, and its bound.
pub struct Target {
    id: &'static str,
    setting: &'static str,
    metric: &'static str,
    unit: Unit,
    bound: Bound,
}

enum Bound {
    /// At most this.
    AtMost(f64),
    /// The better of the others takes at least so many times as long.
    Faster(f64),
    /// At most so much more, in parts, than this other figure of ours.
    Near(&'static str, f64),
}

const DELTA_10K_100: &str = "Delta, R=10k, N=100";
const DELTA_1K_1000: &str = "Delta, R=1k, N=1k";
const CHURN: &str = "Delta, R=10k, N=100, 100/s for 10 s";

const fn target(id: &'static str, setting: &'static str, metric: &'static str, unit: Unit, bound: Bound) -> Target {
    Target { id, setting, metric, unit, bound }
}

const NACKS: &str = "messages after the NACKs, per second";
const NOOPS: &str = "messages per 1000 updates";

/// All of them.
pub const TARGETS: &[Target] = &[
    target("B2", DELTA_10K_100, "p99", Unit::Ms, Bound::AtMost(5.0)),
    target("B2", DELTA_10K_100, "CPU per change", Unit::Ms, Bound::AtMost(4.0)),
    target("B2", DELTA_1K_1000, "p99", Unit::Ms, Bound::AtMost(40.0)),
    target("B2", DELTA_1K_1000, "CPU per change", Unit::Ms, Bound::AtMost(30.0)),
    target("B2", DELTA_1K_1000, "RSS", Unit::MiB, Bound::AtMost(150.0)),
    target("B1", "Delta, R=100k, N=10", "all have all", Unit::Ms, Bound::Faster(3.0)),
    target("B1", "SotW, R=100k, N=10", "all have all", Unit::Ms, Bound::Faster(3.0)),
    target("B5", "Delta, R=1k, N=100", NOOPS, Unit::Count, Bound::AtMost(0.0)),
    target("B5", "SotW, R=1k, N=100", NOOPS, Unit::Count, Bound::AtMost(0.0)),
    target("B6", DELTA_1K_1000, "resource bytes in all", Unit::KiB, Bound::AtMost(1.0)),
    target("B7", CHURN, "staleness p99, one stalled", Unit::Ms, Bound::Near("staleness p99, all read", 0.25)),
    target("B7", CHURN, "growth of RSS", Unit::MiB, Bound::AtMost(4.0)),
    target("B8", "EDS Delta, R=100, N=100", NACKS, Unit::Count, Bound::AtMost(0.0)),
    target("B8", "EDS SotW, R=100, N=100", NACKS, Unit::Count, Bound::AtMost(0.0)),
    target("B8", "CDS Delta, R=100, N=100", NACKS, Unit::Count, Bound::AtMost(0.0)),
    target("B8", "CDS SotW, R=100, N=100", NACKS, Unit::Count, Bound::AtMost(0.0)),
];

impl Target {
    /// Benchmark, target, what was reached, what the better of the others has, whether it is met.
    pub fn row(&self, report: &Report) -> [String; 5] {
        let Target { id, setting, metric, unit, .. } = *self;
        let shown = |value: Option<f64>| value.map_or("not measured".into(), |v| Value::Number(v, unit).to_string());
        let own = report.number(id, Server::Lockgate, setting, metric);
        let other = report.better(id, setting, metric);
        let (wanted, met) = match self.bound {
            Bound::AtMost(bound) => (format!("≤ {}", Value::Number(bound, unit)), own.map(|own| own <= bound)),
            Bound::Faster(times) => {
                (format!("{times}× faster"), own.zip(other).map(|(own, other)| own * times <= other))
            }
            Bound::Near(like, parts) => {
                let like_value = report.number(id, Server::Lockgate, setting, like);
                let wanted = format!("as \"{like}\" ({})", shown(like_value));
                (wanted, own.zip(like_value).map(|(own, like)| own <= like * (1.0 + parts)))
            }
        };
        let met = met.map_or("–", |met| if met { "yes" } else { "no" });
        [format!("{id}, {setting}: {metric}"), wanted, shown(own), shown(other), met.into()]
    }
}
