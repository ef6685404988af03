//! XBackendTrafficPolicies: the retry budget and the session persistence of a Service, whichever route leads there.

use super::gateway::{conditions, world_of};
use crate::model::{Action, Host, Model, RetryBudget, Session, Traffic};
use crate::objects::gateway::SessionPersistence;
use crate::objects::{Kind, Object, ObjectKey, Objects, RetryBudgetSpec};
use crate::settings::Settings;
use crate::testing::backend_policies::{BackendPolicyBuilder, backend_policy, traffic_policy};
use crate::testing::gateway::*;
use crate::testing::objects::*;
use crate::translate::{ChangedInputs, Input, Translator, translate};

const KIND: Kind = Kind::X_BACKEND_TRAFFIC_POLICY;

/// An HTTPRoute and an Ingress that lead to the Service `shop/web`, and an HTTPRoute that divides requests among two Services.
fn shop(more: impl IntoIterator<Item = Object>) -> Objects {
    let base: [Object; 7] = [
        gateway("public").listener("http", 80, "HTTP").into(),
        gateway_service("public", &[(80, 10_000)]),
        service("web").port("http", 80).into(),
        service("api").port("http", 80).into(),
        http_route("web").parent("public").host("x.test").rule("/", "web:80").into(),
        ingress("web").host("y.test").path("Prefix", "/", "web:80").into(),
        class("ours").into(),
    ];
    world_of(base.into_iter().chain(more))
}

fn translated(objects: &Objects) -> Translator {
    let mut translator = Translator::default();
    translator.update(objects, &Settings::default(), &ChangedInputs::everything());
    translator
}

fn budget(model: &Model) -> Option<RetryBudget> {
    let mut clusters = model.clusters.values().filter(|cluster| &*cluster.origin.name == "web");
    let cluster = clusters.next().expect("a cluster");
    assert!(clusters.next().is_none());
    cluster.policy.features.as_deref()?.retry_budget
}

/// Returns the name of the session of each route of a host, or `-`.
fn sessions(model: &Model, name: &str) -> Vec<String> {
    let hosts = model.listeners.values().filter_map(|listener| match &listener.traffic {
        Traffic::Http(plain) => plain.hosts.get(&Host::Exact(name.into())),
        _ => None,
    });
    let routes = hosts.flat_map(|host| host.routes.iter()).filter_map(|route| match &route.action {
        Action::Forward(forward) => Some(match Session::of(&forward.filters) {
            Some(Session::Cookie(cookie)) => format!("cookie {} {}", cookie.name, cookie.path),
            Some(Session::Header(name)) => format!("header {}", name.as_str()),
            None => "-".to_owned(),
        }),
        _ => None,
    });
    routes.collect()
}

fn problems(translator: &Translator) -> Vec<String> {
    translator.problems().iter().map(ToString::to_string).collect()
}

#[test]
fn a_budget_applies_whichever_route_leads_to_the_service() {
    let translator = translated(&shop([traffic_policy("p").target("web").retries(30, 7, "2s").into()]));
    assert_eq!(budget(translator.model()), Some(RetryBudget { percent: 30, min_concurrency: 4 }));
    assert_eq!(conditions(&translator, KIND, "p"), ["0: Accepted=True Accepted"]);
    let stranger = traffic_policy("other/p").target("web").retries(30, 7, "2s");
    assert_eq!(budget(translated(&shop([stranger.into()])).model()), None);
}

#[test]
fn the_policy_of_gateway_api_decides_the_budget_and_the_other_says_so() {
    let own = |policy: BackendPolicyBuilder| {
        policy.idle_timeout("1m").spec(|spec| spec.retry_budget = Some(RetryBudgetSpec::default().into()))
    };
    let of_port = own(backend_policy("port").created(1).target("web", Some("http")));
    let standard = traffic_policy("standard").created(9).target("web").retries(90, 1, "1s");
    let translator = translated(&shop([of_port.clone().into(), standard.into()]));
    assert_eq!(budget(translator.model()), Some(RetryBudget { percent: 90, min_concurrency: 1 }));
    let cluster = translator.model().clusters.values().find(|cluster| &*cluster.origin.name == "web");
    let features = cluster.and_then(|cluster| cluster.policy.features.clone()).expect("features");
    assert!(features.idle_timeout.is_some(), "the other features apply");
    assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "port"), ["0: Accepted=False Conflicted"]);
    let expected = "BackendPolicy shop/port: spec.retryBudget: XBackendTrafficPolicy shop/standard takes precedence for Service \
                    \"shop/web\"; feature left out for this Service";
    assert_eq!(problems(&translator), [expected]);
    // A policy of Gateway API without a retry budget leaves that of the BackendPolicy in effect.
    let standard = traffic_policy("standard").target("web").session("Cookie", None);
    let translator = translated(&shop([of_port.into(), standard.into()]));
    assert_eq!(budget(translator.model()), Some(RetryBudget { percent: 20, min_concurrency: 3 }));
    assert_eq!(conditions(&translator, Kind::BACKEND_POLICY, "port"), ["0: Accepted=True Accepted"]);
}

#[test]
fn the_older_of_two_policies_applies_and_a_target_must_be_a_service_that_exists() {
    let older = traffic_policy("older").created(1).target("web").retries(10, 1, "1s");
    let younger = traffic_policy("younger").created(2).target("web").target("gone").target_of_kind("Secret", "web");
    let translator = translated(&shop([older.into(), younger.retries(50, 1, "1s").session("Cookie", None).into()]));
    assert_eq!(budget(translator.model()), Some(RetryBudget { percent: 10, min_concurrency: 1 }));
    assert_eq!(sessions(translator.model(), "x.test"), ["-"]);
    assert_eq!(conditions(&translator, KIND, "older"), ["0: Accepted=True Accepted"]);
    let expected = ["0: Accepted=False Conflicted", "1: Accepted=False TargetNotFound", "2: Accepted=False Invalid"];
    assert_eq!(conditions(&translator, KIND, "younger"), expected);
}

#[test]
fn a_rate_is_limited_by_the_settings_and_rounded_up() {
    for (count, interval, expected) in [(1, "1h", 1), (7, "2s", 4), (10, "100ms", 100), (1_000_000, "1ms", 10_000)] {
        let translator = translated(&shop([traffic_policy("p").target("web").retries(20, count, interval).into()]));
        let expected = RetryBudget { percent: 20, min_concurrency: expected };
        assert_eq!(budget(translator.model()), Some(expected), "{count} per {interval}");
    }
    let translator = translated(&shop([traffic_policy("p").target("web").retries(20, 1_000_000, "1ms").into()]));
    assert_eq!(conditions(&translator, KIND, "p"), ["0: Accepted=False Invalid"]);
    for (percent, count, interval) in [(101, 1, "1s"), (20, 0, "1s"), (20, 1, "0s"), (20, 1, "2h")] {
        let policy = traffic_policy("p").target("web").retries(percent, count, interval).session("Cookie", Some("s"));
        let translator = translated(&shop([policy.into()]));
        assert_eq!(budget(translator.model()), None);
        assert_eq!(sessions(translator.model(), "x.test"), ["cookie s /"], "the other feature applies");
        assert_eq!(conditions(&translator, KIND, "p"), ["0: Accepted=False Invalid"]);
    }
}

#[test]
fn sessions_apply_to_rules_with_one_backend_and_none_of_their_own() {
    let own = http_route("own").parent("public").host("own.test").rule("/", "web:80");
    let named = || SessionPersistence { session_name: Some("mine".into()), ..SessionPersistence::default() };
    let own = own.change(|rule| rule.session_persistence = Some(named()));
    let divided = http_route("divided").parent("public").host("divided.test").rule("/", "web:80").backend("api:80");
    let broken = http_route("broken").parent("public").host("broken.test").rule("/", "web:80").backend("gone:80");
    let policy = traffic_policy("p").target("web").session("Header", Some("x-cart"));
    let mut objects = shop([own.into(), divided.into(), broken.into(), policy.into()]);
    let mut translator = translated(&objects);
    let of = |translator: &Translator, name: &str| sessions(translator.model(), name).join(", ");
    assert_eq!(of(&translator, "x.test"), "header x-cart");
    assert_eq!(of(&translator, "y.test"), "header x-cart", "an Ingress");
    assert_eq!(of(&translator, "own.test"), "cookie mine /");
    assert_eq!(of(&translator, "divided.test"), "-");
    assert_eq!(of(&translator, "broken.test"), "-");
    assert_eq!(budget(translator.model()), None);
    // A change reaches the routes, and a removal too.
    objects.apply(traffic_policy("p").target("web").session("Cookie", None).into());
    let mut changed = ChangedInputs::default();
    changed.insert(Input::new(KIND, ObjectKey::new("shop", "p")));
    translator.update(&objects, &Settings::default(), &changed);
    let name = of(&translator, "x.test");
    assert!(name.starts_with("cookie lockgate-") && name.ends_with(" /"), "{name}");
    assert_eq!(of(&translator, "y.test"), name);
    assert_eq!(translator.model(), &translate(&objects, &Settings::default()).model);
    objects.delete(KIND, &ObjectKey::new("shop", "p"));
    translator.update(&objects, &Settings::default(), &changed);
    assert_eq!(of(&translator, "x.test"), "-");
}
