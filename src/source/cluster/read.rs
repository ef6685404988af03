//! Lists and watch events as they come over the wire, taken apart piece by piece: no list is ever in memory as a whole.
//!
//! A list in the protobuf form is the four bytes `k8s\0`, then a `runtime.Unknown` whose field 2 is the list: field 1 of
//! it the metadata, field 2 each of the items. Events of a watch have their length before them, in four bytes.
//! Source: Kubernetes API concepts, "Kubernetes Protobuf encoding"; `generated.proto` of `k8s.io/apimachinery`.

use prost::Message;
use prost::bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;

const MAGIC: &[u8] = b"k8s\0";
/// The most bytes of an object: etcd takes 1.5 MiB by default.
pub const LARGEST: usize = 64 << 20;
/// The bytes that are read of a larger object. Its name is among them.
const HEAD: usize = 64 << 10;

/// A list or a watch that cannot be followed. An object that cannot be decoded is none.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Malformed {
    /// It ends in the middle.
    #[error("the answer ends too early")]
    Truncated,
    /// It is not in the form that it says.
    #[error("the answer is not valid protobuf")]
    NotProtobuf,
    /// The same of JSON.
    #[error("the answer is not a list in JSON")]
    NotJson,
    /// A watch event, or an item of a list in JSON, is too large to be read.
    #[error("a watch event or an item is larger than {} MiB", LARGEST >> 20)]
    TooLarge,
    /// It is not clear which object has changed.
    #[error("a watch event has no readable type, or its object has no readable name")]
    Unnamed,
    /// The metadata of a list cannot be decoded.
    #[error("the metadata of the list cannot be decoded: {0}")]
    List(String),
}

/// The metadata of a list.
#[derive(Clone, PartialEq, Message)]
pub struct ListMeta {
    /// The version that the list is of.
    #[prost(string, tag = "2")]
    pub version: String,
    /// What to ask for to get the rest; empty at the end.
    #[prost(string, tag = "3")]
    pub rest: String,
}

/// The object in the envelope of every object that is encoded by itself; `None` if it is no such envelope. Of a
/// malformed one, what is before the fault.
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
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    #[prost(bytes = "bytes", tag = "1")]
    pub kind: Bytes,
    #[prost(message, optional, tag = "2")]
    object: Option<RawExtension>,
}

impl WatchEvent {
    /// The object; empty if there is no readable one.
    pub fn object(&self) -> Bytes {
        self.object.as_ref().and_then(|object| unwrapped(&object.raw)).unwrap_or_default()
    }
}

/// The next event of a watch, if `buffer` has all of it. Of a malformed one, what is before the fault: its length is
/// known, so the events after it are not lost.
pub fn event(buffer: &mut BytesMut) -> Result<Option<WatchEvent>, Malformed> {
    let Some(length) = buffer.first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_be_bytes(*length) as usize;
    if length > LARGEST {
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

/// What comes next of a list.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// An item.
    Item(Bytes),
    /// The beginning of an item that is too large to be read. The rest of it is skipped.
    TooLarge(Bytes),
    /// More bytes are needed.
    More,
    /// That was all.
    End(ListMeta),
}

/// Where the reading of a list is.
#[derive(Debug)]
pub struct ListReader {
    place: Place,
    meta: ListMeta,
    largest: usize,
}

impl Default for ListReader {
    fn default() -> Self {
        Self { place: Place::Start, meta: ListMeta::default(), largest: LARGEST }
    }
}

#[derive(Debug)]
enum Place {
    /// Before the four bytes.
    Start,
    /// Between fields of the envelope, before the list.
    Before,
    /// The same after the list.
    After,
    /// In the list, of which so many bytes are to come.
    List(usize),
    /// In a field of the list that is skipped: so many bytes of it are to come, and then so many of the list.
    Skip(usize, usize),
}

impl ListReader {
    /// Takes the next piece out of `buffer`; `ended` when no more bytes will come.
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

/// The header of a field: its number, the bytes of the header, and those of the value.
struct Header {
    tag: u64,
    before: usize,
    length: usize,
}

/// The value of a field, if all of it is there.
fn take(buffer: &mut BytesMut, before: usize, length: usize) -> Result<Option<Bytes>, Malformed> {
    if length > LARGEST {
        return Err(Malformed::TooLarge);
    }
    if buffer.len() < before + length {
        buffer.reserve(before + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(before);
    Ok(Some(buffer.split_to(length).freeze()))
}

/// The header of the field that `bytes` begin with, if all of the header is there. All fields that can occur are of the
/// wire type with a length.
fn header(bytes: &[u8]) -> Result<Option<Header>, Malformed> {
    let Some((key, first)) = varint(bytes)? else { return Ok(None) };
    if key & 7 != 2 {
        return Err(Malformed::NotProtobuf);
    }
    let Some((length, second)) = varint(bytes.get(first..).unwrap_or_default())? else { return Ok(None) };
    let length = usize::try_from(length).map_err(|_| Malformed::NotProtobuf)?;
    Ok(Some(Header { tag: key >> 3, before: first + second, length }))
}

/// A variable-length number and how many bytes it has.
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
