//! Responses as one line of text.

use std::fmt;
use std::ops::{Deref, Index};
use std::sync::Arc;

use super::{CLUSTER, ENDPOINTS, EXTENSION, LISTENER, ROUTES, SECRET};
use crate::protocol::Response;
use crate::snapshot::ResourceType;

/// Returns the short name of a type in a transcript.
pub fn short(kind: ResourceType) -> &'static str {
    match kind {
        CLUSTER => "CDS",
        ENDPOINTS => "EDS",
        EXTENSION => "ECDS",
        LISTENER => "LDS",
        ROUTES => "RDS",
        SECRET => "SDS",
        other => other.short_name(),
    }
}

/// The responses to one event, comparable with a transcript.
#[derive(Clone)]
pub struct Sent(pub Vec<Response>);

impl Sent {
    /// Returns the only response.
    pub fn one(&self) -> &Response {
        assert_eq!(self.0.len(), 1, "one response expected: {self}");
        &self.0[0]
    }

    /// Returns the only response of a type.
    pub fn of(&self, kind: ResourceType) -> &Response {
        let found: Vec<_> = self.0.iter().filter(|response| *response.type_url == *kind.url()).collect();
        assert_eq!(found.len(), 1, "one response of {kind:?} expected: {self}");
        found[0]
    }
}

impl Deref for Sent {
    type Target = [Response];

    fn deref(&self) -> &[Response] {
        &self.0
    }
}

impl Index<ResourceType> for Sent {
    type Output = Response;

    fn index(&self, kind: ResourceType) -> &Response {
        self.of(kind)
    }
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.iter().map(line).collect::<Vec<_>>().join(" "))
    }
}

impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl PartialEq<str> for Sent {
    fn eq(&self, transcript: &str) -> bool {
        *self.to_string() == *transcript
    }
}

impl PartialEq<&str> for Sent {
    fn eq(&self, transcript: &&str) -> bool {
        *self == **transcript
    }
}

impl PartialEq<String> for Sent {
    fn eq(&self, transcript: &String) -> bool {
        *self == **transcript
    }
}

/// Formats one response.
pub fn line(response: &Response) -> String {
    let kind = ResourceType::of_url(&response.type_url);
    let mut line = kind.map_or_else(|| response.type_url.to_string(), |kind| short(kind).to_owned());
    let set = names(response);
    if !set.is_empty() || (response.removed.is_empty() && response.missing.is_empty()) {
        line.push_str(&format!("{{{}}}", set.join(",")));
    }
    let mut list = |sign: char, names: &[Arc<str>]| {
        if !names.is_empty() {
            let names: Vec<&str> = names.iter().map(|name| &**name).collect();
            line.push_str(&format!("{sign}{{{}}}", names.join(",")));
        }
    };
    list('-', &response.removed);
    list('?', &response.missing);
    line
}

/// Returns the names of the resources that a response sets or renews.
pub fn names(response: &Response) -> Vec<&str> {
    response.resources.iter().chain(&response.heartbeats).map(|resource| &**resource.name()).collect()
}
