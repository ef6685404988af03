//! The listeners of one object during the parsing of a Gateway. The object is the Gateway itself, or a ListenerSet.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::parsed::ParsedListener;
use crate::objects::ObjectKey;
use crate::objects::gateway::Gateway;
use crate::translate::dialect::Resolver;
use crate::translate::problem::{Cause, Message};
use crate::translate::verdict::{ConditionFault, Status, Verdict};

/// The listeners of one object, and its conditions.
#[derive(Debug)]
pub struct Declared {
    /// A reference to the object.
    pub origin: ObjectRef,
    /// The ListenerSet. `None`: the object is the Gateway itself.
    pub set: Option<ObjectKey>,
    /// The listeners, in the order of the spec.
    pub listeners: Vec<ParsedListener>,
    /// The conditions so far.
    pub verdicts: Vec<Verdict>,
}

impl Declared {
    /// Creates an object without listeners.
    pub fn new(origin: ObjectRef, set: Option<ObjectKey>) -> Self {
        Self { origin, set, listeners: Vec::new(), verdicts: Vec::new() }
    }

    /// Adds a condition of a listener or of the whole object.
    pub fn verdict(
        &mut self,
        listener: Option<&Arc<str>>,
        condition: &'static str,
        status: Status,
        reason: &'static str,
        message: impl Into<Message>,
    ) {
        let listener = listener.cloned();
        let verdict = Verdict::new(self.origin.clone(), condition, status, reason);
        self.verdicts.push(Verdict { listener, message: message.into(), ..verdict });
    }

    /// Refuses the listener at `index`.
    pub fn refuse(&mut self, index: usize, reason: &'static str, message: impl Into<Message>) {
        let Some(listener) = self.listeners.get_mut(index) else { return };
        listener.accepted = false;
        let name = listener.name.clone();
        self.verdict(Some(&name), "Accepted", Status::False, reason, message);
    }

    /// Refuses the listener at `index`, which conflicts with an earlier listener.
    pub fn conflict(&mut self, index: usize, fault: ConditionFault) {
        let Some(name) = self.listeners.get(index).map(|listener| listener.name.clone()) else { return };
        self.verdicts.retain(|one| one.listener.as_ref() != Some(&name) || one.condition != "Conflicted");
        let ConditionFault { reason, message } = fault;
        self.verdict(Some(&name), "Conflicted", Status::True, reason, message.clone());
        self.refuse(index, reason, message);
    }

    /// Returns the port of the Envoys for each listener, in the order of the spec. `None`: Envoy does not listen for it.
    pub fn bound_ports(&self) -> Vec<Option<u16>> {
        self.listeners.iter().map(|listener| listener.bound.as_ref().map(|(_, port)| *port)).collect()
    }

    /// Returns whether the object as a whole is accepted.
    pub fn is_served(&self) -> bool {
        let refuses =
            |one: &Verdict| one.listener.is_none() && one.condition == "Accepted" && one.status == Status::False;
        !self.verdicts.iter().any(refuses)
    }

    /// Adds the condition `Accepted` of the whole object. The condition depends on the listeners. `is_valid` returns
    /// whether a listener is valid.
    pub fn accept(&mut self, is_valid: impl Fn(&ParsedListener) -> bool) {
        let invalid: Vec<&str> =
            self.listeners.iter().filter(|listener| !is_valid(listener)).map(|listener| &*listener.name).collect();
        if invalid.is_empty() {
            return self.verdict(None, "Accepted", Status::True, "Accepted", String::new());
        }
        let status = if invalid.len() == self.listeners.len() { Status::False } else { Status::True };
        let message = format!("listeners that are not valid: {}", invalid.join(", "));
        let message = Message::from(message).because(Cause::FaultyListeners);
        self.verdict(None, "Accepted", status, "ListenersNotValid", message);
    }
}

/// The state of parsing the listeners of one object.
pub(super) struct Parser<'p, 'r> {
    /// The Gateway.
    pub gateway: &'p Gateway,
    /// The Gateway or a ListenerSet, whose listeners are parsed.
    pub declared: Declared,
    /// The inputs.
    pub resolver: Resolver<'r>,
}
