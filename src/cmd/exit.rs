//! The exit codes, which are the same for all commands.
//!
//! Each command declares the meaning of its codes next to its code. The help and the [table](super::table) show these
//! declarations, and an end-to-end test compares the table with the program.

use std::process::ExitCode;

use clap::Command;

use super::{
    bootstrap, check, completions, config, envoy_drain, explain, export, migrate, serve_args, status, version,
};

/// The result of a command that could run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Exit code 0.
    Fine,
    /// Exit code 1: the command has run, and its answer may be unwanted.
    Findings,
}

impl Outcome {
    /// Returns the outcome of a command that may have findings.
    pub fn with_findings(has_findings: bool) -> Self {
        if has_findings { Self::Findings } else { Self::Fine }
    }
}

impl From<Outcome> for ExitCode {
    fn from(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Fine => Self::SUCCESS,
            Outcome::Findings => Self::from(1),
        }
    }
}

/// The exit code of a command that could not run. Clap exits with the same code for wrong usage.
pub const FAILED: u8 = 2;

/// The meaning of the exit codes of a command.
#[derive(Debug)]
pub struct ExitCodes {
    /// The meaning of 0.
    pub fine: &'static str,
    /// The meaning of 1. `None`: the command never exits with 1.
    pub findings: Option<&'static str>,
    /// The meaning of 2.
    pub failed: &'static str,
}

/// The exit codes of all commands, in the order of the help.
pub const COMMANDS: [(&str, &ExitCodes); 15] = [
    ("serve", &serve_args::EXIT_CODES),
    ("export", &export::EXIT_CODES),
    ("bootstrap", &bootstrap::EXIT_CODES),
    ("envoy-drain", &envoy_drain::EXIT_CODES),
    ("check", &check::EXIT_CODES),
    ("explain", &explain::EXIT_CODES),
    ("status", &status::EXIT_CODES),
    ("migrate ingress", &migrate::EXIT_CODES),
    ("migrate httpproxy", &migrate::EXIT_CODES),
    ("migrate contour", &migrate::contour::EXIT_CODES),
    ("config check", &config::CHECK_EXIT_CODES),
    ("config print", &config::PRINT_EXIT_CODES),
    ("config schema", &config::SCHEMA_EXIT_CODES),
    ("version", &version::EXIT_CODES),
    ("completions", &completions::EXIT_CODES),
];

/// Adds the exit codes to the help of `command` and of its subcommands. `path` is the name of the command without `lockgate`.
pub fn add_to_help(command: Command, path: &str) -> Command {
    let command = command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name()).trim_start().to_owned();
        add_to_help(inner, &path)
    });
    let Some((_, codes)) = COMMANDS.iter().find(|(name, _)| *name == path) else { return command };
    let findings = codes.findings.map(|findings| format!("  1  {findings}\n")).unwrap_or_default();
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let help = format!("Exit codes:\n  0  {}\n{findings}  {FAILED}  {}\n\n{examples}", codes.fine, codes.failed);
    command.after_help(help.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::command_line;
    use super::*;

    #[test]
    fn every_command_declares_its_exit_codes() {
        fn leaves(command: &Command, path: &str) -> Vec<String> {
            let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
            let inner = inner.map(|inner| leaves(inner, format!("{path} {}", inner.get_name()).trim_start()));
            let inner: Vec<String> = inner.flatten().collect();
            if inner.is_empty() { vec![path.to_owned()] } else { inner }
        }
        let mut cli = command_line();
        cli.build();
        assert_eq!(leaves(&cli, ""), COMMANDS.map(|(path, _)| path));
        let help = cli.find_subcommand_mut("check").unwrap().render_long_help().to_string();
        let codes =
            "Exit codes:\n  0  no problems; notes are none\n  1  problems: errors or warnings\n  2  wrong usage";
        assert!(help.contains(codes) && help.find("Exit codes:") < help.find("Examples:"), "{help}");
        assert!(!cli.find_subcommand_mut("serve").unwrap().render_long_help().to_string().contains("\n  1  "));
    }
}
