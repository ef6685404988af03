//! Canonical DER (X.690): parses the elements of an encoding, and checks that each has the only form that DER allows.
//!
//! The crate `der` parses tags and lengths. This module checks the content of primitive types as strictly as BoringSSL.
//! It knows nothing about certificates.

use der::asn1::AnyRef;
use der::{Decode, Reader, SliceReader, Tag};

/// The maximum nesting of elements. Certificates need about ten levels.
const MAX_DEPTH: usize = 32;

/// One element of an encoding.
#[derive(Debug, Clone, Copy)]
pub struct Element<'a> {
    /// The tag with the class and the constructed bit.
    pub tag: Tag,
    /// The bytes after the length.
    pub content: &'a [u8],
    /// All bytes.
    pub encoding: &'a [u8],
}

impl<'a> Element<'a> {
    /// Parses the only element of `encoding`. Returns `None` if it is not canonical or bytes follow it.
    pub fn only(encoding: &'a [u8]) -> Option<Self> {
        match elements(encoding)?.as_slice() {
            [element] if element.is_canonical(MAX_DEPTH) => Some(*element),
            _ => None,
        }
    }

    /// Returns the elements of a constructed element.
    pub fn children(&self) -> Option<Vec<Element<'a>>> {
        elements(self.content)
    }

    /// Returns the elements of a SEQUENCE.
    pub fn sequence(&self) -> Option<Vec<Element<'a>>> {
        (self.tag == Tag::Sequence).then(|| self.children())?
    }

    /// Returns the number of a context-specific tag, and whether the element is constructed.
    pub fn context(&self) -> Option<(u32, bool)> {
        match self.tag {
            Tag::ContextSpecific { constructed, number } => Some((number.value(), constructed)),
            _ => None,
        }
    }

    fn is_canonical(&self, depth: usize) -> bool {
        let Some(depth) = depth.checked_sub(1) else { return false };
        match self.tag {
            Tag::Sequence | Tag::Set => self.all_canonical(depth),
            Tag::ContextSpecific { constructed, number } => {
                number.value() <= 30 && (!constructed || self.all_canonical(depth))
            }
            // No certificate has them, and they can hide another encoding.
            Tag::Application { .. } | Tag::Private { .. } | Tag::Real | Tag::RelativeOid => false,
            tag => is_canonical_content(tag, self.content),
        }
    }

    fn all_canonical(&self, depth: usize) -> bool {
        self.children().is_some_and(|children| children.iter().all(|child| child.is_canonical(depth)))
    }
}

/// Returns the elements that `content` consists of; `None` if a tag or a length is malformed.
fn elements(content: &[u8]) -> Option<Vec<Element<'_>>> {
    let mut reader = SliceReader::new(content).ok()?;
    let mut elements = Vec::new();
    while !reader.is_finished() {
        let encoding = reader.tlv_bytes().ok()?;
        let element = AnyRef::from_der(encoding).ok()?;
        elements.push(Element { tag: der::Tagged::tag(&element), content: element.value(), encoding });
    }
    Some(elements)
}

/// Returns whether `content` is the canonical content of a primitive universal type. Source: X.690 sections 8 and 11;
/// BoringSSL `CBS_is_valid_asn1_integer`, `_bitstring`, `_oid`, `asn1_parse_any_as_string`.
fn is_canonical_content(tag: Tag, content: &[u8]) -> bool {
    match tag {
        Tag::Boolean => matches!(content, [0x00 | 0xff]),
        Tag::Integer | Tag::Enumerated => match content {
            [] => false,
            [0x00, next, ..] => next & 0x80 != 0,
            [0xff, next, ..] => next & 0x80 == 0,
            _ => true,
        },
        Tag::BitString => bits(content).is_some(),
        Tag::Null => content.is_empty(),
        Tag::ObjectIdentifier => is_object_identifier(content),
        Tag::Utf8String => std::str::from_utf8(content).is_ok_and(|text| text.chars().all(is_character)),
        Tag::BmpString => content.chunks(2).all(|unit| {
            let unit = <[u8; 2]>::try_from(unit).map(u16::from_be_bytes);
            unit.is_ok_and(|unit| char::from_u32(unit.into()).is_some_and(is_character))
        }),
        Tag::UtcTime => content.split_at_checked(2).is_some_and(|(year, rest)| is_time(&[b"20", year].concat(), rest)),
        Tag::GeneralizedTime => content.split_at_checked(4).is_some_and(|(year, rest)| is_time(year, rest)),
        _ => true,
    }
}

/// Returns the number of unused bits and the bytes of a BIT STRING; `None` if an unused bit is set.
pub fn bits(content: &[u8]) -> Option<(u8, &[u8])> {
    let (&unused, bytes) = content.split_first()?;
    let last = bytes.last().map_or(0, |last| last.trailing_zeros());
    (unused < 8 && (unused == 0 || last >= unused.into())).then_some((unused, bytes))
}

/// Returns whether `content` is valid in an OBJECT IDENTIFIER: each number must be complete and minimal.
pub fn is_object_identifier(content: &[u8]) -> bool {
    let starts = std::iter::once(true).chain(content.iter().map(|byte| byte & 0x80 == 0));
    content.last().is_some_and(|last| last & 0x80 == 0)
        && starts.zip(content).all(|(starts, byte)| !(starts && *byte == 0x80))
}

/// Returns whether BoringSSL accepts a code point in a string: all except noncharacters. Source: BoringSSL
/// `is_valid_code_point`.
fn is_character(character: char) -> bool {
    let number = u32::from(character);
    number & 0xfffe != 0xfffe && !(0xfdd0..=0xfdef).contains(&number)
}

/// Returns whether `rest` has the form `MMDDHHMMSSZ`, and is a time in `year`. Source: RFC 5280, 4.1.2.5.
fn is_time(year: &[u8], rest: &[u8]) -> bool {
    let number = |digits: &[u8]| -> Option<u32> {
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    let Some(year) = number(year) else { return false };
    let [digits @ .., b'Z'] = rest else { return false };
    let fields: Option<Vec<u32>> = digits.chunks(2).map(number).collect();
    let (Some(fields), 10) = (fields, digits.len()) else { return false };
    let &[month, day, hour, minute, second] = fields.as_slice() else { return false };
    let days = match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return false,
    };
    (1..=days).contains(&day) && hour < 24 && minute < 60 && second < 60
}
