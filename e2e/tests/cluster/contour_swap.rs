//! The move from Contour to Lockgate, with the commands of `docs/migration/contour.md`, while clients request all hosts: no request fails,
//! and every answer stays the same.

mod features;
mod objects;
mod probes;
mod traffic;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use e2e::lab::echo;
use e2e::pages::{self, Block};
use e2e::process::repository;
use e2e::{Authority, Lab};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::reader::Reader;
use objects::{SERVICES, Site, Teams};
use probes::Probe;
use traffic::{CLIENTS, Traffic};

const PAGE: &str = "docs/migration/contour.md";
/// The mark of a block, before the name of its step.
const STEP: &str = "step: ";
/// The namespace of Contour.
const CONTOUR: &str = "projectcontour";

/// The page and its reader.
struct Guide {
    reader: Reader,
    blocks: Vec<Block>,
    start: Instant,
}

impl Guide {
    async fn open(lab: &Lab) -> Self {
        let text = std::fs::read_to_string(repository().join(PAGE)).expect(PAGE);
        let blocks = pages::blocks(PAGE, &text);
        Self { reader: Reader::new(lab, "default").await, blocks, start: Instant::now() }
    }

    /// Types the commands of a step.
    async fn step(&self, name: &str) {
        println!("{:.0} s: {name}", self.start.elapsed().as_secs_f64());
        let commands = self.reader.run_blocks(&self.blocks, &format!("{STEP}{name}")).await;
        assert!(commands > 0, "{PAGE} has no step {name}");
    }

    /// Returns the steps of the page.
    fn steps(&self) -> Vec<&str> {
        self.blocks.iter().filter_map(|block| block.mark(STEP)).collect()
    }
}

/// Applies Contour's manifests, as its documentation says, and waits until its Envoys are ready. Returns their address.
async fn install_contour(lab: &Lab) -> IpAddr {
    // kubectl does not follow a link to a directory. The definitions and the namespace come first in the order of the names.
    let manifests = e2e::lab::program("contour-manifests").canonicalize().expect("a directory");
    let manifests = manifests.display().to_string();
    lab.kubectl(&["apply", "--server-side", "-f", &manifests], "").await;
    for what in ["deployment/contour", "daemonset/envoy"] {
        lab.kubectl(&["rollout", "status", what, "--namespace", CONTOUR, "--timeout=120s"], "").await;
    }
    lab.address(CONTOUR, "envoy").await
}

/// Returns the answers to all requests at an address when they have been the same twice: Contour serves a root before all that it includes.
async fn answers(lab: &Lab, address: IpAddr, authority: &Authority, probes: &[Probe]) -> Vec<(Probe, String)> {
    let mut last = first_answers(lab, address, authority, probes).await;
    loop {
        let now = first_answers(lab, address, authority, probes).await;
        if now.iter().map(|(_, answer)| answer).eq(last.iter().map(|(_, answer)| answer)) {
            return now;
        }
        last = now;
    }
}

/// Returns the answers to all requests at an address, as soon as each has its expected status.
async fn first_answers(lab: &Lab, address: IpAddr, authority: &Authority, probes: &[Probe]) -> Vec<(Probe, String)> {
    let mut answers = Vec::new();
    for probe in probes {
        let target = probe.target(address, authority);
        let mut last = String::new();
        let expected = async || {
            let answer = match target.connect().await {
                Ok(mut connection) => probe.send(&mut connection).await,
                Err(error) => Err(error),
            };
            last = answer.as_ref().map_or_else(ToString::to_string, |answer| probe.fingerprint(answer));
            answer.ok().filter(|answer| answer.status == probe.status)
        };
        let answer =
            tokio::time::timeout(std::time::Duration::from_secs(60), lab.until(&probe.to_string(), expected)).await;
        let (answer, _) = answer.unwrap_or_else(|_| panic!("{probe}: {last} instead of {}", probe.status));
        answers.push((probe.clone(), probe.fingerprint(&answer)));
    }
    answers
}

/// Returns the first line of the answer to a WebSocket handshake.
async fn websocket(address: IpAddr) -> String {
    let mut stream = TcpStream::connect(SocketAddr::from((address, 80))).await.expect("a connection");
    let request = "GET /ws HTTP/1.1\r\nhost: websockets.example.com\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                   origin: http://websockets.example.com\r\nsec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut read = Vec::new();
    while !read.contains(&b'\n') && stream.read_buf(&mut read).await.is_ok_and(|count| count > 0) {}
    String::from_utf8_lossy(&read).lines().next().unwrap_or_default().to_owned()
}

/// Returns the number of status writes so far, by the name of the service account.
fn status_writes(lab: &Lab) -> BTreeMap<String, usize> {
    let mut writes = BTreeMap::new();
    for request in lab.requests() {
        let is_write = ["patch", "update"].contains(&&*request.verb) && request.uri.contains("/status");
        if is_write && ["httpproxies", "ingresses"].contains(&&*request.resource) {
            *writes.entry(request.user.rsplit(':').next().unwrap_or_default().to_owned()).or_default() += 1;
        }
    }
    writes
}

/// Returns the objects whose status is not that of a served object with this address.
async fn not_served(lab: &Lab, address: IpAddr) -> Vec<String> {
    let mut wrong = Vec::new();
    for path in ["/apis/projectcontour.io/v1/httpproxies", "/apis/networking.k8s.io/v1/ingresses"] {
        for object in lab.list(path).await {
            let status = &object["status"];
            let conditions = status["conditions"].as_array().into_iter().flatten();
            let is_true = |kind: &str| conditions.clone().any(|one| one["type"] == kind && one["status"] == "True");
            let is_valid =
                || status["currentStatus"] == "valid" && is_true("Valid") && is_true("lockgate.dev/Programmed");
            let has_address = e2e::lab::addresses_in(&object) == [address];
            if !has_address || path.contains("httpproxies") && !is_valid() {
                wrong.push(format!("{}: {status}", object["metadata"]["name"]));
            }
        }
    }
    wrong
}

/// Returns the names and the creation times of all HTTPProxies.
async fn identities(lab: &Lab) -> Vec<Value> {
    let proxies = lab.list("/apis/projectcontour.io/v1/httpproxies").await;
    proxies.iter().map(|proxy| json!([proxy["metadata"]["name"], proxy["metadata"]["uid"]])).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_under_load_fails_no_request() {
    let lab = Lab::alone().await;
    let authority = Authority::new();
    let contour = install_contour(&lab).await;
    let [edge, shop, blog] = [lab.namespace("edge").await, lab.namespace("shop").await, lab.namespace("blog").await];
    let teams = Teams { edge: edge.name.clone(), shop: shop.name.clone(), blog: blog.name.clone() };
    for space in [&edge, &shop, &blog] {
        space.apply(&SERVICES.map(|name| echo(name).port(80).yaml()).concat()).await;
    }
    lab.apply(&objects::certificates(&teams, &authority)).await;
    let site = Site::new(&teams);
    lab.apply(&json!({ "apiVersion": "v1", "kind": "List", "items": site.objects }).to_string()).await;
    for space in [&edge, &shop, &blog] {
        for name in SERVICES {
            space.endpoints(name, 1).await;
        }
    }
    let expected = answers(&lab, contour, &authority, &site.probes).await;
    assert_eq!(websocket(contour).await, "HTTP/1.1 101 Switching Protocols");
    let before = identities(&lab).await;

    let guide = Guide::open(&lab).await;
    println!("{} objects, {} requests", site.objects.len(), expected.len());
    let traffic = Traffic::start(contour, authority, expected);
    traffic.answers(500).await;

    guide.step("report").await;
    guide.step("install").await;
    guide.step("wait").await;
    let lockgate = lab.address("lockgate", "lockgate-envoy").await;
    assert_eq!(websocket(lockgate).await, "HTTP/1.1 101 Switching Protocols");
    guide.step("compare").await;
    assert_eq!(not_served(&lab, contour).await, [""; 0]);
    let settled = async || {
        let writes = status_writes(&lab);
        traffic.answers(2000).await;
        (status_writes(&lab) == writes).then_some(writes)
    };
    let (writes, _) = lab.until("an end of the status writes of both controllers", settled).await;
    println!("status writes until the controllers agree: {writes:?}");

    guide.step("status").await;
    traffic.move_clients(lockgate, CLIENTS / 2).await;
    assert_eq!(not_served(&lab, lockgate).await, [""; 0]);

    // The way back, and forth again.
    traffic.move_clients(lockgate, 0).await;
    guide.step("back").await;
    for step in ["install", "wait", "compare", "status"] {
        guide.step(step).await;
    }
    let lockgate = lab.address("lockgate", "lockgate-envoy").await;
    traffic.move_clients(lockgate, CLIENTS).await;
    guide.step("move").await;
    guide.step("uninstall").await;
    traffic.answers(500).await;
    guide.step("check").await;
    traffic.answers(500).await;

    let (summary, failed) = traffic.stop().await;
    println!("{summary}");
    assert_eq!(failed, 0);
    assert_eq!(websocket(lockgate).await, "HTTP/1.1 101 Switching Protocols");
    let served = async || not_served(&lab, lockgate).await.is_empty().then_some(());
    lab.until("the status of Lockgate", served).await;
    assert_eq!(identities(&lab).await, before, "the same objects");
    println!("status writes: {:?}", status_writes(&lab));
    let all = ["report", "install", "wait", "compare", "status", "move", "uninstall", "check", "back"];
    assert_eq!(guide.steps(), all, "this spec runs all steps");
}
