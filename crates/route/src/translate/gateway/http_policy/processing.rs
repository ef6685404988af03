//! The server of external processing of an HTTPPolicy.

use std::sync::Arc;
use std::time::Duration;

use super::limits::buffered_part;
use super::references::backend;
use crate::duration;
use crate::model::{Processed, ProcessedBody, Processing, UpstreamProtocol};
use crate::objects::gateway::{BodyMode, ExternalProcessingSpec, HeaderMode, ProcessedSpec};
use crate::translate::dialect::Resolver;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::backend::Called;

/// The time limit of an answer without a limit of the policy, as for authorization servers.
const DEFAULT: Duration = Duration::from_secs(1);
/// The longest time limit of an answer.
const LONGEST: Duration = Duration::from_secs(60);

/// Parses the server.
pub fn parse(
    spec: &ExternalProcessingSpec,
    namespace: &Arc<str>,
    resolver: &mut Resolver,
) -> Result<Arc<Processing>, FieldFault> {
    let ExternalProcessingSpec { backend_ref, request, response, timeout, fail_open } = spec;
    let timeout = match timeout {
        None => DEFAULT,
        Some(text) => {
            let limit = duration::parse(text).filter(|limit| (Duration::from_millis(1)..=LONGEST).contains(limit));
            let message = || format!("{text:?} is not a time from 1ms to 1m, such as 500ms");
            limit.ok_or_else(|| FieldFault::new(".timeout", message()))?
        }
    };
    let default = ProcessedSpec::default();
    let (request, response) = (request.as_ref().unwrap_or(&default), response.as_ref().unwrap_or(&default));
    if response.max_bytes.is_some() {
        return Err(FieldFault::new(".response.maxBytes", "the size of responses has the limit of connections"));
    }
    let limit = match (request.body, &request.max_bytes) {
        (BodyMode::Buffered, Some(text)) => {
            Some(buffered_part(text, resolver).map_err(|message| FieldFault::new(".request.maxBytes", message))?)
        }
        (BodyMode::Buffered, None) => {
            return Err(FieldFault::new(".request.maxBytes", "a buffered body needs a maximum size"));
        }
        (BodyMode::None | BodyMode::Streamed, Some(_)) => {
            return Err(FieldFault::new(".request.maxBytes", "only a buffered body has a maximum size"));
        }
        (BodyMode::None | BodyMode::Streamed, None) => None,
    };
    let request = processed(request, HeaderMode::Send, limit);
    let response = processed(response, HeaderMode::Skip, None);
    if request.is_nothing() && response.is_nothing() {
        return Err(FieldFault::new(".request", "the server receives no part of requests and responses"));
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
