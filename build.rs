//! The commit of a release build, for `lockgate version` and the log.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=LOCKGATE_COMMIT");
    let given = env::var("LOCKGATE_COMMIT").ok().filter(|given| !given.is_empty() && given != "unknown");
    // Otherwise, each commit would compile the whole crate again.
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let commit = given.or_else(|| is_release.then(commit).flatten());
    println!("cargo:rustc-env=LOCKGATE_COMMIT={}", commit.unwrap_or_else(|| "unknown".to_owned()));
    if is_release && env::var_os("CARGO_FEATURE_JEMALLOC").is_none() {
        println!(
            "cargo:warning=without `--features jemalloc`, lockgate returns little of its free memory to the system"
        );
    }
}

/// Returns the commit of the checkout. `None` outside of a checkout.
///
/// Cargo runs this again when the checkout moves to another commit, not at each build.
pub fn commit() -> Option<String> {
    // Sources without a checkout of their own may stand in somebody else's.
    let own = fs::canonicalize(env::var_os("CARGO_MANIFEST_DIR")?).ok()?;
    if fs::canonicalize(git(&["rev-parse", "--show-toplevel"])?).ok()? != own {
        return None;
    }
    // The log of HEAD grows with every commit, checkout, and rebase. A path that does not exist would make Cargo run this
    // at every build.
    let path = |name| git(&["rev-parse", "--git-path", name]).filter(|path| Path::new(path).is_file());
    if let Some(path) = path("logs/HEAD").or_else(|| path("HEAD")) {
        println!("cargo:rerun-if-changed={path}");
    }
    git(&["rev-parse", "--short", "HEAD"])
}

/// What git answers, in a line. `None` if there is no git, or it fails.
fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    let line = String::from_utf8(output.stdout).ok()?.trim().to_owned();
    (!line.is_empty() && !line.contains('\n')).then_some(line)
}
