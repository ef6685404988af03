//! `lockgate migrate ingress` and `lockgate migrate httpproxy`: the answers to requests are the same before, during, and after a migration with a real
//! Envoy. Also exit codes, outputs, and the input from a real API server.

mod api_server;

use std::fs;
use std::process::{Command, Output};

use e2e::manifests::{documents, ingress_class};
use e2e::{Authority, Backend, Envoy, Lockgate, Manifests, Mode, Source, Target, lockgate, ports, wait_everywhere};
use serde_json::Value;

/// Runs `lockgate migrate ingress`.
fn migrate(args: &[&str]) -> Output {
    migrate_from("ingress", args)
}

/// Runs `lockgate migrate ingress` or `lockgate migrate httpproxy`.
fn migrate_from(kind: &str, args: &[&str]) -> Output {
    Command::new(lockgate::binary()).args(["migrate", kind]).args(args).output().expect("the program")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the namespaces, the classes, and the Services.
fn base(shop: &Backend, cart: &Backend) -> String {
    let namespace = |name: &str| {
        format!(
            "apiVersion: v1\nkind: Namespace\nmetadata: {{ name: {name}, labels: {{ kubernetes.io/metadata.name: {name} }} }}\n"
        )
    };
    let class = "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: { name: lockgate }\nspec:\n  \
                 controllerName: lockgate.dev/gateway-controller\n";
    documents(&[
        namespace("default"),
        namespace("infra"),
        class.to_owned(),
        ingress_class(),
        e2e::manifests::service("shop", "", &[shop.address]),
        e2e::manifests::service("cart", "", &[cart.address]),
    ])
}

const INGRESSES: &str = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: shop, namespace: default }
spec:
  tls: [{ hosts: [shop.test], secretName: shop }]
  rules:
    - host: shop.test
      http:
        paths:
          - { path: /, pathType: Prefix, backend: { service: { name: shop, port: { name: http } } } }
          - { path: /cart, pathType: Prefix, backend: { service: { name: cart, port: { number: 80 } } } }
          - { path: /img, pathType: ImplementationSpecific, backend: { service: { name: cart, port: { number: 80 } } } }
          - { path: /img/shop, pathType: Prefix, backend: { service: { name: shop, port: { number: 80 } } } }
          - { path: /exact, pathType: Exact, backend: { service: { name: cart, port: { number: 80 } } } }
          - { path: '/v[0-9]+/.*', pathType: ImplementationSpecific, backend: { service: { name: cart, port: { number: 80 } } } }
          - { path: /gone, pathType: Prefix, backend: { service: { name: gone, port: { number: 80 } } } }
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata:
  name: secure
  namespace: default
  annotations: { ingress.kubernetes.io/force-ssl-redirect: 'true' }
spec:
  tls: [{ hosts: ['*.secure.test'], secretName: secure }]
  rules:
    - host: '*.secure.test'
      http:
        paths:
          - { path: /, pathType: Prefix, backend: { service: { name: cart, port: { number: 80 } } } }
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: { name: rest, namespace: default }
spec:
  defaultBackend: { service: { name: shop, port: { number: 80 } } }
";

const PROXIES: &str = "\
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: shop, namespace: default }
spec:
  ingressClassName: lockgate
  virtualhost: { fqdn: shop.test, tls: { secretName: shop } }
  includes:
    - { name: cart, conditions: [{ prefix: /cart }] }
  routes:
    - services: [{ name: shop, port: 80 }]
    - conditions: [{ prefix: /img }]
      services: [{ name: cart, port: 80 }]
    - conditions: [{ prefix: /img/shop }]
      permitInsecure: true
      services: [{ name: shop, port: 80 }]
    - conditions: [{ exact: /exact }]
      requestRedirectPolicy: { scheme: https, hostname: other.test, path: /new }
    - conditions: [{ regex: '/v[0-9]+/.*' }]
      ipDenyPolicy: [{ source: Remote, cidr: 127.0.0.0/8 }]
      services: [{ name: cart, port: 80 }]
    - conditions: [{ prefix: /gone }]
      services: [{ name: gone, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: cart, namespace: default }
spec:
  ingressClassName: lockgate
  routes:
    - services: [{ name: cart, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: secure, namespace: default }
spec:
  ingressClassName: lockgate
  virtualhost: { fqdn: '*.secure.test', tls: { secretName: secure }, ipAllowPolicy: [{ source: Peer, cidr: 192.0.2.0/24 }] }
  routes:
    - services: [{ name: cart, port: 80 }]
---
apiVersion: projectcontour.io/v1
kind: HTTPProxy
metadata: { name: other, namespace: default }
spec:
  ingressClassName: lockgate
  virtualhost: { fqdn: other.test }
  routes:
    - services: [{ name: shop, port: 80 }]
";

/// Returns the requests: whether over TLS, the host, and the path.
fn requests() -> Vec<(bool, &'static str, &'static str)> {
    let paths = [
        "/",
        "/x",
        "/cart",
        "/cart/1",
        "/cartoon",
        "/img",
        "/image",
        "/img/1",
        "/img/shop",
        "/img/shopping",
        "/exact",
        "/exact/",
        "/v1/x",
        "/v/x",
        "/gone",
    ];
    let of_shop = paths.iter().flat_map(|path| [(false, "shop.test", *path), (true, "shop.test", *path)]);
    let others = [(false, "a.secure.test"), (true, "a.secure.test"), (false, "other.test"), (true, "other.test")];
    of_shop.chain(others.map(|(is_tls, host)| (is_tls, host, "/cart"))).collect()
}

/// Returns the answer to each request: status, location of redirects, and backend. A closed connection has no answer.
async fn answers(http: u16, https: u16, authority: &Authority) -> Vec<String> {
    let mut answers = Vec::new();
    for (is_tls, host, path) in requests() {
        let target = if is_tls { Target::https(https, host, authority.der()) } else { Target::http(http, host) };
        let answer = match target.get(path).await {
            Ok(answer) if answer.status == 200 => format!("200 {}", answer.text()),
            // A missing backend is 503 for an Ingress, and 500 for an HTTPRoute.
            Ok(answer) if [500, 503].contains(&answer.status) => "500 or 503".to_owned(),
            Ok(answer) => format!("{} {}", answer.status, answer.header("location")),
            Err(_) => "closed".to_owned(),
        };
        answers.push(format!("{host}{path} over TLS: {is_tls}: {answer}"));
    }
    answers
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_requests_have_the_same_answers() {
    let before = compare("ingress", INGRESSES).await;
    assert!(before.iter().any(|answer| answer.ends_with("closed")), "{before:#?}");
    assert!(before.iter().any(|answer| answer.contains("308 https://a.secure.test/cart")), "{before:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_requests_to_httpproxies_have_the_same_answers() {
    let before = compare("httpproxy", PROXIES).await;
    for expected in ["301 https://shop.test/cart", "302 https://other.test/new", "403 ", "closed"] {
        assert!(before.iter().any(|answer| answer.contains(expected)), "{expected}: {before:#?}");
    }
}

/// Migrates these objects, and compares the answers before, during, and after the migration. Returns the answers.
async fn compare(kind: &str, objects: &str) -> Vec<String> {
    let (shop, cart) = (Backend::start("shop").await, Backend::start("cart").await);
    let (manifests, input, authority) = (Manifests::new(), Manifests::new(), Authority::new());
    let secret = |name: &str, host: &str| authority.issue(&[host]).secret("default", name);
    let base = documents(&[base(&shop, &cart), secret("shop", "shop.test"), secret("secure", "*.secure.test")]);
    for directory in [&manifests, &input] {
        directory.write("base.yaml", &base);
        directory.write("objects.yaml", objects);
    }
    let controller = Lockgate::start(&Source::Manifests(manifests.path().into()), &[]).await;
    let mut envoy = Envoy::start(&controller, Mode::Delta).await;
    envoy.wait_ready().await;
    let (http, https) = (controller.http, controller.https);
    wait_everywhere("the migrated objects", async || {
        Target::https(https, "shop.test", authority.der()).backend("/cart").await.as_deref() == Some("cart")
    })
    .await;
    let before = answers(http, https, &authority).await;

    let (new_http, new_https) = (ports::free(), ports::free());
    let ports = [new_http, new_https].map(|port| port.to_string());
    let directory = input.path().display().to_string();
    let flags = ["--complete", "--gateway", "infra/ingress", "--http-port", &ports[0], "--https-port", &ports[1]];
    let output = migrate_from(kind, &[flags.as_slice(), &[&directory]].concat());
    // The missing Service is a problem.
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    let report = text(&output.stderr);
    let expected = match kind {
        "ingress" => {
            ["Ingress default/shop spec.rules[0].http.paths[6]", "wrote 1 Gateway, 5 HTTPRoutes, 1 ReferenceGrant"]
        }
        _ => ["HTTPProxy default/shop spec.routes[5]", "wrote 1 Gateway, 2 HTTPPolicies, "],
    };
    assert!(expected.iter().all(|expected| report.contains(expected)), "{report}");

    // Both kinds are served at the same time.
    manifests.write("gateway.yaml", &text(&output.stdout));
    wait_everywhere("the Gateway", async || {
        Target::https(new_https, "shop.test", authority.der()).backend("/cart").await.as_deref() == Some("cart")
    })
    .await;
    assert_eq!(answers(http, https, &authority).await, before);
    assert_eq!(answers(new_http, new_https, &authority).await, before);

    manifests.remove("objects.yaml");
    wait_everywhere("the end of the migrated objects", async || {
        Target::http(http, "shop.test").get("/").await.is_ok_and(|answer| answer.status == 404)
    })
    .await;
    assert_eq!(answers(new_http, new_https, &authority).await, before);
    before
}

#[tokio::test(flavor = "multi_thread")]
async fn files_reports_and_exit_codes() {
    let input = Manifests::new();
    input.write(
        "ingresses.yaml",
        &e2e::manifests::ingress("shop", "shop.test", "shop", None).replace("name: http", "number: 80"),
    );
    let directory = input.path().display().to_string();
    let (out, report) = (input.file("out"), input.file("report.json"));
    let (out, report) = (out.display().to_string(), report.display().to_string());
    let output = migrate(&["--output-directory", &out, "--report", &report, "--report-format", "json", &directory]);
    assert_eq!((output.status.code(), &*text(&output.stdout)), (Some(0), ""), "{}", text(&output.stderr));
    let route = fs::read_to_string(format!("{out}/default.yaml")).expect("the HTTPRoute");
    assert!(route.contains("kind: HTTPRoute") && route.contains("shop.test"), "{route}");
    assert!(fs::read_to_string(format!("{out}/lockgate.yaml")).expect("the Gateway").contains("kind: Gateway"));
    let report: Value = serde_json::from_str(&fs::read_to_string(report).expect("the report")).expect("JSON");
    assert!(
        report.as_array().is_some_and(|findings| findings.iter().all(|finding| finding["level"] == "note")),
        "{report}"
    );

    assert_eq!(migrate(&[]).status.code(), Some(2));
    assert_eq!(migrate(&["--gateway", "shop", &directory]).status.code(), Some(2));
    assert_eq!(migrate(&["missing.yaml"]).status.code(), Some(2));
    let named = e2e::manifests::ingress("shop", "shop.test", "shop", None);
    input.write("ingresses.yaml", &named);
    let output = migrate(&[&directory]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("the number of its port is unknown") && errors.contains("Remedy: "), "{errors}");
}
