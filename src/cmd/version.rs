//! `lockgate version`.

use clap::Args;
use serde_json::json;

use super::exit::ExitCodes;
use super::output::{self, Output};

/// The commit of the build: `LOCKGATE_COMMIT`, if it is set at build time. Otherwise, `build.rs` asks git for it in a release build.
pub const COMMIT: &str = match option_env!("LOCKGATE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The version of Envoy in the tests.
const TESTED_ENVOY: &str = "1.40.0";

/// Options of `lockgate version`.
#[derive(Debug, Args)]
pub struct VersionArgs {
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

pub(super) const EXIT_CODES: ExitCodes =
    ExitCodes { fine: "the version is printed", findings: None, failed: "wrong usage" };

/// Returns the output of the command.
pub(super) fn report(options: &VersionArgs) -> String {
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
#[path = "../../build.rs"]
#[allow(dead_code)]
mod build;

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::build;

    #[test]
    fn the_commit_is_that_of_the_checkout() {
        let git = |arguments: &[&str]| {
            let output = Command::new("git").args(arguments).current_dir(env!("CARGO_MANIFEST_DIR")).output().ok()?;
            String::from_utf8(output.stdout).ok().filter(|_| output.status.success())
        };
        let own = git(&["rev-parse", "--show-toplevel"]).is_some_and(|top| top.trim() == env!("CARGO_MANIFEST_DIR"));
        let head = git(&["rev-parse", "HEAD"]).filter(|_| own);
        let commit = build::commit();
        let is_of_head = |(commit, head): (&String, &String)| commit.len() >= 7 && head.starts_with(commit);
        assert_eq!(commit.is_some(), head.is_some());
        assert!(
            commit.as_ref().zip(head.as_ref()).is_none_or(is_of_head),
            "{commit:?} is not the beginning of {head:?}"
        );
    }
}
