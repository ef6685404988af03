//! Contour and Lockgate at one API server, each with an Envoy, and the backends of both.

use std::net::IpAddr;
use std::path::Path;
use std::process::Command;

use bytes::Bytes;
use e2e::apiserver::lab;
use e2e::process::Process;
use e2e::server::Server;
use e2e::{ApiServer, Authority, Envoy, Lockgate, Mode, Target, ports, wait_until};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};
use serde_json::json;

use super::api::Api;
use super::generator::{COOKIES, SERVICES};

/// The number of sets that are served at the same time.
pub const SLOTS: u64 = 20;

/// The controller of an object, and the form of its set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// Contour.
    Contour,
    /// Contour with the twin of a set with a fault.
    Twin,
    /// Lockgate.
    Lockgate,
}

impl Side {
    /// All sides.
    pub const ALL: [Self; 3] = [Self::Contour, Self::Twin, Self::Lockgate];

    /// Its letter in names, which are equally long on all sides.
    fn letter(self) -> char {
        match self {
            Self::Contour => 'c',
            Self::Twin => 't',
            Self::Lockgate => 'l',
        }
    }

    /// Returns the namespace `a` or `b` of a set. Sets take turns in the namespaces of a slot.
    pub fn namespace(self, number: u64, which: char) -> String {
        format!("{}{:02}-{which}", self.letter(), number % SLOTS)
    }

    /// Returns the suffix of the hosts of a set.
    fn suffix(self, number: u64) -> String {
        format!("s{number}.{}.test", self.letter())
    }

    /// The placeholders of a set and their values.
    fn names(self, number: u64) -> [(&'static str, String); 4] {
        let class = if self == Self::Lockgate { "lockgate" } else { "contour" };
        let namespace = |which| self.namespace(number, which);
        [("@a", namespace('a')), ("@b", namespace('b')), ("@s", self.suffix(number)), ("@c", class.into())]
    }

    /// Replaces placeholders by names.
    pub fn fill(self, number: u64, text: &str) -> String {
        self.names(number).iter().fold(text.to_owned(), |text, (placeholder, name)| text.replace(placeholder, name))
    }

    /// Replaces names by placeholders.
    pub fn restore(self, number: u64, text: &str) -> String {
        self.names(number)[..3]
            .iter()
            .fold(text.to_owned(), |text, (placeholder, name)| text.replace(name, placeholder))
    }
}

/// The ports of an Envoy.
pub struct Party {
    /// The port for plain HTTP.
    pub http: u16,
    /// The port for TLS.
    pub https: u16,
}

/// All programs.
pub struct Site {
    /// The authority of all certificates.
    pub authority: Authority,
    contour: Party,
    lockgate: Party,
    server: ApiServer,
    _programs: (Process, Lockgate, [Envoy; 2]),
    _backends: Vec<Server>,
    _directory: tempfile::TempDir,
}

/// What Contour does without settings, and Lockgate does not.
const SETTINGS: &str = "
xds: { address: '127.0.0.1:XDS' }
admin: { address: '127.0.0.1:ADMIN' }
listeners:
  http: { port: HTTP_PORT }
  https: { port: HTTPS_PORT }
  stats: { port: STATS }
namespaceOwnership: InterNamespaceAllowed
ingress: { classNames: [lockgate] }
http:
  escapedSlashes: keep
  headersWithUnderscores: allow
  untrustedHeaders: []
  allowChunkedLength: true
compression: { algorithms: [gzip], minimumSize: 30B }
tls: { strictServerNames: true }
timeouts: { response: 15s, requestHeaders: 'off' }
watch: { gatewayApi: false }
leaderElection: { enabled: false }
";

impl Site {
    /// Starts all programs, and creates the namespaces and Services of all slots.
    pub async fn open() -> Self {
        let flags = ["--max-requests-inflight=3000", "--max-mutating-requests-inflight=1000"];
        let server = ApiServer::start_with(&[], &flags).await;
        server
            .kubectl(
                &["apply", "--server-side", "-f", &lab("contour-crds").join("contour.yaml").display().to_string()],
                "",
            )
            .await;
        server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"], "").await;
        server.kubectl(&["create", "namespace", "projectcontour"], "").await;
        let mut backends = Vec::new();
        // EndpointSlices cannot have addresses of the loopback interface.
        let own = ports::own_address().expect("an address that is not loopback");
        let mut services = Vec::new();
        for which in ['a', 'b'] {
            for service in SERVICES {
                let backend = backend(own, format!("{which}/{service}")).await;
                services.push((which, *service, backend.address.port()));
                backends.push(backend);
            }
        }
        let authority = Authority::new();
        let mut api = Api::new(server.target());
        for side in Side::ALL {
            for number in 0..SLOTS {
                for which in ['a', 'b'] {
                    let namespace = json!({ "metadata": { "name": side.namespace(number, which) } });
                    api.create("/api/v1/namespaces", &namespace).await;
                }
                for (which, service, port) in &services {
                    serve(&mut api, &side.namespace(number, *which), service, own, *port).await;
                }
            }
        }
        let directory = tempfile::Builder::new().prefix("contour-").tempdir().expect("a temporary directory");
        let (process, contour, bootstrap) = contour(&server, directory.path());
        let kubeconfig = server.kubeconfig("admin").display().to_string();
        let mut lockgate = Lockgate::launch_by_file(&["--kubeconfig", &kubeconfig], SETTINGS);
        lockgate.wait_ready().await;
        let one = ["--concurrency", "1"];
        let admin = ports::free();
        let envoys = [
            Envoy::launch_with_flags(
                &bootstrap,
                0,
                &["--concurrency", "1", "--service-node", "envoy", "--service-cluster", "contour"],
            ),
            Envoy::launch_with_flags(&lockgate.bootstrap(Mode::Delta, admin, "envoy"), admin, &one),
        ];
        let party = Party { http: lockgate.http, https: lockgate.https };
        Self {
            authority,
            contour,
            lockgate: party,
            server,
            _programs: (process, lockgate, envoys),
            _backends: backends,
            _directory: directory,
        }
    }

    /// Returns the Envoy of a side.
    pub fn party(&self, side: Side) -> &Party {
        if side == Side::Lockgate { &self.lockgate } else { &self.contour }
    }

    /// Returns a client of the API server.
    pub fn api(&self) -> Api {
        Api::new(self.server.target())
    }

    /// Creates a Secret with a certificate for these hosts in both namespaces of a set, in the place of an older one.
    pub async fn certify(&self, api: &mut Api, side: Side, number: u64, hosts: &[&str]) {
        let pair = self.authority.issue(hosts);
        for which in ['a', 'b'] {
            let path = format!("/api/v1/namespaces/{}/secrets", side.namespace(number, which));
            api.send(Method::DELETE, &format!("{path}/cert"), Bytes::new()).await;
            let data = json!({ "tls.crt": pair.certificate, "tls.key": pair.key });
            let secret = json!({ "metadata": { "name": "cert" }, "type": "kubernetes.io/tls", "stringData": data });
            api.create(&path, &secret).await;
        }
    }

    /// Waits until both Envoys serve a host over TLS that was created last.
    pub async fn wait_served(&self, number: u64) {
        for side in [Side::Contour, Side::Lockgate] {
            let host = side.fill(number, "canary.@s");
            let party = self.party(side);
            let secure = Target::https(party.https, &host, self.authority.der());
            let plain = Target::http(party.http, &host);
            wait_until(&format!("{host} over TLS"), async || {
                let is_served =
                    async |target: &Target, status| target.get("/").await.is_ok_and(|answer| answer.status == status);
                is_served(&plain, 301).await && is_served(&secure, 200).await
            })
            .await;
        }
    }
}

async fn serve(api: &mut Api, namespace: &str, name: &str, address: IpAddr, port: u16) {
    let ports = json!([{ "name": "http", "port": 80, "targetPort": port }]);
    let service = json!({ "metadata": { "name": name }, "spec": { "ports": ports } });
    api.create(&format!("/api/v1/namespaces/{namespace}/services"), &service).await;
    let slice = json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/service-name": name } },
        "addressType": "IPv4",
        "ports": [{ "name": "http", "port": port, "protocol": "TCP" }],
        "endpoints": [{ "addresses": [address.to_string()], "conditions": { "ready": true } }],
    });
    api.create(&format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"), &slice).await;
}

/// Starts a server that answers with its name and the request.
async fn backend(address: IpAddr, name: String) -> Server {
    Server::http_at((address, 0), move |request: Request<Incoming>| {
        let mut lines: Vec<String> = request
            .headers()
            .iter()
            .map(|(name, value)| format!("{name}: {}", String::from_utf8_lossy(value.as_bytes())))
            .collect();
        lines.sort();
        let text = format!("{} {}\n{}", request.method(), request.uri(), lines.join("\n"));
        let answer = Response::builder()
            .header("x-backend", &name)
            .header("x-served-by", "backend")
            .header("x-t", "backend")
            .header("set-cookie", format!("{}=1; Path=/a; HttpOnly", COOKIES[0]))
            .header("set-cookie", format!("{}=2; Domain=b.test; Secure; SameSite=Lax; Max-Age=60", COOKIES[1]))
            .body(Full::new(Bytes::from(text)));
        async move { answer.expect("an answer") }
    })
    .await
}

/// Starts Contour. Returns the ports and the bootstrap of its Envoy.
fn contour(server: &ApiServer, directory: &Path) -> (Process, Party, String) {
    let [xds, http, https, stats, health, metrics, debug] = [(); 7].map(|()| ports::free());
    let file = |name: &str| directory.join(name).display().to_string();
    std::fs::write(directory.join("contour.yaml"), "disablePermitInsecure: false\n").expect("the configuration file");
    let args = [
        "serve".to_owned(),
        format!("--kubeconfig={}", server.kubeconfig("admin").display()),
        format!("--config-path={}", file("contour.yaml")),
        "--insecure".into(),
        "--disable-leader-election".into(),
        "--xds-address=127.0.0.1".into(),
        format!("--xds-port={xds}"),
        "--ingress-class-name=contour".into(),
        "--envoy-service-http-address=127.0.0.1".into(),
        format!("--envoy-service-http-port={http}"),
        "--envoy-service-https-address=127.0.0.1".into(),
        format!("--envoy-service-https-port={https}"),
        "--stats-address=127.0.0.1".into(),
        format!("--stats-port={stats}"),
        "--health-address=127.0.0.1".into(),
        format!("--health-port={health}"),
        "--http-address=127.0.0.1".into(),
        format!("--http-port={metrics}"),
        "--debug-http-address=127.0.0.1".into(),
        format!("--debug-http-port={debug}"),
        "--kubernetes-client-qps=1000".into(),
        "--kubernetes-client-burst=2000".into(),
    ];
    let program = lab("contour");
    let process = Process::start("contour", &program, &args, &directory.join("contour.log"));
    let output = Command::new(&program)
        .args(["bootstrap", "--xds-address=127.0.0.1", &format!("--xds-port={xds}")])
        .args([format!("--admin-address={}", file("admin.sock")), file("bootstrap.json")])
        .output()
        .expect("contour bootstrap");
    assert!(output.status.success(), "contour bootstrap: {}", String::from_utf8_lossy(&output.stderr));
    let bootstrap = std::fs::read_to_string(file("bootstrap.json")).expect("the bootstrap");
    (process, Party { http, https }, bootstrap)
}
