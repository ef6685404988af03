//! Roots that include objects of other namespaces.

use std::collections::BTreeMap;

use e2e::Lab;
use e2e::lab::Namespace;
use serde_json::Value;

use super::{answers, echoed, has_status, lockgate, proxy, read, served_by, start};

/// The number of included objects.
const MANY: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_an_included_object_follows_its_root() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let (edge, shop) = (lab.namespace("edge").await, lab.namespace("shop").await);
    start(&edge, &["web"]).await;
    start(&shop, &["cart"]).await;

    let cart = proxy("cart", "routes: [{ services: [{ name: cart, port: 80 }] }]");
    shop.apply(&cart).await;
    has_status(&shop, "cart", "orphaned Orphaned/Orphaned, not Programmed").await;

    let includes = format!(
        "includes:\n- {{ name: cart, namespace: {0}, conditions: [{{ prefix: /cart }}] }}\n\
         - {{ name: gone, namespace: {0}, conditions: [{{ prefix: /gone }}] }}\n",
        shop.name
    );
    let host = "virtualhost: { fqdn: includes.test }\nroutes: [{ services: [{ name: web, port: 80 }] }]\n";
    edge.apply(&proxy("front", &format!("{host}{includes}"))).await;
    // The missing include does not affect the other routes.
    has_status(&edge, "front", "invalid IncludeError/IncludeNotFound, Programmed").await;
    has_status(&shop, "cart", "valid, Programmed").await;
    let target = lockgate.http("includes.test");
    answers(&target, "/", 200).await;
    let served = async |path: &str| {
        let echoed = echoed(&target, path).await;
        (echoed.namespace, echoed.service)
    };
    let (of_edge, of_shop) = ((edge.name.clone(), "web".to_owned()), (shop.name.clone(), "cart".to_owned()));
    assert_eq!(
        [served("/").await, served("/cart/1").await, served("/cartoon").await],
        [&of_edge, &of_shop, &of_shop].map(Clone::clone)
    );
    assert_eq!(target.get("/gone").await.expect("an answer").status, 502);

    shop.apply(&proxy("gone", "routes: [{ conditions: [{ prefix: /now }], services: [{ name: cart, port: 80 }] }]"))
        .await;
    has_status(&shop, "gone", "valid, Programmed").await;
    has_status(&edge, "front", "valid, Programmed").await;
    answers(&target, "/gone/now", 200).await;
    assert_eq!(served("/gone/now").await, of_shop);

    // The objects of the team are orphaned again, and are no longer served.
    edge.kubectl(&["delete", "httpproxy", "front"], "").await;
    for name in ["cart", "gone"] {
        has_status(&shop, name, "orphaned Orphaned/Orphaned, not Programmed").await;
    }
    answers(&target, "/cart/1", 404).await;
    let addresses = read(&shop, "cart").await["status"]["loadBalancer"].clone();
    assert!(addresses["ingress"].as_array().is_none_or(Vec::is_empty), "{addresses}");
}

/// Returns the resource version of each HTTPProxy of a namespace, and the number of status writes. The API server keeps the version if a
/// write changes nothing.
async fn written(space: &Namespace<'_>) -> BTreeMap<String, (String, usize)> {
    let path = format!("/apis/projectcontour.io/v1/namespaces/{}/httpproxies", space.name);
    let requests = space.lab().requests();
    let writes = |name: &str| {
        let uri = format!("{path}/{name}/status?");
        requests.iter().filter(|request| request.verb == "patch" && request.uri.starts_with(&uri)).count()
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |proxy: &Value| {
        let name = text(&proxy["metadata"]["name"]);
        let writes = writes(&name);
        (name, (text(&proxy["metadata"]["resourceVersion"]), writes))
    };
    space.lab().list(&path).await.iter().map(of).collect()
}

/// Formats an included object with a route.
fn team(number: usize, service: &str) -> String {
    let route = format!("routes: [{{ services: [{{ name: {service}, port: 80 }}] }}]");
    proxy(&format!("team-{number}"), &route)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_an_included_object_writes_its_status_only() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let space = lab.namespace("many").await;
    start(&space, &["web", "cart"]).await;
    let includes: String = (0..MANY)
        .map(|number| format!("- {{ name: team-{number}, conditions: [{{ prefix: /{number}/ }}] }}\n"))
        .collect();
    let root = proxy("front", &format!("virtualhost: {{ fqdn: many.test }}\nincludes:\n{includes}"));
    let teams: Vec<String> = (0..MANY).map(|number| team(number, "web")).collect();
    space.apply(&(root + &teams.concat())).await;
    let programmed = async |names: &[String]| {
        for name in names {
            has_status(&space, name, "valid, Programmed").await;
        }
    };
    let names: Vec<String> = (0..MANY).map(|number| format!("team-{number}")).collect();
    programmed(&[&["front".to_owned()], &*names].concat()).await;
    let before = written(&space).await;

    // The second change is programmed after all writes that follow the first one.
    let changed = ["team-3".to_owned(), "team-7".to_owned()];
    for number in [3, 7] {
        space.apply(&team(number, "cart")).await;
        programmed(&[format!("team-{number}")]).await;
    }
    let target = lockgate.http("many.test");
    for (path, service) in [("/3/", "cart"), ("/7/", "cart"), ("/4/", "web")] {
        served_by(&target, path, service).await;
    }
    let after = written(&space).await;
    let others = |written: &BTreeMap<String, (String, usize)>| {
        let mut others = written.clone();
        others.retain(|name, _| !changed.contains(name));
        others
    };
    assert_eq!(others(&after), others(&before));
    // The writes are found in the audit log.
    let is_written = |name: &String| after[name].0 != before[name].0 && after[name].1 > before[name].1;
    assert!(changed.iter().all(is_written), "{after:?}");
}
