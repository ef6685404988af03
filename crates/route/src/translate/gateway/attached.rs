//! The listeners of Gateways that an object is attached to, and the content of its rules.

use std::collections::{BTreeMap, BTreeSet};

use super::attach::{Attachment, ListenerOwner};
use super::client_certificates::ClientCertificate;
use crate::model::{Destination, Host, ListenerId};
use crate::translate::problem::Problem;
use crate::translate::unit::Unit;
use crate::translate::verdict::{Status, Verdict};

/// The reason of the conditions of a part that is left out.
pub const UNSUPPORTED: &str = "UnsupportedValue";

/// The part of an object on listeners of Gateways.
#[derive(Debug, Default, PartialEq)]
pub struct Attached {
    /// The listeners that it is attached to.
    pub attachments: Box<[Attachment]>,
    /// The parents that accept it, with the owner of their listeners. Two parents can name the same listeners.
    pub accepted: Box<[(u16, ListenerOwner)]>,
    /// The content of its rules for each client certificate of its Gateways. All hosts of these Gateways share it.
    pub contents: Box<[(ClientCertificate, RouteContent)]>,
}

/// The content of the rules of a route.
#[derive(Debug, PartialEq)]
pub enum RouteContent {
    /// The units of an HTTPRoute or a GRPCRoute.
    Http(Box<[Unit]>),
    /// The destination of the connections or datagrams of a TCPRoute, a UDPRoute, or a TLSRoute.
    Stream {
        /// The destination of bytes as clients send them.
        to: Destination,
        /// The destination of connections that are decrypted, if a listener decrypts them.
        decrypted: Option<Destination>,
    },
}

impl Attached {
    /// Returns its units for HTTP at Gateways with this client certificate.
    pub fn units(&self, certificate: &ClientCertificate) -> &[Unit] {
        match self.content(certificate) {
            Some(RouteContent::Http(units)) => units,
            Some(RouteContent::Stream { .. }) | None => &[],
        }
    }

    /// Returns the destination of its connections or datagrams at Gateways with this client certificate, decrypted or not.
    /// Returns `None` for HTTP.
    pub fn destination(&self, certificate: &ClientCertificate, is_decrypted: bool) -> Option<&Destination> {
        match self.content(certificate)? {
            RouteContent::Http(_) => None,
            RouteContent::Stream { decrypted: Some(to), .. } if is_decrypted => Some(to),
            RouteContent::Stream { to, .. } => Some(to),
        }
    }

    /// Returns the parents on each host.
    pub fn parents_by_place(&self) -> BTreeMap<(&ListenerId, &Host), Vec<u16>> {
        let mut parents = BTreeMap::<_, Vec<u16>>::new();
        for one in &self.attachments {
            for place in one.bound.iter().flat_map(|id| one.hosts.iter().map(move |host| (id, host))) {
                parents.entry(place).or_default().push(one.parent);
            }
        }
        parents
    }

    /// Returns the verdict for a problem of a host: a part of the object is left out at a parent.
    pub fn conflict(parent: u16, problem: &Problem) -> Verdict {
        let verdict = problem.verdict("PartiallyInvalid");
        Verdict { status: Status::True, reason: UNSUPPORTED, parent: Some(parent), ..verdict }
    }

    /// Returns the owners of the listeners.
    pub fn owners(&self) -> BTreeSet<ListenerOwner> {
        self.accepted.iter().map(|(_, owner)| owner.clone()).collect()
    }

    /// Returns the attachments to the listeners of `owner`.
    pub fn on<'a>(&'a self, owner: &'a ListenerOwner) -> impl Iterator<Item = &'a Attachment> {
        self.attachments.iter().filter(|attachment| attachment.listener.is_of(owner))
    }

    /// Returns the verdicts for a problem that leaves out the object on the listeners of `owner`: no parent there accepts it.
    pub fn refusals(&self, owner: &ListenerOwner, problem: &Problem) -> impl Iterator<Item = Verdict> {
        let parents = self.accepted.iter().filter(move |(_, other)| other == owner).map(|(parent, _)| *parent);
        let verdict = problem.verdict("Accepted");
        parents.map(move |parent| Verdict { parent: Some(parent), ..verdict.clone() })
    }

    /// Returns the content at Gateways with this client certificate.
    pub fn content(&self, certificate: &ClientCertificate) -> Option<&RouteContent> {
        self.contents.iter().find(|(other, _)| other == certificate).map(|(_, content)| content)
    }
}
