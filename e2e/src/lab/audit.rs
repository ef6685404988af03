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
    /// Status code of the answer.
    pub status: u64,
    /// What the client calls itself.
    pub agent: String,
    /// Why it was allowed or refused, where the server says so.
    pub reason: String,
    /// When it came, in ISO 8601, UTC, with microseconds.
    pub time: String,
}

impl Lab {
    /// Those that were refused (403) for what the client may not do. An API server that has just started refuses everybody,
    /// until it has read its roles and bindings; that does not count.
    pub fn refused(&self) -> Vec<Request> {
        let starts = std::fs::read_to_string(self.file("kube-apiserver.starts")).unwrap_or_default();
        let starting = |time: &str| {
            let mut starts = starts.lines().filter_map(|line| line.split_once(' '));
            starts.any(|(from, to)| from <= time && time <= to)
        };
        let refused = |request: &Request| request.status == 403 && !starting(&request.time);
        self.requests().into_iter().filter(refused).collect()
    }

    /// All requests so far, but for the tests' own.
    ///
    /// # Panics
    /// If there is no audit log.
    pub fn requests(&self) -> Vec<Request> {
        let log = std::fs::read_to_string(self.file("audit.log")).expect("audit.log of the lab");
        let requests = log.lines().filter_map(|line| request(&serde_json::from_str(line).ok()?));
        requests.filter(|request| request.agent != OWN_AGENT).collect()
    }
}

fn request(event: &Value) -> Option<Request> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(Request {
        user: text(&event["user"]["username"]),
        verb: text(&event["verb"]),
        uri: text(&event["requestURI"]),
        status: event["responseStatus"]["code"].as_u64()?,
        agent: text(&event["userAgent"]),
        reason: text(&event["annotations"]["authorization.k8s.io/reason"]),
        time: text(&event["requestReceivedTimestamp"]),
    })
}

/// `system:serviceaccount:lockgate:lockgate list /api/v1/secrets: 403`
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}: {}", self.user, self.verb, self.uri, self.status)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, " ({})", self.reason) }
    }
}
