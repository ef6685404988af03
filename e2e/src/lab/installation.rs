//! Lockgate in the lab, installed as its users do it.

use std::net::IpAddr;

use tokio::sync::OnceCell;

use super::{Lab, Pod};
use crate::client::Target;

/// The namespace of the installation that all specs share.
const NAMESPACE: &str = "lockgate";

static SHARED: OnceCell<IpAddr> = OnceCell::const_new();

/// An installation that serves the class `lockgate`.
pub struct Installation<'a> {
    lab: &'a Lab,
    /// Where it is.
    pub namespace: &'static str,
    /// The address of Envoy's Service.
    pub address: IpAddr,
}

impl<'a> Installation<'a> {
    pub(super) async fn shared(lab: &'a Lab) -> Self {
        let address = *SHARED.get_or_init(|| install(lab)).await;
        Self { lab, namespace: NAMESPACE, address }
    }

    /// Plain HTTP, port 80.
    pub fn http(&self, host: &str) -> Target {
        Target::http(80, host).at(self.address)
    }

    /// HTTPS, port 443.
    pub fn https(&self, host: &str, root: rustls::pki_types::CertificateDer<'static>) -> Target {
        Target::https(443, host, root).at(self.address)
    }

    /// The controller's pods.
    pub async fn controllers(&self) -> Vec<Pod> {
        self.lab.pods(self.namespace, "app.kubernetes.io/name=lockgate").await
    }

    /// Envoy's pods.
    pub async fn envoys(&self) -> Vec<Pod> {
        self.lab.pods(self.namespace, "app.kubernetes.io/name=envoy").await
    }
}

async fn install(lab: &Lab) -> IpAddr {
    if lab.find(&format!("/api/v1/namespaces/{NAMESPACE}")).await.is_none() {
        lab.kubectl(&["apply", "-f", "deploy/lockgate.yaml"], "").await;
    }
    for what in ["deployment/lockgate", "deployment/envoy"] {
        lab.kubectl(&["--namespace", NAMESPACE, "rollout", "status", what, "--timeout=120s"], "").await;
    }
    lab.address(NAMESPACE, "envoy").await
}
