//! Annotations of other ingress controllers, and the controller of each annotation.
//!
//! Decoding keeps these annotations, so that the translation can report them. `translate` determines which annotations
//! restrict access.

/// The ingress controllers whose annotations are recognized, with the prefixes of their annotation names.
pub const CONTROLLERS: &[(&str, &[&str])] = &[
    ("ingress-nginx", &["nginx.ingress.kubernetes.io/"]),
    ("NGINX Ingress Controller", &["nginx.org/", "nginx.com/", "appprotect.f5.com/", "appprotectdos.f5.com/"]),
    ("Traefik", &["traefik.ingress.kubernetes.io/", "hub.traefik.io/"]),
    ("HAProxy Ingress", &["haproxy-ingress.github.io/"]),
    ("HAProxy Kubernetes Ingress Controller", &["haproxy.org/", "haproxy.com/"]),
    ("OpenShift router", &["haproxy.router.openshift.io/"]),
    ("Kong", &["konghq.com/", "configuration.konghq.com", "plugins.konghq.com"]),
    ("AWS Load Balancer Controller", &["alb.ingress.kubernetes.io/"]),
    ("Application Gateway Ingress Controller", &["appgw.ingress.kubernetes.io/"]),
    (
        "GKE Ingress",
        &[
            "ingress.gcp.kubernetes.io/",
            "networking.gke.io/v1beta1.FrontendConfig",
            "networking.gke.io/managed-certificates",
            "kubernetes.io/ingress.global-static-ip-name",
            "kubernetes.io/ingress.regional-static-ip-name",
            "cloud.google.com/backend-config",
            "beta.cloud.google.com/backend-config",
        ],
    ),
    ("OCI Native Ingress Controller", &["oci-native-ingress.oraclecloud.com/"]),
    ("Contour (before 1.0)", &["contour.heptio.com/"]),
    ("Skipper", &["zalando.org/"]),
    ("Pomerium", &["ingress.pomerium.io/"]),
    ("APISIX", &["k8s.apisix.apache.org/"]),
    ("Higress", &["higress.io/"]),
    ("Emissary-ingress", &["getambassador.io/"]),
    ("Citrix", &["ingress.citrix.com/"]),
    ("F5 BIG-IP", &["virtual-server.f5.com/"]),
    ("Voyager", &["ingress.appscode.com/"]),
    ("several controllers", &["ingress.kubernetes.io/"]),
];

/// The annotations that the translation supports.
const READ: [&str; 3] = [
    "ingress.kubernetes.io/force-ssl-redirect",
    "nginx.ingress.kubernetes.io/force-ssl-redirect",
    "nginx.ingress.kubernetes.io/ssl-redirect",
];

/// Annotations that controllers write themselves: the results of GKE Ingress.
const RESULTS: [&str; 11] = [
    "backends",
    "forwarding-rule",
    "https-forwarding-rule",
    "https-target-proxy",
    "redirect-url-map",
    "rewrite-rule",
    "ssl-cert",
    "ssl-certificates",
    "static-ip",
    "target-proxy",
    "url-map",
];

/// Returns the controller of an annotation if the controller is known and the translation does not support the
/// annotation.
pub fn controller_of(annotation: &str) -> Option<&'static str> {
    let of = |(_, beginnings): &&(&str, &[&str])| beginnings.iter().any(|start| annotation.starts_with(start));
    let (controller, _) = CONTROLLERS.iter().find(of)?;
    let result = annotation.strip_prefix("ingress.kubernetes.io/").is_some_and(|rest| RESULTS.contains(&rest));
    (!READ.contains(&annotation) && !result).then_some(controller)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_belong_to_the_controllers_that_define_them() {
        for (annotation, controller) in [
            ("nginx.ingress.kubernetes.io/auth-url", Some("ingress-nginx")),
            ("nginx.org/basic-auth-secret", Some("NGINX Ingress Controller")),
            ("plugins.konghq.com", Some("Kong")),
            ("ingress.kubernetes.io/auth-type", Some("several controllers")),
            // These annotations are supported by the translation, written by GKE Ingress, or of an unknown controller.
            ("ingress.kubernetes.io/force-ssl-redirect", None),
            ("nginx.ingress.kubernetes.io/ssl-redirect", None),
            ("ingress.kubernetes.io/backends", None),
            ("projectcontour.io/retry-on", None),
            ("cert-manager.io/cluster-issuer", None),
            ("kubectl.kubernetes.io/last-applied-configuration", None),
            ("", None),
        ] {
            assert_eq!(controller_of(annotation), controller, "{annotation}");
        }
    }
}
