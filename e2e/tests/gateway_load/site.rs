//! A controller, an Envoy, two Gateways, an Ingress, and two backends.

use std::fmt::Write;

use e2e::load::{Plan, Report};
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{Authority, Backend, Envoy, Load, Lockgate, Manifests, Mode, Source, Target, ports, wait_everywhere};

/// The host that all listeners serve, from the backend `a`.
pub const HOST: &str = "shop.test";

/// The number of requests per second of one load, and of its connections.
const RATE: u32 = 300;
const CONNECTIONS: u32 = 10;

/// A listener of a Gateway.
#[derive(Debug, Clone, Copy)]
pub struct Listener {
    /// The name.
    pub name: &'static str,
    /// The port of the listener and of Envoy.
    pub port: u16,
    /// The host names.
    pub host: Option<&'static str>,
    /// Whether it terminates TLS, with the Secret `cert`.
    pub tls: bool,
}

impl Listener {
    /// Returns a listener for plain HTTP and all hosts.
    pub fn http(name: &'static str, port: u16) -> Self {
        Self { name, port, host: None, tls: false }
    }

    /// Returns a listener for HTTPS and the names of a host.
    pub fn https(name: &'static str, port: u16, host: &'static str) -> Self {
        Self { name, port, host: Some(host), tls: true }
    }
}

/// All running programs. The Gateways `one` and `two` have one listener each, and the route `stays` is attached to
/// both.
pub struct Site {
    /// The objects: `one.yaml`, `two.yaml`, and files of the test.
    pub manifests: Manifests,
    /// The controller.
    pub lockgate: Lockgate,
    /// The Envoy.
    pub envoy: Envoy,
    /// The port of `one` and the port of `two`.
    pub ports: [u16; 2],
    /// The backends `a` and `b`, behind Services of these names in `default`.
    pub backends: [Backend; 2],
    /// The issuer of the certificate.
    pub authority: Authority,
    _config: Manifests,
}

impl Site {
    /// Starts all programs, and waits until every listener serves.
    pub async fn open(mode: Mode) -> Self {
        Self::open_with(mode, "auto").await
    }

    /// Like [`Site::open`], with this setting of `routes.discovery`.
    pub async fn open_with(mode: Mode, discovery: &str) -> Self {
        let (manifests, authority) = (Manifests::new(), Authority::new());
        let backends = [Backend::start("a").await, Backend::start("b").await];
        let ports = [ports::free(), ports::free()];
        let base = [
            ingress_class(),
            gateway_class(),
            service("a", "", &[backends[0].address]),
            service("b", "", &[backends[1].address]),
            ingress("shop", HOST, "a", None),
            authority.issue(&[HOST, "*.shop.test"]).secret("default", "cert"),
            route("stays", &["one", "two"], HOST, &[("a", 1)]),
        ];
        manifests.write("base.yaml", &documents(&base));
        manifests.write("one.yaml", &gateway("one", &[Listener::http("http", ports[0])]));
        manifests.write("two.yaml", &gateway("two", &[Listener::http("http", ports[1])]));
        let config = Manifests::new();
        config.write(
            "lockgate.yaml",
            &format!("routes: {{ discovery: {discovery} }}\nhttp: {{ errorResponses: true }}\ntenants: {{ maxGrpcJsonBytes: 16KiB }}\n"),
        );
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let admin = ports::free();
        let bootstrap = lockgate.bootstrap(mode, admin, "envoy");
        let mut envoy = Envoy::launch_with_flags(&bootstrap, admin, &["--drain-time-s", "2"]);
        envoy.wait_ready().await;
        let site = Self { manifests, lockgate, envoy, ports, backends, authority, _config: config };
        for target in [site.target(0, HOST), site.target(1, HOST), site.ingress()] {
            serves(&target).await;
        }
        site
    }

    /// Returns a host on the Gateway `one` (0) or `two` (1).
    pub fn target(&self, gateway: usize, host: &str) -> Target {
        Target::http(self.ports[gateway], host)
    }

    /// Returns the host on the listener for Ingresses.
    pub fn ingress(&self) -> Target {
        Target::http(self.lockgate.http, HOST)
    }

    /// Returns the number of listeners that Envoy has added, changed, or removed.
    pub async fn listener_changes(&self) -> u64 {
        let stats = self.envoy.stats("^listener_manager.listener_(added|modified|removed|in_place_updated)$").await;
        stats.values().sum()
    }
}

/// Waits until every worker of Envoy answers 200.
pub async fn serves(target: &Target) {
    answers(target, 200).await;
}

/// Waits until every worker of Envoy answers with this status.
pub async fn answers(target: &Target, status: u16) {
    let what = format!("status {status} from every worker");
    wait_everywhere(&what, async || target.get("/").await.is_ok_and(|answer| answer.status == status)).await;
}

/// Waits until no worker of Envoy accepts a connection.
pub async fn refuses(target: &Target) {
    wait_everywhere("the end of a listener", async || target.connect().await.is_err()).await;
}

/// Starts a load on a target over kept connections.
pub async fn load(target: Target) -> Load {
    Load::start(Plan { rate: RATE, connections: CONNECTIONS, ..Plan::new(target, "/") }).await
}

/// Ends a load. None of its requests may have failed, and none of its connections may have been closed.
pub async fn assert_undisturbed(what: &str, load: Load) {
    let report = assert_no_failure(what, load).await;
    assert_eq!(report.connections, u64::from(CONNECTIONS), "{what}: a connection was closed: {report}");
}

/// Ends a load. None of its requests may have failed.
pub async fn assert_no_failure(what: &str, load: Load) -> Report {
    let report = load.stop().await;
    println!("    {what}: {report}");
    assert_eq!(report.failed(), 0, "{what}: {report}");
    report
}

/// Returns the GatewayClass.
fn gateway_class() -> String {
    "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: { name: lockgate }\nspec: { controllerName: \
     lockgate.dev/gateway-controller }\n"
        .into()
}

/// Returns a Gateway in `default`.
pub fn gateway(name: &str, listeners: &[Listener]) -> String {
    let mut text = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
         gatewayClassName: lockgate\n  listeners:\n"
    );
    for Listener { name, port, host, tls } in listeners {
        let host = host.map(|host| format!(", hostname: '{host}'")).unwrap_or_default();
        let (protocol, tls) = match tls {
            true => ("HTTPS", ", tls: { certificateRefs: [{ name: cert }] }"),
            false => ("HTTP", ""),
        };
        writeln!(text, "    - {{ name: {name}, port: {port}, protocol: {protocol}{host}{tls} }}").expect("text");
    }
    text
}

/// Returns an HTTPRoute in `default`, with Services and their weights.
pub fn route(name: &str, gateways: &[&str], host: &str, services: &[(&str, u32)]) -> String {
    let parents: Vec<String> = gateways.iter().map(|gateway| format!("{{ name: {gateway} }}")).collect();
    let backend = |(name, weight): &(&str, u32)| match name.split_once('/') {
        Some((namespace, name)) => format!("{{ name: {name}, namespace: {namespace}, port: 80, weight: {weight} }}"),
        None => format!("{{ name: {name}, port: 80, weight: {weight} }}"),
    };
    let backends: Vec<String> = services.iter().map(backend).collect();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
         parentRefs: [{}]\n  hostnames: ['{host}']\n  rules:\n    - backendRefs: [{}]\n",
        parents.join(", "),
        backends.join(", ")
    )
}
