//! The parser of a whole Gateway: its listeners, their ports, and its conditions.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::{Gateway, Listener};
use crate::model::ListenerId;
use crate::objects::gateway::{self, GatewayClass};
use crate::objects::{GatewayService, Kind, ObjectKey, Revision, Service, Transport};
use crate::settings::Listeners;
use crate::translate::dialect::Reading;
use crate::translate::gateway::{TARGET_PORTS, service_key};
use crate::translate::graph::Input;
use crate::translate::source::Reads;
use crate::translate::verdict::{Status, Verdict};

/// Parses a Gateway. Returns its inputs alone if its class is not one of ours.
pub fn parse(gateway: &gateway::Gateway, mut reading: Reading) -> Result<Gateway, Reads> {
    let class = ObjectKey::new("", &gateway.spec.gateway_class_name);
    let objects = reading.context.objects;
    let controller = &reading.context.settings.gateway.controller;
    let is_ours = objects.get::<GatewayClass>(&class).is_some_and(|class| class.spec.controller_name == *controller);
    reading.record(Input::new(Kind::GATEWAY_CLASS, class));
    if !is_ours {
        return Err(reading.into_reads());
    }
    let origin = gateway.meta.object_ref(Kind::GATEWAY);
    let mut parser = Parser { gateway, origin: &origin, reading, verdicts: Vec::new() };
    let service = parser.service();
    let mut listeners: Vec<Listener> =
        gateway.spec.listeners.iter().map(|listener| parser.listener(listener)).collect();
    parser.conflicts(&mut listeners);
    parser.whole(&listeners);
    let reserved = &parser.reading.context.settings.listeners;
    let mut ports = Vec::new();
    let valid: Vec<bool> = listeners.iter().map(|listener| parser.is_served() && parser.is_valid(listener)).collect();
    for (listener, _) in listeners.iter_mut().zip(valid).filter(|(_, valid)| *valid) {
        let Some(place) = listener.place() else { continue };
        ports.push(place);
        let of_service = service.map(|service| {
            service.ports.iter().find(|(transport, port, _)| (*transport, *port) == place).map(|(_, _, target)| *target)
        });
        // A tenant may write the Service. Any other port could be one of another listener of the Envoys.
        let of_service = of_service.map(|target| target.filter(|target| TARGET_PORTS.contains(target)));
        let bind = of_service.unwrap_or_else(|| objects.from_operator.then_some(listener.port));
        let bind = match bind {
            Some(port) if is_reserved(port, reserved) => {
                let message = format!("a listener of the settings has port {port}");
                parser.verdict(Some(&listener.name), "Accepted", Status::False, "PortUnavailable", message);
                None
            }
            bind => bind,
        };
        listener.bound = bind.map(|bind| (listener_id(&gateway.meta.key, place), bind));
    }
    ports.sort_unstable();
    ports.dedup();
    let Parser { reading, verdicts, .. } = parser;
    // The Service and the Secrets decide on which ports Envoy listens, and the spec stays the same. The Envoys have to
    // accept each change before the Gateway is programmed.
    let bound: Vec<Option<u16>> = listeners.iter().map(|one| one.bound.as_ref().map(|(_, port)| *port)).collect();
    Ok(Gateway {
        revision: Revision::new(&gateway.meta, &(&gateway.spec, bound)),
        precedence: objects.precedence(Kind::GATEWAY, &gateway.meta),
        home: super::super::home(&gateway.meta.uid),
        listeners: listeners.into(),
        ports,
        reads: reading.into_reads(),
        verdicts: verdicts.into(),
        origin,
    })
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
    let Listeners { http, https, stats, stats_tls, overload_probe, admin, .. } = listeners;
    [http, https, stats, &stats_tls.at, overload_probe, admin].iter().any(|bind| bind.port == port)
}

/// The state of parsing one Gateway.
pub(super) struct Parser<'p, 'r> {
    /// The Gateway.
    pub gateway: &'p gateway::Gateway,
    origin: &'p ObjectRef,
    /// The inputs.
    pub reading: Reading<'r>,
    /// The conditions so far.
    pub verdicts: Vec<Verdict>,
}

impl<'r> Parser<'_, 'r> {
    /// Returns the Service of the Gateway, if it has been created.
    fn service(&mut self) -> Option<&'r GatewayService> {
        let key = service_key(&self.gateway.meta.key, &self.gateway.spec.gateway_class_name);
        let service = self.reading.context.objects.get::<Service>(&key);
        self.reading.record(Input::new(Kind::SERVICE, key));
        service?.gateway.as_deref().filter(|service| service.name == self.gateway.meta.key.name)
    }

    /// Adds a condition of a listener or of the whole Gateway.
    pub fn verdict(
        &mut self,
        listener: Option<&Arc<str>>,
        condition: &'static str,
        status: Status,
        reason: &'static str,
        message: String,
    ) {
        let listener = listener.cloned();
        let verdict = Verdict::new(self.origin.clone(), condition, status, reason);
        self.verdicts.push(Verdict { listener, message, ..verdict });
    }

    /// Returns whether a listener has a supported protocol, a host name, and no conflict.
    fn is_accepted(&self, listener: &Listener) -> bool {
        let is_of = |verdict: &&Verdict| verdict.listener.as_ref() == Some(&listener.name);
        let refuses = |one: &Verdict| one.condition == "Accepted" && one.status == Status::False;
        !self.verdicts.iter().filter(is_of).any(refuses)
    }

    /// Returns whether a listener can be served.
    fn is_valid(&self, listener: &Listener) -> bool {
        let is_usable = listener.protocol.as_ref().is_some_and(|protocol| !protocol.lacks_pairs());
        is_usable && self.is_accepted(listener)
    }

    /// Returns whether the Gateway as a whole is accepted.
    fn is_served(&self) -> bool {
        let refuses =
            |one: &Verdict| one.listener.is_none() && one.condition == "Accepted" && one.status == Status::False;
        !self.verdicts.iter().any(refuses)
    }

    /// Decides the conditions of the whole Gateway.
    fn whole(&mut self, listeners: &[Listener]) {
        let spec = &self.gateway.spec;
        let is_known = |kind: Option<&str>| matches!(kind, None | Some("IPAddress" | "Hostname"));
        if let Some(address) = spec.addresses.iter().find(|address| !is_known(address.r#type.as_deref())) {
            let message = format!("address type {:?} is not supported", address.r#type.as_deref().unwrap_or_default());
            self.verdict(None, "Accepted", Status::False, "UnsupportedAddress", message);
        }
        let parameters = spec.infrastructure.as_ref().and_then(|infrastructure| infrastructure.parameters_ref.as_ref());
        if let Some(parameters) = parameters {
            let message = format!("parameters of kind {:?} are not supported", parameters.kind);
            self.verdict(None, "Accepted", Status::False, "InvalidParameters", message);
        }
        let invalid: Vec<&str> =
            listeners.iter().filter(|listener| !self.is_accepted(listener)).map(|listener| &*listener.name).collect();
        match invalid.is_empty() {
            true => self.verdict(None, "Accepted", Status::True, "Accepted", String::new()),
            false => {
                let status = if invalid.len() == listeners.len() { Status::False } else { Status::True };
                let message = format!("listeners that are not valid: {}", invalid.join(", "));
                self.verdict(None, "Accepted", status, "ListenersNotValid", message);
            }
        }
    }
}
