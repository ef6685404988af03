//! The syntax of Kubernetes names.

/// Whether `text` is an RFC 1123 label. Source: Kubernetes "Object Names and IDs".
pub fn is_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Whether `text` is a DNS subdomain, as names of most objects are. Source: as above.
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}
