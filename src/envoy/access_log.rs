//! The access log on Envoy's standard output.

use envoy_types::pb::envoy::config::accesslog::v3 as accesslog_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3 as stream_v3;

use super::wire;
use crate::settings::AccessLog;

/// Envoy's own line, then the cluster, why the answer is what it is, and the Kubernetes object behind the route.
const TEXT: &str = concat!(
    r#"[%START_TIME%] "%REQ(:METHOD)% %REQ(X-ENVOY-ORIGINAL-PATH?:PATH)% %PROTOCOL%" "#,
    r#"%RESPONSE_CODE% %RESPONSE_FLAGS% %BYTES_RECEIVED% %BYTES_SENT% %DURATION% "#,
    r#"%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)% "%REQ(X-FORWARDED-FOR)%" "%REQ(USER-AGENT)%" "%REQ(X-REQUEST-ID)%" "#,
    r#""%REQ(:AUTHORITY)%" "%UPSTREAM_HOST%" %UPSTREAM_CLUSTER_RAW% %RESPONSE_CODE_DETAILS% "#,
    r#"%METADATA(ROUTE:dev.lockgate:kind)%/%METADATA(ROUTE:dev.lockgate:namespace)%"#,
    "/%METADATA(ROUTE:dev.lockgate:name)%\n",
);

/// The fields of a JSON line, under the names that Contour's users have in their dashboards, and the object's.
const JSON: &[(&str, &str)] = &[
    ("@timestamp", "%START_TIME%"),
    ("authority", "%REQ(:AUTHORITY)%"),
    ("bytes_received", "%BYTES_RECEIVED%"),
    ("bytes_sent", "%BYTES_SENT%"),
    ("downstream_local_address", "%DOWNSTREAM_LOCAL_ADDRESS%"),
    ("downstream_remote_address", "%DOWNSTREAM_REMOTE_ADDRESS%"),
    ("duration", "%DURATION%"),
    ("method", "%REQ(:METHOD)%"),
    ("object_kind", "%METADATA(ROUTE:dev.lockgate:kind)%"),
    ("object_name", "%METADATA(ROUTE:dev.lockgate:name)%"),
    ("object_namespace", "%METADATA(ROUTE:dev.lockgate:namespace)%"),
    ("path", "%REQ(X-ENVOY-ORIGINAL-PATH?:PATH)%"),
    ("protocol", "%PROTOCOL%"),
    ("request_id", "%REQ(X-REQUEST-ID)%"),
    ("requested_server_name", "%REQUESTED_SERVER_NAME%"),
    ("response_code", "%RESPONSE_CODE%"),
    ("response_code_details", "%RESPONSE_CODE_DETAILS%"),
    ("response_flags", "%RESPONSE_FLAGS%"),
    ("upstream_cluster", "%UPSTREAM_CLUSTER_RAW%"),
    ("upstream_host", "%UPSTREAM_HOST%"),
    ("upstream_local_address", "%UPSTREAM_LOCAL_ADDRESS%"),
    ("upstream_service_time", "%RESP(X-ENVOY-UPSTREAM-SERVICE-TIME)%"),
    ("user_agent", "%REQ(USER-AGENT)%"),
    ("x_forwarded_for", "%REQ(X-FORWARDED-FOR)%"),
];

/// The access logs of a connection manager: one, or none.
///
/// `%METADATA%` is built into Envoy, which warns of a configuration that names its formatter.
pub fn access_log(format: AccessLog) -> Vec<accesslog_v3::AccessLog> {
    use core_v3::substitution_format_string::Format;
    let format = match format {
        AccessLog::Off => return vec![],
        AccessLog::Text => Format::TextFormatSource(wire::inline_string(TEXT)),
        AccessLog::Json => Format::JsonFormat(wire::text_struct(JSON.iter().copied())),
    };
    let log = stream_v3::StdoutAccessLog {
        access_log_format: Some(stream_v3::stdout_access_log::AccessLogFormat::LogFormat(
            core_v3::SubstitutionFormatString {
                omit_empty_values: matches!(format, Format::JsonFormat(_)),
                format: Some(format),
                ..Default::default()
            },
        )),
    };
    vec![accesslog_v3::AccessLog {
        name: "envoy.access_loggers.stdout".to_owned(),
        config_type: Some(accesslog_v3::access_log::ConfigType::TypedConfig(wire::any(&log))),
        ..Default::default()
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::names;

    #[test]
    fn both_formats_name_the_object_of_the_route() {
        for field in ["kind", "namespace", "name"] {
            let command = format!("%METADATA(ROUTE:{}:{field})%", names::METADATA);
            assert!(TEXT.contains(&command));
            assert!(JSON.iter().any(|(_, value)| *value == command));
        }
        assert!(TEXT.ends_with('\n'));
    }

    #[test]
    fn off_is_no_log() {
        assert!(access_log(AccessLog::Off).is_empty());
        assert_eq!(access_log(AccessLog::Json).len(), 1);
    }
}
