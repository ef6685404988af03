//! The headers of the settings that are not those of Ingresses, with a real Envoy.

use e2e::manifests::{documents, service};
use e2e::{Authority, Echo, Envoy, Lockgate, Manifests, Mode, Source, Target};

use super::answers;

const OBJECTS: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: both, namespace: default }
spec:
  virtualhost: { fqdn: both.test, tls: { secretName: cert } }
  routes:
  - permitInsecure: true
    requestHeadersPolicy: { set: [{ name: x-internal, value: tenant }, { name: x-edge, value: tenant }] }
    services:
    - name: a
      port: 80
      requestHeadersPolicy: { set: [{ name: x-internal, value: tenant }, { name: x-edge, value: tenant }, { name: x-own, value: tenant }] }
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: both, namespace: default }
spec:
  rules:
  - host: both.test
    http: { paths: [{ path: /ingress, pathType: Prefix, backend: { service: { name: a, port: { number: 80 } } } }] }
";

const SETTINGS: &str = "
ingress: { withoutClass: true, httpsRedirect: false }
headers:
  ingresses: false
  request: { set: { x-edge: lockgate }, remove: [x-internal] }
  response: { set: { x-frame-options: DENY } }
";

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_the_settings_can_leave_ingresses_alone() {
    for (mode, discovery) in [(Mode::Delta, "scopes"), (Mode::Sotw, "rds")] {
        let (manifests, config, authority) = (Manifests::new(), Manifests::new(), Authority::new());
        let echo = Echo::start().await;
        let pair = authority.issue(&["both.test"]).secret("default", "cert");
        manifests.write("base.yaml", &documents(&[service("a", "", &[echo.address]), pair]));
        manifests.write("objects.yaml", OBJECTS);
        config.write("lockgate.yaml", &format!("{SETTINGS}routes: {{ discovery: {discovery} }}\n"));
        let file = config.file("lockgate.yaml").display().to_string();
        let lockgate = Lockgate::start(&Source::Manifests(manifests.path().into()), &["--config", &file]).await;
        let _envoy = Envoy::start(&lockgate, mode).await;
        let plain = Target::http(lockgate.http, "both.test");
        let tls = Target::https(lockgate.https, "both.test", authority.der());
        for target in [plain, tls] {
            answers(&target, "/", 200).await;
            let target = target.field("x-internal", "client").field("x-edge", "client");
            let proxy = target.get("/").await.expect("an answer");
            let text = proxy.text();
            assert_eq!(proxy.header("x-frame-options"), "DENY");
            assert!(text.contains("x-edge: lockgate\n") && text.contains("x-own: tenant\n"), "{text}");
            assert!(!text.contains("x-internal") && !text.contains("client"), "{text}");
            let ingress = target.get("/ingress").await.expect("an answer");
            let text = ingress.text();
            assert_eq!((ingress.status, ingress.header("x-frame-options")), (200, ""));
            assert!(text.contains("x-edge: client\n") && text.contains("x-internal: client\n"), "{text}");
        }
        let nobody = Target::http(lockgate.http, "nobody.test").get("/").await.expect("an answer");
        assert_eq!((nobody.status, nobody.header("x-frame-options")), (404, ""));
    }
}
