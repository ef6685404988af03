//! Clients are at the limits of their rates while objects of strangers change. No limit may start anew.

use e2e::manifests::{documents, service};
use e2e::{Mode, Target, ports, wait_until};

use super::site::{Listener, Site, answers, gateway, route};

/// The limited routes, their hosts, and their limits. Behind TLS, the exact hosts with a burst have listeners of their own.
const LIMITS: [(&str, &str, &str); 6] = [
    ("rated", "rated.shop.test", "requests: 3"),
    ("client", "client.shop.test", "requests: 3, perClientAddress: true"),
    ("burst", "burst.shop.test", "requests: 1, burst: 2"),
    ("client-burst", "client-burst.shop.test", "requests: 1, burst: 2, perClientAddress: true"),
    ("wild", "*.wild.test", "requests: 3"),
    ("wild-burst", "*.burst.test", "requests: 1, burst: 2"),
];

const EDITS: usize = 5;

/// The objects that a stranger edits, with another Service and another limit each time.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Edits {
    /// Another exact host.
    Host,
    /// Another wildcard host.
    Wildcard,
    /// A listener with another certificate on the port for HTTPS, which is added and removed.
    Listener,
    /// Another route for each limited host.
    SharedHost,
}

impl Edits {
    fn hosts(self) -> Vec<&'static str> {
        match self {
            Self::Host | Self::Listener => vec!["stranger.shop.test"],
            Self::Wildcard => vec!["*.stranger.test"],
            Self::SharedHost => LIMITS.map(|(_, host, _)| host).into(),
        }
    }

    /// Returns whether the limit of a route must not start anew, over plain HTTP and over HTTPS. Limits with a burst are on routes,
    /// which Envoy builds anew with all routes of their configuration.
    fn keep(self, name: &str) -> [bool; 2] {
        match name {
            "rated" | "client" | "wild" => [true; 2],
            "wild-burst" => [self == Self::Host, false],
            _ => match self {
                Self::Host | Self::Wildcard => [true; 2],
                Self::Listener => [true, false],
                Self::SharedHost => [false; 2],
            },
        }
    }
}

/// Returns a route of the namespace `stranger` for a prefix, with a limit.
fn stranger(at: usize, host: &str, service: &str, requests: usize) -> String {
    let name = format!("stranger-{at}");
    let matches = "- matches: [{ path: { type: PathPrefix, value: /stranger } }]\n      backendRefs";
    let route = route(&name, &["one"], host, &[(service, 1)]).replace("- backendRefs", matches);
    let limit = policy(&name, &format!("requests: {requests}, perClientAddress: true"));
    documents(&[route, limit])
        .replace("namespace: default", "namespace: stranger")
        .replace("{ name: one }", "{ name: one, namespace: default }")
}

fn policy(name: &str, limit: &str) -> String {
    format!(
        "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: {{ name: {name}, namespace: default }}\nspec:\n  \
         targetRefs: [{{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: {name} }}]\n  \
         localRateLimit: {{ unit: hour, {limit} }}\n"
    )
}

/// A Gateway with all limits over HTTP and over HTTPS.
struct Rates {
    site: Site,
    secure: u16,
}

impl Rates {
    async fn open(mode: Mode) -> Self {
        let (site, secure) = (Site::open(mode).await, ports::free());
        let hosts = ["*.shop.test", "*.wild.test", "*.burst.test", "*.stranger.test"];
        let pair = site.authority.issue(&hosts).secret("default", "every-host");
        let services = ["a", "b"].iter().zip(&site.backends);
        let services: Vec<String> = services.map(|(name, backend)| service(name, "", &[backend.address])).collect();
        let services = documents(&services).replace("namespace: default", "namespace: stranger");
        site.manifests.write("more.yaml", &documents(&[pair, services]));
        let rates = Self { site, secure };
        rates.listen(false);
        rates.limit("requests: 3");
        for (_, host, _) in LIMITS {
            for target in rates.targets(host) {
                answers(&target, 429).await;
            }
        }
        rates
    }

    /// Writes the Gateway, with or without the listener of the stranger.
    fn listen(&self, stranger: bool) {
        let listeners = [
            Listener::http("http", self.site.ports[0]),
            Listener { name: "https", port: self.secure, host: None, tls: true },
            Listener::https("burst", self.secure, "burst.shop.test"),
            Listener::https("client-burst", self.secure, "client-burst.shop.test"),
        ];
        let mut text = gateway("one", &listeners).replace("name: cert", "name: every-host");
        if stranger {
            let alone = gateway("one", &[Listener::https("stranger", self.secure, "stranger.shop.test")]);
            text += alone.lines().last().expect("the listener");
        }
        let from_all = "allowedRoutes: { namespaces: { from: All } }, protocol: HTTP";
        self.site.manifests.write("one.yaml", &text.replace("protocol: HTTP", from_all));
    }

    /// Writes all limits, with this limit of `rated`.
    fn limit(&self, rated: &str) {
        let all = LIMITS.map(|(name, host, limit)| {
            let limit = if name == "rated" { rated } else { limit };
            documents(&[route(name, &["one"], host, &[("a", 1)]), policy(name, limit)])
        });
        self.site.manifests.write("limits.yaml", &documents(&all));
    }

    /// Returns a host over HTTP and over HTTPS.
    fn targets(&self, host: &str) -> [Target; 2] {
        let host = host.replace('*', "a");
        [self.site.target(0, &host), Target::https(self.secure, &host, self.site.authority.der())]
    }

    /// Edits the routes of the stranger. Returns the number of requests beyond each limit that passed, over HTTP and over HTTPS.
    async fn edit(&self, edits: Edits) -> [[u32; 2]; LIMITS.len()] {
        let mut passed = [[0; 2]; LIMITS.len()];
        for edit in 0..EDITS {
            let service = ["b", "a"][edit % 2];
            let hosts = edits.hosts();
            let routes = hosts.iter().zip(0..).map(|(host, at)| stranger(at, host, service, 100_000 + edit));
            self.site.manifests.write("stranger.yaml", &documents(&routes.collect::<Vec<_>>()));
            if edits == Edits::Listener {
                let before = self.site.listener_changes().await;
                self.listen(edit % 2 == 0);
                wait_until("the listener", async || self.site.listener_changes().await > before).await;
            }
            for target in hosts.iter().flat_map(|host| self.targets(host)) {
                wait_until("the edit", async || target.backend("/stranger").await.as_deref() == Some(service)).await;
            }
            for (passed, (_, host, _)) in passed.iter_mut().zip(LIMITS) {
                for (passed, target) in passed.iter_mut().zip(self.targets(host)) {
                    for _ in 0..3 {
                        *passed += u32::from(target.get("/").await.expect("an answer").status != 429);
                    }
                }
            }
        }
        self.site.manifests.remove("stranger.yaml");
        self.listen(false);
        passed
    }
}

async fn limits_are_kept(mode: Mode) {
    let rates = Rates::open(mode).await;
    let mut wrong = Vec::new();
    for edits in [Edits::Host, Edits::Wildcard, Edits::Listener, Edits::SharedHost] {
        for ((name, ..), passed) in LIMITS.into_iter().zip(rates.edit(edits).await) {
            println!("{mode:?} {edits:?}: {passed:?} of {} excess requests to {name} passed", 3 * EDITS);
            if passed.into_iter().zip(edits.keep(name)).any(|(passed, keep)| keep && passed > 0) {
                wrong.push((edits, name, passed));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
    rates.limit("requests: 5");
    for target in rates.targets("rated.shop.test") {
        wait_until("a higher limit", async || target.get("/").await.is_ok_and(|answer| answer.status == 200)).await;
    }
    for target in rates.targets("client.shop.test") {
        assert_eq!(target.get("/").await.expect("an answer").status, 429, "the limit of another host");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_edit_resets_no_limit_delta() {
    limits_are_kept(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_edit_resets_no_limit_sotw() {
    limits_are_kept(Mode::Sotw).await;
}
