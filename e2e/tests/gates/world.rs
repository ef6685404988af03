//! A site with one listener, whose routes use one cluster.

use std::time::Duration;

use e2e::load::Report;
use e2e::{Backend, Envoy, Fetch, Lockgate, Manifests, Source, Target, ports, resources, wait_until};
use serde_json::{Value, json};

/// How Envoy discovers the routes of the listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A route configuration with its virtual hosts.
    Rds,
    /// Virtual hosts on their own.
    Vhds,
    /// Scopes, each with the name of a route configuration.
    Srds,
}

pub struct World {
    pub fetch: Fetch,
    pub form: Form,
    port: u16,
    pub backend: Backend,
    pub files: Manifests,
}

impl World {
    pub async fn new(fetch: Fetch) -> Self {
        Self::of(fetch, Form::Rds).await
    }

    pub async fn of(fetch: Fetch, form: Form) -> Self {
        Self { fetch, form, port: ports::free(), backend: Backend::start("a").await, files: Manifests::new() }
    }

    pub fn cluster(&self, name: &str) -> [Value; 2] {
        [resources::cluster(name, &self.fetch.source()), resources::endpoints(name, &[self.backend.address])]
    }

    /// Adds a cluster that is warm after this time.
    pub fn slow(&self, name: &str, warm_up: Duration) -> [Value; 2] {
        let [mut cluster, endpoints] = self.cluster(name);
        cluster["health_checks"] = json!([{ "timeout": "60s", "interval": "60s", "healthy_threshold": 1,
            "unhealthy_threshold": 1, "http_health_check": { "path": format!("/after/{}", warm_up.as_millis()) } }]);
        [cluster, endpoints]
    }

    /// Adds a cluster that Envoy rejects.
    pub fn bad(&self, name: &str) -> [Value; 2] {
        let [mut cluster, endpoints] = self.cluster(name);
        cluster["type"] = "STATIC".into();
        cluster.as_object_mut().expect("an object").remove("eds_cluster_config");
        cluster["load_assignment"] = json!({ "cluster_name": name, "endpoints": [{ "lb_endpoints": [{ "endpoint":
            { "address": { "socket_address": { "address": "no address", "port_value": 1 } } } }] }] });
        [cluster, endpoints]
    }

    /// Returns the listener and its routes to `to`. Envoy rejects `broken` routes: two virtual hosts have the same
    /// domain.
    fn routes(&self, to: &str, broken: bool) -> Vec<Value> {
        let source = self.fetch.source();
        let host = |name: &str| resources::virtual_host(name, "*", to);
        let names: &[&str] = if broken { &["all", "twin"] } else { &["all"] };
        let hosts: Vec<Value> = names.iter().map(|name| host(name)).collect();
        match self.form {
            Form::Rds => {
                vec![resources::listener("l", self.port, resources::rds("r", &source)), resources::routes("r", &hosts)]
            }
            Form::Vhds => {
                let mut routes = resources::routes("r", &[]);
                routes["vhds"] = json!({ "config_source": source });
                let hosts = names
                    .iter()
                    .map(|name| resources::typed("envoy.config.route.v3.VirtualHost", host(&format!("r/{name}"))));
                let listener = resources::listener("l", self.port, resources::rds("r", &source));
                [listener, routes].into_iter().chain(hosts).collect()
            }
            Form::Srds => {
                let by_host =
                    json!({ "fragments": [{ "header_value_extractor": { "name": ":authority", "index": 0 } }] });
                let scoped = json!({ "scoped_routes": { "name": "scopes", "scope_key_builder": by_host,
                    "rds_config_source": source, "scoped_rds": { "scoped_rds_config_source": source } } });
                let scope = json!({ "name": "any", "route_configuration_name": "r",
                    "key": { "fragments": [{ "string_key": "any.test" }] } });
                vec![
                    resources::listener("l", self.port, scoped),
                    resources::typed("envoy.config.route.v3.ScopedRouteConfiguration", scope),
                    resources::routes("r", &hosts),
                ]
            }
        }
    }

    /// Publishes these clusters, and routes to `to`, in one change.
    pub fn publish(&self, to: &str, clusters: &[[Value; 2]]) {
        self.publish_with(clusters, self.routes(to, false));
    }

    /// Publishes routes that Envoy rejects.
    pub fn publish_broken_routes(&self, to: &str, clusters: &[[Value; 2]]) {
        self.publish_with(clusters, self.routes(to, true));
    }

    fn publish_with(&self, clusters: &[[Value; 2]], routes: Vec<Value>) {
        let documents: Vec<String> = clusters.iter().flatten().chain(&routes).map(ToString::to_string).collect();
        self.files.write("all.yaml", &documents.join("\n---\n"));
    }

    pub fn target(&self) -> Target {
        Target::http(self.port, "any.test")
    }

    pub async fn controller(&self) -> Lockgate {
        self.controller_with(&[]).await
    }

    pub async fn controller_with(&self, flags: &[&str]) -> Lockgate {
        Lockgate::start(&Source::Resources(self.files.path().into()), flags).await
    }

    /// Starts an Envoy that serves `a`.
    pub async fn envoy(&self, lockgate: &Lockgate) -> Envoy {
        self.publish("a", &[self.cluster("a")]);
        let admin = ports::free();
        let bootstrap = self.fetch.bootstrap(lockgate.xds, admin).to_string();
        let mut envoy = Envoy::launch_with(&bootstrap, admin);
        envoy.wait_ready().await;
        wait_until("the route to a to be served", async || self.target().backend("/").await.is_some()).await;
        envoy
    }
}

pub fn all_answered(report: &Report, what: &str, world: &World) {
    println!("{what}, {:?}, {:?}: {report}", world.form, world.fetch);
    assert_eq!(report.failed(), 0, "{report}");
}
