//! Lockgate in the lab, installed by helm.

use std::net::IpAddr;

use rustls::pki_types::CertificateDer;
use tokio::sync::OnceCell;

use super::{Lab, Pod};
use crate::client::Target;

static SHARED: OnceCell<IpAddr> = OnceCell::const_new();

/// A release of the chart.
pub struct Installation<'a> {
    lab: &'a Lab,
    /// The name of the release.
    pub release: String,
    /// The namespace.
    pub namespace: String,
    /// The address of Envoy's Service.
    pub address: IpAddr,
}

impl<'a> Installation<'a> {
    /// Returns the shared installation with the class `lockgate`. It is not removed.
    pub(super) async fn shared(lab: &'a Lab) -> Self {
        let new = async || install(lab, "lockgate", "lockgate", &["--set", "gatewayAPI.manageServices=true"]).await;
        let address = *SHARED.get_or_init(new).await;
        Self { lab, release: "lockgate".into(), namespace: "lockgate".into(), address }
    }

    /// Installs a separate release with flags of helm such as `--set`, `ingressClass.create=false`.
    /// [`Installation::uninstall`] removes it.
    pub async fn new(lab: &'a Lab, release: &str, namespace: &str, flags: &[&str]) -> Self {
        let address = install(lab, release, namespace, flags).await;
        Self { lab, release: release.into(), namespace: namespace.into(), address }
    }

    /// Returns the name of its objects, which the chart derives from the name of the release.
    pub fn name(&self) -> String {
        full_name(&self.release)
    }

    /// Returns the target for plain HTTP, port 80.
    pub fn http(&self, host: &str) -> Target {
        Target::http(80, host).at(self.address)
    }

    /// Returns the target for HTTPS, port 443.
    pub fn https(&self, host: &str, root: CertificateDer<'static>) -> Target {
        Target::https(443, host, root).at(self.address)
    }

    /// Returns the controller's pods.
    pub async fn controllers(&self) -> Vec<Pod> {
        self.pods("controller").await
    }

    /// Returns Envoy's pods.
    pub async fn envoys(&self) -> Vec<Pod> {
        self.pods("envoy").await
    }

    async fn pods(&self, component: &str) -> Vec<Pod> {
        let labels = format!("app.kubernetes.io/instance={},app.kubernetes.io/component={component}", self.release);
        self.lab.pods(&self.namespace, &labels).await
    }

    /// Uninstalls the release.
    pub async fn uninstall(self) {
        self.lab.helm(&["uninstall", &self.release, "--namespace", &self.namespace, "--wait"]).await;
    }
}

/// Installs or upgrades the release, and waits until it is ready. Returns the address of Envoy's Service.
async fn install(lab: &Lab, release: &str, namespace: &str, flags: &[&str]) -> IpAddr {
    let mut args = vec!["upgrade", "--install", release, "charts/lockgate", "--namespace", namespace];
    args.extend(["--create-namespace", "--wait", "--timeout", "120s"]);
    args.extend(flags);
    lab.helm(&args).await;
    lab.address(namespace, &format!("{}-envoy", full_name(release))).await
}

fn full_name(release: &str) -> String {
    if release.contains("lockgate") { release.into() } else { format!("{release}-lockgate") }
}
