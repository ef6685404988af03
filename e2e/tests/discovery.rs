//! Each form of the routes of plain HTTP (`routes.discovery`): the same site, the same answers, and no failed request
//! during changes.

use std::time::Duration;

use e2e::load::Plan;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{
    Authority, Backend, Echo, Envoy, Load, Lockgate, Manifests, Mode, Source, Target, wait_everywhere, wait_until,
};

const RENAMES: usize = 15;
const MOVES: usize = 10;
const COMINGS: usize = 10;
const MANY: usize = 200;

/// A form of routes, and the setting and transport that select it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Form {
    setting: &'static str,
    mode: Mode,
    /// A part of Envoy's configuration, and text in it, that show this form.
    sign: (&'static str, &'static str),
}

const RDS: Form = Form { setting: "rds", mode: Mode::Delta, sign: WHOLE };
const RDS_SOTW: Form = Form { setting: "rds", mode: Mode::Sotw, sign: WHOLE };
const WHOLE: (&str, &str) = ("dynamic_route_configs", "\"virtual_hosts\": [");
const VHDS: Form = Form { setting: "vhds", mode: Mode::Delta, sign: ("dynamic_route_configs", "\"vhds\": {") };
/// The default form.
const SCOPES: Form = Form { setting: "auto", mode: Mode::Delta, sign: OF_OTHERS };
const SCOPES_SOTW: Form = Form { setting: "auto", mode: Mode::Sotw, sign: OF_OTHERS };
const OF_OTHERS: (&str, &str) = ("dynamic_scoped_route_configs", "\"http/*\"");

/// An Envoy with one form of routes, and two backends `a` and `b`. Each has a Service of the same name.
struct Site {
    form: Form,
    manifests: Manifests,
    config: Manifests,
    lockgate: Lockgate,
    envoy: Envoy,
    a: Backend,
    b: Backend,
}

impl Site {
    /// Starts a site without objects.
    async fn open(form: Form) -> Self {
        let (a, b) = (Backend::start("a").await, Backend::start("b").await);
        let (manifests, config) = (Manifests::new(), Manifests::new());
        manifests.write("class.yaml", &ingress_class());
        manifests.write("services.yaml", &documents(&[service("a", "", &[a.address]), service("b", "", &[b.address])]));
        config.write("lockgate.yaml", &format!("routes: {{ discovery: {} }}\n", form.setting));
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let envoy = Envoy::start(&lockgate, form.mode).await;
        Self { form, manifests, config, lockgate, envoy, a, b }
    }

    fn target(&self, host: &str) -> Target {
        Target::http(self.lockgate.http, host)
    }

    /// Waits until a backend serves a host.
    async fn wait_served(&self, host: &str, by: &str) -> Duration {
        let target = self.target(host);
        wait_everywhere(&format!("{host} by {by}"), async || target.backend("/").await.as_deref() == Some(by)).await
    }

    /// Waits until a host answers with this status.
    async fn wait_status(&self, host: &str, status: u16) -> Duration {
        let what = format!("{status} for {host}");
        wait_everywhere(&what, async || self.target(host).get("/").await.is_ok_and(|answer| answer.status == status))
            .await
    }

    async fn load(&self, host: &str) -> Load {
        Load::start(Plan { rate: 500, connections: 8, ..Plan::new(self.target(host), "/") }).await
    }

    /// Ends the load. No request may have failed, and no resource may have been rejected.
    async fn assert_no_failure(&self, step: &str, load: Load) {
        let report = load.stop().await;
        println!("{:?}, {step}: {report}", self.form);
        assert_eq!(report.failed(), 0, "{step}: {report}");
        assert_eq!(self.lockgate.metric("lockgate_xds_nacks_total", &[]).await, 0.0, "{step}");
        assert!(self.has_form().await, "{step}: {:?}", self.form);
    }

    /// Returns whether Envoy has the routes in this form.
    async fn has_form(&self) -> bool {
        let (part, text) = self.form.sign;
        self.envoy.get(&format!("/config_dump?resource={part}")).await.text().contains(text)
    }
}

/// Envoy matches hosts equally in every form.
async fn hosts_match(form: Form) {
    let site = Site::open(form).await;
    let mut rules = vec![ingress("wild", "'*.wild.test'", "b", None), ingress("shop", "shop.test", "a", None)];
    rules.push(ingress("exact", "shop.wild.test", "a", None));
    site.manifests.write("rules.yaml", &documents(&rules));
    let known = [
        ("shop.test", "a"),
        ("SHOP.Test", "a"),
        ("shop.test:8080", "a"),
        ("Shop.Test:80", "a"),
        ("x.wild.test", "b"),
        ("X.WILD.test:9000", "b"),
        ("shop.wild.test", "a"),
        ("SHOP.wild.TEST:1", "a"),
        ("shop.test.", "a"),
    ];
    let unknown = ["wild.test", "x.y.wild.test", "other.test", "10.0.0.1", "[::1]:80", "_"];
    for (host, by) in known {
        site.wait_served(host, by).await;
        assert_eq!(site.target(host).over_http2().backend("/").await.as_deref(), Some(by), "{host} over HTTP/2");
    }
    for host in unknown {
        assert_eq!(site.target(host).get("/").await.map_or(0, |answer| answer.status), 404, "{host}");
    }
    // Unknown hosts and paths are not served.
    let forged = site.target("shop.test").field("x-lockgate-host", "http/*").field("x-lockgate-server-name", "x");
    for _ in 0..20 {
        assert_eq!(forged.backend("/").await.as_deref(), Some("a"));
    }

    // A default backend serves unknown hosts, except below a wildcard host with one label.
    let default = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: { name: default, namespace: default }\n\
                   spec: { defaultBackend: { service: { name: b, port: { name: http } } } }\n";
    site.manifests.write("default.yaml", default);
    for host in unknown {
        site.wait_served(host, "b").await;
    }
    for (host, by) in known {
        site.wait_served(host, by).await;
    }
    site.manifests.remove("default.yaml");
    for host in unknown {
        site.wait_status(host, 404).await;
    }
    let load = site.load("shop.test").await;
    site.assert_no_failure("as it was", load).await;
}

/// All kinds of changes, under load on a host that is moved or must not be affected.
async fn changes_lose_nothing(form: Form) {
    let site = Site::open(form).await;
    let shop = |name: &str, service: &str| ingress(name, "shop.test", service, None);
    site.manifests.write("shop.yaml", &shop("shop", "a"));
    site.wait_served("shop.test", "a").await;

    let load = site.load("shop.test").await;
    for i in 0..RENAMES {
        let name = format!("a-{i}");
        let renamed = documents(&[service(&name, "", &[site.a.address]), shop("shop", &name)]);
        site.manifests.write("shop.yaml", &renamed);
        site.envoy.wait_routed_to(&format!("default/{name}/http")).await;
        load.answers(20).await;
    }
    site.assert_no_failure(&format!("{RENAMES} renames of a Service"), load).await;

    let load = site.load("shop.test").await;
    for i in 0..MOVES {
        let (owner, by) = [("other", "b"), ("shop", "a")][i % 2];
        site.manifests.write("shop.yaml", &shop(owner, by));
        site.wait_served("shop.test", by).await;
    }
    site.assert_no_failure(&format!("{MOVES} moves of a host to another Ingress and backend"), load).await;

    // New hosts have the same routes as the host under load. They join its virtual host and leave it.
    let load = site.load("shop.test").await;
    for i in 0..COMINGS {
        let host = format!("{}.test", ["aa", "zz"][i % 2]);
        let rule = format!(
            "    - host: {host}\n      http:\n        paths:\n          - path: /\n            pathType: Prefix\n            \
             backend: {{ service: {{ name: a, port: {{ name: http }} }} }}\n"
        );
        site.manifests.write("shop.yaml", &format!("{}{rule}", shop("shop", "a")));
        site.wait_served(&host, "a").await;
        site.manifests.write("shop.yaml", &shop("shop", "a"));
        site.wait_status(&host, 404).await;
    }
    site.assert_no_failure(&format!("{COMINGS} hosts with equal routes come and go"), load).await;

    let load = site.load("shop.test").await;
    let many: Vec<String> = (0..MANY).map(|i| ingress(&format!("i-{i}"), &format!("{i}.test"), "b", None)).collect();
    site.manifests.write("many.yaml", &documents(&many));
    let time = site.wait_served(&format!("{}.test", MANY - 1), "b").await;
    println!("{form:?}: the last of {MANY} hosts is served after {} ms", time.as_millis());
    for i in 0..MANY {
        site.wait_served(&format!("{i}.test"), "b").await;
    }
    let moved = documents(&many).replace("name: b, port", "name: a, port");
    site.manifests.write("many.yaml", &moved);
    for i in 0..MANY {
        site.wait_served(&format!("{i}.test"), "a").await;
    }
    site.manifests.remove("many.yaml");
    for i in 0..MANY {
        site.wait_status(&format!("{i}.test"), 404).await;
    }
    site.assert_no_failure(&format!("{MANY} hosts come, change and go at one stroke"), load).await;
    assert!(site.a.requests() > 0 && site.b.requests() > 0);
}

/// A listener without routes opens immediately, and later routes are served.
async fn nothing_to_serve_is_404(form: Form) {
    let site = Site::open(form).await;
    let time = site.wait_status("shop.test", 404).await;
    assert!(time < Duration::from_secs(5), "{time:?}");
    site.manifests.write("shop.yaml", &ingress("shop", "shop.test", "a", None));
    site.wait_served("shop.test", "a").await;
    site.manifests.remove("shop.yaml");
    site.wait_status("shop.test", 404).await;
}

/// Envoy works without the controller, and receives the changes afterwards.
async fn an_outage_costs_nothing(form: Form) {
    let mut site = Site::open(form).await;
    let rule = |name: &str, by: &str| ingress(name, &format!("{name}.test"), by, None);
    site.manifests.write("rules.yaml", &documents(&[rule("shop", "a"), rule("goes", "a"), rule("turns", "a")]));
    for host in ["shop.test", "goes.test", "turns.test"] {
        site.wait_served(host, "a").await;
    }
    let load = site.load("shop.test").await;
    site.lockgate.kill();
    load.answers(200).await;
    site.manifests.write("rules.yaml", &documents(&[rule("shop", "a"), rule("comes", "b"), rule("turns", "b")]));
    site.lockgate.restart();
    site.lockgate.wait_ready().await;
    site.wait_served("turns.test", "b").await;
    site.wait_served("comes.test", "b").await;
    site.wait_status("goes.test", 404).await;
    site.assert_no_failure("an outage of the controller", load).await;

    // Without a change, no resource is sent again.
    let load = site.load("shop.test").await;
    site.lockgate.restart();
    site.lockgate.wait_ready().await;
    wait_until("Envoy's stream", async || site.lockgate.metric("lockgate_xds_streams", &[]).await > 0.0).await;
    load.answers(500).await;
    if form.mode == Mode::Delta {
        assert_eq!(site.lockgate.metric("lockgate_xds_pushed_resources_total", &[]).await, 0.0);
    }
    site.assert_no_failure("a restart of the controller", load).await;
    site.envoy.restart();
    site.envoy.wait_ready().await;
    for (host, by) in [("shop.test", "a"), ("comes.test", "b"), ("turns.test", "b")] {
        assert_eq!(site.target(host).backend("/").await.as_deref(), Some(by), "{host} as soon as it is ready");
    }
}

/// Redirects to https, which all hosts share. No internal header reaches a backend.
async fn redirects_and_headers(form: Form) {
    let (site, echo, authority) = (Site::open(form).await, Echo::start().await, Authority::new());
    let redirecting = |name: &str| {
        let rule = ingress(name, &format!("{name}.test"), "a", Some("cert"));
        rule.replace(
            "namespace: default }\nspec",
            "namespace: default, annotations: { ingress.kubernetes.io/force-ssl-redirect: 'true' } }\nspec",
        )
    };
    let rules = documents(&[
        authority.issue(&["one.test", "two.test"]).secret("default", "cert"),
        redirecting("one"),
        redirecting("two"),
        service("echo", "", &[echo.address]),
        ingress("echo", "echo.test", "echo", None),
    ]);
    site.manifests.write("rules.yaml", &rules);
    for (host, location) in [
        ("one.test", "https://one.test/a?b=c"),
        ("two.test", "https://two.test/a?b=c"),
        ("two.test:8080", "https://two.test:443/a?b=c"),
    ] {
        site.wait_status(host, 308).await;
        let answer = site.target(host).get("/a?b=c").await.expect("a redirect");
        assert_eq!(answer.header("location"), location, "{host}");
    }
    // Hosts behind TLS are scopes too, on the same subscription.
    for host in ["one.test", "two.test"] {
        let target = Target::https(site.lockgate.https, host, authority.der());
        wait_until(&format!("{host} over TLS"), async || target.backend("/").await.as_deref() == Some("a")).await;
    }
    site.wait_status("echo.test", 200).await;
    let asked =
        site.target("echo.test").field("x-lockgate-host", "http/one.test").get("/").await.expect("an echo").text();
    match form.setting {
        "auto" => assert!(!asked.contains("lockgate"), "{asked}"),
        // A header without special meaning.
        _ => assert!(asked.contains("x-lockgate-host: http/one.test"), "{asked}"),
    }
    assert_eq!(site.lockgate.metric("lockgate_xds_nacks_total", &[]).await, 0.0);
}

/// Changes the form of routes while Envoy serves. A change to complete route configurations fails no request. In the
/// other direction, some requests are answered 404, because Envoy has the route configuration before it requests its
/// virtual hosts.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_form_is_taken_up() {
    let mut site = Site::open(RDS).await;
    site.manifests.write("shop.yaml", &ingress("shop", "shop.test", "a", None));
    site.wait_served("shop.test", "a").await;
    for form in [VHDS, RDS, VHDS, RDS, SCOPES, VHDS] {
        let load = site.load("shop.test").await;
        let in_one_piece = form == RDS && site.form != SCOPES;
        site.config.write("lockgate.yaml", &format!("routes: {{ discovery: {} }}\n", form.setting));
        site.form = form;
        wait_until(&format!("{form:?}"), async || {
            site.has_form().await && site.envoy.stat("listener_manager.total_listeners_warming").await == 0
        })
        .await;
        load.answers(200).await;
        if in_one_piece {
            site.assert_no_failure("a change of form", load).await;
        } else {
            let report = load.stop().await;
            println!("a change to {form:?}: {report}");
            assert!(report.failures.keys().all(|what| what.starts_with("status 404")), "{report}");
        }
        site.manifests.write("shop.yaml", &ingress("shop", "shop.test", "b", None));
        site.wait_served("shop.test", "b").await;
        site.manifests.write("shop.yaml", &ingress("shop", "shop.test", "a", None));
        site.wait_served("shop.test", "a").await;
    }
}

/// Runs each case in every form.
macro_rules! in_every_form {
    ($($case:ident),* $(,)?) => {
        in_every_form!(@ rds RDS $($case)*);
        in_every_form!(@ rds_sotw RDS_SOTW $($case)*);
        in_every_form!(@ vhds VHDS $($case)*);
        in_every_form!(@ scopes SCOPES $($case)*);
        in_every_form!(@ scopes_sotw SCOPES_SOTW $($case)*);
    };
    (@ $module:ident $form:ident $($case:ident)*) => {
        mod $module {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                super::$case(super::$form).await;
            })*
        }
    };
}

in_every_form!(
    hosts_match,
    changes_lose_nothing,
    nothing_to_serve_is_404,
    an_outage_costs_nothing,
    redirects_and_headers,
);
