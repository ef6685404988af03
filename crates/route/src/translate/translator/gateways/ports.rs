//! The ports of the Envoys that Gateways ask for. All Gateways share the Envoys, so each port belongs to one Gateway.
//!
//! The leader allocates different ports, but anyone who may write a Service can ask for the port of another Gateway. Envoy
//! would refuse one of two listeners with one address.

use std::collections::{BTreeMap, BTreeSet};

use crate::objects::{ObjectId, ObjectKey, Precedence, Transport};
use crate::translate::gateway::listener::Gateway;

/// A port of the Envoys.
type Port = (Transport, u16);

/// The Gateways that ask for each port.
#[derive(Debug, Default)]
pub struct PortClaims {
    of_port: BTreeMap<Port, BTreeSet<Precedence>>,
    of_gateway: BTreeMap<ObjectKey, (Precedence, BTreeSet<Port>)>,
}

impl PortClaims {
    /// Replaces the claims of a Gateway, and releases the ports of `now` that older Gateways ask for. Returns the Gateways
    /// that gain or lose a port thereby.
    pub fn claim(&mut self, key: &ObjectKey, now: Option<&mut Gateway>) -> BTreeSet<ObjectId> {
        let mut affected = BTreeSet::new();
        let wanted = now.as_deref().map(|gateway| (gateway.precedence.clone(), gateway.binds()));
        let before = self.of_gateway.remove(key);
        if before != wanted {
            if let Some((precedence, ports)) = &before {
                ports.iter().for_each(|port| self.remove(*port, precedence, &mut affected));
            }
            if let Some((precedence, ports)) = &wanted {
                ports.iter().for_each(|port| self.insert(*port, precedence, &mut affected));
            }
            affected.remove(&crate::objects::Kind::GATEWAY.id(key.clone()));
        }
        if let (Some(gateway), Some((precedence, ports))) = (now, &wanted) {
            for port in ports.iter().filter(|port| self.owner(**port) != Some(precedence)) {
                gateway.release(*port);
            }
        }
        if let Some(wanted) = wanted {
            self.of_gateway.insert(key.clone(), wanted);
        }
        affected
    }

    fn owner(&self, port: Port) -> Option<&Precedence> {
        self.of_port.get(&port)?.first()
    }

    fn insert(&mut self, port: Port, precedence: &Precedence, affected: &mut BTreeSet<ObjectId>) {
        let claims = self.of_port.entry(port).or_default();
        affected.extend(claims.first().filter(|owner| precedence < *owner).map(Precedence::id));
        claims.insert(precedence.clone());
    }

    fn remove(&mut self, port: Port, precedence: &Precedence, affected: &mut BTreeSet<ObjectId>) {
        let Some(claims) = self.of_port.get_mut(&port) else { return };
        let was_owner = claims.first() == Some(precedence);
        claims.remove(precedence);
        if was_owner {
            affected.extend(claims.first().map(Precedence::id));
        }
        if claims.is_empty() {
            self.of_port.remove(&port);
        }
    }
}
