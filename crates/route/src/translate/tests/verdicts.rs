//! The verdicts that a dialect declares are kept while their object is served by class.

use lockgate_xds::provenance::ObjectRef;

use crate::objects::{Kind, Object, Objects};
use crate::settings::Settings;
use crate::testing::objects::*;
use crate::translate::verdict::Status;
use crate::translate::{ChangedInputs, Dialect, Input, Translator, Verdict, ingress as ingresses};

/// A dialect of Ingresses with the verdict that each Ingress is accepted, twice, and conflicts against it.
pub(super) static DIALECTS: [Dialect; 1] = [Dialect {
    parse: |object, resolver| {
        let mut parsed = (ingresses::DIALECT.parse)(object, resolver)?;
        parsed.verdicts = [accepted(object.object_ref()), accepted(object.object_ref())].into();
        Ok(parsed)
    },
    conflicts: Some(|_, found| found.iter().map(|conflict| conflict.problem.verdict("Accepted")).collect()),
    ..ingresses::DIALECT
}];

fn accepted(object: ObjectRef) -> Verdict {
    Verdict {
        object,
        parent: None,
        listener: None,
        detail: None,
        condition: "Accepted",
        status: Status::True,
        reason: "Accepted",
        message: String::new().into(),
    }
}

#[test]
fn the_translator_stores_the_verdicts_on_served_objects() {
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

/// Returns the condition `Accepted` of an Ingress: `True`, or the reason of a conflict.
fn accepted_of(translator: &Translator, name: &str) -> String {
    let [verdict] = &*translator.verdicts()[&Kind::INGRESS.id(meta(name).key)] else { panic!("one verdict") };
    match verdict.status {
        Status::True => "True".to_owned(),
        _ => format!("{}: {}", verdict.reason, verdict.message),
    }
}

#[test]
fn a_conflict_with_another_object_is_a_verdict_while_it_exists() {
    let of = |name: &str, age| ingress(name).created(age).host("x.com").path("Prefix", "/", "a:80");
    let mut objects = objects(&[class("ours").into(), of("old", 1).into(), of("new", 2).into()]);
    let mut translator = Translator::new(&DIALECTS);
    translator.update(&objects, &Settings::default(), &ChangedInputs::everything());
    let lost = |translator: &Translator| accepted_of(translator, "new");
    assert_eq!(accepted_of(&translator, "old"), "True");
    assert!(lost(&translator).starts_with("Conflicted: spec.rules[0].http.paths[0]"), "{}", lost(&translator));
    let mut update = |translator: &mut Translator, object: Object, is_there: bool| {
        let (kind, key) = (object.kind(), object.meta().key.clone());
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(kind, key.clone()));
        match is_there {
            true => drop(objects.apply(object)),
            false => drop(objects.delete(kind, &key)),
        }
        translator.update(&objects, &Settings::default(), &changed);
        let mut anew = Translator::new(&DIALECTS);
        anew.update(&objects, &Settings::default(), &ChangedInputs::everything());
        assert_eq!(translator.verdicts(), anew.verdicts());
    };
    // An additional path does not change the conflict.
    update(&mut translator, of("new", 2).path("Prefix", "/b", "a:80").into(), true);
    assert!(lost(&translator).starts_with("Conflicted"), "{}", lost(&translator));
    update(&mut translator, of("old", 1).into(), false);
    assert_eq!(lost(&translator), "True");
    // The default backend of hosts that no rule names does not change the conflict either.
    update(&mut translator, ingress("first").created(0).default_backend("a:80").into(), true);
    update(&mut translator, ingress("second").created(3).default_backend("a:80").into(), true);
    let second = accepted_of(&translator, "second");
    assert!(second.starts_with("Conflicted: spec.defaultBackend"), "{second}");
    update(&mut translator, ingress("first").created(0).default_backend("a:80").into(), false);
    assert_eq!(accepted_of(&translator, "second"), "True");
}
