//! The parser of a single ExtensionService.

use std::time::Duration;

use lockgate_xds::provenance::ObjectRef;

use super::Extension;
use crate::duration::{self, TimeLimit};
use crate::model::{BackendFeatures, CircuitBreakers, LoadBalancing, ServicePortId, UpstreamProtocol, Verification};
use crate::objects::http_proxy::{
    CircuitBreakerPolicy, ExtensionService, ExtensionTarget, LoadBalancerPolicy, TimeoutPolicy, UpstreamValidation,
};
use crate::objects::{Kind, ObjectKey, Service, Transport};
use crate::translate::backend::{self, BackendFault};
use crate::translate::dialect::Resolver;
use crate::translate::graph::Input;
use crate::translate::http_proxy::authorization::LONGEST;
use crate::translate::http_proxy::balancing;
use crate::translate::http_proxy::policies::LONGEST_IDLE;
use crate::translate::http_proxy::report::{ProxyFault, ProxyReport};
use crate::translate::http_proxy::server::{Server, ServerTrafficPolicy};
use crate::translate::http_proxy::situation::{self, Block, Situation, error};
use crate::translate::http_proxy::validation::{self, ValidationField};
use crate::translate::problem::{Message, Reason};

/// The maximum number of Services. Each root that refers to the object reads all of them.
const MOST: usize = 16;

/// The consequence of a server that cannot be called.
const CLOSED: &str = "routes that need it are answered 503";

const INCONSISTENT: Situation = error("SpecError", "InconsistentProtocol", Reason::ProxyNotValid);
const PROTOCOL_UNKNOWN: Situation = error("SpecError", "UnsupportedProtocol", Reason::UnsupportedBackend);
const TIMEOUT_NOT_VALID: Situation = error("SpecError", "TimeoutPolicyNotValid", Reason::ProxyNotValid);
const TYPE_UNSUPPORTED: Situation = error("ServiceError", "UnsupportedServiceType", Reason::UnsupportedBackend);
const UPSTREAM_VALIDATION: Situation = error("SpecError", "TLSUpstreamValidation", Reason::ProxyNotValid);

/// Returns the server of an ExtensionService, and reports all faults. The error is the field and the message of the fault due to which
/// the server must not be called.
pub fn parse(
    service: &ExtensionService,
    report: &mut ProxyReport,
    resolver: &mut Resolver,
) -> Result<Extension, String> {
    let origin = service.meta.object_ref(Kind::EXTENSION_SERVICE);
    let mut parser = Parser { service, origin, report, resolver, fault: None };
    let extension = parser.extension();
    match (parser.fault, extension) {
        (None, Some(extension)) => Ok(extension),
        (fault, _) => Err(fault.unwrap_or_default()),
    }
}

struct Parser<'p, 'r> {
    service: &'p ExtensionService,
    origin: ObjectRef,
    report: &'p mut ProxyReport,
    resolver: &'p mut Resolver<'r>,
    /// The first fault due to which the server must not be called.
    fault: Option<String>,
}

impl Parser<'_, '_> {
    fn extension(&mut self) -> Option<Extension> {
        let spec = &self.service.spec;
        for name in spec.rest.names() {
            let message = format!("field {name:?} is not supported");
            self.close(&format!("spec.{name}"), &Block::Spec.unsupported(), message);
        }
        if !matches!(&*spec.protocol_version, "" | "v3") {
            let message = format!("{:?} is not \"v3\"", spec.protocol_version);
            self.close("spec.protocolVersion", &PROTOCOL_UNKNOWN, message);
        }
        let written = spec.protocol.as_deref().filter(|text| !text.is_empty()).unwrap_or("h2");
        let protocol = match written {
            "h2" => Some(UpstreamProtocol::H2),
            "h2c" => Some(UpstreamProtocol::H2c),
            "http/1.1" => None,
            other => {
                let message = format!("{other:?} is none of \"h2\", \"h2c\", and \"http/1.1\"");
                self.close("spec.protocol", &PROTOCOL_UNKNOWN, message);
                None
            }
        };
        let (timeout, idle_timeout) = self.timeouts(spec.timeout_policy.as_ref());
        let load_balancing = self.load_balancing(spec.load_balancer_policy.as_ref());
        let limits = spec.circuit_breaker_policy.as_ref().map(|policy| self.limits(policy));
        let verification = spec.validation.as_ref().and_then(|validation| self.verification(validation, written));
        let features = BackendFeatures { load_balancing, idle_timeout, ..BackendFeatures::default() };
        let (server, shares) = self.server(&ServerTrafficPolicy { protocol, verification, limits, features })?;
        Some(Extension { server, shares, timeout, is_http1: written == "http/1.1" })
    }

    /// Reports a fault due to which the server must not be called.
    fn close(&mut self, field: &str, situation: &Situation, message: impl Into<Message>) {
        let message = message.into();
        self.fault.get_or_insert_with(|| format!("{field}: {message}"));
        self.report.add(&self.origin, field, situation, message, CLOSED);
    }

    fn warn(&mut self, field: &str, message: impl Into<Message>, consequence: &str) {
        self.report.add(&self.origin, field, &Block::Spec.ignored(), message, consequence);
    }

    /// Returns the time limit of an answer, and the time after which an idle connection is closed.
    fn timeouts(&mut self, policy: Option<&TimeoutPolicy>) -> (Option<Duration>, Option<Duration>) {
        let Some(TimeoutPolicy { response, idle, idle_connection, rest }) = policy else { return (None, None) };
        let field = "spec.timeoutPolicy";
        self.report.add_rest(&self.origin, field, (rest, &[]), Block::Spec, "left out");
        let (response, idle) = (self.limit("response", response), self.limit("idle", idle));
        if idle.is_some() {
            self.warn(&format!("{field}.idle"), "an answer has no limit of the time without data", "left out");
        }
        let response = match response {
            Some(TimeLimit::After(time)) => Some(time.min(LONGEST)),
            Some(TimeLimit::Infinite) => Some(LONGEST),
            Some(TimeLimit::Default) | None => None,
        };
        let idle_connection = match self.limit("idleConnection", idle_connection) {
            Some(TimeLimit::After(time)) if time <= LONGEST_IDLE => Some(time),
            Some(TimeLimit::After(_) | TimeLimit::Infinite) => {
                let hours = LONGEST_IDLE.as_secs() / 3600;
                let message = format!("longer than {hours}h");
                self.warn(&format!("{field}.idleConnection"), message, &format!("{hours}h applied"));
                Some(LONGEST_IDLE)
            }
            Some(TimeLimit::Default) | None => None,
        };
        (response, idle_connection)
    }

    fn limit(&mut self, name: &str, text: &str) -> Option<TimeLimit> {
        let parsed = duration::limit(text);
        if parsed.is_none() && !text.is_empty() {
            let (field, message) = (format!("spec.timeoutPolicy.{name}"), format!("{text:?} is not a duration"));
            self.report.add(&self.origin, field, &TIMEOUT_NOT_VALID, message, "default applied");
        }
        parsed
    }

    fn load_balancing(&mut self, policy: Option<&LoadBalancerPolicy>) -> Option<LoadBalancing> {
        let LoadBalancerPolicy { strategy, request_hash_policies, rest } = policy?;
        let field = "spec.loadBalancerPolicy";
        self.report.add_rest(&self.origin, field, (rest, &[]), Block::Spec, "left out");
        let Some(algorithm) = balancing::unhashed(strategy) else {
            let message = format!("strategy {strategy:?} is not possible for a server of policies");
            self.warn(&format!("{field}.strategy"), message, "RoundRobin applied");
            return None;
        };
        if !request_hash_policies.is_empty() {
            let message = "requests to a server of policies are not hashed";
            self.warn(&format!("{field}.requestHashPolicies"), message, "left out");
        }
        Some(LoadBalancing { algorithm, ..LoadBalancing::default() })
    }

    fn limits(&mut self, policy: &CircuitBreakerPolicy) -> CircuitBreakers {
        let CircuitBreakerPolicy {
            max_connections,
            max_pending_requests,
            max_requests,
            max_retries,
            per_host_max_connections,
            rest,
        } = policy;
        let field = "spec.circuitBreakerPolicy";
        self.report.add_rest(&self.origin, field, (rest, &[]), Block::Spec, "left out");
        let most = self.resolver.context.settings.tenants.max_circuit_breaker;
        let mut limit = |name: &str, number: i64| match u32::try_from(number) {
            Ok(number) if number <= most => Some(number).filter(|number| *number > 0),
            Err(_) if number < 0 => {
                self.warn(&format!("{field}.{name}"), format!("{number} is negative"), "left out");
                None
            }
            _ => {
                let message = format!("{number} is larger than {most}, the setting tenants.maxCircuitBreaker");
                self.warn(&format!("{field}.{name}"), message, &format!("{most} applied"));
                Some(most)
            }
        };
        CircuitBreakers {
            max_connections: limit("maxConnections", *max_connections),
            max_pending_requests: limit("maxPendingRequests", *max_pending_requests),
            max_requests: limit("maxRequests", *max_requests),
            max_retries: limit("maxRetries", *max_retries),
            per_host_max_connections: limit("perHostMaxConnections", *per_host_max_connections),
        }
    }

    fn verification(&mut self, validation: &UpstreamValidation, protocol: &str) -> Option<(Verification, usize)> {
        let field = "spec.validation";
        if protocol != "h2" {
            let message =
                format!("a server with protocol {protocol:?} is called without TLS, so there is no certificate");
            self.close(field, &INCONSISTENT, message);
        }
        let place = ValidationField {
            origin: &self.origin,
            field,
            block: Block::Spec,
            not_valid: UPSTREAM_VALIDATION,
            not_delegated: situation::CA_NOT_DELEGATED,
            closed: CLOSED,
        };
        let parsed = validation::parse(validation, None, place, self.report, self.resolver);
        if parsed.is_err() {
            self.fault.get_or_insert_with(|| format!("{field}: the certificate of the server cannot be verified"));
        }
        parsed.ok()
    }

    /// Returns the server that is called: the Service with the largest weight, or the first one without weights. If there are others, it has
    /// a share for each of them, and they follow. A Service that is not valid is skipped.
    fn server(&mut self, wanted: &ServerTrafficPolicy) -> Option<(Server, Vec<Server>)> {
        let (services, field) = (&self.service.spec.services, "spec.services");
        if services.len() > MOST {
            self.close(field, &Block::Spec.unsupported(), format!("more than {MOST} Services"));
            return None;
        }
        let has_weights = services.iter().any(|service| service.weight.is_some());
        let (mut valid, mut fault) = (Vec::<(u32, Server, ServicePortId)>::new(), None);
        for (index, service) in services.iter().enumerate() {
            let weight = if has_weights { service.weight.unwrap_or(0) } else { 1 };
            match self.resolve(service, wanted) {
                Ok((server, port)) if weight > 0 => {
                    let weight = u32::try_from(weight).unwrap_or(u32::MAX);
                    match valid.iter_mut().find(|(_, _, other)| *other == port) {
                        Some((sum, _, _)) => *sum = sum.saturating_add(weight),
                        None => valid.push((weight, server, port)),
                    }
                }
                Ok(_) => {}
                Err(ProxyFault { situation, field: below, message }) => {
                    let field = format!("{field}[{index}]{below}");
                    fault.get_or_insert_with(|| format!("{field}: {message}"));
                    let consequence = if services.len() > 1 { "skipped" } else { CLOSED };
                    self.report.add(&self.origin, field, &situation, message, consequence);
                }
            }
        }
        let largest = valid.iter().map(|(weight, ..)| *weight).max();
        let Some(at) = valid.iter().position(|(weight, ..)| Some(*weight) == largest) else {
            match fault {
                Some(fault) => drop(self.fault.get_or_insert(fault)),
                None => {
                    let message = "no Service has a share of the calls";
                    self.close(field, &situation::SERVICE_UNRESOLVED, message);
                }
            }
            return None;
        };
        let shares: Vec<_> = valid.iter().map(|(weight, _, port)| (port.clone(), *weight)).collect();
        let (_, server, _) = valid.remove(at);
        if valid.is_empty() {
            return Some((server, Vec::new()));
        }
        let features = BackendFeatures { shares, ..wanted.features.clone() };
        let wanted = ServerTrafficPolicy { features, ..wanted.clone() };
        let server = Server::new(server.service, server.port, wanted, self.resolver.context);
        Some((server, valid.into_iter().map(|(_, server, _)| server).collect()))
    }

    /// Returns a Service. No cluster becomes a dependency.
    fn resolve(
        &mut self,
        target: &ExtensionTarget,
        wanted: &ServerTrafficPolicy,
    ) -> Result<(Server, ServicePortId), ProxyFault> {
        let ExtensionTarget { name, port, weight: _, rest } = target;
        if let Some(name) = rest.names().next() {
            let message = format!("field {name:?} is not supported");
            return Err(ProxyFault::new(Block::Service.unsupported(), "", message));
        }
        let number = u16::try_from(*port).ok().filter(|port| *port > 0);
        let number = number.ok_or_else(|| {
            let message = format!("port {port} is not a number from 1 to 65535");
            ProxyFault::new(situation::SERVICE_PORT_NOT_VALID, ".port", message)
        })?;
        let (context, namespace) = (self.resolver.context, &self.service.meta.key.namespace);
        let key = ObjectKey { namespace: namespace.clone(), name: name.as_str().into() };
        self.resolver.record(Input::new(Kind::SERVICE, key.clone()));
        if context.objects.get::<Service>(&key).is_some_and(|service| service.external_name.is_some()) {
            let message = format!("Service \"{key}\" has type \"ExternalName\"");
            return Err(ProxyFault::new(TYPE_UNSUPPORTED, ".name", message));
        }
        let server = Server::new(key.clone(), number, wanted.clone(), context);
        let (port, policy) = (server.wanted_port(), server.policy.clone());
        let of_fault = |fault: BackendFault| ProxyFault::new(situation::of_reason(fault.reason), "", fault.message);
        let located = backend::locate(context, key, port, Transport::Tcp, policy, |_| {}).map_err(of_fault)?;
        let made = located.make(context);
        made.cluster.map_err(|fault| of_fault(*fault))?;
        match made.denied {
            Some(denied) => Err(ProxyFault::new(Block::Service.unsupported(), ".name", denied.trim_end())),
            None => Ok((server, located.cluster.port)),
        }
    }
}
