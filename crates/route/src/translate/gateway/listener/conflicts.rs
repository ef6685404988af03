//! Conflicts between listeners on one port.

use std::collections::BTreeMap;

use super::Listener;
use super::parser::Parser;
use crate::model::Host;
use crate::objects::Transport;
use crate::translate::verdict::Status;

impl Parser<'_, '_> {
    /// Finds listeners that contradict earlier ones of the Gateway. The earlier one is served.
    pub fn conflicts(&mut self, listeners: &mut [Listener]) {
        let mut ports = BTreeMap::<(Transport, u16), (&'static str, Vec<Host>)>::new();
        for listener in listeners {
            let (Some(protocol), Some(place)) = (&listener.protocol, listener.place()) else { continue };
            let (first, hosts) = ports.entry(place).or_insert((protocol.name(), Vec::new()));
            let (reason, message) = if *first != protocol.name() {
                ("ProtocolConflict", format!("an earlier listener has another protocol on port {}", listener.port))
            } else if hosts.contains(&listener.host) {
                let message = format!("an earlier listener has the same hostname on port {}", listener.port);
                ("HostnameConflict", message)
            } else {
                hosts.push(listener.host.clone());
                continue;
            };
            let name = listener.name.clone();
            self.verdicts.retain(|one| one.listener.as_ref() != Some(&name) || one.condition != "Conflicted");
            self.verdict(Some(&name), "Conflicted", Status::True, reason, message.clone());
            self.verdict(Some(&name), "Accepted", Status::False, reason, message);
        }
    }
}
