//! The victim: its installation, its hosts, and the load on them.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use e2e::lab::echo::Echoed;
use e2e::lab::{Installation, Namespace, Pod, echo};
use e2e::load::Plan;
use e2e::lockgate::series;
use e2e::{Authority, Lab, Load, Target};
use serde_json::Value;

use super::gateway;
use super::tenant::{ingress, path, tls};

/// The name of the release and of its namespace.
pub const RELEASE: &str = "hostile";
/// The class of all Ingresses of this spec.
pub const CLASS: &str = "hostile";
/// A default certificate for hosts without their own. ExternalName Services are allowed, so that their targets are
/// checked.
const FLAGS: &[&str] = &[
    "--set=ingressClass.name=hostile",
    "--set=settings.ingress.controllerName=hostile.test/lockgate",
    "--set=gatewayAPI.gatewayClass.create=true",
    "--set=gatewayAPI.gatewayClass.name=hostile",
    "--set=settings.gateway.controller=hostile.test/gateways",
    "--set=settings.tls.defaultSecret=hostile/default",
    "--set=settings.externalNames.allow=true",
    "--set=envoy.drain.minSeconds=2",
    "--set=envoy.drain.deadlineSeconds=20",
];

/// A host of the victim, and a served path.
#[derive(Debug, Clone, Copy)]
pub struct Host {
    pub name: &'static str,
    path: &'static str,
    way: Way,
}

/// The listener of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Http,
    Https,
    /// Plain HTTP at the listener of the Gateway.
    Gateway,
}

/// A host with its own certificate.
pub const OWN: &str = "own.victim.test";
/// A host with the default certificate.
pub const DEFAULT: &str = "default.platform.test";
/// A host that only matches the wildcard host of the victim.
pub const BELOW: &str = "a.wild.victim.test";
/// A host with the single path `/only`, in clear text.
pub const NARROW: &str = "narrow.victim.test";
/// All hosts.
pub const HOSTS: [Host; 4] = [
    Host { name: OWN, path: "/", way: Way::Https },
    Host { name: DEFAULT, path: "/", way: Way::Https },
    Host { name: BELOW, path: "/", way: Way::Https },
    Host { name: NARROW, path: "/only", way: Way::Http },
];
/// A host of the Gateway of [`gateway::create`], to which every namespace may attach routes.
pub const SHARED: Host = Host { name: "shared.victim.test", path: "/only", way: Way::Gateway };
/// A host that another namespace owns until it terminates.
pub const INHERITED: Host = Host { name: "inherited.test", path: "/", way: Way::Https };

/// The victim's namespace, its certificates, and the installation that serves it.
pub struct Victim<'a> {
    pub lab: &'a Lab,
    pub lockgate: Installation<'a>,
    pub space: Namespace<'a>,
    /// The Service of the Gateway, and its port of the Envoys.
    gateway: (IpAddr, u16),
    authority: Authority,
    changes: AtomicU32,
}

/// The load on each host.
pub struct Loads(Vec<(&'static str, Load)>);

impl<'a> Victim<'a> {
    pub async fn new(lab: &'a Lab) -> Self {
        let authority = Authority::new();
        lab.kubectl(&["create", "namespace", RELEASE], "").await;
        lab.apply(&authority.issue(&["*.platform.test"]).secret(RELEASE, "default")).await;
        gateway::install(lab).await;
        let lockgate = Installation::new(lab, RELEASE, RELEASE, FLAGS).await;
        let space = lab.namespace("victim").await;
        space.apply(&echo("echo").replicas(2).yaml()).await;
        space.endpoints("echo", 2).await;
        let (wild, root) = ("*.wild.victim.test", path("/", "Prefix", "echo"));
        let secret = |name: &str, host: &str| authority.issue(&[host]).secret(&space.name, name);
        // No two certificates cover the same host, so each host is served with its own certificate.
        let objects = [
            secret("own", OWN),
            secret("wild", wild),
            secret("inherited", INHERITED.name),
            ingress("own", OWN, &root, &tls(OWN, "own")),
            ingress("default", DEFAULT, &root, &format!("tls: [{{ hosts: [{DEFAULT}] }}]")),
            ingress("wild", wild, &root, &tls(wild, "wild")),
            ingress("narrow", NARROW, &path("/only", "Prefix", "echo"), ""),
            ingress("inherited", INHERITED.name, &root, &tls(INHERITED.name, "inherited")),
        ];
        space.apply(&objects.join("---\n")).await;
        let gateway = gateway::create(&space).await;
        let victim = Self { lab, lockgate, space, gateway, authority, changes: AtomicU32::new(0) };
        for host in HOSTS.into_iter().chain([SHARED]) {
            victim.wait_served(host).await;
            // Nodes may route the address of a Service later than its status names it.
            let target = victim.balanced(host);
            let right = async || victim.fault(&target, host.path).await.is_none().then_some(());
            lab.until(&format!("{} through its Service", host.name), right).await;
        }
        victim
    }

    /// Runs kubectl in the namespace of the installation, and waits until the workloads that it changed are ready.
    pub async fn kubectl(&self, args: &[&str]) {
        let kubectl = async |args: &[&str]| {
            self.lab.kubectl(&[&["--namespace", RELEASE][..], args].concat(), "").await;
        };
        kubectl(args).await;
        let what = args.iter().find(|arg| arg.starts_with("deployment/")).expect("a Deployment");
        kubectl(&["rollout", "status", what, "--timeout=120s"]).await;
    }

    /// Returns the addresses of the ready Envoys.
    pub async fn envoys(&self) -> Vec<IpAddr> {
        addresses(&self.lockgate.envoys().await)
    }

    /// Returns the addresses of the ready controllers.
    pub async fn controllers(&self) -> Vec<IpAddr> {
        addresses(&self.lockgate.controllers().await)
    }

    /// Returns the target of a host at one Envoy.
    pub fn at(&self, envoy: IpAddr, host: Host) -> Target {
        let target = match host.way {
            Way::Https => Target::https(8443, host.name, self.authority.der()),
            Way::Http => Target::http(8080, host.name),
            Way::Gateway => Target::http(self.gateway.1, host.name),
        };
        target.at(envoy)
    }

    /// Returns the target of a host through the load balancer.
    fn balanced(&self, host: Host) -> Target {
        match host.way {
            Way::Https => self.lockgate.https(host.name, self.authority.der()),
            Way::Http => self.lockgate.http(host.name),
            Way::Gateway => Target::http(80, host.name).at(self.gateway.0),
        }
    }

    /// Returns the fault of the answer for a host: a wrong status, backend, or certificate.
    async fn fault(&self, target: &Target, path: &str) -> Option<String> {
        match target.get(path).await {
            Err(error) => Some(error.to_string()),
            Ok(answer) if answer.status != 200 => Some(format!("status {}", answer.status)),
            Ok(answer) => {
                let backend = Echoed::of(&answer).map(|echoed| echoed.namespace);
                (backend.as_ref() != Some(&self.space.name)).then(|| format!("answered by {backend:?}"))
            }
        }
    }

    /// Waits until every Envoy serves a host.
    pub async fn wait_served(&self, host: Host) -> Duration {
        let start = Instant::now();
        for envoy in self.envoys().await {
            let target = self.at(envoy, host);
            let right = async || self.fault(&target, host.path).await.is_none().then_some(());
            self.lab.until(&format!("{} at {envoy}", host.name), right).await;
        }
        start.elapsed()
    }

    /// Asserts that every Envoy serves these hosts with their certificates now, and that no Envoy serves paths that the
    /// victim has not declared.
    pub async fn assert_served(&self, hosts: &[Host]) {
        let envoys = self.envoys().await;
        for envoy in &envoys {
            for host in hosts {
                let fault = self.fault(&self.at(*envoy, *host), host.path).await;
                assert_eq!(fault, None, "{} at {envoy}", host.name);
            }
            let other = Target::http(8080, NARROW).at(*envoy).get("/other").await.expect("an answer");
            assert_eq!(other.status, 404, "{NARROW}/other at {envoy}");
        }
        println!("    {} hosts served by each of {} Envoys", hosts.len(), envoys.len());
    }

    /// Adds a host with a certificate, and waits until every Envoy serves it.
    pub async fn change(&self) -> Duration {
        let number = self.changes.fetch_add(1, Ordering::Relaxed);
        // The host matches the wildcard host of the victim, so no other namespace may own it.
        let (name, secret) = (format!("change-{number}.wild.victim.test"), format!("change-{number}"));
        let pair = self.authority.issue(&[&name]).secret(&self.space.name, &secret);
        let object = ingress(&secret, &name, &path("/", "Prefix", "echo"), &tls(&name, &secret));
        self.space.apply(&[pair, object].join("---\n")).await;
        let start = Instant::now();
        for envoy in self.envoys().await {
            let target = Target::https(8443, &name, self.authority.der()).at(envoy);
            let right = async || self.fault(&target, "/").await.is_none().then_some(());
            self.lab.until(&format!("{name} at {envoy}"), right).await;
        }
        start.elapsed()
    }

    /// Starts load on hosts. TLS connections are renewed often, and each handshake verifies the certificate.
    pub async fn load(&self, hosts: &[Host]) -> Loads {
        let mut loads = Vec::new();
        for host in hosts {
            let plan = Plan {
                rate: 50,
                connections: 4,
                renew_after: (host.way == Way::Https).then_some(5),
                namespace: Some(self.space.name.clone()),
                ..Plan::new(self.balanced(*host), host.path)
            };
            loads.push((host.name, Load::start(plan).await));
        }
        Loads(loads)
    }

    /// Asserts that no response of a controller was rejected: no invalid resource was sent.
    pub async fn assert_nothing_rejected(&self) {
        for controller in self.controllers().await {
            let page = Target::http(18001, "localhost").at(controller).get("/metrics").await.expect("/metrics").text();
            let rejected: Vec<_> =
                series(&page).into_iter().filter(|(name, count)| name.contains("xds_nacks") && *count > 0.0).collect();
            assert!(rejected.is_empty(), "{rejected:?}");
        }
    }

    /// Asserts that no container was restarted because of a failed probe.
    pub async fn assert_nothing_restarted(&self) {
        let pods = [self.lockgate.controllers().await, self.lockgate.envoys().await].concat();
        assert!(pods.iter().all(|pod| pod.ready && pod.restarts == 0), "{pods:?}");
    }

    /// Asserts that no Event warns the victim, except for the inherited host and its own mistake.
    pub async fn assert_not_warned(&self) {
        let warned: Vec<String> = self.events().await.iter().filter_map(warning).collect();
        let expected = |warning: &&String| ["inherited: ", "mistake: "].iter().any(|known| warning.starts_with(known));
        let others: Vec<_> = warned.iter().filter(|warning| !expected(warning)).collect();
        assert!(others.is_empty(), "{others:#?}");
    }

    /// Creates an invalid object, and waits for the Event about it.
    pub async fn make_mistake(&self) -> Duration {
        self.space.apply(&ingress("mistake", "mistake.test", &path("/", "Prefix", "nobody"), "")).await;
        let told = async || {
            let events = self.events().await;
            events.iter().filter_map(warning).any(|text| text.starts_with("mistake: ")).then_some(())
        };
        self.lab.until("an Event on the mistake", told).await.1
    }

    async fn events(&self) -> Vec<Value> {
        self.lab.list(&format!("/apis/events.k8s.io/v1/namespaces/{}/events", self.space.name)).await
    }
}

/// Formats a warning of this installation as `NAME: REASON: NOTE`. The class of an object that cannot be decoded is
/// unknown. All installations then report the same Event, and the first one creates it.
pub fn warning(event: &Value) -> Option<String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let ours = event["reportingController"] == "hostile.test/lockgate" || event["reason"] == "InvalidEncoding";
    (ours && event["type"] == "Warning")
        .then(|| format!("{}: {}: {}", text(&event["regarding"]["name"]), text(&event["reason"]), text(&event["note"])))
}

fn addresses(pods: &[Pod]) -> Vec<IpAddr> {
    pods.iter().filter(|pod| pod.ready).filter_map(|pod| pod.ip).collect()
}

impl Loads {
    /// Ends the load. No request may have failed.
    pub async fn assert_answered(self, what: &str) {
        for (_, load) in &self.0 {
            load.answers(20).await;
        }
        let mut reports = Vec::new();
        for (host, load) in self.0 {
            let report = load.stop().await;
            println!("    {host}: {report}");
            reports.push((host, report));
        }
        for (host, report) in reports {
            assert_eq!(report.failed(), 0, "{what}, {host}: {report}");
        }
    }
}
