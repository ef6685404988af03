//! The explanation of a request, as data.

use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{
    Bind, ClientValidation, Cluster, ClusterId, Endpoints, Host, ListenerId, Route, SecretId, Share, TlsVersion,
};
use crate::objects::{Kind, ObjectKey};
use crate::translate::problem::Problem;

/// The destination of a request: a protocol and a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestDestination {
    /// The protocol.
    pub protocol: ClientProtocol,
    /// The port that the client connects to. `None` is the default port of HTTP and HTTPS.
    pub port: Option<u16>,
}

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientProtocol {
    /// HTTP in plain text.
    Http,
    /// HTTP over TLS, or any other protocol over TLS if the listener forwards connections.
    Https,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// The explanation of a request at one listener.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The Envoy listener.
    pub listener: ListenerId,
    /// The address on which Envoy listens.
    pub bind: Bind,
    /// Whether the port of the request is only assumed to belong to this listener.
    pub is_assumed: bool,
    /// The Gateway or the ListenerSet, with the name and the port of its listener. `None` for the listeners of Ingresses.
    pub declared: Option<(ObjectRef, Arc<str>, u16)>,
    /// The TLS properties of the connection.
    pub tls: Option<ConnectionTls>,
    /// The normalized path; empty if no route was compared.
    pub path: String,
    /// The domain of the virtual host, or the server name of forwarded connections.
    pub host: Option<Host>,
    /// The decision of Envoy.
    pub action: Done,
    /// Whether the client uses gRPC. Envoy then translates the status of its own responses.
    pub is_grpc: bool,
    /// The routes that serve the request, each with its share of the requests that remain after the routes before it.
    pub steps: Vec<(Option<Share>, Step)>,
    /// The routes that also match the request, but are not reached.
    pub later: Vec<Step>,
    /// The routes that lost, with the reason: another object has the same match.
    pub lost: Vec<(ObjectRef, String, String)>,
    /// The problems of the objects of the answer, and the problems of other objects with this host.
    pub problems: Vec<Arc<Problem>>,
}

impl Answer {
    /// Returns the objects behind the answer: its listener, its certificates, its routes, and its backends.
    pub fn objects(&self) -> Vec<ObjectRef> {
        let mut objects = Vec::new();
        objects.extend(self.declared.iter().map(|(object, ..)| object.clone()));
        for certificate in self.tls.iter().flat_map(|tls| &tls.certificates) {
            let ObjectKey { namespace, name } = certificate.secret.object();
            objects.push(ObjectRef::new(Kind::SECRET.as_str(), namespace, name));
        }
        let of_service = |(backend, _): &(Backend, u32)| {
            let ObjectKey { namespace, name } = backend.id.port.service();
            ObjectRef::new(Kind::SERVICE.as_str(), namespace, name)
        };
        for (_, step) in &self.steps {
            objects.push(step.route.origin.clone());
            objects.extend(step.backends.iter().map(of_service));
        }
        if let Done::Forwarded(origin, backends, _) = &self.action {
            objects.push(origin.clone());
            objects.extend(backends.iter().map(of_service));
        }
        objects.sort();
        objects.dedup();
        objects
    }

    /// Returns whether the listener serves the host of the request. A virtual host or a server name matches the host,
    /// or a route of the entry for all hosts matches the request.
    pub fn knows_host(&self) -> bool {
        let of_name = [self.host.as_ref(), self.tls.as_ref().map(|tls| &tls.server_name)];
        let is_named = of_name.into_iter().flatten().any(|host| *host != Host::Any);
        is_named || !self.steps.is_empty() || matches!(self.action, Done::Forwarded(..) | Done::RedirectedTo(_))
    }
}

/// The decision of Envoy on a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Done {
    /// The connection is closed.
    Closed(&'static str),
    /// Envoy answers without a route.
    Answered(u16, &'static str),
    /// Envoy redirects to the normalized path with status 307.
    RedirectedTo(String),
    /// A route serves the request.
    Routed,
    /// The connection is forwarded to clusters with these weights. The last number is the weight of refused connections.
    Forwarded(ObjectRef, Vec<(Backend, u32)>, u32),
}

/// The TLS properties of a connection.
#[derive(Debug, Clone)]
pub struct ConnectionTls {
    /// The server name that covers the connection.
    pub server_name: Host,
    /// The key pairs: the Secret, the names of the certificate, and the end of its validity. Empty for passthrough.
    pub certificates: Vec<Certificate>,
    /// The TLS versions; `None` for passthrough.
    pub versions: Option<(TlsVersion, TlsVersion)>,
    /// The validation of client certificates.
    pub clients: Option<ClientValidation>,
    /// The objects that request TLS.
    pub origins: Vec<ObjectRef>,
}

/// The certificate of a key pair.
#[derive(Debug, Clone)]
pub struct Certificate {
    /// The Secret.
    pub secret: SecretId,
    /// The names of the certificate.
    pub names: Vec<String>,
    /// The end of the validity in seconds since the Unix epoch.
    pub not_after: Option<i64>,
}

/// A route that matches the request.
#[derive(Debug, Clone)]
pub struct Step {
    /// The route.
    pub route: Arc<Route>,
    /// The field of its object: `spec.rules[0].http.paths[1]`. Empty if it is unknown.
    pub field: String,
    /// The clusters with their weights.
    pub backends: Vec<(Backend, u32)>,
    /// The cookie of the request that selects the only cluster, instead of the weights.
    pub session: Option<String>,
}

/// A cluster with its endpoints.
#[derive(Debug, Clone, PartialEq)]
pub struct Backend {
    /// The identity.
    pub id: ClusterId,
    /// The cluster.
    pub cluster: Option<Arc<Cluster>>,
    /// The endpoints. `None`: Envoy resolves them by DNS, or the address is fixed.
    pub endpoints: Option<Endpoints>,
}
