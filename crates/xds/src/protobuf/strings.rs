//! Finds selected string fields in encoded messages, at any depth.

use std::ops::Range;

use super::canonical::any;
use super::types::{ENTRY_VALUE, FieldType, Index, MAX_DEPTH, types};
use super::wire::{Fields, Malformed, Value};

/// A selection of string fields, with the types that can contain a selected field.
pub struct StringFields {
    /// For each type, the numbers of its selected fields, each with its index in the selection.
    chosen: Vec<Box<[(u32, usize)]>>,
    /// For each type, whether it can contain a selected field. An `Any` can contain every type.
    reaching: Vec<bool>,
}

impl StringFields {
    /// Selects `fields`: the full name of the message and the field number. Unknown fields are ignored.
    pub fn new<'a>(fields: impl IntoIterator<Item = (&'a str, u32)>) -> Self {
        let types = types();
        let mut chosen = vec![Vec::new(); types.len()];
        for (place, (message, number)) in fields.into_iter().enumerate() {
            let index = types.index_of(message.as_bytes());
            debug_assert!(index.is_some(), "{message} is not in the descriptor pool");
            if let Some(index) = index {
                chosen[index as usize].push((number, place));
            }
        }
        let reaching = types.reaching(|index| types.get(index).any || !chosen[index as usize].is_empty());
        Self { chosen: chosen.into_iter().map(Vec::into_boxed_slice).collect(), reaching }
    }

    /// Calls `visit` with each non-empty value of a selected field in `message` and the field's index in the selection.
    /// `message` is an encoded message of type `full_name`; the search includes all depths and `Any`. It stops at
    /// malformed bytes.
    pub fn visit(&self, full_name: &str, message: &[u8], visit: &mut dyn FnMut(usize, &str)) {
        if let Some(index) = types().index_of(full_name.as_bytes()) {
            // Malformed bytes are reported elsewhere.
            let _ = self.walk(index, message, 0..message.len(), 0, visit);
        }
    }

    fn walk(
        &self,
        index: Index,
        bytes: &[u8],
        range: Range<usize>,
        depth: usize,
        visit: &mut dyn FnMut(usize, &str),
    ) -> Result<(), Malformed> {
        if !self.reaching[index as usize] {
            return Ok(());
        }
        if depth > MAX_DEPTH {
            return Err(Malformed);
        }
        let message = types().get(index);
        if message.any {
            let Some((index, content)) = any(bytes, range)? else { return Ok(()) };
            return self.walk(index, bytes, content, depth + 1, visit);
        }
        let chosen = &self.chosen[index as usize];
        let mut fields = Fields::within(bytes, range);
        while let Some(field) = fields.advance()? {
            let Value::Bytes(content) = field.value else { continue };
            match message.field(field.number) {
                Some(FieldType::Message(inner)) => self.walk(inner, bytes, content, depth + 1, visit)?,
                Some(FieldType::Map(Some(value))) if self.reaching[value as usize] => {
                    let mut entry = Fields::within(bytes, content);
                    while let Some(field) = entry.advance()? {
                        if let (ENTRY_VALUE, Value::Bytes(content)) = (field.number, field.value) {
                            self.walk(value, bytes, content, depth + 1, visit)?;
                        }
                    }
                }
                Some(FieldType::Map(_)) => {}
                None => {
                    if let Some((_, place)) = chosen.iter().find(|(number, _)| *number == field.number)
                        && let Ok(text) = std::str::from_utf8(&bytes[content])
                        && !text.is_empty()
                    {
                        visit(*place, text);
                    }
                }
            }
        }
        Ok(())
    }
}
