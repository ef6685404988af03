//! Virtual hosts that exchange domains, of which Envoy accepts all or none. Random virtual hosts are grouped and delayed
//! like by a simple reference. The work for many virtual hosts is linear.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use envoy_types::pb::envoy::config::route::v3 as route_v3;
use prost::Message;

use super::super::harness::*;
use super::*;
use crate::protocol::push::Push;
use crate::protocol::subscription::{ClientState, InFlight, Subscription};
use crate::protocol::{Response, Variant};
use crate::snapshot::{Resource, Snapshot, Store, Update};

const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];

/// The versions of one virtual host, and its part of a response.
#[derive(Debug)]
struct Host {
    name: Arc<str>,
    accepted: ClientState,
    sent: ClientState,
    newest: Option<Arc<Resource>>,
    part: Part,
}

#[derive(Debug, Clone)]
enum Part {
    Nothing,
    Waits,
    Set(Arc<Resource>),
    Removed,
}

impl Host {
    fn new(name: &str, choices: u64) -> Self {
        let mut choices = Choices(choices);
        let [accepted, sent, newest, set] = [(); 4].map(|()| {
            // Up to two domains of ten.
            let domains: BTreeSet<usize> = (0..2).map(|_| choices.take(20)).filter(|domain| *domain < 10).collect();
            let domains = domains.iter().map(usize::to_string).collect();
            let message = route_v3::VirtualHost { name: name.to_owned(), domains, ..Default::default() };
            Arc::new(Resource::new(name, &message, Vec::new()))
        });
        let accepted = [ClientState::Unknown, ClientState::Resource(accepted)][choices.take(2)].clone();
        let sent = [accepted.clone(), ClientState::Absent, ClientState::Resource(sent)][choices.take(3)].clone();
        let newest = (choices.take(4) > 0).then_some(newest);
        let part = [Part::Nothing, Part::Waits, Part::Set(set), Part::Removed][choices.take(4)].clone();
        Self { name: name.into(), accepted, sent, newest, part }
    }

    /// Returns the domains of the versions at the client and of `desired`.
    fn domains(&self, desired: Option<&Arc<Resource>>) -> BTreeSet<String> {
        let versions = [self.sent.resource(), self.accepted.resource(), desired];
        versions.into_iter().flatten().flat_map(|version| domains(version)).collect()
    }

    /// Returns the domains that the host has while it waits.
    fn waiting_domains(&self) -> BTreeSet<String> {
        self.domains(self.newest.as_ref())
    }

    /// Returns the domains of the change in the response.
    fn changed_domains(&self) -> BTreeSet<String> {
        match &self.part {
            Part::Nothing | Part::Waits => BTreeSet::new(),
            Part::Set(set) => self.domains(Some(set)),
            Part::Removed => self.domains(None),
        }
    }

    fn add_to(&self, push: &mut Push) {
        let state = match &self.part {
            Part::Nothing => return,
            Part::Waits => {
                push.waits.insert(self.name.clone());
                return;
            }
            Part::Set(set) => {
                push.set.push(set.clone());
                push.answered.push(self.name.clone());
                push.asked.push(self.name.clone());
                ClientState::Resource(set.clone())
            }
            Part::Removed => {
                push.removed.push(self.name.clone());
                push.done.push(self.name.clone());
                ClientState::Absent
            }
        };
        push.content.push((self.name.clone(), state));
    }
}

fn domains(host: &Resource) -> Vec<String> {
    route_v3::VirtualHost::decode(host.message()).unwrap().domains
}

/// Returns a subscription in which the client has the versions of `hosts`.
fn subscription(hosts: &[Host], newest: &Arc<Snapshot>) -> Subscription {
    let mut subscription = Subscription::new(VIRTUAL_HOST, VIRTUAL_HOST.url(), newest.clone());
    subscription.record_known(hosts.iter().map(|host| (host.name.clone(), host.accepted.clone())).collect());
    let sent = hosts.iter().map(|host| (host.name.clone(), host.sent.clone())).collect();
    subscription.sent("", InFlight::new(String::new(), Instant::now(), sent, None));
    subscription
}

/// Returns the names of hosts that share domains. Each host is compared with all groups before it.
fn groups(hosts: &[Host]) -> Vec<BTreeSet<Arc<str>>> {
    let mut groups: Vec<(BTreeSet<String>, BTreeSet<Arc<str>>)> = Vec::new();
    for host in hosts {
        let mut group = (host.waiting_domains(), BTreeSet::from([host.name.clone()]));
        let (shared, apart): (Vec<_>, Vec<_>) = groups.into_iter().partition(|other| !other.0.is_disjoint(&group.0));
        for (domains, names) in shared {
            group.0.extend(domains);
            group.1.extend(names);
        }
        groups = apart;
        groups.push(group);
    }
    groups.into_iter().map(|(_, names)| names).collect()
}

/// Makes every host wait whose change shares a domain with a waiting one.
fn delay(hosts: &mut [Host]) {
    let waits = hosts.iter().filter(|host| matches!(host.part, Part::Waits) && host.newest.is_some());
    let mut domains: BTreeSet<String> = waits.flat_map(Host::waiting_domains).collect();
    while let Some(next) = hosts.iter_mut().find(|host| !host.changed_domains().is_disjoint(&domains)) {
        domains.extend(next.waiting_domains());
        next.part = Part::Waits;
    }
}

/// Describes the lists of a response.
fn describe(push: &Push) -> String {
    let Push { set, removed, content, done, answered, asked, waits, .. } = push;
    let set: Vec<_> = set.iter().map(|host| (host.name(), host.version())).collect();
    format!("{set:?} {removed:?} {content:?} {done:?} {answered:?} {asked:?} {waits:?}")
}

proptest! {
    #![proptest_config(config(2_000))]

    #[test]
    fn virtual_hosts_that_share_domains_stay_together(choices in prop::collection::vec(any::<u64>(), 0..=NAMES.len())) {
        let push = |hosts: &[Host]| {
            let mut push = Push::default();
            hosts.iter().for_each(|host| host.add_to(&mut push));
            push
        };
        let mut hosts: Vec<Host> =
            NAMES.iter().zip(&choices).map(|(name, choices)| Host::new(name, *choices)).collect();
        let store = Store::default();
        store.replace(hosts.iter().filter_map(|host| host.newest.as_deref().cloned()).collect());
        let newest = store.newest().unwrap();
        let subscription = subscription(&hosts, &newest);
        let names = hosts.iter().map(|host| host.name.clone()).collect();
        prop_assert_eq!(subscription.units(&names), groups(&hosts), "{:#?}", hosts);
        let mut actual = push(&hosts);
        actual.delay_conflicting_hosts(&subscription, &newest);
        delay(&mut hosts);
        prop_assert_eq!(describe(&actual), describe(&push(&hosts)), "{:#?}", hosts);
    }
}

/// A client with many virtual hosts, which rejects invalid ones and domains of two virtual hosts.
struct Envoy {
    bench: Bench,
    has: BTreeMap<Arc<str>, Resource>,
    messages: usize,
}

impl Envoy {
    fn answer(&mut self, response: &Response) -> Sent {
        let mut has = self.has.clone();
        has.extend(response.resources.iter().map(|host| (host.name().clone(), (**host).clone())));
        let domains: Vec<String> = has.values().flat_map(domains).collect();
        let distinct: BTreeSet<&str> = domains.iter().map(String::as_str).collect();
        self.messages += 1;
        if distinct.len() < domains.len() || distinct.contains("invalid") {
            return self.bench.nack(response, "no");
        }
        self.has = has;
        self.bench.ack(response)
    }

    /// Answers `sent`, and all responses to the answers.
    fn answer_all(&mut self, mut sent: Sent) {
        while !sent.is_empty() {
            sent = Sent(sent.iter().flat_map(|response| self.answer(response).0).collect());
            if let Some(due) = self.bench.stream.deadline().filter(|_| sent.is_empty()) {
                sent = self.bench.wait(due.saturating_duration_since(self.bench.now));
            }
        }
    }
}

/// A comparison of every virtual host with every other one would take minutes.
#[test]
fn an_invalid_virtual_host_is_found_among_many() {
    const COUNT: usize = 20_000;
    let host = |at: usize, domain: &str| virtual_host(&format!("r/{at:05}"), domain);
    let first = |at: usize| host(at, &if at == 7 { "invalid".to_owned() } else { at.to_string() });
    // Neighbors exchange their domains.
    let second = |at: usize| host(at, &(at ^ 1).to_string());
    let store = Arc::new(Store::default());
    store.replace((0..COUNT).map(first).collect());
    let mut bench = Bench::over(store.clone(), Variant::Delta, Some(VIRTUAL_HOST));
    bench.decodes = false;
    let all = bench.subscribe(VIRTUAL_HOST, []);
    assert_eq!(names(all.one()).len(), COUNT);
    let mut envoy = Envoy { bench, has: BTreeMap::new(), messages: 0 };
    // One half is in flight, and the other half waits. Then all virtual hosts change except for the first ones.
    let half = envoy.answer(all.one());
    assert_eq!(names(half.one()).len(), COUNT / 2);
    store.update(Update::setting((8..COUNT).map(second).collect()));
    assert!(envoy.bench.catch_up().is_empty(), "one response at a time");
    envoy.answer_all(half);
    let expected = (0..COUNT).filter(|at| *at != 7).map(|at| if at < 8 { first(at) } else { second(at) });
    assert!(envoy.has.into_values().eq(expected), "not all valid virtual hosts are accepted");
    assert!(envoy.messages < 60, "{} messages", envoy.messages);
}
