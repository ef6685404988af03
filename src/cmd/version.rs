//! `lockgate version`.

use clap::Args;
use serde_json::json;

use super::output::{self, Output};

/// The commit of the build: `build.rs` asks git, unless `LOCKGATE_COMMIT` is set at build time.
pub const COMMIT: &str = match option_env!("LOCKGATE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The version of Envoy in the tests.
const TESTED_ENVOY: &str = "1.40.0";

/// Options of `lockgate version`.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    output: Output,
}

pub(super) const EXAMPLES: &str = "\
Examples:
  For a bug report:
    lockgate version

  For a program:
    lockgate version --output json

  The number alone:
    lockgate --version";

/// Returns the output of the command.
pub(super) fn report(options: &Options) -> String {
    match options.output.is_json() {
        true => output::json(&json!({
            "version": env!("CARGO_PKG_VERSION"),
            "commit": COMMIT,
            "testedEnvoy": TESTED_ENVOY,
            "xds": "v3",
        })),
        false => text(),
    }
}

pub(super) fn text() -> String {
    format!("lockgate {}\ncommit   {COMMIT}\nenvoy    tested with {TESTED_ENVOY}, xDS v3\n", env!("CARGO_PKG_VERSION"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_commit_is_that_of_the_checkout() {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
            String::from_utf8(output.stdout).ok().filter(|_| output.status.success())
        };
        let own = git(&["rev-parse", "--show-toplevel"]).is_some_and(|top| top.trim() == env!("CARGO_MANIFEST_DIR"));
        if !own || std::env::var_os("LOCKGATE_COMMIT").is_some() {
            return;
        }
        let head = git(&["rev-parse", "HEAD"]).unwrap_or_default();
        assert!(COMMIT.len() >= 7 && head.starts_with(COMMIT), "{COMMIT} is not the beginning of {head}");
    }
}
