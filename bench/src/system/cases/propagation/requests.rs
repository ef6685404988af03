//! Requests over one persistent connection.

use anyhow::anyhow;
use e2e::Target;
use e2e::client::{Answer, Connection};
use http::Method;
use serde_json::Value;

/// The clients of a measurement.
pub(super) struct Clients {
    /// The API server.
    pub api: Client,
    /// The API server, for merge patches.
    pub patches: Client,
    /// The proxy.
    pub proxy: Client,
}

impl Clients {
    pub fn new(api: Target, proxy: Target) -> Self {
        let patches = Client::new(api.clone().field("content-type", "application/merge-patch+json"));
        Self { api: Client::new(api), patches, proxy: Client::new(proxy) }
    }
}

/// A client with one connection, which it opens again after its end.
pub(super) struct Client {
    target: Target,
    connection: Option<Connection>,
}

impl Client {
    pub fn new(target: Target) -> Self {
        Self { target, connection: None }
    }

    /// Sends a request. If the server has closed the connection meanwhile, it uses another one.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn send(&mut self, method: Method, host: Option<&str>, path: &str, body: &str) -> anyhow::Result<Answer> {
        if let Some(connection) = &mut self.connection
            && !connection.usable().await
        {
            self.connection = None;
        }
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.target.connect().await.map_err(|error| anyhow!("{error}"))?),
        };
        if let Some(host) = host {
            connection.request_host(host);
        }
        let answer = connection.send(method, path, body.to_owned().into()).await;
        if answer.is_err() {
            self.connection = None;
        }
        answer.map_err(|error| anyhow!("{path}: {error}"))
    }

    /// Sends a request of a host, and returns the status.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn status(&mut self, host: &str, path: &str) -> anyhow::Result<u16> {
        Ok(self.send(Method::GET, Some(host), path, "").await?.status)
    }

    /// Sends a request to the API server, and returns the object of the answer.
    ///
    /// # Errors
    /// The API server refuses.
    pub async fn object(&mut self, method: Method, path: &str, object: &Value) -> anyhow::Result<Value> {
        let body = if object.is_null() { String::new() } else { object.to_string() };
        let answer = self.send(method.clone(), None, path, &body).await?;
        anyhow::ensure!((200..300).contains(&answer.status), "{method} {path}: {} {}", answer.status, answer.text());
        Ok(serde_json::from_slice(&answer.body)?)
    }
}
