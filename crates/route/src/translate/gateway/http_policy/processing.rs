//! The server of external processing of an HTTPPolicy.

use std::sync::Arc;
use std::time::Duration;

use super::authorization::buffered;
use super::backend;
use crate::duration;
use crate::model::{Processed, ProcessedBody, Processing, UpstreamProtocol};
use crate::objects::gateway::{BodyMode, ExternalProcessingSpec, HeaderMode, ProcessedSpec};
use crate::translate::dialect::Resolver;
use crate::translate::gateway::backend::Called;

/// The field below the feature, and a message.
type Fault = (String, String);

/// The time limit of an answer without a limit of the policy, as for authorization servers.
const DEFAULT: Duration = Duration::from_secs(1);
/// The longest time limit of an answer.
const LONGEST: Duration = Duration::from_secs(60);

/// Parses the server.
pub fn parse(
    spec: &ExternalProcessingSpec,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<Arc<Processing>, Fault> {
    let ExternalProcessingSpec { backend_ref, request, response, timeout, fail_open } = spec;
    let timeout = match timeout {
        None => DEFAULT,
        Some(text) => {
            let limit = duration::parse(text).filter(|limit| (Duration::from_millis(1)..=LONGEST).contains(limit));
            let message = || format!("{text:?} is not a time from 1ms to 1m, such as 500ms");
            limit.ok_or_else(|| (".timeout".to_owned(), message()))?
        }
    };
    let default = ProcessedSpec::default();
    let (request, response) = (request.as_ref().unwrap_or(&default), response.as_ref().unwrap_or(&default));
    if response.max_bytes.is_some() {
        return Err((".response.maxBytes".to_owned(), "the size of responses has the limit of connections".to_owned()));
    }
    let limit = match (request.body, &request.max_bytes) {
        (BodyMode::Buffered, Some(text)) => {
            Some(buffered(text, resolver).map_err(|message| (".request.maxBytes".to_owned(), message))?)
        }
        (BodyMode::Buffered, None) => {
            return Err((".request.maxBytes".to_owned(), "a buffered body needs a maximum size".to_owned()));
        }
        (BodyMode::None | BodyMode::Streamed, Some(_)) => {
            return Err((".request.maxBytes".to_owned(), "only a buffered body has a maximum size".to_owned()));
        }
        (BodyMode::None | BodyMode::Streamed, None) => None,
    };
    let request = processed(request, HeaderMode::Send, limit);
    let response = processed(response, HeaderMode::Skip, None);
    if request.is_nothing() && response.is_nothing() {
        return Err((".request".to_owned(), "the server receives no part of requests and responses".to_owned()));
    }
    let Called { cluster, .. } = backend(backend_ref, Some(UpstreamProtocol::H2c), namespace, resolver)?;
    Ok(Arc::new(Processing { cluster, request, response, timeout, fail_open: *fail_open }))
}

fn processed(spec: &ProcessedSpec, default: HeaderMode, limit: Option<u32>) -> Processed {
    let ProcessedSpec { headers, body, max_bytes: _ } = spec;
    let body = match body {
        BodyMode::None => ProcessedBody::None,
        BodyMode::Buffered => ProcessedBody::Buffered(limit),
        BodyMode::Streamed => ProcessedBody::Streamed,
    };
    Processed { headers: headers.unwrap_or(default) == HeaderMode::Send, body }
}
