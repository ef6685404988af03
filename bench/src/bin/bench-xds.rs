//! `make bench-xds`: starts the servers one after the other, is their clients, prints and writes what it measured.

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, ensure};
use bench::cases::{self, CASES, Options, Scale};
use bench::machine;
use bench::peer::{Programs, Server};
use bench::report::Report;
use clap::Parser;

/// Benchmarks of the xDS server against go-control-plane.
#[derive(Parser)]
struct Arguments {
    /// The built `bench/go-control-plane`.
    #[arg(long)]
    go_control_plane: PathBuf,
    /// Only these benchmarks, e.g. B2,B2s.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only these servers: lockgate, linear, snapshot.
    #[arg(long, value_delimiter = ',')]
    servers: Vec<String>,
    /// Only settings whose title has this in it, e.g. "R=10k, N=100".
    #[arg(long, default_value = "")]
    setting: String,
    /// Small sizes, a few minutes.
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// The largest sizes too.
    #[arg(long)]
    full: bool,
    /// Where to write the page; nowhere if not given.
    #[arg(long)]
    output: Option<PathBuf>,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    for id in &arguments.only {
        ensure!(CASES.iter().any(|(known, ..)| known == id), "there is no benchmark {id:?}");
    }
    machine::run(run(arguments))
}

async fn run(arguments: Arguments) -> anyhow::Result<()> {
    let started = Instant::now();
    let own = std::env::current_exe().context("where am I")?;
    let programs = Programs {
        lockgate: own.with_file_name("lockgate-xds-bench-server"),
        go_control_plane: arguments.go_control_plane,
    };
    for program in [&programs.lockgate, &programs.go_control_plane] {
        ensure!(program.is_file(), "{} is missing: make bench-xds builds it", program.display());
    }
    let scale = match (arguments.quick, arguments.full) {
        (true, _) => Scale::Quick,
        (_, true) => Scale::Full,
        _ => Scale::Normal,
    };
    let options = Options { scale, setting: arguments.setting, programs };
    let machine = machine::facts();
    eprint!("{machine}");
    let wanted = |server: &Server| {
        let name = format!("{server:?}").to_lowercase();
        arguments.servers.is_empty() || arguments.servers.contains(&name)
    };
    let mut report = Report::default();
    for (id, title, _) in CASES {
        if !arguments.only.is_empty() && !arguments.only.iter().any(|only| only == id) {
            continue;
        }
        eprintln!("== [{:.0} s] {id}: {title}", started.elapsed().as_secs_f64());
        for server in Server::ALL.into_iter().filter(wanted) {
            report.add(id, server, cases::run(id, server, &options).await);
        }
        println!("\n{id}: {title}\n{}", report.table(id));
        // After each one, so that a run that is broken off is not for nothing.
        if let Some(output) = &arguments.output {
            let page = report.page(&machine);
            std::fs::write(output, page).with_context(|| format!("cannot write {}", output.display()))?;
        }
    }
    println!("Targets\n{}\nWhere the other server is better\n{}", report.targets(), report.behind());
    eprintln!("== [{:.0} s] done", started.elapsed().as_secs_f64());
    Ok(())
}
