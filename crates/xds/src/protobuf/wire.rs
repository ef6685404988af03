//! Reads the wire format without type information.

use std::ops::Range;

/// The error for bytes that are not a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// One encoded field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    /// The field number.
    pub(super) number: u32,
    /// The byte range, including the tag.
    pub(super) whole: Range<usize>,
    /// The value.
    pub(super) value: Value,
}

/// A field's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// An integer, boolean or enum.
    Varint(u64),
    /// The byte range of a string, message, or packed list, without its length.
    Bytes(Range<usize>),
    /// Anything else.
    Other,
}

/// An iterator over the fields of a message in a range of a buffer.
pub(super) struct Fields<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

impl<'a> Fields<'a> {
    /// Iterates over the fields of the message in `bytes`.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, end: bytes.len() }
    }

    /// Iterates over the fields of the message at `range` in `bytes`. Ranges of fields count from the start of `bytes`.
    pub(super) fn within(bytes: &'a [u8], range: Range<usize>) -> Self {
        let end = range.end.min(bytes.len());
        Self { bytes, at: range.start.min(end), end }
    }

    /// Returns the next field, or `None` at the end.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<Option<Field>, Malformed> {
        if self.at >= self.end {
            return Ok(None);
        }
        let start = self.at;
        let (number, wire_type) = self.tag()?;
        let value = match wire_type {
            0 => Value::Varint(self.varint()?),
            2 => {
                let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                let from = self.at;
                self.skip(len)?;
                Value::Bytes(from..self.at)
            }
            other => {
                self.skip_value(number, other)?;
                Value::Other
            }
        };
        Ok(Some(Field { number, whole: start..self.at, value }))
    }

    #[inline]
    fn tag(&mut self) -> Result<(u32, u8), Malformed> {
        let tag = u32::try_from(self.varint()?).map_err(|_| Malformed)?;
        let number = tag >> 3;
        if number == 0 { Err(Malformed) } else { Ok((number, (tag & 7) as u8)) }
    }

    #[inline]
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for shift in (0..70).step_by(7) {
            let byte = *self.bytes[..self.end].get(self.at).ok_or(Malformed)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                // The tenth byte holds one bit.
                return if shift == 63 && byte > 1 { Err(Malformed) } else { Ok(value) };
            }
        }
        Err(Malformed)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<(), Malformed> {
        if len > self.end - self.at {
            return Err(Malformed);
        }
        self.at += len;
        Ok(())
    }

    /// Skips a value of fixed length, or a group with its content.
    fn skip_value(&mut self, number: u32, wire_type: u8) -> Result<(), Malformed> {
        match wire_type {
            1 => self.skip(8),
            5 => self.skip(4),
            3 => {
                let mut open = vec![number];
                while let Some(&innermost) = open.last() {
                    match self.tag()? {
                        (number, 3) => open.push(number),
                        (number, 4) if number == innermost => drop(open.pop()),
                        (_, 0) => drop(self.varint()?),
                        (_, 2) => {
                            let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                            self.skip(len)?;
                        }
                        (_, 1) => self.skip(8)?,
                        (_, 5) => self.skip(4)?,
                        _ => return Err(Malformed),
                    }
                }
                Ok(())
            }
            _ => Err(Malformed),
        }
    }
}

impl Iterator for Fields<'_> {
    type Item = Result<Field, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        self.advance().transpose()
    }
}
