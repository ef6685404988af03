//! The ports of the Envoys for the listeners of a Gateway and its ListenerSets.

use super::declared::Declared;
use super::sets::ListenerSetDraft;
use crate::model::ListenerId;
use crate::objects::gateway::Gateway;
use crate::objects::{GatewayService, ObjectKey, Transport};
use crate::settings::Listeners;
use crate::translate::gateway::service::TARGET_PORTS;

/// The ports of the Envoys for the listeners of one Gateway.
pub struct Ports<'a> {
    /// The Gateway.
    pub gateway: &'a Gateway,
    /// The Service of the Gateway, if it has been created.
    pub service: Option<&'a GatewayService>,
    /// The listeners of the settings, whose ports are reserved.
    pub reserved: &'a Listeners,
    /// Whether Envoy listens on the ports of the listeners themselves without a Service.
    pub of_operator: bool,
}

impl Ports<'_> {
    /// Binds the valid listeners of the Gateway and its ListenerSets, if the Gateway is served. Returns their ports.
    pub fn bind_all(&self, own: &mut Declared, sets: &mut [ListenerSetDraft]) -> Vec<(Transport, u16)> {
        let mut wanted = Vec::new();
        if own.is_served() {
            self.bind(own, &mut wanted);
            wanted.sort_unstable();
            sets.iter_mut().for_each(|set| self.bind(&mut set.declared, &mut wanted));
        }
        wanted
    }

    /// Binds the valid listeners of an object. Adds their ports to `wanted`.
    fn bind(&self, declared: &mut Declared, wanted: &mut Vec<(Transport, u16)>) {
        for index in 0..declared.listeners.len() {
            let listener = &mut declared.listeners[index];
            let Some(place) = listener.place().filter(|_| listener.is_valid()) else { continue };
            if !wanted.contains(&place) {
                wanted.push(place);
            }
            match self.port(place) {
                Some(port) if is_reserved(port, self.reserved) => {
                    let message = format!("a listener of the settings has port {port}");
                    declared.refuse(index, "PortUnavailable", message);
                }
                Some(port) => listener.bound = Some((listener_id(&self.gateway.meta.key, place), port)),
                None => {}
            }
        }
    }

    /// Returns the port of the Envoys for a port of the Gateway.
    fn port(&self, place: (Transport, u16)) -> Option<u16> {
        let Some(service) = self.service else { return self.of_operator.then_some(place.1) };
        let target = service.ports.iter().find(|(transport, port, _)| (*transport, *port) == place);
        // A tenant may write the Service. Any other port could belong to another listener of the Envoys.
        target.map(|(_, _, target)| *target).filter(|target| TARGET_PORTS.contains(target))
    }
}

/// Returns the Envoy listener of a Gateway for a port: `gateway/shop/public/443`, or `gateway/shop/public/53/udp`.
fn listener_id(gateway: &ObjectKey, (transport, port): (Transport, u16)) -> ListenerId {
    let suffix = match transport {
        Transport::Tcp => "",
        Transport::Udp => "/udp",
    };
    ListenerId::new(&format!("gateway/{gateway}/{port}{suffix}"))
}

/// Returns whether a listener of the settings has this port.
fn is_reserved(port: u16, listeners: &Listeners) -> bool {
    let Listeners { http, https, stats, stats_tls, readiness, overload_probe, admin, .. } = listeners;
    [http, https, stats, &stats_tls.at, readiness, overload_probe, admin].iter().any(|bind| bind.port == port)
}
