//! Every case of `make bench` once, small and on our controller alone: a real API server, real Envoys, and no figure that
//! is none. The case with a lab needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use bench::report::Value;
use bench::system::cases::{self, Budget, Case, LOCKGATE, OTHERS, Options};
use bench::system::controller::Programs;
use bench::system::page::Page;
use e2e::process::{output, repository};

/// The directory of the resource types of Gateway API, in the official module.
async fn gateway_types() -> PathBuf {
    let mut go = Command::new("go");
    go.current_dir(repository().join("conformance"));
    go.args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api"]);
    let module = output(go, "").await.expect("the module of Gateway API");
    PathBuf::from(module.trim()).join("config/crd/experimental")
}

/// Runs cases with 5 and 20 objects, and returns the page.
fn run(cases: &[Case]) -> Page {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let options = Options {
        sizes: vec![5, 20],
        main: 20,
        cases: cases.to_vec(),
        parties: vec![LOCKGATE, OTHERS[0].clone()],
        clients: vec![3],
        envoys: vec![2],
        churn_seconds: 1,
        budget: Budget { time: Duration::from_millis(10), fewest: 2 },
        rounds: 1,
        gateways: 3,
        routes: vec![5, 20],
        probe: None,
        programs: Programs::default(),
        contour_types: Some(e2e::apiserver::lab("contour-crds").join("contour.yaml")),
        gateway_types: vec![runtime.block_on(gateway_types())],
        own_types: Some(repository().join("crds")),
    };
    let mut page = Page { main: options.main, ..Page::default() };
    let mut written = 0;
    runtime.block_on(local.run_until(cases::run(&options, &mut page, |_| written += 1))).unwrap();
    assert!(written > 1, "a run that is broken off would be for nothing");
    assert_eq!(page.failures(), "");
    for &case in cases {
        assert!(page.table(case).contains("Lockgate"), "{} measures nothing", case.title());
    }
    for row in &page.rows {
        match (row.metric, &row.value) {
            ("lost" | "errors", value) => assert!(matches!(value, Value::Number(0.0, _)), "{row:?}"),
            (_, Value::Number(value, _)) => assert!(value.is_finite(), "{row:?}"),
            (_, Value::Note(note)) => panic!("{note}"),
        }
    }
    page
}

/// The cases with other kinds than Ingresses, Services, and EndpointSlices.
const OTHER_KINDS: [Case; 4] = [Case::Policies, Case::Proxies, Case::Routes, Case::Gateways];

#[test]
fn every_case_of_ingresses_runs() {
    // The benchmark of a shared host is a program of its own.
    let elsewhere = [Case::Shared, Case::Propagation];
    let of_ingresses = |case: &Case| !elsewhere.contains(case) && !OTHER_KINDS.contains(case);
    let cases: Vec<Case> = Case::ALL.into_iter().filter(of_ingresses).collect();
    let page = run(&cases);
    assert_eq!(page.plots().len(), 6);
    let text = page.text(&[]);
    assert!(text.contains("| new Ingress to bytes at the client, p50"), "{text}");
}

#[test]
fn every_case_of_other_kinds_runs() {
    let text = run(&OTHER_KINDS).text(&[]);
    for part in ["HTTPRoutes, five features, new HTTPRoute", "## HTTPProxies", "## Many Gateways"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn the_public_benchmark_runs_in_a_lab() {
    let page = run(&[Case::Propagation]);
    for setting in ["probe, 5 HTTPRoutes", "probe, 20 HTTPRoutes", "probe, 20 Ingresses"] {
        for metric in ["mean", "last 100", "CPU of the Envoys"] {
            let number = page.number(Case::Propagation, setting, LOCKGATE.name, metric);
            assert!(number.is_some_and(|number| number > 0.0), "{setting}, {metric}: {number:?}");
        }
    }
    let acks = page.number(Case::Propagation, "probe, 20 HTTPRoutes", LOCKGATE.name, "to the ACK of a scope");
    assert!(acks.is_some_and(|acks| acks > 0.0), "{acks:?}");
}
