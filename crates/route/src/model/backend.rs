//! The features of a traffic policy that the owner of a Service sets: health, load balancing, and connections.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use super::{HashOn, HashPart, LoadBalancing, PortRef, ServicePortId, SlowStart};

/// The features of a Service port. A feature that is not set has Envoy's default, or that of the settings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BackendFeatures {
    /// The ejection of endpoints whose responses fail.
    pub outlier_detection: Option<OutlierDetection>,
    /// The active health check of every endpoint.
    pub health_check: Option<HealthCheck>,
    /// The percentage of healthy endpoints below which unhealthy endpoints receive requests too.
    pub panic_threshold_percent: Option<u32>,
    /// The selection of an endpoint for a request.
    pub load_balancing: Option<LoadBalancing>,
    /// The probes of silent connections.
    pub tcp_keepalive: Option<TcpKeepalive>,
    /// The version of the PROXY protocol that the endpoints expect.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// Whether requests are sent over HTTP/3. In a cluster, `None` if they are not, and otherwise enabled with a server name.
    pub http3: Option<Http3>,
    /// The time after which an idle connection is closed.
    pub idle_timeout: Option<Duration>,
    /// The age at which a connection is drained.
    pub max_connection_age: Option<Duration>,
    /// The limit of concurrent retries.
    pub retry_budget: Option<RetryBudget>,
    /// The preference of endpoints by their zone.
    pub zones: Option<ZonePreference>,
    /// The Service ports among which the requests are divided, with their weights. Empty: all requests are for the port of the cluster.
    pub shares: Vec<(ServicePortId, u32)>,
    /// The policies that set the features. They are not part of the identity.
    pub origins: Vec<ObjectRef>,
}

/// The ejection of endpoints whose responses fail. A detector that is `None` ejects no endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlierDetection {
    /// The number of consecutive responses with a status of 500 or higher.
    pub consecutive_5xx: Option<u32>,
    /// The number of consecutive responses with the status 502, 503, or 504.
    pub consecutive_gateway_errors: Option<u32>,
    /// The number of consecutive failures without a response. With this detector, the others count responses alone.
    pub consecutive_local_origin_failures: Option<u32>,
    /// The detector of endpoints with a low rate of successful responses.
    pub success_rate: Option<SuccessRate>,
    /// The interval of the analysis, which also returns ejected endpoints.
    pub interval: Duration,
    /// The time of the first ejection. It is multiplied by the number of ejections.
    pub base_ejection_time: Duration,
    /// The maximum time of an ejection.
    pub max_ejection_time: Duration,
    /// The maximum percentage of ejected endpoints. One endpoint can always be ejected.
    pub max_ejection_percent: u32,
}

/// The detector of endpoints whose success rate is far below the mean of all endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SuccessRate {
    /// The number of endpoints with enough requests below which no rate is compared.
    pub minimum_hosts: u32,
    /// The number of requests in an interval below which an endpoint is left out.
    pub request_volume: u32,
    /// The distance from the mean, in thousandths of the standard deviation.
    pub stdev_factor: u32,
}

/// An active health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthCheck {
    /// The request.
    pub probe: Probe,
    /// The port of the endpoints that receives the request. `None`: the port of the endpoints themselves.
    pub port: Option<u16>,
    /// The port of the Service that receives the request, for a load assignment of its own. It takes precedence over `port`.
    pub service_port: Option<PortRef>,
    /// The time between two checks of an endpoint.
    pub interval: Duration,
    /// The time limit of a check.
    pub timeout: Duration,
    /// The maximum random addition to the interval, in percent.
    pub jitter_percent: u32,
    /// The number of passed checks after which an unhealthy endpoint is healthy.
    pub healthy_threshold: u32,
    /// The number of failed checks after which a healthy endpoint is unhealthy.
    pub unhealthy_threshold: u32,
}

/// The request of a health check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Probe {
    /// A request over HTTP, in the version that the endpoints speak.
    Http {
        /// The `Host` header. If it is empty, the name of the Service is sent.
        host: Arc<str>,
        /// The path, with a query.
        path: Arc<str>,
        /// The method.
        method: ProbeMethod,
        /// The statuses of a passed check: ranges with the first and the last status.
        statuses: Vec<(u16, u16)>,
    },
    /// The gRPC health protocol.
    Grpc {
        /// The name of the service; empty for the server.
        service: Arc<str>,
    },
    /// A TCP connection.
    Tcp,
}

/// The method of a health check over HTTP. Others could change the state of the endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the variants have the names of the methods")]
pub enum ProbeMethod {
    #[default]
    Get,
    Head,
}

/// The probes of silent connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpKeepalive {
    /// The number of probes without an answer after which the connection is closed.
    pub probes: u32,
    /// The silence before the first probe, in seconds.
    pub idle_seconds: u32,
    /// The time between two probes, in seconds.
    pub interval_seconds: u32,
}

/// A version of the PROXY protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProxyProtocol {
    /// Version 1, in text.
    V1,
    /// Version 2, in binary.
    V2,
}

/// HTTP/3 to the endpoints.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Http3 {
    /// Requests are sent over TCP.
    Disabled,
    /// Requests are sent over QUIC.
    Enabled {
        /// The server name of connections. The certificates of the endpoints must cover it.
        server_name: Option<Arc<str>>,
    },
}

/// The limit of concurrent retries, in relation to all requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetryBudget {
    /// The percentage of the active requests that may be retries.
    pub percent: u32,
    /// The number of concurrent retries that is always allowed.
    pub min_concurrency: u32,
}

/// The preference of endpoints by their zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ZonePreference {
    /// None: all zones receive requests.
    Any,
    /// Requests stay in the zone of the Envoy if it has enough healthy endpoints. Otherwise, all zones receive them.
    Local {
        /// The number of healthy endpoints that are enough.
        min_endpoints: u32,
    },
}

impl BackendFeatures {
    /// Returns the features. Features that are not set come from `general`.
    #[must_use]
    pub fn or(&self, general: &Self) -> Self {
        // Without `..`, so that a new feature does not compile until it is inherited.
        let Self {
            outlier_detection,
            health_check,
            panic_threshold_percent,
            load_balancing,
            tcp_keepalive,
            proxy_protocol,
            http3,
            idle_timeout,
            max_connection_age,
            retry_budget,
            zones,
            shares,
            origins,
        } = self;
        Self {
            outlier_detection: outlier_detection.clone().or_else(|| general.outlier_detection.clone()),
            health_check: health_check.clone().or_else(|| general.health_check.clone()),
            panic_threshold_percent: panic_threshold_percent.or(general.panic_threshold_percent),
            load_balancing: load_balancing.clone().or_else(|| general.load_balancing.clone()),
            tcp_keepalive: tcp_keepalive.or(general.tcp_keepalive),
            proxy_protocol: proxy_protocol.or(general.proxy_protocol),
            http3: http3.clone().or_else(|| general.http3.clone()),
            idle_timeout: idle_timeout.or(general.idle_timeout),
            max_connection_age: max_connection_age.or(general.max_connection_age),
            retry_budget: retry_budget.or(general.retry_budget),
            zones: zones.or(general.zones),
            shares: if shares.is_empty() { general.shares.clone() } else { shares.clone() },
            origins: origins.iter().chain(&general.origins).cloned().collect(),
        }
    }

    /// Returns whether no feature is set.
    pub fn is_empty(&self) -> bool {
        let unset = Self { origins: self.origins.clone(), ..Self::default() };
        *self == unset
    }

    /// Writes the content to the text of a policy's identity. A feature that is not set writes nothing.
    pub(super) fn write(&self, text: &mut String) {
        let Self {
            outlier_detection,
            health_check,
            panic_threshold_percent,
            load_balancing,
            tcp_keepalive,
            proxy_protocol,
            http3,
            idle_timeout,
            max_connection_age,
            retry_budget,
            zones,
            shares,
            origins: _,
        } = self;
        let mut out = Identity(text);
        if let Some(detection) = outlier_detection {
            out.outlier_detection(detection);
        }
        if let Some(check) = health_check {
            out.health_check(check);
        }
        out.number("panic", *panic_threshold_percent);
        if let Some(balancing) = load_balancing {
            out.load_balancing(balancing);
        }
        if let Some(TcpKeepalive { probes, idle_seconds, interval_seconds }) = tcp_keepalive {
            out.numbers("keepalive", &[*probes, *idle_seconds, *interval_seconds]);
        }
        out.number("proxy", proxy_protocol.map(|version| version as u32));
        match http3 {
            None => {}
            Some(Http3::Disabled) => out.number("http3", Some(0)),
            Some(Http3::Enabled { server_name }) => out.text("http3", server_name.as_deref().unwrap_or_default()),
        }
        out.time("idle", *idle_timeout);
        out.time("age", *max_connection_age);
        if let Some(RetryBudget { percent, min_concurrency }) = retry_budget {
            out.numbers("budget", &[*percent, *min_concurrency]);
        }
        if let Some(ZonePreference::Local { min_endpoints }) = zones {
            out.number("local-zone", Some(*min_endpoints));
        }
        for (port, weight) in shares {
            out.text("share", &port.to_string());
            out.number("weight", Some(*weight));
        }
    }
}

/// The text of an identity. Writing to a string cannot fail.
struct Identity<'a>(&'a mut String);

impl Identity<'_> {
    fn number(&mut self, name: &str, value: Option<u32>) {
        if let Some(value) = value {
            let _ = write!(self.0, ";{name}={value}");
        }
    }

    fn numbers(&mut self, name: &str, values: &[u32]) {
        let _ = write!(self.0, ";{name}={values:?}");
    }

    fn time(&mut self, name: &str, value: Option<Duration>) {
        if let Some(value) = value {
            let _ = write!(self.0, ";{name}={}", value.as_nanos());
        }
    }

    /// Writes a text with its length, so that no text can imitate a field.
    fn text(&mut self, name: &str, value: &str) {
        let _ = write!(self.0, ";{name}={}:{value}", value.len());
    }

    fn outlier_detection(&mut self, detection: &OutlierDetection) {
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
        self.number("5xx", *consecutive_5xx);
        self.number("gateway", *consecutive_gateway_errors);
        self.number("local", *consecutive_local_origin_failures);
        if let Some(SuccessRate { minimum_hosts, request_volume, stdev_factor }) = success_rate {
            self.numbers("rate", &[*minimum_hosts, *request_volume, *stdev_factor]);
        }
        self.time("analysis", Some(*interval));
        self.time("ejection", Some(*base_ejection_time));
        self.time("max-ejection", Some(*max_ejection_time));
        self.number("ejected", Some(*max_ejection_percent));
    }

    fn health_check(&mut self, check: &HealthCheck) {
        let HealthCheck {
            probe,
            port,
            service_port,
            interval,
            timeout,
            jitter_percent,
            healthy_threshold,
            unhealthy_threshold,
        } = check;
        match probe {
            Probe::Http { host, path, method, statuses } => {
                self.text("probe-host", host);
                self.text("probe-path", path);
                self.number("probe-method", Some(*method as u32));
                let _ = write!(self.0, ";probe-statuses={statuses:?}");
            }
            Probe::Grpc { service } => self.text("probe-grpc", service),
            Probe::Tcp => self.text("probe-tcp", ""),
        }
        self.number("probe-port", port.map(u32::from));
        if let Some(port) = service_port {
            self.text("probe-service-port", &port.to_string());
        }
        self.time("probe-interval", Some(*interval));
        self.time("probe-timeout", Some(*timeout));
        self.numbers("probe-thresholds", &[*jitter_percent, *healthy_threshold, *unhealthy_threshold]);
    }

    fn load_balancing(&mut self, balancing: &LoadBalancing) {
        let LoadBalancing { algorithm, slow_start, hash_on } = balancing;
        self.number("algorithm", Some(*algorithm as u32));
        if let Some(SlowStart { window, min_weight_percent, aggression_thousandths }) = slow_start {
            self.time("slow-start", Some(*window));
            self.number("slow-start-weight", Some(*min_weight_percent));
            self.number("slow-start-aggression", Some(*aggression_thousandths).filter(|one| *one != SlowStart::LINEAR));
        }
        for HashPart { on, is_terminal } in hash_on {
            match on {
                HashOn::Header(name) => self.text("hash-header", name.as_str()),
                HashOn::Cookie { name, path, lifetime } => {
                    self.text("hash-cookie", &name.to_string());
                    self.text("hash-cookie-path", path);
                    self.time("hash-cookie-lifetime", *lifetime);
                }
                HashOn::SourceAddress => self.text("hash-address", ""),
                HashOn::QueryParameter(name) => self.text("hash-query", name),
                HashOn::Path => self.text("hash-path", ""),
            }
            if !is_terminal {
                self.text("hash-combined", "");
            }
        }
    }
}

#[cfg(test)]
mod tests;
