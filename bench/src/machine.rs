//! Facts about the machine and the programs, without which figures say nothing.

use std::fs;
use std::process::Command;

use anyhow::Context;

/// Where the versions of the other server are pinned.
const GO_MODULE: &str = include_str!("../go-control-plane/go.mod");

/// Where the version of Contour is pinned.
const CONTOUR_MODULE: &str = include_str!("../contour/go.mod");

/// Where the version of Envoy Gateway is pinned.
const ENVOY_GATEWAY_MODULE: &str = include_str!("../envoy-gateway/go.mod");

/// A list in Markdown: the machine, and the programs of `make bench-xds`.
pub fn facts() -> String {
    let module = "github.com/envoyproxy/go-control-plane";
    let versions = format!(
        "{} (envoy {}, grpc {})",
        pinned(GO_MODULE, module),
        pinned(GO_MODULE, &format!("{module}/envoy")),
        pinned(GO_MODULE, "google.golang.org/grpc")
    );
    list(&common()) + &list(&[("go-control-plane", versions)])
}

/// The same for `make bench`, with the arguments that it was called with.
pub fn system_facts(arguments: &str) -> String {
    let kubernetes = include_str!("../../e2e/lab/tools/kubernetes/go.mod");
    let programs = [
        ("Contour", pinned(CONTOUR_MODULE, "github.com/projectcontour/contour")),
        ("Envoy Gateway", pinned(ENVOY_GATEWAY_MODULE, "github.com/envoyproxy/gateway")),
        ("Gateway API", pinned(ENVOY_GATEWAY_MODULE, "sigs.k8s.io/gateway-api")),
        ("Kubernetes", pinned(kubernetes, "k8s.io/kubernetes")),
        ("etcd", pinned(kubernetes, "go.etcd.io/etcd/server/v3")),
        ("command", format!("`make bench` ({arguments})")),
    ];
    list(&common()) + &list(&programs)
}

fn common() -> [(&'static str, String); 7] {
    let memory = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse::<u64>().unwrap_or_default();
    [
        ("CPU", format!("{}, {} cores", field("/proc/cpuinfo", "model name"), cores())),
        ("memory", format!("{:.1} GiB", memory as f64 / f64::from(1 << 20))),
        ("kernel", fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()),
        ("load before the start", load()),
        ("Rust", said("rustc", &["--version"])),
        ("Go", said("go", &["version"])),
        ("Lockgate", commit()),
    ]
}

fn list(facts: &[(&str, String)]) -> String {
    facts.iter().map(|(name, fact)| format!("- {name}: {}\n", fact.trim())).collect()
}

/// The version of a module in a `go.mod`.
fn pinned(go_mod: &str, module: &str) -> String {
    let version = go_mod.lines().find_map(|line| {
        let line = line.trim();
        line.strip_prefix("require ").unwrap_or(line).strip_prefix(module)?.strip_prefix(' ')
    });
    version.unwrap_or("?").trim_end_matches("// indirect").trim().to_owned()
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, Into::into)
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or_default().to_owned()
}

fn commit() -> String {
    let commit = said("git", &["rev-parse", "--short=12", "HEAD"]);
    // What the run itself writes is no difference.
    let changed = said("git", &["status", "--porcelain", "--untracked-files=no", "--", ":!BENCHMARKS.md", ":!docs"]);
    format!("{commit}{}", if changed.is_empty() { "" } else { ", with changes" })
}

/// The value after `key` and a colon.
fn field(file: &str, key: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.split_once(':'));
    line.map(|(_, value)| value.trim().to_owned()).unwrap_or_default()
}

fn said(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}

/// Runs a benchmark on this thread, with all the open files that the system grants: a thousand connections need more
/// than a shell has by default. The programs that it starts inherit the limit.
///
/// # Errors
/// Those of `benchmark`; the limit cannot be raised.
pub fn run(benchmark: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("cannot raise the limit of open files")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    tokio::task::LocalSet::new().block_on(&runtime, benchmark)
}
