//! The program with a real Envoy, and the comparison of an explanation with an answer.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use e2e::backend::Backend;
use e2e::client::{Answer, Target};
use e2e::envoy::{Envoy, Mode};
use e2e::manifests::{documents, ingress_class};
use e2e::{Authority, Lockgate, Manifests, Source, wait_until};
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

/// The time after which Envoy uses all accepted resources.
pub const SETTLED: Duration = Duration::from_secs(5);

/// A random number generator: xorshift.
pub struct Dice(pub u64);

impl Dice {
    /// Returns a number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    /// Returns one of the choices.
    pub fn of<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.below(choices.len())]
    }
}

/// Formats a Service with one endpoint on this machine.
pub fn service(namespace: &str, name: &str, port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, namespace: {namespace} }}\nspec:\n  ports:\n  - {{ name: http, \
         port: 80 }}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}\n  namespace: \
         {namespace}\n  labels: {{ kubernetes.io/service-name: {name} }}\naddressType: IPv4\nports: [{{ name: http, port: {port} }}]\n\
         endpoints: [{{ addresses: [127.0.0.1] }}]\n"
    )
}

/// The program with a real Envoy.
pub struct Site {
    /// The controller.
    pub lockgate: Lockgate,
    /// The backend of Services that need no other.
    pub backend: Backend,
    /// The issuer of all certificates.
    pub authority: Authority,
    /// The Envoy.
    pub envoy: Envoy,
    manifests: Manifests,
    _settings: Manifests,
}

impl Site {
    /// Starts all programs, with one Service.
    pub async fn start() -> Self {
        let (manifests, settings, authority) = (Manifests::new(), Manifests::new(), Authority::new());
        settings.write("lockgate.yaml", SETTINGS);
        let file = settings.file("lockgate.yaml").display().to_string();
        let backend = Backend::start("backend").await;
        manifests.write("all.yaml", &documents(&[ingress_class(), service("one", "first", backend.port())]));
        let source = Source::Manifests(manifests.path().into());
        let lockgate = Lockgate::start(&source, &["--config", &file]).await;
        let envoy = Envoy::start(&lockgate, Mode::Delta).await;
        Self { lockgate, backend, authority, envoy, manifests, _settings: settings }
    }

    /// Starts all programs, with an Ingress for the host `a.test`, which leads to Service `first`.
    pub async fn start_with_host() -> Self {
        let site = Self::start().await;
        let ingress = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: i, namespace: one }\nspec:\n  rules:\n  - \
                       host: a.test\n    http:\n      paths:\n      - { path: /, pathType: Prefix, backend: { service: { name: first, \
                       port: { name: http } } } }\n";
        site.serve(&[ingress_class(), service("one", "first", site.backend.port()), ingress.to_owned()]).await;
        site
    }

    async fn state(&self) -> Value {
        serde_json::from_str(&self.lockgate.get("/debug/status").await.text()).expect("JSON")
    }

    /// Serves other objects, and waits until Envoy has accepted all of them.
    pub async fn serve(&self, objects: &[String]) {
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
        let unread = ["; its previous content stays", "; it is left out"];
        assert!(!unread.iter().any(|consequence| log.contains(consequence)), "{log}");
    }

    /// Returns the explanation of a request.
    pub async fn explain(&self, request: &Sent) -> Value {
        let scheme = if request.server_name.is_some() { "https" } else { "http" };
        let server_name = request.server_name.clone().unwrap_or_default();
        let (host, server_name) = match server_name.parse::<IpAddr>() {
            Ok(address) => (address.to_string(), String::new()),
            Err(_) => ("explained.invalid".to_owned(), server_name),
        };
        let mut headers = format!("host: {}\n", request.host);
        request.headers.iter().for_each(|(name, value)| headers.push_str(&format!("{name}: {value}\n")));
        let parameters = [
            ("url", format!("{scheme}://{host}:{}{}", request.port, request.path)),
            ("method", request.method.to_string()),
            ("headers", headers),
            ("server_name", server_name),
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
    pub async fn compare(
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
pub struct Sent {
    /// The port of Envoy.
    pub port: u16,
    /// The name that the certificate must have, for TLS. An address is not sent as the server name.
    pub server_name: Option<String>,
    /// The header `Host`.
    pub host: String,
    /// The method.
    pub method: Method,
    /// The path with its query.
    pub path: String,
    /// The other headers.
    pub headers: Vec<(&'static str, String)>,
}

impl Sent {
    /// Returns a GET request in plain text.
    pub fn get(port: u16, host: &str, path: &str) -> Self {
        let (host, path) = (host.to_owned(), path.to_owned());
        Self { port, server_name: None, host, method: Method::GET, path, headers: Vec::new() }
    }
}

/// Returns how the explanation differs from the behavior of Envoy.
fn difference(report: &Value, answer: &Result<Answer, String>) -> Option<String> {
    let answers = report["answers"].as_array().expect("answers");
    let explained = match answers.as_slice() {
        [] => return answer.as_ref().ok().map(|answer| format!("{} instead of no listener", answer.status)),
        [explained] => explained,
        several => return Some(format!("{} answers", several.len())),
    };
    let (action, expected) = (explained["action"].as_str().unwrap_or_default(), explained["status"].as_u64());
    let is_assumed = explained["listener"]["is_assumed"] == true;
    let answer = match answer {
        Ok(_) if is_assumed => return Some("an answer by another listener than the assumed one".to_owned()),
        Ok(answer) => answer,
        Err(error) => return (action != "refuse" && !is_assumed).then(|| error.clone()),
    };
    let field = |name: &str| Some(answer.header(name)).filter(|value| *value != "-").unwrap_or_default();
    let (route, cluster) = (field("x-route"), field("x-cluster"));
    let (backend, grpc_status) = (field("x-backend"), field("grpc-status"));
    let got = format!(
        "{} {grpc_status:?} by {route:?} to {cluster:?} {backend:?}, path {:?}",
        answer.status,
        answer.header("x-path")
    );
    let first = &explained["routes"][0];
    let object = first["object"].as_str().unwrap_or_default().replacen(' ', "/", 1);
    let clusters = first["clusters"].as_array().map(Vec::as_slice).unwrap_or_default();
    let is_same = match action {
        "forward" if first["action"] == "forward the connection" => {
            let is_passthrough = explained["tls"]["is_passthrough"] == true;
            let is_backend = clusters.iter().any(|one| one["service"] == backend);
            answer.status == 200 && is_backend && field("x-tls") == is_passthrough.to_string()
        }
        "forward" => {
            let path = answer.header("x-path").split('?').next().unwrap_or_default().to_owned();
            answer.status == 200
                && route == object
                && clusters.iter().any(|one| one["name"] == cluster)
                && explained["path"] == path.as_str()
        }
        "redirect" | "respond" => {
            // All hosts share the redirect to https.
            let is_named = route == object || route == "https-redirect" || route.is_empty() || object.is_empty();
            // Envoy translates its responses for gRPC clients.
            let is_status = match explained["grpc_status"].as_u64() {
                None => grpc_status.is_empty() && expected == Some(u64::from(answer.status)),
                Some(explained) => answer.status == 200 && grpc_status == explained.to_string(),
            };
            is_status && is_named && cluster.is_empty()
        }
        _ => false,
    };
    (!is_same).then_some(got)
}
