//! Every benchmark once, small and on our server alone: it measures something, nothing is lost, nobody is told anything
//! for nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use bench::cases::{self, CASES, Options, Scale};
use bench::peer::{Programs, Server};
use bench::report::{Report, Row, Value};

/// Metrics that must be 0 of us.
const NOTHING: &[&str] = &["values lost", "messages per 1000 updates", "messages after the NACKs, per second"];

#[test]
fn every_benchmark_runs() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let local = tokio::task::LocalSet::new();
    let all: Vec<(&str, Vec<Row>)> = runtime.block_on(local.run_until(async {
        let running: Vec<_> = CASES.iter().map(|(id, ..)| (*id, tokio::task::spawn_local(run(id)))).collect();
        let mut all = Vec::new();
        for (id, task) in running {
            all.push((id, task.await.unwrap()));
        }
        all
    }));
    let mut report = Report::default();
    for (id, rows) in all {
        assert!(!rows.is_empty(), "{id} measures nothing");
        for row in &rows {
            match row.value {
                Value::Note(ref note) => panic!("{id}, {}: {note}", row.setting),
                Value::Number(value, _) if NOTHING.contains(&row.metric) => assert!(value == 0.0, "{id}: {row:?}"),
                Value::Number(value, _) => assert!(value.is_finite(), "{id}: {row:?}"),
            }
        }
        report.add(id, Server::Lockgate, rows);
        assert!(report.table(id).contains("Lockgate"), "{id}");
    }
}

async fn run(id: &'static str) -> Vec<Row> {
    let programs = Programs {
        lockgate: env!("CARGO_BIN_EXE_lockgate-xds-bench-server").into(),
        go_control_plane: "not run here".into(),
    };
    let options = Options { scale: Scale::Smoke, setting: String::new(), programs };
    cases::run(id, Server::Lockgate, &options).await
}
