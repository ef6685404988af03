//! Golden cases, a directory of `cases` each: `in.yaml` are the manifests, `contour.yaml` is Contour's configuration file,
//! `flags.yaml` are flags, `settings.yaml` are the written settings, and `report.txt` is the report. Cases with `values.yaml`, the values
//! file of the chart, have its rows in the report.
//!
//! `BLESS=1 cargo test migrate::contour` rewrites `settings.yaml`, `report.txt`, and `values.yaml` if it exists.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lockgate_route::translate::Reason;

use super::keys::KEYS;
use super::{Configuration, ContourMigration, Flags, ReportRow, Verdict, find, migrate, parse, text};
use crate::check::output::Colors;
use crate::check::{Finding, Level, Manifests, Rule, Scope, check};
use crate::settings::resolve;

/// 2026-11-01.
const NOW: i64 = 1_793_491_200;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/migrate/contour/cases")
}

fn cases() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    cases.sort();
    cases
}

/// Returns the manifests and the configuration of a case.
fn input(case: &Path) -> (Manifests, Option<Configuration>) {
    let read = |name: &str| fs::read_to_string(case.join(name)).ok();
    let mut manifests = Manifests::default();
    if let Some(text) = read("in.yaml") {
        manifests.add("in.yaml", text);
    }
    let given = read("contour.yaml").map(|text| parse("contour.yaml", &text).unwrap_or_else(|why| panic!("{why}")));
    let found = find(manifests.texts()).unwrap_or_else(|why| panic!("{why}"));
    assert!(found.len() <= 1, "{}", case.display());
    let configuration = given.or(found.into_iter().next());
    (manifests, configuration)
}

/// Returns the flags of a case: lines such as `root-namespaces: a,b`.
fn flags(case: &Path) -> Flags {
    let mut flags = Flags::default();
    for line in fs::read_to_string(case.join("flags.yaml")).unwrap_or_default().lines() {
        let (name, value) = line.split_once(": ").unwrap();
        let values = value.split(',').map(str::to_owned).collect();
        match name {
            "ingress-class-name" => flags.ingress_class_name = values,
            "root-namespaces" => flags.root_namespaces = values,
            "watch-namespaces" => flags.watch_namespaces = values,
            other => panic!("{other} is no flag"),
        }
    }
    flags
}

fn migrated(case: &Path) -> ContourMigration {
    let (manifests, configuration) = input(case);
    let scope = if case.join("complete").exists() { Scope::Complete } else { Scope::Part };
    migrate(&manifests, configuration.as_ref(), &flags(case), &scope, NOW)
}

#[test]
fn golden() {
    let cases = cases();
    assert!(cases.len() >= 20, "only {} cases", cases.len());
    let mut faults = Vec::new();
    for case in cases {
        let ContourMigration { settings, values, mut rows } = migrated(&case);
        let has_values = case.join("values.yaml").exists();
        if has_values {
            rows.extend(values.rows);
            rows.sort();
        }
        let name = case.file_name().unwrap().to_string_lossy().into_owned();
        resolve("settings.yaml", &settings, &[]).unwrap_or_else(|faults| panic!("{name}: {faults}"));
        let shown: Vec<ReportRow> = rows.iter().filter(|row| !row.file.is_empty()).cloned().collect();
        // The rows of defaults are the same in all cases, so only one of them has them.
        let shown = if name == "defaults" { &rows } else { &shown };
        let values = has_values.then_some(("values.yaml", values.text));
        for (file, now) in
            [("settings.yaml", settings), ("report.txt", text(shown, Colors::Off))].into_iter().chain(values)
        {
            let path = case.join(file);
            match std::env::var_os("BLESS") {
                Some(_) => fs::write(path, now).unwrap(),
                None if now != fs::read_to_string(&path).unwrap_or_default() => {
                    faults.push(format!("{name}/{file}:\n{now}"));
                }
                None => {}
            }
        }
        for row in &rows {
            let needs_remedy = row.verdict == Verdict::Attention;
            assert!(!needs_remedy || row.remedy.ends_with('.'), "{name}: {row:?}");
            assert!(!row.message.is_empty() && !row.message.ends_with('.'), "{name}: {row:?}");
            assert!(row.file.is_empty() || row.line > 0, "{name}: {row:?}");
        }
    }
    assert!(faults.is_empty(), "BLESS=1 rewrites these files:\n{}", faults.join("\n"));
}

/// The two cases set all keys. A key of the table without a row would have been read and ignored.
#[test]
fn every_key_has_a_row() {
    for (case, of) in [("every-key-of-the-file", false), ("every-key-of-the-object", true)] {
        let case = directory().join(case);
        let (_, configuration) = input(&case);
        let configuration = configuration.unwrap();
        assert_eq!(configuration.is_object(), of);
        let rows = migrated(&case).rows;
        let fields: BTreeSet<&str> = rows.iter().map(|row| row.field.trim_start_matches("spec.")).collect();
        for key in KEYS {
            let path = configuration.path(key);
            if path.is_empty() {
                continue;
            }
            assert!(configuration.get(key).is_some(), "{}: {path} is not set", case.display());
            assert!(fields.contains(path), "{}: {path} has no row", case.display());
        }
    }
}

#[test]
fn keys_are_listed_once_and_have_settings_that_exist() {
    let (mut files, mut objects) = (BTreeSet::new(), BTreeSet::new());
    for key in KEYS {
        assert!(key.file.is_empty() || files.insert(key.file), "{} is listed twice", key.file);
        assert!(key.object.is_empty() || objects.insert(key.object), "{} is listed twice", key.object);
        if let super::To::Set(setting, _) = key.to {
            let known = !crate::settings::written(&crate::settings::Settings::default(), setting).is_empty();
            assert!(known, "{setting} is no setting");
        }
    }
}

/// A key that the table lacks is reported, at any depth.
#[test]
fn no_key_is_ignored() {
    for text in
        ["x: 1", "timeouts: {x: 1s}", "metrics: {envoy: {x: null}}", "tls: {fingerprint: {ja5: true}}", "policy: 5"]
    {
        let configuration = parse("contour.yaml", text).unwrap();
        let rows = migrate(&Manifests::default(), Some(&configuration), &Flags::default(), &Scope::Part, NOW).rows;
        let reported = rows.iter().any(|row| row.file == "contour.yaml" && row.verdict == Verdict::Attention);
        assert!(reported, "{text}: {rows:#?}");
    }
}

#[test]
fn a_configuration_that_is_not_valid_is_an_error_with_its_place() {
    for (text, part) in [
        ("a: [", "contour.yaml: document 1, line"),
        ("- a", "not an object with keys"),
        ("a: 1\n---\nb: 2\n", "more than one document"),
    ] {
        let error = parse("contour.yaml", text).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    assert!(parse("contour.yaml", "").is_ok(), "an empty file stands for the defaults");
}

/// The lines of a ConfigMap are those of its file, if its text is a block.
#[test]
fn keys_of_a_config_map_have_lines() {
    let manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: contour, namespace: a}\ndata:\n  contour.yaml: |\n    # A \
                    comment.\n    timeouts:\n      x: 1s\n";
    let configuration = find([("all.yaml", manifest)]).unwrap().pop().unwrap();
    let rows = configuration.unknown();
    assert_eq!((rows[0].line, rows[0].kind.as_str(), &*rows[0].name), (8, "ConfigMap", "contour"));
    let quoted = manifest.replace("|\n    # A comment.\n    timeouts:\n      x: 1s\n", "'{\"x\": 1}'\n");
    let configuration = find([("all.yaml", quoted.as_str())]).unwrap().pop().unwrap();
    assert_eq!(configuration.unknown()[0].line, 5);
}

#[test]
fn the_order_of_the_input_has_no_effect() {
    for case in cases() {
        let text = fs::read_to_string(case.join("in.yaml")).unwrap_or_default();
        let mut parts: Vec<&str> = text.split("\n---\n").collect();
        parts.reverse();
        let rows = |text: &str| {
            let mut manifests = Manifests::default();
            manifests.add("in.yaml", text.to_owned());
            let rows = migrate(&manifests, None, &flags(&case), &Scope::Part, NOW).rows;
            rows.into_iter()
                .map(|row| ReportRow { line: 0, ..row })
                .filter(|row| !row.kind.is_empty())
                .collect::<BTreeSet<_>>()
        };
        // Of an object that is given twice, the first one counts.
        if !case.ends_with("broken-input") {
            assert_eq!(rows(&text), rows(&parts.join("\n---\n")), "{}", case.display());
        }
    }
}

/// Returns whether the report omits such findings on purpose.
fn is_omitted(finding: &Finding) -> bool {
    let of_others = finding.rule == Rule::Reason(Reason::UnsupportedAnnotation);
    finding.level == Level::Note || finding.rule == Rule::NotServed || of_others
}

/// The golden cases of the translation have every fault of HTTPProxies. Each has a row.
#[test]
fn no_fault_of_an_http_proxy_is_lost() {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden");
    let cases = fs::read_dir(golden).unwrap().map(|entry| entry.unwrap().path());
    let flags = Flags::default();
    let (mut faults, mut lost) = (0, Vec::new());
    for case in cases.filter(|case| case.file_name().unwrap().to_string_lossy().starts_with("httpproxy-")) {
        let mut manifests = Manifests::default();
        manifests.add("in.yaml", fs::read_to_string(case.join("in.yaml")).unwrap());
        let ContourMigration { settings, rows, .. } = migrate(&manifests, None, &flags, &Scope::Complete, NOW);
        let settings = resolve("", &settings, &[]).unwrap().settings.route;
        let is_foreign = |finding: &Finding| {
            let of_object = |row: &&ReportRow| (&row.namespace, &row.name) == (&finding.namespace, &finding.name);
            rows.iter().filter(of_object).any(|row| row.message.ends_with("neither controller serves it"))
        };
        for finding in check(&manifests, &settings, &Scope::Complete, NOW) {
            if finding.kind != "HTTPProxy" || is_omitted(&finding) || is_foreign(&finding) {
                continue;
            }
            faults += 1;
            let is_row = |row: &ReportRow| (&row.name, &row.field) == (&finding.name, &finding.field);
            if !rows.iter().any(|row| is_row(row) && row.message.contains(&finding.message)) {
                lost.push(format!("{}: {finding:?}", case.display()));
            }
        }
    }
    assert!(faults > 50, "only {faults} faults");
    assert!(lost.is_empty(), "{}", lost.join("\n"));
}
