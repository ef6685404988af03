//! References to ports of Services.

use std::sync::Arc;

use crate::model::PortRef;
use crate::objects::{ObjectKey, Objects, Service, ServicePort, Transport};

/// A reference to a port of a Service.
#[derive(Debug, Clone, Copy)]
pub enum WantedPort<'a> {
    /// By name.
    Name(&'a str),
    /// By number, which may be invalid.
    Number(i32),
    /// With neither.
    Missing,
    /// With both, which the API server rejects.
    Both,
}

/// Returns the reference to a port of a Service by its number, if the port exists.
pub fn port_of_number(objects: &Objects, service: &ObjectKey, number: u16) -> Option<PortRef> {
    let service = objects.get::<Service>(service)?;
    match find_port(service, WantedPort::Number(number.into()), Transport::Tcp) {
        Found::Port(port) => Some(port_ref(port)),
        _ => None,
    }
}

/// Returns the name of a TCP port of a Service, if it has one. Returns `None` if the port does not exist.
pub fn port_name<'a>(objects: &'a Objects, service: &ObjectKey, port: WantedPort) -> Option<Option<&'a Arc<str>>> {
    number_and_name(objects.get::<Service>(service)?, port).map(|(_, name)| name)
}

pub(super) fn number_and_name<'a>(service: &'a Service, port: WantedPort) -> Option<(u16, Option<&'a Arc<str>>)> {
    match find_port(service, port, Transport::Tcp) {
        Found::Port(port) => Some((port.port, Some(&port.name).filter(|name| !name.is_empty()))),
        Found::Number(number) => Some((number, None)),
        Found::OtherProtocol(_) | Found::Nothing(_) | Found::Impossible(_) | Found::Unspecified(_) => None,
    }
}

/// The result of a search for a port.
pub(super) enum Found<'a> {
    /// A port of the wanted protocol.
    Port(&'a ServicePort),
    /// A port of an ExternalName Service without listed ports, with this number.
    Number(u16),
    /// A port of another protocol.
    OtherProtocol(&'a ServicePort),
    /// No port has this name or number, which is quoted for a message.
    Nothing(String),
    /// No port can have this number.
    Impossible(i32),
    /// The reference is ambiguous.
    Unspecified(&'static str),
}

/// Finds the port of `service` that a backend refers to by name or number.
pub(super) fn find_port<'a>(service: &'a Service, wanted: WantedPort, transport: Transport) -> Found<'a> {
    let quoted = match wanted {
        WantedPort::Name(name) => format!("{name:?}"),
        WantedPort::Number(number) => format!("\"{number}\""),
        WantedPort::Missing => return Found::Unspecified("no port is given"),
        WantedPort::Both => return Found::Unspecified("the port has both a name and a number"),
    };
    let matches = |port: &&ServicePort| match wanted {
        WantedPort::Name(name) => *port.name == *name,
        WantedPort::Number(number) => number == i32::from(port.port),
        WantedPort::Missing | WantedPort::Both => false,
    };
    let mut found = service.ports.iter().filter(matches);
    // Clusters have the names of ports, which are unique in a valid Service.
    let is_wanted = |port: &&ServicePort| {
        is_over(port, transport) && referenced_port(service, &port_ref(port)).is_some_and(|one| one == *port)
    };
    if let Some(port) = found.clone().find(is_wanted) {
        return Found::Port(port);
    }
    if let Some(port) = found.next() {
        return Found::OtherProtocol(port);
    }
    let number = match wanted {
        WantedPort::Number(number) => u16::try_from(number).ok(),
        WantedPort::Name(_) | WantedPort::Missing | WantedPort::Both => None,
    };
    if let WantedPort::Number(number) = wanted
        && !(1..=i32::from(u16::MAX)).contains(&number)
    {
        return Found::Impossible(number);
    }
    match number.filter(|_| service.external_name.is_some() && service.ports.is_empty()) {
        Some(number) => Found::Number(number),
        None => Found::Nothing(quoted),
    }
}

/// Returns the reference to a port: its name, or its number if it has none. A name of digits is ignored.
pub(super) fn port_ref(port: &ServicePort) -> PortRef {
    match is_number(&port.name) {
        true => PortRef::Number(port.port),
        false => PortRef::Name(port.name.clone()),
    }
}

/// Returns whether the name of a port is empty or a number.
fn is_number(name: &str) -> bool {
    name.bytes().all(|b| b.is_ascii_digit())
}

/// Returns the port of `service` that `wanted` refers to. TCP takes precedence if ports of several protocols have no name.
pub fn referenced_port<'a>(service: &'a Service, wanted: &PortRef) -> Option<&'a ServicePort> {
    let is_wanted = |port: &&ServicePort| match wanted {
        PortRef::Name(name) => port.name == *name && !is_number(&port.name),
        PortRef::Number(number) => port.port == *number && is_number(&port.name),
    };
    let mut named = service.ports.iter().filter(is_wanted);
    let udp = named.clone().find(|port| is_over(port, Transport::Udp));
    named.find(|port| is_over(port, Transport::Tcp)).or(udp)
}

fn is_over(port: &ServicePort, transport: Transport) -> bool {
    *port.protocol == *transport.as_str()
}
