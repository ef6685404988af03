//! The table of protocol cases, docs/protocol-cases.md: every case, and its tests, which are found by name.
//!
//! `cases.txt` describes the cases. The name of a test contains the ID of its case in lower case. `make docs` rewrites
//! the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use super::{Source, assert_none, files, root, sources};

const TABLE: &str = "docs/protocol-cases.md";
/// The groups, by the prefix of their IDs.
const GROUPS: &str = "asdorfvp";
/// The cases without a test, and the reason, which the table contains.
const NOT_SHOWN: &[(&str, &str)] = &[];

/// A line of `cases.txt`, by its heading.
struct Case {
    group: &'static str,
    id: &'static str,
    variants: &'static str,
    text: &'static str,
}

fn cases() -> Vec<Case> {
    let (mut cases, mut group) = (Vec::new(), "");
    for line in include_str!("cases.txt").lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            group = heading;
        } else if !line.is_empty() && !line.starts_with('#') {
            let mut parts = line.splitn(3, " | ");
            let mut part = || parts.next().unwrap_or_else(|| panic!("cases.txt: {line}"));
            cases.push(Case { group, id: part(), variants: part(), text: part() });
        }
    }
    cases
}

/// A test, by its module and name.
pub(super) struct Test {
    name: String,
    /// Formats `xds::server::tests::rest::a_poll_is_answered`, or `e2e::modes::…` for a test in `e2e/tests/modes/`.
    pub(super) path: String,
    file: String,
}

/// Returns the IDs in the name of a test: S8 and D10 for `s8_d10_…`.
fn ids(name: &str) -> Vec<String> {
    let is_id = |part: &&str| {
        let digits = part.strip_prefix(|first| GROUPS.contains(first));
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    name.split('_').take_while(is_id).map(str::to_uppercase).collect()
}

/// Returns the functions of `source` that are tests.
pub(super) fn tests_in(source: &Source) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut marked = false;
    let mut inner = false;
    for line in source.text.lines() {
        let code = line.trim_start();
        inner |= code.starts_with("mod tests {");
        marked |= code.starts_with("#[test]") || code.starts_with("#[tokio::test");
        let function = code.strip_prefix("async ").unwrap_or(code).strip_prefix("fn ");
        if let Some(function) = function.filter(|_| marked) {
            let name = function.split(['(', '<']).next().unwrap_or_default().to_owned();
            let file = source.path.to_str().unwrap().to_owned();
            let in_file = if inner { "tests::" } else { "" };
            tests.push(Test { path: format!("{}::{in_file}{name}", module(&file)), name, file });
            marked = false;
        }
    }
    tests
}

/// `crates/xds/src/server/tests/rest.rs` is `xds::server::tests::rest`, `src/admin/tests.rs` is `admin::tests`, `e2e/tests/modes.rs` is `e2e::modes`.
fn module(file: &str) -> String {
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let path = path.strip_prefix("src/").or_else(|| path.strip_prefix("crates/")).unwrap_or(path);
    path.replacen("/src/", "/", 1).replacen("e2e/tests/", "e2e/", 1).replace('/', "::")
}

/// Returns the tests of each case.
fn shown_by() -> BTreeMap<String, Vec<Test>> {
    let mut shown: BTreeMap<String, Vec<Test>> = BTreeMap::new();
    for source in sources().iter().chain(&files("e2e/tests", &["rs"])) {
        for test in tests_in(source) {
            for id in ids(&test.name) {
                let Test { name, path, file } = &test;
                let test = Test { name: name.clone(), path: path.clone(), file: file.clone() };
                shown.entry(id).or_default().push(test);
            }
        }
    }
    shown
}

#[test]
fn every_protocol_case_has_a_test_and_every_id_a_case() {
    let (cases, shown) = (cases(), shown_by());
    let known: BTreeSet<&str> = cases.iter().map(|case| case.id).collect();
    let mut faults = Vec::new();
    if known.len() != cases.len() {
        faults.push("cases.txt: an id occurs twice".to_owned());
    }
    for id in &known {
        let excused = NOT_SHOWN.iter().any(|(not_shown, _)| not_shown == id);
        match shown.contains_key(*id) {
            false if !excused => faults.push(format!("{id}: no test bears it in its name")),
            true if excused => faults.push(format!("{id}: a test shows it, so it must not stand in NOT_SHOWN")),
            _ => {}
        }
    }
    for (id, tests) in &shown {
        if !known.contains(&**id) {
            let tests: Vec<&str> = tests.iter().map(|test| &*test.path).collect();
            faults.push(format!("{id}: cases.txt has no such case: {}", tests.join(", ")));
        }
    }
    faults.extend(NOT_SHOWN.iter().filter(|(id, _)| !known.contains(id)).map(|(id, _)| format!("{id}: no such case")));
    assert_none(faults);
}

#[test]
fn the_table_of_protocol_cases_is_up_to_date() {
    let path = root().join(TABLE);
    let table = table();
    if std::env::var_os("BLESS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, &table).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == table, "{TABLE} is not what the tests' names give: run `make docs`");
}

fn table() -> String {
    let mut table = String::from(
        "# Protocol cases\n\n\
         The tests of each case of the xDS protocol. `make docs` generates this page from \
         [cases.txt](../src/tidy/cases.txt) and the names of the tests. Do not edit it by hand.\n\n\
         Variants: SotW is state of the world. ADS is one aggregated stream; separate is one stream for each type. \
         Fetch is the unary methods, and REST is JSON over HTTP.\n\n\
         Tests whose path begins with `xds` simulate the client. It keeps to the protocol, and \
         behaves as the real client was observed. Where Envoy and gRPC libraries differ, these tests simulate \
         both. Tests in `e2e` run a real Envoy 1.40 or a real grpcio client. A case without such a test is shown \
         by the simulated client alone.\n",
    );
    let (shown, mut group) = (shown_by(), "");
    for case in cases() {
        if case.group != group {
            group = case.group;
            write!(table, "\n## {group}\n\n| id | given, expected | variants | tests |\n| --- | --- | --- | --- |\n")
                .unwrap();
        }
        let tests = shown.get(case.id).map(Vec::as_slice).unwrap_or_default();
        let link = |test: &Test| format!("[{}](../{})", test.path, test.file);
        let mut tests: Vec<String> = tests.iter().map(link).collect();
        let not_shown = NOT_SHOWN.iter().filter(|(id, _)| *id == case.id);
        tests.extend(not_shown.map(|(_, why)| format!("not shown: {why}")));
        let Case { id, text, variants, .. } = case;
        writeln!(table, "| {id} | {text} | {variants} | {} |", tests.join("<br>")).unwrap();
    }
    table
}

#[test]
fn ids_are_read_from_names() {
    assert_eq!(ids("f5_f6_envoy_learns"), ["F5", "F6"]);
    assert_eq!(ids("a11_a_stream_that_ends"), ["A11"]);
    assert!(ids("http2_is_spoken").is_empty() && ids("a_stream").is_empty() && ids("s_8").is_empty());
    assert_eq!(module("crates/xds/src/server/tests/rest.rs"), "xds::server::tests::rest");
    assert_eq!(module("src/admin/tests.rs"), "admin::tests");
    assert_eq!(module("e2e/tests/modes.rs"), "e2e::modes");
}
