//! Text of tenants for terminals: on one line, and without characters that hide or forge text.

/// Returns `text` with escapes for all characters that are not [printable](is_printable).
pub fn printable(text: &str) -> String {
    let mut printed = String::with_capacity(text.len());
    for c in text.chars() {
        match is_printable(c) {
            true => printed.push(c),
            false => printed.extend(c.escape_default()),
        }
    }
    printed
}

/// Returns whether a terminal shows a character where it is written. Control characters do anything to a terminal. Marks for
/// the direction of text change the order of the characters around them (CVE-2021-42574), and other characters are invisible.
pub fn is_printable(c: char) -> bool {
    let is_invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    !c.is_control() && !is_invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_forge_or_hide_text_are_escaped() {
        for (text, expected) in [
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\u{9b}m\u{7f}", "\\u{1b}[2J\\u{9b}m\\u{7f}"),
            ("shop\u{202e}tset.\u{2066}\u{200f}", "shop\\u{202e}tset.\\u{2066}\\u{200f}"),
            ("a\u{2028}b\u{200b}\u{feff}\u{e0041}", "a\\u{2028}b\\u{200b}\\u{feff}\\u{e0041}"),
            ("é 店 \u{627}\u{644} हिन्दी \"'\\", "é 店 \u{627}\u{644} हिन्दी \"'\\"),
        ] {
            assert_eq!(printable(text), expected);
        }
    }
}
