//! `lockgate version`.

/// The commit that this was built from. Releases set `LOCKGATE_COMMIT` at build time; asking git in a build script
/// would build everything again at each commit.
pub const COMMIT: &str = match option_env!("LOCKGATE_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The Envoy that the tests run with.
const TESTED_ENVOY: &str = "1.40.0";

pub(super) const EXAMPLES: &str = "\
Examples:
  For a bug report:
    lockgate version

  The number alone:
    lockgate --version";

pub(super) fn text() -> String {
    format!("lockgate {}\ncommit   {COMMIT}\nenvoy    tested with {TESTED_ENVOY}, xDS v3\n", env!("CARGO_PKG_VERSION"))
}
