#![allow(clippy::unwrap_used)]

use axum::body::Body;
use axum::http::Request;
use envoy_types::pb::envoy::config::cluster::v3::Cluster;
use envoy_types::pb::envoy::config::listener::v3::Listener;
use http_body_util::BodyExt;
use imbl::OrdSet;
use lockgate_route::translate::problem::{Problem, Reason};
use lockgate_xds::listening::http::Ends;
use lockgate_xds::provenance::ObjectRef;
use lockgate_xds::snapshot::{Resource, ResourceType, Snapshot, Store};
use serde_json::Value;
use tower::ServiceExt;

use super::*;

struct Admin {
    state: Arc<AdminState>,
    store: Store,
    grpc_store: Store,
    inspection: watch::Sender<Arc<Inspection>>,
}

fn admin() -> Admin {
    let (store, grpc_store) = (Store::default(), Store::default());
    let inspection = watch::Sender::default();
    let (envoy, grpc) = (Some(store.subscribe()), Some(grpc_store.subscribe()));
    let state = AdminState {
        readiness: Readiness::awaiting(["Service", "Ingress"]),
        metrics: Metrics::default(),
        scraped_elsewhere: false,
        log: crate::telemetry::detached("info"),
        snapshots: Box::new(move || {
            let newest = |(name, store): (&str, &Option<watch::Receiver<Option<Arc<Snapshot>>>>)| {
                (name.to_owned(), store.as_ref().and_then(|store| store.borrow().clone()))
            };
            [("envoy", &envoy), ("whole", &None), ("grpc", &grpc)].map(newest).into()
        }),
        inspection: inspection.subscribe(),
        settings: Box::new(|| "timeouts:\n".to_owned()),
        streams: Box::new(|| serde_json::json!([{ "node_id": "envoy-1" }])),
        live: live(),
    };
    Admin { state: Arc::new(state), store, grpc_store, inspection }
}

impl Admin {
    async fn ask(&self, method: &str, path: &str, body: &str, peer: &str) -> (StatusCode, String) {
        let ends = Ends { peer: peer.parse().unwrap(), local: "127.0.0.1:18001".parse().unwrap() };
        let request = Request::builder().method(method).uri(path).header("host", "localhost").extension(ends);
        let request = request.body(Body::from(body.to_owned()));
        let response = router(self.state.clone()).oneshot(request.unwrap()).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        self.ask("GET", path, "", "127.0.0.1:5").await
    }

    async fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        serde_json::from_str(&body).unwrap()
    }

    fn publish(&self) {
        let cluster = Cluster { name: "shop/cart/http".to_owned(), ..Cluster::default() };
        let origin = ObjectRef::new("Service", "shop", "cart").at(3);
        self.store.replace(vec![
            Resource::new("shop/cart/http", &cluster, vec![origin]),
            Resource::new("http", &Listener::default(), vec![]),
        ]);
    }
}

#[tokio::test]
async fn health_is_being_alive() {
    assert_eq!(admin().get("/healthz").await, (StatusCode::OK, "ok\n".to_owned()));
}

#[tokio::test]
async fn readiness_names_what_is_missing() {
    let admin = admin();
    let not_ready = |text: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {text}\n"));
    let text = "the first list is missing of Ingress, Service; xDS does not listen yet";
    assert_eq!(admin.get("/readyz").await, not_ready(text));
    admin.state.readiness.listening();
    admin.state.readiness.listed("Service");
    assert_eq!(admin.get("/readyz").await, not_ready("the first list is missing of Ingress"));
    admin.state.readiness.listed("Ingress");
    assert_eq!(admin.get("/readyz").await, not_ready("nothing is published yet"));
    admin.publish();
    assert_eq!(admin.get("/readyz").await, not_ready("nothing is published yet"), "its problems cannot be read yet");
    admin.inspection.send_replace(Arc::new(Inspection { complete: true, ..Inspection::default() }));
    assert_eq!(admin.get("/readyz").await, (StatusCode::OK, "ready\n".to_owned()));
    admin.state.readiness.stopping();
    assert_eq!(admin.get("/readyz").await, not_ready("stopping"));
}

#[tokio::test]
async fn metrics_are_served_to_everybody_and_debug_to_this_machine() {
    let admin = admin();
    for peer in ["127.0.0.1:5", "[::1]:5", "[::ffff:127.0.0.1]:5", "10.0.0.9:5", "127.0.0.6:5"] {
        let (status, body) = admin.ask("GET", "/metrics", "", peer).await;
        assert!(status == StatusCode::OK && body.ends_with("# EOF\n"), "{body}");
        let (status, body) = admin.ask("GET", "/debug/", "", peer).await;
        let is_here = !["10.0.0.9:5", "127.0.0.6:5"].contains(&peer);
        assert_eq!(status == StatusCode::OK, is_here, "{peer}: {body}");
    }
    for path in ["objects", "problems", "resources", "xds", "log"] {
        assert_eq!(admin.ask("GET", &format!("/debug/{path}"), "", "10.0.0.9:5").await.0, StatusCode::FORBIDDEN);
    }
}

#[tokio::test]
async fn metrics_are_in_one_place() {
    let mut admin = admin();
    Arc::get_mut(&mut admin.state).unwrap().scraped_elsewhere = true;
    let (status, body) = admin.get("/metrics").await;
    assert!(status == StatusCode::NOT_FOUND && body.contains("/metrics is at metrics.address"), "{body}");
    assert_eq!(admin.get("/healthz").await.0, StatusCode::OK);
}

#[tokio::test]
async fn each_view_is_shown_that_is_made() {
    let admin = admin();
    admin.publish();
    admin.grpc_store.replace(vec![Resource::new("cart.shop:80", &Listener::default(), vec![])]);
    let names = async |query: &str| {
        let list = admin.json(&format!("/debug/resources?type=Listener{query}")).await;
        list.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("").await, ["http"]);
    assert_eq!(names("&view=envoy").await, ["http"]);
    assert_eq!(names("&view=grpc").await, ["cart.shop:80"]);
    let (status, why) = admin.get("/debug/resources?view=whole").await;
    assert!(status == StatusCode::SERVICE_UNAVAILABLE && why.contains("no client has requested it"), "{why}");
    let (status, why) = admin.get("/debug/resources?view=other").await;
    assert!(status == StatusCode::NOT_FOUND && why.contains("envoy, whole, grpc"), "{why}");
}

#[tokio::test]
async fn problems_and_streams_are_json() {
    let admin = admin();
    let problem = Problem {
        object: ObjectRef::new("Ingress", "shop", "cart"),
        field: "spec.rules[0].host".to_owned(),
        reason: Reason::HostNotValid,
        message: "host \"a b\" is not a DNS name".to_owned().into(),
        consequence: "rule left out".to_owned(),
    };
    let inspection = Inspection { problems: OrdSet::unit(Arc::new(problem)), ..Inspection::default() };
    admin.inspection.send_replace(Arc::new(inspection));
    let problems = admin.json("/debug/problems").await;
    assert_eq!(problems[0]["reason"], "HostNotValid");
    assert_eq!(problems[0]["object"]["namespace"], "shop");
    assert_eq!(admin.json("/debug/xds").await[0]["node_id"], "envoy-1");
    assert_eq!(admin.json("/debug/objects").await["Ingress"], Value::Array(vec![]));
}

#[tokio::test]
async fn resources_are_listed_with_version_and_origins() {
    let admin = admin();
    assert_eq!(admin.get("/debug/resources").await.0, StatusCode::SERVICE_UNAVAILABLE);
    admin.publish();
    let types = admin.json("/debug/resources").await;
    assert_eq!(types["types"]["Cluster"]["count"], 1);
    for name in ["cluster", "envoy.config.cluster.v3.Cluster", ResourceType::CLUSTER.url()] {
        let clusters = admin.json(&format!("/debug/resources?type={name}")).await;
        assert_eq!(clusters[0]["name"], "shop/cart/http");
        assert_eq!(clusters[0]["version"].as_str().unwrap().len(), 16);
        assert_eq!(clusters[0]["origins"][0]["generation"], 3);
    }
    let cluster = admin.json("/debug/resources?type=Cluster&name=shop/cart/http").await;
    assert_eq!(cluster["resource"]["name"], "shop/cart/http");
    let (status, body) = admin.get("/debug/resources?type=Cluster&name=none").await;
    assert_eq!((status, &*body), (StatusCode::NOT_FOUND, "no Cluster named \"none\"\n"));
    let (status, body) = admin.get("/debug/resources?type=Klaster").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(body.contains("there are Cluster, Listener"), "{body}");
}

#[tokio::test]
async fn the_log_level_is_read_and_set() {
    let admin = admin();
    assert_eq!(admin.get("/debug/log").await.1, "info\n");
    let put = async |body| admin.ask("PUT", "/debug/log", body, "127.0.0.1:5").await;
    assert_eq!(put("lockgate=debug\n").await, (StatusCode::OK, "lockgate=debug\n".to_owned()));
    let (status, body) = put("loud").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(body.contains("\"loud\" is not a filter"), "{body}");
    assert_eq!(admin.get("/debug/log").await.1, "lockgate=debug\n");
}

#[tokio::test]
async fn a_taken_address_is_named() {
    let first = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = first.local_addr().unwrap();
    let error = listen(address).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("cannot listen on {address}: Address already in use")), "{error}");
}

#[tokio::test]
async fn the_server_answers_until_shutdown() {
    let admin = admin();
    let listener = listen("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let served = tokio::spawn(serve(listener, admin.state.clone(), async move { drop(stopped.await) }));
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let request = b"GET /debug/log HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request).await.unwrap();
    let mut answer = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("info\n"), "{answer}");
    stop.send(()).unwrap();
    served.await.unwrap();
}

#[test]
fn the_reference_of_debug_pages_is_up_to_date() {
    let mut page = String::from(
        "# Debug pages\n\nThis page is written by `make docs` from the code.\n\n\
         The controller serves these pages at `admin.address`, port 18001 in a pod of the chart. They answer only connections from \
         within the pod: `kubectl --namespace lockgate port-forward deployment/lockgate 18001`, then request \
         `http://127.0.0.1:18001`. No page contains a private key. [Operate](../operate.md#status-and-debug-pages) describes their use.\n\n\
         | page | content |\n| --- | --- |\n",
    );
    for line in debug::INDEX.lines() {
        let (path, content) = line.split_once("  ").unwrap();
        page.push_str(&format!("| `{path}` | {} |\n", content.trim()));
    }
    page.push_str(
        "\n## Other pages\n\nThese pages answer every client that can connect to the address.\n\n| page | content |\n\
         | --- | --- |\n| `/healthz` | 200 while the process runs |\n\
         | `/readyz` | 200 when Envoys can be served; otherwise 503 with the reason |\n\
         | `/metrics` | the [metrics](metrics.md), unless `metrics.address` serves them |\n",
    );
    for path in PROBES {
        assert!(page.contains(&format!("`{path}`")), "{path}");
    }
    crate::tidy::generated::assert_page("debug-pages.md", &page);
}

#[test]
fn the_documentation_shows_the_index() {
    let page = include_str!("../../docs/troubleshoot.md");
    assert!(page.contains(debug::INDEX), "docs/troubleshoot.md has another index of /debug/");
}

/// A controller without Envoys and without a model.
fn live() -> Live {
    let problem = Problem {
        object: ObjectRef::new("Ingress", "shop", "cart"),
        field: String::new(),
        reason: Reason::XdsRejected,
        message: "an Envoy rejects it".to_owned().into(),
        consequence: "it is left out".to_owned(),
    };
    Live { problems: Box::new(move || vec![Arc::new(problem.clone())]), ..Live::default() }
}

#[tokio::test]
async fn the_status_is_that_of_this_replica() {
    let admin = admin();
    let (status, text) = admin.get("/debug/status").await;
    let state: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(status, StatusCode::OK);
    assert!(state["missing"].as_str().unwrap().starts_with("the first list is missing"), "{text}");
    assert_eq!(state["problems"][0]["reason"], "XdsRejected");
    assert_eq!(state["version"], env!("CARGO_PKG_VERSION"));
}

#[tokio::test]
async fn an_explanation_needs_a_url_and_a_model() {
    let admin = admin();
    let (status, text) = admin.get("/debug/explain?url=ftp://shop.test").await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert!(text.contains("has the scheme \"ftp\""), "{text}");
    let (status, text) = admin.get("/debug/explain?url=https%3A%2F%2Fshop.test%2F").await;
    assert_eq!((status, text.as_str()), (StatusCode::SERVICE_UNAVAILABLE, "nothing is published yet\n"));
}
