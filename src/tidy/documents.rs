//! Documents for contributors: the length of ARCHITECTURE.md, the list of design decisions, and relative links.

use std::fs;
use std::path::{Path, PathBuf};

use super::cases::tests_in;
use super::{assert_none, files, root, sources};

/// The maximum length of ARCHITECTURE.md, which is an introduction. Details belong to the documentation of a module or
/// to a decision.
const MOST_LINES_OF_THE_ARCHITECTURE: usize = 280;

/// Returns the targets of the Markdown links in `text`.
fn links(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(target, _)| target)
}

/// Returns the anchor of a heading, as GitHub derives it.
pub(crate) fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Returns the anchors of all headings of a document.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let heading = |line: &str| Some(line.strip_prefix('#')?.trim_start_matches('#').strip_prefix(' ')?.to_owned());
    text.lines().filter_map(heading).map(|heading| anchor(&heading))
}

/// README.md is read in a minute.
const MOST_LINES_OF_THE_FRONT_PAGE: usize = 120;

#[test]
fn the_front_page_is_short() {
    let lines = fs::read_to_string(root().join("README.md")).unwrap().lines().count();
    assert!(lines <= MOST_LINES_OF_THE_FRONT_PAGE, "README.md has {lines} lines");
}

#[test]
fn the_architecture_is_an_introduction() {
    let lines = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap().lines().count();
    assert!(lines <= MOST_LINES_OF_THE_ARCHITECTURE, "ARCHITECTURE.md has {lines} lines");
}

#[test]
fn every_decision_is_listed() {
    let list = fs::read_to_string(root().join("docs/decisions/README.md")).unwrap();
    let listed: Vec<&str> = links(&list).collect();
    let names = files("docs/decisions", &["md"]).into_iter().map(|page| page.path);
    let names = names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned());
    let names: Vec<String> = names.filter(|name| name != "README.md").collect();
    assert!(!names.is_empty());
    let unlisted = names.iter().filter(|name| !listed.contains(&name.as_str()));
    assert_none(unlisted.map(|name| format!("docs/decisions/README.md does not link {name}")).collect());
}

#[test]
fn relative_links_of_documents_lead_to_files_and_headings() {
    let mut faults = vec![];
    // A template of a page at the top of the repository.
    let is_template = |page: &Path| page.starts_with("bench/src");
    for page in files(".", &["md"]).into_iter().filter(|page| !is_template(&page.path)) {
        let directory = root().join(page.path.parent().unwrap_or(Path::new("")));
        for link in links(&page.text).filter(|link| !link.contains("://")) {
            let (path, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { root().join(&page.path) } else { directory.join(path) };
            let is_page = target.extension().is_some_and(|extension| extension == "md");
            let text = if is_page { fs::read_to_string(&target).unwrap_or_default() } else { String::new() };
            if !target.exists() {
                faults.push(format!("{}: {link}: no such file", page.path.display()));
            } else if is_page && !heading.is_empty() && !anchors(&text).any(|anchor| anchor == heading) {
                faults.push(format!("{}: {link}: no such heading", page.path.display()));
            }
        }
    }
    assert_none(faults);
}

/// `e2e/tests/documentation.rs` checks that each block of commands has a mark.
#[test]
fn tests_that_marks_name_exist() {
    let all = sources().into_iter().chain(files("e2e/tests", &["rs"])).flat_map(|source| tests_in(&source));
    let tests: Vec<String> = all.map(|test| test.path.trim_start_matches("e2e::").to_owned()).collect();
    let mut faults = vec![];
    for page in files(".", &["md"]) {
        let marks = page.text.lines().filter_map(|line| line.strip_prefix("<!-- tested by ")?.strip_suffix(" -->"));
        let unknown = marks.filter(|mark| !tests.iter().any(|test| test == mark));
        faults.extend(unknown.map(|mark| format!("{}: no test is called {mark}", page.path.display())));
    }
    assert_none(faults);
}

#[test]
fn every_page_is_in_the_site() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    let listed: Vec<&str> = links(&summary).collect();
    let pages = files("docs", &["md"]).into_iter().map(|page| page.path.strip_prefix("docs").unwrap().to_owned());
    // scripts/book.py adds the decisions.
    let listed_here = |page: &PathBuf| page != Path::new("SUMMARY.md") && !page.starts_with("decisions");
    let unlisted = pages.filter(listed_here).filter(|page| !listed.contains(&page.to_str().unwrap()));
    assert_none(unlisted.map(|page| format!("docs/SUMMARY.md does not link {}", page.display())).collect());
}

/// `make docs` draws a diagram from its source, and puts the source into the picture.
#[test]
fn diagrams_are_up_to_date() {
    let sources = files("docs/diagrams", &["dot"]);
    assert!(!sources.is_empty());
    let stale = sources.iter().filter(|source| {
        let picture = fs::read_to_string(root().join(source.path.with_extension("svg"))).unwrap_or_default();
        !picture.contains(&format!("<![CDATA[\n{}]]>", source.text))
    });
    assert_none(stale.map(|source| format!("{}: run `make docs`", source.path.display())).collect());
}

#[test]
fn anchors_are_derived_as_on_github() {
    let text = "# How an Envoy ends\n\n## What `it` may do, and not\n#include\n";
    assert_eq!(anchors(text).collect::<Vec<_>>(), ["how-an-envoy-ends", "what-it-may-do-and-not"]);
    assert_eq!(links("see [a](b.md#c) and [d](e)").collect::<Vec<_>>(), ["b.md#c", "e"]);
}
