//! `lockgate envoy-drain`: the end of an Envoy without a failed request.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use clap::{Args, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

use super::bootstrap::Address;
use super::settings_args::LogArgs;
use super::values;
use crate::drain::{self, Envoy, Outcome, Timing};
use crate::telemetry;

/// How long Envoy may take to end.
const END: Duration = Duration::from_secs(10);

/// What stands above the options.
pub(super) const LONG_ABOUT: &str = "End an Envoy without a failed request.\n\nWithout `now` it is the container beside Envoy: it waits \
    for SIGTERM, which comes when the pod is deleted, then drains Envoy, ends it, and ends itself. Envoy's own container \
    has a preStop hook, GET /drained of --listen, which is answered when that is done.\n\nDraining: /ready of Envoy's \
    listener for statistics fails at once; after --min-drain-time every response asks its client to connect anew, and \
    Envoy is done when --min-connections are left or --deadline has come.";

const EXAMPLES: &str = "\
Examples:
  The container beside Envoy, whose bootstrap has the same --envoy-admin-address:
    lockgate envoy-drain --envoy-admin-address unix:/run/envoy/admin.sock --deadline 5m

  Restart Envoy's container in good order:
    kubectl exec POD --container drain -- lockgate envoy-drain now --quit";

/// Options of `lockgate envoy-drain`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// `now`: drain at once, and end when that is done
    #[arg(value_enum)]
    when: Option<When>,

    /// With `now`: then end Envoy too; in a pod it is started again
    #[arg(long, requires = "when")]
    quit: bool,

    /// Envoy's admin interface, a host and a port, or `unix:PATH`, as in `lockgate bootstrap`
    #[arg(long, alias = "admin-address", value_name = "HOST:PORT", default_value = "unix:/run/envoy/admin.sock")]
    envoy_admin_address: Address,

    /// Where /healthz and /drained are
    #[arg(long, value_name = "ADDRESS", default_value = "[::]:8003", value_parser = values::address)]
    listen: SocketAddr,

    /// How long load balancers get to notice that Envoy is not ready; no client is forced to connect anew until then
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    min_drain_time: Duration,

    /// How long draining may take in all; connections that are left then are cut. The pod's
    /// terminationGracePeriodSeconds has to be longer
    #[arg(long, value_name = "TIME", default_value = "300s", value_parser = values::timeout)]
    deadline: Duration,

    /// How many connections may be left
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

impl Options {
    fn timing(&self) -> anyhow::Result<Timing> {
        ensure!(
            self.min_drain_time < self.deadline,
            "--min-drain-time {}s: expected less than --deadline, {}s",
            self.min_drain_time.as_secs_f32(),
            self.deadline.as_secs_f32()
        );
        let (minimum, deadline, connections) = (self.min_drain_time, self.deadline, self.min_connections);
        Ok(Timing { minimum, deadline, connections })
    }
}

/// Waits for SIGTERM unless it is to be `now`; then drains.
pub async fn run(options: Options) -> anyhow::Result<()> {
    let timing = options.timing()?;
    let admin = match options.envoy_admin_address.to_connect() {
        Address::Unix(path) => drain::Address::Unix(path.into()),
        tcp => drain::Address::Tcp(tcp.to_string()),
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
    tracing::info!(listen = %options.listen, envoy = %options.envoy_admin_address, "waiting for SIGTERM, to drain Envoy then");
    let stop = async {
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM"),
            _ = interrupt.recv() => tracing::info!("SIGINT"),
        }
    };
    Ok(drain::serve(listener, envoy, timing, stop).await?)
}

async fn now(envoy: &Envoy, timing: Timing, quit: bool) -> anyhow::Result<()> {
    let outcome = drain::drain(envoy, timing).await?;
    if quit {
        drain::quit(envoy, END).await?;
    }
    match outcome {
        Outcome::Late(1) => bail!("1 connection was left after --deadline"),
        Outcome::Late(left) => bail!("{left} connections were left after --deadline"),
        Outcome::Drained(_) | Outcome::Gone => Ok(()),
    }
}
