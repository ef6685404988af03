//! Checks for settings that contradict each other: each is valid alone, but Envoy would reject the combination.

mod process;

use lockgate_route::model::{Bind, TlsVersion};
use lockgate_route::settings::Settings;

use super::resolved::{Origin, Resolved, SettingsFault};
use super::values::quoted;
use super::{AccessLogFormat, AuthorizationProtocol, HeaderPolicy, StatsTlsSettings, TlsParameters};

/// Returns all contradictions between valid values.
pub fn all(resolved: &Resolved) -> Vec<SettingsFault> {
    let Settings { listeners, http, compression, headers, tls, access_log, upstream, .. } = &resolved.settings.route;
    let mut checks = Checks { resolved, faults: Vec::new() };
    checks.check_ports();
    checks.check_families();
    checks.check_stats_by_tls();
    let defaults = Settings::default();
    checks.check_tls("tls", &tls.parameters, &defaults.tls.parameters);
    checks.check_tls("upstream.tls", &upstream.tls, &defaults.upstream.tls);
    checks.check_headers("headers.request", &headers.request);
    checks.check_headers("headers.response", &headers.response);
    if http.versions.is_empty() {
        checks.add_fault(&["http.versions"], "expected at least one version");
    }
    if http.http3.enabled && tls.parameters.maximum < TlsVersion::V1_3 {
        checks.add_fault(
            &["http.http3.enabled", "tls.maximumVersion"],
            "HTTP/3 needs TLS 1.3, and tls.maximumVersion is lower",
        );
    }
    if http.http3.enabled && listeners.proxy_protocol != super::ProxyProtocolMode::Off {
        let message = "HTTP/3 does not support PROXY headers, which listeners.proxyProtocol requires";
        checks.add_fault(&["http.http3.enabled", "listeners.proxyProtocol"], message);
    }
    if !compression.algorithms.is_empty() && compression.content_types.is_empty() {
        let message = "no response would be compressed: expected at least one media type, or no algorithm";
        checks.add_fault(&["compression.contentTypes", "compression.algorithms"], message);
    }
    if access_log.format == AccessLogFormat::Json && access_log.json_fields.is_empty() {
        checks.add_fault(
            &["accessLog.jsonFields"],
            "expected at least one field; accessLog.format: off disables the log",
        );
    }
    let mut names: Vec<&str> = access_log.json_fields.iter().map(|field| &*field.name).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        checks.add_fault(&["accessLog.jsonFields"], format!("field {} is given twice", quoted(twice[0])));
    }
    for (prefix, used) in [("JA3", tls.ja3), ("JA4", tls.ja4)] {
        let operator = format!("%TLS_{prefix}_FINGERPRINT%");
        let in_fields = || access_log.json_fields.iter().any(|field| field.format.contains(&operator));
        let logged = match access_log.format {
            AccessLogFormat::Json => in_fields().then_some("accessLog.jsonFields"),
            AccessLogFormat::Text => access_log.text.contains(&operator).then_some("accessLog.text"),
            AccessLogFormat::Off => None,
        };
        if let (Some(key), false) = (logged, used) {
            let setting = format!("tls.fingerprints.{}", prefix.to_lowercase());
            checks.add_fault(&[key], format!("{operator} is empty unless {setting} is true"));
        }
    }
    checks.check_hsts();
    checks.check_retries();
    checks.check_external_authorization();
    checks.check_rate_limit();
    checks.check_process();
    checks.faults
}

struct Checks<'a> {
    resolved: &'a Resolved,
    faults: Vec<SettingsFault>,
}

impl Checks<'_> {
    /// Adds a fault between `keys`, located at the first key that was set.
    fn add_fault(&mut self, keys: &[&'static str], message: impl Into<String>) {
        let origin_of = |key: &&'static str| self.resolved.origins.get(key).map(|origin| (*key, *origin));
        let (key, origin) = keys
            .iter()
            .find_map(origin_of)
            .or_else(|| keys.first().map(|key| (*key, Origin::Default)))
            .unwrap_or_default();
        self.faults.push(SettingsFault { origin, key: key.to_owned(), message: message.into() });
    }

    /// Checks that listeners with the same port have different addresses.
    fn check_ports(&mut self) {
        let listeners = &self.resolved.settings.route.listeners;
        let all: [(&str, &str, &Bind); 7] = [
            ("listeners.http.port", "http", &listeners.http),
            ("listeners.https.port", "https", &listeners.https),
            ("listeners.stats.port", "stats", &listeners.stats),
            ("listeners.stats.tls.port", "stats.tls", &listeners.stats_tls.at),
            ("listeners.readiness.port", "readiness", &listeners.readiness),
            ("listeners.overloadProbe.port", "overloadProbe", &listeners.overload_probe),
            ("listeners.admin.port", "admin", &listeners.admin),
        ];
        for (i, (key, name, listener)) in all.iter().enumerate() {
            for (other_key, other, before) in &all[..i] {
                let apart =
                    listener.address.is_some() && before.address.is_some() && listener.address != before.address;
                if listener.port != before.port || listener.port == 0 || apart {
                    continue;
                }
                // The fault is located at the key that was set.
                let (told, of) = match self.resolved.origins.contains_key(key) {
                    true => (*key, *other),
                    false => (*other_key, *name),
                };
                let port = listener.port;
                let message = format!("{port} is also the port of listeners.{of}; each listener needs its own port");
                self.add_fault(&[told], message);
            }
        }
    }

    /// Checks that addresses and DSCP marks match the address families of the listeners.
    fn check_families(&mut self) {
        let listeners = &self.resolved.settings.route.listeners;
        let options = listeners.socket_options;
        let all = [
            ("listeners.http.address", &listeners.http),
            ("listeners.https.address", &listeners.https),
            ("listeners.stats.address", &listeners.stats),
            ("listeners.stats.tls.address", &listeners.stats_tls.at),
            ("listeners.readiness.address", &listeners.readiness),
            ("listeners.overloadProbe.address", &listeners.overload_probe),
            ("listeners.admin.address", &listeners.admin),
        ];
        for (key, listener) in all {
            if listener.address.is_some_and(|address| address.is_ipv6()) && !listeners.ipv6 {
                self.add_fault(&[key], "an IPv6 address, and listeners.ipv6 is false");
            }
        }
        // Marks apply to client connections, so listeners for probes have none.
        let served = &all[..2];
        let has_v4 = |listener: &Bind| listener.address.is_none_or(|address| address.is_ipv4());
        let has_v6 = |listener: &Bind| listener.address.map_or(listeners.ipv6, |address| address.is_ipv6());
        if options.tos.is_some() && !served.iter().all(|(_, listener)| has_v4(listener)) {
            self.add_fault(
                &["listeners.socketOptions.tos"],
                "this mark is for IPv4, and a listener has an IPv6 address",
            );
        }
        if options.traffic_class.is_some() && !served.iter().all(|(_, listener)| has_v6(listener)) {
            let message = "this mark is for IPv6, and a listener has no IPv6 address";
            self.add_fault(&["listeners.socketOptions.trafficClass"], message);
        }
    }

    /// Checks that a TLS port has a key pair, and a key pair has a port.
    fn check_stats_by_tls(&mut self) {
        const PORT: &str = "listeners.stats.tls.port";
        const SECRET: &str = "listeners.stats.tls.secret";
        let StatsTlsSettings { at, secret, client_ca } = &self.resolved.settings.route.listeners.stats_tls;
        if at.port != 0 && secret.is_none() {
            self.add_fault(&[PORT], format!("statistics over TLS need {SECRET}, which is not set"));
        }
        // A port of 0 disables the listener on purpose.
        if at.port == 0 && !self.resolved.origins.contains_key(PORT) {
            let used = [(SECRET, secret.is_some()), ("listeners.stats.tls.clientCa", client_ca.is_some())];
            if let Some((key, _)) = used.iter().find(|(_, used)| *used) {
                self.add_fault(&[key], format!("no effect, because {PORT} is not set"));
            }
        }
    }

    /// Checks that the TLS versions are in order, and that cipher suites apply to an enabled version.
    fn check_tls(&mut self, group: &str, parameters: &TlsParameters, defaults: &TlsParameters) {
        let key = |name: &str| super::keys::key(&format!("{group}.{name}")).map_or("", |key| key.path);
        let [minimum, maximum, ciphers] = ["minimumVersion", "maximumVersion", "cipherSuites"].map(key);
        if parameters.minimum > parameters.maximum {
            self.add_fault(&[minimum, maximum], format!("1.3 is above {maximum}, which is 1.2"));
        }
        let chosen = parameters.cipher_suites != defaults.cipher_suites && !parameters.cipher_suites.is_empty();
        if parameters.minimum == TlsVersion::V1_3 && chosen {
            let message = format!("cipher suites apply to TLS 1.2 only, and {minimum} is 1.3");
            self.add_fault(&[ciphers], message);
        }
    }

    /// Checks the HSTS settings. Source: hstspreload.org, "Submission Requirements".
    fn check_hsts(&mut self) {
        const YEAR: std::time::Duration = std::time::Duration::from_secs(365 * 24 * 3600);
        const MAX_AGE: &str = "tls.hsts.maxAge";
        const SUBDOMAINS: &str = "tls.hsts.includeSubdomains";
        const PRELOAD: &str = "tls.hsts.preload";
        let hsts = &self.resolved.settings.route.tls.hsts;
        let used = [(SUBDOMAINS, hsts.include_subdomains), (PRELOAD, hsts.preload)];
        match hsts.max_age {
            None => {
                if let Some((key, _)) = used.iter().find(|(_, used)| *used) {
                    self.add_fault(&[key], format!("no effect, because {MAX_AGE} is not set"));
                }
            }
            Some(age) if hsts.preload && (age < YEAR || !hsts.include_subdomains) => {
                self.add_fault(&[PRELOAD], format!("needs {SUBDOMAINS}, and a {MAX_AGE} of at least 365d"));
            }
            Some(_) => {}
        }
    }

    /// Checks that retry settings are set only if retries are enabled.
    fn check_retries(&mut self) {
        let retries = &self.resolved.settings.route.retries;
        let unused = super::Retries { conditions: Vec::new(), ..super::Retries::default() };
        if retries.conditions.is_empty() && *retries != unused {
            let message = "no effect, because retries.conditions is empty";
            self.add_fault(&["retries.count", "retries.perTryTimeout"], message);
        }
    }

    /// Checks that settings of one protocol are set only if that protocol is selected.
    fn check_external_authorization(&mut self) {
        const PROTOCOL: &str = "externalAuthorization.protocol";
        let settings = &self.resolved.settings.route.external_authorization;
        let (body, http) = (settings.check.request_body, &settings.check.http);
        let over_http = [
            ("externalAuthorization.http.pathPrefix", http.path_prefix.is_some()),
            ("externalAuthorization.http.allowedRequestHeaders", !http.allowed_request_headers.is_empty()),
            ("externalAuthorization.http.allowedUpstreamHeaders", !http.allowed_upstream_headers.is_empty()),
        ];
        let over_grpc = [
            ("externalAuthorization.context", !settings.context.is_empty()),
            ("externalAuthorization.requestBody.packAsBytes", body.pack_as_bytes),
        ];
        let (not_possible, needed, protocol) = match settings.check.protocol {
            AuthorizationProtocol::Grpc => (&over_http[..], "http", "grpc"),
            AuthorizationProtocol::Http => (&over_grpc[..], "grpc", "http"),
        };
        for (key, _) in not_possible.iter().filter(|(_, used)| *used) {
            self.add_fault(&[key, PROTOCOL], format!("only valid with {PROTOCOL}: {needed}; it is {protocol}"));
        }
        let of_body = [
            ("externalAuthorization.requestBody.allowPartial", body.allow_partial),
            ("externalAuthorization.requestBody.packAsBytes", body.pack_as_bytes),
        ];
        for (key, _) in of_body.iter().filter(|(_, used)| *used && body.max_bytes.is_none()) {
            self.add_fault(&[key], "no effect, because externalAuthorization.requestBody.maxBytes is not set");
        }
    }

    /// Checks that a service and the settings of its requests are set together.
    fn check_rate_limit(&mut self) {
        const ENDPOINT: &str = "rateLimit.endpoint";
        const DESCRIPTORS: &str = "rateLimit.descriptors";
        let route = &self.resolved.settings.route;
        let settings = &route.rate_limit;
        match (&settings.endpoint, settings.descriptors.is_empty()) {
            // HTTPProxies have the descriptors.
            (Some(_), true) if route.tenants.global_rate_limits => {}
            (Some(_), true) => {
                let message = format!(
                    "rate limiting needs {DESCRIPTORS}, which has no descriptor, or tenants.globalRateLimits for those of HTTPProxies and HTTPPolicies"
                );
                self.add_fault(&[ENDPOINT, DESCRIPTORS], message);
            }
            (None, false) => {
                self.add_fault(&[DESCRIPTORS], format!("rate limiting needs {ENDPOINT}, which is not set"));
            }
            (Some(_), false) | (None, true) => {}
        }
    }

    /// Checks that no header is both set and removed.
    fn check_headers(&mut self, group: &str, policy: &HeaderPolicy) {
        let key = |name: &str| super::keys::key(&format!("{group}.{name}")).map_or("", |key| key.path);
        let [set, remove] = ["set", "remove"].map(key);
        for (name, _) in &policy.set {
            if policy.remove.contains(name) {
                self.add_fault(&[remove, set], format!("{} is also in {set}", quoted(name)));
            }
        }
    }
}
