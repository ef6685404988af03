//! Selects the served Ingresses by class: IngressClass objects, the default class, legacy annotations, and the classes
//! in the settings.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::objects::http_proxy::HttpProxy;
use crate::objects::{Ingress, IngressClass, Kind, Meta, Objects};
use crate::settings::Settings;

use super::problem::{Problem, Reason};

/// The field of the class in objects that name one.
pub const FIELD: &str = "spec.ingressClassName";

/// The annotation of the class that applies to objects without a class.
const DEFAULT_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

/// Annotations that name the class. The first annotation that is not empty takes precedence over the others and
/// `spec.ingressClassName`.
const CLASS_ANNOTATIONS: [&str; 2] = ["projectcontour.io/ingress.class", "kubernetes.io/ingress.class"];

/// The served classes.
#[derive(Debug, Default, PartialEq)]
pub struct Classes {
    names: BTreeSet<Arc<str>>,
    classless: bool,
}

impl Classes {
    /// Returns the served classes: the classes of Lockgate's controller, and the classes in the settings.
    pub fn new(objects: &Objects, settings: &Settings) -> Self {
        let ours = || objects.all::<IngressClass>().filter(|class| is_ours(class, settings));
        let names = ours().map(|class| class.meta.key.name.clone());
        let listed = settings.ingress.class_names.iter().map(|name| name.as_str().into());
        Self { classless: settings.ingress.classless || ours().any(is_default), names: names.chain(listed).collect() }
    }

    /// Returns whether an object that names this class is served. An object of another or an unknown class belongs to another
    /// controller. It has no problem, and its status is never changed. An object without a class is served if a class of Lockgate is the
    /// default, or the settings say so.
    pub fn serve(&self, class: Option<&str>) -> bool {
        class.map_or(self.classless, |class| self.names.contains(class))
    }
}

/// Returns the class that an Ingress names, if any.
pub fn class_of_ingress(ingress: &Ingress) -> Option<&str> {
    class_of(&ingress.meta, ingress.spec.ingress_class_name.as_deref())
}

/// Returns the class that an HTTPProxy names, if any.
pub fn class_of_http_proxy(proxy: &HttpProxy) -> Option<&str> {
    class_of(&proxy.meta, proxy.spec.ingress_class_name.as_deref())
}

/// Returns the class of an object, according to an annotation or `field`.
fn class_of<'a>(meta: &'a Meta, field: Option<&'a str>) -> Option<&'a str> {
    annotated_class(meta).or(field.filter(|class| !class.is_empty()))
}

/// Returns the class that an annotation of an object names. It takes precedence over the field.
pub fn annotated_class(meta: &Meta) -> Option<&str> {
    let classes = CLASS_ANNOTATIONS.iter().filter_map(|key| meta.annotations.get(*key)).map(String::as_str);
    classes.into_iter().find(|class| !class.is_empty())
}

/// Returns an IngressClass of any controller that is marked as the default. The API server sets it on new Ingresses without a class.
pub fn default_class(objects: &Objects) -> Option<&IngressClass> {
    objects.all::<IngressClass>().find(|class| is_default(class))
}

/// Reports each served IngressClass that is marked as the default in addition to an older IngressClass.
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
                "IngressClass {:?} is also marked as the default, and takes precedence",
                &*oldest.meta.key.name
            )
            .into(),
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
