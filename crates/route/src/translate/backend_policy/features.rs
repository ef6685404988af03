//! The features of a BackendPolicy. A feature with an invalid field is left out, with a problem that names the field.

use std::ops::RangeInclusive;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use crate::duration;
use crate::model::{
    Algorithm, BackendFeatures, CookieName, HashOn, HashPart, HeaderName, HealthCheck, Host, Http3, LoadBalancing,
    OutlierDetection, Probe, ProbeMethod, ProxyProtocol, RetryBudget, SlowStart, SuccessRate, TcpKeepalive, TlsVersion,
    ZonePreference,
};
use crate::objects::gateway::Lenient;
use crate::objects::{
    BackendPolicySpec, EndpointHttp3Spec, HashOnSpec, HashOnType, HealthCheckSpec, HttpProbeSpec,
    LoadBalancingAlgorithm, LoadBalancingSpec, OutlierDetectionSpec, PreferredZones, ProxyProtocolVersion,
    RetryBudgetSpec, SlowStartSpec, SuccessRateSpec, TcpKeepaliveSpec, ZonesSpec,
};
use crate::settings::{Settings, TlsParameters};
use crate::translate::fault::FieldFault;
use crate::translate::problem::{Problem, Reason};
use crate::translate::{host, statuses};

const MILLISECOND: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// The maximum time limit of a health check. Envoy confirms a new cluster after the first check of each endpoint, and the next
/// changes of all objects wait for it.
const LONGEST_CHECK: Duration = Duration::from_secs(5);

/// The maximum numbers of statuses and of hashed parts. Source: CustomResourceDefinition. Manifests are not validated
/// against it.
const MOST: (usize, usize) = (16, 4);

/// Parses the features, and returns the problems of the others.
pub fn parse(spec: &BackendPolicySpec, origin: &ObjectRef, settings: &Settings) -> (BackendFeatures, Vec<Problem>) {
    let mut parser = Parser { origin, problems: Vec::new() };
    let features = BackendFeatures {
        outlier_detection: parser.feature("outlierDetection", &spec.outlier_detection, outlier_detection),
        health_check: parser.feature("healthCheck", &spec.health_check, |spec| {
            match settings.tenants.active_health_checks {
                true => health_check(spec),
                false => Err(FieldFault::new("", "the setting tenants.activeHealthChecks does not allow it")),
            }
        }),
        panic_threshold_percent: parser
            .feature("panicThreshold", &spec.panic_threshold, |percent| number("", Some(*percent), 0, 0, 100)),
        load_balancing: parser.feature("loadBalancing", &spec.load_balancing, load_balancing),
        tcp_keepalive: parser.feature("tcpKeepalive", &spec.tcp_keepalive, tcp_keepalive),
        proxy_protocol: parser.feature("proxyProtocol", &spec.proxy_protocol, |version| {
            Ok(match version {
                ProxyProtocolVersion::V1 => ProxyProtocol::V1,
                ProxyProtocolVersion::V2 => ProxyProtocol::V2,
            })
        }),
        http3: parser.feature("http3", &spec.http3, |spec| http3(spec, &settings.upstream.tls)),
        idle_timeout: parser.feature("idleTimeout", &spec.idle_timeout, |text| time("", text, SECOND, DAY)),
        max_connection_age: parser
            .feature("maxConnectionAge", &spec.max_connection_age, |text| time("", text, SECOND, 7 * DAY)),
        retry_budget: parser.feature("retryBudget", &spec.retry_budget, retry_budget),
        zones: parser.feature("zones", &spec.zones, |zones| self::zones(zones, &spec.load_balancing)),
        shares: Vec::new(),
        origins: vec![origin.clone()],
    };
    for name in spec.unknown.keys() {
        parser.problem(format!("spec.{name}"), "this feature is not known".to_owned());
    }
    (features, parser.problems)
}

/// The state of parsing one policy.
struct Parser<'p> {
    origin: &'p ObjectRef,
    problems: Vec<Problem>,
}

impl Parser<'_> {
    fn feature<S, T>(
        &mut self,
        field: &str,
        spec: &Option<Lenient<S>>,
        parse: impl FnOnce(&S) -> Result<T, FieldFault>,
    ) -> Option<T> {
        let parsed = match spec.as_ref()? {
            Lenient::Valid(spec) => parse(spec),
            Lenient::Invalid(fault) => Err(FieldFault::new("", fault.clone())),
        };
        parsed.map_err(|fault| self.problem(format!("spec.{field}{}", fault.field), fault.message)).ok()
    }

    fn problem(&mut self, field: String, message: String) {
        let (object, consequence) = (self.origin.clone(), "feature left out".to_owned());
        self.problems.push(Problem {
            object,
            field,
            reason: Reason::PolicyNotValid,
            message: message.into(),
            consequence,
        });
    }
}

/// Returns a time in this range.
fn time(field: &str, text: &str, least: Duration, most: Duration) -> Result<Duration, FieldFault> {
    let time = duration::parse(text).filter(|time| (least..=most).contains(time));
    time.ok_or_else(|| {
        FieldFault::new(field, format!("{text:?} is not a time from {} to {}", short(least), short(most)))
    })
}

/// Returns a time in this range, or the default if it is not set.
fn time_or(
    field: &str,
    text: &Option<String>,
    default: Duration,
    least: Duration,
    most: Duration,
) -> Result<Duration, FieldFault> {
    text.as_deref().map_or(Ok(default), |text| time(field, text, least, most))
}

/// Returns a number in this range, or the default if it is not set.
pub fn number(field: &str, value: Option<u32>, default: u32, least: u32, most: u32) -> Result<u32, FieldFault> {
    let value = value.unwrap_or(default);
    match (least..=most).contains(&value) {
        true => Ok(value),
        false => Err(FieldFault::new(field, format!("{value} is not a number from {least} to {most}"))),
    }
}

/// Displays a limit: `100ms`, `1s`, `1h`.
pub fn short(time: Duration) -> String {
    match time {
        time if time < SECOND => format!("{}ms", time.as_millis()),
        time if time < MINUTE => format!("{}s", time.as_secs()),
        time if time < HOUR => format!("{}m", time.as_secs() / 60),
        time => format!("{}h", time.as_secs() / 3600),
    }
}

fn fault<T>(field: &str, message: impl Into<String>) -> Result<T, FieldFault> {
    Err(FieldFault::new(field, message))
}

fn outlier_detection(spec: &OutlierDetectionSpec) -> Result<OutlierDetection, FieldFault> {
    let OutlierDetectionSpec {
        consecutive_5xx,
        consecutive_gateway_errors,
        consecutive_local_origin_failures,
        success_rate,
        interval,
        base_ejection_time,
        max_ejection_time,
        max_ejection_percent,
    } = spec;
    let count =
        |field: &str, count: &Option<u32>| count.map(|count| number(field, Some(count), 0, 1, 1000)).transpose();
    let rate = |spec: &SuccessRateSpec| -> Result<SuccessRate, FieldFault> {
        let SuccessRateSpec { minimum_hosts, request_volume, stdev_factor } = *spec;
        Ok(SuccessRate {
            minimum_hosts: number(".successRate.minimumHosts", minimum_hosts, 5, 1, 1000)?,
            request_volume: number(".successRate.requestVolume", request_volume, 100, 1, 1_000_000)?,
            stdev_factor: number(".successRate.stdevFactor", stdev_factor, 1900, 100, 10_000)?,
        })
    };
    let base = time_or(".baseEjectionTime", base_ejection_time, 30 * SECOND, SECOND, HOUR)?;
    let longest = time_or(".maxEjectionTime", max_ejection_time, base.max(5 * MINUTE), SECOND, DAY)?;
    if longest < base {
        return fault(".maxEjectionTime", "shorter than baseEjectionTime");
    }
    let has_detector = consecutive_5xx.is_some()
        || consecutive_gateway_errors.is_some()
        || consecutive_local_origin_failures.is_some()
        || success_rate.is_some();
    Ok(OutlierDetection {
        consecutive_5xx: count(".consecutive5xx", consecutive_5xx)?.or((!has_detector).then_some(5)),
        consecutive_gateway_errors: count(".consecutiveGatewayErrors", consecutive_gateway_errors)?,
        consecutive_local_origin_failures: count(".consecutiveLocalOriginFailures", consecutive_local_origin_failures)?,
        success_rate: success_rate.as_ref().map(rate).transpose()?,
        interval: time_or(".interval", interval, 10 * SECOND, SECOND, HOUR)?,
        base_ejection_time: base,
        max_ejection_time: longest,
        max_ejection_percent: number(".maxEjectionPercent", *max_ejection_percent, 50, 0, 100)?,
    })
}

fn health_check(spec: &HealthCheckSpec) -> Result<HealthCheck, FieldFault> {
    let HealthCheckSpec {
        http,
        grpc,
        tcp,
        port,
        interval,
        timeout,
        jitter_percent,
        healthy_threshold,
        unhealthy_threshold,
    } = spec;
    let probe = match (http, grpc, tcp) {
        (Some(http), None, None) => self::http(http)?,
        (None, Some(grpc), None) if grpc.service.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Probe::Grpc { service: grpc.service.as_str().into() }
        }
        (None, Some(_), None) => return fault(".grpc.service", "not the name of a gRPC service"),
        (None, None, Some(_)) => Probe::Tcp,
        _ => return fault("", "not exactly one of http, grpc, and tcp is set"),
    };
    if *port == Some(0) {
        return fault(".port", "0 is not a number from 1 to 65535");
    }
    let interval = time_or(".interval", interval, 10 * SECOND, SECOND, HOUR)?;
    Ok(HealthCheck {
        probe,
        port: *port,
        service_port: None,
        interval,
        // An Envoy that starts with 10,000 endpoints takes 3 s for their first checks. It is ready then, also if they have failed.
        timeout: time_or(".timeout", timeout, interval.min(LONGEST_CHECK), 100 * MILLISECOND, LONGEST_CHECK)?,
        jitter_percent: number(".jitterPercent", *jitter_percent, 10, 0, 100)?,
        healthy_threshold: number(".healthyThreshold", *healthy_threshold, 2, 1, 100)?,
        unhealthy_threshold: number(".unhealthyThreshold", *unhealthy_threshold, 3, 1, 100)?,
    })
}

fn http(spec: &HttpProbeSpec) -> Result<Probe, FieldFault> {
    let HttpProbeSpec { path, host, method, expected_statuses } = spec;
    if !path.starts_with('/') || path.len() > 1024 || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return fault(".http.path", format!("{path:?} is not an absolute path"));
    }
    let is_host = |text: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.:".contains(&byte);
        (1..=253).contains(&text.len()) && text.bytes().all(allowed)
    };
    if let Some(host) = host.as_deref().filter(|host| !is_host(host)) {
        return fault(".http.host", format!("{host:?} is not a host"));
    }
    let method = match method.as_deref() {
        None | Some("GET") => ProbeMethod::Get,
        Some("HEAD") => ProbeMethod::Head,
        Some(other) => return fault(".http.method", format!("{other:?} is neither \"GET\" nor \"HEAD\"")),
    };
    if expected_statuses.len() > MOST.0 {
        return fault(".http.expectedStatuses", format!("more than {} statuses", MOST.0));
    }
    let status = |(i, text): (usize, &String)| {
        let range = statuses::range(text, 100..=599).map(RangeInclusive::into_inner);
        let message = || format!("{text:?} is not a status such as 200, or a range such as 200-299");
        range.ok_or_else(|| FieldFault::new(format!(".http.expectedStatuses[{i}]"), message()))
    };
    let mut passed = expected_statuses.iter().enumerate().map(status).collect::<Result<Vec<_>, _>>()?;
    if passed.is_empty() {
        passed.push((200, 299));
    }
    Ok(Probe::Http {
        host: host.as_deref().unwrap_or_default().into(),
        path: path.as_str().into(),
        method,
        statuses: passed,
    })
}

fn load_balancing(spec: &LoadBalancingSpec) -> Result<LoadBalancing, FieldFault> {
    let LoadBalancingSpec { algorithm, slow_start, hash_on } = spec;
    let algorithm = match algorithm {
        LoadBalancingAlgorithm::RoundRobin => Algorithm::RoundRobin,
        LoadBalancingAlgorithm::LeastRequest => Algorithm::LeastRequest,
        LoadBalancingAlgorithm::Random => Algorithm::Random,
        LoadBalancingAlgorithm::RingHash => Algorithm::RingHash,
        LoadBalancingAlgorithm::Maglev => Algorithm::Maglev,
    };
    let by_hash = algorithm.hashes();
    if by_hash == hash_on.is_empty() {
        return fault(".hashOn", "required for RingHash and Maglev, and not allowed for other algorithms");
    }
    if hash_on.len() > MOST.1 {
        return fault(".hashOn", format!("more than {} parts", MOST.1));
    }
    if slow_start.is_some() && !matches!(algorithm, Algorithm::RoundRobin | Algorithm::LeastRequest) {
        return fault(".slowStart", "only allowed for RoundRobin and LeastRequest");
    }
    let slow_start = |SlowStartSpec { window, min_weight_percent }: &SlowStartSpec| -> Result<SlowStart, FieldFault> {
        Ok(SlowStart {
            window: time(".slowStart.window", window, SECOND, HOUR)?,
            min_weight_percent: number(".slowStart.minWeightPercent", *min_weight_percent, 10, 1, 100)?,
            aggression_thousandths: SlowStart::LINEAR,
        })
    };
    let slow_start = spec.slow_start.as_ref().map(slow_start).transpose()?;
    let hash_on =
        hash_on.iter().enumerate().map(self::hash_on).map(|part| part.map(HashPart::from)).collect::<Result<_, _>>()?;
    Ok(LoadBalancing { algorithm, slow_start, hash_on })
}

fn hash_on((i, spec): (usize, &HashOnSpec)) -> Result<HashOn, FieldFault> {
    let HashOnSpec { r#type, name, path, lifetime } = spec;
    let at = |field: &str, message: String| FieldFault::new(format!(".hashOn[{i}]{field}"), message);
    let is_cookie = *r#type == HashOnType::Cookie;
    if !is_cookie && (path.is_some() || lifetime.is_some()) {
        return Err(at("", "path and lifetime are only allowed for Cookie".to_owned()));
    }
    let has_name = matches!(r#type, HashOnType::Header | HashOnType::Cookie | HashOnType::QueryParameter);
    let name = name.as_deref().filter(|name| !name.is_empty());
    let name = match (has_name, name) {
        (true, Some(name)) => name,
        (false, None) => "",
        _ => return Err(at(".name", "required for Header, Cookie, and QueryParameter alone".to_owned())),
    };
    match r#type {
        HashOnType::SourceAddress => Ok(HashOn::SourceAddress),
        HashOnType::Path => Ok(HashOn::Path),
        HashOnType::Header => {
            let header = HeaderName::parse(name).map(HashOn::Header);
            header.ok_or_else(|| at(".name", format!("{name:?} is not a header")))
        }
        HashOnType::QueryParameter if name.bytes().all(|byte| byte.is_ascii_graphic()) => {
            Ok(HashOn::QueryParameter(name.into()))
        }
        HashOnType::QueryParameter => Err(at(".name", format!("{name:?} is not the name of a query parameter"))),
        HashOnType::Cookie => {
            let path = path.as_deref().unwrap_or("/");
            if !path.starts_with('/') || !path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';') {
                return Err(at(".path", format!("{path:?} is not the path of a cookie")));
            }
            let lifetime = lifetime.as_deref().map(|text| time("", text, Duration::ZERO, 365 * DAY)).transpose();
            let lifetime = lifetime.map_err(|fault| at(".lifetime", fault.message))?;
            let name = CookieName::parse(name).ok_or_else(|| at(".name", format!("{name:?} is not a cookie name")))?;
            Ok(HashOn::Cookie { name, path: path.into(), lifetime })
        }
    }
}

fn tcp_keepalive(spec: &TcpKeepaliveSpec) -> Result<TcpKeepalive, FieldFault> {
    let TcpKeepaliveSpec { probes, idle_time, interval } = spec;
    // The kernel counts seconds.
    let seconds = |time: Duration| u32::try_from(time.as_millis().div_ceil(1000)).unwrap_or(u32::MAX);
    Ok(TcpKeepalive {
        probes: number(".probes", *probes, 6, 1, 20)?,
        idle_seconds: seconds(time_or(".idleTime", idle_time, 30 * SECOND, SECOND, 2 * HOUR)?),
        interval_seconds: seconds(time_or(".interval", interval, 5 * SECOND, SECOND, 10 * MINUTE)?),
    })
}

/// QUIC needs TLS 1.3, and Envoy ignores the curves of the settings there. Source: Envoy 1.40, tested.
fn http3(spec: &EndpointHttp3Spec, tls: &TlsParameters) -> Result<Http3, FieldFault> {
    let EndpointHttp3Spec { enabled, server_name } = spec;
    if *enabled == Some(false) {
        return Ok(Http3::Disabled);
    }
    if tls.maximum < TlsVersion::V1_3 {
        return fault("", "the setting upstream.tls.maximumVersion does not allow TLS 1.3, which HTTP/3 requires");
    }
    if !tls.curves.is_empty() {
        return fault("", "Envoy does not apply the setting upstream.tls.curves to HTTP/3");
    }
    let server_name = match server_name.as_deref().map(|name| (name, host::parse(name))) {
        None => None,
        Some((_, Ok(Host::Exact(name)))) => Some(name),
        Some((name, _)) => return fault(".serverName", format!("{name:?} is not a DNS name")),
    };
    Ok(Http3::Enabled { server_name })
}

fn retry_budget(spec: &RetryBudgetSpec) -> Result<RetryBudget, FieldFault> {
    let RetryBudgetSpec { percent, min_concurrency } = *spec;
    Ok(RetryBudget {
        percent: number(".percent", percent, 20, 1, 100)?,
        min_concurrency: number(".minConcurrency", min_concurrency, 3, 0, 1000)?,
    })
}

fn zones(spec: &ZonesSpec, load_balancing: &Option<Lenient<LoadBalancingSpec>>) -> Result<ZonePreference, FieldFault> {
    let ZonesSpec { prefer, min_local_endpoints } = spec;
    match prefer {
        PreferredZones::Any if min_local_endpoints.is_some() => fault(".minLocalEndpoints", "only allowed for Local"),
        PreferredZones::Any => Ok(ZonePreference::Any),
        PreferredZones::Local => {
            let by_hash = |spec: &LoadBalancingSpec| {
                matches!(spec.algorithm, LoadBalancingAlgorithm::RingHash | LoadBalancingAlgorithm::Maglev)
            };
            if matches!(load_balancing, Some(Lenient::Valid(spec)) if by_hash(spec)) {
                return fault(".prefer", "RingHash and Maglev select among the endpoints of all zones");
            }
            let min_endpoints = number(".minLocalEndpoints", *min_local_endpoints, 1, 1, 1000)?;
            Ok(ZonePreference::Local { min_endpoints })
        }
    }
}
