//! Every registered metric of the process changes with its subject, and the dashboard, alerts, and documents name only
//! existing metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};

use e2e::certificates::Pair;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::process::repository;
use e2e::xds::{CLUSTER, Connection, Response};
use e2e::{Lockgate, Manifests, Source, wait_until};

const LISTENER: &str = "type.googleapis.com/envoy.config.listener.v3.Listener";

/// Metrics that need an API server or certificates of xDS, with the file and the test that changes each of them.
const ELSEWHERE: [(&str, &str, &str); 13] = [
    (
        "lockgate_leader",
        "e2e/tests/process_settings.rs",
        "namespaces_certificates_and_the_election_are_those_of_the_file",
    ),
    (
        "lockgate_source_last_success_timestamp",
        "src/source/cluster/freshness.rs",
        "the_watch_that_has_waited_longest_decides",
    ),
    ("lockgate_status_writes", "e2e/tests/status/events.rs", "a_fault_is_told_once_and_healed_once"),
    ("lockgate_status_pending", FLOODS, "a_flood_of_events_does_not_delay_those_of_another_tenant"),
    ("lockgate_events_dropped", FLOODS, "a_flood_of_events_does_not_delay_those_of_another_tenant"),
    (
        "lockgate_xds_connections_refused",
        "e2e/tests/isolation/identities.rs",
        "a_certificate_of_the_authority_alone_gets_nothing",
    ),
    (
        "lockgate_xds_certificate_expiry_timestamp",
        CERTIFICATES,
        "an_exchange_ends_no_stream_and_bad_files_change_nothing",
    ),
    ("lockgate_xds_certificate_reloads", CERTIFICATES, "an_exchange_ends_no_stream_and_bad_files_change_nothing"),
    (
        "lockgate_xds_certificate_reload_failures",
        CERTIFICATES,
        "an_exchange_ends_no_stream_and_bad_files_change_nothing",
    ),
    ("lockgate_statistics_objects", "e2e/tests/statistics.rs", "namespaces_share_the_limit"),
    (
        "lockgate_namespace_configuration",
        SIZES,
        "routes_with_many_matches_beyond_the_limit_of_a_namespace_are_closed_alone",
    ),
    (
        "lockgate_namespace_configuration_ratio",
        SIZES,
        "routes_with_many_matches_beyond_the_limit_of_a_namespace_are_closed_alone",
    ),
    // Its value never changes. Its labels contain the information.
    ("lockgate_build", "e2e/tests/scraping.rs", "metrics_are_for_those_who_show_a_certificate"),
];
/// Labels of Envoy's statistics of single objects, which `statistics` checks.
const LABELS: [&str; 5] =
    ["lockgate_listener", "lockgate_host", "lockgate_kind", "lockgate_namespace", "lockgate_name"];
const SIZES: &str = "e2e/tests/gateway_load/sizes.rs";
const FLOODS: &str = "e2e/tests/isolation/floods.rs";
const CERTIFICATES: &str = "e2e/tests/certificates/directory.rs";

fn read(path: &str) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the names of registered metrics, without units and the suffixes of their types.
fn registered() -> BTreeSet<String> {
    let source = read("src/metrics.rs");
    let calls = source.split("registry.register").skip(1).filter_map(|call| {
        let arguments = call.strip_prefix("_with_unit").unwrap_or(call).strip_prefix('(')?;
        arguments.trim_start().strip_prefix('"')?.split('"').next()
    });
    let names: BTreeSet<String> = calls.map(|name| format!("lockgate_{name}")).collect();
    assert!(names.len() > 25, "{names:?}");
    names
}

/// Returns the registered name of a series, without its labels.
fn registered_name(registered: &BTreeSet<String>, series: &str) -> Option<String> {
    let name = series.split('{').next().unwrap_or_default();
    let bare = ["", "_total", "_info", "_bucket", "_sum", "_count"].iter().filter_map(|end| name.strip_suffix(end));
    let mut bare = bare.flat_map(|bare| ["", "_seconds", "_bytes"].map(|unit| bare.strip_suffix(unit)));
    bare.find_map(|bare| bare.and_then(|bare| registered.get(bare))).cloned()
}

/// The metrics of a process that have changed so far.
struct Watched {
    lockgate: Lockgate,
    registered: BTreeSet<String>,
    last: BTreeMap<String, f64>,
    moved: BTreeSet<String>,
}

impl Watched {
    async fn start(lockgate: Lockgate) -> Self {
        let mut watched = Self { lockgate, registered: registered(), last: BTreeMap::new(), moved: BTreeSet::new() };
        watched.poll().await;
        // A series with labels appears when it is first counted. One without labels always exists.
        let last = &watched.last;
        watched.moved.retain(|name| !last.contains_key(name) && !last.contains_key(&format!("{name}_total")));
        watched
    }

    async fn poll(&mut self) {
        let now = self.lockgate.metrics().await;
        let changed = now.iter().filter(|(series, value)| self.last.get(*series) != Some(*value));
        let names = changed.filter_map(|(series, _)| registered_name(&self.registered, series));
        self.moved.extend(names.collect::<Vec<_>>());
        self.last = now;
    }

    /// Waits until these metrics have changed.
    async fn until(&mut self, names: &[&str]) {
        wait_until(&names.join(", "), async || {
            self.poll().await;
            names.iter().all(|name| self.moved.contains(&format!("lockgate_{name}")))
        })
        .await;
    }

    /// Waits until a metric has this value.
    async fn wait_value(&mut self, name: &str, value: f64) {
        wait_until(&format!("{name} {value}"), async || self.lockgate.metric(name, &[]).await == value).await;
        self.poll().await;
    }
}

/// Creates an expired key pair.
fn expired(name: &str) -> Pair {
    let mut params = rcgen::CertificateParams::new([name.to_owned()]).expect("a name");
    (params.not_before, params.not_after) = (rcgen::date_time_ymd(2020, 1, 1), rcgen::date_time_ymd(2021, 1, 1));
    let key = rcgen::KeyPair::generate().expect("a key");
    let certificate = params.self_signed(&key).expect("a certificate");
    Pair { certificate: certificate.pem(), der: certificate.der().clone(), key: key.serialize_pem() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_metric_of_the_process_changes_with_its_subject() {
    let (manifests, settings) = (Manifests::new(), Manifests::new());
    settings.write("lockgate.yaml", "http: { trustedHops: 1 }\n");
    let file = settings.file("lockgate.yaml");
    let flags = ["--gate-timeout", "1s", "--config", file.to_str().expect("a path in UTF-8")];
    let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &flags).await;
    let mut watched = Watched::start(lockgate).await;

    // Valid and invalid objects.
    let shop = |backend: u8| {
        let address = ([127, 0, 0, backend], 80).into();
        documents(&[
            service("shop", "", &[address]),
            ingress("shop", "shop.test", "shop", Some("cert")),
            ingress("wrong", "wrong.test", "nothing", None),
            expired("shop.test").secret("default", "cert"),
        ])
    };
    manifests.write("class.yaml", &ingress_class());
    manifests.write("shop.yaml", &shop(1));
    manifests.write("broken.yaml", "a: [\n");
    watched.until(&["source_listed", "source_lists", "objects", "problems", "translation", "resources"]).await;
    watched.until(&["publications", "source_faulty", "source_faults"]).await;
    manifests.write("broken.yaml", "");
    watched.wait_value("lockgate_source_faulty", 0.0).await;

    // Settings that apply, wait for a restart, or are rejected.
    settings.write("lockgate.yaml", "xds: { maxConnections: 7 }\n");
    watched.until(&["settings_reads", "settings_waiting"]).await;
    settings.write("lockgate.yaml", "http: { trustedHops: many }\n");
    watched.until(&["settings_valid"]).await;
    settings.write("lockgate.yaml", "http: { trustedHops: 1 }\n");
    watched.wait_value("lockgate_settings_valid", 1.0).await;

    // Clients that accept, reject, do not answer, or do not identify themselves.
    let connect = async || Connection::open(watched.lockgate.xds, IpAddr::V4(Ipv4Addr::LOCALHOST)).await;
    let mut connection = connect().await.expect("a connection");
    let any = |name: &str| std::iter::once(name.to_owned());
    let mut good = connection.stream().await.expect("a stream");
    good.ask(CLUSTER, any("*"), std::iter::empty());
    let response = good.next().await;
    good.answer(CLUSTER, &response, false);
    watched.until(&["xds_streams", "xds_responses", "xds_pushed_resources", "xds_pushed", "xds_acks"]).await;
    watched.until(&["xds_push_to_ack"]).await;
    drop(good);
    watched.wait_value("lockgate_xds_streams", 0.0).await;

    let mut bad = connection.stream().await.expect("a stream");
    bad.ask(CLUSTER, any("*"), std::iter::empty());
    for _ in 0..response.resources {
        let response = bad.next().await;
        bad.answer(CLUSTER, &response, true);
    }
    watched.until(&["xds_nacks", "xds_rejected_resources"]).await;
    drop(bad);
    watched.wait_value("lockgate_xds_rejected_resources", 0.0).await;

    let mut silent = connection.stream().await.expect("a stream");
    silent.ask(CLUSTER, any("*"), std::iter::empty());
    silent.next().await;
    silent.ask(LISTENER, any("*"), std::iter::empty());
    watched.until(&["xds_gate_timeouts"]).await;
    let stranger = connection.stream().await.expect("a stream");
    // The first request has no node.
    stranger.answer(
        CLUSTER,
        &Response { type_url: String::new(), nonce: String::new(), resources: 0, removed: 0 },
        false,
    );
    watched.until(&["xds_streams_refused"]).await;

    watched.until(&["certificates_expiring"]).await;

    let elsewhere: BTreeSet<String> = ELSEWHERE.iter().map(|(name, ..)| (*name).to_owned()).collect();
    let never: Vec<_> = watched.registered.iter().filter(|name| !watched.moved.contains(*name)).collect();
    let never: Vec<_> = never.into_iter().filter(|name| !elsewhere.contains(*name)).collect();
    assert!(never.is_empty(), "these metrics have not changed: {never:?}");
    println!("{} metrics changed here, {} elsewhere", watched.moved.len(), elsewhere.len());
}

#[test]
fn what_changes_elsewhere_is_tested_there() {
    let registered = registered();
    for (name, file, test) in ELSEWHERE {
        assert!(registered.contains(name), "{name} is no metric");
        let text = read(file);
        assert!(text.contains(&format!("fn {test}()")), "{file} has no test {test}");
        assert!(text.contains(name), "{file} does not name {name}");
    }
}

fn files(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

#[test]
fn the_dashboard_the_alerts_and_the_docs_name_metrics_that_exist() {
    let registered = registered();
    let mut found = vec![repository().join("README.md")];
    ["charts/lockgate", "docs", "manifests"]
        .iter()
        .for_each(|directory| files(&repository().join(directory), &mut found));
    let mut named = 0;
    for path in found {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        // The name of the library in log filters and Rust paths.
        let words = words.filter(|word| *word != "lockgate_xds" && !LABELS.contains(word));
        for word in words.filter(|word| word.starts_with("lockgate_") && !word.ends_with('_')) {
            named += 1;
            assert!(registered_name(&registered, word).is_some(), "{}: {word} is no metric", path.display());
        }
    }
    assert!(named > 50, "{named} names");
}
