//! Hints for the annotations of ingress-nginx: the effect that is missing without each of them, and its replacement.
//!
//! The hints are advice for people. The translation decides whether an annotation is enforced, ignored, or denied.

use lockgate_route::settings::Settings;

/// The prefix of the annotations.
const PREFIX: &str = "nginx.ingress.kubernetes.io/";

/// The prefix of early versions of ingress-nginx, and of HAProxy Ingress, which has annotations of the same names.
const FORMER_PREFIX: &str = "ingress.kubernetes.io/";

/// A hint for one annotation.
#[derive(Clone, Copy)]
pub struct Hint {
    name: &'static str,
    /// The consequence of its absence: lower case, no full stop.
    pub consequence: &'static str,
    /// The replacement: a sentence.
    pub remedy: &'static str,
    /// Whether Lockgate does the same without the annotation, with this value and these settings.
    pub is_same: fn(&str, &Settings) -> bool,
}

impl Hint {
    /// Returns the consequence for a value with which Lockgate does the same.
    pub fn consequence_if_same(&self) -> &'static str {
        "Lockgate behaves like this without it"
    }
}

/// Returns the hint for the annotation `name`.
pub fn hint(name: &str) -> Option<&'static Hint> {
    let name = name.strip_prefix(PREFIX).or_else(|| name.strip_prefix(FORMER_PREFIX))?;
    HINTS.iter().find(|hint| match hint.name.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == hint.name,
    })
}

fn never(_: &str, _: &Settings) -> bool {
    false
}

fn always(_: &str, _: &Settings) -> bool {
    true
}

fn is_off(value: &str, _: &Settings) -> bool {
    value == "false" || value == "off"
}

/// Creates a hint for an annotation that Lockgate never matches.
const fn lost(name: &'static str, consequence: &'static str, remedy: &'static str) -> Hint {
    Hint { name, consequence, remedy, is_same: never }
}

/// Creates a hint for an annotation without effect on answers.
const fn needless(name: &'static str) -> Hint {
    Hint { name, consequence: "left out", remedy: "No action is needed.", is_same: always }
}

/// Creates a hint for a switch that changes nothing if it is off.
const fn switch(name: &'static str, consequence: &'static str, remedy: &'static str) -> Hint {
    Hint { name, consequence, remedy, is_same: is_off }
}

const PLAIN_TEXT: &str =
    "the Service determines the protocol of the backend, which is HTTP/1.1 in plain text by default";
const PROTOCOL: &str =
    "Set appProtocol of the Service's port, or projectcontour.io/upstream-protocol.tls (h2, h2c) on the Service.";
const REWRITE: &str = "Use an HTTPPolicy (urlRewrite) with the Ingress as its target.";
const REDIRECT: &str = "Use an HTTPRoute with the filter RequestRedirect.";
const AUTHORIZATION: &str = "Use an HTTPRoute with an HTTPPolicy (externalAuthorization). Or set externalAuthorization as an operator and \
     add the annotation to ingress.ignoredAnnotations.";
const ADDRESSES: &str = "Use an HTTPRoute with an HTTPPolicy (clientAddresses), or restrict the addresses at the load balancer \
     (loadBalancerSourceRanges), then remove the annotation.";
const CLIENT_CERTIFICATES: &str =
    "Use a Gateway with spec.tls.frontend and an HTTPRoute, or verify client certificates in the application.";
const FIREWALL: &str = "Run the firewall in front of Lockgate or in the application, then remove the annotation.";
const SNIPPET: &str = "Replace each directive by a setting or an HTTPRoute, then remove the annotation.";
const CORS: &str = "Use an HTTPPolicy (cors) with the Ingress as its target.";
const CANARY: &str = "Use one HTTPRoute with two backendRefs and weights, or with a rule that matches the header.";
const LIMIT: &str =
    "Use an HTTPRoute with an HTTPPolicy (localRateLimit), or set rateLimit with a rate limit service as an operator.";
const AFFINITY: &str =
    "Use an HTTPRoute with sessionPersistence (experimental channel), or store sessions outside of the pods.";
const RETRIES: &str =
    "Use an HTTPPolicy (retries) with the Ingress as its target, or the annotation projectcontour.io/retry-on.";
const IDLE: &str = "Use an HTTPPolicy (timeouts.idle) with the Ingress as its target; it limits the time without data in both directions.";
const UPSTREAM_TLS: &str = "Set upstream.clientCertificate or upstream.tls as an operator; Lockgate does not verify the certificates of backends \
     for single Ingresses yet.";
const MIRROR: &str = "Use an HTTPPolicy (mirrors) with the Ingress as its target.";
const ERRORS: &str =
    "Use an HTTPPolicy (errorResponses) with the Ingress as its target, and the setting http.errorResponses.";
const LOGS: &str = "Set accessLog as an operator, for all hosts.";

/// The hints. Access restrictions need no consequence, because the translation states it.
static HINTS: &[Hint] = &[
    lost("rewrite-target", "the path reaches the backend unchanged", REWRITE),
    switch(
        "use-regex",
        "a path of type ImplementationSpecific with a regular expression is case-sensitive and must match the whole path",
        "Write the paths as whole regular expressions, or with the type Prefix; use an HTTPRoute for RegularExpression.",
    ),
    lost("app-root", "/ is not redirected", REDIRECT),
    lost("permanent-redirect*", "requests are not redirected", REDIRECT),
    lost("temporal-redirect*", "requests are not redirected", REDIRECT),
    switch("from-to-www-redirect", "the other host is not redirected", REDIRECT),
    lost("server-alias", "the other hosts are not served", "Add a rule and a TLS entry for each host."),
    lost("upstream-vhost", "the backend receives the host of the client", REWRITE),
    lost("x-forwarded-prefix", "the header is not set", "Use an HTTPRoute with the filter RequestHeaderModifier."),
    lost("custom-headers", "the headers are not set", "Use an HTTPRoute with the filter ResponseHeaderModifier."),
    needless("preserve-trailing-slash"),
    // With the former prefix: the translation reads the present one.
    Hint {
        name: "ssl-redirect",
        consequence: "plain HTTP of a host with a certificate is redirected to HTTPS",
        remedy: "Set nginx.ingress.kubernetes.io/ssl-redirect, which Lockgate reads.",
        is_same: |value, settings| value == "true" && settings.tls.redirect,
    },
    Hint {
        name: "proxy-body-size",
        consequence: "a request body is limited by the setting http.maxRequestBody alone",
        remedy: "Set http.maxRequestBody as an operator, or limit the size in the application.",
        is_same: |value, settings| value == "0" && settings.http.max_request_body_bytes.is_none(),
    },
    lost(
        "proxy-read-timeout",
        "the time between two reads is limited by timeouts.streamIdle",
        "Use an HTTPPolicy (timeouts.idle, or timeouts.request for whole responses) with the Ingress as its target.",
    ),
    lost("proxy-send-timeout", "the time between two writes is limited by timeouts.streamIdle", IDLE),
    lost(
        "proxy-connect-timeout",
        "the time of a connection attempt is limited by timeouts.connect",
        "Set the annotation lockgate.dev/connect-timeout on the Service.",
    ),
    Hint {
        name: "backend-protocol",
        consequence: PLAIN_TEXT,
        remedy: PROTOCOL,
        is_same: |value, _| value.eq_ignore_ascii_case("HTTP") || value.eq_ignore_ascii_case("AUTO_HTTP"),
    },
    switch("secure-backends", PLAIN_TEXT, PROTOCOL),
    switch("grpc-backend", PLAIN_TEXT, PROTOCOL),
    Hint {
        name: "protocol",
        consequence: PLAIN_TEXT,
        remedy: PROTOCOL,
        is_same: |value, _| value.eq_ignore_ascii_case("http"),
    },
    // Buffers decide where slow clients wait. Requests and responses are the same.
    needless("proxy-buffering"),
    needless("proxy-request-buffering"),
    needless("proxy-buffer-size"),
    needless("proxy-buffers-number"),
    needless("proxy-busy-buffers-size"),
    needless("proxy-max-temp-file-size"),
    needless("client-body-buffer-size"),
    needless("http2-push-preload"),
    needless("connection-proxy-header"),
    needless("websocket-services"),
    Hint {
        name: "proxy-http-version",
        consequence: "left out",
        remedy: "No action is needed: backends are reached over HTTP/1.1.",
        is_same: |value, _| value == "1.1",
    },
    switch(
        "service-upstream",
        "requests are balanced over the endpoints, not sent to the address of the Service",
        "No action is needed, unless a service mesh must see the address of the Service.",
    ),
    lost("proxy-next-upstream*", "the setting retries determines the retries", RETRIES),
    switch("enable-cors", "preflight requests reach the backend, and no CORS headers are added", CORS),
    lost("cors-*", "no CORS headers are added", CORS),
    switch(
        "canary",
        "the Ingress is served like any other, so its paths conflict with the paths of the main Ingress",
        CANARY,
    ),
    lost("canary-*", "requests are not divided by this rule", CANARY),
    lost("affinity*", "requests of one client reach different pods", AFFINITY),
    lost("session-cookie-*", "no session cookie is set", AFFINITY),
    lost("upstream-hash-by*", "requests are not distributed by a hash", AFFINITY),
    Hint {
        name: "load-balance",
        consequence: "endpoints are selected in turn",
        remedy: "No action is needed, unless the backend needs another policy.",
        is_same: |value, _| value == "round_robin",
    },
    lost("limit-*", "clients are not limited", LIMIT),
    lost("auth-tls-*", "client certificates are not verified", CLIENT_CERTIFICATES),
    lost("auth-*", "requests are not authorized in this way", AUTHORIZATION),
    lost("satisfy", "requests are not authorized in this way", AUTHORIZATION),
    lost("enable-global-auth", "the global authorization of ingress-nginx does not exist here", AUTHORIZATION),
    lost("whitelist-source-range", "", ADDRESSES),
    lost("allowlist-source-range", "", ADDRESSES),
    lost("denylist-source-range", "", ADDRESSES),
    lost("configuration-snippet", "its directives have no effect", SNIPPET),
    lost("server-snippet", "its directives have no effect", SNIPPET),
    lost("stream-snippet", "its directives have no effect", SNIPPET),
    switch("enable-modsecurity", "no firewall inspects the requests", FIREWALL),
    switch("enable-owasp-core-rules", "no firewall inspects the requests", FIREWALL),
    lost("modsecurity-*", "no firewall inspects the requests", FIREWALL),
    lost("proxy-ssl-*", "the connection to the backend has other TLS parameters", UPSTREAM_TLS),
    switch(
        "ssl-passthrough",
        "TLS is terminated by Lockgate, with the certificate of the Ingress",
        "Use a Gateway with a listener of mode Passthrough, and a TLSRoute.",
    ),
    lost("ssl-ciphers", "tls.cipherSuites sets the cipher suites", "Set tls.cipherSuites as an operator."),
    needless("ssl-prefer-server-ciphers"),
    lost("mirror-*", "requests are not copied", MIRROR),
    lost("custom-http-errors", "error responses of the backend reach the client unchanged", ERRORS),
    lost("default-backend", "a Service without endpoints is answered 503", ERRORS),
    needless("disable-proxy-intercept-errors"),
    lost("proxy-cookie-*", "cookies of the backend reach the client unchanged", ERRORS_OF_COOKIES),
    lost("proxy-redirect-*", "redirects of the backend reach the client unchanged", ERRORS_OF_REDIRECTS),
    Hint {
        name: "enable-access-log",
        consequence: "the setting accessLog determines the log",
        remedy: LOGS,
        is_same: |value, _| value == "true",
    },
    switch("enable-rewrite-log", "rewrites are not logged", LOGS),
    lost("enable-opentelemetry", "the setting tracing determines the traces", "Set tracing as an operator."),
    lost("opentelemetry-*", "the setting tracing determines the traces", "Set tracing as an operator."),
];

const ERRORS_OF_COOKIES: &str = "Set the domain and the path of cookies in the application.";
const ERRORS_OF_REDIRECTS: &str = "Let the application write its redirects for the host and path of the client.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_sentences_and_reachable() {
        for hint in HINTS {
            assert!(hint.remedy.ends_with('.'), "{}", hint.name);
            let name = format!("{PREFIX}{}", hint.name.replace('*', "x"));
            let found = super::hint(&name).map(|found| found.name);
            assert_eq!(found, Some(hint.name), "an earlier hint hides {name}");
        }
    }
}
