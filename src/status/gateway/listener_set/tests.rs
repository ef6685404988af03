#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use lockgate_route::objects::{GatewayService, Object, Service, Transport};
use lockgate_route::testing::gateway::{gateway, gateway_class, gateway_service, listener_set};
use lockgate_route::translate::gateway::{GatewayReport, ListenerReport};
use lockgate_xds::provenance::ObjectRef;
use tokio::time::Instant;

use super::*;
use crate::inspection::{Inspection, Published};
use crate::status::fault::Faults;
use crate::status::gateway::tests::programmed;
use crate::status::kind::{ExternalFacts, LoadBalancerAddress};
use crate::status::queue::WriteOutcome;
use crate::status::tests::harness::StatusQueue;

/// The ListenerSet `shop/extra` of the Gateway `shop/public`, which has an address.
struct World {
    queue: StatusQueue<ListenerSet>,
    set: ListenerSet,
    published: Option<Published>,
    verdicts: Vec<Verdict>,
    report: GatewayReport,
    /// The Gateway, if it exists.
    gateway: bool,
    gateway_verdicts: Vec<Verdict>,
    ports: Vec<(u16, u16)>,
    addresses: Vec<LoadBalancerAddress>,
    faults: Faults,
    now: Instant,
}

fn verdict(listener: Option<&str>, condition: &'static str, status: Status, reason: &'static str) -> Verdict {
    let object = ObjectRef::new("ListenerSet", "shop", "extra");
    Verdict { listener: listener.map(Arc::from), ..Verdict::new(object, condition, status, reason) }
}

fn listener(name: &str, port: u16) -> ListenerReport {
    let port = Some((Transport::Tcp, port));
    ListenerReport { name: name.into(), supported_kinds: vec![], attached_routes: 3, port, serves: true }
}

impl World {
    /// Creates a ListenerSet that lacks only the acceptance by Envoys.
    fn new() -> Self {
        let mut report = GatewayReport { listeners: vec![listener("http", 80)], ..GatewayReport::default() };
        report.ports = vec![(Transport::Tcp, 80), (Transport::Tcp, 8080)];
        let set = SetReport { accepted: true, listeners: vec![listener("more", 8080)] };
        report.sets.insert(ObjectKey::new("shop", "extra"), set);
        let set = Object::from(listener_set("extra", "public").listener("more", 8080, "HTTP"));
        Self {
            queue: StatusQueue::new("us".into()),
            set: set.get::<ListenerSet>().expect("a ListenerSet").clone(),
            published: Some(Published::example(1, 1)),
            verdicts: [None, Some("more")].map(|of| verdict(of, "Accepted", Status::True, "Accepted")).into(),
            report,
            gateway: true,
            gateway_verdicts: vec![verdict(None, "Accepted", Status::True, "Accepted")],
            ports: vec![(80, 10_080), (8080, 10_081)],
            addresses: vec![LoadBalancerAddress { ip: Some("192.0.2.1".into()), ..LoadBalancerAddress::default() }],
            faults: Faults::new(),
            now: Instant::now(),
        }
    }

    fn report(&mut self) -> &mut SetReport {
        self.report.sets.values_mut().next().expect("the ListenerSet")
    }

    fn update(&mut self) {
        let mut inspection = Inspection { complete: true, ..Inspection::default() };
        inspection.objects.apply(gateway_class("lockgate").into());
        let key = ObjectKey::new("shop", "public");
        if self.gateway {
            inspection.objects.apply(gateway("public").listener("http", 80, "HTTP").into());
            inspection.verdicts.insert(Kind::GATEWAY.id(key.clone()), self.gateway_verdicts.clone().into());
            inspection.gateways.insert(key, Arc::new(self.report.clone()));
        }
        inspection.objects.apply(Object::new(self.set.clone()));
        inspection.objects.apply(gateway_service("public", &self.ports).with::<Service>(|service| {
            let of_gateway: &mut GatewayService = service.gateway.as_mut().expect("a Service of a Gateway");
            of_gateway.addresses = self.addresses.clone();
        }));
        if let Some(published) = &self.published {
            let id = Kind::LISTENER_SET.id(self.set.meta.key.clone());
            inspection.sources.insert(id.clone(), published.clone());
            inspection.verdicts.insert(id, self.verdicts.clone().into());
        }
        let external =
            ExternalFacts { controller: "us".into(), faults: self.faults.clone(), ..ExternalFacts::default() };
        self.queue.update(Arc::new(inspection), external, self.now);
    }

    /// Performs all writes that need no further acceptance. Returns the condition `Programmed`.
    fn settle(&mut self) -> String {
        self.update();
        while let Some(at) = self.queue.next() {
            self.now = self.now.max(at);
            let Some(write) = self.queue.start(self.now) else { break };
            let envoys = write.programmed.as_ref().map_or(0, |(_, envoys)| *envoys);
            let patch = self.set.patch(&write.status, envoys, Timestamp::UNIX_EPOCH);
            self.set.status = serde_json::from_value(patch).expect("a status");
            self.set.version = format!("{}+", self.set.version).into();
            self.queue.record_result(&write, WriteOutcome::Done, self.now);
            self.update();
        }
        programmed(&self.set.status.conditions)
    }

    fn accept(&mut self) -> String {
        let published = self.published.clone().expect("a publication");
        self.queue.record_acceptance(&self.set.meta.key, &published, 2, self.now);
        self.settle()
    }
}

#[test]
fn a_listener_set_is_programmed_when_all_envoys_have_accepted_it() {
    let mut world = World::new();
    assert_eq!(world.settle(), "False Pending: not all Envoys have accepted the Gateway yet");
    assert_eq!(world.accept(), "True Programmed: accepted by 2 Envoys, revision 0000000000000001");
    let listener = &world.set.status.listeners[0];
    assert_eq!((&*listener.name, listener.attached_routes), ("more", 3));
    assert_eq!(programmed(&listener.conditions), "True Programmed: accepted by 2 Envoys, revision 0000000000000001");
    world.now += Duration::from_secs(200);
    world.update();
    assert_eq!(world.queue.len(), 0);
}

#[test]
fn each_obstacle_has_its_reason() {
    type Change = fn(&mut World);
    let cases: [(&str, Change); 8] = [
        ("False NotAllowed: the ListenerSet is not accepted: ", |world| {
            world.verdicts = vec![verdict(None, "Accepted", Status::False, "NotAllowed")];
            world.report().listeners.clear();
        }),
        ("False ListenersNotValid: the ListenerSet is not accepted: ", |world| {
            world.verdicts[0] = verdict(None, "Accepted", Status::False, "ListenersNotValid");
        }),
        ("False ParentNotProgrammed: the ListenerSet is not accepted: ", |world| {
            world.verdicts[0] = verdict(None, "Accepted", Status::False, "ParentNotAccepted");
        }),
        ("False ParentNotProgrammed: the Gateway is not programmed yet", |world| world.addresses.clear()),
        ("False ParentNotProgrammed: the Gateway is not programmed yet", |world| {
            world.faults.insert(ObjectKey::new("shop", "public"), Fault::new("NoResources", "why".into()));
        }),
        ("False ParentNotProgrammed: the Gateway is not programmed yet", |world| {
            world.ports.remove(0);
        }),
        ("False Pending: Service \"shop/public-lockgate\" does not have port 8080 yet", |world| {
            world.ports.remove(1);
            world.report().listeners[0].serves = false;
        }),
        ("False PortUnavailable: no listener has a port of the Envoys", |world| {
            world.report().listeners[0].serves = false;
        }),
    ];
    for (expected, change) in cases {
        let mut world = World::new();
        change(&mut world);
        assert_eq!(world.settle(), expected);
    }
}

#[test]
fn a_listener_with_a_conflict_has_the_reason_of_the_conflict() {
    let mut world = World::new();
    let conflict = ListenerReport { port: None, serves: false, ..listener("other", 80) };
    world.report().listeners.push(conflict);
    world.verdicts.extend([
        verdict(Some("other"), "Accepted", Status::False, "HostnameConflict"),
        verdict(Some("other"), "Conflicted", Status::True, "HostnameConflict"),
    ]);
    world.settle();
    assert!(world.accept().starts_with("True "), "the other listener is served");
    let of = |name: &str| {
        let one = world.set.status.listeners.iter().find(|one| one.name == name).expect("the listener");
        programmed(&one.conditions)
    };
    assert_eq!(of("other"), "False HostnameConflict: the listener is not served: HostnameConflict");
    assert!(of("more").starts_with("True "));
}

#[test]
fn a_listener_set_without_its_gateway_waits_for_a_controller() {
    let mut world = World::new();
    world.settle();
    world.accept();
    (world.published, world.gateway) = (None, false);
    assert_eq!(world.settle(), "Unknown Pending: waits for a controller");
    assert!(world.set.status.listeners.is_empty());
    // The controller of another Gateway writes its own status.
    let mut world = World::new();
    let before = {
        world.settle();
        world.accept()
    };
    world.published = None;
    assert_eq!(world.settle(), before);
}
