//! External processing: a server that changes requests and responses.

use std::time::Duration;

use super::ClusterId;

/// A server that changes the requests and responses of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Processing {
    /// The server.
    pub cluster: ClusterId,
    /// The parts of requests that it receives.
    pub request: Processed,
    /// The parts of responses that it receives.
    pub response: Processed,
    /// The time limit of each answer.
    pub timeout: Duration,
    /// Whether requests and responses pass unchanged if the server does not respond.
    pub fail_open: bool,
}

impl Processing {
    /// Returns whether Envoy holds bodies until they are complete.
    pub fn holds_bodies(&self) -> bool {
        let holds = |processed: Processed| matches!(processed.body, ProcessedBody::Buffered(_));
        holds(self.request) || holds(self.response)
    }
}

/// The parts of a message that a server receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processed {
    /// Whether it receives the headers.
    pub headers: bool,
    /// How it receives the body.
    pub body: ProcessedBody,
}

/// How a server receives a body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessedBody {
    /// Not at all.
    None,
    /// As a whole, when it is complete. The limit of a request in bytes; a response has the limit of its connection.
    Buffered(Option<u32>),
    /// Each chunk when it arrives.
    Streamed,
}

impl Processed {
    /// Returns whether the server receives nothing.
    pub fn is_nothing(&self) -> bool {
        !self.headers && self.body == ProcessedBody::None
    }

    /// Returns the parts of a message without an end: its body cannot be complete.
    #[must_use]
    pub fn without_end(self) -> Self {
        match self.body {
            ProcessedBody::Buffered(_) => Self { body: ProcessedBody::None, ..self },
            ProcessedBody::None | ProcessedBody::Streamed => self,
        }
    }

    /// Returns the maximum size of a body that Envoy holds until it is complete.
    pub fn held_bytes(&self) -> Option<u32> {
        match self.body {
            ProcessedBody::Buffered(bytes) => bytes,
            ProcessedBody::None | ProcessedBody::Streamed => None,
        }
    }
}
