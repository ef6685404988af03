//! The audit log of the API server for requests of service accounts (`lab/audit.yaml`).

use std::fmt;

use serde_json::Value;

use super::Lab;

/// The user agent of the tests. Their requests with the controller's token, which are refused on purpose, are not
/// counted.
pub const OWN_AGENT: &str = "lockgate-e2e";

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// The user: `system:serviceaccount:NAMESPACE:NAME`.
    pub user: String,
    /// The verb: `list`, `watch`, `patch` ...
    pub verb: String,
    /// The path and query.
    pub uri: String,
    /// The resource: `ingresses`.
    pub resource: String,
    /// The namespace of the object. Empty: it has none.
    pub namespace: String,
    /// The name of the object. Empty: there is not a single object.
    pub name: String,
    /// The status code of the answer.
    pub status: u64,
    /// The user agent.
    pub agent: String,
    /// Whether its roles permit it. The request can still be refused, for example in a namespace that is being deleted.
    pub allowed: bool,
    /// The reason of the decision, if the server states it.
    pub reason: String,
    /// The time in ISO 8601, UTC, with microseconds.
    pub time: String,
}

impl Request {
    /// Returns whether a controller sent the request.
    pub fn is_from_lockgate(&self) -> bool {
        self.account().is_some_and(|(_, name)| name.contains("lockgate")) && self.agent != OWN_AGENT
    }

    /// Returns the namespace and the name of the service account.
    fn account(&self) -> Option<(&str, &str)> {
        self.user.strip_prefix("system:serviceaccount:")?.split_once(':')
    }
}

impl Lab {
    /// Returns all requests so far.
    ///
    /// # Panics
    /// If there is no audit log.
    pub fn requests(&self) -> Vec<Request> {
        let log = std::fs::read_to_string(self.file("audit.log")).expect("audit.log of the lab");
        log.lines().filter_map(|line| request(&serde_json::from_str(line).ok()?)).collect()
    }

    /// Returns the requests of controllers that were refused (403) for lack of permissions. Some refusals do not count:
    /// a starting API server refuses all requests until it has read its roles and bindings, and the permissions of a
    /// removed release are deleted shortly before its pods.
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

/// Returns whether the last change of the bindings of the account before this request was a deletion.
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

/// Formats `system:serviceaccount:lockgate:lockgate list /api/v1/secrets: 403`.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {} {}: {}", self.time, self.user, self.verb, self.uri, self.status)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, " ({})", self.reason) }
    }
}
