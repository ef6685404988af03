//! Checks that the files of a module use each other in one direction. A parent uses its children, because it declares them.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::paths_after;
use super::{Source, assert_none, sources};

/// The modules of the program without a circle of files.
const MODULES: [&str; 1] = ["status"];

/// Returns the module of a file: `status::gateway::class`.
fn name(source: &Source) -> String {
    let path = source.path.with_extension("");
    let parts: Vec<_> = path.iter().skip(1).map(|part| part.to_string_lossy()).collect();
    parts.join("::")
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// Returns the files that `module` uses, apart from itself.
fn used<'a>(module: &str, text: &str, files: &'a BTreeSet<String>) -> BTreeSet<&'a str> {
    let relative = paths_after("super::", text).into_iter().map(|path| {
        let (mut base, mut path) = (parent(module), &*path);
        while let Some(rest) = path.strip_prefix("super::") {
            (base, path) = (parent(base), rest);
        }
        format!("{base}::{path}")
    });
    let paths = paths_after("crate::", text).into_iter().chain(relative);
    let file = |path: String| {
        let mut file = &*path;
        while !file.is_empty() && !files.contains(file) {
            file = parent(file);
        }
        files.get(file)
    };
    let children = files.iter().filter(|file| parent(file) == module);
    paths.filter_map(file).chain(children).map(|file| &**file).filter(|file| *file != module).collect()
}

#[test]
fn files_of_a_module_have_no_circle() {
    let all = sources();
    for module in MODULES {
        let of_module = all
            .iter()
            .filter(|source| source.path.starts_with("src") && source.module() == module && !source.is_test());
        let sources: BTreeMap<String, &Source> = of_module.map(|source| (name(source), source)).collect();
        let files: BTreeSet<String> = sources.keys().cloned().collect();
        let uses = sources.iter().map(|(file, source)| (&**file, used(file, source.without_tests(), &files)));
        let mut uses: BTreeMap<&str, BTreeSet<&str>> = uses.collect();
        assert!(uses[module].len() > 1, "{module} has submodules");
        // A file that uses no remaining file is not in a circle.
        while let Some(file) = uses.iter().find(|(_, used)| !used.iter().any(|used| uses.contains_key(used))) {
            let file = *file.0;
            uses.remove(file);
        }
        let fault = |(file, used): (&&str, &BTreeSet<&str>)| {
            let used: Vec<&str> = used.iter().filter(|used| uses.contains_key(*used)).copied().collect();
            format!("{file} is in a circle, or uses one: {}", used.join(", "))
        };
        assert_none(uses.iter().map(fault).collect());
    }
}
