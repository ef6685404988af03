#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::stream::pending;
use http::{Request, Response};
use http_body_util::StreamBody;
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::{Bytes, Frame};
use kube::client::Body;
use lockgate_route::objects::Kind;
use lockgate_route::objects::gateway::{HttpRouteSpec, RouteStatus};
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};
use tower::service_fn;

use super::*;
use crate::source::cluster::tests::line;
use crate::source::gateway::Custom as CustomObject;

type Route = CustomObject<HttpRouteSpec, RouteStatus>;

/// An answer of the API server: the status, the body, and whether the body ends.
#[derive(Clone)]
struct Answer(u16, String, bool);

fn ok(body: impl ToString) -> Answer {
    Answer(200, body.to_string(), true)
}

fn refused(code: u16, message: &str) -> Answer {
    let status = json!({"kind": "Status", "status": "Failure", "code": code, "message": message, "reason": "Reason"});
    Answer(code, status.to_string(), true)
}

fn route(name: &str, version: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version}, "spec": {"rules": rules}})
}

fn event(kind: &str, object: Value) -> String {
    // The order of fields is that of Go.
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(version: &str) -> String {
    event("BOOKMARK", json!({"kind": "HTTPRoute", "apiVersion": "v1", "metadata": {"resourceVersion": version}}))
}

/// Returns the end of a streaming list.
fn end(version: &str) -> String {
    let annotations = json!({"k8s.io/initial-events-end": "true"});
    let metadata = json!({"resourceVersion": version, "annotations": annotations});
    event("BOOKMARK", json!({"kind": "HTTPRoute", "apiVersion": "v1", "metadata": metadata}))
}

fn error(code: u16) -> String {
    event("ERROR", json!({"kind": "Status", "status": "Failure", "code": code, "message": "etcd", "reason": "Reason"}))
}

/// Returns a watch of an API server with these answers, and the log of the requests. Afterwards, it does not answer.
fn server(answers: Vec<Answer>) -> (WatchStream, Arc<Mutex<Vec<String>>>) {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (asked, answers) = (log.clone(), Arc::new(Mutex::new(answers.into_iter())));
    let service = service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let value = |name: &str| {
            query.split('&').find_map(|part| part.strip_prefix(&format!("{name}="))).unwrap_or_default().to_owned()
        };
        let verb = match () {
            () if !request.uri().path().ends_with("/httproutes") => "kinds",
            () if query.contains("sendInitialEvents=true") => "stream",
            () if query.contains("watch=true") => "watch",
            () => "list",
        };
        // A version of a streaming list would permit an older state.
        let at = value("resourceVersion") + &value("continue");
        asked.lock().unwrap().push(format!("{verb} {at}").trim_end().to_owned());
        let next = answers.lock().unwrap().next();
        async move {
            let Some(Answer(status, body, ends)) = next else { return std::future::pending().await };
            let chunk = Ok::<_, std::io::Error>(Frame::data(Bytes::from(body)));
            let chunks = futures::stream::iter([chunk]);
            let chunks = if ends { chunks.boxed() } else { chunks.chain(pending()).boxed() };
            let body = UnsyncBoxBody::new(StreamBody::new(chunks));
            Ok::<_, std::io::Error>(Response::builder().status(status).body(body).unwrap())
        }
    });
    let client = Client::new(service, "default");
    (watch::<Route>(Target { client, kind: Kind::HTTP_ROUTE, namespace: None, fields: None, labels: None }), log)
}

/// Returns the reports and the requests of a watch until the API server has sent all of `answers`.
async fn follow(answers: Vec<Answer>) -> Vec<String> {
    let (mut watch, log) = server(answers);
    while let Ok(Some(result)) = timeout(Duration::from_millis(1500), watch.next()).await {
        let line = line(Kind::HTTP_ROUTE, result, |object| object.field.clone());
        log.lock().unwrap().extend(line);
    }
    log.lock().unwrap().clone()
}

/// Asserts the reports and the requests after the first list, which ends at version 10.
async fn assert_follow(answers: Vec<Answer>, expected: &[&str]) {
    let first = [ok(end("10"))].into_iter();
    let result = follow(first.chain(answers).collect()).await;
    assert_eq!(result[..2], ["stream", "listed"]);
    assert_eq!(result[2..], *expected);
}

#[tokio::test]
async fn an_object_that_cannot_be_decoded_costs_only_itself() {
    let events = [
        event("ADDED", route("a", "1", json!([]))),
        event("ADDED", route("b", "2", json!(7))),
        event("ADDED", json!(null)),
        event("ADDED", json!({"metadata": 7})),
        end("10"),
        event("ADDED", route("c", "11", json!({}))),
        event("DELETED", route("b", "12", json!(7))),
        bookmark("14"),
    ];
    let result = follow(vec![ok(events.concat())]).await;
    let expected =
        ["stream", "item a", "item b (spec.rules)", "listed", "applied c (spec.rules)", "deleted b", "watch 14"];
    assert_eq!(result, expected);
}

/// An object that is nested too deeply for any decoder is a fault of its own, and its neighbor is decoded.
#[tokio::test]
async fn a_deep_object_costs_only_itself() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let event = event("ADDED", route("a", "1", json!("deep"))).replace("\"deep\"", &deep);
    let result = follow(vec![ok([event, self::event("ADDED", route("b", "2", json!([]))), end("3")].concat())]).await;
    assert!(result[1].starts_with("item a ("), "{result:?}");
    assert_eq!(result[2..], ["item b", "listed", "watch 3"]);
}

#[tokio::test]
async fn an_api_server_without_streaming_lists_is_asked_for_lists() {
    let page = |version: &str, rest: &str, items: &[Value]| {
        let metadata = json!({"resourceVersion": version, "continue": rest});
        ok(json!({"kind": "HTTPRouteList", "apiVersion": "v1", "metadata": metadata, "items": items}))
    };
    let answers = vec![
        refused(422, "sendInitialEvents is forbidden"),
        page("10", "more", &[route("a", "1", json!([])), json!(null)]),
        page("10", "", &[route("b", "2", json!(7))]),
        ok(error(410)),
        page("20", "", &[]),
    ];
    let result = follow(answers).await;
    let lists = ["stream", "list", "item a", "list more", "item b (spec.rules)", "listed", "watch 10"];
    let again = ["cannot watch: etcd", "list", "listed", "watch 20"];
    assert_eq!(result, [&lists[..], &again].concat());
}

#[tokio::test]
async fn a_version_that_is_lost_leads_to_a_new_list() {
    let list = || ok(end("20"));
    let expected = ["watch 10", "cannot watch: etcd", "stream", "listed", "watch 20"];
    assert_follow(vec![ok(error(410)), list()], &expected).await;
    assert_follow(vec![refused(410, "etcd"), list()], &expected).await;
    assert_follow(vec![ok(error(0)), list()], &expected).await;
    // The definition was deleted.
    assert_follow(vec![refused(404, "etcd"), list()], &expected).await;
}

#[tokio::test]
async fn content_that_cannot_be_read_leads_to_a_new_list() {
    let unnamed = event("ADDED", json!({"metadata": {"resourceVersion": "11"}}));
    let no_version = event("DELETED", json!({"metadata": {"name": "a"}}));
    for line in ["{\"type\": 7}\n".to_owned(), event("ERROR", json!(7)), unnamed, no_version] {
        let later = event("ADDED", route("b", "12", json!([])));
        let result = follow(vec![ok(end("10")), ok(line + &later), ok(end("20"))]).await;
        assert_eq!(result[..3], ["stream", "listed", "watch 10"]);
        assert!(result[3].starts_with("cannot watch: "), "{result:?}");
        assert_eq!(result[4..], ["stream", "listed", "watch 20"]);
    }
}

#[tokio::test]
async fn an_error_that_comes_again_leads_to_a_new_list() {
    let message = "cannot watch: etcd";
    let again = ["watch 10", message, "watch 10", message, "stream", "listed", "watch 20"];
    assert_follow(vec![ok(error(500)), ok(error(500)), ok(end("20"))], &again).await;
    // An event in between is progress.
    let more = event("ADDED", route("a", "11", json!([]))) + &error(500);
    let progress = ["watch 10", message, "watch 10", "applied a", message, "watch 11"];
    assert_follow(vec![ok(error(500)), ok(more)], &progress).await;
}

#[tokio::test]
async fn a_list_that_is_cut_off_starts_again() {
    let part = event("ADDED", route("a", "1", json!([])));
    let whole = event("ADDED", route("b", "2", json!([]))) + &end("10");
    let result = follow(vec![ok(&part), ok(part.clone() + &error(500)), ok(whole)]).await;
    let expected =
        ["stream", "item a", "stream", "item a", "cannot watch: etcd", "stream", "item b", "listed", "watch 10"];
    assert_eq!(result, expected);
}

#[tokio::test]
async fn a_watch_whose_permission_is_revoked_continues_when_it_is_granted() {
    let later = ok(event("ADDED", route("a", "11", json!([]))));
    let expected = ["watch 10", "cannot watch: forbidden", "watch 10", "applied a", "watch 11"];
    assert_follow(vec![refused(403, "forbidden"), later], &expected).await;
}

#[tokio::test]
async fn a_kind_that_does_not_exist_is_absent_although_the_list_is_refused() {
    let absent = follow(vec![refused(403, "forbidden"), refused(404, "no such group")]).await;
    assert_eq!(absent, ["stream", "kinds", "cannot list: the kind is not installed", "stream"]);
    let resource = json!({"name": "httproutes", "kind": "HTTPRoute", "namespaced": true, "verbs": []});
    let kinds = json!({"groupVersion": "gateway.networking.k8s.io/v1", "resources": [resource]});
    let forbidden = follow(vec![refused(403, "forbidden"), ok(kinds)]).await;
    assert!(forbidden[2].starts_with("cannot list: forbidden; grant list and watch"), "{forbidden:?}");
}

#[tokio::test]
async fn news_of_an_unchanged_kind_are_reported_and_errors_are_not() {
    let (mut watch, _) = server(vec![ok(end("10")), ok(error(500)), Answer(200, bookmark("11"), false)]);
    let mut next = async || watch.next().await.unwrap();
    assert!(matches!(next().await, Ok(Arrival::ListStarted)));
    assert!(matches!(next().await, Ok(Arrival::ListEnded)));
    assert!(next().await.is_err());
    assert!(matches!(next().await, Ok(Arrival::Alive)));
    assert!(watch.next().now_or_never().is_none());
}

#[tokio::test]
async fn a_watch_that_ends_at_once_is_repeated_once_a_second() {
    let ends = std::iter::repeat_n(ok(""), 20);
    let (mut watch, log) = server([ok(end("10"))].into_iter().chain(ends).collect());
    let _ = timeout(Duration::from_millis(2500), async {
        loop {
            watch.next().await.unwrap().unwrap();
        }
    })
    .await;
    let requests = log.lock().unwrap().len();
    assert!((3..=5).contains(&requests), "{requests} requests");
}
