//! The load balancing of routes and Services.

use std::time::Duration;

use super::situation::{self, Block};
use super::tree::{Declaring, Tree};
use crate::duration;
use crate::model::{Algorithm, CookieName, HashOn, HashPart, HeaderName, LoadBalancing, SlowStart};
use crate::objects::http_proxy::{LoadBalancerPolicy, RequestHashPolicy, SlowStartPolicy};

/// The name of the cookie of the strategy `Cookie`, as in Contour.
const COOKIE: &str = "X-Contour-Session-Affinity";
/// The maximum number of hashed parts. Envoy hashes each of them for every request.
const MOST: usize = 16;
/// The longest name of a hashed query parameter, in bytes.
const LONGEST_NAME: usize = 256;
/// The longest slow start.
const LONGEST_WINDOW: Duration = Duration::from_secs(3600);

/// Returns the load balancing of a route. A part that is not valid is left out; without any, the endpoints receive requests in turn.
pub fn of_route(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    policy: Option<&LoadBalancerPolicy>,
) -> Option<LoadBalancing> {
    let policy = policy?;
    let field = format!("{field}.loadBalancerPolicy");
    tree.report.add_rest(&object.origin, &field, (&policy.rest, &[]), Block::Route, "left out");
    let balancing = |algorithm| LoadBalancing { algorithm, ..LoadBalancing::default() };
    if policy.strategy != "RequestHash" && !policy.request_hash_policies.is_empty() {
        let message = "has no effect with another strategy than \"RequestHash\"";
        let field = format!("{field}.requestHashPolicies");
        tree.report.add(&object.origin, field, &situation::HASH_IGNORED, message, "left out");
    }
    if let Some(algorithm) = unhashed(&policy.strategy) {
        return Some(balancing(algorithm));
    }
    Some(match policy.strategy.as_str() {
        "Cookie" => LoadBalancing {
            algorithm: Algorithm::RingHash,
            slow_start: None,
            hash_on: cookie().into_iter().map(HashPart::from).collect(),
        },
        "RequestHash" => {
            let hash_on = parts(tree, object, &field, &policy.request_hash_policies);
            match hash_on.is_empty() {
                false => LoadBalancing { algorithm: Algorithm::RingHash, slow_start: None, hash_on },
                true => {
                    let message = "no part of \"requestHashPolicies\" is valid";
                    tree.report.add(&object.origin, field, &situation::HASH_IGNORED, message, "RoundRobin applied");
                    balancing(Algorithm::RoundRobin)
                }
            }
        }
        other => {
            let message = format!("strategy {other:?} is not known");
            let field = format!("{field}.strategy");
            tree.report.add(&object.origin, field, &situation::HASH_IGNORED, message, "RoundRobin applied");
            balancing(Algorithm::RoundRobin)
        }
    })
}

/// Returns whether the load balancing of a route keeps the sessions of clients at an endpoint.
pub fn keeps_sessions(policy: Option<&LoadBalancerPolicy>) -> bool {
    policy.is_some_and(|policy| policy.strategy == "Cookie")
}

/// Returns the load balancing of a TCP proxy. A connection has no part that could be hashed, as with Contour.
pub fn of_connections(
    tree: &mut Tree,
    object: &Declaring,
    policy: Option<&LoadBalancerPolicy>,
) -> Option<LoadBalancing> {
    let policy = policy?;
    let field = "spec.tcpproxy.loadBalancerPolicy";
    let ignored = Block::TcpProxy.ignored();
    tree.report.add_rest(&object.origin, field, (&policy.rest, &[]), Block::TcpProxy, "left out");
    if !policy.request_hash_policies.is_empty() {
        let message = "connections have no part of a request";
        tree.report.add(&object.origin, format!("{field}.requestHashPolicies"), &ignored, message, "left out");
    }
    let algorithm = unhashed(&policy.strategy).unwrap_or_else(|| {
        let message = format!("strategy {:?} is not one for connections", policy.strategy);
        tree.report.add(&object.origin, format!("{field}.strategy"), &ignored, message, "RoundRobin applied");
        Algorithm::RoundRobin
    });
    Some(LoadBalancing { algorithm, ..LoadBalancing::default() })
}

/// Returns the algorithm of a strategy that hashes no part of requests.
pub fn unhashed(strategy: &str) -> Option<Algorithm> {
    match strategy {
        "" | "RoundRobin" => Some(Algorithm::RoundRobin),
        "WeightedLeastRequest" => Some(Algorithm::LeastRequest),
        "Random" => Some(Algorithm::Random),
        _ => None,
    }
}

/// Returns the cookie of a session, which Envoy sets if it is missing.
fn cookie() -> Option<HashOn> {
    let name = CookieName::parse(COOKIE)?;
    Some(HashOn::Cookie { name, path: "/".into(), lifetime: Some(Duration::ZERO) })
}

fn parts(tree: &mut Tree, object: &Declaring, field: &str, policies: &[RequestHashPolicy]) -> Vec<HashPart> {
    let mut parts: Vec<HashPart> = Vec::new();
    for (index, policy) in policies.iter().enumerate() {
        let field = format!("{field}.requestHashPolicies[{index}]");
        let parsed = part(policy).and_then(|on| match parts.iter().any(|one| one.on == on) {
            true => Err("an earlier entry hashes the same part".to_owned()),
            false if parts.len() == MOST => Err(format!("more than {MOST} entries")),
            false => Ok(HashPart { on, is_terminal: policy.terminal }),
        });
        match parsed {
            Ok(part) => parts.push(part),
            Err(message) => tree.report.add(&object.origin, field, &situation::HASH_IGNORED, message, "left out"),
        }
    }
    parts
}

fn part(policy: &RequestHashPolicy) -> Result<HashOn, String> {
    let RequestHashPolicy { terminal: _, header_hash_options, query_parameter_hash_options, hash_source_ip, rest } =
        policy;
    let of_header = header_hash_options.iter().flat_map(|one| one.rest.names());
    let of_query = query_parameter_hash_options.iter().flat_map(|one| one.rest.names());
    if let Some(name) = rest.names().chain(of_header).chain(of_query).next() {
        return Err(format!("field {name:?} is not supported"));
    }
    match (header_hash_options, query_parameter_hash_options, hash_source_ip) {
        (Some(header), None, false) => {
            let name = HeaderName::parse(&header.header_name);
            name.map(HashOn::Header).ok_or_else(|| format!("{:?} is not the name of a header", header.header_name))
        }
        (None, Some(query), false) => {
            let name = query.parameter_name.as_str();
            let is_name = (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
            match is_name {
                true => Ok(HashOn::QueryParameter(name.into())),
                false => Err(format!("{name:?} is not the name of a query parameter")),
            }
        }
        (None, None, true) => Ok(HashOn::SourceAddress),
        _ => {
            Err("exactly one of \"headerHashOptions\", \"queryParameterHashOptions\", and \"hashSourceIP\" must be set"
                .to_owned())
        }
    }
}

/// Returns the load balancing of a Service: that of the route with the slow start of the Service.
pub fn of_service(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    of_route: Option<&LoadBalancing>,
    policy: Option<&SlowStartPolicy>,
) -> Option<LoadBalancing> {
    let Some(policy) = policy else { return of_route.cloned() };
    let field = format!("{field}.slowStartPolicy");
    let balancing = of_route.cloned().unwrap_or_default();
    let parsed = match balancing.algorithm {
        Algorithm::RoundRobin | Algorithm::LeastRequest => slow_start(policy),
        Algorithm::Random | Algorithm::RingHash | Algorithm::Maglev => {
            Err("slow start is only possible with the strategies \"RoundRobin\" and \"WeightedLeastRequest\""
                .to_owned())
        }
    };
    match parsed {
        Ok(slow_start) => Some(LoadBalancing { slow_start: Some(slow_start), ..balancing }),
        Err(message) => {
            tree.report.add(&object.origin, field, &situation::SLOW_START_NOT_VALID, message, "slow start left out");
            of_route.cloned()
        }
    }
}

fn slow_start(policy: &SlowStartPolicy) -> Result<SlowStart, String> {
    let SlowStartPolicy { window, aggression, min_weight_percent, rest } = policy;
    if let Some(name) = rest.names().next() {
        return Err(format!("field {name:?} is not supported"));
    }
    let is_window = |window: &Duration| *window >= Duration::from_millis(1) && *window <= LONGEST_WINDOW;
    let percent = min_weight_percent.unwrap_or(10);
    Ok(SlowStart {
        window: duration::parse(window).filter(is_window).ok_or_else(|| {
            format!("window {window:?} is not a time from 1ms to {}h", LONGEST_WINDOW.as_secs() / 3600)
        })?,
        min_weight_percent: u32::try_from(percent)
            .ok()
            .filter(|percent| *percent <= 100)
            .ok_or_else(|| format!("minWeightPercent {percent} is not a number from 0 to 100"))?,
        aggression_thousandths: thousandths(aggression)
            .ok_or_else(|| format!("aggression {aggression:?} is not a number from 0.001 to 1000"))?,
    })
}

/// Parses a positive decimal number of at most 1000, in thousandths. Empty: 1.
fn thousandths(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(SlowStart::LINEAR);
    }
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || (whole.is_empty() && fraction.is_empty()) || whole.len() > 4 {
        return None;
    }
    let digits: String = fraction.chars().chain("000".chars()).take(3).collect();
    let whole = if whole.is_empty() { 0 } else { whole.parse::<u32>().ok()? };
    let number = whole.checked_mul(1000)?.checked_add(digits.parse().ok()?)?;
    (1..=1_000_000).contains(&number).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::thousandths;

    #[test]
    fn an_aggression_is_a_decimal_number() {
        for (text, expected) in [("", 1000), ("1", 1000), ("1.0", 1000), ("0.5", 500), (".25", 250), ("2.12345", 2123)]
        {
            assert_eq!(thousandths(text), Some(expected), "{text}");
        }
        for text in ["0", "0.0", "0.0001", "-1", "1e3", "1.2.3", ".", "a", "1001", "99999999999"] {
            assert_eq!(thousandths(text), None, "{text}");
        }
    }
}
