//! The input from a real API server.

use std::fs;
use std::process::Command;

use e2e::manifests::{documents, ingress_class, service};
use e2e::{ApiServer, Authority, Manifests, lockgate};

use super::{PROXIES, migrate, migrate_from, text};

#[tokio::test(flavor = "multi_thread")]
async fn the_ingresses_of_a_cluster_are_read() {
    let api = ApiServer::start().await;
    let service = "apiVersion: v1\nkind: Service\nmetadata: { name: shop, namespace: default }\nspec:\n  \
                   ports: [{ name: http, port: 8080 }]\n";
    let ingress = e2e::manifests::ingress("shop", "shop.test", "shop", None);
    api.apply(&documents(&[ingress_class(), service.to_owned(), ingress])).await;
    let kubeconfig = api.kubeconfig("admin").display().to_string();
    let output = migrate(&["--cluster", "current", "--kubeconfig", &kubeconfig, "--gateway", "default/ingress"]);
    let (written, report) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{report}");
    // The number of the named port.
    assert!(written.contains("kind: HTTPRoute") && written.contains("port: 8080"), "{written}\n{report}");
}

/// A role for the user of a kubeconfig: all kinds of objects that the command reads, except for one resource of a group.
fn all_but(group: &str, resource: &str) -> String {
    let resources = [
        ("\"\"", "configmaps"),
        ("\"\"", "namespaces"),
        ("\"\"", "secrets"),
        ("\"\"", "services"),
        ("projectcontour.io", "extensionservices"),
        ("projectcontour.io", "httpproxies"),
        ("projectcontour.io", "tlscertificatedelegations"),
        ("discovery.k8s.io", "*"),
        ("networking.k8s.io", "*"),
        ("gateway.networking.k8s.io", "*"),
        ("lockgate.dev", "*"),
        ("apiextensions.k8s.io", "*"),
    ];
    let permitted = resources.iter().filter(|one| **one != (group, resource));
    let rules: String = permitted
        .map(|(group, resource)| {
            format!("- {{ apiGroups: [{group}], resources: [{resource:?}], verbs: [list, watch] }}\n")
        })
        .collect();
    format!(
        "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: {{ name: reader }}\nrules:\n{rules}---\n\
         apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {{ name: reader }}\n\
         roleRef: {{ apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader }}\n\
         subjects: [{{ apiGroup: rbac.authorization.k8s.io, kind: User, name: controller }}]\n"
    )
}

/// Returns the findings of a report, without the places of the objects, and the number of written objects.
fn report(errors: &str) -> Vec<String> {
    let levels = ["error: ", "warning: ", "note: ", "wrote "];
    let finding = |line: &str| levels.iter().find_map(|level| line.find(level)).map(|at| line[at..].to_owned());
    let mut findings: Vec<String> = errors.lines().filter_map(finding).collect();
    findings.sort();
    findings
}

#[tokio::test(flavor = "multi_thread")]
async fn the_httpproxies_of_a_cluster_are_written_like_those_of_files() {
    let api = ApiServer::start().await;
    let definitions = e2e::process::repository().join("crds/contour").display().to_string();
    api.kubectl(&["create", "-f", &definitions], "").await;
    api.kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=30s"], "").await;
    let authority = Authority::new();
    let secret = |name: &str, host: &str| authority.issue(&[host]).secret("default", name);
    let objects = documents(&[
        ingress_class(),
        service("shop", "", &[]),
        service("cart", "", &[]),
        secret("shop", "shop.test"),
        secret("secure", "*.secure.test"),
        PROXIES.to_owned(),
    ]);
    api.apply(&objects).await;
    // The files have the creation times of the objects, which decide their order.
    let kinds = "httpproxies,services,endpointslices,secrets,ingressclasses,namespaces";
    let files = Manifests::new();
    files.write("all.yaml", &api.kubectl(&["get", kinds, "--all-namespaces", "--output", "yaml"], "").await);
    let of_files = migrate_from("httpproxy", &["--complete", &files.path().display().to_string()]);
    let of_cluster = |user: &str| {
        let kubeconfig = api.kubeconfig(user).display().to_string();
        let output = migrate_from("httpproxy", &["--context", "current", "--kubeconfig", &kubeconfig]);
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, written, errors) = of_cluster("admin");
    // The missing Service is a problem.
    assert_eq!((code, of_files.status.code()), (Some(1), Some(1)), "{errors}");
    assert!(written.contains("kind: HTTPPolicy") && written.matches("kind: HTTPRoute").count() > 1, "{written}");
    assert_eq!(written, text(&of_files.stdout));
    assert_eq!(report(&errors), report(&text(&of_files.stderr)));

    // A kind without permission is named. Only that of the migrated objects is needed.
    let (code, written_without, errors) = of_cluster("controller");
    assert_eq!((code, &*written_without), (Some(2), ""), "{errors}");
    let unread = "the HTTPProxies of the cluster cannot be read";
    assert!(errors.contains(unread), "{errors}");
    for (group, resource) in [("\"\"", "secrets"), ("projectcontour.io", "httpproxies")] {
        api.apply(&all_but(group, resource)).await;
        let refused = |errors: &str| -> Vec<String> {
            errors.lines().filter(|line| line.contains("cannot list ")).map(str::to_owned).collect()
        };
        let only = |refused: &[String]| matches!(refused, [one] if one.contains(&format!("cannot list {resource}")));
        e2e::wait_until("the role is in force", async || only(&refused(&of_cluster("controller").2))).await;
        let (code, written_without, errors) = of_cluster("controller");
        assert!(only(&refused(&errors)), "{errors}");
        match resource {
            "httpproxies" => {
                assert_eq!((code, &*written_without), (Some(2), ""), "{errors}");
                assert!(errors.contains(unread), "{errors}");
            }
            _ => assert_eq!((code, written_without), (Some(1), written.clone()), "{errors}"),
        }
    }
}

/// Contour's ConfigMap, and another one with its name.
const CONFIGURATION: &str = "\
apiVersion: v1
kind: Namespace
metadata: { name: projectcontour }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: contour, namespace: projectcontour }
data:
  contour.yaml: |
    timeouts: { request-timeout: 7s }
    no-such-key: 1
---
apiVersion: v1
kind: ConfigMap
metadata: { name: contour, namespace: default }
data: { dashboard.json: '{}' }
";

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_and_the_configuration_of_contour_are_read_from_a_cluster() {
    let api = ApiServer::start().await;
    let ingress = e2e::manifests::ingress("shop", "shop.test", "shop", None);
    api.apply(&documents(&[CONFIGURATION.to_owned(), ingress])).await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("lockgate.yaml").display().to_string();
    let contour = |user: &str, more: &[&str]| {
        let kubeconfig = api.kubeconfig(user).display().to_string();
        let args = ["migrate", "contour", "--kubeconfig", &kubeconfig, "--settings-file", &file];
        let output = Command::new(lockgate::binary()).args(args).args(more).output().expect("the program");
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, report, errors) = contour("admin", &[]);
    assert_eq!(code, Some(1), "{report}\n{errors}");
    // The Service is missing, and a key is unknown.
    for expected in [
        "(cluster): attention: Ingress default/shop spec.rules[0].http.paths[0].backend.service",
        "(cluster): attention: ConfigMap projectcontour/contour no-such-key: ",
        "(cluster): same: ConfigMap projectcontour/contour timeouts.request-timeout",
    ] {
        assert!(report.contains(expected), "{expected}\n{report}");
    }
    assert!(errors.contains("with the configuration of ConfigMap projectcontour/contour; wrote"), "{errors}");
    assert!(fs::read_to_string(&file).expect("the settings").contains("7s"));
    // Without permissions, the command names the kinds that it could not read.
    let (code, _, errors) = contour("controller", &[]);
    assert_eq!(code, Some(2), "{errors}");
    let rule = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\nmetadata: { name: reader }\nrules:\n\
                - { apiGroups: [networking.k8s.io], resources: [ingresses], verbs: [list, watch] }\n---\n\
                apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: { name: reader }\n\
                roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader }\n\
                subjects: [{ apiGroup: rbac.authorization.k8s.io, kind: User, name: controller }]\n";
    api.apply(rule).await;
    e2e::wait_until("the role is in force", async || contour("controller", &[]).0 != Some(2)).await;
    let (_, report, errors) = contour("controller", &[]);
    assert!(report.contains("Ingress default/shop"), "{report}");
    assert!(errors.contains("cannot list the ConfigMaps: ") && errors.contains("--contour-config FILE"), "{errors}");
    assert!(errors.contains("with the defaults of Contour, because there is no configuration of it"), "{errors}");
}
