//! The defaults of Contour that differ from Lockgate's, as settings.

use serde_json::{Value, json};

use super::draft::Draft;
use super::row::{ReportRow, Verdict};

/// The format of Envoy's access log without a format string. Source: Envoy, "Access logging", default format string.
const LINE: &str = "[%START_TIME%] \"%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%\" %RESPONSE_CODE% \
                    %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% %RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% \
                    \"%REQ(X-FORWARDED-FOR)%\" \"%REQ(USER-AGENT)%\" \"%REQ(X-REQUEST-ID)%\" \"%REQ(:AUTHORITY)%\" \
                    \"%UPSTREAM_HOST%\"";

/// Sets the defaults of Contour. `classes` are the classes that it serves. `is_object`: the configuration is a
/// ContourConfiguration, which has other defaults.
pub fn set(draft: &mut Draft, classes: &[String], is_object: bool) {
    let idle = if is_object { "1h" } else { "1m" };
    let served = if classes.is_empty() { json!(["contour"]) } else { json!(classes) };
    let all: [(&'static str, Value, &str); 22] = [
        ("ingress.classNames", served, "Objects of these classes are served, also without an IngressClass."),
        (
            "ingress.withoutClass",
            json!(classes.is_empty()),
            "Contour serves objects without a class, unless it has classes.",
        ),
        (
            "ingress.httpsRedirect",
            json!(false),
            "Without it, plain HTTP of Ingress hosts with a certificate is redirected.",
        ),
        ("ingress.httpsRedirectStatus", json!(301), "The status for ingress.kubernetes.io/force-ssl-redirect."),
        (
            "namespaceOwnership",
            json!("InterNamespaceAllowed"),
            "Every namespace may add paths to every host. Strict protects tenants.",
        ),
        (
            "http.escapedSlashes",
            json!("keep"),
            "Paths with %2F reach backends as they are. Remove this line if no backend needs them.",
        ),
        ("http.headersWithUnderscores", json!("allow"), "Remove this line if no backend needs headers with _."),
        (
            "http.untrustedHeaders",
            json!([]),
            "Clients can set headers such as x-forwarded-host. Remove this line if backends trust them.",
        ),
        (
            "tls.strictServerNames",
            json!(true),
            "Remove this line if browsers may reuse connections for all hosts of a wildcard.",
        ),
        ("http.stripTrailingHostDot", json!(false), ""),
        ("http.allowChunkedLength", json!(true), "Remove this line if no client sends both content-length and chunks."),
        (
            "http.maxConcurrentStreams",
            json!(2_147_483_647),
            "Envoy's default. The default of Lockgate, 100, limits floods of requests.",
        ),
        ("compression.algorithms", json!(["gzip"]), ""),
        ("compression.contentTypes", json!(MEDIA_TYPES), ""),
        ("compression.minimumSize", json!("30B"), "Envoy's default."),
        ("timeouts.response", json!("15s"), "Cuts off downloads, server-sent events, and gRPC streams."),
        ("timeouts.requestHeaders", json!("off"), "Remove this line to protect against slow clients."),
        ("timeouts.connectionIdle", json!(idle), ""),
        ("upstream.dnsLookupFamily", json!("auto"), ""),
        ("listeners.admin.port", json!(9001), ""),
        ("tenants.activeHealthChecks", json!(true), "For healthCheckPolicy of HTTPProxies."),
        ("accessLog.text", json!(LINE), "Envoy's format. Remove this line for more fields."),
    ];
    for (path, value, comment) in all {
        draft.set(path, value, comment, row(path, ""));
    }
}

/// The media types of compressed responses. Source: Contour `internal/envoy/v3/listener.go`.
const MEDIA_TYPES: [&str; 25] = [
    "text/html",
    "text/plain",
    "text/css",
    "application/javascript",
    "application/x-javascript",
    "text/javascript",
    "text/x-javascript",
    "text/ecmascript",
    "text/js",
    "text/jscript",
    "text/x-js",
    "application/ecmascript",
    "application/x-json",
    "application/xml",
    "application/json",
    "image/svg+xml",
    "text/xml",
    "application/xhtml+xml",
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web+json",
    "application/grpc-web+thrift",
    "application/grpc-web-text",
    "application/grpc-web-text+proto",
    "application/grpc-web-text+thrift",
];

/// Creates a row about a default of Contour.
pub fn row(field: &str, message: &str) -> ReportRow {
    ReportRow {
        file: String::new(),
        line: 0,
        kind: String::new(),
        namespace: String::new(),
        name: String::new(),
        field: field.to_owned(),
        verdict: Verdict::Same,
        message: message.to_owned(),
        remedy: String::new(),
    }
}

/// The fields of Contour's access log in JSON. Source: Contour `apis/projectcontour/v1alpha1/accesslog.go`.
pub const JSON_FIELDS: [&str; 23] = [
    "@timestamp",
    "authority",
    "bytes_received",
    "bytes_sent",
    "downstream_local_address",
    "downstream_remote_address",
    "duration",
    "method",
    "path",
    "protocol",
    "request_id",
    "requested_server_name",
    "response_code",
    "response_flags",
    "uber_trace_id",
    "upstream_cluster",
    "upstream_host",
    "upstream_local_address",
    "upstream_service_time",
    "user_agent",
    "x_forwarded_for",
    "grpc_status",
    "grpc_status_number",
];
