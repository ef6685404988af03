//! The canonical encoding: equal messages, equal bytes.
//!
//! Encoders write a message's fields in a fixed order, but a map's entries in any. So all there is to do is to sort
//! these, which moves bytes and never changes how many there are: the work is done in place.

use std::ops::Range;

use super::types::{ANY_TYPE_URL, ANY_VALUE, ENTRY_KEY, ENTRY_VALUE, FieldType, Index, MAX_DEPTH, types};
use super::wire::{Fields, Malformed, Value};

/// The canonical encoding of `message`, an encoded message of type `full_name`: map entries sorted by key, standing
/// where the first of them stood, also inside `Any`. All else stays as it is, unknown fields too; so do bytes that
/// are no message, and messages of types that the pool does not have.
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

/// An entry of a map: the field, where it stands, and its key.
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
        // A field is read anew each time, for sorting needs the bytes to itself in between.
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

/// Sorts what is in the value of a map's entry, if that is a message of type `value`. Returns where the key stands.
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

/// Sorts what is in the value of an `Any`, if it is of a known type.
fn sort_any(bytes: &mut [u8], range: Range<usize>, depth: usize) -> Result<(), Malformed> {
    let Some((index, content)) = any(bytes, range)? else { return Ok(()) };
    if types().get(index).unstable { sort(index, bytes, content, depth + 1) } else { Ok(()) }
}

/// Type and place of the value of the `Any` at `range`; `None` if it has no value or is of no known type.
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

/// Puts the `entries` of the message at `range` in order: each map's where its first entry stands.
fn arrange(entries: Vec<Entry>, bytes: &mut [u8], range: Range<usize>) {
    if in_order(&entries, bytes) {
        return;
    }
    let mut sorted: Vec<&Entry> = entries.iter().collect();
    // Stable: of entries with one key, the last one counts for a decoder, and stays the last one.
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

/// Returns whether each map's entries stand side by side, by key.
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
