//! `lockgate envoy-drain`: drains an Envoy, and stops it without a failed request.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, ensure};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use super::bootstrap::Address;
use super::exit::{ExitCodes, Outcome};
use super::settings_args::LogArgs;
use super::values;
use crate::drain::{self, DrainOutcome, DrainTiming, Envoy};
use crate::telemetry;

/// The time limit for Envoy to exit.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// The description above the options.
pub(super) const LONG_ABOUT: &str = "Drain an Envoy and stop it without a failed request.\n\nWithout `now`, this is the sidecar of Envoy: it waits \
    for SIGTERM when the pod is deleted, drains Envoy, stops it, and exits. The container of Envoy has a preStop hook, \
    GET /drained of --listen, which is answered when the drain is complete.\n\nThe drain: /ready of Envoy's listener for \
    statistics fails at once. After --min-drain-time, every response asks its client to reconnect. The drain is complete \
    when --min-connections are left, or at --deadline.";

pub(super) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "Envoy is drained, or has exited",
    findings: Some("with `now`: connections were left after `--deadline`"),
    failed: "wrong usage, an address in use, or with `now` no Envoy that answers",
};

const EXAMPLES: &str = "\
Examples:
  The sidecar of Envoy, whose bootstrap has the same --envoy-admin-address:
    lockgate envoy-drain --envoy-admin-address unix:/run/envoy/admin.sock --deadline 5m

  Restart the container of Envoy gracefully:
    kubectl exec POD --container drain -- lockgate envoy-drain now --quit";

/// Options of `lockgate envoy-drain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EnvoyDrainArgs {
    /// `now`: drain at once, and exit afterwards
    #[arg(value_enum)]
    when: Option<When>,

    /// With `now`: also stop Envoy afterwards; in a pod, it is restarted
    #[arg(long, requires = "when")]
    quit: bool,

    /// Envoy's admin interface, a host and a port, or `unix:PATH`, as in `lockgate bootstrap`
    #[arg(long, alias = "admin-address", value_name = "HOST:PORT", default_value = "unix:/run/envoy/admin.sock")]
    envoy_admin_address: Address,

    /// The address of /healthz and /drained
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8003", value_parser = values::address)]
    listen: SocketAddr,

    /// The time for load balancers to notice that Envoy is not ready; until then, Envoy closes no connection
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    min_drain_time: Duration,

    /// The time limit of the whole drain; the remaining connections are then closed. terminationGracePeriodSeconds of the pod
    /// must be longer
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = values::timeout)]
    deadline: Duration,

    /// The number of connections at which the drain is complete
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    min_connections: u64,

    #[command(flatten)]
    log: LogArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum When {
    /// Drain at once
    Now,
}

impl EnvoyDrainArgs {
    fn timing(&self) -> anyhow::Result<DrainTiming> {
        ensure!(
            self.min_drain_time < self.deadline,
            "--min-drain-time {}s: expected less than --deadline, {}s",
            self.min_drain_time.as_secs_f32(),
            self.deadline.as_secs_f32()
        );
        let (minimum, deadline, connections) = (self.min_drain_time, self.deadline, self.min_connections);
        Ok(DrainTiming { minimum, deadline, connections })
    }
}

/// Waits for SIGTERM, except with `now`, and drains Envoy.
pub async fn run(options: EnvoyDrainArgs) -> anyhow::Result<Outcome> {
    let timing = options.timing()?;
    let admin = match options.envoy_admin_address.to_connect() {
        Address::Unix(path) => drain::AdminAddress::Unix(path.into()),
        tcp => drain::AdminAddress::Tcp(tcp.to_string()),
    };
    let envoy = Envoy::at(admin);
    let log = options.log.resolve()?;
    telemetry::init(log.format, &log.level)?;
    if options.when.is_some() {
        return now(&envoy, timing, options.quit).await;
    }
    let listener = drain::listen(options.listen).with_context(|| format!("--listen {}", options.listen))?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    tracing::info!(listen = %options.listen, envoy = %options.envoy_admin_address, "waiting for SIGTERM to drain Envoy");
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM"),
            _ = interrupt.recv() => tracing::info!("SIGINT"),
        }
    };
    drain::serve(listener, envoy, timing, stop).await?;
    Ok(Outcome::Fine)
}

async fn now(envoy: &Envoy, timing: DrainTiming, quit: bool) -> anyhow::Result<Outcome> {
    let outcome = drain::drain(envoy, timing).await?;
    if quit {
        drain::quit(envoy, EXIT_TIMEOUT).await?;
    }
    let left = match outcome {
        DrainOutcome::Drained(_) | DrainOutcome::Gone => return Ok(Outcome::Fine),
        DrainOutcome::Late(1) => "1 connection was left".to_owned(),
        DrainOutcome::Late(left) => format!("{left} connections were left"),
    };
    let _ = writeln!(io::stderr(), "error: {left} after --deadline");
    Ok(Outcome::Findings)
}
