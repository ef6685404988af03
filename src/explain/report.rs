//! The report on one request, as data for programs and for [`text`](super::text).

use lockgate_route::translate::explained::{Answer, Backend, ConnectionTls, Done, Step};
use lockgate_route::translate::problem::{Problem, Reason};
use prost_types::Timestamp;
use serde::{Deserialize, Serialize};

use super::Question;
use super::describe;

/// The explanation of a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Report {
    /// The request: `GET https://shop.example.com/cart`.
    pub request: String,
    /// The answer at each listener that the request may reach.
    pub answers: Vec<ListenerAnswer>,
    /// The other listeners on this port, which do not serve the host.
    pub other_listeners: Vec<String>,
    /// The objects that name the host but do not serve it.
    pub elsewhere: Vec<Note>,
    /// Remarks on the report itself, such as a replica that did not answer.
    pub notes: Vec<String>,
}

/// The answer at one listener.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenerAnswer {
    /// The result, in one sentence.
    pub result: String,
    /// The kind of the result: `forward`, `redirect`, `respond`, `refuse`.
    pub action: String,
    /// The status of a response by Envoy itself.
    pub status: Option<u16>,
    /// The gRPC status of a response by Envoy itself to a gRPC client, who receives the HTTP status 200.
    pub grpc_status: Option<u8>,
    /// The listener.
    pub listener: ListenerEntry,
    /// The TLS properties of the connection.
    pub tls: Option<TlsEntry>,
    /// The virtual host: its domain.
    pub host: Option<String>,
    /// The path that routes match.
    pub path: String,
    /// The routes that serve the request.
    pub routes: Vec<RouteEntry>,
    /// The routes that also match but are not reached.
    pub later: Vec<RouteEntry>,
    /// The objects that lost a conflict.
    pub lost: Vec<Note>,
    /// The problems of the objects of the answer.
    pub problems: Vec<Note>,
    /// The objects that determine the answer: `Ingress shop/web`.
    pub objects: Vec<String>,
    /// The acceptance by Envoys; `None` without Envoys.
    pub envoys: Option<Accepted>,
}

/// A listener.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ListenerEntry {
    /// The name in Envoy.
    pub name: String,
    /// The port on which Envoy listens.
    pub port: u16,
    /// The object that declares it: `Gateway infra/public`. Empty for the listeners of Ingresses.
    pub object: String,
    /// The name of the listener in that object.
    pub section: String,
    /// The port that clients connect to, if an object declares it.
    pub public_port: Option<u16>,
    /// Whether no listener is known to have the port of the request.
    pub is_assumed: bool,
}

/// The TLS properties of a connection.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct TlsEntry {
    /// The pattern of server names that selects the filter chain.
    pub server_name: String,
    /// Whether backends terminate TLS.
    pub is_passthrough: bool,
    /// The certificates.
    pub certificates: Vec<CertificateEntry>,
    /// The TLS versions: `1.2 to 1.3`.
    pub versions: String,
    /// The authorities of client certificates, and whether a certificate is required.
    pub client_certificates: String,
}

/// A certificate.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateEntry {
    /// The Secret: `shop/cert`.
    pub secret: String,
    /// The names.
    pub names: Vec<String>,
    /// The end of the validity: `2027-01-01T00:00:00Z`.
    pub not_after: String,
}

/// A route.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RouteEntry {
    /// The share of the requests. Empty: all remaining requests.
    pub share: String,
    /// The object: `Ingress shop/web`.
    pub object: String,
    /// The field of the object.
    pub field: String,
    /// The condition on requests: `prefix /cart, header x-canary`.
    pub matches: String,
    /// The action of the route.
    pub action: String,
    /// The changes of requests and responses, and the limits.
    pub filters: Vec<String>,
    /// The clusters.
    pub clusters: Vec<ClusterEntry>,
    /// The session cookie of the request that selects the cluster. Empty: the shares of the clusters apply.
    pub session: String,
}

/// A cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClusterEntry {
    /// The name in Envoy.
    pub name: String,
    /// The Service.
    pub service: String,
    /// The port of the Service.
    pub port: String,
    /// The share of the requests: `90%`. Empty for a single cluster.
    pub share: String,
    /// The protocol: `HTTP/1.1`.
    pub protocol: String,
    /// The endpoints: `10.0.0.1:8080`, `10.0.0.2:8080 (draining)`.
    pub endpoints: Vec<String>,
    /// The discovery of endpoints by Envoy itself: `DNS name example.org:443`. Empty: the endpoints are listed.
    pub discovery: String,
}

/// A statement about an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Note {
    /// The object.
    pub object: String,
    /// The field.
    pub field: String,
    /// The reason, in CamelCase.
    pub reason: String,
    /// The problem or fact.
    pub message: String,
    /// The consequence.
    pub consequence: String,
    /// The remedy.
    pub remedy: String,
}

/// The acceptance of an answer by Envoys.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accepted {
    /// The number of Envoys.
    pub total: usize,
    /// The number of Envoys that have accepted all resources of the objects.
    pub accepted: usize,
    /// The Envoys that have not answered yet.
    pub waiting: Vec<String>,
    /// The rejected resources.
    pub rejected: Vec<Rejected>,
}

/// A resource that an Envoy has rejected.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct Rejected {
    /// The Envoy.
    pub envoy: String,
    /// The type and the name of the resource: `Cluster shop/cart/http`.
    pub resource: String,
    /// The objects of the resource.
    pub objects: Vec<String>,
}

impl From<&Problem> for Note {
    fn from(problem: &Problem) -> Self {
        Self {
            object: problem.object.to_string(),
            field: problem.field.clone(),
            reason: problem.reason.as_str().to_owned(),
            message: problem.message.trim_end().to_owned(),
            consequence: problem.consequence.clone(),
            remedy: problem.reason.remedy().to_owned(),
        }
    }
}

impl Report {
    /// Creates the report on a request from its answers.
    pub fn new(question: &Question, answers: Vec<Answer>) -> Self {
        let (matching, others): (Vec<_>, Vec<_>) = answers.into_iter().partition(Answer::knows_host);
        let (shown, others) = if matching.is_empty() { (others, Vec::new()) } else { (matching, others) };
        Self {
            request: question.line(),
            answers: shown.iter().map(ListenerAnswer::new).collect(),
            other_listeners: others.iter().map(|answer| answer.listener.to_string()).collect(),
            ..Self::default()
        }
    }

    /// Returns whether Envoy closes the connection, or answers with an error of its own, at a listener that the request may reach.
    pub fn is_refused(&self) -> bool {
        let refuses =
            |entry: &ListenerAnswer| entry.action == "refuse" || entry.status.is_some_and(|status| status >= 400);
        self.answers.is_empty() || self.answers.iter().any(refuses)
    }
}

impl ListenerAnswer {
    fn new(answer: &Answer) -> Self {
        let problems = answer.problems.iter().map(|problem| Note::from(&**problem));
        let losing = [Reason::Conflicted, Reason::HostNotGranted].map(Reason::as_str);
        let is_lost = |note: &Note| losing.contains(&note.reason.as_str());
        let (mut lost, problems): (Vec<Note>, Vec<Note>) = problems.partition(is_lost);
        lost.extend(answer.lost.iter().map(|(object, field, why)| Note {
            object: object.to_string(),
            field: field.clone(),
            reason: Reason::Conflicted.as_str().to_owned(),
            message: why.clone(),
            consequence: "not reached".to_owned(),
            remedy: "Use another host or match, or remove one of the two.".to_owned(),
        }));
        let shares = |share: &Option<lockgate_route::model::Share>| share.map(describe::share).unwrap_or_default();
        let mut routes: Vec<RouteEntry> =
            answer.steps.iter().map(|(share, step)| RouteEntry { share: shares(share), ..route(step) }).collect();
        if let Done::Forwarded(origin, backends, refused) = &answer.action {
            let mut clusters = clusters(backends, *refused);
            // The bytes of the connection are forwarded as they are.
            clusters.iter_mut().for_each(|cluster| cluster.protocol.clear());
            routes.push(RouteEntry {
                object: origin.to_string(),
                action: "forward the connection".to_owned(),
                clusters,
                ..RouteEntry::default()
            });
        }
        let (action, status) = describe::action(answer);
        Self {
            result: describe::result(answer),
            action: action.to_owned(),
            status,
            grpc_status: status.filter(|_| answer.is_grpc).map(|status| describe::grpc_status(status).0),
            listener: listener(answer),
            tls: answer.tls.as_ref().map(tls),
            host: answer.host.as_ref().map(ToString::to_string),
            path: answer.path.clone(),
            routes,
            later: answer.later.iter().map(route).collect(),
            lost,
            problems,
            objects: answer.objects().iter().map(ToString::to_string).collect(),
            envoys: None,
        }
    }
}

fn listener(answer: &Answer) -> ListenerEntry {
    let declared = answer.declared.as_ref();
    ListenerEntry {
        name: answer.listener.to_string(),
        port: answer.bind.port,
        object: declared.map(|(object, ..)| object.to_string()).unwrap_or_default(),
        section: declared.map(|(_, section, _)| section.to_string()).unwrap_or_default(),
        public_port: declared.map(|(.., port)| *port),
        is_assumed: answer.is_assumed,
    }
}

fn tls(tls: &ConnectionTls) -> TlsEntry {
    let certificates = tls.certificates.iter().map(|one| CertificateEntry {
        secret: one.secret.to_string(),
        names: one.names.clone(),
        not_after: one.not_after.map(|seconds| Timestamp { seconds, nanos: 0 }.to_string()).unwrap_or_default(),
    });
    TlsEntry {
        server_name: tls.server_name.to_string(),
        is_passthrough: tls.versions.is_none(),
        certificates: certificates.collect(),
        versions: tls.versions.map(describe::versions).unwrap_or_default(),
        client_certificates: tls.clients.as_ref().map(describe::clients).unwrap_or_default(),
    }
}

fn route(step: &Step) -> RouteEntry {
    RouteEntry {
        share: String::new(),
        object: step.route.origin.to_string(),
        field: step.field.clone(),
        matches: describe::matches(&step.route.matches),
        action: describe::route_action(step),
        filters: describe::filters(&step.route),
        clusters: clusters(&step.backends, 0),
        session: step.session.clone().unwrap_or_default(),
    }
}

fn clusters(backends: &[(Backend, u32)], refused: u32) -> Vec<ClusterEntry> {
    let total = describe::total(backends, refused);
    let is_single = backends.len() == 1 && refused == 0;
    let cluster = |(backend, weight): &(Backend, u32)| ClusterEntry {
        name: backend.id.to_string(),
        service: backend.id.port.service().to_string(),
        port: backend.id.port.port().to_string(),
        share: if is_single { String::new() } else { describe::percent(*weight, total) },
        protocol: backend.cluster.as_ref().map(|cluster| describe::protocol(cluster)).unwrap_or_default(),
        endpoints: backend.endpoints.as_ref().map(describe::endpoints).unwrap_or_default(),
        discovery: backend.cluster.as_ref().map(|cluster| describe::discovery(cluster)).unwrap_or_default(),
    };
    let mut all: Vec<ClusterEntry> = backends.iter().map(cluster).collect();
    if refused > 0 {
        all.push(ClusterEntry {
            name: "(closed)".to_owned(),
            share: describe::percent(refused, total),
            discovery: "connections of backends that cannot be used are closed".to_owned(),
            ..ClusterEntry::default()
        });
    }
    all
}
