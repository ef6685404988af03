//! Filter chains with copies of key pairs, and their limits.

use super::gateway::{conditions, translated, world_of};
use crate::model::{Host, Traffic};
use crate::objects::{Kind, Object, ObjectKey};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Input, Translator};

/// Returns an Ingress of wildcards `*.0.name`, `*.1.name`, ... with TLS, and its Secret.
fn wildcards(name: &str, created: i64, count: usize, chain_bytes: usize) -> [Object; 2] {
    let hosts: Vec<String> = (0..count).map(|at| format!("*.{at}.{}", name.replace('/', "."))).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let start = ingress(name).created(created).tls(&hosts, "cert");
    let secret_name = name.split_once('/').map_or("cert".to_owned(), |(namespace, _)| format!("{namespace}/cert"));
    let all = hosts.iter().fold(start, |ingress, host| ingress.host(host).path("Prefix", "/", "a:80"));
    [all.into(), secret(&secret_name, &hosts).chain_bytes(chain_bytes).into()]
}

/// A certificate for many wildcards is copied for each of them.
#[test]
fn the_chains_of_wildcards_have_a_limit_for_each_namespace() {
    let mut world = world().with(service("other/a").port("http", 80));
    // A wildcard takes 4 + 100 KiB, so 78 of them fit into 8 MiB.
    world.objects.extend(wildcards("attack", 1, 200, 100 << 10));
    world.objects.extend(wildcards("other/small", 2, 2, 4 << 10));
    assert_eq!(world.chains().len(), 78 + 2);
    let problems = world.problems();
    assert_eq!(problems.len(), 20 + 1, "the others are only counted: {problems:?}");
    let problem = "Ingress shop/attack: spec.tls: \"*.170.attack\" takes 104 KiB of configuration, more than the other \
                   wildcard hosts with TLS of the namespace leave of the limit tenants.maxConfigurationPerNamespace; older \
                   Ingresses come first; TLS connections for \"*.170.attack\" are closed, and its rules are answered 503";
    assert!(problems.iter().any(|one| one == problem), "{problems:?}");
    assert!(world.http("*.0.attack")[0].contains("308"), "{:?}", world.http("*.0.attack"));
    assert_eq!(world.http("*.99.attack"), ["/* 503"]);
    let refused = world.model().refused().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert!(refused.len() == 122 && refused.contains(&"*.99.attack".to_owned()), "{refused:?}");
}

/// An Ingress without a key pair that names the same wildcards does not count as their provider.
#[test]
fn the_provider_of_the_certificate_uses_the_memory() {
    let [provider, secret] = wildcards("z", 2, 200, 100 << 10);
    let hosts: Vec<String> = (0..200).map(|at| format!("*.{at}.z")).collect();
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    let start = ingress("a").created(1).tls(&hosts, "missing");
    let bypass = hosts.iter().fold(start, |ingress, host| ingress.host(host).path("Prefix", "/", "a:80"));
    let mut world = world().with(provider).with(secret).with(bypass);
    assert_eq!(world.chains().len(), 78);
    let reported = world.problems().into_iter().filter(|one| one.contains("maxConfigurationPerNamespace"));
    assert!(
        reported.clone().count() > 0 && reported.clone().all(|one| one.starts_with("Ingress shop/z: ")),
        "{reported:?}"
    );
    world.settings.http.http3.enabled = true;
    assert_eq!(world.chains().len(), 78 / 2, "QUIC needs another chain");
}

#[test]
fn a_removed_wildcard_leaves_its_memory_to_others() {
    let mut settings = Settings::default();
    settings.tenants.max_configuration_per_namespace = 16 << 10;
    let three = wildcards("i", 1, 3, 1 << 10);
    let mut objects = objects(&[class("ours").into(), service("a").port("http", 80).into()]);
    for object in three {
        objects.apply(object);
    }
    let mut translator = Translator::default();
    translator.update(&objects, &settings, &ChangedInputs::everything());
    let chains =
        |translator: &Translator| -> Vec<String> { translator.model().https().keys().map(Host::to_string).collect() };
    assert_eq!(chains(&translator), ["*.0.i", "*.1.i"]);
    let two = ingress("i").created(1).tls(&["*.1.i", "*.2.i"], "cert");
    objects.apply(two.host("*.1.i").path("Prefix", "/", "a:80").host("*.2.i").path("Prefix", "/", "a:80").into());
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(Kind::INGRESS, ObjectKey::new("shop", "i")));
    translator.update(&objects, &settings, &changed);
    assert_eq!(chains(&translator), ["*.1.i", "*.2.i"]);
    assert!(translator.problems().is_empty());
}

/// Returns a Gateway with a listener that decrypts connections with this number of key pairs.
fn decrypting(pairs: usize, chain_bytes: usize) -> Vec<Object> {
    let listener = gateway("public").listener("tls", 443, "TLS").hostname("*.test").tls_mode("Terminate");
    let listener = (0..pairs).fold(listener, |gateway, at| gateway.certificate(&format!("cert-{at}")));
    let secrets = (0..pairs).map(|at| secret(&format!("cert-{at}"), &["*.test"]).chain_bytes(chain_bytes).into());
    [listener.into(), gateway_service("public", &[(443, 10_000)])].into_iter().chain(secrets).collect()
}

/// Returns the number of server names of TLS listeners whose connections are not closed.
fn names(translator: &Translator) -> usize {
    let of = |traffic: &Traffic| match traffic {
        Traffic::Tls(names) => names.values().filter(|name| !name.to.clusters.is_empty()).count(),
        _ => 0,
    };
    translator.model().listeners.values().map(|listener| of(&listener.traffic)).sum()
}

#[test]
fn the_key_pairs_of_a_listener_count_for_each_host_of_a_route() {
    let route = |name: &str, hosts: usize| -> Object {
        let route = tls_route(name).parent("public").backend("a:80");
        (0..hosts).fold(route, |route, at| route.host(&format!("h{at}.{name}.test"))).into()
    };
    // A host takes 60 * 4 KiB.
    let routes = (0..8).map(|at| route(&format!("r{at}"), 16));
    let translator = translated(&world_of(decrypting(60, 4 << 10).into_iter().chain(routes)));
    let closed =
        translator.problems().iter().filter(|one| one.to_string().ends_with("its connections are closed")).count();
    assert_eq!((closed, names(&translator)), (6, 2 * 16));
    let routes = (0..1000).map(|at| route(&format!("r{at}"), 1));
    let translator = translated(&world_of(decrypting(1, 2 << 10).into_iter().chain(routes)));
    assert_eq!((translator.problems().len(), names(&translator)), (0, 1000));
}

/// The Secrets of a listener can belong to several namespaces.
#[test]
fn the_largest_key_pairs_of_a_listener_are_left_out() {
    let mut objects = world_of(decrypting(8, 4 << 10));
    for at in 0..6 {
        objects.apply(secret(&format!("cert-{at}"), &["*.test"]).chain_bytes(100 << 10).into());
    }
    let translator = translated(&objects);
    let listeners = translator.model().listeners.values();
    let terminated = listeners.filter_map(|listener| match &listener.traffic {
        Traffic::Tls(names) => names.values().next()?.terminated.as_ref(),
        _ => None,
    });
    let secrets = terminated.flat_map(|one| one.secrets.iter().map(ToString::to_string)).collect::<Vec<_>>();
    let expected = [0, 1, 2, 3, 4, 6, 7].map(|at| format!("shop/cert-{at}"));
    assert_eq!(secrets, expected, "in the order of the references");
}

#[test]
fn the_key_pairs_of_one_listener_have_a_limit() {
    let translator = translated(&world_of(decrypting(64, 100 << 10)));
    let listeners = translator.model().listeners.values();
    let terminated = listeners.filter_map(|listener| match &listener.traffic {
        Traffic::Tls(names) => names.values().next()?.terminated.as_ref(),
        _ => None,
    });
    // A key pair takes 816 KiB.
    assert_eq!(terminated.map(|one| one.secrets.len()).collect::<Vec<_>>(), [5]);
    let conditions = conditions(&translator, Kind::GATEWAY, "public");
    assert!(conditions.contains(&"tls: ResolvedRefs=False InvalidCertificateRef".to_owned()), "{conditions:?}");
}
