//! External processing: a server that changes requests and responses.
//!
//! The filter has a delegate of its own behind all others, because it waits. So the server sees only requests that all checks and limits
//! have permitted, and cannot influence these.

use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3 as ext_proc_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use envoy_types::pb::google::protobuf as google;
use ext_proc_v3::external_processor::RouteCacheAction;
use ext_proc_v3::processing_mode::{BodySendMode, HeaderSendMode};

use super::{authorization, delegate, services, wire};
use crate::model::{Processed, ProcessedBody, Processing};

/// Builds the filter of a route. `has_end`: whether the bodies of a request and of its response have an end.
///
/// The server of a tenant cannot change the mode or the time limit, select another route, write metadata, or change the headers that
/// delimit messages or control Envoy.
pub fn of_route(processing: &Processing, has_end: bool) -> Option<core_v3::TypedExtensionConfig> {
    let Processing { cluster, request, response, timeout, fail_open } = processing;
    let ends = |processed: Processed| if has_end { processed } else { processed.without_end() };
    let (request, response) = (ends(*request), ends(*response));
    if request.is_nothing() && response.is_nothing() {
        return None;
    }
    let mut service = services::grpc(&cluster.to_string(), *timeout);
    // The time limit is that of an answer. A stream lasts as long as its request.
    service.timeout = None;
    services::forward_marks(&mut service);
    services::set_authority(&mut service, &authorization::host(cluster));
    let bytes = services::MAX_ANSWER_BYTES.saturating_add(request.held_bytes().unwrap_or(0));
    services::limit_answers(&mut service, bytes);
    let mode = ext_proc_v3::ProcessingMode {
        request_header_mode: headers(request),
        response_header_mode: headers(response),
        request_body_mode: body(request),
        response_body_mode: body(response),
        request_trailer_mode: HeaderSendMode::Skip as i32,
        response_trailer_mode: HeaderSendMode::Skip as i32,
    };
    let config = ext_proc_v3::ExternalProcessor {
        grpc_service: Some(service),
        failure_mode_allow: *fail_open,
        processing_mode: Some(mode),
        message_timeout: Some(wire::duration(*timeout)),
        mutation_rules: Some(envoy_types::pb::envoy::config::common::mutation_rules::v3::HeaderMutationRules {
            disallow_system: Some(google::BoolValue { value: true }),
            ..authorization::changeable()
        }),
        route_cache_action: RouteCacheAction::Retain as i32,
        status_on_error: Some(type_v3::HttpStatus { code: type_v3::StatusCode::ServiceUnavailable as i32 }),
        ..Default::default()
    };
    Some(delegate::part("envoy.filters.http.ext_proc", &config))
}

/// Returns whether the server can change the method of requests. Envoy permits it against all rules if the server replaces the body together
/// with the headers. After a change to HEAD, a client would take the next response of its connection for the missing body.
pub fn changes_methods(processing: &Processing) -> bool {
    processing.request.headers
}

fn headers(processed: Processed) -> i32 {
    let mode = if processed.headers { HeaderSendMode::Send } else { HeaderSendMode::Skip };
    mode as i32
}

fn body(processed: Processed) -> i32 {
    let mode = match processed.body {
        ProcessedBody::None => BodySendMode::None,
        ProcessedBody::Buffered(_) => BodySendMode::Buffered,
        ProcessedBody::Streamed => BodySendMode::Streamed,
    };
    mode as i32
}
