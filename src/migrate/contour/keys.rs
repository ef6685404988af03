//! The table of all keys of Contour's configuration, in both forms, with their counterparts.
//!
//! Sources: Contour `pkg/config/parameters.go` (the configuration file) and `apis/projectcontour/v1alpha1/contourconfig.go`
//! (ContourConfiguration). The keys of earlier versions come from the documentation of these versions.

use super::convert::How;

/// A key of Contour's configuration.
#[derive(Debug)]
pub struct ContourKey {
    /// The path in the configuration file. Empty if the file lacks the key.
    pub file: &'static str,
    /// The path in the spec of a ContourConfiguration. Empty if the object lacks the key.
    pub object: &'static str,
    /// The counterpart.
    pub to: To,
}

/// The counterpart of a key.
#[derive(Debug, Clone, Copy)]
pub enum To {
    /// A setting, and the conversion of the value.
    Set(&'static str, How),
    /// Settings that depend on several keys; `parts` and `services` write them.
    Part,
    /// None, and no request depends on it.
    Nothing(&'static str),
    /// None. The texts: the consequence and the remedy. A value without an effect, such as `false`, has none.
    Lost(&'static str, &'static str),
}

use How::*;
use To::{Lost, Nothing, Part, Set};

const fn key(file: &'static str, object: &'static str, to: To) -> ContourKey {
    ContourKey { file, object, to }
}

const CLIENT: &str = "the controller of Lockgate connects to the API server of its pod, without a limit of requests";
const FLAGS: &str = "this version of Lockgate has no flags for features";
const SERVICE: &str = "the Helm chart sets status.envoyService to the Service of Lockgate's Envoys";
const CERTIFICATES: &str = "xds.tls: Lockgate issues the certificates between controller and Envoys itself";
const XDS: &str = "the Envoys of Lockgate connect to xds.address, and need a bootstrap of Lockgate";
const DEBUG: &str = "the debug pages of Lockgate are at admin.address, only for connections from the same machine";

/// Every key. `rustfmt` would need three times the lines.
#[rustfmt::skip]
pub const KEYS: &[ContourKey] = &[
    // The controller.
    key("debug", "", Set("log.level", Words(&[("true", "debug"), ("false", "info")]))),
    key("incluster", "", Nothing(CLIENT)),
    key("kubeconfig", "", Nothing(CLIENT)),
    key("kubernetesClientQPS", "", Nothing(CLIENT)),
    key("kubernetesClientBurst", "", Nothing(CLIENT)),
    key("server.xds-server-type", "", Nothing(XDS)),
    key("", "xdsServer.address", Nothing(XDS)),
    key("", "xdsServer.port", Nothing(XDS)),
    key("", "xdsServer.tls.caFile", Nothing(CERTIFICATES)),
    key("", "xdsServer.tls.certFile", Nothing(CERTIFICATES)),
    key("", "xdsServer.tls.keyFile", Nothing(CERTIFICATES)),
    key("", "xdsServer.tls.insecure", Nothing(CERTIFICATES)),
    key("", "debug.address", Nothing(DEBUG)),
    key("", "debug.port", Nothing(DEBUG)),
    key("", "health.address", Part),
    key("", "health.port", Part),
    key("metrics.contour.address", "metrics.address", Part),
    key("metrics.contour.port", "metrics.port", Part),
    key("metrics.contour.server-certificate-path", "metrics.tls.certFile", Part),
    key("metrics.contour.server-key-path", "metrics.tls.keyFile", Part),
    key("metrics.contour.ca-certificate-path", "metrics.tls.caFile", Part),
    key("leaderelection.lease-duration", "", Set("leaderElection.leaseDuration", Time)),
    key("leaderelection.renew-deadline", "", Set("leaderElection.renewDeadline", Time)),
    key("leaderelection.retry-period", "", Set("leaderElection.retryPeriod", Time)),
    key("leaderelection.configmap-name", "", Set("leaderElection.lease", Text)),
    key("leaderelection.configmap-namespace", "", Nothing("the Lease of Lockgate is in the namespace of its controller")),
    key("featureFlags", "featureFlags", Nothing(FLAGS)),
    // Objects.
    key("gateway.gatewayRef.name", "gateway.gatewayRef.name", Part),
    key("gateway.gatewayRef.namespace", "gateway.gatewayRef.namespace", Part),
    key("gateway.name", "", Part),
    key("gateway.namespace", "", Part),
    key("gateway.controllerName", "", Set("gateway.controller", Text)),
    key("", "ingress.classNames", Part),
    key("ingress-status-address", "ingress.statusAddress", Set("status.addresses", One)),
    key("envoy-service-name", "envoy.service.name", Nothing(SERVICE)),
    key("envoy-service-namespace", "envoy.service.namespace", Nothing(SERVICE)),
    key("disablePermitInsecure", "httpproxy.disablePermitInsecure", Set("httpProxy.permitInsecure", Not)),
    key("", "httpproxy.rootNamespaces", Set("httpProxy.rootNamespaces", Texts)),
    key("enableExternalNameService", "enableExternalNameService", Part),
    // Listeners.
    key("", "envoy.http.address", Set("listeners.http.address", Text)),
    key("", "envoy.http.port", Set("listeners.http.port", Count)),
    key("", "envoy.http.accessLog", Set("accessLog.httpFile", Text)),
    key("", "envoy.https.address", Set("listeners.https.address", Text)),
    key("", "envoy.https.port", Set("listeners.https.port", Count)),
    key("", "envoy.https.accessLog", Set("accessLog.httpsFile", Text)),
    key("", "envoy.health.address", Part),
    key("", "envoy.health.port", Part),
    key("metrics.envoy.address", "envoy.metrics.address", Part),
    key("metrics.envoy.port", "envoy.metrics.port", Part),
    key("metrics.envoy.server-certificate-path", "envoy.metrics.tls.certFile", Part),
    key("metrics.envoy.server-key-path", "envoy.metrics.tls.keyFile", Part),
    key("metrics.envoy.ca-certificate-path", "envoy.metrics.tls.caFile", Part),
    key("omEnforcedHealthListener.address", "envoy.omEnforcedHealth.address", Set("listeners.overloadProbe.address", Text)),
    key("omEnforcedHealthListener.port", "envoy.omEnforcedHealth.port", Set("listeners.overloadProbe.port", Count)),
    key("network.admin-port", "envoy.network.adminPort", Set("listeners.admin.port", Count)),
    key("", "envoy.listener.useProxyProtocol", Set("listeners.proxyProtocol", Words(&[("true", "required"), ("false", "off")]))),
    key("listener.connection-balancer", "envoy.listener.connectionBalancer", Set("listeners.connectionBalancer", Words(&[("exact", "exact"), ("", "off")]))),
    key("listener.per-connection-buffer-limit-bytes", "envoy.listener.per-connection-buffer-limit-bytes", Set("listeners.bufferLimit", Bytes)),
    key("listener.max-connections-per-listener", "envoy.listener.maxConnectionsPerListener", Set("listeners.maxConnections", Count)),
    key("listener.max-connections-to-accept-per-socket-event", "envoy.listener.maxConnectionsToAcceptPerSocketEvent", Set("listeners.maxConnectionsPerSocketEvent", Count)),
    key("listener.socket-options.tos", "envoy.listener.socketOptions.tos", Set("listeners.socketOptions.tos", Positive)),
    key("listener.socket-options.traffic-class", "envoy.listener.socketOptions.trafficClass", Set("listeners.socketOptions.trafficClass", Positive)),
    // HTTP.
    key("default-http-versions", "envoy.defaultHTTPVersions", Set("http.versions", Versions)),
    key("network.num-trusted-hops", "envoy.network.numTrustedHops", Set("http.trustedHops", Count)),
    key("network.strip-trailing-host-dot", "envoy.network.stripTrailingHostDot", Set("http.stripTrailingHostDot", Flag)),
    key("disableMergeSlashes", "envoy.listener.disableMergeSlashes", Set("http.mergeSlashes", Not)),
    key("disableAllowChunkedLength", "envoy.listener.disableAllowChunkedLength", Set("http.allowChunkedLength", Not)),
    key("serverHeaderTransformation", "envoy.listener.serverHeaderTransformation", Set("http.serverHeader", Text)),
    key("listener.max-requests-per-connection", "envoy.listener.maxRequestsPerConnection", Set("http.maxRequestsPerConnection", Count)),
    key("listener.max-requests-per-io-cycle", "envoy.listener.maxRequestsPerIOCycle", Set("http.maxRequestsPerIoCycle", Count)),
    key("listener.http2-max-concurrent-streams", "envoy.listener.httpMaxConcurrentStreams", Set("http.maxConcurrentStreams", Count)),
    key("compression.algorithm", "envoy.listener.compression.algorithm", Set("compression.algorithms", Algorithm)),
    key("policy.request-headers.set", "policy.requestHeaders.set", Set("headers.request.set", Headers)),
    key("policy.request-headers.remove", "policy.requestHeaders.remove", Set("headers.request.remove", Texts)),
    key("policy.response-headers.set", "policy.responseHeaders.set", Set("headers.response.set", Headers)),
    key("policy.response-headers.remove", "policy.responseHeaders.remove", Set("headers.response.remove", Texts)),
    key("policy.applyToIngress", "policy.applyToIngress", Part),
    // Time limits.
    key("request-timeout", "", Set("timeouts.request", Limit)),
    key("timeouts.request-timeout", "envoy.timeouts.requestTimeout", Set("timeouts.request", Limit)),
    key("timeouts.connection-idle-timeout", "envoy.timeouts.connectionIdleTimeout", Set("timeouts.connectionIdle", Limit)),
    key("timeouts.stream-idle-timeout", "envoy.timeouts.streamIdleTimeout", Set("timeouts.streamIdle", Limit)),
    key("timeouts.max-connection-duration", "envoy.timeouts.maxConnectionDuration", Set("timeouts.maxConnectionDuration", Limit)),
    key("timeouts.delayed-close-timeout", "envoy.timeouts.delayedCloseTimeout", Set("timeouts.delayedClose", Limit)),
    key("timeouts.connection-shutdown-grace-period", "envoy.timeouts.connectionShutdownGracePeriod", Set("timeouts.drain", Limit)),
    key("timeouts.connect-timeout", "envoy.timeouts.connectTimeout", Set("timeouts.connect", Time)),
    // TLS.
    key("tls.minimum-protocol-version", "envoy.listener.tls.minimumProtocolVersion", Set("tls.minimumVersion", Text)),
    key("tls.maximum-protocol-version", "envoy.listener.tls.maximumProtocolVersion", Set("tls.maximumVersion", Text)),
    key("tls.cipher-suites", "envoy.listener.tls.cipherSuites", Set("tls.cipherSuites", Texts)),
    key("tls.ecdh-curves", "envoy.listener.tls.ecdhCurves", Set("tls.curves", Texts)),
    key("tls.fingerprint.ja3", "envoy.listener.tls.fingerprint.ja3", Set("tls.fingerprints.ja3", Flag)),
    key("tls.fingerprint.ja4", "envoy.listener.tls.fingerprint.ja4", Set("tls.fingerprints.ja4", Flag)),
    key("tls.fallback-certificate.name", "httpproxy.fallbackCertificate.name", Part),
    key("tls.fallback-certificate.namespace", "httpproxy.fallbackCertificate.namespace", Part),
    key("tls.envoy-client-certificate.name", "envoy.clientCertificate.name", Part),
    key("tls.envoy-client-certificate.namespace", "envoy.clientCertificate.namespace", Part),
    // Backends.
    key("cluster.dns-lookup-family", "envoy.cluster.dnsLookupFamily", Set("upstream.dnsLookupFamily", Text)),
    key("cluster.max-requests-per-connection", "envoy.cluster.maxRequestsPerConnection", Set("upstream.maxRequestsPerConnection", Count)),
    key("cluster.per-connection-buffer-limit-bytes", "envoy.cluster.per-connection-buffer-limit-bytes", Set("upstream.bufferLimit", Bytes)),
    key("cluster.circuit-breakers.max-connections", "envoy.cluster.circuitBreakers.maxConnections", Set("upstream.circuitBreakers.maxConnections", Positive)),
    key("cluster.circuit-breakers.max-pending-requests", "envoy.cluster.circuitBreakers.maxPendingRequests", Set("upstream.circuitBreakers.maxPendingRequests", Positive)),
    key("cluster.circuit-breakers.max-requests", "envoy.cluster.circuitBreakers.maxRequests", Set("upstream.circuitBreakers.maxRequests", Positive)),
    key("cluster.circuit-breakers.max-retries", "envoy.cluster.circuitBreakers.maxRetries", Set("upstream.circuitBreakers.maxRetries", Positive)),
    key("cluster.circuit-breakers.per-host-max-connections", "envoy.cluster.circuitBreakers.perHostMaxConnections", Set("upstream.circuitBreakers.perHostMaxConnections", Positive)),
    key("cluster.upstream-tls.minimum-protocol-version", "envoy.cluster.upstreamTLS.minimumProtocolVersion", Set("upstream.tls.minimumVersion", Text)),
    key("cluster.upstream-tls.maximum-protocol-version", "envoy.cluster.upstreamTLS.maximumProtocolVersion", Set("upstream.tls.maximumVersion", Text)),
    key("cluster.upstream-tls.cipher-suites", "envoy.cluster.upstreamTLS.cipherSuites", Set("upstream.tls.cipherSuites", Texts)),
    key("cluster.upstream-tls.ecdh-curves", "envoy.cluster.upstreamTLS.ecdhCurves", Set("upstream.tls.curves", Texts)),
    // The access log.
    key("accesslog-format", "envoy.logging.accessLogFormat", Part),
    key("accesslog-format-string", "envoy.logging.accessLogFormatString", Set("accessLog.text", Text)),
    key("json-fields", "envoy.logging.accessLogJSONFields", Set("accessLog.jsonFields", Fields)),
    key("accesslog-level", "envoy.logging.accessLogLevel", Part),
    // Services of Envoy.
    key("tracing.extensionService", "tracing.extensionService", Part),
    key("tracing.serviceName", "tracing.serviceName", Set("tracing.serviceName", Text)),
    key("tracing.overallSampling", "tracing.overallSampling", Set("tracing.sampling.overall", Percent)),
    key("tracing.clientSampling", "tracing.clientSampling", Set("tracing.sampling.client", Percent)),
    key("tracing.randomSampling", "tracing.randomSampling", Set("tracing.sampling.random", Percent)),
    key("tracing.maxPathTagLength", "tracing.maxPathTagLength", Set("tracing.maxPathTagLength", Count)),
    key("tracing.customTags", "tracing.customTags", Set("tracing.customTags", Tags)),
    key("tracing.includePodDetail", "tracing.includePodDetail", Set("tracing.includePodDetail", Flag)),
    key("rateLimitService.extensionService", "rateLimitService.extensionService", Part),
    key("rateLimitService.domain", "rateLimitService.domain", Set("rateLimit.domain", Text)),
    key("rateLimitService.failOpen", "rateLimitService.failOpen", Set("rateLimit.failOpen", Flag)),
    key("rateLimitService.enableXRateLimitHeaders", "rateLimitService.enableXRateLimitHeaders", Set("rateLimit.headers", Flag)),
    key("rateLimitService.enableResourceExhaustedCode", "rateLimitService.enableResourceExhaustedCode", Set("rateLimit.resourceExhausted", Flag)),
    key("rateLimitService.defaultGlobalRateLimitPolicy", "rateLimitService.defaultGlobalRateLimitPolicy", Part),
    key("globalExtAuth.extensionService", "globalExtAuth.extensionRef", Part),
    key("globalExtAuth.serviceType", "globalExtAuth.serviceType", Set("externalAuthorization.protocol", Text)),
    key("globalExtAuth.responseTimeout", "globalExtAuth.responseTimeout", Set("externalAuthorization.timeout", Limit)),
    key("globalExtAuth.failOpen", "globalExtAuth.failOpen", Set("externalAuthorization.failOpen", Flag)),
    key("globalExtAuth.authPolicy.context", "globalExtAuth.authPolicy.context", Set("externalAuthorization.context", Map)),
    key("globalExtAuth.authPolicy.disabled", "globalExtAuth.authPolicy.disabled", Lost(
        "Lockgate authorizes all requests, also those of routes that do not enable authorization",
        "Remove externalAuthorization from the settings, and write an HTTPPolicy for the routes that need it (docs/policies.md).")),
    key("globalExtAuth.withRequestBody.maxRequestBytes", "globalExtAuth.withRequestBody.maxRequestBytes", Set("externalAuthorization.requestBody.maxBytes", Bytes)),
    key("globalExtAuth.withRequestBody.allowPartialMessage", "globalExtAuth.withRequestBody.allowPartialMessage", Set("externalAuthorization.requestBody.allowPartial", Flag)),
    key("globalExtAuth.withRequestBody.packAsBytes", "globalExtAuth.withRequestBody.packAsBytes", Set("externalAuthorization.requestBody.packAsBytes", Flag)),
    key("globalExtAuth.httpSettings.pathprefix", "globalExtAuth.httpSettings.pathPrefix", Set("externalAuthorization.http.pathPrefix", Text)),
    key("globalExtAuth.httpSettings.allowedauthorizationheaders", "globalExtAuth.httpSettings.allowedAuthorizationHeaders", Set("externalAuthorization.http.allowedRequestHeaders", Names)),
    key("globalExtAuth.httpSettings.allowedupstreamheaders", "globalExtAuth.httpSettings.allowedUpstreamHeaders", Set("externalAuthorization.http.allowedUpstreamHeaders", Names)),
    key("runtime-settings", "envoy.runtimeSettings", Set("runtime", Map)),
];
