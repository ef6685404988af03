//! The parser of a complete Gateway: its listeners, its ListenerSets, their ports, and its conditions.

use std::sync::Arc;

use super::conflicts::AcceptedListeners;
use super::declared::{Declared, Parser};
use super::merged::ParsedGateway;
use super::parsed::ParsedListener;
use super::ports::Ports;
use super::sets;
use crate::objects::gateway::{self, EnvoyFleetSpec, GatewayClass, ListenerSet};
use crate::objects::{GatewayService, Kind, ObjectKey, Revision, Service};
use crate::translate::backend::Context;
use crate::translate::dialect::Resolver;
use crate::translate::gateway::foreign_policies::Effects;
use crate::translate::gateway::service::{home, service_key};
use crate::translate::gateway::{client_certificates, fleet};
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
        home: home(&gateway.meta.uid),
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

impl<'r> Parser<'_, 'r> {
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
