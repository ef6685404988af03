//! The traffic policies of ports of Services, by the annotations of the Services and the settings.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use super::Context;
use super::ports::{Found, WantedPort, find_port, number_and_name};
use crate::duration::TimeLimit;
use crate::model::{CircuitBreakers, TrafficPolicy, UpstreamProtocol, Verification};
use crate::objects::{Kind, ObjectKey, Service, Transport};
use crate::settings::Settings;
use crate::translate::annotations::{self, Reader};
use crate::translate::problem::Problem;

/// Annotations of a Service that set the protocol of its ports. If several name the same port, the last one in this
/// list wins, as in Contour.
const PROTOCOLS: [(&str, UpstreamProtocol); 3] = [
    ("projectcontour.io/upstream-protocol.h2", UpstreamProtocol::H2),
    ("projectcontour.io/upstream-protocol.h2c", UpstreamProtocol::H2c),
    ("projectcontour.io/upstream-protocol.tls", UpstreamProtocol::Tls),
];

/// The annotation for the connect timeout of the Service's endpoints.
const CONNECT_TIMEOUT: &str = "lockgate.dev/connect-timeout";

/// Returns the policy of a port with `protocol`, if the Service exists and names no protocol for the port.
pub fn policy_over(
    context: Context,
    service: &ObjectKey,
    port: WantedPort,
    protocol: UpstreamProtocol,
) -> Option<TrafficPolicy> {
    let service = context.objects.get::<Service>(service)?;
    let Found::Port(port) = find_port(service, port, Transport::Tcp) else { return None };
    let mut reader = Reader::new(&service.meta, Kind::SERVICE);
    let is_named = port.app_protocol.is_some() || annotated_protocol(&mut reader, service, port.port).is_some();
    let policy = || TrafficPolicy { protocol, ..service_policy(service, port.port, context.settings).0 };
    (!is_named).then(policy)
}

/// Returns the policy of a port, if the port exists. `protocol` replaces that of the Service.
pub fn policy_of_port(
    context: Context,
    service: &ObjectKey,
    port: WantedPort,
    protocol: Option<UpstreamProtocol>,
) -> Option<TrafficPolicy> {
    let service = context.objects.get::<Service>(service)?;
    let (number, _) = number_and_name(service, port)?;
    let policy = service_policy(service, number, context.settings).0;
    Some(TrafficPolicy { protocol: protocol.unwrap_or(policy.protocol), ..policy })
}

/// Returns the policy of a port over TLS with this verification and client certificate, if the port exists. `protocol`
/// applies if the Service names none.
pub fn policy_over_tls(
    context: Context,
    service: &ObjectKey,
    port: WantedPort,
    protocol: Option<UpstreamProtocol>,
    verification: Arc<Verification>,
) -> Option<TrafficPolicy> {
    let over = protocol.and_then(|protocol| policy_over(context, service, port, protocol));
    let service = context.objects.get::<Service>(service)?;
    let (number, _) = number_and_name(service, port)?;
    let policy = over.unwrap_or_else(|| service_policy(service, number, context.settings).0);
    Some(TrafficPolicy { protocol: policy.protocol.over_tls(), verification: Some(verification), ..policy })
}

/// Returns the policy of a port for the bytes of clients, if it differs from the policy of the Service. Envoy must not
/// start TLS, because the client and the backend may already use TLS.
pub fn policy_of_bytes(
    context: Context,
    service: &ObjectKey,
    port: WantedPort,
    transport: Transport,
) -> Option<TrafficPolicy> {
    let service = context.objects.get::<Service>(service)?;
    let number = match find_port(service, port, transport) {
        Found::Port(port) => port.port,
        Found::Number(number) => number,
        Found::OtherProtocol(_) | Found::Nothing(_) | Found::Impossible(_) | Found::Unspecified(_) => return None,
    };
    let policy = service_policy(service, number, context.settings).0;
    policy.protocol.is_tls().then_some(TrafficPolicy { protocol: UpstreamProtocol::Http1, ..policy })
}

/// Returns the policy of the port `number` according to the annotations of `service` and the settings, and the problems
/// of the annotations.
pub(super) fn service_policy(service: &Service, number: u16, settings: &Settings) -> (TrafficPolicy, Vec<Problem>) {
    let mut reader = Reader::new(&service.meta, Kind::SERVICE);
    let protocol = protocol(&mut reader, service, number);
    let connect_timeout = match reader.limit(CONNECT_TIMEOUT) {
        Some(TimeLimit::After(limit)) => limit,
        None => settings.timeouts.connect,
        Some(TimeLimit::Default | TimeLimit::Infinite) => {
            let value = reader.get(CONNECT_TIMEOUT).unwrap_or_default();
            reader.wrong(CONNECT_TIMEOUT, format!("value {value:?} is not a limit"), "left out");
            settings.timeouts.connect
        }
    };
    let (default, most) = (settings.upstream.circuit_breakers, settings.tenants.max_circuit_breaker);
    let mut limit = |key: &str, default: Option<u32>| circuit_breaker(&mut reader, key, most).or(default);
    let limits = CircuitBreakers {
        max_connections: limit("max-connections", default.max_connections),
        max_pending_requests: limit("max-pending-requests", default.max_pending_requests),
        max_requests: limit("max-requests", default.max_requests),
        max_retries: limit("max-retries", default.max_retries),
        per_host_max_connections: limit("per-host-max-connections", default.per_host_max_connections),
    };
    let mut problems = reader.problems;
    problems.extend(annotations::unknown_of_service(&service.meta, settings));
    let policy = TrafficPolicy {
        protocol,
        connect_timeout,
        limits,
        client_certificate: None,
        verification: None,
        server_name: None,
        features: None,
    };
    (policy, problems)
}

/// Returns the protocol of the port `number`: its `appProtocol` if known, otherwise its annotation, otherwise HTTP/1.1.
fn protocol(reader: &mut Reader, service: &Service, number: u16) -> UpstreamProtocol {
    let by_annotation = annotated_protocol(reader, service, number);
    let port = service.ports.iter().find(|port| port.port == number && &*port.protocol == "TCP");
    match port.and_then(|port| port.app_protocol.as_deref()) {
        Some("https" | "kubernetes.io/wss") => UpstreamProtocol::Tls,
        Some("kubernetes.io/h2c") => UpstreamProtocol::H2c,
        Some("http" | "kubernetes.io/ws") => UpstreamProtocol::Http1,
        _ => by_annotation.unwrap_or(UpstreamProtocol::Http1),
    }
}

/// Returns the protocol of the port `number` according to the annotations, whose entries are names or numbers of ports.
fn annotated_protocol(reader: &mut Reader, service: &Service, number: u16) -> Option<UpstreamProtocol> {
    let mut found = None;
    let lists = PROTOCOLS.map(|(key, protocol)| (key, protocol, reader.list(key)));
    if lists.iter().all(|(.., entries)| entries.is_empty()) {
        return None;
    }
    // The first port for each name and number. A search for each entry would take time for each pair.
    let mut listed = HashMap::<Cow<'_, str>, u16>::new();
    for port in &service.ports {
        for text in [Cow::Borrowed(&*port.name), Cow::Owned(port.port.to_string())] {
            listed.entry(text).or_insert(port.port);
        }
    }
    for (key, protocol, entries) in lists {
        for entry in entries {
            // An ExternalName Service may list no ports.
            let unlisted = entry.parse().ok().filter(|_| service.ports.is_empty());
            match listed.get(entry).copied().or(unlisted) {
                None => reader.wrong(key, format!("{entry:?} is not a port of the Service"), "entry left out"),
                Some(port) if port != number => {}
                Some(_) => {
                    if let Some((other, _)) = found.replace((key, protocol)).filter(|(other, _)| *other != key) {
                        reader.wrong(other, format!("port {entry:?} is also in {key:?}"), "entry left out");
                    }
                }
            }
        }
    }
    found.map(|(_, protocol)| protocol)
}

/// Returns a limit of the Service, at most `most`. A value of 0 counts as unset.
fn circuit_breaker(reader: &mut Reader, key: &str, most: u32) -> Option<u32> {
    let key = format!("projectcontour.io/{key}");
    let value = reader.get(&key)?;
    match value.parse::<u32>() {
        Ok(limit) if limit > most => {
            let message = format!("value {value:?} is larger than {most}, the setting tenants.maxCircuitBreaker");
            reader.wrong(&key, message, &format!("{most} applied"));
            Some(most)
        }
        Ok(limit) => Some(limit).filter(|&limit| limit > 0),
        Err(_) => {
            reader.wrong(&key, format!("value {value:?} is not a number from 0 to {}", u32::MAX), "left out");
            None
        }
    }
}
