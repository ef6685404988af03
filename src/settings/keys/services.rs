//! Keys of the services that receive data about each request: logs, traces, authorization, and rate limits.

use super::*;

/// In the order of the reference.
pub const SERVICES: &[SettingsKey] = &[
    key!(
        "accessLog.format",
        Word<AccessLogFormat>,
        route.access_log.format,
        "One line of text or one JSON object for each request."
    ),
    key!(
        "accessLog.level",
        Word<AccessLogLevel>,
        route.access_log.level,
        "The logged requests: all, those with a status of at least 300, or those with a status of at least 500."
    ),
    key!("accessLog.text", LogLine, route.access_log.text, "The format string of Envoy for `format: text`."),
    key!(
        "accessLog.jsonFields",
        List<LogField>,
        route.access_log.json_fields,
        "The fields for `format: json`: names of the table below, operators of Envoy such as `DURATION`, or \
         `name=%OPERATOR%`. Fields without a value are left out of a line."
    ),
    key!(
        "accessLog.httpFile",
        LogFile,
        route.access_log.http_file,
        "The log file for requests over plain HTTP: `/dev/stdout`, `/dev/stderr`, or a file in Envoy's file system. \
         Its directory must exist; otherwise Envoy rejects the listener. Envoy keeps the file open: after a log \
         rotation, send SIGUSR1 to Envoy, or `POST /reopen_logs` to its admin interface."
    ),
    key!(
        "accessLog.httpsFile",
        LogFile,
        route.access_log.https_file,
        "The log file for requests over HTTPS and HTTP/3."
    ),
    key!(
        "tracing.endpoint",
        Maybe<HostPort>,
        route.tracing.endpoint,
        "The endpoint of the collector for OTLP over gRPC, in plain text. No tracing if not set."
    ),
    key!("tracing.serviceName", FreeText, route.tracing.service_name, "The service name of the spans."),
    key!(
        "tracing.sampling.overall",
        Percent,
        route.tracing.sampling.overall,
        "The maximum percentage of traced requests, applied after all other samplings."
    ),
    key!(
        "tracing.sampling.client",
        Percent,
        route.tracing.sampling.client,
        "The percentage of traced requests among those with the header `x-client-trace-id`."
    ),
    key!(
        "tracing.sampling.random",
        Percent,
        route.tracing.sampling.random,
        "The percentage of traced requests among all other requests."
    ),
    key!(
        "tracing.maxPathTagLength",
        Positive,
        route.tracing.max_path_tag_length,
        "The maximum number of bytes of the path in a span."
    ),
    key!("tracing.customTags", Tags, route.tracing.custom_tags, "Additional tags of spans."),
    key!(
        "tracing.includePodDetail",
        Bool,
        route.tracing.pod_detail,
        "Adds the name and the namespace of Envoy's pod to spans, from its environment variables `POD_NAME` and \
         `POD_NAMESPACE`."
    ),
    key!(
        "externalAuthorization.endpoint",
        Maybe<HostPort>,
        route.external_authorization.endpoint,
        "The endpoint of the authorization server, in plain text. No authorization if not set."
    ),
    key!(
        "externalAuthorization.protocol",
        Word<AuthorizationProtocol>,
        route.external_authorization.check.protocol,
        "The protocol of the server: `envoy.service.auth.v3.Authorization` over gRPC, or HTTP/1.1. With HTTP/1.1, \
         the server receives a request with the same method, host, and path, and answers 200 to allow it. Any other \
         answer below 500 is the response to the client."
    ),
    key!(
        "externalAuthorization.timeout",
        Time,
        route.external_authorization.check.timeout,
        "Time limit for the server's answer. Every request waits for the answer."
    ),
    key!(
        "externalAuthorization.failOpen",
        Bool,
        route.external_authorization.check.fail_open,
        "Lets requests pass if the server is unavailable, does not answer in time, or, over HTTP, answers with a \
         status of at least 500. Otherwise, they are answered 403."
    ),
    key!(
        "externalAuthorization.context",
        TextMap,
        route.external_authorization.context,
        "The `context_extensions` that the server receives with each request. Only with gRPC."
    ),
    key!(
        "externalAuthorization.requestBody.maxBytes",
        Maybe<Body>,
        route.external_authorization.check.request_body.max_bytes,
        "The number of body bytes that the server receives. Envoy waits for the body, and answers 413 to requests \
         with a larger one. The server receives no body if not set."
    ),
    key!(
        "externalAuthorization.requestBody.allowPartial",
        Bool,
        route.external_authorization.check.request_body.allow_partial,
        "Sends only the beginning of a larger body, instead of 413."
    ),
    key!(
        "externalAuthorization.requestBody.packAsBytes",
        Bool,
        route.external_authorization.check.request_body.pack_as_bytes,
        "Sends the body as bytes (`raw_body`), not as text in UTF-8 (`body`). Only with gRPC."
    ),
    key!(
        "externalAuthorization.http.pathPrefix",
        Maybe<PathPrefix>,
        route.external_authorization.check.http.path_prefix,
        "A prefix for the path of requests to the server."
    ),
    key!(
        "externalAuthorization.http.allowedRequestHeaders",
        List<HeaderName>,
        route.external_authorization.check.http.allowed_request_headers,
        "Headers of the request that the server receives, by full name, such as `cookie`, in addition to `Host`, \
         `Authorization`, and `Content-Length`, which it always receives. Over gRPC, it receives all headers."
    ),
    key!(
        "externalAuthorization.http.allowedUpstreamHeaders",
        List<HeaderName>,
        route.external_authorization.check.http.allowed_upstream_headers,
        "Headers of the server's answer, by full name, that replace headers of the request to the backend. Those \
         of clients are removed, also if the answer lacks them, unless the server receives them. Over gRPC, the answer itself \
         selects them."
    ),
    key!(
        "rateLimit.endpoint",
        Maybe<HostPort>,
        route.rate_limit.endpoint,
        "The endpoint of the rate limit service, in plain text. No rate limiting if not set."
    ),
    key!(
        "rateLimit.domain",
        FreeText,
        route.rate_limit.domain,
        "The domain of the limits, which the configuration of the service also contains."
    ),
    key!(
        "rateLimit.timeout",
        Time,
        route.rate_limit.timeout,
        "Time limit for the service's answer. Every request waits for the answer."
    ),
    key!(
        "rateLimit.failOpen",
        Bool,
        route.rate_limit.fail_open,
        "Lets requests pass if the service does not answer in time. Otherwise, they are answered 500."
    ),
    key!(
        "rateLimit.headers",
        Bool,
        route.rate_limit.headers,
        "Tells clients their limit, the remaining number of requests, and the time until the limit is reset, in the \
         headers `x-ratelimit-limit`, `x-ratelimit-remaining`, and `x-ratelimit-reset` (draft 03)."
    ),
    key!(
        "rateLimit.resourceExhausted",
        Bool,
        route.rate_limit.resource_exhausted,
        "Ends gRPC calls beyond the limit with the status `RESOURCE_EXHAUSTED` instead of `UNAVAILABLE`."
    ),
    key!(
        "rateLimit.descriptors",
        Descriptors,
        route.rate_limit.descriptors,
        "The descriptors that the service receives for each request. The service counts each combination of values \
         separately. A descriptor is left out if the request has no value for one of its entries."
    ),
    key!(
        "wasm.modules",
        Modules,
        route.wasm.modules,
        "The WebAssembly modules that policies may name: their `file` in the file system of every Envoy, the `rootId` that some modules need, and the \
         text that they receive when they are loaded. Envoy limits neither the time nor the memory of a module, so allow only modules \
         that you trust. Without its file, Envoy rejects the routes that name a module."
    ),
];
