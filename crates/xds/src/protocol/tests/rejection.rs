//! A rejection is reported with its resources, their versions, and the client's reason.

use super::harness::*;
use crate::protocol::{Rejection, RejectionScope, Response, Variant};
use crate::snapshot::ResourceType;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Formats the last rejection of a response: `a c | b | d` for suspects, repeated names, and removed names.
fn last(bench: &Bench, kind: ResourceType, response: &Response, why: &str) -> String {
    let is_response = |one: &&Rejection| matches!(one.scope, RejectionScope::Response { .. });
    let rejection = bench.rejections().filter(is_response).last().unwrap();
    let RejectionScope::Response { nonce, repeated, removed } = &rejection.scope else { unreachable!() };
    assert_eq!((rejection.kind, &*rejection.message, nonce), (kind, why, &response.nonce));
    for (name, version) in rejection.versions() {
        let sent = response.resources.iter().find(|resource| resource.name() == name).unwrap();
        assert_eq!(sent.version(), version);
    }
    assert_eq!(rejection.versions().count(), response.resources.len());
    let names = |names: Vec<&str>| names.join(" ");
    let of = |resources: &[std::sync::Arc<crate::snapshot::Resource>]| {
        names(resources.iter().map(|resource| &**resource.name()).collect())
    };
    let removed = names(removed.iter().map(|name| &**name).collect());
    format!("{} | {} | {removed}", of(&rejection.suspects), of(repeated))
}

/// Returns a stream of one type that has accepted `NAMES`.
fn settled(variant: Variant, kind: ResourceType, names: &[&str]) -> Bench {
    let mut bench = Bench::new(variant, Some(kind), NAMES.map(|name| any_kind(kind, name, 0)));
    bench.settled_list(kind, names);
    bench
}

#[test]
fn s23_a_rejected_full_state_is_reported_with_all_its_resources() {
    for kind in [CLUSTER, LISTENER, SCOPED_ROUTES] {
        for names in [&[][..], &NAMES] {
            let mut bench = settled(Variant::Sotw, kind, names);
            bench
                .store
                .update(crate::snapshot::Update::<crate::snapshot::Resource>::removing(vec![(kind, "d".into())]));
            let sent = bench.set([any_kind(kind, "c", 1), any_kind(kind, "a", 1)]);
            bench.nack(sent.one(), "no");
            assert_eq!(last(&bench, kind, sent.one(), "no"), "a c | b | d", "{kind:?} {names:?}");
        }
    }
}

#[test]
fn s23_a_rejected_removal_is_reported_with_all_its_resources() {
    for kind in [CLUSTER, LISTENER, SCOPED_ROUTES] {
        let mut bench = settled(Variant::Sotw, kind, &[]);
        let sent = bench.remove([(kind, "d")]);
        bench.nack(sent.one(), "no");
        assert_eq!(last(&bench, kind, sent.one(), "no"), " | a b c | d", "{kind:?}");
    }
}

#[test]
fn s23_a_rejected_partial_response_is_reported_with_its_set_resources() {
    for kind in [ENDPOINTS, ROUTES, SECRET] {
        let mut bench = settled(Variant::Sotw, kind, &NAMES);
        let sent = bench.set([any_kind(kind, "c", 1), any_kind(kind, "a", 1)]);
        bench.nack(sent.one(), "no");
        assert_eq!(last(&bench, kind, sent.one(), "no"), "a c |  | ", "{kind:?}");
    }
}

#[test]
fn d15_a_rejected_difference_is_reported_with_set_and_removed_resources() {
    for kind in KINDS {
        let wildcard = kind.wildcard_by_default().then_some(&[][..]);
        for names in [Some(&NAMES[..]), wildcard].into_iter().flatten() {
            let mut bench = settled(Variant::Delta, kind, names);
            bench
                .store
                .update(crate::snapshot::Update::<crate::snapshot::Resource>::removing(vec![(kind, "d".into())]));
            let sent = bench.set([any_kind(kind, "c", 1), any_kind(kind, "a", 1)]);
            bench.nack(sent.one(), "no");
            assert_eq!(last(&bench, kind, sent.one(), "no"), "a c |  | d", "{kind:?} {names:?}");
        }
    }
}

#[test]
fn d15_a_rejected_first_response_is_reported_with_all_its_resources() {
    for variant in [Variant::Sotw, Variant::Delta] {
        for kind in KINDS {
            let mut bench = Bench::new(variant, Some(kind), NAMES.map(|name| any_kind(kind, name, 0)));
            let sent = match variant {
                Variant::Sotw => bench.ask_list(kind, &NAMES),
                Variant::Delta => bench.request(delta_request(kind, &NAMES, &[])),
            };
            bench.nack(sent.one(), "no");
            assert_eq!(last(&bench, kind, sent.one(), "no"), "a b c d |  | ", "{variant:?} {kind:?}");
        }
    }
}

/// Each invalid resource is reported once, with the rejected version and the last accepted one.
fn culprits_are_reported(variant: Variant) {
    for kind in KINDS {
        let bad = ["b", "d"];
        let mut bench = settled(variant, kind, &NAMES);
        let sent = bench.set(NAMES.map(|name| any_kind(kind, name, 1)));
        let is_bad = |response: &Response| {
            let mut resources = response.resources.iter();
            resources
                .any(|resource| bad.contains(&&**resource.name()) && **resource == any_kind(kind, resource.name(), 1))
        };
        let mut queue = vec![sent.one().clone()];
        while let Some(response) = queue.pop() {
            let next = if is_bad(&response) { bench.nack(&response, "no") } else { bench.ack(&response) };
            queue.extend(next.0);
        }
        let mut reported = Vec::new();
        for rejection in bench.rejections() {
            let RejectionScope::Resource { last_good, accepted } = &rejection.scope else { continue };
            assert_eq!((rejection.kind, &*rejection.message), (kind, "no"));
            let [culprit] = &rejection.suspects[..] else { panic!("{rejection:?}") };
            assert_eq!(culprit.version(), any_kind(kind, culprit.name(), 1).version());
            let good = any_kind(kind, culprit.name(), 0).version();
            assert_eq!((*last_good, accepted.as_ref().map(|good| good.version())), (Some(good), Some(good)));
            reported.push(culprit.name().to_string());
        }
        reported.sort();
        assert_eq!(reported, bad, "{variant:?} {kind:?}");
    }
}

#[test]
fn s34_each_culprit_is_reported_once() {
    culprits_are_reported(Variant::Sotw);
}

#[test]
fn d32_each_culprit_is_reported_once() {
    culprits_are_reported(Variant::Delta);
}
