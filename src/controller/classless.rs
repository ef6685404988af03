//! The objects that nobody serves because they name no class, for one log line.

use std::collections::BTreeSet;

use lockgate_route::objects::{Kind, Object, ObjectId, Objects};
use lockgate_route::translate::{ChangedInputs, default_class, is_classless, kinds_with_class};

/// The known objects without a class that Lockgate does not serve.
#[derive(Debug, Default)]
pub(super) struct Classless {
    known: BTreeSet<ObjectId>,
}

impl Classless {
    /// Updates the objects after the translation of `inputs`, and returns the new ones. Only a change of classes or of settings
    /// visits all objects.
    pub fn update(
        &mut self,
        objects: &Objects,
        inputs: &ChangedInputs,
        serves: impl Fn(&ObjectId) -> bool,
    ) -> Vec<ObjectId> {
        let all = inputs.is_everything() || inputs.of_kind(Kind::INGRESS_CLASS).next().is_some();
        if all && default_class(objects).is_some() {
            self.known.clear();
            return Vec::new();
        }
        let is_unserved = |object: &Object| is_classless(object) && !serves(&object.id());
        if all {
            let found = kinds_with_class().flat_map(|kind| objects.of_kind(kind).values());
            let now: BTreeSet<ObjectId> = found.filter(|object| is_unserved(object)).map(Object::id).collect();
            let new = now.difference(&self.known).cloned().collect();
            self.known = now;
            return new;
        }
        let mut new = Vec::new();
        for id in kinds_with_class().flat_map(|kind| inputs.of_kind(kind).map(move |key| kind.id(key.clone()))) {
            let is_unserved = objects.of_kind(id.kind).get(&id.key).is_some_and(is_unserved);
            if !is_unserved || default_class(objects).is_some() {
                self.known.remove(&id);
            } else if self.known.insert(id.clone()) {
                new.push(id);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use lockgate_route::objects::ObjectKey;
    use lockgate_route::translate::Input;

    use super::*;
    use crate::source::manifest::{ManifestItem, entries};

    const INGRESS: &str = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: NAME}, spec: {}}\n";
    const CLASS: &str = "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: NAME, \
        annotations: {ingressclass.kubernetes.io/is-default-class: 'true'}}, spec: {controller: example.com/other}}\n";

    fn object(text: &str, name: &str) -> Object {
        match entries(&text.replace("NAME", name)).next().map(|entry| entry.item) {
            Some(ManifestItem::Object(object)) => object,
            other => unreachable!("{other:?}"),
        }
    }

    fn names(ids: &[ObjectId]) -> Vec<&str> {
        ids.iter().map(|id| &*id.key.name).collect()
    }

    #[test]
    fn each_ingress_without_a_class_is_new_once() {
        let (mut objects, mut classless) = (Objects::default(), Classless::default());
        ["a", "b", "c"].iter().for_each(|name| assert!(objects.apply(object(INGRESS, name))));
        let serves = |id: &ObjectId| &*id.key.name == "b";
        let everything = ChangedInputs::everything();
        assert_eq!(names(&classless.update(&objects, &everything, serves)), ["a", "c"]);
        assert!(classless.update(&objects, &everything, serves).is_empty());
        objects.apply(object(INGRESS, "d"));
        let mut changed = ChangedInputs::default();
        ["a", "d"].iter().for_each(|name| changed.insert(Input::new(Kind::INGRESS, ObjectKey::new("default", name))));
        assert_eq!(names(&classless.update(&objects, &changed, serves)), ["d"]);
        assert!(classless.update(&objects, &changed, serves).is_empty());
        // A default class of any controller applies to new Ingresses.
        objects.apply(object(CLASS, "other"));
        assert!(classless.update(&objects, &everything, serves).is_empty());
        assert!(classless.known.is_empty());
    }
}
