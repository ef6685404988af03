//! Conditions of the objects of Gateway API: the wanted ones, and how they are merged into the existing ones.
//!
//! Conditions of other writers stay, in their order. A transition time changes only with the status of its condition.

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Revision;
use lockgate_route::objects::gateway::Condition;
use lockgate_route::translate::Verdict;
use lockgate_route::translate::verdict::Status;

/// The types of conditions that Lockgate writes. Conditions of other types belong to other writers.
const OURS: [&str; 8] = [
    "Accepted",
    "Conflicted",
    "InsecureFrontendValidationMode",
    "OverlappingTLSConfig",
    "PartiallyInvalid",
    "Programmed",
    "ResolvedRefs",
    "SupportedVersion",
];

/// A condition that a status should have. The time of its transition is known when it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
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
    /// This text.
    Text(String),
    /// All Envoys have accepted this revision. Their number is known when it is written, and does not matter later.
    Accepted(Revision),
    /// The existing text.
    Kept,
}

impl Message {
    /// Returns whether `text` is this message.
    fn is(&self, text: &str) -> bool {
        match self {
            Self::Text(own) => own == text,
            Self::Accepted(revision) => text.starts_with("accepted by ") && text.ends_with(&tail(*revision)),
            Self::Kept => true,
        }
    }

    /// Returns the text, if `envoys` Envoys have accepted the object.
    fn text(&self, envoys: usize) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Accepted(revision) => {
                let plural = if envoys == 1 { "" } else { "s" };
                format!("accepted by {envoys} Envoy{plural}{}", tail(*revision))
            }
            Self::Kept => String::new(),
        }
    }
}

/// The next leader reads from the message which revision was accepted.
fn tail(revision: Revision) -> String {
    format!(", revision {revision}")
}

impl Wanted {
    /// Creates the condition of a verdict on an object of this generation.
    pub fn of_verdict(verdict: &Verdict, generation: i64) -> Self {
        let Verdict { object: _, parent: _, listener: _, condition, status, reason, message } = verdict;
        Self { r#type: condition, status: *status, reason, message: Message::Text(message.clone()), generation }
    }

    /// Returns whether `is` is this condition, at any time.
    fn is(&self, is: &Condition) -> bool {
        is.r#type == self.r#type
            && is.status == self.status.as_str()
            && is.reason == self.reason
            && is.observed_generation == self.generation
            && self.message.is(&is.message)
    }

    /// Returns the condition in place of `is`.
    fn condition(&self, is: Option<&Condition>, envoys: usize, now: Timestamp) -> Condition {
        let message = is.map(|is| &is.message).filter(|text| self.message.is(text));
        let since = is.filter(|is| is.status == self.status.as_str()).map(|is| is.last_transition_time.clone());
        Condition {
            r#type: self.r#type.to_owned(),
            status: self.status.as_str().to_owned(),
            reason: self.reason.to_owned(),
            message: message.cloned().unwrap_or_else(|| self.message.text(envoys)),
            observed_generation: self.generation,
            last_transition_time: since.unwrap_or_else(|| time(now)),
        }
    }
}

/// Formats a time in whole seconds, as the API server does.
fn time(now: Timestamp) -> String {
    Timestamp::from_second(now.as_second()).unwrap_or(now).to_string()
}

/// Returns whether `is` contains the wanted conditions, and no others of ours.
pub fn are(is: &[Condition], wanted: &[Wanted]) -> bool {
    wanted.iter().all(|wanted| is.iter().any(|is| wanted.is(is))) && is.iter().all(|is| is_kept(is, wanted))
}

/// Returns whether a condition is wanted, or belongs to another writer.
fn is_kept(is: &Condition, wanted: &[Wanted]) -> bool {
    !OURS.contains(&&*is.r#type) || wanted.iter().any(|wanted| wanted.r#type == is.r#type)
}

/// Merges the wanted conditions into the existing ones. `envoys` Envoys have accepted the object.
pub fn merge(is: &[Condition], wanted: &[Wanted], envoys: usize, now: Timestamp) -> Vec<Condition> {
    let of = |is: &Condition| wanted.iter().find(|wanted| wanted.r#type == is.r#type);
    let existing = is.iter().filter(|is| is_kept(is, wanted));
    let mut merged: Vec<Condition> = existing
        .map(|is| of(is).map_or_else(|| is.clone(), |wanted| wanted.condition(Some(is), envoys, now)))
        .collect();
    let new = wanted.iter().filter(|wanted| !is.iter().any(|is| wanted.r#type == is.r#type));
    merged.extend(new.map(|wanted| wanted.condition(None, envoys, now)));
    merged
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn wanted(r#type: &'static str, status: Status, message: &str) -> Wanted {
        Wanted { r#type, status, reason: "Because", message: Message::Text(message.into()), generation: 2 }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_transition_time_changes_with_the_status_alone() {
        let is =
            merge(&[], &[wanted("Accepted", Status::True, "a"), wanted("Programmed", Status::False, "b")], 0, at(0));
        let mut now = [wanted("Accepted", Status::True, "another"), wanted("Programmed", Status::True, "b")];
        now.iter_mut().for_each(|wanted| wanted.generation = 3);
        assert!(!are(&is, &now));
        let merged = merge(&is, &now, 0, at(9));
        assert!(are(&merged, &now));
        let times: Vec<&str> = merged.iter().map(|condition| &*condition.last_transition_time).collect();
        assert_eq!(times, ["1970-01-01T00:00:00Z", "1970-01-01T00:00:09Z"]);
        assert_eq!((&*merged[0].message, merged[0].observed_generation), ("another", 3));
    }

    #[test]
    fn conditions_of_other_writers_stay_and_ours_go_when_they_no_longer_hold() {
        let ours = [wanted("PartiallyInvalid", Status::True, ""), wanted("Accepted", Status::True, "")];
        let mut is = merge(&[], &ours, 0, at(0));
        is.insert(1, Condition { r#type: "example.com/Audited".into(), ..Condition::default() });
        let merged = merge(&is, &ours[1..], 0, at(1));
        let types: Vec<&str> = merged.iter().map(|condition| &*condition.r#type).collect();
        assert_eq!(types, ["example.com/Audited", "Accepted"]);
        assert!(are(&merged, &ours[1..]) && !are(&is, &ours[1..]));
    }

    #[test]
    fn the_number_of_envoys_is_written_and_then_does_not_matter() {
        let programmed = |revision, message| Wanted { message, ..wanted("Programmed", Status::True, revision) };
        let first = [programmed("", Message::Accepted(Revision(1)))];
        let is = merge(&[], &first, 2, at(0));
        assert_eq!(is[0].message, "accepted by 2 Envoys, revision 0000000000000001");
        assert!(are(&is, &first));
        assert_eq!(merge(&is, &first, 3, at(0)), is);
        let next = [programmed("", Message::Accepted(Revision(2)))];
        assert!(!are(&is, &next));
        assert_eq!(merge(&is, &next, 1, at(0))[0].message, "accepted by 1 Envoy, revision 0000000000000002");
        let kept = [programmed("", Message::Kept)];
        assert!(are(&is, &kept));
        assert_eq!(merge(&is, &kept, 0, at(0)), is);
    }
}
