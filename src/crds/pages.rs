//! The tables of features in the pages of the policies: each feature has its text from the types, and a tested example.

use std::fmt::Write as _;
use std::fs;

use lockgate_route::objects::Kind;
use serde_json::Value;

use super::definitions;
use crate::tidy::documents::anchor;
use crate::tidy::{assert_none, root};

/// A document of a block of YAML in a page.
struct Example {
    /// The heading above the block.
    heading: String,
    /// Whether a mark names the test of the block.
    is_tested: bool,
    object: Value,
}

/// Returns the documents of the blocks of YAML in `text` in order.
fn examples(text: &str) -> Vec<Example> {
    let (mut all, mut heading, mut is_tested, mut open) = (Vec::new(), "", false, None::<String>);
    for line in text.lines() {
        if let Some(block) = &mut open {
            if line.trim() != "```" {
                *block = format!("{block}{line}\n");
                continue;
            }
            let objects = block.split("---\n").filter_map(|document| serde_saphyr::from_str(document).ok());
            all.extend(objects.map(|object| Example { heading: heading.to_owned(), is_tested, object }));
            (open, is_tested) = (None, false);
        } else if line.trim_start().starts_with("```") {
            open = Some(String::new());
        } else if line.starts_with('#') {
            heading = line.trim_start_matches('#').trim();
        } else if line.starts_with("<!-- tested by ") {
            is_tested = true;
        } else if !line.starts_with("<!-- ") {
            is_tested = false;
        }
    }
    all
}

/// Returns the table of the features of `kind`, ordered like the examples in `text`, and the features without an example.
fn table(kind: Kind, definition: &Value, text: &str) -> (String, Vec<String>) {
    let examples = examples(text);
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    let spec = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    for (name, field) in spec["properties"].as_object().into_iter().flatten() {
        if ["targetRefs", "defaults", "overrides"].contains(&&**name) {
            continue;
        }
        let sets = |example: &Example| {
            example.object["kind"] == kind.as_str() && !example.object["spec"][name].is_null() && example.is_tested
        };
        let Some(at) = examples.iter().position(sets) else {
            missing.push(format!("no tested example sets {name} of {}", kind.as_str()));
            continue;
        };
        let anchor = anchor(&examples[at].heading);
        let meaning = field["description"].as_str().unwrap_or_default();
        // The features of one block are in the order of its text.
        let within = text.find(&format!("\n  {name}:"));
        rows.push((at, within, format!("| [`{name}`](#{anchor}) | {} |\n", meaning.replace('|', "\\|"))));
    }
    rows.sort();
    let mut table = String::from("| field | meaning |\n| --- | --- |\n");
    for (_, _, row) in rows {
        let _ = write!(table, "{row}");
    }
    (table, missing)
}

#[test]
fn each_feature_of_a_policy_has_a_row_and_a_tested_example() {
    let (start, end) = ("<!-- features -->\n", "<!-- end of features -->\n");
    let mut faults = Vec::new();
    for (page, kind) in [("policies.md", Kind::HTTP_POLICY), ("backends.md", Kind::BACKEND_POLICY)] {
        let path = root().join("docs").join(page);
        let text = fs::read_to_string(&path).unwrap();
        let (before, rest) = text.split_once(start).unwrap_or_else(|| panic!("docs/{page} has no table of features"));
        let (written, after) = rest.split_once(end).unwrap_or_else(|| panic!("docs/{page}: the table has no end"));
        let (.., definition) = definitions().into_iter().find(|(other, ..)| *other == kind).unwrap();
        let (table, missing) = table(kind, &definition, after);
        faults.extend(missing.into_iter().map(|fault| format!("docs/{page}: {fault}")));
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, format!("{before}{start}{table}{end}{after}")).unwrap();
        } else if written != table {
            faults.push(format!("docs/{page}: the table of features is not that of the types: run `make docs`"));
        }
    }
    assert_none(faults);
}

#[test]
fn features_without_a_tested_example_are_found() {
    let definition = definitions().into_iter().find(|(kind, ..)| *kind == Kind::BACKEND_POLICY).unwrap().2;
    let block = |mark: &str, kind: &str, spec: &str| format!("{mark}\n```yaml\nkind: {kind}\nspec:\n  {spec}\n```\n");
    let text = [
        "### Zones, and more\n".to_owned(),
        block("<!-- tested by a::b -->", "BackendPolicy", "zones: {prefer: Local}\n  idleTimeout: 1s"),
        block("", "BackendPolicy", "http3: {}"),
        block("<!-- tested by a::b -->", "HTTPPolicy", "tcpKeepalive: {}"),
    ];
    let (table, missing) = table(Kind::BACKEND_POLICY, &definition, &text.concat());
    let rows: Vec<&str> = table.lines().skip(2).map(|row| row.split(" | ").next().unwrap()).collect();
    assert_eq!(rows, ["| [`zones`](#zones-and-more)", "| [`idleTimeout`](#zones-and-more)"]);
    let is_missing = |name: &str| missing.iter().any(|fault| fault.contains(&format!(" sets {name} of ")));
    assert!(is_missing("http3") && is_missing("tcpKeepalive") && !is_missing("zones"), "{missing:#?}");
}
