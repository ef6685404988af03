//! `lockgate config`: checks and prints a settings file, without serving anything.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::json;

use super::exit::{ExitCodes, Outcome};
use super::output::{self, Output};
use super::progress::Progress;
use super::server_args::ServerArgs;
use super::settings_args::SettingsArgs;
use crate::settings::{self, Origin, SettingsFault, SettingsFaults};
use crate::source::file;

/// Options of `lockgate config`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ConfigArgs {
    /// The subcommand.
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a settings file: print all faults with line and column
    #[command(after_help = CHECK_EXAMPLES)]
    Check {
        /// The file; `-` is standard input
        #[arg(value_name = "FILE", required_unless_present = "config")]
        file: Option<PathBuf>,
        /// The file, the same as the argument
        #[arg(long, value_name = "FILE", conflicts_with = "file")]
        config: Option<PathBuf>,
        #[command(flatten)]
        output: Output,
    },
    /// Print all settings after the file and the flags, with the origin of each
    #[command(after_help = PRINT_EXAMPLES)]
    Print(Box<PrintArgs>),
    /// Print the JSON schema of the settings file, for editors and for charts
    #[command(after_help = SCHEMA_EXAMPLES)]
    Schema,
}

#[derive(Debug, Args)]
struct PrintArgs {
    /// The file, the same as `--config`
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    #[command(flatten)]
    settings: SettingsArgs,
    #[command(flatten)]
    server: ServerArgs,
}

const EXAMPLES: &str = "\
Examples:
  Check a file before it is applied:
    lockgate config check lockgate.yaml

  Show the effective settings and their origins:
    lockgate config print lockgate.yaml --http-port 80";

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
    lockgate config print lockgate.yaml --trusted-hops 2

  The keys that are not the defaults, by a program:
    lockgate config print lockgate.yaml --output json | jq 'map(select(.origin != \"default\"))'";

const SCHEMA_EXAMPLES: &str = "\
Examples:
  Let an editor complete and check the file:
    lockgate config schema > lockgate.schema.json";

pub(super) const CHECK_EXIT_CODES: ExitCodes = ExitCodes {
    fine: "the settings are valid",
    findings: Some("the file has faults"),
    failed: "wrong usage, or a file that cannot be read",
};

pub(super) const PRINT_EXIT_CODES: ExitCodes = ExitCodes {
    fine: "the settings are printed",
    findings: None,
    failed: "wrong usage, invalid settings, or a file that cannot be read",
};

pub(super) const SCHEMA_EXIT_CODES: ExitCodes =
    ExitCodes { fine: "the schema is printed", findings: None, failed: "wrong usage" };

/// Runs the subcommand.
pub fn run(options: ConfigArgs) -> anyhow::Result<Outcome> {
    match options.command {
        Command::Check { file, config, output } => {
            let Some(file) = file.or(config) else { bail!("FILE is missing") };
            return check(&file, output);
        }
        Command::Print(args) => {
            let PrintArgs { file, output, settings, server } = *args;
            let settings = settings.with_file(file);
            let name =
                settings.file().and_then(|file| file.file_name()).map(|name| name.to_string_lossy().into_owned());
            let resolved = settings.load(server.overrides())?.resolved;
            let name = name.unwrap_or_default();
            super::print(&match output.is_json() {
                true => output::json(&settings::print_json(&resolved, &name)),
                false => settings::print(&resolved, &name),
            })
        }
        Command::Schema => super::print(&(serde_json::to_string_pretty(&settings::schema())? + "\n")),
    }
    .map(|()| Outcome::Fine)
}

/// Checks a settings file, and prints its faults.
fn check(path: &Path, output: Output) -> anyhow::Result<Outcome> {
    let (name, text) = match path.to_str() {
        Some("-") => {
            let _progress = Progress::start("reading standard input");
            ("-".to_owned(), io::read_to_string(io::stdin()).context("cannot read standard input")?)
        }
        _ => {
            let name = path.display().to_string();
            let text = file::read(path).map_err(|why| anyhow::anyhow!("{name}: {why}"))?;
            (name, text)
        }
    };
    let faults = match settings::resolve(&name, &text, &[]) {
        Ok(resolved) => {
            let set = resolved.origins.len();
            super::print(&match output.is_json() {
                true => output::json(&json!({"file": name, "set": set, "faults": []})),
                false => format!("{name}: valid, {set} of its keys are set\n"),
            })?;
            return Ok(Outcome::Fine);
        }
        Err(faults) => faults,
    };
    let summary = format!("error: {} in {name}", counted(faults.faults.len()));
    if output.is_json() {
        let all: Vec<_> = faults.faults.iter().map(|fault| fault_json(&faults, fault)).collect();
        super::print(&output::json(&json!({"file": name, "set": 0, "faults": all})))?;
        let _ = writeln!(io::stderr(), "{summary}");
    } else {
        let _ = writeln!(io::stderr(), "{summary}\n{faults}");
    }
    Ok(Outcome::Findings)
}

/// Returns a fault as JSON, with its place if it is in the file.
fn fault_json(all: &SettingsFaults, fault: &SettingsFault) -> serde_json::Value {
    let place = match fault.origin {
        Origin::File(place) => Some(place),
        Origin::Default | Origin::Flag(_) => None,
    };
    json!({
        "file": all.file,
        "line": place.map(|place| place.line),
        "column": place.map(|place| place.column),
        "key": fault.key,
        "message": fault.message,
    })
}

fn counted(faults: usize) -> String {
    if faults == 1 { "1 fault".to_owned() } else { format!("{faults} faults") }
}
