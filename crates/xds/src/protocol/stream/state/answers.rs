//! The answers of a client to responses: ACKs and NACKs.

use std::sync::Arc;
use std::time::Instant;

use crate::protocol::message::{Notice, Output, Request, Variant};
use crate::protocol::subscription::Subscription;
use crate::snapshot::Resource;

/// Handles the answer in a request that is not the first of its type. Returns the resources that an ACK has replaced at the
/// client, or `None` if the request acknowledges no response.
pub(super) fn handle_answer(
    subscription: &mut Subscription,
    variant: Variant,
    request: &Request,
    now: Instant,
    outputs: &mut Vec<Output>,
) -> Option<Vec<Arc<Resource>>> {
    let Some(message) = &request.error else { return handle_ack(subscription, &request.nonce, now, outputs) };
    if variant == Variant::Sotw && subscription.accepts_despite_error(request) {
        let (kind, nonce, message) = (subscription.kind, request.nonce.clone(), message.clone());
        outputs.push(Output::Notice(Notice::OldError { kind, nonce, message }));
        return handle_ack(subscription, &request.nonce, now, outputs);
    }
    handle_nack(subscription, &request.nonce, message, now, outputs);
    None
}

/// Accepts the response with this nonce, and the outdated responses before it.
fn handle_ack(
    subscription: &mut Subscription,
    nonce: &str,
    now: Instant,
    outputs: &mut Vec<Output>,
) -> Option<Vec<Arc<Resource>>> {
    let kind = subscription.kind;
    let mut replaced = None;
    subscription.accept_late(nonce);
    for nonce in subscription.answered(nonce) {
        let Some(response) = subscription.remove_response(&nonce) else { continue };
        let latency = now.saturating_duration_since(response.sent_at);
        subscription.pace.answered(&response.paced, response.sent_at, now);
        replaced.get_or_insert_with(Vec::new).extend(subscription.accept(response));
        let rejection = subscription.culprits().next().map(|(_, why)| why.clone());
        subscription.rejection = rejection;
        outputs.push(Output::Notice(Notice::Acked { kind, nonce, latency }));
    }
    replaced
}

/// Records that the client rejected the response with this nonce.
fn handle_nack(subscription: &mut Subscription, nonce: &str, message: &str, now: Instant, outputs: &mut Vec<Output>) {
    let Some(response) = subscription.remove_rejected(nonce) else { return };
    subscription.pace.answered(&response.paced, response.sent_at, now);
    subscription.reached = subscription.reached.max(response.generation);
    let rejection = subscription.reject(response, message, now);
    subscription.rejection = Some(rejection.message.clone());
    outputs.push(Output::Notice(Notice::Rejected(rejection)));
}
