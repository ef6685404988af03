//! The labels of the statistics of single objects (`statistics.maxObjects` in the settings).
//!
//! Envoy names such a statistic `vhost.VIRTUAL_HOST.route.KIND/NAMESPACE/NAME.STATISTIC`. The virtual host is a host, in
//! plain HTTP with the listener before it: `http/shop.example.com`. A host and the name of an object can contain dots and
//! words such as `route`, but no slash, so the last two slashes separate the parts. STATISTIC contains no dot. A tenant
//! therefore cannot imitate the labels of another tenant.

use envoy_types::pb::envoy::config::metrics::v3 as metrics_v3;
use metrics_v3::tag_specifier::TagValue;

/// Each label with its expression. Envoy removes the first group from the name, and the second group is the value. All
/// expressions begin with the same word, so Envoy tries them only on the statistics of virtual hosts.
const LABELS: [(&str, &str); 5] = [
    ("lockgate_listener", r"^vhost\.((.+)/)[^/]+\.route\.[A-Za-z]+/[^/]+/[^/]+$"),
    ("lockgate_host", r"^vhost\.((?:.+/)?([^/]+)\.)route\.[A-Za-z]+/[^/]+/[^/]+$"),
    ("lockgate_kind", r"^vhost\..+\.route\.(([A-Za-z]+)/)[^/]+/[^/]+$"),
    ("lockgate_namespace", r"^vhost\..+\.route\.[A-Za-z]+/(([^/]+)/)[^/]+$"),
    ("lockgate_name", r"^vhost\..+\.route\.[A-Za-z]+/[^/]+/(([^/]+)\.)[^./]+$"),
];

/// Returns the configuration of statistics with these labels, in addition to Envoy's own.
pub fn config() -> metrics_v3::StatsConfig {
    let label = |(name, regex): (&str, &str)| metrics_v3::TagSpecifier {
        tag_name: name.to_owned(),
        tag_value: Some(TagValue::Regex(regex.to_owned())),
    };
    metrics_v3::StatsConfig { stats_tags: LABELS.map(label).to_vec(), ..Default::default() }
}
