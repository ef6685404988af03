//! Prometheus with the configuration of the documentation, and the alerts and dashboards of the chart.

mod queries;
mod variables;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;

use e2e::lab::{Namespace, echo};
use e2e::process::{output, repository};
use e2e::{Authority, Lab, Target};
use hyper::Method;
use serde_json::Value;

use super::{Page, lockgate};
use queries::{Asked, Selector};
use variables::Variable;

/// The labels of texts and expressions in docs/alerts.md.
const DOCUMENTED: [&str; 2] = [
    r#"lockgate_certificate_expiry_timestamp_seconds{exported_namespace!="",name!=""}"#,
    r#"lockgate_namespace_problems{exported_namespace!="",reason!=""}"#,
];

/// Writes the alerts of the chart as a file of rules into a directory.
async fn rules(lab: &Lab, directory: &tempfile::TempDir) -> PathBuf {
    let args =
        ["template", "lockgate", "charts/lockgate", "--namespace", "lockgate", "--set=prometheusRule.enabled=true"];
    let rendered = lab.helm(&args).await;
    let rule = rendered.split("\n---\n").find(|object| object.contains("kind: PrometheusRule")).expect("the alerts");
    let (_, spec) = rule.split_once("\nspec:\n").expect("a spec");
    let file = directory.path().join("rules.yaml");
    std::fs::write(&file, spec).expect("a file");
    file
}

async fn promtool(args: &[&str]) -> String {
    let mut command = Command::new(e2e::lab::program("promtool"));
    command.args(args);
    output(command, "").await.unwrap_or_else(|error| panic!("promtool {}: {error}", args.join(" ")))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_alerts_of_the_chart_fire_when_they_should() {
    let lab = Lab::shared().await;
    let directory = tempfile::tempdir().expect("a directory");
    let rules = rules(&lab, &directory).await;
    println!("{}", promtool(&["check", "rules", "--lint=all", "--lint-fatal", &rules.display().to_string()]).await);
    let tests = std::fs::read_to_string(repository().join("e2e/tests/integrations/alerts.yaml")).expect("the tests");
    let alerts = std::fs::read_to_string(repository().join("charts/lockgate/alerts.yaml")).expect("the alerts");
    for name in alerts.lines().filter_map(|line| line.strip_prefix("- alert: ")) {
        assert!(tests.contains(&format!("alertname=\"{name}\"")), "no test of {name}");
    }
    let file = directory.path().join("tests.yaml");
    std::fs::write(&file, tests).expect("a file");
    println!("{}", promtool(&["test", "rules", &file.display().to_string()]).await);
}

/// A Prometheus in the lab.
pub(super) struct Prometheus {
    api: Target,
}

impl Prometheus {
    /// Starts Prometheus with the configuration of the documentation.
    pub(super) async fn start(space: &Namespace<'_>) -> Self {
        let job = Page::read("docs/operate.md").block("scrape_configs:");
        let relabelings = Page::read("docs/tasks/metrics-by-object.md").block("metric_relabel_configs:");
        let indented = |text: &str, by: &str| text.lines().map(|line| format!("{by}{line}\n")).collect::<String>();
        let config = format!("global: {{ scrape_interval: 1s }}\n{job}{}", indented(&relabelings, "    "));
        let name = &space.name;
        space
            .lab()
            .apply(&format!(
                "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {{ name: prometheus, namespace: lockgate }}\n\
                 rules: [{{ apiGroups: [''], resources: [pods], verbs: [get, list, watch] }}]\n---\n\
                 apiVersion: rbac.authorization.k8s.io/v1\nkind: RoleBinding\nmetadata: {{ name: prometheus, namespace: lockgate }}\n\
                 roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: Role, name: prometheus }}\n\
                 subjects: [{{ kind: ServiceAccount, name: prometheus, namespace: {name} }}]\n"
            ))
            .await;
        space
            .apply(&format!(
                "apiVersion: v1\nkind: ConfigMap\nmetadata: {{ name: prometheus }}\ndata:\n  prometheus.yml: |\n{}---\n\
                 apiVersion: v1\nkind: ServiceAccount\nmetadata: {{ name: prometheus }}\n---\n\
                 apiVersion: v1\nkind: Service\nmetadata: {{ name: prometheus }}\nspec: {{ selector: {{ app: prometheus }}, ports: [{{ port: 9090 }}] }}\n---\n\
                 apiVersion: apps/v1\nkind: Deployment\nmetadata: {{ name: prometheus }}\nspec:\n  \
                 selector: {{ matchLabels: {{ app: prometheus }} }}\n  template:\n    metadata: {{ labels: {{ app: prometheus }} }}\n    \
                 spec:\n      serviceAccountName: prometheus\n      containers:\n      - name: prometheus\n        image: \
                 prom/prometheus\n        args: [--config.file=/etc/prometheus/prometheus.yml, --storage.tsdb.path=/prometheus]\n        \
                 readinessProbe: {{ httpGet: {{ path: /-/ready, port: 9090 }} }}\n        volumeMounts: [{{ name: config, mountPath: \
                 /etc/prometheus }}, {{ name: data, mountPath: /prometheus }}]\n      volumes: [{{ name: config, configMap: {{ name: \
                 prometheus }} }}, {{ name: data, emptyDir: {{}} }}]\n",
                indented(&config, "    ")
            ))
            .await;
        space.rolled_out("deployment/prometheus").await;
        let pod = space.pods("app=prometheus").await.pop().expect("a pod");
        let api = Target::http(9090, "prometheus").at(pod.ip.expect("an address"));
        Self { api: api.field("content-type", "application/x-www-form-urlencoded") }
    }

    /// Sends a query to a path of the API. Returns the data of the answer.
    async fn post(&self, path: &str, query: &str) -> Value {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer =
            self.api.send(Method::POST, path, format!("query={encoded}")).await.expect("an answer of Prometheus");
        assert_eq!(answer.status, 200, "{query}: {}", answer.text());
        serde_json::from_slice::<Value>(&answer.body).expect("JSON")["data"].take()
    }

    /// Returns the number of series in the result of a query.
    async fn series(&self, query: &str) -> usize {
        self.post("/api/v1/query", query).await["result"].as_array().map_or(0, Vec::len)
    }

    /// Returns the options of a variable of a dashboard.
    async fn options(&self, variable: &Variable) -> BTreeSet<String> {
        let encoded: String = variable.selector.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let answer = self.api.get(&format!("/api/v1/label/{}/values?match[]={encoded}", variable.label)).await;
        let answer = answer.expect("an answer of Prometheus");
        assert_eq!(answer.status, 200, "{variable:?}: {}", answer.text());
        variable.options(&serde_json::from_slice::<Value>(&answer.body).expect("JSON")["data"])
    }

    /// Returns the selectors and labels of a query.
    async fn parse(&self, query: &str) -> Asked {
        Asked::of(&self.post("/api/v1/parse_query", query).await)
    }
}

/// Objects with requests, errors, and a problem that is an alert.
fn objects(namespace: &str) -> String {
    let ingress = |name: &str, annotations: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name}, annotations: {{ {annotations} }} }}\nspec:\n  \
             ingressClassName: lockgate\n  rules:\n  - host: {name}.metrics.test\n    http:\n      paths:\n      - {{ path: /, pathType: \
             Prefix, backend: {{ service: {{ name: {name}, port: {{ number: 80 }} }} }} }}\n---\n"
        )
    };
    // Nothing listens on the port of the endpoints, so requests are answered 503.
    let refusing = "apiVersion: v1\nkind: Service\nmetadata: { name: refusing }\nspec:\n  selector: { app: web }\n  \
                    ports: [{ port: 80, targetPort: 9 }]\n---\n";
    let pair = Authority::new().issue(&["secure.metrics.test"]).secret(namespace, "secure-tls");
    let secure = ingress("secure", "")
        .replace("  rules:", "  tls: [{ hosts: [secure.metrics.test], secretName: secure-tls }]\n  rules:");
    let problem = "nginx.ingress.kubernetes.io/whitelist-source-range: 192.0.2.0/24";
    let served = [ingress("web", ""), ingress("refusing", ""), ingress("restricted", problem), secure].concat();
    format!("{}{refusing}{served}{pair}", echo("web").port(80).yaml())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_metrics_of_all_queries_exist() {
    let lab = Lab::alone().await;
    let lockgate = lockgate(&lab).await;
    let space = lab.namespace("metrics").await;
    space.apply(&objects(&space.name)).await;
    space.endpoints("web", 1).await;
    let prometheus = Prometheus::start(&space).await;
    let pods = lockgate.controllers().await.len() + lockgate.envoys().await.len();
    let scraped = async || (prometheus.series("up == 1").await == pods).then_some(());
    lab.until(&format!("{pods} scraped pods"), scraped).await;
    assert_eq!(prometheus.series("up").await, pods, "a target for each pod");

    // Each answer is counted in the next scrape of an Envoy. Several answers reach all Envoys.
    let targets = [("web.metrics.test", 200), ("refusing.metrics.test", 503)];
    let send = async || {
        for (host, status) in targets {
            e2e::wait_everywhere(host, async || {
                lockgate.http(host).get("/").await.is_ok_and(|one| one.status == status)
            })
            .await;
        }
    };
    let queries = queries::of_chart(&space.name);
    let (mut selectors, mut labels) = (BTreeSet::<Selector>::new(), BTreeSet::new());
    for query in &queries.all {
        let asked = prometheus.parse(query).await;
        selectors.extend(asked.selectors);
        labels.extend(asked.labels);
    }
    let wanted: BTreeSet<String> = selectors
        .iter()
        .map(|one| one.text.clone())
        .chain(labels.iter().map(|(metric, label)| format!("{metric}{{{label}!=\"\"}}")))
        .chain(DOCUMENTED.map(str::to_owned))
        .chain(queries.panels.iter().cloned())
        .collect();
    let mut missing = wanted.clone();
    let found = async || {
        send().await;
        let mut left = BTreeSet::new();
        for query in &missing {
            if prometheus.series(query).await == 0 {
                left.insert(query.clone());
            }
        }
        if left != missing {
            println!("{} queries have no result: {left:#?}", left.len());
        }
        missing = left;
        missing.is_empty().then_some(())
    };
    lab.until("results of all queries", found).await;
    // Users see these names in the lists of the dashboards.
    let name = &*space.name;
    let installation = variables::of_dashboard("lockgate.json", &[("$namespace", "lockgate")]);
    let objects = variables::of_dashboard("lockgate-objects.json", &[("$namespace", ".*")]);
    let mut expected = BTreeMap::from([
        ("lockgate.json namespace", vec!["lockgate"]),
        ("lockgate.json tenant", vec![name]),
        ("lockgate-objects.json namespace", vec![name]),
        ("lockgate-objects.json object", vec!["refusing", "web"]),
    ]);
    for (file, variables) in [("lockgate.json", installation), ("lockgate-objects.json", objects)] {
        for variable in variables {
            let key = format!("{file} {}", variable.name);
            let expected = expected.remove(&*key).unwrap_or_else(|| panic!("a new variable: {key}"));
            let options = prometheus.options(&variable).await;
            println!("{key}: {options:?}");
            assert!(expected.iter().all(|one| options.contains(*one)), "{key}: {options:?}");
        }
    }
    assert!(expected.is_empty(), "{expected:?}");
    println!("{} queries: {} selectors and {} labels exist", queries.all.len(), selectors.len(), labels.len());
    assert!(selectors.len() > 40 && labels.len() > 30);
}
