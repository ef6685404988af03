//! Limits of the request rate that a service counts for all Envoys: the descriptors of requests.

/// The descriptors that Envoy sends for the requests of a route, instead of those of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GlobalRateLimit {
    /// The descriptors, each a list of entries. Without any, the service does not count the requests.
    pub descriptors: Vec<Vec<RateLimitEntry>>,
}

/// An entry of a descriptor. If a request has no value for it, the whole descriptor is omitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RateLimitEntry {
    /// A constant value.
    GenericKey {
        /// The key, by default `generic_key`.
        key: Option<String>,
        /// The value.
        value: String,
    },
    /// The value of a request header.
    RequestHeader {
        /// The header, in lower case.
        header_name: String,
        /// The key.
        descriptor_key: String,
    },
    /// A constant value for all requests whose headers match, with the key `header_match`.
    RequestHeaderValueMatch {
        /// The conditions, which must all match.
        headers: Vec<EntryHeader>,
        /// Whether the headers must match or must not match.
        expect_match: bool,
        /// The value.
        value: String,
    },
    /// The client's address, with the key `remote_address`.
    RemoteAddress,
}

/// A match of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EntryHeader {
    /// The header, in lower case.
    pub name: String,
    /// The condition of the match.
    pub condition: HeaderCondition,
    /// Whether the case of letters is ignored.
    pub ignore_case: bool,
    /// Whether an absent header counts as a header with an empty value. Otherwise, no condition on a value matches.
    pub treat_missing_as_empty: bool,
}

/// The condition of a header match.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderCondition {
    /// The header is present.
    Present,
    /// The header is absent.
    NotPresent,
    /// The header has this value.
    Exact(String),
    /// The header has another value.
    NotExact(String),
    /// The value contains this text.
    Contains(String),
    /// The value does not contain this text.
    NotContains(String),
    /// The complete value matches this RE2 pattern.
    Regex(String),
}
