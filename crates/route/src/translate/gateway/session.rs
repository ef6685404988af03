//! Session persistence of HTTPRoutes and GRPCRoutes. Source: Gateway API v1, `SessionPersistence`; GEP-1619.

use std::sync::Arc;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use super::matches;
use super::parser::Parser;
use crate::duration;
use crate::model::{CookieName, ForwardFilter, HeaderName, PathMatch, Session, SessionCookie, WeightedCluster};
use crate::objects::ObjectKey;
use crate::objects::gateway::{HttpRouteRule, SessionPersistence};
use crate::translate::backend::Context;
use crate::translate::fault::FieldFault;
use crate::translate::problem::Reason;

/// The maximum number of routes in Envoy for the sessions of a rule: one route for each match and backend.
const MAX_ROUTES: usize = 64;

/// Parses the session persistence of a rule with this number of backends. If it is not valid, the rule is served
/// without session persistence.
pub fn parse(field: &str, index: usize, rule: &HttpRouteRule, backends: usize, parser: &mut Parser) -> Option<Session> {
    let persistence = rule.session_persistence.as_ref()?;
    let (mut ignored, mut surplus) = (Vec::new(), None);
    let name = match persistence.session_name.as_deref() {
        None | Some("") => default_name(index, rule, parser),
        Some(name) => name.to_owned(),
    };
    let parsed = session(&name, persistence, backends, &mut ignored).map(|session| match session {
        Session::Cookie(cookie) => {
            let routes = backends.saturating_mul(rule.matches.len().max(1));
            if backends > 1 && routes > MAX_ROUTES {
                let message = format!("the rule has {routes} pairs of a match and a backend, more than {MAX_ROUTES}");
                surplus = Some(FieldFault::new("", message));
            }
            let keeps_cluster = backends > 1 && surplus.is_none();
            Session::Cookie(SessionCookie { path: path(rule, parser), keeps_cluster, ..cookie })
        }
        Session::Header(name) => Session::Header(name),
    });
    let mut report = |fault: FieldFault, consequence: &str| {
        let FieldFault { field, message } = fault.within(format_args!("{field}.sessionPersistence"));
        parser.left_out(field, Reason::SessionPersistenceNotValid, message, consequence);
    };
    ignored.into_iter().for_each(|fault| report(fault, "ignored"));
    surplus.into_iter().for_each(|fault| report(fault, "sessions stay at an endpoint, but not at a backend"));
    parsed.map_err(|fault| report(fault, "rule served without session persistence")).ok()
}

/// Returns the filter of the session persistence of the only Service that a route leads to, if a policy of the Service has one.
pub fn of_policies(context: Context, clusters: &[WeightedCluster]) -> Option<ForwardFilter> {
    let [only] = clusters else { return None };
    let session = context.backend_policies.session(only.cluster.port.service())?;
    Some(ForwardFilter::Session(Box::new(session.clone())))
}

/// Parses the session persistence of a Service. Extends `faults`, each with its consequence.
pub fn of_service(
    service: &ObjectKey,
    persistence: &SessionPersistence,
    faults: &mut Vec<(FieldFault, &'static str)>,
) -> Option<Session> {
    let name = match persistence.session_name.as_deref() {
        // All routes to the Service share its sessions. Another Service of the host must have another name.
        None | Some("") => format!("lockgate-{:016x}", xxh3_64(format!("Service {service}").as_bytes())),
        Some(name) => name.to_owned(),
    };
    let mut ignored = Vec::new();
    let session = session(&name, persistence, 1, &mut ignored);
    faults.extend(ignored.into_iter().map(|fault| (fault, "ignored")));
    session.map_err(|fault| faults.push((fault, "feature left out"))).ok()
}

/// Parses the type of the sessions and its properties. A cookie has the path `/`.
fn session(
    name: &str,
    persistence: &SessionPersistence,
    backends: usize,
    ignored: &mut Vec<FieldFault>,
) -> Result<Session, FieldFault> {
    if persistence.idle_timeout.is_some() {
        ignored.push(FieldFault::new(".idleTimeout", "an idle timeout of sessions is not supported"));
    }
    match persistence.r#type.as_deref().unwrap_or("Cookie") {
        "Cookie" => cookie(name, persistence, ignored).map(Session::Cookie),
        "Header" => header(name, persistence, backends, ignored).map(Session::Header),
        other => Err(FieldFault::new(".type", format!("type {other:?} is not known"))),
    }
}

/// Returns a cookie with the path `/`.
fn cookie(
    name: &str,
    persistence: &SessionPersistence,
    ignored: &mut Vec<FieldFault>,
) -> Result<SessionCookie, FieldFault> {
    let invalid = || FieldFault::new(".sessionName", format!("{name:?} is not the name of a cookie"));
    let name = CookieName::parse(name).ok_or_else(invalid)?;
    let timeout = absolute_timeout(persistence)?;
    let kind = persistence.cookie_config.as_ref().and_then(|config| config.lifetime_type.as_deref());
    let lifetime = match (kind.unwrap_or("Session"), timeout) {
        ("Session", None) => None,
        ("Session", Some(_)) => {
            ignored.push(FieldFault::new(".absoluteTimeout", "the lifetime of a session cookie cannot be limited"));
            None
        }
        ("Permanent", Some(timeout)) => Some(timeout),
        ("Permanent", None) => {
            return Err(FieldFault::new(".absoluteTimeout", "a permanent cookie needs an absolute timeout above 0"));
        }
        (other, _) => {
            return Err(FieldFault::new(".cookieConfig.lifetimeType", format!("lifetime {other:?} is not known")));
        }
    };
    Ok(SessionCookie { name, path: "/".into(), lifetime, keeps_cluster: false })
}

fn header(
    name: &str,
    persistence: &SessionPersistence,
    backends: usize,
    ignored: &mut Vec<FieldFault>,
) -> Result<HeaderName, FieldFault> {
    let name = HeaderName::parse_changeable(name).map_err(|reason| FieldFault::new(".sessionName", reason))?;
    if backends > 1 {
        return Err(FieldFault::new(".type", "sessions by header need a rule with one backend"));
    }
    if absolute_timeout(persistence)?.is_some() {
        ignored.push(FieldFault::new(".absoluteTimeout", "the lifetime of a session by header cannot be limited"));
    }
    Ok(name)
}

/// Returns the lifetime of a session in whole seconds, rounded up. `None`: the lifetime has no limit.
fn absolute_timeout(persistence: &SessionPersistence) -> Result<Option<Duration>, FieldFault> {
    let Some(text) = persistence.absolute_timeout.as_deref() else { return Ok(None) };
    let timeout = duration::parse(text)
        .ok_or_else(|| FieldFault::new(".absoluteTimeout", format!("{text:?} is not a duration")))?;
    let seconds = timeout.as_secs() + u64::from(timeout.subsec_nanos() > 0);
    Ok((seconds > 0).then(|| Duration::from_secs(seconds)))
}

/// Returns the path of the cookie: the path of the only match of the rule, or `/`.
fn path(rule: &HttpRouteRule, parser: &mut Parser) -> Arc<str> {
    // Other characters could end the attribute, or have a meaning in Envoy's formats.
    let is_plain = |path: &str| path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte));
    let path = match rule.matches.as_slice() {
        [only] => matches::parse(only, &mut parser.resolver.patterns).ok().map(|(parsed, _)| parsed.path),
        _ => None,
    };
    match path {
        Some(PathMatch::Exact(path) | PathMatch::SeparatedPrefix(path)) if is_plain(&path) => path,
        _ => "/".into(),
    }
}

/// Returns a name that no other rule has. For rules with names, it does not depend on their order.
fn default_name(index: usize, rule: &HttpRouteRule, parser: &Parser) -> String {
    let rule = rule.name.clone().unwrap_or_else(|| format!("[{index}]"));
    format!("lockgate-{:016x}", xxh3_64(format!("{} {rule}", parser.origin).as_bytes()))
}
