//! `make bench`: the whole system, beside Contour and Envoy Gateway. Prints and writes the figures.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use bench::machine;
use bench::system::cases::{self, AGAINST, Budget, CONTOUR, Case, ENVOY_GATEWAY, LOCKGATE, OTHERS, Options};
use bench::system::controller::{Programs, Which};
use bench::system::page::Page;
use clap::Parser;

/// Benchmarks of the whole system, beside Contour and Envoy Gateway.
#[derive(Parser)]
struct Arguments {
    /// Contour's program.
    #[arg(long, requires = "contour_types")]
    contour: Option<PathBuf>,
    /// The manifest of Contour's resource types.
    #[arg(long)]
    contour_types: Option<PathBuf>,
    /// The program of Envoy Gateway.
    #[arg(long, requires = "gateway_types")]
    envoy_gateway: Option<PathBuf>,
    /// Directories of manifests: the resource types of Gateway API, and of Envoy Gateway.
    #[arg(long, value_delimiter = ',')]
    gateway_types: Vec<PathBuf>,
    /// The directory of the resource types of Lockgate, for the case `policies`.
    #[arg(long)]
    own_types: Option<PathBuf>,
    /// nginx, for the cost of a request.
    #[arg(long)]
    nginx: Option<PathBuf>,
    /// The benchmark of a host that many Ingresses share.
    #[arg(long)]
    shared_host: Option<PathBuf>,
    /// The numbers of routes of the case `propagation`: 1k,3k,10k. Other controllers are measured up to 3k.
    #[arg(long, value_delimiter = ',', value_parser = number, default_value = "1k,3k,10k")]
    routes: Vec<usize>,
    /// The original program `probe` of the public Gateway API benchmark. The case `propagation` runs it instead of its own tests.
    #[arg(long)]
    probe: Option<PathBuf>,
    /// Another build of Lockgate, to be compared with this one: the same cases by turns.
    #[arg(long)]
    against: Option<PathBuf>,
    /// How often each party takes its turn: 3 for a comparison, 1 otherwise.
    #[arg(long)]
    rounds: Option<usize>,
    /// Numbers of Ingresses, ascending: 100,1k,10k,50k.
    #[arg(long, value_delimiter = ',', value_parser = number, default_value = "100,1k,10k,50k")]
    sizes: Vec<usize>,
    /// The size at which everything is measured.
    #[arg(long, value_parser = number, default_value = "10k")]
    main: usize,
    /// Only these cases, e.g. ingress,endpoint.
    #[arg(long, value_delimiter = ',')]
    cases: Vec<String>,
    /// Only these parties: lockgate, contour, envoy-gateway; and others: lockgate-sotw, contour-delta.
    #[arg(long, value_delimiter = ',')]
    who: Vec<String>,
    /// Numbers of clients for the fan-out.
    #[arg(long, value_delimiter = ',', default_value = "100,500")]
    clients: Vec<usize>,
    /// Numbers of real Envoys.
    #[arg(long, value_delimiter = ',', default_value = "1,5")]
    envoys: Vec<usize>,
    /// How long the churn lasts.
    #[arg(long, default_value_t = 60)]
    churn_seconds: u64,
    /// How long a series of single changes may take, in seconds.
    #[arg(long, default_value_t = 10.0)]
    budget: f64,
    /// Where to write the page, with its plots in a directory `docs/plots` beside it; nowhere if not given.
    #[arg(long)]
    output: Option<PathBuf>,
}

/// Where the plots are, beside the page.
const PLOTS: &str = "docs/plots";

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    machine::run(run(arguments))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let started = Instant::now();
    let options = options(&arguments)?;
    // Of paths their names: where something is says nothing to others.
    let name = |word: String| Path::new(&word).file_name().map_or(word.clone(), |name| name.to_string_lossy().into());
    let facts = machine::system_facts(&std::env::args().skip(1).map(name).collect::<Vec<String>>().join(" "));
    eprint!("{facts}");
    let mut page = Page { facts, main: options.main, ..Page::default() };
    let write = |page: &Page| {
        if let Some(output) = &arguments.output
            && let Err(error) = save(page, output)
        {
            eprintln!("{error:#}");
        }
    };
    let result = cases::run(&options, &mut page, write).await;
    write(&page);
    for case in Case::ALL {
        let table = page.table(case);
        if !table.is_empty() && arguments.against.is_none() {
            println!("\n{}\n{table}", case.title());
        }
    }
    let comparison = page.comparison();
    if comparison.is_empty() {
        println!("\nTargets\n{}", page.targets());
    } else {
        println!("\nThis build and the other one\n\n{comparison}");
    }
    println!("{}", page.failures());
    eprintln!("== [{:.0} s] done", started.elapsed().as_secs_f64());
    result
}

fn options(arguments: &Arguments) -> anyhow::Result<Options> {
    let mut cases = Vec::new();
    for name in &arguments.cases {
        let case = Case::ALL.into_iter().find(|case| case.as_str() == name);
        cases.push(case.with_context(|| format!("there is no case {name:?}"))?);
    }
    if cases.is_empty() && arguments.against.is_some() {
        cases.extend([Case::Cold, Case::Ingress, Case::Endpoint, Case::FanOut, Case::Edit]);
    } else if cases.is_empty() {
        cases.extend(Case::ALL);
    }
    let known = [
        ("lockgate", LOCKGATE),
        ("contour", CONTOUR),
        ("envoy-gateway", ENVOY_GATEWAY),
        ("lockgate-sotw", OTHERS[0].clone()),
        ("contour-delta", OTHERS[1].clone()),
    ];
    // Builds of Lockgate are compared without others.
    let usual: &[&str] =
        if arguments.against.is_some() { &["lockgate"] } else { &["lockgate", "contour", "envoy-gateway"] };
    let mut parties = Vec::new();
    for (name, party) in &known {
        let chosen =
            if arguments.who.is_empty() { usual.contains(name) } else { arguments.who.iter().any(|who| who == name) };
        let there = match party.which {
            Which::Lockgate => true,
            Which::Contour => arguments.contour.is_some(),
            Which::EnvoyGateway => arguments.envoy_gateway.is_some(),
        };
        if chosen && there {
            parties.push(party.clone());
        }
    }
    parties.extend(arguments.against.is_some().then_some(AGAINST));
    ensure!(!parties.is_empty(), "there is nobody to be measured");
    let mut routes = arguments.routes.clone();
    routes.sort_unstable();
    let mut sizes = arguments.sizes.clone();
    sizes.sort_unstable();
    let main = if sizes.contains(&arguments.main) { arguments.main } else { sizes.last().copied().unwrap_or_default() };
    Ok(Options {
        sizes,
        main,
        cases,
        parties,
        clients: arguments.clients.clone(),
        envoys: arguments.envoys.clone(),
        churn_seconds: arguments.churn_seconds,
        budget: Budget { time: Duration::from_secs_f64(arguments.budget), fewest: 5 },
        rounds: arguments.rounds.unwrap_or(if arguments.against.is_some() { 3 } else { 1 }),
        gateways: 100,
        routes,
        probe: arguments.probe.clone(),
        programs: Programs {
            against: arguments.against.clone(),
            contour: arguments.contour.clone(),
            envoy_gateway: arguments.envoy_gateway.clone(),
            nginx: arguments.nginx.clone(),
            shared_host: arguments.shared_host.clone(),
        },
        contour_types: arguments.contour_types.clone(),
        gateway_types: arguments.gateway_types.clone(),
        own_types: arguments.own_types.clone(),
    })
}

fn save(page: &Page, output: &Path) -> anyhow::Result<()> {
    let directory = output.parent().unwrap_or(Path::new("")).join(PLOTS);
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
    let mut pictures = Vec::new();
    for (name, title, svg) in page.plots() {
        let path = directory.join(name);
        std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
        pictures.push((format!("{PLOTS}/{name}"), title));
    }
    std::fs::write(output, page.text(&pictures)).with_context(|| format!("cannot write {}", output.display()))
}

/// `10k` as 10,000.
fn number(text: &str) -> anyhow::Result<usize> {
    let (digits, times) = text.strip_suffix('k').map_or((text, 1), |digits| (digits, 1000));
    match digits.parse::<usize>() {
        Ok(number) => Ok(number * times),
        Err(_) => bail!("no number: {text:?}"),
    }
}
