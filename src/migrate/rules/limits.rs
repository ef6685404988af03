//! The time limits and the retries of rules.

use std::collections::BTreeSet;
use std::time::Duration;

use lockgate_route::model::{Action, Forward, ForwardFilter, HeaderName, Retry, Route};
use lockgate_route::objects::Ingress;
use serde_json::{Value, json};

use super::super::Migrated;
use super::super::MigrationOptions;
use super::super::losses::{FindingText, Losses, annotation};
use super::super::policies::retries_spec;
use super::{RulePlace, Writer};

const RETRY_ON: &str = "projectcontour.io/retry-on";
const TIMEOUTS: [&str; 2] = ["projectcontour.io/response-timeout", "projectcontour.io/request-timeout"];

impl Writer<'_> {
    /// Adds the time limits and the retries, except for those of an HTTPPolicy: the written one would not replace them.
    pub(super) fn limits(
        &self,
        place: RulePlace,
        (route, forward): (&Route, &Forward),
        rule: &mut Value,
        losses: &mut Losses,
    ) {
        let policy = route.policy();
        let limits = policy.and_then(|policy| policy.timeouts);
        let object =
            self.source.objects.get::<Ingress>(place.owner).filter(|_| losses.migrated() == Migrated::Ingresses);
        let has = |name: &&str| object.is_some_and(|object| object.meta.annotations.contains_key(*name));
        let is_default = forward.timeout == self.source.settings.timeouts.response;
        let is_own = TIMEOUTS.iter().any(&has) || !is_default || (forward.own.timeout && limits.is_some());
        if is_own && limits.is_none_or(|limits| limits.request.is_none()) {
            rule["timeouts"]["request"] = json!(duration(forward.timeout));
        }
        if policy.is_some_and(|policy| policy.retries.is_some()) {
            return;
        }
        let Some(retry) = &forward.retry else { return };
        let field = match losses.migrated() {
            Migrated::HttpProxies => format!("{}.retryPolicy", place.field),
            _ if has(&RETRY_ON) => annotation(RETRY_ON),
            _ => String::new(),
        };
        if !self.options.experimental {
            if losses.migrated() == Migrated::HttpProxies {
                return;
            }
            let text = FindingText {
                message: format!("retries ({}) are a field of the experimental channel of Gateway API", retry.on),
                consequence: "requests are not retried",
                remedy: "Install the experimental channel and migrate with --experimental, or retry in clients.",
            };
            return losses.add_changed(place.owner, field, text);
        }
        let (codes, lost) = codes(retry);
        rule["retry"] = json!({ "attempts": retry.retries });
        if !codes.is_empty() {
            rule["retry"]["codes"] = json!(codes);
        }
        let limit = retry.per_try_timeout;
        let request = route.timeout(forward);
        if let Some(limit) = limit.filter(|limit| request.is_none_or(|request| *limit <= request)) {
            rule["timeouts"]["backendRequest"] = json!(duration(Some(limit)));
        }
        if !lost.is_empty() {
            let text = FindingText {
                message: format!("HTTPRoutes do not have the retry condition {}", lost.join(", ")),
                consequence: "requests are retried on the other conditions, and if no connection is made",
                remedy: "No action is needed unless the application relies on this condition.",
            };
            losses.add_changed(place.owner, field, text);
        }
    }
}

/// Adds the limits of a route of an HTTPProxy that its rule does not have to the features of its HTTPPolicy: the time without data, and in the
/// standard channel of Gateway API retries.
pub(super) fn add_to_policy(route: &Route, options: &MigrationOptions, features: &mut Option<Value>) {
    let Action::Forward(forward) = &route.action else { return };
    let policy = route.policy();
    let idle = forward.filters.iter().find_map(|filter| match filter {
        ForwardFilter::IdleTimeout(limit) => Some(*limit),
        _ => None,
    });
    let has_idle = policy.and_then(|policy| policy.timeouts).is_some_and(|limits| limits.idle.is_some());
    let header = forward.filters.iter().find_map(|filter| match filter {
        ForwardFilter::HostFromHeader(name) => writable_host(name),
        _ => None,
    });
    let has_host = policy.and_then(|policy| policy.rewrite.as_ref()).is_some_and(|rewrite| rewrite.host.is_some());
    if let Some(header) = header.filter(|_| !has_host) {
        features.get_or_insert_with(|| json!({}))["urlRewrite"]["hostnameFrom"] = json!({ "header": header.as_str() });
    }
    if let Some(idle) = idle.filter(|_| !has_idle) {
        features.get_or_insert_with(|| json!({}))["timeouts"]["idle"] = json!(duration(idle));
    }
    let has_retries = policy.is_some_and(|policy| policy.retries.is_some());
    if let Some(retry) = forward.retry.as_deref().filter(|_| !options.experimental && !has_retries) {
        features.get_or_insert_with(|| json!({}))["retries"] = retries_spec(retry);
    }
}

/// Returns the header with the host of requests, if HTTPPolicies accept it.
pub fn writable_host(name: &HeaderName) -> Option<HeaderName> {
    HeaderName::parse_with_host(name.as_str()).ok()
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
            "retriable-status-codes" => codes.extend(retry.status_codes.iter().copied()),
            "connect-failure" | "refused-stream" | "unavailable" | "cancelled" => {}
            other => lost.push(other),
        }
    }
    (codes.into_iter().collect(), lost)
}

/// Returns a duration in the form of Gateway API; `0s` is no limit. Source: GEP-2257, at most 5 digits and 4 units.
pub fn duration(limit: Option<Duration>) -> String {
    const LONGEST: u128 = 99_999 * 3_600_000;
    let Some(limit) = limit else { return "0s".to_owned() };
    // Less than a unit is rounded up.
    let millis = limit.as_nanos().div_ceil(1_000_000);
    if millis > LONGEST || millis == 0 {
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
