//! The rules of HTTPRoutes without their matches: backends, redirects, time limits, and retries.

use std::collections::BTreeSet;
use std::time::Duration;

use lockgate_route::model::{Action, Forward, Host, PathMatch, PortRef, Redirect, Retry, Route};
use lockgate_route::objects::{Ingress, ObjectKey};
use serde_json::{Value, json};

use super::Options;
use super::losses::{Losses, Text, annotation};
use crate::check::Translated;

const RETRY_ON: &str = "projectcontour.io/retry-on";
const TIMEOUTS: [&str; 2] = ["projectcontour.io/response-timeout", "projectcontour.io/request-timeout"];

/// Writes the rules.
pub struct Writer<'a> {
    /// The Ingresses and their translation.
    pub source: &'a Translated,
    /// The Services of the input. Others are assumed to exist.
    pub given: &'a BTreeSet<ObjectKey>,
    /// The options.
    pub options: &'a Options,
}

impl Writer<'_> {
    /// Returns the fields of a rule for the action of a route of `ingress`. A rule without backends is answered 500: it keeps
    /// requests from a shorter path.
    pub fn rule(&self, ingress: &ObjectKey, host: &Host, route: &Route, losses: &mut Losses) -> Value {
        match &route.action {
            Action::Forward(forward) => self.forward(ingress, host, &route.matches.path, forward, losses),
            Action::Redirect(redirect) => redirected(redirect),
            Action::Respond { status, .. } => {
                let field = losses.field(ingress, host, &route.matches.path);
                match status {
                    404 => losses.add_changed(ingress, field, CLOSED.text()),
                    403 => losses.add_lost(ingress, field, DENIED.text()),
                    _ => losses.add_lost(ingress, field, UNUSABLE.text()),
                }
                json!({})
            }
        }
    }

    fn forward(
        &self,
        ingress: &ObjectKey,
        host: &Host,
        path: &PathMatch,
        forward: &Forward,
        losses: &mut Losses,
    ) -> Value {
        let Some(cluster) = forward.clusters.first().map(|weighted| &weighted.cluster) else { return json!({}) };
        let service = cluster.port.service();
        let number = self.source.translator.model().clusters.get(cluster).map(|cluster| cluster.port);
        let is_unknown = !self.given.contains(service) && matches!(cluster.port.port(), PortRef::Name(_));
        let Some(number) = number.filter(|_| !is_unknown) else {
            let text = Text {
                message: format!("Service \"{service}\" is not in the input, so the number of its port is unknown"),
                consequence: "the rule has no backend, and its requests are answered 500",
                remedy: "Add the Service to the input, or write the number of the port into the Ingress.",
            };
            losses.add_lost(ingress, format!("{}.backend.service.port.name", losses.field(ingress, host, path)), text);
            return json!({});
        };
        let mut rule = json!({ "backendRefs": [{ "name": &*service.name, "port": number }] });
        self.limits(ingress, forward, &mut rule, losses);
        rule
    }

    /// Adds the time limits and the retries.
    fn limits(&self, ingress: &ObjectKey, forward: &Forward, rule: &mut Value, losses: &mut Losses) {
        let object = self.source.objects.get::<Ingress>(ingress);
        let has = |name: &&str| object.is_some_and(|object| object.meta.annotations.contains_key(*name));
        let is_default = forward.timeout == self.source.settings.timeouts.response;
        if TIMEOUTS.iter().any(&has) || !is_default {
            rule["timeouts"]["request"] = json!(duration(forward.timeout));
        }
        let Some(retry) = &forward.retry else { return };
        let field = if has(&RETRY_ON) { annotation(RETRY_ON) } else { String::new() };
        if !self.options.experimental {
            let text = Text {
                message: format!("retries ({}) are a field of the experimental channel of Gateway API", retry.on),
                consequence: "requests are not retried",
                remedy: "Install the experimental channel and migrate with --experimental, or retry in clients.",
            };
            return losses.add_changed(ingress, field, text);
        }
        let (codes, lost) = codes(retry);
        rule["retry"] = json!({ "attempts": retry.retries });
        if !codes.is_empty() {
            rule["retry"]["codes"] = json!(codes);
        }
        let limit = retry.per_try_timeout;
        if let Some(limit) = limit.filter(|limit| forward.timeout.is_none_or(|timeout| *limit <= timeout)) {
            rule["timeouts"]["backendRequest"] = json!(duration(Some(limit)));
        }
        if !lost.is_empty() {
            let text = Text {
                message: format!("HTTPRoutes do not have the retry condition {}", lost.join(", ")),
                consequence: "requests are retried on the other conditions, and if no connection is made",
                remedy: "No action is needed unless the application relies on this condition.",
            };
            losses.add_changed(ingress, field, text);
        }
    }
}

/// The texts of a rule without a backend.
struct Without {
    message: &'static str,
    consequence: &'static str,
    remedy: &'static str,
}

impl Without {
    fn text(&self) -> Text<'static> {
        Text { message: self.message.to_owned(), consequence: self.consequence, remedy: self.remedy }
    }
}

const CLOSED: Without = Without {
    message: "the path is not served over plain HTTP, and a shorter path of the host is",
    consequence: "plain HTTP is answered 500 instead of 404",
    remedy: "No action is needed: the requests are still refused.",
};
const DENIED: Without = Without {
    message: "annotations restrict access to this path and are not enforced",
    consequence: "the rule has no backend, and its requests are answered 500 instead of 403",
    remedy: "Restrict access in another way, remove the annotation, and migrate again.",
};
const UNUSABLE: Without = Without {
    message: "the backend of this path is not usable",
    consequence: "the rule has no backend, and its requests are answered 500 instead of 503",
    remedy: "Correct the backend in the Ingress, and migrate again.",
};

fn redirected(redirect: &Redirect) -> Value {
    let filter = json!({ "scheme": "https", "statusCode": redirect.status.code() });
    json!({ "filters": [{ "type": "RequestRedirect", "requestRedirect": filter }] })
}

/// Returns the statuses of retry conditions, and the conditions that HTTPRoutes do not have. Without a status, HTTPRoutes
/// retry requests for which no connection is made.
fn codes(retry: &Retry) -> (Vec<u16>, Vec<&str>) {
    let (mut codes, mut lost) = (BTreeSet::new(), Vec::new());
    for condition in retry.on.split(',') {
        match condition {
            "5xx" => codes.extend([500, 502, 503, 504]),
            "gateway-error" => codes.extend([502, 503, 504]),
            "retriable-4xx" => codes.extend([409]),
            "connect-failure" | "refused-stream" | "unavailable" | "cancelled" => {}
            other => lost.push(other),
        }
    }
    (codes.into_iter().collect(), lost)
}

/// Returns a duration in the form of Gateway API; `0s` is no limit. Source: GEP-2257, at most 5 digits and 4 units.
fn duration(limit: Option<Duration>) -> String {
    const LONGEST: u128 = 99_999 * 3_600_000;
    let Some(limit) = limit else { return "0s".to_owned() };
    let millis = limit.as_nanos().div_ceil(1_000_000);
    if millis > LONGEST {
        return "0s".to_owned();
    }
    let parts =
        [("h", millis / 3_600_000), ("m", millis / 60_000 % 60), ("s", millis / 1000 % 60), ("ms", millis % 1000)];
    let parts = parts.into_iter().filter(|(_, number)| *number > 0);
    parts.map(|(unit, number)| format!("{number}{unit}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_units_of_gateway_api() {
        let of = |millis| duration(Some(Duration::from_millis(millis)));
        assert_eq!([of(1), of(1500), of(90_000), of(3_600_000)], ["1ms", "1s500ms", "1m30s", "1h"]);
        assert_eq!((duration(None), duration(Some(Duration::from_secs(u64::MAX)))), ("0s".into(), "0s".into()));
    }

    #[test]
    fn conditions_without_a_status_are_lost() {
        let retry = Retry { on: "gateway-error,connect-failure,reset".to_owned(), ..Retry::default() };
        assert_eq!(codes(&retry), (vec![502, 503, 504], vec!["reset"]));
    }
}
