//! Hosts of Ingresses with copies of the rules of other hosts, and the limit of these copies.

use crate::model::Host;
use crate::objects::Object;
use crate::testing::model::Shared as _;
use crate::testing::objects::*;

/// Returns an Ingress with paths `/0`, `/1`, ... of `host`.
fn wide(name: &str, host: &str, paths: usize) -> IngressBuilder {
    (0..paths).fold(ingress(name).created(1).host(host), |ingress, at| ingress.path("Exact", &format!("/{at}"), "a:80"))
}

/// Returns an Ingress with a TLS entry for each of these hosts, and their Secret `cert-NAME`.
fn entries(name: &str, created: i64, hosts: &[String]) -> [Object; 2] {
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let secret_name = format!("cert-{name}");
    let start = ingress(name).created(created);
    let all = hosts.iter().fold(start, |ingress, host| ingress.tls(&[host], &secret_name));
    [all.into(), secret(&secret_name, &hosts).into()]
}

fn below(wildcard: &str, count: usize) -> Vec<String> {
    (0..count).map(|at| format!("h{at}.{wildcard}")).collect()
}

/// Returns the world with a limit in KiB. A copy of a path takes a little more than 2 KiB.
fn limited(kib: u64) -> World {
    let mut world = world().with(service("other/a").port("http", 80));
    world.settings.routes.max_copy_memory_per_namespace = kib << 10;
    world
}

#[test]
fn hosts_that_only_tls_entries_name_copy_rules_up_to_a_limit() {
    let [wildcard, certificate] = entries("wide", 1, &["*.x.test".to_owned()]);
    let rules = wide("wide", "*.x.test", 10).tls(&["*.x.test"], "cert-wide");
    let mut world = limited(90).with(wildcard).with(certificate).with(rules);
    world.objects.extend(entries("names", 2, &below("x.test", 9)));
    let chains = ["h0.x.test", "h1.x.test", "h2.x.test", "h3.x.test", "*.x.test shop/cert-wide"];
    let chains = chains.map(|one| if one.contains(' ') { one.to_owned() } else { format!("{one} shop/cert-names") });
    assert_eq!(world.chains(), chains);
    assert!(world.model().refused().is_empty(), "the wildcard serves the other hosts");
    let problems = world.problems();
    assert_eq!(problems.len(), 5, "{problems:?}");
    let problem = "Ingress shop/names: spec.tls[4]: \"h4.x.test\" needs a copy of the rules of \"*.x.test\", for which the other hosts \
                   of the namespace leave no memory in the limit routes.maxCopyMemoryPerNamespace; older Ingresses come first; TLS \
                   entry not used for \"h4.x.test\"";
    assert!(problems.iter().any(|one| one == problem), "{problems:?}");
}

/// A host with a rule needs no copy.
#[test]
fn hosts_with_rules_are_not_limited() {
    let hosts = below("x.test", 9);
    let ruled =
        hosts.iter().fold(ingress("i").created(2), |ingress, host| ingress.host(host).path("Exact", "/", "a:80"));
    let world = limited(1).with(wide("wide", "*.x.test", 10)).with(ruled);
    assert!(world.problems().is_empty() && hosts.iter().all(|host| world.http(host).len() == 1));
}

#[test]
fn wildcards_copy_the_rules_without_a_host_up_to_a_limit() {
    let wildcards: Vec<String> = (0..4).map(|at| format!("*.w{at}.test")).collect();
    let start = ingress("names").created(2);
    let wildcards = wildcards.iter().fold(start, |ingress, host| ingress.host(host).path("Prefix", "/", "a:80"));
    let world = limited(45).with(wide("other/wide", "", 10)).with(wildcards);
    let counts = (0..4).map(|at| world.http(&format!("*.w{at}.test")).len());
    assert_eq!(counts.collect::<Vec<_>>(), [11, 11, 1, 1]);
    let problem = "Ingress shop/names: spec.rules[2]: \"*.w2.test\" needs a copy of the rules without a host, for which the other \
                   hosts of the namespace leave no memory in the limit routes.maxCopyMemoryPerNamespace; older Ingresses come first; \
                   names of several labels below \"*.w2.test\" are answered 404";
    assert_eq!(world.problems()[0], problem);
}

/// The owner of the rules without a host adds rules, and another namespace keeps the copies of its own rules.
#[test]
fn the_rules_of_a_namespace_do_not_take_the_memory_of_others() {
    let world = |paths: usize| {
        let [names, certificate] = entries("names", 3, &below("x.test", 4));
        let world = limited(45).with(wide("wide", "*.x.test", 4)).with(names).with(certificate);
        let many = ingress("wild").created(2).host("*.y.test").path("Prefix", "/", "a:80");
        world.with(wide("other/wide", "", paths)).with(many)
    };
    let before = world(1);
    assert!(before.problems().is_empty(), "{:?}", before.problems());
    for (paths, surplus) in [(15, 1), (1000, 2)] {
        let attacked = world(paths);
        assert_eq!(attacked.chains(), before.chains(), "4 hosts with 4 paths are within the limit");
        assert_eq!((before.http("*.y.test").len(), attacked.http("*.y.test").len()), (2, 1));
        assert_eq!(attacked.problems().len(), surplus, "copies of these rules: {:?}", attacked.problems());
    }
}

/// The hosts of one namespace do not take the memory of another that uses the same rules.
#[test]
fn the_hosts_of_a_namespace_do_not_take_the_memory_of_others() {
    let named = |name: &str, created: i64, count: usize| {
        let label = name.replace('/', "-");
        let start = ingress(name).created(created);
        (0..count).fold(start, |ingress, at| ingress.host(&format!("*.w{at}.{label}.test")).path("Prefix", "/", "a:80"))
    };
    let world =
        limited(45).with(wide("other/wide", "", 10)).with(named("attack", 1, 50)).with(named("other/small", 9, 2));
    assert_eq!(world.http("*.w1.other-small.test").len(), 11);
    assert!(world.problems().iter().all(|problem| problem.starts_with("Ingress shop/attack: ")));
}

/// The attack: two objects of a few hundred kilobytes.
#[test]
fn two_objects_do_not_become_millions_of_routes() {
    let mut world = world();
    let [names, certificate] = entries("names", 2, &below("x.test", 2000));
    world.objects.extend([wide("wide", "*.x.test", 2000).into(), names, certificate]);
    let model = world.model();
    let routes: usize =
        model.https().values().flat_map(|tls| tls.virtual_hosts.values()).map(|one| one.routes.len()).sum();
    assert_eq!((routes, model.https().len()), (2000 * 32, 32));
    assert_eq!(model.http().get(&Host::Wildcard("x.test".into())).map(|host| host.routes.len()), Some(2000));
}
