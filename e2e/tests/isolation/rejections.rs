//! One of thirteen resources is rejected by Envoy, in one change of all. The others are served at once. The rejected
//! one keeps its previous version without a failed request, and is served again after a correction. Each type that
//! Envoy can reject has a test.

use e2e::certificates::Pair;
use e2e::load::Plan;
use e2e::{Authority, Backend, Envoy, Fetch, Load, Lockgate, Manifests, Source, Target, ports, resources, wait_until};
use serde_json::{Value, json};

/// The number of resources of a type, and the index of the invalid one.
const MANY: usize = 13;
const VICTIM: usize = 6;
/// The maximum number of responses: 2·log2(13)+2 to find the invalid one, and the rejected one.
const BOUND: f64 = 2.0 * 4.0 + 2.0 + 1.0;

/// The content of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    A,
    B,
    Bad,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Cluster,
    ClusterLoadAssignment,
    Listener,
    RouteConfiguration,
    ScopedRouteConfiguration,
    Secret,
    VirtualHost,
}

struct World {
    kind: Kind,
    fetch: Fetch,
    ports: [u16; MANY],
    backends: [Backend; 2],
    /// The authority of contents A and B, and one key pair of each.
    authorities: [Authority; 2],
    pairs: [Pair; 2],
    files: Manifests,
}

fn name(at: usize) -> String {
    format!("n{at}")
}

fn domain(at: usize) -> String {
    format!("n{at}.test")
}

impl World {
    async fn new(kind: Kind, fetch: Fetch) -> Self {
        let authorities = [Authority::new(), Authority::new()];
        let names: Vec<String> = (0..MANY).map(domain).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let pairs = authorities.each_ref().map(|authority| authority.issue(&names));
        let ports = [(); MANY].map(|()| ports::free());
        let backends = [Backend::start("a").await, Backend::start("b").await];
        Self { kind, fetch, ports, backends, authorities, pairs, files: Manifests::new() }
    }

    fn cluster(&self, name: &str, content: Content) -> Value {
        let backend = &self.backends[usize::from(content == Content::B)];
        let mut assignment = resources::endpoints(name, &[backend.address]);
        assignment.as_object_mut().expect("an object").remove("@type");
        if content == Content::Bad {
            assignment["endpoints"][0]["lb_endpoints"][0]["endpoint"]["address"]["socket_address"]["address"] =
                "no address".into();
        }
        let cluster = json!({ "name": name, "type": "STATIC", "connect_timeout": "1s", "load_assignment": assignment });
        resources::typed("envoy.config.cluster.v3.Cluster", cluster)
    }

    /// Formats a route configuration. An invalid one contains a domain twice.
    fn routes(&self, name: &str, content: Content) -> Value {
        let cluster = if content == Content::B { "b" } else { "a" };
        let mut hosts = vec![resources::virtual_host("all", "*", cluster)];
        if content == Content::Bad {
            hosts.push(resources::virtual_host("twin", "*", cluster));
        }
        resources::routes(name, &hosts)
    }

    fn inline(&self, name: &str, content: Content) -> Value {
        let mut routes = self.routes(name, content);
        routes.as_object_mut().expect("an object").remove("@type");
        routes
    }

    /// Formats a resource under test.
    fn resource(&self, at: usize, content: Content) -> Value {
        let name = name(at);
        match self.kind {
            Kind::Cluster => self.cluster(&name, content),
            Kind::ClusterLoadAssignment => {
                let mut assignment = self.cluster(&name, content)["load_assignment"].take();
                assignment["cluster_name"] = name.into();
                resources::typed("envoy.config.endpoint.v3.ClusterLoadAssignment", assignment)
            }
            Kind::Listener => {
                resources::listener(&name, self.ports[at], json!({ "route_config": self.inline(&name, content) }))
            }
            Kind::RouteConfiguration => self.routes(&name, content),
            Kind::ScopedRouteConfiguration => resources::typed(
                "envoy.config.route.v3.ScopedRouteConfiguration",
                json!({ "name": name, "key": { "fragments": [{ "string_key": domain(at) }] },
                    "route_configuration": self.inline(&name, content) }),
            ),
            Kind::Secret => {
                let [a, b] = &self.pairs;
                let pair = if content == Content::B { b } else { a };
                let mut secret = resources::secret(&name, pair);
                if content == Content::Bad {
                    secret["tls_certificate"]["private_key"]["inline_string"] = b.key.clone().into();
                }
                secret
            }
            Kind::VirtualHost => {
                let cluster = if content == Content::B { "b" } else { "a" };
                let mut host = resources::virtual_host(&format!("r/{name}"), &domain(at), cluster);
                if content == Content::Bad {
                    host["routes"][0]["match"] = json!({ "safe_regex": { "regex": "(" } });
                }
                resources::typed("envoy.config.route.v3.VirtualHost", host)
            }
        }
    }

    /// Formats the other resources that the resources under test need.
    fn others(&self) -> Vec<Value> {
        let source = self.fetch.source();
        let mut all = vec![self.cluster("a", Content::A), self.cluster("b", Content::B)];
        for at in 0..MANY {
            let (name, port) = (name(at), self.ports[at]);
            match self.kind {
                Kind::Cluster | Kind::ClusterLoadAssignment => {
                    let hosts = [resources::virtual_host("all", "*", &name)];
                    let mut routes = resources::routes(&name, &hosts);
                    routes.as_object_mut().expect("an object").remove("@type");
                    routes["validate_clusters"] = false.into();
                    all.push(resources::listener(&name, port, json!({ "route_config": routes })));
                    if self.kind == Kind::ClusterLoadAssignment {
                        all.push(resources::cluster(&name, &source));
                    }
                }
                Kind::RouteConfiguration => all.push(resources::listener(&name, port, resources::rds(&name, &source))),
                Kind::Secret => {
                    let routes = json!({ "route_config": self.inline(&name, Content::A) });
                    all.push(resources::tls_listener(&name, port, routes, &name, &source));
                }
                Kind::Listener | Kind::ScopedRouteConfiguration | Kind::VirtualHost => {}
            }
        }
        match self.kind {
            Kind::VirtualHost => {
                let mut routes = resources::routes("r", &[]);
                routes["vhds"] = json!({ "config_source": source });
                let mut manager = resources::rds("r", &source);
                manager["strip_any_host_port"] = true.into();
                all.extend([routes, resources::listener("r", self.ports[0], manager)]);
            }
            Kind::ScopedRouteConfiguration => {
                let extractor = json!({ "name": ":authority", "index": 0 });
                let scopes = json!({ "scoped_routes": { "name": "scopes",
                    "scope_key_builder": { "fragments": [{ "header_value_extractor": extractor }] },
                    "rds_config_source": source,
                    "scoped_rds": { "scoped_rds_config_source": source } } });
                all.push(resources::listener("r", self.ports[0], scopes));
            }
            _ => {}
        }
        all
    }

    /// Publishes all resources, valid ones and the invalid one.
    fn publish(&self, others: Content, victim: Content) {
        let mut all = self.others();
        all.extend((0..MANY).map(|at| self.resource(at, if at == VICTIM { victim } else { others })));
        self.files.write("world.json", &Value::Array(all).to_string());
    }

    /// Returns where a resource is visible if it has this content.
    fn target(&self, at: usize, content: Content) -> Target {
        let shared = matches!(self.kind, Kind::VirtualHost | Kind::ScopedRouteConfiguration);
        let port = self.ports[if shared { 0 } else { at }];
        match self.kind {
            Kind::Secret => {
                Target::https(port, &domain(at), self.authorities[usize::from(content == Content::B)].der())
            }
            _ => Target::http(port, &domain(at)),
        }
    }

    async fn has_content(&self, at: usize, content: Content) -> bool {
        let by = if self.kind != Kind::Secret && content == Content::B { "b" } else { "a" };
        self.target(at, content).backend("/").await.as_deref() == Some(by)
    }

    async fn wait_served(&self, others: Content, victim: Option<Content>) {
        for at in 0..MANY {
            let content = if at == VICTIM { victim } else { Some(others) };
            let Some(content) = content else { continue };
            wait_until(&format!("{:?} {at} with {content:?}", self.kind), async || self.has_content(at, content).await)
                .await;
        }
    }

    fn envoy(&self, lockgate: &Lockgate) -> Envoy {
        let admin = ports::free();
        Envoy::launch_with(&self.fetch.bootstrap(lockgate.xds, admin).to_string(), admin)
    }

    async fn count(&self, lockgate: &Lockgate, metric: &str) -> f64 {
        lockgate.metric(metric, &[&format!("\"{:?}\"", self.kind)]).await
    }
}

const RESPONSES: &str = "lockgate_xds_responses_total";
const NACKS: &str = "lockgate_xds_nacks_total";
const REJECTED: &str = "lockgate_xds_rejected_resources";

async fn a_bad_one_harms_no_other(kind: Kind, fetch: Fetch) {
    let world = World::new(kind, fetch).await;
    world.publish(Content::A, Content::A);
    let lockgate = Lockgate::start(&Source::Resources(world.files.path().into()), &[]).await;
    let mut envoy = world.envoy(&lockgate);
    envoy.wait_ready().await;
    world.wait_served(Content::A, Some(Content::A)).await;
    let plan = Plan { rate: 200, connections: 4, ..Plan::new(world.target(VICTIM, Content::A), "/") };
    let load = Load::start(plan).await;

    // All resources change at once, and one of them is invalid.
    let before = world.count(&lockgate, RESPONSES).await;
    world.publish(Content::B, Content::Bad);
    world.wait_served(Content::B, Some(Content::A)).await;
    wait_until("the culprit to be known", async || world.count(&lockgate, REJECTED).await == 1.0).await;
    let (messages, nacks) = (world.count(&lockgate, RESPONSES).await - before, world.count(&lockgate, NACKS).await);
    println!("{kind:?}, {fetch:?}, an Envoy that runs: {messages} messages, {nacks} of them rejected");
    assert!(messages <= BOUND && nacks >= 1.0, "{messages} {nacks}");
    let named = if kind == Kind::VirtualHost { "name=r/n6 " } else { "name=n6 " };
    println!("{}", lockgate.logged(&["ERROR", "rejected, and omitted", named, "world.json"]).await);

    // Other changes do not send it again.
    world.publish(Content::A, Content::Bad);
    world.wait_served(Content::A, Some(Content::A)).await;
    assert_eq!(world.count(&lockgate, NACKS).await, nacks, "no new NACK without new content");
    load.answers(100).await;
    let report = load.stop().await;
    assert_eq!(report.failed(), 0, "{report}");

    // A new Envoy has the valid resources, and the last good version of the invalid one.
    drop(envoy);
    let mut envoy = world.envoy(&lockgate);
    envoy.wait_ready().await;
    world.wait_served(Content::A, Some(Content::A)).await;
    wait_until("the culprit to be known again", async || world.count(&lockgate, REJECTED).await == 1.0).await;
    let again = world.count(&lockgate, NACKS).await - nacks;
    println!("{kind:?}, {fetch:?}, a fresh Envoy: {again} messages rejected");
    assert_eq!(again, 1.0, "what is known to be bad is sent alone");

    world.publish(Content::A, Content::B);
    world.wait_served(Content::A, Some(Content::B)).await;
    wait_until("nothing to be rejected", async || world.count(&lockgate, REJECTED).await == 0.0).await;
    drop(envoy);
}

/// Starts a controller and an Envoy without any history.
async fn a_bad_one_harms_no_other_from_the_beginning(kind: Kind, fetch: Fetch) {
    let world = World::new(kind, fetch).await;
    world.publish(Content::A, Content::Bad);
    let lockgate = Lockgate::start(&Source::Resources(world.files.path().into()), &[]).await;
    let mut envoy = world.envoy(&lockgate);
    envoy.wait_ready().await;
    world.wait_served(Content::A, None).await;
    wait_until("the culprit to be known", async || world.count(&lockgate, REJECTED).await == 1.0).await;
    let messages = world.count(&lockgate, RESPONSES).await;
    println!("{kind:?}, {fetch:?}, from the beginning: {messages} messages");
    // Envoy requests some types name by name, so several requests are the first.
    let asked =
        if matches!(kind, Kind::Listener | Kind::Cluster | Kind::ScopedRouteConfiguration) { 1.0 } else { 13.0 };
    assert!(messages <= BOUND + asked, "{messages}");
    world.publish(Content::A, Content::B);
    world.wait_served(Content::A, Some(Content::B)).await;
}

macro_rules! cases {
    ($($case:ident: $kind:ident, $fetch:ident;)*) => {
        $(mod $case {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn harms_no_other() {
                a_bad_one_harms_no_other(Kind::$kind, Fetch::$fetch).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn harms_no_other_from_the_beginning() {
                a_bad_one_harms_no_other_from_the_beginning(Kind::$kind, Fetch::$fetch).await;
            }
        })*
    };
}

cases!(
    a_bad_cluster_by_delta: Cluster, AdsDelta;
    a_bad_cluster_by_sotw: Cluster, AdsSotw;
    a_bad_cluster_by_a_stream_of_its_own: Cluster, StreamsSotw;
    bad_endpoints_by_delta: ClusterLoadAssignment, AdsDelta;
    bad_endpoints_by_sotw: ClusterLoadAssignment, AdsSotw;
    a_bad_listener_by_delta: Listener, AdsDelta;
    a_bad_listener_by_sotw: Listener, AdsSotw;
    a_bad_listener_by_a_stream_of_its_own: Listener, StreamsDelta;
    bad_routes_by_delta: RouteConfiguration, AdsDelta;
    bad_routes_by_sotw: RouteConfiguration, AdsSotw;
    a_bad_scope_by_delta: ScopedRouteConfiguration, AdsDelta;
    a_bad_scope_by_sotw: ScopedRouteConfiguration, AdsSotw;
    a_bad_secret_by_delta: Secret, AdsDelta;
    a_bad_secret_by_sotw: Secret, AdsSotw;
    a_bad_virtual_host_by_delta: VirtualHost, AdsDelta;
);
