//! `lockgate serve`.

use super::ServeArgs;

/// Serves until SIGTERM.
pub async fn run(args: ServeArgs) -> anyhow::Result<()> {
    let (_source, _settings, _options) = args.resolve()?;
    anyhow::bail!("not served yet")
}
