//! R: JSON over HTTP/1.1, with a client that is independent of the server's code.

use std::time::{Duration, Instant};

use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::fetch::world;
use super::grpc::lab::*;
use crate::protocol::tests::harness::*;
use crate::server::Access;
use crate::server::rest::response_delay;
use crate::snapshot::{Store, Update};

/// The path, type, and a name of each type.
const PATHS: [(&str, &str, &str); 8] = [
    ("clusters", "envoy.config.cluster.v3.Cluster", "a"),
    ("endpoints", "envoy.config.endpoint.v3.ClusterLoadAssignment", "a"),
    ("listeners", "envoy.config.listener.v3.Listener", "l"),
    ("routes", "envoy.config.route.v3.RouteConfiguration", "r"),
    ("scoped-routes", "envoy.config.route.v3.ScopedRouteConfiguration", "scope"),
    ("secrets", "envoy.extensions.transport_sockets.tls.v3.Secret", "s"),
    ("runtime", "envoy.service.runtime.v3.Runtime", "layer"),
    ("extension_configs", "envoy.config.core.v3.TypedExtensionConfig", "filter"),
];

async fn send(server: &Server, request: Request<String>) -> (StatusCode, String) {
    let answer = exchange(TcpStream::connect(server.address).await.unwrap(), request).await;
    (answer.status(), answer.into_body())
}

async fn post(server: &Server, path: &str, body: impl ToString) -> (StatusCode, String) {
    send(server, Request::post(format!("/v3/discovery:{path}")).body(body.to_string()).unwrap()).await
}

/// A `DiscoveryResponse`.
async fn fetch(server: &Server, path: &str, body: Value) -> Value {
    let (status, body) = post(server, path, body).await;
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

/// Waits until a poll is delayed.
async fn held(server: &Server) {
    let follows = async {
        while server.store.followers() == 0 {
            tokio::task::yield_now().await;
        }
    };
    soon(follows).await;
}

/// Returns the names of the resources in a response.
fn names(response: &Value) -> Vec<&str> {
    let resources = response["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    resources.iter().map(|one| one["name"].as_str().or(one["cluster_name"].as_str()).unwrap()).collect()
}

#[tokio::test]
async fn r1_every_type_is_answered_in_snake_case_and_camel_case() {
    let server = Server::start(world()).await;
    for (path, full_name, name) in PATHS {
        let url = format!("type.googleapis.com/{full_name}");
        let snake = json!({
            "version_info": "", "resource_names": [name], "type_url": url, "response_nonce": "",
            "node": { "id": "n", "cluster": "c", "metadata": { "x": [1] }, "user_agent_name": "envoy",
                "user_agent_build_version": { "version": { "major_number": 1 } }, "extensions": [{ "name": "e" }],
                "client_features": ["f"], "some_day": true },
        });
        let camel =
            json!({ "versionInfo": "", "resourceNames": [name], "typeUrl": url, "node": { "userAgentName": "" } });
        let answer = fetch(&server, path, snake).await;
        assert_eq!(answer["type_url"], url);
        assert_eq!(answer["control_plane"]["identifier"], "lockgate-test");
        assert_eq!(names(&answer), [name], "{answer}");
        assert_eq!(answer["resources"][0]["@type"], url);
        assert_eq!(fetch(&server, path, camel).await, answer);
    }
    let secret = fetch(&server, "secrets", json!({ "resource_names": ["s"] })).await;
    assert_eq!(secret["resources"][0]["tls_certificate"]["certificate_chain"]["inline_string"], "first");
    assert!(server.registry.is_empty(), "a poll is no stream");
}

#[tokio::test]
async fn r2_an_equal_version_is_not_modified() {
    let server = Server::start(world()).await;
    for (path, _, name) in PATHS {
        let answer = fetch(&server, path, json!({ "resource_names": [name] })).await;
        let version = answer["version_info"].as_str().unwrap();
        let mut request = Request::post(format!("/v3/discovery:{path}"))
            .body(json!({ "resource_names": [name], "version_info": version }).to_string())
            .unwrap();
        request.headers_mut().insert("x-envoy-expected-rq-timeout-ms", HeaderValue::from_static("210"));
        assert_eq!(send(&server, request).await, (StatusCode::NOT_MODIFIED, String::new()));
        // The version is different for other names.
        let other = json!({ "resource_names": [name, "unknown"], "version_info": version });
        assert_eq!(names(&fetch(&server, path, other).await), [name]);
    }
}

#[tokio::test]
async fn r3_a_response_is_delayed_less_than_the_time_limit_of_the_client() {
    let hold = |limit: Option<&'static str>| {
        let limit = limit.map(|limit| ("x-envoy-expected-rq-timeout-ms".parse().unwrap(), limit.parse().unwrap()));
        response_delay(&limit.into_iter().collect::<HeaderMap>())
    };
    assert_eq!(hold(None), ms(800));
    assert_eq!(hold(Some("1000")), ms(800));
    assert_eq!(hold(Some("60000")), ms(800));
    assert_eq!(hold(Some("500")), ms(300));
    assert_eq!(hold(Some("100")), Duration::ZERO);
    assert_eq!(hold(Some("0")), ms(800), "no limit");
    assert_eq!(hold(Some("soon")), ms(800));

    let server = Server::start(world()).await;
    let version = fetch(&server, "clusters", json!({})).await["version_info"].clone();
    let asked = Instant::now();
    assert_eq!(post(&server, "clusters", json!({ "version_info": version })).await.0, StatusCode::NOT_MODIFIED);
    assert!(asked.elapsed() >= ms(800));
}

#[tokio::test]
async fn r4_a_change_ends_the_delay_at_once() {
    let server = Server::start(world()).await;
    let mut best = Duration::MAX;
    for round in 0..5 {
        let answer = fetch(&server, "endpoints", json!({ "resource_names": ["a"] })).await;
        let request = json!({ "resource_names": ["a"], "version_info": answer["version_info"] });
        let change = async {
            held(&server).await;
            // Other changes do not affect this client. It checks them, on this thread, and waits again.
            server.store.update(Update { set: vec![endpoints_at("b", 7000 + round)], ..Update::default() });
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert_eq!(server.store.followers(), 1, "still held");
            server.store.update(Update { set: vec![endpoints_at("a", 8000 + round)], ..Update::default() });
            Instant::now()
        };
        let asked = async { (fetch(&server, "endpoints", request).await, Instant::now()) };
        let (changed, (answer, answered)) = tokio::join!(change, asked);
        assert!(answer.to_string().contains(&(8000 + round).to_string()), "{answer}");
        best = best.min(answered.saturating_duration_since(changed));
    }
    // Much less than the delay of 800 ms, even on a busy machine.
    assert!(best < ms(100), "answered after {best:?}");
}

#[tokio::test]
async fn r6_only_requested_names_are_answered() {
    let server = Server::start(world()).await;
    assert_eq!(names(&fetch(&server, "clusters", json!({})).await), ["a"], "all of them");
    assert_eq!(names(&fetch(&server, "clusters", json!({ "resource_names": ["nobody"] })).await), [""; 0]);
    assert_eq!(names(&fetch(&server, "clusters", json!({ "resource_names": ["nobody", "a", "a"] })).await), ["a"]);
    assert_eq!(names(&fetch(&server, "routes", json!({ "resource_names": null })).await), [""; 0], "only by name");
    assert_eq!(names(&fetch(&server, "secrets", json!({ "resource_names": ["*"] })).await), [""; 0], "only by name");
}

#[tokio::test]
async fn r6_invalid_requests_are_refused() {
    let server = Server::start(world()).await;
    for path in
        ["/v3/discovery:aggregated", "/v3/discovery:delta_clusters", "/v3/discovery", "/v4/discovery:clusters", "/"]
    {
        let request = Request::post(path).body("{}".to_owned()).unwrap();
        assert_eq!(send(&server, request).await.0, StatusCode::NOT_FOUND, "{path}");
    }
    for method in [Method::GET, Method::PUT, Method::DELETE] {
        let request = Request::builder().method(method).uri("/v3/discovery:clusters").body(String::new()).unwrap();
        assert_eq!(send(&server, request).await.0, StatusCode::METHOD_NOT_ALLOWED);
    }
    for (body, named) in [
        ("", "DiscoveryRequest"),
        ("[", "DiscoveryRequest"),
        ("7", "DiscoveryRequest"),
        ("{} {}", "DiscoveryRequest"),
        (r#"{"version_info": 7}"#, "version_info"),
        (r#"{"resourceNames": ["a", {}]}"#, "resourceNames[1]"),
        (r#"{"node": {"id": []}}"#, "node.id"),
        (r#"{"type_url": "type.googleapis.com/envoy.config.listener.v3.Listener"}"#, "type_url"),
        (r#"{"type_url": "nonsense"}"#, "type_url"),
    ] {
        let (status, message) = post(&server, "clusters", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{body}");
        assert!(message.contains(named), "{body}: {message}");
    }
    // Zeros take 32 times their text in memory, and short names 10 times.
    let (zeros, names) = (vec![0; 600_000], vec![""; 1_000_001]);
    for (body, named) in [
        (json!({"node": {"metadata": {"a": zeros}}}), "node has 1200020 bytes"),
        (json!({"node": {"id": "n"}, "resource_names": names}), "1000001 entries"),
    ] {
        let (status, message) = post(&server, "clusters", body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{message}");
        assert!(message.contains(named), "{message}");
    }
    let (status, message) = post(&server, "clusters", " ".repeat((16 << 20) + 1)).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE, "{message}");
    let web_page = Request::post("/v3/discovery:secrets").header("origin", "http://a.test").body("{}".to_owned());
    assert_eq!(send(&server, web_page.unwrap()).await.0, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn r6_before_the_first_publication_nothing_is_reported_as_absent() {
    let store = std::sync::Arc::new(Store::default());
    let server = Server::over(store, "127.0.0.1:0".parse().unwrap(), Access::PlainFromLoopback).await;
    assert_eq!(post(&server, "clusters", json!({})).await.0, StatusCode::SERVICE_UNAVAILABLE);
    let first = async {
        held(&server).await;
        server.store.replace(world().into());
    };
    let (answer, ()) = tokio::join!(fetch(&server, "clusters", json!({})), first);
    assert_eq!(names(&answer), ["a"]);
}

#[tokio::test]
async fn r8_endpoints_are_polled_as_envoy_does() {
    let server = Server::start(world()).await;
    let node = json!({ "id": "n", "user_agent_name": "envoy" });
    let asked = json!({ "resource_names": ["a", "nobody"], "node": node });
    let answer = fetch(&server, "endpoints", asked).await;
    assert_eq!(names(&answer), ["a"], "unknown names are left out");
    let message = crate::protobuf::from_json(&answer["resources"][0]).unwrap().message;
    assert_eq!(message, server.resource(ENDPOINTS, "a").message(), "JSON says all of it");
}
