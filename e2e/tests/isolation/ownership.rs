//! Attacks on hosts and certificates of another namespace, with Ingresses that are newer than the victim's.
//!
//! Each attack runs in both modes of `namespaceOwnership`. The attacker's file also contains a separate host, so the
//! test detects when Envoy has the complete attack. The answers and certificates of the victim must then be unchanged.

use bytes::Bytes;
use e2e::certificates::Pair;
use e2e::manifests::{documents, ingress_class, service};
use e2e::{Authority, Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, wait_everywhere};
use hyper::Method;

/// The hosts of the victim, each with TLS. All except the last use the default certificate.
const HOSTS: [&str; 4] = ["shop.test", "api.platform.test", "all.wild.test", "shop.victim.test"];

/// A controller, an Envoy, and a served victim.
struct Site {
    manifests: Manifests,
    authority: Authority,
    default: Pair,
    wildcard: Pair,
    config: Manifests,
    lockgate: Lockgate,
    _envoy: Envoy,
    backends: [Backend; 2],
}

/// The namespaces that may share hosts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Ownership {
    Strict,
    InterNamespaceAllowed,
}

const MODES: [Ownership; 2] = [Ownership::Strict, Ownership::InterNamespaceAllowed];

/// Formats the Service `web` of a namespace.
fn web(namespace: &str, backend: &Backend) -> String {
    let address = ([127, 0, 0, 1], backend.port()).into();
    service("web", "", &[address]).replace("namespace: default", &format!("namespace: {namespace}"))
}

/// Formats an Ingress. `created` is a year, and `spec` is a YAML flow mapping.
fn ingress(namespace: &str, name: &str, created: u16, spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata: {{ name: {name}, namespace: {namespace}, \
         creationTimestamp: \"{created}-01-01T00:00:00Z\" }}\nspec: {spec}\n"
    )
}

/// Formats a rule with one path to `web`.
fn rule(host: &str, path_type: &str, path: &str) -> String {
    format!(
        "{{ host: \"{host}\", http: {{ paths: [{{ path: \"{path}\", pathType: {path_type}, \
         backend: {{ service: {{ name: web, port: {{ name: http }} }} }} }}] }} }}"
    )
}

impl Site {
    async fn open(mode: Ownership) -> Self {
        let (manifests, authority) = (Manifests::new(), Authority::new());
        let backends = [Backend::start("victim").await, Backend::start("evil").await];
        let default = authority.issue(&[HOSTS[0], HOSTS[1], HOSTS[2], "login.victim.test", "unknown.test"]);
        let wildcard = authority.issue(&["*.victim.test"]);
        let rules = [
            rule(HOSTS[0], "Prefix", "/"),
            rule(HOSTS[0], "Prefix", "/api"),
            rule(HOSTS[1], "Prefix", "/api"),
            rule("*.wild.test", "Prefix", "/"),
            rule(HOSTS[3], "Prefix", "/"),
            rule("plain.test", "Prefix", "/api"),
        ];
        let tls = format!(
            "[{{ hosts: [{}, {}, {}] }}, {{ hosts: [\"*.victim.test\"], secretName: wildcard }}]",
            HOSTS[0], HOSTS[1], HOSTS[2]
        );
        let spec = format!("{{ tls: {tls}, rules: [{}] }}", rules.join(", "));
        manifests.write(
            "victim.yaml",
            &documents(&[
                ingress_class(),
                web("victim", &backends[0]),
                default.secret("lockgate", "default"),
                wildcard.secret("victim", "wildcard"),
                ingress("victim", "site", 2020, &spec),
            ]),
        );
        let config = Manifests::new();
        config.write("lockgate.yaml", &format!("namespaceOwnership: {mode:?}\n{DEFAULT}"));
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let mut envoy = Envoy::launch(&lockgate, Mode::Delta);
        envoy.wait_ready().await;
        let site = Self { manifests, authority, default, wildcard, config, lockgate, _envoy: envoy, backends };
        wait_everywhere("the victim is served", async || site.plain(HOSTS[0]).backend("/").await.is_some()).await;
        site.assert_unharmed(mode, "before any attack").await;
        site
    }

    fn plain(&self, host: &str) -> Target {
        Target::http(self.lockgate.http, host)
    }

    fn tls(&self, host: &str) -> Target {
        Target::https(self.lockgate.https, host, self.authority.der())
    }

    /// Applies the attacker's objects. Waits until Envoy has accepted all of them and the log contains the rejected
    /// ones.
    async fn attack(&self, name: &str, objects: &[String], told: &[&[&str]]) {
        let canary = format!("{name}.evil.test");
        let own = ingress("evil", "canary", 2030, &format!("{{ rules: [{}] }}", rule(&canary, "Prefix", "/")));
        let all = [&[web("evil", &self.backends[1]), own], objects].concat();
        self.manifests.write("evil.yaml", &documents(&all));
        let canary = self.plain(&canary);
        wait_everywhere(name, async || canary.backend("/").await.as_deref() == Some("evil")).await;
        for parts in told {
            self.lockgate.logged(parts).await;
        }
    }

    /// Asserts that all hosts of the victim have its answers and certificates.
    async fn assert_unharmed(&self, mode: Ownership, attack: &str) {
        let at = |what: &str| format!("{mode:?}, {attack}: {what}");
        for (host, path, expected) in [
            (HOSTS[0], "/", Some("victim")),
            (HOSTS[0], "/any/path", Some("victim")),
            (HOSTS[0], "/api/v1", Some("victim")),
            (HOSTS[1], "/api/v1", Some("victim")),
            (HOSTS[1], "/other", None),
            (HOSTS[2], "/", Some("victim")),
            (HOSTS[3], "/", Some("victim")),
        ] {
            for (side, target) in [("http", self.plain(host)), ("https", self.tls(host))] {
                let answer =
                    target.get(path).await.unwrap_or_else(|error| panic!("{}", at(&format!("{side} {host}: {error}"))));
                let expected = expected.map_or((404, ""), |backend| (200, backend));
                assert_eq!(
                    (answer.status, answer.header("x-backend")),
                    expected,
                    "{}",
                    at(&format!("{side} {host}{path}"))
                );
            }
        }
        for (host, pair) in HOSTS.iter().zip([&self.default, &self.default, &self.default, &self.wildcard]) {
            let presented = self.tls(host).connect().await.expect("a connection").certificate;
            assert_eq!(presented.as_ref(), Some(&pair.der), "{}", at(host));
        }
    }

    /// Removes the default certificate. Only the last host of the victim still has TLS.
    async fn without_default(&self, mode: Ownership) {
        self.config
            .write("lockgate.yaml", &format!("namespaceOwnership: {mode:?}\ningress: {{ httpsRedirect: false }}\n"));
        wait_everywhere("no default certificate", async || self.over_tls(HOSTS[0]).await.is_none()).await;
    }

    /// Returns the backend that answers TLS connections for `host`, with any certificate. `None`: there is none.
    async fn over_tls(&self, host: &str) -> Option<String> {
        self.tls(host).backend("/").await
    }
}

/// The default certificate.
const DEFAULT: &str = "tls: { defaultSecret: lockgate/default, redirect: false }\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_regular_expression_does_not_take_the_requests_of_another_namespace() {
    for mode in MODES {
        let site = Site::open(mode).await;
        let rules =
            [HOSTS[0], HOSTS[2], "*.wild.test"].map(|host| rule(host, "ImplementationSpecific", "/.*")).join(", ");
        let evil = ingress("evil", "regex", 2025, &format!("{{ rules: [{rules}] }}"));
        let told: &[&str] = match mode {
            Ownership::Strict => &[
                "namespace=evil name=regex",
                "spec.rules[0]",
                "victim",
                "Ingress victim/site",
                "namespaceOwnership",
                "Strict",
            ],
            Ownership::InterNamespaceAllowed => {
                &["namespace=evil name=regex", "spec.rules[0]", "Ingress victim/site", "left out"]
            }
        };
        if mode == Ownership::Strict {
            site.attack("regex", &[evil], &[told]).await;
        } else {
            // A name below a shared wildcard is a separate host.
            let evil = evil.replace(HOSTS[2], "other.wild.test");
            site.attack("regex", &[evil], &[told]).await;
        }
        site.assert_unharmed(mode, "regular expression").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_default_backend_gets_no_request_for_a_host_of_another_namespace() {
    for mode in MODES {
        let site = Site::open(mode).await;
        let backend = "{ service: { name: web, port: { name: http } } }";
        let evil = ingress("evil", "all", 2025, &format!("{{ defaultBackend: {backend} }}"));
        site.attack("default", &[evil], &[]).await;
        assert_eq!(site.plain("nobody.test").backend("/").await.as_deref(), Some("evil"));
        site.assert_unharmed(mode, "default backend").await;
        // A host with a trailing dot is the same host.
        assert_eq!(site.plain("api.platform.test.").get("/other").await.expect("an answer").status, 404);
        // A browser can use a connection for another name if the certificate covers both.
        let elsewhere = |host| site.tls(host).opened_for("unknown.test");
        assert_eq!(elsewhere("unknown.test").backend("/").await.as_deref(), Some("evil"));
        for (host, status) in [(HOSTS[1], 421), ("plain.test", 404)] {
            assert_eq!(elsewhere(host).get("/other").await.expect("an answer").status, status, "{mode:?} {host}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tls_entry_does_not_replace_the_certificate_of_another_namespace() {
    for mode in MODES {
        let site = Site::open(mode).await;
        let own = Authority::new().issue(&[HOSTS[0], "*.platform.test", "*.wild.test", "*.victim.test"]);
        let secret = own.secret("evil", "own");
        let hosts = format!("[{}, \"*.platform.test\", \"*.wild.test\", \"*.victim.test\"]", HOSTS[0]);
        let spec = format!("{{ tls: [{{ hosts: {hosts}, secretName: own }}], rules: [{{ host: own.evil.test }}] }}");
        // An Ingress that is older than the victim's, but has no rule for these hosts.
        let evil = ingress("evil", "certificate", 2010, &spec);
        let told = ["namespace=evil name=certificate", "spec.tls[0]", "shop.test", "Ingress victim/site", "not used"];
        site.attack("certificate", &[secret, evil], &[&told]).await;
        site.assert_unharmed(mode, "TLS entry").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wildcard_tls_entry_does_not_replace_the_default_certificate_below_it() {
    for mode in MODES {
        let site = Site::open(mode).await;
        let own = Authority::new().issue(&["*.platform.test"]);
        let spec = "{ tls: [{ hosts: [\"*.platform.test\"], secretName: own }], rules: [{ host: own.evil.test }] }";
        let evil = ingress("evil", "wildcard", 2025, spec);
        site.attack("wildcard", &[own.secret("evil", "own"), evil], &[]).await;
        site.assert_unharmed(mode, "wildcard TLS entry").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wildcard_certificate_does_not_serve_the_host_of_another_namespace() {
    for mode in MODES {
        for default in [true, false] {
            let site = Site::open(mode).await;
            if !default {
                site.without_default(mode).await;
            }
            let rules = rule("login.victim.test", "Prefix", "/");
            let spec = format!("{{ tls: [{{ hosts: [login.victim.test], secretName: nope }}], rules: [{rules}] }}");
            site.attack(
                "login",
                &[ingress("evil", "login", 2025, &spec)],
                &[&["namespace=evil name=login", "spec.tls[0]"]],
            )
            .await;
            assert_eq!(site.plain("login.victim.test").backend("/").await.as_deref(), Some("evil"));
            // The routes precede the listener, and each worker has a time of its own.
            wait_everywhere(&format!("no certificate of the victim, {mode:?}"), async || {
                match site.tls("login.victim.test").connect().await {
                    Ok(connection) => default && connection.certificate.as_ref() == Some(&site.default.der),
                    Err(_) => !default,
                }
            })
            .await;
            wait_everywhere(&format!("the host over TLS, {mode:?}"), async || {
                site.over_tls("login.victim.test").await.is_some() == default
            })
            .await;
            assert_eq!(site.over_tls(HOSTS[3]).await.as_deref(), Some("victim"), "{mode:?}");
            // Connections for a name of the victim are not affected either.
            let other = site.tls("login.victim.test").opened_for("any.victim.test");
            wait_everywhere(&format!("421 on a connection for another name, {mode:?}"), async || {
                other.get("/").await.is_ok_and(|answer| answer.status == 421)
            })
            .await;
        }
    }
}

/// With a separate chain for a name below the wildcard, Envoy would answer 421 on connections for the wildcard.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_rejected_below_a_wildcard_leaves_its_connections_as_they_are() {
    for mode in MODES {
        let site = Site::open(mode).await;
        let spec = format!(
            "{{ tls: [{{ hosts: [\"*.below.test\"], secretName: below }}], rules: [{}] }}",
            rule("*.below.test", "Prefix", "/")
        );
        let below = site.authority.issue(&["*.below.test"]).secret("victim", "below");
        site.manifests.write("below.yaml", &documents(&[below, ingress("victim", "below", 2020, &spec)]));
        wait_everywhere("the wildcard", async || site.over_tls("a.below.test").await.is_some()).await;
        let mut kept = site.tls("a.below.test").connect().await.expect("a connection");
        let own = Authority::new().issue(&["a.below.test"]).secret("evil", "own");
        // In the other mode, a rule for the name is served.
        let host = if mode == Ownership::Strict { "a.below.test" } else { "other.evil.test" };
        let tls = "[{ hosts: [a.below.test], secretName: own }]";
        let spec = format!("{{ tls: {tls}, rules: [{}] }}", rule(host, "Prefix", "/"));
        let told: &[&str] = &["namespace=evil name=below", "spec.tls[0]", "a.below.test"];
        site.attack("below", &[own, ingress("evil", "below", 2025, &spec)], &[told]).await;
        let answer = kept.send(Method::GET, "/", Bytes::new()).await.expect("an answer");
        assert_eq!((answer.status, answer.header("x-backend")), (200, "victim"), "{mode:?}");
        assert_eq!(site.over_tls("a.below.test").await.as_deref(), Some("victim"), "{mode:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_owner_delegates_a_host_and_takes_it_back() {
    let site = Site::open(Ownership::Strict).await;
    let added = [rule(HOSTS[0], "Prefix", "/team"), rule(HOSTS[0], "Exact", "/api")].join(", ");
    let added = ingress("evil", "added", 2025, &format!("{{ rules: [{added}] }}"));
    site.attack(
        "undelegated",
        std::slice::from_ref(&added),
        &[&["namespace=evil name=added", "spec.rules[0]", "Strict"]],
    )
    .await;
    site.assert_unharmed(Ownership::Strict, "without delegation").await;
    let delegated = ", annotations: { lockgate.dev/delegate-to: evil }, namespace: victim, creationTimestamp";
    site.manifests.replace("victim.yaml", ", namespace: victim, creationTimestamp", delegated);
    let team = site.plain(HOSTS[0]);
    wait_everywhere("a delegated path", async || team.backend("/team").await.as_deref() == Some("evil")).await;
    site.lockgate.logged(&["namespace=evil name=added", "exact path", "Ingress victim/site"]).await;
    site.assert_unharmed(Ownership::Strict, "with delegation").await;
    site.manifests.replace("victim.yaml", delegated, ", namespace: victim, creationTimestamp");
    wait_everywhere("no delegated path", async || team.backend("/team").await.as_deref() == Some("victim")).await;
}
