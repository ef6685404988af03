//! The objects to translate: the manifests, on top of the objects of a Kubernetes cluster if there is one.

use lockgate_route::objects::{Meta, Object, Objects};
use lockgate_route::settings::Settings;
use lockgate_route::translate::problem::Problems;
use lockgate_route::translate::{ChangedInputs, Translator};

use super::{Manifests, Scope};

/// Returns the objects to translate.
pub fn objects(manifests: &Manifests, scope: &Scope) -> Objects {
    let mut objects = match scope {
        Scope::Against { cluster, .. } => Objects::clone(cluster),
        Scope::Part | Scope::Complete => Objects::default(),
    };
    objects.from_operator = matches!(scope, Scope::Complete);
    for object in manifests.objects() {
        let before = objects.meta(object.kind(), &object.meta().key).cloned();
        objects.apply(match before {
            Some(before) => applied(object.clone(), &before),
            None => object.clone(),
        });
    }
    objects
}

/// Returns the problems that the objects of the cluster have without the manifests.
pub fn problems_before(scope: &Scope, settings: &Settings) -> Problems {
    let Scope::Against { cluster, .. } = scope else { return Problems::default() };
    let mut translator = Translator::default();
    translator.update(cluster, settings, &ChangedInputs::everything());
    translator.problems().clone()
}

/// Returns `object` as the API server would store it over an existing one: with its age, which decides conflicts.
fn applied(object: Object, before: &Meta) -> Object {
    object.with_meta(|meta| {
        meta.uid = before.uid.clone();
        meta.created = before.created;
        meta.generation = before.generation;
        meta.terminating = before.terminating;
    })
}
