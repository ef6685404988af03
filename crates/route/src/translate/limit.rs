//! Limits of memory that objects use in the order of precedence.

/// Returns a function that takes memory from the limit if it fits. What does not fit leaves its memory to later calls.
pub fn fitting(limit: u64) -> impl FnMut(u64) -> bool {
    let mut left = limit;
    move |memory| {
        let after = left.checked_sub(memory);
        left = after.unwrap_or(left);
        after.is_some()
    }
}
