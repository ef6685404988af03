//! Finding a few string fields in encoded messages, at any depth.

use std::ops::Range;

use super::canonical::any;
use super::types::{ENTRY_VALUE, FieldType, Index, MAX_DEPTH, types};
use super::wire::{Fields, Malformed, Value};

/// A choice of string fields that is looked for again and again: made once, it knows which types lead to one.
pub struct StringFields {
    /// For each type the numbers of its chosen fields, each with its place in the choice.
    chosen: Vec<Box<[(u32, usize)]>>,
    /// For each type whether it has a chosen field or leads to one; through an `Any` everything may be reached.
    reaching: Vec<bool>,
}

impl StringFields {
    /// The choice of `fields`: full name of the message, number of the field. One that does not exist is left out.
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

    /// Calls `visit` with every value of a chosen field in `message`, an encoded message of type `full_name`, at any
    /// depth and inside `Any`, empty ones left out; and with the field's place in the choice. Stops at bytes that are
    /// no message.
    pub fn visit(&self, full_name: &str, message: &[u8], visit: &mut dyn FnMut(usize, &str)) {
        if let Some(index) = types().index_of(full_name.as_bytes()) {
            // What is malformed is not for this to report.
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
