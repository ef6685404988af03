//! One thing that the owner of an object is to be told, and the Event that tells it.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Kind;
use lockgate_xds::provenance::ObjectRef;
use xxhash_rust::xxh3::xxh3_64;

/// The longest note, name and instance that the API server takes, in bytes. Source: validation of events.k8s.io/v1.
const NOTE: usize = 1024;
const NAME: usize = 253;
const INSTANCE: usize = 128;

/// What the owner of an object is to be told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Notice {
    /// The object, of no particular generation.
    pub object: ObjectRef,
    /// Its uid.
    pub uid: Arc<str>,
    /// What it is about: a later notice on the same object and subject takes the place of an earlier one.
    pub subject: &'static str,
    /// Whether something is wrong.
    pub is_warning: bool,
    /// The Event's reason.
    pub reason: &'static str,
    /// The text.
    pub note: String,
    /// Whether it has just happened; else it may have been told before, by this replica or another.
    pub is_new: bool,
}

impl Notice {
    /// The name of its Event. The same notice has the same name at every replica, so that it is not told twice.
    pub fn name(&self) -> String {
        let id = [&*self.uid, self.subject, self.reason, &self.note].join("\n");
        let object = cut(&self.object.name, NAME - 17);
        let object = object.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        format!("{object}.{:016x}", xxh3_64(id.as_bytes()))
    }

    /// The namespace of its Event: that of the object, or `default` for one that has none.
    pub fn namespace(&self) -> &str {
        if self.object.namespace.is_empty() { "default" } else { &self.object.namespace }
    }

    /// The Event, told by the replica `instance` of `controller`.
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
            note: some(cut(&self.note, NOTE)),
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
            reporting_instance: some(cut(instance, INSTANCE)),
            type_: some(if self.is_warning { "Warning" } else { "Normal" }),
            ..Event::default()
        }
    }
}

/// Reason of the Event when something is no longer wrong.
pub(super) const HEALED: &str = "Healed";
/// Reason of the Event when Envoys serve an Ingress and its addresses are written.
pub(super) const PROGRAMMED: &str = "Programmed";

/// All that is wrong in one sense with one object, each with field and consequence, and the number of `others`.
pub(super) fn note<'a>(problems: impl Iterator<Item = (&'a str, &'a str, &'a str)>, others: usize) -> String {
    // Room for the count of those that find no room.
    let most = NOTE - 40;
    let (mut text, mut left_out) = (String::new(), others);
    for (field, message, consequence) in problems {
        let colon = if field.is_empty() { "" } else { ": " };
        let one = format!("{field}{colon}{message}; {consequence}");
        if text.is_empty() {
            text = cut(&one, most).to_owned();
        } else if text.len() + one.len() + 8 <= most {
            text = format!("{text}; also {one}");
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 { format!("{text}; also {left_out} more") } else { text }
}

/// What is no longer wrong.
pub(super) fn healed(reason: &str, note: &str) -> String {
    cut(&format!("no longer {reason}: {note}"), NOTE).to_owned()
}

/// At most so many bytes of a text, whole characters.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The name of a controller as Events take it: one `/` after the domain, and at most 63 characters behind it that begin
/// and end with a letter or a digit. An IngressClass takes more. Source: validation of events.k8s.io/v1.
fn reporting(controller: &str) -> String {
    let (domain, path) = controller.split_once('/').unwrap_or(("lockgate.dev", controller));
    let edge = |c: char| !c.is_ascii_alphanumeric();
    let path = path.replace('/', ".");
    let path = cut(path.trim_start_matches(edge), 63).trim_end_matches(edge);
    let path = if path.is_empty() { "ingress-controller" } else { path };
    format!("{domain}/{path}")
}

/// The API version of a kind that is watched.
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
        assert!(name.len() <= NAME && !name.contains(".."), "{name}");
        let long = "é".repeat(1000);
        assert!(notice(&long).event("us", "me", Timestamp::UNIX_EPOCH).note.is_some_and(|note| note.len() <= NOTE));
        assert!(healed("Conflicted", &long).len() <= NOTE);
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
        assert!(many.len() <= NOTE && many.ends_with(" more"), "{many}");
        assert_eq!(note([problem("x")].into_iter(), 17_990), format!("x: {one}; also 17990 more"));
    }
}
