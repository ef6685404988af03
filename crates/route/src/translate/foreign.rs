//! Annotations of other ingress controllers on served objects, their restrictions of access, and their problems.
//!
//! If an annotation that restricts access were ignored, a protected site would become public. The paths behind it are
//! answered 403 instead, unless the settings ignore it. The table below is also in docs/annotations.md.

mod snippet;

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::objects::foreign::controller_of;
use crate::objects::{Kind, Meta};
use crate::settings::{RestrictingAnnotations, Settings};

use super::problem::{Problem, Reason};

/// The values with which an annotation restricts access.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum When {
    /// All values.
    Set,
    /// All values except these, regardless of case.
    Unless(&'static [&'static str]),
    /// Only these values.
    If(&'static [&'static str]),
    /// All lists of address ranges, except for an empty list and lists with all IPv4 addresses.
    NotAllSources,
    /// All lists with an item other than these.
    OtherThan(&'static [&'static str]),
    /// All values with an nginx directive that is not known to be harmless.
    Directives,
}

use When::{Directives, If, NotAllSources, OtherThan, Set, Unless};

/// Switches that are not set or are off.
const OFF: When = Unless(&["", "false", "off", "no", "none", "disabled", "0"]);
/// A list of names, which has no effect if it is empty.
const NAMED: When = Unless(&[""]);

/// The annotations that restrict access: the prefixes of their names, and the rest. A `*` matches any text.
const RESTRICTING: &[(&str, &[(&str, When)])] = &[
    (
        "nginx.ingress.kubernetes.io/",
        &[
            ("auth-url", Set),
            ("auth-type", Set),
            ("auth-secret", Set),
            ("auth-tls-secret", Set),
            ("auth-tls-verify-client", Unless(&["off"])),
            ("auth-tls-match-cn", NAMED),
            ("whitelist-source-range", NotAllSources),
            ("allowlist-source-range", NotAllSources),
            ("denylist-source-range", NAMED),
            ("satisfy", Set),
            ("configuration-snippet", Directives),
            ("server-snippet", Directives),
            ("enable-modsecurity", OFF),
            ("enable-owasp-core-rules", OFF),
            ("modsecurity-snippet", NAMED),
            ("wallarm-mode", OFF),
        ],
    ),
    (
        "nginx.org/",
        &[
            ("basic-auth-secret", Set),
            ("policies", NAMED),
            ("location-snippets", Directives),
            ("server-snippets", Directives),
        ],
    ),
    ("nginx.com/", &[("jwt-key", Set), ("jwt-token", Set), ("jwt-realm", Set)]),
    ("appprotect.f5.com/", &[("app-protect-enable", OFF), ("app-protect-policy", NAMED)]),
    ("appprotectdos.f5.com/", &[("app-protect-dos-resource", NAMED)]),
    (
        "traefik.ingress.kubernetes.io/",
        &[
            ("router.middlewares", NAMED),
            ("router.entrypoints", OtherThan(&["web", "websecure", "http", "https"])),
            ("router.tls.options", Unless(&["", "default"])),
            ("auth-type", Set),
            ("auth-secret", Set),
            ("auth-url", Set),
            ("frontend-entry-points", OtherThan(&["web", "websecure", "http", "https"])),
            ("whitelist-source-range", NotAllSources),
        ],
    ),
    ("hub.traefik.io/", &[("access-control-policy", NAMED)]),
    ("haproxy-ingress.github.io/", HAPROXY_INGRESS),
    (
        "haproxy.org/",
        &[
            ("auth-type", OFF),
            ("auth-secret", Set),
            ("allow-list", NotAllSources),
            ("whitelist", NotAllSources),
            ("deny-list", NAMED),
            ("blacklist", NAMED),
            ("route-acl", NAMED),
            ("backend-config-snippet", NAMED),
            ("frontend-config-snippet", NAMED),
        ],
    ),
    (
        "haproxy.com/",
        &[
            ("auth-type", OFF),
            ("auth-secret", Set),
            ("allow-list", NotAllSources),
            ("deny-list", NAMED),
            ("waf*", OFF),
            ("backend-config-snippet", NAMED),
        ],
    ),
    ("haproxy.router.openshift.io/", &[("ip_whitelist", NotAllSources), ("ip_allowlist", NotAllSources)]),
    (
        "konghq.com/",
        &[("plugins", NAMED), ("methods", NAMED), ("headers*", NAMED), ("snis", NAMED), ("override", NAMED)],
    ),
    ("plugins.konghq.com", &[("", NAMED)]),
    ("configuration.konghq.com", &[("", NAMED)]),
    (
        "alb.ingress.kubernetes.io/",
        &[
            ("scheme", If(&["internal"])),
            ("inbound-cidrs", NotAllSources),
            ("security-groups", NAMED),
            ("security-group-prefix-lists", NAMED),
            ("frontend-nlb-security-groups", NAMED),
            ("auth-type", OFF),
            ("auth-idp-cognito", NAMED),
            ("auth-idp-oidc", NAMED),
            ("auth-on-unauthenticated-request", Unless(&["allow"])),
            ("jwt-validation", NAMED),
            ("mutual-authentication", NAMED),
            ("conditions.*", NAMED),
            ("wafv2-acl-arn", Unless(&["", "none"])),
            ("wafv2-acl-name", Unless(&["", "none"])),
            ("waf-acl-id", Unless(&["", "none"])),
            ("web-acl-id", Unless(&["", "none"])),
        ],
    ),
    (
        "appgw.ingress.kubernetes.io/",
        &[("use-private-ip", OFF), ("waf-policy-for-path", NAMED), ("appgw-ssl-profile", NAMED)],
    ),
    ("cloud.google.com/", &[("backend-config", NAMED)]),
    ("beta.cloud.google.com/", &[("backend-config", NAMED)]),
    ("oci-native-ingress.oraclecloud.com/", &[("waf-policy-ocid", NAMED)]),
    (
        "zalando.org/",
        &[
            ("skipper-filter", NAMED),
            ("skipper-predicate", NAMED),
            ("skipper-routes", NAMED),
            ("aws-load-balancer-scheme", If(&["internal"])),
        ],
    ),
    (
        "ingress.pomerium.io/",
        &[
            ("policy", Set),
            ("allowed_*", Set),
            ("allow_any_authenticated_user", Set),
            ("tls_downstream_client_ca_secret", Set),
        ],
    ),
    (
        "k8s.apisix.apache.org/",
        &[
            ("auth-type", OFF),
            ("auth-uri", NAMED),
            ("allowlist-source-range", NotAllSources),
            ("blocklist-source-range", NAMED),
            ("http-allow-methods", NAMED),
            ("http-block-methods", NAMED),
            ("plugin-config-name", NAMED),
        ],
    ),
    (
        "higress.io/",
        &[
            ("auth-*", Set),
            ("whitelist-source-range", NotAllSources),
            ("blacklist-source-range", NAMED),
            ("domain-whitelist-source-range", NotAllSources),
            ("domain-blacklist-source-range", NAMED),
        ],
    ),
    ("virtual-server.f5.com/", &[("allow-source-range", NotAllSources), ("waf", NAMED)]),
    ("ingress.appscode.com/", &[("auth-*", Set), ("whitelist-source-range", NotAllSources)]),
    ("ingress.kubernetes.io/", HAPROXY_INGRESS),
];

/// The annotations of HAProxy Ingress. It reads them with several prefixes, as do older versions of Traefik,
/// ingress-nginx, and others.
const HAPROXY_INGRESS: &[(&str, When)] = &[
    ("auth-url", NAMED),
    ("auth-type", OFF),
    ("auth-secret", NAMED),
    ("auth-tls-secret", NAMED),
    ("auth-tls-verify-client", Unless(&["off"])),
    ("oauth", OFF),
    ("allowlist-source-range", NotAllSources),
    ("whitelist-source-range", NotAllSources),
    ("denylist-source-range", NAMED),
    ("config-backend*", NAMED),
    ("waf", OFF),
];

/// The maximum length of a value that is examined, in bytes. A longer value counts as a restriction.
const LONGEST: usize = 32 << 10;
/// The maximum number of annotations in one report.
const MOST_NAMED: usize = 20;
/// The maximum number of annotations in the body of a response. Envoy rejects bodies over 4 KiB.
const MOST_IN_BODY: usize = 5;

/// The effect of the annotations of other controllers on one object.
#[derive(Debug, Default, PartialEq)]
pub struct Foreign {
    /// The body of a 403 for the paths of the object, if access is denied.
    pub denied: Option<Arc<str>>,
    /// The problems.
    pub problems: Vec<Problem>,
}

/// Evaluates the annotations of an Ingress or a Service.
///
/// For a Service, only restrictions of access are reported: programs other than ingress controllers read the rest.
pub fn of(meta: &Meta, kind: Kind, settings: &Settings) -> Foreign {
    let (mut restricting, mut patterns, mut others) = (Vec::new(), BTreeSet::new(), Vec::new());
    for (name, classification) in classifications(meta, settings) {
        match classification {
            Classification::Restricts(pattern) => {
                restricting.push(name);
                patterns.insert(pattern);
            }
            Classification::Other if kind == Kind::INGRESS => others.push(name),
            Classification::Other | Classification::SwitchedOff => {}
        }
    }
    let mut found = Foreign::default();
    let problem = |reason, message: String, consequence: &str| Problem {
        object: meta.object_ref(kind),
        field: "metadata.annotations".to_owned(),
        reason,
        message: message.into(),
        consequence: consequence.to_owned(),
    };
    if !restricting.is_empty() {
        let message = format!(
            "annotations of another ingress controller restrict access and are not enforced: {}",
            list(&restricting)
        );
        let consequence = match settings.ingress.restricting_annotations {
            RestrictingAnnotations::Deny => {
                found.denied = Some(body(&patterns));
                "answered 403; protect the paths in another way and remove the annotations, or see the settings \
                 ingress.restrictingAnnotations and ingress.ignoredAnnotations"
            }
            RestrictingAnnotations::Ignore => {
                "served without the restriction, because of the setting ingress.restrictingAnnotations"
            }
        };
        found.problems.push(problem(Reason::AccessNotRestricted, message, consequence));
    }
    if !others.is_empty() {
        let message = format!("annotations of another ingress controller are not supported: {}", list(&others));
        found.problems.push(problem(Reason::UnsupportedAnnotation, message, "left out"));
    }
    found
}

/// The effect of an annotation of another controller on an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Access is denied, because the restriction is not enforced. The settings may disable this.
    Denied,
    /// Left out, with a report.
    LeftOut,
    /// Left out without a report: its value changes nothing.
    Harmless,
}

/// Returns the annotations of other controllers on an object, and their effects, by name. `of` reports the same
/// annotations.
pub fn effects<'a>(meta: &'a Meta, kind: Kind, settings: &'a Settings) -> impl Iterator<Item = (&'a str, Effect)> {
    classifications(meta, settings).map(move |(name, classification)| match classification {
        Classification::Restricts(_) => (name, Effect::Denied),
        Classification::Other if kind == Kind::INGRESS => (name, Effect::LeftOut),
        Classification::Other | Classification::SwitchedOff => (name, Effect::Harmless),
    })
}

/// Evaluates the annotations of other controllers that the settings do not ignore.
fn classifications<'a>(meta: &'a Meta, settings: &'a Settings) -> impl Iterator<Item = (&'a str, Classification)> {
    let is_ignored = |name: &String| settings.ingress.ignored_annotations.contains(name);
    let classified =
        meta.annotations.iter().filter(move |(name, _)| controller_of(name).is_some() && !is_ignored(name));
    classified.map(|(name, value)| (name.as_str(), classify(name, value.trim())))
}

/// The effect of an annotation on access.
#[derive(Debug, PartialEq)]
enum Classification {
    /// Restricts access, by this row of the table.
    Restricts(String),
    /// Belongs to the table, but its value disables the restriction, so it needs no report.
    SwitchedOff,
    /// Does not affect access.
    Other,
}

/// Evaluates an annotation of another controller.
fn classify(name: &str, value: &str) -> Classification {
    let Some((pattern, when)) = row(name) else { return Classification::Other };
    match (when.holds(value), when) {
        (true, _) => Classification::Restricts(pattern),
        // The other directives of the snippet are ignored.
        (false, Directives) => Classification::Other,
        (false, _) => Classification::SwitchedOff,
    }
}

/// Returns the row of the table for an annotation, and the annotation's name in the table.
fn row(name: &str) -> Option<(String, When)> {
    let (start, rows) = RESTRICTING.iter().find(|(start, _)| name.starts_with(start))?;
    let rest = name.strip_prefix(start)?;
    let takes = |pattern: &str| match pattern.strip_suffix('*') {
        Some(beginning) => rest.starts_with(beginning),
        None => rest == pattern,
    };
    let (pattern, when) = rows.iter().find(|(pattern, _)| takes(pattern))?;
    Some((format!("{start}{pattern}"), *when))
}

impl When {
    /// Returns whether a value restricts access.
    fn holds(self, value: &str) -> bool {
        let among = |words: &[&str], value: &str| words.iter().any(|word| word.eq_ignore_ascii_case(value));
        let mut items = value.split([',', ' ', '\n']).map(str::trim).filter(|item| !item.is_empty());
        // A long value is not examined, because other tenants wait for the result.
        if value.len() > LONGEST {
            return true;
        }
        match self {
            Set => true,
            Unless(words) => !among(words, value),
            If(words) => among(words, value),
            NotAllSources => !value.is_empty() && !items.any(|item| item == "0.0.0.0/0"),
            OtherThan(words) => items.any(|item| !among(words, item)),
            Directives => snippet::restricts(value),
        }
    }

    /// Describes the condition for the documentation.
    #[cfg(test)]
    fn describe(self) -> String {
        let words = |words: &[&str]| {
            words
                .iter()
                .map(|word| if word.is_empty() { "empty".into() } else { format!("`{word}`") })
                .collect::<Vec<_>>()
        };
        match self {
            Set => "any".to_owned(),
            Unless(list) => format!("any but {}", words(list).join(", ")),
            If(list) => words(list).join(", "),
            NotAllSources => "any but empty, or a list with `0.0.0.0/0`".to_owned(),
            OtherThan(list) => format!("any but {}", words(list).join(", ")),
            Directives => "a [directive that may restrict access](#snippets-of-nginx)".to_owned(),
        }
    }
}

/// Lists annotations for a report.
fn list(names: &[&str]) -> String {
    let mut text = names.iter().take(MOST_NAMED).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    if names.len() > MOST_NAMED {
        text.push_str(&format!(" and {} more", names.len() - MOST_NAMED));
    }
    text
}

/// Returns the body of the response. It contains only names from the table and no text of the object, so its length is
/// bounded.
fn body(patterns: &BTreeSet<String>) -> Arc<str> {
    let named = patterns.iter().take(MOST_IN_BODY).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match patterns.len().saturating_sub(MOST_IN_BODY) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("access denied: annotations restrict access to this path and are not enforced: {named}{more}\n").into()
}

#[cfg(test)]
mod tests;
