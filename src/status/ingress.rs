//! The status of an Ingress: the addresses of the Envoys, written when all Envoys serve the Ingress, and withdrawn when it is
//! no longer ours or has lost all that it asks for.
//!
//! The list of addresses is atomic for the API server: no field manager can own an entry of it. It is therefore written as a
//! whole. A server-side apply would take the whole list from its last writer.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Ingress;
use serde_json::{Value, json};

use super::kind::{Address, Facts, Goal, HasStatus};

impl HasStatus for Ingress {
    type Status = Vec<Address>;

    fn version(&self) -> &Arc<str> {
        &self.status.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Self::Status>> {
        let (is, ours) = (&self.status.addresses, facts.addresses);
        let by_us = || self.status.writers.iter().any(|writer| **writer == *facts.manager);
        let others = || is.iter().filter(|address| !ours.contains(address)).cloned().collect();
        let goal = match facts.published {
            // No request reaches it: our addresses would send clients to the backends of others.
            Some(published) if !published.served => {
                Goal { status: if by_us() { Vec::new() } else { others() }, needs: None, cause: 0 }
            }
            Some(_) if ours.is_empty() || **is == *ours => return None,
            Some(published) => Goal { status: ours.to_vec(), needs: Some(published.clone()), cause: 0 },
            // Another controller may have written the same address. Only addresses that we wrote are withdrawn.
            None => {
                Goal { status: if by_us() || facts.withdrawing { others() } else { is.clone() }, needs: None, cause: 0 }
            }
        };
        (goal.status != *is).then_some(goal)
    }

    fn patch(&self, addresses: &Self::Status, _envoys: usize, _now: Timestamp) -> Value {
        let addresses = (!addresses.is_empty()).then_some(addresses);
        json!({ "loadBalancer": { "ingress": addresses } })
    }

    fn summary(addresses: &Self::Status) -> String {
        match addresses.is_empty() {
            true => "no address, because nothing of it is served".to_owned(),
            false => format!("reachable at {}", list(addresses)),
        }
    }
}

/// `192.0.2.1, lb.example.com`
pub(super) fn list(addresses: &[Address]) -> String {
    let text = |address: &Address| address.ip.clone().or_else(|| address.hostname.clone()).unwrap_or_default();
    addresses.iter().map(text).collect::<Vec<_>>().join(", ")
}
