//! Limits that objects use in the order of precedence.

/// Returns a function that takes a size from the limit if it fits. What does not fit leaves its size to later calls.
pub fn fitting(limit: u64) -> impl FnMut(u64) -> bool {
    let mut left = limit;
    move |size| {
        let after = left.checked_sub(size);
        left = after.unwrap_or(left);
        after.is_some()
    }
}
