//! Facts about the machine and the programs, without which figures say nothing.

use std::fs;
use std::process::Command;

/// Where the versions of the other server are pinned.
const GO_MODULE: &str = include_str!("../go-control-plane/go.mod");

/// A list in Markdown.
pub fn facts() -> String {
    let pinned = |module: &str| {
        let version = GO_MODULE.lines().find_map(|line| line.trim().strip_prefix(module)?.strip_prefix(' '));
        version.unwrap_or("?").to_owned()
    };
    let memory = field("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse::<u64>().unwrap_or_default();
    let facts = [
        ("CPU", format!("{}, {} cores", field("/proc/cpuinfo", "model name"), cores())),
        ("memory", format!("{:.1} GiB", memory as f64 / f64::from(1 << 20))),
        ("kernel", fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default()),
        ("load before the start", load()),
        ("Rust", said("rustc", &["--version"])),
        ("Go", said("go", &["version"])),
        ("Lockgate", commit()),
        (
            "go-control-plane",
            format!(
                "{} (envoy {}, grpc {})",
                pinned("github.com/envoyproxy/go-control-plane"),
                pinned("github.com/envoyproxy/go-control-plane/envoy"),
                pinned("google.golang.org/grpc")
            ),
        ),
    ];
    facts.map(|(name, fact)| format!("- {name}: {}\n", fact.trim())).concat()
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
    let changed = said("git", &["status", "--porcelain", "--untracked-files=no", "--", ":!BENCHMARKS.md"]);
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
