//! The answers of an HTTPPolicy in the place of error responses.

use std::sync::Arc;

use crate::model::{ErrorResponse, HeaderValue};
use crate::objects::gateway::{ErrorResponseSpec, StatusesSpec};
use crate::translate::fault::FieldFault;
use crate::translate::statuses;

/// The maximum number of answers. Source: CustomResourceDefinition. Manifests are not validated against it.
const ANSWERS: usize = 16;
/// The maximum number of statuses and ranges of an answer.
const STATUSES: usize = 32;
/// The maximum length of a media type.
const TYPE: usize = 256;
/// The maximum length of a body, in bytes.
const BODY: usize = 4 << 10;
/// The maximum length of all bodies, in bytes. Each route of Envoy has a copy.
const BODIES: usize = 16 << 10;

/// The media type of an answer without `contentType`.
const DEFAULT_TYPE: &str = "text/plain; charset=utf-8";

/// Parses the answers. An answer that is not valid is left out, and its field and message are added to `faults`: no other answer, and no
/// access, depends on it.
pub fn parse(specs: &[ErrorResponseSpec], faults: &mut Vec<FieldFault>) -> Arc<[ErrorResponse]> {
    let mut answers = Vec::new();
    let mut bytes = 0;
    for (i, spec) in specs.iter().enumerate() {
        if i == ANSWERS {
            faults.push(FieldFault::new(format!("[{i}]"), format!("more than {ANSWERS} answers")));
            break;
        }
        let parsed = answer(spec).and_then(|answer| match bytes + answer.body.len() {
            more if more > BODIES => {
                Err(FieldFault::new(".body", format!("the bodies of all answers are longer than {BODIES} bytes")))
            }
            more => {
                bytes = more;
                Ok(answer)
            }
        });
        match parsed {
            Ok(answer) => answers.push(answer),
            Err(fault) => faults.push(fault.within(format_args!("[{i}]"))),
        }
    }
    answers.into()
}

fn answer(spec: &ErrorResponseSpec) -> Result<ErrorResponse, FieldFault> {
    let ErrorResponseSpec { statuses: named, status, content_type, body } = spec;
    if named.is_empty() || named.len() > STATUSES {
        return Err(FieldFault::new(".statuses", format!("the number of statuses is not between 1 and {STATUSES}")));
    }
    if let Some(status) = status.filter(|status| !ErrorResponse::STATUSES.contains(status)) {
        return Err(FieldFault::new(".status", format!("{status} is not a status from 400 to 599")));
    }
    let range = |(i, one): (usize, &StatusesSpec)| {
        let message = || format!("\"{one}\" is not a status from 400 to 599, or a range such as 500-599");
        statuses::range(&one.to_string(), ErrorResponse::STATUSES)
            .ok_or_else(|| FieldFault::new(format!(".statuses[{i}]"), message()))
    };
    let statuses = named.iter().enumerate().map(range).collect::<Result<_, _>>()?;
    let content_type = content_type.as_deref().unwrap_or(DEFAULT_TYPE);
    let parsed = HeaderValue::parse(content_type).filter(|_| (1..=TYPE).contains(&content_type.len()));
    let content_type = parsed.ok_or_else(|| {
        FieldFault::new(".contentType", format!("{content_type:?} is not a media type such as text/html"))
    })?;
    if body.len() > BODY {
        return Err(FieldFault::new(".body", format!("the body is longer than {BODY} bytes")));
    }
    Ok(ErrorResponse { statuses, status: *status, content_type, body: body.as_str().into() })
}
