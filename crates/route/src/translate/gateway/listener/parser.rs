//! The parser of a complete Gateway: its listeners, its ListenerSets, their ports, and its conditions.

use std::sync::Arc;

use super::conflicts::AcceptedListeners;
use super::declared::Declared;
use super::sets::ListenerSetDraft;
use super::{ParsedGateway, ParsedListener, sets};
use crate::model::ListenerId;
use crate::objects::gateway::{self, EnvoyFleetSpec, GatewayClass, ListenerSet};
use crate::objects::{GatewayService, Kind, ObjectKey, Revision, Service, Transport};
use crate::settings::Listeners;
use crate::translate::backend::Context;
use crate::translate::dialect::Resolver;
use crate::translate::gateway::foreign_policies::Effects;
use crate::translate::gateway::{TARGET_PORTS, client_certificates, fleet, service_key};
use crate::translate::graph::Input;
use crate::translate::problem::bounded;
use crate::translate::source::Dependencies;
use crate::translate::verdict::Status;

/// Parses a Gateway with `sets`, the ListenerSets that name it. Returns only its inputs if this controller does not
/// serve its class.
pub fn parse(
    gateway: &gateway::Gateway,
    sets: &[&ListenerSet],
    mut resolver: Resolver,
) -> Result<ParsedGateway, Dependencies> {
    let Some(class) = class_of_ours(gateway, &mut resolver) else { return Err(resolver.into_dependencies()) };
    let declared = Declared::new(gateway.meta.object_ref(Kind::GATEWAY), None);
    let mut parser = Parser { gateway, declared, resolver };
    let service = parser.service();
    let certificate = parser.client_certificate();
    parser.parse_listeners(&gateway.spec.listeners);
    let mut accepted = AcceptedListeners::new(&gateway.meta.key);
    accepted.add(&mut parser.declared);
    let fleet = parser.accept_gateway(class);
    let Parser { declared: mut own, resolver, .. } = parser;
    let (mut drafts, resolver) = sets::parse(gateway, sets, &own, &mut accepted, resolver);
    let Context { objects, settings, .. } = resolver.context;
    let ports = Ports { gateway, service, reserved: &settings.listeners, of_operator: objects.from_operator };
    let wanted = ports.bind_all(&mut own, &mut drafts);
    // The ports on which Envoy listens depend on the Service and the Secrets, not only on the spec. The Envoys have to
    // accept each change of them before the Gateway is programmed.
    let revision = Revision::new(&gateway.meta, &(&gateway.spec, own.bound_ports()));
    let policies = resolver.foreign_policies();
    let of_sets: Vec<Effects> = drafts.iter().map(|draft| draft.effects(policies, settings)).collect();
    let (sets, listeners_of_sets): (Vec<_>, Vec<_>) = drafts.into_iter().map(sets::finish).unzip();
    let effects = policies.effects(Kind::GATEWAY, &gateway.meta, settings);
    own.listeners.iter_mut().for_each(|listener| listener.closed = effects.closed(Some(&listener.name)).cloned());
    let listeners_of_sets = listeners_of_sets.into_iter().zip(&of_sets).flat_map(|(listeners, of_set)| {
        let closed = |name: &str| effects.closed(None).or_else(|| of_set.closed(Some(name))).cloned();
        listeners.into_iter().map(move |listener| ParsedListener { closed: closed(&listener.name), ..listener })
    });
    let listeners = own.listeners.into_iter().chain(listeners_of_sets).collect();
    let problems = effects.problems.into_iter().chain(of_sets.into_iter().flat_map(|of_set| of_set.problems));
    Ok(ParsedGateway {
        revision,
        precedence: objects.precedence(Kind::GATEWAY, &gateway.meta),
        home: super::super::home(&gateway.meta.uid),
        listeners,
        problems_of_policies: bounded(problems.collect()),
        sets: sets.into(),
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

/// Returns the class of a Gateway, if this controller serves the class.
fn class_of_ours<'r>(gateway: &gateway::Gateway, resolver: &mut Resolver<'r>) -> Option<&'r GatewayClass> {
    let key = ObjectKey::new("", &gateway.spec.gateway_class_name);
    let Context { objects, settings, .. } = resolver.context;
    let class = objects.get::<GatewayClass>(&key);
    resolver.record(Input::new(Kind::GATEWAY_CLASS, key));
    class.filter(|class| class.spec.controller_name == settings.gateway.controller)
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

/// The ports of the Envoys for the listeners of one Gateway.
struct Ports<'a> {
    gateway: &'a gateway::Gateway,
    service: Option<&'a GatewayService>,
    reserved: &'a Listeners,
    /// Whether Envoy listens on the ports of the listeners themselves without a Service.
    of_operator: bool,
}

impl Ports<'_> {
    /// Binds the valid listeners of the Gateway and its ListenerSets, if the Gateway is served. Returns their ports.
    fn bind_all(&self, own: &mut Declared, sets: &mut [ListenerSetDraft]) -> Vec<(Transport, u16)> {
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
    /// Parses listeners of the object.
    pub fn parse_listeners(&mut self, listeners: &[gateway::GatewayListener]) {
        for listener in listeners {
            let listener = self.parse_listener(listener);
            self.declared.listeners.push(listener);
        }
    }

    /// Returns the Service of the Gateway, if it has been created.
    fn service(&mut self) -> Option<&'r GatewayService> {
        let key = service_key(&self.gateway.meta.key, &self.gateway.spec.gateway_class_name);
        let service = self.resolver.context.objects.get::<Service>(&key);
        self.resolver.record(Input::new(Kind::SERVICE, key));
        service?.gateway.as_deref().filter(|service| service.name == self.gateway.meta.key.name)
    }

    /// Adds the conditions of the whole Gateway. Returns the spec of its dedicated fleet.
    fn accept_gateway(&mut self, class: &GatewayClass) -> Option<Arc<EnvoyFleetSpec>> {
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
        self.declared.accept(ParsedListener::is_accepted);
        fleet
    }
}
