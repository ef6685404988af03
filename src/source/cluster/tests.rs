#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::FutureExt;
use futures::stream::BoxStream;
use http::{Request, Response};
use kube::client::Body;
use kube::runtime::watcher;
use lockgate_route::objects::{KindInfo, Meta, Misencoded, Namespace, Object, ObjectKey, gateway};
use serde_json::json;
use tokio::sync::mpsc;
use tower::service_fn;

use super::retry::{ABSENT_DELAY, MAX_UNAVAILABLE_DELAY, WatchResult, bounded};
use super::*;

/// Returns a line about a report of a watch. `fault` describes an object that cannot be decoded. `None`: the report is of no interest.
pub fn line(kind: Kind, result: watcher::Result<Arrival>, fault: impl Fn(&Misencoded) -> String) -> Option<String> {
    let object = |object: &Option<Object>| match object.as_ref().map(Object::get::<Misencoded>) {
        Some(Some(object)) => format!(" ({})", fault(object)),
        Some(None) => String::new(),
        None => " (unread)".to_owned(),
    };
    Some(match result {
        Ok(Arrival::ListStarted | Arrival::Alive) => return None,
        Ok(Arrival::ListItem(key, of)) => format!("item {}{}", key.name, object(&of)),
        Ok(Arrival::ListEnded) => "listed".to_owned(),
        Ok(Arrival::Applied(key, of)) => format!("applied {}{}", key.name, object(&of)),
        Ok(Arrival::Deleted(key)) => format!("deleted {}", key.name),
        Err(error) => {
            let text = describe(kind, &error);
            text.replace(&format!(" {}", kind.resource()), "")
        }
    })
}

/// Creates an object of a list, or a change: `Arrival::ListItem`, `Arrival::Applied`.
fn object(arrival: fn(ObjectKey, Option<Object>) -> Arrival, name: &str) -> Arrival {
    let key = ObjectKey::new("shop", name);
    let meta = Meta {
        key: key.clone(),
        uid: "".into(),
        generation: 0,
        created: 0,
        terminating: false,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
    };
    arrival(key, Some(Object::new(Namespace { meta, labels: Default::default() })))
}

fn item(name: &str) -> Arrival {
    object(Arrival::ListItem, name)
}

fn applied(name: &str) -> Arrival {
    object(Arrival::Applied, name)
}

fn deleted(name: &str) -> Arrival {
    Arrival::Deleted(ObjectKey::new("shop", name))
}

fn names(events: &[Event]) -> Vec<String> {
    let name = |object: &Object| object.meta().key.name.to_string();
    let text = |event: &Event| match event {
        Event::Listed(_, objects) => format!("listed {}", objects.iter().map(name).collect::<Vec<_>>().join(" ")),
        Event::Applied(object) => format!("applied {}", name(object)),
        Event::Deleted(_, key) => format!("deleted {}", key.name),
        Event::Fault { origin, message, .. } => format!("{origin}: {message}"),
        Event::Healed(origin) => format!("{origin}: healed"),
        Event::Readable { namespace, readable, .. } => format!("{namespace} is readable: {readable}"),
        other => panic!("{other:?}"),
    };
    events.iter().map(text).collect()
}

/// Returns the state of watches of the namespaces `a`, `b`, ...
fn watches(kind: Kind, watches: u8) -> Merge {
    let names = (b'a'..b'a' + watches).map(|name| char::from(name).to_string().into());
    Merge::new(kind, names, Installed::default())
}

fn tell(merge: &mut Merge, i: usize, result: impl IntoIterator<Item = Arrival>) -> Vec<String> {
    result.into_iter().flat_map(|arrival| names(&merge.take(i, Ok(arrival)))).collect()
}

#[test]
fn a_list_is_told_as_a_whole_and_then_every_change() {
    let mut merge = watches(Kind::NAMESPACE, 1);
    let list = [Arrival::ListStarted, item("b"), item("a"), Arrival::ListEnded];
    assert_eq!(tell(&mut merge, 0, list), ["listed a b"]);
    let nothing_read = Arrival::Applied(ObjectKey::new("shop", "a"), None);
    assert_eq!(
        tell(&mut merge, 0, [applied("c"), nothing_read, deleted("b")]),
        ["applied c", "deleted a", "deleted b"]
    );
    let again = [Arrival::ListStarted, item("d"), Arrival::ListEnded];
    assert_eq!(tell(&mut merge, 0, again), ["listed d"]);
}

#[test]
fn several_namespaces_are_listed_when_the_last_of_them_is() {
    let mut merge = watches(Kind::NAMESPACE, 2);
    let first = [Arrival::ListStarted, item("a"), Arrival::ListEnded, applied("b")];
    assert_eq!(tell(&mut merge, 0, first), [""; 0]);
    assert_eq!(tell(&mut merge, 0, [deleted("a")]), [""; 0]);
    let second = [Arrival::ListStarted, item("c"), Arrival::ListEnded];
    assert_eq!(tell(&mut merge, 1, second), ["listed b c"]);
    let again = [Arrival::ListStarted, item("d"), Arrival::ListEnded];
    assert_eq!(tell(&mut merge, 0, again), ["deleted b", "applied d"]);
}

/// Encodes a short field with a length.
fn field(tag: u8, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [&[tag << 3 | 2, u8::try_from(value.len()).unwrap()], value].concat()
}

/// Answers as an API server that first rejects the list of Ingresses, then has one Ingress.
async fn answer(request: Request<Body>, refusals: Arc<AtomicUsize>) -> Response<Body> {
    let uri = request.uri().to_string();
    let respond = |status: u16, media_type: &str, body: Vec<u8>| {
        Response::builder().status(status).header("content-type", media_type).body(Body::from(body)).unwrap()
    };
    if uri.contains("sendInitialEvents=true") {
        let metadata = json!({"resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"}});
        let end = json!({"apiVersion": "v1", "kind": "List", "metadata": metadata});
        return respond(200, "application/json", format!("{{\"type\":\"BOOKMARK\",\"object\":{end}}}\n").into_bytes());
    }
    if uri.contains("watch=true") {
        std::future::pending::<()>().await;
    }
    if uri.contains("/ingresses?") && refusals.fetch_add(1, Ordering::SeqCst) == 0 {
        let message = "ingresses.networking.k8s.io is forbidden: User \"x\" cannot list";
        let status =
            json!({"kind": "Status", "status": "Failure", "code": 403, "message": message, "reason": "Forbidden"});
        return respond(403, "application/json", serde_json::to_vec(&status).unwrap());
    }
    let ingress = field(1, [field(1, "cart"), field(3, "shop")].concat());
    let items = if uri.contains("/ingresses?") { field(2, ingress) } else { Vec::new() };
    let list = [field(1, field(2, "1")), items].concat();
    respond(200, "application/vnd.kubernetes.protobuf", [b"k8s\0".to_vec(), field(2, list)].concat())
}

#[tokio::test]
async fn a_refused_list_is_told_and_tried_again() {
    let refusals = Arc::new(AtomicUsize::new(0));
    let service = service_fn(move |request| {
        let answered = answer(request, refusals.clone());
        async move { Ok::<_, std::io::Error>(answered.await) }
    });
    let (sender, mut events) = mpsc::channel(64);
    let watching =
        tokio::spawn(watch(kube::Client::new(service, "default"), WatchOptions::default(), Metrics::default(), sender));
    let mut result = Vec::new();
    let mut listed = BTreeSet::new();
    while listed.len() < Kind::ALL.len() {
        let event =
            tokio::time::timeout(Duration::from_secs(20), events.recv()).await.expect("no event").expect("ended");
        match event {
            Event::Listed(kind, objects) => {
                listed.insert(kind);
                assert_eq!(objects.len(), usize::from(kind == Kind::INGRESS));
            }
            other => result.extend(names(&[other])),
        }
    }
    assert!(
        result[0].starts_with(
            "Ingress *: cannot list ingresses.networking.k8s.io: ingresses.networking.k8s.io is forbidden: User \"x\" cannot list; \
             grant list and watch in a ClusterRole"
        ),
        "{result:?}"
    );
    assert_eq!(result[1..], ["Ingress *: healed"]);
    drop(events);
    watching.await.unwrap().unwrap();
}

#[tokio::test]
async fn without_gateway_api_its_kinds_are_empty_and_not_requested() {
    let service = service_fn(move |request: Request<Body>| {
        let path = request.uri().path();
        assert!(!path.contains(gateway::GROUP) && !path.contains("configmaps"), "{path}");
        async move { Ok::<_, std::io::Error>(answer(request, Arc::new(AtomicUsize::new(1))).await) }
    });
    let (sender, mut events) = mpsc::channel(64);
    let options = WatchOptions { gateway_api: false, ..WatchOptions::default() };
    let watching = tokio::spawn(watch(kube::Client::new(service, "default"), options, Metrics::default(), sender));
    let mut listed = BTreeSet::new();
    while listed.len() < Kind::ALL.len() {
        let event = tokio::time::timeout(Duration::from_secs(20), events.recv()).await;
        match event.expect("no event").expect("ended") {
            Event::Listed(kind, _) => listed.insert(kind),
            other => panic!("{other:?}"),
        };
    }
    drop(events);
    watching.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_kubeconfig_that_is_not_there_is_an_error_that_says_so() {
    let error = client(Some("/none/kubeconfig".into()), None).await.err().unwrap().to_string();
    assert!(error.contains("kubeconfig \"/none/kubeconfig\""), "{error}");
}

#[test]
fn an_api_server_that_was_away_is_asked_again_soon() {
    let gone = watcher::Error::NoResourceVersion;
    for seconds in [0, 1, 5, 17, 30] {
        let wait = bounded(&gone, Duration::from_secs(seconds));
        assert!(
            wait <= MAX_UNAVAILABLE_DELAY && wait >= Duration::from_secs(seconds).min(MAX_UNAVAILABLE_DELAY / 2),
            "{seconds} s became {wait:?}"
        );
    }
    let forbidden = kube::core::Status::failure("no", "Forbidden").with_code(403).boxed();
    let forbidden = watcher::Error::WatchStartFailed(kube::Error::Api(forbidden));
    assert_eq!(bounded(&forbidden, Duration::from_secs(25)), Duration::from_secs(25));
}

#[test]
fn a_forbidden_list_is_told_with_what_to_do() {
    let (error, _) = failed(403).unwrap_err();
    let result = |kind| describe(kind, &error).split_once("; ").unwrap().1.to_owned();
    assert_eq!(result(Kind::INGRESS), "grant list and watch in a ClusterRole");
    let expected = "grant list and watch in a ClusterRole, or set watch.gatewayApi to false";
    assert_eq!(result(Kind::GATEWAY), expected);
    assert!(result(Kind::HOST_GRANT).starts_with("the HostGrants are unknown, so hosts are served as without them"));
}

/// An optional kind.
const WIDGET: Kind = Kind::new(&INFO);
const INFO: KindInfo =
    KindInfo { name: "Widget", group: "example.com", plural: "widgets", optional: true, ..*Kind::INGRESS.info() };

fn failed(code: u16) -> WatchResult {
    let status = kube::core::Status::failure("no", "Reason").with_code(code).boxed();
    Err((watcher::Error::InitialListFailed(kube::Error::Api(status)), Duration::from_secs(1)))
}

#[tokio::test]
async fn an_absent_kind_is_requested_again_when_its_definition_is_created() {
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let watch = futures::stream::repeat_with(move || {
        counted.fetch_add(1, Ordering::SeqCst);
        Err(failed(404).unwrap_err().0)
    });
    let mut installed = Installed::default();
    let mut watch = with_backoff(Kind::GATEWAY, watch.boxed(), installed.clone(), Recovery::default()).boxed();
    let mut wait = async || watch.next().await.unwrap().unwrap_err().1;
    assert!(wait().await < ABSENT_DELAY, "the definitions are not listed yet");
    [Arrival::ListStarted, Arrival::ListEnded].iter().for_each(|arrival| installed.record(arrival));
    assert_eq!(wait().await, ABSENT_DELAY);
    assert!(wait().now_or_never().is_none(), "nothing is requested");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
    installed.record(&Arrival::Applied(ObjectKey::new("", &Kind::GATEWAY.resource()), None));
    assert!(wait().await < ABSENT_DELAY, "the API server does not serve the kind yet");
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

/// Returns the results of a watch that yields `results` with backoff.
fn retried(
    results: impl IntoIterator<Item = watcher::Result<Arrival>, IntoIter: Send + 'static>,
    recovery: &Recovery,
) -> BoxStream<'static, WatchResult> {
    let watch = futures::stream::iter(results).chain(futures::stream::pending()).boxed();
    with_backoff(Kind::INGRESS, watch, Installed::default(), recovery.clone()).boxed()
}

#[tokio::test]
async fn all_watches_are_repeated_when_one_of_them_recovers() {
    let recovery = Recovery::default();
    let mut recovered = recovery.0.subscribe();
    let gone = || Err(watcher::Error::InitialListFailed(kube::Error::Service("refused".into())));
    let mut watch =
        retried([Ok(Arrival::Alive), gone(), gone(), Ok(Arrival::ListStarted), Ok(Arrival::ListEnded)], &recovery);
    watch.next().await.unwrap().unwrap();
    for _ in 0..2 {
        watch.next().now_or_never().unwrap().unwrap().unwrap_err();
        assert!(watch.next().now_or_never().is_none(), "the pause");
        // Another watch recovers.
        recovery.0.send_replace(());
        recovered.mark_unchanged();
    }
    watch.next().now_or_never().unwrap().unwrap().unwrap();
    assert!(!recovered.has_changed().unwrap(), "the start of a list shows nothing");
    watch.next().now_or_never().unwrap().unwrap().unwrap();
    assert!(recovered.has_changed().unwrap(), "this watch has recovered");
}

#[tokio::test]
async fn watches_that_fail_behind_a_response_do_not_wake_each_other() {
    let recovery = Recovery::default();
    let recovered = recovery.0.subscribe();
    let lists = || [Err(watcher::Error::NoResourceVersion), Ok(Arrival::ListStarted), Ok(Arrival::ListEnded)];
    let mut watch = retried(lists(), &recovery);
    watch.next().now_or_never().unwrap().unwrap().unwrap_err();
    recovery.0.send_replace(());
    assert!(watch.next().now_or_never().is_none(), "the pause");
    let mut other = retried(lists().into_iter().skip(1), &recovery);
    while !matches!(other.next().await.unwrap(), Ok(Arrival::ListEnded)) {}
    assert!(recovered.has_changed().unwrap(), "by the line above");
    assert!(watch.next().now_or_never().is_none(), "the pause");
}

#[tokio::test]
async fn an_expired_watch_is_listed_at_once_unless_it_expires_again() {
    let expired = || {
        let status = kube::core::Status::failure("too old resource version", "Expired").with_code(410).boxed();
        Err(watcher::Error::WatchError(status))
    };
    let results = [expired(), Ok(Arrival::ListStarted), Ok(Arrival::ListEnded), expired()];
    let mut watch = retried(results, &Recovery::default());
    let mut next = || watch.next().now_or_never().unwrap().unwrap();
    assert_eq!(next().unwrap_err().1, Duration::ZERO);
    assert!(next().is_ok() && next().is_ok());
    assert!(next().unwrap_err().1 > Duration::ZERO, "the API server always expires the version");
}

#[tokio::test]
async fn a_request_is_repeated_for_a_second_while_the_api_server_is_unavailable() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let requests = Arc::new(AtomicUsize::new(0));
    let counted = requests.clone();
    let answer = move || {
        counted.fetch_add(1, Ordering::SeqCst);
        async { http::StatusCode::SERVICE_UNAVAILABLE }
    };
    tokio::spawn(axum::serve(listener, axum::Router::new().fallback(answer)).into_future());
    let client = limited(kube::Config::new(url), RESPONSE_TIMEOUT).unwrap();
    let version = tokio::time::timeout(Duration::from_secs(20), client.apiserver_version()).await.unwrap();
    assert!(matches!(&version, Err(kube::Error::Api(status)) if status.code == 503), "{version:?}");
    assert_eq!(requests.load(Ordering::SeqCst), 9);
}

#[test]
fn nothing_waits_for_a_kind_that_is_not_installed() {
    let mut merge = watches(WIDGET, 1);
    assert_eq!(names(&merge.take(0, failed(404))), ["listed "]);
    assert!(merge.is_absent(0));
    assert!(merge.take(0, failed(404)).is_empty(), "once");
    // Its CustomResourceDefinition is created.
    assert_eq!(tell(&mut merge, 0, [Arrival::ListStarted, item("a"), Arrival::ListEnded]), ["listed a"]);
    assert!(!merge.is_absent(0));
    assert_eq!(tell(&mut merge, 0, [applied("b")]), ["applied b"]);
    let mut required = watches(Kind::INGRESS, 1);
    assert!(names(&required.take(0, failed(404)))[0].starts_with("Ingress *: cannot list"));
}

/// While the API server is down, each watch fails several times a minute.
#[test]
fn a_fault_that_lasts_is_not_reported_at_each_retry() {
    let mut two = watches(Kind::INGRESS, 2);
    let mut repeated = |i: usize| match two.take(i, failed(500)).as_slice() {
        [Event::Fault { repeated, .. }] => *repeated,
        other => panic!("{other:?}"),
    };
    assert_eq!([0, 0, 1, 0, 1].map(&mut repeated), [false, true, false, true, true]);
    two.take(0, Ok(Arrival::Alive));
    let after_success = matches!(two.take(0, failed(500)).as_slice(), [Event::Fault { repeated: false, .. }]);
    assert!(after_success, "a new fault is reported at once");
}

#[test]
fn a_kind_that_is_not_installed_is_no_fault() {
    let mut merge = watches(WIDGET, 1);
    // The API server asks for the permission before it looks for the kind.
    assert_eq!(names(&merge.take(0, failed(403)))[1..], ["a is readable: false", "listed "]);
    assert_eq!(names(&merge.take(0, failed(404))), ["Widget *: healed"]);
    assert!(merge.take(0, failed(404)).is_empty());
    let sure = Instant::now() + Duration::from_secs(31);
    assert_eq!(names(&merge.absent(0, sure)), ["listed ", "a is readable: true"]);
}

#[test]
fn a_kind_that_is_installed_without_a_permission_is_unreadable() {
    let mut merge = watches(WIDGET, 1);
    assert_eq!(names(&merge.take(0, failed(404))), ["listed "]);
    // Its CustomResourceDefinition is created, but the role does not have the kind.
    assert_eq!(names(&merge.take(0, failed(403)))[1..], ["a is readable: false"]);
    assert!(!merge.is_absent(0), "a refusal is no success");
    // Its definition is known to be missing: the refusal is a fault of the API server.
    let mut definitions = Installed::default();
    let mut absent = Merge::new(WIDGET, [Arc::from("a")], definitions.clone());
    [Arrival::ListStarted, Arrival::ListEnded].iter().for_each(|arrival| definitions.record(arrival));
    assert_eq!(names(&absent.take(0, failed(404))), ["listed "]);
    assert_eq!((names(&absent.take(0, failed(403))).len(), absent.is_absent(0)), (1, true));
    assert_eq!(names(&merge.take(0, failed(403))).len(), 1, "once");
    let listed = tell(&mut merge, 0, [Arrival::ListStarted, item("a"), Arrival::ListEnded]);
    assert_eq!(listed, ["Widget *: healed", "listed a", "a is readable: true"]);
}

#[test]
fn objects_of_a_kind_that_is_gone_stay_until_that_is_sure() {
    let mut merge = watches(WIDGET, 1);
    let listed = [Arrival::ListStarted, item("a"), Arrival::ListEnded];
    assert_eq!(tell(&mut merge, 0, listed), ["listed a"]);
    let start = Instant::now();
    assert!(merge.absent(0, start).is_empty() && merge.absent(0, start + Duration::from_secs(29)).is_empty());
    // Another response in between: the API server was only starting.
    assert_eq!(names(&merge.take(0, failed(500))).len(), 1);
    assert!(merge.absent(0, start + Duration::from_secs(40)).is_empty());
    assert_eq!(names(&merge.absent(0, start + Duration::from_secs(70))), ["listed "]);
}

#[test]
fn nothing_waits_for_an_optional_kind_that_is_forbidden() {
    let mut merge = watches(WIDGET, 2);
    assert!(tell(&mut merge, 1, [Arrival::ListStarted, item("a"), Arrival::ListEnded]).is_empty());
    let result = names(&merge.take(0, failed(403)));
    assert!(result[0].starts_with("Widget *: cannot list widgets.example.com"), "{result:?}");
    assert_eq!(result[1..], ["a is readable: false", "listed a"]);
    assert_eq!(names(&merge.take(0, failed(403))).len(), 1);
    // The objects precede the permission, so nothing is served without them.
    let listed = tell(&mut merge, 0, [Arrival::ListStarted, item("b"), Arrival::ListEnded]);
    assert_eq!(listed, ["Widget *: healed", "applied b", "a is readable: true"]);
    // A complete list stays.
    assert_eq!(names(&merge.take(0, failed(403))).len(), 1);
}

#[tokio::test]
async fn a_request_that_is_not_answered_fails_after_its_limit() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let client = limited(kube::Config::new(url), Duration::from_millis(200)).unwrap();
    // The system accepts the connection. Nobody answers.
    let version = tokio::time::timeout(Duration::from_secs(20), client.apiserver_version()).await.unwrap();
    let error = version.unwrap_err();
    assert!(matches!(&error, kube::Error::Service(error) if error.is::<tower::timeout::error::Elapsed>()), "{error:?}");
}

#[test]
fn a_context_is_selected_by_name_and_current_is_the_current_one() {
    let config = |current: &str, names: &[&str]| {
        let contexts: Vec<_> = names.iter().map(|name| json!({"name": name, "context": {"cluster": "c"}})).collect();
        serde_json::from_value::<Kubeconfig>(json!({"current-context": current, "contexts": contexts})).unwrap()
    };
    let context = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    for (current, names, wanted, expected) in [
        ("a", &["a", "b"][..], "", Ok("")),
        ("a", &["a", "b"], "current", Ok("")),
        ("a", &["a", "b"], "b", Ok("b")),
        // A context may have this name.
        ("a", &["a", "current"], "current", Ok("current")),
        ("a", &["a", "b"], "c", Err("it has no context \"c\"; its contexts: a, b")),
        ("", &["a"], "", Err("it has no current context; its contexts: a")),
        ("gone", &["a"], "current", Err("its current context \"gone\" does not exist; its contexts: a")),
        ("", &[], "", Err("it has no contexts, so it is no usable kubeconfig")),
    ] {
        let found = selected(&config(current, names), context(wanted));
        assert_eq!(found, expected.map(context).map_err(str::to_owned), "{wanted} of {names:?}");
    }
}
