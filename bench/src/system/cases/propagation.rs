//! The tests of the public Gateway API benchmark, with each controller as its users install it.

mod install;
mod objects;
mod original;
mod requests;
mod suite;
mod usage;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use e2e::Target;

use self::install::{Installed, install};
use self::objects::{Kind, backend};
use self::requests::Clients;
use self::suite::{Attached, CHANGES, Changed, Sample};
use self::usage::Usage;
use super::{Case, Figure, OTHERS, Options, Party, note, rounds_of, short};
use crate::report::Unit;
use crate::stats::{ms, percentile};
use crate::system::controller::Which;
use crate::system::guard::Guard;
use crate::system::page::Page;

pub const ABOUT: &str = "\
    The tests `probe`, `routechange`, and `attachedroutes` of the [public Gateway API \
    benchmark](https://github.com/howardjohn/gateway-api-bench), restated: the same objects, the same order, the same \
    measure. Each controller runs in a cluster of its own with real Envoys (`e2e/lab`), as its documentation installs it: \
    Lockgate by its chart with the defaults (two controllers, two Envoys). A request reaches one of the Envoys by the address \
    of the Gateway; for Ingresses, of the Service. `probe`: routes are created one after another, and all stay. The time counts \
    from the API server's answer until the first 200 on a persistent connection, with 5 ms between two attempts. Answers other \
    than 404 and 200 are errors. \"first 100\" and \"last 100\" are means of the first and of the last routes of a series. \
    The rows \"to the ACK\" and \"CPU\" are means of the last 100 routes: the time from a response of the controller until an \
    Envoy has accepted it, and the CPU time of all Envoys and of all controllers for one route. `routechange`: a route changes \
    its backend 20 times, every 200 ms, while requests follow each other on one connection. `attachedroutes`: routes with \
    Services are created, and deleted again. \"all added\" counts from the answer to the last creation until the status of the \
    Gateway has their number, \"all removed\" from the first deletion until it has none.";

/// The maximum number of routes for other controllers.
const MOST_OF_OTHERS: usize = 3_000;
/// The number of routes in "first 100" and "last 100".
const HUNDRED: usize = 100;

/// The test and the number of routes, as in tables.
type Setting = String;

/// Runs the case for all parties, each in clusters of its own.
pub(super) async fn run(options: &Options, guard: &Guard, page: &mut Page, mut written: impl FnMut(&Page)) {
    // The protocol variant is that of the installation.
    let parties: Vec<Party> = options.parties.iter().filter(|party| !OTHERS.contains(party)).cloned().collect();
    for party in rounds_of(&parties, options.rounds) {
        for kind in Kind::ALL {
            if kind == Kind::Ingress && (party.which == Which::EnvoyGateway || options.probe.is_some()) {
                continue;
            }
            let started = Instant::now();
            let result = guard.over(propagation(options, &party, kind)).await;
            record(page, &party, kind.as_str(), started, result);
            written(page);
        }
        for count in sizes(options, &party) {
            if options.probe.is_some() {
                continue;
            }
            let started = Instant::now();
            let figures = guard.over(attached(options, &party, count)).await;
            let setting = format!("attachedroutes, {} HTTPRoutes", short(count));
            record(page, &party, &setting.clone(), started, figures.map(|figures| vec![(setting, figures)]));
            written(page);
        }
    }
}

fn record(
    page: &mut Page,
    party: &Party,
    name: &str,
    started: Instant,
    result: anyhow::Result<Vec<(Setting, Vec<Figure>)>>,
) {
    let all = match result {
        Ok(all) => all.into_iter().map(|(setting, figures)| (setting, Ok(figures))).collect(),
        Err(error) => vec![(name.to_owned(), Err(error))],
    };
    for (setting, figures) in all {
        note(page, Case::Propagation, (0, setting), party.name, started, figures);
    }
}

/// Returns the numbers of routes of a party in ascending order.
fn sizes(options: &Options, party: &Party) -> Vec<usize> {
    let most = if party.which == Which::Lockgate { usize::MAX } else { MOST_OF_OTHERS };
    options.routes.iter().copied().filter(|routes| *routes <= most).collect()
}

/// Measures `routechange` and `probe` in one cluster.
async fn propagation(options: &Options, party: &Party, kind: Kind) -> anyhow::Result<Vec<(Setting, Vec<Figure>)>> {
    let sizes = sizes(options, party);
    // The thread in the cluster's network must not remove the cluster, so it has no last reference.
    let installed = Arc::new(install(options, party, kind).await?);
    installed.lab.apply(&backend()).await?;
    installed.lab.rolled_out("default", "deployment/backend").await?;
    if let Some(program) = &options.probe {
        let most = sizes.last().copied().unwrap_or_default();
        let samples = original::probe(&installed.lab, program, most).await?;
        return sizes.into_iter().map(|size| row_of(kind, size, &samples, &BTreeMap::new())).collect();
    }
    let access = installed.lab.access()?;
    let clients = (access.api(), Target::http(80, "proxy").at(installed.address));
    let shared = installed.clone();
    access
        .inside(move || async move {
            let mut clients = Clients::new(clients.0, clients.1);
            measured(&shared, kind, &sizes, &mut clients).await
        })
        .await
}

/// Measures `routechange` and `probe` inside of the cluster's network.
async fn measured(
    installed: &Installed,
    kind: Kind,
    sizes: &[usize],
    clients: &mut Clients,
) -> anyhow::Result<Vec<(Setting, Vec<Figure>)>> {
    // It comes first, and its route stays: Contour has no listener without routes.
    let changed = suite::route_change(kind, installed.class, clients).await?;
    let mut all = vec![(format!("routechange, {}", kind.as_str()), figures_of_change(changed))];
    let (mut samples, mut usages) = (Vec::new(), BTreeMap::new());
    for &size in sizes {
        // The cost of the last routes is measured.
        let from = size.saturating_sub(HUNDRED).max(samples.len());
        samples.extend(suite::probe(kind, installed.class, samples.len()..from, clients).await?);
        let before = Usage::now(installed).await?;
        samples.extend(suite::probe(kind, installed.class, from..size, clients).await?);
        usages.insert(size, Usage::now(installed).await?.since(&before, size - from));
        all.push(row_of(kind, size, &samples, &usages)?);
    }
    Ok(all)
}

/// Returns the figures of the first `size` routes.
fn row_of(
    kind: Kind,
    size: usize,
    samples: &[Sample],
    usages: &BTreeMap<usize, Vec<Figure>>,
) -> anyhow::Result<(Setting, Vec<Figure>)> {
    ensure!(samples.len() >= size, "{} routes instead of {size} were served", samples.len());
    let samples = &samples[..size];
    let mean = |samples: &[Sample]| {
        let total: Duration = samples.iter().map(|sample| sample.latency).sum();
        total.as_secs_f64() * 1e3 / samples.len().max(1) as f64
    };
    let nanoseconds: Result<Vec<u64>, _> = samples.iter().map(|sample| sample.latency.as_nanos().try_into()).collect();
    let mut nanoseconds = nanoseconds.context("a latency")?;
    let mut figures = vec![
        ("mean", Unit::Ms, mean(samples)),
        ("p99", Unit::Ms, ms(percentile(&mut nanoseconds, 0.99))),
        ("first 100", Unit::Ms, mean(&samples[..HUNDRED.min(size)])),
        ("last 100", Unit::Ms, mean(&samples[size.saturating_sub(HUNDRED)..])),
        ("errors", Unit::Count, samples.iter().map(|sample| sample.errors).sum::<usize>() as f64),
    ];
    figures.extend(usages.get(&size).into_iter().flatten().copied());
    Ok((format!("probe, {} {}", short(size), plural(kind)), figures))
}

fn plural(kind: Kind) -> &'static str {
    match kind {
        Kind::HttpRoute => "HTTPRoutes",
        Kind::Ingress => "Ingresses",
    }
}

fn figures_of_change(changed: Changed) -> Vec<Figure> {
    vec![
        ("changes", Unit::Count, CHANGES as f64),
        ("requests", Unit::Count, changed.requests as f64),
        ("errors", Unit::Count, changed.errors as f64),
    ]
}

/// Measures `attachedroutes`.
async fn attached(options: &Options, party: &Party, count: usize) -> anyhow::Result<Vec<Figure>> {
    let Installed { lab, .. } = install(options, party, Kind::HttpRoute).await?;
    let access = lab.access()?;
    let api = access.api();
    let result =
        access.inside(move || async move { suite::attached_routes(count, &mut requests::Client::new(api)).await });
    let Attached { added, removed, writes } = result.await?;
    Ok(vec![
        ("all added", Unit::Ms, added.as_secs_f64() * 1e3),
        ("all removed", Unit::Ms, removed.as_secs_f64() * 1e3),
        ("status writes", Unit::Count, writes),
    ])
}
