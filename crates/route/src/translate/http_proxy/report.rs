//! The problems and the verdicts of a root and of the objects that it includes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::situation::Situation;
use crate::objects::http_proxy::Rest;
use crate::translate::problem::{Message, Problem, bounded};
use crate::translate::verdict::{Severity, Status, Verdict};

/// The type of the condition.
pub const VALID: &str = "Valid";

/// The maximum number of errors and warnings of one object.
const MOST: usize = 64;

/// The problems and the verdicts of HTTPProxies and ExtensionServices, in the order in which they are found.
#[derive(Debug, Default)]
pub struct ProxyReport {
    problems: BTreeSet<Problem>,
    verdicts: Vec<Verdict>,
    counts: BTreeMap<ObjectRef, usize>,
}

/// A fault of a part of an HTTPProxy or an ExtensionService, for a caller that knows the object and the consequence.
#[derive(Debug)]
pub struct ProxyFault {
    /// The error or the warning in the status.
    pub situation: Situation,
    /// The path of the field below the part, such as `.uri`. Empty: the part itself.
    pub field: String,
    /// The fault, with values in quotes: lower case, no full stop.
    pub message: Message,
}

impl ProxyFault {
    /// Returns the fault of a field.
    pub fn new(situation: Situation, field: impl Into<String>, message: impl Into<Message>) -> Self {
        Self { situation, field: field.into(), message: message.into() }
    }
}

impl ProxyReport {
    /// Declares that an object is valid, apart from its errors.
    pub fn declare_valid(&mut self, object: &ObjectRef) {
        let valid = Verdict::new(object.clone(), VALID, Status::True, "Valid");
        self.verdicts.push(Verdict { message: format!("Valid {}", object.kind).into(), ..valid });
    }

    /// Adds an error or a warning of an object.
    pub fn add(
        &mut self,
        object: &ObjectRef,
        field: impl Into<String>,
        situation: &Situation,
        message: impl Into<Message>,
        consequence: &str,
    ) {
        let (object, field, message) = (object.clone(), field.into(), message.into());
        let (reason, consequence) = (situation.problem, consequence.to_owned());
        self.add_problem(Problem { object, field, reason, message, consequence }, situation);
    }

    /// Adds the fault of the part of an object at `field`.
    pub fn add_fault(&mut self, object: &ObjectRef, field: &str, fault: ProxyFault, consequence: &str) {
        let ProxyFault { situation, field: below, message } = fault;
        self.add(object, format!("{field}{below}"), &situation, message, consequence);
    }

    /// Adds a problem.
    pub fn add_problem(&mut self, problem: Problem, situation: &Situation) {
        if self.problems.contains(&problem) {
            return;
        }
        let count = self.counts.entry(problem.object.clone()).or_default();
        *count += 1;
        let verdicts = verdicts(&problem, situation);
        self.verdicts.extend(verdicts.into_iter().filter(|verdict| *count <= MOST || verdict.detail.is_none()));
        self.problems.insert(problem);
    }

    /// Reports the fields of a block that are not served. Returns whether one of them is not `harmless`, so that it may restrict access.
    pub fn add_rest(
        &mut self,
        object: &ObjectRef,
        field: &str,
        (rest, harmless): (&Rest, &[&str]),
        block: super::situation::Block,
        closed: &str,
    ) -> bool {
        let mut closes = false;
        for name in rest.names() {
            let (field, message) = (format!("{field}.{name}"), format!("field {name:?} is not supported"));
            match harmless.contains(&name) {
                true => self.add(object, field, &block.ignored(), message, "left out"),
                false => {
                    closes = true;
                    self.add(object, field, &block.unsupported(), message, closed);
                }
            }
        }
        closes
    }

    /// Returns the problems and the verdicts.
    pub fn into_parts(self) -> (Box<[Arc<Problem>]>, Box<[Verdict]>) {
        let mut verdicts = self.verdicts;
        verdicts.sort();
        verdicts.dedup();
        (bounded(self.problems.into_iter().collect()), verdicts.into())
    }
}

/// Returns the verdicts of a problem: the entry of the condition, and the condition itself if the problem is an error.
pub fn verdicts(problem: &Problem, situation: &Situation) -> Vec<Verdict> {
    let entry = Verdict {
        detail: Some(situation.detail),
        status: Status::True,
        reason: situation.reason,
        ..problem.verdict(VALID)
    };
    let is_error = situation.detail.severity == Severity::Error;
    let invalid = is_error.then(|| Verdict {
        message: "At least one error present, see Errors for details".into(),
        ..Verdict::new(problem.object.clone(), VALID, Status::False, "ErrorPresent")
    });
    invalid.into_iter().chain([entry]).collect()
}
