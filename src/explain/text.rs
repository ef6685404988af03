//! Reports and states as text.

use super::combine::Combined;
use super::describe::grpc_status;
use super::report::{Accepted, ClusterEntry, ListenerAnswer, Note, Report, RouteEntry};
use super::state::{EnvoyState, State};
pub use super::table::Style;
use super::table::columns;
use crate::telemetry::printable;

/// The maximum number of listed problems and objects.
const MAX_LISTED: usize = 20;

/// Formats the explanation of a request.
pub fn report(report: &Report, style: Style) -> String {
    let mut text = format!("{}\n", style.bold(&printable(&report.request)));
    if report.answers.is_empty() {
        text.push_str("\nNo listener accepts this protocol on this port.\n");
    }
    for entry in &report.answers {
        text.push('\n');
        text.push_str(&answer(entry, style));
    }
    if !report.other_listeners.is_empty() {
        let names = report.other_listeners.join(", ");
        text.push_str(&format!("\nOther listeners on this port, which do not serve the host: {}\n", printable(&names)));
    }
    text.push_str(&notes("Objects that name the host and are not served", &report.elsewhere, style));
    for note in &report.notes {
        text.push_str(&format!("\nNote: {}\n", printable(note)));
    }
    text
}

fn answer(entry: &ListenerAnswer, style: Style) -> String {
    let is_good = match entry.action.as_str() {
        "forward" => entry.status.is_none(),
        "redirect" => true,
        _ => false,
    };
    let mut text = format!("{}\n\n", style.judged(is_good, &printable(&entry.result)));
    let mut row = |name: &str, value: &str| {
        for (number, line) in value.lines().enumerate() {
            let name = if number == 0 { name } else { "" };
            text.push_str(&format!("  {}{}\n", style.dim(&format!("{name:<13}")), printable(line)));
        }
    };
    row("Listener", &listener(entry));
    if let Some(tls) = &entry.tls {
        let mode = match tls.is_passthrough {
            true => "passthrough: the backend terminates TLS".to_owned(),
            false => format!("TLS {}", tls.versions),
        };
        let clients =
            if tls.client_certificates.is_empty() { String::new() } else { "; client certificate ".to_owned() };
        row("Server name", &format!("{}, {mode}{clients}{}", tls.server_name, tls.client_certificates));
        for one in &tls.certificates {
            let names = if one.names.is_empty() { String::new() } else { format!(" for {}", one.names.join(", ")) };
            row("Certificate", &format!("Secret {}{names}, valid until {}", one.secret, one.not_after));
        }
    }
    if let Some(host) = entry.host.as_ref().filter(|_| !entry.path.is_empty()) {
        row("Host", if host == "*" { "* (every host without a more specific one)" } else { host });
        row("Path", &entry.path);
    }
    if let Some((status, http)) = entry.grpc_status.zip(entry.status) {
        let (_, name) = grpc_status(http);
        row("gRPC status", &format!("{status} {name}, with the HTTP status 200 instead of {http}"));
    }
    for one in &entry.routes {
        let matches = if one.matches.is_empty() { String::new() } else { format!("{}: ", one.matches) };
        row("Route", &format!("{matches}{}", one.action));
        row("Object", format!("{} {}", one.object, one.field).trim_end());
        if !one.filters.is_empty() {
            row("Filters", &one.filters.join("\n"));
        }
        if !one.session.is_empty() {
            row("Session", &format!("cookie {} of the request selects the backend", one.session));
        }
        one.clusters.iter().for_each(|one| cluster(one, &mut row));
    }
    if let Some(envoys) = &entry.envoys {
        row("Envoys", &acceptance(envoys));
    }
    let later: Vec<Note> = entry.later.iter().map(later).collect();
    text.push_str(&notes("Routes that match too and are not reached", &later, style));
    text.push_str(&notes("Lost", &entry.lost, style));
    text.push_str(&notes("Problems", &entry.problems, style));
    text
}

fn listener(entry: &ListenerAnswer) -> String {
    let listener = &entry.listener;
    let declared = match listener.public_port {
        Some(port) => format!(", listener \"{}\" of {}, port {port}", listener.section, listener.object),
        None => String::new(),
    };
    let assumed = if listener.is_assumed { " (no listener is known to have the port of the URL)" } else { "" };
    format!("{}, port {} of the Envoys{declared}{assumed}", listener.name, listener.port)
}

fn cluster(cluster: &ClusterEntry, row: &mut impl FnMut(&str, &str)) {
    let share = if cluster.share.is_empty() { String::new() } else { format!("{} to ", cluster.share) };
    let protocol = if cluster.protocol.is_empty() { String::new() } else { format!(", {}", cluster.protocol) };
    row("Cluster", &format!("{share}{}{protocol}", cluster.name));
    match (cluster.discovery.as_str(), cluster.endpoints.as_slice()) {
        ("", []) => row("Endpoints", "none: no pod of the Service is ready"),
        ("", endpoints) => row("Endpoints", &endpoints.join(", ")),
        (discovery, _) => row("Endpoints", discovery),
    }
}

fn acceptance(accepted: &Accepted) -> String {
    let Accepted { total, accepted, waiting, rejected } = accepted;
    if *total == 0 {
        return "no Envoy is connected".to_owned();
    }
    let mut text = format!("accepted by {accepted} of {total}");
    waiting.iter().for_each(|envoy| text.push_str(&format!("\nnot answered yet: {envoy}")));
    for one in rejected {
        text.push_str(&format!("\nrejected by {}: {}", one.envoy, one.resource));
    }
    text
}

fn later(route: &RouteEntry) -> Note {
    let RouteEntry { object, field, matches, action, .. } = route;
    Note { object: object.clone(), field: field.clone(), message: format!("{matches}: {action}"), ..Note::default() }
}

fn notes(title: &str, notes: &[Note], style: Style) -> String {
    if notes.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{}\n", style.bold(title));
    for note in notes.iter().take(MAX_LISTED) {
        let Note { object, field, message, consequence, remedy, .. } = note;
        let field = if field.is_empty() { String::new() } else { format!(" {field}") };
        let consequence = if consequence.is_empty() { String::new() } else { format!("; {consequence}") };
        text.push_str(&format!("  {}\n", printable(&format!("{object}{field}: {message}{consequence}"))));
        if !remedy.is_empty() {
            text.push_str(&format!("    {}\n", style.dim(&printable(remedy))));
        }
    }
    more(&mut text, notes.len());
    text
}

fn more(text: &mut String, count: usize) {
    if let Some(more) = count.checked_sub(MAX_LISTED).filter(|more| *more > 0) {
        text.push_str(&format!("  and {more} more (--output json lists all)\n"));
    }
}

/// Formats the state of all replicas.
pub fn status(combined: &Combined, style: Style) -> String {
    let Combined { envoys, up_to_date, served, .. } = combined;
    let objects = match served.is_empty() {
        true => "no objects".to_owned(),
        false => served.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", "),
    };
    let is_good = !combined.needs_attention();
    let answered = combined.replicas.iter().filter(|state| state.error.is_empty()).count();
    let replicas = combined.replicas.len();
    let line = format!(
        "{up_to_date} of {envoys} Envoys are up to date; {answered} of {replicas} replicas answer; {objects} served."
    );
    let mut text = format!("{}\n\n", style.judged(is_good, &printable(&line)));
    let head = ["REPLICA", "VERSION", "STATE", "PUBLICATION", "ENVOYS"].map(str::to_owned).to_vec();
    let replica = |state: &State| {
        let condition = match (state.error.as_str(), state.missing.as_str()) {
            ("", "") => "ready".to_owned(),
            ("", missing) => format!("not ready: {missing}"),
            _ => "no answer".to_owned(),
        };
        vec![
            state.replica.clone(),
            state.version.clone(),
            condition,
            state.publication.to_string(),
            state.envoys.len().to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = [head].into_iter().chain(combined.replicas.iter().map(replica)).collect();
    text.push_str(&columns(&rows, 0, style));
    for state in combined.replicas.iter().filter(|state| !state.error.is_empty()) {
        text.push_str(&format!(
            "\n{}\n",
            printable(&format!("Replica {} does not answer: {}", state.replica, state.error))
        ));
    }
    let all = combined.replicas.iter().flat_map(|state| state.envoys.iter().map(move |envoy| (state, envoy)));
    let rows: Vec<Vec<String>> = all.map(|(state, one)| envoy(state, one)).collect();
    if !rows.is_empty() {
        let head = ["ENVOY", "REPLICA", "PROGRESS"].map(str::to_owned).to_vec();
        let rows: Vec<Vec<String>> = [head].into_iter().chain(rows).collect();
        text.push('\n');
        text.push_str(&columns(&rows, 0, style));
    }
    list(&mut text, "Not accepted by all Envoys", &combined.waiting, style, |one| {
        let rejected = if one.is_rejected { ", rejected" } else { "" };
        format!("{}: accepted by {} of {}{rejected}", one.object, one.accepted, one.envoys)
    });
    list(&mut text, "Not served: all their routes lost or are invalid", &combined.lost, style, String::clone);
    let title = "Not served: no class, and no IngressClass is the default";
    list(&mut text, title, &combined.classless, style, String::clone);
    list(&mut text, "Problems", &combined.problems, style, |one| {
        let field = if one.field.is_empty() { String::new() } else { format!(" {}", one.field) };
        format!("{}{field}: {}; {}", one.object, one.message, one.consequence)
    });
    text
}

fn list<T>(text: &mut String, title: &str, all: &[T], style: Style, line: impl Fn(&T) -> String) {
    if all.is_empty() {
        return;
    }
    text.push_str(&format!("\n{}\n", style.bold(&format!("{title} ({})", all.len()))));
    all.iter().take(MAX_LISTED).for_each(|one| text.push_str(&format!("  {}\n", printable(&line(one)))));
    more(text, all.len());
}

fn envoy(state: &State, envoy: &EnvoyState) -> Vec<String> {
    let progress = match (envoy.answered, envoy.rejected.as_slice()) {
        (None, _) => "waits for its first configuration".to_owned(),
        (Some(answered), []) if answered >= state.publication => "up to date".to_owned(),
        (Some(answered), []) => format!("has answered publication {answered} of {}", state.publication),
        (Some(_), rejected) => {
            let names: Vec<&str> = rejected.iter().take(3).map(|one| one.resource.as_str()).collect();
            let more = if rejected.len() > 3 { format!(" and {} more", rejected.len() - 3) } else { String::new() };
            format!("rejected {}{more}", names.join(", "))
        }
    };
    vec![envoy.name.clone(), state.replica.clone(), progress]
}
