//! The authorization server of an HTTPPolicy.

use lockgate_route::model::{
    Authorization, AuthorizationHttp, AuthorizationProtocol, ClusterId, HeaderPattern, RequestBody, UpstreamProtocol,
};
use lockgate_route::objects::ObjectKey;
use lockgate_route::objects::gateway::BackendTlsPolicy;
use lockgate_route::translate::traffic_policy;
use serde_json::{Value, json};

use super::super::losses::Losses;
use super::super::rules::{RuleFault, RulePlace, duration};
use crate::check::Translated;

/// The part of a route that concerns the server.
const PART: &str = "authPolicy";

/// Returns the feature. The error is the reason why it cannot be expressed.
pub fn written(
    source: &Translated,
    server: &Authorization,
    place: RulePlace,
    losses: &mut Losses,
) -> Result<Value, Option<RuleFault>> {
    // Without `..`, so that a new field does not compile until it is considered.
    let Authorization { cluster, shares, check, grpc_headers, copies_answer, context } = server;
    if !context.is_empty() {
        return Err(Some(RuleFault {
            part: "authPolicy.context",
            message: "HTTPPolicies send no context to the authorization server".to_owned(),
            remedy: "Authorize these requests without a context, or keep the HTTPProxy.".to_owned(),
        }));
    }
    check_protocol(source, cluster, check.protocol)?;
    if !shares.is_empty() {
        let texts = [
            "an HTTPPolicy calls a single Service, and the ExtensionService divides the calls among several",
            "the Service with the largest weight receives all calls",
            "Select the pods of all of them by one Service.",
        ];
        place.report_change(losses, PART, texts);
    }
    if !grpc_headers.is_empty() {
        let texts = [
            "HTTPPolicies send all headers of requests to an authorization server over gRPC",
            "the server receives more headers",
            "No action is needed unless the server must not see them.",
        ];
        place.report_change(losses, PART, texts);
    }
    let mut feature = json!({
        "backendRef": backend(source, cluster, place),
        "protocol": if check.protocol == AuthorizationProtocol::Grpc { "grpc" } else { "http" },
        "timeout": duration(Some(check.timeout)),
    });
    if check.fail_open {
        feature["failOpen"] = json!(true);
    }
    let RequestBody { max_bytes, allow_partial, pack_as_bytes } = check.request_body;
    if let Some(bytes) = max_bytes {
        feature["requestBody"] =
            json!({ "maxBytes": format!("{bytes}B"), "allowPartial": allow_partial, "packAsBytes": pack_as_bytes });
    }
    if check.protocol == AuthorizationProtocol::Http {
        feature["http"] = http(&check.http, *copies_answer, place, losses);
    }
    Ok(feature)
}

/// Checks that an HTTPPolicy reaches the server with the same protocol.
fn check_protocol(
    source: &Translated,
    cluster: &ClusterId,
    protocol: AuthorizationProtocol,
) -> Result<(), Option<RuleFault>> {
    let Some(found) = source.translator.model().clusters.get(cluster) else { return Err(None) };
    let service = cluster.port.service();
    let default = (protocol == AuthorizationProtocol::Grpc).then_some(UpstreamProtocol::H2c);
    let own = traffic_policy((&source.objects, &source.settings), service, found.port, default);
    let is_same = own.is_some_and(|own| own.protocol == found.policy.protocol) && found.policy.verification.is_none();
    if is_same || is_targeted(source, service) && found.policy.protocol.is_tls() {
        return Ok(());
    }
    Err(Some(RuleFault {
        part: PART,
        message: "an HTTPPolicy reaches an authorization server over TLS only with a BackendTLSPolicy".to_owned(),
        remedy: format!("Write a BackendTLSPolicy for Service {service}, and migrate again."),
    }))
}

fn http(http: &AuthorizationHttp, copies_answer: bool, place: RulePlace, losses: &mut Losses) -> Value {
    let AuthorizationHttp {
        path_prefix,
        allowed_request_headers,
        allowed_upstream_headers,
        request_patterns,
        upstream_patterns,
    } = http;
    let exact = |patterns: &[HeaderPattern]| -> Vec<String> {
        let names = patterns.iter().filter_map(|pattern| match pattern {
            HeaderPattern::Exact(name) => Some(name.clone()),
            HeaderPattern::Prefix(_) | HeaderPattern::Suffix(_) | HeaderPattern::Contains(_) => None,
        });
        names.collect()
    };
    let is_lost = |patterns: &[HeaderPattern]| exact(patterns).len() < patterns.len();
    if is_lost(request_patterns) || is_lost(upstream_patterns) || copies_answer {
        let texts = [
            "HTTPPolicies list the headers for the authorization server, and those of its answer, by their names",
            "other headers are not sent to the server, or not set on the request",
            "List the headers in externalAuthorization.http of the HTTPPolicy.",
        ];
        place.report_change(losses, PART, texts);
    }
    let mut written = json!({});
    if let Some(prefix) = path_prefix {
        written["pathPrefix"] = json!(prefix);
    }
    let lists = [
        ("allowedRequestHeaders", allowed_request_headers, request_patterns),
        ("allowedUpstreamHeaders", allowed_upstream_headers, upstream_patterns),
    ];
    for (name, names, patterns) in lists {
        let all: Vec<String> = names.iter().cloned().chain(exact(patterns)).collect();
        if !all.is_empty() {
            written[name] = json!(all);
        }
    }
    written
}

/// Returns the reference to a server.
pub fn backend(source: &Translated, cluster: &ClusterId, place: RulePlace) -> Value {
    let service = cluster.port.service();
    let port = source.translator.model().clusters.get(cluster).map_or(0, |cluster| cluster.port);
    let mut backend = json!({ "name": &*service.name, "port": port });
    if service.namespace != place.owner.namespace {
        backend["namespace"] = json!(&*service.namespace);
    }
    backend
}

/// Returns whether a BackendTLSPolicy targets a Service.
pub fn is_targeted(source: &Translated, service: &ObjectKey) -> bool {
    source.objects.all::<BackendTlsPolicy>().any(|policy| {
        let mut targets = policy.spec.target_refs.iter();
        policy.meta.key.namespace == service.namespace
            && targets.any(|target| target.kind == "Service" && *target.name == *service.name)
    })
}
