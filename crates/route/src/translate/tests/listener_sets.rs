//! Tests of ListenerSets: acceptance, conflicts, limits, and the routes that name them.

use super::gateway::{conditions, report, translated, world_of};
use crate::model::{Host, Others};
use crate::objects::{Kind, Object, ObjectId, Objects, Transport};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::testing::objects::{routes, secret};
use crate::translate::{ChangedInputs, Input, Translator, host};

/// The Gateway `shop/public` with the listener `http` on port 80, which allows ListenerSets, and its Service.
pub(super) fn public(sets: &str) -> [Object; 2] {
    let gateway = gateway("public").listener("http", 80, "HTTP").hostname("own.test").sets_from(sets);
    [gateway.into(), gateway_service("public", &[(80, 10_000), (8080, 10_001)])]
}

/// Returns the condition `Accepted` of a ListenerSet.
pub(super) fn accepted(translator: &Translator, name: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or(("shop", name));
    let verdicts = translator.verdicts().get(&ObjectId::new(Kind::LISTENER_SET, namespace, name));
    let verdict = verdicts.and_then(|all| all.iter().find(|one| one.listener.is_none() && one.condition == "Accepted"));
    verdict.map(|one| format!("{} {}", one.status.as_str(), one.reason)).unwrap_or_default()
}

fn hosts(translator: &Translator, port: u16) -> Vec<String> {
    let id = format!("gateway/shop/public/{port}");
    let plain = translator.model().plain(&id);
    plain.map(|plain| plain.hosts.keys().map(ToString::to_string).collect()).unwrap_or_default()
}

fn of_host(translator: &Translator, name: &str) -> Vec<String> {
    let plain = translator.model().plain("gateway/shop/public/80").unwrap();
    plain.hosts.get(&host::parse(name).unwrap()).map(routes).unwrap_or_default()
}

#[test]
fn the_gateway_allows_namespaces() {
    let labeled = |labels: &[(&str, &str)]| labeled_namespace("other", labels);
    for (from, labels, own, other) in [
        ("None", true, "False NotAllowed", "False NotAllowed"),
        ("Same", true, "True Accepted", "False NotAllowed"),
        ("All", false, "True Accepted", "True Accepted"),
        ("Selector", true, "False NotAllowed", "True Accepted"),
        ("Selector", false, "False NotAllowed", "False NotAllowed"),
        ("Another", true, "False NotAllowed", "False NotAllowed"),
    ] {
        let sets = ["shop/a", "other/b"].map(|name| {
            let host = format!("{}.test", &name[name.len() - 1..]);
            listener_set(name, "shop/public").listener("http", 80, "HTTP").hostname(&host).into()
        });
        let labels = labeled(if labels { &[("team", "front")] } else { &[] });
        let translator = translated(&world_of(public(from).into_iter().chain(sets).chain([labels])));
        assert_eq!(accepted(&translator, "a"), own, "{from}");
        assert_eq!(accepted(&translator, "other/b"), other, "{from}");
        let count = [own, other].iter().filter(|one| one.starts_with("True")).count();
        assert_eq!(report(&translator).accepted_sets(), count);
        assert_eq!(hosts(&translator, 80).len(), 1 + count, "{from}");
    }
    // Without the field, none is allowed.
    let [_, service] = public("All");
    let gateway = gateway("public").listener("http", 80, "HTTP").into();
    let set = listener_set("a", "public").listener("http", 80, "HTTP").hostname("a.test").into();
    assert_eq!(accepted(&translated(&world_of([gateway, service, set])), "a"), "False NotAllowed");
}

#[test]
fn the_gateway_and_older_sets_win_conflicts() {
    let set = |name: &str, created, host: &str, protocol| -> Object {
        let one = listener_set(name, "public").created(created).listener("one", 80, protocol);
        let one = if host.is_empty() { one } else { one.hostname(host) };
        one.listener("two", 80, "HTTP").hostname(&format!("{name}.test")).into()
    };
    let sets = [
        set("young", 9, "x.test", "HTTP"),
        set("old", 2, "x.test", "HTTP"),
        set("same-age", 2, "own.test", "HTTP"),
        set("tcp", 1, "", "TCP"),
    ];
    let translator = translated(&world_of(public("All").into_iter().chain(sets)));
    let of = |name: &str| conditions(&translator, Kind::LISTENER_SET, name);
    let conflict = |reason: &str| {
        [format!("one: Accepted=False {reason}"), format!("one: Conflicted=True {reason}")]
            .iter()
            .map(|line| of("young").contains(line))
            .collect::<Vec<_>>()
    };
    assert_eq!(conflict("HostnameConflict"), [true, true], "{:?}", of("young"));
    assert!(of("old").contains(&"one: Accepted=True Accepted".to_owned()), "{:?}", of("old"));
    assert!(of("same-age").contains(&"one: Conflicted=True HostnameConflict".to_owned()), "{:?}", of("same-age"));
    assert!(of("tcp").contains(&"one: Conflicted=True ProtocolConflict".to_owned()), "{:?}", of("tcp"));
    assert_eq!(accepted(&translator, "young"), "True ListenersNotValid");
    assert_eq!(accepted(&translator, "old"), "True Accepted");
    let own = conditions(&translator, Kind::GATEWAY, "public");
    assert!(own.contains(&"http: Accepted=True Accepted".to_owned()), "{own:?}");
    assert!(own.contains(&"Accepted=True Accepted".to_owned()), "ListenerSets have no effect: {own:?}");
}

#[test]
fn a_listener_without_authorities_for_its_clients_keeps_its_port_and_host() {
    let secure = gateway("public").sets_from("All").validation(None, "gone", None);
    let secure =
        secure.listener("http", 80, "HTTP").listener("https", 443, "HTTPS").hostname("own.test").certificate("good");
    let set = |name: &str, protocol| listener_set(name, "public").listener("one", 443, protocol).hostname("own.test");
    let sets = [set("tls", "TLS").tls_mode("Passthrough").into(), set("https", "HTTPS").certificate("good").into()];
    let service = gateway_service("public", &[(443, 10_000)]);
    let good = Object::from(secret("good", &["own.test"]));
    let translator = translated(&world_of([Object::from(secure), service, good].into_iter().chain(sets)));
    for (name, reason) in [("tls", "ProtocolConflict"), ("https", "HostnameConflict")] {
        let of_set = conditions(&translator, Kind::LISTENER_SET, name);
        assert!(of_set.contains(&format!("one: Conflicted=True {reason}")), "{of_set:?}");
    }
    let own = conditions(&translator, Kind::GATEWAY, "public");
    assert!(own.contains(&"https: Accepted=False NoValidCACertificate".to_owned()), "{own:?}");
    assert!(!translator.model().listeners.contains_key("gateway/shop/public/443"));
}

#[test]
fn a_set_without_a_valid_listener_is_not_accepted() {
    let set = listener_set("a", "public").listener("https", 443, "HTTPS").hostname("a.test").certificate("gone");
    let translator = translated(&world_of(public("All").into_iter().chain([set.into()])));
    assert_eq!(accepted(&translator, "a"), "False ListenersNotValid");
    assert_eq!(report(&translator).accepted_sets(), 0);
}

#[test]
fn a_certificate_needs_a_grant_for_listener_sets() {
    let set = |name: &str| -> Object {
        listener_set(name, "shop/public").listener("https", 8080, "HTTPS").certificate("shop/good").into()
    };
    let grant = |from: &str| -> Object { reference_grant("shop/g").from(from, "other").to("Secret", "").into() };
    let translate = |grant: Object| {
        let others = [set("other/a"), grant, secret("good", &["x.test"]).into()];
        translated(&world_of(public("All").into_iter().chain(others)))
    };
    assert_eq!(accepted(&translate(grant("Gateway")), "other/a"), "False ListenersNotValid");
    assert_eq!(accepted(&translate(grant("ListenerSet")), "other/a"), "True Accepted");
}

#[test]
fn routes_attach_to_the_parent_that_they_name() {
    let set = listener_set("other/a", "shop/public").listener("http", 80, "HTTP").hostname("a.test");
    let route = |name: &str| http_route(name).rule("/", "a:80");
    let all = [
        set.into(),
        route("shop/gateway").parent("public").into(),
        route("shop/section").parent("public").section("other").into(),
        route("shop/foreign").parent_set("other/a").into(),
        http_route("other/both").parent("shop/public").parent_set("a").section("http").rule("/", "").into(),
    ];
    let translator = translated(&world_of(public("All").into_iter().chain(all)));
    let of = |namespace: &str, name: &str| {
        let verdicts = translator.verdicts().get(&ObjectId::new(Kind::HTTP_ROUTE, namespace, name)).cloned();
        let accepted = verdicts.into_iter().flat_map(|all| all.to_vec()).filter(|one| one.condition == "Accepted");
        accepted.map(|one| format!("{:?} {}", one.parent.unwrap(), one.reason)).collect::<Vec<_>>()
    };
    assert_eq!(of("shop", "gateway"), ["0 Accepted"]);
    assert_eq!(of("shop", "section"), ["0 NoMatchingParent"], "listeners of sets have no names at the Gateway");
    assert_eq!(of("shop", "foreign"), ["0 NotAllowedByListeners"], "`Same` is the namespace of the set");
    assert_eq!(of("other", "both"), ["0 NotAllowedByListeners", "1 Accepted"]);
    assert_eq!(of_host(&translator, "own.test").len(), 1);
    let report = report(&translator);
    assert_eq!(report.listeners[0].attached_routes, 1);
    assert_eq!(report.sets.values().next().unwrap().listeners[0].attached_routes, 1);
}

#[test]
fn a_route_of_a_set_that_is_not_allowed_has_no_parent() {
    let set = listener_set("a", "public").listener("http", 80, "HTTP").hostname("a.test").into();
    let route = http_route("one").parent_set("a").rule("/", "a:80").into();
    let translator = translated(&world_of(public("None").into_iter().chain([set, route])));
    let of_route = conditions(&translator, Kind::HTTP_ROUTE, "one");
    assert!(of_route.contains(&"0: Accepted=False NoMatchingParent".to_owned()), "{of_route:?}");
}

#[test]
fn the_listeners_and_ports_of_a_namespace_are_bounded() {
    let many = |name: &str, count: u16, port: fn(u16) -> u16| -> Object {
        let start = listener_set(name, "shop/public").created(i64::from(count));
        let add = |set: ListenerSetBuilder, at| {
            let (name, host) = (format!("l{at:03}"), format!("{at}.{}.test", name.replace('/', ".")));
            set.listener(&name, port(at), "HTTP").hostname(&host)
        };
        (0..count).fold(start, add).into()
    };
    let last = listener_set("friend/a", "shop/public").created(999).listener("http", 9999, "HTTP").into();
    let sets = [many("other/a", 70, |_| 80), many("bad/a", 20, |at| 1000 + at), last, many("shop/a", 80, |_| 80)];
    let translator = translated(&world_of(public("All").into_iter().chain(sets)));
    let refused = |namespace: &str, reason: &str| {
        let verdicts = translator.verdicts().get(&ObjectId::new(Kind::LISTENER_SET, namespace, "a")).unwrap();
        verdicts.iter().filter(|one| one.condition == "Accepted" && one.reason == reason).count()
    };
    assert_eq!(refused("other", "TooManyListeners"), 70 - 64);
    assert_eq!(refused("bad", "PortUnavailable"), 20 - 16);
    assert_eq!(refused("shop", "TooManyListeners"), 0, "the namespace of the Gateway");
    assert_eq!(accepted(&translator, "friend/a"), "True Accepted");
    let ports = &report(&translator).ports;
    assert_eq!((ports.len(), ports[0]), (1 + 16 + 1, (Transport::Tcp, 80)));
}

#[test]
fn further_sets_of_a_namespace_with_many_listeners_are_refused_as_a_whole() {
    let set = |namespace: &str, at: i64, count: i64, protocol: &str| -> Object {
        let start = listener_set(&format!("{namespace}/s{at}"), "shop/public").created(at);
        (0..count)
            .fold(start, |set, n| set.listener(&format!("l{n}"), 80, protocol).hostname(&format!("{n}.{at}.test")))
            .into()
    };
    let valid = (1..4).map(|at| set("other", at, 64, "HTTP"));
    // None of these is accepted.
    let invalid = (4..8).map(|at| set("bad", at, 64, "HTTPS"));
    let friend = [set("friend", 9, 1, "HTTP")];
    let translator = translated(&world_of(public("All").into_iter().chain(valid).chain(invalid).chain(friend)));
    assert_eq!(accepted(&translator, "other/s1"), "True Accepted");
    assert_eq!(accepted(&translator, "other/s2"), "False TooManyListeners");
    assert_eq!(["bad/s4", "bad/s5"].map(|name| accepted(&translator, name)), ["False ListenersNotValid"; 2]);
    assert_eq!(["bad/s6", "bad/s7"].map(|name| accepted(&translator, name)), ["False TooManyListeners"; 2]);
    assert_eq!(accepted(&translator, "friend/s9"), "True Accepted");
}

#[test]
fn all_sets_of_a_gateway_are_bounded_together() {
    let set = |at: u16| -> Object {
        let start = listener_set(&format!("n{at:02}/a"), "shop/public").created(i64::from(at) + 1);
        let add = |set: ListenerSetBuilder, n: u16| {
            let port = if n < 16 { 1000 + at * 16 + n } else { 80 };
            set.listener(&format!("l{n}"), port, "HTTP").hostname(&format!("{n}.{at}.test"))
        };
        (0..64).fold(start, add).into()
    };
    let translator = translated(&world_of(public("All").into_iter().chain((0..20).map(set))));
    let report = report(&translator);
    assert_eq!(report.ports.len(), 128);
    let valid = report.sets.values().flat_map(|set| &set.listeners).filter(|one| one.port.is_some()).count();
    assert_eq!(valid, 1023, "and one of the Gateway itself");
    assert_eq!(report.listeners[0].port, Some((Transport::Tcp, 80)));
}

#[test]
fn sets_of_a_gateway_that_is_not_accepted_are_not_accepted() {
    let gateway = gateway("public").listener("http", 80, "HTTP").sets_from("All").address("x.test/Pool", "a");
    let set = listener_set("a", "public").listener("http", 8080, "HTTP");
    let [_, service] = public("All");
    let translator = translated(&world_of([gateway.into(), service, set.into()]));
    assert_eq!(accepted(&translator, "a"), "False ParentNotAccepted");
    assert!(hosts(&translator, 8080).is_empty());
}

#[test]
fn a_set_without_a_served_gateway_has_no_status() {
    let sets: [Object; 3] = [
        listener_set("a", "gone").listener("http", 80, "HTTP").into(),
        listener_set("b", "public").spec(|spec| spec.parent_ref.kind = Some("Service".into())).into(),
        listener_set("c", "public").spec(|spec| spec.parent_ref.group = Some("other".into())).into(),
    ];
    let translator = translated(&world_of(public("All").into_iter().chain(sets)));
    for name in ["a", "b", "c"] {
        assert_eq!(accepted(&translator, name), "");
        assert!(translator.revision(&ObjectId::new(Kind::LISTENER_SET, "shop", name)).is_none());
    }
}

#[test]
fn many_listeners_for_https_do_not_list_each_other() {
    let translate = |count: usize| {
        let set = |at: usize| -> Object {
            let start = listener_set(&format!("s{at:02}"), "public");
            let add = |set: ListenerSetBuilder, n: usize| {
                let set = set.listener(&format!("l{n}"), 8080, "HTTPS").certificate("good");
                set.hostname(&format!("{n}.{at}.test"))
            };
            (0..count.saturating_sub(at * 60).min(60)).fold(start, add).into()
        };
        let others = [secret("good", &["x.test"]).into()];
        translated(&world_of(public("All").into_iter().chain((0..3).map(set)).chain(others)))
    };
    for (count, listed, others) in [(64, 63, Others::NotFound), (65, 0, Others::Misdirected)] {
        let translator = translate(count);
        let tls = translator.model().tls("gateway/shop/public/8080").unwrap();
        assert_eq!(tls.hosts.len(), count);
        assert!(tls.hosts.values().all(|one| one.misdirected.len() == listed && one.others == others), "{count}");
    }
}

/// Applies `object` like the loop. Returns the update.
pub(super) fn update(translator: &mut Translator, objects: &mut Objects, object: Object) -> crate::translate::Update {
    let mut changed = ChangedInputs::default();
    let (kind, key) = (object.kind(), object.meta().key.clone());
    objects.apply(object);
    Input::of_object(objects, kind, &key).into_iter().for_each(|input| changed.insert(input));
    translator.update(objects, &Settings::default(), &changed)
}

#[test]
fn a_changed_set_affects_only_its_own_hosts_and_routes() {
    let set = |name: &str, host: &str| -> Object {
        listener_set(name, "public").listener("http", 80, "HTTP").hostname(host).into()
    };
    let sets = (0..20).map(|at| set(&format!("s{at}"), &format!("s{at}.test")));
    let of_set = |at| http_route(&format!("r{at}")).parent_set(&format!("s{at}")).rule("/", "a:80").into();
    let of_gateway = (0..20).map(|at| http_route(&format!("g{at}")).parent("public").rule("/", "a:80").into());
    let all = public("All").into_iter().chain(sets).chain((0..20).map(of_set)).chain(of_gateway);
    let mut objects = world_of(all);
    let mut translator = translated(&objects);
    let done = update(&mut translator, &mut objects, set("s7", "other.test"));
    let touched: Vec<String> = done.touched.hosts_of("gateway/shop/public/80").iter().map(Host::to_string).collect();
    assert_eq!(touched, ["other.test", "s7.test"]);
    let sources: Vec<String> = done.sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["Gateway shop/public", "HTTPRoute shop/r7", "ListenerSet shop/s7"]);
    // A wider name does not affect the routes of other objects.
    let done = update(&mut translator, &mut objects, set("s7", "*.test"));
    assert_eq!(done.sources.len(), 3, "{:?}", done.sources);
    // A narrower name removes hosts from the wider name.
    let done = update(&mut translator, &mut objects, set("s8", "a.test"));
    let sources: Vec<String> = done.sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["Gateway shop/public", "HTTPRoute shop/r7", "HTTPRoute shop/r8", "ListenerSet shop/s8"]);
}
