//! Golden cases, a directory of `cases` or `proxy_cases` each: `in.yaml` is the input, `out.yaml` are the written objects, and
//! `report.txt` is the report. `settings.yaml` is a settings file, and empty files `experimental` and `whole-elements` stand for the
//! options.
//!
//! `BLESS=1 cargo test migrate::tests` rewrites `out.yaml` and `report.txt`. `equivalence` compares the routing of Ingresses before and
//! after, `proxies` that of HTTPProxies, and `access` the access to the routes of all golden HTTPProxies.

#![allow(clippy::unwrap_used, clippy::panic)]

mod access;
mod equivalence;
mod proxies;

use std::fs;
use std::path::{Path, PathBuf};

use lockgate_route::objects::ObjectKey;
use lockgate_route::settings::Settings;
use serde_json::Value;

use super::{Migrated, Migration, MigrationOptions, migrate};
use crate::check::output::{Colors, text};
use crate::check::{Level, Manifests, Rule, Scope};
use crate::settings::resolve;

/// 2026-11-01.
const NOW: i64 = 1_793_491_200;

fn options() -> MigrationOptions {
    MigrationOptions {
        migrated: Migrated::Ingresses,
        gateway: ObjectKey::new("infra", "ingress"),
        class: "lockgate".to_owned(),
        http_port: 80,
        https_port: 443,
        experimental: false,
        whole_elements: false,
    }
}

/// Returns the options for HTTPProxies.
fn options_of_proxies() -> MigrationOptions {
    MigrationOptions { migrated: Migrated::HttpProxies, ..options() }
}

fn migrated(input: &str, settings: &Settings, options: &MigrationOptions) -> Migration {
    let mut manifests = Manifests::default();
    manifests.add("in.yaml", input.to_owned());
    migrate(&manifests, settings, &Scope::Part, options, NOW)
}

fn documents(objects: &[Value]) -> String {
    objects.iter().map(|object| serde_saphyr::to_string(object).unwrap()).collect::<Vec<_>>().join("---\n")
}

fn cases() -> Vec<(PathBuf, MigrationOptions)> {
    let mut cases = Vec::new();
    for (directory, options) in [("cases", options()), ("proxy_cases", options_of_proxies())] {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/migrate").join(directory);
        let mut paths: Vec<PathBuf> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        assert!(paths.len() >= 12, "only {} cases", paths.len());
        cases.extend(paths.into_iter().map(|path| {
            let is_set = |name: &str| path.join(name).exists();
            let (experimental, whole_elements) = (is_set("experimental"), is_set("whole-elements"));
            (path, MigrationOptions { experimental, whole_elements, ..options.clone() })
        }));
    }
    cases
}

#[test]
fn golden() {
    let mut faults = Vec::new();
    for (case, options) in cases() {
        let read = |name: &str| fs::read_to_string(case.join(name)).unwrap_or_default();
        let settings =
            resolve("settings.yaml", &read("settings.yaml"), &[]).unwrap_or_else(|faults| panic!("{faults}"));
        let settings = settings.settings.route;
        let input = read("in.yaml");
        let Migration { objects, findings } = migrated(&input, &settings, &options);
        assert!(!objects.is_empty(), "{}", case.display());
        for (name, now) in [("out.yaml", documents(&objects)), ("report.txt", text(&findings, Colors::Off))] {
            match std::env::var_os("BLESS") {
                Some(_) => fs::write(case.join(name), now).unwrap(),
                None if now != read(name) => faults.push(format!("{}/{name}:\n{now}", case.display())),
                None => {}
            }
        }
        for finding in findings {
            assert!(finding.remedy.ends_with('.') && !finding.consequence.ends_with('.'), "{finding:?}");
        }
    }
    assert!(faults.is_empty(), "BLESS=1 rewrites these files:\n{}", faults.join("\n"));
}

/// Returns an Ingress with a TLS entry for each host.
fn with_hosts(count: usize) -> String {
    let hosts: Vec<String> = (0..count).map(|number| format!("h{number}.test")).collect();
    let rule = |host: &String| {
        format!(
            "    - host: {host}\n      http:\n        paths:\n          - {{path: /, pathType: Prefix, backend: \
             {{service: {{name: shop, port: {{number: 80}}}}}}}}\n"
        )
    };
    let rules: String = hosts.iter().map(rule).collect();
    let list = hosts.join(", ");
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{name: shop, namespace: shop}}\nspec:\n  \
         tls: [{{secretName: shop, hosts: [{list}]}}]\n  rules:\n{rules}"
    )
}

#[test]
fn listeners_beyond_the_limit_of_a_gateway_become_listener_sets() {
    let Migration { objects, findings } = migrated(&with_hosts(130), &Settings::default(), &options());
    let listeners: Vec<(String, usize)> = objects
        .iter()
        .filter(|object| object["spec"]["listeners"].is_array())
        .map(|object| {
            (
                object["metadata"]["name"].as_str().unwrap().to_owned(),
                object["spec"]["listeners"].as_array().unwrap().len(),
            )
        })
        .collect();
    // One of 131 is the listener for HTTP.
    assert_eq!(listeners, [("ingress".into(), 64), ("ingress-2".into(), 64), ("ingress-3".into(), 3)]);
    let routes = objects.iter().filter(|object| object["kind"] == "HTTPRoute");
    assert!(routes.clone().all(|route| route["spec"]["hostnames"].as_array().unwrap().len() <= 16));
    // For each of the two ports. Those for HTTP redirect.
    assert_eq!(routes.count(), 18);
    let problems: Vec<_> = findings.iter().filter(|finding| finding.level < Level::Note).collect();
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn hosts_beyond_all_listener_sets_are_reported() {
    let Migration { objects, findings } = migrated(&with_hosts(1_030), &Settings::default(), &options());
    let lost: Vec<_> = findings.iter().filter(|finding| finding.rule == Rule::NotMigrated).collect();
    assert_eq!(lost.len(), 7, "{lost:#?}");
    assert_eq!(objects.iter().filter(|object| object["kind"] == "ListenerSet").count(), 15);
}

#[test]
fn the_order_of_the_input_has_no_effect() {
    for (case, options) in cases() {
        let input = fs::read_to_string(case.join("in.yaml")).unwrap();
        let mut parts: Vec<&str> = input.split("\n---\n").collect();
        parts.reverse();
        let [one, other] = [input.clone(), parts.join("\n---\n")]
            .map(|input| documents(&migrated(&input, &Settings::default(), &options).objects));
        assert_eq!(one, other, "{}", case.display());
    }
}
