//! Checks for settings of the controller process that contradict each other.

use std::net::SocketAddr;

use super::super::Process;
use super::super::values::times::text;
use super::Checks;

/// A key pair must be renewed and reach all mounts within a third of its validity, even if its authority is lost when it is due. The
/// successor of the authority takes two pauses, and the leader must complete two passes.
const PAUSES: u32 = 12;
/// An authority must be valid longer than its key pairs and a rotation in three steps.
const LIVES: u32 = 4;

impl Checks<'_> {
    /// Checks everything that does not depend on the machine.
    pub(super) fn check_process(&mut self) {
        let Process { xds, admin, metrics, leader_election: election, .. } = &self.resolved.settings.process;
        let addresses: Vec<(&'static str, SocketAddr)> = [
            metrics.address.map(|address| ("metrics.address", address)),
            Some(("admin.address", admin.address)),
            Some(("xds.address", xds.address)),
        ]
        .into_iter()
        .flatten()
        .collect();
        if metrics.tls.is_some() && metrics.address.is_none() {
            let message = "TLS needs metrics.address, which is not set";
            self.add_fault(&["metrics.tls"], message);
        }
        for (i, (key, address)) in addresses.iter().enumerate() {
            for (other, taken) in &addresses[i + 1..] {
                if overlap(*address, *taken) {
                    let message = format!("{address} is taken by {other} ({taken}); each server needs its own port");
                    self.add_fault(&[key, other], message);
                }
            }
        }
        for (key, value, other, least, times) in [
            ("xds.certificateLifetime", xds.certificate_lifetime, "xds.rotationPause", xds.rotation_pause, PAUSES),
            ("xds.caLifetime", xds.authority_lifetime, "xds.certificateLifetime", xds.certificate_lifetime, LIVES),
        ] {
            if value < least.saturating_mul(times) {
                let (value, least) = (text(value), text(least));
                let message = format!("expected {key} ({value}) to be at least {times} times {other} ({least})");
                self.add_fault(&[key, other], message);
            }
        }
        for (key, value, other, more) in [
            (
                "leaderElection.renewDeadline",
                election.renew_deadline,
                "leaderElection.leaseDuration",
                election.lease_duration,
            ),
            (
                "leaderElection.retryPeriod",
                election.retry_period,
                "leaderElection.renewDeadline",
                election.renew_deadline,
            ),
        ] {
            if value >= more {
                let (value, more) = (text(value), text(more));
                self.add_fault(&[key, other], format!("expected {key} ({value}) to be less than {other} ({more})"));
            }
        }
    }
}

/// Returns whether two sockets cannot listen at the same time.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && (everywhere || one.ip() == other.ip())
}
