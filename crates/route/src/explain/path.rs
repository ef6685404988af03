//! The form of a path that Envoy compares with routes. Source: Envoy, `path_utility.cc`, and the canonical form of URLs of its
//! library; a test sends every byte to a real Envoy.

/// Returns whether a path has an escaped slash or backslash.
pub fn has_escaped_slash(path: &str) -> bool {
    let bytes = path.as_bytes();
    bytes.windows(3).any(|part| part[0] == b'%' && matches!(&part[1..], b"2f" | b"2F" | b"5c" | b"5C"))
}

/// Decodes escaped slashes and backslashes.
pub fn unescape_slashes(path: &str) -> String {
    let pairs = [("%2f", "/"), ("%2F", "/"), ("%5c", "\\"), ("%5C", "\\")];
    pairs.into_iter().fold(path.to_owned(), |path, (escaped, plain)| path.replace(escaped, plain))
}

/// Replaces several slashes in a row with one.
pub fn merge_slashes(path: &str) -> String {
    let mut merged = String::with_capacity(path.len());
    for one in path.chars() {
        if one != '/' || !merged.ends_with('/') {
            merged.push(one);
        }
    }
    merged
}

/// Returns the canonical form of a path without its query: no `.` and `..`, no backslashes, and only necessary escapes.
/// `None`: Envoy rejects the path.
pub fn normalize(path: &str) -> Option<String> {
    if !path.starts_with('/') || path.contains('#') {
        return None;
    }
    let mut bytes = Vec::new();
    let mut rest = path.as_bytes();
    let mut is_valid = true;
    while let Some((first, tail)) = rest.split_first() {
        match escape_at(rest) {
            Some(value) => {
                if value == 0 {
                    is_valid = false;
                }
                match is_unreserved(value) {
                    true => bytes.push(value),
                    false => bytes.extend_from_slice(&rest[..3]),
                }
                rest = &rest[3..];
            }
            None => {
                match first {
                    b'\\' => bytes.push(b'/'),
                    first if must_escape(*first) => bytes.extend_from_slice(format!("%{first:02X}").as_bytes()),
                    first => bytes.push(*first),
                }
                rest = tail;
            }
        }
    }
    let text = String::from_utf8(bytes).ok().filter(|_| is_valid)?;
    Some(without_dots(&text))
}

/// Returns the byte of the escape sequence at the start of `rest`.
fn escape_at(rest: &[u8]) -> Option<u8> {
    let [b'%', digits @ ..] = rest else { return None };
    let digits = std::str::from_utf8(digits.get(..2)?).ok()?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~".contains(&byte)
}

/// Returns whether a byte is escaped in the canonical form.
fn must_escape(byte: u8) -> bool {
    !byte.is_ascii_graphic() || b"\"#<>?`{}^|".contains(&byte)
}

/// Removes the elements `.` and `..`.
fn without_dots(path: &str) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut elements = path.split('/').skip(1).peekable();
    while let Some(element) = elements.next() {
        let is_last = elements.peek().is_none();
        match element {
            "." => {}
            ".." => drop(kept.pop()),
            element => {
                kept.push(element);
                continue;
            }
        }
        if is_last {
            kept.push("");
        }
    }
    kept.iter().fold(String::new(), |path, element| path + "/" + element)
}
