//! The migration from Contour: `lockgate migrate contour`.
//!
//! The module converts Contour's configuration ([`configuration`], [`keys`]) into a settings file ([`draft`]) and a values file of the
//! Helm chart ([`chart`]), together with the defaults of Contour that differ ([`defaults`]). It then checks the objects with these settings, like the controller would
//! ([`objects`]), and compares each of them with Contour. [`crate::check`] decides every fault. No I/O.

mod chart;
mod configuration;
mod convert;
mod defaults;
mod deviations;
mod draft;
mod durations;
mod envoy_headers;
mod faults;
mod keys;
mod objects;
mod operators;
mod parts;
mod row;
mod services;
#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use crate::check::{Manifests, Scope};

pub use chart::Values;
pub use configuration::{Configuration, find, parse};
pub use row::{ReportRow, Verdict, counted, json, text};

use convert::convert;
use draft::{Draft, Finished};
use keys::{ContourKey, KEYS, To};

/// The first lines of the settings file.
const HEADING: &str = "\
# The settings with which Lockgate serves objects like Contour. Written by `lockgate migrate contour`.
# Every key: docs/settings.md. Comments name the lines that you can remove for a safer default.
";

/// The flags of Contour that the configuration file lacks. Empty values stand for the defaults.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--ingress-class-name`.
    pub ingress_class_name: Vec<String>,
    /// `--root-namespaces`.
    pub root_namespaces: Vec<String>,
    /// `--watch-namespaces`.
    pub watch_namespaces: Vec<String>,
}

/// The result of a migration.
#[derive(Debug)]
pub struct ContourMigration {
    /// The text of the settings file.
    pub settings: String,
    /// The values file of the chart, with rows about the settings that it lacks.
    pub values: Values,
    /// The rows of the report: keys, defaults, and objects, by file and line.
    pub rows: Vec<ReportRow>,
}

/// Compares the objects of `manifests`, and writes settings. Without a configuration, Contour has its defaults. `now` is the time in seconds
/// since the Unix epoch, for the certificates.
pub fn migrate(
    manifests: &Manifests,
    configuration: Option<&Configuration>,
    flags: &Flags,
    scope: &Scope,
    now: i64,
) -> ContourMigration {
    let classes = served_classes(configuration, flags);
    let mut draft = Draft::default();
    defaults::set(&mut draft, &classes, configuration.is_some_and(Configuration::is_object));
    if let Some(configuration) = configuration {
        class_names(configuration, &classes, &mut draft);
        // They decide which settings of services are written.
        services::set(configuration, manifests.objects(), &mut draft);
        KEYS.iter().for_each(|key| set(configuration, key, &mut draft));
        parts::set(configuration, &mut draft);
        configuration.unknown().into_iter().for_each(|row| draft.report(row));
    }
    set_flags(flags, &mut draft);
    envoy_headers::set(manifests.objects(), &mut draft);
    let Finished { settings, values, resolved, mut rows } = draft.finish(HEADING);
    rows.extend(objects::rows(manifests, &resolved.settings.route, scope, &classes, now));
    rows.sort();
    rows.dedup();
    ContourMigration { settings, values, rows }
}

/// Sets the setting of a key, or reports that there is none.
fn set(configuration: &Configuration, key: &ContourKey, draft: &mut Draft) {
    let Some((path, value)) = configuration.get(key) else { return };
    match key.to {
        To::Part => {}
        To::Nothing(why) => {
            let message = format!("no counterpart is needed: {why}");
            draft.report(configuration.row(path, Verdict::Same, message, ""));
        }
        To::Lost(consequence, remedy) => {
            let has_effect = !matches!(value, Value::Bool(false)) && value != &json!([]);
            let (verdict, message, remedy) = match has_effect {
                true => (Verdict::Attention, format!("there is no counterpart: {consequence}"), remedy),
                false => (Verdict::Same, "this is the default of Lockgate".to_owned(), ""),
            };
            draft.report(configuration.row(path, verdict, message, remedy));
        }
        To::Set(setting, how) => match convert(how, setting, value) {
            Ok(converted) => {
                let is_whole = converted.notes.is_empty();
                for note in converted.notes {
                    let remedy = "Compare the value with docs/settings.md.";
                    draft.report(configuration.row(path, Verdict::Attention, note, remedy));
                }
                match converted.value {
                    Some(value) => draft.set(setting, value, "", configuration.row(path, Verdict::Same, "", "")),
                    None if !is_whole => {}
                    None => {
                        draft.report(configuration.row(path, Verdict::Same, "the value stands for the default", ""))
                    }
                }
            }
            Err(why) => draft.report(parts::invalid(configuration, path, &why)),
        },
    }
}

/// Reports the classes of a ContourConfiguration.
fn class_names(configuration: &Configuration, classes: &[String], draft: &mut Draft) {
    let Some((path, _)) = configuration.part("", "ingress.classNames") else { return };
    let row = configuration.row(path, Verdict::Same, "", "");
    match classes {
        [] => draft.report(ReportRow { message: "the value stands for the default".to_owned(), ..row }),
        classes => draft.set("ingress.classNames", json!(classes), "", row),
    }
}

/// Sets the settings of flags.
fn set_flags(flags: &Flags, draft: &mut Draft) {
    if !flags.watch_namespaces.is_empty() {
        draft.set("watch.namespaces", json!(flags.watch_namespaces), "", defaults::row("--watch-namespaces", ""));
    }
    if !flags.root_namespaces.is_empty() {
        let row = defaults::row("--root-namespaces", "");
        draft.set("httpProxy.rootNamespaces", json!(flags.root_namespaces), "", row);
    }
}

/// Returns the classes that Contour serves. Empty: `contour`, and objects without a class. The flag precedes.
fn served_classes(configuration: Option<&Configuration>, flags: &Flags) -> Vec<String> {
    if !flags.ingress_class_name.is_empty() {
        return flags.ingress_class_name.clone();
    }
    let found = configuration.and_then(|one| one.part("", "ingress.classNames"));
    let items = found.and_then(|(_, value)| value.as_array()).map_or(&[][..], Vec::as_slice);
    items.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
