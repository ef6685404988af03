//! Echo backends: the echo server of the Gateway API conformance suite.

use serde_json::Value;

use crate::client::Answer;

/// A Deployment of echo servers and its Service.
pub struct Echo<'a> {
    name: &'a str,
    replicas: u32,
    port: u16,
    extra: &'a str,
}

/// Creates one echo server and a Service of this name, with port 8080 named `http`.
pub fn echo(name: &str) -> Echo<'_> {
    Echo { name, replicas: 1, port: 8080, extra: "" }
}

impl<'a> Echo<'a> {
    /// Sets the number of replicas.
    #[must_use]
    pub fn replicas(self, replicas: u32) -> Self {
        Self { replicas, ..self }
    }

    /// Sets the port of the Service.
    #[must_use]
    pub fn port(self, port: u16) -> Self {
        Self { port, ..self }
    }

    /// Adds fields of the container, as YAML in flow style: `lifecycle: {preStop: {sleep: {seconds: 5}}}`.
    #[must_use]
    pub fn container(self, extra: &'a str) -> Self {
        Self { extra, ..self }
    }

    /// Returns the objects.
    pub fn yaml(&self) -> String {
        let Self { name, replicas, port, extra } = self;
        let extra = if extra.is_empty() { String::new() } else { format!(", {extra}") };
        format!(
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {{ name: {name} }}\nspec:\n  replicas: {replicas}\n  \
             selector: {{ matchLabels: {{ app: {name} }} }}\n  template:\n    metadata: {{ labels: {{ app: {name} }} }}\n    \
             spec:\n      containers:\n        - {{ name: echo, image: echo-basic, readinessProbe: {{ httpGet: {{ path: /health, \
             port: 3000 }} }}, env: [{{ name: POD_NAME, valueFrom: {{ fieldRef: {{ fieldPath: metadata.name }} }} }}, \
             {{ name: NAMESPACE, valueFrom: {{ fieldRef: {{ fieldPath: metadata.namespace }} }} }}, \
             {{ name: SERVICE_NAME, value: {name} }}]{extra} }}\n\
             ---\napiVersion: v1\nkind: Service\nmetadata: {{ name: {name} }}\nspec:\n  selector: {{ app: {name} }}\n  \
             ports: [{{ name: http, port: {port}, targetPort: 3000 }}]\n---\n"
        )
    }
}

/// The answer of an echo server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Echoed {
    /// The namespace of the server.
    pub namespace: String,
    /// The Service of the server.
    pub service: String,
    /// The pod.
    pub pod: String,
    /// The method.
    pub method: String,
    /// Path and query.
    pub path: String,
    /// `HTTP/1.1`
    pub proto: String,
    /// The host.
    pub host: String,
    /// The header fields, by canonical name (`User-Agent`).
    pub headers: Value,
}

impl Echoed {
    /// Parses an answer, if an echo server has sent it.
    pub fn of(answer: &Answer) -> Option<Self> {
        let value: Value = serde_json::from_slice(&answer.body).ok()?;
        let text = |name: &str| value[name].as_str().unwrap_or_default().to_owned();
        value["pod"].is_string().then(|| Self {
            namespace: text("namespace"),
            service: text("service"),
            pod: text("pod"),
            method: text("method"),
            path: text("path"),
            proto: text("proto"),
            host: text("host"),
            headers: value["headers"].clone(),
        })
    }
}
