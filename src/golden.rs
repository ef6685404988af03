//! Golden cases, one directory each: `in.yaml` contains the objects for `kubectl apply`, and `out.yaml` the resources
//! for Envoy.
//!
//! `settings.yaml` is a settings file with values other than the defaults. Its line `# show: clusters, endpoints` shows
//! additional resources: `clusters`, `endpoints`, `listeners`, `runtime`, `secrets`. Without it, the output contains
//! route configurations, problems, and conditions, the variable parts of TLS chains, and the names of clusters and
//! secrets.
//!
//! Each case runs again with its objects shuffled, and must produce the same bytes.
//!
//! `BLESS=1 cargo test golden` rewrites every `out.yaml`, and deletes those without a case.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use envoy_types::pb::envoy::config::cluster::v3 as cluster_v3;
use envoy_types::pb::envoy::config::listener::v3 as listener_v3;
use envoy_types::pb::envoy::config::route::v3 as route_v3;
use lockgate_route::envoy;
use lockgate_route::objects::gateway::SUPPORTED;
use lockgate_route::objects::{Kind, Object, ObjectKey, Objects};
use lockgate_route::settings::Settings;
use lockgate_route::testing::envoy::{config_sources, standalone, validate};
use lockgate_route::testing::gateway::definition;
use lockgate_route::translate::gateway::{GatewayReport, ListenerReport};
use lockgate_route::translate::verdict::Severity;
use lockgate_route::translate::{ChangedInputs, Translator, Verdict};
use lockgate_xds::protobuf;
use lockgate_xds::snapshot::{ApiVersion, Resource, ResourceType};
use prost::Message;
use prost_reflect::DynamicMessage;
use serde::Serialize;
use serde_json::{Value, json};

use crate::settings::resolve;
use crate::source::decode;
use crate::source::kinds::{ROWS, from_value};
use crate::yaml;

/// The number of repetitions of each case with shuffled objects.
const SHUFFLES: u64 = 6;

/// The content of `out.yaml`.
#[derive(Debug, Default, Serialize)]
struct Out {
    /// The problems, in the form of the log.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<String>,
    /// The conditions of objects, as far as the translation determines them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conditions: Vec<String>,
    /// The Gateways, with the content of their statuses and Services.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gateways: Vec<String>,
    /// BackendTLSPolicies with the Gateways that use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    policies: Vec<String>,
    /// Route configurations.
    routes: Vec<Value>,
    /// Scopes, each with its route configuration.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<Value>,
    /// The variable parts of TLS chains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    chains: Vec<Value>,
    /// Names, or messages if the case shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    clusters: Vec<Value>,
    /// Messages, if the case shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    endpoints: Vec<Value>,
    /// Names, or messages without private keys if the case shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<Value>,
    /// Messages, if the case shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listeners: Vec<Value>,
    /// Discovered filters of listeners, if the case shows listeners.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    extensions: Vec<Value>,
    /// Layers of runtime flags, if the case shows them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    runtime: Vec<Value>,
}

/// The reports about the objects: problems, conditions, Gateways, and policies.
#[derive(Debug, Default, PartialEq)]
struct Reports {
    problems: Vec<String>,
    conditions: Vec<String>,
    gateways: Vec<String>,
    policies: Vec<String>,
}

/// Returns a condition as a line: `HTTPRoute shop/cart parent 0: Accepted=False NoMatchingParent: the Gateway has …`.
fn line(verdict: &Verdict) -> String {
    let parent = verdict.parent.map(|parent| format!(" parent {parent}"));
    let listener = verdict.listener.as_ref().map(|listener| format!(" listener {listener}"));
    let place = parent.or(listener).unwrap_or_default();
    let message = if verdict.message.is_empty() { String::new() } else { format!(": {}", verdict.message) };
    let Verdict { object, condition, detail, status, reason, .. } = verdict;
    let entry = detail.map(|detail| match detail.severity {
        Severity::Error => format!(".errors.{}", detail.r#type),
        Severity::Warning => format!(".warnings.{}", detail.r#type),
    });
    let entry = entry.unwrap_or_default();
    format!("{object}{place}: {condition}{entry}={} {reason}{message}", status.as_str())
}

/// Translates `objects`, applied in this order. Returns the reports and the resources.
fn run(objects: &[Object], settings: &Settings) -> (Reports, Vec<Resource>) {
    let mut state = Objects::default();
    for object in objects {
        state.apply(object.clone());
    }
    // Most cases need no CustomResourceDefinitions, and do not show their version.
    let shows_version = objects.iter().any(|object| object.kind() == Kind::CUSTOM_RESOURCE_DEFINITION);
    if !shows_version {
        state.apply(definition("gateways", SUPPORTED, "standard"));
    }
    let condition = |verdict: &Verdict| match verdict.condition {
        "SupportedVersion" if !shows_version => line(&Verdict { message: String::new().into(), ..verdict.clone() }),
        _ => line(verdict),
    };
    let mut translator = Translator::default();
    translator.update(&state, settings, &ChangedInputs::everything());
    let listeners = |listeners: &[ListenerReport]| {
        let listeners = listeners.iter().map(|listener| {
            let kinds: Vec<&str> = listener.supported_kinds.iter().map(|kind| &*kind.kind).collect();
            let ListenerReport { name, attached_routes, serves, .. } = listener;
            format!("{name}: {} {attached_routes} routes, served: {serves}", kinds.join("+"))
        });
        listeners.collect::<Vec<_>>().join("; ")
    };
    let gateway = |(key, report): (&ObjectKey, &Arc<GatewayReport>)| {
        let ports: Vec<String> = report.ports.iter().map(|(transport, port)| format!("{transport:?} {port}")).collect();
        let sets = report.sets.iter().map(|(key, set)| {
            format!("; ListenerSet {key}, accepted: {}; {}", set.accepted, listeners(&set.listeners))
        });
        let sets: String = sets.collect();
        let fleet = report.fleet.as_ref().map(|fleet| match &fleet.refused {
            None => format!("; dedicated fleet: {}", json!(*fleet.spec)),
            Some(limit) => format!("; no fleet: {limit}"),
        });
        let fleet = fleet.unwrap_or_default();
        format!("{key}: ports {}; {}{sets}{fleet}", ports.join(", "), listeners(&report.listeners))
    };
    let policy = |(key, gateways): (&ObjectKey, &Arc<[ObjectKey]>)| {
        let gateways: Vec<String> = gateways.iter().map(ToString::to_string).collect();
        format!("{key}: {}", gateways.join(", "))
    };
    let reports = Reports {
        problems: translator.problems().iter().map(ToString::to_string).collect(),
        conditions: translator.verdicts().values().flat_map(|verdicts| verdicts.iter()).map(condition).collect(),
        gateways: translator.gateways().iter().map(gateway).collect(),
        policies: translator.policies().iter().map(policy).collect(),
    };
    (reports, envoy::build(translator.model(), settings))
}

/// Returns the complete content of the resources, which must be equal in two runs.
fn fingerprint(resources: &[Resource]) -> Vec<(ResourceType, String, u64, Vec<u8>)> {
    let one = |resource: &Resource| {
        (
            resource.kind(),
            resource.name().to_string(),
            resource.version().0,
            resource.delta_field(ApiVersion::V3).to_vec(),
        )
    };
    resources.iter().map(one).collect()
}

fn out(reports: Reports, resources: &[Resource], show: &[String]) -> Out {
    let Reports { problems, conditions, gateways, policies } = reports;
    let mut out = Out { problems, conditions, gateways, policies, ..Out::default() };
    let shown = |what: &str| show.iter().any(|shown| shown == what);
    for resource in resources {
        let message = || protobuf::to_json_redacted(resource.kind().full_name(), &resource.message());
        let or_name = |what: &str| if shown(what) { message() } else { json!(resource.name()) };
        match resource.kind() {
            ResourceType::ROUTES => out.routes.push(message()),
            ResourceType::SCOPED_ROUTES => out.scopes.push(message()),
            ResourceType::CLUSTER => out.clusters.push(or_name("clusters")),
            ResourceType::SECRET => out.secrets.push(or_name("secrets")),
            ResourceType::RUNTIME if shown("runtime") => out.runtime.push(message()),
            ResourceType::EXTENSION if shown("listeners") => out.extensions.push(message()),
            ResourceType::ENDPOINTS if shown("endpoints") => out.endpoints.push(message()),
            ResourceType::LISTENER => {
                let message = protobuf::to_json(resource.kind().full_name(), &resource.message());
                let listed = message.get("filter_chains").and_then(Value::as_array).into_iter().flatten();
                let chains = listed.chain(message.get("default_filter_chain"));
                out.chains.extend(chains.filter_map(|one| chain(one, &message)));
                if shown("listeners") {
                    out.listeners.push(message);
                }
            }
            _ => {}
        }
    }
    out
}

/// Returns the variable parts of a chain of `listener` for TLS connections. `None`: it is for other connections.
fn chain(chain: &Value, listener: &Value) -> Option<Value> {
    let forwards = forwards(chain).filter(|_| chain.get("name").is_some());
    let Some(tls) = chain.pointer("/transport_socket/typed_config/common_tls_context") else {
        return Some(json!({ "name": chain["name"], "server_names": server_names(chain, listener), "to": forwards? }));
    };
    let mut shown = json!({
        "name": chain["name"],
        "server_names": server_names(chain, listener),
        "secret": tls.pointer("/tls_certificate_sds_secret_configs/0/name"),
        "minimum": tls.pointer("/tls_params/tls_minimum_protocol_version"),
        "maximum": tls.pointer("/tls_params/tls_maximum_protocol_version"),
    });
    if let Some(to) = forwards {
        shown["to"] = to;
    }
    let validations = ["", "/combined_validation_context"];
    let authorities = validations.map(|at| tls.pointer(&format!("{at}/validation_context_sds_secret_config/name")));
    if let Some(required) = chain.pointer("/transport_socket/typed_config/require_client_certificate") {
        let authorities = authorities.into_iter().flatten().next();
        shown["clients"] = json!({ "authorities": authorities, "required": required });
    }
    Some(shown)
}

/// Returns the clusters to which a chain forwards connections.
fn forwards(chain: &Value) -> Option<Value> {
    let filters = chain["filters"].as_array()?;
    let proxy = filters.iter().find(|filter| filter["name"] == "envoy.filters.network.tcp_proxy")?;
    let weighted = proxy.pointer("/typed_config/weighted_clusters/clusters");
    weighted.or(proxy.pointer("/typed_config/cluster")).cloned()
}

/// Returns the server names that select a chain.
fn server_names(chain: &Value, listener: &Value) -> Value {
    let mut names = Vec::new();
    let mut matcher = listener.get("filter_chain_matcher");
    while let Some(level) = matcher {
        let exact = level.pointer("/matcher_tree/exact_match_map/map").and_then(Value::as_object).into_iter().flatten();
        names.extend(exact.filter(|(_, on)| leads_to(on, chain)).map(|(name, _)| json!(name)));
        let suffixes = level.pointer("/matcher_list/matchers").and_then(Value::as_array).into_iter().flatten();
        let suffixes = suffixes.filter(|one| leads_to(&one["on_match"], chain));
        names.extend(suffixes.map(|one| {
            let suffix = one.pointer("/predicate/single_predicate/value_match/suffix").unwrap();
            json!(format!("*{}", suffix.as_str().unwrap()))
        }));
        matcher = level.pointer("/on_no_match/matcher");
    }
    if names.is_empty() { json!("default") } else { json!(names) }
}

/// Returns whether an action of a matcher selects `chain`.
fn leads_to(on_match: &Value, chain: &Value) -> bool {
    on_match.pointer("/action/typed_config/value") == Some(&chain["name"])
}

/// Returns the objects of a file in order.
fn read_objects(path: &Path) -> Vec<Object> {
    let text = fs::read_to_string(path).unwrap();
    let values = yaml::documents(&text)
        .flat_map(|document| decode::flatten(document.value().unwrap_or_else(|fault| panic!("{fault}"))));
    values
        .filter_map(|(_, value)| from_value(value, &ROWS).unwrap_or_else(|fault| panic!("{}: {fault}", path.display())))
        .collect()
}

/// Returns the objects in another order for each seed.
fn shuffled(objects: &[Object], seed: u64) -> Vec<Object> {
    let mut list = objects.to_vec();
    let mut random = seed;
    for i in (1..list.len()).rev() {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        list.swap(i, (random >> 33) as usize % (i + 1));
    }
    list
}

/// Returns the expected `out.yaml` of the case in `directory`.
fn expected(directory: &Path) -> String {
    let (objects, settings, show) = read(directory);
    let (problems, resources) = run(&objects, &settings);
    for seed in 1..=SHUFFLES {
        let (other_problems, others) = run(&shuffled(&objects, seed), &settings);
        assert_eq!(problems, other_problems, "{}: order {seed} shows", directory.display());
        assert_eq!(fingerprint(&resources), fingerprint(&others), "{}: order {seed} shows", directory.display());
    }
    serde_saphyr::to_string(&out(problems, &resources, &show)).unwrap()
}

/// Returns the objects and settings of the case in `directory`, and the additional resources of its output.
fn read(directory: &Path) -> (Vec<Object>, Settings, Vec<String>) {
    let path = directory.join("settings.yaml");
    let text = fs::read_to_string(&path).unwrap_or_default();
    let resolved = resolve(&path.display().to_string(), &text, &[]).unwrap_or_else(|faults| panic!("{faults}"));
    let show = text.lines().find_map(|line| line.strip_prefix("# show: ")).unwrap_or_default();
    let show = show.split(", ").map(str::to_owned).collect();
    (read_objects(&directory.join("in.yaml")), resolved.settings.route, show)
}

/// Returns the directories of the cases.
fn directories() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/golden");
    let mut directories: Vec<PathBuf> = fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path()).collect();
    directories.sort();
    directories
}

/// Returns the first lines that differ in two texts.
fn difference(golden: &str, actual: &str) -> String {
    let (golden, actual): (Vec<_>, Vec<_>) = (golden.lines().collect(), actual.lines().collect());
    let same = golden.iter().zip(&actual).take_while(|(a, b)| a == b).count();
    let mut text = format!("from line {}\n", same + 1);
    for (mark, lines) in [('-', &golden), ('+', &actual)] {
        for line in lines.iter().skip(same).take(12) {
            let _ = writeln!(text, "  {mark} {line}");
        }
    }
    text
}

#[test]
fn every_case_gives_its_output() {
    let bless = std::env::var_os("BLESS").is_some();
    let directories = directories();
    let mut failures = String::new();
    for directory in &directories {
        let (name, path) = (directory.file_name().unwrap().to_string_lossy(), directory.join("out.yaml"));
        if !directory.join("in.yaml").exists() {
            match bless {
                true => fs::remove_dir_all(directory).unwrap(),
                false => writeln!(failures, "{name}: has no in.yaml").unwrap(),
            }
            continue;
        }
        let actual = expected(directory);
        assert!(!actual.contains("PRIVATE KEY"), "{name}: shows a private key");
        let golden = fs::read_to_string(&path).unwrap_or_default();
        match bless {
            _ if golden == actual => {}
            true => fs::write(&path, actual).unwrap(),
            false => writeln!(failures, "{name}: {}", difference(&golden, &actual)).unwrap(),
        }
    }
    assert!(failures.is_empty(), "{failures}`BLESS=1 cargo test golden` rewrites them");
    assert!(directories.len() >= 60, "only {} cases", directories.len());
}

#[test]
fn v4_every_source_of_resources_says_version_3() {
    let mut found = 0;
    for directory in directories() {
        let (objects, settings, _) = read(&directory);
        for resource in run(&objects, &settings).1 {
            let descriptor = protobuf::pool().get_message_by_name(resource.kind().full_name()).unwrap();
            let sources = config_sources(&DynamicMessage::decode(descriptor, resource.message()).unwrap());
            found += sources.len();
            assert!(sources.iter().all(|right| *right), "{}: {resource:?}", directory.display());
        }
    }
    assert!(found > 100, "only {found}");
}

/// Without a version, Envoy requests version 2, which it no longer supports.
#[test]
fn v4_every_config_source_says_version_3() {
    fn visit(value: &Value, path: &str, sources: &mut usize) {
        let fields = value.as_object();
        let is_source = |fields: &serde_json::Map<String, Value>| {
            ["ads", "self", "path_config_source"].iter().any(|kind| fields.get(*kind).is_some_and(Value::is_object))
        };
        if fields.is_some_and(is_source) {
            *sources += 1;
            assert_eq!(value["resource_api_version"], "V3", "{path}: {value}");
        }
        if let Some(service) = fields.and_then(|fields| fields.get("api_config_source")) {
            assert_eq!(
                (&value["resource_api_version"], &service["transport_api_version"]),
                (&json!("V3"), &json!("V3"))
            );
        }
        for (name, field) in fields.into_iter().flatten() {
            visit(field, &format!("{path}/{name}"), sources);
        }
        value.as_array().into_iter().flatten().for_each(|element| visit(element, path, sources));
    }
    let mut sources = 0;
    for directory in directories() {
        let (objects, settings, _) = read(&directory);
        for resource in run(&objects, &settings).1 {
            let message = protobuf::to_json_redacted(resource.kind().full_name(), &resource.message());
            visit(&message, &format!("{} {}", directory.display(), resource.name()), &mut sources);
        }
    }
    assert!(sources > 100, "only {sources} config sources were found");
}

/// Returns a unique name for a resource among all cases. A name that routes reference must be unique in its case.
fn unique(taken: &mut BTreeSet<String>, case: &Path, name: &str) -> String {
    let unique = format!("{}/{name}", case.file_name().unwrap().to_string_lossy());
    let free = [name.to_owned(), unique].into_iter().find(|name| !taken.contains(name)).unwrap();
    taken.insert(free.clone());
    free
}

/// Envoy rejects resources together with others, so no case may contain a rejected one.
#[test]
fn a_real_envoy_takes_every_case() {
    let mut resources = Vec::new();
    let (mut clusters, mut routes) = (BTreeSet::new(), BTreeSet::new());
    for directory in directories() {
        let (objects, settings, _) = read(&directory);
        for resource in run(&objects, &settings).1 {
            match resource.kind() {
                ResourceType::CLUSTER => {
                    let mut cluster = cluster_v3::Cluster::decode(resource.message()).unwrap();
                    cluster.name = unique(&mut clusters, &directory, &cluster.name);
                    if let Some(assignment) = &mut cluster.load_assignment {
                        assignment.cluster_name.clone_from(&cluster.name);
                    }
                    resources.push(Resource::new(&cluster.name, &cluster, vec![]));
                }
                ResourceType::ROUTES => {
                    let mut routing = route_v3::RouteConfiguration::decode(resource.message()).unwrap();
                    routing.name = unique(&mut routes, &directory, &routing.name);
                    resources.push(Resource::new(&routing.name, &routing, vec![]));
                }
                // Its name is a hash of its content.
                ResourceType::EXTENSION => resources.push(resource),
                ResourceType::LISTENER if &**resource.name() == "https" => {
                    let mut listener = listener_v3::Listener::decode(resource.message()).unwrap();
                    listener.name = directory.to_string_lossy().into_owned();
                    // Two listeners must not share an address. This one is never bound.
                    let port = 10_000 + u16::try_from(resources.len()).unwrap();
                    listener.address = Some(envoy::wire::socket_address("127.0.0.1", port));
                    resources.push(Resource::new(&listener.name, &listener, vec![]));
                }
                _ => {}
            }
        }
    }
    let settings = Settings::default();
    validate(&standalone(&resources, &settings)).unwrap();
}
