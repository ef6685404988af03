//! Targets of the benchmark.

use super::{Page, shown};
use crate::report::{Unit, Value, ratio};
use crate::system::cases::{CONTOUR, Case, LOCKGATE, short};

struct Target {
    case: Case,
    /// The suffix of the setting, after the size.
    setting: &'static str,
    metric: &'static str,
    unit: Unit,
    bound: f64,
    title: &'static str,
}

const fn target(
    title: &'static str,
    case: Case,
    setting: &'static str,
    metric: &'static str,
    unit: Unit,
    bound: f64,
) -> Target {
    Target { case, setting, metric, unit, bound, title }
}

const TARGETS: &[Target] = &[
    target("new Ingress to bytes at the client, p50", Case::Ingress, "", "p50", Unit::Ms, 4.0),
    target("new Ingress to bytes at the client, p99", Case::Ingress, "", "p99", Unit::Ms, 12.0),
    target("new Ingress, CPU", Case::Ingress, "", "CPU", Unit::Ms, 2.0),
    target("new Ingress, bytes", Case::Ingress, "", "bytes", Unit::KiB, 2.0),
    target("endpoint change, p50", Case::Endpoint, "", "p50", Unit::Ms, 2.0),
    target("endpoint change, p99", Case::Endpoint, "", "p99", Unit::Ms, 6.0),
    target("endpoint change, CPU", Case::Endpoint, "", "CPU", Unit::Ms, 0.5),
    target("cold start to a complete client", Case::Cold, "", "complete client", Unit::Ms, 800.0),
    target("peak RSS", Case::Memory, "", "peak RSS", Unit::MiB, 120.0),
    target("fan-out to 100 clients, last one, p50", Case::FanOut, " × 100 clients", "p50", Unit::Ms, 5.0),
    target("fan-out to 100 clients, CPU", Case::FanOut, " × 100 clients", "CPU", Unit::Ms, 5.0),
    target("fan-out to 100 clients, RSS", Case::FanOut, " × 100 clients", "RSS", Unit::MiB, 150.0),
    target("fan-out to 500 clients, last one, p50", Case::FanOut, " × 500 clients", "p50", Unit::Ms, 15.0),
    target("fan-out to 500 clients, CPU", Case::FanOut, " × 500 clients", "CPU", Unit::Ms, 15.0),
    target("fan-out to 500 clients, RSS", Case::FanOut, " × 500 clients", "RSS", Unit::MiB, 300.0),
    target("new Ingress to the first 200 through an Envoy", Case::Envoy, " http × 1 Envoy", "p50", Unit::Ms, 10.0),
    target("new TLS host to the first 200 through an Envoy", Case::Envoy, " https × 1 Envoy", "p50", Unit::Ms, 15.0),
];

/// The maximum cost of an added path of a shared host, relative to encoding the host.
const SHARED_HOST: f64 = 2.0;

/// Two sizes, and the maximum growth of the cost of a change between them.
const GROWTH: (usize, usize, f64) = (1_000, 50_000, 1.3);

/// The rows of the table.
pub(super) fn rows(page: &Page) -> Vec<[String; 6]> {
    let met = |value: Option<f64>, bound: f64| match value {
        None => "–".into(),
        Some(value) => if value <= bound { "yes" } else { "no" }.to_owned(),
    };
    let mut rows = Vec::new();
    for target in TARGETS {
        let setting = short(page.main) + target.setting;
        let of = |party: &str| page.number(target.case, &setting, party, target.metric);
        let (own, other) = (of(LOCKGATE.name), of(CONTOUR.name));
        rows.push([
            target.title.into(),
            format!("≤ {}", Value::Number(target.bound, target.unit)),
            shown(own, target.unit),
            shown(other, target.unit),
            ratio(own, other),
            met(own, target.bound),
        ]);
    }
    let shared = page.number(Case::Shared, "1k Ingresses", LOCKGATE.name, "ratio");
    rows.push([
        "an added path of a host shared by 1,000 Ingresses ÷ encoding the host".into(),
        format!("≤ {SHARED_HOST}×"),
        shared.map_or("not measured".into(), |ratio| format!("{ratio:.2}×")),
        "–".into(),
        "–".into(),
        met(shared, SHARED_HOST),
    ]);
    for (title, case) in [("new Ingress", Case::Ingress), ("endpoint change", Case::Endpoint)] {
        let (from, to, bound) = GROWTH;
        let growth = |party: &str| {
            let of = |size| page.number(case, &short(size), party, "CPU").filter(|cpu| *cpu > 0.0);
            Some(of(to)? / of(from)?)
        };
        let (own, other) = (growth(LOCKGATE.name), growth(CONTOUR.name));
        let times = |value: Option<f64>| value.map_or("not measured".into(), |value| format!("{value:.2}×"));
        rows.push([
            format!("growth of the CPU of one {title}, from {} to {} Ingresses", short(from), short(to)),
            format!("≤ {bound}×"),
            times(own),
            times(other),
            ratio(own, other),
            met(own, bound),
        ]);
    }
    rows
}
