//! The access log on Envoy's standard output.

use envoy_types::pb::envoy::config::accesslog::v3 as accesslog_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::access_loggers::stream::v3 as stream_v3;

use super::wire;
use crate::settings::{AccessLog, AccessLogFormat};

/// The access logs of a connection manager: one, or none.
///
/// `%METADATA%` is built into Envoy, which warns of a configuration that names its formatter.
pub fn access_log(settings: &AccessLog) -> Vec<accesslog_v3::AccessLog> {
    use core_v3::substitution_format_string::Format;
    let format = match settings.format {
        AccessLogFormat::Off => return vec![],
        AccessLogFormat::Text => Format::TextFormatSource(wire::inline_string(&settings.text)),
        AccessLogFormat::Json => {
            let fields = settings.json_fields.iter().map(|field| (&*field.name, &*field.format));
            Format::JsonFormat(wire::text_struct(fields))
        }
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
        let default = AccessLog::default();
        for field in ["kind", "namespace", "name"] {
            let command = format!("%METADATA(ROUTE:{}:{field})%", names::METADATA);
            assert!(default.text.contains(&command));
            assert!(default.json_fields.iter().any(|field| field.format == command));
        }
        assert!(default.text.ends_with('\n'));
    }

    #[test]
    fn off_is_no_log() {
        let with = |format| access_log(&AccessLog { format, ..AccessLog::default() });
        assert!(with(AccessLogFormat::Off).is_empty());
        assert_eq!(with(AccessLogFormat::Json).len(), 1);
    }
}
