//! The Ingresses that nobody serves because they name no class, for one log line.

use std::collections::BTreeSet;

use lockgate_route::objects::{Ingress, Kind, ObjectId, ObjectKey, Objects};
use lockgate_route::translate::{ChangedInputs, class_of_ingress, default_class};

/// The known Ingresses without a class that Lockgate does not serve.
#[derive(Debug, Default)]
pub(super) struct Classless {
    keys: BTreeSet<ObjectKey>,
}

impl Classless {
    /// Updates the Ingresses after the translation of `inputs`, and returns the new ones. Only a change of classes or of settings
    /// visits all Ingresses.
    pub fn update(
        &mut self,
        objects: &Objects,
        inputs: &ChangedInputs,
        serves: impl Fn(&ObjectId) -> bool,
    ) -> Vec<ObjectKey> {
        let all = inputs.is_everything() || inputs.of_kind(Kind::INGRESS_CLASS).next().is_some();
        if all && default_class(objects).is_some() {
            self.keys.clear();
            return Vec::new();
        }
        let is_classless = |key: &ObjectKey| {
            objects.get::<Ingress>(key).is_some_and(|ingress| class_of_ingress(ingress).is_none())
                && !serves(&Kind::INGRESS.id(key.clone()))
        };
        if all {
            let now: BTreeSet<ObjectKey> =
                objects.of_kind(Kind::INGRESS).keys().filter(|key| is_classless(key)).cloned().collect();
            let new = now.difference(&self.keys).cloned().collect();
            self.keys = now;
            return new;
        }
        let mut new = Vec::new();
        for key in inputs.of_kind(Kind::INGRESS) {
            if !is_classless(key) || default_class(objects).is_some() {
                self.keys.remove(key);
            } else if self.keys.insert(key.clone()) {
                new.push(key.clone());
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use lockgate_route::objects::Object;
    use lockgate_route::translate::Input;

    use super::*;
    use crate::source::manifest::{Item, entries};

    const INGRESS: &str = "{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: NAME}, spec: {}}\n";
    const CLASS: &str = "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: NAME, \
        annotations: {ingressclass.kubernetes.io/is-default-class: 'true'}}, spec: {controller: example.com/other}}\n";

    fn object(text: &str, name: &str) -> Object {
        match entries(&text.replace("NAME", name)).next().map(|entry| entry.item) {
            Some(Item::Object(object)) => object,
            other => unreachable!("{other:?}"),
        }
    }

    fn names(keys: &[ObjectKey]) -> Vec<&str> {
        keys.iter().map(|key| &*key.name).collect()
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
        assert!(classless.keys.is_empty());
    }
}
