//! The decision of Envoy on one request, computed from the model: listener, server name, virtual host, route.
//!
//! [`decide`] follows the rules of Envoy and of the resources that [`envoy`](crate::envoy) builds. It sends nothing. A test
//! compares it with a real Envoy (`e2e/tests/explain`).

mod hosts;
mod matches;
mod path;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use crate::model::{
    ClusterId, Destination, Host, Listener, Model, Route, Share, TlsConnections, TlsHost, Traffic, VirtualHostRoutes,
};
use crate::settings::Settings;

use hosts::Domain;
pub use hosts::{patterns, without_port};
use matches::Compared;

/// The largest number of further routes of a decision that match the same request.
const MOST_LATER: usize = 20;

/// A request of a client.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Request {
    /// Whether the client uses TLS.
    pub tls: bool,
    /// The server name (SNI) of the connection. `None`: the client sends none, for example because it uses an IP address.
    pub server_name: Option<String>,
    /// `Host` or `:authority`, with or without a port.
    pub authority: String,
    /// The method.
    pub method: String,
    /// The path with its query, as the client sends it.
    pub path: String,
    /// The headers.
    pub headers: Vec<(String, String)>,
}

/// The decision of Envoy on a request at one listener.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision<'a> {
    /// The server name that selects the filter chain.
    pub chain: Option<FilterChain<'a>>,
    /// The path that routes are compared with, after normalization. It has no query.
    pub path: String,
    /// The domain of the virtual host; `None` if no virtual host matches.
    pub host: Option<Host>,
    /// The result of the request.
    pub outcome: Outcome<'a>,
    /// The further routes of the virtual host that match the request, in their order. They are not reached.
    pub later: Vec<&'a Arc<Route>>,
    /// Whether the client uses gRPC. Envoy then translates the status of its own responses.
    pub is_grpc: bool,
}

/// The filter chain of a server name, with its TLS properties.
#[derive(Debug, Clone, PartialEq)]
pub enum FilterChain<'a> {
    /// HTTP over TLS.
    Http(&'a Host, &'a TlsHost),
    /// Forwarded TLS connections.
    Forwarded(&'a Host, &'a TlsConnections),
}

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome<'a> {
    /// The connection is closed, or was never accepted.
    Closed(&'static str),
    /// Envoy answers with this status before it reads routes, or because it finds none.
    Answered(u16, &'static str),
    /// Envoy redirects to another form of the path, with status 307.
    RedirectedTo(String),
    /// A route serves the request. With shares, each route serves its share of the requests that remain after the
    /// routes before it.
    Routed(Vec<Chosen<'a>>),
    /// The connection is forwarded without being decrypted or parsed.
    Forwarded(&'a Destination),
}

/// A route that serves a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Chosen<'a> {
    /// The share of the requests. `None`: all.
    pub share: Option<Share>,
    /// The route.
    pub route: &'a Arc<Route>,
    /// The cluster that a session cookie of the request selects. `None`: the weights of the clusters apply.
    pub session: Option<&'a ClusterId>,
}

/// Decides on a request at a listener of a model.
pub fn decide<'a>(model: &'a Model, listener: &str, request: &Request, settings: &Settings) -> Decision<'a> {
    let mut decision = Decision {
        chain: None,
        path: String::new(),
        host: None,
        outcome: Outcome::Closed("there is no such listener"),
        later: Vec::new(),
        is_grpc: matches::is_grpc(&request.headers),
    };
    let Some(Listener { traffic, .. }) = model.listeners.get(listener) else { return decision };
    match traffic {
        Traffic::Tcp(to) | Traffic::Udp(to) => decision.outcome = Outcome::Forwarded(to),
        Traffic::Tls(_) | Traffic::Https(_) if !request.tls => {
            decision.outcome = Outcome::Closed("the listener expects TLS, and the client sends plain text");
        }
        Traffic::Tls(hosts) => {
            let name = request.server_name.as_deref().map(str::to_ascii_lowercase);
            let found = name.and_then(|name| hosts::best(&name, |pattern| hosts.get_key_value(pattern)));
            match found.or_else(|| hosts.get_key_value(&Host::Any)) {
                None => decision.outcome = Outcome::Closed("no route has this server name"),
                Some((host, connections)) => {
                    decision.chain = Some(FilterChain::Forwarded(host, connections));
                    decision.outcome = Outcome::Forwarded(&connections.to);
                }
            }
        }
        Traffic::Http(_) if request.tls => {
            decision.outcome = Outcome::Closed("the listener speaks plain HTTP, and the client starts TLS");
        }
        Traffic::Http(plain) => decision.serve(request, settings, |name| {
            let any = || plain.hosts.get_key_value(&Host::Any);
            match hosts::best(name, |pattern| plain.hosts.get_key_value(pattern)).or_else(any) {
                Some((domain, content)) => Domain::Served(domain, content),
                None => Domain::Answered(None, 404, "no virtual host matches the host"),
            }
        }),
        Traffic::Https(tls) if tls.hosts.is_empty() && tls.connections.is_empty() => {
            decision.outcome = Outcome::Closed("no host has a usable certificate, so the port is closed");
        }
        Traffic::Https(tls) => match hosts::chain(tls, request.server_name.as_deref()) {
            None => decision.outcome = Outcome::Closed("no certificate may be presented for this server name"),
            Some(chain @ FilterChain::Forwarded(_, connections)) => {
                decision.chain = Some(chain);
                decision.outcome = Outcome::Forwarded(&connections.to);
            }
            Some(chain @ FilterChain::Http(server_name, content)) => {
                decision.chain = Some(chain);
                let plain = tls.plain.as_ref().and_then(|plain| model.plain(plain.as_str()));
                let is_strict = settings.tls.strict_server_names && matches!(server_name, Host::Wildcard(_));
                let of_connection = request.server_name.as_deref().filter(|_| is_strict);
                decision.serve(request, settings, |name| {
                    let is_other = of_connection.is_some_and(|other| !other.eq_ignore_ascii_case(name));
                    match is_other {
                        true => {
                            Domain::Answered(None, 421, "tls.strictServerNames: the connection has another server name")
                        }
                        false => hosts::domain(tls, plain, (server_name, content), name),
                    }
                });
            }
        },
    }
    decision
}

impl<'a> Decision<'a> {
    /// Decides on an HTTP request. `select` returns the virtual host of a host name.
    fn serve(&mut self, request: &Request, settings: &Settings, select: impl FnOnce(&str) -> Domain<'a>) {
        let compared = match Compared::new(request, settings) {
            Ok(compared) => compared,
            Err(outcome) => return self.outcome = outcome,
        };
        match select(&compared.name) {
            Domain::Served(domain, content) => {
                self.host = Some(domain.clone());
                self.outcome = self.route(domain, content, &compared);
            }
            Domain::Answered(domain, status, why) => {
                self.host = domain;
                self.outcome = Outcome::Answered(status, why);
            }
        }
        self.path = compared.path;
    }

    /// Selects routes of a virtual host.
    fn route(&mut self, domain: &Host, content: &'a VirtualHostRoutes, compared: &Compared) -> Outcome<'a> {
        let is_single = content.one_label == 0 || compared.has_one_label_below(domain);
        let routes = if is_single { &content.routes } else { content.for_several_labels() };
        let mut matching = routes.iter().filter(|route| compared.meets(&route.matches));
        let mut chosen = Vec::new();
        for route in matching.by_ref() {
            let share = route.matches.conditions().and_then(|conditions| conditions.share);
            chosen.push(Chosen { share, route, session: compared.session(route) });
            if share.is_none_or(|share| share == Share::ALL) {
                break;
            }
        }
        self.later = matching.take(MOST_LATER).collect();
        match chosen.is_empty() {
            true => Outcome::Answered(404, "no route of the virtual host matches"),
            false => Outcome::Routed(chosen),
        }
    }
}
