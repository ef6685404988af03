//! The assignment of resources to files.

use lockgate_xds::snapshot::ResourceType;

use super::FileFormat;

/// The arrangement of a type in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrangement {
    /// All resources in one file.
    Together,
    /// Each resource in a file of its own. For several, Envoy reports "Unexpected EDS resource length: 2".
    Alone,
}

/// The types in the order in which their files are written: a referenced file exists before the reference.
const TYPES: &[(ResourceType, &str, Arrangement)] = &[
    (ResourceType::RUNTIME, "runtime", Arrangement::Alone),
    (ResourceType::SECRET, "secrets", Arrangement::Alone),
    (ResourceType::ENDPOINTS, "endpoints", Arrangement::Alone),
    (ResourceType::CLUSTER, "clusters", Arrangement::Together),
    (ResourceType::EXTENSION, "extensions", Arrangement::Alone),
    (ResourceType::ROUTES, "routes", Arrangement::Alone),
    (ResourceType::SCOPED_ROUTES, "scoped-routes", Arrangement::Together),
    (ResourceType::LISTENER, "listeners", Arrangement::Together),
];

/// The maximum length of a resource name in a file name. File systems allow 255 bytes.
const MAX_LENGTH: usize = 180;

/// Returns the types that files can contain, in the order in which they are written. Virtual hosts are not included,
/// because Envoy accepts them from delta streams only.
pub(super) fn types() -> impl DoubleEndedIterator<Item = ResourceType> {
    TYPES.iter().map(|(kind, ..)| *kind)
}

/// Returns the arrangement of `kind`. Returns `None` if Envoy does not read it from files.
pub(super) fn arrangement(kind: ResourceType) -> Option<Arrangement> {
    TYPES.iter().find(|(other, ..)| *other == kind).map(|(.., arrangement)| *arrangement)
}

/// Returns whether listeners and routes reference resources of `kind`, so that they are written first.
pub(super) fn is_behind(kind: ResourceType) -> bool {
    [ResourceType::RUNTIME, ResourceType::SECRET, ResourceType::ENDPOINTS, ResourceType::CLUSTER].contains(&kind)
}

/// Returns the type whose common file has the name `file`.
pub(super) fn type_of(file: &str, format: FileFormat) -> Option<ResourceType> {
    let stem = file.strip_suffix(format.suffix())?;
    let (first, alone) = match stem.split_once('.') {
        Some((first, _)) => (first, Arrangement::Alone),
        None => (stem, Arrangement::Together),
    };
    TYPES.iter().find(|(_, name, arrangement)| *name == first && *arrangement == alone).map(|(kind, ..)| *kind)
}

/// Returns the name of the file with the resource `name` of type `kind`: `clusters.json`,
/// `endpoints.default__shop__http.json`.
///
/// It contains only characters that are valid in a key of a ConfigMap. A slash becomes `__`, and any other character
/// becomes `_` and its bytes in hexadecimal.
pub fn file_name(kind: ResourceType, name: &str, format: FileFormat) -> String {
    let suffix = format.suffix();
    match TYPES.iter().find(|(other, ..)| *other == kind) {
        Some((_, stem, Arrangement::Together)) => format!("{stem}{suffix}"),
        Some((_, stem, Arrangement::Alone)) => format!("{stem}.{}{suffix}", escaped(name)),
        None => format!("{}.{}{suffix}", kind.short_name(), escaped(name)),
    }
}

fn escaped(name: &str) -> String {
    let mut text = String::new();
    for byte in name.bytes() {
        match byte {
            b'/' => text.push_str("__"),
            byte if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.' => text.push(byte.into()),
            byte => text.push_str(&format!("_{byte:02x}")),
        }
    }
    if text.len() > MAX_LENGTH {
        text.truncate(MAX_LENGTH - 18);
        // `_-` encodes no character, so the name differs from the names of all other resources.
        text.push_str(&format!("_-{:016x}", xxhash_rust::xxh3::xxh3_64(name.as_bytes())));
    }
    text
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_become_files_and_no_two_the_same() {
        let file = |kind, name| file_name(kind, name, FileFormat::Json);
        assert_eq!(file(ResourceType::CLUSTER, "any"), "clusters.json");
        assert_eq!(file(ResourceType::ENDPOINTS, "default/shop/http"), "endpoints.default__shop__http.json");
        assert_eq!(file(ResourceType::SECRET, "../.."), "secrets...__...json");
        assert_eq!(file(ResourceType::ROUTES, "https/*.a.test"), "routes.https___2a.a.test.json");
        let names = ["a/b", "a_b", "a__b", "a_2fb", "a__", "a/", "A/b", "a b", "ä", "", "_", "__", "/"];
        let long = [format!("{}a", "x".repeat(300)), format!("{}b", "x".repeat(300)), "/".repeat(300)];
        let names = names.iter().map(|name| (*name).to_owned()).chain(long).collect::<Vec<_>>();
        let files: BTreeSet<_> = names.iter().map(|name| file(ResourceType::ROUTES, name)).collect();
        assert_eq!(files.len(), names.len(), "{files:?}");
        for file in files {
            assert!(
                file.len() <= 253 && file.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
                "{file}"
            );
            assert_eq!(type_of(&file, FileFormat::Json), Some(ResourceType::ROUTES));
        }
    }

    #[test]
    fn other_files_are_nobodys() {
        assert_eq!(type_of("clusters.json", FileFormat::Json), Some(ResourceType::CLUSTER));
        for file in ["clusters.yaml", "clusters", "clusters.a.json", "endpoints.json", ".clusters.json", "envoy.json"] {
            assert_eq!(type_of(file, FileFormat::Json), None, "{file}");
        }
    }

    #[test]
    fn referenced_files_are_written_first() {
        assert!(types().map(is_behind).is_sorted_by(|before, after| before >= after));
    }
}
