//! Claims: a host stays with the namespace that serves it.

use crate::model::Host;
use crate::testing::host_grants::host_grant;
use crate::testing::model::Shared as _;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Translator, host};

/// Returns the world with Services in the namespaces `evil` and `team` too.
fn tenants() -> World {
    ["evil/a", "team/a"].into_iter().fold(world(), |world, name| world.with(service(name).port("http", 80)))
}

/// Returns the victim's Ingress, created at 5.
fn victim(host: &str) -> IngressBuilder {
    ingress("shop/victim").created(5).host(host).path("Prefix", "/", "a:80")
}

/// Returns an Ingress of the namespace `evil` that is older than the victim's.
fn attacker(host: &str) -> IngressBuilder {
    ingress("evil/old").created(1).host(host).path("Prefix", "/", "a:80")
}

fn is_served(world: &World, host: &str) -> bool {
    world.model().http().contains_key(&host::parse(host).expect("a host"))
}

/// Returns the hosts whose claim does not match their rules: `host: claimant owner`.
fn unsettled(world: &World) -> Vec<String> {
    let mut translator = Translator::default();
    translator.update(&objects(&world.objects), &world.settings, &ChangedInputs::everything());
    let text = |name: &Option<std::sync::Arc<str>>| name.as_deref().unwrap_or("-").to_owned();
    let all = translator.unsettled_hosts().iter();
    all.map(|(host, one)| format!("{host}: {} {}", text(&one.claimant), text(&one.owner))).collect()
}

const VICTIM: [&str; 1] = ["/* shop/a/http"];
const ATTACKER: [&str; 1] = ["/* evil/a/http"];

#[test]
fn an_older_ingress_does_not_take_a_claimed_host() {
    let world = tenants().with(victim("x.com")).with(attacker("x.com"));
    assert_eq!(world.http("x.com"), ATTACKER, "a host that nobody claims goes to the oldest rule");
    assert_eq!(unsettled(&world), ["x.com: - evil"]);
    let world = world.claimed(&[("x.com", "shop")]);
    assert_eq!(world.http("x.com"), VICTIM);
    assert_eq!(
        world.problems(),
        ["Ingress evil/old: spec.rules[0]: host \"x.com\" is owned by namespace \"shop\" (Ingress shop/victim), and \
          \"namespaceOwnership\" is \"Strict\"; rule left out"]
    );
    assert!(unsettled(&world).is_empty());
    assert_eq!(world.claimed(&[]).http("x.com"), ATTACKER, "after a release");
}

#[test]
fn a_claimed_host_without_a_rule_waits_for_its_namespace() {
    let world = || tenants().with(secret("evil/cert", &["x.com"])).with(attacker("x.com").tls(&["x.com"], "cert"));
    let kept = world().claimed(&[("x.com", "shop")]);
    assert!(!is_served(&kept, "x.com") && kept.chains().is_empty());
    let reason = "host \"x.com\" is kept for namespace \"shop\" for 60 s after its last rule, and \"namespaceOwnership\" is \"Strict\"";
    assert_eq!(
        kept.problems(),
        [
            format!("Ingress evil/old: spec.rules[0]: {reason}; rule left out"),
            format!("Ingress evil/old: spec.tls[0]: {reason}; TLS entry not used for \"x.com\""),
        ]
    );
    assert_eq!(unsettled(&kept), ["x.com: shop -"]);
    let again = kept.with(victim("x.com").created(99));
    assert_eq!((again.http("x.com"), again.chains()), (vec![VICTIM[0].to_owned()], vec![]));
    let released = world().claimed(&[]);
    assert_eq!(
        (released.http("x.com"), released.chains()),
        (vec!["/* 308".to_owned()], vec!["x.com evil/cert".to_owned()])
    );
}

#[test]
fn a_namespace_that_is_being_deleted_or_gone_has_no_claims() {
    let world = || {
        tenants().with(victim("x.com")).with(ingress("evil/new").created(9).host("x.com").path("Prefix", "/", "a:80"))
    };
    let ending = world().claimed(&[("x.com", "shop")]).with(namespace("shop", true));
    assert_eq!(ending.http("x.com"), ATTACKER);
    assert_eq!(unsettled(&ending), ["x.com: shop evil"]);
    let gone = claims(&[("x.com", "gone")]).into_iter().fold(world(), World::with);
    assert_eq!(gone.http("x.com"), VICTIM);
    assert_eq!(unsettled(&gone), ["x.com: gone shop"]);
}

#[test]
fn an_ingress_that_is_being_deleted_keeps_no_claim() {
    let world = tenants().with(victim("x.com").terminating()).with(attacker("x.com")).claimed(&[("x.com", "shop")]);
    assert_eq!(world.http("x.com"), VICTIM, "until the leader removes the claim");
    assert_eq!(unsettled(&world), ["x.com: shop -"]);
}

#[test]
fn a_claimed_wildcard_keeps_the_names_below_it() {
    let world = || tenants().with(victim("*.x.com")).with(attacker("login.x.com"));
    assert_eq!(world().http("login.x.com"), ATTACKER);
    let held = world().claimed(&[("*.x.com", "shop")]);
    assert!(!is_served(&held, "login.x.com"));
    assert_eq!(
        held.problems(),
        [
            "Ingress evil/old: spec.rules[0]: host \"login.x.com\" is owned by namespace \"shop\" (Ingress shop/victim through \
          \"*.x.com\"), and \"namespaceOwnership\" is \"Strict\"; rule left out"
        ]
    );
    // A claim for the name itself precedes the claim for the wildcard.
    let both = held.claimed(&[("*.x.com", "shop"), ("login.x.com", "evil")]);
    assert_eq!(both.http("login.x.com"), ATTACKER);
    assert!(both.problems().is_empty() && unsettled(&both).is_empty());
}

#[test]
fn a_name_keeps_its_owner_if_an_older_wildcard_appears() {
    let world = || tenants().with(victim("login.x.com")).with(attacker("*.x.com"));
    assert!(!is_served(&world(), "login.x.com"), "nobody claims the name");
    let held = world().claimed(&[("login.x.com", "shop")]);
    assert_eq!(
        (held.http("login.x.com"), held.http("*.x.com")[0].clone()),
        (vec![VICTIM[0].to_owned()], format!("1: {}", ATTACKER[0]))
    );
}

#[test]
fn a_kept_wildcard_keeps_the_names_below_it_without_an_ingress_for_the_wildcard() {
    let world = tenants()
        .with(secret("evil/cert", &["a.x.com", "login.x.com"]))
        .with(attacker("login.x.com").tls(&["a.x.com"], "cert"))
        .with(ingress("shop/own").created(9).host("own.x.com").path("Prefix", "/", "a:80"))
        .claimed(&[("*.x.com", "shop")]);
    assert!(!is_served(&world, "login.x.com") && world.chains().is_empty());
    assert_eq!(world.http("own.x.com"), VICTIM);
    let reason = |host| {
        format!("host \"{host}\" is kept for namespace \"shop\" through \"*.x.com\" for 60 s after its last rule")
    };
    let problems = world.problems();
    assert_eq!(problems.len(), 2, "{problems:#?}");
    assert!(problems[0].contains(&reason("login.x.com")) && problems[1].contains(&reason("a.x.com")), "{problems:#?}");
    assert_eq!(unsettled(&world), ["own.x.com: - shop", "*.x.com: shop -"]);
}

#[test]
fn delegations_stay_with_the_owner() {
    let delegating = |ingress: IngressBuilder| ingress.annotation("lockgate.dev/delegate-to", "team");
    let part = || ingress("team/part").created(0).host("x.com").path("Prefix", "/team", "a:80");
    let world = tenants().with(delegating(victim("x.com"))).with(delegating(attacker("x.com"))).with(part());
    let held = world.claimed(&[("x.com", "shop")]);
    assert_eq!(held.http("x.com"), ["/team/ team/a/http", VICTIM[0]]);
    // The delegated namespace has no claim.
    assert!(unsettled(&held).is_empty());
    let alone = tenants().with(delegating(victim("*.x.com"))).with(part().host("y.x.com").path("Prefix", "/", "a:80"));
    let alone = alone.claimed(&[("*.x.com", "shop")]);
    assert_eq!(alone.http("y.x.com"), ["/* team/a/http"]);
    assert_eq!(unsettled(&alone), ["x.com: - team"]);
}

#[test]
fn shared_hosts_have_no_claims() {
    let world = tenants().with(victim("x.com")).with(attacker("x.com")).claimed(&[("x.com", "shop")]).shared();
    assert_eq!(world.http("x.com"), ATTACKER);
    assert!(unsettled(&world).is_empty());
}

#[test]
fn hosts_of_both_kinds_are_claimed_and_others_are_not() {
    let world = tenants()
        .with(victim("x.com").host("*.y.com").path("Prefix", "/", "a:80").host("").path("Prefix", "/", "a:80"))
        .with(ingress("shop/tls").tls(&["tls.com"], "cert"));
    assert_eq!(unsettled(&world), ["x.com: - shop", "*.y.com: - shop"]);
    assert!(world.model().http().contains_key(&Host::Any));
}

/// A namespace that loses a host by a HostGrant does not keep it.
#[test]
fn a_host_grant_precedes_a_claim() {
    let grant = || host_grant("x").host("x.com").name("evil");
    let world = || tenants().with(victim("x.com")).with(attacker("x.com"));
    let granted = world().claimed(&[("x.com", "shop")]).with(grant());
    assert_eq!(granted.http("x.com"), ATTACKER);
    assert_eq!(unsettled(&granted), ["x.com: shop evil"], "the leader removes the claim");
    let without_rules = tenants().with(attacker("x.com")).claimed(&[("x.com", "shop")]);
    assert_eq!(without_rules.with(grant()).http("x.com"), ATTACKER);
}
