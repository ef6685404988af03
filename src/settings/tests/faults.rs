//! All faults of a settings file, and their messages.

use super::*;

/// Returns the faults of `text`, one per line, without the name of the file.
fn faults(text: &str) -> Vec<String> {
    let faults = resolve("f", text, &[]).err().unwrap_or_else(|| panic!("nothing is wrong with\n{text}"));
    let line = |fault: &SettingsFault| faults.line(fault).strip_prefix("f:").unwrap_or("nowhere").to_owned();
    faults.faults.iter().map(line).collect()
}

/// Asserts that the only fault of `text` is at `place`, and that its message contains all `parts`.
#[track_caller]
fn assert_fault(text: &str, place: &str, parts: &[&str]) {
    let faults = faults(text);
    assert_eq!(faults.len(), 1, "{text}: {faults:#?}");
    assert!(faults[0].starts_with(&format!("{place}: ")), "{text}: not at {place}: {}", faults[0]);
    for part in parts {
        assert!(faults[0].contains(part), "{text}: {part:?} is not in {}", faults[0]);
    }
}

#[test]
fn values_of_a_wrong_type_or_range_are_faults() {
    for (text, place, parts) in [
        (
            "timeouts:\n  connect: 5\n",
            "2:12",
            &["timeouts.connect: \"5\" is not a valid duration", "such as 500ms"][..],
        ),
        ("timeouts: {connect: off}", "1:21", &["\"off\" is not a valid duration"]),
        ("timeouts: {response: never}", "1:22", &["or off"]),
        ("timeouts: {drain: 0.1ms}", "1:19", &["at least 1ms"]),
        ("timeouts: {drain: [5s]}", "1:19", &["expected a duration, found a list"]),
        ("listeners: {http: {port: 0}}", "1:26", &["listeners.http.port", "from 1 to 65535"]),
        ("listeners: {http: {port: eighty}}", "1:26", &["\"eighty\" is not a valid port"]),
        (
            "listeners: {http: 80}",
            "1:19",
            &["listeners.http: expected an object with the keys address, port, found \"80\""],
        ),
        ("listeners: {http: {address: localhost}}", "1:29", &["is not a valid IP address", "10.0.0.1"]),
        ("listeners: {ipv6: yes}", "1:19", &["\"yes\" is not a valid boolean", "true or false"]),
        ("listeners: {bufferLimit: 1.5MiB}", "1:26", &["bytes with a unit, such as 32KiB"]),
        ("listeners: {bufferLimit: 1B}", "1:26", &["1KiB to 1GiB"]),
        (
            "listeners: {proxyProtocol: maybe}",
            "1:28",
            &["\"maybe\" is not a valid use: expected off, required, optional"],
        ),
        ("listeners: {socketOptions: {tos: 256}}", "1:34", &["from 0 to 255"]),
        ("http: {versions: HTTP/2}", "1:18", &["expected a list of version", "found \"HTTP/2\""]),
        (
            "http:\n  versions:\n  - HTTP/2\n  - HTTP/9\n",
            "4:5",
            &["\"HTTP/9\" is not a valid version: expected HTTP/1.1, HTTP/2"],
        ),
        ("http: {versions: [HTTP/2, HTTP/2]}", "1:27", &["\"HTTP/2\" is given twice"]),
        ("http: {maxConcurrentStreams: 0}", "1:30", &["from 1 to 2147483647"]),
        ("http: {maxRequestHeaders: 9MiB}", "1:27", &["1KiB to 8MiB"]),
        ("compression: {algorithms: [lzw]}", "1:28", &["gzip, brotli, zstd"]),
        ("compression: {contentTypes: [html]}", "1:30", &["TYPE/SUBTYPE"]),
        ("ingress: {classNames: [Public]}", "1:24", &["\"Public\" is not a valid name of an IngressClass"]),
        ("ingress: {controllerName: lockgate}", "1:27", &["DOMAIN/PATH"]),
        ("ingress: {httpsRedirectStatus: 303}", "1:32", &["301, 302, 307 or 308"]),
        ("tls: {hsts: {preload: true}}", "1:14", &["tls.hsts.maxAge is not set"]),
        ("tls: {hsts: {maxAge: 30d, includeSubdomains: true, preload: true}}", "1:52", &["at least 365d"]),
        ("retries: {conditions: [sometimes]}", "1:24", &["expected 5xx, cancelled"]),
        ("retries: {count: 2}", "1:11", &["retries.conditions is empty"]),
        ("http: {maxRequestBody: 0B}", "1:24", &["expected 1B to 1GiB"]),
        ("tls: {defaultSecret: wild}", "1:22", &["NAMESPACE/NAME"]),
        ("tls: {minimumVersion: 1.1}", "1:23", &["\"1.1\" is not a valid TLS version: expected 1.2 or 1.3"]),
        (
            "tls: {cipherSuites: [TLS_AES_128_GCM_SHA256]}",
            "1:22",
            &["the cipher suites of TLS 1.3 are not configurable"],
        ),
        (
            "tls: {cipherSuites: [RC4-SHA]}",
            "1:22",
            &["\"RC4-SHA\" is not a valid cipher suite", "ECDHE-RSA-AES128-GCM-SHA256"],
        ),
        ("tls: {cipherSuites: ['AES128-SHA|AES256-SHA']}", "1:22", &["[A|B]"]),
        ("tls: {curves: [P-1]}", "1:16", &["X25519"]),
        ("status: {addresses: [http://x]}", "1:22", &["lb.example.com"]),
        ("tracing: {endpoint: collector}", "1:21", &["HOST:PORT"]),
        ("tracing: {endpoint: 'https://c:4317'}", "1:21", &["not supported"]),
        ("tracing: {sampling: {overall: 101}}", "1:31", &["from 0 to 100"]),
        ("tracing: {customTags: [{name: a}]}", "1:24", &["either `literal` or `requestHeader`"]),
        ("tracing: {customTags: [{name: a, header: b}]}", "1:34", &["\"header\" is not known here"]),
        ("tracing: {customTags: [{name: a, requestHeader: b c}]}", "1:49", &["is not a valid header name"]),
        ("externalAuthorization: {endpoint: 'https://a:1'}", "1:35", &["TLS to this service is not supported"]),
        ("externalAuthorization: {protocol: rest}", "1:35", &["grpc, http"]),
        ("externalAuthorization: {context: [a]}", "1:34", &["expected an object of keys and texts, found a list"]),
        ("externalAuthorization: {context: {a: {b: c}}}", "1:38", &["expected text, found an object"]),
        ("externalAuthorization: {requestBody: {maxBytes: 0}}", "1:49", &["1B to 1GiB"]),
        ("externalAuthorization: {http: {pathPrefix: check}}", "1:44", &["a path such as /check"]),
        (
            "externalAuthorization: {http: {allowedRequestHeaders: ['x-*', 'a b']}}",
            "1:63",
            &["is not a valid header name"],
        ),
        ("rateLimit: {descriptors: {}}", "1:26", &["expected a list of descriptors, found an object"]),
        ("rateLimit: {descriptors: [remoteAddress]}", "1:27", &["expected an object of entries, found"]),
        ("rateLimit: {descriptors: [{}]}", "1:27", &["entries is missing"]),
        ("rateLimit: {descriptors: [{entries: []}]}", "1:37", &["at least one entry"]),
        (
            "rateLimit: {descriptors: [{entries: [{}]}]}",
            "1:38",
            &["expected exactly one of genericKey, requestHeader,"],
        ),
        ("rateLimit: {descriptors: [{entries: [{destination: {}}]}]}", "1:39", &["\"destination\" is not known here"]),
        ("rateLimit: {descriptors: [{entries: [{genericKey: {key: a}}]}]}", "1:51", &["value is missing"]),
        ("rateLimit: {descriptors: [{entries: [{genericKey: {value: ''}}]}]}", "1:59", &["at least one character"]),
        (
            "rateLimit: {descriptors: [{entries: [{requestHeader: {headerName: 'a b', descriptorKey: c}}]}]}",
            "1:67",
            &["\"a b\" is not a valid header name"],
        ),
        ("rateLimit: {descriptors: [{entries: [{remoteAddress: {a: b}}]}]}", "1:55", &["expected an empty object"]),
        (
            "rateLimit:\n  descriptors:\n  - entries:\n    - genericKey: {value: a}\n      remoteAddress: {}\n",
            "4:7",
            &["expected exactly one of"],
        ),
        ("upstream: {dnsLookupFamily: v5}", "1:29", &["auto, v4, v6, v4_preferred, all"]),
        ("runtime: {http.max_requests_per_io_cycle: 1}", "1:11", &["is determined by http.maxRequestsPerIoCycle"]),
        ("runtime: {'a b': 1}", "1:11", &["is not a valid runtime key"]),
        (
            "headers: {request: {set: {Host: a}}}",
            "1:27",
            &["\"Host\" is not a valid header name: Envoy sets it itself"],
        ),
        ("headers: {request: {set: {'a b': c}}}", "1:27", &["\"a b\" is not a valid header name"]),
        ("headers: {request: {set: {a: '%NOPE%'}}}", "1:30", &["Envoy has no operator %NOPE%"]),
        ("headers: {request: {set: {a: '50%'}}}", "1:30", &["write %% for a percent sign"]),
        ("headers: {request: {set: {a: \"b\\nc\"}}}", "1:30", &["no control characters"]),
        ("headers: {request: {set: {a: b, A: c}}}", "1:33", &["\"A\" is given twice"]),
        ("headers: {response: {remove: [':status']}}", "1:31", &["is not a valid header name"]),
        ("accessLog: {text: '%REQ%'}", "1:19", &["accessLog.text", "%REQ%: expected a header"]),
        ("accessLog: {text: \"a\\nb\"}", "1:19", &["expected one line"]),
        ("accessLog: {httpFile: envoy.log}", "1:23", &["accessLog.httpFile", "an absolute path, such as /dev/stdout"]),
        ("accessLog: {httpsFile: /var/log/}", "1:24", &["expected a file, not a directory"]),
        ("accessLog: {jsonFields: [metod]}", "1:26", &["\"metod\" is not a valid field", "did you mean method?"]),
        ("accessLog: {jsonFields: ['a=%NOPE%']}", "1:26", &["Envoy has no operator %NOPE%"]),
        ("watch: {namespaces: [Shop]}", "1:22", &["\"Shop\" is not a valid name of a namespace"]),
        (
            "xds: {address: localhost:1}",
            "1:16",
            &["xds.address: \"localhost:1\" is not a valid address:port: expected an IP"],
        ),
        (
            "xds: {tls: aut}",
            "1:12",
            &["xds.tls: \"aut\" is not a valid auto, off or directory: expected auto, off, or the path"],
        ),
        (
            "xds: {envoyNames: ['a b']}",
            "1:20",
            &["xds.envoyNames", "is not a valid name in a certificate", "a DNS name such as envoy"],
        ),
        ("xds: {secrets: A}", "1:16", &["is not a valid name of an object"]),
        ("xds: {maxConnections: 1}", "1:23", &["from 2 to"]),
        ("xds: {maxConnectionAge: 0s}", "1:25", &["at least 1ms, or off"]),
        ("xds: {gateTimeout: 0s}", "1:20", &["at least 1ms"]),
        ("xds: {removalGrace: 1}", "1:21", &["numbers with units"]),
        ("xds: {peers: ':80'}", "1:14", &["HOST:PORT"]),
        ("admin: {address: ':80'}", "1:18", &["127.0.0.1:18000"]),
        ("log: {format: yaml}", "1:15", &["\"yaml\" is not a valid format: expected text, json"]),
        (
            "log: {level: debgu}",
            "1:14",
            &["log.level: \"debgu\" is not a valid filter", "expected off, error, warn, info"],
        ),
        ("leaderElection: {enabled: on}", "1:27", &["true or false"]),
        ("leaderElection: {leaseDuration: 1.5s}", "1:33", &["whole seconds"]),
    ] {
        assert_fault(text, place, parts);
    }
}

#[test]
fn invalid_matches_of_headers_are_faults() {
    for (header, place, part) in [
        ("{exact: a}", "1:2", "name is missing"),
        ("{name: a}", "1:2", "expected exactly one of present, notpresent, exact"),
        ("{name: a, exact: b, contains: c}", "1:2", "expected exactly one of"),
        ("{name: a, prefix: b}", "1:12", "\"prefix\" is not known here"),
        ("{name: a, present: false}", "1:21", "for the opposite, use notpresent: true"),
        ("{name: a, present: maybe}", "1:21", "expected true or false"),
        ("{name: a, regex: '('}", "1:19", "is not a regular expression that Envoy accepts: unclosed group"),
        ("{name: a, regex: '[a&&b]'}", "1:19", "is not a regular expression that Envoy accepts"),
        ("{name: a, regex: b, ignoreCase: true}", "1:22", "ignoreCase has no effect together with regex"),
        ("{name: a, present: true, treatMissingAsEmpty: true}", "1:27", "has no effect together with present"),
    ] {
        let text = format!(
            "rateLimit:\n  descriptors:\n  - entries:\n    - requestHeaderValueMatch:\n        value: v\n        headers:\n        - {header}\n"
        );
        let (line, column) = place.split_once(':').unwrap();
        // The match is in line 7, behind 9 characters of indentation.
        let column = column.parse::<usize>().unwrap() + 9;
        assert_fault(&text, &format!("{}:{column}", line.parse::<usize>().unwrap() + 6), &[part]);
    }
}

#[test]
fn unknown_keys_are_faults() {
    for (text, place, parts) in [
        ("timeout:\n  connect: 5s\n", "1:1", &["timeout: unknown key \"timeout\"; did you mean timeouts?"][..]),
        ("timeouts:\n  conect: 5s\n", "2:3", &["timeouts.conect: unknown key", "did you mean connect?"]),
        ("timeouts:\n  ocnnect: 5s\n", "2:3", &["did you mean connect?"]),
        ("timeouts: {Connect: 5s}", "1:12", &["did you mean connect?"]),
        ("defaultSecret: a/b", "1:1", &["did you mean tls.defaultSecret?"]),
        ("timeouts: {minimum-protocol-version: 1.2}", "1:12", &["here it is tls.minimumVersion"]),
        ("banana: 1", "1:1", &["known here: ingress, gateway, namespaceOwnership, hosts, httpProxy, externalNames"]),
        ("rateLimitService: {domain: a}", "1:1", &["unknown key; here it is rateLimit"]),
        ("rateLimit: {enableXRateLimitHeaders: true}", "1:13", &["here it is rateLimit.headers"]),
        ("globalExtAuth: {}", "1:1", &["unknown key; here it is externalAuthorization"]),
        ("externalAuthorization: {withRequestBody: {}}", "1:25", &["externalAuthorization.requestBody"]),
        (
            "httpproxy: {rootNamespaces: [a]}",
            "1:1",
            &["not supported yet: this version has no settings of HTTPProxies"],
        ),
        ("gateway: {controllerName: a.b/c}", "1:11", &["here it is gateway.controller"]),
        ("xdsServer: {}", "1:1", &["here it is xds"]),
        ("watchNamespaces: [a]", "1:1", &["here it is watch.namespaces"]),
        ("health: {}", "1:1", &["here it is admin.address"]),
        ("listeners: {adminPort: 9001}", "1:13", &["here it is listeners.admin.port"]),
        ("leader-election: {}", "1:1", &["here it is leaderElection"]),
        ("kubeconfig: /a", "1:1", &["not in this file: it is a flag, --kubeconfig"]),
        ("id: a", "1:1", &["not in this file: it is a flag, --id"]),
    ] {
        assert_fault(text, place, parts);
    }
}

#[test]
fn keys_of_contour_lead_to_the_keys_of_lockgate() {
    let told = faults("envoy:\n  timeouts:\n    connectionIdleTimeout: 60s\n  logging:\n    accessLogFormat: json\n");
    assert_eq!(told.len(), 3, "{told:#?}");
    assert!(
        told[1].starts_with("3:5: envoy.timeouts.connectionIdleTimeout: ")
            && told[1].ends_with("timeouts.connectionIdle")
    );
    assert!(told[2].starts_with("5:5: ") && told[2].ends_with("accessLog.format"), "{told:#?}");
    let told = faults("xdsServer:\n  port: 1\nenvoy:\n  metrics: {address: 127.0.0.1}\n");
    assert!(told[1].starts_with("2:3: xdsServer.port") && told[1].ends_with("xds.address, with the port"), "{told:#?}");
    assert!(told[3].ends_with("listeners.stats, and listeners.stats.tls by TLS"), "{told:#?}");
    let told = faults("metrics: {envoy: {port: 8003, ca-certificate-path: /ca.crt}}\n");
    assert!(told[1].ends_with("here it is listeners.stats.port"), "{told:#?}");
    assert!(told[2].ends_with("here it is listeners.stats.tls.clientCa, the name of a Secret"), "{told:#?}");
    let told = faults("globalExtAuth:\n  extensionService: a/b\n  responseTimeout: 1s\n  failOpen: true\n");
    let ends =
        ["here it is externalAuthorization", "an endpoint, as HOST:PORT", "here it is externalAuthorization.timeout"];
    assert!(told.len() == 3 && told.iter().zip(ends).all(|(told, end)| told.ends_with(end)), "{told:#?}");
}

#[test]
fn removed_keys_lead_to_the_keys_that_replace_them() {
    for text in [
        "gateway: {policies: {maxMemoryPerNamespace: 1GiB}}",
        "routes: {maxCopyMemoryPerNamespace: 1GiB}",
        "tls: {maxWildcardMemoryPerNamespace: 1GiB}",
    ] {
        let told = faults(text);
        let ends =
            "this version has no such key; remove it, and see tenants.maxConfigurationPerNamespace, which replaces it";
        assert!(told.len() == 1 && told[0].ends_with(ends), "{told:#?}");
    }
}

#[test]
fn files_that_are_not_settings_are_faults() {
    for (text, place, parts) in [
        ("timeouts: [\n", "", &[][..]),
        ("a: b: c\n", "", &[]),
        ("timeouts:\n\tconnect: 5s\n", "", &[]),
        ("- a\n", "1:1", &["expected an object with the keys ingress,", "found a list"]),
        ("timeouts: {}\n---\ntls: {}\n", "3:1", &["a second document"]),
        ("timeouts: {connect: 1s}\ntimeouts: {drain: 1s}\n", "2:1", &["timeouts: the key is already given in line 1"]),
        ("timeouts: {connect: *x}\n", "1:21", &["timeouts.connect", "unknown anchor"]),
        ("? [a]\n: b\n", "1:3", &["a list or an object cannot be a key"]),
    ] {
        let told = faults(text);
        assert!(told.len() == 1 && told[0].starts_with(place), "{text:?}: {told:#?}");
        assert!(parts.iter().all(|part| told[0].contains(part)), "{text:?}: {told:#?}");
    }
    let deep = format!("{}x", "- ".repeat(200));
    assert!(faults(&deep)[0].contains("nested deeper"));
    assert_eq!(faults(&"[".repeat(100_000)).len(), 1);
}

#[test]
fn contradicting_values_are_faults() {
    for (text, place, parts) in [
        ("listeners: {http: {port: 8443}}", "1:20", &["8443 is also the port of listeners.https"][..]),
        (
            "listeners:\n  http: {port: 1}\n  stats: {port: 1}\n",
            "3:11",
            &["listeners.stats.port: 1 is also the port of"],
        ),
        ("listeners: {admin: {port: 8080}}", "1:21", &["8080 is also the port of listeners.http"]),
        ("listeners: {ipv6: false, admin: {address: '::1'}}", "1:34", &["listeners.ipv6 is false"]),
        ("metrics: {tls: /etc/a}", "1:11", &["metrics.tls: TLS needs metrics.address"]),
        ("metrics: {address: '127.0.0.1:18000'}", "1:11", &["127.0.0.1:18000 is taken by xds.address"]),
        ("metrics: {address: '[::]:18001'}", "1:11", &["[::]:18001 is taken by admin.address"]),
        ("listeners: {readiness: {port: 8002}}", "1:25", &["8002 is also the port of listeners.stats"]),
        ("listeners: {overloadProbe: {port: 8002}}", "1:29", &["8002 is also the port of listeners.stats"]),
        (
            "listeners: {stats: {tls: {port: 8002, secret: a/b}}}",
            "1:27",
            &["8002 is also the port of listeners.stats;"],
        ),
        ("listeners: {stats: {tls: {port: 8443, secret: a/b}}}", "1:27", &["8443 is also the port of listeners.https"]),
        (
            "listeners: {stats: {tls: {port: 8003}}}",
            "1:27",
            &["tls.port: statistics over TLS need listeners.stats.tls.secret"],
        ),
        (
            "listeners: {stats: {tls: {secret: a/b, clientCa: a/c}}}",
            "1:27",
            &["tls.secret: no effect, because listeners.stats.tls.port"],
        ),
        (
            "listeners: {stats: {tls: {clientCa: a/c}}}",
            "1:27",
            &["tls.clientCa: no effect, because listeners.stats.tls.port"],
        ),
        ("listeners: {ipv6: false, stats: {tls: {address: '::1'}}}", "1:40", &["listeners.ipv6 is false"]),
        ("listeners: {ipv6: false, http: {address: '::1'}}", "1:33", &["listeners.ipv6 is false"]),
        ("listeners: {ipv6: false, socketOptions: {trafficClass: 1}}", "1:42", &["this mark is for IPv6"]),
        ("listeners: {http: {address: '::1'}, socketOptions: {tos: 1}}", "1:53", &["this mark is for IPv4"]),
        (
            "tls: {minimumVersion: 1.3, maximumVersion: 1.2, cipherSuites: []}",
            "1:7",
            &["1.3 is above tls.maximumVersion"],
        ),
        (
            "tls: {minimumVersion: 1.3, cipherSuites: [AES128-SHA]}",
            "1:28",
            &["to TLS 1.2 only, and tls.minimumVersion is 1.3"],
        ),
        ("upstream: {tls: {minimumVersion: 1.3, maximumVersion: 1.2}}", "1:18", &["upstream.tls.maximumVersion"]),
        ("tls: {maximumVersion: 1.2}\nhttp: {http3: {enabled: true}}", "2:16", &["HTTP/3 needs TLS 1.3"]),
        (
            "listeners: {proxyProtocol: required}\nhttp: {http3: {enabled: true}}",
            "2:16",
            &["does not support PROXY headers"],
        ),
        ("http: {versions: []}", "1:8", &["at least one version"]),
        ("compression: {algorithms: [gzip], contentTypes: []}", "1:35", &["no response would be compressed"]),
        ("accessLog: {format: json, jsonFields: []}", "1:27", &["at least one field"]),
        ("accessLog: {jsonFields: ['a=1', 'a=2']}", "1:13", &["field \"a\" is given twice"]),
        (
            "accessLog: {format: json, jsonFields: [tls_ja3_fingerprint]}",
            "1:27",
            &["unless tls.fingerprints.ja3 is true"],
        ),
        (
            "externalAuthorization: {protocol: http, context: {a: b}}",
            "1:41",
            &["externalAuthorization.context: only valid with externalAuthorization.protocol: grpc; it is http"],
        ),
        (
            "externalAuthorization: {protocol: http, requestBody: {maxBytes: 1KiB, packAsBytes: true}}",
            "1:71",
            &["only valid with externalAuthorization.protocol: grpc"],
        ),
        ("externalAuthorization: {http: {pathPrefix: /a}}", "1:32", &["protocol: http; it is grpc"]),
        ("externalAuthorization: {http: {allowedRequestHeaders: [a]}}", "1:32", &["protocol: http; it is grpc"]),
        ("externalAuthorization: {http: {allowedUpstreamHeaders: [a]}}", "1:32", &["protocol: http; it is grpc"]),
        (
            "externalAuthorization: {requestBody: {allowPartial: true}}",
            "1:39",
            &["externalAuthorization.requestBody.maxBytes is not set"],
        ),
        (
            "rateLimit: {endpoint: 'a:1'}",
            "1:13",
            &["rateLimit.endpoint: rate limiting needs rateLimit.descriptors", "no descriptor"],
        ),
        (
            "rateLimit: {descriptors: [{entries: [{remoteAddress: {}}]}]}",
            "1:13",
            &["rateLimit.descriptors: rate limiting needs rateLimit.endpoint"],
        ),
        (
            "admin: {address: '127.0.0.1:18000'}",
            "1:9",
            &["admin.address: 127.0.0.1:18000 is taken by xds.address ([::]:18000)"],
        ),
        ("xds: {address: '127.0.0.1:18001'}", "1:7", &["xds.address: ", "its own port"]),
        (
            "xds: {rotationPause: 400h}",
            "1:7",
            &[
                "xds.rotationPause: expected xds.certificateLifetime (90d) to be at least 12 times xds.rotationPause (16d16h)",
            ],
        ),
        ("xds: {caLifetime: 1h}", "1:7", &["to be at least 4 times xds.certificateLifetime (90d)"]),
        (
            "leaderElection: {leaseDuration: 10s}",
            "1:18",
            &["expected leaderElection.renewDeadline (10s) to be less than leaderElection.leaseDuration (10s)"],
        ),
        ("leaderElection: {retryPeriod: 11s}", "1:18", &["to be less than leaderElection.renewDeadline (10s)"]),
        ("headers: {request: {set: {a: b}, remove: [A]}}", "1:34", &["\"a\" is also in headers.request.set"]),
    ] {
        assert_fault(text, place, parts);
    }
    // Two missing services, and two with separate addresses.
    read("listeners: {stats: {port: 0}, overloadProbe: {port: 0}}");
    read("xds: {address: '127.0.0.1:0'}\nadmin: {address: '127.0.0.1:0'}");
    read("xds: {address: '127.0.0.2:18001'}");
    let told = faults("metrics: {envoy: {port: 8003, ca-certificate-path: /ca.crt}}\n");
    assert!(told[1].ends_with("here it is listeners.stats.port"), "{told:#?}");
    assert!(told[2].ends_with("here it is listeners.stats.tls.clientCa, the name of a Secret"), "{told:#?}");
    read("listeners: {http: {address: 10.0.0.1, port: 80}, https: {address: 10.0.0.2, port: 80}}");
}

#[test]
fn all_faults_of_a_file_are_reported_in_order() {
    let text = "tls:\n  curves: [A, B]\n  minimum: 1.2\ntimeouts:\n  connect: x\nunknown: 1\n";
    let told = faults(text);
    let places: Vec<&str> = told.iter().map(|fault| fault.split(": ").next().unwrap()).collect();
    assert_eq!(places, ["2:12", "2:15", "3:3", "5:12", "6:1"]);
    let shown = resolve("dir/f.yaml", text, &[flag("http.trustedHops", "-1")]).unwrap_err().to_string();
    assert_eq!(shown.lines().count(), 6);
    assert!(
        shown.starts_with("dir/f.yaml:2:12: tls.curves: \"A\" is not a valid curve: expected one of X25519"),
        "{shown}"
    );
    assert!(
        shown.lines().last().unwrap().starts_with("--flag: http.trustedHops: \"-1\" is not a valid count"),
        "{shown}"
    );
}

#[test]
fn a_flag_that_contradicts_the_file_is_named() {
    let told = resolve("f", "listeners: {https: {port: 80}}", &[flag("listeners.stats.port", "80")]).unwrap_err();
    assert_eq!(
        told.to_string(),
        "--flag: listeners.stats.port: 80 is also the port of listeners.https; each listener needs its own port"
    );
}

mod fuzz {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_text_stops_the_process(text in "[a-z:{}\\[\\]&*?|>'\"%\\-\n \t#,]{0,80}") {
            let _ = resolve("f", &text, &[]);
        }

        #[test]
        fn no_value_stops_the_process(key in 0..KEYS.len(), value in "\\PC{0,20}") {
            let mut file = String::new();
            for (depth, part) in KEYS[key].path.split('.').enumerate() {
                file.push_str(&format!("\n{}{part}:", "  ".repeat(depth)));
            }
            let _ = resolve("f", &format!("{file} {}\n", serde_json::to_string(&value).unwrap()), &[]);
        }
    }
}
