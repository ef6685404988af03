//! A compact table of all message types, for traversal of encoded messages without look-ups in the pool.
//!
//! The build script writes it, so that no process has to decode the descriptors to serve resources.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::TYPE_URL_PREFIX;

/// The index of a message type in the table.
pub(super) type Index = u32;

/// The maximum nesting depth of messages, including `Any`. Deeper messages count as malformed.
pub(super) const MAX_DEPTH: usize = 200;

/// Fields of `google.protobuf.Any`.
pub(super) const ANY_TYPE_URL: u32 = 1;
/// Fields of `google.protobuf.Any`.
pub(super) const ANY_VALUE: u32 = 2;
/// Fields of a map's entry.
pub(super) const ENTRY_KEY: u32 = 1;
/// Fields of a map's entry.
pub(super) const ENTRY_VALUE: u32 = 2;

/// All message types.
pub(super) struct Types {
    all: &'static [Type],
    by_name: HashMap<&'static [u8], Index>,
}

/// A message type.
pub(super) struct Type {
    /// The type URL.
    pub(super) url: &'static str,
    /// The type URL in version 2 of the API.
    pub(super) v2: Option<&'static str>,
    /// Whether it is `google.protobuf.Any`.
    pub(super) any: bool,
    /// Whether equal messages may have different encodings, because they contain a map or an `Any` at any depth.
    pub(super) unstable: bool,
    /// The fields that hold messages or are maps, by number.
    pub(super) fields: &'static [(u32, FieldType)],
}

/// The content of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldType {
    /// A message, or a list of them.
    Message(Index),
    /// A map whose values are messages or scalars.
    Map(Option<Index>),
}

impl FieldType {
    /// The type of the messages in the field.
    pub(super) fn message(self) -> Option<Index> {
        match self {
            FieldType::Message(index) => Some(index),
            FieldType::Map(value) => value,
        }
    }
}

/// The table of the pool's types.
static ALL: &[Type] = include!(concat!(env!("OUT_DIR"), "/types.rs"));

/// The table of the pool's types.
pub(super) fn types() -> &'static Types {
    static TYPES: LazyLock<Types> = LazyLock::new(|| Types::new(ALL));
    &TYPES
}

impl Types {
    fn new(all: &'static [Type]) -> Self {
        let name = |url: &'static str| &url.as_bytes()[TYPE_URL_PREFIX.len()..];
        let mut by_name = HashMap::with_capacity(2 * all.len());
        by_name.extend(all.iter().zip(0..).filter_map(|(known, index)| Some((name(known.v2?), index))));
        // Names of version 2 are tried last, because another type may have the same name.
        by_name.extend(all.iter().map(|known| name(known.url)).zip(0..));
        Self { all, by_name }
    }

    /// Returns the number of types.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the type at `index`.
    #[inline]
    pub(super) fn get(&self, index: Index) -> &Type {
        &self.all[index as usize]
    }

    /// Returns the URL of the type at `index`, if it exists.
    pub(super) fn url_at(&self, index: usize) -> Option<&'static str> {
        self.all.get(index).map(|known| known.url)
    }

    /// Returns the type `full_name`, which may be a name of version 2 of the API.
    #[inline]
    pub(super) fn index_of(&self, full_name: &[u8]) -> Option<Index> {
        self.by_name.get(full_name).copied()
    }

    /// Returns the type named after the last `/` of `url`.
    #[inline]
    pub(super) fn index_of_url(&self, url: &[u8]) -> Option<Index> {
        let slash = url.iter().rposition(|&byte| byte == b'/')?;
        self.index_of(&url[slash + 1..])
    }

    /// Returns for each type whether `is_goal` holds for it or for a type reachable through its fields.
    pub(super) fn reaching(&self, is_goal: impl Fn(Index) -> bool) -> Vec<bool> {
        let mut users = vec![Vec::new(); self.all.len()];
        for (user, message) in (0..).zip(self.all) {
            for (_, field) in message.fields {
                if let Some(used) = field.message() {
                    users[used as usize].push(user);
                }
            }
        }
        let mut open: Vec<Index> = (0..self.all.len() as Index).filter(|&index| is_goal(index)).collect();
        let mut reaching = vec![false; self.all.len()];
        while let Some(index) = open.pop() {
            if !std::mem::replace(&mut reaching[index as usize], true) {
                open.extend(&users[index as usize]);
            }
        }
        reaching
    }
}

impl Type {
    /// Returns the content of the field `number` if it holds messages or map entries.
    #[inline]
    pub(super) fn field(&self, number: u32) -> Option<FieldType> {
        let at = self.fields.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.fields[at].1)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use prost_reflect::Kind;

    use super::*;

    #[test]
    fn the_table_matches_the_descriptors() {
        let types = types();
        let messages = super::super::pool().all_messages().filter(|message| !message.is_map_entry());
        let mut count = 0;
        for message in messages {
            count += 1;
            let index = types.index_of(message.full_name().as_bytes()).unwrap();
            let known = types.get(index);
            assert_eq!(known.url.strip_prefix(TYPE_URL_PREFIX), Some(message.full_name()));
            assert_eq!(known.any, message.full_name() == "google.protobuf.Any");
            let held = |kind: Kind| kind.as_message().map(|inner| inner.full_name().to_owned());
            let mut fields: Vec<_> = message.fields().filter(|field| field.kind().as_message().is_some()).collect();
            fields.sort_by_key(|field| field.number());
            assert_eq!(known.fields.len(), fields.len(), "{}", known.url);
            for (&(number, field), expected) in known.fields.iter().zip(fields) {
                let (is_map, name) = match expected.kind() {
                    Kind::Message(entry) if expected.is_map() => (true, held(entry.map_entry_value_field().kind())),
                    kind => (false, held(kind)),
                };
                assert_eq!((number, matches!(field, FieldType::Map(_))), (expected.number(), is_map));
                let url = field.message().map(|index| types.get(index).url);
                assert_eq!(url.and_then(|url| url.strip_prefix(TYPE_URL_PREFIX)), name.as_deref());
            }
        }
        assert_eq!(types.len(), count);
        let is_source = |index: Index| {
            let known = types.get(index);
            known.any || known.fields.iter().any(|(_, field)| matches!(field, FieldType::Map(_)))
        };
        let unstable: Vec<bool> = types.all.iter().map(|known| known.unstable).collect();
        assert_eq!(unstable, types.reaching(is_source));
    }
}
