//! Fuzz targets `xds` (received requests in every form) and `stream` (any order of events on one stream).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use bytes::Bytes;
use envoy_types::pb::envoy::config::core::v3 as core_v3;
use envoy_types::pb::envoy::service::discovery::v3 as discovery_v3;
use envoy_types::pb::google::protobuf::{Struct, Value, value::Kind};
use envoy_types::pb::google::rpc::Status;
use prost::Message;

use crate::protocol::tests::harness::*;
use crate::protocol::{Fetch, encode};
use crate::protocol::{Node, Output, Refusal, Request, Response, Stream, Timing, Variant};
use crate::server::inbound::{self, Requests};
use crate::server::{rest, v2};
use crate::snapshot::{ApiVersion, Resource, ResourceType, Snapshot, Store, Update};
use fuzzing::Random;

const TYPES: [ResourceType; 7] = [CLUSTER, ENDPOINTS, LISTENER, ROUTES, SECRET, VIRTUAL_HOST, SCOPED_ROUTES];
const NAMES: [&str; 14] = [
    "a",
    "b",
    "c",
    "r",
    "r/a",
    "*",
    "",
    "absent",
    "xdstp://lockgate/T/p/*",
    "xdstp://lockgate/T/p/1",
    "xdstp://lockgate/T/p/1?b=c&a=b#x",
    "xdstp://",
    "/",
    "é\u{0}",
];

fn world() -> Vec<Resource> {
    let mut all = vec![listener("a", "r"), routes("r", ["a", "b"]), secret("a"), virtual_host("r/a", "a")];
    for name in ["a", "b", "xdstp://lockgate/T/p/1"] {
        all.extend([cluster(name), endpoints(name)]);
    }
    all
}

fn value(kind: Kind) -> Value {
    Value { kind: Some(kind) }
}

/// Real requests for both variants.
fn requests() -> [Vec<Vec<u8>>; 2] {
    let mut deep = value(Kind::BoolValue(true));
    for _ in 0..20 {
        deep = value(Kind::StructValue(Struct { fields: [("k".to_owned(), deep)].into() }));
    }
    let fields = [("group".to_owned(), value(Kind::StringValue("x".to_owned()))), ("deep".to_owned(), deep)];
    let node = core_v3::Node {
        id: "one".to_owned(),
        cluster: "edge".to_owned(),
        user_agent_name: "envoy".to_owned(),
        client_features: vec!["xds.config.resource-in-sotw".to_owned()],
        metadata: Some(Struct { fields: fields.into() }),
        ..Default::default()
    };
    let names = |some: usize| NAMES.iter().take(some).map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let locator = discovery_v3::ResourceLocator {
        name: "a".to_owned(),
        dynamic_parameters: [("env".to_owned(), "prod".to_owned())].into(),
    };
    let (mut sotw, mut delta) = (Vec::new(), Vec::new());
    for kind in TYPES {
        let error = Status { code: 3, message: "does not fit: a".to_owned(), details: Vec::new() };
        for (some, node, error) in
            [(0, Some(node.clone()), None), (2, None, Some(error)), (14, Some(node.clone()), None)]
        {
            sotw.push(
                discovery_v3::DiscoveryRequest {
                    version_info: "0123456789abcdef".to_owned(),
                    node: node.clone(),
                    resource_names: names(some),
                    type_url: kind.url().to_owned(),
                    response_nonce: "1".to_owned(),
                    error_detail: error.clone(),
                    resource_locators: vec![locator.clone()],
                }
                .encode_to_vec(),
            );
            delta.push(
                discovery_v3::DeltaDiscoveryRequest {
                    node,
                    type_url: kind.url_in(ApiVersion::V2).to_owned(),
                    resource_names_subscribe: names(some),
                    resource_names_unsubscribe: names(some / 2),
                    resource_locators_subscribe: vec![locator.clone()],
                    resource_locators_unsubscribe: vec![locator.clone()],
                    initial_resource_versions: names(some).into_iter().map(|name| (name, "01".to_owned())).collect(),
                    response_nonce: "1".to_owned(),
                    error_detail: error,
                }
                .encode_to_vec(),
            );
        }
    }
    [sotw, delta]
}

const JSON: [&str; 4] = [
    r#"{"version_info": "1", "node": {"id": "n", "cluster": "c", "user_agent_name": "envoy", "metadata": {"a": [1, {}]}},
        "resource_names": ["a", "b"], "type_url": "type.googleapis.com/envoy.config.cluster.v3.Cluster"}"#,
    r#"{"versionInfo": "1", "node": {"clientFeatures": ["x"]}, "resourceNames": [], "typeUrl": ""}"#,
    r#"{"resource_names": ["xdstp://lockgate/T/p/*", "*", ""], "node": null}"#,
    "[[[[{\"a\": {\"a\": {\"a\": 1e999}}}]]]]",
];

/// Returns the requests in a body like the server: framed, in pieces.
fn framed(
    random: &mut Random,
    runtime: &tokio::runtime::Runtime,
    variant: Variant,
    corpus: &[Vec<Vec<u8>>; 2],
) -> Vec<Request> {
    let corpus = &corpus[usize::from(variant == Variant::Delta)];
    let mut body = Vec::new();
    for _ in 0..random.within(1..=2) {
        let request = random.choose(corpus).clone();
        let request = if random.one_in(3) { request } else { random.mutate(&request, corpus) };
        body.push(if random.one_in(50) { random.bits() as u8 } else { 0 });
        let length = if random.one_in(50) { random.bits() as u32 >> random.below(32) } else { request.len() as u32 };
        body.extend(length.to_be_bytes());
        body.extend(request);
    }
    let at = random.below(body.len());
    let pieces =
        [&body[..at], &body[at..]].map(|piece| Ok::<_, std::convert::Infallible>(Bytes::copy_from_slice(piece)));
    let body = Body::from_stream(futures::stream::iter(pieces));
    async fn all<R: Message + Default + Into<Request>>(body: Body) -> Vec<Request> {
        let (mut requests, mut all) = (Requests::<R>::new(body), Vec::new());
        while let Ok(Some(request)) = requests.message().await {
            all.push(request);
        }
        all
    }
    match variant {
        Variant::Sotw => runtime.block_on(all::<discovery_v3::DiscoveryRequest>(body)),
        Variant::Delta => runtime.block_on(all::<discovery_v3::DeltaDiscoveryRequest>(body)),
    }
}

/// Asserts the rules of every response: a new nonce, and only resources of its type.
fn check(response: &Response, nonces: &mut BTreeSet<String>) {
    assert!(!response.nonce.is_empty() && nonces.insert(response.nonce.clone()), "nonce {:?}", response.nonce);
    // A request for an unknown type gets an empty response.
    let kind = ResourceType::of_url(&response.type_url);
    assert!(response.resources.iter().all(|resource| Some(resource.kind()) == kind), "{response:?}");
    assert!(response.heartbeats.iter().all(|resource| Some(resource.kind()) == kind), "{response:?}");
}

fn snapshot(resources: Vec<Resource>) -> (Store, Arc<Snapshot>) {
    let store = Store::default();
    store.replace(resources);
    let newest = store.newest().expect("a snapshot");
    (store, newest)
}

#[test]
fn fuzz_xds() {
    let (corpus, (_store, newest)) = (requests(), snapshot(world()));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    fuzzing::run("xds", 2_000, |random| {
        let variant = *random.choose(&[Variant::Sotw, Variant::Delta]);
        let api = *random.choose(&[ApiVersion::V2, ApiVersion::V3]);
        let kind = *random.choose(&TYPES);
        let form = random.below(4);
        let requests = match form {
            0 => {
                let text = *random.choose(&JSON);
                let body = random.mutate(text.as_bytes(), &JSON);
                let request = rest::parse(&body).ok().and_then(|request| inbound::bounded(request).ok());
                request.into_iter().collect()
            }
            _ => framed(random, &runtime, variant, &corpus),
        };
        let mut stream = Stream::new(variant, form == 1, Timing::default(), newest.clone());
        let implied = (form != 1).then_some(kind);
        let mut outcome = if requests.is_empty() { "not requests" } else { "refused" };
        let mut nonces = BTreeSet::new();
        for request in requests {
            let request = v2::complete(request, implied, api);
            let length = request.type_url.len().max(request.nonce.len());
            assert!(length <= 1024, "a label of {length} bytes");
            match form {
                // Polling clients get separate responses.
                0 | 2 if variant == Variant::Sotw => match Fetch::new(kind, request) {
                    Ok(fetch) => {
                        let _ = fetch.is_current(&newest);
                        let response = fetch.response(&newest);
                        let encoded = encode::response(&response, Variant::Sotw, "fuzz").into_bytes();
                        assert!(discovery_v3::DiscoveryResponse::decode(encoded).is_ok());
                        outcome = "fetched";
                    }
                    Err(refusal) => assert!(!refusal.to_string().is_empty()),
                },
                _ => match stream.on_request(request, implied, Instant::now()) {
                    Ok(outputs) => {
                        for output in outputs {
                            let Output::Send(response) = output else { continue };
                            check(&response, &mut nonces);
                        }
                        let _ = stream.describe();
                        outcome = "streamed";
                    }
                    Err(refusal) => {
                        assert!(refusal.to_string().len() < 4096);
                        break;
                    }
                },
            }
        }
        outcome
    });
}

/// Returns one of the contents of a resource.
fn resource(kind: ResourceType, name: &str, content: usize) -> Resource {
    match kind {
        VIRTUAL_HOST => virtual_host(name, &format!("host-{content}")),
        _ => any_kind(kind, name, content as u32),
    }
}

/// Returns an arbitrary request: any type, names, nonce, and error.
fn any_request(random: &mut Random, sent: &[Response], own: Option<ResourceType>) -> Request {
    let names =
        |random: &mut Random| (0..random.below(4)).map(|_| (*random.choose(&NAMES)).to_owned()).collect::<Vec<_>>();
    let answered = if sent.is_empty() || random.one_in(4) { None } else { Some(random.choose(sent)) };
    let kind = own.filter(|_| !random.one_in(50)).unwrap_or(*random.choose(&TYPES));
    let mut request = Request {
        type_url: kind.url().to_owned(),
        subscribe: names(random),
        unsubscribe: if random.one_in(2) { names(random) } else { Vec::new() },
        ..Request::default()
    };
    if let Some(response) = answered {
        request.nonce.clone_from(&response.nonce);
        request.version.clone_from(&response.version);
        if !random.one_in(8) {
            request.type_url = response.type_url.to_string();
        }
        if random.one_in(2) {
            request.subscribe.clear();
        }
    }
    match random.below(40) {
        0 => request.nonce = "stale".to_owned(),
        1 => request.type_url = kind.url_in(ApiVersion::V2).to_owned(),
        2 => request.type_url = "type.googleapis.com/google.protobuf.Any".to_owned(),
        3 => request.version = "ffffffffffffffff".to_owned(),
        4 => request.initial_versions = names(random).into_iter().map(|name| (name, "01".to_owned())).collect(),
        5 => request.node = Some(Node::default()),
        6..=12 => request.error = Some(format!("resource {} is wrong", random.choose(&NAMES))),
        _ => {}
    }
    request
}

#[test]
fn fuzz_stream() {
    let mut made = std::collections::HashMap::new();
    fuzzing::run("stream", 500, |random| {
        let mut of = |random: &mut Random| {
            let (kind, name) = (*random.choose(&TYPES), NAMES[random.below(5)]);
            let content = random.below(4);
            made.entry((kind, name, content)).or_insert_with(|| resource(kind, name, content)).clone()
        };
        let first: Vec<Resource> = (0..random.below(12)).map(|_| of(random)).collect();
        let (store, newest) = snapshot(first);
        let variant = *random.choose(&[Variant::Sotw, Variant::Delta]);
        let own = random.one_in(3).then(|| *random.choose(&TYPES));
        let large = if random.one_in(2) { 0 } else { usize::MAX };
        let timing = Timing { large, removal_grace: GRACE, drain: DRAIN, gate_timeout: GATE_TIMEOUT };
        let mut stream = Stream::new(variant, own.is_none(), timing, newest);
        let (mut now, mut sent, mut nonces) = (Instant::now(), Vec::<Response>::new(), BTreeSet::new());
        let mut refused = None;
        for step in 0..random.within(1..=24) {
            let outputs = match random.below(10) {
                0..=5 => {
                    let mut request = any_request(random, &sent, own);
                    if step == 0 || random.one_in(40) {
                        let user_agent = (*random.choose(&["envoy", "gRPC C-core", ""])).to_owned();
                        request.node = Some(Node { id: "one".to_owned(), user_agent, ..Node::default() });
                    }
                    match stream.on_request(request, own, now) {
                        Ok(outputs) => outputs,
                        Err(refusal) => {
                            refused = Some(refusal);
                            break;
                        }
                    }
                }
                6..=7 => {
                    let set: Vec<Resource> = (0..random.below(4)).map(|_| of(random)).collect();
                    let remove =
                        (0..random.below(3)).map(|_| (*random.choose(&TYPES), Arc::from(NAMES[random.below(5)])));
                    store.update(Update { set, remove: remove.collect() });
                    stream.on_snapshot(store.newest().expect("a snapshot"), now)
                }
                8 => match stream.deadline() {
                    Some(due) => {
                        now = now.max(due);
                        let outputs = stream.on_time(now);
                        assert!(stream.deadline().is_none_or(|next| next > now), "the stream would spin");
                        outputs
                    }
                    None => Vec::new(),
                },
                _ => {
                    now += Duration::from_millis(random.below(30_000) as u64);
                    stream.on_time(now)
                }
            };
            let before = sent.len();
            for output in outputs {
                let Output::Send(response) = output else { continue };
                check(&response, &mut nonces);
                let names = response.resources.iter().map(|resource| resource.name());
                let names: Vec<_> = names.chain(&response.removed).chain(&response.missing).collect();
                assert!(names.iter().collect::<BTreeSet<_>>().len() == names.len(), "a name twice: {response:?}");
                if let Some(own) = own {
                    assert_eq!(ResourceType::of_url(&response.type_url), Some(own));
                }
                sent.push(response);
            }
            // There are seven types with five resources each. A step must not send a resource repeatedly.
            assert!(sent.len() - before <= 80, "{} responses in one step", sent.len() - before);
        }
        let _ = stream.describe();
        stream.each_resource(&mut |_| ());
        match refused {
            Some(Refusal::NoNode) => "no node",
            Some(_) => "refused",
            None if sent.is_empty() => "nothing sent",
            None => "served",
        }
    });
}
