//! Version 2 of Envoy's API beside version 3.
//!
//! A message of version 3 is read and written as its predecessor was: fields kept their numbers, and those that went
//! are reserved. What differs is the names of the types, and these stand in every `Any`. Which name a type had is told
//! by an annotation in the protos, `udpa.annotations.versioning`.

use std::ops::Range;
use std::sync::LazyLock;

use prost::encoding::encode_varint;
use prost_reflect::MessageDescriptor;

use super::types::{ANY_TYPE_URL, ANY_VALUE, ENTRY_VALUE, FieldType, Index, MAX_DEPTH, types};
use super::wire::{self, Fields, Malformed};

/// What the annotations have wrong: they name a message that never was.
const CORRECTIONS: &[(&str, &str)] =
    &[("envoy.config.filter.http.ext_authz.v3.ExtAuthz", "envoy.config.filter.http.ext_authz.v2.ExtAuthz")];

/// The full name that each of `messages` had in version 2.
pub(super) fn v2_names(messages: &[MessageDescriptor]) -> Vec<Option<String>> {
    let annotation = super::pool().get_extension_by_name("udpa.annotations.versioning");
    debug_assert!(annotation.is_some(), "the pool has no versioning annotation");
    let previous = |message: &MessageDescriptor| {
        let options = message.options();
        let annotation = options.get_extension(annotation.as_ref()?);
        let name = annotation.as_message()?.get_field_by_name("previous_message_type")?;
        let name = name.as_str()?;
        let corrected = CORRECTIONS.iter().find(|(wrong, _)| *wrong == name).map_or(name, |(_, right)| right);
        // Some moved within version 3.
        (!corrected.is_empty() && !corrected.contains(".v3.")).then(|| corrected.to_owned())
    };
    messages.iter().map(|message| previous(message).filter(|name| *name != message.full_name())).collect()
}

/// The type URL that a type had in version 2; `None` for one that is new in version 3.
pub fn v2_url(url: &str) -> Option<&'static str> {
    types().get(types().index_of_url(url.as_bytes())?).v2
}

/// Whether `url` names a type as version 2 does.
pub fn is_v2_url(url: &str) -> bool {
    v2_url(url).is_some_and(|v2| v2.rsplit('/').next() == url.rsplit('/').next())
}

/// `message`, an encoded message of type `full_name`, with the type of every `Any` in it, at any depth, named as in
/// version 2. A type that is new in version 3 keeps its name. Bytes that are no message stay as they are.
pub fn in_v2(full_name: &str, message: &[u8]) -> Vec<u8> {
    let Some(index) = types().index_of(full_name.as_bytes()) else { return message.to_vec() };
    let mut rewritten = Vec::with_capacity(message.len());
    match rewrite(index, message, 0..message.len(), 0, &mut rewritten) {
        Ok(()) => rewritten,
        Err(Malformed) => message.to_vec(),
    }
}

/// For each type whether there is an `Any` in it, at any depth.
fn leads_to_any() -> &'static [bool] {
    static LEADS: LazyLock<Vec<bool>> = LazyLock::new(|| types().reaching(|index| types().get(index).any));
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
    if message.any {
        return rewrite_any(bytes, range, depth, out);
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

/// Appends the `Any` at `range` to `out`.
fn rewrite_any(bytes: &[u8], range: Range<usize>, depth: usize, out: &mut Vec<u8>) -> Result<(), Malformed> {
    let known = super::canonical::any(bytes, range.clone())?.map(|(index, _)| index);
    let Some(index) = known else {
        out.extend_from_slice(&bytes[range]);
        return Ok(());
    };
    each_message(bytes, range, out, |number, content, out| match (number, types().get(index).v2) {
        (ANY_TYPE_URL, Some(v2)) => {
            out.extend_from_slice(v2.as_bytes());
            Ok(true)
        }
        (ANY_VALUE, _) => rewrite(index, bytes, content, depth + 1, out).map(|()| true),
        _ => Ok(false),
    })
}

/// Appends the fields at `range` to `out`. `replace` is given the number and the content of each that has a length, and
/// appends what is to stand there instead, or says `false`.
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
