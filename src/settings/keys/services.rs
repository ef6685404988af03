//! Keys of what is told to others, or asked of them, about each request.

use super::*;

/// In the order of the reference.
pub const SERVICES: &[Key] = &[
    key!(
        "accessLog.format",
        Word<AccessLogFormat>,
        route.access_log.format,
        "A line of text or a JSON object a request."
    ),
    key!(
        "accessLog.level",
        Word<AccessLogLevel>,
        route.access_log.level,
        "Which requests are logged: all, those with a status of 300 and more, those with 500 and more."
    ),
    key!("accessLog.text", LogLine, route.access_log.text, "The line of `format: text`: a format string of Envoy."),
    key!(
        "accessLog.jsonFields",
        List<LogField>,
        route.access_log.json_fields,
        "The fields of `format: json`: names of the table below, operators of Envoy such as `DURATION`, or \
         `name=%OPERATOR%`. Those without a value are left out of a line."
    ),
    key!(
        "accessLog.httpFile",
        LogFile,
        route.access_log.http_file,
        "Where requests over plain HTTP are logged: `/dev/stdout`, `/dev/stderr` or a file in Envoy's file system, whose \
         directory has to be there, or Envoy refuses the listener. It is kept open: whoever rotates it tells Envoy by \
         SIGUSR1, or by `POST /reopen_logs` on its admin interface."
    ),
    key!("accessLog.httpsFile", LogFile, route.access_log.https_file, "The same for requests over HTTPS and HTTP/3."),
    key!(
        "tracing.endpoint",
        Maybe<HostPort>,
        route.tracing.endpoint,
        "Where the collector takes OTLP over gRPC, in clear text. Nothing is traced if not set."
    ),
    key!("tracing.serviceName", Text, route.tracing.service_name, "The service that spans are of."),
    key!(
        "tracing.sampling.overall",
        Percent,
        route.tracing.sampling.overall,
        "How many requests are traced at most, in percent, after everything else."
    ),
    key!(
        "tracing.sampling.client",
        Percent,
        route.tracing.sampling.client,
        "How many of the requests with the header `x-client-trace-id` are traced, in percent."
    ),
    key!(
        "tracing.sampling.random",
        Percent,
        route.tracing.sampling.random,
        "How many of all other requests are traced, in percent."
    ),
    key!(
        "tracing.maxPathTagLength",
        Positive,
        route.tracing.max_path_tag_length,
        "How many bytes of the path a span has at most."
    ),
    key!("tracing.customTags", Tags, route.tracing.custom_tags, "Further tags of spans."),
    key!(
        "tracing.includePodDetail",
        Bool,
        route.tracing.pod_detail,
        "Add the name and the namespace of Envoy's pod to spans, from its environment variables `POD_NAME` and \
         `POD_NAMESPACE`."
    ),
    key!(
        "externalAuthorization.endpoint",
        Maybe<HostPort>,
        route.external_authorization.endpoint,
        "Where the server is asked, in clear text. Nothing is asked if not set."
    ),
    key!(
        "externalAuthorization.protocol",
        Word<AuthorizationProtocol>,
        route.external_authorization.protocol,
        "How it is asked: by `envoy.service.auth.v3.Authorization` over gRPC, or by a request over HTTP/1.1 of the same \
         method, host and path, which it answers 200 for those that may pass. Any other, below 500, is the answer that the client gets."
    ),
    key!(
        "externalAuthorization.timeout",
        Time,
        route.external_authorization.timeout,
        "It has to have answered. Every request waits for it as long as it takes."
    ),
    key!(
        "externalAuthorization.failOpen",
        Bool,
        route.external_authorization.fail_open,
        "Let requests pass when it gives no answer: is away, is late, or over HTTP answers with a status of 500 and more. \
         Otherwise they are answered 403."
    ),
    key!(
        "externalAuthorization.context",
        Texts,
        route.external_authorization.context,
        "What it is told with each request, as `context_extensions`. By gRPC only."
    ),
    key!(
        "externalAuthorization.requestBody.maxBytes",
        Maybe<Body>,
        route.external_authorization.request_body.max_bytes,
        "How much of the body it gets, for which the body is waited for. Requests with a larger one are answered 413. It gets \
         none if not set."
    ),
    key!(
        "externalAuthorization.requestBody.allowPartial",
        Bool,
        route.external_authorization.request_body.allow_partial,
        "Of a larger body, send the beginning instead."
    ),
    key!(
        "externalAuthorization.requestBody.packAsBytes",
        Bool,
        route.external_authorization.request_body.pack_as_bytes,
        "Send the body as bytes (`raw_body`), not as text in UTF-8 (`body`). By gRPC only."
    ),
    key!(
        "externalAuthorization.http.pathPrefix",
        Maybe<PathPrefix>,
        route.external_authorization.http.path_prefix,
        "Put before the path that it is asked for."
    ),
    key!(
        "externalAuthorization.http.allowedRequestHeaders",
        List<HeaderName>,
        route.external_authorization.http.allowed_request_headers,
        "Headers of the request that it gets, by their whole names, such as `cookie`, beside `Host`, `Authorization` and \
         `Content-Length`, which it always gets. Over gRPC it gets all."
    ),
    key!(
        "externalAuthorization.http.allowedUpstreamHeaders",
        List<HeaderName>,
        route.external_authorization.http.allowed_upstream_headers,
        "Headers of its answer, by their whole names, that replace those of the request on its way to the backend. Over gRPC \
         it says itself which."
    ),
    key!(
        "rateLimit.endpoint",
        Maybe<HostPort>,
        route.rate_limit.endpoint,
        "Where the service is asked, in clear text. Nothing is counted if not set."
    ),
    key!(
        "rateLimit.domain",
        Text,
        route.rate_limit.domain,
        "Which of the limits that it has are meant: its configuration names a domain too."
    ),
    key!(
        "rateLimit.timeout",
        Time,
        route.rate_limit.timeout,
        "It has to have answered. Every request waits for it as long as it takes."
    ),
    key!(
        "rateLimit.failOpen",
        Bool,
        route.rate_limit.fail_open,
        "Let requests pass when it gives no answer in time. Otherwise they are answered 500."
    ),
    key!(
        "rateLimit.headers",
        Bool,
        route.rate_limit.headers,
        "Tell clients their limit, what is left of it and when it starts anew, by the headers `x-ratelimit-limit`, \
         `x-ratelimit-remaining` and `x-ratelimit-reset` (draft 03)."
    ),
    key!(
        "rateLimit.resourceExhausted",
        Bool,
        route.rate_limit.resource_exhausted,
        "End gRPC calls beyond the limit with the status `RESOURCE_EXHAUSTED` instead of `UNAVAILABLE`."
    ),
    key!(
        "rateLimit.descriptors",
        Descriptors,
        route.rate_limit.descriptors,
        "What the service is told of a request: it counts each combination of values by itself. A descriptor is left out if the \
         request has nothing for one of its entries."
    ),
];
