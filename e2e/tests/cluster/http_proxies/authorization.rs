//! External authorization by a gRPC server behind a Service of the lab.

use e2e::authorizer::DENIED;
use e2e::manifests::{DEFAULT, service};
use e2e::{Authorizer, Lab};

use super::{answers, echoed, has_status, lockgate, proxy, start};

/// The address of the node, where the authorization server of the spec listens: pods cannot reach the loopback interface.
const NODE: [u8; 4] = [10, 244, 0, 1];

const EXTENSION: &str = "\
apiVersion: projectcontour.io/v1alpha1
kind: ExtensionService
metadata: { name: login }
spec: { protocol: h2c, services: [{ name: login, port: 80 }] }
";

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_authorized_by_an_extension_service() {
    let lab = Lab::shared().await;
    let lockgate = lockgate(&lab).await;
    let (security, shop) = (lab.namespace("security").await, lab.namespace("shop").await);
    start(&shop, &["web"]).await;
    let server = Authorizer::start_at((NODE, 0).into()).await;
    let objects = service("login", "", &[server.address]).replace(DEFAULT, &format!("namespace: {}", security.name));
    security.apply(&format!("{objects}---\n{EXTENSION}")).await;
    let fields = format!(
        "virtualhost:\n  fqdn: authorized.test\n  authorization: {{ extensionRef: {{ name: login, namespace: {} }} }}\n\
         routes:\n- services: [{{ name: web, port: 80 }}]\n- conditions: [{{ prefix: /open }}]\n  authPolicy: {{ disabled: true }}\n  \
         services: [{{ name: web, port: 80 }}]\n",
        security.name
    );
    shop.apply(&proxy("authorized", &fields)).await;
    has_status(&shop, "authorized", "valid, Programmed").await;

    let target = lockgate.http("authorized.test");
    answers(&target, "/orders", 200).await;
    assert_eq!(echoed(&target, "/orders").await.headers["X-User"][0], "alice");
    let denied = target.get("/orders?deny").await.expect("an answer");
    let (status, (name, value), body) = DENIED;
    assert_eq!((denied.status, denied.header(name), &*denied.text()), (status, value, body));
    assert!(server.was_asked("/orders?deny"));
    assert!(echoed(&target, "/open?deny").await.headers["X-User"].is_null());
    assert!(!server.was_asked("/open?deny"));

    // Without the server, the host is closed, except for routes that switch authorization off.
    security.kubectl(&["delete", "extensionservice", "login"], "").await;
    has_status(&shop, "authorized", "invalid AuthError/ExtensionServiceNotFound, Programmed").await;
    answers(&target, "/orders", 503).await;
    answers(&target, "/open", 200).await;
    security.apply(EXTENSION).await;
    has_status(&shop, "authorized", "valid, Programmed").await;
    answers(&target, "/orders", 200).await;
}
