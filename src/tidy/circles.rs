//! Checks that the files of a module use each other in one direction. A file uses the file that declares an item, and not the files that
//! re-export it, so a parent may declare its children and re-export their items.

use std::collections::{BTreeMap, BTreeSet};

use super::paths::{code, expanded, paths_after};
use super::{assert_none, sources};

/// The modules without a circle of files, each with the directory of its crate.
const MODULES: [(&str, &str); 8] = [
    ("src", "settings"),
    ("src", "source"),
    ("src", "status"),
    ("src", "yaml"),
    ("crates/xds/src", "snapshot"),
    ("crates/route/src", "objects"),
    ("crates/route/src", "translate::gateway"),
    ("crates/route/src", "translate::translator"),
];

/// The words before the name of a declared item.
const DECLARATIONS: [&str; 9] = ["const", "enum", "fn", "macro_rules", "mod", "static", "struct", "trait", "type"];

/// A file of a module.
struct File {
    /// The code without re-exports.
    code: String,
    /// The paths of the re-exported items, by name.
    exports: BTreeMap<String, String>,
    /// The paths of all imported and re-exported items, by name.
    imports: BTreeMap<String, String>,
    /// The names of the declared items.
    declared: BTreeSet<String>,
}

impl File {
    fn new(text: &str) -> Self {
        let (mut code, mut exports, mut imports) = (String::new(), BTreeMap::new(), BTreeMap::new());
        for statement in self::code(text).split_inclusive(';') {
            let Some((start, path)) = import(statement) else {
                code.push_str(statement);
                continue;
            };
            let named = expanded(path);
            imports.extend(named.clone());
            if statement[start..].starts_with("pub") {
                exports.extend(named);
                code.push_str(&statement[..start]);
            } else {
                code.push_str(statement);
            }
        }
        let words: Vec<&str> = code.split(|c: char| !is_of_name(c)).filter(|word| !word.is_empty()).collect();
        let declared = words.windows(2).filter(|pair| DECLARATIONS.contains(&pair[0])).map(|pair| pair[1].to_owned());
        Self { declared: declared.collect(), code, exports, imports }
    }

    /// Returns whether the code uses the re-exported item `name`.
    fn uses(&self, name: &str) -> bool {
        let is_type = name.starts_with(char::is_uppercase);
        self.code.match_indices(name).any(|(at, _)| {
            let (before, after) = (&self.code[..at], &self.code[at + name.len()..]);
            !before.ends_with(|c: char| is_of_name(c) || [':', '.'].contains(&c))
                && !after.starts_with(is_of_name)
                && (is_type || after.starts_with('('))
        })
    }
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// Returns the start of the import at the end of `statement`, and its paths.
fn import(statement: &str) -> Option<(usize, &str)> {
    let mut start = statement.len();
    for line in statement.split_inclusive('\n').rev() {
        start -= line.len();
        let at = start + line.len() - line.trim_start().len();
        for visibility in ["", "pub ", "pub(crate) ", "pub(super) "] {
            if let Some(path) = statement[at..].strip_prefix(visibility).and_then(|rest| rest.strip_prefix("use ")) {
                return Some((at, path.trim_end_matches(';')));
            }
        }
    }
    None
}

fn parent(module: &str) -> &str {
    module.rsplit_once("::").map_or("", |(parent, _)| parent)
}

/// The files of a module, by path: `status::gateway::class`.
struct Files(BTreeMap<String, File>);

impl Files {
    /// Returns the path from the crate root that `path` in `file` means, if it may be a path of the module.
    fn absolute(&self, file: &str, path: &str) -> Option<String> {
        if let Some(path) = path.strip_prefix("crate::") {
            return Some(path.to_owned());
        }
        let (mut base, mut path) = (file, path.strip_prefix("self::").unwrap_or(path));
        let is_relative = path.starts_with("super::");
        while let Some(rest) = path.strip_prefix("super::") {
            (base, path) = (parent(base), rest);
        }
        let absolute = format!("{base}::{path}");
        let first = path.split("::").next().unwrap_or(path);
        (is_relative || self.0.contains_key(&format!("{base}::{first}"))).then_some(absolute)
    }

    /// Returns the file that declares the item at `path`. `None`: the item is of another module or crate.
    fn declaring(&self, path: &str) -> Option<&str> {
        let mut path = path.to_owned();
        let mut seen = BTreeSet::new();
        while seen.insert(path.clone()) {
            let mut of_file = &*path;
            while !of_file.is_empty() && !self.0.contains_key(of_file) {
                of_file = parent(of_file);
            }
            let (name, file) = self.0.get_key_value(of_file)?;
            let rest = path[of_file.len()..].trim_start_matches("::");
            let (item, below) = rest.split_once("::").unwrap_or((rest, ""));
            // A path without an item is of the file itself, or imports all its items.
            if item.is_empty() || file.declared.contains(item) {
                return Some(name);
            }
            let of_item = self.absolute(name, file.imports.get(item)?)?;
            path = if below.is_empty() { of_item } else { format!("{of_item}::{below}") };
        }
        None
    }

    /// Returns the other files that `name` uses.
    fn used(&self, name: &str, file: &File) -> BTreeSet<&str> {
        let mut paths = paths_after("crate::", &file.code);
        for start in ["super::", "self::"] {
            let written = paths_after(start, &file.code).into_iter();
            paths.extend(written.filter_map(|path| self.absolute(name, &format!("{start}{path}"))));
        }
        for child in self.0.keys().filter(|child| parent(child) == name) {
            let start = &child[name.len() + 2..];
            let of_child = paths_after(&format!("{start}::"), &file.code);
            paths.extend(of_child.into_iter().map(|path| format!("{child}::{path}")));
        }
        let exported = file.exports.iter().filter(|(item, _)| file.uses(item));
        paths.extend(exported.filter_map(|(_, path)| self.absolute(name, path)));
        paths.iter().filter_map(|path| self.declaring(path)).filter(|used| *used != name).collect()
    }

    /// Returns each file of a circle, or between two circles, with the files of circles that it uses.
    fn circles(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let uses = self.0.iter().map(|(name, file)| (&**name, self.used(name, file)));
        let mut uses: BTreeMap<&str, BTreeSet<&str>> = uses.collect();
        loop {
            let used: BTreeSet<&str> = uses.values().flatten().copied().collect();
            let before = uses.len();
            let remaining: BTreeSet<&str> = uses.keys().copied().filter(|name| used.contains(name)).collect();
            uses.retain(|name, _| remaining.contains(name));
            uses.values_mut().for_each(|used| used.retain(|name| remaining.contains(name)));
            uses.retain(|_, used| !used.is_empty());
            if uses.len() == before {
                return uses;
            }
        }
    }
}

#[test]
fn files_of_a_module_have_no_circle() {
    let sources = sources();
    let mut faults = vec![];
    for (directory, module) in MODULES {
        let files = sources.iter().filter(|source| !source.is_test()).filter_map(|source| {
            let path = source.path.strip_prefix(directory).ok()?.with_extension("");
            let parts: Vec<_> = path.iter().map(|part| part.to_string_lossy()).collect();
            let name = parts.join("::");
            let is_of_module = name.strip_prefix(module).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
            is_of_module.then(|| (name, File::new(source.without_tests())))
        });
        let files = Files(files.collect());
        assert!(files.0.len() > 1, "{module} has no submodules");
        let circles = files.circles().into_iter();
        faults.extend(circles.map(|(name, used)| {
            let used: Vec<&str> = used.into_iter().collect();
            format!("{directory}: {name} is in a circle: it uses {}", used.join(", "))
        }));
    }
    assert_none(faults);
}

#[test]
fn a_use_leads_to_the_file_that_declares_the_item() {
    let circles = |texts: [&str; 3]| {
        let files = ["a", "a::b", "a::c"].into_iter().zip(texts).map(|(name, text)| (name.to_owned(), File::new(text)));
        Files(files.collect()).circles().into_keys().collect::<Vec<_>>().join(" ")
    };
    assert_eq!(
        circles(["mod b;\nmod c;\npub use b::B;\npub use c::{\n    self,\n    C,\n};", "use super::C;", "struct C;"]),
        ""
    );
    assert_eq!(circles(["mod b;\nmod c;\nuse b::B;\n", "use super::c::C;\nstruct B;", "struct C;"]), "");
    assert_eq!(circles(["use b::B;\nstruct A;", "use super::A;\nstruct B;", ""]), "a a::b");
    assert_eq!(circles(["pub use b::B;\nstruct A(B);", "use crate::a::A;\nstruct B;", ""]), "a a::b");
    assert_eq!(circles(["pub use b::B;\nstruct A;", "use crate::a::A;\nstruct B;", ""]), "");
    assert_eq!(circles(["pub use c::C as D;", "use super::D;\nstruct B;", "use super::b::B;\nstruct C;"]), "a::b a::c");
    assert_eq!(circles(["struct A;\nfn f() { b::g() }", "use super::*;\nfn g() {}", ""]), "a a::b");
    assert_eq!(circles(["pub use other::*;\nfn f() { b::g() }", "use super::Foreign;\nfn g() {}", ""]), "");
}
