//! Statistics of single objects: a real Envoy counts the requests of each Ingress and HTTPRoute on each host, with
//! labels that no tenant can forge.

use std::collections::{BTreeMap, BTreeSet};

use e2e::lockgate::series;
use e2e::manifests::{documents, ingress_class};
use e2e::process::repository;
use e2e::{Echo, Envoy, Lockgate, Manifests, Mode, Source, Target, ports, wait_until};
use serde_json::Value;

const TOTAL: &str = "envoy_vhost_route_upstream_rq_total";
const COMPLETED: &str = "envoy_vhost_route_upstream_rq_completed";
const CLASSES: &str = "envoy_vhost_route_upstream_rq_xx";
const TIMES: &str = "envoy_vhost_route_upstream_rq_time_count";

/// Formats a Service `web`, and a Service `gone` without endpoints.
fn services(namespace: &str, port: u16) -> String {
    let service = |name: &str, endpoints: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec: {{ ports: [{{ name: http, \
             port: 80 }}] }}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{ name: {name}, namespace: \
             {namespace}, labels: {{ kubernetes.io/service-name: {name} }} }}\naddressType: IPv4\nports: [{{ name: http, port: \
             {port} }}]\nendpoints: [{endpoints}]\n"
        )
    };
    documents(&[service("web", "{ addresses: [127.0.0.1] }"), service("gone", "")])
}

/// Formats an Ingress with one path for each host.
fn ingress(namespace: &str, name: &str, rules: &[(&str, &str, &str)]) -> String {
    let rules = rules.iter().map(|(host, path, service)| {
        format!(
            "  - host: \"{host}\"\n    http: {{ paths: [{{ path: {path}, pathType: Prefix, backend: {{ service: {{ name: {service}, \
             port: {{ name: http }} }} }} }}] }}\n"
        )
    });
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: \"{name}\", namespace: {namespace} }}\nspec:\n  \
         rules:\n{}",
        rules.collect::<String>()
    )
}

/// Formats a Gateway, and an HTTPRoute for one host.
fn gateway(port: u16) -> String {
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{ name: lockgate }}\nspec: {{ controllerName: \
         lockgate.dev/gateway-controller }}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: public, \
         namespace: infra }}\nspec:\n  gatewayClassName: lockgate\n  listeners: [{{ name: http, port: {port}, protocol: HTTP, \
         allowedRoutes: {{ namespaces: {{ from: All }} }} }}]\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\n\
         metadata: {{ name: web, namespace: two }}\nspec:\n  parentRefs: [{{ name: public, namespace: infra }}]\n  hostnames: \
         [route.test]\n  rules: [{{ backendRefs: [{{ name: web, port: 80 }}] }}]\n"
    )
}

/// Returns the rules of the ServiceMonitor for labels.
fn rules() -> Vec<Value> {
    let text = std::fs::read_to_string(repository().join("charts/lockgate/relabelings.yaml")).expect("the rules");
    let lines = text.lines().filter_map(|line| line.strip_prefix("- "));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect()
}

/// Parses the labels of a series.
fn labels_of(text: &str) -> BTreeMap<String, String> {
    let pairs = text.trim_end_matches('}').split("\",").filter_map(|pair| pair.split_once("=\""));
    pairs.map(|(name, value)| (name.to_owned(), value.trim_end_matches('"').to_owned())).collect()
}

/// Applies rules to labels, as Prometheus does. Source: its documentation of `relabel_config`.
fn relabel(mut labels: BTreeMap<String, String>, rules: &[Value]) -> BTreeMap<String, String> {
    for rule in rules {
        let text = |field: &str| rule[field].as_str().unwrap_or_default();
        let regex = regex::Regex::new(&format!("^(?:{})$", text("regex"))).expect("an expression");
        if rule["action"] == "labeldrop" {
            labels.retain(|name, _| !regex.is_match(name));
            continue;
        }
        let sources = rule["sourceLabels"].as_array().expect("labels").iter().filter_map(Value::as_str);
        let sources: Vec<_> = sources.map(|name| labels.get(name).map_or("", String::as_str)).collect();
        let joined = sources.join(";");
        if let Some(found) = regex.captures(&joined) {
            let mut value = String::new();
            found.expand(text("replacement"), &mut value);
            labels.insert(text("targetLabel").to_owned(), value);
        }
    }
    labels
}

/// The documentation has the rules of the chart for Prometheus without its operator.
#[test]
fn the_rules_for_labels_are_documented() {
    let page = std::fs::read_to_string(repository().join("docs/tasks/metrics-by-object.md")).expect("the page");
    for rule in rules() {
        let rule = rule.to_string().replace("sourceLabels", "source_labels").replace("targetLabel", "target_label");
        let documented =
            page.lines().filter_map(|line| line.trim().strip_prefix("- {")).map(|rest| format!("{{{rest}"));
        let mut documented = documented.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let rule: Value = serde_json::from_str(&rule).expect("JSON");
        assert!(documented.any(|other| other == rule), "{rule} is not in docs/tasks/metrics-by-object.md");
    }
}

/// The program with these objects, a limit of statistics, and a real Envoy.
struct Site {
    lockgate: Lockgate,
    manifests: Manifests,
    stats: Target,
    echo: Echo,
    _envoy: Envoy,
    _settings: Manifests,
}

impl Site {
    async fn start(limit: u32, objects: impl FnOnce(&Echo) -> Vec<String>) -> Self {
        let (manifests, settings) = (Manifests::new(), Manifests::new());
        settings.write(
            "lockgate.yaml",
            &format!("statistics: {{ maxObjects: {limit} }}\nnamespaceOwnership: InterNamespaceAllowed\n"),
        );
        let echo = Echo::start().await;
        let port = echo.address.port();
        let common = [ingress_class(), services("one", port), services("two", port)];
        manifests.write("all.yaml", &documents(&common.into_iter().chain(objects(&echo)).collect::<Vec<_>>()));
        let file = settings.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let mut envoy = Envoy::start(&lockgate, Mode::Delta).await;
        envoy.wait_ready().await;
        let stats = Target::http(lockgate.stats, "localhost");
        Self { lockgate, manifests, stats, echo, _envoy: envoy, _settings: settings }
    }

    /// Sends requests to a host until one is forwarded, which Envoy counts. Until Envoy has the host, it answers 404.
    async fn wait(&self, port: u16, host: &str, path: &str) {
        let target = Target::http(port, host);
        wait_until(host, async || target.get(path).await.is_ok_and(|answer| answer.status != 404)).await;
    }

    async fn send(&self, port: u16, host: &str, path: &str, count: usize, status: u16) {
        let target = Target::http(port, host);
        for _ in 0..count {
            assert_eq!(target.get(path).await.expect("an answer").status, status, "{host}{path}");
        }
    }

    async fn page(&self) -> String {
        self.stats.get("/stats/prometheus").await.expect("statistics").text()
    }

    /// Returns the values of a statistic by object and host: `Ingress one/cart shop.test`, with the class of the
    /// response.
    async fn values(&self, name: &str) -> BTreeMap<String, f64> {
        let (rules, mut values) = (rules(), BTreeMap::new());
        for (series, value) in series(&self.page().await) {
            let Some(labels) = series.strip_prefix(name).and_then(|rest| rest.strip_prefix('{')) else { continue };
            let labels = relabel(labels_of(labels), &rules);
            let label = |name: &str| labels.get(name).cloned().unwrap_or_default();
            let class = label("envoy_response_code_class");
            let object = ["kind", "namespace", "name", "host"].map(|part| label(&format!("lockgate_{part}")));
            let [kind, namespace, name, host] = object;
            let key = format!("{kind} {namespace}/{name} {host} {class}").trim_end().to_owned();
            *values.entry(key).or_default() += value;
        }
        values
    }

    /// Waits until a statistic has these values other than 0. Workers publish their histograms every few seconds.
    async fn wait_values(&self, name: &str, expected: &[(&str, f64)]) {
        let expected: BTreeMap<String, f64> = expected.iter().map(|(key, value)| ((*key).to_owned(), *value)).collect();
        let mut last = BTreeMap::new();
        wait_until(&format!("{name}: {expected:?}"), async || {
            let now: BTreeMap<_, _> = self.values(name).await.into_iter().filter(|(_, value)| *value > 0.0).collect();
            if now != last {
                println!("{name}: {now:?}");
            }
            last = now;
            last == expected
        })
        .await;
    }
}

/// The names of an object and of a host that resemble parts of the names of statistics.
const NAME: &str = "web.route.ingress.two.web.upstream-rq-total";
const HOST: &str = "a.route.ingress.b.test";

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_counted_exactly_for_each_object_and_host() {
    let port = ports::free();
    let site = Site::start(100, |_| {
        vec![
            ingress("one", NAME, &[(HOST, "/", "web"), ("shared.test", "/one", "web")]),
            ingress(
                "two",
                "web",
                &[("shared.test", "/two", "web"), ("shared.test", "/gone", "gone"), ("*.w.test", "/", "web")],
            ),
            gateway(port),
        ]
    })
    .await;
    let http = site.lockgate.http;
    site.wait(http, HOST, "/").await;
    site.wait(http, "shared.test", "/two").await;
    site.wait(http, "x.w.test", "/").await;
    site.wait(port, "route.test", "/").await;
    site.send(http, HOST, "/", 2, 200).await;
    site.send(http, HOST, "/?status=404", 3, 404).await;
    site.send(http, "shared.test", "/one?status=503", 4, 503).await;
    site.send(http, "shared.test", "/two", 1, 200).await;
    site.send(http, "shared.test", "/gone", 5, 503).await;
    site.send(http, "shared.test", "/unknown", 6, 404).await;
    site.send(port, "route.test", "/?status=500", 7, 500).await;
    let own = |rest: &str| format!("Ingress one/{NAME} {rest}");
    site.wait_values(
        CLASSES,
        &[
            (&own(&format!("{HOST} 2")), 3.0),
            (&own(&format!("{HOST} 4")), 3.0),
            (&own("shared.test 5"), 4.0),
            ("Ingress two/web shared.test 2", 2.0),
            ("Ingress two/web shared.test 5", 5.0),
            ("Ingress two/web *.w.test 2", 1.0),
            ("HTTPRoute two/web route.test 2", 1.0),
            ("HTTPRoute two/web route.test 5", 7.0),
        ],
    )
    .await;
    // Requests that reach no endpoint have no latency.
    site.wait_values(
        TIMES,
        &[
            (&own(HOST), 6.0),
            (&own("shared.test"), 4.0),
            ("Ingress two/web shared.test", 2.0),
            ("Ingress two/web *.w.test", 1.0),
            ("HTTPRoute two/web route.test", 8.0),
        ],
    )
    .await;
    site.dashboard_has_its_statistics().await;
}

impl Site {
    /// Asserts that every query of the dashboard uses existing statistics and labels of Envoy.
    async fn dashboard_has_its_statistics(&self) {
        let file = repository().join("charts/lockgate/dashboards/lockgate-objects.json");
        let text = std::fs::read_to_string(file).expect("the dashboard");
        let dashboard: Value = serde_json::from_str(&text).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("panels");
        let targets = panels.iter().flat_map(|panel| panel["targets"].as_array().cloned().unwrap_or_default());
        let queries = targets.filter_map(|target| target["expr"].as_str().map(str::to_owned));
        let variables = dashboard["templating"]["list"].as_array().expect("variables");
        let names: Vec<&str> = variables.iter().filter_map(|variable| variable["name"].as_str()).collect();
        assert!(names.contains(&"namespace") && names.contains(&"object"), "{names:?}");
        let queries: Vec<String> =
            queries.chain(variables.iter().filter_map(|one| one["definition"].as_str().map(str::to_owned))).collect();
        let words = queries.iter().flat_map(|query| query.split(|c: char| !c.is_ascii_alphanumeric() && c != '_'));
        let named: BTreeSet<&str> =
            words.filter(|word| word.starts_with("envoy_") || word.starts_with("lockgate_")).collect();
        assert!(named.len() > 5 && named.contains(COMPLETED), "{named:?}");
        let page = self.page().await;
        let controller = self.lockgate.metrics().await;
        let made = rules();
        for name in named {
            let is_label = page.contains(&format!("{name}=\"")) || made.iter().any(|rule| rule["targetLabel"] == name);
            let is_metric = page.contains(&format!("\n{name}{{"));
            let is_of_controller = controller.keys().any(|series| series.starts_with(name));
            assert!(is_label || is_metric || is_of_controller, "{name} does not exist");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_share_the_limit() {
    let many = |count: usize| {
        (0..count).map(|one| ingress("one", &format!("web-{one}"), &[(&format!("{one}.test"), "/", "web")])).collect()
    };
    let site = Site::start(3, |_| many(5)).await;
    let http = site.lockgate.http;
    let omitted = async |expected: f64| {
        let labels = ["state=\"omitted\""];
        wait_until("the number of objects without statistics", async || {
            site.lockgate.metric("lockgate_statistics_objects", &labels).await == expected
        })
        .await;
    };
    omitted(2.0).await;
    site.lockgate.logged(&["some objects have no statistics in Envoy"]).await;
    let counted = async |names: &[&str]| {
        let names: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
        wait_until(&format!("statistics of {names:?}"), async || {
            site.values(TOTAL).await.into_keys().collect::<BTreeSet<_>>() == names
        })
        .await;
    };
    for one in 0..5 {
        site.wait(http, &format!("{one}.test"), "/").await;
    }
    let of = [
        "Ingress one/web-0 0.test",
        "Ingress one/web-1 1.test",
        "Ingress one/web-2 2.test",
        "Ingress two/web two.test",
    ];
    counted(&of[..3]).await;
    // Another tenant has its own share of the limit.
    site.manifests.write("two.yaml", &ingress("two", "web", &[("two.test", "/", "web")]));
    site.wait(http, "two.test", "/").await;
    omitted(3.0).await;
    // A statistic stays on the page of Envoy while its routes are in use.
    counted(&[of[0], of[1], of[3]]).await;
    site.manifests.remove("two.yaml");
    omitted(2.0).await;
    counted(&of[..3]).await;
    drop(site.echo);
}
