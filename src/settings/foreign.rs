//! Hints for unknown keys and names: keys of other controllers, planned keys, keys of earlier versions, and similar names.

/// Keys of Contour and their equivalents. The last parts are compared, ignoring case, `-`, and `_`.
const OF_CONTOUR: &[(&str, &str)] = &[
    ("adminport", "listeners.admin.port"),
    ("accesslog", "accessLog.httpFile or accessLog.httpsFile"),
    ("accesslogformat", "accessLog.format"),
    ("accesslogformatstring", "accessLog.text"),
    ("accessloglevel", "accessLog.level"),
    ("accesslogfields", "accessLog.jsonFields"),
    ("accesslogjsonfields", "accessLog.jsonFields"),
    ("allowedauthorizationheaders", "externalAuthorization.http.allowedRequestHeaders"),
    ("allowpartialmessage", "externalAuthorization.requestBody.allowPartial"),
    ("authpolicy", "externalAuthorization.context"),
    ("clientcertificate", "upstream.clientCertificate"),
    ("connecttimeout", "timeouts.connect"),
    ("connectionidletimeout", "timeouts.connectionIdle"),
    ("connectionshutdowngraceperiod", "timeouts.drain"),
    ("debug", "admin.address"),
    ("defaulthttpversions", "http.versions"),
    ("defaulttlssecret", "tls.defaultSecret"),
    ("defaultglobalratelimitpolicy", "rateLimit.descriptors"),
    ("delayedclosetimeout", "timeouts.delayedClose"),
    ("disableallowchunkedlength", "http.allowChunkedLength"),
    ("disablemergeslashes", "http.mergeSlashes"),
    ("dnslookupfamily", "upstream.dnsLookupFamily"),
    ("ecdhcurves", "tls.curves"),
    ("enableexternalnameservice", "externalNames.allow"),
    ("enableresourceexhaustedcode", "rateLimit.resourceExhausted"),
    ("enablexratelimitheaders", "rateLimit.headers"),
    ("envoy.health", "listeners.stats"),
    ("envoy.metrics", "listeners.stats, and listeners.stats.tls by TLS"),
    ("extensionservice", "an endpoint, as HOST:PORT"),
    ("gateway.controllername", "gateway.controller"),
    ("globalcircuitbreakerdefaults", "upstream.circuitBreakers"),
    ("globalextauth", "externalAuthorization"),
    ("globalextauth.responsetimeout", "externalAuthorization.timeout"),
    ("health", "admin.address"),
    ("httpmaxconcurrentstreams", "http.maxConcurrentStreams"),
    ("ingressstatusaddress", "status.addresses"),
    ("leaderelection", "leaderElection"),
    ("maxconnectionsperlistener", "listeners.maxConnections"),
    ("maxconnectionstoacceptpersocketevent", "listeners.maxConnectionsPerSocketEvent"),
    ("maximumprotocolversion", "tls.maximumVersion"),
    ("maxrequestbytes", "externalAuthorization.requestBody.maxBytes"),
    ("metrics.contour.cacertificatepath", "metrics.tls, a directory"),
    ("metrics.contour.port", "metrics.address, with the port"),
    ("metrics.contour.servercertificatepath", "metrics.tls, a directory"),
    ("metrics.contour.serverkeypath", "metrics.tls, a directory"),
    ("metrics.envoy.address", "listeners.stats.address"),
    ("metrics.envoy.cacertificatepath", "listeners.stats.tls.clientCa, the name of a Secret"),
    ("metrics.envoy.port", "listeners.stats.port"),
    ("metrics.envoy.servercertificatepath", "listeners.stats.tls.secret, the name of a Secret"),
    ("metrics.envoy.serverkeypath", "listeners.stats.tls.secret, the name of a Secret"),
    ("metrics.port", "metrics.address, with the port"),
    ("minimumprotocolversion", "tls.minimumVersion"),
    ("numtrustedhops", "http.trustedHops"),
    ("omenforcedhealth", "listeners.overloadProbe"),
    ("overloadmaxdownstreamconn", "overload.maxConnections"),
    ("overloadmaxheap", "overload.maxHeap"),
    ("perconnectionbufferlimitbytes", "listeners.bufferLimit"),
    ("policy", "headers"),
    ("ratelimitservice", "rateLimit"),
    ("requesttimeout", "timeouts.request"),
    ("responsetimeout", "timeouts.response"),
    ("runtimesettings", "runtime"),
    ("serverheadertransformation", "http.serverHeader"),
    ("servicetype", "externalAuthorization.protocol"),
    ("statusaddress", "status.addresses"),
    ("streamidletimeout", "timeouts.streamIdle"),
    ("useproxyprotocol", "listeners.proxyProtocol"),
    ("watchnamespaces", "watch.namespaces"),
    ("withrequestbody", "externalAuthorization.requestBody"),
    ("xdsserver", "xds"),
    ("xdsserver.address", "xds.address, with the port"),
    ("xdsserver.port", "xds.address, with the port"),
    ("xdsserver.tls", "xds.tls"),
    ("xffnumtrustedhops", "http.trustedHops"),
];

/// Keys, by first part, of features that are not supported yet.
const NOT_YET: &[(&str, &str)] = &[("httpproxy", "settings of HTTPProxies")];

/// Keys of earlier versions, and the keys that replace them.
const REMOVED: &[(&str, &str)] = &[
    ("gateway.policies", "tenants.maxConfigurationPerNamespace"),
    ("routes.maxcopymemorypernamespace", "tenants.maxConfigurationPerNamespace"),
    ("tls.maxwildcardmemorypernamespace", "tenants.maxConfigurationPerNamespace"),
];

/// Keys that have another name in this version, and this name. Files may use both.
pub const RENAMED: &[(&str, &str)] =
    &[("tls.redirect", "ingress.httpsRedirect"), ("tls.redirectStatus", "ingress.httpsRedirectStatus")];

/// Keys that only flags set: the sources, and values that differ between replicas.
const FLAGS: &[(&str, &str)] = &[
    ("config", "--config"),
    ("context", "--context"),
    ("id", "--id"),
    ("kubeconfig", "--kubeconfig"),
    ("manifests", "--manifests"),
    ("resources", "--resources"),
];

/// Returns the current name of the key that earlier versions called `path`.
pub fn renamed(path: &str) -> Option<&'static str> {
    RENAMED.iter().find(|(earlier, _)| *earlier == path).map(|(_, now)| *now)
}

/// Returns the message for the key `path` if another program or an earlier version has it.
pub fn hint(path: &str) -> Option<String> {
    if let Some((_, now)) = REMOVED.iter().find(|(removed, _)| *removed == folded(path)) {
        return Some(format!("this version has no such key; remove it, and see {now}, which replaces it"));
    }
    let first = folded(path.split('.').next().unwrap_or(path));
    let find =
        |table: &[(&str, &'static str)]| table.iter().find(|(known, _)| *known == first).map(|(_, value)| *value);
    if let Some(what) = find(NOT_YET) {
        return Some(format!("not supported yet: this version has no {what}"));
    }
    if let Some(flag) = find(FLAGS) {
        return Some(format!("not in this file: it is a flag, {flag}"));
    }
    of_contour(path)
}

/// Returns the message for the key `path`, which ends like a key of Contour.
pub fn of_contour(path: &str) -> Option<String> {
    let path = folded(path);
    let ends = |known: &&str| path.strip_suffix(*known).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    let (_, ours) = OF_CONTOUR.iter().filter(|(known, _)| ends(known)).max_by_key(|(known, _)| known.len())?;
    Some(format!("unknown key; here it is {ours}"))
}

/// Normalizes `name` for comparison: `connection-idle-timeout` becomes `connectionidletimeout`.
pub fn folded(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '-' | '_')).collect::<String>().to_ascii_lowercase()
}

/// Returns the entry of `known` that is most similar to `name`, if any is similar.
pub fn nearest(name: &str, known: impl IntoIterator<Item = &'static str>) -> Option<&'static str> {
    // The comparison is quadratic, so long names are skipped.
    let name_folded: String = folded(name).chars().take(100).collect();
    let distance = |known: &str| strsim::osa_distance(&name_folded, &folded(known));
    let (distance, known) = known.into_iter().map(|known| (distance(known), known)).min()?;
    (distance <= known.len() / 4 + 1 && distance < name.len()).then_some(known)
}
