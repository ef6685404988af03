//! The traffic policy with which a route reaches a Service. It takes precedence over that of the Service and its BackendPolicies.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::tree::{Declaring, Tree};
use super::{balancing, cookies, headers, health, policies, situation, validation};
use crate::model::{
    BackendFeatures, ClusterId, CookieRewrite, HeaderName, HeaderValue, HealthCheck, Host, LoadBalancing, PolicyId,
    TrafficPolicy, UpstreamProtocol,
};
use crate::objects::http_proxy::{ProxyRoute, ProxyService, TcpProxy};
use crate::objects::{Kind, ObjectKey, Objects, Service};
use crate::translate::backend::{self, BackendFault};
use crate::translate::graph::Input;
use crate::translate::host;
use crate::translate::source::WantedPort;

/// The maximum number of different policies of a root, each counted for each Service port. Envoy has a cluster with all endpoints of the
/// port for each of them.
const MOST: usize = 100;

/// The size of a cluster without its certificate authorities, in bytes.
const CLUSTER: u64 = 1 << 10;

/// The policies of a route for all its Services.
#[derive(Debug, Default)]
pub struct UpstreamPolicies {
    load_balancing: Option<LoadBalancing>,
    health_check: Option<HealthCheck>,
    idle_timeout: Option<Duration>,
    /// The host that replaces that of requests.
    host: Option<HeaderValue>,
    /// The changes of cookies.
    pub cookies: Vec<CookieRewrite>,
    /// The headers of requests that the route changes, whatever a Service does.
    pub requests: BTreeSet<HeaderName>,
    /// The headers of responses that the route changes.
    pub responses: BTreeSet<HeaderName>,
}

/// The policies of a root for Service ports, and what its routes take of Envoy's memory.
#[derive(Debug, Default)]
pub struct RootPolicies {
    known: BTreeSet<(ObjectKey, u16, PolicyId)>,
    /// The size of the certificate authorities of all clusters, in bytes.
    authorities: u64,
    /// The number of routes with an interpreter of their own.
    pub interpreters: usize,
}

impl RootPolicies {
    /// Returns whether a policy of a Service port is within the limits of the root. `size`: the bytes of its certificate
    /// authorities, which each cluster copies. `limit`: the maximum for all certificate authorities of the root, in bytes.
    pub fn admit(&mut self, (service, port, policy): (&ObjectKey, u16, PolicyId), size: usize, limit: u64) -> bool {
        let known = (service.clone(), port, policy);
        if self.known.contains(&known) {
            return true;
        }
        let sum = self.authorities.saturating_add(size as u64);
        let is_admitted = self.known.len() < MOST && (size == 0 || sum <= limit);
        if is_admitted {
            self.known.insert(known);
            self.authorities = sum;
        }
        is_admitted
    }

    /// Returns the size of the clusters with these policies, in bytes.
    pub fn size(&self) -> u64 {
        (self.known.len() as u64).saturating_mul(CLUSTER).saturating_add(self.authorities)
    }
}

/// Returns the message on a policy beyond the limits of a root.
pub fn too_many() -> String {
    format!(
        "the root has more than {MOST} different policies for Services, or their certificate authorities take more than \
         tenants.maxConfigurationPerNamespace"
    )
}

/// Returns the external name of a Service, if it is a DNS name.
pub fn external_name(objects: &Objects, service: &ObjectKey) -> Option<Arc<str>> {
    let name = objects.get::<Service>(service)?.external_name.as_deref()?;
    match host::parse(name.trim_end_matches('.')) {
        Ok(Host::Exact(name)) => Some(name),
        _ => None,
    }
}

/// A Service of a route, parsed.
#[derive(Debug, Clone, Copy)]
pub struct ReachedService<'a> {
    /// The Service.
    pub service: &'a ProxyService,
    /// Its field.
    pub field: &'a str,
    /// The port.
    pub port: u16,
    /// The protocol, if it does not depend on the Service.
    pub protocol: Option<UpstreamProtocol>,
    /// The host that replaces that of requests to this Service.
    pub host: Option<&'a HeaderValue>,
}

/// The reason why a Service cannot be reached.
#[derive(Debug)]
pub enum Unreached {
    /// The Service is not valid.
    Fault(BackendFault),
    /// A restriction cannot be enforced, and is reported.
    Closed,
}

/// Parses the policies of a route for its Services. `host` replaces that of requests.
pub fn wanted(
    tree: &mut Tree,
    object: &Declaring,
    field: &str,
    route: &ProxyRoute,
    host: Option<HeaderValue>,
) -> UpstreamPolicies {
    let proxies = &tree.resolver.context.settings.http_proxies;
    UpstreamPolicies {
        load_balancing: balancing::of_route(tree, object, field, route.load_balancer_policy.as_ref()),
        health_check: health::of_route(tree, object, field, route.health_check_policy.as_ref()),
        idle_timeout: policies::idle_connection(tree, object, field, route.timeout_policy.as_ref()),
        host,
        cookies: cookies::parse(tree, object, field, &route.cookie_rewrite_policies, situation::Block::Route),
        requests: headers::changed(route.request_headers_policy.as_ref(), proxies),
        responses: headers::changed(route.response_headers_policy.as_ref(), proxies),
    }
}

/// The policies of a TCP proxy for all its Services.
pub fn of_connections(tree: &mut Tree, object: &Declaring, proxy: &TcpProxy) -> UpstreamPolicies {
    UpstreamPolicies {
        load_balancing: balancing::of_connections(tree, object, proxy.load_balancer_policy.as_ref()),
        health_check: health::of_connections(tree, object, proxy.health_check_policy.as_ref()),
        ..UpstreamPolicies::default()
    }
}

/// Returns the field of a fault below that of the Service.
pub fn below(fault: &BackendFault) -> &'static str {
    match fault.field {
        ".service.name" => ".name",
        ".service.port" => ".port",
        _ => "",
    }
}

/// Returns the cluster of a Service, and the body of a 403 if access to it is denied.
pub fn cluster(
    tree: &mut Tree,
    object: &Declaring,
    wanted: &UpstreamPolicies,
    reached: ReachedService,
    closed: &str,
) -> Result<(ClusterId, Option<Arc<str>>), Unreached> {
    let ReachedService { service, field, port, protocol, host } = reached;
    let key = ObjectKey { namespace: object.proxy.meta.key.namespace.clone(), name: service.name.as_str().into() };
    let wanted_port = WantedPort::Number(port.into());
    let context = tree.resolver.context;
    // The policies depend on the Service, also if they leave it without a cluster.
    tree.resolver.record(Input::new(Kind::SERVICE, key.clone()));
    let Some(base) = backend::policy_of_port(context, &key, wanted_port, protocol) else {
        // The Service or the port does not exist.
        return tree.resolver.cluster(key, wanted_port, None).map_err(Unreached::Fault);
    };
    let is_external = context.objects.get::<Service>(&key).is_some_and(|found| found.external_name.is_some());
    let mut policy = base;
    let features = features(tree, object, wanted, (&key, reached), is_external);
    policy.features = (!features.is_empty()).then(|| Arc::new(features));
    let host = host.or(wanted.host.as_ref()).map(|host| Arc::<str>::from(host.as_str()));
    let mut size = 0;
    if let Some(validation) = &service.validation {
        let place = validation::ValidationField {
            origin: &object.origin,
            field: &format!("{field}.validation"),
            block: situation::Block::Service,
            not_valid: situation::UPSTREAM_VALIDATION,
            not_delegated: situation::CA_NOT_DELEGATED,
            closed,
        };
        let (report, resolver) = (&mut tree.report, &mut tree.resolver);
        let parsed =
            validation::parse(validation, host.or(external_name(context.objects, &key)), place, report, resolver);
        let (verification, of_authorities) = parsed.map_err(|()| Unreached::Closed)?;
        if !policy.protocol.is_tls() {
            let message = "the protocol of the Service is neither \"tls\" nor \"h2\", so there is no certificate";
            let field = format!("{field}.validation");
            tree.report.add(&object.origin, field, &situation::UPSTREAM_VALIDATION, message, closed);
            return Err(Unreached::Closed);
        }
        (policy.verification, size) = (Some(Arc::new(verification)), of_authorities);
    } else if policy.protocol.is_tls() {
        policy.server_name = host;
    }
    let is_own = policy.features.is_none() && policy.verification.is_none() && policy.server_name.is_none();
    let limit = context.settings.tenants.max_configuration_per_namespace;
    if is_own || tree.policies.admit((&key, port, policy.id()), size, limit) {
        let policy = (!is_own || protocol.is_some()).then_some(policy);
        return tree.resolver.cluster(key, wanted_port, policy).map_err(Unreached::Fault);
    }
    let message = too_many();
    let situation = situation::TOO_MANY_POLICIES;
    if policy.verification.is_some() {
        tree.report.add(&object.origin, field, &situation, message, closed);
        return Err(Unreached::Closed);
    }
    let consequence = "load balancing, health checks, and limits of idle connections left out";
    tree.report.add(&object.origin, field, &situation, message, consequence);
    let policy = protocol.map(|_| TrafficPolicy { features: None, server_name: None, ..policy });
    tree.resolver.cluster(key, wanted_port, policy).map_err(Unreached::Fault)
}

fn features(
    tree: &mut Tree,
    object: &Declaring,
    wanted: &UpstreamPolicies,
    (key, reached): (&ObjectKey, ReachedService),
    is_external: bool,
) -> BackendFeatures {
    let ReachedService { service, field, port, .. } = reached;
    let balancing = wanted.load_balancing.as_ref();
    let load_balancing = balancing::of_service(tree, object, field, balancing, service.slow_start_policy.as_ref());
    let health_check = wanted.health_check.clone().and_then(|check| {
        let unchecked = "its endpoints are not checked";
        if is_external {
            // Its owner could make Envoy probe hosts outside of the Kubernetes cluster.
            let message = "the Service has an external name, whose endpoints are not checked";
            tree.report.add(&object.origin, field, &situation::HEALTH_CHECK_NOT_VALID, message, unchecked);
            return None;
        }
        let context = tree.resolver.context;
        let number = service.health_port.unwrap_or(port.into());
        let found = u16::try_from(number).ok().and_then(|number| backend::port_of_number(context.objects, key, number));
        let Some(found) = found else {
            let message = format!("Service \"{key}\" has no port {number}");
            let field = format!("{field}.healthPort");
            tree.report.add(&object.origin, field, &situation::SERVICE_UNRESOLVED, message, unchecked);
            return None;
        };
        // A BackendPolicy can check the endpoints of the shared load assignment at another port.
        let is_separate = number != i64::from(port) || context.backend_policies.health_check_port(key, port).is_some();
        Some(HealthCheck { service_port: is_separate.then_some(found), ..check })
    });
    BackendFeatures { load_balancing, health_check, idle_timeout: wanted.idle_timeout, ..BackendFeatures::default() }
}
