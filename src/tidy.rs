//! What the compiler does not check: which module may use which, and how files are kept. The table of arrows is the
//! one of ARCHITECTURE.md; a new arrow is a decision, to be made here and there.

#![allow(clippy::unwrap_used, clippy::panic)]

mod attacks;
mod cases;
mod paths;

use std::fs;
use std::path::{Path, PathBuf};

use paths::{code, paths_of_crate};

/// What each module may use of ours, itself always included. `source::objects` allows that part alone.
const ARROWS: &[(&str, &[&str])] = &[
    // Base modules.
    ("identity", &[]),
    ("listening", &[]),
    ("metrics", &[]),
    ("parallel", &[]),
    ("protobuf", &[]),
    ("provenance", &[]),
    ("re2", &[]),
    ("telemetry", &[]),
    ("tls", &[]),
    // What is to be served, and how it is said.
    ("model", &["provenance"]),
    ("settings", &["identity", "model", "re2", "telemetry"]),
    ("snapshot", &["protobuf", "provenance"]),
    ("source", &["crd", "metrics", "model", "protobuf", "provenance", "settings", "snapshot"]),
    ("leader", &["metrics", "source"]),
    ("pki", &["identity", "leader", "metrics", "source::cluster"]),
    ("translate", &["crd", "model", "parallel", "provenance", "re2", "settings", "source::objects"]),
    ("envoy", &["model", "parallel", "protobuf", "provenance", "settings", "snapshot"]),
    ("xds", &["identity", "listening", "protobuf", "snapshot", "tls"]),
    ("export", &["protobuf", "snapshot"]),
    ("inspection", &["source::objects", "translate::problem"]),
    ("replicas", &["inspection", "snapshot", "source", "xds"]),
    (
        "status",
        &["inspection", "leader", "metrics", "provenance", "replicas", "settings", "source", "translate::problem"],
    ),
    ("drain", &["envoy::names", "listening"]),
    // Those who run it.
    (
        "admin",
        &[
            "inspection",
            "listening",
            "metrics",
            "protobuf",
            "snapshot",
            "source::objects",
            "telemetry",
            "tls",
            "translate::problem",
        ],
    ),
    (
        "controller",
        &[
            "admin",
            "envoy",
            "inspection",
            "metrics",
            "model",
            "provenance",
            "settings",
            "snapshot",
            "source",
            "translate",
        ],
    ),
    (
        "cmd",
        &[
            "admin",
            "controller",
            "drain",
            "envoy",
            "export",
            "identity",
            "inspection",
            "leader",
            "metrics",
            "model",
            "pki",
            "protobuf",
            "provenance",
            "replicas",
            "settings",
            "snapshot",
            "source",
            "status",
            "telemetry",
            "tls",
            "translate",
            "xds",
        ],
    ),
    ("main", &["cmd"]),
];

/// Crates that only some modules may know.
const CRATES: &[(&str, &[&str])] = &[
    ("anyhow", &["cmd"]),
    ("aws_lc_rs", &["source"]),
    ("axum", &["admin", "drain", "listening", "replicas", "xds"]),
    ("clap", &["cmd"]),
    ("clap_complete", &["cmd"]),
    ("der", &["source"]),
    ("envoy_types", &["cmd", "envoy", "export", "source", "xds"]),
    ("k8s_openapi", &["leader", "pki", "source", "status", "translate"]),
    ("kube", &["cmd", "leader", "pki", "source", "status"]),
    ("prometheus_client", &["metrics"]),
    ("rcgen", &["pki"]),
    ("rustix", &["cmd", "listening"]),
    ("tikv_jemallocator", &["main"]),
    ("tonic", &["xds"]),
    ("tracing_subscriber", &["telemetry"]),
];

/// A file of more lines is split by meaning.
const MOST_LINES: usize = 600;

struct Source {
    path: PathBuf,
    text: String,
}

impl Source {
    /// The module right under the root that this file belongs to.
    fn module(&self) -> &str {
        let first = self.path.strip_prefix("src").ok().and_then(|path| path.iter().next());
        let first = first.and_then(|first| first.to_str()).unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// Whether it is compiled for tests only.
    fn is_test(&self) -> bool {
        self.module() == "tidy"
            || self
                .path
                .iter()
                .any(|part| ["tests.rs", "tests", "golden.rs", "golden", "fuzz.rs"].iter().any(|test| part == *test))
    }

    /// Its text without the test module at its end.
    fn without_tests(&self) -> &str {
        let end = self.text.match_indices("#[cfg(test)]\n").find(|(at, mark)| {
            let next = self.text[at + mark.len()..].lines().next().unwrap_or_default();
            next.starts_with("mod ") && next.ends_with('{')
        });
        &self.text[..end.map_or(self.text.len(), |(at, _)| at)]
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Files of the repository with one of the `extensions`, sorted, by their path in it.
fn files(directory: &str, extensions: &[&str]) -> Vec<Source> {
    let mut found = vec![];
    let mut pending = vec![root().join(directory)];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            let hidden = name.starts_with('.') && name != ".ci";
            let fetched = ["target", "node_modules"].contains(&&*name) || path.ends_with("e2e/lab/bin");
            if path.is_dir() && !hidden && !fetched {
                pending.push(path);
            } else if path.is_file() && extensions.contains(&path.extension().and_then(|e| e.to_str()).unwrap_or("")) {
                let text = fs::read_to_string(&path).unwrap();
                found.push(Source { path: path.strip_prefix(root()).unwrap().to_owned(), text });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

fn sources() -> Vec<Source> {
    let sources = files("src", &["rs"]);
    assert!(sources.len() > 20, "the sources were not found");
    sources
}

#[track_caller]
fn assert_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

fn allows(allowed: &[&str], path: &str) -> bool {
    allowed.iter().any(|allowed| path == *allowed || path.starts_with(&format!("{allowed}::")))
}

#[test]
fn every_arrow_between_modules_is_one_of_the_table() {
    let mut faults = vec![];
    for source in sources().iter().filter(|source| !source.is_test() && source.module() != "lib") {
        let Some((module, allowed)) = ARROWS.iter().find(|(module, _)| *module == source.module()) else {
            faults.push(format!("{}: its module is not in the table of arrows", source.path.display()));
            continue;
        };
        for path in paths_of_crate(source.without_tests()) {
            if !allows(allowed, &path) && !allows(&[module], &path) {
                faults.push(format!("{}: `{module}` may not use `{path}`", source.path.display()));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn foreign_crates_stay_where_they_belong() {
    let mut faults = vec![];
    for source in sources().iter().filter(|source| !source.is_test()) {
        let code = code(source.without_tests());
        for (name, allowed) in CRATES {
            if !allowed.contains(&source.module()) && paths::names_crate(&code, name) {
                faults.push(format!("{}: `{name}` is for {} only", source.path.display(), allowed.join(", ")));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn files_open_with_their_purpose() {
    let opened = |source: &Source| ["//! ", "#![doc = "].iter().any(|open| source.text.starts_with(open));
    let unopened = sources().into_iter().filter(|source| !source.is_test() && !opened(source));
    assert_none(unopened.map(|source| format!("{}: does not start with `//! `", source.path.display())).collect());
}

#[test]
fn files_are_short() {
    let long = sources().into_iter().filter(|source| !source.is_test()).filter_map(|source| {
        let lines = source.without_tests().lines().count();
        (lines > MOST_LINES).then(|| format!("{}: {lines} lines, more than {MOST_LINES}", source.path.display()))
    });
    assert_none(long.collect());
}

#[test]
fn nothing_stops_the_process_outside_tests() {
    let mut faults = vec![];
    for source in sources().iter().filter(|source| !source.is_test()) {
        let code = code(source.without_tests());
        for call in [".unwrap()", ".unwrap_err()", ".expect(", "panic!(", "unreachable!(", "todo!("] {
            if code.contains(call) {
                faults.push(format!("{}: {call} outside tests", source.path.display()));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn no_path_of_somebodys_machine_is_in_the_repository() {
    // Put together here, or this file would be a fault.
    let machine_paths = [["/wo", "rk/"].concat(), ["/tmp/", "wt"].concat(), ["/ro", "ot/"].concat()];
    let extensions = ["rs", "md", "toml", "yaml", "yml", "sh", "py", "proto", "json", "txt"];
    let faults = files(".", &extensions).into_iter().flat_map(|source| {
        let found = machine_paths.iter().filter(|path| source.text.contains(*path)).cloned().collect::<Vec<_>>();
        found.into_iter().map(move |path| format!("{}: {path}", source.path.display()))
    });
    assert_none(faults.collect());
}

#[test]
fn no_test_is_switched_off() {
    let ignore = ["#[ign", "ore"].concat();
    let off = sources().into_iter().filter(|source| source.text.contains(&ignore));
    assert_none(off.map(|source| format!("{}: {ignore}]", source.path.display())).collect());
}

#[test]
fn the_table_of_arrows_has_no_circle() {
    // A module may use only what stands above it, so the order of the table is an order of layers.
    for (i, (module, allowed)) in ARROWS.iter().enumerate() {
        for used in allowed.iter().map(|path| path.split("::").next().unwrap()) {
            let above = ARROWS[..i].iter().any(|(above, _)| *above == used);
            assert!(above || used == "crd", "`{module}` uses `{used}`, which does not stand above it");
        }
    }
}

#[test]
fn the_architecture_names_every_module() {
    let architecture = fs::read_to_string(root().join("src/ARCHITECTURE.md")).unwrap();
    for (module, _) in ARROWS {
        assert!(architecture.contains(&format!("`{module}`")), "`{module}` is not in ARCHITECTURE.md");
    }
}
