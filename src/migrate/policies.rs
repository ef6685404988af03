//! HTTPPolicies for the access restrictions, limits, and other features of routes.
//!
//! A feature of an HTTPPolicy is copied, and the features of HTTPProxies are written as those of an HTTPPolicy. Without a feature that
//! restricts access, a rule gets no backend.

mod authorization;
mod cors;
mod limits;
mod processing;
mod tokens;

use std::collections::{BTreeMap, BTreeSet};

use lockgate_route::model::{
    ClientAddresses, ClientRange, CompressionAlgorithm, HeaderChange, LocalRateLimit, Route, RoutePolicy,
};
use lockgate_route::objects::gateway::{GROUP, HttpFeaturesSpec, HttpPolicy, Lenient};
use lockgate_route::objects::{Kind, ObjectKey};
use lockgate_xds::provenance::ObjectRef;
use serde_json::{Map, Value, json};

use super::losses::{FindingText, Losses};
use super::names::Names;
use super::routes::MIGRATED_FROM;
use super::rules::{RuleFault, RulePlace};
use super::{key, object};
use crate::check::Translated;

pub use limits::retries_spec;

/// The maximum number of targets of a policy.
const TARGETS: usize = 16;

/// Returns the features of the HTTPPolicy of a route. The error is `None` if it is reported.
pub fn features(
    source: &Translated,
    route: &Route,
    place: RulePlace,
    losses: &mut Losses,
) -> Result<Option<Value>, Option<RuleFault>> {
    let Some(policy) = route.policy() else { return Ok(None) };
    // Without `..`, so that a new feature does not compile until it is considered.
    let RoutePolicy {
        client_addresses,
        basic_authentication,
        api_keys,
        jwt,
        oidc,
        csrf,
        cors,
        authorization,
        local_rate_limit,
        global_rate_limit,
        max_request_body_bytes,
        buffered_request_bytes,
        processing,
        wasm,
        grpc_json,
        max_response_body,
        faults,
        retries,
        timeouts,
        rewrite,
        mirrors,
        request_headers,
        response_headers,
        error_responses,
        compression,
        counted_for: _,
        origins: _,
        decided,
    } = &**policy;
    let mut written = Map::new();
    for (name, by) in decided {
        written.extend(feature_of(source, by, name, place.owner).map(|feature| ((*name).to_owned(), feature)));
    }
    let copied: BTreeSet<String> = written.keys().cloned().collect();
    let is_new = |name: &str| !copied.contains(name);
    let addresses = client_addresses.as_ref().filter(|_| is_new("clientAddresses"));
    let passwords = basic_authentication.as_ref().filter(|_| is_new("basicAuthentication"));
    let keys = api_keys.as_ref().filter(|_| is_new("apiKeys"));
    let tokens = jwt.as_ref().filter(|_| is_new("jwt"));
    let pages = csrf.as_ref().filter(|_| is_new("csrf"));
    let server = authorization.as_ref().filter(|_| is_new("externalAuthorization"));
    let limit = local_rate_limit.as_ref().filter(|_| is_new("localRateLimit"));
    let body = max_request_body_bytes.filter(|_| is_new("maxRequestBody"));
    let requests = request_headers.as_ref().filter(|_| is_new("requestHeaders"));
    let responses = response_headers.as_ref().filter(|_| is_new("responseHeaders"));
    let algorithms = compression.as_ref().filter(|_| is_new("compression"));
    let logins = oidc.as_ref().filter(|_| is_new("oidc"));
    for (is_set, name) in [
        (passwords.is_some(), "passwords"),
        (keys.is_some(), "API keys"),
        (logins.is_some(), "logins"),
        (pages.is_some(), "origins"),
    ] {
        if is_set {
            return Err(Some(RuleFault {
                part: "policy",
                message: format!("the {name} of an HTTPPolicy of another namespace cannot be copied"),
                remedy: format!("Write an HTTPPolicy in namespace {:?}, and migrate again.", &*place.owner.namespace),
            }));
        }
    }
    if let Some(addresses) = addresses {
        written.insert("clientAddresses".to_owned(), client_addresses_spec(source, addresses)?);
    }
    if let Some(tokens) = tokens {
        written.insert("jwt".to_owned(), tokens::written(source, tokens, place, losses)?);
    }
    if let Some(server) = server {
        written.insert("externalAuthorization".to_owned(), authorization::written(source, server, place, losses)?);
    }
    if let Some(limit) = limit {
        written.extend(local_rate_limit_spec(limit, place, losses).map(|spec| ("localRateLimit".to_owned(), spec)));
    }
    if let Some(limit) = global_rate_limit.as_ref().filter(|_| is_new("globalRateLimit")) {
        let spec = limits::global_rate_limit_spec(limit, source, place, losses);
        written.extend(spec.map(|spec| ("globalRateLimit".to_owned(), spec)));
    }
    if let Some(bytes) = body {
        written.insert("maxRequestBody".to_owned(), json!(format!("{bytes}B")));
    }
    if let Some(bytes) = buffered_request_bytes.filter(|_| is_new("requestBuffering")) {
        written.insert("requestBuffering".to_owned(), json!({ "maxSize": format!("{bytes}B") }));
    }
    if let Some(server) = processing.as_ref().filter(|_| is_new("externalProcessing")) {
        written.insert("externalProcessing".to_owned(), processing::written(source, server, place));
    }
    if let Some(module) = wasm.as_ref().filter(|_| is_new("wasm")) {
        written.insert("wasm".to_owned(), limits::wasm_spec(module));
    }
    if let Some(json) = grpc_json.as_ref().filter(|_| is_new("grpcJson")) {
        written.insert("grpcJson".to_owned(), limits::grpc_json_spec(json));
    }
    if let Some(limit) = max_response_body.filter(|_| is_new("maxResponseBody")) {
        written.insert("maxResponseBody".to_owned(), limits::max_response_body_spec(limit));
    }
    if let Some(faults) = faults.filter(|_| is_new("faults")) {
        written.insert("faults".to_owned(), limits::faults_spec(faults));
    }
    if let Some(retries) = retries.as_ref().filter(|_| is_new("retries")) {
        written.insert("retries".to_owned(), limits::retries_spec(retries));
    }
    if let Some(limits) = timeouts.as_ref().filter(|_| is_new("timeouts")) {
        written.insert("timeouts".to_owned(), limits::timeouts_spec(limits));
    }
    if let Some(rewrite) = rewrite.as_ref().filter(|_| is_new("urlRewrite")) {
        written.insert("urlRewrite".to_owned(), limits::rewrite_spec(rewrite));
    }
    if mirrors.as_ref().is_some_and(|_| is_new("mirrors")) {
        let text = FindingText {
            message: "the mirrors of an HTTPPolicy of another namespace cannot be copied".to_owned(),
            consequence: "requests are not copied to them",
            remedy: "Write an HTTPPolicy with `mirrors` in the namespace of the route.",
        };
        losses.add_lost(place.owner, place.below(losses, "policy"), text);
    }
    for (name, changes) in [("requestHeaders", requests), ("responseHeaders", responses)] {
        written.extend(changes.map(|changes| (name.to_owned(), headers_spec(changes))));
    }
    let of_proxy = decided.iter().any(|(name, by)| *name == "cors" && by.kind == Kind::HTTP_PROXY.as_str());
    let scripts = cors.as_ref().filter(|_| is_new("cors"));
    if let Some(scripts) = scripts.filter(|_| of_proxy) {
        written.extend(cors::written(scripts, place, losses).map(|spec| ("cors".to_owned(), spec)));
    } else if scripts.is_some() {
        let text = FindingText {
            message: "the origins of an HTTPPolicy of another namespace cannot be copied".to_owned(),
            consequence: "scripts of other origins are refused",
            remedy: "Write an HTTPPolicy with `cors` in the namespace of the route.",
        };
        losses.add_lost(place.owner, place.below(losses, "policy"), text);
    }
    if let Some(answers) = error_responses.as_ref().filter(|_| is_new("errorResponses")) {
        written.insert("errorResponses".to_owned(), limits::error_responses_spec(answers));
    }
    if let Some(algorithms) = algorithms {
        let names = algorithms.iter().map(|algorithm| match algorithm {
            CompressionAlgorithm::Gzip => "gzip",
            CompressionAlgorithm::Brotli => "brotli",
            CompressionAlgorithm::Zstd => "zstd",
        });
        written.insert("compression".to_owned(), json!({ "algorithms": names.collect::<Vec<_>>() }));
    }
    Ok((!written.is_empty()).then_some(Value::Object(written)))
}

/// Returns a feature of an HTTPPolicy of the namespace of `owner` as it is written there.
fn feature_of(source: &Translated, by: &ObjectRef, name: &str, owner: &ObjectKey) -> Option<Value> {
    if by.kind != Kind::HTTP_POLICY.as_str() || by.namespace != owner.namespace {
        return None;
    }
    let policy =
        source.objects.get::<HttpPolicy>(&ObjectKey { namespace: by.namespace.clone(), name: by.name.clone() })?;
    let valid = |features: &Option<Lenient<HttpFeaturesSpec>>| match features {
        Some(Lenient::Valid(features)) => serde_json::to_value(features).ok(),
        _ => None,
    };
    let own = serde_json::to_value(&policy.spec.features).ok();
    let levels = [valid(&policy.spec.overrides), own, valid(&policy.spec.defaults)];
    let mut feature = levels.into_iter().flatten().find_map(|features| {
        let feature = features.get(name)?.clone();
        (!feature.is_null()).then_some(feature)
    })?;
    remove_nulls(&mut feature);
    Some(feature)
}

fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|_, field| !field.is_null());
            fields.values_mut().for_each(remove_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}

fn client_addresses_spec(source: &Translated, addresses: &ClientAddresses) -> Result<Value, Option<RuleFault>> {
    let ClientAddresses { allow, deny } = addresses;
    // Without trusted proxies, both addresses are the same.
    if source.settings.http.trusted_hops > 0 && allow.iter().chain(deny).any(|range| range.of_connection) {
        return Err(Some(RuleFault {
            part: "ipAllowPolicy",
            message: "HTTPPolicies compare the address of the client, not that of the connection (\"Peer\")".to_owned(),
            remedy: "Use the source \"Remote\", and migrate again.".to_owned(),
        }));
    }
    let list = |ranges: &[ClientRange]| -> Vec<String> { ranges.iter().map(|one| one.range.to_string()).collect() };
    let lists = [("allow", list(allow)), ("deny", list(deny))];
    Ok(lists
        .into_iter()
        .filter(|(_, list)| !list.is_empty())
        .map(|(name, list)| (name.to_owned(), json!(list)))
        .collect())
}

fn local_rate_limit_spec(limit: &LocalRateLimit, place: RulePlace, losses: &mut Losses) -> Option<Value> {
    let LocalRateLimit { requests, period, burst, per_client_address, shared, answer } = limit;
    let unit = match period.as_secs() {
        1 => "second",
        60 => "minute",
        3600 => "hour",
        _ => return None,
    };
    if shared.is_some() {
        let texts = [
            "an HTTPPolicy counts the requests of each match separately, not those of all routes of a host together",
            "clients can send more requests",
            "Lower the limit of the HTTPPolicy, or keep the HTTPProxy.",
        ];
        place.report_change(losses, "rateLimitPolicy.local", texts);
    }
    if answer.is_some() {
        let texts = [
            "HTTPPolicies answer requests over the limit with 429 and no headers",
            "responseStatusCode and responseHeadersToAdd are left out",
            "Let clients expect 429.",
        ];
        place.report_change(losses, "rateLimitPolicy.local", texts);
    }
    let mut spec = json!({ "requests": requests, "unit": unit });
    if *burst > 0 {
        spec["burst"] = json!(burst);
    }
    if *per_client_address {
        spec["perClientAddress"] = json!(true);
    }
    Some(spec)
}

fn headers_spec(changes: &[HeaderChange]) -> Value {
    let mut lists = BTreeMap::<&str, Vec<Value>>::new();
    for change in changes {
        let (name, item) = match change {
            HeaderChange::Set(name, value) => ("set", json!({ "name": name.as_str(), "value": value.as_str() })),
            HeaderChange::Add(name, value) => ("add", json!({ "name": name.as_str(), "value": value.as_str() })),
            HeaderChange::Remove(name) | HeaderChange::SetFormat(name, _) => ("remove", json!(name.as_str())),
        };
        lists.entry(name).or_default().push(item);
    }
    json!(lists)
}

/// Returns the HTTPPolicies with `features` for these HTTPRoutes of an object.
pub fn objects(owner: &ObjectKey, features: &str, targets: &[String], names: &mut Names) -> Vec<Value> {
    let features: Map<String, Value> = serde_json::from_str(features).unwrap_or_default();
    let mut policies = Vec::new();
    for targets in targets.chunks(TARGETS) {
        let reference = |name: &String| json!({ "group": GROUP, "kind": Kind::HTTP_ROUTE.as_str(), "name": name });
        let mut spec = Map::from_iter([("targetRefs".to_owned(), targets.iter().map(reference).collect())]);
        spec.extend(features.clone());
        let policy = key(&owner.namespace, &names.take(&owner.name));
        policies.push(object(Kind::HTTP_POLICY, &policy, &[(MIGRATED_FROM, &owner.name)], Value::Object(spec)));
    }
    policies
}

/// Returns the ReferenceGrants for the servers of other namespaces that the policies name.
pub fn grants(policies: &[Value]) -> Vec<Value> {
    let mut services = BTreeMap::<(String, String), BTreeSet<String>>::new();
    for policy in policies {
        let from = policy["metadata"]["namespace"].as_str().unwrap_or_default();
        let tokens = policy["spec"]["jwt"]["providers"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of_tokens = tokens.iter().map(|provider| &provider["jwks"]["remote"]["backendRef"]);
        let mirrors = policy["spec"]["mirrors"].as_array().map(Vec::as_slice).unwrap_or_default();
        let of_mirrors = mirrors.iter().map(|mirror| &mirror["backendRef"]);
        let servers = ["externalAuthorization", "externalProcessing"].map(|name| &policy["spec"][name]["backendRef"]);
        for backend in of_tokens.chain(of_mirrors).chain(servers) {
            if let (Some(to), Some(name)) = (backend["namespace"].as_str(), backend["name"].as_str()) {
                services.entry((to.to_owned(), from.to_owned())).or_default().insert(name.to_owned());
            }
        }
    }
    let grant = |((to, from), services): ((String, String), BTreeSet<String>)| {
        let services = services.iter().map(|name| json!({ "group": "", "kind": "Service", "name": name }));
        let version = Kind::HTTP_POLICY.api_version();
        let group = version.split('/').next().unwrap_or_default();
        let referrers = json!([{ "group": group, "kind": Kind::HTTP_POLICY.as_str(), "namespace": from }]);
        let spec = json!({ "from": referrers, "to": services.collect::<Vec<_>>() });
        object(Kind::REFERENCE_GRANT, &ObjectKey::new(&to, &format!("policies-of-{from}")), &[], spec)
    };
    services.into_iter().map(grant).collect()
}
