//! Hosts behind TLS, which share filter chains: the certificate and the routes of each server name. Connections are not
//! affected by other hosts that are added, removed, or get another certificate.

mod connection_managers;

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use e2e::certificates::Pair;
use e2e::load::Plan;
use e2e::manifests::{documents, ingress, ingress_class, service};
use e2e::{
    Authority, Backend, Echo, Envoy, Load, Lockgate, Manifests, Mode, PATIENCE, Source, Target, client, http3, ports,
    wait_everywhere, wait_until,
};
use hyper::Method;
use hyper::body::Bytes;

/// The number of hosts that join a chain, and of moves.
const JOINS: usize = 20;
const MOVES: usize = 10;
/// Hosts with one Secret that Envoy selects by a list of domains.
const MANY: usize = 120;
/// Secrets, each with its own certificate for all hosts.
const SECRETS: [&str; 3] = ["one", "other", "default"];

/// A controller, an Envoy, and TLS hosts by name, each with its Secret.
struct Site {
    manifests: Manifests,
    authority: Authority,
    pairs: BTreeMap<&'static str, Pair>,
    hosts: BTreeMap<String, &'static str>,
    lockgate: Lockgate,
    envoy: Envoy,
    config: Manifests,
}

impl Site {
    async fn open(mode: Mode, service: String, settings: &str, hosts: &[(&str, &'static str)]) -> Self {
        let (manifests, config, authority) = (Manifests::new(), Manifests::new(), Authority::new());
        let names = ["shop.test", "*.shop.test", "*.deep.shop.test", "*.y.shop.test"];
        let pairs: BTreeMap<_, _> = SECRETS.map(|secret| (secret, authority.issue(&names))).into();
        let secrets: Vec<String> = pairs.iter().map(|(name, pair)| pair.secret("default", name)).collect();
        manifests.write("base.yaml", &documents(&[[ingress_class(), service].as_slice(), &secrets].concat()));
        let hosts = hosts.iter().map(|(host, secret)| ((*host).to_owned(), *secret)).collect();
        manifests.write("hosts.yaml", &ingresses(&hosts));
        config.write("lockgate.yaml", settings);
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let admin = ports::free();
        // Long enough that drained connections are not closed during a test.
        let flags = ["--drain-time-s", "2"];
        let mut envoy = Envoy::launch_with_flags(&lockgate.bootstrap(mode, admin, "envoy"), admin, &flags);
        envoy.wait_ready().await;
        Self { manifests, authority, pairs, hosts, lockgate, envoy, config }
    }

    fn publish(&self) {
        self.manifests.write("hosts.yaml", &ingresses(&self.hosts));
    }

    fn target(&self, host: &str) -> Target {
        Target::https(self.lockgate.https, host, self.authority.der())
    }

    fn over_http2(&self, host: &str) -> Target {
        let versions = rustls::ALL_VERSIONS;
        Target::https_by(self.lockgate.https, host, self.authority.der(), versions, &["h2"]).over_http2()
    }

    /// Returns the Secret whose certificate is presented for this server name.
    async fn presented_secret(&self, server_name: &str) -> &'static str {
        let connection = self.target(server_name).connect().await.expect("a connection");
        self.secret_of(&connection.certificate.expect("a certificate"))
    }

    /// Returns the Secret whose certificate is presented for this server name, if its connections are accepted.
    async fn presented(&self, server_name: &str) -> Option<&'static str> {
        let connection = self.target(server_name).connect().await.ok()?;
        Some(self.secret_of(&connection.certificate?))
    }

    fn secret_of(&self, certificate: &[u8]) -> &'static str {
        let found = self.pairs.iter().find(|(_, pair)| *pair.der == *certificate);
        found.map_or("nobody's", |(secret, _)| secret)
    }

    async fn wait_served(&self, host: &str) {
        let target = self.target(host);
        wait_everywhere(host, async || target.get("/").await.is_ok_and(|answer| answer.status == 200)).await;
    }

    /// Waits until connections to a new host are accepted. The first accepted connection must be served by its service.
    async fn wait_joined(&self, host: &str) {
        let (target, deadline) = (self.target(host), Instant::now() + PATIENCE);
        loop {
            if let Ok(mut connection) = target.connect().await {
                return ok(&mut connection).await;
            }
            assert!(Instant::now() < deadline, "no connection to {host}");
            // No pause as in `wait_until`, because the transition takes less than a millisecond.
            tokio::task::yield_now().await;
        }
    }

    /// Returns the status of a request for `host` over a connection for `server_name`.
    async fn status(&self, server_name: &str, host: &str) -> u16 {
        let target = self.target(host).opened_for(server_name);
        target.get("/").await.expect("an answer").status
    }

    async fn draining(&self) -> u64 {
        self.envoy.stat("listener_manager.total_filter_chains_draining").await
            + self.envoy.stat("listener_manager.total_listeners_draining").await
    }
}

fn ingresses(hosts: &BTreeMap<String, &'static str>) -> String {
    let one = |(i, (host, secret)): (usize, (&String, &&str))| {
        ingress(&format!("host-{i}"), &format!("\"{host}\""), "shop", Some(secret))
    };
    documents(&hosts.iter().enumerate().map(one).collect::<Vec<_>>())
}

async fn ok(connection: &mut client::Connection) {
    let answer = connection.send(Method::GET, "/", Bytes::new()).await.expect("an answer");
    assert_eq!((answer.status, answer.header("connection")), (200, ""), "{}", answer.text());
}

/// Hosts join and leave the chain of others, and one moves to another chain and back. Requests continue over kept and
/// over new connections.
async fn hosts_come_go_and_move(mode: Mode) {
    let backend = Backend::start("a").await;
    let hosts = [("kept.shop.test", "one"), ("moving.shop.test", "one"), ("aside.shop.test", "other")];
    let mut site = Site::open(mode, service("shop", "", &[backend.address]), "", &hosts).await;
    site.wait_served("moving.shop.test").await;
    let plan =
        |host: &str, renew_after| Plan { rate: 200, connections: 4, renew_after, ..Plan::new(site.target(host), "/") };
    let kept = [Load::start(plan("kept.shop.test", None)).await, Load::start(plan("moving.shop.test", None)).await];
    let renewed =
        [Load::start(plan("kept.shop.test", Some(5))).await, Load::start(plan("moving.shop.test", Some(5))).await];
    let mut http2 = [site.over_http2("kept.shop.test"), site.over_http2("moving.shop.test")].map(Some);
    let mut streams = Vec::new();
    for target in http2.iter_mut().filter_map(Option::take) {
        streams.push(target.connect().await.expect("a connection"));
    }
    let updates = async |site: &Site| site.envoy.stat("listener_manager.listener_in_place_updated").await;
    let before = updates(&site).await;
    for i in 0..JOINS {
        let host = format!("h{i}.shop.test");
        site.hosts.insert(host.clone(), "one");
        site.publish();
        site.wait_joined(&host).await;
        for stream in &mut streams {
            ok(stream).await;
        }
    }
    assert!(updates(&site).await >= before + JOINS as u64);
    site.hosts.retain(|host, _| !host.starts_with('h'));
    site.publish();
    wait_until("the end of h0.shop.test", async || site.target("h0.shop.test").connect().await.is_err()).await;
    for i in 1..=MOVES {
        let secret = SECRETS[i % 2];
        site.hosts.insert("moving.shop.test".into(), secret);
        site.publish();
        wait_until("the other certificate", async || site.presented_secret("moving.shop.test").await == secret).await;
        for stream in &mut streams {
            ok(stream).await;
        }
    }
    assert_eq!(site.draining().await, 0, "no chain has changed");
    for load in &kept {
        // Longer than the drain of a chain.
        load.answers(600).await;
    }
    for stream in &mut streams {
        ok(stream).await;
    }
    for load in kept {
        let report = load.stop().await;
        println!("{JOINS} joins and {MOVES} moves, {mode:?}, connections kept: {report}");
        assert_eq!((report.failed(), report.connections), (0, 4), "{report}");
    }
    for load in renewed {
        let report = load.stop().await;
        println!("{JOINS} joins and {MOVES} moves, {mode:?}, connections renewed: {report}");
        assert_eq!(report.failed(), 0, "{report}");
    }
    // A chain is removed with its last host, without other effects.
    site.hosts.remove("aside.shop.test");
    site.publish();
    wait_until("the end of aside.shop.test", async || site.target("aside.shop.test").connect().await.is_err()).await;
    ok(&mut streams[0]).await;
    assert_eq!(site.envoy.stat("listener_manager.listener_modified").await, updates(&site).await);
    assert!(site.envoy.warnings().iter().all(|line| line.contains("configured limit")), "{:?}", site.envoy.warnings());
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_come_go_and_move_delta() {
    hosts_come_go_and_move(Mode::Delta).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_come_go_and_move_sotw() {
    hosts_come_go_and_move(Mode::Sotw).await;
}

/// The clock of an issuer is ahead. The certificate is served from the start of its validity, without another change.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_of_the_near_future_is_served_when_it_becomes_valid() {
    let backend = Backend::start("a").await;
    let hosts = [("kept.shop.test", "one")];
    let mut site = Site::open(Mode::Delta, service("shop", "", &[backend.address]), "", &hosts).await;
    site.wait_served("kept.shop.test").await;
    let start = SystemTime::now() + Duration::from_secs(5);
    let early = site.authority.issue_from(&["early.shop.test"], start);
    site.manifests.write("early.yaml", &early.secret("default", "early"));
    site.hosts.insert("early.shop.test".into(), "early");
    site.publish();
    wait_until("the problem", async || {
        let problems = site.lockgate.get("/debug/problems").await.text();
        problems.contains("early") && problems.contains("the certificate is not valid before")
    })
    .await;
    assert!(SystemTime::now() < start, "the problem was reported late");
    let target = site.target("early.shop.test");
    wait_until("the certificate", async || {
        let connection = target.connect().await;
        connection.is_ok_and(|connection| connection.certificate.is_some_and(|found| *found == *early.der))
    })
    .await;
    assert!(SystemTime::now() + Duration::from_secs(1) >= start, "the certificate is served before its start");
    site.wait_served("kept.shop.test").await;
}

/// Requests a certificate from Envoy with TLS 1.2, which sends it in plain text. The server name is sent unchanged.
async fn presented_to(port: u16, server_name: &str) -> Vec<u8> {
    let field = |kind: u16, content: &[u8]| [&kind.to_be_bytes(), &length(content)[..], content].concat();
    let name = [&[0][..], &length(server_name.as_bytes()), server_name.as_bytes()].concat();
    let extensions = [
        field(0, &[&length(&name)[..], &name].concat()), // server_name
        field(10, &[0, 2, 0, 23]),                       // supported_groups: P-256
        field(11, &[1, 0]),                              // ec_point_formats: uncompressed
        field(13, &[0, 2, 4, 3]),                        // signature_algorithms: ecdsa_secp256r1_sha256
    ]
    .concat();
    let suites = [0, 2, 0xc0, 0x2b]; // ECDHE-ECDSA-AES128-GCM-SHA256
    let hello = [&[3, 3][..], &[7; 32], &[0], &suites, &[1, 0], &length(&extensions), &extensions].concat();
    let hello = [&[1, 0][..], &length(&hello), &hello].concat();
    let record = [&[22, 3, 1][..], &length(&hello), &hello].concat();
    // ServerHelloDone is the last message of the server, in its own record.
    client::raw(port, &record, |read| read.ends_with(&[14, 0, 0, 0])).await
}

fn length(content: &[u8]) -> [u8; 2] {
    u16::try_from(content.len()).expect("less than 64 KiB").to_be_bytes()
}

fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

const CHOICE: [(&str, &str); 5] = [
    ("a.shop.test", "one"),
    ("b.shop.test", "one"),
    ("c.shop.test", "other"),
    ("*.shop.test", "other"),
    ("*.deep.shop.test", "one"),
];

/// Asserts that each server name of [`CHOICE`] leads to its certificate and its routes.
async fn assert_choice(site: &Site) {
    for (name, secret) in [
        ("a.shop.test", "one"),
        ("c.shop.test", "other"),
        ("x.shop.test", "other"),
        ("x.deep.shop.test", "one"),
        ("shop.test", "default"),
    ] {
        assert_eq!(site.presented_secret(name).await, secret, "{name}");
    }
    // Server names match in any case, and at any depth below a wildcard.
    for (name, secret) in
        [("A.Shop.Test", "one"), ("X.SHOP.TEST", "other"), ("x.y.shop.test", "other"), ("nobody.example", "default")]
    {
        let said = presented_to(site.lockgate.https, name).await;
        assert!(contains(&said, &site.pairs[secret].der), "{name} is not presented the certificate {secret:?}");
    }

    for (server_name, host, expected) in [
        ("a.shop.test", "a.shop.test", 200),
        ("a.shop.test", "A.SHOP.TEST:8443", 200),
        ("x.shop.test", "x.shop.test", 200),
        ("x.shop.test", "y.shop.test", 200),
        ("x.deep.shop.test", "x.deep.shop.test", 200),
        // Another host, on the same chain or not.
        ("a.shop.test", "b.shop.test", 421),
        ("a.shop.test", "c.shop.test", 421),
        ("a.shop.test", "x.shop.test", 421),
        ("x.shop.test", "a.shop.test", 421),
        ("x.shop.test", "x.deep.shop.test", 421),
        ("x.deep.shop.test", "x.shop.test", 421),
        ("a.shop.test", "nobody.example", 421),
        // A wildcard covers one label.
        ("x.y.shop.test", "x.y.shop.test", 404),
        ("shop.test", "shop.test", 404),
    ] {
        assert_eq!(site.status(server_name, host).await, expected, "{host} over a connection for {server_name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn server_names_lead_to_certificates_and_routes() {
    let echo = Echo::start().await;
    let settings = "tls: { defaultSecret: default/default }\n";
    let mut site = Site::open(Mode::Delta, service("shop", "", &[echo.address]), settings, &CHOICE).await;
    site.wait_served("a.shop.test").await;
    assert_choice(&site).await;

    // With many names of one chain, Envoy selects the chain in another way. No chain changes.
    let mut kept = site.target("a.shop.test").connect().await.expect("a connection");
    for i in 0..MANY {
        site.hosts.insert(format!("many-{i}.shop.test"), "one");
    }
    site.publish();
    let last = format!("many-{}.shop.test", MANY - 1);
    wait_until("the last of many hosts", async || site.presented(&last).await == Some("one")).await;
    assert_choice(&site).await;
    ok(&mut kept).await;
    assert_eq!(site.draining().await, 0);

    // The header with which Envoy finds the routes is internal: clients cannot set it, and backends do not receive it.
    let header = "x-lockgate-server-name";
    let spoofed = site.target("a.shop.test").field(header, "c.shop.test").get("/").await.expect("an answer");
    assert_eq!(spoofed.status, 200);
    assert!(spoofed.text().contains("host: a.shop.test"), "{}", spoofed.text());
    assert!(!spoofed.text().contains(header), "{}", spoofed.text());

    // The scope is removed and added again.
    site.hosts.retain(|host, _| host.starts_with('*'));
    site.publish();
    // A worker that still has the old filter chain answers 421.
    let wildcard = async || site.presented_secret("a.shop.test").await == "other";
    wait_everywhere("the wildcard for a.shop.test", wildcard).await;
    assert_eq!(site.status("a.shop.test", "a.shop.test").await, 200);
    for (host, secret) in CHOICE {
        site.hosts.insert(host.into(), secret);
    }
    site.publish();
    wait_until("a.shop.test", async || site.presented_secret("a.shop.test").await == "one").await;
    site.wait_served("a.shop.test").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn server_names_lead_to_certificates_and_routes_over_http3() {
    let echo = Echo::start().await;
    let settings = "tls: { defaultSecret: default/default }\nhttp: { http3: { enabled: true } }\n";
    let mut site = Site::open(Mode::Delta, service("shop", "", &[echo.address]), settings, &CHOICE).await;
    site.wait_served("a.shop.test").await;
    let open = async |site: &Site, name: &str| {
        http3::Connection::open(site.lockgate.https, name, site.authority.der()).await.expect("a connection")
    };
    for (name, secret, status) in [
        ("a.shop.test", "one", 200),
        ("b.shop.test", "one", 200),
        ("c.shop.test", "other", 200),
        ("x.shop.test", "other", 200),
        ("x.deep.shop.test", "one", 200),
        ("shop.test", "default", 404),
    ] {
        let mut connection = open(&site, name).await;
        let certificate = connection.certificate().expect("a certificate");
        assert_eq!(site.secret_of(&certificate), secret, "{name}");
        assert_eq!(connection.get(name, "/").await.expect("an answer").status, status, "{name}");
    }
    let mut connection = open(&site, "a.shop.test").await;
    assert_eq!(connection.get("b.shop.test", "/").await.expect("an answer").status, 421);
    // A new host and a moved host do not affect open connections.
    site.hosts.insert("new.shop.test".into(), "one");
    site.hosts.insert("b.shop.test".into(), "other");
    site.publish();
    wait_until("the move of b.shop.test", async || site.presented_secret("b.shop.test").await == "other").await;
    assert_eq!(open(&site, "new.shop.test").await.get("new.shop.test", "/").await.expect("an answer").status, 200);
    let certificate = open(&site, "b.shop.test").await.certificate().expect("a certificate");
    assert_eq!(site.secret_of(&certificate), "other");
    assert_eq!(site.draining().await, 0, "no chain has changed");
    assert_eq!(connection.get("a.shop.test", "/").await.expect("an answer").status, 200);
}
