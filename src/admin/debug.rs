//! The pages under `/debug/`: the current state of the process as JSON.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use lockgate_route::objects::gateway::Installed;
use lockgate_route::objects::{Kind, ObjectId, ObjectKey};
use lockgate_xds::protobuf;
use lockgate_xds::snapshot::{Resource, ResourceType, Snapshot};
use serde::Deserialize;
use serde_json::{Value, json};

use super::AdminState;
use crate::explain::{self, ObjectState, Question, Report};

pub(super) const INDEX: &str = "\
/debug/objects                       the known objects, by kind, and the version of Gateway API
/debug/problems                      the current problems of the objects
/debug/resources                     the types of resources, with their number and version
/debug/resources?type=Cluster        one type: names, versions, and the objects of each resource
/debug/resources?type=Cluster&name=  one complete resource, without private keys
/debug/resources?view=whole          the same for Envoys with state of the world; also with type= and name=
/debug/resources?view=grpc           the same for gRPC clients without a proxy
/debug/settings                      the current settings and their origin, pending changes, and faults of the file
/debug/xds                           the open streams: clients, and sent, accepted, and rejected resources
/debug/status                        this replica: its Envoys, objects that they have not accepted, problems
/debug/claims                        the claims of hosts: the namespace that keeps each host
/debug/explain?url=                  what happens to a request, and why; also with method=, headers=, server_name=
/debug/log                           GET: the log filter; PUT: change it (info,lockgate_xds=debug)
";

pub(super) fn router() -> Router<Arc<AdminState>> {
    Router::new()
        .route("/debug", get(async || INDEX))
        .route("/debug/", get(async || INDEX))
        .route("/debug/objects", get(objects))
        .route("/debug/problems", get(problems))
        .route("/debug/resources", get(resources))
        .route("/debug/settings", get(settings))
        .route("/debug/xds", get(xds))
        .route("/debug/status", get(status))
        .route("/debug/claims", get(claims))
        .route("/debug/explain", get(explain_request))
        .route("/debug/log", get(log).put(set_log))
}

async fn objects(State(state): State<Arc<AdminState>>) -> Response {
    let objects = state.inspection.borrow().objects.clone();
    let names = |keys: &mut dyn Iterator<Item = &ObjectKey>| -> Vec<String> {
        keys.map(|key| match &*key.namespace {
            "" => key.name.to_string(),
            namespace => format!("{namespace}/{}", key.name),
        })
        .collect()
    };
    let by_kind = Kind::ALL.map(|kind| (kind.as_str().to_owned(), json!(names(&mut objects.of_kind(kind).keys()))));
    let gateway_api = Installed::of(&objects).map(|installed| ("Gateway API".to_owned(), json!(installed.to_string())));
    pretty(&Value::from_iter(by_kind.into_iter().chain(gateway_api)))
}

async fn problems(State(state): State<Arc<AdminState>>) -> Response {
    let problems = state.inspection.borrow().problems.clone();
    pretty(&Value::from_iter(problems.iter().map(|problem| json!(**problem))))
}

async fn settings(State(state): State<Arc<AdminState>>) -> Response {
    (state.settings)().into_response()
}

async fn xds(State(state): State<Arc<AdminState>>) -> Response {
    pretty(&(state.streams)())
}

async fn status(State(state): State<Arc<AdminState>>) -> Response {
    let inspection = state.inspection.borrow().clone();
    let publication = (state.snapshots)().into_iter().find_map(|(_, newest)| newest).map_or(0, |one| one.generation());
    let (envoys, further) = ((state.live.envoys)(), (state.live.problems)());
    let missing = state.readiness.missing(inspection.complete).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION").to_owned();
    let shown = explain::State::new(&inspection, &envoys, &further, publication);
    pretty(&json!(explain::State { version, missing, ..shown }))
}

async fn claims(State(state): State<Arc<AdminState>>) -> Response {
    let inspection = state.inspection.borrow().clone();
    pretty(&json!(explain::claims::claims(&inspection)))
}

async fn explain_request(State(state): State<Arc<AdminState>>, Query(question): Query<Question>) -> Response {
    let (target, request) = match question.parse() {
        Ok(parsed) => parsed,
        Err(error) => return (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    };
    let Some(answers) = (state.live.ask)(target, request).await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "nothing is published yet\n").into_response();
    };
    let inspection = state.inspection.borrow().clone();
    let mut report = Report::new(&question, answers);
    report.add_live(&inspection, &(state.live.envoys)(), &(state.live.problems)());
    let serves = |id: &ObjectId| inspection.sources.contains_key(id);
    let known = ObjectState { objects: &inspection.objects, verdicts: &inspection.verdicts, serves: &serves };
    report.add_elsewhere(&question, &known);
    pretty(&json!(report))
}

async fn log(State(state): State<Arc<AdminState>>) -> String {
    format!("{}\n", state.log.current())
}

async fn set_log(State(state): State<Arc<AdminState>>, filter: String) -> Response {
    match state.log.set(&filter) {
        Ok(()) => {
            let filter = state.log.current();
            tracing::warn!(filter, "the log level was changed by /debug/log");
            format!("{filter}\n").into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}

#[derive(Deserialize)]
struct Wanted {
    r#type: Option<String>,
    name: Option<String>,
    view: Option<String>,
}

async fn resources(State(state): State<Arc<AdminState>>, Query(wanted): Query<Wanted>) -> Response {
    let snapshots = (state.snapshots)();
    let view = |(name, _): &&(String, _)| wanted.view.as_ref().is_none_or(|view| view == name);
    let Some((view, newest)) = snapshots.iter().find(view) else {
        let known: Vec<_> = snapshots.iter().map(|(name, _)| name.as_str()).collect();
        return (StatusCode::NOT_FOUND, format!("no such view; there are {}\n", known.join(", "))).into_response();
    };
    let Some(snapshot) = newest else {
        let published = snapshots.iter().any(|(_, newest)| newest.is_some());
        let why = match published {
            true => format!("the view \"{view}\" does not exist: no client has requested it\n"),
            false => "nothing is published yet\n".to_owned(),
        };
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let Some(type_name) = wanted.r#type else { return pretty(&types(snapshot)) };
    let Some(kind) = snapshot.kinds().find(|kind| {
        kind.url() == type_name || kind.full_name() == type_name || kind.short_name().eq_ignore_ascii_case(&type_name)
    }) else {
        let known: Vec<_> = snapshot.kinds().map(ResourceType::short_name).collect();
        let text = format!("no resources of type \"{type_name}\"; there are {}\n", known.join(", "));
        return (StatusCode::NOT_FOUND, text).into_response();
    };
    match wanted.name {
        None => pretty(&Value::from_iter(snapshot.all(kind).map(|resource| summary(resource)))),
        Some(name) => match snapshot.get(kind, &name) {
            Some(resource) => pretty(&whole(resource)),
            None => {
                let text = format!("no {} named \"{name}\"\n", kind.short_name());
                (StatusCode::NOT_FOUND, text).into_response()
            }
        },
    }
}

fn types(snapshot: &Snapshot) -> Value {
    let types: BTreeMap<&str, Value> = snapshot
        .kinds()
        .map(|kind| {
            let version = snapshot.version(kind).to_string();
            (kind.short_name(), json!({ "type_url": kind.url(), "count": snapshot.len(kind), "version": version }))
        })
        .collect();
    json!({ "generation": snapshot.generation(), "types": types })
}

fn summary(resource: &Resource) -> Value {
    json!({ "name": resource.name(), "version": resource.version().to_string(), "origins": resource.origins() })
}

fn whole(resource: &Resource) -> Value {
    let mut value = summary(resource);
    value["resource"] = protobuf::to_json_redacted(resource.kind().full_name(), &resource.message());
    value
}

fn pretty(value: &Value) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], format!("{value:#}\n")).into_response()
}
