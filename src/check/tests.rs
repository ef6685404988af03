//! The check of whole manifests: `cases/broken` has manifests with one fault each, `cases/nginx` has common examples of
//! ingress-nginx. `cases/NAME.txt` is the expected report of each directory.
//!
//! `BLESS=1 cargo test check::tests` rewrites the reports.

#![allow(clippy::unwrap_used, clippy::panic)]

mod scope;

use std::fs;
use std::path::{Path, PathBuf};

use lockgate_route::settings::Settings;

use super::output::{Colors, text};
use super::{Finding, Level, Manifests, Scope, check};

/// 2026-11-01, before the certificates of the cases expire.
const NOW: i64 = 1_793_491_200;

/// Checks one text as the file `name`.
fn checked(name: &str, content: &str, scope: &Scope) -> Vec<Finding> {
    let mut manifests = Manifests::default();
    manifests.add(name, content.to_owned());
    check(&manifests, &Settings::default(), scope, NOW)
}

/// Returns the manifests of `cases/NAME`, sorted.
fn cases(name: &str) -> Vec<(String, String)> {
    let directory = directory().join(name);
    let mut paths: Vec<PathBuf> = fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let case = |path: PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy().into_owned();
        (format!("{name}/{file}"), fs::read_to_string(&path).unwrap())
    };
    paths.into_iter().map(case).collect()
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/check/cases")
}

/// Compares `report` with `cases/NAME.txt`, or rewrites that file.
fn compare(name: &str, report: &str) {
    let path = directory().join(format!("{name}.txt"));
    if std::env::var_os("BLESS").is_some() {
        return fs::write(&path, report).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    let different: Vec<_> =
        report.lines().zip(expected.lines()).filter(|(now, before)| now != before).take(5).collect();
    assert!(
        report == expected,
        "{name}.txt: {} lines instead of {}; first differences: {different:#?}; BLESS=1 rewrites it",
        report.lines().count(),
        expected.lines().count()
    );
}

/// Checks that a line of a report names a line of its file, and a remedy.
fn assert_helpful(line: &str, content: &str) {
    let mut parts = line.splitn(3, ':');
    let (file, number) = (parts.next().unwrap(), parts.next().unwrap());
    let number: usize = number.parse().unwrap_or_else(|_| panic!("no line in {line}"));
    assert!((1..=content.lines().count()).contains(&number), "{file} has no line {number}: {line}");
    let (_, remedy) = line.split_once(" Remedy: ").unwrap_or_else(|| panic!("no remedy in {line}"));
    assert!(remedy.ends_with('.') && remedy.len() > 10, "{line}");
}

#[test]
fn each_broken_manifest_has_one_line_with_location_and_remedy() {
    let (mut report, mut others, cases) = (String::new(), String::new(), cases("broken"));
    for (name, content) in &cases {
        let mut findings = checked(name, content, &Scope::Part);
        findings.retain(|finding| finding.level < Level::Note);
        let lines = text(&findings, Colors::Off);
        match findings.len() {
            1 => assert_helpful(lines.trim_end(), content),
            count => others.push_str(&format!("{name}: {count} lines\n{lines}")),
        }
        report.push_str(&lines);
    }
    assert!(others.is_empty(), "{others}");
    assert!(cases.len() >= 60, "only {} cases", cases.len());
    compare("broken", &report);
}

#[test]
fn common_examples_of_ingress_nginx_report_the_differences() {
    let (mut report, cases) = (String::new(), cases("nginx"));
    for (name, content) in &cases {
        let lines = text(&checked(name, content, &Scope::Part), Colors::Off);
        for line in lines.lines() {
            assert_helpful(line, content);
        }
        for annotation in content.lines().filter_map(|line| line.trim().strip_prefix("nginx.ingress.kubernetes.io/")) {
            let annotation = annotation.split(':').next().unwrap();
            let named = format!("[\"nginx.ingress.kubernetes.io/{annotation}\"]");
            assert_eq!(lines.matches(&named).count(), 1, "{name}: {annotation}:\n{lines}");
        }
        report.push_str(&lines);
    }
    assert!(cases.len() >= 50, "only {} cases", cases.len());
    compare("nginx", &report);
}

#[test]
fn annotations_that_change_nothing_can_be_left_out() {
    let (_, content) = cases("nginx").into_iter().find(|(name, _)| name.ends_with("/app-root.yaml")).unwrap();
    for annotation in [
        "proxy-buffering: \"on\"",
        "proxy-buffering: \"off\"",
        "proxy-request-buffering: \"on\"",
        "proxy-buffer-size: 8k",
        "proxy-body-size: \"0\"",
        "backend-protocol: HTTP",
    ] {
        let (before, _) = content.split_once("    nginx.ingress").unwrap();
        let (_, after) = content.split_once("welcome\"\n").unwrap();
        let text = format!("{before}    nginx.ingress.kubernetes.io/{annotation}\n{after}");
        let mut findings = checked("a.yaml", &text, &Scope::Part);
        let of_annotation = |findings: &[Finding]| findings.iter().filter(|finding| finding.is_of_nginx()).count();
        assert_eq!(of_annotation(&findings), 1, "{annotation}");
        super::remove_harmless(&mut findings);
        assert_eq!(of_annotation(&findings), 0, "{annotation}: {findings:#?}");
    }
}

#[test]
fn annotations_of_contour_and_traefik_report_the_differences() {
    let (_, content) = cases("nginx").into_iter().find(|(name, _)| name.ends_with("/app-root.yaml")).unwrap();
    let level_of = |annotation: &str| {
        let (before, _) = content.split_once("    nginx.ingress").unwrap();
        let (_, after) = content.split_once("welcome\"\n").unwrap();
        let findings = checked("a.yaml", &format!("{before}    {annotation}\n{after}"), &Scope::Part);
        let found = findings.into_iter().find(|finding| finding.field.starts_with("metadata.annotations"));
        found.map(|finding| (finding.level, finding.rule.as_str()))
    };
    for (annotation, expected) in [
        ("projectcontour.io/response-timeout: 5s", Some((Level::Note, "SupportedAnnotation"))),
        ("projectcontour.io/response-timeout: soon", Some((Level::Error, "InvalidAnnotation"))),
        ("ingress.kubernetes.io/force-ssl-redirect: \"true\"", Some((Level::Note, "SupportedAnnotation"))),
        ("ingress.kubernetes.io/ssl-redirect: \"true\"", Some((Level::Note, "HarmlessAnnotation"))),
        ("ingress.kubernetes.io/ssl-redirect: \"false\"", Some((Level::Warning, "UnsupportedAnnotation"))),
        ("ingress.kubernetes.io/proxy-body-size: \"0\"", Some((Level::Note, "HarmlessAnnotation"))),
        ("nginx.ingress.kubernetes.io/secure-backends: \"false\"", Some((Level::Note, "HarmlessAnnotation"))),
        ("kubernetes.io/ingress.allow-http: \"false\"", Some((Level::Note, "SupportedAnnotation"))),
        ("traefik.ingress.kubernetes.io/router.entrypoints: web", Some((Level::Note, "HarmlessAnnotation"))),
        ("traefik.ingress.kubernetes.io/router.priority: \"10\"", Some((Level::Warning, "UnsupportedAnnotation"))),
        ("traefik.ingress.kubernetes.io/router.middlewares: a@b", Some((Level::Error, "AccessNotRestricted"))),
        // Annotations of Lockgate, and annotations of other programs.
        ("lockgate.dev/delegate-to: payments", None),
        ("cert-manager.io/cluster-issuer: letsencrypt", None),
    ] {
        assert_eq!(level_of(annotation), expected, "{annotation}");
    }
}

/// Compares the section of `docs/PAGE` between the comments `NAME` and `end of NAME` with `expected`, or rewrites it.
fn compare_section(page: &str, name: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page);
    let text = fs::read_to_string(&path).unwrap();
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = text.split_once(&start).unwrap();
    let (section, after) = rest.split_once(&end).unwrap();
    if std::env::var_os("BLESS").is_some() {
        return fs::write(&path, format!("{before}{start}{expected}{end}{after}")).unwrap();
    }
    assert!(section == expected, "docs/{page}: BLESS=1 rewrites the section {name}");
}

#[test]
fn the_documentation_shows_real_output() {
    let findings = |name: &str| {
        let content = fs::read_to_string(directory().join("docs").join(name)).unwrap();
        let mut findings = checked(&format!("deploy/{name}"), &content, &Scope::Part);
        super::remove_harmless(&mut findings);
        findings
    };
    for (section, name) in [("sample", "shop.yaml"), ("sample of a migration", "legacy.yaml")] {
        let lines = text(&findings(name), Colors::Off);
        let block = format!("```console\n$ lockgate check deploy/{name}\n{lines}```\n");
        compare_section("check.md", section, &block);
    }
    let error = findings("shop.yaml").into_iter().find(|finding| finding.level == Level::Error).unwrap();
    let block = format!("```json\n{:#}\n```\n", super::output::json(&[error]));
    compare_section("check.md", "sample of json", &block);
}
