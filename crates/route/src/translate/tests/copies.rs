//! Objects whose routes are copied for many hosts and listeners, and the limit of the configuration of each namespace.

use super::gateway::{conditions, report, translated, world_of};
use crate::model::Traffic;
use crate::objects::gateway::{GatewayListener, ParentRef};
use crate::objects::{Kind, Object, ObjectKey, Objects};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Input, Translator};

/// Returns the Gateway `public` with this number of ports, and its Service.
fn public(ports: u16) -> [Object; 2] {
    let listeners = (0..ports).fold(gateway("public"), |gateway, at| {
        gateway.listener(&format!("l{at}"), 1000 + at, "HTTP").routes_from("All")
    });
    let ports: Vec<(u16, u16)> = (0..ports).map(|at| (1000 + at, 10_000 + at)).collect();
    [listeners.into(), gateway_service("public", &ports)]
}

/// Returns a route with this number of hosts, in rules of 8 matches.
fn wide(name: &str, created: i64, hosts: usize, matches: usize) -> HttpRouteBuilder {
    let route = http_route(name).created(created).parent("shop/public");
    let route = (0..hosts).fold(route, |route, at| route.host(&format!("h{at}.{}.test", name.replace('/', "-"))));
    (0..matches).fold(route, |route, at| match at % 8 {
        0 => route.rule(&format!("/{at}"), "a:80"),
        _ => route.path("PathPrefix", &format!("/{at}")),
    })
}

/// Returns the number of routes on all listeners of Gateways, as Envoy has them.
fn routes(translator: &Translator) -> usize {
    let of = |traffic: &Traffic| match traffic {
        Traffic::Http(plain) => plain.hosts.values().map(|host| host.routes.len()).sum(),
        _ => 0,
    };
    let listeners = translator.model().listeners.iter().filter(|(id, _)| id.as_str().starts_with("gateway"));
    listeners.map(|(_, listener)| of(&listener.traffic)).sum()
}

fn with_limit(limit: u64, objects: &Objects) -> Translator {
    let (mut translator, mut settings) = (Translator::default(), Settings::default());
    settings.tenants.max_configuration_per_namespace = limit;
    translator.update(objects, &settings, &ChangedInputs::everything());
    translator
}

/// The attack: the limits of the API for one HTTPRoute and one Gateway.
#[test]
fn a_small_route_with_many_copies_is_left_out() {
    let other: Object = wide("other/small", 9, 1, 1).into();
    let attack: Object = wide("attack", 1, 16, 128).into();
    let service: Object = service("other/a").port("http", 80).into();
    let translator = translated(&world_of(public(64).into_iter().chain([service, other, attack])));
    // 16 hosts * 128 matches * 64 ports = 131,072 routes.
    let patterns = 64;
    assert_eq!(routes(&translator), 64 + patterns, "the route of the other namespace, and 404 of each listener");
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert!(
        problems[0].starts_with("HTTPRoute shop/attack: spec: the configuration of this route takes")
            && problems[0].contains(" on 1024 hosts"),
        "{problems:?}"
    );
    let end = "; route left out, and the other routes of the namespace for its hosts are closed";
    assert!(problems[0].ends_with(end), "{problems:?}");
    let attached: Vec<u32> = report(&translator).listeners.iter().map(|one| one.attached_routes).collect();
    assert_eq!(attached, [1; 64], "a route that is left out is not attached");
    let conditions = conditions(&translator, Kind::HTTP_ROUTE, "attack");
    assert!(conditions.contains(&"0: Accepted=False RouteTooExpensive".to_owned()), "{conditions:?}");
}

/// The owner of a Gateway multiplies the copies of the routes of another namespace. Only routes on its own listeners are affected.
#[test]
fn the_listeners_of_a_gateway_do_not_take_the_memory_of_routes_elsewhere() {
    let attacking = |ports: u16| {
        let start = gateway("infra/wide").listener("l0", 1000, "HTTP").routes_from("All");
        let gateway = (1..ports)
            .fold(start, |gateway, at| gateway.listener(&format!("l{at}"), 1000 + at, "HTTP").routes_from("All"));
        let ports: Vec<(u16, u16)> = (0..ports).map(|at| (1000 + at, 20_000 + at)).collect();
        [Object::from(gateway), gateway_service("infra/wide", &ports)]
    };
    let both = wide("both", 1, 4, 8).parent("infra/wide");
    let young = wide("young", 2, 4, 8);
    let world = |ports: u16| {
        let routes = [both.clone(), young.clone()].map(Object::from);
        with_limit(30 << 10, &world_of(public(1).into_iter().chain(attacking(ports)).chain(routes)))
    };
    // On each listener, a route takes 6 KB. Both owners have an equal share, unless one needs less.
    assert!(world(1).problems().is_empty());
    let attacked = world(64);
    let problems: Vec<String> = attacked.problems().iter().map(ToString::to_string).collect();
    let expected = " KiB on 256 hosts of Gateways in namespace \"infra\", and older routes of the namespace take 0 KiB of the 17 KiB \
                    that tenants.maxConfigurationPerNamespace leaves for these listeners; route left out, and the other routes of the \
                    namespace for its hosts are closed";
    assert!(problems.len() == 1 && problems[0].ends_with(expected), "{problems:?}");
    let conditions = conditions(&attacked, Kind::HTTP_ROUTE, "both");
    let accepted = ["0: Accepted=True Accepted", "1: Accepted=False RouteTooExpensive"].map(str::to_owned);
    assert!(accepted.iter().all(|one| conditions.contains(one)), "{conditions:?}");
    assert_eq!(routes(&attacked), 2 * 4 * 8 + 1 + 64, "both routes on the other Gateway, and 404 of each listener");
}

/// Two references with and without the namespace are two parents.
#[test]
fn a_route_that_is_left_out_is_accepted_by_no_parent_of_the_owner() {
    let attack =
        (0..128).fold(wide("attack", 1, 16, 0).parent("public"), |route, at| route.rule(&format!("/{at}"), "a:80"));
    let translator = translated(&world_of(public(64).into_iter().chain([attack.into()])));
    let conditions = conditions(&translator, Kind::HTTP_ROUTE, "attack");
    let refused = ["0: Accepted=False RouteTooExpensive", "1: Accepted=False RouteTooExpensive"].map(str::to_owned);
    assert!(refused.iter().all(|one| conditions.contains(one)), "{conditions:?}");
}

#[test]
fn backends_that_are_repeated_for_each_match_count_on_the_first_host() {
    let services = (0..16).map(|at| service(&format!("s{at}")).port("http", 80).into());
    let rule = |matches: u32| {
        let start = http_route("r").parent("shop/public").host("x.test").rule("/0", "s0:80");
        let route = (1..16).fold(start, |route, at| route.backend(&format!("s{at}:80")));
        (1..matches).fold(route, |route, at| route.path("PathPrefix", &format!("/{at}")))
    };
    let world = |matches: u32| {
        let objects = public(1).into_iter().chain(services.clone()).chain([Object::from(rule(matches))]);
        with_limit(20 << 10, &world_of(objects)).problems().len()
    };
    // A match takes 400 bytes.
    assert_eq!((world(64), world(32)), (1, 0));
}

#[test]
fn thousands_of_ordinary_routes_of_a_namespace_are_served() {
    let routes = (0..2000).map(|at| wide(&format!("r{at}"), at, 2, 4).into());
    let translator = translated(&world_of(public(2).into_iter().chain(routes)));
    assert_eq!(super::copies::routes(&translator), 2000 * 2 * 4 * 2 + 2);
    assert!(translator.problems().is_empty());
}

#[test]
fn a_route_of_16_hosts_on_3_listeners_is_served() {
    let translator = translated(&world_of(public(3).into_iter().chain([wide("r", 1, 16, 64).into()])));
    assert_eq!((routes(&translator), translator.problems().len()), (16 * 64 * 3 + 3, 0));
}

#[test]
fn older_routes_come_first() {
    let list = [wide("old", 1, 8, 8), wide("young", 2, 2, 8), wide("small", 3, 1, 8)].map(Object::from);
    let objects = world_of(public(1).into_iter().chain(list));
    // A host with 8 matches takes 1.8 KiB.
    let translator = with_limit(16 << 10, &objects);
    let problems: Vec<String> = translator.problems().iter().map(ToString::to_string).collect();
    assert!(problems.len() == 1 && problems[0].starts_with("HTTPRoute shop/young: spec: "), "{problems:?}");
    assert!(problems[0].ends_with("its requests are answered 503"), "{problems:?}");
    assert_eq!(routes(&translator), 8 * 8 + 2 * 8 + 8 + 1, "the matches of the closed route stay");
}

#[test]
fn long_texts_and_regular_expressions_count() {
    let fits = |route: HttpRouteBuilder| {
        let objects = world_of(public(8).into_iter().chain([Object::from(route)]));
        with_limit(84 << 10, &objects).problems().is_empty()
    };
    assert!(fits(wide("a", 1, 4, 4)));
    let long = |name: &str| wide(name, 1, 4, 0).rule("/", "a:80").header("x-long", &"v".repeat(4096));
    assert!(!fits((0..4).fold(long("a"), |route, at| route.header(&format!("x-{at}"), &"v".repeat(4096)))));
    let path = |kind: &str| wide("a", 1, 15, 0).rule("/", "a:80").path(kind, "/(ab|cd|ef)[0-9a-f]{50}/");
    assert!(fits(path("Exact")) && !fits(path("RegularExpression")));
}

#[test]
fn a_route_has_a_limited_number_of_hosts_on_listeners() {
    let gateways = (0..8u16).flat_map(|gateway_at| {
        let name = format!("g{gateway_at}");
        let listeners =
            (0..64).fold(gateway(&name), |gateway, at| gateway.listener(&format!("l{at}"), 1000 + at, "HTTP"));
        let ports: Vec<(u16, u16)> = (0..64).map(|at| (1000 + at, 10_000 + 64 * gateway_at + at)).collect();
        [listeners.into(), gateway_service(&name, &ports)]
    });
    let route = (0..8).fold(http_route("wide"), |route, at| route.parent(&format!("g{at}")));
    let route = (0..16).fold(route, |route, at| route.host(&format!("h{at}.test"))).rule("/", "a:80");
    let translator = translated(&world_of(gateways.chain([Object::from(route)])));
    let conditions = conditions(&translator, Kind::HTTP_ROUTE, "wide");
    let refused = (4..8).map(|at| format!("{at}: Accepted=False UnsupportedValue"));
    assert!(refused.into_iter().all(|one| conditions.contains(&one)), "{conditions:?}");
    assert!(conditions.contains(&"3: Accepted=True Accepted".to_owned()), "{conditions:?}");
    assert_eq!(routes(&translator), 4096 + 8 * 64);
}

/// A route that is left out has no hosts, so a Gateway with many of them costs little.
#[test]
fn routes_that_are_left_out_do_not_disturb_changes_of_others() {
    let attacks = (0..20).map(|at| wide(&format!("attack-{at}"), at, 16, 128).into());
    let route = |path: &str| -> Object {
        http_route("other/one").parent("shop/public").host("one.test").rule(path, "a:80").into()
    };
    let service: Object = service("other/a").port("http", 80).into();
    let mut objects = world_of(public(64).into_iter().chain(attacks).chain([service, route("/")]));
    let mut translator = translated(&objects);
    for at in 0..10 {
        objects.apply(route(&format!("/{at}")));
        let mut changed = ChangedInputs::default();
        changed.insert(Input::new(Kind::HTTP_ROUTE, ObjectKey::new("other", "one")));
        translator.update(&objects, &Settings::default(), &changed);
    }
    assert_eq!(routes(&translator), 64 + 64);
}

#[test]
fn many_tls_entries_without_hosts_do_not_multiply_with_the_hosts() {
    let hosts = ingress("i").host("x.test").path("Prefix", "/", "a:80");
    let missing = (0..300).fold(hosts, |ingress, at| ingress.tls(&[], &format!("missing-{at}")));
    let problems = world().with((0..300).fold(missing, |ingress, _| ingress.tls(&[], "missing-0"))).problems();
    let left_out = "Ingress shop/i: spec.tls: more than 100 entries list no hosts; 200 of them left out";
    assert!(problems.iter().any(|problem| problem == left_out), "{problems:?}");
}

/// Each host has a problem for each entry that applies to it, so the problems would multiply with the hosts.
#[test]
fn of_the_entries_without_hosts_and_key_pair_only_the_first_applies() {
    let ingress = ingress("i").host("x.test").path("Prefix", "/", "a:80").host("y.test").path("Prefix", "/", "a:80");
    let problems = world().with(ingress.tls(&[], "one").tls(&[], "two")).problems();
    let missing = |at: usize, name: &str, consequence: &str| {
        format!(
            "Ingress shop/i: spec.tls[{at}].secretName: Secret \"shop/{name}\" does not exist, has neither \"tls.crt\" nor \"tls.key\", or is neither of type \
             \"kubernetes.io/tls\" nor \"Opaque\"; {consequence}"
        )
    };
    let expected = [missing(0, "one", "no TLS for \"x.test\", \"y.test\""), missing(1, "two", "left out")];
    assert_eq!(problems, expected);
}

#[test]
fn an_entry_without_hosts_applies_beside_a_hundred_secrets_of_other_hosts() {
    let start = ingress("i").host("x.test").path("Prefix", "/", "a:80");
    let listed = (0..150).fold(start, |ingress, at| ingress.tls(&[&format!("h{at}.test")], &format!("s{at}")));
    let all = (0..150).fold(world().with(listed.tls(&[], "cert")), |world, at| {
        world.with(secret(&format!("s{at}"), &[&format!("h{at}.test")]))
    });
    let world = all.with(secret("cert", &["x.test"]));
    assert!(world.chains().contains(&"x.test shop/cert".to_owned()), "{:?}", world.chains());
    let surplus = "Ingress shop/i: spec.tls: more than 100 Secrets; the last 51 of them do not apply to hosts that their entries do \
                   not list";
    assert!(world.problems().iter().any(|problem| problem == surplus), "{:?}", world.problems());
}

#[test]
fn a_hidden_listener_of_a_route_without_a_host_counts() {
    // A parent that is named by section, so that each reference adds one listener.
    let route = (0..64).fold(wide("r", 1, 0, 1), |route, at| {
        route.spec(|spec| {
            let section_name = Some(format!("l{at}"));
            spec.parent_refs.push(ParentRef { section_name, name: "public".to_owned(), ..ParentRef::default() });
        })
    });
    let named = |listener: &mut GatewayListener| listener.hostname = Some("x.test".to_owned());
    let [gateway, service] = public(64);
    let gateway = gateway.with(|gateway: &mut crate::objects::gateway::Gateway| {
        gateway.spec.listeners.iter_mut().for_each(named);
    });
    let translator = with_limit(4 << 10, &world_of([gateway, service, route.into()]));
    assert_eq!(translator.problems().len(), 1);
}
