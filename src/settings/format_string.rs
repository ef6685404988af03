//! Validates Envoy's format strings. Envoy rejects the whole listener for one invalid string.
//!
//! It accepts the operators of every build of Envoy 1.40, but not `CEL` and extensions, which only some builds have. A
//! test checks each operator with a real Envoy. Source: Envoy, "Substitution formatting".

use super::values::names::is_token;

/// The parameters of an operator, in parentheses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    /// No parentheses.
    None,
    /// A header, or a header and an alternative: `A?B`.
    Header,
    /// A time format, or no parentheses.
    Time,
    /// Any text.
    Text,
    /// Any text, without a length limit after it.
    TextWithoutLength,
    /// `KIND:NAMESPACE:KEY`
    Metadata,
    /// `KEY:PLAIN`, `KEY:TYPED`, `KEY:FIELD:NAME`
    FilterState,
    /// `START:END:PRECISION`
    Duration,
    /// `CAMEL_STRING`, `SNAKE_STRING`, `NUMBER`, or no parentheses.
    GrpcStatus,
}

/// Operators with parameters.
pub(super) const OPERATORS_WITH_PARAMETER: &[(&str, Parameter)] = &[
    ("CLUSTER_METADATA", Parameter::TextWithoutLength),
    ("COMMON_DURATION", Parameter::Duration),
    ("DOWNSTREAM_PEER_CERT_V_END", Parameter::Time),
    ("DOWNSTREAM_PEER_CERT_V_START", Parameter::Time),
    ("DYNAMIC_METADATA", Parameter::Text),
    ("EMIT_TIME", Parameter::Time),
    ("EMIT_TIME_LOCAL", Parameter::Time),
    ("ENVIRONMENT", Parameter::Text),
    ("FILTER_STATE", Parameter::FilterState),
    ("GRPC_STATUS", Parameter::GrpcStatus),
    ("METADATA", Parameter::Metadata),
    ("QUERY_PARAM", Parameter::Text),
    ("REQ", Parameter::Header),
    ("REQUEST_HEADER", Parameter::Header),
    ("RESP", Parameter::Header),
    ("RESPONSE_HEADER", Parameter::Header),
    ("RESPONSE_TRAILER", Parameter::Header),
    ("START_TIME", Parameter::Time),
    ("START_TIME_LOCAL", Parameter::Time),
    ("TRAILER", Parameter::Header),
    ("UPSTREAM_FILTER_STATE", Parameter::FilterState),
    ("UPSTREAM_METADATA", Parameter::TextWithoutLength),
    ("UPSTREAM_PEER_CERT_V_END", Parameter::Time),
    ("UPSTREAM_PEER_CERT_V_START", Parameter::Time),
];

/// Operators without parameters.
#[rustfmt::skip]
pub(super) const PLAIN_OPERATORS: &[&str] = &[
    "ACCESS_LOG_TYPE", "BYTES_RECEIVED", "BYTES_RETRANSMITTED", "BYTES_SENT", "CONNECTION_ID",
    "CONNECTION_TERMINATION_DETAILS", "DOWNSTREAM_CX_RTT", "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED",
    "DOWNSTREAM_DECOMPRESSED_HEADER_BYTES_SENT", "DOWNSTREAM_DETECTED_CLOSE_TYPE",
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS", "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_ENDPOINT_ID",
    "DOWNSTREAM_DIRECT_LOCAL_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_DIRECT_LOCAL_PORT",
    "DOWNSTREAM_DIRECT_REMOTE_ADDRESS", "DOWNSTREAM_DIRECT_REMOTE_ADDRESS_WITHOUT_PORT",
    "DOWNSTREAM_DIRECT_REMOTE_PORT", "DOWNSTREAM_HANDSHAKE_DURATION", "DOWNSTREAM_HEADER_BYTES_RECEIVED",
    "DOWNSTREAM_HEADER_BYTES_SENT", "DOWNSTREAM_LOCAL_ADDRESS", "DOWNSTREAM_LOCAL_ADDRESS_ENDPOINT_ID",
    "DOWNSTREAM_LOCAL_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_LOCAL_CLOSE_REASON", "DOWNSTREAM_LOCAL_DNS_SAN",
    "DOWNSTREAM_LOCAL_EMAIL_SAN", "DOWNSTREAM_LOCAL_IP_SAN", "DOWNSTREAM_LOCAL_OTHERNAME_SAN",
    "DOWNSTREAM_LOCAL_PORT", "DOWNSTREAM_LOCAL_SUBJECT", "DOWNSTREAM_LOCAL_URI_SAN", "DOWNSTREAM_PEER_CERT",
    "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_1", "DOWNSTREAM_PEER_CHAIN_FINGERPRINTS_256",
    "DOWNSTREAM_PEER_CHAIN_SERIALS", "DOWNSTREAM_PEER_DNS_SAN", "DOWNSTREAM_PEER_EMAIL_SAN",
    "DOWNSTREAM_PEER_FINGERPRINT_1", "DOWNSTREAM_PEER_FINGERPRINT_256", "DOWNSTREAM_PEER_IP_SAN",
    "DOWNSTREAM_PEER_ISSUER", "DOWNSTREAM_PEER_ISSUER_FINGERPRINT_256", "DOWNSTREAM_PEER_ISSUER_SERIAL",
    "DOWNSTREAM_PEER_OTHERNAME_SAN", "DOWNSTREAM_PEER_SERIAL", "DOWNSTREAM_PEER_SUBJECT", "DOWNSTREAM_PEER_URI_SAN",
    "DOWNSTREAM_REMOTE_ADDRESS", "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT", "DOWNSTREAM_REMOTE_PORT",
    "DOWNSTREAM_TLS_CIPHER", "DOWNSTREAM_TLS_GROUP", "DOWNSTREAM_TLS_SESSION_ID", "DOWNSTREAM_TLS_VERSION",
    "DOWNSTREAM_TRANSPORT_FAILURE_REASON", "DOWNSTREAM_WIRE_BYTES_RECEIVED", "DOWNSTREAM_WIRE_BYTES_SENT",
    "DURATION", "FILTER_CHAIN_NAME", "GRPC_STATUS_NUMBER", "HOSTNAME", "LISTENER_NAME", "LOCAL_REPLY_BODY",
    "PACKETS_RETRANSMITTED", "PATH", "PROTOCOL", "QUERY_PARAMS", "REQUESTED_SERVER_NAME", "REQUEST_DURATION",
    "REQUEST_HEADERS_BYTES", "REQUEST_TX_DURATION", "RESPONSE_CODE", "RESPONSE_CODE_DETAILS", "RESPONSE_DURATION",
    "RESPONSE_FLAGS", "RESPONSE_FLAGS_LONG", "RESPONSE_HEADERS_BYTES", "RESPONSE_TRAILERS_BYTES",
    "RESPONSE_TX_DURATION", "ROUTE_NAME", "SPAN_ID", "STREAM_ID", "TLS_JA3_FINGERPRINT", "TLS_JA4_FINGERPRINT",
    "TRACE_ID", "UNIQUE_ID", "UPSTREAM_CLUSTER", "UPSTREAM_CLUSTER_RAW", "UPSTREAM_CONNECTION_ID",
    "UPSTREAM_CONNECTION_IDS_ATTEMPTED", "UPSTREAM_CONNECTION_POOL_READY_DURATION",
    "UPSTREAM_DECOMPRESSED_HEADER_BYTES_RECEIVED", "UPSTREAM_DECOMPRESSED_HEADER_BYTES_SENT",
    "UPSTREAM_DETECTED_CLOSE_TYPE", "UPSTREAM_HEADER_BYTES_RECEIVED", "UPSTREAM_HEADER_BYTES_SENT", "UPSTREAM_HOST",
    "UPSTREAM_HOSTS_ATTEMPTED", "UPSTREAM_HOSTS_ATTEMPTED_WITHOUT_PORT", "UPSTREAM_HOST_NAME",
    "UPSTREAM_HOST_NAMES_ATTEMPTED", "UPSTREAM_HOST_NAMES_ATTEMPTED_WITHOUT_PORT",
    "UPSTREAM_HOST_NAME_WITHOUT_PORT", "UPSTREAM_LOCAL_ADDRESS", "UPSTREAM_LOCAL_ADDRESS_WITHOUT_PORT",
    "UPSTREAM_LOCAL_CLOSE_REASON", "UPSTREAM_LOCAL_DNS_SAN", "UPSTREAM_LOCAL_IP_SAN", "UPSTREAM_LOCAL_PORT",
    "UPSTREAM_LOCAL_URI_SAN", "UPSTREAM_PEER_CERT", "UPSTREAM_PEER_DNS_SAN", "UPSTREAM_PEER_IP_SAN",
    "UPSTREAM_PEER_ISSUER", "UPSTREAM_PEER_SUBJECT", "UPSTREAM_PEER_URI_SAN", "UPSTREAM_PROTOCOL",
    "UPSTREAM_REMOTE_ADDRESS", "UPSTREAM_REMOTE_ADDRESS_ENDPOINT_ID", "UPSTREAM_REMOTE_ADDRESS_WITHOUT_PORT",
    "UPSTREAM_REMOTE_PORT", "UPSTREAM_REQUEST_ATTEMPT_COUNT", "UPSTREAM_SERVER_NAME", "UPSTREAM_TLS_CIPHER",
    "UPSTREAM_TLS_GROUP", "UPSTREAM_TLS_SESSION_ID", "UPSTREAM_TLS_VERSION", "UPSTREAM_TRANSPORT_FAILURE_REASON",
    "UPSTREAM_WIRE_BYTES_RECEIVED", "UPSTREAM_WIRE_BYTES_SENT", "VIRTUAL_CLUSTER_NAME",
];

/// The kinds of metadata.
const METADATA: [&str; 7] =
    ["CLUSTER", "DYNAMIC", "LISTENER", "LISTENER_FILTER_CHAIN", "ROUTE", "UPSTREAM_HOST", "VIRTUAL_HOST"];

/// Operators of formatters that only an access log can have.
const OPERATORS_OF_LOGS: &[(&str, Parameter)] = &[("REQ_WITHOUT_QUERY", Parameter::Header)];

/// Checks whether Envoy accepts `format` as the value of a header. The error names the invalid part and the allowed
/// values.
pub fn check(format: &str) -> Result<(), String> {
    check_with(format, &[])
}

/// Checks whether Envoy accepts `format` for the access log. The error has the form of [`check`].
pub fn check_of_log(format: &str) -> Result<(), String> {
    check_with(format, OPERATORS_OF_LOGS)
}

fn check_with(format: &str, more: &[(&str, Parameter)]) -> Result<(), String> {
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        rest = &rest[at + 1..];
        rest = match rest.strip_prefix('%') {
            Some(rest) => rest,
            None => operator(rest, more)?,
        };
    }
    Ok(())
}

/// Checks the operator at the start of `text`, without its first `%`, and returns the rest. `more` are additional
/// operators.
fn operator<'a>(text: &'a str, more: &[(&str, Parameter)]) -> Result<&'a str, String> {
    let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    let (name, rest) = text.split_at(text.find(|c| !is_name(c)).unwrap_or(text.len()));
    if name.is_empty() {
        return Err("a % that does not begin an operator such as %PROTOCOL%; write %% for a percent sign".to_owned());
    }
    let unclosed = || format!("%{name} does not end with %; write %% for a percent sign");
    let (parameter, rest) = match rest.strip_prefix('(') {
        Some(rest) => {
            let (parameter, rest) = rest.split_once(')').ok_or_else(unclosed)?;
            (Some(parameter), rest)
        }
        None => (None, rest),
    };
    let (length, rest) = match rest.strip_prefix(':') {
        Some(rest) => {
            let (digits, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
            (Some(digits), rest)
        }
        None => (None, rest),
    };
    let rest = rest.strip_prefix('%').ok_or_else(unclosed)?;
    let takes = match OPERATORS_WITH_PARAMETER.iter().chain(more).find(|(known, _)| *known == name) {
        Some((_, takes)) => *takes,
        None if PLAIN_OPERATORS.contains(&name) => Parameter::None,
        None => {
            let known = OPERATORS_WITH_PARAMETER.iter().map(|(known, _)| *known).chain(PLAIN_OPERATORS.iter().copied());
            let hint = super::foreign::nearest(name, known).map(|near| format!("; did you mean %{near}%?"));
            return Err(format!("Envoy has no operator %{name}%{}", hint.unwrap_or_default()));
        }
    };
    takes.check(parameter).map_err(|expected| format!("%{name}%: expected {expected}"))?;
    let long = |digits: &str| digits.is_empty() || digits.len() > 9;
    match length {
        Some(_) if !takes.has_length() => Err(format!("%{name}% does not have a length")),
        Some(digits) if long(digits) => Err(format!("%{name}%: expected a length such as :10")),
        _ => Ok(rest),
    }
}

impl Parameter {
    /// Returns whether a length limit may follow.
    fn has_length(self) -> bool {
        matches!(self, Self::Header | Self::Text | Self::FilterState | Self::Metadata)
    }

    /// Checks the parameters `given`. The error lists the allowed values.
    fn check(self, given: Option<&str>) -> Result<(), &'static str> {
        let (allowed, expected) = match (self, given) {
            (Self::None, given) => (given.is_none(), "no brackets"),
            (Self::Time | Self::GrpcStatus, None) => (true, ""),
            (Self::Time, Some(format)) => {
                // A conversion to a line feed, with any flags and width.
                let feeds = format.split('%').skip(1).any(|conversion| {
                    let kind = conversion.trim_start_matches(|c: char| c.is_ascii_digit() || "-_^#EO".contains(c));
                    kind.starts_with('n')
                });
                (!feeds && !format.chars().any(char::is_control), "a time format on one line, such as (%Y-%m-%d)")
            }
            (Self::GrpcStatus, Some(form)) => {
                (["CAMEL_STRING", "SNAKE_STRING", "NUMBER"].contains(&form), "CAMEL_STRING, SNAKE_STRING or NUMBER")
            }
            (Self::Header, given) => {
                let headers = given.unwrap_or_default().split('?').collect::<Vec<_>>();
                let header = |name: &&str| is_token(name.strip_prefix(':').unwrap_or(name));
                (headers.len() <= 2 && headers.iter().all(header), "a header, such as (USER-AGENT) or (:AUTHORITY)")
            }
            (Self::Text | Self::TextWithoutLength, given) => {
                let text = given.unwrap_or_default();
                (!text.is_empty() && !text.chars().any(char::is_control), "parentheses with a name")
            }
            (Self::Metadata, given) => {
                let mut parts = given.unwrap_or_default().splitn(3, ':');
                let kind = parts.next().is_some_and(|kind| METADATA.contains(&kind));
                let keys = parts.filter(|part| !part.is_empty()).count() == 2;
                (
                    kind && keys,
                    "(KIND:NAMESPACE:KEY), KIND being ROUTE, CLUSTER, UPSTREAM_HOST, VIRTUAL_HOST, LISTENER or DYNAMIC",
                )
            }
            (Self::FilterState, given) => {
                let parts: Vec<&str> = given.unwrap_or_default().split(':').collect();
                let fits = match parts[..] {
                    [key] | [key, "PLAIN" | "TYPED"] => !key.is_empty(),
                    [key, "FIELD", field] => !key.is_empty() && !field.is_empty(),
                    _ => false,
                };
                (fits, "(KEY), (KEY:PLAIN), (KEY:TYPED) or (KEY:FIELD:NAME)")
            }
            (Self::Duration, given) => {
                let parts: Vec<&str> = given.unwrap_or_default().split(':').collect();
                let fits = matches!(parts[..], [from, to, "ms" | "us" | "ns"] if !from.is_empty() && !to.is_empty());
                (fits, "(START:END:PRECISION), such as (DS_RX_BEG:DS_TX_END:ms)")
            }
        };
        if allowed { Ok(()) } else { Err(expected) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_that_envoy_accepts_are_valid() {
        for format in [
            "",
            "plain",
            "100%%",
            "%%PROTOCOL%%",
            "%PROTOCOL%%DURATION%",
            "%REQ(:METHOD)% %REQ(A?:B):10%",
            "%START_TIME%",
            "%START_TIME(%Y%m%dT%H:%M:%E3S)%",
            "%METADATA(ROUTE:a:b:c):3%",
            "%GRPC_STATUS(NUMBER)%",
            "é %PROTOCOL%",
            "%FILTER_STATE(a:FIELD:b)%",
            "%COMMON_DURATION(DS_RX_BEG:DS_TX_END:us)%",
            "%ENVIRONMENT(HOME):4%",
        ] {
            assert_eq!(check(format), Ok(()), "{format}");
        }
    }

    #[test]
    fn an_operator_of_a_formatter_is_for_the_log_alone() {
        let format = "%REQ_WITHOUT_QUERY(X-ENVOY-ORIGINAL-PATH?:PATH):20%";
        assert_eq!(check_of_log(format), Ok(()));
        assert!(check(format).is_err() && check_of_log("%REQ_WITHOUT_QUERY()%").is_err());
    }

    #[test]
    fn invalid_formats_are_rejected_with_the_reason() {
        for (format, why) in [
            ("100%", "write %% for a percent sign"),
            ("a%b", "write %% for a percent sign"),
            ("%protocol%", "does not begin an operator"),
            ("%PROTOCOL", "does not end with %"),
            ("%PROTOKOL%", "did you mean %PROTOCOL%?"),
            ("%REQ%", "expected a header"),
            ("%REQ()%", "expected a header"),
            ("%REQ(a b)%", "expected a header"),
            ("%REQ(a?b?c)%", "expected a header"),
            ("%REQ(a%", "does not end with %"),
            ("%REQ(a):%", "a length such as :10"),
            ("%REQ(a):99999999999%", "a length such as :10"),
            ("%PROTOCOL:5%", "does not have a length"),
            ("%PROTOCOL(x)%", "no brackets"),
            ("%START_TIME(%-5n)%", "a time format on one line"),
            ("%METADATA(X:a:b)%", "KIND being ROUTE"),
            ("%FILTER_STATE(a:X)%", "(KEY:PLAIN)"),
            ("%COMMON_DURATION(a:b:s)%", "(START:END:PRECISION)"),
            ("%GRPC_STATUS(X)%", "CAMEL_STRING"),
            ("%CEL(request.path)%", "Envoy has no operator %CEL%"),
        ] {
            let told = check(format);
            assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{format}: {told:?}");
        }
    }
}
