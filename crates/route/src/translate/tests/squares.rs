//! Objects of tenants whose square or product would take minutes. These tests have no time limit: they end soon, or hardly ever.

use crate::model::Host;
use crate::objects::Object;
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::problem::MOST;

/// Returns `count` hosts below `*.x.test`.
fn below(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|at| format!("h{at}.x.test"))
}

/// Returns an Ingress with a TLS entry for each of `count` hosts below `*.x.test`, and their Secret.
fn entries(count: usize) -> [Object; 2] {
    let hosts: Vec<String> = below(count).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let start = ingress("names").created(9);
    let all = hosts.iter().fold(start, |ingress, host| ingress.tls(&[host], "cert"));
    [all.into(), secret("cert", &hosts).into()]
}

/// Every problem is found by itself, and counts in the summary of the object.
#[test]
fn the_problems_of_many_tls_entries_are_counted() {
    let all = below(40_000).fold(ingress("i"), |ingress, host| ingress.tls(&[&host], "missing"));
    let problems = world().with(all).problems();
    assert_eq!(problems.len(), MOST + 1, "{problems:?}");
    assert!(problems[MOST].contains("39980 more problems"), "{}", problems[MOST]);
}

#[test]
fn many_tls_entries_can_name_one_host() {
    let all = (0..40_000).fold(ingress("i"), |ingress, _| ingress.tls(&["a.test"], "cert"));
    let world = world().with(all).with(secret("cert", &["a.test"]));
    assert_eq!((world.chains().len(), world.problems().len()), (1, 0));
}

#[test]
fn many_hosts_are_below_a_wildcard_with_many_delegates() {
    let mut world = world();
    for of in 0..50 {
        let list: Vec<String> = (0..1000).map(|at| format!("n{of}-{at}")).collect();
        let wild = ingress(&format!("wild-{of}")).annotation("lockgate.dev/delegate-to", &list.join(","));
        world = world.with(wild.host("*.x.test").path("Exact", &format!("/{of}"), "a:80"));
    }
    let delegate = ingress("n49-999/d").created(9).host("h0.x.test").path("Prefix", "/", "a:80");
    let stranger = ingress("other/s").created(9).host("h1.x.test").path("Prefix", "/", "a:80");
    let start = ingress("names").created(9);
    let named = below(30_000).fold(start, |ingress, host| ingress.host(&host).path("Exact", "/x", "a:80"));
    let world = world.with(named).with(delegate).with(stranger).with(service("n49-999/a").port("http", 80));
    let world = world.with(service("other/a").port("http", 80));
    let translation = world.translate();
    let routes = |host: &str| translation.model.http()[&Host::Exact(host.into())].routes.len();
    assert_eq!((routes("h0.x.test"), routes("h1.x.test")), (2, 1));
    let problems: Vec<String> = translation.problems.iter().map(|problem| problem.to_string()).collect();
    assert_eq!(problems.len(), 1, "{problems:?}");
}

#[test]
fn many_hosts_leave_out_many_rules() {
    let mut world = world();
    world.settings.tenants.max_configuration_per_namespace = 6 << 18;
    let owner = ingress("wild").created(1).annotation("lockgate.dev/delegate-to", "other");
    let start = ingress("other/many").created(2).host("*.x.test");
    let delegate = (0..5000).fold(start, |ingress, at| ingress.path("Exact", &format!("/{at}"), "a:80"));
    world = world.with(owner.host("*.x.test").path("Exact", "/own", "a:80")).with(delegate);
    world = world.with(service("other/a").port("http", 80));
    world.objects.extend(entries(5000));
    let model = world.model();
    let hosts = model.https().values().flat_map(|tls| tls.virtual_hosts.values());
    let mut routes: Vec<usize> = hosts.map(|host| host.routes.len()).collect();
    routes.sort_unstable();
    assert_eq!((routes.len(), routes[4998], routes[4999]), (5000, 2, 5001), "503 instead of the rules of the delegate");
}
