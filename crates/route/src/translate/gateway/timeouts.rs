//! Time limits and retries of HTTPRoutes.

use std::collections::BTreeSet;
use std::time::Duration;

use super::parser::Parser;
use crate::duration;
use crate::model::{OwnParts, Retry};
use crate::objects::gateway::HttpRouteRule;
use crate::translate::problem::Reason;

/// The conditions of a retry in addition to the statuses of the rule: no response was received.
pub const CONDITIONS: &str = "connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes";
/// The number of retries of a rule that sets no number.
pub const ATTEMPTS: u32 = 1;

/// Returns the time limit of a response, the retry policy of a rule, and which of them the rule sets. Source: Gateway API v1, `HTTPRouteTimeouts` and
/// `HTTPRouteRetry`.
pub fn parse(
    field: &str,
    rule: &HttpRouteRule,
    parser: &mut Parser,
) -> (Option<Duration>, Option<Box<Retry>>, OwnParts) {
    let settings = parser.resolver.context.settings;
    let mut limit = |name: &str, text: Option<&String>| -> Option<Option<Duration>> {
        let text = text?;
        match duration::parse(text) {
            Some(duration) => Some((!duration.is_zero()).then(|| duration.max(Duration::from_millis(1)))),
            None => {
                let message = format!("{text:?} is not a duration");
                parser.left_out(format!("{field}.{name}"), Reason::RouteMatchNotValid, message, "default applied");
                None
            }
        }
    };
    let timeouts = rule.timeouts.as_ref();
    let request = limit("timeouts.request", timeouts.and_then(|timeouts| timeouts.request.as_ref()));
    let each = limit("timeouts.backendRequest", timeouts.and_then(|timeouts| timeouts.backend_request.as_ref()));
    let backoff = limit("retry.backoff", rule.retry.as_ref().and_then(|retry| retry.backoff.as_ref())).flatten();
    let most = settings.tenants.max_retries;
    if let Some(attempts) = rule.retry.as_ref().and_then(|retry| retry.attempts).filter(|attempts| *attempts > most) {
        let message = format!("{attempts} is larger than {most}, the setting tenants.maxRetries");
        let field = format!("{field}.retry.attempts");
        parser.problem(field, Reason::RouteMatchNotValid, message, &format!("{most} attempts applied"));
    }
    let retry = rule.retry.as_ref().map(|retry| {
        Box::new(Retry {
            on: CONDITIONS.to_owned(),
            retries: retry.attempts.unwrap_or(ATTEMPTS).min(most),
            per_try_timeout: each.flatten(),
            // Envoy has a copy for each match, and the API does not limit the length of the list.
            status_codes: retry.codes.iter().copied().collect::<BTreeSet<u16>>().into_iter().collect(),
            backoff: backoff.map(|backoff| backoff.max(Duration::from_millis(1))),
        })
    });
    let own = OwnParts { timeout: request.is_some() || (each.is_some() && retry.is_none()), retry: retry.is_some() };
    let timeout = match (request, each) {
        (Some(request), None) => request,
        // Without retries, the limit of an attempt is the limit of the request.
        (request, Some(each)) if retry.is_none() => match (request.flatten(), each) {
            (Some(request), Some(each)) => Some(request.min(each)),
            (request, each) => request.or(each),
        },
        (request, _) => request.unwrap_or(settings.timeouts.response),
    };
    (timeout, retry, own)
}
