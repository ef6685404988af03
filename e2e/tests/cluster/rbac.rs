//! The permissions of the controller's ServiceAccount are exactly those in docs/security.md.

use std::collections::BTreeSet;

use e2e::lab::Installation;
use e2e::{Lab, Target};
use hyper::Method;
use serde_json::{Value, json};

/// Permissions: `list networking.k8s.io/ingresses`, `get /secrets NAME`.
pub type Rights = BTreeSet<String>;

/// Returns the permissions of a release in the first `tables` tables of docs/security.md. `place` contains the roles of the namespace:
/// `cluster`, `watched`, `own`, `default`. The second table has the permissions for the Services of Gateways, and the third table those
/// for dedicated fleets.
pub fn documented(release: &str, place: &[&str], tables: usize) -> Rights {
    let path = e2e::process::repository().join("docs/security.md");
    let text = std::fs::read_to_string(path).expect("docs/security.md");
    let mut rights = Rights::new();
    let tables = text.split("\n| where | API group |").skip(1).take(tables);
    for row in tables.flat_map(|table| table.lines().skip(2).take_while(|line| line.starts_with('|'))) {
        let cells: Vec<Vec<&str>> =
            row.trim_matches('|').split('|').map(|cell| cell.split(',').map(str::trim).collect()).collect();
        let [places, group, resources, names, verbs, _] = &cells[..] else { panic!("six columns: {row}") };
        if places.iter().any(|where_| place.contains(where_)) {
            let names = names.iter().map(|name| name.replacen("lockgate", release, 1)).collect::<Vec<_>>();
            add(&mut rights, group, resources, &names, verbs);
        }
    }
    assert!(rights.len() > 3, "the table was not found");
    rights
}

fn add(rights: &mut Rights, groups: &[&str], resources: &[&str], names: &[String], verbs: &[&str]) {
    for (group, resource) in groups.iter().flat_map(|group| resources.iter().map(move |resource| (group, resource))) {
        for (name, verb) in names.iter().flat_map(|name| verbs.iter().map(move |verb| (name, verb))) {
            rights.insert(format!("{verb} {group}/{resource} {name}").trim_end().to_owned());
        }
    }
}

/// A client with the permissions of a service account.
pub struct Account {
    api: Target,
}

impl Account {
    pub async fn new(lab: &Lab, namespace: &str, name: &str) -> Self {
        let token = lab.kubectl(&["--namespace", namespace, "create", "token", name], "").await;
        Self { api: lab.api_with_token(token.trim()).field("content-type", "application/json") }
    }

    async fn send(&self, method: Method, path: &str, body: &Value) -> (u16, Value) {
        let answer = self.api.send(method, path, body.to_string()).await.expect("an answer of the API server");
        (answer.status, serde_json::from_slice(&answer.body).unwrap_or_default())
    }

    /// Returns all permissions in a namespace, as reported by the API server.
    async fn rights(&self, namespace: &str) -> Rights {
        let path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
        let review = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
            "spec": { "namespace": namespace } });
        let (status, answer) = self.send(Method::POST, path, &review).await;
        assert_eq!(status, 201, "{answer}");
        assert_eq!(answer["status"]["incomplete"], false, "{answer}");
        let mut rights = Rights::new();
        for rule in answer["status"]["resourceRules"].as_array().into_iter().flatten() {
            let list = |field: &str| -> Vec<&str> {
                rule[field].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
            };
            let names = list("resourceNames");
            let names: Vec<String> =
                if names.is_empty() { vec![String::new()] } else { names.iter().map(ToString::to_string).collect() };
            add(&mut rights, &list("apiGroups"), &list("resources"), &names, &list("verbs"));
        }
        for rule in answer["status"]["nonResourceRules"].as_array().into_iter().flatten() {
            rights.insert(rule.to_string());
        }
        rights
    }
}

/// Returns the permissions that not every service account has.
pub async fn rights(lab: &Lab, account: &Account, namespace: &str) -> Rights {
    let everybody = Account::new(lab, "default", "default").await.rights(namespace).await;
    let own = account.rights(namespace).await;
    own.difference(&everybody).cloned().collect()
}

#[track_caller]
pub fn assert_same(found: &Rights, expected: &Rights, place: &str) {
    let more: Vec<_> = found.difference(expected).collect();
    let less: Vec<_> = expected.difference(found).collect();
    assert!(more.is_empty() && less.is_empty(), "{place}: not in docs/security.md: {more:?}; only there: {less:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_account_may_do_what_the_docs_say() {
    let lab = Lab::shared().await;
    let lockgate = lab.lockgate().await;
    let account = Account::new(&lab, &lockgate.namespace, &lockgate.name()).await;
    for (namespace, place) in
        [("default", &["cluster", "watched"][..]), (&lockgate.namespace, &["cluster", "watched", "own"])]
    {
        let found = rights(&lab, &account, namespace).await;
        println!("in the namespace {namespace}: {} rights", found.len());
        // The second table applies if the lab had Gateway API when the chart was installed, which other tests decide.
        let writes_services = found.iter().any(|right| right.starts_with("create /services"));
        assert_same(&found, &documented(&lockgate.name(), place, 1 + usize::from(writes_services)), namespace);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn with_watched_namespaces_it_is_refused_everything_in_others() {
    let lab = Lab::shared().await;
    let (own, watched, other) =
        (lab.namespace("rbac-own").await, lab.namespace("rbac-watched").await, lab.namespace("rbac-other").await);
    for space in [&watched, &other] {
        space.kubectl(&["create", "secret", "generic", "key", "--from-literal=a=b"], "").await;
        space.kubectl(&["create", "ingress", "shop", "--rule=shop.test/*=shop:80"], "").await;
    }
    let namespaces = format!("watchNamespaces={{{}}}", watched.name);
    let flags = ["--set", &namespaces, "--set", "ingressClass.create=false", "--set", "controller.replicas=1"];
    let flags = [&flags[..], &["--set", "envoy.replicas=1", "--set", "gatewayAPI.manageServices=false"]].concat();
    // It becomes ready with only these permissions.
    let narrow = Installation::new(&lab, "narrow", &own.name, &flags).await;
    let account = Account::new(&lab, &own.name, &narrow.name()).await;
    for (namespace, place) in [
        (&own.name, &["cluster", "own"][..]),
        (&watched.name, &["cluster", "watched"]),
        (&other.name, &["cluster"]),
        (&"default".to_owned(), &["cluster", "default"]),
    ] {
        assert_same(&rights(&lab, &account, namespace).await, &documented(&narrow.name(), place, 1), namespace);
    }

    let secrets = |namespace: &str| format!("/api/v1/namespaces/{namespace}/secrets");
    let ingress = |namespace: &str| format!("/apis/networking.k8s.io/v1/namespaces/{namespace}/ingresses/shop");
    let (listed, _) = account.send(Method::GET, &secrets(&watched.name), &Value::Null).await;
    assert_eq!(listed, 200, "what it may");
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" },
        "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let secret = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" } });
    let shop = watched.ingress("shop").await;
    let refused = [
        (Method::GET, secrets(&other.name), Value::Null),
        (Method::GET, secrets(&own.name), Value::Null),
        (Method::GET, "/api/v1/secrets".into(), Value::Null),
        (Method::GET, format!("{}/key", secrets(&watched.name)), Value::Null),
        (Method::GET, format!("{}/key", secrets(&other.name)), Value::Null),
        (Method::POST, secrets(&own.name), secret),
        (Method::DELETE, format!("{}/{}-xds-ca", secrets(&own.name), narrow.name()), Value::Null),
        (Method::GET, "/apis/networking.k8s.io/v1/ingresses".into(), Value::Null),
        (Method::GET, ingress(&other.name), Value::Null),
        (Method::PUT, ingress(&watched.name), shop.clone()),
        (Method::DELETE, ingress(&watched.name), Value::Null),
        (Method::PUT, format!("{}/status", ingress(&other.name)), shop.clone()),
        (Method::POST, format!("/api/v1/namespaces/{}/pods", own.name), pod),
        (Method::GET, "/api/v1/nodes".into(), Value::Null),
        (Method::GET, "/apis/rbac.authorization.k8s.io/v1/clusterroles".into(), Value::Null),
    ];
    for (method, path, body) in &refused {
        let (status, answer) = account.send(method.clone(), path, body).await;
        assert_eq!(status, 403, "{method} {path}: {answer}");
    }
    println!("{} requests with its token, all refused", refused.len());

    // The only way to write an Ingress is its status.
    let merge = Account { api: account.api.field("content-type", "application/merge-patch+json") };
    let patch = json!({ "spec": { "rules": [{ "host": "taken.test" }] },
        "status": { "loadBalancer": { "ingress": [{ "ip": "192.0.2.1" }] } } });
    let (status, _) = merge.send(Method::PATCH, &ingress(&watched.name), &patch).await;
    assert_eq!(status, 403);
    let (status, answer) = merge.send(Method::PATCH, &format!("{}/status", ingress(&watched.name)), &patch).await;
    assert_eq!(status, 200, "{answer}");
    assert_eq!(watched.ingress("shop").await["spec"], shop["spec"]);
    // The controller soon writes its own status again.
    assert_ne!(answer["status"], shop["status"]);

    let user = format!("--as=system:serviceaccount:{}:{}", own.name, narrow.name());
    let can = lab.try_kubectl(&["auth", "can-i", "list", "secrets", "--namespace", &other.name, &user], "").await;
    assert!(can.is_err(), "kubectl auth can-i: {can:?}");
    narrow.uninstall().await;
}
