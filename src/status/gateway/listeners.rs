//! The status of the listeners of one object, a Gateway or a ListenerSet, and the condition `Programmed`.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Revision;
use lockgate_route::objects::gateway::{Condition, GROUP, ListenerStatus, RouteKind};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::gateway::ListenerReport;
use lockgate_route::translate::verdict::Status;
use serde_json::{Value, json};

use super::conditions::{self, DesiredCondition, Message, goal, merge};
use crate::inspection::Published;
use crate::status::fault::Fault;
use crate::status::kind::Goal;

/// The type of the condition that reports whether Envoys serve an object.
pub const PROGRAMMED: &str = "Programmed";

/// The status that a listener should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    name: Arc<str>,
    supported_kinds: Vec<RouteKind>,
    attached_routes: u32,
    conditions: Vec<DesiredCondition>,
}

/// The progress of an object.
pub enum ObjectProgress {
    /// It cannot be served, or not yet.
    Blocked(Fault),
    /// Not all Envoys have accepted it yet.
    Waiting,
    /// All Envoys have accepted this revision.
    Accepted(Revision),
}

/// Returns the next goal of an object whose condition `Programmed` depends on the Envoys. `status` returns the status
/// at a progress.
pub fn next<S: Debug>(
    published: &Published,
    fault: Option<Fault>,
    status: impl Fn(ObjectProgress) -> S,
    is_current: impl Fn(&S) -> bool,
) -> Option<Goal<S>> {
    if let Some(fault) = fault {
        let blocked = status(ObjectProgress::Blocked(fault));
        return (!is_current(&blocked)).then(|| goal(blocked));
    }
    let accepted = status(ObjectProgress::Accepted(published.revision));
    if is_current(&accepted) {
        return None;
    }
    let interim = Some(status(ObjectProgress::Waiting)).filter(|waiting| !is_current(waiting));
    Some(Goal { needs: Some(published.clone()), interim, ..goal(accepted) })
}

/// The facts about the listeners of one object.
pub struct ListenerFacts<'a> {
    /// The generation of the object.
    pub generation: i64,
    /// The verdicts on the object and its listeners.
    pub verdicts: &'a [Verdict],
    /// The existing status of the listeners.
    pub current: &'a [ListenerStatus],
}

impl ListenerFacts<'_> {
    /// Returns the conditions of the object itself, except for `Programmed`.
    pub fn of_object(&self) -> Vec<DesiredCondition> {
        self.conditions(self.verdicts.iter().filter(|verdict| verdict.listener.is_none()))
    }

    /// Returns the status of a listener. `reason` returns the reason of `Programmed` if this verdict prevents the
    /// listener from being served.
    pub fn listener(
        &self,
        report: &ListenerReport,
        progress: &ObjectProgress,
        reason: impl Fn(&Verdict) -> &'static str,
    ) -> Listener {
        let verdicts: Vec<&Verdict> =
            self.verdicts.iter().filter(|verdict| verdict.listener.as_ref() == Some(&report.name)).collect();
        let is_negative = |verdict: &&Verdict| match verdict.condition {
            "Accepted" | "ResolvedRefs" => verdict.status == Status::False,
            "Conflicted" => verdict.status == Status::True,
            _ => false,
        };
        let mut conditions = self.conditions(verdicts.iter().copied());
        conditions.push(match (report.serves, verdicts.iter().copied().find(is_negative)) {
            (false, Some(verdict)) => {
                self.not_programmed(reason(verdict), &format!("the listener is not served: {}", verdict.reason))
            }
            (false, None) => self.not_programmed("Pending", "Envoy does not listen yet"),
            (true, _) => match progress {
                ObjectProgress::Blocked(fault) => self.not_programmed("Pending", &fault.message),
                other => self
                    .programmed(other, existing(self.current, &report.name).map_or(&[], |current| &current.conditions)),
            },
        });
        Listener {
            name: report.name.clone(),
            supported_kinds: report.supported_kinds.clone(),
            attached_routes: report.attached_routes,
            conditions,
        }
    }

    fn conditions<'v>(&self, verdicts: impl Iterator<Item = &'v Verdict>) -> Vec<DesiredCondition> {
        verdicts.map(|verdict| DesiredCondition::from_verdict(verdict, self.generation)).collect()
    }

    fn not_programmed(&self, reason: &'static str, message: &str) -> DesiredCondition {
        let (generation, message) = (self.generation, Message::Text(message.to_owned()));
        DesiredCondition { r#type: PROGRAMMED, status: Status::False, reason, message, generation }
    }

    /// Returns the condition `Programmed` of an object or a listener. `current` contains its existing conditions.
    pub fn programmed(&self, progress: &ObjectProgress, current: &[Condition]) -> DesiredCondition {
        let generation = self.generation;
        let yes = |message| DesiredCondition {
            r#type: PROGRAMMED,
            status: Status::True,
            reason: PROGRAMMED,
            message,
            generation,
        };
        let was = |current: &Condition| {
            current.r#type == PROGRAMMED
                && current.status == Status::True.as_str()
                && current.observed_generation == generation
        };
        match progress {
            ObjectProgress::Blocked(fault) => self.not_programmed(fault.reason, &fault.message),
            ObjectProgress::Accepted(revision) => yes(Message::Accepted(*revision)),
            ObjectProgress::Waiting if current.iter().any(was) => yes(Message::Kept),
            ObjectProgress::Waiting => self.not_programmed("Pending", "not all Envoys have accepted the Gateway yet"),
        }
    }
}

/// Returns the initial conditions of an object.
pub fn pending(generation: i64) -> Vec<DesiredCondition> {
    let condition = |r#type| DesiredCondition {
        r#type,
        status: Status::Unknown,
        reason: "Pending",
        message: Message::Text("waits for a controller".to_owned()),
        generation,
    };
    ["Accepted", PROGRAMMED].map(condition).into()
}

/// Returns the list of listeners for a merge patch.
pub fn patch(current: &[ListenerStatus], desired: &[Listener], envoys: usize, now: Timestamp) -> Value {
    let listener = |listener: &Listener| {
        let current = existing(current, &listener.name).map_or(&[][..], |current| &current.conditions);
        let kind = |kind: &RouteKind| json!({ "group": group(kind), "kind": kind.kind });
        json!({
            "name": &*listener.name,
            "supportedKinds": listener.supported_kinds.iter().map(kind).collect::<Vec<_>>(),
            "attachedRoutes": listener.attached_routes,
            "conditions": merge(current, &listener.conditions, envoys, now),
        })
    };
    desired.iter().map(listener).collect()
}

/// Returns whether the status of the listeners is up to date.
pub fn are_current(current: &[ListenerStatus], desired: &[Listener]) -> bool {
    let same_kinds = |a: &[RouteKind], b: &[RouteKind]| {
        a.iter().map(|kind| (group(kind), &kind.kind)).eq(b.iter().map(|kind| (group(kind), &kind.kind)))
    };
    let is_listener = |(current, desired): (&ListenerStatus, &Listener)| {
        *current.name == *desired.name
            && current.attached_routes == desired.attached_routes
            && same_kinds(&current.supported_kinds, &desired.supported_kinds)
            && conditions::are_current(&current.conditions, &desired.conditions)
    };
    current.len() == desired.len() && current.iter().zip(desired).all(is_listener)
}

/// Returns the existing status of a listener.
fn existing<'a>(current: &'a [ListenerStatus], listener: &str) -> Option<&'a ListenerStatus> {
    current.iter().find(|current| current.name == listener)
}

fn group(kind: &RouteKind) -> &str {
    kind.group.as_deref().unwrap_or(GROUP)
}
