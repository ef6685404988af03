#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use lockgate_route::testing::gateway::{GatewayBuilder, gateway, gateway_class, gateway_service};
use lockgate_route::testing::objects::{service, slice};
use lockgate_route::translate::gateway::{GatewayReport, ListenerReport, SetReport};

use super::*;
use crate::settings::Settings;

const TCP: Transport = Transport::Tcp;

fn chosen() -> WriterSettings {
    let mut settings = Settings::default();
    settings.route.envoy_service = Some(("infra".into(), "envoy".into()));
    WriterSettings::new(&settings)
}

/// A cluster with the class `lockgate`, two Envoys, and Gateways of ours.
struct World {
    inspection: Inspection,
    recent: BTreeMap<ObjectKey, Ports>,
}

impl World {
    fn new() -> Self {
        let mut world = Self { inspection: Inspection::default(), recent: BTreeMap::new() };
        world.apply(gateway_class("lockgate"));
        world.apply(slice("infra/envoy-a", "envoy").ready("10.0.0.1").ready("10.0.0.2"));
        world
    }

    fn apply(&mut self, object: impl Into<Object>) {
        self.inspection.objects.apply(object.into());
    }

    /// Adds a Gateway of ours with valid listeners on these ports.
    fn gateway(&mut self, gateway: GatewayBuilder, ports: &[u16]) {
        let object: Object = gateway.into();
        let report = GatewayReport {
            listeners: ports.iter().map(|port| listener(*port)).collect(),
            ports: ports.iter().map(|port| (TCP, *port)).collect(),
            ..GatewayReport::default()
        };
        self.inspection.gateways.insert(object.meta().key.clone(), Arc::new(report));
        self.apply(object);
    }

    fn plan(&self) -> Needs {
        let outside = Outside { recent: self.recent.clone(), ..Outside::default() };
        plan(&self.inspection, &chosen(), &outside)
    }
}

fn listener(port: u16) -> ListenerReport {
    let (name, port) = (port.to_string().into(), Some((TCP, port)));
    ListenerReport { name, supported_kinds: vec![], attached_routes: 0, port, serves: true }
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::new("shop", name)
}

fn service_of<'a>(plan: &'a Needs, name: &str) -> Option<&'a DesiredService> {
    match plan.wanted.get(&Kind::SERVICE.id(key(name))) {
        Some(DesiredObject::Service(service)) => Some(service),
        _ => None,
    }
}

fn ports(plan: &Needs, name: &str) -> Vec<u16> {
    service_of(plan, name).expect("a Service").ports.iter().map(|(_, port, _)| *port).collect()
}

fn target(plan: &Needs, name: &str) -> u16 {
    service_of(plan, name).expect("a Service").ports[0].2
}

fn slices(plan: &Needs) -> Vec<&DesiredSlice> {
    let slices = plan.wanted.values().filter_map(|content| match content {
        DesiredObject::Slice(slice) => Some(slice),
        DesiredObject::Service(_) => None,
    });
    slices.collect()
}

fn faults(plan: &Needs) -> Vec<(String, &str)> {
    plan.faults.iter().map(|(key, fault)| (key.to_string(), fault.reason)).collect()
}

#[test]
fn a_gateway_is_not_programmed_while_the_namespace_of_the_envoys_is_not_watched() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80]);
    for (namespaces, expected) in [(vec![], None), (vec!["infra", "shop"], None), (vec!["shop"], Some("NoResources"))] {
        let mut chosen = chosen();
        chosen.namespaces = namespaces.into_iter().map(str::to_owned).collect();
        let plan = plan(&world.inspection, &chosen, &Outside::default());
        let fault = plan.faults.get(&key("public"));
        assert_eq!(fault.map(|fault| fault.reason), expected);
        assert!(fault.is_none_or(|fault| fault.message.contains("\"infra\", is not watched")), "{fault:?}");
        assert!(service_of(&plan, "public-lockgate").is_some(), "the address stays");
    }
}

#[test]
fn a_gateway_gets_a_service_and_then_endpoint_slices() {
    let mut world = World::new();
    let wishes = |spec: &mut lockgate_route::objects::gateway::GatewaySpec| {
        let infrastructure = spec.infrastructure.get_or_insert_default();
        infrastructure.labels.insert("team".into(), "shop".into());
        infrastructure.annotations.insert("balancer".into(), "small".into());
    };
    let public = gateway("public").address("IPAddress", "").address("IPAddress", "192.0.2.9").spec(wishes);
    world.gateway(public, &[80, 443]);
    let plan = world.plan();
    let wanted = service_of(&plan, "public-lockgate").expect("a Service");
    assert_eq!(
        (&*wanted.gateway, &*wanted.class, wanted.address.as_deref()),
        ("public", "lockgate", Some("192.0.2.9"))
    );
    assert_eq!((&*wanted.labels["team"], &*wanted.annotations["balancer"]), ("shop", "small"));
    assert_eq!(ports(&plan, "public-lockgate"), [80, 443]);
    assert!(slices(&plan).is_empty(), "an EndpointSlice needs the uid of its Service");

    let targets: Vec<(u16, u16)> = wanted.ports.iter().map(|(_, port, target)| (*port, *target)).collect();
    world.apply(gateway_service("public", &targets));
    world.apply(slice("infra/envoy-b", "envoy").address_type(AddressType::Ipv6).ready("2001:db8::1"));
    let leaving = slice("infra/envoy-c", "envoy").endpoint("10.0.0.3", [false, true, true]).pod("infra/envoy-3");
    world.apply(leaving.endpoint("10.0.0.4", [false, false, true]));
    let next = world.plan();
    assert_eq!(service_of(&next, "public-lockgate"), Some(wanted), "the ports stay");
    let found: Vec<(String, Vec<&str>)> = slices(&next)
        .iter()
        .map(|slice| (slice.key.to_string(), slice.endpoints.iter().map(|one| &*one.address).collect()))
        .collect();
    let expected = [
        ("shop/public-lockgate-ipv4".to_owned(), vec!["10.0.0.1", "10.0.0.2", "10.0.0.3"]),
        ("shop/public-lockgate-ipv6".to_owned(), vec!["2001:db8::1"]),
    ];
    assert_eq!(found, expected);
    assert!(slices(&next).iter().all(|slice| slice.ports == wanted.ports));
    assert!(next.obsolete.is_empty() && next.faults.is_empty());
}

#[test]
fn the_endpoint_slices_of_all_gateways_share_the_endpoints() {
    let mut world = World::new();
    for (at, name) in (0u16..).zip(["a", "b"]) {
        world.gateway(gateway(name), &[80]);
        world.apply(gateway_service(name, &[(80, 10_000 + at)]));
    }
    let plan = world.plan();
    let [a, b] = slices(&plan)[..] else { panic!("two EndpointSlices") };
    assert!(Arc::ptr_eq(&a.endpoints, &b.endpoints), "1,000 Gateways and 100 Envoys would be 100,000 endpoints");
}

#[test]
fn ports_follow_the_listeners_and_the_others_stay() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80, 8080]);
    world.apply(gateway_service("public", &[(80, 11_111), (443, 12_222)]));
    let plan = world.plan();
    let wanted = &service_of(&plan, "public-lockgate").expect("a Service").ports;
    assert_eq!(wanted[0], (TCP, 80, 11_111));
    assert!(wanted[1].1 == 8080 && wanted[1].2 != 12_222 && wanted.len() == 2, "{wanted:?}");
}

#[test]
fn the_older_gateway_keeps_a_port_that_two_services_have() {
    let mut world = World::new();
    world.gateway(gateway("a-young").created(2), &[80]);
    world.gateway(gateway("b-old").created(1), &[80]);
    world.apply(gateway_service("a-young", &[(80, 12_345)]));
    world.apply(gateway_service("b-old", &[(80, 12_345)]));
    let plan = world.plan();
    assert_eq!(target(&plan, "b-old-lockgate"), 12_345);
    assert_ne!(target(&plan, "a-young-lockgate"), 12_345);
    assert_eq!(world.plan(), plan, "two leaders decide the same");
}

#[test]
fn written_ports_are_in_use_before_the_watch_delivers_them() {
    let mut world = World::new();
    world.gateway(gateway("public").created(2), &[80]);
    let chosen = target(&world.plan(), "public-lockgate");
    // An older Gateway has just got this port.
    world.recent.insert(key("other-lockgate"), vec![(TCP, 80, chosen)]);
    assert_ne!(target(&world.plan(), "public-lockgate"), chosen);
    // The Gateway itself keeps what was written.
    world.recent.insert(key("public-lockgate"), vec![(TCP, 80, 22_222)]);
    assert_eq!(target(&world.plan(), "public-lockgate"), 22_222);
}

#[test]
fn a_service_of_another_owner_is_never_touched() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80]);
    world.apply(service("public-lockgate").port("http", 80));
    let plan = world.plan();
    assert!(plan.wanted.is_empty() && plan.obsolete.is_empty());
    assert_eq!(faults(&plan), [("shop/public".to_owned(), "Invalid")]);
    assert!(plan.faults[&key("public")].message.contains("\"shop/public-lockgate\""));
    // A Gateway with another name, whose Service has the same one.
    let mut world = World::new();
    world.apply(gateway_class("b-c"));
    world.gateway(gateway("a-b").class("c"), &[80]);
    world.gateway(gateway("a").class("b-c"), &[80]);
    let plan = world.plan();
    assert_eq!((plan.wanted.len(), faults(&plan)), (1, vec![("shop/a-b".to_owned(), "Invalid")]));
}

/// Adds Gateways whose Services have these ports of the Envoys.
fn use_up(world: &mut World, targets: impl Iterator<Item = u16>) {
    let all: Vec<(u16, u16)> = targets.map(|target| (target, target)).collect();
    for (index, ports) in all.chunks(PORTS).enumerate() {
        world.apply(gateway(&format!("other-{index}")).created(1));
        world.apply(gateway_service(&format!("other-{index}"), ports));
    }
}

#[test]
fn a_gateway_without_a_service_has_a_fault_and_affects_no_other() {
    let mut world = World::new();
    let long = "g".repeat(64);
    world.gateway(gateway(&long), &[80]);
    world.gateway(gateway("public"), &[80]);
    let plan = world.plan();
    assert_eq!((plan.wanted.len(), faults(&plan)), (1, vec![(format!("shop/{long}"), "Invalid")]));
    // All ports are in use.
    let mut world = World::new();
    world.gateway(gateway("old").created(1), &[10_000]);
    world.apply(gateway_service("old", &[(10_000, 10_000)]));
    use_up(&mut world, RANGE.skip(1));
    world.gateway(gateway("new").created(2), &[80]);
    let plan = world.plan();
    assert_eq!((target(&plan, "old-lockgate"), faults(&plan)), (10_000, vec![("shop/new".to_owned(), "NoResources")]));
    assert!(service_of(&plan, "new-lockgate").is_none());
}

#[test]
fn a_listener_set_without_a_port_does_not_delay_its_gateway() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80]);
    let mut report = GatewayReport::clone(&world.inspection.gateways[&key("public")]);
    report.ports.push((TCP, 8080));
    report.sets.insert(key("extra"), SetReport { accepted: true, listeners: vec![listener(8080)] });
    world.inspection.gateways.insert(key("public"), Arc::new(report));
    let plan = world.plan();
    assert_eq!((ports(&plan, "public-lockgate"), faults(&plan)), (vec![80, 8080], vec![]));
    // All other ports are in use.
    use_up(&mut world, RANGE.skip(1));
    let plan = world.plan();
    assert_eq!((ports(&plan, "public-lockgate"), faults(&plan)), (vec![80], vec![]));
}

#[test]
fn without_the_service_of_the_envoys_nothing_is_written_or_deleted() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80]);
    world.apply(gateway_service("public", &[(443, 12_345)]));
    let plan = plan(&world.inspection, &WriterSettings::new(&Settings::default()), &Outside::default());
    assert!(plan.wanted.is_empty() && plan.obsolete.is_empty());
    assert!(plan.faults[&key("public")].message.contains("`status.envoyService`"));
}

#[test]
fn a_gateway_without_a_valid_listener_keeps_its_service() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[]);
    assert_eq!(world.plan().wanted.len(), 0);
    world.apply(gateway_service("public", &[(80, 12_345)]));
    let plan = world.plan();
    assert!(plan.wanted.is_empty() && plan.obsolete.is_empty() && plan.faults.is_empty());
    // Its ports stay in use.
    world.gateway(gateway("other"), &[80]);
    assert_ne!(target(&world.plan(), "other-lockgate"), 12_345);
}

#[test]
fn the_service_of_a_former_class_is_deleted() {
    let service_id = |name: &str| Kind::SERVICE.id(key(name));
    // The class is another one of ours.
    let mut world = World::new();
    world.apply(gateway_class("internal"));
    world.gateway(gateway("public").class("internal"), &[80]);
    world.apply(gateway_service("public", &[(80, 12_345)]));
    let plan = world.plan();
    assert!(service_of(&plan, "public-internal").is_some());
    assert_eq!(plan.obsolete, [service_id("public-lockgate")].into());
    // The class is one of another controller.
    let mut world = World::new();
    world.apply(gateway_class("other").controller("example.com/other"));
    world.apply(gateway("public").class("other"));
    world.apply(gateway_service("public", &[(80, 12_345)]));
    assert_eq!(world.plan().obsolete, [service_id("public-lockgate")].into());
    // A Gateway that another installation of Lockgate serves.
    let mut world = World::new();
    world.apply(gateway_class("other").controller("example.com/other"));
    world.apply(gateway("a").class("other"));
    let theirs = gateway_service("a", &[(80, 12_345)]);
    world.apply(theirs.with::<Observed>(|service| service.meta.key.name = "a-other".into()));
    assert!(world.plan().obsolete.is_empty());
    // A Gateway that is gone: the Kubernetes cluster deletes its Service.
    let mut world = World::new();
    world.apply(gateway_service("public", &[(80, 12_345)]));
    assert!(world.plan().obsolete.is_empty());
}

#[test]
fn unneeded_endpoint_slices_are_deleted_unless_they_are_foreign() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80]);
    world.apply(gateway_service("public", &[(80, 12_345)]));
    for name in ["public-lockgate-ipv4", "public-lockgate-ipv4-1", "public-lockgate-ipv6", "by-hand"] {
        world.apply(slice(name, "public-lockgate"));
    }
    let obsolete: Vec<String> = world.plan().obsolete.iter().map(|id| id.key.name.to_string()).collect();
    assert_eq!(obsolete, ["public-lockgate-ipv4-1", "public-lockgate-ipv6"]);
    // Many Envoys.
    let many = (0..1500)
        .fold(slice("infra/envoy-a", "envoy"), |slice, i| slice.ready(&format!("10.0.{}.{}", i / 250, i % 250)));
    world.apply(many);
    let plan = world.plan();
    let lengths: Vec<usize> = slices(&plan).iter().map(|slice| slice.endpoints.len()).collect();
    assert_eq!(lengths, [1000, 500]);
}

#[test]
fn only_relevant_changes_lead_to_a_new_plan() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80]);
    world.apply(gateway_service("public", &[(80, 12_345)]));
    let plan = world.plan();
    let concerns = |change: &dyn Fn(&mut World)| {
        let mut now = World { inspection: world.inspection.clone(), recent: BTreeMap::new() };
        change(&mut now);
        super::concerns(&world.inspection, &now.inspection, &chosen(), &plan)
    };
    assert!(!concerns(&|_| {}));
    assert!(!concerns(&|world| world.apply(service("cart").port("http", 80))));
    assert!(!concerns(&|world| world.apply(slice("cart-a", "cart").ready("10.0.0.9"))));
    assert!(concerns(&|world| world.apply(slice("infra/envoy-b", "envoy").ready("10.0.0.9"))));
    assert!(concerns(&|world| world.apply(slice("public-lockgate-ipv4", "public-lockgate"))));
    assert!(concerns(&|world| world.apply(gateway_service("public", &[(80, 13_333)]))));
    assert!(concerns(&|world| world.apply(gateway_service("stale", &[(80, 13_333)]))));
    assert!(concerns(&|world| world.apply(gateway("public").created(7))));
    assert!(concerns(&|world| world.apply(gateway_class("other"))));
    assert!(concerns(&|world| world.gateway(gateway("public"), &[81])));
    // The Service of another owner, in the way of a Gateway.
    assert!(concerns(&|world| {
        world.inspection.objects.delete(Kind::SERVICE, &key("public-lockgate"));
    }));
}

#[test]
fn services_without_a_gateway_reserve_no_ports() {
    let mut world = World::new();
    let all: Vec<u16> = RANGE.collect();
    for (index, targets) in all.chunks(250).enumerate() {
        let ports: Vec<(u16, u16)> = (1..).zip(targets.iter().copied()).collect();
        world.apply(gateway_service(&format!("evil/gone-{index}"), &ports));
    }
    world.gateway(gateway("public"), &[80]);
    let plan = world.plan();
    assert!(plan.faults.is_empty(), "{:?}", faults(&plan));
    assert_eq!(ports(&plan, "public-lockgate"), [80]);
}

#[test]
fn a_service_with_many_ports_reserves_few_of_them() {
    let mut world = World::new();
    let all: Vec<u16> = RANGE.collect();
    for (index, targets) in all.chunks(5000).enumerate() {
        let ports: Vec<(u16, u16)> = (1..).zip(targets.iter().copied()).collect();
        world.gateway(gateway(&format!("evil/g{index}")), &[80]);
        world.apply(gateway_service(&format!("evil/g{index}"), &ports));
    }
    world.gateway(gateway("public"), &[80]);
    let plan = world.plan();
    assert!(plan.faults.is_empty(), "{:?}", faults(&plan));
    assert_eq!(ports(&plan, "public-lockgate"), [80]);
}

#[test]
fn endpoint_slices_of_other_namespaces_are_no_envoys() {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80]);
    world.apply(gateway_service("public", &[(80, 12_345)]));
    world.apply(slice("evil/envoy-b", "envoy").ready("10.0.0.66"));
    world.apply(slice("public-lockgate-by-hand", "public-lockgate").ready("10.0.0.66"));
    let plan = world.plan();
    let endpoints = slices(&plan).into_iter().flat_map(|slice| slice.endpoints.iter());
    assert_eq!(endpoints.map(|endpoint| &*endpoint.address).collect::<Vec<_>>(), ["10.0.0.1", "10.0.0.2"]);
}

/// Adds a fleet to the Gateway `shop/public`.
fn with_fleet(world: &mut World, refused: Option<&str>) {
    let key = key("public");
    let report = world.inspection.gateways.get(&key).map(|report| GatewayReport::clone(report)).unwrap();
    let fleet = Some(FleetReport { spec: Arc::default(), refused: refused.map(str::to_owned) });
    world.inspection.gateways.insert(key, Arc::new(GatewayReport { fleet, ..report }));
}

/// Returns the addresses of the Envoys behind all Gateways.
fn addresses(plan: &Needs) -> Vec<String> {
    slices(plan).iter().flat_map(|slice| slice.endpoints.iter().map(|one| one.address.to_string())).collect()
}

/// The Service of the Gateway `shop/public`, which has left the shared Envoys if `is_dedicated` is true.
fn public_service(is_dedicated: bool) -> Object {
    gateway_service("public", &[(80, 10_000)]).with::<Observed>(|service| {
        service.gateway.iter_mut().for_each(|gateway| gateway.is_dedicated = is_dedicated);
    })
}

/// A world with the Gateway `shop/public` with a fleet, the template, and the Service with the Envoys of the fleet.
fn world_with_fleet() -> (World, Template, ObjectKey) {
    let mut world = World::new();
    world.gateway(gateway("public"), &[80]);
    with_fleet(&mut world, None);
    let template = crate::status::fleets::template::tests::template();
    let meta = world.inspection.objects.get::<Gateway>(&key("public")).unwrap().meta.clone();
    let envoys = template.key(&meta);
    (world, template, envoys)
}

#[test]
fn the_service_of_a_new_gateway_with_a_fleet_leads_to_its_dedicated_envoys() {
    let (mut world, template, envoys) = world_with_fleet();
    let plan_with =
        |world: &World, template| plan(&world.inspection, &chosen(), &Outside { template, ..Outside::default() });
    let label = |plan: &Needs| service_of(plan, "public-lockgate").unwrap().dedicated.clone();
    let first = plan_with(&world, Some(&template));
    assert_eq!(label(&first), Some(envoys.name.clone()), "the shared Envoys never serve it");
    world.apply(public_service(true));
    let before = plan_with(&world, Some(&template));
    assert!(addresses(&before).is_empty() && before.faults.is_empty(), "its Envoys do not exist yet");
    let earlier = world.inspection.clone();
    world.apply(slice(&format!("{}/a", envoys.namespace), &envoys.name).ready("10.0.0.9"));
    assert!(concerns(&earlier, &world.inspection, &chosen(), &before));
    assert_eq!(addresses(&plan_with(&world, Some(&template))), ["10.0.0.9"]);

    // Nobody creates Envoys for it, or a limit is reached.
    let fault = |plan: &Needs| plan.faults.get(&key("public")).map(|fault| fault.message.clone()).unwrap();
    assert!(fault(&plan_with(&world, None)).contains("gatewayAPI.dedicatedFleets.enabled"));
    with_fleet(&mut world, Some("the limit of dedicated fleets is 2"));
    world.apply(public_service(false));
    let refused = plan_with(&world, Some(&template));
    assert!(addresses(&refused).is_empty());
    assert!(fault(&refused).contains("the limit of dedicated fleets is 2"));
    assert_eq!(
        label(&refused).as_deref(),
        Some(NOBODY),
        "a fleet that it gets later does not move from the shared Envoys"
    );
}

#[test]
fn a_gateway_stays_on_the_shared_envoys_until_its_fleet_is_ready() {
    let (mut world, template, envoys) = world_with_fleet();
    world.apply(public_service(false));
    let public = BTreeSet::from([key("public")]);
    let plan_with = |world: &World, accepted: &BTreeSet<ObjectKey>, released: &BTreeSet<ObjectKey>| {
        let (accepted, released) = (accepted.clone(), released.clone());
        plan(
            &world.inspection,
            &chosen(),
            &Outside { template: Some(&template), accepted, released, ..Outside::default() },
        )
    };
    let label = |plan: &Needs| service_of(plan, "public-lockgate").unwrap().dedicated.clone();
    let none = BTreeSet::new();
    let shared = ["10.0.0.1", "10.0.0.2"];
    let check = |plan: &Needs, addresses_of: &[&str], moving: bool, led: bool| {
        assert_eq!(addresses(plan), addresses_of);
        assert_eq!((plan.moving.contains(&key("public")), plan.led.contains(&key("public"))), (moving, led));
        assert_eq!(label(plan), None);
    };
    check(&plan_with(&world, &none, &none), &shared, true, false);
    check(&plan_with(&world, &public, &none), &shared, true, false);
    let of_fleet =
        |ready| slice(&format!("{}/a", envoys.namespace), &envoys.name).endpoint("10.0.0.9", [ready, true, false]);
    world.apply(of_fleet(false));
    check(&plan_with(&world, &public, &none), &shared, true, false);
    world.apply(of_fleet(true));
    check(&plan_with(&world, &none, &none), &shared, true, false);
    check(&plan_with(&world, &public, &public), &["10.0.0.9"], false, false);
    // The EndpointSlice of the Gateway is written. Another leader does not need the answers of the Envoys again.
    world.apply(slice("shop/public-lockgate-ipv4", "public-lockgate").ready("10.0.0.9"));
    check(&plan_with(&world, &none, &none), &["10.0.0.9"], false, true);
    let last = plan_with(&world, &none, &public);
    assert_eq!((addresses(&last), label(&last)), (vec!["10.0.0.9".to_owned()], Some(envoys.name.clone())));
    let draining = |plan: &Needs| service_of(plan, "public-lockgate").unwrap().draining;
    assert!(draining(&last), "the shared Envoys have open connections");
    world.apply(public_service(true).with::<Observed>(|service| {
        service.gateway.iter_mut().for_each(|gateway| gateway.is_draining = true);
    }));
    let waits = plan_with(&world, &none, &none);
    assert!(draining(&waits) && waits.draining.contains(&key("public")) && label(&waits).is_some());
    let outside = Outside { template: Some(&template), drained: public.clone(), ..Outside::default() };
    let drained = plan(&world.inspection, &chosen(), &outside);
    assert!(!draining(&drained) && label(&drained).is_some());
    world.apply(public_service(true));
    world.apply(of_fleet(false));
    let dedicated = plan_with(&world, &none, &none);
    assert_eq!(
        (addresses(&dedicated), label(&dedicated)),
        (vec!["10.0.0.9".to_owned()], Some(envoys.name)),
        "there is no way back"
    );
}
