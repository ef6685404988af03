#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use tokio::net::{TcpListener, UnixListener};
use tokio::task::JoinHandle;

use super::*;

/// A fake Envoy: it records its requests, and has no connections when `left` is used up.
#[derive(Clone)]
struct Told(Arc<Mutex<Fakery>>);

struct Fakery {
    posts: Vec<String>,
    /// The answers to queries for the connections. The last one is repeated.
    left: Vec<u64>,
    /// Paths that are answered with an error.
    refused: Vec<&'static str>,
    server: Option<JoinHandle<()>>,
}

struct Fake {
    told: Told,
    directory: tempfile::TempDir,
}

impl Fake {
    fn start(left: &[u64], refused: &[&'static str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("admin.sock")).unwrap();
        let (left, refused) = (left.to_vec(), refused.to_vec());
        let told = Told(Arc::new(Mutex::new(Fakery { posts: vec![], left, refused, server: None })));
        let router = Router::new().fallback(answer).with_state(told.clone());
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        told.0.lock().unwrap().server = Some(server);
        Self { told, directory }
    }

    fn envoy(&self) -> Envoy {
        Envoy::at(AdminAddress::Unix(self.directory.path().join("admin.sock")))
    }

    fn posts(&self) -> Vec<String> {
        self.told.0.lock().unwrap().posts.clone()
    }
}

async fn answer(State(told): State<Told>, request: Request) -> Response {
    let path = request.uri().to_string();
    let mut state = told.0.lock().unwrap();
    if state.refused.iter().any(|refused| path.starts_with(refused)) {
        return (StatusCode::SERVICE_UNAVAILABLE, "not now\n").into_response();
    }
    if request.method() == "POST" {
        state.posts.push(path.clone());
    }
    match &*path {
        "/quitquitquit" => {
            if let Some(server) = state.server.take() {
                server.abort();
            }
            "OK\n".into_response()
        }
        "/ready" => "LIVE\n".into_response(),
        "/runtime" => {
            let draining = state.posts.iter().any(|post| post.starts_with("/runtime_modify"));
            let value = if draining { "100" } else { "" };
            format!(r#"{{"entries": {{"lockgate.draining": {{"final_value": "{value}"}}}}}}"#).into_response()
        }
        path if path.starts_with("/stats") => {
            let left = if state.left.len() > 1 { state.left.remove(0) } else { state.left[0] };
            format!("listener.[__]_8080.downstream_cx_active: {left}\n").into_response()
        }
        _ => "".into_response(),
    }
}

const ALL: [&str; 4] = [
    "/runtime_modify?lockgate.draining=100",
    "/drain_listeners?graceful&skip_exit",
    "/healthcheck/fail",
    "/drain_listeners",
];

fn timing(minimum_ms: u64, deadline_ms: u64, connections: u64) -> DrainTiming {
    let time = Duration::from_millis;
    DrainTiming { minimum: time(minimum_ms), deadline: time(deadline_ms), connections }
}

#[tokio::test]
async fn readiness_fails_first_and_listeners_close_last() {
    let fake = Fake::start(&[5, 5, 3, 0], &[]);
    let start = Instant::now();
    let outcome = drain(&fake.envoy(), timing(100, 20_000, 0)).await.unwrap();
    assert_eq!(outcome, DrainOutcome::Drained(0));
    assert_eq!(fake.posts(), ALL);
    assert!(start.elapsed() >= Duration::from_millis(100));
}

#[tokio::test]
async fn some_connections_may_be_left() {
    let fake = Fake::start(&[5, 5, 3], &[]);
    assert_eq!(drain(&fake.envoy(), timing(0, 20_000, 3)).await.unwrap(), DrainOutcome::Drained(3));
}

#[tokio::test]
async fn the_deadline_ends_it() {
    let fake = Fake::start(&[2], &[]);
    let start = Instant::now();
    assert_eq!(drain(&fake.envoy(), timing(0, 600, 1)).await.unwrap(), DrainOutcome::Late(2));
    assert!(start.elapsed() >= Duration::from_millis(600));
    assert_eq!(fake.posts(), ALL);
}

#[tokio::test]
async fn without_a_runtime_the_health_check_fails_at_once() {
    let fake = Fake::start(&[0], &["/runtime_modify"]);
    drain(&fake.envoy(), timing(0, 1_000, 0)).await.unwrap();
    assert_eq!(fake.posts()[0], "/healthcheck/fail");
}

#[tokio::test]
async fn an_envoy_that_is_not_there_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let missing = directory.path().join("admin.sock");
    let error = drain(&Envoy::at(AdminAddress::Unix(missing.clone())), timing(0, 1_000, 0)).await.unwrap_err();
    assert!(error.is_gone() && error.to_string().contains(missing.to_str().unwrap()), "{error}");
    // A socket that an exited Envoy has left behind.
    drop(UnixListener::bind(&missing).unwrap());
    assert!(drain(&Envoy::at(AdminAddress::Unix(missing)), timing(0, 1_000, 0)).await.unwrap_err().is_gone());
}

async fn get(port: u16, path: &str) -> String {
    let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let stream = hyper_util::rt::TokioIo::new(stream);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let request = http::Request::get(path).header("host", "drain").body(String::new()).unwrap();
    let body = sender.send_request(request).await.unwrap().into_body();
    String::from_utf8(http_body_util::BodyExt::collect(body).await.unwrap().to_bytes().to_vec()).unwrap()
}

#[tokio::test]
async fn a_request_for_the_end_waits_for_it() {
    let fake = Fake::start(&[1, 1, 0], &[]);
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let sidecar = tokio::spawn(serve(listener, fake.envoy(), timing(50, 10_000, 0), async move {
        let _ = stopped.await;
    }));
    assert_eq!(get(port, "/healthz").await, "ok\n");
    let asked = tokio::spawn(async move { get(port, "/drained").await });
    stop.send(()).unwrap();
    assert_eq!(asked.await.unwrap(), "Envoy has exited\n");
    sidecar.await.unwrap().unwrap();
    assert_eq!(fake.posts().last().unwrap(), "/quitquitquit");
}

#[tokio::test]
async fn without_an_envoy_the_sidecar_just_ends() {
    let directory = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let envoy = Envoy::at(AdminAddress::Unix(directory.path().join("admin.sock")));
    serve(listener, envoy, timing(50, 10_000, 0), async {}).await.unwrap();
}
