//! Verdicts: the conditions that the translation finds for a source object, positive and negative, as data.
//!
//! A dialect declares the verdicts on its object: for each parent and listener, the type of a condition and its status. The
//! status writers turn them into `status.conditions`. `Programmed` is not declared here: it depends on the Envoys.

use std::borrow::Cow;
use std::sync::Arc;

use imbl::OrdMap;
use lockgate_xds::provenance::ObjectRef;
use serde::Serialize;

use super::problem::{Message, Problem, shorten};
use crate::objects::ObjectId;

/// The maximum number of stored verdicts on one object. Gateway API needs at most 64 listeners with four conditions
/// each.
pub const MOST: usize = 512;

/// A condition of the status of one object.
///
/// The order of the fields is the order of verdicts. A negative verdict precedes a positive one on the same condition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Verdict {
    /// The object.
    pub object: ObjectRef,
    /// The index in `spec.parentRefs` of the parent reference to which the verdict applies. `None`: the verdict applies
    /// to the object itself.
    pub parent: Option<u16>,
    /// The listener of a Gateway or a ListenerSet. `None`: the verdict applies to the whole object.
    pub listener: Option<Arc<str>>,
    /// The type of the condition, CamelCase: `Accepted`.
    pub condition: &'static str,
    /// The entry of the condition that the verdict is. `None`: the verdict is the condition itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<Detail>,
    /// The status of the condition.
    pub status: Status,
    /// The stable reason, CamelCase: `NotAllowedByListeners`.
    pub reason: &'static str,
    /// Details for people: lower case, no full stop.
    pub message: Message,
}

/// The reason and the message of a condition that reports a fault, for a caller that knows the object and the type of the condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConditionFault {
    /// The stable reason, CamelCase: `TargetNotFound`.
    pub reason: &'static str,
    /// Details for people: lower case, no full stop.
    pub message: Message,
}

impl ConditionFault {
    /// Returns the fault with this reason.
    pub fn new(reason: &'static str, message: impl Into<Message>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// An entry of a condition that lists errors and warnings, such as `Valid` of an HTTPProxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Detail {
    /// The list.
    pub severity: Severity,
    /// The type of the entry, CamelCase: `RouteError`.
    pub r#type: &'static str,
}

/// The severity of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Severity {
    /// A part of the object is not served as written.
    Error,
    /// All of the object is served, or an optional part is left out.
    Warning,
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum Status {
    /// The condition does not hold.
    False,
    /// The status is not known yet.
    Unknown,
    /// The condition holds.
    True,
}

impl Status {
    /// Returns the status as the API writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::False => "False",
            Status::Unknown => "Unknown",
            Status::True => "True",
        }
    }
}

/// An entry of a condition: its type, its reason, and its message.
type Entry<'a> = (Detail, &'static str, &'a Message);

/// The verdicts on all source objects, by object. A clone shares everything.
pub type Verdicts = OrdMap<ObjectId, Arc<[Verdict]>>;

impl Verdict {
    /// Returns a verdict on a condition of the object itself, without details.
    pub fn new(object: ObjectRef, condition: &'static str, status: Status, reason: &'static str) -> Self {
        let (parent, listener, detail, message) = (None, None, None, Message::default());
        Self { object, parent, listener, condition, detail, status, reason, message }
    }

    /// Returns the part of the status that the verdict determines: one condition of one parent and listener, or one entry of it.
    fn place(&self) -> (&ObjectRef, Option<u16>, &Option<Arc<str>>, &str, Option<Entry<'_>>) {
        let entry = self.detail.map(|detail| (detail, self.reason, &self.message));
        (&self.object, self.parent, &self.listener, self.condition, entry)
    }
}

impl Problem {
    /// Returns the negative verdict of the problem. The dialect of the object determines the condition.
    pub fn verdict(&self, condition: &'static str) -> Verdict {
        let Self { object, field, reason, message, consequence } = self;
        let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
        Verdict {
            object: object.clone(),
            parent: None,
            listener: None,
            condition,
            detail: None,
            status: Status::False,
            reason: reason.as_str(),
            message: message.with_text(format!("{field}{message}; {consequence}")),
        }
    }
}

/// Returns verdicts in order, one for each condition, with a bounded number and with messages of bounded length.
///
/// If verdicts on one condition contradict each other, the negative verdict is kept.
pub fn bounded(verdicts: &[Verdict]) -> Arc<[Verdict]> {
    let mut verdicts = verdicts.to_vec();
    verdicts.sort();
    verdicts.dedup_by(|later, earlier| later.place() == earlier.place());
    verdicts.truncate(MOST);
    for verdict in &mut verdicts {
        if let Cow::Owned(text) = shorten(&verdict.message) {
            verdict.message = verdict.message.with_text(text);
        }
    }
    verdicts.into()
}

#[cfg(test)]
mod tests {
    use super::super::problem::Reason;
    use super::*;

    fn verdict(listener: usize, status: Status, message: &str) -> Verdict {
        Verdict {
            object: ObjectRef::new("Route", "shop", "cart"),
            parent: Some(0),
            listener: Some(format!("{listener:05}").into()),
            condition: "Accepted",
            detail: None,
            status,
            reason: "Accepted",
            message: message.into(),
        }
    }

    #[test]
    fn the_negative_verdict_on_a_condition_is_kept() {
        let verdicts = [verdict(2, Status::True, ""), verdict(1, Status::True, "a"), verdict(1, Status::False, "b")];
        assert_eq!(*bounded(&verdicts), [verdict(1, Status::False, "b"), verdict(2, Status::True, "")]);
    }

    #[test]
    fn every_entry_of_a_condition_is_kept_beside_it() {
        let detail = Some(Detail { severity: Severity::Error, r#type: "RouteError" });
        let entry = |message| Verdict { detail, ..verdict(1, Status::True, message) };
        let verdicts =
            [entry("b"), verdict(1, Status::True, ""), entry("a"), entry("b"), verdict(1, Status::False, "")];
        assert_eq!(*bounded(&verdicts), [verdict(1, Status::False, ""), entry("a"), entry("b")]);
    }

    #[test]
    fn the_verdicts_on_an_object_are_bounded() {
        let many: Vec<_> = (0..20_000).map(|at| verdict(at, Status::True, &"x".repeat(100_000 / (at + 1)))).collect();
        let kept = bounded(&many);
        assert_eq!(kept.len(), MOST);
        assert!(kept.iter().all(|verdict| verdict.message.chars().count() < 1100));
        assert_eq!(kept[0].listener.as_deref(), Some("00000"));
    }

    #[test]
    fn a_problem_is_a_negative_verdict() {
        let problem = Problem {
            object: ObjectRef::new("Ingress", "shop", "cart"),
            field: "spec.rules[0].host".into(),
            reason: Reason::HostNotValid,
            message: "host \"a b\" is not a DNS name".into(),
            consequence: "rule left out".into(),
        };
        let verdict = problem.verdict("Accepted");
        assert_eq!((verdict.status, verdict.reason), (Status::False, "HostNotValid"));
        assert_eq!(verdict.message, "spec.rules[0].host: host \"a b\" is not a DNS name; rule left out");
    }
}
