//! ListenerSets beyond the limit of a Gateway: they are rejected, and do not affect others.

use std::collections::BTreeSet;

use super::gateway::{report, translated, world_of};
use super::listener_sets::{accepted, public, update};
use crate::objects::{Kind, Object, ObjectId, ObjectKey, Objects};
use crate::settings::Settings;
use crate::testing::gateway::*;
use crate::translate::{ChangedInputs, Input, Translator};

/// Returns a ListenerSet of the namespace `bad` with this age. Its host name belongs to the Gateway.
fn bad(created: i64) -> Object {
    let name = format!("bad/s{created}");
    listener_set(&name, "shop/public").created(created).listener("http", 80, "HTTP").hostname("own.test").into()
}

fn friend(host: &str) -> Object {
    listener_set("friend/a", "shop/public").created(9_999).listener("http", 80, "HTTP").hostname(host).into()
}

fn sources(done: &crate::translate::Update) -> Vec<String> {
    done.sources.iter().map(ToString::to_string).collect()
}

fn delete(translator: &mut Translator, objects: &mut Objects, kind: Kind, key: &str) -> crate::translate::Update {
    let (namespace, name) = key.split_once('/').expect("a namespace");
    let key = ObjectKey::new(namespace, name);
    let mut changed = ChangedInputs::default();
    Input::of_object(objects, kind, &key).into_iter().for_each(|input| changed.insert(input));
    objects.delete(kind, &key);
    translator.update(objects, &Settings::default(), &changed)
}

#[test]
fn a_gateway_reads_a_bounded_number_of_sets_of_each_namespace() {
    let mut objects = world_of(public("All").into_iter().chain((0..300).map(bad)).chain([friend("friend.test")]));
    let mut translator = translated(&objects);
    assert_eq!(report(&translator).sets.len(), 128 + 1, "the status of a Gateway is computed from all of these");
    assert_eq!(accepted(&translator, "bad/s127"), "False ListenersNotValid");
    assert_eq!(accepted(&translator, "bad/s128"), "False TooManyListeners");
    assert_eq!(accepted(&translator, "friend/a"), "True Accepted");
    let surplus = ObjectId::new(Kind::LISTENER_SET, "bad", "s299");
    assert!(translator.revision(&surplus).is_some() && translator.serves(&surplus), "it has a status");
    let of_surplus = |problem: &&std::sync::Arc<crate::translate::Problem>| problem.object.name.contains("s299");
    let told = translator.problems().iter().find(of_surplus).expect("a problem").to_string();
    assert!(told.contains("the Gateway reads only the 128 oldest ListenerSets of this namespace"), "{told}");

    // A change of another namespace, or of a surplus ListenerSet, affects only its own object.
    let done = update(&mut translator, &mut objects, friend("other.test"));
    assert_eq!(sources(&done), ["Gateway shop/public", "ListenerSet friend/a"]);
    let edited = listener_set("bad/s200", "shop/public").created(200).listener("http", 81, "HTTP");
    assert_eq!(sources(&update(&mut translator, &mut objects, edited.into())), ["ListenerSet bad/s200"]);
    let done = delete(&mut translator, &mut objects, Kind::LISTENER_SET, "bad/s250");
    assert_eq!(sources(&done), ["ListenerSet bad/s250"]);
    assert_eq!(accepted(&translator, "bad/s250"), "");

    // The next ListenerSet replaces a deleted ListenerSet, until an older ListenerSet is added again.
    delete(&mut translator, &mut objects, Kind::LISTENER_SET, "bad/s5");
    assert_eq!(accepted(&translator, "bad/s128"), "False ListenersNotValid");
    assert_eq!(accepted(&translator, "bad/s129"), "False TooManyListeners");
    update(&mut translator, &mut objects, bad(5));
    assert_eq!(accepted(&translator, "bad/s128"), "False TooManyListeners");
}

#[test]
fn a_route_of_a_surplus_set_has_no_parent() {
    let route = http_route("bad/one").parent_set("bad/s140").rule("/", "a:80").into();
    let mut objects = world_of(public("All").into_iter().chain((0..150).map(bad)).chain([route]));
    let mut translator = translated(&objects);
    let told = |translator: &Translator| {
        let id = ObjectId::new(Kind::HTTP_ROUTE, "bad", "one");
        let verdicts = translator.verdicts().get(&id).into_iter().flat_map(|all| all.iter());
        verdicts.filter(|one| one.condition == "Accepted").map(|one| one.reason.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(told(&translator), ["NoMatchingParent"]);
    delete(&mut translator, &mut objects, Kind::GATEWAY, "shop/public");
    assert!(told(&translator).is_empty());
    assert_eq!(accepted(&translator, "bad/s140"), "");
    let [gateway, _] = public("All");
    update(&mut translator, &mut objects, gateway);
    assert_eq!(told(&translator), ["NoMatchingParent"]);
    assert_eq!(accepted(&translator, "bad/s140"), "False TooManyListeners");
}

#[test]
fn incremental_changes_of_surplus_sets_equal_one_translation() {
    let mut objects = world_of(public("All").into_iter().chain((0..132).map(bad)).chain([friend("friend.test")]));
    let mut translator = translated(&objects);
    // A fixed sequence of numbers without a pattern.
    let mut state = 7u64;
    let mut random = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    for step in 0..200 {
        let mut changed = ChangedInputs::default();
        for _ in 0..=random(3) {
            let at = if random(2) == 0 { random(140) } else { 120 + random(20) } as i64;
            let key = ObjectKey::new("bad", &format!("s{at}"));
            let kind = if random(20) == 0 { Kind::GATEWAY } else { Kind::LISTENER_SET };
            let key = if kind == Kind::GATEWAY { ObjectKey::new("shop", "public") } else { key };
            Input::of_object(&objects, kind, &key).into_iter().for_each(|input| changed.insert(input));
            let [gateway, _] = public(["All", "All", "Same"][random(3) as usize]);
            let set = listener_set(&format!("bad/s{at}"), ["shop/public", "shop/gone"][(random(8) == 0) as usize]);
            let set = set.created([at, random(140) as i64][(random(4) == 0) as usize]);
            let set = set.listener("http", 80, "HTTP").hostname(&format!("{}.test", random(100)));
            match random(3) {
                0 => drop(objects.delete(kind, &key)),
                _ if kind == Kind::GATEWAY => drop(objects.apply(gateway)),
                _ => drop(objects.apply(set.into())),
            }
            Input::of_object(&objects, kind, &key).into_iter().for_each(|input| changed.insert(input));
        }
        translator.update(&objects, &Settings::default(), &changed);
        let anew = translated(&objects);
        assert_eq!(translator.verdicts(), anew.verdicts(), "step {step}");
        assert_eq!(translator.problems(), anew.problems(), "step {step}");
        assert_eq!(translator.gateways(), anew.gateways(), "step {step}");
        let all = |translator: &Translator| -> BTreeSet<_> {
            translator.sources().map(|id| (translator.revision(&id), id)).collect()
        };
        assert_eq!(all(&translator), all(&anew), "step {step}");
    }
}
