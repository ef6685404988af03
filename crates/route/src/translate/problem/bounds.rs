//! Limits on the reports of one object: the number of its problems, and the length of their texts.
//!
//! An object of 1 MB can have 20,000 faults, or one fault that quotes 250 kB. Tenants share the log, the debug page,
//! and the Events. Each tenant's part is therefore limited here, where all problems pass.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::{Cause, Message, Problem, Reason};

/// The maximum number of reported problems of one object and reason. The others are counted.
pub const MOST: usize = 20;
/// The maximum length of a quoted value in characters.
const QUOTED: usize = 256;
/// The maximum length of a complete text in characters.
const TEXT: usize = 1024;

/// The field of a problem that summarizes other problems.
const FURTHER: &str = "…";

impl Problem {
    /// Creates the problem that summarizes `count` unreported problems of one object.
    pub fn further(object: &ObjectRef, reason: Reason, count: usize) -> Self {
        Self {
            object: object.clone(),
            // Sorts after all other fields.
            field: FURTHER.to_owned(),
            reason,
            message: Message::from(format!("{count} more problems with the reason {}", reason.as_str()))
                .because(Cause::Others(count)),
            consequence: "not listed".to_owned(),
        }
    }

    /// Returns the number of problems that this problem summarizes, if any.
    pub fn others(&self) -> Option<usize> {
        match self.message.cause() {
            Some(Cause::Others(count)) => Some(*count),
            _ => None,
        }
    }

    /// Returns `problem` with texts of bounded length.
    pub fn bounded(problem: &Arc<Self>) -> Arc<Self> {
        let [field, message, consequence] = [&*problem.field, &*problem.message, &*problem.consequence].map(shorten);
        if [&field, &message, &consequence].iter().all(|text| matches!(text, Cow::Borrowed(_))) {
            return problem.clone();
        }
        let (object, reason) = (problem.object.clone(), problem.reason);
        let [field, text, consequence] = [field, message, consequence].map(Cow::into_owned);
        Arc::new(Self { object, field, reason, message: problem.message.with_text(text), consequence })
    }
}

/// Returns the first [`MOST`] problems of each object and reason, and a summary of the others: an object of 1 MB can have so many
/// that they take 100 MB.
pub fn bounded<T: FromIterator<Arc<Problem>>>(problems: Vec<Problem>) -> T {
    let mut counts = BTreeMap::<(ObjectRef, Reason), usize>::new();
    let mut kept = Vec::new();
    for problem in problems {
        let count = counts.entry((problem.object.clone(), problem.reason)).or_default();
        *count += 1;
        if *count <= MOST {
            kept.push(problem);
        }
    }
    let others = counts.into_iter().filter(|(_, count)| *count > MOST);
    let others = others.map(|((object, reason), count)| Problem::further(&object, reason, count - MOST));
    kept.into_iter().chain(others).map(Arc::new).collect()
}

/// Shortens every quoted value in `text` to 256 characters and the complete text to 1024, and states the full length.
///
/// For example: `value "aaa…" (250000 characters) is not a duration`. A quoted value is not cut within an escape
/// sequence.
pub fn shorten(text: &str) -> Cow<'_, str> {
    // No quoted value in a text of this length exceeds the limit.
    if text.len() <= QUOTED {
        return Cow::Borrowed(text);
    }
    let (mut short, mut rest, mut changed) = (String::new(), text, false);
    while let Some(open) = rest.find('"') {
        let (before, quoted) = rest.split_at(open + 1);
        let (kept, end, characters) = quotation(quoted);
        short.push_str(before);
        short.push_str(&quoted[..kept]);
        rest = &quoted[end..];
        let closed = rest.strip_prefix('"');
        rest = closed.unwrap_or(rest);
        if kept < end {
            changed = true;
            short.push_str(&format!("…\" ({characters} characters)"));
        } else if closed.is_some() {
            short.push('"');
        }
        if short.len() > 4 * TEXT {
            break;
        }
    }
    // One additional character shows that there is more text.
    short.push_str(cut(rest, TEXT + 1));
    if short.chars().nth(TEXT).is_some() {
        let all = text.chars().count();
        return Cow::Owned(format!("{}… ({all} characters)", cut(&short, TEXT)));
    }
    if changed { Cow::Owned(short) } else { Cow::Borrowed(text) }
}

/// Measures the text after a quotation mark. Returns the bytes to keep, the bytes up to the closing mark, and the
/// characters up to it.
fn quotation(text: &str) -> (usize, usize, usize) {
    let (mut kept, mut characters) = (0, 0);
    let mut places = text.char_indices();
    while let Some((at, c)) = places.next() {
        if c == '"' {
            return (kept, at, characters);
        }
        let mut length = 1;
        if c == '\\' {
            // `\n`, or `\u{7f}`.
            let escaped = places.next().map(|(_, c)| c);
            length += 1;
            if escaped == Some('u') {
                length += places.by_ref().take(10).take_while(|(_, c)| *c != '}').count() + 1;
            }
        }
        characters += length;
        if characters <= QUOTED {
            kept = places.offset();
        }
    }
    (kept, text.len(), characters)
}

/// Returns the first `most` characters of a text.
fn cut(text: &str, most: usize) -> &str {
    text.char_indices().nth(most).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts_are_unchanged() {
        for text in ["", "path \"api\" does not start with \"/\"", &"é".repeat(QUOTED), &"\"é\" ".repeat(200)] {
            assert_eq!(shorten(text), text);
        }
    }

    #[test]
    fn a_long_quoted_value_is_shortened_and_the_rest_of_the_message_is_kept() {
        let text = format!("value \"{}\" is not a duration such as \"2s\"", "é".repeat(250_000));
        let expected =
            format!("value \"{}…\" (250000 characters) is not a duration such as \"2s\"", "é".repeat(QUOTED));
        assert_eq!(shorten(&text), expected);
        // Escaped quotation marks do not end the value.
        let text = format!("path {:?} is wrong", "\"".repeat(1000));
        assert_eq!(shorten(&text), format!("path \"{}…\" (2000 characters) is wrong", "\\\"".repeat(QUOTED / 2)));
        let text = format!("path {:?} is wrong", "\u{1}".repeat(1000));
        let short = shorten(&text);
        assert!(short.ends_with("\\u{1}…\" (5000 characters) is wrong"), "{short}");
    }

    #[test]
    fn a_text_with_many_values_or_none_is_shortened_as_a_whole() {
        for text in
            ["\"a\", ".repeat(10_000), "x".repeat(50_000), format!("\"{}", "y".repeat(50_000)), "\"".repeat(9999)]
        {
            let short = shorten(&text);
            assert!(short.chars().count() < TEXT + 40);
            assert!(short.ends_with(" characters)"), "{}", cut(&text, 9));
            assert!(shorten(&short).chars().count() < TEXT + 80);
        }
    }

    #[test]
    fn a_summary_states_the_number_of_problems() {
        let object = ObjectRef::new("Ingress", "shop", "cart");
        let further = Problem::further(&object, Reason::HostNotValid, 17_990);
        assert_eq!(further.others(), Some(17_990));
        assert_eq!(
            further.to_string(),
            "Ingress shop/cart: …: 17990 more problems with the reason HostNotValid; not listed"
        );
        assert_eq!(Problem::bounded(&Arc::new(further.clone())).others(), Some(17_990));
        let other = Problem { message: "host \"a b\" is not a DNS name".into(), ..further };
        assert_eq!(other.others(), None);
    }
}
