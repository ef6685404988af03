//! Explanations of test cases. `cases/NAME/in.yaml` contains the objects, `request` contains the request and the
//! Envoys, and `out.txt` is the printed text.
//!
//! `BLESS=1 cargo test explain::tests` rewrites the texts.

#![allow(clippy::unwrap_used, clippy::panic)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use lockgate_route::envoy;
use lockgate_route::objects::{Kind, ObjectId};
use lockgate_route::settings::Settings;
use lockgate_route::translate::{ChangedInputs, Translator};
use lockgate_xds::snapshot::Resource;

use super::combine::{self, Combined};
use super::report::{Accepted, Report};
use super::table::{Style, columns};
use super::{ObjectState, Question, State, text};
use crate::check::{Manifests, objects};
use crate::inspection::{Inspection, Published};
use crate::replicas::EnvoyProgress;
use crate::settings::resolve;

/// The publication that serves all objects of a case.
const SINCE: u64 = 7;

/// A test case.
struct Case {
    question: Question,
    /// The lines of the Envoys: `envoy-1`, `envoy-2 behind`, `envoy-3 rejects Cluster shop/cart/http`.
    envoys: Vec<String>,
    manifests: Manifests,
    settings: Settings,
}

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/explain/cases")
}

fn read(path: &Path) -> Case {
    let mut question = Question::default();
    let mut envoys = Vec::new();
    for line in fs::read_to_string(path.join("request")).unwrap().lines() {
        let (key, value) = line.split_once(": ").unwrap_or_else(|| panic!("{}: {line}", path.display()));
        match key {
            "url" => question.url = value.to_owned(),
            "method" => question.method = value.to_owned(),
            "header" => question.headers.push_str(&format!("{value}\n")),
            "server name" => question.server_name = value.to_owned(),
            "envoy" => envoys.push(value.to_owned()),
            other => panic!("{}: {other}", path.display()),
        }
    }
    let mut manifests = Manifests::default();
    manifests.add("in.yaml", fs::read_to_string(path.join("in.yaml")).unwrap());
    let findings = manifests.findings();
    assert!(findings.is_empty(), "{}: {findings:?}", path.display());
    let settings = fs::read_to_string(path.join("settings.yaml")).unwrap_or_default();
    let settings = resolve("settings.yaml", &settings, &[]).unwrap_or_else(|faults| panic!("{faults}")).settings.route;
    Case { question, envoys, manifests, settings }
}

/// Returns the progress that a line describes.
fn progress(line: &str, resources: &[Resource]) -> EnvoyProgress {
    let mut words = line.split(' ');
    let id = words.next().unwrap().to_owned();
    let current = EnvoyProgress { id, answered: Some(SINCE), rejected: Vec::new() };
    match words.next() {
        None => current,
        Some("behind") => EnvoyProgress { answered: Some(SINCE - 1), ..current },
        Some("new") => EnvoyProgress { answered: None, ..current },
        Some("rejects") => {
            let (kind, name) = (words.next().unwrap(), words.next().unwrap());
            let found = resources.iter().find(|one| one.kind().short_name() == kind && **one.name() == *name);
            let found = found.unwrap_or_else(|| panic!("no {kind} {name}"));
            EnvoyProgress { rejected: vec![Arc::new(found.clone())], ..current }
        }
        Some(other) => panic!("{other}"),
    }
}

/// Returns the report and the state of a case.
fn explained(case: &Case) -> (Report, State) {
    let Case { question, envoys, manifests, settings } = case;
    let objects = objects(manifests);
    let mut translator = Translator::default();
    translator.update(&objects, settings, &ChangedInputs::everything());
    let (target, request) = question.parse().unwrap();
    let mut report = Report::new(question, translator.explain(target, &request, settings));
    let published = |id: &ObjectId| Published {
        uid: "".into(),
        revision: translator.revision(id).unwrap(),
        since: SINCE,
        served: !translator.has_lost(id),
        fleets: Default::default(),
    };
    let inspection = Inspection {
        problems: translator.problems().clone(),
        sources: translator.sources().map(|id| (id.clone(), published(&id))).collect(),
        complete: true,
        ..Inspection::default()
    };
    let resources = envoy::build(translator.model(), settings);
    let envoys: Vec<EnvoyProgress> = envoys.iter().map(|line| progress(line, &resources)).collect();
    if !envoys.is_empty() {
        report.add_live(&inspection, &envoys, &[]);
    }
    let serves = |id: &ObjectId| translator.serves(id);
    report
        .add_elsewhere(question, &ObjectState { objects: &objects, verdicts: translator.verdicts(), serves: &serves });
    (report, State::new(&inspection, &envoys, &[], SINCE))
}

#[test]
fn each_situation_reads_as_an_operator_would_say_it() {
    let mut paths: Vec<PathBuf> = fs::read_dir(directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    assert!(paths.len() >= 20, "only {} cases", paths.len());
    let mut different = Vec::new();
    for path in paths {
        let (report, state) = explained(&read(&path));
        // The JSON output contains the same report.
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report, "{}", path.display());
        let state_json = serde_json::to_string(&state).unwrap();
        assert_eq!(serde_json::from_str::<State>(&state_json).unwrap(), state, "{}", path.display());
        assert!(!json.contains("PRIVATE KEY") && !state_json.contains("PRIVATE KEY"), "{}", path.display());
        let mut now = text::report(&report, Style::Plain);
        if !state.envoys.is_empty() {
            let state = State { replica: "lockgate-1".into(), version: "1.0.0".into(), ..state };
            now.push_str(&format!("\n$ lockgate status\n{}", text::status(&Combined::new(vec![state]), Style::Plain)));
        }
        let file = path.join("out.txt");
        if std::env::var_os("BLESS").is_some() {
            fs::write(&file, &now).unwrap();
        } else if fs::read_to_string(&file).unwrap_or_default() != now {
            different.push(format!("{}\n{now}", path.display()));
        }
    }
    assert!(different.is_empty(), "BLESS=1 rewrites these: {}", different.join("\n"));
}

/// Returns the report of a case, as a replica with these Envoys sends it.
fn with_envoys(case: &str, envoys: &[&str]) -> Report {
    let mut case = read(&directory().join(case));
    case.envoys = envoys.iter().map(ToString::to_string).collect();
    explained(&case).0
}

#[test]
fn the_envoys_of_all_replicas_count() {
    let one = with_envoys("forward", &["envoy-1", "envoy-2 behind"]);
    let other = with_envoys("forward", &["envoy-3", "envoy-4 rejects Cluster shop/cart/http"]);
    let lost = Err("connection refused".to_owned());
    let replicas = vec![("a".to_owned(), Ok(one)), ("b".to_owned(), Ok(other)), ("c".to_owned(), lost)];
    let report = combine::reports(replicas).unwrap();
    let Accepted { total, accepted, waiting, rejected } = report.answers[0].envoys.clone().unwrap();
    assert_eq!((total, accepted, waiting), (4, 2, vec!["envoy-2".to_owned()]));
    assert_eq!((rejected.len(), rejected[0].envoy.as_str()), (1, "envoy-4"));
    let note = "replica c did not answer, so its Envoys are not counted: connection refused";
    assert_eq!(report.notes, [note]);
}

#[test]
fn a_replica_with_another_answer_is_noted() {
    let (one, other) = (with_envoys("forward", &["envoy-1"]), with_envoys("missing-service", &["envoy-2"]));
    let report = combine::reports(vec![("a".to_owned(), Ok(one)), ("b".to_owned(), Ok(other))]).unwrap();
    assert_eq!(report.notes.len(), 1);
    assert!(report.notes[0].starts_with("replica b answers differently from a: "), "{:?}", report.notes);
    assert_eq!(combine::reports(vec![("a".to_owned(), Err("gone".to_owned()))]), None);
}

#[test]
fn the_states_of_all_replicas_are_one() {
    let state = |envoys: &[&str], replica: &str| {
        let mut case = read(&directory().join("forward"));
        case.envoys = envoys.iter().map(ToString::to_string).collect();
        State { replica: replica.to_owned(), ..explained(&case).1 }
    };
    let gone = State { replica: "c".into(), error: "connection refused".into(), ..State::default() };
    let states = vec![state(&["envoy-1"], "a"), state(&["envoy-2 behind", "envoy-3"], "b"), gone];
    let combined = Combined::new(states);
    assert_eq!((combined.envoys, combined.up_to_date), (3, 2));
    assert_eq!(combined.served.get("Ingress"), Some(&1));
    let waiting: Vec<_> = combined.waiting.iter().map(|one| (one.object.as_str(), one.accepted, one.envoys)).collect();
    assert_eq!(waiting, [("Ingress shop/web", 2, 3)]);
    assert!(combined.needs_attention());
    let printed = text::status(&combined, Style::Plain);
    assert!(printed.contains("2 of 3 Envoys are up to date; 2 of 3 replicas answer; 1 Ingress served."), "{printed}");
    assert!(printed.contains("Replica c does not answer: connection refused"), "{printed}");
    let quiet = Combined::new(vec![state(&["envoy-1"], "a")]);
    assert!(!quiet.needs_attention(), "{quiet:?}");
}

#[test]
fn urls_name_a_protocol_a_host_and_a_path() {
    let parsed = |url: &str| {
        let question = Question { url: url.to_owned(), ..Question::default() };
        let (target, request) = question.parse()?;
        let port = target.port.map(|port| port.to_string()).unwrap_or_default();
        let name = request.server_name.unwrap_or_default();
        Ok::<_, String>(format!("{} {} {port} {name} {}", request.method, request.authority, request.path))
    };
    for (url, expected) in [
        ("https://shop.test/cart?a=b#part", "GET shop.test  shop.test /cart?a=b"),
        ("shop.test", "GET shop.test  shop.test /"),
        ("http://shop.test:8080", "GET shop.test:8080 8080  /"),
        ("HTTPS://user@Shop.test?x", "GET Shop.test  Shop.test /?x"),
        ("https://10.0.0.1/", "GET 10.0.0.1   /"),
        ("https://[::1]:8443/", "GET [::1]:8443 8443  /"),
        ("grpcs://shop.test/shop.Cart/Add", "POST shop.test  shop.test /shop.Cart/Add"),
        ("tcp://db.test:5432", "GET db.test:5432 5432  /"),
    ] {
        assert_eq!(parsed(url).as_deref(), Ok(expected), "{url}");
    }
    for (url, part) in [
        ("ftp://shop.test", "has the scheme \"ftp\""),
        ("https:///cart", "no valid host"),
        ("https://a b/", "no valid host"),
        ("https://shop.test:99999/", "not a number up to 65535"),
        ("https://shop.test/a b", "must be escaped"),
    ] {
        assert!(parsed(url).unwrap_err().contains(part), "{url}: {:?}", parsed(url));
    }
    let question = Question { url: "a.test".into(), headers: "Host: b.test\nX-A: 1 ".into(), ..Question::default() };
    let (_, request) = question.parse().unwrap();
    assert_eq!((request.authority.as_str(), request.server_name.as_deref()), ("b.test", Some("a.test")));
    assert_eq!(request.headers, [("X-A".to_owned(), "1".to_owned())]);
    let question = Question { headers: "nothing".into(), ..question };
    assert!(question.parse().unwrap_err().contains("does not have the form"));
}

#[test]
fn texts_of_tenants_cannot_forge_lines_or_colors() {
    let rows = [vec!["a\n\x1b[31mb".to_owned(), "c\u{202e}d".to_owned()]];
    assert_eq!(columns(&rows, 0, Style::Plain), "a\\n\\u{1b}[31mb  c\\u{202e}d\n");
    let rows = [vec!["A".to_owned(), "B".to_owned()], vec!["a\nb".to_owned(), "c".to_owned()]];
    assert_eq!(columns(&rows, 1, Style::Plain), " A     B\n a\\nb  c\n");
    assert!(columns(&rows, 0, Style::Colors).starts_with("\x1b[2mA"));
    assert!(Kind::ALL.iter().all(|kind| !kind.as_str().contains(' ')), "`published` parses references");
}

/// Compares the section of docs/explain.md with this name with a console block, or rewrites it.
fn compare_section(name: &str, block: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/explain.md");
    let page = fs::read_to_string(&path).unwrap();
    let (start, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n"));
    let (before, rest) = page.split_once(&start).unwrap();
    let (section, after) = rest.split_once(&end).unwrap();
    let expected = format!("```console\n{block}```\n");
    if std::env::var_os("BLESS").is_some() {
        return fs::write(&path, format!("{before}{start}{expected}{end}{after}")).unwrap();
    }
    assert!(section == expected, "docs/explain.md: BLESS=1 rewrites the section {name}");
}

#[test]
fn the_documentation_shows_real_output() {
    let report = with_envoys("lost-path", &["envoy-1", "envoy-2", "envoy-3 behind"]);
    let shown = text::report(&report, Style::Plain);
    compare_section("sample of explain", &format!("$ lockgate explain http://shop.example.com/cart\n{shown}"));
    let state = |replica: &str, envoys: &[&str]| {
        let mut case = read(&directory().join("lost-path"));
        case.envoys = envoys.iter().map(ToString::to_string).collect();
        State { replica: replica.to_owned(), version: "1.0.0".into(), ..explained(&case).1 }
    };
    let replicas =
        vec![state("lockgate-7c9f-2xk", &["envoy-1", "envoy-2"]), state("lockgate-7c9f-8wd", &["envoy-3 behind"])];
    let shown = text::status(&Combined::new(replicas), Style::Plain);
    compare_section("sample of status", &format!("$ lockgate status\n{shown}"));
}
