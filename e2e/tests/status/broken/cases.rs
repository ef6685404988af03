//! The kinds of broken objects and their Events, for the tests with an API server and in a cluster.

use e2e::Authority;

/// A case: object, reason, field, part of the message, and consequence. The objects are in broken.yaml. The namespace
/// `default` stands for the namespace of the test.
pub type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// All cases.
pub const CASES: &[Case] = &[
    (
        "missing-service",
        UNRESOLVED,
        "spec.rules[0].http.paths[0].backend.service.name",
        "does not exist",
        "answered 503",
    ),
    (
        "missing-port-name",
        UNRESOLVED,
        "spec.rules[0].http.paths[0].backend.service.port",
        "no port \"grpc\"",
        "answered 503",
    ),
    (
        "missing-port-number",
        UNRESOLVED,
        "spec.rules[0].http.paths[0].backend.service.port",
        "no port \"81\"",
        "answered 503",
    ),
    ("missing-default-backend", UNRESOLVED, "spec.defaultBackend.service.name", "does not exist", "answered 503"),
    (
        "resource-backend",
        UNSUPPORTED,
        "spec.rules[0].http.paths[0].backend.resource",
        "kind \"Bucket\"",
        "answered 503",
    ),
    ("udp-port", UNSUPPORTED, "spec.rules[0].http.paths[0].backend.service.port", "protocol \"UDP\"", "answered 503"),
    (
        "external-name",
        "ExternalNameNotAllowed",
        "spec.rules[0].http.paths[0].backend.service.name",
        "switched off",
        "answered 503",
    ),
    ("bad-regex", PATH, "spec.rules[0].http.paths[0].path", "unclosed character class", "path left out"),
    ("foreign-regex", PATH, "spec.rules[0].http.paths[0].path", "look-around", "path left out"),
    ("large-regex", "RegexTooExpensive", "spec.rules[0].http.paths[0].path", "too long", "path left out"),
    ("path-with-query", PATH, "spec.rules[0].http.paths[0].path", "has \"?\"", "path left out"),
    ("path-with-fragment", PATH, "spec.rules[0].http.paths[0].path", "has \"#\"", "path left out"),
    ("newcomer", "Conflicted", "spec.rules[0].http.paths[0]", "of Ingress default/good", "path left out"),
    ("twice", "Conflicted", "spec.rules[0].http.paths[1]", "of this Ingress", "path left out"),
    (
        "second-default",
        "Conflicted",
        "spec.defaultBackend",
        "is defined by Ingress default/good-default",
        "default backend not used",
    ),
    ("missing-secret", SECRET, "spec.tls[0].secretName", "does not exist", "no TLS for \"missing-secret.test\""),
    ("secret-no-pem", SECRET, "spec.tls[0].secretName", "no PEM block", "no TLS for \"secret-no-pem.test\""),
    (
        "secret-half",
        SECRET,
        "spec.tls[0].secretName",
        "data[\"tls.key\"] is missing",
        "no TLS for \"secret-half.test\"",
    ),
    ("secret-mismatch", SECRET, "spec.tls[0].secretName", "does not match the certificate", "no TLS for"),
    ("secret-other-type", SECRET, "spec.tls[0].secretName", "neither of type", "no TLS for"),
    ("secret-unnamed", SECRET, "spec.tls[0].secretName", "no default certificate", "no TLS for"),
    ("uncovered-host", SECRET, "spec.tls[0].secretName", "does not cover all hosts", "no TLS for"),
    ("uncovered-rules", TLS, "spec.tls[0]", "covers no host of the rules", "left out"),
    (
        "tls-unknown-version",
        ANNOTATION,
        "projectcontour.io/tls-minimum-protocol-version",
        "\"1.9\" is neither",
        "left out",
    ),
    ("tls-versions", TLS, "projectcontour.io/tls-minimum-protocol-version", "above the highest", "are offered"),
    ("bad-timeout", ANNOTATION, "projectcontour.io/response-timeout", "\"soon\" is not a duration", "left out"),
    ("bad-retries", ANNOTATION, "projectcontour.io/num-retries", "\"many\" is not a number", "1 retry"),
    ("unknown-annotation", ANNOTATION, "lockgate.dev/nonsense", "is not known", "left out"),
    (
        "restricting-annotation",
        "AccessNotRestricted",
        "metadata.annotations",
        "not enforced: \"nginx.ingress.kubernetes.io/auth-url\"",
        "answered 403",
    ),
    (
        "restricting-annotation",
        "UnsupportedAnnotation",
        "metadata.annotations",
        "not supported: \"nginx.ingress.kubernetes.io/auth-signin\", \"nginx.ingress.kubernetes.io/proxy-body-size\"",
        "left out",
    ),
    ("misplaced-annotation", ANNOTATION, "projectcontour.io/max-connections", "belongs on a Service", "left out"),
    ("bad-limit", ANNOTATION, "projectcontour.io/max-connections", "\"many\" is not a number", "left out"),
    (
        "bad-protocol",
        ANNOTATION,
        "projectcontour.io/upstream-protocol.h2c",
        "not a port of the Service",
        "entry left out",
    ),
    ("names", "EndpointNotValid", "addressType", "\"FQDN\" is not served", "EndpointSlice left out"),
    (
        "second",
        "MultipleDefaultClasses",
        "ingressclass.kubernetes.io/is-default-class",
        "takes precedence",
        "every controller",
    ),
];

const UNRESOLVED: &str = "ServiceUnresolvedReference";
const UNSUPPORTED: &str = "UnsupportedBackend";
const PATH: &str = "PathMatchConditionsNotValid";
const SECRET: &str = "SecretNotValid";
const TLS: &str = "TLSConfigNotValid";
const ANNOTATION: &str = "InvalidAnnotation";

/// Returns whether a note reports a case in a namespace.
pub fn matches_case(note: &str, (_, _, field, fault, consequence): &Case, namespace: &str) -> bool {
    let fault = fault.replace("default/", &format!("{namespace}/"));
    [field, &*fault, consequence].iter().all(|part| note.contains(part))
}

/// Returns the objects for a namespace.
pub fn yaml(namespace: &str) -> String {
    let other = Authority::new().issue(&["pair.test", "pair-2.test"]);
    let stranger = Authority::new().issue(&["pair.test"]);
    let certificate = other.secret(namespace, "half").replace("kubernetes.io/tls", "Opaque");
    let half = certificate.lines().filter(|line| !line.contains("tls.key")).collect::<Vec<_>>().join("\n");
    let of_stranger = stranger.secret(namespace, "mismatch");
    let key = of_stranger.lines().find(|line| line.contains("tls.key")).expect("a key");
    let mismatch = other.secret(namespace, "mismatch");
    let own_key = mismatch.lines().find(|line| line.contains("tls.key")).expect("a key");
    let mismatch = mismatch.replace(own_key, key);
    let broken =
        [include_str!("../broken.yaml").to_owned(), other.secret(namespace, "pair"), format!("{half}\n"), mismatch];
    broken.join("\n---\n")
}
