//! The check of manifests before they are applied: the problems that the translation would report, with file and line.
//!
//! [`source::manifest`](crate::source::manifest) reads the manifests and [`lockgate_route::translate`] translates them, as in
//! `lockgate serve --manifests`. [`schema`] adds the faults for which the API server would reject an object, as far as the translation
//! does not report them. This module adds files and lines, and judges references to objects outside of the manifests ([`Scope`]).
//! No I/O.

mod annotations;
mod assumed;
mod finding;
mod found;
mod invalid;
mod kinds;
mod manifests;
mod native;
mod nginx;
pub mod output;
mod overlay;
mod schema;
mod services;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

use lockgate_route::objects::{Kind, ObjectId, ObjectKey, Objects, Secret};
use lockgate_route::settings::Settings;
use lockgate_route::translate::problem::{Problem, Reason};
use lockgate_route::translate::{ChangedInputs, Translator};
use lockgate_xds::provenance::ObjectRef;

pub use finding::{Finding, Level, Rule};
pub use manifests::Manifests;

use assumed::Assumed;
use found::FindingCollector;

/// The objects that exist in addition to the manifests.
#[derive(Debug, Clone)]
pub enum Scope {
    /// Unknown objects: a reference to an object that is not in the manifests is a note.
    Part,
    /// No other objects: the manifests are complete.
    Complete,
    /// The objects of a Kubernetes cluster. The manifests replace those with the same names.
    Against {
        /// The objects of the cluster.
        cluster: Box<Objects>,
        /// The kinds without a list. A reference to an object of such a kind is a note.
        unlisted: BTreeSet<Kind>,
    },
}

impl Scope {
    /// Returns whether unknown objects of `kind` may exist.
    pub fn is_unknown(&self, kind: Kind) -> bool {
        match self {
            Self::Part => true,
            Self::Complete => false,
            Self::Against { unlisted, .. } => unlisted.contains(&kind),
        }
    }
}

/// Returns the objects of manifests that are complete, as `lockgate serve --manifests` reads them.
pub fn objects(manifests: &Manifests) -> Objects {
    overlay::objects(manifests, &Scope::Complete)
}

/// Checks `manifests`. `now` is the time in seconds since the Unix epoch, for the certificates.
pub fn check(manifests: &Manifests, settings: &Settings, scope: &Scope, now: i64) -> Vec<Finding> {
    let Translated { objects, settings, translator, assumed } = translated(manifests, settings, scope, |_| {});
    let before = overlay::problems_before(scope, &settings);
    let mut found = FindingCollector::new(manifests, &objects, &settings, &translator, scope);
    let problems = translator.problems().iter().filter(|problem| !before.contains(*problem));
    problems.for_each(|problem| found.problem(problem));
    expiring_certificates(manifests, &objects, &settings, now).iter().for_each(|problem| found.problem(problem));
    found.verdicts();
    found.annotations();
    found.foreign_policies();
    found.assumed(&assumed);
    found.unserved();
    if assumed.is_classless_served {
        found.classless();
    }
    found.invalid();
    found.into_findings()
}

/// Removes the findings about annotations that change nothing. Most files of other controllers have some, and nobody needs to act.
pub fn remove_harmless(findings: &mut Vec<Finding>) {
    findings.retain(|finding| finding.rule != Rule::HarmlessAnnotation);
}

/// The translation of the manifests and of assumed objects.
pub struct Translated {
    /// The objects.
    pub objects: Objects,
    /// The settings, with the classes that are assumed to be served.
    pub settings: Settings,
    /// The translation.
    pub translator: Translator,
    assumed: Assumed,
}

/// Translates `manifests` with the objects that `scope` assumes, and the objects of `add`.
pub fn translated(
    manifests: &Manifests,
    settings: &Settings,
    scope: &Scope,
    add: impl FnOnce(&mut Objects),
) -> Translated {
    let mut settings = settings.clone();
    let mut objects = overlay::objects(manifests, scope);
    add(&mut objects);
    let mut assumed = Assumed::add(&mut objects, &mut settings, scope, manifests.gateway_classes());
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    if scope.is_unknown(Kind::SERVICE) {
        services::assume(manifests, &settings, &mut objects, &mut translator, &mut assumed);
    }
    Translated { objects, settings, translator, assumed }
}

/// Adds the other objects of Gateways in a cluster: their GatewayClasses and Services.
pub fn assume_infrastructure(objects: &mut Objects, settings: &Settings) {
    Assumed::default().add_infrastructure(objects, settings);
}

/// Returns the findings about objects with their files and lines. Findings about objects of a cluster have none.
pub fn locate(manifests: &Manifests, findings: Vec<(ObjectId, Finding)>) -> Vec<Finding> {
    let (mut placed, mut others) = (Vec::new(), Vec::new());
    for (id, finding) in findings {
        match manifests.place(id.kind, &id.key) {
            Some(place) => placed.push((place.clone(), finding)),
            None => others.push(finding),
        }
    }
    manifests.locate(&mut placed);
    placed.into_iter().map(|(_, finding)| finding).chain(others).collect()
}

/// Returns the problems of certificates in the manifests that have expired or expire soon.
fn expiring_certificates(manifests: &Manifests, objects: &Objects, settings: &Settings, now: i64) -> Vec<Arc<Problem>> {
    let window = i64::try_from(settings.tls.expiry_warning.as_secs()).unwrap_or(i64::MAX);
    let expires = |secret: &&Secret| {
        secret.fault.is_none()
            && secret.pair.as_ref().is_some_and(|pair| pair.not_after.saturating_sub(now) <= window)
            && manifests.place(Kind::SECRET, &secret.meta.key).is_some()
    };
    let problem = |secret: &Secret| {
        let not_after = secret.pair.as_ref().map_or(now, |pair| pair.not_after);
        Arc::new(expiring(secret.meta.object_ref(Kind::SECRET), not_after, now))
    };
    objects.all::<Secret>().filter(expires).map(problem).collect()
}

/// Creates the problem of a certificate that expires at `not_after`, in seconds since the Unix epoch. The text does not change
/// before the expiry.
pub fn expiring(object: ObjectRef, not_after: i64, now: i64) -> Problem {
    let at = prost_types::Timestamp { seconds: not_after, nanos: 0 };
    let (message, consequence) = match not_after < now {
        true => (format!("the certificate expired at {at}"), "still served, but clients reject it"),
        false => (format!("the certificate expires at {at}"), "served until another takes its place"),
    };
    let (field, reason) = ("data[tls.crt]".to_owned(), Reason::CertificateExpiring);
    Problem { object, field, reason, message: message.into(), consequence: consequence.to_owned() }
}

/// Returns the identity of the object that a reference names, if its kind is known.
fn id_of(object: &ObjectRef) -> Option<ObjectId> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == object.kind)?;
    Some(kind.id(ObjectKey { namespace: object.namespace.clone(), name: object.name.clone() }))
}
