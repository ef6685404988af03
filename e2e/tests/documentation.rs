//! The code blocks of the documentation: YAML passes `lockgate check` or `lockgate config check`, values pass helm, and
//! each command is run by a test, or its mark states why not.

mod canary;

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use e2e::lockgate::binary;
use e2e::pages::{self, Block};
use e2e::process::repository;
use serde_json::Value;

/// The languages of code blocks that highlighters support.
const LANGUAGES: [&str; 6] = ["console", "json", "rust", "text", "toml", "yaml"];

fn all() -> Vec<Block> {
    pages::pages().iter().flat_map(|(page, text)| pages::blocks(page, text)).collect()
}

fn assert_none(faults: &[String]) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn every_block_states_how_it_is_tested() {
    let blocks = all();
    let mut faults = Vec::new();
    let mut counts = [0; 3];
    for block in &blocks {
        let Block { place, language, .. } = block;
        if !LANGUAGES.contains(&&**language) {
            faults.push(format!("{place}: language {language:?}, not one of {LANGUAGES:?}"));
        }
        let marks = ["run in the lab", "tested by ", "not run: "].map(|mark| block.mark(mark).is_some());
        let marked = marks.iter().filter(|&&marked| marked).count();
        if language == "console" && marked != 1 {
            faults.push(format!("{place}: needs one mark: run in the lab, tested by TEST, or not run: REASON"));
        }
        marks.iter().zip(&mut counts).for_each(|(marked, count)| *count += usize::from(*marked));
        if block.mark("not run:").is_some_and(str::is_empty) || block.mark("not checked:").is_some_and(str::is_empty) {
            faults.push(format!("{place}: the mark has no reason"));
        }
    }
    assert_none(&faults);
    println!(
        "{} blocks: {} run in the lab, {} by other tests, {} not run",
        blocks.len(),
        counts[0],
        counts[1],
        counts[2]
    );
}

/// Returns the top-level keys of the settings file, from its schema.
fn groups_of_settings() -> BTreeSet<String> {
    let schema = std::fs::read_to_string(repository().join("docs/settings.schema.json")).expect("the schema");
    let schema: Value = serde_json::from_str(&schema).expect("a schema");
    schema["properties"].as_object().expect("properties").keys().cloned().collect()
}

/// Returns the top-level keys of a YAML text.
fn keys(text: &str) -> impl Iterator<Item = &str> {
    let key = |line: &&str| line.starts_with(|c: char| c.is_ascii_alphabetic());
    text.lines().filter(key).filter_map(|line| line.split_once(':')).map(|(key, _)| key)
}

/// Runs a program until it exits.
fn run_program(program: PathBuf, args: &[&str], stdin: &str) -> Output {
    let mut command = Command::new(program);
    command.args(args).current_dir(repository());
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("the program");
    // The program may exit before it has read all input.
    let _ = child.stdin.take().expect("standard input").write_all(stdin.as_bytes());
    child.wait_with_output().expect("the end of the program")
}

/// Returns the objects of a block, with the Service and the Secret of its marks in the namespace of the first object.
fn with_others(block: &Block) -> String {
    let namespace = block.text.lines().find_map(|line| line.strip_prefix("  namespace: ")).unwrap_or("default");
    let mut text = block.text.clone();
    let mut add = |kind: &str, name: &str, rest: String| {
        let head = format!("---\napiVersion: v1\nkind: {kind}\nmetadata: {{ name: {name}, namespace: {namespace} }}\n");
        text.push_str(&format!("{head}{rest}\n"));
    };
    if let Some((name, port)) = block.mark("with Service:").and_then(|service| service.split_once(' ')) {
        add("Service", name, format!("spec: {{ ports: [{{ port: {port} }}] }}"));
    }
    if let Some(secret) = block.mark("with Secret:") {
        let words: Vec<&str> = secret.split(' ').collect();
        let [name, kind, key] = words[..] else { panic!("{}: with Secret: NAME TYPE KEY", block.place) };
        add("Secret", name, format!("type: {kind}\nstringData: {{ {key}: 4f0c2a9e7d1b }}"));
    }
    text
}

/// Returns the fault of a YAML block, if it has one.
fn fault_of(block: &Block, groups: &BTreeSet<String>) -> Option<String> {
    if keys(&block.text).any(|key| key == "apiVersion") {
        let answer = run_program(binary(), &["check", "--output", "json", "-"], &with_others(block));
        let findings: Vec<Value> = serde_json::from_slice(&answer.stdout).expect("findings as JSON");
        let problems = findings.iter().filter(|finding| finding["level"] != "note");
        let rules: BTreeSet<&str> = problems.filter_map(|finding| finding["rule"].as_str()).collect();
        let expected = block.mark("findings:").unwrap_or_default();
        let expected: BTreeSet<&str> = expected.split(", ").filter(|rule| !rule.is_empty()).collect();
        return (rules != expected).then(|| format!("{rules:?} instead of {expected:?}: {findings:#?}"));
    }
    let answer = match keys(&block.text).all(|key| groups.contains(key)) {
        true => run_program(binary(), &["config", "check", "/dev/stdin"], &block.text),
        false => {
            let chart = ["template", "lockgate", "charts/lockgate", "--namespace", "lockgate", "--values", "-"];
            run_program(e2e::lab::program("helm"), &chart, &block.text)
        }
    };
    (!answer.status.success()).then(|| String::from_utf8_lossy(&answer.stderr).into_owned())
}

#[test]
fn yaml_is_valid_as_objects_settings_or_values() {
    let groups = groups_of_settings();
    let (mut faults, mut checked) = (Vec::new(), 0);
    for block in all().iter().filter(|block| block.language == "yaml" && block.mark("not checked:").is_none()) {
        checked += 1;
        if let Some(fault) = fault_of(block, &groups) {
            faults.push(format!("{}: {fault}", block.place));
        }
    }
    println!("{checked} blocks of YAML are valid");
    assert_none(&faults);
    assert!(checked > 10, "only {checked} blocks");
}

#[test]
fn invalid_yaml_is_found() {
    let block =
        |text: &str| Block { place: String::new(), language: "yaml".into(), marks: Vec::new(), text: text.into() };
    let groups = groups_of_settings();
    let route =
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: a }\nspec: { rules: [{ host: A_b }] }\n";
    for text in ["timeouts: { connect: soon }\n", "envoy: { replica: 3 }\n", route] {
        assert!(fault_of(&block(text), &groups).is_some(), "{text}");
    }
    assert_eq!(fault_of(&block("timeouts: { connect: 3s }\n"), &groups), None);
}

#[test]
fn the_recording_of_the_front_page_is_up_to_date() {
    let mut command = Command::new("python3");
    command.arg(repository().join("scripts/recording.py")).arg("--check");
    let output = command.env("LOCKGATE", binary()).env("ENVOY", e2e::envoy::binary()).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
