//! The ports of the Envoys that Gateways claim. All Gateways share the Envoys, so each port belongs to one Gateway.
//!
//! The leader allocates different ports, but any author of a Service can claim the port of another Gateway. Envoy would
//! reject one of two listeners with the same address. A port belongs to the oldest Gateway whose home contains the
//! port, otherwise to the oldest Gateway.

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{ObjectId, ObjectKey, Precedence, Transport};
use crate::translate::gateway::is_at_home;
use crate::translate::gateway::listener::ParsedGateway;

/// A port of the Envoys.
type Port = (Transport, u16);

/// The claim of a Gateway to a port: whether the port is outside of the home of the Gateway, and the precedence of the
/// Gateway.
type Claim = (bool, Precedence);

/// The Gateways that claim each port.
#[derive(Debug, Default)]
pub struct PortClaims {
    pub of_port: BTreeMap<Port, BTreeSet<Claim>>,
    pub of_gateway: BTreeMap<ObjectKey, BTreeMap<Port, Claim>>,
}

impl PortClaims {
    /// Replaces the claims of a Gateway, and releases the ports of `now` that other Gateways own. Returns the Gateways
    /// that gain or lose a port by this change.
    pub fn claim(&mut self, key: &ObjectKey, now: Option<&mut ParsedGateway>) -> BTreeSet<ObjectId> {
        let mut affected = BTreeSet::new();
        let wanted = now.as_deref().map(claims).unwrap_or_default();
        let before = self.of_gateway.remove(key).unwrap_or_default();
        if before != wanted {
            before.iter().for_each(|(port, claim)| self.remove(*port, claim, &mut affected));
            wanted.iter().for_each(|(port, claim)| self.insert(*port, claim, &mut affected));
            affected.remove(&crate::objects::Kind::GATEWAY.id(key.clone()));
        }
        if let Some(gateway) = now {
            for (port, _) in wanted.iter().filter(|(port, claim)| self.owner(**port) != Some(claim)) {
                gateway.release(*port);
            }
        }
        if !wanted.is_empty() {
            self.of_gateway.insert(key.clone(), wanted);
        }
        affected
    }

    pub fn owner(&self, port: Port) -> Option<&Claim> {
        self.of_port.get(&port)?.first()
    }

    pub fn insert(&mut self, port: Port, claim: &Claim, affected: &mut BTreeSet<ObjectId>) {
        let claims = self.of_port.entry(port).or_default();
        affected.extend(claims.first().filter(|owner| claim < *owner).map(|owner| owner.1.id()));
        claims.insert(claim.clone());
    }

    pub fn remove(&mut self, port: Port, claim: &Claim, affected: &mut BTreeSet<ObjectId>) {
        let Some(claims) = self.of_port.get_mut(&port) else { return };
        let was_owner = claims.first() == Some(claim);
        claims.remove(claim);
        if was_owner {
            affected.extend(claims.first().map(|owner| owner.1.id()));
        }
        if claims.is_empty() {
            self.of_port.remove(&port);
        }
    }
}

/// Returns the claims of a Gateway.
fn claims(gateway: &ParsedGateway) -> BTreeMap<Port, Claim> {
    let claim = |port: Port| (port, (!is_at_home(gateway.home, port.1), gateway.precedence.clone()));
    gateway.binds().into_iter().map(claim).collect()
}
