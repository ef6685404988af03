//! Operators in the values of headers: Contour passes on some of them to Envoy, and escapes all others.

/// The operators of header values that Contour passes on to Envoy. It escapes all others. Source: Contour
/// `internal/dag/policy.go`.
const OPERATORS: [&str; 26] = [
    "DOWNSTREAM_REMOTE_ADDRESS",
    "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_ADDRESS",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_LOCAL_PORT",
    "DOWNSTREAM_LOCAL_URI_SAN",
    "DOWNSTREAM_PEER_URI_SAN",
    "DOWNSTREAM_LOCAL_SUBJECT",
    "DOWNSTREAM_PEER_SUBJECT",
    "DOWNSTREAM_PEER_ISSUER",
    "DOWNSTREAM_TLS_SESSION_ID",
    "DOWNSTREAM_TLS_CIPHER",
    "DOWNSTREAM_TLS_VERSION",
    "DOWNSTREAM_PEER_FINGERPRINT_256",
    "DOWNSTREAM_PEER_FINGERPRINT_1",
    "DOWNSTREAM_PEER_SERIAL",
    "DOWNSTREAM_PEER_CERT",
    "DOWNSTREAM_PEER_CERT_V_START",
    "DOWNSTREAM_PEER_CERT_V_END",
    "HOSTNAME",
    "PROTOCOL",
    "UPSTREAM_REMOTE_ADDRESS",
    "RESPONSE_FLAGS",
    "RESPONSE_CODE_DETAILS",
    "TLS_JA3_FINGERPRINT",
    "TLS_JA4_FINGERPRINT",
];

/// Escapes the value of a header like Contour: a `%` that begins no known operator is written twice.
pub fn escaped(value: &str) -> String {
    let mut escaped = value.replace('%', "%%");
    for operator in OPERATORS {
        escaped = escaped.replace(&format!("%%{operator}%%"), &format!("%{operator}%"));
    }
    // Contour also passes on headers of requests.
    let mut done = String::new();
    while let Some((before, after)) = escaped.split_once("%%REQ(") {
        done.push_str(before);
        match after.split_once("%%") {
            Some((inner, rest)) if is_header(inner) => {
                done.push_str(&format!("%REQ({inner}%"));
                escaped = rest.to_owned();
            }
            _ => {
                done.push_str("%%REQ(");
                escaped = after.to_owned();
            }
        }
    }
    done + &escaped
}

/// Returns whether the text is the rest of an operator for a header: `:PATH)` or `A?B):40`.
fn is_header(text: &str) -> bool {
    let Some((names, length)) = text.split_once(')') else { return false };
    let is_name = |name: &str| {
        let name = name.strip_prefix(':').unwrap_or(name);
        !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    let digits = length.strip_prefix(':');
    let is_length = digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
    names.splitn(2, '?').all(is_name) && (length.is_empty() || is_length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_of_contour_stay_and_other_percent_signs_are_escaped() {
        assert_eq!(escaped("%HOSTNAME% 100%"), "%HOSTNAME% 100%%");
        assert_eq!(escaped("%REQ(X-A?:b)%/%REQ(b):4%"), "%REQ(X-A?:b)%/%REQ(b):4%");
        assert_eq!(escaped("%REQ(a b)%%RESP(c)%"), "%%REQ(a b)%%%%RESP(c)%%");
        assert_eq!(escaped("%START_TIME%"), "%%START_TIME%%");
        assert_eq!(escaped("%REQ(a"), "%%REQ(a");
    }
}
