//! The verdicts that a dialect declares are kept while their object is served by class.

use lockgate_xds::provenance::ObjectRef;

use crate::objects::{Kind, Objects};
use crate::settings::Settings;
use crate::testing::objects::*;
use crate::translate::verdict::Status;
use crate::translate::{ChangedInputs, Dialect, Input, Translator, Verdict, ingress as ingresses};

/// A dialect of Ingresses with the verdict that each Ingress is accepted, twice.
static DIALECTS: [Dialect; 1] = [Dialect {
    parse: |object, reading| {
        let mut parsed = (ingresses::DIALECT.parse)(object, reading)?;
        parsed.verdicts = [accepted(object.object_ref()), accepted(object.object_ref())].into();
        Some(parsed)
    },
    ..ingresses::DIALECT
}];

fn accepted(object: ObjectRef) -> Verdict {
    Verdict {
        object,
        parent: None,
        listener: None,
        condition: "Accepted",
        status: Status::True,
        reason: "Accepted",
        message: String::new(),
    }
}

#[test]
fn the_translator_keeps_the_verdicts_on_the_objects_that_are_ours() {
    let cart = || ingress("cart").host("x.com").path("Prefix", "/", "a:80");
    let mut objects = Objects::default();
    objects.apply(class("ours").into());
    objects.apply(cart().into());
    let mut translator = Translator::new(&DIALECTS);
    translator.update(&objects, &Settings::default(), &ChangedInputs::everything());
    let id = Kind::INGRESS.id(meta("cart").key);
    assert_eq!(translator.verdicts().len(), 1);
    assert_eq!(translator.verdicts()[&id].len(), 1, "one verdict for each condition");
    assert!(translator.revision(&id).is_some());
    // An Ingress of another class is not served.
    objects.apply(cart().class(Some("theirs")).into());
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::INGRESS, id.key.clone()));
    translator.update(&objects, &Settings::default(), &changed);
    assert!(translator.verdicts().is_empty() && translator.revision(&id).is_none());
}
