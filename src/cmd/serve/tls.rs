//! TLS of xDS. Certificates come from Secrets or from a directory, and new ones are applied while connections continue.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use anyhow::bail;
use lockgate_xds::identity::{Pattern, Policy};
use lockgate_xds::server::{self, Access, Secured};
use lockgate_xds::tls::{self, Pair};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::admin::Readiness;
use crate::leader::Leader;
use crate::metrics::Metrics;
use crate::pki::directory::Trust;
use crate::pki::secrets::Secrets;
use crate::pki::{self, DedicatedFleets, Holder, Material, WantedCertificates};
use crate::replicas::{Client, Connector};
use crate::settings::{ServerOptions, Source, Xds, XdsTls};
use crate::source;

/// The DNS name of Envoys if certificates come from a directory and the settings contain no names.
const ENVOY: &str = "envoy";
/// The name of this condition for readiness.
const CERTIFICATE: &str = "the certificate of xDS";

type Supplied = watch::Receiver<Option<Result<Material, String>>>;

/// The access rules of the xDS server, and the tasks that maintain its certificates.
pub(super) struct Certificates {
    /// The access rules of the xDS server.
    pub access: Access,
    /// The connector to other replicas.
    pub connector: Connector,
    /// The prefix of the URIs in the certificates of fleets.
    fleet_uri: Option<String>,
    tasks: Vec<JoinHandle<()>>,
}

impl Certificates {
    /// Starts to maintain the certificates.
    ///
    /// Errors: the files of a directory are unusable, or the address of the API server is unknown.
    pub async fn start(
        options: &ServerOptions,
        source: &Source,
        leader: Leader,
        fleets: watch::Receiver<DedicatedFleets>,
        metrics: &Metrics,
        readiness: &Readiness,
    ) -> anyhow::Result<Self> {
        let plain = |access| Self { access, connector: Connector::Plain, fleet_uri: None, tasks: Vec::new() };
        let mut fleet_uri = None;
        let (supply, supplied) = watch::channel(None);
        let mut tasks = Vec::new();
        let settings = &options.process.xds;
        let mut names = AcceptedNames {
            envoys: settings.envoy_names.clone(),
            members: Vec::new(),
            grpc: settings.grpc_names.clone(),
            replicas: settings.replica_names.clone(),
        };
        let origin = match &settings.tls {
            None => return Ok(plain(Access::PlainFromLoopback)),
            Some(XdsTls::Off) => {
                if !settings.address.ip().is_loopback() {
                    tracing::warn!("xDS without TLS: every client receives private keys in clear text");
                }
                return Ok(plain(Access::PlainFromEverywhere));
            }
            Some(XdsTls::Directory(directory)) => {
                if names.envoys.is_empty() {
                    names.envoys.push(Pattern::exact_dns(ENVOY));
                }
                check_first(directory, &names).await?;
                tasks.push(tokio::spawn(pki::directory::follow(directory.clone(), Trust::Needed, supply)));
                format!("{}/", directory.display())
            }
            Some(XdsTls::Auto) => {
                let Source::Cluster { kubeconfig, context, .. } = source else {
                    bail!("auto: requires a Kubernetes cluster as the source");
                };
                let client = source::cluster::client(kubeconfig.clone(), context.clone()).await?;
                let wanted = wanted(settings, &client);
                let origin = format!("Secret {}/{}-server: ", wanted.namespace, wanted.prefix);
                let uri = pki::fleet_uri(&wanted);
                names.members.extend(Pattern::parse(&format!("{uri}*/*")));
                fleet_uri = Some(uri);
                names.envoys.push(Pattern::exact_uri(&Holder::Envoy.uri(&wanted)));
                names.replicas.push(Pattern::exact_uri(&Holder::Server.uri(&wanted)));
                tasks
                    .push(tokio::spawn(Secrets::new(client, wanted, fleets, metrics.clone()).maintain(leader, supply)));
                origin
            }
        };
        let (configs, config) = watch::channel(None);
        let (clients, client) = watch::channel(None);
        readiness.need(CERTIFICATE);
        tracing::info!("{names}");
        let reloader =
            Reloader { origin, names, configs, clients, metrics: metrics.clone(), readiness: readiness.clone() };
        tasks.push(tokio::spawn(reloader.run(supplied)));
        Ok(Self { access: Access::Tls(config.into()), connector: Connector::Tls(client), fleet_uri, tasks })
    }

    /// Returns the prefix of the URIs in the certificates of Envoys of dedicated fleets. The key of the Gateway follows.
    pub fn fleet_uri(&self) -> Option<String> {
        self.fleet_uri.clone()
    }

    /// Waits until a task ends, and returns the reason. Waits forever without tasks.
    pub async fn failed(&mut self) -> anyhow::Error {
        if self.tasks.is_empty() {
            return std::future::pending().await;
        }
        let (ended, ..) = futures::future::select_all(&mut self.tasks).await;
        match ended {
            Ok(()) => anyhow::anyhow!("the task that maintains the certificates of xDS ended"),
            Err(error) => anyhow::Error::new(error).context("the task that maintains the certificates of xDS panicked"),
        }
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Checks the files. Only at the start, unusable files are an error.
async fn check_first(directory: &Path, names: &AcceptedNames) -> anyhow::Result<()> {
    let material = pki::directory::read(directory, Trust::Needed).await.map_err(anyhow::Error::msg)?;
    let config = secured(&material, names);
    config.map_err(|problem| anyhow::anyhow!("{}/{problem}", directory.display())).map(drop)
}

/// The names in certificates, by role.
struct AcceptedNames {
    envoys: Vec<Pattern>,
    /// The names of Envoys of dedicated fleets.
    members: Vec<Pattern>,
    grpc: Vec<Pattern>,
    /// The names of replicas. Empty: the names in this replica's own certificate.
    replicas: Vec<Pattern>,
}

impl AcceptedNames {
    /// Returns the access policy of a server with the certificate `own`, PEM.
    fn policy(&self, own: &[u8]) -> Policy {
        let Self { envoys, members, grpc, replicas } = self;
        let replicas = if replicas.is_empty() { pki::names(own).patterns() } else { replicas.clone() };
        Policy { envoys: envoys.clone(), members: members.clone(), grpc: grpc.clone(), replicas }
    }
}

/// Formats the names for the log.
impl fmt::Display for AcceptedNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |patterns: &[Pattern], none: &str| match patterns {
            [] => none.to_owned(),
            some => some.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
        };
        let (envoys, grpc) = (list(&self.envoys, "none"), list(&self.grpc, "none"));
        let replicas = list(&self.replicas, "the names in our certificate");
        write!(
            f,
            "xDS accepts these names in client certificates: Envoys {envoys}; gRPC clients {grpc}; replicas {replicas}"
        )
    }
}

/// Returns the TLS configuration and the access policy of the server.
fn secured(material: &Material, names: &AcceptedNames) -> Result<Secured, String> {
    let Material { certificate, key, authorities } = material;
    let config = server::tls_config_of(certificate, key, authorities).map_err(|fault| fault.to_string())?;
    Ok(Secured { config, policy: Arc::new(names.policy(certificate)) })
}

/// Returns the desired certificates of this installation.
fn wanted(settings: &Xds, client: &kube::Client) -> WantedCertificates {
    let of_pod = std::env::var("POD_NAMESPACE").ok().filter(|namespace| !namespace.is_empty());
    let namespace = of_pod.unwrap_or_else(|| client.default_namespace().to_owned());
    let service = &settings.service;
    let names =
        ["", &format!(".{namespace}"), &format!(".{namespace}.svc"), &format!(".{namespace}.svc.cluster.local")]
            .map(|rest| format!("{service}{rest}"));
    WantedCertificates {
        names: names.to_vec(),
        namespace,
        prefix: settings.secrets.clone(),
        certificate_lifetime: settings.certificate_lifetime,
        authority_lifetime: settings.authority_lifetime,
        pause: settings.rotation_pause,
        fleets: DedicatedFleets::Off,
    }
}

/// Applies supplied certificates if they are usable.
struct Reloader {
    /// The origin of the certificates, for messages.
    origin: String,
    names: AcceptedNames,
    configs: watch::Sender<Option<Secured>>,
    clients: watch::Sender<Option<Client>>,
    metrics: Metrics,
    readiness: Readiness,
}

impl Reloader {
    async fn run(self, mut supplied: Supplied) {
        // The expiry of the current key pair.
        let mut current = None::<SystemTime>;
        while supplied.changed().await.is_ok() {
            let Some(supply) = supplied.borrow_and_update().clone() else { continue };
            let supply = supply.map_err(|problem| (String::new(), problem));
            let validated = supply.and_then(|material| {
                let valid =
                    validate(&material, &self.names, current).map_err(|problem| (self.origin.clone(), problem))?;
                Ok((valid, client(&material)))
            });
            match validated {
                Ok(((config, end, trust_end), client)) => {
                    self.clients.send_replace(client);
                    self.metrics.set_certificate_expiry("server", end);
                    self.metrics.set_certificate_expiry("authority", trust_end);
                    let expires = pki::timestamp(end);
                    if current.replace(end).is_some() {
                        self.metrics.certificate_reloaded(true);
                        tracing::info!(expires, "reloaded the certificates of xDS; open connections continue");
                    } else {
                        tracing::info!(expires, "the xDS server has its certificate");
                    }
                    self.configs.send_replace(Some(config));
                    self.readiness.has(CERTIFICATE);
                }
                Err((origin, problem)) => {
                    self.metrics.certificate_reloaded(false);
                    let instead = if current.is_some() {
                        "the previous certificates stay in use"
                    } else {
                        "no client can connect"
                    };
                    tracing::error!("new certificates of xDS are unusable: {origin}{problem}; {instead}");
                }
            }
        }
    }
}

/// Returns the TLS configuration for connections to other replicas, with the certificate of this replica.
fn client(material: &Material) -> Option<Client> {
    let Material { certificate, key, authorities } = material;
    let config = tls::client_config(Pair { certificate, key }, authorities).ok()?;
    let name = pki::first_name(certificate)?;
    Some((config, name.try_into().ok()?))
}

/// Returns the configuration, and the expiry of the certificate and of the authorities. An expired certificate replaces only an
/// older one, and clients reject it.
fn validate(
    material: &Material,
    names: &AcceptedNames,
    current: Option<SystemTime>,
) -> Result<(Secured, SystemTime, SystemTime), String> {
    let config = secured(material, names)?;
    let (end, _) = pki::not_after(&material.certificate).map_err(|problem| format!("tls.crt: {problem}"))?;
    let (_, trust_end) = pki::not_after(&material.authorities).map_err(|problem| format!("ca.crt: {problem}"))?;
    let now = SystemTime::now();
    if end < now {
        let problem = format!("tls.crt: it expired at {}", pki::timestamp(end));
        if current.is_some_and(|current| current > end) {
            return Err(problem);
        }
        tracing::error!("the certificate of xDS: {problem}; no Envoy will accept it");
    }
    Ok((config, end, trust_end))
}
