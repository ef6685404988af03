//! Names and values of headers, and changes of them.

use std::fmt;
use std::sync::Arc;

use super::HeaderFormat;

/// The name of a header, in lower case. Never a pseudo-header other than [`Self::method`], and never `host`: a host is matched by its
/// virtual host, and changed by [`Rewrite`](super::Rewrite).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderName(Arc<str>);

/// The header with the marks of the proxies that a request has passed. Source: RFC 8586.
pub const LOOP: &str = "cdn-loop";
/// The prefixes of headers that no tenant changes, with the reason.
const RESERVED: [(&str, &str); 3] =
    [("proxy-", "it belongs to the connection"), (ENVOY, "it controls Envoy"), ("x-lockgate-", "it controls Lockgate")];
/// The headers that Envoy 1.40 reads or writes, without their prefix. Some of them control retries, time limits, or faults.
const OF_ENVOY: [&str; 63] = [
    "attempt-count",
    "auth-failure-mode-allowed",
    "auth-headers-to-remove",
    "auth-partial-body",
    "cluster",
    "compression-status",
    "decorator-operation",
    "degraded",
    "downstream-service-cluster",
    "downstream-service-node",
    "drop-overload",
    "expected-rq-timeout-ms",
    "external-address",
    "fault-abort-grpc-request",
    "fault-abort-percentage",
    "fault-abort-request",
    "fault-abort-request-percentage",
    "fault-delay-request",
    "fault-delay-request-percentage",
    "fault-throughput-response",
    "fault-throughput-response-percentage",
    "force-trace",
    "hedge-on-per-try-timeout",
    "immediate-health-check-fail",
    "internal",
    "ip-tags",
    "is-timeout-retry",
    "local-overloaded",
    "max-retries",
    "not-forwarded",
    "oauth-failure-reason",
    "oauth-status",
    "original-dst-host",
    "original-host",
    "original-method",
    "original-path",
    "original-url",
    "overloaded",
    "peer-metadata",
    "peer-metadata-id",
    "ratelimited",
    "retriable-header-names",
    "retriable-status-codes",
    "retry-grpc-on",
    "retry-on",
    "reverse-tunnel-cluster-id",
    "reverse-tunnel-connection-id",
    "reverse-tunnel-initiation-time",
    "reverse-tunnel-node-id",
    "reverse-tunnel-tenant-id",
    "reverse-tunnel-upstream-cluster-name",
    "reverse-tunnel-worker-id",
    "unconditional-drop-overload",
    "upstream-alt-stat-name",
    "upstream-canary",
    "upstream-healthchecked-cluster",
    "upstream-host-address",
    "upstream-hostname",
    "upstream-rq-per-try-timeout-ms",
    "upstream-rq-timeout-alt-response",
    "upstream-rq-timeout-ms",
    "upstream-service-time",
    "upstream-stream-duration-ms",
];
/// The prefix of headers that can control Envoy.
const ENVOY: &str = "x-envoy-";
/// Headers that delimit a message, or that belong to one connection. Source: RFC 9110 section 7.6.1; RFC 9112 section 6.
pub const FRAMING: [&str; 8] =
    ["connection", "content-length", "http2-settings", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"];

/// Returns whether the name of a host can contain a byte.
pub fn is_of_host(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b".-_".contains(&byte)
}

impl HeaderName {
    /// Returns the name of the pseudo-header with the method, which conditions can name.
    pub fn method() -> Self {
        Self(Self::METHOD.into())
    }

    /// The name of the pseudo-header with the method.
    pub const METHOD: &'static str = ":method";

    /// Parses a header name in any case. Returns `None` if `text` is not a header name. Source: RFC 9110 section 5.6.2,
    /// `token`.
    pub fn parse(text: &str) -> Option<Self> {
        let is_valid = Self::is_token(text) && !text.eq_ignore_ascii_case("host");
        is_valid.then(|| Self(text.to_ascii_lowercase().into()))
    }

    /// Parses the name of a header that the object of a tenant may set, add, or remove, on requests and on responses.
    ///
    /// # Errors
    /// The reason: `text` is no header name; or whoever changes the header could end a message early, so that its rest is
    /// read as the message of somebody else; or the header controls Envoy or Lockgate.
    pub fn parse_changeable(text: &str) -> Result<Self, String> {
        let name = Self::parse(text).ok_or_else(|| format!("header {text:?} cannot be changed"))?;
        match name.reserved() {
            Some(reason) => Err(format!("header {text:?} cannot be changed: {reason}")),
            None => Ok(name),
        }
    }

    /// Parses the name of a header of requests that can contain the host for the backends.
    ///
    /// # Errors
    /// The reason: `text` is no header name, or the header delimits messages, or it controls Envoy or Lockgate.
    pub fn parse_with_host(text: &str) -> Result<Self, String> {
        let name = Self::parse(text).ok_or_else(|| format!("{text:?} is not the name of a header with a host"))?;
        match name.reserved() {
            Some(reason) => Err(format!("header {text:?} cannot contain the host: {reason}")),
            None => Ok(name),
        }
    }

    /// Returns why no tenant may use the header.
    fn reserved(&self) -> Option<&'static str> {
        match self.as_str() {
            framing if FRAMING.contains(&framing) => Some("it belongs to the connection"),
            LOOP => Some("it ends loops"),
            name => RESERVED.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, reason)| *reason),
        }
    }

    /// Parses the name of a header that looks like a header of Envoy, and that an operator allows to be changed.
    ///
    /// # Errors
    /// The reason: the name has another prefix, or Envoy itself reads or writes the header.
    pub fn parse_like_envoys(text: &str) -> Result<Self, String> {
        let name = Self::parse(text).filter(|name| name.as_str().len() > ENVOY.len());
        let name = name.ok_or_else(|| format!("expected the name of a header that starts with {ENVOY:?}"))?;
        match name.as_str().strip_prefix(ENVOY) {
            None => Err(format!("expected a name that starts with {ENVOY:?}; all other headers can be changed anyway")),
            Some(rest) if OF_ENVOY.contains(&rest) => Err("Envoy itself reads or writes this header".to_owned()),
            Some(_) => Ok(name),
        }
    }

    /// A regular expression of names in lower case: those that [`Self::parse_changeable`] refuses, except for `host` and
    /// pseudo-headers, and all names with their first words. It is short enough for an Envoy without runtime flags, which
    /// rejects programs of more than 100 instructions.
    pub const UNCHANGEABLE: &'static str = "connection|content-length|te|trailer|upgrade|\
                                            (cdn|http2|keep|proxy|transfer|x-envoy|x-lockgate)-.*";

    /// Returns whether `text` is a token of at most 256 bytes. Source: RFC 9110 section 5.6.2.
    pub fn is_token(text: &str) -> bool {
        const LONGEST: usize = 256;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        !text.is_empty() && text.len() <= LONGEST && text.bytes().all(is_allowed)
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HeaderName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that is valid in a header: the value of a header, a path, or a host. Its characters have no special meaning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderValue(Arc<str>);

impl HeaderValue {
    /// Parses a header value. Returns `None` if no header can contain `text`. Source: RFC 9110 section 5.5.
    pub fn parse(text: &str) -> Option<Self> {
        // Envoy rejects the whole resource because of a longer value. A `%` is written twice.
        const LONGEST: usize = 8 * 1024;
        let valid = text.len() <= LONGEST && !text.chars().any(|one| one.is_control() && one != '\t');
        valid.then(|| Self(text.into()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A change of the headers of a request or a response. Changes apply in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderChange {
    /// Sets a header to one value.
    Set(HeaderName, HeaderValue),
    /// Sets a header to one value that depends on the request. It can be empty.
    SetFormat(HeaderName, HeaderFormat),
    /// Adds a value to the existing values of a header.
    Add(HeaderName, HeaderValue),
    /// Removes a header.
    Remove(HeaderName),
}

impl HeaderChange {
    /// Returns the changed header.
    pub fn name(&self) -> &HeaderName {
        match self {
            Self::Set(name, _) | Self::SetFormat(name, _) | Self::Add(name, _) | Self::Remove(name) => name,
        }
    }

    /// Returns whether the header `name` can contain something else than a host, because of this change.
    pub fn may_replace_host_in(&self, name: &HeaderName) -> bool {
        self.name() == name
            && match self {
                Self::Remove(_) => false,
                Self::SetFormat(..) => true,
                Self::Set(_, value) | Self::Add(_, value) => !value.as_str().bytes().all(is_of_host),
            }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]

    use super::*;

    #[test]
    fn only_names_that_envoy_accepts_are_names() {
        assert_eq!(HeaderName::parse("X-Team").map(|name| name.to_string()), Some("x-team".to_owned()));
        for bad in ["", ":path", "Host", "a b", "a:", "ä", "a\n"] {
            assert_eq!(HeaderName::parse(bad), None, "{bad:?}");
        }
        assert_eq!(HeaderName::parse(&"a".repeat(257)), None);
    }

    #[test]
    fn no_tenant_changes_what_delimits_messages_or_controls_proxies() {
        assert_eq!(HeaderName::parse_changeable("X-Team").map(|name| name.to_string()), Ok("x-team".to_owned()));
        assert!(HeaderName::parse_changeable("proxy").is_ok());
        let reserved = ["Proxy-Authorization", "X-Envoy-Max-Retries", "x-lockgate-bucket", "CDN-Loop", "Host", ":path"];
        let unchangeable = regex::Regex::new(&format!("^({})$", HeaderName::UNCHANGEABLE)).expect("an expression");
        assert!(!unchangeable.is_match("x-team") && !unchangeable.is_match("proxy"));
        for name in FRAMING.into_iter().chain(reserved) {
            assert!(unchangeable.is_match(&name.to_lowercase()) || ["Host", ":path"].contains(&name), "{name}");
            let refused = HeaderName::parse_changeable(name).err().unwrap_or_default();
            assert!(refused.starts_with(&format!("header {name:?} cannot be changed")), "{refused}");
        }
    }

    #[test]
    fn an_operator_allows_only_what_envoy_does_not_use() {
        let allowed = HeaderName::parse_like_envoys("X-Envoy-Hostname").map(|name| name.to_string());
        assert_eq!(allowed, Ok("x-envoy-hostname".to_owned()));
        for refused in ["X-Envoy-Max-Retries", "x-envoy-fault-delay-request", "x-envoy-", "x-team", "x-envoy- ", "te"] {
            assert!(HeaderName::parse_like_envoys(refused).is_err(), "{refused}");
        }
        assert!(OF_ENVOY.is_sorted());
    }

    #[test]
    fn only_texts_that_envoy_accepts_are_values() {
        for good in ["", "50%", "a\tb", "ä"] {
            assert!(HeaderValue::parse(good).is_some(), "{good:?}");
        }
        for bad in ["a\nb", "a\r", "\0"] {
            assert_eq!(HeaderValue::parse(bad), None, "{bad:?}");
        }
    }
}
