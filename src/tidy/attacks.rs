//! The tables of docs/security.md with attacks: each row names existing tests, and each test of an attack is in a row.

use std::collections::BTreeSet;
use std::fs;

use super::cases::tests_in;
use super::{assert_none, files, root, sources};

const PAGE: &str = "docs/security.md";
/// The tests of attacks.
const ATTACKS: &str = "isolation::";

/// Returns the rows of all tables whose last column has the heading `test`.
fn rows(page: &str) -> Vec<&str> {
    let (mut rows, mut in_table) = (Vec::new(), false);
    for line in page.lines() {
        in_table = line.starts_with('|') && (in_table || line.ends_with(" test |"));
        if in_table && !line.ends_with(" test |") && !line.starts_with("| ---") {
            rows.push(line);
        }
    }
    rows
}

/// Returns the texts in backticks in the last cell of a row: tests, or modules of tests.
fn names_in(row: &str) -> impl Iterator<Item = &str> {
    let last = row.trim_end_matches(['|', ' ']).rsplit(" | ").next().unwrap_or_default();
    last.split('`').skip(1).step_by(2)
}

/// Returns whether `name` is the test, or a module that contains the test.
fn is_of(test: &str, name: &str) -> bool {
    test.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

#[test]
fn every_row_has_a_test_and_every_attack_a_row() {
    let page = fs::read_to_string(root().join(PAGE)).unwrap();
    let all = sources().into_iter().chain(files("e2e/tests", &["rs"]));
    let tests: BTreeSet<String> = all
        .flat_map(|source| tests_in(&source))
        .map(|test| test.path.strip_prefix("e2e::").map_or(test.path.clone(), str::to_owned))
        .collect();
    let (mut faults, mut named) = (Vec::new(), BTreeSet::new());
    for row in rows(&page) {
        named.extend(names_in(row));
        if names_in(row).next().is_none() {
            faults.push(format!("{PAGE}: no test in the last column: {row}"));
        }
    }
    for name in &named {
        if !tests.iter().any(|test| is_of(test, name)) {
            faults.push(format!("{PAGE}: no test is called {name}"));
        }
    }
    for test in tests.iter().filter(|test| test.starts_with(ATTACKS)) {
        if !named.iter().any(|name| is_of(test, name)) {
            faults.push(format!("{PAGE}: no row names {test}"));
        }
    }
    assert_none(faults);
}

#[test]
fn names_are_read_from_the_last_cell() {
    let page = "| who | test |\n| --- | --- |\n| `a::b` | `x::y`, `z` |\n\n| a | b |\n| --- | --- |\n| c | `d::e` |\n";
    assert_eq!(rows(page), ["| `a::b` | `x::y`, `z` |"]);
    assert_eq!(names_in(rows(page)[0]).collect::<Vec<_>>(), ["x::y", "z"]);
    assert!(is_of("x::y", "x::y") && is_of("x::y", "x") && !is_of("x::yz", "x::y"));
}
