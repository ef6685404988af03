//! The dependency graph: the inputs of the translation, and the sources that read them.
//!
//! An input is a watched object, or a group of objects that is read as one input
//! ([`Grouping`](crate::objects::Grouping)). The units that are built from inputs have three stages. A unit reads only
//! inputs and units of earlier stages:
//!
//! 1. A **source** is an object that declares routes. It reads itself, its namespace, and the inputs in [`Graph`]:
//!    Services and Secrets, and for Gateway API also Gateways, ListenerSets, policies, grants, and labels of namespaces.
//!    All sources read the HostGrants (`translator::granted`).
//! 2. A **host** is built from the sources that name it, or the wildcard above it (`translator::sites`).
//! 3. A **cluster**, its endpoints, and the key pairs are built from inputs, as long as a source or host references
//!    them.
//!
//! A change of an input therefore affects its readers ([`Graph::readers`]), the hosts of these readers, and the
//! clusters of these hosts.

use std::collections::{BTreeSet, HashMap};

use crate::objects::{Kind, ObjectId, ObjectKey, Objects};

use crate::few::{Few, beyond};

/// An input of the translation: an object by its own key, or a group of objects by the key of the group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Input {
    kind: Kind,
    key: ObjectKey,
}

impl Input {
    /// The input of `kind` under `key`, which is the key of the group for kinds that are read by group.
    pub fn new(kind: Kind, key: ObjectKey) -> Self {
        Self { kind, key }
    }

    /// Returns the input that an object belongs to; `None` if that is unknown, because the object does not exist.
    pub fn of_object(objects: &Objects, kind: Kind, key: &ObjectKey) -> Option<Self> {
        Some(Self { kind, key: objects.group_of(kind, key)? })
    }

    /// Returns the kind of its objects.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the key of the object or of the group.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }
}

/// The inputs that changed since the last translation. A surplus input costs time; a missing input causes a wrong
/// result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChangedInputs {
    /// Whether everything is translated again.
    everything: bool,
    inputs: BTreeSet<Input>,
    /// Objects whose undecodable parts have changed.
    encodings: BTreeSet<ObjectId>,
}

impl ChangedInputs {
    /// Returns a change of all inputs, for the first translation and for new settings.
    pub fn everything() -> Self {
        Self { everything: true, ..Self::default() }
    }

    /// Adds an input that changed, appeared, or disappeared. An object that moves to another group changes both groups.
    pub fn insert(&mut self, input: Input) {
        // A full translation reads no list of inputs, and the first lists would add every object.
        if !self.everything {
            self.inputs.insert(input);
        }
    }

    /// Adds an object whose undecodable parts changed. Its readable content is for [`ChangedInputs::insert`].
    pub fn insert_encoding(&mut self, object: ObjectId) {
        if !self.everything {
            self.encodings.insert(object);
        }
    }

    /// Adds the changes in `other`.
    pub fn extend(&mut self, other: Self) {
        let Self { everything, inputs, encodings } = other;
        self.everything |= everything;
        self.inputs.extend(inputs);
        self.encodings.extend(encodings);
    }

    /// Returns whether nothing has changed.
    pub fn is_empty(&self) -> bool {
        !self.everything && self.inputs.is_empty() && self.encodings.is_empty()
    }

    /// Returns whether everything is translated again.
    pub fn is_everything(&self) -> bool {
        self.everything
    }

    /// Returns the changed inputs, sorted.
    pub fn inputs(&self) -> impl Iterator<Item = &Input> {
        self.inputs.iter()
    }

    /// Returns the keys of the changed inputs of `kind`, sorted.
    pub fn of_kind(&self, kind: Kind) -> impl Iterator<Item = &ObjectKey> {
        let first = Input { kind, key: ObjectKey::new("", "") };
        self.inputs.range(first..).take_while(move |input| input.kind == kind).map(Input::key)
    }

    /// Returns the objects whose undecodable parts changed.
    pub fn encodings(&self) -> impl Iterator<Item = &ObjectId> {
        self.encodings.iter()
    }
}

/// The sources that read each input, whether the input exists or not.
///
/// The map is only searched, never iterated, so its order has no effect.
#[derive(Debug, Default)]
pub struct Graph {
    readers: HashMap<Input, Few<ObjectId>>,
}

impl Graph {
    /// Replaces the inputs of a source. Both lists are sorted and without repetition.
    pub fn replace(&mut self, source: &ObjectId, before: &[Input], now: &[Input]) {
        for input in beyond(now, before) {
            self.readers.entry(input.clone()).or_default().insert(source.clone());
        }
        for input in beyond(before, now) {
            if let Some(readers) = self.readers.get_mut(input) {
                readers.remove(source);
                if readers.is_empty() {
                    self.readers.remove(input);
                }
            }
        }
    }

    /// Returns the sources that read an input, sorted.
    pub fn readers(&self, input: &Input) -> impl Iterator<Item = &ObjectId> {
        self.readers.get(input).into_iter().flat_map(Few::iter)
    }

    /// Returns whether a source reads an input.
    pub fn is_used(&self, input: &Input) -> bool {
        self.readers.contains_key(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str) -> Input {
        Input::new(Kind::SERVICE, ObjectKey::new("shop", name))
    }

    #[test]
    fn the_readers_of_an_input_follow_changes_of_sources() {
        let [one, two] = ["one", "two"].map(|name| ObjectId::new(Kind::INGRESS, "shop", name));
        let mut graph = Graph::default();
        graph.replace(&one, &[], &[input("a"), input("b")]);
        graph.replace(&two, &[], &[input("b")]);
        assert!(graph.readers(&input("b")).eq([&one, &two]));
        graph.replace(&one, &[input("a"), input("b")], &[input("c")]);
        assert!(graph.readers(&input("b")).eq([&two]) && graph.readers(&input("c")).eq([&one]));
        assert!(!graph.is_used(&input("a")));
        graph.replace(&one, &[input("c")], &[]);
        graph.replace(&two, &[input("b")], &[]);
        assert!(graph.readers.is_empty());
    }

    #[test]
    fn changes_are_found_by_kind() {
        let mut changed = ChangedInputs::default();
        assert!(changed.is_empty());
        for (kind, name) in [(Kind::SERVICE, "b"), (Kind::SECRET, "a"), (Kind::SERVICE, "a"), (Kind::INGRESS, "a")] {
            changed.insert(Input::new(kind, ObjectKey::new("shop", name)));
        }
        let services: Vec<&str> = changed.of_kind(Kind::SERVICE).map(|key| &*key.name).collect();
        assert_eq!(services, ["a", "b"]);
        assert_eq!(changed.of_kind(Kind::NAMESPACE).count(), 0);
        let mut everything = ChangedInputs::everything();
        everything.insert(input("a"));
        assert_eq!(everything, ChangedInputs::everything());
    }
}
