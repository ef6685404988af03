//! Lockgate's settings as the chart renders them.

use std::process::Command;

use anyhow::{Context, ensure};
use e2e::process::repository;

/// Returns the settings file of an installation with these values of `settings`, and the chart's defaults.
///
/// # Errors
/// helm refuses the values.
pub fn settings(own: &str) -> anyhow::Result<String> {
    let directory = tempfile::Builder::new().prefix("bench-chart-").tempdir()?;
    let values = directory.path().join("values.yaml");
    let indented: String = own.lines().map(|line| format!("  {line}\n")).collect();
    std::fs::write(&values, if own.is_empty() { String::new() } else { format!("settings:\n{indented}") })?;
    let mut helm = Command::new(e2e::apiserver::lab("helm"));
    for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
        helm.env(variable, directory.path());
    }
    helm.current_dir(repository()).args(["template", "lockgate", "charts/lockgate", "--namespace", "lockgate"]);
    let output = helm.args(["--show-only", "templates/configmap.yaml", "--values"]).arg(&values).output()?;
    ensure!(output.status.success(), "helm template: {}", String::from_utf8_lossy(&output.stderr));
    file(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the settings file in a ConfigMap.
fn file(config_map: &str) -> anyhow::Result<String> {
    let (_, rest) = config_map.split_once("  lockgate.yaml: |\n").context("the ConfigMap has no lockgate.yaml")?;
    let lines = rest.lines().map_while(|line| if line.is_empty() { Some("") } else { line.strip_prefix("    ") });
    Ok(lines.map(|line| format!("{line}\n")).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    #[test]
    fn the_file_is_found_in_the_config_map() {
        let text = "data:\n  # A comment.\n  lockgate.yaml: |\n    statistics:\n      maxObjects: 200\nother: {}\n";
        assert_eq!(super::file(text).unwrap(), "statistics:\n  maxObjects: 200\n");
        assert!(super::file("data: {}\n").is_err());
    }
}
