//! Annotations of other ingress controllers that restrict access: a real Envoy denies access, unless the settings
//! ignore them.

use e2e::manifests::{documents, ingress};
use e2e::{Target, wait_everywhere};

use super::{HOST, Site};

/// Formats an Ingress for a host with annotations, the content of a YAML flow mapping.
fn annotated(name: &str, host: &str, annotations: &str) -> String {
    let with = format!("namespace: default, annotations: {{ {annotations} }}");
    ingress(name, host, "shop", None).replace("namespace: default", &with)
}

async fn answers(target: &Target, status: u16, text: &str) -> bool {
    target.get("/").await.is_ok_and(|answer| answer.status == status && answer.text().contains(text))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_another_controller_would_protect_is_denied_unless_the_settings_ignore_it() {
    let site = Site::with("").await;
    let at = |host: &str| Target::http(site.lockgate.http, host);
    let cases = [
        ("login.test", "nginx.ingress.kubernetes.io/auth-url", "https://login.test/check"),
        ("range.test", "nginx.ingress.kubernetes.io/whitelist-source-range", "10.0.0.0/8"),
        ("mtls.test", "nginx.ingress.kubernetes.io/auth-tls-secret", "default/ca"),
        ("snippet.test", "nginx.ingress.kubernetes.io/configuration-snippet", "deny all;"),
        ("traefik.test", "traefik.ingress.kubernetes.io/router.middlewares", "default-auth@kubernetescrd"),
        ("haproxy.test", "haproxy.org/allow-list", "10.0.0.0/8"),
        ("kong.test", "konghq.com/plugins", "key-auth"),
        ("alb.test", "alb.ingress.kubernetes.io/inbound-cidrs", "10.0.0.0/8"),
    ];
    let ingresses: Vec<String> = cases
        .iter()
        .map(|(host, name, value)| annotated(host, host, &format!("{name}: '{value}'")))
        // This annotation restricts no access.
        .chain([annotated("open", "open.test", "nginx.ingress.kubernetes.io/whitelist-source-range: '0.0.0.0/0,::/0'")])
        .chain([annotated("plain", "plain.test", "nginx.ingress.kubernetes.io/proxy-body-size: 1m")])
        .collect();
    site.manifests.write("foreign.yaml", &documents(&ingresses));
    for (host, name, _) in cases {
        wait_everywhere(&format!("403 for {host}"), async || answers(&at(host), 403, name).await).await;
        site.lockgate.logged(&["AccessNotRestricted", host, name, "answered 403"]).await;
    }
    for host in [HOST, "open.test", "plain.test"] {
        wait_everywhere(&format!("200 for {host}"), async || answers(&at(host), 200, "").await).await;
    }
    site.lockgate.logged(&["UnsupportedAnnotation", "plain", "proxy-body-size", "left out"]).await;

    // An operator ignores one annotation, and then all.
    site.config.write("lockgate.yaml", "ingress: { ignoredAnnotations: [konghq.com/plugins] }\n");
    wait_everywhere("the annotation that is ignored", async || answers(&at("kong.test"), 200, "").await).await;
    assert!(answers(&at("login.test"), 403, "auth-url").await);
    site.config.write("lockgate.yaml", "ingress: { restrictingAnnotations: ignore }\n");
    for (host, ..) in cases {
        wait_everywhere(&format!("200 for {host}"), async || answers(&at(host), 200, "").await).await;
    }
    site.config.write("lockgate.yaml", "");
    for (host, name, _) in cases {
        wait_everywhere(&format!("403 for {host}"), async || answers(&at(host), 403, name).await).await;
    }
}
