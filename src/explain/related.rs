//! The objects that name a host but do not serve it: they have another class, are attached to no listener, or are being
//! deleted.

use lockgate_route::explain::{patterns, without_port};
use lockgate_route::model::Host;
use lockgate_route::objects::gateway::{GrpcRoute, HttpRoute, TlsRoute};
use lockgate_route::objects::{Ingress, IngressClass, Kind, Meta, ObjectId, ObjectKey, Objects};
use lockgate_route::translate::class_of_ingress;
use lockgate_route::translate::host::parse;
use lockgate_route::translate::verdict::{Status, Verdicts};

use super::Question;
use super::report::{Note, Report};

/// The maximum number of such objects.
const MAX_LISTED: usize = 50;

/// The objects, and their state in the controller.
pub struct ObjectState<'a> {
    /// All objects.
    pub objects: &'a Objects,
    /// The conditions of the objects that are served by class.
    pub verdicts: &'a Verdicts,
    /// Whether an object is served by class.
    pub serves: &'a dyn Fn(&ObjectId) -> bool,
}

impl Report {
    /// Adds the objects that name the host of the request but do not serve it.
    pub fn add_elsewhere(&mut self, question: &Question, state: &ObjectState) {
        let Ok((_, request)) = question.parse() else { return };
        let name = request.server_name.clone().filter(|_| self.answers.iter().all(|entry| entry.path.is_empty()));
        let name = name.unwrap_or_else(|| without_port(&request.authority).to_owned()).to_ascii_lowercase();
        let hosts: Vec<Host> = patterns(&name).collect();
        let names_host = |text: &str| parse(text).is_ok_and(|host| hosts.contains(&host));
        let mut notes = Vec::new();
        for ingress in state.objects.all::<Ingress>() {
            let rules = ingress.spec.rules.iter().flatten().filter_map(|rule| rule.host.as_deref());
            if rules.clone().any(names_host) {
                notes.extend(of_ingress(ingress, state));
            }
        }
        for route in state.objects.all::<HttpRoute>() {
            if route.spec.hostnames.iter().any(|text| names_host(text)) {
                notes.extend(of_route(Kind::HTTP_ROUTE, &route.meta, state));
            }
        }
        for route in state.objects.all::<GrpcRoute>() {
            if route.spec.hostnames.iter().any(|text| names_host(text)) {
                notes.extend(of_route(Kind::GRPC_ROUTE, &route.meta, state));
            }
        }
        for route in state.objects.all::<TlsRoute>() {
            if route.spec.hostnames.iter().any(|text| names_host(text)) {
                notes.extend(of_route(Kind::TLS_ROUTE, &route.meta, state));
            }
        }
        let more = notes.len().saturating_sub(MAX_LISTED);
        notes.truncate(MAX_LISTED);
        self.elsewhere = notes;
        if more > 0 {
            self.notes.push(format!("{more} more objects name the host and are not served"));
        }
    }
}

fn of_ingress(ingress: &Ingress, state: &ObjectState) -> Option<Note> {
    let object = ingress.meta.object_ref(Kind::INGRESS).to_string();
    if (state.serves)(&Kind::INGRESS.id(ingress.meta.key.clone())) {
        return is_deleted(&ingress.meta, state).then(|| deleted(object));
    }
    let (message, remedy) = match class_of_ingress(ingress) {
        None => (
            "the Ingress names no class, and no IngressClass of this controller is the default".to_owned(),
            "Set spec.ingressClassName to a class of this controller.",
        ),
        Some(class) => match state.objects.get::<IngressClass>(&ObjectKey::new("", class)) {
            None => (
                format!("IngressClass {class:?} does not exist"),
                "Create the IngressClass, or set spec.ingressClassName to a class of this controller.",
            ),
            Some(found) => (
                format!("IngressClass {class:?} belongs to the controller {:?}", found.controller),
                "No action is needed if another controller serves the Ingress; otherwise, change spec.ingressClassName.",
            ),
        },
    };
    Some(Note {
        object,
        field: "spec.ingressClassName".to_owned(),
        reason: "NotServed".to_owned(),
        message,
        consequence: "not served by this controller".to_owned(),
        remedy: remedy.to_owned(),
    })
}

fn of_route(kind: Kind, meta: &Meta, state: &ObjectState) -> Vec<Note> {
    let object = meta.object_ref(kind).to_string();
    let id = kind.id(meta.key.clone());
    if !(state.serves)(&id) {
        return vec![Note {
            object,
            field: "spec.parentRefs".to_owned(),
            reason: "NotServed".to_owned(),
            message: "no parent is a Gateway of this controller".to_owned(),
            consequence: "not served by this controller".to_owned(),
            remedy: "Name a Gateway in parentRefs whose GatewayClass belongs to this controller.".to_owned(),
        }];
    }
    let verdicts = state.verdicts.get(&id).into_iter().flat_map(|verdicts| verdicts.iter());
    let refused = verdicts.filter(|verdict| verdict.condition == "Accepted" && verdict.status == Status::False);
    let mut notes: Vec<Note> = refused
        .map(|verdict| Note {
            object: object.clone(),
            field: verdict.parent.map(|parent| format!("spec.parentRefs[{parent}]")).unwrap_or_default(),
            reason: verdict.reason.to_owned(),
            message: verdict.message.clone(),
            consequence: "not attached to this parent".to_owned(),
            remedy: "Correct parentRefs or hostnames, or allow the route in allowedRoutes of the listener.".to_owned(),
        })
        .collect();
    if is_deleted(meta, state) {
        notes.push(deleted(object));
    }
    notes
}

/// Returns whether an object or its namespace is being deleted.
fn is_deleted(meta: &Meta, state: &ObjectState) -> bool {
    meta.terminating || state.objects.is_terminating(&meta.key.namespace)
}

fn deleted(object: String) -> Note {
    Note {
        object,
        field: "metadata.deletionTimestamp".to_owned(),
        reason: "Terminating".to_owned(),
        message: "the object or its namespace is being deleted".to_owned(),
        consequence: "it loses to every other object until it is gone".to_owned(),
        remedy: "No action is needed. If it does not go away, look at metadata.finalizers.".to_owned(),
    }
}
