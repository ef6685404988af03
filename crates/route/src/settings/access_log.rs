//! Settings of Envoy's access log, and its default format.

/// Envoy's access log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AccessLog {
    /// The format of a line.
    pub format: AccessLogFormat,
    /// The logged requests.
    pub level: AccessLogLevel,
    /// The line of [`AccessLogFormat::Text`], with its line feed: Envoy's format string, validated.
    pub text: String,
    /// The fields of [`AccessLogFormat::Json`]. Fields without a value are omitted from a line.
    pub json_fields: Vec<JsonField>,
    /// The log file for requests over plain HTTP: a path in Envoy's file system.
    pub http_file: String,
    /// The log file for requests over HTTPS and HTTP/3.
    pub https_file: String,
}

/// Envoy's standard output, which is the default.
pub const STDOUT: &str = "/dev/stdout";
/// Envoy's standard error.
pub const STDERR: &str = "/dev/stderr";

/// The format of a line of the access log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLogFormat {
    /// One line of text per request.
    Text,
    /// One JSON object per request.
    Json,
    /// No log.
    Off,
}

/// The requests that are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AccessLogLevel {
    /// All requests.
    Info,
    /// Requests with a status of 300 or more.
    Error,
    /// Requests with a status of 500 or more.
    Critical,
}

/// A field of a JSON line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonField {
    /// The name.
    pub name: String,
    /// Envoy's format string, validated.
    pub format: String,
}

/// Envoy's default line, then the cluster, the response code details, and the Kubernetes object of the route.
const TEXT: &str = concat!(
    r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" "#,
    r#"%RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% "#,
    r#"%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "#,
    r#""%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %RESPONSE_CODE_DETAILS% "#,
    // `%METADATA(ROUTE:dev.lockgate:kind)%` and similar commands contain the same data, but at a cost: see
    // `envoy::route`.
    "%ROUTE_NAME%\n",
);

/// The named fields of a JSON line, with the names that Contour's users have in their dashboards. The last column:
/// whether the field is included by default.
pub const JSON_FIELDS: &[(&str, &str, bool)] = &[
    ("@timestamp", "%START_TIME%", true),
    ("authority", "%REQ(:AUTHORITY)%", true),
    ("bytes_received", "%BYTES_RECEIVED%", true),
    ("bytes_sent", "%BYTES_SENT%", true),
    ("contour_config_kind", "%METADATA(ROUTE:dev.lockgate:kind)%", false),
    ("contour_config_name", "%METADATA(ROUTE:dev.lockgate:name)%", false),
    ("contour_config_namespace", "%METADATA(ROUTE:dev.lockgate:namespace)%", false),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%", true),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%", true),
    ("duration", "%DURATION%", true),
    ("grpc_status", "%GRPC_STATUS%", false),
    ("grpc_status_number", "%GRPC_STATUS_NUMBER%", false),
    ("method", "%REQ(:METHOD)%", true),
    ("object_kind", "%METADATA(ROUTE:dev.lockgate:kind)%", true),
    ("object_name", "%METADATA(ROUTE:dev.lockgate:name)%", true),
    ("object_namespace", "%METADATA(ROUTE:dev.lockgate:namespace)%", true),
    ("path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%", true),
    ("protocol", "%PROTOCOL%", true),
    ("request_id", "%REQ(X-REQUEST-ID)%", true),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%", true),
    ("response_code", "%RESPONSE_CODE%", true),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%", true),
    ("response_flags", "%RESPONSE_FLAGS%", true),
    ("tls_ja3_fingerprint", "%TLS_JA3_FINGERPRINT%", false),
    ("tls_ja4_fingerprint", "%TLS_JA4_FINGERPRINT%", false),
    ("uber_trace_id", "%REQ(UBER-TRACE-ID)%", false),
    ("upstream_cluster", "%UPSTREAM_CLUSTER_RAW%", true),
    ("upstream_host", "%UPSTREAM_HOST%", true),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%", true),
    ("upstream_service_time", "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%", true),
    ("user_agent", "%REQ(USER-AGENT)%", true),
    ("x_forwarded_for", "%REQ(X-FORWARDED-FOR)%", true),
];

impl Default for AccessLog {
    fn default() -> Self {
        let field = |(name, format, default): &(&str, &str, bool)| {
            default.then(|| JsonField { name: (*name).to_owned(), format: (*format).to_owned() })
        };
        Self {
            format: AccessLogFormat::Text,
            level: AccessLogLevel::Info,
            text: TEXT.to_owned(),
            json_fields: JSON_FIELDS.iter().filter_map(field).collect(),
            http_file: STDOUT.to_owned(),
            https_file: STDOUT.to_owned(),
        }
    }
}
