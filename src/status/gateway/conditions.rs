//! Conditions of the objects of Gateway API: the desired conditions, and how to merge them into the existing ones.
//!
//! Conditions of other writers stay, in their order. The transition time changes only with the status of a condition.

use std::fmt::Debug;

use crate::status::kind::Goal;
use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Revision;
use lockgate_route::objects::gateway::Condition;
use lockgate_route::translate::Verdict;
use lockgate_route::translate::verdict::Status;
use xxhash_rust::xxh3::xxh3_64;

/// The types of conditions that Lockgate writes. Conditions of other types belong to other writers.
const OWN_TYPES: [&str; 10] = [
    "Accepted",
    "Conflicted",
    "InsecureFrontendValidationMode",
    "OverlappingTLSConfig",
    "Overridden",
    "PartiallyInvalid",
    "Programmed",
    "ResolvedRefs",
    "SupportedVersion",
    "lockgate.dev/Programmed",
];

/// A desired condition. Its transition time is determined by the write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DesiredCondition {
    /// The type.
    pub r#type: &'static str,
    /// The status.
    pub status: Status,
    /// The reason, CamelCase.
    pub reason: &'static str,
    /// The message.
    pub message: Message,
    /// The generation that the condition is about.
    pub generation: i64,
}

/// The message of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// A text that does not depend on Envoys.
    Text(String),
    /// All Envoys have accepted this revision. The write adds the number of Envoys, which is not compared later.
    Accepted(Revision),
    /// The existing text.
    Kept,
}

impl Message {
    /// Returns whether `text` is this message, with any number of Envoys.
    fn matches(&self, text: &str) -> bool {
        match self {
            Self::Text(expected) => expected == text,
            Self::Accepted(revision) => text.starts_with("accepted by ") && text.ends_with(&revision_suffix(*revision)),
            Self::Kept => true,
        }
    }

    /// Returns the text, if `envoys` Envoys have accepted the object.
    fn text(&self, envoys: usize) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Accepted(revision) => {
                let plural = if envoys == 1 { "" } else { "s" };
                format!("accepted by {envoys} Envoy{plural}{}", revision_suffix(*revision))
            }
            Self::Kept => String::new(),
        }
    }
}

/// Formats the end of the message. The next leader reads the accepted revision from it.
fn revision_suffix(revision: Revision) -> String {
    format!(", revision {revision}")
}

impl DesiredCondition {
    /// Creates the condition of a verdict on an object of this generation.
    pub fn from_verdict(verdict: &Verdict, generation: i64) -> Self {
        let Verdict { object: _, parent: _, listener: _, condition, detail: _, status, reason, message } = verdict;
        Self { r#type: condition, status: *status, reason, message: Message::Text(message.to_string()), generation }
    }

    /// Returns whether `current` is this condition, with any transition time.
    fn matches(&self, current: &Condition) -> bool {
        current.r#type == self.r#type
            && current.status == self.status.as_str()
            && current.reason == self.reason
            && current.observed_generation == self.generation
            && self.message.matches(&current.message)
    }

    /// Returns the condition that replaces `current`.
    fn condition(&self, current: Option<&Condition>, envoys: usize, now: Timestamp) -> Condition {
        let message = current.map(|current| &current.message).filter(|text| self.message.matches(text));
        let since = current
            .filter(|current| current.status == self.status.as_str())
            .map(|current| current.last_transition_time.clone());
        Condition {
            r#type: self.r#type.to_owned(),
            status: self.status.as_str().to_owned(),
            reason: self.reason.to_owned(),
            message: message.cloned().unwrap_or_else(|| self.message.text(envoys)),
            observed_generation: self.generation,
            last_transition_time: since.unwrap_or_else(|| format_time(now)),
        }
    }
}

/// Formats a time in whole seconds, as the API server does.
fn format_time(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Returns whether `current` contains the desired conditions, and no other conditions of Lockgate.
pub fn are_current(current: &[Condition], desired: &[DesiredCondition]) -> bool {
    desired.iter().all(|desired| current.iter().any(|current| desired.matches(current)))
        && current.iter().all(|current| is_kept(current, desired))
}

/// Returns whether a condition is desired, or belongs to another writer.
fn is_kept(current: &Condition, desired: &[DesiredCondition]) -> bool {
    !OWN_TYPES.contains(&&*current.r#type) || desired.iter().any(|desired| desired.r#type == current.r#type)
}

/// Merges the desired conditions into the existing ones. `envoys` Envoys have accepted the object.
pub fn merge(current: &[Condition], desired: &[DesiredCondition], envoys: usize, now: Timestamp) -> Vec<Condition> {
    let desired_of = |current: &Condition| desired.iter().find(|desired| desired.r#type == current.r#type);
    let existing = current.iter().filter(|current| is_kept(current, desired));
    let mut merged: Vec<Condition> = existing
        .map(|current| {
            desired_of(current).map_or_else(|| current.clone(), |desired| desired.condition(Some(current), envoys, now))
        })
        .collect();
    let new = desired.iter().filter(|desired| !current.iter().any(|current| desired.r#type == current.r#type));
    merged.extend(new.map(|desired| desired.condition(None, envoys, now)));
    merged
}

/// Returns the goal of a status that does not depend on Envoys.
pub fn goal<S: Debug>(status: S) -> Goal<S> {
    let cause = xxh3_64(format!("{status:?}").as_bytes());
    Goal::at_once(status, cause)
}

/// Returns the summary of conditions for the log: the first one that is not true, or all of them.
pub fn summary(conditions: &[DesiredCondition]) -> String {
    let text = |one: &DesiredCondition| format!("{}={} ({})", one.r#type, one.status.as_str(), one.reason);
    match conditions.iter().find(|one| one.status != Status::True) {
        Some(one) => text(one),
        None => conditions.iter().map(text).collect::<Vec<_>>().join(" "),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn desired(r#type: &'static str, status: Status, message: &str) -> DesiredCondition {
        DesiredCondition { r#type, status, reason: "Because", message: Message::Text(message.into()), generation: 2 }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_transition_time_changes_with_the_status_alone() {
        let current =
            merge(&[], &[desired("Accepted", Status::True, "a"), desired("Programmed", Status::False, "b")], 0, at(0));
        let mut now = [desired("Accepted", Status::True, "another"), desired("Programmed", Status::True, "b")];
        now.iter_mut().for_each(|desired| desired.generation = 3);
        assert!(!are_current(&current, &now));
        let merged = merge(&current, &now, 0, at(9));
        assert!(are_current(&merged, &now));
        let times: Vec<&str> = merged.iter().map(|condition| &*condition.last_transition_time).collect();
        assert_eq!(times, ["1970-01-01T00:00:00Z", "1970-01-01T00:00:09Z"]);
        assert_eq!((&*merged[0].message, merged[0].observed_generation), ("another", 3));
    }

    #[test]
    fn conditions_of_other_writers_stay_and_ours_go_when_they_no_longer_hold() {
        let ours = [desired("PartiallyInvalid", Status::True, ""), desired("Accepted", Status::True, "")];
        let mut current = merge(&[], &ours, 0, at(0));
        current.insert(1, Condition { r#type: "example.com/Audited".into(), ..Condition::default() });
        let merged = merge(&current, &ours[1..], 0, at(1));
        let types: Vec<&str> = merged.iter().map(|condition| &*condition.r#type).collect();
        assert_eq!(types, ["example.com/Audited", "Accepted"]);
        assert!(are_current(&merged, &ours[1..]) && !are_current(&current, &ours[1..]));
    }

    #[test]
    fn the_number_of_envoys_is_written_and_then_does_not_matter() {
        let programmed =
            |revision, message| DesiredCondition { message, ..desired("Programmed", Status::True, revision) };
        let first = [programmed("", Message::Accepted(Revision(1)))];
        let current = merge(&[], &first, 2, at(0));
        assert_eq!(current[0].message, "accepted by 2 Envoys, revision 0000000000000001");
        assert!(are_current(&current, &first));
        assert_eq!(merge(&current, &first, 3, at(0)), current);
        let next = [programmed("", Message::Accepted(Revision(2)))];
        assert!(!are_current(&current, &next));
        assert_eq!(merge(&current, &next, 1, at(0))[0].message, "accepted by 1 Envoy, revision 0000000000000002");
        let kept = [programmed("", Message::Kept)];
        assert!(are_current(&current, &kept));
        assert_eq!(merge(&current, &kept, 0, at(0)), current);
    }
}
