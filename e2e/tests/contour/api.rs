//! Requests to the API server over one connection at a time.

use bytes::Bytes;
use e2e::Target;
use e2e::client::{Answer, Connection};
use hyper::Method;
use serde_json::Value;

/// A connection to the API server, which is opened again when the API server has closed it.
pub struct Api {
    target: Target,
    connection: Option<Connection>,
}

impl Api {
    /// Returns a client without a connection.
    pub fn new(target: Target) -> Self {
        Self { target, connection: None }
    }

    /// Sends a request.
    ///
    /// # Panics
    /// If there is no answer.
    pub async fn send(&mut self, method: Method, path: &str, body: impl Into<Bytes>) -> Answer {
        let body = body.into();
        loop {
            let mut connection = match self.connection.take() {
                Some(connection) => connection,
                None => self.target.connect().await.expect("the API server"),
            };
            match connection.send(method.clone(), path, body.clone()).await {
                Ok(answer) => {
                    self.connection = Some(connection);
                    return answer;
                }
                Err(error) if error.is::<e2e::client::Unsent>() => {}
                Err(error) => panic!("{method} {path}: {error}"),
            }
        }
    }

    /// Creates an object.
    ///
    /// # Panics
    /// If the API server refuses it.
    pub async fn create(&mut self, path: &str, object: &Value) {
        let answer = self.send(Method::POST, path, object.to_string()).await;
        assert_eq!(answer.status, 201, "{path}: {object}: {}", answer.text());
    }
}
