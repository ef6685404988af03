//! The status of an Ingress: the addresses of the Envoys. The leader writes them when all Envoys serve the Ingress, and
//! withdraws them when the Ingress belongs to another controller or has lost all its routes.
//!
//! The list of addresses is atomic for the API server: no field manager can own a single entry. The leader therefore writes the
//! whole list. A server-side apply would take the list from its last writer.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use lockgate_route::objects::Ingress;
use serde_json::{Value, json};

use super::kind::{Facts, Goal, HasStatus, LoadBalancerAddress};

impl HasStatus for Ingress {
    type Status = Vec<LoadBalancerAddress>;

    fn version(&self) -> &Arc<str> {
        &self.status.version
    }

    fn goal(&self, facts: &Facts<'_>) -> Option<Goal<Self::Status>> {
        let (is, ours) = (&self.status.addresses, facts.addresses);
        let by_us = || self.status.writers.iter().any(|writer| **writer == *facts.manager);
        let others = || is.iter().filter(|address| !ours.contains(address)).cloned().collect();
        let goal = match facts.published {
            // The Ingress gets no requests. Our addresses would send its clients to the backends of other Ingresses.
            Some(published) if !published.served => Goal::at_once(if by_us() { Vec::new() } else { others() }, 0),
            Some(_) if ours.is_empty() || **is == *ours => return None,
            Some(published) => Goal { needs: Some(published.clone()), ..Goal::at_once(ours.to_vec(), 0) },
            // Another controller may have written the same address, so only our own addresses are withdrawn.
            None => Goal::at_once(if by_us() || facts.withdrawing { others() } else { is.clone() }, 0),
        };
        (goal.status != *is).then_some(goal)
    }

    fn patch(&self, addresses: &Self::Status, _envoys: usize, _now: Timestamp) -> Value {
        let addresses = (!addresses.is_empty()).then_some(addresses);
        json!({ "loadBalancer": { "ingress": addresses } })
    }

    fn summary(addresses: &Self::Status) -> String {
        match addresses.is_empty() {
            true => "no address, because no route of it is served".to_owned(),
            false => format!("reachable at {}", list(addresses)),
        }
    }
}

/// Lists addresses: `192.0.2.1, lb.example.com`.
pub(super) fn list(addresses: &[LoadBalancerAddress]) -> String {
    let text =
        |address: &LoadBalancerAddress| address.ip.clone().or_else(|| address.hostname.clone()).unwrap_or_default();
    addresses.iter().map(text).collect::<Vec<_>>().join(", ")
}
