//! Units: the routes of one object that compete with others for the requests of a host.
//!
//! Every dialect declares its routes as units, so their conflicts, order, and limits are decided in one place, the module `rules`.

use std::fmt;
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use crate::model::{Action, Match, PathMatch, Route};
use crate::re2::Cost;

use super::gateway::http_policy::Features;
use super::plain_text::PlainText;

/// A field of an object, for problems. Small, because every route has one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The path of the field. Each `#` stands for the next element of `indices`.
    template: &'static str,
    indices: Box<[u32]>,
}

impl Field {
    /// Returns the field at `template`, in which each `#` stands for the next element of `indices`.
    pub fn new(template: &'static str, indices: &[usize]) -> Self {
        let index = |at: &usize| u32::try_from(*at).unwrap_or(u32::MAX);
        Self { template, indices: indices.iter().map(index).collect() }
    }

    /// Returns the place of the field in its object: its indices, from the outermost to the innermost.
    pub fn place(&self) -> &[u32] {
        &self.indices
    }
}

/// `spec.rules[0].http.paths[2]`
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts = self.template.split('#');
        f.write_str(parts.next().unwrap_or_default())?;
        for (index, part) in self.indices.iter().zip(parts) {
            write!(f, "{index}{part}")?;
        }
        Ok(())
    }
}

/// A match of an object, and what happens to its requests.
#[derive(Debug, PartialEq)]
pub struct Unit {
    /// The field that declares it.
    pub field: Field,
    /// The name of its rule, which policies can target. On the listeners that all objects share, this is the host.
    pub rule: Option<Arc<str>>,
    /// The cost of its regular expressions; zero without one.
    pub cost: Cost,
    /// Its route behind TLS, which all hosts and revisions of the model share.
    pub route: Arc<Route>,
    /// The route for the remaining requests, if some of the backends are not valid.
    pub rest: Option<Arc<Route>>,
    /// The treatment of its requests in plain text.
    pub plain_text: PlainText,
    /// The features that its object itself sets. They precede those of policies, except for overrides.
    pub own: Option<Arc<Features>>,
}

/// The target of requests, on both ports.
#[derive(Debug, Clone, PartialEq)]
pub struct RequestTarget {
    /// The action on requests behind TLS.
    pub action: Action,
    /// The treatment of requests in plain text.
    pub plain_text: PlainText,
    /// The object that declares it.
    pub origin: ObjectRef,
}

impl Unit {
    /// Returns the unit in a rule with this name.
    #[must_use]
    pub fn in_rule(self, name: Option<&Arc<str>>) -> Self {
        Self { rule: name.cloned(), ..self }
    }

    /// Returns the route of `path` to `target`.
    pub fn new(field: Field, path: PathMatch, cost: Cost, target: RequestTarget) -> Self {
        let RequestTarget { action, plain_text, origin } = target;
        Self {
            field,
            rule: None,
            cost,
            route: Arc::new(Route::new(path, action, origin)),
            rest: None,
            plain_text,
            own: None,
        }
    }

    /// Returns the requests that it matches.
    pub fn matches(&self) -> &Match {
        &self.rest.as_ref().unwrap_or(&self.route).matches
    }

    /// Returns the path that it matches.
    pub fn path(&self) -> &PathMatch {
        &self.route.matches.path
    }

    /// Returns its routes, in the order in which they are tried.
    pub fn routes(&self) -> impl Iterator<Item = &Arc<Route>> {
        [&self.route].into_iter().chain(&self.rest)
    }

    /// Returns the route that answers all its requests 503.
    pub fn closed(&self) -> Route {
        Route::new(self.matches().clone(), Action::respond(503), self.route.origin.clone())
    }

    /// Returns the route that answers all its requests 403 with this body.
    pub fn denied(&self, body: Arc<str>) -> Route {
        let action = Action::Respond { status: 403, body: Some(body) };
        Route::new(self.matches().clone(), action, self.route.origin.clone())
    }

    /// Returns whether both have the same match and the same effect.
    pub fn is_same(&self, other: &Self) -> bool {
        self.route == other.route
            && self.rest == other.rest
            && self.plain_text == other.plain_text
            && self.own == other.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_has_a_path_of_any_length() {
        let field = Field::new("spec.routes[#].includes[#].routes[#].conditions[#]", &[1, 0, 7, 2]);
        assert_eq!(field.to_string(), "spec.routes[1].includes[0].routes[7].conditions[2]");
        assert_eq!(field.place(), [1, 0, 7, 2]);
        assert_eq!(Field::new("spec.defaultBackend", &[]).to_string(), "spec.defaultBackend");
    }
}
