//! The permitted dependencies between the modules of a crate. The compiler checks the dependencies between crates.

use std::fs;

use super::paths::{self, code, paths_of_crate};
use super::{assert_none, root, sources};

/// The modules of a crate, and for each the modules of the same crate that it may use, as well as itself.
/// `source::cluster` allows only that submodule. A module may use only those above it.
type Arrows = &'static [(&'static str, &'static [&'static str])];

/// The modules by crate.
const ARROWS: &[(&str, Arrows)] = &[("src", PROGRAM), ("crates/route/src", ROUTE), ("crates/xds/src", XDS)];

/// The modules of `lockgate-xds`.
const XDS: Arrows = &[
    ("identity", &[]),
    ("listening", &[]),
    ("protobuf", &[]),
    ("provenance", &[]),
    ("tls", &[]),
    ("snapshot", &["protobuf", "provenance"]),
    ("protocol", &["snapshot"]),
    ("server", &["identity", "listening", "protobuf", "protocol", "snapshot", "tls"]),
];

/// The modules of `lockgate-route`.
const ROUTE: Arrows = &[
    ("duration", &[]),
    ("few", &[]),
    ("model", &[]),
    ("parallel", &[]),
    ("re2", &[]),
    ("size", &[]),
    ("objects", &["model", "size"]),
    ("settings", &["model"]),
    ("explain", &["model", "settings"]),
    ("envoy", &["few", "model", "parallel", "settings"]),
    (
        "translate",
        &[
            "duration",
            "envoy::route::Sizes",
            "envoy::stream",
            "explain",
            "few",
            "model",
            "objects",
            "parallel",
            "re2",
            "settings",
            "size",
        ],
    ),
    ("testing", &["envoy", "model", "objects", "settings", "translate"]),
];

/// The modules of the program.
const PROGRAM: Arrows = &[
    ("channel", &[]),
    ("metrics", &[]),
    ("telemetry", &[]),
    ("fleet", &[]),
    ("yaml", &[]),
    ("settings", &["fleet", "telemetry", "yaml"]),
    ("source", &["metrics", "yaml"]),
    ("leader", &["metrics", "source"]),
    ("pki", &["channel", "fleet", "leader", "metrics", "source::cluster"]),
    ("export", &[]),
    ("inspection", &["fleet"]),
    ("replicas", &["fleet", "inspection", "source"]),
    ("status", &["channel", "fleet", "inspection", "leader", "metrics", "replicas", "settings", "source"]),
    ("drain", &[]),
    ("explain", &["inspection", "replicas", "telemetry"]),
    ("admin", &["explain", "inspection", "metrics", "telemetry"]),
    ("controller", &["admin", "fleet", "inspection", "metrics", "source"]),
    ("check", &["source", "telemetry", "yaml"]),
    ("migrate", &["check", "settings", "source", "telemetry", "yaml"]),
    (
        "cmd",
        &[
            "admin",
            "channel",
            "check",
            "controller",
            "drain",
            "explain",
            "export",
            "fleet",
            "inspection",
            "leader",
            "metrics",
            "migrate",
            "pki",
            "replicas",
            "settings",
            "source",
            "status",
            "telemetry",
            "yaml",
        ],
    ),
    ("main", &["cmd"]),
];

/// Foreign crates that only some modules of the program may use.
const FOREIGN: &[(&str, &[&str])] = &[
    ("anyhow", &["cmd"]),
    ("aws_lc_rs", &["source"]),
    ("axum", &["admin", "drain", "replicas"]),
    ("clap", &["cmd"]),
    ("clap_complete", &["cmd"]),
    ("der", &["source"]),
    ("envoy_types", &["cmd", "export", "source"]),
    ("granit_parser", &["yaml"]),
    ("k8s_openapi", &["cmd", "leader", "pki", "source", "status"]),
    ("kube", &["cmd", "leader", "pki", "source", "status"]),
    ("kube_cel", &["check"]),
    ("prometheus_client", &["metrics"]),
    ("rcgen", &["pki"]),
    ("rustix", &["cmd"]),
    ("tikv_jemallocator", &["main"]),
    ("tracing_subscriber", &["telemetry"]),
];

fn allows(allowed: &[&str], path: &str) -> bool {
    allowed.iter().any(|allowed| path == *allowed || path.starts_with(&format!("{allowed}::")))
}

#[test]
fn modules_use_only_what_the_table_allows() {
    let mut faults = vec![];
    for source in sources().iter().filter(|source| !source.is_test() && source.module() != "lib") {
        let arrows = ARROWS.iter().find(|(directory, _)| source.path.starts_with(directory));
        let modules = arrows.map_or(&[][..], |(_, modules)| *modules);
        let Some((module, allowed)) = modules.iter().find(|(module, _)| *module == source.module()) else {
            faults.push(format!("{}: its module is not in the table", source.path.display()));
            continue;
        };
        for path in paths_of_crate(source.without_tests()) {
            if !allows(allowed, &path) && !allows(&[module], &path) {
                faults.push(format!("{}: `{module}` may not use `{path}`", source.path.display()));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn no_module_uses_one_below_it() {
    for (directory, modules) in ARROWS {
        for (i, (module, allowed)) in modules.iter().enumerate() {
            for used in allowed.iter().map(|path| path.split("::").next().unwrap()) {
                let above = modules[..i].iter().any(|(above, _)| *above == used);
                assert!(above, "{directory}: `{module}` uses `{used}`, which is not above it");
            }
        }
    }
}

#[test]
fn foreign_crates_are_used_only_where_they_belong() {
    let mut faults = vec![];
    for source in sources().iter().filter(|source| !source.is_test() && source.path.starts_with("src")) {
        let code = code(source.without_tests());
        for (name, allowed) in FOREIGN {
            if !allowed.contains(&source.module()) && paths::names_crate(&code, name) {
                faults.push(format!("{}: `{name}` is for {} only", source.path.display(), allowed.join(", ")));
            }
        }
    }
    assert_none(faults);
}

#[test]
fn the_architecture_names_every_module() {
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (module, _) in ARROWS.iter().flat_map(|(_, modules)| *modules) {
        assert!(architecture.contains(&format!("`{module}`")), "`{module}` is not in ARCHITECTURE.md");
    }
}
