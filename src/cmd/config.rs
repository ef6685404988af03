//! `lockgate config`: what a settings file says, without serving anything.

use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};

use super::server_args::ServerArgs;
use super::settings_args::SettingsArgs;
use crate::settings;
use crate::source::file;

/// Options of `lockgate config`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Options {
    /// What to do.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a settings file: tell all that is wrong with it, by line and column, and exit with 1 if anything is
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// The file; `-` is standard input
        file: PathBuf,
    },
    /// Print all settings as a file and the flags make them, and where each comes from
    #[command(after_help = PRINT_EXAMPLES)]
    Print(Box<PrintArgs>),
    /// Print the JSON schema of the settings file, for editors and for charts
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

#[derive(Debug, Args)]
struct PrintArgs {
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  Check a file before it is applied:
    lockgate config check lockgate.yaml

  See what holds, and why:
    lockgate config print --config lockgate.yaml --http-port 80";

const CHECK_EXAMPLES: &str = "\
Examples:
  Check a file:
    lockgate config check lockgate.yaml

  Check what a cluster has:
    kubectl get configmap lockgate -o jsonpath='{.data.lockgate\\.yaml}' | lockgate config check -";

const PRINT_EXAMPLES: &str = "\
Examples:
  All settings and their defaults, to begin a file with:
    lockgate config print

  What a file and flags make of them:
    lockgate config print --config lockgate.yaml --trusted-hops 2";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  Let an editor complete and check the file:
    lockgate config schema > lockgate.schema.json";

/// Does what `options` say.
pub fn run(options: Options) -> anyhow::Result<()> {
    match options.command {
        Command::Check { file } => check(&file),
        Command::Print(args) => {
            let PrintArgs { settings, server } = &*args;
            let name =
                settings.file().and_then(|file| file.file_name()).map(|name| name.to_string_lossy().into_owned());
            let resolved = settings.load(server.overrides())?.resolved;
            super::print(&settings::print(&resolved, &name.unwrap_or_default()))
        }
        Command::Schema => super::print(&(serde_json::to_string_pretty(&settings::schema())? + "\n")),
    }
}

fn check(path: &std::path::Path) -> anyhow::Result<()> {
    let (name, text) = match path.to_str() {
        Some("-") => ("-".to_owned(), std::io::read_to_string(std::io::stdin())?),
        _ => {
            let name = path.display().to_string();
            let text = file::read(path).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
            (name, text)
        }
    };
    match settings::resolve(&name, &text, &[]) {
        Ok(resolved) => super::print(&format!("{name}: valid, {} of its keys are set\n", resolved.origins.len())),
        Err(faults) => bail!("{} in {name}\n{faults}", counted(faults.faults.len())),
    }
}

fn counted(faults: usize) -> String {
    if faults == 1 { "1 fault".to_owned() } else { format!("{faults} faults") }
}
