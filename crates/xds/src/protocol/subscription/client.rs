//! The state of one type at a client: sent and accepted resources.
//!
//! The state of a client that is level with the newest snapshot costs no memory. Only names that differ from the snapshot
//! are stored individually.

mod accepted;
mod in_flight;
mod sent;

use std::sync::Arc;

use super::Subscription;
use crate::snapshot::{Resource, Version};
use in_flight::find;
pub(in crate::protocol) use in_flight::{InFlight, Shared};

/// The sent and accepted states of one name.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::protocol) struct Known {
    /// The state that was sent last.
    pub sent: ClientState,
    /// The state that the client accepted last.
    pub accepted: ClientState,
}

/// The state of one name at the client.
#[derive(Debug, Clone, Default, PartialEq)]
pub(in crate::protocol) enum ClientState {
    /// The client has no resource, and no response was sent.
    #[default]
    Unknown,
    /// The client knows that the resource does not exist.
    Absent,
    /// A version from an earlier stream whose content is unknown.
    Version(Version),
    /// The client has this resource.
    Resource(Arc<Resource>),
}

impl PartialEq<Arc<Resource>> for ClientState {
    fn eq(&self, resource: &Arc<Resource>) -> bool {
        match self {
            ClientState::Resource(own) => own.version() == resource.version(),
            ClientState::Version(version) => *version == resource.version(),
            ClientState::Unknown | ClientState::Absent => false,
        }
    }
}

impl ClientState {
    /// Returns whether the client has any version.
    pub fn exists(&self) -> bool {
        matches!(self, ClientState::Version(_) | ClientState::Resource(_))
    }

    /// Returns the resource, if its content is known.
    pub fn resource(&self) -> Option<&Arc<Resource>> {
        match self {
            ClientState::Resource(resource) => Some(resource),
            _ => None,
        }
    }
}

/// The state of the names that are not stored individually.
#[derive(Debug)]
pub(super) enum Level {
    /// The client has no resources.
    Nothing,
    /// The resources of the newest snapshot were sent in several responses. The client has accepted the listed
    /// resources.
    Sent(Vec<Shared>),
    /// The client has accepted the resources of the newest snapshot.
    Accepted,
}

impl Subscription {
    /// Returns the state of `name` at the client.
    pub fn known(&self, name: &str) -> Known {
        if let Some(known) = self.apart.get(name) {
            return known.clone();
        }
        if matches!(self.level, Level::Nothing) || !self.covers(name) {
            return Known::default();
        }
        let sent = match self.base.get(self.kind, name) {
            Some(resource) => ClientState::Resource(resource.clone()),
            None if self.named(name) => ClientState::Absent,
            None => ClientState::Unknown,
        };
        let accepted = match &self.level {
            Level::Nothing => ClientState::Unknown,
            Level::Sent(parts) => {
                let accepted = parts.iter().find_map(|part| find(part, name));
                accepted.map_or(ClientState::Unknown, |resource| ClientState::Resource(resource.clone()))
            }
            Level::Accepted => sent.clone(),
        };
        Known { sent, accepted }
    }

    /// Returns the individually stored state of `name`, which is created if necessary.
    pub(super) fn apart(&mut self, name: &Arc<str>) -> &mut Known {
        if !self.apart.contains_key(name) {
            let known = self.known(name);
            self.apart.insert(name.clone(), known);
        }
        self.apart.entry(name.clone()).or_default()
    }

    /// Retains the state of `name` at the client before the newest snapshot is replaced.
    pub(super) fn retain(&mut self, name: &Arc<str>) {
        if !matches!(self.level, Level::Nothing) && self.covers(name) {
            self.apart(name);
        }
    }

    /// Records that the client has no resource for a newly subscribed name.
    pub(super) fn track(&mut self, name: &Arc<str>) {
        if !matches!(self.level, Level::Nothing) && !self.covers(name) {
            self.apart.entry(name.clone()).or_default();
        }
    }

    /// Removes the individually stored state of `name` if the client is level with the newest snapshot.
    pub fn settle(&mut self, name: &str) {
        if matches!(self.level, Level::Accepted) && self.apart.get(name).is_some_and(|known| self.is_level(name, known))
        {
            self.apart.remove(name);
        }
    }

    fn is_level(&self, name: &str, known: &Known) -> bool {
        known.sent == known.accepted
            && self.covers(name)
            && match (self.base.get(self.kind, name), &known.sent) {
                (Some(resource), ClientState::Resource(sent)) => sent.version() == resource.version(),
                (None, ClientState::Absent) => true,
                (None, ClientState::Unknown) => !self.named(name),
                _ => false,
            }
    }

    /// Removes the state of a removed `name` that is neither at the client nor in flight.
    pub fn forget_gone(&mut self, name: &str) {
        let nothing = |known: &Known| !known.sent.exists() && !known.accepted.exists();
        if !self.named(name) && self.apart.get(name).is_some_and(nothing) {
            self.apart.remove(name);
        }
    }

    /// Returns whether all resources of the newest snapshot were sent to the client.
    pub fn was_sent_all(&self) -> bool {
        !matches!(self.level, Level::Nothing)
            && self.apart.iter().all(|(name, known)| match self.base.get(self.kind, name) {
                Some(resource) => known.sent == *resource,
                None => !known.sent.exists(),
            })
    }

    /// Returns all sent or accepted resources, some of them twice.
    pub fn at_client(&self) -> impl Iterator<Item = &Arc<Resource>> {
        let settled = (!matches!(self.level, Level::Nothing)).then(|| self.settled());
        let apart = self.apart.values().flat_map(|known| [known.sent.resource(), known.accepted.resource()]);
        settled.into_iter().flatten().chain(apart.flatten())
    }

    /// Returns the individually stored states, which can differ from the newest snapshot.
    pub fn tracked(&self) -> impl Iterator<Item = (&Arc<str>, &Known)> {
        self.apart.iter()
    }

    /// Returns the subscribed resources without an individually stored state.
    pub(super) fn settled(&self) -> Box<dyn Iterator<Item = &Arc<Resource>> + '_> {
        let wanted: Box<dyn Iterator<Item = &Arc<Resource>>> = if self.subscribes_to_collections() {
            Box::new(self.base.all(self.kind).filter(|resource| self.covers(resource.name())))
        } else {
            Box::new(self.names.iter().filter_map(|name| self.base.get(self.kind, name)))
        };
        Box::new(wanted.filter(|resource| !self.apart.contains_key(resource.name())))
    }

    /// Returns whether the newest version of `name` was sent to the client, and the client has no other version.
    pub fn has_settled(&self, name: &str) -> bool {
        !matches!(self.level, Level::Nothing) && self.covers(name) && !self.apart.contains_key(name)
    }

    /// Returns the names of the sent resources.
    pub fn names_sent(&self) -> impl Iterator<Item = Arc<str>> {
        let settled = (!matches!(self.level, Level::Nothing)).then(|| self.settled()).into_iter().flatten();
        let apart = self.apart.iter().filter(|(_, known)| known.sent.exists()).map(|(name, _)| name.clone());
        settled.map(|resource| resource.name().clone()).chain(apart)
    }

    /// Describes the requested, sent, accepted, and rejected resources, for a debug page.
    pub fn describe(&self) -> serde_json::Value {
        let mut unsettled: Vec<&str> =
            self.apart.iter().filter(|(_, known)| known.sent != known.accepted).map(|(name, _)| &**name).collect();
        unsettled.sort_unstable();
        let settled = self.settled().count();
        let (settled_sent, settled_accepted) = match self.level {
            Level::Nothing => (0, 0),
            Level::Sent(_) => (settled, 0),
            Level::Accepted => (settled, settled),
        };
        serde_json::json!({
            "wildcard": self.is_wildcard(),
            "named": self.names.len(),
            "sent": settled_sent + self.apart.values().filter(|known| known.sent.exists()).count(),
            "accepted": settled_accepted + self.apart.values().filter(|known| known.accepted.exists()).count(),
            "unsettled": unsettled,
            "pending": self.dirty.len(),
            "in_flight": self.in_flight.iter().map(|response| &response.nonce).collect::<Vec<_>>(),
            "last_version": self.sent_version,
            "last_nonce": self.last_nonce,
            "rejection": self.rejection.as_deref(),
            "rejected": self.culprits().map(|(resource, message)| serde_json::json!({
                "name": resource.name(),
                "version": resource.version().to_string(),
                "message": message,
                "keeps_version": self.known(resource.name()).accepted.resource().map(|good| good.version().to_string()),
            })).collect::<Vec<_>>(),
        })
    }

    /// Returns whether the absence of a name must be reported that the client has not subscribed to by name.
    pub fn reports_unnamed_absences(&self) -> bool {
        self.dirty.keys().any(|name| !self.named(name) && self.base.get(self.kind, name).is_none())
    }

    /// Returns the state of `name` at the client: in flight, or accepted last.
    pub fn state_at_client(&self, name: &str) -> ClientState {
        let on_its_way = || self.in_flight.iter().any(|response| response.is_about(name));
        let known = self.known(name);
        if known.sent == known.accepted || on_its_way() { known.sent } else { known.accepted }
    }

    /// Returns whether a name that matches was sent, but no version of it was ever accepted. Such names exist only while a
    /// response is in flight, or after a NACK.
    pub fn has_unaccepted(&self, matching: impl Fn(&str) -> bool) -> bool {
        let mut apart = self.apart.iter().filter(|(_, known)| known.sent.exists() && !known.accepted.exists());
        apart.any(|(name, _)| matching(name))
            || self.never_accepted().any(|name| matching(name))
            || (matches!(self.level, Level::Sent(_)) && self.settled().any(|resource| matching(resource.name())))
    }
}
