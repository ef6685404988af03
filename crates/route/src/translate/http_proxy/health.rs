//! The active health checks of routes and TCP proxies.

use std::time::Duration;

use super::situation::{self, Block};
use super::tree::{Declaring, Tree};
use crate::model::{HealthCheck, Probe, ProbeMethod};
use crate::objects::http_proxy::{HealthCheckPolicy, StatusRange, TcpHealthCheckPolicy};
use crate::translate::fault::FieldFault;

/// The `Host` header of checks without one, as in Contour.
const HOST: &str = "contour-envoy-healthcheck";
/// The maximum time limit of a check, in seconds. Envoy confirms a new cluster after the first check of each endpoint, and the next
/// changes of all objects wait for it.
const LONGEST_TIMEOUT: i64 = 5;
/// The maximum time between two checks, in seconds.
const LONGEST_INTERVAL: i64 = 3600;
/// The maximum number of ranges of statuses.
const MOST_STATUSES: usize = 16;
/// The maximum random addition to the interval, in percent, so that the checks of many endpoints are spread.
const JITTER_PERCENT: u32 = 10;

/// Returns the health check of a route, if it is valid and the settings allow it.
pub fn of_route(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    policy: Option<&HealthCheckPolicy>,
) -> Option<HealthCheck> {
    let policy = policy?;
    allowed(tree, object, format!("{field}.healthCheckPolicy"), Block::Route, || parse(policy))
}

/// Returns the health check of a TCP proxy: a connection to each endpoint. Conditions as for routes.
pub fn of_connections(
    tree: &mut Tree,
    object: &Declaring,
    policy: Option<&TcpHealthCheckPolicy>,
) -> Option<HealthCheck> {
    let policy = policy?;
    allowed(tree, object, "spec.tcpproxy.healthCheckPolicy".to_owned(), Block::TcpProxy, || {
        let TcpHealthCheckPolicy {
            interval_seconds,
            timeout_seconds,
            unhealthy_threshold_count,
            healthy_threshold_count,
            rest,
        } = policy;
        if let Some(name) = rest.names().next() {
            return Err(FieldFault::new("", format!("field {name:?} is not supported")));
        }
        let times = [*interval_seconds, *timeout_seconds];
        check(Probe::Tcp, times, [*unhealthy_threshold_count, *healthy_threshold_count])
    })
}

/// Returns a health check if the settings allow it and it is valid.
fn allowed(
    tree: &mut Tree,
    object: &Declaring,
    field: String,
    block: Block,
    parse: impl FnOnce() -> Result<HealthCheck, FieldFault>,
) -> Option<HealthCheck> {
    let unchecked = "the endpoints are not checked";
    if !tree.resolver.context.settings.tenants.active_health_checks {
        let message = "the setting tenants.activeHealthChecks does not allow active health checks";
        tree.report.add(&object.origin, field, &block.ignored(), message, unchecked);
        return None;
    }
    match parse() {
        Ok(check) => Some(check),
        Err(fault) => {
            let FieldFault { field, message } = fault.within(field);
            tree.report.add(&object.origin, field, &situation::HEALTH_CHECK_NOT_VALID, message, unchecked);
            None
        }
    }
}

fn parse(policy: &HealthCheckPolicy) -> Result<HealthCheck, FieldFault> {
    let HealthCheckPolicy {
        path,
        host,
        interval_seconds,
        timeout_seconds,
        unhealthy_threshold_count,
        healthy_threshold_count,
        expected_statuses,
        rest,
    } = policy;
    let unknown = rest.names().chain(expected_statuses.iter().flat_map(|range| range.rest.names()));
    if let Some(name) = unknown.into_iter().next() {
        return Err(FieldFault::new("", format!("field {name:?} is not supported")));
    }
    if !path.starts_with('/') || path.len() > 1024 || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(FieldFault::new(".path", format!("{path:?} is not an absolute path")));
    }
    let host = if host.is_empty() { HOST } else { host };
    let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte);
    if host.len() > 253 || !host.bytes().all(is_host) {
        return Err(FieldFault::new(".host", format!("{host:?} is not a host")));
    }
    if expected_statuses.len() > MOST_STATUSES {
        return Err(FieldFault::new(".expectedStatuses", format!("more than {MOST_STATUSES} ranges")));
    }
    let status = |(index, range): (usize, &StatusRange)| {
        let (start, end) = (range.start, range.end);
        let valid = (100..600).contains(&start) && start < end && end <= 600;
        let range = u16::try_from(start).ok().zip(u16::try_from(end - 1).ok()).filter(|_| valid);
        let message = || format!("{start} to {end} is not a range of statuses from 100 to 600");
        range.ok_or_else(|| FieldFault::new(format!(".expectedStatuses[{index}]"), message()))
    };
    let mut statuses = expected_statuses.iter().enumerate().map(status).collect::<Result<Vec<_>, _>>()?;
    if statuses.is_empty() {
        statuses.push((200, 200));
    }
    let probe = Probe::Http { host: host.into(), path: path.as_str().into(), method: ProbeMethod::Get, statuses };
    let times = [*interval_seconds, *timeout_seconds];
    check(probe, times, [*unhealthy_threshold_count, *healthy_threshold_count])
}

/// Returns a health check with these times in seconds and thresholds. 0 is the default of Contour.
fn check(
    probe: Probe,
    [interval, timeout]: [i64; 2],
    [unhealthy, healthy]: [i64; 2],
) -> Result<HealthCheck, FieldFault> {
    let number = |below: &str, value: i64, default: i64, most: i64| match value {
        0 => Ok(default),
        value if (1..=most).contains(&value) => Ok(value),
        value => Err(FieldFault::new(below, format!("{value} is not a number from 1 to {most}"))),
    };
    let seconds = |below: &str, value: i64, default: i64, most: i64| {
        number(below, value, default, most).map(|value| Duration::from_secs(value.unsigned_abs()))
    };
    let count = |below: &str, value: i64, default: i64| {
        number(below, value, default, 100).map(|value| u32::try_from(value).unwrap_or(u32::MAX))
    };
    Ok(HealthCheck {
        probe,
        port: None,
        service_port: None,
        interval: seconds(".intervalSeconds", interval, 10, LONGEST_INTERVAL)?,
        timeout: seconds(".timeoutSeconds", timeout, 2, LONGEST_TIMEOUT)?,
        jitter_percent: JITTER_PERCENT,
        healthy_threshold: count(".healthyThresholdCount", healthy, 2)?,
        unhealthy_threshold: count(".unhealthyThresholdCount", unhealthy, 3)?,
    })
}
