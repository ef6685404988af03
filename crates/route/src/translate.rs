//! Translates objects to a model. The translation is a pure function: no I/O, no clock, no randomness, no logging. The
//! order of the objects has no effect.

mod address;
mod annotations;
mod backend;
mod backend_policies;
mod backend_policy;
mod charges;
mod class;
mod conflicts;
mod delegations;
pub mod dialect;
mod endpoints;
mod envoys;
mod external_name;
mod fault;
mod foreign;
pub mod gateway;
mod grants;
mod graph;
pub mod host;
mod host_grants;
mod http_proxy;
mod ingress;
mod limit;
pub(crate) mod listeners;
mod merge;
mod order;
mod path;
mod patterns;
mod plain_text;
mod policy_targets;
pub mod problem;
mod rules;
mod scope;
pub mod source;
mod statuses;
mod tls;
mod translator;
pub mod unit;
mod uri;
pub mod verdict;
mod virtual_host;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

pub use annotations::{is_used as reads_annotation, secret_namespace};
pub use class::{Classes, FIELD as CLASS_FIELD, annotated_class, default_class};
pub use dialect::{DIALECTS, Dialect, Resolver, Selection, dialect_of, is_classless, kinds_with_class};
pub use foreign::{Effect, effects};
pub use grants::permits_secret;
pub use graph::{ChangedInputs, Input};
pub use http_proxy::ORPHANED;
pub use problem::{Problem, Reason};
pub use translator::claims::{Unsettled, UnsettledHosts};
pub use translator::{Dedicated, Translator, Update, explained};
pub use verdict::Verdict;

use crate::model::{Model, TrafficPolicy, UpstreamProtocol};
use crate::objects::{ObjectId, ObjectKey, Objects};
use crate::settings::Settings;

/// The result of a translation: the model, and the problems of the objects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Translation {
    /// The model.
    pub model: Model,
    /// The problems, sorted and without repetition.
    pub problems: Vec<Problem>,
    /// The sources that are served by class.
    pub sources: BTreeSet<ObjectId>,
}

/// Returns the traffic policy of a port of a Service by its annotations and the settings, without BackendPolicies. `default` is the
/// protocol if the Service names none. Returns `None` if the port does not exist.
pub fn traffic_policy(
    (objects, settings): (&Objects, &Settings),
    service: &ObjectKey,
    number: u16,
    default: Option<UpstreamProtocol>,
) -> Option<TrafficPolicy> {
    let backend_policies = &backend_policies::BackendPolicies::default();
    let context = backend::Context { objects, settings, backend_policies, client_certificate: None };
    let port = source::WantedPort::Number(number.into());
    let over = default.and_then(|protocol| backend::policy_over(context, service, port, protocol));
    over.or_else(|| backend::policy_of_port(context, service, port, None))
}

/// Translates `objects`. Faulty objects are tolerated: a fault affects only the part that contains it.
pub fn translate(objects: &Objects, settings: &Settings) -> Translation {
    let mut translator = Translator::default();
    translator.update(objects, settings, &ChangedInputs::everything());
    let (model, problems, sources) = translator.into_parts();
    Translation { model, problems: problems.into_iter().map(|problem| (*problem).clone()).collect(), sources }
}
