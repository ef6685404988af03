//! The translation of the written objects, for the problems that the controller will report.

use std::collections::{BTreeMap, BTreeSet};

use lockgate_route::objects::{Kind, Meta, Namespace, Object, ObjectId, ObjectKey, Objects};
use lockgate_route::settings::Settings;
use lockgate_route::translate::{ChangedInputs, Translator};
use serde_json::Value;

use super::losses::{FindingText, Losses};
use crate::check::{Rule, Translated, assume_infrastructure};
use crate::source::manifest::{ManifestItem, entries};

/// The label of a Namespace with its name, which the API server sets.
const NAME: &str = "kubernetes.io/metadata.name";

/// Adds the problems of `written` to the findings.
pub fn report(written: &[Value], source: &Translated, losses: &mut Losses) {
    let (objects, rejected) = with(written, &source.objects, &source.settings);
    let mut translator = Translator::default();
    translator.update(&objects, &source.settings, &ChangedInputs::everything());
    let is_error = Rule::NotMigrated;
    for (id, message) in rejected {
        let text = FindingText { message, consequence: "the API server rejects the object", remedy: is_error.remedy() };
        losses.add(id.kind, &id.key, String::new(), (is_error, is_error.level()), text);
    }
    let ours: BTreeSet<(String, String, String)> = written.iter().map(identity).collect();
    for problem in translator.problems() {
        let object = &problem.object;
        let identity = (object.kind.to_string(), object.namespace.to_string(), object.name.to_string());
        let Some(kind) = Kind::ALL.into_iter().find(|kind| *kind.as_str() == *object.kind) else { continue };
        if !ours.contains(&identity) {
            continue;
        }
        let key = ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() };
        let text = FindingText {
            message: problem.message.to_string(),
            consequence: &problem.consequence,
            remedy: problem.reason.remedy(),
        };
        losses.add(kind, &key, problem.field.clone(), (is_error, is_error.level()), text);
    }
    for (kind, namespace, name) in ours.iter().filter(|(kind, ..)| kind == Kind::GATEWAY.as_str()) {
        let key = ObjectKey::new(namespace, name);
        if !translator.serves(&Kind::GATEWAY.id(key.clone())) {
            let text = FindingText {
                message: format!("the GatewayClass of this {kind} belongs to another controller"),
                consequence: "Lockgate does not serve it",
                remedy: "Name a GatewayClass of Lockgate with --gateway-class.",
            };
            let field = "spec.gatewayClassName".to_owned();
            losses.add(Kind::GATEWAY, &key, field, (is_error, is_error.level()), text);
        }
    }
}

/// Returns `objects` with the written objects, and with the other objects of a cluster: Namespaces, the GatewayClass, and the
/// Services of Gateways. Also returns the written objects that the API server would reject.
pub fn with(written: &[Value], objects: &Objects, settings: &Settings) -> (Objects, Vec<(ObjectId, String)>) {
    let (mut objects, mut rejected) = (objects.clone(), Vec::new());
    for value in written {
        for entry in entries(&value.to_string()) {
            match entry.item {
                ManifestItem::Object(object) => {
                    objects.apply(object);
                }
                ManifestItem::Rejected(fault, Some((kind, key))) => rejected.push((kind.id(key), fault.message)),
                _ => {}
            }
        }
        if let Some(namespace) = value.pointer("/metadata/namespace").and_then(Value::as_str) {
            let key = ObjectKey::new("", namespace);
            let labels = BTreeMap::from([(NAME.into(), namespace.into())]);
            if objects.get::<Namespace>(&key).is_none() {
                objects.apply(Object::new(Namespace { meta: meta(key), labels }));
            }
        }
    }
    assume_infrastructure(&mut objects, settings);
    (objects, rejected)
}

fn identity(object: &Value) -> (String, String, String) {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/kind"), text("/metadata/namespace"), text("/metadata/name"))
}

fn meta(key: ObjectKey) -> Meta {
    Meta {
        key,
        uid: "".into(),
        generation: 0,
        created: 0,
        terminating: false,
        annotations: BTreeMap::new(),
        labels: BTreeMap::new(),
    }
}
