//! The command line, and the only module that uses all others.

pub mod bootstrap;
mod check;
mod cluster_args;
mod completions;
mod config;
mod envoy_drain;
mod exit;
mod expiry;
mod explain;
mod export;
mod migrate;
mod object_args;
mod output;
mod pipeline;
mod progress;
mod reload;
mod replica_args;
mod replicas;
mod scraping;
pub mod serve;
mod serve_args;
mod server_args;
mod settings_args;
mod status;
#[cfg(test)]
mod table;
mod values;
mod version;

use std::env;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Context;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use exit::Outcome;
pub use serve_args::ServeArgs;
pub use version::COMMIT;

/// The command line of `lockgate`.
#[derive(Debug, Parser)]
#[command(
    name = "lockgate",
    version,
    about = "A Kubernetes ingress controller that drives Envoy",
    long_about = "A Kubernetes ingress controller that drives Envoy: it reads Ingresses and objects of Gateway API, and \
                  serves them to any number of Envoys over xDS. A route opens when Envoy has confirmed the clusters \
                  behind it.",
    after_help = EXAMPLES
)]
pub struct Cli {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read objects and serve them to Envoy over xDS, until SIGTERM
    // Clap shows only the line above otherwise.
    #[command(long_about = serve_args::LONG_ABOUT)]
    Serve(Box<ServeArgs>),
    /// Write the configuration to files, for Envoys without a network connection to a controller
    #[command(long_about = export::LONG_ABOUT)]
    Export(Box<export::ExportArgs>),
    /// Print the bootstrap configuration of an Envoy of this controller
    Bootstrap(Box<bootstrap::BootstrapArgs>),
    /// Drain an Envoy and stop it without a failed request: as a sidecar, or by hand
    #[command(long_about = envoy_drain::LONG_ABOUT)]
    EnvoyDrain(Box<envoy_drain::EnvoyDrainArgs>),
    /// Check manifests before they are applied: problems with file, line, and remedy
    #[command(long_about = check::LONG_ABOUT)]
    Check(Box<check::CheckArgs>),
    /// Explain what happens to a request, and why: listener, host, route, object, endpoints, Envoys
    #[command(long_about = explain::LONG_ABOUT)]
    Explain(Box<explain::ExplainArgs>),
    /// Show the state of all replicas: Envoys and their progress, objects not yet served, problems
    #[command(long_about = status::LONG_ABOUT)]
    Status(Box<status::StatusArgs>),
    /// Move Ingresses and HTTPProxies to Gateway API, or from Contour to Lockgate, with a report of the differences
    #[command(subcommand, after_help = migrate::EXAMPLES)]
    Migrate(migrate::MigrateCommand),
    /// Check a settings file, or print the effective settings
    Config(config::ConfigArgs),
    /// Print the version, the commit, and the tested version of Envoy
    #[command(after_help = version::EXAMPLES)]
    Version(version::VersionArgs),
    /// Print a completion script for a shell
    #[command(after_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArgs),
}

const EXAMPLES: &str = "\
Examples:
  Serve a directory of Kubernetes YAML, without any cluster:
    lockgate serve --manifests examples

  Serve a Kubernetes cluster from outside of it:
    lockgate serve --kubeconfig ~/.kube/config

  Check manifests before they are applied:
    lockgate check deploy/

  Explain what happens to a request, in the cluster of kubectl or from files:
    lockgate explain https://shop.example.com/cart
    lockgate explain https://shop.example.com/cart --manifests examples

  Move Ingresses or HTTPProxies to Gateway API:
    lockgate migrate ingress --context current > gateway.yaml
    lockgate migrate httpproxy --context current > gateway.yaml

  Move from Contour:
    lockgate migrate contour --settings-file lockgate.yaml all.yaml

  Start an Envoy that is configured by it:
    lockgate bootstrap > envoy.yaml
    envoy -c envoy.yaml

  `lockgate help COMMAND` shows every option of a command, and examples.";

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    // Clap prints the error, and exits.
    let words: Vec<OsString> = env::args_os().collect();
    let cli = parse(&words).unwrap_or_else(|error| error.exit());
    match run(cli.command) {
        Ok(outcome) => outcome.into(),
        Err(error) => {
            // The log may not be initialized yet.
            let _ = writeln!(io::stderr(), "error: {}", without_repetition(&error));
            ExitCode::from(exit::FAILED)
        }
    }
}

/// Parses the command line. The error about an unknown subcommand names the known ones.
fn parse(words: &[OsString]) -> Result<Cli, clap::Error> {
    let matches = command_line().try_get_matches_from(words);
    matches.and_then(|matches| Cli::from_arg_matches(&matches)).map_err(|mut error| {
        if error.kind() == ErrorKind::InvalidSubcommand && error.get(ContextKind::SuggestedSubcommand).is_none() {
            let names = subcommands(words).join(", ");
            let tip = format!("the subcommands are {names}").into();
            error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip]));
        }
        error
    })
}

/// Returns the names of the subcommands of the innermost command that `words` name.
fn subcommands(words: &[OsString]) -> Vec<String> {
    let mut command = command_line();
    for word in words.iter().skip(1) {
        if let Some(inner) = command.find_subcommand(word) {
            command = inner.clone();
        }
    }
    let shown = command.get_subcommands().filter(|inner| !inner.is_hide_set());
    shown.map(|inner| inner.get_name().to_owned()).collect()
}

/// Returns the definition of the command line, with the exit codes in the help.
pub(crate) fn command_line() -> clap::Command {
    exit::add_to_help(Cli::command(), "")
}

/// Returns the chain of `error`, without causes that the message before already contains.
fn without_repetition(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |text, cause| match text.ends_with(&cause) {
        true => text,
        false if text.is_empty() => cause,
        false => format!("{text}: {cause}"),
    })
}

fn run(command: Command) -> anyhow::Result<Outcome> {
    match command {
        Command::Serve(args) => runtime()?.block_on(serve::run(*args)),
        Command::Export(args) => runtime()?.block_on(export::run(*args)),
        Command::Bootstrap(options) => bootstrap::run(*options),
        Command::EnvoyDrain(options) => return runtime()?.block_on(envoy_drain::run(*options)),
        Command::Check(options) => return check::run(*options),
        Command::Explain(options) => return explain::run(*options),
        Command::Status(options) => return status::run(*options),
        Command::Migrate(command) => return migrate::run(command),
        Command::Config(options) => return config::run(options),
        Command::Version(options) => print(&version::report(&options)),
        Command::Completions(options) => print(&completions::script(&options)),
    }
    .map(|()| Outcome::Fine)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

/// Writes `text` to standard output. A closed reader (`| head`) is not an error.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
