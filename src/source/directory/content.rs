//! The two kinds of content of a directory.

use std::sync::Arc;

use lockgate_route::objects::{Kind, Object, ObjectKey};
use lockgate_xds::snapshot::{Resource, ResourceType};

use super::tree::{DirectoryItem, Parsed, Unreadable};
use crate::source::manifest::{ManifestItem, Unread, entries};
use crate::source::{Event, resources};

impl DirectoryItem for Object {
    type Key = (Kind, ObjectKey);

    fn key(&self) -> Self::Key {
        (self.kind(), self.meta().key.clone())
    }

    fn same(&self, other: &Self) -> bool {
        self == other
    }

    fn describe((kind, key): &Self::Key) -> String {
        lockgate_xds::provenance::ObjectRef::new(kind.as_str(), &key.namespace, &key.name).to_string()
    }

    fn parse(path: &str, text: &str) -> Parsed<Self> {
        let mut parsed = Parsed { items: Vec::new(), faults: Vec::new() };
        for entry in entries(text) {
            match entry.item {
                ManifestItem::Object(object) => parsed.items.push(object),
                ManifestItem::Unread(Unread { kind, .. }) => {
                    tracing::debug!(file = path, document = entry.document, kind, "this object is not read");
                }
                ManifestItem::Unparsable(fault) => {
                    parsed.faults.push(Unreadable { message: fault.to_string(), key: None })
                }
                ManifestItem::Rejected(fault, key) => {
                    let named = key.as_ref().map(|key| format!(" ({})", Self::describe(key)));
                    parsed.faults.push(Unreadable { message: format!("{fault}{}", named.unwrap_or_default()), key });
                }
            }
        }
        parsed
    }

    fn listed(all: Vec<Self>) -> Vec<Event> {
        let of = |kind: Kind| all.iter().filter(|object| object.kind() == kind).cloned().collect();
        Kind::ALL.into_iter().map(|kind| Event::Listed(kind, of(kind))).collect()
    }

    fn changed(applied: Vec<Self>, removed: Vec<Self::Key>) -> Vec<Event> {
        let removed = removed.into_iter().map(|(kind, key)| Event::Deleted(kind, key));
        applied.into_iter().map(Event::Applied).chain(removed).collect()
    }
}

impl DirectoryItem for Resource {
    type Key = (ResourceType, Arc<str>);

    fn key(&self) -> Self::Key {
        (self.kind(), self.name().clone())
    }

    fn same(&self, other: &Self) -> bool {
        self.version() == other.version() && self.origins() == other.origins()
    }

    fn describe((kind, name): &Self::Key) -> String {
        format!("{} \"{name}\"", kind.short_name())
    }

    fn parse(path: &str, text: &str) -> Parsed<Self> {
        let (items, faults) = resources::parse(path, text);
        let unreadable = |fault| Unreadable { message: format!("{fault}"), key: None };
        Parsed { items, faults: faults.into_iter().map(unreadable).collect() }
    }

    fn listed(all: Vec<Self>) -> Vec<Event> {
        vec![Event::ResourcesListed(all)]
    }

    fn changed(applied: Vec<Self>, removed: Vec<Self::Key>) -> Vec<Event> {
        match (applied.is_empty(), removed.is_empty()) {
            (true, true) => Vec::new(),
            _ => vec![Event::ResourcesChanged { applied, removed }],
        }
    }
}
