//! The explanation of a request: Envoy's decision at each listener that the request may reach, the objects behind the
//! decision, and the objects that lost conflicts.

mod answer;

pub use answer::{Answer, Backend, Certificate, ClientProtocol, ConnectionTls, Done, RequestDestination, Step};

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use lockgate_xds::provenance::ObjectRef;

use super::state::Translator;
use super::state::conflicts::id_of;
use crate::explain::{Chosen, FilterChain, Outcome, Request, decide, patterns, without_port};
use crate::model::{
    Action, ClusterId, Destination, Host, Listener, ListenerId, Match, Material, Model, Route, SecretId, Session,
    Traffic,
};
use crate::objects::ObjectId;
use crate::settings::Settings;
use crate::translate::dialect::{self, DIALECTS};
use crate::translate::gateway::attach::ListenerOwner;
use crate::translate::gateway::attached::RouteContent;
use crate::translate::host::parent;
use crate::translate::problem::{Message, Problem, Reason};
use crate::translate::source::Source;

/// The largest number of problems and of losers in one answer.
const MOST: usize = 50;

impl Translator {
    /// Explains a request at each listener that it may reach. `settings` are the settings of the last update.
    pub fn explain(&self, target: RequestDestination, request: &Request, settings: &Settings) -> Vec<Answer> {
        let all = || self.model.listeners.iter();
        let at_port = || all().filter(|(id, listener)| self.is_at(id, listener, target));
        let mut reached: Vec<(&ListenerId, bool)> =
            at_port().filter(|(_, listener)| speaks(listener, target.protocol)).map(|(id, _)| (id, false)).collect();
        if reached.is_empty() {
            // A client of HTTP reaches them too, with or without TLS, and is refused.
            let refusing = at_port().filter(|(_, listener)| refuses(listener, target.protocol));
            reached.extend(refusing.map(|(id, _)| (id, false)));
        }
        if reached.is_empty() {
            let of_ingresses = |id: &ListenerId| !self.gateways.owners.contains_key(id);
            let assumed = all().filter(|(id, listener)| of_ingresses(id) && speaks(listener, target.protocol));
            reached.extend(assumed.map(|(id, _)| (id, true)));
        }
        let answer = |(id, is_assumed)| self.answer(id, is_assumed, request, settings);
        reached.into_iter().filter_map(answer).collect()
    }

    /// Returns whether a listener serves the port of a request.
    fn is_at(&self, id: &ListenerId, listener: &Listener, target: RequestDestination) -> bool {
        let default = match target.protocol {
            ClientProtocol::Http => Some(80),
            ClientProtocol::Https => Some(443),
            ClientProtocol::Tcp | ClientProtocol::Udp => None,
        };
        let Some(port) = target.port.or(default) else { return false };
        match self.gateways.owners.get(id).and_then(|key| self.gateways.gateways.get(key)) {
            Some(gateway) => listener.bind.port == port || gateway.on(id).any(|one| one.port == port),
            None => listener.bind.port == port || default == Some(port) && speaks(listener, target.protocol),
        }
    }

    fn answer(&self, id: &ListenerId, is_assumed: bool, request: &Request, settings: &Settings) -> Option<Answer> {
        let listener = self.model.listeners.get(id.as_str())?;
        let decision = decide(&self.model, id.as_str(), request, settings);
        let mut answer = Answer {
            listener: id.clone(),
            bind: listener.bind,
            is_assumed,
            declared: None,
            tls: decision.chain.as_ref().map(|chain| tls(&self.model, chain)),
            path: decision.path,
            host: decision.host,
            action: Done::Routed,
            is_grpc: decision.is_grpc,
            steps: Vec::new(),
            later: Vec::new(),
            lost: Vec::new(),
            problems: Vec::new(),
        };
        if let Some(FilterChain::Forwarded(name, _)) = &decision.chain {
            answer.host = Some((*name).clone());
        }
        let domain = answer.host.clone().unwrap_or(Host::Any);
        answer.declared = self.declared(id, &domain);
        match decision.outcome {
            Outcome::Closed(why) => answer.action = Done::Closed(why),
            Outcome::Answered(status, why) => answer.action = Done::Answered(status, why),
            Outcome::RedirectedTo(path) => answer.action = Done::RedirectedTo(path),
            Outcome::Routed(routes) => {
                let step = |Chosen { share, route, session }| (share, self.step(id, &domain, route, session));
                answer.steps = routes.into_iter().map(step).collect();
                answer.later = decision.later.into_iter().map(|route| self.step(id, &domain, route, None)).collect();
            }
            Outcome::Forwarded(to) => {
                let backends = backends(&self.model, to.clusters.iter().map(|one| (&one.cluster, one.weight)));
                let Destination { refused, origin, .. } = to;
                answer.action = Done::Forwarded(origin.clone(), backends, *refused);
            }
        }
        answer.lost = self.lost(&answer, &domain);
        answer.problems = self.problems_of(&answer, without_port(&request.authority));
        Some(answer)
    }

    /// Returns the listener of a Gateway that serves a host.
    fn declared(&self, id: &ListenerId, host: &Host) -> Option<(ObjectRef, Arc<str>, u16)> {
        let gateway = self.gateways.gateways.get(self.gateways.owners.get(id)?)?;
        let owner = gateway.owner_of(id, host).or_else(|| gateway.on(id).next())?;
        Some((owner.origin.clone(), owner.name.clone(), owner.port))
    }

    fn step(&self, id: &ListenerId, domain: &Host, route: &Arc<Route>, session: Option<&ClusterId>) -> Step {
        let (mut clusters, mut cookie) = (Vec::new(), None);
        if let Action::Forward(forward) = &route.action {
            let weighted = forward.clusters.iter().map(|one| (&one.cluster, one.weight));
            let selected = weighted.filter(|(cluster, _)| session.is_none_or(|session| session == *cluster));
            clusters = backends(&self.model, selected);
            if let (Some(Session::Cookie(one)), Some(_)) = (Session::of(&forward.filters), session) {
                // The rule can list a cluster several times, with different filters.
                clusters.truncate(1);
                cookie = Some(one.cluster_name());
            }
        }
        Step { route: route.clone(), field: self.field_of(id, domain, route), backends: clusters, session: cookie }
    }

    /// Returns the field that declares a route.
    fn field_of(&self, listener: &ListenerId, domain: &Host, route: &Route) -> String {
        let Some(id) = id_of(self.dialects, &route.origin) else { return String::new() };
        let Some(source) = self.sources.get(&id) else { return String::new() };
        // An object that includes this one declares its routes.
        let includers = self.includers(&id).filter_map(|includer| self.sources.get(includer));
        let mut declaring = [source].into_iter().chain(includers);
        let of_unit = declaring.find_map(|source| self.field_of_match(listener, domain, source, &route.matches));
        let is_default = route.matches.is_everything() && source.shared.default_backend.is_some();
        of_unit.or_else(|| is_default.then(|| "spec.defaultBackend".to_owned())).unwrap_or_default()
    }

    /// Returns the field of a source that declares a match for a domain of a listener.
    fn field_of_match(&self, listener: &ListenerId, domain: &Host, source: &Source, matches: &Match) -> Option<String> {
        let hosts = [Some(domain.clone()), parent(domain), Some(Host::Any)];
        let shared = hosts.iter().flatten().flat_map(|host| source.shared.rules_for(host)).flat_map(|rule| &rule.units);
        let gateway = self.gateways.owners.get(listener).and_then(|key| self.gateways.gateways.get(key));
        let attached = gateway.into_iter().flat_map(|gateway| source.attached.units(&gateway.certificate));
        let mut units = shared.chain(attached);
        let unit = units.find(|unit| unit.routes().any(|route| route.matches == *matches))?;
        Some(unit.field.to_string())
    }

    /// Returns the routes of Gateway API that lost to an older object with the same match.
    fn lost(&self, answer: &Answer, domain: &Host) -> Vec<(ObjectRef, String, String)> {
        let Some(ranks) = self.gateways.hosts.get(&(answer.listener.clone(), domain.clone())) else {
            return Vec::new();
        };
        let mut lost = Vec::new();
        for other in self.sources.all_at(Some(ranks)).take(MOST) {
            match &answer.action {
                Done::Forwarded(winner, ..)
                    if other.attached.contents.iter().any(|(_, one)| matches!(one, RouteContent::Stream { .. })) =>
                {
                    if other.origin != *winner {
                        let why = format!("{winner} receives all connections");
                        lost.push((other.origin.clone(), "spec.rules".to_owned(), why));
                    }
                }
                _ => {
                    for (_, step) in answer.steps.iter().filter(|(_, step)| step.route.origin != other.origin) {
                        let field = self.field_of_match(&answer.listener, domain, other, &step.route.matches);
                        if let Some(field) = field {
                            let why = format!("{} has the same match, and takes precedence", step.route.origin);
                            lost.push((other.origin.clone(), field, why));
                        }
                    }
                }
            }
        }
        lost.dedup();
        lost
    }

    /// Returns the problems that concern the answer for a host name.
    fn problems_of(&self, answer: &Answer, name: &str) -> Vec<Arc<Problem>> {
        let name = name.to_ascii_lowercase();
        let hosts: Vec<Host> = patterns(&name).chain([Host::Any]).collect();
        // The rules and TLS entries of each object that name the host. All problems of an object without an entry are relevant.
        let mut about = BTreeMap::<ObjectRef, Option<BTreeSet<String>>>::new();
        let mut whole = |object: &ObjectRef| drop(about.insert(object.clone().at(0), None));
        answer.objects().iter().filter(|object| !is_route(object)).for_each(&mut whole);
        for host in &hosts {
            let reaches_all = *host == Host::Any && answer.host.as_ref().is_some_and(|host| *host != Host::Any);
            let sources = self.naming(host);
            for source in sources.into_iter().filter(|_| !reaches_all).take(MOST) {
                let rules = source.shared.rules_for(host).map(|rule| rule.field.to_string());
                let entries = source.shared.entries.iter().filter(|entry| entry.hostless || entry.hosts.contains(host));
                let fields = rules.chain(entries.map(|entry| entry.field.to_string()));
                let entry = about.entry(source.origin.clone().at(0)).or_insert_with(|| Some(BTreeSet::new()));
                if let Some(known) = entry {
                    known.extend(fields);
                }
            }
            let place = (answer.listener.clone(), host.clone());
            for rank in self.gateways.hosts.get(&place).into_iter().flat_map(|ranks| ranks.iter()).take(MOST) {
                about.entry(ObjectRef::new(rank.kind.as_str(), &rank.key.namespace, &rank.key.name)).or_insert(None);
            }
        }
        let is_here = |(id, owner): &(ObjectId, ListenerOwner)| {
            let attachments = self.sources.get(id).into_iter().flat_map(|route| route.attached.attachments.iter());
            attachments
                .filter(|one| one.bound.as_ref() == Some(&answer.listener) && one.listener.is_of(owner))
                .any(|one| hosts.iter().any(|host| one.hosts.binary_search(host).is_ok()))
        };
        for (_, problem) in self.gateways.refused.iter().filter(|(key, _)| is_here(key)).take(MOST) {
            about.entry(problem.object.clone().at(0)).or_insert(None);
        }
        for problem in self.refused_hosts(&hosts).take(MOST) {
            let fields = about.entry(problem.object.clone().at(0)).or_insert_with(|| Some(BTreeSet::new()));
            if let Some(known) = fields {
                known.insert(problem.field.clone());
            }
        }
        for (_, step) in &answer.steps {
            about.entry(step.route.origin.clone().at(0)).or_insert(None);
        }
        let mut found = Vec::new();
        for (object, fields) in about {
            let all = self.problems_with(&object);
            let concerns = |problem: &&Arc<Problem>| {
                let Some(fields) = &fields else { return true };
                let field = &problem.field;
                let is_of_part = ["spec.rules[", "spec.tls["].iter().any(|part| field.starts_with(part));
                !is_of_part || fields.iter().any(|part| field.starts_with(part.as_str()))
            };
            found.extend(all.filter(concerns).cloned());
        }
        found.truncate(MOST);
        found
    }

    /// Returns the problems of one object.
    fn problems_with(&self, object: &ObjectRef) -> impl Iterator<Item = &Arc<Problem>> {
        let first = Arc::new(Problem {
            object: object.clone().at(i64::MIN),
            field: String::new(),
            reason: Reason::PathMatchConditionsNotValid,
            message: Message::default(),
            consequence: String::new(),
        });
        let object = object.clone();
        self.problems().range(first..).take_while(move |problem| problem.object.clone().at(0) == object.clone().at(0))
    }
}

fn is_route(object: &ObjectRef) -> bool {
    dialect::by_name(&DIALECTS, object.kind).is_some()
}

/// Returns whether a listener may serve clients of a protocol.
fn speaks(listener: &Listener, protocol: ClientProtocol) -> bool {
    match &listener.traffic {
        Traffic::Http(_) => protocol == ClientProtocol::Http,
        Traffic::Https(_) | Traffic::Tls(_) => protocol == ClientProtocol::Https,
        // The bytes of every protocol over TCP are forwarded.
        Traffic::Tcp(_) => protocol != ClientProtocol::Udp,
        Traffic::Udp(_) => protocol == ClientProtocol::Udp,
    }
}

/// Returns whether a listener refuses the connections of clients of HTTP because only one side uses TLS.
fn refuses(listener: &Listener, protocol: ClientProtocol) -> bool {
    match &listener.traffic {
        Traffic::Http(_) => protocol == ClientProtocol::Https,
        Traffic::Https(_) | Traffic::Tls(_) => protocol == ClientProtocol::Http,
        Traffic::Tcp(_) | Traffic::Udp(_) => false,
    }
}

fn tls(model: &Model, chain: &FilterChain) -> ConnectionTls {
    let clients = match chain {
        FilterChain::Http(_, tls) => tls.clients.clone(),
        FilterChain::Forwarded(_, connections) => connections.terminated.as_ref().and_then(|tls| tls.clients.clone()),
    };
    let (server_name, secrets, versions, origins) = match chain {
        FilterChain::Http(name, tls) => {
            (name, tls.secrets.as_slice(), Some((tls.minimum, tls.maximum)), tls.origins.clone())
        }
        FilterChain::Forwarded(name, connections) => {
            let terminated = connections.terminated.as_ref();
            let secrets = terminated.map_or(&[][..], |tls| &tls.secrets);
            let versions = terminated.map(|tls| (tls.minimum, tls.maximum));
            (name, secrets, versions, vec![connections.to.origin.clone()])
        }
    };
    let certificate = |id: &SecretId| {
        let pair = model.secrets.get(id).and_then(|secret| match &secret.material {
            Material::Pair(pair) => Some(pair),
            Material::Authorities(_) | Material::Revoking(_) | Material::Text(_) => None,
        });
        Certificate {
            secret: id.clone(),
            names: pair.map(|pair| pair.names.as_slice().to_vec()).unwrap_or_default(),
            not_after: pair.map(|pair| pair.not_after),
        }
    };
    let certificates = secrets.iter().map(certificate).collect();
    ConnectionTls { server_name: (*server_name).clone(), certificates, versions, clients, origins }
}

fn backends<'a>(model: &Model, clusters: impl Iterator<Item = (&'a ClusterId, u32)>) -> Vec<(Backend, u32)> {
    let backend = |(id, weight): (&ClusterId, u32)| {
        let backend = Backend {
            id: id.clone(),
            cluster: model.clusters.get(id).cloned(),
            endpoints: model.endpoints.get(&id.port).cloned(),
        };
        (backend, weight)
    };
    clusters.map(backend).collect()
}
