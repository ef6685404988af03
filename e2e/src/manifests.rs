//! A directory of Kubernetes YAML, and the objects of the tests.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::process::{output, repository};

/// A directory that `lockgate serve --manifests` reads.
pub struct Manifests {
    directory: tempfile::TempDir,
    /// A directory beside it. Files are written here and then moved, so that readers see only complete files.
    draft: tempfile::TempDir,
}

impl Manifests {
    /// Creates an empty directory.
    ///
    /// # Panics
    /// If it cannot be created.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Self {
        let new = || tempfile::Builder::new().prefix("lockgate-").tempdir().expect("a temporary directory");
        Self { directory: new(), draft: new() }
    }

    /// Copies a directory of the repository.
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn copy_of(directory: &str) -> Self {
        let copy = Self::new();
        for entry in std::fs::read_dir(repository().join(directory)).expect("the directory") {
            let path = entry.expect("an entry of the directory").path();
            if path.extension().is_some_and(|extension| extension == "yaml") {
                copy.write(path.file_name().and_then(|name| name.to_str()).expect("a file name"), &read(&path));
            }
        }
        copy
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the path of a file.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file atomically.
    ///
    /// # Panics
    /// If that fails.
    pub fn write(&self, name: &str, content: &str) {
        let draft = self.draft.path().join(name);
        std::fs::write(&draft, content).expect("a file written");
        std::fs::rename(&draft, self.file(name)).expect("a file moved");
    }

    /// Replaces every `from` in a file.
    ///
    /// # Panics
    /// If the file does not contain it, because nothing would change.
    pub fn replace(&self, name: &str, from: &str, to: &str) {
        let old = read(&self.file(name));
        assert!(old.contains(from), "{name} has no {from:?}:\n{old}");
        self.write(name, &old.replace(from, to));
    }

    /// Removes a file.
    ///
    /// # Panics
    /// If it does not exist.
    pub fn remove(&self, name: &str) {
        std::fs::remove_file(self.file(name)).expect("a file removed");
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Formats the default IngressClass of the controller.
pub fn ingress_class() -> String {
    "apiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata:\n  name: lockgate\n  annotations:\n    \
     ingressclass.kubernetes.io/is-default-class: \"true\"\nspec:\n  controller: lockgate.dev/ingress-controller\n"
        .into()
}

/// Formats a Service in `default` with the port 80 named `http`, and its endpoints. `annotations` is the content of a
/// YAML flow mapping: `lockgate.dev/connect-timeout: 3s`.
pub fn service(name: &str, annotations: &str, endpoints: &[SocketAddr]) -> String {
    let port = endpoints.first().map_or(8080, SocketAddr::port);
    let addresses: String = endpoints
        .iter()
        .map(|at| format!("  - {{ addresses: [{}], conditions: {{ ready: true }} }}\n", at.ip()))
        .collect();
    assert!(endpoints.iter().all(|at| at.port() == port), "one EndpointSlice has one port");
    let endpoints = if addresses.is_empty() { "endpoints: []\n".into() } else { format!("endpoints:\n{addresses}") };
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{ name: {name}, namespace: default, annotations: {{ {annotations} }} }}\n\
         spec:\n  ports: [{{ name: http, port: 80, targetPort: {port} }}]\n\
         ---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  name: {name}-1\n  namespace: default\n  \
         labels: {{ kubernetes.io/service-name: {name} }}\naddressType: IPv4\nports: [{{ name: http, port: {port} }}]\n\
         {endpoints}"
    )
}

/// The metadata of an Ingress of [`ingress`] whose plain HTTP is served, not redirected to https. Replaces [`DEFAULT`].
pub const SERVED: &str = "annotations: { ingress.kubernetes.io/force-ssl-redirect: 'false' }, namespace: default";

/// The namespace in the metadata of an Ingress of [`ingress`].
pub const DEFAULT: &str = "namespace: default";

/// Formats an Ingress in `default` for one host, with the path `/` to a Service. `tls` is the Secret of the host: with a usable
/// certificate, plain HTTP is redirected.
pub fn ingress(name: &str, host: &str, service: &str, tls: Option<&str>) -> String {
    let tls = tls.map(|secret| format!("  tls: [{{ hosts: [{host}], secretName: {secret} }}]\n")).unwrap_or_default();
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n{tls}  \
         rules:\n    - host: {host}\n      http:\n        paths:\n          - path: /\n            pathType: Prefix\n            \
         backend: {{ service: {{ name: {service}, port: {{ name: http }} }} }}\n"
    )
}

/// Returns the CustomResourceDefinitions of these kinds of Gateway API (`gateways`) from the official module.
///
/// # Panics
/// If the module cannot be found.
pub async fn gateway_definitions(kinds: &[&str]) -> String {
    let modules = ["conformance", "e2e/lab/tools/gateway"].map(|path| repository().join(path));
    let module = modules.iter().find(|path| path.join("go.mod").exists()).expect("a module that needs Gateway API");
    let mut go = Command::new("go");
    go.current_dir(module);
    go.args(["list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api"]);
    let module = output(go, "").await.expect("the module of Gateway API");
    // The names of experimental kinds begin with `x`.
    let name = |kind: &str| match kind.starts_with('x') {
        true => format!("experimental/gateway.networking.x-k8s.io_{kind}"),
        false => format!("standard/gateway.networking.k8s.io_{kind}"),
    };
    let file = |kind: &str| format!("{}/config/crd/{}.yaml", module.trim(), name(kind));
    let text = |kind: &&str| std::fs::read_to_string(file(kind)).unwrap_or_else(|error| panic!("{kind}: {error}"));
    documents(&kinds.iter().map(text).collect::<Vec<_>>())
}

/// Returns the GatewayClass `lockgate`, and the Gateway `default/public` with one listener, whose name is the protocol in lower case.
pub fn gateway(port: u16, protocol: &str) -> String {
    let name = protocol.to_lowercase();
    format!(
        "apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: {{ name: lockgate }}
spec: {{ controllerName: lockgate.dev/gateway-controller }}
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {{ name: public, namespace: default }}
spec: {{ gatewayClassName: lockgate, listeners: [{{ name: {name}, port: {port}, protocol: {protocol} }}] }}
"
    )
}

/// Joins documents for one file.
pub fn documents(all: &[String]) -> String {
    all.join("---\n")
}
