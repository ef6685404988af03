//! The Services of a route.

use super::headers::{self, Changes};
use super::situation::{self, Block};
use super::tree::{Declaring, Tree};
use crate::model::{Action, ClusterFilter, ClusterId, Filters, Mirror, Share, UpstreamProtocol, WeightedCluster};
use crate::objects::http_proxy::ProxyService;
use crate::objects::{Kind, ObjectKey};
use crate::translate::problem::Reason;
use crate::translate::source::WantedPort;

/// The fields of a Service that are left out without harm.
const HARMLESS: &[&str] = &["cookieRewritePolicies", "healthPort", "slowStartPolicy"];

/// The largest weight. Envoy rejects weights whose sum exceeds 32 bits.
const HEAVIEST: i64 = 1_000_000;

/// The Services of a route, resolved.
pub struct Services {
    /// The valid ones with a weight. If there is none, `closed` answers all requests.
    pub clusters: Vec<WeightedCluster>,
    /// The answer to all requests if there is no cluster.
    pub closed: Action,
    /// The receiver of copies.
    pub mirror: Option<Mirror>,
}

impl Tree<'_> {
    /// Resolves the Services of a route. A missing Service is skipped.
    pub fn services(&mut self, object: &Declaring, field: &str, services: &[ProxyService]) -> Services {
        let mut resolved = Services { clusters: Vec::new(), closed: Action::respond(503), mirror: None };
        let has_weights = services.iter().any(|service| !service.mirror && service.weight.is_some());
        let (mut is_closed, mut mirrors) = (false, 0);
        for (index, service) in services.iter().enumerate() {
            let field = format!("{field}.services[{index}]");
            // A Service that must be verified must not receive requests, not even copies.
            let rest = (&service.rest, HARMLESS);
            if self.report.add_rest(&object.origin, &field, rest, Block::Service, "the route is answered 503") {
                is_closed = true;
                continue;
            }
            if service.mirror {
                mirrors += 1;
                if mirrors > 1 {
                    let message = "the route has another mirror";
                    let situation = situation::ONLY_ONE_MIRROR;
                    self.report.add(&object.origin, field, &situation, message, "it receives no copies");
                    continue;
                }
                resolved.mirror = self.mirror(object, &field, service);
                continue;
            }
            let weight = if has_weights { service.weight.unwrap_or(0) } else { 1 };
            let weight = u32::try_from(weight.clamp(0, HEAVIEST)).unwrap_or(0);
            match self.cluster(
                object,
                &field,
                service,
                "its share of the requests goes to the other Services, or is answered 503",
            ) {
                Ok(cluster) => {
                    let filters = self.service_headers(object, &field, service);
                    add(&mut resolved.clusters, WeightedCluster { cluster, weight, filters });
                }
                Err(Some(denied)) => resolved.closed = denied,
                Err(None) => {}
            }
        }
        resolved.clusters.retain(|cluster| cluster.weight > 0);
        if is_closed {
            resolved.clusters.clear();
        }
        resolved
    }

    /// Returns the cluster of a Service. Errors: the answer to its requests if access is restricted.
    fn cluster(
        &mut self,
        object: &Declaring,
        field: &str,
        service: &ProxyService,
        consequence: &str,
    ) -> Result<ClusterId, Option<Action>> {
        let namespace = &object.proxy.meta.key.namespace;
        // Fails closed: an unknown policy may restrict the object.
        if !self.resolver.context.objects.is_readable(Kind::HTTP_POLICY, namespace) {
            let message = "the controller is not permitted to list HTTPPolicies, so it is unknown whether one restricts this HTTPProxy";
            let situation = situation::of_reason(Reason::PolicyNotValid);
            self.report.add(&object.origin, field, &situation, message, consequence);
            return Err(None);
        }
        let Some(port) = u16::try_from(service.port).ok().filter(|port| *port > 0) else {
            let message = format!("port {} is not a number from 1 to 65535", service.port);
            let field = format!("{field}.port");
            self.report.add(&object.origin, field, &situation::SERVICE_PORT_NOT_VALID, message, consequence);
            return Err(None);
        };
        let key = ObjectKey { namespace: namespace.clone(), name: service.name.as_str().into() };
        let port = WantedPort::Number(port.into());
        let cluster = match service.protocol.as_deref().filter(|protocol| !protocol.is_empty()) {
            None => self.resolver.cluster(key, port, None),
            Some("tls") => self.resolver.cluster_as(key, port, UpstreamProtocol::Tls),
            Some("h2") => self.resolver.cluster_as(key, port, UpstreamProtocol::H2),
            Some("h2c") => self.resolver.cluster_as(key, port, UpstreamProtocol::H2c),
            Some(other) => {
                let message = format!("protocol {other:?} is none of \"tls\", \"h2\", and \"h2c\"");
                let field = format!("{field}.protocol");
                self.report.add(&object.origin, field, &situation::SERVICE_PROTOCOL, message, consequence);
                return Err(None);
            }
        };
        match cluster {
            Ok((cluster, None)) => Ok(cluster),
            Ok((_, Some(denied))) => Err(Some(Action::Respond { status: 403, body: Some(denied) })),
            Err(fault) => {
                let below = match fault.field {
                    ".service.name" => ".name",
                    ".service.port" => ".port",
                    _ => "",
                };
                let situation = match fault.reason {
                    Reason::ServiceUnresolvedReference => situation::SERVICE_UNRESOLVED,
                    other => situation::of_reason(other),
                };
                self.report.add(&object.origin, format!("{field}{below}"), &situation, fault.message, consequence);
                Err(None)
            }
        }
    }

    /// Returns the receiver of copies, if it is valid and has a share.
    fn mirror(&mut self, object: &Declaring, field: &str, service: &ProxyService) -> Option<Mirror> {
        let percent = service.weight.unwrap_or(100);
        let percent = u32::try_from(percent.clamp(0, 100)).unwrap_or(0);
        if percent == 0 {
            let message = "the weight of a mirror is its share in percent";
            let field = format!("{field}.weight");
            self.report.add(&object.origin, field, &situation::MIRROR_WITHOUT_SHARE, message, "it receives no copies");
            return None;
        }
        let cluster = self.cluster(object, field, service, "it receives no copies").ok()?;
        Some(Mirror { cluster, share: Share::new(percent, 100)? })
    }

    fn service_headers(&mut self, object: &Declaring, field: &str, service: &ProxyService) -> Filters<ClusterFilter> {
        let mut filters = Vec::new();
        let of = |changes| Changes::OfService { service, of_requests: changes };
        if let Some(policy) = &service.request_headers_policy {
            let field = format!("{field}.requestHeadersPolicy");
            let (changes, _) = headers::parse(self, object, &field, policy, of(true));
            filters.extend((!changes.is_empty()).then_some(ClusterFilter::RequestHeaders(changes)));
        }
        if let Some(policy) = &service.response_headers_policy {
            let field = format!("{field}.responseHeadersPolicy");
            let (changes, _) = headers::parse(self, object, &field, policy, of(false));
            filters.extend((!changes.is_empty()).then_some(ClusterFilter::ResponseHeaders(changes)));
        }
        filters.into()
    }
}

/// Adds a cluster, or its weight to an equal one.
fn add(clusters: &mut Vec<WeightedCluster>, cluster: WeightedCluster) {
    let is_same = |one: &&mut WeightedCluster| one.cluster == cluster.cluster && one.filters == cluster.filters;
    match clusters.iter_mut().find(is_same) {
        Some(same) => same.weight = same.weight.saturating_add(cluster.weight),
        None => clusters.push(cluster),
    }
}
