//! The known annotations, and the parser of the annotations of Ingresses. `backend` parses the annotations of Services.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use crate::duration::{self, TimeLimit};
use crate::model::{OwnParts, Retry, TlsVersion};
use crate::objects::{Ingress, Kind, Meta};
use crate::settings::{RETRY_CONDITIONS, Settings, is_label};

use super::foreign;
use super::plain_text::{PlainText, ToHttps};
use super::problem::{Problem, Reason};
use crate::few::set_of;

/// Prefixes whose keys are all known: an unknown key is a mistake.
const PREFIXES: [&str; 2] = ["projectcontour.io/", "lockgate.dev/"];

/// Keys with [`PREFIXES`] that an Ingress may have.
const INGRESS_KEYS: [&str; 11] = [
    DELEGATE_TO,
    "projectcontour.io/ingress.class",
    NUM_RETRIES,
    PER_TRY_TIMEOUT,
    REQUEST_TIMEOUT,
    RESPONSE_TIMEOUT,
    RETRY_ON,
    TLS_CERT_NAMESPACE,
    TLS_MAXIMUM,
    TLS_MINIMUM,
    // Accepted without effect: websockets are always enabled.
    "projectcontour.io/websocket-routes",
];

/// Other keys that an Ingress may have.
const PLAIN_TEXT_KEYS: [&str; 4] = [ALLOW_HTTP, FORCE_SSL_REDIRECT, NGINX_FORCE_SSL_REDIRECT, NGINX_SSL_REDIRECT];

/// Keys with [`PREFIXES`] that a Service may have.
const SERVICE_KEYS: [&str; 9] = [
    "lockgate.dev/connect-timeout",
    "projectcontour.io/max-connections",
    "projectcontour.io/max-pending-requests",
    "projectcontour.io/max-requests",
    "projectcontour.io/max-retries",
    "projectcontour.io/per-host-max-connections",
    "projectcontour.io/upstream-protocol.h2",
    "projectcontour.io/upstream-protocol.h2c",
    "projectcontour.io/upstream-protocol.tls",
];

/// The maximum number of entries of a list that count.
const ENTRIES: usize = 1000;

const ALLOW_HTTP: &str = "kubernetes.io/ingress.allow-http";
const DELEGATE_TO: &str = "lockgate.dev/delegate-to";
const FORCE_SSL_REDIRECT: &str = "ingress.kubernetes.io/force-ssl-redirect";
const NGINX_FORCE_SSL_REDIRECT: &str = "nginx.ingress.kubernetes.io/force-ssl-redirect";
const NGINX_SSL_REDIRECT: &str = "nginx.ingress.kubernetes.io/ssl-redirect";
const NUM_RETRIES: &str = "projectcontour.io/num-retries";
const PER_TRY_TIMEOUT: &str = "projectcontour.io/per-try-timeout";
const REQUEST_TIMEOUT: &str = "projectcontour.io/request-timeout";
const RESPONSE_TIMEOUT: &str = "projectcontour.io/response-timeout";
const RETRY_ON: &str = "projectcontour.io/retry-on";
/// The annotation with the namespace of the Secrets for TLS.
pub const TLS_CERT_NAMESPACE: &str = "projectcontour.io/tls-cert-namespace";
const TLS_MAXIMUM: &str = "projectcontour.io/tls-maximum-protocol-version";
const TLS_MINIMUM: &str = "projectcontour.io/tls-minimum-protocol-version";

/// The annotations of an Ingress, with defaults.
#[derive(Debug, Clone, PartialEq)]
pub struct Annotations {
    /// The handling of requests on the plain-text port.
    pub plain_text: PlainText,
    /// The timeout of a response.
    pub timeout: Option<Duration>,
    /// The retry policy.
    pub retry: Option<Box<Retry>>,
    /// Which of the two annotations set.
    pub own: OwnParts,
    /// Lowest TLS version, within the bounds of the settings.
    pub tls_minimum: TlsVersion,
    /// Highest TLS version, within the bounds of the settings.
    pub tls_maximum: TlsVersion,
    /// The other namespace that has the Secrets for TLS.
    pub secret_namespace: Option<Arc<str>>,
    /// The namespaces that may add paths to the hosts of the Ingress, sorted.
    pub delegates: Arc<[Arc<str>]>,
    /// The body of a 403 for all paths, if an annotation of another controller restricts access.
    pub denied: Option<Arc<str>>,
}

/// Returns whether the translation reads the annotation `name` of objects of `kind`.
pub fn is_used(name: &str, kind: Kind) -> bool {
    let of_ingress = || INGRESS_KEYS.contains(&name) || PLAIN_TEXT_KEYS.contains(&name);
    kind == Kind::INGRESS && of_ingress() || kind == Kind::SERVICE && SERVICE_KEYS.contains(&name)
}

/// Parses the annotations of an Ingress, and returns their problems. An invalid annotation counts as absent.
pub fn of_ingress(ingress: &Ingress, settings: &Settings) -> (Annotations, Vec<Problem>) {
    let mut reader = Reader::new(&ingress.meta, Kind::INGRESS);
    reader.unknown(&INGRESS_KEYS, &SERVICE_KEYS, "a Service");
    let plain_text = plain_text(&mut reader, settings);
    let timeout = reader.limit(RESPONSE_TIMEOUT);
    let old_timeout = reader.limit(REQUEST_TIMEOUT);
    let (tls_minimum, tls_maximum) = tls_versions(&mut reader, settings);
    let foreign = foreign::of(&ingress.meta, Kind::INGRESS, settings);
    reader.problems.extend(foreign.problems);
    let limit = timeout.or(old_timeout);
    let (retry, own_retry) = retry(&mut reader, settings);
    let annotations = Annotations {
        plain_text,
        timeout: match limit {
            None | Some(TimeLimit::Default) => settings.timeouts.response,
            Some(TimeLimit::Infinite) => None,
            Some(TimeLimit::After(limit)) => Some(limit),
        },
        retry: retry.map(Box::new),
        own: OwnParts { timeout: matches!(limit, Some(TimeLimit::Infinite | TimeLimit::After(_))), retry: own_retry },
        tls_minimum,
        tls_maximum,
        secret_namespace: secret_namespace(&ingress.meta),
        delegates: delegates(&mut reader),
        denied: foreign.denied,
    };
    (annotations, reader.problems)
}

/// Returns the treatment of plain HTTP. The annotations of ingress-nginx have the effect that they have there.
fn plain_text(reader: &mut Reader, settings: &Settings) -> PlainText {
    let forced = reader.boolean(FORCE_SSL_REDIRECT);
    let [nginx, forced_by_nginx] = [NGINX_SSL_REDIRECT, NGINX_FORCE_SSL_REDIRECT].map(|key| {
        let is_ignored = settings.ingress.ignored_annotations.iter().any(|ignored| ignored == key);
        if is_ignored { None } else { reader.boolean_of_go(key) }
    });
    let allowed = reader.boolean(ALLOW_HTTP).unwrap_or(true);
    let to_https = ToHttps::new(settings);
    match forced.or(forced_by_nginx.filter(|forced| *forced)) {
        Some(true) => PlainText::Redirect(to_https),
        _ if !allowed => PlainText::Closed,
        None if nginx.unwrap_or(settings.tls.redirect) => PlainText::RedirectBehindTls(to_https),
        Some(false) | None => PlainText::Serve,
    }
}

/// Returns the namespaces that may add paths to the hosts of the Ingress.
fn delegates(reader: &mut Reader) -> Arc<[Arc<str>]> {
    let mut names = Vec::new();
    for name in reader.list(DELEGATE_TO) {
        match is_label(name) {
            true => names.push(Arc::from(name)),
            false => reader.wrong(
                DELEGATE_TO,
                format!("{name:?} is not the name of a namespace"),
                "the hosts are not delegated to it",
            ),
        }
    }
    set_of(names).into()
}

/// Reports annotations of a Service that are unknown, misplaced, or restrict access for another controller.
pub fn unknown_of_service(meta: &Meta, settings: &Settings) -> Vec<Problem> {
    let mut reader = Reader::new(meta, Kind::SERVICE);
    reader.unknown(&SERVICE_KEYS, &INGRESS_KEYS, "an Ingress");
    reader.problems.extend(foreign::of(meta, Kind::SERVICE, settings).problems);
    reader.problems
}

/// Returns the retry policy, and whether an annotation sets a part of it. Without `retry-on`, the policy of the settings applies; an
/// empty `retry-on` disables retries.
fn retry(reader: &mut Reader, settings: &Settings) -> (Option<Retry>, bool) {
    let (most, settings) = (settings.tenants.max_retries, &settings.retries);
    let text = reader.get(RETRY_ON);
    let mut conditions = Vec::new();
    // Envoy has a copy of the list for each path, so each condition counts once.
    for word in reader.list(RETRY_ON) {
        match RETRY_CONDITIONS.contains(&word) {
            true => conditions.push(word),
            false => {
                reader.wrong(RETRY_ON, format!("{word:?} is not a retry condition of Envoy"), "condition left out")
            }
        }
    }
    // A value without a valid condition counts as absent. An empty value disables retries.
    let by_settings = conditions.is_empty() && text.is_none_or(|text| !text.is_empty());
    if by_settings {
        conditions.extend(settings.conditions.iter().map(String::as_str));
    }
    if text.is_none() && conditions.is_empty() {
        for key in [NUM_RETRIES, PER_TRY_TIMEOUT] {
            if let Some(value) = reader.get(key) {
                reader.wrong(key, format!("value {value:?} has no effect without {RETRY_ON:?}"), "left out");
            }
        }
        return (None, false);
    }
    let is_own = !by_settings || reader.get(NUM_RETRIES).or(reader.get(PER_TRY_TIMEOUT)).is_some();
    let default = if by_settings { settings.count } else { 1 };
    let retries = match reader.get(NUM_RETRIES) {
        None => Some(default),
        Some(text) => match text.parse::<i64>() {
            Ok(-1) => None,
            Ok(0) => Some(default),
            Ok(count) if count > most.into() && u32::try_from(count).is_ok() => {
                let message = format!("value {text:?} is larger than {most}, the setting tenants.maxRetries");
                reader.wrong(NUM_RETRIES, message, &format!("{most} retries"));
                Some(most)
            }
            Ok(count) if u32::try_from(count).is_ok() => u32::try_from(count).ok(),
            _ => {
                let consequence = if default == 1 { "1 retry".to_owned() } else { format!("{default} retries") };
                reader.wrong(NUM_RETRIES, format!("value {text:?} is not a number of retries"), &consequence);
                Some(default)
            }
        },
    };
    let per_try_timeout = match reader.limit(PER_TRY_TIMEOUT) {
        Some(TimeLimit::After(limit)) => Some(limit),
        Some(TimeLimit::Infinite) => None,
        Some(TimeLimit::Default) | None => settings.per_try_timeout.filter(|_| by_settings),
    };
    let Some(retries) = retries.filter(|_| !conditions.is_empty()) else { return (None, is_own) };
    (Some(Retry { on: conditions.join(","), retries, per_try_timeout, ..Retry::default() }), is_own)
}

/// Returns the TLS versions of the object, within the bounds of the settings. If the versions of the object contradict
/// each other, the bounds apply.
fn tls_versions(reader: &mut Reader, settings: &Settings) -> (TlsVersion, TlsVersion) {
    let bounds = &settings.tls.parameters;
    let asked_minimum = reader.tls_version(TLS_MINIMUM);
    let asked_maximum = reader.tls_version(TLS_MAXIMUM);
    let minimum = asked_minimum.map_or(bounds.minimum, |asked| asked.max(bounds.minimum));
    let maximum = asked_maximum.map_or(bounds.maximum, |asked| asked.min(bounds.maximum));
    if minimum <= maximum {
        return (minimum, maximum);
    }
    // The settings can contradict themselves only if they were not validated. The object has no fault then.
    if bounds.minimum <= bounds.maximum {
        let key = if asked_minimum.is_some() { TLS_MINIMUM } else { TLS_MAXIMUM };
        reader.problem(
            key,
            Reason::TLSConfigNotValid,
            format!("lowest TLS version {} is above the highest, {}", text_of(minimum), text_of(maximum)),
            format!("{} to {} are offered", text_of(bounds.minimum), text_of(bounds.maximum)),
        );
    }
    (bounds.minimum, bounds.maximum)
}

fn text_of(version: TlsVersion) -> &'static str {
    match version {
        TlsVersion::V1_2 => "\"1.2\"",
        TlsVersion::V1_3 => "\"1.3\"",
    }
}

/// Returns the other namespace that has the Secrets for TLS of an Ingress.
pub fn secret_namespace(meta: &Meta) -> Option<Arc<str>> {
    let namespace = meta.annotations.get(TLS_CERT_NAMESPACE)?;
    (!namespace.is_empty() && **namespace != *meta.key.namespace).then(|| (&**namespace).into())
}

/// Reads the annotations of one object and records their problems.
pub struct Reader<'a> {
    object: ObjectRef,
    annotations: &'a BTreeMap<String, String>,
    /// The problems so far.
    pub problems: Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// Creates a reader for the annotations of the object of `kind`.
    pub fn new(meta: &'a Meta, kind: Kind) -> Self {
        Self { object: meta.object_ref(kind), annotations: &meta.annotations, problems: Vec::new() }
    }

    /// Returns the value without surrounding spaces.
    pub fn get(&self, key: &str) -> Option<&'a str> {
        self.annotations.get(key).map(|value| value.trim())
    }

    /// Returns the different entries of a list, in their order. Entries after the first [`ENTRIES`] are left out.
    pub fn list(&mut self, key: &str) -> Vec<&'a str> {
        let mut found = Vec::new();
        let mut seen = BTreeSet::new();
        let text = self.get(key).unwrap_or_default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            if !seen.insert(entry) {
                continue;
            }
            if found.len() == ENTRIES {
                self.wrong(key, format!("the list has more than {ENTRIES} entries"), "other entries left out");
                break;
            }
            found.push(entry);
        }
        found
    }

    /// Records that the value of `key` is invalid.
    pub fn wrong(&mut self, key: &str, message: String, consequence: &str) {
        self.problem(key, Reason::InvalidAnnotation, message, consequence.to_owned());
    }

    fn problem(&mut self, key: &str, reason: Reason, message: String, consequence: String) {
        let (object, field) = (self.object.clone(), format!("metadata.annotations[{key:?}]"));
        self.problems.push(Problem { object, field, reason, message: message.into(), consequence });
    }

    /// Records keys with [`PREFIXES`] that are not in `known`. Keys in `foreign` belong on an `owner`.
    fn unknown(&mut self, known: &[&str], foreign: &[&str], owner: &str) {
        for key in self.annotations.keys() {
            let ours = PREFIXES.iter().any(|prefix| key.starts_with(prefix));
            if !ours || known.contains(&key.as_str()) {
                continue;
            }
            let message = match foreign.contains(&key.as_str()) {
                true => format!("annotation {key:?} belongs on {owner}"),
                false => format!("annotation {key:?} is not known"),
            };
            self.wrong(key, message, "left out");
        }
    }

    fn boolean(&mut self, key: &str) -> Option<bool> {
        let value = self.get(key)?;
        match value {
            "true" => Some(true),
            "false" => Some(false),
            _ => {
                self.wrong(key, format!("value {value:?} is neither \"true\" nor \"false\""), "left out");
                None
            }
        }
    }

    /// Parses a boolean as controllers in Go do. Source: Go, `strconv.ParseBool`.
    fn boolean_of_go(&mut self, key: &str) -> Option<bool> {
        match self.get(key)? {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
            _ => self.boolean(key),
        }
    }

    /// Parses a time limit.
    pub fn limit(&mut self, key: &str) -> Option<TimeLimit> {
        let value = self.get(key)?;
        let limit = duration::limit(value);
        if limit.is_none() {
            self.wrong(key, format!("value {value:?} is not a duration such as \"1500ms\" or \"2s\""), "left out");
        }
        limit
    }

    fn tls_version(&mut self, key: &str) -> Option<TlsVersion> {
        let value = self.get(key)?;
        match value {
            "1.2" => Some(TlsVersion::V1_2),
            "1.3" => Some(TlsVersion::V1_3),
            _ => {
                self.wrong(key, format!("value {value:?} is neither \"1.2\" nor \"1.3\""), "left out");
                None
            }
        }
    }
}
