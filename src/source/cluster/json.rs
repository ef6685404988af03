//! Parses JSON lists in pieces, so that no list is in memory as a whole. The API server provides objects of a
//! CustomResourceDefinition in JSON only.
//!
//! The parser checks only the structure. Each item is decoded separately, so that its fault does not affect others.

use prost::bytes::{Buf, Bytes, BytesMut};
use serde::Deserialize;

use super::read::{ListMeta, MAX_OBJECT, Malformed, Next};

/// The reader of one list.
#[derive(Debug, Default)]
pub struct JsonListReader {
    place: Place,
    meta: ListMeta,
    scan: Scan,
}

#[derive(Debug, Default, Clone, Copy)]
enum Place {
    /// Before the list.
    #[default]
    Start,
    /// Before the key of a field of the list.
    Key,
    /// Between the key and the value of a field.
    Colon(Field),
    /// Before the value of a field.
    Value(Field),
    /// In `items`, before an item.
    Items,
}

/// A field of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Metadata,
    Items,
    Other,
}

impl JsonListReader {
    /// Removes the next piece from `buffer`. `ended` states that no more bytes will arrive.
    pub fn next(&mut self, buffer: &mut BytesMut, ended: bool) -> Result<Next, Malformed> {
        loop {
            if self.scan.is_new() {
                let blank = buffer.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
                buffer.advance(blank);
            }
            let Some(first) = buffer.first().copied() else {
                return if ended { Err(Malformed::Truncated) } else { Ok(Next::More) };
            };
            match (self.place, first) {
                (Place::Start, b'{') => self.step(buffer, Place::Key),
                (Place::Key | Place::Items, b',') => self.step(buffer, self.place),
                (Place::Key, b'}') => return Ok(Next::End(std::mem::take(&mut self.meta))),
                (Place::Items, b']') => self.step(buffer, Place::Key),
                (Place::Colon(field), b':') => self.step(buffer, Place::Value(field)),
                (Place::Value(Field::Items), b'[') => self.step(buffer, Place::Items),
                (Place::Start | Place::Colon(_), _) => return Err(Malformed::NotJson),
                (place, _) => {
                    let Some(value) = self.scan.value(buffer)? else {
                        return if ended { Err(Malformed::Truncated) } else { Ok(Next::More) };
                    };
                    self.place = match place {
                        Place::Items => return Ok(Next::Item(value)),
                        Place::Key => Place::Colon(field(&value)),
                        Place::Value(Field::Metadata) => {
                            self.meta = meta(&value)?;
                            Place::Key
                        }
                        _ => Place::Key,
                    };
                }
            }
        }
    }

    fn step(&mut self, buffer: &mut BytesMut, place: Place) {
        buffer.advance(1);
        self.place = place;
    }
}

fn field(key: &[u8]) -> Field {
    match key {
        b"\"metadata\"" => Field::Metadata,
        b"\"items\"" => Field::Items,
        _ => Field::Other,
    }
}

fn meta(value: &[u8]) -> Result<ListMeta, Malformed> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    #[derive(Default)]
    struct Meta {
        resource_version: Option<String>,
        r#continue: Option<String>,
    }
    let read: Option<Meta> = serde_json::from_slice(value).map_err(|error| Malformed::List(error.to_string()))?;
    let Meta { resource_version, r#continue } = read.unwrap_or_default();
    Ok(ListMeta { version: resource_version.unwrap_or_default(), rest: r#continue.unwrap_or_default() })
}

/// The search for the end of a value, which continues when more bytes arrive.
#[derive(Debug, Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_string: bool,
    is_escaped: bool,
}

impl Scan {
    fn is_new(&self) -> bool {
        self.at == 0
    }

    /// Removes the first value from `buffer`, if it is complete.
    fn value(&mut self, buffer: &mut BytesMut) -> Result<Option<Bytes>, Malformed> {
        while let Some(byte) = buffer.get(self.at).copied() {
            let is_end = match byte {
                _ if self.is_escaped => {
                    self.is_escaped = false;
                    false
                }
                b'\\' if self.in_string => {
                    self.is_escaped = true;
                    false
                }
                b'"' => {
                    self.in_string = !self.in_string;
                    !self.in_string && self.depth == 0
                }
                _ if self.in_string => false,
                b'{' | b'[' => {
                    self.depth += 1;
                    false
                }
                b'}' | b']' if self.depth > 0 => {
                    self.depth -= 1;
                    self.depth == 0
                }
                // This byte ends a number, `true`, `false`, or `null`, and is not part of it.
                b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => {
                    return match self.at {
                        0 => Err(Malformed::NotJson),
                        _ => Ok(Some(self.take(buffer))),
                    };
                }
                _ => false,
            };
            self.at += 1;
            if is_end {
                return Ok(Some(self.take(buffer)));
            }
            if self.at > MAX_OBJECT {
                return Err(Malformed::TooLarge);
            }
        }
        Ok(None)
    }

    fn take(&mut self, buffer: &mut BytesMut) -> Bytes {
        let length = std::mem::take(self).at;
        buffer.split_to(length).freeze()
    }
}

#[cfg(test)]
mod tests;
