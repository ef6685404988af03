//! A server of external processing: Envoy's service `ExternalProcessor`.
//!
//! The query of a request selects the answers. A word can occur in any part of it.

use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use envoy_types::pb::envoy::config::core::v3::{HeaderMap, HeaderValue, HeaderValueOption};
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::ProcessingMode;
use envoy_types::pb::envoy::extensions::filters::http::ext_proc::v3::processing_mode::{BodySendMode, HeaderSendMode};
use envoy_types::pb::envoy::service::ext_proc::v3::external_processor_server::{
    ExternalProcessor, ExternalProcessorServer,
};
use envoy_types::pb::envoy::service::ext_proc::v3::processing_request::Request as Part;
use envoy_types::pb::envoy::service::ext_proc::v3::processing_response::Response as Answer;
use envoy_types::pb::envoy::service::ext_proc::v3::{
    BodyMutation, BodyResponse, CommonResponse, HeaderMutation, HeadersResponse, HttpBody, ImmediateResponse,
    ProcessingRequest, ProcessingResponse, TrailersResponse, body_mutation, common_response,
};
use envoy_types::pb::envoy::r#type::v3::HttpStatus;
use envoy_types::pb::google::protobuf::{Duration, Struct, Value, value};
use tonic::codegen::tokio_stream::{Stream, StreamExt};
use tonic::service::Routes;
use tonic::{Status, Streaming};

use crate::server::{ANY_PORT, Server};

/// Headers that the server sets for queries with `harm`. They would select another host, delimit messages, or control Envoy.
pub const HARMFUL: [(&str, &str); 17] = [
    (":authority", "other.test"),
    (":method", "DELETE"),
    (":path", "/other"),
    (":scheme", "https"),
    (":status", "299"),
    ("host", "other.test"),
    ("content-length", "1"),
    ("transfer-encoding", "chunked"),
    ("connection", "x-processed"),
    ("upgrade", "other"),
    ("te", "trailers"),
    ("trailer", "x-late"),
    ("keep-alive", "timeout=1"),
    ("proxy-connection", "close"),
    ("x-envoy-max-retries", "9"),
    ("x-lockgate-bucket", "1"),
    ("cdn-loop", "none"),
];
/// Odd headers that the server sets on requests, by the word of the query. The method can be changed if the body is replaced.
const ODD: [(&str, &str, &str); 5] = [
    ("head", ":method", "HEAD"),
    ("connect", ":method", "CONNECT"),
    ("spaces", ":method", "GET /evil"),
    ("lines", ":method", "GET /evil HTTP/1.1\r\nhost: evil.test\r\n\r\nPOST"),
    ("value", "x-value", "1\r\nx-evil: 1"),
];
/// The header that the server sets on each message, with the part that it changes.
pub const PROCESSED: &str = "x-processed";
/// The status and the body for queries with `deny`.
pub const DENIED: (u16, &str) = (451, "not in this country");
/// The bytes of an answer for queries with `large`.
const LARGE: usize = 4 << 20;

/// A server of external processing.
pub struct Processor {
    /// The address.
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
    _server: Server,
}

impl Processor {
    /// Starts a server on a free port.
    pub async fn start() -> Self {
        Self::start_at(ANY_PORT.into()).await
    }

    /// Starts a server at an address.
    ///
    /// # Panics
    /// If the address is taken.
    pub async fn start_at(address: SocketAddr) -> Self {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let server = Server::grpc(address, Routes::new(service(seen.clone()))).await;
        Self { address: server.address, seen, _server: server }
    }

    /// Returns the received parts of messages in order: the kind of the part, and the path of the request or the size of the body.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn service(seen: Arc<Mutex<Vec<String>>>) -> ExternalProcessorServer<Changes> {
    ExternalProcessorServer::new(Changes(seen)).max_encoding_message_size(2 * LARGE)
}

struct Changes(Arc<Mutex<Vec<String>>>);

#[tonic::async_trait]
impl ExternalProcessor for Changes {
    type ProcessStream = Pin<Box<dyn Stream<Item = Result<ProcessingResponse, Status>> + Send>>;

    async fn process(
        &self,
        request: tonic::Request<Streaming<ProcessingRequest>>,
    ) -> Result<tonic::Response<Self::ProcessStream>, Status> {
        let (mut query, seen) = (String::new(), self.0.clone());
        let answers = request.into_inner().then(move |asked| {
            let answer = asked.and_then(|asked| answer(asked, &mut query, &seen));
            async move {
                match answer {
                    Ok(Some(answer)) => Ok(answer),
                    Ok(None) => std::future::pending().await,
                    Err(status) => Err(status),
                }
            }
        });
        Ok(tonic::Response::new(Box::pin(answers)))
    }
}

/// Returns the answer to a part of a message. `query` is that of the request. `None`: the server never answers.
fn answer(
    asked: ProcessingRequest,
    query: &mut String,
    seen: &Mutex<Vec<String>>,
) -> Result<Option<ProcessingResponse>, Status> {
    let Some(part) = asked.request else { return Err(Status::invalid_argument("no part")) };
    if let Part::RequestHeaders(headers) = &part {
        let path = value_of(headers.headers.as_ref(), ":path");
        *query = path.split_once('?').map(|(_, query)| query.to_owned()).unwrap_or_default();
    }
    let text = match &part {
        Part::RequestHeaders(headers) => format!("request {}", value_of(headers.headers.as_ref(), ":path")),
        Part::ResponseHeaders(headers) => format!("response {}", value_of(headers.headers.as_ref(), ":status")),
        Part::RequestBody(body) => format!("request body {}", body.body.len()),
        Part::ResponseBody(body) => format!("response body {}", body.body.len()),
        Part::RequestTrailers(_) => "request trailers".to_owned(),
        Part::ResponseTrailers(_) => "response trailers".to_owned(),
    };
    seen.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    let has = |word: &str| query.split('&').any(|one| one == word);
    if has("hang") {
        return Ok(None);
    }
    if has("fail") {
        return Err(Status::unavailable("not now"));
    }
    let answers_response = matches!(part, Part::ResponseHeaders(_) | Part::ResponseBody(_));
    if has("deny") || has("deny-response") && answers_response {
        let (code, body) = DENIED;
        let denied = ImmediateResponse {
            status: Some(HttpStatus { code: code.into() }),
            headers: Some(mutation("denial", has("harm"))),
            body: if has("empty") { Vec::new() } else { body.into() },
            ..Default::default()
        };
        return Ok(Some(response(Answer::ImmediateResponse(denied))));
    }
    let changed = |part: &str, body: Option<Vec<u8>>| {
        let body = if has("large") { Some(vec![b'x'; LARGE]) } else { body };
        let replaces = has("replace") && part == "request";
        let body = if replaces { Some(b"replaced".to_vec()) } else { body };
        let status = match replaces {
            true => common_response::ResponseStatus::ContinueAndReplace,
            false => common_response::ResponseStatus::Continue,
        };
        Some(CommonResponse {
            status: status as i32,
            header_mutation: Some(mutation(part, has("harm"))),
            body_mutation: body.map(|body| BodyMutation { mutation: Some(body_mutation::Mutation::Body(body)) }),
            clear_route_cache: has("reroute"),
            ..Default::default()
        })
    };
    let upper = |body: &HttpBody| Some(body.body.to_ascii_uppercase());
    let with_odd = |answer: Option<CommonResponse>| {
        let mut answer = answer?;
        for (_, key, value) in ODD.into_iter().filter(|(word, ..)| has(word)) {
            let header = HeaderValue { key: key.to_owned(), raw_value: value.into(), ..Default::default() };
            let option = HeaderValueOption { header: Some(header), ..Default::default() };
            answer.header_mutation.get_or_insert_default().set_headers.push(option);
        }
        Some(answer)
    };
    let answer = match &part {
        Part::RequestHeaders(_) if has("odd") => {
            Answer::ResponseHeaders(HeadersResponse { response: changed("response", None) })
        }
        Part::RequestHeaders(_) => {
            Answer::RequestHeaders(HeadersResponse { response: with_odd(changed("request", None)) })
        }
        Part::ResponseHeaders(_) => Answer::ResponseHeaders(HeadersResponse { response: changed("response", None) }),
        Part::RequestBody(body) => Answer::RequestBody(BodyResponse { response: changed("request body", upper(body)) }),
        Part::ResponseBody(body) => {
            Answer::ResponseBody(BodyResponse { response: changed("response body", upper(body)) })
        }
        Part::RequestTrailers(_) => Answer::RequestTrailers(trailers(has("harm"))),
        Part::ResponseTrailers(_) => Answer::ResponseTrailers(trailers(has("harm"))),
    };
    let mut answer = response(answer);
    if has("mode") {
        let kind = Some(value::Kind::BoolValue(true));
        let fields = [("allowed".to_owned(), Value { kind })].into();
        answer.dynamic_metadata = Some(Struct { fields });
        answer.mode_override = Some(ProcessingMode {
            response_header_mode: HeaderSendMode::Send as i32,
            request_body_mode: BodySendMode::Buffered as i32,
            response_body_mode: BodySendMode::Buffered as i32,
            response_trailer_mode: HeaderSendMode::Send as i32,
            ..Default::default()
        });
    }
    if has("longer") {
        answer = ProcessingResponse {
            override_message_timeout: Some(Duration { seconds: 60, nanos: 0 }),
            ..ProcessingResponse::default()
        };
    }
    Ok(Some(answer))
}

fn response(answer: Answer) -> ProcessingResponse {
    ProcessingResponse { response: Some(answer), ..Default::default() }
}

fn trailers(is_harmful: bool) -> TrailersResponse {
    TrailersResponse { header_mutation: Some(mutation("trailers", is_harmful)) }
}

/// Sets [`PROCESSED`], and [`HARMFUL`] headers if it is harmful. It removes the header `x-secret`.
fn mutation(part: &str, is_harmful: bool) -> HeaderMutation {
    let header = |(key, value): (&str, &str)| HeaderValueOption {
        header: Some(HeaderValue { key: key.to_owned(), raw_value: value.into(), ..Default::default() }),
        ..Default::default()
    };
    let harmful = HARMFUL.iter().copied().filter(|_| is_harmful);
    let removed =
        ["host", ":path", "content-length", "cdn-loop", "transfer-encoding"].into_iter().filter(|_| is_harmful);
    HeaderMutation {
        set_headers: [(PROCESSED, part)].into_iter().chain(harmful).map(header).collect(),
        remove_headers: ["x-secret"].into_iter().chain(removed).map(str::to_owned).collect(),
    }
}

fn value_of(headers: Option<&HeaderMap>, name: &str) -> String {
    let found = headers.and_then(|headers| headers.headers.iter().find(|header| header.key == name));
    found.map(|header| String::from_utf8_lossy(&header.raw_value).into_owned()).unwrap_or_default()
}
