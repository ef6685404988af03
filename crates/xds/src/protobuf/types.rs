//! A compact table of all message types: what walking over encoded messages needs, without the pool's look-ups.

use std::collections::HashMap;
use std::sync::LazyLock;

use prost_reflect::{DescriptorPool, Kind, MessageDescriptor};

use super::{TYPE_URL_PREFIX, versions};

/// The index of a message type in the table.
pub(super) type Index = u32;

/// How deep messages may nest, `Any` counted: deeper ones are taken for malformed.
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
    all: Vec<Type>,
    by_name: HashMap<&'static [u8], Index>,
}

/// A message type.
pub(super) struct Type {
    /// Its type URL.
    pub(super) url: &'static str,
    /// The type URL that it had in version 2 of the API.
    pub(super) v2: Option<&'static str>,
    /// Whether it is `google.protobuf.Any`.
    pub(super) any: bool,
    /// Whether equal messages may have different encodings: there is a map or an `Any` in it, at any depth.
    pub(super) unstable: bool,
    /// The fields that hold messages or are maps, by number.
    pub(super) fields: Box<[(u32, FieldType)]>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FieldType {
    /// A message, or a list of them.
    Message(Index),
    /// A map to messages, or to something else.
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
pub(super) fn types() -> &'static Types {
    static TYPES: LazyLock<Types> = LazyLock::new(|| Types::new(&super::decoded()));
    &TYPES
}

impl Types {
    fn new(pool: &DescriptorPool) -> Self {
        let messages: Vec<_> = pool.all_messages().filter(|message| !message.is_map_entry()).collect();
        // One allocation a type for the life of the process: type URLs are compared and kept everywhere.
        let url = |name: &str| -> &'static str { Box::leak(format!("{TYPE_URL_PREFIX}{name}").into_boxed_str()) };
        let urls: Vec<_> = messages.iter().map(|message| url(message.full_name())).collect();
        let v2: Vec<_> =
            versions::v2_names(pool, &messages).into_iter().map(|name| name.map(|name| url(&name))).collect();
        let name = |url: &'static str| &url.as_bytes()[TYPE_URL_PREFIX.len()..];
        let v2_names = v2.iter().zip(0..).filter_map(|(url, index)| Some((name((*url)?), index)));
        let mut by_name: HashMap<&'static [u8], Index> = v2_names.collect();
        by_name.extend(urls.iter().map(|url| name(url)).zip(0..));
        let index = |message: &MessageDescriptor| by_name.get(message.full_name().as_bytes()).copied();
        let all = messages.iter().zip(urls).zip(v2).map(|((message, url), v2)| {
            let any = message.full_name() == "google.protobuf.Any";
            let fields = message.fields().filter_map(|field| {
                let Kind::Message(inner) = field.kind() else { return None };
                let field_type = match field.is_map() {
                    true => FieldType::Map(inner.map_entry_value_field().kind().as_message().and_then(index)),
                    false => FieldType::Message(index(&inner)?),
                };
                Some((field.number(), field_type))
            });
            let mut fields: Box<[_]> = fields.collect();
            fields.sort_by_key(|(number, _)| *number);
            let unstable = any || fields.iter().any(|(_, field)| matches!(field, FieldType::Map(_)));
            Type { url, v2, any, unstable, fields }
        });
        let mut types = Self { all: all.collect(), by_name: HashMap::new() };
        let unstable = types.reaching(|index| types.get(index).unstable);
        for (message, unstable) in types.all.iter_mut().zip(unstable) {
            message.unstable = unstable;
        }
        types.by_name = by_name;
        types
    }

    /// How many types there are.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// The type at `index`.
    #[inline]
    pub(super) fn get(&self, index: Index) -> &Type {
        &self.all[index as usize]
    }

    /// The URL of the type at `index`, if there are so many.
    pub(super) fn url_at(&self, index: usize) -> Option<&'static str> {
        self.all.get(index).map(|known| known.url)
    }

    /// The type `full_name`, which may be its name in version 2 of the API.
    #[inline]
    pub(super) fn index_of(&self, full_name: &[u8]) -> Option<Index> {
        self.by_name.get(full_name).copied()
    }

    /// The type that `url` names: what follows its last `/`.
    #[inline]
    pub(super) fn index_of_url(&self, url: &[u8]) -> Option<Index> {
        let slash = url.iter().rposition(|&byte| byte == b'/')?;
        self.index_of(&url[slash + 1..])
    }

    /// For each type whether it is one that `is_goal` says, or has a field that leads to one.
    pub(super) fn reaching(&self, is_goal: impl Fn(Index) -> bool) -> Vec<bool> {
        let mut users = vec![Vec::new(); self.all.len()];
        for (user, message) in (0..).zip(&self.all) {
            for (_, field) in &message.fields {
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
    /// What the field `number` holds, if messages or map entries.
    #[inline]
    pub(super) fn field(&self, number: u32) -> Option<FieldType> {
        let at = self.fields.binary_search_by_key(&number, |(number, _)| *number).ok()?;
        Some(self.fields[at].1)
    }
}
