//! The parser of a single HTTPProxy. An object without a host declares only that it is orphaned.

use std::sync::Arc;

use super::access::HostAccess;
use super::report::{ProxyReport, VALID};
use super::situation::{self, Block};
use super::tls;
use super::tree::{HostPolicies, InheritedConditions, Tree};
use crate::model::Host;
use crate::objects::http_proxy::{HttpProxy, VirtualHost};
use crate::objects::{Kind, Revision};
use crate::translate::dialect::Resolver;
use crate::translate::host;
use crate::translate::source::{Rule, Shared, Source, section_of};
use crate::translate::unit::Field;
use crate::translate::verdict::{Detail, Severity, Status, Verdict};

/// The field of the host.
pub const FQDN: &str = "spec.virtualhost.fqdn";

/// The type and the reason of the error of an object that no root includes.
pub const ORPHANED: &str = "Orphaned";

/// The message of an object that no root includes, as Contour writes it.
const NO_ROOT: &str = "this HTTPProxy is not part of a delegation chain from a root HTTPProxy";

/// Parses an HTTPProxy. A fault affects only the part that contains it.
pub fn parse(proxy: &HttpProxy, resolver: Resolver) -> Source {
    let origin = proxy.meta.object_ref(Kind::HTTP_PROXY);
    let precedence = resolver.context.objects.precedence(Kind::HTTP_PROXY, &proxy.meta);
    let source = Source::new(precedence, origin.clone(), Revision::new(&proxy.meta, &proxy.spec));
    let Some(virtual_host) = &proxy.spec.virtualhost else {
        // Only a root that includes it can know more.
        let message = || NO_ROOT.into();
        let orphaned = Verdict::new(origin, VALID, Status::False, ORPHANED);
        let detail = Some(Detail { severity: Severity::Error, r#type: ORPHANED });
        let entry = Verdict { detail, status: Status::True, message: message(), ..orphaned.clone() };
        let verdicts = [Verdict { message: message(), ..orphaned }, entry].into();
        let asks = !proxy.spec.routes.is_empty() || proxy.spec.tcpproxy.is_some();
        return Source { asks, verdicts, ..source };
    };
    let mut report = ProxyReport::default();
    report.declare_valid(&origin);
    let host = match host::parse(&virtual_host.fqdn) {
        Ok(Host::Any) => {
            report.add(&origin, FQDN, &situation::FQDN_NOT_SPECIFIED, "no host is specified", "nothing is served");
            None
        }
        Ok(host) => Some(host),
        Err(fault) => {
            let message = format!("host {:?} {fault}", virtual_host.fqdn);
            report.add(&origin, FQDN, &situation::FQDN_NOT_VALID, message, "nothing is served");
            None
        }
    };
    let allowed = host.filter(|_| {
        let may_be_root = resolver.context.settings.http_proxies.may_be_root(&proxy.meta.key.namespace);
        if !may_be_root {
            let message = "the setting \"httpProxy.rootNamespaces\" does not contain the namespace";
            report.add(&origin, "spec.virtualhost", &situation::ROOT_NAMESPACE, message, "nothing is served");
        }
        may_be_root
    });
    let granted = allowed.filter(|host| match resolver.check_host(host, &proxy.meta.key.namespace) {
        Ok(()) => true,
        Err(message) => {
            report.add(&origin, FQDN, &situation::HOST_NOT_GRANTED, message, "nothing is served");
            false
        }
    });
    let has_refused_hosts = granted.is_none() && !virtual_host.fqdn.is_empty();
    let Some(host) = granted else {
        let (problems, verdicts) = report.into_parts();
        return Source { asks: true, has_refused_hosts, problems, verdicts, ..source };
    };
    serve(proxy, virtual_host, host, (report, resolver), source)
}

/// Serves the host of a root.
fn serve(
    proxy: &HttpProxy,
    virtual_host: &VirtualHost,
    host: Host,
    (mut report, mut resolver): (ProxyReport, Resolver),
    source: Source,
) -> Source {
    let origin = &source.origin;
    let spec = &proxy.spec;
    if spec.routes.is_empty() && spec.includes.is_empty() && spec.tcpproxy.is_none() {
        let message = "there are neither routes nor includes nor a TCP proxy";
        report.add(origin, "spec", &situation::NOTHING_DEFINED, message, "answered 404");
    }
    let closed = "answered 503 for all routes of the host";
    let mut is_closed =
        report.add_rest(origin, "spec.virtualhost", (&virtual_host.rest, &[]), Block::VirtualHost, closed);
    let tls = virtual_host.tls.as_ref().map(|tls| {
        is_closed |= report.add_rest(origin, "spec.virtualhost.tls", (&tls.rest, &[]), Block::Tls, closed);
        tls::parse(proxy, tls, &host, &mut report, &mut resolver)
    });
    let cors = virtual_host.cors_policy.as_ref();
    let cors = cors.and_then(|cors| super::policies::cors(cors, origin, &mut report, &mut resolver.patterns));
    let cors = cors.map(Arc::new);
    let (access, closes) = HostAccess::parse(virtual_host, origin, closed, &mut report, &mut resolver);
    let is_closed = is_closed || closes;
    let section: Option<Arc<str>> = section_of(&host);
    let redirect = tls.as_ref().map(|tls| tls.redirect);
    let is_wildcard = matches!(host, Host::Wildcard(_));
    let policies = HostPolicies { is_closed, is_wildcard, access, cors, redirect, section };
    let mut tree = Tree::new(resolver, report, policies);
    tree.add(proxy, &InheritedConditions::default());
    let stream = tree.stream(proxy, virtual_host);
    let size_of_clusters = tree.policies.size();
    let (units, report, resolver) = tree.into_parts();
    let (problems, verdicts) = report.into_parts();
    let rule = Rule { field: Field::new(FQDN, &[]), host, units: units.into() };
    let versions = tls.as_ref().map(|tls| tls.versions);
    let clients = tls.as_ref().and_then(|tls| tls.clients.clone());
    let is_without_server_name = tls.as_ref().is_some_and(|tls| tls.is_without_server_name);
    let entries = tls.and_then(|tls| tls.entry).into_iter().collect();
    let shared = Shared::new(vec![rule], entries);
    let tls_versions = versions.unwrap_or(shared.tls_versions);
    let shared = Shared { tls_versions, stream, clients, is_without_server_name, size_of_clusters, ..shared };
    Source { asks: true, shared, dependencies: resolver.into_dependencies(), problems, verdicts, ..source }
}
