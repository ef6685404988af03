//! The Prometheus metrics of the process. A base module without dependencies on other modules.
//!
//! Label values are `&'static str` on purpose: they come from closed sets in the code. Neither a tenant nor a client
//! can increase the number of time series. The exceptions have limits: the namespaces with the largest configurations or the most
//! problems, and the certificates that expire first.

mod process;
mod replaced;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeLabelSet, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use replaced::Replaced;

/// The media type of [`Metrics::encode`]. Source: OpenMetrics 1.0, "Overall Structure".
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Histogram bounds of the duration of one translation, in seconds: 100 µs to 6.6 s.
const TRANSLATION_BOUNDS: [f64; 9] = [0.0001, 0.0004, 0.0016, 0.0064, 0.0256, 0.1024, 0.4096, 1.6384, 6.5536];

/// Histogram bounds of the time from push to ACK, in seconds: 1 ms to 33 s. Envoy waits 15 s for a warming cluster.
const ACK_BOUNDS: [f64; 13] = [0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.512, 2.0, 8.0, 16.0, 33.0];

/// All metrics of the process. Clones share their values.
#[derive(Debug, Clone)]
pub struct Metrics(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    registry: Registry,
    objects: Family<Kind, Gauge>,
    listed: Family<Kind, Gauge>,
    lists: Family<Kind, Counter>,
    problems: Family<Reason, Gauge>,
    namespace_problems: Replaced<NamespaceProblems>,
    source_faults: Counter,
    source_success: Family<Kind, Gauge>,
    settings_valid: Gauge,
    settings_reads: Family<Outcome, Counter>,
    settings_waiting: Gauge,
    certificates_expiring: Gauge,
    certificates: Replaced<Served>,
    source_faulty: Gauge,
    translation: Histogram,
    resources: Family<Type, Gauge>,
    statistics: Family<Statistics, Gauge>,
    configuration_bytes: Family<Namespace, Gauge>,
    configuration_ratio: Family<Namespace, Gauge<f64, AtomicU64>>,
    publications: Counter,
    streams: Family<Variant, Gauge>,
    streams_refused: Counter,
    connections_refused: Family<Reason, Counter>,
    responses: Family<Type, Counter>,
    pushed_resources: Family<Type, Counter>,
    pushed_bytes: Family<Type, Counter>,
    acks: Family<Type, Counter>,
    nacks: Family<Type, Counter>,
    rejected: Family<Type, Gauge>,
    push_to_ack: Family<Type, Histogram, Bounds>,
    gate_timeouts: Family<Type, Counter>,
    leader: Gauge,
    certificate_expiry: Family<Certificate, Gauge>,
    certificate_reloads: Counter,
    certificate_faults: Counter,
    status_writes: Family<Write, Counter>,
    status_pending: Family<Kind, Gauge>,
    events_dropped: Counter,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Reason {
    reason: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NamespaceProblems {
    namespace: Arc<str>,
    reason: &'static str,
}

/// The Secret of a served certificate.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Served {
    namespace: Arc<str>,
    name: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Type {
    r#type: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Statistics {
    state: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Namespace {
    namespace: Arc<str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Write {
    kind: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Variant {
    variant: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Certificate {
    certificate: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Outcome {
    result: &'static str,
}

#[derive(Debug, Clone)]
struct Bounds;

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(ACK_BOUNDS)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new("unknown")
    }
}

impl Metrics {
    /// Creates the metrics of a process that starts now. `commit` is the commit of the build.
    pub fn new(commit: &'static str) -> Self {
        let mut inner = Inner {
            registry: Registry::default(),
            objects: Family::default(),
            listed: Family::default(),
            lists: Family::default(),
            problems: Family::default(),
            namespace_problems: Replaced::default(),
            source_faults: Counter::default(),
            source_success: Family::default(),
            settings_valid: Gauge::default(),
            settings_reads: Family::default(),
            settings_waiting: Gauge::default(),
            certificates_expiring: Gauge::default(),
            certificates: Replaced::default(),
            source_faulty: Gauge::default(),
            translation: Histogram::new(TRANSLATION_BOUNDS),
            resources: Family::default(),
            statistics: Family::default(),
            configuration_bytes: Family::default(),
            configuration_ratio: Family::default(),
            publications: Counter::default(),
            streams: Family::default(),
            streams_refused: Counter::default(),
            connections_refused: Family::default(),
            responses: Family::default(),
            pushed_resources: Family::default(),
            pushed_bytes: Family::default(),
            acks: Family::default(),
            nacks: Family::default(),
            rejected: Family::default(),
            push_to_ack: Family::new_with_constructor(Bounds),
            gate_timeouts: Family::default(),
            leader: Gauge::default(),
            certificate_expiry: Family::default(),
            certificate_reloads: Counter::default(),
            certificate_faults: Counter::default(),
            status_writes: Family::default(),
            status_pending: Family::default(),
            events_dropped: Counter::default(),
        };
        inner.register(commit);
        inner.settings_valid.set(1);
        Self(Arc::new(inner))
    }

    /// Sets the number of known objects of `kind`.
    pub fn set_objects(&self, kind: &'static str, count: usize) {
        self.0.objects.get_or_create(&Kind { kind }).set(gauge(count));
    }

    /// Sets whether the initial list of `kind` is complete.
    pub fn set_listed(&self, kind: &'static str, listed: bool) {
        self.0.listed.get_or_create(&Kind { kind }).set(i64::from(listed));
    }

    /// Counts a list of all objects of `kind`: at the start, and when a watch cannot resume.
    pub fn list_taken(&self, kind: &'static str) {
        self.0.lists.get_or_create(&Kind { kind }).inc();
    }

    /// Counts `count` new problems with this reason.
    pub fn problems_found(&self, reason: &'static str, count: usize) {
        self.0.problems.get_or_create(&Reason { reason }).inc_by(gauge(count));
    }

    /// Subtracts `count` resolved problems. A reason without problems has no series.
    pub fn problems_healed(&self, reason: &'static str, count: usize) {
        let left = self.0.problems.get_or_create(&Reason { reason }).dec_by(gauge(count)) - gauge(count);
        if left <= 0 {
            self.0.problems.remove(&Reason { reason });
        }
    }

    /// Sets the numbers of problems by namespace and reason. Other namespaces have no series.
    pub fn set_namespace_problems(&self, problems: impl IntoIterator<Item = (Arc<str>, &'static str, usize)>) {
        let series = |(namespace, reason, count)| (NamespaceProblems { namespace, reason }, gauge(count));
        self.0.namespace_problems.replace(problems.into_iter().map(series));
    }

    /// Counts a fault of the source, such as a file that does not parse or a rejected list.
    pub fn source_fault(&self) {
        self.0.source_faults.inc();
    }

    /// Sets the time of the last success of the watch of `kind`.
    pub fn set_source_success(&self, kind: &'static str, time: SystemTime) {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.0.source_success.get_or_create(&Kind { kind }).set(gauge_of(seconds));
    }

    /// Sets the number of files or kinds with a current fault.
    pub fn set_source_faulty(&self, count: usize) {
        self.0.source_faulty.set(gauge(count));
    }

    /// Counts a read of the settings file. Only `valid` content becomes effective.
    pub fn settings_read(&self, valid: bool) {
        self.0.settings_valid.set(valid.into());
        let result = if valid { "applied" } else { "refused" };
        self.0.settings_reads.get_or_create(&Outcome { result }).inc();
    }

    /// Sets the number of changed keys in the settings file that require a restart of the controller.
    pub fn set_settings_waiting(&self, count: usize) {
        self.0.settings_waiting.set(gauge(count));
    }

    /// Sets the number of served certificates that have expired, or expire within the configured time.
    pub fn set_certificates_expiring(&self, count: usize) {
        self.0.certificates_expiring.set(gauge(count));
    }

    /// Sets the expiry of served certificates: namespace and name of the Secret, and seconds since the Unix epoch. Other
    /// certificates have no series.
    pub fn set_certificate_expiries(&self, certificates: impl IntoIterator<Item = (Arc<str>, Arc<str>, i64)>) {
        let series = |(namespace, name, expiry)| (Served { namespace, name }, expiry);
        self.0.certificates.replace(certificates.into_iter().map(series));
    }

    /// Records the duration of one translation, from its first event to the publication.
    pub fn translated(&self, time: Duration) {
        self.0.translation.observe(time.as_secs_f64());
    }

    /// Sets the number of resources of `type_name` (the form of `ResourceType::short_name`) in the newest snapshot.
    pub fn set_resources(&self, type_name: &'static str, count: usize) {
        let label = Type { r#type: type_name };
        self.0.resources.get_or_create(&label).set(gauge(count));
        // The function `increase` of Prometheus does not see the first value of a new series.
        drop(self.0.nacks.get_or_create(&label));
        drop(self.0.gate_timeouts.get_or_create(&label));
        drop(self.0.rejected.get_or_create(&label));
    }

    /// Sets the numbers of objects with and without statistics of their own, counted once for each host.
    pub fn set_statistics(&self, counted: usize, omitted: usize) {
        for (state, count) in [("counted", counted), ("omitted", omitted)] {
            self.0.statistics.get_or_create(&Statistics { state }).set(gauge(count));
        }
    }

    /// Sets the sizes of the largest configurations of namespaces in bytes, and their share of `limit`. Other namespaces have no
    /// series.
    pub fn set_configurations(&self, sizes: Vec<(Arc<str>, u64)>, limit: u64) {
        self.0.configuration_bytes.clear();
        self.0.configuration_ratio.clear();
        for (namespace, size) in sizes {
            let label = Namespace { namespace };
            self.0.configuration_bytes.get_or_create(&label).set(gauge_of(size));
            self.0.configuration_ratio.get_or_create(&label).set(size as f64 / limit as f64);
        }
    }

    /// Counts the publication of a snapshot with a real difference.
    pub fn published(&self) {
        self.0.publications.inc();
    }

    /// Counts an open stream of `variant` (`sotw` or `delta`), until [`Metrics::stream_closed`].
    pub fn stream_opened(&self, variant: &'static str) {
        self.0.streams.get_or_create(&Variant { variant }).inc();
    }

    /// Counts the end of a stream of `variant`.
    pub fn stream_closed(&self, variant: &'static str) {
        self.0.streams.get_or_create(&Variant { variant }).dec();
    }

    /// Counts a stream that the server closed with an error: a missing role or node, an unknown type, or too many streams.
    pub fn stream_refused(&self) {
        self.0.streams_refused.inc();
    }

    /// Counts an xDS connection that the server refused for this reason.
    pub fn connection_refused(&self, reason: &'static str) {
        self.0.connections_refused.get_or_create(&Reason { reason }).inc();
    }

    /// Counts a response of `type_name` with `resources` resources, including removals, in `bytes` bytes.
    pub fn pushed(&self, type_name: &'static str, resources: usize, bytes: usize) {
        let label = Type { r#type: type_name };
        self.0.responses.get_or_create(&label).inc();
        self.0.pushed_resources.get_or_create(&label).inc_by(resources as u64);
        self.0.pushed_bytes.get_or_create(&label).inc_by(bytes as u64);
    }

    /// Counts an ACK of a response of `type_name`, `since_push` after the response was sent.
    pub fn acked(&self, type_name: &'static str, since_push: Duration) {
        let label = Type { r#type: type_name };
        self.0.acks.get_or_create(&label).inc();
        self.0.push_to_ack.get_or_create(&label).observe(since_push.as_secs_f64());
    }

    /// Counts a rejected response of `type_name`.
    pub fn nacked(&self, type_name: &'static str) {
        self.0.nacks.get_or_create(&Type { r#type: type_name }).inc();
    }

    /// Sets the number of resources of `type_name` that clients reject and do not use.
    pub fn set_rejected(&self, type_name: &'static str, resources: usize) {
        self.0.rejected.get_or_create(&Type { r#type: type_name }).set(i64::try_from(resources).unwrap_or(i64::MAX));
    }

    /// Counts a push of `type_name` that waited for an ACK longer than the limit, and continued without it.
    pub fn gate_timed_out(&self, type_name: &'static str) {
        self.0.gate_timeouts.get_or_create(&Type { r#type: type_name }).inc();
    }

    /// Sets whether this replica is the leader, which writes to the API server.
    pub fn set_leader(&self, leads: bool) {
        self.0.leader.set(i64::from(leads));
    }

    /// Sets the expiry of an xDS certificate: `server`, `authority`, `envoy`.
    pub fn set_certificate_expiry(&self, certificate: &'static str, time: SystemTime) {
        let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        self.0.certificate_expiry.get_or_create(&Certificate { certificate }).set(gauge_of(seconds));
    }

    /// Counts a reload of xDS certificates. If they are not `good`, the old certificates stay in use.
    pub fn certificate_reloaded(&self, good: bool) {
        if good { &self.0.certificate_reloads } else { &self.0.certificate_faults }.inc();
    }

    /// Counts a write to the API server for an object of `kind`, by its outcome.
    pub fn status_written(&self, kind: &'static str, outcome: &'static str) {
        self.0.status_writes.get_or_create(&Write { kind, outcome }).inc();
    }

    /// Sets the number of objects of `kind` with a pending write.
    pub fn set_status_pending(&self, kind: &'static str, count: usize) {
        self.0.status_pending.get_or_create(&Kind { kind }).set(gauge(count));
    }

    /// Counts Events that the writer dropped because there were too many.
    pub fn events_dropped(&self, count: u64) {
        self.0.events_dropped.inc_by(count);
    }

    /// Encodes all metrics in the text format of OpenMetrics ([`CONTENT_TYPE`]).
    pub fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a string fails only if a metric reports an error, which these metrics do not. The partial text is
        // served.
        if let Err(error) = text::encode(&mut text, &self.0.registry) {
            debug_assert!(false, "metrics do not encode: {error}");
        }
        text
    }
}

impl Inner {
    fn register(&mut self, commit: &'static str) {
        self.registry.register_collector(Box::new(process::Process::starting_now()));
        let mut all = std::mem::take(&mut self.registry);
        let registry = all.sub_registry_with_prefix("lockgate");
        let build = Info::new([("version", env!("CARGO_PKG_VERSION")), ("commit", commit)]);
        registry.register("build", "The running version", build);
        self.register_sources(registry);
        self.register_settings(registry);
        self.register_publications(registry);
        self.register_xds(registry);
        self.register_certificates(registry);
        self.register_writes(registry);
        self.registry = all;
    }

    /// Registers the metrics of the source and of its objects.
    fn register_sources(&self, registry: &mut Registry) {
        registry.register("objects", "Known objects, by kind", self.objects.clone());
        registry.register("source_listed", "1 when the initial list of the kind is complete", self.listed.clone());
        registry.register("source_lists", "Complete lists of all objects of the kind", self.lists.clone());
        registry.register("source_faulty", "Files or kinds that cannot be read now", self.source_faulty.clone());
        registry.register_with_unit(
            "source_last_success_timestamp",
            "Last time that the API server reported on the kind: a list, an event, or a watch that ended normally",
            Unit::Seconds,
            self.source_success.clone(),
        );
        registry.register(
            "source_faults",
            "Faults of the source, such as a file that does not parse or a rejected list",
            self.source_faults.clone(),
        );
    }

    /// Registers the metrics of the settings file.
    fn register_settings(&self, registry: &mut Registry) {
        registry.register(
            "settings_valid",
            "1 while the content of the settings file is valid, and therefore effective",
            self.settings_valid.clone(),
        );
        registry.register(
            "settings_waiting",
            "Changed keys of the settings file that require a restart of the controller",
            self.settings_waiting.clone(),
        );
        registry.register(
            "settings_reads",
            "Reads of new content of the settings file, by result",
            self.settings_reads.clone(),
        );
    }

    /// Registers the metrics of the translation and of the published resources.
    fn register_publications(&self, registry: &mut Registry) {
        registry.register(
            "problems",
            "Problems of objects, by reason, including those that exceed the limits of the lists",
            self.problems.clone(),
        );
        registry.register(
            "namespace_problems",
            "Problems of the objects of a namespace, by reason, for the 100 namespaces with the most problems",
            self.namespace_problems.family(),
        );
        registry.register_with_unit(
            "translation",
            "Time from the change of an object to the published resources",
            Unit::Seconds,
            self.translation.clone(),
        );
        registry.register("resources", "Resources in the newest snapshot, by type", self.resources.clone());
        registry.register(
            "statistics_objects",
            "Objects with statistics in Envoy, once for each host: counted, or omitted beyond statistics.maxObjects",
            self.statistics.clone(),
        );
        registry.register_with_unit(
            "namespace_configuration",
            "Size of the Envoy configuration that the objects of a namespace cause, for the 20 largest ones above a quarter of \
             tenants.maxConfigurationPerNamespace",
            Unit::Bytes,
            self.configuration_bytes.clone(),
        );
        registry.register(
            "namespace_configuration_ratio",
            "The same as a share of the limit: above 1, the newest objects are not served",
            self.configuration_ratio.clone(),
        );
        registry.register("publications", "Published snapshots", self.publications.clone());
        registry.register(
            "certificates_expiring",
            "Served certificates that have expired, or expire within tls.expiryWarning",
            self.certificates_expiring.clone(),
        );
        registry.register_with_unit(
            "certificate_expiry_timestamp",
            "Expiry of a served certificate, since the Unix epoch, by its Secret: the 1,000 that expire first, at most 100 of a namespace",
            Unit::Seconds,
            self.certificates.family(),
        );
    }

    /// Registers the metrics of the xDS server.
    fn register_xds(&self, registry: &mut Registry) {
        registry.register("xds_streams", "Open xDS streams, by variant", self.streams.clone());
        registry.register("xds_streams_refused", "Refused xDS streams", self.streams_refused.clone());
        registry.register(
            "xds_connections_refused",
            "Refused connections for xDS, by reason: name is a certificate whose names give no role",
            self.connections_refused.clone(),
        );
        registry.register("xds_responses", "Sent responses, by type", self.responses.clone());
        registry.register("xds_pushed_resources", "Sent resources, by type", self.pushed_resources.clone());
        registry.register_with_unit("xds_pushed", "Sent bytes, by type", Unit::Bytes, self.pushed_bytes.clone());
        registry.register("xds_acks", "Responses that a client accepted, by type", self.acks.clone());
        registry.register("xds_nacks", "Responses that a client rejected, by type", self.nacks.clone());
        registry.register(
            "xds_rejected_resources",
            "Resources that clients reject and do not use, by type",
            self.rejected.clone(),
        );
        registry.register_with_unit(
            "xds_push_to_ack",
            "Time from a response to its ACK, by type",
            Unit::Seconds,
            self.push_to_ack.clone(),
        );
        registry.register(
            "xds_gate_timeouts",
            "Pushes that waited longer than the limit for an ACK, by the waiting type",
            self.gate_timeouts.clone(),
        );
    }

    /// Registers the metrics of the certificates of xDS.
    fn register_certificates(&self, registry: &mut Registry) {
        registry.register_with_unit(
            "xds_certificate_expiry_timestamp",
            "Expiry of an xDS certificate, since the Unix epoch",
            Unit::Seconds,
            self.certificate_expiry.clone(),
        );
        registry.register(
            "xds_certificate_reloads",
            "Reloads of valid xDS certificates",
            self.certificate_reloads.clone(),
        );
        registry.register(
            "xds_certificate_reload_failures",
            "Reloads of invalid xDS certificates; the old certificates stay in use",
            self.certificate_faults.clone(),
        );
    }

    /// Registers the metrics of the writes to the API server.
    fn register_writes(&self, registry: &mut Registry) {
        registry.register("leader", "1 on the leader, the replica that writes to the API server", self.leader.clone());
        registry.register("status_writes", "Writes to the API server, by kind and outcome", self.status_writes.clone());
        registry.register(
            "status_pending",
            "Pending writes of objects and Events, by kind",
            self.status_pending.clone(),
        );
        registry.register(
            "events_dropped",
            "Events that exceeded the limits and were not written",
            self.events_dropped.clone(),
        );
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn gauge_of(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
