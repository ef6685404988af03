//! Values of headers that depend on the request, with operators of Envoy.

use std::sync::Arc;

use super::HeaderValue;

/// The operators that a tenant may use, apart from `%REQ(NAME)%` with its variants. None of them has an argument.
const OPERATORS: [&str; 24] = [
    "DOWNSTREAM_LOCAL_ADDRESS",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_LOCAL_SUBJECT",
    "DOWNSTREAM_LOCAL_URI_SAN",
    "DOWNSTREAM_PEER_CERT",
    "DOWNSTREAM_PEER_CERT_V_END",
    "DOWNSTREAM_PEER_CERT_V_START",
    "DOWNSTREAM_PEER_FINGERPRINT_1",
    "DOWNSTREAM_PEER_FINGERPRINT_256",
    "DOWNSTREAM_PEER_ISSUER",
    "DOWNSTREAM_PEER_SERIAL",
    "DOWNSTREAM_PEER_SUBJECT",
    "DOWNSTREAM_PEER_URI_SAN",
    "DOWNSTREAM_REMOTE_ADDRESS",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_TLS_CIPHER",
    "DOWNSTREAM_TLS_SESSION_ID",
    "DOWNSTREAM_TLS_VERSION",
    "HOSTNAME",
    "PROTOCOL",
    "RESPONSE_CODE_DETAILS",
    "RESPONSE_FLAGS",
    "UPSTREAM_REMOTE_ADDRESS",
];

/// The pseudo-headers of requests.
const PSEUDO_HEADERS: [&str; 4] = [":authority", ":method", ":path", ":scheme"];

/// The longest name of a header in `%REQ(NAME)%`.
const LONGEST_NAME: usize = 256;

/// A value with operators, in Envoy's format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderFormat {
    text: Arc<str>,
    operators: usize,
    of_clients: usize,
}

impl HeaderFormat {
    /// Parses a value. Texts that are no operators of this list have no special meaning. Returns `None` if no header can contain the
    /// value.
    pub fn parse(text: &str) -> Option<Self> {
        HeaderValue::parse(text)?;
        let (mut built, mut rest) = (String::with_capacity(text.len()), text);
        let (mut operators, mut of_clients) = (0, 0);
        while let Some(start) = rest.find('%') {
            let (before, from) = rest.split_at(start);
            built.push_str(before);
            let end = from[1..].find('%').map(|end| end + 2);
            rest = match end.filter(|end| is_allowed(&from[1..end - 1])) {
                Some(end) => {
                    built.push_str(&from[..end]);
                    operators += 1;
                    of_clients += usize::from(is_of_client(&from[1..end - 1]));
                    &from[end..]
                }
                None => {
                    built.push_str("%%");
                    &from[1..]
                }
            };
        }
        built.push_str(rest);
        // A `%` is written twice.
        HeaderValue::parse(&built)?;
        Some(Self { text: built.into(), operators, of_clients })
    }

    /// Returns the text in Envoy's format.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the number of operators.
    pub fn operators(&self) -> usize {
        self.operators
    }

    /// Returns the number of operators with values of any size that clients choose: headers and certificates.
    pub fn operators_of_clients(&self) -> usize {
        self.of_clients
    }

    /// Returns the name of the header if the value is `%REQ(NAME)%`.
    pub fn header_of_request(text: &str) -> Option<&str> {
        let operator = text.strip_prefix('%')?.strip_suffix('%')?;
        request_header(operator)
    }
}

fn is_allowed(operator: &str) -> bool {
    OPERATORS.contains(&operator) || is_request_header(operator)
}

fn is_of_client(operator: &str) -> bool {
    operator.starts_with("DOWNSTREAM_PEER_") || operator.starts_with("REQ(")
}

/// Returns the name of the header in `REQ(NAME)`.
fn request_header(operator: &str) -> Option<&str> {
    operator.strip_prefix("REQ(")?.strip_suffix(')').filter(|name| is_name(name))
}

fn is_name(text: &str) -> bool {
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    (1..=LONGEST_NAME).contains(&text.len()) && text.bytes().all(is_of_name)
}

/// Returns whether an operator is `REQ(NAME)`, or one with a second name or a maximum length: `REQ(NAME?OTHER):10`. Names can be
/// pseudo-headers.
fn is_request_header(operator: &str) -> bool {
    let Some((names, length)) = operator.strip_prefix("REQ(").and_then(|rest| rest.split_once(')')) else {
        return false;
    };
    let is_length = |digits: &str| (1..=5).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let is_valid = |name: &str| PSEUDO_HEADERS.contains(&name) || is_name(name);
    (length.is_empty() || length.strip_prefix(':').is_some_and(is_length)) && names.splitn(2, '?').all(is_valid)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn only_listed_operators_have_a_meaning() {
        for (text, expected, operators) in [
            ("a", "a", 0),
            ("50%", "50%%", 0),
            ("%HOSTNAME%", "%HOSTNAME%", 1),
            ("50%%HOSTNAME%", "50%%%HOSTNAME%", 1),
            ("%REQ(X-A)%-%REQ(x_b)%", "%REQ(X-A)%-%REQ(x_b)%", 2),
            ("%REQ(:path)%", "%REQ(:path)%", 1),
            ("%REQ(X?Y)%%REQ(X?:authority):10%", "%REQ(X?Y)%%REQ(X?:authority):10%", 2),
            ("%REQ(:other)%", "%%REQ(:other)%%", 0),
            ("%REQ(X?Y?Z)%", "%%REQ(X?Y?Z)%%", 0),
            ("%REQ(X):%", "%%REQ(X):%%", 0),
            ("%REQ(X):1x%", "%%REQ(X):1x%%", 0),
            ("%REQ(X?)%", "%%REQ(X?)%%", 0),
            ("%REQ(X?Y:Z)%", "%%REQ(X?Y:Z)%%", 0),
            ("%START_TIME%", "%%START_TIME%%", 0),
            ("%ENVIRONMENT(HOME)%", "%%ENVIRONMENT(HOME)%%", 0),
            ("%hostname%", "%%hostname%%", 0),
            ("%%PROTOCOL%", "%%%PROTOCOL%", 1),
        ] {
            let format = HeaderFormat::parse(text).unwrap();
            assert_eq!((format.as_str(), format.operators()), (expected, operators), "{text}");
        }
        let format = HeaderFormat::parse("%REQ(X-A)%%PROTOCOL%%DOWNSTREAM_PEER_CERT%").unwrap();
        assert_eq!((format.operators(), format.operators_of_clients()), (3, 2));
        assert_eq!(HeaderFormat::parse("a\n%HOSTNAME%"), None);
        assert_eq!(HeaderFormat::header_of_request("%REQ(X-A)%"), Some("X-A"));
        for text in ["%REQ(X-A)%b", "%HOSTNAME%", "X-A", "%REQ()%", "%REQ(X-A?X-B)%"] {
            assert_eq!(HeaderFormat::header_of_request(text), None, "{text}");
        }
    }
}
