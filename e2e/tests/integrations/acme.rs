//! cert-manager, and Pebble as its ACME server.

use std::net::IpAddr;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use e2e::{Authority, Lab, Target};
use hyper::Method;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::Page;

/// The server in the manifests of the documentation, and the replacement.
const SERVERS: [&str; 2] =
    ["https://acme-v02.api.letsencrypt.org/directory", "https://pebble.acme.svc.cluster.local:14000/dir"];
/// The flags that the lab needs: its DNS server for the verified hosts, and neither the metrics nor the probe of the official program.
const FLAGS: [&str; 3] = [
    "--set=extraArgs={--acme-http01-solver-nameservers=10.96.0.53:53}",
    "--set=prometheus.enabled=false",
    "--set=livenessProbe.enabled=false",
];

/// The name of Pebble's Service.
const NAME: &str = "pebble.acme.svc.cluster.local";

/// Returns the authority of Pebble's API. The first spec creates it.
async fn authority(lab: &Lab) -> String {
    if let Some(secret) = lab.find("/api/v1/namespaces/acme/secrets/pebble").await {
        return secret["data"]["ca.crt"].as_str().expect("an authority").to_owned();
    }
    let authority = Authority::new();
    let bundle = BASE64_STANDARD.encode(authority.pem());
    lab.apply(&format!("{}  ca.crt: {bundle}\n", authority.issue(&[NAME]).secret("acme", "pebble"))).await;
    bundle
}

/// An installation of cert-manager and Pebble.
pub(super) struct Acme<'a> {
    lab: &'a Lab,
    /// The authority of Pebble's API, PEM in Base64.
    bundle: String,
    /// Pebble's management API.
    management: Target,
    /// The management API of the DNS server.
    dns: Target,
}

impl<'a> Acme<'a> {
    /// Installs both, with the values of the page for cert-manager.
    pub(super) async fn install(lab: &'a Lab, page: &Page) -> Self {
        let names = ["acme", "cert-manager"];
        for name in names {
            lab.apply(&format!("apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {name} }}\n")).await;
        }
        let bundle = authority(lab).await;
        let manifest =
            std::fs::read_to_string(e2e::pages::file("e2e/lab/pebble.yaml")).expect("the manifest of Pebble");
        lab.apply(&manifest).await;
        let chart = e2e::lab::program("cert-manager-chart").display().to_string();
        let values = page.values("helm install cert-manager ");
        let mut args = vec!["template", "cert-manager", &chart, "--namespace", "cert-manager"];
        args.extend(values.iter().map(String::as_str).chain(FLAGS));
        // The lab has no program for the other components, which no certificate needs.
        let is_built = |object: &&str| {
            let others = ["webhook", "cainjector", "startupapicheck"];
            !others.iter().any(|part| object.contains(&format!("# Source: cert-manager/templates/{part}")))
        };
        let rendered = lab.helm(&args).await;
        let objects: Vec<&str> = rendered.split("\n---\n").filter(is_built).collect();
        // The largest definitions do not fit into an annotation.
        lab.kubectl(&["apply", "--server-side", "-f", "-"], &objects.join("\n---\n")).await;
        for (namespace, deployment) in [("acme", "dns"), ("acme", "pebble"), ("cert-manager", "cert-manager")] {
            let deployment = format!("deployment/{deployment}");
            lab.kubectl(&["--namespace", namespace, "rollout", "status", &deployment, "--timeout=120s"], "").await;
        }
        let address = async |service: &str| {
            let service = lab.get(&format!("/api/v1/namespaces/acme/services/{service}")).await;
            service["spec"]["clusterIP"].as_str().and_then(|ip| ip.parse::<IpAddr>().ok()).expect("an address")
        };
        let root =
            CertificateDer::from_pem_slice(&BASE64_STANDARD.decode(&bundle).expect("Base64")).expect("an authority");
        let management = Target::https(15000, NAME, root).at(address("pebble").await);
        let dns = Target::http(8055, "dns").at(address("dns").await);
        Self { lab, bundle, management, dns }
    }

    /// Applies a ClusterIssuer of the documentation, with Pebble as its server, and waits until it has an account.
    pub(super) async fn issuer(&self, manifest: &str) {
        let [original, replacement] = SERVERS;
        let changed = manifest.replace(original, &format!("{replacement}\n    caBundle: {}", self.bundle));
        assert_ne!(manifest, changed, "no server in\n{manifest}");
        self.lab.kubectl(&["apply", "-f", "-"], &changed).await;
        self.lab.kubectl(&["wait", "--for=condition=Ready", "--timeout=120s", "-f", "-"], &changed).await;
    }

    /// Gives a host an address in the DNS that cert-manager and Pebble use.
    pub(super) async fn resolve(&self, host: &str, address: IpAddr) {
        for (path, body) in [
            ("/clear-a", format!(r#"{{"host": "{host}."}}"#)),
            ("/add-a", format!(r#"{{"host": "{host}.", "addresses": ["{address}"]}}"#)),
        ] {
            let answer = self.dns.send(Method::POST, path, body).await.expect("an answer of the DNS server");
            assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        }
    }

    /// Returns the authority of the issued certificates.
    pub(super) async fn root(&self) -> CertificateDer<'static> {
        let answer = self.management.get("/roots/0").await.expect("an answer of Pebble");
        CertificateDer::from_pem_slice(&answer.body).expect("a certificate")
    }

    /// Returns the number of challenges in a namespace so far. Pebble verifies each order.
    pub(super) fn challenges(&self, namespace: &str) -> usize {
        self.created("challenges", namespace)
    }

    /// Returns the number of objects of a resource that cert-manager has created in a namespace.
    pub(super) fn created(&self, resource: &str, namespace: &str) -> usize {
        let account = "system:serviceaccount:cert-manager:cert-manager";
        let requests = self.lab.requests();
        let created = requests.iter().filter(|one| one.user == account && one.verb == "create" && one.status == 201);
        created.filter(|one| one.resource == resource && one.namespace == namespace).count()
    }

    /// Starts the renewal of a certificate, like `cmctl renew`.
    pub(super) async fn renew(&self, namespace: &str, certificate: &str) {
        let condition = r#"[{"op": "add", "path": "/status/conditions/-", "value": {"type": "Issuing", "status": "True",
            "reason": "ManuallyTriggered", "message": "renewal by a test"}}]"#;
        let patch = ["patch", "certificate", certificate, "--subresource=status", "--type=json", "--patch", condition];
        self.lab.kubectl(&[&["--namespace", namespace], &patch[..]].concat(), "").await;
    }
}
