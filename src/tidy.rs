//! Checks that the compiler does not perform: the dependencies between the modules of a crate, and rules for files.

#![allow(clippy::unwrap_used, clippy::panic)]

mod annotations;
mod attacks;
mod cases;
mod circles;
pub(crate) mod documents;
pub(crate) mod generated;
mod modules;
mod names;
mod paths;

use std::fs;
use std::path::{Path, PathBuf};

use paths::code;

/// The maximum number of lines of a file. A longer file must be split.
const MOST_LINES: usize = 600;

pub(crate) struct Source {
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    /// Returns the top-level module of the crate that contains this file.
    fn module(&self) -> &str {
        let first = self.path.iter().skip_while(|part| *part != "src").nth(1);
        let first = first.and_then(|first| first.to_str()).unwrap_or_default();
        first.strip_suffix(".rs").unwrap_or(first)
    }

    /// Returns whether it is compiled for tests only.
    fn is_test(&self) -> bool {
        ["testing", "tidy"].contains(&self.module())
            || self.path.starts_with("crates/fuzzing")
            || self.path.iter().any(|part| {
                ["tests.rs", "tests", "crds.rs", "crds", "golden.rs", "golden", "fuzz.rs"]
                    .iter()
                    .any(|test| part == *test)
            })
    }

    /// Returns the text without the test module at its end.
    fn without_tests(&self) -> &str {
        let end = self.text.match_indices("#[cfg(test)]\n").find(|(at, mark)| {
            let next = self.text[at + mark.len()..].lines().next().unwrap_or_default();
            next.starts_with("mod ") && next.ends_with('{')
        });
        &self.text[..end.map_or(self.text.len(), |(at, _)| at)]
    }
}

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files of the repository with one of the `extensions`, sorted by path.
pub(crate) fn files(directory: &str, extensions: &[&str]) -> Vec<Source> {
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

/// Returns the sources of the program and of its libraries.
fn sources() -> Vec<Source> {
    let directories = ["src", "crates/fuzzing/src", "crates/route/src", "crates/xds/src"];
    let sources = directories.into_iter().flat_map(|directory| {
        let sources = files(directory, &["rs"]);
        assert!(!sources.is_empty(), "{directory}: no sources");
        sources
    });
    sources.collect()
}

#[track_caller]
pub(crate) fn assert_none(faults: Vec<String>) {
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
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
    // Built from parts. Otherwise, this file would violate the rule.
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
