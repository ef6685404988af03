//! Objects that cannot be decoded completely: each has one problem.

use std::sync::Arc;

use super::state::Translator;
use crate::objects::{Kind, Misencoded, ObjectKey, Objects};
use crate::translate::ChangedInputs;
use crate::translate::problem::{Problem, Reason};

impl Translator {
    /// Updates the problems of undecodable objects.
    pub(super) fn update_encodings(&mut self, objects: &Objects, changed: &ChangedInputs) {
        if changed.is_everything() {
            let all = objects.all_misencoded();
            all.for_each(|object| self.update_encoding(object.kind, &object.meta.key, objects));
        }
        changed.encodings().for_each(|object| self.update_encoding(object.kind, &object.key, objects));
    }

    fn update_encoding(&mut self, kind: Kind, key: &ObjectKey, objects: &Objects) {
        let now = objects.misencoded(kind, key).map(|object| Arc::new(problem(object)));
        let object = kind.id(key.clone());
        let before = match now.clone() {
            Some(now) => self.encoding_problems.insert(object, now),
            None => self.encoding_problems.remove(&object),
        };
        self.ledger.replace(before.as_slice(), now.as_slice());
    }
}

fn problem(object: &Misencoded) -> Problem {
    let consequence = match object.readable {
        Some(_) => "each invalid byte is read as U+FFFD, as the API server writes it in JSON",
        None => "this version is not used; the last version that could be decoded stays in use, if there is one",
    };
    Problem {
        object: object.meta.object_ref(object.kind),
        field: object.field.clone(),
        reason: Reason::InvalidEncoding,
        message: object.message.clone().into(),
        consequence: consequence.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::objects::{Meta, Object};
    use crate::settings::Settings;

    fn broken(message: &str) -> Object {
        let key = ObjectKey::new("shop", "cart");
        let annotations = BTreeMap::new();
        let meta = Meta {
            key,
            uid: "".into(),
            generation: 2,
            created: 0,
            terminating: false,
            annotations,
            labels: BTreeMap::new(),
        };
        let (kind, field) = (Kind::SECRET, "type".to_owned());
        Object::new(Misencoded { kind, meta, field, message: message.to_owned(), readable: None })
    }

    #[test]
    fn a_problem_appears_changes_and_disappears_with_its_object() {
        let (mut objects, mut translator) = (Objects::default(), Translator::default());
        translator.update(&objects, &Settings::default(), &ChangedInputs::everything());
        let key = ObjectKey::new("shop", "cart");
        let mut changed = ChangedInputs::default();
        changed.insert_encoding(Kind::SECRET.id(key.clone()));
        let mut messages = Vec::new();
        for object in [Some(broken("one")), Some(broken("two")), None] {
            match object {
                Some(object) => objects.apply(object),
                None => objects.delete(Kind::SECRET, &key),
            };
            translator.update(&objects, &Settings::default(), &changed);
            messages.push(translator.problems().iter().map(ToString::to_string).collect::<Vec<_>>());
            let anew = crate::translate::translate(&objects, &Settings::default());
            assert_eq!(anew.problems.len(), translator.problems().len());
        }
        let consequence =
            "this version is not used; the last version that could be decoded stays in use, if there is one";
        let told = |message: &str| vec![format!("Secret shop/cart: type: {message}; {consequence}")];
        assert_eq!(messages, [told("one"), told("two"), Vec::new()]);
    }
}
