//! TCP proxies: where the bytes of the TLS connections of a host go.
//!
//! A TCP proxy that is not valid closes the TLS connections of the host. Otherwise, the wildcard above it or the default certificate would
//! serve them. The routes of the object are served in plain HTTP in any case.

use serde::Serialize;
use serde_json::Value;

use super::report::ProxyFault;
use super::situation::{self, Block, Situation};
use super::tree::{Declaring, Tree};
use super::upstream::{self, ReachedService, Unreached, UpstreamPolicies};
use super::{DIALECT, proxy_of, tls};
use crate::model::{ClusterId, Destination, UpstreamProtocol, WeightedCluster};
use crate::objects::http_proxy::{HttpProxy, ProxyService, TcpInclude, TcpProxy, VirtualHost};
use crate::objects::{Kind, ObjectKey, Transport};
use crate::translate::backend;
use crate::translate::foreign;
use crate::translate::problem::{Message, Reason};
use crate::translate::source::{Stream, WantedPort};

const TYPE: &str = "TCPProxyError";
const INCLUDE_TYPE: &str = "TCPProxyIncludeError";

const INCLUDE_CYCLE: Situation = situation::error(INCLUDE_TYPE, "IncludeCreatesCycle", Reason::IncludeNotValid);
const INCLUDE_NOT_FOUND: Situation = situation::error(INCLUDE_TYPE, "IncludeNotFound", Reason::IncludeNotValid);
const INCLUDE_TOO_LARGE: Situation = situation::error(INCLUDE_TYPE, "IncludeTooLarge", Reason::IncludeNotValid);
const NO_SERVICES_AND_INCLUDE: Situation = situation::error(TYPE, "NoServicesAndInclude", Reason::ProxyNotValid);
const NOTHING_DEFINED: Situation = situation::error(TYPE, "NothingDefined", Reason::ProxyNotValid);
const ROOT_INCLUDES_ROOT: Situation = situation::error(INCLUDE_TYPE, "RootIncludesRoot", Reason::IncludeNotValid);
const SERVICE_UNRESOLVED: Situation =
    situation::error(TYPE, "ServiceUnresolvedReference", Reason::ServiceUnresolvedReference);
const TLS_MUST_BE_CONFIGURED: Situation = situation::error(TYPE, "TLSMustBeConfigured", Reason::TLSConfigNotValid);
const WITHOUT_TCP_PROXY: Situation = situation::warning("TLSError", "TLSConfigNotValid", Reason::TLSConfigNotValid);

/// The consequence of most faults.
const CLOSED: &str = "TLS connections for the host are closed";

/// The consequence for a single Service.
const LEFT_OUT: &str = "its share of the connections goes to the other Services, or is closed";

/// The fields of a host that restrict requests, and that cannot restrict connections.
const RESTRICTING: &[&str] = &["authorization", "ipAllowPolicy", "ipDenyPolicy", "jwtProviders", "rateLimitPolicy"];

/// The fields of a Service that have no effect on connections.
const OF_REQUESTS: &[&str] = &["cookieRewritePolicies", "requestHeadersPolicy", "responseHeadersPolicy"];

/// The maximum number of objects in a chain of includes.
const LONGEST: usize = 100;

/// The largest weight.
const HEAVIEST: i64 = 1_000_000;

/// The maximum number of Services. Envoy rejects weights whose sum exceeds 32 bits.
const MOST: usize = 1000;

impl<'r> Tree<'r> {
    /// Returns where the TLS connections of a root go. `None`: Envoy reads requests from them.
    pub fn stream(&mut self, root: &HttpProxy, host: &VirtualHost) -> Option<Box<Stream>> {
        let origin = root.meta.object_ref(Kind::HTTP_PROXY);
        let tls = host.tls.as_ref();
        let is_decrypted = tls.is_some_and(|tls| !tls.passthrough);
        let closed = Box::new(Stream { is_decrypted, to: Destination::refusing(origin.clone()) });
        let Some(proxy) = &root.spec.tcpproxy else {
            let field = tls.filter(|tls| tls.passthrough).map(|_| "spec.virtualhost.tls.passthrough")?;
            let message = "there is no TCP proxy to which the connections could be passed";
            self.report.add(&origin, field, &WITHOUT_TCP_PROXY, message, CLOSED);
            return Some(closed);
        };
        let Some(tls) = tls else {
            let message =
                "either \"spec.virtualhost.tls.passthrough\" or \"spec.virtualhost.tls.secretName\" must be set";
            self.report.add(&origin, "spec.tcpproxy", &TLS_MUST_BE_CONFIGURED, message, CLOSED);
            return Some(closed);
        };
        let is_restricted = self.report_restrictions(root, host) || self.host.is_closed || !tls::is_valid(tls);
        // The Services are read in any case, so that their faults are reported.
        let to = self.destination(root, proxy, is_decrypted).filter(|_| !is_restricted);
        Some(to.map_or(closed, |to| Box::new(Stream { is_decrypted, to })))
    }

    /// Reports the fields of a host that cannot restrict connections. Returns whether there is one.
    fn report_restrictions(&mut self, root: &HttpProxy, host: &VirtualHost) -> bool {
        let origin = root.meta.object_ref(Kind::HTTP_PROXY);
        let found = set_among(host, RESTRICTING);
        for name in &found {
            let message = format!("field {name:?} does not apply to the connections of \"spec.tcpproxy\"");
            let field = format!("spec.virtualhost.{name}");
            self.report.add(&origin, field, &Block::TcpProxy.unsupported(), message, CLOSED);
        }
        !found.is_empty()
    }

    /// Follows the includes of a TCP proxy. Returns the destination of the last one, if all are valid.
    fn destination(&mut self, root: &HttpProxy, proxy: &TcpProxy, is_decrypted: bool) -> Option<Destination> {
        let (mut object, mut proxy, mut above) = (root, proxy, Vec::new());
        let mut is_closed = false;
        loop {
            let origin = object.meta.object_ref(Kind::HTTP_PROXY);
            is_closed |= self.is_restricted(object, above.is_empty());
            let rest = (&proxy.rest, &[][..]);
            is_closed |= self.report.add_rest(&origin, "spec.tcpproxy", rest, Block::TcpProxy, CLOSED);
            let include = proxy.include.as_ref().map(|include| ("spec.tcpproxy.include", include));
            let include = include.or(proxy.includes.as_ref().map(|include| ("spec.tcpproxy.includes", include)));
            if include.is_some() && (proxy.load_balancer_policy.is_some() || proxy.health_check_policy.is_some()) {
                let message = "\"loadBalancerPolicy\" and \"healthCheckPolicy\" of the included object apply";
                self.report.add(&origin, "spec.tcpproxy", &Block::TcpProxy.ignored(), message, "left out");
            }
            let (field, include) = match (include, proxy.services.is_empty()) {
                (None, false) => {
                    let to = self.services_of(object, proxy, is_decrypted)?;
                    return (!is_closed).then_some(to);
                }
                (None, true) => {
                    let message = "neither \"services\" nor \"include\" is set";
                    self.report.add(&origin, "spec.tcpproxy", &NOTHING_DEFINED, message, CLOSED);
                    return None;
                }
                (Some(_), false) => {
                    let message = "both \"services\" and \"include\" are set";
                    self.report.add(&origin, "spec.tcpproxy", &NO_SERVICES_AND_INCLUDE, message, CLOSED);
                    return None;
                }
                (Some(include), true) => include,
            };
            is_closed |= self.report.add_rest(&origin, field, (&include.rest, &[]), Block::TcpProxy, CLOSED);
            above.push(object.meta.key.clone());
            let found = match self.stream_below(include, &above) {
                Ok(found) => found,
                Err(fault) => {
                    self.report.add_fault(&origin, field, fault, CLOSED);
                    return None;
                }
            };
            (object, proxy) = found;
            self.report.declare_valid(&object.meta.object_ref(Kind::HTTP_PROXY));
        }
    }

    /// Returns whether the connections to the Services of an object are restricted by what cannot restrict connections. The routes of a
    /// root have reported it.
    fn is_restricted(&mut self, object: &HttpProxy, is_root: bool) -> bool {
        let foreign = foreign::of(&object.meta, Kind::HTTP_PROXY, self.resolver.context.settings);
        if is_root {
            return foreign.denied.is_some() || object.spec.rest.names().next().is_some();
        }
        for problem in foreign.problems {
            let situation = situation::of_reason(problem.reason);
            self.report.add_problem(problem, &situation);
        }
        let origin = object.meta.object_ref(Kind::HTTP_PROXY);
        let rest = (&object.spec.rest, &[][..]);
        self.report.add_rest(&origin, "spec", rest, Block::Spec, CLOSED) || foreign.denied.is_some()
    }

    /// Returns the object of an include and its TCP proxy, or why it is not included. `above` are the objects from the root to the
    /// includer.
    fn stream_below(
        &mut self,
        include: &TcpInclude,
        above: &[ObjectKey],
    ) -> Result<(&'r HttpProxy, &'r TcpProxy), ProxyFault> {
        let namespace = match (&*include.namespace, above.last()) {
            ("", Some(includer)) => includer.namespace.clone(),
            (namespace, _) => namespace.into(),
        };
        let key = ObjectKey { namespace, name: include.name.as_str().into() };
        let found = self.resolver.included(&Kind::HTTP_PROXY.id(key.clone()));
        let Some((object, included)) = found.and_then(|object| Some((object, proxy_of(object)?))) else {
            let message = Message::missing(Kind::HTTP_PROXY, &key, "does not exist");
            return Err(ProxyFault::new(INCLUDE_NOT_FOUND, "", message));
        };
        let fault = |situation, why: &str| Err(ProxyFault::new(situation, "", format!("HTTPProxy \"{key}\" {why}")));
        if !self.resolver.serves(&DIALECT, object) {
            return fault(INCLUDE_NOT_FOUND, "has a class that is not served");
        }
        if included.spec.virtualhost.is_some() {
            return fault(ROOT_INCLUDES_ROOT, "is a root: it has \"spec.virtualhost\"");
        }
        if above.contains(&key) {
            return fault(INCLUDE_CYCLE, "includes this object");
        }
        if above.len() >= LONGEST {
            return fault(INCLUDE_TOO_LARGE, "ends a chain of more than 100 includes");
        }
        match &included.spec.tcpproxy {
            Some(proxy) => Ok((included, proxy)),
            None => fault(NOTHING_DEFINED, "has no \"spec.tcpproxy\""),
        }
    }

    /// Returns the destination that consists of Services. `None`: none of them may receive connections. A missing Service is skipped.
    fn services_of(&mut self, object: &HttpProxy, proxy: &TcpProxy, is_decrypted: bool) -> Option<Destination> {
        let services = &proxy.services;
        let object = Declaring::of_connections(object);
        let origin = object.origin.clone();
        let wanted = upstream::of_connections(self, &object, proxy);
        let mut to = Destination::refusing(origin.clone());
        let (has_weights, mut is_closed) = (services.iter().any(|service| service.weight.is_some()), false);
        for (index, service) in services.iter().enumerate() {
            let field = format!("spec.tcpproxy.services[{index}]");
            if index == MOST {
                let message = format!("there are more than {MOST} Services");
                self.report.add(&origin, field, &SERVICE_UNRESOLVED, message, "the other Services are left out");
                break;
            }
            for name in set_among(service, OF_REQUESTS) {
                let message = format!("field {name:?} has no effect on connections");
                self.report.add(&origin, format!("{field}.{name}"), &Block::TcpProxy.ignored(), message, "left out");
            }
            for name in service.rest.names().filter(|name| !OF_REQUESTS.contains(name)) {
                is_closed = true;
                let message = format!("field {name:?} is not supported for connections");
                let field = format!("{field}.{name}");
                self.report.add(&origin, field, &Block::TcpProxy.unsupported(), message, CLOSED);
            }
            if service.mirror {
                let message = "connections cannot be mirrored";
                let field = format!("{field}.mirror");
                self.report.add(&origin, field, &Block::TcpProxy.ignored(), message, "the Service receives none");
                continue;
            }
            let weight = if has_weights { service.weight.unwrap_or(0) } else { 1 };
            let weight = u32::try_from(weight.clamp(0, HEAVIEST)).unwrap_or(0);
            let cluster = match self.cluster_of_connections(&object, &wanted, (&field, service), is_decrypted) {
                Ok(cluster) => cluster,
                Err(closes) => {
                    is_closed |= closes;
                    continue;
                }
            };
            match to.clusters.iter_mut().find(|one| one.cluster == cluster) {
                Some(same) => same.weight = same.weight.saturating_add(weight),
                None => to.clusters.push(WeightedCluster::new(cluster, weight)),
            }
        }
        to.clusters.retain(|cluster| cluster.weight > 0);
        (!is_closed && !to.clusters.is_empty()).then_some(to)
    }

    /// Returns the cluster of a Service for connections. The error, which is reported, is whether it closes all connections: the certificate
    /// must be verified, so no connection may reach the Service, or another one instead.
    fn cluster_of_connections(
        &mut self,
        object: &Declaring,
        wanted: &UpstreamPolicies,
        (field, service): (&str, &ProxyService),
        is_decrypted: bool,
    ) -> Result<ClusterId, bool> {
        let origin = object.origin.clone();
        let Some(number) = u16::try_from(service.port).ok().filter(|port| *port > 0) else {
            let message = format!("port {} is not a number from 1 to 65535", service.port);
            self.report.add(&origin, format!("{field}.port"), &SERVICE_UNRESOLVED, message, LEFT_OUT);
            return Err(false);
        };
        let key = ObjectKey { namespace: origin.namespace.clone(), name: service.name.as_str().into() };
        let port = WantedPort::Number(number.into());
        let of_bytes = backend::policy_of_bytes(self.resolver.context, &key, port, Transport::Tcp);
        let is_encrypted = match service.protocol.as_deref().unwrap_or_default() {
            // The annotations of a Service also describe how HTTP is sent to it.
            "" => is_decrypted && of_bytes.is_some(),
            "tls" | "h2" => true,
            "h2c" => false,
            other => {
                let message = format!("protocol {other:?} is none of \"tls\", \"h2\", and \"h2c\"");
                let field = format!("{field}.protocol");
                self.report.add(&origin, field, &situation::SERVICE_PROTOCOL, message, LEFT_OUT);
                return Err(false);
            }
        };
        if is_encrypted && !is_decrypted {
            let message = "the bytes that are passed through are encrypted already";
            let field = format!("{field}.protocol");
            self.report.add(&origin, field, &Block::TcpProxy.ignored(), message, "they are not encrypted again");
        }
        let protocol = match is_encrypted && is_decrypted {
            true => Some(UpstreamProtocol::Tls),
            false => of_bytes.map(|policy| policy.protocol),
        };
        let reached = ReachedService { service, field, port: number, protocol, host: None };
        let fault = match upstream::cluster(self, object, wanted, reached, CLOSED) {
            Ok((cluster, None)) => return Ok(cluster),
            Ok((_, Some(denied))) => {
                ProxyFault::new(situation::of_reason(Reason::AccessNotRestricted), "", denied.to_string())
            }
            Err(Unreached::Closed) => return Err(true),
            Err(Unreached::Fault(fault)) => {
                let situation = match fault.reason {
                    Reason::ServiceUnresolvedReference => SERVICE_UNRESOLVED,
                    other => situation::of_reason(other),
                };
                ProxyFault::new(situation, upstream::below(&fault), fault.message)
            }
        };
        self.report.add_fault(&origin, field, fault, LEFT_OUT);
        Err(false)
    }
}

/// Returns the fields of a block among `names` that are set, whether its type contains them or not.
fn set_among(block: &impl Serialize, names: &'static [&'static str]) -> Vec<&'static str> {
    let Ok(Value::Object(fields)) = serde_json::to_value(block) else { return names.to_vec() };
    let is_set = |name: &&&str| match fields.get(**name) {
        None | Some(Value::Null | Value::Bool(false)) => false,
        Some(Value::Array(items)) => !items.is_empty(),
        Some(_) => true,
    };
    names.iter().filter(is_set).copied().collect()
}
