//! The Services of a route.

use super::cookies;
use super::headers::{self, ChangedMessages, NewHost};
use super::situation::{self, Block};
use super::tree::{Declaring, Tree};
use super::upstream::{self, ReachedService, Unreached, UpstreamPolicies};
use crate::model::{
    Action, ClusterFilter, ClusterId, CookieRewrites, HeaderValue, Mirror, Share, UpstreamProtocol, WeightedCluster,
};
use crate::objects::Kind;
use crate::objects::http_proxy::ProxyService;
use crate::translate::problem::Reason;

/// The largest weight. Envoy rejects weights whose sum exceeds 32 bits.
const HEAVIEST: i64 = 1_000_000;

/// The Services of a route, resolved.
pub struct ResolvedServices {
    /// The valid ones with a weight. If there is none, `closed` answers all requests.
    pub clusters: Vec<WeightedCluster>,
    /// The answer to all requests if there is no cluster.
    pub closed: Action,
    /// The receiver of copies.
    pub mirror: Option<Mirror>,
    /// The changes of cookies.
    pub cookies: Option<CookieRewrites>,
}

/// The consequences of a Service that cannot be used.
#[derive(Debug, Clone, Copy)]
struct Consequences {
    /// It is not valid.
    skipped: &'static str,
    /// It has a restriction that cannot be enforced.
    closed: &'static str,
}

/// The reason why a Service cannot be used.
#[derive(Debug)]
enum Unusable {
    /// It is not valid.
    Skipped,
    /// It has a restriction that cannot be enforced.
    Closing,
    /// Access to it is denied, with this answer.
    Denied(Action),
}

impl Tree<'_> {
    /// Resolves the Services of a route. A missing Service is skipped.
    pub fn services(
        &mut self,
        object: &Declaring,
        field: &str,
        services: &[ProxyService],
        wanted: &UpstreamPolicies,
    ) -> ResolvedServices {
        let mut resolved =
            ResolvedServices { clusters: Vec::new(), closed: Action::respond(503), mirror: None, cookies: None };
        let has_weights = services.iter().any(|service| !service.mirror && service.weight.is_some());
        let (mut is_closed, mut mirrors) = (false, 0);
        let cookies = cookies::of_services(self, object, field, &wanted.cookies, services);
        for (index, service) in services.iter().enumerate() {
            let field = format!("{field}.services[{index}]");
            // A Service that must be verified must not receive requests, not even copies.
            let rest = (&service.rest, &[][..]);
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
                resolved.mirror = self.mirror(object, wanted, &field, service);
                continue;
            }
            let weight = if has_weights { service.weight.unwrap_or(0) } else { 1 };
            let weight = u32::try_from(weight.clamp(0, HEAVIEST)).unwrap_or(0);
            let (mut filters, host) = self.service_headers(object, wanted, &field, service);
            filters.extend(cookies.filter(index));
            let filters = filters.into();
            let consequences = Consequences {
                skipped: "its share of the requests goes to the other Services, or is answered 503",
                closed: "the route is answered 503",
            };
            match self.cluster(object, wanted, (&field, service, host.as_ref()), consequences) {
                Ok(cluster) => add(&mut resolved.clusters, WeightedCluster { cluster, weight, filters }),
                Err(Unusable::Denied(denied)) => resolved.closed = denied,
                Err(Unusable::Closing) => is_closed = true,
                Err(Unusable::Skipped) => {}
            }
        }
        resolved.clusters.retain(|cluster| cluster.weight > 0);
        resolved.cookies = cookies.rewrites;
        if is_closed {
            resolved.clusters.clear();
            resolved.closed = Action::respond(503);
        }
        resolved
    }

    /// Returns the cluster of a Service. `host` replaces that of requests.
    fn cluster(
        &mut self,
        object: &Declaring,
        wanted: &UpstreamPolicies,
        (field, service, host): (&str, &ProxyService, Option<&HeaderValue>),
        consequences: Consequences,
    ) -> Result<ClusterId, Unusable> {
        let namespace = &object.proxy.meta.key.namespace;
        let Consequences { skipped, closed } = consequences;
        // Fails closed: an unknown policy may restrict the object.
        if !self.resolver.context.objects.is_readable(Kind::HTTP_POLICY, namespace) {
            let message = "the controller is not permitted to list HTTPPolicies, so it is unknown whether one restricts this HTTPProxy";
            let situation = situation::of_reason(Reason::PolicyNotValid);
            self.report.add(&object.origin, field, &situation, message, skipped);
            return Err(Unusable::Skipped);
        }
        let Some(port) = u16::try_from(service.port).ok().filter(|port| *port > 0) else {
            let message = format!("port {} is not a number from 1 to 65535", service.port);
            let field = format!("{field}.port");
            self.report.add(&object.origin, field, &situation::SERVICE_PORT_NOT_VALID, message, skipped);
            return Err(Unusable::Skipped);
        };
        let protocol = match service.protocol.as_deref().filter(|protocol| !protocol.is_empty()) {
            None => None,
            Some("tls") => Some(UpstreamProtocol::Tls),
            Some("h2") => Some(UpstreamProtocol::H2),
            Some("h2c") => Some(UpstreamProtocol::H2c),
            Some(other) => {
                let message = format!("protocol {other:?} is none of \"tls\", \"h2\", and \"h2c\"");
                let field = format!("{field}.protocol");
                self.report.add(&object.origin, field, &situation::SERVICE_PROTOCOL, message, skipped);
                return Err(Unusable::Skipped);
            }
        };
        match upstream::cluster(self, object, wanted, ReachedService { service, field, port, protocol, host }, closed) {
            Ok((cluster, None)) => Ok(cluster),
            Ok((_, Some(denied))) => Err(Unusable::Denied(Action::Respond { status: 403, body: Some(denied) })),
            Err(Unreached::Closed) => Err(Unusable::Closing),
            Err(Unreached::Fault(fault)) => {
                let below = upstream::below(&fault);
                let situation = match fault.reason {
                    Reason::ServiceUnresolvedReference => situation::SERVICE_UNRESOLVED,
                    other => situation::of_reason(other),
                };
                self.report.add(&object.origin, format!("{field}{below}"), &situation, fault.message, skipped);
                Err(Unusable::Skipped)
            }
        }
    }

    /// Returns the receiver of copies, if it is valid and has a share.
    fn mirror(
        &mut self,
        object: &Declaring,
        wanted: &UpstreamPolicies,
        field: &str,
        service: &ProxyService,
    ) -> Option<Mirror> {
        let percent = service.weight.unwrap_or(100);
        let percent = u32::try_from(percent.clamp(0, 100)).unwrap_or(0);
        let none = "it receives no copies";
        if percent == 0 {
            let message = "the weight of a mirror is its share in percent";
            let field = format!("{field}.weight");
            self.report.add(&object.origin, field, &situation::MIRROR_WITHOUT_SHARE, message, none);
            return None;
        }
        for (name, policy) in [
            ("requestHeadersPolicy", &service.request_headers_policy),
            ("responseHeadersPolicy", &service.response_headers_policy),
        ] {
            if policy.is_some() {
                let (field, message) = (format!("{field}.{name}"), "copies have the headers of the requests");
                self.report.add(&object.origin, field, &Block::Service.ignored(), message, "left out");
            }
        }
        let consequences = Consequences { skipped: none, closed: none };
        let cluster = self.cluster(object, wanted, (field, service, None), consequences).ok()?;
        Some(Mirror { cluster, share: Share::new(percent, 100)? })
    }

    /// Returns the changes of headers, and the host that replaces that of requests. The changes of the route precede those of the
    /// Service, as with Contour.
    fn service_headers(
        &mut self,
        object: &Declaring,
        wanted: &UpstreamPolicies,
        field: &str,
        service: &ProxyService,
    ) -> (Vec<ClusterFilter>, Option<HeaderValue>) {
        let (mut filters, mut host) = (Vec::new(), None);
        let of = |changes| ChangedMessages::OfService { service, of_requests: changes };
        if let Some(policy) = &service.request_headers_policy {
            let field = format!("{field}.requestHeadersPolicy");
            let (mut changes, rewritten) = headers::parse(self, object, &field, policy, of(true));
            changes.retain(|change| !wanted.requests.contains(change.name()));
            host = rewritten.as_ref().and_then(NewHost::name).cloned();
            filters.extend(host.clone().map(ClusterFilter::Host));
            filters.extend((!changes.is_empty()).then_some(ClusterFilter::RequestHeaders(changes)));
        }
        if let Some(policy) = &service.response_headers_policy {
            let field = format!("{field}.responseHeadersPolicy");
            let (mut changes, _) = headers::parse(self, object, &field, policy, of(false));
            changes.retain(|change| !wanted.responses.contains(change.name()));
            filters.extend((!changes.is_empty()).then_some(ClusterFilter::ResponseHeaders(changes)));
        }
        (filters, host)
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
