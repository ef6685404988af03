//! The canonical encoding: equal messages have equal bytes.
//!
//! Encoders write the fields of a message in a fixed order, but the entries of a map in any order. The canonical
//! encoding sorts them in place, because sorting does not change the length.

use std::ops::Range;

use super::types::{ANY_TYPE_URL, ANY_VALUE, ENTRY_KEY, ENTRY_VALUE, FieldType, Index, MAX_DEPTH, types};
use super::wire::{Fields, Malformed, Value};

/// Returns the canonical encoding of `message`, an encoded message of type `full_name`. Map entries are sorted by key,
/// at the position of the first one, also inside `Any`. Everything else is unchanged: unknown fields, malformed
/// messages, and messages of unknown types.
pub fn canonical(full_name: &str, message: &[u8]) -> Vec<u8> {
    let mut bytes = message.to_vec();
    let Some(index) = types().index_of(full_name.as_bytes()) else { return bytes };
    if types().get(index).unstable {
        let range = 0..bytes.len();
        if sort(index, &mut bytes, range, 0) == Err(Malformed) {
            bytes.copy_from_slice(message);
        }
    }
    bytes
}

/// An entry of a map: the field, its position, and its key.
struct Entry {
    number: u32,
    whole: Range<usize>,
    key: Range<usize>,
}

/// Sorts the map entries of the message of type `index` at `range`.
fn sort(index: Index, bytes: &mut [u8], range: Range<usize>, depth: usize) -> Result<(), Malformed> {
    if depth > MAX_DEPTH {
        return Err(Malformed);
    }
    let message = types().get(index);
    if message.any {
        return sort_any(bytes, range, depth);
    }
    let mut entries: Vec<Entry> = Vec::new();
    let mut at = range.start;
    loop {
        // Each field is parsed again, because sorting needs exclusive access to the bytes in between.
        let mut fields = Fields::within(bytes, at..range.end);
        let field = loop {
            let Some(field) = fields.advance()? else { break None };
            if let Value::Bytes(content) = &field.value
                && let Some(field_type) = message.field(field.number)
            {
                break Some((field.number, field.whole, content.clone(), field_type));
            }
        };
        let Some((number, whole, content, field_type)) = field else { break };
        at = whole.end;
        match field_type {
            FieldType::Message(inner) => {
                if types().get(inner).unstable {
                    sort(inner, bytes, content, depth + 1)?;
                }
            }
            FieldType::Map(value) => {
                let unstable = value.filter(|&value| types().get(value).unstable);
                let key = sort_entry(unstable, bytes, content, depth)?;
                entries.push(Entry { number, whole, key });
            }
        }
    }
    arrange(entries, bytes, range);
    Ok(())
}

/// Sorts the maps in the value of a map entry, if it is a message of type `value`. Returns the position of the key.
fn sort_entry(
    value: Option<Index>,
    bytes: &mut [u8],
    range: Range<usize>,
    depth: usize,
) -> Result<Range<usize>, Malformed> {
    let (mut key, mut content) = (range.start..range.start, None);
    let mut fields = Fields::within(bytes, range);
    while let Some(field) = fields.advance()? {
        match (field.number, field.value) {
            (ENTRY_KEY, Value::Bytes(text)) => key = text,
            (ENTRY_KEY, _) => key = field.whole,
            (ENTRY_VALUE, Value::Bytes(message)) => content = Some(message),
            _ => {}
        }
    }
    if let (Some(value), Some(content)) = (value, content) {
        sort(value, bytes, content, depth + 1)?;
    }
    Ok(key)
}

/// Sorts the maps in the value of an `Any`, if its type is known.
fn sort_any(bytes: &mut [u8], range: Range<usize>, depth: usize) -> Result<(), Malformed> {
    let Some((index, content)) = any(bytes, range)? else { return Ok(()) };
    if types().get(index).unstable { sort(index, bytes, content, depth + 1) } else { Ok(()) }
}

/// Returns the type and the position of the value of the `Any` at `range`. `None`: it has no value or no known type.
pub(super) fn any(bytes: &[u8], range: Range<usize>) -> Result<Option<(Index, Range<usize>)>, Malformed> {
    let (mut url, mut content) = (None, None);
    let mut fields = Fields::within(bytes, range);
    while let Some(field) = fields.advance()? {
        match (field.number, field.value) {
            (ANY_TYPE_URL, Value::Bytes(text)) => url = Some(text),
            (ANY_VALUE, Value::Bytes(message)) => content = Some(message),
            _ => {}
        }
    }
    let index = url.and_then(|url| types().index_of_url(&bytes[url]));
    Ok(index.zip(content))
}

/// Sorts the `entries` of the message at `range`. The entries of each map start at the position of its first entry.
fn arrange(entries: Vec<Entry>, bytes: &mut [u8], range: Range<usize>) {
    if in_order(&entries, bytes) {
        return;
    }
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    // The sort is stable. If several entries have the same key, a decoder uses the last entry.
    sorted.sort_by(|a, b| (a.number, &bytes[a.key.clone()]).cmp(&(b.number, &bytes[b.key.clone()])));
    let mut arranged = Vec::with_capacity(range.len());
    let mut at = range.start;
    let mut done: Vec<u32> = Vec::new();
    for entry in &entries {
        arranged.extend_from_slice(&bytes[at..entry.whole.start]);
        at = entry.whole.end;
        if !done.contains(&entry.number) {
            done.push(entry.number);
            for one in sorted.iter().filter(|one| one.number == entry.number) {
                arranged.extend_from_slice(&bytes[one.whole.clone()]);
            }
        }
    }
    arranged.extend_from_slice(&bytes[at..range.end]);
    debug_assert_eq!(arranged.len(), range.len());
    bytes[range].copy_from_slice(&arranged);
}

/// Returns whether the entries of each map are adjacent and sorted by key.
fn in_order(entries: &[Entry], bytes: &[u8]) -> bool {
    let mut maps: Vec<u32> = Vec::new();
    let mut previous: Option<&Entry> = None;
    for entry in entries {
        match previous {
            Some(previous) if previous.number == entry.number => {
                if previous.whole.end != entry.whole.start || bytes[previous.key.clone()] > bytes[entry.key.clone()] {
                    return false;
                }
            }
            _ if maps.contains(&entry.number) => return false,
            _ => maps.push(entry.number),
        }
        previous = Some(entry);
    }
    true
}
