//! The syntax of Kubernetes names.

/// Returns whether `text` is an RFC 1123 label. Source: Kubernetes "Object Names and IDs".
pub fn is_label(text: &str) -> bool {
    let inner = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-';
    !text.is_empty() && text.len() <= 63 && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// Returns whether `text` is a DNS subdomain, like the names of most objects. Source: Kubernetes "Object Names and
/// IDs".
pub fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_label)
}
