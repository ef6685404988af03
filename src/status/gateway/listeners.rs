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

use super::cause;
use super::conditions::{Message, Wanted as Wish, are, merge};
use crate::inspection::Published;
use crate::status::infrastructure::Fault;
use crate::status::kind::Goal;

/// The type of the condition that tells whether Envoys serve an object.
pub const PROGRAMMED: &str = "Programmed";

/// The status that a listener should have.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    name: Arc<str>,
    supported_kinds: Vec<RouteKind>,
    attached_routes: u32,
    conditions: Vec<Wish>,
}

/// How far an object is.
pub enum Progress {
    /// It cannot be served, or not yet.
    Held(Fault),
    /// Nothing but the acceptance by all Envoys is missing.
    Waits,
    /// All Envoys have accepted this revision.
    Done(Revision),
}

/// Returns the next status of an object whose `Programmed` waits for the Envoys. `status` returns the status at a progress.
pub fn next<S: Debug>(
    published: &Published,
    fault: Option<Fault>,
    status: impl Fn(Progress) -> S,
    is_right: impl Fn(&S) -> bool,
) -> Option<Goal<S>> {
    if let Some(fault) = fault {
        let held = status(Progress::Held(fault));
        return (!is_right(&held)).then(|| Goal { cause: cause(&held), status: held, needs: None });
    }
    let done = status(Progress::Done(published.revision));
    if is_right(&done) {
        return None;
    }
    let (waits, cause) = (status(Progress::Waits), cause(&done));
    Some(match is_right(&waits) {
        true => Goal { status: done, needs: Some(published.clone()), cause },
        false => Goal { status: waits, needs: None, cause },
    })
}

/// The facts about the listeners of one object.
pub struct Listeners<'a> {
    /// The generation of the object.
    pub generation: i64,
    /// The verdicts on the object and its listeners.
    pub verdicts: &'a [Verdict],
    /// The existing status of the listeners.
    pub is: &'a [ListenerStatus],
}

impl Listeners<'_> {
    /// Returns the conditions of the object itself, except for `Programmed`.
    pub fn of_object(&self) -> Vec<Wish> {
        self.conditions(self.verdicts.iter().filter(|verdict| verdict.listener.is_none()))
    }

    /// Returns the status of a listener. `reason` returns the reason of `Programmed` for a verdict that the listener is not
    /// served.
    pub fn listener(
        &self,
        report: &ListenerReport,
        progress: &Progress,
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
                Progress::Held(fault) => self.not_programmed("Pending", &fault.message),
                other => self.programmed(other, existing(self.is, &report.name).map_or(&[], |is| &is.conditions)),
            },
        });
        Listener {
            name: report.name.clone(),
            supported_kinds: report.supported_kinds.clone(),
            attached_routes: report.attached_routes,
            conditions,
        }
    }

    fn conditions<'v>(&self, verdicts: impl Iterator<Item = &'v Verdict>) -> Vec<Wish> {
        verdicts.map(|verdict| Wish::of_verdict(verdict, self.generation)).collect()
    }

    fn not_programmed(&self, reason: &'static str, message: &str) -> Wish {
        let (generation, message) = (self.generation, Message::Text(message.to_owned()));
        Wish { r#type: PROGRAMMED, status: Status::False, reason, message, generation }
    }

    /// Returns the condition `Programmed` of an object or a listener. `is`: its existing conditions.
    pub fn programmed(&self, progress: &Progress, is: &[Condition]) -> Wish {
        let generation = self.generation;
        let yes = |message| Wish { r#type: PROGRAMMED, status: Status::True, reason: PROGRAMMED, message, generation };
        let was = |is: &Condition| {
            is.r#type == PROGRAMMED && is.status == Status::True.as_str() && is.observed_generation == generation
        };
        match progress {
            Progress::Held(fault) => self.not_programmed(fault.reason, &fault.message),
            Progress::Done(revision) => yes(Message::Accepted(*revision)),
            Progress::Waits if is.iter().any(was) => yes(Message::Kept),
            Progress::Waits => self.not_programmed("Pending", "not all Envoys have accepted the Gateway yet"),
        }
    }
}

/// Returns the conditions that an object begins with.
pub fn pending(generation: i64) -> Vec<Wish> {
    let condition = |r#type| Wish {
        r#type,
        status: Status::Unknown,
        reason: "Pending",
        message: Message::Text("waits for a controller".to_owned()),
        generation,
    };
    ["Accepted", PROGRAMMED].map(condition).into()
}

/// Returns the list of listeners for a merge patch.
pub fn patch(is: &[ListenerStatus], wanted: &[Listener], envoys: usize, now: Timestamp) -> Value {
    let listener = |listener: &Listener| {
        let is = existing(is, &listener.name).map_or(&[][..], |is| &is.conditions);
        let kind = |kind: &RouteKind| json!({ "group": group(kind), "kind": kind.kind });
        json!({
            "name": &*listener.name,
            "supportedKinds": listener.supported_kinds.iter().map(kind).collect::<Vec<_>>(),
            "attachedRoutes": listener.attached_routes,
            "conditions": merge(is, &listener.conditions, envoys, now),
        })
    };
    wanted.iter().map(listener).collect()
}

/// Returns whether the existing listeners are the wanted ones.
pub fn are_right(is: &[ListenerStatus], wanted: &[Listener]) -> bool {
    let same_kinds = |a: &[RouteKind], b: &[RouteKind]| {
        a.iter().map(|kind| (group(kind), &kind.kind)).eq(b.iter().map(|kind| (group(kind), &kind.kind)))
    };
    let is_listener = |(is, wanted): (&ListenerStatus, &Listener)| {
        *is.name == *wanted.name
            && is.attached_routes == wanted.attached_routes
            && same_kinds(&is.supported_kinds, &wanted.supported_kinds)
            && are(&is.conditions, &wanted.conditions)
    };
    is.len() == wanted.len() && is.iter().zip(wanted).all(is_listener)
}

/// Returns the existing status of a listener.
fn existing<'a>(is: &'a [ListenerStatus], listener: &str) -> Option<&'a ListenerStatus> {
    is.iter().find(|is| is.name == listener)
}

fn group(kind: &RouteKind) -> &str {
    kind.group.as_deref().unwrap_or(GROUP)
}
