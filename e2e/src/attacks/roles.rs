//! The access of an xDS client depends on the names in its certificate. A certificate of the right authority alone
//! permits nothing.

use std::collections::BTreeMap;

use bytes::Bytes;
use hyper::Method;

use crate::client::Target;

const SECRETS: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// The answers to a client over each transport: the HTTP status, or `grpc-status`.
#[derive(Debug, PartialEq, Eq)]
pub struct Answers {
    /// The answer of each transport.
    pub by_way: BTreeMap<&'static str, String>,
    /// Whether an answer contained a private key.
    pub key: bool,
}

/// Encodes a request for `secret`, or for resources of another type, in protobuf with gRPC framing.
fn request(type_url: &str, secret: &str) -> Bytes {
    let node = [&[1 << 3 | 2, 4][..], b"test"].concat();
    let length = |bytes: &[u8]| u8::try_from(bytes.len()).expect("a short field");
    let mut message = [&[2 << 3 | 2, length(&node)][..], &node].concat();
    if !type_url.is_empty() {
        message.extend([&[4 << 3 | 2, length(type_url.as_bytes())][..], type_url.as_bytes()].concat());
    }
    message.extend([&[3 << 3 | 2, length(secret.as_bytes())][..], secret.as_bytes()].concat());
    let size = u32::try_from(message.len()).expect("a short message").to_be_bytes();
    [&[0][..], &size, &message].concat().into()
}

/// Requests a secret, clusters, the status of clients, and the pages for replicas. `target` is the xDS port over TLS.
pub async fn request_all(target: &Target, secret: &str) -> Answers {
    const DISCOVERY: &str = "/envoy.service.discovery.v3.AggregatedDiscoveryService";
    let grpc = target.clone().over_http2().field("content-type", "application/grpc").field("te", "trailers");
    let json = Bytes::from(format!(r#"{{"node": {{"id": "test"}}, "resource_names": ["{secret}"]}}"#));
    let empty = Bytes::from_static(&[0; 5]);
    let asked = [
        ("ADS", &grpc, format!("{DISCOVERY}/StreamAggregatedResources"), request(SECRETS, secret)),
        ("SDS", &grpc, "/envoy.service.secret.v3.SecretDiscoveryService/StreamSecrets".to_owned(), request("", secret)),
        (
            "SDS unary",
            &grpc,
            "/envoy.service.secret.v3.SecretDiscoveryService/FetchSecrets".to_owned(),
            request("", secret),
        ),
        (
            "CDS unary",
            &grpc,
            "/envoy.service.cluster.v3.ClusterDiscoveryService/FetchClusters".to_owned(),
            request("", secret),
        ),
        (
            "CSDS",
            &grpc,
            "/envoy.service.status.v3.ClientStatusDiscoveryService/FetchClientStatus".to_owned(),
            empty.clone(),
        ),
        (
            "CSDS stream",
            &grpc,
            "/envoy.service.status.v3.ClientStatusDiscoveryService/StreamClientStatus".to_owned(),
            empty,
        ),
        ("REST secrets", target, "/v3/discovery:secrets".to_owned(), json.clone()),
        ("REST clusters", target, "/v3/discovery:clusters".to_owned(), json),
        ("REST status", target, "/v3/discovery:client_status".to_owned(), Bytes::from_static(b"{}")),
    ];
    let (mut by_way, mut key) = (BTreeMap::new(), false);
    for (way, target, path, body) in asked {
        let answer = match target.send(Method::POST, &path, body).await {
            Ok(answer) => {
                key |= answer.body.windows(b"PRIVATE KEY".len()).any(|part| part == b"PRIVATE KEY");
                match answer.header("grpc-status") {
                    // The status is in the trailers if there was data before.
                    "" if way.contains("REST") => answer.status.to_string(),
                    "" if answer.body.is_empty() => "gRPC, nothing".to_owned(),
                    "" => "gRPC, answered".to_owned(),
                    status => format!("gRPC {status}"),
                }
            }
            Err(_) => "no connection".to_owned(),
        };
        by_way.insert(way, answer);
    }
    let replica = target.clone().field("content-type", "application/json");
    let replica = replica.send(Method::POST, "/lockgate/v1/accepted", "[]").await;
    by_way.insert("replica", replica.map_or("no connection".to_owned(), |answer| answer.status.to_string()));
    Answers { by_way, key }
}

/// Returns these answers for all gRPC and REST transports, with exceptions.
pub fn answers(key: bool, all: [&str; 2], but: &[(&'static str, &str)]) -> Answers {
    let ways = ["ADS", "SDS", "SDS unary", "CDS unary", "CSDS", "CSDS stream"].map(|way| (way, all[0]));
    let rest = ["REST secrets", "REST clusters", "REST status", "replica"].map(|way| (way, all[1]));
    let mut by_way: BTreeMap<_, _> = ways.into_iter().chain(rest).map(|(way, is)| (way, is.to_owned())).collect();
    by_way.extend(but.iter().map(|(way, is)| (*way, (*is).to_owned())));
    Answers { by_way, key }
}

/// Asserts that a client without a role receives nothing.
pub fn no_answers() -> Answers {
    answers(false, ["gRPC 7", "403"], &[])
}
