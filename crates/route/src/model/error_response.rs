//! Answers in the place of error responses.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::HeaderValue;

/// An answer in the place of the error responses with some statuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErrorResponse {
    /// The statuses of the responses that it replaces, within [`Self::STATUSES`].
    pub statuses: Vec<RangeInclusive<u16>>,
    /// The status of the answer. `None`: the status of the response.
    pub status: Option<u16>,
    /// The header `content-type`.
    pub content_type: HeaderValue,
    /// The body.
    pub body: Arc<str>,
}

impl ErrorResponse {
    /// The statuses of error responses.
    pub const STATUSES: RangeInclusive<u16> = 400..=599;
}
