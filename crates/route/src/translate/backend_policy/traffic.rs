//! The parser of a single XBackendTrafficPolicy. Source: Gateway API v1.6.3, `BackendTrafficPolicySpec`; GEP-3388, GEP-1619.
//!
//! Envoy limits the number of concurrent retries. Its `budget_interval` counts all requests of the interval, and compares them
//! with concurrent retries: an endpoint that fails quickly receives a retry for every request. It is therefore not set. Source: Envoy
//! 1.40, tested.

use std::collections::BTreeMap;
use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use super::{ParsedBackendPolicy, features, services, targets};
use crate::duration;
use crate::model::{BackendFeatures, RetryBudget, Session};
use crate::objects::gateway::{BudgetDetails, Lenient, RequestRate, RetryConstraint, XBackendTrafficPolicy};
use crate::objects::{Kind, ObjectKey, Objects, Revision};
use crate::settings::Settings;
use crate::translate::fault::FieldFault;
use crate::translate::gateway::session;
use crate::translate::graph::Input;
use crate::translate::problem::{Problem, Reason, bounded};

/// The longest interval of the API.
const HOUR: Duration = Duration::from_secs(3600);

/// Parses a policy.
pub fn parse(policy: &XBackendTrafficPolicy, objects: &Objects, settings: &Settings) -> ParsedBackendPolicy {
    let XBackendTrafficPolicy { meta, spec, status: _, version: _ } = policy;
    let origin = meta.object_ref(Kind::X_BACKEND_TRAFFIC_POLICY);
    let services = services(meta, &spec.target_refs);
    let mut reporter = Reporter { origin: &origin, problems: Vec::new() };
    let mut notes = Vec::new();
    let retry_budget = reporter.valid("retryConstraint", spec.retry_constraint.as_ref()).and_then(|constraint| {
        let budget = reporter.retry_budget(constraint, settings.tenants.max_circuit_breaker)?;
        notes.push(format!(
            "spec.retryConstraint: each Envoy allows {} concurrent retries for every 100 active requests, but at least {}; the \
             intervals are not measured",
            budget.percent, budget.min_concurrency
        ));
        Some(budget)
    });
    let persistence = reporter.valid("sessionPersistence", spec.session_persistence.as_ref());
    let sessions = persistence.map(|persistence| {
        let mut faults = Vec::new();
        let session = |service| session::of_service(service, persistence, &mut faults);
        let sessions = services.iter().zip(services.iter().map(session));
        let sessions = sessions.filter_map(|(service, session)| Some((service.clone(), session?))).collect();
        // The faults are the same for each Service.
        faults.sort_unstable();
        faults.dedup();
        for (fault, consequence) in faults {
            let FieldFault { field, message } = fault.within("sessionPersistence");
            reporter.report(field, message, consequence.to_owned());
        }
        sessions
    });
    let sessions: BTreeMap<ObjectKey, Session> = sessions.unwrap_or_default();
    if !sessions.is_empty() {
        notes.push(
            "spec.sessionPersistence: for rules whose only backend is the Service and that have no session persistence of their own"
                .to_owned(),
        );
    }
    let problems = reporter.problems;
    ParsedBackendPolicy {
        revision: Revision::new(meta, spec),
        precedence: objects.precedence(Kind::X_BACKEND_TRAFFIC_POLICY, meta),
        targets: targets(meta, &spec.target_refs, objects),
        inputs: services.iter().map(|service| Input::new(Kind::SERVICE, service.clone())).collect(),
        services,
        features: BackendFeatures { retry_budget, origins: vec![origin.clone()], ..BackendFeatures::default() },
        sessions,
        note: notes.join("; ").into(),
        problems: bounded(problems),
        origin,
    }
}

/// Collects the problems of one policy.
struct Reporter<'p> {
    origin: &'p ObjectRef,
    problems: Vec<Problem>,
}

impl Reporter<'_> {
    /// Returns a feature, unless it cannot be decoded.
    fn valid<'s, T>(&mut self, field: &str, feature: Option<&'s Lenient<T>>) -> Option<&'s T> {
        match feature? {
            Lenient::Valid(feature) => Some(feature),
            Lenient::Invalid(fault) => {
                self.report(field.to_owned(), fault.clone(), "feature left out".to_owned());
                None
            }
        }
    }

    fn report(&mut self, field: String, message: String, consequence: String) {
        self.problems.push(Problem {
            object: self.origin.clone(),
            field: format!("spec.{field}"),
            reason: Reason::PolicyNotValid,
            message: message.into(),
            consequence,
        });
    }

    /// Returns the limit of concurrent retries, with a minimum of at most `most`.
    fn retry_budget(&mut self, constraint: &RetryConstraint, most: u32) -> Option<RetryBudget> {
        let RetryConstraint { budget, min_retry_rate } = constraint;
        let parsed = share(budget.as_ref()).and_then(|percent| Ok((percent, concurrency(min_retry_rate.as_ref())?)));
        match parsed {
            Ok((percent, min_concurrency)) => {
                if min_concurrency > most {
                    let message = format!(
                        "{min_concurrency} retries per second are more than {most}, the setting tenants.maxCircuitBreaker"
                    );
                    let field = "retryConstraint.minRetryRate".to_owned();
                    self.report(field, message, format!("{most} concurrent retries are always allowed"));
                }
                Some(RetryBudget { percent, min_concurrency: min_concurrency.min(most) })
            }
            Err(fault) => {
                let FieldFault { field, message } = fault.within("retryConstraint");
                self.report(field, message, "feature left out".to_owned());
                None
            }
        }
    }
}

/// Returns the percentage of the requests that may be retries.
fn share(budget: Option<&BudgetDetails>) -> Result<u32, FieldFault> {
    let default = BudgetDetails::default();
    let BudgetDetails { percent, interval } = budget.unwrap_or(&default);
    if let Some(text) = interval {
        time(".budget.interval", text, Duration::from_secs(1))?;
    }
    features::number(".budget.percent", *percent, 20, 0, 100)
}

/// Returns the number of concurrent retries that is always allowed: the retries of one second, rounded up.
fn concurrency(rate: Option<&RequestRate>) -> Result<u32, FieldFault> {
    let default = RequestRate::default();
    let RequestRate { count, interval } = rate.unwrap_or(&default);
    let count = features::number(".minRetryRate.count", *count, 10, 1, 1_000_000)?;
    let interval = match interval {
        Some(text) => time(".minRetryRate.interval", text, Duration::from_millis(1))?,
        None => Duration::from_secs(1),
    };
    let per_second = (u128::from(count) * 1_000_000_000).div_ceil(interval.as_nanos().max(1));
    Ok(u32::try_from(per_second).unwrap_or(u32::MAX))
}

/// Returns a time from `least` to one hour.
fn time(field: &str, text: &str, least: Duration) -> Result<Duration, FieldFault> {
    let time = duration::parse(text).filter(|time| (least..=HOUR).contains(time));
    let least = features::short(least);
    time.ok_or_else(|| FieldFault::new(field, format!("{text:?} is not a time from {least} to 1h")))
}
