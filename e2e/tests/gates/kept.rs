//! Live resources whose new content Envoy rejects while the controller restarts. The new controller does not know the old
//! content. The state of the world must still contain the name, because Envoy deletes the resources that it leaves out.

use e2e::load::Plan;
use e2e::{Backend, Envoy, Fetch, Load, Lockgate, Manifests, Source, Target, ports, resources, wait_until};
use serde_json::{Value, json};

/// The resource with the rejected content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    Cluster,
    /// A cluster that violates the constraints of its fields. Envoy applies no part of the response.
    InvalidCluster,
    Listener,
    Scope,
}

/// The content of the resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Content {
    Live,
    Rejected,
    Mended,
}

/// The resources of two hosts, each with a cluster. With `Scope`, each host also has a scope. With `Listener`, the other
/// host also has a listener.
struct Site {
    fetch: Fetch,
    fault: Fault,
    ports: [u16; 2],
    backend: Backend,
    files: Manifests,
}

impl Site {
    async fn new(fetch: Fetch, fault: Fault) -> Self {
        let ports = [ports::free(), ports::free()];
        Self { fetch, fault, ports, backend: Backend::start("a").await, files: Manifests::new() }
    }

    fn live(&self) -> Target {
        Target::http(self.ports[0], "live.test")
    }

    fn other(&self) -> Target {
        Target::http(self.ports[usize::from(self.fault == Fault::Listener)], "other.test")
    }

    fn publish(&self, content: Content, other: bool) {
        let hosts: &[&str] = if other { &["live", "other"] } else { &["live"] };
        let mut all: Vec<Value> = hosts.iter().flat_map(|name| self.cluster(name, content)).collect();
        let source = self.fetch.source();
        let host = |name: &str| resources::virtual_host(name, &format!("{name}.test"), name);
        if self.fault == Fault::Scope {
            let key = json!({ "fragments": [{ "header_value_extractor": { "name": ":authority", "index": 0 } }] });
            let scoped = json!({ "scoped_routes": { "name": "scopes", "scope_key_builder": key,
                "rds_config_source": source, "scoped_rds": { "scoped_rds_config_source": source } } });
            all.push(resources::listener("live", self.ports[0], scoped));
            all.extend(hosts.iter().map(|name| {
                let mut virtual_hosts = vec![host(name)];
                match content {
                    Content::Rejected if *name == "live" => {
                        virtual_hosts.push(resources::virtual_host("twin", "live.test", name))
                    }
                    Content::Mended if *name == "live" => virtual_hosts[0]["name"] = "mended".into(),
                    _ => {}
                }
                let scope = json!({ "name": name, "key": { "fragments": [{ "string_key": format!("{name}.test") }] },
                    "route_configuration": { "name": name, "virtual_hosts": virtual_hosts } });
                resources::typed("envoy.config.route.v3.ScopedRouteConfiguration", scope)
            }));
        } else {
            let hosts: Vec<Value> = hosts.iter().map(|name| host(name)).collect();
            all.push(resources::routes("r", &hosts));
            all.push(self.listener("live", self.ports[0], content));
            if other && self.fault == Fault::Listener {
                all.push(self.listener("other", self.ports[1], content));
            }
        }
        let documents: Vec<String> = all.iter().map(ToString::to_string).collect();
        self.files.write("all.yaml", &documents.join("\n---\n"));
    }

    fn cluster(&self, name: &str, content: Content) -> [Value; 2] {
        let mut cluster = resources::cluster(name, &self.fetch.source());
        match (self.fault, content) {
            _ if name != "live" => {}
            (Fault::Cluster, Content::Rejected) => {
                cluster["type"] = "STATIC".into();
                cluster.as_object_mut().expect("an object").remove("eds_cluster_config");
                cluster["load_assignment"] = json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": [{ "endpoint":
                    { "address": { "socket_address": { "address": "no address", "port_value": 1 } } } }] }] });
            }
            (Fault::InvalidCluster, Content::Rejected) => cluster["connect_timeout"] = "0s".into(),
            (Fault::Cluster | Fault::InvalidCluster, Content::Mended) => cluster["metadata"] = mended(),
            _ => {}
        }
        [cluster, resources::endpoints(name, &[self.backend.address])]
    }

    fn listener(&self, name: &str, port: u16, content: Content) -> Value {
        let mut listener = resources::listener(name, port, resources::rds("r", &self.fetch.source()));
        match (self.fault, content) {
            (Fault::Listener, Content::Rejected) if name == "live" => {
                listener["filter_chains"][0]["transport_socket"] = json!({ "name": "no.such.socket" });
            }
            (Fault::Listener, Content::Mended) if name == "live" => listener["metadata"] = mended(),
            _ => {}
        }
        listener
    }
}

fn mended() -> Value {
    json!({ "filter_metadata": { "test": { "state": "mended" } } })
}

async fn nacks_above(lockgate: &Lockgate, before: usize) -> usize {
    let count = || lockgate.log().matches("NACK").count();
    wait_until("a NACK", async || count() > before).await;
    count()
}

/// A live resource is rejected, the controller restarts twice, another host is added, and the resource is mended.
async fn a_live_resource_survives(fetch: Fetch, fault: Fault) {
    let site = Site::new(fetch, fault).await;
    site.publish(Content::Live, false);
    let mut lockgate = Lockgate::start(&Source::Resources(site.files.path().into()), &[]).await;
    let admin = ports::free();
    let mut envoy = Envoy::launch_with(&fetch.bootstrap(lockgate.xds, admin).to_string(), admin);
    envoy.wait_ready().await;
    wait_until("the live host", async || site.live().backend("/").await.is_some()).await;
    let load = Load::start(Plan::new(site.live(), "/")).await;
    site.publish(Content::Rejected, false);
    let mut nacks = nacks_above(&lockgate, 0).await;
    load.answers(300).await;
    for _ in 0..2 {
        lockgate.kill();
        load.answers(50).await;
        lockgate.restart();
        lockgate.wait_ready().await;
        nacks = nacks_above(&lockgate, nacks).await;
        load.answers(1000).await;
    }
    site.publish(Content::Rejected, true);
    let serves_other = || async { site.other().backend("/").await.is_some() };
    match fault {
        Fault::Cluster | Fault::Listener => drop(wait_until("the other host", &serves_other).await),
        // Envoy applies no part of the response.
        Fault::InvalidCluster | Fault::Scope => drop(nacks_above(&lockgate, nacks).await),
    }
    load.answers(500).await;
    println!("other: {}", serves_other().await);
    assert!(site.live().backend("/").await.is_some(), "over a new connection");
    site.publish(Content::Mended, true);
    wait_until("the mended resource", async || envoy.get("/config_dump").await.text().contains("mended")).await;
    wait_until("the other host", &serves_other).await;
    load.answers(500).await;
    let report = load.stop().await;
    println!("{fault:?}, {fetch:?}: {report}");
    for line in lockgate.log().lines().filter(|line| line.contains("NACK")) {
        println!("{line}");
    }
    assert_eq!(report.failed(), 0, "{report}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s36_a_live_cluster_survives_its_rejection_and_restarts_sotw() {
    a_live_resource_survives(Fetch::AdsSotw, Fault::Cluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s36_a_live_cluster_survives_a_violated_constraint_and_restarts_sotw() {
    a_live_resource_survives(Fetch::AdsSotw, Fault::InvalidCluster).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s36_a_live_listener_survives_its_rejection_and_restarts_sotw() {
    a_live_resource_survives(Fetch::AdsSotw, Fault::Listener).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s36_a_live_scope_survives_its_rejection_and_restarts_sotw() {
    a_live_resource_survives(Fetch::AdsSotw, Fault::Scope).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn s36_a_live_cluster_survives_its_rejection_and_restarts_delta() {
    a_live_resource_survives(Fetch::AdsDelta, Fault::Cluster).await;
}
