//! The cases of the benchmark of the whole system.
//!
//! Cases that need a running controller with a complete client share one per party and size (a [`session`]); the others
//! start their own. A failed case becomes a row with the reason, and the run continues.

mod changes;
mod churn;
mod envoys;
mod fanout;
mod gateways;
mod policies;
mod propagation;
mod proxies;
mod requests;
mod routes;
mod session;
mod shared;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use envoys::Scheme;

use super::cluster::Cluster;
use super::controller::{Choice, Programs, Which};
use super::guard::Guard;
use super::names::FIRST_SPARE;
use super::objects::Kind;
use super::page::{Page, Row};
use crate::report::{Unit, Value};
use crate::wire::Variant;

/// The number of unreferenced Services for new Ingresses.
pub const SPARES: usize = 600;
/// The time limit of a wait.
const LIMIT: Duration = Duration::from_secs(120);

/// A case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Case {
    /// From the start of the process to a complete client.
    Cold,
    /// One new Ingress.
    Ingress,
    /// One change of endpoints.
    Endpoint,
    /// 200 new Ingresses at once.
    Burst,
    /// 100 changes a second.
    Churn,
    /// Memory after these cases.
    Memory,
    /// One change of endpoints for many clients.
    FanOut,
    /// An edit of an Ingress with TLS.
    Edit,
    /// New hosts through real Envoys.
    Envoy,
    /// Requests through a real Envoy.
    Request,
    /// HTTPRoutes: a cold start, new ones, changes of endpoints, memory.
    Routes,
    /// HTTPProxies: a cold start, new ones, changes of included ones and of endpoints, memory.
    Proxies,
    /// Ingresses without and with HTTPPolicies.
    Policies,
    /// Many Gateways.
    Gateways,
    /// A host that many Ingresses share.
    Shared,
    /// The public benchmark of Gateway API, on installed controllers.
    Propagation,
}

impl Case {
    /// All cases in the order of the page.
    pub const ALL: [Self; 16] = [
        Self::Cold,
        Self::Ingress,
        Self::Endpoint,
        Self::Burst,
        Self::Churn,
        Self::Memory,
        Self::FanOut,
        Self::Edit,
        Self::Envoy,
        Self::Request,
        Self::Routes,
        Self::Proxies,
        Self::Policies,
        Self::Gateways,
        Self::Shared,
        Self::Propagation,
    ];

    /// Returns the name on the command line.
    pub fn as_str(self) -> &'static str {
        match self {
            Case::Cold => "cold",
            Case::Ingress => "ingress",
            Case::Endpoint => "endpoint",
            Case::Burst => "burst",
            Case::Churn => "churn",
            Case::Memory => "memory",
            Case::FanOut => "fanout",
            Case::Edit => "tls",
            Case::Envoy => "envoy",
            Case::Request => "request",
            Case::Routes => "routes",
            Case::Proxies => "proxies",
            Case::Policies => "policies",
            Case::Gateways => "gateways",
            Case::Shared => "shared",
            Case::Propagation => "propagation",
        }
    }

    /// Returns the heading.
    pub fn title(self) -> &'static str {
        match self {
            Case::Cold => "Cold start",
            Case::Ingress => "One new Ingress",
            Case::Endpoint => "One endpoint change",
            Case::Burst => "200 new Ingresses at once",
            Case::Churn => "Churn",
            Case::Memory => "Memory",
            Case::FanOut => "Fan-out",
            Case::Edit => "One edit of an Ingress with TLS",
            Case::Envoy => "Through real Envoys",
            Case::Request => "The cost of a request",
            Case::Routes => "HTTPRoutes of Gateway API",
            Case::Proxies => "HTTPProxies",
            Case::Policies => "Ingresses with HTTPPolicies",
            Case::Gateways => "Many Gateways",
            Case::Shared => "One host shared by 1,000 Ingresses",
            Case::Propagation => "The public Gateway API benchmark",
        }
    }

    /// Returns the description of the figures.
    pub fn about(self) -> &'static str {
        match self {
            Case::Cold => {
                "From the start of the process until a client, which retries its connection continuously, has the \
                 endpoints and routes of all Ingresses."
            }
            Case::Ingress => changes::ABOUT_INGRESS,
            Case::Endpoint => changes::ABOUT_ENDPOINT,
            Case::Burst => churn::ABOUT_BURST,
            Case::Churn => churn::ABOUT,
            Case::Memory => {
                "Resident memory of the controller with one client, after the cases above: current and peak."
            }
            Case::FanOut => fanout::ABOUT,
            Case::Edit => changes::ABOUT_EDIT,
            Case::Envoy => envoys::ABOUT,
            Case::Request => requests::ABOUT,
            Case::Routes => routes::ABOUT,
            Case::Proxies => proxies::ABOUT,
            Case::Policies => policies::ABOUT,
            Case::Gateways => gateways::ABOUT,
            Case::Shared => shared::ABOUT,
            Case::Propagation => propagation::ABOUT,
        }
    }

    /// Returns whether the case shares a running controller with others.
    fn in_session(self) -> bool {
        matches!(self, Case::Cold | Case::Ingress | Case::Endpoint | Case::Burst | Case::Churn | Case::Memory)
    }

    /// Returns whether the case is measured at every size.
    fn at_every_size(self) -> bool {
        let with_session = matches!(self, Case::Cold | Case::Ingress | Case::Endpoint | Case::Memory);
        with_session || matches!(self, Case::Routes | Case::Proxies | Case::Policies)
    }
}

/// A controller and the protocol variant of its client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Party {
    /// The name in tables.
    pub name: &'static str,
    /// Which controller.
    pub which: Which,
    /// The variant of the protocol.
    pub variant: Variant,
    /// The value of `routes.discovery` for Lockgate.
    pub routes: Option<&'static str>,
    /// Whether it is the other build of a comparison.
    pub against: bool,
}

const fn party(name: &'static str, which: Which, variant: Variant, routes: Option<&'static str>) -> Party {
    Party { name, which, variant, routes, against: false }
}

/// Lockgate with the variant of its bootstrap.
pub const LOCKGATE: Party = party("Lockgate", Which::Lockgate, Variant::Delta, None);
/// Contour with the variant of its bootstrap.
pub const CONTOUR: Party = party("Contour", Which::Contour, Variant::Sotw, None);
/// Envoy Gateway with the variant of its bootstrap. It serves no Ingresses.
pub const ENVOY_GATEWAY: Party = party("Envoy Gateway", Which::EnvoyGateway, Variant::Delta, None);
/// Another build of Lockgate.
pub const AGAINST: Party =
    Party { name: "other build", which: Which::Lockgate, variant: Variant::Delta, routes: None, against: true };
/// The other variants, for comparison.
pub const OTHERS: [Party; 2] = [
    party("Lockgate, SotW", Which::Lockgate, Variant::Sotw, None),
    party("Contour, Delta", Which::Contour, Variant::Delta, None),
];

/// The modes of route discovery for real Envoys, in the order of the page.
pub const MODES: [Party; 3] = [
    party("Lockgate", Which::Lockgate, Variant::Delta, None),
    party("Lockgate, rds", Which::Lockgate, Variant::Delta, Some("rds")),
    party("Lockgate, vhds", Which::Lockgate, Variant::Delta, Some("vhds")),
];

/// The limits of a series.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// The time after which no more begins.
    pub time: Duration,
    /// The minimum number, however long it takes.
    pub fewest: usize,
}

/// The options of a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// How many Ingresses there are.
    pub sizes: Vec<usize>,
    /// The size of the cases that are measured at one size only.
    pub main: usize,
    /// The cases.
    pub cases: Vec<Case>,
    /// The parties.
    pub parties: Vec<Party>,
    /// Numbers of clients for the fan-out.
    pub clients: Vec<usize>,
    /// Numbers of real Envoys.
    pub envoys: Vec<usize>,
    /// The duration of the churn, in seconds.
    pub churn_seconds: u64,
    /// The limits of a series of single changes, or of rounds of requests.
    pub budget: Budget,
    /// The number of rounds.
    pub rounds: usize,
    /// The number of Gateways in [`Case::Gateways`].
    pub gateways: usize,
    /// The numbers of routes in [`Case::Propagation`], ascending.
    pub routes: Vec<usize>,
    /// The original program `probe` of the public benchmark, which then replaces [`Case::Propagation`]'s own.
    pub probe: Option<PathBuf>,
    /// The programs.
    pub programs: Programs,
    /// The manifest of Contour's resource types.
    pub contour_types: Option<PathBuf>,
    /// Directories of the resource types of Gateway API and Envoy Gateway. Without them, cases with Gateways do not
    /// run.
    pub gateway_types: Vec<PathBuf>,
    /// The directory of the resource types of Lockgate.
    pub own_types: Option<PathBuf>,
}

/// A metric, its unit, and its value.
pub type Figure = (&'static str, Unit, f64);

/// Runs all cases, and calls `written` whenever the page has grown.
///
/// # Errors
/// The API server does not start or refuses objects.
pub async fn run(options: &Options, page: &mut Page, mut written: impl FnMut(&Page)) -> anyhow::Result<()> {
    if options.cases.contains(&Case::Propagation) {
        // Before the others, whose API server would share the cores.
        propagation::run(options, &Guard::start()?, page, &mut written).await;
        if options.cases == [Case::Propagation] {
            return Ok(());
        }
    }
    let mut bench = Bench::start(options.clone()).await?;
    let mut filled = 0;
    for &size in &options.sizes {
        let started = Instant::now();
        bench.cluster.fill(&Kind::ALL, filled..size, false).await?;
        filled = size;
        bench.say(&format!("{size} Ingresses, Services and EndpointSlices ({:.1} s)", started.elapsed().as_secs_f64()));
        for party in bench.turns() {
            bench.session(&party, size, page).await;
            written(page);
        }
        if size == options.main {
            for &clients in &options.clients {
                for party in bench.turns() {
                    bench.fan_out(&party, size, clients, page).await;
                    written(page);
                }
            }
            bench.edits_with_tls(size, page, &mut written).await;
            bench.through_envoys(size, page, &mut written).await;
        }
        // The issue of interest is the growth to the main size; what is beyond it takes others too long.
        if (options.main / 10..=options.main).contains(&size) {
            bench.routes_and_gateways(size, page, &mut written).await;
            bench.all_proxies(size, page, &mut written).await;
            bench.all_policies(size, page, &mut written).await;
        }
    }
    if options.cases.contains(&Case::Shared) {
        bench.shared_host(page).await;
        written(page);
    }
    Ok(())
}

/// The cluster and the page so far.
struct Bench {
    options: Options,
    cluster: Cluster,
    guard: Guard,
    started: Instant,
    /// The number of the next change of endpoints. Numbers are unique, because changes stay in the cluster.
    change: usize,
}

impl Bench {
    async fn start(options: Options) -> anyhow::Result<Self> {
        let (started, guard) = (Instant::now(), Guard::start()?);
        let mut cluster =
            Cluster::start(options.contour_types.as_deref(), &options.gateway_types, options.own_types.as_deref())
                .await?;
        cluster.fill(&[Kind::Service, Kind::EndpointSlice], FIRST_SPARE..FIRST_SPARE + SPARES, false).await?;
        let bench = Self { options, cluster, guard, started, change: 0 };
        bench.say("the API server is up");
        Ok(bench)
    }

    fn say(&self, what: &str) {
        eprintln!("== [{:.0} s] {what}", self.started.elapsed().as_secs_f64());
    }

    /// Returns the parties of cases with Ingresses in order.
    fn turns(&self) -> Vec<Party> {
        let parties = self.options.parties.iter().filter(|party| party.which != Which::EnvoyGateway).cloned();
        self.rounds_of(&parties.collect::<Vec<_>>())
    }

    /// Returns the parties of all rounds in order.
    fn rounds_of(&self, parties: &[Party]) -> Vec<Party> {
        rounds_of(parties, self.options.rounds)
    }

    /// Returns the parties with real Envoys: Lockgate in each mode, and Contour; or two builds of Lockgate.
    fn with_envoys(&self) -> Vec<Party> {
        if self.options.parties.contains(&AGAINST) {
            let is_build = |party: &&Party| [LOCKGATE, AGAINST].contains(party);
            return self.options.parties.iter().filter(is_build).cloned().collect();
        }
        let has = |which| self.options.parties.iter().any(|party| party.which == which);
        let mut parties: Vec<Party> = if has(Which::Lockgate) { MODES.to_vec() } else { Vec::new() };
        parties.extend(has(Which::Contour).then_some(CONTOUR));
        parties
    }

    /// Measures real Envoys at the main size without and with TLS. For TLS, all Ingresses are changed and changed back.
    async fn through_envoys(&mut self, size: usize, page: &mut Page, written: &mut impl FnMut(&Page)) {
        let (hosts, requests) = (self.wants(Case::Envoy, size), self.wants(Case::Request, size));
        if !hosts && !requests {
            return;
        }
        let parties = self.with_envoys();
        for count in if hosts { self.options.envoys.clone() } else { Vec::new() } {
            for party in self.rounds_of(&parties) {
                self.envoys(&party, size, count, Scheme::Http, page).await;
                written(page);
            }
        }
        // The proxies of one run take turns.
        let runs = if requests { self.options.rounds } else { 0 };
        for _ in 0..runs {
            self.requests(&parties, size, Scheme::Http, page).await;
            written(page);
        }
        for secure in [true, false] {
            if let Err(error) = self.guard.clone().over(self.cluster.fill(&[Kind::Ingress], 0..size, secure)).await {
                return self.say(&format!("the Ingresses cannot be changed: {error:#}"));
            }
            if !secure {
                continue;
            }
            let with_tls: Vec<Party> =
                parties.iter().filter(|party| [LOCKGATE, AGAINST].contains(party)).cloned().collect();
            for party in self.rounds_of(if hosts { &with_tls } else { &[] }) {
                self.envoys(&party, size, 1, Scheme::Https, page).await;
                written(page);
            }
            for _ in 0..runs {
                self.requests(&parties, size, Scheme::Https, page).await;
                written(page);
            }
        }
    }

    /// Measures edits while all Ingresses have TLS; they are changed and changed back.
    async fn edits_with_tls(&mut self, size: usize, page: &mut Page, written: &mut impl FnMut(&Page)) {
        if !self.wants(Case::Edit, size) {
            return;
        }
        for secure in [true, false] {
            if let Err(error) = self.guard.clone().over(self.cluster.fill(&[Kind::Ingress], 0..size, secure)).await {
                return self.say(&format!("the Ingresses cannot be changed: {error:#}"));
            }
            let parties = if secure { self.turns() } else { Vec::new() };
            for party in &parties {
                let started = Instant::now();
                let figures = self.guard.clone().over(self.edits(party, size)).await;
                self.note(page, Case::Edit, (size, format!("{} with TLS", short(size))), party.name, started, figures);
                written(page);
            }
        }
    }

    fn wants(&self, case: Case, size: usize) -> bool {
        self.options.cases.contains(&case) && (size == self.options.main || case.at_every_size())
    }

    fn choice(party: &Party) -> Choice {
        Choice {
            settings: party.routes.map(|routes| format!("routes: {{ discovery: {routes} }}\n")).unwrap_or_default(),
            against: party.against,
            gateways: false,
            many_statuses: false,
        }
    }

    /// Records and prints the result of a case.
    fn note(
        &self,
        page: &mut Page,
        case: Case,
        setting: (usize, String),
        party: &'static str,
        started: Instant,
        figures: anyhow::Result<Vec<Figure>>,
    ) {
        note(page, case, setting, party, started, figures);
    }
}

/// Returns the parties of all rounds in order. Every other round is reversed, so that a machine that slows down favors no
/// party.
fn rounds_of(parties: &[Party], rounds: usize) -> Vec<Party> {
    let mut turns = Vec::new();
    for round in 0..rounds {
        let parties = parties.iter().cloned();
        if round % 2 == 0 { turns.extend(parties) } else { turns.extend(parties.rev()) }
    }
    turns
}

/// Records and prints the result of a case.
fn note(
    page: &mut Page,
    case: Case,
    (size, setting): (usize, String),
    party: &'static str,
    started: Instant,
    figures: anyhow::Result<Vec<Figure>>,
) {
    let row = |metric, value| Row { case, size, setting: setting.clone(), party, metric, value };
    let rows = match figures {
        Ok(figures) => {
            figures.into_iter().map(|(metric, unit, value)| row(metric, Value::Number(value, unit))).collect()
        }
        Err(error) => vec![row("result", Value::Note(format!("not measured: {error:#}")))],
    };
    let told: Vec<String> = rows.iter().map(|row| format!("{} {}", row.metric, row.value)).collect();
    let took = started.elapsed().as_secs_f64();
    eprintln!("  {party:<14} {:<9} {setting} ({took:.1} s): {}", case.as_str(), told.join(", "));
    page.rows.extend(rows);
}

/// Formats 1000 as `1k`.
pub fn short(number: usize) -> String {
    if number >= 1000 && number.is_multiple_of(1000) { format!("{}k", number / 1000) } else { number.to_string() }
}

const MIB: f64 = 1024.0 * 1024.0;
