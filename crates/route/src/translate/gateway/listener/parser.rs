//! The parser of a whole Gateway: its listeners and those of its ListenerSets, their ports, and its conditions.

use std::sync::Arc;

use super::conflicts::Claims;
use super::declared::Declared;
use super::{Gateway, Listener, sets};
use crate::model::ListenerId;
use crate::objects::gateway::{self, EnvoyFleetSpec, GatewayClass, ListenerSet};
use crate::objects::{GatewayService, Kind, ObjectKey, Revision, Service, Transport};
use crate::settings::Listeners;
use crate::translate::dialect::Resolver;
use crate::translate::gateway::{TARGET_PORTS, client_certificates, fleet, service_key};
use crate::translate::graph::Input;
use crate::translate::source::Dependencies;
use crate::translate::verdict::Status;

/// Parses a Gateway with `sets`, the ListenerSets that name it. Returns its inputs alone if its class is not one of ours.
pub fn parse(
    gateway: &gateway::Gateway,
    sets: &[&ListenerSet],
    mut resolver: Resolver,
) -> Result<Gateway, Dependencies> {
    let key = ObjectKey::new("", &gateway.spec.gateway_class_name);
    let objects = resolver.context.objects;
    let controller = &resolver.context.settings.gateway.controller;
    let class = objects.get::<GatewayClass>(&key).filter(|class| class.spec.controller_name == *controller);
    resolver.record(Input::new(Kind::GATEWAY_CLASS, key));
    let Some(class) = class else { return Err(resolver.into_dependencies()) };
    let declared = Declared::new(gateway.meta.object_ref(Kind::GATEWAY), None);
    let mut parser = Parser { gateway, declared, resolver };
    let service = parser.service();
    let certificate = parser.client_certificate();
    for listener in &gateway.spec.listeners {
        let listener = parser.listener(listener);
        parser.declared.listeners.push(listener);
    }
    let routes_of_others = parser.declared.listeners.iter().any(|listener| listener.namespaces.has_others());
    let is_shared = routes_of_others || sets::allowed(gateway).has_others();
    let mut claims = Claims::new(&gateway.meta.key);
    claims.add(&mut parser.declared);
    let fleet = parser.whole(class);
    let Parser { declared: mut own, resolver, .. } = parser;
    let (mut sets, resolver) = sets::parse(gateway, sets, &own, &mut claims, resolver);
    let settings = resolver.context.settings;
    let ports = Ports { gateway, service, reserved: &settings.listeners, of_operator: objects.from_operator };
    let mut wanted = Vec::new();
    if own.is_served() {
        ports.bind(&mut own, &mut wanted);
        wanted.sort_unstable();
        sets.iter_mut().for_each(|set| ports.bind(&mut set.declared, &mut wanted));
    }
    // The Service and the Secrets decide on which ports Envoy listens, and the spec stays the same. The Envoys have to
    // accept each change before the Gateway is programmed.
    let bound: Vec<Option<u16>> = own.listeners.iter().map(|one| one.bound.as_ref().map(|(_, port)| *port)).collect();
    let mut listeners = own.listeners;
    let mut added = Vec::new();
    for set in sets {
        let (set, of_set) = sets::finish(set);
        added.push(set);
        listeners.extend(of_set);
    }
    Ok(Gateway {
        revision: Revision::new(&gateway.meta, &(&gateway.spec, bound)),
        precedence: objects.precedence(Kind::GATEWAY, &gateway.meta),
        home: super::super::home(&gateway.meta.uid),
        listeners: listeners.into(),
        is_shared,
        sets: added.into(),
        certificate,
        is_draining: fleet.is_some() && service.is_some_and(|service| service.is_dedicated && service.is_draining),
        is_moving: fleet.is_some() && service.is_some_and(|service| !service.is_dedicated),
        fleet,
        ports: wanted,
        dependencies: resolver.into_dependencies(),
        verdicts: own.verdicts.into(),
        origin: own.origin,
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

/// The ports of the Envoys for the listeners of one Gateway.
struct Ports<'a> {
    gateway: &'a gateway::Gateway,
    service: Option<&'a GatewayService>,
    reserved: &'a Listeners,
    /// Whether Envoy listens on the ports of the listeners themselves without a Service.
    of_operator: bool,
}

impl Ports<'_> {
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
        // A tenant may write the Service. Any other port could be one of another listener of the Envoys.
        target.map(|(_, _, target)| *target).filter(|target| TARGET_PORTS.contains(target))
    }
}

/// The state of parsing the listeners of one object.
pub(super) struct Parser<'p, 'r> {
    /// The Gateway.
    pub gateway: &'p gateway::Gateway,
    /// The Gateway or a ListenerSet, whose listeners are parsed.
    pub declared: Declared,
    /// The inputs.
    pub resolver: Resolver<'r>,
}

impl<'r> Parser<'_, 'r> {
    /// Returns the Service of the Gateway, if it has been created.
    fn service(&mut self) -> Option<&'r GatewayService> {
        let key = service_key(&self.gateway.meta.key, &self.gateway.spec.gateway_class_name);
        let service = self.resolver.context.objects.get::<Service>(&key);
        self.resolver.record(Input::new(Kind::SERVICE, key));
        service?.gateway.as_deref().filter(|service| service.name == self.gateway.meta.key.name)
    }

    /// Decides the conditions of the whole Gateway of `class`. Returns its fleet.
    fn whole(&mut self, class: &GatewayClass) -> Option<Arc<EnvoyFleetSpec>> {
        let spec = &self.gateway.spec;
        let is_known = |kind: Option<&str>| matches!(kind, None | Some("IPAddress" | "Hostname"));
        if let Some(address) = spec.addresses.iter().find(|address| !is_known(address.r#type.as_deref())) {
            let message = format!("address type {:?} is not supported", address.r#type.as_deref().unwrap_or_default());
            self.declared.verdict(None, "Accepted", Status::False, "UnsupportedAddress", message);
        }
        let fleet = fleet::of_gateway(self.gateway, class, &mut self.resolver).unwrap_or_else(|message| {
            self.declared.verdict(None, "Accepted", Status::False, "InvalidParameters", message);
            None
        });
        if client_certificates::is_insecure(self.gateway) {
            let message = "clients without a valid certificate are accepted, because a mode is AllowInsecureFallback";
            let message = message.to_owned();
            self.declared.verdict(
                None,
                "InsecureFrontendValidationMode",
                Status::True,
                "ConfigurationChanged",
                message,
            );
        }
        self.declared.accept(Listener::is_accepted);
        fleet
    }
}
