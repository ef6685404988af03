#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::{Arc, Mutex};

use k8s_openapi::api::networking::v1::Ingress;
use lockgate_route::objects::Kind;
use tower::service_fn;

use super::*;
use crate::source::cluster::failure::origin;
use crate::source::cluster::tests::line;

const PROTO: &str = "application/vnd.kubernetes.protobuf";

/// Encodes a field with a length.
fn field(tag: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let mut bytes = vec![tag << 3 | 2];
    prost::encoding::encode_varint(value.as_ref().len() as u64, &mut bytes);
    bytes.extend(value.as_ref());
    bytes
}

fn metadata(name: &str, version: &str) -> Vec<u8> {
    field(1, [field(1, name), field(3, "shop"), field(5, "uid"), field(6, version)].concat())
}

/// Encodes an Ingress whose class is `class`.
fn ingress(name: &str, version: &str, class: &[u8]) -> Vec<u8> {
    [metadata(name, version), field(2, field(4, class))].concat()
}

/// Encodes an Ingress with a malformed spec: the end of a field exceeds its message.
fn malformed_ingress(name: &str, version: &str) -> Vec<u8> {
    [metadata(name, version), field(2, [0x22, 0x7f])].concat()
}

fn envelope(object: impl AsRef<[u8]>) -> Vec<u8> {
    [b"k8s\0".to_vec(), field(2, object)].concat()
}

fn list(version: &str, rest: &str, items: &[Vec<u8>]) -> Vec<u8> {
    let meta = field(1, [field(2, version), field(3, rest)].concat());
    envelope(items.iter().fold(meta, |list, item| [list, field(2, item)].concat()))
}

fn frame(kind: &str, object: impl AsRef<[u8]>) -> Vec<u8> {
    raw_frame([field(1, kind), field(2, field(1, envelope(object)))].concat())
}

fn raw_frame(event: Vec<u8>) -> Vec<u8> {
    [&u32::try_from(event.len()).unwrap().to_be_bytes(), event.as_slice()].concat()
}

fn status(code: u16) -> Vec<u8> {
    let mut bytes = [field(3, b"\xff etcd"), vec![6 << 3]].concat();
    prost::encoding::encode_varint(code.into(), &mut bytes);
    bytes
}

/// A response of the API server: the media type, and the body.
type Answer = (&'static str, Vec<u8>);

/// Returns the reports and the requests of a watch until the API server has sent all of `answers`.
async fn follow(answers: Vec<Answer>) -> Vec<String> {
    let log = Arc::new(Mutex::new(Vec::new()));
    let (asked, answers) = (log.clone(), Arc::new(Mutex::new(answers.into_iter())));
    let service = service_fn(move |request: Request<Body>| {
        let query = request.uri().query().unwrap_or_default().to_owned();
        let next = answers.lock().unwrap().next();
        let version = query.split('&').find_map(|part| part.strip_prefix("resourceVersion=")).unwrap_or_default();
        let rest = query.split('&').find_map(|part| part.strip_prefix("continue=")).unwrap_or_default();
        let verb = if query.contains("watch=true") { "watch" } else { "list" };
        asked.lock().unwrap().push(format!("{verb} {version}{rest}").trim_end().to_owned());
        async move {
            let Some((media_type, body)) = next else { return std::future::pending().await };
            let answer = Response::builder().header(CONTENT_TYPE, media_type).body(Body::from(body));
            Ok::<_, std::io::Error>(answer.unwrap())
        }
    });
    let client = kube::Client::new(service, "default");
    let target = Target { client, kind: Kind::INGRESS, namespace: None, fields: None, labels: None };
    let mut watch = watch(target, WireFormat::whole::<Ingress>());
    while let Ok(Some(result)) = tokio::time::timeout(Duration::from_millis(300), watch.next()).await {
        let line = line(Kind::INGRESS, result, |object| format!("{}: {}", object.field, object.message));
        log.lock().unwrap().extend(line);
    }
    assert_eq!(origin(Kind::INGRESS).kind, "Ingress");
    log.lock().unwrap().clone()
}

const TEXT: &str = "(spec.ingressClassName: not valid UTF-8)";
const WIRE: &str =
    "(: failed to decode Protobuf message: IngressSpec.ingress_class_name: Ingress.spec: buffer underflow)";

#[tokio::test]
async fn an_object_that_cannot_be_decoded_is_passed_on_and_its_version_adopted() {
    let events = [
        frame("ADDED", ingress("a", "11", b"\xff\xfe")),
        frame("MODIFIED", malformed_ingress("a", "12")),
        frame("ADDED", ingress("b", "13", b"c")),
        frame("DELETED", malformed_ingress("a", "14")),
    ];
    let items = [ingress("x", "3", b"\xff"), malformed_ingress("y", "4"), ingress("z", "5", b"c")];
    let result = follow(vec![(PROTO, list("10", "", &items)), (PROTO, events.concat())]).await;
    assert_eq!(
        result,
        [
            "list",
            &format!("item x {TEXT}"),
            &format!("item y {WIRE}"),
            "item z",
            "listed",
            "watch 10",
            &format!("applied a {TEXT}"),
            &format!("applied a {WIRE}"),
            "applied b",
            "deleted a",
            "watch 14"
        ]
    );
}

#[tokio::test]
async fn a_list_in_parts_passes_over_objects_without_a_name() {
    let pages = [
        list("10", "more", &[ingress("a", "1", b"c"), field(1, [0x0a, 0x7f])]),
        list("10", "", &[malformed_ingress("b", "2"), vec![0xff]]),
    ];
    let result = follow(pages.map(|page| (PROTO, page)).to_vec()).await;
    assert_eq!(result, ["list", "item a", "list more", &format!("item b {WIRE}"), "listed", "watch 10"]);
}

#[tokio::test]
async fn an_event_without_a_name_or_a_type_leads_to_a_new_list() {
    let unnamed = "cannot watch: Error reading events stream: a watch event has no readable type, or its object has no readable name";
    let no_version = "cannot watch: the API server gave no resource version";
    for (event, fault) in [
        (frame("ADDED", field(1, field(6, "11"))), unnamed),
        (raw_frame(vec![0xff; 20]), unnamed),
        (raw_frame(Vec::new()), unnamed),
        (frame("DELETED", field(1, field(1, "a"))), no_version),
        (raw_frame(field(1, "MODIFIED")), no_version),
    ] {
        let events = [event, frame("ADDED", ingress("b", "12", b"c"))].concat();
        let result = follow(vec![(PROTO, list("10", "", &[])), (PROTO, events), (PROTO, list("20", "", &[]))]).await;
        assert_eq!(result, ["list", "listed", "watch 10", fault, "list", "listed", "watch 20"]);
    }
}

#[tokio::test]
async fn bookmarks_and_unknown_events_count_for_their_version() {
    let events = [
        frame("BOOKMARK", [metadata("", "11"), vec![0xff]].concat()),
        frame("BOOKMARK", b"\xff\xff"),
        frame("RENAMED", ingress("a", "12", b"c")),
    ];
    let result = follow(vec![(PROTO, list("10", "", &[])), (PROTO, events.concat())]).await;
    assert_eq!(result, ["list", "listed", "watch 10", "watch 12"]);
}

#[tokio::test]
async fn an_error_that_comes_again_or_cannot_be_read_leads_to_a_new_list() {
    let error = |code| (PROTO, frame("ERROR", status(code)));
    let message = "cannot watch: \u{fffd} etcd";
    let lists = || (PROTO, list("10", "", &[]));
    let result = follow(vec![lists(), error(500), error(500), lists()]).await;
    assert_eq!(result, ["list", "listed", "watch 10", message, "watch 10", message, "list", "listed", "watch 10"]);
    // An event in between is progress.
    let more = [frame("ADDED", ingress("a", "11", b"c")), frame("ERROR", status(500))].concat();
    let result = follow(vec![lists(), error(500), (PROTO, more)]).await;
    assert_eq!(result, ["list", "listed", "watch 10", message, "watch 10", "applied a", message, "watch 11"]);
    for lost in [frame("ERROR", status(410)), frame("ERROR", b"\xff")] {
        let result = follow(vec![lists(), (PROTO, lost), lists()]).await;
        assert_eq!(result[2..3], ["watch 10"]);
        assert_eq!(result[4..], ["list", "listed", "watch 10"]);
    }
}

#[tokio::test]
async fn a_response_in_another_format_is_a_failure() {
    let result = follow(vec![("application/json", b"{}".to_vec()), (PROTO, list("10", "", &[]))]).await;
    let fault = "cannot list: Error reading events stream: the answer is not valid protobuf";
    assert_eq!(result, ["list", fault, "list", "listed", "watch 10"]);
}
