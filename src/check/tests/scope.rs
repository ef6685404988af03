//! References to objects outside of the manifests: unknown, missing, or in a cluster.

use std::collections::BTreeSet;

use lockgate_route::objects::{Kind, Objects};
use lockgate_route::settings::Settings;
use lockgate_route::translate::Reason;

use super::super::finding::Rule;
use super::{NOW, checked};
use crate::check::{Finding, Level, Manifests, Scope, check};

const INGRESS: &str = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: cart, namespace: shop}
spec:
  ingressClassName: public
  tls:
    - hosts: [shop.example.com]
      secretName: cert
  rules:
    - host: shop.example.com
      http:
        paths:
          - path: /cart
            pathType: Prefix
            backend:
              service: {name: cart, port: {number: 80}}
";

const ROUTE: &str = "\
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata: {name: cart, namespace: shop}
spec:
  parentRefs:
    - {name: public, namespace: infra}
    - {name: public, namespace: infra, sectionName: https, port: 443}
  rules:
    - matches:
        - method: get
      backendRefs: [{name: cart, port: 80}]
";

/// Returns level, rule, and line of each finding.
fn summaries(findings: &[Finding]) -> Vec<(Level, &'static str, usize)> {
    findings.iter().map(|finding| (finding.level, finding.rule.as_str(), finding.line)).collect()
}

#[test]
fn objects_outside_of_the_manifests_are_notes_unless_these_are_complete() {
    let part = checked("a.yaml", INGRESS, &Scope::Part);
    let note = |line| (Level::Note, "NotInManifests", line);
    assert_eq!(summaries(&part), [note(5), note(8), note(16)], "{part:#?}");
    assert!(part[2].message == "Service \"shop/cart\" is not in the manifests", "{part:#?}");

    let complete = checked("a.yaml", INGRESS, &Scope::Complete);
    assert_eq!(summaries(&complete), [(Level::Error, "IngressClassNotFound", 5)], "{complete:#?}");

    let class = "---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: public}\n\
        spec: {controller: lockgate.dev/ingress-controller}\n";
    let complete = checked("a.yaml", &format!("{INGRESS}{class}"), &Scope::Complete);
    let errors = [(Level::Error, "SecretNotValid", 8), (Level::Error, "ServiceUnresolvedReference", 16)];
    assert_eq!(summaries(&complete), errors, "{complete:#?}");
}

#[test]
fn an_ingress_of_another_controller_is_not_checked() {
    let class = "---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: public}\n\
        spec: {controller: k8s.io/ingress-nginx}\n";
    let text = format!("{INGRESS}{class}").replace("/cart\n", "cart\n");
    let findings = checked("a.yaml", &text, &Scope::Part);
    assert_eq!(summaries(&findings), [(Level::Note, "NotServed", 5)], "{findings:#?}");

    let mut settings = Settings::default();
    settings.ingress.class_names.push("public".to_owned());
    let mut manifests = Manifests::default();
    manifests.add("a.yaml", text);
    let findings = check(&manifests, &settings, &Scope::Part, NOW);
    let path = findings.iter().find(|finding| finding.level == Level::Error);
    assert!(path.is_some_and(|finding| finding.line == 13), "{findings:#?}");
}

#[test]
fn an_ingress_without_a_class_is_checked_unless_the_manifests_are_complete() {
    let text = INGRESS.replace("  ingressClassName: public\n", "");
    let findings = checked("a.yaml", &text, &Scope::Part);
    let [warning, note] = [(Level::Warning, "NotServed"), (Level::Note, "NotInManifests")];
    let expected = [warning, note, note].into_iter().zip([4, 7, 15]).map(|((level, rule), line)| (level, rule, line));
    assert_eq!(summaries(&findings), expected.collect::<Vec<_>>(), "{findings:#?}");
    let findings = checked("a.yaml", &text, &Scope::Complete);
    assert_eq!(summaries(&findings), [(Level::Warning, "NotServed", 4)], "{findings:#?}");

    // The settings, or a default class, serve it.
    let mut settings = Settings::default();
    settings.ingress.classless = true;
    let mut manifests = Manifests::default();
    manifests.add("a.yaml", text.clone());
    let findings = check(&manifests, &settings, &Scope::Part, NOW);
    assert!(findings.iter().all(|finding| finding.rule == Rule::NotInManifests), "{findings:#?}");
    let class = |controller: &str| {
        format!(
            "---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata:\n  name: public\n  annotations: \
             {{ingressclass.kubernetes.io/is-default-class: \"true\"}}\nspec: {{controller: {controller}}}\n"
        )
    };
    let findings = checked("a.yaml", &format!("{text}{}", class("lockgate.dev/ingress-controller")), &Scope::Part);
    assert!(findings.iter().all(|finding| finding.rule == Rule::NotInManifests), "{findings:#?}");
    let findings = checked("a.yaml", &format!("{text}{}", class("k8s.io/ingress-nginx")), &Scope::Part);
    assert_eq!(summaries(&findings), [(Level::Note, "NotServed", 4)], "{findings:#?}");
}

#[test]
fn gateway_classes_of_the_user_are_the_only_ones_that_are_checked() {
    let gateway = |name: &str, class: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}, namespace: infra}}\n\
             spec:\n  gatewayClassName: {class}\n  listeners: [{{name: a, port: 80, protocol: SMTP}}]\n"
        )
    };
    let class = "---\napiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: theirs}\n\
        spec: {controllerName: example.com/other}\n";
    let text = gateway("one", "ours") + &gateway("two", "theirs") + class;
    let names = |classes: &[&str]| {
        let mut manifests = Manifests::default();
        manifests.add("a.yaml", text.clone());
        manifests.set_gateway_classes(classes.iter().map(|name| (*name).to_owned()));
        let mut findings = check(&manifests, &Settings::default(), &Scope::Part, NOW);
        findings.retain(|finding| finding.level == Level::Error);
        findings.into_iter().map(|finding| finding.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&[]), ["one"]);
    assert_eq!(names(&["ours"]), ["one"]);
    assert_eq!(names(&["theirs"]), ["two"]);
    assert_eq!(names(&["ours", "theirs"]), ["one", "two"]);
    assert!(names(&["others"]).is_empty());
}

#[test]
fn a_route_without_a_parent_is_served_by_nobody() {
    let parents = "  parentRefs:\n    - {name: public, namespace: infra}\n    - {name: public, namespace: infra, sectionName: https, port: 443}\n";
    let findings = checked("a.yaml", &ROUTE.replace(parents, ""), &Scope::Part);
    assert_eq!(summaries(&findings)[0], (Level::Warning, "NotServed", 4), "{findings:#?}");
    let mesh = ROUTE.replace(parents, "  parentRefs: [{name: cart, kind: Service, group: \"\"}]\n");
    let findings = checked("a.yaml", &mesh, &Scope::Part);
    assert!(findings.iter().any(|one| one.rule == Rule::NotServed && one.level == Level::Note), "{findings:#?}");
}

#[test]
fn addresses_of_the_own_machine_are_for_manifests_without_a_cluster() {
    let slice = "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: cart-1, namespace: shop, labels: \
        {kubernetes.io/service-name: cart}}\naddressType: IPv4\nports: [{name: http, port: 80}]\nendpoints: [{addresses: [127.0.0.1]}]\n---\n";
    let service = "---\napiVersion: v1\nkind: Service\nmetadata: {name: cart, namespace: shop}\n\
        spec: {ports: [{name: http, port: 80}]}\n";
    let text = format!("{slice}{INGRESS}{service}");
    let levels = |scope: &Scope| {
        let findings = checked("a.yaml", &text, scope);
        findings.iter().filter(|one| one.kind == "EndpointSlice").map(|one| one.level).collect::<Vec<_>>()
    };
    assert_eq!(levels(&Scope::Part), [Level::Note]);
    assert_eq!(levels(&Scope::Complete), []);
    assert_eq!(levels(&cluster(CLUSTER)), [Level::Error]);
}

#[test]
fn a_route_is_checked_without_its_gateway() {
    let findings = checked("a.yaml", ROUTE, &Scope::Part);
    let expected = [
        (Level::Note, "NotInManifests", 6),
        (Level::Error, "RouteMatchNotValid", 10),
        (Level::Note, "NotInManifests", 11),
    ];
    assert_eq!(summaries(&findings), expected, "{findings:#?}");
    // The API server rejects the method without a Gateway, too.
    let findings = checked("a.yaml", ROUTE, &Scope::Complete);
    let expected = [(Level::Warning, "NotServed", 5), (Level::Error, "InvalidObject", 10)];
    assert_eq!(summaries(&findings), expected, "{findings:#?}");
}

#[test]
fn a_missing_service_is_not_said_to_have_an_impossible_port() {
    let text = INGRESS.replace("number: 80", "number: 70000");
    assert_ne!(text, INGRESS);
    let findings = checked("a.yaml", &text, &Scope::Part);
    let error = findings.iter().find(|finding| finding.level == Level::Error);
    assert!(error.is_some_and(|one| one.message == "port 70000 is not a number from 1 to 65535"), "{findings:#?}");
    let note = findings.iter().find(|finding| finding.message.starts_with("Service "));
    assert!(note.is_some_and(|one| one.consequence == "checked as if it existed"), "{findings:#?}");
}

#[test]
fn a_secret_of_the_manifests_without_keys_is_not_said_to_be_missing() {
    let secret =
        |more: &str| format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: cert, namespace: shop}}\n{more}\n");
    for (more, expected) in [
        ("data: {other: aGk=}", "Secret \"shop/cert\" has no data[\"tls.crt\"] and no data[\"tls.key\"]"),
        ("type: a/b", "Secret \"shop/cert\" has the type \"a/b\", not \"kubernetes.io/tls\" or \"Opaque\""),
        ("type: kubernetes.io/tls", "Secret \"shop/cert\" is not valid (data[\"tls.crt\"]: missing"),
    ] {
        let findings = checked("a.yaml", &format!("{INGRESS}{}", secret(more)), &Scope::Part);
        let found = findings.iter().find(|finding| finding.field == "spec.tls[0].secretName");
        assert!(found.is_some_and(|one| one.message.starts_with(expected)), "{expected}: {findings:#?}");
    }
}

#[test]
fn gateways_with_one_port_do_not_conflict() {
    let gateway = |name: &str| {
        format!(
            "---\napiVersion: gateway.networking.k8s.io/v1\nkind: Gateway\nmetadata: {{name: {name}, namespace: infra}}\n\
             spec:\n  gatewayClassName: lockgate\n  listeners: [{{name: http, port: 8080, protocol: HTTP}}]\n"
        )
    };
    let findings = checked("a.yaml", &(gateway("a") + &gateway("b")), &Scope::Part);
    assert_eq!(summaries(&findings), [(Level::Note, "NotInManifests", 6)], "{findings:#?}");
    assert!(findings[0].message.ends_with("(2 references)"), "{findings:#?}");
}

/// Returns the objects of a cluster with the class `public`, and `text`.
fn cluster(text: &str) -> Scope {
    let mut manifests = Manifests::default();
    manifests.add("cluster.yaml", text.to_owned());
    let mut cluster = Objects::default();
    for object in manifests.objects() {
        cluster.apply(object.clone());
    }
    Scope::Against { cluster: Box::new(cluster), unlisted: BTreeSet::new() }
}

const CLUSTER: &str = "\
apiVersion: networking.k8s.io/v1
kind: IngressClass
metadata: {name: public}
spec: {controller: lockgate.dev/ingress-controller}
---
apiVersion: v1
kind: Service
metadata: {name: cart, namespace: shop}
spec: {ports: [{port: 80}]}
---
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: old, namespace: other, creationTimestamp: \"2026-01-01T00:00:00Z\"}
spec:
  ingressClassName: public
  rules:
    - host: other.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: missing, port: {number: 80}}}}]}
";

/// `INGRESS` without TLS.
fn ingress() -> String {
    INGRESS.replace("  tls:\n    - hosts: [shop.example.com]\n      secretName: cert\n", "")
}

#[test]
fn a_cluster_has_the_objects_that_the_manifests_lack_and_its_own_problems_are_not_reported() {
    assert!(checked("a.yaml", &ingress(), &cluster(CLUSTER)).is_empty());
    let missing = checked("a.yaml", &ingress().replace("name: cart, port", "name: order, port"), &cluster(CLUSTER));
    assert_eq!(summaries(&missing), [(Level::Error, "ServiceUnresolvedReference", 13)], "{missing:#?}");
    let class = checked("a.yaml", &ingress().replace("public", "internal"), &cluster(CLUSTER));
    assert_eq!(summaries(&class), [(Level::Error, "IngressClassNotFound", 5)], "{class:#?}");
}

#[test]
fn a_kind_without_permission_to_list_is_unknown() {
    let Scope::Against { cluster, .. } = cluster(CLUSTER) else { panic!("another scope") };
    let scope = Scope::Against { cluster, unlisted: BTreeSet::from([Kind::SECRET]) };
    let findings = checked("a.yaml", INGRESS, &scope);
    assert_eq!(summaries(&findings), [(Level::Note, "NotInManifests", 8)], "{findings:#?}");
}

#[test]
fn a_host_that_another_namespace_owns_is_a_conflict() {
    let taken = checked("a.yaml", &ingress().replace("host: shop", "host: other"), &cluster(CLUSTER));
    assert_eq!(summaries(&taken), [(Level::Error, "Conflicted", 7)], "{taken:#?}");
}

#[test]
fn an_object_of_the_cluster_that_would_lose_its_host_is_reported() {
    // The older Ingress moves to the host of the younger one.
    let young = "---\n".to_owned()
        + &ingress().replace("namespace: shop}", "namespace: shop, creationTimestamp: \"2026-02-01T00:00:00Z\"}");
    let moved = "\
apiVersion: networking.k8s.io/v1
kind: Ingress
metadata: {name: old, namespace: other}
spec:
  ingressClassName: public
  rules:
    - host: shop.example.com
      http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: missing, port: {number: 80}}}}]}
";
    let findings = checked("a.yaml", moved, &cluster(&format!("{CLUSTER}{young}")));
    let lost = findings.iter().find(|finding| finding.rule == Rule::Reason(Reason::Conflicted));
    let lost = lost.unwrap_or_else(|| panic!("no conflict: {findings:#?}"));
    assert_eq!((&*lost.file, &*lost.namespace, &*lost.name), ("", "shop", "cart"));
}

#[test]
fn faults_have_the_lines_of_their_documents_and_list_items() {
    let list = "\
apiVersion: v1
kind: List
items:
  - apiVersion: v1
    kind: Service
    metadata: {name: cart, namespace: shop}
    spec: {ports: [{port: 80}]}
  - apiVersion: networking.k8s.io/v1
    kind: Ingress
    metadata: {name: cart, namespace: shop}
    spec:
      ingressClassName: lockgate
      rules:
        - host: shop:80
---
a: [
---
apiVersion: v1
kind: Service
metadata: {name: order, namespace: shop}
spec:
  ports:
    - port: 0
";
    let findings = checked("a.yaml", list, &Scope::Part);
    let lines: Vec<_> = findings.iter().map(|finding| (finding.rule.as_str(), finding.line)).collect();
    assert_eq!(
        lines,
        [("NotInManifests", 12), ("HostNotValid", 14), ("InvalidYaml", 16), ("InvalidObject", 23)],
        "{findings:#?}"
    );
}

#[test]
fn a_certificate_that_expires_soon_is_a_warning() {
    let text = include_str!("../cases/broken/tls-certificate-of-another-host.yaml");
    let mut manifests = Manifests::default();
    manifests.add("a.yaml", text.to_owned());
    let expires = |now: i64| {
        let findings = check(&manifests, &Settings::default(), &Scope::Part, now);
        findings.into_iter().find(|finding| finding.rule == Rule::Reason(Reason::CertificateExpiring))
    };
    assert_eq!(expires(NOW), None);
    let finding = expires(i64::MAX / 2).unwrap_or_else(|| panic!("no finding"));
    assert_eq!(finding.level, Level::Warning);
    assert!(finding.line > 0 && finding.message.contains("expired"), "{finding:?}");
}

/// Returns the findings about `text`, whose objects without a namespace are in `namespace`.
fn checked_in(namespace: Option<&str>, text: &str, settings: &Settings) -> Vec<Finding> {
    let mut manifests = Manifests::in_namespace(namespace.map(str::to_owned));
    manifests.add("a.yaml", text.to_owned());
    check(&manifests, settings, &Scope::Part, NOW)
}

#[test]
fn a_missing_service_with_a_namesake_in_another_namespace_is_explained() {
    let service = |namespace: &str| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: cart{namespace}}}\nspec: {{ports: [{{port: 80}}]}}\n"
        )
    };
    let remedy_of = |text: &str, namespace| {
        let findings = checked_in(namespace, text, &Settings::default());
        let missing = findings.into_iter().find(|finding| finding.field.ends_with("backend.service.name"));
        missing.map(|finding| finding.remedy)
    };
    let text = format!("{INGRESS}{}", service(""));
    let remedy = remedy_of(&text, None).unwrap();
    assert!(remedy.starts_with("Service \"default/cart\" is in the manifests."), "{remedy}");
    assert!(remedy.contains("--namespace"), "{remedy}");
    assert_eq!(remedy_of(&text, Some("shop")), None);
    // The Ingress has no namespace, and the Service has one.
    let text = format!("{}{}", INGRESS.replace(", namespace: shop", ""), service(", namespace: shop"));
    let remedy = remedy_of(&text, None).unwrap();
    assert!(remedy.starts_with("Service \"shop/cart\" is in the manifests."), "{remedy}");
    assert_eq!(remedy_of(&text, Some("shop")), None);
    // Both name their namespaces, so the Service is another one.
    let text = format!("{INGRESS}{}", service(", namespace: orders"));
    assert_eq!(remedy_of(&text, None).as_deref(), Some(Rule::NotInManifests.remedy()));
}

#[test]
fn a_tls_entry_without_a_secret_depends_on_the_default_certificate() {
    let text = INGRESS.replace("\n      secretName: cert", "");
    let of_tls = |settings: &Settings| {
        let findings = checked_in(None, &text, settings);
        let found = findings.into_iter().find(|finding| finding.field.starts_with("spec.tls"));
        found.map(|finding| (finding.level, finding.rule.as_str()))
    };
    let mut settings = Settings::default();
    assert_eq!(of_tls(&settings), Some((Level::Warning, "SecretNotValid")));
    settings.tls.default_secret = Some(("infra".to_owned(), "wildcard".to_owned()));
    assert_eq!(of_tls(&settings), Some((Level::Note, "NotInManifests")));
    let class = "---\napiVersion: networking.k8s.io/v1\nkind: IngressClass\nmetadata: {name: public}\n\
        spec: {controller: lockgate.dev/ingress-controller}\n";
    let findings = checked("a.yaml", &format!("{text}{class}"), &Scope::Complete);
    assert!(summaries(&findings).iter().any(|one| one.0 == Level::Error && one.1 == "SecretNotValid"), "{findings:#?}");
}
