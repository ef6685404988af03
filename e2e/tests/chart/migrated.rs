//! The chart with the values that `lockgate migrate contour` writes: helm accepts them as they are, and the settings reach the controller.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use e2e::process::repository;
use serde_json::Value;

use super::{lab, output, run, text};

/// The directory of the golden cases of the migration.
const CASES: &str = "src/migrate/contour/cases";
/// The cases with all keys of Contour's configuration. A test of the library compares them with the table of keys.
const EVERY_KEY: [&str; 2] = ["every-key-of-the-file", "every-key-of-the-object"];

/// Writes the values for a golden case of the migration. Returns the values file, the settings file, and the report.
fn migrate(case: &Path, directory: &Path, flags: &[&str]) -> (PathBuf, PathBuf, String) {
    let (values, settings) = (directory.join("values.yaml"), directory.join("lockgate.yaml"));
    let mut command = Command::new(e2e::lockgate::binary());
    command
        .args(["migrate", "contour", "--values-file"])
        .arg(&values)
        .arg("--settings-file")
        .arg(&settings)
        .args(flags);
    if case.join("contour.yaml").exists() {
        command.arg("--contour-config").arg(case.join("contour.yaml"));
    }
    if case.join("in.yaml").exists() {
        command.arg(case.join("in.yaml"));
    }
    let output = output(&mut command, "");
    let errors = text(&output.stderr);
    assert!([Some(0), Some(1)].contains(&output.status.code()), "{}: {errors}", case.display());
    (values, settings, text(&output.stdout) + &errors)
}

/// Renders the chart with a values file.
fn template(values: &Path) -> Result<String, String> {
    let mut command = lab("helm");
    command.args(["template", "lockgate", "charts/lockgate", "--namespace", "lockgate", "--values"]).arg(values);
    run(&mut command, "")
}

/// Returns the settings that a file sets, by key.
fn settings(file: &Path) -> BTreeMap<String, Value> {
    let mut command = Command::new(e2e::lockgate::binary());
    command.args(["config", "print", "--output", "json"]).arg(file);
    let printed = run(&mut command, "").unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let all: Value = serde_json::from_str(&printed).expect("JSON");
    let set = all.as_array().expect("an array").iter().filter(|setting| setting["origin"] != "default");
    set.map(|setting| (setting["key"].as_str().expect("a key").to_owned(), setting["value"].clone())).collect()
}

/// Returns the rendered charts with the values of the cases with all keys: name, and objects.
pub fn every_key() -> Vec<(String, String)> {
    let render = |(case, flags): (&str, &[&str])| {
        let directory = tempfile::tempdir().expect("a directory");
        let (values, ..) = migrate(&repository().join(CASES).join(case), directory.path(), flags);
        let name = format!("{case} {}", flags.join(" "));
        let rendered = template(&values).unwrap_or_else(|error| panic!("{name}: {error}"));
        (name, rendered)
    };
    let watch: &[&str] = &["--watch-namespaces", "shop,payments"];
    EVERY_KEY.iter().flat_map(|case| [(*case, &[][..]), (case, watch)]).map(render).collect()
}

#[test]
fn the_chart_takes_the_values_of_every_case() {
    let cases =
        std::fs::read_dir(repository().join(CASES)).expect("the cases").map(|entry| entry.expect("a case").path());
    let mut cases: Vec<PathBuf> = cases.collect();
    cases.sort();
    for case in EVERY_KEY {
        assert!(cases.iter().any(|path| path.ends_with(case)), "no case {case}");
    }
    for case in &cases {
        let directory = tempfile::tempdir().expect("a directory");
        let (values, written, report) = migrate(case, directory.path(), &[]);
        let rendered = template(&values).unwrap_or_else(|error| panic!("{}: {error}", case.display()));
        // The controller has the settings of the file, except for the reported ones and those that the chart sets.
        let file = directory.path().join("rendered.yaml");
        let block = rendered.split("  lockgate.yaml: |\n").nth(1).expect("the settings");
        let block: String =
            block.lines().take_while(|line| line.starts_with("    ")).map(|line| format!("{}\n", &line[4..])).collect();
        std::fs::write(&file, block).expect("a file");
        let mut expected = settings(&written);
        for key in report.lines().filter_map(|line| line.split("the values file lacks ").nth(1)?.split(':').next()) {
            assert!(expected.remove(key).is_some(), "{}: {key}", case.display());
        }
        let now = settings(&file);
        for key in ["listeners.readiness.port", "status.envoyService", "statistics.maxObjects"] {
            expected.entry(key.to_owned()).or_insert_with(|| now[key].clone());
        }
        assert_eq!(now, expected, "{}", case.display());
    }
}

/// Each key that the chart sets itself is reported with the reason.
#[test]
fn keys_without_a_place_are_reported() {
    let directory = tempfile::tempdir().expect("a directory");
    let case = repository().join(CASES).join("values-of-the-chart");
    let (values, _, report) = migrate(&case, directory.path(), &["--watch-namespaces", "shop,blog"]);
    for key in
        ["leaderElection.lease", "metrics.address", "metrics.tls", "listeners.overloadProbe.port", "tls.fallbackSecret"]
    {
        assert!(report.contains(&format!(": the values file lacks {key}: because ")), "{key}: {report}");
        assert!(report.contains(&format!("{key}, ")) || report.ends_with(&format!("{key}\n")), "{key}: {report}");
    }
    let rendered = template(&values).unwrap_or_else(|error| panic!("{error}"));
    assert!(rendered.contains("- --watch-namespaces=blog,shop\n"), "{rendered}");
}
