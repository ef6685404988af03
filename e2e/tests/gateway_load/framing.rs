//! Filters of routes that would change where a message ends, or control Envoy. Clients that share a connection would receive parts
//! of each other's messages.

use std::fmt::Write;

use e2e::attacks::framing::filters;
use e2e::authorizer::{Authorizer, FRAMING, USER};
use e2e::manifests::{documents, service};
use e2e::{Echo, Mode};
use hyper::Method;

use super::site::{Site, answers, route};

#[tokio::test(flavor = "multi_thread")]
async fn no_route_changes_where_a_message_ends() {
    let site = Site::open(Mode::Delta).await;
    let filters = filters();
    // Rules have a maximum number, so each filter has a route.
    let mut routes = String::new();
    for (number, filter) in filters.iter().enumerate() {
        let matched = |place: &str| format!("matches: [{{ path: {{ value: /{place} }} }}]");
        write!(
            routes,
            "apiVersion: gateway.networking.k8s.io/v1\nkind: HTTPRoute\nmetadata: {{ name: filter-{number}, namespace: default \
             }}\nspec:\n  parentRefs: [{{ name: one }}]\n  hostnames: [filter-{number}.test]\n  rules:\n  \
             - {{ {}, filters: [{filter}], backendRefs: [{{ name: a, port: 80 }}] }}\n  \
             - {{ {}, backendRefs: [{{ name: a, port: 80, filters: [{filter}] }}] }}\n  \
             - {{ {}, backendRefs: [{{ name: a, port: 80 }}] }}\n---\n",
            matched("rule"),
            matched("backend"),
            matched("")
        )
        .expect("text");
    }
    site.manifests.write("filters.yaml", &routes);
    for number in 0..filters.len() {
        answers(&site.target(0, &format!("filter-{number}.test")), 200).await;
    }
    let requests = site.backends[0].requests();
    let inner = "GET /smuggled HTTP/1.1\r\nhost: other.test\r\n\r\n";
    for (number, filter) in filters.iter().enumerate() {
        for place in ["/rule", "/backend"] {
            let target = site.target(0, &format!("filter-{number}.test"));
            let answer = target.send(Method::POST, place, inner).await.expect("an answer");
            assert_eq!(answer.status, 500, "{place} {filter}");
        }
    }
    assert_eq!(site.backends[0].requests(), requests, "no request has reached the backend");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_authorization_server_changes_where_a_message_ends() {
    let (site, server, echo) = (Site::open(Mode::Delta).await, Authorizer::start().await, Echo::start().await);
    let policy = "apiVersion: lockgate.dev/v1alpha1\nkind: HTTPPolicy\nmetadata: { name: asked, namespace: default }\nspec:\n  \
                  targetRefs: [{ group: gateway.networking.k8s.io, kind: HTTPRoute, name: asked }]\n  \
                  externalAuthorization: { backendRef: { name: authorizer, port: 80 } }\n";
    let objects = [
        service("authorizer", "", &[server.address]),
        service("echo", "", &[echo.address]),
        route("asked", &["one"], "asked.test", &[("echo", 1)]),
        policy.to_owned(),
    ];
    site.manifests.write("asked.yaml", &documents(&objects));
    let target = site.target(0, "asked.test");
    answers(&target, 200).await;
    let answer = target.send(Method::POST, "/framing", "hello").await.expect("an answer");
    assert!(server.was_asked("/framing"));
    let text = answer.text();
    assert_eq!((answer.status, text.contains(&format!("{}: {}", USER.0, USER.1))), (200, true), "{text}");
    for (name, value) in FRAMING {
        assert!(!text.contains(&format!("{name}: {value}\n")), "{name}: {text}");
    }
    assert!(text.contains("content-length: 5"), "{text}");
}
