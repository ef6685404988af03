//! What the API server noted of requests made with service accounts' tokens (`lab/audit.yaml`).

use std::fmt;

use serde_json::Value;

use super::Lab;

/// How the tests call themselves: what they ask with the controller's token, to be refused, is not the controller's doing.
pub const OWN_AGENT: &str = "lockgate-e2e";

/// One request.
#[derive(Debug, Clone)]
pub struct Request {
    /// `system:serviceaccount:NAMESPACE:NAME`
    pub user: String,
    /// `list`, `watch`, `patch` ...
    pub verb: String,
    /// Path and query.
    pub uri: String,
    /// `ingresses`
    pub resource: String,
    /// The object's namespace, empty if it is in none.
    pub namespace: String,
    /// The object's name, empty if there is not one.
    pub name: String,
    /// Status code of the answer.
    pub status: u64,
    /// What the client calls itself.
    pub agent: String,
    /// Whether its roles allow it. A request may be refused nevertheless, in a namespace that is being removed, say.
    pub allowed: bool,
    /// Why it was allowed or refused, where the server says so.
    pub reason: String,
    /// When it came, in ISO 8601, UTC, with microseconds.
    pub time: String,
}

impl Request {
    /// Whether it is from a controller of ours.
    pub fn is_from_lockgate(&self) -> bool {
        self.account().is_some_and(|(_, name)| name.contains("lockgate")) && self.agent != OWN_AGENT
    }

    /// Namespace and name of the service account.
    fn account(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix("system:serviceaccount:")?.split_once(':')
    }
}

impl Lab {
    /// All requests so far.
    ///
    /// # Panics
    /// If there is no audit log.
    pub fn requests(&self) -> Vec<Request> {
        let log = std::fs::read_to_string(self.file("audit.log")).expect("audit.log of the lab");
        log.lines().filter_map(|line| request(&serde_json::from_str(line).ok()?)).collect()
    }

    /// Requests of controllers that were refused (403) for what they may not do. What does not count: an API server that
    /// has just started refuses everybody, until it has read its roles and bindings; and a release that is being removed
    /// loses its rights a moment before its pods end.
    pub fn refused(&self) -> Vec<Request> {
        let starts = std::fs::read_to_string(self.file("kube-apiserver.starts")).unwrap_or_default();
        let starting = |time: &str| {
            let mut starts = starts.lines().filter_map(|line| line.split_once(' '));
            starts.any(|(from, to)| from <= time && time <= to)
        };
        let requests = self.requests();
        let wrong = |request: &&Request| {
            request.status == 403
                && !request.allowed
                && request.is_from_lockgate()
                && !starting(&request.time)
                && !removed(request, &requests)
        };
        requests.iter().filter(wrong).cloned().collect()
    }
}

/// Whether the last that happened before this request to the bindings of its account was that they went.
fn removed(request: &Request, all: &[Request]) -> bool {
    let Some((namespace, account)) = request.account() else { return false };
    let binding = |other: &&Request| match &*other.resource {
        "clusterrolebindings" => other.name.starts_with(account),
        "rolebindings" => other.namespace == namespace,
        _ => false,
    };
    let before = all.iter().filter(binding).filter(|other| other.status < 300 && other.time <= request.time);
    before.max_by(|a, b| a.time.cmp(&b.time)).is_some_and(|last| last.verb.starts_with("delete"))
}

fn request(event: &Value) -> Option<Request> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let object = &event["objectRef"];
    Some(Request {
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        uri: text(&event["requestURI"]),
        resource: text(&object["resource"]),
        namespace: text(&object["namespace"]),
        name: text(&object["name"]),
        status: event["responseStatus"]["code"].as_u64()?,
        agent: text(&event["userAgent"]),
        allowed: event["annotations"]["authorization.k8s.io/decision"] == "allow",
        reason: text(&event["annotations"]["authorization.k8s.io/reason"]),
        time: text(&event["requestReceivedTimestamp"]),
    })
}

/// `system:serviceaccount:lockgate:lockgate list /api/v1/secrets: 403`
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}: {}", self.time, self.user, self.verb, self.uri, self.status)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, " ({})", self.reason) }
    }
}
