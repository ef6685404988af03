//! The settings that depend on several keys of Contour, or on a key with several effects.

use serde_json::{Value, json};

use super::configuration::Configuration;
use super::convert::{flag, text};
use super::defaults::JSON_FIELDS;
use super::draft::Draft;
use super::row::{ReportRow, Verdict};

/// Sets all of them.
pub fn set(configuration: &Configuration, draft: &mut Draft) {
    external_names(configuration, draft);
    access_log(configuration, draft);
    certificates(configuration, draft);
    controller_metrics(configuration, draft);
    envoy_metrics(configuration, draft);
    header_policy(configuration, draft);
    gateway(configuration, draft);
}

/// Creates a row about a key with the same effect.
fn same(configuration: &Configuration, path: &str, message: &str) -> ReportRow {
    configuration.row(path, Verdict::Same, message, "")
}

/// Returns the text of a key, if it is set and not empty.
fn given(configuration: &Configuration, file: &str, object: &str) -> Option<(&'static str, String)> {
    let (path, value) = configuration.part(file, object)?;
    text(value).ok().filter(|text| !text.is_empty()).map(|text| (path, text))
}

fn external_names(configuration: &Configuration, draft: &mut Draft) {
    let Some((path, value)) = configuration.part("enableExternalNameService", "enableExternalNameService") else {
        return;
    };
    match flag(value) {
        Ok(allowed) => {
            draft.set("externalNames.allow", json!(allowed), "", same(configuration, path, ""));
            if allowed {
                let comment = "Contour allows names within the cluster, which bypass the isolation of namespaces.";
                draft.set("externalNames.clusterLocal", json!(true), comment, same(configuration, path, ""));
            }
        }
        Err(why) => draft.report(invalid(configuration, path, &why)),
    }
}

/// Creates a row about a value that is not valid.
pub fn invalid(configuration: &Configuration, path: &str, why: &str) -> ReportRow {
    let remedy = "Correct the value, or set its counterpart by hand (docs/settings.md).";
    configuration.row(path, Verdict::Attention, format!("the value is left out: {why}"), remedy)
}

fn access_log(configuration: &Configuration, draft: &mut Draft) {
    let fields = "accessLog.jsonFields";
    let format = given(configuration, "accesslog-format", "envoy.logging.accessLogFormat");
    match format.as_ref().map(|(path, format)| (*path, format.as_str())) {
        Some((path, "json")) => {
            draft.set("accessLog.format", json!("json"), "", same(configuration, path, ""));
            if !draft.has(fields) {
                draft.set(fields, json!(JSON_FIELDS), "The fields of Contour.", same(configuration, path, ""));
            }
        }
        Some((path, "envoy")) => draft.set("accessLog.format", json!("text"), "", same(configuration, path, "")),
        Some((path, other)) => {
            draft.report(invalid(configuration, path, &format!("{other:?} is not one of envoy, json")));
        }
        None => {}
    }
    let level = given(configuration, "accesslog-level", "envoy.logging.accessLogLevel");
    match level.as_ref().map(|(path, level)| (*path, level.as_str())) {
        Some((path, "disabled")) => {
            draft.set("accessLog.format", json!("off"), "", same(configuration, path, ""));
        }
        Some((path, level @ ("info" | "error" | "critical"))) => {
            draft.set("accessLog.level", json!(level), "", same(configuration, path, ""));
        }
        Some((path, other)) => {
            let why = format!("{other:?} is not one of info, error, critical, disabled");
            draft.report(invalid(configuration, path, &why));
        }
        None => {}
    }
}

/// Returns the Secret that two keys name, with the path of its name.
fn secret(configuration: &Configuration, file: &str, object: &str) -> Option<(&'static str, Result<String, String>)> {
    let of = |part: &str| given(configuration, &format!("{file}.{part}"), &format!("{object}.{part}"));
    match (of("namespace"), of("name")) {
        (Some((_, namespace)), Some((path, name))) => Some((path, Ok(format!("{namespace}/{name}")))),
        (Some((path, _)), None) => Some((path, Err("the Secret has no name".to_owned()))),
        (None, Some((path, _))) => Some((path, Err("the Secret has no namespace".to_owned()))),
        (None, None) => None,
    }
}

fn certificates(configuration: &Configuration, draft: &mut Draft) {
    for (file, object) in [
        ("tls.fallback-certificate.namespace", "httpproxy.fallbackCertificate.namespace"),
        ("tls.envoy-client-certificate.namespace", "envoy.clientCertificate.namespace"),
    ] {
        if let Some((path, _)) = given(configuration, file, object) {
            draft.report(same(configuration, path, "the namespace of the Secret, whose name has a row of its own"));
        }
    }
    match secret(configuration, "tls.fallback-certificate", "httpproxy.fallbackCertificate") {
        Some((path, Ok(secret))) => {
            draft.set("tls.fallbackSecret", json!(secret), "", same(configuration, path, ""));
        }
        Some((path, Err(why))) => draft.report(invalid(configuration, path, &why)),
        None => {}
    }
    match secret(configuration, "tls.envoy-client-certificate", "envoy.clientCertificate") {
        Some((path, Ok(secret))) => {
            draft.set("upstream.clientCertificate", json!(secret), "", same(configuration, path, ""));
        }
        Some((path, Err(why))) => draft.report(invalid(configuration, path, &why)),
        None => {}
    }
}

/// Sets the address of the controller's health checks, and the address of its metrics.
fn controller_metrics(configuration: &Configuration, draft: &mut Draft) {
    const PORT: &str = "8000";
    let part = |of: &str| given(configuration, &format!("metrics.contour.{of}"), &format!("metrics.{of}"));
    let health = [given(configuration, "", "health.address"), given(configuration, "", "health.port")];
    let metrics = [part("address"), part("port")];
    let socket = |given: &[Option<(&str, String)>; 2]| {
        let [address, port] = given.each_ref().map(|one| one.as_ref().map(|(_, text)| text.as_str()));
        let address = address.unwrap_or("0.0.0.0");
        let address = if address.contains(':') { format!("[{address}]") } else { address.to_owned() };
        format!("{address}:{}", port.unwrap_or(PORT))
    };
    for (path, _) in health.iter().flatten() {
        draft.set("admin.address", json!(socket(&health)), "Health checks.", same(configuration, path, ""));
    }
    for (path, _) in metrics.iter().flatten() {
        match configuration.is_object() && socket(&health) == socket(&metrics) {
            true if health.iter().flatten().next().is_some() => {
                draft.report(same(configuration, path, "admin.address answers /metrics, too"));
            }
            _ => draft.set("metrics.address", json!(socket(&metrics)), "", same(configuration, path, "")),
        }
    }
    let file = |file: &str, object: &str| {
        given(configuration, &format!("metrics.contour.{file}"), &format!("metrics.tls.{object}"))
    };
    let files = [
        (file("server-certificate-path", "certFile"), "tls.crt"),
        (file("server-key-path", "keyFile"), "tls.key"),
        (file("ca-certificate-path", "caFile"), "ca.crt"),
    ];
    let directories: Vec<&str> =
        files.iter().filter_map(|(file, name)| file.as_ref()?.1.strip_suffix(name)?.strip_suffix('/')).collect();
    let first = directories.first().copied();
    let are_named = directories.len() == files.iter().filter(|(file, _)| file.is_some()).count()
        && directories.iter().all(|directory| Some(*directory) == first);
    for (path, file) in files.iter().filter_map(|(file, _)| file.as_ref()) {
        match (first, are_named && draft.has("metrics.address")) {
            (Some(directory), true) => {
                let comment = "Mount the Secret there.";
                draft.set("metrics.tls", json!(directory), comment, same(configuration, path, ""));
            }
            _ => {
                let message =
                    format!("{file:?} is not used: metrics.tls is a directory with tls.crt, tls.key, and ca.crt");
                let remedy = "Mount the Secret with these names, and set metrics.tls and metrics.address.";
                draft.report(configuration.row(path, Verdict::Attention, message, remedy));
            }
        }
    }
}

/// Sets the addresses of Envoy's statistics and health checks.
fn envoy_metrics(configuration: &Configuration, draft: &mut Draft) {
    let metrics = |of: &str| given(configuration, &format!("metrics.envoy.{of}"), &format!("envoy.metrics.{of}"));
    let health = |of: &str| given(configuration, "", &format!("envoy.health.{of}"));
    let file = |file: &str, object: &str| {
        given(configuration, &format!("metrics.envoy.{file}"), &format!("envoy.metrics.tls.{object}"))
    };
    let certificate = file("server-certificate-path", "certFile");
    let parts = [
        ("address", "listeners.stats.address", "listeners.readiness.address"),
        ("port", "listeners.stats.port", "listeners.readiness.port"),
    ];
    for (part, stats, _) in parts {
        let Some((path, value)) = metrics(part) else { continue };
        if certificate.is_some() {
            let message = format!("{value} is not written, because the port needs a Secret for TLS");
            let remedy = format!("Set {} with the Secret.", stats.replace("stats.", "stats.tls."));
            draft.report(configuration.row(path, Verdict::Attention, message, &remedy));
            continue;
        }
        draft.set(stats, json!(value), "", same(configuration, path, ""));
    }
    let files = [
        (certificate.clone(), "secret"),
        (file("server-key-path", "keyFile"), "secret"),
        (file("ca-certificate-path", "caFile"), "clientCa"),
    ];
    for ((path, file), key) in files.into_iter().filter_map(|(file, key)| Some((file?, key))) {
        let message =
            format!("{file:?} is a file of Contour's Envoy pods; without TLS, every client can read the statistics");
        let remedy = format!(
            "Set listeners.stats.tls.{key} to the Secret that is mounted there, and listeners.stats.tls.port to a port."
        );
        draft.report(configuration.row(path, Verdict::Attention, message, &remedy));
    }
    let or = |given: Option<(&str, String)>, default: &str| given.map_or(default.to_owned(), |(_, text)| text);
    let is_shared = certificate.is_none()
        && parts.iter().all(|(part, ..)| {
            let default = if *part == "port" { "8002" } else { "0.0.0.0" };
            or(health(part), default) == or(metrics(part), default)
        });
    for (part, _, readiness) in parts {
        let Some((path, value)) = health(part) else { continue };
        match is_shared {
            true => draft.report(same(configuration, path, "listeners.stats answers /ready, too")),
            false => draft.set(readiness, json!(value), "", same(configuration, path, "")),
        }
    }
}

/// Sets whether the headers apply to Ingresses, and reports that they precede those of HTTPProxies.
fn header_policy(configuration: &Configuration, draft: &mut Draft) {
    let has_policy =
        ["headers.request.set", "headers.request.remove", "headers.response.set", "headers.response.remove"]
            .iter()
            .any(|path| draft.has(path));
    let given = configuration.part("policy.applyToIngress", "policy.applyToIngress");
    let applies = given.is_some_and(|(_, value)| value == &Value::Bool(true));
    if !has_policy {
        if let Some((path, _)) = given {
            draft.report(same(configuration, path, "no effect without headers"));
        }
        return;
    }
    let row = same(configuration, "policy.applyToIngress", "");
    match applies {
        true => draft.set("headers.ingresses", json!(true), "", row),
        false => draft.set("headers.ingresses", json!(false), "Contour leaves Ingresses alone.", row),
    }
    let message =
        "the settings below headers replace a header that an HTTPProxy sets; with Contour, the HTTPProxy precedes";
    let remedy = "Compare the headers with those of your objects; remove a setting, and write the header into the objects \
                  that need it.";
    draft.report(configuration.row("policy", Verdict::Attention, message, remedy));
}

fn gateway(configuration: &Configuration, draft: &mut Draft) {
    let keys = [
        ("gateway.gatewayRef.name", "gateway.gatewayRef.name"),
        ("gateway.gatewayRef.namespace", "gateway.gatewayRef.namespace"),
        ("gateway.name", ""),
        ("gateway.namespace", ""),
    ];
    for (path, _) in keys.iter().filter_map(|(file, object)| configuration.part(file, object)) {
        let message = "Lockgate serves all Gateways of its GatewayClasses, and no single Gateway by name";
        let remedy = "Set spec.gatewayClassName of the Gateway to a GatewayClass of Lockgate (docs/gateway-api.md).";
        draft.report(configuration.row(path, Verdict::Attention, message, remedy));
    }
}
