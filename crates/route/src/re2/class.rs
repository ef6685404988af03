//! Character classes as sets of bytes, to count the instructions that they compile to.

use regex_syntax::ast::{
    ClassAscii, ClassAsciiKind, ClassBracketed, ClassPerl, ClassPerlKind, ClassSet, ClassSetItem, Literal, LiteralKind,
};

use super::{re2_literal, re2_unicode};

/// A set of bytes.
#[derive(Clone)]
struct Bytes([bool; 256]);

impl Bytes {
    fn of(member: impl Fn(u8) -> bool) -> Self {
        let mut set = Self([false; 256]);
        set.add(member);
        set
    }

    fn add(&mut self, member: impl Fn(u8) -> bool) {
        (0..=u8::MAX).zip(&mut self.0).for_each(|(byte, known)| *known |= member(byte));
    }

    fn has(&self, byte: u8) -> bool {
        self.0[usize::from(byte)]
    }

    fn unless(&self, negated: bool) -> Self {
        Self(self.0.map(|member| member != negated))
    }

    /// Returns the set with the other case of its ASCII letters.
    fn folded(&self) -> Self {
        let mut folded = self.clone();
        folded.add(|byte| byte.is_ascii_alphabetic() && self.has(byte ^ 0x20));
        folded
    }

    /// Returns the number of ranges.
    fn ranges(&self) -> u64 {
        let starts = self.0.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        starts as u64 + u64::from(self.0[0])
    }
}

/// A class of bytes.
pub struct ByteClass {
    members: Bytes,
    negated: bool,
}

impl ByteClass {
    /// Returns the number of compiled instructions: one for each range. If a part of the pattern `folds` case, the
    /// class may also contain the other case of its letters. RE2 folds Latin-1 letters too.
    pub fn instructions(&self, folds: bool) -> u64 {
        let as_written = self.members.unless(self.negated).ranges();
        if !folds {
            return as_written;
        }
        let folded = self.members.folded().unless(self.negated).ranges();
        let latin = (0x80..=u8::MAX).filter(|byte| self.members.has(*byte) != self.members.has(byte ^ 0x20));
        as_written.max(folded) + latin.count() as u64
    }
}

/// Returns the class of `\d`, `\s`, `\w`, or their negations.
pub fn perl(class: &ClassPerl) -> ByteClass {
    let members = match class.kind {
        ClassPerlKind::Digit => Bytes::of(|byte| byte.is_ascii_digit()),
        ClassPerlKind::Space => Bytes::of(|byte| b"\t\n\x0c\r ".contains(&byte)),
        ClassPerlKind::Word => Bytes::of(|byte| byte.is_ascii_alphanumeric() || byte == b'_'),
    };
    ByteClass { members, negated: class.negated }
}

/// Returns the bytes of a class such as `[[:alpha:]]`.
fn ascii(class: &ClassAscii) -> Bytes {
    let members = Bytes::of(|byte| match class.kind {
        ClassAsciiKind::Alnum => byte.is_ascii_alphanumeric(),
        ClassAsciiKind::Alpha => byte.is_ascii_alphabetic(),
        ClassAsciiKind::Ascii => byte.is_ascii(),
        ClassAsciiKind::Blank => byte == b'\t' || byte == b' ',
        ClassAsciiKind::Cntrl => byte.is_ascii_control(),
        ClassAsciiKind::Digit => byte.is_ascii_digit(),
        ClassAsciiKind::Graph => byte.is_ascii_graphic(),
        ClassAsciiKind::Lower => byte.is_ascii_lowercase(),
        ClassAsciiKind::Print => byte.is_ascii_graphic() || byte == b' ',
        ClassAsciiKind::Punct => byte.is_ascii_punctuation(),
        ClassAsciiKind::Space => b"\t\n\x0b\x0c\r ".contains(&byte),
        ClassAsciiKind::Upper => byte.is_ascii_uppercase(),
        ClassAsciiKind::Word => byte.is_ascii_alphanumeric() || byte == b'_',
        ClassAsciiKind::Xdigit => byte.is_ascii_hexdigit(),
    });
    members.unless(class.negated)
}

/// Returns the bytes of a class in brackets. Returns `None` if it contains Unicode classes. The error is the construct
/// that RE2 does not support.
pub fn bracketed(class: &ClassBracketed) -> Result<Option<ByteClass>, &'static str> {
    let ClassSet::Item(item) = &class.kind else { return Err("the set operation in") };
    let mut members = Bytes::of(|_| false);
    let bytes_alone = add(&mut members, item).ok_or("the class")?;
    Ok(bytes_alone.then_some(ByteClass { members, negated: class.negated }))
}

/// Adds an item to `set`. Returns whether all of the item could be added, or `None` if RE2 does not support the item.
/// RE2 has no nested classes, and reads the inner `[` literally.
fn add(set: &mut Bytes, item: &ClassSetItem) -> Option<bool> {
    match item {
        ClassSetItem::Empty(_) => {}
        ClassSetItem::Literal(literal) => {
            let only = member(literal)?;
            set.add(|byte| byte == only);
        }
        ClassSetItem::Range(range) => {
            let (first, last) = (member(&range.start)?, member(&range.end)?);
            set.add(|byte| (first..=last).contains(&byte));
        }
        ClassSetItem::Ascii(class) => {
            let members = ascii(class);
            set.add(|byte| members.has(byte));
        }
        ClassSetItem::Perl(class) => {
            let ByteClass { members, negated } = perl(class);
            set.add(|byte| members.has(byte) != negated);
        }
        ClassSetItem::Unicode(class) => return re2_unicode(class).then_some(false),
        ClassSetItem::Bracketed(_) => return None,
        ClassSetItem::Union(union) => {
            let mut whole = true;
            for item in &union.items {
                whole &= add(set, item)?;
            }
            return Some(whole);
        }
    }
    Some(true)
}

/// Returns the byte of a class member. Returns `None` if RE2 would split the character into several UTF-8 bytes.
fn member(literal: &Literal) -> Option<u8> {
    let whole = literal.kind != LiteralKind::Verbatim || literal.c.is_ascii();
    (whole && re2_literal(literal)).then(|| u8::try_from(literal.c).ok()).flatten()
}
