#![allow(clippy::unwrap_used, clippy::expect_used)]

use lockgate_route::testing::http_proxies::http_proxy;
use lockgate_route::translate::Verdict;
use lockgate_route::translate::verdict::Detail;
use lockgate_xds::provenance::ObjectRef;
use serde_json::json;

use super::*;
use crate::inspection::{Inspection, Published};

fn proxy() -> HttpProxy {
    let object = http_proxy("cart", &json!({ "virtualhost": { "fqdn": "a.test" } }));
    object.get::<HttpProxy>().expect("an HTTPProxy").clone()
}

fn verdict(status: Status, reason: &'static str, message: &str) -> Verdict {
    let object = ObjectRef::new("HTTPProxy", "shop", "cart");
    Verdict { message: message.into(), ..Verdict::new(object, "Valid", status, reason) }
}

fn entry(severity: Severity, r#type: &'static str, reason: &'static str) -> Verdict {
    Verdict { detail: Some(Detail { severity, r#type }), ..verdict(Status::True, reason, "why") }
}

fn address(ip: &str) -> LoadBalancerAddress {
    LoadBalancerAddress { ip: Some(ip.into()), ..LoadBalancerAddress::default() }
}

/// Writes the next status, and returns whether it needs the acceptance by Envoys.
fn write(proxy: &mut HttpProxy, facts: &Facts) -> Option<bool> {
    let goal = proxy.goal(facts)?;
    write_status(proxy, &goal.status);
    Some(goal.needs.is_some())
}

/// Writes the status while Envoys have not accepted the object. Returns whether there is one.
fn write_interim(proxy: &mut HttpProxy, facts: &Facts) -> bool {
    let interim = proxy.goal(facts).and_then(|goal| goal.interim);
    interim.iter().for_each(|status| write_status(proxy, status));
    interim.is_some()
}

fn write_status(proxy: &mut HttpProxy, status: &DesiredHttpProxyStatus) {
    let patch = proxy.patch(status, 2, Timestamp::UNIX_EPOCH);
    let mut status = serde_json::to_value(&proxy.status).unwrap();
    for (name, value) in patch.as_object().unwrap() {
        status[name] = value.clone();
    }
    if status["loadBalancer"]["ingress"].is_null() {
        status["loadBalancer"] = json!({});
    }
    proxy.status = serde_json::from_value(status).unwrap();
}

fn types(proxy: &HttpProxy) -> Vec<String> {
    let text = |one: &DetailedCondition| {
        let Condition { r#type, status, reason, .. } = &one.condition;
        format!("{}={status} {reason} {} {}", r#type, one.errors.len(), one.warnings.len())
    };
    proxy.status.conditions.iter().map(text).collect()
}

#[test]
fn the_status_is_that_of_contour_and_tells_the_acceptance() {
    let (published, inspection) = (Published::example(1, 1), Inspection::default());
    let verdicts = [
        verdict(Status::False, "ErrorPresent", "At least one error present, see Errors for details"),
        entry(Severity::Error, "RouteError", "RouteActionCountNotValid"),
        entry(Severity::Warning, "RouteError", "ShadowedRoute"),
    ];
    let ours = [address("192.0.2.1")];
    let facts = Facts { addresses: &ours, ..Facts::example(&inspection, Some(&published), &verdicts) };
    let mut proxy = proxy();
    proxy.status.current_status = "NotReconciled".into();
    assert!(write_interim(&mut proxy, &facts));
    assert_eq!(types(&proxy), ["Valid=False ErrorPresent 1 1", "lockgate.dev/Programmed=False Pending 0 0"]);
    assert_eq!(&*proxy.status.current_status, "invalid");
    assert!(proxy.status.load_balancer.ingress.is_empty(), "clients have no address before the acceptance");
    assert_eq!(write(&mut proxy, &facts), Some(true));
    assert_eq!(proxy.status.load_balancer.ingress, ours);
    assert!(proxy.status.conditions[1].condition.message.starts_with("accepted by 2 Envoys"));
    assert_eq!(write(&mut proxy, &facts), None);

    let valid = [verdict(Status::True, "Valid", "Valid HTTPProxy")];
    let facts = Facts { verdicts: &valid, ..facts };
    assert!(write_interim(&mut proxy, &facts));
    assert_eq!(write(&mut proxy, &facts), None, "the acceptance of the revision is kept");
    assert_eq!(types(&proxy), ["Valid=True Valid 0 0", "lockgate.dev/Programmed=True Programmed 0 0"]);
    assert_eq!((&*proxy.status.current_status, &*proxy.status.description), ("valid", "Valid HTTPProxy"));
}

#[test]
fn an_orphan_has_no_address_and_a_withdrawn_object_keeps_the_rest() {
    let (published, inspection) = (Published::example(1, 1), Inspection::default());
    let verdicts = [verdict(Status::False, "Orphaned", "orphan"), entry(Severity::Error, "Orphaned", "Orphaned")];
    let ours = [address("192.0.2.1")];
    let facts = Facts { addresses: &ours, ..Facts::example(&inspection, Some(&published), &verdicts) };
    let mut proxy = proxy();
    proxy.status.load_balancer.ingress = vec![address("192.0.2.1"), address("192.0.2.9")];
    assert_eq!(write(&mut proxy, &facts), Some(false));
    assert_eq!((&*proxy.status.current_status, &*proxy.status.description), ("orphaned", "orphan"));
    assert_eq!(proxy.status.load_balancer.ingress, [address("192.0.2.9")]);
    assert_eq!(write(&mut proxy, &facts), None);
    let gone = Facts { published: None, withdrawing: true, ..facts };
    assert_eq!(write(&mut proxy, &gone), Some(false));
    assert_eq!(types(&proxy), ["Valid=False Orphaned 1 0"]);
    assert_eq!(write(&mut proxy, &gone), None);
}
