#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use lockgate_route::objects::gateway::{
    Condition, GROUP, GatewayClassStatus, HttpRoute, ListenerStatus, ParentRef, ParentStatus, RouteKind,
};
use lockgate_route::objects::{Object, Revision, Transport};
use lockgate_route::testing::gateway::{definition, gateway, gateway_class, gateway_service, http_route};
use lockgate_route::translate::Verdict;
use lockgate_route::translate::gateway::{ListenerReport, SetReport};
use lockgate_xds::provenance::ObjectRef;
use tokio::time::Instant;

use super::*;
use crate::inspection::{Inspection, Published};
use crate::status::fault::{Fault, Faults};
use crate::status::kind::{ExternalFacts, LoadBalancerAddress};
use crate::status::queue::{PROGRESS_AFTER, WriteOutcome};
use crate::status::tests::harness::StatusQueue;

const US: &str = Facts::CONTROLLER;
const SECOND: Duration = Duration::from_secs(1);

/// Returns the typed content of an object.
fn typed<T: lockgate_route::objects::Typed>(object: impl Into<Object>) -> T {
    object.into().get::<T>().expect("an object of this type").clone()
}

/// Returns the patch as the API server would store it.
fn stored<T: serde::de::DeserializeOwned>(patch: Value) -> T {
    serde_json::from_value(patch).expect("a status")
}

/// The Gateway `shop/public` with a queue, and a watch that brings back each write at once.
struct World {
    queue: StatusQueue<Gateway>,
    gateway: Gateway,
    class: bool,
    published: Option<Published>,
    verdicts: Vec<Verdict>,
    report: GatewayReport,
    service: Option<Vec<LoadBalancerAddress>>,
    ports: Vec<(u16, u16)>,
    faults: Faults,
    now: Instant,
    start: Instant,
    version: u32,
}

fn verdict(listener: Option<&str>, condition: &'static str, status: Status, reason: &'static str) -> Verdict {
    let listener = listener.map(Arc::from);
    Verdict { listener, ..Verdict::new(ObjectRef::new("Gateway", "shop", "public"), condition, status, reason) }
}

fn ip(address: &str) -> LoadBalancerAddress {
    LoadBalancerAddress { ip: Some(address.into()), ..LoadBalancerAddress::default() }
}

impl World {
    /// Creates a Gateway with the listener `http`, which lacks only the acceptance by Envoys.
    fn new() -> Self {
        let http = ListenerReport {
            name: "http".into(),
            supported_kinds: vec![RouteKind { group: None, kind: "HTTPRoute".into() }],
            attached_routes: 0,
            port: Some((Transport::Tcp, 80)),
            serves: true,
        };
        let verdicts = [None, Some("http")].map(|listener| verdict(listener, "Accepted", Status::True, "Accepted"));
        let now = Instant::now();
        Self {
            queue: StatusQueue::new("us".into()),
            gateway: typed(gateway("public").listener("http", 80, "HTTP")),
            class: true,
            published: Some(Published::example(1, 1)),
            verdicts: verdicts.into(),
            report: GatewayReport {
                listeners: vec![http],
                ports: vec![(Transport::Tcp, 80)],
                ..GatewayReport::default()
            },
            service: Some(vec![ip("192.0.2.1")]),
            ports: vec![(80, 10_080)],
            faults: Faults::new(),
            now,
            start: now,
            version: 1,
        }
    }

    fn update(&mut self) {
        let mut inspection = Inspection { complete: true, ..Inspection::default() };
        let id = Kind::GATEWAY.id(self.gateway.meta.key.clone());
        if self.class {
            inspection.objects.apply(gateway_class("lockgate").into());
        }
        inspection.objects.apply(Object::new(self.gateway.clone()));
        if let Some(addresses) = &self.service {
            let service = gateway_service("public", &self.ports);
            inspection.objects.apply(service.with::<Service>(|service| {
                service.gateway.as_mut().expect("a Service of a Gateway").addresses = addresses.clone();
            }));
        }
        if let Some(published) = &self.published {
            inspection.sources.insert(id.clone(), published.clone());
            inspection.verdicts.insert(id.clone(), self.verdicts.clone().into());
            inspection.gateways.insert(id.key, Arc::new(self.report.clone()));
        }
        let external = ExternalFacts { controller: US.into(), faults: self.faults.clone(), ..ExternalFacts::default() };
        self.queue.update(Arc::new(inspection), external, self.now);
    }

    /// Performs the write that is due, if there is one. Returns the new condition `Programmed` of the Gateway.
    fn write(&mut self) -> Option<String> {
        self.update();
        let write = self.queue.start(self.now)?;
        let second = i64::try_from((self.now - self.start).as_secs()).unwrap();
        let envoys = write.programmed.as_ref().map_or(0, |(_, envoys)| *envoys);
        let patch = self.gateway.patch(&write.status, envoys, Timestamp::from_second(second).unwrap());
        self.queue.record_result(&write, WriteOutcome::Done, self.now);
        self.gateway.status = stored(patch);
        self.version += 1;
        self.gateway.version = self.version.to_string().into();
        self.update();
        Some(programmed(&self.gateway.status.conditions))
    }

    /// Waits for the next write. Returns the new condition `Programmed` of the Gateway.
    fn next_write(&mut self) -> String {
        self.update();
        loop {
            self.now = self.queue.next().expect("a write to come").max(self.now);
            if let Some(written) = self.write() {
                return written;
            }
        }
    }

    /// Lets two Envoys accept the published revision.
    fn accept(&mut self) {
        self.update();
        let published = self.published.clone().expect("a publication");
        self.queue.record_acceptance(&self.gateway.meta.key, &published, 2, self.now);
    }

    /// Creates a world in which the Gateway has been programmed since second 0.
    fn programmed() -> Self {
        let mut world = Self::new();
        world.accept();
        assert!(world.next_write().starts_with("True"));
        world.now += 200 * SECOND;
        assert_eq!(world.write(), None);
        world
    }

    fn is_quiet(&mut self) -> bool {
        self.update();
        self.queue.len() == 0
    }

    fn listener(&self, name: &str) -> &ListenerStatus {
        self.gateway.status.listeners.iter().find(|current| current.name == name).expect("the listener")
    }
}

/// Formats the condition `Programmed`.
pub(super) fn programmed(conditions: &[Condition]) -> String {
    let one = conditions.iter().find(|one| one.r#type == PROGRAMMED).expect("the condition");
    format!("{} {}: {}", one.status, one.reason, one.message)
}

#[test]
fn a_gateway_is_programmed_when_all_envoys_have_accepted_it() {
    let mut world = World::new();
    assert_eq!(world.write(), None);
    world.accept();
    let accepted = "True Programmed: accepted by 2 Envoys, revision 0000000000000001";
    assert_eq!(world.next_write(), accepted);
    assert_eq!(programmed(&world.listener("http").conditions), accepted);
    assert!(world.is_quiet());
    let address = GatewayAddress { r#type: Some("IPAddress".into()), value: "192.0.2.1".into() };
    assert_eq!(world.gateway.status.addresses, [address]);
    assert_eq!(world.listener("http").supported_kinds[0].group.as_deref(), Some(GROUP));
    let conditions: Vec<&str> = world.gateway.status.conditions.iter().map(|one| &*one.r#type).collect();
    assert_eq!(conditions, ["Accepted", "Programmed"]);
}

#[test]
fn a_status_tells_that_envoys_take_long() {
    let mut world = World::programmed();
    world.gateway.meta.generation = 2;
    world.published.as_mut().unwrap().revision = Revision(2);
    assert_eq!(world.write(), None);
    // Changes do not postpone the status.
    world.now += PROGRESS_AFTER / 2;
    world.report.listeners[0].attached_routes += 1;
    assert_eq!(world.write(), None);
    world.now += PROGRESS_AFTER / 2;
    assert_eq!(world.write().as_deref(), Some("False Pending: not all Envoys have accepted the Gateway yet"));
    assert_eq!(world.listener("http").attached_routes, 1);
    world.now += 200 * SECOND;
    assert_eq!(world.write(), None, "once");
    let generations = |world: &World| {
        let all = world.gateway.status.conditions.iter().chain(&world.listener("http").conditions);
        all.map(|one| one.observed_generation).collect::<Vec<_>>()
    };
    assert_eq!(generations(&world), [2; 4]);
    world.accept();
    assert_eq!(world.next_write(), "True Programmed: accepted by 2 Envoys, revision 0000000000000002");
    // `Programmed` has changed, but `Accepted` has not.
    let seconds = world.gateway.status.conditions.iter().map(|one| &*one.last_transition_time).collect::<Vec<_>>();
    assert!(seconds[0] == "1970-01-01T00:00:00Z" && seconds[1] > "1970-01-01T00:03:00Z", "{seconds:?}");
}

#[test]
fn a_revision_of_the_same_generation_stays_programmed_until_it_is_accepted() {
    let mut world = World::programmed();
    let published = world.published.as_mut().unwrap();
    (published.revision, published.since) = (Revision(2), 2);
    world.now += PROGRESS_AFTER;
    assert_eq!(world.write(), None, "Envoys are still programmed with the former revision");
    world.accept();
    assert_eq!(world.next_write(), "True Programmed: accepted by 2 Envoys, revision 0000000000000002");
    assert_eq!(world.gateway.status.conditions[1].last_transition_time, "1970-01-01T00:00:00Z");
}

#[test]
fn a_changed_verdict_is_written_without_a_new_publication() {
    let mut world = World::programmed();
    world.verdicts[0] = verdict(None, "Accepted", Status::False, "Invalid");
    assert_eq!(world.next_write(), "False Invalid: the Gateway is not accepted: Invalid");
}

#[test]
fn frequent_edits_do_not_delay_the_status() {
    let mut world = World::new();
    for edit in 1..20 {
        world.gateway.meta.generation = i64::try_from(edit).unwrap();
        world.published = Some(Published::example(edit, 1));
        let start = world.now;
        world.accept();
        assert!(world.next_write().starts_with("True"), "edit {edit}");
        assert!(world.now - start <= SECOND, "{:?} for edit {edit}", world.now - start);
    }
}

#[test]
fn a_new_leader_does_not_repeat_a_current_status() {
    let mut world = World::programmed();
    world.queue = StatusQueue::new("us".into());
    world.published.as_mut().unwrap().since = 9;
    assert!(world.is_quiet());
    // The message contains the number of Envoys at the time of the write.
    assert!(programmed(&world.gateway.status.conditions).contains("2 Envoys"));
}

#[test]
fn attached_routes_change_with_one_write_each_and_leave_the_conditions() {
    let mut world = World::programmed();
    let before = world.gateway.status.clone();
    world.report.listeners[0].attached_routes = 7;
    world.accept();
    assert_eq!(world.write(), Some(programmed(&before.conditions)));
    assert_eq!((world.gateway.status.conditions.clone(), world.is_quiet()), (before.conditions, true));
    assert_eq!(
        (world.listener("http").attached_routes, &world.listener("http").conditions),
        (7, &before.listeners[0].conditions)
    );
    // A flood of routes costs at most about a write per second.
    let (start, mut writes) = (world.now, 0);
    while world.now < start + 60 * SECOND {
        world.report.listeners[0].attached_routes += 1;
        world.accept();
        world.next_write();
        writes += 1;
    }
    assert!((55..70).contains(&writes), "{writes}");
}

#[test]
fn a_conflict_over_the_status_slows_down() {
    let mut world = World::new();
    let mut writes = 0;
    while world.now < world.start + 60 * SECOND {
        world.next_write();
        world.gateway.status.conditions.clear();
        world.version += 1;
        world.gateway.version = world.version.to_string().into();
        writes += 1;
    }
    assert!(writes < 10, "{writes}");
}

#[test]
fn each_obstacle_has_its_reason() {
    type Change = fn(&mut World);
    let cases: [(&str, Change); 11] = [
        ("False Invalid: the Gateway is not accepted: UnsupportedAddress", |world| {
            world.verdicts[0] = verdict(None, "Accepted", Status::False, "UnsupportedAddress");
        }),
        ("False Invalid: no listener is valid", |world| world.report.ports.clear()),
        ("False Invalid: no listener is valid", |world| world.report = GatewayReport::default()),
        ("False NoResources: why", |world| {
            let fault = Fault::new("NoResources", "why".into());
            world.faults.insert(world.gateway.meta.key.clone(), fault);
        }),
        ("False Pending: Service \"shop/public-lockgate\" does not exist yet", |world| world.service = None),
        ("False Pending: Service \"shop/public-lockgate\" does not have port 443 yet", |world| {
            world.report.listeners[0].port = Some((Transport::Tcp, 443));
            world.report.ports.push((Transport::Tcp, 443));
        }),
        (
            "False AddressNotAssigned: Service \"shop/public-lockgate\" has no address; a load balancer of the \
             Kubernetes cluster assigns it",
            |world| world.service = Some(vec![]),
        ),
        (
            "False AddressNotUsable: address \"192.0.2.9\" is not assigned to Service \"shop/public-lockgate\"",
            |world| {
                world.gateway = typed(gateway("public").address("IPAddress", "192.0.2.9"));
            },
        ),
        ("False Pending: not all Envoys have accepted the Gateway yet", |world| {
            world.gateway = typed(gateway("public").address("IPAddress", "192.0.2.1"));
        }),
        ("False Pending: not all Envoys have accepted the Gateway yet", |world| {
            world.gateway = typed(gateway("public").address("IPAddress", "2001:DB8::1"));
            world.service = Some(vec![ip("192.0.2.1"), ip("2001:db8::1")]);
        }),
        // An empty value requests any address.
        ("False Pending: not all Envoys have accepted the Gateway yet", |world| {
            world.gateway = typed(gateway("public").address("Hostname", ""));
        }),
    ];
    for (expected, change) in cases {
        let mut world = World::new();
        change(&mut world);
        assert_eq!(world.next_write(), expected);
        assert_eq!(world.write(), None, "{expected}: written once");
        // The wait ends.
        let healthy = World::new();
        world = World {
            queue: world.queue,
            gateway: world.gateway,
            now: world.now,
            start: world.start,
            version: 99,
            ..healthy
        };
        world.gateway.spec.addresses.clear();
        if world.gateway.status.conditions.iter().any(|one| one.reason == "Pending" && one.message.contains("Envoys")) {
            continue;
        }
        assert_eq!(
            world.next_write(),
            "False Pending: not all Envoys have accepted the Gateway yet",
            "after {expected}"
        );
    }
}

#[test]
fn a_gateway_that_loses_its_address_is_no_longer_programmed() {
    let mut world = World::programmed();
    world.service = Some(vec![
        ip("192.0.2.2"),
        LoadBalancerAddress { hostname: Some("lb.test".into()), ..LoadBalancerAddress::default() },
    ]);
    world.accept();
    assert!(world.write().is_some_and(|programmed| programmed.starts_with("True")), "another address");
    let addresses = world.gateway.status.addresses.iter().map(|one| (one.r#type.as_deref().unwrap(), &*one.value));
    assert_eq!(addresses.collect::<Vec<_>>(), [("IPAddress", "192.0.2.2"), ("Hostname", "lb.test")]);
    assert!(world.is_quiet());
    world.service = Some(vec![]);
    assert!(world.next_write().starts_with("False AddressNotAssigned"));
    assert!(world.gateway.status.addresses.is_empty());
    assert!(programmed(&world.listener("http").conditions).starts_with("False Pending"));
}

#[test]
fn a_listener_that_is_not_served_is_not_programmed() {
    let mut world = World::new();
    let tls = ListenerReport { name: "tls".into(), serves: false, ..world.report.listeners[0].clone() };
    world.report.listeners.push(tls);
    world.verdicts.push(verdict(Some("tls"), "ResolvedRefs", Status::False, "InvalidCertificateRef"));
    world.accept();
    world.next_write();
    assert!(programmed(&world.listener("http").conditions).starts_with("True"));
    let invalid = "False Invalid: the listener is not served: InvalidCertificateRef";
    assert_eq!(programmed(&world.listener("tls").conditions), invalid);
    assert!(world.is_quiet());
    // The listener becomes valid without a new generation, and must be accepted too. The other one is unchanged.
    world.now += 200 * SECOND;
    let http = world.listener("http").clone();
    world.verdicts.pop();
    world.report.listeners[1].serves = true;
    world.next_write();
    assert!(programmed(&world.listener("tls").conditions).starts_with("False Pending"));
    assert_eq!(*world.listener("http"), http);
    world.accept();
    world.next_write();
    assert!(programmed(&world.listener("tls").conditions).starts_with("True"));
    assert_eq!(*world.listener("http"), http);
    // The listener is deleted.
    world.report.listeners.pop();
    world.accept();
    world.next_write();
    assert_eq!(world.gateway.status.listeners, [http]);
}

#[test]
fn a_gateway_without_a_class_waits_for_a_controller_again() {
    let mut world = World::programmed();
    // A controller of the same class takes over: it writes the status.
    let mut other = World::programmed();
    other.published = None;
    assert_eq!(other.write(), None);
    // The class is gone.
    (world.published, world.class) = (None, false);
    assert_eq!(world.write().as_deref(), Some("Unknown Pending: waits for a controller"));
    assert_eq!((world.gateway.status.addresses.len(), world.gateway.status.listeners.len()), (0, 0));
    assert_eq!(world.write(), None);
}

#[test]
fn a_gateway_class_has_its_conditions_and_the_features() {
    assert!(class::FEATURES.is_sorted(), "as the API requires");
    let published = Published::example(1, 1);
    let inspection = Inspection::default();
    let verdicts = [verdict(None, "Accepted", Status::True, "Accepted")];
    let facts = Facts::example(&inspection, Some(&published), &verdicts);
    let mut class: GatewayClass = typed(gateway_class("lockgate"));
    let goal = class.goal(&facts).expect("a status");
    assert_eq!(goal.needs, None);
    class.status = stored(class.patch(&goal.status, 0, Timestamp::UNIX_EPOCH));
    assert_eq!(class.status.supported_features.len(), class::FEATURES.len());
    assert_eq!(class.goal(&facts), None);
    class.status.supported_features.pop();
    assert!(class.goal(&facts).is_some(), "a version of Lockgate with fewer features wrote it");
    class.meta.generation = 2;
    let goal = class.goal(&facts).expect("a status");
    class.status = stored(class.patch(&goal.status, 0, Timestamp::UNIX_EPOCH));
    assert_eq!(class.status.conditions[0].observed_generation, 2);
    assert_eq!(class.goal(&Facts { published: None, ..facts }), None, "a class of another controller");
}

#[test]
fn experimental_features_need_the_experimental_channel() {
    let published = Published::example(1, 1);
    let class: GatewayClass = typed(gateway_class("lockgate"));
    for (plural, channel, expected) in [
        ("httproutes", "experimental", true),
        ("httproutes", "standard", false),
        ("httproutes", "", false),
        ("gateways", "experimental", false),
    ] {
        let mut inspection = Inspection::default();
        inspection.objects.apply(definition(plural, "v1.6.3", channel));
        let verdicts = [verdict(None, "Accepted", Status::True, "Accepted")];
        let goal = class.goal(&Facts::example(&inspection, Some(&published), &verdicts)).expect("a status");
        let status: GatewayClassStatus = stored(class.patch(&goal.status, 0, Timestamp::UNIX_EPOCH));
        assert!(status.supported_features.iter().is_sorted_by_key(|feature| &feature.name));
        let has = status.supported_features.iter().any(|feature| feature.name == "HTTPRouteRetry");
        assert_eq!(has, expected, "{plural} {channel}");
    }
}

#[test]
fn a_gateway_counts_its_listener_sets_and_does_not_wait_for_them() {
    let mut world = World::new();
    let port = Some((Transport::Tcp, 8080));
    let listener = ListenerReport { port, serves: false, ..world.report.listeners[0].clone() };
    for (name, accepted) in [("a", true), ("b", true), ("c", false)] {
        let set = SetReport { accepted, listeners: vec![listener.clone()] };
        world.report.sets.insert(ObjectKey::new("other", name), set);
    }
    world.report.ports.push((Transport::Tcp, 8080));
    assert_eq!(world.next_write(), "False Pending: not all Envoys have accepted the Gateway yet");
    world.accept();
    assert!(world.next_write().starts_with("True "), "although its Service does not have port 8080");
    assert_eq!(world.gateway.status.attached_listener_sets, Some(2));
    world.report.sets.remove(&ObjectKey::new("other", "a"));
    world.next_write();
    assert_eq!(world.gateway.status.attached_listener_sets, Some(1));
    // Without the field of a newer API, a Gateway without ListenerSets needs no write.
    world.report.sets.clear();
    world.next_write();
    world.gateway.status.attached_listener_sets = None;
    assert!(world.is_quiet());
}

/// Returns a verdict on the parent with index `at` of the route `shop/cart`.
fn at_parent(at: u16, condition: &'static str, status: Status, reason: &'static str) -> Verdict {
    Verdict { parent: Some(at), ..Verdict::new(ObjectRef::new("HTTPRoute", "shop", "cart"), condition, status, reason) }
}

/// Writes the status of a route until it is current. Returns the number of writes.
fn settle(route: &mut HttpRoute, facts: &Facts) -> usize {
    let mut writes = 0;
    while let Some(goal) = route.goal(facts) {
        assert_eq!(goal.needs, None, "a route has no condition that depends on Envoys");
        route.status = stored(route.patch(&goal.status, 0, Timestamp::UNIX_EPOCH));
        writes += 1;
        assert!(writes < 5, "{goal:?}");
    }
    writes
}

#[test]
fn a_route_has_an_entry_for_each_parent_of_ours() {
    let published = Published::example(1, 1);
    let inspection = Inspection::default();
    let accepted = |at| at_parent(at, "Accepted", Status::True, "Accepted");
    let verdicts = [
        at_parent(0, "Accepted", Status::False, "NotAllowedByListeners"),
        at_parent(0, "ResolvedRefs", Status::True, "ResolvedRefs"),
        accepted(2),
    ];
    // Parents 0 and 2 reference listeners of the same Gateway. Parent 1 belongs to another controller.
    let mut route: HttpRoute = typed(
        http_route("cart").parent("infra/public").section("a").parent("other").parent("infra/public").section("c"),
    );
    let theirs = ParentStatus {
        parent_ref: ParentRef { name: "other".into(), ..ParentRef::default() },
        controller_name: "example.com/other".into(),
        conditions: vec![Condition { r#type: "Accepted".into(), ..Condition::default() }],
    };
    route.status.parents.push(theirs.clone());
    assert_eq!(settle(&mut route, &Facts::example(&inspection, Some(&published), &verdicts)), 1);
    let entries = |route: &HttpRoute| -> Vec<String> {
        let entry = |one: &ParentStatus| {
            let conditions = one.conditions.iter().map(|one| format!("{}={}", one.r#type, one.status));
            let section = one.parent_ref.section_name.as_deref().unwrap_or_default();
            format!("{} {section} {}", one.parent_ref.name, conditions.collect::<Vec<_>>().join(" "))
        };
        route.status.parents.iter().map(entry).collect()
    };
    assert_eq!(
        entries(&route),
        ["other  Accepted=", "public a Accepted=False ResolvedRefs=True", "public c Accepted=True"]
    );
    assert_eq!(route.status.parents[0], theirs);

    // The API server adds defaults to the references.
    route.status.parents[1].parent_ref.kind = Some("Gateway".into());
    route.status.parents[1].parent_ref.group = Some(GROUP.into());
    assert_eq!(settle(&mut route, &Facts::example(&inspection, Some(&published), &verdicts)), 0);

    // Each entry of Lockgate has the new generation, and no other entry has it.
    route.meta.generation = 2;
    assert_eq!(settle(&mut route, &Facts::example(&inspection, Some(&published), &verdicts)), 1);
    let generations = route.status.parents.iter().map(|one| one.conditions[0].observed_generation);
    assert_eq!(generations.collect::<Vec<_>>(), [0, 2, 2]);

    // A parent is removed. The indices of the others change, and their transition times stay.
    route.status.parents[2].conditions[0].last_transition_time = "2000-01-01T00:00:00Z".into();
    route.spec.parent_refs.remove(0);
    assert_eq!(settle(&mut route, &Facts::example(&inspection, Some(&published), &[accepted(1)])), 1);
    assert_eq!(entries(&route), ["other  Accepted=", "public c Accepted=True"]);
    assert_eq!(route.status.parents[1].conditions[0].last_transition_time, "2000-01-01T00:00:00Z");

    // Lockgate serves no parent any more. A new leader does not know that it did.
    let gone = Facts { published: None, ..Facts::example(&inspection, Some(&published), &[]) };
    assert_eq!(settle(&mut route, &gone), 1);
    assert_eq!(route.status.parents, [theirs]);
}

#[test]
fn entries_of_all_controllers_are_no_more_than_the_api_allows() {
    let published = Published::example(1, 1);
    let inspection = Inspection::default();
    let mut route: HttpRoute = typed((0..32).fold(http_route("cart"), |route, i| route.parent(&format!("g{i}"))));
    let verdicts: Vec<Verdict> = (0..32).map(|i| at_parent(i, "Accepted", Status::True, "Accepted")).collect();
    route.status.parents =
        vec![ParentStatus { controller_name: "example.com/other".into(), ..ParentStatus::default() }; 3];
    assert_eq!(settle(&mut route, &Facts::example(&inspection, Some(&published), &verdicts)), 1);
    assert_eq!(route.status.parents.len(), 32);
}
