//! The features of BackendPolicies in a cluster: health, load balancing, and connections.

use std::time::Duration;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::proxy_protocol::v3 as proxy_protocol_v3;
use envoy_types::pb::envoy::extensions::transport_sockets::raw_buffer::v3 as raw_buffer_v3;
use envoy_types::pb::envoy::r#type::matcher::v3 as matcher_v3;
use envoy_types::pb::envoy::r#type::v3 as type_v3;
use envoy_types::pb::google::protobuf as google;

use super::{wire, zones};
use crate::model::{
    Algorithm, BackendFeatures, ClusterId, HashOn, HashPart, HealthCheck, LoadBalancing, OutlierDetection, Probe,
    ProbeMethod, ProxyProtocol, RetryBudget, SlowStart, SuccessRate, TcpKeepalive, UpstreamProtocol, ZonePreference,
};

/// The longest delay of the first check of an endpoint. Envoy confirms a new cluster after the first checks, and other changes
/// wait for it.
const LONGEST_INITIAL_JITTER: Duration = Duration::from_millis(250);

/// The time in which Envoy merges the changes of the health of endpoints, with outlier detection. By default, an endpoint that is
/// ejected again within a second of its return receives requests until the second is over. Algorithms with a table keep the default,
/// because each change builds the table again, on the thread that also reads the configuration.
const MERGE_WINDOW: Duration = Duration::from_millis(10);

/// The size of a Maglev table, a prime number. Envoy's default, 65,537, would take four times as much memory for each
/// cluster.
const MAGLEV_TABLE_SIZE: u64 = 16_381;

/// The minimum and the maximum size of a hash ring. Envoy's default maximum is 8 million entries.
const RING_SIZE: (u64, u64) = (1024, 65_536);

/// Applies the features to the message of a cluster. The HTTP options and the endpoints are in `super::cluster`.
pub fn apply(
    message: cluster_v3::Cluster,
    id: &ClusterId,
    protocol: UpstreamProtocol,
    features: &BackendFeatures,
) -> cluster_v3::Cluster {
    // Without `..`, so that a new feature does not compile until it is built.
    let BackendFeatures {
        outlier_detection,
        health_check,
        panic_threshold_percent,
        load_balancing,
        tcp_keepalive,
        proxy_protocol,
        http3,
        idle_timeout: _,
        max_connection_age: _,
        retry_budget,
        zones,
        shares,
        origins: _,
    } = features;
    let mut message = message;
    message.outlier_detection = outlier_detection.as_ref().map(self::outlier_detection);
    let hashes = load_balancing.as_ref().is_some_and(|balancing| balancing.algorithm.hashes());
    if let (true, Some(common)) = (message.outlier_detection.is_some() && !hashes, &mut message.common_lb_config) {
        common.update_merge_window = Some(wire::duration(MERGE_WINDOW));
    }
    message.health_checks.extend(health_check.as_ref().map(|check| core_v3::HealthCheck {
        tls_options: http3.as_ref().filter(|_| protocol.is_http2()).map(|_| over_tcp()),
        ..self::health_check(check, id, protocol)
    }));
    if let (Some(percent), Some(common)) = (panic_threshold_percent, &mut message.common_lb_config) {
        common.healthy_panic_threshold = Some(type_v3::Percent { value: f64::from(*percent) });
    }
    if let Some(balancing) = load_balancing {
        set_load_balancing(&mut message, balancing);
    }
    // The weights of several Services apply to all zones together.
    if let Some(ZonePreference::Local { min_endpoints }) = zones
        && shares.is_empty()
    {
        zones::prefer_local(&mut message, load_balancing.as_ref(), *min_endpoints);
    }
    if let (Some(keepalive), Some(options)) = (tcp_keepalive, &mut message.upstream_connection_options) {
        let TcpKeepalive { probes, idle_seconds, interval_seconds } = *keepalive;
        options.tcp_keepalive = Some(core_v3::TcpKeepalive {
            keepalive_probes: Some(wire::uint32(probes)),
            keepalive_time: Some(wire::uint32(idle_seconds)),
            keepalive_interval: Some(wire::uint32(interval_seconds)),
        });
    }
    if let Some(version) = proxy_protocol {
        message.transport_socket = Some(announcing(*version, message.transport_socket.take()));
    }
    if let Some(budget) = retry_budget {
        set_retry_budget(&mut message, *budget);
    }
    message
}

/// Builds the ejection of endpoints. Envoy enforces some detectors by default, so those that are not set are disabled.
fn outlier_detection(detection: &OutlierDetection) -> cluster_v3::OutlierDetection {
    let OutlierDetection {
        consecutive_5xx,
        consecutive_gateway_errors,
        consecutive_local_origin_failures,
        success_rate,
        interval,
        base_ejection_time,
        max_ejection_time,
        max_ejection_percent,
    } = detection;
    let enforced = |is_set: bool| Some(wire::uint32(if is_set { 100 } else { 0 }));
    let split = consecutive_local_origin_failures.is_some();
    let rate = |field: fn(&SuccessRate) -> u32| success_rate.as_ref().map(field).map(wire::uint32);
    cluster_v3::OutlierDetection {
        consecutive_5xx: consecutive_5xx.map(wire::uint32),
        enforcing_consecutive_5xx: enforced(consecutive_5xx.is_some()),
        consecutive_gateway_failure: consecutive_gateway_errors.map(wire::uint32),
        enforcing_consecutive_gateway_failure: enforced(consecutive_gateway_errors.is_some()),
        split_external_local_origin_errors: split,
        consecutive_local_origin_failure: consecutive_local_origin_failures.map(wire::uint32),
        enforcing_consecutive_local_origin_failure: enforced(split),
        enforcing_local_origin_success_rate: enforced(false),
        enforcing_success_rate: enforced(success_rate.is_some()),
        success_rate_minimum_hosts: rate(|rate| rate.minimum_hosts),
        success_rate_request_volume: rate(|rate| rate.request_volume),
        success_rate_stdev_factor: rate(|rate| rate.stdev_factor),
        interval: Some(wire::duration(*interval)),
        base_ejection_time: Some(wire::duration(*base_ejection_time)),
        max_ejection_time: Some(wire::duration(*max_ejection_time)),
        max_ejection_percent: Some(wire::uint32(*max_ejection_percent)),
        // A Service of two endpoints could otherwise not eject one of them at 40 %.
        always_eject_one_host: Some(wire::boolean(true)),
        ..Default::default()
    }
}

/// Builds the options of a health check over HTTP/2 for endpoints that speak HTTP/3. Envoy checks them over TCP, and the TLS of requests
/// has no ALPN. A check over HTTP/3 ends the process of Envoy 1.40.
fn over_tcp() -> core_v3::health_check::TlsOptions {
    core_v3::health_check::TlsOptions { alpn_protocols: vec!["h2".to_owned()] }
}

/// Builds a health check.
///
/// Envoy checks a cluster without requests every minute by default, also after the first requests have arrived, until the minute is
/// over. The interval is therefore the same with and without requests.
fn health_check(check: &HealthCheck, id: &ClusterId, protocol: UpstreamProtocol) -> core_v3::HealthCheck {
    use core_v3::health_check::{GrpcHealthCheck, HealthChecker, HttpHealthCheck, TcpHealthCheck};
    let HealthCheck {
        probe,
        port: _,
        service_port: _,
        interval,
        timeout,
        jitter_percent,
        healthy_threshold,
        unhealthy_threshold,
    } = check;
    let service = id.port.service();
    let authority = || format!("{}.{}", service.name, service.namespace);
    let checker = match probe {
        Probe::Http { host, path, method, statuses } => HealthChecker::HttpHealthCheck(HttpHealthCheck {
            host: if host.is_empty() { authority() } else { host.to_string() },
            path: path.to_string(),
            expected_statuses: statuses
                .iter()
                // Envoy excludes the end.
                .map(|(first, last)| type_v3::Int64Range { start: (*first).into(), end: i64::from(*last) + 1 })
                .collect(),
            codec_client_type: match protocol {
                UpstreamProtocol::Http1 | UpstreamProtocol::Tls => type_v3::CodecClientType::Http1 as i32,
                UpstreamProtocol::H2c | UpstreamProtocol::H2 => type_v3::CodecClientType::Http2 as i32,
            },
            method: match method {
                ProbeMethod::Get => core_v3::RequestMethod::Get as i32,
                ProbeMethod::Head => core_v3::RequestMethod::Head as i32,
            },
            ..Default::default()
        }),
        Probe::Grpc { service } => HealthChecker::GrpcHealthCheck(GrpcHealthCheck {
            service_name: service.to_string(),
            authority: authority(),
            ..Default::default()
        }),
        Probe::Tcp => HealthChecker::TcpHealthCheck(TcpHealthCheck::default()),
    };
    let jitters = *jitter_percent > 0;
    core_v3::HealthCheck {
        timeout: Some(wire::duration(*timeout)),
        interval: Some(wire::duration(*interval)),
        initial_jitter: jitters.then(|| wire::duration((*interval / 10).min(LONGEST_INITIAL_JITTER))),
        interval_jitter_percent: *jitter_percent,
        healthy_threshold: Some(wire::uint32(*healthy_threshold)),
        unhealthy_threshold: Some(wire::uint32(*unhealthy_threshold)),
        no_traffic_interval: Some(wire::duration(*interval)),
        health_checker: Some(checker),
        ..Default::default()
    }
}

/// Sets the algorithm of load balancing.
fn set_load_balancing(message: &mut cluster_v3::Cluster, balancing: &LoadBalancing) {
    use cluster_v3::cluster::{
        LbConfig, LbPolicy, LeastRequestLbConfig, MaglevLbConfig, RingHashLbConfig, RoundRobinLbConfig,
    };
    let LoadBalancing { algorithm, slow_start, hash_on: _ } = balancing;
    let slow_start = slow_start.as_ref().map(self::slow_start);
    let uint64 = |value| Some(google::UInt64Value { value });
    let (policy, config) = match algorithm {
        Algorithm::RoundRobin => (
            LbPolicy::RoundRobin,
            slow_start.map(|one| LbConfig::RoundRobinLbConfig(RoundRobinLbConfig { slow_start_config: Some(one) })),
        ),
        Algorithm::LeastRequest => (
            LbPolicy::LeastRequest,
            slow_start.map(|one| {
                LbConfig::LeastRequestLbConfig(LeastRequestLbConfig {
                    slow_start_config: Some(one),
                    ..Default::default()
                })
            }),
        ),
        Algorithm::Random => (LbPolicy::Random, None),
        Algorithm::RingHash => {
            let (minimum_ring_size, maximum_ring_size) = (uint64(RING_SIZE.0), uint64(RING_SIZE.1));
            let ring = RingHashLbConfig { minimum_ring_size, maximum_ring_size, ..Default::default() };
            (LbPolicy::RingHash, Some(LbConfig::RingHashLbConfig(ring)))
        }
        Algorithm::Maglev => {
            let table = MaglevLbConfig { table_size: uint64(MAGLEV_TABLE_SIZE) };
            (LbPolicy::Maglev, Some(LbConfig::MaglevLbConfig(table)))
        }
    };
    message.lb_policy = policy as i32;
    message.lb_config = config;
}

/// Builds the slow start of new endpoints.
pub fn slow_start(slow_start: &SlowStart) -> cluster_v3::cluster::SlowStartConfig {
    let SlowStart { window, min_weight_percent, aggression_thousandths } = slow_start;
    cluster_v3::cluster::SlowStartConfig {
        slow_start_window: Some(wire::duration(*window)),
        min_weight_percent: Some(type_v3::Percent { value: f64::from(*min_weight_percent) }),
        aggression: (*aggression_thousandths != SlowStart::LINEAR).then(|| core_v3::RuntimeDouble {
            default_value: f64::from(*aggression_thousandths) / 1000.0,
            runtime_key: "lockgate.slow_start_aggression".to_owned(),
        }),
    }
}

/// Builds the hash policies of a cluster. The first part that a request has decides if its policy is terminal.
pub fn hash_policies(features: Option<&BackendFeatures>) -> Vec<route_v3::route_action::HashPolicy> {
    let balancing = features.and_then(|features| features.load_balancing.as_ref());
    balancing.into_iter().flat_map(|balancing| &balancing.hash_on).map(hash_policy).collect()
}

fn hash_policy(part: &HashPart) -> route_v3::route_action::HashPolicy {
    use route_v3::route_action::hash_policy::{ConnectionProperties, Cookie, Header, PolicySpecifier, QueryParameter};
    let header =
        |name: &str, regex_rewrite| PolicySpecifier::Header(Header { header_name: name.to_owned(), regex_rewrite });
    let specifier = match &part.on {
        HashOn::Header(name) => header(name.as_str(), None),
        HashOn::Cookie { name, path, lifetime } => PolicySpecifier::Cookie(Cookie {
            name: name.to_string(),
            ttl: lifetime.map(wire::duration),
            path: path.to_string(),
            ..Default::default()
        }),
        HashOn::SourceAddress => PolicySpecifier::ConnectionProperties(ConnectionProperties { source_ip: true }),
        HashOn::QueryParameter(name) => PolicySpecifier::QueryParameter(QueryParameter { name: name.to_string() }),
        HashOn::Path => header(":path", Some(without_query())),
    };
    route_v3::route_action::HashPolicy { terminal: part.is_terminal, policy_specifier: Some(specifier) }
}

/// Builds the rewrite that removes the query of a path.
fn without_query() -> matcher_v3::RegexMatchAndSubstitute {
    let pattern = matcher_v3::RegexMatcher { regex: r"\?.*$".to_owned(), ..Default::default() };
    matcher_v3::RegexMatchAndSubstitute { pattern: Some(pattern), substitution: String::new() }
}

/// Builds the transport socket that sends the header of the PROXY protocol before the bytes of `inner`.
fn announcing(version: ProxyProtocol, inner: Option<core_v3::TransportSocket>) -> core_v3::TransportSocket {
    let raw = || wire::transport_socket("envoy.transport_sockets.raw_buffer", &raw_buffer_v3::RawBuffer::default());
    let version = match version {
        ProxyProtocol::V1 => core_v3::proxy_protocol_config::Version::V1,
        ProxyProtocol::V2 => core_v3::proxy_protocol_config::Version::V2,
    };
    let config = core_v3::ProxyProtocolConfig { version: version as i32, ..Default::default() };
    let socket = proxy_protocol_v3::ProxyProtocolUpstreamTransport {
        config: Some(config),
        transport_socket: Some(inner.unwrap_or_else(raw)),
        ..Default::default()
    };
    wire::transport_socket("envoy.transport_sockets.upstream_proxy_protocol", &socket)
}

/// Sets the limit of concurrent retries. It replaces `max_retries`.
fn set_retry_budget(message: &mut cluster_v3::Cluster, budget: RetryBudget) {
    use cluster_v3::circuit_breakers::Thresholds;
    let RetryBudget { percent, min_concurrency } = budget;
    let budget = cluster_v3::circuit_breakers::thresholds::RetryBudget {
        budget_percent: Some(type_v3::Percent { value: f64::from(percent) }),
        min_retry_concurrency: Some(wire::uint32(min_concurrency)),
        ..Default::default()
    };
    let breakers = message.circuit_breakers.get_or_insert_default();
    if breakers.thresholds.is_empty() {
        breakers.thresholds.push(Thresholds::default());
    }
    for thresholds in &mut breakers.thresholds {
        (thresholds.max_retries, thresholds.retry_budget) = (None, Some(budget));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::model::cluster_id;

    #[test]
    fn a_table_of_hashes_is_built_once_per_second() {
        let window = |algorithm| {
            let outlier_detection = Some(OutlierDetection {
                consecutive_5xx: Some(5),
                consecutive_gateway_errors: None,
                consecutive_local_origin_failures: None,
                success_rate: None,
                interval: Duration::from_secs(10),
                base_ejection_time: Duration::from_secs(30),
                max_ejection_time: Duration::from_secs(300),
                max_ejection_percent: 10,
            });
            let load_balancing = Some(LoadBalancing { algorithm, ..LoadBalancing::default() });
            let features = BackendFeatures { outlier_detection, load_balancing, ..BackendFeatures::default() };
            let message = cluster_v3::Cluster { common_lb_config: Some(Default::default()), ..Default::default() };
            let built = apply(message, &cluster_id("shop/web/http"), UpstreamProtocol::Http1, &features);
            built.common_lb_config.and_then(|config| config.update_merge_window)
        };
        assert_eq!(window(Algorithm::LeastRequest), Some(wire::duration(MERGE_WINDOW)));
        assert_eq!([window(Algorithm::RingHash), window(Algorithm::Maglev)], [None, None], "Envoy's default, 1 s");
    }
}
