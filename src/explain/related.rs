//! The objects that name a host but do not serve it: they have another class, are attached to no listener, or are being
//! deleted.

use lockgate_route::explain::{patterns, without_port};
use lockgate_route::model::Host;
use lockgate_route::objects::{IngressClass, Object, ObjectId, ObjectKey, Objects};
use lockgate_route::translate::host::parse;
use lockgate_route::translate::verdict::{Status, Verdicts};
use lockgate_route::translate::{CLASS_FIELD, DIALECTS, Selection, Verdict};

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
        for dialect in &DIALECTS {
            for object in state.objects.of_kind(dialect.kind).values() {
                if (dialect.hosts)(object).into_iter().any(names_host) {
                    notes.extend(notes_on(object, dialect.selection, state));
                }
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

fn notes_on(object: &Object, selection: Selection, state: &ObjectState) -> Vec<Note> {
    let (id, name) = (object.id(), object.object_ref().to_string());
    let mut notes = match selection {
        _ if (state.serves)(&id) => refusals(&id, &name, state),
        Selection::Class { named, .. } => return vec![of_another_class(&id, name, named(object), state)],
        Selection::Parents { .. } => return vec![without_parent(name)],
        // They name no hosts.
        Selection::Referenced => return Vec::new(),
    };
    if object.meta().terminating || state.objects.is_terminating(&id.key.namespace) {
        notes.push(deleted(name));
    }
    notes
}

fn of_another_class(id: &ObjectId, object: String, class: Option<&str>, state: &ObjectState) -> Note {
    let kind = id.kind.as_str();
    let (message, remedy) = match class {
        None => (
            format!("the {kind} names no class, and no IngressClass of this controller is the default"),
            format!("Set {CLASS_FIELD} to a class of this controller."),
        ),
        Some(class) => match state.objects.get::<IngressClass>(&ObjectKey::new("", class)) {
            None => (
                format!("IngressClass {class:?} does not exist"),
                format!("Create the IngressClass, or set {CLASS_FIELD} to a class of this controller."),
            ),
            Some(found) => (
                format!("IngressClass {class:?} belongs to the controller {:?}", found.controller),
                format!(
                    "No action is needed if another controller serves the {kind}; otherwise, change {CLASS_FIELD}."
                ),
            ),
        },
    };
    let (field, reason) = (CLASS_FIELD.to_owned(), "NotServed".to_owned());
    Note { object, field, reason, message, consequence: "not served by this controller".to_owned(), remedy }
}

fn without_parent(object: String) -> Note {
    Note {
        object,
        field: "spec.parentRefs".to_owned(),
        reason: "NotServed".to_owned(),
        message: "no parent is a Gateway of this controller".to_owned(),
        consequence: "not served by this controller".to_owned(),
        remedy: "Name a Gateway in parentRefs whose GatewayClass belongs to this controller.".to_owned(),
    }
}

/// Returns the parents that a route is not attached to.
fn refusals(id: &ObjectId, object: &str, state: &ObjectState) -> Vec<Note> {
    let verdicts = state.verdicts.get(id).into_iter().flat_map(|verdicts| verdicts.iter());
    let refused = verdicts.filter(|verdict| verdict.condition == "Accepted" && verdict.status == Status::False);
    let note = |verdict: &Verdict| {
        Some(Note {
            object: object.to_owned(),
            field: format!("spec.parentRefs[{}]", verdict.parent?),
            reason: verdict.reason.to_owned(),
            message: verdict.message.to_string(),
            consequence: "not attached to this parent".to_owned(),
            remedy: "Correct parentRefs or hostnames, or allow the route in allowedRoutes of the listener.".to_owned(),
        })
    };
    refused.filter_map(note).collect()
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
