//! The spans of Envoy in an OpenTelemetry Collector.

use e2e::Lab;
use e2e::lab::{Installation, echo, echo::Echoed};

use super::{Page, lockgate};

const HOST: &str = "traced.example.com";
/// The trace of the client and its span.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

/// A span in the log of the collector.
#[derive(Debug)]
struct Span<'a>(&'a str);

impl<'a> Span<'a> {
    /// Returns a field, such as `Parent ID`.
    fn field(&self, name: &str) -> &'a str {
        let line = self.0.lines().find_map(|line| line.trim_start().strip_prefix(name)?.trim_start().strip_prefix(':'));
        line.unwrap_or_default().trim()
    }
}

/// Returns the spans of the client's trace.
fn spans(log: &str) -> Vec<Span<'_>> {
    let all = log.split("\nSpan #").skip(1).map(Span);
    all.filter(|span| span.field("Trace ID") == TRACE).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn spans_continue_the_trace_of_a_client() {
    let lab = Lab::alone().await;
    lockgate(&lab).await;
    let page = Page::read("docs/tasks/tracing.md");
    let space = lab.namespace("tracing").await;
    let here = |text: &str| text.replace("monitoring", &space.name);
    space.apply(&format!("{}{}", echo("web").port(80).yaml(), here(&page.block("kind: Deployment\n")))).await;
    space
        .apply(&format!(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: web }}\nspec:\n  ingressClassName: lockgate\n  \
             rules:\n  - host: {HOST}\n    http:\n      paths:\n      - {{ path: /, pathType: Prefix, backend: {{ service: \
             {{ name: web, port: {{ number: 80 }} }} }} }}\n"
        ))
        .await;
    space.rolled_out("deployment/otel-collector").await;
    space.rolled_out("deployment/web").await;
    let directory = tempfile::tempdir().expect("a directory");
    let values = directory.path().join("values.yaml");
    std::fs::write(&values, here(&page.block("settings:\n"))).expect("a file");
    let flags =
        ["--reset-values", "--set=gatewayAPI.gatewayClass.create=true", "--values", &values.display().to_string()];
    let lockgate = Installation::new(&lab, "lockgate", "lockgate", &flags).await;

    let target = lockgate.http(HOST).field("traceparent", &format!("00-{TRACE}-{PARENT}-01"));
    // Without tracing, Envoy forwards the header unchanged.
    let traced = async || {
        let answer = target.get("/cart").await.ok()?;
        let header = Echoed::of(&answer)?.headers["Traceparent"][0].as_str()?.to_owned();
        let span = header.strip_prefix(&format!("00-{TRACE}-"))?.strip_suffix("-01")?.to_owned();
        (span != PARENT).then_some(span)
    };
    let (sent, time) = lab.until("a traceparent of Envoy", traced).await;
    println!("Envoy continues traces {:.1} s after the change of the settings", time.as_secs_f64());
    let pod = space.pods("app=otel-collector").await.pop().expect("a pod");
    let mut log = String::new();
    let arrived = async || {
        log = lab.logs(&space.name, &pod.name, "collector").await;
        let all = spans(&log);
        let to_backend = all.iter().find(|span| span.field("ID") == sent)?;
        all.iter().any(|span| span.field("ID") == to_backend.field("Parent ID")).then_some(())
    };
    lab.until("both spans of the request", arrived).await;

    let all = spans(&log);
    let with = |id: &str| all.iter().find(|span| span.field("ID") == id).expect("a span");
    let to_backend = with(&sent);
    let of_client = with(to_backend.field("Parent ID"));
    for span in [of_client, to_backend] {
        println!("Span #{}", span.0.split("\nResourceSpans").next().unwrap_or_default());
    }
    assert_eq!(of_client.field("Parent ID"), PARENT);
    assert_eq!((of_client.field("Kind"), to_backend.field("Kind")), ("Server", "Client"));
    assert!(log.contains("-> service.name: Str(edge)"), "{log}");
    assert!(of_client.0.contains(&format!("-> http.url: Str(http://{HOST}/cart)")), "{}", of_client.0);
    let service = format!("{}/web", space.name);
    let cluster = of_client.0.lines().find(|line| line.contains("-> upstream_cluster: ")).unwrap_or_default();
    assert!(cluster.contains(&service), "{cluster}: {}", of_client.0);
    for tag in ["http.method: Str(GET)", "http.status_code: Str(200)", "user_agent: ", "pod.name: Str(lockgate-envoy-"]
    {
        assert!(of_client.0.contains(&format!("-> {tag}")), "{tag}: {}", of_client.0);
    }
    assert!(of_client.0.contains("-> pod.namespace: Str(lockgate)"), "{}", of_client.0);
}
