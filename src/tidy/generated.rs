//! The pages of docs/reference, which are written from the code: `make docs` rewrites them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use lockgate_route::translate::Reason;

use super::{assert_none, files, root};

/// Compares `docs/reference/NAME` with `text`, or rewrites the page if the variable `BLESS` is set.
#[track_caller]
pub(crate) fn assert_page(name: &str, text: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("BLESS").is_some() {
        return fs::write(&path, text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/reference/{name} is not what the code gives: run `make docs`");
}

/// Returns the items of `source` that are declared by lines with `is_item`, each with its documentation as one text.
fn documented(source: &str, is_item: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let (mut items, mut doc) = (Vec::new(), String::new());
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("/// ") {
            doc = format!("{doc} {text}").trim_start().to_owned();
        } else {
            if !doc.is_empty() && is_item(line) {
                items.push((line.to_owned(), doc.clone()));
            }
            doc.clear();
        }
    }
    items
}

/// The meaning of each reason of a problem: the documentation of its variant.
fn meanings() -> BTreeMap<String, String> {
    let source = fs::read_to_string(root().join("crates/route/src/translate/problem.rs")).unwrap();
    let variants = source.split_once("pub enum Reason {").unwrap().1.split_once("\n}").unwrap().0;
    let is_variant = |line: &str| line.ends_with(',') && line.starts_with(|c: char| c.is_ascii_uppercase());
    documented(variants, is_variant)
        .into_iter()
        .map(|(name, doc)| (name.trim_end_matches(',').to_owned(), doc))
        .collect()
}

#[test]
fn the_reference_of_events_is_up_to_date() {
    let meanings = meanings();
    let mut page = String::from(
        "# Events and reasons\n\nThis page is written by `make docs` from the code.\n\n\
         Lockgate reports each problem of an object as an Event of type `Warning` on that object, in the log, at `/debug/problems`, \
         and in the metric `lockgate_problems`. All four have the same reason. The message names the field, the fault, and its effect. \
         [`lockgate check`](../check.md) reports the same reasons before you apply the object.\n\n\
         ## Warnings\n\n| reason | meaning | what to do |\n| --- | --- | --- |\n",
    );
    for reason in Reason::ALL {
        let name = reason.as_str();
        let meaning = meanings.get(name).unwrap_or_else(|| panic!("{name} has no documentation"));
        let meaning = meaning.split_inclusive(". ").next().unwrap().trim_end().replace(['[', ']'], "");
        writeln!(page, "| `{name}` | {meaning} | {} |", reason.remedy()).unwrap();
    }
    page.push_str("\n## Other Events\n\n| reason | written when |\n| --- | --- |\n");
    let notices = fs::read_to_string(root().join("src/status/events/notice.rs")).unwrap();
    let constants = documented(&notices, |line| line.contains("const ") && line.contains(": &str = \""));
    assert_eq!(constants.len(), 2, "{constants:?}");
    for (constant, meaning) in constants {
        let meaning =
            meaning.strip_prefix("The reason of the Event when ").unwrap_or_else(|| panic!("{constant}: {meaning}"));
        writeln!(page, "| `{}` | {meaning} |", constant.split('"').nth(1).unwrap()).unwrap();
    }
    assert_page("events.md", &page);
}

/// A line of conditions in a golden case: `Gateway infra/public listener http: Accepted=True Accepted: message`.
struct Shown {
    kind: String,
    condition: String,
    status: String,
    reason: String,
    message: String,
}

fn shown(line: &str) -> Option<Shown> {
    let line = line.strip_prefix("- \"").and_then(|line| line.strip_suffix('"')).or_else(|| line.strip_prefix("- "))?;
    let line = line.replace("\\\"", "\"");
    let (object, condition) = line.split_once(": ")?;
    let (condition, message) = condition.split_once(": ").unwrap_or((condition, ""));
    let (set, reason) = condition.split_once(' ')?;
    let (condition, status) = set.split_once('=')?;
    let kind = object.split(' ').next()?;
    let kind = if object.contains(" listener ") { format!("listener of a {kind}") } else { kind.to_owned() };
    let [condition, status, reason, message] = [condition, status, reason, message].map(str::to_owned);
    Some(Shown { kind, condition, status, reason, message })
}

/// The reasons of `Programmed=False`, which do not come from the translation, because it depends neither on Envoys nor
/// on addresses.
const NOT_PROGRAMMED: [(&str, &str); 7] = [
    (
        "AddressNotAssigned",
        "the Service of the Gateway has no address; a load balancer of the Kubernetes cluster assigns it",
    ),
    ("AddressNotUsable", "an address in `spec.addresses` is not assigned to the Service"),
    ("Invalid", "the object is not accepted, has no valid listener, or the API server refuses its Service"),
    ("NoResources", "the Service of the Gateway cannot be written"),
    ("ParentNotProgrammed", "the Gateway of a ListenerSet is not programmed"),
    ("Pending", "the Service of the Gateway does not exist yet, or Envoys have not accepted the current revision yet"),
    ("PortUnavailable", "no listener of the ListenerSet has a port of the Envoys"),
];

#[test]
fn the_reference_of_conditions_is_up_to_date() {
    let mut rows: BTreeMap<(String, String, String, String), String> = BTreeMap::new();
    for case in files("src/golden", &["yaml"]).iter().filter(|file| file.path.ends_with("out.yaml")) {
        let lines = case.text.split_once("conditions:\n").map_or("", |(_, lines)| lines).lines();
        for Shown { kind, condition, status, reason, message } in lines.map_while(shown) {
            let example = rows.entry((kind, condition, status, reason)).or_default();
            if example.is_empty() {
                *example = message;
            }
        }
    }
    assert!(rows.len() > 50, "only {} conditions", rows.len());
    let mut page = String::from(
        "# Conditions\n\nThis page is written by `make docs` from the golden cases of the translation.\n\n\
         Lockgate writes conditions into the status of objects of Gateway API and of HTTPProxies, whose condition `Valid` lists errors and \
         warnings. Ingress v1 has no conditions: its problems are \
         [Events](events.md), and its address appears when all Envoys have accepted it.\n\n\
         | object | condition | reason | example of a message |\n| --- | --- | --- | --- |\n",
    );
    for ((kind, condition, status, reason), message) in &rows {
        let message = message.replace('|', "\\|");
        writeln!(page, "| {kind} | `{condition}={status}` | `{reason}` | {message} |").unwrap();
    }
    page.push_str(
        "\n## Programmed\n\n`Programmed=True` means that all connected Envoys have accepted the current revision of the object: its \
         message states their number. `Programmed=False` has one of these reasons:\n\n| reason | meaning |\n| --- | --- |\n",
    );
    let mut unknown = Vec::new();
    let sources = files("src/status", &["rs"]);
    for (reason, meaning) in NOT_PROGRAMMED {
        writeln!(page, "| `{reason}` | {meaning} |").unwrap();
        if !sources.iter().any(|source| source.text.contains(&format!("\"{reason}\""))) {
            unknown.push(format!("no code in src/status writes {reason}"));
        }
    }
    for source in &sources {
        for call in source.without_tests().split("Fault::new(").skip(1) {
            let reason = call.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next());
            if let Some(reason) = reason.filter(|reason| !NOT_PROGRAMMED.iter().any(|(known, _)| known == reason)) {
                unknown.push(format!("{}: {reason} has no row", source.path.display()));
            }
        }
    }
    assert_none(unknown);
    assert_page("conditions.md", &page);
}

#[test]
fn lines_of_conditions_are_read() {
    let line = "- \"Gateway infra/public listener http: Accepted=False X: port \\\"a\\\" is wrong\"";
    let Shown { kind, condition, status, reason, message } = shown(line).unwrap();
    assert_eq!([&*kind, &*condition, &*status, &*reason], ["listener of a Gateway", "Accepted", "False", "X"]);
    assert_eq!(message, "port \"a\" is wrong");
    assert!(shown("routes:").is_none());
    assert_eq!(documented("/// a\n/// b\nX,\nY,\n", |line| line.ends_with(',')), [("X,".into(), "a b".into())]);
}
