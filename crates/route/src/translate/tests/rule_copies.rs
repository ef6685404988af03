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

/// The size of a copy of a path, in bytes, rounded up. A copy for a wildcard has three times the size.
const COPY: u64 = 150;

/// Returns the world with a limit that this number of copies fit into.
fn limited(copies: u64) -> World {
    let mut world = world().with(service("other/a").port("http", 80));
    world.settings.tenants.max_configuration_per_namespace = copies * COPY;
    world
}

#[test]
fn hosts_that_only_tls_entries_name_copy_rules_up_to_a_limit() {
    let [wildcard, certificate] = entries("wide", 1, &["*.x.test".to_owned()]);
    let rules = wide("wide", "*.x.test", 100).tls(&["*.x.test"], "cert-wide");
    let mut world = limited(450).with(wildcard).with(certificate).with(rules);
    world.objects.extend(entries("names", 2, &below("x.test", 9)));
    let mut chains: Vec<String> = (0..9).map(|at| format!("h{at}.x.test shop/cert-names")).collect();
    chains.push("*.x.test shop/cert-wide".to_owned());
    assert_eq!(world.chains(), chains);
    assert_eq!((world.https("h3.x.test").len(), world.https("h4.x.test")), (100, vec!["/* 503".to_owned()]));
    let problems = world.problems();
    assert_eq!(problems.len(), 5, "{problems:?}");
    let problem = "Ingress shop/names: spec.tls[4]: a copy of the rules of \"*.x.test\" of namespace \"shop\" for \"h4.x.test\" takes \
                   15 KiB of configuration, more than older Ingresses leave of the limit tenants.maxConfigurationPerNamespace; \
                   requests to \"h4.x.test\" over TLS are answered 503";
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
    let world = limited(65).with(wide("other/wide", "", 10)).with(wildcards);
    let counts = (0..4).map(|at| world.http(&format!("*.w{at}.test")).len());
    assert_eq!(counts.collect::<Vec<_>>(), [11, 11, 2, 2]);
    assert_eq!(world.http("*.w2.test")[1], "/* 503");
    let problem = "Ingress shop/names: spec.rules[2]: a copy of the rules without a host of namespace \"other\" for \"*.w2.test\" takes \
                   5 KiB of configuration, more than older Ingresses leave of the limit tenants.maxConfigurationPerNamespace; \
                   requests to names of several labels below \"*.w2.test\" are answered 503";
    assert_eq!(world.problems()[0], problem);
}

/// The owner of the rules without a host adds rules, and another namespace keeps the copies of its own rules.
#[test]
fn the_rules_of_a_namespace_do_not_take_the_memory_of_others() {
    let world = |paths: usize| {
        let [names, certificate] = entries("names", 3, &below("x.test", 4));
        let world = limited(40).with(wide("wide", "*.x.test", 4)).with(names).with(certificate);
        let many = ingress("wild").created(2).host("*.y.test").path("Prefix", "/", "a:80");
        world.with(wide("other/wide", "", paths)).with(many)
    };
    let before = world(1);
    assert!(before.problems().is_empty(), "{:?}", before.problems());
    for (paths, surplus) in [(7, 1), (1000, 2)] {
        let attacked = world(paths);
        assert_eq!(attacked.chains(), before.chains(), "4 hosts with 4 paths are within the limit");
        assert_eq!(
            (before.http("*.y.test").len(), attacked.http("*.y.test")[1..].to_vec()),
            (2, vec!["/* 503".to_owned()])
        );
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
        limited(65).with(wide("other/wide", "", 10)).with(named("attack", 1, 50)).with(named("other/small", 9, 2));
    assert_eq!(world.http("*.w1.other-small.test").len(), 11);
    assert!(world.problems().iter().all(|problem| problem.starts_with("Ingress shop/attack: ")));
}

/// The owner of a wildcard delegates it to a namespace that adds many paths. The copies of its own rules stay.
#[test]
fn the_rules_of_a_delegate_do_not_take_the_memory_of_the_owner() {
    let [names, certificate] = entries("names", 3, &below("x.test", 4));
    let owner = wide("wide", "*.x.test", 4).annotation("lockgate.dev/delegate-to", "other");
    let mut world = limited(40).with(owner).with(names).with(certificate);
    let delegate = (0..50).fold(ingress("other/many").created(9).host("*.x.test"), |ingress, at| {
        ingress.path("Exact", &format!("/other/{at}"), "a:80")
    });
    world.objects.push(delegate.into());
    assert_eq!(world.http("*.x.test").len(), 54);
    let copied = (0..4).map(|at| world.https(&format!("h{at}.x.test")).len());
    assert_eq!(copied.collect::<Vec<_>>(), [4 + 1; 4], "503 instead of the 50 paths of the delegate");
    let problems = world.problems();
    let problem = "Ingress shop/names: spec.tls[0]: a copy of the rules of \"*.x.test\" of namespace \"other\" for \"h0.x.test\" takes \
                   8 KiB of configuration, more than older Ingresses leave of the limit tenants.maxConfigurationPerNamespace; \
                   requests to \"h0.x.test\" over TLS that only these rules match are answered 503";
    assert!(problems.len() == 4 && problems[0] == problem, "{problems:?}");
}

/// The older Ingress of another delegate names the same hosts without a certificate, and uses up its own limit.
#[test]
fn entries_without_a_certificate_do_not_decide_about_the_one_that_provides_it() {
    let owner = wide("third/wide", "*.x.test", 10).annotation("lockgate.dev/delegate-to", "shop,other");
    let delegates = ["more", "other/more"]
        .map(|name| ingress(name).created(2).host("*.x.test").path("Exact", &format!("/{name}"), "a:80"));
    let all = below("x.test", 60);
    let attack = all.iter().fold(ingress("other/names").created(2), |ingress, host| ingress.tls(&[host], "missing"));
    let missing = all[..40].iter().fold(ingress("other/old").created(1), |ingress, host| ingress.tls(&[host], "cert"));
    let [names, certificate] = entries("names", 3, &all[50..54]);
    let mut world = limited(60).with(service("third/a").port("http", 80)).with(owner).with(attack).with(names);
    world = delegates.into_iter().fold(world.with(certificate), World::with);
    let others: Vec<&str> = all[..40].iter().map(String::as_str).collect();
    world = world.with(missing).with(secret("other/cert", &others));
    let chains = world.chains();
    assert_eq!(chains.iter().filter(|chain| chain.ends_with(" shop/cert-names")).count(), 4, "{chains:?}");
    assert_eq!(chains.len(), 4 + 40, "{chains:?}");
    assert_eq!((world.https("h53.x.test").len(), world.https("h39.x.test").len()), (12, 1));
}

/// The certificate and the rules of the wildcard above may be those of a delegate.
#[test]
fn a_surplus_host_is_not_left_to_the_wildcard_above() {
    let owner = wide("wide", "*.x.test", 100).annotation("lockgate.dev/delegate-to", "other");
    let delegate = ingress("other/more").created(2).host("*.x.test").path("Exact", "/other", "a:80");
    let delegate = delegate.tls(&["*.x.test"], "cert-other");
    let [names, certificate] = entries("names", 3, &below("x.test", 1));
    let world = |copies: u64| {
        let world =
            limited(copies).with(owner.clone()).with(delegate.clone()).with(names.clone()).with(certificate.clone());
        world.with(secret("other/cert-other", &["*.x.test"]))
    };
    for (copies, routes) in [(450, 101), (80, 1)] {
        let world = world(copies);
        assert_eq!(world.chains(), ["h0.x.test shop/cert-names", "*.x.test other/cert-other"]);
        assert_eq!(world.https("h0.x.test").len(), routes);
    }
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
    assert_eq!((routes, model.https().len()), (2000 * 28 + 1972, 2000), "each other host has one route");
    assert_eq!(model.http().get(&Host::Wildcard("x.test".into())).map(|host| host.routes.len()), Some(2000));
}
