//! The controllers, installed as their documentation tells users.

use std::net::IpAddr;
use std::path::Path;

use anyhow::Context;

use super::objects::{self, GATEWAY, GATEWAY_NAMESPACE, Kind};
use crate::system::cases::{Options, Party};
use crate::system::controller::Which;
use crate::system::lab::Lab;

/// An installed controller.
pub(super) struct Installed {
    /// The cluster.
    pub lab: Lab,
    /// The class of Ingresses.
    pub class: &'static str,
    /// The address of the proxies: of the Gateway, or of the Service for Ingresses.
    pub address: IpAddr,
    /// The name of the controller's container.
    pub container: &'static str,
    /// The addresses of the controllers, if they have Lockgate's metrics.
    pub controllers: Vec<String>,
}

/// Starts a cluster, and installs a controller for routes of a kind.
///
/// # Errors
/// The installation fails.
pub(super) async fn install(options: &Options, party: &Party, kind: Kind) -> anyhow::Result<Installed> {
    let own = e2e::lockgate::binary();
    let lockgate = if party.against { options.programs.against.clone().context("no other program")? } else { own };
    let lockgate = std::path::absolute(lockgate)?;
    let lab = Lab::start(&lockgate, &images(options, party.which)?).await?;
    // Contour and Envoy Gateway bring the types of their own version.
    let types = options.gateway_types.first().context("there are no types of Gateway API")?;
    match party.which {
        Which::Lockgate => install_lockgate(lab, kind, types).await,
        Which::Contour => {
            let manifests = options.contour_types.as_deref().and_then(|file| file.parent()?.parent());
            install_contour(lab, kind, manifests.context("there are no manifests of Contour")?).await
        }
        Which::EnvoyGateway => {
            let chart = options.gateway_types.get(1).and_then(|types| types.ancestors().nth(4));
            install_envoy_gateway(lab, chart.context("there is no chart of Envoy Gateway")?).await
        }
    }
}

/// Returns the images of a controller and their programs.
fn images(options: &Options, which: Which) -> anyhow::Result<String> {
    let image = |pattern: &str, program: &Option<std::path::PathBuf>| {
        let program =
            std::path::absolute(program.as_ref().with_context(|| format!("{} was not built", which.as_str()))?)?;
        anyhow::Ok(format!("{pattern}={}", program.display()))
    };
    // The backend of the original program.
    let backend = "hyper-server=env HTTP_PORT=8080 echo-basic";
    Ok(match which {
        Which::Lockgate => backend.to_owned(),
        Which::Contour => format!("{backend};{}", image("projectcontour/contour", &options.programs.contour)?),
        Which::EnvoyGateway => format!("{backend};{}", image("envoyproxy/gateway", &options.programs.envoy_gateway)?),
    })
}

/// Installs the chart with its defaults.
async fn install_lockgate(lab: Lab, kind: Kind, types: &Path) -> anyhow::Result<Installed> {
    const NAMESPACE: &str = "lockgate";
    if kind == Kind::HttpRoute {
        lab.apply_files(types).await?;
    }
    helm(&lab, NAMESPACE, NAMESPACE, Path::new("charts/lockgate"), &[]).await?;
    let address = match kind {
        Kind::HttpRoute => gateway(&lab, "lockgate", "lockgate.dev/gateway-controller").await?,
        Kind::Ingress => service(&lab, NAMESPACE, "lockgate-envoy").await?,
    };
    let controllers = lab.pods(NAMESPACE, "app.kubernetes.io/component=controller").await?;
    Ok(Installed { lab, class: "lockgate", address, container: "lockgate", controllers })
}

/// Applies the manifests in Contour's directory `examples`: of the quickstart, or of the provisioner of Gateways.
async fn install_contour(lab: Lab, kind: Kind, manifests: &Path) -> anyhow::Result<Installed> {
    const NAMESPACE: &str = "projectcontour";
    let address = match kind {
        Kind::HttpRoute => {
            for path in ["contour/01-crds.yaml", "gateway/00-crds.yaml", "gateway-provisioner"] {
                lab.apply_files(&manifests.join(path)).await?;
            }
            lab.rolled_out(NAMESPACE, "deployment/contour-gateway-provisioner").await?;
            gateway(&lab, "contour", "projectcontour.io/gateway-controller").await?
        }
        Kind::Ingress => {
            lab.apply_files(&manifests.join("contour")).await?;
            lab.rolled_out(NAMESPACE, "deployment/contour").await?;
            lab.rolled_out(NAMESPACE, "daemonset/envoy").await?;
            service(&lab, NAMESPACE, "envoy").await?
        }
    };
    Ok(Installed { lab, class: "contour", address, container: "contour", controllers: Vec::new() })
}

/// Installs the chart with its defaults. The chart in a module has a template of its values.
async fn install_envoy_gateway(lab: Lab, chart: &Path) -> anyhow::Result<Installed> {
    let version = chart.ancestors().find_map(|path| path.file_name()?.to_str()?.split_once('@'));
    let version = version.map(|(_, version)| version).context("a chart without a version")?;
    let values = std::fs::read_to_string(chart.join("values.tmpl.yaml"))?
        .replace("${GatewayImage}", &format!("docker.io/envoyproxy/gateway:{version}"))
        .replace("${GatewayImagePullPolicy}", "IfNotPresent");
    let file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
    std::fs::write(file.path(), values)?;
    let flags = ["--values", &file.path().display().to_string()];
    helm(&lab, "eg", "envoy-gateway-system", chart, &flags).await?;
    let address = gateway(&lab, "eg", "gateway.envoyproxy.io/gatewayclass-controller").await?;
    Ok(Installed { lab, class: "eg", address, container: "envoy-gateway", controllers: Vec::new() })
}

async fn helm(lab: &Lab, release: &str, namespace: &str, chart: &Path, flags: &[&str]) -> anyhow::Result<()> {
    let chart = chart.display().to_string();
    let args = ["upgrade", "--install", release, &chart, "--namespace", namespace, "--create-namespace", "--wait"];
    lab.run("helm", &[&args[..], &["--timeout", "180s"], flags].concat(), "").await.map(drop)
}

/// Creates the Gateway, and returns its address.
async fn gateway(lab: &Lab, class: &str, controller: &str) -> anyhow::Result<IpAddr> {
    lab.apply(&objects::gateway(class, controller)).await?;
    let gateway = format!("gateway/{GATEWAY}");
    Ok(lab.field(GATEWAY_NAMESPACE, &gateway, ".status.addresses[0].value").await?.parse()?)
}

/// Returns the address of a Service.
async fn service(lab: &Lab, namespace: &str, name: &str) -> anyhow::Result<IpAddr> {
    Ok(lab.field(namespace, &format!("service/{name}"), ".status.loadBalancer.ingress[0].ip").await?.parse()?)
}
