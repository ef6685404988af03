//! The differences that are intended, each with its row in `docs/migration/contour.md`.

mod shared_paths;

use super::generator::{Fault, Set};
use super::requests::{Parts, Sent};
use super::statuses::State;

/// A difference that is intended.
struct Deviation {
    /// Its place in `docs/migration/contour.md`: the first words of its row.
    row: &'static str,
    /// Removes the difference from both answers, that of Contour first, if the rule applies.
    remove: fn(&Case, &mut Parts, &mut Parts),
}

/// A request to a set.
struct Case<'a> {
    set: &'a Set,
    sent: &'a Sent,
    /// The objects of the set as text.
    text: String,
}

const DEVIATIONS: &[Deviation] = &[
    Deviation { row: "the header cdn-loop", remove: loop_mark },
    Deviation { row: "answers without a backend", remove: texts },
    Deviation { row: "responseHeadersPolicy without a Service", remove: headers_of_redirects },
    Deviation { row: "an operator without a value", remove: empty_values },
    Deviation { row: "an operator with a header that a Service changes", remove: changed_values },
    Deviation { row: "Host of a route and of its Service", remove: original_hosts },
    Deviation { row: "services that all have weight: 0", remove: without_weight },
    Deviation { row: "replacePrefix of one of several routes", remove: slashes },
    Deviation { row: "replacePrefix with a slash at the end of the prefix", remove: widened },
    Deviation { row: "requestRedirectPolicy.port that is the default", remove: default_port },
    Deviation { row: "a replaced prefix /", remove: replaced_slash },
    Deviation { row: "a host with TLS and without routes", remove: without_routes },
    Deviation { row: "routes with equally many conditions", remove: tied },
    Deviation { row: "virtualhost.tls with a faulty Secret", remove: without_secret },
    Deviation { row: "corsPolicy, preflight requests of other origins", remove: preflights },
    Deviation { row: "ipAllowPolicy of a route without a Service", remove: refused_answers },
    Deviation { row: "ipAllowPolicy and the redirect to HTTPS", remove: redirects_to_https },
    Deviation { row: "ipAllowPolicy and preflight requests", remove: refused_preflights },
    Deviation { row: "ipAllowPolicy and an include that is not valid", remove: answers_of_includes },
];

/// Returns the rows of the deviations that explain two answers, that of Contour first.
pub fn rows(set: &Set, sent: &Sent, contour: &str, lockgate: &str) -> Option<Vec<&'static str>> {
    let text = set.proxies.iter().filter_map(|proxy| proxy.object(false)).map(|object| object.to_string()).collect();
    let case = Case { set, sent, text };
    let (mut contour, mut lockgate) = (Parts::parse(contour), Parts::parse(lockgate));
    let mut rows = Vec::new();
    for Deviation { row, remove } in DEVIATIONS {
        let before = (contour.clone(), lockgate.clone());
        remove(&case, &mut contour, &mut lockgate);
        if before != (contour.clone(), lockgate.clone()) {
            rows.push(*row);
        }
    }
    (contour == lockgate).then_some(rows)
}

/// Requests have the mark of the installation.
fn loop_mark(_: &Case, _: &mut Parts, lockgate: &mut Parts) {
    lockgate.body.retain(|line| !line.starts_with("cdn-loop: lockgate-"));
}

/// The texts of answers that no backend gives.
const TEXTS: [&str; 4] = [
    "no route for this host and path",
    "the backend of this route is not available",
    "the backend of this route is not valid",
    "this connection was opened for another host",
];

/// An answer that no backend gives has a text.
fn texts(_: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let is_text = lockgate.body.len() == 1 && TEXTS.contains(&&*lockgate.body[0]);
    if contour.status != lockgate.status || !is_text {
        return;
    }
    lockgate.body.clear();
    lockgate.without_header("content-type");
    if contour.status == "421" {
        contour.body.clear();
        contour.without_header("content-type");
        lockgate.without_header("vary");
    }
}

/// The headers that `responseHeadersPolicy` changes in the generated sets.
const OF_RESPONSES: [&str; 4] = ["x-r", "x-served-by", "x-t", "server"];
/// The headers that `requestHeadersPolicy` changes in the generated sets.
const OF_REQUESTS: [&str; 5] = ["x-n", "x-s", "x-a", "x-b", "user-agent"];

/// The policy of a route with a redirect or a direct response applies.
fn headers_of_redirects(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let is_own = contour.backend().is_none() && lockgate.backend().is_none();
    if is_own && contour.status == lockgate.status && case.text.contains("responseHeadersPolicy") {
        for name in OF_RESPONSES {
            contour.without_header(name);
            lockgate.without_header(name);
        }
    }
}

/// A value that is empty is sent, so that no client can set the header.
fn empty_values(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    if !case.text.contains("%REQ(") {
        return;
    }
    for name in OF_RESPONSES {
        if lockgate.headers.contains(&format!("{name}: ")) {
            contour.without_header(name);
            lockgate.without_header(name);
        }
    }
    for name in OF_REQUESTS {
        let empty = format!("{name}: ");
        if lockgate.body.contains(&empty) && !contour.body.contains(&empty) {
            contour.body.retain(|line| !line.starts_with(&empty));
            lockgate.body.retain(|line| !line.starts_with(&empty));
        }
    }
}

/// An operator of a route has the value that the client sent. With Contour, the changes of its Service precede it.
fn changed_values(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    if !case.text.contains("\"%REQ(x-a") || !case.text.contains("\"name\":\"X-A\"") {
        return;
    }
    let is_of_client = |line: &String| case.sent.has_value(line.split_once(": ").map_or("", |(_, value)| value));
    for name in OF_REQUESTS {
        let start = format!("{name}: ");
        let ours =
            lockgate.body.iter().find(|line| line.starts_with(&start)).filter(|line| is_of_client(line)).cloned();
        let Some(ours) = ours else { continue };
        contour.body.iter_mut().filter(|line| line.starts_with(&start)).for_each(|line| line.clone_from(&ours));
    }
}

/// If a Service changes the host, it does not receive the original one. With Contour, it does, and it is that of the route if that changes it.
fn original_hosts(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let original = "x-envoy-original-host: ";
    let is_changed = contour.body.iter().any(|line| *line == format!("{original}rewritten.test"));
    if is_changed && case.text.matches("\"name\":\"Host\"").count() > 1 {
        contour.body.retain(|line| !line.starts_with(original));
        lockgate.body.retain(|line| !line.starts_with(original));
    }
}

/// Services without weight receive no requests, also if the others are missing.
fn without_weight(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let is_answered = case.sent.is_preflight() && contour.status == "200";
    let is_reached = contour.backend().is_some() || is_answered;
    if case.text.contains("\"weight\":0") && is_reached && lockgate.status == "503" {
        *contour = lockgate.clone();
    }
}

/// Contour replaces whole slashes only if no other route of the object has the prefix, and a replaced route of an included object keeps
/// the paths with a slash.
fn slashes(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    if contour != lockgate && shared_paths::is_shared(case.set, case.sent) {
        *contour = lockgate.clone();
    }
}

/// Of routes with the same path and equally many conditions, the first one applies. Contour orders them by their conditions.
fn tied(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    if contour != lockgate && shared_paths::is_tied(case.set, case.sent) {
        *contour = lockgate.clone();
    }
}

/// With Contour, a replaced prefix `/a/` also matches `/ab`.
fn widened(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    if contour != lockgate && shared_paths::is_widened(case.set, case.sent) {
        *contour = lockgate.clone();
    }
}

/// With Contour, the replacement `/a` of the prefix `/` makes `/ab` of `/b`.
fn replaced_slash(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    if !case.text.contains("\"replacePrefix\"") && !case.text.contains("\"requestRedirectPolicy\"") {
        return;
    }
    let joined = |line: &str| line.replace('/', "");
    let is_only_split = |theirs: &str, ours: &str| theirs != ours && joined(theirs) == joined(ours);
    if let (Some(theirs), Some(ours)) = (contour.body.first_mut(), lockgate.body.first())
        && is_only_split(theirs, ours)
    {
        theirs.clone_from(ours);
    }
    if let (Some(theirs), Some(ours)) = (contour.location(), lockgate.location())
        && is_only_split(&theirs, &ours)
    {
        contour.headers.retain(|line| *line != theirs);
        lockgate.headers.retain(|line| *line != ours);
    }
}

/// The location of a redirect has no port that is the default of its scheme.
fn default_port(_: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let (Some(theirs), Some(ours)) = (contour.location(), lockgate.location()) else { return };
    let without = theirs.replacen(":443/", "/", 1).replacen(":80/", "/", 1);
    // A replaced prefix can differ as well.
    let joined = |line: &str| line.replace('/', "");
    if theirs != ours && joined(&without) == joined(&ours) {
        contour.headers.iter_mut().filter(|line| **line == theirs).for_each(|line| line.clone_from(&without));
    }
}

/// A host with TLS and without routes answers 404. Contour closes its connections.
fn without_routes(_: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    if contour.status == "no connection" && ["404", "421"].contains(&&*lockgate.status) {
        *contour = lockgate.clone();
    }
}

/// A host whose Secret is missing has no TLS.
fn without_secret(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let is_of_root = |host: &str| host.ends_with(case.set.hosts[0].trim_start_matches("*."));
    let name = case.sent.server_name.as_ref().unwrap_or(&case.sent.host);
    if case.set.fault == Some(Fault::MissingSecret) && is_of_root(name) && lockgate.status == "no connection" {
        *contour = lockgate.clone();
    }
}

/// Envoy answers the preflight requests of all origins, without a permission if the origin has none. Contour forwards those without.
fn preflights(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let is_answered = lockgate.status == "200" && lockgate.backend().is_none() && lockgate.body.is_empty();
    let is_permitted = lockgate.headers.iter().any(|line| line.starts_with("access-control-allow-origin"));
    let is_set = case.text.contains("\"corsPolicy\"");
    if is_set && case.sent.is_preflight() && contour.backend().is_some() && is_answered && !is_permitted {
        *contour = lockgate.clone();
    }
}

/// The body of an answer to a refused address.
const REFUSED: &str = "RBAC: access denied";

fn is_refused(parts: &Parts) -> bool {
    parts.status == "403" && parts.body == [REFUSED]
}

/// A list of addresses of a route also applies if it has no Service that answers. At Contour, the list of the host applies then.
fn refused_answers(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let has_answer =
        ["\"requestRedirectPolicy\"", "\"directResponsePolicy\""].iter().any(|one| case.text.contains(one));
    let is_of_route = is_refused(lockgate) && contour.backend().is_none() && !is_refused(contour) && has_answer;
    let is_of_host = is_refused(contour) && lockgate.status == "503" && case.text.contains("\"missing\"");
    if is_of_route || is_of_host {
        *contour = lockgate.clone();
    }
}

/// The redirect to HTTPS has no list of addresses.
fn redirects_to_https(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let is_redirected = lockgate.location().is_some_and(|line| line.starts_with("location: https://"));
    if is_refused(contour) && lockgate.status == "301" && is_redirected && !case.sent.is_secure() {
        *contour = lockgate.clone();
    }
}

/// The answer of an include that is not valid has no list of addresses.
fn answers_of_includes(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let of_includes = [Some(Fault::MissingInclude), Some(Fault::IncludedRoot), Some(Fault::Cycle)];
    if is_refused(contour) && lockgate.status == "502" && of_includes.contains(&case.set.fault) {
        *contour = lockgate.clone();
    }
}

/// Envoy answers preflight requests before it compares addresses.
fn refused_preflights(case: &Case, contour: &mut Parts, lockgate: &mut Parts) {
    let is_answered = lockgate.status == "200" && lockgate.backend().is_none() && lockgate.body.is_empty();
    if is_refused(contour) && case.sent.is_preflight() && is_answered && case.text.contains("\"corsPolicy\"") {
        *contour = lockgate.clone();
    }
}

/// Returns the row of the deviation that explains two statuses, that of Contour first.
pub fn row_of_status(set: &Set, contour: &State, lockgate: &State) -> Option<&'static str> {
    match set.fault {
        // The objects that a root without TLS includes.
        Some(Fault::MissingSecret) if contour.0 == "orphaned" => Some("virtualhost.tls with a faulty Secret"),
        // The first root, and the objects that it includes.
        Some(Fault::DuplicateHost)
            if contour.1.contains("VirtualHostError/DuplicateVhost") || contour.0 == "orphaned" =>
        {
            Some("two roots with one host")
        }
        _ if lockgate.1.iter().all(|error| error == "RouteError/RegexTooExpensive" || contour.1.contains(error))
            && lockgate.1.contains("RouteError/RegexTooExpensive") =>
        {
            Some("regular expressions of a host")
        }
        // Contour stops at the first fault of an object.
        Some(_) if contour.0 == "invalid" && lockgate.0 == "invalid" => Some("all faults are reported"),
        _ => None,
    }
}
