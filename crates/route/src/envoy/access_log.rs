//! The access log.

use envoy_types::pb::envoy::config::accesslog::v3 as accesslog_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::access_loggers::file::v3 as file_v3;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3 as stream_v3;
use envoy_types::pb::envoy::extensions::formatter::req_without_query::v3 as req_without_query_v3;
use envoy_types::pb::google::protobuf::Any;

use super::wire;
use crate::settings::{AccessLog, AccessLogFormat, AccessLogLevel, STDERR, STDOUT};

/// Builds the access log of a connection manager that writes to `file`. Returns an empty list if the log is off.
pub fn access_log(settings: &AccessLog, file: &str) -> Vec<accesslog_v3::AccessLog> {
    use core_v3::substitution_format_string::Format;
    let AccessLog { format, level, text, json_fields, http_file: _, https_file: _ } = settings;
    let (format, formatters) = match format {
        AccessLogFormat::Off => return vec![],
        AccessLogFormat::Text => (Format::TextFormatSource(wire::inline_string(text)), formatters([&**text])),
        AccessLogFormat::Json => {
            let fields = json_fields.iter().map(|field| (&*field.name, &*field.format));
            let formatters = formatters(json_fields.iter().map(|field| &*field.format));
            (Format::JsonFormat(wire::text_struct(fields)), formatters)
        }
    };
    let format = core_v3::SubstitutionFormatString {
        omit_empty_values: matches!(format, Format::JsonFormat(_)),
        format: Some(format),
        formatters,
        ..Default::default()
    };
    let (name, sink) = sink(file, format);
    vec![accesslog_v3::AccessLog {
        name: name.to_owned(),
        filter: filter(*level),
        config_type: Some(accesslog_v3::access_log::ConfigType::TypedConfig(sink)),
    }]
}

/// Returns the name and the configuration of the extension that writes to `file`. Standard output and standard error
/// have extensions of their own: `/dev/stdout` of a container may be a pipe that Envoy's user cannot open.
fn sink(file: &str, format: core_v3::SubstitutionFormatString) -> (&'static str, Any) {
    use file_v3::file_access_log::AccessLogFormat as FileFormat;
    use stream_v3::{stderr_access_log, stdout_access_log};
    match file {
        STDOUT => {
            let access_log_format = Some(stdout_access_log::AccessLogFormat::LogFormat(format));
            ("envoy.access_loggers.stdout", wire::any(&stream_v3::StdoutAccessLog { access_log_format }))
        }
        STDERR => {
            let access_log_format = Some(stderr_access_log::AccessLogFormat::LogFormat(format));
            ("envoy.access_loggers.stderr", wire::any(&stream_v3::StderrAccessLog { access_log_format }))
        }
        file => {
            let path = file.to_owned();
            let access_log_format = Some(FileFormat::LogFormat(format));
            ("envoy.access_loggers.file", wire::any(&file_v3::FileAccessLog { path, access_log_format }))
        }
    }
}

/// Builds the formatter extensions that Envoy requires for the commands in `formats`. `%METADATA%` is built into Envoy,
/// which logs a warning if a configuration names its formatter.
fn formatters<'a>(formats: impl IntoIterator<Item = &'a str>) -> Vec<core_v3::TypedExtensionConfig> {
    let used = formats.into_iter().any(|format| format.contains("%REQ_WITHOUT_QUERY("));
    let formatter = core_v3::TypedExtensionConfig {
        name: "envoy.formatter.req_without_query".to_owned(),
        typed_config: Some(wire::any(&req_without_query_v3::ReqWithoutQuery {})),
    };
    used.then_some(formatter).into_iter().collect()
}

/// Builds the filter of the logged requests: requests with at least this status, or with a response flag, which
/// indicates an error. Source: Contour, `accessLogLevel`.
fn filter(level: AccessLogLevel) -> Option<accesslog_v3::AccessLogFilter> {
    use accesslog_v3::access_log_filter::FilterSpecifier;
    use accesslog_v3::{AccessLogFilter, ComparisonFilter, OrFilter, ResponseFlagFilter, StatusCodeFilter};
    let from = match level {
        AccessLogLevel::Info => return None,
        AccessLogLevel::Error => 300,
        AccessLogLevel::Critical => 500,
    };
    let comparison = ComparisonFilter {
        op: accesslog_v3::comparison_filter::Op::Ge as i32,
        // Envoy requires a name: a runtime flag that is never set.
        value: Some(core_v3::RuntimeUInt32 {
            default_value: from,
            runtime_key: "lockgate.access_log_level".to_owned(),
        }),
    };
    let filter = |specifier| AccessLogFilter { filter_specifier: Some(specifier) };
    Some(filter(FilterSpecifier::OrFilter(OrFilter {
        filters: vec![
            filter(FilterSpecifier::StatusCodeFilter(StatusCodeFilter { comparison: Some(comparison) })),
            filter(FilterSpecifier::ResponseFlagFilter(ResponseFlagFilter::default())),
        ],
    })))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::names;

    #[test]
    fn both_formats_name_the_object_of_the_route() {
        let default = AccessLog::default();
        for field in ["kind", "namespace", "name"] {
            let command = format!("%METADATA(ROUTE:{}:{field})%", names::METADATA);
            assert!(default.json_fields.iter().any(|field| field.format == command));
        }
        assert!(default.text.ends_with(" %ROUTE_NAME%\n"));
    }

    #[test]
    fn off_disables_the_log() {
        let with = |format| access_log(&AccessLog { format, ..AccessLog::default() }, STDOUT);
        assert!(with(AccessLogFormat::Off).is_empty());
        assert_eq!(with(AccessLogFormat::Json).len(), 1);
    }

    #[test]
    fn standard_streams_have_separate_extensions() {
        let name = |file: &str| access_log(&AccessLog::default(), file).remove(0).name;
        assert_eq!(name("/dev/stdout"), "envoy.access_loggers.stdout");
        assert_eq!(name("/dev/stderr"), "envoy.access_loggers.stderr");
        assert_eq!(name("/var/log/envoy/http.log"), "envoy.access_loggers.file");
    }

    #[test]
    fn a_formatter_is_configured_only_if_it_is_used() {
        let with = |text: &str| formatters([text]).len();
        assert_eq!(with("%REQ_WITHOUT_QUERY(:PATH)%"), 1);
        assert_eq!(with("%REQ(:PATH)% %METADATA(ROUTE:dev.lockgate:kind)%"), 0);
    }

    #[test]
    fn the_lowest_level_logs_all_requests() {
        assert!(filter(AccessLogLevel::Info).is_none());
        assert!(filter(AccessLogLevel::Error).is_some() && filter(AccessLogLevel::Critical).is_some());
    }
}
