//! Parses lists and watch events in pieces, so that no list is in memory as a whole.
//!
//! A protobuf list consists of the four bytes `k8s\0` and a `runtime.Unknown` whose field 2 is the list. Field 1 of the
//! list is the metadata, and field 2 is repeated for each item. Each watch event follows its length in four bytes.
//! Source: Kubernetes API concepts, "Kubernetes Protobuf encoding"; `generated.proto` of `k8s.io/apimachinery`.

use prost::Message;
use prost::bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

const MAGIC: &[u8] = b"k8s\0";
/// The maximum size of an object in bytes. etcd accepts 1.5 MiB by default.
pub const MAX_OBJECT: usize = 64 << 20;
/// The number of bytes that are read of a larger object. They include its name.
const HEAD: usize = 64 << 10;

/// The reason why a list or a watch cannot be followed. An object that cannot be decoded is not a reason.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// The response is truncated.
    #[error("the answer ends too early")]
    Truncated,
    /// The response is not protobuf, although it should be.
    #[error("the answer is not valid protobuf")]
    NotProtobuf,
    /// A watch event is too large.
    #[error("a watch event is larger than {} MiB", MAX_OBJECT >> 20)]
    TooLarge,
    /// The changed object is unknown.
    #[error("a watch event has no readable type, or its object has no readable name")]
    Unnamed,
    /// The metadata of a list cannot be decoded.
    #[error("the metadata of the list cannot be decoded: {0}")]
    List(String),
}

/// The metadata of a list.
#[derive(Clone, PartialEq, Message)]
pub struct ListMeta {
    /// The version of the list.
    #[prost(string, tag = "2")]
    pub version: String,
    /// The token for the rest of the list, empty at the end.
    #[prost(string, tag = "3")]
    pub rest: String,
}

/// Returns the object in the envelope of a separately encoded object. Returns `None` for another envelope. Of a
/// malformed envelope, it returns the part before the fault.
pub fn unwrapped(envelope: &Bytes) -> Option<Bytes> {
    #[derive(Clone, PartialEq, Message)]
    struct Unknown {
        #[prost(bytes = "bytes", tag = "2")]
        raw: Bytes,
    }
    let mut unknown = Unknown::default();
    let _ = unknown.merge(envelope.slice(envelope.starts_with(MAGIC).then_some(MAGIC.len())?..));
    Some(unknown.raw)
}

#[derive(Clone, PartialEq, Message)]
struct RawExtension {
    #[prost(bytes = "bytes", tag = "1")]
    raw: Bytes,
}

/// An event of a watch.
#[derive(Clone, PartialEq, Message)]
pub struct WatchEvent {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK`, or `ERROR`.
    #[prost(bytes = "bytes", tag = "1")]
    pub kind: Bytes,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

impl WatchEvent {
    /// Returns the object. It is empty if none is readable.
    pub fn object(&self) -> Bytes {
        self.object.as_ref().and_then(|object| unwrapped(&object.raw)).unwrap_or_default()
    }
}

/// Returns the next event of a watch if `buffer` contains all of it. Of a malformed event, it returns the part before
/// the fault. Its length is known, so later events are not lost.
pub fn event(buffer: &mut BytesMut) -> Result<Option<WatchEvent>, Malformed> {
    let Some(length) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > MAX_OBJECT {
        return Err(Malformed::TooLarge);
    }
    if buffer.len() < 4 + length {
        buffer.reserve(4 + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(4);
    let mut event = WatchEvent::default();
    let _ = event.merge(buffer.split_to(length).freeze());
    Ok(Some(event))
}

/// The next piece of a list.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// An item.
    Item(Bytes),
    /// The start of an item that is too large. The rest of it is skipped.
    TooLarge(Bytes),
    /// More bytes are needed.
    More,
    /// The list is complete.
    End(ListMeta),
}

/// The position in a list.
#[derive(Debug)]
pub struct ListReader {
    place: Place,
    meta: ListMeta,
    largest: usize,
}

impl Default for ListReader {
    fn default() -> Self {
        Self { place: Place::Start, meta: ListMeta::default(), largest: MAX_OBJECT }
    }
}

#[derive(Debug)]
enum Place {
    /// Before the first four bytes.
    Start,
    /// Between fields of the envelope, before the list.
    Before,
    /// Between fields of the envelope, after the list.
    After,
    /// In the list, with this number of bytes left.
    List(usize),
    /// In a skipped field of the list, with the bytes left of the field and then of the list.
    Skip(usize, usize),
}

impl ListReader {
    /// Removes the next piece from `buffer`. `ended` states that no more bytes will arrive.
    pub fn next(&mut self, buffer: &mut BytesMut, ended: bool) -> Result<Next, Malformed> {
        loop {
            let more = if ended { Err(Malformed::Truncated) } else { Ok(Next::More) };
            match self.place {
                Place::Start if buffer.len() < MAGIC.len() => return more,
                Place::Start if !buffer.starts_with(MAGIC) => return Err(Malformed::NotProtobuf),
                Place::Start => {
                    buffer.advance(MAGIC.len());
                    self.place = Place::Before;
                }
                Place::List(0) => self.place = Place::After,
                Place::Skip(0, left) => self.place = Place::List(left),
                Place::Skip(..) if buffer.is_empty() => return more,
                Place::Skip(skip, left) => {
                    let here = skip.min(buffer.len());
                    buffer.advance(here);
                    self.place = Place::Skip(skip - here, left);
                }
                Place::After if buffer.is_empty() && ended => return Ok(Next::End(std::mem::take(&mut self.meta))),
                Place::Before | Place::After => match header(buffer)? {
                    None => return more,
                    Some(Header { tag: 2, before, length }) => {
                        buffer.advance(before);
                        self.place = Place::List(length);
                    }
                    Some(Header { before, length, .. }) => {
                        if take(buffer, before, length)?.is_none() {
                            return more;
                        }
                    }
                },
                Place::List(left) => {
                    let Some(Header { tag, before, length }) = header(buffer)? else { return more };
                    let Some(left) = left.checked_sub(before.saturating_add(length)) else {
                        return Err(Malformed::NotProtobuf);
                    };
                    let read = if length > self.largest { HEAD.min(length) } else { length };
                    let Some(value) = take(buffer, before, read)? else { return more };
                    self.place = if read < length { Place::Skip(length - read, left) } else { Place::List(left) };
                    match tag {
                        2 if read < length => return Ok(Next::TooLarge(value)),
                        1 => self.meta = ListMeta::decode(value).map_err(|error| Malformed::List(error.to_string()))?,
                        2 => return Ok(Next::Item(value)),
                        _ => {}
                    }
                }
            }
        }
    }
}

/// The header of a field: its number, and the lengths of the header and the value.
struct Header {
    tag: u64,
    before: usize,
    length: usize,
}

/// Removes the value of a field if it is complete.
fn take(buffer: &mut BytesMut, before: usize, length: usize) -> Result<Option<Bytes>, Malformed> {
    if length > MAX_OBJECT {
        return Err(Malformed::TooLarge);
    }
    if buffer.len() < before + length {
        buffer.reserve(before + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(before);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// Parses the header of the field at the start of `bytes`, if it is complete. All possible fields have the wire type
/// with a length.
fn header(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let Some((key, first)) = varint(bytes)? else { return Ok(None) };
    if key & 7 != 2 {
        return Err(Malformed::NotProtobuf);
    }
    let Some((length, second)) = varint(bytes.get(first..).unwrap_or_default())? else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| Malformed::NotProtobuf)?;
    Ok(Some(Header { tag: key >> 3, before: first + second, length }))
}

/// Parses a variable-length number. Returns it with its length in bytes.
fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, Malformed> {
    let mut value = 0;
    for (i, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Ok(Some((value, i + 1)));
        }
    }
    if bytes.len() >= 9 { Err(Malformed::NotProtobuf) } else { Ok(None) }
}

#[cfg(test)]
mod tests;
