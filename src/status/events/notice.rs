//! A notice for the owner of an object, and its Event.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Kind;
use lockgate_xds::provenance::ObjectRef;
use xxhash_rust::xxh3::xxh3_64;

/// The maximum length of a note, a name, and an instance, in bytes. Source: validation of events.k8s.io/v1.
const MAX_NOTE: usize = 1024;
const MAX_NAME: usize = 253;
const MAX_INSTANCE: usize = 128;

/// A notice for the owner of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// The object, without generation.
    pub object: ObjectRef,
    /// The uid of the object.
    pub uid: Arc<str>,
    /// The subject. A later notice on the same object and subject replaces an earlier one.
    pub subject: &'static str,
    /// Whether the notice reports a problem.
    pub is_warning: bool,
    /// The reason of the Event.
    pub reason: &'static str,
    /// The text.
    pub note: String,
    /// Whether the change is new. Otherwise, this replica or another may have reported it before.
    pub is_new: bool,
}

impl Notice {
    /// Returns the name of the Event. Equal notices have the same name at every replica, so an Event is created only
    /// once.
    pub fn name(&self) -> String {
        let id = [&*self.uid, self.subject, self.reason, &self.note].join("\n");
        let object = truncate(&self.object.name, MAX_NAME - 17);
        let object = object.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        format!("{object}.{:016x}", xxh3_64(id.as_bytes()))
    }

    /// Returns the namespace of the Event: the namespace of the object, or `default` for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        if self.object.namespace.is_empty() { "default" } else { &self.object.namespace }
    }

    /// Returns the Event, reported by the replica `instance` of `controller`.
    pub fn event(&self, controller: &str, instance: &str, now: Timestamp) -> Event {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        Event {
            metadata: ObjectMeta {
                name: Some(self.name()),
                namespace: some(self.namespace()),
                ..ObjectMeta::default()
            },
            action: some(if self.reason == PROGRAMMED { "Program" } else { "Translate" }),
            event_time: Some(MicroTime(now)),
            note: some(truncate(&self.note, MAX_NOTE)),
            reason: some(self.reason),
            regarding: Some(ObjectReference {
                api_version: some(&api_version(self.object.kind)),
                kind: some(self.object.kind),
                namespace: some(&self.object.namespace),
                name: some(&self.object.name),
                uid: some(&self.uid),
                ..ObjectReference::default()
            }),
            reporting_controller: some(&reporting(controller)),
            reporting_instance: some(truncate(instance, MAX_INSTANCE)),
            type_: some(if self.is_warning { "Warning" } else { "Normal" }),
            ..Event::default()
        }
    }
}

/// The reason of the Event when a problem is solved.
pub(super) const HEALED: &str = "Healed";
/// The reason of the Event when Envoys serve an object and its status is written.
pub(super) const PROGRAMMED: &str = "Programmed";

/// Returns the note on the problems of one object with the same reason: field, message, and consequence of each, and
/// the number of `others`.
pub(super) fn note<'a>(problems: impl Iterator<Item = (&'a str, &'a str, &'a str)>, others: usize) -> String {
    // Reserves space for the number of omitted problems.
    let most = MAX_NOTE - 40;
    let (mut text, mut left_out) = (String::new(), others);
    for (field, message, consequence) in problems {
        let colon = if field.is_empty() { "" } else { ": " };
        let one = format!("{field}{colon}{message}; {consequence}");
        if text.is_empty() {
            text = truncate(&one, most).to_owned();
        } else if text.len() + one.len() + 8 <= most {
            text = format!("{text}; also {one}");
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 { format!("{text}; also {left_out} more") } else { text }
}

/// Returns the note on a solved problem.
pub(super) fn healed(reason: &str, note: &str) -> String {
    truncate(&format!("no longer {reason}: {note}"), MAX_NOTE).to_owned()
}

/// Returns the longest prefix of a text with at most this number of bytes.
fn truncate(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// Returns the name of a controller in the form that Events require: one `/` after the domain, and then at most 63
/// characters that begin and end with a letter or a digit. IngressClasses permit more. Source: validation of
/// events.k8s.io/v1.
fn reporting(controller: &str) -> String {
    let (domain, path) = controller.split_once('/').unwrap_or(("lockgate.dev", controller));
    let edge = |c: char| !c.is_ascii_alphanumeric();
    let path = path.replace('/', ".");
    let path = truncate(path.trim_start_matches(edge), 63).trim_end_matches(edge);
    let path = if path.is_empty() { "ingress-controller" } else { path };
    format!("{domain}/{path}")
}

/// Returns the API version of a watched kind.
fn api_version(kind: &str) -> String {
    Kind::ALL.into_iter().find(|known| known.as_str() == kind).map_or_else(|| "v1".to_owned(), Kind::api_version)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notice(note: &str) -> Notice {
        let object = ObjectRef::new("Ingress", "shop", "cart");
        let (subject, reason) = ("Conflicted", "Conflicted");
        Notice { object, uid: "u".into(), subject, is_warning: true, reason, note: note.into(), is_new: true }
    }

    #[test]
    fn the_same_notice_has_the_same_name_and_another_another() {
        assert_eq!(notice("a").name(), Notice { is_new: false, ..notice("a") }.name());
        assert_ne!(notice("a").name(), notice("b").name());
        assert_ne!(notice("a").name(), Notice { uid: "v".into(), ..notice("a") }.name());
        assert_ne!(notice("a").name(), Notice { reason: HEALED, ..notice("a") }.name());
    }

    #[test]
    fn names_and_notes_are_as_long_as_the_api_server_takes() {
        let object = ObjectRef::new("Ingress", "shop", &format!("{}.x", "a".repeat(235)));
        let name = Notice { object, ..notice("a") }.name();
        assert!(name.len() <= MAX_NAME && !name.contains(".."), "{name}");
        let long = "é".repeat(1000);
        assert!(notice(&long).event("us", "me", Timestamp::UNIX_EPOCH).note.is_some_and(|note| note.len() <= MAX_NOTE));
        assert!(healed("Conflicted", &long).len() <= MAX_NOTE);
    }

    #[test]
    fn a_controller_is_named_as_events_take_it() {
        assert_eq!(reporting("lockgate.dev/ingress-controller"), "lockgate.dev/ingress-controller");
        assert_eq!(reporting("example.com/team/edge_1"), "example.com/team.edge_1");
        assert_eq!(reporting("example.com/-/"), "example.com/ingress-controller");
        assert_eq!(reporting(&format!("a.b/{}", "c".repeat(99))).len(), 4 + 63);
    }

    #[test]
    fn an_object_without_a_namespace_has_its_events_in_default() {
        let object = ObjectRef::new("IngressClass", "", "public");
        let event = Notice { object, ..notice("a") }.event("us", "me", Timestamp::UNIX_EPOCH);
        assert_eq!(event.metadata.namespace.as_deref(), Some("default"));
        let regarding = event.regarding.unwrap_or_default();
        assert_eq!((regarding.namespace, regarding.api_version.as_deref()), (None, Some("networking.k8s.io/v1")));
    }

    #[test]
    fn several_problems_make_one_note_that_says_how_many_are_left_out() {
        let problem = |field| (field, "path \"a\" does not start with \"/\"", "path left out");
        assert_eq!(note([problem("x")].into_iter(), 0), "x: path \"a\" does not start with \"/\"; path left out");
        let two = note([problem("x"), problem("")].into_iter(), 0);
        let one = "path \"a\" does not start with \"/\"; path left out";
        assert_eq!(two, format!("x: {one}; also {one}"));
        let many = note((0..100).map(|_| problem("spec.rules[0]")), 0);
        assert!(many.len() <= MAX_NOTE && many.ends_with(" more"), "{many}");
        assert_eq!(note([problem("x")].into_iter(), 17_990), format!("x: {one}; also 17990 more"));
    }
}
