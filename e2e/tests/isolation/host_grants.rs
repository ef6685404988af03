//! An Ingress and an HTTPRoute of another namespace that are older than the victim's do not take a host of a HostGrant.
//!
//! The objects of the attacker answer 503 and 302, and those of the victim 308 and 301.

use e2e::manifests::{documents, gateway_definitions, ingress, ingress_class, service};
use e2e::process::repository;
use e2e::{ApiServer, Envoy, Lockgate, Mode, Target, wait_until};
use serde_json::Value;

/// The statuses of the Ingress and of the HTTPRoute.
const ATTACKER: [u16; 2] = [503, 302];
const VICTIM: [u16; 2] = [308, 301];
const NOBODY: [u16; 2] = [404, 404];

const SETTINGS: &str = "xds: { address: '127.0.0.1:XDS' }\nadmin: { address: '127.0.0.1:ADMIN' }\n\
    leaderElection: { enabled: true }\nlisteners: { http: { port: HTTP_PORT }, https: { port: HTTPS_PORT }, \
    stats: { port: STATS } }\nstatus: { addresses: [192.0.2.10], envoyService: default/envoy }\n";

const GATEWAY: &str = "
apiVersion: gateway.networking.k8s.io/v1
kind: GatewayClass
metadata: { name: edge }
spec: { controllerName: lockgate.dev/gateway-controller }
---
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: { name: public, namespace: default }
spec:
  gatewayClassName: edge
  listeners: [{ name: http, port: 80, protocol: HTTP, allowedRoutes: { namespaces: { from: All } } }]
";

/// The HostGrant for the namespace of the victim, which has the label.
const GRANT: &str = "
apiVersion: lockgate.dev/v1alpha1
kind: HostGrant
metadata: { name: shop }
spec: { hosts: [shop.test], namespaces: { selector: { matchLabels: { team: shop } } } }
";

/// Formats the Ingress and the HTTPRoute of a namespace. An Ingress without a backend answers 308 or 503.
fn objects(namespace: &str, [by_ingress, by_route]: [u16; 2]) -> String {
    let redirect = format!("annotations: {{ ingress.kubernetes.io/force-ssl-redirect: \"{}\" }}", by_ingress == 308);
    let ingress = ingress("shop", "shop.test", "none", None)
        .replace("namespace: default }", &format!("namespace: {namespace}, {redirect} }}"));
    let route = format!(
        "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: shop, namespace: {namespace} }}\n\
         spec: {{ parentRefs: [{{ name: public, namespace: default }}], hostnames: [shop.test], rules: [{{ filters: [{{ type: \
         RequestRedirect, requestRedirect: {{ hostname: other.test, statusCode: {by_route} }} }}] }}] }}\n"
    );
    documents(&[ingress, route])
}

/// A cluster with a Gateway that both namespaces share.
struct Site {
    server: ApiServer,
    lockgate: Lockgate,
    _envoy: Envoy,
    /// The ports of Envoy for Ingresses and for the Gateway.
    ports: [u16; 2],
}

impl Site {
    async fn open() -> Self {
        let server = ApiServer::start().await;
        let kinds = ["gatewayclasses", "gateways", "httproutes", "referencegrants"];
        let definitions = gateway_definitions(&kinds).await;
        server.kubectl(&["create", "-f", "-"], &definitions).await;
        let grants = repository().join("crds/lockgate.dev_hostgrants.yaml");
        server.kubectl(&["create", "-f", &grants.display().to_string()], "").await;
        server.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
        for namespace in ["attacker", "shop"] {
            server.kubectl(&["create", "namespace", namespace], "").await;
        }
        let envoys = service("envoy", "", &["192.0.2.1:8080".parse().expect("an address")]);
        server.apply(&documents(&[ingress_class(), envoys, GATEWAY.to_owned()])).await;
        let kubeconfig = server.kubeconfig("admin").display().to_string();
        let mut lockgate = Lockgate::launch_by_file(&["--kubeconfig", &kubeconfig], SETTINGS);
        lockgate.wait_ready().await;
        wait_until("the Service of the Gateway", async || port(&server).await.is_some()).await;
        let ports = [lockgate.http, port(&server).await.expect("a port")];
        let envoy = Envoy::start(&lockgate, Mode::Delta).await;
        Self { server, lockgate, _envoy: envoy, ports }
    }

    async fn until_answered(&self, expected: [u16; 2]) {
        for (port, status) in self.ports.into_iter().zip(expected) {
            let target = Target::http(port, "shop.test");
            let answered = async || target.get("/").await.is_ok_and(|answer| answer.status == status);
            wait_until(&format!("shop.test on port {port} to be answered {status}"), answered).await;
        }
    }

    /// Returns an object in JSON.
    async fn get(&self, what: &[&str]) -> Value {
        json(&self.server, what).await
    }
}

async fn json(server: &ApiServer, what: &[&str]) -> Value {
    let text = server.kubectl(&[&["get", "--output", "json"], what].concat(), "").await;
    serde_json::from_str(&text).expect("JSON of kubectl")
}

/// Returns the port of Envoy for the Gateway, once its Service exists.
async fn port(server: &ApiServer) -> Option<u16> {
    let services = json(server, &["services"]).await;
    let service = services["items"].as_array()?.iter().find(|one| one["metadata"]["name"] == "public-edge")?.clone();
    service["spec"]["ports"][0]["targetPort"].as_u64().and_then(|port| u16::try_from(port).ok())
}

/// Returns the status and the reason of the condition `Accepted`.
fn accepted(status: &Value) -> (&str, &str) {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let condition = conditions.into_iter().find(|one| one["type"] == "Accepted").unwrap_or(&Value::Null);
    (condition["status"].as_str().unwrap_or_default(), condition["reason"].as_str().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn older_objects_of_another_namespace_do_not_take_a_granted_host() {
    let site = Site::open().await;
    // Of the same age, the lower name of the namespace precedes.
    site.server.apply(&objects("attacker", ATTACKER)).await;
    site.until_answered(ATTACKER).await;
    site.server.apply(&objects("shop", VICTIM)).await;
    site.lockgate.logged(&["Conflicted", "namespace=shop"]).await;
    site.until_answered(ATTACKER).await;

    // The HostGrant selects the namespace of the victim by its label.
    site.server.apply(GRANT).await;
    site.until_answered(NOBODY).await;
    site.server.kubectl(&["label", "namespace", "shop", "team=shop"], "").await;
    site.until_answered(VICTIM).await;
    site.lockgate.logged(&["HostNotGranted", "namespace=attacker", "spec.rules[0]"]).await;
    wait_until("the status of the HTTPRoute", async || {
        let route = site.get(&["httproute", "shop", "--namespace", "attacker"]).await;
        accepted(&route["status"]["parents"][0]) == ("False", "NotAllowedByListeners")
    })
    .await;
    wait_until("the status of the HostGrant", async || {
        accepted(&site.get(&["hostgrant", "shop"]).await["status"]) == ("True", "Accepted")
    })
    .await;
    wait_until("the Event on the Ingress", async || {
        let events = site.get(&["events", "--namespace", "attacker"]).await;
        let mut items = events["items"].as_array().into_iter().flatten();
        items.any(|one| one["reason"] == "HostNotGranted" && one["involvedObject"]["kind"] == "Ingress")
    })
    .await;

    // Nobody else receives the requests for the host of the victim.
    site.server.kubectl(&["delete", "ingress,httproute", "shop", "--namespace", "shop"], "").await;
    site.until_answered(NOBODY).await;
    site.server.kubectl(&["delete", "hostgrant", "shop"], "").await;
    site.until_answered(ATTACKER).await;
}
