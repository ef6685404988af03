//! ExtensionServices: the servers that Envoy asks about requests.
//!
//! An ExtensionService is a source without routes: it declares the verdicts on itself. The root that refers to it parses it again, and
//! its routes depend on the cluster. So a server that no root needs has no cluster.

mod parser;

use std::sync::Arc;
use std::time::Duration;

use super::report::{ProxyFault, ProxyReport};
use super::server::{Refusal, Server};
use super::situation::{self, Block};
use super::upstream::{self, RootPolicies};
use crate::model::{AuthorizationProtocol, ClusterId};
use crate::objects::http_proxy::{ExtensionService, ExtensionServiceReference};
use crate::objects::{Kind, Object, ObjectKey, Revision};
use crate::translate::dialect::{Dialect, Resolver, Selection};
use crate::translate::source::{Dependencies, Source};

/// The dialect of ExtensionServices.
pub const DIALECT: Dialect = Dialect {
    kind: Kind::EXTENSION_SERVICE,
    selection: Selection::Referenced,
    parse,
    conflicts: None,
    hosts: |_| Vec::new(),
    key_pairs: |_| Vec::new(),
    ..super::DIALECT
};

/// A server that can be called.
#[derive(Debug)]
struct Extension {
    server: Server,
    /// The other Service ports among which the calls are divided.
    shares: Vec<Server>,
    /// The time limit of an answer.
    timeout: Option<Duration>,
    /// Whether the server does not understand HTTP/2, so that it cannot be called over gRPC.
    is_http1: bool,
}

fn parse(object: &Object, mut resolver: Resolver) -> Result<Source, Dependencies> {
    let service: &ExtensionService = object.get().ok_or_else(Dependencies::default)?;
    let mut report = ProxyReport::default();
    report.declare_valid(&object.object_ref());
    // The parser reports why the server cannot be called.
    let _ = parser::parse(service, &mut report, &mut resolver);
    let (problems, verdicts) = report.into_parts();
    let precedence = resolver.context.objects.precedence(Kind::EXTENSION_SERVICE, &service.meta);
    let source = Source::new(precedence, object.object_ref(), Revision::new(&service.meta, &service.spec));
    Ok(Source { dependencies: resolver.into_dependencies(), problems, verdicts, ..source })
}

/// The clusters of a server.
pub struct ExtensionClusters {
    /// The cluster that is called.
    pub cluster: ClusterId,
    /// The clusters of the other Service ports among which the calls are divided.
    pub shares: Vec<ClusterId>,
}

/// Returns the clusters of an ExtensionService, and the time limit of its answers.
pub fn clusters(
    reference: &ExtensionServiceReference,
    protocol: AuthorizationProtocol,
    own: &Arc<str>,
    resolver: &mut Resolver,
    policies: &mut RootPolicies,
) -> Result<(ExtensionClusters, Option<Duration>), ProxyFault> {
    let ExtensionServiceReference { api_version, namespace, name, rest } = reference;
    let field = ".extensionRef";
    if let Some(name) = rest.names().next() {
        let message = format!("field {name:?} is not supported");
        return Err(ProxyFault::new(Block::Authorization.unsupported(), format!("{field}.{name}"), message));
    }
    let served = Kind::EXTENSION_SERVICE.api_version();
    if !api_version.is_empty() && *api_version != served {
        let message = format!("{api_version:?} is not {served:?}");
        return Err(ProxyFault::new(situation::auth("AuthBadResourceVersion"), format!("{field}.apiVersion"), message));
    }
    let namespace: Arc<str> = if namespace.is_empty() { own.clone() } else { namespace.as_str().into() };
    let key = ObjectKey { namespace, name: name.as_str().into() };
    let fault = |message: String| ProxyFault::new(situation::auth("ExtensionServiceNotFound"), field, message);
    let found = resolver.included(&Kind::EXTENSION_SERVICE.id(key.clone()));
    let Some(service) = found.and_then(|object| object.get::<ExtensionService>()) else {
        return Err(fault(format!("ExtensionService \"{key}\" does not exist")));
    };
    let of_service = |message: &str| fault(format!("ExtensionService \"{key}\": {message}"));
    // The object itself reports its faults.
    let Extension { server, shares, timeout, is_http1 } =
        parser::parse(service, &mut ProxyReport::default(), resolver).map_err(|message| of_service(&message))?;
    if is_http1 && protocol == AuthorizationProtocol::Grpc {
        return Err(of_service("spec.protocol: a server with \"http/1.1\" cannot be called over gRPC"));
    }
    let mut cluster = |server: Server| {
        server.cluster(policies, resolver).map_err(|refusal| match refusal {
            Refusal::TooMany => ProxyFault::new(situation::auth("TooManyPolicies"), field, upstream::too_many()),
            Refusal::Fault(message) => of_service(&message),
        })
    };
    let shares = shares.into_iter().map(&mut cluster).collect::<Result<_, _>>()?;
    Ok((ExtensionClusters { cluster: cluster(server)?, shares }, timeout))
}
