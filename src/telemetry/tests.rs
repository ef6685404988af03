#![allow(clippy::unwrap_used)]

use std::io::Write;

use super::*;

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

fn logged(format: LogFormat, filter: &str, log: impl FnOnce(&LogControl)) -> String {
    let written = Written::default();
    let writer = written.clone();
    let (subscriber, control) = subscriber(format, filter, move || writer.clone(), false).unwrap();
    tracing::subscriber::with_default(subscriber, || log(&control));
    written.text()
}

/// Checks the format of a line's time, and returns the rest.
fn without_time(line: &str) -> &str {
    let (time, rest) = line.split_once(' ').unwrap();
    assert!(time.len() == 24 && time.ends_with('Z') && time.contains('T'), "{time}");
    rest
}

#[test]
fn a_text_line_has_time_level_message_and_fields() {
    let text = logged(LogFormat::Text, "info", |_| {
        tracing::info!(namespace = "shop", name = %"cart", n = 3, "published");
        tracing::debug!("not shown");
    });
    assert_eq!(without_time(&text), "INFO  published namespace=shop name=cart n=3\n");
}

#[test]
fn fields_of_spans_follow_those_of_the_event() {
    let text = logged(LogFormat::Text, "info", |_| {
        let stream = tracing::info_span!("stream", node_id = "envoy-1").entered();
        let kind = tracing::info_span!("type", type_url = "Cluster").entered();
        tracing::warn!(nonce = "7", "rejected");
        drop((kind, stream));
    });
    assert_eq!(without_time(&text), "WARN  rejected nonce=7 node_id=envoy-1 type_url=Cluster\n");
}

#[test]
fn text_of_tenants_stays_on_one_line() {
    let text = logged(LogFormat::Text, "info", |_| {
        tracing::info!(name = "a\nb c", empty = "", "path \"x\ny\x1b[31m\"");
    });
    assert_eq!(without_time(&text), "INFO  path \"x\\ny\\u{1b}[31m\" name=\"a\\nb c\" empty=\"\"\n");
}

#[test]
fn json_is_one_flat_object_a_line() {
    let text = logged(LogFormat::Json, "info", |_| tracing::info!(namespace = "shop", n = 3, "published"));
    let line: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(line["level"], "INFO");
    assert_eq!(line["message"], "published");
    assert_eq!(line["namespace"], "shop");
    assert_eq!(line["n"], 3);
    assert_eq!(line["timestamp"].as_str().unwrap().len(), 24);
    assert!(text.ends_with("}\n"));
}

#[test]
fn the_level_changes_while_running_and_a_bad_one_changes_nothing() {
    let text = logged(LogFormat::Text, "warn", |control| {
        tracing::info!("before");
        control.set("info,lockgate_xds=debug").unwrap();
        assert_eq!(control.current(), "info,lockgate_xds=debug");
        tracing::info!("after");
        control.set("debgu").unwrap_err();
        assert_eq!(control.current(), "info,lockgate_xds=debug");
        tracing::info!("still");
    });
    assert!(!text.contains("before") && text.contains("after") && text.contains("still"), "{text}");
}

#[test]
fn a_misspelt_level_is_an_error_and_not_a_target() {
    for filter in ["info", "off", "warn,lockgate=trace", " debug ", "lockgate[stream{node_id=\"a\"}]=debug"] {
        check_filter(filter).unwrap();
    }
    for filter in ["", "debgu", "lockgate", "info,lockgate=loud", "lockgate="] {
        let error = check_filter(filter).unwrap_err().to_string();
        assert!(error.contains("expected off, error, warn"), "{error}");
    }
}
