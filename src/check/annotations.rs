//! The annotations of other ingress controllers on one object, and the differences with Lockgate.
//!
//! The translation decides the effect of each annotation ([`effects`]). The hints for ingress-nginx are in [`nginx`].

use lockgate_route::objects::{Kind, Meta};
use lockgate_route::settings::{RestrictingAnnotations, Settings};
use lockgate_route::translate::problem::Reason;
use lockgate_route::translate::{Effect, effects, reads_annotation};

use super::finding::{Level, Rule};
use super::nginx;

/// The field of problems that list several annotations.
pub const FIELD: &str = "metadata.annotations";

/// The prefixes of annotations of other controllers that Lockgate reads.
const READ: [(&str, &str); 4] = [
    ("projectcontour.io/", "Contour"),
    ("ingress.kubernetes.io/", "other controllers"),
    ("nginx.ingress.kubernetes.io/", "ingress-nginx"),
    ("kubernetes.io/ingress.allow-http", "other controllers"),
];

/// The difference for one annotation.
#[derive(Debug, PartialEq, Eq)]
pub struct AnnotationFinding<'a> {
    /// The name.
    pub name: &'a str,
    /// The rule.
    pub rule: Rule,
    /// The severity.
    pub level: Level,
    /// The fact.
    pub message: String,
    /// The consequence.
    pub consequence: String,
    /// The remedy, if the rule alone does not state it.
    pub remedy: Option<String>,
}

/// Returns the annotations of other controllers on an object, in order.
pub fn of<'a>(meta: &'a Meta, kind: Kind, settings: &'a Settings) -> Vec<AnnotationFinding<'a>> {
    let foreign = effects(meta, kind, settings);
    // On a Service, other programs read annotations too.
    let foreign = foreign.filter(|(_, effect)| kind == Kind::INGRESS || *effect == Effect::Denied);
    let foreign = foreign.map(|(name, effect)| {
        let value = meta.annotations.get(name).map_or("", |value| value.trim());
        annotation(name, value, effect, kind, settings)
    });
    let read = meta.annotations.keys().filter_map(|name| {
        let (_, controller) = READ.iter().find(|(prefix, _)| name.starts_with(prefix))?;
        let is_ignored = settings.ingress.ignored_annotations.contains(name);
        (reads_annotation(name, kind) && !is_ignored).then(|| AnnotationFinding {
            name,
            rule: Rule::SupportedAnnotation,
            level: Rule::SupportedAnnotation.level(),
            message: format!("the annotation of {controller} is supported"),
            consequence: "it has the same effect".to_owned(),
            remedy: None,
        })
    });
    foreign.chain(read).collect()
}

fn annotation<'a>(
    name: &'a str,
    value: &str,
    effect: Effect,
    kind: Kind,
    settings: &Settings,
) -> AnnotationFinding<'a> {
    let hint = nginx::hint(name);
    let remedy = hint.map(|hint| hint.remedy.to_owned());
    let harmless = |consequence: &str| {
        let rule = Rule::HarmlessAnnotation;
        let message = "the annotation is not read".to_owned();
        AnnotationFinding {
            name,
            rule,
            level: rule.level(),
            message,
            consequence: consequence.to_owned(),
            remedy: None,
        }
    };
    match (effect, settings.ingress.restricting_annotations) {
        (Effect::Harmless, _) => harmless("with this value, it changes nothing"),
        (Effect::LeftOut, _) => match hint {
            Some(hint) if (hint.is_same)(value, settings) => harmless(hint.consequence_if_same()),
            _ => {
                let rule = Rule::Reason(Reason::UnsupportedAnnotation);
                let consequence = hint.map_or("left out", |hint| hint.consequence).to_owned();
                let message = "the annotation is not supported".to_owned();
                AnnotationFinding { name, rule, level: rule.level(), message, consequence, remedy }
            }
        },
        (Effect::Denied, policy) => {
            let rule = Rule::Reason(Reason::AccessNotRestricted);
            let (level, consequence) = match policy {
                RestrictingAnnotations::Deny if kind == Kind::SERVICE => {
                    (Level::Error, "all paths to the Service are answered 403")
                }
                RestrictingAnnotations::Deny => (Level::Error, "all paths are answered 403"),
                RestrictingAnnotations::Ignore => (Level::Warning, "served without the restriction"),
            };
            let message = "the annotation restricts access and is not enforced".to_owned();
            AnnotationFinding { name, rule, level, message, consequence: consequence.to_owned(), remedy }
        }
    }
}
