//! `lockgate explain` against a real Envoy: for generated objects and requests, the explanation is what Envoy does.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use e2e::backend::Backend;
use e2e::client::{Answer, Target, raw};
use e2e::envoy::{Envoy, Mode};
use e2e::manifests::{documents, ingress_class};
use e2e::process::output;
use e2e::{Authority, Lockgate, Manifests, Source, ports, wait_until};
use hyper::Method;
use rustls::pki_types::CertificateDer;
use serde_json::Value;

/// Response headers that show the decision of Envoy.
const SETTINGS: &str = "\
headers:
  response:
    set:
      x-route: \"%ROUTE_NAME%\"
      x-cluster: \"%UPSTREAM_CLUSTER_RAW%\"
      x-path: \"%REQ(:PATH)%\"
tls: { defaultSecret: infra/default }
";

/// The number of rounds with different objects, and of requests in each round.
const ROUNDS: u64 = 6;
const REQUESTS: usize = 150;

/// The time after which Envoy uses all accepted resources.
const SETTLED: Duration = Duration::from_secs(5);

/// A random number generator: xorshift.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

const HOSTS: [&str; 7] = ["a.test", "b.test", "*.test", "x.deep.test", "*.deep.test", "c.example.net", ""];
const NAMESPACES: [&str; 3] = ["one", "two", "three"];
const PATHS: [(&str, &str); 10] = [
    ("/", "Prefix"),
    ("/foo", "Prefix"),
    ("/foo/", "Prefix"),
    ("/foo", "Exact"),
    ("/foo/bar", "Exact"),
    ("/foo/bar", "Prefix"),
    ("/fo", "ImplementationSpecific"),
    ("/[a-z]+/x", "ImplementationSpecific"),
    ("/foo/[0-9]*", "ImplementationSpecific"),
    ("/", "Exact"),
];

/// Generates an Ingress with random rules. Every path has its own Service, so the cluster identifies the path.
fn ingress(dice: &mut Dice, number: usize, services: &mut Vec<(String, String)>) -> String {
    let namespace = dice.of(&NAMESPACES);
    let mut count = 0;
    let mut service = |dice: &mut Dice| {
        count += 1;
        let name = format!("s{number}-{count}");
        // Some Services do not exist.
        if dice.below(12) > 0 {
            services.push((namespace.to_owned(), name.clone()));
        }
        name
    };
    let backend = |name: &str| format!("{{ service: {{ name: {name}, port: {{ name: http }} }} }}");
    let mut spec = String::new();
    if dice.below(6) == 0 {
        spec += &format!("  defaultBackend: {}\n", backend(&service(dice)));
    }
    let mut hosts = BTreeSet::new();
    spec += "  rules:\n";
    for _ in 0..1 + dice.below(3) {
        let host = dice.of(&HOSTS);
        hosts.insert(host);
        spec += &if host.is_empty() { "  - http:\n".to_owned() } else { format!("  - host: {host:?}\n    http:\n") };
        spec += "      paths:\n";
        for _ in 0..1 + dice.below(3) {
            let (path, kind) = PATHS[dice.below(PATHS.len())];
            let backend = backend(&service(dice));
            spec += &format!("      - {{ path: {path:?}, pathType: {kind}, backend: {backend} }}\n");
        }
    }
    let named: Vec<&&str> = hosts.iter().filter(|host| !host.is_empty()).collect();
    if dice.below(2) == 0 && !named.is_empty() {
        spec += &format!("  tls:\n  - {{ hosts: {named:?}, secretName: cert }}\n");
    }
    let redirects = if dice.below(3) == 0 { "\"true\"" } else { "\"false\"" };
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: i{number}\n  namespace: {namespace}\n  \
         creationTimestamp: \"2026-01-{:02}T00:00:00Z\"\n  annotations:\n    \
         ingress.kubernetes.io/force-ssl-redirect: {redirects}\nspec:\n{spec}",
        1 + dice.below(28)
    )
}

/// Generates an HTTPRoute with random hosts and matches.
fn http_route(dice: &mut Dice, number: usize, services: &mut Vec<(String, String)>) -> String {
    let namespace = dice.of(&NAMESPACES);
    let mut spec = "  parentRefs:\n  - { name: public, namespace: infra }\n".to_owned();
    let hosts: BTreeSet<&str> = (0..dice.below(3)).map(|_| HOSTS[dice.below(HOSTS.len() - 1)]).collect();
    if !hosts.is_empty() {
        let hosts = Vec::from_iter(hosts);
        spec += &format!("  hostnames: {hosts:?}\n");
    }
    spec += "  rules:\n";
    for _ in 0..1 + dice.below(3) {
        let name = format!("r{number}-{}", services.len());
        services.push((namespace.to_owned(), name.clone()));
        let mut parts = Vec::new();
        match dice.below(4) {
            0 => parts.push(format!("path: {{ type: Exact, value: {} }}", dice.of(&["/foo", "/foo/bar", "/"]))),
            1 => parts.push("path: { type: RegularExpression, value: \"/[a-z]+/x\" }".to_owned()),
            2 => parts.push(format!("path: {{ type: PathPrefix, value: {} }}", dice.of(&["/foo", "/foo/", "/"]))),
            _ => {}
        }
        match dice.below(6) {
            0 => parts.push("headers: [{ name: X-A, value: \"1\" }]".to_owned()),
            1 => parts.push("headers: [{ name: x-b, type: RegularExpression, value: \"[0-9]+\" }]".to_owned()),
            2 => parts.push("queryParams: [{ name: q, value: \"1\" }]".to_owned()),
            3 => parts.push("method: POST".to_owned()),
            _ => {}
        }
        let matches = if parts.is_empty() { String::new() } else { format!("matches: [{{ {} }}], ", parts.join(", ")) };
        spec += &format!("  - {{ {matches}backendRefs: [{{ name: {name}, port: 80 }}] }}\n");
    }
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata:\n  name: h{number}\n  namespace: {namespace}\n  \
         creationTimestamp: \"2026-01-{:02}T00:00:00Z\"\nspec:\n{spec}",
        1 + dice.below(28)
    )
}

fn service(namespace: &str, name: &str, backend: &Backend) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec:\n  ports:\n  - {{ name: http, \
         port: 80 }}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}\n  namespace: \
         {namespace}\n  labels: {{ kubernetes.io/service-name: {name} }}\naddressType: IPv4\nports: [{{ name: http, port: {} }}]\n\
         endpoints: [{{ addresses: [127.0.0.1] }}]\n",
        backend.port()
    )
}

/// Formats the Gateway, with listeners for two host patterns and for TLS.
fn gateway(http: u16, https: u16) -> String {
    let all = "allowedRoutes: { namespaces: { from: All } }";
    let tls = "tls: { certificateRefs: [{ name: default }] }";
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {{ name: lockgate }}\nspec: {{ controllerName: \
         lockgate.dev/gateway-controller }}\n---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: public, \
         namespace: infra }}\nspec:\n  gatewayClassName: lockgate\n  listeners:\n  - {{ name: http, port: {http}, protocol: HTTP, {all} \
         }}\n  - {{ name: deep, port: {http}, protocol: HTTP, hostname: \"*.deep.test\", {all} }}\n  - {{ name: tls, port: {https}, \
         protocol: HTTPS, hostname: \"*.test\", {all}, {tls} }}\n  - {{ name: exact, port: {https}, protocol: HTTPS, hostname: b.test, \
         {all}, {tls} }}\n"
    )
}

/// The program with a real Envoy.
struct Site {
    lockgate: Lockgate,
    envoy: Envoy,
    manifests: Manifests,
    backend: Backend,
    authority: Authority,
    gateway: (u16, u16),
    _settings: Manifests,
}

impl Site {
    async fn start() -> Self {
        let (manifests, settings, authority) = (Manifests::new(), Manifests::new(), Authority::new());
        settings.write("lockgate.yaml", SETTINGS);
        let file = settings.file("lockgate.yaml").display().to_string();
        let backend = Backend::start("backend").await;
        let gateway = (ports::free(), ports::free());
        manifests.write("all.yaml", &documents(&[ingress_class(), service("one", "first", &backend)]));
        let source = Source::Manifests(manifests.path().into());
        let lockgate = Lockgate::start(&source, &["--config", &file]).await;
        let envoy = Envoy::start(&lockgate, Mode::Delta).await;
        Self { lockgate, envoy, manifests, backend, authority, gateway, _settings: settings }
    }

    async fn state(&self) -> Value {
        serde_json::from_str(&self.lockgate.get("/debug/status").await.text()).expect("JSON")
    }

    /// Serves other objects, and waits until Envoy has accepted all of them.
    async fn serve(&self, objects: &[String]) {
        let before = self.state().await["publication"].as_u64().unwrap_or_default();
        self.manifests.write("all.yaml", &documents(objects));
        wait_until("Envoy to accept all", async || {
            let state = self.state().await;
            let publication = state["publication"].as_u64().unwrap_or_default();
            let envoys = state["envoys"].as_array().cloned().unwrap_or_default();
            let is_current = |envoy: &Value| envoy["answered"].as_u64().is_some_and(|answered| answered >= publication);
            publication > before && envoys.len() == 1 && envoys.iter().all(is_current)
        })
        .await;
        assert_eq!(self.envoy.warnings(), Vec::<String>::new());
        // The last version of an object that cannot be decoded stays in use.
        let log = self.lockgate.log();
        assert!(!log.contains("its previous content stays"), "{log}");
    }

    /// Returns the explanation of a request.
    async fn explain(&self, request: &Sent) -> Value {
        let scheme = if request.server_name.is_some() { "https" } else { "http" };
        let mut headers = format!("host: {}\n", request.host);
        request.headers.iter().for_each(|(name, value)| headers.push_str(&format!("{name}: {value}\n")));
        let parameters = [
            ("url", format!("{scheme}://explained.invalid:{}{}", request.port, request.path)),
            ("method", request.method.to_string()),
            ("headers", headers),
            ("server_name", request.server_name.clone().unwrap_or_default()),
        ];
        let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
        let query: Vec<String> = parameters.iter().map(|(name, value)| format!("{name}={}", escape(value))).collect();
        let answer = self.lockgate.get(&format!("/debug/explain?{}", query.join("&"))).await;
        assert_eq!(answer.status, 200, "{request:?}: {}", answer.text());
        serde_json::from_str(&answer.text()).expect("JSON")
    }

    async fn send(&self, request: &Sent, root: &CertificateDer<'static>) -> Result<Answer, String> {
        let target = match &request.server_name {
            None => Target::http(request.port, &request.host),
            Some(name) => Target::https(request.port, &request.host, root.clone()).opened_for(name),
        };
        let target = request.headers.iter().fold(target, |target, (name, value)| target.field(name, value));
        target.send(request.method.clone(), &request.path, "").await.map_err(|error| error.to_string())
    }

    /// Returns how the explanation of a request differs from the behavior of Envoy. Until `settled`, requests are
    /// repeated, because Envoy opens a port or uses a new certificate some time after it has accepted the listener.
    async fn compare(
        &self,
        request: &Sent,
        root: &CertificateDer<'static>,
        settled: Instant,
    ) -> (Value, Option<String>) {
        let report = self.explain(request).await;
        loop {
            let got = difference(&report, &self.send(request, root).await);
            if got.is_none() || Instant::now() > settled {
                return (report, got);
            }
        }
    }
}

/// A request.
#[derive(Debug)]
struct Sent {
    port: u16,
    server_name: Option<String>,
    host: String,
    method: Method,
    path: String,
    headers: Vec<(&'static str, &'static str)>,
}

fn request(dice: &mut Dice, site: &Site) -> Sent {
    let names =
        ["a.test", "b.test", "y.test", "x.deep.test", "z.deep.test", "p.q.deep.test", "c.example.net", "none.org"];
    let host = dice.of(&names);
    let (http, https) = site.gateway;
    let (port, is_tls) =
        [(site.lockgate.http, false), (site.lockgate.https, true), (http, false), (https, true)][dice.below(4)];
    // Occasionally, a connection for one name is used for another.
    let server_name = if dice.below(4) == 0 { dice.of(&names) } else { host };
    let host = match dice.below(8) {
        0 => host.to_uppercase(),
        1 => format!("{host}:8080"),
        2 => format!("{host}."),
        _ => host.to_owned(),
    };
    let path = dice.of(&[
        "/",
        "/foo",
        "/foo/",
        "/foobar",
        "/foo/bar",
        "/foo/bar/",
        "/foo/bar/baz",
        "//foo",
        "/foo/./bar",
        "/foo/../foo/bar",
        "/%66oo",
        "/foo%2Fbar",
        "/abc/x",
        "/abc/x?y=1",
        "/ABC/x",
        "/foo/12",
        "/foo/?q=1",
        "/?q=2&q=1",
        "/q?p&q=1",
        "/%7E/x",
    ]);
    let mut headers = Vec::new();
    if dice.below(3) == 0 {
        headers.push(("x-a", ["1", "2"][dice.below(2)]));
    }
    if dice.below(3) == 0 {
        headers.push(("x-b", ["12", "1a"][dice.below(2)]));
    }
    let method = if dice.below(4) == 0 { Method::POST } else { Method::GET };
    Sent { port, server_name: is_tls.then(|| server_name.to_owned()), host, method, path: path.to_owned(), headers }
}

/// Returns how the explanation differs from the behavior of Envoy.
fn difference(report: &Value, answer: &Result<Answer, String>) -> Option<String> {
    let answers = report["answers"].as_array().expect("answers");
    let [explained] = answers.as_slice() else { return Some(format!("{} answers", answers.len())) };
    let (action, expected) = (explained["action"].as_str().unwrap_or_default(), explained["status"].as_u64());
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => return (action != "refuse").then(|| error.clone()),
    };
    let field = |name: &str| Some(answer.header(name)).filter(|value| *value != "-").unwrap_or_default();
    let (route, cluster) = (field("x-route"), field("x-cluster"));
    let got = format!("{} by {route:?} to {cluster:?}, path {:?}", answer.status, answer.header("x-path"));
    let object = explained["routes"][0]["object"].as_str().unwrap_or_default().replacen(' ', "/", 1);
    let is_same = match action {
        "forward" => {
            let clusters = explained["routes"][0]["clusters"].as_array().expect("clusters");
            let path = answer.header("x-path").split('?').next().unwrap_or_default().to_owned();
            answer.status == 200
                && route == object
                && clusters.iter().any(|one| one["name"] == cluster)
                && explained["path"] == path.as_str()
        }
        "redirect" | "respond" => {
            // All hosts share the redirect to https.
            let is_named = route == object || route == "https-redirect" || route.is_empty() || object.is_empty();
            expected == Some(u64::from(answer.status)) && is_named && cluster.is_empty()
        }
        _ => false,
    };
    (!is_same).then_some(got)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_envoy_does_what_is_explained() {
    let site = Site::start().await;
    // The certificate covers every name that clients request, because they verify it at every chain. For rustls,
    // `*.test` covers no name.
    let wildcards = ["*.test", "*.deep.test", "p.q.deep.test", "c.example.net", "none.org"];
    let names = [&wildcards[..], &["a.test", "b.test", "y.test"]].concat();
    let pair = site.authority.issue(&names);
    let root = site.authority.der();
    let mut counts = std::collections::BTreeMap::<String, usize>::new();
    let mut faults = Vec::new();
    for round in 0..ROUNDS {
        let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (round + 1));
        let mut services = Vec::new();
        let mut objects =
            vec![ingress_class(), gateway(site.gateway.0, site.gateway.1), pair.secret("infra", "default")];
        objects.extend(NAMESPACES.iter().map(|namespace| pair.secret(namespace, "cert")));
        objects.extend((0..8).map(|number| ingress(&mut dice, number, &mut services)));
        objects.extend((0..6).map(|number| http_route(&mut dice, number, &mut services)));
        objects.extend(services.iter().map(|(namespace, name)| service(namespace, name, &site.backend)));
        site.serve(&objects).await;
        let settled = Instant::now() + SETTLED;
        for _ in 0..REQUESTS {
            let request = request(&mut dice, &site);
            let (report, fault) = site.compare(&request, &root, settled).await;
            let first = &report["answers"][0];
            *counts.entry(format!("{} {}", first["action"], first["status"])).or_default() += 1;
            if let Some(got) = fault {
                faults.push(format!("round {round}: {request:?}\n  explained: {}\n  Envoy: {got}", first["result"]));
            }
        }
    }
    println!("{counts:?}");
    let all: usize = counts.values().sum();
    assert!(faults.is_empty(), "{} of {all} differ:\n{}", faults.len(), faults[..faults.len().min(8)].join("\n"));
    for kind in ["\"forward\" null", "\"respond\" 404", "\"respond\" 421", "\"redirect\" 301"] {
        assert!(counts.keys().any(|key| key.starts_with(kind)), "no request of the kind {kind}: {counts:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn paths_have_the_form_that_envoy_gives_them() {
    let site = Site::start().await;
    let rules = "spec:\n  rules:\n  - host: a.test\n    http:\n      paths:\n      - { path: /, pathType: Prefix, backend: { service: { \
                 name: first, port: { name: http } } } }\n";
    let ingress =
        format!("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: i, namespace: one }}\n{rules}");
    site.serve(&[ingress_class(), service("one", "first", &site.backend), ingress]).await;
    // All bytes that a path can contain, plain and escaped. Spaces and control characters would end the request line.
    let plain = (0x21..0x7f_u8).map(char::from).filter(|one| !"?#".contains(*one)).map(String::from);
    let escaped = (0..=0xff_u8).flat_map(|byte| [format!("%{byte:02X}"), format!("%{byte:02x}")]);
    let dots = ["/.", "/..", "/./x", "/../x", "/%2e%2E/x", "/a%2e/b", "/.../x", "//x//", "/a/%2e", "%", "%4", "%4g"]
        .map(String::from);
    let mut faults = Vec::new();
    for part in plain.chain(escaped).chain(dots) {
        let path = format!("/a{part}b/c{part}");
        let head = format!("GET {path} HTTP/1.1\r\nhost: a.test\r\nconnection: close\r\n\r\n");
        let bytes =
            raw(site.lockgate.http, head.as_bytes(), |read| read.windows(4).any(|end| end == b"\r\n\r\n")).await;
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let status: u64 = text.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_default();
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            found.unwrap_or_default().to_owned()
        };
        let host = "a.test".to_owned();
        let request = Sent {
            port: site.lockgate.http,
            server_name: None,
            host,
            method: Method::GET,
            path: path.clone(),
            headers: vec![],
        };
        let report = site.explain(&request).await;
        let explained = &report["answers"][0];
        let (action, expected) = (&explained["action"], explained["status"].as_u64());
        let is_same = match status {
            200 => *action == "forward" && explained["path"] == field("x-path").as_str(),
            307 => {
                expected == Some(307)
                    && explained["result"]
                        .as_str()
                        .unwrap_or_default()
                        .contains(&field("location").replace("http://a.test", ""))
            }
            status => expected == Some(status),
        };
        if !is_same {
            let shown = [field("x-path"), field("location")].concat();
            faults.push(format!(
                "{path}: Envoy {status} {shown}, explained {expected:?} {} {}",
                explained["path"], explained["result"]
            ));
        }
    }
    assert!(faults.is_empty(), "{} paths differ:\n{}", faults.len(), faults.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_program_prints_the_status_and_explanations_of_a_controller() {
    let site = Site::start().await;
    let rules = "spec:\n  rules:\n  - host: a.test\n    http:\n      paths:\n      - { path: /, pathType: Prefix, backend: { service: { \
                 name: first, port: { name: http } } } }\n";
    let ingress =
        format!("apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: i, namespace: one }}\n{rules}");
    site.serve(&[ingress_class(), service("one", "first", &site.backend), ingress]).await;
    let address = format!("127.0.0.1:{}", site.lockgate.admin);
    let run = async |args: &[&str]| {
        let mut command = Command::new(e2e::lockgate::binary());
        command.args(args).args(["--admin-address", &address]);
        output(command, "").await.unwrap_or_else(|error| panic!("{args:?}: {error}"))
    };
    let text = run(&["explain", "http://a.test/cart"]).await;
    for part in [
        "Envoy forwards to Service one/first port http, by Ingress one/i",
        "Ingress one/i spec.rules[0].http.paths[0]",
        "accepted by 1 of 1",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    assert!(!text.contains('\x1b'), "colors without a terminal");
    let json: Value = serde_json::from_str(&run(&["explain", "a.test", "-o", "json"]).await).expect("JSON");
    assert_eq!(json["request"], "GET a.test");
    let text = run(&["status"]).await;
    assert!(text.starts_with("1 of 1 Envoys are up to date; 1 of 1 replicas answer; 1 Ingress served."), "{text}");
    // A replica that does not respond is reported. It is not an error while another one responds.
    let gone = format!("127.0.0.1:{}", ports::free());
    let json = run(&["status", "--admin-address", &gone, "-o", "json"]).await;
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["replicas"].as_array().map(Vec::len), Some(2));
    assert!(json["replicas"][0]["error"].as_str().is_some_and(|error| error.contains("refused")), "{json:#}");
}
