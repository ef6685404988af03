//! Objects that both definitions store unchanged, and objects that both refuse.

use e2e::ApiServer;
use serde_json::{Value, json};

/// Returns an object of Contour's group.
fn object(kind: &str, name: &str, spec: Value) -> Value {
    let version = if kind == "ExtensionService" { "v1alpha1" } else { "v1" };
    json!({
        "apiVersion": format!("projectcontour.io/{version}"),
        "kind": kind,
        "metadata": { "name": name, "namespace": "default" },
        "spec": spec,
    })
}

/// Returns the spec of a root with most of the fields that Contour 1.33 has. Fields with a default are set.
fn root() -> Value {
    let headers = json!({ "set": [{ "name": "X-Team", "value": "a" }], "remove": ["X-Old"] });
    let validation = json!({ "caSecret": "shop/ca", "subjectName": "a.test", "subjectNames": ["a.test", "b.test"] });
    let limits = json!({
        "local": {
            "requests": 5, "unit": "minute", "burst": 2, "responseStatusCode": 503,
            "responseHeadersToAdd": [{ "name": "X-Limit", "value": "5" }],
        },
        "global": { "disabled": false, "descriptors": [{ "entries": [
            { "genericKey": { "key": "a", "value": "b" } },
            { "remoteAddress": {} },
            { "requestHeader": { "headerName": "X-User", "descriptorKey": "user" } },
            { "requestHeaderValueMatch": { "headers": [{ "name": "X-A", "exact": "1" }], "expectMatch": false, "value": "c" } },
        ] }] },
    });
    let check = json!({
        "path": "/health", "host": "a.test", "intervalSeconds": 5, "timeoutSeconds": 2, "unhealthyThresholdCount": 3,
        "healthyThresholdCount": 2, "expectedStatuses": [{ "start": 200, "end": 300 }],
    });
    let service = json!({
        "name": "shop", "port": 80, "weight": 10, "protocol": "h2", "mirror": false, "healthPort": 8080, "validation": validation,
        "slowStartPolicy": { "window": "1m30s", "aggression": "1.5", "minWeightPercent": 20 },
        "requestHeadersPolicy": headers, "responseHeadersPolicy": headers,
        "cookieRewritePolicies": [{
            "name": "session", "pathRewrite": { "value": "/shop" }, "domainRewrite": { "value": "a.test" }, "secure": true, "sameSite": "Lax",
        }],
    });
    json!({
        "ingressClassName": "lockgate",
        "virtualhost": {
            "fqdn": "*.a.test",
            "tls": {
                "secretName": "shop/cert", "minimumProtocolVersion": "1.2", "maximumProtocolVersion": "1.3", "passthrough": false,
                "enableFallbackCertificate": false,
                "clientValidation": {
                    "caSecret": "ca", "skipClientCertValidation": false, "optionalClientCertificate": true, "crlSecret": "crl",
                    "crlOnlyVerifyLeafCert": true,
                    "forwardClientCertificate": { "subject": true, "cert": true, "chain": true, "dns": true, "uri": true },
                },
            },
            "corsPolicy": {
                "allowOrigin": ["*"], "allowMethods": ["GET"], "allowHeaders": ["X-A"], "exposeHeaders": ["X-B"], "maxAge": "10m",
                "allowCredentials": true, "allowPrivateNetwork": true,
            },
            "authorization": {
                "extensionRef": { "apiVersion": "projectcontour.io/v1alpha1", "namespace": "auth", "name": "auth" },
                "authPolicy": { "disabled": false, "context": { "team": "a" } }, "responseTimeout": "1.5s", "failOpen": true,
                "withRequestBody": { "maxRequestBytes": 2048, "allowPartialMessage": true, "packAsBytes": true },
            },
            "jwtProviders": [{
                "name": "login", "default": true, "issuer": "login", "audiences": ["shop"], "forwardJWT": true,
                "remoteJWKS": {
                    "uri": "https://keys.login.svc/jwks", "timeout": "2s", "cacheDuration": "5m", "dnsLookupFamily": "v4",
                    "validation": validation,
                },
            }],
            "rateLimitPolicy": limits,
            "ipAllowPolicy": [{ "source": "Peer", "cidr": "192.0.2.0/24" }],
        },
        "includes": [{ "name": "blog", "namespace": "blog", "conditions": [{ "prefix": "/blog" }] }],
        "routes": [
            {
                "conditions": [
                    { "prefix": "/shop" },
                    { "header": { "name": "X-A", "notcontains": "x", "ignoreCase": true, "treatMissingAsEmpty": true } },
                    { "queryParameter": { "name": "q", "prefix": "a", "ignoreCase": true } },
                ],
                "services": [service],
                "enableWebsockets": true, "permitInsecure": true,
                "timeoutPolicy": { "response": "infinity", "idle": "1h2m3.5s", "idleConnection": "250µs" },
                "retryPolicy": { "count": -1, "perTryTimeout": "150ms", "retryOn": ["5xx", "reset"], "retriableStatusCodes": [502] },
                "pathRewritePolicy": { "replacePrefix": [{ "prefix": "/shop", "replacement": "/" }] },
                "requestHeadersPolicy": headers, "responseHeadersPolicy": headers,
                "authPolicy": { "disabled": true }, "jwtVerificationPolicy": { "require": "login", "disabled": false },
                "rateLimitPolicy": limits, "ipDenyPolicy": [{ "source": "Remote", "cidr": "2001:db8::/32" }],
                "loadBalancerPolicy": { "strategy": "RequestHash", "requestHashPolicies": [
                    { "terminal": true, "headerHashOptions": { "headerName": "X-User" } },
                    { "queryParameterHashOptions": { "parameterName": "q" } },
                    { "hashSourceIP": true },
                ] },
                "cookieRewritePolicies": [{ "name": "a", "secure": false }], "healthCheckPolicy": check,
                "internalRedirectPolicy": {
                    "maxInternalRedirects": 2, "redirectResponseCodes": [302], "allowCrossSchemeRedirect": "SafeOnly",
                    "denyRepeatedRouteRedirect": true,
                },
            },
            { "conditions": [{ "exact": "/old" }], "requestRedirectPolicy": {
                "scheme": "https", "hostname": "b.test", "port": 8443, "statusCode": 308, "path": "/new",
            } },
            { "conditions": [{ "regex": "/a.*" }], "directResponsePolicy": { "statusCode": 404, "body": "none" } },
        ],
        "tcpproxy": {
            "services": [{ "name": "tcp", "port": 443 }], "include": { "name": "a", "namespace": "b" }, "includes": { "name": "c" },
            "loadBalancerPolicy": { "strategy": "Random" },
            "healthCheckPolicy": {
                "intervalSeconds": 5, "timeoutSeconds": 2, "unhealthyThresholdCount": 3, "healthyThresholdCount": 2,
            },
        },
    })
}

/// Returns objects that both definitions store.
pub fn valid() -> Vec<Value> {
    let extension = json!({
        "services": [{ "name": "auth", "port": 9000, "weight": 1 }], "protocol": "h2", "protocolVersion": "v3",
        "validation": { "caSecret": "ca", "subjectName": "a.test" }, "loadBalancerPolicy": { "strategy": "Random" },
        "timeoutPolicy": { "response": "1s", "idleConnection": "1h" },
        "circuitBreakerPolicy": {
            "maxConnections": 1, "maxPendingRequests": 2, "maxRequests": 3, "maxRetries": 4, "perHostMaxConnections": 5,
        },
    });
    let delegation = json!({ "delegations": [{ "secretName": "cert", "targetNamespaces": ["*", "shop"] }] });
    vec![
        object("HTTPProxy", "valid", root()),
        object("HTTPProxy", "empty", json!({})),
        object("ExtensionService", "valid", extension),
        object("TLSCertificateDelegation", "valid", delegation),
    ]
}

/// Returns objects with fields of later versions of Contour, which Lockgate serves.
pub fn later() -> Vec<Value> {
    let mut spec = root();
    let host = &mut spec["virtualhost"];
    host["jwtProviders"] =
        json!([{ "name": "local", "localJWKS": { "secretName": "keys", "key": "jwks" }, "forwardJWT": false }]);
    host["authorization"] = json!({
        "extensionRef": { "name": "auth" }, "serviceType": "http",
        "httpSettings": {
            "pathPrefix": "/auth", "allowedAuthorizationHeaders": [{ "exact": "x-user", "ignoreCase": true }],
            "allowedUpstreamHeaders": [{ "prefix": "x-" }],
        },
    });
    let extension = json!({ "services": [{ "name": "auth", "port": 80 }], "protocol": "http/1.1" });
    vec![object("HTTPProxy", "later", spec), object("ExtensionService", "later", extension)]
}

/// Creates objects, and fails unless the API server has the same spec and the initial status.
pub async fn assert_stored(server: &ApiServer, owner: &str, objects: &[Value]) {
    for object in objects {
        let [kind, name] = [&object["kind"], &object["metadata"]["name"]].map(|one| one.as_str().expect("a text"));
        let created = server.kubectl(&["create", "--output=json", "-f", "-"], &object.to_string()).await;
        let created: Value = serde_json::from_str(&created).expect("JSON");
        assert_eq!(created["spec"], object["spec"], "{kind} {name} by the definitions of {owner}");
        if kind == "HTTPProxy" {
            assert_eq!(created["status"]["currentStatus"], "NotReconciled", "{owner}");
        }
        server.kubectl(&["delete", kind, name], "").await;
    }
}

/// The end of the name of a field below `spec`, and a value that it must not have. `null` removes the field.
fn faults() -> Vec<(&'static str, Value)> {
    let long = "a".repeat(5000);
    vec![
        ("/virtualhost/fqdn", Value::Null),
        ("/virtualhost/fqdn", json!("A.test")),
        ("/virtualhost/fqdn", json!("a.*.test")),
        ("/virtualhost/tls/passthrough", json!("true")),
        ("/virtualhost/tls/clientValidation/caSecret", json!("")),
        ("/virtualhost/corsPolicy/allowOrigin", json!([])),
        ("/virtualhost/corsPolicy/allowMethods/0", json!("GET,POST")),
        ("/virtualhost/corsPolicy/maxAge", json!("10")),
        ("/virtualhost/authorization/extensionRef/name", json!("")),
        ("/virtualhost/authorization/authPolicy/context/team", json!(1)),
        ("/virtualhost/authorization/responseTimeout", json!("soon")),
        ("/virtualhost/authorization/withRequestBody/maxRequestBytes", json!(0)),
        ("/virtualhost/jwtProviders/0/name", Value::Null),
        ("/virtualhost/jwtProviders/0/remoteJWKS", Value::Null),
        ("/virtualhost/jwtProviders/0/remoteJWKS/uri", json!("")),
        ("/virtualhost/jwtProviders/0/remoteJWKS/timeout", json!("infinity")),
        ("/virtualhost/jwtProviders/0/remoteJWKS/dnsLookupFamily", json!("v5")),
        ("/virtualhost/jwtProviders/0/remoteJWKS/validation/subjectName", json!("other.test")),
        ("/virtualhost/rateLimitPolicy/local/requests", json!(0)),
        ("/virtualhost/rateLimitPolicy/local/unit", json!("day")),
        ("/virtualhost/rateLimitPolicy/local/responseStatusCode", json!(200)),
        ("/virtualhost/rateLimitPolicy/global/descriptors/0/entries", json!([])),
        ("/virtualhost/rateLimitPolicy/global/descriptors/0/entries/0/genericKey/value", Value::Null),
        (
            "/virtualhost/rateLimitPolicy/global/descriptors/0/entries/3/requestHeaderValueMatch/headers/0/name",
            Value::Null,
        ),
        ("/virtualhost/ipAllowPolicy/0/source", json!("peer")),
        ("/includes/0/name", Value::Null),
        ("/routes/0/conditions/1/header/name", Value::Null),
        ("/routes/0/conditions/2/queryParameter/name", Value::Null),
        ("/routes/0/services/0/name", Value::Null),
        ("/routes/0/services/0/port", json!(0)),
        ("/routes/0/services/0/port", json!(65_536)),
        ("/routes/0/services/0/port", json!("80")),
        ("/routes/0/services/0/weight", json!(-1)),
        ("/routes/0/services/0/protocol", json!("http")),
        ("/routes/0/services/0/healthPort", json!(70_000)),
        ("/routes/0/services/0/validation/caSecret", Value::Null),
        ("/routes/0/services/0/validation/subjectNames", json!([])),
        ("/routes/0/services/0/validation/subjectNames", json!(["b.test"])),
        ("/routes/0/services/0/validation/subjectNames", json!(["a.test", "b", "c", "d", "e", "f", "g", "h", "i"])),
        ("/routes/0/services/0/slowStartPolicy/window", Value::Null),
        ("/routes/0/services/0/slowStartPolicy/aggression", json!("-1")),
        ("/routes/0/services/0/slowStartPolicy/minWeightPercent", json!(101)),
        ("/routes/0/services/0/cookieRewritePolicies/0/name", json!("a b")),
        ("/routes/0/services/0/cookieRewritePolicies/0/pathRewrite/value", json!("/a;b")),
        ("/routes/0/services/0/cookieRewritePolicies/0/pathRewrite/value", json!(long)),
        ("/routes/0/services/0/cookieRewritePolicies/0/domainRewrite/value", json!("A_b")),
        ("/routes/0/services/0/cookieRewritePolicies/0/sameSite", json!("lax")),
        ("/routes/0/timeoutPolicy/response", json!("5")),
        ("/routes/0/retryPolicy/count", json!(-2)),
        ("/routes/0/retryPolicy/perTryTimeout", json!("1 s")),
        ("/routes/0/retryPolicy/retryOn/0", json!("4xx")),
        ("/routes/0/pathRewritePolicy/replacePrefix/0/replacement", json!("")),
        ("/routes/0/requestHeadersPolicy/set/0/value", json!("")),
        ("/routes/0/loadBalancerPolicy/requestHashPolicies/0/headerHashOptions/headerName", json!("")),
        ("/routes/0/healthCheckPolicy/path", Value::Null),
        ("/routes/0/healthCheckPolicy/expectedStatuses/0/end", json!(601)),
        ("/routes/0/internalRedirectPolicy/allowCrossSchemeRedirect", json!("Sometimes")),
        ("/routes/0/internalRedirectPolicy/redirectResponseCodes/0", json!(300)),
        ("/routes/1/requestRedirectPolicy/scheme", json!("ftp")),
        ("/routes/1/requestRedirectPolicy/hostname", json!("b_test")),
        ("/routes/1/requestRedirectPolicy/statusCode", json!(304)),
        ("/routes/1/requestRedirectPolicy/path", json!("new")),
        ("/routes/2/directResponsePolicy/statusCode", json!(600)),
        ("/tcpproxy/services/0/port", Value::Null),
        ("/tcpproxy/include/name", Value::Null),
        ("/tcpproxy/healthCheckPolicy/intervalSeconds", json!("5s")),
    ]
}

/// Returns a spec with a fault.
fn faulty(pointer: &str, value: &Value) -> Value {
    let mut spec = root();
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer");
    let parent = spec.pointer_mut(parent).unwrap_or_else(|| panic!("{pointer}: no such field"));
    match (parent, value) {
        (Value::Object(fields), Value::Null) => {
            drop(fields.remove(name).unwrap_or_else(|| panic!("{pointer}: no such field")))
        }
        (Value::Object(fields), value) => drop(fields.insert(name.to_owned(), value.clone())),
        (Value::Array(items), value) => items[name.parse::<usize>().expect("an index")] = value.clone(),
        (other, _) => panic!("{pointer}: {other}"),
    }
    spec
}

/// Returns the field that an error has to name: that of the pointer, or the block around it.
fn field(pointer: &str) -> String {
    let (parent, _) = pointer.rsplit_once('/').expect("a pointer");
    let parts = parent.split('/').skip(1);
    parts.fold("spec".to_owned(), |path, part| match part.parse::<usize>() {
        Ok(index) => format!("{path}[{index}]"),
        Err(_) => format!("{path}.{part}"),
    })
}

/// Fails unless the API server refuses all faulty objects and names the field. Returns their number.
pub async fn assert_refused(server: &ApiServer, owner: &str) -> usize {
    let spec_of = |kind: &str, name: &str, spec| (name.to_owned(), "spec".to_owned(), object(kind, name, spec));
    let mut all: Vec<(String, String, Value)> = faults()
        .iter()
        .enumerate()
        .map(|(index, (pointer, value))| {
            let name = format!("fault-{index}");
            (name.clone(), field(pointer), object("HTTPProxy", &name, faulty(pointer, value)))
        })
        .collect();
    let service = json!([{ "name": "auth", "port": 80 }]);
    all.extend([
        spec_of("ExtensionService", "none", json!({ "services": [] })),
        spec_of("ExtensionService", "absent", json!({ "protocol": "h2" })),
        spec_of("ExtensionService", "port", json!({ "services": [{ "name": "auth", "port": 65_536 }] })),
        spec_of("ExtensionService", "protocol", json!({ "services": service, "protocol": "http" })),
        spec_of("ExtensionService", "version", json!({ "services": service, "protocolVersion": "v2" })),
        spec_of(
            "ExtensionService",
            "number",
            json!({ "services": service, "circuitBreakerPolicy": { "maxRetries": "3" } }),
        ),
        spec_of("TLSCertificateDelegation", "missing", json!({})),
        spec_of("TLSCertificateDelegation", "secret", json!({ "delegations": [{ "targetNamespaces": ["*"] }] })),
        spec_of("TLSCertificateDelegation", "targets", json!({ "delegations": [{ "secretName": "cert" }] })),
    ]);
    let items: Vec<&Value> = all.iter().map(|(_, _, object)| object).collect();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": items }).to_string();
    let create = ["create", "--dry-run=server", "--validate=false", "-f", "-"];
    let errors = server.try_kubectl(&create, &list).await.expect_err("all objects are invalid");
    let errors: Vec<&str> = errors.split("\nThe ").collect();
    let mut accepted = Vec::new();
    for (name, field, object) in &all {
        let start = format!("\"{name}\" is invalid");
        let error = errors.iter().find(|error| error.contains(&start)).copied().unwrap_or_default();
        if !error.contains(field) {
            accepted.push(format!("{name}, {field}: {error:?}\n  {}", object["spec"]));
        }
    }
    assert!(accepted.is_empty(), "the definitions of {owner} refuse all but:\n{}", accepted.join("\n"));
    all.len()
}
