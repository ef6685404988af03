//! The table of the annotations that Lockgate reads, in docs/annotations.md: its keys match the code, and each
//! example is valid. `make docs` rewrites the table.

use std::collections::BTreeSet;
use std::fs;

use lockgate_route::settings::Settings;

use super::{assert_none, root};
use crate::check::{Manifests, Scope, check};

struct Row {
    key: &'static str,
    on: &'static str,
    value: &'static str,
    default: &'static str,
    example: &'static str,
    effect: &'static str,
}

const fn row(
    key: &'static str,
    on: &'static str,
    value: &'static str,
    default: &'static str,
    example: &'static str,
    effect: &'static str,
) -> Row {
    Row { key, on, value, default, example, effect }
}

/// The files that name the annotations.
const SOURCES: [&str; 2] = ["crates/route/src/translate/annotations.rs", "crates/route/src/translate/class.rs"];
const PREFIXES: [&str; 5] = [
    "projectcontour.io/",
    "lockgate.dev/",
    "ingress.kubernetes.io/",
    "nginx.ingress.kubernetes.io/",
    "kubernetes.io/ingress.",
];

#[rustfmt::skip]
const ROWS: [Row; 26] = [
    row("ingress.kubernetes.io/force-ssl-redirect", "Ingress", "boolean", "`ingress.httpsRedirect`", "true", "`true`: redirects plain HTTP to HTTPS (`ingress.httpsRedirectStatus`, 308), also without a certificate; `false`: does not, regardless of `ingress.httpsRedirect` and of the annotations of ingress-nginx"),
    row("nginx.ingress.kubernetes.io/force-ssl-redirect", "Ingress", "boolean", "`false`", "true", "`true`: the same"),
    row("nginx.ingress.kubernetes.io/ssl-redirect", "Ingress", "boolean", "`ingress.httpsRedirect`", "false", "`false`: does not redirect plain HTTP to HTTPS; `true`: redirects hosts with a usable certificate"),
    row("kubernetes.io/ingress.allow-http", "Ingress", "boolean", "`true`", "false", "`false`: plain HTTP is answered 404"),
    row("kubernetes.io/ingress.class", "Ingress", "name of an ingress class", "", "lockgate", "the ingress class; it takes precedence over `spec.ingressClassName`"),
    row("projectcontour.io/ingress.class", "Ingress", "name of an ingress class", "", "lockgate", "the same; it takes precedence over `kubernetes.io/ingress.class`"),
    row("lockgate.dev/delegate-to", "Ingress", "namespaces, separated by commas", "none", "payments,search", "namespaces that may add paths to its hosts: [host ownership](security.md#host-ownership)"),
    row("projectcontour.io/num-retries", "Ingress", "count", "1", "3", "the maximum number of retries, with `retry-on`"),
    row("projectcontour.io/per-try-timeout", "Ingress", "duration", "none", "5s", "time limit of each try, with `retry-on`"),
    row("projectcontour.io/request-timeout", "Ingress", "duration", "`timeouts.response`", "30s", "the same as `response-timeout`"),
    row("projectcontour.io/response-timeout", "Ingress", "duration or `infinity`", "`timeouts.response`", "30s", "time limit of a response"),
    row("projectcontour.io/retry-on", "Ingress", "retry conditions of Envoy, separated by commas", "`retries.conditions`", "connect-failure,refused-stream", "retries, instead of the [setting](settings.md#retries); an empty value disables retries"),
    row("projectcontour.io/tls-cert-namespace", "Ingress", "namespace", "its own", "default", "Secrets of another namespace need a TLSCertificateDelegation there; otherwise they are not used, with the Event `ReferenceNotPermitted`"),
    row("projectcontour.io/tls-maximum-protocol-version", "Ingress", "`1.2` or `1.3`", "`tls.maximumVersion`", "1.3", "the highest TLS version; it can only lower the setting"),
    row("projectcontour.io/tls-minimum-protocol-version", "Ingress", "`1.2` or `1.3`", "`tls.minimumVersion`", "1.3", "the lowest TLS version; it can only raise the setting"),
    row("projectcontour.io/websocket-routes", "Ingress", "paths", "", "/chat", "accepted without effect: websockets work on all routes"),
    row("lockgate.dev/connect-timeout", "Service", "duration", "`timeouts.connect`", "500ms", "time limit of a connection attempt"),
    row("projectcontour.io/max-connections", "Service", "count", "`upstream.circuitBreakers.maxConnections`", "2000", "circuit breaker: the maximum number of connections"),
    row("projectcontour.io/max-pending-requests", "Service", "count", "`upstream.circuitBreakers.maxPendingRequests`", "500", "circuit breaker: the maximum number of requests that wait for a connection"),
    row("projectcontour.io/max-requests", "Service", "count", "`upstream.circuitBreakers.maxRequests`", "2000", "circuit breaker: the maximum number of active requests"),
    row("projectcontour.io/max-retries", "Service", "count", "`upstream.circuitBreakers.maxRetries`", "10", "circuit breaker: the maximum number of active retries"),
    row("projectcontour.io/per-host-max-connections", "Service", "count", "`upstream.circuitBreakers.perHostMaxConnections`", "100", "circuit breaker: the maximum number of connections to one endpoint"),
    row("projectcontour.io/upstream-protocol.h2", "Service", "names or numbers of ports, separated by commas", "", "web", "these ports speak HTTP/2 with TLS"),
    row("projectcontour.io/upstream-protocol.h2c", "Service", "names or numbers of ports, separated by commas", "", "web", "these ports speak HTTP/2 without TLS"),
    row("projectcontour.io/upstream-protocol.tls", "Service", "names or numbers of ports, separated by commas", "", "web", "these ports speak HTTP/1.1 with TLS"),
    row("ingressclass.kubernetes.io/is-default-class", "IngressClass", "boolean", "`false`", "true", "the class of Ingresses without a class"),
];

/// Returns the annotations that the code names.
fn keys() -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    for file in SOURCES {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        let literals = text.split('"').skip(1).step_by(2);
        let is_key = |text: &&str| PREFIXES.iter().any(|prefix| text.starts_with(prefix) && text.len() > prefix.len());
        keys.extend(literals.filter(is_key).filter(|text| !text.contains(' ')).map(str::to_owned));
    }
    keys
}

#[test]
fn every_annotation_of_the_code_has_a_row() {
    let rows: BTreeSet<String> = ROWS.iter().map(|row| row.key.to_owned()).collect();
    let keys = keys();
    let class = "ingressclass.kubernetes.io/is-default-class";
    let missing = keys.difference(&rows).map(|key| format!("{key} has no row"));
    let extra = rows.difference(&keys).filter(|key| *key != class).map(|key| format!("no code reads {key}"));
    assert_none(missing.chain(extra).collect());
}

#[test]
fn the_example_of_each_annotation_is_valid() {
    let faults = ROWS.iter().filter(|row| row.on != "IngressClass").filter_map(|Row { key, on, example, .. }| {
        // Other annotations of retries need this one.
        let also = if *key == "projectcontour.io/retry-on" { "" } else { ", projectcontour.io/retry-on: connect-failure" };
        let also = if *on == "Ingress" { also } else { "" };
        let annotation = |kind: &str| {
            if kind == *on { format!("{{ {key}: \"{example}\"{also} }}") } else { "{}".to_owned() }
        };
        let manifest = format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{ name: web, annotations: {} }}\nspec: {{ ports: [{{ name: web, port: 80 }}] }}\n\
             ---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: web, annotations: {} }}\nspec:\n  \
             ingressClassName: lockgate\n  defaultBackend: {{ service: {{ name: web, port: {{ number: 80 }} }} }}\n",
            annotation("Service"),
            annotation("Ingress"),
        );
        let mut manifests = Manifests::default();
        manifests.add("example.yaml", manifest);
        let findings = check(&manifests, &Settings::default(), &Scope::Part, 0);
        let fault = findings.iter().find(|finding| finding.rule.as_str() == "InvalidAnnotation");
        fault.map(|fault| format!("{key}: {example}: {}", fault.message))
    });
    assert_none(faults.collect());
}

#[test]
fn the_table_of_annotations_is_up_to_date() {
    let cell = |text: &str| if text.is_empty() { String::new() } else { format!("`{text}`") };
    let lines = ROWS.iter().map(|Row { key, on, value, default, example, effect }| {
        format!("| `{key}` | {on} | {value} | {default} | {} | {effect} |\n", cell(example))
    });
    let head = "| annotation | on | value | default | example | effect |\n| --- | --- | --- | --- | --- | --- |\n";
    let table = format!("{head}{}", lines.collect::<String>());
    let path = root().join("docs/annotations.md");
    let page = fs::read_to_string(&path).unwrap();
    let (start, end) = ("<!-- read -->\n", "<!-- end of read -->\n");
    let (before, rest) = page.split_once(start).unwrap();
    let (written, after) = rest.split_once(end).unwrap();
    if std::env::var_os("BLESS").is_some() {
        return fs::write(&path, format!("{before}{start}{table}{end}{after}")).unwrap();
    }
    assert!(written == table, "docs/annotations.md has another table: run `make docs`");
}
