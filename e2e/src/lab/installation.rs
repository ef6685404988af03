//! Lockgate in the lab, installed as its users do it: by helm.

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
    /// Where it is.
    pub namespace: String,
    /// The address of Envoy's Service.
    pub address: IpAddr,
}

impl<'a> Installation<'a> {
    /// The one that all specs share, of the class `lockgate`. It stays.
    pub(super) async fn shared(lab: &'a Lab) -> Self {
        let new = async || install(lab, "lockgate", "lockgate", &[]).await;
        let address = *SHARED.get_or_init(new).await;
        Self { lab, release: "lockgate".into(), namespace: "lockgate".into(), address }
    }

    /// One of a spec's own, with flags of helm: `--set`, `ingressClass.create=false`. To be removed by
    /// [`Installation::uninstall`].
    pub async fn new(lab: &'a Lab, release: &str, namespace: &str, flags: &[&str]) -> Self {
        let address = install(lab, release, namespace, flags).await;
        Self { lab, release: release.into(), namespace: namespace.into(), address }
    }

    /// What its objects are called, as the chart makes it of the release's name.
    pub fn name(&self) -> String {
        full_name(&self.release)
    }

    /// Plain HTTP, port 80.
    pub fn http(&self, host: &str) -> Target {
        Target::http(80, host).at(self.address)
    }

    /// HTTPS, port 443.
    pub fn https(&self, host: &str, root: CertificateDer<'static>) -> Target {
        Target::https(443, host, root).at(self.address)
    }

    /// The controller's pods.
    pub async fn controllers(&self) -> Vec<Pod> {
        self.pods("controller").await
    }

    /// Envoy's pods.
    pub async fn envoys(&self) -> Vec<Pod> {
        self.pods("envoy").await
    }

    async fn pods(&self, component: &str) -> Vec<Pod> {
        let labels = format!("app.kubernetes.io/instance={},app.kubernetes.io/component={component}", self.release);
        self.lab.pods(&self.namespace, &labels).await
    }

    /// `helm uninstall`.
    pub async fn uninstall(self) {
        self.lab.helm(&["uninstall", &self.release, "--namespace", &self.namespace, "--wait"]).await;
    }
}

/// Installs or upgrades, and waits until all is ready; the address of Envoy's Service.
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
