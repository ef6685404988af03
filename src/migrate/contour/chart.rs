//! The values file of the Helm chart: the settings below `settings`, and values in place of the settings that the chart sets itself.
//!
//! The chart refuses these settings, because its other objects depend on them (`charts/lockgate/templates/_helpers.tpl`,
//! `lockgate.checkSettings` and `lockgate.checkNamed`). An end-to-end test renders the chart with the files of this module.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use super::draft::{DraftSetting, lines, written};
use super::row::{ReportRow, Verdict};

/// The first lines of the values file.
const HEADING: &str = "\
# Values of the Helm chart with which Lockgate serves objects like Contour. Written by `lockgate migrate contour`.
# Every key below settings: docs/settings.md. Comments name the lines that you can remove for a safer default.
";

/// The port of the readiness probes of Envoy's pods, unless `listeners.readiness.port` is set.
const READINESS: u64 = 8006;
/// The port of the container `drain` in Envoy's pods.
const DRAIN: u64 = 8003;

/// The values of the chart.
#[derive(Debug)]
pub struct Values {
    /// The text of the values file.
    pub text: String,
    /// The settings that the file lacks.
    pub left_out: Vec<String>,
    /// A row for each setting that the file lacks, or that has another place.
    pub rows: Vec<ReportRow>,
}

/// The place of a setting in the values file.
enum Place {
    /// Below `settings`.
    Settings,
    /// A value of the chart, and the reason.
    Value(&'static str, Value, &'static str),
    /// None, because the chart sets it.
    Chart(String),
    /// None. The consequence and the remedy.
    Lost(String, String),
}

/// Returns the values for these settings. `rows` are the rows of the report, to which the settings refer.
pub fn values(entries: &BTreeMap<&'static str, DraftSetting>, rows: &[ReportRow]) -> Values {
    let mut values = Values { text: HEADING.to_owned(), left_out: Vec::new(), rows: Vec::new() };
    let mut own = String::new();
    let mut settings: Vec<(&str, &DraftSetting)> = Vec::new();
    for (path, entry) in entries {
        let (verdict, message, remedy) = match place(path, entries) {
            Place::Settings => {
                settings.push((path, entry));
                continue;
            }
            Place::Value(name, value, why) => {
                let _ = writeln!(own, "{name}: {}", written(&value));
                (
                    Verdict::Same,
                    format!("the value {name} takes the place of {path} in the values file: {why}"),
                    String::new(),
                )
            }
            Place::Chart(why) => {
                values.leave_out(path, &why);
                (Verdict::Same, format!("the values file lacks {path}: {why}"), String::new())
            }
            Place::Lost(why, remedy) => {
                values.leave_out(path, &why);
                (Verdict::Attention, format!("the values file lacks {path}: {why}"), remedy)
            }
        };
        if let Some(row) = rows.get(entry.row) {
            values.rows.push(ReportRow { verdict, message, remedy, ..row.clone() });
        }
    }
    values.text.push_str(&own);
    values.text.push_str("settings:\n");
    values.text.push_str(&lines(settings.into_iter(), 1));
    values
}

impl Values {
    fn leave_out(&mut self, path: &str, why: &str) {
        let _ = writeln!(self.text, "# Left out: {path}, {why}.");
        self.left_out.push(path.to_owned());
    }
}

/// Returns the place of a setting.
fn place(path: &'static str, entries: &BTreeMap<&'static str, DraftSetting>) -> Place {
    let value = entries.get(path).map_or(&Value::Null, |entry| &entry.value);
    match path {
        "watch.namespaces" => {
            Place::Value("watchNamespaces", json!(watched(entries)), "the roles of the controller depend on it")
        }
        "admin.address" => {
            Place::Chart("because the probes and the Services of the chart lead to port 18001".to_owned())
        }
        "metrics.address" => {
            Place::Chart("because the Services of the chart lead to port 18001, which answers /metrics".to_owned())
        }
        "metrics.tls" => Place::Lost(
            "because the chart mounts the Secret; without it, the metrics of the controller are in clear text"
                .to_owned(),
            "Set the value controller.metrics.tlsSecret to the Secret with these files.".to_owned(),
        ),
        "leaderElection.lease" => {
            Place::Chart("because the chart names the Lease after the release, see fullnameOverride".to_owned())
        }
        "tls.fallbackSecret" | "upstream.clientCertificate" => secret(path, value, &watched(entries)),
        _ if path.starts_with("listeners.") && path.ends_with(".port") => port(path, value, entries),
        _ => Place::Settings,
    }
}

/// Returns the watched namespaces. Empty: all.
fn watched(entries: &BTreeMap<&'static str, DraftSetting>) -> Vec<String> {
    let value = entries.get("watch.namespaces").and_then(|entry| entry.value.as_array());
    value.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Returns the place of a setting with a Secret, which the controller can read in watched namespaces only.
fn secret(path: &str, value: &Value, watched: &[String]) -> Place {
    let secret = value.as_str().unwrap_or_default();
    let namespace = secret.split('/').next().unwrap_or_default();
    if watched.is_empty() || watched.iter().any(|one| one == namespace) {
        return Place::Settings;
    }
    Place::Lost(
        format!("because the controller cannot read {secret}: its namespace is not watched"),
        format!("Copy the Secret into a watched namespace, and set the value settings.{path}."),
    )
}

/// Returns the place of a port of Envoy. The chart uses two ports of its pods itself.
fn port(path: &str, value: &Value, entries: &BTreeMap<&'static str, DraftSetting>) -> Place {
    let number = value.as_u64().or_else(|| value.as_str()?.parse().ok());
    let has_readiness = entries.contains_key("listeners.readiness.port");
    let user = match number {
        Some(DRAIN) => "the container drain",
        Some(READINESS) if !has_readiness => "the readiness probes of Envoy",
        _ => return Place::Settings,
    };
    let number = number.unwrap_or_default();
    Place::Lost(
        format!("because {number} is the port of {user} in the pods of the chart"),
        format!("Set the value settings.{path} to another port."),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::super::defaults::row;
    use super::super::draft::Draft;
    use super::*;

    /// Returns the values for settings of the flag `--key`.
    fn of(settings: &[(&'static str, Value)]) -> Values {
        let mut draft = Draft::default();
        for (path, value) in settings {
            draft.set(path, value.clone(), "", row("--key", ""));
        }
        draft.finish("").values
    }

    /// Returns the values file without its first lines.
    fn text(values: &Values) -> &str {
        values.text.strip_prefix(HEADING).unwrap()
    }

    #[test]
    fn settings_of_the_chart_have_another_place_or_none() {
        let values = of(&[
            ("admin.address", json!("0.0.0.0:8000")),
            ("timeouts.connect", json!("3s")),
            ("watch.namespaces", json!(["shop", "blog"])),
        ]);
        let why = "because the probes and the Services of the chart lead to port 18001";
        let expected = format!(
            "# Left out: admin.address, {why}.\nwatchNamespaces: [shop, blog]\nsettings:\n  timeouts:\n    connect: 3s\n"
        );
        assert_eq!(text(&values), expected);
        assert_eq!(values.left_out, ["admin.address"]);
        let messages: Vec<&str> = values.rows.iter().map(|row| row.message.as_str()).collect();
        assert_eq!(messages[0], format!("the values file lacks admin.address: {why}"));
        assert!(
            messages[1].starts_with("the value watchNamespaces takes the place of watch.namespaces"),
            "{messages:?}"
        );
    }

    #[test]
    fn ports_of_the_pods_are_left_out() {
        let overload = ("listeners.overloadProbe.port", json!("8003"));
        let values = of(&[overload.clone(), ("listeners.http.port", json!(8006))]);
        assert_eq!(values.left_out, ["listeners.http.port", "listeners.overloadProbe.port"]);
        assert!(
            values.rows.iter().all(|row| row.verdict == Verdict::Attention && row.remedy.ends_with("another port."))
        );
        let values = of(&[("listeners.readiness.port", json!(8010)), ("listeners.http.port", json!(8006))]);
        assert!(values.left_out.is_empty(), "{values:?}");
    }

    #[test]
    fn secrets_are_in_watched_namespaces() {
        let secret = ("tls.fallbackSecret", json!("projectcontour/fallback"));
        assert!(of(std::slice::from_ref(&secret)).left_out.is_empty());
        let watch = |namespace: &str| ("watch.namespaces", json!([namespace]));
        assert!(of(&[secret.clone(), watch("projectcontour")]).left_out.is_empty());
        let values = of(&[secret, watch("shop")]);
        assert_eq!(values.left_out, ["tls.fallbackSecret"]);
        let row = values.rows.iter().find(|row| row.verdict == Verdict::Attention).unwrap();
        assert!(row.message.contains("projectcontour/fallback") && row.remedy.contains("settings.tls.fallbackSecret"));
    }
}
