//! Checks that the name of a type has one meaning within a crate, so that a reader knows the type without its module.

use std::collections::BTreeMap;

use super::paths::code;
use super::{assert_none, sources};

/// The crates in which no two public types have the same name.
const CRATES: [&str; 3] = ["src", "crates/route/src", "crates/xds/src"];

/// The keywords that declare a type.
const KEYWORDS: [&str; 4] = ["enum", "struct", "trait", "type"];

/// Returns the names of the types in `text` that the whole crate can use.
fn public_types(text: &str) -> Vec<String> {
    let declared = |line: &str| {
        let line = line.trim_start();
        let rest = ["pub ", "pub(crate) "].into_iter().find_map(|visibility| line.strip_prefix(visibility))?;
        let (keyword, rest) = rest.split_once(' ')?;
        let name = rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
        (KEYWORDS.contains(&keyword) && !name.is_empty()).then(|| name.to_owned())
    };
    code(text).lines().filter_map(declared).collect()
}

#[test]
fn no_two_public_types_of_a_crate_have_the_same_name() {
    let sources = sources();
    let mut faults = vec![];
    for directory in CRATES {
        let mut declared: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for source in sources.iter().filter(|source| source.path.starts_with(directory) && !source.is_test()) {
            for name in public_types(source.without_tests()) {
                declared.entry(name).or_default().push(source.path.display().to_string());
            }
        }
        assert!(!declared.is_empty(), "{directory}: no types");
        let twice = declared.into_iter().filter(|(_, files)| files.len() > 1);
        faults.extend(twice.map(|(name, files)| format!("the type `{name}` is declared in {}", files.join(", "))));
    }
    assert_none(faults);
}

#[test]
fn public_types_are_found_wherever_they_stand() {
    let types = |text| public_types(text).join(" ");
    assert_eq!(types("pub struct A<'a>(&'a str);\npub(crate) enum B {\n    C,\n}"), "A B");
    assert_eq!(types("pub trait A: Clone {\n    type B;\n}\nmod c {\n    pub type D = u8;\n}"), "A D");
    assert_eq!(
        types(
            "struct A;\npub(super) struct B;\npub(in crate::c) struct D;\npub fn e() {}\npub use f::G;\npub struct $name;"
        ),
        ""
    );
    assert_eq!(types("// pub struct A;\nconst B: &str = \"\npub struct C;\";"), "");
}
