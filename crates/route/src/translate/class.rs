//! Which Ingresses are ours: IngressClass objects, the default class, legacy annotations, and classes by setting.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::objects::{Ingress, IngressClass, Kind, Meta, Objects};
use crate::settings::Settings;

use super::problem::{Problem, Reason};

/// Marks the class of objects that name none.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// Annotations that name the class; the first that is not empty beats the others and `spec.ingressClassName`.
const CLASS_ANNOTATIONS: [&str; 2] = ["projectcontour.io/ingress.class", "kubernetes.io/ingress.class"];

/// The classes that are ours.
#[derive(Debug, Default, PartialEq)]
pub struct Classes {
    names: BTreeSet<Arc<str>>,
    classless: bool,
}

impl Classes {
    /// Our classes: those of our controller, and those that the settings name.
    pub fn new(objects: &Objects, settings: &Settings) -> Self {
        let ours = || objects.all::<IngressClass>().filter(|class| is_ours(class, settings));
        let names = ours().map(|class| class.meta.key.name.clone());
        let listed = settings.ingress.class_names.iter().map(|name| name.as_str().into());
        Self { classless: settings.ingress.classless || ours().any(is_default), names: names.chain(listed).collect() }
    }

    /// Whether the Ingress is ours. One of another class, or of a class that does not exist, is somebody else's
    /// business: no problem, and its status is never touched.
    pub fn serve(&self, ingress: &Ingress) -> bool {
        match class_of(&ingress.meta, ingress.spec.ingress_class_name.as_deref()) {
            Some(class) => self.names.contains(class),
            None => self.classless,
        }
    }
}

/// The class that an object names, by annotation or by `field`.
fn class_of<'a>(meta: &'a Meta, field: Option<&'a str>) -> Option<&'a str> {
    let by_annotation = CLASS_ANNOTATIONS.iter().filter_map(|key| meta.annotations.get(*key)).map(String::as_str);
    by_annotation.chain(field).find(|class| !class.is_empty())
}

/// One problem for each IngressClass of ours that is marked as the default besides an older one.
pub fn problems(objects: &Objects, settings: &Settings) -> Vec<Problem> {
    let mut defaults: Vec<_> = objects.all::<IngressClass>().filter(|class| is_default(class)).collect();
    defaults.sort_by_cached_key(|class| objects.precedence(Kind::INGRESS_CLASS, &class.meta));
    let Some((oldest, newer)) = defaults.split_first() else { return Vec::new() };
    let newer = newer.iter().filter(|class| is_ours(class, settings));
    newer
        .map(|class| Problem {
            object: class.meta.object_ref(Kind::INGRESS_CLASS),
            field: format!("metadata.annotations[{DEFAULT_CLASS:?}]"),
            reason: Reason::MultipleDefaultClasses,
            message: format!(
                "IngressClass {:?} is marked as the default too, and takes precedence",
                &*oldest.meta.key.name
            ),
            consequence: "an Ingress without a class is served by every controller whose class is a default".to_owned(),
        })
        .collect()
}

fn is_ours(class: &IngressClass, settings: &Settings) -> bool {
    *class.controller == *settings.ingress.controller
}

fn is_default(class: &IngressClass) -> bool {
    class.meta.annotations.get(DEFAULT_CLASS).is_some_and(|value| value == "true")
}
