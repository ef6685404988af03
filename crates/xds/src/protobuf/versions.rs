//! Conversion from version 3 to version 2 of Envoy's API.
//!
//! Both versions have the same wire format: fields kept their numbers, and removed fields are reserved. Only the type
//! names in `Any` differ. The annotation `udpa.annotations.versioning` in the protos has the old name; the build script
//! reads it.

use std::ops::Range;
use std::sync::LazyLock;

use prost::encoding::encode_varint;

use super::types::{ANY_TYPE_URL, ANY_VALUE, ENTRY_VALUE, FieldType, Index, MAX_DEPTH, types};
use super::wire::{self, Fields, Malformed};

/// Messages whose field 1 is a type URL, like that of `Any`.
const TYPED_STRUCTS: [&str; 2] = ["xds.type.v3.TypedStruct", "udpa.type.v1.TypedStruct"];

/// Returns the type URL of a type in version 2, or `None` if the type is new in version 3.
pub fn v2_url(url: &str) -> Option<&'static str> {
    types().get(types().index_of_url(url.as_bytes())?).v2
}

/// Returns whether `url` is a type URL of version 2.
pub fn is_v2_url(url: &str) -> bool {
    v2_url(url).is_some_and(|v2| v2.rsplit('/').next() == url.rsplit('/').next())
}

/// Converts the type URLs of every `Any` in `message`, at any depth, to version 2. `message` is an encoded message of
/// type `full_name`. Types that are new in version 3 keep their names, and malformed bytes stay unchanged.
pub fn in_v2(full_name: &str, message: &[u8]) -> Vec<u8> {
    let Some(index) = types().index_of(full_name.as_bytes()) else { return message.to_vec() };
    let mut rewritten = Vec::with_capacity(message.len());
    match rewrite(index, message, 0..message.len(), 0, &mut rewritten) {
        Ok(()) => rewritten,
        Err(Malformed) => message.to_vec(),
    }
}

/// Returns whether field 1 of the type at `index` is a type URL.
fn names_a_type(index: Index) -> bool {
    static TYPED: LazyLock<Vec<Index>> =
        LazyLock::new(|| TYPED_STRUCTS.iter().filter_map(|name| types().index_of(name.as_bytes())).collect());
    types().get(index).any || TYPED.contains(&index)
}

/// Returns for each type whether it can contain a type URL at any depth.
fn leads_to_any() -> &'static [bool] {
    static LEADS: LazyLock<Vec<bool>> = LazyLock::new(|| types().reaching(names_a_type));
    &LEADS
}

/// Appends the message of type `index` at `range` to `out`.
fn rewrite(index: Index, bytes: &[u8], range: Range<usize>, depth: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    if depth > MAX_DEPTH {
        return Err(Malformed);
    }
    if !leads_to_any().get(index as usize).is_some_and(|leads| *leads) {
        out.extend_from_slice(&bytes[range]);
        return Ok(());
    }
    let message = types().get(index);
    if names_a_type(index) {
        return rewrite_any(index, bytes, range, depth, out);
    }
    each_message(bytes, range, out, |number, content, out| match message.field(number) {
        Some(FieldType::Message(inner)) => rewrite(inner, bytes, content, depth + 1, out).map(|()| true),
        Some(FieldType::Map(Some(value))) => each_message(bytes, content, out, |number, content, out| {
            if number != ENTRY_VALUE {
                return Ok(false);
            }
            rewrite(value, bytes, content, depth + 1, out).map(|()| true)
        })
        .map(|()| true),
        Some(FieldType::Map(None)) | None => Ok(false),
    })
}

/// Appends the `Any` (or another message with a type URL) at `range` to `out`.
fn rewrite_any(
    index: Index,
    bytes: &[u8],
    range: Range<usize>,
    depth: usize,
    out: &mut Vec<u8>,
) -> Result<(), Malformed> {
    let value = match types().get(index).any {
        true => super::canonical::any(bytes, range.clone())?.map(|(index, _)| index),
        false => None,
    };
    each_message(bytes, range, out, |number, content, out| match (number, value) {
        (ANY_TYPE_URL, _) => {
            let url = &bytes[content];
            let v2 = types().index_of_url(url).and_then(|index| types().get(index).v2);
            out.extend_from_slice(v2.map_or(url, str::as_bytes));
            Ok(true)
        }
        (ANY_VALUE, Some(index)) => rewrite(index, bytes, content, depth + 1, out).map(|()| true),
        _ => Ok(false),
    })
}

/// Appends the fields at `range` to `out`. `replace` receives the number and the content of each length-delimited
/// field. It appends a replacement, or returns `false` to keep the field.
fn each_message(
    bytes: &[u8],
    range: Range<usize>,
    out: &mut Vec<u8>,
    mut replace: impl FnMut(u32, Range<usize>, &mut Vec<u8>) -> Result<bool, Malformed>,
) -> Result<(), Malformed> {
    let mut content = Vec::new();
    let mut fields = Fields::within(bytes, range);
    while let Some(field) = fields.advance()? {
        if let wire::Value::Bytes(at) = field.value {
            content.clear();
            if replace(field.number, at, &mut content)? {
                encode_varint(u64::from(field.number) << 3 | 2, out);
                encode_varint(content.len() as u64, out);
                out.extend_from_slice(&content);
                continue;
            }
        }
        out.extend_from_slice(&bytes[field.whole]);
    }
    Ok(())
}

#[cfg(test)]
mod tests;
