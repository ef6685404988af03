//! `lockgate export`: writes the configuration that `lockgate serve` serves to files.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use futures::FutureExt;
use futures::future::BoxFuture;
use lockgate_xds::snapshot::Snapshot;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::exit::ExitCodes;
use super::object_args::ObjectArgs;
use super::pipeline::{self, Pipeline};
use super::scraping::Scraping;
use super::settings_args::SettingsSource;
use super::{COMMIT, values};
use crate::admin::{self, AdminState, Readiness};
use crate::controller::{Class, View};
use crate::explain::envoys::Live;
use crate::export::{DiskError, EnvoyDirectory, ExportOptions, ExportTiming, Exporter, FileFormat, Reload};
use crate::metrics::Metrics;
use crate::settings::{Process, Source};
use crate::telemetry::{self, LogControl};

/// With `--once`, the timeout of the initial lists.
const FIRST_LISTS: Duration = Duration::from_secs(60);
/// With `--once`, the interval of progress reports in the log until then.
const REPORT: Duration = Duration::from_secs(5);

/// Flags of `lockgate export`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExportArgs {
    /// The output directory; created if it does not exist
    #[arg(long, visible_alias = "output-directory", value_name = "DIR", help_heading = "Files")]
    dir: PathBuf,

    /// The format of the files, and the extension by which Envoy recognizes it
    #[arg(long, visible_alias = "output", short_alias = 'o', value_name = "FORMAT", help_heading = "Files")]
    #[arg(value_enum, default_value_t = FormatArg::Json)]
    format: FormatArg,

    /// The path of the directory for Envoy, because files reference each other by path [default: the value of --dir]
    #[arg(long, value_name = "DIR", help_heading = "Files")]
    mount_path: Option<PathBuf>,

    /// How Envoy detects a changed file. `rename`: it watches each file; `directory`: it watches the directory, for mounted
    /// ConfigMaps and Secrets; a time such as 5s: it polls, for file systems without notifications (NFS)
    #[arg(long, value_name = "HOW", default_value = "rename", value_parser = values::reload, help_heading = "Files")]
    reload: Reload,

    /// The maximum number of files that Envoy watches; with more files, it polls every second. Each needs an inotify
    /// instance, and Envoy crashes without a free one (fs.inotify.max_user_instances, 128 on most systems)
    #[arg(long, value_name = "COUNT", default_value_t = 100, help_heading = "Files")]
    watch_limit: usize,

    /// The time for Envoys to load new clusters before routes to them are written
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::duration, help_heading = "Files")]
    settle: Duration,

    /// The time that a cluster or a file stays after the last file that references it
    #[arg(long, alias = "removal-grace", value_name = "TIME", default_value = "5s", help_heading = "Files")]
    #[arg(value_parser = values::duration)]
    file_removal_grace: Duration,

    /// Write the current configuration, in all steps, and exit [default: follow every change until SIGTERM]
    #[arg(long, help_heading = "Files")]
    once: bool,

    #[command(flatten)]
    objects: ObjectArgs,
}

/// The format of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FormatArg {
    /// Binary protobuf: the smallest, and the fastest to read
    Pb,
    /// JSON
    Json,
    /// YAML
    Yaml,
    /// Text protobuf
    #[value(name = "pb_text")]
    PbText,
}

pub(super) const EXIT_CODES: ExitCodes = ExitCodes {
    fine: "all files are written (`--once`), or it was stopped by SIGTERM or SIGINT",
    findings: None,
    failed: "wrong usage, invalid settings, a missing source, nothing to write, or a directory that cannot be written",
};

/// The description above the options.
pub(super) const LONG_ABOUT: &str = "Write the configuration to files that Envoy reads and reloads, for Envoys without a network connection to a \
    controller.\n\nEach file is a DiscoveryResponse: clusters, listeners, and a file for each load \
    assignment, route configuration, and secret, because Envoy reads one of these per file. Files are \
    replaced atomically by a rename. Unchanged files are not touched. Clusters are written before the routes \
    to them, and removed after these.\n\n\
    `listeners` is written last: Envoy can start when it exists. Only the owner can read files of secrets, so \
    run Envoy as the same user. Settings and sources are the same as for `lockgate serve`.";

const EXAMPLES: &str = "\
Examples:
  A directory of Kubernetes YAML as files, and an Envoy that follows them:
    lockgate export --manifests examples --dir /run/envoy
    lockgate bootstrap --mode files --dir /run/envoy > envoy.yaml
    envoy -c envoy.yaml

  The current configuration as YAML, for people:
    lockgate export --manifests examples --dir out --format yaml --once

  A Kubernetes cluster, for an Envoy that sees the directory by NFS as /etc/envoy/xds:
    lockgate export --kubeconfig ~/.kube/config --dir /srv/xds --mount-path /etc/envoy/xds --reload 5s
    lockgate bootstrap --mode files --dir /etc/envoy/xds --reload 5s > envoy.yaml";

impl ExportArgs {
    /// Returns the options of the exporter.
    fn options(&self) -> anyhow::Result<ExportOptions> {
        let directory = std::path::absolute(&self.dir).context("--dir")?;
        let seen = self.mount_path.as_deref().unwrap_or(&directory);
        let place = place(seen, "--mount-path", self.format.into(), self.reload)?;
        let timing = ExportTiming { settle: self.settle, removal_grace: self.file_removal_grace };
        Ok(ExportOptions { directory, place, watch_limit: self.watch_limit, timing })
    }
}

impl From<FormatArg> for FileFormat {
    fn from(format: FormatArg) -> Self {
        match format {
            FormatArg::Pb => Self::Pb,
            FormatArg::Json => Self::Json,
            FormatArg::Yaml => Self::Yaml,
            FormatArg::PbText => Self::PbText,
        }
    }
}

/// Creates the place of the files for Envoy. `flag` is the flag with the directory.
pub(super) fn place(
    directory: &Path,
    flag: &str,
    format: FileFormat,
    reload: Reload,
) -> anyhow::Result<EnvoyDirectory> {
    let directory = std::path::absolute(directory).with_context(|| flag.to_owned())?;
    if directory.to_str().is_none() {
        bail!("{flag} {}: not UTF-8, as Envoy's messages are", directory.display());
    }
    Ok(EnvoyDirectory { directory, format, reload })
}

/// Resolves the symbolic links in the existing part of `path`.
fn resolved(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let whole = there.and_then(|(above, there)| Some(there.join(path.strip_prefix(above).ok()?)));
    whole.unwrap_or_else(|| path.to_owned())
}

/// Writes files until SIGTERM or SIGINT. With `--once`, it ends after the first snapshot.
pub async fn run(args: ExportArgs) -> anyhow::Result<()> {
    let (options, once) = (args.options()?, args.once);
    let (source, settings) = args.objects.resolve(Vec::new())?;
    reject_output_in_source(&options.directory, &source)?;
    let Process { log, .. } = &settings.resolved.settings.process;
    let log = telemetry::init(log.format, &log.level)?;
    settings.warn_of_hidden();
    let admin_listener = listen_for_admin(&settings).await?;
    let (directory, version) = (options.directory.display().to_string(), env!("CARGO_PKG_VERSION"));
    tracing::info!(version, commit = COMMIT, source = %pipeline::describe(&source), directory, "starting");
    let mut parts = Parts::start(source, settings, options, log, admin_listener, once).await?;
    parts.run_until_end(&directory, once).await?;
    parts.pipeline.stop();
    parts.export.abort();
    Ok(())
}

/// Returns an error if the source would read the written files.
fn reject_output_in_source(directory: &Path, source: &Source) -> anyhow::Result<()> {
    if let Source::Manifests(from) | Source::Resources(from) = source
        && from.is_dir()
        && resolved(directory).starts_with(resolved(from))
    {
        bail!("--dir {}: the directory is in the source, which would read the written files", directory.display());
    }
    Ok(())
}

/// Listens for the admin server, if its address is configured. There is no default address, because several exports can run on
/// one machine.
async fn listen_for_admin(settings: &SettingsSource) -> anyhow::Result<Option<TcpListener>> {
    if !settings.resolved.origins.contains_key("admin.address") {
        return Ok(None);
    }
    let address = settings.resolved.settings.process.admin.address;
    Ok(Some(admin::listen(address).await.with_context(|| settings.named("admin.address"))?))
}

/// The running parts of an export.
struct Parts {
    pipeline: Pipeline,
    scraping: Scraping,
    /// Scraping ends when this is dropped.
    _stop: watch::Sender<bool>,
    admin: BoxFuture<'static, ()>,
    export: JoinHandle<Result<(), DiskError>>,
    /// The first snapshot, when it is published.
    snapshot: watch::Receiver<Option<Arc<Snapshot>>>,
}

impl Parts {
    /// Starts all parts.
    async fn start(
        source: Source,
        settings: SettingsSource,
        options: ExportOptions,
        log: LogControl,
        admin_listener: Option<TcpListener>,
        once: bool,
    ) -> anyhow::Result<Self> {
        let exporter = Exporter::open(options).context("--dir")?;
        let metrics = Metrics::new(COMMIT);
        let (stop, stopping) = watch::channel(false);
        let scraping = Scraping::start(&settings, &metrics, stopping).await?;
        let scraped_elsewhere = settings.resolved.settings.process.metrics.address.is_some();
        let pipeline = Pipeline::start(source, settings, log.clone(), metrics.clone(), View::Whole, false, None)?;
        let store = pipeline.stores.get_or_create(Class::shared(View::Whole));
        // This command has no server that must listen first.
        pipeline.readiness.listening();
        let state = AdminState {
            readiness: pipeline.readiness.clone(),
            metrics,
            scraped_elsewhere,
            log,
            snapshots: pipeline.snapshots(),
            inspection: pipeline.inspected.clone(),
            settings: pipeline.describe_settings(),
            streams: Box::new(|| Value::Array(Vec::new())),
            live: Live::default(),
        };
        let admin = match admin_listener {
            Some(listener) => admin::serve(listener, Arc::new(state), std::future::pending()).boxed(),
            None => std::future::pending().boxed(),
        };
        let snapshot = store.subscribe();
        let export = tokio::spawn(exporter.run(store.subscribe(), once));
        Ok(Self { pipeline, scraping, _stop: stop, admin, export, snapshot })
    }

    /// Waits for SIGTERM, SIGINT, or with `once` for the end of the export. The end of any other part is an error.
    async fn run_until_end(&mut self, directory: &str, once: bool) -> anyhow::Result<()> {
        let readiness = self.pipeline.readiness.clone();
        let missing = || readiness.missing(false).unwrap_or_default();
        let report = log_missing(self.snapshot.clone(), &readiness, once);
        let snapshot = &mut self.snapshot;
        let late = async {
            let published = snapshot.wait_for(Option::is_some);
            let late = once && tokio::time::timeout(FIRST_LISTS, published).await.is_err();
            if !late {
                std::future::pending::<()>().await;
            }
        };
        let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
        tokio::select! {
            _ = terminate.recv() => tracing::info!("SIGTERM: stopping"),
            _ = interrupt.recv() => tracing::info!("SIGINT: stopping"),
            error = self.pipeline.failed() => return Err(error),
            error = self.scraping.failed() => return Err(error),
            () = &mut self.admin => bail!("the admin server ended"),
            () = report => {}
            () = late => bail!("nothing to write after {} s: {}", FIRST_LISTS.as_secs(), missing()),
            ended = &mut self.export => {
                ended.context("the export panicked")??;
                tracing::info!(directory, "wrote all files");
            }
        }
        Ok(())
    }
}

/// Logs the missing kinds of the first snapshot every few seconds, with `once`. Runs forever.
async fn log_missing(snapshot: watch::Receiver<Option<Arc<Snapshot>>>, readiness: &Readiness, once: bool) {
    loop {
        tokio::time::sleep(REPORT).await;
        let missing = readiness.missing(false).unwrap_or_default();
        if once && snapshot.borrow().is_none() {
            tracing::info!(missing, "waiting for the source");
        }
    }
}
