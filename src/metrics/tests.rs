//! Tests of the metrics.

#![allow(clippy::unwrap_used, clippy::panic)]

use super::*;

#[track_caller]
fn assert_has(text: &str, lines: &[&str]) {
    for line in lines {
        assert!(text.lines().any(|written| written == *line), "{line} is not in\n{text}");
    }
}

/// Metrics with a series of each.
fn sample() -> Metrics {
    let metrics = Metrics::new("abc1234");
    metrics.set_objects("Ingress", 3);
    metrics.set_listed("Ingress", true);
    metrics.list_taken("Ingress");
    metrics.problems_found("Conflicted", 2);
    metrics.set_namespace_problems([("shop".into(), "Conflicted", 2)]);
    metrics.set_certificate_expiries([("shop".into(), "tls".into(), 1_900_000_000)]);
    metrics.source_fault();
    metrics.set_source_faulty(1);
    metrics.set_source_success("Ingress", UNIX_EPOCH + Duration::from_secs(17));
    metrics.translated(Duration::from_millis(1));
    metrics.set_resources("Cluster", 5);
    metrics.set_statistics(3, 1);
    metrics.set_configurations(vec![("shop".into(), 6 << 20)], 8 << 20);
    metrics.published();
    metrics.stream_refused();
    metrics.connection_refused("name");
    metrics.pushed("Cluster", 5, 1_200);
    metrics.acked("Cluster", Duration::from_millis(3));
    metrics.nacked("Listener");
    metrics.gate_timed_out("RouteConfiguration");
    metrics.set_leader(true);
    metrics.set_certificate_expiry("server", UNIX_EPOCH + Duration::from_secs(1_800_000_000));
    metrics.certificate_reloaded(true);
    metrics.certificate_reloaded(false);
    metrics.status_written("Ingress", "written");
    metrics.set_status_pending("Event", 2);
    metrics.events_dropped(3);
    metrics.settings_read(true);
    metrics.stream_opened("delta");
    metrics.set_rejected("Cluster", 1);
    metrics
}

/// The names of the labels of the first series of the metric `name`, without the bounds of a histogram.
fn labels(text: &str, name: &str) -> Vec<String> {
    let series = text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let rest = line.strip_prefix(name)?;
        let (suffix, labels) = rest.split_once('{').unwrap_or((rest, ""));
        let is_name = ["", "_total", "_info", "_bucket"].contains(&suffix.split(' ').next().unwrap_or_default());
        is_name.then(|| labels.split_once('}').map_or("", |(labels, _)| labels).to_owned())
    });
    let series = series.unwrap_or_else(|| panic!("no series of {name}"));
    let names = series.split(',').filter_map(|label| label.split_once('=')).map(|(name, _)| name.to_owned());
    names.filter(|name| name != "le").collect()
}

#[test]
fn the_reference_of_metrics_is_up_to_date() {
    let text = sample().encode();
    let mut page = String::from(
        "# Metrics\n\nThis page is written by `make docs` from the code.\n\n\
         The controller serves these metrics at port 18001, `/metrics`. Label values come from closed sets, except for `namespace` and `name`, whose series have the limits below: no object and no client can \
         add more series. [Operate](../operate.md#metrics) describes scraping, TLS, alerts, and the metrics of Envoy.\n\n\
         | metric | type | labels | meaning |\n| --- | --- | --- | --- |\n",
    );
    for help in text.lines().filter_map(|line| line.strip_prefix("# HELP ")) {
        let (name, meaning) = help.split_once(' ').unwrap();
        let kind = text.lines().find_map(|line| line.strip_prefix(&format!("# TYPE {name} "))).unwrap();
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        let labels: Vec<String> = labels(&text, name).iter().map(|label| format!("`{label}`")).collect();
        let meaning = meaning.trim_end_matches('.');
        page.push_str(&format!("| `{name}{suffix}` | {kind} | {} | {meaning} |\n", labels.join(", ")));
    }
    crate::tidy::generated::assert_page("metrics.md", &page);
}

#[test]
fn every_metric_has_its_name_and_unit() {
    let metrics = sample();
    assert_has(
        &metrics.encode(),
        &[
            concat!("lockgate_build_info{version=\"", env!("CARGO_PKG_VERSION"), "\",commit=\"abc1234\"} 1"),
            "lockgate_objects{kind=\"Ingress\"} 3",
            "lockgate_source_listed{kind=\"Ingress\"} 1",
            "lockgate_source_lists_total{kind=\"Ingress\"} 1",
            "lockgate_source_faulty 1",
            "lockgate_source_last_success_timestamp_seconds{kind=\"Ingress\"} 17",
            "lockgate_source_faults_total 1",
            "lockgate_problems{reason=\"Conflicted\"} 2",
            "lockgate_namespace_problems{namespace=\"shop\",reason=\"Conflicted\"} 2",
            "lockgate_certificate_expiry_timestamp_seconds{namespace=\"shop\",name=\"tls\"} 1900000000",
            "lockgate_translation_seconds_count 1",
            "lockgate_resources{type=\"Cluster\"} 5",
            "lockgate_namespace_configuration_bytes{namespace=\"shop\"} 6291456",
            "lockgate_namespace_configuration_ratio{namespace=\"shop\"} 0.75",
            "lockgate_publications_total 1",
            "lockgate_xds_streams_refused_total 1",
            "lockgate_xds_connections_refused_total{reason=\"name\"} 1",
            "lockgate_xds_responses_total{type=\"Cluster\"} 1",
            "lockgate_xds_pushed_resources_total{type=\"Cluster\"} 5",
            "lockgate_xds_pushed_bytes_total{type=\"Cluster\"} 1200",
            "lockgate_xds_acks_total{type=\"Cluster\"} 1",
            "lockgate_xds_push_to_ack_seconds_bucket{le=\"0.004\",type=\"Cluster\"} 1",
            "lockgate_xds_nacks_total{type=\"Listener\"} 1",
            "lockgate_xds_gate_timeouts_total{type=\"RouteConfiguration\"} 1",
            "lockgate_leader 1",
            "lockgate_xds_certificate_expiry_timestamp_seconds{certificate=\"server\"} 1800000000",
            "lockgate_xds_certificate_reloads_total 1",
            "lockgate_xds_certificate_reload_failures_total 1",
            "lockgate_status_writes_total{kind=\"Ingress\",outcome=\"written\"} 1",
            "lockgate_status_pending{kind=\"Event\"} 2",
            "lockgate_events_dropped_total 3",
            "# EOF",
        ],
    );
}

/// The alerts use `increase`, which needs a value before the first event.
#[test]
fn counters_of_events_are_zero_before_the_first_event() {
    let metrics = Metrics::default();
    metrics.set_resources("Cluster", 5);
    let zero = ["nacks_total", "gate_timeouts_total", "rejected_resources"];
    let lines = zero.map(|name| format!("lockgate_xds_{name}{{type=\"Cluster\"}} 0"));
    assert_has(&metrics.encode(), &lines.each_ref().map(|line| &**line));
}

#[test]
fn a_resolved_problem_is_no_longer_counted() {
    let metrics = Metrics::default();
    ["Conflicted", "Conflicted", "HostNotValid"].into_iter().for_each(|reason| metrics.problems_found(reason, 1));
    assert_has(&metrics.encode(), &["lockgate_problems{reason=\"Conflicted\"} 2"]);
    ["Conflicted"; 2].into_iter().for_each(|reason| metrics.problems_healed(reason, 1));
    let text = metrics.encode();
    assert_has(&text, &["lockgate_problems{reason=\"HostNotValid\"} 1"]);
    assert!(!text.contains("Conflicted"), "{text}");
}

#[test]
fn a_stream_counts_while_it_is_open() {
    let metrics = Metrics::default();
    metrics.stream_opened("delta");
    metrics.clone().stream_opened("delta");
    assert_has(&metrics.encode(), &["lockgate_xds_streams{variant=\"delta\"} 2"]);
    metrics.stream_closed("delta");
    metrics.stream_closed("delta");
    assert_has(&metrics.encode(), &["lockgate_xds_streams{variant=\"delta\"} 0"]);
}

#[test]
fn the_metrics_include_the_process() {
    let text = Metrics::default().encode();
    for name in [
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ] {
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
        assert!(value.is_some_and(|value| value >= 0.0), "{name} is not in\n{text}");
    }
}

#[test]
fn series_are_replaced_as_a_whole() {
    let metrics = Metrics::default();
    let series = || {
        let text = metrics.encode();
        let lines = text.lines().filter(|line| line.starts_with("lockgate_certificate_expiry_timestamp_seconds{"));
        let mut lines: Vec<String> = lines.map(str::to_owned).collect();
        lines.sort();
        lines
    };
    let named = |name: &str, expiry: i64| ("shop".into(), name.into(), expiry);
    let line = |name: &str, expiry: i64| {
        format!("lockgate_certificate_expiry_timestamp_seconds{{namespace=\"shop\",name=\"{name}\"}} {expiry}")
    };
    metrics.set_certificate_expiries([named("a", 1), named("b", 2)]);
    assert_eq!(series(), [line("a", 1), line("b", 2)]);
    metrics.set_certificate_expiries([named("b", 3), named("c", 4)]);
    assert_eq!(series(), [line("b", 3), line("c", 4)]);
    metrics.set_certificate_expiries([]);
    assert!(series().is_empty());
}
