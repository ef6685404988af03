//! Redirects of Services that Envoy follows itself, in scopes and in one route configuration: to the same object on the same host, with all
//! access policies, and not without end.

use bytes::Bytes;
use e2e::manifests::{documents, service};
use e2e::server::Server;
use e2e::{Authority, Envoy, Lockgate, Manifests, Mode, Source, Target};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::{Method, Request, Response};

use super::answers;

/// Two roots, one with TLS, and an included object.
const PROXIES: &str = "
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: root, namespace: default }
spec:
  virtualhost: { fqdn: x.test, tls: { secretName: cert } }
  includes: [{ name: team, conditions: [{ prefix: /team }] }]
  routes:
  - permitInsecure: true
    services: [{ name: web, port: 80 }]
  - conditions: [{ prefix: /follow }]
    permitInsecure: true
    services: [{ name: web, port: 80 }]
    internalRedirectPolicy: { maxInternalRedirects: 3, redirectResponseCodes: [302, 307] }
  - conditions: [{ prefix: /once }]
    permitInsecure: true
    services: [{ name: web, port: 80 }]
    internalRedirectPolicy: {}
  - conditions: [{ prefix: /forbidden }]
    permitInsecure: true
    ipDenyPolicy: [{ source: Peer, cidr: 127.0.0.1/8 }]
    services: [{ name: web, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: team, namespace: default }
spec:
  routes: [{ permitInsecure: true, services: [{ name: web, port: 80 }] }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: other, namespace: default }
spec:
  virtualhost: { fqdn: other.test }
  routes: [{ services: [{ name: web, port: 80 }] }]
";

/// The Namespace whose uid identifies the Kubernetes cluster, for marks against loops.
const CLUSTER: &str =
    "apiVersion: v1\nkind: Namespace\nmetadata: { name: kube-system, uid: 1b4e28ba-2fa1-11d2-883f-0016d3cca427 }\n";

/// Redirects to the query of the request with the status in the header `x-status`, or shows the request.
async fn redirects(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let header = |name: &str| {
        let values = request.headers().get_all(name).iter();
        values.map(|value| value.to_str().unwrap_or_default()).collect::<Vec<_>>().join("; ")
    };
    let mut response = Response::new(Full::new(Bytes::from(request.uri().path().to_owned())));
    if let Some(location) = request.uri().query() {
        *response.status_mut() = header("x-status").parse().unwrap_or(hyper::StatusCode::FOUND);
        response.headers_mut().insert("location", location.parse().expect("a value"));
    }
    for (shown, name) in [("x-marks", "cdn-loop"), ("x-clients", "x-forwarded-for")] {
        response.headers_mut().insert(shown, header(name).parse().expect("a value"));
    }
    response
}

async fn redirects_are_followed(discovery: &str) {
    let (manifests, config, authority) = (Manifests::new(), Manifests::new(), Authority::new());
    let server = Server::http(redirects).await;
    let certificate = authority.issue(&["x.test"]).secret("default", "cert");
    let objects = [CLUSTER.into(), service("web", "", &[server.address]), certificate, PROXIES.into()];
    manifests.write("all.yaml", &documents(&objects));
    config.write("lockgate.yaml", &format!("routes: {{ discovery: {discovery} }}\n"));
    let file = config.file("lockgate.yaml").display().to_string();
    let source = Source::Manifests(manifests.path().into());
    let lockgate = Lockgate::start(&source, &["--watch-ingress-without-class", "--config", &file]).await;
    let _envoy = Envoy::start(&lockgate, Mode::Delta).await;
    let plain = Target::http(lockgate.http, "x.test");
    let secured = Target::https(lockgate.https, "x.test", authority.der());
    answers(&plain, "/", 200).await;
    answers(&secured, "/", 200).await;
    for (target, scheme, another) in [(&plain, "http", "https"), (&secured, "https", "http")] {
        let get = async |path: &str| target.get(path).await.expect("an answer");
        // A path that redirects along these paths of the host.
        let via = |paths: &[&str]| paths.join(&format!("?{scheme}://x.test"));
        let to_new = via(&["/follow", "/new"]);
        let followed = get(&to_new).await;
        assert_eq!((followed.status, &*followed.text()), (200, "/new"), "{scheme} {discovery}");
        // The mark against loops is there once, and the client is named once.
        let marks = followed.header("x-marks");
        assert!(marks.starts_with("lockgate-") && !marks.contains([';', ',']), "{marks}");
        assert_eq!(followed.header("x-clients"), get("/new").await.header("x-clients"));
        assert_eq!(get(&via(&["/unfollowed", "/new"])).await.status, 302);
        let with_status = async |status: &str| target.clone().field("x-status", status).get(&to_new).await;
        assert_eq!(with_status("307").await.expect("an answer").status, 200);
        assert_eq!(with_status("301").await.expect("an answer").status, 301);
        let with_body = target.send(Method::POST, &to_new, "body").await.expect("an answer");
        assert_eq!(with_body.status, 200);
        // Requests that follow a redirect pass the access policies of the new route.
        assert_eq!(get(&via(&["/follow", "/forbidden"])).await.status, 403);
        // Other objects, hosts, and schemes are not reached, and neither are paths without a host.
        let [team, other, changed] = [(scheme, "x.test/team"), (scheme, "other.test/"), (another, "x.test/new")]
            .map(|(scheme, rest)| format!("{scheme}://{rest}"));
        for location in [&*team, &*other, &*changed, "/new"] {
            let answer = get(&format!("/follow?{location}")).await;
            assert_eq!((answer.status, answer.header("location")), (302, location), "{scheme} {discovery}");
        }
        assert_eq!(get(&via(&["/once", "/new"])).await.status, 200);
        assert_eq!(get(&via(&["/once", "/once", "/new"])).await.status, 302);
        assert_eq!(get(&via(&["/follow", "/follow", "/follow", "/new"])).await.status, 200);
        assert_eq!(get(&via(&["/follow", "/follow", "/follow", "/follow", "/new"])).await.status, 302);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_in_scopes() {
    redirects_are_followed("auto").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_followed_in_one_route_configuration() {
    redirects_are_followed("rds").await;
}
