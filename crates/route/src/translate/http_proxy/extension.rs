//! ExtensionServices: the clusters of the servers that Envoy asks about requests.

use std::sync::Arc;
use std::time::Duration;

use super::authorization::{Fault, LONGEST};
use super::situation::{self, Block};
use crate::duration::{self, Limit};
use crate::model::{AuthorizationProtocol, ClusterId, UpstreamProtocol};
use crate::objects::http_proxy::{ExtensionService, ExtensionServiceReference, ExtensionTarget};
use crate::objects::{Kind, ObjectKey};
use crate::translate::dialect::Resolver;
use crate::translate::source::WantedPort;

/// Returns the cluster of an ExtensionService, and the time limit of its answers.
pub fn cluster(
    reference: &ExtensionServiceReference,
    protocol: AuthorizationProtocol,
    own: &Arc<str>,
    resolver: &mut Resolver,
    warnings: &mut Vec<Fault>,
) -> Result<(ClusterId, Option<Duration>), Fault> {
    let ExtensionServiceReference { api_version, namespace, name, rest } = reference;
    let field = ".extensionRef";
    if let Some(name) = rest.names().next() {
        let message = format!("field {name:?} is not supported");
        return Err((Block::Authorization.unsupported(), format!("{field}.{name}"), message));
    }
    let served = Kind::EXTENSION_SERVICE.api_version();
    if !api_version.is_empty() && *api_version != served {
        let message = format!("{api_version:?} is not {served:?}");
        return Err((situation::auth("AuthBadResourceVersion"), format!("{field}.apiVersion"), message));
    }
    let namespace: Arc<str> = if namespace.is_empty() { own.clone() } else { namespace.as_str().into() };
    let key = ObjectKey { namespace, name: name.as_str().into() };
    let fault = |message: String| (situation::auth("ExtensionServiceNotFound"), field.to_owned(), message);
    let found = resolver.included(&Kind::EXTENSION_SERVICE.id(key.clone()));
    let Some(service) = found.and_then(|object| object.get::<ExtensionService>()) else {
        return Err(fault(format!("ExtensionService \"{key}\" does not exist")));
    };
    let of_service = |message: &str| fault(format!("ExtensionService \"{key}\": {message}"));
    let spec = &service.spec;
    for name in spec.rest.names() {
        match name {
            "loadBalancerPolicy" | "circuitBreakerPolicy" => {
                let message = format!("ExtensionService \"{key}\": field {name:?} is not supported");
                warnings.push((Block::Authorization.ignored(), field.to_owned(), message));
            }
            _ => return Err(of_service(&format!("field {name:?} is not supported"))),
        }
    }
    if !matches!(&*spec.protocol_version, "" | "v3") {
        return Err(of_service(&format!("protocolVersion {:?} is not \"v3\"", spec.protocol_version)));
    }
    let target = target(&spec.services).ok_or_else(|| of_service("no Service has a share of the calls"))?;
    if spec.services.len() > 1 {
        let message = format!(
            "ExtensionService \"{key}\": only one of its Services is called, \"{}\", which has the largest weight",
            target.name
        );
        warnings.push((Block::Authorization.ignored(), field.to_owned(), message));
    }
    if let Some(name) = target.rest.names().next() {
        return Err(of_service(&format!("field {name:?} of a Service is not supported")));
    }
    let port = u16::try_from(target.port).ok().filter(|port| *port > 0);
    let port = port.ok_or_else(|| of_service(&format!("port {} is not a number from 1 to 65535", target.port)))?;
    let over = match (spec.protocol.as_deref().unwrap_or_default(), protocol) {
        ("" | "h2", _) => Some(UpstreamProtocol::H2),
        ("h2c", _) => Some(UpstreamProtocol::H2c),
        ("http/1.1", AuthorizationProtocol::Http) => None,
        (other, _) => return Err(of_service(&format!("protocol {other:?} is neither \"h2\" nor \"h2c\""))),
    };
    let to = ObjectKey { namespace: key.namespace.clone(), name: target.name.as_str().into() };
    let wanted = WantedPort::Number(port.into());
    let cluster = match over {
        Some(over) => resolver.cluster_as(to, wanted, over),
        None => resolver.cluster(to, wanted, None),
    };
    let cluster = match cluster {
        Ok((cluster, None)) => cluster,
        Ok((_, Some(denied))) => return Err(of_service(denied.trim_end())),
        Err(cause) => return Err(of_service(&cause.message.to_string())),
    };
    let timeout = spec.timeout_policy.as_ref().map(|policy| &*policy.response).unwrap_or_default();
    let timeout = match duration::limit(timeout) {
        Some(Limit::After(time)) => Some(time),
        Some(Limit::Infinite) => Some(LONGEST),
        Some(Limit::Default) | None => None,
    };
    Ok((cluster, timeout))
}

/// Returns the Service with the largest weight, or the first one without weights.
fn target(services: &[ExtensionTarget]) -> Option<&ExtensionTarget> {
    let has_weights = services.iter().any(|service| service.weight.is_some());
    let weight = |service: &ExtensionTarget| if has_weights { service.weight.unwrap_or(0) } else { 1 };
    let heaviest = services.iter().map(weight).max().filter(|weight| *weight > 0)?;
    services.iter().find(|service| weight(service) == heaviest)
}
