//! Envoy Gateway on an API server without pods: its process, its certificates, and its Envoys.
//!
//! It writes a Deployment for each Gateway, and nothing runs that here. Clients connect to its xDS server as the pods of
//! the Deployment would: with the client certificate, and with the name of the Gateway as `node.cluster`.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, anyhow, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::ports;
use e2e::process::Process;
use serde_json::Value;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::http2::Tls;
use crate::system::cluster::Cluster;

/// The namespace of the controller, its Secrets, and the objects that it writes.
pub const NAMESPACE: &str = "envoy-gateway-system";
/// The port of its xDS server, which no setting changes.
pub const XDS_PORT: u16 = 18_000;

/// The limit of requests to the API server is raised: 10,000 statuses would take 200 s otherwise. No webhook runs,
/// because there are no pods.
const SETTINGS: &str = "\
apiVersion: gateway.envoyproxy.io/v1alpha1
kind: EnvoyGateway
gateway: { controllerName: gateway.envoyproxy.io/gatewayclass-controller }
provider:
  type: Kubernetes
  kubernetes:
    client: { rateLimit: { qps: 1000, burst: 2000 } }
    proxyTopologyInjector: { disabled: true }
";

/// Runs the program in the root directory `$0`, as the same process. Its libraries are there too.
const IN_A_ROOT: &str = "mount --bind /usr \"$0/usr\" && \
    exec chroot \"$0\" /envoy-gateway server --config-path /settings.yaml";

/// A running Envoy Gateway.
pub struct EnvoyGateway {
    /// The process.
    pub process: Process,
    /// When it was started.
    pub started: Instant,
    directory: tempfile::TempDir,
    tls: Tls,
}

impl EnvoyGateway {
    /// Starts it. Its files have fixed absolute paths, so its root is a directory of its own.
    ///
    /// # Errors
    /// The program fails, or the certificates are missing.
    pub async fn start(program: &Path, cluster: &Cluster) -> anyhow::Result<Self> {
        let kubeconfig = cluster.kubeconfig();
        let certificates = Command::new(program)
            .args(["certgen", "--disable-topology-injector"])
            .env("KUBECONFIG", &kubeconfig)
            .output()
            .context("envoy-gateway certgen")?;
        let error = String::from_utf8_lossy(&certificates.stderr);
        ensure!(certificates.status.success(), "envoy-gateway certgen: {error}");

        let directory = tempfile::Builder::new().prefix("envoy-gateway-").tempdir()?;
        let write = |name: &str, content: &[u8]| std::fs::write(directory.path().join(name), content);
        for name in ["certs", "client", "tmp", "usr"] {
            std::fs::create_dir(directory.path().join(name))?;
        }
        for name in ["lib", "lib64"] {
            symlink(format!("usr/{name}"), directory.path().join(name))?;
        }
        for (secret, place) in [("envoy-gateway", "certs"), ("envoy", "client")] {
            let secret = cluster.kubectl(&["get", "secret", "-n", NAMESPACE, secret, "-o", "json"]).await;
            let secret: Value = serde_json::from_str(&secret)?;
            for file in ["ca.crt", "tls.crt", "tls.key"] {
                let content = BASE64_STANDARD.decode(secret["data"][file].as_str().unwrap_or_default())?;
                write(&format!("{place}/{file}"), &content)?;
            }
        }
        let text = std::fs::read_to_string(&kubeconfig)?;
        let authority = text.split("certificate-authority: ").nth(1).and_then(|rest| rest.split([' ', '\n']).next());
        let authority = authority.context("a kubeconfig without an authority")?;
        write("ca.crt", &std::fs::read(authority)?)?;
        write("kubeconfig", text.replace(authority, "/ca.crt").as_bytes())?;
        write("settings.yaml", SETTINGS.as_bytes())?;
        std::fs::copy(program, directory.path().join("envoy-gateway"))?;
        let root = directory.path().display().to_string();
        let args = ["KUBECONFIG=/kubeconfig", "HOME=/tmp", "unshare", "--mount", "sh", "-c", IN_A_ROOT, &root];
        let log = directory.path().join("envoy-gateway.log");
        let started = Instant::now();
        let process = Process::start("envoy-gateway", Path::new("/usr/bin/env"), &args, &log);
        let tls = tls(&directory.path().join("client"))?;
        Ok(Self { process, started, directory, tls })
    }

    /// The TLS of a client.
    pub fn tls(&self) -> Tls {
        self.tls.clone()
    }

    /// The bootstrap of an Envoy of a Gateway, from the arguments of its Deployment, with paths and ports of this machine.
    ///
    /// # Errors
    /// There is no such Deployment.
    pub fn bootstrap(&self, deployment: &Value, admin: u16) -> anyhow::Result<String> {
        let args = deployment["spec"]["template"]["spec"]["containers"][0]["args"].as_array();
        let mut args = args.into_iter().flatten().filter_map(Value::as_str);
        let text = args.find(|arg| *arg == "--config-yaml").and_then(|_| args.next());
        let text = text.context("the Deployment has no bootstrap")?;
        let client = self.directory.path().join("client");
        let file = |name: &str| client.join(name).display().to_string();
        let resource = |content: String| {
            let kind = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";
            format!(r#"{{"resources":[{{"@type":"{kind}",{content}}}]}}"#)
        };
        let pair = format!(
            r#""name":"xds_certificate","tls_certificate":{{"certificate_chain":{{"filename":"{}"}},"private_key":{{"filename":"{}"}}}}"#,
            file("tls.crt"),
            file("tls.key")
        );
        let authority = format!(
            r#""name":"xds_trusted_ca","validation_context":{{"trusted_ca":{{"filename":"{}"}}}}"#,
            file("ca.crt")
        );
        std::fs::write(client.join("xds-certificate.json"), resource(pair))?;
        std::fs::write(client.join("xds-trusted-ca.json"), resource(authority))?;
        let server = text.lines().find(|line| line.contains("address: envoy-gateway."));
        let server =
            server.and_then(|line| line.split("address: ").nth(1)).context("the bootstrap has no xDS server")?;
        let mut text = text
            .replace(server, "127.0.0.1")
            .replace("/sds/", &format!("{}/", client.display()))
            .replace("$(ENVOY_SERVICE_ZONE)", "zone")
            .replace("port_value: 19000", &format!("port_value: {admin}"));
        for port in ["19001", "19003"] {
            text = text.replace(&format!("port_value: {port}"), &format!("port_value: {}", ports::free()));
        }
        Ok(text)
    }
}

/// The TLS of a client with the certificate of an Envoy.
fn tls(directory: &Path) -> anyhow::Result<Tls> {
    let file = |name: &str| -> PathBuf { directory.join(name) };
    let read = |name: &str| CertificateDer::from_pem_file(file(name)).map_err(|error| anyhow!("{name}: {error}"));
    let mut roots = RootCertStore::empty();
    roots.add(read("ca.crt")?)?;
    let key = PrivateKeyDer::from_pem_file(file("tls.key")).map_err(|error| anyhow!("tls.key: {error}"))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots)
        .with_client_auth_cert(vec![read("tls.crt")?], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Tls { config: Arc::new(config), server: "envoy-gateway" })
}
