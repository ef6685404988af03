//! Many Ingresses at once, as after a first installation.

use std::fmt::Write as _;
use std::time::Instant;

use super::{get, redirect};
use e2e::manifests::ingress_class;
use e2e::{ApiServer, Envoy, Lockgate, Mode, Source, wait_until};

/// The number of Ingresses, and of Ingresses in one call of kubectl.
const INGRESSES: usize = 1000;
const AT_A_TIME: usize = 500;

/// Returns the sum of a metric of the API server over all series with these labels.
async fn metric(server: &ApiServer, name: &str, labels: &[&str]) -> f64 {
    let text = server.kubectl(&["get", "--raw", "/metrics"], "").await;
    let lines = text.lines().filter_map(|line| line.strip_prefix(name)?.rsplit_once(' '));
    let lines = lines.filter(|(rest, _)| rest.is_empty() || rest.starts_with('{'));
    let lines = lines.filter(|(rest, _)| labels.iter().all(|label| rest.contains(label)));
    lines.filter_map(|(_, value)| value.parse::<f64>().ok()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn many_ingresses_at_once_are_all_written_once_each_and_none_is_refused() {
    let server = ApiServer::start().await;
    // The user is subject to API priority and fairness, in contrast to admin.
    let binding = ["create", "clusterrolebinding", "controller", "--clusterrole=cluster-admin", "--user=controller"];
    server.kubectl(&binding, "").await;
    server.apply(&ingress_class()).await;
    let all: Vec<usize> = (0..INGRESSES).collect();
    for some in all.chunks(AT_A_TIME) {
        let mut yaml = String::new();
        for at in some {
            write!(yaml, "---\n{}", redirect(&format!("i{at}"), &format!("h{at}.test"))).expect("memory");
        }
        server.kubectl(&["create", "-f", "-"], &yaml).await;
    }
    let flags = ["--leader-election", "on", "--status-address", "192.0.2.10"];
    let lockgate = Lockgate::start(&Source::Kubeconfig(server.kubeconfig("controller")), &flags).await;
    let pending = async || lockgate.metric("lockgate_status_pending", &["kind=\"Ingress\""]).await;
    wait_until("all to wait for an Envoy", async || pending().await == INGRESSES as f64).await;
    let cpu = async || metric(&server, "process_cpu_seconds_total", &[]).await;
    let before = cpu().await;
    let mut envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let start = Instant::now();
    // The test polls a metric of the controller, because the API server is busy.
    let mut left = INGRESSES as f64;
    while left > 0.0 {
        wait_until("the next addresses", async || pending().await < left).await;
        left = pending().await;
        envoy.process().assert_running();
    }
    let (took, cpu) = (start.elapsed().as_secs_f64(), cpu().await - before);
    let list = get(&server, &["ingresses"]).await;
    let written = list["items"].as_array().into_iter().flatten();
    let written = written.filter(|item| item["status"]["loadBalancer"]["ingress"][0]["ip"] == "192.0.2.10").count();
    assert_eq!(written, INGRESSES);
    let mut writes = lockgate.metrics().await;
    writes.retain(|name, _| name.starts_with("lockgate_status_writes_total{kind=\"Ingress\""));
    assert_eq!(writes.values().sum::<f64>(), INGRESSES as f64, "each once: {writes:?}");
    let refused = metric(&server, "apiserver_flowcontrol_rejected_requests_total", &[]).await;
    assert_eq!(refused, 0.0);
    let labels = ["verb=\"PATCH\"", "resource=\"ingresses\"", "subresource=\"status\""];
    let of = async |part: &str| metric(&server, &format!("apiserver_request_duration_seconds_{part}"), &labels).await;
    let mean = of("sum").await / of("count").await * 1e3;
    println!(
        "{INGRESSES} addresses in {took:.1} s, {:.0} a second; a write takes {mean:.1} ms, and the API server {:.1} ms of CPU",
        INGRESSES as f64 / took,
        cpu / INGRESSES as f64 * 1e3
    );
}
